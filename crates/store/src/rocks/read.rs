//! Reads from RocksDB: of the current state or of a snapshot.
//!
//! A cursor passes its range to the iterator as bounds, so that the engine skips files and blocks outside. It seeks on
//! the first step. Keys and values are returned as slices of the engine's block, without a copy. Scans of views through
//! a snapshot jump over the gaps that earlier scans have found ([`super::gaps`]).

use rocksdb::perf::{PerfContext, PerfMetric};
use rocksdb::{DB, DBRawIteratorWithThreadMode, ReadOptions};

use super::RocksEngine;
use super::gaps::Gaps;
use crate::engine::{Cursor, Direction, KeyRange, Table, TableReader, next_key};
use crate::error::Result;
use crate::limits::GAP_TOMBSTONES_MIN;

/// A reader of the current state (`moment` is `None`) or of a snapshot.
pub(super) struct RocksReader<'rocks> {
    rocks: &'rocks RocksEngine,
    moment: Option<NumberedSnapshot<'rocks>>,
}

/// A snapshot.
pub(super) struct NumberedSnapshot<'rocks> {
    pub(super) snapshot: rocksdb::Snapshot<'rocks>,
    /// The batch number of [`Gaps`] up to which the snapshot contains all batches. It may contain later ones.
    pub(super) at: u64,
}

impl<'rocks> RocksReader<'rocks> {
    pub(super) fn new(rocks: &'rocks RocksEngine, moment: Option<NumberedSnapshot<'rocks>>) -> Self {
        Self { rocks, moment }
    }

    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        if let Some(moment) = &self.moment {
            options.set_snapshot(&moment.snapshot);
        }
        options
    }
}

impl TableReader for RocksReader<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.rocks.db.get_cf_opt(self.rocks.family(table), key, &self.options());
        found.map_err(|error| self.rocks.read_failure(table, key, &error))
    }

    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let family = self.rocks.family(table);
        let found = self.rocks.db.batched_multi_get_cf_opt(family, keys.iter().copied(), false, &self.options());
        let copied = found.into_iter().zip(keys).map(|(value, key)| match value {
            Ok(value) => Ok(value.map(|bytes| bytes.to_vec())),
            Err(error) => Err(self.rocks.read_failure(table, key, &error)),
        });
        copied.collect()
    }

    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(KeyCursor::start(self.rocks, self.moment.as_ref(), table, range, direction)))
    }
}

/// A scan in progress.
pub(super) struct KeyCursor<'rocks> {
    rocks: &'rocks RocksEngine,
    iterator: DBRawIteratorWithThreadMode<'rocks, DB>,
    table: Table,
    direction: Direction,
    state: State,
    /// Start of the scan, for the error message if a block cannot be read.
    start: Vec<u8>,
    /// Use of the gap cache by this scan; `None` if the scan does not use it.
    gap_follower: Option<GapFollower<'rocks>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Fresh,
    Running,
    Ended,
}

impl<'rocks> KeyCursor<'rocks> {
    /// Starts a scan over a range.
    pub(super) fn start(
        rocks: &'rocks RocksEngine,
        moment: Option<&NumberedSnapshot<'rocks>>,
        table: Table,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        // The iterator sees what can be read when it is made, so the number is loaded before.
        let at = moment.map_or_else(|| rocks.gaps.last_visible_batch(), |moment| moment.at);
        let mut options = ReadOptions::default();
        if let Some(moment) = moment {
            options.set_snapshot(&moment.snapshot);
        }
        if !range.start.is_empty() {
            options.set_iterate_lower_bound(range.start.as_slice());
        }
        if let Some(end) = &range.end {
            options.set_iterate_upper_bound(end.as_slice());
        }
        if let Some(bytes) = rocks.tuning.read_ahead_bytes {
            options.set_readahead_size(bytes);
        }
        let is_empty = range.end.as_ref().is_some_and(|end| *end <= range.start);
        let state = if is_empty { State::Ended } else { State::Fresh };
        let iterator = rocks.db.raw_iterator_cf_opt(rocks.family(table), options);
        let gap_follower = if is_empty { None } else { GapFollower::begin(&rocks.gaps, (table, range), direction, at) };
        Self { rocks, iterator, table, direction, state, start: range.start.clone(), gap_follower }
    }

    /// Starts a scan over a table from a key on. It reads everything once and does not fill the cache.
    pub(super) fn start_whole(rocks: &'rocks RocksEngine, table: Table, start: &[u8]) -> Self {
        let mut options = ReadOptions::default();
        if !start.is_empty() {
            options.set_iterate_lower_bound(start);
        }
        options.fill_cache(false);
        options.set_readahead_size(2 << 20);
        let iterator = rocks.db.raw_iterator_cf_opt(rocks.family(table), options);
        let direction = Direction::Forward;
        let state = State::Fresh;
        Self { rocks, iterator, table, direction, state, start: start.to_vec(), gap_follower: None }
    }

    fn step(&mut self) {
        let jump = self.gap_follower.as_mut().and_then(|way| way.take_gap());
        match (self.state, self.direction, jump) {
            (State::Ended, ..) => return,
            (_, Direction::Forward, Some(gap)) => self.iterator.seek(gap.end.as_deref().unwrap_or_default()),
            (_, Direction::Backward, Some(gap)) => self.iterator.seek_for_prev(&gap.start),
            (State::Fresh, Direction::Forward, None) => self.iterator.seek_to_first(),
            (State::Fresh, Direction::Backward, None) => self.iterator.seek_to_last(),
            (State::Running, Direction::Forward, None) => self.iterator.next(),
            (State::Running, Direction::Backward, None) => self.iterator.prev(),
        }
        self.state = if self.iterator.valid() { State::Running } else { State::Ended };
        if let Some(way) = &mut self.gap_follower {
            way.record_step(self.iterator.key(), self.iterator.status().is_ok());
        }
    }
}

impl Cursor for KeyCursor<'_> {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.state == State::Ended {
            return Ok(None);
        }
        self.step();
        match self.iterator.item() {
            Some(item) => Ok(Some(item)),
            None => self
                .iterator
                .status()
                .map(|()| None)
                .map_err(|error| self.rocks.read_failure(self.table, &self.start, &error)),
        }
    }
}

/// The use of the gap cache by one scan.
struct GapFollower<'rocks> {
    gaps: &'rocks Gaps,
    place: (usize, Table),
    at: u64,
    direction: Direction,
    /// The part of the range that is still to be read: from after the last key to the end, or in a backward scan from
    /// the start to before the last key.
    rest: KeyRange,
    /// The next gap, which may begin at the current position.
    ahead: Option<KeyRange>,
    /// Number of tombstones that this thread had skipped before the last step.
    passed: u64,
}

impl<'rocks> GapFollower<'rocks> {
    /// Starts using the gap cache for a scan. Returns `None` if gaps in the range cannot be remembered.
    fn begin(gaps: &'rocks Gaps, (table, range): (Table, &KeyRange), direction: Direction, at: u64) -> Option<Self> {
        let place = (Gaps::slot_of(table, range)?, table);
        let mut way = Self { gaps, place, at, direction, rest: range.clone(), ahead: None, passed: 0 };
        way.find_next_gap();
        Some(way)
    }

    /// Returns the gap at the current position, which the scan jumps over, or `None` if there is none.
    fn take_gap(&mut self) -> Option<KeyRange> {
        self.passed = tombstones_passed();
        if self.ahead.as_ref().is_some_and(|gap| self.is_past(gap)) {
            self.find_next_gap();
        }
        let gap = self.ahead.take_if(|gap| match self.direction {
            Direction::Forward => gap.start <= self.rest.start,
            Direction::Backward => gap.end >= self.rest.end,
        })?;
        match self.direction {
            Direction::Forward => self.rest.start = gap.end.clone().unwrap_or_default(),
            Direction::Backward => self.rest.end = Some(gap.start.clone()),
        }
        self.find_next_gap();
        Some(gap)
    }

    /// Returns `true` if a gap lies in the part that is already read.
    fn is_past(&self, gap: &KeyRange) -> bool {
        match self.direction {
            Direction::Forward => gap.end.as_ref().is_none_or(|end| *end <= self.rest.start),
            Direction::Backward => Some(&gap.start) >= self.rest.end.as_ref(),
        }
    }

    /// Records the key that a step reached, and adds a gap to the cache if the step skipped many tombstones. `None`
    /// means the end of the range or an error.
    fn record_step(&mut self, key: Option<&[u8]>, is_sound: bool) {
        let Some(end) = &self.rest.end else { return };
        let (_, table) = self.place;
        let is_gap = tombstones_passed().saturating_sub(self.passed) >= GAP_TOMBSTONES_MIN;
        if is_gap && is_sound {
            match (self.direction, key) {
                (Direction::Forward, to) => self.gaps.record(table, &self.rest.start, to.unwrap_or(end), self.at),
                (Direction::Backward, Some(to)) => self.gaps.record(table, &next_key(to), end, self.at),
                (Direction::Backward, None) => self.gaps.record(table, &self.rest.start, end, self.at),
            }
        }
        let Some(key) = key else { return };
        match self.direction {
            Direction::Forward => {
                self.rest.start.clear();
                self.rest.start.extend_from_slice(key);
                self.rest.start.push(0);
            }
            Direction::Backward => self.rest.end = Some(key.to_vec()),
        }
    }

    /// Finds the next gap.
    fn find_next_gap(&mut self) {
        let position = match self.direction {
            Direction::Forward => Some(&self.rest.start),
            Direction::Backward => self.rest.end.as_ref(),
        };
        self.ahead = position.and_then(|position| self.gaps.next_gap(self.place, position, self.direction, self.at));
    }
}

/// Returns how many tombstones the scans of this thread have stepped over. Tests and benchmarks count the engine's work
/// with it.
#[must_use]
pub fn tombstones_passed() -> u64 {
    thread_local! {
        static COUNTS: PerfContext = PerfContext::default();
    }
    COUNTS.with(|counts| counts.metric(PerfMetric::InternalDeleteSkippedCount))
}
