//! Slices of LIST, LSUB, STATUS and NOTIFY: how often they are interrupted so that other work gets its turn, and that
//! their responses do not depend on it. The work after which a LIST is refused.

use std::sync::Arc;

use imap::codec::{DecodeResult, ResponseWriter};
use imap::limits;
use imap::session::{ConnectionAction, Session};
use mail::mailbox::{Flags, MailFile, NewMessage};
use notes::{Access, Identity, Marks, level};
use wire::Peer;

use crate::connection::Connection;
use crate::world::TestServer;

/// The mailboxes of a new mail file, in the order of LIST.
const FIRST: [&str; 6] = ["INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash"];

/// Creates mailboxes in one transaction.
fn create(file: &MailFile, names: impl IntoIterator<Item = String>) {
    let itself = Arc::new(Identity::local_server(""));
    let access: Access<level::Depositor> = file.database().authorize(&itself).expect("the server has access");
    let accesses = [&access];
    let mut transaction = file.mail().databases().transaction(&accesses).expect("the store works");
    let mut writer = transaction.writer(0);
    for name in names {
        writer.folder_create(&name, &[]).expect("the name is free");
    }
    transaction.commit().expect("the store works");
}

/// Logs in, sends a command and returns its response, and the number of slices after the first one.
fn ask(world: &TestServer, command: &str) -> (Vec<String>, usize) {
    let mut connection = Connection::new(world, Peer::local());
    connection.receive(b"a LOGIN alice secret\r\n");
    connection.lines.clear();
    let before = connection.resumed;
    connection.receive(format!("b {command}\r\n").as_bytes());
    (connection.lines.drain(..).collect(), connection.resumed - before)
}

#[test]
fn long_lists_are_sent_in_slices() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    let names: Vec<String> = (0..300).map(|number| format!("Z{number:03}{}", "x".repeat(300))).collect();
    create(&file, names.clone());
    let all: Vec<&str> = FIRST.into_iter().chain(names.iter().map(String::as_str)).collect();
    let special = |name: &str| {
        if name != "INBOX" && FIRST.contains(&name) { format!(" \\{name}") } else { String::new() }
    };
    let list = |name: &&str| format!("* LIST (\\HasNoChildren{}) \"/\" {name}", special(name));

    let (response, slices) = ask(&world, "LIST \"\" *");
    let expected: Vec<String> = all.iter().map(list).chain(["b OK LIST completed".to_owned()]).collect();
    assert_eq!(response, expected);
    assert_eq!(slices, 1);

    let (response, slices) = ask(&world, "LIST \"\" (Z* INBOX A%) RETURN (STATUS (MESSAGES))");
    let status = |name: &&str| format!("* STATUS {name} (MESSAGES 0)");
    let chosen = all.iter().filter(|name| **name == "INBOX" || name.starts_with(['A', 'Z']));
    let expected = chosen.flat_map(|name| [list(name), status(name)]);
    assert_eq!(response, expected.chain(["b OK LIST completed".to_owned()]).collect::<Vec<_>>());
    assert!(slices >= 2, "{slices}");

    for name in &names {
        file.folder_subscribe(name).expect("the limits permit it");
    }
    let (response, slices) = ask(&world, "LSUB \"\" *");
    let expected = all.iter().map(|name| format!("* LSUB () \"/\" {name}"));
    assert_eq!(response, expected.chain(["b OK LSUB completed".to_owned()]).collect::<Vec<_>>());
    assert_eq!(slices, 1);
}

#[test]
fn list_whose_patterns_cost_too_much_is_refused() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    create(&file, (0..200).map(|number| format!("{}{number}b", "a".repeat(1_000))));
    let patterns: Vec<String> = (0..64).map(|number| format!("{}{number}", "%*a".repeat(300))).collect();
    let (response, slices) = ask(&world, &format!("LIST \"\" ({})", patterns.join(" ")));
    let text = "b NO [LIMIT] matching these patterns takes too long, use fewer of them or fewer wildcards";
    assert_eq!(response, [text]);
    assert!(slices > 10, "{slices}");
    // A single one of them is no problem.
    let (response, _) = ask(&world, &format!("LIST \"\" {}", patterns[0]));
    assert_eq!(response, ["b OK LIST completed"]);
}

/// Executes a command line. Returns the action after its first slice.
fn execute(session: &mut Session, line: &str, out: &mut ResponseWriter) -> ConnectionAction {
    let mut decoder = session.decoder();
    decoder.feed(format!("c {line}\r\n").as_bytes());
    match decoder.decode() {
        DecodeResult::Command(verb, command) => session.execute(verb, command, out),
        _ => panic!("{line} is a command"),
    }
}

#[test]
fn mailboxes_that_vanish_during_a_list_have_no_status() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    create(&file, (0..limits::SLICE_MAILBOXES).map(|number| format!("Plan {number:03}")));
    create(&file, ["Z1", "Z2", "Z3", "Z4"].map(str::to_owned));
    let mut session = Session::new(Arc::clone(&world.context), Peer::local());
    let mut out = ResponseWriter::new();
    // The check of the password and the opening of the mail file are two jobs.
    assert_eq!(execute(&mut session, "LOGIN alice secret", &mut out), ConnectionAction::Unfinished);
    assert_eq!(session.resume(&mut out), ConnectionAction::Ready);
    let mut action = execute(&mut session, "LIST \"\" (P% Z%) RETURN (STATUS (MESSAGES))", &mut out);
    assert_eq!(action, ConnectionAction::Unfinished);
    file.folder_delete("Z1").expect("it exists");
    file.folder_rename("Z2", "Z5").expect("it exists");
    create(&file, ["Z2".to_owned()]);
    while action == ConnectionAction::Unfinished {
        action = session.resume(&mut out);
    }
    let text = String::from_utf8(out.take()).expect("the names are ASCII");
    let found: Vec<&str> = text.lines().filter(|line| line.contains(" Z")).collect();
    let expected = [
        "* LIST (\\HasNoChildren) \"/\" Z1",
        "* LIST (\\HasNoChildren) \"/\" Z2",
        "* LIST (\\HasNoChildren) \"/\" Z3",
        "* STATUS Z3 (MESSAGES 0)",
        "* LIST (\\HasNoChildren) \"/\" Z4",
        "* STATUS Z4 (MESSAGES 0)",
    ];
    assert_eq!(found, expected);
}

#[test]
fn deleted_storage_is_counted_in_slices() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the store works");
    let inbox = inbox.expect("there is an inbox").id;
    let raw = b"Subject: a\r\n\r\n".to_vec();
    let flags = Flags::from_system_flags(Marks::DELETED);
    let count = 2 * limits::SLICE_MESSAGES + 100;
    let messages = vec![NewMessage { raw: raw.clone(), flags, received: None }; count];
    file.append(inbox, &messages).expect("the messages are stored");
    let expected = format!("* STATUS INBOX (MESSAGES {count} DELETED-STORAGE {})", count * raw.len());
    let (response, slices) = ask(&world, "STATUS INBOX (MESSAGES DELETED-STORAGE)");
    assert_eq!(response, [expected.as_str(), "b OK STATUS completed"]);
    // The first two slices are in one visit.
    assert_eq!(slices, 1);
    let (response, slices) = ask(&world, "LIST \"\" INBOX RETURN (STATUS (MESSAGES DELETED-STORAGE))");
    let list = "* LIST (\\HasNoChildren) \"/\" INBOX";
    assert_eq!(response, [list, expected.as_str(), "b OK LIST completed"]);
    assert_eq!(slices, 2);
}

#[test]
fn watched_mailboxes_are_compared_in_slices() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    create(&file, (FIRST.len()..limits::WATCHED_MAILBOXES_MAX).map(|number| format!("Plan {number:04}")));
    let mut connection = Connection::new(&world, Peer::local());
    connection.receive(b"a LOGIN alice secret\r\n");
    connection.lines.clear();
    let batches = limits::WATCHED_MAILBOXES_MAX.div_ceil(limits::SLICE_MAILBOXES);
    let before = connection.resumed;
    connection.receive(b"b NOTIFY SET STATUS (personal (MessageNew MessageExpunge MailboxName))\r\n");
    assert_eq!(connection.lines.len(), limits::WATCHED_MAILBOXES_MAX + 1);
    assert!(connection.resumed >= before + batches - 1);
    connection.lines.clear();

    let folder = file.snapshot().and_then(|snapshot| snapshot.folder("Plan 0999")).expect("the store works");
    let message = NewMessage { raw: b"Subject: a\r\n\r\n".to_vec(), flags: Flags::none(), received: None };
    file.append(folder.expect("it exists").id, &[message]).expect("the message is stored");
    let before = connection.resumed;
    connection.wake();
    assert_eq!(connection.lines.len(), 1, "{:?}", connection.lines);
    assert!(connection.lines[0].starts_with("* STATUS \"Plan 0999\" (UIDVALIDITY "), "{:?}", connection.lines);
    assert!(connection.resumed >= before + batches - 1);
    connection.lines.clear();

    // RFC 5465 §5.8: one more is too much, and ends the notifications.
    create(&file, ["Project".to_owned()]);
    connection.wake();
    assert_eq!(connection.lines, ["* OK [NOTIFICATIONOVERFLOW] too many mailboxes to watch"]);
    connection.lines.clear();
    create(&file, ["Quotes".to_owned()]);
    connection.wake();
    assert!(connection.lines.is_empty(), "{:?}", connection.lines);
    let (response, _) = ask(&world, "NOTIFY SET (personal (MailboxName))");
    assert_eq!(response, ["b NO [NOTIFICATIONOVERFLOW] too many mailboxes to watch"]);
}

#[test]
fn subscribing_to_too_many_names_is_refused() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    let name = |number: usize| format!("{number:04}{}", "x".repeat(1_000));
    let mut number = 0;
    while file.folder_subscribe(&name(number)).is_ok() {
        number += 1;
    }
    let (response, _) = ask(&world, &format!("SUBSCRIBE {}", name(9_999)));
    assert_eq!(response, ["b NO [LIMIT] a limit would be exceeded"]);
    let (response, _) = ask(&world, "SUBSCRIBE Trash");
    assert_eq!(response, ["b OK SUBSCRIBE completed"]);
    let (response, _) = ask(&world, &format!("SUBSCRIBE {}", ["a"; 33].join("/")));
    assert_eq!(response, ["b NO [CANNOT] the operation is not possible with this mailbox or name"]);
}
