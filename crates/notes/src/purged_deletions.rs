//! What stays known of notes whose deletion stubs were purged, in the table `meta`: a record of the deletion, and one
//! of each revision from which it descends.
//!
//! A replica that was away while the stub existed still has the note. Without the records, it could bring the note
//! back. When a version of such a note arrives, the stub is written again ([`crate::Writer::purged_stub_restore`]), so
//! that the rules for deletions decide, and the replica that has the note learns of the deletion. The records are kept
//! for some further purge intervals. They are not replicated.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Timestamp, Unid};
use revision::{ANCESTORS_MAX, Ancestor, Ancestors, Cut, Revision, RevisionId};
use store::{Batch, Direction, KeyRange, Table, TableReader};

use crate::error::{Result, damaged};
use crate::keys;
use crate::note::NoteClass;

/// A deletion whose stub was purged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PurgedDeletion {
    pub(crate) revision: Revision,
    /// The time of the deletion.
    pub(crate) time: Timestamp,
    pub(crate) class: NoteClass,
    /// `true` if Readers items restricted the note.
    pub(crate) has_readers: bool,
    /// The stored summary record of the stub: the items that decide on access, and the name that a CouchDB client has
    /// given the note. Empty if there was none.
    pub(crate) summary: Vec<u8>,
}

/// A purge of a database.
#[derive(Clone, Copy)]
pub(crate) struct PurgeRun {
    pub(crate) database: DbNumber,
    /// The day since 1970.
    pub(crate) day: u32,
}

impl PurgeRun {
    /// Records the deletion of a note whose stub is being purged.
    pub(crate) fn record_deletion(self, batch: &mut Batch, unid: Unid, deletion: &PurgedDeletion) {
        let mut value = Encoder::with_capacity(36);
        value.u32(self.day).i64(deletion.time.0).raw(&deletion.revision.to_bytes());
        value.u16(deletion.class.0).u8(u8::from(deletion.has_readers)).raw(&deletion.summary);
        batch.put(Table::Meta, &keys::purged_deletion(self.database, unid), &value.finish());
    }

    /// Records a revision from which such a deletion descends.
    pub(crate) fn record_version(self, batch: &mut Batch, unid: Unid, revision: Revision) {
        batch.put(Table::Meta, &keys::purged_version(self.database, unid, revision), &self.day.to_be_bytes());
    }
}

/// Returns the day on which something was purged, with which each record begins.
fn day_in(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.first_chunk().copied()?))
}

fn decode_deletion(value: &[u8]) -> std::result::Result<PurgedDeletion, InvalidRecord> {
    let mut input = Decoder::new(value);
    input.u32()?;
    let time = Timestamp(input.i64()?);
    let revision = Revision { sequence: input.u32()?, id: RevisionId(input.array()?) };
    let class = NoteClass(input.u16()?);
    let has_readers = input.u8()? != 0;
    Ok(PurgedDeletion { revision, time, class, has_readers, summary: input.rest().to_vec() })
}

/// Returns the last deletion of a note with a UNID whose stub was purged, if it is still known. A record that is not
/// valid is not: it stops no replication, and the next purge of such a note replaces it.
pub(crate) fn load_deletion(
    reader: &dyn TableReader,
    database: DbNumber,
    unid: Unid,
) -> Result<Option<PurgedDeletion>> {
    let value = reader.get(Table::Meta, &keys::purged_deletion(database, unid))?;
    Ok(value.and_then(|value| decode_deletion(&value).ok()))
}

impl PurgedDeletion {
    /// Returns `true` if a revision of the note is the deletion, or one from which it descends.
    pub(crate) fn knows(
        &self,
        reader: &dyn TableReader,
        database: DbNumber,
        (unid, revision): (Unid, Revision),
    ) -> Result<bool> {
        let key = keys::purged_version(database, unid, revision);
        Ok(self.revision == revision || reader.get(Table::Meta, &key)?.is_some())
    }
}

/// Returns the revisions from which the purged deletion of a note descends.
pub(crate) fn load_ancestors(
    reader: &dyn TableReader,
    database: DbNumber,
    (unid, deletion): (Unid, Revision),
) -> Result<Ancestors> {
    let mut cursor = reader.scan(Table::Meta, &keys::purged_versions_of(database, unid), Direction::Backward)?;
    let mut ancestors = Vec::new();
    while ancestors.len() < ANCESTORS_MAX
        && let Some((key, _)) = cursor.next()?
    {
        let revision = keys::split_purged_version(key).ok_or_else(|| damaged(Table::Meta, key))?;
        if revision < deletion {
            // Which of them are on the main path is not recorded. The greatest one is.
            ancestors.push(Ancestor { revision, is_on_main_path: true });
        }
    }
    Ok(Ancestors::from_list(ancestors, Cut::Branches).unwrap_or_default())
}

/// Records that are old, with their keys.
pub(crate) struct OldRecords {
    pub(crate) records: Vec<(Vec<u8>, Vec<u8>)>,
    /// The range behind them, or `None` at its end.
    pub(crate) rest: Option<KeyRange>,
}

/// Returns up to `count_max` records of a range from before a day. One that is not valid counts as old.
pub(crate) fn older_than(reader: &dyn TableReader, range: &KeyRange, day: u32, count_max: usize) -> Result<OldRecords> {
    let mut records = Vec::new();
    let mut cursor = reader.scan(Table::Meta, range, Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        if records.len() == count_max {
            let rest = Some(KeyRange { start: key.to_vec(), end: range.end.clone() });
            return Ok(OldRecords { records, rest });
        }
        if day_in(value).is_none_or(|purged| purged < day) {
            records.push((key.to_vec(), value.to_vec()));
        }
    }
    Ok(OldRecords { records, rest: None })
}
