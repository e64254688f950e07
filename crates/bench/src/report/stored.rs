//! A stored report, read again from its directory: `report.json`, the histograms, the samples and the settings.
//!
//! A directory may come from another machine. So its files have maximum lengths, times are checked before blocks are
//! formed, and histograms of verbs and classes that the report does not have are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::model::{FORMAT, Phases, Report, Times};
use super::samples::{self, DamagedLine, SampleValue};
use crate::compare::spreads::{Spreads, is_response};
use crate::record::histograms::Kind;
use crate::record::log::{LogError, LogReader, LoggedHistogram, TagSubject};

/// Maximum length of `report.json`, and of `samples.csv`.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of verbs and classes of a report, and of its levels.
const ACTIONS_MAX: usize = 512;
const LEVELS_MAX: usize = 64;
/// The longest time of a run, and the shortest measured interval: a block of it has a microsecond.
const RUN_US_MAX: u64 = 366 * 24 * 3_600_000_000;
const MEASURED_US_MIN: u64 = 12;

/// A report with its raw data.
#[derive(Debug)]
pub struct StoredReport {
    /// The report.
    pub report: Report,
    /// The blocks of its measured intervals.
    pub spreads: Spreads,
    /// The samples, or nothing if the directory has no file of them.
    pub samples: Vec<SampleValue>,
    /// The settings of the server, if the driver has started it and the directory has their file.
    pub settings: Option<ServerSettings>,
}

/// The settings of a server, by key. Paths below its folder do not name the folder, which is another one in each run.
pub type ServerSettings = BTreeMap<String, String>;

/// Why a directory cannot be read as a report.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file is larger than a report's.
    #[error("{} is larger than 64 MiB", .0.display())]
    TooLarge(PathBuf),
    /// The report has another format.
    #[error("{} has the format {found}; this program reads the format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The report is damaged.
    #[error("{} is not a report: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The histograms cannot be read.
    #[error("{}: {source}", path.display())]
    Histograms {
        /// The file.
        path: PathBuf,
        /// The error.
        source: LogError,
    },
    /// The settings of the server cannot be read.
    #[error("{} is no configuration: {reason}", path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The samples cannot be read.
    #[error("{}: {source}", path.display())]
    Samples {
        /// The file.
        path: PathBuf,
        /// The error.
        source: DamagedLine,
    },
}

impl StoredReport {
    /// Reads a directory.
    ///
    /// # Errors
    ///
    /// If a file is missing, too large, damaged, or of another format. `samples.csv` and `server.toml` may be missing.
    pub fn read(folder: &Path) -> Result<Self, StoredError> {
        let report = read_report(&folder.join("report.json"))?;
        let spreads = read_histograms(&folder.join("histograms.hlog"), &report)?;
        let samples = read_samples(&folder.join("samples.csv"))?;
        Ok(Self { report, spreads, samples, settings: read_settings(&folder.join("server.toml"))? })
    }

    /// Returns the report with the times of the headline and of the verbs computed again from the histograms.
    pub fn recomputed(&self) -> Report {
        let mut report = self.report.clone();
        for (number, phases) in (1..).zip(&self.report.phases) {
            let Some(blocks) = self.spreads.level(number) else { continue };
            for level in report.headline.iter_mut().flatten().filter(|level| level.users == phases.users) {
                level.response = Times::of_histogram(&blocks.sum(is_response));
                if let Some(response) = &mut level.response {
                    response.spread = self.spreads.of_all(number, response.mean_us);
                }
            }
            for figures in report.verbs.iter_mut().filter(|figures| figures.users == phases.users) {
                let subject =
                    |kind| TagSubject::Steps { verb: figures.verb.clone(), class: figures.class.clone(), kind };
                let [response, service] = [subject(Kind::Response), subject(Kind::Service)];
                figures.response = Times::of_histogram(&blocks.sum(|subject| *subject == response));
                figures.service = Times::of_histogram(&blocks.sum(|subject| *subject == service));
                if let Some(response) = &mut figures.response {
                    response.spread = self.spreads.of_verb(number, &figures.verb, &figures.class, response.mean_us);
                }
            }
        }
        report
    }
}

fn read_text(path: &Path) -> Result<String, StoredError> {
    let failed = |source| StoredError::Io { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(StoredError::TooLarge(path.to_owned()));
    }
    Ok(text)
}

fn read_report(path: &Path) -> Result<Report, StoredError> {
    let malformed = |reason: String| StoredError::Malformed { path: path.to_owned(), reason };
    let text = read_text(path)?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    match value["format"].as_u64() {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(found) => return Err(StoredError::Format { path: path.to_owned(), found }),
        None => return Err(malformed("it has no format".to_owned())),
    }
    let report: Report = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
    check(&report).map_err(|reason| malformed(reason.to_owned()))?;
    Ok(report)
}

/// Checks what the reading of the histograms relies on.
fn check(report: &Report) -> Result<(), &'static str> {
    if report.phases.len() > LEVELS_MAX || report.verbs.len() > ACTIONS_MAX * LEVELS_MAX {
        return Err("it has too many levels or verbs");
    }
    let mut intervals = report.phases.iter().filter_map(|phases| phases.measure_start_us.zip(phases.measure_end_us));
    let is_interval = |(start, end): (u64, u64)| {
        end <= RUN_US_MAX && end.checked_sub(start).is_some_and(|length| length >= MEASURED_US_MIN)
    };
    if !intervals.all(is_interval) {
        return Err("a measured interval has no length");
    }
    Ok(())
}

/// Returns the measured interval of a level.
fn measured(phases: &Phases) -> Option<Range<Duration>> {
    Some(Duration::from_micros(phases.measure_start_us?)..Duration::from_micros(phases.measure_end_us?))
}

fn read_histograms(path: &Path, report: &Report) -> Result<Spreads, StoredError> {
    let failed = |source| StoredError::Histograms { path: path.to_owned(), source };
    let file = File::open(path).map_err(|source| StoredError::Io { path: path.to_owned(), source })?;
    let known: BTreeSet<(&str, &str)> =
        report.verbs.iter().map(|row| (row.verb.as_str(), row.class.as_str())).collect();
    let is_known = |logged: &LoggedHistogram| match &logged.tag.subject {
        TagSubject::Steps { verb, class, .. } => known.contains(&(verb.as_str(), class.as_str())),
        TagSubject::Lateness => true,
    };
    let histograms = LogReader::new(BufReader::new(file)).filter(|logged| logged.as_ref().map_or(true, is_known));
    let measured: Vec<_> = report.phases.iter().map(measured).collect();
    Spreads::collect(histograms, &measured).map_err(failed)
}

fn read_settings(path: &Path) -> Result<Option<ServerSettings>, StoredError> {
    let text = match read_text(path) {
        Err(StoredError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let reason = error.message().to_owned();
        StoredError::Settings { path: path.to_owned(), reason }
    })?;
    let data = table.get("server").and_then(|server| server.get("data")?.as_str());
    let folder = data.and_then(|data| Path::new(data).parent()).and_then(Path::to_str).unwrap_or_default().to_owned();
    let mut settings = ServerSettings::new();
    for (section, values) in table {
        let toml::Value::Table(values) = values else { continue };
        settings.extend(values.into_iter().map(|(key, value)| {
            let value = value.as_str().map_or_else(|| format!("{value:?}"), str::to_owned);
            let value = if folder.is_empty() { value } else { value.replace(&folder, "") };
            (format!("{section}.{key}"), value)
        }));
    }
    Ok(Some(settings))
}

fn read_samples(path: &Path) -> Result<Vec<SampleValue>, StoredError> {
    match read_text(path) {
        Err(StoredError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(text) => samples::parse(&text).map_err(|source| StoredError::Samples { path: path.to_owned(), source }),
    }
}
