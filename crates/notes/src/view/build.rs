//! Bulk build of a view's index from many documents at once (Domino's Updall; `docs/views.md`, "A rebuild").
//!
//! All documents of a snapshot are evaluated in the order of their numbers. Their rows are sorted in external storage
//! ([`store::external_sort`]) and ingested by the engine as sorted files, and the tree of counts is written in the same
//! pass. Then the changes that happened meanwhile are applied, and the new index replaces the old one in one batch.
//! Until then the old index serves. A crash leaves the old index unchanged, and the next build removes the incomplete
//! one.
//!
//! A response needs the rows of its parent, so the rows of all documents that have responses are kept in memory. A
//! response that was created before its parent waits until the others are placed, and then follows its parent. Each
//! such response is read one more time, however long the threads are.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use base::codec::Decoder;
use base::{Modseq, NoteId, Unid};
use collection::{CollectionBuilder, CollectionId, CountOnly, EntryWeigher, NodeSizes, Weight};
use store::external_sort::{ExternalSorter, SortedPairs};
use store::{Batch, Cursor, Direction, KeyRange, Table, TableReader};

use crate::access::{Access, AtLeast, level};
use crate::database::Database;
use crate::error::{Error, Result, damaged};
use crate::evaluate::stored_document;
use crate::keys::{self, SummaryRecord};
use crate::limits::{VIEW_BUILD_REPORT_NOTES, VIEW_REFRESH_CHANGES};
use crate::note::NoteHeader;
use crate::records;
use crate::view::category::CategoryTotals;
use crate::view::cycle::Cycles;
use crate::view::index::{DocumentRows, ParentPosition, ViewBackRecord, ViewIndex, is_document};
use crate::view::index_growth::GrowthCheck;
use crate::view::index_record::{self, IndexRecord};
use crate::view::index_size;
use crate::view::index_state::IndexState;
use crate::view::row::{CATEGORY_ROW, RowKeys, StoredRow, mark};
use crate::view::row_change::RowWeights;
use crate::view::selection::CompiledView;
use crate::view::view_cache::OpenView;

/// The resources of a build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The folder for sorted runs that do not fit into memory: Domino's `view_rebuild_dir`.
    pub folder: PathBuf,
    /// Memory for sorting, in bytes.
    pub memory: usize,
}

/// The result of a build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildReport {
    /// Number of documents that were evaluated.
    pub documents: u64,
    /// Number of document rows in all orders.
    pub rows: u64,
    /// Number of bytes that were sorted outside of memory.
    pub spilled_bytes: u64,
}

/// A progress callback. It receives the number of evaluated documents and their total number, and stops the build by
/// returning `ControlFlow::Break`.
pub type BuildProgressCallback<'r> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'r;

impl<L: AtLeast<level::Designer>> Access<L> {
    /// Rebuilds the index of a view from all documents.
    ///
    /// Returns `None` if `report` stopped the build, or if another build of the view is running.
    pub fn view_rebuild(
        &self,
        view: NoteId,
        options: &BuildOptions,
        report: &mut BuildProgressCallback<'_>,
    ) -> Result<Option<BuildReport>> {
        let view = self.database().view_with_index(view, &*self.grant()?)?;
        build(self.database(), &view, options, report)
    }
}

impl<L: AtLeast<level::Reader>> Access<L> {
    /// Brings the index of a view up to date.
    ///
    /// A new index over many documents is built in bulk; in all other cases the changes are applied. `report` receives
    /// the progress and may stop the update; a later update then does the rest. Returns `true` if the index is up to
    /// date.
    pub fn view_update(
        &self,
        view: NoteId,
        options: &BuildOptions,
        report: &mut BuildProgressCallback<'_>,
    ) -> Result<bool> {
        let grant = self.grant()?;
        let database = self.database();
        let view = database.view_with_index(view, &grant)?;
        let counters = *database.lock();
        if view.needs_build(database.store.as_ref(), counters.notes, database.clock.now())? {
            return Ok(build(database, &view, options, report)?.is_some());
        }
        let mut done = 0;
        loop {
            let progress = self.view_refresh(view.info.note, VIEW_REFRESH_CHANGES)?;
            if progress.complete {
                return Ok(true);
            }
            done += progress.changes as u64;
            if report(done, counters.modseq.0.saturating_sub(progress.applied.0).saturating_add(done)).is_break() {
                return Ok(false);
            }
        }
    }
}

/// Builds a new index that replaces the current one of a view.
fn build(
    database: &Database,
    view: &OpenView,
    options: &BuildOptions,
    report: &mut BuildProgressCallback<'_>,
) -> Result<Option<BuildReport>> {
    let Some(turn) = database.views.begin_build(view.info.note) else { return Ok(None) };
    let note = view.info.note;
    let index = start(database, view)?;
    turn.set_index(index.id());
    let now = database.clock.now();
    let formulas = view.formulas_at(now, &database.record());
    let outcome = fill(database, &index, &formulas, options, report).and_then(|built| match built {
        Some(built) => {
            while index
                .apply_changes(database, &formulas, VIEW_REFRESH_CHANGES, None)?
                .is_some_and(|done| !done.complete)
            {}
            finish(database, view, &index, now)?;
            Ok(Some(built))
        }
        None => Ok(None),
    });
    if !matches!(outcome, Ok(Some(_))) {
        discard_build(database, note, &index)?;
    }
    outcome
}

/// Allocates the number of the new index and records that it is being built.
///
/// The size of the new index counts only when it replaces the old one. Otherwise mail would be refused during the
/// rebuild of a view if the mail file is nearly full.
fn start(database: &Database, view: &OpenView) -> Result<ViewIndex> {
    let number = database.number();
    let note = view.info.note;
    let _lock = database.lock();
    database.check_not_dropped()?;
    let reader: &dyn TableReader = database.store.as_ref();
    let mut batch = Batch::new();
    let index = index_record::next_index(reader, number, &mut batch)?;
    let mut record = load_record(reader, database, note)?;
    let counted_bytes = record.counted_bytes(reader, number)?;
    if let Some(old) = record.building.replace(index) {
        index_record::remove_rows(number, old, &mut batch);
    }
    record.put(number, note, &mut batch);
    database.store.commit(&batch)?;
    let index = ViewIndex::new(number, index, view.index.design().clone());
    Ok(index.charged_to(record.account).replacing(counted_bytes))
}

fn load_record(reader: &dyn TableReader, database: &Database, note: NoteId) -> Result<IndexRecord> {
    let record = IndexRecord::load(reader, database.number(), note)?;
    record.ok_or_else(|| Error::not_found(format!("index of view {note} of {}", database.path())))
}

/// Replaces the old index by the new one. Fails if the design changed meanwhile.
fn finish(database: &Database, view: &OpenView, index: &ViewIndex, now: base::Timestamp) -> Result<()> {
    let reader: &dyn TableReader = database.store.as_ref();
    let mut lock = database.lock();
    database.check_not_dropped()?;
    let mut record = load_record(reader, database, view.info.note)?;
    if record.building != Some(index.id()) || !record.follows(&view.info, &database.record()) {
        return Err(Error::invalid(
            format!("view {:?}", view.info.view.title),
            "its design changed while the index was being built",
        ));
    }
    let mut counters = *lock;
    let counted_bytes = record.counted_bytes(reader, database.number())?;
    record.account.charge(&mut counters, counted_bytes, index.stored_state(reader)?.bytes);
    let mut batch = Batch::new();
    batch.put(Table::Meta, &keys::counters(database.number()), &counters.encode());
    index_record::remove_rows(database.number(), record.index, &mut batch);
    record.index = index.id();
    record.building = None;
    record.evaluated = now;
    record.put(database.number(), view.info.note, &mut batch);
    let ticket = database.store.commit(&batch)?;
    *lock = counters;
    // Readers of the new rows wait for this ticket before they reply, so the rows they report survive a crash.
    database.publish(lock.modseq, ticket);
    database.views.remove(Some(view.info.note));
    Ok(())
}

/// Removes the rows of a build that did not finish.
fn discard_build(database: &Database, note: NoteId, index: &ViewIndex) -> Result<()> {
    let _lock = database.lock();
    let mut batch = Batch::new();
    index_record::remove_rows(database.number(), index.id(), &mut batch);
    if let Some(mut record) = IndexRecord::load(database.store.as_ref(), database.number(), note)?
        && record.building == Some(index.id())
    {
        record.building = None;
        record.put(database.number(), note, &mut batch);
    }
    database.store.commit(&batch)?;
    Ok(())
}

/// Evaluates all documents and writes the rows. Returns `None` if `report` stopped the build.
fn fill(
    database: &Database,
    index: &ViewIndex,
    formulas: &CompiledView,
    options: &BuildOptions,
    report: &mut BuildProgressCallback<'_>,
) -> Result<Option<BuildReport>> {
    let snapshot = database.store.snapshot()?;
    let counters = records::load_counters(&snapshot, database.number())?;
    let counted_bytes = index.replaced_bytes().unwrap_or(0);
    let growth = GrowthCheck { database, reader: &snapshot, counters: &counters, counted_bytes };
    let mut survey = BuildPass::new(growth, index, formulas, options)?;
    if survey.all_documents(counters.notes, report)?.is_break() {
        return Ok(None);
    }
    survey.place_waiting_responses()?;
    survey.write(counters.modseq).map(Some)
}

/// A pass over all documents.
struct BuildPass<'s> {
    database: &'s Database,
    reader: &'s dyn TableReader,
    index: &'s ViewIndex,
    formulas: &'s CompiledView,
    options: &'s BuildOptions,
    /// The rows of each order.
    rows: Vec<ExternalSorter>,
    /// The `viewback` records of the notes.
    backs: ExternalSorter,
    /// The documents that have responses. `placed` holds the positions of those that were placed already.
    parents: HashSet<Unid>,
    placed: HashMap<Unid, ViewBackRecord>,
    /// The responses whose parents were not placed yet.
    waiting: Vec<WaitingResponse>,
    /// Number of documents whose formulas a limit has stopped.
    limited_documents: u64,
    /// `true` if the time stopped the formulas of any document.
    time_limited: bool,
    /// The size of the rows so far, in bytes.
    bytes: u64,
    growth: GrowthCheck<'s>,
    /// The size at which it is checked next whether the index may grow.
    next_growth_check: u64,
    built: BuildReport,
}

/// Number of bytes of rows between two checks of whether an index may grow.
const GROWTH_CHECK_BYTES: u64 = 1 << 20;

/// A response that waits for its parent.
#[derive(Clone, Copy)]
struct WaitingResponse {
    note: NoteId,
    unid: Unid,
    parent: Unid,
}

impl<'s> BuildPass<'s> {
    fn new(
        growth: GrowthCheck<'s>,
        index: &'s ViewIndex,
        formulas: &'s CompiledView,
        options: &'s BuildOptions,
    ) -> Result<Self> {
        let GrowthCheck { database, reader, .. } = growth;
        let share = options.memory / (index.orders() + 1);
        let sorter = || ExternalSorter::new(&options.folder, share);
        let parents = if index.follows_parents(formulas) { load_parents(reader, database)? } else { HashSet::new() };
        Ok(Self {
            database,
            reader,
            index,
            formulas,
            options,
            rows: (0..index.orders()).map(|_| sorter()).collect(),
            backs: sorter(),
            parents,
            placed: HashMap::new(),
            waiting: Vec::new(),
            limited_documents: 0,
            time_limited: false,
            bytes: 0,
            growth,
            next_growth_check: GROWTH_CHECK_BYTES,
            built: BuildReport::default(),
        })
    }

    fn all_documents(&mut self, total: u64, report: &mut BuildProgressCallback<'_>) -> Result<ControlFlow<()>> {
        let range = KeyRange::prefix(&self.database.number().to_key());
        let mut cursor = self.reader.scan(Table::Summary, &range, Direction::Forward)?;
        let mut header: Option<NoteHeader> = None;
        while let Some((key, value)) = cursor.next()? {
            let (note, part) = keys::split_summary(key).ok_or_else(|| damaged(Table::Summary, key))?;
            if part == SummaryRecord::Header as u8 {
                let read = NoteHeader::decode(note, value);
                let read = read.map_err(|_| records::damaged_note(self.database, note, "header"))?;
                header = Some(read).filter(is_document);
                continue;
            }
            let Some(header) = header.take().filter(|header| header.note == note) else { continue };
            self.document(&header, value)?;
            self.built.documents += 1;
            if self.built.documents.is_multiple_of(VIEW_BUILD_REPORT_NOTES)
                && report(self.built.documents, total).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(report(self.built.documents, total))
    }

    /// Places a document, or adds it to the waiting responses if its parent is not placed yet.
    fn document(&mut self, header: &NoteHeader, summary: &[u8]) -> Result<()> {
        let above = match header.parent.filter(|parent| self.parents.contains(parent)) {
            Some(parent) => match self.placed.get(&parent) {
                Some(back) => ParentPosition::Document(back),
                None => {
                    self.waiting.push(WaitingResponse { note: header.note, unid: header.unid, parent });
                    return Ok(());
                }
            },
            None => ParentPosition::Nothing,
        };
        let document = stored_document(header, summary, self.database)?;
        let placed = self.index.compute_rows(self.formulas, &document, above, &*self.database.clock);
        self.push_rows(header, placed)
    }

    fn push_rows(&mut self, header: &NoteHeader, placed: DocumentRows) -> Result<()> {
        self.bytes = self.bytes.saturating_add(placed.bytes);
        if self.bytes >= self.next_growth_check {
            self.growth.check(self.index.account(), self.bytes)?;
            self.next_growth_check = self.bytes.saturating_add(GROWTH_CHECK_BYTES);
        }
        for (sorter, rows) in self.rows.iter_mut().zip(&placed.rows) {
            for (key, row) in rows {
                sorter.push(key, &row.encode())?;
                self.built.rows += 1;
            }
        }
        if placed.must_be_stored() {
            self.backs.push(&header.note.to_key(), &placed.encode_view_back_record())?;
        }
        self.limited_documents += u64::from(placed.is_limited());
        self.time_limited |= placed.is_time_limited();
        if self.parents.contains(&header.unid) {
            self.placed.insert(header.unid, placed.view_back_record());
        }
        Ok(())
    }

    /// Places the responses that waited: those created before their parents, and those whose parents are not documents.
    ///
    /// A response whose parent waits too is placed after that parent. Members of cycles do not wait.
    fn place_waiting_responses(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let parents: HashMap<Unid, Unid> = waiting.iter().map(|late| (late.unid, late.parent)).collect();
        let mut cycles = Cycles::default();
        let mut ready = Vec::new();
        let mut behind: HashMap<Unid, Vec<WaitingResponse>> = HashMap::new();
        for late in waiting {
            if cycles.is_member(late.unid, late.parent, &mut |unid| Ok(parents.get(&unid).copied()))?
                || !parents.contains_key(&late.parent)
            {
                ready.push(late);
            } else {
                behind.entry(late.parent).or_default().push(late);
            }
        }
        while let Some(late) = ready.pop() {
            self.place_waiting(late, cycles.cached(late.unid) == Some(true))?;
            ready.extend(behind.remove(&late.unid).unwrap_or_default());
        }
        assert!(behind.is_empty(), "every waiting response is below a cycle or below a placed document");
        Ok(())
    }

    /// Places a response beneath its parent, if the parent was placed.
    fn place_waiting(&mut self, late: WaitingResponse, is_in_cycle: bool) -> Result<()> {
        let header = records::load_header(self.reader, self.database, late.note)?;
        let summary = records::load_summary_bytes(self.reader, self.database, late.note)?;
        let Some((header, summary)) = header.zip(summary) else { return Ok(()) };
        let above = match self.placed.get(&late.parent) {
            _ if is_in_cycle => ParentPosition::CycleMember,
            Some(back) => ParentPosition::Document(back),
            None => ParentPosition::Nothing,
        };
        let document = stored_document(&header, &summary, self.database)?;
        let placed = self.index.compute_rows(self.formulas, &document, above, &*self.database.clock);
        self.push_rows(&header, placed)
    }

    /// Writes rows, categories and `viewback` records. `applied` is the modseq up to which documents are included.
    fn write(self, applied: Modseq) -> Result<BuildReport> {
        let Self { database, index, options, rows, backs, growth, limited_documents, time_limited, .. } = self;
        let mut built = self.built;
        let mut bytes = self.bytes;
        built.spilled_bytes = rows.iter().chain([&backs]).map(ExternalSorter::spilled_bytes).sum();
        let mut batch = Batch::new();
        let engine = database.store.engine();
        let mut trees = Vec::with_capacity(index.orders());
        for (order, rows) in rows.into_iter().enumerate() {
            let mut stream = RowStream::new(index, order, rows.finish()?, options, &mut batch);
            engine.ingest(Table::View, &mut stream)?;
            let BuiltRows { tree, categories, category_bytes } = stream.finish()?;
            trees.push(tree);
            bytes = bytes.saturating_add(category_bytes);
            let id = index.categories(order);
            let mut stream = CountingCursor::new(id, &CountOnly, categories.finish()?, &mut batch);
            engine.ingest(Table::View, &mut stream)?;
            stream.finish(&[])?;
        }
        growth.check(index.account(), bytes)?;
        let state = IndexState { applied, limited_documents, bytes, time_limited, ..IndexState::default() }.encode();
        for tree in trees {
            tree.finish(&mut batch, &state)?;
        }
        let prefix = keys::view_back_range(database.number(), index.id()).start[..8].to_vec();
        engine.ingest(Table::ViewBack, &mut PrefixedPairs { prefix, pairs: backs.finish()?, key: Vec::new() })?;
        database.store.commit(&batch)?;
        Ok(built)
    }
}

/// Returns the documents that have responses.
fn load_parents(reader: &dyn TableReader, database: &Database) -> Result<HashSet<Unid>> {
    let range = KeyRange::prefix(&database.number().to_key());
    let mut cursor = reader.scan(Table::Children, &range, Direction::Forward)?;
    let mut parents = HashSet::new();
    while let Some((key, _)) = cursor.next()? {
        let unid = Decoder::new(key.get(4..).unwrap_or_default()).array().map_err(|_| damaged(Table::Children, key))?;
        parents.insert(Unid(unid));
    }
    Ok(parents)
}

/// Sorted pairs with a prefix added to each key.
struct PrefixedPairs {
    prefix: Vec<u8>,
    pairs: SortedPairs,
    key: Vec<u8>,
}

impl Cursor for PrefixedPairs {
    fn next(&mut self) -> store::Result<Option<(&[u8], &[u8])>> {
        let Some((key, value)) = self.pairs.next()? else { return Ok(None) };
        self.key.clear();
        self.key.extend_from_slice(&self.prefix);
        self.key.extend_from_slice(key);
        Ok(Some((&self.key, value)))
    }
}

/// Sorted entries of a collection, which are added to its tree of counts as they pass.
struct CountingCursor<'b> {
    id: CollectionId,
    weigher: &'b dyn EntryWeigher,
    pairs: SortedPairs,
    builder: CollectionBuilder,
    batch: &'b mut Batch,
    key: Vec<u8>,
}

impl<'b> CountingCursor<'b> {
    fn new(id: CollectionId, weigher: &'b dyn EntryWeigher, pairs: SortedPairs, batch: &'b mut Batch) -> Self {
        let builder = CollectionBuilder::start(id, weigher.sums(), NodeSizes::default(), batch);
        Self { id, weigher, pairs, builder, batch, key: Vec::new() }
    }

    fn finish(self, state: &[u8]) -> Result<()> {
        self.builder.finish(self.batch, state)?;
        Ok(())
    }
}

impl Cursor for CountingCursor<'_> {
    fn next(&mut self) -> store::Result<Option<(&[u8], &[u8])>> {
        let Some((key, value)) = self.pairs.next()? else { return Ok(None) };
        let weight = self.weigher.weigh(key, value).expect("rows that the builder wrote can be weighed");
        self.builder.add(self.batch, key, weight)?;
        self.key.clear();
        self.key.extend_from_slice(&self.id.prefix());
        self.key.extend_from_slice(key);
        Ok(Some((&self.key, value)))
    }
}

/// The sorted document rows, each category row inserted before its first document. Counts both, and computes the totals
/// of the categories.
struct RowStream<'b> {
    keys: &'b RowKeys,
    summing: &'b [usize],
    id: CollectionId,
    pairs: SortedPairs,
    builder: CollectionBuilder,
    batch: &'b mut Batch,
    /// The whole view, then the open categories, from the outermost inwards. The next row may belong to them.
    open: Vec<(Vec<u8>, CategoryTotals)>,
    /// Records of completed categories, and their size with their rows, in bytes.
    categories: ExternalSorter,
    category_bytes: u64,
    /// Engine key of the next document row, which waits until the category rows before it are returned.
    key: Vec<u8>,
    value: Vec<u8>,
    is_waiting: bool,
    /// Keys of the category rows to return before it, the next one last.
    before: Vec<Vec<u8>>,
    current: Vec<u8>,
}

impl<'b> RowStream<'b> {
    fn new(
        index: &'b ViewIndex,
        order: usize,
        pairs: SortedPairs,
        options: &BuildOptions,
        batch: &'b mut Batch,
    ) -> Self {
        let id = index.rows(order);
        let builder = CollectionBuilder::start(id, RowWeights.sums(), NodeSizes::default(), batch);
        let summing = index.summing();
        Self {
            keys: index.keys(order),
            summing,
            id,
            pairs,
            builder,
            batch,
            open: vec![(Vec::new(), CategoryTotals::new(summing.len()))],
            categories: ExternalSorter::new(&options.folder, options.memory / 4),
            category_bytes: 0,
            key: Vec::new(),
            value: Vec::new(),
            is_waiting: false,
            before: Vec::new(),
            current: Vec::new(),
        }
    }

    /// Reads the next document row and determines the category rows that begin before it.
    fn read_next(&mut self) -> store::Result<bool> {
        let Some((key, value)) = self.pairs.next()? else { return Ok(false) };
        self.key.clear();
        self.key.extend_from_slice(&self.id.prefix());
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        if self.keys.has_categories() {
            self.open_categories()?;
        }
        if self.open.len() == 1 && self.summing.is_empty() {
            self.open[0].1.add(None, &[]);
        } else {
            self.count();
        }
        self.is_waiting = true;
        Ok(true)
    }

    fn open_categories(&mut self) -> store::Result<()> {
        let key = &self.key[self.id.prefix().len()..];
        let paths = self.keys.paths_above(key).unwrap_or_default();
        let is_open = |((open, _), path): &(&(Vec<u8>, CategoryTotals), &&[u8])| open[..] == ***path;
        let kept = 1 + self.open[1..].iter().zip(&paths).take_while(is_open).count();
        self.category_bytes += close(&mut self.open, kept, &mut self.categories)?;
        for path in &paths[kept - 1..] {
            self.before.push([*path, &[mark::ROW]].concat());
            self.open.push((path.to_vec(), CategoryTotals::new(self.summing.len())));
        }
        self.before.reverse();
        Ok(())
    }

    /// Counts a row in every open category and in the whole view.
    fn count(&mut self) {
        let Ok(StoredRow::Document(row)) = StoredRow::decode(&self.value) else {
            unreachable!("only document rows are sorted")
        };
        let cells: Vec<_> = self.summing.iter().map(|column| &row.cells[*column]).collect();
        let names = if row.response_level == 0 { self.keys.spellings(&row.cells) } else { Vec::new() };
        for (depth, (_, tally)) in self.open.iter_mut().enumerate() {
            let name = depth.checked_sub(1).and_then(|depth| names.get(depth));
            tally.add(name.map(String::as_str), &cells);
        }
    }

    /// Ends the stream of rows. The tree has no state yet, which contains the size of all orders.
    fn finish(mut self) -> Result<BuiltRows> {
        self.category_bytes += close(&mut self.open, 0, &mut self.categories)?;
        Ok(BuiltRows { tree: self.builder, categories: self.categories, category_bytes: self.category_bytes })
    }
}

/// The result of a stream of rows.
struct BuiltRows {
    /// The tree of the rows.
    tree: CollectionBuilder,
    /// The records of the categories.
    categories: ExternalSorter,
    /// The size of the categories, in bytes.
    category_bytes: u64,
}

/// Writes the records of all open categories except the first `kept`. Returns the size of these categories.
fn close(
    open: &mut Vec<(Vec<u8>, CategoryTotals)>,
    kept: usize,
    categories: &mut ExternalSorter,
) -> store::Result<u64> {
    let mut bytes = 0;
    while open.len() > kept
        && let Some((path, tally)) = open.pop()
    {
        if !tally.is_empty() {
            let record = [&[open.len() as u8], &path[..]].concat();
            bytes += index_size::category_bytes(&record);
            categories.push(&record, &tally.encode())?;
        }
    }
    Ok(bytes)
}

impl Cursor for RowStream<'_> {
    fn next(&mut self) -> store::Result<Option<(&[u8], &[u8])>> {
        if !self.is_waiting && !self.read_next()? {
            return Ok(None);
        }
        if let Some(category) = self.before.pop() {
            self.builder.add(self.batch, &category, Weight::ZERO)?;
            self.current = self.id.entry_key(&category);
            return Ok(Some((&self.current, CATEGORY_ROW)));
        }
        self.is_waiting = false;
        let key = &self.key[self.id.prefix().len()..];
        let weight = RowWeights.weigh(key, &self.value).expect("rows that the builder wrote can be weighed");
        self.builder.add(self.batch, key, weight)?;
        Ok(Some((&self.key, &self.value)))
    }
}
