//! The revisions of notes whose deletion stubs were purged, in the table `meta`: one record for each.
//!
//! A replica that was away while the deletion was known still has the note, in one of these revisions. Without the
//! records, it could bring the note back. A version that is not among them was saved without knowledge of the deletion,
//! and is taken as a new note. The records are kept for some further purge intervals. They are not replicated.

use base::{DbNumber, Unid};
use revision::Revision;
use store::{Batch, Direction, Table, TableReader};

use crate::database::Database;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Result, damaged};
use crate::keys;
use crate::limits::PURGED_REVISIONS_INTERVALS;
use crate::note::NoteHeader;
use crate::revision_record::RevisionRecord;
use crate::unread_times::day_of;

/// Records the revisions of a note whose stub is being purged: that of the deletion, and those from which it descends.
/// Returns their number.
pub(crate) fn put_revisions(batch: &mut Batch, database: &Database, stub: &NoteHeader) -> Result<usize> {
    let ancestors = match RevisionRecord::load(database.store.as_ref(), database, stub) {
        Ok(record) => record.ancestors,
        // A damaged record does not keep the stub for ever.
        Err(error) if error.is_damage() => RevisionRecord::derived(stub).ancestors,
        Err(error) => return Err(error),
    };
    let ancestors = ancestors.list().iter().map(|ancestor| ancestor.revision);
    let mut count = 0;
    for revision in std::iter::once(stub.revision()).chain(ancestors) {
        put_revision(batch, database, stub.unid, revision);
        count += 1;
    }
    Ok(count)
}

/// Records one revision of a note whose stub is being purged.
pub(crate) fn put_revision(batch: &mut Batch, database: &Database, unid: Unid, revision: Revision) {
    let day = day_of(database.clock.now());
    batch.put(Table::Meta, &keys::purged_revision(database.number, unid, revision), &day.to_be_bytes());
}

/// Returns `true` if a revision of a note is among those that a purge has recorded.
pub(crate) fn is_purged(reader: &dyn TableReader, database: DbNumber, unid: Unid, revision: Revision) -> Result<bool> {
    Ok(reader.get(Table::Meta, &keys::purged_revision(database, unid, revision))?.is_some())
}

/// Removes up to `count_max` records whose time is over. Returns their number. The removal is durable on return.
pub(crate) fn remove_old(database: &Database, count_max: usize) -> Result<usize> {
    let interval = u32::from(database.record().options.purge_interval_days);
    let kept = interval.saturating_mul(PURGED_REVISIONS_INTERVALS);
    let first = day_of(database.clock.now()).saturating_sub(kept);
    let old = older_than(&database.store.snapshot()?, database.number, first, count_max)?;
    if old.is_empty() {
        return Ok(0);
    }
    let counters = database.lock();
    database.check_not_dropped()?;
    let mut batch = Batch::new();
    for (key, value) in &old {
        // Another purge may have recorded the revision again.
        if database.store.get(Table::Meta, key)?.as_ref() == Some(value) {
            batch.delete(Table::Meta, key);
        }
    }
    let ticket = database.store.commit(&batch)?;
    drop(counters);
    database.store.durable(ticket).wait()?;
    Ok(old.len())
}

/// Returns up to `count_max` records from before a day. One that is not valid counts as old.
fn older_than(
    reader: &dyn TableReader,
    database: DbNumber,
    day: u32,
    count_max: usize,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut cursor = reader.scan(Table::Meta, &keys::purged_revisions(database), Direction::Forward)?;
    while found.len() < count_max
        && let Some((key, value)) = cursor.next()?
    {
        if value.try_into().is_ok_and(|recorded| u32::from_be_bytes(recorded) >= day) {
            continue;
        }
        found.push((key.to_vec(), value.to_vec()));
    }
    Ok(found)
}

impl DatabaseSnapshot<'_> {
    /// Returns the deletion of a note whose stub was purged here, if that descends from a revision, or is it. Returns
    /// `None` if this is not known any more.
    pub fn purged_deletion(&self, unid: Unid, revision: Revision) -> Result<Option<Revision>> {
        let number = self.database().number();
        if !is_purged(&self.snapshot, number, unid, revision)? {
            return Ok(None);
        }
        let range = keys::purged_revisions_of(number, unid);
        let mut cursor = self.snapshot.scan(Table::Meta, &range, Direction::Backward)?;
        let Some((key, _)) = cursor.next()? else { return Ok(None) };
        Ok(Some(keys::split_purged_revision(key).ok_or_else(|| damaged(Table::Meta, key))?))
    }
}
