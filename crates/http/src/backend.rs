//! What this crate needs from the rest of the server: logins. The crate `server` implements it over the directory.

use std::sync::Arc;

use notes::Identity;
use sasl::{Credentials, LoginError, LoginOrigin};

/// A person who has logged in.
#[derive(Debug, Clone)]
pub struct LoggedIn {
    /// The identity, with all groups.
    pub identity: Arc<Identity>,
    /// A number that is different after a change of the password.
    pub stamp: u64,
}

/// Logins, and the identities of people. All methods may block.
pub trait Accounts: Credentials {
    /// Returns the identity of an authenticated login, and registers it for the connection: if the account is changed,
    /// the connection is ended. With a stamp, fails unless the password is still the one of that time.
    fn identify(&self, origin: &LoginOrigin, login: &str, stamp: Option<u64>) -> Result<LoggedIn, LoginError>;
}
