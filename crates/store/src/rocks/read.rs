//! Reading from RocksDB: the present state, or a snapshot of it.
//!
//! A cursor carries its range as the iterator's bounds, so that the engine skips files and blocks outside; it seeks on the first step. Keys and values
//! are handed out where they lie in the engine's block, without a copy.

use rocksdb::{DB, DBRawIteratorWithThreadMode, ReadOptions};

use super::Rocks;
use crate::engine::{Cursor, Direction, KeyRange, Read, Table};
use crate::error::Result;

/// Reads the present state (`snapshot` is `None`) or that of a snapshot.
pub(super) struct Reader<'rocks> {
    rocks: &'rocks Rocks,
    snapshot: Option<rocksdb::Snapshot<'rocks>>,
}

impl<'rocks> Reader<'rocks> {
    pub(super) fn new(rocks: &'rocks Rocks, snapshot: Option<rocksdb::Snapshot<'rocks>>) -> Self {
        Self { rocks, snapshot }
    }

    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        if let Some(snapshot) = &self.snapshot {
            options.set_snapshot(snapshot);
        }
        options
    }
}

impl Read for Reader<'_> {
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
        Ok(Box::new(KeyCursor::start(self.rocks, self.snapshot.as_ref(), table, range, direction)))
    }
}

/// A scan under way.
pub(super) struct KeyCursor<'rocks> {
    rocks: &'rocks Rocks,
    iterator: DBRawIteratorWithThreadMode<'rocks, DB>,
    table: Table,
    direction: Direction,
    state: State,
    /// Where the scan began, for the error message when a block cannot be read.
    start: Vec<u8>,
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
        rocks: &'rocks Rocks,
        snapshot: Option<&rocksdb::Snapshot<'rocks>>,
        table: Table,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        let mut options = ReadOptions::default();
        if let Some(snapshot) = snapshot {
            options.set_snapshot(snapshot);
        }
        if !range.start.is_empty() {
            options.set_iterate_lower_bound(range.start.as_slice());
        }
        if let Some(end) = &range.end {
            options.set_iterate_upper_bound(end.as_slice());
        }
        let is_empty = range.end.as_ref().is_some_and(|end| *end <= range.start);
        let state = if is_empty { State::Ended } else { State::Fresh };
        let iterator = rocks.db.raw_iterator_cf_opt(rocks.family(table), options);
        Self { rocks, iterator, table, direction, state, start: range.start.clone() }
    }

    /// Starts a scan over a whole table, from a key on, that reads everything once and leaves the cache alone.
    pub(super) fn start_whole(rocks: &'rocks Rocks, table: Table, start: &[u8]) -> Self {
        let mut options = ReadOptions::default();
        if !start.is_empty() {
            options.set_iterate_lower_bound(start);
        }
        options.fill_cache(false);
        options.set_readahead_size(2 << 20);
        let iterator = rocks.db.raw_iterator_cf_opt(rocks.family(table), options);
        Self { rocks, iterator, table, direction: Direction::Forward, state: State::Fresh, start: start.to_vec() }
    }

    fn step(&mut self) {
        match (self.state, self.direction) {
            (State::Fresh, Direction::Forward) => self.iterator.seek_to_first(),
            (State::Fresh, Direction::Backward) => self.iterator.seek_to_last(),
            (State::Running, Direction::Forward) => self.iterator.next(),
            (State::Running, Direction::Backward) => self.iterator.prev(),
            (State::Ended, _) => return,
        }
        self.state = if self.iterator.valid() { State::Running } else { State::Ended };
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
