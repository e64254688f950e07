//! What Readers items hide of a view from one person (`docs/views.md`, "Readers items").
//!
//! Rows that somebody may not see do not exist for them: not in pages, positions, counts or totals. [`Hidden`] holds them as ranges of keys: a hidden
//! document with the responses beneath it, and a category that holds nothing else. [`Rows`] reads a collection of rows as if these ranges were not
//! there. [`Hidden`] also says by how much the categories count less.
//!
//! Where no row has Readers items, which the sums of the collection tell, there is nothing to find. Else each row that has some is looked at once; whether somebody may read it
//! is asked once for all documents that name the same readers.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::NoteId;
use store::engine::prefix_end;
use store::{Direction, KeyRange};

use crate::access::ReadersId;
use crate::collection::reader::{Entry, Scan};
use crate::collection::{self, Totals};
use crate::database::damaged;
use crate::error::Result;
use crate::view::category::Tally;
use crate::view::cell::Cell;
use crate::view::index::{COUNTED_LEVELS, Index, RESTRICTED, RowWeigh, document};
use crate::view::row::{DocumentRow, Keys, Row, note_of};

pub(crate) mod cache;
pub(crate) mod follow;

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

/// Rows, counted in every measure; or how many more there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    all: i64,
    levels: [i64; COUNTED_LEVELS],
}

impl Counts {
    fn of(totals: &Totals) -> Self {
        let levels = std::array::from_fn(|level| totals.sums.value(level));
        Self { all: totals.count.cast_signed(), levels }
    }

    fn by(&self, measure: Measure) -> u64 {
        let count = match measure {
            Measure::All => self.all,
            Measure::Level(level) => self.levels[level],
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

/// What is hidden of one order of a view.
#[derive(Clone, Default)]
pub(crate) struct Hidden {
    /// Rising, none beneath another.
    ranges: Vec<Range>,
    /// By the keys of their records: what lies beneath categories, and in the whole view, and is hidden.
    tallies: BTreeMap<Vec<u8>, Tally>,
    /// Categories that hold nothing else, by the keys of their records, rising.
    categories: Vec<HiddenCategory>,
}

/// A category that is hidden.
#[derive(Clone, PartialEq, Eq, Debug)]
struct HiddenCategory {
    record: Vec<u8>,
    /// How many records of categories stand before it, hidden or not.
    rank: u64,
}

/// Rows that are hidden: those whose keys begin with that of a document, or with the path of a category.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    prefix: Box<[u8]>,
    /// All rows before, hidden or not.
    before: Counts,
    /// The rows of this range.
    within: Counts,
    /// The rows of the ranges before.
    hidden_before: Counts,
}

impl Range {
    /// Gives the range of all rows that begin with a prefix.
    fn of(rows: &collection::Reader<'_>, prefix: &[u8]) -> Result<Self> {
        let (before, up_to) = totals_around(rows, &KeyRange::prefix(prefix))?;
        let before = Counts::of(&before);
        let within = Counts::of(&up_to).minus(&before);
        if within.all < 0 || within.levels.iter().any(|level| *level < 0) {
            return Err(damaged(store::Table::Tree, prefix));
        }
        Ok(Self { prefix: prefix.into(), before, within, hidden_before: Counts::default() })
    }

    /// Gives the first key behind it.
    fn end(&self) -> Option<Vec<u8>> {
        prefix_end(&self.prefix)
    }
}

/// Tells whether somebody may read a note, whose items name such readers.
pub(crate) type MayRead<'f> = dyn FnMut(NoteId, &ReadersId) -> Result<bool> + 'f;

impl Hidden {
    /// Finds what is hidden of an order of a view.
    pub(crate) fn find(order: &Order<'_>, may_read: &mut MayRead<'_>) -> Result<Self> {
        let mut hidden = Self::default();
        for document in order.hidden_documents(&KeyRange::all(), may_read)? {
            hidden.ranges.push(Range::of(order.rows, &document)?);
            for (key, row) in order.documents(&KeyRange::prefix(&document))? {
                hidden.count(order, &key, &row, Tally::add)?;
            }
        }
        let records: Vec<Vec<u8>> = hidden.tallies.keys().filter(|record| record.len() > 1).cloned().collect();
        for record in records {
            hidden.set_category(order, record)?;
        }
        hidden.cover(order)?;
        hidden.count_up();
        Ok(hidden)
    }

    /// Counts a hidden document in its categories, or takes it out.
    fn count(
        &mut self,
        order: &Order<'_>,
        key: &[u8],
        row: &DocumentRow,
        change: fn(&mut Tally, Option<&str>, &[&Cell]),
    ) -> Result<()> {
        order.index.each_count(order.collation, key, row, &mut |record, spelling, cells| {
            change(self.tallies.entry(record).or_insert_with(|| Tally::exact(cells.len())), spelling, cells);
            Ok(())
        })
    }

    /// Finds out whether nothing but what is hidden is left of a category. Tells whether that is new.
    fn set_category(&mut self, order: &Order<'_>, record: Vec<u8>) -> Result<bool> {
        let hidden = self.tallies.get(&record).map_or(0, |tally| tally.documents);
        let is_hidden = hidden > 0 && {
            let stored = order.categories.find(&record)?.ok_or_else(|| damaged(store::Table::View, &record))?;
            Tally::decode(&stored).map_err(|_| damaged(store::Table::View, &record))?.documents == hidden
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

    /// Puts the ranges of hidden categories in the place of those beneath them.
    fn cover(&mut self, order: &Order<'_>) -> Result<()> {
        // Records are in the order of their levels: what an outer one covers need not be covered by an inner one.
        for category in &self.categories {
            let path = &category.record[1..];
            let first = self.ranges.partition_point(|range| &range.prefix[..] < path);
            let is_covered = first.checked_sub(1).is_some_and(|above| path.starts_with(&self.ranges[above].prefix));
            let beneath = self.ranges[first..].iter().take_while(|range| range.prefix.starts_with(path)).count();
            let is_there = beneath == 1 && &self.ranges[first].prefix[..] == path;
            if !is_covered && !is_there {
                self.ranges.splice(first..first + beneath, [Range::of(order.rows, path)?]);
            }
        }
        Ok(())
    }

    /// Counts what is hidden before each range.
    fn count_up(&mut self) {
        let is_behind = |one: &Range, next: &Range| one.prefix < next.prefix && !next.prefix.starts_with(&one.prefix);
        assert!(self.ranges.is_sorted_by(is_behind), "ranges rise, and none lies in another");
        assert!(self.categories.is_sorted_by(|one, next| one.record < next.record), "categories rise");
        let mut hidden_before = Counts::default();
        for range in &mut self.ranges {
            range.hidden_before = hidden_before;
            hidden_before.add(&range.within);
        }
        self.tallies.retain(|_, tally| !tally.is_empty());
    }

    /// Tells whether everything is seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Tells how many ranges of rows are hidden.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Gives what of a record is hidden.
    pub(crate) fn tally(&self, record: &[u8]) -> Option<&Tally> {
        self.tallies.get(record)
    }

    /// Tells whether a category is hidden, by the key of its record.
    pub(crate) fn hides_category(&self, record: &[u8]) -> bool {
        self.place_of(record).is_ok()
    }

    /// Counts the hidden categories before a record.
    pub(crate) fn categories_before(&self, record: &[u8]) -> u64 {
        self.categories.partition_point(|category| &category.record[..] < record) as u64
    }

    /// Gives the number that a record has among all, which has a number among those that are seen.
    pub(crate) fn category_among_all(&self, number: u64) -> u64 {
        let mut places = 0..self.categories.len();
        // The categories that are seen before one of them are those before it, less the hidden ones.
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

    /// Gives the range that holds a key.
    fn range_of(&self, key: &[u8]) -> Option<&Range> {
        let range = self.ranges[..self.ranges.partition_point(|range| &range.prefix[..] <= key)].last()?;
        key.starts_with(&range.prefix).then_some(range)
    }

    /// Counts the hidden rows before a key that is not hidden itself.
    fn before(&self, key: &[u8], measure: Measure) -> u64 {
        hidden_up_to(&self.ranges[..self.ranges.partition_point(|range| &range.prefix[..] < key)], measure)
    }

    /// Gives the number that a row has among all, which has a number among those that are seen.
    fn among_all(&self, number: u64, measure: Measure) -> u64 {
        let is_before = |range: &Range| range.before.by(measure) - range.hidden_before.by(measure) <= number;
        // A client may ask for any number.
        number.saturating_add(hidden_up_to(&self.ranges[..self.ranges.partition_point(is_before)], measure))
    }

    fn total(&self, measure: Measure) -> u64 {
        hidden_up_to(&self.ranges, measure)
    }
}

/// Counts the rows of the first ranges.
fn hidden_up_to(ranges: &[Range], measure: Measure) -> u64 {
    ranges.last().map_or(0, |range| range.hidden_before.by(measure) + range.within.by(measure))
}

/// One order of a view in a snapshot.
pub(crate) struct Order<'o> {
    pub(crate) index: &'o Index,
    pub(crate) collation: usize,
    pub(crate) rows: &'o collection::Reader<'o>,
    pub(crate) categories: &'o collection::Reader<'o>,
}

impl Order<'_> {
    fn keys(&self) -> &Keys {
        self.index.keys(self.collation)
    }

    /// Reads the documents whose keys lie in a range.
    fn documents(&self, range: &KeyRange) -> Result<Vec<(Vec<u8>, DocumentRow)>> {
        let mut scan = self.rows.scan(range, Direction::Forward)?;
        let mut found = Vec::new();
        while let Some((key, value)) = scan.next()? {
            found.push((key.to_vec(), document(key, value)?));
        }
        Ok(found)
    }

    /// Finds the keys of the documents in a range that are hidden, without those beneath another one.
    fn hidden_documents(&self, range: &KeyRange, may_read: &mut MayRead<'_>) -> Result<Vec<Vec<u8>>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        self.each_restricted(range, &mut |key, readers| {
            let is_beneath = found.last().is_some_and(|above| key.starts_with(above));
            if !is_beneath && !may_read(note_of(key)?, &readers)? {
                found.push(key.to_vec());
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `each` for the rows with Readers items in a range, in their order.
    fn each_restricted(&self, range: &KeyRange, each: &mut dyn FnMut(&[u8], ReadersId) -> Result<()>) -> Result<()> {
        let (before, up_to) = totals_around(self.rows, range)?;
        let restricted = |totals: &Totals| totals.sums.value(RESTRICTED).cast_unsigned();
        let (first, last) = (restricted(&before), restricted(&up_to));
        let mut look = |key: &[u8], value: &[u8]| match Row::decode(value) {
            Ok(Row::Document(row)) => row.readers.map_or(Ok(()), |readers| each(key, readers)),
            Ok(Row::Category) => Ok(()),
            Err(_) => Err(damaged(store::Table::View, key)),
        };
        if last.saturating_sub(first).saturating_mul(SPARSE) < up_to.count.saturating_sub(before.count) {
            for number in first..last {
                let Some((_, entry)) = self.rows.entry_at_sum(RESTRICTED, number, &RowWeigh)? else { break };
                look(&entry.key, &entry.value)?;
            }
        } else if last > first {
            let mut scan = self.rows.scan(range, Direction::Forward)?;
            while let Some((key, value)) = scan.next()? {
                look(key, value)?;
            }
        }
        Ok(())
    }
}

/// Gives what stands before a range, and before its end.
fn totals_around(rows: &collection::Reader<'_>, range: &KeyRange) -> Result<(Totals, Totals)> {
    let before = rows.totals_before(&range.start, &RowWeigh)?;
    let up_to = match &range.end {
        Some(end) => rows.totals_before(end, &RowWeigh)?,
        None => rows.totals()?,
    };
    Ok((before, up_to))
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
            return Ok(range.before.by(Measure::All) - range.hidden_before.by(Measure::All));
        }
        Ok(self.rows.rank(key)? - self.hidden.before(key, Measure::All))
    }

    /// Counts the documents of a level before a key.
    pub(crate) fn level_before(&self, level: usize, key: &[u8]) -> Result<u64> {
        let measure = Measure::Level(level);
        if let Some(range) = self.hidden.range_of(key) {
            return Ok(range.before.by(measure) - range.hidden_before.by(measure));
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

    /// Starts a walk over the keys of a range.
    pub(crate) fn walk(&self, range: KeyRange, direction: Direction) -> Result<Walk<'_, 'r>> {
        let scan = self.rows.scan(&range, direction)?;
        Ok(Walk { rows: self, range, direction, scan })
    }

    /// Starts a walk forwards with the row at a position; nothing after the last.
    pub(crate) fn walk_at(&self, position: u64) -> Result<Option<Walk<'_, 'r>>> {
        let direction = Direction::Forward;
        let scan = self.rows.scan_at(self.hidden.among_all(position, Measure::All), direction)?;
        Ok(scan.map(|scan| Walk { rows: self, range: KeyRange::all(), direction, scan }))
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

    /// Goes on at a key; forwards only.
    pub(crate) fn skip_to(&mut self, key: &[u8]) -> Result<()> {
        assert!(self.direction == Direction::Forward, "only a walk forwards skips");
        let end = self.range.end.take().map(|end| end.max(key.to_vec()));
        self.range = KeyRange { start: key.to_vec(), end };
        self.scan = self.rows.rows.scan(&self.range, self.direction)?;
        Ok(())
    }
}
