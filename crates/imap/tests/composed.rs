//! Documents without a MIME message: every command shows the message that is composed from their items. Damaged ones.

use std::sync::Arc;

use base::Unid;
use imap::session::ConnectionAction;
use mail::mailbox::MailFile;
use notes::{Access, Identity, Item, ItemValue, NewNote, level};
use wire::Peer;

use crate::connection::{Connection, SteppedSession};
use crate::world::{TestServer, deliver};

/// Creates a document in INBOX.
fn create(file: &MailFile, items: Vec<Item>) {
    let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the store works");
    let folders = vec![inbox.expect("there is an inbox").id];
    let access: Access<level::Depositor> =
        file.database().authorize(&Arc::new(Identity::local_server(""))).expect("the server may write");
    let accesses = [&access];
    let mut transaction = file.mail().databases().transaction(&accesses).expect("the store works");
    let new = NewNote { unid: Some(Unid([0xab; 16])), folders, ..NewNote::document(items) };
    transaction.writer(0).note_create(new).expect("the document is valid");
    transaction.commit().expect("the store works");
}

/// Sends commands in INBOX and returns the responses.
fn ask(world: &TestServer, commands: &[&str]) -> Vec<String> {
    let mut connection = Connection::new(world, Peer::local());
    connection.receive(b"a LOGIN alice secret\r\nb SELECT INBOX\r\n");
    connection.lines.clear();
    for command in commands {
        connection.receive(format!("c {command}\r\n").as_bytes());
    }
    connection.lines.drain(..).collect()
}

#[test]
fn every_command_shows_the_composed_message() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    deliver(&file, b"From: zed@acme.test\r\nSubject: zebra\r\nMessage-ID: <1@acme.test>\r\n\r\nbody\r\n");
    let text = |name: &str, text: &str| Item::text(name, text);
    create(&file, vec![text("From", "bob@acme.test"), text("Subject", "apple"), text("Body", "An apple a day\n")]);
    let expected = [
        "* 2 FETCH (RFC822.SIZE 215)",
        "c OK FETCH completed",
        "* 2 FETCH (BODY[] {215}",
        "From: bob@acme.test",
        "Subject: apple",
        "Date: Thu, 01 Jan 2026 00:00:00 +0000",
        "Message-ID: <ABABABABABABABABABABABABABABABAB@note.invalid>",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=utf-8",
        "",
        "An apple a day",
        ")",
        "c OK FETCH completed",
        "* 2 FETCH (BODY[1] {16}",
        "An apple a day",
        " BODYSTRUCTURE (\"TEXT\" \"PLAIN\" (\"charset\" \"utf-8\") NIL NIL \"7BIT\" 16 1 NIL NIL NIL NIL))",
        "c OK FETCH completed",
        "* SEARCH 2",
        "c OK SEARCH completed",
        "* SEARCH 2",
        "c OK SEARCH completed",
        "* SORT 2 1",
        "c OK SORT completed",
        "* SORT 1 2",
        "c OK SORT completed",
        "* THREAD (1)(2)",
        "c OK THREAD completed",
    ];
    let commands = [
        "FETCH 2 (RFC822.SIZE)",
        "FETCH 2 (BODY.PEEK[])",
        "FETCH 2 (BODY.PEEK[1] BODYSTRUCTURE)",
        "SEARCH BODY day FROM bob",
        "SEARCH LARGER 214 SMALLER 216",
        "SORT (SUBJECT) UTF-8 ALL",
        "SORT (SIZE) UTF-8 ALL",
        "THREAD REFERENCES UTF-8 ALL",
    ];
    assert_eq!(ask(&world, &commands), expected);
    let envelope = &ask(&world, &["FETCH 2 ENVELOPE"])[0];
    assert!(envelope.contains("\"apple\" ((NIL NIL \"bob\" \"acme.test\"))"), "{envelope}");
}

#[test]
fn damaged_message_fails_for_itself_alone() {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    deliver(&file, b"Subject: first\r\n\r\n");
    create(&file, vec![Item::body("$Head", ItemValue::MimePart(b"damaged".to_vec()))]);
    deliver(&file, b"Subject: last\r\n\r\n");
    let mut session = SteppedSession::in_inbox(&world);
    let mut check = |command: &str, expected: &str| {
        let action = session.begin(command);
        assert_eq!(session.complete(action), ConnectionAction::Ready, "{command}");
        assert_eq!(session.output(), expected, "{command}");
        session.fault()
    };
    let header = |number: u32, subject: &str| {
        let length = subject.len() + 13;
        format!("* {number} FETCH (BODY[HEADER] {{{length}}}\r\nSubject: {subject}\r\n\r\n)\r\n")
    };
    let failed = "c NO [SERVERBUG] a stored record is damaged; the administrator has been informed\r\n";
    let responses = format!("{}{}{failed}", header(1, "first"), header(3, "last"));
    let fault = check("FETCH 1:* BODY.PEEK[HEADER]", &responses);
    assert_eq!(fault.as_deref(), Some("damaged $Head item of a message"));
    check("SEARCH SUBJECT s", "* SEARCH 1 3\r\nc OK SEARCH completed\r\n");
    check("SORT (SUBJECT) UTF-8 NOT TEXT none", "* SORT 1 3\r\nc OK SORT completed\r\n");
}
