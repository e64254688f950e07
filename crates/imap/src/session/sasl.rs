//! The mechanisms of AUTHENTICATE: PLAIN (RFC 4616), LOGIN (the older mechanism that many clients use), SCRAM-SHA-256
//! (RFC 7677).
//!
//! A mechanism takes the client's decoded messages and either asks for another message or ends with a login.
//! [`crate::backend::Credentials`] checks the passwords.

use wire::Peer;

use super::Options;
use crate::backend::{Credentials, LoginError, SaslExchange, SaslExchangeStep};

/// A SASL exchange that waits for a message from the client.
pub enum Sasl {
    /// PLAIN waits for its only message.
    Plain,
    /// LOGIN waits for the login name.
    LoginName,
    /// LOGIN waits for the password.
    LoginPassword(String),
    /// A mechanism with several steps.
    Steps(Box<dyn SaslExchange>),
    /// The client has proved its identity and must confirm that it has read the server's last message.
    AwaitingConfirmation(String),
}

/// Result of processing a message from the client.
pub enum SaslStep {
    /// The server sends this challenge and waits.
    Challenge(Sasl, Vec<u8>),
    /// The client has logged in.
    Done(String),
}

const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// Returns the mechanisms that are offered, the best first.
pub fn offered(options: &Options) -> impl Iterator<Item = &'static str> + use<> {
    let scram = options.scram.then_some(SCRAM_SHA_256);
    scram.into_iter().chain(["PLAIN", "LOGIN"])
}

impl Sasl {
    /// Begins an exchange. Returns `None` if the mechanism is not offered.
    #[must_use]
    pub fn begin(mechanism: &str, options: &Options, credentials: &dyn Credentials, peer: &Peer) -> Option<Self> {
        match offered(options).find(|offered| *offered == mechanism)? {
            "PLAIN" => Some(Self::Plain),
            "LOGIN" => Some(Self::LoginName),
            SCRAM_SHA_256 => credentials.scram_sha_256(peer).map(Self::Steps),
            _ => None,
        }
    }

    /// Returns the server's first message, for a client that sent no initial response.
    #[must_use]
    pub fn prompt(&self) -> &'static [u8] {
        match self {
            Self::LoginName => b"Username:",
            Self::LoginPassword(_) => b"Password:",
            Self::Plain | Self::Steps(_) | Self::AwaitingConfirmation(_) => b"",
        }
    }

    /// Processes a message from the client.
    pub fn step(self, message: &[u8], credentials: &dyn Credentials, peer: &Peer) -> Result<SaslStep, LoginError> {
        match self {
            Self::Plain => {
                let (login, password) = plain(message).ok_or(LoginError::Malformed)?;
                credentials.authenticate(peer, login, password).map(SaslStep::Done)
            }
            Self::LoginName => {
                let login = std::str::from_utf8(message).map_err(|_| LoginError::Malformed)?;
                let next = Self::LoginPassword(login.to_owned());
                let prompt = next.prompt().to_vec();
                Ok(SaslStep::Challenge(next, prompt))
            }
            Self::LoginPassword(login) => credentials.authenticate(peer, &login, message).map(SaslStep::Done),
            Self::Steps(mut exchange) => match exchange.step(message)? {
                SaslExchangeStep::Challenge(challenge) => Ok(SaslStep::Challenge(Self::Steps(exchange), challenge)),
                SaslExchangeStep::Done { login, last } if last.is_empty() => Ok(SaslStep::Done(login)),
                SaslExchangeStep::Done { login, last } => {
                    Ok(SaslStep::Challenge(Self::AwaitingConfirmation(login), last))
                }
            },
            Self::AwaitingConfirmation(login) if message.is_empty() => Ok(SaslStep::Done(login)),
            Self::AwaitingConfirmation(_) => Err(LoginError::Malformed),
        }
    }
}

/// Parses `[authorization] NUL login NUL password`. Returns `None` if the message is malformed or if the authorization
/// names another user, because acting for another user is not supported.
fn plain(message: &[u8]) -> Option<(&str, &[u8])> {
    let mut parts = message.splitn(3, |byte| *byte == 0);
    let authorization = parts.next()?;
    let login = parts.next()?;
    let password = parts.next()?;
    let same = authorization.is_empty() || authorization == login;
    let login = std::str::from_utf8(login).ok().filter(|login| same && !login.is_empty())?;
    Some((login, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_messages_are_taken_apart() {
        let check = |message: &[u8], expected: Option<(&str, &[u8])>| assert_eq!(plain(message), expected);
        check(b"\0alice\0secret", Some(("alice", b"secret")));
        check(b"alice\0alice\0a\0b", Some(("alice", b"a\0b")));
        check(b"bob\0alice\0secret", None);
        check(b"\0\0secret", None);
        check(b"\0alice", None);
        check(b"\0\xff\0x", None);
    }
}
