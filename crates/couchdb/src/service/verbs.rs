//! The way of a request to its verb, and the verbs.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use base::hex;
use http::Caller;
use http::backend::LoggedIn;
use http::sessions::{SessionId, SessionLogin};
use notes::Databases;
use revision::Revision;
use sasl::{LoginProtocol, PasswordRequest};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::Ticket;

use super::answer::{self, Part, json as json_answer, tagged_json};
use super::feeds::{self, Feed, FeedKind};
use super::listing::{self, ListOptions};
use super::multipart_answer::{self, Form, Versions, is_accepted};
use super::request_body::{Parsed, SentBody, text_of};
use super::{Call, OpenDatabase, Service};
use crate::changes::{ChangesOptions, Filter};
use crate::compression::AttachmentDecompressor;
use crate::document::{Members, bounded_list, push_text};
use crate::error::{Error, Result};
use crate::limits::{
    ANSWER_PART_BYTES, DOCUMENTS_PER_REQUEST_MAX, DOCUMENTS_PER_TRANSACTION, LIST_BODY_BYTES_MAX, LOCAL_BYTES_MAX,
    LOGIN_BYTES_MAX, REVISIONS_BYTES_MAX, SELECTOR_BYTES_MAX,
};
use crate::multipart::boundary_of;
use crate::read::{
    AttachmentForm, DocumentOptions, WantedRevision, document_json, find_leaf, items_of_leaf, leaves_of,
    missing_revisions, open_revisions, stored_attachments,
};
use crate::selector::Selector;
use crate::sequence::{Sequence, Since};
use crate::write::{Revisions, SavedDocument, SentDocument, Target as WriteTarget, parse_documents};

/// Number of documents that one part of an answer reads.
const DOCUMENTS_PER_PART: usize = 64;

/// Number of documents that one job looks up.
const LOOKUPS_PER_JOB: usize = 500;

/// Answers a request.
pub(super) async fn answer(call: Call, body: Body) -> Result<Response<Body>> {
    let path: Vec<&str> = call.target.path.iter().map(String::as_str).collect();
    let is = |method: &Method| call.method == *method;
    match path.as_slice() {
        [] if is(&Method::GET) => Ok(welcome(&call)),
        ["_up"] if is(&Method::GET) => Ok(json_answer(StatusCode::OK, "{\"status\":\"ok\"}")),
        ["_session"] => session(&call, body).await,
        ["_all_dbs"] if is(&Method::GET) => all_databases(&call).await,
        [name, ..] if name.starts_with('_') => Err(Error::NotFound("missing")),
        [database] => in_database(&call, database, body).await,
        [database, "_local", id] => local_document(&call, (database, id), body).await,
        [database, "_design", id] => document(&call, (database, &format!("_design/{id}")), body).await,
        [database, "_design", id, file] => attachment(&call, database, (&format!("_design/{id}"), file), body).await,
        [database, name] if name.starts_with('_') => special(&call, (database, name), body).await,
        [database, id] => document(&call, (database, id), body).await,
        [database, id, file @ ..] if !id.starts_with('_') => {
            attachment(&call, database, (id, &file.join("/")), body).await
        }
        _ => Err(Error::NotFound("missing")),
    }
}

fn not_allowed() -> Error {
    Error::NotSupported("the server does not support this request")
}

fn welcome(call: &Call) -> Response<Body> {
    let options = &call.service.options;
    let text = json!({
        "couchdb": "Welcome",
        "version": "3.3.0",
        "uuid": options.uuid,
        "features": [],
        "vendor": { "name": "Doublet", "version": options.version },
    });
    json_answer(StatusCode::OK, text.to_string())
}

/// Serves `_session`: logs in, shows who is logged in, and logs out.
async fn session(call: &Call, body: Body) -> Result<Response<Body>> {
    match call.method {
        Method::GET => {
            let name = match call.caller().await {
                Ok(caller) => Some(caller.login().to_owned()),
                Err(Error::Unauthorized(_)) if !call.headers.contains_key(header::AUTHORIZATION) => None,
                Err(error) => return Err(error),
            };
            let text = json!({
                "ok": true,
                "userCtx": { "name": name, "roles": [] },
                "info": { "authentication_handlers": ["cookie", "default"] },
            });
            Ok(json_answer(StatusCode::OK, text.to_string()))
        }
        Method::POST => {
            // Anybody may send this.
            let sent = call.read_login_body(body, LOGIN_BYTES_MAX).await?;
            let (name, password) = login_of(call, &sent)?;
            let request = PasswordRequest::without_sasl(name.as_bytes(), password.as_bytes())?;
            let authenticator = &call.service.services.authenticator;
            let checked = authenticator.check_password(&call.context, request, LoginProtocol::Http);
            let LoggedIn { identity, stamp, password } = checked.await?;
            let login = identity.name.canonical();
            call.context.set_account(login);
            let earlier = call.token();
            let begun = SessionLogin { login: login.to_owned(), stamp, password, factor: None };
            let token = authenticator.begin_session(&call.context, &call.headers, begun, earlier).await?;
            tracing::info!(target: "couchdb", peer = %call.context.peer, login, "began a session");
            let text = json!({ "ok": true, "name": login, "roles": [] }).to_string();
            let seconds = authenticator.sessions().age_max().as_secs();
            Ok(with_cookie(call, json_answer(StatusCode::OK, text), &token, seconds))
        }
        Method::DELETE => {
            if let Some(token) = call.token() {
                call.service.services.authenticator.end_session(&call.context, SessionId::of_token(token)).await?;
            }
            Ok(with_cookie(call, json_answer(StatusCode::OK, "{\"ok\":true}"), "", 0))
        }
        _ => Err(not_allowed()),
    }
}

/// Returns name and password of a login, which is JSON or a form.
fn login_of(call: &Call, body: &SentBody) -> Result<(String, String)> {
    let kind = call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let missing = || Error::BadRequest("name and password are needed".to_owned());
    if kind.starts_with("application/x-www-form-urlencoded") {
        let fields: BTreeMap<_, _> = form_urlencoded::parse(&body.bytes).into_owned().collect();
        let field = |name: &str| fields.get(name).cloned().ok_or_else(missing);
        return Ok((field("name")?, field("password")?));
    }
    let members = Members::parse(body.text()?)?;
    Ok((members.read("name")?.ok_or_else(missing)?, members.read("password")?.ok_or_else(missing)?))
}

/// Adds the cookie of a session. With permitted origins, their pages may use it, and the check of the origin protects
/// from all others.
fn with_cookie(call: &Call, mut response: Response<Body>, token: &str, seconds: u64) -> Response<Body> {
    let same_site = if call.service.origins.is_empty() { "Strict" } else { "None" };
    let cookie =
        format!("AuthSession={token}; Version=1; Path=/; HttpOnly; Secure; SameSite={same_site}; Max-Age={seconds}");
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// Serves `_all_dbs`: lists the databases that are open to these clients and that the caller may read.
async fn all_databases(call: &Call) -> Result<Response<Body>> {
    let caller = call.caller().await?;
    let service = Arc::clone(&call.service);
    let of_job = caller.clone();
    let names = call.service.run(&caller, "_all_dbs", move || {
        let mut names = Vec::new();
        for record in service.services.databases.database_list()? {
            if record.options.is_open_to_couchdb
                && OpenDatabase::open(&service.services.databases, &of_job, &record.path).is_ok()
            {
                names.push(record.path);
            }
        }
        Ok((names, Ticket::NONE))
    });
    Ok(json_answer(StatusCode::OK, json!(names.await?).to_string()))
}

/// Runs a function with an open database on a worker.
async fn with_database<R: Send + 'static>(
    call: &Call,
    (caller, database): (&Caller, &str),
    command: &'static str,
    work: impl FnOnce(&Databases, &OpenDatabase) -> Result<(R, Ticket)> + Send + 'static,
) -> Result<R> {
    let service = Arc::clone(&call.service);
    let of_job = caller.clone();
    let database = database.to_owned();
    call.service
        .run(caller, command, move || {
            let open = OpenDatabase::open(&service.services.databases, &of_job, &database)?;
            work(&service.services.databases, &open)
        })
        .await
}

/// Serves `/DATABASE`: what it is, and documents without an `_id`.
async fn in_database(call: &Call, database: &str, body: Body) -> Result<Response<Body>> {
    let caller = call.caller().await?;
    match call.method {
        Method::GET => {
            let name = database.to_owned();
            let found = with_database(call, (&caller, database), "database", move |_, open| {
                let reading = open.reader.read()?;
                let counters = reading.counters();
                let sequence = Sequence::of(&reading, reading.modseq(), None)?.to_string();
                let text = json!({
                    "db_name": name, "doc_count": counters.notes, "doc_del_count": counters.stubs,
                    "update_seq": sequence, "purge_seq": "0", "compact_running": false, "disk_format_version": 8,
                    "instance_start_time": "0", "props": {},
                    "sizes": { "active": counters.bytes, "external": counters.bytes, "file": counters.bytes },
                });
                Ok((text.to_string(), reading.ticket()))
            });
            Ok(json_answer(StatusCode::OK, found.await?))
        }
        Method::PUT => {
            match with_database(call, (&caller, database), "database", |_, _| Ok(((), Ticket::NONE))).await {
                Ok(()) => Err(Error::Exists),
                Err(Error::NotFound(_)) => Err(Error::Forbidden(
                    "databases are created on the server (`doublet db create`) and opened there (`doublet db set PATH \
                 --couchdb on`)"
                        .to_owned(),
                )),
                Err(error) => Err(error),
            }
        }
        Method::POST => {
            let sent = call.read_body(&caller, body).await?;
            let service = Arc::clone(&call.service);
            let parse = move |bytes: &[u8], decompressor: &mut AttachmentDecompressor<'_>| {
                SentDocument::parse(text_of(bytes)?, None, || new_id(&service), decompressor)
            };
            let Parsed { value, permit: _held } = call.parse_documents(&caller, sent, parse).await?;
            save(call, (&caller, database), value, StatusCode::CREATED).await
        }
        _ => Err(not_allowed()),
    }
}

/// Returns a new `_id`.
fn new_id(service: &Service) -> String {
    let mut id = [0; 16];
    service.services.random.fill(&mut id);
    hex::lower(&id)
}

/// Saves a document with a revision of the server, and answers with it.
async fn save(
    call: &Call,
    (caller, database): (&Caller, &str),
    document: SentDocument,
    status: StatusCode,
) -> Result<Response<Body>> {
    let saved = with_database(call, (caller, database), "save", move |databases, open| {
        let target = WriteTarget { databases, reader: &open.reader };
        let (mut outcomes, ticket) = target.put(vec![document], Revisions::OfServer);
        Ok((outcomes.pop().unwrap_or(Err(Error::Unavailable))?, ticket))
    });
    let SavedDocument { id, revision } = saved.await?;
    let revision = revision.to_string();
    let text = json!({ "ok": true, "id": id, "rev": revision }).to_string();
    Ok(tagged_json(status, &revision, text))
}

/// Serves `/DATABASE/_local/ID`: a document of the caller's client that does not replicate.
async fn local_document(call: &Call, (database, id): (&str, &str), body: Body) -> Result<Response<Body>> {
    let caller = call.caller().await?;
    let full_id = format!("_local/{id}");
    let key = id.to_owned();
    match call.method {
        Method::GET => {
            let found = with_database(call, (&caller, database), "_local", move |_, open| {
                let reading = open.reader.read()?;
                Ok((reading.local_document(&key)?, reading.ticket()))
            });
            found.await?.map(|text| json_answer(StatusCode::OK, text)).ok_or(Error::NotFound("missing"))
        }
        Method::PUT | Method::DELETE => {
            let sent = match call.method {
                Method::PUT => Some(call.read_body_within(&caller, body, LOCAL_BYTES_MAX).await?),
                _ => None,
            };
            let written = sent.map(|sent| local_text(&sent, &full_id)).transpose()?;
            let revision = written.as_ref().map_or_else(|| "0-0".to_owned(), |(_, revision)| revision.clone());
            let set = with_database(call, (&caller, database), "_local", move |databases, open| {
                let depositor = open.reader.downgrade();
                let accesses = [&depositor];
                let mut transaction = databases.transaction(&accesses)?;
                let text = written.as_ref().map(|(text, _)| text.as_str());
                transaction.writer(0).local_document_set(&key, text)?;
                Ok(((), transaction.commit()?))
            });
            set.await?;
            let text = json!({ "ok": true, "id": full_id, "rev": revision }).to_string();
            Ok(json_answer(StatusCode::CREATED, text))
        }
        _ => Err(not_allowed()),
    }
}

/// Returns the text of a local document with its next revision, and the revision.
fn local_text(sent: &SentBody, id: &str) -> Result<(String, String)> {
    let members = Members::parse(sent.text()?)?;
    let before: Option<String> = members.read("_rev")?;
    let number = before.and_then(|text| text.strip_prefix("0-").and_then(|number| number.parse::<u64>().ok()));
    let revision = format!("0-{}", number.unwrap_or(0).saturating_add(1));
    let mut text = String::from("{\"_id\":");
    push_text(&mut text, id);
    text.push_str(&format!(",\"_rev\":\"{revision}\""));
    for (name, value) in members.0.iter().filter(|(name, _)| !name.starts_with('_')) {
        text.push(',');
        push_text(&mut text, name);
        text.push(':');
        text.push_str(value.get());
    }
    text.push('}');
    Ok((text, revision))
}

/// Returns the options of a document in a request.
pub(super) fn document_options(call: &Call) -> DocumentOptions {
    let target = &call.target;
    DocumentOptions {
        revisions: target.is_on("revs"),
        revisions_info: target.is_on("revs_info"),
        attachments: if target.is_on("attachments") { AttachmentForm::Inline } else { AttachmentForm::Stubs },
        conflicts: target.is_on("conflicts"),
    }
}

/// Returns the revision that a request names: the parameter `rev`, or the header field `If-Match`.
fn named_revision(call: &Call) -> Result<Option<Revision>> {
    let header = || call.field(header::IF_MATCH).map(revision_of_tag);
    let Some(text) = call.target.text("rev").or_else(header) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Error::BadRequest("Invalid rev format".to_owned()))
}

/// Returns the revision that a tag of an answer is. That of a compressed answer is a weak one.
fn revision_of_tag(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/").trim_matches('"')
}

/// Serves `/DATABASE/ID`: a document.
async fn document(call: &Call, (database, id): (&str, &str), body: Body) -> Result<Response<Body>> {
    let caller = call.caller().await?;
    let named = named_revision(call)?;
    match call.method {
        Method::GET if call.target.text("open_revs").is_some() => open_document(call, (&caller, database), id).await,
        Method::GET if call.target.is_on("attachments") && is_accepted(call, &["multipart/related"]) => {
            let revision = named.map(|revision| revision.to_string());
            let wanted = vec![WantedRevision { id: id.to_owned(), revision }];
            let options = DocumentOptions { attachments: AttachmentForm::Follow, ..document_options(call) };
            let versions = Versions { wanted, latest: false, options, form: Form::Related, memory: None };
            multipart_answer::answer(call, (&caller, database), versions).await
        }
        Method::GET => {
            let options = document_options(call);
            let wanted = id.to_owned();
            let (revision, text) = with_database(call, (&caller, database), "document", move |_, open| {
                let reading = open.reader.read()?;
                let leaves = leaves_of(&reading, &wanted)?;
                let leaf = find_leaf(leaves.as_ref(), named)?;
                let leaves = leaves.as_ref().ok_or(Error::NotFound("missing"))?;
                let text = document_json(&reading, (&wanted, leaves), leaf, options)?;
                Ok(((leaf.revision().to_string(), text), reading.ticket()))
            })
            .await?;
            if call.field(header::IF_NONE_MATCH).map(revision_of_tag) == Some(revision.as_str()) {
                return Ok(StatusCode::NOT_MODIFIED.into_response());
            }
            Ok(tagged_json(StatusCode::OK, &revision, text))
        }
        Method::PUT => {
            let sent = call.read_body(&caller, body).await?;
            let known = id.to_owned();
            let boundary = call.field(header::CONTENT_TYPE).and_then(boundary_of);
            let parse = move |bytes: &[u8], decompressor: &mut AttachmentDecompressor<'_>| match boundary {
                Some(boundary) => SentDocument::parse_parts(bytes, &boundary, &known, decompressor),
                None => SentDocument::parse(text_of(bytes)?, Some(&known), String::new, decompressor),
            };
            let Parsed { value: mut document, permit: _held } = call.parse_documents(&caller, sent, parse).await?;
            if call.target.text("new_edits") == Some("false") {
                return put_replicated(call, (&caller, database), document).await;
            }
            named.map_or(Ok(()), |revision| document.set_read_revision(revision))?;
            save(call, (&caller, database), document, StatusCode::CREATED).await
        }
        Method::DELETE => {
            let document = SentDocument::deletion(id, named)?;
            save(call, (&caller, database), document, StatusCode::OK).await
        }
        _ => Err(not_allowed()),
    }
}

/// Takes a document with a revision of the client over.
async fn put_replicated(
    call: &Call,
    (caller, database): (&Caller, &str),
    document: SentDocument,
) -> Result<Response<Body>> {
    let saved = with_database(call, (caller, database), "save", move |databases, open| {
        let target = WriteTarget { databases, reader: &open.reader };
        let (mut outcomes, ticket) = target.put(vec![document], Revisions::OfClient);
        Ok((outcomes.pop().unwrap_or(Err(Error::Unavailable))?, ticket))
    });
    let SavedDocument { id, revision } = saved.await?;
    let text = json!({ "ok": true, "id": id, "rev": revision.to_string() }).to_string();
    Ok(json_answer(StatusCode::CREATED, text))
}

/// Serves a document with `open_revs`: the named leaves, or all of them.
async fn open_document(call: &Call, (caller, database): (&Caller, &str), id: &str) -> Result<Response<Body>> {
    let wanted: Option<Vec<String>> = match call.target.plain_text("open_revs").as_deref() {
        Some("all") => None,
        _ => call.target.json("open_revs")?,
    };
    let options = document_options(call);
    let latest = call.target.is_on("latest");
    let id = id.to_owned();
    if is_accepted(call, &["multipart/mixed"]) {
        let revisions = match wanted {
            Some(named) => named,
            None => leaf_revisions(call, (caller, database), &id).await?,
        };
        let options = DocumentOptions { attachments: AttachmentForm::Follow, ..options };
        let versions = Versions { wanted: wanted_of(&id, revisions), latest, options, form: Form::Mixed, memory: None };
        return multipart_answer::answer(call, (caller, database), versions).await;
    }
    let text = with_database(call, (caller, database), "document", move |_, open| {
        let reading = open.reader.read()?;
        let wanted = match wanted {
            Some(wanted) => wanted,
            None => {
                let leaves = leaves_of(&reading, &id)?.ok_or(Error::NotFound("missing"))?;
                leaves.list.iter().map(|leaf| leaf.revision().to_string()).collect()
            }
        };
        let mut answers = Vec::new();
        let mut seen = HashSet::new();
        let mut bytes = 0;
        for revision in wanted {
            if !seen.insert(revision.clone()) {
                continue;
            }
            if bytes > REVISIONS_BYTES_MAX {
                let text = format!("the revisions have more than {REVISIONS_BYTES_MAX} bytes; ask for fewer at a time");
                return Err(Error::TooLarge(text));
            }
            let wanted = WantedRevision { id: id.clone(), revision: Some(revision.clone()) };
            let found = open_revisions(&reading, &wanted, (latest, options))?;
            bytes += found.iter().map(String::len).sum::<usize>();
            let is_missing = |text: &String| text.starts_with("{\"error\"");
            answers.extend(found.into_iter().map(|text| match is_missing(&text) {
                true => json!({ "missing": revision }).to_string(),
                false => text,
            }));
        }
        Ok((format!("[{}]", answers.join(",")), reading.ticket()))
    });
    Ok(json_answer(StatusCode::OK, text.await?))
}

/// Returns the revisions of all leaves of a document.
async fn leaf_revisions(call: &Call, (caller, database): (&Caller, &str), id: &str) -> Result<Vec<String>> {
    let id = id.to_owned();
    let found = with_database(call, (caller, database), "document", move |_, open| {
        let reading = open.reader.read()?;
        let leaves = leaves_of(&reading, &id)?.ok_or(Error::NotFound("missing"))?;
        let revisions = leaves.list.iter().map(|leaf| leaf.revision().to_string());
        Ok((revisions.collect(), reading.ticket()))
    });
    found.await
}

/// Returns the requests for some revisions of a document, each of them once.
fn wanted_of(id: &str, revisions: Vec<String>) -> Vec<WantedRevision> {
    let mut seen = HashSet::new();
    let distinct = revisions.into_iter().filter(|revision| seen.insert(revision.clone()));
    distinct.map(|revision| WantedRevision { id: id.to_owned(), revision: Some(revision) }).collect()
}

/// Serves `/DATABASE/ID/FILE`: an attachment.
async fn attachment(call: &Call, database: &str, (id, file): (&str, &str), body: Body) -> Result<Response<Body>> {
    let caller = call.caller().await?;
    let named = named_revision(call)?;
    let id = id.to_owned();
    let file = file.to_owned();
    if call.method == Method::GET {
        return read_attachment(call, (&caller, database), WantedAttachment { id, file, revision: named }).await;
    }
    let content = match call.method {
        Method::PUT => {
            let kind = call.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let kind = kind.unwrap_or("application/octet-stream").to_owned();
            Some((kind, call.read_body(&caller, body).await?))
        }
        Method::DELETE => None,
        _ => return Err(not_allowed()),
    };
    let document = with_database(call, (&caller, database), "attachment", move |_, open| {
        let reading = open.reader.read()?;
        let leaves = leaves_of(&reading, &id)?;
        let text = match &leaves {
            Some(leaves) if !leaves.winner().is_deletion() || named.is_some() => {
                let leaf = find_leaf(Some(leaves), named).map_err(|_| Error::Conflict)?;
                if named.is_none() {
                    return Err(Error::Conflict);
                }
                document_json(&reading, (&id, leaves), leaf, DocumentOptions::default())?
            }
            _ if content.is_none() => return Err(Error::NotFound("missing")),
            _ => "{}".to_owned(),
        };
        // What this server writes is not compressed.
        let mut hold = |_| Ok(());
        let mut decompressor = AttachmentDecompressor::new(&mut hold);
        let document = SentDocument::parse(&text, Some(&id), String::new, &mut decompressor)?;
        let mut held = None;
        let content = content.map(|(kind, SentBody { bytes, permit })| {
            held = Some(permit);
            (kind, bytes)
        });
        Ok(((document.with_attachment(&file, content), held), reading.ticket()))
    });
    let (document, _held) = document.await?;
    save(call, (&caller, database), document, StatusCode::CREATED).await
}

/// An attachment that a client wants.
struct WantedAttachment {
    id: String,
    file: String,
    revision: Option<Revision>,
}

/// Sends an attachment in pieces.
async fn read_attachment(
    call: &Call,
    (caller, database): (&Caller, &str),
    wanted: WantedAttachment,
) -> Result<Response<Body>> {
    let (note, found) = with_database(call, (caller, database), "attachment", move |_, open| {
        let reading = open.reader.read()?;
        let leaves = leaves_of(&reading, &wanted.id)?;
        let leaf = find_leaf(leaves.as_ref(), wanted.revision)?;
        let items = items_of_leaf(&reading, leaf)?.unwrap_or_default();
        let missing = || Error::NotFound("Document is missing attachment");
        let note = leaf.note.ok_or_else(missing)?;
        let mut attachments = stored_attachments(&reading, note, &items)?.into_iter();
        let found = attachments.find(|known| known.name == wanted.file).ok_or_else(missing)?;
        Ok(((note, found), reading.ticket()))
    })
    .await?;
    let service = Arc::clone(&call.service);
    let of_job = caller.clone();
    let path = database.to_owned();
    let blob = found.blob;
    let length = found.length;
    let read: answer::ReadPart<u64> = Arc::new(move |offset| {
        let open = OpenDatabase::open(&service.services.databases, &of_job, &path)?;
        let reading = open.reader.read()?;
        let end = length.min(offset.saturating_add(ANSWER_PART_BYTES as u64));
        let text = if end == offset { Vec::new() } else { reading.blob_range(note, &blob, offset..end)? };
        Ok(Part { text, next: Some(end).filter(|end| *end < length), ticket: reading.ticket() })
    });
    let mut response = answer::streamed(&call.service, caller, "attachment", (0, read)).await?;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_str(&found.media_type).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    // A page that a document brings must not run with the rights of the person who opens it.
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", found.digest())) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}

/// Serves the verbs of a database whose names begin with `_`.
async fn special(call: &Call, (database, name): (&str, &str), body: Body) -> Result<Response<Body>> {
    let caller = call.caller().await?;
    let of = (&caller, database);
    match (call.method.as_str(), name) {
        ("GET", "_changes") => {
            let feed = feed_of(call, database, Filter::None)?;
            feeds::answer(call, &caller, feed).await
        }
        ("POST", "_changes") => {
            let sent = call.read_body_within(&caller, body, LIST_BODY_BYTES_MAX).await?;
            let kind = call.target.plain_text("filter");
            let parsed = call.parse_body(&caller, sent, move |text| sent_filter(kind.as_deref(), text)).await?;
            let feed = Feed { memory: Some(parsed.permit), ..feed_of(call, database, parsed.value)? };
            feeds::answer(call, &caller, feed).await
        }
        ("POST", "_revs_diff") => {
            let sent = call.read_body(&caller, body).await?;
            revisions_difference(call, of, sent).await
        }
        ("POST", "_bulk_docs") => {
            let sent = call.read_body(&caller, body).await?;
            save_several(call, of, sent).await
        }
        ("POST", "_bulk_get") => {
            let sent = call.read_body_within(&caller, body, LIST_BODY_BYTES_MAX).await?;
            get_several(call, of, sent).await
        }
        ("GET", "_all_docs") => listing::answer(call, of, (ListOptions::read(call, None)?, None)).await,
        ("POST", "_all_docs") => {
            let sent = call.read_body_within(&caller, body, LIST_BODY_BYTES_MAX).await?;
            let options = ListOptions::read(call, Some(&Members::parse(sent.text()?)?))?;
            listing::answer(call, of, (options, Some(sent.permit))).await
        }
        ("POST", "_ensure_full_commit") => {
            // Every change was durable when it was acknowledged.
            Ok(json_answer(StatusCode::CREATED, "{\"ok\":true,\"instance_start_time\":\"0\"}"))
        }
        ("GET", "_security") => Ok(json_answer(StatusCode::OK, "{}")),
        _ => Err(not_allowed()),
    }
}

/// Returns the question for changes that a request is.
fn feed_of(call: &Call, database: &str, sent: Filter) -> Result<Feed> {
    let target = &call.target;
    let filter = match target.plain_text("filter").as_deref() {
        None => sent,
        Some("_doc_ids") => match (sent, target.json::<Vec<String>>("doc_ids")?) {
            (Filter::None, Some(ids)) => Filter::Ids(ids.into_iter().collect()),
            (Filter::None, None) => return Err(Error::BadRequest("`doc_ids` must be a list".to_owned())),
            (sent, _) => sent,
        },
        Some("_selector") if sent != Filter::None => sent,
        Some("_selector") => return Err(Error::BadRequest("Selector must be specified in POST payload".to_owned())),
        Some("_design") => Filter::Design,
        Some(_) => return Err(Error::NotSupported("design functions are not run; use the filter _selector")),
    };
    let kind = match target.plain_text("feed").as_deref() {
        None | Some("normal") => FeedKind::Normal,
        Some("longpoll") => FeedKind::LongPoll,
        Some("continuous") => FeedKind::Continuous,
        Some(_) => return Err(Error::NotSupported("the feeds are normal, longpoll and continuous")),
    };
    let since = target.plain_text("since");
    Ok(Feed {
        database: database.to_owned(),
        kind,
        since: since.map_or(Ok(Since::Beginning), |since| Since::parse(&since))?,
        options: ChangesOptions {
            all_leaves: target.plain_text("style").as_deref() == Some("all_docs"),
            documents: target.is_on("include_docs").then(|| document_options(call)),
            filter,
        },
        limit: target.json("limit")?,
        descending: target.is_on("descending"),
        memory: None,
        heartbeat: Feed::heartbeat(target.text("heartbeat"))?,
        timeout: Feed::timeout(target.text("timeout"))?,
    })
}

/// Returns the filter in the body of a question for changes.
fn sent_filter(kind: Option<&str>, sent: &str) -> Result<Filter> {
    if sent.trim().is_empty() {
        return Ok(Filter::None);
    }
    let members = Members::parse(sent)?;
    match kind {
        Some("_doc_ids") => {
            let ids = members.get("doc_ids");
            let ids = ids.ok_or_else(|| Error::BadRequest("`doc_ids` must be a list".to_owned()))?;
            let ids: Vec<String> = bounded_list(ids.get(), DOCUMENTS_PER_REQUEST_MAX, "ids")?;
            Ok(Filter::Ids(ids.into_iter().collect()))
        }
        Some("_selector") => {
            let length = members.0.iter().find(|(name, _)| name == "selector").map_or(0, |(_, text)| text.get().len());
            if length > SELECTOR_BYTES_MAX {
                return Err(Error::TooLarge(format!("a selector can have at most {SELECTOR_BYTES_MAX} bytes")));
            }
            let selector: Option<Value> = members.read("selector")?;
            let selector = selector.ok_or_else(|| Error::BadRequest("the selector is missing".to_owned()))?;
            Selector::parse(&selector).map(Filter::Selector)
        }
        _ => Ok(Filter::None),
    }
}

/// Serves `_revs_diff`: which revisions the server lacks. Each job looks some of the documents up.
async fn revisions_difference(
    call: &Call,
    (caller, database): (&Caller, &str),
    sent: SentBody,
) -> Result<Response<Body>> {
    let parsed = call.parse_body(caller, sent, revisions_by_id).await?;
    let documents: Vec<(String, Vec<String>)> = parsed.value;
    let mut found = serde_json::Map::new();
    for part in documents.chunks(LOOKUPS_PER_JOB) {
        let part: BTreeMap<String, Vec<String>> = part.iter().cloned().collect();
        let missing = with_database(call, (caller, database), "_revs_diff", move |_, open| {
            let reading = open.reader.read()?;
            Ok((missing_revisions(&reading, &part)?, reading.ticket()))
        });
        found.extend(missing.await?);
    }
    Ok(json_answer(StatusCode::OK, Value::Object(found).to_string()))
}

/// Reads the revisions of documents in a question of `_revs_diff`.
fn revisions_by_id(text: &str) -> Result<Vec<(String, Vec<String>)>> {
    let mut left = DOCUMENTS_PER_REQUEST_MAX;
    let mut read: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (id, revisions) in Members::parse(text)?.0 {
        let revisions: Vec<String> = bounded_list(revisions.get(), left, "revisions")?;
        let too_many = || Error::TooLarge(format!("a request can have at most {DOCUMENTS_PER_REQUEST_MAX} revisions"));
        left = left.checked_sub(revisions.len().max(1)).ok_or_else(too_many)?;
        read.insert(id.into_owned(), revisions);
    }
    Ok(read.into_iter().collect())
}

/// Returns the documents that a request names.
fn documents_in<'j, T: serde::Deserialize<'j>>(members: &Members<'j>) -> Result<Vec<T>> {
    let documents = members.get("docs");
    let missing = || Error::BadRequest("POST body must include `docs` parameter.".to_owned());
    bounded_list(documents.ok_or_else(missing)?.get(), DOCUMENTS_PER_REQUEST_MAX, "documents")
}

/// Serves `_bulk_docs`: saves documents.
async fn save_several(call: &Call, (caller, database): (&Caller, &str), sent: SentBody) -> Result<Response<Body>> {
    let service = Arc::clone(&call.service);
    let parsed = call.parse_documents(caller, sent, move |bytes, decompressor| {
        let members = Members::parse(text_of(bytes)?)?;
        let documents: Vec<&RawValue> = documents_in(&members)?;
        let revisions = match members.read::<bool>("new_edits")? {
            Some(false) => Revisions::OfClient,
            _ => Revisions::OfServer,
        };
        Ok((parse_documents(&documents, || new_id(&service), decompressor), revisions))
    });
    let Parsed { value: (parsed, revisions), permit: _held } = parsed.await?;
    let mut answers: Vec<Option<String>> = Vec::with_capacity(parsed.len());
    let mut valid = Vec::new();
    for document in parsed {
        match document {
            Ok(document) => {
                answers.push(None);
                valid.push(document);
            }
            Err((id, error)) => answers.push(Some(failed(&id, &error))),
        }
    }
    let mut outcomes = Vec::new();
    let mut rest = valid.into_iter().peekable();
    while rest.peek().is_some() {
        // Each job takes the documents of one transaction over, so that no request keeps a worker for long.
        let group: Vec<SentDocument> = rest.by_ref().take(DOCUMENTS_PER_TRANSACTION).collect();
        let saved = with_database(call, (caller, database), "_bulk_docs", move |databases, open| {
            let target = WriteTarget { databases, reader: &open.reader };
            let ids: Vec<String> = group.iter().map(|document| document.id.clone()).collect();
            let (outcomes, ticket) = target.put(group, revisions);
            let paired: Vec<_> = ids.into_iter().zip(outcomes).collect();
            Ok((paired, ticket))
        });
        outcomes.extend(saved.await?);
    }
    let mut outcomes = outcomes.into_iter();
    for answer in &mut answers {
        if answer.is_some() {
            continue;
        }
        let Some((id, outcome)) = outcomes.next() else { break };
        *answer = match outcome {
            Ok(saved) if revisions == Revisions::OfServer => {
                Some(json!({ "ok": true, "id": saved.id, "rev": saved.revision.to_string() }).to_string())
            }
            // With revisions of clients, only failures are told.
            Ok(_) => None,
            Err(error) => Some(failed(&id, &error)),
        };
    }
    let answers: Vec<String> = answers.into_iter().flatten().collect();
    Ok(json_answer(StatusCode::CREATED, format!("[{}]", answers.join(","))))
}

fn failed(id: &str, error: &Error) -> String {
    let (_, word) = error.kind();
    json!({ "id": id, "error": word, "reason": error.to_string() }).to_string()
}

/// Serves `_bulk_get`: documents with their revisions.
async fn get_several(call: &Call, (caller, database): (&Caller, &str), sent: SentBody) -> Result<Response<Body>> {
    #[derive(serde::Deserialize)]
    struct Wanted {
        id: String,
        rev: Option<String>,
    }
    let wanted = call.parse_body(caller, sent, |text| {
        let wanted: Vec<Wanted> = documents_in(&Members::parse(text)?)?;
        let revision = |Wanted { id, rev }| WantedRevision { id, revision: rev };
        Ok(wanted.into_iter().map(revision).collect::<Vec<_>>())
    });
    let Parsed { value: wanted, permit } = wanted.await?;
    let options = document_options(call);
    let latest = call.target.is_on("latest");
    if is_accepted(call, &["multipart/mixed", "multipart/related"]) {
        let options = DocumentOptions { attachments: AttachmentForm::Follow, ..options };
        let versions = Versions { wanted, latest, options, form: Form::Mixed, memory: Some(permit) };
        return multipart_answer::answer(call, (caller, database), versions).await;
    }
    let service = Arc::clone(&call.service);
    let of_job = caller.clone();
    let path = database.to_owned();
    let read: answer::ReadPart<usize> = Arc::new(move |begin| {
        // The memory of the wanted revisions is held as long as they are.
        let _held = &permit;
        let open = OpenDatabase::open(&service.services.databases, &of_job, &path)?;
        let reading = open.reader.read()?;
        let mut text = String::from(if begin == 0 { "{\"results\":[" } else { "" });
        let mut index = begin;
        while let Some(one) = wanted.get(index) {
            if index - begin >= DOCUMENTS_PER_PART || text.len() >= ANSWER_PART_BYTES {
                break;
            }
            text.push_str(if index == 0 { "\n{\"id\":" } else { ",\n{\"id\":" });
            push_text(&mut text, &one.id);
            let docs = match open_revisions(&reading, one, (latest, options)) {
                Ok(docs) => docs,
                // An id that no document can have fails by itself.
                Err(error @ Error::BadRequest(_)) => vec![format!("{{\"error\":{}}}", failed(&one.id, &error))],
                Err(error) => return Err(error),
            };
            text.push_str(&format!(",\"docs\":[{}]}}", docs.join(",")));
            index += 1;
        }
        let next = (index < wanted.len()).then_some(index);
        if next.is_none() {
            text.push_str("\n]}\n");
        }
        Ok(Part { text: text.into_bytes(), next, ticket: reading.ticket() })
    });
    answer::streamed(&call.service, caller, "_bulk_get", (0, read)).await
}
