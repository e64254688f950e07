//! Tests of the pace of clients, on a paused clock: slow commands end the connection, and steady ones do not.

use std::sync::Arc;
use std::time::Duration;

use base::sim::SimClock;
use imap::ListenerServices;
use imap::limits::LOGIN_TIME_MAX;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, ReadHalf, WriteHalf};
use tokio::time::Instant;
use wire::limits::BODY_GRACE;
use wire::{Peer, PoolOptions, SessionTermination, Shutdown, Stream, WorkerPool};

use crate::world::TestServer;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const TOO_SLOW: &str = "* BYE [UNAVAILABLE] the command arrived too slowly";

/// The client side of a connection.
struct Client {
    lines: Lines<BufReader<ReadHalf<Stream>>>,
    writer: WriteHalf<Stream>,
}

impl Client {
    async fn connect(world: &TestServer) -> Self {
        let pool = WorkerPool::new(&PoolOptions::default(), Arc::new(SimClock::new())).expect("threads start");
        let context = Arc::clone(&world.context);
        let login_pool = pool.clone();
        let service = ListenerServices { context, tls: None, pool, login_pool, shutdown: Shutdown::new() };
        let (near, far) = Stream::duplex(1 << 16);
        tokio::spawn(imap::serve(far, Peer::local(), Arc::new(service), SessionTermination::default()));
        let (reader, writer) = tokio::io::split(near);
        let mut client = Self { lines: BufReader::new(reader).lines(), writer };
        client.ask("", "* OK ").await;
        client
    }

    async fn logged_in(world: &TestServer) -> Self {
        let mut client = Self::connect(world).await;
        client.ask("l LOGIN alice secret\r\n", "l OK ").await;
        client
    }

    /// Sends a text and checks the beginning of the response.
    async fn ask(&mut self, text: &str, expected: &str) {
        self.writer.write_all(text.as_bytes()).await.expect("the server reads");
        let response = self.lines.next_line().await.expect("a line").expect("a response");
        assert!(response.starts_with(expected), "{text:?}: {response}");
    }

    /// Sends a text at regular intervals until the server closes the connection. Checks that it does so because of the
    /// pace after about `expected`.
    async fn check(self, text: &'static str, interval: Duration, expected: Duration) {
        let Self { mut lines, mut writer } = self;
        let begun = Instant::now();
        let sending = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(interval);
            loop {
                ticks.tick().await;
                if writer.write_all(text.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let mut responses = Vec::new();
        while let Ok(Some(line)) = lines.next_line().await {
            responses.push(line);
        }
        sending.abort();
        assert_eq!(responses, [TOO_SLOW]);
        assert!((expected..expected + SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn slow_literal_ends_the_connection() {
    let world = TestServer::new();
    let mut client = Client::logged_in(&world).await;
    client.ask("a APPEND INBOX {100000}\r\n", "+ ").await;
    client.check("x", SECOND, BODY_GRACE).await;
}

#[tokio::test(start_paused = true)]
async fn skipped_literal_has_the_same_pace() {
    let world = TestServer::new();
    let mut client = Client::logged_in(&world).await;
    client.writer.write_all(b"a APPEND INBOX {2000000+}\r\n").await.expect("the server reads");
    client.check("x", SECOND, BODY_GRACE).await;
}

#[tokio::test(start_paused = true)]
async fn slow_line_ends_the_connection() {
    let world = TestServer::new();
    let client = Client::connect(&world).await;
    client.check("x", MINUTE, LOGIN_TIME_MAX).await;
}

#[tokio::test(start_paused = true)]
async fn steady_literal_is_stored() {
    let world = TestServer::new();
    let mut client = Client::logged_in(&world).await;
    client.ask("a APPEND INBOX {204800}\r\n", "+ ").await;
    let lines = format!("{}\r\n", "x".repeat(1_022)).repeat(10);
    let mut ticks = tokio::time::interval(9 * SECOND);
    for _ in 0..20 {
        ticks.tick().await;
        client.writer.write_all(lines.as_bytes()).await.expect("the server reads");
    }
    client.ask("\r\n", "a OK ").await;
}

#[tokio::test(start_paused = true)]
async fn commands_have_their_time_each() {
    let world = TestServer::new();
    let mut client = Client::logged_in(&world).await;
    // Each write ends one command and begins the next.
    let mut ticks = tokio::time::interval(10 * MINUTE);
    client.writer.write_all(b"a NO").await.expect("the server reads");
    for _ in 0..10 {
        ticks.tick().await;
        client.ask("OP\r\na NO", "a OK ").await;
    }
}
