//! Tests of push subscriptions (RFC 8620 §7.2): verification, encrypted pushes to a service on the loopback network,
//! and what ends a subscription.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::networks::{Network, Networks};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::sessions::{SessionClient, SessionLogin};
use jmap::Caller;
use jmap::backend::Scope;
use jmap::limits::{
    OBSERVATION_RETRY, PUSH_CREATIONS_MAX, PUSH_FAILURES_MAX, PUSH_SUBSCRIPTIONS_PER_PERSON_MAX,
    PUSH_VERIFICATION_TIME_MAX, PUSHES_MAX, PUSHES_PER_HOST_MAX,
};
use jmap::push::observe;
use jmap::push_messages::PushMessage;
use jmap::push_subscriptions::PushSubscriptions;
use jmap::push_target::PushPolicy;
use jmap::service::push_sender::{PushOutcome, PushResolver, PushSender, ResolvedAddresses};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::{aead, hkdf, signature};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wire::ClientTls;

use crate::server::Server;
use crate::world::{OWNERS, World, caller};

/// A request that the push service has received.
#[derive(Debug)]
struct Received {
    path: String,
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// A push service.
struct PushService {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<Received>,
    /// The head of the next answers.
    answer: Arc<Mutex<String>>,
    accepting: JoinHandle<()>,
}

impl Drop for PushService {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl PushService {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (sender, received) = mpsc::unbounded_channel();
        let answer = Arc::new(Mutex::new("201 Created".to_owned()));
        let answers = Arc::clone(&answer);
        let accepting = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = receive(&mut stream).await;
                let head = answers.lock().expect("no test panics with it").clone();
                let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n");
                // The server does not have to wait for it.
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = sender.send(request);
            }
        });
        Self { address, received, answer, accepting }
    }

    fn set_answer(&self, head: &str) {
        head.clone_into(&mut self.answer.lock().expect("no test panics with it"));
    }

    fn url(&self) -> String {
        format!("http://{}/push/secret", self.address)
    }

    /// Returns the policy that permits this service.
    fn policy(&self) -> PushPolicy {
        let networks = Networks::from_iter([Network::v4([127, 0, 0, 0], 8)]);
        PushPolicy::new(&[self.address.to_string()], networks).expect("it is valid")
    }

    async fn next(&mut self) -> Received {
        self.received.recv().await.expect("the service runs")
    }

    /// Returns the object of the next push, which is not encrypted.
    async fn next_object(&mut self) -> Value {
        let received = self.next().await;
        serde_json::from_slice(&received.body).expect("a push is JSON")
    }
}

async fn receive(stream: &mut TcpStream) -> Received {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        assert_ne!(stream.read_buf(&mut bytes).await.expect("a request"), 0, "the request has a head");
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("the head is text");
    let mut lines = head.split("\r\n");
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a path").to_owned();
    let fields: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = fields["content-length"].parse().expect("a number");
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        assert_ne!(stream.read_buf(&mut body).await.expect("a body"), 0, "the body is complete");
    }
    Received { path, fields, body }
}

/// The resolver of a network in which every name leads to one address.
struct OneAddress(IpAddr);

impl PushResolver for OneAddress {
    fn addresses<'r>(&'r self, _: &'r str) -> ResolvedAddresses<'r> {
        Box::pin(async { Ok(vec![self.0]) })
    }
}

fn sender() -> PushSender {
    PushSender {
        resolver: Arc::new(OneAddress([127, 0, 0, 1].into())),
        tls: ClientTls::opportunistic().expect("it needs nothing"),
        contact: "mailto:postmaster@demo.test".to_owned(),
    }
}

/// Starts a server that sends pushes.
async fn start(service: &PushService) -> (Server, JoinHandle<()>) {
    let server = Server::start(World::with_push(service.policy())).await;
    let pushing = tokio::spawn(Arc::clone(&server.service).deliver_pushes(sender()));
    (server, pushing)
}

fn set(world: &World, arguments: Value) -> Value {
    world.call("alice", "PushSubscription/set", arguments)
}

fn create(world: &World, more: Value) -> Value {
    let mut subscription = json!({ "deviceClientId": "d1", "types": null });
    subscription.as_object_mut().expect("it is one").extend(more.as_object().expect("an object").clone());
    set(world, json!({ "create": { "k": subscription } }))
}

fn created_id(reply: &Value) -> String {
    reply["created"]["k"]["id"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

fn verify(world: &World, id: &str, code: &Value) -> Value {
    set(world, json!({ "update": { id: { "verificationCode": code } } }))
}

fn list(world: &World, caller: &Caller) -> Vec<Value> {
    let body = json!({
        "using": ["urn:ietf:params:jmap:core"],
        "methodCalls": [["PushSubscription/get", { "ids": null }, "c"]],
    });
    let reply = jmap::execute(&world.services, caller, body.to_string().as_bytes()).expect("a valid request");
    let reply: Value = serde_json::from_slice(&reply.body).expect("JSON");
    reply["methodResponses"][0][1]["list"].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
}

/// The private key of a client.
struct ClientKey;

impl ClientKey {
    const AUTH: [u8; 16] = [9; 16];

    #[expect(deprecated, reason = "a client uses its key for each message, which the library offers in no other way")]
    fn private() -> EphemeralPrivateKey {
        let random = ring::test::rand::FixedSliceRandom { bytes: &[7; 32] };
        EphemeralPrivateKey::generate(&ECDH_P256, &random).expect("the bytes are a key")
    }

    fn public() -> Vec<u8> {
        Self::private().compute_public_key().expect("it has one").as_ref().to_vec()
    }

    fn keys() -> Value {
        json!({ "p256dh": URL_SAFE_NO_PAD.encode(Self::public()), "auth": URL_SAFE_NO_PAD.encode(Self::AUTH) })
    }

    /// Decrypts a message as a browser does.
    fn decrypt(body: &[u8]) -> Value {
        let (salt, rest) = body.split_at(16);
        let (head, rest) = rest.split_at(5);
        assert_eq!(head, [0, 0, 16, 0, 65], "the size of records, and the length of the key");
        let (server_key, sealed) = rest.split_at(65);
        let expand = |secret: &hkdf::Prk, info: &[&[u8]], length: usize| {
            struct Length(usize);
            impl hkdf::KeyType for Length {
                fn len(&self) -> usize {
                    self.0
                }
            }
            let mut bytes = vec![0; length];
            secret.expand(info, Length(length)).and_then(|key| key.fill(&mut bytes)).expect("it is short");
            bytes
        };
        let theirs = UnparsedPublicKey::new(&ECDH_P256, server_key);
        let input = agree_ephemeral(Self::private(), &theirs, |secret| {
            let combined = hkdf::Salt::new(hkdf::HKDF_SHA256, &Self::AUTH).extract(secret);
            expand(&combined, &[b"WebPush: info\0", &Self::public(), server_key], 32)
        });
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(&input.expect("the key is valid"));
        let key = expand(&derived, &[b"Content-Encoding: aes128gcm\0"], 16);
        let nonce = expand(&derived, &[b"Content-Encoding: nonce\0"], 12);
        let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, &key).expect("a key"));
        let nonce = aead::Nonce::try_assume_unique_for_key(&nonce).expect("a nonce");
        let mut text = sealed.to_vec();
        let text = key.open_in_place(nonce, aead::Aad::empty(), &mut text).expect("it is for this key");
        let (last, text) = text.split_last().expect("a delimiter");
        assert_eq!(*last, 2);
        serde_json::from_slice(text).expect("JSON")
    }
}

/// Checks that the server identifies itself to a push service with the key that clients know.
fn check_identification(world: &World, service: &PushService, received: &Received) {
    let urls = jmap::SessionUrls {
        api: String::new(),
        download: String::new(),
        upload: String::new(),
        event_source: String::new(),
        websocket: None,
    };
    let session = jmap::session(&world.services, &caller("alice"), &urls).expect("a session");
    let key = session["capabilities"][jmap::session::WEBPUSH_VAPID]["applicationServerKey"].as_str().expect("a key");
    let value = &received.fields["authorization"];
    let (token, public) = value.strip_prefix("vapid t=").and_then(|rest| rest.split_once(", k=")).expect("VAPID");
    assert_eq!(public, key);
    let (text, signature) = token.rsplit_once('.').expect("three parts");
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).expect("base64");
    let public = signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, decode(public));
    public.verify(text.as_bytes(), &decode(signature)).expect("the signature is valid");
    let claims: Value = serde_json::from_slice(&decode(text.split_once('.').expect("two parts").1)).expect("JSON");
    assert_eq!(claims["aud"], format!("http://{}", service.address));
    assert_eq!(claims["sub"], "mailto:postmaster@demo.test");
}

#[tokio::test(start_paused = true)]
async fn a_verified_client_receives_changes_that_only_it_can_read() {
    let mut service = PushService::start().await;
    let (server, _pushing) = start(&service).await;
    let world = &server.world;
    let reply = create(world, json!({ "url": service.url(), "keys": ClientKey::keys(), "types": ["Email", "Thread"] }));
    let id = created_id(&reply);
    let received = service.next().await;
    assert_eq!(received.path, "/push/secret");
    let expected = [("content-encoding", "aes128gcm"), ("ttl", "86400"), ("host", &service.address.to_string())];
    for (name, value) in expected {
        assert_eq!(received.fields[name], value);
    }
    check_identification(world, &service, &received);
    let verification = ClientKey::decrypt(&received.body);
    assert_eq!(verification["@type"], "PushVerification");
    assert_eq!(verification["pushSubscriptionId"], json!(id));
    // Nothing is told before the client has returned the code.
    world.deliver("alice", "INBOX", b"Subject: x\r\n\r\nbody\r\n");
    let wrong = verify(world, &id, &json!("0000"));
    assert_eq!(wrong["notUpdated"][&id]["properties"], json!(["verificationCode"]), "{wrong}");
    assert_eq!(list(world, &caller("alice"))[0]["verificationCode"], Value::Null);
    let verified = verify(world, &id, &verification["verificationCode"]);
    assert!(verified["updated"].get(&id).is_some(), "{verified}");
    let known = list(world, &caller("alice"));
    assert_eq!(known.len(), 1);
    assert_eq!(known[0]["verificationCode"], verification["verificationCode"]);
    assert!(known[0].get("url").is_none() && known[0].get("keys").is_none());
    // The client is told all states once, and then what has changed.
    let change = ClientKey::decrypt(&service.next().await.body);
    assert_eq!(change["@type"], "StateChange");
    let types: Vec<&String> = change["changed"]["Aalice"].as_object().expect("a change").keys().collect();
    assert_eq!(types, ["Email", "Thread"]);
    let get = world.call("alice", "Email/get", json!({ "accountId": "Aalice", "ids": [] }));
    assert_eq!(change["changed"]["Aalice"]["Email"], get["state"]);
    let before = get["state"].clone();
    world.deliver("alice", "INBOX", b"Subject: y\r\n\r\nbody\r\n");
    let change = ClientKey::decrypt(&service.next().await.body);
    let get = world.call("alice", "Email/get", json!({ "accountId": "Aalice", "ids": [] }));
    assert_eq!(change["changed"]["Aalice"]["Email"], get["state"]);
    assert_ne!(get["state"], before);
}

#[tokio::test(start_paused = true)]
async fn several_changes_are_one_push_and_a_busy_service_gets_it_later() {
    let mut service = PushService::start().await;
    let (server, _pushing) = start(&service).await;
    let world = &server.world;
    let id = created_id(&create(world, json!({ "url": service.url(), "types": ["Email"] })));
    let verification = service.next_object().await;
    verify(world, &id, &verification["verificationCode"]);
    service.next_object().await;
    service.set_answer("429 Too Many Requests\r\nretry-after: 100");
    let state = || world.call("alice", "Email/get", json!({ "accountId": "Aalice", "ids": [] }))["state"].clone();
    for _ in 0..5 {
        world.deliver("alice", "INBOX", b"Subject: x\r\n\r\nbody\r\n");
    }
    assert_eq!(service.next_object().await["changed"]["Aalice"]["Email"], state());
    world.deliver("alice", "INBOX", b"Subject: x\r\n\r\nbody\r\n");
    let begun = tokio::time::Instant::now();
    service.set_answer("201 Created");
    let change = service.next_object().await;
    assert!(begun.elapsed() >= Duration::from_secs(99), "{:?}", begun.elapsed());
    assert_eq!(change, json!({ "@type": "StateChange", "changed": { "Aalice": { "Email": state() } } }));
    // A service that fails for long loses the subscription.
    let changed = changed_signal(world, &id);
    service.set_answer("503 Service Unavailable");
    world.deliver("alice", "INBOX", b"Subject: x\r\n\r\nbody\r\n");
    for _ in 0..PUSH_FAILURES_MAX {
        service.next().await;
    }
    changed.notified().await;
    assert_eq!(list(world, &caller("alice")), Vec::<Value>::new());
}

/// Returns what is notified when a subscription is changed or removed.
fn changed_signal(world: &World, id: &str) -> Arc<tokio::sync::Notify> {
    world.services.push.all().into_iter().find(|(known, _)| known == id).expect("it exists").1
}

#[tokio::test(start_paused = true)]
async fn addresses_that_refuse_pushes_or_lead_elsewhere_lose_the_subscription() {
    let mut service = PushService::start().await;
    let (server, _pushing) = start(&service).await;
    let other = PushService::start().await;
    for head in [
        "410 Gone".to_owned(),
        "404 Not Found".to_owned(),
        format!("302 Found\r\nlocation: {}", other.url()),
        format!("307 Temporary Redirect\r\nlocation: {}", other.url()),
    ] {
        service.set_answer(&head);
        let id = created_id(&create(&server.world, json!({ "url": service.url() })));
        let changed = changed_signal(&server.world, &id);
        service.next().await;
        changed.notified().await;
        assert_eq!(list(&server.world, &caller("alice")), Vec::<Value>::new(), "{head}");
    }
    let mut other = other;
    assert!(other.received.try_recv().is_err(), "no redirection is followed");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_belongs_to_its_credential_and_ends_with_it() {
    let mut service = PushService::start().await;
    let (server, _pushing) = start(&service).await;
    let world = &server.world;
    let client = SessionClient::new(server.address.ip(), None);
    let password = sasl::LoginPassword::Account;
    let login = SessionLogin { login: "alice".to_owned(), stamp: 1, password, factor: None };
    let (token, _) = server.sessions.begin(login, client).expect("a sound store");
    let session = http::sessions::SessionId::of_token(&token);
    let browser = Caller { login: "alice".to_owned(), scope: Scope::All, credential: session.name() };
    let subscription = json!({ "deviceClientId": "d2", "url": service.url() });
    let body = json!({
        "using": ["urn:ietf:params:jmap:core"],
        "methodCalls": [["PushSubscription/set", { "create": { "k": subscription } }, "c"]],
    });
    let reply = jmap::execute(&world.services, &browser, body.to_string().as_bytes()).expect("a valid request");
    let reply: Value = serde_json::from_slice(&reply.body).expect("JSON");
    let id = created_id(&reply["methodResponses"][0][1]);
    let verification = service.next_object().await;
    assert_eq!(list(world, &browser).len(), 1);
    for stranger in [caller("alice"), caller("bob")] {
        assert_eq!(list(world, &stranger), Vec::<Value>::new());
    }
    // Others do not even find it.
    let others = verify(world, &id, &verification["verificationCode"]);
    assert_eq!(others["notUpdated"][&id]["type"], "notFound");
    let destroyed = set(world, json!({ "destroy": [id] }));
    assert_eq!(destroyed["notDestroyed"][&id]["type"], "notFound");
    // It ends with the session.
    let changed = changed_signal(world, &id);
    server.sessions.end(&session);
    changed.notified().await;
    assert_eq!(world.services.push.get(&id), None);
    // That of a password ends with the password.
    let id = created_id(&create(world, json!({ "url": service.url() })));
    let verification = service.next_object().await;
    verify(world, &id, &verification["verificationCode"]);
    service.next_object().await;
    let changed = changed_signal(world, &id);
    world.password_stamp.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(list(world, &caller("alice")), Vec::<Value>::new());
    world.deliver("alice", "INBOX", b"Subject: x\r\n\r\nbody\r\n");
    changed.notified().await;
    assert_eq!(world.services.push.get(&id), None);
}

#[tokio::test]
async fn subscriptions_and_the_key_survive_a_restart() {
    let service = PushService::start().await;
    let world = World::with_push(service.policy());
    let id =
        created_id(&create(&world, json!({ "url": service.url(), "keys": ClientKey::keys(), "types": ["Email"] })));
    let known = world.services.push.get(&id).expect("it exists");
    set(&world, json!({ "update": { &id: { "verificationCode": known.code } } }));
    let open = || {
        let sources = (Arc::clone(&world.services.clock), Arc::clone(&world.services.random));
        PushSubscriptions::open(&world.sessions, service.policy(), sources).expect("a sound store")
    };
    let reopened = open();
    let found = reopened.get(&id).expect("it is kept");
    assert!(found.is_verified);
    assert_eq!((&found.wanted.keys, &found.wanted.types), (&known.wanted.keys, &known.wanted.types));
    assert_eq!((&found.owner, found.expires), (&known.owner, known.expires));
    let key = |push: &PushSubscriptions| push.key().expect("it has one").public();
    assert_eq!(key(&reopened), key(&world.services.push));
    set(&world, json!({ "destroy": [id] }));
    assert_eq!(open().get(&id), None);
}

fn check_refused(world: &World, more: Value, property: &str, words: &str) {
    let reply = create(world, more);
    let error = &reply["notCreated"]["k"];
    assert_eq!((&error["type"], &error["properties"]), (&json!("invalidProperties"), &json!([property])), "{reply}");
    assert!(error["description"].as_str().is_some_and(|text| text.contains(words)), "{reply}");
}

#[tokio::test]
async fn a_subscription_may_be_sent_back_as_it_was_read() {
    let service = PushService::start().await;
    let world = World::with_push(service.policy());
    let subscription = json!({ "deviceClientId": "d1", "url": service.url(), "types": ["Email"] });
    let created = set(&world, json!({ "create": { "k": subscription } }));
    let id = created_id(&created);
    let one = &created["created"]["k"];
    assert_eq!((one.get("keys"), one.get("types")), (Some(&Value::Null), None), "a default is told: {created}");
    let update = |patch: Value| set(&world, json!({ "update": { &id: patch } }));
    let done = json!({ &id: null });
    assert_eq!(update(list(&world, &caller("alice"))[0].clone())["updated"], done);
    let code = world.services.push.get(&id).expect("it exists").code;
    assert_eq!(verify(&world, &id, &json!(code))["updated"], done);
    let whole = list(&world, &caller("alice"))[0].clone();
    assert_eq!(whole["verificationCode"], json!(code));
    assert_eq!(update(whole)["updated"], done);
    assert_eq!(update(json!({ "id": id }))["updated"], done);
    let refused = |patch: Value| update(patch)["notUpdated"][&id]["type"].clone();
    assert_eq!(refused(json!({ "id": "P1" })), "invalidProperties");
    assert_eq!(refused(json!({ "deviceClientId": "d2" })), "invalidProperties");
    assert_eq!(refused(json!({ "keys": null })), "invalidProperties");
    assert_eq!(refused(json!({ "types/0": "Thread" })), "invalidPatch");
    // A client may want to be told of nothing for now.
    assert_eq!(update(json!({ "types": [] }))["updated"], done);
    assert_eq!(list(&world, &caller("alice"))[0]["types"], json!([]));
}

#[tokio::test]
async fn what_is_not_permitted_is_refused_with_the_reason() {
    let service = PushService::start().await;
    let world = World::with_push(service.policy());
    let url = service.url();
    check_refused(&world, json!({ "url": "https://push.test/" }), "url", "jmap.push_hosts");
    check_refused(&world, json!({ "url": "http://127.0.0.1:1/" }), "url", "jmap.push_hosts");
    check_refused(&world, json!({ "url": "ftp://push.test/" }), "url", "https");
    check_refused(&world, json!({ "url": 1 }), "url", "text");
    check_refused(&world, json!({ "url": url, "expires": "1999-01-01T00:00:00Z" }), "expires", "past");
    check_refused(&world, json!({ "url": url, "expires": "tomorrow" }), "expires", "UTCDate");
    check_refused(&world, json!({ "url": url, "types": "Email" }), "types", "list");
    check_refused(&world, json!({ "url": url, "keys": { "p256dh": "x", "auth": "y" } }), "keys", "valid");
    check_refused(&world, json!({ "url": url, "keys": 1 }), "keys", "valid");
    check_refused(&world, json!({ "url": url, "id": "P1" }), "id", "cannot set");
    check_refused(&world, json!({ "url": url, "deviceClientId": "" }), "deviceClientId", "text");
    check_refused(&world, json!({ "url": url, "verificationCode": "x" }), "verificationCode", "null");
    let by_default = World::new();
    check_refused(&by_default, json!({ "url": "https://push.test/" }), "url", "jmap.push_hosts");
    let capability = json!([jmap::session::WEBPUSH_VAPID]);
    let body = json!({ "using": capability, "methodCalls": [] }).to_string();
    assert!(world.request("alice", body.as_bytes()).is_ok());
    let problem = by_default.request("alice", body.as_bytes()).expect_err("it has no key");
    assert_eq!(problem["type"], "urn:ietf:params:jmap:error:unknownCapability");
    let call =
        |arguments: Value| world.calls("alice", &json!([["PushSubscription/get", arguments, "c"]]))[0][1].clone();
    for secret in ["url", "keys"] {
        assert_eq!(call(json!({ "ids": [], "properties": ["id", secret] }))["type"], "forbidden");
    }
    assert_eq!(call(json!({ "properties": ["colour"] }))["type"], "invalidArguments");
    assert_eq!(call(json!({ "accountId": "Aalice" }))["type"], "invalidArguments");
    assert_eq!(call(json!({ "ids": ["P1"] })), json!({ "list": [], "notFound": ["P1"] }));
}

#[tokio::test]
async fn subscriptions_are_bounded_in_time_and_number() {
    let service = PushService::start().await;
    let world = World::with_push(service.policy());
    let url = service.url();
    let reply = create(&world, json!({ "url": url, "expires": "2999-01-01T00:00:00Z" }));
    let latest = world.clock_after_days(7);
    assert_eq!(reply["created"]["k"]["expires"], json!(latest), "{reply}");
    let id = created_id(&reply);
    let soon = world.clock_after_days(1);
    let update = |id: &str, patch: Value| set(&world, json!({ "update": { id: patch } }));
    assert_eq!(update(&id, json!({ "expires": soon }))["updated"][&id], Value::Null);
    assert_eq!(update(&id, json!({ "expires": null }))["updated"][&id]["expires"], json!(latest));
    for property in ["url", "keys", "deviceClientId", "id", "colour"] {
        let refused = update(&id, json!({ property: "x" }));
        assert_eq!(refused["notUpdated"][&id]["properties"], json!([property]), "{refused}");
    }
    for _ in 1..PUSH_SUBSCRIPTIONS_PER_PERSON_MAX {
        created_id(&create(&world, json!({ "url": url })));
    }
    assert_eq!(create(&world, json!({ "url": url }))["notCreated"]["k"]["type"], "overQuota");
    // Those that nobody verifies end.
    world.clock.advance(PUSH_VERIFICATION_TIME_MAX);
    assert_eq!(list(&world, &caller("alice")), Vec::<Value>::new());
    created_id(&create(&world, json!({ "url": url })));
    assert_eq!(world.services.push.all().len(), 1);
    // Each creation sends a message, so their rate is limited, too.
    let mut kind = Value::Null;
    for _ in 0..100 {
        let reply = create(&world, json!({ "url": url }));
        kind = reply["notCreated"]["k"]["type"].clone();
        if kind != Value::Null {
            break;
        }
        set(&world, json!({ "destroy": [created_id(&reply)] }));
    }
    assert_eq!(kind, "rateLimit");
}

/// Returns a policy that permits services.
fn policy_of(addresses: &[SocketAddr]) -> PushPolicy {
    let networks = Networks::from_iter([Network::v4([127, 0, 0, 0], 8)]);
    let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    PushPolicy::new(&hosts, networks).expect("it is valid")
}

#[tokio::test]
async fn a_service_that_does_not_answer_does_not_delay_others() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let silent_address = silent.local_addr().expect("an address");
    let mut service = PushService::start().await;
    let server = Server::start(World::with_push(policy_of(&[silent_address, service.address]))).await;
    let world = &server.world;
    for login in OWNERS {
        for _ in 0..PUSH_SUBSCRIPTIONS_PER_PERSON_MAX - 1 {
            let subscription = json!({ "deviceClientId": "d", "url": format!("http://{silent_address}/") });
            world.call(login, "PushSubscription/set", json!({ "create": { "k": subscription } }));
        }
    }
    assert!(world.services.push.all().len() > PUSHES_MAX, "they could take all slots");
    let _pushing = tokio::spawn(Arc::clone(&server.service).deliver_pushes(sender()));
    let mut open = Vec::new();
    while open.len() < PUSHES_PER_HOST_MAX {
        open.push(silent.accept().await.expect("a connection"));
    }
    created_id(&create(world, json!({ "url": service.url() })));
    assert_eq!(service.next_object().await["@type"], "PushVerification");
    let further = tokio::time::timeout(Duration::ZERO, silent.accept()).await;
    assert!(further.is_err(), "the silent service has more connections than a service may");
}

#[test]
fn a_change_that_cannot_be_written_changes_nothing() {
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let world = World::with_push(policy_of(&[address]));
    let url = format!("http://{address}/");
    let id = created_id(&create(&world, json!({ "url": url })));
    let known = world.services.push.get(&id).expect("it exists");
    world.engine.faults().set_capacity(0);
    for _ in 0..PUSH_CREATIONS_MAX {
        let reply = create(&world, json!({ "url": url }));
        assert_eq!(reply["notCreated"]["k"]["type"], "serverFail", "{reply}");
    }
    let destroyed = set(&world, json!({ "destroy": [id] }));
    assert_eq!(destroyed["notDestroyed"][&id]["type"], "serverFail", "{destroyed}");
    let updated = verify(&world, &id, &json!(known.code));
    assert_eq!(updated["notUpdated"][&id]["type"], "serverFail", "{updated}");
    assert!(world.services.push.remove(&id).is_err());
    assert_eq!(world.services.push.get(&id), Some(known));
    world.engine.faults().free_disk();
    // Attempts that failed are no creations.
    created_id(&create(&world, json!({ "url": url })));
    world.services.push.remove(&id).expect("a sound store");
    assert_eq!(world.services.push.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_cannot_be_opened_is_observed_again() {
    let world = World::new();
    let hour = Duration::from_secs(3_600);
    world.broken.lock().expect("no test panics with it").insert("Aalice".to_owned());
    let broken = observe(&world.services, &caller("alice")).expect("the accounts are known");
    assert!(!broken.is_complete && broken.states.states.is_empty());
    let begun = tokio::time::Instant::now();
    tokio::time::timeout(hour, broken.change).await.expect("it is tried again");
    assert_eq!(begun.elapsed(), OBSERVATION_RETRY);
    world.broken.lock().expect("no test panics with it").clear();
    let sound = observe(&world.services, &caller("alice")).expect("the accounts are known");
    let known = sound.states;
    assert!(sound.is_complete && known.states.contains_key("Aalice"));
    assert!(tokio::time::timeout(hour, sound.change).await.is_err(), "nothing changes");
    // A client is not told all states again because an account could not be read once.
    world.broken.lock().expect("no test panics with it").insert("Aalice".to_owned());
    let broken = observe(&world.services, &caller("alice")).expect("the accounts are known");
    assert_eq!(broken.with_known(&known).states, known);
}

fn message() -> PushMessage {
    PushMessage { body: b"{}".to_vec(), is_encrypted: false, authorization: "vapid t=x, k=y".to_owned() }
}

async fn check_not_sent(hosts: &[String], url: &str, address: IpAddr, words: &str) {
    let policy = PushPolicy::new(hosts, Networks::default()).expect("it is valid");
    let target = policy.target(url).expect("the host is named");
    let sender = PushSender { resolver: Arc::new(OneAddress(address)), ..sender() };
    match sender.send(&policy, &target, message()).await {
        PushOutcome::Later(None, reason) => assert!(reason.contains(words), "{reason}"),
        other => panic!("{address}: {other:?}"),
    }
}

#[tokio::test]
async fn no_connection_is_made_to_special_addresses_behind_names() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let hosts = [format!("push.test:{port}")];
    let url = format!("https://push.test:{port}/a");
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "10.0.0.1", "169.254.169.254", "0.0.0.0"]
    {
        check_not_sent(&hosts, &url, address.parse().expect("an address"), "private or reserved").await;
    }
    let accepted = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
    assert!(accepted.is_err(), "nobody has connected");
}

#[tokio::test(start_paused = true)]
async fn slow_and_endless_answers_end() {
    let service = PushService::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let networks = Networks::from_iter([Network::v4([127, 0, 0, 0], 8)]);
    let policy = PushPolicy::new(&[address.to_string()], networks).expect("it is valid");
    let target = policy.target(&format!("http://{address}/")).expect("it is named");
    let silent = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let (mut endless, _) = listener.accept().await.expect("a connection");
        let mut sent = 0;
        // It ends when the server closes the connection.
        while endless.write_all(b"HTTP/1.1 200 OK\r\n").await.is_ok() && sent < 1 << 20 {
            sent += 17;
        }
        drop(stream);
        sent
    });
    let sender = sender();
    match sender.send(&policy, &target, message()).await {
        PushOutcome::Later(None, reason) => assert!(reason.contains("in time"), "{reason}"),
        other => panic!("{other:?}"),
    }
    match sender.send(&policy, &target, message()).await {
        PushOutcome::Later(None, reason) => assert!(reason.contains("HTTP"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(silent.await.expect("it does not panic") > 0);
    drop(service);
}
