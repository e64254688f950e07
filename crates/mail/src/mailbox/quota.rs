//! The usage of a mail file, and its quota.

use notes::DatabaseSnapshot;

/// The usage and the quota of a mail file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Number of bytes of all messages, and of the indexes of the owner's and of shared views.
    pub used_bytes: u64,
    /// Maximum number of bytes, or `None` for no limit.
    pub limit_bytes: Option<u64>,
    /// Number of notes, including folders and settings.
    pub notes: u64,
}

impl Quota {
    /// Returns those of a snapshot.
    pub(crate) fn of(reading: &DatabaseSnapshot<'_>) -> Self {
        let counters = reading.counters();
        let limit_bytes = reading.database().record().options.quota_bytes;
        Self { used_bytes: counters.bytes_used(), limit_bytes, notes: counters.notes }
    }
}
