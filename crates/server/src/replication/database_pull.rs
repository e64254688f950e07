//! The pull of one database: its options, the replica that receives, and what was taken over.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use admin::answer::record;
use admin::{AdminError, Progress, ProgressCallback, Unit};
use base::Name;
use notes::{
    Access, Acl, AclEntry, AclKind, AclLevel, Database, DatabaseOptions, Databases, Identity, NewDatabase,
    ReplicationSettings, level,
};
use replica::{HeldBackNotes, Pull, PullStatistics, Target, Transfer};
use serde_json::{Value, json};

use super::rows::time_left;
use super::source::{RemoteDatabase, RemoteServer};

/// Longest pause of a pull that has received more than its limit allows.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Longest wait between two pieces of an answer because of a limit of bandwidth. A server closes a connection that
/// takes nothing for a minute.
const PIECE_PAUSE_MAX: Duration = Duration::from_secs(20);

/// Executes `work` for databases. A failure in one database does not stop the others. Returns the results, and the
/// failures as a text. The failure of a single database is returned as it is.
pub(super) fn for_each_database<T>(
    databases: &[String],
    work: &mut dyn FnMut(&str) -> Result<T, AdminError>,
) -> Result<(Vec<T>, Option<String>), AdminError> {
    let mut done = Vec::new();
    let mut failures = Vec::new();
    for path in databases {
        match work(path) {
            Ok(result) => done.push(result),
            Err(error) if databases.len() == 1 || matches!(error, AdminError::Cancelled) => return Err(error),
            Err(error) => failures.push(format!("{path}: {error}")),
        }
    }
    Ok((done, (!failures.is_empty()).then(|| failures.join("\n"))))
}

/// Returns the parameters of an empty replica of a database of another server.
pub(super) fn new_replica(source: &RemoteDatabase<'_>, itself: &Name, other: &Name) -> NewDatabase {
    let manager =
        |name: &Name| AclEntry { kind: AclKind::Server, ..AclEntry::new(name.canonical(), AclLevel::Manager) };
    // The first replication brings the access control list of the other server, which replaces this one.
    let mut acl = Acl::open_to_all(AclLevel::NoAccess);
    acl.entries.push(manager(itself));
    acl.entries.push(manager(other));
    let options = DatabaseOptions {
        purge_interval_days: source.purge_interval_days,
        keep_deleted_hours: source.keep_deleted_hours,
        unread_replication: source.unread_replication,
        ..DatabaseOptions::default()
    };
    NewDatabase {
        owner: source.owner.clone(),
        replica_id: Some(source.replica_id),
        options,
        ..NewDatabase::new(&source.path, &source.title, source.kind, acl)
    }
}

/// How changes are taken over.
#[derive(Clone, Copy, Default)]
pub(super) struct PullOptions {
    pub(super) held_back: HeldBackNotes,
    pub(super) transfer: Transfer,
    pub(super) initiator: Initiator,
    /// Maximum number of bytes that are received per second, on average.
    pub(super) bytes_per_second_max: Option<u64>,
}

/// What a replication was made for.
#[derive(Clone, Copy, Default)]
pub(super) enum Initiator {
    #[default]
    Command,
    Connection,
    /// The other server has requested it.
    Request,
}

impl Initiator {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Connection => "connection",
            Self::Request => "request",
        }
    }
}

/// The replica of this server.
pub(super) struct TargetDatabase<'t> {
    pub(super) databases: &'t Arc<Databases>,
    pub(super) database: &'t Arc<Database>,
    pub(super) itself: Arc<Identity>,
    pub(super) options: PullOptions,
}

/// Takes over the changes of a database of another server. `statistics` is what was taken over, also if it fails.
///
/// If other settings of this replica have arrived, or rights have changed, a second pull compares everything, so that
/// what was left out before has arrived on return.
pub(super) fn pull_changes(
    target: &TargetDatabase<'_>,
    server: &RemoteServer,
    source: &mut RemoteDatabase<'_>,
    report: &mut ProgressCallback<'_>,
    statistics: &mut PullStatistics,
) -> Result<(), AdminError> {
    let leaves_comparison = pull_once(target, server, source, report, statistics)?;
    // The settings may have arrived just now.
    if !leaves_comparison || settings_for(target.database, &target.itself, server)?.is_disabled {
        return Ok(());
    }
    let mut second = PullStatistics::default();
    let outcome = pull_once(target, server, source, report, &mut second);
    *statistics = match outcome {
        Ok(_) => statistics.followed_by(second),
        // What is left out by then is that of the first one.
        Err(_) => second.followed_by(*statistics),
    };
    outcome.map(drop)
}

/// Returns the settings of a database of this server for another server.
pub(super) fn settings_for(
    database: &Arc<Database>,
    itself: &Arc<Identity>,
    server: &RemoteServer,
) -> Result<ReplicationSettings, AdminError> {
    let reader: Access<level::Reader> = database.authorize(itself)?;
    Ok(reader.read()?.replication_settings(&itself.name, &server.identity.name)?)
}

/// Takes over the changes of a database of another server. Returns `true` if the next pull will compare everything.
fn pull_once(
    target: &TargetDatabase<'_>,
    server: &RemoteServer,
    source: &mut RemoteDatabase<'_>,
    report: &mut ProgressCallback<'_>,
    statistics: &mut PullStatistics,
) -> Result<bool, AdminError> {
    let receiver = Target::new(target.databases, target.database, &target.itself, &server.identity)?;
    let PullOptions { held_back, transfer, bytes_per_second_max, .. } = target.options;
    let clock = target.databases.clock();
    let began = clock.monotonic();
    let receiver = receiver.with_held_back(held_back).with_source_clock(source.clock);
    let receiver =
        receiver.with_unread_marks(source.offers_unread_marks).with_stated_exclusions(source.not_exchanged)?;
    let mut pull = Pull::begin(receiver)?.with_transfer(transfer);
    let step = format!("{}: receiving from {}", source.path, server.label());
    let bytes_before = source.bytes_received();
    while let Some((number, question)) = pull.question() {
        let received = pull.statistics().received;
        let mut wait = |bytes: u64, time_max| {
            let waiting_since = clock.monotonic();
            loop {
                let progress = Progress { step: step.clone(), done: received, total: None, unit: Unit::Notes };
                if report(progress) == ControlFlow::Break(()) {
                    return Err(AdminError::Cancelled);
                }
                let now = clock.monotonic();
                let elapsed = now.saturating_sub(began);
                let early =
                    bytes_per_second_max.map_or(Duration::ZERO, |max| time_left(bytes - bytes_before, max, elapsed));
                if early.is_zero() || now.saturating_sub(waiting_since) >= time_max {
                    return Ok(());
                }
                server.pause(early.min(PAUSE_MAX));
            }
        };
        wait(source.bytes_received(), Duration::MAX)?;
        let mut watch = |bytes| wait(bytes, PIECE_PAUSE_MAX);
        let answer = source.ask(pull.target(), &question, pull.upcoming_question(), &mut watch)?;
        let taken = pull.take(number, answer);
        *statistics = pull.statistics();
        taken?;
    }
    if statistics.held_back > 0 {
        tracing::info!(
            target: "replica",
            database = source.path,
            server = server.label(),
            held_back = statistics.held_back,
            "notes were deleted here so long ago that the deletion is forgotten, and were not received again"
        );
    }
    Ok(pull.leaves_comparison())
}

pub(super) fn disabled_message(path: &str, server: &RemoteServer) -> String {
    format!(
        "{path} was not replicated: its settings here or on {} disable that. `doublet db replication {path} list` shows \
         them.",
        server.label()
    )
}

/// Returns the counts of a run for the log.
pub(super) fn counts_of(statistics: &PullStatistics, bytes: u64) -> Vec<(&'static str, u64)> {
    vec![
        ("Listed", statistics.listed),
        ("Received", statistics.received),
        ("Deleted", statistics.deleted),
        ("Merged", statistics.merged),
        ("Conflicts", statistics.conflicts),
        ("States", statistics.state_only),
        ("Refused", statistics.refused),
        ("LeftOut", statistics.left_out),
        ("Skipped", statistics.skipped),
        ("HeldBack", statistics.held_back),
        ("UnreadMarks", statistics.unread_marks),
        ("BytesReceived", bytes),
    ]
}

pub(super) fn clock_warning(server: &RemoteServer, difference: Duration) -> String {
    let time = match difference.as_secs() {
        seconds @ 0..120 => format!("{seconds} seconds"),
        seconds => format!("{} minutes", seconds / 60),
    };
    format!("the clocks here and of {} differ by {time}; correct the wrong one", server.label())
}

/// What was taken over from a database.
#[derive(Default)]
pub(super) struct PulledDatabase {
    pub(super) path: String,
    pub(super) statistics: PullStatistics,
    pub(super) elapsed: Duration,
    /// The difference of the clocks of both servers.
    pub(super) clock_difference: Duration,
    /// `true` if the settings of one of the replicas exclude it from replication, so nothing was exchanged.
    pub(super) is_disabled: bool,
    /// Number of bytes of lists, notes and attachments that were received.
    pub(super) bytes: u64,
}

impl PulledDatabase {
    pub(super) fn to_row(&self) -> Value {
        let statistics = &self.statistics;
        record(vec![
            ("database", json!(self.path)),
            ("direction", json!("pull")),
            ("listed", json!(statistics.listed)),
            ("received", json!(statistics.received)),
            ("deleted", json!(statistics.deleted)),
            ("merged", json!(statistics.merged)),
            ("conflicts", json!(statistics.conflicts)),
            ("states", json!(statistics.state_only)),
            ("refused", json!(statistics.refused)),
            ("left_out", json!(statistics.left_out)),
            ("skipped", json!(statistics.skipped)),
            ("held_back", json!(statistics.held_back)),
            ("unread_marks", json!(statistics.unread_marks)),
            ("bytes", json!(self.bytes)),
            ("milliseconds", json!(u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX))),
        ])
    }
}
