//! The stack machine that runs a program over a document.
//!
//! A run always terminates. Each instruction costs a step, functions and operators are charged for the elements they
//! examine, and the values they create are counted in bytes. The blocks of `@Transform` and `@Sort` run recursively;
//! the depth of the recursion is that of the formula's nesting.

use std::sync::Arc;

use crate::error::{BudgetExceeded, ErrorValue, ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::formula::Formula;
use crate::functions::{Function, Implementation, sort};
use crate::host::{Document, Host};
use crate::limits::Limits;
use crate::operators::{join_lists, negate, not, operate, subscript};
use crate::outcome::{EvaluationOutcome, SideEffect};
use crate::program::{Instruction, Program};
use crate::source::Span;
use crate::value::Value;

/// Runs a formula over a document, and reduces `budget` by the cost even if the evaluation is stopped.
pub fn evaluate<'d>(
    formula: &'d Formula,
    document: &'d dyn Document,
    host: &'d dyn Host,
    budget: &mut Limits,
) -> Result<EvaluationOutcome<'d>, BudgetExceeded> {
    let mut run = Evaluation::new(&formula.analysis().names, formula.options(), document, host, *budget);
    let outcome = evaluate_within(formula, &mut run);
    *budget = run.remaining();
    outcome
}

/// Runs a formula in an [`Evaluation`] that was prepared for it.
pub fn evaluate_within<'d>(
    formula: &'d Formula,
    run: &mut Evaluation<'d>,
) -> Result<EvaluationOutcome<'d>, BudgetExceeded> {
    let program = formula.program();
    let stack = Vec::with_capacity(8);
    let mut machine = Machine { program, run, stack, result: Value::EMPTY, selected: None };
    machine.block(0, program.code.len())?;
    let Machine { result: value, selected, .. } = machine;
    let selected = selected.unwrap_or_else(|| value.is_true().unwrap_or(false));
    Ok(EvaluationOutcome {
        value,
        selected,
        responses: program.analysis.responses,
        deletion: run.deletion,
        changes: std::mem::take(&mut run.changes),
        effects: std::mem::take(&mut run.effects),
    })
}

struct Machine<'r, 'd> {
    program: &'d Program,
    run: &'r mut Evaluation<'d>,
    stack: Vec<Value<'d>>,
    result: Value<'d>,
    selected: Option<bool>,
}

/// The way in which a block ended.
#[derive(PartialEq, Eq)]
enum BlockEnd {
    /// The block ran to its end.
    Completed,
    /// The evaluation ended within the block.
    Returned,
}

impl<'d> Machine<'_, 'd> {
    /// Runs the instructions from `start` up to `end`.
    fn block(&mut self, start: usize, end: usize) -> Result<BlockEnd, BudgetExceeded> {
        let mut position = start;
        while position < end {
            self.run.charge(1)?;
            let instruction = self.program.code[position];
            position += 1;
            match instruction {
                Instruction::Jump(to) => position = to as usize,
                Instruction::Test(otherwise, failed) => {
                    position = self.test(position, otherwise as usize, failed as usize);
                }
                Instruction::Catch(to) => {
                    if matches!(self.stack.last(), Some(Value::Error(_))) {
                        self.pop();
                    } else {
                        position = to as usize;
                    }
                }
                Instruction::Transform(slot, to) => {
                    if self.transform(slot as usize, position, to as usize)? == BlockEnd::Returned {
                        return Ok(BlockEnd::Returned);
                    }
                    position = to as usize;
                }
                Instruction::Sort { one, other, end } => {
                    if self.sort([one as usize, other as usize], position, end as usize)? == BlockEnd::Returned {
                        return Ok(BlockEnd::Returned);
                    }
                    position = end as usize;
                }
                _ => {
                    if self.step(instruction, position - 1)? == BlockEnd::Returned {
                        return Ok(BlockEnd::Returned);
                    }
                }
            }
        }
        Ok(BlockEnd::Completed)
    }

    /// Runs an instruction that is followed by the next one.
    fn step(&mut self, instruction: Instruction, position: usize) -> Result<BlockEnd, BudgetExceeded> {
        match instruction {
            Instruction::Constant(index) => self.stack.push(self.program.constants[index as usize].as_borrowed()),
            Instruction::Load(slot) => {
                let value = self.run.load(slot as usize);
                self.stack.push(value);
            }
            Instruction::LoadMove(slot) => {
                let value = self.run.take(slot as usize);
                self.stack.push(value);
            }
            Instruction::StoreTemporary(slot) => {
                let value = self.top().clone();
                self.run.store_temporary(slot as usize, value);
            }
            Instruction::StoreDefault(slot) => {
                let value = self.top().clone();
                self.run.store_default(slot as usize, value);
            }
            Instruction::StoreField(slot) => return self.store_field(slot as usize),
            Instruction::StoreEnvironment(slot) => return self.store_environment(slot as usize),
            Instruction::Operate(operator) => {
                let right = self.pop();
                let left = self.pop();
                let done = operate(self.run, operator, left, right);
                self.push(done, position)?;
            }
            Instruction::Negate => {
                let value = self.pop();
                self.run.charge(value.cost_steps(1))?;
                self.push(negate(value), position)?;
            }
            Instruction::Not => {
                let value = self.pop();
                self.run.charge(value.cost_steps(0))?;
                self.push(not(value), position)?;
            }
            Instruction::Join(count) => {
                let values = self.stack.drain(self.stack.len() - count as usize..);
                let done = join_lists(self.run, values);
                self.push(done, position)?;
            }
            Instruction::Subscript => {
                let index = self.pop();
                let list = self.pop();
                self.push(subscript(list, &index), position)?;
            }
            Instruction::Call(function, count) => self.call(function, count as usize, position)?,
            Instruction::Pop => drop(self.pop()),
            Instruction::SetResult => self.result = self.pop(),
            Instruction::Select => {
                self.result = self.pop();
                self.selected = Some(self.result.is_true().unwrap_or(false));
            }
            Instruction::Return => {
                self.result = self.pop();
                return Ok(BlockEnd::Returned);
            }
            Instruction::Available(slot) => {
                let available = self.run.is_available(slot as usize);
                self.stack.push(Value::from_bool(available));
            }
            Instruction::Jump(_)
            | Instruction::Test(..)
            | Instruction::Catch(_)
            | Instruction::Transform(..)
            | Instruction::Sort { .. } => {}
        }
        Ok(BlockEnd::Completed)
    }

    /// Removes and returns the top of the stack. The compiler ensures that every consumer finds a value.
    fn pop(&mut self) -> Value<'d> {
        self.stack.pop().unwrap_or(Value::EMPTY)
    }

    fn top(&self) -> &Value<'d> {
        self.stack.last().unwrap_or(&Value::EMPTY)
    }

    fn span(&self, position: usize) -> Span {
        self.program.spans[position]
    }

    /// Pushes a result, or the error value it became.
    fn push(&mut self, done: FunctionResult<'d>, position: usize) -> Result<(), BudgetExceeded> {
        let value = match done {
            Ok(value) => value,
            Err(EvaluationError::Failure(kind)) => Value::failure(kind, self.span(position)),
            Err(EvaluationError::Stop(stop)) => return Err(stop),
        };
        self.stack.push(value);
        Ok(())
    }

    fn call(&mut self, function: &'static Function, count: usize, position: usize) -> Result<(), BudgetExceeded> {
        let Implementation::Plain(body) = function.implementation else { return Ok(()) };
        let first = self.stack.len() - count;
        let arguments = &self.stack[first..];
        let error = arguments.iter().find(|argument| matches!(argument, Value::Error(_)));
        let done = match error {
            Some(error) if !function.takes_errors() => Ok(error.clone()),
            _ => {
                self.run.charge(function.cost_steps(arguments))?;
                body(self.run, arguments)
            }
        };
        self.stack.truncate(first);
        self.push(done, position)
    }

    fn test(&mut self, next: usize, otherwise: usize, failed: usize) -> usize {
        let condition = self.pop();
        self.run.subtract_steps(condition.cost_steps(0));
        match condition.is_true() {
            Ok(true) => next,
            Ok(false) => otherwise,
            Err(kind) => {
                let error = match condition {
                    Value::Error(_) => condition,
                    _ => Value::failure(kind, self.span(next - 1)),
                };
                self.stack.push(error);
                failed
            }
        }
    }

    fn store_field(&mut self, slot: usize) -> Result<BlockEnd, BudgetExceeded> {
        let program = self.program;
        let name = &program.analysis.names[slot];
        match self.top().clone() {
            Value::Error(failure) if failure.kind == ErrorValueKind::Unavailable => {
                self.pop();
                self.stack.push(Value::EMPTY);
                self.run.store_field(name, None)?;
            }
            Value::Error(failure) => return Ok(self.fail(failure)),
            value => self.run.store_field(name, Some(value))?,
        }
        Ok(BlockEnd::Completed)
    }

    fn store_environment(&mut self, slot: usize) -> Result<BlockEnd, BudgetExceeded> {
        let value = self.top().clone();
        if let Value::Error(failure) = value {
            return Ok(self.fail(failure));
        }
        let name = self.program.analysis.names[slot].clone();
        let value = value.element(0).unwrap_or(Value::EMPTY);
        let value = crate::functions::text_of(self.run, &value);
        self.run.charge_text(value.len())?;
        self.run.request_effect(SideEffect::Environment { name, value })?;
        Ok(BlockEnd::Completed)
    }

    /// Ends the evaluation with an error.
    fn fail(&mut self, failure: Arc<ErrorValue>) -> BlockEnd {
        self.result = Value::Error(failure);
        BlockEnd::Returned
    }

    /// Runs a block for each element of the list on top of the stack, and pushes the list of results.
    fn transform(&mut self, slot: usize, start: usize, end: usize) -> Result<BlockEnd, BudgetExceeded> {
        let list = self.pop();
        if let Value::Error(_) = list {
            self.stack.push(list);
            return Ok(BlockEnd::Completed);
        }
        let before = self.run.take_slot(slot);
        let mut joined: Option<Value<'d>> = None;
        for index in 0..list.count() {
            self.run.store_temporary(slot, list.element(index).unwrap_or(Value::EMPTY));
            if self.block(start, end)? == BlockEnd::Returned {
                return Ok(BlockEnd::Returned);
            }
            let result = self.pop();
            if matches!(&result, Value::Error(failure) if failure.kind == ErrorValueKind::Nothing) {
                continue;
            }
            let done = join_lists(self.run, joined.into_iter().chain([result]));
            self.push(done, start - 1)?;
            let list = self.pop();
            if let Value::Error(_) = list {
                joined = Some(list);
                break;
            }
            joined = Some(list);
        }
        self.run.restore(slot, before);
        self.stack.push(joined.unwrap_or(Value::EMPTY));
        Ok(BlockEnd::Completed)
    }

    /// Sorts the list below the options on top of the stack, with a block that compares elements.
    fn sort(&mut self, slots: [usize; 2], start: usize, end: usize) -> Result<BlockEnd, BudgetExceeded> {
        let options = self.pop();
        let list = self.pop();
        if let Some(error) = [&list, &options].into_iter().find(|value| value.error().is_some()) {
            let error = error.clone();
            self.stack.push(error);
            return Ok(BlockEnd::Completed);
        }
        let before = slots.map(|slot| self.run.take_slot(slot));
        let mut flow = BlockEnd::Completed;
        let mut failure = None;
        let order = sort::merge_sort_indexes(list.count(), &mut |one, other| {
            if flow == BlockEnd::Returned || failure.is_some() {
                return Ok(false);
            }
            for (slot, index) in slots.into_iter().zip([one, other]) {
                self.run.store_temporary(slot, list.element(index).unwrap_or(Value::EMPTY));
            }
            flow = self.block(start, end)?;
            if flow == BlockEnd::Returned {
                return Ok(false);
            }
            match self.pop() {
                Value::Error(error) => failure = Some(Value::Error(error)),
                value => match value.number() {
                    Ok(number) => return Ok(number > 0.0),
                    Err(kind) => failure = Some(Value::failure(kind, self.program.spans[start - 1])),
                },
            }
            Ok(false)
        })?;
        let done = match failure {
            Some(error) => Ok(error),
            None => sort::reordered(self.run, &list, order, &options),
        };
        for (slot, before) in slots.into_iter().zip(before) {
            self.run.restore(slot, before);
        }
        self.push(done, start - 1)?;
        Ok(flow)
    }
}
