//! The server side of SCRAM-SHA-256 (RFC 5802, RFC 7677): keys, the challenge and the proof, without any I/O.
//!
//! The crate `sasl` parses the messages and checks channel binding and nonce. The states of an exchange are separate
//! types, each consumed by the next step, so that no step can be skipped or repeated:
//!
//! ```text
//! client-first ──► ScramKeys::challenge ──► server-first + ProofCheck
//! client-final ──► ProofCheck::verify ──► server-final (the proof was right)
//! ```
//!
//! A peer must not learn whether an account exists. For an unknown account the caller continues with
//! [`ScramKeys::decoy`], and the exchange fails at its end, as with a wrong password. The salt is always the same for
//! the same name. The caller passes one name for all spellings, because a known account has one salt for all of them.

use base::Random;
use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sasl::{ClientFinal, ClientFirst};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::limits::{SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN};

const HASH_BYTES: usize = 32;
const SALT_BYTES_MAX: usize = 64;
const NONCE_BYTES: usize = 18;

/// The stored keys by which a server checks SCRAM proofs.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    /// Salt of the password.
    pub salt: Vec<u8>,
    /// Number of PBKDF2 iterations.
    pub iterations: u32,
    /// H(ClientKey).
    pub stored_key: [u8; HASH_BYTES],
    /// HMAC(SaltedPassword, "Server Key").
    pub server_key: [u8; HASH_BYTES],
}

impl std::fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramKeys").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl ScramKeys {
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
    /// canonical login name.
    #[must_use]
    pub fn decoy(secret: &[u8; 32], canonical: &str, iterations: u32) -> Self {
        let derive = |purpose: &str| hmac(secret, format!("{purpose}:{canonical}").as_bytes());
        Self {
            salt: derive("salt").iter().take(16).copied().collect(),
            iterations: iterations.clamp(SCRAM_ITERATIONS_MIN, SCRAM_ITERATIONS_MAX),
            stored_key: derive("stored key"),
            server_key: derive("server key"),
        }
    }

    /// Returns these keys with the salt and the iteration count of others, so that both have the same challenge.
    pub(crate) fn with_challenge_of(self, other: &Self) -> Self {
        Self { salt: other.salt.clone(), iterations: other.iterations, ..self }
    }

    /// Returns the exchange that waits for the client's proof, and the server's first message.
    #[must_use]
    pub fn challenge(self, first: &ClientFirst, server_nonce: &str) -> (ProofCheck, String) {
        let salt = Base64::encode_string(&self.salt);
        let server_first = format!("r={}{server_nonce},s={salt},i={}", first.nonce, self.iterations);
        let signed = format!("{},{server_first}", first.bare);
        (ProofCheck { keys: vec![self], signed }, server_first)
    }

    /// Returns `true` if other keys have the same challenge: salt and iteration count.
    pub(crate) fn has_challenge_of(&self, other: &Self) -> bool {
        (&self.salt, self.iterations) == (&other.salt, other.iterations)
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

/// An exchange that waits for the client's proof.
#[derive(Debug)]
pub struct ProofCheck {
    /// The keys of the passwords that may be proved. All have the same challenge.
    keys: Vec<ScramKeys>,
    /// The first two parts of AuthMessage, joined by a comma.
    signed: String,
}

impl ProofCheck {
    /// Returns the same exchange for further passwords. Their keys must have the same challenge.
    pub(crate) fn or(mut self, others: impl Iterator<Item = ScramKeys>) -> Self {
        self.keys.extend(others);
        self
    }

    /// Returns the server's final message, which proves that the server knows the keys, or `None` if the client's proof
    /// is wrong.
    #[must_use]
    pub fn verify(self, last: &ClientFinal) -> Option<String> {
        self.verify_any(last).map(|(_, server_final)| server_final)
    }

    /// Returns the place of the keys that the client has proved, and the server's final message. Tries all keys.
    pub(crate) fn verify_any(self, last: &ClientFinal) -> Option<(usize, String)> {
        let Self { keys, signed } = self;
        let signed = format!("{signed},{}", last.without_proof);
        let is_proved = |keys: &ScramKeys| {
            let signature = hmac(&keys.stored_key, signed.as_bytes());
            let mut client_key = last.proof;
            client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
            let candidate: [u8; HASH_BYTES] = Sha256::digest(client_key).into();
            bool::from(candidate.ct_eq(&keys.stored_key))
        };
        let proved = keys.iter().enumerate().filter(|(_, keys)| is_proved(keys));
        let (place, proved) = proved.fold(None, |_, proved| Some(proved))?;
        Some((place, format!("v={}", Base64::encode_string(&hmac(&proved.server_key, signed.as_bytes())))))
    }
}

/// Returns a random server nonce.
#[must_use]
pub fn nonce(random: &dyn Random) -> String {
    let mut bytes = [0; NONCE_BYTES];
    random.fill(&mut bytes);
    Base64::encode_string(&bytes)
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; HASH_BYTES] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn decode_hash(text: &str) -> Option<[u8; HASH_BYTES]> {
    Base64::decode_vec(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests;
