//! The token that every form has, and signatures of what a page says in its address.
//!
//! The token is derived from that of the session, which only the browser of the person knows. In each answer it is
//! masked with other random bytes, so that its compressed length tells nothing about it (BREACH). Tokens are compared
//! in constant time. The form of the login page belongs to no session; its token comes from a cookie of its own.

use base::Random;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

/// Number of bytes of a token.
const BYTES: usize = 32;

/// Number of bytes of a signature.
const SIGNATURE_BYTES: usize = 16;

/// The secret of a session, from which its tokens are made.
#[derive(Clone)]
pub struct FormSecret([u8; BYTES]);

impl FormSecret {
    /// Derives the secret from the token of a session.
    #[must_use]
    pub fn of_session(token: &str) -> Self {
        Self(blake3::derive_key("doublet lite web mail: form token", token.as_bytes()))
    }

    /// Returns the token for one answer.
    #[must_use]
    pub fn masked(&self, random: &dyn Random) -> String {
        let mut bytes = [0; 2 * BYTES];
        random.fill(&mut bytes[..BYTES]);
        for index in 0..BYTES {
            bytes[BYTES + index] = bytes[index] ^ self.0[index];
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns `true` if a token that came with a form is one of this secret.
    #[must_use]
    pub fn is_token(&self, token: &str) -> bool {
        let Some(bytes) = URL_SAFE_NO_PAD.decode(token).ok().filter(|bytes| bytes.len() == 2 * BYTES) else {
            return false;
        };
        let (mask, masked) = bytes.split_at(BYTES);
        let plain: Vec<u8> = mask.iter().zip(masked).map(|(mask, byte)| mask ^ byte).collect();
        bool::from(plain.ct_eq(&self.0))
    }

    /// Returns the signature of a text.
    #[must_use]
    pub fn signature(&self, text: &str) -> String {
        let hash = blake3::keyed_hash(&self.0, text.as_bytes());
        URL_SAFE_NO_PAD.encode(&hash.as_bytes()[..SIGNATURE_BYTES])
    }

    /// Returns `true` if a signature is that of a text.
    #[must_use]
    pub fn is_signature(&self, text: &str, signature: &str) -> bool {
        bool::from(self.signature(text).as_bytes().ct_eq(signature.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use base::sim::SeededRandom;

    use super::*;

    #[test]
    fn tokens_differ_and_belong_to_one_session() {
        let random = SeededRandom::new(1);
        let secret = FormSecret::of_session("a");
        let first = secret.masked(&random);
        let second = secret.masked(&random);
        assert_ne!(first, second);
        assert!(secret.is_token(&first) && secret.is_token(&second));
        assert!(!FormSecret::of_session("b").is_token(&first));
        for wrong in ["", "AAAA", &first[1..], &URL_SAFE_NO_PAD.encode([0; 64])] {
            assert!(!secret.is_token(wrong), "{wrong}");
        }
    }

    #[test]
    fn signatures_belong_to_a_text_and_a_session() {
        let secret = FormSecret::of_session("a");
        let signature = secret.signature("moved");
        assert!(secret.is_signature("moved", &signature));
        assert!(!secret.is_signature("moved!", &signature));
        assert!(!FormSecret::of_session("b").is_signature("moved", &signature));
    }
}
