//! The configuration: one TOML file, read in two stages.
//!
//! The first stage turns the file into a flat list of keys and texts ([`raw`]). The second turns every known key into a
//! checked value ([`keys`]). All problems are reported at once, each with its line; an unknown key is an error that
//! names the most similar known key. A key that is not set has its default from the table in [`keys`]; a test compares
//! `docs/configuration.md` with the same table.
//!
//! Order of precedence: the command line (`--set section.key=value`, `--data`), the file, the demo's preset, the
//! default. Environment variables are not read.

mod contradictions;
pub mod keys;
pub mod raw;
pub mod reference;
pub mod setting;
pub mod units;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

pub use keys::{Config, Effective, KEYS, Key, SECTIONS, Section};
pub use raw::Source;

use raw::{RawValue, RawValues};

use crate::limits::CONFIGURATION_BYTES_MAX;

/// A problem with the configuration, reported to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key; empty if the problem concerns the whole file.
    pub key: String,
    /// The line in the file, or `None` if the value does not come from the file.
    pub line: Option<usize>,
    /// The description of the problem, and of what would be valid.
    pub text: String,
}

impl Problem {
    /// Creates a problem that concerns no single key.
    #[must_use]
    pub fn general(text: String) -> Self {
        Self { key: String::new(), line: None, text }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// All problems of one configuration.
#[derive(Debug, thiserror::Error)]
#[error("the configuration{} is not valid:\n{}", place(.file), lines(.problems))]
pub struct ConfigError {
    /// The configuration file, or `None` if there is none.
    pub file: Option<PathBuf>,
    /// The problems, in the order of the file.
    pub problems: Vec<Problem>,
}

/// The sources from which a configuration is loaded.
#[derive(Debug, Clone, Default)]
pub struct ConfigSources {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Preset assignments of the form `section.key=value`, which the file overrides.
    pub preset: Vec<String>,
    /// Assignments given on the command line.
    pub overrides: Vec<String>,
    /// The data folder given on the command line.
    pub data: Option<PathBuf>,
}

impl Source {
    /// Returns the line in the file, or `None` if the value does not come from the file.
    #[must_use]
    pub fn line(self) -> Option<usize> {
        match self {
            Self::File(line) => Some(line),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line) => write!(f, "file, line {line}"),
            Self::CommandLine => f.write_str("command line"),
            Self::Demo => f.write_str("demo"),
        }
    }
}

/// Reads and checks a configuration. If it is not valid, the error lists all problems in the order of the file.
pub fn load(origin: &ConfigSources) -> Result<Config, ConfigError> {
    let refuse = |problems| ConfigError { file: origin.file.clone(), problems };
    let mut raw = RawValues::new();
    let mut problems = Vec::new();
    merge(&mut raw, &origin.preset, Source::Demo, &mut problems);
    if let Some(file) = &origin.file {
        let text = read_file(file).map_err(|problem| refuse(vec![problem]))?;
        let read = raw::parse(&text).map_err(|problem| refuse(vec![problem]))?;
        raw.extend(read.raw);
        problems.extend(read.problems);
        problems.extend(unknown_sections(&read.empty_sections));
    }
    merge(&mut raw, &origin.overrides, Source::CommandLine, &mut problems);
    if let Some(data) = &origin.data {
        let texts = vec![data.display().to_string()];
        raw.insert("server.data".to_owned(), RawValue { texts, source: Source::CommandLine });
    }
    let (config, wrong) = Config::check(&raw);
    problems.extend(wrong);
    let contradictions = contradictions::check(&config, &problems);
    problems.extend(contradictions);
    problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
    if problems.is_empty() { Ok(config) } else { Err(refuse(problems)) }
}

fn read_file(file: &Path) -> Result<String, Problem> {
    let length = std::fs::metadata(file).map(|facts| facts.len());
    if length.is_ok_and(|length| length > CONFIGURATION_BYTES_MAX as u64) {
        return Err(Problem::general(format!("the file is longer than {} bytes", CONFIGURATION_BYTES_MAX)));
    }
    std::fs::read_to_string(file).map_err(|error| Problem::general(format!("the file cannot be read: {error}")))
}

fn merge(raw: &mut RawValues, assignments: &[String], source: Source, problems: &mut Vec<Problem>) {
    for assignment in assignments {
        match raw::parse_assignment(assignment, source) {
            Ok((key, value)) => {
                raw.insert(key, value);
            }
            Err(problem) => problems.push(problem),
        }
    }
}

/// Returns a problem for each empty section that does not exist. An unknown section that has keys is reported key by
/// key instead.
fn unknown_sections(empty: &[(String, usize)]) -> Vec<Problem> {
    let unknown = empty.iter().filter(|(name, _)| SECTIONS.iter().all(|section| section.name != name));
    unknown
        .map(|(name, line)| {
            let near = |section: &&Section| (strsim::jaro_winkler(name, section.name) * 1_000.0) as u32;
            let text = match SECTIONS.iter().max_by_key(near).filter(|section| near(section) > 800) {
                Some(section) => format!("there is no such section; did you mean [{}]?", section.name),
                None => "there is no such section; `doublet config keys` lists all".to_owned(),
            };
            Problem { key: format!("[{name}]"), line: Some(*line), text }
        })
        .collect()
}

/// Returns the text of the error for an unknown key, with the most similar known key.
fn suggest(name: &str) -> String {
    let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let near = |key: &&Key| {
        let whole = strsim::jaro_winkler(name, key.name);
        let part = name.rsplit('.').next().map_or(0.0, |own| strsim::jaro_winkler(own, last(key.name)) * 0.95);
        (whole.max(part) * 1_000.0) as u32
    };
    match KEYS.iter().max_by_key(near).filter(|key| near(key) > 800) {
        Some(key) => format!("there is no such key; did you mean {}?", key.name),
        None => "there is no such key; `doublet config keys` lists all".to_owned(),
    }
}

fn place(file: &Option<PathBuf>) -> String {
    file.as_ref().map(|file| format!(" {}", file.display())).unwrap_or_default()
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}
