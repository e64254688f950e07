//! Saving: conflicts, and the history of editors.

use std::sync::Arc;

use base::NoteId;
use notes::item::blobs_of;
use notes::{
    AclLevel, Database, Error, ExpectedVersion, Item, ItemFlags, ItemValue, NewNote, Note, NoteClass, NoteFlags,
    OnConflict, SaveOptions, SaveOutcome, Writer,
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

/// Saves a document four times, each time another item or one again, then a change of an item by somebody who has read
/// an earlier version. Returns whether it was merged, and the document.
fn merge_without_base(read_version: usize, ours: &str, changed: &str) -> (bool, String) {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let with_action = |text: &str| items(&format!("$ConflictAction=1 {text}"));
    let first = NewNote::document(with_action("a=1 b=1 c=1"));
    let note = world.write(&database, ANN, |writer| writer.note_create(first)).unwrap();
    let mut versions = vec![read(&database, note).header.revision()];
    for text in ["a=2 b=1 c=1", "a=2 b=2 c=1", "a=2 b=2 c=1 d=1"] {
        let before = versions[versions.len() - 1];
        world.write(&database, ANN, |writer| writer.note_update(note, before, &with_action(text), &[])).unwrap();
        versions.push(read(&database, note).header.revision());
    }
    // Number 0 stands for a version of which only the sequence number is known, and 9 for one that never was.
    let read_version = match read_version {
        0 => ExpectedVersion::from(1),
        9 => ExpectedVersion { sequence: 2, id: Some(versions[0].id) },
        number => versions[number - 1].into(),
    };
    let changed = vec![changed.to_owned()];
    let options = SaveOptions { on_conflict: OnConflict::Resolve, changed: Some(&changed), ..SaveOptions::default() };
    let items = with_action(ours);
    let saved =
        world.write(&database, BOB, |writer| writer.note_save(note, read_version, (&items, &[]), &options)).unwrap();
    assert_sound(&database);
    (matches!(saved, SaveOutcome::Merged { sequence: 5 }), text_of(&read(&database, note)))
}

#[test]
fn changes_are_merged_without_base_as_far_as_revisions_tell() {
    let check = |read_version, ours: &str, changed: &str, expected: Option<&str>| {
        let (is_merged, found) = merge_without_base(read_version, ours, changed);
        let expected_text = format!("$ConflictAction=1 {}", expected.unwrap_or("a=2 b=2 c=1 d=1"));
        assert_eq!((is_merged, found), (expected.is_some(), expected_text), "{read_version} {ours}");
    };
    check(1, "a=2 b=2 c=9 d=1", "C", Some("a=2 b=2 c=9 d=1"));
    check(1, "a=9 b=2 c=1 d=1", "a", None);
    check(2, "a=9 b=2 c=1 d=1", "A", Some("a=9 b=2 c=1 d=1"));
    check(2, "a=2 b=9 c=1 d=1", "b", None);
    check(3, "a=2 b=9 c=1 d=1", "b", Some("a=2 b=9 c=1 d=1"));
    // Removed and added items count like changed ones, and the same change twice is none.
    check(3, "a=2 b=2 c=1", "d", None);
    check(1, "a=2 c=1 d=1", "b", None);
    check(1, "a=2 b=2 c=1 d=1", "b", Some("a=2 b=2 c=1 d=1"));
    // A version that never was tells nothing, and neither does a number that may be that of a replaced version.
    check(9, "a=2 b=2 c=9 d=1", "c", None);
    check(0, "a=2 b=2 c=9 d=1", "c", None);
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

/// Returns the body items of a note as `name=length of the text`, and their ordinals.
fn bodies(database: &Arc<Database>, note: NoteId) -> (String, Vec<u16>) {
    let found = read(database, note);
    let body = found.items.iter().filter(|item| !item.is_summary());
    let shown: Vec<_> = body.map(|item| format!("{}={}", item.name, item.value.text().map_or(0, str::len))).collect();
    let access = reader(database, ANN).unwrap();
    let summary = access.read().unwrap().summary(note).unwrap().expect("the note exists");
    (shown.join(" "), summary.body.iter().map(|body| body.ordinal).collect())
}

fn body_of_length(name: &str, length: usize) -> Item {
    Item::body(name, ItemValue::Text("1".repeat(length)))
}

fn keeping(kept: &[u16]) -> SaveOptions<'_> {
    SaveOptions { on_conflict: OnConflict::Resolve, kept, ..SaveOptions::default() }
}

#[test]
fn body_items_stay_as_they_are_stored() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let mut first = items("a=1");
    first.extend([("One", 10), ("Two", 200_000), ("Two", 30), ("Three", 0)].map(|(name, n)| body_of_length(name, n)));
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(first))).unwrap();
    assert_eq!(bodies(&database, note), ("One=10 Two=200000 Two=30 Three=0".to_owned(), vec![0, 1, 2, 3]));
    let mut more = items("a=2");
    more.extend([body_of_length("Four", 70_000), body_of_length("Five", 5)]);
    let saved =
        world.write(&database, ANN, |writer| writer.note_save(note, 1, (&more, &[]), &keeping(&[2, 1]))).unwrap();
    assert_eq!(saved, SaveOutcome::Plain { sequence: 2 });
    let expected = "Two=200000 Two=30 Four=70000 Five=5";
    assert_eq!(bodies(&database, note), (expected.to_owned(), vec![1, 2, 0, 3]), "in the order of the note");
    assert_eq!(read(&database, note).item("a").and_then(|item| item.value.text()), Some("2"));
    assert_sound(&database);
    let last = world.write(&database, ANN, |writer| {
        writer.note_save(note, 2, (&items("a=3"), &[]), &keeping(&[2]))?;
        writer.note_update(note, 3, &[body_of_length("Six", 6)], &[])
    });
    assert_eq!(last.unwrap(), 4);
    assert_eq!(bodies(&database, note), ("Six=6".to_owned(), vec![0]));
    assert_sound(&database);
}

#[test]
fn body_items_that_may_not_stay_are_refused() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let first = vec![body_of_length("One", 10), body_of_length("$publicaccess", 1)];
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(first))).unwrap();
    let save = |expected, items: &[Item], kept: &[u16]| {
        world.write(&database, ANN, |writer| writer.note_save(note, expected, (items, &[]), &keeping(kept)))
    };
    let unusable: [(&[u16], &str); 3] =
        [(&[2], "it does not exist"), (&[0, 0], "it is there once"), (&[1], "it makes the document public")];
    for (kept, reason) in unusable {
        assert!(matches!(save(1, &[], kept), Err(Error::Invalid { .. })), "{reason}");
    }
    let many: Vec<Item> = (0..base::limits::ITEMS_PER_NOTE_MAX).map(|_| body_of_length("Two", 1)).collect();
    assert!(matches!(save(1, &many, &[0]), Err(Error::Limit { .. })));
    let twice = world.write(&database, ANN, |writer| {
        writer.note_update(note, 1, &items("a=2"), &[])?;
        writer.note_save(note, 2, (&items("a=3"), &[]), &keeping(&[0]))
    });
    assert!(matches!(twice, Err(Error::Invalid { .. })), "the first change has removed the item");
    save(1, &items("a=2"), &[0]).unwrap();
    let conflict = save(1, &items("a=3"), &[0]);
    assert!(matches!(conflict, Err(Error::Conflict { expected: 1, found: 2, .. })), "it cannot be resolved");
    assert_eq!(bodies(&database, note), ("One=10".to_owned(), vec![0]));
    assert_sound(&database);
}
