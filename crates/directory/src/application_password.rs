//! Application passwords: further passwords of a person for mail clients and other programs.
//!
//! The server makes them, so they need no slow hash: they have 100 random bits, and the person document has a digest.
//! Each is limited to some protocols, and possibly to reading. They are removed with the next change of the account's
//! password, because a user who changes it wants others out.
//!
//! For SCRAM (RFC 5802), all passwords of a person have the same salt and the same number of iterations. A client
//! states its name and not which password follows; with one challenge for all of them, the proof tells which it is.
//!
//! The stored form is a text of fields that are separated by `;`: version, time in microseconds since 1970, protocols
//! with commas, scope, digest in hexadecimal, SCRAM keys (RFC 5803) or nothing, and the name.

use base::{Random, Timestamp, hex};
use sasl::{APPLICATION_PROTOCOLS, ApplicationPasswordId, LoginProtocol, LoginScope};
use subtle::ConstantTimeEq;

use crate::code::{Code, NewCode};
use crate::error::{Error, Result};
use crate::limits::{APPLICATION_NAME_BYTES_MAX, APPLICATION_PASSWORDS_MAX};
use crate::person::{Person, check_text};
use crate::scram::ScramKeys;

/// Version of the stored form.
const VERSION: &str = "1";

/// Number of symbols: 100 bits.
pub(crate) const SYMBOLS: usize = 20;

/// An application password of a person, without the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationPassword {
    /// The identifier.
    pub id: ApplicationPasswordId,
    /// The name that the person has chosen, such as that of a device.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// The protocols for which it is valid.
    pub protocols: Vec<LoginProtocol>,
    /// What it permits.
    pub scope: LoginScope,
    digest: [u8; 32],
    pub(crate) scram: Option<ScramKeys>,
}

/// An application password to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApplicationPassword {
    /// The name.
    pub name: String,
    /// The protocols.
    pub protocols: Vec<LoginProtocol>,
    /// What it permits. Submission is not reading.
    pub scope: LoginScope,
}

impl NewApplicationPassword {
    fn check(&self) -> Result<()> {
        let refused = |reason| Err(Error::ApplicationPassword { reason });
        if self.name.trim().is_empty() || self.name.len() > APPLICATION_NAME_BYTES_MAX {
            return refused("its name is empty or too long");
        }
        check_text(&self.name)?;
        if self.protocols.is_empty() {
            return refused("it needs a protocol");
        }
        if !self.protocols.iter().all(|protocol| APPLICATION_PROTOCOLS.contains(protocol)) {
            return refused("no application password is possible for one of the protocols");
        }
        if self.scope == LoginScope::Reading && self.protocols.contains(&LoginProtocol::Submission) {
            return refused("a password for reading cannot send");
        }
        Ok(())
    }
}

impl ApplicationPassword {
    /// Returns `true` if the password may be used over a protocol.
    #[must_use]
    pub fn is_valid_for(&self, protocol: LoginProtocol) -> bool {
        self.protocols.contains(&protocol)
    }

    pub(crate) fn to_text(&self) -> String {
        let protocols: Vec<&str> = self.protocols.iter().map(|protocol| protocol.name()).collect();
        let scram = self.scram.as_ref().map(ScramKeys::to_text).unwrap_or_default();
        let protocols = protocols.join(",");
        let Self { created, scope, name, .. } = self;
        format!("{VERSION};{};{protocols};{};{};{scram};{name}", created.0, scope.name(), hex::lower(&self.digest))
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut fields = text.splitn(7, ';');
        let mut next = || fields.next();
        if next()? != VERSION {
            return None;
        }
        let created = Timestamp(next()?.parse().ok()?);
        let protocols: Option<Vec<LoginProtocol>> = next()?.split(',').map(LoginProtocol::parse).collect();
        let scope = LoginScope::parse(next()?)?;
        let digest = hex::parse_array(next()?)?;
        let scram = match next()? {
            "" => None,
            text => Some(ScramKeys::from_text(text)?),
        };
        let name = next()?.to_owned();
        Some(Self { id: id_of(&digest), name, created, protocols: protocols?, scope, digest, scram })
    }
}

/// Returns the identifier of a password with a digest.
fn id_of(digest: &[u8; 32]) -> ApplicationPasswordId {
    let mut id = [0; 8];
    blake3::Hasher::new_derive_key("doublet application password id").update(digest).finalize_xof().fill(&mut id);
    ApplicationPasswordId(id)
}

/// Returns the identifier of a text that may be an application password.
pub(crate) fn id_of_text(text: &str) -> Option<ApplicationPasswordId> {
    Code::<SYMBOLS>::parse(text).map(|code| id_of(&code.digest()))
}

impl Person {
    /// Returns the application passwords, in the order in which they were made.
    #[must_use]
    pub fn application_passwords(&self) -> &[ApplicationPassword] {
        &self.application_passwords
    }

    /// Returns the application password with an identifier.
    #[must_use]
    pub fn application_password(&self, id: ApplicationPasswordId) -> Option<&ApplicationPassword> {
        self.application_passwords.iter().find(|known| known.id == id)
    }

    /// Returns the application password for a protocol that a text is. Compares with all of them.
    pub(crate) fn find_application_password(
        &self,
        text: &[u8],
        protocol: LoginProtocol,
    ) -> Option<&ApplicationPassword> {
        let digest = Code::<SYMBOLS>::parse(std::str::from_utf8(text).ok()?)?.digest();
        let is_equal = |known: &&ApplicationPassword| bool::from(known.digest.ct_eq(&digest));
        // All are compared, so the time does not depend on which one it is.
        let found = self.application_passwords.iter().filter(is_equal).fold(None, |_, equal| Some(equal))?;
        found.is_valid_for(protocol).then_some(found)
    }

    /// Returns keys with the salt and the iterations that all SCRAM keys of the person have.
    pub(crate) fn scram_challenge(&self) -> Option<&ScramKeys> {
        let of_applications = self.application_passwords.iter().filter_map(|known| known.scram.as_ref());
        self.scram.as_ref().into_iter().chain(of_applications).next()
    }

    /// Adds an application password. Returns it, and the text that only the person gets. Its SCRAM keys have the
    /// challenge of others; `None` makes none.
    pub(crate) fn add_application_password(
        &mut self,
        new: &NewApplicationPassword,
        challenge: Option<&ScramKeys>,
        (now, random): (Timestamp, &dyn Random),
    ) -> Result<(ApplicationPassword, String)> {
        new.check()?;
        if self.application_passwords.len() >= APPLICATION_PASSWORDS_MAX {
            return Err(Error::Limit { quantity: "application passwords", max: APPLICATION_PASSWORDS_MAX });
        }
        let NewCode { code, text } = Code::<SYMBOLS>::generate(random);
        let digest = code.digest();
        let scram = challenge.map(|known| ScramKeys::derive(text.as_bytes(), &known.salt, known.iterations));
        let mut protocols = new.protocols.clone();
        protocols.sort_unstable();
        protocols.dedup();
        let name = new.name.trim().to_owned();
        let added =
            ApplicationPassword { id: id_of(&digest), name, created: now, protocols, scope: new.scope, digest, scram };
        self.application_passwords.push(added.clone());
        Ok((added, text))
    }
}

#[cfg(test)]
mod tests {
    use base::sim::SeededRandom;

    use super::*;
    use crate::person::tests::ann;

    fn new(protocols: &[LoginProtocol], scope: LoginScope) -> NewApplicationPassword {
        NewApplicationPassword { name: "Phone; of Ann".to_owned(), protocols: protocols.to_vec(), scope }
    }

    #[test]
    fn passwords_read_back_and_match_however_they_are_typed() {
        let mut person = ann();
        let random = SeededRandom::new(7);
        let all = new(&[LoginProtocol::Imap, LoginProtocol::Pop3, LoginProtocol::Imap], LoginScope::All);
        let made = person.add_application_password(&all, ann().scram.as_ref(), (Timestamp(5), &random));
        let (added, text) = made.expect("it is valid");
        assert_eq!(ApplicationPassword::from_text(&added.to_text()), Some(added.clone()));
        assert_eq!(added.protocols, [LoginProtocol::Imap, LoginProtocol::Pop3]);
        assert!(!added.to_text().contains(&text) && !format!("{added:?}").contains(&text), "the text is not kept");
        let find = |text: &str, protocol| person.find_application_password(text.as_bytes(), protocol).map(|it| it.id);
        assert_eq!(find(&text, LoginProtocol::Imap), Some(added.id));
        assert_eq!(find(&text.replace('-', ""), LoginProtocol::Pop3), Some(added.id));
        assert_eq!(find(&text.replace('-', " ").to_uppercase(), LoginProtocol::Imap), Some(added.id));
        assert_eq!(find(&text, LoginProtocol::Jmap), None, "out of its protocols");
        assert_eq!(find(&text[1..], LoginProtocol::Imap), None);
        assert_eq!(find("", LoginProtocol::Imap), None);
        assert_eq!(id_of_text(&text), Some(added.id));
    }

    #[test]
    fn all_keys_of_a_person_have_one_challenge() {
        let random = SeededRandom::new(8);
        let imap = new(&[LoginProtocol::Imap], LoginScope::All);
        for scram in [ann().scram, None] {
            let mut person = Person { scram, ..ann() };
            let decoy = ScramKeys::decoy(&[7; 32], "ann", 5_000);
            for _ in 0..3 {
                let challenge = person.scram_challenge().unwrap_or(&decoy).clone();
                let added = person.add_application_password(&imap, Some(&challenge), (Timestamp(5), &random));
                added.expect("it is valid");
            }
            let challenge = person.scram_challenge().expect("there are keys").clone();
            let is_same = |keys: &ScramKeys| (&keys.salt, keys.iterations) == (&challenge.salt, challenge.iterations);
            assert!(person.application_passwords.iter().all(|known| known.scram.as_ref().is_some_and(is_same)));
            let distinct = person.application_passwords.windows(2).all(|two| two[0].scram != two[1].scram);
            assert!(distinct, "each has keys of its own");
        }
    }

    #[test]
    fn what_cannot_be_used_is_not_made() {
        let mut person = ann();
        let random = SeededRandom::new(9);
        let mut check = |new: &NewApplicationPassword| {
            person.add_application_password(new, None, (Timestamp(5), &random)).map(drop).map_err(|e| e.to_string())
        };
        assert!(check(&new(&[], LoginScope::All)).is_err());
        assert!(check(&new(&[LoginProtocol::Ldap], LoginScope::All)).is_err());
        assert!(check(&new(&[LoginProtocol::Submission], LoginScope::Reading)).is_err());
        let named = |name: &str| NewApplicationPassword {
            name: name.to_owned(),
            ..new(&[LoginProtocol::Imap], LoginScope::Reading)
        };
        for name in ["", " ", "a\nb", &"x".repeat(APPLICATION_NAME_BYTES_MAX + 1)] {
            assert!(check(&named(name)).is_err(), "{name:?}");
        }
        for _ in 0..APPLICATION_PASSWORDS_MAX {
            assert_eq!(check(&named("Phone")), Ok(()));
        }
        assert!(check(&named("Phone")).is_err(), "beyond the limit");
    }

    #[test]
    fn damaged_records_are_no_passwords() {
        for text in ["", "1", "2;5;imap;all;00;;x", "1;5;imap;all;zz;;x", "1;5;smoke;all;;;x", "1;x;imap;all;;;x"] {
            assert_eq!(ApplicationPassword::from_text(text), None, "{text}");
        }
    }
}
