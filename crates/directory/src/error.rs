//! Errors of the directory, grouped by the party that must act.
//!
//! The messages are for the administrator of the directory and name the object concerned. A protocol chooses its reply
//! to the peer from the variant. A failed login is not an [`Error`] but an [`AuthError`].

use std::time::Duration;

use base::NoteId;

use crate::address::AddressError;
use crate::password::PasswordError;

/// The result of an operation on the directory.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation on the directory failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The database failed. Its error determines the party that must act.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// The named object does not exist.
    #[error("{object} does not exist")]
    NotFound {
        /// Kind and name of the object.
        object: String,
    },
    /// Another note has the name or address. The caller chooses another one, or first removes it from that note.
    #[error("{object} is already taken by {holder}")]
    AlreadyTaken {
        /// The requested name or address.
        object: String,
        /// Kind and name of the holder.
        holder: String,
    },
    /// The domain cannot be removed while addresses in it exist.
    #[error("domain {domain} is still used by {count} addresses; the first one is that of {example}")]
    DomainInUse {
        /// Name of the domain.
        domain: String,
        /// Number of addresses in the domain.
        count: u64,
        /// Kind and name of one holder of such an address.
        example: String,
    },
    /// An address of a person or group is in a domain that is not local. The caller must add the domain first.
    #[error("{domain} is not a domain of this server; add it first")]
    DomainUnknown {
        /// Name of the domain.
        domain: String,
    },
    /// Another note refers to the object to be removed. The caller must change that note first.
    #[error("{object} is still the {role} of {holder}")]
    Referenced {
        /// Kind and name of the object to be removed.
        object: String,
        /// Role of the object in the other note.
        role: &'static str,
        /// Kind and name of the note that refers to it.
        holder: String,
    },
    /// The text is not an address or a domain.
    #[error("{text:?}: {reason}")]
    Address {
        /// The refused text.
        text: String,
        /// The reason for the refusal.
        reason: AddressError,
    },
    /// The text is not a valid name.
    #[error("invalid name {text:?}: {reason}")]
    Name {
        /// The refused text.
        text: String,
        /// The reason for the refusal.
        reason: &'static str,
    },
    /// The password cannot be set.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// An application password with these properties cannot be made.
    #[error("the application password cannot be made: {reason}")]
    ApplicationPassword {
        /// What is wrong.
        reason: &'static str,
    },
    /// The code is not one of the second factor.
    #[error("the code is wrong or too old; enter the one that the authenticator shows now")]
    FactorCode,
    /// The person has a second factor, which must be removed before another one is added.
    #[error("there is a second step already; remove it first")]
    FactorExists,
    /// The operation would exceed a limit.
    #[error("too many {quantity}: at most {max}")]
    Limit {
        /// The limited quantity.
        quantity: &'static str,
        /// The maximum.
        max: usize,
    },
    /// Groups are nested deeper than [`base::limits::GROUP_DEPTH_MAX`].
    #[error("group {group} is nested too deeply")]
    GroupTooDeep {
        /// Name of the first group beyond the limit.
        group: String,
    },
    /// A stored record does not match its format. `doublet fixup` reports it.
    #[error("note {note} of the directory is damaged: {damage}")]
    Damaged {
        /// Note ID of the record.
        note: NoteId,
        /// Description of the damage.
        damage: String,
    },
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Notes(error.into())
    }
}

impl Error {
    pub(crate) fn not_found(object: impl Into<String>) -> Self {
        Self::NotFound { object: object.into() }
    }

    pub(crate) fn address(text: &str, reason: AddressError) -> Self {
        Self::Address { text: text.to_owned(), reason }
    }

    pub(crate) fn name(text: &str, reason: &'static str) -> Self {
        Self::Name { text: text.to_owned(), reason }
    }

    /// Returns `true` if a retry without any change by the caller may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Notes(error) if error.is_temporary())
    }
}

/// The reason why a login failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AuthError {
    /// There were too many failures from the peer's network address or for this account. The peer may retry later.
    #[error("too many failed logins; try again in {} s", retry_after.as_secs().max(1))]
    Throttled {
        /// Time until the next attempt is allowed.
        retry_after: Duration,
    },
    /// The account does not exist or the password is wrong. The two cases are not distinguished.
    #[error("unknown account or wrong password")]
    Refused,
    /// The password is correct, but an administrator has disabled the account.
    #[error("the account is disabled")]
    Disabled,
    /// The password is correct, but a deny list excludes the person.
    #[error("the account is on the deny list {list}")]
    DenyListed {
        /// Name of the deny list.
        list: String,
    },
    /// The password is correct, but the person has a second factor, which this protocol cannot ask for.
    #[error("the account has a second factor, so an application password is needed")]
    ApplicationPasswordRequired,
    /// The directory is temporarily unavailable.
    #[error("the directory is not available")]
    Unavailable(#[source] Error),
}

impl From<Error> for AuthError {
    fn from(error: Error) -> Self {
        Self::Unavailable(error)
    }
}
