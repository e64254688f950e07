//! Tests of the pace of clients, on a paused clock: slow text ends the session, and steady text does not.

use std::time::Duration;

use smtp::connection::serve;
use smtp::limits::{RECIPIENT_GRACE, TRANSACTION_GRACE};
use smtp::listener_rules::ListenerRules;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, ReadHalf, WriteHalf};
use tokio::time::Instant;
use wire::limits::BODY_GRACE;
use wire::{Peer, SessionTermination, Stream};

use crate::loopback::service;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const TOO_SLOW: &str = "421 4.4.2 Data arrives too slowly, closing connection";

/// The client side of a session.
struct Client {
    lines: Lines<BufReader<ReadHalf<Stream>>>,
    writer: WriteHalf<Stream>,
}

impl Client {
    /// Starts a session that has said HELO.
    async fn connect() -> Self {
        let (service, _, _) = service(ListenerRules::reception("mx.b.example", "b.example"), None);
        let (near, far) = Stream::duplex(1 << 16);
        tokio::spawn(serve(far, Peer::local(), service, SessionTermination::default()));
        let (reader, writer) = tokio::io::split(near);
        let mut client = Self { lines: BufReader::new(reader).lines(), writer };
        client.ask("", "220 ").await;
        client.ask("HELO c.example\r\n", "250 ").await;
        client
    }

    /// Sends a text and checks the beginning of the reply.
    async fn ask(&mut self, text: &str, expected: &str) {
        self.writer.write_all(text.as_bytes()).await.expect("the server reads");
        let reply = self.lines.next_line().await.expect("a line").expect("a reply");
        assert!(reply.starts_with(expected), "{text:?}: {reply}");
    }

    /// Begins a transaction.
    async fn begin(&mut self, parameters: &str) {
        self.ask(&format!("MAIL FROM:<a@c.example>{parameters}\r\n"), "250 ").await;
        self.ask("RCPT TO:<alice@b.example>\r\n", "250 ").await;
    }

    /// Sends a text at regular intervals until the server closes the connection. Returns the replies and the time until
    /// then.
    async fn repeat(self, text: &'static str, interval: Duration) -> (Vec<String>, Duration) {
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
        let mut replies = Vec::new();
        while let Ok(Some(line)) = lines.next_line().await {
            replies.push(line);
        }
        sending.abort();
        (replies, begun.elapsed())
    }
}

/// Checks that a session ended with the refusal of slow data after about `expected`.
fn check((replies, elapsed): (Vec<String>, Duration), expected: Duration) {
    assert_eq!(replies.last().map(String::as_str), Some(TOO_SLOW));
    assert!((expected..expected + SECOND).contains(&elapsed), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_text_ends_the_session() {
    let mut client = Client::connect().await;
    client.begin("").await;
    client.ask("DATA\r\n", "354 ").await;
    check(client.repeat("x", SECOND).await, BODY_GRACE);
}

#[tokio::test(start_paused = true)]
async fn slow_chunk_ends_the_session() {
    let mut client = Client::connect().await;
    client.begin("").await;
    client.writer.write_all(b"BDAT 100000 LAST\r\n").await.expect("the server reads");
    check(client.repeat("x", SECOND).await, BODY_GRACE);
}

#[tokio::test(start_paused = true)]
async fn discarded_chunk_has_the_same_pace() {
    let mut client = Client::connect().await;
    client.writer.write_all(b"BDAT 100000 LAST\r\n").await.expect("the server reads");
    check(client.repeat("x", SECOND).await, BODY_GRACE);
}

#[tokio::test(start_paused = true)]
async fn steady_text_is_accepted() {
    let mut client = Client::connect().await;
    client.begin("").await;
    client.ask("DATA\r\n", "354 ").await;
    let lines = format!("{}\r\n", "x".repeat(1_022)).repeat(10);
    let mut ticks = tokio::time::interval(9 * SECOND);
    for _ in 0..20 {
        ticks.tick().await;
        client.writer.write_all(lines.as_bytes()).await.expect("the server reads");
    }
    client.ask(".\r\n", "250 ").await;
}

#[tokio::test(start_paused = true)]
async fn announced_size_is_not_held_for_long() {
    let mut client = Client::connect().await;
    client.begin(" SIZE=80000").await;
    let (replies, elapsed) = client.repeat("NOOP\r\n", MINUTE).await;
    assert_eq!(replies.len(), 7, "NOOP is answered until then: {replies:?}");
    check((replies, elapsed), TRANSACTION_GRACE + RECIPIENT_GRACE);
}

#[tokio::test(start_paused = true)]
async fn small_chunks_do_not_extend_the_transaction() {
    let mut client = Client::connect().await;
    client.begin("").await;
    check(client.repeat("BDAT 1\r\nx", MINUTE).await, TRANSACTION_GRACE + RECIPIENT_GRACE);
}

#[tokio::test(start_paused = true)]
async fn transaction_without_memory_may_take_its_time() {
    let mut client = Client::connect().await;
    client.begin("").await;
    let mut ticks = tokio::time::interval(MINUTE);
    for _ in 0..20 {
        ticks.tick().await;
        client.ask("NOOP\r\n", "250 ").await;
    }
    client.ask("DATA\r\n", "354 ").await;
    client.ask("Subject: x\r\n.\r\n", "250 ").await;
}
