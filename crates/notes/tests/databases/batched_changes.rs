//! Several changes in one transaction have the same effect as in separate transactions: the same notes, marks and
//! folders, and no extra records.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{NoteId, Uid, ViewId};
use notes::{AclLevel, Database, Error, Item, ItemValue, Marks, NewNote, Writer};
use proptest::prelude::*;
use store::{BlobId, Direction, KeyRange, Table, TableReader};

use crate::fixture::{TestServer, assert_sound, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

/// The contents of a note: the lengths of its body items, and the numbers of its attachments.
#[derive(Clone, Debug)]
struct Contents {
    lengths: Vec<usize>,
    attachments: Vec<u8>,
}

/// A change of the notes of one database. Notes and folders are given by their position among the existing ones.
#[derive(Clone, Debug)]
enum Step {
    Create(Contents, Option<usize>),
    Update(usize, Contents),
    Delete(usize),
    Mark(usize, u8),
    File(usize, usize),
    Unfile(usize, usize),
    Read(usize, bool),
}

fn contents() -> impl Strategy<Value = Contents> {
    let lengths = prop::collection::vec(prop_oneof![3 => 0_usize..9_000, 1 => 1_000_000_usize..2_200_000], 0..4);
    (lengths, prop::collection::vec(0_u8..4, 0..3)).prop_map(|(lengths, attachments)| Contents { lengths, attachments })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (contents(), prop::option::of(0_usize..2)).prop_map(|(contents, folder)| Step::Create(contents, folder)),
        4 => (0_usize..4, contents()).prop_map(|(note, contents)| Step::Update(note, contents)),
        1 => (0_usize..4).prop_map(Step::Delete),
        1 => (0_usize..4, 0_u8..32).prop_map(|(note, marks)| Step::Mark(note, marks)),
        1 => (0_usize..4, 0_usize..2).prop_map(|(note, folder)| Step::File(note, folder)),
        1 => (0_usize..4, 0_usize..2).prop_map(|(note, folder)| Step::Unfile(note, folder)),
        2 => (0_usize..4, any::<bool>()).prop_map(|(note, read)| Step::Read(note, read)),
    ]
}

/// The readable state of a note.
#[derive(Debug, PartialEq)]
struct NoteState {
    items: Vec<Item>,
    blobs: Vec<BlobId>,
    sequence: u32,
    marks: Marks,
    folders: Vec<ViewId>,
    is_read: bool,
}

/// A database with two folders in which Bob makes changes, and the notes that he has created.
struct Scenario {
    world: TestServer,
    database: Arc<Database>,
    folders: Vec<ViewId>,
    /// The existing notes, with their sequence numbers.
    notes: Vec<(NoteId, u32)>,
}

impl Scenario {
    fn new() -> Self {
        let world = TestServer::new();
        let database = world.database(&[(BOB, AclLevel::Editor)]);
        let folders = world
            .write(&database, ANN, |writer| Ok(vec![writer.folder_create("F", &[])?, writer.folder_create("G", &[])?]));
        Self { world, database, folders: folders.expect("Ann may"), notes: Vec::new() }
    }

    /// Makes the changes as Bob, several in each transaction. Bob's unread marks are in a table of their own.
    fn run(&mut self, steps: &[Step], steps_per_transaction: usize) {
        for some in steps.chunks(steps_per_transaction) {
            let folders = self.folders.clone();
            let mut notes = self.notes.clone();
            let done = self.world.write(&self.database, BOB, |writer| {
                some.iter().try_for_each(|step| apply(writer, step, &folders, &mut notes))?;
                Ok(notes)
            });
            self.notes = done.expect("every step is permitted");
            assert_sound(&self.database);
        }
    }

    /// Returns the state of the notes as they read.
    fn note_states(&self) -> Vec<NoteState> {
        let access = reader(&self.database, BOB).expect("Bob may");
        let reading = access.read().expect("a snapshot");
        let states = self.notes.iter().map(|(number, _)| {
            let note = reading.note(*number).expect("it is sound").expect("the note exists");
            let header = note.header;
            let mut folders: Vec<ViewId> = header.folders.iter().map(|membership| membership.folder).collect();
            folders.sort_unstable();
            let is_read = reading.is_read(*number).expect("the mark can be read");
            let sequence = header.sequence;
            let marks = header.marks;
            NoteState { items: note.items, blobs: note.blobs, sequence, marks, folders, is_read }
        });
        states.collect()
    }

    /// Returns the keys of a table.
    fn keys(&self, table: Table) -> BTreeSet<Vec<u8>> {
        let store = self.world.databases.store();
        let mut cursor = store.scan(table, &KeyRange::all(), Direction::Forward).expect("a table");
        let mut keys = BTreeSet::new();
        while let Some((key, _)) = cursor.next().expect("a record") {
            keys.insert(key.to_vec());
        }
        keys
    }
}

fn apply(
    writer: &mut Writer<'_, '_>,
    step: &Step,
    folders: &[ViewId],
    notes: &mut Vec<(NoteId, u32)>,
) -> notes::Result<()> {
    if let Step::Create(contents, folder) = step {
        let blobs = contents.attachments.iter().map(|number| writer.blob_put(&attachment(*number)));
        let blobs = blobs.collect::<notes::Result<Vec<_>>>()?;
        let folders = folder.map(|folder| folders[folder]).into_iter().collect();
        let note = writer.note_create(NewNote { blobs, folders, ..NewNote::document(items(contents)) })?;
        notes.push((note, 1));
        return Ok(());
    }
    let index = match step {
        Step::Create(..) => return Ok(()),
        Step::Update(note, _) | Step::Delete(note) | Step::Mark(note, _) | Step::Read(note, _) => note,
        Step::File(note, _) | Step::Unfile(note, _) => note,
    };
    let Some((note, sequence)) = notes.get_mut(*index) else { return Ok(()) };
    match step {
        Step::Update(_, contents) => {
            let blobs = contents.attachments.iter().map(|number| writer.blob_put_for(*note, &attachment(*number)));
            let blobs = blobs.collect::<notes::Result<Vec<_>>>()?;
            *sequence = writer.note_update(*note, *sequence, &items(contents), &blobs)?;
        }
        Step::Delete(_) => {
            assert!(writer.note_delete(*note)?);
            notes.remove(*index);
        }
        Step::Mark(_, marks) => drop(writer.marks_set(*note, Marks(*marks), &[])?),
        Step::File(_, folder) => drop::<Uid>(writer.folder_add(*note, folders[*folder])?),
        Step::Unfile(_, folder) => drop(writer.folder_remove(*note, folders[*folder])?),
        Step::Read(_, true) => writer.mark_read(&[*note])?,
        Step::Read(_, false) => writer.mark_unread(&[*note])?,
        Step::Create(..) => {}
    }
    Ok(())
}

fn items(contents: &Contents) -> Vec<Item> {
    let bytes = |length: &usize| (0..*length).map(|number| number as u8).collect();
    let body = contents.lengths.iter().map(|length| Item::body("Body", ItemValue::MimePart(bytes(length))));
    body.chain([Item::text("Count", contents.lengths.len().to_string())]).collect()
}

fn attachment(number: u8) -> Vec<u8> {
    vec![number; 5_000]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn one_transaction_equals_several_transactions(
        steps in prop::collection::vec(step(), 1..12),
        steps_per_transaction in 2_usize..6
    ) {
        let mut each = Scenario::new();
        let mut together = Scenario::new();
        each.run(&steps, 1);
        together.run(&steps, steps_per_transaction);
        prop_assert_eq!(each.note_states(), together.note_states());
        for table in [Table::Summary, Table::Unread] {
            prop_assert_eq!(each.keys(table), together.keys(table));
        }
        // The revisions of a note that was created in the same transaction name all its items as changed.
        let is_item = |key: &&Vec<u8>| key.get(8..10) != Some(&[0xFF, 0xFF]);
        let bodies = |scenario: &Scenario| scenario.keys(Table::Body).iter().filter(is_item).cloned().collect::<Vec<_>>();
        prop_assert_eq!(bodies(&each), bodies(&together));
        // A reference to a blob that a batch has added stays, even if the note drops the blob in the same batch. That
        // costs space, never content.
        prop_assert!(each.keys(Table::BlobRef).is_subset(&together.keys(Table::BlobRef)));
    }
}

#[test]
fn folder_filled_in_the_same_transaction_is_not_empty() {
    let mut scenario = Scenario::new();
    scenario.run(&[Step::Create(Contents { lengths: Vec::new(), attachments: Vec::new() }, None)], 1);
    let note = scenario.notes[0].0;
    let folder = scenario.folders[0];
    let outcome = scenario.world.write(&scenario.database, ANN, |writer| {
        writer.folder_add(note, folder)?;
        writer.folder_delete(folder)
    });
    assert!(matches!(outcome, Err(Error::NotEmpty { .. })), "{outcome:?}");
    scenario.world.write(&scenario.database, ANN, |writer| writer.folder_delete(folder)).expect("it is empty");
    assert_sound(&scenario.database);
}

#[test]
fn writer_reports_the_final_modseq() {
    let mut scenario = Scenario::new();
    scenario.run(&[Step::Create(Contents { lengths: Vec::new(), attachments: Vec::new() }, None)], 1);
    let note = scenario.notes[0].0;
    let folder = scenario.folders[0];
    let before = scenario.database.modseq();
    let idle = scenario.world.write(&scenario.database, ANN, |writer| {
        assert!(!writer.note_delete(NoteId(9_999))?, "there is no such note");
        Ok(writer.modseq())
    });
    assert_eq!((idle.expect("nothing to do"), scenario.database.modseq()), (before, before));
    let filed = scenario.world.write(&scenario.database, ANN, |writer| {
        writer.folder_add(note, folder)?;
        Ok(writer.modseq())
    });
    assert_eq!(filed.expect("within the limit"), scenario.database.modseq());
    assert!(scenario.database.modseq() > before);
}
