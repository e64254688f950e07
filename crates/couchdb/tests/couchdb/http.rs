//! Requests and answers over HTTP, on connections in memory: bodies in several parts, compressed ones, and lists.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};

use base::memory::MemoryShares;
use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name, Random};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use couchdb::limits::{BODY_BYTES_MAX, LISTED_IDS_BYTES_MAX};
use couchdb::multipart::parts_of;
use couchdb::write::Revisions;
use couchdb::{Service, ServiceOptions, Services};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::backend::{Accounts, CodeProof, FirstFactor, LoggedIn, LoginProof, LoginWatch};
use http::front::Compression as CompressedFor;
use http::{Authenticator, Front, FrontOptions, SessionOptions, Sessions, serve};
use notes::{Access, Identity, Item, ItemValue, NewNote, level};
use sasl::{Credentials, Login, LoginError, LoginOrigin, PasswordRequest};
use serde_json::{Value, json};
use store::{Batch, Direction, KeyRange, Table, TableReader as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wire::{Peer, PoolOptions, SessionTermination, Shutdown, Stream, WorkerPool};

use super::{ANN, PATH, Server};

/// The signals that end the logins of people which are watched.
type WatchedLogins = Arc<Mutex<BTreeMap<String, SessionTermination>>>;

/// Everybody may log in, with any password.
struct AnyPassword(WatchedLogins);

/// A login that is watched.
struct Watch(SessionTermination);

impl LoginWatch for Watch {
    fn termination(&self) -> &SessionTermination {
        &self.0
    }
}

impl Credentials for AnyPassword {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        Ok(Login::new(request.authentication_id()))
    }
}

impl Accounts for AnyPassword {
    fn identify(&self, _: &LoginOrigin, login: &Login, _: Option<LoginProof>) -> Result<LoggedIn, LoginError> {
        let identity = Arc::new(Identity::person(login.name.as_str()));
        Ok(LoggedIn { identity, stamp: 0, password: login.password })
    }

    fn watch(&self, _: &LoginOrigin, login: &Login, _: LoginProof) -> Result<Box<dyn LoginWatch>, LoginError> {
        let mut watched = self.0.lock().expect("no test panics with it");
        Ok(Box::new(Watch(watched.entry(login.name.clone()).or_default().clone())))
    }

    /// There is no login page.
    fn check_first_factor(&self, _: &LoginOrigin, _: &PasswordRequest) -> Result<FirstFactor, LoginError> {
        Err(LoginError::InvalidCredentials)
    }

    fn check_second_factor(&self, _: &LoginOrigin, _: &str, _: &str) -> Result<CodeProof, LoginError> {
        Err(LoginError::InvalidCredentials)
    }
}

/// A server with its service.
pub(crate) struct World {
    pub(crate) server: Server,
    front: Arc<Front>,
    watched: WatchedLogins,
    /// The peer of each connection.
    peer: Peer,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Returns the fields and contents of the parts of the body.
    fn parts(&self) -> Vec<(String, Vec<u8>)> {
        let kind = self.field("content-type").expect("a media type");
        parts_in(kind, &self.body)
    }
}

fn parts_in(kind: &str, body: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (_, boundary) = kind.split_once("boundary=\"").expect("a boundary");
    let parts = parts_of(body, boundary.trim_end_matches('"')).expect("several parts");
    let kind = |part: &couchdb::multipart::BodyPart<'_>| part.field("content-type").unwrap_or_default().to_owned();
    parts.iter().map(|part| (kind(part), part.content.to_vec())).collect()
}

impl World {
    pub(crate) fn new() -> Self {
        let server = Server::new(1);
        let clock = Arc::new(SimClock::new());
        let options = PoolOptions { workers: 1, ..PoolOptions::default() };
        let pool = WorkerPool::new(&options, clock.clone()).expect("threads can be started");
        let name = Name::new(&server.name);
        let random = Arc::new(SeededRandom::new(7));
        let sources: (Arc<dyn Clock>, Arc<dyn Random>) = (clock.clone(), random.clone());
        let sessions = Sessions::open(&server.databases, &name, sources, SessionOptions::default());
        let sessions = sessions.expect("the sessions open");
        let watched = WatchedLogins::default();
        let accounts = Arc::new(AnyPassword(Arc::clone(&watched)));
        let services = Services {
            databases: Arc::clone(&server.databases),
            authenticator: Authenticator::new(accounts, pool.clone(), pool.clone(), sessions),
            pool,
            memory: MemoryShares::unlimited(),
            random,
            shutdown: Shutdown::new(),
        };
        let routes = Service::new(services, ServiceOptions::default()).routes();
        let options = FrontOptions { compression: CompressedFor::Remote, ..FrontOptions::default() };
        let front = Front::new(options, routes, MemoryShares::unlimited(), clock, Shutdown::new());
        Self { server, front, watched, peer: Peer::local() }
    }

    /// Sends a request of Ann on a connection of its own, with header fields and a body.
    async fn send(&self, request: &str, fields: &[&str], body: &[u8]) -> Answer {
        let login = format!("authorization: Basic {}", STANDARD.encode(format!("{ANN}:any")));
        self.send_anonymously(request, &[fields, &[&login]].concat(), body).await
    }

    /// Sends a request without a login, unless the header fields have one.
    pub(crate) async fn send_anonymously(&self, request: &str, fields: &[&str], body: &[u8]) -> Answer {
        let (mut client, stream) = Stream::duplex(1 << 16);
        let serving = serve(stream, self.peer, Arc::clone(&self.front), SessionTermination::default());
        let serving = tokio::spawn(serving);
        let mut head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        fields.iter().for_each(|field| head.push_str(&format!("{field}\r\n")));
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let sent = [head.as_bytes(), body].concat();
        let mut received = Vec::new();
        let (mut reading, mut writing) = tokio::io::split(&mut client);
        let send = async {
            // The server may answer before it has read a body that is too large.
            let _ = writing.write_all(&sent).await;
        };
        let receive = async { reading.read_to_end(&mut received).await };
        let ((), read) = tokio::join!(send, receive);
        read.expect("the connection ends");
        serving.await.expect("the task ends").expect("the connection ends in order");
        Answer::parse(&received)
    }

    async fn get(&self, path: &str, fields: &[&str]) -> Answer {
        self.send(&format!("GET /{PATH}/{path}"), fields, b"").await
    }

    /// Saves documents with these ids.
    async fn create(&self, ids: &[&str]) {
        let documents: Vec<Value> = ids.iter().map(|id| json!({ "_id": id })).collect();
        let body = json!({ "docs": documents }).to_string();
        let answer = self.send(&format!("POST /{PATH}/_bulk_docs"), &[], body.as_bytes()).await;
        let all = answer.json();
        assert!(all.as_array().expect("a list").iter().all(|one| one["ok"] == true), "{all}");
    }
}

impl Answer {
    fn parse(received: &[u8]) -> Self {
        let end = memchr::memmem::find(received, b"\r\n\r\n").expect("the end of the head");
        let head = String::from_utf8_lossy(&received[..end]).into_owned();
        let status = head[9..12].parse().expect("a status");
        let mut answer = Self { status, head, body: received[end + 4..].to_vec() };
        if answer.field("transfer-encoding") == Some("chunked") {
            answer.body = joined(&answer.body);
        }
        answer
    }
}

/// Joins the chunks of a body.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = memchr::memmem::find(chunks, b"\r\n").expect("the size of a chunk");
        let size = std::str::from_utf8(&chunks[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.expect("a size");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[end + 2..end + 2 + size]);
        chunks = &chunks[end + 4 + size..];
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("memory takes it")
}

fn gunzip(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    GzDecoder::new(content).read_to_end(&mut out).expect("gzip");
    out
}

#[tokio::test]
async fn documents_and_their_attachments_travel_in_several_parts() {
    let world = World::new();
    // Larger than one part of an answer.
    let large: Vec<u8> = (0..5 << 20).map(|index: u32| (index % 251) as u8).collect();
    let document = json!({ "_id": "x", "n": 1, "_attachments": {
        "b.bin": { "follows": true, "content_type": "application/x-large", "length": large.len() },
        "a.txt": { "follows": true, "content_type": "text/plain", "encoding": "gzip" },
    }});
    let compressed = gzip(b"hello");
    let body = [
        &b"--xyz\r\ncontent-type: application/json\r\n\r\n"[..],
        document.to_string().as_bytes(),
        b"\r\n--xyz\r\nContent-Disposition: attachment; filename=\"a.txt\"\r\n\r\n",
        &compressed,
        b"\r\n--xyz\r\n\r\n",
        &large,
        b"\r\n--xyz--",
    ]
    .concat();
    let kind = "content-type: multipart/related; boundary=\"xyz\"";
    let saved = world.send(&format!("PUT /{PATH}/x"), &[kind], &body).await;
    assert_eq!(saved.status, 201, "{}", String::from_utf8_lossy(&saved.body));
    assert_eq!(world.get("x/a.txt", &[]).await.body, b"hello");
    assert!(world.get("x/b.bin", &[]).await.body == large);

    let related = world.get("x?attachments=true", &["accept: multipart/related, application/json"]).await;
    let parts = related.parts();
    let document: Value = serde_json::from_slice(&parts[0].1).expect("JSON");
    assert_eq!((&document["n"], &document["_attachments"]["b.bin"]["follows"]), (&json!(1), &json!(true)));
    let names: Vec<&String> = document["_attachments"].as_object().expect("attachments").keys().collect();
    assert_eq!((names.len(), parts.len()), (2, 3));
    assert!(parts.iter().any(|(kind, content)| kind == "application/x-large" && *content == large));
    assert!(parts.iter().any(|(kind, content)| kind == "text/plain" && content == b"hello"));
    let again =
        world.send(&format!("PUT /{PATH}/y"), &[kind], b"--xyz\r\n\r\n{}\r\n--xyz\r\n\r\nmore\r\n--xyz--").await;
    assert_eq!(again.status, 400, "a content for which there is no attachment");
    let missing = world.get("absent?attachments=true", &["accept: multipart/related"]).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn contents_go_to_the_attachments_that_their_parts_name() {
    let world = World::new();
    let put = |id: &'static str, document: Value, parts: [(&'static str, &'static str); 2]| {
        let mut body = format!("--xyz\r\n\r\n{document}");
        for (name, content) in parts {
            let field = format!("Content-Disposition: attachment; filename=\"{name}\"");
            body.push_str(&format!("\r\n--xyz\r\n{field}\r\n\r\n{content}"));
        }
        body.push_str("\r\n--xyz--");
        let world = &world;
        let kind = "content-type: multipart/related; boundary=\"xyz\"";
        async move { world.send(&format!("PUT /{PATH}/{id}"), &[kind], body.as_bytes()).await.status }
    };
    let follows = json!({ "follows": true, "length": 1 });
    let document = json!({ "_attachments": { "a": follows, "b": follows } });
    assert_eq!(put("x", document.clone(), [("b", "2"), ("a", "1")]).await, 201);
    assert_eq!(world.get("x/a", &[]).await.body, b"1");
    assert_eq!(put("y", document.clone(), [("=?utf-8?Q?a?=", "1"), ("=?utf-8?Q?b?=", "2")]).await, 201);
    assert_eq!(world.get("y/a", &[]).await.body, b"1", "no name fits, so the order counts");
    assert_eq!(put("z", document.clone(), [("c", "1"), ("a", "2")]).await, 400, "an unknown name");
    assert_eq!(put("z", document.clone(), [("a", "1"), ("a", "2")]).await, 400, "two contents of one attachment");
    assert_eq!(put("z", document, [("a", "11"), ("b", "2")]).await, 400, "another length");
    assert_eq!(world.get("z", &[]).await.status, 404);
}

/// Lengths in items come from other servers and from programs.
#[tokio::test]
async fn attachments_have_the_lengths_of_their_stored_contents() {
    let world = World::new();
    let access: Access<level::Depositor> =
        world.server.database.authorize(&Arc::new(Identity::person(ANN))).expect("Ann may");
    let accesses = [&access];
    let mut transaction = world.server.databases.transaction(&accesses).expect("a sound store");
    let mut writer = transaction.writer(0);
    let blob = writer.blob_put(b"hello").expect("a sound store");
    let items = [u64::MAX, u64::MAX - 1].map(|length| {
        let file_name = format!("{length}");
        let media_type = "text/plain".to_owned();
        Item::summary("$FILE", ItemValue::Object { file_name, media_type, length, blob })
    });
    let new = NewNote { blobs: vec![blob], ..NewNote::document(items.to_vec()) };
    writer.note_create(new).expect("Ann may");
    transaction.commit().expect("a sound store");
    let changes = world.get("_changes?include_docs=true&attachments=true", &[]).await.json();
    let id = changes["results"][0]["id"].as_str().expect("an id").to_owned();
    let document = world.get(&id, &[]).await.json();
    let lengths: Vec<&Value> =
        document["_attachments"].as_object().expect("attachments").values().map(|one| &one["length"]).collect();
    assert_eq!(lengths, [&json!(5), &json!(5)]);
    assert_eq!(world.get(&format!("{id}/{}", u64::MAX), &[]).await.body, b"hello");
    let related = world.get(&format!("{id}?attachments=true"), &["accept: multipart/related"]).await;
    assert_eq!(
        related.parts()[1..],
        [("text/plain".to_owned(), b"hello".to_vec()), ("text/plain".to_owned(), b"hello".to_vec())]
    );

    // The store loses the content. A client that is not told of it would delete it everywhere with its next edit.
    let store = world.server.databases.store();
    let mut batch = Batch::new();
    let mut cursor = store.scan(Table::BlobRef, &KeyRange::all(), Direction::Forward).expect("a sound store");
    while let Some((key, value)) = cursor.next().expect("a sound store") {
        // The references of notes to a content have no value.
        if !value.is_empty() {
            batch.delete(Table::BlobRef, key);
        }
    }
    drop(cursor);
    store.commit(&batch).expect("a sound store");
    let document = world.get(&id, &[]).await.json();
    assert_eq!(document["_attachments"].as_object().expect("attachments").len(), 2);
    assert_eq!(world.get(&format!("{id}/{}", u64::MAX), &[]).await.status, 503);
}

#[tokio::test]
async fn conflicting_versions_are_parts_of_one_answer() {
    let world = World::new();
    let root = "0".repeat(32);
    for letter in ["a", "b", "c"] {
        let id = letter.repeat(32);
        let revisions = json!({ "start": 2, "ids": [id, root] });
        let document = json!({ "_id": "x", "_rev": format!("2-{id}"), "_revisions": revisions, "text": letter });
        world.server.put(&document, Revisions::OfClient).expect("it is taken");
    }
    let answer = world.get("x?open_revs=all", &["accept: multipart/mixed"]).await;
    let texts: BTreeSet<String> = answer
        .parts()
        .iter()
        .map(|(_, part)| serde_json::from_slice::<Value>(part).expect("JSON")["text"].to_string())
        .collect();
    assert_eq!(texts, ["\"a\"", "\"b\"", "\"c\""].map(str::to_owned).into());
    let wanted = json!({ "docs": [{ "id": "x", "rev": format!("9-{root}") }, { "id": "absent" }] }).to_string();
    let request = format!("POST /{PATH}/_bulk_get?latest=true");
    let answer = world.send(&request, &["accept: multipart/mixed"], wanted.as_bytes()).await;
    assert_eq!(answer.parts().len(), 4, "all leaves in place of an unknown revision, and what is missing");
}

#[tokio::test]
async fn costly_document_does_not_stop_the_changes_of_others() {
    let world = World::new();
    let numbers: Vec<u32> = (100..60_000).collect();
    let names: Value = (0..20).map(|number| ("x".repeat(1 << 16) + &number.to_string(), json!(1))).collect();
    for document in [
        json!({ "_id": "long", "channels": numbers }),
        json!({ "_id": "names", "channels": names }),
        json!({ "_id": "found", "channels": [7] }),
    ] {
        let answer = world.send(&format!("POST /{PATH}"), &[], document.to_string().as_bytes()).await;
        assert_eq!(answer.status, 201);
    }
    let values: Vec<Value> = (0..50).map(|number| json!(number)).chain(vec![json!({ "a": 1 }); 150]).collect();
    let selector = json!({ "selector": { "channels": { "$in": values } } }).to_string();
    let request = format!("POST /{PATH}/_changes?filter=_selector");
    let answer = world.send(&request, &[], selector.as_bytes()).await;
    assert_eq!(answer.status, 200);
    let rows = answer.json();
    let rows = rows["results"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| &row["id"]).collect::<Vec<_>>(), ["found"]);
}

#[tokio::test]
async fn several_versions_are_parts_of_one_answer() {
    let world = World::new();
    world.create(&["plain"]).await;
    let put = world.send(&format!("PUT /{PATH}/files/a.txt"), &["content-type: text/plain"], b"hello").await;
    assert_eq!(put.status, 201);
    let wanted = json!({ "docs": [{ "id": "plain" }, { "id": "files" }, { "id": "absent" }, { "id": "_wrong" }] });
    let request = format!("POST /{PATH}/_bulk_get?revs=true");
    let answer = world.send(&request, &["accept: multipart/mixed"], wanted.to_string().as_bytes()).await;
    let parts = answer.parts();
    let kinds: Vec<&str> = parts.iter().map(|(kind, _)| kind.split("; boundary").next().unwrap_or_default()).collect();
    let failed = "application/json; error=\"true\"";
    assert_eq!(kinds, ["application/json", "multipart/related", failed, failed]);
    let inner = parts_in(&parts[1].0, &parts[1].1);
    assert_eq!(inner[1], ("text/plain".to_owned(), b"hello".to_vec()));
    let plain: Value = serde_json::from_slice(&parts[0].1).expect("JSON");
    assert_eq!(plain["_revisions"]["start"], 1);
    for open in ["all", "%5B%221-00000000000000000000000000000000%22%5D"] {
        let leaves = world.get(&format!("files?open_revs={open}"), &["accept: multipart/mixed"]).await;
        assert_eq!(leaves.parts().len(), 1);
        let is_found = leaves.parts()[0].0.starts_with("multipart/related");
        assert_eq!(is_found, open == "all");
    }
    let plain = world.get("files?open_revs=all", &["accept: application/json"]).await;
    assert!(plain.json()[0]["ok"].is_object(), "JSON stays what it was");
}

#[tokio::test]
async fn bodies_are_compressed_in_both_directions() {
    let remote = Peer::network("192.0.2.7:5984".parse().expect("an address")).encrypted();
    let world = World { peer: remote, ..World::new() };
    let coding = "content-encoding: gzip";
    let body = gzip(json!({ "_id": "x", "text": "y".repeat(5_000) }).to_string().as_bytes());
    let saved = world.send(&format!("POST /{PATH}"), &[coding], &body).await;
    assert_eq!(saved.status, 201, "{}", String::from_utf8_lossy(&saved.body));
    let plain = world.get("x", &[]).await;
    assert_eq!((plain.field("content-encoding"), plain.json()["text"].as_str().map(str::len)), (None, Some(5_000)));
    let compressed = world.get("x", &["accept-encoding: deflate, gzip;q=0.5"]).await;
    assert_eq!(compressed.field("content-encoding"), Some("gzip"));
    assert!(compressed.body.len() < 1_000);
    assert_eq!(gunzip(&compressed.body), plain.body);
    let tag = compressed.field("etag").expect("a tag");
    assert_eq!(tag, format!("W/{}", plain.field("etag").expect("a tag")));
    assert_eq!(world.get("x", &[&format!("if-none-match: {tag}")]).await.status, 304);
    let changes = world.get("_changes?include_docs=true", &["accept-encoding: gzip"]).await;
    assert_eq!(changes.field("content-encoding"), Some("gzip"));
    let changes: Value = serde_json::from_slice(&gunzip(&changes.body)).expect("JSON");
    assert_eq!(changes["results"][0]["id"], "x");
    assert_eq!(world.get("absent", &["accept-encoding: gzip"]).await.field("content-encoding"), None, "short");
    let world = World { peer: Peer::local(), ..world };
    assert_eq!(world.get("x", &["accept-encoding: gzip"]).await.field("content-encoding"), None, "on this machine");

    let post = format!("POST /{PATH}");
    let status = |fields: &'static [&'static str], body: Vec<u8>| {
        let world = &world;
        let post = &post;
        async move { world.send(post, fields, &body).await.status }
    };
    assert_eq!(status(&["content-encoding: br"], b"{}".to_vec()).await, 415);
    assert_eq!(status(&["content-encoding: gzip"], b"{}".to_vec()).await, 400);
    let bomb = gzip(&vec![b' '; BODY_BYTES_MAX + 1]);
    assert_eq!(status(&["content-encoding: gzip"], bomb).await, 413);
    let large = STANDARD.encode(gzip(&vec![b' '; 30 << 20]));
    let document = |id: &str| json!({ "_id": id, "_attachments": { "a": { "data": large, "encoding": "gzip", "content_type": "text/plain" } } });
    let documents = json!({ "docs": [document("one"), document("two"), document("three")] }).to_string();
    let outcomes = world.send(&format!("POST /{PATH}/_bulk_docs"), &[], documents.as_bytes()).await;
    let outcomes: Value = serde_json::from_slice(&outcomes.body).expect("JSON");
    assert_eq!([&outcomes[0]["ok"], &outcomes[1]["ok"]], [true, true]);
    assert_eq!(outcomes[2]["error"], "too_large", "64 MiB of a request are decompressed");
    let login = gzip(b"{\"name\":\"x\",\"password\":\"y\"}");
    assert_eq!(world.send("POST /_session", &[coding], &login).await.status, 415);
}

/// Returns the ids of a list, its total and its offset.
fn listed(list: &Value) -> (String, u64, u64) {
    let rows = list["rows"].as_array().expect("rows").iter();
    let ids: Vec<&str> = rows.map(|row| row["key"].as_str().expect("a key")).collect();
    let number = |name: &str| list[name].as_u64().expect("a number");
    (ids.concat(), number("total_rows"), number("offset"))
}

#[tokio::test]
async fn documents_are_listed_in_the_order_of_their_ids() {
    let world = World::new();
    world.create(&["d", "b", "e", "a", "c"]).await;
    let gone = world.get("e", &[]).await.json()["_rev"].as_str().expect("a revision").to_owned();
    assert_eq!(world.send(&format!("DELETE /{PATH}/e?rev={gone}"), &[], b"").await.status, 200);
    for (query, ids, offset) in [
        ("", "abcd", 0),
        ("descending=true", "dcba", 0),
        ("startkey=%22b%22&endkey=%22c%22", "bc", 1),
        ("start_key=%22b%22&end_key=%22d%22&inclusive_end=false", "bc", 1),
        ("descending=true&startkey=%22c%22&endkey=%22b%22", "cb", 1),
        ("descending=true&endkey=%22b%22&inclusive_end=false", "dc", 0),
        ("startkey=%22bb%22", "cd", 2),
        ("skip=1&limit=2", "bc", 1),
        ("startkey=%22b%22&skip=1&limit=1", "c", 2),
        ("limit=0", "", 0),
        ("skip=9", "", 4),
        ("key=%22c%22", "c", 2),
        ("startkey=null&endkey=%7B%7D", "abcd", 0),
        ("startkey=%7B%7D", "", 4),
    ] {
        let list = world.get(&format!("_all_docs?{query}"), &[]).await.json();
        assert_eq!(listed(&list), (ids.to_owned(), 4, offset), "{query}");
    }
    let body = json!({ "keys": ["c", "x", "e", "a"], "descending": true, "skip": 1 }).to_string();
    let list = world.send(&format!("POST /{PATH}/_all_docs"), &[], body.as_bytes()).await.json();
    assert_eq!(listed(&list).0, "exc");
    assert_eq!((&list["rows"][0]["value"]["deleted"], &list["rows"][1]["error"]), (&json!(true), &json!("not_found")));
    assert_eq!(world.get("_all_docs?startkey=b", &[]).await.status, 400);
}

/// More ids than one pass collects, so that a second one is needed.
#[tokio::test]
async fn long_lists_are_made_in_several_passes() {
    let world = World::new();
    let count = LISTED_IDS_BYTES_MAX / 500;
    let ids: Vec<String> = (0..count).map(|number| format!("{:0>480}", number * 7_919 % count)).collect();
    for group in ids.chunks(5_000) {
        world.create(&group.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let list = world.get("_all_docs?skip=1", &[]).await.json();
    let rows = list["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), list["total_rows"].as_u64()), (count - 1, Some(count as u64)));
    assert!(rows.is_sorted_by_key(|row| row["id"].as_str().expect("an id")), "in order, and each once");
}

#[tokio::test]
async fn changes_are_read_backwards() {
    let world = World::new();
    let ids: Vec<String> = (0..1_200).map(|number| format!("d{number:04}")).collect();
    world.create(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let ids_of = |list: &Value| -> Vec<String> {
        let rows = list["results"].as_array().expect("rows").iter();
        rows.map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    };
    let mut forward = ids_of(&world.get("_changes", &[]).await.json());
    forward.reverse();
    assert_eq!((forward.len(), forward[0].as_str()), (1_200, "d1199"));
    assert_eq!(ids_of(&world.get("_changes?descending=true", &[]).await.json()), forward);
    let last = world.get("_changes?descending=true&limit=2", &[]).await.json();
    assert_eq!(ids_of(&last), forward[..2]);
    assert_eq!(last["last_seq"], last["results"][1]["seq"]);
    let since = last["results"][1]["seq"].as_str().expect("a sequence").to_owned();
    let nothing = world.get(&format!("_changes?since={since}&limit=5"), &[]).await.json();
    assert_eq!(ids_of(&nothing), forward[..1], "a sequence of a list backwards is a place forwards");
    assert_eq!(world.server.changes().len(), 1_200);
    // Several documents are saved in one transaction. The sequence of one of them does not hide the later ones.
    let rows = world.get("_changes?limit=3", &[]).await.json();
    let since = rows["results"][2]["seq"].as_str().expect("a sequence").to_owned();
    let later = world.get(&format!("_changes?descending=true&since={since}"), &[]).await.json();
    assert_eq!(ids_of(&later), forward[..1_197]);
}

#[tokio::test]
async fn long_lists_in_requests_are_refused_before_they_are_kept() {
    let world = World::new();
    let many = |element: &str| format!("[{}{element}]", format!("{element},").repeat(10_000));
    let status = |request: &'static str, body: String| {
        let request = format!("POST /{PATH}/{request}");
        let world = &world;
        async move { world.send(&request, &[], body.as_bytes()).await.status }
    };
    assert_eq!(status("_bulk_docs", format!("{{\"docs\":{}}}", many("{}"))).await, 413);
    assert_eq!(status("_bulk_get", format!("{{\"docs\":{}}}", many("{\"id\":\"x\"}"))).await, 413);
    assert_eq!(status("_all_docs", format!("{{\"keys\":{}}}", many("\"x\""))).await, 413);
    assert_eq!(status("_revs_diff", format!("{{\"x\":{}}}", many("\"x\""))).await, 413);
    assert_eq!(status("_changes?filter=_doc_ids", format!("{{\"doc_ids\":{}}}", many("\"x\""))).await, 413);
    let members = (0..=20_000).map(|number| format!("\"{number}\":[]")).collect::<Vec<_>>().join(",");
    assert_eq!(status("_revs_diff", format!("{{{members}}}")).await, 400);
}

#[tokio::test]
async fn a_continuous_feed_ends_with_its_login() {
    let world = World::new();
    world.create(&["first"]).await;
    let (mut client, stream) = Stream::duplex(1 << 16);
    let serving = tokio::spawn(serve(stream, world.peer, Arc::clone(&world.front), SessionTermination::default()));
    let login = STANDARD.encode(format!("{ANN}:any"));
    let request = format!(
        "GET /{PATH}/_changes?feed=continuous&heartbeat=60000 HTTP/1.1\r\nhost: x\r\n\
         authorization: Basic {login}\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.expect("the connection is open");
    let mut received = Vec::new();
    while memchr::memmem::find(&received, b"first").is_none() {
        assert_ne!(client.read_buf(&mut received).await.expect("the connection is open"), 0);
    }
    {
        let watched = world.watched.lock().expect("no test panics with it");
        assert_eq!(watched.len(), 1);
        watched.values().for_each(SessionTermination::terminate);
    }
    // The answer is cut off, so no client takes it for complete.
    client.read_to_end(&mut received).await.expect("the connection ends");
    assert!(!received.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&received));
    assert!(serving.await.expect("the task ends").is_err());
    // Answers that end by themselves are not watched.
    world.watched.lock().expect("no test panics with it").clear();
    assert_eq!(world.get("_changes", &[]).await.status, 200);
    assert!(world.watched.lock().expect("no test panics with it").is_empty());
}
