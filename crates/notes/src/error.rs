//! Errors of operations on databases and notes, sorted by who must act.

use base::{NoteId, Unid};
use formula::source::LineColumn;
use store::Table;

use crate::acl::AclLevel;
use crate::ods::OdsVersion;

/// The result of an operation on databases and notes.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an operation on databases and notes failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store failed. The inner error determines who must act.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The caller lacks the right. A manager of the database can grant it.
    #[error("no {needed} access to {database}: {who} has {has}")]
    AccessDenied { database: String, who: String, needed: AclLevel, has: AclLevel },
    /// The operation is reserved for the server itself, or for the user whose data it concerns.
    #[error("this operation on {database} is reserved for the server")]
    ServerOnly { database: String, who: String },
    /// The caller may see the note but not change it.
    #[error("{who} may not change note {note} of {database}: not among its authors")]
    NotAuthor { database: String, who: String, note: NoteId },
    /// The named object does not exist, or the caller may not see it.
    #[error("{what} does not exist")]
    NotFound { what: String },
    /// The named object already exists.
    #[error("{what} exists already")]
    Exists { what: String },
    /// The named object cannot be deleted while it contains others.
    #[error("{what} is not empty")]
    NotEmpty { what: String },
    /// The note was saved by another caller since it was read. The caller reads it again and decides.
    #[error("save conflict: note {unid} was saved since it was read (sequence number {found}, not {expected})")]
    Conflict { unid: Unid, expected: u32, found: u32 },
    /// The note may have been replaced, since the caller read it, by a version of another server that has the same
    /// sequence number. The caller reads it again and decides.
    #[error(
        "save conflict: note {unid} has another version with the sequence number {sequence}, from another server; name \
         the revision that was read"
    )]
    OtherVersion { unid: Unid, sequence: u32 },
    /// The caller passed an invalid value.
    #[error("{what}: {reason}")]
    Invalid { what: String, reason: String },
    /// A formula is wrong. `reason` includes the location: the line, with carets under the faulty part. The author of
    /// the formula must correct it.
    #[error("{what}: {reason}")]
    Formula { what: String, reason: String, position: LineColumn },
    /// The operation would exceed a named limit.
    #[error("limit exceeded: at most {max} {what}")]
    Limit { what: &'static str, max: usize },
    /// The database was written by a newer program. Nothing of it was read or changed. The operator must use that
    /// program.
    #[error(
        "database {database} has structure {structure}, this program knows structures up to {known}; use a newer version of doublet"
    )]
    NewerOds { database: String, structure: OdsVersion, known: OdsVersion },
    /// A stored record does not match its format. `doublet fixup` reports it, and repairs records that can be derived.
    #[error("damaged {record} of note {note} in {database}")]
    Damaged { database: String, note: NoteId, record: &'static str },
    /// The operation ended before it was complete, because its [`base::Pacer`] requires it. The code that provides the
    /// pacer repeats the operation in another way, unless nobody waits for the result any more.
    #[error(transparent)]
    Interrupted(#[from] base::Interrupted),
}

impl Error {
    /// Creates an [`Error::NotFound`].
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    /// Creates an [`Error::Invalid`].
    pub fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), reason: reason.into() }
    }

    /// Returns `true` if the error means that stored bytes differ from those that were written. Failures of the engine
    /// do not count.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Store(store::Error::Damaged { .. }))
    }

    /// Returns `true` if a later retry by the caller may succeed without changes.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// Creates the error for a record that does not match its format.
pub(crate) fn damaged(table: Table, key: &[u8]) -> Error {
    Error::Store(store::Error::Damaged { table, key: key.to_vec(), reason: "not in the expected format".into() })
}
