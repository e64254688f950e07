//! Check and repair of the times of unread marks ([`crate::unread_times`]).
//!
//! Invariants: every record can be read, and has exactly one key in the order of changes, at its last change; the
//! number of marks that wait for their notes is that of their records. A record that cannot be read is removed: its
//! marks stay, and count as older than those of other replicas.

use std::collections::BTreeSet;

use base::{DbNumber, Modseq};
use store::{Batch, Table, TableReader};

use super::salvage::{read_from_both_ends, split_damage};
use crate::error::{Error, Result};
use crate::keys;
use crate::unread_times::{PendingMark, TimesBlock, UnreadState};

/// What is wrong with the times of unread marks.
#[derive(Default)]
pub(super) struct UnreadTimesSurvey {
    /// Descriptions of what is wrong. Without any, nothing is repaired.
    pub(super) reasons: Vec<String>,
    /// Keys of records that cannot be read.
    broken: Vec<Vec<u8>>,
    /// The keys of the order of changes, as they must be.
    order: BTreeSet<Vec<u8>>,
    /// Number of marks that wait for their notes.
    pending: u32,
    purged: Modseq,
    has_state: bool,
}

impl UnreadTimesSurvey {
    /// Checks the records of a database, which has been changed up to `modseq`.
    pub(super) fn check(reader: &dyn TableReader, database: DbNumber, modseq: Modseq) -> Result<Self> {
        let mut found = Self::default();
        let (blocks, damage) = read_from_both_ends(reader, Table::Meta, &keys::all_unread_times(database))?;
        found.reasons.extend(damage);
        for (key, value) in blocks {
            match (keys::split_unread_times(&key), TimesBlock::decode(&value)) {
                (Some((user, block)), Ok(times)) => {
                    let place = times.last().map(|last| keys::unread_change(database, last, user, block));
                    found.order.extend(place);
                }
                _ => found.broken.push(key),
            }
        }
        let (order, damage) =
            read_from_both_ends(reader, Table::Meta, &keys::unread_changes_after(database, Modseq(0)))?;
        found.reasons.extend(damage);
        if order.iter().map(|(key, _)| key).ne(found.order.iter()) {
            found.reasons.push("their order of changes is wrong".to_owned());
        }
        let (pending, damage) = read_from_both_ends(reader, Table::Meta, &keys::pending_marks(database))?;
        found.reasons.extend(damage);
        for (key, value) in pending {
            match (keys::split_pending_mark(&key), PendingMark::decode(&value)) {
                (Some(_), Ok(_)) => found.pending += 1,
                _ => found.broken.push(key),
            }
        }
        if !found.broken.is_empty() {
            found.reasons.push(format!("{} records of their times are not valid", found.broken.len()));
        }
        found.check_state(reader, database, modseq)?;
        Ok(found)
    }

    fn check_state(&mut self, reader: &dyn TableReader, database: DbNumber, modseq: Modseq) -> Result<()> {
        let read = reader.get(Table::Meta, &keys::unread_state(database)).map_err(Error::from);
        let stored = match split_damage(read)? {
            Ok(stored) => stored,
            // It does not decode, so it is treated like a record that has another value.
            Err(damage) => {
                self.reasons.push(damage);
                Some(Vec::new())
            }
        };
        self.has_state = stored.is_some();
        let state = stored.map_or(Ok(UnreadState::default()), |stored| UnreadState::decode(&stored));
        // Without the state, everything may have been removed.
        self.purged = state.map_or(modseq, |state| state.purged.min(modseq));
        if state.map(|state| state.pending) != Ok(self.pending) {
            self.reasons.push("the count of those that wait for their documents is wrong".to_owned());
        }
        Ok(())
    }

    /// Adds the repair to a batch.
    pub(super) fn repair(&self, database: DbNumber, batch: &mut Batch) {
        if self.reasons.is_empty() {
            return;
        }
        self.broken.iter().for_each(|key| batch.delete(Table::Meta, key));
        let order = keys::unread_changes_after(database, Modseq(0));
        let end = order.end.expect("a prefix that ends with a letter has an end");
        batch.delete_range(Table::Meta, &order.start, &end);
        self.order.iter().for_each(|key| batch.put(Table::Meta, key, &[]));
        if self.has_state || self.pending > 0 {
            let state = UnreadState { purged: self.purged, pending: self.pending };
            batch.put(Table::Meta, &keys::unread_state(database), &state.encode());
        }
    }
}
