//! Saving: conflicts, and the history of editors.

use std::sync::Arc;

use base::NoteId;
use notes::item::blobs_of;
use notes::{
    AclLevel, Database, Error, Item, ItemFlags, ItemValue, NewNote, Note, NoteClass, NoteFlags, OnConflict,
    SaveOptions, SaveOutcome, Writer,
};

use crate::fixture::{TestServer, assert_sound, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

fn items(text: &str) -> Vec<Item> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| Item::text(name, value));
    text.split_whitespace().filter_map(pair).collect()
}

fn read(database: &Arc<Database>, note: NoteId) -> Note {
    reader(database, ANN).unwrap().read().unwrap().note(note).unwrap().expect("the note exists")
}

fn text_of(note: &Note) -> String {
    let pair = |item: &Item| format!("{}={}", item.name, item.value.text().unwrap_or("?"));
    note.items.iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// Saves a document of Ann's as Ann, then as Bob, who has not seen Ann's change. Returns the result of Bob's save, and
/// the resulting documents as text.
fn conflict(base: &str, ann: &str, bob: &str, shows_base: bool) -> (Result<SaveOutcome, Error>, Vec<String>) {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let base = items(base);
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(base.clone()))).unwrap();
    world.write(&database, ANN, |writer| writer.note_update(note, 1, &items(ann), &[])).unwrap();
    let options = SaveOptions {
        on_conflict: OnConflict::Resolve,
        base: shows_base.then_some(&base[..]),
        ..SaveOptions::default()
    };
    let saved = world.write(&database, BOB, |writer| writer.note_save(note, 1, (&items(bob), &[]), &options));
    let mut texts = vec![text_of(&read(&database, note))];
    let unid = read(&database, note).header.unid;
    for child in reader(&database, ANN).unwrap().read().unwrap().children(unid).unwrap() {
        let loser = read(&database, child);
        assert!(loser.header.flags.contains(NoteFlags::CONFLICT));
        texts.push(text_of(&loser));
    }
    assert_sound(&database);
    (saved, texts)
}

#[test]
fn conflict_is_resolved_as_the_document_requests() {
    let check = |base: &str, ann: &str, bob: &str, shows_base, expected: &[&str]| {
        let (saved, texts) = conflict(base, ann, bob, shows_base);
        assert_eq!(texts, expected, "{base} | {ann} | {bob}");
        saved
    };
    let kept = check("a=1 b=1", "a=2 b=1", "a=1 b=2", true, &["a=2 b=1", "a=1 b=2"]);
    assert!(matches!(kept, Ok(SaveOutcome::Conflict { .. })), "{kept:?}");
    let action = |number: u8| format!("$ConflictAction={number}");
    let with = |number: u8, text: &str| format!("{} {text}", action(number));
    let try_all = |number: u8, ann: &str, bob: &str, shows_base, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|text| with(number, text)).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(&with(number, "a=1 b=1"), &with(number, ann), &with(number, bob), shows_base, &expected)
    };
    let merged = try_all(1, "a=2 b=1", "a=1 b=2", true, &["a=2 b=2"]);
    assert!(matches!(merged, Ok(SaveOutcome::Merged { sequence: 3 })), "{merged:?}");
    let unmerged = try_all(1, "a=2 b=1", "a=3 b=1", true, &["a=2 b=1", "a=3 b=1"]);
    assert!(matches!(unmerged, Ok(SaveOutcome::Conflict { .. })), "{unmerged:?}");
    let unknown = try_all(1, "a=2 b=1", "a=1 b=2", false, &["a=2 b=1", "a=1 b=2"]);
    assert!(matches!(unknown, Ok(SaveOutcome::Conflict { .. })), "{unknown:?}");
    for (number, ann, bob) in [(2, "a=2 b=1", "a=1 b=2"), (3, "a=2 b=1", "a=3 b=1")] {
        let refused = try_all(number, ann, bob, true, &["a=2 b=1"]);
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
    let merged = try_all(3, "a=2 b=1", "a=1 b=2", true, &["a=2 b=2"]);
    assert!(matches!(merged, Ok(SaveOutcome::Merged { .. })), "{merged:?}");
}

#[test]
fn conflict_documents_are_limited_and_require_change_rights() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Author)]);
    let mut protected = Item::text("Salary", "1");
    protected.flags = protected.flags.union(ItemFlags::PROTECTED);
    let first = vec![protected, Item::authors("Authors", vec![BOB.into()])];
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(first.clone()))).unwrap();
    let other = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(items("a=1")))).unwrap();
    for note in [note, other] {
        let items = read(&database, note).items;
        world.write(&database, ANN, |writer| writer.note_update(note, 1, &items, &[])).unwrap();
    }
    let options = SaveOptions { on_conflict: OnConflict::Resolve, ..SaveOptions::default() };
    let save =
        |note, items: &[Item]| world.write(&database, BOB, |writer| writer.note_save(note, 1, (items, &[]), &options));
    assert!(save(other, &items("a=2")).is_err(), "Bob is not an author");
    assert!(save(note, &items("Salary=2")).is_err(), "a conflict document cannot change protected items");
    for _ in 0..notes::limits::CONFLICTS_PER_NOTE_MAX {
        assert!(matches!(save(note, &first), Ok(SaveOutcome::Conflict { .. })));
    }
    assert!(matches!(save(note, &first), Err(Error::Conflict { .. })));
    let refuse = SaveOptions::default();
    let refused = world.write(&database, BOB, |writer| writer.note_save(note, 1, (&first, &[]), &refuse));
    assert!(matches!(refused, Err(Error::Conflict { expected: 1, found: 2, .. })));
    assert_sound(&database);
}

#[test]
fn merge_drops_unreferenced_content() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let file = |writer: &mut Writer<'_, '_>, name: &str, note| {
        let blob = writer.blob_put_for(note, name.as_bytes()).unwrap();
        let file_name = name.to_owned();
        let media_type = String::new();
        let length = name.len() as u64;
        Item::summary("$FILE", ItemValue::Object { file_name, media_type, length, blob })
    };
    let first = items("$ConflictAction=1 a=1");
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(first))).unwrap();
    let save = |items: &[Item]| {
        let blobs = blobs_of(items);
        world.write(&database, ANN, |writer| {
            writer.note_update(note, read(&database, note).header.sequence, items, &blobs)
        })
    };
    let with =
        |text: &str, files: &[&Item]| items(text).into_iter().chain(files.iter().copied().cloned()).collect::<Vec<_>>();
    let written = world.write(&database, ANN, |writer| {
        let old = file(writer, "old", note);
        let kept = file(writer, "kept", note);
        let base = with("$ConflictAction=1 a=1", &[&old, &kept]);
        writer.note_update(note, 1, &base, &blobs_of(&base))?;
        Ok((old, kept, base))
    });
    let (old, kept, base) = written.unwrap();
    save(&with("$ConflictAction=1 a=2", &[&old, &kept])).unwrap();
    let options = SaveOptions { on_conflict: OnConflict::Resolve, base: Some(&base), ..SaveOptions::default() };
    let ours = with("$ConflictAction=1 a=1", &[&kept]);
    let saved = world.write(&database, BOB, |writer| writer.note_save(note, 2, (&ours, &blobs_of(&ours)), &options));
    assert!(matches!(saved, Ok(SaveOutcome::Merged { sequence: 4 })), "{saved:?}");
    let found = read(&database, note);
    assert_eq!((found.items.len(), &found.blobs), (3, &blobs_of(&[kept])));
    assert_sound(&database);
}

#[test]
fn only_documents_have_conflict_documents() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let form = NewNote::of_class(NoteClass::FORM, items("a=1"));
    let note = world.write(&database, ANN, |writer| writer.note_create(form)).unwrap();
    let options = SaveOptions { on_conflict: OnConflict::Resolve, ..SaveOptions::default() };
    let save = |text| world.write(&database, ANN, |writer| writer.note_save(note, 1, (&items(text), &[]), &options));
    assert!(matches!(save("a=2"), Ok(SaveOutcome::Plain { sequence: 2 })));
    assert!(matches!(save("a=3"), Err(Error::Conflict { expected: 1, found: 2, .. })));
}

#[test]
fn editors_are_recorded_on_request() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let names = |note| {
        let item = read(&database, note).item("$UpdatedBy").cloned()?;
        assert!(item.flags.contains(ItemFlags::NAMES.union(ItemFlags::SUMMARY)));
        Some(item.value.texts().join(" "))
    };
    let new = NewNote { tracks_editors: true, ..NewNote::document(items("a=1 $UpdatedBy=Eve")) };
    let note = world.write(&database, ANN, |writer| writer.note_create(new)).unwrap();
    assert_eq!(names(note).unwrap(), "CN=Ann/O=Acme");
    let options = SaveOptions { tracks_editors: true, ..SaveOptions::default() };
    for (who, expected) in [(BOB, 1), (BOB, 2), (ANN, 3)] {
        let saved = world.write(&database, who, |writer| {
            writer.note_save(note, expected, (&items("a=2 $UpdatedBy=Eve"), &[]), &options)
        });
        assert!(matches!(saved, Ok(SaveOutcome::Plain { .. })), "{saved:?}");
    }
    assert_eq!(names(note).unwrap(), "CN=Ann/O=Acme CN=Bob/O=Acme CN=Ann/O=Acme");
    let revisions = read(&database, note).item("$Revisions").map(|item| item.value.clone());
    assert!(matches!(revisions, Some(ItemValue::TimeList(times)) if times.len() == 4));
    let plain = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(items("a=1")))).unwrap();
    assert_eq!(names(plain), None);
    assert_sound(&database);
}
