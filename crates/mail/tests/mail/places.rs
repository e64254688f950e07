//! Tests of messages in several mailboxes: flags, counts, UIDs, changes, removal, quota, and changes of places.

use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{NoteId, Uid, UidSet, ViewId};
use mail::mailbox::{FlagChange, Flags, MailFile, MailOptions, MailStore, NewMessage, PlaceChange};
use notes::{Databases, Marks};
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

use crate::mailbox::{ann, mail};

fn folder(file: &MailFile, name: &str) -> ViewId {
    file.snapshot().unwrap().folder(name).unwrap().expect("the mailbox exists").id
}

/// Puts messages into the inbox, and returns their notes.
fn fill(file: &MailFile, count: usize) -> Vec<NoteId> {
    let inbox = folder(file, "INBOX");
    let message = |number: usize| NewMessage {
        raw: format!("Subject: {number}\r\n\r\ntext\r\n").into_bytes(),
        flags: Flags::none(),
        received: None,
    };
    let messages: Vec<NewMessage> = (0..count).map(message).collect();
    let (_, uids, _) = file.append(inbox, &messages).unwrap();
    let snapshot = file.snapshot().unwrap();
    uids.iter().map(|uid| snapshot.entry(inbox, *uid).unwrap().unwrap().note).collect()
}

fn change(note: NoteId, add: &[ViewId], remove: &[ViewId]) -> PlaceChange {
    PlaceChange { note, add: add.to_vec(), remove: remove.to_vec() }
}

fn set(names: &[&str]) -> FlagChange {
    FlagChange::Replace(names.iter().copied().collect())
}

fn one(uid: u32) -> UidSet {
    UidSet::from(uid..=uid)
}

/// Returns the messages of a mailbox as texts: UID, note, and flags.
fn listed(file: &MailFile, id: ViewId) -> Vec<(u32, NoteId, String)> {
    let snapshot = file.snapshot().unwrap();
    let mut found = Vec::new();
    snapshot
        .entries(id, Uid(1)..=Uid(u32::MAX), &mut |entry| {
            let flags = snapshot.flags(&entry);
            let marks = mail::mailbox::flags::system_flag_names(flags.marks).map(str::to_owned);
            let names: Vec<String> = marks.chain(flags.keywords).collect();
            found.push((entry.uid.0, entry.note, names.join(" ")));
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    let status = snapshot.status(id).unwrap();
    let count = |mark: &str| found.iter().filter(|(_, _, flags)| flags.contains(mark)).count() as u32;
    assert_eq!((status.messages, status.deleted), (found.len() as u32, count("\\Deleted")));
    assert_eq!(status.unseen, status.messages - count("\\Seen"));
    assert_eq!(notes::fixup::check(file.database()).unwrap().findings, []);
    found
}

fn row(uid: u32, note: NoteId, flags: &str) -> (u32, NoteId, String) {
    (uid, note, flags.to_owned())
}

#[test]
fn deleted_flag_belongs_to_the_place_and_other_flags_to_the_message() {
    let mail = mail();
    let file = ann(&mail);
    let [inbox, archive] = ["INBOX", "Archive"].map(|name| folder(&file, name));
    let notes = fill(&file, 2);
    file.store(inbox, &one(1), &set(&["\\Deleted", "\\Seen"]), None).unwrap();
    file.set_places(&[change(notes[0], &[archive], &[])]).unwrap();
    assert_eq!(listed(&file, inbox), [row(1, notes[0], "\\Deleted \\Seen"), row(2, notes[1], "")]);
    assert_eq!(listed(&file, archive), [row(1, notes[0], "\\Seen")]);
    file.store(archive, &one(1), &set(&["\\Deleted", "\\Flagged", "Work"]), None).unwrap();
    file.store(inbox, &one(1), &FlagChange::Remove(Flags::from_system_flags(Marks::DELETED)), None).unwrap();
    assert_eq!(listed(&file, inbox), [row(1, notes[0], "\\Flagged Work"), row(2, notes[1], "")]);
    assert_eq!(listed(&file, archive), [row(1, notes[0], "\\Flagged \\Deleted Work")]);
    assert!(file.expunge(inbox, None).unwrap().uids.is_empty());
    assert_eq!(file.expunge(archive, None).unwrap().uids.to_string(), "1");
    assert_eq!(listed(&file, inbox).first(), Some(&row(1, notes[0], "\\Flagged Work")));
    assert_eq!(listed(&file, archive), []);
}

#[test]
fn message_counts_once_and_goes_with_its_last_place() {
    let mail = mail();
    let file = ann(&mail);
    let [inbox, archive, sent] = ["INBOX", "Archive", "Sent"].map(|name| folder(&file, name));
    let before = file.quota().unwrap();
    let notes = fill(&file, 1);
    let with_message = file.quota().unwrap();
    file.set_places(&[change(notes[0], &[archive, sent], &[])]).unwrap();
    assert_eq!(file.quota().unwrap(), with_message);
    let size = |id| file.snapshot().unwrap().status(id).unwrap().size;
    assert!(size(inbox) > 0 && size(inbox) == size(archive) && size(archive) == size(sent));
    file.delete(inbox, &one(1)).unwrap();
    file.delete(sent, &one(1)).unwrap();
    assert_eq!(file.quota().unwrap(), with_message);
    assert_eq!(listed(&file, archive), [row(1, notes[0], "")]);
    file.delete(archive, &one(1)).unwrap();
    assert_eq!(file.quota().unwrap(), before);
    assert!(file.snapshot().unwrap().message(notes[0]).unwrap().is_none());
}

#[test]
fn deleted_mailbox_takes_only_messages_without_another_place() {
    let mail = mail();
    let file = ann(&mail);
    let inbox = folder(&file, "INBOX");
    let notes = fill(&file, 2);
    let (plan, _) = file.folder_create("Plan", None).unwrap();
    file.set_places(&[change(notes[0], &[plan], &[]), change(notes[1], &[plan], &[inbox])]).unwrap();
    assert_eq!(listed(&file, plan), [row(1, notes[0], ""), row(2, notes[1], "")]);
    file.folder_delete("Plan").unwrap();
    assert_eq!(listed(&file, inbox), [row(1, notes[0], "")]);
    assert!(file.snapshot().unwrap().message(notes[1]).unwrap().is_none());
}

#[test]
fn changes_of_places_are_all_or_nothing() {
    let mail = mail();
    let file = ann(&mail);
    let [inbox, archive] = ["INBOX", "Archive"].map(|name| folder(&file, name));
    let notes = fill(&file, 2);
    let state = || (listed(&file, inbox), listed(&file, archive), file.snapshot().unwrap().modseq());
    let before = state();
    let good = change(notes[0], &[archive], &[]);
    let refused = [
        change(notes[1], &[], &[inbox]),
        change(notes[1], &[inbox], &[inbox]),
        change(notes[1], &[ViewId(999)], &[]),
        change(NoteId(999), &[archive], &[]),
        change(NoteId(999), &[], &[inbox]),
        change(NoteId(inbox.0), &[archive], &[]),
    ];
    for bad in refused {
        assert!(file.set_places(&[good.clone(), bad.clone()]).is_err(), "{bad:?}");
        assert_eq!(state(), before, "{bad:?}");
    }
    let outcome = file.set_places(&[good, change(notes[1], &[archive], &[inbox, archive, ViewId(999)])]);
    assert!(outcome.is_err(), "the message would be in no mailbox");
    let outcome = file.set_places(&[change(notes[0], &[inbox], &[ViewId(999)])]).unwrap();
    assert_eq!((state(), outcome.modseq), (before.clone(), before.2), "nothing changes");
    let places = |note| file.snapshot().unwrap().places(note).unwrap();
    assert_eq!(places(notes[0]).map(|places| places.len()), Some(1));
    assert_eq!((places(NoteId(999)), places(NoteId(inbox.0))), (None, None));
    file.set_places(&[change(notes[0], &[archive], &[])]).unwrap();
    assert_eq!(places(notes[0]).map(|places| places.len()), Some(2));
}

#[test]
fn move_to_a_mailbox_with_the_message_gives_a_new_uid() {
    let mail = mail();
    let file = ann(&mail);
    let [inbox, archive, sent] = ["INBOX", "Archive", "Sent"].map(|name| folder(&file, name));
    let notes = fill(&file, 3);
    file.set_places(&[change(notes[2], &[archive, sent], &[])]).unwrap();
    file.store(inbox, &one(3), &set(&["\\Deleted"]), None).unwrap();
    let since = file.snapshot().unwrap().modseq();
    let moved = file.move_to(inbox, &UidSet::from(1..=3), archive).unwrap();
    assert_eq!(moved.pairs, [(1, 2), (2, 3), (3, 4)].map(|(old, new)| (Uid(old), Uid(new))), "both lists rise");
    assert_eq!(listed(&file, inbox), []);
    let expected = [row(2, notes[0], ""), row(3, notes[1], ""), row(4, notes[2], "\\Deleted")];
    assert_eq!(listed(&file, archive), expected);
    assert_eq!(listed(&file, sent), [row(1, notes[2], "")]);
    let changes = |id| file.snapshot().unwrap().changes(id, since).unwrap();
    assert_eq!(
        (changes(inbox).vanished.to_string(), changes(archive).vanished.to_string()),
        ("1:3".into(), "1".into())
    );
    assert_eq!(changes(archive).changed.iter().map(|message| message.uid.0).collect::<Vec<_>>(), [2, 3, 4]);
    assert!(changes(sent).vanished.is_empty());
    let again = file.move_to(archive, &one(4), archive).unwrap();
    assert_eq!(again.pairs, [(Uid(4), Uid(5))]);
    assert_eq!(listed(&file, archive).last(), Some(&row(5, notes[2], "\\Deleted")));
}

#[test]
fn copies_stay_independent_and_replacement_leaves_other_places() {
    let mail = mail();
    let file = ann(&mail);
    let [inbox, archive] = ["INBOX", "Archive"].map(|name| folder(&file, name));
    let notes = fill(&file, 1);
    file.set_places(&[change(notes[0], &[archive], &[])]).unwrap();
    file.copy(inbox, &one(1), archive).unwrap();
    file.store(archive, &one(2), &set(&["\\Flagged"]), None).unwrap();
    let copy = listed(&file, archive)[1].1;
    assert_ne!(copy, notes[0]);
    assert_eq!(listed(&file, archive), [row(1, notes[0], ""), row(2, copy, "\\Flagged")]);
    let new = NewMessage { raw: b"Subject: new\r\n\r\n".to_vec(), flags: Flags::none(), received: None };
    let (_, uid, _) = file.replace(inbox, Uid(1), inbox, &new).unwrap();
    assert_eq!(listed(&file, inbox).iter().map(|(uid, ..)| *uid).collect::<Vec<_>>(), [uid.0]);
    assert_eq!(listed(&file, archive).len(), 2, "the other place stays");
}

#[test]
fn changes_are_reported_in_each_mailbox() {
    let mail = mail();
    let file = ann(&mail);
    let [inbox, archive] = ["INBOX", "Archive"].map(|name| folder(&file, name));
    let notes = fill(&file, 2);
    let since = file.snapshot().unwrap().modseq();
    file.set_places(&[change(notes[1], &[archive], &[])]).unwrap();
    let changes = |id, since| {
        let found = file.snapshot().unwrap().changes(id, since).unwrap();
        let uids: Vec<u32> = found.changed.iter().map(|message| message.uid.0).collect();
        (found.vanished.to_string(), uids)
    };
    assert_eq!(changes(archive, since), (String::new(), vec![1]));
    assert_eq!(changes(inbox, since), (String::new(), vec![2]), "the modseq is that of the message");
    let since = file.snapshot().unwrap().modseq();
    file.delete(inbox, &one(2)).unwrap();
    assert_eq!(changes(inbox, since), ("2".to_owned(), vec![]));
    assert_eq!(changes(archive, since), (String::new(), vec![1]));
    let since = file.snapshot().unwrap().modseq();
    file.delete(archive, &one(1)).unwrap();
    assert_eq!(changes(archive, since), ("1".to_owned(), vec![]));
    assert_eq!(changes(inbox, since), (String::new(), vec![]));
}

#[test]
fn places_survive_a_restart_and_a_repair() {
    let engine = Arc::new(MemoryEngine::new(3));
    let start = || {
        let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let store = Arc::new(Store::with_engine(engine.clone(), &options).unwrap());
        let databases = Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(5)));
        MailStore::new(databases, MailOptions::default())
    };
    let note = {
        let mail = start();
        let file = ann(&mail);
        let [inbox, archive] = ["INBOX", "Archive"].map(|name| folder(&file, name));
        let notes = fill(&file, 1);
        file.set_places(&[change(notes[0], &[archive], &[])]).unwrap();
        file.store(archive, &one(1), &set(&["\\Deleted", "\\Seen"]), None).unwrap();
        assert_eq!(listed(&file, inbox), [row(1, notes[0], "\\Seen")]);
        notes[0]
    };
    let mail = start();
    let file = ann(&mail);
    let [inbox, archive] = ["INBOX", "Archive"].map(|name| folder(&file, name));
    let expected = ([row(1, note, "\\Seen")], [row(1, note, "\\Deleted \\Seen")]);
    assert_eq!((listed(&file, inbox), listed(&file, archive)), (expected.0.to_vec(), expected.1.to_vec()));
    let prefix = [file.database().number().to_key(), archive.0.to_be_bytes()].concat();
    let mut batch = store::Batch::new();
    batch.delete_range(store::Table::View, &prefix, &store::engine::prefix_end(&prefix).unwrap());
    let _ = mail.databases().store().commit(&batch).unwrap();
    assert!(!notes::fixup::repair(file.database()).unwrap().findings.is_empty());
    assert_eq!(listed(&file, archive), expected.1, "the mark is rewritten from the note");
}
