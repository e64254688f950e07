//! The client side of SCRAM-SHA-256 (RFC 5802, RFC 7677), without channel binding.
//!
//! The password is prepared with SASLprep (RFC 4013), as the server prepares it before it derives its keys. Otherwise a
//! password with a decomposed umlaut or a no-break space would be accepted by `Login` and refused here. The login name
//! is sent as it is: the server normalizes it.

use std::borrow::Cow;

use base::Random;
use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::Error;

const HASH_BYTES: usize = 32;
const NONCE_BYTES: usize = 18;

/// Minimum iteration count that a server may request (RFC 7677 §4). With a smaller one, a server that does not know the
/// password could cheaply guess it from the client's proof.
const ITERATIONS_MIN: u32 = 4_096;

/// Maximum iteration count that a server may request. A larger one would be an attack on the client's processor time.
const ITERATIONS_MAX: u32 = 1_000_000;

/// `n,,` in base64: no channel binding and no authorization identity.
const BINDING: &str = "biws";

/// Client state after the first client message.
pub(crate) struct Scram {
    /// The prepared password.
    password: String,
    nonce: String,
    first_bare: String,
}

/// Client state after the client proof, while waiting for the server's proof.
pub(crate) struct ServerProof {
    signature: [u8; HASH_BYTES],
}

impl Scram {
    /// Starts the exchange. Returns the state and the first client message.
    pub(crate) fn begin(login: &str, password: &str, random: &dyn Random) -> (Self, Vec<u8>) {
        let mut bytes = [0; NONCE_BYTES];
        random.fill(&mut bytes);
        Self::with_nonce(login, password, Base64::encode_string(&bytes))
    }

    fn with_nonce(login: &str, password: &str, nonce: String) -> (Self, Vec<u8>) {
        let login = login.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={login},r={nonce}");
        let message = format!("n,,{first_bare}").into_bytes();
        (Self { password: prepare(password).into_owned(), nonce, first_bare }, message)
    }

    /// Answers the server's first message. Fails if the message is malformed, its nonce does not extend the client's,
    /// or its iteration count is out of range.
    pub(crate) fn answer(self, challenge: &[u8]) -> Result<(ServerProof, Vec<u8>), Error> {
        let broken = Error::Login("the server's first message is malformed");
        let Ok(challenge) = std::str::from_utf8(challenge) else { return Err(broken) };
        let mut parts = challenge.split(',');
        let mut take = |name: &str| parts.next().and_then(|part| part.strip_prefix(name));
        let (Some(nonce), Some(salt), Some(iterations)) = (take("r="), take("s="), take("i=")) else {
            return Err(broken);
        };
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(Error::Login("the server's nonce does not extend the client's nonce"));
        }
        let (Ok(salt), Ok(iterations)) = (Base64::decode_vec(salt), iterations.parse::<u32>()) else {
            return Err(broken);
        };
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(Error::Login("the server's iteration count is out of range"));
        }
        let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, HASH_BYTES>(self.password.as_bytes(), &salt, iterations);
        let client_key = hmac(&salted, b"Client Key");
        let without_proof = format!("c={BINDING},r={nonce}");
        let transcript = format!("{},{challenge},{without_proof}", self.first_bare);
        let signature = hmac(&Sha256::digest(client_key), transcript.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, sign)| key ^ sign).collect();
        let last = ServerProof { signature: hmac(&hmac(&salted, b"Server Key"), transcript.as_bytes()) };
        Ok((last, format!("{without_proof},p={}", Base64::encode_string(&proof)).into_bytes()))
    }
}

impl ServerProof {
    /// Verifies the server's proof.
    pub(crate) fn check(&self, message: &[u8]) -> Result<(), Error> {
        let text = std::str::from_utf8(message).unwrap_or_default();
        let verifier = text.strip_prefix("v=").and_then(|rest| rest.split(',').next());
        let proof = verifier.and_then(|text| Base64::decode_vec(text).ok()).unwrap_or_default();
        if bool::from(proof.ct_eq(&self.signature)) {
            Ok(())
        } else {
            Err(Error::Login("the server's signature is wrong, so it does not know the password"))
        }
    }
}

/// Prepares a password with SASLprep. A password that SASLprep refuses, for example because it contains letters newer
/// than Unicode 3.2, is used as it is, as by the server.
fn prepare(password: &str) -> Cow<'_, str> {
    stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password))
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; HASH_BYTES] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the example of RFC 7677 §3.
    #[test]
    fn example_of_rfc_7677_passes() {
        let (scram, first) = Scram::with_nonce("user", "pencil", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(first, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (last, response) = scram.answer(challenge).expect("a sound challenge");
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(String::from_utf8(response).expect("text"), expected);
        last.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").expect("the server's proof");
        assert!(last.check(b"v=AAAA").is_err() && last.check(b"e=other-error").is_err() && last.check(b"").is_err());
    }

    fn is_accepted(challenge: &str) -> bool {
        let (scram, _) = Scram::with_nonce("a", "b", "abc".to_owned());
        scram.answer(challenge.as_bytes()).is_ok()
    }

    #[test]
    fn broken_challenges_are_refused() {
        for challenge in ["", "r=abc,s=AAAA,i=4096", "r=abcd,s=!,i=4096", "r=abcd,s=AAAA,i=", "r=abc"] {
            assert!(!is_accepted(challenge), "{challenge}");
        }
    }

    #[test]
    fn iteration_counts_out_of_range_are_refused() {
        for iterations in ["0", "1", "4095", "1000001", "99999999"] {
            assert!(!is_accepted(&format!("r=abcd,s=AAAA,i={iterations}")), "{iterations}");
        }
        assert!(is_accepted("r=abcd,s=AAAA,i=4096"));
    }

    #[test]
    fn equivalent_spellings_of_a_password_have_the_same_proof() {
        let proof = |password: &str| {
            let (scram, _) = Scram::with_nonce("ann", password, "abc".to_owned());
            scram.answer(b"r=abcd,s=AAAA,i=4096").map(|(_, response)| response).expect("a sound challenge")
        };
        assert_eq!(proof("pa\u{308}sswo\u{308}rter"), proof("p\u{e4}ssw\u{f6}rter"));
        assert_eq!(proof("with\u{a0}blank"), proof("with blank"));
        assert_eq!(proof("so\u{ad}ft"), proof("soft"));
        assert_ne!(proof("passworter"), proof("p\u{e4}ssw\u{f6}rter"));
        assert_ne!(proof("crab \u{1f980}"), proof("crab "), "a password that SASLprep refuses is used as it is");
    }
}
