//! Tests of thread ids: orders of arrival, restarts, copies, deletions, other subjects, hostile headers, replicas.
//!
//! Messages are described by one letter each: its message id is that letter, and its references are the letters after
//! `<`. A message `b<a` refers to `a`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Name, NoteId, Uid, UidSet, ViewId};
use mail::mailbox::{Flags, MailFile, MailOptions, MailStore, NewMessage};
use notes::fixup::FixupFinding;
use notes::thread_index::{THREAD_ID_ITEM, THREAD_KEYS_ITEM};
use notes::{Access, Databases, Identity, Item, ItemValue, NewNote, level};
use proptest::prelude::*;
use store::memory::MemoryEngine;
use store::{Direction, KeyRange, Store, StoreOptions, SyncMode, Table, TableReader};

use crate::mailbox::{ann, mail};

/// A message: its id, the ids in References and In-Reply-To, and its subject.
#[derive(Clone, Debug, PartialEq)]
struct TestMessage {
    id: String,
    references: Vec<String>,
    parent: Option<String>,
    subject: String,
}

impl TestMessage {
    fn new(text: &str, subject: &str) -> Self {
        let (id, references) = text.split_once('<').unwrap_or((text, ""));
        let references: Vec<String> = references.chars().map(String::from).collect();
        Self { id: id.to_owned(), references, parent: None, subject: subject.to_owned() }
    }

    fn raw(&self) -> Vec<u8> {
        let mut raw = format!("Subject: {}\r\nMessage-ID: <{}@x>\r\n", self.subject, self.id);
        if !self.references.is_empty() {
            let ids: Vec<String> = self.references.iter().map(|id| format!("<{id}@x>")).collect();
            raw.push_str(&format!("References: {}\r\n", ids.join("\r\n ")));
        }
        if let Some(parent) = &self.parent {
            raw.push_str(&format!("In-Reply-To: <{parent}@x>\r\n"));
        }
        format!("{raw}\r\ntext\r\n").into_bytes()
    }
}

fn inbox(file: &MailFile) -> ViewId {
    file.snapshot().unwrap().folder("INBOX").unwrap().unwrap().id
}

fn put(file: &MailFile, raw: &[u8]) -> Uid {
    let new = NewMessage { raw: raw.to_vec(), flags: Flags::none(), received: None };
    file.append(inbox(file), &[new]).unwrap().1[0]
}

fn thread_in(file: &MailFile, folder: ViewId, uid: Uid) -> String {
    let snapshot = file.snapshot().unwrap();
    let entry = snapshot.entry(folder, uid).unwrap().expect("the message exists");
    let message = snapshot.message_of(&entry).unwrap().expect("the message exists");
    let thread = message.thread_id().unwrap();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    assert!((1..=255).contains(&thread.len()) && thread.bytes().all(is_allowed), "{thread}");
    let mut listed = Vec::new();
    let mut each = |_: &notes::NoteHeader, thread: &str| {
        listed.push(thread.to_owned());
        ControlFlow::Continue(())
    };
    snapshot.threads([entry.note, NoteId(9_999)], &mut each).unwrap();
    assert_eq!(listed, std::slice::from_ref(&thread), "the list of threads agrees with the message");
    thread
}

fn thread_of(file: &MailFile, raw: &[u8]) -> String {
    let uid = put(file, raw);
    thread_in(file, inbox(file), uid)
}

/// Puts messages into a new mail file, and asserts which of them have one thread: those with the same letter in
/// `expected`.
fn check(messages: &str, expected: &str) {
    let mail = mail();
    let file = ann(&mail);
    let threads: Vec<String> =
        messages.split(' ').map(|text| thread_of(&file, &TestMessage::new(text, "plan").raw())).collect();
    let mut letters: HashMap<&str, char> = HashMap::new();
    let mut found = String::new();
    for thread in &threads {
        let next = char::from(b'1' + letters.len() as u8);
        found.push(*letters.entry(thread).or_insert(next));
    }
    assert_eq!(found, expected, "{messages}: {threads:?}");
    assert_sound(&file);
}

fn assert_sound(file: &MailFile) {
    assert_eq!(notes::fixup::check(file.database()).unwrap().findings, []);
}

fn thread_records(file: &MailFile) -> usize {
    let prefix = [&file.database().number().to_key()[..], b"t"].concat();
    let store = file.mail().databases().store();
    let mut cursor = store.scan(Table::Meta, &KeyRange::prefix(&prefix), Direction::Forward).unwrap();
    let mut count = 0;
    while cursor.next().unwrap().is_some() {
        count += 1;
    }
    count
}

#[test]
fn messages_that_are_connected_have_one_thread_in_any_order() {
    check("a b<a c<ab d<abc", "1111");
    check("d<abc c<ab b<a a", "1111");
    check("c<ab a d<ac b<a", "1111");
    check("a b<a x y<x a", "11221");
    check("b<a c<a", "11");
    check("b<a c<b a", "111");
}

/// The middle message arrives last, and the first does not list all of its ancestors.
#[test]
fn late_message_that_links_two_threads_joins_that_of_its_own_id() {
    check("a c<b b<a d<ab e<a", "12221");
    check("a c<b b<a b<a", "1222");
    check("a b c<ab d<ba", "1221");
}

#[test]
fn another_base_subject_is_another_thread() {
    let mail = mail();
    let file = ann(&mail);
    let thread = |text: &str, subject: &str| thread_of(&file, &TestMessage::new(text, subject).raw());
    let plan = thread("a", "plan");
    assert_eq!(thread("b<a", "Re: [list] PLAN (fwd)"), plan);
    assert_eq!(thread("c<a", "=?utf-8?q?Re:_pl=61n?="), plan);
    let other = thread("d<ab", "other plan");
    assert_ne!(other, plan);
    assert_eq!(thread("e<abd", "Re: other plan"), other);
    let empty = thread("f<a", "");
    assert!(empty != plan && empty != other);
    assert_eq!(thread("g<f", "Re:"), empty);
}

#[test]
fn threads_survive_a_restart_and_the_deletion_of_their_first_messages() {
    let engine = Arc::new(MemoryEngine::new(3));
    let start = || {
        let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let store = Arc::new(Store::with_engine(engine.clone(), &options).unwrap());
        let databases = Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(5)));
        MailStore::new(databases, MailOptions::default())
    };
    let message = |text| TestMessage::new(text, "plan").raw();
    let thread = {
        let mail = start();
        let file = ann(&mail);
        let first = put(&file, &message("a"));
        let thread = thread_in(&file, inbox(&file), first);
        assert_eq!(thread_of(&file, &message("b<a")), thread);
        file.delete(inbox(&file), &UidSet::from(first.0..=first.0)).unwrap();
        thread
    };
    let mail = start();
    let file = ann(&mail);
    assert_eq!(thread_in(&file, inbox(&file), Uid(2)), thread);
    assert_eq!(thread_of(&file, &message("c<a")), thread, "the second message refers to the deleted one, too");
    assert_eq!(thread_of(&file, &message("d<bc")), thread);
    assert_sound(&file);
    file.delete(inbox(&file), &UidSet::from(1..=u32::MAX)).unwrap();
    assert_eq!(thread_records(&file), 0, "the index has no records of deleted messages");
    assert_sound(&file);
}

#[test]
fn copies_and_moves_keep_the_thread_and_replacements_join_it() {
    let mail = mail();
    let file = ann(&mail);
    let message = |text| TestMessage::new(text, "plan").raw();
    let thread = thread_of(&file, &message("a"));
    let archive = file.snapshot().unwrap().folder("Archive").unwrap().unwrap().id;
    let all = UidSet::from(1..=u32::MAX);
    let copy = file.copy(inbox(&file), &all, archive).unwrap().pairs[0].1;
    assert_eq!(thread_in(&file, archive, copy), thread);
    file.delete(inbox(&file), &all).unwrap();
    assert_eq!(thread_of(&file, &message("b<a")), thread, "the copy is in the index");
    let back = file.move_to(archive, &all, inbox(&file)).unwrap().pairs[0].1;
    assert_eq!(thread_in(&file, inbox(&file), back), thread);
    let new = NewMessage { raw: message("a"), flags: Flags::none(), received: None };
    let (_, uid, _) = file.replace(inbox(&file), back, inbox(&file), &new).unwrap();
    assert_eq!(thread_in(&file, inbox(&file), uid), thread);
    assert_sound(&file);
}

#[test]
fn messages_of_one_append_find_each_other() {
    let mail = mail();
    let file = ann(&mail);
    let new = |text| NewMessage { raw: TestMessage::new(text, "plan").raw(), flags: Flags::none(), received: None };
    let (_, uids, _) = file.append(inbox(&file), &["c<b", "b", "x", "d<c"].map(new)).unwrap();
    let threads: Vec<String> = uids.iter().map(|uid| thread_in(&file, inbox(&file), *uid)).collect();
    assert!(threads[0] == threads[1] && threads[0] == threads[3] && threads[0] != threads[2], "{threads:?}");
    assert_sound(&file);
}

#[test]
fn hostile_headers_are_bounded() {
    let mail = mail();
    let file = ann(&mail);
    let references: String = (0..10_000).map(|number| format!(" <{number}@x>\r\n")).collect();
    let many = thread_of(&file, format!("Message-ID: <m@x>\r\nReferences:{references}\r\n").as_bytes());
    let records = thread_records(&file);
    assert!(records <= 10, "{records}");
    let reply =
        |id: &str| thread_of(&file, format!("Message-ID: <r{id}@x>\r\nReferences: <{id}@x>\r\n\r\n").as_bytes());
    assert_eq!([reply("0"), reply("9999"), reply("m")], [&many, &many, &many].map(Clone::clone));
    assert_ne!(reply("5000"), many, "references between the first and the nearest do not count");
    let own = thread_of(&file, b"Message-ID: <s@x>\r\nIn-Reply-To: <s@x>\r\nReferences: <s@x> <s@x>\r\n\r\n");
    assert_eq!(reply("s"), own, "a message that refers to itself");
    let without = [
        &b"Message-ID: <>\r\nIn-Reply-To: <>\r\nReferences: <> < > <\r\n\r\n"[..],
        b"Message-ID: <>\r\nIn-Reply-To: <>\r\nReferences: <> < > <\r\n\r\n",
        b"\r\nonly text\r\n",
        b"\r\nonly text\r\n",
        b"",
    ];
    let threads: BTreeSet<String> = without.iter().map(|raw| thread_of(&file, raw)).collect();
    assert_eq!(threads.len(), without.len(), "messages without ids are not connected");
    let (_, uids, _) = {
        let new = NewMessage { raw: Vec::new(), flags: Flags::none(), received: None };
        file.append(inbox(&file), &[new.clone(), new]).unwrap()
    };
    assert_ne!(thread_in(&file, inbox(&file), uids[0]), thread_in(&file, inbox(&file), uids[1]));
    assert_sound(&file);
}

fn access(file: &MailFile) -> Access<level::Depositor> {
    file.database().authorize(&Arc::new(Identity::local_server(""))).unwrap()
}

/// Changes the mail file as the server, outside the functions for messages.
fn write<T>(file: &MailFile, change: impl FnOnce(&mut notes::Writer<'_, '_>) -> notes::Result<T>) -> T {
    let access = access(file);
    let accesses = [&access];
    let mut transaction = file.mail().databases().transaction(&accesses).unwrap();
    let outcome = change(&mut transaction.writer(0)).unwrap();
    let _ = transaction.commit().unwrap();
    outcome
}

#[test]
fn documents_without_a_valid_thread_id_are_threads_of_their_own() {
    let mail = mail();
    let file = ann(&mail);
    let folder = inbox(&file);
    let create = |id: Option<&str>| {
        let items = id.map(|id| Item::text(THREAD_ID_ITEM, id)).into_iter().collect();
        write(&file, |writer| writer.note_create(NewNote { folders: vec![folder], ..NewNote::document(items) }))
    };
    create(None);
    create(Some("no id, but a text"));
    create(Some("3f00aa5577889911"));
    let threads = [1, 2, 3].map(|uid| thread_in(&file, folder, Uid(uid)));
    assert!(threads[0].starts_with('D') && threads[1].starts_with('D') && threads[0] != threads[1]);
    assert_eq!(threads[2], "3f00aa5577889911", "an id of an earlier version stays");
}

#[test]
fn index_follows_the_items_of_a_note() {
    let mail = mail();
    let file = ann(&mail);
    put(&file, &TestMessage::new("a", "plan").raw());
    let note = file.snapshot().unwrap().entry(inbox(&file), Uid(1)).unwrap().unwrap().note;
    let indexed = |keys: &[&str]| {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        vec![Item::text(THREAD_ID_ITEM, "T1"), Item::summary(THREAD_KEYS_ITEM, ItemValue::TextList(keys))]
    };
    let [one, two] = ["00000000000000aa", "00000000000000bb"];
    let update = |items: Vec<Item>| {
        write(&file, |writer| {
            let revision = writer.header(note)?.expect("it exists").revision();
            writer.note_update(note, revision, &items, &[])
        });
        assert_sound(&file);
        thread_records(&file)
    };
    assert_eq!(update(indexed(&[one, two])), 2);
    assert_eq!(update(indexed(&[two])), 1);
    assert_eq!(update(Vec::new()), 0);
    write(&file, |writer| {
        let made = writer.note_create(NewNote::document(indexed(&[one, two])))?;
        let revision = writer.header(made)?.expect("it exists").revision();
        writer.note_update(made, revision, &indexed(&[one]), &[])
    });
    assert_eq!(thread_records(&file), 1, "a note that one transaction writes twice");
    assert_sound(&file);
}

#[test]
fn soft_deletion_keeps_the_records_until_the_contents_are_removed() {
    let mail = mail();
    let file = ann(&mail);
    let options = |hours| {
        let mut options = file.database().record().options;
        options.keep_deleted_hours = hours;
        let manager: Access<level::Manager> = file.database().authorize(&Arc::new(Identity::local_server(""))).unwrap();
        mail.databases().database_options_set(&manager, "Ann", options).unwrap();
    };
    options(Some(1));
    let thread = thread_of(&file, &TestMessage::new("a", "plan").raw());
    let note = file.snapshot().unwrap().entry(inbox(&file), Uid(1)).unwrap().unwrap().note;
    write(&file, |writer| writer.note_delete(note));
    assert_sound(&file);
    assert_eq!(thread_of(&file, &TestMessage::new("b<a", "plan").raw()), thread);
    write(&file, |writer| writer.note_restore(note));
    assert_sound(&file);
    write(&file, |writer| writer.note_delete(note));
    options(None);
    let before = thread_records(&file);
    assert_eq!(notes::soft_deletion::purge_deleted(file.database()).unwrap(), 1);
    assert_eq!(thread_records(&file), before - 1);
    assert_sound(&file);
}

#[test]
fn fixup_repairs_the_index() {
    let mail = mail();
    let file = ann(&mail);
    let thread = thread_of(&file, &TestMessage::new("b<a", "plan").raw());
    let prefix = [&file.database().number().to_key()[..], b"t"].concat();
    let store = mail.databases().store();
    let mut keys = Vec::new();
    let mut cursor = store.scan(Table::Meta, &KeyRange::prefix(&prefix), Direction::Forward).unwrap();
    while let Some((key, _)) = cursor.next().unwrap() {
        keys.push(key.to_vec());
    }
    drop(cursor);
    let surplus = [&prefix[..], &[7; 8], &NoteId(77).to_key()].concat();
    let mut batch = store::Batch::new();
    batch.delete(Table::Meta, &keys[0]);
    batch.put(Table::Meta, &keys[1], b"other");
    batch.put(Table::Meta, &surplus, b"T1");
    let _ = store.commit(&batch).unwrap();
    let found = notes::fixup::repair(file.database()).unwrap().findings;
    assert!(found.contains(&FixupFinding::ThreadIndex { note: NoteId(77) }) && found.len() == 2, "{found:?}");
    assert!(found.iter().all(FixupFinding::is_repairable));
    assert_sound(&file);
    assert_eq!(thread_of(&file, &TestMessage::new("c<a", "plan").raw()), thread);
}

#[test]
fn hidden_messages_connect_nothing() {
    let mail = mail();
    let file = ann(&mail);
    let folder = inbox(&file);
    put(&file, &TestMessage::new("a", "plan").raw());
    let entry = file.snapshot().unwrap().entry(folder, Uid(1)).unwrap().unwrap();
    write(&file, |writer| {
        let note = writer.note(entry.note)?.expect("it exists");
        let mut items = note.items;
        items.retain(|item| !item.is_named(THREAD_ID_ITEM));
        items.push(Item::text(THREAD_ID_ITEM, "Tsecret"));
        items.push(Item::readers("Readers", vec!["Bob/Acme".to_owned()]));
        writer.note_update(entry.note, note.header.revision(), &items, &note.blobs)
    });
    let by_user = thread_of(&file, &TestMessage::new("b<a", "plan").raw());
    assert_ne!(by_user, "Tsecret");
    let itself = mail.open_as_server("mail/ann.nsf").unwrap();
    assert_eq!(thread_of(&itself, &TestMessage::new("c<a", "plan").raw()), "Tsecret");
}

/// Messages that refer to earlier ones, in an order of arrival.
fn arrivals(with_all_ancestors: bool) -> impl Strategy<Value = Vec<TestMessage>> {
    let message = (any::<prop::sample::Index>(), any::<u8>(), 0..2_usize);
    prop::collection::vec(message, 2..8).prop_perturb(move |choices, mut random| {
        let mut messages: Vec<TestMessage> = Vec::new();
        for (number, (parent, bits, subject)) in choices.into_iter().enumerate() {
            let subject = if with_all_ancestors { "plan" } else { ["plan", "Re: other"][subject] };
            let mut message = TestMessage::new(&number.to_string(), subject);
            if number > 0 {
                let above = &messages[parent.index(number)];
                let mut line = above.references.clone();
                line.push(above.id.clone());
                line.retain(|id| with_all_ancestors || bits & (1 << ((id.len() + above.id.len()) % 8)) != 0);
                message.references = line;
                message.parent = (bits & 1 == 0).then(|| above.id.clone());
            }
            messages.push(message);
        }
        for last in (1..messages.len()).rev() {
            messages.swap(last, (random.next_u32() as usize) % (last + 1));
        }
        messages
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn complete_references_give_one_thread_in_every_order(messages in arrivals(true)) {
        let mail = mail();
        let file = ann(&mail);
        let threads: BTreeSet<String> = messages.iter().map(|message| thread_of(&file, &message.raw())).collect();
        prop_assert_eq!(threads.len(), 1);
    }

    #[test]
    fn threads_are_stable_and_made_of_connected_messages(messages in arrivals(false), deleted in any::<u8>()) {
        let mail = mail();
        let file = ann(&mail);
        let mut threads: BTreeMap<u32, (String, &TestMessage)> = BTreeMap::new();
        for message in &messages {
            let ids = |message: &TestMessage| -> BTreeSet<String> {
                let all = message.references.iter().chain(&message.parent).chain([&message.id]);
                all.cloned().collect()
            };
            let own = ids(message);
            let is_connected =
                |other: &TestMessage| other.subject == message.subject && !ids(other).is_disjoint(&own);
            let uid = put(&file, &message.raw());
            let thread = thread_in(&file, inbox(&file), uid);
            let connected: BTreeSet<&String> =
                threads.values().filter(|(_, other)| is_connected(other)).map(|(thread, _)| thread).collect();
            if connected.is_empty() {
                prop_assert!(threads.values().all(|(other, _)| *other != thread), "{:?}", messages);
            } else {
                prop_assert!(connected.contains(&thread), "{:?}", messages);
            }
            threads.insert(uid.0, (thread, message));
        }
        for (uid, (thread, _)) in &threads {
            prop_assert_eq!(&thread_in(&file, inbox(&file), Uid(*uid)), thread);
        }
        let deleted: UidSet = threads.keys().filter(|uid| deleted & (1 << (*uid % 8)) != 0).map(|uid| *uid..=*uid).collect();
        file.delete(inbox(&file), &deleted).unwrap();
        assert_sound(&file);
    }
}

#[test]
fn mail_files_of_two_people_have_threads_of_their_own() {
    let mail = mail();
    let first = ann(&mail);
    mail.create_if_missing("mail/bob.nsf", "Bob", &Name::new("bob@acme.test"), None).unwrap();
    let second = mail.open_as_server("mail/bob.nsf").unwrap();
    thread_of(&first, &TestMessage::new("b<a", "plan").raw());
    assert_eq!(thread_records(&second), 0);
    thread_of(&second, &TestMessage::new("a", "plan").raw());
    assert_eq!(thread_records(&second), 1);
}
