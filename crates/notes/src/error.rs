//! What can go wrong with databases and notes, sorted by who must act.

use base::{NoteId, Unid};
use formula::source::Place;

use crate::acl::AclLevel;
use crate::structure::Structure;

/// The result of an operation on databases and notes.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on databases and notes failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store failed; see there who must act.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The caller lacks the right. A manager of the database can grant it.
    #[error("no {needed} access to {database}: {who} has {has}")]
    AccessDenied { database: String, who: String, needed: AclLevel, has: AclLevel },
    /// What was asked for is the server's own business, or somebody else's.
    #[error("{who} may not do that in {database}: only the server itself may")]
    ServerOnly { database: String, who: String },
    /// The caller may see the note but not change it.
    #[error("{who} may not change note {note} of {database}: not among its authors")]
    NotAuthor { database: String, who: String, note: NoteId },
    /// The named thing does not exist, or the caller may not see it.
    #[error("{what} does not exist")]
    NotFound { what: String },
    /// The named thing exists already.
    #[error("{what} exists already")]
    Exists { what: String },
    /// Somebody else saved the note since it was read. The caller reads it again and decides.
    #[error("save conflict: note {unid} was saved since it was read (sequence number {found}, not {expected})")]
    Conflict { unid: Unid, expected: u32, found: u32 },
    /// The caller gave something that cannot be.
    #[error("{what}: {why}")]
    Invalid { what: String, why: String },
    /// A formula is wrong; `why` says where, too, with the line and carets under what is meant. Its author mends it.
    #[error("{what}: {why}")]
    Formula { what: String, why: String, place: Place },
    /// A named limit would be passed.
    #[error("too many or too much: at most {max} {what}")]
    Limit { what: &'static str, max: usize },
    /// A newer program has written the database; nothing of it was read or changed. The operator uses that program.
    #[error(
        "database {database} has structure {structure}, this program knows structures up to {known}; use the newer program"
    )]
    Newer { database: String, structure: Structure, known: Structure },
    /// A stored record does not match its format. `doublet fixup` reports and repairs what is derivable.
    #[error("damaged {record} of note {note} in {database}")]
    Damaged { database: String, note: NoteId, record: &'static str },
}

impl Error {
    /// Makes a [`Error::NotFound`].
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    /// Makes a [`Error::Invalid`].
    pub fn invalid(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), why: why.into() }
    }

    /// Tells whether the error says that stored bytes are not what was written, and not that the engine fails.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Store(store::Error::Damaged { .. }))
    }

    /// Tells whether trying again later, with nothing changed by the caller, may succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}
