//! Problems of a configuration, and the error that lists them.

use std::fmt;
use std::path::PathBuf;

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
#[error("the configuration{} is not valid:\n{}", format_file(.file), format_problems(.problems))]
pub struct ConfigError {
    /// The configuration file, or `None` if there is none.
    pub file: Option<PathBuf>,
    /// The problems, in the order of the file.
    pub problems: Vec<Problem>,
}

fn format_file(file: &Option<PathBuf>) -> String {
    file.as_ref().map(|file| format!(" {}", file.display())).unwrap_or_default()
}

pub(crate) fn format_problems(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}
