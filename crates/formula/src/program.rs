//! What the compiler makes: instructions for a stack machine, constants and slots.

use crate::analysis::Analysis;
use crate::functions::Function;
use crate::source::Span;
use crate::token::Operator;
use crate::value::Value;

/// A compiled formula, without the text and options that it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The instructions.
    pub code: Vec<Instruction>,
    /// For each instruction, what it was made of.
    pub spans: Vec<Span>,
    /// Constants.
    pub constants: Vec<Value<'static>>,
    /// What is known before any evaluation; it also names the slots.
    pub analysis: Analysis,
}

/// One step of the machine. Positions and indexes are those of [`Program`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instruction {
    /// Puts a constant on the stack.
    Constant(u32),
    /// Puts the value of a slot on the stack.
    Load(u32),
    /// Puts the value of a slot that is assigned anew before anybody asks for it again.
    Take(u32),
    /// Gives a slot a temporary value, and leaves it on the stack.
    StoreTemporary(u32),
    /// Wishes the field of a slot changed, and leaves the value on the stack.
    StoreField(u32),
    /// Gives a slot a value if the document has none, and leaves it on the stack.
    StoreDefault(u32),
    /// Wishes the setting named by a slot changed, and leaves the value on the stack.
    StoreEnvironment(u32),
    /// Takes two values, puts one.
    Operate(Operator),
    /// Changes the sign of numbers.
    Negate,
    /// Makes true false and else true.
    Not,
    /// Takes so many values and puts the list of all their elements.
    Join(u32),
    /// Takes a list and an index, puts the element.
    Subscript,
    /// Takes so many arguments, puts the result.
    Call(&'static Function, u32),
    /// Takes a value and forgets it.
    Pop,
    /// Takes a value: it is the result so far.
    Keep,
    /// As `Keep`, and it says whether the document is selected.
    Select,
    /// Goes elsewhere.
    Jump(u32),
    /// Takes a condition. True goes on, false to the first place; an error stays on the stack and goes to the second.
    Test(u32, u32),
    /// Goes elsewhere unless an error is on top; takes the error.
    Catch(u32),
    /// Ends the evaluation with the value on top.
    Return,
    /// Puts whether a slot has an item.
    Available(u32),
    /// Takes a list; runs the block that follows, up to a place, once for each element in a slot; puts the list of the results.
    Transform(u32, u32),
    /// Takes a list and options; sorts it with the block that follows, up to a place, which compares two slots.
    Sort {
        /// `$A`
        one: u32,
        /// `$B`
        other: u32,
        /// Where the block ends.
        end: u32,
    },
}
