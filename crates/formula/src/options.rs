//! Options of the compiler, which also apply to the evaluation.

use crate::locale::Locale;
use crate::time::Zone;

/// Options with which a formula is compiled and evaluated.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FormulaOptions {
    /// The time zone in which dates and times of day are read and formatted.
    pub zone: Zone,
    /// The format of dates, times and numbers.
    pub locale: Locale,
    /// The effects that the formula may request.
    pub permissions: Permissions,
}

/// The effects that a formula may request. The default permits all of them; a view permits none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Permits changes of the document's fields, and the deletion of the document.
    pub assign: bool,
    /// Permits changes of the environment.
    pub environment: bool,
    /// Permits other effects.
    pub effects: bool,
}

impl Permissions {
    /// No effects, for selection and column formulas.
    pub const NONE: Self = Self { assign: false, environment: false, effects: false };
}

impl Default for Permissions {
    fn default() -> Self {
        Self { assign: true, environment: true, effects: true }
    }
}
