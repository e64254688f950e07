//! The result of turns for people, in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Alternation, RatioRow, Side, Turn};
use crate::compare::output::{format_figure, line};
use crate::compare::table::Judgement;
use crate::report::verdict::State;

/// Formats a result.
pub fn format(alternation: &Alternation) -> String {
    let settings = &alternation.settings;
    let mut text = format!("# A against B: {}\n\n", line(&alternation.title));
    let _ = writeln!(text, "- A: {}", list(&settings.a));
    let _ = writeln!(text, "- B: {}", list(&settings.b));
    let run = settings.run.join(" ");
    let _ =
        writeln!(text, "- both: {}", if run.is_empty() { "no further options".to_owned() } else { format!("`{run}`") });
    text.push_str(match settings.has_own_populations {
        true => {
            "- each setting had a population of its own, made from the same seed; each turn began with a copy of it\n"
        }
        false => "- each turn began with a copy of one population\n",
    });
    let _ = writeln!(text, "- command: `{}`, commit {}", alternation.command, alternation.commit);
    text.push_str(&format_turns(alternation));
    if !alternation.is_complete() {
        let state = &alternation.state;
        let _ =
            writeln!(text, "\n**State: {state}.** The turns ended early, so there are no figures of both settings.");
        return text;
    }
    text.push_str("\n| figure | unit | A | B | B / A | spread | difference |\n|---|---|---:|---:|---:|---|---|\n");
    for row in &alternation.rows {
        text.push_str(&format_row(row));
    }
    let coverage = alternation.coverage * 100.0;
    let _ = writeln!(
        text,
        "\nA and B are medians of the turns. B / A is the median of the ratios of the turns of the same number, and the true \
         median is within the spread with a probability of {coverage:.1} %. A difference is none if 1 is within the spread."
    );
    text
}

/// Formats settings, or says that there are none.
pub fn list(settings: &[String]) -> String {
    if settings.is_empty() {
        return "the defaults".to_owned();
    }
    let settings: Vec<String> = settings.iter().map(|setting| format!("`{setting}`")).collect();
    settings.join(", ")
}

fn format_turns(alternation: &Alternation) -> String {
    let letter = |turn: &Turn| if turn.side == Side::A { "A" } else { "B" };
    let letters: Vec<&str> = alternation.turns.iter().map(letter).collect();
    let letters = if letters.is_empty() { "none".to_owned() } else { letters.join(" ") };
    let mut text = format!("- turns: {letters}\n");
    for note in state_notes(&alternation.turns) {
        let _ = writeln!(text, "- **Note: {note}**");
    }
    text
}

/// Returns which turns are not valid, by state.
pub fn state_notes(turns: &[Turn]) -> Vec<String> {
    let mut by_state: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (number, turn) in (1..).zip(turns).filter(|(_, turn)| turn.state != State::Valid.name()) {
        by_state.entry(&turn.state).or_default().push(number.to_string());
    }
    let note = |(state, numbers): (&str, Vec<String>)| {
        let count = turns.len();
        format!("{} of {count} turns are {state} ({}): their reports say why", numbers.len(), numbers.join(", "))
    };
    by_state.into_iter().map(note).collect()
}

/// Formats a row of the table.
pub fn format_row(row: &RatioRow) -> String {
    let RatioRow { name, unit, a, b, ratio, judgement } = row;
    let [a, b] = [a, b].map(|median| format_figure(*median));
    let (median, spread) = match ratio {
        Some(ratio) => (format!("{:.3}", ratio.median), format!("{:.3} to {:.3}", ratio.low, ratio.high)),
        None => ("–".to_owned(), "–".to_owned()),
    };
    let judgement = match (judgement, ratio) {
        (Judgement::None, _) => "none".to_owned(),
        (Judgement::Differs, Some(ratio)) => format!("{:+.1} %", 100.0 * (ratio.median - 1.0)),
        _ => "not judged".to_owned(),
    };
    format!("| {} | {} | {a} | {b} | {median} | {spread} | {judgement} |\n", line(name), line(unit))
}
