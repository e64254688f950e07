//! Purge of old deletion records.
//!
//! Deletion stubs and the records of notes that left folders are kept for the purge interval of their database, so that
//! replicas and IMAP clients learn of them. Domino keeps its deletion stubs the same way. A replica or client that
//! comes later learns that the order of changes is incomplete
//! ([`crate::database_snapshot::DatabaseSnapshot::is_complete_since`]) and compares everything.
//!
//! A `mail.box` has neither replicas nor IMAP clients, and every message that passes through it leaves stubs. So its
//! records are removed by the next purge, whatever its interval. Views and the full-text index that have not followed
//! the deletions by then compare everything.

use base::{Modseq, NoteId, Timestamp};
use store::{Batch, Table, TableReader};

use crate::catalog::DatabaseKind;
use crate::change_log::{self, ChangeEntry, NoteChange};
use crate::database::Database;
use crate::error::Result;
use crate::keys::{self, SummaryRecord};
use crate::limits::PURGED_DELETIONS_INTERVALS;
use crate::loser_records::{self, LosersOfDocument};
use crate::note::{NoteFlags, NoteHeader};
use crate::ods::OdsVersion;
use crate::purged_deletions::{self, PurgeRun, PurgedDeletion};
use crate::records;
use crate::revision_record::RevisionRecord;
use crate::unread_times::{self, day_of};

/// Maximum number of records that one call removes, so that the database's lock is held briefly.
const RECORDS_MAX: usize = 10_000;

/// Removes stubs and left records that are older than the database's purge interval, and what is known of versions that
/// have lost against purged documents. The deletions stay known for some further intervals
/// ([`crate::purged_deletions`]). Returns the number of removed records.
///
/// The caller repeats the call until it returns 0. The removal is durable on return.
pub fn purge(database: &Database) -> Result<usize> {
    database.check_not_dropped()?;
    unread_times::purge(database)?;
    let removed = purge_stubs(database)?;
    if removed > 0 { Ok(removed) } else { forget_deletions(database) }
}

/// Removes stubs, left records and losing versions, as [`purge`] describes.
fn purge_stubs(database: &Database) -> Result<usize> {
    if database.lock().stubs == 0 {
        return Ok(0);
    }
    let limit = database.clock.now().before(database.record().purge_interval());
    // The scan runs over all changes on a snapshot, without the lock. A record that changes meanwhile fails the check
    // with `change_log::entry_exists` below.
    let old = older_than(&database.store.snapshot()?, database, limit)?;
    let mut counters = database.lock();
    database.check_not_dropped()?;
    let store = database.store.as_ref();
    let mut step = PurgeStep::new(database);
    for entry in old {
        if change_log::entry_exists(store, database.number, &entry)? && !step.remove(&entry)? {
            break;
        }
    }
    let PurgeStep { mut batch, removed, forgotten, last, .. } = step;
    if removed == 0 && forgotten == 0 {
        return Ok(0);
    }
    let mut after = *counters;
    after.stubs = after.stubs.saturating_sub(removed as u64);
    after.purged_modseq = after.purged_modseq.max(last).min(after.modseq);
    assert!(after.purged_modseq >= counters.purged_modseq, "purged_modseq never decreases");
    assert!(removed <= RECORDS_MAX, "each step is short, so that the lock is held only briefly");
    batch.put(Table::Meta, &keys::counters(database.number), &after.encode());
    // A snapshot of the state after this batch must not get the removed entries from memory.
    database.drop_log_entries(last);
    let ticket = store.commit(&batch)?;
    *counters = after;
    database.publish(after.modseq, ticket);
    drop(counters);
    store.durable(ticket).wait()?;
    Ok(removed + forgotten)
}

/// Removes what is known of purged notes if its time is over, [`RECORDS_MAX`] records in one transaction. Returns their
/// number.
fn forget_deletions(database: &Database) -> Result<usize> {
    let interval = u32::from(database.record().options.purge_interval_days);
    let kept = interval.saturating_mul(PURGED_DELETIONS_INTERVALS);
    let first = day_of(database.clock.now()).saturating_sub(kept);
    let mut forgotten = 0;
    for range in keys::all_purged(database.number) {
        let mut rest = Some(range);
        while let Some(range) = rest.take() {
            let old = purged_deletions::older_than(&database.store.snapshot()?, &range, first, RECORDS_MAX)?;
            rest = old.rest;
            if old.records.is_empty() {
                break;
            }
            let counters = database.lock();
            database.check_not_dropped()?;
            let mut batch = Batch::new();
            for (key, value) in &old.records {
                // Another purge may have recorded it again.
                if database.store.get(Table::Meta, key)?.as_ref() == Some(value) {
                    batch.delete(Table::Meta, key);
                }
            }
            let ticket = database.store.commit(&batch)?;
            drop(counters);
            database.store.durable(ticket).wait()?;
            forgotten += old.records.len();
        }
    }
    Ok(forgotten)
}

/// What one transaction of a purge removes and records.
struct PurgeStep<'d> {
    database: &'d Database,
    run: PurgeRun,
    may_have_losers: bool,
    /// `true` if the deletions stay known.
    records_deletions: bool,
    batch: Batch,
    losers: LosersOfDocument,
    /// Number of removed records of changes.
    removed: usize,
    /// Number of removed records of losing versions.
    forgotten: usize,
    /// Number of records about purged notes.
    recorded: usize,
    /// The last of the removed changes.
    last: Modseq,
}

impl<'d> PurgeStep<'d> {
    fn new(database: &'d Database) -> Self {
        let record = database.record();
        Self {
            database,
            run: PurgeRun { database: database.number, day: day_of(database.clock.now()) },
            // Neither clients nor other servers bring versions to the router's queue.
            may_have_losers: record.kind != DatabaseKind::MailBox,
            records_deletions: !record.purge_interval().is_zero() && record.ods >= OdsVersion::WITH_REVISIONS,
            batch: Batch::new(),
            losers: LosersOfDocument::default(),
            removed: 0,
            forgotten: 0,
            recorded: 0,
            last: Modseq(0),
        }
    }

    /// Removes the record of a change, with the stub of a deletion. Returns `false` if the transaction is full.
    fn remove(&mut self, entry: &ChangeEntry) -> Result<bool> {
        let database = self.database;
        let store = database.store.as_ref();
        if matches!(entry.change, NoteChange::Deleted { .. }) {
            let header = records::load_header(store, database, entry.note)?;
            // A document that can still be restored keeps its stub until `crate::soft_deletion` has removed its
            // contents.
            if header.as_ref().is_some_and(NoteHeader::is_soft_deleted) {
                return Ok(true);
            }
            if let Some(header) = header.as_ref().filter(|_| self.may_have_losers) {
                self.losers.forget(store, &mut self.batch, database.number, header)?;
                let of = (database.number, header.unid);
                let count_max = RECORDS_MAX - self.forgotten;
                self.forgotten += loser_records::forget_losers_of(store, &mut self.batch, of, count_max)?;
                if self.forgotten == RECORDS_MAX {
                    // The stub stays until all of them are removed.
                    return Ok(false);
                }
            }
            if let Some(header) = header.as_ref().filter(|_| self.records_deletions) {
                self.record_deletion(header)?;
            }
            delete_stub(database, &mut self.batch, entry.note, header.as_ref())?;
        }
        change_log::delete_entry(&mut self.batch, database.number, entry);
        self.removed += 1;
        self.last = entry.modseq;
        Ok(self.recorded < RECORDS_MAX)
    }

    /// Records the deletion of a note whose stub is removed, and the revisions from which it descends.
    fn record_deletion(&mut self, stub: &NoteHeader) -> Result<()> {
        let store = self.database.store.as_ref();
        let record = match RevisionRecord::load(store, self.database, stub) {
            // A damaged record does not keep the stub for ever.
            Err(error) if error.is_damage() => RevisionRecord::derived(stub),
            record => record?,
        };
        let ancestors = record.ancestors.list();
        for ancestor in ancestors {
            self.run.record_version(&mut self.batch, stub.unid, ancestor.revision);
        }
        let summary = keys::summary(self.database.number, stub.note, SummaryRecord::Summary);
        let deletion = PurgedDeletion {
            revision: stub.revision(),
            time: stub.sequence_time,
            class: stub.class,
            has_readers: stub.flags.contains(NoteFlags::HAS_READERS),
            summary: store.get(Table::Summary, &summary)?.unwrap_or_default(),
        };
        // An earlier note with this UNID may have been deleted, too.
        let earlier = purged_deletions::load_deletion(store, self.database.number, stub.unid)?;
        let (last, before) = match earlier {
            Some(earlier) if earlier.revision > deletion.revision => (earlier, Some(deletion)),
            earlier => (deletion, earlier),
        };
        self.run.record_deletion(&mut self.batch, stub.unid, &last);
        if let Some(before) = before.filter(|before| before.revision != last.revision) {
            self.run.record_version(&mut self.batch, stub.unid, before.revision);
        }
        self.recorded += ancestors.len() + 2;
        Ok(())
    }
}

/// Deletes the records of a deletion stub.
fn delete_stub(database: &Database, batch: &mut Batch, note: NoteId, header: Option<&NoteHeader>) -> Result<()> {
    let store = database.store.as_ref();
    for part in [SummaryRecord::Header, SummaryRecord::Summary] {
        batch.delete(Table::Summary, &keys::summary(database.number, note, part));
    }
    let revisions = keys::revisions(database.number, note);
    if store.get(Table::Body, &revisions)?.is_some() {
        batch.delete(Table::Body, &revisions);
    }
    if let Some(header) = header
        && records::find(store, database.number, header.unid)? == Some(note)
    {
        batch.delete(Table::Unid, &keys::unid(database.number, header.unid));
    }
    Ok(())
}

/// Returns the first [`RECORDS_MAX`] records of deletions and of notes that left folders before `limit`.
fn older_than(reader: &dyn TableReader, database: &Database, limit: Timestamp) -> Result<Vec<ChangeEntry>> {
    let mut found = Vec::new();
    change_log::scan_while(reader, database.number, Modseq(0), &mut |entry| {
        let is_soft = || -> Result<bool> {
            let header = records::load_header(reader, database, entry.note)?;
            Ok(header.is_some_and(|header| header.is_soft_deleted()))
        };
        match &entry.change {
            NoteChange::Deleted { at, .. } if *at < limit && !is_soft()? => found.push(entry),
            NoteChange::Left { at, .. } if *at < limit => found.push(entry),
            _ => {}
        }
        Ok(found.len() < RECORDS_MAX)
    })?;
    Ok(found)
}
