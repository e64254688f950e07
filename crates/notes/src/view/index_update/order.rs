//! The changes of an update to the rows of one order, and to the records of the categories above them.
//!
//! Invariants: a category has a row and a record exactly while there are documents beneath it; a record that does not
//! change is not read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use collection::{CollectionId, CollectionReader, CollectionWriter, CountOnly};
use store::{Batch, Direction, KeyRange, Table, TableReader};

use crate::error::{Result, damaged};
use crate::view::category::CategoryTotals;
use crate::view::cell::Cell;
use crate::view::index::{KeyAndRow, ViewIndex};
use crate::view::index_size;
use crate::view::row::{DocumentRow, RowKeys, StoredRow, decode_document_row};
use crate::view::row_change::{RowChange, RowState, RowWeights};

/// The changes to the rows and categories of one order.
pub(super) struct CollationUpdate<'u> {
    index: &'u ViewIndex,
    collation: usize,
    store: &'u dyn TableReader,
    pub(super) rows: CollectionWriter<'u>,
    /// The category records, opened at the first use. Most changed documents stay in their categories, whose records
    /// are then not read.
    categories: Option<CollectionWriter<'u>>,
    categories_id: CollectionId,
    /// Changed category records by their keys.
    tallies: HashMap<Vec<u8>, TallyChange>,
    /// The keys of the written category records that lack spellings.
    lacking_spellings: Vec<Vec<u8>>,
    /// The changes of the rows, if the cache of hidden rows needs them.
    changes: Option<Vec<RowChange>>,
    /// The value of [`CollationUpdate::bytes`].
    bytes: usize,
}

/// The effect of an update on an order.
pub(super) struct OrderChanges {
    /// The changes of the rows, if the cache of hidden rows needs them.
    pub(super) rows: Vec<RowChange>,
    /// The keys of the category records that lack spellings.
    pub(super) lacking_spellings: Vec<Vec<u8>>,
}

/// The change of a category record.
#[derive(Default)]
struct TallyChange {
    /// The record, with `true` if it existed before, or `None` while it is not needed.
    loaded: Option<(CategoryTotals, bool)>,
    /// The last change, which the next one may undo: a document that stays in its category is removed and added again.
    last: Option<CountChange>,
}

/// A row that is added to the counts of a category, or removed from them.
#[derive(PartialEq)]
struct CountChange {
    /// `true` if the row is added, `false` if it is removed.
    is_added: bool,
    spelling: Option<String>,
    cells: Vec<Cell>,
}

impl CountChange {
    fn is_inverse_of(&self, other: &Self) -> bool {
        self.is_added != other.is_added && self.spelling == other.spelling && self.cells == other.cells
    }

    fn apply(&self, tally: &mut CategoryTotals) {
        let spelling = self.spelling.as_deref();
        let cells = self.cells.iter().collect::<Vec<_>>();
        if self.is_added { tally.add(spelling, &cells) } else { tally.remove(spelling, &cells) }
    }
}

impl<'u> CollationUpdate<'u> {
    pub(super) fn open(
        index: &'u ViewIndex,
        collation: usize,
        store: &'u dyn TableReader,
        is_watched: bool,
    ) -> Result<Self> {
        let rows = CollectionWriter::open(store, index.rows(collation), &RowWeights)?;
        Ok(Self {
            index,
            collation,
            store,
            rows,
            categories: None,
            categories_id: index.categories(collation),
            tallies: HashMap::new(),
            lacking_spellings: Vec::new(),
            changes: is_watched.then(Vec::new),
            bytes: 0,
        })
    }

    fn keys(&self) -> &'u RowKeys {
        self.index.keys(self.collation)
    }

    /// Returns the size of the rows that were written so far, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records the change of a row.
    fn record_change(&mut self, key: &[u8], before: Option<RowState>, after: Option<RowState>) {
        if let Some(changes) = &mut self.changes {
            changes.push(RowChange { key: key.to_vec(), before, after });
        }
    }

    /// Returns the stored rows of a note that gets new ones. A row that goes is read only if categories or totals
    /// depend on its contents.
    pub(super) fn stored(
        &mut self,
        keys: &[Vec<u8>],
        restricted: bool,
        new: &[KeyAndRow],
    ) -> Result<Vec<(Vec<u8>, RowState)>> {
        let is_shown = self.keys().has_categories() || !self.index.summing().is_empty();
        let stays: HashSet<&[u8]> = new.iter().map(|(key, _)| &key[..]).collect();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let content = if is_shown || stays.contains(&key[..]) {
                let value = self.rows.find(key)?.ok_or_else(|| damaged(Table::ViewBack, key))?;
                RowState::Document(Arc::new(decode_document_row(key, &value)?))
            } else {
                let documents = self.keys().documents_in(key).ok_or_else(|| damaged(Table::ViewBack, key))?;
                RowState::Counted { response_level: (documents.len() - 1) as u8, restricted }
            };
            found.push((key.clone(), content));
        }
        Ok(found)
    }

    /// Replaces the rows of a note. Keys end with the number of the note, so a key that the note did not have is new.
    pub(super) fn replace(&mut self, old: Vec<(Vec<u8>, RowState)>, new: Vec<KeyAndRow>) -> Result<()> {
        let mut had: HashMap<Vec<u8>, RowState> = old.into_iter().collect();
        let stays: HashSet<&[u8]> = new.iter().map(|(key, _)| &key[..]).collect();
        for (key, content) in had.extract_if(|key, _| !stays.contains(&key[..])) {
            self.rows.remove_known(&key, content.weight())?;
            self.uncount(&key, &content)?;
            self.record_change(&key, Some(content), None);
        }
        for (key, row) in new {
            let value = row.encode();
            self.bytes += key.len() + value.len();
            match had.remove(&key) {
                None => {
                    self.rows.insert(&key, &value)?;
                    self.count(&key, &row, true)?;
                    self.record_change(&key, None, Some(RowState::Document(row)));
                }
                Some(RowState::Document(before)) if before.encode() == value => {}
                Some(before) => {
                    self.rows.put_known(&key, &value, before.weight())?;
                    self.uncount(&key, &before)?;
                    self.count(&key, &row, true)?;
                    self.record_change(&key, Some(before), Some(RowState::Document(row)));
                }
            }
        }
        Ok(())
    }

    /// Removes a row from the counts of its categories and of the whole view.
    fn uncount(&mut self, key: &[u8], content: &RowState) -> Result<()> {
        match content {
            RowState::Document(row) => self.count(key, row, false),
            // Without categories and totals, only the number of documents depends on the row.
            RowState::Counted { .. } => {
                self.tally(vec![0], CountChange { is_added: false, spelling: None, cells: Vec::new() })
            }
            RowState::Category => unreachable!("rows of notes are never category rows"),
        }
    }

    /// Adds a row to the counts of its categories and of the whole view, or removes it.
    fn count(&mut self, key: &[u8], row: &DocumentRow, comes: bool) -> Result<()> {
        let index = self.index;
        index.for_each_count(self.collation, key, row, &mut |record, spelling, cells| {
            let cells = cells.iter().map(|cell| (*cell).clone()).collect();
            self.tally(record, CountChange { is_added: comes, spelling: spelling.map(str::to_owned), cells })
        })
    }

    /// Applies a change to a category record.
    fn tally(&mut self, key: Vec<u8>, change: CountChange) -> Result<()> {
        let mut entry = self.tallies.remove(&key).unwrap_or_default();
        entry.last = match entry.last.take() {
            Some(last) if change.is_inverse_of(&last) => None,
            Some(last) => {
                self.apply(&key, &mut entry, &last)?;
                Some(change)
            }
            None => Some(change),
        };
        self.tallies.insert(key, entry);
        Ok(())
    }

    fn apply(&mut self, key: &[u8], entry: &mut TallyChange, change: &CountChange) -> Result<()> {
        if entry.loaded.is_none() {
            let stored = self.categories()?.find(key)?;
            let tally = match &stored {
                Some(value) => CategoryTotals::decode(value).map_err(|_| damaged(Table::View, key))?,
                None => CategoryTotals::new(self.index.summing().len()),
            };
            entry.loaded = Some((tally, stored.is_some()));
        }
        entry.loaded.iter_mut().for_each(|(tally, _)| change.apply(tally));
        Ok(())
    }

    fn categories(&mut self) -> Result<&mut CollectionWriter<'u>> {
        let opened = match self.categories.take() {
            Some(opened) => opened,
            None => CollectionWriter::open(self.store, self.categories_id, &CountOnly)?,
        };
        Ok(self.categories.insert(opened))
    }

    /// Writes the category records, and adds and removes category rows. `bytes` is the size of the index, and follows
    /// the number of categories.
    pub(super) fn finish_categories(&mut self, bytes: &mut u64) -> Result<()> {
        for (key, mut entry) in std::mem::take(&mut self.tallies) {
            if let Some(last) = entry.last.take() {
                self.apply(&key, &mut entry, &last)?;
            }
            let Some((tally, existed)) = entry.loaded else { continue };
            let row_key = (key.len() > 1).then(|| [&key[1..], &[0]].concat());
            let size = index_size::category_bytes(&key);
            if tally.is_empty() {
                *bytes = bytes.saturating_sub(if existed { size } else { 0 });
                self.categories()?.remove(&key)?;
                if let Some(row_key) = row_key {
                    self.rows.remove(&row_key)?;
                    self.record_change(&row_key, Some(RowState::Category).filter(|_| existed), None);
                }
                continue;
            }
            *bytes = bytes.saturating_add(if existed { 0 } else { size });
            self.categories()?.put(&key, &tally.encode())?;
            if tally.needs_spellings() {
                self.lacking_spellings.push(key.clone());
            }
            if let Some(row_key) = row_key.filter(|_| !existed) {
                self.rows.put(&row_key, &StoredRow::Category.encode())?;
                self.record_change(&row_key, None, Some(RowState::Category));
            }
        }
        Ok(())
    }

    /// Puts everything into the batch. Must be called after [`CollationUpdate::finish_categories`].
    pub(super) fn finish(self, batch: &mut Batch) -> Result<OrderChanges> {
        assert!(self.tallies.is_empty(), "the categories were written before");
        self.rows.finish(batch)?;
        if let Some(categories) = self.categories {
            categories.finish(batch)?;
        }
        Ok(OrderChanges { rows: self.changes.unwrap_or_default(), lacking_spellings: self.lacking_spellings })
    }
}

/// Collects the smallest spellings of a category again from the rows beneath it. All these rows are written already.
pub(super) fn find_spellings(
    index: &ViewIndex,
    collation: usize,
    store: &dyn TableReader,
    record: &[u8],
) -> Result<Batch> {
    let (level, path) = record.split_first().ok_or_else(|| damaged(Table::View, record))?;
    let mut counted = CategoryTotals::exact(0);
    let rows = CollectionReader::open(store, index.rows(collation))?;
    let mut scan = rows.scan(&KeyRange::prefix(path), Direction::Forward)?;
    while let Some((key, value)) = scan.next()? {
        if StoredRow::head(value).is_ok_and(|head| head.is_some_and(|(level, _)| level == 0)) {
            let names = index.keys(collation).spellings(&decode_document_row(key, value)?.cells[..]);
            let name = usize::from(*level).checked_sub(1).and_then(|level| names.get(level));
            counted.add(name.map(String::as_str), &[]);
        }
    }
    let mut batch = Batch::new();
    let mut categories = CollectionWriter::open(store, index.categories(collation), &CountOnly)?;
    let stored = categories.find(record)?.ok_or_else(|| damaged(Table::View, record))?;
    let mut tally = CategoryTotals::decode(&stored).map_err(|_| damaged(Table::View, record))?;
    tally.set_spellings(&counted);
    categories.put(record, &tally.encode())?;
    categories.finish(&mut batch)?;
    Ok(batch)
}
