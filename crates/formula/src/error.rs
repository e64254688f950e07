//! Errors of the crate, grouped by the party that must act.
//!
//! - [`CompileError`]: the author of the formula must act. It has a position, a message and, if there is a similar
//!   function name, a suggestion.
//! - [`ErrorValue`]: an error as a value. The evaluation continues with it, and the formula can test for it.
//! - [`BudgetExceeded`]: the evaluation ended without a result, because a budget was spent.
//!
//! Messages use Domino's wording where it is known (`NSFERR.H`, as quoted by the open re-implementations).

use std::fmt;

use crate::source::{LineColumn, Span, excerpt, line_column};

/// The error of a formula that does not compile.
#[derive(Clone, PartialEq, Debug)]
pub struct CompileError {
    /// The reason of the error.
    pub reason: CompileErrorKind,
    /// The position of the error in the source.
    pub span: Span,
    /// The same position as line and column, for display.
    pub position: LineColumn,
}

impl CompileError {
    /// Creates an error about a span of the source.
    #[must_use]
    pub fn new(source: &str, span: Span, reason: CompileErrorKind) -> Self {
        Self { reason, span, position: line_column(source, span) }
    }

    /// Returns the error message, the affected line of the formula, and carets under the span.
    #[must_use]
    pub fn render(&self, source: &str) -> String {
        format!("{self}\n{}", excerpt(source, self.span))
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.position.line, self.position.column, self.reason)
    }
}

impl std::error::Error for CompileError {}

/// The reason why a formula does not compile.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum CompileErrorKind {
    /// The formula is empty.
    #[error("No formula specified")]
    Empty,
    /// The formula consists only of assignments and remarks.
    #[error("No main or selection expression in formula")]
    NoExpression,
    /// A limit of the compiler is exceeded.
    #[error("The formula exceeds the limit for {what} (at most {max})")]
    Limit {
        /// The countable thing that exceeds the limit.
        what: &'static str,
        /// The maximum number.
        max: usize,
    },
    /// A text, time or keyword without its closing delimiter.
    #[error("End of formula reached before end of quoted string, date/time or array accessor")]
    Unterminated,
    /// A character that has no meaning at its position.
    #[error("Unexpected character {0:?}")]
    Character(char),
    /// A number that cannot be parsed.
    #[error("Invalid number")]
    Number,
    /// A bracketed literal that begins like a date or time but is not valid.
    #[error("Invalid date or time")]
    Time,
    /// A syntax element other than the expected one.
    #[error("{expected} expected, {found} found")]
    Expected {
        /// The expected element.
        expected: &'static str,
        /// The element found.
        found: String,
    },
    /// A second `SELECT` statement.
    #[error("Only one SELECT expression is allowed")]
    SecondSelect,
    /// A statement within an expression that is allowed only at the top level.
    #[error("{0} is allowed only as a separate statement")]
    StatementInExpression(&'static str),
    /// An unknown function.
    #[error("Unknown @Function: {name}{}", nearest(.suggestion))]
    UnknownFunction {
        /// The name as written.
        name: String,
        /// A similar name of an existing function.
        suggestion: Option<&'static str>,
    },
    /// A Domino function that has no use on a server, or that needs a part of Domino that does not exist here.
    #[error("{0} is not supported: it needs a Notes client or a part of Domino that this server does not have")]
    Unsupported(String),
    /// Too few or too many arguments.
    #[error("{name} takes {wanted}, {count} given")]
    Arguments {
        /// The function.
        name: &'static str,
        /// The number of arguments that it takes, in words.
        wanted: String,
        /// The number of arguments given.
        count: usize,
    },
    /// An `@If` with an even number of arguments.
    #[error("@If must have an odd number of arguments")]
    EvenIf,
    /// An argument that must be a name.
    #[error("{function}: argument {number} must be {wanted}")]
    Argument {
        /// The function.
        function: &'static str,
        /// The position of the argument, starting at 1.
        number: usize,
        /// A description of the argument that is required.
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

/// An error as a value, with the position where it arose.
#[derive(Clone, PartialEq, Debug)]
pub struct ErrorValue {
    /// The kind of the error.
    pub kind: ErrorValueKind,
    /// The operator or call that produced the error, if known.
    pub span: Span,
}

impl ErrorValue {
    /// Returns the error message, the affected line of the formula, and carets under the span.
    #[must_use]
    pub fn render(&self, source: &str) -> String {
        let at = line_column(source, self.span);
        format!("line {}, column {}: {}\n{}", at.line, at.column, self.kind, excerpt(source, self.span))
    }
}

/// The kind of an error value.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ErrorValueKind {
    /// The error of `@Error`.
    #[error("ERROR specified in formula")]
    ErrorFunction,
    /// A value that is not text where text is required.
    #[error("Incorrect data type for operator or @Function: Text expected")]
    TextExpected,
    /// A value that is not a number where a number is required.
    #[error("Incorrect data type for operator or @Function: Number expected")]
    NumberExpected,
    /// A value that is not a time where a time is required.
    #[error("Incorrect data type for operator or @Function: Time/Date expected")]
    TimeExpected,
    /// A value whose type is none of the permitted ones.
    #[error("Incorrect data type for operator or @Function")]
    Type,
    /// An ordering comparison such as `<` between values of different types.
    #[error("Comparison operators must be supplied two values of the same data type.")]
    Comparison,
    /// A keyword that the function does not know.
    #[error("The specified [KeyWord] is not appropriate when used with this @Function")]
    Keyword,
    /// A division by zero, or a result that is not a number.
    #[error("The result is not a number")]
    NotANumber,
    /// A text that cannot be converted to a number.
    #[error("The value cannot be converted to a Number.")]
    ToNumber,
    /// A text that cannot be converted to a time.
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
    /// A function that needs something the host does not provide.
    #[error("@Function is not valid in this context")]
    Context,
    /// A document or view that does not exist.
    #[error("Document could not be found.")]
    NotFound,
    /// A text that is not a UNID.
    #[error("Invalid UNID; UNID must be a 32-digit hex string.")]
    Unid,
    /// `@DeleteField` or `@Unavailable` used as a value.
    #[error("formula has encountered @DeleteField or @Unavailable")]
    Unavailable,
    /// The result of `@Nothing`. It marks an element that `@Transform` omits.
    #[error("@Nothing marks an element that @Transform omits")]
    Nothing,
    /// An argument outside of the function's domain.
    #[error("{0}")]
    Argument(&'static str),
    /// The host's message about a lookup that failed.
    #[error("{0}")]
    Host(String),
    /// A formula given to `@Eval` that does not compile.
    #[error("{0}")]
    Formula(String),
}

/// The reason why an evaluation ended without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BudgetExceeded {
    /// The budget of steps is spent.
    #[error("the formula exceeded its limit of evaluation steps")]
    Steps,
    /// The budget of bytes is spent, or a text or list is too long.
    #[error("Formula or value requires too much memory")]
    Memory,
    /// The host's time for the evaluation is over.
    #[error("the formula took too much time")]
    Time,
    /// `@Eval` is nested too deep.
    #[error("@Eval formulas are nested too deeply")]
    Depth,
    /// Too many changes and effects.
    #[error("the formula requested too many changes")]
    Effects,
}

/// The error of an operator or function.
#[derive(Clone, PartialEq, Debug)]
pub enum EvaluationError {
    /// An error as a value. The evaluation continues.
    Failure(ErrorValueKind),
    /// The end of the evaluation.
    Stop(BudgetExceeded),
}

impl From<ErrorValueKind> for EvaluationError {
    fn from(kind: ErrorValueKind) -> Self {
        Self::Failure(kind)
    }
}

impl From<BudgetExceeded> for EvaluationError {
    fn from(stop: BudgetExceeded) -> Self {
        Self::Stop(stop)
    }
}
