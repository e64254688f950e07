//! The error of stored records that are not what was written.

/// A stored record is not what was written; says which. Becomes [`crate::Error::Damaged`] above this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged {0}")]
pub struct Damaged(pub &'static str);
