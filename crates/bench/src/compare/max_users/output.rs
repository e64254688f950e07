//! The result of a search, in Markdown.

use std::fmt::Write as _;

use super::{End, Level, Limit, SearchResult, millis};
use crate::workload::units::format_integer;

/// Formats a result.
pub fn format(result: &SearchResult) -> String {
    let mut text = format!("# Largest number of users: {}\n\n{}\n\n", result.workload, result.title);
    text.push_str(&format_result(result));
    text.push_str("\n| users | criterion | NotesMark | response, mean in ms | p99 | errors | state | report |\n");
    text.push_str("|---:|---|---:|---:|---:|---:|---|---|\n");
    for level in &result.levels {
        text.push_str(&format_level(level));
    }
    text.push('\n');
    for level in result.levels.iter().filter(|level| level.is_missed()) {
        let reasons = level.reasons.join("; ");
        let _ = writeln!(text, "- {} users: {reasons}. Limit: {}.", format_integer(level.users), names(&level.limits));
    }
    let _ = writeln!(text, "\nCommand: {}", result.command);
    text
}

/// Formats what was found, as lines.
pub fn format_result(result: &SearchResult) -> String {
    let response = millis(result.criterion.response_mean_us_max);
    let criterion = format!("at most {response} ms of average response, in a valid run");
    let mut text = match result.users {
        Some(users) => format!("**{} users** meet the criterion: {criterion}.\n", format_integer(users)),
        None => format!("No number of users meets the criterion: {criterion}.\n"),
    };
    if let Some(missed) = result.users_missed {
        let limits = names(&result.limits);
        let _ = writeln!(text, "{} users miss it. Limit: {limits}.", format_integer(missed));
    }
    text.push_str(match result.end {
        End::Found => "",
        End::Permitted => "No limit was met: larger numbers were not tried (--to).\n",
        End::ServerEnded => "The server ended, so the search is not complete.\n",
        End::BrokenOff => "The search was stopped, so it is not complete.\n",
    });
    if result.speedup != 1.0 {
        let factor = result.speedup;
        let _ = writeln!(
            text,
            "With the speed-up {factor}, a user makes the requests of {factor} users at speed 1, with one connection \
             and one mail file."
        );
    }
    text
}

fn names(limits: &[Limit]) -> String {
    if limits.is_empty() {
        return "none of processor, disk, memory, connections and driver".to_owned();
    }
    limits.iter().map(|limit| limit.name()).collect::<Vec<_>>().join(", ")
}

fn format_level(level: &Level) -> String {
    let Level { users, state, headline, report, .. } = level;
    let criterion = level.verdict();
    let none = || "–".to_owned();
    let response = headline.as_ref().and_then(|headline| headline.response.as_ref());
    let notesmark = headline.as_ref().map_or_else(none, |headline| format!("{:.1}", headline.notesmark));
    let mean = response.map_or_else(none, |response| millis(response.mean_us));
    let p99 = response.map_or_else(none, |response| millis(response.p99_us));
    let errors = headline.as_ref().map_or_else(none, |headline| format_integer(headline.errors));
    let users = format_integer(*users);
    format!("| {users} | {criterion} | {notesmark} | {mean} | {p99} | {errors} | {state} | {report} |\n")
}
