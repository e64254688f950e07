//! Errors of the store, grouped by the party that must act.

use std::path::PathBuf;

use base::hex;

use crate::engine::Table;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a store operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Stored bytes do not match their checksum or their format. The operator restores a backup or repairs the store
    /// (`doublet fixup`).
    #[error("damaged record in table {}, key {}: {reason}", table.name(), hex::lower(key))]
    Damaged { table: Table, key: Vec<u8>, reason: String },
    /// An earlier sync failed. The state of the disk is unknown, so nothing more is written until a restart.
    #[error("the store refuses writes because a sync failed ({0}); check the disk, then restart the server")]
    Poisoned(String),
    /// The disk is full or nearly full. The operator frees space; clients may retry later.
    #[error("no space left for the store: {0}")]
    Full(String),
    /// Another process has the store open.
    #[error("the store at {} is in use by another process; stop it first", path.display())]
    Locked { path: PathBuf },
    /// A newer program wrote the store.
    #[error("the store has format {found}, this program knows formats up to {known}; use a newer version of doublet")]
    Newer { found: u32, known: u32 },
    /// The key for attachments is missing or wrong. The operator configures it.
    #[error("the attachments of the store cannot be decrypted: {0}")]
    AttachmentKey(&'static str),
    /// References to attachments were in a damaged place, so the attachments without users are unknown. The operator
    /// has the references rebuilt.
    #[error(
        "attachments are not removed because references to them may be missing; stop the server and rebuild the references with `doublet fixup` or `doublet blobs --rebuild`"
    )]
    ReferencesMissing,
    /// An object named by the operator (a folder, a backup, a key file) is unusable.
    #[error("{}: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
    /// The engine or the operating system failed.
    #[error("storage failure while trying to {what}: {reason}")]
    Failed { what: &'static str, reason: String },
}
