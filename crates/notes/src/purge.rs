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

use std::time::Duration;

use base::{Modseq, NoteId, Timestamp};
use store::{Batch, Table, TableReader};

use crate::catalog::{DatabaseKind, DatabaseRecord};
use crate::change_log::{self, ChangeEntry, NoteChange};
use crate::database::Database;
use crate::error::Result;
use crate::keys::{self, SummaryRecord};
use crate::loser_records::{self, LosersOfDocument};
use crate::note::NoteHeader;
use crate::ods::OdsVersion;
use crate::records;
use crate::{purged_revisions, unread_times};

/// Maximum number of records that one call removes, so that the database's lock is held briefly.
const RECORDS_MAX: usize = 10_000;

/// Removes stubs and left records that are older than the database's purge interval, and what is known of versions that
/// have lost against purged documents. The revisions of the notes stay known for some further intervals
/// ([`crate::purged_revisions`]). Returns the number of removed records.
///
/// The caller repeats the call until it returns 0. The removal is durable on return.
pub fn purge(database: &Database) -> Result<usize> {
    database.check_not_dropped()?;
    unread_times::purge(database)?;
    let removed = purge_stubs(database)?;
    if removed > 0 { Ok(removed) } else { purged_revisions::remove_old(database, RECORDS_MAX) }
}

/// Removes stubs, left records and losing versions, as [`purge`] describes.
fn purge_stubs(database: &Database) -> Result<usize> {
    if database.lock().stubs == 0 {
        return Ok(0);
    }
    let limit = database.clock.now().before(interval(&database.record()));
    // The scan runs over all changes on a snapshot, without the lock. A record that changes meanwhile fails the check
    // with `change_log::entry_exists` below.
    let old = older_than(&database.store.snapshot()?, database, limit)?;
    let mut counters = database.lock();
    database.check_not_dropped()?;
    let store = database.store.as_ref();
    let mut batch = Batch::new();
    let mut removed = 0;
    let mut forgotten = 0;
    let mut last = Modseq(0);
    let mut recorded = 0;
    // Neither clients nor other servers bring versions to the router's queue.
    let mut losers = LosersOfDocument::default();
    let may_have_losers = database.record().kind != DatabaseKind::MailBox;
    let records_revisions =
        !interval(&database.record()).is_zero() && database.record().ods >= OdsVersion::WITH_REVISIONS;
    for entry in old {
        if !change_log::entry_exists(store, database.number, &entry)? {
            continue;
        }
        if matches!(entry.change, NoteChange::Deleted { .. }) {
            let header = records::load_header(store, database, entry.note)?;
            // A document that can still be restored keeps its stub until `crate::soft_deletion` has removed its
            // contents.
            if header.as_ref().is_some_and(NoteHeader::is_soft_deleted) {
                continue;
            }
            if let Some(header) = header.as_ref().filter(|_| may_have_losers) {
                losers.forget(store, &mut batch, database.number, header)?;
                let of = (database, header.unid);
                forgotten += loser_records::forget_losers_of(&mut batch, of, RECORDS_MAX - forgotten)?;
                if forgotten == RECORDS_MAX {
                    // The stub stays until all of them are removed.
                    break;
                }
            }
            if let Some(header) = header.as_ref().filter(|_| records_revisions) {
                recorded += purged_revisions::put_revisions(&mut batch, database, header)?;
            }
            delete_stub(database, &mut batch, entry.note, header.as_ref())?;
        }
        change_log::delete_entry(&mut batch, database.number, &entry);
        removed += 1;
        last = entry.modseq;
        if recorded >= RECORDS_MAX {
            break;
        }
    }
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

/// Returns the time for which a database keeps its records of deletions.
pub(crate) fn interval(record: &DatabaseRecord) -> Duration {
    match record.kind {
        DatabaseKind::MailBox | DatabaseKind::Log => Duration::ZERO,
        DatabaseKind::Standard | DatabaseKind::Mail | DatabaseKind::Directory => {
            Duration::from_secs(u64::from(record.options.purge_interval_days) * 86_400)
        }
    }
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
