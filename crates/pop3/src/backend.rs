//! Interfaces that the `pop3` crate needs from the rest of the server: logins, and the mail file of a login.
//!
//! The `server` crate implements them over `directory` and `mail`; the tests implement them in memory. All methods may
//! block and are called on worker threads.

use mail::mailbox::MailFile;
use sasl::{Credentials, Login, LoginError, LoginOrigin};

/// Access to passwords and mail files.
pub trait Accounts: Credentials {
    /// Opens the mail file of an authenticated login over a connection. The termination of the connection is signalled
    /// when the identity with which the file was opened changes. Within the scope of the login's password, the file has
    /// the rights of the person.
    fn open(&self, origin: &LoginOrigin, login: &Login) -> Result<MailFile, LoginError>;
}
