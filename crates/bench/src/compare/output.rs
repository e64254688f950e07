//! A comparison for people, in Markdown.
//!
//! Texts of reports may come from another machine, so they are cleaned: a text is one line and ends no cell.

use std::fmt::Write as _;

use super::table::{ComparedLevel, ComparedRow, Comparison, Figure, Judgement, NewFigure, RunLabel};

/// What the columns mean.
const LEGEND: &str = "± is half the width of the 95 % interval of the mean, from the 12 blocks of the measured interval. \
                      A difference within both spreads is none.\nOne in parentheses is not judged, because a spread is not \
                      known. Responses of verbs are means in milliseconds.\n";

/// Formats a comparison.
pub fn format(comparison: &Comparison) -> String {
    let mut text = "# Comparison\n\n".to_owned();
    for run in &comparison.runs {
        text.push_str(&format_run(run));
    }
    text.push('\n');
    for remark in &comparison.remarks {
        let _ = writeln!(text, "- Note: {}", line(remark));
    }
    if !comparison.remarks.is_empty() {
        text.push('\n');
    }
    for level in &comparison.levels {
        text.push_str(&format_level(&comparison.runs, level));
    }
    text.push_str(LEGEND);
    text
}

fn format_run(run: &RunLabel) -> String {
    let RunLabel { label, folder, title, state, started, commit, .. } = run;
    let [folder, title, state, started, commit] = [folder, title, state, started, commit].map(|text| line(text));
    format!("- {label}: {title}; {state}; begun {started}, commit {commit}; {folder}\n")
}

fn format_level(runs: &[RunLabel], level: &ComparedLevel) -> String {
    let users: Vec<String> =
        level.users.iter().map(|users| users.map_or_else(|| "–".to_owned(), |users| users.to_string())).collect();
    let is_same = users.iter().all(|other| *other == users[0]);
    let users = if is_same { users[0].clone() } else { users.join(", ") };
    let mut text = format!("## {users} users\n\n");
    if level.rows.is_empty() {
        text.push_str("No run has a measured interval of this level.\n\n");
        return text;
    }
    text.push_str("| figure | unit | baseline |");
    for run in &runs[1..] {
        let _ = write!(text, " {} | % change |", run.label);
    }
    text.push_str("\n|---|---|---:|");
    text.push_str(&"---:|---:|".repeat(runs.len() - 1));
    text.push('\n');
    for row in &level.rows {
        text.push_str(&format_row(row));
    }
    text.push('\n');
    text
}

fn format_row(row: &ComparedRow) -> String {
    let mut text = format!("| {} | {} | {} |", line(&row.name), line(&row.unit), format_with_spread(row.baseline));
    for new in &row.new {
        let _ = write!(text, " {} | {} |", format_with_spread(new.figure), format_change(new));
    }
    text.push('\n');
    text
}

fn format_with_spread(figure: Option<Figure>) -> String {
    let Some(Figure { mean, half_width }) = figure else { return "–".to_owned() };
    let digits = digits(mean);
    let spread = half_width.map(|half_width| format!(" ± {half_width:.digits$}")).unwrap_or_default();
    format!("{mean:.digits$}{spread}")
}

/// Formats a figure with at least three digits.
pub(crate) fn format_figure(figure: f64) -> String {
    let digits = digits(figure);
    format!("{figure:.digits$}")
}

/// Returns the decimal places with which a figure has at least three digits.
fn digits(figure: f64) -> usize {
    match figure.abs() {
        above if above >= 100.0 => 1,
        above if above >= 10.0 => 2,
        _ => 3,
    }
}

fn format_change(new: &NewFigure) -> String {
    let change = match new.change_percent {
        Some(percent) => format!("{percent:+.1} %"),
        None if new.judgement == Judgement::Differs => "from 0".to_owned(),
        None => "–".to_owned(),
    };
    match new.judgement {
        Judgement::None => "none".to_owned(),
        Judgement::Differs => change,
        Judgement::NotJudged if new.change_percent.is_some() => format!("({change})"),
        Judgement::NotJudged => change,
    }
}

/// Returns a text as a part of a line of Markdown.
pub(crate) fn line(text: &str) -> String {
    let mut clean = String::new();
    for c in text.chars() {
        match c {
            '|' | '<' | '*' | '`' | '[' | '\\' => clean.extend(['\\', c]),
            c if c.is_control() => clean.push(' '),
            c => clean.push(c),
        }
    }
    clean
}
