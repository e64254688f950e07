//! Views against a naive evaluation: after any change of documents, the rows equal those of a full sort.

use std::collections::{BTreeMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use base::sim::SeededRandom;
use base::{Name, NoteId, Random, Timestamp, Unid};
use formula::outcome::SelectedResponses;
use notes::view::build::BuildOptions;
use notes::view::navigate::{Navigator, RowExpansion};
use notes::view::note::ViewNote;
use notes::view::read_entries::{EntriesRequest, EntryContents, EntryReader, HierarchyCounts, ReadMask, StartPosition};
use notes::view::reader::{Tumbler, ViewReader, ViewRow, ViewRowContents};
use notes::view::sort_key::SortDirection;
use notes::view::view_cache::OpenView;
use notes::view::view_format::{ClickSorts, Column, Total, ViewDesign};
use notes::{Access, Acl, AclLevel, Database, DatabaseSnapshot, Error, Item, ItemValue, NewNote, NoteHeader, level};

use crate::fixture::{TestServer, assert_sound, identity, reader, scanned_index_bytes, server};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
/// A role that Bob has part of the time.
const STAFF: &str = "[Staff]";
const KINDS: [&str; 8] = ["", "a", "A", "a\\b", "a\\b\\c", "d", "\\b", "a\\"];
const NAMES: [&str; 4] = ["x", "y", "Y", "z"];

/// The time after which deletions are purged.
const PURGE_INTERVAL: Duration = Duration::from_secs(91 * 86_400);

/// The test's copy of a document.
#[derive(Clone, Debug)]
struct Document {
    note: NoteId,
    unid: Unid,
    parent: Option<Unid>,
    take: bool,
    kinds: Vec<&'static str>,
    name: &'static str,
    price: Option<f64>,
    readers: Option<&'static str>,
    sequence: u32,
    created: Timestamp,
}

impl Document {
    fn items(&self) -> Vec<Item> {
        let mut items = vec![
            Item::text("Take", if self.take { "yes" } else { "no" }),
            Item::summary("Kind", ItemValue::TextList(self.kinds.iter().map(|kind| (*kind).to_owned()).collect())),
            Item::text("Name", self.name),
        ];
        items.extend(self.price.map(|price| Item::summary("Price", ItemValue::Number(price))));
        items.extend(self.readers.map(|name| Item::readers("Readers", vec![name.to_owned()])));
        items
    }
}

fn design(responses: bool, name_order: SortDirection, inclusion: SelectedResponses) -> ViewNote {
    let column = |item: &str| Column { title: item.into(), item: item.into(), ..Column::default() };
    let up = Some(SortDirection::Ascending);
    let selection = match inclusion {
        SelectedResponses::None => "SELECT Take = \"yes\"",
        SelectedResponses::Children => "SELECT Take = \"yes\" | @AllChildren",
        SelectedResponses::Descendants => "SELECT Take = \"yes\" | @AllDescendants",
    };
    let design = ViewDesign {
        shows_response_hierarchy: responses,
        columns: vec![
            Column { sort: up, categorized: true, multi_value: true, ..column("Kind") },
            Column {
                sort: Some(name_order),
                clicks: ClickSorts { ascending: true, descending: false },
                ..column("Name")
            },
            Column { total: Total::Sum, ..column("Price") },
        ],
        ..ViewDesign::default()
    };
    ViewNote { title: "By Kind".into(), selection: selection.into(), design, ..ViewNote::default() }
}

/// A database, a view of it, and the documents that it should show.
struct ViewFixture {
    world: TestServer,
    database: Arc<Database>,
    view: NoteId,
    responses: bool,
    inclusion: SelectedResponses,
    documents: BTreeMap<NoteId, Document>,
    /// UNIDs that have responses but no document: they are unused, or their documents were deleted. New documents may
    /// get them.
    unids_with_responses: Vec<Unid>,
    /// `true` while Bob has the role.
    is_staff: bool,
    random: SeededRandom,
}

impl ViewFixture {
    fn new(seed: u64, responses: bool, order: SortDirection, inclusion: SelectedResponses) -> Self {
        let world = TestServer::new();
        let database = world.database(&[(BOB, AclLevel::Editor)]);
        let design = design(responses, order, inclusion);
        let view = world.write(&database, ANN, |writer| writer.view_create(&design)).expect("the view is created");
        // The world uses the first seeds itself. A distant seed prevents equal UNIDs.
        let random = SeededRandom::new(seed + (1 << 40));
        let documents = BTreeMap::new();
        let unids_with_responses = Vec::new();
        Self { world, database, view, responses, inclusion, documents, unids_with_responses, is_staff: false, random }
    }

    /// Opens the view for a user, or for the server itself.
    fn look<T>(&self, who: Option<&str>, look: impl FnOnce(&DatabaseSnapshot<'_>, &OpenView) -> T) -> T {
        let identity = who.map_or_else(server, identity);
        let access: Access<level::Reader> = self.database.authorize(&identity).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let view = reading.view(self.view).expect("the view exists");
        look(&reading, &view)
    }

    fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    fn any_document(&self) -> Option<NoteId> {
        let notes: Vec<NoteId> = self.documents.keys().copied().collect();
        (!notes.is_empty()).then(|| self.pick(&notes))
    }

    fn draw(&self, document: &mut Document) {
        document.take = self.random.below(4) > 0;
        document.kinds = (0..self.random.below(3)).map(|_| self.pick(&KINDS)).collect();
        document.name = self.pick(&NAMES);
        document.readers = self.pick(&[None, None, Some(ANN), Some(BOB), Some(STAFF)]);
        document.price = (self.random.below(3) > 0).then(|| self.random.below(1_000) as f64 / 10.0);
    }

    fn step(&mut self) {
        match (self.random.below(10), self.any_document()) {
            (0..=1, Some(note)) => {
                self.delete(note);
            }
            (2, Some(_)) => self.change_several(),
            (3..=5, Some(note)) => {
                let mut document = self.documents[&note].clone();
                self.draw(&mut document);
                let items = document.items();
                let update =
                    |writer: &mut notes::Writer<'_, '_>| writer.note_update(note, document.sequence, &items, &[]);
                document.sequence = self.write(update);
                self.documents.insert(note, document);
            }
            (6, _) => self.follow(),
            (7, _) => match self.random.below(4) {
                0 => self.rebuild(),
                1 => self.restart(),
                2 => self.purge(),
                _ => self.change_acl(),
            },
            _ => self.create(),
        }
    }

    /// Changes the database as the server itself, from which nothing is hidden.
    fn write<T>(&self, change: impl FnOnce(&mut notes::Writer<'_, '_>) -> notes::Result<T>) -> T {
        self.try_write(change).expect("the server may write")
    }

    fn try_write<T>(&self, change: impl FnOnce(&mut notes::Writer<'_, '_>) -> notes::Result<T>) -> notes::Result<T> {
        let access: Access<level::Depositor> = self.database.authorize(&server()).expect("the server has access");
        let accesses = [&access];
        let mut transaction = self.world.databases.transaction(&accesses).expect("a transaction");
        let outcome = change(&mut transaction.writer(0))?;
        transaction.commit().expect("committed");
        Ok(outcome)
    }

    /// Adds or removes Bob's role, and gives him a random level.
    fn change_acl(&mut self) {
        self.is_staff = !self.is_staff;
        let level = self.pick(&[AclLevel::Reader, AclLevel::Editor]);
        let access = reader(&self.database, ANN).expect("a reader");
        let mut acl = Acl::clone(&access.read().expect("a snapshot").acl());
        acl.roles.insert(STAFF.to_owned());
        let bob = acl.entries.iter_mut().find(|entry| entry.name == Name::new(BOB)).expect("Bob is in the ACL");
        bob.level = level;
        bob.roles = self.is_staff.then(|| STAFF.to_owned()).into_iter().collect();
        self.write(|writer| writer.acl_set(acl.clone()));
    }

    /// Changes some of the documents in one transaction.
    fn change_several(&mut self) {
        let notes = self.documents.keys().copied().filter(|_| self.random.below(3) == 0);
        let notes: Vec<NoteId> = notes.collect();
        if notes.is_empty() {
            return;
        }
        for note in &notes {
            let mut document = self.documents[note].clone();
            self.draw(&mut document);
            self.documents.insert(*note, document);
        }
        let documents = &self.documents;
        let sequences = self.write(|writer| {
            let mut sequences = Vec::new();
            for document in notes.iter().map(|note| &documents[note]) {
                sequences.push(writer.note_update(document.note, document.sequence, &document.items(), &[])?);
            }
            Ok(sequences)
        });
        for (note, sequence) in notes.iter().zip(sequences) {
            self.documents.get_mut(note).expect("the document exists").sequence = sequence;
        }
    }

    fn delete(&mut self, note: NoteId) {
        self.write(|writer| writer.note_delete(note));
        let document = self.documents.remove(&note).expect("the document exists");
        self.unids_with_responses.push(document.unid);
    }

    /// Returns a random UNID and a random parent: a document, one that does not exist yet or was deleted, or the
    /// document itself.
    fn draw_thread(&mut self) -> (Unid, Option<Unid>) {
        let new = Unid::generate(&self.random);
        let unid = match self.random.below(3) {
            0 if !self.unids_with_responses.is_empty() => {
                let index = self.random.below(self.unids_with_responses.len() as u64) as usize;
                self.unids_with_responses.swap_remove(index)
            }
            _ => new,
        };
        let parent = match (self.random.below(16), self.any_document()) {
            (0, _) => Some(unid),
            (1, _) => {
                self.unids_with_responses.push(Unid::generate(&self.random));
                self.unids_with_responses.last().copied()
            }
            (2..=3, _) if !self.unids_with_responses.is_empty() => Some(self.pick(&self.unids_with_responses)),
            (4..=8, note) => note.map(|note| self.documents[&note].unid),
            _ => None,
        };
        (unid, parent)
    }

    fn create(&mut self) {
        let (unid, parent) = self.draw_thread();
        let mut document = Document {
            note: NoteId(0),
            unid,
            parent,
            take: true,
            kinds: Vec::new(),
            name: "x",
            price: None,
            readers: None,
            sequence: 1,
            created: Timestamp(0),
        };
        self.draw(&mut document);
        let items = document.items();
        let new = |parent| NewNote { unid: Some(unid), parent, ..NewNote::document(items.clone()) };
        let created = self.try_write(|writer| writer.note_create(new(parent)));
        document.note = match created {
            Err(Error::Limit { .. }) => {
                document.parent = None;
                self.write(|writer| writer.note_create(new(None)))
            }
            created => created.expect("the server may write"),
        };
        // A document with the UNID of a deleted one continues its sequence numbers.
        let header = self.header(document.note);
        document.sequence = header.sequence;
        document.created = header.created;
        self.documents.insert(document.note, document);
    }

    fn header(&self, note: NoteId) -> NoteHeader {
        let access: Access<level::Reader> = self.database.authorize(&server()).expect("the server has access");
        let header = access.read().and_then(|reading| reading.header(note)).expect("sound");
        header.expect("the note exists")
    }

    /// Applies all changes or some of them. The latter leaves the index ahead in the notes that changed again. From now
    /// on, batches of changes may end after each document.
    fn follow(&self) {
        self.world.clock.set_tick(Duration::from_millis(self.pick(&[0, 20, 60])));
        let access = reader(&self.database, BOB).expect("a reader");
        let limit = 1 + self.random.below(3) as usize;
        loop {
            let is_complete = access.view_refresh(self.view, limit).expect("the index is sound").complete;
            self.check_visibility();
            self.check_size();
            if is_complete || self.random.below(2) > 0 {
                return;
            }
        }
    }

    /// Checks that Bob sees no document that is hidden from him, whatever the index has followed.
    fn check_visibility(&self) {
        let request = EntriesRequest {
            start: StartPosition::Beginning,
            skip: (Navigator::Current, 0),
            navigator: Navigator::Next,
            limit: 1_000,
            expansion: Arc::default(),
            mask: ReadMask::default(),
        };
        self.look(Some(BOB), |reading, view| {
            let entries = EntryReader::open(reading, view, 0).expect("rows");
            for entry in entries.read(&request).expect("sound").rows {
                let EntryContents::Row(ViewRowContents::Document { note, .. }) = entry.content else { continue };
                let document = self.documents.get(&note);
                assert!(document.is_none_or(|document| self.may_see(Some(BOB), document)), "{document:?}");
            }
        });
    }

    /// Returns `true` if the readers of a document include a user, or if the user is the server itself.
    fn may_see(&self, who: Option<&str>, document: &Document) -> bool {
        let has_role = who == Some(BOB) && self.is_staff;
        let is_named = document.readers == who || document.readers == Some(STAFF) && has_role;
        who.is_none() || document.readers.is_none() || is_named
    }

    /// Checks that the stored size of the index is that of its rows and categories, and that the counters include it.
    fn check_size(&self) {
        self.look(None, |reading, view| {
            let expected = scanned_index_bytes(&self.world, &self.database, &view.index);
            let stored = |order| reading.view_rows(view, order).and_then(|rows| rows.index_bytes()).expect("sound");
            assert!((0..view.index.orders()).all(|order| stored(order) == expected), "{expected} bytes");
            let counters = reading.counters();
            assert_eq!((counters.index_bytes, counters.personal_index_bytes), (expected, 0));
        });
    }

    /// Applies all changes, a few at a time.
    fn catch_up(&self) {
        let access = reader(&self.database, BOB).expect("a reader");
        while !access.view_refresh(self.view, 3).expect("the index is sound").complete {}
    }

    /// Rebuilds the index with hardly any memory for sorting. The build is stopped at once or runs to its end.
    fn rebuild(&self) {
        let access: Access<level::Designer> = self.database.authorize(&server()).expect("the server has access");
        let folder = tempfile::tempdir().expect("a folder");
        let options = BuildOptions { folder: folder.path().to_owned(), memory: self.random.below(4_000) as usize };
        let is_broken_off = self.random.below(3) == 0;
        let mut report = |_, _| if is_broken_off { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let built = access.view_rebuild(self.view, &options, &mut report).expect("built");
        assert_eq!(built.is_none(), is_broken_off);
    }

    /// Purges the deletions, even if the index has not followed them.
    fn purge(&self) {
        self.world.clock.advance(PURGE_INTERVAL);
        notes::purge::purge(&self.database).expect("purged");
    }

    /// Restarts with the loss of everything in memory. The index is on the disk or late.
    fn restart(&mut self) {
        self.world = self.world.restarted();
        self.database = self.world.databases.database_open("docs.nsf").expect("the database exists");
    }

    /// Returns the rows of an order as text, with the counts of categories, as a user sees them.
    fn rows(&self, who: Option<&str>, collation: usize) -> Vec<String> {
        self.look(who, |reading, view| {
            let rows = reading.view_rows(view, collation).expect("rows");
            let mut lines: Vec<String> = rows.page(0, 10_000).expect("sound").iter().map(line).collect();
            let total = rows.total().expect("sound");
            lines.push(format!("{} {}", total.documents, total.totals[0].sum.value()));
            lines
        })
    }
}

fn line(row: &ViewRow) -> String {
    match &row.contents {
        ViewRowContents::Category { level, tally } => {
            let indent = "  ".repeat(usize::from(*level) - 1);
            format!("{indent}[{}] {} {}", tally.name(), tally.documents, tally.totals[0].sum.value())
        }
        ViewRowContents::Document { row, .. } => {
            format!("{}{}", "  ".repeat(usize::from(row.response_level) + 4), row.unid)
        }
    }
}

/// Returns the number of rows above a row: categories, and the documents that it responds to.
fn depth_of(row: &ViewRow, before: &[ViewRow]) -> usize {
    match &row.contents {
        ViewRowContents::Category { level, .. } => usize::from(*level),
        ViewRowContents::Document { row, .. } => {
            let category = before.iter().rev().find_map(|row| match row.contents {
                ViewRowContents::Category { level, .. } => Some(usize::from(level)),
                ViewRowContents::Document { .. } => None,
            });
            category.unwrap_or(0) + 1 + usize::from(row.response_level)
        }
    }
}

/// Numbers the rows among their siblings by their depth alone, and compares the numbers with the tree of counts in both
/// directions.
fn check_tumblers(reader: &ViewReader<'_>, lines: &[String]) {
    let rows = reader.page(0, 1_000).expect("rows");
    assert_eq!(rows.len() as u64, reader.count().expect("a count"));
    assert_eq!(rows.len() + 1, lines.len());
    // The rows above the next row: their depth, and the number of rows beneath each so far.
    let mut above: Vec<(usize, u64)> = vec![(0, 0)];
    for (position, row) in rows.iter().enumerate() {
        let depth = depth_of(row, &rows[..position]);
        above.truncate(depth);
        above.last_mut().expect("the view itself").1 += 1;
        let expected = Tumbler(above.iter().map(|(_, number)| *number).collect());
        above.push((depth, 0));
        assert_eq!(reader.tumbler(&row.key).expect("a tumbler"), expected, "{lines:#?}");
        assert_eq!(reader.key_at(&expected).expect("a row").as_ref(), Some(&row.key), "{expected}");
        assert_eq!(reader.position(&row.key).expect("a position"), position as u64);
        assert_eq!(reader.find(&row.key).expect("a row").as_ref(), Some(row));
    }
    assert_eq!(reader.key_at(&Tumbler(vec![1_000])).expect("sound"), None);
}

/// The expected rows, computed from the documents alone.
struct NaiveView<'b> {
    bench: &'b ViewFixture,
    who: Option<&'static str>,
    descending: bool,
    lines: Vec<String>,
}

/// A category under construction: sub-categories by their lower-case name, the documents, and the spellings of its
/// name.
#[derive(Default)]
struct NaiveCategory<'b> {
    below: BTreeMap<String, NaiveCategory<'b>>,
    documents: Vec<&'b Document>,
    names: Vec<&'static str>,
}

impl<'b> NaiveView<'b> {
    fn compute_lines(bench: &'b ViewFixture, who: Option<&'static str>, descending: bool) -> Vec<String> {
        let mut naive = Self { bench, who, descending, lines: Vec::new() };
        let mut root = NaiveCategory::default();
        for document in bench.documents.values().filter(|document| naive.is_taken(document) && naive.sees(document)) {
            if bench.responses && document.parent.is_some() {
                continue;
            }
            let kinds = if document.kinds.is_empty() { vec![""] } else { document.kinds.clone() };
            for kind in kinds {
                let mut folder = &mut root;
                for part in kind.split('\\') {
                    folder = folder.below.entry(part.to_lowercase()).or_default();
                    folder.names.push(part);
                }
                folder.documents.push(document);
            }
        }
        let prices = naive.folder(&root, None);
        let total = naive.sum(&prices);
        naive.lines.push(total);
        naive.lines
    }

    /// Writes the contents of a category, and returns the prices of all its rows.
    fn folder(&mut self, folder: &NaiveCategory<'b>, depth: Option<usize>) -> Vec<Option<f64>> {
        let index = self.lines.len();
        let mut prices = Vec::new();
        self.documents(folder.documents.clone(), 0, &mut prices);
        for below in folder.below.values() {
            prices.extend(self.folder(below, Some(depth.map_or(0, |depth| depth + 1))));
        }
        if let Some(depth) = depth {
            let name = folder.names.iter().min().expect("a folder has a name");
            let sum = self.sum(&prices);
            self.lines.insert(index, format!("{}[{name}] {sum}", "  ".repeat(depth)));
        }
        prices
    }

    fn documents(&mut self, mut documents: Vec<&'b Document>, level: usize, prices: &mut Vec<Option<f64>>) {
        documents.sort_by(|one, other| {
            let by_name = one.name.to_lowercase().cmp(&other.name.to_lowercase());
            let by_name = if self.descending { by_name.reverse() } else { by_name };
            let end = |document: &Document| (document.created, document.unid.0[12..].to_vec(), document.note);
            by_name.then_with(|| end(one).cmp(&end(other)))
        });
        for document in documents {
            self.lines.push(format!("{}{}", "  ".repeat(level + 4), document.unid));
            prices.push(document.price);
            if self.bench.responses && level < 31 {
                let is_here = |other: &&Document| other.parent == Some(document.unid) && self.sees(other);
                let taken = |other: &&Document| is_here(other) && self.is_taken(other);
                self.documents(self.bench.documents.values().filter(taken).collect(), level + 1, prices);
            }
        }
    }

    fn sees(&self, document: &Document) -> bool {
        self.bench.may_see(self.who, document)
    }

    fn is_taken(&self, document: &Document) -> bool {
        let parent = || self.parent(document);
        let with_parent = || match self.bench.inclusion {
            SelectedResponses::None => false,
            SelectedResponses::Children => parent().is_some_and(|parent| parent.take && self.is_shown(parent)),
            SelectedResponses::Descendants => parent().is_some_and(|parent| self.is_shown(parent)),
        };
        document.take || with_parent()
    }

    /// Returns `true` if the document has a row. A response has none if its parent has none.
    fn is_shown(&self, document: &Document) -> bool {
        let is_beneath = || self.parent(document).is_some_and(|parent| self.is_shown(parent));
        let has_place = !self.bench.responses || document.parent.is_none() || is_beneath();
        has_place && self.is_taken(document)
    }

    /// Returns the parent of a document, or `None` if the parent is absent or the document is a member of a cycle.
    fn parent(&self, document: &Document) -> Option<&'b Document> {
        let above = |unid: Option<Unid>| self.bench.documents.values().find(|other| Some(other.unid) == unid);
        let ancestors = std::iter::successors(above(document.parent), |other| above(other.parent));
        let is_in_cycle = ancestors.take(self.bench.documents.len()).any(|other| other.unid == document.unid);
        above(document.parent).filter(|_| !is_in_cycle)
    }

    /// Returns the number of prices and their exact sum as text. Prices are tenths, so an ordinary sum would be
    /// rounded.
    fn sum(&self, prices: &[Option<f64>]) -> String {
        let mut exact = notes::view::exact_sum::ExactSum::default();
        prices.iter().flatten().for_each(|price| exact.add(*price));
        format!("{} {}", prices.len(), exact.value())
    }
}

/// Compares the rows that a user sees with a naive evaluation, and at random the navigation too.
fn check_rows(bench: &ViewFixture, who: Option<&'static str>, is_descending: bool, when: &str) {
    let lines = bench.rows(who, 0);
    assert_eq!(lines, NaiveView::compute_lines(bench, who, is_descending), "{when}");
    bench.look(who, |reading, view| {
        let reader = reading.view_rows(view, 0).expect("rows");
        check_tumblers(&reader, &lines);
        if bench.random.below(6) == 0 {
            check_steps(&reader, &EntryReader::open(reading, view, 0).expect("rows"));
        }
    });
}

#[test]
fn rows_equal_a_naive_evaluation_after_random_changes() {
    for seed in seeds(0) {
        let random = SeededRandom::new(seed);
        let inclusion = [SelectedResponses::None, SelectedResponses::Children, SelectedResponses::Descendants]
            [random.below(3) as usize];
        check_random_changes(seed, random.below(3) > 0, inclusion);
    }
}

/// Checks views whose rows depend only on the document itself: the rows to remove are computed from the previous
/// versions of documents.
#[test]
fn rows_of_document_only_views_equal_naive_evaluation() {
    for seed in seeds(1_000_000) {
        check_random_changes(seed, false, SelectedResponses::None);
    }
}

/// Creates a view of a database with the given documents: each has a UNID, a parent, and `true` if the selection takes
/// it.
fn bench_of(inclusion: SelectedResponses, answers: &[(u8, Option<u8>, bool)]) -> ViewFixture {
    let mut bench = ViewFixture::new(1, false, SortDirection::Ascending, inclusion);
    for (number, parent, take) in answers {
        let unid = Unid([*number; 16]);
        let parent = parent.map(|parent| Unid([parent; 16]));
        let kinds = Vec::new();
        let name = NAMES[usize::from(*number) % NAMES.len()];
        let mut document = Document {
            note: NoteId(0),
            unid,
            parent,
            take: *take,
            kinds,
            name,
            price: None,
            readers: None,
            sequence: 1,
            created: Timestamp(0),
        };
        let new = NewNote { unid: Some(unid), parent, ..NewNote::document(document.items()) };
        document.note = bench.write(|writer| writer.note_create(new));
        document.created = bench.header(document.note).created;
        bench.documents.insert(document.note, document);
    }
    bench
}

/// Compares the rows with a naive evaluation after an incremental update and after a rebuild.
fn check_both_ways(bench: &ViewFixture, when: &str) {
    bench.catch_up();
    check_rows(bench, None, false, &format!("{when}: followed"));
    let access: Access<level::Designer> = bench.database.authorize(&server()).expect("the server has access");
    let folder = tempfile::tempdir().expect("a folder");
    let options = BuildOptions { folder: folder.path().to_owned(), memory: 1 << 16 };
    access.view_rebuild(bench.view, &options, &mut |_, _| ControlFlow::Continue(())).expect("built").expect("whole");
    check_rows(bench, None, false, &format!("{when}: built"));
}

#[test]
fn responses_created_before_their_parent_are_selected_with_it() {
    for inclusion in [SelectedResponses::Children, SelectedResponses::Descendants] {
        for takes in 0..8 {
            let take = |bit: u8| takes >> bit & 1 == 1;
            let chain = [(1, Some(2), take(0)), (2, Some(3), take(1)), (3, Some(9), take(2))];
            check_both_ways(&bench_of(inclusion, &chain), &format!("a chain without its end, {takes:03b}"));
            let ring = [(4, Some(3), false), (1, Some(2), take(0)), (2, Some(3), take(1)), (3, Some(1), take(2))];
            check_both_ways(&bench_of(inclusion, &ring), &format!("a ring with one beneath, {takes:03b}"));
            let itself = [(2, Some(1), take(0)), (3, Some(2), take(1)), (1, Some(1), take(2))];
            check_both_ways(&bench_of(inclusion, &itself), &format!("a document that answers itself, {takes:03b}"));
        }
    }
}

#[test]
fn closed_cycle_is_not_an_ancestor_until_it_opens() {
    let mut bench =
        bench_of(SelectedResponses::Descendants, &[(1, Some(2), false), (3, Some(1), false), (2, Some(9), true)]);
    check_both_ways(&bench, "open");
    let at = |bench: &ViewFixture, number: u8| {
        let found = bench.documents.values().find(|document| document.unid == Unid([number; 16])).cloned();
        found.expect("the document exists")
    };
    for (step, parent) in [Some(3), Some(9), Some(3), None].into_iter().enumerate() {
        let document = at(&bench, 2);
        bench.delete(document.note);
        if step == 1 {
            bench.purge();
        }
        let parent = parent.map(|parent| Unid([parent; 16]));
        let new = NewNote { unid: Some(document.unid), parent, ..NewNote::document(document.items()) };
        let note = bench.write(|writer| writer.note_create(new));
        let created = bench.header(note).created;
        bench.documents.insert(note, Document { note, parent, created, ..document });
        check_both_ways(&bench, &format!("step {step}"));
    }
    let document = at(&bench, 2);
    bench.delete(document.note);
    check_both_ways(&bench, "without the topmost document");
}

#[test]
fn deselected_cycle_member_keeps_no_document_selected() {
    let mut bench =
        bench_of(SelectedResponses::Descendants, &[(3, Some(2), false), (1, Some(2), true), (2, Some(1), false)]);
    check_both_ways(&bench, "one is taken");
    let note = *bench.documents.iter().find(|(_, document)| document.take).expect("one is taken").0;
    let document = Document { take: false, ..bench.documents[&note].clone() };
    bench.write(|writer| writer.note_update(note, document.sequence, &document.items(), &[]));
    bench.documents.insert(note, document);
    check_both_ways(&bench, "none is taken");
    assert_eq!(bench.rows(None, 0), ["0 0"]);
}

/// Returns the seeds of a test, from `first` on: 300, or 5,000 with `DOUBLET_SOAK`, or only the seed in `DOUBLET_SEED`.
fn seeds(first: u64) -> Range<u64> {
    if let Ok(seed) = std::env::var("DOUBLET_SEED") {
        let seed = seed.parse().expect("DOUBLET_SEED is a number");
        return seed..seed + 1;
    }
    first..first + if std::env::var_os("DOUBLET_SOAK").is_some() { 5_000 } else { 300 }
}

/// Makes random changes to documents, and regularly compares their view with a naive evaluation.
fn check_random_changes(seed: u64, responses: bool, inclusion: SelectedResponses) {
    let order = if seed.is_multiple_of(2) { SortDirection::Ascending } else { SortDirection::Descending };
    let mut bench = ViewFixture::new(seed, responses, order, inclusion);
    for step in 0..80 {
        bench.step();
        if step % 8 == 7 {
            bench.catch_up();
            bench.check_size();
            for who in [None, Some(ANN), Some(BOB)] {
                check_rows(
                    &bench,
                    who,
                    order == SortDirection::Descending,
                    &format!("seed {seed}, step {step}, {who:?}"),
                );
            }
        }
    }
    (0..bench.documents.len()).for_each(|_| {
        let note = bench.any_document().expect("some are left");
        bench.delete(note);
    });
    bench.catch_up();
    assert_eq!(bench.rows(None, 0), ["0 0"], "deleted documents leave no rows");
    assert_eq!(bench.rows(None, 1), ["0 0"]);
    bench.check_size();
    assert_sound(&bench.database);
    assert_eq!(bench.look(None, |reading, _| reading.counters().index_bytes), 0);
}

/// The rows of a view as a list, with a naive version of each step.
struct RowList {
    rows: Vec<ViewRow>,
    depths: Vec<usize>,
}

impl RowList {
    fn parent(&self, index: usize) -> Option<usize> {
        (0..index).rev().find(|other| self.depths[*other] < self.depths[index])
    }

    fn peers(&self, index: usize) -> Vec<usize> {
        let peers =
            |other: &usize| self.depths[*other] == self.depths[index] && self.parent(*other) == self.parent(index);
        (0..self.rows.len()).filter(peers).collect()
    }

    fn is_category(&self, index: usize) -> bool {
        matches!(self.rows[index].contents, ViewRowContents::Category { .. })
    }

    fn is_main(&self, index: usize) -> bool {
        matches!(&self.rows[index].contents, ViewRowContents::Document { row, .. } if row.response_level == 0)
    }

    fn is_shown(&self, index: usize, expansion: &RowExpansion) -> bool {
        let mut above = self.parent(index);
        while let Some(parent) = above {
            if expansion.is_collapsed(&self.rows[parent].key) {
                return false;
            }
            above = self.parent(parent);
        }
        true
    }

    fn step(&self, index: usize, navigator: Navigator, expansion: &RowExpansion) -> Option<usize> {
        let later = || index + 1..self.rows.len();
        let earlier = || (0..index).rev();
        let peers = self.peers(index);
        match navigator {
            Navigator::Current => Some(index),
            Navigator::Next => later().next(),
            Navigator::Previous => earlier().next(),
            Navigator::NextExpanded => later().find(|other| self.is_shown(*other, expansion)),
            Navigator::PreviousExpanded => earlier().find(|other| self.is_shown(*other, expansion)),
            Navigator::NextPeer => peers.into_iter().find(|other| *other > index),
            Navigator::PreviousPeer => peers.into_iter().rfind(|other| *other < index),
            Navigator::FirstPeer => peers.first().copied(),
            Navigator::LastPeer => peers.last().copied(),
            Navigator::Parent => self.parent(index),
            Navigator::Child => later().next().filter(|other| self.parent(*other) == Some(index)),
            Navigator::NextMain => later().find(|other| self.is_main(*other)),
            Navigator::PreviousMain => earlier().find(|other| self.is_main(*other)),
            Navigator::NextCategory => later().find(|other| self.is_category(*other)),
            Navigator::PreviousCategory => earlier().find(|other| self.is_category(*other)),
            Navigator::NextUnread | Navigator::PreviousUnread => None,
        }
    }
}

/// Compares the positions of rows and the counts around them with the list, for all rows that a navigator reaches.
fn check_counts(list: &RowList, entries: &EntryReader<'_>, navigator: Navigator, expansion: &Arc<RowExpansion>) {
    let start = if navigator == Navigator::Previous { StartPosition::End } else { StartPosition::Beginning };
    let mask = ReadMask { tumbler: true, position: true, counts: true, unread: false };
    let expansion = Arc::clone(expansion);
    let request = EntriesRequest { start, skip: (Navigator::Current, 0), navigator, limit: 1_000, expansion, mask };
    for row in entries.read(&request).expect("sound").rows {
        let index = list.rows.iter().position(|other| other.key == row.key).expect("it is in the list");
        let beneath =
            |other: &usize| std::iter::successors(Some(*other), |row| list.parent(*row)).any(|row| row == index);
        let counts = HierarchyCounts {
            siblings: list.peers(index).len() as u64,
            children: (0..list.rows.len()).filter(|other| list.parent(*other) == Some(index)).count() as u64,
            descendants: (index + 1..list.rows.len()).filter(beneath).count() as u64,
        };
        assert_eq!((row.counts, row.position), (Some(counts), Some(index as u64)), "{navigator:?} at {index}");
        let tumbler = entries.rows().tumbler(&row.key).expect("sound");
        assert_eq!(row.tumbler, Some(tumbler), "{navigator:?} at {index}");
    }
}

const NAVIGATORS: [Navigator; 15] = [
    Navigator::Current,
    Navigator::Next,
    Navigator::Previous,
    Navigator::NextExpanded,
    Navigator::PreviousExpanded,
    Navigator::NextPeer,
    Navigator::PreviousPeer,
    Navigator::FirstPeer,
    Navigator::LastPeer,
    Navigator::Parent,
    Navigator::Child,
    Navigator::NextMain,
    Navigator::PreviousMain,
    Navigator::NextCategory,
    Navigator::PreviousCategory,
];

/// Takes every step from every row and compares with the list; also compares the counts around the rows.
fn check_steps(reader: &ViewReader<'_>, entries: &EntryReader<'_>) {
    let rows = reader.page(0, 1_000).expect("rows");
    let depths = rows.iter().map(|row| reader.depth_of(&row.key).expect("a key")).collect();
    let list = RowList { rows, depths };
    let odd: HashSet<Vec<u8>> = list.rows.iter().skip(1).step_by(3).map(|row| row.key.clone()).collect();
    let expansions = [
        RowExpansion::default(),
        RowExpansion::all_but(odd.clone()).expect("few"),
        RowExpansion::none_but(odd).expect("few"),
    ];
    for (index, row) in list.rows.iter().enumerate() {
        for (navigator, expansion) in NAVIGATORS.iter().flat_map(|way| expansions.iter().map(move |open| (way, open))) {
            // These steps need a row that is shown as their starting point.
            let is_by_sight = matches!(navigator, Navigator::NextExpanded | Navigator::PreviousExpanded);
            if is_by_sight && !list.is_shown(index, expansion) {
                continue;
            }
            let found = reader.step(&row.key, *navigator, expansion).expect("sound");
            let expected = list.step(index, *navigator, expansion).map(|other| &list.rows[other]);
            assert_eq!(found.as_ref(), expected, "{navigator:?} from {index}");
        }
    }
    for expansion in expansions.clone().map(Arc::new) {
        for navigator in [Navigator::Next, Navigator::Previous, Navigator::NextExpanded] {
            check_counts(&list, entries, navigator, &expansion);
        }
    }
    let last = |expansion| (0..list.rows.len()).rfind(|index| list.is_shown(*index, expansion));
    for expansion in &expansions {
        let expected = last(expansion).map(|index| &list.rows[index]);
        assert_eq!(reader.last(expansion).expect("sound").as_ref(), expected);
    }
}
