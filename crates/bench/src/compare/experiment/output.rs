//! Experiments for people: the list of all, and the result of one in Markdown.

use std::fmt::Write as _;

use super::{Claim, Experiment, Experiments, Pair};
use crate::compare::alternate::output::{format_row, list, state_notes};
use crate::compare::alternate::{Alternation, RatioRow};
use crate::compare::table::Judgement;

/// Formats the list of all experiments.
pub fn format_list(all: &Experiments) -> String {
    let mut text = String::new();
    let width = all.names().map(str::len).max().unwrap_or(0);
    for experiment in &all.experiments {
        let labels: Vec<&str> = experiment.pairs.iter().map(|pair| pair.label.as_str()).collect();
        let _ = writeln!(text, "{:width$}  {}: {}", experiment.name, experiment.title, labels.join(", "));
    }
    text.push_str("\nNot yet:\n");
    for waiting in &all.waiting {
        let _ = writeln!(text, "{:width$}  {}; waits for {}", waiting.name, waiting.title, waiting.waits_for);
    }
    text.push_str("\nWithout an experiment (docs/experiments.md says why):\n");
    for note in &all.notes {
        let _ = writeln!(text, "{:width$}  {}", note.name, note.title);
    }
    text
}

/// Formats what the articles say, as a list.
pub fn format_claims(claims: &[Claim]) -> String {
    let mut text = String::new();
    for Claim { article, line, text: claim } in claims {
        let source = match (article, line) {
            (Some(article), Some(line)) => format!(" ([{article}], claim {line})"),
            (Some(article), None) => format!(" ([{article}])"),
            _ => String::new(),
        };
        let _ = writeln!(text, "- Domino: {claim}{source}.");
    }
    text
}

/// Formats a result of an experiment: what the articles say, the judged figures, and one sentence.
pub fn format_result(experiment: &Experiment, pair: &Pair, result: &Alternation) -> String {
    let mut text = format!("## {}: {}\n\n{}.\n\n", experiment.name, pair.label, experiment.title);
    text.push_str(&format_claims(&experiment.claims));
    let _ = writeln!(text, "- A: {}; B: {}", list(&pair.a), list(&pair.b));
    let _ = writeln!(text, "- {}: {} turns of each", result.title, result.turns.len() / 2);
    for note in state_notes(&result.turns) {
        let _ = writeln!(text, "- **Note: {note}**");
    }
    text.push_str("\n| figure | unit | A | B | B / A | spread | difference |\n|---|---|---:|---:|---:|---|---|\n");
    let rows: Vec<&RatioRow> = experiment.rows.iter().filter_map(|name| result.row(name)).collect();
    for row in &rows {
        text.push_str(&format_row(row));
    }
    let missing: Vec<&str> =
        experiment.rows.iter().map(String::as_str).filter(|name| result.row(name).is_none()).collect();
    if !missing.is_empty() {
        let _ = writeln!(text, "\nNot measured: {}.", missing.join(", "));
    }
    let _ = writeln!(text, "\n{} {}\n", sentence(&rows), experiment.why);
    text
}

/// Returns what the figures say in one sentence.
fn sentence(rows: &[&RatioRow]) -> String {
    let differs = rows.iter().filter(|row| row.judgement == Judgement::Differs);
    let changes: Vec<String> = differs
        .filter_map(|row| {
            let percent = 100.0 * (row.ratio?.median - 1.0);
            let direction = if percent < 0.0 { "lower" } else { "higher" };
            Some(format!("{} is {:.0} % {direction}", row.name, percent.abs()))
        })
        .collect();
    if changes.is_empty() {
        return "No judged figure differs beyond the spread.".to_owned();
    }
    format!("With B, {}.", changes.join(", "))
}
