//! The rows of a view that Readers items hide from one reader (`docs/views.md`, "Readers items").
//!
//! Hidden rows do not exist for the reader: not in pages, positions, counts or totals. [`HiddenRows`] stores them as
//! ranges of keys: a hidden document with the responses beneath it, or a category that contains only hidden documents.
//! [`VisibleRows`] reads a collection of rows as if these ranges did not exist. [`HiddenRows`] also holds the amounts
//! by which the categories count less.
//!
//! If no row has Readers items, which the sums of the collection show, no search takes place. Otherwise each row with
//! Readers items is read once, and the access check runs once for all documents with the same readers. The search takes
//! as long as there are such rows, so it counts its steps with the pacer of the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{NoteId, Pacer};
use collection::reader::{CollectionEntry, EntryCursor};
use collection::{CollectionReader, Totals};
use store::engine::prefix_end;
use store::{Direction, KeyRange};

use crate::error::{Result, damaged};
use crate::grant::ReadersId;
use crate::limits::{STEPS_PER_LOOKUP, STEPS_PER_RECORD};
use crate::view::category::CategoryTotals;
use crate::view::cell::Cell;
use crate::view::index::ViewIndex;
use crate::view::row::{DocumentRow, RowKeys, StoredRow, decode_document_row, note_of};
use crate::view::row_change::{COUNTED_LEVELS, RESTRICTED_SUM, RowWeights};

pub(crate) mod cache;
pub(crate) mod incremental;

/// Limit for reading restricted rows individually: the range is scanned instead if more than one in so many rows has
/// Readers items.
const SPARSE: u64 = 16;

/// A measure for counting rows: all rows, or the documents of a response level that the tree counts separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowMeasure {
    All,
    Level(usize),
}

impl RowMeasure {
    fn count_in(self, totals: &Totals) -> u64 {
        match self {
            Self::All => totals.count,
            Self::Level(level) => totals.sums.value(level).cast_unsigned(),
        }
    }
}

/// Numbers of rows in every measure, or differences of such numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct RowCounts {
    all: i64,
    levels: [i64; COUNTED_LEVELS],
}

impl RowCounts {
    fn from_totals(totals: &Totals) -> Self {
        let levels = std::array::from_fn(|level| totals.sums.value(level));
        Self { all: totals.count.cast_signed(), levels }
    }

    fn get(&self, measure: RowMeasure) -> u64 {
        let count = match measure {
            RowMeasure::All => self.all,
            RowMeasure::Level(level) => self.levels[level],
        };
        assert!(count >= 0, "rows are counted");
        count.cast_unsigned()
    }

    fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.levels.iter_mut().zip(other.levels).for_each(|(level, more)| *level += more);
    }

    fn minus(mut self, other: &Self) -> Self {
        self.all -= other.all;
        self.levels.iter_mut().zip(other.levels).for_each(|(level, less)| *level -= less);
        self
    }
}

/// The hidden rows of one order of a view.
#[derive(Clone, Default)]
pub(crate) struct HiddenRows {
    /// The hidden ranges in rising order, none beneath another.
    ranges: Vec<HiddenRange>,
    /// The counts and totals of the hidden documents beneath each category and in the whole view, by record key.
    tallies: BTreeMap<Vec<u8>, CategoryTotals>,
    /// The categories that contain only hidden documents, in the order of their record keys.
    categories: Vec<HiddenCategory>,
}

/// A hidden category.
#[derive(Clone, PartialEq, Eq, Debug)]
struct HiddenCategory {
    record: Vec<u8>,
    /// Number of category records before it, hidden ones included.
    rank: u64,
}

/// A range of hidden rows: those whose keys begin with the key of a document, or with the path of a category.
#[derive(Clone, PartialEq, Eq, Debug)]
struct HiddenRange {
    prefix: Box<[u8]>,
    /// All rows before the range, hidden ones included.
    before: RowCounts,
    /// The rows of this range.
    within: RowCounts,
    /// The hidden rows before this range.
    hidden_before: RowCounts,
}

impl HiddenRange {
    /// Reads the range of all rows that begin with a prefix.
    fn read(rows: &CollectionReader<'_>, prefix: &[u8]) -> Result<Self> {
        let (before, up_to) = totals_around(rows, &KeyRange::prefix(prefix))?;
        let before = RowCounts::from_totals(&before);
        let within = RowCounts::from_totals(&up_to).minus(&before);
        if within.all < 0 || within.levels.iter().any(|level| *level < 0) {
            return Err(damaged(store::Table::Tree, prefix));
        }
        Ok(Self { prefix: prefix.into(), before, within, hidden_before: RowCounts::default() })
    }

    /// Returns the first key behind the range.
    fn end(&self) -> Option<Vec<u8>> {
        prefix_end(&self.prefix)
    }
}

/// A function that returns `true` if the reader may read a note with the given Readers items.
pub(crate) type MayRead<'f> = dyn FnMut(NoteId, &ReadersId) -> Result<bool> + 'f;

impl HiddenRows {
    /// Finds the hidden rows of an order of a view. Rows are hidden only by a complete result.
    pub(crate) fn find(order: &CollationRows<'_>, may_read: &mut MayRead<'_>) -> Result<Self> {
        let mut hidden = Self::default();
        for document in order.hidden_documents(&KeyRange::all(), may_read)? {
            order.pacer.spend(2 * STEPS_PER_LOOKUP)?;
            hidden.ranges.push(HiddenRange::read(order.rows, &document)?);
            for (key, row) in order.documents(&KeyRange::prefix(&document))? {
                hidden.count(order, &key, &row, CategoryTotals::add)?;
            }
        }
        let records: Vec<Vec<u8>> = hidden.tallies.keys().filter(|record| record.len() > 1).cloned().collect();
        for record in records {
            order.pacer.spend(2 * STEPS_PER_LOOKUP)?;
            hidden.set_category(order, record)?;
        }
        hidden.merge_within_categories(order)?;
        hidden.count_preceding();
        Ok(hidden)
    }

    /// Adds a hidden document to the tallies of its categories, or removes it, as `change` says.
    fn count(
        &mut self,
        order: &CollationRows<'_>,
        key: &[u8],
        row: &DocumentRow,
        change: fn(&mut CategoryTotals, Option<&str>, &[&Cell]),
    ) -> Result<()> {
        order.index.for_each_count(order.collation, key, row, &mut |record, spelling, cells| {
            change(self.tallies.entry(record).or_insert_with(|| CategoryTotals::exact(cells.len())), spelling, cells);
            Ok(())
        })
    }

    /// Marks the category hidden if all its documents are hidden, or else visible. Returns `true` if this changed.
    fn set_category(&mut self, order: &CollationRows<'_>, record: Vec<u8>) -> Result<bool> {
        let hidden = self.tallies.get(&record).map_or(0, |tally| tally.documents);
        let is_hidden = hidden > 0 && {
            let stored = order.categories.find(&record)?.ok_or_else(|| damaged(store::Table::View, &record))?;
            CategoryTotals::decode(&stored).map_err(|_| damaged(store::Table::View, &record))?.documents == hidden
        };
        match (self.place_of(&record), is_hidden) {
            (Ok(_), true) | (Err(_), false) => return Ok(false),
            (Ok(place), false) => drop(self.categories.remove(place)),
            (Err(place), true) => {
                let rank = order.categories.rank(&record)?;
                self.categories.insert(place, HiddenCategory { record, rank });
            }
        }
        Ok(true)
    }

    fn place_of(&self, record: &[u8]) -> std::result::Result<usize, usize> {
        self.categories.binary_search_by(|category| category.record[..].cmp(record))
    }

    /// Replaces the ranges beneath each hidden category by a single range for the category.
    fn merge_within_categories(&mut self, order: &CollationRows<'_>) -> Result<()> {
        if self.categories.iter().all(|category| self.is_within_range(&category.record[1..])) {
            return Ok(());
        }
        let mut paths: Vec<&[u8]> = self.categories.iter().map(|category| &category.record[1..]).collect();
        paths.sort_unstable();
        // An outer category comes before the categories in it.
        paths.dedup_by(|inner, outer| inner.starts_with(outer));
        let mut merged = Vec::with_capacity(self.ranges.len());
        let mut ranges = std::mem::take(&mut self.ranges).into_iter().peekable();
        for path in paths {
            while let Some(range) = ranges.next_if(|range| &range.prefix[..] < path) {
                merged.push(range);
            }
            let known = ranges.next_if(|range| &range.prefix[..] == path);
            while ranges.next_if(|range| range.prefix.starts_with(path)).is_some() {}
            order.pacer.spend(2 * STEPS_PER_LOOKUP)?;
            merged.push(known.map_or_else(|| HiddenRange::read(order.rows, path), Ok)?);
        }
        merged.extend(ranges);
        self.ranges = merged;
        Ok(())
    }

    /// Returns `true` if a range covers the path of a category.
    fn is_within_range(&self, path: &[u8]) -> bool {
        self.range_of(path).is_some()
    }

    /// Computes the number of hidden rows before each range.
    fn count_preceding(&mut self) {
        let is_behind =
            |one: &HiddenRange, next: &HiddenRange| one.prefix < next.prefix && !next.prefix.starts_with(&one.prefix);
        assert!(self.ranges.is_sorted_by(is_behind), "ranges rise, and none lies in another");
        assert!(self.categories.is_sorted_by(|one, next| one.record < next.record), "categories rise");
        let mut hidden_before = RowCounts::default();
        for range in &mut self.ranges {
            range.hidden_before = hidden_before;
            hidden_before.add(&range.within);
        }
        self.tallies.retain(|_, tally| !tally.is_empty());
    }

    /// Returns `true` if no row is hidden.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of hidden ranges.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the counts and totals of the hidden documents beneath a category, by its record key.
    pub(crate) fn tally(&self, record: &[u8]) -> Option<&CategoryTotals> {
        self.tallies.get(record)
    }

    /// Returns `true` if a category is hidden, by its record key.
    pub(crate) fn hides_category(&self, record: &[u8]) -> bool {
        self.place_of(record).is_ok()
    }

    /// Returns the number of hidden categories before a record.
    pub(crate) fn categories_before(&self, record: &[u8]) -> u64 {
        self.categories.partition_point(|category| &category.record[..] < record) as u64
    }

    /// Converts the number of a record among the visible categories into its number among all categories.
    pub(crate) fn category_number_among_all(&self, number: u64) -> u64 {
        let mut places = 0..self.categories.len();
        // The number of visible categories before a hidden one is its rank less the number of hidden categories before
        // it.
        while !places.is_empty() {
            let middle = places.start + places.len() / 2;
            if self.categories[middle].rank - middle as u64 <= number {
                places.start = middle + 1;
            } else {
                places.end = middle;
            }
        }
        number.saturating_add(places.start as u64)
    }

    /// Returns the range that contains a key.
    fn range_of(&self, key: &[u8]) -> Option<&HiddenRange> {
        let range = self.ranges[..self.ranges.partition_point(|range| &range.prefix[..] <= key)].last()?;
        key.starts_with(&range.prefix).then_some(range)
    }

    /// Returns the last range, in a direction, of those that follow each other without a visible row in between, from
    /// the range that contains a key. Returns `None` if the key is not hidden.
    fn last_range_of_run(&self, key: &[u8], direction: Direction) -> Option<&HiddenRange> {
        let behind = self.ranges.partition_point(|range| &range.prefix[..] <= key);
        let place = behind.checked_sub(1)?;
        let first = self.ranges.get(place).filter(|range| key.starts_with(&range.prefix))?;
        let is_adjacent = |pair: &[HiddenRange]| match pair {
            [one, next] => one.before.all + one.within.all == next.before.all,
            _ => false,
        };
        let last = match direction {
            Direction::Forward => {
                let run = self.ranges[place..].windows(2).take_while(|pair| is_adjacent(pair)).count();
                self.ranges.get(place + run)
            }
            Direction::Backward => {
                let run = self.ranges[..behind].windows(2).rev().take_while(|pair| is_adjacent(pair)).count();
                self.ranges.get(place - run)
            }
        };
        last.or(Some(first))
    }

    /// Returns the number of hidden rows before a key that is not hidden itself.
    fn count_before(&self, key: &[u8], measure: RowMeasure) -> u64 {
        hidden_up_to(&self.ranges[..self.ranges.partition_point(|range| &range.prefix[..] < key)], measure)
    }

    /// Converts the number of a row among the visible rows into its number among all rows.
    fn number_among_all(&self, number: u64, measure: RowMeasure) -> u64 {
        let is_before = |range: &HiddenRange| range.before.get(measure) - range.hidden_before.get(measure) <= number;
        // The number comes from a client and may be arbitrarily large.
        number.saturating_add(hidden_up_to(&self.ranges[..self.ranges.partition_point(is_before)], measure))
    }

    fn total(&self, measure: RowMeasure) -> u64 {
        hidden_up_to(&self.ranges, measure)
    }
}

/// Returns the number of rows in the given ranges, which are the first ones.
fn hidden_up_to(ranges: &[HiddenRange], measure: RowMeasure) -> u64 {
    ranges.last().map_or(0, |range| range.hidden_before.get(measure) + range.within.get(measure))
}

/// The rows and categories of one order of a view in a snapshot.
pub(crate) struct CollationRows<'o> {
    pub(crate) index: &'o ViewIndex,
    pub(crate) collation: usize,
    pub(crate) rows: &'o CollectionReader<'o>,
    pub(crate) categories: &'o CollectionReader<'o>,
    pub(crate) pacer: &'o dyn Pacer,
}

impl CollationRows<'_> {
    fn keys(&self) -> &RowKeys {
        self.index.keys(self.collation)
    }

    /// Returns the documents whose keys are in a range.
    fn documents(&self, range: &KeyRange) -> Result<Vec<(Vec<u8>, DocumentRow)>> {
        let mut scan = self.rows.scan(range, Direction::Forward)?;
        let mut found = Vec::new();
        while let Some((key, value)) = scan.next()? {
            self.pacer.spend(STEPS_PER_RECORD)?;
            found.push((key.to_vec(), decode_document_row(key, value)?));
        }
        Ok(found)
    }

    /// Returns the keys of the hidden documents in a range, without those beneath another hidden document.
    fn hidden_documents(&self, range: &KeyRange, may_read: &mut MayRead<'_>) -> Result<Vec<Vec<u8>>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        self.for_each_restricted(range, &mut |key, readers| {
            let is_beneath = found.last().is_some_and(|above| key.starts_with(above));
            if !is_beneath && !may_read(note_of(key)?, &readers)? {
                found.push(key.to_vec());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `each` for the rows with Readers items in a range, in their order.
    fn for_each_restricted(
        &self,
        range: &KeyRange,
        each: &mut dyn FnMut(&[u8], ReadersId) -> Result<()>,
    ) -> Result<()> {
        let (before, up_to) = totals_around(self.rows, range)?;
        let restricted = |totals: &Totals| totals.sums.value(RESTRICTED_SUM).cast_unsigned();
        let first = restricted(&before);
        let last = restricted(&up_to);
        let mut look = |key: &[u8], value: &[u8]| match StoredRow::decode(value) {
            Ok(StoredRow::Document(row)) => row.readers.map_or(Ok(()), |readers| each(key, readers)),
            Ok(StoredRow::Category) => Ok(()),
            Err(_) => Err(damaged(store::Table::View, key)),
        };
        if last.saturating_sub(first).saturating_mul(SPARSE) < up_to.count.saturating_sub(before.count) {
            for number in first..last {
                self.pacer.spend(STEPS_PER_LOOKUP)?;
                let Some((_, entry)) = self.rows.entry_at_sum(RESTRICTED_SUM, number, &RowWeights)? else { break };
                look(&entry.key, &entry.value)?;
            }
        } else if last > first {
            let mut scan = self.rows.scan(range, Direction::Forward)?;
            while let Some((key, value)) = scan.next()? {
                self.pacer.spend(STEPS_PER_RECORD)?;
                look(key, value)?;
            }
        }
        Ok(())
    }
}

/// Returns the totals before a range, and before its end.
fn totals_around(rows: &CollectionReader<'_>, range: &KeyRange) -> Result<(Totals, Totals)> {
    let before = rows.totals_before(&range.start, &RowWeights)?;
    let up_to = match &range.end {
        Some(end) => rows.totals_before(end, &RowWeights)?,
        None => rows.totals()?,
    };
    Ok((before, up_to))
}

/// The visible rows of an order.
pub(crate) struct VisibleRows<'r> {
    pub(crate) rows: CollectionReader<'r>,
    pub(crate) hidden: Arc<HiddenRows>,
}

impl<'r> VisibleRows<'r> {
    /// Returns the number of rows.
    pub(crate) fn count(&self) -> Result<u64> {
        Ok(self.rows.count()? - self.hidden.total(RowMeasure::All))
    }

    /// Returns the number of rows before a key.
    pub(crate) fn rank(&self, key: &[u8]) -> Result<u64> {
        if self.hidden.is_empty() {
            return Ok(self.rows.rank(key)?);
        }
        if let Some(range) = self.hidden.range_of(key) {
            return Ok(range.before.get(RowMeasure::All) - range.hidden_before.get(RowMeasure::All));
        }
        Ok(self.rows.rank(key)? - self.hidden.count_before(key, RowMeasure::All))
    }

    /// Returns the number of documents of a level before a key.
    pub(crate) fn level_before(&self, level: usize, key: &[u8]) -> Result<u64> {
        let measure = RowMeasure::Level(level);
        if let Some(range) = self.hidden.range_of(key) {
            return Ok(range.before.get(measure) - range.hidden_before.get(measure));
        }
        let totals = self.rows.totals_before(key, &RowWeights)?;
        Ok(measure.count_in(&totals) - self.hidden.count_before(key, measure))
    }

    /// Returns the number of documents of a level.
    pub(crate) fn level_total(&self, level: usize) -> Result<u64> {
        let measure = RowMeasure::Level(level);
        Ok(measure.count_in(&self.rows.totals()?) - self.hidden.total(measure))
    }

    /// Returns the document with a number among those of its level.
    pub(crate) fn level_at(&self, level: usize, number: u64) -> Result<Option<CollectionEntry>> {
        assert!(level < COUNTED_LEVELS, "deeper levels are not counted apart");
        let number = self.hidden.number_among_all(number, RowMeasure::Level(level));
        Ok(self.rows.entry_at_sum(level, number, &RowWeights)?.map(|(_, entry)| entry))
    }

    /// Returns the value of a row.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.hidden.range_of(key).is_some() { Ok(None) } else { Ok(self.rows.find(key)?) }
    }

    /// Creates a cursor over the keys of a range.
    pub(crate) fn scan(&self, range: KeyRange, direction: Direction) -> Result<VisibleRowCursor<'_, 'r>> {
        let scan = self.rows.scan(&range, direction)?;
        Ok(VisibleRowCursor { rows: self, range, direction, scan })
    }

    /// Creates a forward cursor that begins at a position. Returns `None` behind the last row.
    pub(crate) fn scan_at(&self, position: u64) -> Result<Option<VisibleRowCursor<'_, 'r>>> {
        let direction = Direction::Forward;
        let scan = self.rows.scan_at(self.hidden.number_among_all(position, RowMeasure::All), direction)?;
        Ok(scan.map(|scan| VisibleRowCursor { rows: self, range: KeyRange::all(), direction, scan }))
    }
}

/// A cursor over the visible rows of a range.
pub(crate) struct VisibleRowCursor<'w, 'r> {
    rows: &'w VisibleRows<'r>,
    range: KeyRange,
    direction: Direction,
    scan: EntryCursor<'r>,
}

impl VisibleRowCursor<'_, '_> {
    /// Returns the next row.
    pub(crate) fn next(&mut self) -> Result<Option<CollectionEntry>> {
        loop {
            let Some((key, value)) = self.scan.next()? else { return Ok(None) };
            let Some(hidden) = self.rows.hidden.last_range_of_run(key, self.direction) else {
                return Ok(Some(CollectionEntry { key: key.to_vec(), value: value.to_vec() }));
            };
            let rest = match self.direction {
                Direction::Forward => match hidden.end() {
                    Some(end) if self.range.end.as_ref().is_none_or(|last| end < *last) => {
                        KeyRange { start: end, end: self.range.end.clone() }
                    }
                    _ => return Ok(None),
                },
                Direction::Backward if hidden.prefix[..] > self.range.start[..] => {
                    KeyRange { start: self.range.start.clone(), end: Some(hidden.prefix.to_vec()) }
                }
                Direction::Backward => return Ok(None),
            };
            self.scan = self.rows.rows.scan(&rest, self.direction)?;
            self.range = rest;
        }
    }

    /// Continues at a key. Panics unless the cursor goes forward.
    pub(crate) fn skip_to(&mut self, key: &[u8]) -> Result<()> {
        assert!(self.direction == Direction::Forward, "only a forward cursor skips");
        let end = self.range.end.take().map(|end| end.max(key.to_vec()));
        self.range = KeyRange { start: key.to_vec(), end };
        self.scan = self.rows.rows.scan(&self.range, self.direction)?;
        Ok(())
    }
}
