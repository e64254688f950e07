//! The table of functions: names, arguments, what they have in common with the world, implementation, help.
//!
//! One file a theme; each has its part of the table and the implementations beside it. Everything else that is known of functions comes from the table:
//! the check of arguments, suggestions for names that do not exist, the list in `docs/formula.md`.

mod control;
mod document;
mod host;
pub mod list;
mod matching;
mod name;
mod number;
mod password;
pub mod sort;
mod text;
mod text_cut;
mod text_list;
mod time;
mod time_make;

use std::fmt::Write as _;

use crate::error::Reason;
use crate::run::{Done, Run};
use crate::value::Value;

pub use control::{TIME_LITERAL, text_of};

/// Everything that is known of a function.
#[derive(Clone, Copy)]
pub struct Function {
    /// Its name, with `@` and as it is usually written.
    pub name: &'static str,
    /// 1 views, 2 mail and agents, 3 the rest.
    pub tier: u8,
    /// Names of its arguments: `name?` may be missing, `name...` stands for any number more.
    pub arguments: &'static str,
    /// What it gives, in one sentence.
    pub help: &'static str,
    /// What it has in common with the world.
    pub attributes: Attributes,
    /// Items that it reads whatever its arguments are.
    pub reads: &'static [&'static str],
    /// How it is computed.
    pub implementation: Implementation,
}

/// A function that takes values and gives a value.
pub type Body = for<'d> fn(&mut Run<'d>, &[Value<'d>]) -> Done<'d>;

/// How a function is computed.
#[derive(Clone, Copy)]
pub enum Implementation {
    /// By calling it with the values of its arguments.
    Plain(Body),
    /// By instructions that the compiler makes of the arguments.
    Form(Form),
}

/// Functions that do not compute all of their arguments once and in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `@If`
    If,
    /// `@IfError`
    IfError,
    /// `@Do`
    Do,
    /// `@While`
    While,
    /// `@DoWhile`
    DoWhile,
    /// `@For`
    For,
    /// `@Return`
    Return,
    /// `@IsAvailable`
    IsAvailable,
    /// `@IsUnavailable`
    IsUnavailable,
    /// `@Set`
    Set,
    /// `@Transform`
    Transform,
    /// `@Sort`
    Sort,
    /// `@Nothing`
    Nothing,
}

/// What functions have in common with the world. Functions without any give the same for the same arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes(u16);

impl Attributes {
    /// Nothing: may be computed when compiling.
    pub const PURE: Self = Self(0);
    /// Changes as time goes by: from one day to the next, or within a day if it is a [`Attributes::CLOCK`] too.
    pub const TIME: Self = Self(1);
    /// Asks what is known of the document.
    pub const DOCUMENT: Self = Self(1 << 1);
    /// Asks the host.
    pub const HOST: Self = Self(1 << 2);
    /// Asks what stands beside the document in the view.
    pub const SIBLINGS: Self = Self(1 << 3);
    /// Asks what stands below the document in the view.
    pub const DESCENDANTS: Self = Self(1 << 4);
    /// Wishes something changed.
    pub const EFFECT: Self = Self(1 << 5);
    /// ... namely the document itself.
    pub const ASSIGNS: Self = Self(1 << 6);
    /// ... namely the environment.
    pub const SETS_ENVIRONMENT: Self = Self(1 << 7);
    /// Selects direct responses.
    pub const ALL_CHILDREN: Self = Self(1 << 8);
    /// Selects all responses.
    pub const ALL_DESCENDANTS: Self = Self(1 << 9);
    /// Its first argument is the name of a field.
    pub const NAMES_FIELD: Self = Self(1 << 10);
    /// Is called even if an argument is an error.
    pub const TAKES_ERRORS: Self = Self(1 << 11);
    /// Depends on collation or the date, though not on the document; is not computed when compiling.
    pub const LATE: Self = Self(1 << 12);
    /// May read any item.
    pub const READS_ANY: Self = Self(1 << 13);
    /// Changes within a day.
    pub const CLOCK: Self = Self(1 << 14);

    /// Gives the attributes of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Tells whether all attributes of `other` are there.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Makes a row of the table for a pure function.
const fn row(name: &'static str, tier: u8, arguments: &'static str, help: &'static str, body: Body) -> Function {
    let implementation = Implementation::Plain(body);
    Function { name, tier, arguments, help, attributes: Attributes::PURE, reads: &[], implementation }
}

/// Makes a row of the table for a form.
const fn form(name: &'static str, tier: u8, arguments: &'static str, help: &'static str, form: Form) -> Function {
    let implementation = Implementation::Form(form);
    Function { name, tier, arguments, help, attributes: Attributes::PURE, reads: &[], implementation }
}

impl Function {
    /// Gives the same row with attributes.
    const fn is(mut self, attributes: Attributes) -> Self {
        self.attributes = self.attributes.with(attributes);
        self
    }

    /// Gives the same row with items that it reads.
    const fn reading(mut self, items: &'static [&'static str]) -> Self {
        self.reads = items;
        self
    }

    /// Tells whether the function is called even if an argument is an error.
    #[must_use]
    pub fn takes_errors(&self) -> bool {
        self.attributes.has(Attributes::TAKES_ERRORS)
    }

    /// Gives the least and the greatest number of arguments; without the latter there may be any number.
    #[must_use]
    pub fn argument_counts(&self) -> (usize, Option<usize>) {
        let names = || self.arguments.split(';').map(str::trim).filter(|name| !name.is_empty());
        let least = names().filter(|name| !name.ends_with('?') && !name.ends_with("...")).count();
        let any = names().any(|name| name.ends_with("..."));
        (least, (!any).then(|| names().count()))
    }

    /// Tells whether the function takes so many arguments.
    #[must_use]
    pub fn takes(&self, count: usize) -> bool {
        let (least, greatest) = self.argument_counts();
        count >= least && greatest.is_none_or(|greatest| count <= greatest)
    }

    /// Says how many arguments it takes.
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

    /// Gives the call as it is written, with names of arguments.
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

/// The parts of the table, with their headings.
pub const TABLE: [(&str, &[Function]); 14] = [
    ("Control", control::FUNCTIONS),
    ("Documents and views", document::FUNCTIONS),
    ("Text", text::FUNCTIONS),
    ("Parts of texts", text_cut::FUNCTIONS),
    ("Texts and lists", text_list::FUNCTIONS),
    ("Patterns", matching::FUNCTIONS),
    ("Lists", list::FUNCTIONS),
    ("Order", sort::FUNCTIONS),
    ("Numbers", number::FUNCTIONS),
    ("Times", time::FUNCTIONS),
    ("Making times", time_make::FUNCTIONS),
    ("Names", name::FUNCTIONS),
    ("Passwords", password::FUNCTIONS),
    ("User, database, look-ups", host::FUNCTIONS),
];

/// Functions of the original that work on windows, dialogs and the like, or on parts of it that do not exist here.
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

/// Goes through the whole table.
pub fn all() -> impl Iterator<Item = &'static Function> {
    TABLE.iter().flat_map(|(_, functions)| functions.iter())
}

/// Finds a function by its name, in whatever case.
#[must_use]
pub fn find(name: &str) -> Option<&'static Function> {
    all().find(|function| function.name.eq_ignore_ascii_case(name))
}

/// Says why a name is no function.
#[must_use]
pub fn unknown(name: &str) -> Reason {
    if UNSUPPORTED.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Reason::Unsupported(name.to_owned());
    }
    Reason::UnknownFunction { name: name.to_owned(), suggestion: nearest(name) }
}

/// Finds the name that takes the fewest changes of single letters, if they are few.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(40).collect();
    let distances = all().map(|function| (distance(&wanted, &function.name.to_lowercase()), function.name));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= wanted.len() / 3).then_some(nearest)
}

/// Counts the letters to be put in, taken out, changed or swapped.
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

/// Writes the list of functions as it stands in `docs/formula.md`.
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
