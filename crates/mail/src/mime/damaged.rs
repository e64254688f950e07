//! The error for stored records that differ from the records that were written.

/// A stored record differs from the one that was written. The text names the record. It becomes
/// [`crate::Error::Damaged`] above this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged {0}")]
pub struct DamagedRecord(pub &'static str);
