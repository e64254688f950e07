//! Replication with other servers: the connection to the other server, the databases, and the pull of each.
//!
//! A pull is a [`replica::Pull`] whose questions go to the other server over the native protocol (`source`). It runs on
//! a thread that may block, one database after the other. The answer to the next question is fetched while the last one
//! is taken over. A pull that fails continues at its place the next time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use admin::answer::record;
use admin::replication_log::LogEntry;
use admin::request::ReplicateRequest;
use admin::servers::{self, server_name};
use admin::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit};
use base::memory::MemoryShares;
use base::sync::{Condvar, Mutex, MutexGuard};
use base::{Name, ReplicaId, Unid};
use directory::IssuedCertificate;
use instance::Instance;
use instance::certificate::CertificateFiles;
use notes::instance::ListProgress;
use notes::replica::ListedNote;
use notes::{Database, DatabaseKind, Identity, NotExchanged, ReplicationPriority, ReplicationSettings, level};
use replica::{HeldBackNotes, Preview, PreviewStatistics, Selection, Target, Transfer};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Notify;

mod contents;
mod database_pull;
mod due;
mod join;
mod local;
mod log;
mod mail;
mod offer;
mod push;
pub(crate) mod renewal;
mod rows;
mod schedule;
mod source;
mod upgrades;

use database_pull::{
    Initiator, PullOptions, PulledDatabase, TargetDatabase, clock_warning, counts_of, disabled_message,
    for_each_database, new_replica, pull_changes, settings_for,
};
pub use join::join;
pub use local::{LocalReplication, LocalStore, replicate as replicate_local};
use log::ReplicationLog;
pub(crate) use log::remove_old as remove_old_log_entries;
use mail::MailConnections;
pub(crate) use push::PullRequests;
use rows::{Comparable, comparable, difference, listing, preview_row};
pub use schedule::run;
use schedule::{ConnectionKey, ConnectionRun};
use source::{Partner, RemoteDatabase, RemoteServer};

use crate::counters::ReplicationCounters;

/// Pause between two reports of a replication that waits for another one of its database.
const TURN_PAUSE: Duration = Duration::from_millis(500);

/// Maximum number of differing notes that a comparison lists for one database.
const DIFFERENCES_SHOWN: usize = 100;

/// Replicates databases of this server with those of others.
pub struct Replication {
    instance: Arc<Instance>,
    files: CertificateFiles,
    runtime: Handle,
    /// The connections of this server that were used since its start.
    runs: Mutex<HashMap<ConnectionKey, ConnectionRun>>,
    log: ReplicationLog,
    pub(crate) counters: Arc<ReplicationCounters>,
    /// The memory of what arrives.
    memory: Arc<MemoryShares>,
    /// The databases that take over changes now.
    busy: Mutex<HashSet<ReplicaId>>,
    /// Notified when a database takes over no more changes.
    freed: Condvar,
    /// Notified when connections have changed.
    pub(crate) changed: Notify,
    /// The connections over which mail was forwarded lately.
    mail: MailConnections<RemoteServer>,
}

impl Replication {
    /// Creates the service. Must be called on the runtime that moves the bytes of connections.
    #[must_use]
    pub fn new(instance: &Arc<Instance>, files: CertificateFiles, memory: &Arc<MemoryShares>) -> Self {
        Self {
            instance: Arc::clone(instance),
            files,
            runtime: Handle::current(),
            runs: Mutex::default(),
            log: ReplicationLog::new(instance),
            counters: Arc::default(),
            memory: Arc::clone(memory),
            busy: Mutex::default(),
            freed: Condvar::new(),
            changed: Notify::new(),
            mail: MailConnections::default(),
        }
    }

    /// Executes `doublet replicate`.
    pub fn execute(&self, request: &ReplicateRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
        let to_log = |error: &AdminError| {
            self.record_failure(&server_name(&self.instance, &request.partner), Initiator::Command, error);
        };
        let server = self.connect(request).inspect_err(to_log)?;
        let databases = self.databases(&server, &request.databases, &[]).inspect_err(to_log)?;
        if databases.is_empty() {
            let text = format!("{} and this server have no database in common", server.label());
            return Ok(Answer::message(format!("{text}; name the databases that this server is to get")));
        }
        if request.compare {
            let (rows, failure) = for_each_database(&databases, &mut |path| self.compare(&server, path, report))?;
            return Ok(Answer { failure, ..Answer::list(rows) });
        }
        if request.dry_run {
            let (rows, failure) = for_each_database(&databases, &mut |path| self.preview(&server, path, report))?;
            return Ok(Answer { failure, ..Answer::list(rows) });
        }
        let options = PullOptions {
            held_back: if request.take_held_back { HeldBackNotes::Taken } else { HeldBackNotes::Left },
            transfer: if request.call_per_note { Transfer::CallPerNote } else { Transfer::Streaming },
            ..PullOptions::default()
        };
        let mut rows = Vec::new();
        let mut failures = Vec::new();
        let mut pulled = Vec::new();
        if !request.push {
            let mut pull = |path: &str| self.pull((&server, path), options, report);
            let (databases, failure) = for_each_database(&databases, &mut pull)?;
            rows.extend(databases.iter().filter(|pulled| !pulled.is_disabled).map(PulledDatabase::to_row));
            failures.extend(failure);
            pulled = databases;
        }
        if !request.pull {
            let (pushed, failure) = self.push(&server, self.paths_here(&server, &databases)?, report)?;
            rows.extend(pushed);
            failures.extend(failure);
        }
        let failure = (!failures.is_empty()).then(|| failures.join("\n"));
        let mut answer = Answer { failure, ..Answer::list(rows) };
        if pulled.iter().any(|pulled| pulled.statistics.held_back > 0) {
            answer.messages.push(
                "Documents that were deleted here long ago still exist there and were held back. `--take-held-back` \
                 takes them."
                    .to_owned(),
            );
        }
        for pulled in pulled.iter().filter(|pulled| pulled.is_disabled) {
            answer.messages.push(disabled_message(&pulled.path, &server));
        }
        let clock_difference = pulled.iter().map(|pulled| pulled.clock_difference).max().unwrap_or_default();
        if clock_difference > self.instance.config.replication.clock_warning.0 {
            answer.messages.push(clock_warning(&server, clock_difference));
        }
        Ok(answer)
    }

    /// Connects to another server, with the certificate of this one.
    fn connect(&self, request: &ReplicateRequest) -> Result<RemoteServer, AdminError> {
        let credentials = self.files.for_servers().map_err(AdminError::refused)?;
        let credentials = credentials.ok_or_else(|| {
            AdminError::Refused(
                "no authority for the certificates of servers is configured (`tls.peers`); docs/replication.md \
                 (\"Servers\") says how to set it up"
                    .to_owned(),
            )
        })?;
        let organization = &self.instance.config.server.organization;
        let directory = &self.instance.directory;
        let admit = |name: &Name, presented: &IssuedCertificate| {
            if let Some(exclusion) = directory.partner_exclusion(name, presented)? {
                return Err(AdminError::Refused(exclusion.describe(name)));
            }
            Ok(directory.server_identity(name)?)
        };
        let registered = servers::find(&self.instance, &request.partner)?;
        let known = registered.as_ref().and_then(|server| server.address.as_deref());
        let address = known.unwrap_or(&request.partner);
        let registered_name = registered.as_ref().map(|server| server.name.common());
        let compression = self.instance.config.replication.compression;
        let partner = Partner { address, server_name: request.server_name.as_deref().or(registered_name), compression };
        let server = RemoteServer::connect(&self.runtime, &partner, &credentials, organization, &admit)?;
        Ok(server.within(&self.memory))
    }

    /// Returns the paths of databases on the other server: the given ones or, if none are given, those of which this
    /// server has replicas of one of the priorities. No priorities mean all.
    fn databases(
        &self,
        server: &RemoteServer,
        named: &[String],
        priorities: &[ReplicationPriority],
    ) -> Result<Vec<String>, AdminError> {
        if !named.is_empty() {
            return Ok(named.to_vec());
        }
        let mut common = Vec::new();
        for (path, replica_id) in server.databases()? {
            let Some(database) = self.instance.databases.database_open_replica(replica_id)? else { continue };
            if priorities.is_empty() || priorities.contains(&self.settings(&database, server)?.priority) {
                common.push(path);
            }
        }
        Ok(common)
    }

    /// Takes over the changes of one database, and records the run in the log. The replica is created if it does not
    /// exist.
    fn pull(
        &self,
        (server, path): (&RemoteServer, &str),
        options: PullOptions,
        report: &mut ProgressCallback<'_>,
    ) -> Result<PulledDatabase, AdminError> {
        let mut run = LogEntry {
            database: path.to_owned(),
            other: server.identity.name.clone(),
            initiator: options.initiator.name().to_owned(),
            began: self.instance.clock.now(),
            ..LogEntry::default()
        };
        let mut pulled = PulledDatabase { path: path.to_owned(), ..PulledDatabase::default() };
        let outcome = self.pull_unrecorded(server, &mut pulled, options, report);
        run.ended = self.instance.clock.now();
        run.database.clone_from(&pulled.path);
        run.counts = counts_of(&pulled.statistics, pulled.bytes);
        match &outcome {
            Ok(()) => {}
            Err(AdminError::Cancelled) => "cut off".clone_into(&mut run.result),
            Err(error) => run.result = error.to_string(),
        }
        if !pulled.is_disabled {
            self.counters.add(&pulled.statistics, pulled.bytes, outcome.as_ref().err());
            self.log.record(run);
        }
        outcome.map(|()| pulled)
    }

    /// Takes over the changes of the database with the path in `pulled`. Adds what was taken over, also if it fails.
    fn pull_unrecorded(
        &self,
        server: &RemoteServer,
        pulled: &mut PulledDatabase,
        options: PullOptions,
        report: &mut ProgressCallback<'_>,
    ) -> Result<(), AdminError> {
        let started = self.instance.clock.monotonic();
        let mut source = server.open(&pulled.path)?;
        let _turn = self.wait_for_turn(&source, report)?;
        let found = self.instance.databases.database_open_replica(source.replica_id)?;
        let found = found.filter(|database| {
            // A server that requests a pull does not learn of databases to which it has no access.
            !matches!(options.initiator, Initiator::Request)
                || database.authorize::<level::Depositor>(&server.identity).is_ok()
        });
        let settings = found.as_ref().map(|database| self.settings(database, server)).transpose()?;
        if source.is_disabled || settings.is_some_and(|settings| settings.is_disabled) {
            pulled.is_disabled = true;
            if let Some(database) = found {
                pulled.path = database.path();
            }
            return Ok(());
        }
        let database = match found {
            Some(database) => database,
            None => self.create(server, &source, &pulled.path, options.initiator)?,
        };
        pulled.path = database.path();
        upgrades::upgrade(&self.instance, &database)?;
        let clock = self.instance.clock.now();
        pulled.clock_difference = clock.since(source.clock).max(source.clock.since(clock));
        if pulled.clock_difference > self.instance.config.replication.clock_warning.0 {
            tracing::warn!(target: "replica", "{}", clock_warning(server, pulled.clock_difference));
        }
        let databases = &self.instance.databases;
        let itself = self.itself();
        let target = TargetDatabase { databases, database: &database, itself, options };
        let outcome = pull_changes(&target, server, &mut source, report, &mut pulled.statistics);
        pulled.elapsed = self.instance.clock.monotonic().saturating_sub(started);
        pulled.bytes = source.bytes_received();
        outcome
    }

    /// Records in the log that another server could not be reached, or refused everything.
    fn record_failure(&self, other: &Name, initiator: Initiator, error: &AdminError) {
        if matches!(error, AdminError::Cancelled) {
            return;
        }
        let now = self.instance.clock.now();
        self.counters.failed.add(1);
        self.log.record(LogEntry {
            other: other.clone(),
            initiator: initiator.name().to_owned(),
            began: now,
            ended: now,
            result: error.to_string(),
            ..LogEntry::default()
        });
    }

    /// Finds out what a pull would take over. Changes nothing.
    fn preview(
        &self,
        server: &RemoteServer,
        path: &str,
        report: &mut ProgressCallback<'_>,
    ) -> Result<Value, AdminError> {
        let mut source = server.open(path)?;
        let Some(database) = self.instance.databases.database_open_replica(source.replica_id)? else {
            let mut wanted = PreviewStatistics::default();
            source.list_all(None, &mut |page| {
                wanted.listed += page.len() as u64;
                let selected = page.iter().filter(|note| !note.is_unselected);
                wanted.left_out += page.iter().filter(|note| note.is_unselected).count() as u64;
                wanted.wanted += selected.clone().count() as u64;
                wanted.bytes += selected.map(|note| note.size).sum::<u64>();
                report(listing(path, &server.label(), wanted.listed))
            })?;
            return Ok(preview_row(path, "create", wanted));
        };
        let databases = &self.instance.databases;
        let target = Target::new(databases, &database, &self.itself(), &server.identity)?;
        let mut preview = Preview::begin(target)?;
        while let Some(question) = preview.question() {
            if report(listing(path, &server.label(), preview.statistics().listed)) == ControlFlow::Break(()) {
                return Err(AdminError::Cancelled);
            }
            let answer = source.ask(preview.target(), &question, None, &mut |_| Ok(()))?;
            preview.take(answer)?;
        }
        Ok(preview_row(path, "update", preview.statistics()))
    }

    /// Waits until no other replication of a database runs: two at once would each record what it has received.
    fn wait_for_turn(
        &self,
        source: &RemoteDatabase<'_>,
        report: &mut ProgressCallback<'_>,
    ) -> Result<Turn<'_>, AdminError> {
        let database = source.replica_id;
        let mut busy = self.busy.lock();
        while !busy.insert(database) {
            self.freed.wait_for(&mut busy, TURN_PAUSE);
            let step = format!("{}: waiting for another replication of this database", source.path);
            let progress = Progress { step, done: 0, total: None, unit: Unit::Notes };
            if MutexGuard::unlocked(&mut busy, || report(progress)) == ControlFlow::Break(()) {
                return Err(AdminError::Cancelled);
            }
        }
        Ok(Turn { replication: self, database })
    }

    /// Creates an empty replica of the database `named` of another server.
    ///
    /// A pull that the other server has requested creates none. Name, owner and replica id are what that server states,
    /// and it becomes a manager of the replica, so it would get at what others replicate and at mail of people.
    fn create(
        &self,
        server: &RemoteServer,
        source: &RemoteDatabase<'_>,
        named: &str,
        initiator: Initiator,
    ) -> Result<Arc<Database>, AdminError> {
        let path = &source.path;
        if matches!(initiator, Initiator::Request) {
            return Err(AdminError::Refused(format!(
                "the server that receives has no replica of {named}; `doublet replicate {} {named} --pull` there \
                 creates it",
                server.label()
            )));
        }
        if !path.eq_ignore_ascii_case(named) {
            let label = server.label();
            return Err(AdminError::Refused(format!("{label} has sent the database {path} instead of {named}")));
        }
        if !matches!(source.kind, DatabaseKind::Standard | DatabaseKind::Mail) {
            let kind = source.kind.name();
            return Err(AdminError::Refused(format!(
                "{path} is a {kind} database, of which no replica can be created"
            )));
        }
        if self.instance.databases.database_exists(path)? {
            return Err(AdminError::Refused(format!(
                "{path} on this server is not a replica of {path} on {}; rename it (`doublet db rename`)",
                server.label()
            )));
        }
        let new = new_replica(source, &self.instance.directory.options().server, &server.identity.name);
        // The path of a mail file is reserved for its owner.
        let holder = self.instance.directory.mail_file_holder(path)?;
        if holder.is_some_and(|person| source.kind == DatabaseKind::Mail && person.name == source.owner) {
            return Ok(self.instance.databases.database_create(&new)?);
        }
        Ok(self.instance.directory.database_create(&new)?)
    }

    /// Returns the settings of a database of this server for another server.
    fn settings(&self, database: &Arc<Database>, server: &RemoteServer) -> Result<ReplicationSettings, AdminError> {
        settings_for(database, &self.itself(), server)
    }

    fn itself(&self) -> Arc<Identity> {
        Arc::new(Identity::local_server(self.instance.directory.options().server.clone()))
    }

    /// Compares all notes of a database with those of its replica here.
    fn compare(
        &self,
        server: &RemoteServer,
        path: &str,
        report: &mut ProgressCallback<'_>,
    ) -> Result<Value, AdminError> {
        let source = server.open(path)?;
        let found = self.instance.databases.database_open_replica(source.replica_id)?;
        let database = found.ok_or_else(|| {
            AdminError::Refused(format!("this server has no replica of {path}; `doublet replicate` creates it"))
        })?;
        let ours = self.own_notes(&database, server)?;
        let own_settings = self.settings(&database, server)?;
        let wants_attachments = !own_settings.without.contains(NotExchanged::ATTACHMENTS);
        let selection = Selection::of_settings(&own_settings, self.instance.clock.now());
        let mut theirs = BTreeMap::new();
        let settings = source.list_all(Some(&selection), &mut |page| {
            let is_wanted = |note: &ListedNote| !note.is_unselected || ours.contains_key(&note.unid);
            theirs.extend(page.into_iter().filter(is_wanted).map(|note| (note.unid, comparable(note))));
            let step = format!("{path}: listing the notes of {}", server.label());
            report(Progress { step, done: theirs.len() as u64, total: None, unit: Unit::Notes })
        })?;
        let mut differences = Vec::new();
        let mut count = 0_usize;
        if settings.is_some_and(|settings| settings != database.record().shared_settings()) {
            // Those of the replica that changed later count. They differ until the next replication, or as long as the
            // other server is not a Manager here.
            count += 1;
            differences.push(record(vec![("unid", json!("-")), ("difference", json!("other title or options"))]));
        }
        let unids = ours.keys().chain(theirs.keys().filter(|unid| !ours.contains_key(*unid)));
        for unid in unids {
            let found = difference(ours.get(unid), theirs.get(unid), wants_attachments);
            let Some(difference) = found else { continue };
            count += 1;
            if differences.len() < DIFFERENCES_SHOWN {
                differences.push(record(vec![("unid", json!(unid.to_string())), ("difference", json!(difference))]));
            }
        }
        Ok(record(vec![
            ("database", json!(database.path())),
            ("notes_here", json!(ours.len())),
            ("notes_there", json!(theirs.len())),
            ("different", json!(count)),
            ("differences", Value::Array(differences)),
        ]))
    }

    /// Returns the notes of this server that the other one may read.
    fn own_notes(
        &self,
        database: &Arc<Database>,
        server: &RemoteServer,
    ) -> Result<BTreeMap<Unid, Comparable>, AdminError> {
        let access = database.authorize::<level::Reader>(&server.identity)?;
        let reading = access.read()?;
        let mut found = BTreeMap::new();
        let mut progress = None;
        loop {
            let question = replica::Question::Changes { after: None, progress, selection: None };
            let replica::Answer::Changes(page) = replica::answer(&reading, &question)? else { return Ok(found) };
            found.extend(page.notes.into_iter().map(|note| (note.unid, comparable(note))));
            if page.is_last {
                return Ok(found);
            }
            progress = Some(ListProgress { position: page.position, seen: page.seen, is_comparison: true });
        }
    }
}

/// The right to take over changes of a database. It ends when the value is dropped.
struct Turn<'t> {
    replication: &'t Replication,
    database: ReplicaId,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.replication.busy.lock().remove(&self.database);
        self.replication.freed.notify_all();
    }
}
