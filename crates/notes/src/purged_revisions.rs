//! The revisions of notes whose deletion stubs were purged, in the table `meta`: one record for each.
//!
//! A replica that was away while the deletion was known still has the note, in one of these revisions. Without the
//! records, it could bring the note back. A version that is not among them was saved without knowledge of the deletion;
//! what becomes of both is decided as if the stub were still there. The records are kept for some further purge
//! intervals. They are not replicated.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Unid};
use revision::{ANCESTORS_MAX, Ancestor, Ancestors, Cut, ItemChanges, Revision};
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
    let known = ancestors.list().iter().map(|ancestor| ancestor.revision);
    known.for_each(|revision| put_revision(batch, database, (stub.unid, revision), Kind::Version));
    put_revision(batch, database, (stub.unid, stub.revision()), Kind::Deletion);
    Ok(ancestors.list().len() + 1)
}

/// What a purged revision is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A version with contents, or an earlier deletion.
    Version,
    /// The deletion whose stub was purged.
    Deletion,
}

/// Records one revision of a note whose stub is being purged.
pub(crate) fn put_revision(batch: &mut Batch, database: &Database, (unid, revision): (Unid, Revision), kind: Kind) {
    let mut value = Encoder::with_capacity(5);
    value.u32(day_of(database.clock.now())).u8(u8::from(kind == Kind::Deletion));
    batch.put(Table::Meta, &keys::purged_revision(database.number, unid, revision), &value.finish());
}

/// Returns the day since 1970 on which a revision was purged, and what it is.
fn decode(value: &[u8]) -> std::result::Result<(u32, Kind), InvalidRecord> {
    let mut input = Decoder::new(value);
    let day = input.u32()?;
    Ok((day, if input.u8()? == 0 { Kind::Version } else { Kind::Deletion }))
}

/// Returns `true` if a revision of a note is among those that a purge has recorded.
pub(crate) fn is_purged(reader: &dyn TableReader, database: DbNumber, unid: Unid, revision: Revision) -> Result<bool> {
    Ok(reader.get(Table::Meta, &keys::purged_revision(database, unid, revision))?.is_some())
}

/// Returns the greatest deletion of a note that was purged, and the revisions from which it descends.
pub(crate) fn load_deletion(
    reader: &dyn TableReader,
    database: DbNumber,
    unid: Unid,
) -> Result<Option<(Revision, RevisionRecord)>> {
    let mut cursor = reader.scan(Table::Meta, &keys::purged_revisions_of(database, unid), Direction::Backward)?;
    let mut deletion = None;
    let mut ancestors = Vec::new();
    while ancestors.len() < ANCESTORS_MAX
        && let Some((key, value)) = cursor.next()?
    {
        let revision = keys::split_purged_revision(key).ok_or_else(|| damaged(Table::Meta, key))?;
        match (decode(value).map_err(|_| damaged(Table::Meta, key))?, deletion) {
            ((_, Kind::Deletion), None) => deletion = Some(revision),
            // Which of them are on the main path is not recorded. The greatest one is.
            ((_, Kind::Version), Some(_)) => ancestors.push(Ancestor { revision, is_on_main_path: true }),
            _ => {}
        }
    }
    let ancestors = Ancestors::from_list(ancestors, Cut::Branches).unwrap_or_default();
    Ok(deletion.map(|deletion| (deletion, RevisionRecord { ancestors, changes: ItemChanges::default() })))
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
        if decode(value).is_ok_and(|(purged, _)| purged >= day) {
            continue;
        }
        found.push((key.to_vec(), value.to_vec()));
    }
    Ok(found)
}

impl DatabaseSnapshot<'_> {
    /// Returns the last deletion of a note with a UNID whose stub was purged here, or `None` if none is known. A new note
    /// with this UNID descends from it.
    pub fn last_purged_deletion(&self, unid: Unid) -> Result<Option<Revision>> {
        let found = load_deletion(&self.snapshot, self.database().number(), unid)?;
        Ok(found.map(|(deletion, _)| deletion))
    }

    /// Returns the deletion of a note whose stub was purged here, if that descends from a revision, or is it. Returns
    /// `None` if this is not known any more.
    pub fn purged_deletion(&self, unid: Unid, revision: Revision) -> Result<Option<Revision>> {
        let number = self.database().number();
        if !is_purged(&self.snapshot, number, unid, revision)? {
            return Ok(None);
        }
        self.last_purged_deletion(unid)
    }
}
