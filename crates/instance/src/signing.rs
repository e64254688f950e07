//! DKIM keys of local domains, and the signing of outgoing messages.
//!
//! A domain gets its keys (RSA for all verifiers, Ed25519 for those that support it) in the step that adds it. They are
//! stored in the directory's settings under the subject `DKIM example.org`. Mail is signed from then on. This is
//! harmless before the DNS records are published: verifiers ignore a signature without a public key.
//!
//! The signing domain is the domain of the author in the `From` field, because DMARC compares the signature with that
//! domain; the reverse path may be empty or have another domain. Whether the user may use this author address has been
//! checked before.
//!
//! A message whose header has a fault (`mail::mime::message_header`) is not signed, because the signature would not
//! cover all fields that a program may see in it. Submission refuses such messages.

use std::collections::HashMap;
use std::sync::Arc;

use base::Random;
use base::sync::Mutex;
use directory::Directory;
use dkim::key::{Algorithm, PrivateKey, key_record, policy_records};
use dkim::sign::Signer;
use mail::mime::message_header::{find_fault, top_header};
use mail::mime::{address, header};

/// The selectors under which the keys are published, and their algorithms.
const SELECTORS: [(&str, Algorithm); 2] = [("doublet-r", Algorithm::Rsa), ("doublet-e", Algorithm::Ed25519)];

/// Signs messages.
pub struct Signing {
    directory: Arc<Directory>,
    /// The signer of each domain, or `None` if the domain has no keys. An entry is removed when a key is created.
    signers: Mutex<HashMap<String, Option<Arc<Signer>>>>,
}

/// The error returned if the keys of a domain cannot be used or created. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The directory failed.
    #[error(transparent)]
    Directory(#[from] directory::Error),
    /// A key is not valid or cannot be created.
    #[error(transparent)]
    Key(#[from] dkim::Error),
}

impl Signing {
    /// Creates the service.
    #[must_use]
    pub fn new(directory: Arc<Directory>) -> Arc<Self> {
        Arc::new(Self { directory, signers: Mutex::default() })
    }

    /// Signs a message if its author's domain is local and has keys. Otherwise returns the message unchanged.
    #[must_use]
    pub fn sign(&self, message: Vec<u8>) -> Vec<u8> {
        let Some(domain) = author_domain(&message) else {
            return message;
        };
        let Some(signer) = self.find_signer(&domain) else {
            return message;
        };
        match signer.sign(&message) {
            Ok(fields) => [fields.into_bytes(), message].concat(),
            Err(error) => {
                tracing::error!(target: "smtp", domain, %error, "cannot sign a message; it is sent unsigned");
                message
            }
        }
    }

    /// Creates the missing keys for a domain that is to be added. Returns them as settings of the directory: subject,
    /// name and value.
    pub fn create_keys(
        &self,
        domain: &str,
        random: &dyn Random,
    ) -> Result<Vec<(String, String, String)>, SigningError> {
        // Settings are stored under the directory's form of the domain name.
        let domain = directory::address::domain_to_ascii(domain).unwrap_or_else(|_| domain.to_owned());
        let mut made = Vec::new();
        for (selector, algorithm) in SELECTORS {
            if self.read_key(&domain, selector)?.is_none() {
                let key = PrivateKey::generate(algorithm, random)?;
                made.push((subject(&domain), selector.to_owned(), key.to_pem()?.to_string()));
            }
        }
        Ok(made)
    }

    /// Removes the cached signer of a domain, because its keys may have changed.
    pub fn remove_cached_signer(&self, domain: &str) {
        self.signers.lock().remove(domain);
    }

    /// Returns the DNS records that a domain should have.
    pub fn dns_records(&self, domain: &str, hostname: &str) -> Result<Vec<String>, SigningError> {
        let mut records: Vec<String> = policy_records(domain, hostname).iter().map(ToString::to_string).collect();
        for (selector, _) in SELECTORS {
            if let Some(key) = self.read_key(domain, selector)? {
                records.push(key_record(domain, selector, &key).to_string());
            }
        }
        Ok(records)
    }

    fn find_signer(&self, domain: &str) -> Option<Arc<Signer>> {
        if let Some(known) = self.signers.lock().get(domain) {
            return known.clone();
        }
        let made = self.load_signer(domain).unwrap_or_else(|error| {
            tracing::error!(target: "smtp", domain, %error, "the domain's keys cannot be used; its mail is sent unsigned");
            None
        });
        self.signers.lock().insert(domain.to_owned(), made.clone());
        made
    }

    fn load_signer(&self, domain: &str) -> Result<Option<Arc<Signer>>, SigningError> {
        if !self.directory.domain_is_local(domain)? {
            return Ok(None);
        }
        let mut keys = Vec::new();
        for (selector, _) in SELECTORS {
            keys.extend(self.read_key(domain, selector)?.map(|key| (selector, key)));
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let signer = Signer::new(domain, keys.iter().map(|(selector, key)| (*selector, key)))?;
        Ok(Some(Arc::new(signer)))
    }

    fn read_key(&self, domain: &str, selector: &str) -> Result<Option<PrivateKey>, SigningError> {
        let Some(settings) = self.directory.settings(&subject(domain))? else {
            return Ok(None);
        };
        Ok(settings.value(selector).map(PrivateKey::from_pem).transpose()?)
    }
}

/// Returns the domain of a message's first author in lower case. Returns `None` if there is none, or if the header has
/// a fault.
fn author_domain(message: &[u8]) -> Option<String> {
    if find_fault(message).is_some() {
        return None;
    }
    let author = address::mailboxes(header::first(top_header(message), "From")?).next()?;
    let domain = String::from_utf8(author.domain).ok()?.to_lowercase();
    Some(domain).filter(|domain| !domain.is_empty())
}

fn subject(domain: &str) -> String {
    format!("DKIM {domain}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::system::SystemRandom;

    #[test]
    fn only_domains_with_keys_sign() {
        let sample = Sample::new();
        let signing = Signing::new(Arc::clone(&sample.instance.directory));
        let signatures = |from: &str| {
            let letter = format!("Received: x\r\nSubject: x\r\nFrom: {from}\r\n\r\nFrom: ann@acme.test\r\n");
            let signed = signing.sign(letter.clone().into_bytes());
            assert!(signed.ends_with(letter.as_bytes()));
            String::from_utf8_lossy(&signed).matches("DKIM-Signature: ").count()
        };
        assert_eq!(signatures("ann@acme.test"), 0);
        assert_eq!(signing.dns_records("acme.test", "mail.acme.test").expect("settings can be read").len(), 2);
        for (subject, name, value) in signing.create_keys("ACME.test", &SystemRandom).expect("keys can be made") {
            sample.instance.directory.settings_set(&subject, &name, Some(&value)).expect("it can be set");
        }
        signing.remove_cached_signer("acme.test");
        let records = signing.dns_records("acme.test", "mail.acme.test").expect("settings can be read");
        assert_eq!(signing.create_keys("acme.test", &SystemRandom).expect("settings can be read"), []);
        assert_eq!(signing.dns_records("acme.test", "mail.acme.test").expect("settings can be read"), records);
        assert_eq!((records.len(), signatures("ann@acme.test"), signatures("ann@ACME.test")), (4, 2, 2));
        assert_eq!((signatures("Ann <ann@acme.test>"), signatures("\"x@elsewhere.test\"\r\n <ann@acme.test>")), (2, 2));
        assert_eq!((signatures("ann@elsewhere.test"), signatures("\"ann@acme.test\" <x@elsewhere.test>")), (0, 0));
        for fault in ["stray", "stray\r\nFrom: x@elsewhere.test", "--x: y", "Hello,\r\nhow are you"] {
            assert_eq!(signatures(&format!("ann@acme.test\r\n{fault}")), 0, "{fault:?}");
        }
        assert_eq!((signatures(""), signatures("nobody"), signatures("\r\nTo: ann@acme.test")), (0, 0, 0));
    }

    #[test]
    fn unreadable_keys_do_not_stop_the_mail() {
        let sample = Sample::new();
        let directory = &sample.instance.directory;
        directory.settings_set(&subject("acme.test"), SELECTORS[0].0, Some("nonsense")).expect("it can be set");
        let signing = Signing::new(Arc::clone(directory));
        assert_eq!(signing.sign(b"From: a@acme.test\r\n\r\n".to_vec()), b"From: a@acme.test\r\n\r\n");
        assert!(signing.dns_records("acme.test", "mail.acme.test").is_err());
    }
}
