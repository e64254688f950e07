//! Findings: errors of a workload file, each with its line, its key, the rule and the nearest known word.

use std::fmt;

use serde::Serialize;

use super::limits::QUOTED_CHARACTERS_MAX;

/// Minimum similarity (Jaro-Winkler) of a word that is suggested instead of an unknown one.
const SIMILARITY_MIN: f64 = 0.8;

/// An error of a workload file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The line of the file, or `None` if the error is in the command line or concerns the whole file.
    pub line: Option<usize>,
    /// The key with the tables around it, or an empty text if the error concerns the whole file.
    pub key: String,
    /// The value found, and what the rule permits.
    pub rule: String,
    /// The known word that is most similar to an unknown one.
    pub nearest: Option<String>,
}

impl Finding {
    /// Creates a finding about a whole file.
    pub fn general(rule: impl Into<String>) -> Self {
        Self { line: None, key: String::new(), rule: rule.into(), nearest: None }
    }

    /// Formats all findings of a file, a line for each.
    pub fn format_all(file: &str, findings: &[Self]) -> String {
        let lines: String = findings.iter().map(|finding| format!("  {finding}\n")).collect();
        format!("{file} is not a valid workload:\n{lines}")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.rule)?;
        match &self.nearest {
            Some(word) => write!(f, "; did you mean {word}?"),
            None => Ok(()),
        }
    }
}

/// Returns the known word that is most similar to `word`, or `None` if none is similar. Case is ignored.
pub fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<String> {
    if word.len() > QUOTED_CHARACTERS_MAX {
        return None;
    }
    let word = word.to_lowercase();
    let similarities = known.into_iter().map(|known| (known, similarity(&word, &known.to_lowercase())));
    let similar = similarities.filter(|(_, similarity)| *similarity >= SIMILARITY_MIN);
    similar.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(known, _)| known.to_owned())
}

/// Returns a similarity from 0 to 1. Words of which one has a letter more, a changed one, or two exchanged are similar.
fn similarity(one: &str, other: &str) -> f64 {
    let is_typing_error = one.len().min(other.len()) > 2 && strsim::osa_distance(one, other) == 1;
    strsim::jaro_winkler(one, other).max(if is_typing_error { SIMILARITY_MIN } else { 0.0 })
}

/// Quotes text of a file, cut to a length that fits into a message. Control characters are escaped.
pub fn quote(text: &str) -> String {
    let first: String = text.chars().take(QUOTED_CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    let cut = if text.chars().nth(QUOTED_CHARACTERS_MAX).is_some() { "…" } else { "" };
    first.replace("\\\"", "\"").replace("\\'", "'") + cut
}
