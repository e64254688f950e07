//! DKIM signatures (RFC 6376, RFC 8463) on outgoing messages, with one [`Signer`] per domain.
//!
//! Each key of the author's domain creates a signature over the fields that a reader sees and those that describe the
//! content. Listed fields that are missing are signed as missing. `From` is listed once more than it occurs, so that a
//! second one cannot be added. Canonicalization is relaxed, and the length is not limited (`l=` would permit appended
//! text).
//!
//! The signature covers the message as it is sent, with CRLF at the end of every line. The time in the signature is
//! that of the system clock, which the library reads itself.

use std::borrow::Cow;

use base::line_ends::{has_bare_line_end, normalize_line_ends};
use mail_auth::common::crypto::{Ed25519Key, RsaKey, Sha256};
use mail_auth::common::headers::HeaderWriter;
use mail_auth::dkim::{DkimSigner, Done};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::key::{Algorithm, PrivateKey};
use crate::{Error, Result};

/// The signed fields (RFC 6376 §5.4.1). Fields that mailing lists and forwarders add are not among them.
const SIGNED_FIELDS: &[&str] = &[
    "From",
    "From",
    "Reply-To",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];

enum Key {
    Rsa(DkimSigner<RsaKey<Sha256>, Done>),
    Ed25519(DkimSigner<Ed25519Key, Done>),
}

/// Signs the messages of one domain. A signer is cheap to share and expensive to create.
pub struct Signer {
    domain: String,
    keys: Vec<Key>,
}

impl Signer {
    /// Creates a signer with the keys of a domain, each with its selector.
    pub fn new<'a>(domain: &str, keys: impl IntoIterator<Item = (&'a str, &'a PrivateKey)>) -> Result<Self> {
        let keys: Result<Vec<Key>> = keys.into_iter().map(|(selector, key)| Key::new(domain, selector, key)).collect();
        Ok(Self { domain: domain.to_owned(), keys: keys? })
    }

    /// Returns the domain.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the signature fields of a message, each with its CRLF. They must be inserted at its top.
    pub fn sign(&self, message: &[u8]) -> Result<String> {
        let is_last_open = message.last() == Some(&b'\r');
        let message = if has_bare_line_end(0, message) || is_last_open {
            Cow::Owned(normalize_line_ends(message))
        } else {
            Cow::Borrowed(message)
        };
        let mut fields = String::new();
        for key in &self.keys {
            let signature = match key {
                Key::Rsa(signer) => signer.sign(&message),
                Key::Ed25519(signer) => signer.sign(&message),
            };
            let signature = signature.map_err(|error| signing_key_error(&self.domain, error.to_string()))?;
            fields.push_str(&signature.to_header());
        }
        Ok(fields)
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl Key {
    fn new(domain: &str, selector: &str, key: &PrivateKey) -> Result<Self> {
        let failed = |error: mail_auth::Error| signing_key_error(domain, error.to_string());
        match key.algorithm() {
            Algorithm::Rsa => {
                let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.der()));
                let key = RsaKey::<Sha256>::from_key_der(der).map_err(failed)?;
                let signer =
                    DkimSigner::from_key(key).domain(domain).selector(selector).headers(SIGNED_FIELDS.iter().copied());
                Ok(Self::Rsa(signer))
            }
            Algorithm::Ed25519 => {
                let key = Ed25519Key::from_pkcs8_maybe_unchecked_der(key.der()).map_err(failed)?;
                let signer =
                    DkimSigner::from_key(key).domain(domain).selector(selector).headers(SIGNED_FIELDS.iter().copied());
                Ok(Self::Ed25519(signer))
            }
        }
    }
}

fn signing_key_error(domain: &str, reason: String) -> Error {
    Error { domain: domain.to_owned(), reason }
}
