//! The report of a run as it is stored: `report.json`, of the format that docs/notesbench-report.schema.json describes.
//!
//! Durations are whole microseconds and end in `_us`; times of phases count from the start signal. A figure that is not
//! known is `null` and never 0.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::published::PublishedRow;
use super::verdict;
use crate::record::histograms::TimeHistogram;

/// Version of the format. It is raised when a reader of the old one would misread the new one.
pub const FORMAT: u32 = 1;

const BYTES_PER_MB: f64 = 1_048_576.0;
const BYTES_PER_GB: f64 = 1_073_741_824.0;
/// What people read instead of a figure that the system does not tell.
const UNKNOWN: &str = "not known";

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// What the figures are worth.
    pub state: State,
    /// Names the workload, the users, and everything that was changed or scaled down.
    pub title: String,
    /// What was run.
    pub run: Run,
    /// The workload.
    pub workload: Workload,
    /// The phases of each level.
    pub phases: Vec<Phases>,
    /// The headline figures of each level with a measured interval, or `None` unless there was steady state.
    pub headline: Option<Vec<Headline>>,
    /// The verbs of each level and class, in the measured interval.
    pub verbs: Vec<VerbFigures>,
    /// By verb and class, over all phases.
    #[serde(default)]
    pub whole_run: Vec<StepCounts>,
    /// What was not played.
    pub left_out: Vec<LeftOut>,
    /// The conditions of the workload on the server.
    pub requirements: Vec<Requirement>,
    /// The errors by verb and code.
    pub errors: Vec<ErrorFigures>,
    /// The driver.
    pub driver: Driver,
    /// What the server consumed.
    pub server: Server,
    /// Rows of the articles.
    pub published: Vec<PublishedRow>,
    /// The samples.
    pub samples: Vec<SampleFigures>,
    /// What mail files and other databases had before the run.
    pub population: Population,
    /// The machine of the driver.
    pub machine: Machine,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The worst state that applies.
    pub name: String,
    /// Why, the worst reason first.
    pub reasons: Vec<Remark>,
    /// What a reader should know besides.
    pub warnings: Vec<Remark>,
}

/// A rule that a run does not keep, or a warning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remark {
    /// The word by which programs know the rule.
    pub rule: String,
    /// The remark for people.
    pub text: String,
    /// The figure, if the rule has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The users of the level that it concerns, if it does not concern all levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<u64>,
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// When the run began.
    pub started: String,
    /// The command, without secrets.
    pub command: String,
    /// The version of the driver.
    pub version: String,
    /// The commit of the driver.
    pub commit: String,
    /// The seed.
    pub seed: u64,
    /// The digest of the plan.
    pub plan: String,
    /// The users of each level.
    pub users: Vec<u64>,
    /// The users that share a connection.
    pub users_per_connection: u64,
    /// By how much the times of the plan were divided.
    pub speedup: f64,
    /// Pauses began when the previous step had ended.
    pub closed: bool,
    /// The protocols.
    pub door: String,
    /// The servers between which the users were divided.
    #[serde(default = "crate::target::by_server::one_server")]
    pub servers: u64,
    /// The processes of the driver.
    pub parts: u64,
    /// The version of the weights.
    pub transactions_version: u32,
    /// The iterations of each user, if `--iterations` states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// The user numbers from which recipients are drawn, if `--recipients` states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipients: Option<[u64; 2]>,
    /// From the connection of one user to that of the next, at speed 1. Older reports do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_us: Option<u64>,
    /// The longest time of a step. Older reports do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_us: Option<u64>,
    /// The program of the server, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerProgram>,
}

/// The program of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerProgram {
    /// What it prints as its version. That of a server that ran already is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The SHA-256 digest of its file, which tells builds of a version apart.
    pub digest: String,
}

impl Run {
    /// Describes the program of the server for people.
    pub fn describe_server(&self) -> String {
        match &self.server {
            Some(ServerProgram { version: Some(version), digest }) => format!("{version}, SHA-256 {digest}"),
            Some(ServerProgram { version: None, digest }) => format!("version {UNKNOWN}, SHA-256 {digest}"),
            None => UNKNOWN.to_owned(),
        }
    }
}

/// The workload of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The name.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// More about it.
    #[serde(default)]
    pub about: String,
    /// The digest of the file.
    pub digest: String,
    /// The parameters with their values in this run.
    pub parameters: serde_json::Value,
    /// Every number of the file with its sources.
    pub numbers: Vec<NumberSource>,
    /// The meaning of the tags of these sources.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// What is promised of a user.
    pub promised: Promised,
}

/// A number of a workload file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberSource {
    /// The key with the tables around it.
    pub key: String,
    /// The value.
    pub value: serde_json::Value,
    /// The tags of its sources.
    pub sources: Vec<String>,
}

/// What a workload promises of a user, on average over all classes, at speed 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Promised {
    /// The actions of an hour. Of an unpaced workload: none.
    pub by_verb: BTreeMap<String, f64>,
    /// The messages of an hour.
    pub sent: f64,
    /// The messages that are received in an hour.
    pub received: f64,
    /// The transactions of a minute.
    pub transactions_per_minute: f64,
}

/// The phases of a level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// The users of the level.
    pub users: u64,
    /// All users had completed an iteration.
    pub ramp_up_end_us: Option<u64>,
    /// The steady state began.
    pub steady_us: Option<u64>,
    /// The measured interval began.
    pub measure_start_us: Option<u64>,
    /// The measured interval ended.
    pub measure_end_us: Option<u64>,
    /// The level ended.
    pub end_us: Option<u64>,
}

/// The headline figures of a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// The users of the level.
    pub users: u64,
    /// The largest number of connected users at a border.
    pub users_connected_max: u64,
    /// `NotesMark`, or `NotesMark (partial)` if something was left out.
    pub figure: String,
    /// The transactions of a minute of all users.
    pub notesmark: f64,
    /// What the steps that were played promise, or `None` if they have no pauses or a number of iterations.
    pub notesmark_promised: Option<f64>,
    /// The share of the transactions whose steps made no call.
    pub transactions_without_call: f64,
    /// The response of all steps that made calls or did not begin.
    pub response: Option<Times>,
    /// Steps that failed.
    pub errors: u64,
    /// Steps that were due.
    pub steps_due: u64,
    /// Those of them that ended in the interval.
    pub steps_ended: u64,
}

/// The figures of a verb and class in a measured interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerbFigures {
    /// The users of the level.
    pub users: u64,
    /// The verb.
    pub verb: String,
    /// The user class.
    pub class: String,
    /// Steps that were due.
    pub due: u64,
    /// Those of `due` that ended in the interval.
    pub ended: u64,
    /// Those of `due` that failed.
    pub failed: u64,
    /// Those of `due` that were skipped for want of a document.
    pub skipped: u64,
    /// Those of `due` that did not begin.
    pub not_begun: u64,
    /// Transactions of the steps that ended in the interval without an error.
    pub transactions: u64,
    /// Requests on the wire.
    pub calls: u64,
    /// From the intended time to the end.
    pub response: Option<Times>,
    /// From the real start to the end.
    pub service: Option<Times>,
}

/// Times of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many there were.
    pub count: u64,
    /// The mean.
    pub mean_us: u64,
    /// The median.
    pub p50_us: u64,
    /// The 95th percentile.
    pub p95_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The largest.
    pub max_us: u64,
    /// Half the width of the 95 % interval of the mean, as a share of the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
}

impl Times {
    /// Reads the figures from a histogram. Returns `None` without any time.
    pub fn of_histogram(histogram: &TimeHistogram) -> Option<Self> {
        Some(Self {
            count: histogram.count(),
            mean_us: histogram.mean_us()?.round() as u64,
            p50_us: histogram.percentile_us(50.0)?,
            p95_us: histogram.percentile_us(95.0)?,
            p99_us: histogram.percentile_us(99.0)?,
            max_us: histogram.max_us()?,
            spread: None,
        })
    }
}

/// Something that was not played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The verb, or the activity beside the users.
    pub name: String,
    /// `verb` or `part`.
    pub kind: String,
    /// Why.
    pub reason: String,
    /// The share of the transactions of the workload, or `None` for activities.
    pub share: Option<f64>,
}

/// A condition of the workload on the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Its name in the workload file.
    pub name: String,
    /// Whether the server meets it, if that is known.
    pub met: Option<bool>,
}

/// The errors of a verb with the same code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorFigures {
    /// The verb.
    pub verb: String,
    /// The code.
    pub code: String,
    /// How many there were.
    pub count: u64,
    /// The text of the first one.
    pub first: String,
}

/// The driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Driver {
    /// How late steps began whose user was idle.
    pub lateness: Option<Times>,
    /// The part whose lateness this is, if there are several: the one with the largest 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_part: Option<u64>,
    /// The share of its cores that it used in the measured intervals, the largest of all levels and parts.
    pub processor_share: Option<f64>,
    /// Why the share is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_share_missing: Option<String>,
    /// Its cores.
    pub cores: u64,
    /// It was bound to some of the cores.
    pub pinned: bool,
    /// The largest memory, if the system tells it: of several parts, that of all together.
    pub memory_bytes_max: Option<u64>,
    /// The largest number of open files, if the system tells it.
    pub open_files_max: Option<u64>,
    /// Requests on the wire.
    pub calls: Calls,
}

/// Requests on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Those that the driver counted.
    pub driver: u64,
    /// Those that the server counted, if it tells their number.
    pub server: Option<u64>,
}

/// What the server consumed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Rows with the names of the articles' tables.
    pub rows: Vec<Row>,
    /// Rows that are missing, with the reason.
    pub missing: Vec<MissingRow>,
}

/// A row about the server, over the measured interval of a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The users of the level.
    pub users: u64,
    /// The name.
    pub resource: String,
    /// The unit.
    pub unit: String,
    /// The mean.
    pub mean: f64,
    /// The smallest value of a sample.
    pub min: f64,
    /// The largest value of a sample.
    pub max: f64,
    /// Where the values come from.
    pub origin: String,
}

/// A row that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRow {
    /// The name.
    pub resource: String,
    /// Why.
    pub reason: String,
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleFigures {
    /// When it ended.
    pub end_us: u64,
    /// Users connected at its end.
    pub users_connected: u64,
    /// Steps that ended.
    pub steps_ended: u64,
    /// Steps that failed.
    pub steps_failed: u64,
    /// Transactions of the steps that ended without an error.
    pub transactions: u64,
    /// The mean response.
    pub response_mean_us: Option<u64>,
}

/// The steps of a verb and class in all phases of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCounts {
    /// The verb.
    pub verb: String,
    /// The class.
    pub class: String,
    /// Steps that were due.
    pub due: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were skipped for want of a document.
    pub skipped: u64,
    /// Those that had not begun when the run ended.
    pub not_begun: u64,
    /// Requests on the wire.
    pub calls: u64,
}

/// What mail files and other databases had before the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Population {
    /// The seed.
    pub seed: u64,
    /// The people.
    pub people: u64,
    /// The documents of an inbox.
    pub documents: u64,
    /// The documents of the archive of a mail file.
    #[serde(default)]
    pub archive: u64,
    /// The factor by which they were made smaller.
    pub size_scale: f64,
    /// Mail files that were filled; `None` if all were.
    pub masters: Option<u64>,
    /// The share of the documents of copied mail files that were changed; `None` if none were copied.
    #[serde(default)]
    pub own: Option<f64>,
    /// Bytes that several messages share, as they are expected; `None` if that is not known.
    pub shared_bytes: Option<u64>,
    /// The runs that had changed the mail files before.
    #[serde(default)]
    pub runs_before: u64,
    /// The databases that are no mail files.
    #[serde(default)]
    pub databases: Vec<Databases>,
}

/// The databases of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Databases {
    /// The name of the kind.
    pub name: String,
    /// How many there are.
    pub count: u64,
    /// The documents of each.
    pub documents: u64,
    /// The documents that the workload states.
    pub documents_stated: u64,
}

/// The machine of the driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its cores.
    pub cores: u64,
    /// The name of the processor.
    pub processor: String,
    /// Its memory, if the system tells it.
    pub memory_bytes: Option<u64>,
    /// The name and version of the kernel.
    pub kernel: String,
    /// The file system of the data folder, or `unknown` if the folder of the server is not known.
    pub file_system: String,
    /// The load before the run, divided by the cores, if the system tells it.
    pub load_before: Option<f64>,
}

impl Driver {
    /// Describes the share of its cores for people, or says why it is not known.
    pub fn describe_processor(&self) -> String {
        match self.processor_share {
            Some(share) => format!("{:.1} % of {} cores{}", share * 100.0, self.cores, self.describe_binding()),
            None => format!("not known: {}", self.processor_share_missing.as_deref().unwrap_or("no reason is stated")),
        }
    }

    fn describe_binding(&self) -> &'static str {
        if self.pinned { " of its own; the server had the others" } else { "" }
    }

    /// Describes the largest memory for people.
    pub fn describe_memory(&self) -> String {
        let known = |bytes| format!("at most {:.0} MB", bytes as f64 / BYTES_PER_MB);
        self.memory_bytes_max.map_or_else(|| UNKNOWN.to_owned(), known)
    }

    /// Describes the largest number of open files for people.
    pub fn describe_open_files(&self) -> String {
        self.open_files_max.map_or_else(|| UNKNOWN.to_owned(), |files| format!("at most {files}"))
    }
}

impl Machine {
    /// Describes the memory for people.
    pub fn describe_memory(&self) -> String {
        let known = |bytes| format!("{:.0} GB", bytes as f64 / BYTES_PER_GB);
        self.memory_bytes.map_or_else(|| format!("memory {UNKNOWN}"), known)
    }
}

impl Databases {
    /// Describes them for people.
    pub fn describe(&self) -> String {
        let Self { name, count, documents, documents_stated } = self;
        let stated =
            if documents == documents_stated { String::new() } else { format!(" instead of {documents_stated}") };
        format!("{count} databases {name} with {documents} documents each{stated}")
    }
}

impl State {
    /// Converts a verdict.
    pub fn of_verdict(verdict: &verdict::Verdict) -> Self {
        let remarks = |remarks: &[verdict::Remark]| remarks.iter().map(Remark::of_verdict).collect();
        Self {
            name: verdict.state.name().to_owned(),
            reasons: remarks(&verdict.reasons),
            warnings: remarks(&verdict.warnings),
        }
    }
}

impl Remark {
    fn of_verdict(remark: &verdict::Remark) -> Self {
        let verdict::Remark { rule, text, value, limit, users } = remark.clone();
        Self { rule: rule.to_owned(), text, value, limit, users }
    }
}

/// Returns a time in whole microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
