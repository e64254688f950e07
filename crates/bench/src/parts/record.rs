//! What a part has measured, as it is stored (`part.json`) and sent: everything but its histograms.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LOG_FILE, PARTS_MAX, PartsError, RECORD_FILE};
use crate::driver::observer::BorderRecord;
use crate::driver::options::RunOptions;
use crate::driver::outcome::{CoreCounts, RunFacts};
use crate::engine::run::{LEVELS_MAX, LevelOutcome, Outcome, RunEnd};
use crate::record::counters::VerbCounts;
use crate::record::histograms::Phase;
use crate::record::log::Labels;
use crate::report::model::{Machine, ServerProgram};
use crate::report::verdict::IncompletePart;
use crate::target::disk::DataDisk;

/// Version of the format.
pub const FORMAT: u32 = 1;
/// Maximum length of the file.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of borders of a run.
const BORDERS_MAX: usize = 200_000;

/// The counts of a verb and class in a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountRow {
    /// The verb.
    pub verb: String,
    /// The user class.
    pub class: String,
    /// The level of the measured interval, or `None` outside of all of them.
    pub level: Option<u8>,
    /// The counts.
    pub counts: VerbCounts,
}

/// The errors of a verb and code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRow {
    /// The verb.
    pub verb: String,
    /// The code.
    pub code: String,
    /// How many there were.
    pub count: u64,
    /// The first one.
    pub first: String,
}

/// What a part has measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartRecord {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of the driver.
    pub version: String,
    /// The number of the part; 1 is the coordinator.
    pub part: u64,
    /// The options of the run, which are those of all parts.
    pub options: RunOptions,
    /// The digest of the workload file.
    pub workload: String,
    /// When the run began, in microseconds since 1970.
    pub started_us: i64,
    /// The command, without secrets.
    pub command: String,
    /// Why the run ended.
    pub end: RunEnd,
    /// When the last user had logged out.
    pub ended_at: Duration,
    /// The levels.
    pub levels: Vec<LevelOutcome>,
    /// The counts.
    pub counts: Vec<CountRow>,
    /// The errors.
    pub errors: Vec<ErrorRow>,
    /// Times that were above the maximum of histograms.
    pub cut: u64,
    /// What was observed at the borders.
    pub borders: Vec<BorderRecord>,
    /// The disk of the data folder.
    pub disk: DataDisk,
    /// The runs that the mail files have had before.
    pub runs_before: u64,
    /// The cores of driver and server.
    pub cores: CoreCounts,
    /// The machine.
    pub machine: Machine,
    /// An identifier of the machine, by which parts on the same one are known.
    pub machine_id: String,
    /// The largest number of open files, if the system tells it.
    pub open_files_max: Option<u64>,
    /// The driver has reached its limit of open files.
    pub is_out_of_files: bool,
    /// The largest memory of the driver, if the system tells it.
    pub memory_bytes_max: Option<u64>,
    /// The machine has swapped.
    pub has_swapped: bool,
    /// The driver has started the server.
    pub is_started_server: bool,
    /// The settings of that server on the command line, as `KEY=VALUE`.
    #[serde(default)]
    pub server_settings: Vec<String>,
    /// The program of the server, if it is known.
    #[serde(default)]
    pub server_program: Option<ServerProgram>,
    /// By how much the clocks of two parts may differ, if this is the coordinator.
    pub clock_difference: Option<Duration>,
    /// Parts that ended before the run, if this is the coordinator.
    #[serde(default)]
    pub incomplete: Vec<IncompletePart>,
}

/// What a part is.
#[derive(Debug, Clone)]
pub struct PartIdentity {
    /// The number of the part.
    pub part: u64,
    /// The options of the run.
    pub options: RunOptions,
    /// The digest of the workload file.
    pub workload: String,
    /// An identifier of the machine.
    pub machine_id: String,
    /// By how much the clocks of two parts may differ, if this is the coordinator.
    pub clock_difference: Option<Duration>,
    /// Parts that ended before the run, if this is the coordinator.
    pub incomplete: Vec<IncompletePart>,
}

impl PartRecord {
    /// Creates the record of a part that has ended.
    pub fn new<W>(identity: PartIdentity, labels: &Labels, outcome: &Outcome<W>, facts: &RunFacts) -> Self {
        let PartIdentity { part, options, workload, machine_id, clock_difference, incomplete } = identity;
        let recording = &outcome.recording;
        let verb = |index: u16| labels.verbs[usize::from(index)].clone();
        let counts = recording.counts.iter().map(|(action, phase, counts)| CountRow {
            verb: verb(action.verb.0),
            class: labels.classes[usize::from(action.class.0)].clone(),
            level: match phase {
                Phase::Measured(level) => Some(level),
                Phase::Other => None,
            },
            counts: *counts,
        });
        let errors = recording.errors.iter().map(|(index, code, errors)| ErrorRow {
            verb: verb(index.0),
            code: code.to_owned(),
            count: errors.count,
            first: errors.first.clone(),
        });
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            part,
            options,
            workload,
            started_us: facts.started.0,
            command: facts.command.clone(),
            end: outcome.end,
            ended_at: outcome.ended_at,
            levels: outcome.levels.clone(),
            counts: counts.collect(),
            errors: errors.collect(),
            cut: recording.histograms.cut(),
            borders: facts.record.borders.clone(),
            disk: facts.record.disk.clone(),
            runs_before: facts.runs_before,
            cores: facts.cores,
            machine: facts.machine.clone(),
            machine_id,
            open_files_max: facts.record.open_files_max,
            is_out_of_files: facts.is_out_of_files,
            memory_bytes_max: facts.memory_bytes_max,
            has_swapped: facts.has_swapped,
            is_started_server: facts.is_started_server,
            server_settings: facts.server_settings.clone(),
            server_program: facts.server_program.clone(),
            clock_difference,
            incomplete,
        }
    }

    /// Returns when the run began.
    pub fn started(&self) -> Timestamp {
        Timestamp(self.started_us)
    }
}

/// The record of a part with the file of its histograms.
#[derive(Debug)]
pub struct StoredPart {
    /// The record.
    pub record: PartRecord,
    /// The file of its histograms.
    pub log: PathBuf,
}

impl StoredPart {
    /// Writes the record of a part into its directory.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(folder: &Path, record: PartRecord) -> Result<Self, PartsError> {
        let path = folder.join(RECORD_FILE);
        let failed = |error: &dyn std::fmt::Display| PartsError::of_file(&path, error);
        let text = serde_json::to_string(&record).map_err(|error| failed(&error))?;
        std::fs::write(&path, text).map_err(|error| failed(&error))?;
        Ok(Self { record, log: folder.join(LOG_FILE) })
    }

    /// Reads the directory of a part.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is too large, or is no record of this version.
    pub fn read(folder: &Path) -> Result<Self, PartsError> {
        let path = folder.join(RECORD_FILE);
        let refused = |reason: &dyn std::fmt::Display| PartsError::of_file(&path, reason);
        let file = std::fs::File::open(&path).map_err(|error| refused(&error))?;
        let mut text = String::new();
        file.take(RECORD_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| refused(&error))?;
        if text.len() as u64 > RECORD_BYTES_MAX {
            return Err(refused(&"it is longer than 64 MiB"));
        }
        let record: PartRecord = serde_json::from_str(&text).map_err(|error| refused(&error))?;
        check(&record).map_err(|reason| refused(&reason))?;
        Ok(Self { record, log: folder.join(LOG_FILE) })
    }
}

/// Checks what merging relies on.
fn check(record: &PartRecord) -> Result<(), &'static str> {
    let times = record.levels.iter().filter_map(|level| level.times.measured.as_ref());
    let rules = [
        (record.format == FORMAT, "it has another format"),
        (record.version == env!("CARGO_PKG_VERSION"), "it is of another version"),
        ((1..=PARTS_MAX).contains(&record.options.parts), "it has too many parts"),
        ((1..=record.options.parts).contains(&record.part), "it is none of the parts of its run"),
        (!record.levels.is_empty() && record.levels.len() <= LEVELS_MAX, "it has no levels, or too many"),
        (record.borders.len() <= BORDERS_MAX, "it has too many samples"),
        (times.clone().all(|measured| measured.start < measured.end), "a measured interval has no length"),
    ];
    rules.into_iter().find(|(is_kept, _)| !is_kept).map_or(Ok(()), |(_, reason)| Err(reason))
}
