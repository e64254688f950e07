//! Slices of FETCH: how often a response is interrupted so that other work gets its turn.

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
