//! The function table: names, arguments, attributes, implementations and help texts.
//!
//! Each theme has its own file with its part of the table and the implementations. Everything else about functions is
//! derived from the table: argument checks, suggestions for unknown names, and the list in `docs/formula.md`.

mod control;
mod document;
mod function;
mod host;
pub mod list;
mod matching;
mod name;
mod number;
mod password;
pub mod sort;
mod substring;
mod text;
mod text_list;
mod time;
mod time_construct;

use std::fmt::Write as _;

use crate::error::CompileErrorKind;

pub use control::{TIME_LITERAL, text_of};
pub use function::{Attributes, Function, FunctionBody, Implementation, SpecialForm};
use function::{function, special_form};

/// The parts of the table with their headings.
pub const TABLE: [(&str, &[Function]); 14] = [
    ("Control", control::FUNCTIONS),
    ("Documents and views", document::FUNCTIONS),
    ("Text", text::FUNCTIONS),
    ("Parts of texts", substring::FUNCTIONS),
    ("Texts and lists", text_list::FUNCTIONS),
    ("Patterns", matching::FUNCTIONS),
    ("Lists", list::FUNCTIONS),
    ("Order", sort::FUNCTIONS),
    ("Numbers", number::FUNCTIONS),
    ("Times", time::FUNCTIONS),
    ("Making times", time_construct::FUNCTIONS),
    ("Names", name::FUNCTIONS),
    ("Passwords", password::FUNCTIONS),
    ("User, database, lookups", host::FUNCTIONS),
];

/// Domino functions that work on windows, dialogs and the like, or on parts of Domino that do not exist here.
const UNSUPPORTED: &[&str] = &[
    "@Prompt",
    "@PickList",
    "@DialogBox",
    "@PostedCommand",
    "@DDEInitiate",
    "@DDEExecute",
    "@DDEPoke",
    "@DDETerminate",
    "@FontList",
    "@GetPortsList",
    "@Certificate",
    "@MailEncryptSavedPreference",
    "@MailEncryptSentPreference",
    "@MailSavePreference",
    "@MailSignPreference",
    "@Narrow",
    "@OpenInNotes",
    "@OrgDir",
    "@RefreshECL",
    "@EditECL",
    "@EditUserECL",
    "@SetHTTPHeader",
    "@GetHTTPHeader",
    "@SetTargetFrame",
    "@SetViewInfo",
    "@GetViewInfo",
    "@ShowParentPreview",
    "@URLGetHeader",
    "@URLHistory",
    "@URLOpen",
    "@UserPrivileges",
    "@GetFocusTable",
    "@HardwareAddress",
    "@InheritDocument",
    "@StatusBar",
    "@UpdateFormulaContext",
    "@ViewShowThisUnread",
    "@BrowserInfo",
    "@Wide",
    "@LaunchApp",
    "@Domino",
    "@BrowserType",
    "@ThisName",
    "@ThisValue",
    "@DocMark",
    "@Abstract",
    "@AdminECLIsLocked",
    "@EnableAlarms",
    "@GetIMContactListGroupNames",
    "@PolicyIsFieldLocked",
    "@RegQueryValue",
    "@FileDir",
    "@ConfigFile",
    "@UserType",
];

/// Returns all functions of the table.
pub fn all() -> impl Iterator<Item = &'static Function> {
    TABLE.iter().flat_map(|(_, functions)| functions.iter())
}

/// Returns the function with a name. ASCII case is ignored.
#[must_use]
pub fn find(name: &str) -> Option<&'static Function> {
    all().find(|function| function.name.eq_ignore_ascii_case(name))
}

/// Returns the reason why a name is not a function.
#[must_use]
pub fn unknown_function_reason(name: &str) -> CompileErrorKind {
    if UNSUPPORTED.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return CompileErrorKind::Unsupported(name.to_owned());
    }
    CompileErrorKind::UnknownFunction { name: name.to_owned(), suggestion: nearest(name) }
}

/// Returns the name with the smallest edit distance.
///
/// Returns `None` if the distance exceeds a third of the length of `name`, of which at most 40 characters count.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(40).collect();
    let distances = all().map(|function| (distance(&wanted, &function.name.to_lowercase()), function.name));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= wanted.len() / 3).then_some(nearest)
}

/// Returns the number of insertions, deletions, substitutions and swaps of letters between two names.
fn distance(one: &[char], other: &str) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=one.len()).collect();
    let mut previous = None;
    for (row, letter) in other.chars().enumerate() {
        let mut next = vec![row + 1];
        for (column, wanted) in one.iter().enumerate() {
            let changed = last[column] + usize::from(*wanted != letter);
            let mut best = changed.min(last[column + 1] + 1).min(next[column] + 1);
            let swapped = column > 0 && Some(*wanted) == previous && one[column - 1] == letter;
            if swapped && let Some(before) = before_last.get(column - 1) {
                best = best.min(before + 1);
            }
            next.push(best);
        }
        before_last = std::mem::replace(&mut last, next);
        previous = Some(letter);
    }
    last.last().copied().unwrap_or(0)
}

/// Returns the list of functions as it appears in `docs/formula.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::new();
    for (heading, functions) in TABLE {
        let _ = write!(page, "### {heading}\n\n| function | tier | result |\n|---|---|---|\n");
        for function in functions {
            let _ = writeln!(page, "| `{}` | {} | {} |", function.signature(), function.tier, function.help);
        }
        page.push('\n');
    }
    page
}
