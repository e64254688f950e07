//! The log of replications: a document in `log.nsf` for each run of a database.
//!
//! Most runs change nothing here and end as the one before: nothing was new, or the other server is still gone. Such
//! runs of a database with a server are counted, and written as one document when an hour has passed or before the next
//! run that differs. A server that stops forgets the last of them. The log never stops a replication: what it cannot
//! write is a message of the program.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use admin::replication_log::{COMPLETE, LOG_PATH, LOG_TEMPLATE, LogEntry, open_log};
use base::sync::Mutex;
use base::{Name, NoteId, Timestamp};
use design::template::apply_to_new;
use design::template_catalog::supplied_templates;
use instance::Instance;
use notes::{Access, Acl, Database, DatabaseKind, Identity, NewDatabase, NewNote, level};

/// Time for which runs that end like the one before are counted before they are written.
const COUNTED_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Maximum number of databases and servers of which runs are counted. Further runs are written at once.
const COUNTED_MAX: usize = 10_000;

/// Maximum number of documents in the log. Beyond it the first ones are removed before their time.
const DOCUMENTS_MAX: usize = 100_000;

/// Number of documents that one transaction removes.
const REMOVED_PER_TRANSACTION: usize = 500;

/// The log of the replications of a server.
pub(super) struct ReplicationLog {
    instance: Arc<Instance>,
    /// The last runs, by database and other server.
    last: Mutex<HashMap<(String, Name), LastRuns>>,
}

/// The last runs of a database with a server.
struct LastRuns {
    /// The result of the last one.
    result: String,
    /// Those that are counted and not written yet.
    counted: Option<LogEntry>,
}

impl ReplicationLog {
    pub(super) fn new(instance: &Arc<Instance>) -> Self {
        Self { instance: Arc::clone(instance), last: Mutex::default() }
    }

    /// Records a run that has ended.
    pub(super) fn record(&self, run: LogEntry) {
        let due = self.due(run);
        if due.is_empty() {
            return;
        }
        if let Err(error) = self.write(&due) {
            tracing::error!(target: "replica", error, "a replication cannot be written into {LOG_PATH}");
        }
    }

    /// Counts a run that changed nothing here and ended like the one before. Returns the entries that are to be written
    /// now.
    fn due(&self, run: LogEntry) -> Vec<LogEntry> {
        let key = (run.database.clone(), run.other.clone());
        let mut last = self.last.lock();
        if last.len() >= COUNTED_MAX && !last.contains_key(&key) {
            return vec![run];
        }
        let runs = last.entry(key).or_insert_with(|| LastRuns { result: COMPLETE.to_owned(), counted: None });
        if run.changes_something() || run.result != runs.result {
            runs.result.clone_from(&run.result);
            return runs.counted.take().into_iter().chain([run]).collect();
        }
        let counted = match runs.counted.take() {
            Some(earlier) => earlier.followed_by(&run),
            None => run,
        };
        if counted.ended.since(counted.began) >= COUNTED_TIME_MAX {
            return vec![counted];
        }
        runs.counted = Some(counted);
        Vec::new()
    }

    fn write(&self, entries: &[LogEntry]) -> Result<(), String> {
        let database = self.open().map_err(|error| error.to_string())?;
        let written = || -> notes::Result<()> {
            let access: Access<level::Depositor> = database.authorize(&self.itself())?;
            let accesses = [&access];
            let mut transaction = self.instance.databases.transaction(&accesses)?;
            for entry in entries {
                transaction.writer(0).note_create(NewNote::document(entry.to_items()))?;
            }
            // Nobody waits for the log, so it need not be durable at once.
            transaction.commit().map(drop)
        };
        written().map_err(|error| error.to_string())
    }

    fn itself(&self) -> Arc<Identity> {
        Arc::new(Identity::local_server(self.instance.directory.options().server.clone()))
    }

    /// Opens the log, and creates it if there is none.
    fn open(&self) -> Result<Arc<Database>, admin::AdminError> {
        if let Some(log) = open_log(&self.instance)? {
            return Ok(log);
        }
        let server = &self.instance.directory.options().server;
        let title = format!("Log of {}", server.abbreviated());
        let database = match self.instance.databases.database_create(&NewDatabase::new(
            LOG_PATH,
            &title,
            DatabaseKind::Log,
            Acl::of_server(server),
        )) {
            // Another thread has created it meanwhile.
            Err(notes::Error::Exists { .. }) => return Ok(self.instance.databases.database_open(LOG_PATH)?),
            created => created?,
        };
        if let Some(template) = supplied_templates().find(|template| template.name == LOG_TEMPLATE) {
            apply_to_new(&self.instance, &database, &template).map_err(admin::AdminError::refused)?;
        }
        Ok(database)
    }
}

/// Removes the documents of the log that are older than a number of days, and the first ones beyond the maximum number.
/// Returns how many there were.
pub(crate) fn remove_old(instance: &Instance, days: u16) -> Result<usize, admin::AdminError> {
    remove_beyond(instance, days, DOCUMENTS_MAX)
}

fn remove_beyond(instance: &Instance, days: u16, documents_max: usize) -> Result<usize, admin::AdminError> {
    let Some(database) = open_log(instance)? else { return Ok(0) };
    let age = Duration::from_secs(u64::from(days) * 86_400);
    let limit = Timestamp(instance.clock.now().0.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX)));
    let itself = Arc::new(Identity::local_server(instance.directory.options().server.clone()));
    let reader: Access<level::Reader> = database.authorize(&itself)?;
    let depositor = reader.downgrade();
    let accesses = [&depositor];
    let mut old = Vec::new();
    let mut kept = Vec::new();
    // All of them are looked at: while the clock was ahead, documents were created whose time has yet to come.
    reader.read()?.for_each_note(NoteId(0), &mut |header| {
        if header.class.is_document() && !header.is_stub() {
            if header.created < limit { old.push(header.note) } else { kept.push(header.note) }
        }
        Ok(true)
    })?;
    let beyond = kept.len().saturating_sub(documents_max);
    old.extend(kept.drain(..beyond));
    for notes in old.chunks(REMOVED_PER_TRANSACTION) {
        let mut transaction = instance.databases.transaction(&accesses)?;
        for note in notes {
            transaction.writer(0).note_delete_permanently(*note)?;
        }
        transaction.commit()?;
    }
    Ok(old.len())
}

#[cfg(test)]
mod tests {
    use replica::PullStatistics;
    use sample::Sample;

    use super::*;

    fn run(minute: i64, statistics: PullStatistics) -> LogEntry {
        let at = |minute: i64| Timestamp(minute * 60_000_000);
        LogEntry {
            database: "talk.nsf".to_owned(),
            other: Name::new("CN=hub/O=Acme"),
            began: at(minute),
            ended: at(minute + 1),
            result: "complete".to_owned(),
            counts: super::super::database_pull::counts_of(&statistics, 0),
            ..LogEntry::default()
        }
    }

    fn count(entries: &[LogEntry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.runs).collect()
    }

    fn idle() -> PullStatistics {
        PullStatistics::default()
    }

    #[test]
    fn runs_that_bring_nothing_are_united_for_an_hour() {
        let instance = Arc::new(Sample::new().instance);
        let log = ReplicationLog::new(&instance);
        for minute in 0..10 {
            // The own changes come back, and a note cannot be received: neither changes anything here.
            let statistics = PullStatistics { listed: 3, skipped: 1, ..idle() };
            assert_eq!(count(&log.due(run(minute, statistics))), [] as [u64; 0]);
        }
        assert_eq!(count(&log.due(run(20, PullStatistics { received: 1, ..idle() }))), [10, 1]);
        assert_eq!(count(&log.due(run(21, idle()))), [] as [u64; 0]);
        assert_eq!(count(&log.due(run(80, idle()))), [2]);
    }

    #[test]
    fn a_failure_is_written_at_once_and_its_repetitions_are_counted() {
        let instance = Arc::new(Sample::new().instance);
        let log = ReplicationLog::new(&instance);
        let failed = |minute| LogEntry { result: "the server is gone".to_owned(), ..run(minute, idle()) };
        assert_eq!(count(&log.due(run(0, idle()))), [] as [u64; 0]);
        assert_eq!(count(&log.due(failed(1))), [1, 1]);
        for minute in 2..7 {
            assert_eq!(count(&log.due(failed(minute))), [] as [u64; 0]);
        }
        let written = log.due(run(8, idle()));
        assert_eq!(count(&written), [5, 1]);
        assert_eq!(written[1].result, COMPLETE, "the log shows that the server is back");
    }

    #[test]
    fn runs_are_written_listed_and_removed_when_they_are_old() {
        let instance = Arc::new(Sample::new().instance);
        let log = ReplicationLog::new(&instance);
        for minute in 0..5 {
            log.record(run(minute, PullStatistics { received: minute as u64 + 1, ..idle() }));
        }
        let database = instance.databases.database_open(LOG_PATH).expect("it was created");
        assert_eq!(database.record().kind, DatabaseKind::Log);
        let entries = || admin::replication_log::last(&instance, 2, &|_| true).expect("they are read");
        let received = |entry: &LogEntry| entry.counts.iter().find(|(name, _)| *name == "Received").map(|(_, n)| *n);
        assert_eq!(entries().iter().map(received).collect::<Vec<_>>(), [Some(5), Some(4)]);
        assert_eq!(remove_old(&instance, 7).expect("sound"), 0);
        assert_eq!(remove_beyond(&instance, 7, 3).expect("sound"), 2, "the first ones are removed");
        assert_eq!(entries().iter().map(received).collect::<Vec<_>>(), [Some(5), Some(4)]);
        assert_eq!(remove_old(&instance, 0).expect("sound"), 3);
        assert!(entries().is_empty());
    }

    #[test]
    fn long_texts_of_other_servers_are_shortened() {
        let instance = Arc::new(Sample::new().instance);
        let log = ReplicationLog::new(&instance);
        log.record(LogEntry { result: "ü".repeat(100_000), ..run(0, idle()) });
        let entries = admin::replication_log::last(&instance, 1, &|_| true).expect("they are read");
        assert!(entries[0].result.len() < 2_000, "{}", entries[0].result.len());
    }
}
