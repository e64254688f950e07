//! What the settings need for application passwords and the second factor. The crate `server` implements it over the
//! directory. All methods may block and are called on workers.
//!
//! The pages ask for the password of the account before each change except revoking; the backend does not check it.

use base::Timestamp;
use http::Caller;
use sasl::{ApplicationPasswordId, LoginProtocol, LoginScope};

use crate::backend::BackendError;

/// An application password of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationPasswordInfo {
    /// The identifier.
    pub id: ApplicationPasswordId,
    /// The name.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// The protocols for which it is valid.
    pub protocols: Vec<LoginProtocol>,
    /// What it permits.
    pub scope: LoginScope,
    /// When, from which address and over which protocol it was last used on this server.
    pub last_use: Option<(Timestamp, String, String)>,
}

/// The second factor of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondFactorInfo {
    /// When it was added.
    pub added: Timestamp,
    /// Number of recovery codes that were not used.
    pub recovery_codes: usize,
}

/// How a person can log in besides the password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CredentialsInfo {
    /// The application passwords.
    pub application_passwords: Vec<ApplicationPasswordInfo>,
    /// The second factor, if there is one.
    pub second_factor: Option<SecondFactorInfo>,
}

/// A secret for an authenticator.
#[derive(Clone, PartialEq, Eq)]
pub struct OfferedFactor {
    /// The secret in base 32, for typing.
    pub secret: String,
    /// The address with the secret, for a QR code.
    pub url: String,
}

/// A change of the ways to log in.
#[derive(Clone, PartialEq, Eq)]
pub enum CredentialChange {
    /// Makes an application password.
    AddApplicationPassword {
        /// Its name.
        name: String,
        /// The protocols.
        protocols: Vec<LoginProtocol>,
        /// What it permits.
        scope: LoginScope,
    },
    /// Revokes an application password.
    RevokeApplicationPassword(ApplicationPasswordId),
    /// Adds or replaces the second factor.
    SetSecondFactor {
        /// The offered secret.
        secret: String,
        /// A code that the authenticator shows.
        code: String,
    },
    /// Removes the second factor.
    RemoveSecondFactor,
    /// Replaces the recovery codes.
    RenewRecoveryCodes,
    /// Sets the password of the account. All application passwords are revoked.
    SetPassword(String),
}

/// What a person gets by a change. The texts are shown once.
#[derive(Clone, PartialEq, Eq)]
pub enum ChangedCredential {
    /// The text of the new application password.
    ApplicationPassword(String),
    /// The recovery codes.
    RecoveryCodes(Vec<String>),
    /// Nothing.
    Nothing,
}

/// Reason why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The person entered something that is not possible.
    #[error("{0}")]
    Refused(String),
    /// The application password does not exist.
    #[error("the application password does not exist")]
    NotFound,
    /// The server cannot answer at present.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// Access to application passwords and second factors. Each method is about the caller only.
pub trait CredentialBackend: Send + Sync {
    /// Returns how the caller can log in.
    fn credentials(&self, caller: &Caller) -> Result<CredentialsInfo, BackendError>;

    /// Returns a secret for an authenticator: the one with this text, or a new one. It is not stored.
    fn offer_second_factor(&self, caller: &Caller, secret: Option<&str>) -> OfferedFactor;

    /// Checks that a text may be a password, before anything is used up for a change of it.
    fn check_password(&self, password: &str) -> Result<(), CredentialError>;

    /// Changes how the caller can log in, durably.
    fn change(&self, caller: &Caller, change: &CredentialChange) -> Result<ChangedCredential, CredentialError>;
}
