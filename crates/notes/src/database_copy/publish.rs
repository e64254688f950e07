//! The place of a copy in the catalog: its destination, the reservation of its number, and its publication.

use std::sync::Arc;

use base::{DbNumber, Modseq};
use store::{Batch, Direction, KeyRange, Table, TableReader as _};

use super::{DatabaseCopy, NewCopy};
use crate::access::{Access, level};
use crate::catalog::{self, DatabaseKind, DatabaseRecord};
use crate::counters::Counters;
use crate::database::Database;
use crate::database_delete;
use crate::error::{Error, Result, damaged};
use crate::keys::{self, SummaryRecord};
use crate::note::{NoteClass, NoteHeader};
use crate::records;
use crate::server_databases::Databases;

/// An empty database that a copy replaces.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ReplacedDatabase {
    /// Its entry in the catalog, with title and options.
    record: Arc<DatabaseRecord>,
    modseq: Modseq,
    /// The greatest UIDVALIDITY of its folders.
    pub(super) uid_validity: u32,
}

impl ReplacedDatabase {
    fn new(database: &Database, counters: &Counters) -> Self {
        Self { record: database.record(), modseq: counters.modseq, uid_validity: counters.uid_validity }
    }
}

impl Databases {
    /// Checks that a copy of a database could begin now. Fails as [`DatabaseCopy::begin`] does.
    pub fn check_copy(&self, source: &Access<level::Manager>, new: &NewCopy) -> Result<()> {
        records::require_server_itself(source.database(), source.grant()?.as_ref())?;
        self.check_copy_destination(source, new).map(drop)
    }

    /// Checks that a database can be copied, and that the copy may have its path: there is no database with the path,
    /// or one of the same kind that has never had a document or profile. Returns the latter.
    pub(super) fn check_copy_destination(
        &self,
        source: &Access<level::Manager>,
        new: &NewCopy,
    ) -> Result<Option<ReplacedDatabase>> {
        let from = source.database().record();
        if !matches!(from.kind, DatabaseKind::Standard | DatabaseKind::Mail) {
            let reason = "the server finds it by its path, so it cannot be copied";
            return Err(Error::invalid(format!("{} ({})", from.path, from.kind.name()), reason));
        }
        catalog::check_path(&new.path)?;
        catalog::check_reserved(&new.path, from.kind)?;
        catalog::check_title(&new.title)?;
        new.options.check()?;
        new.options.check_kind(from.kind)?;
        new.acl.as_ref().map_or(Ok(()), crate::acl::Acl::check)?;
        let Some(record) = self.record(&new.path)? else { return Ok(None) };
        let exists = || Error::Exists { what: format!("database {}", new.path) };
        if record.number == from.number || new.is_replica || record.kind != from.kind {
            return Err(exists());
        }
        let database = self.database_open(&new.path)?;
        let counters = *database.lock();
        if !has_only_design(&database)? {
            return Err(Error::NotEmpty { what: format!("database {}", new.path) });
        }
        Ok(Some(ReplacedDatabase::new(&database, &counters)))
    }

    /// Records the number of a copy, which no other database gets. Durable on return.
    pub(super) fn reserve_copy(&self, path: &str) -> Result<DbNumber> {
        let _open = self.lock_open();
        let number = self.next_number()?;
        let mut batch = Batch::new();
        batch.put(Table::Catalog, catalog::NEXT_NUMBER_KEY, &number.next().0.to_be_bytes());
        batch.put(Table::Catalog, &catalog::copy_key(number), path.as_bytes());
        self.commit_durably(&batch)?;
        Ok(number)
    }

    /// Removes everything of a copy that is not complete. Durable on return.
    pub(super) fn remove_copy(&self, number: DbNumber) -> Result<()> {
        let gate = self.store().blobs().writer();
        let mut batch = Batch::new();
        database_delete::release_blobs(self.store(), (number, self.clock().now()), &gate, &mut batch)?;
        database_delete::delete_tables(number, &mut batch);
        batch.delete(Table::Catalog, &catalog::copy_key(number));
        self.commit_durably(&batch)
    }

    /// Removes what copies have left that were not complete when the process ended. Returns their number. To be called
    /// when no copy runs: at the start.
    pub fn remove_unfinished_copies(&self) -> Result<usize> {
        let mut numbers = Vec::new();
        let mut cursor = self.store().scan(Table::Catalog, &catalog::copies(), Direction::Forward)?;
        while let Some((key, _)) = cursor.next()? {
            numbers.push(catalog::split_copy(key).ok_or_else(|| damaged(Table::Catalog, key))?);
        }
        drop(cursor);
        numbers.iter().try_for_each(|number| self.remove_copy(*number))?;
        Ok(numbers.len())
    }
}

/// Returns `true` if a database has never had a document or a profile, as far as it knows.
fn has_only_design(database: &Database) -> Result<bool> {
    let range = KeyRange::prefix(&database.number.to_key());
    let mut cursor = database.store.scan(Table::Summary, &range, Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        let (note, part) = keys::split_summary(key).ok_or_else(|| damaged(Table::Summary, key))?;
        if part != SummaryRecord::Header as u8 {
            continue;
        }
        let header = NoteHeader::decode(note, value).map_err(|_| damaged(Table::Summary, key))?;
        if header.class.is_document() || header.class == NoteClass::PROFILE {
            return Ok(false);
        }
    }
    Ok(true)
}

impl DatabaseCopy<'_> {
    /// Adds the copy to the catalog, in place of an empty database with its path. It is durable on return.
    pub fn finish(mut self) -> Result<Arc<Database>> {
        assert!(self.work.is_empty(), "a copy is finished after its last step");
        let databases = self.databases;
        let mut batch = self.last_batch(databases.clock().now())?;
        let DatabaseRecord { number, path, replica_id, .. } = self.record.clone();
        let mut open = databases.lock_open();
        let old = match databases.record(&path)? {
            Some(_) => Some(databases.open_locked(&path, &mut open)?),
            None => None,
        };
        let gate = databases.store().blobs().writer();
        let counters = old.as_ref().map(|old| old.lock());
        let found = old.as_ref().zip(counters.as_ref()).map(|(old, counters)| ReplacedDatabase::new(old, counters));
        if found != self.replaced {
            let what = format!("database {path}");
            return Err(Error::invalid(what, "it was created or changed while the copy was made"));
        }
        if let Some(old) = &old {
            databases.delete_into(old, &gate, &mut batch)?;
        }
        batch.delete(Table::Catalog, &catalog::copy_key(number));
        batch.put(Table::Catalog, &catalog::path_key(&path), &self.record.encode());
        batch.put(Table::Catalog, &catalog::number_key(number), path.to_lowercase().as_bytes());
        databases.commit_durably(&batch)?;
        self.is_published = true;
        drop(gate);
        if let Some(old) = &old {
            old.set_dropped();
            drop(counters);
            open.remove(&path.to_lowercase());
            databases.replica_change(old.record().replica_id, Some(&path), None);
            old.notify_changed();
        }
        databases.replica_change(replica_id, None, Some(&path));
        let database = databases.open_locked(&path, &mut open)?;
        drop(open);
        database.notify_changed();
        Ok(database)
    }
}
