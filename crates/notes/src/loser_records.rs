//! The records of versions that lost conflicts, in the table `meta`: one for each version, without contents.
//! [`crate::losers`] explains them.

use std::collections::HashMap;

use base::{DbNumber, Unid};
use revision::{Revision, conflict_document_unid, is_conflict_document_unid};
use store::{Batch, Direction, Table, TableReader};

use crate::error::{Result, damaged};
use crate::keys;
use crate::limits::LOSERS_READ_MAX;
use crate::note::NoteHeader;
use crate::records;

/// Records that a version of a note has lost a conflict.
pub(crate) fn put_loser(batch: &mut Batch, database: DbNumber, loser: (Unid, Revision)) {
    batch.put(Table::Meta, &keys::loser(database, loser.0, loser.1), &[]);
}

/// The versions that have lost conflicts of one document, by the UNIDs of their conflict documents.
#[derive(Default)]
pub(crate) struct LosersOfDocument {
    document: Option<Unid>,
    by_conflict_document: HashMap<Unid, Revision>,
}

impl LosersOfDocument {
    /// Removes the record of a version whose conflict document is being purged. The records of its document are read if
    /// those of another one were.
    pub(crate) fn forget(
        &mut self,
        reader: &dyn TableReader,
        batch: &mut Batch,
        database: DbNumber,
        purged: &NoteHeader,
    ) -> Result<()> {
        let Some(parent) = purged.parent.filter(|_| is_conflict_document_unid(purged.unid)) else { return Ok(()) };
        if self.document != Some(parent) {
            *self = Self::read(reader, database, parent)?;
        }
        if let Some(revision) = self.by_conflict_document.get(&purged.unid) {
            batch.delete(Table::Meta, &keys::loser(database, parent, *revision));
        }
        Ok(())
    }

    fn read(reader: &dyn TableReader, database: DbNumber, document: Unid) -> Result<Self> {
        let mut by_conflict_document = HashMap::new();
        let mut cursor = reader.scan(Table::Meta, &keys::losers_of(database, document), Direction::Forward)?;
        while let Some((key, _)) = cursor.next()? {
            let revision = keys::split_loser(key).ok_or_else(|| damaged(Table::Meta, key))?;
            by_conflict_document.insert(conflict_document_unid(document, revision), revision);
        }
        Ok(Self { document: Some(document), by_conflict_document })
    }
}

/// Removes records of a document whose deletion stub is being purged, unless their conflict documents still exist.
/// Versions that were equal to the document have none. Returns the number of removed records. If it is `count_max`,
/// there may be others.
pub(crate) fn forget_losers_of(
    reader: &dyn TableReader,
    batch: &mut Batch,
    (database, document): (DbNumber, Unid),
    count_max: usize,
) -> Result<usize> {
    let mut forgotten = 0;
    let mut cursor = reader.scan(Table::Meta, &keys::losers_of(database, document), Direction::Backward)?;
    while forgotten < count_max
        && let Some((key, _)) = cursor.next()?
    {
        let revision = keys::split_loser(key).ok_or_else(|| damaged(Table::Meta, key))?;
        if records::find(reader, database, conflict_document_unid(document, revision))?.is_none() {
            batch.delete(Table::Meta, key);
            forgotten += 1;
        }
    }
    Ok(forgotten)
}

/// Returns the versions of a note that have lost conflicts, the greatest first, at most [`LOSERS_READ_MAX`].
pub(crate) fn load_losers(reader: &dyn TableReader, database: DbNumber, unid: Unid) -> Result<Vec<Revision>> {
    let mut found = Vec::new();
    let mut cursor = reader.scan(Table::Meta, &keys::losers_of(database, unid), Direction::Backward)?;
    while let Some((key, _)) = cursor.next()? {
        found.push(keys::split_loser(key).ok_or_else(|| damaged(Table::Meta, key))?);
        if found.len() >= LOSERS_READ_MAX {
            break;
        }
    }
    Ok(found)
}
