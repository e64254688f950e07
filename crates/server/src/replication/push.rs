//! Pushes: pulls that one server requests from another one.
//!
//! A push is the pull of the other server. The server that has changes asks the other one to take them over
//! (`RequestPull`), and asks again and again how far it has come. The other one connects back, to the address that its
//! directory has for the name in the certificate of the first, and pulls as for its own command. So there is one way in
//! which notes are received, with one set of rights, whichever server began.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use admin::AdminError;
use admin::answer::record;
use admin::request::ReplicateRequest;
use admin::{Progress, ProgressCallback, Unit};
use base::Name;
use base::sync::Mutex;
use client::v1;
use notes::Database;
use rpc::backend::RequestedPulls;
use serde_json::{Value, json};

use super::source::RemoteServer;
use super::{PulledDatabase, Replication, for_each_database};

/// Pause between two questions how far a requested pull has come.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

/// Maximum number of requested pulls that run at once, of all servers together.
const RUNNING_MAX: usize = 16;

/// Maximum number of servers whose last requested pull is remembered.
const REMEMBERED_MAX: usize = 1_000;

/// The pulls that other servers have requested: the last one of each server.
pub(crate) struct PullRequests {
    replication: Arc<Replication>,
    by_server: Mutex<HashMap<Name, SharedPull>>,
}

/// A requested pull, as it is described to the server that has requested it.
type SharedPull = Arc<Mutex<v1::RequestedPull>>;

impl PullRequests {
    pub(crate) fn new(replication: &Arc<Replication>) -> Self {
        Self { replication: Arc::clone(replication), by_server: Mutex::default() }
    }
}

impl RequestedPulls for PullRequests {
    fn begin(&self, server: &Name, paths: Vec<String>) -> Result<(), String> {
        let directory = &self.replication.instance.directory;
        let found = directory.server(server).map_err(|error| error.to_string())?;
        if found.is_none() {
            let name = server.abbreviated();
            return Err(format!(
                "{name} is not registered in the directory of this server, so it cannot be connected to; \
                 `doublet server register` registers it"
            ));
        }
        let mut by_server = self.by_server.lock();
        if by_server.get(server).is_some_and(|pull| !pull.lock().done) {
            return Ok(());
        }
        if by_server.values().filter(|pull| !pull.lock().done).count() >= RUNNING_MAX {
            return Err("too many servers are pushing to this one now; try again later".to_owned());
        }
        if by_server.len() >= REMEMBERED_MAX {
            by_server.retain(|_, pull| !pull.lock().done);
        }
        let pull = SharedPull::default();
        by_server.insert(server.clone(), Arc::clone(&pull));
        let replication = Arc::clone(&self.replication);
        let partner = server.canonical().to_owned();
        // The pull blocks on the network for a long time, which no worker may.
        self.replication.runtime.spawn_blocking(move || run(&replication, (partner, paths), &pull));
        Ok(())
    }

    fn progress(&self, server: &Name) -> Option<v1::RequestedPull> {
        let pull = self.by_server.lock().get(server).map(Arc::clone)?;
        let described = pull.lock().clone();
        Some(described)
    }
}

/// Marks a requested pull as done when it is dropped, however it ended.
struct MarksDone<'p>(&'p SharedPull);

impl Drop for MarksDone<'_> {
    fn drop(&mut self) {
        self.0.lock().done = true;
    }
}

fn run(replication: &Replication, (partner, paths): (String, Vec<String>), pull: &SharedPull) {
    let _done = MarksDone(pull);
    let mut report = |progress: Progress| {
        let mut described = pull.lock();
        described.step = progress.step;
        described.notes = progress.done;
        ControlFlow::Continue(())
    };
    let mut work = |server: &RemoteServer, path: &str| {
        let pulled = replication.pull((server, path), super::HeldBackNotes::Left, &mut report)?;
        pull.lock().databases.push(pulled.to_proto());
        Ok(())
    };
    let request =
        ReplicateRequest { partner: partner.clone(), databases: paths.clone(), ..ReplicateRequest::default() };
    let outcome = replication.connect(&request).and_then(|server| {
        let (_, failure) = for_each_database(&paths, &mut |path| work(&server, path))?;
        Ok(failure)
    });
    let failure = outcome.unwrap_or_else(|error| Some(error.to_string()));
    if let Some(failure) = &failure {
        tracing::warn!(target: "replica", server = partner, failure, "a pull that another server has requested failed");
    }
    pull.lock().failure = failure.unwrap_or_default();
}

impl Replication {
    /// Asks another server to take over the changes of databases from this one, and waits until it has. Returns a row
    /// for each database, and why some failed.
    pub(super) fn push(
        &self,
        server: &RemoteServer,
        paths: Vec<String>,
        report: &mut ProgressCallback<'_>,
    ) -> Result<(Vec<Value>, Option<String>), AdminError> {
        let mut pull = server.request_pull(paths)?;
        while !pull.done {
            let step = if pull.step.is_empty() { "waiting" } else { pull.step.as_str() };
            let step = format!("{}: {step}", server.label());
            if report(Progress { step, done: pull.notes, total: None, unit: Unit::Notes }) == ControlFlow::Break(()) {
                return Err(AdminError::Cancelled);
            }
            self.runtime.block_on(tokio::time::sleep(PROGRESS_PAUSE));
            pull = server.requested_pull()?;
        }
        let failure = (!pull.failure.is_empty()).then(|| format!("{}: {}", server.label(), pull.failure));
        Ok((pull.databases.into_iter().map(pushed_row).collect(), failure))
    }

    /// Returns the paths on this server of databases that are named by their paths here or on the other server.
    pub(super) fn paths_here(&self, server: &RemoteServer, named: &[String]) -> Result<Vec<String>, AdminError> {
        let databases = &self.instance.databases;
        let mut paths = Vec::new();
        for path in named {
            if databases.database_exists(path)? {
                paths.push(path.clone());
                continue;
            }
            let replica: Option<Arc<Database>> = databases.database_open_replica(server.open(path)?.replica_id)?;
            let replica = replica.ok_or_else(|| AdminError::no_such("database", path))?;
            paths.push(replica.path());
        }
        Ok(paths)
    }
}

impl PulledDatabase {
    fn to_proto(&self) -> v1::PulledDatabase {
        let statistics = &self.statistics;
        v1::PulledDatabase {
            path: self.path.clone(),
            listed: statistics.listed,
            received: statistics.received,
            deleted: statistics.deleted,
            merged: statistics.merged,
            conflicts: statistics.conflicts,
            states: statistics.state_only,
            refused: statistics.refused,
            skipped: statistics.skipped,
            held_back: statistics.held_back,
            milliseconds: u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Returns the row of a database that the other server has taken over.
fn pushed_row(pushed: v1::PulledDatabase) -> Value {
    record(vec![
        ("database", json!(pushed.path)),
        ("direction", json!("push")),
        ("listed", json!(pushed.listed)),
        ("received", json!(pushed.received)),
        ("deleted", json!(pushed.deleted)),
        ("merged", json!(pushed.merged)),
        ("conflicts", json!(pushed.conflicts)),
        ("states", json!(pushed.states)),
        ("refused", json!(pushed.refused)),
        ("skipped", json!(pushed.skipped)),
        ("held_back", json!(pushed.held_back)),
        ("milliseconds", json!(pushed.milliseconds)),
    ])
}
