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
use std::cell::OnceCell;

use base::line_ends::{has_bare_line_end, normalize_line_ends};
use mail_auth::common::crypto::{
    Algorithm as SignatureAlgorithm, Ed25519Key, HashContext, HashImpl, HashOutput, RsaKey, Sha256, SigningKey,
};
use mail_auth::common::headers::{HeaderWriter, Writable, Writer};
use mail_auth::dkim::DkimSigner;
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

/// A key with its selector.
struct Key {
    selector: String,
    key: SecretKey,
}

enum SecretKey {
    Rsa(RsaKey<Sha256>),
    Ed25519(Ed25519Key),
}

/// A key for one message, all of whose signatures have the same body hash: the canonicalization is the same.
struct MessageKey<'m> {
    key: &'m SecretKey,
    /// The hash of the body, when a first signature needed it.
    body_hash: &'m OnceCell<HashOutput>,
}

impl SigningKey for MessageKey<'_> {
    type Hasher = Sha256;

    fn sign(&self, input: impl Writable) -> mail_auth::Result<Vec<u8>> {
        match self.key {
            SecretKey::Rsa(key) => key.sign(input),
            SecretKey::Ed25519(key) => key.sign(input),
        }
    }

    /// Returns the hash of the body. The library calls this function for nothing else.
    fn hash(&self, body: impl Writable) -> HashOutput {
        if let Some(HashOutput::Ring(known)) = self.body_hash.get() {
            return HashOutput::Ring(*known);
        }
        let mut hasher = BufferedHasher::new();
        body.write(&mut hasher);
        let output = hasher.complete();
        if let HashOutput::Ring(new) = &output {
            let _ = self.body_hash.set(HashOutput::Ring(*new));
        }
        output
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.key {
            SecretKey::Rsa(key) => key.algorithm(),
            SecretKey::Ed25519(key) => key.algorithm(),
        }
    }
}

/// Number of bytes that are hashed at once.
const HASHED_BYTES: usize = 16 << 10;

/// SHA-256 with a buffer. The canonicalization of the library writes single bytes, each of which would be a call of the
/// hash function.
struct BufferedHasher {
    hasher: <Sha256 as HashImpl>::Context,
    buffer: Vec<u8>,
}

impl BufferedHasher {
    fn new() -> Self {
        Self { hasher: Sha256::hasher(), buffer: Vec::with_capacity(HASHED_BYTES) }
    }

    fn complete(mut self) -> HashOutput {
        self.hasher.write(&self.buffer);
        self.hasher.complete()
    }
}

impl Writer for BufferedHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > HASHED_BYTES {
            self.hasher.write(&self.buffer);
            self.buffer.clear();
            if bytes.len() > HASHED_BYTES {
                return self.hasher.write(bytes);
            }
        }
        self.buffer.extend_from_slice(bytes);
    }
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
        let body_hash = OnceCell::new();
        for Key { selector, key } in &self.keys {
            let signer = DkimSigner::from_key(MessageKey { key, body_hash: &body_hash })
                .domain(&self.domain)
                .selector(selector)
                .headers(SIGNED_FIELDS.iter().copied());
            let signature = signer.sign(&message);
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
        let secret = match key.algorithm() {
            Algorithm::Rsa => {
                let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.der()));
                SecretKey::Rsa(RsaKey::<Sha256>::from_key_der(der).map_err(failed)?)
            }
            Algorithm::Ed25519 => {
                SecretKey::Ed25519(Ed25519Key::from_pkcs8_maybe_unchecked_der(key.der()).map_err(failed)?)
            }
        };
        Ok(Self { selector: selector.to_owned(), key: secret })
    }
}

fn signing_key_error(domain: &str, reason: String) -> Error {
    Error { domain: domain.to_owned(), reason }
}
