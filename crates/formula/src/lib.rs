//! The @formula language: from text to a program, and from a program and a document to an outcome.
//!
//! Pure: no files, no clock, no randomness, no storage. What an evaluation needs from outside it asks through [`Document`] and [`Host`];
//! what it wishes changed is part of its [`Outcome`]. `docs/formula.md` describes the language, its limits and its known
//! differences from the original.
//!
//! - [`Formula::compile`] makes a program: [`lexer`], [`parser`], [`tree`], [`fold`], [`compiler`].
//! - [`Formula::evaluate`] runs it over a document: [`machine`], [`operators`], [`functions`].
//! - [`value`], [`time`], [`locale`] are what is computed with, [`error`] what can go wrong, [`limits`] what ends it.
//!
//! Left out: everything of the original that needs a person at a screen (dialogs, editors, windows).

pub mod analysis;
pub mod compiler;
pub mod error;
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
pub mod outcome;
pub mod parser;
pub mod pattern;
pub mod print;
pub mod print_value;
pub mod program;
pub mod run;
pub mod source;
pub mod text;
pub mod time;
pub mod time_text;
pub mod token;
pub mod tree;
pub mod value;

pub use analysis::Analysis;
pub use error::{CompileError, Failure, Stop};
pub use formula::{Formula, Options, Permissions};
pub use host::{Document, Host};
pub use limits::Limits;
pub use outcome::Outcome;
pub use text::Text;
pub use time::{Moment, Zone};
pub use value::Value;
