//! The index of a view, and how it follows the documents (`docs/views.md`, "Following the documents").
//!
//! An [`Index`] says where the rows lie and how their keys are made. [`Index::catch_up`] applies what has changed since the last time, some
//! hundred documents a batch: it takes the rows away that a document had (`viewback` knows them), asks the view's [`Question`] for what it
//! has now, and writes the difference. The modseq that is applied lies in the same batch, so that a crash leaves an index that is late at most.
//!
//! Where responses stand under their parents, a document whose rows moved has its responses looked at again, level by level.
//!
//! Invariants: rows, records of categories and `viewback` change together; a category has a row and a record exactly while there are
//! documents beneath it; what stands in `viewback` are the keys of the note's rows, no more and no fewer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::codec::{Decoder, Encoder, Truncated};
use base::{DbNumber, Modseq, NoteId, Unid, ViewId};
use formula::outcome::Responses;
use store::{Batch, Direction, Read, Table};

use crate::access::ReadersId;
use crate::change;
use crate::collection::limits::KEY_BYTES_MAX;
use crate::collection::{self, CollectionId, CountOnly, Weigh, Weight};
use crate::database::{Database, damaged};
use crate::error::Result;
use crate::evaluate::{Subject, subject};
use crate::keys;
use crate::limits::{RESPONSE_LEVELS_MAX, VIEW_ENTRIES_PER_NOTE_MAX};
use crate::note::{Header, NoteClass, NoteFlags};
use crate::reading;
use crate::recent::{Before, RecentChange};
use crate::view::category::Tally;
use crate::view::cell::Cell;
use crate::view::design::{Column, Total, ViewDesign};
use crate::view::entry;
use crate::view::hidden::cache::{HiddenCache, Step};
use crate::view::hidden::follow::{Content, RowChange};
use crate::view::question::{Answer, Question};
use crate::view::row::{DocumentRow, Keys, Row};

/// Where the rows of a view lie, and how their keys are made.
pub struct Index {
    database: DbNumber,
    view: ViewId,
    design: ViewDesign,
    collations: Vec<Keys>,
    /// The columns that sum up.
    summing: Vec<usize>,
    /// See [`Index::followed`].
    followed: AtomicU64,
}

/// How far an index has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The changes up to this one are in the index.
    pub applied: Modseq,
    /// Nothing is left to apply.
    pub complete: bool,
    /// Changes that were applied by this call.
    pub changes: usize,
}

/// Levels of responses, main documents included, whose rows the tree counts apart.
pub const COUNTED_LEVELS: usize = 4;

/// The sum that counts rows with Readers items.
pub(crate) const RESTRICTED: usize = COUNTED_LEVELS;

/// Weighs rows: documents of the levels 0 to 3, and rows with Readers items.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowWeigh;

impl Weigh for RowWeigh {
    fn sums(&self) -> usize {
        COUNTED_LEVELS + 1
    }

    fn weigh(&self, _key: &[u8], value: &[u8]) -> Option<Weight> {
        let head = Row::head(value).ok()?;
        Some(head.map_or(Weight::ZERO, |(level, is_restricted)| weight_of(usize::from(level), is_restricted)))
    }
}

impl Content {
    /// Gives what the row weighs.
    fn weight(&self) -> Weight {
        match self {
            Self::Category => Weight::ZERO,
            Self::Document(row) => weight_of(usize::from(row.response_level), row.readers.is_some()),
            Self::Counted { response_level, restricted } => weight_of(usize::from(*response_level), *restricted),
        }
    }
}

/// Gives what the row of a document weighs.
fn weight_of(level: usize, is_restricted: bool) -> Weight {
    let mut values = [0; COUNTED_LEVELS + 1];
    if level < COUNTED_LEVELS {
        values[level] = 1;
    }
    values[RESTRICTED] = i64::from(is_restricted);
    Weight::new(&values)
}

impl Index {
    /// Describes the index of a view whose design was checked.
    #[must_use]
    pub fn new(database: DbNumber, view: ViewId, design: ViewDesign) -> Self {
        let collations = design.collations().iter().map(|collation| Keys::new(&design, collation)).collect();
        let summing = |(index, column): (usize, &Column)| (column.total != Total::None).then_some(index);
        let summing = design.columns.iter().enumerate().filter_map(summing).collect();
        Self { database, view, design, collations, summing, followed: AtomicU64::new(0) }
    }

    /// Gives the number under which the rows lie.
    #[must_use]
    pub fn id(&self) -> ViewId {
        self.view
    }

    /// Tells as of which change the rows are those of the documents, exactly: 0 where that is not known. An index that has applied some changes of many may be
    /// ahead in some documents.
    pub(crate) fn followed(&self) -> Modseq {
        Modseq(self.followed.load(Ordering::SeqCst))
    }

    /// Gives the design.
    #[must_use]
    pub fn design(&self) -> &ViewDesign {
        &self.design
    }

    /// Gives the columns that sum up, by their index.
    #[must_use]
    pub fn summing(&self) -> &[usize] {
        &self.summing
    }

    /// Tells in how many orders the rows are kept.
    #[must_use]
    pub fn orders(&self) -> usize {
        self.collations.len()
    }

    /// Gives how the keys of an order are made.
    #[must_use]
    pub fn keys(&self, collation: usize) -> &Keys {
        &self.collations[collation]
    }

    /// Reads up to which modseq documents are in an index, from the state of its rows.
    pub(crate) fn applied(&self, state: &[u8]) -> Result<Modseq> {
        if state.is_empty() { Ok(Modseq(0)) } else { decode_state(state, self) }
    }

    /// Gives the collection of the rows in one order.
    #[must_use]
    pub fn rows(&self, collation: usize) -> CollectionId {
        assert!(collation < self.collations.len(), "an order of this view");
        CollectionId { database: self.database, view: self.view, collation: collation as u8 }
    }

    /// Gives the collection of the categories in one order.
    #[must_use]
    pub fn categories(&self, collation: usize) -> CollectionId {
        CollectionId { collation: self.rows(collation).collation + CATEGORIES, ..self.rows(collation) }
    }

    /// Calls `each` for the records in which a document's row counts.
    pub(crate) fn each_count(
        &self,
        collation: usize,
        key: &[u8],
        row: &DocumentRow,
        each: &mut EachCount<'_>,
    ) -> Result<()> {
        each_count(&self.collations[collation], &self.summing, key, row, each)
    }

    /// Reads up to which modseq documents are in the index as it is stored now.
    pub(crate) fn stored_modseq(&self, reader: &dyn Read) -> Result<Modseq> {
        self.applied(collection::Reader::open(reader, self.rows(0))?.state())
    }

    /// Applies at most about `limit` changes; whoever has more to apply calls again, so that others can write in between. Nothing when the index serves no more.
    /// How the rows changed is written down with `watched`, if somebody's view is kept there.
    pub(crate) fn catch_up(
        &self,
        database: &Database,
        question: &dyn Question,
        limit: usize,
        watched: Option<&HiddenCache>,
    ) -> Result<Option<Progress>> {
        let lock = database.lock();
        database.refuse_when_dropped()?;
        if !database.views.is_live(self.view) {
            return Ok(None);
        }
        let watched = watched.filter(|watched| watched.is_watched());
        let mut update = Update::open(self, database, question, watched.is_some())?;
        let changes = changes_since(database, update.applied, limit)?;
        let complete = changes.len() < limit;
        let last = changes.last().map_or(update.applied, |last| last.modseq);
        let applied = if complete { lock.modseq } else { last };
        // The step that passes the purge looks for what it forgot; those before it need not.
        let passes_purge = update.applied < lock.purged_modseq && lock.purged_modseq <= applied;
        let vanished = if passes_purge { update.vanished(limit)? } else { Vec::new() };
        update.knows_rows =
            !passes_purge && self.followed() == update.applied && self.rows_follow_from_documents(question);
        vanished.iter().try_for_each(|note| update.apply(*note))?;
        let progress = if vanished.len() >= limit {
            Progress { applied: update.applied, complete: false, changes: vanished.len() }
        } else {
            changes.iter().try_for_each(|change| update.follow(change))?;
            Progress { applied, complete, changes: changes.len() }
        };
        let (from, to) = (update.applied, progress.applied);
        if to > from || progress.changes > 0 {
            let mut batch = Batch::new();
            let orders = update.finish(to, &mut batch)?;
            database.store.commit(&batch)?;
            match watched {
                Some(watched) if to > from => watched.log(Step { from, to, orders }),
                // What was hidden is found anew: the state has no number of its own.
                Some(watched) => watched.forget(),
                None => {}
            }
        }
        self.followed.store(if progress.complete { to.0 } else { 0 }, Ordering::SeqCst);
        if progress.complete {
            database.forget_versions();
        }
        drop(lock);
        Ok(Some(progress))
    }
}

/// Gives about `limit` changes after a modseq, in their order: from memory, where they are recent.
fn changes_since(database: &Database, since: Modseq, limit: usize) -> Result<Vec<RecentChange>> {
    if let Some(recent) = database.recent_changes(since, limit) {
        return Ok(recent);
    }
    let changes = change::scan_some(database.store.as_ref(), database.number(), since, limit)?;
    let told = |change: change::ChangeEntry| RecentChange { modseq: change.modseq, note: change.note, before: None };
    Ok(changes.into_iter().map(told).collect())
}

/// What is added to the number of an order to name the collection of its categories.
const CATEGORIES: u8 = 128;

/// One note of so many has the rows that were found from its last version compared with those that are stored.
const KNOWN_ROWS_CHECKED: u32 = 16;

/// The version of the records in `viewback` and of the state.
const VERSION: u8 = 1;

/// Where a note stands in the view.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Back {
    /// The selection takes it by itself, and not for the sake of a document above it.
    selected: bool,
    /// It has Readers items.
    restricted: bool,
    /// For each order, the keys of its rows.
    pub(crate) keys: Vec<Vec<Vec<u8>>>,
}

impl Back {
    /// Says that a note has no rows.
    pub(crate) fn nowhere(orders: usize) -> Self {
        Self { selected: false, restricted: false, keys: vec![Vec::new(); orders] }
    }

    pub(crate) fn is_in(&self) -> bool {
        self.keys.iter().any(|keys| !keys.is_empty())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        encode_back((self.selected, self.restricted), self.keys.iter().map(|keys| keys.iter().map(Vec::as_slice)))
    }

    pub(crate) fn decode(bytes: &[u8], orders: usize) -> std::result::Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != VERSION {
            return Err(Truncated);
        }
        let flags = input.u8()?;
        if input.count()? != orders {
            return Err(Truncated);
        }
        let mut keys = Vec::with_capacity(orders);
        for _ in 0..orders {
            let count = Some(input.count()?).filter(|count| *count <= VIEW_ENTRIES_PER_NOTE_MAX).ok_or(Truncated)?;
            keys.push((0..count).map(|_| input.bytes().map(<[u8]>::to_vec)).collect::<std::result::Result<_, _>>()?);
        }
        Ok(Self { selected: flags & 1 != 0, restricted: flags & 2 != 0, keys })
    }
}

fn encode_back<'k, K>((selected, restricted): (bool, bool), orders: impl ExactSizeIterator<Item = K>) -> Vec<u8>
where
    K: ExactSizeIterator<Item = &'k [u8]>,
{
    let mut out = Encoder::with_capacity(128);
    out.u8(VERSION).u8(u8::from(selected) | u8::from(restricted) << 1).varint(orders.len() as u64);
    for keys in orders {
        out.varint(keys.len() as u64);
        for key in keys {
            out.bytes(key);
        }
    }
    out.finish()
}

/// A batch of changes to the index.
struct Update<'u> {
    index: &'u Index,
    database: &'u Database,
    store: &'u dyn Read,
    question: &'u dyn Question,
    orders: Vec<OrderUpdate<'u>>,
    /// Where the notes stand that were looked at, and whether that changed.
    backs: HashMap<NoteId, (Back, bool)>,
    /// What was applied before.
    applied: Modseq,
    /// The rows that are there are those of the documents as of `applied`, and can be found from these.
    knows_rows: bool,
}

impl<'u> Update<'u> {
    fn open(index: &'u Index, database: &'u Database, question: &'u dyn Question, is_watched: bool) -> Result<Self> {
        let store: &dyn Read = database.store.as_ref();
        let open = |collation| OrderUpdate::open(index, collation, store, is_watched);
        let orders = (0..index.collations.len()).map(open).collect::<Result<Vec<_>>>()?;
        let applied = index.applied(orders[0].rows.state())?;
        Ok(Self { index, database, store, question, orders, backs: HashMap::new(), applied, knows_rows: false })
    }

    /// Finds up to `limit` notes that have rows and are gone: their stubs were purged before the index had followed.
    fn vanished(&self, limit: usize) -> Result<Vec<NoteId>> {
        let range = keys::view_back(self.index.database, self.index.view);
        let mut cursor = self.store.scan(Table::ViewBack, &range, Direction::Forward)?;
        let mut found = Vec::new();
        while let Some((key, _)) = cursor.next()? {
            let note = keys::split_view_back(key).ok_or_else(|| damaged(Table::ViewBack, key))?;
            if reading::load_header(self.store, self.database, note)?.is_none() {
                found.push(note);
            }
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    /// Applies a change. Of several changes of a note the first says how it was when its rows were made, and with it all are applied.
    fn follow(&mut self, change: &RecentChange) -> Result<()> {
        match &change.before {
            _ if !self.knows_rows => self.apply(change.note),
            _ if self.backs.contains_key(&change.note) => Ok(()),
            None => self.apply(change.note),
            Some(before) => self.apply_known(change.note, before),
        }
    }

    /// Brings the rows of a note up to date that are those of a version.
    fn apply_known(&mut self, note: NoteId, before: &Before) -> Result<()> {
        let had = match before {
            Before::New => self.index.nowhere(),
            Before::Version(version) => self.index.place(self.question, &version.subject(), None),
        };
        let back = had.back();
        if note.0.is_multiple_of(KNOWN_ROWS_CHECKED) {
            self.check_known(note, &had)?;
        }
        let header = reading::load_header(self.store, self.database, note)?;
        let has = self.placed(header.as_ref())?;
        let after = has.back();
        let is_changed = back != after;
        self.backs.insert(note, (after, is_changed));
        for ((order, had), has) in self.orders.iter_mut().zip(had.rows).zip(has.rows) {
            let had = had.into_iter().map(|(key, row)| (key, Content::Document(row))).collect();
            order.replace(had, has)?;
        }
        Ok(())
    }

    /// Compares the rows that were found from a version of a note with those that are stored of it.
    fn check_known(&mut self, note: NoteId, had: &Placed) -> Result<()> {
        let mut is_known = self.back(note)? == had.back();
        for (order, rows) in self.orders.iter_mut().zip(&had.rows) {
            for (key, row) in rows {
                is_known = is_known && order.rows.find(key)? == Some(row.encode());
            }
        }
        let key = keys::view_back_of(self.index.database, self.index.view, note);
        if is_known { Ok(()) } else { Err(damaged(Table::ViewBack, &key)) }
    }

    /// Brings the rows of a note up to date, and those of its responses when it moved.
    fn apply(&mut self, note: NoteId) -> Result<()> {
        let follows_parents = self.index.follows_parents(self.question);
        let mut queue = VecDeque::from([note]);
        while let Some(note) = queue.pop_front() {
            let before = self.back(note)?;
            let header = reading::load_header(self.store, self.database, note)?;
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
                queue.extend(reading::load_children(self.store, self.index.database, unid)?);
            }
        }
        Ok(())
    }

    /// Finds the UNID of a note whose stub was purged before the index had followed: its rows still tell it.
    fn unid_in_rows(&mut self, back: &Back) -> Result<Option<Unid>> {
        let Some((order, key)) = back.keys.iter().enumerate().find_map(|(order, keys)| Some((order, keys.first()?)))
        else {
            return Ok(None);
        };
        let value = self.orders[order].rows.find(key)?.ok_or_else(|| damaged(Table::ViewBack, key))?;
        document(key, &value).map(|row| Some(row.unid))
    }

    /// Writes the rows that a note has now; gives where it stands.
    fn place(&mut self, header: Option<&Header>, before: &Back) -> Result<Back> {
        let has = self.placed(header)?;
        let back = has.back();
        for ((order, has), had) in self.orders.iter_mut().zip(has.rows).zip(&before.keys) {
            let had = order.stored(had, before.restricted, &has)?;
            order.replace(had, has)?;
        }
        Ok(back)
    }

    /// Finds where a note belongs.
    fn placed(&mut self, header: Option<&Header>) -> Result<Placed> {
        match header.filter(|header| !header.is_stub() && header.class == NoteClass::DOCUMENT) {
            Some(header) => self.ask(header),
            None => Ok(self.index.nowhere()),
        }
    }

    /// Asks the question of a document: whether the selection takes it, and for each order its rows.
    fn ask(&mut self, header: &Header) -> Result<Placed> {
        let Some(bytes) = reading::load_summary_bytes(self.store, self.database, header.note)? else {
            return Ok(self.index.nowhere());
        };
        let parent = match header.parent.filter(|_| self.index.follows_parents(self.question)) {
            Some(unid) => self.parent(unid)?,
            None => None,
        };
        Ok(self.index.place(self.question, &subject(header, &bytes, self.database)?, parent.as_ref()))
    }

    fn parent(&mut self, unid: Unid) -> Result<Option<Back>> {
        let note = reading::find(self.store, self.index.database, unid)?;
        note.map(|note| self.back(note)).transpose()
    }

    fn back(&mut self, note: NoteId) -> Result<Back> {
        if let Some((back, _)) = self.backs.get(&note) {
            return Ok(back.clone());
        }
        let key = keys::view_back_of(self.index.database, self.index.view, note);
        let orders = self.orders.len();
        let back = match self.store.get(Table::ViewBack, &key)? {
            Some(value) => Back::decode(&value, orders).map_err(|_| damaged(Table::ViewBack, &key))?,
            None => Back::nowhere(orders),
        };
        self.backs.insert(note, (back.clone(), false));
        Ok(back)
    }

    /// Puts everything into the batch; gives how the rows of each order changed.
    fn finish(self, applied: Modseq, batch: &mut Batch) -> Result<Vec<Vec<RowChange>>> {
        assert!(applied >= self.applied, "an index follows the order of changes");
        for (note, (back, _)) in self.backs.iter().filter(|(_, (_, changed))| *changed) {
            let key = keys::view_back_of(self.index.database, self.index.view, *note);
            if back.is_in() {
                batch.put(Table::ViewBack, &key, &back.encode());
            } else {
                batch.delete(Table::ViewBack, &key);
            }
        }
        let state = encode_state(applied);
        let finish = |mut order: OrderUpdate<'_>| {
            order.rows.set_state(&state);
            order.finish(batch)
        };
        self.orders.into_iter().map(finish).collect()
    }
}

/// The key of a row and what it shows.
type KeyAndRow = (Vec<u8>, Arc<DocumentRow>);

/// Where a document stands.
pub(crate) struct Placed {
    /// The selection takes it by itself.
    pub(crate) selected: bool,
    /// For each order, its rows.
    pub(crate) rows: Vec<Vec<KeyAndRow>>,
}

impl Placed {
    /// Tells whether it has rows.
    pub(crate) fn is_in(&self) -> bool {
        self.rows.iter().any(|rows| !rows.is_empty())
    }

    fn is_restricted(&self) -> bool {
        self.rows.iter().flatten().next().is_some_and(|(_, row)| row.readers.is_some())
    }

    /// Gives the stored form of what is kept of it.
    pub(crate) fn encode_back(&self) -> Vec<u8> {
        encode_back(
            (self.selected, self.is_restricted()),
            self.rows.iter().map(|rows| rows.iter().map(|(key, _)| key.as_slice())),
        )
    }

    /// Gives what is kept of it.
    pub(crate) fn back(&self) -> Back {
        let keys_of = |rows: &Vec<KeyAndRow>| rows.iter().map(|(key, _)| key.clone()).collect();
        let (selected, restricted) = (self.selected, self.is_restricted());
        Back { selected, restricted, keys: self.rows.iter().map(keys_of).collect() }
    }
}

impl Index {
    /// Tells whether the rows of a response depend on those of its parent.
    pub(crate) fn follows_parents(&self, question: &dyn Question) -> bool {
        self.design.responses || question.responses() != Responses::None
    }

    /// Tells whether the rows of a document follow from the document alone, whenever it is asked.
    fn rows_follow_from_documents(&self, question: &dyn Question) -> bool {
        question.is_steady() && !self.follows_parents(question)
    }

    fn nowhere(&self) -> Placed {
        Placed { selected: false, rows: vec![Vec::new(); self.collations.len()] }
    }

    /// Finds where a document stands whose parent, if it has one, stands there.
    pub(crate) fn place(&self, question: &dyn Question, subject: &Subject<'_>, parent: Option<&Back>) -> Placed {
        let header = subject.header;
        if self.design.no_conflicts && header.flags.has(NoteFlags::CONFLICT) {
            return self.nowhere();
        }
        let Answer { selected, cells } = question.answer(subject);
        let comes_along = parent.is_some_and(|parent| match question.responses() {
            Responses::None => false,
            Responses::Children => parent.selected,
            Responses::Descendants => parent.is_in(),
        });
        if !selected && !comes_along {
            return self.nowhere();
        }
        assert_eq!(cells.len(), self.design.columns.len(), "each column has a cell");
        let row = Arc::new(DocumentRow {
            unid: header.unid,
            response_level: 0,
            readers: header.flags.has(NoteFlags::HAS_READERS).then(|| ReadersId::of(&subject.items)),
            conflict: header.flags.has(NoteFlags::CONFLICT),
            cells,
        });
        let rows_in = |order: usize, keys: &Keys| match (self.design.responses, header.parent) {
            (true, Some(_)) => {
                let above = parent.and_then(|parent| parent.keys.get(order));
                response_rows(keys, header.note, &row, above.map_or(&[], Vec::as_slice))
            }
            _ => main_rows(&self.design, keys, header.note, &row),
        };
        let rows = self.collations.iter().enumerate().map(|(order, keys)| rows_in(order, keys)).collect();
        Placed { selected, rows }
    }
}

/// Makes the rows of a response: one beneath each row of its parent. Without a parent in the view there is none.
fn response_rows(keys: &Keys, note: NoteId, row: &DocumentRow, above: &[Vec<u8>]) -> Vec<KeyAndRow> {
    let mut rows = Vec::with_capacity(above.len());
    for parent in above {
        // A key names the document of each level above.
        let level = keys.documents_in(parent).map_or(usize::MAX, |documents| documents.len());
        let key = keys.response(parent, &row.cells, note);
        if level <= RESPONSE_LEVELS_MAX && key.len() <= KEY_BYTES_MAX {
            rows.push((key, Arc::new(DocumentRow { response_level: level as u8, ..row.clone() })));
        }
    }
    rows
}

/// Makes the rows of a document that stands by itself: one for each of its entries.
fn main_rows(design: &ViewDesign, keys: &Keys, note: NoteId, row: &Arc<DocumentRow>) -> Vec<KeyAndRow> {
    let Some(entries) = entry::entries(design, &row.cells) else {
        let key = keys.document(&row.cells, note, 0);
        return if key.len() <= KEY_BYTES_MAX { vec![(key, Arc::clone(row))] } else { Vec::new() };
    };
    let numbered = entries.into_iter().enumerate().map(|(entry, cells)| {
        let key = keys.document(&cells, note, entry as u16);
        let (unid, readers, conflict) = (row.unid, row.readers, row.conflict);
        (key, Arc::new(DocumentRow { unid, response_level: 0, readers, conflict, cells }))
    });
    numbered.filter(|(key, _)| key.len() <= KEY_BYTES_MAX).collect()
}

/// The changes to the rows and categories of one order.
struct OrderUpdate<'u> {
    keys: &'u Keys,
    summing: &'u [usize],
    store: &'u dyn Read,
    rows: collection::Writer<'u>,
    /// The records of categories. Most documents that change stay in their categories, and these are not looked at.
    categories: Option<collection::Writer<'u>>,
    categories_id: CollectionId,
    /// Records of categories by their keys.
    tallies: HashMap<Vec<u8>, TallyChange>,
    /// How the rows changed, for those who watch.
    changes: Option<Vec<RowChange>>,
}

/// How a record of a category changes.
#[derive(Default)]
struct TallyChange {
    /// The record, and whether it was there before; nothing while nobody needed it.
    loaded: Option<(Tally, bool)>,
    /// The last change, which the next one may undo: a document that stays in its category is taken out and put back.
    last: Option<Counted>,
}

/// A row that is counted in a category, or was.
#[derive(PartialEq)]
struct Counted {
    /// It is counted from now on, and not any more otherwise.
    comes: bool,
    spelling: Option<String>,
    cells: Vec<Cell>,
}

impl Counted {
    fn undoes(&self, other: &Self) -> bool {
        self.comes != other.comes && self.spelling == other.spelling && self.cells == other.cells
    }

    fn apply(&self, tally: &mut Tally) {
        let (spelling, cells) = (self.spelling.as_deref(), self.cells.iter().collect::<Vec<_>>());
        if self.comes { tally.add(spelling, &cells) } else { tally.remove(spelling, &cells) }
    }
}

impl<'u> OrderUpdate<'u> {
    fn open(index: &'u Index, collation: usize, store: &'u dyn Read, is_watched: bool) -> Result<Self> {
        let rows = collection::Writer::open(store, index.rows(collation), &RowWeigh)?;
        Ok(Self {
            keys: &index.collations[collation],
            summing: &index.summing,
            store,
            rows,
            categories: None,
            categories_id: index.categories(collation),
            tallies: HashMap::new(),
            changes: is_watched.then(Vec::new),
        })
    }

    /// Writes down how a row changes.
    fn note_change(&mut self, key: &[u8], before: Option<Content>, after: Option<Content>) {
        if let Some(changes) = &mut self.changes {
            changes.push(RowChange { key: key.to_vec(), before, after });
        }
    }

    /// Finds what is stored of the rows of a note that gets new ones. Of those that go it is read only where something depends on what they show.
    fn stored(&mut self, keys: &[Vec<u8>], restricted: bool, new: &[KeyAndRow]) -> Result<Vec<(Vec<u8>, Content)>> {
        let is_shown = self.keys.has_categories() || !self.summing.is_empty();
        let stays: HashSet<&[u8]> = new.iter().map(|(key, _)| &key[..]).collect();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let content = if is_shown || stays.contains(&key[..]) {
                let value = self.rows.find(key)?.ok_or_else(|| damaged(Table::ViewBack, key))?;
                Content::Document(Arc::new(document(key, &value)?))
            } else {
                let documents = self.keys.documents_in(key).ok_or_else(|| damaged(Table::ViewBack, key))?;
                Content::Counted { response_level: (documents.len() - 1) as u8, restricted }
            };
            found.push((key.clone(), content));
        }
        Ok(found)
    }

    /// Puts the rows of a note in the place of those that it had. Keys end with the number of the note: those that it did not have are new.
    fn replace(&mut self, old: Vec<(Vec<u8>, Content)>, new: Vec<KeyAndRow>) -> Result<()> {
        let mut had: HashMap<Vec<u8>, Content> = old.into_iter().collect();
        let stays: HashSet<&[u8]> = new.iter().map(|(key, _)| &key[..]).collect();
        for (key, content) in had.extract_if(|key, _| !stays.contains(&key[..])) {
            self.rows.remove_known(&key, content.weight())?;
            self.take_out(&key, &content)?;
            self.note_change(&key, Some(content), None);
        }
        for (key, row) in new {
            let value = row.encode();
            match had.remove(&key) {
                None => {
                    self.rows.insert(&key, &value)?;
                    self.count(&key, &row, true)?;
                    self.note_change(&key, None, Some(Content::Document(row)));
                }
                Some(Content::Document(before)) if before.encode() == value => {}
                Some(before) => {
                    self.rows.put_known(&key, &value, before.weight())?;
                    self.take_out(&key, &before)?;
                    self.count(&key, &row, true)?;
                    self.note_change(&key, Some(before), Some(Content::Document(row)));
                }
            }
        }
        Ok(())
    }

    /// Takes a row out of its categories and the whole.
    fn take_out(&mut self, key: &[u8], content: &Content) -> Result<()> {
        match content {
            Content::Document(row) => self.count(key, row, false),
            // Nothing but the number of documents depends on what the row showed.
            Content::Counted { .. } => self.tally(vec![0], Counted { comes: false, spelling: None, cells: Vec::new() }),
            Content::Category => unreachable!("rows of notes are no categories"),
        }
    }

    /// Counts a row in its categories and in the whole, or takes it out.
    fn count(&mut self, key: &[u8], row: &DocumentRow, comes: bool) -> Result<()> {
        let (keys, summing) = (self.keys, self.summing);
        each_count(keys, summing, key, row, &mut |record, spelling, cells| {
            let cells = cells.iter().map(|cell| (*cell).clone()).collect();
            self.tally(record, Counted { comes, spelling: spelling.map(str::to_owned), cells })
        })
    }

    /// Changes a record of a category.
    fn tally(&mut self, key: Vec<u8>, change: Counted) -> Result<()> {
        let mut entry = self.tallies.remove(&key).unwrap_or_default();
        entry.last = match entry.last.take() {
            Some(last) if change.undoes(&last) => None,
            Some(last) => {
                self.apply(&key, &mut entry, &last)?;
                Some(change)
            }
            None => Some(change),
        };
        self.tallies.insert(key, entry);
        Ok(())
    }

    fn apply(&mut self, key: &[u8], entry: &mut TallyChange, change: &Counted) -> Result<()> {
        if entry.loaded.is_none() {
            let stored = self.categories()?.find(key)?;
            let tally = match &stored {
                Some(value) => Tally::decode(value).map_err(|_| damaged(Table::View, key))?,
                None => Tally::new(self.summing.len()),
            };
            entry.loaded = Some((tally, stored.is_some()));
        }
        entry.loaded.iter_mut().for_each(|(tally, _)| change.apply(tally));
        Ok(())
    }

    fn categories(&mut self) -> Result<&mut collection::Writer<'u>> {
        let opened = match self.categories.take() {
            Some(opened) => opened,
            None => collection::Writer::open(self.store, self.categories_id, &CountOnly)?,
        };
        Ok(self.categories.insert(opened))
    }

    /// Writes the records of categories, makes and removes their rows, and puts all of it into the batch; gives how the rows changed.
    fn finish(mut self, batch: &mut Batch) -> Result<Vec<RowChange>> {
        for (key, mut entry) in std::mem::take(&mut self.tallies) {
            if let Some(last) = entry.last.take() {
                self.apply(&key, &mut entry, &last)?;
            }
            let Some((tally, existed)) = entry.loaded else { continue };
            let row_key = (key.len() > 1).then(|| [&key[1..], &[0]].concat());
            if tally.is_empty() {
                self.categories()?.remove(&key)?;
                if let Some(row_key) = row_key {
                    self.rows.remove(&row_key)?;
                    self.note_change(&row_key, Some(Content::Category).filter(|_| existed), None);
                }
                continue;
            }
            self.categories()?.put(&key, &tally.encode())?;
            if let Some(row_key) = row_key.filter(|_| !existed) {
                self.rows.put(&row_key, &Row::Category.encode())?;
                self.note_change(&row_key, None, Some(Content::Category));
            }
        }
        self.rows.finish(batch)?;
        if let Some(categories) = self.categories {
            categories.finish(batch)?;
        }
        Ok(self.changes.unwrap_or_default())
    }
}

/// Hears of a record in which a row counts: its key, what the row calls the category, and the cells that sum up.
pub(crate) type EachCount<'f> = dyn FnMut(Vec<u8>, Option<&str>, &[&Cell]) -> Result<()> + 'f;

fn each_count(keys: &Keys, summing: &[usize], key: &[u8], row: &DocumentRow, each: &mut EachCount<'_>) -> Result<()> {
    let paths = keys.paths_above(key).ok_or_else(|| damaged(Table::View, key))?;
    let is_main = row.response_level == 0;
    let names = if is_main { keys.spellings(&row.cells) } else { Vec::new() };
    let cells: Vec<&Cell> = summing.iter().map(|column| &row.cells[*column]).collect();
    each(vec![0], None, &cells)?;
    for (index, path) in paths.into_iter().enumerate() {
        let spelling = names.get(index).map(String::as_str);
        each([&[index as u8 + 1], path].concat(), spelling, &cells)?;
    }
    Ok(())
}

/// Reads the row of a document.
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

fn decode_state(state: &[u8], index: &Index) -> Result<Modseq> {
    let mut input = Decoder::new(state);
    let decoded = input.u8().and_then(|version| if version == VERSION { input.u64() } else { Err(Truncated) });
    decoded.map(Modseq).map_err(|_| damaged(Table::Tree, &index.rows(0).prefix()))
}

#[cfg(test)]
mod tests;
