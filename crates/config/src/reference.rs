//! The list of keys for readers: on the terminal and in `docs/configuration.md`.
//!
//! A test compares the tables of the document with [`markdown`], so that the two cannot drift apart. After a change to
//! the keys, `doublet config keys --markdown` prints the text between the markers of the document.

use std::fmt::Write;

use super::keys::{ConfigKey, KEYS, SECTIONS};
use super::renamed_keys::RENAMED;

/// Returns the tables for the documentation in Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let _ = writeln!(text, "### `[{}]`\n\n{}\n", section.name, join_lines(section.meaning));
        text.push_str("| key | value | default | range | meaning |\n|---|---|---|---|---|\n");
        for key in keys_of(section.name) {
            let name = key.name.rsplit('.').next().unwrap_or(key.name);
            let default = if key.default.is_empty() { "(empty)".to_owned() } else { format!("`{}`", key.default) };
            let _ = writeln!(
                text,
                "| `{name}` | {} | {default} | {} | {} |",
                key.kind,
                format_range(key, " – "),
                join_lines(key.description)
            );
        }
        text.push('\n');
    }
    text.push_str("### Renamed keys\n\n| old name | new name | the old name works until release |\n|---|---|---|\n");
    for key in RENAMED {
        let _ = writeln!(text, "| `{}` | `{}` | 0.{} |", key.old, key.new, key.until_minor());
    }
    text.push('\n');
    text
}

/// Returns the list for the terminal.
#[must_use]
pub fn terminal_text() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let _ = writeln!(text, "[{}]  {}", section.name, join_lines(section.meaning));
        for key in keys_of(section.name) {
            let bounds = if key.range.is_empty() { String::new() } else { format!(", {}", format_range(key, " to ")) };
            let _ = writeln!(text, "  {} = {:?}  ({}{bounds})", key.name, key.default, key.kind);
            let _ = writeln!(text, "      {}", join_lines(key.description));
        }
        text.push('\n');
    }
    text
}

fn keys_of(section: &'static str) -> impl Iterator<Item = &'static ConfigKey> {
    KEYS.iter().filter(move |key| key.name.split('.').next() == Some(section))
}

fn format_range(key: &ConfigKey, between: &str) -> String {
    key.range.join(between)
}

/// Joins the lines of a doc comment with blanks.
fn join_lines(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
