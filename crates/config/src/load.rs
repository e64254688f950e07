//! Loading of a configuration: both stages, and the checks of all values together.

use std::path::{Path, PathBuf};

use crate::keys::{Config, ConfigKey, ConfigSection, KEYS, SECTIONS};
use crate::limits::CONFIGURATION_BYTES_MAX;
use crate::problem::{ConfigError, Problem};
use crate::raw::{RawConfig, RawValue, ValueSource};
use crate::renamed_keys::{RENAMED, rename_keys};

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

/// Reads and checks a configuration. If it is not valid, the error lists all problems in the order of the file.
pub fn load(sources: &ConfigSources) -> Result<Config, ConfigError> {
    let refuse = |problems| ConfigError { file: sources.file.clone(), problems };
    let mut raw = RawConfig::new();
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    // Old names are replaced in each source, so that the precedence of the sources holds for both names.
    let mut add = |mut values: RawConfig, problems: &mut Vec<Problem>| {
        let report = rename_keys(&mut values, RENAMED);
        warnings.extend(report.warnings);
        problems.extend(report.problems);
        raw.extend(values);
    };
    let preset = parse_assignments(&sources.preset, ValueSource::Demo, &mut problems);
    add(preset, &mut problems);
    if let Some(file) = &sources.file {
        let text = read_file(file).map_err(|problem| refuse(vec![problem]))?;
        let read = crate::raw::parse(&text).map_err(|problem| refuse(vec![problem]))?;
        add(read.raw, &mut problems);
        problems.extend(read.problems);
        problems.extend(unknown_sections(&read.empty_sections));
    }
    let overrides = parse_assignments(&sources.overrides, ValueSource::CommandLine, &mut problems);
    add(overrides, &mut problems);
    if let Some(data) = &sources.data {
        let texts = vec![data.display().to_string()];
        raw.insert("server.data".to_owned(), RawValue { texts, source: ValueSource::CommandLine });
    }
    let (mut config, wrong) = Config::check(&raw);
    config.warnings = warnings;
    problems.extend(wrong);
    let contradictions = crate::contradictions::check(&config, &problems);
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

/// Parses assignments of one source. A later assignment of a key replaces an earlier one.
fn parse_assignments(texts: &[String], source: ValueSource, problems: &mut Vec<Problem>) -> RawConfig {
    let mut values = RawConfig::new();
    for text in texts {
        match crate::raw::parse_assignment(text, source) {
            Ok((key, value)) => {
                values.insert(key, value);
            }
            Err(problem) => problems.push(problem),
        }
    }
    values
}

/// Returns a problem for each empty section that does not exist. An unknown section that has keys is reported key by
/// key instead.
fn unknown_sections(empty: &[(String, usize)]) -> Vec<Problem> {
    let unknown = empty.iter().filter(|(name, _)| SECTIONS.iter().all(|section| section.name != name));
    unknown
        .map(|(name, line)| {
            let near = |section: &&ConfigSection| (strsim::jaro_winkler(name, section.name) * 1_000.0) as u32;
            let text = match SECTIONS.iter().max_by_key(near).filter(|section| near(section) > 800) {
                Some(section) => format!("there is no such section; did you mean [{}]?", section.name),
                None => "there is no such section; `doublet config keys` lists all".to_owned(),
            };
            Problem { key: format!("[{name}]"), line: Some(*line), text }
        })
        .collect()
}

/// Returns the text of the error for an unknown key, with the most similar known key. Names are compared regardless of
/// case.
pub(crate) fn unknown_key_error(name: &str) -> String {
    if SECTIONS.iter().any(|section| section.name == name) {
        return format!("this is a section, not a key; write its keys below [{name}]");
    }
    let name = &name.to_lowercase();
    let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let near = |key: &&ConfigKey| {
        let whole = strsim::jaro_winkler(name, key.name);
        let part = name.rsplit('.').next().map_or(0.0, |own| strsim::jaro_winkler(own, last(key.name)) * 0.95);
        (whole.max(part) * 1_000.0) as u32
    };
    match KEYS.iter().max_by_key(near).filter(|key| near(key) > 800) {
        Some(key) => format!("there is no such key; did you mean {}?", key.name),
        None => "there is no such key; `doublet config keys` lists all".to_owned(),
    }
}
