//! The contract with the server: [`Credentials`] checks logins, [`ScramServer`] computes SCRAM.
//!
//! The `server` crate implements both over the directory; tests implement them in memory. All methods may block. An
//! asynchronous caller runs them on a worker thread, or answers a [`crate::PendingCheck`] check by its own means.
//!
//! An implementation must:
//! - prepare passwords with SASLprep (RFC 4013), and compare names like those of accounts (the directory: in NFC and
//!   lower case);
//! - throttle repeated failures, and exchanges that are begun and not ended; take the same time for unknown and known
//!   names;
//! - decide whether the login may act as the authorization identity, and otherwise return
//!   [`LoginError::NotAuthorized`] or, if even that would reveal too much, [`LoginError::InvalidCredentials`];
//! - return [`LoginError::AccountDisabled`] only after the credentials were verified.

use crate::application_password::LoginPassword;
use crate::error::LoginError;
use crate::protocol::LoginOrigin;
use crate::request::{CertificateRequest, ClientFinal, ClientFirst, PasswordRequest, TokenRequest};

/// A successful login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The authenticated identity, in its canonical spelling.
    pub name: String,
    /// The identity to act as, in its canonical spelling. Mostly the same as `name`.
    pub authorization: String,
    /// The password that was used. A protocol must not permit more than its scope.
    pub password: LoginPassword,
}

impl Login {
    /// Creates the login of an identity that acts for itself, with the password of its account.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { authorization: name.clone(), name, password: LoginPassword::Account }
    }

    /// Returns the same login with another password.
    #[must_use]
    pub fn with_password(self, password: LoginPassword) -> Self {
        Self { password, ..self }
    }
}

/// Checks credentials.
pub trait Credentials: Send + Sync {
    /// Checks a password.
    fn check_password(&self, origin: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError>;

    /// Returns `true` if [`Credentials::check_password`] would compute no hash and succeed, because the same login
    /// succeeded recently. May block for a lookup.
    fn is_password_known(&self, _origin: &LoginOrigin, _request: &PasswordRequest) -> bool {
        false
    }

    /// Begins a SCRAM-SHA-256 exchange with the client's first message. Returns the exchange and the server's first
    /// message: `r=`, the client's nonce, the server's nonce, `,s=`, the salt, `,i=`, the number of iterations.
    ///
    /// An unknown account gets a message like a known one.
    fn begin_scram(
        &self,
        _origin: &LoginOrigin,
        _first: &ClientFirst,
    ) -> Result<(Box<dyn ScramServer>, String), LoginError> {
        Err(LoginError::MechanismNotOffered)
    }

    /// Checks a bearer token. Also checks host and port if the request names them.
    fn check_token(&self, _origin: &LoginOrigin, _request: &TokenRequest) -> Result<Login, LoginError> {
        Err(LoginError::MechanismNotOffered)
    }

    /// Returns the login of the identity in a certificate, which has been verified.
    fn check_certificate(&self, _origin: &LoginOrigin, _request: &CertificateRequest) -> Result<Login, LoginError> {
        Err(LoginError::MechanismNotOffered)
    }

    /// Ends a login that succeeded but could not be used, because the protocol could not open what it needs for a
    /// session. The connection is then not logged in.
    fn end_login(&self, _origin: &LoginOrigin) {}
}

/// The server's side of a SCRAM exchange that waits for the client's proof: the keys and the arithmetic of RFC 5802 §3.
///
/// The exchange has parsed the messages. It has also checked the GS2 header, the channel binding and the nonce of the
/// final message.
pub trait ScramServer: Send {
    /// Verifies the client's proof.
    fn verify(self: Box<Self>, last: &ClientFinal) -> Result<ScramSuccess, LoginError>;

    /// Ends the exchange because the server cannot go on with it. Dropping it means that the client did not end it,
    /// which an implementation may count as a failed attempt.
    fn withdraw(self: Box<Self>) {}
}

/// Result of a SCRAM exchange whose proof was right.
pub struct ScramSuccess {
    /// The login.
    pub login: Login,
    /// The server's final message: `v=` and the signature.
    pub server_final: String,
    /// The registration of the login, if the server keeps one.
    pub registration: Option<Box<dyn LoginRegistration>>,
}

/// The registration of a login whose exchange goes on after the proof. Dropping it undoes the registration: the client
/// may still cancel the exchange, or end it with a wrong message.
pub trait LoginRegistration: Send {
    /// Marks the registration as confirmed, because the client is logged in.
    fn confirm(self: Box<Self>);
}
