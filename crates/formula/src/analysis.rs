//! What is known of a formula before it is evaluated.

use crate::functions::Attributes;
use crate::outcome::Responses;

/// What a host may ask of a compiled formula.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Analysis {
    /// Names of items and temporaries; the index is the slot. Spelled as they first occur.
    pub names: Vec<String>,
    /// Slots whose items an evaluation may read.
    pub reads: Vec<usize>,
    /// Slots whose fields an evaluation may change.
    pub writes: Vec<usize>,
    /// Items may be read under names that are computed.
    pub reads_computed: bool,
    /// The formula has a `SELECT`.
    pub selects: bool,
    /// Which responses come with selected documents.
    pub responses: Responses,
    /// What the functions within have in common with the world.
    pub attributes: Attributes,
}

impl Analysis {
    /// Tells whether every evaluation gives the same value, but for its place in a view.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let world = [Attributes::TIME, Attributes::DOCUMENT, Attributes::HOST, Attributes::EFFECT];
        self.reads.is_empty() && !self.reads_computed && !world.iter().any(|part| self.attributes.has(*part))
    }

    /// Tells whether the value changes as time goes by, so that an index over it is never up to date.
    #[must_use]
    pub fn is_time_variant(&self) -> bool {
        self.attributes.has(Attributes::TIME)
    }

    /// Tells whether the value changes within a day; `@Today` and the like change at midnight alone.
    #[must_use]
    pub fn is_clock_variant(&self) -> bool {
        self.attributes.has(Attributes::CLOCK)
    }

    /// Tells whether it asks the host: who the user is, what the database is called, what other documents say.
    #[must_use]
    pub fn asks_host(&self) -> bool {
        self.attributes.has(Attributes::HOST)
    }

    /// Tells whether it asks how many entries stand beside the document.
    #[must_use]
    pub fn uses_siblings(&self) -> bool {
        self.attributes.has(Attributes::SIBLINGS)
    }

    /// Tells whether it asks how many entries stand below the document.
    #[must_use]
    pub fn uses_descendants(&self) -> bool {
        self.attributes.has(Attributes::DESCENDANTS)
    }

    /// Tells whether an evaluation may wish anything changed.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.writes.is_empty() || self.attributes.has(Attributes::EFFECT)
    }

    /// Lists the names of the items that an evaluation may read.
    pub fn items(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().map(|slot| self.names[*slot].as_str())
    }
}
