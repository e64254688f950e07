//! The function table: names, arguments, attributes, implementations and help texts.
//!
//! Each theme has its own file with its part of the table and the implementations. Everything else about functions is
//! derived from the table: argument checks, suggestions for unknown names, and the list in `docs/formula.md`.

mod control;
mod document;
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
use crate::evaluation::{Evaluation, FunctionResult};
use crate::value::Value;

pub use control::{TIME_LITERAL, text_of};

/// An entry of the function table.
#[derive(Clone, Copy)]
pub struct Function {
    /// The name in its usual spelling, including the `@`.
    pub name: &'static str,
    /// The group of features that needs the function: 1 for views, 2 for mail and agents, 3 for the rest.
    pub tier: u8,
    /// The names of the arguments, separated by semicolons. `name?` is optional, `name...` stands for any number of
    /// further arguments.
    pub arguments: &'static str,
    /// The result, described in one sentence.
    pub help: &'static str,
    /// The inputs other than its arguments, and the effects.
    pub attributes: Attributes,
    /// Items that the function reads regardless of its arguments.
    pub reads: &'static [&'static str],
    /// The implementation.
    pub implementation: Implementation,
}

/// A function that takes values and returns a value.
pub type Body = for<'d> fn(&mut Evaluation<'d>, &[Value<'d>]) -> FunctionResult<'d>;

/// The way a function is computed.
#[derive(Clone, Copy)]
pub enum Implementation {
    /// A call with the values of the arguments.
    Plain(Body),
    /// Instructions that the compiler emits for the arguments.
    Form(SpecialForm),
}

/// Functions that do not evaluate each of their arguments once and in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpecialForm {
    /// `@If`.
    If,
    /// `@IfError`.
    IfError,
    /// `@Do`.
    Do,
    /// `@While`.
    While,
    /// `@DoWhile`.
    DoWhile,
    /// `@For`.
    For,
    /// `@Return`.
    Return,
    /// `@IsAvailable`.
    IsAvailable,
    /// `@IsUnavailable`.
    IsUnavailable,
    /// `@Set`.
    Set,
    /// `@Transform`.
    Transform,
    /// `@Sort`.
    Sort,
    /// `@Nothing`.
    Nothing,
}

/// The inputs of a function other than its arguments, and its effects. A function without attributes always returns the
/// same value for the same arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes(u16);

impl Attributes {
    /// No attributes. The function may be computed at compile time.
    pub const PURE: Self = Self(0);
    /// The value changes with time: from one day to the next, or within a day if the function also has
    /// [`Attributes::CLOCK`].
    pub const TIME: Self = Self(1);
    /// The function queries properties of the document.
    pub const DOCUMENT: Self = Self(1 << 1);
    /// The function queries the host.
    pub const HOST: Self = Self(1 << 2);
    /// The function uses the entries beside the document in the view.
    pub const SIBLINGS: Self = Self(1 << 3);
    /// The function uses the entries below the document in the view.
    pub const DESCENDANTS: Self = Self(1 << 4);
    /// The function requests an effect.
    pub const EFFECT: Self = Self(1 << 5);
    /// The effect is a change of the document itself.
    pub const ASSIGNS: Self = Self(1 << 6);
    /// The effect is a change of the environment.
    pub const SETS_ENVIRONMENT: Self = Self(1 << 7);
    /// The function selects direct responses.
    pub const ALL_CHILDREN: Self = Self(1 << 8);
    /// The function selects all responses.
    pub const ALL_DESCENDANTS: Self = Self(1 << 9);
    /// The first argument is the name of a field.
    pub const NAMES_FIELD: Self = Self(1 << 10);
    /// The function is called even if an argument is an error.
    pub const TAKES_ERRORS: Self = Self(1 << 11);
    /// The value depends on collation or the date, but not on the document. It is not computed at compile time.
    pub const NOT_FOLDABLE: Self = Self(1 << 12);
    /// The function may read any item.
    pub const READS_ANY: Self = Self(1 << 13);
    /// The value changes within a day.
    pub const CLOCK: Self = Self(1 << 14);

    /// Returns the union of both sets of attributes.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if all attributes of `other` are present.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Creates a table entry for a pure function.
const fn function(name: &'static str, tier: u8, arguments: &'static str, help: &'static str, body: Body) -> Function {
    let implementation = Implementation::Plain(body);
    Function { name, tier, arguments, help, attributes: Attributes::PURE, reads: &[], implementation }
}

/// Creates a table entry for a function that the compiler turns into instructions.
const fn special_form(
    name: &'static str,
    tier: u8,
    arguments: &'static str,
    help: &'static str,
    form: SpecialForm,
) -> Function {
    let implementation = Implementation::Form(form);
    Function { name, tier, arguments, help, attributes: Attributes::PURE, reads: &[], implementation }
}

impl Function {
    /// Returns the entry with additional attributes.
    const fn with_attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = self.attributes.union(attributes);
        self
    }

    /// Returns the entry with the items that the function reads.
    const fn with_reads(mut self, items: &'static [&'static str]) -> Self {
        self.reads = items;
        self
    }

    /// Returns `true` if the function is called even if an argument is an error.
    #[must_use]
    pub fn takes_errors(&self) -> bool {
        self.attributes.contains(Attributes::TAKES_ERRORS)
    }

    /// Returns the minimum and the maximum number of arguments. The maximum is `None` if there is no limit.
    #[must_use]
    pub fn argument_counts(&self) -> (usize, Option<usize>) {
        let names = || self.arguments.split(';').map(str::trim).filter(|name| !name.is_empty());
        let least = names().filter(|name| !name.ends_with('?') && !name.ends_with("...")).count();
        let any = names().any(|name| name.ends_with("..."));
        (least, (!any).then(|| names().count()))
    }

    /// Returns `true` if the function takes `count` arguments.
    #[must_use]
    pub fn takes(&self, count: usize) -> bool {
        let (least, greatest) = self.argument_counts();
        count >= least && greatest.is_none_or(|greatest| count <= greatest)
    }

    /// Returns the permitted number of arguments in words.
    #[must_use]
    pub fn arguments_in_words(&self) -> String {
        match self.argument_counts() {
            (0, Some(0)) => "no arguments".to_owned(),
            (1, Some(1)) => "1 argument".to_owned(),
            (least, Some(greatest)) if least == greatest => format!("{least} arguments"),
            (least, Some(greatest)) => format!("{least} to {greatest} arguments"),
            (least, None) => format!("{least} or more arguments"),
        }
    }

    /// Returns the call syntax with the names of the arguments.
    #[must_use]
    pub fn signature(&self) -> String {
        if self.arguments.is_empty() { self.name.to_owned() } else { format!("{}({})", self.name, self.arguments) }
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

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
    ("User, database, look-ups", host::FUNCTIONS),
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
        let _ = write!(page, "### {heading}\n\n| function | tier | gives |\n|---|---|---|\n");
        for function in functions {
            let _ = writeln!(page, "| `{}` | {} | {} |", function.signature(), function.tier, function.help);
        }
        page.push('\n');
    }
    page
}
