//! The revisions of notes whose deletion stubs were purged, in the table `meta`: one record for each.
//!
//! A replica that was away while the deletion was known still has the note, in one of these revisions. Without the
//! records, it could bring the note back. A version that is not among them was saved without knowledge of the deletion;
//! what becomes of both is decided as if the stub were still there. The records are kept for some further purge
//! intervals. They are not replicated.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Unid};
use revision::{ANCESTORS_MAX, Ancestor, Ancestors, Cut, Revision};
use store::{Batch, Direction, Table, TableReader};

use crate::error::{Result, damaged};
use crate::keys;

/// What a purged revision is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A version with contents, or an earlier deletion.
    Version,
    /// The deletion whose stub was purged.
    Deletion,
}

/// A purge of a database.
#[derive(Clone, Copy)]
pub(crate) struct PurgeRun {
    pub(crate) database: DbNumber,
    /// The day since 1970.
    pub(crate) day: u32,
}

impl PurgeRun {
    /// Records one revision of a note whose stub is being purged.
    pub(crate) fn record(self, batch: &mut Batch, (unid, revision): (Unid, Revision), kind: Kind) {
        let mut value = Encoder::with_capacity(5);
        value.u32(self.day).u8(u8::from(kind == Kind::Deletion));
        batch.put(Table::Meta, &keys::purged_revision(self.database, unid, revision), &value.finish());
    }
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
) -> Result<Option<(Revision, Ancestors)>> {
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
    Ok(deletion.map(|deletion| (deletion, ancestors)))
}

/// Returns up to `count_max` records from before a day. One that is not valid counts as old.
pub(crate) fn older_than(
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
