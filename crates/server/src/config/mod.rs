//! The configuration: one TOML file, read in two stages.
//!
//! First the file becomes a flat list of keys and texts ([`raw`]), then every known key becomes a checked value
//! ([`keys`]). All that is wrong is told at once, each complaint with its line; an unknown key is an error that names the nearest
//! known one. What the file does not say has the default of the table in [`keys`], which is also what
//! `docs/configuration.md` is compared with.
//!
//! Order of precedence: command line (`--set section.key=value`, `--data`), the demo's preset, the file, the default. The
//! environment is not asked.

pub mod keys;
pub mod raw;
pub mod reference;
pub mod setting;
pub mod units;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

pub use keys::{Config, Effective, KEYS, Key, SECTIONS};
pub use raw::Source;

use raw::{Raw, RawValue};

/// Something wrong with the configuration. For the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key it is about; empty when it is about the whole file.
    pub key: String,
    /// The line of the file, where there is one.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl Problem {
    /// Makes a complaint that is about no single key.
    #[must_use]
    pub fn general(text: String) -> Self {
        Self { key: String::new(), line: None, text }
    }

    fn about(key: &str, text: &str) -> Self {
        Self { key: key.to_owned(), line: None, text: text.to_owned() }
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

/// Everything that is wrong with one configuration.
#[derive(Debug, thiserror::Error)]
#[error("the configuration{} is not valid:\n{}", place(.file), lines(.problems))]
pub struct ConfigError {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Where the parts of a configuration come from.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The file.
    pub file: Option<PathBuf>,
    /// Assignments that come before the file's, in the form `section.key=value`.
    pub preset: Vec<String>,
    /// Assignments of the command line.
    pub overrides: Vec<String>,
    /// The data folder of the command line.
    pub data: Option<PathBuf>,
}

impl Source {
    /// Gives the line in the file.
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

/// Reads and checks a configuration.
pub fn load(origin: &Origin) -> Result<Config, ConfigError> {
    let refuse = |problems| ConfigError { file: origin.file.clone(), problems };
    let mut raw = Raw::new();
    merge(&mut raw, &origin.preset, Source::Demo).map_err(refuse)?;
    if let Some(file) = &origin.file {
        let text = read_file(file).map_err(|problem| refuse(vec![problem]))?;
        raw.extend(raw::parse(&text).map_err(refuse)?);
    }
    merge(&mut raw, &origin.overrides, Source::CommandLine).map_err(refuse)?;
    if let Some(data) = &origin.data {
        let texts = vec![data.display().to_string()];
        raw.insert("server.data".to_owned(), RawValue { texts, source: Source::CommandLine });
    }
    let config = Config::check(&raw).map_err(refuse)?;
    let problems = contradictions(&config);
    if problems.is_empty() { Ok(config) } else { Err(refuse(problems)) }
}

fn read_file(file: &Path) -> Result<String, Problem> {
    let length = std::fs::metadata(file).map(|facts| facts.len());
    if length.is_ok_and(|length| length > raw::FILE_BYTES_MAX as u64) {
        return Err(Problem::general(format!("the file is longer than {} bytes", raw::FILE_BYTES_MAX)));
    }
    std::fs::read_to_string(file).map_err(|error| Problem::general(format!("the file cannot be read: {error}")))
}

fn merge(raw: &mut Raw, assignments: &[String], source: Source) -> Result<(), Vec<Problem>> {
    for assignment in assignments {
        let (key, value) = raw::parse_assignment(assignment, source).map_err(|problem| vec![problem])?;
        raw.insert(key, value);
    }
    Ok(())
}

/// Finds values that are right by themselves but not together.
fn contradictions(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let tls = &config.tls;
    if tls.certificate.0.is_some() != tls.key.0.is_some() {
        problems.push(Problem::about("tls", "certificate and key belong together: set both or neither"));
    }
    if config.router.retry_first > config.router.retry_max {
        problems.push(Problem::about("router.retry_first", "may not be longer than router.retry_max"));
    }
    if !config.router.smart_host_user.is_empty() && config.router.smart_host_password_file.0.is_none() {
        problems.push(Problem::about("router.smart_host_user", "set smart_host_password_file as well"));
    }
    problems
}

/// Says that a key is unknown, and which was probably meant.
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
