//! Pushes: pulls that one server requests from another one.
//!
//! A push is the pull of the other server. The server that has changes asks the other one to take them over
//! (`RequestPull`), and asks again and again how far it has come. The other one connects back, to the address that its
//! directory has for the name in the certificate of the first, and pulls as for its own command. So there is one way in
//! which notes are received, with one set of rights, whichever server began.
//!
//! Each request has a number. A pull about which nobody asks any more is cancelled after a minute: the command that
//! requested it was interrupted, the time limit of its connection has passed, or its server is gone.

use std::collections::BTreeMap;
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
use rpc::limits::NAMES_PER_CALL_MAX;
use serde_json::{Value, json};

use super::Replication;
use super::database_pull::{Initiator, PullOptions, PulledDatabase, for_each_database};
use super::source::RemoteServer;
use super::upgrades::Upgrades;

/// Pause between two questions how far a requested pull has come.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

/// Time without a question after which a requested pull is cancelled.
const UNASKED_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum number of requested pulls that run at once, of all servers together.
const RUNNING_MAX: usize = 16;

/// Maximum number of requested pulls of one server that run at once.
const RUNNING_PER_SERVER_MAX: usize = 4;

/// Maximum number of requested pulls that are remembered. A pull that is done is forgotten before those after it.
const REMEMBERED_MAX: usize = 1_000;

/// Maximum size of the text that says why databases of a requested pull failed, in bytes.
const FAILURE_BYTES_MAX: usize = 8 << 10;

/// The pulls that other servers have requested.
pub(crate) struct PullRequests {
    replication: Arc<Replication>,
    /// The pulls by their numbers, which ascend.
    pulls: Mutex<BTreeMap<u64, Arc<RequestedPull>>>,
    upgrades: Arc<Upgrades>,
}

/// A push of this server: pulls that it has requested from another one.
pub(super) struct Push {
    begun: v1::RequestedPull,
    /// The paths of databases for the next requests. One request has a limited number of them.
    rest: Vec<String>,
    bytes_per_second_max: Option<u64>,
}

/// A requested pull.
struct RequestedPull {
    server: Name,
    /// How far it has come, for the server that has requested it.
    description: Mutex<v1::RequestedPull>,
    /// The measured time of the last question about it.
    questioned_at: Mutex<Duration>,
}

impl PullRequests {
    pub(crate) fn new(replication: &Arc<Replication>) -> Self {
        let upgrades = Arc::new(Upgrades::new(&replication.instance));
        Self { replication: Arc::clone(replication), pulls: Mutex::default(), upgrades }
    }

    /// Adds a pull, unless too many run.
    fn add(&self, server: &Name) -> Result<Arc<RequestedPull>, String> {
        let clock = &self.replication.instance.clock;
        let mut pulls = self.pulls.lock();
        let running: Vec<&Name> = pulls.values().filter(|pull| !pull.is_done()).map(|pull| &pull.server).collect();
        if running.len() >= RUNNING_MAX {
            return Err("too many servers are pushing to this one now; try again later".to_owned());
        }
        if running.iter().filter(|name| **name == server).count() >= RUNNING_PER_SERVER_MAX {
            return Err("this server is busy with earlier pushes of yours; try again later".to_owned());
        }
        if pulls.len() >= REMEMBERED_MAX {
            let oldest = pulls.iter().find(|(_, pull)| pull.is_done()).map(|(number, _)| *number);
            oldest.map(|number| pulls.remove(&number));
        }
        // The numbers of an earlier run of the server are lower, because they began with its time.
        let after_last = pulls.last_key_value().map_or(0, |(last, _)| last + 1);
        let number = after_last.max(u64::try_from(clock.now().0).unwrap_or(0));
        let description = v1::RequestedPull { number, ..v1::RequestedPull::default() };
        let pull = Arc::new(RequestedPull {
            server: server.clone(),
            description: Mutex::new(description),
            questioned_at: Mutex::new(clock.monotonic()),
        });
        pulls.insert(number, Arc::clone(&pull));
        Ok(pull)
    }
}

impl RequestedPulls for PullRequests {
    fn begin(&self, server: &Name, request: v1::RequestPullRequest) -> Result<v1::RequestedPull, String> {
        let directory = &self.replication.instance.directory;
        let found = directory.server(server).map_err(|error| error.to_string())?;
        if found.is_none() {
            let name = server.abbreviated();
            return Err(format!(
                "{name} is not registered in the directory of this server, so it cannot be connected to; \
                 `doublet server register` registers it"
            ));
        }
        let pull = self.add(server)?;
        let description = pull.description.lock().clone();
        let replication = Arc::clone(&self.replication);
        // The pull blocks on the network for a long time, which no worker may.
        self.replication.runtime.spawn_blocking(move || run(&replication, &request, &pull));
        Ok(description)
    }

    fn progress(&self, server: &Name, number: u64) -> Option<v1::RequestedPull> {
        let pull = self.pulls.lock().get(&number).filter(|pull| pull.server == *server).map(Arc::clone)?;
        *pull.questioned_at.lock() = self.replication.instance.clock.monotonic();
        let description = pull.description.lock().clone();
        Some(description)
    }

    fn upgrade(&self, database: &Arc<Database>) -> Result<(), String> {
        Upgrades::request(&self.upgrades, &self.replication.runtime, database)
    }
}

impl RequestedPull {
    fn is_done(&self) -> bool {
        self.description.lock().done
    }
}

/// Marks a requested pull as done when it is dropped, however it ended.
struct MarksDone<'p> {
    pull: &'p RequestedPull,
    /// `true` if the result is known.
    has_result: bool,
}

impl Drop for MarksDone<'_> {
    fn drop(&mut self) {
        let mut description = self.pull.description.lock();
        if !self.has_result {
            "the pull ended unexpectedly; the log of that server says more".clone_into(&mut description.failure);
        }
        description.done = true;
    }
}

fn run(replication: &Replication, request: &v1::RequestPullRequest, pull: &RequestedPull) {
    let mut done = MarksDone { pull, has_result: false };
    let clock = &replication.instance.clock;
    let mut report = |progress: Progress| {
        let mut description = pull.description.lock();
        description.step = progress.step;
        description.notes = progress.done;
        match clock.monotonic().saturating_sub(*pull.questioned_at.lock()) > UNASKED_TIME_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let options = PullOptions {
        initiator: Initiator::Request,
        bytes_per_second_max: Some(request.bytes_per_second_max).filter(|limit| *limit > 0),
        ..PullOptions::default()
    };
    let mut work = |server: &RemoteServer, path: &str| {
        let pulled = replication.pull((server, path), options, &mut report)?;
        pull.description.lock().databases.push(pulled.to_proto());
        Ok(())
    };
    let to_log = |error: &AdminError| replication.record_failure(&pull.server, Initiator::Request, error);
    let outcome = connect_back(replication, &pull.server).inspect_err(to_log).and_then(|server| {
        let (_, failure) = for_each_database(&request.paths, &mut |path| work(&server, path))?;
        Ok(failure)
    });
    let mut failure = outcome.unwrap_or_else(|error| Some(error.to_string()));
    if let Some(text) = failure.as_mut().filter(|text| text.len() > FAILURE_BYTES_MAX) {
        text.truncate(text.floor_char_boundary(FAILURE_BYTES_MAX));
        text.push_str(" …");
    }
    if let Some(failure) = &failure {
        let server = pull.server.abbreviated();
        tracing::warn!(target: "replica", server, failure, "a pull that another server has requested failed");
    }
    pull.description.lock().failure = failure.unwrap_or_default();
    done.has_result = true;
}

/// Connects to the server that has requested a pull.
fn connect_back(replication: &Replication, name: &Name) -> Result<RemoteServer, AdminError> {
    let label = name.abbreviated();
    let server = replication.connect_to(name).map_err(|error| {
        AdminError::Refused(format!(
            "it cannot connect back to {label}: {error}. `doublet server set {} --address` sets the address under \
             which servers reach it",
            name.common()
        ))
    })?;
    if server.identity.name != *name {
        return Err(AdminError::Refused(format!(
            "the server at the address of {label} is {}; `doublet server set {} --address` corrects the address",
            server.label(),
            name.common()
        )));
    }
    Ok(server)
}

impl Replication {
    /// Connects to a registered server.
    pub(super) fn connect_to(&self, server: &Name) -> Result<RemoteServer, AdminError> {
        self.connect_to_partner(server.canonical())
    }

    /// Connects to a server that is given by its name or address.
    pub(super) fn connect_to_partner(&self, partner: &str) -> Result<RemoteServer, AdminError> {
        self.connect(&ReplicateRequest { partner: partner.to_owned(), ..ReplicateRequest::default() })
    }

    /// Asks another server to take over the changes of databases from this one, and waits until it has. Returns a row
    /// for each database, and why some failed.
    pub(super) fn push(
        &self,
        server: &RemoteServer,
        paths: Vec<String>,
        report: &mut ProgressCallback<'_>,
    ) -> Result<(Vec<Value>, Option<String>), AdminError> {
        let to_log = |error: &AdminError| self.record_failure(&server.identity.name, Initiator::Command, error);
        let begun = self.begin_push(server, paths, None).inspect_err(to_log)?;
        let pushed = self.wait_for_push(server, begun, report)?;
        let failure = (!pushed.failure.is_empty()).then(|| format!("{}: {}", server.label(), pushed.failure));
        let exchanged = pushed.databases.into_iter().filter(|database| !database.disabled);
        Ok((exchanged.map(pushed_row).collect(), failure))
    }

    /// Asks another server to take over the changes of databases from this one.
    pub(super) fn begin_push(
        &self,
        server: &RemoteServer,
        mut paths: Vec<String>,
        bytes_per_second_max: Option<u64>,
    ) -> Result<Push, AdminError> {
        let rest = paths.split_off(paths.len().min(NAMES_PER_CALL_MAX));
        let begun = server.request_pull(paths, bytes_per_second_max)?;
        Ok(Push { begun, rest, bytes_per_second_max })
    }

    /// Waits until another server has taken over the changes that it was asked to take over.
    pub(super) fn wait_for_push(
        &self,
        server: &RemoteServer,
        push: Push,
        report: &mut ProgressCallback<'_>,
    ) -> Result<v1::RequestedPull, AdminError> {
        let Push { begun, mut rest, bytes_per_second_max } = push;
        let mut all = self.wait_for_pull(server, begun, report)?;
        while !rest.is_empty() {
            let next = self.begin_push(server, rest, bytes_per_second_max)?;
            let pulled = self.wait_for_pull(server, next.begun, report)?;
            rest = next.rest;
            all.databases.extend(pulled.databases);
            if !all.failure.is_empty() && !pulled.failure.is_empty() {
                all.failure.push('\n');
            }
            all.failure.push_str(&pulled.failure);
        }
        Ok(all)
    }

    fn wait_for_pull(
        &self,
        server: &RemoteServer,
        begun: v1::RequestedPull,
        report: &mut ProgressCallback<'_>,
    ) -> Result<v1::RequestedPull, AdminError> {
        let mut pull = begun;
        while !pull.done {
            let step = if pull.step.is_empty() { "waiting" } else { pull.step.as_str() };
            let step = format!("{}: {step}", server.label());
            if report(Progress { step, done: pull.notes, total: None, unit: Unit::Notes }) == ControlFlow::Break(()) {
                return Err(AdminError::Cancelled);
            }
            self.runtime.block_on(tokio::time::sleep(PROGRESS_PAUSE));
            pull = server.requested_pull(pull.number)?;
        }
        Ok(pull)
    }

    /// Returns the paths on this server of databases that are named by their paths here or on the other server.
    pub(super) fn paths_here(&self, server: &RemoteServer, named: &[String]) -> Result<Vec<String>, AdminError> {
        let databases = &self.instance.databases;
        let mut paths = Vec::new();
        for path in named {
            // Another database may have this path here, so the replica id decides.
            let there = server.open(path);
            let replica: Option<Arc<Database>> = match &there {
                Ok(there) => databases.database_open_replica(there.replica_id)?,
                Err(_) => None,
            };
            match (replica, there) {
                (Some(replica), _) => paths.push(replica.path()),
                (None, Err(_)) if databases.database_exists(path)? => paths.push(path.clone()),
                (None, Err(error)) => return Err(error),
                (None, Ok(_)) => return Err(no_replica(path, &server.label())),
            }
        }
        Ok(paths)
    }
}

fn no_replica(path: &str, server: &str) -> AdminError {
    AdminError::Refused(format!(
        "this server has no replica of {path} on {server}; `doublet db list` shows its databases, and `doublet replicate` \
         with --pull creates a replica"
    ))
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
            left_out: statistics.left_out,
            disabled: self.is_disabled,
            skipped: statistics.skipped,
            held_back: statistics.held_back,
            unread_marks: statistics.unread_marks,
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
        ("left_out", json!(pushed.left_out)),
        ("skipped", json!(pushed.skipped)),
        ("held_back", json!(pushed.held_back)),
        ("unread_marks", json!(pushed.unread_marks)),
        ("milliseconds", json!(pushed.milliseconds)),
    ])
}

#[cfg(test)]
mod tests {
    use base::memory::MemoryShares;
    use instance::certificate::CertificateFiles;
    use sample::Sample;

    use super::*;

    #[tokio::test]
    async fn a_server_has_a_few_pulls_at_a_time_which_only_it_sees() {
        let instance = Arc::new(Sample::new().instance);
        let files = CertificateFiles::from_config(&instance.config, &instance.data, &instance.hostname);
        let requests = PullRequests::new(&Arc::new(Replication::new(&instance, files, &MemoryShares::unlimited())));
        let server = |number: usize| Name::new(&format!("CN=spoke{number}/O=Acme"));
        let unknown = requests.begin(&server(0), v1::RequestPullRequest::default()).expect_err("it is not registered");
        assert!(unknown.contains("spoke0/Acme is not registered"), "{unknown}");
        let add = |number: usize| requests.add(&server(number)).map(|pull| pull.description.lock().number);
        let numbers: Vec<u64> = (0..4).map(|_| add(0).expect("few")).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert!(add(0).expect_err("too many").contains("earlier pushes of yours"));
        for other in 1..4 {
            assert!((0..4).all(|_| add(other).is_ok()), "another server");
        }
        assert!(add(4).expect_err("too many").contains("too many servers"));
        let seen = |number: usize| requests.progress(&server(number), numbers[0]).map(|pull| pull.done);
        assert_eq!((seen(0), seen(1)), (Some(false), None));
        let pull = requests.pulls.lock().get(&numbers[0]).map(Arc::clone).expect("it is there");
        drop(MarksDone { pull: &pull, has_result: false });
        assert_eq!(seen(0), Some(true));
        let failure = requests.progress(&server(0), numbers[0]).map(|pull| pull.failure).unwrap_or_default();
        assert!(failure.contains("unexpectedly"), "a pull without a result is no success: {failure:?}");
        assert!(add(0).is_ok(), "one of its pulls is done");
    }
}
