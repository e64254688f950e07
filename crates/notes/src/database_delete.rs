//! Deletes a whole database: releases its blobs, deletes its keys by range, and frees its disk space.

use base::{DbNumber, Timestamp};
use store::blob::{BlobOwner, BlobWriter};
use store::{Batch, Direction, KeyRange, Store, Table, TableReader};

use crate::error::{Result, damaged};
use crate::keys;
use crate::note::Summary;

/// The tables whose keys begin with the number of a database.
pub(crate) const TABLES: [Table; 10] = [
    Table::Summary,
    Table::Body,
    Table::Unid,
    Table::ByModseq,
    Table::Children,
    Table::View,
    Table::Tree,
    Table::ViewBack,
    Table::Unread,
    Table::Meta,
];

/// Releases the references of all notes of a database to their blobs.
pub(crate) fn release_blobs(
    store: &Store,
    (database, now): (DbNumber, Timestamp),
    gate: &BlobWriter<'_>,
    batch: &mut Batch,
) -> Result<()> {
    let range = KeyRange::prefix(&database.to_key());
    let mut cursor = store.scan(Table::Summary, &range, Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        let (note, part) = keys::split_summary(key).ok_or_else(|| damaged(Table::Summary, key))?;
        if part != keys::SummaryRecord::Summary as u8 {
            continue;
        }
        // A damaged record must not prevent the deletion of the database. Its blobs stay until `doublet blobs
        // --rebuild`.
        let Ok(summary) = Summary::decode(value) else { continue };
        for blob in &summary.blobs {
            gate.release(batch, BlobOwner { database, note }, blob, now);
        }
    }
    Ok(())
}

/// Deletes every key of the database.
pub(crate) fn delete_tables(number: DbNumber, batch: &mut Batch) {
    let start = number.to_key();
    for table in TABLES {
        match store::engine::prefix_end(&start) {
            Some(end) => batch.delete_range(table, &start, &end),
            None => unreachable!("database numbers never reach the maximum"),
        }
    }
}

/// Returns the space of a deleted database to the file system, as far as possible. After an error, for example because
/// the disk is full, later compactions reclaim the space: the database is deleted, so this is no failure of the
/// deletion.
pub(crate) fn reclaim_deleted(store: &Store, number: DbNumber) {
    let range = KeyRange::prefix(&number.to_key());
    for table in TABLES {
        let _ = store.engine().compact(table, &range);
    }
}
