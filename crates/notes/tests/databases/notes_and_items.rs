//! Creation, change and deletion of notes.

use std::time::Duration;

use base::{Modseq, Name, NoteId, Timestamp, Unid};
use notes::change_log::{ChangeCursor, NoteChange};
use notes::{AclLevel, Item, ItemFlags, ItemValue, Marks, NewNote, Writer, purge};
use revision::Revision;

use crate::fixture::{TestServer, assert_sound, reader, server, subject};

const ANN: &str = "Ann/Acme";

#[test]
fn every_type_of_item_reads_back() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let items = vec![
        Item::text("Text", "ein Text"),
        Item::summary("TextList", ItemValue::TextList(vec![String::new(), "ü".into()])),
        Item::summary("Number", ItemValue::Number(-1.5)),
        Item::summary("NumberList", ItemValue::NumberList(vec![f64::MAX, 0.0])),
        Item::summary("Time", ItemValue::Time(Timestamp(-1))),
        Item::summary("TimeList", ItemValue::TimeList(vec![Timestamp(0), Timestamp(i64::MAX)])),
        Item::readers("Readers", vec![ANN.into()]),
        Item::authors("Authors", vec!["[Role]".into()]),
        Item { flags: ItemFlags::SUMMARY.union(ItemFlags::NAMES), ..Item::text("Names", "Ann/Acme") },
        Item::body("Body", ItemValue::RichText("<b>bold</b>".into())),
        Item::body("Large", ItemValue::MimePart((0..3_000_000_u32).map(|n| n as u8).collect())),
        Item::body("Body", ItemValue::NoteReferences(vec![Unid([9; 16])])),
        Item { flags: ItemFlags::SIGNED, ..Item::body("Signed", ItemValue::RichText("<p>mine</p>".into())) },
        Item::body(
            "File",
            ItemValue::Object {
                file_name: "a b.pdf".into(),
                media_type: "application/pdf".into(),
                length: u64::MAX,
                blob: store::BlobId([7; 32]),
            },
        ),
    ];
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(items.clone()))).unwrap();
    let access = reader(&database, ANN).unwrap();
    let read = access.read().unwrap().note(note).unwrap().expect("the note exists");
    assert_eq!(read.items, items);
    assert_eq!((read.header.sequence, read.item("BODY").is_some()), (1, true));
    assert_sound(&database);
}

#[test]
fn the_first_save_wins() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let save = |note: NoteId, expected: u32, text: &str| {
        world.write(&database, ANN, |writer| writer.note_update(note, expected, &[Item::text("Subject", text)], &[]))
    };
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(Vec::new()))).unwrap();
    assert_eq!(save(note, 1, "first").unwrap(), 2);
    assert!(matches!(save(note, 1, "second"), Err(notes::Error::Conflict { expected: 1, found: 2, .. })));
    assert_eq!(subject(&database, ANN, note), Some("first".into()));
    assert_sound(&database);
}

#[test]
fn a_deleted_note_leaves_a_stub_until_it_is_purged() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(Vec::new()))).unwrap();
    let access = reader(&database, ANN).unwrap();
    let unid = access.read().unwrap().header(note).unwrap().unwrap().unid;
    assert!(world.write(&database, ANN, |writer| writer.note_delete(note)).unwrap());
    assert!(!world.write(&database, ANN, |writer| writer.note_delete(note)).unwrap());
    let reading = access.read().unwrap();
    assert!(reading.note(note).unwrap().is_none() && reading.header(note).unwrap().unwrap().is_stub());
    assert_eq!(reading.find(unid).unwrap(), Some(note));
    drop(reading);
    assert_eq!(purge::purge(&database).unwrap(), 0, "it is too young");
    world.clock.advance(Duration::from_secs(91 * 86_400));
    assert_eq!(purge::purge(&database).unwrap(), 1);
    let reading = access.read().unwrap();
    assert_eq!((reading.header(note).unwrap(), reading.find(unid).unwrap()), (None, None));
    assert!(!reading.is_complete_since(Modseq(1)));
    assert_sound(&database);
}

#[test]
fn purged_deletions_stay_known_for_some_intervals() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let create = |writer: &mut Writer<'_, '_>| writer.note_create(NewNote::document(Vec::new()));
    let note = world.write(&database, ANN, create).unwrap();
    world.write(&database, ANN, |writer| writer.note_update(note, 1, &[Item::text("Subject", "two")], &[])).unwrap();
    let access = reader(&database, ANN).unwrap();
    let header = || access.read().unwrap().header(note).unwrap().unwrap();
    let edited = header();
    let first = Revision::first(edited.created, edited.unid);
    world.write(&database, ANN, |writer| writer.note_delete(note)).unwrap();
    let deletion = header().revision();
    let known = |revision| access.read().unwrap().purged_deletion(edited.unid, revision).unwrap();
    assert_eq!(known(first), None, "the stub still knows it");
    world.clock.advance(Duration::from_secs(91 * 86_400));
    assert_eq!((purge::purge(&database).unwrap(), purge::purge(&database).unwrap()), (1, 0));
    for revision in [first, edited.revision(), deletion] {
        assert_eq!(known(revision), Some(deletion));
    }
    assert_eq!(known(first.child(deletion.id)), None, "an edit that the deletion did not know");
    let again = NewNote { unid: Some(edited.unid), ..NewNote::document(Vec::new()) };
    let again = world.write(&database, ANN, |writer| writer.note_create(again)).unwrap();
    let reading = access.read().unwrap();
    assert_eq!(reading.header(again).unwrap().unwrap().sequence, 4, "it descends from the deletion");
    assert!(reading.knows_revision(edited.unid, deletion).unwrap());
    drop(reading);
    world.clock.advance(Duration::from_secs(4 * 90 * 86_400));
    assert_eq!(purge::purge(&database).unwrap(), 0, "the last day");
    world.clock.advance(Duration::from_secs(86_400));
    assert_eq!((purge::purge(&database).unwrap(), purge::purge(&database).unwrap()), (3, 0));
    assert_eq!(known(first), None);
    assert_sound(&database);
}

#[test]
fn departure_from_a_folder_is_purged_after_the_interval() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let (note, folder) = world
        .write(&database, ANN, |writer| {
            let folder = writer.folder_create("F", &[])?;
            let new = NewNote { folders: vec![folder], ..NewNote::document(Vec::new()) };
            Ok((writer.note_create(new)?, folder))
        })
        .unwrap();
    assert!(world.write(&database, ANN, |writer| writer.folder_remove(note, folder)).unwrap());
    let access = reader(&database, ANN).unwrap();
    let left = || {
        let mut left = 0;
        let count = &mut |entry: notes::change_log::ChangeEntry| {
            left += usize::from(matches!(entry.change, NoteChange::Left { from, .. } if from.folder == folder));
            Ok(())
        };
        access.read().unwrap().changes(Modseq(0), count).unwrap();
        left
    };
    assert_eq!((left(), purge::purge(&database).unwrap()), (1, 0), "it is too young");
    world.clock.advance(Duration::from_secs(91 * 86_400));
    let since = database.modseq();
    assert_eq!((purge::purge(&database).unwrap(), left()), (1, 0));
    let reading = access.read().unwrap();
    assert!(reading.header(note).unwrap().is_some(), "the note lives on");
    assert!(reading.is_complete_since(since) && !reading.is_complete_since(Modseq(1)));
    assert_eq!(purge::purge(&database).unwrap(), 0);
    assert_sound(&database);
}

#[test]
fn recreated_note_continues_its_sequence_numbers() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let new = || NewNote { unid: Some(Unid([3; 16])), ..NewNote::document(Vec::new()) };
    let first = world.write(&database, ANN, |writer| writer.note_create(new())).unwrap();
    assert!(matches!(
        world.write(&database, ANN, |writer| writer.note_create(new())),
        Err(notes::Error::Exists { .. })
    ));
    world.write(&database, ANN, |writer| writer.note_delete(first)).unwrap();
    let second = world.write(&database, ANN, |writer| writer.note_create(new())).unwrap();
    let access = reader(&database, ANN).unwrap();
    assert_eq!(access.read().unwrap().header(second).unwrap().unwrap().sequence, 3);
    assert_sound(&database);
}

#[test]
fn response_depth_is_limited() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let access = reader(&database, ANN).unwrap();
    let mut parent = None;
    for depth in 0..32 {
        let new = NewNote { parent, ..NewNote::document(Vec::new()) };
        let note = world.write(&database, ANN, |writer| writer.note_create(new));
        if depth == 31 {
            assert!(matches!(note, Err(notes::Error::Limit { .. })));
            break;
        }
        let note = note.unwrap();
        let reading = access.read().unwrap();
        if let Some(parent) = parent {
            assert_eq!(reading.children(parent).unwrap(), [note]);
        }
        parent = Some(reading.header(note).unwrap().unwrap().unid);
    }
    assert_sound(&database);
}

#[test]
fn changes_list_each_note_once() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let since = database.modseq();
    let create = || world.write(&database, ANN, |writer| writer.note_create(NewNote::document(Vec::new()))).unwrap();
    let one = create();
    let two = create();
    let three = create();
    world.write(&database, ANN, |writer| writer.marks_set(one, Marks::SEEN, &[])).unwrap();
    world.write(&database, ANN, |writer| writer.note_delete(two)).unwrap();
    let unchanged = world.write(&database, ANN, |writer| writer.marks_set(one, Marks::SEEN, &[])).unwrap();
    assert!(!unchanged);
    let access = reader(&database, ANN).unwrap();
    let mut seen = Vec::new();
    let collect = &mut |entry: notes::change_log::ChangeEntry| {
        seen.push((entry.note, matches!(entry.change, NoteChange::Deleted { .. })));
        Ok(())
    };
    access.read().unwrap().changes(since, collect).unwrap();
    assert_eq!(seen, [(three, false), (one, false), (two, true)]);
}

#[test]
fn unread_marks_are_kept_for_each_user() {
    let world = TestServer::new();
    let database = world.database(&[("Bob/Acme", AclLevel::Reader), ("Eve/Acme", AclLevel::Depositor)]);
    let ann = Name::new(ANN);
    let bob = Name::new("bob/acme");
    let create = || world.write(&database, ANN, |writer| writer.note_create(NewNote::document(Vec::new()))).unwrap();
    let one = create();
    let two = create();
    world.write(&database, "Bob/Acme", |writer| writer.mark_read(&[two, one])).unwrap();
    world.write(&database, "Bob/Acme", |writer| writer.mark_unread_by(&bob, &[one])).unwrap();
    world.write(&database, ANN, |writer| writer.mark_read(&[one])).unwrap();
    let again = world.restarted();
    let database = again.databases.database_open("docs.nsf").unwrap();
    let read = |who| {
        let access = reader(&database, who).unwrap();
        let reading = access.read().unwrap();
        (reading.is_read(one).unwrap(), reading.is_read(two).unwrap())
    };
    assert_eq!((read(ANN), read("Bob/Acme")), ((true, false), (false, true)));
    let access = reader(&database, ANN).unwrap();
    let reading = access.read().unwrap();
    assert!(reading.header(one).unwrap().unwrap().marks.contains(Marks::SEEN), "the owner's mark is the note's own");
    assert!(reading.is_read_by(&ann, one).unwrap());
    let itself = database.authorize::<notes::level::Reader>(&server()).unwrap();
    assert!(itself.read().unwrap().is_read_by(&bob, two).unwrap(), "the server can read the marks of all users");
}

#[test]
fn unread_marks_of_other_users_cannot_be_changed() {
    let world = TestServer::new();
    let database = world.database(&[("Bob/Acme", AclLevel::Manager), ("Eve/Acme", AclLevel::Depositor)]);
    let ann = Name::new(ANN);
    let bob = Name::new("Bob/Acme");
    let create = |items| world.write(&database, ANN, |writer| writer.note_create(NewNote::document(items))).unwrap();
    let open = create(Vec::new());
    let hidden = create(vec![Item::readers("Readers", vec![ANN.into()])]);
    let mark =
        |who: &str, user: &Name| world.write(&database, who, |writer| writer.mark_read_by(user, &[open, hidden]));
    for who in ["Bob/Acme", "Eve/Acme"] {
        assert!(matches!(mark(who, &ann), Err(notes::Error::ServerOnly { .. })), "{who}");
        let undone = world.write(&database, who, |writer| writer.mark_unread_by(&ann, &[open]));
        assert!(matches!(undone, Err(notes::Error::ServerOnly { .. })), "{who}");
    }
    assert!(
        world.write(&database, "Eve/Acme", |writer| writer.mark_read(&[open])).is_err(),
        "a depositor cannot mark notes"
    );
    mark("Bob/Acme", &bob).unwrap();
    let access = database.authorize::<notes::level::Reader>(&server()).unwrap();
    let read = |user, note| access.read().unwrap().is_read_by(user, note).unwrap();
    assert_eq!((read(&bob, open), read(&bob, hidden)), (true, false), "hidden notes are not marked");
    assert_eq!((read(&ann, open), read(&ann, hidden)), (false, false));
    let access = reader(&database, "Bob/Acme").unwrap();
    assert!(matches!(access.read().unwrap().is_read_by(&ann, open), Err(notes::Error::ServerOnly { .. })));
    let itself = database.authorize(&server()).unwrap();
    let accesses = [&itself];
    let mut transaction = world.databases.transaction(&accesses).unwrap();
    transaction.writer(0).mark_read_by(&ann, &[open]).unwrap();
    transaction.writer(0).mark_unread_by(&bob, &[open]).unwrap();
    transaction.commit().unwrap();
    assert_eq!((read(&bob, open), read(&ann, open)), (false, true));
}

#[test]
fn transaction_over_several_databases_is_atomic() {
    let world = TestServer::new();
    let one = world.database(&[]);
    let acl = notes::Acl::private(&Name::new(ANN));
    let new = notes::NewDatabase::new("two.nsf", "Two", notes::DatabaseKind::Standard, acl);
    let two = world.databases.database_create(&new).unwrap();
    let who = crate::fixture::identity(ANN);
    let first = one.authorize(&who).unwrap();
    let second = two.authorize(&who).unwrap();
    let before = (one.modseq(), two.modseq());
    let accesses = [&second, &first];
    let mut dropped = world.databases.transaction(&accesses).unwrap();
    dropped.writer(0).note_create(NewNote::document(Vec::new())).unwrap();
    drop(dropped);
    assert_eq!((one.modseq(), two.modseq()), before);
    let mut transaction = world.databases.transaction(&accesses).unwrap();
    transaction.writer(0).note_create(NewNote::document(Vec::new())).unwrap();
    transaction.writer(1).note_create(NewNote::document(Vec::new())).unwrap();
    transaction.commit().unwrap();
    assert!(one.modseq() > before.0 && two.modseq() > before.1);
}

#[test]
fn invalid_item_names_are_refused() {
    let world = TestServer::new();
    let database = world.database(&[]);
    for name in [String::new(), "x".repeat(256)] {
        let new = NewNote::document(vec![Item { name, flags: ItemFlags::NONE, value: ItemValue::Number(1.0) }]);
        let created = world.write(&database, ANN, |writer| writer.note_create(new));
        assert!(matches!(created, Err(notes::Error::Invalid { .. })));
    }
}

#[test]
fn change_pages_of_any_size_miss_nothing() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let make = |count: u32| {
        let created = world.write(&database, ANN, |writer| {
            (0..count).map(|_| writer.note_create(NewNote::document(Vec::new()))).collect::<notes::Result<Vec<_>>>()
        });
        created.expect("created")
    };
    let created: Vec<NoteId> = [1, 20, 3, 1, 7].into_iter().flat_map(make).collect();
    let access = reader(&database, ANN).unwrap();
    for limit in 1..40 {
        let mut cursor = ChangeCursor::default();
        let mut found = Vec::new();
        loop {
            let reading = access.read().unwrap();
            let page = reading.changes_page(cursor, limit).unwrap();
            assert!(page.entries.len() <= limit, "{limit}");
            // A client that continues from the last complete transaction misses nothing.
            let whole = reading.changes_page(ChangeCursor::after(page.next.modseq), 1_000).unwrap();
            found.extend(page.entries.iter().map(|entry| entry.note));
            let rest = whole.entries.iter().filter(|entry| !found.contains(&entry.note)).count();
            assert_eq!(found.iter().filter(|note| created.contains(note)).count() + rest, created.len(), "{limit}");
            cursor = page.next;
            if cursor.is_at_transaction_boundary() && cursor.modseq >= reading.modseq() {
                break;
            }
        }
        found.retain(|note| created.contains(note));
        assert_eq!(found, created, "{limit}");
    }
    // A note that changes again while a client is within its transaction is returned once more, at its new position.
    let reading = access.read().unwrap();
    let page = reading.changes_page(ChangeCursor::default(), 5).unwrap();
    let first = page.entries[3].note;
    drop(reading);
    world.write(&database, ANN, |writer| writer.note_update(first, 1, &[], &[])).unwrap();
    let rest = access.read().unwrap().changes_page(page.next, 1_000).unwrap();
    assert_eq!(rest.entries.iter().filter(|entry| entry.note == first).count(), 1);
    assert_eq!(rest.next, ChangeCursor::after(database.modseq()));
}

#[test]
fn response_cycles_are_refused() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let unid = |number| Some(Unid([number; 16]));
    let make = |number, parent| {
        let new = NewNote { unid: unid(number), parent: unid(parent), ..NewNote::document(Vec::new()) };
        world.write(&database, ANN, |writer| writer.note_create(new)).map(drop)
    };
    assert!(make(1, 1).is_err());
    make(1, 2).unwrap();
    make(2, 3).unwrap();
    for parent in [1, 2, 3] {
        let refused = make(3, parent);
        assert!(matches!(refused, Err(notes::Error::Invalid { .. })), "{parent}: {refused:?}");
    }
    make(3, 4).unwrap();
    assert_sound(&database);
}

#[test]
fn depositor_may_set_readers_but_not_read_later() {
    let world = TestServer::new();
    let database = world.database(&[("Bob/Acme", AclLevel::Depositor)]);
    let items = vec![Item::text("Subject", "x"), Item::readers("Readers", vec![ANN.into()])];
    let seen = world.write(&database, "Bob/Acme", |writer| {
        let note = writer.note_create(NewNote::document(items.clone()))?;
        Ok((note, writer.header(note)?.map(|header| header.sequence)))
    });
    let (note, sequence) = seen.unwrap();
    assert_eq!(sequence, Some(1), "the creator can read the header of a new note");
    assert_eq!(subject(&database, ANN, note), Some("x".into()));
    let later = world.write(&database, "Bob/Acme", |writer| Ok(writer.header(note)?.is_some()));
    assert!(matches!(later, Err(notes::Error::AccessDenied { .. })), "the depositor cannot read it later: {later:?}");
}

#[test]
fn document_cannot_use_the_unid_of_a_profile() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let unid = Some(notes::profile::profile_unid("Settings", None));
    let new = NewNote { unid, ..NewNote::document(Vec::new()) };
    let refused = world.write(&database, ANN, |writer| writer.note_create(new));
    assert!(matches!(refused, Err(notes::Error::Invalid { .. })), "{refused:?}");
    world.write(&database, ANN, |writer| writer.profile_set("Settings", None, &[], &[])).unwrap();
}

#[test]
fn part_of_a_body_item_is_read_without_the_rest() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let content: Vec<u8> = (0..5_u32 << 19).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let items = vec![
        Item::body("Message", ItemValue::MimePart(content.clone())),
        Item::body("Body", ItemValue::RichText("ééé".into())),
        Item::body("Count", ItemValue::Number(1.0)),
    ];
    let note = world.write(&database, "Ann/Acme", |writer| writer.note_create(NewNote::document(items))).unwrap();
    let access = reader(&database, "Ann/Acme").unwrap();
    let part = |ordinal: u16, range: std::ops::Range<u64>| access.read()?.body_content(note, ordinal, range);
    let chunk = 1_u64 << 20;
    let length = content.len() as u64;
    for start in [0, 1, chunk - 40, chunk - 5, chunk, 2 * chunk - 1, length - 1, length, length + 7] {
        for count in [0, 1, 30, chunk, u64::MAX - length - 7] {
            let found = part(0, start..start + count).unwrap().expect("it exists");
            let [from, to] = [start, start + count].map(|place| place.min(length) as usize);
            assert!(found.bytes == content[from..to] && found.length == length, "{count} bytes from {start}");
        }
    }
    assert!(part(0, 0..0).unwrap().is_some_and(|part| part.is_mime_part));
    assert!(part(1, 0..0).unwrap().is_some_and(|part| !part.is_mime_part));
    assert_eq!(part(1, 1..3).unwrap().expect("it exists").bytes, &"ééé".as_bytes()[1..3]);
    assert!(matches!(part(2, 0..1), Err(notes::Error::Invalid { .. })));
    assert_eq!(part(3, 0..1).unwrap(), None);
    let mut batch = store::Batch::new();
    let second = [&database.number().to_key()[..], &note.to_key(), &[0, 0], &[0, 0, 0, 1]].concat();
    batch.delete(store::Table::Body, &second);
    world.databases.store().commit(&batch).unwrap();
    assert_eq!(part(0, 5..9).unwrap().expect("it exists").bytes, content[5..9]);
    let last = 5 << 18;
    assert_eq!(part(0, last * 2 - 4..last * 2).unwrap().expect("it exists").bytes, content[content.len() - 4..]);
    assert!(part(0, chunk..chunk + 9).unwrap_err().is_damage());
}
