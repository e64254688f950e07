//! Tests complete connections over loopback sockets: pipelining, literals, IDLE, COMPRESS, slow readers, shutdown, many
//! writers.

use std::sync::Arc;

use base::sim::SimClock;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use imap::ListenerServices;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::sim::{BusyWorker, full_pool};
use wire::{JobLabel, JobOwner, Peer, PoolOptions, SessionTermination, Shutdown, Stream, WorkerPool};

use crate::world::{TestServer, deliver};

struct Server {
    address: std::net::SocketAddr,
    pool: WorkerPool,
    login_pool: WorkerPool,
    shutdown: Shutdown,
    termination: SessionTermination,
    world: TestServer,
}

fn start_pool(workers: usize) -> WorkerPool {
    let options = PoolOptions { workers, ..PoolOptions::default() };
    WorkerPool::new(&options, Arc::new(SimClock::new())).expect("threads start")
}

/// Serves a new world on a port that the system chooses.
async fn server() -> Server {
    server_with(start_pool(1)).await
}

/// Serves a new world with a pool for logins.
async fn server_with(login_pool: WorkerPool) -> Server {
    let world = TestServer::new();
    let pool = start_pool(2);
    let shutdown = Shutdown::new();
    let termination = SessionTermination::default();
    let all_sessions = termination.clone();
    let service = Arc::new(ListenerServices {
        context: Arc::clone(&world.context),
        tls: None,
        pool: pool.clone(),
        login_pool: login_pool.clone(),
        shutdown: shutdown.clone(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback can be bound");
    let address = listener.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        while let Ok((stream, address)) = listener.accept().await {
            let service = Arc::clone(&service);
            let all_sessions = all_sessions.clone();
            tokio::spawn(imap::serve(Stream::tcp(stream), Peer::network(address), service, all_sessions));
        }
    });
    Server { address, pool, login_pool, shutdown, termination, world }
}

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    deflate: Option<(Compress, Decompress)>,
}

impl Client {
    async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).await.expect("the server listens");
        let mut client = Self { stream, received: Vec::new(), deflate: None };
        assert!(client.until("\r\n").await.starts_with("* OK [CAPABILITY IMAP4rev1"));
        client
    }

    async fn logged_in(server: &Server) -> Self {
        let mut client = Self::connect(server).await;
        client.command("l LOGIN alice secret").await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        let bytes = match &mut self.deflate {
            None => bytes.to_vec(),
            Some((compress, _)) => {
                let mut out = Vec::with_capacity(bytes.len() + 1_024);
                compress.compress_vec(bytes, &mut out, FlushCompress::Sync).expect("compressing works");
                out
            }
        };
        self.stream.write_all(&bytes).await.expect("the server reads");
    }

    /// Reads the server's output up to and including a text, which must occur.
    async fn until(&mut self, end: &str) -> String {
        loop {
            let found = self.received.windows(end.len()).position(|window| window == end.as_bytes());
            if let Some(position) = found {
                let rest = self.received.split_off(position + end.len());
                let output = std::mem::replace(&mut self.received, rest);
                return String::from_utf8_lossy(&output).into_owned();
            }
            let mut fresh = Vec::with_capacity(1 << 16);
            let count = self.stream.read_buf(&mut fresh).await.expect("the server writes");
            assert!(count > 0, "the server closed after {}", String::from_utf8_lossy(&self.received));
            self.take(&fresh);
        }
    }

    fn take(&mut self, fresh: &[u8]) {
        let Some((_, decompress)) = &mut self.deflate else { return self.received.extend_from_slice(fresh) };
        let mut plain = Vec::with_capacity(1 << 20);
        decompress.decompress_vec(fresh, &mut plain, FlushDecompress::Sync).expect("the server compresses well");
        self.received.extend_from_slice(&plain);
    }

    /// Sends a command without literals and returns everything up to its tagged line.
    async fn command(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes()).await;
        let tag = line.split(' ').next().unwrap_or_default();
        let mut response = self.until(&format!("{tag} OK ")).await;
        response.push_str(&self.until("\r\n").await);
        response
    }

    async fn closed(&mut self) -> bool {
        self.stream.read_to_end(&mut self.received).await.is_ok()
    }
}

#[tokio::test]
async fn pipelined_commands_are_answered_in_order() {
    let server = server().await;
    let mut client = Client::connect(&server).await;
    let message = "Subject: piped\r\n\r\nbody\r\n";
    let append = format!("b APPEND INBOX {{{}+}}\r\n{message}\r\n", message.len());
    let rest = "c SELECT INBOX\r\nd FETCH 1 (UID BODY.PEEK[TEXT])\r\ne STORE 1 +FLAGS.SILENT (\\Seen)\r\nf LOGOUT\r\n";
    client.send(format!("a LOGIN alice secret\r\n{append}{rest}").as_bytes()).await;
    let response = client.until("f OK LOGOUT completed\r\n").await;
    let tags: Vec<&str> = response.lines().filter_map(|line| line.split_once(" OK").map(|(tag, _)| tag)).collect();
    let tagged: Vec<&str> = tags.into_iter().filter(|tag| tag.len() == 1 && *tag != "*").collect();
    assert_eq!(tagged, ["a", "b", "c", "d", "e", "f"]);
    assert!(response.contains("* 1 FETCH (UID 1 BODY[TEXT] {6}\r\nbody\r\n)\r\n"), "{response}");
    assert!(client.closed().await);
}

#[tokio::test]
async fn long_line_after_a_continuation_request_ends_the_connection() {
    let server = server().await;
    let long = vec![b'A'; imap::limits::CONTINUATION_BYTES_MAX + 1];
    let goodbye = "* BYE the line is too long\r\n";
    let mut client = Client::connect(&server).await;
    client.send(b"a AUTHENTICATE PLAIN\r\n").await;
    client.until("+ \r\n").await;
    client.send(&long).await;
    assert_eq!(client.until(goodbye).await, format!("a BAD the response is too long\r\n{goodbye}"));
    assert!(client.closed().await);
    let mut client = Client::logged_in(&server).await;
    client.send(b"a IDLE\r\n").await;
    client.until("+ idling\r\n").await;
    client.send(&long).await;
    assert_eq!(client.until(goodbye).await, goodbye);
    assert!(client.closed().await);
}

/// Waits until no job of a pool waits.
async fn drain(pool: &WorkerPool) {
    while pool.report().depth > 0 {
        tokio::task::yield_now().await;
    }
}

const DEFERRED: &str = "NO [UNAVAILABLE] cannot authenticate now, try again later\r\n";

#[tokio::test]
async fn login_is_deferred_while_too_many_wait() {
    let (login_pool, busy) = full_pool().expect("a thread starts");
    let server = server_with(login_pool.clone()).await;
    let mut client = Client::connect(&server).await;
    // SELECT is refused by a worker, which must not check the logins that follow.
    let logins = "b LOGIN alice secret\r\nc LOGIN alice secret\r\nd AUTHENTICATE PLAIN AGFsaWNlAHNlY3JldA==\r\n";
    client.send(format!("a SELECT INBOX\r\n{logins}e NOOP\r\n").as_bytes()).await;
    let response = client.until("e OK NOOP completed\r\n").await;
    let refused = format!("a BAD log in first\r\nb {DEFERRED}c {DEFERRED}d {DEFERRED}");
    assert_eq!(response, format!("{refused}e OK NOOP completed\r\n"), "three failed logins would end the connection");
    drop(busy);
    drain(&login_pool).await;
    client.send(b"f AUTHENTICATE PLAIN\r\n").await;
    client.until("+ \r\n").await;
    let busy = BusyWorker::occupy(&login_pool).expect("the queue has space");
    let label = JobLabel::new(JobOwner::account("busy"), "test", "JOB");
    login_pool.spawn(label, || ()).expect("the queue has space");
    client.send(b"AGFsaWNlAHNlY3JldA==\r\n").await;
    assert_eq!(client.until("\r\n").await, format!("f {DEFERRED}"));
    drop(busy);
    drain(&login_pool).await;
    client.command("g LOGIN alice secret").await;
}

#[tokio::test]
async fn login_with_a_known_password_does_not_wait_for_the_hashes_of_others() {
    let (login_pool, busy) = full_pool().expect("a thread starts");
    let server = server_with(login_pool.clone()).await;
    for login in ["LOGIN bob secret", "AUTHENTICATE PLAIN AGJvYgBzZWNyZXQ="] {
        let mut client = Client::connect(&server).await;
        client.send(format!("a {login}\r\nb SELECT INBOX\r\n").as_bytes()).await;
        let response = client.until("b OK [READ-WRITE] SELECT completed\r\n").await;
        assert!(response.starts_with("a OK [CAPABILITY "), "{response}");
    }
    let mut client = Client::connect(&server).await;
    client.send(b"a LOGIN bob wrong\r\n").await;
    assert_eq!(client.until("\r\n").await, format!("a {DEFERRED}"), "a wrong password is never refused without a hash");
    drop(busy);
}

#[tokio::test]
async fn commands_run_while_logins_wait() {
    let server = server().await;
    let mut user = Client::logged_in(&server).await;
    let busy = BusyWorker::occupy(&server.login_pool).expect("the queue has space");
    let mut strangers = Vec::new();
    for _ in 0..3 {
        let mut stranger = Client::connect(&server).await;
        stranger.send(b"a LOGIN alice secret\r\nb SELECT INBOX\r\n").await;
        strangers.push(stranger);
    }
    while server.login_pool.report().depth < strangers.len() {
        tokio::task::yield_now().await;
    }
    assert!(user.command("a SELECT INBOX").await.contains("* 0 EXISTS\r\n"));
    drop(busy);
    for stranger in &mut strangers {
        stranger.until("b OK ").await;
    }
    server.pool.close();
    server.login_pool.close();
    let jobs = |pool: &WorkerPool| {
        let verbs = pool.verbs().into_iter();
        verbs.map(|(verb, class, _)| format!("{} {}", verb.command, class.name())).collect::<Vec<_>>()
    };
    assert_eq!(jobs(&server.pool), ["LOGIN account", "LOGIN stranger", "SELECT account"]);
    assert_eq!(jobs(&server.login_pool), ["LOGIN stranger", "JOB account"]);
}

#[tokio::test]
async fn large_message_is_appended_and_fetched_whole() {
    let server = server().await;
    let mut client = Client::logged_in(&server).await;
    let line = "0123456789 abcdefghijklmnopqrstuvwxyz\r\n";
    let message = format!("Subject: large\r\n\r\n{}", line.repeat(25_000));
    client.send(format!("a APPEND INBOX {{{}}}\r\n", message.len()).as_bytes()).await;
    client.until("+ go on\r\n").await;
    client.send(format!("{message}\r\n").as_bytes()).await;
    client.until("a OK ").await;
    client.until("\r\n").await;
    client.command("b SELECT INBOX").await;
    let response = client.command("c FETCH 1 (UID BODY[] RFC822.SIZE)").await;
    let head = format!("* 1 FETCH (UID 1 BODY[] {{{}}}\r\n", message.len());
    let tail = format!(" RFC822.SIZE {} FLAGS (\\Seen \\Recent))\r\nc OK FETCH completed\r\n", message.len());
    assert_eq!(response, format!("{head}{message}{tail}"));
}

#[tokio::test]
async fn nul_in_a_large_message_is_sent_only_as_binary() {
    let server = server().await;
    let mut client = Client::logged_in(&server).await;
    let message = format!("Subject: large\r\n\r\n{}", "\0 0123456789 \0\r\n".repeat(40_000));
    deliver(&server.world.open_as_server("alice"), message.as_bytes());
    client.command("a EXAMINE INBOX").await;
    let response = client.command("b FETCH 1 BODY.PEEK[]").await;
    let head = format!("* 1 FETCH (BODY[] {{{}}}\r\n", message.len());
    assert!(response == format!("{head}{})\r\nb OK FETCH completed\r\n", message.replace('\0', "?")));
    let response = client.command("c FETCH 1 BINARY.PEEK[]").await;
    let head = format!("* 1 FETCH (BINARY[] ~{{{}}}\r\n", message.len());
    assert!(response == format!("{head}{message})\r\nc OK FETCH completed\r\n"));
}

#[tokio::test]
async fn idle_client_receives_changes_of_others() {
    let server = server().await;
    let mut idle = Client::logged_in(&server).await;
    let mut other = Client::logged_in(&server).await;
    idle.command("a SELECT INBOX").await;
    idle.send(b"b IDLE\r\n").await;
    idle.until("+ idling\r\n").await;
    for number in 1..=3 {
        other.send(b"a APPEND INBOX {1+}\r\nx\r\n").await;
        other.until("a OK ").await;
        other.until("\r\n").await;
        assert_eq!(idle.until("EXISTS\r\n").await.lines().last(), Some(format!("* {number} EXISTS").as_str()));
        idle.until("RECENT\r\n").await;
    }
    idle.send(b"DONE\r\nc NOOP\r\n").await;
    assert_eq!(idle.until("c OK NOOP completed\r\n").await, "b OK IDLE completed\r\nc OK NOOP completed\r\n");
}

#[tokio::test]
async fn commands_work_on_a_compressed_connection() {
    let server = server().await;
    let mut client = Client::logged_in(&server).await;
    client.command("a COMPRESS DEFLATE").await;
    client.deflate = Some((Compress::new(Compression::fast(), false), Decompress::new(false)));
    assert!(client.command("b SELECT INBOX").await.contains("* 0 EXISTS\r\n"));
    client.send(b"c APPEND INBOX {20000}\r\n").await;
    client.until("+ go on\r\n").await;
    client.send(&[b"y".repeat(20_000), b"\r\n".to_vec()].concat()).await;
    client.until("c OK ").await;
    client.until("\r\n").await;
    assert!(client.command("d FETCH 1 BODY.PEEK[]").await.contains(&"y".repeat(20_000)));
}

#[tokio::test]
async fn late_reader_receives_the_complete_output() {
    let server = server().await;
    let mut client = Client::logged_in(&server).await;
    let appends = "x APPEND INBOX {1+}\r\nx".to_owned() + &" {1+}\r\nx".repeat(999) + "\r\n";
    for _ in 0..5 {
        client.send(appends.as_bytes()).await;
        client.until("x OK ").await;
        client.until("\r\n").await;
    }
    client.command("a SELECT INBOX").await;
    client.send(b"b UID FETCH 1:* (FLAGS MODSEQ INTERNALDATE)\r\nc NOOP\r\n").await;
    let response = client.until("c OK NOOP completed\r\n").await;
    assert_eq!(response.lines().filter(|line| line.contains(" FETCH (UID ")).count(), 5_000);
    assert!(response.contains("* 5000 FETCH (UID 5000 FLAGS ("));
}

#[tokio::test]
async fn shutdown_sends_bye() {
    let server = server().await;
    let mut waiting = Client::logged_in(&server).await;
    let mut idle = Client::logged_in(&server).await;
    idle.send(b"a IDLE\r\n").await;
    idle.until("+ idling\r\n").await;
    server.shutdown.drain();
    for client in [&mut waiting, &mut idle] {
        assert_eq!(client.until("\r\n").await, "* BYE [UNAVAILABLE] the server is shutting down, try again later\r\n");
        assert!(client.closed().await);
    }
}

#[tokio::test]
async fn oversize_non_synchronizing_literal_ends_the_connection() {
    let server = server().await;
    let mut client = Client::connect(&server).await;
    client.send(b"a LOGIN {99999+}\r\n").await;
    assert!(client.until("\r\n").await.starts_with("* BYE [TOOBIG]"));
    assert!(client.closed().await);
}

#[tokio::test]
async fn notify_reports_events_between_commands() {
    let server = server().await;
    let mut watching = Client::logged_in(&server).await;
    let mut other = Client::logged_in(&server).await;
    watching.command("a SELECT INBOX").await;
    let groups =
        "(selected (MessageNew (BODY.PEEK[TEXT]) MessageExpunge)) (personal (MessageNew MessageExpunge MailboxName))";
    watching.command(&format!("b NOTIFY SET {groups}")).await;
    // The message is larger than a piece, so that the announcement takes several slices.
    let body = "0123456789 abcdefghijklmnopqrstuvwxyz\r\n".repeat(20_000);
    let message = format!("Subject: large\r\n\r\n{body}");
    other.send(format!("a APPEND INBOX {{{}+}}\r\n{message}\r\n", message.len()).as_bytes()).await;
    other.until("a OK ").await;
    let announced = format!("* 1 EXISTS\r\n* 1 RECENT\r\n* 1 FETCH (BODY[TEXT] {{{}}}\r\n{body})\r\n", body.len());
    assert_eq!(watching.until("\n)\r\n").await, announced);
    other.command("b CREATE Plan").await;
    assert_eq!(watching.until("\r\n").await, "* LIST (\\HasNoChildren) \"/\" Plan\r\n");
    other.send(b"c APPEND Plan {1+}\r\nx\r\n").await;
    assert!(watching.until("\r\n").await.starts_with("* STATUS Plan (UIDVALIDITY "));
    // A regular command still works, and the next event arrives.
    watching.command("c NOOP").await;
    other.until("c OK ").await;
    other.command("d DELETE Plan").await;
    // The mailbox loses its messages before it is removed, which may be reported.
    let mut last = watching.until("\r\n").await;
    if last.ends_with(" MESSAGES 0)\r\n") {
        last = watching.until("\r\n").await;
    }
    assert_eq!(last, "* LIST (\\NonExistent) \"/\" Plan\r\n");
}

/// Runs one of many writers. It appends messages to the inbox, and changes, copies, moves and expunges its own
/// messages.
async fn run_writer(mut client: Client, writer: usize) -> Vec<u32> {
    let mut uids = Vec::new();
    let mut count = 0;
    let mut ask = async |client: &mut Client, command: &str| {
        count += 1;
        let tag = format!("w{writer}c{count}");
        client.send(format!("{tag} {command}\r\n").as_bytes()).await;
        client.until(&format!("{tag} ")).await;
        let status = client.until("\r\n").await;
        assert!(status.starts_with("OK "), "{command}: {status}");
        status
    };
    ask(&mut client, "SELECT INBOX").await;
    for round in 0..WRITER_ROUNDS {
        let response = ask(&mut client, "APPEND INBOX (Label) {1+}\r\nx").await;
        let code = response.split_once("[APPENDUID ").and_then(|(_, rest)| rest.split_once(']')).expect("UIDPLUS").0;
        let uid: u32 = code.split_once(' ').and_then(|(_, uid)| uid.parse().ok()).expect("one message has one UID");
        uids.push(uid);
        ask(&mut client, &format!("UID STORE {uid} +FLAGS.SILENT (\\Flagged)")).await;
        ask(&mut client, &format!("UID STORE {uid} (UNCHANGEDSINCE 1) FLAGS (\\Draft)")).await;
        ask(&mut client, &format!("UID COPY {uid} Archive")).await;
        ask(&mut client, "UID STORE 1:* +FLAGS.SILENT (\\Answered)").await;
        match round % 3 {
            0 => {
                ask(&mut client, &format!("UID STORE {uid} +FLAGS (\\Deleted)")).await;
                ask(&mut client, &format!("UID EXPUNGE {uid}")).await;
            }
            1 => drop(ask(&mut client, &format!("UID MOVE {uid} Trash")).await),
            _ => drop(ask(&mut client, &format!("UID FETCH {uid} (FLAGS BODY[])")).await),
        }
    }
    uids
}

const WRITERS: usize = 5;
const WRITER_ROUNDS: usize = 24;
const DELIVERIES: usize = 60;

/// Checks that writers to one mailbox are queued: no client has to retry, and no change is lost or made twice.
#[tokio::test]
async fn concurrent_writers_to_one_mailbox_succeed() {
    let server = server().await;
    let routers: Vec<_> = (0..2)
        .map(|_| {
            let file = server.world.open_as_server("alice");
            std::thread::spawn(move || (0..DELIVERIES).for_each(|_| deliver(&file, b"delivered")))
        })
        .collect();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        writers.push(tokio::spawn(run_writer(Client::logged_in(&server).await, writer)));
    }
    let mut uids = Vec::new();
    for writer in writers {
        let own = writer.await.expect("every command of the writer succeeded");
        assert!(own.is_sorted(), "{own:?}");
        uids.extend(own);
    }
    for router in routers {
        tokio::task::spawn_blocking(|| router.join()).await.expect("the task finishes").expect("mail was delivered");
    }
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), WRITERS * WRITER_ROUNDS, "no UID is assigned twice");
    let mut client = Client::logged_in(&server).await;
    let mut count = async |mailbox: &str| {
        let response = client.command(&format!("s STATUS {mailbox} (MESSAGES)")).await;
        response
            .split_once("MESSAGES ")
            .and_then(|(_, rest)| rest.split_once(')')?.0.parse::<usize>().ok())
            .expect("a count")
    };
    assert_eq!(count("INBOX").await, WRITERS * WRITER_ROUNDS / 3 + 2 * DELIVERIES);
    assert_eq!(count("Archive").await, WRITERS * WRITER_ROUNDS);
    assert_eq!(count("Trash").await, WRITERS * WRITER_ROUNDS / 3);
}

#[tokio::test]
async fn account_change_sends_bye() {
    let server = server().await;
    let mut clients = [Client::logged_in(&server).await, Client::logged_in(&server).await];
    clients[1].send(b"a IDLE\r\n").await;
    clients[1].until("+ idling\r\n").await;
    server.termination.terminate();
    for client in &mut clients {
        let response = client.until("\r\n").await;
        assert_eq!(response, "* BYE the account or its groups were changed, log in again\r\n");
        assert!(client.closed().await);
    }
}
