//! The server's full-text index and the task that keeps it up to date.
//!
//! [`FullTextService`] opens the index on first use, so a server whose databases are not indexed has no cost.
//! [`FullTextIndexer`] determines which databases are due and updates them one at a time; [`run`] is the task that
//! calls it. A database whose index does not exist yet is always due. Otherwise, a database with the option *immediate*
//! is due when it has changed, with *hourly* when an hour has passed, and with *daily* in its hour. Index entries of
//! databases that were deleted or are no longer to be indexed are dropped.
//!
//! The task ends when the server drains; an interrupted update is either committed or applied again later.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::sync::Mutex;
use base::{Clock, DbNumber, Timestamp};
use config::keys::FullTextKeys;
use notes::{Access, ChangeSubscriber, DatabaseRecord, Databases, Identity, level};
use search::extract::IsolatedReader;
use search::{FullTextIndex, UpdateResult};
use wire::Shutdown;

use crate::memory_plan::MemoryPlan;
use crate::pdf::PdfReader;

/// Approximate number of changes that one call of [`FullTextService::update`] applies.
pub const CHANGES_STEP: usize = 1_000;

/// Interval between two checks for databases that are due by time.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// One hour.
const HOUR: Duration = Duration::from_secs(3_600);

/// The full-text index, opened on first use.
pub struct FullTextService {
    databases: Arc<Databases>,
    folder: PathBuf,
    threads: usize,
    thread_bytes: usize,
    waiting_bytes: usize,
    serves_imap: bool,
    opened: Mutex<Option<Arc<FullTextIndex>>>,
    /// The reader of PDFs.
    pub pdf: Arc<PdfReader>,
    reads_pdf: bool,
    /// Counters since the start.
    pub counters: IndexingCounters,
}

/// Counters of indexing since the start.
#[derive(Debug, Default)]
pub struct IndexingCounters {
    /// Indexed documents.
    pub indexed: AtomicU64,
    /// Documents of which only a part could be read.
    pub damaged: AtomicU64,
    /// Completed updates of databases.
    pub updates: AtomicU64,
    /// Failed updates.
    pub failures: AtomicU64,
    /// Answered queries.
    pub queries: AtomicU64,
}

impl FullTextService {
    /// Creates the value without accessing the file system.
    #[must_use]
    pub fn new(
        databases: Arc<Databases>,
        folder: PathBuf,
        pdf: PdfReader,
        keys: &FullTextKeys,
        plan: &MemoryPlan,
    ) -> Self {
        Self {
            databases,
            folder,
            threads: usize::try_from(keys.threads).unwrap_or(1),
            thread_bytes: plan.indexing_thread.as_usize(),
            waiting_bytes: plan.waiting_text().as_usize(),
            serves_imap: keys.imap_search,
            opened: Mutex::default(),
            pdf: Arc::new(pdf),
            reads_pdf: keys.pdf,
            counters: IndexingCounters::default(),
        }
    }

    /// Returns the index. The first call opens it, or creates it if it does not exist.
    pub fn open(&self) -> search::Result<Arc<FullTextIndex>> {
        let mut opened = self.opened.lock();
        if let Some(search) = opened.as_ref() {
            return Ok(Arc::clone(search));
        }
        let options = search::FullTextOptions {
            contents: vec![Box::new(mail::full_text::MessageTextReader { serves_imap: self.serves_imap })],
            isolated_reader: self.reads_pdf.then(|| Arc::clone(&self.pdf) as Arc<dyn IsolatedReader>),
            threads: self.threads,
            thread_bytes: self.thread_bytes,
            waiting_bytes: self.waiting_bytes,
        };
        let search = Arc::new(FullTextIndex::open(Arc::clone(&self.databases), &self.folder, options)?);
        if search.was_recreated() {
            tracing::warn!(target: "full_text", "the index is unusable and will be rebuilt");
        }
        *opened = Some(Arc::clone(&search));
        Ok(search)
    }

    /// Returns the index if it exists on disk, or `None` otherwise.
    pub fn open_existing(&self) -> search::Result<Option<Arc<FullTextIndex>>> {
        if self.folder.exists() { self.open().map(Some) } else { Ok(None) }
    }

    /// Returns the size of the index, or `None` if it is not open.
    #[must_use]
    pub fn status(&self) -> Option<search::IndexStatus> {
        let opened = self.opened.lock().clone();
        opened?.status().ok()
    }

    /// Applies about [`CHANGES_STEP`] changes of a database to the index, or fewer if `stop` returns `true`.
    pub fn update(&self, search: &FullTextIndex, path: &str, stop: &dyn Fn() -> bool) -> search::Result<UpdateResult> {
        let database = self.databases.database_open(path)?;
        let access: Access<level::Reader> = database.authorize(&Arc::new(Identity::local_server("")))?;
        let done = search.update(&access, CHANGES_STEP, stop);
        self.pdf.end_idle_children();
        match &done {
            Ok(progress) => {
                self.counters.indexed.fetch_add(progress.indexed as u64, Ordering::Relaxed);
                self.counters.damaged.fetch_add(progress.damaged as u64, Ordering::Relaxed);
            }
            Err(_) => {
                self.counters.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
        done
    }
}

/// Determines which databases are due, and updates them.
pub struct FullTextIndexer {
    full_text: Arc<FullTextService>,
    databases: Arc<Databases>,
    clock: Arc<dyn Clock>,
    follower: Arc<ChangeSubscriber>,
    /// The time at which each database was last updated. Databases not updated since the start are missing.
    done: HashMap<DbNumber, Timestamp>,
    /// Databases that have changed since their last update.
    changed: HashSet<DbNumber>,
    /// Databases that were updated but not committed yet. A failure reverts all of them.
    uncommitted: HashSet<DbNumber>,
    /// Databases whose update was reverted.
    again: HashSet<DbNumber>,
}

impl FullTextIndexer {
    /// Creates an indexer that follows the changes of all databases.
    #[must_use]
    pub fn new(full_text: Arc<FullTextService>, databases: Arc<Databases>, clock: Arc<dyn Clock>) -> Self {
        let follower = databases.subscribe();
        let empty = HashSet::new;
        Self {
            full_text,
            databases,
            clock,
            follower,
            done: HashMap::new(),
            changed: empty(),
            uncommitted: empty(),
            again: empty(),
        }
    }

    /// Returns the databases that are due, and drops the index entries of databases that are no longer indexed.
    pub fn due_databases(&mut self) -> Result<Vec<DatabaseRecord>, search::Error> {
        self.changed.extend(self.follower.take());
        let records = self.databases.database_list()?;
        let wanted: Vec<DatabaseRecord> =
            records.into_iter().filter(|record| record.options.full_text != notes::FullTextSchedule::Off).collect();
        let numbers: HashSet<DbNumber> = wanted.iter().map(|record| record.number).collect();
        self.changed.retain(|number| numbers.contains(number));
        self.done.retain(|number, _| numbers.contains(number));
        let search = if wanted.is_empty() { self.full_text.open_existing()? } else { Some(self.full_text.open()?) };
        let Some(search) = search else { return Ok(Vec::new()) };
        for gone in search.databases().into_iter().filter(|number| !numbers.contains(number)) {
            search.remove_database(gone)?;
        }
        let now = self.clock.now();
        Ok(wanted.into_iter().filter(|record| self.is_due(record, &search, now)).collect())
    }

    fn is_due(&self, record: &DatabaseRecord, search: &FullTextIndex, now: Timestamp) -> bool {
        let Some(done) = self.done.get(&record.number) else {
            let is_missing = search.applied(record.number).is_none() || self.again.contains(&record.number);
            return is_missing
                || !matches!(record.options.full_text, notes::FullTextSchedule::Daily(hour) if hour != hour_of(now));
        };
        match record.options.full_text {
            notes::FullTextSchedule::Off => false,
            notes::FullTextSchedule::Immediate => self.changed.contains(&record.number),
            notes::FullTextSchedule::Hourly => now.since(*done) >= HOUR,
            notes::FullTextSchedule::Daily(hour) => hour == hour_of(now) && now.since(*done) >= HOUR,
        }
    }

    /// Updates one database without committing, and returns the number of indexed documents.
    pub fn update(&mut self, record: &DatabaseRecord, stop: &dyn Fn() -> bool) -> search::Result<usize> {
        self.uncommitted.insert(record.number);
        let outcome = self.update_completely(record, stop);
        if outcome.is_err() {
            self.revert_uncommitted();
        }
        outcome
    }

    fn update_completely(&mut self, record: &DatabaseRecord, stop: &dyn Fn() -> bool) -> search::Result<usize> {
        let search = self.full_text.open()?;
        // Cleared before the update, so that changes made during the update mark the database again.
        self.changed.remove(&record.number);
        let began = self.clock.now();
        let mut indexed = 0;
        loop {
            let progress = match self.full_text.update(&search, &record.path, stop) {
                // The database was deleted or renamed in the meantime.
                Err(search::Error::Notes(notes::Error::NotFound { .. })) => return Ok(indexed),
                other => other?,
            };
            indexed += progress.indexed;
            if progress.complete {
                self.done.insert(record.number, began);
                self.full_text.counters.updates.fetch_add(1, Ordering::Relaxed);
                return Ok(indexed);
            }
            if stop() {
                self.changed.insert(record.number);
                return Ok(indexed);
            }
        }
    }

    /// Makes the applied changes durable and visible.
    pub fn commit(&mut self) -> search::Result<()> {
        let outcome = self.full_text.open().and_then(|search| search.commit());
        match outcome {
            Ok(()) => {
                self.again.retain(|number| !self.uncommitted.contains(number));
                self.uncommitted.clear();
            }
            Err(_) => self.revert_uncommitted(),
        }
        outcome
    }

    /// Marks all databases updated since the last commit as due again, regardless of their hour.
    fn revert_uncommitted(&mut self) {
        for number in self.uncommitted.drain() {
            self.changed.insert(number);
            self.done.remove(&number);
            self.again.insert(number);
        }
    }
}

fn hour_of(now: Timestamp) -> u8 {
    u8::try_from(now.seconds().rem_euclid(86_400) / 3_600).unwrap_or(0)
}

/// Keeps the index up to date until the server drains. Waits for `delay` after a change before processing it, and for
/// `idle` after each database.
pub async fn run(indexer: FullTextIndexer, (delay, idle): (Duration, Duration), shutdown: Shutdown) {
    let follower = Arc::clone(&indexer.follower);
    let indexer = Arc::new(Mutex::new(indexer));
    loop {
        let changed = follower.listen();
        update_due_databases(&indexer, idle, &shutdown).await;
        tokio::select! {
            () = shutdown.draining() => return,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = changed => {}
        }
        tokio::select! {
            () = shutdown.draining() => return,
            () = tokio::time::sleep(delay) => {}
        }
    }
}

/// Updates all databases that are due.
async fn update_due_databases(indexer: &Arc<Mutex<FullTextIndexer>>, idle: Duration, shutdown: &Shutdown) {
    let Some(due) = run_blocking(indexer, |indexer| indexer.due_databases()).await else { return };
    let mut updated = Vec::new();
    for record in due {
        if shutdown.is_draining() {
            break;
        }
        let stop = shutdown.clone();
        let path = record.path.clone();
        let indexed = run_blocking(indexer, move |indexer| indexer.update(&record, &|| stop.is_draining())).await;
        updated.push((path, indexed.unwrap_or(0)));
        if !idle.is_zero() {
            // The pause is between databases, so the result of each one is committed before it.
            commit_and_log(indexer, std::mem::take(&mut updated)).await;
            tokio::select! {
                () = shutdown.draining() => {}
                () = tokio::time::sleep(idle) => {}
            }
        }
    }
    commit_and_log(indexer, updated).await;
}

/// Commits the applied changes and logs the updated databases.
async fn commit_and_log(indexer: &Arc<Mutex<FullTextIndexer>>, updated: Vec<(String, usize)>) {
    if updated.is_empty() || run_blocking(indexer, |indexer| indexer.commit()).await.is_none() {
        return;
    }
    for (path, indexed) in updated.into_iter().filter(|(_, indexed)| *indexed > 0) {
        tracing::debug!(target: "full_text", %path, indexed, "updated the index");
    }
}

/// Runs a step on a thread that may block. Returns `None` and logs the error if it fails; the next pass repeats the
/// work.
async fn run_blocking<T: Send + 'static>(
    indexer: &Arc<Mutex<FullTextIndexer>>,
    step: impl FnOnce(&mut FullTextIndexer) -> search::Result<T> + Send + 'static,
) -> Option<T> {
    let indexer = Arc::clone(indexer);
    let done = tokio::task::spawn_blocking(move || step(&mut indexer.lock()));
    match done.await {
        Ok(Ok(done)) => Some(done),
        Ok(Err(error)) => {
            tracing::error!(target: "full_text", %error, "cannot update the index; will retry");
            None
        }
        Err(error) => {
            tracing::error!(target: "full_text", %error, "the index update was aborted; will retry");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::sim::SimClock;
    use notes::{DatabaseOptions, Item, NewNote};

    use crate::sample::Sample;

    fn set_schedule(sample: &Sample, full_text: notes::FullTextSchedule) -> Arc<notes::Database> {
        set_schedule_of(sample, "mail/ann.nsf", full_text)
    }

    fn set_schedule_of(sample: &Sample, path: &str, full_text: notes::FullTextSchedule) -> Arc<notes::Database> {
        let database = sample.instance.databases.database_open(path).expect("it exists");
        let access =
            database.authorize::<level::Manager>(&Arc::new(Identity::local_server(""))).expect("the server has access");
        let record = database.record();
        let options = DatabaseOptions { full_text, ..record.options };
        sample.instance.databases.database_options_set(&access, &record.title, options).expect("it is set");
        database
    }

    /// Returns a data folder with mail files that have no index.
    fn sample_without_indexes() -> Sample {
        let sample = Sample::new();
        for path in ["mail/ann.nsf", "mail/bob.nsf", "mail/eve.nsf"] {
            set_schedule_of(&sample, path, notes::FullTextSchedule::Off);
        }
        sample
    }

    fn create_document(sample: &Sample, database: &Arc<notes::Database>) {
        let access = database
            .authorize::<level::Depositor>(&Arc::new(Identity::local_server("")))
            .expect("the server has access");
        let accesses = [&access];
        let mut transaction = sample.instance.databases.transaction(&accesses).expect("it begins");
        transaction.writer(0).note_create(NewNote::document(vec![Item::text("Subject", "word")])).expect("it is made");
        transaction.commit().expect("it is committed");
    }

    fn index_due_databases(indexer: &mut FullTextIndexer) -> Vec<String> {
        let due = indexer.due_databases().expect("it is known");
        for record in &due {
            indexer.update(record, &|| false).expect("it is indexed");
        }
        indexer.commit().expect("it is committed");
        due.into_iter().map(|record| record.path).collect()
    }

    #[test]
    fn failed_commit_makes_the_database_due_again() {
        let sample = sample_without_indexes();
        let clock = Arc::new(SimClock::new());
        let full_text = Arc::clone(&sample.instance.full_text);
        let mut indexer = FullTextIndexer::new(full_text, Arc::clone(&sample.instance.databases), clock.clone());
        let database = set_schedule(&sample, notes::FullTextSchedule::Daily(0));
        assert_eq!(index_due_databases(&mut indexer), ["mail/ann.nsf"]);
        clock.advance(24 * HOUR);
        create_document(&sample, &database);
        let due = indexer.due_databases().expect("it is known");
        assert_eq!(indexer.update(&due[0], &|| false).expect("it is indexed"), 1);
        clock.advance(HOUR);
        // The folder is moved instead of removed, because threads of the index may still write files in it.
        let elsewhere = sample.instance.data.full_text_folder().with_extension("away");
        std::fs::rename(sample.instance.data.full_text_folder(), elsewhere).expect("the folder exists");
        indexer.commit().expect_err("the folder is gone");
        assert_eq!(indexer.due_databases().expect("it is known").len(), 1, "even after its hour");
    }

    #[test]
    fn full_text_option_determines_when_a_database_is_due() {
        let sample = sample_without_indexes();
        let clock = Arc::new(SimClock::new());
        let full_text = Arc::clone(&sample.instance.full_text);
        let mut indexer = FullTextIndexer::new(full_text, Arc::clone(&sample.instance.databases), clock.clone());
        assert!(indexer.due_databases().expect("it is known").is_empty());
        assert!(!sample.instance.data.full_text_folder().exists(), "no database has an index");
        let none: [&str; 0] = [];
        let database = set_schedule(&sample, notes::FullTextSchedule::Immediate);
        assert_eq!(index_due_databases(&mut indexer), ["mail/ann.nsf"]);
        assert_eq!(index_due_databases(&mut indexer), none);
        create_document(&sample, &database);
        assert_eq!(index_due_databases(&mut indexer), ["mail/ann.nsf"]);
        set_schedule(&sample, notes::FullTextSchedule::Hourly);
        clock.advance(Duration::from_secs(1_800));
        assert_eq!(index_due_databases(&mut indexer), none);
        clock.advance(Duration::from_secs(1_800));
        assert_eq!(index_due_databases(&mut indexer), ["mail/ann.nsf"]);
        set_schedule(&sample, notes::FullTextSchedule::Daily(3));
        clock.advance(HOUR);
        assert_eq!(index_due_databases(&mut indexer), none, "it is two o'clock");
        clock.advance(HOUR);
        assert_eq!(index_due_databases(&mut indexer), ["mail/ann.nsf"]);
        let search = sample.instance.full_text.open().expect("it is open");
        assert_eq!(search.databases(), [database.number()]);
        set_schedule(&sample, notes::FullTextSchedule::Off);
        assert_eq!(index_due_databases(&mut indexer), none);
        assert!(search.databases().is_empty());
    }
}
