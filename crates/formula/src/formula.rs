//! A formula that is ready for evaluation: its source, the options it was compiled with, and its program.

use crate::analysis::Analysis;
use crate::compiler;
use crate::error::{BudgetExceeded, CompileError};
use crate::host::{Document, Host};
use crate::limits::Limits;
use crate::machine;
use crate::options::FormulaOptions;
use crate::outcome::EvaluationOutcome;
use crate::program::Program;

/// A compiled formula. It can be shared between threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    source: String,
    options: FormulaOptions,
    program: Program,
}

impl Formula {
    /// Compiles a formula.
    pub fn compile(source: &str, options: &FormulaOptions) -> Result<Self, CompileError> {
        let program = compiler::compile(source, options)?;
        Ok(Self { source: source.to_owned(), options: options.clone(), program })
    }

    /// Returns the source.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &FormulaOptions {
        &self.options
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns the properties that are known before an evaluation.
    #[must_use]
    pub fn analysis(&self) -> &Analysis {
        &self.program.analysis
    }

    /// Evaluates the formula over a document with the default limits.
    pub fn evaluate<'d>(
        &'d self,
        document: &'d dyn Document,
        host: &'d dyn Host,
    ) -> Result<EvaluationOutcome<'d>, BudgetExceeded> {
        self.evaluate_within(document, host, Limits::default())
    }

    /// Evaluates the formula over a document with the given limits.
    pub fn evaluate_within<'d>(
        &'d self,
        document: &'d dyn Document,
        host: &'d dyn Host,
        mut limits: Limits,
    ) -> Result<EvaluationOutcome<'d>, BudgetExceeded> {
        machine::evaluate(self, document, host, &mut limits)
    }

    /// Evaluates the formula over a document with a budget that several evaluations share. It is reduced even if the
    /// evaluation is stopped.
    pub fn evaluate_from<'d>(
        &'d self,
        document: &'d dyn Document,
        host: &'d dyn Host,
        budget: &mut Limits,
    ) -> Result<EvaluationOutcome<'d>, BudgetExceeded> {
        machine::evaluate(self, document, host, budget)
    }
}
