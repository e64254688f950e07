//! The rows of one order as an update changes them, and the records of the categories above them.
//!
//! Invariants: a category has a row and a record exactly while there are documents beneath it; a record that does not change is not read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use store::{Batch, Direction, KeyRange, Read, Table};

use super::{Index, KeyAndRow, RowWeigh, document};
use crate::collection::{self, CollectionId, CountOnly};
use crate::database::damaged;
use crate::error::Result;
use crate::view::category::Tally;
use crate::view::cell::Cell;
use crate::view::hidden::follow::{Content, RowChange};
use crate::view::row::{DocumentRow, Keys, Row};

/// The changes to the rows and categories of one order.
pub(super) struct OrderUpdate<'u> {
    keys: &'u Keys,
    summing: &'u [usize],
    store: &'u dyn Read,
    pub(super) rows: collection::Writer<'u>,
    /// The records of categories. Most documents that change stay in their categories, and these are not looked at.
    categories: Option<collection::Writer<'u>>,
    categories_id: CollectionId,
    /// Records of categories by their keys.
    tallies: HashMap<Vec<u8>, TallyChange>,
    /// How the rows changed, for those who watch.
    changes: Option<Vec<RowChange>>,
    /// See [`OrderUpdate::bytes`].
    bytes: usize,
}

/// What an update did to an order.
pub(super) struct OrderChanges {
    /// How the rows changed, if somebody watches.
    pub(super) rows: Vec<RowChange>,
    /// The records of categories that lack spellings.
    pub(super) thin: Vec<Vec<u8>>,
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
    pub(super) fn open(index: &'u Index, collation: usize, store: &'u dyn Read, is_watched: bool) -> Result<Self> {
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
            bytes: 0,
        })
    }

    /// Gives the bytes of the rows that were written so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes down how a row changes.
    fn note_change(&mut self, key: &[u8], before: Option<Content>, after: Option<Content>) {
        if let Some(changes) = &mut self.changes {
            changes.push(RowChange { key: key.to_vec(), before, after });
        }
    }

    /// Finds what is stored of the rows of a note that gets new ones. Of those that go it is read only where something depends on what they show.
    pub(super) fn stored(
        &mut self,
        keys: &[Vec<u8>],
        restricted: bool,
        new: &[KeyAndRow],
    ) -> Result<Vec<(Vec<u8>, Content)>> {
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
    pub(super) fn replace(&mut self, old: Vec<(Vec<u8>, Content)>, new: Vec<KeyAndRow>) -> Result<()> {
        let mut had: HashMap<Vec<u8>, Content> = old.into_iter().collect();
        let stays: HashSet<&[u8]> = new.iter().map(|(key, _)| &key[..]).collect();
        for (key, content) in had.extract_if(|key, _| !stays.contains(&key[..])) {
            self.rows.remove_known(&key, content.weight())?;
            self.take_out(&key, &content)?;
            self.note_change(&key, Some(content), None);
        }
        for (key, row) in new {
            let value = row.encode();
            self.bytes += key.len() + value.len();
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

    /// Writes the records of categories, makes and removes their rows, and puts all of it into the batch.
    pub(super) fn finish(mut self, batch: &mut Batch) -> Result<OrderChanges> {
        let mut thin = Vec::new();
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
            if tally.is_thin() {
                thin.push(key.clone());
            }
            if let Some(row_key) = row_key.filter(|_| !existed) {
                self.rows.put(&row_key, &Row::Category.encode())?;
                self.note_change(&row_key, None, Some(Content::Category));
            }
        }
        self.rows.finish(batch)?;
        if let Some(categories) = self.categories {
            categories.finish(batch)?;
        }
        Ok(OrderChanges { rows: self.changes.unwrap_or_default(), thin })
    }
}

/// Finds the smallest spellings of a category again among the rows beneath it, which are all written.
pub(super) fn find_spellings(index: &Index, collation: usize, store: &dyn Read, record: &[u8]) -> Result<Batch> {
    let (level, path) = record.split_first().ok_or_else(|| damaged(Table::View, record))?;
    let mut counted = Tally::exact(0);
    let rows = collection::Reader::open(store, index.rows(collation))?;
    let mut scan = rows.scan(&KeyRange::prefix(path), Direction::Forward)?;
    while let Some((key, value)) = scan.next()? {
        if Row::head(value).is_ok_and(|head| head.is_some_and(|(level, _)| level == 0)) {
            let names = index.collations[collation].spellings(&document(key, value)?.cells[..]);
            let name = usize::from(*level).checked_sub(1).and_then(|level| names.get(level));
            counted.add(name.map(String::as_str), &[]);
        }
    }
    let mut batch = Batch::new();
    let mut categories = collection::Writer::open(store, index.categories(collation), &CountOnly)?;
    let stored = categories.find(record)?.ok_or_else(|| damaged(Table::View, record))?;
    let mut tally = Tally::decode(&stored).map_err(|_| damaged(Table::View, record))?;
    tally.set_spellings(&counted);
    categories.put(record, &tally.encode())?;
    categories.finish(&mut batch)?;
    Ok(batch)
}

/// Hears of a record in which a row counts: its key, what the row calls the category, and the cells that sum up.
pub(crate) type EachCount<'f> = dyn FnMut(Vec<u8>, Option<&str>, &[&Cell]) -> Result<()> + 'f;

pub(super) fn each_count(
    keys: &Keys,
    summing: &[usize],
    key: &[u8],
    row: &DocumentRow,
    each: &mut EachCount<'_>,
) -> Result<()> {
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
