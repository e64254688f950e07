//! An entry of the function table.

use crate::evaluation::{Evaluation, FunctionResult};
use crate::value::Value;

/// An entry of the function table.
#[derive(Clone, Copy)]
pub struct Function {
    /// The name in its usual spelling, including the `@`.
    pub name: &'static str,
    /// The group of features that needs the function: 1 for views, 2 for mail and agents, 3 for the rest.
    pub tier: u8,
    /// The names of the arguments, separated by semicolons. `name?` is optional, `name...` stands for any number of
    /// further arguments.
    pub arguments: &'static str,
    /// The result, described in one sentence.
    pub help: &'static str,
    /// The inputs other than its arguments, and the effects.
    pub attributes: Attributes,
    /// Items that the function reads regardless of its arguments.
    pub reads: &'static [&'static str],
    /// Number of steps charged for each [`BYTE_COST_UNIT`](crate::limits::BYTE_COST_UNIT) bytes of the arguments before
    /// the function runs. 1 stands for about one nanosecond a byte.
    pub byte_cost: u8,
    /// The implementation.
    pub implementation: Implementation,
}

/// A function that takes values and returns a value.
pub type FunctionBody = for<'d> fn(&mut Evaluation<'d>, &[Value<'d>]) -> FunctionResult<'d>;

/// The way a function is computed.
#[derive(Clone, Copy)]
pub enum Implementation {
    /// A call with the values of the arguments.
    Plain(FunctionBody),
    /// Instructions that the compiler emits for the arguments.
    Form(SpecialForm),
}

/// Functions that do not evaluate each of their arguments once and in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpecialForm {
    /// `@If`.
    If,
    /// `@IfError`.
    IfError,
    /// `@Do`.
    Do,
    /// `@While`.
    While,
    /// `@DoWhile`.
    DoWhile,
    /// `@For`.
    For,
    /// `@Return`.
    Return,
    /// `@IsAvailable`.
    IsAvailable,
    /// `@IsUnavailable`.
    IsUnavailable,
    /// `@Set`.
    Set,
    /// `@Transform`.
    Transform,
    /// `@Sort`.
    Sort,
    /// `@Nothing`.
    Nothing,
}

/// The inputs of a function other than its arguments, and its effects. A function without attributes always returns the
/// same value for the same arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes(u16);

bitflags::bitflags! {
    impl Attributes: u16 {
        /// No attributes. The function may be computed at compile time.
        const PURE = 0;
        /// The value changes with time: from one day to the next, or within a day if the function also has
        /// [`Attributes::CLOCK`].
        const TIME = 1;
        /// The function queries properties of the document.
        const DOCUMENT = 1 << 1;
        /// The function queries the host.
        const HOST = 1 << 2;
        /// The function uses the entries beside the document in the view.
        const SIBLINGS = 1 << 3;
        /// The function uses the entries below the document in the view.
        const DESCENDANTS = 1 << 4;
        /// The function requests an effect.
        const EFFECT = 1 << 5;
        /// The effect is a change of the document itself.
        const ASSIGNS = 1 << 6;
        /// The effect is a change of the environment.
        const SETS_ENVIRONMENT = 1 << 7;
        /// The function selects direct responses.
        const ALL_CHILDREN = 1 << 8;
        /// The function selects all responses.
        const ALL_DESCENDANTS = 1 << 9;
        /// The first argument is the name of a field.
        const NAMES_FIELD = 1 << 10;
        /// The function is called even if an argument is an error.
        const TAKES_ERRORS = 1 << 11;
        /// The value depends on collation or the date, but not on the document. It is not computed at compile time.
        const NOT_FOLDABLE = 1 << 12;
        /// The function may read any item.
        const READS_ANY = 1 << 13;
        /// The value changes within a day.
        const CLOCK = 1 << 14;
    }
}

/// Creates a table entry for a pure function.
pub(super) const fn function(
    name: &'static str,
    tier: u8,
    arguments: &'static str,
    help: &'static str,
    body: FunctionBody,
) -> Function {
    let implementation = Implementation::Plain(body);
    Function { name, tier, arguments, help, attributes: Attributes::PURE, reads: &[], byte_cost: 1, implementation }
}

/// Creates a table entry for a function that the compiler turns into instructions.
pub(super) const fn special_form(
    name: &'static str,
    tier: u8,
    arguments: &'static str,
    help: &'static str,
    form: SpecialForm,
) -> Function {
    let implementation = Implementation::Form(form);
    Function { name, tier, arguments, help, attributes: Attributes::PURE, reads: &[], byte_cost: 1, implementation }
}

impl Function {
    /// Returns the entry with additional attributes.
    pub(super) const fn with_attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = self.attributes.union(attributes);
        self
    }

    /// Returns the entry with the items that the function reads.
    pub(super) const fn with_reads(mut self, items: &'static [&'static str]) -> Self {
        self.reads = items;
        self
    }

    /// Returns the entry with another cost of each byte of the arguments.
    pub(super) const fn with_byte_cost(mut self, byte_cost: u8) -> Self {
        self.byte_cost = byte_cost;
        self
    }

    /// Returns the number of steps charged for a call with these arguments.
    #[must_use]
    pub fn cost_steps(&self, arguments: &[Value<'_>]) -> usize {
        let costs = arguments.iter().map(|argument| argument.cost_steps(self.byte_cost));
        costs.fold(0, usize::saturating_add)
    }

    /// Returns `true` if the function is called even if an argument is an error.
    #[must_use]
    pub fn takes_errors(&self) -> bool {
        self.attributes.contains(Attributes::TAKES_ERRORS)
    }

    /// Returns the minimum and the maximum number of arguments. The maximum is `None` if there is no limit.
    #[must_use]
    pub fn argument_counts(&self) -> (usize, Option<usize>) {
        let names = || self.arguments.split(';').map(str::trim).filter(|name| !name.is_empty());
        let least = names().filter(|name| !name.ends_with('?') && !name.ends_with("...")).count();
        let any = names().any(|name| name.ends_with("..."));
        (least, (!any).then(|| names().count()))
    }

    /// Returns `true` if the function takes `count` arguments.
    #[must_use]
    pub fn takes(&self, count: usize) -> bool {
        let (least, greatest) = self.argument_counts();
        count >= least && greatest.is_none_or(|greatest| count <= greatest)
    }

    /// Returns the permitted number of arguments in words.
    #[must_use]
    pub fn arguments_in_words(&self) -> String {
        match self.argument_counts() {
            (0, Some(0)) => "no arguments".to_owned(),
            (1, Some(1)) => "1 argument".to_owned(),
            (least, Some(greatest)) if least == greatest => format!("{least} arguments"),
            (least, Some(greatest)) => format!("{least} to {greatest} arguments"),
            (least, None) => format!("{least} or more arguments"),
        }
    }

    /// Returns the call syntax with the names of the arguments.
    #[must_use]
    pub fn signature(&self) -> String {
        if self.arguments.is_empty() { self.name.to_owned() } else { format!("{}({})", self.name, self.arguments) }
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
