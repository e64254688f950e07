//! The index of a view, and how it follows the documents (`docs/views.md`, "Following the documents").
//!
//! An [`ViewIndex`] knows where the rows are stored and how their keys are made. [`ViewIndex::apply_changes`] applies
//! the changes since the last call, some hundred documents a batch. For each document it takes the old rows (from
//! `viewback`), evaluates the view's [`ViewFormulas`] for the new ones, and writes the difference. The applied modseq
//! is written in the same batch, so after a crash the index is late at most.
//!
//! If responses stand under their parents, a document whose rows moved causes an update of its responses, level by
//! level.
//!
//! Invariants: rows, category records and `viewback` change together; a category has a row and a record exactly while
//! there are documents beneath it; `viewback` holds exactly the keys of the note's rows.

mod order;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, NoteId, Unid, ViewId};
use formula::outcome::SelectedResponses;
use store::{Batch, Direction, Read, Table};

use self::order::{CollationUpdate, CountVisitor, OrderChanges};
use crate::access::ReadersId;
use crate::change_log;
use crate::collection::{self, CollectionId, Weigh, Weight};
use crate::database::{Database, damaged};
use crate::database_reader;
use crate::error::Result;
use crate::evaluate::{Subject, subject};
use crate::keys;
use crate::limits::{RESPONSE_LEVELS_MAX, VIEW_ENTRIES_PER_NOTE_MAX};
use crate::note::{Header, NoteClass, NoteFlags};
use crate::recent_changes::{PreviousState, RecentChange};
use crate::view::cell::Cell;
use crate::view::cycle::Cycles;
use crate::view::document_entries::{self, DocumentEntry, cells_within, row_bytes_max};
use crate::view::limits::{REFRESH_BYTES_MAX, REFRESH_TIME_MAX};
use crate::view::readers_filter::cache::{HiddenCache, RowChangeStep};
use crate::view::readers_filter::incremental::RowContent;
use crate::view::row::{DocumentRow, Row, RowKeys};
use crate::view::selection::{ViewFormulas, ViewRowValues};
use crate::view::view_format::{Column, Total, ViewDesign};

/// The index of a view: where its rows are stored, and how their keys are made.
pub struct ViewIndex {
    database: DbNumber,
    view: ViewId,
    design: ViewDesign,
    collations: Vec<RowKeys>,
    /// The columns with totals.
    summing: Vec<usize>,
    /// The value of [`ViewIndex::followed_modseq`].
    followed: AtomicU64,
}

/// The progress of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The modseq up to which the changes are in the index.
    pub applied: Modseq,
    /// `true` if no changes are left to apply.
    pub complete: bool,
    /// Number of changes that this call applied.
    pub changes: usize,
}

/// Number of response levels, main documents included, whose rows the tree counts separately.
pub const COUNTED_LEVELS: usize = 4;

/// Number of the sum that counts rows with Readers items.
pub(crate) const RESTRICTED_SUM: usize = COUNTED_LEVELS;

/// The weights of rows: they count documents of the levels 0 to 3, and rows with Readers items.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowWeights;

impl Weigh for RowWeights {
    fn sums(&self) -> usize {
        COUNTED_LEVELS + 1
    }

    fn weigh(&self, _key: &[u8], value: &[u8]) -> Option<Weight> {
        let head = Row::head(value).ok()?;
        Some(head.map_or(Weight::ZERO, |(level, is_restricted)| weight_of(usize::from(level), is_restricted)))
    }
}

impl RowContent {
    /// Returns the weight of the row.
    fn weight(&self) -> Weight {
        match self {
            Self::Category => Weight::ZERO,
            Self::Document(row) => weight_of(usize::from(row.response_level), row.readers.is_some()),
            Self::Counted { response_level, restricted } => weight_of(usize::from(*response_level), *restricted),
        }
    }
}

/// Returns the weight of a document's row.
fn weight_of(level: usize, is_restricted: bool) -> Weight {
    let mut values = [0; COUNTED_LEVELS + 1];
    if level < COUNTED_LEVELS {
        values[level] = 1;
    }
    values[RESTRICTED_SUM] = i64::from(is_restricted);
    Weight::new(&values)
}

impl ViewIndex {
    /// Creates the index of a view whose design was checked. Stores nothing.
    #[must_use]
    pub fn new(database: DbNumber, view: ViewId, design: ViewDesign) -> Self {
        let collations = design.collations().iter().map(|collation| RowKeys::new(&design, collation)).collect();
        let summing = |(index, column): (usize, &Column)| (column.total != Total::None).then_some(index);
        let summing = design.columns.iter().enumerate().filter_map(summing).collect();
        Self { database, view, design, collations, summing, followed: AtomicU64::new(0) }
    }

    /// Returns the number under which the rows are stored.
    #[must_use]
    pub fn id(&self) -> ViewId {
        self.view
    }

    /// Returns the modseq at which the rows matched the documents exactly, or 0 if unknown.
    ///
    /// An index that has applied only some of the changes may be ahead in some documents.
    pub(crate) fn followed_modseq(&self) -> Modseq {
        Modseq(self.followed.load(Ordering::SeqCst))
    }

    /// Returns the design.
    #[must_use]
    pub fn design(&self) -> &ViewDesign {
        &self.design
    }

    /// Returns the indexes of the columns with totals.
    #[must_use]
    pub fn summing(&self) -> &[usize] {
        &self.summing
    }

    /// Returns the number of orders in which the rows are kept.
    #[must_use]
    pub fn orders(&self) -> usize {
        self.collations.len()
    }

    /// Returns the key layout of an order.
    #[must_use]
    pub fn keys(&self, collation: usize) -> &RowKeys {
        &self.collations[collation]
    }

    /// Reads the modseq up to which documents are in an index from the state of its rows.
    pub(crate) fn applied(&self, state: &[u8]) -> Result<Modseq> {
        if state.is_empty() { Ok(Modseq(0)) } else { decode_state(state, self) }
    }

    /// Returns the collection of the rows in one order.
    #[must_use]
    pub fn rows(&self, collation: usize) -> CollectionId {
        assert!(collation < self.collations.len(), "the sort order belongs to this view");
        CollectionId { database: self.database, view: self.view, collation: collation as u8 }
    }

    /// Returns the collection of the categories in one order.
    #[must_use]
    pub fn categories(&self, collation: usize) -> CollectionId {
        CollectionId { collation: self.rows(collation).collation + CATEGORY_COLLATION_OFFSET, ..self.rows(collation) }
    }

    /// Calls `each` for the records in which a document's row counts.
    pub(crate) fn each_count(
        &self,
        collation: usize,
        key: &[u8],
        row: &DocumentRow,
        each: &mut CountVisitor<'_>,
    ) -> Result<()> {
        order::each_count(&self.collations[collation], &self.summing, key, row, each)
    }

    /// Reads the modseq up to which documents are in the stored index.
    pub(crate) fn stored_modseq(&self, reader: &dyn Read) -> Result<Modseq> {
        self.applied(collection::Reader::open(reader, self.rows(0))?.state())
    }

    /// Applies at most about `limit` changes. The caller repeats the call for the rest, so that others can write in
    /// between.
    ///
    /// Returns `None` if the index is no longer in use. If `watched` holds the hidden rows of any reader, the changes
    /// of the rows are logged there.
    pub(crate) fn apply_changes(
        &self,
        database: &Database,
        question: &dyn ViewFormulas,
        limit: usize,
        watched: Option<&HiddenCache>,
    ) -> Result<Option<Progress>> {
        let lock = database.lock();
        database.check_not_dropped()?;
        if !database.views.is_in_use(self.view) {
            return Ok(None);
        }
        let watched = watched.filter(|watched| watched.is_watched());
        let mut update = IndexUpdate::open(self, database, question, watched.is_some())?;
        let changes = changes_since(database, update.applied, limit)?;
        let complete = changes.len() < limit;
        let last = changes.last().map_or(update.applied, |last| last.modseq);
        let applied = if complete { lock.modseq } else { last };
        // Only the step that passes the purged modseq searches for notes whose stubs were purged.
        let passes_purge = update.applied < lock.purged_modseq && lock.purged_modseq <= applied;
        let vanished = if passes_purge { update.notes_without_stub(limit)? } else { Vec::new() };
        update.rows_are_derivable =
            !passes_purge && self.followed_modseq() == update.applied && self.rows_follow_from_documents(question);
        vanished.iter().try_for_each(|note| update.apply(*note))?;
        let progress = if vanished.len() >= limit {
            Progress { applied: update.applied, complete: false, changes: vanished.len() }
        } else {
            let followed = update.apply_changes(&changes)?;
            match changes.get(followed) {
                None => Progress { applied, complete, changes: followed },
                Some(_) => Progress { applied: changes[followed - 1].modseq, complete: false, changes: followed },
            }
        };
        let from = update.applied;
        let to = progress.applied;
        if to > from || progress.changes > 0 {
            let mut batch = Batch::new();
            let changes = update.finish(to, &mut batch)?;
            database.store.commit(&batch)?;
            self.find_spellings(database, &changes)?;
            let orders = changes.into_iter().map(|order| order.rows).collect();
            match watched {
                Some(watched) if to > from => watched.log(RowChangeStep { from, to, orders }),
                // The cached hidden rows are dropped, because the new state of the rows has no modseq of its own.
                Some(watched) => watched.forget(),
                None => {}
            }
        }
        self.followed.store(if progress.complete { to.0 } else { 0 }, Ordering::SeqCst);
        if progress.complete {
            database.drop_old_versions();
        }
        drop(lock);
        Ok(Some(progress))
    }
}

impl ViewIndex {
    /// Collects the spellings of categories again that have few left, for each order. The caller holds the lock of the
    /// database.
    fn find_spellings(&self, database: &Database, changes: &[OrderChanges]) -> Result<()> {
        for (collation, changes) in changes.iter().enumerate() {
            for record in &changes.lacking_spellings {
                let batch = order::find_spellings(self, collation, database.store.as_ref(), record)?;
                database.store.commit(&batch)?;
            }
        }
        Ok(())
    }
}

/// Returns `true` if a note is a document that was not deleted.
pub(crate) fn is_document(header: &Header) -> bool {
    !header.is_stub() && header.class == NoteClass::DOCUMENT
}

/// Returns `true` if a document has responses.
fn has_responses(reader: &dyn Read, database: DbNumber, unid: Unid) -> Result<bool> {
    let mut cursor = reader.scan(Table::Children, &keys::children_of(database, unid), Direction::Forward)?;
    Ok(cursor.next()?.is_some())
}

/// Returns about `limit` changes after a modseq, in their order. Recent changes come from memory.
fn changes_since(database: &Database, since: Modseq, limit: usize) -> Result<Vec<RecentChange>> {
    if let Some(recent) = database.recent_changes(since, limit) {
        return Ok(recent);
    }
    let changes = change_log::scan_transactions(database.store.as_ref(), database.number(), since, limit)?;
    let told =
        |change: change_log::ChangeEntry| RecentChange { modseq: change.modseq, note: change.note, before: None };
    Ok(changes.into_iter().map(told).collect())
}

/// Offset from the number of an order to the collection of its categories.
const CATEGORY_COLLATION_OFFSET: u8 = 128;

/// Sampling rate of a check: for one note in so many, the rows computed from its last version are compared with the
/// stored ones.
const KNOWN_ROWS_CHECK_INTERVAL: u32 = 16;

/// Version of the records in `viewback` and of the state.
const VERSION: u8 = 1;

/// Flags of the records in `viewback`.
const SELECTED: u8 = 1;
const HAS_READERS: u8 = 2;
const CYCLE: u8 = 4;

/// The record of a note in `viewback`: its rows in the view.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct ViewBackRecord {
    /// `true` if the selection takes the note by itself, not because of a document above it.
    selected: bool,
    /// `true` if the note has Readers items.
    restricted: bool,
    /// The note's UNID if it is a member of a response cycle.
    cycle: Option<Unid>,
    /// The keys of its rows, for each order.
    pub(crate) keys: Vec<Vec<Vec<u8>>>,
}

impl ViewBackRecord {
    /// Creates the record of a note without rows.
    pub(crate) fn nowhere(orders: usize) -> Self {
        Self { selected: false, restricted: false, cycle: None, keys: vec![Vec::new(); orders] }
    }

    pub(crate) fn is_in(&self) -> bool {
        self.keys.iter().any(|keys| !keys.is_empty())
    }

    /// Returns `true` if the record must be stored.
    fn says_something(&self) -> bool {
        self.is_in() || self.cycle.is_some()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let head = ViewBackHead { selected: self.selected, restricted: self.restricted, cycle: self.cycle };
        head.encode(self.keys.iter().map(|keys| keys.iter().map(Vec::as_slice)))
    }

    pub(crate) fn decode(bytes: &[u8], orders: usize) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != VERSION {
            return Err(InvalidRecord);
        }
        let flags = input.u8()?;
        let cycle = if flags & CYCLE == 0 { None } else { Some(Unid(input.array()?)) };
        if input.count()? != orders {
            return Err(InvalidRecord);
        }
        let mut keys = Vec::with_capacity(orders);
        for _ in 0..orders {
            let count =
                Some(input.count()?).filter(|count| *count <= VIEW_ENTRIES_PER_NOTE_MAX).ok_or(InvalidRecord)?;
            keys.push((0..count).map(|_| input.bytes().map(<[u8]>::to_vec)).collect::<std::result::Result<_, _>>()?);
        }
        Ok(Self { selected: flags & SELECTED != 0, restricted: flags & HAS_READERS != 0, cycle, keys })
    }
}

/// The data of a `viewback` record besides the keys of the rows.
struct ViewBackHead {
    selected: bool,
    restricted: bool,
    cycle: Option<Unid>,
}

impl ViewBackHead {
    fn encode<'k, K>(&self, orders: impl ExactSizeIterator<Item = K>) -> Vec<u8>
    where
        K: ExactSizeIterator<Item = &'k [u8]>,
    {
        let mut out = Encoder::with_capacity(128);
        let flags = [(self.selected, SELECTED), (self.restricted, HAS_READERS), (self.cycle.is_some(), CYCLE)];
        out.u8(VERSION).u8(flags.iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).sum());
        if let Some(unid) = self.cycle {
            out.raw(&unid.0);
        }
        out.varint(orders.len() as u64);
        for keys in orders {
            out.varint(keys.len() as u64);
            for key in keys {
                out.bytes(key);
            }
        }
        out.finish()
    }
}

/// A batch of changes to the index.
struct IndexUpdate<'u> {
    index: &'u ViewIndex,
    database: &'u Database,
    store: &'u dyn Read,
    question: &'u dyn ViewFormulas,
    orders: Vec<CollationUpdate<'u>>,
    /// The records of the notes that were read, each with `true` if it changed.
    backs: HashMap<NoteId, (ViewBackRecord, bool)>,
    /// The detector of response cycles.
    cycles: Cycles,
    /// The modseq that was applied before.
    applied: Modseq,
    /// `true` if the stored rows match the documents as of `applied`, and can be computed from these documents.
    rows_are_derivable: bool,
}

impl<'u> IndexUpdate<'u> {
    fn open(
        index: &'u ViewIndex,
        database: &'u Database,
        question: &'u dyn ViewFormulas,
        is_watched: bool,
    ) -> Result<Self> {
        let store: &dyn Read = database.store.as_ref();
        let open = |collation| CollationUpdate::open(index, collation, store, is_watched);
        let orders = (0..index.collations.len()).map(open).collect::<Result<Vec<_>>>()?;
        let applied = index.applied(orders[0].rows.state())?;
        let backs = HashMap::new();
        let cycles = Cycles::default();
        Ok(Self { index, database, store, question, orders, backs, cycles, applied, rows_are_derivable: false })
    }

    /// Returns up to `limit` notes that have rows but no longer exist: their stubs were purged before the index had
    /// followed.
    fn notes_without_stub(&self, limit: usize) -> Result<Vec<NoteId>> {
        let range = keys::view_back_range(self.index.database, self.index.view);
        let mut cursor = self.store.scan(Table::ViewBack, &range, Direction::Forward)?;
        let mut found = Vec::new();
        while let Some((key, _)) = cursor.next()? {
            let note = keys::split_view_back(key).ok_or_else(|| damaged(Table::ViewBack, key))?;
            if database_reader::load_header(self.store, self.database, note)?.is_none() {
                found.push(note);
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    /// Applies changes in their order until their rows exceed [`REFRESH_BYTES_MAX`] or the time exceeds
    /// [`REFRESH_TIME_MAX`]. Returns the number of applied changes. A transaction is applied completely.
    fn apply_changes(&mut self, changes: &[RecentChange]) -> Result<usize> {
        let clock = &self.database.clock;
        let began = clock.monotonic();
        for (number, change) in changes.iter().enumerate() {
            let is_next = number > 0 && changes[number - 1].modseq < change.modseq;
            let is_enough = || {
                let bytes = self.orders.iter().map(CollationUpdate::bytes).sum::<usize>();
                bytes > REFRESH_BYTES_MAX || clock.monotonic() - began > REFRESH_TIME_MAX
            };
            if is_next && is_enough() {
                return Ok(number);
            }
            self.apply_change(change)?;
        }
        Ok(changes.len())
    }

    /// Applies a change. If a note changed several times, its first change holds the version from which its rows were
    /// made, and brings the rows to the current state.
    fn apply_change(&mut self, change: &RecentChange) -> Result<()> {
        match &change.before {
            _ if !self.rows_are_derivable => self.apply(change.note),
            _ if self.backs.contains_key(&change.note) => Ok(()),
            None => self.apply(change.note),
            Some(before) => self.apply_known(change.note, before),
        }
    }

    /// Updates the rows of a note that were made from a known version.
    fn apply_known(&mut self, note: NoteId, before: &PreviousState) -> Result<()> {
        let had = match before {
            PreviousState::New => self.index.nowhere(),
            PreviousState::Version(version) => {
                self.index.place(self.question, &version.subject(), ParentPosition::Nothing)
            }
        };
        let back = had.back();
        if note.0.is_multiple_of(KNOWN_ROWS_CHECK_INTERVAL) {
            self.check_known(note, &had)?;
        }
        let header = database_reader::load_header(self.store, self.database, note)?;
        let has = self.rows_of(header.as_ref())?;
        let after = has.back();
        let is_changed = back != after;
        self.backs.insert(note, (after, is_changed));
        for ((order, had), has) in self.orders.iter_mut().zip(had.rows).zip(has.rows) {
            let had = had.into_iter().map(|(key, row)| (key, RowContent::Document(row))).collect();
            order.replace(had, has)?;
        }
        Ok(())
    }

    /// Compares the rows computed from a version of a note with the stored rows.
    fn check_known(&mut self, note: NoteId, had: &DocumentRows) -> Result<()> {
        let mut is_known = self.back(note)? == had.back();
        for (order, rows) in self.orders.iter_mut().zip(&had.rows) {
            for (key, row) in rows {
                is_known = is_known && order.rows.find(key)? == Some(row.encode());
            }
        }
        let key = keys::view_back_key(self.index.database, self.index.view, note);
        if is_known { Ok(()) } else { Err(damaged(Table::ViewBack, &key)) }
    }

    /// Updates the rows of a note, and those of its responses if its rows moved.
    fn apply(&mut self, note: NoteId) -> Result<()> {
        let follows_parents = self.index.follows_parents(self.question);
        let mut queue = VecDeque::from([note]);
        while let Some(note) = queue.pop_front() {
            let before = self.back(note)?;
            let header = database_reader::load_header(self.store, self.database, note)?;
            let unid = match &header {
                _ if !follows_parents => None,
                Some(header) => Some(header.unid),
                None => self.unid_in_rows(&before)?,
            };
            let after = self.place(header.as_ref(), &before)?;
            if before == after {
                continue;
            }
            self.backs.insert(note, (after, true));
            if let Some(unid) = unid {
                queue.extend(database_reader::load_children(self.store, self.index.database, unid)?);
            }
        }
        Ok(())
    }

    /// Returns the UNID of a note whose stub was purged before the index had followed, from its record or its rows.
    fn unid_in_rows(&mut self, back: &ViewBackRecord) -> Result<Option<Unid>> {
        if back.cycle.is_some() {
            return Ok(back.cycle);
        }
        let Some((order, key)) = back.keys.iter().enumerate().find_map(|(order, keys)| Some((order, keys.first()?)))
        else {
            return Ok(None);
        };
        let value = self.orders[order].rows.find(key)?.ok_or_else(|| damaged(Table::ViewBack, key))?;
        document(key, &value).map(|row| Some(row.unid))
    }

    /// Writes the current rows of a note and returns its new record.
    fn place(&mut self, header: Option<&Header>, before: &ViewBackRecord) -> Result<ViewBackRecord> {
        let has = self.rows_of(header)?;
        let back = has.back();
        for ((order, has), had) in self.orders.iter_mut().zip(has.rows).zip(&before.keys) {
            let had = order.stored(had, before.restricted, &has)?;
            order.replace(had, has)?;
        }
        Ok(back)
    }

    /// Computes the rows of a note.
    fn rows_of(&mut self, header: Option<&Header>) -> Result<DocumentRows> {
        match header.filter(|header| is_document(header)) {
            Some(header) => self.evaluate(header),
            None => Ok(self.index.nowhere()),
        }
    }

    /// Evaluates selection and columns for a document, and computes its rows in each order.
    fn evaluate(&mut self, header: &Header) -> Result<DocumentRows> {
        let Some(bytes) = database_reader::load_summary_bytes(self.store, self.database, header.note)? else {
            return Ok(self.index.nowhere());
        };
        let subject = subject(header, &bytes, self.database)?;
        let parent = header.parent.filter(|_| self.index.follows_parents(self.question));
        let placed = match parent {
            None => self.index.place(self.question, &subject, ParentPosition::Nothing),
            Some(parent) if self.is_in_cycle(header.unid, parent)? => {
                self.index.place(self.question, &subject, ParentPosition::CycleMember)
            }
            Some(parent) => {
                let back = self.parent(parent)?;
                self.index.place(
                    self.question,
                    &subject,
                    back.as_ref().map_or(ParentPosition::Nothing, ParentPosition::Document),
                )
            }
        };
        Ok(placed)
    }

    /// Returns `true` if a document with the parent `parent` is a member of a cycle.
    fn is_in_cycle(&mut self, unid: Unid, parent: Unid) -> Result<bool> {
        let store = self.store;
        let database = self.database;
        // The parent of most responses was just checked, or the response has no responses itself. In both cases the
        // chain of parents need not be followed.
        let is_new = self.cycles.cached(unid).is_none() && self.cycles.cached(parent).is_none();
        if is_new && !has_responses(store, self.index.database, unid)? {
            return Ok(false);
        }
        self.cycles.is_member(unid, parent, &mut |above| {
            let Some(note) = database_reader::find(store, database.number(), above)? else { return Ok(None) };
            let header = database_reader::load_header(store, database, note)?.filter(is_document);
            Ok(header.and_then(|header| header.parent))
        })
    }

    fn parent(&mut self, unid: Unid) -> Result<Option<ViewBackRecord>> {
        let note = database_reader::find(self.store, self.index.database, unid)?;
        note.map(|note| self.back(note)).transpose()
    }

    fn back(&mut self, note: NoteId) -> Result<ViewBackRecord> {
        if let Some((back, _)) = self.backs.get(&note) {
            return Ok(back.clone());
        }
        let key = keys::view_back_key(self.index.database, self.index.view, note);
        let orders = self.orders.len();
        let back = match self.store.get(Table::ViewBack, &key)? {
            Some(value) => ViewBackRecord::decode(&value, orders).map_err(|_| damaged(Table::ViewBack, &key))?,
            None => ViewBackRecord::nowhere(orders),
        };
        self.backs.insert(note, (back.clone(), false));
        Ok(back)
    }

    /// Puts all changes into the batch. Returns the changes of the rows of each order, and the category records that
    /// lack spellings.
    fn finish(self, applied: Modseq, batch: &mut Batch) -> Result<Vec<OrderChanges>> {
        assert!(applied >= self.applied, "an index applies changes in modseq order");
        for (note, (back, _)) in self.backs.iter().filter(|(_, (_, changed))| *changed) {
            let key = keys::view_back_key(self.index.database, self.index.view, *note);
            if back.says_something() {
                batch.put(Table::ViewBack, &key, &back.encode());
            } else {
                batch.delete(Table::ViewBack, &key);
            }
        }
        let state = encode_state(applied);
        let finish = |mut order: CollationUpdate<'_>| {
            order.rows.set_state(&state);
            order.finish(batch)
        };
        self.orders.into_iter().map(finish).collect()
    }
}

/// The key of a row and its contents.
type KeyAndRow = (Vec<u8>, Arc<DocumentRow>);

/// The position above a document.
#[derive(Clone, Copy)]
pub(crate) enum ParentPosition<'b> {
    /// No parent: the document is no response, or its parent is absent.
    Nothing,
    /// A parent with this record.
    Document(&'b ViewBackRecord),
    /// The document itself: it is a member of a response cycle and is treated as if it had no parent.
    CycleMember,
}

/// The rows of a document.
pub(crate) struct DocumentRows {
    /// `true` if the selection takes the document by itself.
    pub(crate) selected: bool,
    /// The document's UNID if it is a member of a response cycle.
    cycle: Option<Unid>,
    /// The rows, for each order.
    pub(crate) rows: Vec<Vec<KeyAndRow>>,
}

impl DocumentRows {
    /// Returns `true` if a `viewback` record must be stored.
    pub(crate) fn says_something(&self) -> bool {
        self.cycle.is_some() || self.rows.iter().any(|rows| !rows.is_empty())
    }

    fn is_restricted(&self) -> bool {
        self.rows.iter().flatten().next().is_some_and(|(_, row)| row.readers.is_some())
    }

    /// Encodes the `viewback` record of the document.
    pub(crate) fn encode_back(&self) -> Vec<u8> {
        let head = ViewBackHead { selected: self.selected, restricted: self.is_restricted(), cycle: self.cycle };
        head.encode(self.rows.iter().map(|rows| rows.iter().map(|(key, _)| key.as_slice())))
    }

    /// Returns the `viewback` record of the document.
    pub(crate) fn back(&self) -> ViewBackRecord {
        let keys_of = |rows: &Vec<KeyAndRow>| rows.iter().map(|(key, _)| key.clone()).collect();
        let selected = self.selected;
        let restricted = self.is_restricted();
        ViewBackRecord { selected, restricted, cycle: self.cycle, keys: self.rows.iter().map(keys_of).collect() }
    }
}

impl ViewIndex {
    /// Returns `true` if the rows of a response depend on those of its parent.
    pub(crate) fn follows_parents(&self, question: &dyn ViewFormulas) -> bool {
        self.design.shows_response_hierarchy || question.responses() != SelectedResponses::None
    }

    /// Returns `true` if the rows of a document depend on the document alone, at any time.
    fn rows_follow_from_documents(&self, question: &dyn ViewFormulas) -> bool {
        question.is_steady() && !self.follows_parents(question)
    }

    fn nowhere(&self) -> DocumentRows {
        DocumentRows { selected: false, cycle: None, rows: vec![Vec::new(); self.collations.len()] }
    }

    /// Computes the rows of a document from the position above it.
    pub(crate) fn place(
        &self,
        question: &dyn ViewFormulas,
        subject: &Subject<'_>,
        above: ParentPosition<'_>,
    ) -> DocumentRows {
        let header = subject.header;
        let cycle = matches!(above, ParentPosition::CycleMember).then_some(header.unid);
        let parent = match above {
            ParentPosition::Document(back) => Some(back),
            ParentPosition::Nothing | ParentPosition::CycleMember => None,
        };
        if self.design.no_conflicts && header.flags.has(NoteFlags::CONFLICT) {
            return DocumentRows { cycle, ..self.nowhere() };
        }
        let ViewRowValues { selected, cells } = question.answer(subject);
        let comes_along = parent.is_some_and(|parent| match question.responses() {
            SelectedResponses::None => false,
            SelectedResponses::Children => parent.selected,
            SelectedResponses::Descendants => parent.is_in(),
        });
        if !selected && !comes_along {
            return DocumentRows { cycle, ..self.nowhere() };
        }
        assert_eq!(cells.len(), self.design.columns.len(), "each column has a cell");
        let head = DocumentRow {
            unid: header.unid,
            response_level: 0,
            readers: header.flags.has(NoteFlags::HAS_READERS).then(|| ReadersId::of(&subject.items)),
            conflict: header.flags.has(NoteFlags::CONFLICT),
            cells: Vec::new(),
        };
        let shown = ShownDocument::new(&self.design, head, cells);
        let rows_in = |order: usize, keys: &RowKeys| match (self.design.shows_response_hierarchy, header.parent) {
            (true, Some(_)) => {
                let above = parent.and_then(|parent| parent.keys.get(order));
                shown.response_rows(keys, header.note, above.map_or(&[], Vec::as_slice))
            }
            _ => shown.main_rows(keys, header.note),
        };
        let rows = self.collations.iter().enumerate().map(|(order, keys)| rows_in(order, keys)).collect();
        DocumentRows { selected, cycle, rows }
    }
}

/// The columns and rows that a view shows of a document.
struct ShownDocument<'d> {
    design: &'d ViewDesign,
    /// The values of the columns, if they exceed the size of a row. Keys are made of these values.
    values: Option<Vec<Cell>>,
    /// The row of a document that has a single row.
    row: Arc<DocumentRow>,
}

impl<'d> ShownDocument<'d> {
    fn new(design: &'d ViewDesign, head: DocumentRow, cells: Vec<Cell>) -> Self {
        if cells.iter().map(Cell::byte_count).sum::<usize>() <= row_bytes_max(1) {
            return Self { design, values: None, row: Arc::new(DocumentRow { cells, ..head }) };
        }
        let cut = cells_within(design, &DocumentEntry::whole(&cells), row_bytes_max(1));
        Self { design, values: Some(cells), row: Arc::new(DocumentRow { cells: cut, ..head }) }
    }

    fn values(&self) -> &[Cell] {
        self.values.as_ref().unwrap_or(&self.row.cells)
    }

    fn row_of(&self, response_level: u8, cells: Vec<Cell>) -> Arc<DocumentRow> {
        let DocumentRow { unid, readers, conflict, .. } = *self.row;
        Arc::new(DocumentRow { unid, response_level, readers, conflict, cells })
    }

    /// Returns the rows of a response: one beneath each row of its parent. Without a parent in the view there are none.
    fn response_rows(&self, keys: &RowKeys, note: NoteId, above: &[Vec<u8>]) -> Vec<KeyAndRow> {
        // A key contains the document of each level above. All rows of a document are on the same level.
        let level = above.first().and_then(|parent| keys.documents_in(parent)).map_or(usize::MAX, |above| above.len());
        if level > RESPONSE_LEVELS_MAX {
            return Vec::new();
        }
        let cells = cells_within(self.design, &DocumentEntry::whole(self.values()), row_bytes_max(above.len()));
        let row = self.row_of(level as u8, cells);
        above.iter().map(|parent| (keys.response(parent, level, self.values(), note), Arc::clone(&row))).collect()
    }

    /// Returns the rows of a main document: one for each of its entries.
    fn main_rows(&self, keys: &RowKeys, note: NoteId) -> Vec<KeyAndRow> {
        let Some(entries) = document_entries::entries(self.design, self.values()) else {
            return vec![(keys.document(self.values(), note, 0), Arc::clone(&self.row))];
        };
        let bytes_max = row_bytes_max(entries.len());
        let numbered = (0..).zip(&entries).map(|(number, entry)| {
            let cells = cells_within(self.design, entry, bytes_max);
            (keys.document(entry, note, number), self.row_of(0, cells))
        });
        numbered.collect()
    }
}

/// Decodes the row of a document.
pub(crate) fn document(key: &[u8], value: &[u8]) -> Result<DocumentRow> {
    match Row::decode(value) {
        Ok(Row::Document(row)) => Ok(row),
        _ => Err(damaged(Table::View, key)),
    }
}

pub(crate) fn encode_state(applied: Modseq) -> Vec<u8> {
    let mut out = Encoder::with_capacity(9);
    out.u8(VERSION).u64(applied.0);
    out.finish()
}

fn decode_state(state: &[u8], index: &ViewIndex) -> Result<Modseq> {
    let mut input = Decoder::new(state);
    let decoded = input.u8().and_then(|version| if version == VERSION { input.u64() } else { Err(InvalidRecord) });
    decoded.map(Modseq).map_err(|_| damaged(Table::Tree, &index.rows(0).prefix()))
}

#[cfg(test)]
mod tests;
