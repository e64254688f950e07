//! The requests to [`crate::Credentials`].
//!
//! The exchange makes them from the client's messages. Protocols make a [`PasswordRequest`] or [`TokenRequest`]
//! themselves for logins without SASL: USER and PASS, LOGIN, simple bind, `Authorization: Basic`, `Authorization:
//! Bearer`.
//!
//! Names and passwords are UTF-8 as the client sent them. The directory normalizes both before it compares them:
//! passwords with SASLprep (RFC 4013), and names like all names of the directory, to NFC and lower case.

use std::fmt;

use crate::error::LoginError;
use crate::limits::SCRAM_PROOF_BYTES;
use crate::secret::Secret;

/// A login with a password. Neither name nor password is empty or contains NUL.
#[derive(Debug, Clone)]
pub struct PasswordRequest {
    authentication_id: String,
    authorization_id: Option<String>,
    password: Secret,
}

impl PasswordRequest {
    /// Creates a request.
    ///
    /// Returns [`LoginError::Malformed`] if the authentication identity or the password is empty or contains NUL, or
    /// if one of the two is not UTF-8 (RFC 4616 §2).
    pub fn new(authentication_id: &[u8], password: &[u8]) -> Result<Self, LoginError> {
        let authentication_id = required_text(authentication_id)?.to_owned();
        let password = Secret::new(required_text(password)?);
        Ok(Self { authentication_id, authorization_id: None, password })
    }

    /// Creates the request of a login without SASL. A name or password that no account can have is wrong like any
    /// other, since no mechanism is violated.
    ///
    /// Returns [`LoginError::InvalidCredentials`] in the cases in which [`PasswordRequest::new`] returns
    /// [`LoginError::Malformed`].
    pub fn without_sasl(name: &[u8], password: &[u8]) -> Result<Self, LoginError> {
        Self::new(name, password).map_err(|_| LoginError::InvalidCredentials)
    }

    /// Returns the same request for another authorization identity. An empty one, and one that equals the
    /// authentication identity, stands for the authentication identity.
    ///
    /// Returns [`LoginError::Malformed`] if it contains NUL or is not UTF-8.
    pub fn with_authorization_id(self, authorization_id: &[u8]) -> Result<Self, LoginError> {
        let authorization_id = authorization_text(authorization_id)?.filter(|id| *id != self.authentication_id);
        Ok(Self { authorization_id, ..self })
    }

    /// Returns the authentication identity: the name whose password is checked.
    #[must_use]
    pub fn authentication_id(&self) -> &str {
        &self.authentication_id
    }

    /// Returns the authorization identity if the client named another one than the authentication identity.
    #[must_use]
    pub fn authorization_id(&self) -> Option<&str> {
        self.authorization_id.as_deref()
    }

    /// Returns the password.
    #[must_use]
    pub fn password(&self) -> &str {
        self.password.reveal()
    }
}

/// A login with an OAuth 2.0 bearer token.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// The token. Its syntax is that of RFC 6750 §2.1.
    pub token: Secret,
    /// The identity that the client wants to act as, or `None` for that of the token.
    pub authorization_id: Option<String>,
    /// The host that the client says it connected to. It must be checked against the server's own names (RFC 7628
    /// §3.2).
    pub host: Option<String>,
    /// The port that the client says it connected to. To be checked like the host.
    pub port: Option<u16>,
}

impl TokenRequest {
    /// Creates a request from credentials of the form `Bearer TOKEN` (RFC 6750 §2.1), as in the HTTP header field
    /// `Authorization`. Returns `None` if they are of another form.
    #[must_use]
    pub fn from_authorization(value: &str) -> Option<Self> {
        let (scheme, rest) = value.split_once(' ')?;
        let token = rest.trim_start_matches(' ');
        if !scheme.eq_ignore_ascii_case("Bearer") || !is_bearer_token(token) {
            return None;
        }
        Some(Self { token: Secret::new(token), authorization_id: None, host: None, port: None })
    }
}

/// A login with the certificate of the TLS connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The client's certificate in DER form. The TLS layer has verified it.
    pub certificate: Vec<u8>,
    /// The identity that the client wants to act as, or `None` for that of the certificate.
    pub authorization_id: Option<String>,
}

/// The client's first message of SCRAM (RFC 5802 §7), without its GS2 header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFirst {
    /// The authentication identity.
    pub authentication_id: String,
    /// The authorization identity if the client named another one than the authentication identity.
    pub authorization_id: Option<String>,
    /// The client's nonce.
    pub nonce: String,
    /// The message without the GS2 header, as received: the first part of AuthMessage.
    pub bare: String,
}

/// The client's final message of SCRAM (RFC 5802 §7). Its channel binding and its nonce have been checked. Its `Debug`
/// form shows neither the channel binding nor the proof.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientFinal {
    /// The message without the proof, as received: the last part of AuthMessage.
    pub without_proof: String,
    /// The proof.
    pub proof: [u8; SCRAM_PROOF_BYTES],
}

impl fmt::Debug for ClientFinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientFinal(..)")
    }
}

/// Returns a text that must be UTF-8 without NUL.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, LoginError> {
    let text = std::str::from_utf8(bytes).map_err(|_| LoginError::Malformed)?;
    if text.contains('\0') { Err(LoginError::Malformed) } else { Ok(text) }
}

/// Returns a text that must be UTF-8 without NUL and not empty.
pub(crate) fn required_text(bytes: &[u8]) -> Result<&str, LoginError> {
    text(bytes).and_then(|text| if text.is_empty() { Err(LoginError::Malformed) } else { Ok(text) })
}

/// Returns an authorization identity, or `None` if it is empty.
pub(crate) fn authorization_text(bytes: &[u8]) -> Result<Option<String>, LoginError> {
    let text = text(bytes)?;
    Ok(if text.is_empty() { None } else { Some(text.to_owned()) })
}

/// Returns `true` if a text has the syntax of a bearer token: `b64token` in RFC 6750 §2.1.
fn is_bearer_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !body.is_empty() && body.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests;
