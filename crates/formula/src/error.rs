//! What can go wrong, sorted by who must act.
//!
//! - [`CompileError`]: the author of the formula; it has a place, a text and, where one is near, a better name.
//! - [`Failure`]: an error as a value. The evaluation goes on with it, and the formula may look at it.
//! - [`Stop`]: the evaluation ended without a result, because a budget was spent.
//!
//! Texts are the original's words where they are known (`NSFERR.H` as quoted by the open re-implementations).

use std::fmt;

use crate::source::{Place, Span, excerpt, place};

/// A formula that is refused.
#[derive(Clone, PartialEq, Debug)]
pub struct CompileError {
    /// What is wrong.
    pub reason: Reason,
    /// Where.
    pub span: Span,
    /// The same for people.
    pub place: Place,
}

impl CompileError {
    /// Makes an error about a piece of a formula.
    #[must_use]
    pub fn new(source: &str, span: Span, reason: Reason) -> Self {
        Self { reason, span, place: place(source, span) }
    }

    /// Shows the error with the line of the formula and carets under what is meant.
    #[must_use]
    pub fn render(&self, source: &str) -> String {
        format!("{self}\n{}", excerpt(source, self.span))
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.place.line, self.place.column, self.reason)
    }
}

impl std::error::Error for CompileError {}

/// Why a formula is refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Reason {
    /// There is nothing to compile.
    #[error("No formula specified")]
    Empty,
    /// Only assignments and remarks.
    #[error("No main or selection expression in formula")]
    NoExpression,
    /// A limit of the compiler.
    #[error("The formula has too much of: {what} (at most {max})")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        max: usize,
    },
    /// A text, time or keyword that does not end.
    #[error("End of formula reached before end of quoted string, date/time or array accessor")]
    Unterminated,
    /// A character that means nothing here.
    #[error("The character {0:?} has no meaning here")]
    Character(char),
    /// A number that cannot be read.
    #[error("The number cannot be read")]
    Number,
    /// What stands in brackets begins as a date or time, and is none.
    #[error("The date or time cannot be read")]
    Time,
    /// Something else was needed.
    #[error("{expected} expected, {found} found")]
    Expected {
        /// What was needed.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A second selection.
    #[error("Only one SELECT expression is allowed")]
    SecondSelect,
    /// A statement within an expression that may only stand at the top.
    #[error("{0} is allowed only as a statement of its own")]
    NotHere(&'static str),
    /// No such function.
    #[error("Unknown @Function: {name}{}", nearest(.suggestion))]
    UnknownFunction {
        /// What was written.
        name: String,
        /// What may have been meant.
        suggestion: Option<&'static str>,
    },
    /// A function of the original that a server has no use for.
    #[error("{0} is not supported: it needs a screen, or parts of the original that do not exist here")]
    Unsupported(String),
    /// Too few or too many arguments.
    #[error("{name} takes {wanted}, {count} given")]
    Arguments {
        /// The function.
        name: &'static str,
        /// How many it takes, in words.
        wanted: String,
        /// How many there are.
        count: usize,
    },
    /// An even number of arguments of `@If`.
    #[error("@If must have an odd number of arguments")]
    EvenIf,
    /// An argument that must be a name.
    #[error("{function}: argument {number} must be {wanted}")]
    Argument {
        /// The function.
        function: &'static str,
        /// Which argument, from 1.
        number: usize,
        /// What it must be.
        wanted: &'static str,
    },
    /// An assignment that the options forbid.
    #[error("You are not allowed to modify fields in this context.")]
    AssignForbidden,
    /// A change of the environment that the options forbid.
    #[error("You are not allowed to modify the environment in this context.")]
    EnvironmentForbidden,
    /// Another effect that the options forbid.
    #[error("{0}: Formulas with side-effects are not allowed in this context.")]
    EffectForbidden(&'static str),
}

fn nearest(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// An error as a value, and where it arose.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// What is wrong.
    pub kind: FailureKind,
    /// The operator or call that made it, where that is known.
    pub span: Span,
}

impl Failure {
    /// Shows the error with the line of the formula and carets under what made it.
    #[must_use]
    pub fn render(&self, source: &str) -> String {
        let at = place(source, self.span);
        format!("line {}, column {}: {}\n{}", at.line, at.column, self.kind, excerpt(source, self.span))
    }
}

/// What is wrong with a value.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FailureKind {
    /// `@Error`.
    #[error("ERROR specified in formula")]
    Specified,
    /// Text was needed.
    #[error("Incorrect data type for operator or @Function: Text expected")]
    TextExpected,
    /// A number was needed.
    #[error("Incorrect data type for operator or @Function: Number expected")]
    NumberExpected,
    /// A time was needed.
    #[error("Incorrect data type for operator or @Function: Time/Date expected")]
    TimeExpected,
    /// A value of any of these types was needed.
    #[error("Incorrect data type for operator or @Function")]
    Type,
    /// `<` and the like between different types.
    #[error("Comparison operators must be supplied two values of the same data type.")]
    Comparison,
    /// A keyword that the function does not know.
    #[error("The specified [KeyWord] is not appropriate when used with this @Function")]
    Keyword,
    /// A division by zero, or a result that is no number.
    #[error("The result is not a number")]
    NotANumber,
    /// A text that is no number.
    #[error("The value cannot be converted to a Number.")]
    ToNumber,
    /// A text that is no time.
    #[error("The value cannot be converted to a Time/Date.")]
    ToTime,
    /// A subscript outside of the list.
    #[error("Array index out of bounds")]
    Index,
    /// `@Subset(list; 0)`.
    #[error("The second argument to @Subset must not be zero")]
    Subset,
    /// A wrong number of arguments of `@Date` or `@Time`.
    #[error("The @Date and @Time functions must have exactly 1, 3, or 6 arguments.")]
    DateArguments,
    /// The host does not give what the function needs.
    #[error("@Function is not valid in this context")]
    Context,
    /// The document or view that is asked for is not there.
    #[error("Document could not be found.")]
    NotFound,
    /// Not a UNID.
    #[error("Invalid UNID; UNID must be a 32-digit hex string.")]
    Unid,
    /// `@DeleteField` used as a value.
    #[error("formula has encountered @DeleteField or @Unavailable")]
    Unavailable,
    /// `@Nothing` outside of `@Transform`.
    #[error("@Nothing stands for an element that @Transform leaves out")]
    Nothing,
    /// An argument outside of what the function takes.
    #[error("{0}")]
    Argument(&'static str),
    /// What the host said of a look-up that failed.
    #[error("{0}")]
    Host(String),
    /// A formula given to `@Eval` that does not compile.
    #[error("{0}")]
    Formula(String),
}

/// Why an evaluation ended without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stop {
    /// Too many steps.
    #[error("the formula took more steps than it may")]
    Steps,
    /// Too many bytes, or a text or list too long.
    #[error("Formula or value requires too much memory")]
    Memory,
    /// `@Eval` within `@Eval` too often.
    #[error("formulas that evaluate formulas are nested too deep")]
    Depth,
    /// Too many changes and effects.
    #[error("the formula wishes more changes than it may")]
    Effects,
}

/// What an operator or function may end with instead of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// An error as a value.
    Failure(FailureKind),
    /// The end of the evaluation.
    Stop(Stop),
}

impl From<FailureKind> for Fault {
    fn from(kind: FailureKind) -> Self {
        Self::Failure(kind)
    }
}

impl From<Stop> for Fault {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}
