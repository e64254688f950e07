//! What a reader sees of a database with hidden notes: positions in folders, and the contents of attachments.

use base::{NoteId, Uid};
use notes::{Access, AclLevel, FolderReader, Item, Marks, NewNote, Writer, level};
use store::BlobId;

use crate::fixture::{TestServer, assert_sound, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

#[test]
fn positions_count_only_visible_notes() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let secret = || vec![Item::readers("Readers", vec!["Carol/Acme".into()])];
    // Hidden notes at both ends and next to each other, with and without the mark.
    let hidden = |number: u32| number.is_multiple_of(5) || [7, 8, 9, 39].contains(&number);
    let folder = world
        .write(&database, ANN, |writer| {
            let folder = writer.folder_create("F", &[])?;
            for number in 0..40 {
                let items = if hidden(number) { secret() } else { Vec::new() };
                let marks = if number.is_multiple_of(3) { Marks::SEEN } else { Marks::DELETED };
                writer.note_create(NewNote { folders: vec![folder], marks, ..NewNote::document(items) })?;
            }
            Ok(folder)
        })
        .unwrap();
    let access = reader(&database, BOB).unwrap();
    let reading = access.read().unwrap();
    let reader = reading.folder(folder).unwrap();
    let seen: Vec<u32> = (0..40).filter(|number| !hidden(*number)).collect();
    let unseen: Vec<u32> = seen.iter().copied().filter(|number| !number.is_multiple_of(3)).collect();
    let uid = |number: &u32| Uid(number + 1);
    let totals = reader.totals().unwrap();
    assert_eq!((totals.count, totals.restricted), (seen.len() as u64, 0));
    assert_eq!((totals.unseen, totals.deleted), (unseen.len() as u64, unseen.len() as u64));
    let mut listed = Vec::new();
    // A full read leaves the folder in memory for later readers, who may see other notes.
    let collect = &mut |entry: notes::FolderEntry| {
        listed.push(entry.uid);
        Ok(true)
    };
    reader.for_each_entry(Uid(0), collect).unwrap();
    assert_eq!(listed, seen.iter().map(uid).collect::<Vec<_>>());
    check_positions(&reader, &seen, &unseen);
    check_positions(&reading.folder(folder).unwrap(), &seen, &unseen);
}

fn check_positions(reader: &FolderReader<'_>, seen: &[u32], unseen: &[u32]) {
    let uid = |number: &u32| Uid(number + 1);
    for position in 0..45_u64 {
        let at = |list: &[u32]| list.get(position as usize).map(uid);
        assert_eq!(reader.uid_at(position).unwrap(), at(seen), "{position}");
        assert_eq!(reader.unseen_at(position).unwrap().map(|entry| entry.uid), at(unseen), "{position}");
        assert_eq!(reader.deleted_at(position).unwrap().map(|entry| entry.uid), at(unseen), "{position}");
    }
    for (rank, number) in (0..).zip(seen) {
        assert_eq!(reader.rank(uid(number)).unwrap(), rank);
    }
}

#[test]
fn readers_item_outside_the_summary_hides_the_note() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let mut readers = Item::readers("Readers", vec!["Carol/Acme".into()]);
    readers.flags = notes::ItemFlags::READERS;
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(vec![readers]))).unwrap();
    assert_eq!(reader(&database, BOB).unwrap().read().unwrap().note(note).unwrap(), None);
}

#[test]
fn blob_is_readable_only_through_a_note_using_it() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let make = |content: Option<&[u8]>| {
        world
            .write(&database, ANN, |writer| {
                let blob = content.map(|content| writer.blob_put(content)).transpose()?;
                Ok((
                    writer.note_create(NewNote { blobs: blob.into_iter().collect(), ..NewNote::document(vec![]) })?,
                    blob,
                ))
            })
            .unwrap()
    };
    let (other, _) = make(None);
    let (note, blob) = make(Some(b"content"));
    let blob = blob.expect("the content was stored");
    let access = reader(&database, BOB).unwrap();
    let reading = access.read().unwrap();
    assert_eq!(reading.blob(note, &blob).unwrap(), b"content");
    assert!(matches!(reading.blob(other, &blob), Err(notes::Error::NotFound { .. })));
}

#[test]
fn new_note_refers_only_to_blobs_that_its_author_has() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let with = |blob: BlobId, items: Vec<Item>| NewNote { blobs: vec![blob], ..NewNote::document(items) };
    let make = |content: &[u8], items: Vec<Item>| {
        let made = world.write(&database, ANN, |writer| {
            let blob = writer.blob_put(content)?;
            Ok((writer.note_create(with(blob, items))?, blob))
        });
        made.expect("Ann manages the database")
    };
    let (hidden, foreign) = make(b"secret", vec![Item::readers("Readers", vec![ANN.into()])]);
    let (open, shown) = make(b"open", Vec::new());
    let as_bob = |change: &dyn Fn(&mut Writer<'_, '_>) -> notes::Result<NoteId>| world.write(&database, BOB, change);
    let refused = |blob: BlobId, change: &dyn Fn(&mut Writer<'_, '_>) -> notes::Result<NoteId>| {
        let error = as_bob(change).expect_err("the blob is not Bob's").to_string();
        assert_eq!(error, format!("attachment {blob} does not exist"));
    };
    // The answer is the same for content that exists, and for content that the reader has not shown to have.
    for blob in [foreign, shown, BlobId([9; 32])] {
        refused(blob, &|writer| writer.note_create(with(blob, Vec::new())));
    }
    refused(foreign, &|writer| {
        assert_eq!(writer.note(hidden)?, None);
        writer.note_create(with(foreign, Vec::new()))
    });
    as_bob(&|writer| {
        let blobs = writer.note(open)?.expect("it is visible").blobs;
        writer.note_create(NewNote { blobs, ..NewNote::document(Vec::new()) })
    })
    .expect("a copy of a note that Bob reads");
    refused(shown, &|writer| writer.note_create(with(shown, Vec::new())));
    refused(foreign, &|writer| writer.note_update(open, 1, &[], &[shown, foreign]).map(|_| open));
    as_bob(&|writer| writer.note_update(open, 1, &[], &[shown]).map(|_| open)).expect("the note has the blob");
    as_bob(&|writer| {
        let blob = writer.blob_put(b"secret")?;
        assert_eq!(blob, foreign, "equal content is stored once");
        writer.note_create(with(blob, Vec::new()))
    })
    .expect("Bob has the content");
    let access: Access<level::Depositor> = database.authorize(&crate::fixture::server()).expect("it is the server");
    let accesses = [&access];
    let mut transaction = world.databases.transaction(&accesses).expect("the store works");
    transaction.writer(0).note_create(with(shown, Vec::new())).expect("the server itself may");
    transaction.commit().expect("the store works");
    assert_sound(&database);
}
