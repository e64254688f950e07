//! The compiler: translates a syntax tree into a program.
//!
//! Each expression leaves exactly one value on the stack. Effects that the options do not permit are refused here; for
//! effects other than changes of fields and of the environment, the error names the function.

mod special_forms;

use std::collections::BTreeSet;

use crate::analysis::Analysis;
use crate::error::{CompileError, CompileErrorKind};
use crate::fold::fold;
use crate::functions::{Attributes, Function, Implementation};
use crate::limits::SLOTS_MAX;
use crate::options::FormulaOptions;
use crate::outcome::SelectedResponses;
use crate::parser::parse;
use crate::program::{Instruction, Program};
use crate::source::Span;
use crate::tree::{AssignmentTarget, Expression, ExpressionKind, Statement};
use crate::value::Value;

/// Compiles a formula.
///
/// # Errors
///
/// Fails if the source cannot be parsed, if it exceeds a limit, if an effect is not permitted, or if no statement has a
/// result.
pub fn compile(source: &str, options: &FormulaOptions) -> Result<Program, CompileError> {
    let statements = parse(source)?;
    let mut compiler = Compiler::new(source, options);
    let mut has_result = false;
    for statement in statements {
        has_result |= compiler.compile_statement(statement)?;
    }
    if !has_result {
        return Err(CompileError::new(source, Span::new(0, source.len()), CompileErrorKind::NoExpression));
    }
    Ok(compiler.finish())
}

type CompileResult<T = ()> = Result<T, CompileError>;

struct Compiler<'s> {
    source: &'s str,
    options: &'s FormulaOptions,
    code: Vec<Instruction>,
    spans: Vec<Span>,
    constants: Vec<Value<'static>>,
    analysis: Analysis,
    reads: BTreeSet<usize>,
    writes: BTreeSet<usize>,
    /// Slots that are certain to hold an assigned value at the current position, so that loading them does not read the
    /// document.
    assigned: BTreeSet<usize>,
    /// Number of branches and loops that enclose the current position. An assignment within one may not be executed.
    branches: usize,
    /// Number of `@Transform` formulas that enclose the current position.
    transforms: usize,
}

impl<'s> Compiler<'s> {
    fn new(source: &'s str, options: &'s FormulaOptions) -> Self {
        Self {
            source,
            options,
            code: Vec::new(),
            spans: Vec::new(),
            constants: Vec::new(),
            analysis: Analysis::default(),
            reads: BTreeSet::new(),
            writes: BTreeSet::new(),
            assigned: BTreeSet::new(),
            branches: 0,
            transforms: 0,
        }
    }

    fn finish(self) -> Program {
        let mut analysis = self.analysis;
        analysis.reads = self.reads.into_iter().collect();
        analysis.writes = self.writes.into_iter().collect();
        Program { code: self.code, spans: self.spans, constants: self.constants, analysis }
    }

    /// Compiles a statement. Returns `true` if the statement has a result.
    fn compile_statement(&mut self, statement: Statement) -> CompileResult<bool> {
        match statement {
            Statement::Remark(_) => Ok(false),
            Statement::Select(selection) => {
                let span = selection.span;
                self.compile_expression(&fold(selection, self.options))?;
                self.emit(Instruction::Select, span);
                self.analysis.selects = true;
                Ok(true)
            }
            Statement::Plain(plain) => {
                let span = plain.span;
                let assigns = matches!(plain.kind, ExpressionKind::Assign(..));
                self.compile_expression(&fold(plain, self.options))?;
                self.emit(if assigns { Instruction::Pop } else { Instruction::SetResult }, span);
                Ok(!assigns)
            }
        }
    }

    fn compile_expression(&mut self, expression: &Expression) -> CompileResult {
        let span = expression.span;
        match &expression.kind {
            ExpressionKind::Constant(value) => self.compile_constant(value.clone(), span),
            ExpressionKind::Bracketed(_) => return Err(self.error(span, CompileErrorKind::Time)),
            ExpressionKind::Name(name) => {
                let slot = self.slot(name, span)?;
                self.read(slot);
                self.emit(Instruction::Load(narrow(slot)), span);
            }
            ExpressionKind::List(elements) => {
                self.compile_expressions(elements)?;
                self.emit(Instruction::Join(narrow(elements.len())), span);
            }
            ExpressionKind::Negate(operand) => {
                self.compile_expression(operand)?;
                self.emit(Instruction::Negate, span);
            }
            ExpressionKind::Plus(operand) => self.compile_expression(operand)?,
            ExpressionKind::Not(operand) => {
                self.compile_expression(operand)?;
                self.emit(Instruction::Not, span);
            }
            ExpressionKind::Chain(first, rest) => {
                self.compile_expression(first)?;
                for (operator, operand) in rest {
                    self.compile_expression(operand)?;
                    self.emit(Instruction::Operate(*operator), first.span.to(operand.span));
                }
            }
            ExpressionKind::Subscript(list, indexes) => {
                self.compile_expression(list)?;
                for index in indexes {
                    self.compile_expression(index)?;
                    self.emit(Instruction::Subscript, span);
                }
            }
            ExpressionKind::Call(function, arguments) => self.compile_call(function, arguments, span)?,
            ExpressionKind::Assign(target, name, value) => self.compile_assign(*target, name, value, span)?,
        }
        Ok(())
    }

    fn compile_expressions(&mut self, expressions: &[Expression]) -> CompileResult {
        expressions.iter().try_for_each(|expression| self.compile_expression(expression))
    }

    fn compile_constant(&mut self, value: Value<'static>, span: Span) {
        // Searching only the latest constants finds most duplicates, and keeps the compile time linear in the length of
        // the formula.
        let first = self.constants.len().saturating_sub(32);
        let known = self.constants[first..].iter().position(|constant| *constant == value);
        let index = known.map_or(self.constants.len(), |index| first + index);
        if known.is_none() {
            self.constants.push(value);
        }
        self.emit(Instruction::Constant(narrow(index)), span);
    }

    fn compile_assign(
        &mut self,
        target: AssignmentTarget,
        name: &str,
        value: &Expression,
        span: Span,
    ) -> CompileResult {
        let permissions = self.options.permissions;
        match target {
            AssignmentTarget::Field if !permissions.assign => {
                return Err(self.error(span, CompileErrorKind::AssignForbidden));
            }
            AssignmentTarget::Environment if !permissions.environment => {
                return Err(self.error(span, CompileErrorKind::EnvironmentForbidden));
            }
            _ => {}
        }
        let slot = self.slot(name, span)?;
        match self_append_elements(target, name, value) {
            Some((first, more)) => self.compile_append_to_self(slot, first, more, value.span)?,
            None => self.compile_expression(value)?,
        }
        let instruction = match target {
            AssignmentTarget::Temporary => Instruction::StoreTemporary(narrow(slot)),
            AssignmentTarget::Field => Instruction::StoreField(narrow(slot)),
            AssignmentTarget::Default => Instruction::StoreDefault(narrow(slot)),
            AssignmentTarget::Environment => Instruction::StoreEnvironment(narrow(slot)),
        };
        self.emit(instruction, span);
        match target {
            AssignmentTarget::Default => self.read(slot),
            AssignmentTarget::Environment => {
                self.analysis.attributes = self.analysis.attributes.union(Attributes::EFFECT)
            }
            AssignmentTarget::Temporary => {}
            AssignmentTarget::Field => {
                self.writes.insert(slot);
            }
        }
        if self.branches == 0 && matches!(target, AssignmentTarget::Temporary | AssignmentTarget::Field) {
            self.assigned.insert(slot);
        }
        Ok(())
    }

    /// Compiles the assignment of a list to the temporary that is the list's first element.
    ///
    /// The old value is moved instead of copied, so that the cost of a loop that collects a list is proportional to the
    /// elements it collects.
    fn compile_append_to_self(
        &mut self,
        slot: usize,
        first: &Expression,
        more: &[Expression],
        span: Span,
    ) -> CompileResult {
        self.read(slot);
        self.emit(Instruction::LoadMove(narrow(slot)), first.span);
        self.compile_expressions(more)?;
        self.emit(Instruction::Join(narrow(more.len() + 1)), span);
        Ok(())
    }

    fn compile_call(&mut self, function: &'static Function, arguments: &[Expression], span: Span) -> CompileResult {
        self.check_permissions(function, span)?;
        let attributes = function.attributes;
        self.analysis.attributes = self.analysis.attributes.union(attributes);
        if attributes.contains(Attributes::ALL_CHILDREN) {
            self.analysis.responses = self.analysis.responses.max(SelectedResponses::Children);
        }
        if attributes.contains(Attributes::ALL_DESCENDANTS) {
            self.analysis.responses = SelectedResponses::Descendants;
        }
        if attributes.contains(Attributes::NAMES_FIELD) {
            self.record_field_by_name(function, arguments, span)?;
        }
        self.analysis.reads_computed |= attributes.contains(Attributes::READS_ANY);
        for name in function.reads {
            let slot = self.slot(name, span)?;
            self.read(slot);
        }
        match function.implementation {
            Implementation::Form(form) => self.compile_special_form(form, function, arguments, span),
            Implementation::Plain(_) => {
                self.compile_expressions(arguments)?;
                self.emit(Instruction::Call(function, narrow(arguments.len())), span);
                Ok(())
            }
        }
    }

    fn check_permissions(&self, function: &'static Function, span: Span) -> CompileResult {
        let permissions = self.options.permissions;
        let attributes = function.attributes;
        if attributes.contains(Attributes::ASSIGNS) && !permissions.assign {
            return Err(self.error(span, CompileErrorKind::AssignForbidden));
        }
        if attributes.contains(Attributes::SETS_ENVIRONMENT) && !permissions.environment {
            return Err(self.error(span, CompileErrorKind::EnvironmentForbidden));
        }
        let others = attributes.contains(Attributes::EFFECT)
            && !attributes.contains(Attributes::ASSIGNS)
            && !attributes.contains(Attributes::SETS_ENVIRONMENT);
        if others && !permissions.effects {
            return Err(self.error(span, CompileErrorKind::EffectForbidden(function.name)));
        }
        Ok(())
    }

    /// Records the field that a function with a textual field name reads or writes.
    fn record_field_by_name(&mut self, function: &Function, arguments: &[Expression], span: Span) -> CompileResult {
        let name = arguments.first().and_then(constant_text).map(str::to_owned);
        match name {
            Some(name) => {
                let slot = self.slot(&name, span)?;
                self.reads.insert(slot);
                if function.attributes.contains(Attributes::ASSIGNS) {
                    self.writes.insert(slot);
                }
            }
            None => self.analysis.reads_computed = true,
        }
        Ok(())
    }

    /// Returns the slot of an argument that names a variable, either as a name or as constant text.
    fn named_slot(
        &mut self,
        function: &'static Function,
        arguments: &[Expression],
        index: usize,
    ) -> CompileResult<usize> {
        let argument = &arguments[index];
        let name = match &argument.kind {
            ExpressionKind::Name(name) => name,
            _ => match constant_text(argument) {
                Some(name) => name,
                None => {
                    let wanted = "a name or a text constant";
                    let reason = CompileErrorKind::Argument { function: function.name, number: index + 1, wanted };
                    return Err(self.error(argument.span, reason));
                }
            },
        };
        self.slot(name, argument.span)
    }

    fn slot(&mut self, name: &str, span: Span) -> CompileResult<usize> {
        let names = &mut self.analysis.names;
        if let Some(slot) = names.iter().position(|known| known.eq_ignore_ascii_case(name)) {
            return Ok(slot);
        }
        if names.len() >= SLOTS_MAX {
            return Err(self.error(span, CompileErrorKind::Limit { what: "names", max: SLOTS_MAX }));
        }
        names.push(name.to_owned());
        Ok(names.len() - 1)
    }

    fn read(&mut self, slot: usize) {
        if !self.assigned.contains(&slot) {
            self.reads.insert(slot);
        }
    }

    fn error(&self, span: Span, reason: CompileErrorKind) -> CompileError {
        CompileError::new(self.source, span, reason)
    }

    fn here(&self) -> u32 {
        narrow(self.code.len())
    }

    fn emit(&mut self, instruction: Instruction, span: Span) -> usize {
        self.code.push(instruction);
        self.spans.push(span);
        self.code.len() - 1
    }

    /// Sets the target of jumps to the current position. For a `Test` this is the target for a condition that is an
    /// error.
    fn patch_jumps(&mut self, jumps: &[usize]) {
        let here = self.here();
        for jump in jumps {
            self.code[*jump] = match self.code[*jump] {
                Instruction::Test(otherwise, _) => Instruction::Test(otherwise, here),
                Instruction::Catch(_) => Instruction::Catch(here),
                _ => Instruction::Jump(here),
            };
        }
    }
}

/// Returns the first and the remaining elements of a list that is assigned to a temporary and begins with that
/// temporary.
///
/// Returns `None` if the value is not such a list, or if it mentions the temporary again.
fn self_append_elements<'e>(
    target: AssignmentTarget,
    name: &str,
    value: &'e Expression,
) -> Option<(&'e Expression, &'e [Expression])> {
    let ExpressionKind::List(elements) = &value.kind else { return None };
    let (first, more) = elements.split_first()?;
    let is_it = |e: &Expression| matches!(&e.kind, ExpressionKind::Name(other) if other.eq_ignore_ascii_case(name));
    let mut again = false;
    more.iter().for_each(|element| element.walk(&mut |inner| again |= is_it(inner)));
    (target == AssignmentTarget::Temporary && is_it(first) && !again).then_some((first, more))
}

fn constant_text(expression: &Expression) -> Option<&str> {
    match &expression.kind {
        ExpressionKind::Constant(value) => value.text().ok().map(|text| text.as_str()).filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// Converts an index to `u32`. The maximum length of a formula keeps all indexes small.
fn narrow(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
