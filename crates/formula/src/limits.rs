//! All limits of this crate.
//!
//! The first group applies to the source of a formula and is checked by the compiler. The second group applies to one
//! evaluation. A host can set the budgets of [`Limits`] lower or higher for each evaluation.

/// Maximum number of characters of a formula's line that an error message shows.
pub const EXCERPT_CHARS_MAX: usize = 160;

/// Maximum length of a formula, in bytes.
pub const SOURCE_BYTES_MAX: usize = 64 * 1024;

/// Maximum nesting of parentheses, calls, subscripts and signs.
pub const DEPTH_MAX: usize = 100;

/// Maximum number of different names of items and temporaries in one formula.
pub const SLOTS_MAX: usize = 1_000;

/// Maximum number of arguments of one call. As in Domino, `@While` and the similar functions take 254 statements and a
/// condition.
pub const ARGUMENTS_MAX: usize = 255;

/// Maximum length of a field's or temporary's name, in bytes.
pub const NAME_BYTES_MAX: usize = base::limits::ITEM_NAME_BYTES_MAX;

/// Maximum size of a folded constant in a program, in bytes. Larger values are computed at run time.
pub const FOLDED_BYTES_MAX: usize = 4 * 1024;

/// Maximum number of steps spent on folding one expression.
pub const FOLDING_STEPS_MAX: u64 = 1_000;

/// Maximum length of a text that an evaluation creates, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// Maximum number of elements of a list that an evaluation creates.
pub const LIST_ELEMENTS_MAX: usize = 1_000_000;

/// Maximum nesting of `@Eval`.
pub const EVAL_DEPTH_MAX: usize = 4;

/// Maximum number of changes and effects of one evaluation together.
pub const EFFECTS_MAX: usize = 10_000;

/// Maximum number of days of a range that is split into days.
pub const RANGE_DAYS_MAX: i64 = 100_000;

/// Maximum number of decimals of a formatted number.
pub const DECIMALS_MAX: usize = 30;

/// Maximum length of a pattern of `@Matches` and `@Like`, in characters.
pub const PATTERN_CHARS_MAX: usize = 4_096;

/// Cost of one password hash in steps. With the default budget, one evaluation can create or verify four hashes.
pub const PASSWORD_STEPS: usize = 2_400_000;

/// Number of steps between two checks whether the host's time is over.
pub const TIME_CHECK_STEPS: u64 = 4_096;

/// Number of bytes that cost as many steps as the byte cost of a function says.
pub const BYTE_COST_UNIT: usize = 8;

/// Cost in steps of reading a date or a time of day in a time zone.
pub const ZONED_TIME_STEPS: usize = 16;

/// Cost in steps of formatting a number or a time.
pub const FORMAT_STEPS: usize = 64;

/// Cost of compiling one byte of a formula during an evaluation, in steps.
pub const COMPILE_STEPS_PER_BYTE: usize = 16;

/// Number of bytes of two texts together above which comparing their order costs more, because they may be equal up to
/// their end.
pub const COMPARED_BYTES_USUAL: usize = 512;

/// The budgets of one evaluation, or of several that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of instructions executed, and of steps charged for the elements and bytes examined. A step stands for
    /// about ten nanoseconds of work.
    pub steps: u64,
    /// Number of bytes of all texts and lists created, including those that are no longer needed.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 10_000_000, bytes: 256 << 20 }
    }
}
