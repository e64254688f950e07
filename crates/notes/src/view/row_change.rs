//! The change of a row, and the weight with which a row counts in the tree of its collection.

use std::sync::Arc;

use collection::{EntryWeigher, Weight};

use crate::view::row::{DocumentRow, StoredRow};

/// The state of a key before or after a change: the row that it has.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum RowState {
    Category,
    Document(Arc<DocumentRow>),
    /// A document in a view without categories and totals. No other data of the row are kept.
    Counted {
        response_level: u8,
        restricted: bool,
    },
}

/// The contents of a key before a change and after it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RowChange {
    pub(crate) key: Vec<u8>,
    pub(crate) before: Option<RowState>,
    pub(crate) after: Option<RowState>,
}

/// Number of response levels, main documents included, whose rows the tree counts separately.
pub const COUNTED_LEVELS: usize = 4;

/// Number of the sum that counts rows with Readers items.
pub(crate) const RESTRICTED_SUM: usize = COUNTED_LEVELS;

/// The weights of rows: they count documents of the levels 0 to 3, and rows with Readers items.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowWeights;

impl EntryWeigher for RowWeights {
    fn sums(&self) -> usize {
        COUNTED_LEVELS + 1
    }

    fn weigh(&self, _key: &[u8], value: &[u8]) -> Option<Weight> {
        let head = StoredRow::head(value).ok()?;
        Some(head.map_or(Weight::ZERO, |(level, is_restricted)| weight_of(usize::from(level), is_restricted)))
    }
}

impl RowState {
    /// Returns the weight of the row.
    pub(crate) fn weight(&self) -> Weight {
        match self {
            Self::Category => Weight::ZERO,
            Self::Document(row) => weight_of(usize::from(row.response_level), row.readers.is_some()),
            Self::Counted { response_level, restricted } => weight_of(usize::from(*response_level), *restricted),
        }
    }
}

/// Returns the weight of a document's row.
fn weight_of(level: usize, is_restricted: bool) -> Weight {
    let mut values = [0; COUNTED_LEVELS + 1];
    if level < COUNTED_LEVELS {
        values[level] = 1;
    }
    values[RESTRICTED_SUM] = i64::from(is_restricted);
    Weight::new(&values)
}
