//! Static analysis of a formula: the properties that are known before an evaluation.

use crate::functions::Attributes;
use crate::outcome::SelectedResponses;

/// Properties of a compiled formula that a host may query.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Analysis {
    /// Names of items and temporaries, indexed by slot. Each is spelled as at its first occurrence.
    pub names: Vec<String>,
    /// Slots whose items an evaluation may read.
    pub reads: Vec<usize>,
    /// Slots whose fields an evaluation may change.
    pub writes: Vec<usize>,
    /// `true` if items may be read under names that are computed at run time.
    pub reads_computed: bool,
    /// `true` if the formula has a `SELECT` statement.
    pub selects: bool,
    /// The responses that are selected together with a selected document.
    pub responses: SelectedResponses,
    /// Union of the attributes of all functions in the formula.
    pub attributes: Attributes,
}

impl Analysis {
    /// Returns `true` if every evaluation has the same value, except for functions of the document's position in a
    /// view.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let world = [Attributes::TIME, Attributes::DOCUMENT, Attributes::HOST, Attributes::EFFECT];
        self.reads.is_empty() && !self.reads_computed && !world.iter().any(|part| self.attributes.contains(*part))
    }

    /// Returns `true` if the value changes with time, so that an index over it is never up to date.
    #[must_use]
    pub fn is_time_variant(&self) -> bool {
        self.attributes.contains(Attributes::TIME)
    }

    /// Returns `true` if the value changes within a day. `@Today` and similar functions change only at midnight.
    #[must_use]
    pub fn is_clock_variant(&self) -> bool {
        self.attributes.contains(Attributes::CLOCK)
    }

    /// Returns `true` if the formula queries the host, for example for the user's name, the database's title or fields
    /// of other documents.
    #[must_use]
    pub fn uses_host(&self) -> bool {
        self.attributes.contains(Attributes::HOST)
    }

    /// Returns `true` if the formula uses the number of entries beside the document in a view.
    #[must_use]
    pub fn uses_siblings(&self) -> bool {
        self.attributes.contains(Attributes::SIBLINGS)
    }

    /// Returns `true` if the formula uses the number of entries below the document in a view.
    #[must_use]
    pub fn uses_descendants(&self) -> bool {
        self.attributes.contains(Attributes::DESCENDANTS)
    }

    /// Returns `true` if an evaluation may request changes or other effects.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.writes.is_empty() || self.attributes.contains(Attributes::EFFECT)
    }

    /// Returns the names of the items that an evaluation may read.
    pub fn items(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().map(|slot| self.names[*slot].as_str())
    }
}
