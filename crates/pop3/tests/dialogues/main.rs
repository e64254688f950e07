//! Dialogues with the `pop3` crate over a mail file in memory.
//!
//! A dialogue is text. `C:` lines are sent and `S:` lines are expected; `*` at the end of an `S:` line matches the rest
//! of the line. `TLS` performs the handshake, `END` expects the server to close the connection, `POST text` delivers a
//! message in the meantime, `DRAIN` begins the server's shutdown, and `DISMISS` signals that the account has changed.
//! Consecutive `C:` lines are sent in one write.

mod debug_log;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::memory::{MemoryOwner, MemoryShares, ShareSizes};
use base::sim::{SeededRandom, SimClock};
use base::{Name, UidSet};
use mail::mailbox::{FlagChange, Flags, MailFile, MailOptions, MailStore, NewMessage};
use notes::{Access, Acl, AclEntry, AclLevel, AuthenticationMethod, Databases, Identity};
use pop3::backend::Accounts;
use pop3::{ListenerServices, serve};
use sasl::sim::{CLIENT_FINAL, CLIENT_FIRST, ExampleScram, PROOF, SERVER_FINAL, SERVER_FIRST};
use sasl::{
    ClientFirst, Credentials, Login, LoginError, LoginOrigin, Mechanism, PasswordRequest, ScramServer, encode_line,
};
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};
use tokio::io::AsyncWriteExt;
use wire::sim::full_pool;
use wire::{ClientTls, Peer, PoolOptions, SessionTermination, Shutdown, Stream, Tls, WorkerPool};

const LETTER: &str = "Subject: one\r\n\r\n.dots\r\n..\r\nlast\r\n";

/// Accounts of three users with the password `sesame`: ann, bob, whose account is disabled, and eve, who has no mail
/// file. SCRAM-SHA-256 plays the example of RFC 7677 for ann.
struct MemoryAccounts {
    mail: Arc<MailStore>,
    /// Number of logins that ended because the mail file could not be opened.
    ended_logins: Arc<AtomicUsize>,
}

impl Credentials for MemoryAccounts {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        match (request.authentication_id(), request.password(), request.authorization_id()) {
            ("ann@acme.test", "sesame", None) => Ok(Login::new("ann@acme.test")),
            ("ann@acme.test", "sesame", Some(_)) => Err(LoginError::NotAuthorized),
            ("eve@acme.test", "sesame", None) => Ok(Login::new("eve@acme.test")),
            ("bob@acme.test", "sesame", _) => Err(LoginError::AccountDisabled),
            _ => Err(LoginError::InvalidCredentials),
        }
    }

    fn begin_scram(&self, _: &LoginOrigin, first: &ClientFirst) -> Result<(Box<dyn ScramServer>, String), LoginError> {
        Ok(ExampleScram::begin(first, Login::new("ann@acme.test")))
    }

    fn end_login(&self, _: &LoginOrigin) {
        self.ended_logins.fetch_add(1, Ordering::Relaxed);
    }
}

impl Accounts for MemoryAccounts {
    fn open(&self, _: &LoginOrigin, login: &Login) -> Result<MailFile, LoginError> {
        let login = login.authorization.as_str();
        if login == "eve@acme.test" {
            return Err(LoginError::Unavailable);
        }
        let identity = Arc::new(Identity::person(login).authenticated(AuthenticationMethod::Password));
        self.mail.open("mail/ann.nsf", &identity).map_err(|_| LoginError::Unavailable)
    }
}

struct World {
    mail: Arc<MailStore>,
    ended_logins: Arc<AtomicUsize>,
    service: Arc<ListenerServices>,
}

fn world(letters: &[&str]) -> World {
    world_with(letters, |_| {})
}

fn world_with(letters: &[&str], change: impl FnOnce(&mut ListenerServices)) -> World {
    let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
    let store =
        Arc::new(Store::with_engine(Arc::new(MemoryEngine::new(1)), &options).expect("a store in memory opens"));
    let clock = Arc::new(SimClock::new());
    let databases = Databases::open(store, clock.clone(), Arc::new(SeededRandom::new(7)));
    let mail = MailStore::new(databases, MailOptions::default());
    mail.create_if_missing("mail/ann.nsf", "Ann", &Name::new("ann@acme.test"), None).expect("the mail file is created");
    let certificate = rcgen::generate_simple_self_signed(vec!["mail.acme.test".to_owned()]).expect("a certificate");
    let tls = Tls::new(certificate.cert.pem().as_bytes(), certificate.signing_key.serialize_pem().as_bytes())
        .expect("a pair");
    let ended_logins = Arc::new(AtomicUsize::new(0));
    let pool = WorkerPool::new(&PoolOptions { workers: 2, ..PoolOptions::default() }, clock).expect("threads");
    let mut service = ListenerServices {
        accounts: Arc::new(MemoryAccounts { mail: Arc::clone(&mail), ended_logins: Arc::clone(&ended_logins) }),
        login_pool: pool.clone(),
        memory: MemoryShares::unlimited(),
        pool,
        tls: Some(Arc::new(tls)),
        hostname: "mail.acme.test".to_owned(),
        mechanisms: Mechanism::WITH_PASSWORD.to_vec(),
        idle_time_max: Duration::from_secs(600),
        shutdown: Shutdown::new(),
    };
    change(&mut service);
    let world = World { mail, ended_logins, service: Arc::new(service) };
    letters.iter().for_each(|letter| world.post(letter));
    world
}

impl World {
    fn post(&self, letter: &str) {
        let file = self.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
        let inbox = file
            .snapshot()
            .expect("a snapshot")
            .folder("INBOX")
            .expect("the snapshot can be read")
            .expect("an inbox")
            .id;
        let message = NewMessage { raw: letter.as_bytes().to_vec(), flags: Flags::none(), received: None };
        file.append(inbox, &[message]).expect("the message is stored");
    }

    fn inbox(&self) -> Vec<String> {
        let file = self.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
        let snapshot = file.snapshot().expect("a snapshot");
        let inbox = snapshot.folder("INBOX").expect("the snapshot can be read").expect("an inbox").id;
        let mut subjects = Vec::new();
        snapshot
            .entries(inbox, base::Uid(1)..=base::Uid(u32::MAX), &mut |entry| {
                let raw = snapshot.message(entry.note)?.expect("an entry has its message").raw()?;
                let text = String::from_utf8_lossy(&raw).into_owned();
                subjects.push(text.lines().next().unwrap_or_default().to_owned());
                Ok(std::ops::ControlFlow::Continue(()))
            })
            .expect("the inbox can be read");
        subjects
    }
}

/// The client side of a dialogue.
struct Client {
    stream: Stream,
    received_bytes: Vec<u8>,
}

impl Client {
    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received_bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received_bytes.drain(..=end).collect();
                return String::from_utf8(line).expect("the test's messages are text").trim_end().to_owned();
            }
            let received = self.stream.receive(&mut self.received_bytes).await.expect("the server is there");
            assert_ne!(received, 0, "the server closed after {:?}", String::from_utf8_lossy(&self.received_bytes));
        }
    }

    /// Reads a multi-line response after its first line and undoes the dot-stuffing.
    async fn message(&mut self) -> Vec<u8> {
        let mut message = Vec::new();
        loop {
            while let Some(end) = self.received_bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received_bytes.drain(..=end).collect();
                if line == b".\r\n" {
                    return message;
                }
                message.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
            }
            let received = self.stream.receive(&mut self.received_bytes).await.expect("the server is there");
            assert_ne!(received, 0, "the server closed within a message");
        }
    }

    async fn send(&mut self, text: &mut String) {
        self.stream.write_all(text.as_bytes()).await.expect("the server reads");
        self.stream.flush().await.expect("the server reads");
        text.clear();
    }
}

async fn check(world: &World, peer: Peer, dialogue: &str) {
    let (client, server) = Stream::duplex(1 << 16);
    let termination = SessionTermination::default();
    let serving = tokio::spawn(serve(server, peer, Arc::clone(&world.service), termination.clone()));
    let mut client = Client { stream: client, received_bytes: Vec::new() };
    let mut pending = String::new();
    for line in dialogue.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(words) = line.strip_prefix("C:") {
            pending.push_str(words.strip_prefix(' ').unwrap_or(words));
            pending.push_str("\r\n");
            continue;
        }
        client.send(&mut pending).await;
        match line.split_once(' ').unwrap_or((line, "")) {
            ("S:", expected) => {
                let reply = client.line().await;
                let fits = expected.strip_suffix('*').map_or(reply == expected, |start| reply.starts_with(start));
                assert!(fits, "expected {expected:?}, received {reply:?}");
            }
            ("TLS", _) => {
                let trust = ClientTls::opportunistic().expect("valid settings");
                client.stream = client.stream.connect_tls(&trust, "mail.acme.test").await.expect("a handshake");
            }
            ("POST", letter) => world.post(&format!("{letter}\r\n\r\n")),
            ("DRAIN", _) => world.service.shutdown.drain(),
            ("DISMISS", _) => termination.terminate(),
            ("END", _) => {
                let end = client.stream.receive(&mut client.received_bytes).await.expect("an orderly end");
                assert_eq!(
                    (end, client.received_bytes.len()),
                    (0, 0),
                    "{:?}",
                    String::from_utf8_lossy(&client.received_bytes)
                );
            }
            _ => panic!("no such line: {line}"),
        }
    }
    drop(client);
    // The client disconnects without QUIT, which is an error over TLS.
    let ended = serving.await.expect("no panic");
    assert!(ended.is_ok() || dialogue.contains("TLS"), "{ended:?}");
}

fn stranger() -> Peer {
    Peer::network("192.0.2.7:4711".parse().expect("an address"))
}

const LOGIN: &str =
    "S: +OK mail.acme.test Doublet POP3 ready\nC: USER ann@acme.test\nC: PASS sesame\nS: +OK send PASS\n";

#[tokio::test]
async fn mail_is_listed_read_and_removed() {
    let world = world(&[LETTER, "Subject: two\r\n\r\n", "Subject: three\r\n\r\nshort\r\n"]);
    let dialogue = format!(
        "{LOGIN}
         S: +OK 3 messages (74 octets)
         C: STAT
         S: +OK 3 74
         C: LIST
         S: +OK *
         S: 1 33
         S: 2 16
         S: 3 25
         S: .
         C: LIST 2
         S: +OK 2 16
         C: RETR 1
         S: +OK 33 octets
         S: Subject: one
         S:
         S: ..dots
         S: ...
         S: last
         S: .
         C: TOP 1 1
         S: +OK *
         S: Subject: one
         S:
         S: ..dots
         S: .
         C: DELE 2
         S: +OK *
         C: DELE 2
         S: -ERR no such message
         C: LIST
         S: +OK 2 messages (58 octets)
         S: 1 33
         S: 3 25
         S: .
         C: RSET
         S: +OK 3 messages
         C: DELE 1
         S: +OK *
         C: NOOP
         S: +OK *
         C: QUIT
         S: +OK bye
         END"
    );
    check(&world, Peer::local(), &dialogue).await;
    assert_eq!(world.inbox(), ["Subject: two", "Subject: three"]);
}

#[tokio::test]
async fn session_without_quit_removes_nothing() {
    let world = world(&[LETTER]);
    check(&world, Peer::local(), &format!("{LOGIN}S: +OK 1 *\nC: DELE 1\nS: +OK *\n")).await;
    assert_eq!(world.inbox().len(), 1);
}

#[tokio::test]
async fn uidl_is_stable_and_new_mail_waits_for_next_session() {
    let world = world(&["Subject: one\r\n\r\n", "Subject: two\r\n\r\n"]);
    let file = world.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let snapshot = file.snapshot().expect("a snapshot");
    let inbox = snapshot.folder("INBOX").expect("the snapshot can be read").expect("an inbox").id;
    let validity = snapshot.status(inbox).expect("a status").uid_validity;
    let first = format!(
        "{LOGIN}
         S: +OK 2 *
         POST Subject: three
         C: UIDL
         S: +OK *
         S: 1 {validity:08x}00000001
         S: 2 {validity:08x}00000002
         S: .
         C: DELE 1
         S: +OK *
         C: UIDL 1
         S: -ERR *
         C: QUIT
         S: +OK bye"
    );
    check(&world, Peer::local(), &first).await;
    let second = format!(
        "{LOGIN}S: +OK 2 *\nC: UIDL 1\nS: +OK 1 {validity:08x}00000002\nC: UIDL 2\nS: +OK 2 {validity:08x}00000003"
    );
    check(&world, Peer::local(), &second).await;
}

#[tokio::test]
async fn password_login_requires_encryption() {
    let world = world(&[]);
    let dialogue = "S: +OK *
         C: CAPA
         S: +OK *
         S: TOP
         S: UIDL
         S: RESP-CODES
         S: AUTH-RESP-CODE
         S: PIPELINING
         S: EXPIRE NEVER
         S: UTF8 USER
         S: STLS
         S: IMPLEMENTATION Doublet
         S: .
         C: USER ann@acme.test
         S: -ERR [AUTH] encryption is required before login, use STLS first
         C: AUTH PLAIN AGFubkBhY21lLnRlc3QAc2VzYW1l
         S: -ERR [AUTH] *
         C: PASS sesame
         S: -ERR send USER first
         C: STLS
         C: CAPA
         S: +OK begin TLS
         TLS
         C: CAPA
         S: +OK *
         S: TOP
         S: UIDL
         S: RESP-CODES
         S: AUTH-RESP-CODE
         S: PIPELINING
         S: EXPIRE NEVER
         S: UTF8 USER
         S: USER
         S: SASL SCRAM-SHA-256-PLUS SCRAM-SHA-256 PLAIN LOGIN
         S: IMPLEMENTATION Doublet
         S: .
         C: STLS
         S: -ERR TLS is not available or already active
         C: AUTH PLAIN AGFubkBhY21lLnRlc3QAc2VzYW1l
         S: +OK 0 messages (0 octets)
         C: STLS
         S: -ERR you are logged in already";
    check(&world, stranger(), dialogue).await;
}

#[tokio::test]
async fn every_mechanism_logs_in() {
    let world = world(&[]);
    let [first, challenge, last, verifier] =
        [CLIENT_FIRST, SERVER_FIRST, CLIENT_FINAL, SERVER_FINAL].map(|message| encode_line(message.as_bytes()));
    let scram = format!("S: + {challenge}\nC: {last}\nS: + {verifier}\nC:");
    let after = "S: +OK 0 messages (0 octets)\nC: QUIT\nS: +OK bye\nEND";
    for exchange in [
        "C: AUTH PLAIN\nS: +\nC: AGFubkBhY21lLnRlc3QAc2VzYW1l",
        "C: AUTH LOGIN\nS: + VXNlcm5hbWU6\nC: YW5uQGFjbWUudGVzdA==\nS: + UGFzc3dvcmQ6\nC: c2VzYW1l",
        "C: auth login YW5uQGFjbWUudGVzdA==\nS: + UGFzc3dvcmQ6\nC: c2VzYW1l",
        &format!("C: AUTH SCRAM-SHA-256 {first}\n{scram}"),
        &format!("C: AUTH SCRAM-SHA-256\nS: +\nC: {first}\n{scram}"),
    ] {
        check(&world, Peer::local(), &format!("S: +OK *\n{exchange}\n{after}")).await;
    }
}

#[tokio::test]
async fn binding_to_another_connection_is_refused() {
    let world = world(&[]);
    let binding = encode_line(b"p=tls-exporter,,the keying material of another connection");
    let first = encode_line(b"p=tls-exporter,,n=user,r=abc");
    let challenge = encode_line(b"r=abcxyz,s=c2FsdA==,i=4096");
    let last = encode_line(format!("c={binding},r=abcxyz,p={PROOF}").as_bytes());
    let not_offered = encode_line(b"y,,n=user,r=abc");
    let refused = "S: -ERR the channel binding does not match this connection";
    let dialogue = format!(
        "S: +OK *
         C: STLS
         S: +OK begin TLS
         TLS
         C: AUTH SCRAM-SHA-256-PLUS {first}
         S: + {challenge}
         C: {last}
         {refused}
         C: AUTH SCRAM-SHA-256 {not_offered}
         {refused}"
    );
    check(&world, stranger(), &dialogue).await;
    let dialogue = format!(
        "S: +OK *
         C: AUTH SCRAM-SHA-256-PLUS {first}
         S: -ERR this authentication mechanism is not available"
    );
    check(&world, Peer::local(), &dialogue).await;
}

#[tokio::test]
async fn disabled_scram_is_not_offered() {
    let world = world_with(&[], |service| service.mechanisms = vec![Mechanism::Plain, Mechanism::Login]);
    let dialogue = "S: +OK *
         C: CAPA
         S: +OK *
         S: TOP
         S: UIDL
         S: RESP-CODES
         S: AUTH-RESP-CODE
         S: PIPELINING
         S: EXPIRE NEVER
         S: UTF8 USER
         S: STLS
         S: USER
         S: SASL PLAIN LOGIN
         S: IMPLEMENTATION Doublet
         S: .
         C: AUTH
         S: +OK mechanisms follow
         S: PLAIN
         S: LOGIN
         S: .
         C: AUTH SCRAM-SHA-256 Zmlyc3Q=
         S: -ERR this authentication mechanism is not available
         C: AUTH PLAIN AGFubkBhY21lLnRlc3QAc2VzYW1l
         S: +OK 0 messages (0 octets)";
    check(&world, Peer::local(), dialogue).await;
}

#[tokio::test]
async fn failed_logins_reveal_no_user_and_end_the_session() {
    let world = world(&[]);
    let dialogue = "S: +OK *
         C: AUTH PLAIN
         S: +
         C: *
         S: -ERR authentication was cancelled
         C: AUTH CRAM-MD5
         S: -ERR this authentication mechanism is not available
         C: AUTH PLAIN !!!
         S: -ERR expected base64
         C: USER ann@acme.test
         C: PASS wrong
         S: +OK send PASS
         S: -ERR [AUTH] wrong login or password
         C: USER nobody@acme.test
         C: PASS wrong
         S: +OK send PASS
         S: -ERR [AUTH] wrong login or password
         C: USER bob@acme.test
         C: PASS sesame
         S: +OK send PASS
         S: -ERR [AUTH] the account is disabled
         END";
    check(&world, Peer::local(), dialogue).await;
}

#[tokio::test]
async fn login_ends_if_the_mail_file_cannot_be_opened() {
    let world = world(&[]);
    let eve = encode_line(b"\0eve@acme.test\0sesame");
    let dialogue = format!(
        "S: +OK *
         C: USER eve@acme.test
         C: PASS sesame
         S: +OK send PASS
         S: -ERR [SYS/TEMP] cannot authenticate now, try again later
         C: AUTH PLAIN {eve}
         S: -ERR [SYS/TEMP] cannot authenticate now, try again later
         C: USER ann@acme.test
         C: PASS sesame
         S: +OK send PASS
         S: +OK 0 messages (0 octets)"
    );
    check(&world, Peer::local(), &dialogue).await;
    assert_eq!(world.ended_logins.load(Ordering::Relaxed), 2, "once for each failed login");
}

#[tokio::test]
async fn login_is_deferred_while_too_many_wait() {
    let (login_pool, _busy) = full_pool().expect("a thread starts");
    let world = world_with(&[], |service| service.login_pool = login_pool);
    let refused = "S: -ERR [SYS/TEMP] cannot authenticate now, try again later\n";
    let password = format!("C: USER ann@acme.test\nC: PASS sesame\nS: +OK send PASS\n{refused}");
    let plain = format!("C: AUTH PLAIN {}\n{refused}", encode_line(b"\0ann@acme.test\0sesame"));
    let scram = format!("C: AUTH SCRAM-SHA-256 {}\n{refused}", encode_line(CLIENT_FIRST.as_bytes()));
    let dialogue = format!("S: +OK *\n{password}{plain}{scram}{password}C: QUIT\nS: +OK bye\nEND");
    check(&world, Peer::local(), &dialogue).await;
}

#[tokio::test]
async fn malformed_sasl_responses_count_as_failed_logins() {
    let world = world(&[]);
    let plain = |message: &str| encode_line(message.as_bytes());
    let dialogue = format!(
        "S: +OK *
         C: AUTH PLAIN {}
         S: -ERR invalid response for this authentication mechanism
         C: AUTH PLAIN {}
         S: -ERR [AUTH] you may not act as another user
         C: AUTH SCRAM-SHA-256 {}
         S: -ERR invalid response for this authentication mechanism
         END",
        plain("\0\0sesame"),
        plain("bob@acme.test\0ann@acme.test\0sesame"),
        plain("nonsense")
    );
    check(&world, Peer::local(), &dialogue).await;
}

#[tokio::test]
async fn misplaced_and_broken_commands_are_refused() {
    let world = world(&[LETTER]);
    let misplaced = format!(
        "S: +OK *
         C: STAT
         S: -ERR log in first
         C: XYZZY
         S: -ERR unknown command
         C: APOP ann 0123
         S: -ERR APOP *
         C: UTF8
         S: +OK *
         C: USER ann@acme.test
         C: PASS sesame
         S: +OK send PASS
         S: +OK 1 *
         C: USER bob
         S: -ERR you are logged in already
         C: RETR 0
         C: RETR 2
         C: RETR
         C: TOP 1
         C: TOP 1 99999999999
         C: LIST x
         S: -ERR no such message
         S: -ERR no such message
         S: -ERR which message?
         S: -ERR a message number and a number of lines are required
         S: -ERR a message number and a number of lines are required
         S: -ERR no such message
         C: {}
         S: -ERR the line is too long
         END",
        "x".repeat(2_000)
    );
    check(&world, Peer::local(), &misplaced).await;
    let nonsense = format!(
        "S: +OK *\n{}{}S: -ERR too many errors\nEND",
        "C: XYZZY\n".repeat(20),
        "S: -ERR unknown command\n".repeat(19)
    );
    check(&world, Peer::local(), &nonsense).await;
}

/// Returns all messages of up to three of these pieces. Most of them could not be sent by a client through DATA.
fn unusual_messages() -> Vec<String> {
    const PIECES: [&str; 6] = ["a", ".", "\r", "\n", "\r\n", ".\r\n"];
    let longer =
        |letters: &[String]| letters.iter().flat_map(|letter| PIECES.map(|piece| letter.clone() + piece)).collect();
    let one: Vec<String> = longer(&[String::new()]);
    let two: Vec<String> = longer(&one);
    let three: Vec<String> = longer(&two);
    [one, two, three].concat()
}

#[tokio::test]
async fn list_reports_the_octets_that_retr_sends() {
    let letters = unusual_messages();
    let world = world(&letters.iter().map(String::as_str).collect::<Vec<_>>());
    // The octet count that is derived from a folder entry must survive flag changes and copies.
    let file = world.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let inbox =
        file.snapshot().expect("a snapshot").folder("INBOX").expect("the snapshot can be read").expect("an inbox").id;
    let all: UidSet = (1..=u32::try_from(letters.len()).expect("some hundred")).map(base::Uid).collect();
    file.store(inbox, &all, &FlagChange::Add(Flags::from_system_flags(notes::Marks::FLAGGED)), None)
        .expect("the flags are stored");
    file.copy(inbox, &all, inbox).expect("the messages are copied");

    let (client, server) = Stream::duplex(1 << 16);
    tokio::spawn(serve(server, Peer::local(), Arc::clone(&world.service), SessionTermination::default()));
    let mut client = Client { stream: client, received_bytes: Vec::new() };
    client.send(&mut "USER ann@acme.test\r\nPASS sesame\r\nSTAT\r\nLIST\r\n".to_owned()).await;
    let mut replies = Vec::new();
    for _ in 0..5 {
        replies.push(client.line().await);
    }
    let listed = String::from_utf8(client.message().await).expect("numbers");
    let mut sum = 0;
    for (letter, listed) in letters.iter().chain(&letters).zip(listed.lines()) {
        let (number, octets) = listed.split_once(' ').expect("a number and a size");
        client.send(&mut format!("RETR {number}\r\n")).await;
        assert_eq!(client.line().await, format!("+OK {octets} octets"), "{letter:?}");
        let sent = client.message().await.len();
        assert_eq!(sent.to_string(), octets, "{letter:?}");
        sum += sent;
    }
    assert_eq!(listed.lines().count(), 2 * letters.len());
    assert_eq!(replies[3], format!("+OK {} {sum}", 2 * letters.len()));
}

#[tokio::test]
async fn reading_a_message_removed_meanwhile_fails() {
    let world = world(&[LETTER]);
    let (client, server) = Stream::duplex(1 << 16);
    tokio::spawn(serve(server, Peer::local(), Arc::clone(&world.service), SessionTermination::default()));
    let mut client = Client { stream: client, received_bytes: Vec::new() };
    client.send(&mut "USER ann@acme.test\r\nPASS sesame\r\n".to_owned()).await;
    for _ in 0..3 {
        client.line().await;
    }
    let other = format!("{LOGIN}S: +OK 1 *\nC: DELE 1\nS: +OK *\nC: QUIT\nS: +OK bye");
    check(&world, Peer::local(), &other).await;
    client.send(&mut "RETR 1\r\nDELE 1\r\nQUIT\r\n".to_owned()).await;
    assert_eq!(client.line().await, "-ERR this message no longer exists");
    assert!(client.line().await.starts_with("+OK"));
    assert_eq!(client.line().await, "+OK bye");
}

#[tokio::test]
async fn message_needs_memory_of_the_account() {
    let sizes = ShareSizes { account_bytes: 40, network_bytes: 40, networks_bytes: 40, local_bytes: 40 };
    let memory = MemoryShares::new(100, sizes);
    let large = format!("Subject: two\n\n{}\n", "x".repeat(60));
    let world = world_with(&[LETTER, &large], |service| service.memory = Arc::clone(&memory));
    let ann = MemoryOwner::account("ann@acme.test");
    let others = memory.share_of(&ann).acquire(10).expect("within the share");
    let no_memory = "S: -ERR [SYS/TEMP] no memory is left for this message, try again later";
    let refused = format!("{LOGIN}S: +OK 2 *\nC: RETR 1\n{no_memory}\nC: TOP 1 0\n{no_memory}\nC: NOOP\nS: +OK *");
    check(&world, Peer::local(), &refused).await;
    drop(others);
    let letter = "S: +OK *\nS: Subject: one\nS:\nS: ..dots\nS: ...\nS: last\nS: .";
    let whole = format!("S: +OK *\nS: Subject: two\nS:\nS: {}\nS: .", "x".repeat(60));
    // A message that is larger than the share takes all of it.
    let read = format!("{LOGIN}S: +OK 2 *\nC: RETR 1\n{letter}\nC: RETR 2\n{whole}\nC: QUIT\nS: +OK bye\nEND");
    check(&world, Peer::local(), &read).await;
    assert_eq!(memory.total().available_bytes(), 100);
}

#[tokio::test]
async fn large_message_needs_memory_of_its_pieces() {
    let needed_bytes = usize::try_from(pop3::limits::MESSAGE_MEMORY_BYTES).expect("it is small");
    let share_bytes = needed_bytes + 1_000;
    let sizes = ShareSizes {
        account_bytes: share_bytes,
        network_bytes: share_bytes,
        networks_bytes: share_bytes,
        local_bytes: share_bytes,
    };
    let memory = MemoryShares::new(2 * share_bytes, sizes);
    let letter = format!("Subject: large\r\n\r\n{}", "0123456789\r\n".repeat(100_000));
    let world = world_with(&[&letter], |service| service.memory = Arc::clone(&memory));
    let (client, server) = Stream::duplex(512);
    tokio::spawn(serve(server, Peer::local(), Arc::clone(&world.service), SessionTermination::default()));
    let mut client = Client { stream: client, received_bytes: Vec::new() };
    client.send(&mut "USER ann@acme.test\r\nPASS sesame\r\nRETR 1\r\n".to_owned()).await;
    for _ in 0..4 {
        assert!(client.line().await.starts_with("+OK "));
    }
    // The server waits for the client with the first piece.
    assert_eq!(memory.total().available_bytes(), 2 * share_bytes - needed_bytes);
    assert!(client.message().await == letter.as_bytes());
    client.send(&mut "NOOP\r\n".to_owned()).await;
    assert!(client.line().await.starts_with("+OK"));
    assert_eq!(memory.total().available_bytes(), 2 * share_bytes);
    let ann = MemoryOwner::account("ann@acme.test");
    let _others = memory.share_of(&ann).acquire(1_001).expect("within the share");
    client.send(&mut "RETR 1\r\n".to_owned()).await;
    assert!(client.line().await.starts_with("-ERR [SYS/TEMP] no memory is left"));
}

#[tokio::test]
async fn large_messages_pass_through_small_buffers() {
    let body: String = (0..40_000).map(|number| format!(".{number}\r\n")).collect();
    let world = world(&[&format!("Subject: large\r\n\r\n{body}")]);
    let (client, server) = Stream::duplex(512);
    tokio::spawn(serve(server, Peer::local(), Arc::clone(&world.service), SessionTermination::default()));
    let mut client = Client { stream: client, received_bytes: Vec::new() };
    client.send(&mut "USER ann@acme.test\r\nPASS sesame\r\nRETR 1\r\n".to_owned()).await;
    for _ in 0..6 {
        client.line().await;
    }
    for number in 0..40_000 {
        assert_eq!(client.line().await, format!("..{number}"));
    }
    assert_eq!(client.line().await, ".");
}

#[tokio::test]
async fn large_messages_are_read_in_pieces() {
    let lines = "0123456789 abcdefghijklmnopqrstuvwxyz\r\n".repeat(30_000);
    let letter = format!("Subject: large\r\n\r\n.first\r\n{lines}");
    let world = world(&[&letter]);
    let (client, server) = Stream::duplex(1 << 16);
    tokio::spawn(serve(server, Peer::local(), Arc::clone(&world.service), SessionTermination::default()));
    let mut client = Client { stream: client, received_bytes: Vec::new() };
    client.send(&mut "USER ann@acme.test\r\nPASS sesame\r\n".to_owned()).await;
    for _ in 0..3 {
        assert!(client.line().await.starts_with("+OK "));
    }
    let jobs = || world.service.pool.report().completed;
    let before = jobs();
    client.send(&mut "RETR 1\r\n".to_owned()).await;
    assert_eq!(client.line().await, format!("+OK {} octets", letter.len()));
    assert!(client.message().await == letter.as_bytes());
    // The last job may not have been counted yet.
    let pieces = (letter.len() as u64).div_ceil(pop3::limits::MESSAGE_PIECE_BYTES);
    assert!(pieces >= 4 && jobs() - before >= pieces - 1, "{} jobs", jobs() - before);
    for (count, expected) in [(0, "Subject: large\r\n\r\n"), (1, "Subject: large\r\n\r\n.first\r\n")] {
        client.send(&mut format!("TOP 1 {count}\r\n")).await;
        assert_eq!(client.line().await, "+OK top follows");
        assert_eq!(client.message().await, expected.as_bytes());
    }
    client.send(&mut "TOP 1 30001\r\n".to_owned()).await;
    assert_eq!(client.line().await, "+OK top follows");
    assert!(client.message().await == letter.as_bytes());
}

#[tokio::test]
async fn message_removed_while_it_is_sent_ends_the_connection() {
    let lines = "0123456789 abcdefghijklmnopqrstuvwxyz\r\n".repeat(60_000);
    let world = world(&[&format!("Subject: large\r\n\r\n{lines}")]);
    let (client, server) = Stream::duplex(512);
    let serving = tokio::spawn(serve(server, Peer::local(), Arc::clone(&world.service), SessionTermination::default()));
    let mut client = Client { stream: client, received_bytes: Vec::new() };
    client.send(&mut "USER ann@acme.test\r\nPASS sesame\r\nRETR 1\r\n".to_owned()).await;
    for _ in 0..4 {
        assert!(client.line().await.starts_with("+OK "));
    }
    // The server waits for the client with the first piece.
    let file = world.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the snapshot can be read");
    file.delete(inbox.expect("an inbox").id, &UidSet::from(1..=1)).expect("the message is removed");
    let mut received = Vec::new();
    while client.stream.receive(&mut received).await.expect("an orderly end") > 0 {}
    assert!(received.len() < lines.len(), "the message is cut off");
    assert!(!received.ends_with(b"\r\n.\r\n"), "the client can tell");
    serving.await.expect("no panic").expect("the client was there until the end");
}

#[tokio::test]
async fn shutdown_sends_a_temporary_error() {
    let world = world(&[]);
    check(
        &world,
        Peer::local(),
        "S: +OK *\nDRAIN\nS: -ERR [SYS/TEMP] the server is shutting down, try again later\nEND",
    )
    .await;
}

#[tokio::test]
async fn account_change_ends_the_session_and_removes_nothing() {
    let world = world(&[LETTER]);
    let goodbye = "S: -ERR [AUTH] the account or its groups were changed, log in again\nEND";
    check(&world, Peer::local(), &format!("{LOGIN}S: +OK *\nC: DELE 1\nS: +OK *\nDISMISS\n{goodbye}")).await;
    assert_eq!(world.inbox().len(), 1, "only QUIT removes");
}

#[tokio::test]
async fn line_with_invalid_bytes_ends_the_exchange() {
    let world = world(&[]);
    for line in [&b"AGFu\0bg=="[..], b"AGFu\rbg==", b"\xff\xfe"] {
        let (client, server) = Stream::duplex(1 << 16);
        tokio::spawn(serve(server, Peer::local(), Arc::clone(&world.service), SessionTermination::default()));
        let mut client = Client { stream: client, received_bytes: Vec::new() };
        let commands = b"\r\nUSER ann@acme.test\r\nPASS sesame\r\n";
        let input = [&b"AUTH PLAIN\r\n"[..], line, commands].concat();
        client.stream.write_all(&input).await.expect("the server reads");
        client.stream.flush().await.expect("the server reads");
        let mut replies = Vec::new();
        for _ in 0..5 {
            replies.push(client.line().await);
        }
        let expected = ["+", "-ERR expected base64", "+OK send PASS", "+OK 0 messages (0 octets)"];
        assert_eq!(replies[1..], expected, "{line:?}");
    }
}

#[tokio::test]
async fn long_line_ends_the_exchange_and_the_connection() {
    let world = world(&[]);
    let line = "A".repeat(pop3::limits::AUTH_LINE_BYTES_MAX);
    let dialogue = format!("S: +OK *\nC: AUTH PLAIN\nS: +\nC: {line}\nS: -ERR the response is too long\nEND");
    check(&world, Peer::local(), &dialogue).await;
}

/// Sets Ann's level in her mail file.
fn set_acl_level(world: &World, level: AclLevel) {
    let file = world.mail.open_as_server("mail/ann.nsf").expect("the mail file exists");
    let itself = Arc::new(Identity::local_server(""));
    let access: Access<notes::level::Depositor> =
        file.database().authorize(&itself).expect("the server may change the ACL");
    let mut acl = Acl::open_to_all(AclLevel::NoAccess);
    acl.entries.push(AclEntry::new("ann@acme.test", level));
    let accesses = [&access];
    let mut transaction = world.mail.databases().transaction(&accesses).expect("the store works");
    transaction.writer(0).acl_set(acl).expect("the server may change the ACL");
    transaction.commit().expect("the store works");
}

/// Checks the access matrix of POP3: every command that requires access to a mail file, at every ACL level that a user
/// may have in it.
#[tokio::test]
async fn every_command_requires_its_access_level() {
    for level in AclLevel::ALL {
        let world = world(&[LETTER]);
        set_acl_level(&world, level);
        if level < AclLevel::Reader {
            check(&world, Peer::local(), &format!("{LOGIN}S: -ERR *")).await;
            continue;
        }
        let reading = "S: +OK 1 *\nC: STAT\nS: +OK *\nC: LIST 1\nS: +OK *\nC: UIDL 1\nS: +OK *\nC: TOP 1 0\nS: +OK *
            S: Subject: one\nS:\nS: .\nC: DELE 1\nS: +OK *\nC: QUIT\nS: *";
        check(&world, Peer::local(), &format!("{LOGIN}{reading}")).await;
        assert_eq!(world.inbox().is_empty(), level >= AclLevel::Editor, "{level}");
    }
}
