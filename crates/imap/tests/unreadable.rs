//! FETCH of messages that cannot be read: the client always receives complete responses, or the connection ends.

use imap::session::ConnectionAction;
use mail::mailbox::MailFile;
use store::{Batch, Direction, KeyRange, Table, TableReader};

use crate::connection::SteppedSession;
use crate::world::{TestServer, deliver};

const SMALL: &str = "Subject: small\r\n\r\nbody\r\n";

/// The reply to a command that fails because of the store.
const REPLY: &str = "c NO [UNAVAILABLE] the store is temporarily unavailable\r\n";

/// Returns a message whose body is stored separately.
fn large_message(body_bytes: usize) -> String {
    format!("Subject: large\r\n\r\n{}", "x".repeat(body_bytes))
}

/// Removes all separately stored bodies from the store.
fn remove_bodies(file: &MailFile) {
    let store = file.mail().databases().store();
    let mut batch = Batch::new();
    let mut cursor = store.scan(Table::BlobRef, &KeyRange::all(), Direction::Forward).expect("the store works");
    while let Some((key, value)) = cursor.next().expect("the store works") {
        // The references of notes to a body have no value.
        if !value.is_empty() {
            batch.delete(Table::BlobRef, key);
        }
    }
    drop(cursor);
    assert!(!batch.is_empty(), "there are bodies");
    store.commit(&batch).expect("the store works");
}

/// Checks the outcome of a command in a mailbox with a small, a large and another small message. The large message
/// cannot be read.
fn check(command: &str, expected: &str) {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    for raw in [SMALL, &large_message(10_000), SMALL] {
        deliver(&file, raw.as_bytes());
    }
    remove_bodies(&file);
    let mut session = SteppedSession::in_inbox(&world);
    let action = session.begin(command);
    assert_eq!(session.complete(action), ConnectionAction::Ready, "{command}");
    assert_eq!(session.output(), expected, "{command}");
    assert!(session.fault().is_some_and(|fault| fault.contains("is missing")), "{command}");
    let action = session.begin("NOOP");
    assert_eq!(session.complete(action), ConnectionAction::Ready);
    assert_eq!(session.output(), "c OK NOOP completed\r\n");
}

#[test]
fn response_about_unreadable_message_is_left_out() {
    for attributes in ["BODY.PEEK[]", "UID BODY.PEEK[TEXT] ENVELOPE", "BINARY.PEEK[1]", "FLAGS BINARY.PEEK[]"] {
        check(&format!("FETCH 2 ({attributes})"), REPLY);
    }
    let length = SMALL.len();
    let first = format!("* 1 FETCH (UID 1 BODY[] {{{length}}}\r\n{SMALL})\r\n");
    let last = format!("* 3 FETCH (UID 3 BODY[] {{{length}}}\r\n{SMALL})\r\n");
    check("UID FETCH 1:* BODY.PEEK[]", &format!("{first}{last}{REPLY}"));
}

#[test]
fn flags_are_sent_of_all_messages_that_were_marked_as_seen() {
    let length = SMALL.len();
    let flags = "FLAGS (\\Seen \\Recent)";
    let whole = |number: u32| format!("* {number} FETCH (BODY[] {{{length}}}\r\n{SMALL} {flags})\r\n");
    check("FETCH 1:* BODY[]", &format!("{}{}* 2 FETCH ({flags})\r\n{REPLY}", whole(1), whole(3)));
}

/// Begins to fetch attributes of a message and, after the first slice, makes it unreadable. Returns the output of the
/// first slice, the output of the others, and the last action.
fn interrupt(raw: &str, attributes: &str) -> (String, String, ConnectionAction) {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    deliver(&file, raw.as_bytes());
    let mut session = SteppedSession::in_inbox(&world);
    let action = session.begin(&format!("FETCH 1 ({attributes})"));
    assert_eq!(action, ConnectionAction::Unfinished, "{attributes}");
    let first = session.output();
    remove_bodies(&file);
    let action = session.complete(action);
    assert!(session.fault().is_some_and(|fault| fault.contains("is missing")), "{attributes}");
    (first, session.output(), action)
}

#[test]
fn response_ends_after_the_last_complete_attribute_that_was_sent() {
    let raw = large_message(200_000);
    let (first, rest, action) = interrupt(&raw, "UID BODY.PEEK[1]<0.100000> BODY.PEEK[1]<50.100000> FLAGS");
    assert!(first == format!("* 1 FETCH (UID 1 BODY[1]<0> {{100000}}\r\n{}", "x".repeat(100_000)));
    assert_eq!((rest, action), (format!(")\r\n{REPLY}"), ConnectionAction::Ready));
}

#[test]
fn connection_ends_within_a_literal() {
    let raw = large_message(1_000_000);
    for name in ["BODY", "BINARY"] {
        let (first, rest, action) = interrupt(&raw, &format!("{name}.PEEK[]"));
        let head = format!("* 1 FETCH ({name}[] {{{}}}\r\n", raw.len());
        assert!(first.starts_with(&head), "{name}");
        assert!((head.len() + 1..raw.len()).contains(&first.len()), "a part was sent");
        assert_eq!((rest, action), (String::new(), ConnectionAction::Close), "{name}");
    }
}
