//! What Readers items hide of a view from one person (`docs/views.md`, "Readers items").
//!
//! Rows that somebody may not see do not exist for them: not in pages, positions, counts or totals. [`Hidden`] holds them as ranges of keys: a hidden
//! document with the responses beneath it, and a category that holds nothing else. [`Rows`] reads a collection of rows as if these ranges were not
//! there. [`Hidden`] also says by how much the categories count less.
//!
//! Where no row has Readers items, which the sums of the collection tell, there is nothing to find. Else each row that has some is looked at once; whether somebody may read it
//! is asked once for all documents that name the same readers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Modseq, NoteId};
use store::engine::prefix_end;
use store::{Direction, KeyRange};

use crate::access::ReadersId;
use crate::collection::reader::{Entry, Scan};
use crate::collection::{self, Totals};
use crate::database::damaged;
use crate::error::Result;
use crate::limits::{VIEW_HIDDEN_KEPT_MAX, VIEW_READERS_KEPT_MAX};
use crate::view::category::Tally;
use crate::view::index::{COUNTED_LEVELS, Index, RESTRICTED, RowWeigh};
use crate::view::row::{Row, mark, note_of};

/// Rows are looked through one by one when more than one in so many has Readers items.
const SPARSE: u64 = 16;

/// What rows are counted by: all of them, or the documents of a response level that the tree counts apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Measure {
    All,
    Level(usize),
}

impl Measure {
    fn of(self, totals: &Totals) -> u64 {
        match self {
            Self::All => totals.count,
            Self::Level(level) => totals.sums.value(level).cast_unsigned(),
        }
    }
}

/// What is hidden of one order of a view.
#[derive(Default)]
pub(crate) struct Hidden {
    /// Rising, not overlapping.
    ranges: Vec<Range>,
    /// By the keys of their records: what lies beneath categories, and in the whole view, and is hidden.
    tallies: BTreeMap<Vec<u8>, Tally>,
    /// Categories that hold nothing else, by the keys of their records, rising.
    categories: Vec<HiddenCategory>,
}

/// A category that is hidden.
struct HiddenCategory {
    record: Vec<u8>,
    /// How many records of categories stand before it and are seen.
    seen_before: u64,
}

/// Rows that are hidden, with what stands before them.
struct Range {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    /// All rows before, hidden or not.
    before: Totals,
    /// The rows of this range.
    within: Totals,
    /// The rows of the ranges before.
    hidden_before: Totals,
}

/// Tells whether somebody may read a note, whose items name such readers.
pub(crate) type MayRead<'f> = dyn FnMut(NoteId, &ReadersId) -> Result<bool> + 'f;

impl Hidden {
    /// Finds what is hidden of an order of a view.
    pub(crate) fn find(
        rows: &collection::Reader<'_>,
        categories: &collection::Reader<'_>,
        order: (&Index, usize),
        may_read: &mut MayRead<'_>,
    ) -> Result<Self> {
        let mut hidden = Self::default();
        let mut ranges: Vec<KeyRange> = Vec::new();
        let mut known: HashMap<ReadersId, bool> = HashMap::new();
        each_restricted(rows, &mut |key, readers| {
            let is_beneath = ranges.last().is_some_and(|range| range.contains(key));
            let may_read = match known.get(&readers) {
                Some(known) => *known,
                None => *known.entry(readers).or_insert(may_read(note_of(key)?, &readers)?),
            };
            if !is_beneath && !may_read {
                ranges.push(KeyRange::prefix(key));
            }
            Ok(())
        })?;
        for range in &ranges {
            hidden.count_documents(rows, order, range)?;
        }
        ranges.extend(hidden.empty_categories(categories)?);
        hidden.measure(rows, ranges)?;
        Ok(hidden)
    }

    /// Counts the documents of a range in their categories.
    fn count_documents(
        &mut self,
        rows: &collection::Reader<'_>,
        (index, collation): (&Index, usize),
        range: &KeyRange,
    ) -> Result<()> {
        let mut scan = rows.scan(range, Direction::Forward)?;
        while let Some((key, value)) = scan.next()? {
            let Ok(Row::Document(row)) = Row::decode(value) else { return Err(damaged(store::Table::View, key)) };
            index.each_count(collation, key, &row, &mut |record, spelling, cells| {
                let tally = self.tallies.entry(record).or_insert_with(|| Tally::new(cells.len()));
                tally.add(spelling, cells);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Finds the categories of which nothing is left, and the ranges of their rows.
    fn empty_categories(&mut self, categories: &collection::Reader<'_>) -> Result<Vec<KeyRange>> {
        let mut ranges = Vec::new();
        for (record, hidden) in &self.tallies {
            let path = &record[1..];
            let wrong = || damaged(store::Table::View, record);
            let tally = Tally::decode(&categories.find(record)?.ok_or_else(wrong)?).map_err(|_| wrong())?;
            if !path.is_empty() && tally.documents == hidden.documents {
                let seen_before = categories.rank(record)?.saturating_sub(self.categories.len() as u64);
                self.categories.push(HiddenCategory { record: record.clone(), seen_before });
                ranges.push(KeyRange { start: [path, &[mark::ROW]].concat(), end: prefix_end(path) });
            }
        }
        Ok(ranges)
    }

    /// Puts the ranges in order, and counts what lies in and before them.
    fn measure(&mut self, rows: &collection::Reader<'_>, mut ranges: Vec<KeyRange>) -> Result<()> {
        ranges.sort_unstable_by(|one, other| one.start.cmp(&other.start));
        let mut hidden_before = Totals::ZERO;
        for KeyRange { start, end } in ranges {
            let last = self.ranges.last();
            if last.is_some_and(|last| last.end.as_ref().is_none_or(|end| start < *end)) {
                continue;
            }
            let before = rows.totals_before(&start, &RowWeigh)?;
            let up_to = match &end {
                Some(end) => rows.totals_before(end, &RowWeigh)?,
                None => rows.totals()?,
            };
            let wrong = || damaged(store::Table::Tree, &start);
            let within = up_to.checked_sub(&before).ok_or_else(wrong)?;
            let next = hidden_before.checked_add(&within).ok_or_else(wrong)?;
            self.ranges.push(Range { start, end, before, within, hidden_before });
            hidden_before = next;
        }
        Ok(())
    }

    /// Tells whether everything is seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Gives what of a record is hidden.
    pub(crate) fn tally(&self, record: &[u8]) -> Option<&Tally> {
        self.tallies.get(record)
    }

    /// Tells whether a category is hidden, by the key of its record.
    pub(crate) fn hides_category(&self, record: &[u8]) -> bool {
        self.categories.binary_search_by(|category| category.record[..].cmp(record)).is_ok()
    }

    /// Counts the hidden categories before a record.
    pub(crate) fn categories_before(&self, record: &[u8]) -> u64 {
        self.categories.partition_point(|category| &category.record[..] < record) as u64
    }

    /// Gives the number that a record has among all, which has a number among those that are seen.
    pub(crate) fn category_among_all(&self, number: u64) -> u64 {
        number + self.categories.partition_point(|category| category.seen_before <= number) as u64
    }

    /// Gives the range that holds a key.
    fn range_of(&self, key: &[u8]) -> Option<&Range> {
        let range = &self.ranges[..self.ranges.partition_point(|range| &range.start[..] <= key)].last()?;
        range.end.as_ref().is_none_or(|end| key < &end[..]).then_some(*range)
    }

    /// Counts the hidden rows before a key that is not hidden itself.
    fn before(&self, key: &[u8], measure: Measure) -> u64 {
        let before = self.ranges.partition_point(|range| &range.start[..] < key);
        let last = before.checked_sub(1).and_then(|last| self.ranges.get(last));
        last.map_or(0, |range| measure.of(&range.hidden_before) + measure.of(&range.within))
    }

    /// Gives the number that a row has among all, which has a number among those that are seen.
    fn among_all(&self, number: u64, measure: Measure) -> u64 {
        let is_before = |range: &Range| measure.of(&range.before) - measure.of(&range.hidden_before) <= number;
        let before = self.ranges.partition_point(is_before);
        let last = before.checked_sub(1).and_then(|last| self.ranges.get(last));
        number + last.map_or(0, |range| measure.of(&range.hidden_before) + measure.of(&range.within))
    }

    fn total(&self, measure: Measure) -> u64 {
        self.ranges.last().map_or(0, |range| measure.of(&range.hidden_before) + measure.of(&range.within))
    }
}

/// Whose view of which state of an order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) collation: usize,
    pub(crate) applied: Modseq,
    /// A digest of the names of the one who reads.
    pub(crate) names: [u8; 16],
}

/// What was found out about what is hidden of a view, for those who ask again.
#[derive(Default)]
pub(crate) struct HiddenCache {
    found: Mutex<VecDeque<(Seen, Arc<Hidden>)>>,
    /// Whether those with such names may read what names such readers.
    known: Mutex<HashMap<([u8; 16], ReadersId), bool>>,
}

impl HiddenCache {
    pub(crate) fn get(&self, seen: &Seen) -> Option<Arc<Hidden>> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().find(|(known, _)| known == seen).map(|(_, hidden)| Arc::clone(hidden))
    }

    pub(crate) fn keep(&self, seen: Seen, hidden: Arc<Hidden>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // Who saw an older state of the same order sees this one next.
        found.retain(|(known, _)| (known.collation, known.names) != (seen.collation, seen.names));
        if found.len() >= VIEW_HIDDEN_KEPT_MAX {
            found.pop_front();
        }
        found.push_back((seen, hidden));
    }

    pub(crate) fn known(&self, names: [u8; 16], readers: &ReadersId) -> Option<bool> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&(names, *readers)).copied()
    }

    pub(crate) fn learn(&self, names: [u8; 16], readers: ReadersId, may_read: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= VIEW_READERS_KEPT_MAX {
            known.clear();
        }
        known.insert((names, readers), may_read);
    }
}

/// Calls `each` for the rows with Readers items, in their order.
fn each_restricted(rows: &collection::Reader<'_>, each: &mut dyn FnMut(&[u8], ReadersId) -> Result<()>) -> Result<()> {
    let totals = rows.totals()?;
    let restricted = totals.sums.value(RESTRICTED).cast_unsigned();
    let mut look = |key: &[u8], value: &[u8]| match Row::decode(value) {
        Ok(Row::Document(row)) => row.readers.map_or(Ok(()), |readers| each(key, readers)),
        Ok(Row::Category) => Ok(()),
        Err(_) => Err(damaged(store::Table::View, key)),
    };
    if restricted.saturating_mul(SPARSE) < totals.count {
        for number in 0..restricted {
            let Some((_, entry)) = rows.entry_at_sum(RESTRICTED, number, &RowWeigh)? else { break };
            look(&entry.key, &entry.value)?;
        }
        return Ok(());
    }
    if restricted > 0 {
        let mut scan = rows.scan(&KeyRange::all(), Direction::Forward)?;
        while let Some((key, value)) = scan.next()? {
            look(key, value)?;
        }
    }
    Ok(())
}

/// The rows of an order, as somebody sees them.
pub(crate) struct Rows<'r> {
    pub(crate) rows: collection::Reader<'r>,
    pub(crate) hidden: Arc<Hidden>,
}

impl<'r> Rows<'r> {
    /// Tells how many rows there are.
    pub(crate) fn count(&self) -> Result<u64> {
        Ok(self.rows.count()? - self.hidden.total(Measure::All))
    }

    /// Counts the rows before a key.
    pub(crate) fn rank(&self, key: &[u8]) -> Result<u64> {
        if self.hidden.is_empty() {
            return Ok(self.rows.rank(key)?);
        }
        if let Some(range) = self.hidden.range_of(key) {
            return Ok(range.before.count - range.hidden_before.count);
        }
        Ok(self.rows.rank(key)? - self.hidden.before(key, Measure::All))
    }

    /// Counts the documents of a level before a key.
    pub(crate) fn level_before(&self, level: usize, key: &[u8]) -> Result<u64> {
        let measure = Measure::Level(level);
        if let Some(range) = self.hidden.range_of(key) {
            return Ok(measure.of(&range.before) - measure.of(&range.hidden_before));
        }
        let totals = self.rows.totals_before(key, &RowWeigh)?;
        Ok(measure.of(&totals) - self.hidden.before(key, measure))
    }

    /// Counts the documents of a level.
    pub(crate) fn level_total(&self, level: usize) -> Result<u64> {
        let measure = Measure::Level(level);
        Ok(measure.of(&self.rows.totals()?) - self.hidden.total(measure))
    }

    /// Gives the document that is number `number` of its level.
    pub(crate) fn level_at(&self, level: usize, number: u64) -> Result<Option<Entry>> {
        assert!(level < COUNTED_LEVELS, "deeper levels are not counted apart");
        let number = self.hidden.among_all(number, Measure::Level(level));
        Ok(self.rows.entry_at_sum(level, number, &RowWeigh)?.map(|(_, entry)| entry))
    }

    /// Gives the value of a row.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.hidden.range_of(key).is_some() { Ok(None) } else { Ok(self.rows.find(key)?) }
    }

    /// Gives the row at a position.
    pub(crate) fn entry_at(&self, position: u64) -> Result<Option<Entry>> {
        Ok(self.rows.entry_at(self.hidden.among_all(position, Measure::All))?)
    }

    /// Starts a walk over the keys of a range.
    pub(crate) fn walk(&self, range: KeyRange, direction: Direction) -> Result<Walk<'_, 'r>> {
        let scan = self.rows.scan(&range, direction)?;
        Ok(Walk { rows: self, range, direction, scan })
    }
}

/// A walk over the rows of a range, as somebody sees them.
pub(crate) struct Walk<'w, 'r> {
    rows: &'w Rows<'r>,
    range: KeyRange,
    direction: Direction,
    scan: Scan<'r>,
}

impl Walk<'_, '_> {
    /// Gives the next row.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        loop {
            let Some((key, value)) = self.scan.next()? else { return Ok(None) };
            let Some(hidden) = self.rows.hidden.range_of(key) else {
                return Ok(Some(Entry { key: key.to_vec(), value: value.to_vec() }));
            };
            let rest = match self.direction {
                Direction::Forward => match hidden.end.clone() {
                    Some(end) if self.range.end.as_ref().is_none_or(|last| end < *last) => {
                        KeyRange { start: end, end: self.range.end.clone() }
                    }
                    _ => return Ok(None),
                },
                Direction::Backward if hidden.start > self.range.start => {
                    KeyRange { start: self.range.start.clone(), end: Some(hidden.start.clone()) }
                }
                Direction::Backward => return Ok(None),
            };
            self.scan = self.rows.rows.scan(&rest, self.direction)?;
            self.range = rest;
        }
    }
    /// Goes on at a key; forwards only.
    pub(crate) fn skip_to(&mut self, key: &[u8]) -> Result<()> {
        assert!(self.direction == Direction::Forward, "only a walk forwards skips");
        let end = self.range.end.take().map(|end| end.max(key.to_vec()));
        self.range = KeyRange { start: key.to_vec(), end };
        self.scan = self.rows.rows.scan(&self.range, self.direction)?;
        Ok(())
    }
}
