//! The index of a view: where the rows are stored, how their keys are made, and which rows a document has.
//!
//! [`ViewIndex::compute_rows`] computes the rows of a document from its values and from the rows of its parent. A
//! record in `viewback` names the rows that a note has. [`super::index_update`] and [`super::build`] write them.
//!
//! Invariants: rows, category records and `viewback` change together; a category has a row and a record exactly while
//! there are documents beneath it; `viewback` holds exactly the keys of the note's rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::sync::Mutex;
use base::{Clock, DbNumber, Modseq, Unid, ViewId};
use collection::{CollectionId, CollectionReader};
use formula::BudgetExceeded;
use formula::outcome::SelectedResponses;
use store::{Table, TableReader};

use crate::error::{Result, damaged};
use crate::formula_document::FormulaDocument;
use crate::grant::ReadersId;
use crate::limits::{NOTE_ROWS_PER_VIEW_MAX, RESPONSE_LEVELS_MAX};
use crate::note::{NoteClass, NoteFlags, NoteHeader};
use crate::view::cell::Cell;
use crate::view::document_entries::{self, DocumentEntries, DocumentEntry, cells_within, row_bytes_max};
use crate::view::index_size::{self, IndexAccount};
use crate::view::index_state::IndexState;
use crate::view::row::{DocumentRow, KeyDocument, RowKeys, SharedComponents};
use crate::view::selection::{CompiledView, ViewRowValues};
use crate::view::view_format::{Column, Total, ViewDesign};

/// The index of a view: where its rows are stored, and how their keys are made.
pub struct ViewIndex {
    database: DbNumber,
    view: ViewId,
    design: ViewDesign,
    collations: Vec<RowKeys>,
    /// The account to which the size of the index is charged.
    account: IndexAccount,
    /// The size of the index in use, if this one is being built to replace it. Until then its own size does not count.
    replaced_bytes: Option<u64>,
    /// The columns with totals.
    summing: Vec<usize>,
    /// The value of [`ViewIndex::followed_modseq`].
    followed: AtomicU64,
    /// The lock of the single update. It is taken before the lock of the database.
    pub(crate) updates: Mutex<()>,
}

impl ViewIndex {
    /// Creates the index of a view whose design was checked. Stores nothing.
    #[must_use]
    pub fn new(database: DbNumber, view: ViewId, design: ViewDesign) -> Self {
        let collations = design.collations().iter().map(|collation| RowKeys::new(&design, collation)).collect();
        let summing = |(index, column): (usize, &Column)| (column.total != Total::None).then_some(index);
        let summing = design.columns.iter().enumerate().filter_map(summing).collect();
        Self {
            database,
            view,
            design,
            collations,
            account: IndexAccount::default(),
            replaced_bytes: None,
            summing,
            followed: AtomicU64::new(0),
            updates: Mutex::default(),
        }
    }

    /// Sets the account to which the size of the index is charged.
    #[must_use]
    pub(crate) fn charged_to(self, account: IndexAccount) -> Self {
        Self { account, ..self }
    }

    /// Marks the index as one that is being built to replace another one of this size.
    #[must_use]
    pub(crate) fn replacing(self, bytes: u64) -> Self {
        Self { replaced_bytes: Some(bytes), ..self }
    }

    /// Returns the account to which the size of the index is charged.
    pub(crate) fn account(&self) -> &IndexAccount {
        &self.account
    }

    /// Returns the size of the index in use, if this one is being built to replace it.
    pub(crate) fn replaced_bytes(&self) -> Option<u64> {
        self.replaced_bytes
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

    /// Sets the value of [`ViewIndex::followed_modseq`]. The caller holds the lock of the database.
    pub(crate) fn set_followed_modseq(&self, modseq: Modseq) {
        self.followed.store(modseq.0, Ordering::SeqCst);
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

    /// Decodes the state of the rows. A new index has none.
    pub(crate) fn state(&self, stored: &[u8]) -> Result<IndexState> {
        if stored.is_empty() {
            return Ok(IndexState::default());
        }
        IndexState::decode(stored).map_err(|_| damaged(Table::Tree, &self.rows(0).prefix()))
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
    pub(crate) fn for_each_count(
        &self,
        collation: usize,
        key: &[u8],
        row: &DocumentRow,
        each: &mut CountVisitor<'_>,
    ) -> Result<()> {
        let keys = self.keys(collation);
        let paths = keys.paths_above(key).ok_or_else(|| damaged(Table::View, key))?;
        let is_main = row.response_level == 0;
        let names = if is_main { keys.spellings(&row.cells) } else { Vec::new() };
        let cells: Vec<&Cell> = self.summing.iter().map(|column| &row.cells[*column]).collect();
        each(vec![0], None, &cells)?;
        for (index, path) in paths.into_iter().enumerate() {
            let spelling = names.get(index).map(String::as_str);
            each([&[index as u8 + 1], path].concat(), spelling, &cells)?;
        }
        Ok(())
    }

    /// Reads the state of the stored index.
    pub(crate) fn stored_state(&self, reader: &dyn TableReader) -> Result<IndexState> {
        self.state(CollectionReader::open(reader, self.rows(0))?.state())
    }

    /// Reads the modseq up to which documents are in the stored index.
    pub(crate) fn stored_modseq(&self, reader: &dyn TableReader) -> Result<Modseq> {
        Ok(self.stored_state(reader)?.applied)
    }
}

/// Returns `true` if a note is a document that was not deleted.
pub(crate) fn is_document(header: &NoteHeader) -> bool {
    !header.is_stub() && header.class == NoteClass::DOCUMENT
}

/// Offset from the number of an order to the collection of its categories.
const CATEGORY_COLLATION_OFFSET: u8 = 128;

/// Version of the records in `viewback`. Version 1, which only indexes with older rules have, has no size of the rows.
const VERSION: u8 = 2;

/// Flags of the records in `viewback`.
const SELECTED: u8 = 1;
const HAS_READERS: u8 = 2;
const CYCLE: u8 = 4;
const LIMITED: u8 = 8;

/// The record of a note in `viewback`: its rows in the view.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct ViewBackRecord {
    /// `true` if the selection takes the note by itself, not because of a document above it.
    selected: bool,
    /// `true` if the note has Readers items.
    pub(crate) restricted: bool,
    /// `true` if a limit stopped formulas of the note, or if it has more entries than are shown.
    pub(crate) limited: bool,
    /// The note's UNID if it is a member of a response cycle.
    pub(crate) cycle: Option<Unid>,
    /// The size of its rows, in bytes.
    pub(crate) bytes: u64,
    /// The keys of its rows, for each order.
    pub(crate) keys: Vec<Vec<Vec<u8>>>,
}

impl ViewBackRecord {
    /// Creates the record of a note without rows.
    pub(crate) fn without_rows(orders: usize) -> Self {
        Self { keys: vec![Vec::new(); orders], ..Self::default() }
    }

    pub(crate) fn has_rows(&self) -> bool {
        self.keys.iter().any(|keys| !keys.is_empty())
    }

    /// Returns `true` if the record must be stored.
    pub(crate) fn must_be_stored(&self) -> bool {
        self.has_rows() || self.cycle.is_some() || self.limited
    }

    /// Returns `true` if responses have the same rows with this record of their parent as with another one.
    pub(crate) fn has_same_place(&self, other: &Self) -> bool {
        self.selected == other.selected && self.cycle == other.cycle && self.keys == other.keys
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { selected, restricted, limited, cycle, bytes, .. } = *self;
        let head = ViewBackHead { selected, restricted, limited, cycle, bytes };
        head.encode(self.keys.iter().map(|keys| keys.iter().map(Vec::as_slice)))
    }

    pub(crate) fn decode(bytes: &[u8], orders: usize) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(1..=VERSION).contains(&version) {
            return Err(InvalidRecord);
        }
        let flags = input.u8()?;
        let cycle = if flags & CYCLE == 0 { None } else { Some(Unid(input.array()?)) };
        let row_bytes = if version == 1 { 0 } else { input.varint()? };
        if input.count()? != orders {
            return Err(InvalidRecord);
        }
        let mut keys = Vec::with_capacity(orders);
        for _ in 0..orders {
            let count = Some(input.count()?).filter(|count| *count <= NOTE_ROWS_PER_VIEW_MAX).ok_or(InvalidRecord)?;
            keys.push((0..count).map(|_| input.bytes().map(<[u8]>::to_vec)).collect::<std::result::Result<_, _>>()?);
        }
        let is_set = |flag: u8| flags & flag != 0;
        Ok(Self {
            selected: is_set(SELECTED),
            restricted: is_set(HAS_READERS),
            limited: is_set(LIMITED),
            cycle,
            bytes: row_bytes,
            keys,
        })
    }
}

/// The data of a `viewback` record besides the keys of the rows.
struct ViewBackHead {
    selected: bool,
    restricted: bool,
    limited: bool,
    cycle: Option<Unid>,
    bytes: u64,
}

impl ViewBackHead {
    fn encode<'k, K>(&self, orders: impl ExactSizeIterator<Item = K>) -> Vec<u8>
    where
        K: ExactSizeIterator<Item = &'k [u8]>,
    {
        let mut out = Encoder::with_capacity(128);
        let flags = [
            (self.selected, SELECTED),
            (self.restricted, HAS_READERS),
            (self.cycle.is_some(), CYCLE),
            (self.limited, LIMITED),
        ];
        out.u8(VERSION).u8(flags.iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).sum());
        if let Some(unid) = self.cycle {
            out.raw(&unid.0);
        }
        out.varint(self.bytes).varint(orders.len() as u64);
        for keys in orders {
            out.varint(keys.len() as u64);
            for key in keys {
                out.bytes(key);
            }
        }
        out.finish()
    }
}

/// A callback for each record in which a row counts. It receives the key of the record, the row's spelling of the
/// category, and the cells of the columns with totals.
pub(crate) type CountVisitor<'f> = dyn FnMut(Vec<u8>, Option<&str>, &[&Cell]) -> Result<()> + 'f;

/// The key of a row and its contents.
pub(crate) type KeyAndRow = (Vec<u8>, Arc<DocumentRow>);

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
    /// The limit that stopped a formula, if any.
    stopped: Option<BudgetExceeded>,
    /// `true` if the document has more entries than are shown.
    is_cut: bool,
    /// The size of the rows, in bytes.
    pub(crate) bytes: u64,
    /// The rows, for each order.
    pub(crate) rows: Vec<Vec<KeyAndRow>>,
}

impl DocumentRows {
    /// Returns `true` if the time stopped a formula, so that another evaluation may give other rows.
    pub(crate) fn is_time_limited(&self) -> bool {
        self.stopped == Some(BudgetExceeded::Time)
    }

    /// Returns `true` if a limit stopped a formula, or if the document has more entries than are shown.
    pub(crate) fn is_limited(&self) -> bool {
        self.stopped.is_some() || self.is_cut
    }

    /// Returns `true` if a `viewback` record must be stored.
    pub(crate) fn must_be_stored(&self) -> bool {
        self.cycle.is_some() || self.is_limited() || self.rows.iter().any(|rows| !rows.is_empty())
    }

    fn is_restricted(&self) -> bool {
        self.rows.iter().flatten().next().is_some_and(|(_, row)| row.readers.is_some())
    }

    /// Encodes the `viewback` record of the document.
    pub(crate) fn encode_view_back_record(&self) -> Vec<u8> {
        let selected = self.selected;
        let restricted = self.is_restricted();
        let limited = self.is_limited();
        let head = ViewBackHead { selected, restricted, limited, cycle: self.cycle, bytes: self.bytes };
        head.encode(self.rows.iter().map(|rows| rows.iter().map(|(key, _)| key.as_slice())))
    }

    /// Returns the `viewback` record of the document.
    pub(crate) fn view_back_record(&self) -> ViewBackRecord {
        let keys_of = |rows: &Vec<KeyAndRow>| rows.iter().map(|(key, _)| key.clone()).collect();
        ViewBackRecord {
            selected: self.selected,
            restricted: self.is_restricted(),
            limited: self.is_limited(),
            cycle: self.cycle,
            bytes: self.bytes,
            keys: self.rows.iter().map(keys_of).collect(),
        }
    }
}

impl ViewIndex {
    /// Returns `true` if the rows of a response depend on those of its parent.
    pub(crate) fn follows_parents(&self, formulas: &CompiledView) -> bool {
        self.design.shows_response_hierarchy || formulas.responses() != SelectedResponses::None
    }

    /// Returns `true` if the rows of a document depend on the document alone, at any time.
    pub(crate) fn rows_follow_from_documents(&self, formulas: &CompiledView) -> bool {
        formulas.is_deterministic() && !self.follows_parents(formulas)
    }

    pub(crate) fn no_rows(&self) -> DocumentRows {
        let rows = vec![Vec::new(); self.collations.len()];
        DocumentRows { selected: false, cycle: None, stopped: None, is_cut: false, bytes: 0, rows }
    }

    /// Computes the rows of a document from the position above it.
    pub(crate) fn compute_rows(
        &self,
        formulas: &CompiledView,
        document: &FormulaDocument<'_>,
        above: ParentPosition<'_>,
        clock: &dyn Clock,
    ) -> DocumentRows {
        let header = document.header;
        let cycle = matches!(above, ParentPosition::CycleMember).then_some(header.unid);
        let parent = match above {
            ParentPosition::Document(back) => Some(back),
            ParentPosition::Nothing | ParentPosition::CycleMember => None,
        };
        if self.design.no_conflicts && header.flags.contains(NoteFlags::CONFLICT) {
            return DocumentRows { cycle, ..self.no_rows() };
        }
        let ViewRowValues { selected, cells, stopped } = formulas.evaluate(document, clock);
        let comes_along = parent.is_some_and(|parent| match formulas.responses() {
            SelectedResponses::None => false,
            SelectedResponses::Children => parent.selected,
            SelectedResponses::Descendants => parent.has_rows(),
        });
        if !selected && !comes_along {
            return DocumentRows { cycle, stopped, ..self.no_rows() };
        }
        assert_eq!(cells.len(), self.design.columns.len(), "each column has a cell");
        let head = DocumentRow {
            unid: header.unid,
            response_level: 0,
            readers: header.flags.contains(NoteFlags::HAS_READERS).then(|| ReadersId::compute(&document.items)),
            conflict: header.flags.contains(NoteFlags::CONFLICT),
            cells: Vec::new(),
        };
        let shown = ShownDocument::new(&self.design, self.orders(), head, cells);
        let is_response = self.design.shows_response_hierarchy && header.parent.is_some();
        let entries = if is_response { None } else { shown.entries() };
        let entry_rows = entries.as_ref().map_or_else(Vec::new, |entries| shown.entry_rows(entries));
        let mut shared = SharedComponents::default();
        let mut rows_in = |order: usize, keys: &RowKeys| {
            if !is_response {
                return shown.main_rows(keys, header.into(), entries.as_ref(), &entry_rows, &mut shared);
            }
            let above = parent.and_then(|parent| parent.keys.get(order));
            shown.response_rows(keys, header.into(), above.map_or(&[], Vec::as_slice))
        };
        let rows: Vec<_> = self.collations.iter().enumerate().map(|(order, keys)| rows_in(order, keys)).collect();
        let is_cut = entries.as_ref().is_some_and(|entries| entries.is_cut);
        DocumentRows { selected, cycle, stopped, is_cut, bytes: rows_bytes(&rows), rows }
    }
}

/// Returns the size of the rows of a document in all orders, in bytes.
fn rows_bytes(orders: &[Vec<KeyAndRow>]) -> u64 {
    orders.iter().flatten().map(|(key, row)| index_size::row_bytes(key, row.encoded_len())).sum()
}

/// The columns and rows that a view shows of a document.
struct ShownDocument<'d> {
    design: &'d ViewDesign,
    /// Number of orders of the view. They share the limits for the rows of a document.
    orders: usize,
    /// The values of the columns, if they exceed the size of a row. Keys are made of these values.
    values: Option<Vec<Cell>>,
    /// The row of a document that has a single row.
    row: Arc<DocumentRow>,
}

impl<'d> ShownDocument<'d> {
    fn new(design: &'d ViewDesign, orders: usize, head: DocumentRow, cells: Vec<Cell>) -> Self {
        let bytes_max = row_bytes_max(orders);
        if cells.iter().map(Cell::byte_count).sum::<usize>() <= bytes_max {
            return Self { design, orders, values: None, row: Arc::new(DocumentRow { cells, ..head }) };
        }
        let cut = cells_within(design, &DocumentEntry::whole(&cells), bytes_max);
        Self { design, orders, values: Some(cells), row: Arc::new(DocumentRow { cells: cut, ..head }) }
    }

    fn values(&self) -> &[Cell] {
        self.values.as_ref().unwrap_or(&self.row.cells)
    }

    fn row_of(&self, response_level: u8, cells: Vec<Cell>) -> Arc<DocumentRow> {
        let DocumentRow { unid, readers, conflict, .. } = *self.row;
        Arc::new(DocumentRow { unid, response_level, readers, conflict, cells })
    }

    /// Returns the rows of a response: one beneath each row of its parent. Without a parent in the view there are none.
    fn response_rows(&self, keys: &RowKeys, document: KeyDocument, above: &[Vec<u8>]) -> Vec<KeyAndRow> {
        // A key contains the document of each level above. All rows of a document are on the same level.
        let level = above.first().and_then(|parent| keys.documents_in(parent)).map_or(usize::MAX, |above| above.len());
        if level > RESPONSE_LEVELS_MAX {
            return Vec::new();
        }
        let bytes_max = row_bytes_max(above.len() * self.orders);
        let cells = cells_within(self.design, &DocumentEntry::whole(self.values()), bytes_max);
        let row = self.row_of(level as u8, cells);
        let key_beneath = |parent: &Vec<u8>| keys.response_key(parent, level, self.values(), document);
        above.iter().map(|parent| (key_beneath(parent), Arc::clone(&row))).collect()
    }

    /// Returns the entries of a main document, or `None` if it is a single entry with all values.
    fn entries(&self) -> Option<DocumentEntries<'_>> {
        document_entries::entries(self.design, self.values(), NOTE_ROWS_PER_VIEW_MAX / self.orders)
    }

    /// Returns a row for each entry of a main document. It is the same in all orders.
    fn entry_rows(&self, entries: &DocumentEntries<'_>) -> Vec<Arc<DocumentRow>> {
        let bytes_max = row_bytes_max(entries.entries.len() * self.orders);
        let row_of = |entry| self.row_of(0, cells_within(self.design, entry, bytes_max));
        entries.entries.iter().map(row_of).collect()
    }

    /// Returns the rows of a main document in one order, with their keys: one for each of its entries, of which
    /// [`ShownDocument::entry_rows`] are the rows.
    fn main_rows(
        &self,
        keys: &RowKeys,
        document: KeyDocument,
        entries: Option<&DocumentEntries<'_>>,
        entry_rows: &[Arc<DocumentRow>],
        shared: &mut SharedComponents,
    ) -> Vec<KeyAndRow> {
        let Some(DocumentEntries { entries, .. }) = entries else {
            return vec![(keys.document_key(self.values(), document, 0), Arc::clone(&self.row))];
        };
        let numbered = (0..).zip(entries).zip(entry_rows);
        let keyed =
            numbered.map(|((number, entry), row)| (keys.entry_key(entry, document, number, shared), Arc::clone(row)));
        keyed.collect()
    }
}

#[cfg(test)]
mod tests;
