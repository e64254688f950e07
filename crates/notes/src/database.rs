//! Databases: the set of all databases of a server ([`Notes`]) and one open database ([`Database`]).
//!
//! A database has one writer at a time. The writer holds [`Database::lock`] for the in-memory part of a transaction,
//! but never for the disk sync. Readers use snapshots and never wait. The data that every request needs (ACL, keywords,
//! folder designs) is kept decoded. A transaction that changes it replaces it before releasing the lock.
//!
//! An open database stays in memory until it is deleted or [`Notes::close_idle`] finds it unused.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use base::codec::Decoder;
use base::{Clock, DbNumber, Modseq, NoteId, Random, ReplicaId};
use event_listener::{Event, EventListener};
use store::{Batch, Direction, KeyRange, Read, Store, Table, Ticket};

use crate::access::{Access, Level, level};
use crate::acl::{Acl, Identity};
use crate::catalog::{self, DatabaseOptions, DatabaseRecord, NewDatabase};
use crate::change_subscription::{ChangeSubscriber, ChangeSubscribers};
use crate::counters::Counters;
use crate::database_reader::{self, DatabaseSnapshot};
use crate::error::{Error, Result};
use crate::folder::FolderDesign;
use crate::folder_cache::{CacheBudget, FolderCache};
use crate::item::{Item, Value};
use crate::keys;
use crate::keyword::Keywords;
use crate::note::{NewNote, NoteClass};
use crate::ods::{self, OdsVersion};
use crate::recent_changes::{RecentChange, RecentChanges};
use crate::transaction::Transaction;
use crate::view::view_cache::ViewCache;

/// The note that contains the ACL. It is the first note of every database.
pub const ACL_NOTE_ID: NoteId = NoteId(1);

/// The item of the ACL note that contains the list.
pub(crate) const ACL_ITEM: &str = "$ACL";

/// All databases of a server.
pub struct Notes {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// The open databases, by path in lower case. The mutex also guards changes of the catalog.
    open: Mutex<HashMap<String, Arc<Database>>>,
    /// Held during work on a database that does not open, so that two repairs do not interfere.
    fixup: Mutex<()>,
    folder_images: CacheBudget,
    followers: Arc<ChangeSubscribers>,
}

impl Notes {
    /// Opens the databases of a store.
    #[must_use]
    pub fn open(store: Arc<Store>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            random,
            open: Mutex::default(),
            fixup: Mutex::default(),
            folder_images: CacheBudget::default(),
            followers: Arc::default(),
        })
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the clock.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// Returns the source of randomness.
    #[must_use]
    pub fn random(&self) -> &dyn Random {
        self.random.as_ref()
    }

    /// Starts to collect which databases change.
    #[must_use]
    pub fn subscribe(&self) -> Arc<ChangeSubscriber> {
        self.followers.add()
    }

    /// Creates a database. Durable on return.
    pub fn database_create(&self, new: &NewDatabase) -> Result<Arc<Database>> {
        new.check()?;
        let mut open = self.lock_open();
        let path_key = catalog::path_key(&new.path);
        if self.store.get(Table::Catalog, &path_key)?.is_some() {
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
            created: self.clock.now(),
            options: new.options,
            shard: 0,
            ods: OdsVersion::CURRENT,
        };
        let mut batch = Batch::new();
        batch.put(Table::Catalog, &path_key, &record.encode());
        batch.put(Table::Catalog, &catalog::number_key(number), &path_key[1..]);
        batch.put(Table::Catalog, catalog::NEXT_NUMBER_KEY, &number.next().0.to_be_bytes());
        batch.put(Table::Meta, &keys::counters(number), &Counters::START.encode());
        let database = Arc::new(Database::new(self, record, Counters::START, new.acl.clone()));
        self.first_note(&database, &new.acl, batch)?;
        open.insert(new.path.to_lowercase(), Arc::clone(&database));
        Ok(database)
    }

    /// Opens a database by its path.
    pub fn database_open(&self, path: &str) -> Result<Arc<Database>> {
        let mut open = self.lock_open();
        let key = path.to_lowercase();
        if let Some(database) = open.get(&key) {
            return Ok(Arc::clone(database));
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
        let Some(path) = self.store.get(Table::Catalog, &catalog::number_key(number))? else { return Ok(None) };
        let path = String::from_utf8(path).map_err(|_| damaged(Table::Catalog, &catalog::number_key(number)))?;
        match self.database_open(&path) {
            // The database was renamed or deleted between the two look-ups.
            Err(Error::NotFound { .. }) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Returns the records of all databases in the order of their paths.
    pub fn database_list(&self) -> Result<Vec<DatabaseRecord>> {
        let mut found = Vec::new();
        let mut cursor = self.store.scan(Table::Catalog, &KeyRange::prefix(b"p"), Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            found.push(decode_record(key, value)?);
        }
        Ok(found)
    }

    /// Returns `true` if a database exists at a path, without opening it.
    pub fn database_exists(&self, path: &str) -> Result<bool> {
        Ok(self.store.get(Table::Catalog, &catalog::path_key(path))?.is_some())
    }

    /// Changes the path of a database. Durable on return.
    pub fn database_rename(&self, access: &Access<level::Manager>, path: &str) -> Result<()> {
        self.database_rename_with(access, path, |catalog| {
            let mut batch = Batch::new();
            catalog(&mut batch);
            self.commit_now(&batch)
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
        database.set_record(record);
        open.remove(&old.to_lowercase());
        open.insert(path.to_lowercase(), Arc::clone(database));
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
        self.record_change(access, |record| DatabaseRecord { title: title.to_owned(), options, ..record })
    }

    /// Sets the structure version of a database. Durable on return.
    pub(crate) fn database_ods_set(&self, access: &Access<level::Manager>, structure: OdsVersion) -> Result<()> {
        self.record_change(access, |record| {
            assert!(record.ods <= structure, "the structure version is never lowered");
            DatabaseRecord { ods: structure, ..record }
        })
    }

    fn record_change(
        &self,
        access: &Access<level::Manager>,
        change: impl FnOnce(DatabaseRecord) -> DatabaseRecord,
    ) -> Result<()> {
        access.grant()?;
        let _open = self.lock_open();
        let database = access.database();
        database.check_not_dropped()?;
        let record = change(database.record().as_ref().clone());
        let mut batch = Batch::new();
        batch.put(Table::Catalog, &catalog::path_key(&record.path), &record.encode());
        self.commit_now(&batch)?;
        database.set_record(record);
        self.followers.notify(database.number);
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
        let gate = self.store.blobs().writer();
        let counters = database.lock();
        let mut batch = Batch::new();
        batch.delete(Table::Catalog, &catalog::path_key(&database.path()));
        batch.delete(Table::Catalog, &catalog::number_key(database.number));
        crate::database_delete::release_blobs(self, database, &gate, &mut batch)?;
        crate::database_delete::delete_tables(database.number, &mut batch);
        self.commit_now(&batch)?;
        // The flag is set only after the commit: a database whose deletion failed, for example because the disk is
        // full, stays usable.
        database.dropped.store(true, Ordering::SeqCst);
        drop(counters);
        drop(gate);
        open.remove(&database.path().to_lowercase());
        database.changed.notify(usize::MAX);
        self.followers.notify(database.number);
        drop(open);
        crate::database_delete::compact_deleted(&self.store, database.number)
    }

    /// Starts a transaction over databases. Each database may occur at most once.
    pub fn transaction<'t>(&'t self, accesses: &[&'t Access<level::Depositor>]) -> Result<Transaction<'t>> {
        Transaction::begin(self, accesses)
    }

    /// Closes databases that are not in use and returns their number.
    ///
    /// In the databases that stay open, cached folders that were not used since the last call are dropped.
    pub fn close_idle(&self) -> usize {
        let mut open = self.lock_open();
        let before = open.len();
        open.retain(|_, database| Arc::strong_count(database) > 1);
        open.values().for_each(|database| database.folder_images.sweep());
        before - open.len()
    }

    /// Returns the number of open databases.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.lock_open().len()
    }

    fn first_note(&self, database: &Arc<Database>, acl: &Acl, batch: Batch) -> Result<()> {
        let itself = Identity::local_server("");
        let access: Access<level::Depositor> = Access::new(Arc::clone(database), Arc::new(itself))?;
        let accesses = [&access];
        let mut transaction = Transaction::begin_with(self, &accesses, batch)?;
        let note = NewNote::of_class(NoteClass::ACL, vec![acl_item(acl)]);
        let created = transaction.writer(0).note_create(note)?;
        assert_eq!(created, ACL_NOTE_ID, "the ACL is the first note of a database");
        let ticket = transaction.commit()?;
        Ok(self.store.durable(ticket).wait()?)
    }

    fn commit_now(&self, batch: &Batch) -> Result<()> {
        let ticket = self.store.commit(batch)?;
        Ok(self.store.durable(ticket).wait()?)
    }

    pub(crate) fn record(&self, path: &str) -> Result<Option<DatabaseRecord>> {
        let key = catalog::path_key(path);
        let Some(value) = self.store.get(Table::Catalog, &key)? else { return Ok(None) };
        decode_record(&key, &value).map(Some)
    }

    fn next_number(&self) -> Result<DbNumber> {
        let Some(value) = self.store.get(Table::Catalog, catalog::NEXT_NUMBER_KEY)? else { return Ok(DbNumber(1)) };
        let number = Decoder::new(&value).u32().map_err(|_| damaged(Table::Catalog, catalog::NEXT_NUMBER_KEY))?;
        Ok(DbNumber(number))
    }

    fn load(&self, record: DatabaseRecord) -> Result<Database> {
        ods::refuse_newer(&record.path, record.ods)?;
        let reader = self.store.as_ref();
        let counters = database_reader::load_counters(reader, record.number)?;
        let database = Database::new(self, record, counters, Acl::default());
        database.set_acl(database_reader::load_acl(reader, &database)?);
        database.set_keywords(database_reader::load_keywords(reader, database.number)?);
        Ok(database)
    }

    /// Locks out other work on databases that do not open.
    pub(crate) fn lock_fixup(&self) -> MutexGuard<'_, ()> {
        self.fixup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_open(&self) -> MutexGuard<'_, HashMap<String, Arc<Database>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn acl_item(acl: &Acl) -> Item {
    Item::summary(ACL_ITEM, Value::MimePart(acl.encode()))
}

fn decode_record(key: &[u8], value: &[u8]) -> Result<DatabaseRecord> {
    DatabaseRecord::decode(value).map_err(|_| damaged(Table::Catalog, key))
}

/// Creates the error for a record that does not match its format.
pub(crate) fn damaged(table: Table, key: &[u8]) -> Error {
    Error::Store(store::Error::Damaged { table, key: key.to_vec(), why: "not in the expected format".into() })
}

/// An open database.
pub struct Database {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) number: DbNumber,
    record: RwLock<Arc<DatabaseRecord>>,
    /// The ACL. `acl_version` counts its replacements since the database was opened.
    acl: RwLock<Arc<Acl>>,
    acl_version: AtomicU64,
    keywords: RwLock<Arc<Keywords>>,
    /// The folder designs as of a design modseq. Loaded on demand.
    designs: Mutex<Option<(Modseq, Arc<Vec<FolderDesign>>)>>,
    pub(crate) views: ViewCache,
    /// The last changes, for indexes that follow them.
    recent: Mutex<RecentChanges>,
    /// The lock of the single writer. It guards the counters as the last transaction left them.
    writer: Mutex<Counters>,
    /// Modseq of the last transaction, and the ticket with which to wait for its durability.
    last: Mutex<(Modseq, Ticket)>,
    /// Notified after every transaction.
    changed: Event,
    /// The subscribers to changes of any database.
    followers: Arc<ChangeSubscribers>,
    pub(crate) dropped: AtomicBool,
    pub(crate) folder_images: FolderCache,
    /// Modseq since which no note has got other items. It is never earlier than the opening of the database.
    contents: AtomicU64,
    /// The records that could not be read at opening. Only a fixup opens a database that has lost any.
    pub(crate) losses: LostRecords,
}

/// Flags for the records about the database itself that could not be read when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostRecords {
    pub(crate) counters: bool,
    pub(crate) acl: bool,
}

impl Database {
    pub(crate) fn new(notes: &Notes, record: DatabaseRecord, counters: Counters, acl: Acl) -> Self {
        Self {
            store: Arc::clone(&notes.store),
            clock: Arc::clone(&notes.clock),
            random: Arc::clone(&notes.random),
            number: record.number,
            record: RwLock::new(Arc::new(record)),
            acl: RwLock::new(Arc::new(acl)),
            acl_version: AtomicU64::new(0),
            keywords: RwLock::default(),
            designs: Mutex::default(),
            views: ViewCache::default(),
            recent: Mutex::new(RecentChanges::since(counters.modseq)),
            writer: Mutex::new(counters),
            last: Mutex::new((counters.modseq, Ticket::NONE)),
            changed: Event::new(),
            followers: Arc::clone(&notes.followers),
            dropped: AtomicBool::new(false),
            contents: AtomicU64::new(counters.modseq.0),
            losses: LostRecords::default(),
            folder_images: FolderCache::new(Arc::clone(&notes.folder_images)),
        }
    }

    /// Returns the proof that an identity has at least the level `L`.
    pub fn authorize<L: Level>(self: &Arc<Self>, identity: &Arc<Identity>) -> Result<Access<L>> {
        Access::new(Arc::clone(self), Arc::clone(identity))
    }

    /// Returns the number of the database within the store.
    #[must_use]
    pub fn number(&self) -> DbNumber {
        self.number
    }

    /// Returns the record in the catalog.
    #[must_use]
    pub fn record(&self) -> Arc<DatabaseRecord> {
        Arc::clone(&self.record.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> String {
        self.record().path.clone()
    }

    /// Returns the existing keywords.
    #[must_use]
    pub fn keywords(&self) -> Arc<Keywords> {
        Arc::clone(&self.keywords.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a listener that is notified of the next transaction. Create it before reading the current state, so that
    /// no change is missed.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.changed.listen()
    }

    /// Returns the modseq of the last transaction, durable or not. This is a cheap check for changes.
    #[must_use]
    pub fn modseq(&self) -> Modseq {
        self.last().0
    }

    pub(crate) fn acl(&self) -> (u64, Arc<Acl>) {
        let acl = self.acl.read().unwrap_or_else(PoisonError::into_inner);
        (self.acl_version(), Arc::clone(&acl))
    }

    pub(crate) fn acl_version(&self) -> u64 {
        self.acl_version.load(Ordering::SeqCst)
    }

    /// Returns the modseq since which no note has got other items.
    pub(crate) fn contents_modseq(&self) -> Modseq {
        Modseq(self.contents.load(Ordering::SeqCst))
    }

    /// Records that a transaction changes the items of notes. Must be called before the transaction is committed.
    pub(crate) fn set_contents_modseq(&self, modseq: Modseq) {
        self.contents.store(modseq.0, Ordering::SeqCst);
    }

    pub(crate) fn set_acl(&self, new: Acl) {
        let mut acl = self.acl.write().unwrap_or_else(PoisonError::into_inner);
        *acl = Arc::new(new);
        self.acl_version.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn set_keywords(&self, new: Keywords) {
        *self.keywords.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
    }

    pub(crate) fn set_record(&self, new: DatabaseRecord) {
        *self.record.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
    }

    /// Takes the writer's lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counters> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        if self.dropped.load(Ordering::SeqCst) {
            return Err(Error::not_found(format!("database {}", self.path())));
        }
        Ok(())
    }

    pub(crate) fn last(&self) -> (Modseq, Ticket) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the result of the transaction that held the lock, and notifies everything that waits for changes.
    pub(crate) fn publish(&self, modseq: Modseq, ticket: Ticket) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(modseq >= last.0, "modseqs are published in ascending order");
        assert!(ticket >= last.1, "tickets are published in the order of the commits");
        *last = (modseq, ticket);
        drop(last);
        self.changed.notify(usize::MAX);
        self.followers.notify(self.number);
    }

    /// Records the changes of a transaction in memory, before it is published.
    pub(crate) fn add_recent_changes(&self, changes: Vec<RecentChange>) {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).add(changes);
    }

    /// Drops the old versions of notes for all changes that every open view has already followed.
    pub(crate) fn drop_old_versions(&self) {
        let followed = self.views.followed_modseq();
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).forget_versions(followed);
    }

    /// Drops the changes kept in memory, because the change log was rewritten up to `modseq`.
    pub(crate) fn reset_recent_changes(&self, modseq: Modseq) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        *recent = RecentChanges::since(modseq);
    }

    /// Returns about `limit` notes that were changed after a modseq, in the order of the changes. Each transaction is
    /// returned completely or not at all. Returns `None` if changes that old are no longer in memory.
    pub(crate) fn recent_changes(&self, since: Modseq, limit: usize) -> Option<Vec<RecentChange>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).after(since, limit)
    }

    /// Returns the notes that were changed after a modseq, or `None` if changes that old are no longer in memory.
    pub(crate) fn changed_notes(&self, since: Modseq) -> Option<HashSet<NoteId>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).notes_after(since)
    }

    /// Returns the folder designs as of `design_modseq`, from memory or with `load`.
    pub(crate) fn designs(
        &self,
        design_modseq: Modseq,
        load: impl FnOnce() -> Result<Vec<FolderDesign>>,
    ) -> Result<Arc<Vec<FolderDesign>>> {
        let known = self.designs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((modseq, designs)) = known
            && modseq == design_modseq
        {
            return Ok(designs);
        }
        let loaded = Arc::new(load()?);
        *self.designs.lock().unwrap_or_else(PoisonError::into_inner) = Some((design_modseq, Arc::clone(&loaded)));
        Ok(loaded)
    }
}

impl<L: crate::access::AtLeast<level::Reader>> Access<L> {
    /// Takes a snapshot of the database for reading.
    pub fn read(&self) -> Result<DatabaseSnapshot<'_>> {
        DatabaseSnapshot::begin(self.database(), self.grant()?)
    }
}
