//! Tests of copies: mail files and their owners, attachments of messages, repetition, refusals and interruptions.

use std::ops::ControlFlow;

use base::Timestamp;
use mail::mailbox::NewMessage;
use notes::Identity;
use sample::Sample;

use super::*;
use crate::request::{DbRequest, Request};
use crate::tests::ExecuteRequest;

const MESSAGE: &str = "From: ann@acme.test\r\nSubject: plan\r\nMIME-Version: 1.0\r\n\
                       Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\n\
                       Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\
                       Content-Disposition: attachment; filename=a.bin\r\n\r\n";

/// Returns a message with an attachment of 90 kB.
fn message() -> Vec<u8> {
    let lines = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAx\r\n".repeat(1_600);
    format!("{MESSAGE}{lines}--b--\r\n").into_bytes()
}

/// Appends messages to a mailbox of a mail file.
fn append(sample: &Sample, path: &str, name: &str, count: usize) {
    let file = sample.instance.mail.open_as_server(path).expect("the mail file exists");
    let found = file.snapshot().expect("a snapshot").folder(name).expect("a lookup");
    let folder = found.map_or_else(|| file.folder_create(name, None).expect("it is new").0, |folder| folder.id);
    for _ in 0..count {
        let flags = ["\\Seen"].into_iter().collect();
        let new = NewMessage { raw: message(), flags, received: Some(Timestamp::from_seconds(9)) };
        file.append(folder, &[new]).expect("within the limit");
    }
}

/// What a mail client sees of a mailbox: UIDVALIDITY, UIDs and messages. Fails if the user may not read it.
fn mailbox(sample: &Sample, path: &str, user: &str, name: &str) -> (u32, Vec<(u32, Vec<u8>)>) {
    let identity = std::sync::Arc::new(person(sample, user));
    let file = sample.instance.mail.open(path, &identity).expect("the user may read it");
    let snapshot = file.snapshot().expect("a snapshot");
    let folder = snapshot.folder(name).expect("a lookup").expect("the mailbox exists").id;
    let status = snapshot.status(folder).expect("a status");
    let mut found = Vec::new();
    for position in 0..status.messages {
        let uid = snapshot.uid_at(folder, position).expect("a lookup").expect("there are so many");
        let entry = snapshot.entry(folder, uid).expect("a lookup").expect("it has an entry");
        let raw = snapshot.message_of(&entry).expect("a lookup").expect("it exists").raw().expect("it can be read");
        found.push((uid.0, raw));
    }
    (status.uid_validity, found)
}

fn person(sample: &Sample, user: &str) -> Identity {
    let person = super::super::people::find(&sample.instance, user).expect("the user exists");
    sample.instance.directory.identity(&person).expect("a sound directory").as_ref().clone()
}

fn request(source: &str, destinations: &[&str]) -> CopyRequest {
    let destinations = destinations.iter().map(|path| (*path).to_owned()).collect();
    CopyRequest { source: source.to_owned(), destinations, ..CopyRequest::default() }
}

fn run(sample: &Sample, request: CopyRequest) -> AdminResult {
    sample.execute(Request::Db(DbRequest::Copy(request)))
}

fn check_refused(sample: &Sample, request: CopyRequest, expected: &str) {
    let before = sample.instance.databases.database_list().expect("a list");
    let refused = run(sample, request).expect_err("it is refused").to_string();
    assert!(refused.contains(expected), "{refused}");
    assert_eq!(sample.instance.databases.database_list().expect("a list"), before, "nothing was copied");
}

fn states(answer: &Answer) -> Vec<&str> {
    let rows = answer.data.as_array().expect("a list");
    rows.iter().map(|row| row["state"].as_str().expect("a text")).collect()
}

#[test]
fn copies_of_a_mail_file_belong_to_their_people() {
    let sample = Sample::new();
    let directory = &sample.instance.directory;
    directory.user_add(&directory::NewUser::new("zoe@acme.test")).expect("it is free");
    append(&sample, "mail/ann.nsf", "INBOX", 3);
    append(&sample, "mail/ann.nsf", "Projects/Alpha", 1);
    let before = mailbox(&sample, "mail/bob.nsf", "bob", "INBOX");
    // The mail file of Bob exists and is empty, and that of Zoe does not exist yet.
    let paths = ["mail/bob.nsf", "mail/zoe.nsf", "archive/ann.nsf"];
    let answer = run(&sample, request("mail/ann.nsf", &paths)).expect("copies");
    assert_eq!(states(&answer), ["copied"; 3]);
    assert_eq!(answer.data[1]["documents"], 4);
    assert!(answer.messages[0].starts_with("3 copies with 12 documents made in "), "{:?}", answer.messages);
    for name in ["INBOX", "Projects/Alpha"] {
        let (validity, messages) = mailbox(&sample, "mail/ann.nsf", "ann", name);
        for (path, user) in [("mail/bob.nsf", "bob"), ("mail/zoe.nsf", "zoe"), ("archive/ann.nsf", "ann")] {
            let (copied_validity, copied) = mailbox(&sample, path, user, name);
            assert_eq!(copied, messages, "{path}");
            assert!(copied_validity > validity, "{path}");
        }
    }
    assert!(mailbox(&sample, "mail/bob.nsf", "bob", "INBOX").0 > before.0);
    let ann = std::sync::Arc::new(person(&sample, "ann"));
    for path in ["mail/bob.nsf", "mail/zoe.nsf"] {
        assert!(sample.instance.mail.open(path, &ann).is_err(), "Ann has no access to {path}");
    }
    let quota = |path: &str| {
        let shown = sample.execute(Request::Db(DbRequest::Show { path: path.to_owned() })).expect("it exists").data;
        (shown["quota_bytes"].clone(), shown["title"].clone())
    };
    assert_eq!(quota("mail/bob.nsf"), (json!(1 << 20), json!("bob")));
    assert_eq!(quota("mail/zoe.nsf"), (json!(null), json!("zoe")));
    for path in paths {
        let database = sample.instance.databases.database_open(path).expect("it exists");
        assert_eq!(notes::fixup::check(&database).expect("a check").findings, [], "{path}");
    }
    // New mail arrives in the copies.
    append(&sample, "mail/zoe.nsf", "INBOX", 1);
    assert_eq!(mailbox(&sample, "mail/zoe.nsf", "zoe", "INBOX").1.len(), 4);
}

#[test]
fn attachments_of_copies_are_stored_once() {
    let sample = Sample::new();
    append(&sample, "mail/ann.nsf", "INBOX", 3);
    let store = &sample.instance.store;
    let report = || store.blobs().report(store.as_ref()).expect("a report");
    let before = report();
    assert!(before.count > 0 && before.references >= 3, "{before:?}");
    let answer = run(&sample, request("mail/ann.nsf", &["mail/bob.nsf"])).expect("a copy");
    assert_eq!(answer.data[0]["attachments"], json!(before.references));
    assert_eq!((report().stored_bytes, report().references), (before.stored_bytes, 2 * before.references));
    let delete = DbRequest::Delete { path: "mail/ann.nsf".to_owned(), force: true };
    sample.execute(Request::Db(delete)).expect("--force is given");
    let later = Timestamp(sample.instance.clock.now().0 + 400 * 86_400 * 1_000_000);
    store.blobs().collect(store, later, 1_000).expect("a collection");
    assert_eq!((report().count, report().references), (before.count, before.references));
    assert_eq!(mailbox(&sample, "mail/bob.nsf", "bob", "INBOX").1[2].1, message());
}

#[test]
fn a_repeated_command_skips_copies_and_refuses_other_databases() {
    let sample = Sample::new();
    append(&sample, "mail/ann.nsf", "INBOX", 1);
    run(&sample, request("mail/ann.nsf", &["mail/bob.nsf"])).expect("a copy");
    let both = request("mail/ann.nsf", &["mail/bob.nsf", "mail/eve.nsf"]);
    check_refused(&sample, both.clone(), "--resume skips the copies");
    let answer = run(&sample, CopyRequest { resume: true, ..both.clone() }).expect("a copy");
    assert_eq!(states(&answer), ["skipped", "copied"]);
    let answer = run(&sample, CopyRequest { resume: true, ..both }).expect("nothing is left to do");
    assert_eq!(states(&answer), ["skipped", "skipped"]);
    append(&sample, "mail/bob.nsf", "INBOX", 1);
    let other = CopyRequest { resume: true, ..request("mail/bob.nsf", &["mail/eve.nsf"]) };
    check_refused(&sample, other, "it is no copy of the source");
    assert_eq!(mailbox(&sample, "mail/bob.nsf", "bob", "INBOX").1.len(), 2, "nothing was replaced");
}

#[test]
fn invalid_requests_change_nothing() {
    let sample = Sample::new();
    append(&sample, "mail/ann.nsf", "INBOX", 1);
    let create = DbRequest::Create { path: "x.nsf".to_owned(), title: None, template: None };
    sample.execute(Request::Db(create)).expect("it is free");
    let check = |source: &str, destinations: &[&str], expected: &str| {
        check_refused(&sample, request(source, destinations), expected);
    };
    check("none.nsf", &["a.nsf"], "there is no db none.nsf");
    check("names.nsf", &["a.nsf"], "cannot be copied");
    check("mail.box", &["a.nsf"], "cannot be copied");
    check("x.nsf", &["names.nsf"], "reserved");
    check("x.nsf", &["x.nsf"], "exists already");
    check("x.nsf", &["a.nsf", "A.nsf"], "named twice");
    check("x.nsf", &["mail/bob.nsf"], "only a copy of a mail file");
    check("mail/ann.nsf", &["y.nsf", "x.nsf"], "exists already");
    check("x.nsf", &["../a.nsf"], "must be relative");
    let replica = |path: &str| CopyRequest { replica: true, ..request("mail/ann.nsf", &[path]) };
    check_refused(&sample, replica("mail/bob.nsf"), "a replica cannot change its owner");
    check_refused(&sample, CopyRequest { title: Some("a\nb".to_owned()), ..request("x.nsf", &["y.nsf"]) }, "a title");
    run(&sample, replica("second/ann.nsf")).expect("a replica");
    check_refused(&sample, replica("second/ann.nsf"), "exists already");
    let titled = CopyRequest { title: Some("T".to_owned()), ..request("x.nsf", &["y.nsf"]) };
    run(&sample, titled).expect("a copy");
    let record = |path: &str| sample.instance.databases.database_open(path).expect("it exists").record();
    assert_eq!((record("y.nsf").title.as_str(), record("x.nsf").title.as_str()), ("T", "x.nsf"));
    assert_eq!(record("second/ann.nsf").replica_id, record("mail/ann.nsf").replica_id);
}

#[test]
fn a_copy_that_is_interrupted_leaves_the_complete_ones() {
    let sample = Sample::new();
    append(&sample, "mail/ann.nsf", "INBOX", 1);
    let paths = ["mail/bob.nsf", "mail/eve.nsf"];
    let both = || DbRequest::Copy(request("mail/ann.nsf", &paths));
    let references =
        || sample.instance.store.blobs().report(sample.instance.store.as_ref()).expect("a report").references;
    let before = references();
    let interrupted = crate::execute(&sample.instance, Request::Db(both()), &mut |progress| {
        if progress.step.contains("eve") { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let text = interrupted.expect_err("it was interrupted").to_string();
    assert!(text.contains("1 copy is complete; the same command with --resume skips them"), "{text}");
    assert_eq!(references(), 2 * before);
    assert_eq!(mailbox(&sample, "mail/eve.nsf", "eve", "INBOX").1, []);
    let rest = CopyRequest { resume: true, ..request("mail/ann.nsf", &paths) };
    assert_eq!(states(&run(&sample, rest).expect("the rest")), ["skipped", "copied"]);
}

/// The path of a later copy becomes the mail file of a person while an earlier copy is made.
#[test]
fn a_destination_that_is_given_away_meanwhile_is_not_replaced() {
    let sample = Sample::new();
    append(&sample, "mail/ann.nsf", "INBOX", 1);
    let both = DbRequest::Copy(request("mail/ann.nsf", &["mail/bob.nsf", "mail/zoe.nsf"]));
    let refused = crate::execute(&sample.instance, Request::Db(both), &mut |progress| {
        if progress.step.contains("bob")
            && sample.instance.directory.mail_file_holder("mail/zoe.nsf").is_ok_and(|holder| holder.is_none())
        {
            let zoe = directory::NewUser::new("zoe@acme.test");
            sample.instance.directory.user_add(&zoe).expect("it is free");
        }
        ControlFlow::Continue(())
    });
    let text = refused.expect_err("it belongs to another person now").to_string();
    assert!(text.contains("mail/zoe.nsf was given to another person meanwhile"), "{text}");
    assert!(!sample.instance.databases.database_exists("mail/zoe.nsf").expect("a lookup"));
}

#[test]
fn the_owner_is_replaced_in_the_access_control_list() {
    let acl = |names: &[(&str, AclLevel)]| Acl {
        entries: names.iter().map(|(name, level)| AclEntry::new(*name, *level)).collect(),
        ..Acl::default()
    };
    let check = |before: &[(&str, AclLevel)], expected: &[(&str, AclLevel)]| {
        let mut changed = acl(before);
        replace_owner(&mut changed, &Name::new("Ann/Acme"), &Name::new("Bob/Acme"));
        let found: Vec<_> = changed.entries.iter().map(|entry| (entry.name.abbreviated(), entry.level)).collect();
        let expected: Vec<_> = expected.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect();
        assert_eq!(found, expected);
    };
    let manager = AclLevel::Manager;
    let reader = AclLevel::Reader;
    check(&[("Ann/Acme", manager), ("Cid/Acme", reader)], &[("Bob/Acme", manager), ("Cid/Acme", reader)]);
    check(&[("Bob/Acme", reader), ("Ann/Acme", manager)], &[("Bob/Acme", manager)]);
    check(&[("-Default-", reader)], &[("-Default-", reader), ("Bob/Acme", manager)]);
}
