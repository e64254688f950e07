//! The second factor of a person: codes of an authenticator program (TOTP, RFC 6238), and recovery codes for the day on
//! which it is lost.
//!
//! The login page asks for a code after the password. Programs cannot ask, so they need application passwords.
//!
//! The secret of TOTP must be known to the server, so the person document has it as a secret item. Of recovery codes,
//! which have 80 random bits, it has digests; each is valid once. A code of TOTP is valid for its time step of 30 s and
//! one step before and after it; that a code is used only once is the task of the caller, who keeps the last step.
//!
//! The stored form of the factor is a text: version, time in microseconds since 1970 and the secret in hexadecimal,
//! separated by `;`. The recovery codes are a list of digests in hexadecimal.

use base::{Random, Timestamp, hex};
use subtle::ConstantTimeEq;
use totp_rs::{Builder, Secret, Totp};

use crate::code::Code;
use crate::limits::RECOVERY_CODES;

/// Version of the stored form.
const VERSION: &str = "1";

/// Number of bytes of a secret: the length of the hash (RFC 4226 §4).
pub const FACTOR_SECRET_BYTES: usize = 20;

/// Number of symbols of a recovery code: 80 bits.
const RECOVERY_SYMBOLS: usize = 16;

/// The secret that server and authenticator share.
#[derive(Clone, PartialEq, Eq)]
pub struct FactorSecret(pub [u8; FACTOR_SECRET_BYTES]);

impl std::fmt::Debug for FactorSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FactorSecret(..)")
    }
}

impl FactorSecret {
    /// Creates a random secret.
    #[must_use]
    pub fn generate(random: &dyn Random) -> Self {
        let mut secret = [0; FACTOR_SECRET_BYTES];
        random.fill(&mut secret);
        Self(secret)
    }

    /// Parses the text form.
    #[must_use]
    pub fn from_base32(text: &str) -> Option<Self> {
        let secret = Secret::try_from_base32(text).ok()?;
        secret.as_ref().try_into().ok().map(Self)
    }

    /// Returns the text form, which people type into an authenticator (RFC 4648 §6).
    #[must_use]
    pub fn to_base32(&self) -> String {
        Secret::from(self.0).to_base32()
    }

    /// Returns the address that an authenticator reads from a QR code. `issuer` names the server, `account` the person.
    #[must_use]
    pub fn to_url(&self, issuer: &str, account: &str) -> String {
        let plain = |text: &str| text.replace(':', " ");
        let labelled = Builder::new().with_account_name(plain(account)).with_issuer(Some(plain(issuer)));
        labelled.with_secret(self.0).build_noncompliant().to_url().unwrap_or_default()
    }

    /// Returns the time step of a code that is valid at a time, or `None` if it is not valid.
    #[must_use]
    pub fn step_of(&self, code: &str, now: Timestamp) -> Option<u64> {
        let seconds = u64::try_from(now.0 / 1_000_000).ok()?;
        let typed: String = code.chars().filter(|character| !character.is_whitespace()).collect();
        self.totp().check(&typed, seconds)
    }

    /// Returns the code at a time, for tests and the demo.
    #[must_use]
    pub fn code_at(&self, now: Timestamp) -> String {
        self.totp().generate(u64::try_from(now.0 / 1_000_000).unwrap_or_default()).to_string()
    }

    fn totp(&self) -> Totp {
        Builder::new().with_secret(self.0).build_noncompliant()
    }
}

/// The second factor of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondFactor {
    /// When the person has added it.
    pub added: Timestamp,
    /// `None` for a factor that this version cannot read. It is needed all the same, and no code is right.
    secret: Option<FactorSecret>,
    recovery: Vec<[u8; 32]>,
    /// The stored form of a factor that cannot be read, which stays as it is.
    unreadable: Option<String>,
}

/// A code that a person has entered, and that is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorProof {
    /// A code of the authenticator. It is valid if no code of this or a later step was used with this factor.
    Step {
        /// The time step.
        step: u64,
        /// When the factor was added.
        factor: Timestamp,
    },
    /// A recovery code. It was removed.
    RecoveryCode {
        /// When the factor was added.
        factor: Timestamp,
    },
}

impl SecondFactor {
    /// Creates the factor with new recovery codes. Returns the texts of the codes, too, which only the person gets.
    pub(crate) fn create(secret: FactorSecret, added: Timestamp, random: &dyn Random) -> (Self, Vec<String>) {
        let mut factor = Self { added, secret: Some(secret), recovery: Vec::new(), unreadable: None };
        let texts = factor.renew_recovery_codes(random);
        (factor, texts)
    }

    /// Returns the proof that a code is, or `None` if it is no code of the authenticator that is valid now.
    pub(crate) fn step_of(&self, code: &str, now: Timestamp) -> Option<FactorProof> {
        let step = self.secret.as_ref()?.step_of(code, now)?;
        Some(FactorProof::Step { step, factor: self.added })
    }

    /// Returns the number of recovery codes that were not used.
    #[must_use]
    pub fn recovery_codes(&self) -> usize {
        self.recovery.len()
    }

    /// Replaces the recovery codes. Returns their texts.
    pub(crate) fn renew_recovery_codes(&mut self, random: &dyn Random) -> Vec<String> {
        let codes: Vec<_> = (0..RECOVERY_CODES).map(|_| Code::<RECOVERY_SYMBOLS>::generate(random)).collect();
        self.recovery = codes.iter().map(|new| new.code.digest()).collect();
        codes.into_iter().map(|new| new.text).collect()
    }

    /// Returns `true` if a text is a recovery code.
    pub(crate) fn has_recovery_code(&self, text: &str) -> bool {
        let digest = Code::<RECOVERY_SYMBOLS>::parse(text).map(|code| code.digest());
        digest.is_some_and(|digest| self.recovery.iter().filter(|known| bool::from(known.ct_eq(&digest))).count() > 0)
    }

    /// Removes a recovery code. Returns `false` if there is no such code.
    pub(crate) fn take_recovery_code(&mut self, text: &str) -> bool {
        let Some(digest) = Code::<RECOVERY_SYMBOLS>::parse(text).map(|code| code.digest()) else { return false };
        let before = self.recovery.len();
        self.recovery.retain(|known| !bool::from(known.ct_eq(&digest)));
        self.recovery.len() < before
    }

    pub(crate) fn to_text(&self) -> String {
        match (&self.unreadable, &self.secret) {
            (None, Some(secret)) => format!("{VERSION};{};{}", self.added.0, hex::lower(&secret.0)),
            (text, _) => text.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn recovery_texts(&self) -> Vec<String> {
        self.recovery.iter().map(|digest| hex::lower(digest)).collect()
    }

    /// Parses the stored form. What this version cannot read, such as the form of a later one, is a factor without a
    /// secret: nobody logs in without it, and a change of the person keeps it.
    pub(crate) fn from_texts<'t>(text: &str, recovery: impl Iterator<Item = &'t str>) -> Self {
        let recovery = recovery.filter_map(hex::parse_array).collect();
        match parse(text) {
            Some((added, secret)) => Self { added, secret: Some(secret), recovery, unreadable: None },
            None => Self { added: Timestamp(0), secret: None, recovery, unreadable: Some(text.to_owned()) },
        }
    }
}

fn parse(text: &str) -> Option<(Timestamp, FactorSecret)> {
    let mut fields = text.split(';');
    if fields.next()? != VERSION {
        return None;
    }
    let added = Timestamp(fields.next()?.parse().ok()?);
    let secret = FactorSecret(hex::parse_array(fields.next()?)?);
    fields.next().is_none().then_some((added, secret))
}

#[cfg(test)]
mod tests {
    use base::sim::SeededRandom;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 6238, Appendix B, with six digits.
        let secret = FactorSecret(*b"12345678901234567890");
        for (seconds, code) in [(59, "287082"), (1_111_111_109, "081804"), (20_000_000_000, "353130")] {
            assert_eq!(secret.code_at(at(seconds)), code);
            let step = u64::try_from(seconds / 30).ok();
            assert_eq!(secret.step_of(code, at(seconds)), step);
            assert_eq!(secret.step_of(&format!(" {} {}", &code[..3], &code[3..]), at(seconds + 30)), step);
            assert_eq!(secret.step_of(code, at(seconds + 61)), None, "too late");
        }
        for wrong in ["", "28708", "2870822", "28708a", "287083"] {
            assert_eq!(secret.step_of(wrong, at(59)), None, "{wrong}");
        }
        let text = secret.to_base32();
        assert_eq!(text, "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        assert_eq!(FactorSecret::from_base32(&text), Some(secret.clone()));
        assert_eq!(FactorSecret::from_base32("GEZDGNBV"), None);
        let url = secret.to_url("acme: mail", "ann@acme.test");
        assert!(url.starts_with("otpauth://totp/") && url.contains(&text) && url.contains("acme"), "{url}");
    }

    #[test]
    fn recovery_codes_are_valid_once() {
        let random = SeededRandom::new(5);
        let (mut factor, texts) = SecondFactor::create(FactorSecret::generate(&random), at(1), &random);
        assert_eq!((texts.len(), factor.recovery_codes()), (RECOVERY_CODES, RECOVERY_CODES));
        let recovery = factor.recovery_texts();
        let read = SecondFactor::from_texts(&factor.to_text(), recovery.iter().map(String::as_str));
        assert_eq!(read, factor);
        assert!(factor.has_recovery_code(&texts[3]) && factor.take_recovery_code(&texts[3]));
        assert!(!factor.has_recovery_code(&texts[3]) && !factor.take_recovery_code(&texts[3]));
        assert!(!factor.take_recovery_code("xxxx") && factor.recovery_codes() == RECOVERY_CODES - 1);
    }

    #[test]
    fn a_factor_that_cannot_be_read_stays_and_has_no_right_code() {
        for text in ["2;1;00", "1;x;00", "damaged"] {
            let factor = SecondFactor::from_texts(text, std::iter::empty());
            assert_eq!(factor.to_text(), text);
            let code = FactorSecret([0; 20]).code_at(at(59));
            assert_eq!(factor.step_of(&code, at(59)), None, "{text}");
        }
    }
}
