//! An open database: its state in memory, and the lock of its writer.
//!
//! A database has one writer at a time. The writer holds [`Database::lock`] for the in-memory part of a transaction,
//! but never for the disk sync. Readers use snapshots and never wait. The data that every request needs (ACL, keywords,
//! folder designs, views) is kept decoded. A transaction that changes it replaces it before releasing the lock.
//!
//! This module only holds the state. [`crate::access`], [`crate::database_snapshot`] and [`crate::transaction`] add the
//! methods that authorize, read and change.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use base::sync::{Mutex, MutexGuard, RwLock};
use base::{Clock, DbNumber, Modseq, NoteId, Random, Timestamp};
use event_listener::{Event, EventListener};
use store::{Store, Ticket};

use crate::acl::Acl;
use crate::catalog::{DatabaseRecord, ServerSettings};
use crate::change_log::{ChangeCursor, ChangeEntry};
use crate::change_log_tail::ChangeLogTail;
use crate::change_subscription::ChangeSubscribers;
use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::folder::FolderDesign;
use crate::folder_cache::{CacheBudget, FolderCache};
use crate::instance::{InstanceId, Instances};
use crate::keyword::Keywords;
use crate::limits::CREATED_AHEAD_MICROSECONDS_MAX;
use crate::recent_changes::{RecentChange, RecentChanges};
use crate::records;
use crate::view::view_cache::ViewCache;

/// The services that all databases of a server share.
pub(crate) struct DatabaseServices {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) settings: ServerSettings,
    /// The number of this run of the server. With the number of a database, it makes an instance.
    pub(crate) run: InstanceId,
    /// The memory that cached folders may take.
    pub(crate) folder_cache_budget: CacheBudget,
    /// The subscribers to changes of any database.
    pub(crate) followers: Arc<ChangeSubscribers>,
}

/// An open database.
pub struct Database {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) settings: ServerSettings,
    /// The instance of this run, and whether it is stored: whether this run has changed the database.
    instance: AtomicU64,
    instance_is_stored: AtomicBool,
    /// The list of instances, if it has been read since this run has changed the database.
    instances: Mutex<Option<Arc<Instances>>>,
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
    /// The last entries of the change log, for readers that follow it.
    log_tail: Mutex<ChangeLogTail>,
    /// The lock of the single writer. It guards the counters as the last transaction left them.
    writer: Mutex<Counters>,
    /// Modseq of the last transaction, and the ticket with which to wait for its durability.
    last: Mutex<(Modseq, Ticket)>,
    /// Notified after every transaction.
    changed: Event,
    /// The subscribers to changes of any database.
    followers: Arc<ChangeSubscribers>,
    /// Time of creation of the last note that this run has created, in microseconds.
    last_created: AtomicI64,
    dropped: AtomicBool,
    pub(crate) folder_cache: FolderCache,
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
    pub(crate) fn new(services: &DatabaseServices, record: DatabaseRecord, counters: Counters, acl: Acl) -> Self {
        Self {
            store: Arc::clone(&services.store),
            clock: Arc::clone(&services.clock),
            random: Arc::clone(&services.random),
            settings: services.settings,
            instance: AtomicU64::new(services.run.of_database(record.number).0),
            instance_is_stored: AtomicBool::new(false),
            instances: Mutex::new(None),
            number: record.number,
            record: RwLock::new(Arc::new(record)),
            acl: RwLock::new(Arc::new(acl)),
            acl_version: AtomicU64::new(0),
            keywords: RwLock::default(),
            designs: Mutex::default(),
            views: ViewCache::default(),
            recent: Mutex::new(RecentChanges::since(counters.modseq)),
            log_tail: Mutex::new(ChangeLogTail::starting_after(counters.modseq)),
            writer: Mutex::new(counters),
            last: Mutex::new((counters.modseq, Ticket::NONE)),
            changed: Event::new(),
            followers: Arc::clone(&services.followers),
            last_created: AtomicI64::new(i64::MIN),
            dropped: AtomicBool::new(false),
            contents: AtomicU64::new(counters.modseq.0),
            losses: LostRecords::default(),
            folder_cache: FolderCache::new(Arc::clone(&services.folder_cache_budget)),
        }
    }

    /// Returns the number of the database within the store.
    #[must_use]
    pub fn number(&self) -> DbNumber {
        self.number
    }

    /// Returns the record in the catalog.
    #[must_use]
    pub fn record(&self) -> Arc<DatabaseRecord> {
        Arc::clone(&self.record.read())
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> String {
        self.record().path.clone()
    }

    /// Returns the existing keywords.
    #[must_use]
    pub fn keywords(&self) -> Arc<Keywords> {
        Arc::clone(&self.keywords.read())
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
        let acl = self.acl.read();
        (self.acl_version(), Arc::clone(&acl))
    }

    pub(crate) fn acl_version(&self) -> u64 {
        self.acl_version.load(Ordering::SeqCst)
    }

    /// Returns the time of creation of a new note: now, or the microsecond after that of the last one. So the notes of
    /// one transaction are in the order in which they were created, in all replicas. The caller holds the lock of the
    /// writer.
    pub(crate) fn creation_time(&self, now: Timestamp) -> Timestamp {
        let last = self.last_created.load(Ordering::SeqCst);
        let is_near = (0..CREATED_AHEAD_MICROSECONDS_MAX).contains(&last.saturating_sub(now.0));
        let time = if is_near { last + 1 } else { now.0 };
        self.last_created.store(time, Ordering::SeqCst);
        Timestamp(time)
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
        let mut acl = self.acl.write();
        *acl = Arc::new(new);
        self.acl_version.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn set_keywords(&self, new: Keywords) {
        *self.keywords.write() = Arc::new(new);
    }

    pub(crate) fn set_record(&self, new: DatabaseRecord) {
        *self.record.write() = Arc::new(new);
    }

    /// Takes the writer's lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counters> {
        self.writer.lock()
    }

    /// Returns `true` if the writer's lock becomes free within a time.
    pub(crate) fn has_no_writer_within(&self, time_max: Duration) -> bool {
        self.writer.try_lock_for(time_max).is_some()
    }

    /// Returns the instance of this run.
    pub(crate) fn instance(&self) -> InstanceId {
        InstanceId(self.instance.load(Ordering::SeqCst))
    }

    /// Begins another instance, because a repair has made a new list. The caller holds the lock, and has stored it.
    pub(crate) fn set_instance(&self, instance: InstanceId) {
        self.instance.store(instance.0, Ordering::SeqCst);
        self.set_instance_stored(false);
        self.set_instance_stored(true);
    }

    /// Returns the instances of this replica.
    fn instances(&self) -> Arc<Instances> {
        if let Some(known) = self.instances.lock().clone() {
            return known;
        }
        let Ok(loaded) = records::load_instances(self.store.as_ref(), self.number) else { return Arc::default() };
        let loaded = Arc::new(loaded);
        let mut known = self.instances.lock();
        // The list changes with the first change of this run, and with a repair, which clears `known` afterwards.
        if loaded.last() == Some(self.instance()) {
            *known = Some(Arc::clone(&loaded));
        }
        loaded
    }

    /// Returns a modseq as IMAP clients see it, so that it is recognized if it is not one of this replica.
    #[must_use]
    pub fn modseq_to_client(&self, modseq: Modseq) -> u64 {
        self.instances().modseq_to_client(modseq)
    }

    /// Returns the last change that is known to a client that knows everything up to a modseq, or `None` if the modseq
    /// is not one of this replica.
    #[must_use]
    pub fn modseq_from_client(&self, modseq: u64) -> Option<Modseq> {
        self.instances().modseq_from_client(modseq, self.modseq())
    }

    /// Returns `true` if the instance of this run is in the list of instances.
    pub(crate) fn is_instance_stored(&self) -> bool {
        self.instance_is_stored.load(Ordering::SeqCst)
    }

    /// Records that the list of instances has that of this run. The caller holds the lock.
    pub(crate) fn set_instance_stored(&self, is_stored: bool) {
        if is_stored != self.instance_is_stored.swap(is_stored, Ordering::SeqCst) {
            *self.instances.lock() = None;
        }
    }

    /// Returns the time before which deletions are forgotten, if they were purged.
    #[must_use]
    pub fn purged_until(&self) -> Timestamp {
        self.clock.now().before(self.record().purge_interval())
    }

    /// Marks the database as deleted, so that all further work on it fails. The caller holds the lock.
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::SeqCst);
    }

    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        if self.dropped.load(Ordering::SeqCst) {
            return Err(Error::not_found(format!("database {}", self.path())));
        }
        Ok(())
    }

    pub(crate) fn last(&self) -> (Modseq, Ticket) {
        *self.last.lock()
    }

    /// Publishes the result of the transaction that held the lock, and notifies everything that waits for changes.
    pub(crate) fn publish(&self, modseq: Modseq, ticket: Ticket) {
        let mut last = self.last.lock();
        assert!(modseq >= last.0, "modseqs are published in ascending order");
        assert!(ticket >= last.1, "tickets are published in the order of the commits");
        *last = (modseq, ticket);
        drop(last);
        self.notify_changed();
    }

    /// Notifies everything that waits for changes.
    pub(crate) fn notify_changed(&self) {
        self.changed.notify(usize::MAX);
        self.followers.notify(self.number);
    }

    /// Records the changes of a transaction in memory, before it is published.
    pub(crate) fn add_recent_changes(&self, changes: Vec<RecentChange>) {
        self.recent.lock().add(changes);
    }

    /// Records in memory the entries that a transaction has written to the change log. Must be called after its commit
    /// and before it is published.
    pub(crate) fn add_log_entries(&self, modseq: Modseq, entries: Vec<ChangeEntry>) {
        self.log_tail.lock().add(modseq, entries);
    }

    /// Drops the entries of the change log up to a modseq that are kept in memory. Must be called before the commit
    /// that removes such records from the log.
    pub(crate) fn drop_log_entries(&self, until: Modseq) {
        self.log_tail.lock().drop_until(until);
    }

    /// Returns the entries of the change log after a position that a snapshot with this modseq shows, or `None` if they
    /// may not all be in memory.
    pub(crate) fn log_entries(&self, from: ChangeCursor, modseq: Modseq) -> Option<Vec<ChangeEntry>> {
        self.log_tail.lock().after(from, modseq)
    }

    /// Drops the old versions of notes for all changes that every open view has already followed.
    pub(crate) fn drop_old_versions(&self) {
        let followed = self.views.followed_modseq();
        self.recent.lock().drop_versions(followed);
    }

    /// Drops the changes kept in memory, because the change log was rewritten up to `modseq`.
    pub(crate) fn reset_recent_changes(&self, modseq: Modseq) {
        *self.recent.lock() = RecentChanges::since(modseq);
        *self.log_tail.lock() = ChangeLogTail::starting_after(modseq);
    }

    /// Returns about `limit` notes that were changed after a modseq, in the order of the changes. Each transaction is
    /// returned completely or not at all. Returns `None` if changes that old are no longer in memory.
    pub(crate) fn recent_changes(&self, since: Modseq, limit: usize) -> Option<Vec<RecentChange>> {
        self.recent.lock().after(since, limit)
    }

    /// Returns the notes that were changed after a modseq, or `None` if changes that old are no longer in memory.
    pub(crate) fn changed_notes(&self, since: Modseq) -> Option<HashSet<NoteId>> {
        self.recent.lock().notes_after(since)
    }

    /// Returns the folder designs as of `design_modseq`, from memory or with `load`.
    pub(crate) fn designs(
        &self,
        design_modseq: Modseq,
        load: impl FnOnce() -> Result<Vec<FolderDesign>>,
    ) -> Result<Arc<Vec<FolderDesign>>> {
        let known = self.designs.lock().clone();
        if let Some((modseq, designs)) = known
            && modseq == design_modseq
        {
            return Ok(designs);
        }
        let loaded = Arc::new(load()?);
        *self.designs.lock() = Some((design_modseq, Arc::clone(&loaded)));
        Ok(loaded)
    }
}
