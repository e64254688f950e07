//! A formula that is ready to be evaluated: its text, the options it was compiled with, and its program.

use crate::analysis::Analysis;
use crate::compiler;
use crate::error::{CompileError, Stop};
use crate::host::{Document, Host};
use crate::limits::Limits;
use crate::locale::Locale;
use crate::machine;
use crate::outcome::Outcome;
use crate::program::Program;
use crate::time::Zone;

/// What a formula is compiled for.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Options {
    /// The zone in which dates and times of day are read and shown.
    pub zone: Zone,
    /// How dates, times and numbers are written.
    pub locale: Locale,
    /// What the formula may wish.
    pub permissions: Permissions,
}

/// What a formula may wish. By default everything; a view allows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// May change fields of the document, and delete it.
    pub assign: bool,
    /// May change the environment.
    pub environment: bool,
    /// May have other effects.
    pub effects: bool,
}

impl Permissions {
    /// Nothing may be changed: for selections and columns.
    pub const NONE: Self = Self { assign: false, environment: false, effects: false };
}

impl Default for Permissions {
    fn default() -> Self {
        Self { assign: true, environment: true, effects: true }
    }
}

/// A compiled formula. It may be shared between threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    source: String,
    options: Options,
    program: Program,
}

impl Formula {
    /// Compiles a formula.
    pub fn compile(source: &str, options: &Options) -> Result<Self, CompileError> {
        let program = compiler::compile(source, options)?;
        Ok(Self { source: source.to_owned(), options: options.clone(), program })
    }

    /// Gives the text.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Gives the options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Gives the program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Gives what is known before any evaluation.
    #[must_use]
    pub fn analysis(&self) -> &Analysis {
        &self.program.analysis
    }

    /// Evaluates the formula over a document, with the usual limits.
    pub fn evaluate<'d>(&'d self, document: &'d dyn Document, host: &'d dyn Host) -> Result<Outcome<'d>, Stop> {
        self.evaluate_within(document, host, Limits::default())
    }

    /// Evaluates the formula over a document.
    pub fn evaluate_within<'d>(
        &'d self,
        document: &'d dyn Document,
        host: &'d dyn Host,
        limits: Limits,
    ) -> Result<Outcome<'d>, Stop> {
        machine::evaluate(self, document, host, limits)
    }
}
