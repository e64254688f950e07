//! The databases of a server: creation, opening, renaming and deletion.
//!
//! An open database stays in memory until it is deleted, [`Databases::close_idle`] finds it unused, or too many others
//! are open ([`ServerSettings::open_databases_max`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::codec::Decoder;
use base::sync::{Mutex, MutexGuard};
use base::{Clock, DbNumber, Random, ReplicaId};
use store::blob::BlobWriter;
use store::engine::next_key;
use store::{Batch, Direction, KeyRange, Store, Table, TableReader};

use crate::access::{Access, level};
use crate::acl::{ACL_NOTE_ID, ACL_UNID, Acl, Identity, acl_item};
use crate::catalog::{self, DatabaseOptions, DatabaseRecord, NewDatabase, ServerSettings};
use crate::change_subscription::ChangeSubscriber;
use crate::counters::Counters;
use crate::database::{Database, DatabaseServices, LostRecords};
use crate::database_delete;
use crate::error::{Error, Result, damaged};
use crate::folder_cache::CacheBudget;
use crate::instance::InstanceId;
use crate::keys;
use crate::note::{NewNote, NoteClass};
use crate::ods::OdsVersion;
use crate::open_databases::OpenDatabases;
use crate::records;
use crate::setting_times::SettingTimes;
use crate::transaction::Transaction;
use crate::unread_times;

/// All databases of a server.
pub struct Databases {
    services: DatabaseServices,
    /// The open databases, by path in lower case. The mutex also guards changes of the catalog.
    open: Mutex<OpenDatabases>,
    /// Held during work on a database that does not open, so that two repairs do not interfere.
    fixup: Mutex<()>,
    /// The replica ids of all databases, each with a path in lower case. Loaded when one is first searched, and changed
    /// after each change of the catalog.
    replicas: Mutex<Option<BTreeSet<(ReplicaId, String)>>>,
}

impl Databases {
    /// Opens the databases of a store with default settings.
    #[must_use]
    pub fn open(store: Arc<Store>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Arc<Self> {
        Self::open_with(store, clock, random, ServerSettings::default())
    }

    /// Opens the databases of a store.
    #[must_use]
    pub fn open_with(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        settings: ServerSettings,
    ) -> Arc<Self> {
        let services = DatabaseServices {
            run: InstanceId::generate(random.as_ref()),
            store,
            clock,
            random,
            settings,
            folder_cache_budget: CacheBudget::default(),
            followers: Arc::default(),
        };
        let open = Mutex::new(OpenDatabases::new(settings.open_databases_max));
        Arc::new(Self { services, open, fixup: Mutex::default(), replicas: Mutex::default() })
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.services.store
    }

    /// Returns the clock.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        self.services.clock.as_ref()
    }

    /// Returns the source of randomness.
    #[must_use]
    pub fn random(&self) -> &dyn Random {
        self.services.random.as_ref()
    }

    /// Starts to collect which databases change.
    #[must_use]
    pub fn subscribe(&self) -> Arc<ChangeSubscriber> {
        self.services.followers.add()
    }

    /// Creates a database. Durable on return.
    pub fn database_create(&self, new: &NewDatabase) -> Result<Arc<Database>> {
        new.check()?;
        let mut open = self.lock_open();
        let path_key = catalog::path_key(&new.path);
        if self.store().get(Table::Catalog, &path_key)?.is_some() {
            return Err(Error::Exists { what: format!("database {}", new.path) });
        }
        let number = self.next_number()?;
        let record = DatabaseRecord {
            number,
            path: new.path.clone(),
            replica_id: new.replica_id.unwrap_or_else(|| ReplicaId::generate(self.random())),
            title: new.title.clone(),
            kind: new.kind,
            owner: new.owner.clone(),
            created: self.clock().now(),
            options: new.options,
            shard: 0,
            ods: OdsVersion::CURRENT,
            setting_times: SettingTimes::default(),
        };
        let mut batch = Batch::new();
        batch.put(Table::Catalog, &path_key, &record.encode());
        batch.put(Table::Catalog, &catalog::number_key(number), &path_key[1..]);
        batch.put(Table::Catalog, catalog::NEXT_NUMBER_KEY, &number.next().0.to_be_bytes());
        batch.put(Table::Meta, &keys::counters(number), &Counters::START.encode());
        let replica_id = record.replica_id;
        let database = Arc::new(Database::new(&self.services, record, Counters::START, new.acl.clone()));
        self.create_acl_note(&database, new, batch)?;
        open.insert(new.path.to_lowercase(), Arc::clone(&database));
        self.replica_change(replica_id, None, Some(&new.path));
        Ok(database)
    }

    /// Opens a database by its path.
    pub fn database_open(&self, path: &str) -> Result<Arc<Database>> {
        self.open_locked(path, &mut self.lock_open())
    }

    /// Opens a database by its path. `open` are the open databases.
    pub(crate) fn open_locked(&self, path: &str, open: &mut OpenDatabases) -> Result<Arc<Database>> {
        let key = path.to_lowercase();
        if let Some(database) = open.get(&key) {
            return Ok(database);
        }
        let record = self.record(path)?.ok_or_else(|| Error::not_found(format!("database {path}")))?;
        let database = Arc::new(self.load(record)?);
        assert_eq!(
            database.losses,
            LostRecords::default(),
            "a database is opened only if none of its records are lost"
        );
        open.insert(key, Arc::clone(&database));
        Ok(database)
    }

    /// Opens a database by its number. Returns `None` if it no longer exists.
    pub fn database_open_number(&self, number: DbNumber) -> Result<Option<Arc<Database>>> {
        let Some(path) = self.store().get(Table::Catalog, &catalog::number_key(number))? else { return Ok(None) };
        let path = String::from_utf8(path).map_err(|_| damaged(Table::Catalog, &catalog::number_key(number)))?;
        match self.database_open(&path) {
            // The database was renamed or deleted between the two lookups.
            Err(Error::NotFound { .. }) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens the database with a replica id. If there are several, opens the one whose path comes first. Returns `None`
    /// if there is none.
    pub fn database_open_replica(&self, id: ReplicaId) -> Result<Option<Arc<Database>>> {
        let Some(path) = self.path_of_replica(id)? else { return Ok(None) };
        match self.database_open(&path) {
            // The database was renamed or deleted between the two lookups.
            Err(Error::NotFound { .. }) => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn path_of_replica(&self, id: ReplicaId) -> Result<Option<String>> {
        let mut replicas = self.replicas.lock();
        if replicas.is_none() {
            let listed = self.database_list()?.into_iter();
            *replicas = Some(listed.map(|record| (record.replica_id, record.path.to_lowercase())).collect());
        }
        let Some(known) = &*replicas else { return Ok(None) };
        let found = known.range((id, String::new())..).next().filter(|(found, _)| *found == id);
        Ok(found.map(|(_, path)| path.clone()))
    }

    /// Records a change of the catalog. A path of `None` stands for no database.
    pub(crate) fn replica_change(&self, id: ReplicaId, old_path: Option<&str>, new_path: Option<&str>) {
        let mut replicas = self.replicas.lock();
        let Some(known) = &mut *replicas else { return };
        if let Some(path) = old_path {
            known.remove(&(id, path.to_lowercase()));
        }
        if let Some(path) = new_path {
            known.insert((id, path.to_lowercase()));
        }
    }

    /// Returns the records of up to `limit` databases in the order of their paths: of those whose path begins with
    /// `prefix`, and comes after `after` unless that is empty. Case does not count.
    pub fn database_page(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<DatabaseRecord>> {
        let mut range = KeyRange::prefix(&catalog::path_key(prefix));
        if !after.is_empty() {
            range.start = range.start.max(next_key(&catalog::path_key(after)));
        }
        let mut found = Vec::new();
        let mut cursor = self.store().scan(Table::Catalog, &range, Direction::Forward)?;
        while found.len() < limit
            && let Some((key, value)) = cursor.next()?
        {
            found.push(decode_record(key, value)?);
        }
        Ok(found)
    }

    /// Returns the records of all databases in the order of their paths.
    pub fn database_list(&self) -> Result<Vec<DatabaseRecord>> {
        let mut found = Vec::new();
        let mut cursor = self.store().scan(Table::Catalog, &KeyRange::prefix(b"p"), Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            found.push(decode_record(key, value)?);
        }
        Ok(found)
    }

    /// Returns `true` if a database exists at a path, without opening it.
    pub fn database_exists(&self, path: &str) -> Result<bool> {
        Ok(self.store().get(Table::Catalog, &catalog::path_key(path))?.is_some())
    }

    /// Changes the path of a database. Durable on return.
    pub fn database_rename(&self, access: &Access<level::Manager>, path: &str) -> Result<()> {
        self.database_rename_with(access, path, |catalog| {
            let mut batch = Batch::new();
            catalog(&mut batch);
            self.commit_durably(&batch)
        })
    }

    /// Changes the path of a database together with other changes.
    ///
    /// `commit` must call the function that it receives on its own batch, commit that batch, and wait until it is
    /// durable. The lock of the catalog is held during that time, so `commit` must not open databases.
    pub fn database_rename_with<E: From<Error>>(
        &self,
        access: &Access<level::Manager>,
        path: &str,
        commit: impl FnOnce(&dyn Fn(&mut Batch)) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        access.grant()?;
        catalog::check_path(path)?;
        catalog::check_reserved(path, access.database().record().kind)?;
        let mut open = self.lock_open();
        let database = access.database();
        database.check_not_dropped()?;
        let old = database.path();
        let same = old.to_lowercase() == path.to_lowercase();
        if !same && self.record(path)?.is_some() {
            return Err(Error::Exists { what: format!("database {path}") }.into());
        }
        let record = DatabaseRecord { path: path.to_owned(), ..database.record().as_ref().clone() };
        commit(&|batch| {
            batch.delete(Table::Catalog, &catalog::path_key(&old));
            batch.put(Table::Catalog, &catalog::path_key(path), &record.encode());
            batch.put(Table::Catalog, &catalog::number_key(record.number), path.to_lowercase().as_bytes());
        })?;
        let replica_id = record.replica_id;
        database.set_record(record);
        open.remove(&old.to_lowercase());
        open.insert(path.to_lowercase(), Arc::clone(database));
        self.replica_change(replica_id, Some(&old), Some(path));
        Ok(())
    }

    /// Changes the title and options of a database. Durable on return.
    pub fn database_options_set(
        &self,
        access: &Access<level::Manager>,
        title: &str,
        options: DatabaseOptions,
    ) -> Result<()> {
        catalog::check_title(title)?;
        options.check()?;
        options.check_kind(access.database().record().kind)?;
        self.record_change(access, |record| record.changed(title, options, self.clock()))
    }

    /// Sets the structure version of a database. Durable on return.
    pub(crate) fn database_ods_set(&self, access: &Access<level::Manager>, structure: OdsVersion) -> Result<()> {
        self.record_change(access, |record| {
            assert!(record.ods <= structure, "the structure version is never lowered");
            DatabaseRecord { ods: structure, ..record }
        })
    }

    pub(crate) fn record_change(
        &self,
        access: &Access<level::Manager>,
        change: impl FnOnce(DatabaseRecord) -> DatabaseRecord,
    ) -> Result<()> {
        access.grant()?;
        let _open = self.lock_open();
        let database = access.database();
        // Each transaction sees one version of the record.
        let counters = database.lock();
        database.check_not_dropped()?;
        let before = database.record();
        let record = change(before.as_ref().clone());
        let mut batch = Batch::new();
        batch.put(Table::Catalog, &catalog::path_key(&record.path), &record.encode());
        unread_times::change_options(self.store().as_ref(), (&before, &record), *counters, &mut batch)?;
        let ticket = self.store().commit(&batch)?;
        database.set_record(record);
        drop(counters);
        self.store().durable(ticket).wait()?;
        self.services.followers.notify(database.number);
        Ok(())
    }

    /// Deletes a database and frees its disk space. Durable on return.
    pub fn database_delete(&self, access: &Access<level::Manager>) -> Result<()> {
        access.grant()?;
        let mut open = self.lock_open();
        let database = access.database();
        database.check_not_dropped()?;
        // The blob gate is taken before the lock, as in every transaction. The other order could deadlock with the blob
        // collector.
        let gate = self.store().blobs().writer();
        let counters = database.lock();
        let mut batch = Batch::new();
        self.delete_into(database, &gate, &mut batch)?;
        self.commit_durably(&batch)?;
        // The flag is set only after the commit: a database whose deletion failed, for example because the disk is
        // full, stays usable.
        database.set_dropped();
        drop(counters);
        drop(gate);
        open.remove(&database.path().to_lowercase());
        self.replica_change(database.record().replica_id, Some(&database.path()), None);
        database.notify_changed();
        drop(open);
        database_delete::reclaim_deleted(self.store(), database.number);
        Ok(())
    }

    /// Adds the deletion of a database to a batch. The caller holds the lock of the database.
    pub(crate) fn delete_into(&self, database: &Database, gate: &BlobWriter<'_>, batch: &mut Batch) -> Result<()> {
        batch.delete(Table::Catalog, &catalog::path_key(&database.path()));
        batch.delete(Table::Catalog, &catalog::number_key(database.number));
        database_delete::release_blobs(self.store(), (database.number, self.clock().now()), gate, batch)?;
        database_delete::delete_tables(database.number, batch);
        Ok(())
    }

    /// Starts a transaction over databases. Each database may occur at most once.
    pub fn transaction<'t>(&'t self, accesses: &[&'t Access<level::Depositor>]) -> Result<Transaction<'t>> {
        Transaction::begin(self.store(), accesses)
    }

    /// Closes databases that are not in use and returns their number.
    ///
    /// In the databases that stay open, cached folders that were not used since the last call are dropped.
    pub fn close_idle(&self) -> usize {
        let mut open = self.lock_open();
        let closed = open.close_unused();
        open.for_each(|database| database.folder_cache.evict_unused());
        closed
    }

    /// Returns the number of open databases.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.lock_open().len()
    }

    /// Creates the note with the access control list. That of a replica is older than any other, so the one that the
    /// first replication brings replaces it.
    fn create_acl_note(&self, database: &Arc<Database>, new: &NewDatabase, batch: Batch) -> Result<()> {
        let itself = Identity::local_server("");
        let access: Access<level::Depositor> = Access::new(Arc::clone(database), Arc::new(itself))?;
        let accesses = [&access];
        let mut transaction = Transaction::begin_with(self.store(), &accesses, batch)?;
        let note = NewNote { unid: Some(ACL_UNID), ..NewNote::of_class(NoteClass::ACL, vec![acl_item(&new.acl)]) };
        let mut writer = transaction.writer(0);
        let created = writer.note_create(note)?;
        if new.replica_id.is_some() {
            writer.pending_header(created)?.after.set_oldest();
        }
        assert_eq!(created, ACL_NOTE_ID, "the ACL is the first note of a database");
        let ticket = transaction.commit()?;
        Ok(self.store().durable(ticket).wait()?)
    }

    pub(crate) fn commit_durably(&self, batch: &Batch) -> Result<()> {
        let ticket = self.store().commit(batch)?;
        Ok(self.store().durable(ticket).wait()?)
    }

    pub(crate) fn record(&self, path: &str) -> Result<Option<DatabaseRecord>> {
        let key = catalog::path_key(path);
        let Some(value) = self.store().get(Table::Catalog, &key)? else { return Ok(None) };
        decode_record(&key, &value).map(Some)
    }

    pub(crate) fn next_number(&self) -> Result<DbNumber> {
        let Some(value) = self.store().get(Table::Catalog, catalog::NEXT_NUMBER_KEY)? else { return Ok(DbNumber(1)) };
        let number = Decoder::new(&value).u32().map_err(|_| damaged(Table::Catalog, catalog::NEXT_NUMBER_KEY))?;
        Ok(DbNumber(number))
    }

    fn load(&self, record: DatabaseRecord) -> Result<Database> {
        record.check_ods()?;
        let reader = self.store().as_ref();
        let counters = records::load_counters(reader, record.number)?;
        let database = Database::new(&self.services, record, counters, Acl::default());
        database.set_acl(records::load_acl(reader, &database)?);
        database.set_keywords(records::load_keywords(reader, database.number)?);
        Ok(database)
    }

    /// Returns the services that all databases share.
    pub(crate) fn services(&self) -> &DatabaseServices {
        &self.services
    }

    /// Locks out other work on databases that do not open.
    pub(crate) fn lock_fixup(&self) -> MutexGuard<'_, ()> {
        self.fixup.lock()
    }

    pub(crate) fn lock_open(&self) -> MutexGuard<'_, OpenDatabases> {
        self.open.lock()
    }
}

fn decode_record(key: &[u8], value: &[u8]) -> Result<DatabaseRecord> {
    DatabaseRecord::decode(value).map_err(|_| damaged(Table::Catalog, key))
}
