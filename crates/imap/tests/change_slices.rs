//! Slices of commands that read or report the changes of other sessions, and that their responses do not depend on
//! them.

use base::{Modseq, Uid, UidSet, ViewId};
use imap::cmd::change_scan::MissingScan;
use imap::limits;
use mail::mailbox::{FlagChange, Flags, MailFile, NewMessage};
use notes::Marks;
use wire::Peer;

use crate::connection::Connection;
use crate::world::TestServer;

/// A mail file with many messages in INBOX.
struct Mailbox {
    world: TestServer,
    file: MailFile,
    inbox: ViewId,
}

impl Mailbox {
    fn with_messages(count: usize) -> Self {
        let world = TestServer::new();
        let file = world.open_as_server("alice");
        let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the store works");
        let inbox = inbox.expect("there is an inbox").id;
        let message = NewMessage { raw: b"Subject: a\r\n\r\n".to_vec(), flags: Flags::none(), received: None };
        file.append(inbox, &vec![message; count]).expect("the messages are stored");
        Self { world, file, inbox }
    }

    /// Selects INBOX in a new session.
    fn connect(&self, commands: &str) -> Connection {
        let mut connection = Connection::new(&self.world, Peer::local());
        connection.receive(format!("a LOGIN alice secret\r\n{commands}").as_bytes());
        connection.lines.clear();
        connection
    }

    fn flag(&self, uids: UidSet) {
        let change = FlagChange::Add(Flags::from_system_flags(Marks::FLAGGED));
        self.file.store(self.inbox, &uids, &change, None).expect("the flags are stored");
    }

    fn delete(&self, uids: std::ops::RangeInclusive<u32>) {
        self.file.delete(self.inbox, &UidSet::from(uids)).expect("the messages are removed");
    }
}

/// Sends a command and returns its response, and the number of slices after the first one.
fn ask(connection: &mut Connection, command: &str) -> (Vec<String>, usize) {
    let before = connection.resumed;
    connection.receive(format!("c {command}\r\n").as_bytes());
    (connection.lines.drain(..).collect(), connection.resumed - before)
}

/// Number of messages whose changes take three slices.
const COUNT: usize = 2 * limits::SLICE_CHANGES + 100;

#[test]
fn changes_since_a_modseq_are_read_in_slices() {
    let mailbox = Mailbox::with_messages(COUNT);
    let mut connection = mailbox.connect("b SELECT INBOX\r\n");
    let (plain, slices_without) = ask(&mut connection, "UID FETCH 1:* (MODSEQ)");
    let (response, slices) = ask(&mut connection, "UID FETCH 1:* (MODSEQ) (CHANGEDSINCE 1)");
    let is_fetch = |line: &&String| line.starts_with("* ") && line.contains(" FETCH ");
    assert_eq!(response.iter().filter(is_fetch).count(), COUNT);
    assert!(response.iter().filter(is_fetch).eq(plain.iter().filter(is_fetch)));
    assert_eq!(slices, slices_without + 2);
    mailbox.flag(UidSet::from(7..=7));
    let database = mailbox.file.database();
    let before = database.modseq_to_client(Modseq(database.modseq().0 - 1));
    let (response, slices) = ask(&mut connection, &format!("FETCH 1:* (UID) (CHANGEDSINCE {before})"));
    assert_eq!(response.iter().filter(|line| line.starts_with("* 7 FETCH (UID 7 MODSEQ (")).count(), 1, "{response:?}");
    assert_eq!(slices, 0);
}

#[test]
fn resynchronization_reads_changes_in_slices() {
    let mailbox = Mailbox::with_messages(COUNT);
    mailbox.delete(5..=5_000);
    let mut connection = mailbox.connect("b ENABLE QRESYNC\r\n");
    let status = mailbox.file.snapshot().and_then(|snapshot| snapshot.status(mailbox.inbox)).expect("the store works");
    let (response, slices) =
        ask(&mut connection, &format!("SELECT INBOX (QRESYNC ({} 1 1:6000))", status.uid_validity));
    assert_eq!(response.iter().filter(|line| *line == "* VANISHED (EARLIER) 5:5000").count(), 1);
    let flags = response.iter().filter(|line| line.contains(" FETCH (")).count();
    assert_eq!(flags, 4 + 1_000, "the other messages up to 6000 are new since then");
    assert_eq!(response.last().map(String::as_str), Some("c OK [READ-WRITE] SELECT completed"));
    assert!(slices >= 2, "{slices}");
    let (response, _) = ask(&mut connection, "UID FETCH 6:9,5001 (UID) (CHANGEDSINCE 1 VANISHED)");
    assert_eq!(response[0], "* VANISHED (EARLIER) 6:9");
    assert!(response[1].starts_with("* 5 FETCH (UID 5001 MODSEQ ("), "{response:?}");
}

#[test]
fn missing_messages_are_found_in_slices() {
    let mailbox = Mailbox::with_messages(COUNT);
    let count = u32::try_from(COUNT).expect("some thousand");
    for uids in [1..=2, 10..=10, 4_000..=5_000, count - 1..=count] {
        mailbox.delete(uids);
    }
    let snapshot = mailbox.file.snapshot().expect("the store works");
    let even: UidSet = (1..=count).filter(|uid| uid % 2 == 0).collect();
    for uids in [UidSet::from(1..=count), UidSet::from(1..=count + 3), even, UidSet::new()] {
        let mut scan = MissingScan::new(uids.clone());
        let mut slices = 0;
        while !scan.read(&snapshot, mailbox.inbox).expect("the store works") {
            slices += 1;
        }
        let exists = |uid: &u32| snapshot.entry(mailbox.inbox, Uid(*uid)).expect("the store works").is_some();
        let missing: UidSet = uids.ranges().flatten().filter(|uid| !exists(uid)).collect();
        assert_eq!(scan.missing, missing);
        assert_eq!(slices > 0, !uids.is_empty());
    }
}

#[test]
fn session_catches_up_in_slices() {
    let mailbox = Mailbox::with_messages(COUNT);
    let mut connection = mailbox.connect("b SELECT INBOX\r\n");
    let count = u32::try_from(COUNT).expect("some thousand");
    for first in (1..=count).step_by(400) {
        mailbox.flag(UidSet::from(first..=count.min(first + 399)));
    }
    let (response, slices) = ask(&mut connection, "UID FETCH 1 (UID)");
    let flags = response.iter().filter(|line| line.contains("FLAGS (\\Flagged")).count();
    assert_eq!(flags, COUNT);
    let own = response.iter().filter(|line| line.starts_with("* 1 FETCH (UID 1)")).count();
    assert_eq!(own, 1);
    assert_eq!(response.last().map(String::as_str), Some("c OK FETCH completed"));
    assert!(slices >= 2, "{slices}");

    // The session's own changes and new messages are no exception.
    let message = NewMessage { raw: b"Subject: b\r\n\r\n".to_vec(), flags: Flags::none(), received: None };
    for _ in 0..=limits::TRANSACTIONS_RECORDED_AT_ONCE {
        mailbox.file.append(mailbox.inbox, std::slice::from_ref(&message)).expect("the message is stored");
    }
    let (response, _) = ask(&mut connection, "STORE 2 -FLAGS (\\Flagged)");
    let new = usize::try_from(limits::TRANSACTIONS_RECORDED_AT_ONCE).expect("a small number") + 1;
    assert_eq!(response[0], "* 2 FETCH (FLAGS (\\Recent))");
    assert!(response.contains(&format!("* {} EXISTS", COUNT + new)), "{response:?}");
    assert_eq!(response.iter().filter(|line| line.contains(" FETCH ")).count(), 1);
}

#[test]
fn expunges_are_reported_in_slices() {
    let mailbox = Mailbox::with_messages(COUNT);
    let mut connection = mailbox.connect("b SELECT INBOX\r\n");
    let gone = 2 * u32::try_from(limits::SLICE_EXPUNGES).expect("some thousand") + 10;
    mailbox.delete(3..=gone + 2);
    mailbox.flag(UidSet::from(1..=1));
    let (response, slices) = ask(&mut connection, "NOOP");
    let expunges = response.iter().filter(|line| *line == "* 3 EXPUNGE").count();
    assert_eq!(expunges, gone as usize);
    assert_eq!(response.iter().filter(|line| line.starts_with("* 1 FETCH (FLAGS (\\Flagged")).count(), 1);
    assert_eq!(response.len(), gone as usize + 2);
    assert!(slices >= 2, "{slices}");
    let (response, _) = ask(&mut connection, "FETCH 3 (UID)");
    assert_eq!(response[0], format!("* 3 FETCH (UID {})", gone + 3));
}

#[test]
fn modified_messages_are_numbered_in_slices() {
    let count = 3 * limits::STORE_MESSAGES_PER_TRANSACTION;
    let mailbox = Mailbox::with_messages(count);
    let mut connection = mailbox.connect("b SELECT INBOX\r\n");
    let (response, slices) = ask(&mut connection, "STORE 1:* (UNCHANGEDSINCE 1) FLAGS.SILENT (\\Seen)");
    assert_eq!(response.last(), Some(&format!("c OK [MODIFIED 1:{count}] STORE completed")));
    assert!(slices >= 3, "{slices}");
}
