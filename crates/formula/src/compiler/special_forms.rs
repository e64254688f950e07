//! Compilation of functions that become instructions instead of calls: conditions, loops, blocks.

use super::{CompileResult, Compiler, narrow};
use crate::error::CompileErrorKind;
use crate::functions::{Function, SpecialForm, list, sort};
use crate::program::Instruction;
use crate::source::Span;
use crate::tree::Expression;
use crate::value::Value;

impl Compiler<'_> {
    /// Compiles a call of a function that becomes instructions.
    pub(super) fn compile_special_form(
        &mut self,
        form: SpecialForm,
        function: &'static Function,
        arguments: &[Expression],
        span: Span,
    ) -> CompileResult {
        match form {
            SpecialForm::If => self.compile_if(arguments, span),
            SpecialForm::IfError => self.compile_if_error(arguments, span),
            SpecialForm::Do => self.compile_sequence(arguments),
            SpecialForm::While => self.compile_loop(&[], arguments.first(), &arguments[1..], &[], span),
            SpecialForm::DoWhile => self.compile_do_while(arguments, span),
            SpecialForm::For => {
                self.compile_loop(&arguments[..1], arguments.get(1), &arguments[3..], &arguments[2..3], span)
            }
            SpecialForm::Return => {
                self.compile_expressions(arguments)?;
                self.emit(Instruction::Return, span);
                Ok(())
            }
            SpecialForm::IsAvailable | SpecialForm::IsUnavailable => {
                let slot = self.named_slot(function, arguments, 0)?;
                self.reads.insert(slot);
                self.emit(Instruction::Available(narrow(slot)), span);
                if form == SpecialForm::IsUnavailable {
                    self.emit(Instruction::Not, span);
                }
                Ok(())
            }
            SpecialForm::Set => {
                let slot = self.named_slot(function, arguments, 0)?;
                self.compile_expression(&arguments[1])?;
                self.emit(Instruction::StoreTemporary(narrow(slot)), span);
                Ok(())
            }
            SpecialForm::Transform => self.compile_transform(function, arguments, span),
            SpecialForm::Sort => self.compile_sort(arguments, span),
            SpecialForm::Nothing => {
                if self.transforms > 0 {
                    self.emit(Instruction::Call(&list::NOTHING, 0), span);
                } else {
                    self.compile_constant(Value::EMPTY, span);
                }
                Ok(())
            }
        }
    }

    /// Compiles `@If(condition; value; condition; value; else)`.
    fn compile_if(&mut self, arguments: &[Expression], span: Span) -> CompileResult {
        if arguments.len().is_multiple_of(2) {
            return Err(self.error(span, CompileErrorKind::EvenIf));
        }
        let mut to_end = Vec::new();
        for (index, pair) in arguments.chunks(2).enumerate() {
            let [condition, value] = pair else {
                self.compile_branch(|compiler| compiler.compile_expression(&pair[0]))?;
                break;
            };
            // Only the first condition is evaluated unconditionally.
            self.branches += usize::from(index > 0);
            self.compile_expression(condition)?;
            self.branches -= usize::from(index > 0);
            let test = self.emit(Instruction::Test(0, 0), condition.span);
            self.compile_branch(|compiler| compiler.compile_expression(value))?;
            to_end.push(test);
            to_end.push(self.emit(Instruction::Jump(0), span));
            let next = self.here();
            self.code[test] = Instruction::Test(next, 0);
        }
        self.patch_jumps(&to_end);
        Ok(())
    }

    fn compile_if_error(&mut self, arguments: &[Expression], span: Span) -> CompileResult {
        self.compile_expression(&arguments[0])?;
        let catch = self.emit(Instruction::Catch(0), span);
        match arguments.get(1) {
            Some(other) => self.compile_branch(|compiler| compiler.compile_expression(other))?,
            None => self.compile_constant(Value::EMPTY, span),
        }
        self.patch_jumps(&[catch]);
        Ok(())
    }

    /// Compiles expressions in sequence and leaves only the value of the last one on the stack.
    fn compile_sequence(&mut self, arguments: &[Expression]) -> CompileResult {
        for (index, argument) in arguments.iter().enumerate() {
            self.compile_expression(argument)?;
            if index + 1 < arguments.len() {
                self.emit(Instruction::Pop, argument.span);
            }
        }
        Ok(())
    }

    fn compile_discarded(&mut self, arguments: &[Expression]) -> CompileResult {
        for argument in arguments {
            self.compile_expression(argument)?;
            self.emit(Instruction::Pop, argument.span);
        }
        Ok(())
    }

    fn compile_loop(
        &mut self,
        before: &[Expression],
        condition: Option<&Expression>,
        body: &[Expression],
        after: &[Expression],
        span: Span,
    ) -> CompileResult {
        self.compile_discarded(before)?;
        let top = self.here();
        let test = match condition {
            Some(condition) => {
                self.compile_expression(condition)?;
                Some(self.emit(Instruction::Test(0, 0), condition.span))
            }
            None => None,
        };
        self.compile_branch(|compiler| {
            compiler.compile_discarded(body)?;
            compiler.compile_discarded(after)
        })?;
        self.emit(Instruction::Jump(top), span);
        self.exit_with_true(test, span);
        Ok(())
    }

    fn compile_do_while(&mut self, arguments: &[Expression], span: Span) -> CompileResult {
        let Some((condition, body)) = arguments.split_last() else { return Ok(()) };
        let top = self.here();
        self.compile_discarded(body)?;
        self.compile_expression(condition)?;
        let test = self.emit(Instruction::Test(0, 0), condition.span);
        self.emit(Instruction::Jump(top), span);
        self.exit_with_true(Some(test), span);
        Ok(())
    }

    /// Ends a loop. The value of the loop is 1 if its condition was false, or the error if its condition was an error.
    fn exit_with_true(&mut self, test: Option<usize>, span: Span) {
        let out = self.here();
        self.compile_constant(Value::TRUE, span);
        if let Some(test) = test {
            self.code[test] = Instruction::Test(out, self.here());
        }
    }

    fn compile_transform(
        &mut self,
        function: &'static Function,
        arguments: &[Expression],
        span: Span,
    ) -> CompileResult {
        self.compile_expression(&arguments[0])?;
        let slot = self.named_slot(function, arguments, 1)?;
        let start = self.emit(Instruction::Transform(narrow(slot), 0), span);
        self.transforms += 1;
        let result = self.compile_block(&[slot], &arguments[2]);
        self.transforms -= 1;
        result?;
        self.code[start] = Instruction::Transform(narrow(slot), self.here());
        Ok(())
    }

    fn compile_sort(&mut self, arguments: &[Expression], span: Span) -> CompileResult {
        let Some(comparison) = arguments.get(2) else {
            self.compile_expressions(arguments)?;
            self.emit(Instruction::Call(&sort::SORT_WITHOUT_FORMULA, narrow(arguments.len())), span);
            return Ok(());
        };
        self.compile_expressions(&arguments[..2])?;
        let slots = [self.slot("$A", span)?, self.slot("$B", span)?];
        let start = self.emit(Instruction::Pop, span);
        self.compile_block(&slots, comparison)?;
        let end = self.here();
        self.code[start] = Instruction::Sort { one: narrow(slots[0]), other: narrow(slots[1]), end };
        Ok(())
    }

    /// Compiles a body that is run repeatedly, during which the given slots have values.
    fn compile_block(&mut self, slots: &[usize], body: &Expression) -> CompileResult {
        let fresh: Vec<usize> = slots.iter().copied().filter(|slot| self.assigned.insert(*slot)).collect();
        self.compile_branch(|compiler| compiler.compile_expression(body))?;
        fresh.iter().for_each(|slot| {
            self.assigned.remove(slot);
        });
        Ok(())
    }

    fn compile_branch(&mut self, inside: impl FnOnce(&mut Self) -> CompileResult) -> CompileResult {
        self.branches += 1;
        let result = inside(self);
        self.branches -= 1;
        result
    }
}
