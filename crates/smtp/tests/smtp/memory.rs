//! Tests of the memory for messages: senders have shares, announced sizes count from MAIL on, and a session continues
//! after a refusal.

use std::sync::Arc;

use base::memory::{MemoryShares, ShareSizes};
use base::sim::SimClock;
use smtp::connection::serve;
use smtp::listener_rules::ListenerRules;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use wire::sim::BusyWorker;
use wire::{Peer, PoolOptions, SessionTermination, Stream, WorkerPool};

use crate::dialogues::SessionDriver;
use crate::loopback::service;

const TOTAL_BYTES: usize = 300_000;
const NO_MEMORY: &str = "452 4.3.1 No memory is left for this message, try again later\r\n";

/// Creates a budget of 300,000 bytes: a network may have 130,000 of them, and all networks 200,000.
fn memory() -> Arc<MemoryShares> {
    let sizes =
        ShareSizes { account_bytes: 150_000, network_bytes: 130_000, networks_bytes: 200_000, local_bytes: 150_000 };
    MemoryShares::new(TOTAL_BYTES, sizes)
}

fn peer(address: &str) -> Peer {
    Peer::network(format!("{address}:4000").parse().expect("an address"))
}

/// Starts a session that has said HELO.
fn session(memory: &Arc<MemoryShares>, peer: Peer) -> SessionDriver {
    let mut rules = ListenerRules::reception("mx.example", "b.example");
    rules.message_bytes_max = 100_000;
    let mut driver = SessionDriver::with_memory(rules, peer, Arc::clone(memory));
    driver.send(b"HELO c.example\r\n");
    driver.out.clear();
    driver
}

/// Sends bytes and returns the replies.
fn ask(driver: &mut SessionDriver, bytes: impl AsRef<[u8]>) -> String {
    driver.send(bytes.as_ref());
    String::from_utf8(std::mem::take(&mut driver.out)).expect("replies are text")
}

#[test]
fn announced_sizes_count_from_mail_on() {
    let memory = memory();
    let mail = "MAIL FROM:<a@c.example> SIZE=80000\r\n";
    let accepted = "250 2.1.0 Ok\r\n";
    let mut first = session(&memory, peer("192.0.2.7"));
    assert_eq!(ask(&mut first, mail), accepted);
    let mut second = session(&memory, peer("192.0.2.7"));
    assert_eq!(ask(&mut second, mail), NO_MEMORY, "the network has no memory for two such messages");
    assert_eq!(ask(&mut second, "MAIL FROM:<a@c.example> SIZE=10000\r\n"), accepted, "the session continues");
    let mut other = session(&memory, peer("192.0.2.8"));
    assert_eq!(ask(&mut other, mail), accepted, "another network is served");
    let mut third = session(&memory, peer("192.0.2.9"));
    assert_eq!(ask(&mut third, mail), NO_MEMORY, "all networks have no memory for three such messages");
    let mut local = session(&memory, Peer::local());
    assert_eq!(ask(&mut local, mail), accepted, "peers of this machine have a share of their own");
    assert_eq!(ask(&mut first, "RSET\r\n"), "250 2.0.0 Ok\r\n");
    assert_eq!(ask(&mut third, mail), accepted, "the memory of the first transaction was returned");
    drop((first, second, other, third, local));
    assert_eq!(memory.total().available_bytes(), TOTAL_BYTES);
}

#[test]
fn announced_size_is_enough_for_the_message() {
    let memory = memory();
    let mut driver = session(&memory, peer("192.0.2.7"));
    ask(&mut driver, "MAIL FROM:<a@c.example> SIZE=80000\r\nRCPT TO:<alice@b.example>\r\n");
    let rest = memory.share_of(&peer("192.0.2.7").memory_owner());
    let _rest = rest.acquire(rest.available_bytes()).expect("exactly this much is left");
    assert!(ask(&mut driver, "DATA\r\n").starts_with("354 "));
    let line = format!("{}\r\n", "x".repeat(98));
    for _ in 0..800 {
        assert_eq!(ask(&mut driver, &line), "");
    }
    assert_eq!(ask(&mut driver, ".\r\n"), "250 2.0.0 Ok: queued as Q1\r\n");
}

#[test]
fn data_without_memory_is_refused_after_its_end() {
    let memory = memory();
    let address = peer("192.0.2.7");
    let others = memory.share_of(&address.memory_owner()).acquire(100_000).expect("within the share");
    let mut driver = session(&memory, address);
    let group = "MAIL FROM:<a@c.example>\r\nRCPT TO:<alice@b.example>\r\nDATA\r\n";
    assert!(ask(&mut driver, group).ends_with("354 End data with <CR><LF>.<CR><LF>\r\n"));
    let text = format!("Subject: x\r\n\r\n{}", "0123456789\r\n".repeat(5_000));
    assert_eq!(ask(&mut driver, &text), "");
    let held = TOTAL_BYTES - memory.total().available_bytes();
    assert!(held < 100_000 + 1_000, "discarded data takes no memory: {held}");
    assert_eq!(ask(&mut driver, ".\r\nNOOP\r\n"), format!("{NO_MEMORY}250 2.0.0 Ok\r\n"));
    assert!(driver.backend.take().is_empty());
    drop(others);
    assert!(ask(&mut driver, group).ends_with("354 End data with <CR><LF>.<CR><LF>\r\n"));
    assert_eq!(ask(&mut driver, text + ".\r\n"), "250 2.0.0 Ok: queued as Q1\r\n");
    assert_eq!(memory.total().available_bytes(), TOTAL_BYTES);
}

#[test]
fn commands_are_refused_without_memory() {
    let memory = memory();
    let address = peer("192.0.2.7");
    let share = memory.share_of(&address.memory_owner());
    let mut driver = session(&memory, address);
    assert_eq!(ask(&mut driver, "MAIL FROM:<a@c.example>\r\n"), "250 2.1.0 Ok\r\n");
    let all = share.acquire(130_000).expect("the whole share");
    assert_eq!(ask(&mut driver, "RCPT TO:<alice@b.example>\r\n"), NO_MEMORY);
    drop(all);
    assert_eq!(ask(&mut driver, "RCPT TO:<alice@b.example>\r\n"), "250 2.1.5 Ok\r\n");
    let most = share.acquire(120_000).expect("within the share");
    assert_eq!(ask(&mut driver, "DATA\r\n"), NO_MEMORY);
    drop(most);
    assert_eq!(ask(&mut driver, "DATA\r\n"), "354 End data with <CR><LF>.<CR><LF>\r\n");
    assert_eq!(ask(&mut driver, "Subject: x\r\n.\r\n"), "250 2.0.0 Ok: queued as Q1\r\n");
    assert_eq!(share.available_bytes(), 130_000);
}

#[test]
fn chunk_without_memory_is_refused_and_skipped() {
    let memory = memory();
    let address = peer("192.0.2.7");
    let others = memory.share_of(&address.memory_owner()).acquire(60_000).expect("within the share");
    let mut driver = session(&memory, address);
    let begin = "MAIL FROM:<a@c.example>\r\nRCPT TO:<alice@b.example>\r\n";
    let accepted = "250 2.1.0 Ok\r\n250 2.1.5 Ok\r\n";
    assert_eq!(ask(&mut driver, begin), accepted);
    let chunk = "0123456789\r\n".repeat(2_500);
    let first = format!("BDAT {}\r\n{chunk}", chunk.len());
    assert_eq!(ask(&mut driver, &first), format!("250 2.0.0 Ok: {} octets\r\n", chunk.len()));
    let second = chunk.repeat(2);
    let second = format!("BDAT {}\r\n{second}NOOP\r\n", second.len());
    assert_eq!(ask(&mut driver, &second), format!("{NO_MEMORY}250 2.0.0 Ok\r\n"), "more than is left");
    assert_eq!(ask(&mut driver, "BDAT 0 LAST\r\n"), "503 5.5.1 An earlier chunk was refused\r\n");
    drop(others);
    assert_eq!(memory.total().available_bytes(), TOTAL_BYTES, "nothing is kept of a refused message");
    assert_eq!(ask(&mut driver, begin), accepted);
    assert_eq!(ask(&mut driver, &first), format!("250 2.0.0 Ok: {} octets\r\n", chunk.len()));
    assert_eq!(ask(&mut driver, "BDAT 0 LAST\r\n"), "250 2.0.0 Ok: queued as Q1\r\n");
}

#[test]
fn login_has_the_share_of_its_account() {
    let memory = memory();
    let mut rules = ListenerRules::submission("mx.example", "b.example");
    rules.message_bytes_max = 100_000;
    let mail = "MAIL FROM:<alice@b.example> SIZE=80000\r\n";
    let mut replies = Vec::new();
    let mut sessions = Vec::new();
    for address in ["192.0.2.7", "192.0.2.8"] {
        let peer = peer(address).encrypted();
        let mut driver = SessionDriver::with_memory(rules.clone(), peer, Arc::clone(&memory));
        driver.send(b"HELO c.example\r\n");
        driver.send(b"AUTH PLAIN AGFsaWNlAHNlY3JldA==\r\n");
        driver.out.clear();
        replies.push(ask(&mut driver, mail));
        sessions.push(driver);
    }
    assert_eq!(replies, ["250 2.1.0 Ok\r\n", NO_MEMORY], "an account has one share, whatever its addresses");
    let mut stranger = session(&memory, peer("192.0.2.7"));
    assert_eq!(ask(&mut stranger, "MAIL FROM:<a@c.example> SIZE=80000\r\n"), "250 2.1.0 Ok\r\n");
}

#[tokio::test]
async fn job_holds_the_memory_of_its_message() {
    let memory = memory();
    let (service, backend, _) = service(ListenerRules::lmtp("mx.b.example", "b.example"), None);
    let mut service = Arc::into_inner(service).expect("the test has the only reference");
    service.memory = Arc::clone(&memory);
    let options = PoolOptions { workers: 1, ..PoolOptions::default() };
    let pool = WorkerPool::new(&options, Arc::new(SimClock::new())).expect("a thread");
    service.pool = pool.clone();
    let (near, far) = Stream::duplex(1 << 16);
    let served = tokio::spawn(serve(far, Peer::local(), Arc::new(service), SessionTermination::default()));
    let mut lines = BufReader::new(near).lines();
    let commands = "LHLO c.example\r\nMAIL FROM:<a@c.example>\r\nRCPT TO:<alice@b.example>\r\nDATA\r\n";
    lines.get_mut().write_all(commands.as_bytes()).await.expect("the server reads");
    while !lines.next_line().await.expect("a line").expect("a reply").starts_with("354 ") {}
    let busy = BusyWorker::occupy(&pool).expect("the queue has space");
    lines.get_mut().write_all(b"Subject: x\r\n\r\ntext\r\n.\r\n").await.expect("the server reads");
    while pool.report().depth == 0 {
        tokio::task::yield_now().await;
    }
    served.abort();
    assert!(served.await.is_err_and(|error| error.is_cancelled()));
    assert!(memory.total().available_bytes() < TOTAL_BYTES, "the message waits for a worker");
    drop(busy);
    while memory.total().available_bytes() < TOTAL_BYTES {
        tokio::task::yield_now().await;
    }
    assert_eq!(backend.take().len(), 1);
}
