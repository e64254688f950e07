//! DKIM keys, made by the program, and the DNS records that an operator has to publish.
//!
//! Two keys a domain: RSA with 2,048 bits, which everybody checks, and Ed25519 (RFC 8463), which is small and fast but
//! not checked everywhere. A key is kept as PEM of PKCS #8 by whoever asked for it (`server` keeps it in the
//! directory); nothing is stored here.
//!
//! RSA keys come from the crate `rsa`, because `ring` makes none. The timing weakness known of that crate
//! (RUSTSEC-2023-0071) is about using a key; here it only makes them, and `ring` signs.

use std::fmt;

use base::Random;
use data_encoding::BASE64;
use rsa::pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey, LineEnding};
use rsa::rand_core::{CryptoRng, Error as RandomError, RngCore};
use rsa::{RsaPrivateKey, RsaPublicKey};

use crate::error::{Error, Result};

/// Bits of an RSA key: what RFC 8301 advises; more do not fit everywhere.
pub const RSA_BITS: usize = 2_048;

/// What an Ed25519 key looks like in PKCS #8 up to its 32 bytes (RFC 8410 §7).
const ED25519_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The kind of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// `rsa-sha256`.
    Rsa,
    /// `ed25519-sha256`.
    Ed25519,
}

/// A private key with what belongs to it.
#[derive(Clone)]
pub struct PrivateKey {
    algorithm: Algorithm,
    /// PKCS #8.
    der: Vec<u8>,
    /// As the DNS record has it: SubjectPublicKeyInfo for RSA, the bare key for Ed25519.
    public: Vec<u8>,
}

impl PrivateKey {
    /// Makes a key. For RSA this takes the better part of a second.
    pub fn generate(algorithm: Algorithm, random: &dyn Random) -> Result<Self> {
        let der = match algorithm {
            Algorithm::Rsa => {
                let key = RsaPrivateKey::new(&mut Source(random), RSA_BITS).map_err(|error| unusable(&error))?;
                key.to_pkcs8_der().map_err(|error| unusable(&error))?.as_bytes().to_vec()
            }
            Algorithm::Ed25519 => {
                let mut seed = [0; 32];
                random.fill(&mut seed);
                [&ED25519_PREFIX[..], &seed].concat()
            }
        };
        Self::from_der(der)
    }

    /// Reads a key that [`PrivateKey::to_pem`], or another program, has written.
    pub fn from_pem(pem: &str) -> Result<Self> {
        let (label, document) = rsa::pkcs8::SecretDocument::from_pem(pem).map_err(|error| unusable(&error))?;
        if label != "PRIVATE KEY" {
            return Err(unusable(&format!("a {label} is no key in PKCS #8 form")));
        }
        Self::from_der(document.as_bytes().to_vec())
    }

    /// Writes the key as PEM.
    pub fn to_pem(&self) -> Result<String> {
        let document = rsa::pkcs8::SecretDocument::try_from(self.der.as_slice()).map_err(|error| unusable(&error))?;
        let pem = document.to_pem("PRIVATE KEY", LineEnding::LF).map_err(|error| unusable(&error))?;
        Ok(pem.to_string())
    }

    /// Gives the kind of the key.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    fn from_der(der: Vec<u8>) -> Result<Self> {
        if der.starts_with(&ED25519_PREFIX) || contains_ed25519(&der) {
            let key = mail_auth::common::crypto::Ed25519Key::from_pkcs8_maybe_unchecked_der(&der)
                .map_err(|error| unusable(&error))?;
            return Ok(Self { algorithm: Algorithm::Ed25519, public: key.public_key(), der });
        }
        let key = RsaPrivateKey::from_pkcs8_der(&der).map_err(|error| unusable(&error))?;
        let public = RsaPublicKey::from(&key).to_public_key_der().map_err(|error| unusable(&error))?;
        Ok(Self { algorithm: Algorithm::Rsa, public: public.as_bytes().to_vec(), der })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// A DNS record that the operator has to publish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DnsRecord {
    /// The name with its last dot.
    pub name: String,
    /// The text of the TXT record, in one piece.
    pub text: String,
}

impl fmt::Display for DnsRecord {
    /// Writes the record as a zone file has it: text in pieces of at most 255 bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IN TXT", self.name)?;
        for piece in self.text.as_bytes().chunks(255) {
            write!(f, " \"{}\"", String::from_utf8_lossy(piece))?;
        }
        Ok(())
    }
}

/// Gives the record with the public key of a selector.
#[must_use]
pub fn key_record(domain: &str, selector: &str, key: &PrivateKey) -> DnsRecord {
    let kind = match key.algorithm {
        Algorithm::Rsa => "rsa",
        Algorithm::Ed25519 => "ed25519",
    };
    DnsRecord {
        name: format!("{selector}._domainkey.{domain}."),
        text: format!("v=DKIM1; k={kind}; p={}", BASE64.encode(&key.public)),
    }
}

/// Gives what a domain should publish besides its keys: SPF for its mail exchangers and this host, and a DMARC policy
/// that asks for reports first and refuses nothing yet.
#[must_use]
pub fn policy_records(domain: &str, hostname: &str) -> Vec<DnsRecord> {
    vec![
        DnsRecord { name: format!("{domain}."), text: format!("v=spf1 mx a:{hostname} -all") },
        DnsRecord {
            name: format!("_dmarc.{domain}."),
            text: format!("v=DMARC1; p=none; rua=mailto:postmaster@{domain}"),
        },
    ]
}

/// Tells whether a PKCS #8 document of some other shape is of an Ed25519 key.
fn contains_ed25519(der: &[u8]) -> bool {
    const OBJECT_ID: [u8; 5] = [0x06, 0x03, 0x2b, 0x65, 0x70];
    der.get(..24).is_some_and(|head| head.windows(OBJECT_ID.len()).any(|window| window == OBJECT_ID))
}

fn unusable(why: &dyn fmt::Display) -> Error {
    Error::Key { domain: "a domain".to_owned(), why: why.to_string() }
}

/// The server's randomness as the crate `rsa` wants it.
struct Source<'a>(&'a dyn Random);

impl RngCore for Source<'_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> std::result::Result<(), RandomError> {
        self.0.fill(bytes);
        Ok(())
    }
}

impl CryptoRng for Source<'_> {}

#[cfg(test)]
mod tests {
    use base::sim::SeededRandom;

    use super::*;

    fn check(algorithm: Algorithm, record: &str) {
        let key = PrivateKey::generate(algorithm, &SeededRandom::new(7)).expect("keys can be made");
        let pem = key.to_pem().expect("PEM");
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{pem}");
        let read = PrivateKey::from_pem(&pem).expect("what was written can be read");
        assert_eq!((read.algorithm(), &read.public, &read.der), (algorithm, &key.public, &key.der));
        let published = key_record("b.example", "s1", &key);
        assert_eq!(published.name, "s1._domainkey.b.example.");
        assert!(published.text.starts_with(record), "{}", published.text);
    }

    #[test]
    fn keys_are_made_written_and_read() {
        check(Algorithm::Ed25519, "v=DKIM1; k=ed25519; p=");
        check(Algorithm::Rsa, "v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "junk"] {
            assert!(PrivateKey::from_pem(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn records_read_as_in_a_zone_file() {
        let record = DnsRecord { name: "a.example.".into(), text: "x".repeat(300) };
        assert_eq!(record.to_string(), format!("a.example. IN TXT \"{}\" \"{}\"", "x".repeat(255), "x".repeat(45)));
        let policies: Vec<String> =
            policy_records("b.example", "mx.b.example").iter().map(ToString::to_string).collect();
        assert_eq!(
            policies,
            [
                "b.example. IN TXT \"v=spf1 mx a:mx.b.example -all\"",
                "_dmarc.b.example. IN TXT \"v=DMARC1; p=none; rua=mailto:postmaster@b.example\"",
            ]
        );
    }
}
