//! The access matrix: every operation on a database, at every level, on a note that is open to all, shown to the one who asks, or hidden.
//!
//! A row is one operation and the level from which it works. What concerns the note works only where the note is not hidden; so a row that forgets
//! to look at Readers items fails, and so does one that forgets the level. Operations that only the server itself may do never work.

use std::sync::Arc;

use base::{Name, NoteId, Uid, Unid, ViewId};
use notes::{Access, Acl, AclLevel, Database, FolderReader, Item, Marks, NewNote, Reading, Value, Writer, level};
use store::BlobId;

use crate::world::{World, assert_sound, identity, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const UNID: Unid = Unid([7; 16]);
const PARENT: Unid = Unid([6; 16]);

/// What the note's Readers items say of the one who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exposure {
    Open,
    Shown,
    Hidden,
}

/// A database with a parent document and the note in question, both in a folder.
struct Case {
    world: World,
    database: Arc<Database>,
    note: NoteId,
    folder: ViewId,
    other: ViewId,
    blob: BlobId,
}

impl Case {
    fn new(level: AclLevel, exposure: Exposure) -> Self {
        let world = World::new();
        let database = world.database(&[(BOB, level)]);
        let readers = match exposure {
            Exposure::Open => None,
            Exposure::Shown => Some(Item::readers("Readers", vec!["Carol/Acme".into(), BOB.into()])),
            Exposure::Hidden => Some(Item::readers("Readers", vec!["Carol/Acme".into()])),
        };
        let mut items = vec![Item::text("Subject", "x"), Item::body("Body", Value::RichText("text".into()))];
        items.extend(readers);
        let made = world.write(&database, ANN, |writer| {
            let (folder, other) = (writer.folder_create("F", &[])?, writer.folder_create("G", &[])?);
            let first = NewNote { unid: Some(PARENT), folders: vec![folder], ..NewNote::document(Vec::new()) };
            writer.note_create(NewNote { marks: Marks::DELETED, ..first.clone() })?;
            let blob = writer.blob_put(&[7; 10_000])?;
            let note = NewNote {
                unid: Some(UNID),
                parent: Some(PARENT),
                folders: vec![folder],
                marks: Marks::DELETED,
                blobs: vec![blob],
                ..NewNote::document(items)
            };
            let note = writer.note_create(note)?;
            writer.note_create(NewNote { unid: None, ..first })?;
            Ok((note, folder, other, blob))
        });
        let (note, folder, other, blob) = made.expect("Ann manages the database");
        Self { world, database, note, folder, other, blob }
    }

    /// Reads as Bob; tells whether he got there.
    fn read(&self, read: impl FnOnce(&Reading<'_>) -> notes::Result<bool>) -> bool {
        let Ok(access) = reader(&self.database, BOB) else { return false };
        access.read().and_then(|reading| read(&reading)).unwrap_or(false)
    }

    fn folder(&self, read: impl FnOnce(&FolderReader<'_>) -> notes::Result<bool>) -> bool {
        self.read(|reading| read(&reading.folder(self.folder)?))
    }

    /// Writes as Bob; tells whether it was done.
    fn write(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<bool>) -> bool {
        self.world.write(&self.database, BOB, change).unwrap_or(false)
    }

    /// Tells whether Bob may manage the database and then does something with that.
    fn manage(&self, act: impl FnOnce(&Access<level::Manager>) -> notes::Result<()>) -> bool {
        self.database.authorize(&identity(BOB)).and_then(|access| act(&access)).is_ok()
    }

    fn changed(&self) -> bool {
        self.read(|reading| {
            let mut found = false;
            reading.changes(base::Modseq(0), &mut |entry| {
                found |= entry.note == self.note;
                Ok(())
            })?;
            Ok(found)
        })
    }

    fn listed(&self) -> bool {
        self.read(|reading| {
            let mut found = false;
            reading.each_note(NoteId(0), &mut |header| {
                found |= header.note == self.note;
                Ok(true)
            })?;
            Ok(found)
        })
    }

    fn in_folder(&self) -> bool {
        self.folder(|folder| {
            let mut uids = Vec::new();
            folder.each_entry(Uid(0), &mut |entry| {
                uids.push(entry.uid.0);
                Ok(true)
            })?;
            assert!(uids == [1, 2, 3] || uids == [1, 3], "the others are there: {uids:?}");
            Ok(uids.len() == 3)
        })
    }
}

/// From which level an operation works, and whether it concerns the note.
#[derive(Clone, Copy)]
enum Needs {
    /// Concerns the note.
    Note(AclLevel),
    /// Concerns the database.
    Level(AclLevel),
    /// Every level but this and those below `Depositor`.
    AllBut(AclLevel),
    /// The server itself.
    Server,
}

impl Needs {
    fn met(self, level: AclLevel, exposure: Exposure) -> bool {
        match self {
            Self::Note(least) => level >= least && exposure != Exposure::Hidden,
            Self::Level(least) => level >= least,
            Self::AllBut(not) => level >= AclLevel::Depositor && level != not,
            Self::Server => false,
        }
    }
}

type Row = (&'static str, Needs, fn(&Case) -> bool);

use AclLevel::{Author, Depositor, Designer, Editor, Manager, Reader};
use Needs::{AllBut, Level, Note, Server};

const READING: &[Row] = &[
    ("header", Note(Reader), |c| c.read(|r| Ok(r.header(c.note)?.is_some()))),
    ("summary", Note(Reader), |c| c.read(|r| Ok(r.summary(c.note)?.is_some()))),
    ("note", Note(Reader), |c| c.read(|r| Ok(r.note(c.note)?.is_some()))),
    ("body item", Note(Reader), |c| c.read(|r| Ok(r.body_item(c.note, 0)?.is_some()))),
    ("find", Note(Reader), |c| c.read(|r| Ok(r.find(UNID)?.is_some()))),
    ("children", Note(Reader), |c| c.read(|r| Ok(r.children(PARENT)?.contains(&c.note)))),
    ("each note", Note(Reader), Case::listed),
    ("changes", Note(Reader), Case::changed),
    ("blob", Note(Reader), |c| c.read(|r| Ok(r.blob(c.note, &c.blob)?.len() == 10_000))),
    ("blob range", Note(Reader), |c| c.read(|r| Ok(r.blob_range(c.note, &c.blob, 1..3)?.len() == 2))),
    ("folders", Level(Reader), |c| c.read(|r| Ok(r.folders()?.len() == 2))),
    ("access control list", Level(Reader), |c| c.read(|r| Ok(!r.acl().entries.is_empty()))),
    ("snapshot", Server, |c| c.read(|r| r.snapshot().map(|_| true))),
    ("marks of others", Server, |c| c.read(|r| r.is_read_by(&Name::new(ANN), c.note).map(|_| true))),
    ("folder: entry", Note(Reader), |c| c.folder(|f| Ok(f.entry(Uid(2))?.is_some()))),
    ("folder: count", Note(Reader), |c| c.folder(|f| Ok(f.totals()?.count == 3))),
    ("folder: unseen", Note(Reader), |c| c.folder(|f| Ok(f.totals()?.unseen == 3))),
    ("folder: deleted", Note(Reader), |c| c.folder(|f| Ok(f.totals()?.deleted == 2))),
    ("folder: rank", Note(Reader), |c| c.folder(|f| Ok(f.rank(Uid(3))? == 2))),
    ("folder: position", Note(Reader), |c| c.folder(|f| Ok(f.uid_at(1)? == Some(Uid(2)) && f.uid_at(2)?.is_some()))),
    ("folder: unseen by number", Note(Reader), |c| {
        c.folder(|f| Ok(f.unseen_at(1)?.is_some_and(|entry| entry.uid == Uid(2)) && f.unseen_at(2)?.is_some()))
    }),
    ("folder: deleted by number", Note(Reader), |c| c.folder(|f| Ok(f.deleted_at(1)?.is_some()))),
    ("folder: entries", Note(Reader), Case::in_folder),
];

const WRITING: &[Row] = &[
    ("read a note while writing", Note(Reader), |c| c.write(|w| Ok(w.note(c.note)?.is_some()))),
    ("read an entry while writing", Note(Reader), |c| c.write(|w| Ok(w.folder_entry(c.folder, Uid(2))?.is_some()))),
    ("read a folder while writing", Note(Reader), |c| c.write(|w| Ok(w.folder_read(c.folder)?.totals()?.count == 3))),
    ("state of a folder", Level(Reader), |c| c.write(|w| w.folder_state(c.folder).map(|_| true))),
    ("folders while writing", Level(Reader), |c| c.write(|w| Ok(w.folders()?.len() == 2))),
    ("put content", Level(Depositor), |c| c.write(|w| w.blob_put(b"content").map(|_| true))),
    ("create", AllBut(Reader), |c| c.write(|w| w.note_create(NewNote::document(Vec::new())).map(|_| true))),
    ("update", Note(Editor), |c| {
        c.write(|w| w.note_update(c.note, 1, &[Item::text("Subject", "y")], &[]).map(|_| true))
    }),
    ("delete", Note(Editor), |c| c.write(|w| w.note_delete(c.note))),
    ("set marks", Note(Author), |c| c.write(|w| w.marks_set(c.note, Marks::FLAGGED, &["Work".into()]))),
    ("add to a folder", Note(Author), |c| c.write(|w| w.folder_add(c.note, c.other).map(|_| true))),
    ("remove from a folder", Note(Author), |c| c.write(|w| w.folder_remove(c.note, c.folder))),
    ("mark as read", Note(Reader), |c| {
        c.write(|w| w.mark_read(&[c.note]).map(|()| true)) && c.read(|r| r.is_read(c.note))
    }),
    ("mark as unread", Note(Reader), |c| {
        c.write(|w| w.mark_read(&[c.note]).map(|()| true))
            && c.read(|r| r.is_read(c.note))
            && c.write(|w| w.mark_unread(&[c.note]).map(|()| true))
            && c.read(|r| Ok(!r.is_read(c.note)?))
    }),
    ("mark for others", Server, |c| c.write(|w| w.mark_read_by(&Name::new(ANN), &[c.note]).map(|()| true))),
    ("unmark for others", Server, |c| c.write(|w| w.mark_unread_by(&Name::new(ANN), &[c.note]).map(|()| true))),
    ("the batch", Server, |c| c.write(|w| w.batch().map(|_| true))),
    ("make a folder", Level(Designer), |c| c.write(|w| w.folder_create("H", &[]).map(|_| true))),
    ("rename a folder", Level(Designer), |c| c.write(|w| w.folder_rename(c.other, "H").map(|()| true))),
    ("set an attribute", Level(Designer), |c| c.write(|w| w.folder_set(c.other, "$X", Some("1")).map(|()| true))),
    ("delete a folder", Level(Designer), |c| c.write(|w| w.folder_delete(c.other).map(|()| true))),
    ("delete a folder that is not empty", Server, |c| c.write(|w| w.folder_delete(c.folder).map(|()| true))),
    ("set the access control list", Level(Manager), |c| {
        c.write(|w| w.acl_set(Acl::open_to_all(AclLevel::Reader)).map(|()| true))
    }),
    ("rename the database", Level(Manager), |c| c.manage(|access| c.world.notes.database_rename(access, "other.nsf"))),
    ("set the database's options", Level(Manager), |c| {
        c.manage(|access| c.world.notes.database_set(access, "Title", notes::DatabaseOptions::default()))
    }),
    ("delete the database", Level(Manager), |c| c.manage(|access| c.world.notes.database_delete(access))),
];

#[test]
fn every_operation_asks_for_the_level_and_for_the_readers() {
    for (name, needs, operation) in READING.iter().chain(WRITING) {
        for level in AclLevel::ALL {
            for exposure in [Exposure::Open, Exposure::Shown, Exposure::Hidden] {
                let case = Case::new(level, exposure);
                let expected = needs.met(level, exposure);
                assert_eq!(operation(&case), expected, "{name}, {level}, {exposure:?}");
                if case.world.notes.database_open("docs.nsf").is_ok() {
                    assert_sound(&case.database);
                }
            }
        }
    }
}

#[test]
fn positions_count_what_is_seen() {
    let world = World::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let secret = || vec![Item::readers("Readers", vec!["Carol/Acme".into()])];
    // Hidden at both ends, next to each other, seen and unseen.
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
    // Who reads the folder as a whole leaves it in memory for the readers after him, who see other things.
    let collect = &mut |entry: notes::Entry| {
        listed.push(entry.uid);
        Ok(true)
    };
    reader.each_entry(Uid(0), collect).unwrap();
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
fn a_readers_item_counts_wherever_it_is_put() {
    let world = World::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let mut readers = Item::readers("Readers", vec!["Carol/Acme".into()]);
    readers.flags = notes::ItemFlags::READERS;
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(vec![readers]))).unwrap();
    assert_eq!(reader(&database, BOB).unwrap().read().unwrap().note(note).unwrap(), None);
}

#[test]
fn content_is_given_only_with_a_note_that_uses_it() {
    let world = World::new();
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
    let ((other, _), (note, blob)) = (make(None), make(Some(b"content")));
    let blob = blob.expect("it was put");
    let access = reader(&database, BOB).unwrap();
    let reading = access.read().unwrap();
    assert_eq!(reading.blob(note, &blob).unwrap(), b"content");
    assert!(matches!(reading.blob(other, &blob), Err(notes::Error::NotFound { .. })));
}
