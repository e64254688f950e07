//! What this crate needs from the rest of the server: logins. The crate `server` implements it over the directory.

use std::sync::Arc;

use base::Timestamp;
use notes::Identity;
use sasl::{Credentials, Login, LoginError, LoginOrigin, LoginPassword, PasswordRequest};
use wire::SessionTermination;

/// A person who has logged in.
#[derive(Debug, Clone)]
pub struct LoggedIn {
    /// The identity, with all groups.
    pub identity: Arc<Identity>,
    /// A number that is different after a change of the password.
    pub stamp: u64,
    /// The password that was used. The identity has no more rights than its scope.
    pub password: LoginPassword,
}

/// What a login has proved whose person is looked up again later: that of a session, or of a request that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginProof {
    /// The state of the password at the login ([`LoggedIn::stamp`]).
    pub stamp: u64,
    /// The second factor of which a code was entered: when it was added. `None` if the person had none.
    pub factor: Option<Timestamp>,
}

/// A login that is watched apart from its connection, until this is dropped.
pub trait LoginWatch: Send + Sync {
    /// Returns the signal that the login has ended.
    fn termination(&self) -> &SessionTermination;
}

/// How far the login of a person has come who has proved the password of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstFactor {
    /// The canonical name.
    pub login: String,
    /// The state of the password ([`LoggedIn::stamp`]).
    pub stamp: u64,
    /// `true` if the person must enter a code of the second factor.
    pub is_code_needed: bool,
}

/// A right code of the second factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeProof {
    /// A code of an authenticator. It counts only if none of this or a later step was used with the factor.
    Step {
        /// The time step.
        step: u64,
        /// The factor: when it was added.
        factor: Timestamp,
    },
    /// A recovery code, which is used up now.
    RecoveryCode {
        /// The factor: when it was added.
        factor: Timestamp,
    },
}

/// Logins, and the identities of people. All methods may block.
pub trait Accounts: Credentials {
    /// Returns the identity of an authenticated login, and registers it for the connection: if the account is changed,
    /// or its application password is revoked, the connection is ended.
    ///
    /// With a proof, the login was made earlier, as that of a session. It fails unless the password is still the one of
    /// that time, and with the password of the account, unless the second factor of the person is the proved one.
    fn identify(&self, origin: &LoginOrigin, login: &Login, proof: Option<LoginProof>) -> Result<LoggedIn, LoginError>;

    /// Begins to watch a login that was made earlier, apart from its connection: a connection can carry requests of
    /// several people, and only the last one of them is registered for it.
    fn watch(&self, origin: &LoginOrigin, login: &Login, proof: LoginProof) -> Result<Box<dyn LoginWatch>, LoginError>;

    /// Checks the password of an account for the login page, which takes no application password.
    fn check_first_factor(&self, origin: &LoginOrigin, request: &PasswordRequest) -> Result<FirstFactor, LoginError>;

    /// Checks a code of the second factor of somebody who has proved the password.
    fn check_second_factor(&self, origin: &LoginOrigin, login: &str, code: &str) -> Result<CodeProof, LoginError>;
}
