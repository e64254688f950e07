//! The log of replications: a document in `log.nsf` for each run of a database.
//!
//! Most runs of a connection bring nothing. Such runs of a database with a server are counted, and written as one
//! document when an hour has passed or before the next run that brings something. A server that stops forgets the last
//! of them. The log never stops a replication: what it cannot write is a message of the program.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use admin::replication_log::{LOG_PATH, LOG_TEMPLATE, LogEntry};
use base::sync::Mutex;
use base::{Name, Timestamp};
use design::template::apply_to_new;
use design::template_catalog::supplied_templates;
use instance::Instance;
use notes::{Access, Acl, AclEntry, AclKind, AclLevel, Database, DatabaseKind, Identity, NewDatabase, NewNote, level};

/// Time for which runs that brought nothing are counted before they are written.
const IDLE_RUNS_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Maximum number of databases and servers of which runs are counted. Further runs are written at once.
const IDLE_RUNS_MAX: usize = 10_000;

/// Number of documents that one transaction removes.
const REMOVED_PER_TRANSACTION: usize = 500;

/// The log of the replications of a server.
pub(super) struct ReplicationLog {
    instance: Arc<Instance>,
    /// The runs that brought nothing and are not written yet, by database and other server.
    idle: Mutex<HashMap<(String, Name), LogEntry>>,
}

impl ReplicationLog {
    pub(super) fn new(instance: &Arc<Instance>) -> Self {
        Self { instance: Arc::clone(instance), idle: Mutex::default() }
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

    /// Counts a run that brought nothing, and returns the entries that are to be written now.
    fn due(&self, run: LogEntry) -> Vec<LogEntry> {
        let key = (run.database.clone(), run.other.clone());
        let mut idle = self.idle.lock();
        if !run.is_idle() || (idle.len() >= IDLE_RUNS_MAX && !idle.contains_key(&key)) {
            return idle.remove(&key).into_iter().chain([run]).collect();
        }
        let counted = match idle.remove(&key) {
            Some(earlier) => earlier.followed_by(&run),
            None => run,
        };
        if counted.ended.since(counted.began) >= IDLE_RUNS_TIME_MAX {
            return vec![counted];
        }
        idle.insert(key, counted);
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
        match self.instance.databases.database_open(LOG_PATH) {
            Err(notes::Error::NotFound { .. }) => {}
            opened => return Ok(opened?),
        }
        let server = &self.instance.directory.options().server;
        let mut acl = Acl::open_to_all(AclLevel::NoAccess);
        let own = AclEntry { kind: AclKind::Server, ..AclEntry::new(server.canonical(), AclLevel::Manager) };
        acl.entries.push(own);
        let title = format!("Log of {}", server.abbreviated());
        let database = match self.instance.databases.database_create(&NewDatabase::new(
            LOG_PATH,
            &title,
            DatabaseKind::Log,
            acl,
        )) {
            Err(notes::Error::Exists { .. }) => return Ok(self.instance.databases.database_open(LOG_PATH)?),
            created => created?,
        };
        if let Some(template) = supplied_templates().find(|template| template.name == LOG_TEMPLATE) {
            apply_to_new(&self.instance, &database, &template).map_err(admin::AdminError::refused)?;
        }
        Ok(database)
    }
}

/// Removes the documents of the log that are older than a number of days. Returns how many there were.
pub(crate) fn remove_old(instance: &Instance, days: u16) -> notes::Result<usize> {
    let database = match instance.databases.database_open(LOG_PATH) {
        Err(notes::Error::NotFound { .. }) => return Ok(0),
        opened => opened?,
    };
    let age = Duration::from_secs(u64::from(days) * 86_400);
    let limit = Timestamp(instance.clock.now().0.saturating_sub(i64::try_from(age.as_micros()).unwrap_or(i64::MAX)));
    let itself = Arc::new(Identity::local_server(instance.directory.options().server.clone()));
    let reader: Access<level::Reader> = database.authorize(&itself)?;
    let depositor = reader.downgrade();
    let accesses = [&depositor];
    let mut removed = 0;
    loop {
        let mut old = Vec::new();
        reader.read()?.for_each_note(base::NoteId(0), &mut |header| {
            let is_document = header.class.is_document() && !header.is_stub();
            if is_document && header.created < limit {
                old.push(header.note);
            }
            // Documents are created in the order of their times, unless the clock was set back.
            Ok(old.len() < REMOVED_PER_TRANSACTION && (!is_document || header.created < limit))
        })?;
        if old.is_empty() {
            return Ok(removed);
        }
        removed += old.len();
        let mut transaction = instance.databases.transaction(&accesses)?;
        for note in old {
            transaction.writer(0).note_delete_permanently(note)?;
        }
        transaction.commit()?;
    }
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
            counts: super::super::counts_of(&statistics, 0),
            ..LogEntry::default()
        }
    }

    #[test]
    fn runs_that_bring_nothing_are_united_for_an_hour() {
        let instance = Arc::new(Sample::new().instance);
        let log = ReplicationLog::new(&instance);
        let idle = || PullStatistics::default();
        let count = |entries: Vec<LogEntry>| entries.iter().map(|entry| entry.runs).collect::<Vec<_>>();
        for minute in 0..10 {
            assert_eq!(count(log.due(run(minute, idle()))), [] as [u64; 0]);
        }
        assert_eq!(count(log.due(run(20, PullStatistics { received: 1, ..idle() }))), [10, 1]);
        assert_eq!(count(log.due(run(21, idle()))), [] as [u64; 0]);
        assert_eq!(count(log.due(run(80, idle()))), [2]);
        let failed = LogEntry { result: "the server is gone".to_owned(), ..run(90, idle()) };
        assert_eq!(count(log.due(failed)), [1]);
    }

    #[test]
    fn runs_are_written_listed_and_removed_when_they_are_old() {
        let instance = Arc::new(Sample::new().instance);
        let log = ReplicationLog::new(&instance);
        for minute in 0..3 {
            log.record(run(minute, PullStatistics { received: minute as u64 + 1, ..PullStatistics::default() }));
        }
        let database = instance.databases.database_open(LOG_PATH).expect("it was created");
        assert_eq!(database.record().kind, DatabaseKind::Log);
        let entries = || admin::replication_log::last(&instance, 2, &|_| true).expect("they are read");
        let received = |entry: &LogEntry| entry.counts.iter().find(|(name, _)| *name == "Received").map(|(_, n)| *n);
        assert_eq!(entries().iter().map(received).collect::<Vec<_>>(), [Some(3), Some(2)]);
        assert_eq!(remove_old(&instance, 7).expect("sound"), 0);
        assert_eq!(remove_old(&instance, 0).expect("sound"), 3);
        assert!(entries().is_empty());
    }
}
