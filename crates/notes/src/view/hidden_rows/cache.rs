//! Cache of the hidden rows of a view by reader, and a log of the changes of its rows since.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::Modseq;
use base::sync::Mutex;

use super::HiddenRows;
use super::incremental::CombinedRowChanges;
use crate::grant::ReadersId;
use crate::limits::{VIEW_HIDDEN_CACHE_MAX, VIEW_HIDDEN_CHANGES_MAX, VIEW_HIDDEN_RANGES_MAX, VIEW_READERS_CACHE_MAX};
use crate::view::row_change::RowChange;

/// The key of a cache entry: an order of the view, its state, and the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct HiddenKey {
    pub(crate) collation: usize,
    pub(crate) applied: Modseq,
    /// Digest of the reader's names.
    pub(crate) names: [u8; 16],
}

impl HiddenKey {
    fn is_same_reader(&self, other: &Self) -> bool {
        (self.collation, self.names) == (other.collation, other.names)
    }
}

/// The hidden rows that were found for the recent readers of a view.
#[derive(Default)]
pub(crate) struct HiddenCache {
    found: Mutex<VecDeque<(HiddenKey, Arc<HiddenRows>)>>,
    /// Results of access checks: `true` if a reader with these names may read documents with these readers.
    may_read_results: Mutex<HashMap<([u8; 16], ReadersId), bool>>,
    log: Mutex<Log>,
}

/// The recent changes of the rows, step by step.
#[derive(Default)]
struct Log {
    steps: VecDeque<RowChangeStep>,
    changes: usize,
}

/// The changes of the rows of all orders from one state of the index to the next.
pub(crate) struct RowChangeStep {
    pub(crate) from: Modseq,
    pub(crate) to: Modseq,
    pub(crate) orders: Vec<Vec<RowChange>>,
}

impl RowChangeStep {
    fn changes(&self) -> usize {
        self.orders.iter().map(Vec::len).sum()
    }
}

impl HiddenCache {
    pub(crate) fn get(&self, seen: &HiddenKey) -> Option<Arc<HiddenRows>> {
        let found = self.found.lock();
        found.iter().find(|(known, _)| known == seen).map(|(_, hidden)| Arc::clone(hidden))
    }

    /// Removes and returns the same reader's entry for an older state, with the changes of the rows since. Returns
    /// `None` if there is no such entry, or if the changes are no longer in the log.
    pub(crate) fn take_older(&self, seen: &HiddenKey) -> Option<(Arc<HiddenRows>, CombinedRowChanges)> {
        let mut found = self.found.lock();
        let is_older = |known: &HiddenKey| known.is_same_reader(seen) && known.applied < seen.applied;
        let place = found.iter().position(|(known, _)| is_older(known))?;
        let changes = self.changes(found[place].0.applied, seen)?;
        let (_, hidden) = found.remove(place)?;
        Some((hidden, changes))
    }

    /// Returns the changes of the rows of an order since `from`, or `None` if they are no longer in the log.
    fn changes(&self, from: Modseq, seen: &HiddenKey) -> Option<CombinedRowChanges> {
        let log = self.log.lock();
        let mut changes = CombinedRowChanges::default();
        let mut at = from;
        for step in log.steps.iter().skip_while(|step| step.from < from) {
            if at == seen.applied {
                break;
            }
            if step.from != at {
                return None;
            }
            step.orders.get(seen.collation)?.iter().for_each(|change| changes.add(change));
            at = step.to;
        }
        (at == seen.applied).then_some(changes)
    }

    pub(crate) fn insert(&self, seen: HiddenKey, hidden: Arc<HiddenRows>) {
        let mut found = self.found.lock();
        // The new entry replaces the same reader's entries for other states of the order.
        found.retain(|(known, _)| !known.is_same_reader(&seen));
        found.push_back((seen, hidden));
        let mut ranges: usize = found.iter().map(|(_, hidden)| hidden.ranges()).sum();
        while found.len() > VIEW_HIDDEN_CACHE_MAX || ranges > VIEW_HIDDEN_RANGES_MAX && found.len() > 1 {
            ranges -= found.pop_front().map_or(0, |(_, hidden)| hidden.ranges());
        }
    }

    /// Returns `true` if an entry is cached, so that changes of the rows are worth logging.
    pub(crate) fn is_watched(&self) -> bool {
        !self.found.lock().is_empty()
    }

    /// Adds a step to the log, and drops the oldest steps above [`VIEW_HIDDEN_CHANGES_MAX`] changes.
    pub(crate) fn log(&self, step: RowChangeStep) {
        assert!(step.from < step.to, "each step advances");
        let mut log = self.log.lock();
        assert!(log.steps.back().is_none_or(|last| last.to <= step.from), "steps are logged in order");
        log.changes += step.changes();
        log.steps.push_back(step);
        while log.changes.max(log.steps.len()) > VIEW_HIDDEN_CHANGES_MAX {
            let first = log.steps.pop_front();
            log.changes -= first.map_or(0, |first| first.changes());
        }
    }

    /// Removes the hidden rows of all readers.
    pub(crate) fn clear(&self) {
        self.found.lock().clear();
    }

    pub(crate) fn cached_may_read(&self, names: [u8; 16], readers: &ReadersId) -> Option<bool> {
        self.may_read_results.lock().get(&(names, *readers)).copied()
    }

    pub(crate) fn cache_may_read(&self, names: [u8; 16], readers: ReadersId, may_read: bool) {
        let mut known = self.may_read_results.lock();
        if known.len() >= VIEW_READERS_CACHE_MAX {
            known.clear();
        }
        known.insert((names, readers), may_read);
    }
}
