//! The formulas of a view: the selection decides whether a document is in the view, and the columns compute what it
//! shows.
//!
//! [`CompiledView`] holds the formulas of a design: a selection formula and, for each column, an item or a formula. An
//! error in the evaluation of one document concerns only that document. If the selection formula fails, the document is
//! not selected; if a column formula fails, its cell shows the error.
//!
//! The selection and all columns share the limits of a document ([`DOCUMENT_LIMITS`] and a time). If they are exceeded,
//! the remaining column formulas fail.
//!
//! A view's formulas cannot change documents. A formula that reads the clock makes the whole view *time-relative*
//! ([`CompiledView::is_time_relative`]): its results hold for the moment that was passed to [`CompiledView::at`].

use std::sync::Arc;

use base::codec::Encoder;
use base::{Clock, Timestamp, ViewId};
use formula::outcome::SelectedResponses;
use formula::program::Instruction;
use formula::{BudgetExceeded, CompileError, Document, Formula, FormulaOptions, Limits, Permissions};

use crate::catalog::DatabaseRecord;
use crate::error::{Error, Result};
use crate::evaluation_context::EvaluationContext;
use crate::formula_document::FormulaDocument;
use crate::limits::DOCUMENT_LIMITS;
use crate::timed_host::TimedHost;
use crate::view::cell::Cell;
use crate::view::view_format::{Column, ViewDesign};

/// The result of the formulas for a document.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewRowValues {
    /// `true` if the selection takes the document by itself.
    pub selected: bool,
    /// The value of each column. They may be absent if the document is not selected.
    pub cells: Vec<Cell>,
    /// The limit that stopped a formula, if any. [`BudgetExceeded::Time`] takes precedence: only then may the same
    /// document give other values next time.
    pub stopped: Option<BudgetExceeded>,
}

/// The inputs of a view's formulas that can change without any document. If one changes, all results may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExternalInputs {
    view_title: bool,
    title: bool,
    path: bool,
    replica_id: bool,
}

impl ExternalInputs {
    const EVERYTHING: Self = Self { view_title: true, title: true, path: true, replica_id: true };

    /// Returns the inputs that a function uses, by its name.
    fn of_function(name: &str) -> Self {
        let nothing = Self::default();
        match name {
            "@ViewTitle" => Self { view_title: true, ..nothing },
            "@DbTitle" => Self { title: true, ..nothing },
            "@DbName" | "@WebDbName" => Self { path: true, ..nothing },
            "@ReplicaID" => Self { replica_id: true, ..nothing },
            // The formula that it evaluates is known only at evaluation.
            "@Eval" => Self::EVERYTHING,
            _ => nothing,
        }
    }

    /// Returns `true` if the text of a formula may use any of these inputs. Compiling the formula gives the exact
    /// answer.
    pub(crate) fn may_occur_in(text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        ["@viewtitle", "@dbtitle", "@dbname", "@webdbname", "@replicaid", "@eval"]
            .iter()
            .any(|name| text.contains(name))
    }

    fn union(self, other: Self) -> Self {
        Self {
            view_title: self.view_title || other.view_title,
            title: self.title || other.title,
            path: self.path || other.path,
            replica_id: self.replica_id || other.replica_id,
        }
    }

    /// Returns the values of the inputs for a database and a view with the title `view`, encoded for comparison. They
    /// are empty if no input is used.
    pub(crate) fn values(self, database: &DatabaseRecord, view: &str) -> Vec<u8> {
        if self == Self::default() {
            return Vec::new();
        }
        let mut out = Encoder::new();
        let mut add = |is_used: bool, answer: &str| {
            out.u8(u8::from(is_used)).text(if is_used { answer } else { "" });
        };
        add(self.view_title, view);
        add(self.title, &database.title);
        add(self.path, &database.path);
        add(self.replica_id, &database.replica_id.to_string());
        out.finish()
    }
}

/// Functions that depend on a document's position in a view. The position is unknown while an index is made.
const POSITION_FUNCTIONS: [&str; 9] = [
    "@DocLevel",
    "@DocNumber",
    "@DocParentNumber",
    "@DocSiblings",
    "@DocChildren",
    "@DocDescendants",
    "@Responses",
    "@IsCategory",
    "@IsExpandable",
];

/// Functions that read data outside of the document. An index does not follow changes of that data.
const LOOKUP_FUNCTIONS: [&str; 4] = ["@DbColumn", "@DbLookup", "@GetDocField", "@GetProfileField"];

/// Number of bytes of an item that are copied to a cell in one step.
const ITEM_BYTES_PER_STEP: usize = 64;

/// The compiled formulas of a design.
#[derive(Clone, Debug)]
pub struct CompiledView {
    selection: Selection,
    columns: Vec<Source>,
    context: EvaluationContext,
}

#[derive(Clone, Debug)]
enum Selection {
    Formula(Arc<Formula>),
    /// The documents of a folder.
    Folder(ViewId),
}

#[derive(Clone, Debug)]
enum Source {
    Item(String),
    Formula(Arc<Formula>),
}

impl CompiledView {
    /// Compiles selection and columns. An error names the failing formula and the position in it.
    pub fn of_view(selection: &str, design: &ViewDesign) -> Result<Self> {
        let compiled = compile(selection).map_err(|error| wrong("selection", selection, &error))?;
        Self::new(Selection::Formula(Arc::new(compiled)), design)
    }

    /// Compiles the columns of a folder.
    pub fn of_folder(folder: ViewId, design: &ViewDesign) -> Result<Self> {
        Self::new(Selection::Folder(folder), design)
    }

    fn new(selection: Selection, design: &ViewDesign) -> Result<Self> {
        let columns = design.columns.iter().map(source).collect::<Result<_>>()?;
        Ok(Self { selection, columns, context: EvaluationContext::default() })
    }

    /// Returns the formulas prepared for evaluation at a moment, in a database, for a view with the title `view`.
    #[must_use]
    pub fn at(&self, now: Timestamp, database: &DatabaseRecord, view: &str) -> Self {
        let context = EvaluationContext { view: view.to_owned(), ..EvaluationContext::from_record(database, now) };
        Self { context, ..self.clone() }
    }

    /// Evaluates the selection and the columns for a document, within the limits of a document.
    #[must_use]
    pub fn evaluate(&self, document: &FormulaDocument<'_>, clock: &dyn Clock) -> ViewRowValues {
        let host = TimedHost::new(&self.context, clock);
        let mut run = DocumentEvaluation { document, host: &host, budget: DOCUMENT_LIMITS, stopped: None };
        let selected = run.is_selected(&self.selection);
        if !selected && (document.header.parent.is_none() || self.responses() == SelectedResponses::None) {
            return ViewRowValues { selected, cells: Vec::new(), stopped: run.stopped };
        }
        let cells = self.columns.iter().map(|source| run.cell(source)).collect();
        ViewRowValues { selected, cells, stopped: run.stopped }
    }

    /// Returns which responses are included with the selected documents.
    #[must_use]
    pub fn responses(&self) -> SelectedResponses {
        match &self.selection {
            Selection::Folder(_) => SelectedResponses::None,
            Selection::Formula(formula) => formula.analysis().responses,
        }
    }

    /// Returns `true` if the same document always gives the same result, that is if the result depends on nothing that
    /// can change without the document.
    #[must_use]
    pub fn is_deterministic(&self) -> bool {
        // The time of evaluation is fixed for an index, but the names of the database may change.
        !self.formulas().any(|formula| formula.analysis().uses_host())
    }

    /// Returns `true` if the results change as time passes.
    #[must_use]
    pub fn is_time_relative(&self) -> bool {
        self.formulas().any(|formula| formula.analysis().is_time_variant())
    }

    /// Returns `true` if the results change within a day.
    #[must_use]
    pub fn is_clock_relative(&self) -> bool {
        self.formulas().any(|formula| formula.analysis().is_clock_variant())
    }

    /// Returns the inputs that the results depend on besides documents and time.
    #[must_use]
    pub fn external_inputs(&self) -> ExternalInputs {
        let inputs = |formula| {
            functions(formula).map(ExternalInputs::of_function).fold(ExternalInputs::default(), ExternalInputs::union)
        };
        self.formulas().map(inputs).fold(ExternalInputs::default(), ExternalInputs::union)
    }

    /// Refuses functions that have no result while an index is made. `design` is the design of these formulas.
    pub(crate) fn check_functions(&self, design: &ViewDesign) -> Result<()> {
        let refuse = |what: String, formula: &Formula| {
            let refused = functions(formula).find_map(|name| match name {
                name if POSITION_FUNCTIONS.contains(&name) => {
                    Some(format!("{name} depends on the position of a document in the view, which is not known when the view is indexed"))
                }
                name if LOOKUP_FUNCTIONS.contains(&name) => Some(format!(
                    "{name} reads data outside the document, whose changes a view index does not follow; it can be used in searches by formula"
                )),
                _ => None,
            });
            refused.map_or(Ok(()), |reason| Err(Error::invalid(what, reason)))
        };
        if let Selection::Formula(formula) = &self.selection {
            refuse("selection".to_owned(), formula)?;
        }
        for (source, column) in self.columns.iter().zip(&design.columns) {
            if let Source::Formula(formula) = source {
                refuse(format!("column \"{}\"", column.title), formula)?;
            }
        }
        Ok(())
    }

    fn formulas(&self) -> impl Iterator<Item = &Formula> {
        let selection = match &self.selection {
            Selection::Formula(formula) => Some(&**formula),
            Selection::Folder(_) => None,
        };
        let columns = self.columns.iter().filter_map(|source| match source {
            Source::Formula(formula) => Some(&**formula),
            Source::Item(_) => None,
        });
        selection.into_iter().chain(columns)
    }
}

/// The evaluation of the formulas of a view over one document.
struct DocumentEvaluation<'e> {
    document: &'e FormulaDocument<'e>,
    host: &'e TimedHost<'e>,
    /// The budget that is left for the remaining formulas.
    budget: Limits,
    /// The value of [`ViewRowValues::stopped`].
    stopped: Option<BudgetExceeded>,
}

impl DocumentEvaluation<'_> {
    fn is_selected(&mut self, selection: &Selection) -> bool {
        match selection {
            Selection::Formula(formula) => match formula.evaluate_from(self.document, self.host, &mut self.budget) {
                Ok(outcome) => outcome.selected,
                Err(stop) => {
                    self.record_stop(stop);
                    false
                }
            },
            Selection::Folder(folder) => self.document.header.uid_in(*folder).is_some(),
        }
    }

    fn cell(&mut self, source: &Source) -> Cell {
        match source {
            Source::Item(name) => self.item_cell(name),
            // A short formula ends before it checks the time.
            Source::Formula(_) if self.stopped == Some(BudgetExceeded::Time) => {
                Cell::of_failure(&BudgetExceeded::Time.to_string())
            }
            Source::Formula(formula) => match formula.evaluate_from(self.document, self.host, &mut self.budget) {
                Ok(outcome) => Cell::of_formula_value(&outcome.value, &formula.options().zone),
                Err(stop) => {
                    self.record_stop(stop);
                    Cell::of_failure(&stop.to_string())
                }
            },
        }
    }

    /// Returns the cell that shows an item. It is shown whatever is left of the budget, because its cost is bounded.
    fn item_cell(&mut self, name: &str) -> Cell {
        let cell = self.document.value(name).map_or(Cell::None, Cell::of_item);
        let steps = self.document.search_steps() + cell.byte_count() / ITEM_BYTES_PER_STEP;
        self.budget.steps = self.budget.steps.saturating_sub(steps as u64);
        cell
    }

    fn record_stop(&mut self, stop: BudgetExceeded) {
        if self.stopped.is_none() || stop == BudgetExceeded::Time {
            self.stopped = Some(stop);
        }
    }
}

/// Returns the names of the functions that a formula calls.
fn functions(formula: &Formula) -> impl Iterator<Item = &'static str> {
    formula.program().code.iter().filter_map(|instruction| match instruction {
        Instruction::Call(function, _) => Some(function.name),
        _ => None,
    })
}

fn source(column: &Column) -> Result<Source> {
    match &column.formula {
        None => Ok(Source::Item(column.item.clone())),
        Some(text) => {
            let what = format!("column \"{}\"", column.title);
            compile(text).map(|formula| Source::Formula(Arc::new(formula))).map_err(|error| wrong(&what, text, &error))
        }
    }
}

fn compile(text: &str) -> std::result::Result<Formula, CompileError> {
    Formula::compile(text, &FormulaOptions { permissions: Permissions::NONE, ..FormulaOptions::default() })
}

fn wrong(what: &str, text: &str, error: &CompileError) -> Error {
    Error::Formula { what: what.to_owned(), reason: error.render(text), position: error.position }
}
