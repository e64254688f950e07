//! Password storage and verification.
//!
//! A password itself is never stored. Two derived values are stored: an argon2id hash in PHC notation, for PLAIN and
//! LOGIN, and the keys of SCRAM-SHA-256 ([`crate::scram::ScramKeys`]), from which a server can check a SCRAM proof. If
//! the directory is stolen, the SCRAM keys are the weaker of the two, because PBKDF2 needs no memory. Setting
//! [`PasswordHashOptions::scram_iterations`] to `None` disables them.
//!
//! Passwords are prepared with SASLprep (RFC 4013) before both derivations. A password that SASLprep refuses, for
//! example because it contains letters newer than Unicode 3.2, is used as its raw bytes. A password of which the
//! preparation leaves nothing is empty, and an empty password never matches (RFC 4616 §2).
//!
//! Comparisons take constant time. [`Decoy`] makes the check of an unknown account take as much time as that of a known
//! one.
//!
//! Not included: the number of hashes that are computed concurrently, each in memory of its own, is bounded by the
//! number of threads on which the caller checks logins.

use std::borrow::Cow;

use argon2::{Algorithm, Argon2, Params, PasswordHash, PasswordHasher, PasswordVerifier, Version};
use base::Random;

use crate::limits::{
    ARGON2_MEMORY_KIB_MAX, ARGON2_PASSES_MAX, PASSWORD_BYTES_MAX, PASSWORD_CHARACTERS_MIN, SCRAM_ITERATIONS_DEFAULT,
};
use crate::scram::ScramKeys;

const SALT_BYTES: usize = 16;

/// Cost of password hashing, and rules for new passwords.
#[derive(Debug, Clone)]
pub struct PasswordHashOptions {
    /// Memory cost of argon2id, in KiB.
    pub memory_kib: u32,
    /// Number of argon2id passes over the memory.
    pub passes: u32,
    /// Number of argon2id lanes.
    pub lanes: u32,
    /// Number of iterations for the SCRAM keys. If `None`, no SCRAM keys are stored.
    pub scram_iterations: Option<u32>,
    /// Minimum length of a new password, in characters after the preparation.
    pub characters_min: usize,
}

impl Default for PasswordHashOptions {
    /// Returns the OWASP recommendation for argon2id: 19 MiB, two passes, one lane.
    fn default() -> Self {
        Self {
            memory_kib: 19 * 1_024,
            passes: 2,
            lanes: 1,
            scram_iterations: Some(SCRAM_ITERATIONS_DEFAULT),
            characters_min: PASSWORD_CHARACTERS_MIN,
        }
    }
}

/// The reason why a password cannot be set or checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// The password is shorter than the options allow.
    #[error("the password is too short: at least {characters_min} characters are required")]
    TooShort {
        /// Minimum number of characters.
        characters_min: usize,
    },
    /// The password is longer than [`PASSWORD_BYTES_MAX`].
    #[error("the password is too long: at most {PASSWORD_BYTES_MAX} bytes are allowed")]
    TooLong,
    /// The password contains a NUL or is not UTF-8, so that no protocol could carry it.
    #[error("the password contains characters that mail clients cannot send")]
    InvalidCharacters,
    /// The parameters are out of range.
    #[error("the password hashing parameters are not valid: {0}")]
    Parameters(String),
    /// The stored hash is malformed or requires more memory or passes than the limits allow.
    #[error("the stored password hash cannot be used: {0}")]
    Stored(String),
}

/// The stored values derived from one password.
#[derive(Debug, Clone)]
pub struct DerivedSecrets {
    /// The argon2id hash in PHC notation.
    pub hash: String,
    /// The keys of SCRAM-SHA-256, if there are any.
    pub scram: Option<ScramKeys>,
}

/// Checks a new password and derives the values to store.
pub fn derive_secrets(
    password: &[u8],
    options: &PasswordHashOptions,
    random: &dyn Random,
) -> Result<DerivedSecrets, PasswordError> {
    let prepared = prepare_new(password, options)?;
    let prepared = prepared.as_bytes();
    let hash = hash(prepared, options, random)?;
    let scram = options.scram_iterations.map(|iterations| {
        let mut salt = [0; SALT_BYTES];
        random.fill(&mut salt);
        ScramKeys::derive(prepared, &salt, iterations)
    });
    Ok(DerivedSecrets { hash, scram })
}

/// Checks a new password, without deriving anything.
pub fn check_new(password: &[u8], options: &PasswordHashOptions) -> Result<(), PasswordError> {
    prepare_new(password, options).map(drop)
}

/// Returns `true` if a password matches a stored hash. A password that is empty after the preparation matches none.
///
/// Returns [`PasswordError::Stored`] if the hash cannot be used.
pub fn verify(hash: &str, password: &[u8]) -> Result<bool, PasswordError> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Ok(false);
    }
    let prepared = prepare(password);
    if prepared.is_empty() {
        return Ok(false);
    }
    let parsed = PasswordHash::new(hash).map_err(|error| PasswordError::Stored(error.to_string()))?;
    check_costs(&parsed)?;
    match Argon2::default().verify_password(&prepared, &parsed) {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(error) => Err(PasswordError::Stored(error.to_string())),
    }
}

/// Checks whether a text is a hash that [`verify`] accepts. Used for imported hashes.
pub fn check_hash(hash: &str) -> Result<(), PasswordError> {
    let parsed = PasswordHash::new(hash).map_err(|error| PasswordError::Stored(error.to_string()))?;
    Algorithm::try_from(parsed.algorithm.as_str()).map_err(|error| PasswordError::Stored(error.to_string()))?;
    check_costs(&parsed)
}

/// Prepares a password for both the hash and the SCRAM keys.
#[must_use]
pub fn prepare(password: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(password) else {
        return Cow::Borrowed(password);
    };
    match prepare_text(text) {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// A hash that matches no password and costs as much as a real one.
#[derive(Debug, Clone)]
pub struct Decoy {
    hash: String,
}

impl Decoy {
    /// Creates a decoy with the cost of new passwords.
    pub fn new(options: &PasswordHashOptions, random: &dyn Random) -> Result<Self, PasswordError> {
        let mut password = [0; 32];
        random.fill(&mut password);
        Ok(Self { hash: hash(&password, options, random)? })
    }

    /// Takes as long as checking a password.
    pub fn verify_decoy(&self, password: &[u8]) {
        let _ = std::hint::black_box(verify(&self.hash, password));
    }
}

fn prepare_text(text: &str) -> Cow<'_, str> {
    stringprep::saslprep(text).unwrap_or(Cow::Borrowed(text))
}

/// Prepares a new password and checks it. Its length is that of the prepared text, because the preparation removes
/// characters such as soft hyphens.
fn prepare_new<'a>(password: &'a [u8], options: &PasswordHashOptions) -> Result<Cow<'a, str>, PasswordError> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(PasswordError::TooLong);
    }
    let text = std::str::from_utf8(password).map_err(|_| PasswordError::InvalidCharacters)?;
    if text.contains('\0') {
        return Err(PasswordError::InvalidCharacters);
    }
    let prepared = prepare_text(text);
    let characters_min = options.characters_min.max(1);
    if prepared.chars().count() < characters_min {
        return Err(PasswordError::TooShort { characters_min });
    }
    Ok(prepared)
}

fn hash(prepared: &[u8], options: &PasswordHashOptions, random: &dyn Random) -> Result<String, PasswordError> {
    let refuse = |error: &dyn std::fmt::Display| PasswordError::Parameters(error.to_string());
    let too_costly = options.memory_kib > ARGON2_MEMORY_KIB_MAX || options.passes > ARGON2_PASSES_MAX;
    if too_costly {
        return Err(refuse(&"they require more memory or passes than the limits allow"));
    }
    let params =
        Params::new(options.memory_kib, options.passes, options.lanes, None).map_err(|error| refuse(&error))?;
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2.hash_password_with_salt(prepared, &salt).map_err(|error| refuse(&error))?;
    Ok(hash.to_string())
}

/// Refuses a stored hash that is too expensive to verify and could take the server down.
fn check_costs(hash: &PasswordHash) -> Result<(), PasswordError> {
    let params = Params::try_from(hash).map_err(|error| PasswordError::Stored(error.to_string()))?;
    let too_costly = params.m_cost() > ARGON2_MEMORY_KIB_MAX || params.t_cost() > ARGON2_PASSES_MAX;
    if too_costly {
        return Err(PasswordError::Stored("it requires more memory or passes than the limits allow".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
