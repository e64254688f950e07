//! Copies of whole databases: the records of one snapshot under another number.
//!
//! A copy is a new database, or a replica. Its notes keep their note ids, modseqs, places in folders and UIDs, so most
//! records are copied as they are stored. The documents of a new database get UNIDs of their own, which follow from the
//! old ones and a random key, so that parents and references are translated without a table (`note_rows`). Attachments
//! are not copied: the notes of the copy refer to the same content. Indexes of views are built on first use.
//!
//! The number of a copy is reserved in the catalog before its first record is written. No path leads to it until the
//! last batch, which adds its counters and its catalog entry together. So a copy is complete or does not exist. What an
//! ended process has left is removed by [`Databases::remove_unfinished_copies`]. There is nothing to continue: the rest
//! of the source may have changed.
//!
//! Invariants:
//! - All records of a copy come from one snapshot.
//! - A reference to an attachment is in the same batch as the note that has it.
//! - UIDVALIDITY of the folders of a new database is greater than that of the source, and than that of the empty
//!   database that the copy replaces, so mail clients do not take messages for others.
//!
//! Left out: databases that the server finds by their paths (directory, queue, log, sessions, uploads).

mod note_rows;
mod publish;
mod row_copy;

use std::collections::VecDeque;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, Name, ReplicaId, Timestamp};
use collection::CollectionWriter;
use store::{Batch, KeyRange, Snapshot, Table, TableReader as _, Ticket};

use self::note_rows::{NoteRows, UnidMap};
use self::publish::ReplacedDatabase;
use self::row_copy::RowFilter;
use crate::access::{Access, level};
use crate::acl::Acl;
use crate::catalog::{DatabaseKind, DatabaseOptions, DatabaseRecord};
use crate::counters::Counters;
use crate::error::{Result, damaged};
use crate::folder::{self, FolderState, FolderWeights};
use crate::instance::Instances;
use crate::keys;
use crate::limits::{COPY_BYTES_PER_STEP, COPY_RECORDS_PER_STEP};
use crate::records;
use crate::server_databases::Databases;
use crate::setting_times::SettingTimes;
use crate::shared_uids::SharedUids;
use crate::unread_times::UnreadState;

/// The database that a copy makes.
#[derive(Clone, Debug)]
pub struct NewCopy {
    /// Path of the copy.
    pub path: String,
    /// Title shown to users.
    pub title: String,
    /// The user whose marks are those of the notes. If it is not the owner of the source, the name replaces that of the
    /// owner of the source in personal profiles, folders and views.
    pub owner: Name,
    /// The access control list, or `None` for that of the source.
    pub acl: Option<Acl>,
    /// Options of the database.
    pub options: DatabaseOptions,
    /// `true` for a replica: the copy has the replica id, title, owner, options and access control list of the source.
    pub is_replica: bool,
}

impl NewCopy {
    /// Creates the parameters of a copy with the properties of the source.
    #[must_use]
    pub fn new(path: &str, source: &DatabaseRecord) -> Self {
        Self {
            path: path.to_owned(),
            title: source.title.clone(),
            owner: source.owner.clone(),
            acl: None,
            options: source.options,
            is_replica: false,
        }
    }
}

/// What a copy has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyProgress {
    /// Number of notes that were copied, deletion stubs included.
    pub notes: u64,
    /// Number of documents among them.
    pub documents: u64,
    /// Number of references from notes to attachments.
    pub attachments: u64,
    /// Number of bytes that were written.
    pub bytes: u64,
    /// Number of notes of the source without deletion stubs.
    pub total: u64,
    /// `true` if only [`DatabaseCopy::finish`] is left.
    pub is_complete: bool,
}

/// The database from which another one was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyOrigin {
    /// Number of the source. It is never given to another database.
    pub source: DbNumber,
    /// Time of the copy.
    pub copied: Timestamp,
}

impl CopyOrigin {
    fn encode(self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(1).u32(self.source.0).i64(self.copied.0);
        out.finish()
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        Ok(Self { source: DbNumber(input.u32()?), copied: Timestamp(input.i64()?) })
    }
}

impl Databases {
    /// Returns the database from which one was copied, or `None` if it does not exist or was not copied.
    pub fn copy_origin(&self, path: &str) -> Result<Option<CopyOrigin>> {
        let Some(record) = self.record(path)? else { return Ok(None) };
        let key = keys::copy_origin(record.number);
        let Some(stored) = self.store().get(Table::Meta, &key)? else { return Ok(None) };
        CopyOrigin::decode(&stored).map(Some).map_err(|_| damaged(Table::Meta, &key))
    }
}

/// A running copy of one database. If it is dropped before [`DatabaseCopy::finish`], nothing of it stays.
#[must_use = "a copy advances only when its steps are run"]
pub struct DatabaseCopy<'c> {
    databases: &'c Databases,
    source: &'c Access<level::Manager>,
    snapshot: Snapshot<'c>,
    /// The counters of the source in the snapshot.
    counters: Counters,
    record: DatabaseRecord,
    is_replica: bool,
    replaced: Option<ReplacedDatabase>,
    notes: NoteRows,
    work: VecDeque<Work>,
    /// The last key that the first piece of work has read.
    after: Option<Vec<u8>>,
    /// The last committed batch.
    ticket: Ticket,
    progress: CopyProgress,
    is_published: bool,
}

/// A part of a copy.
#[derive(Clone, Debug)]
enum Work {
    /// Finds the documents that keep their UNIDs.
    FindKept,
    /// Copies headers and summaries.
    Notes,
    /// Copies the records of a range of keys.
    Rows(Table, KeyRange, RowFilter),
}

/// The kinds of records in the table `meta` that new databases and replicas get from their source: designs, keywords.
const COMMON_META: [u8; 2] = *b"dk";

/// The kinds of records in the table `meta` that only replicas get from their source: deletions, the history of the
/// access control list, instances, replication histories, versions that have lost, purged deletions, and times of
/// unread marks.
const REPLICA_META: [u8; 11] = *b"shiplgaumrn";

impl<'c> DatabaseCopy<'c> {
    /// Begins a copy of a database. Reserves its number; nothing else is changed until [`DatabaseCopy::finish`].
    ///
    /// Fails if the caller is not the server itself, if the source is a database of the server, or if there is a
    /// database with the path of the copy that is not empty ([`Databases::check_copy_destination`]).
    pub fn begin(databases: &'c Databases, source: &'c Access<level::Manager>, new: &NewCopy) -> Result<Self> {
        let database = source.database();
        records::require_server_itself(database, source.grant()?.as_ref())?;
        database.check_not_dropped()?;
        let replaced = databases.check_copy_destination(source, new)?;
        let snapshot = databases.store().snapshot()?;
        let from = database.record();
        let number = databases.reserve_copy(&new.path)?;
        let record = copied_record(databases, &from, (number, new));
        let counters = records::load_counters(&snapshot, from.number)?;
        let owner = (record.owner != from.owner).then(|| (from.owner.clone(), record.owner.clone()));
        let unids = (!new.is_replica).then(|| UnidMap::random(databases.random()));
        let acl = new.acl.clone().filter(|_| !new.is_replica);
        let notes = NoteRows::new((from.number, number), unids, owner, acl);
        let progress = CopyProgress { total: counters.notes, ..CopyProgress::default() };
        let work = work_of(&from, new.is_replica);
        Ok(Self {
            databases,
            source,
            snapshot,
            counters,
            record,
            is_replica: new.is_replica,
            replaced,
            notes,
            work,
            after: None,
            ticket: Ticket::NONE,
            progress,
            is_published: false,
        })
    }

    /// Copies the next records and returns the progress.
    pub fn step(&mut self) -> Result<CopyProgress> {
        self.source.grant()?;
        if let Some(work) = self.work.front().cloned() {
            let mut batch = Batch::new();
            let is_done = match work {
                Work::FindKept => self.find_kept()?,
                Work::Notes => self.copy_notes()?,
                Work::Rows(table, range, filter) => {
                    let is_done = self.copy_rows((table, &range), filter, &mut batch)?;
                    self.commit(&batch)?;
                    is_done
                }
            };
            if is_done {
                self.after = None;
                self.work.pop_front();
            }
        }
        self.progress.is_complete = self.work.is_empty();
        Ok(self.progress)
    }

    fn commit(&mut self, batch: &Batch) -> Result<()> {
        if !batch.is_empty() {
            self.ticket = self.databases.store().commit(batch)?;
            self.progress.bytes += batch.byte_count() as u64;
        }
        Ok(())
    }

    /// Returns the keys of a range that were not read yet.
    fn rest(&self, range: &KeyRange) -> KeyRange {
        let start = self.after.as_ref().map_or_else(|| range.start.clone(), |after| store::engine::next_key(after));
        KeyRange { start, end: range.end.clone() }
    }

    /// Adds the work that copies the folders that were found among the notes.
    fn add_folders(&mut self) {
        let from = self.source.database().number;
        for folder in self.notes.views() {
            let range = KeyRange::prefix(&folder::collection_id(from, folder).prefix());
            for table in [Table::View, Table::Tree] {
                self.work.push_back(Work::Rows(table, range.clone(), RowFilter::None));
            }
        }
    }

    /// Returns the last batch of the copy: what belongs to the database as a whole.
    fn last_batch(&self, now: Timestamp) -> Result<Batch> {
        let number = self.record.number;
        let mut batch = Batch::new();
        let mut counters = Counters { index_bytes: 0, personal_index_bytes: 0, ..self.counters };
        if !self.is_replica {
            counters.stubs = 0;
            counters.purged_modseq = counters.modseq;
            counters.bytes = counters.bytes.saturating_sub(self.notes.bytes_left_out());
            counters.notes = counters.notes.saturating_sub(self.notes.notes_left_out());
            let mut instances = Instances::default();
            instances.begin(self.databases.services().run.of_database(number), Modseq(1));
            batch.put(Table::Meta, &keys::instances(number), &instances.encode());
            if self.record.options.replicates_unread_marks() {
                let state = UnreadState { purged: counters.modseq, pending: 0 };
                batch.put(Table::Meta, &keys::unread_state(number), &state.encode());
            }
            self.renew_folders(&mut counters, now, &mut batch)?;
        }
        let origin = CopyOrigin { source: self.source.database().number, copied: now };
        batch.put(Table::Meta, &keys::copy_origin(number), &origin.encode());
        batch.put(Table::Meta, &keys::counters(number), &counters.encode());
        Ok(batch)
    }

    /// Assigns a UIDVALIDITY of its own to each folder. No UIDs are held in a new database.
    fn renew_folders(&self, counters: &mut Counters, now: Timestamp, batch: &mut Batch) -> Result<()> {
        let store = self.databases.store().as_ref();
        let rank = self.databases.services().settings.uid_rank;
        let replaced = self.replaced.as_ref().map_or(0, |replaced| replaced.uid_validity);
        counters.uid_validity = counters.uid_validity.max(replaced);
        for view in self.notes.views() {
            let id = folder::collection_id(self.record.number, view);
            let mut entries = CollectionWriter::open(store, id, &FolderWeights)?;
            // A view has no such collection.
            let Ok(mut state) = FolderState::decode(entries.state()) else { continue };
            let seconds = u32::try_from(now.seconds()).unwrap_or(1);
            let least = seconds.max(counters.uid_validity.saturating_add(1));
            counters.uid_validity = rank.map_or(least, |rank| rank.next_from(least));
            state.uid_validity = counters.uid_validity;
            state.uid_next = state.end();
            state.shared = state
                .shared
                .filter(|_| rank.is_some())
                .map(|_| SharedUids { end: state.uid_next, run: SharedUids::START.run });
            entries.set_state(&state.encode());
            entries.finish(batch)?;
        }
        Ok(())
    }
}

impl Drop for DatabaseCopy<'_> {
    fn drop(&mut self) {
        if !self.is_published {
            // What a failure leaves is removed at the next start.
            let _ = self.databases.remove_copy(self.record.number);
        }
    }
}

/// Returns the record of a copy in the catalog.
fn copied_record(
    databases: &Databases,
    source: &DatabaseRecord,
    (number, new): (DbNumber, &NewCopy),
) -> DatabaseRecord {
    let created = databases.clock().now();
    let copy = DatabaseRecord { number, path: new.path.clone(), created, shard: 0, ..source.clone() };
    if new.is_replica {
        return copy;
    }
    DatabaseRecord {
        replica_id: ReplicaId::generate(databases.random()),
        title: new.title.clone(),
        owner: new.owner.clone(),
        options: new.options,
        setting_times: SettingTimes::default(),
        ..copy
    }
}

/// Returns the parts of a copy of a database. Those that copy folders are added when the notes are known.
fn work_of(source: &DatabaseRecord, is_replica: bool) -> VecDeque<Work> {
    let number = source.number;
    let all = KeyRange::prefix(&number.to_key());
    let rows = |table, filter| Work::Rows(table, all.clone(), filter);
    let meta = |kinds: &[u8]| -> Vec<Work> {
        let work = |kind: &u8| Work::Rows(Table::Meta, keys::meta_records(number, *kind), RowFilter::None);
        kinds.iter().map(work).collect()
    };
    let mut work = VecDeque::new();
    if !is_replica && source.kind == DatabaseKind::Standard {
        work.push_back(Work::FindKept);
    }
    work.extend([Work::Notes, rows(Table::Body, RowFilter::Body), rows(Table::ByModseq, RowFilter::Changes)]);
    work.extend([rows(Table::Unread, RowFilter::UnreadMarks)]);
    work.push_back(Work::Rows(Table::Meta, keys::thread_entries(number), RowFilter::Threads));
    work.extend(meta(&COMMON_META));
    if is_replica {
        work.extend([rows(Table::Unid, RowFilter::None), rows(Table::Children, RowFilter::None)]);
        work.extend(meta(&REPLICA_META));
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_reads_back() {
        let origin = CopyOrigin { source: DbNumber(7), copied: Timestamp(-3) };
        let bytes = origin.encode();
        assert_eq!(CopyOrigin::decode(&bytes), Ok(origin));
        assert!((0..bytes.len()).all(|length| CopyOrigin::decode(&bytes[..length]).is_err()));
    }
}
