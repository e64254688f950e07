//! Compiled programs: instructions for a stack machine, constants and slots.

use crate::analysis::Analysis;
use crate::functions::Function;
use crate::source::Span;
use crate::token::Operator;
use crate::value::Value;

/// A compiled formula, without its source and options.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The instructions.
    pub code: Vec<Instruction>,
    /// The span of the source that produced each instruction.
    pub spans: Vec<Span>,
    /// The constants.
    pub constants: Vec<Value<'static>>,
    /// The properties known before an evaluation. They include the names of the slots.
    pub analysis: Analysis,
}

/// An instruction of the machine. Positions and indexes refer to [`Program`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instruction {
    /// Pushes a constant.
    Constant(u32),
    /// Pushes the value of a slot.
    Load(u32),
    /// Moves the value of a slot to the stack. The slot is assigned again before it is read again.
    LoadMove(u32),
    /// Stores the top of the stack in a slot as a temporary. The value stays on the stack.
    StoreTemporary(u32),
    /// Requests a change of the slot's field. The value stays on the stack.
    StoreField(u32),
    /// Stores the top of the stack in a slot if the document has no such item. The value stays on the stack.
    StoreDefault(u32),
    /// Requests a change of the environment setting named by the slot. The value stays on the stack.
    StoreEnvironment(u32),
    /// Pops two values and pushes the result of an operator.
    Operate(Operator),
    /// Negates the number or numbers on top of the stack.
    Negate,
    /// Replaces the top of the stack by its logical negation.
    Not,
    /// Pops the given number of values and pushes the list of all their elements.
    Join(u32),
    /// Pops a list and an index and pushes the element.
    Subscript,
    /// Pops the given number of arguments and pushes the result of the function.
    Call(&'static Function, u32),
    /// Pops a value and discards it.
    Pop,
    /// Pops a value and makes it the current result.
    SetResult,
    /// Like `Keep`, and the value also determines whether the document is selected.
    Select,
    /// Jumps to a position.
    Jump(u32),
    /// Pops a condition. Continues if it is true and jumps to the first position if it is false. An error stays on the
    /// stack and jumps to the second position.
    Test(u32, u32),
    /// Pops an error and continues. Jumps to a position if the top of the stack is not an error.
    Catch(u32),
    /// Ends the evaluation with the value on top of the stack.
    Return,
    /// Pushes whether the slot's item is available.
    Available(u32),
    /// Pops a list, runs the following block once for each element, and pushes the list of results. The slot holds the
    /// element; the block ends at the given position.
    Transform(u32, u32),
    /// Pops a list and options, and sorts the list with the following block, which compares two slots.
    Sort {
        /// The slot of `$A`.
        one: u32,
        /// The slot of `$B`.
        other: u32,
        /// The position at which the block ends.
        end: u32,
    },
}
