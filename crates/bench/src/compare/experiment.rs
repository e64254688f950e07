//! The experiments of the articles: settings in turns, each with one option (docs/experiments.md).
//!
//! They are in the file `experiment/experiments.toml`, which is a part of the program, with the claims of the articles.

pub mod output;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

const FILE: &str = include_str!("experiment/experiments.toml");

/// The experiments of this program.
pub static EXPERIMENTS: LazyLock<Experiments> =
    LazyLock::new(|| toml::from_str(FILE).expect("the file is a part of the program, and a test reads it"));

/// The file of the experiments.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiments {
    /// Those that can be run.
    #[serde(rename = "experiment")]
    pub experiments: Vec<Experiment>,
    /// Those that wait for something.
    pub waiting: Vec<Waiting>,
    /// Features of Domino without an experiment.
    #[serde(rename = "note")]
    pub notes: Vec<Note>,
}

/// An experiment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The name on the command line.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// The workload.
    pub workload: String,
    /// The options of `run` for both settings.
    pub run: Vec<String>,
    /// Each setting has a population of its own, because the setting decides how data are stored.
    #[serde(default)]
    pub own_populations: bool,
    /// The figures that are judged.
    pub rows: Vec<String>,
    /// Why the figures are as they are.
    pub why: String,
    /// What the articles say.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
    /// The settings: one comparison for each.
    #[serde(rename = "pair")]
    pub pairs: Vec<Pair>,
}

/// Two settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// The setting of B in a word.
    pub label: String,
    /// The settings of A.
    pub a: Vec<String>,
    /// The settings of B.
    pub b: Vec<String>,
}

/// What an article says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The tag of the article, if it is one of a single article.
    pub article: Option<String>,
    /// Its line in the list of claims.
    pub line: Option<u32>,
    /// The claim with its figure.
    pub text: String,
}

/// An experiment that cannot be run yet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// The name.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// What is missing.
    pub waits_for: String,
    /// What the articles say.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// Why a feature of Domino has no experiment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The name.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// The reason.
    pub text: String,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found {
    /// An experiment.
    Experiment(&'static Experiment),
    /// One that waits.
    Waiting(&'static Waiting),
    /// A feature without an experiment.
    Note(&'static Note),
}

/// Finds an experiment. Returns the nearest name as an error, if one is near.
///
/// # Errors
///
/// If there is no such name.
pub fn find(name: &str) -> Result<Found, Option<&'static str>> {
    let all: &'static Experiments = &EXPERIMENTS;
    if let Some(experiment) = all.experiments.iter().find(|experiment| experiment.name == name) {
        return Ok(Found::Experiment(experiment));
    }
    if let Some(waiting) = all.waiting.iter().find(|waiting| waiting.name == name) {
        return Ok(Found::Waiting(waiting));
    }
    if let Some(note) = all.notes.iter().find(|note| note.name == name) {
        return Ok(Found::Note(note));
    }
    let near = |known: &&str| strsim::damerau_levenshtein(known, name) <= known.len() / 3;
    let names = all.names().filter(near);
    Err(names.min_by_key(|known| strsim::damerau_levenshtein(known, name)))
}

impl Experiments {
    /// Returns all names in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let experiments = self.experiments.iter().map(|experiment| experiment.name.as_str());
        let waiting = self.waiting.iter().map(|waiting| waiting.name.as_str());
        experiments.chain(waiting).chain(self.notes.iter().map(|note| note.name.as_str()))
    }
}
