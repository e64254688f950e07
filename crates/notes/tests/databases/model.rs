//! Random transactions against a naive model: maps that are searched from end to end.

use std::collections::{BTreeMap, BTreeSet};

use base::{NoteId, Uid, ViewId};
use notes::{Item, Marks, NewNote};
use proptest::prelude::*;

use crate::fixture::{TestServer, assert_sound, reader};

const ANN: &str = "Ann/Acme";

#[derive(Clone, Debug)]
enum Step {
    Create {
        folder: usize,
        text: u8,
    },
    Update {
        note: usize,
        text: u8,
    },
    Delete {
        note: usize,
    },
    Restore {
        note: usize,
    },
    /// Permanent deletion, of an existing document or of one that is soft-deleted.
    DeletePermanently {
        note: usize,
        is_deleted: bool,
    },
    Mark {
        note: usize,
        marks: u8,
        keyword: Option<u8>,
    },
    /// Marks in one folder. The mark of deletion concerns no other one.
    MarkIn {
        note: usize,
        folder: usize,
        marks: u8,
    },
    Move {
        note: usize,
        from: usize,
        to: usize,
    },
    Add {
        note: usize,
        folder: usize,
    },
    /// A full read of the folders, so that they are kept in memory from then on.
    ReadFolders,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let note = 0..40usize;
    let folder = 0..3usize;
    prop_oneof![
        6 => (folder.clone(), any::<u8>()).prop_map(|(folder, text)| Step::Create { folder, text }),
        2 => (note.clone(), any::<u8>()).prop_map(|(note, text)| Step::Update { note, text }),
        2 => note.clone().prop_map(|note| Step::Delete { note }),
        1 => note.clone().prop_map(|note| Step::Restore { note }),
        1 => (note.clone(), any::<bool>()).prop_map(|(note, is_deleted)| Step::DeletePermanently { note, is_deleted }),
        3 => (note.clone(), 0..32u8, proptest::option::of(0..3u8)).prop_map(|(note, marks, keyword)| Step::Mark { note, marks, keyword }),
        3 => (note.clone(), folder.clone(), 0..32u8).prop_map(|(note, folder, marks)| Step::MarkIn { note, folder, marks }),
        2 => (note.clone(), folder.clone(), folder.clone()).prop_map(|(note, from, to)| Step::Move { note, from, to }),
        3 => (note, folder).prop_map(|(note, folder)| Step::Add { note, folder }),
        2 => Just(Step::ReadFolders),
        1 => Just(Step::Restart),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct ModelNote {
    text: u8,
    sequence: u32,
    /// The marks of the note. That of deletion is among them only if it has at most one place.
    marks: Marks,
    keywords: Vec<String>,
}

#[derive(Default)]
struct Model {
    notes: BTreeMap<NoteId, ModelNote>,
    /// The restorable documents, each with the folders that it was in, in the order in which it was added to them.
    deleted: BTreeMap<NoteId, (ModelNote, Vec<ViewId>)>,
    /// The folders, each with its notes by UID and its next UID.
    folders: Vec<(ViewId, BTreeMap<Uid, NoteId>, u32)>,
    /// The places with the mark of deletion, of notes with several places.
    deleted_in: BTreeSet<(NoteId, usize)>,
}

impl Model {
    fn pick(&self, index: usize) -> Option<NoteId> {
        self.notes.keys().nth(index % self.notes.len().max(1)).copied()
    }

    /// Returns the folders of a note.
    fn places(&self, note: NoteId) -> Vec<usize> {
        let has = |folder: &usize| self.folders[*folder].1.values().any(|known| *known == note);
        (0..self.folders.len()).filter(has).collect()
    }

    fn put(&mut self, folder: usize, note: NoteId) {
        let places = self.places(note);
        if places.contains(&folder) {
            return;
        }
        let (_, entries, next) = &mut self.folders[folder];
        entries.insert(Uid(*next), note);
        *next += 1;
        if let Some(first) = places.first() {
            let known = self.notes.get_mut(&note).unwrap();
            if places.len() == 1 && known.marks.contains(Marks::DELETED) {
                self.deleted_in.insert((note, *first));
            }
            known.marks = known.marks.difference(Marks::DELETED);
        }
    }

    fn take(&mut self, folder: usize, note: NoteId) {
        let was_there = self.places(note).contains(&folder);
        self.folders[folder].1.retain(|_, known| *known != note);
        self.deleted_in.remove(&(note, folder));
        if let [only] = self.places(note)[..]
            && was_there
        {
            let is_deleted = self.deleted_in.remove(&(note, only));
            if let Some(known) = self.notes.get_mut(&note) {
                let others = known.marks.difference(Marks::DELETED);
                known.marks = if is_deleted { others.union(Marks::DELETED) } else { others };
            }
        }
    }

    /// Sets the marks of a note, that of deletion in some folders.
    fn mark(&mut self, note: NoteId, marks: Marks, folders: &[usize]) {
        let places = self.places(note);
        let known = self.notes.get_mut(&note).unwrap();
        known.marks = marks;
        if places.len() < 2 {
            return;
        }
        known.marks = marks.difference(Marks::DELETED);
        for folder in folders {
            self.deleted_in.remove(&(note, *folder));
            self.deleted_in.extend(marks.contains(Marks::DELETED).then_some((note, *folder)));
        }
    }

    /// Returns the marks of a note in a folder.
    fn marks_in(&self, note: NoteId, folder: usize) -> Marks {
        let is_deleted = self.deleted_in.contains(&(note, folder));
        let marks = self.notes[&note].marks;
        if is_deleted { marks.union(Marks::DELETED) } else { marks }
    }
}

fn header_of(world: &TestServer, note: NoteId) -> notes::NoteHeader {
    let database = world.databases.database_open("docs.nsf").unwrap();
    let header = reader(&database, ANN).unwrap().read().unwrap().header(note).unwrap();
    header.expect("the model has it")
}

fn items(text: u8) -> Vec<Item> {
    vec![Item::text("Subject", format!("{text}"))]
}

fn apply(world: &TestServer, model: &mut Model, step: &Step) {
    let database = world.databases.database_open("docs.nsf").unwrap();
    let write = |change: &mut dyn FnMut(&mut notes::Writer<'_, '_>) -> notes::Result<()>| {
        world.write(&database, ANN, |writer| change(writer)).unwrap();
    };
    match *step {
        Step::Create { folder, text } => {
            let new = NewNote { folders: vec![model.folders[folder].0], ..NewNote::document(items(text)) };
            let note = world.write(&database, ANN, |writer| writer.note_create(new)).unwrap();
            let known = ModelNote { text, sequence: 1, marks: Marks::NONE, keywords: Vec::new() };
            model.notes.insert(note, known);
            model.put(folder, note);
        }
        Step::Update { note, text } => {
            let Some(note) = model.pick(note) else { return };
            let known = model.notes.get_mut(&note).unwrap();
            write(&mut |writer| writer.note_update(note, known.sequence, &items(text), &[]).map(drop));
            known.text = text;
            known.sequence += 1;
        }
        Step::Delete { note } => {
            let Some(note) = model.pick(note) else { return };
            let folders = header_of(world, note).folders.iter().map(|membership| membership.folder).collect();
            write(&mut |writer| writer.note_delete(note).map(drop));
            let mut known = model.notes.remove(&note).unwrap();
            known.sequence += 1;
            model.deleted.insert(note, (known, folders));
            model.deleted_in.retain(|(known, _)| *known != note);
            (0..3).for_each(|folder| model.take(folder, note));
        }
        Step::Restore { note } => {
            let Some(note) = model.deleted.keys().nth(note % model.deleted.len().max(1)).copied() else { return };
            write(&mut |writer| writer.note_restore(note));
            let (mut known, folders) = model.deleted.remove(&note).unwrap();
            known.sequence += 1;
            model.notes.insert(note, known);
            for view in folders {
                let index = model.folders.iter().position(|(folder, ..)| *folder == view).unwrap();
                model.put(index, note);
            }
            model.deleted_in.retain(|(known, _)| *known != note);
        }
        Step::DeletePermanently { note, is_deleted } => {
            let picked = match is_deleted {
                true => model.deleted.keys().nth(note % model.deleted.len().max(1)).copied(),
                false => model.pick(note),
            };
            let Some(note) = picked else { return };
            write(&mut |writer| writer.note_delete_permanently(note).map(|was| assert!(was)));
            model.notes.remove(&note);
            model.deleted.remove(&note);
            (0..3).for_each(|folder| model.take(folder, note));
        }
        Step::Mark { note, marks, keyword } => {
            let Some(note) = model.pick(note) else { return };
            let keywords: Vec<String> = keyword.iter().map(|number| format!("Key{number}")).collect();
            write(&mut |writer| writer.marks_set(note, Marks(marks), &keywords).map(drop));
            let places = model.places(note);
            model.mark(note, Marks(marks), &places);
            model.notes.get_mut(&note).unwrap().keywords = keywords;
        }
        Step::MarkIn { note, folder, marks } => {
            let Some(note) = model.pick(note) else { return };
            if !model.places(note).contains(&folder) {
                return;
            }
            let keywords = model.notes[&note].keywords.clone();
            let place = (note, model.folders[folder].0);
            write(&mut |writer| writer.marks_set_in(place, Marks(marks), &keywords).map(drop));
            model.mark(note, Marks(marks), &[folder]);
        }
        Step::Move { note, from, to } => {
            let Some(note) = model.pick(note) else { return };
            let source = model.folders[from].0;
            let target = model.folders[to].0;
            write(&mut |writer| {
                writer.folder_remove(note, source)?;
                writer.folder_add(note, target).map(drop)
            });
            model.take(from, note);
            model.put(to, note);
        }
        Step::Add { note, folder } => {
            let Some(note) = model.pick(note) else { return };
            let target = model.folders[folder].0;
            write(&mut |writer| writer.folder_add(note, target).map(drop));
            model.put(folder, note);
        }
        Step::ReadFolders => {
            let access = reader(&database, ANN).unwrap();
            let reading = access.read().unwrap();
            for (view, _, _) in &model.folders {
                reading.folder(*view).unwrap().for_each_entry(Uid(0), &mut |_| Ok(true)).unwrap();
            }
        }
        Step::Restart => {}
    }
}

fn keep_deleted(world: &TestServer, database: &std::sync::Arc<notes::Database>) {
    let access: notes::Access<notes::level::Manager> = database.authorize(&crate::fixture::identity(ANN)).unwrap();
    let options = notes::DatabaseOptions { keep_deleted_hours: Some(1), ..notes::DatabaseOptions::default() };
    world.databases.database_options_set(&access, "", options).unwrap();
}

fn compare(world: &TestServer, model: &Model) {
    let database = world.databases.database_open("docs.nsf").unwrap();
    let access = reader(&database, ANN).unwrap();
    let reading = access.read().unwrap();
    for (note, known) in &model.notes {
        let read = reading.note(*note).unwrap().expect("the model has it");
        let keywords: Vec<String> = {
            let table = database.keywords();
            read.header.keywords.iter().filter_map(|keyword| table.name(*keyword)).map(str::to_owned).collect()
        };
        let found = ModelNote {
            text: read.text("Subject").unwrap().parse().unwrap(),
            sequence: read.header.sequence,
            marks: read.header.marks,
            keywords,
        };
        assert_eq!(found, *known);
    }
    let deleted = reading.deleted_notes(NoteId(0), usize::MAX).unwrap();
    assert_eq!(
        deleted.iter().map(|found| found.header.note).collect::<Vec<_>>(),
        model.deleted.keys().copied().collect::<Vec<_>>()
    );
    for found in &deleted {
        let (known, folders) = &model.deleted[&found.header.note];
        let note = reading.deleted_note(found.header.note, &mut |_| true).unwrap().expect("it is listed");
        assert_eq!(note.text("Subject").unwrap(), format!("{}", known.text));
        assert_eq!(found.deletion.folders, *folders);
    }
    assert_eq!(reading.counters().notes, model.notes.len() as u64 + 4, "the list, and three folders");
    for (number, (view, entries, next)) in model.folders.iter().enumerate() {
        let folder = reading.folder(*view).unwrap();
        let mut found = BTreeMap::new();
        folder
            .for_each_entry(Uid(0), &mut |entry| {
                assert_eq!(entry.marks, model.marks_in(entry.note, number));
                Ok(found.insert(entry.uid, entry.note).is_none())
            })
            .unwrap();
        assert_eq!(found, *entries);
        assert_eq!(folder.state().uid_next, Uid(*next));
        let notes = || entries.values().map(|note| model.marks_in(*note, number));
        let totals = folder.totals().unwrap();
        assert_eq!(totals.count, entries.len() as u64);
        assert_eq!(totals.unseen, notes().filter(|marks| !marks.contains(Marks::SEEN)).count() as u64);
        assert_eq!(totals.deleted, notes().filter(|marks| marks.contains(Marks::DELETED)).count() as u64);
        let with = |is: &dyn Fn(Marks) -> bool| {
            let chosen = entries.iter().filter(|(_, note)| is(model.marks_in(**note, number)));
            chosen.map(|(uid, _)| *uid).collect::<Vec<_>>()
        };
        for (at, uid) in with(&|marks| !marks.contains(Marks::SEEN)).into_iter().enumerate() {
            assert_eq!(folder.unseen_at(at as u64).unwrap().unwrap().uid, uid);
        }
        for (at, uid) in with(&|marks| marks.contains(Marks::DELETED)).into_iter().enumerate() {
            assert_eq!(folder.deleted_at(at as u64).unwrap().unwrap().uid, uid);
        }
        for (rank, uid) in entries.keys().enumerate() {
            assert_eq!(folder.rank(*uid).unwrap(), rank as u64);
            assert_eq!(folder.uid_at(rank as u64).unwrap(), Some(*uid));
        }
    }
    assert_sound(&database);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn databases_match_the_model(steps in proptest::collection::vec(step(), 1..120)) {
        let mut world = TestServer::new();
        let database = world.database(&[]);
        let views = world.write(&database, ANN, |writer| {
            ["A", "B", "C"].into_iter().map(|name| writer.folder_create(name, &[])).collect::<notes::Result<Vec<_>>>()
        }).unwrap();
        keep_deleted(&world, &database);
        drop(database);
        let folders = views.into_iter().map(|view| (view, BTreeMap::new(), 1)).collect();
        let mut model = Model { folders, ..Model::default() };
        for step in &steps {
            if matches!(step, Step::Restart) {
                world = world.restarted();
            }
            apply(&world, &mut model, step);
        }
        compare(&world, &model);
        compare(&world.restarted(), &model);
    }
}
