//! The Replica task: uses the connections of this server when they are due (`due`).
//!
//! `replication.replicators` connections are used at once. Two of them never take over changes of the same database at
//! the same time. If more are due, the one that was not used for the longest time is next.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use admin::connections;
use admin::{AdminError, Answer, ProgressCallback};
use base::{Name, Timestamp};
use directory::{Connection, ReplicationType};
use serde_json::{Value, json};
use tokio::task::{Id, JoinSet};
use wire::Shutdown;

use super::Replication;
use super::database_pull::{Initiator, PullOptions, for_each_database};
use super::due::{LastUse, Moment, is_due};

/// Pause between two looks at the connections.
const LOOK_PAUSE: Duration = Duration::from_secs(30);

/// A connection of this server: the other server, and the name that distinguishes it from others to the same one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct ConnectionKey {
    destination: Name,
    name: String,
}

impl ConnectionKey {
    fn of(connection: &Connection) -> Self {
        Self { destination: connection.destination.clone(), name: connection.name.clone() }
    }
}

/// The last use of a connection.
#[derive(Clone)]
pub(super) struct ConnectionRun {
    last: LastUse,
    /// The time of day when it ended.
    ended: Timestamp,
    /// What was exchanged, or the error.
    outcome: Result<Exchanged, String>,
}

/// What one use of a connection has exchanged.
#[derive(Clone, Copy, Default)]
struct Exchanged {
    /// Number of notes received by this server.
    received: u64,
    /// Number of notes received by the other server.
    sent: u64,
    /// `true` if the time limit has ended it.
    is_cut_off: bool,
}

/// Runs the task until the server drains and no connection is in use.
pub async fn run(replication: Arc<Replication>, shutdown: Shutdown) {
    let replicators = usize::try_from(replication.instance.config.replication.replicators).unwrap_or(1);
    let mut uses = JoinSet::new();
    let mut in_use: HashMap<Id, ConnectionKey> = HashMap::new();
    loop {
        if uses.len() < replicators {
            for connection in due_connections(&replication, in_use.values().cloned().collect()).await {
                if uses.len() == replicators {
                    break;
                }
                let task = Arc::clone(&replication);
                let stop = shutdown.clone();
                let key = ConnectionKey::of(&connection);
                let started = uses.spawn_blocking(move || task.use_and_record(&connection, &stop));
                in_use.insert(started.id(), key);
            }
        }
        tokio::select! {
            () = shutdown.draining() => break,
            () = replication.changed.notified() => {}
            Some(ended) = uses.join_next_with_id() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(target: "replica", %error, "the use of a connection was aborted; will retry");
                        error.id()
                    }
                };
                in_use.remove(&id);
            }
            () = tokio::time::sleep(LOOK_PAUSE) => {}
        }
    }
    while uses.join_next().await.is_some() {}
}

/// Returns the connections of this server that are due and not in use, the one first that was not used for the longest
/// time.
async fn due_connections(replication: &Arc<Replication>, in_use: Vec<ConnectionKey>) -> Vec<Arc<Connection>> {
    let task = Arc::clone(replication);
    match tokio::task::spawn_blocking(move || task.due_connections(&in_use)).await {
        Ok(Ok(due)) => return due,
        Ok(Err(error)) => tracing::error!(target: "replica", %error, "cannot read the connections; will retry"),
        Err(error) => tracing::error!(target: "replica", %error, "the Replica task was aborted; will retry"),
    }
    Vec::new()
}

impl Replication {
    fn due_connections(&self, in_use: &[ConnectionKey]) -> Result<Vec<Arc<Connection>>, AdminError> {
        let own = &self.instance.directory.options().server;
        let now = self.moment();
        let mut due = connections::all(&self.instance)?;
        let mut runs = self.runs.lock();
        due.retain(|connection| connection.source == *own);
        runs.retain(|key, _| due.iter().any(|connection| ConnectionKey::of(connection) == *key));
        self.count_failing(&runs);
        let last_use = |connection: &Connection| runs.get(&ConnectionKey::of(connection)).map(|run| run.last);
        due.retain(|connection| {
            !in_use.contains(&ConnectionKey::of(connection)) && is_due(&connection.schedule, last_use(connection), now)
        });
        due.sort_by_key(|connection| last_use(connection).map(|last| last.ended_at));
        Ok(due)
    }

    fn moment(&self) -> Moment {
        Moment { wall: self.instance.clock.now(), measured: self.instance.clock.monotonic() }
    }

    fn use_and_record(&self, connection: &Connection, stop: &Shutdown) {
        let began = self.moment();
        let limit = connection.time_limit_minutes.map(|minutes| Duration::from_secs(u64::from(minutes) * 60));
        let is_over = || limit.is_some_and(|limit| self.moment().measured.saturating_sub(began.measured) >= limit);
        let mut report = |_| match stop.is_draining() || is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let mut exchanged = Exchanged::default();
        let outcome = match self.use_connection(connection, &mut exchanged, &mut report) {
            Err(AdminError::Cancelled) if stop.is_draining() => return,
            Err(AdminError::Cancelled) => Ok(Exchanged { is_cut_off: true, ..exchanged }),
            outcome => outcome.map(|()| exchanged),
        };
        let server = connection.destination.abbreviated();
        match &outcome {
            Ok(Exchanged { received, sent, is_cut_off: false }) => {
                tracing::info!(target: "replica", server, received, sent, "replicated");
            }
            Ok(Exchanged { received, sent, is_cut_off: true }) => {
                tracing::info!(target: "replica", server, received, sent, "the time limit has ended a replication");
            }
            Err(error) => tracing::warn!(target: "replica", server, %error, "replication failed; will retry"),
        }
        let key = ConnectionKey::of(connection);
        let mut runs = self.runs.lock();
        let failures = runs.get(&key).map_or(0, |run| run.last.failures);
        let failures = if outcome.is_ok() { 0 } else { failures.saturating_add(1) };
        let ended = self.moment();
        let run = ConnectionRun {
            last: LastUse { began: began.wall, ended_at: ended.measured, failures },
            ended: ended.wall,
            outcome: outcome.map_err(|error| error.to_string()),
        };
        runs.insert(key, run);
        self.count_failing(&runs);
    }

    fn count_failing(&self, runs: &HashMap<ConnectionKey, ConnectionRun>) {
        let failing = runs.values().filter(|run| run.outcome.is_err()).count();
        self.counters.failing_connections.store(failing as u64, Ordering::Relaxed);
    }

    /// Uses a connection: exchanges the changes of its databases, and counts them. If some databases fail, the others
    /// are replicated all the same.
    fn use_connection(
        &self,
        connection: &Connection,
        exchanged: &mut Exchanged,
        report: &mut ProgressCallback<'_>,
    ) -> Result<(), AdminError> {
        let to_log = |error: &AdminError| self.record_failure(&connection.destination, Initiator::Connection, error);
        let server = self.connect_to(&connection.destination).inspect_err(to_log)?;
        let databases = self.databases(&server, &connection.databases, &connection.priorities).inspect_err(to_log)?;
        let limit = connection.bytes_per_second_max;
        let begin_push = || self.begin_push(&server, self.paths_here(&server, &databases)?, limit).inspect_err(to_log);
        let mut failures = Vec::new();
        let kind = connection.replication_type;
        // The other server works while this one does.
        let begun = match kind {
            ReplicationType::PullPull => Some(begin_push()?),
            _ => None,
        };
        if kind != ReplicationType::Push {
            let mut pull = |path: &str| {
                let options = PullOptions {
                    initiator: Initiator::Connection,
                    bytes_per_second_max: limit,
                    ..PullOptions::default()
                };
                let pulled = self.pull((&server, path), options, report)?;
                exchanged.received += pulled.statistics.received;
                Ok(())
            };
            failures.extend(all_failures(for_each_database(&databases, &mut pull))?);
        }
        let begun = match kind {
            ReplicationType::Push | ReplicationType::PullPush => Some(begin_push()?),
            _ => begun,
        };
        if let Some(begun) = begun {
            let pushed = self.wait_for_push(&server, begun, report)?;
            exchanged.sent += pushed.databases.iter().map(|database| database.received).sum::<u64>();
            failures.extend((!pushed.failure.is_empty()).then(|| format!("{}: {}", server.label(), pushed.failure)));
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(AdminError::Refused(failures.join("\n"))),
        }
    }

    /// Adds the last uses of this server's connections to a list of connections.
    pub(crate) fn add_runs(&self, answer: &mut Answer) {
        let own = self.instance.directory.options().server.abbreviated();
        let runs = self.runs.lock();
        let find = |with: &str, name: &str| {
            let is_same = |key: &ConnectionKey| key.destination.abbreviated() == with && key.name == name;
            runs.iter().find(|(key, _)| is_same(key)).map(|(_, run)| run)
        };
        for row in answer.data.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            let is_own = row.get("server").and_then(Value::as_str) == Some(&own);
            let text = |field: &str| row.get(field).and_then(Value::as_str).unwrap_or_default();
            let run = is_own.then(|| find(text("with"), text("name"))).flatten();
            let result = run.map(|run| match &run.outcome {
                Ok(Exchanged { received, sent, is_cut_off }) => {
                    let end = if *is_cut_off { ", then the time limit ended it" } else { "" };
                    format!("received {received}, sent {sent}{end}")
                }
                Err(error) => error.clone(),
            });
            row.insert("used_at".to_owned(), json!(run.map(|run| run.ended.to_rfc3339())));
            row.insert("result".to_owned(), json!(result));
        }
    }
}

/// Returns why databases failed, whether one or many of them were tried. A cancellation stays an error.
fn all_failures<T>(outcome: Result<(Vec<T>, Option<String>), AdminError>) -> Result<Option<String>, AdminError> {
    match outcome {
        Ok((_, failure)) => Ok(failure),
        Err(AdminError::Cancelled) => Err(AdminError::Cancelled),
        Err(error) => Ok(Some(error.to_string())),
    }
}
