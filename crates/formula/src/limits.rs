//! Every maximum of this room.
//!
//! The first group holds for the text of a formula and is checked by the compiler. The second holds for one evaluation; a host may
//! set the budgets of [`Limits`] lower or higher for each.

/// Most characters of a line of a formula that an error shows.
pub const EXCERPT_CHARS_MAX: usize = 160;

/// Longest formula, in bytes.
pub const SOURCE_BYTES_MAX: usize = 64 * 1024;

/// Deepest nesting of parentheses, calls, subscripts and signs.
pub const DEPTH_MAX: usize = 100;

/// Most different names of items and temporaries in one formula.
pub const SLOTS_MAX: usize = 1_000;

/// Most arguments of one call: as in the original, `@While` and its sisters take 254 statements and a condition.
pub const ARGUMENTS_MAX: usize = 255;

/// Longest name of a field or temporary, in bytes.
pub const NAME_BYTES_MAX: usize = base::limits::ITEM_NAME_BYTES_MAX;

/// Largest constant that folding keeps in a program, in bytes; larger ones are computed when they are needed.
pub const FOLDED_BYTES_MAX: usize = 4 * 1024;

/// Most steps that folding spends on one expression.
pub const FOLDING_STEPS_MAX: u64 = 10_000;

/// Longest text that an evaluation may make, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// Most elements of a list that an evaluation may make.
pub const LIST_ELEMENTS_MAX: usize = 1_000_000;

/// Deepest nesting of `@Eval`.
pub const EVAL_DEPTH_MAX: usize = 4;

/// Most changes and effects of one evaluation together.
pub const EFFECTS_MAX: usize = 10_000;

/// Most days that a range may span when it is taken apart.
pub const RANGE_DAYS_MAX: i64 = 100_000;

/// Most decimals of a formatted number.
pub const DECIMALS_MAX: usize = 30;

/// Longest pattern of `@Matches` and `@Like`, in characters.
pub const PATTERN_CHARS_MAX: usize = 4_096;

/// Steps that the hash of one password costs: with the usual budget, four can be made or compared in one evaluation.
pub const PASSWORD_STEPS: usize = 2_400_000;

/// The budgets of one evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions and elements looked at.
    pub steps: u64,
    /// Bytes of texts and lists made, whether they are still needed or not.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 10_000_000, bytes: 256 << 20 }
    }
}
