//! The server side of SCRAM-SHA-256 (RFC 5802, RFC 7677): keys and the exchange, without any I/O.
//!
//! The states of an exchange are separate types, each consumed by the next step, so that no step can be skipped or
//! repeated:
//!
//! ```text
//! client-first ──► Opened::read ──► Opened ── challenge(keys) ──► server-first + Challenged
//! client-final ──► Challenged::finish ──► server-final (the proof was right)
//! ```
//!
//! A peer must not learn whether an account exists. For an unknown account the caller continues with [`Keys::decoy`],
//! whose salt is always the same for the same name, and the exchange fails at its end, as with a wrong password.
//!
//! Channel binding (`-PLUS`) is not offered: `n` and `y` are accepted, `p=` is refused. Extensions marked as mandatory
//! by the client (`m=`) are refused; others are ignored.

use std::fmt::Write as _;

use base::Random;
use base64ct::{Base64, Encoding};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::limits::{LOGIN_BYTES_MAX, SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_MESSAGE_BYTES_MAX};

const HASH_BYTES: usize = 32;
const SALT_BYTES_MAX: usize = 64;
const NONCE_BYTES: usize = 18;

/// The reason why an exchange fails. At most [`ScramError::code`] is sent to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// A message violates the grammar of RFC 5802 §7 or is too long.
    #[error("the message violates the SCRAM syntax")]
    Malformed,
    /// The client requires channel binding, which is not offered.
    #[error("channel binding is not supported")]
    ChannelBinding,
    /// The client requires an unknown extension.
    #[error("the extension is not supported")]
    Extension,
    /// The nonce or header in the final message differs from that of the exchange.
    #[error("the final message does not match the exchange")]
    Mismatch,
    /// The proof is wrong because of a wrong password or an unknown account.
    #[error("the proof is wrong")]
    Proof,
}

impl ScramError {
    /// Returns the value of `e=` (RFC 5802 §7), for protocols that send one.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Malformed | Self::Mismatch => "other-error",
            Self::ChannelBinding => "channel-binding-not-supported",
            Self::Extension => "extensions-not-supported",
            Self::Proof => "invalid-proof",
        }
    }
}

/// The stored keys by which a server checks SCRAM proofs.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// Salt of the password.
    pub salt: Vec<u8>,
    /// Number of PBKDF2 iterations.
    pub iterations: u32,
    /// H(ClientKey).
    pub stored_key: [u8; HASH_BYTES],
    /// HMAC(SaltedPassword, "Server Key").
    pub server_key: [u8; HASH_BYTES],
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Keys {
    /// Derives the keys from a prepared password ([`crate::password::prepare`]).
    #[must_use]
    pub fn derive(prepared: &[u8], salt: &[u8], iterations: u32) -> Self {
        let iterations = iterations.clamp(SCRAM_ITERATIONS_MIN, SCRAM_ITERATIONS_MAX);
        let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, HASH_BYTES>(prepared, salt, iterations);
        let client_key = hmac(&salted, b"Client Key");
        Self {
            salt: salt.to_vec(),
            iterations,
            stored_key: Sha256::digest(client_key).into(),
            server_key: hmac(&salted, b"Server Key"),
        }
    }

    /// Creates keys that match no password, for an unknown account. They are always the same for the same secret and
    /// name.
    #[must_use]
    pub fn decoy(secret: &[u8; 32], login: &str, iterations: u32) -> Self {
        let derive = |purpose: &str| hmac(secret, format!("{purpose}:{login}").as_bytes());
        Self {
            salt: derive("salt").iter().take(16).copied().collect(),
            iterations: iterations.clamp(SCRAM_ITERATIONS_MIN, SCRAM_ITERATIONS_MAX),
            stored_key: derive("stored key"),
            server_key: derive("server key"),
        }
    }

    /// Returns the stored form (RFC 5803): `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let salt = Base64::encode_string(&self.salt);
        let stored = Base64::encode_string(&self.stored_key);
        format!("SCRAM-SHA-256${}:{salt}${stored}:{}", self.iterations, Base64::encode_string(&self.server_key))
    }

    /// Parses the stored form.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (cost, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = cost.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let iterations = iterations.parse().ok()?;
        let salt = Base64::decode_vec(salt).ok()?;
        let in_range = (SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&iterations);
        if !in_range || salt.is_empty() || salt.len() > SALT_BYTES_MAX {
            return None;
        }
        Some(Self { salt, iterations, stored_key: decode_hash(stored_key)?, server_key: decode_hash(server_key)? })
    }
}

/// Returns a random server nonce.
#[must_use]
pub fn nonce(random: &dyn Random) -> String {
    let mut bytes = [0; NONCE_BYTES];
    random.fill(&mut bytes);
    Base64::encode_string(&bytes)
}

/// An exchange whose first message has been read.
#[derive(Debug)]
pub struct ClientFirst {
    /// The GS2 header that the client must repeat: binding flag and authorization identity.
    gs2_header: String,
    client_first_bare: String,
    client_nonce: String,
    username: String,
    authorization: Option<String>,
}

impl ClientFirst {
    /// Parses the client's first message.
    pub fn read(message: &[u8]) -> Result<Self, ScramError> {
        let message = text(message)?;
        let (flag, rest) = message.split_once(',').ok_or(ScramError::Malformed)?;
        match flag {
            "n" | "y" => {}
            _ if flag.starts_with("p=") => return Err(ScramError::ChannelBinding),
            _ => return Err(ScramError::Malformed),
        }
        let (authorization, bare) = rest.split_once(',').ok_or(ScramError::Malformed)?;
        let gs2_header = format!("{flag},{authorization},");
        let authorization = match authorization {
            "" => None,
            named => Some(saslname(named.strip_prefix("a=").ok_or(ScramError::Malformed)?)?),
        };
        let mut attributes = bare.split(',');
        let first = attributes.next().unwrap_or_default();
        if first.starts_with("m=") {
            return Err(ScramError::Extension);
        }
        let username = saslname(first.strip_prefix("n=").ok_or(ScramError::Malformed)?)?;
        let client_nonce = attributes.next().and_then(|attribute| attribute.strip_prefix("r=")).unwrap_or_default();
        if client_nonce.is_empty() || !is_printable(client_nonce) {
            return Err(ScramError::Malformed);
        }
        let client_nonce = client_nonce.to_owned();
        Ok(Self { gs2_header, client_first_bare: bare.to_owned(), client_nonce, username, authorization })
    }

    /// Returns the login name.
    #[must_use]
    pub fn username(&self) -> &str {
        &self.username
    }

    /// Returns the authorization identity, or `None` if the client named none.
    #[must_use]
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Returns the state that waits for the client's proof, and the server's first message.
    #[must_use]
    pub fn challenge(self, keys: Keys, server_nonce: &str) -> (AwaitingProof, String) {
        let nonce = format!("{}{server_nonce}", self.client_nonce);
        let server_first = format!("r={nonce},s={},i={}", Base64::encode_string(&keys.salt), keys.iterations);
        let signed = format!("{},{server_first}", self.client_first_bare);
        let binding = Base64::encode_string(self.gs2_header.as_bytes());
        (AwaitingProof { keys, nonce, binding, signed }, server_first)
    }
}

/// An exchange that waits for the client's final message.
#[derive(Debug)]
pub struct AwaitingProof {
    keys: Keys,
    nonce: String,
    binding: String,
    /// The first two parts of AuthMessage, joined by a comma.
    signed: String,
}

impl AwaitingProof {
    /// Checks the client's final message. Returns the server's final message, which proves that the server knows the
    /// keys.
    pub fn finish(self, message: &[u8]) -> Result<String, ScramError> {
        let message = text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        let proof = decode_hash(proof).ok_or(ScramError::Malformed)?;
        let mut attributes = without_proof.split(',');
        let binding =
            attributes.next().and_then(|attribute| attribute.strip_prefix("c=")).ok_or(ScramError::Malformed)?;
        let nonce =
            attributes.next().and_then(|attribute| attribute.strip_prefix("r=")).ok_or(ScramError::Malformed)?;
        if binding != self.binding || nonce != self.nonce {
            return Err(ScramError::Mismatch);
        }
        let mut signed = self.signed;
        let _ = write!(signed, ",{without_proof}");
        self.keys.check_proof(&signed, proof)
    }
}

impl Keys {
    fn check_proof(&self, signed: &str, mut proof: [u8; HASH_BYTES]) -> Result<String, ScramError> {
        let signature = hmac(&self.stored_key, signed.as_bytes());
        proof.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        let candidate: [u8; HASH_BYTES] = Sha256::digest(proof).into();
        if !bool::from(candidate.ct_eq(&self.stored_key)) {
            return Err(ScramError::Proof);
        }
        Ok(format!("v={}", Base64::encode_string(&hmac(&self.server_key, signed.as_bytes()))))
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; HASH_BYTES] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    if message.len() > SCRAM_MESSAGE_BYTES_MAX {
        return Err(ScramError::Malformed);
    }
    std::str::from_utf8(message).map_err(|_| ScramError::Malformed)
}

/// Decodes a saslname, in which `=2C` is a comma and `=3D` an equals sign. Neither character may occur unescaped.
fn saslname(text: &str) -> Result<String, ScramError> {
    if text.is_empty() || text.len() > LOGIN_BYTES_MAX || text.contains('\0') {
        return Err(ScramError::Malformed);
    }
    let mut pieces = text.split('=');
    let mut name = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (character, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(ScramError::Malformed),
        };
        name.push(character);
        name.push_str(rest);
    }
    Ok(name)
}

fn is_printable(nonce: &str) -> bool {
    nonce.bytes().all(|byte| matches!(byte, 0x21..=0x2B | 0x2D..=0x7E))
}

fn decode_hash(text: &str) -> Option<[u8; HASH_BYTES]> {
    Base64::decode_vec(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests;
