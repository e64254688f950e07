//! The @formula language: from source to a program, and from a program and a document to an outcome.
//!
//! The crate is pure: it has no files, no clock, no randomness and no storage. An evaluation queries everything else
//! through [`Document`] and [`Host`]; the changes it requests are part of its [`EvaluationOutcome`]. `docs/formula.md`
//! describes the language, its limits and its known differences from Domino.
//!
//! - [`Formula::compile`] creates a program: [`lexer`], [`parser`], [`tree`], [`fold`], [`compiler`].
//! - [`Formula::evaluate`] runs it over a document: [`machine`], [`operators`], [`functions`].
//! - [`value`], [`time`] and [`locale`] define the data, [`error`] the errors, [`limits`] the limits.
//!
//! The crate leaves out every part of Domino's language that needs a user at a screen (dialogs, editors, windows).

pub mod analysis;
pub mod compiler;
pub mod error;
pub mod evaluation;
pub mod fold;
pub mod formula;
pub mod functions;
pub mod fuzz;
pub mod host;
pub mod lexer;
pub mod limits;
pub mod locale;
pub mod machine;
pub mod number_text;
pub mod operators;
pub mod options;
pub mod outcome;
pub mod parser;
pub mod pattern;
pub mod print;
pub mod print_value;
pub mod program;
pub mod source;
pub mod text;
pub mod time;
pub mod time_text;
pub mod token;
pub mod tree;
pub mod value;

pub use analysis::Analysis;
pub use error::{BudgetExceeded, CompileError, ErrorValue};
pub use formula::Formula;
pub use host::{Document, Host};
pub use limits::Limits;
pub use options::{FormulaOptions, Permissions};
pub use outcome::EvaluationOutcome;
pub use text::Text;
pub use time::{Moment, Zone};
pub use value::Value;
