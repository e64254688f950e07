//! The messages of PLAIN (RFC 4616) and LOGIN (draft-murchison-sasl-login).
//!
//! Identities and passwords must be UTF-8 without NUL; authentication identity and password must not be empty.

use crate::error::LoginError;
use crate::request::{PasswordRequest, required_text};

/// The challenge of LOGIN for the name. Clients look at the order of the challenges, and some at this spelling.
pub(super) const NAME_CHALLENGE: &[u8] = b"Username:";

/// The challenge of LOGIN for the password.
pub(super) const PASSWORD_CHALLENGE: &[u8] = b"Password:";

/// Parses the message of PLAIN: `[authorization identity] NUL authentication identity NUL password`.
pub(super) fn parse_plain(message: &[u8]) -> Result<PasswordRequest, LoginError> {
    // A fourth part shows that there are too many separators.
    let parts: Vec<&[u8]> = message.splitn(4, |byte| *byte == 0).collect();
    let [authorization, authentication, password] = parts[..] else {
        return Err(LoginError::Malformed);
    };
    PasswordRequest::new(authentication, password)?.with_authorization_id(authorization)
}

/// Parses the first message of LOGIN.
pub(super) fn parse_login_name(message: &[u8]) -> Result<String, LoginError> {
    required_text(message).map(str::to_owned)
}

/// Parses the second message of LOGIN.
pub(super) fn parse_login(name: &str, message: &[u8]) -> Result<PasswordRequest, LoginError> {
    PasswordRequest::new(name.as_bytes(), message)
}

#[cfg(test)]
mod tests;
