//! The update of a view's index from the changes of the documents (`docs/views.md`, "Following the documents").
//!
//! [`ViewIndex::apply_changes`] applies the changes since the last call, some hundred documents a batch. For each
//! document it takes the old rows (from `viewback`), evaluates the view's [`CompiledView`] for the new ones, and writes
//! the difference. The applied modseq is written in the same batch, so after a crash the index is late at most.
//!
//! If responses stand under their parents, a document whose rows moved causes an update of its responses, level by
//! level.

mod order;

use std::collections::{HashMap, VecDeque};

use base::{DbNumber, Modseq, NoteId, Unid};
use store::{Batch, Direction, Snapshot, Table, TableReader};

use self::order::{CollationUpdate, OrderChanges};
use crate::change_log;
use crate::counters::Counters;
use crate::database::Database;
use crate::error::{Result, damaged};
use crate::evaluate::stored_document;
use crate::formula_document::FormulaDocument;
use crate::keys;
use crate::note::NoteHeader;
use crate::recent_changes::{PreviousState, RecentChange};
use crate::records;
use crate::view::cycle::Cycles;
use crate::view::hidden_rows::cache::{HiddenCache, RowChangeStep};
use crate::view::index::{DocumentRows, ParentPosition, ViewBackRecord, ViewIndex, is_document};
use crate::view::index_growth::GrowthCheck;
use crate::view::index_state::IndexState;
use crate::view::limits::{REFRESH_BYTES_MAX, REFRESH_TIME_MAX};
use crate::view::row::decode_document_row;
use crate::view::row_change::{RowChange, RowState};
use crate::view::selection::CompiledView;

/// The progress of an index that follows the changes of its database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexUpdateProgress {
    /// The modseq up to which the changes are in the index.
    pub applied: Modseq,
    /// `true` if no changes are left to apply.
    pub complete: bool,
    /// Number of changes that this call applied.
    pub changes: usize,
}

impl ViewIndex {
    /// Applies at most about `limit` changes. The caller repeats the call for the rest.
    ///
    /// The changes are those of a snapshot, and the progress is complete if all of them are applied. The lock of the
    /// database is held to take the snapshot and to write the rows, and not while formulas are evaluated.
    ///
    /// Returns `None` if the index is no longer in use. Fails if the index of a personal view would become too large.
    ///
    /// If `watched` holds the hidden rows of any reader, the changes of the rows are logged there.
    pub(crate) fn apply_changes(
        &self,
        database: &Database,
        formulas: &CompiledView,
        limit: usize,
        watched: Option<&HiddenCache>,
    ) -> Result<Option<IndexUpdateProgress>> {
        let _turn = self.updates.lock();
        let Some((snapshot, counters)) = self.snapshot(database)? else { return Ok(None) };
        let watched = watched.filter(|watched| watched.is_watched());
        let mut update = IndexUpdate::open(self, database, &snapshot, formulas, watched.is_some())?;
        let from = update.state;
        let progress = update.follow(&counters, limit.max(1))?;
        assert!(update.state.applied >= from.applied, "an index applies changes in modseq order");
        let mut prepared = update.prepare(&from, &progress)?;
        let to = prepared.state;
        let counted_bytes = self.replaced_bytes().unwrap_or(from.bytes);
        let growth = GrowthCheck { database, reader: &snapshot, counters: &counters, counted_bytes };
        growth.check(self.account(), to.bytes)?;
        let mut lock = database.lock();
        database.check_not_dropped()?;
        if !database.views.is_in_use(self.id()) {
            return Ok(None);
        }
        if self.stored_state(database.store.as_ref())? != from {
            // A repair has changed the rows, or another opened view has updated them.
            return Ok(Some(IndexUpdateProgress { applied: from.applied, complete: false, changes: 0 }));
        }
        if to != from {
            let charged = self.charged_counters(&lock, from.bytes, to.bytes);
            if charged != *lock {
                prepared.batch.put(Table::Meta, &keys::counters(database.number), &charged.encode());
            }
            database.store.commit(&prepared.batch)?;
            *lock = charged;
            if let Some(watched) = watched {
                log_row_changes(watched, &from, &to, prepared.row_changes);
            }
        }
        self.set_followed_modseq(if progress.complete { to.applied } else { Modseq(0) });
        if progress.complete {
            database.drop_old_versions();
        }
        drop(lock);
        self.find_spellings(database, &to, &prepared.lacking_spellings)?;
        Ok(Some(progress))
    }
}

impl ViewIndex {
    /// Returns a snapshot of a database and its counters, or `None` if the index is no longer in use.
    fn snapshot<'d>(&self, database: &'d Database) -> Result<Option<(Snapshot<'d>, Counters)>> {
        let lock = database.lock();
        database.check_not_dropped()?;
        if !database.views.is_in_use(self.id()) {
            return Ok(None);
        }
        Ok(Some((database.store.snapshot()?, *lock)))
    }

    /// Returns the counters of the database after a change of the size of the index.
    fn charged_counters(&self, counters: &Counters, before: u64, after: u64) -> Counters {
        let mut charged = *counters;
        if self.replaced_bytes().is_none() {
            self.account().charge(&mut charged, before, after);
        }
        charged
    }

    /// Collects the spellings of categories again that have few left. `lacking` holds the keys of their records for
    /// each order. Nothing is done if the index has another state than `state`: then the next change of such a category
    /// finds that its spellings are few.
    fn find_spellings(&self, database: &Database, state: &IndexState, lacking: &[Vec<Vec<u8>>]) -> Result<()> {
        for (collation, records) in lacking.iter().enumerate() {
            for record in records {
                let Some((snapshot, _)) = self.snapshot(database)? else { return Ok(()) };
                if self.stored_state(&snapshot)? != *state {
                    return Ok(());
                }
                let batch = order::find_spellings(self, collation, &snapshot, record)?;
                let _lock = database.lock();
                database.check_not_dropped()?;
                let is_same = self.stored_state(database.store.as_ref())? == *state;
                if !is_same || !database.views.is_in_use(self.id()) {
                    return Ok(());
                }
                database.store.commit(&batch)?;
            }
        }
        Ok(())
    }
}

/// Records the changes of the rows from one state of the index to the next for the cached hidden rows. If one of the
/// states has no modseq of its own, all hidden rows are dropped instead.
fn log_row_changes(watched: &HiddenCache, from: &IndexState, to: &IndexState, orders: Vec<Vec<RowChange>>) {
    let are_numbered = from.within.is_none() && to.within.is_none() && to.applied > from.applied;
    if !are_numbered {
        watched.clear();
        return;
    }
    watched.log(RowChangeStep { from: from.applied, to: to.applied, orders });
}

/// An update that is ready to be written.
#[derive(Default)]
struct PreparedUpdate {
    /// The state after the update.
    state: IndexState,
    batch: Batch,
    /// The changes of the rows of each order, if the cache of hidden rows needs them.
    row_changes: Vec<Vec<RowChange>>,
    /// The keys of the category records of each order that lack spellings.
    lacking_spellings: Vec<Vec<Vec<u8>>>,
}

/// The next changes that an index applies.
struct NextChanges {
    /// Some of the changes, in their order.
    changes: Vec<RecentChange>,
    /// The modseq up to which the index has followed after them, or `None` if the last transaction continues.
    end: Option<Modseq>,
    /// `true` if no changes are left behind them.
    complete: bool,
}

impl NextChanges {
    /// Loads about `limit` changes after a state of an index. Recent changes come from memory. `store` is a snapshot in
    /// which `modseq` is that of the last transaction.
    fn load(
        database: &Database,
        store: &dyn TableReader,
        state: &IndexState,
        modseq: Modseq,
        limit: usize,
    ) -> Result<Self> {
        let Some(mut changes) = database.recent_changes(state.applied, limit) else {
            return Self::load_from_log(store, database.number(), state, modseq, limit);
        };
        let last = changes.last().map_or(state.applied, |last| last.modseq);
        // Changes that came after the snapshot are left for the next update.
        let complete = changes.len() < limit || last > modseq;
        changes.retain(|change| change.modseq <= modseq && !state.contains(change.modseq, change.note));
        Ok(Self { changes, end: Some(if complete { modseq } else { last }), complete })
    }

    /// Loads changes from the change log. A transaction is loaded whole unless it has more than twice as many notes.
    fn load_from_log(
        store: &dyn TableReader,
        database: DbNumber,
        state: &IndexState,
        modseq: Modseq,
        limit: usize,
    ) -> Result<Self> {
        let mut changes: Vec<RecentChange> = Vec::new();
        // `true` if the next change belongs to the last of these transactions; `None` if there is none.
        let mut continues = None;
        change_log::scan_from(store, database, state.cursor(), &mut |entry| {
            let last = changes.last().map(|last| (last.modseq, last.note));
            if last == Some((entry.modseq, entry.note)) {
                return Ok(true);
            }
            let is_same = last.is_some_and(|(last, _)| last == entry.modseq);
            if changes.len() >= limit && (!is_same || changes.len() >= limit.saturating_mul(2)) {
                continues = Some(is_same);
                return Ok(false);
            }
            changes.push(RecentChange { modseq: entry.modseq, note: entry.note, before: None });
            Ok(true)
        })?;
        let end = match continues {
            None => Some(modseq),
            Some(true) => None,
            Some(false) => changes.last().map(|last| last.modseq),
        };
        Ok(Self { changes, end, complete: continues.is_none() })
    }
}

/// Sampling rate of a check: for one note in so many, the rows computed from its last version are compared with the
/// stored ones.
const KNOWN_ROWS_CHECK_INTERVAL: u32 = 16;

/// A batch of changes to the index.
struct IndexUpdate<'u> {
    index: &'u ViewIndex,
    database: &'u Database,
    /// A snapshot of the store.
    store: &'u dyn TableReader,
    formulas: &'u CompiledView,
    orders: Vec<CollationUpdate<'u>>,
    /// The records of the notes that were read, each with `true` if it changed.
    backs: HashMap<NoteId, (ViewBackRecord, bool)>,
    /// The detector of response cycles.
    cycles: Cycles,
    /// The state of the index. It includes the changes of the update when they have been applied.
    state: IndexState,
    /// `true` if the stored rows match the documents as of `state.applied`, and can be computed from these documents.
    rows_are_derivable: bool,
}

impl<'u> IndexUpdate<'u> {
    fn open(
        index: &'u ViewIndex,
        database: &'u Database,
        store: &'u dyn TableReader,
        formulas: &'u CompiledView,
        is_watched: bool,
    ) -> Result<Self> {
        let open = |collation| CollationUpdate::open(index, collation, store, is_watched);
        let orders = (0..index.orders()).map(open).collect::<Result<Vec<_>>>()?;
        let state = index.state(orders[0].rows.state())?;
        let backs = HashMap::new();
        let cycles = Cycles::default();
        Ok(Self { index, database, store, formulas, orders, backs, cycles, state, rows_are_derivable: false })
    }

    /// Applies about `limit` changes, and updates the state. `counters` are those of the last transaction.
    fn follow(&mut self, counters: &Counters, limit: usize) -> Result<IndexUpdateProgress> {
        let from = self.state.applied;
        let next = NextChanges::load(self.database, self.store, &self.state, counters.modseq, limit)?;
        let last = next.changes.last().map_or(from, |last| last.modseq);
        // Only the step that passes the purged modseq searches for notes whose stubs were purged.
        let passes_purge = from < counters.purged_modseq && counters.purged_modseq <= next.end.unwrap_or(last);
        let vanished = if passes_purge { self.notes_without_stub(limit)? } else { Vec::new() };
        self.rows_are_derivable = !passes_purge
            && self.state.within.is_none()
            && !self.state.time_limited
            && self.index.followed_modseq() == from
            && self.index.rows_follow_from_documents(self.formulas);
        vanished.iter().try_for_each(|note| self.apply(*note))?;
        if vanished.len() >= limit {
            return Ok(IndexUpdateProgress { applied: from, complete: false, changes: vanished.len() });
        }
        let applied_count = self.apply_changes(&next.changes)?;
        let complete = self.advance(&next, applied_count);
        Ok(IndexUpdateProgress { applied: self.state.applied, complete, changes: applied_count })
    }

    /// Updates the state after some of the changes were applied. Returns `true` if no changes are left.
    fn advance(&mut self, next: &NextChanges, applied_count: usize) -> bool {
        let following = next.changes.get(applied_count);
        if let Some(end) = next.end.filter(|_| following.is_none()) {
            self.state.applied = end;
            self.state.within = None;
            return next.complete;
        }
        let Some(last) = applied_count.checked_sub(1).and_then(|last| next.changes.get(last)) else { return false };
        let continues = following.is_none_or(|following| following.modseq == last.modseq);
        self.state.applied = if continues { Modseq(last.modseq.0.saturating_sub(1)) } else { last.modseq };
        self.state.within = continues.then_some((last.modseq, last.note));
        false
    }

    /// Returns up to `limit` notes that have rows but no longer exist: their stubs were purged before the index had
    /// followed.
    fn notes_without_stub(&self, limit: usize) -> Result<Vec<NoteId>> {
        let range = keys::view_back_range(self.database.number, self.index.id());
        let mut cursor = self.store.scan(Table::ViewBack, &range, Direction::Forward)?;
        let mut found = Vec::new();
        while let Some((key, _)) = cursor.next()? {
            let note = keys::split_view_back(key).ok_or_else(|| damaged(Table::ViewBack, key))?;
            if records::load_header(self.store, self.database, note)?.is_none() {
                found.push(note);
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    /// Applies changes in their order until their rows exceed [`REFRESH_BYTES_MAX`] or the time exceeds
    /// [`REFRESH_TIME_MAX`]. Returns the number of applied changes, of which the last may lie within a transaction.
    fn apply_changes(&mut self, changes: &[RecentChange]) -> Result<usize> {
        let clock = &self.database.clock;
        let until = clock.monotonic().saturating_add(REFRESH_TIME_MAX);
        for (number, change) in changes.iter().enumerate() {
            let bytes: usize = self.orders.iter().map(CollationUpdate::bytes).sum();
            if number > 0 && (bytes > REFRESH_BYTES_MAX || clock.monotonic() >= until) {
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
            PreviousState::New => self.index.no_rows(),
            PreviousState::Version(version) => self.compute_rows(&version.formula_document(), ParentPosition::Nothing),
        };
        if had.is_time_limited() {
            // This time the formulas took longer, so these are not the rows that the note has.
            return self.apply(note);
        }
        let back = had.view_back_record();
        if note.0.is_multiple_of(KNOWN_ROWS_CHECK_INTERVAL) {
            self.check_known(note, &had)?;
        }
        let header = records::load_header(self.store, self.database, note)?;
        let has = self.rows_of(header.as_ref())?;
        self.replace_view_back(note, &back, has.view_back_record());
        for ((order, had), has) in self.orders.iter_mut().zip(had.rows).zip(has.rows) {
            let had = had.into_iter().map(|(key, row)| (key, RowState::Document(row))).collect();
            order.replace(had, has)?;
        }
        Ok(())
    }

    /// Compares the rows computed from a version of a note with the stored rows.
    fn check_known(&mut self, note: NoteId, had: &DocumentRows) -> Result<()> {
        let mut is_known = self.view_back_record(note)? == had.view_back_record();
        for (order, rows) in self.orders.iter_mut().zip(&had.rows) {
            for (key, row) in rows {
                is_known = is_known && order.rows.find(key)? == Some(row.encode());
            }
        }
        let key = keys::view_back_key(self.database.number, self.index.id(), note);
        if is_known { Ok(()) } else { Err(damaged(Table::ViewBack, &key)) }
    }

    /// Updates the rows of a note, and those of its responses if its rows moved.
    fn apply(&mut self, note: NoteId) -> Result<()> {
        let follows_parents = self.index.follows_parents(self.formulas);
        let mut queue = VecDeque::from([note]);
        while let Some(note) = queue.pop_front() {
            let before = self.view_back_record(note)?;
            let header = records::load_header(self.store, self.database, note)?;
            let unid = match &header {
                _ if !follows_parents => None,
                Some(header) => Some(header.unid),
                None => self.unid_in_rows(&before)?,
            };
            let after = self.write_rows(header.as_ref(), &before)?;
            if before == after {
                continue;
            }
            let has_moved = !after.has_same_place(&before);
            self.replace_view_back(note, &before, after);
            if let Some(unid) = unid.filter(|_| has_moved) {
                queue.extend(records::load_children(self.store, self.database.number, unid)?);
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
        decode_document_row(key, &value).map(|row| Some(row.unid))
    }

    /// Writes the current rows of a note and returns its new record.
    fn write_rows(&mut self, header: Option<&NoteHeader>, before: &ViewBackRecord) -> Result<ViewBackRecord> {
        let has = self.rows_of(header)?;
        let back = has.view_back_record();
        for ((order, has), had) in self.orders.iter_mut().zip(has.rows).zip(&before.keys) {
            let had = order.stored(had, before.restricted, &has)?;
            order.replace(had, has)?;
        }
        Ok(back)
    }

    /// Computes the rows of a note.
    fn rows_of(&mut self, header: Option<&NoteHeader>) -> Result<DocumentRows> {
        match header.filter(|header| is_document(header)) {
            Some(header) => self.evaluate(header),
            None => Ok(self.index.no_rows()),
        }
    }

    /// Evaluates selection and columns for a document, and computes its rows in each order.
    fn evaluate(&mut self, header: &NoteHeader) -> Result<DocumentRows> {
        let Some(bytes) = records::load_summary_bytes(self.store, self.database, header.note)? else {
            return Ok(self.index.no_rows());
        };
        let document = stored_document(header, &bytes, self.database)?;
        let parent = header.parent.filter(|_| self.index.follows_parents(self.formulas));
        let placed = match parent {
            None => self.compute_rows(&document, ParentPosition::Nothing),
            Some(parent) if self.is_in_cycle(header.unid, parent)? => {
                self.compute_rows(&document, ParentPosition::CycleMember)
            }
            Some(parent) => {
                let back = self.parent(parent)?;
                let above = back.as_ref().map_or(ParentPosition::Nothing, ParentPosition::Document);
                self.compute_rows(&document, above)
            }
        };
        self.state.time_limited |= placed.is_time_limited();
        Ok(placed)
    }

    fn compute_rows(&self, document: &FormulaDocument<'_>, above: ParentPosition<'_>) -> DocumentRows {
        self.index.compute_rows(self.formulas, document, above, &*self.database.clock)
    }

    /// Returns `true` if a document with the parent `parent` is a member of a cycle.
    fn is_in_cycle(&mut self, unid: Unid, parent: Unid) -> Result<bool> {
        let store = self.store;
        let database = self.database;
        // The parent of most responses was just checked, or the response has no responses itself. In both cases the
        // chain of parents need not be followed.
        let is_new = self.cycles.cached(unid).is_none() && self.cycles.cached(parent).is_none();
        if is_new && !has_responses(store, self.database.number, unid)? {
            return Ok(false);
        }
        self.cycles.is_member(unid, parent, &mut |above| {
            let Some(note) = records::find(store, database.number(), above)? else { return Ok(None) };
            let header = records::load_header(store, database, note)?.filter(is_document);
            Ok(header.and_then(|header| header.parent))
        })
    }

    fn parent(&mut self, unid: Unid) -> Result<Option<ViewBackRecord>> {
        let note = records::find(self.store, self.database.number, unid)?;
        note.map(|note| self.view_back_record(note)).transpose()
    }

    fn view_back_record(&mut self, note: NoteId) -> Result<ViewBackRecord> {
        if let Some((back, _)) = self.backs.get(&note) {
            return Ok(back.clone());
        }
        let key = keys::view_back_key(self.database.number, self.index.id(), note);
        let orders = self.orders.len();
        let back = match self.store.get(Table::ViewBack, &key)? {
            Some(value) => ViewBackRecord::decode(&value, orders).map_err(|_| damaged(Table::ViewBack, &key))?,
            None => ViewBackRecord::without_rows(orders),
        };
        self.backs.insert(note, (back.clone(), false));
        Ok(back)
    }

    /// Creates the batch of all changes since the state `from`. It is empty if there are none.
    fn prepare(mut self, from: &IndexState, progress: &IndexUpdateProgress) -> Result<PreparedUpdate> {
        let mut prepared = PreparedUpdate::default();
        if self.state != *from || progress.changes > 0 {
            self.state.batches += 1;
            for order in &mut self.orders {
                order.finish_categories(&mut self.state.bytes)?;
            }
            prepared.state = self.state;
            for order in self.finish(&mut prepared.batch)? {
                prepared.row_changes.push(order.rows);
                prepared.lacking_spellings.push(order.lacking_spellings);
            }
        } else {
            prepared.state = *from;
        }
        Ok(prepared)
    }

    /// Replaces the record of a note, and counts its size, and the note if it is limited.
    fn replace_view_back(&mut self, note: NoteId, before: &ViewBackRecord, after: ViewBackRecord) {
        let count = self.state.limited_documents.saturating_sub(u64::from(before.limited));
        self.state.limited_documents = count + u64::from(after.limited);
        self.state.bytes = self.state.bytes.saturating_sub(before.bytes).saturating_add(after.bytes);
        let is_changed = *before != after;
        self.backs.insert(note, (after, is_changed));
    }

    /// Puts all changes into the batch. Returns the changes of the rows of each order, and the category records that
    /// lack spellings.
    fn finish(self, batch: &mut Batch) -> Result<Vec<OrderChanges>> {
        for (note, (back, _)) in self.backs.iter().filter(|(_, (_, changed))| *changed) {
            let key = keys::view_back_key(self.database.number, self.index.id(), *note);
            if back.must_be_stored() {
                batch.put(Table::ViewBack, &key, &back.encode());
            } else {
                batch.delete(Table::ViewBack, &key);
            }
        }
        let state = self.state.encode();
        let finish = |mut order: CollationUpdate<'_>| {
            order.rows.set_state(&state);
            order.finish(batch)
        };
        self.orders.into_iter().map(finish).collect()
    }
}

/// Returns `true` if a document has responses.
fn has_responses(reader: &dyn TableReader, database: DbNumber, unid: Unid) -> Result<bool> {
    let mut cursor = reader.scan(Table::Children, &keys::children_of(database, unid), Direction::Forward)?;
    Ok(cursor.next()?.is_some())
}
