//! What can go wrong in the directory, sorted by who must act.
//!
//! The texts are for the one who administers the directory; they name the object concerned. What a protocol tells a peer is
//! decided there, from the variant. A failed login is not an [`Error`] but an [`AuthError`].

use std::time::Duration;

use base::NoteId;

use crate::address::AddressError;
use crate::password::PasswordError;
use crate::scram::ScramError;

/// The result of an operation on the directory.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on the directory failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The database failed; see there who must act.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// The named thing does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// Kind and name.
        what: String,
    },
    /// The name or address belongs to somebody already. The caller chooses another, or takes it away there first.
    #[error("{what} is taken already by {holder}")]
    Taken {
        /// What was wanted.
        what: String,
        /// Kind and name of the holder.
        holder: String,
    },
    /// The domain cannot be removed while there are addresses in it.
    #[error("domain {domain} is still in use by {count} addresses, the first is that of {example}")]
    DomainInUse {
        /// The domain.
        domain: String,
        /// How many addresses there are in it.
        count: u64,
        /// Who has one.
        example: String,
    },
    /// An address of a person or group lies in a domain that is not local. The caller adds the domain first.
    #[error("{domain} is not a domain of this server; add it first")]
    DomainUnknown {
        /// The domain.
        domain: String,
    },
    /// Something refers to what shall be removed. The caller changes that first.
    #[error("{what} is still the {role} of {holder}")]
    Referenced {
        /// What shall be removed.
        what: String,
        /// What it is for the other.
        role: &'static str,
        /// Who refers to it.
        holder: String,
    },
    /// The text is not an address or a domain.
    #[error("{text:?}: {why}")]
    Address {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: AddressError,
    },
    /// The text is not fit for a name.
    #[error("{text:?} cannot be a name: {why}")]
    Name {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The password cannot be set.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// A named limit would be passed.
    #[error("too many: {what} are limited to {max}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// To how many.
        max: usize,
    },
    /// Groups are nested deeper than [`base::limits::GROUP_DEPTH_MAX`].
    #[error("groups are nested too deep at {group}")]
    GroupTooDeep {
        /// The first group that lies too deep.
        group: String,
    },
    /// A stored record does not match its format. `doublet fixup` reports it.
    #[error("note {note} of the directory is damaged: {what}")]
    Damaged {
        /// The note.
        note: NoteId,
        /// What is wrong with it.
        what: String,
    },
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Notes(error.into())
    }
}

impl Error {
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    pub(crate) fn address(text: &str, why: AddressError) -> Self {
        Self::Address { text: text.to_owned(), why }
    }

    pub(crate) fn name(text: &str, why: &'static str) -> Self {
        Self::Name { text: text.to_owned(), why }
    }

    /// Tells whether trying again later, with nothing changed by the caller, may succeed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Notes(error) if error.is_temporary())
    }
}

/// Why a login failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuthError {
    /// There were too many failures from there or for this account; the peer may try again later.
    #[error("too many failed logins; try again in {} s", retry_after.as_secs().max(1))]
    Throttled {
        /// The time after which an attempt is possible.
        retry_after: Duration,
    },
    /// There is no such account, or the password is wrong: which one is not told.
    #[error("unknown account or wrong password")]
    Refused,
    /// The password is right, but an administrator has disabled the account.
    #[error("the account is disabled")]
    Disabled,
    /// The password is right, but a deny list keeps the person out.
    #[error("the deny list {list} keeps the account out")]
    KeptOut {
        /// The name of the list.
        list: String,
    },
    /// The peer broke the rules of SCRAM.
    #[error(transparent)]
    Protocol(#[from] ScramError),
    /// The directory cannot answer now.
    #[error("the directory is not available")]
    Unavailable(#[source] Error),
}

impl From<Error> for AuthError {
    fn from(error: Error) -> Self {
        Self::Unavailable(error)
    }
}
