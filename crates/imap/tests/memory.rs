//! Tests of the memory for commands: literals count when they are announced, accounts have shares, and a session
//! continues after a refusal.

use base::memory::{MemoryShares, ShareSizes};
use wire::Peer;

use crate::connection::Connection;
use crate::world::TestServer;

const TOTAL_BYTES: usize = 200_000;
const NO_MEMORY: &str = "NO [LIMIT] no memory is left for this command, try again later";

/// Creates a world with 200,000 bytes of memory for commands. An account may have half of them.
fn world() -> TestServer {
    let sizes =
        ShareSizes { account_bytes: 100_000, network_bytes: 3_000, networks_bytes: 100_000, local_bytes: 100_000 };
    TestServer::with_memory(MemoryShares::new(TOTAL_BYTES, sizes))
}

/// Sends bytes and returns the lines of the response.
fn ask(connection: &mut Connection, bytes: impl AsRef<[u8]>) -> Vec<String> {
    connection.receive(bytes.as_ref());
    connection.lines.drain(..).collect()
}

fn logged_in(world: &TestServer, login: &str) -> Connection {
    let mut connection = Connection::new(world, Peer::local());
    let response = ask(&mut connection, format!("l LOGIN {login} secret\r\n"));
    assert!(response[0].starts_with("l OK "), "{response:?}");
    connection
}

fn message(length: usize) -> String {
    format!("Subject: x\r\n\r\n{}", "y".repeat(length - 14))
}

#[test]
fn literal_beyond_the_share_is_refused() {
    let world = world();
    let mut alice = logged_in(&world, "alice");
    assert_eq!(ask(&mut alice, "a APPEND INBOX {150000}\r\n"), [format!("a {NO_MEMORY}")]);
    let literal = message(150_000);
    let response = ask(&mut alice, format!("b APPEND INBOX {{150000+}}\r\n{literal}\r\nc NOOP\r\n"));
    assert_eq!(response, [format!("b {NO_MEMORY}"), "c OK NOOP completed".to_owned()]);
    assert_eq!(ask(&mut alice, "d APPEND INBOX {50000}\r\n"), ["+ go on"]);
    let held = TOTAL_BYTES - world.context.memory.total().available_bytes();
    assert!((45_000..=50_100).contains(&held), "{held}");
    let response = ask(&mut alice, message(50_000) + "\r\n");
    assert!(response.last().is_some_and(|line| line.starts_with("d OK [APPENDUID ")), "{response:?}");
    assert_eq!(world.context.memory.total().available_bytes(), TOTAL_BYTES);
}

#[test]
fn connections_of_an_account_share_its_memory() {
    let world = world();
    let mut first = logged_in(&world, "alice");
    let mut second = logged_in(&world, "alice");
    let mut bob = logged_in(&world, "bob");
    assert_eq!(ask(&mut first, "a APPEND INBOX {60000}\r\n"), ["+ go on"]);
    assert_eq!(ask(&mut second, "a APPEND INBOX {60000}\r\n"), [format!("a {NO_MEMORY}")]);
    assert_eq!(ask(&mut bob, "a APPEND INBOX {60000}\r\n"), ["+ go on"], "others are served");
    drop(first);
    assert_eq!(ask(&mut second, "b APPEND INBOX {60000}\r\n"), ["+ go on"]);
    drop((second, bob));
    assert_eq!(world.context.memory.total().available_bytes(), TOTAL_BYTES);
}

#[test]
fn long_lines_before_the_login_count_for_the_network() {
    let world = world();
    let address = "192.0.2.7:50000".parse().expect("an address");
    let mut stranger = Connection::new(&world, Peer::network(address).encrypted());
    assert!(ask(&mut stranger, format!("a LOGIN alice {}", "x".repeat(5_000))).is_empty());
    let mut other = Connection::new(&world, Peer::network(address).encrypted());
    assert!(ask(&mut other, format!("a LOGIN alice {}", "x".repeat(8_000))).is_empty());
    assert_eq!(ask(&mut other, "\r\nb NOOP\r\n"), [format!("a {NO_MEMORY}"), "b OK NOOP completed".to_owned()]);
    let response = ask(&mut stranger, "\r\n");
    assert!(response[0].starts_with("a NO [AUTHENTICATIONFAILED] "), "{response:?}");
}
