//! The access matrix of IMAP: every command that requires access to a mail file, at every ACL level that a user may
//! have in it.
//!
//! Logins prove their names with passwords, which limits access to Editor. Commands that mailbox owners need work
//! nevertheless. A command of the dispatcher fails the test if it has neither a row nor an entry in the list of
//! commands that require no access.

use std::collections::BTreeSet;

use mail::mailbox::{Flags, NewMessage};
use notes::{Access, AclEntry, AclLevel, level};
use wire::Peer;

use crate::connection::Connection;
use crate::world::TestServer;

/// A command as the dispatcher names it, the lowest level at which it works, and the lines to send. The result of the
/// last line counts.
type Row = (&'static str, AclLevel, &'static [&'static str]);

use AclLevel::{Author, Designer, Editor, Reader};

const ROWS: &[Row] = &[
    ("Select", Reader, &["SELECT INBOX"]),
    ("Select", Reader, &["EXAMINE INBOX"]),
    ("List", Reader, &["LIST \"\" INBOX"]),
    ("Lsub", Reader, &["LSUB \"\" *"]),
    ("Status", Reader, &["STATUS INBOX (MESSAGES)"]),
    ("GetQuota", Reader, &["GETQUOTA \"\""]),
    ("GetQuotaRoot", Reader, &["GETQUOTAROOT INBOX"]),
    ("Fetch", Reader, &["SELECT INBOX", "FETCH 1 BODY.PEEK[]"]),
    // The mailbox is read-only, so the message is not marked as read.
    ("Fetch", Reader, &["SELECT INBOX", "FETCH 1 BODY[]"]),
    ("Search", Reader, &["SELECT INBOX", "SEARCH ALL"]),
    ("Sort", Reader, &["SELECT INBOX", "SORT (SUBJECT) UTF-8 ALL"]),
    ("Thread", Reader, &["SELECT INBOX", "THREAD REFERENCES UTF-8 ALL"]),
    ("Notify", Reader, &["NOTIFY SET (PERSONAL (MessageNew MessageExpunge))"]),
    ("Check", Reader, &["SELECT INBOX", "CHECK"]),
    ("Unselect", Reader, &["SELECT INBOX", "UNSELECT"]),
    // Without the right to remove messages, it removes none.
    ("Close", Reader, &["SELECT INBOX", "CLOSE"]),
    ("Store", Author, &["SELECT INBOX", "STORE 1 +FLAGS (\\Flagged)"]),
    ("Copy", Author, &["SELECT INBOX", "COPY 1 Archive"]),
    ("Move", Author, &["SELECT INBOX", "MOVE 1 Archive"]),
    ("Append", Author, &["APPEND INBOX {12+}\r\nSubject: x\r\n"]),
    ("Expunge", Editor, &["SELECT INBOX", "EXPUNGE"]),
    ("Expunge", Editor, &["SELECT INBOX", "UID EXPUNGE 1"]),
    ("Replace", Editor, &["SELECT INBOX", "REPLACE 1 INBOX {12+}\r\nSubject: x\r\n"]),
    ("Subscribe", Editor, &["SUBSCRIBE Archive"]),
    ("Unsubscribe", Editor, &["UNSUBSCRIBE Archive"]),
    ("Create", Designer, &["CREATE New"]),
    ("Rename", Designer, &["RENAME Archive New"]),
    ("Delete", Designer, &["DELETE Archive"]),
];

/// Commands that require no access to a mail file: they concern the connection, or are refused for all users.
const COMMANDS_WITHOUT_ACCESS: &str =
    "Authenticate Capability Compress Enable GetJmapAccess Id Idle Login Logout Namespace Noop SetQuota StartTls";

/// Plays a row as Alice with this level in her mail file. Returns `true` if the last line ended with OK.
fn outcome(level: AclLevel, lines: &[&str]) -> bool {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    let inbox = file
        .snapshot()
        .and_then(|snapshot| snapshot.folder("INBOX"))
        .expect("the store works")
        .expect("there is an inbox");
    let flags: Flags = ["\\Deleted"].into_iter().collect();
    let message = NewMessage { raw: b"Subject: a\r\n\r\nb\r\n".to_vec(), flags, received: None };
    file.append(inbox.id, &[message]).expect("the message is stored");
    let database = file.database();
    let itself = std::sync::Arc::new(notes::Identity::local_server(""));
    let access: Access<level::Depositor> = database.authorize(&itself).expect("the server may change the ACL");
    let reader: Access<level::Reader> = database.authorize(&itself).expect("the server may change the ACL");
    let mut acl = reader.read().expect("the store works").acl().as_ref().clone();
    acl.entries.retain(|entry| entry.name != base::Name::new("alice@demo.test"));
    acl.entries.push(AclEntry::new("alice@demo.test", level));
    let manager: Access<level::Manager> = database.authorize(&itself).expect("the server may change the ACL");
    let options = notes::DatabaseOptions { quota_bytes: Some(1 << 20), ..notes::DatabaseOptions::default() };
    file.mail().databases().database_options_set(&manager, "alice", options).expect("the store works");
    let accesses = [&access];
    let mut transaction = file.mail().databases().transaction(&accesses).expect("the store works");
    transaction.writer(0).acl_set(acl).expect("the server may change the ACL");
    transaction.commit().expect("the store works");
    let mut connection = Connection::new(&world, Peer::local());
    connection.receive(b"a0 LOGIN alice secret\r\n");
    for (number, line) in (1..).zip(lines) {
        connection.receive(format!("a{number} {line}\r\n").as_bytes());
    }
    let last = format!("a{} ", lines.len());
    let answer = connection.lines.iter().find_map(|line| line.strip_prefix(&last));
    let answer = answer.unwrap_or_else(|| panic!("{lines:?} has no tagged response: {:?}", connection.lines));
    answer.starts_with("OK")
}

#[test]
fn every_command_requires_its_access_level() {
    let mut wrong = Vec::new();
    for (verb, least, lines) in ROWS {
        for level in AclLevel::ALL {
            let works = outcome(level, lines);
            if works != (level >= *least) {
                wrong.push(format!("{verb}: {lines:?}, {level}: {works}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_command_of_the_dispatcher_has_a_row() {
    let source = include_str!("../src/cmd.rs");
    let name = |rest: &str| rest.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    let commands: BTreeSet<String> = source.split("CommandBody::").skip(1).map(name).collect();
    let rows = ROWS.iter().map(|(verb, ..)| *verb).chain(COMMANDS_WITHOUT_ACCESS.split(' ')).map(str::to_owned);
    assert_eq!(commands, rows.collect::<BTreeSet<String>>());
}
