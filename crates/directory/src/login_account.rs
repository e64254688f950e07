//! The account that a login name stands for, as far as a peer can observe it.
//!
//! A person has one salt and one count of failures, whichever login name the peer uses. If an unknown name had a salt
//! and a count for each spelling, a peer could compare two spellings and learn whether the person exists. Therefore
//! every login name has a *canonical name*, which depends on the text and on the local domains, but not on people:
//!
//! | login name | canonical name |
//! |---|---|
//! | address in a local domain or its alias: `Ann@acme.test` | local part: `ann` |
//! | hierarchical name: `CN=Ann/O=acme.test`, `ann/acme.test` | common name: `ann` |
//! | any other name: ` ANN ` | the name, folded: `ann` |
//! | any other address: `ann@far.test` | the address, folded |
//!
//! These are the login names that a person has by default. An unknown name gets the salt and the count of its canonical
//! name. If another spelling of the canonical name belongs to a person, such as an address whose local part is not a
//! short name, the unknown name gets the salt and the count of that person. So all spellings behave in the same way,
//! whether all, some or none of them exist.
//!
//! Limits: names of one person with different canonical names (short name `as`, address `ann@acme.test`) share a salt
//! and a count. Spellings of one canonical name that belong to different people (`ann@acme.test`, `ann@other.test`) do
//! not. In both cases a peer that guesses both names can detect that they exist. Only [`LOGIN_DOMAINS_MAX`] domain
//! names are searched for other spellings.

use std::sync::Arc;

use base::Name;

use crate::address::{Address, fold};
use crate::directory::{CachedLookup, Directory};
use crate::error::{Error, Result};
use crate::key::LookupKey;
use crate::limits::LOGIN_DOMAINS_MAX;
use crate::person::{Person, plain_name};
use crate::record::{Kind, Record};
use crate::scram::ScramKeys;

/// The account that a login name stands for.
pub(crate) struct LoginAccount {
    /// The person with the login name, or `None` if there is none. Only this person can log in.
    pub(crate) person: Option<Arc<Person>>,
    /// The person with any spelling of the canonical name. Determines salt and count of an unknown login name.
    namesake: Option<Arc<Person>>,
    /// The canonical name of the login name.
    canonical: String,
}

impl LoginAccount {
    /// Returns the name under which failures are counted. It is the same for all login names of a person, and for all
    /// spellings of an unknown name.
    pub(crate) fn throttle_key(&self) -> String {
        match self.person.as_ref().or(self.namesake.as_ref()) {
            Some(person) => fold(person.name.canonical()),
            None => self.canonical.clone(),
        }
    }

    /// Returns the SCRAM keys of the person, or keys that match no password if there is no person or the person has no
    /// keys. `secret` and `iterations` are those of unknown accounts.
    ///
    /// The keys of application passwords, which have the same challenge, are not among them.
    pub(crate) fn scram_keys(&self, secret: &[u8; 32], iterations: u32) -> ScramKeys {
        if let Some(keys) = self.person.as_ref().and_then(|person| person.scram.as_ref()) {
            return keys.clone();
        }
        let decoy = ScramKeys::decoy(secret, &self.canonical, iterations);
        match self.person.as_ref().or(self.namesake.as_ref()).and_then(|person| person.scram_challenge()) {
            Some(known) => decoy.with_challenge_of(known),
            None => decoy,
        }
    }
}

impl Directory {
    /// Returns the account of a login name. The same lookups are made for known and unknown names.
    pub(crate) fn login_account(&self, login: &str) -> Result<LoginAccount> {
        let person = self.person(login)?;
        let canonical = self.canonical_login(login)?;
        let namesake = self.find_namesake(&canonical)?;
        Ok(LoginAccount { person, namesake, canonical })
    }

    /// Returns the canonical name of a login name.
    fn canonical_login(&self, login: &str) -> Result<String> {
        let Ok(address) = Address::parse(login.trim()) else {
            return Ok(canonical_name(login));
        };
        if self.domain_is_local(address.domain())? {
            return Ok(canonical_name(&plain_name(&fold(address.local()))));
        }
        Ok(address.key())
    }

    /// Returns the first person with a spelling of a canonical name. Makes all lookups even if the first one succeeds.
    fn find_namesake(&self, canonical: &str) -> Result<Option<Arc<Person>>> {
        if canonical.contains('@') {
            // An address in a foreign domain has no other spelling.
            return Ok(None);
        }
        let domains = self.login_domains()?;
        let addresses = domains.iter().map(|domain| LookupKey::address_in(domain, canonical));
        let mut namesake = None;
        for key in std::iter::once(LookupKey::name(canonical)).chain(addresses) {
            let person = match self.find(&key)? {
                Some(Record::Person(person)) => Some(person),
                _ => None,
            };
            namesake = namesake.or(person);
        }
        Ok(namesake)
    }

    /// Returns names and aliases of the local domains, at most [`LOGIN_DOMAINS_MAX`] of them.
    fn login_domains(&self) -> Result<Arc<[String]>> {
        let load = || {
            let domains = self.domains(0, LOGIN_DOMAINS_MAX)?;
            let names = domains.entries.iter().flat_map(|domain| domain.names());
            let names: Arc<[String]> = names.take(LOGIN_DOMAINS_MAX).map(str::to_owned).collect();
            Ok::<_, Error>(CachedLookup::DomainNames(names))
        };
        Ok(match self.cached_or_load(LookupKey::of_kind(Kind::Domain.letter(), "").text(), load)? {
            CachedLookup::DomainNames(names) => names,
            _ => Arc::default(),
        })
    }
}

/// Returns the canonical name of a login name that is not an address: the common name, compared like all names.
fn canonical_name(name: &str) -> String {
    let folded = Name::new(LookupKey::name(name).value());
    LookupKey::name(folded.common()).value().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_reduced_to_the_common_name() {
        let check = |name: &str, expected: &str| assert_eq!(canonical_name(name), expected, "{name:?}");
        for name in ["ann", " ANN ", "\u{1}ann", "Ann/acme.test", "CN=ann/O=acme.test", " cn=ANN / ou=West/o=Acme "] {
            check(name, "ann");
        }
        check("Ann  Smith", "ann smith");
        check("ann\u{1}smith", "ann smith");
        check("\u{c4}NNE", "\u{e4}nne");
        check("a\u{308}nne", "\u{e4}nne");
        check("", "");
        check("/", "");
        check("no@address@at all", "no@address@at all");
    }
}
