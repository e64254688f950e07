//! Slices of FETCH: how often a response is interrupted so that other work gets its turn.

use base64::Engine;
use wire::Peer;

use crate::connection::Connection;
use crate::world::{TestServer, deliver};

const MESSAGES: usize = 40;
const MESSAGE_BYTES: usize = 30_000;

/// Fetches attributes of all messages of a large mailbox. Returns the number of slices after the first one.
fn further_slices(attributes: &str) -> usize {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    let body = "0123456789 abcdefghijklmnopqrstuvwxyz\r\n".repeat(MESSAGE_BYTES / 40);
    for number in 0..MESSAGES {
        deliver(&file, format!("Subject: {number}\r\nFrom: bob@acme.test\r\n\r\n{body}").as_bytes());
    }
    let mut connection = Connection::new(&world, Peer::local());
    connection.receive(b"a LOGIN alice secret\r\nb SELECT INBOX\r\n");
    let before = connection.resumed;
    connection.receive(format!("c FETCH 1:* ({attributes})\r\n").as_bytes());
    connection.resumed - before
}

#[test]
fn attributes_of_the_header_are_sent_without_regard_to_the_size_of_the_bodies() {
    for attributes in ["ENVELOPE", "BODYSTRUCTURE RFC822.SIZE", "BODY.PEEK[HEADER.FIELDS (SUBJECT)]", "RFC822.HEADER"] {
        assert_eq!(further_slices(attributes), 0, "{attributes}");
    }
}

#[test]
fn bodies_are_sent_in_slices() {
    let batches = MESSAGES * MESSAGE_BYTES / imap::limits::SLICE_BYTES;
    assert!(further_slices("BODY.PEEK[]") >= batches / 2);
    assert!(further_slices("ENVELOPE BODY.PEEK[TEXT]") >= batches / 2);
}

/// Fetches attributes of a message. Returns the response without line ends, and the number of slices after the first
/// one.
fn fetch(raw: &str, attributes: &str) -> (String, usize) {
    let world = TestServer::new();
    deliver(&world.open_as_server("alice"), raw.as_bytes());
    let mut connection = Connection::new(&world, Peer::local());
    connection.receive(b"a LOGIN alice secret\r\nb SELECT INBOX\r\n");
    connection.lines.clear();
    let before = connection.resumed;
    connection.receive(format!("c FETCH 1 ({attributes})\r\n").as_bytes());
    let response: String = connection.lines.drain(..).collect();
    (response.replace(['\r', '\n'], ""), connection.resumed - before)
}

#[test]
fn attributes_of_a_message_are_sent_in_slices() {
    let body = "0123456789".repeat(20_000);
    let raw = format!("Subject: x\r\n\r\n{body}");
    let attributes: Vec<String> = (0..5).map(|start| format!("BODY.PEEK[1]<{start}.100000>")).collect();
    let (response, slices) = fetch(&raw, &format!("FLAGS {} UID", attributes.join(" ")));
    let sections = (0..5).map(|start| format!("BODY[1]<{start}> {{100000}}{} ", &body[start..start + 100_000]));
    let expected: String = sections.collect();
    assert!(response == format!("* 1 FETCH (FLAGS (\\Recent) {expected}UID 1)c OK FETCH completed"));
    assert_eq!(slices, 5);
}

#[test]
fn large_parts_are_decoded_in_slices() {
    for (content, prefix) in [("0123456789".repeat(700_000), ""), ("0123456789".repeat(700_000) + "\0", "~")] {
        let lines: Vec<String> =
            content.as_bytes().chunks(57).map(|line| base64::engine::general_purpose::STANDARD.encode(line)).collect();
        let body = lines.join("\r\n");
        let raw = format!("Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n{body}");
        let length = content.len();
        let measuring = body.len() as u64 / imap::limits::FETCH_SLICE_BYTES;
        let pieces = body.len() as u64 / imap::limits::PIECE_BYTES;

        let (response, slices) = fetch(&raw, "BINARY.SIZE[1] UID BINARY.SIZE[1]");
        let expected = format!("* 1 FETCH (BINARY.SIZE[1] {length} UID 1 BINARY.SIZE[1] {length})c OK FETCH completed");
        assert_eq!(response, expected);
        // The first two slices are in one visit.
        assert_eq!(slices as u64, measuring - 1, "the part is measured once");

        let (response, slices) = fetch(&raw, "BINARY.PEEK[1] BINARY.PEEK[1]<2000000.400000>");
        let end = &content[2_000_000..2_400_000];
        let expected = format!(
            "* 1 FETCH (BINARY[1] {prefix}{{{length}}}{content} BINARY[1]<2000000> {{400000}}{end})c OK FETCH completed"
        );
        assert!(response == expected);
        assert!(slices as u64 >= pieces, "{slices}");

        // The whole message has no encoding of its own.
        let (response, slices) = fetch(&raw, "BINARY.PEEK[] BINARY.SIZE[]");
        let whole = raw.replace("\r\n", "");
        let length = raw.len();
        let expected = format!("* 1 FETCH (BINARY[] {{{length}}}{whole} BINARY.SIZE[] {length})c OK FETCH completed");
        assert!(response == expected);
        assert!(slices as u64 >= pieces, "{slices}");
    }
}

#[test]
fn small_parts_are_not_divided() {
    let raw = "Content-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n";
    let (response, slices) = fetch(raw, "BINARY.SIZE[1] BINARY.PEEK[1] BINARY.PEEK[2]");
    assert_eq!(response, "* 1 FETCH (BINARY.SIZE[1] 5 BINARY[1] {5}hello BINARY[2] {0})c OK FETCH completed");
    assert_eq!(slices, 0);
}
