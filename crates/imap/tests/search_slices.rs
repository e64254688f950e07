//! Slices of SEARCH, SORT, THREAD and APPEND: how often they are interrupted so that other work gets its turn, and that
//! their results do not depend on it.

use imap::limits;
use imap::session::ConnectionAction;
use mail::mailbox::{Flags, MailFile, NewMessage};
use wire::Peer;

use crate::connection::{Connection, SteppedSession};
use crate::world::{TestServer, deliver};

/// Length of the text of a large message.
const TEXT_BYTES: usize = 4 << 20;

/// Returns a message with a large text that contains `needle` once, at its end.
fn large_message(needle: &str) -> String {
    let line = "Lorem ipsum dolor sit amet, consetetur sadipscing elitr.\r\n";
    format!("Subject: large\r\n\r\n{}{needle}\r\n", line.repeat(TEXT_BYTES / line.len()))
}

/// Sends a command in INBOX and returns its response, and the number of slices after the first one.
fn ask(world: &TestServer, command: &str) -> (Vec<String>, usize) {
    let mut connection = Connection::new(world, Peer::local());
    connection.receive(b"a LOGIN alice secret\r\nb SELECT INBOX\r\n");
    connection.lines.clear();
    let before = connection.resumed;
    connection.receive(format!("c {command}\r\n").as_bytes());
    (connection.lines.drain(..).collect(), connection.resumed - before)
}

/// Stores messages in INBOX.
fn store(file: &MailFile, raws: impl IntoIterator<Item = Vec<u8>>) {
    let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the store works");
    let inbox = inbox.expect("there is an inbox").id;
    let message = |raw| NewMessage { raw, flags: Flags::none(), received: None };
    let messages: Vec<NewMessage> = raws.into_iter().map(message).collect();
    for messages in messages.chunks(mail::limits::APPEND_MESSAGES_MAX) {
        file.append(inbox, messages).expect("the messages are stored");
    }
}

#[test]
fn large_message_is_searched_in_slices() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    deliver(&file, large_message("Needle").as_bytes());
    deliver(&file, b"Subject: small\r\n\r\nneedle\r\n");
    let (response, slices) = ask(&world, "SEARCH BODY needle");
    assert_eq!(response, ["* SEARCH 1 2", "c OK SEARCH completed"]);
    assert!(slices >= 2, "{slices}");
    // The search of a message ends with the piece that decides.
    let (response, slices) = ask(&world, "SEARCH SUBJECT large OR SUBJECT small TEXT lorem");
    assert_eq!((&response[0][..], slices), ("* SEARCH 1", 0));
}

#[test]
fn many_texts_are_sought_in_more_slices() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    deliver(&file, large_message("Needle").as_bytes());
    let (_, slices_for_one) = ask(&world, "SEARCH BODY needle");
    let keys: Vec<String> = (0..300).map(|number| format!("NOT TEXT nowhere{number}")).collect();
    let (response, slices) = ask(&world, &format!("SEARCH {} BODY needle", keys.join(" ")));
    assert_eq!(response, ["* SEARCH 1", "c OK SEARCH completed"]);
    assert!(slices >= 10 * slices_for_one, "{slices} and {slices_for_one}");
    let (response, _) = ask(&world, &format!("SEARCH {} NOT BODY needle", keys.join(" ")));
    assert_eq!(response, ["* SEARCH", "c OK SEARCH completed"]);
}

#[test]
fn message_that_vanishes_while_it_is_searched_does_not_match() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    deliver(&file, large_message("needle").as_bytes());
    deliver(&file, b"Subject: small\r\n\r\nneedle\r\n");
    let mut session = SteppedSession::in_inbox(&world);
    let action = session.begin("UID SEARCH BODY needle");
    assert_eq!(action, ConnectionAction::Unfinished);
    let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the store works");
    file.delete(inbox.expect("it exists").id, &base::UidSet::from(1..=1)).expect("the message is removed");
    session.complete(action);
    let text = session.output();
    assert!(text.starts_with("* SEARCH 2\r\n* 1 EXPUNGE\r\n"), "{text}");
}

#[test]
fn many_messages_are_sorted_in_slices() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    let count = limits::SLICE_SORTED_MESSAGES + 1_000;
    let size = |number: usize| number * 7 % 11;
    store(&file, (0..count).map(|number| format!("Subject: a\r\n\r\n{}", "x".repeat(size(number))).into_bytes()));
    let mut expected: Vec<usize> = (0..count).collect();
    expected.sort_by_key(|number| std::cmp::Reverse(size(*number)));
    let expected: String = expected.iter().map(|number| format!(" {}", number + 1)).collect();
    for command in ["SORT (REVERSE SIZE ARRIVAL) US-ASCII ALL", "UID SORT (REVERSE SIZE) US-ASCII ALL"] {
        let (response, slices) = ask(&world, command);
        assert_eq!(response.len(), 2, "{command}");
        assert!(response[0] == format!("* SORT{expected}"), "{command}");
        assert!(slices > count / limits::SLICE_MESSAGES, "{slices}");
    }
}

#[test]
fn threads_are_built_in_slices() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    let count = limits::SLICE_THREAD_STEPS / 6 + limits::SLICE_THREAD_STEPS / 60;
    let header =
        |number: usize| format!("Message-ID: <{}@x>\r\nReferences: <{number}@x>\r\nSubject: s\r\n\r\n", number + 1);
    store(&file, (0..count).map(|number| header(number).into_bytes()));
    let numbers = |separator: (&str, &str)| -> String {
        (2..=count).map(|number| format!("{}{number}{}", separator.0, separator.1)).collect()
    };
    let (flat, of_subjects) = ask(&world, "THREAD ORDEREDSUBJECT UTF-8 ALL");
    assert!(flat[0] == format!("* THREAD (1 {})", numbers(("(", ")"))), "{}", flat[0].len());
    let (deep, of_references) = ask(&world, "UID THREAD REFERENCES UTF-8 ALL");
    assert!(deep[0] == format!("* THREAD (1{})", numbers((" ", ""))), "{}", deep[0].len());
    // Both read the messages in the same way. References need six steps a message, and subjects three.
    assert_eq!(of_references, of_subjects + 1);
}

#[test]
fn messages_are_prepared_in_slices() {
    let world = TestServer::new();
    let text = format!("Subject: a\r\n\r\n{}", "x".repeat(limits::SLICE_PREPARED_BYTES / 2));
    let literal = format!("{{{}+}}\r\n{text}", text.len());
    let (response, slices) = ask(&world, &format!("APPEND Drafts {}", [&literal[..]; 4].join(" ")));
    assert_eq!(response.len(), 1, "{response:?}");
    assert!(response[0].starts_with("c OK [APPENDUID ") && response[0].ends_with(" 1:4] APPEND completed"));
    assert_eq!(slices, 2);
    let (response, slices) = ask(&world, &format!("APPEND Drafts {literal} {{0+}}\r\n"));
    assert_eq!((response, slices), (vec!["c NO an empty message cannot be stored".to_owned()], 0));
    let (response, _) = ask(&world, "STATUS Drafts (MESSAGES)");
    assert_eq!(response[0], "* STATUS Drafts (MESSAGES 4)", "all or none");
}
