//! Local mail domains: their names and aliases, and the recipients of mail for unknown addresses.
//!
//! Corresponds to Domino's Global Domain document. Names are in ASCII form.

use base::NoteId;
use notes::Item;

use crate::address::{Address, domain_to_ascii};
use crate::cache::MemorySize;
use crate::error::{Error, Result};
use crate::items;
use crate::key::LookupKey;
use crate::limits::ALIASES_PER_DOMAIN_MAX;

/// Form of domain notes.
pub(crate) const FORM: &str = "Domain";

/// A local mail domain.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain {
    /// Note ID of the domain; zero before it is stored.
    pub note: NoteId,
    /// Name of the domain, in ASCII.
    pub name: String,
    /// Names of equivalent domains, in ASCII.
    pub aliases: Vec<String>,
    /// Address that receives mail for unknown addresses of the domain.
    pub catch_all: Option<String>,
    /// Address that receives mail for `postmaster` if no user or group has that address.
    pub postmaster: Option<String>,
}

impl Domain {
    /// Returns the name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    /// Returns kind and name, for messages.
    #[must_use]
    pub fn label(&self) -> String {
        format!("domain {}", self.name)
    }

    pub(crate) fn read(note: NoteId, items: &[Item]) -> Option<Self> {
        let name = domain_to_ascii(items::text(items, items::DOMAIN_NAME)?).ok()?;
        let aliases = items::texts(items, items::DOMAIN_ALIASES).filter_map(|alias| domain_to_ascii(alias).ok());
        let own = |name: &str| items::text(items, name).map(str::to_owned);
        Some(Self {
            note,
            name,
            aliases: aliases.take(ALIASES_PER_DOMAIN_MAX).collect(),
            catch_all: own(items::CATCH_ALL),
            postmaster: own(items::POSTMASTER),
        })
    }

    pub(crate) fn write(&self, items: &mut Vec<Item>) {
        items::set_text(items, items::FORM, Some(FORM));
        items::set_text(items, items::TYPE, Some(FORM));
        items::set_text(items, items::DOMAIN_NAME, Some(&self.name));
        items::set_texts(items, items::DOMAIN_ALIASES, &self.aliases);
        items::set_text(items, items::CATCH_ALL, self.catch_all.as_deref());
        items::set_text(items, items::POSTMASTER, self.postmaster.as_deref());
    }

    /// Checks the domain before it is written.
    ///
    /// Returns an error if the list is not empty aliases or if `catch_all` or `postmaster` is not a valid address.
    pub(crate) fn check(&self) -> Result<()> {
        if self.aliases.len() > ALIASES_PER_DOMAIN_MAX {
            return Err(Error::Limit { quantity: "aliases of a domain", max: ALIASES_PER_DOMAIN_MAX });
        }
        for text in self.catch_all.iter().chain(&self.postmaster) {
            Address::parse(text).map_err(|reason| Error::address(text, reason))?;
        }
        Ok(())
    }

    pub(crate) fn unique_keys(&self) -> Vec<LookupKey> {
        let mut keys: Vec<LookupKey> = self.names().map(LookupKey::domain).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl MemorySize for Domain {
    fn bytes(&self) -> usize {
        let texts = self.names().map(|name| name.len() + size_of::<String>()).sum::<usize>();
        let targets = self.catch_all.iter().chain(&self.postmaster).map(String::len).sum::<usize>();
        size_of::<Self>() + texts + targets
    }
}

/// Parses the name of a domain as written by an administrator. Refuses address literals.
pub(crate) fn parse(text: &str) -> Result<String> {
    let name = domain_to_ascii(text.trim()).map_err(|reason| Error::address(text, reason))?;
    if name.starts_with('[') {
        return Err(Error::address(text, crate::address::AddressError::Domain));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_reads_back_from_its_items() {
        let domain = Domain {
            note: NoteId(2),
            name: "acme.test".to_owned(),
            aliases: vec!["xn--bcher-kva.test".to_owned()],
            catch_all: Some("ann@acme.test".to_owned()),
            postmaster: None,
        };
        let mut items = Vec::new();
        domain.write(&mut items);
        assert_eq!(Domain::read(NoteId(2), &items), Some(domain));
    }

    #[test]
    fn domain_names_are_normalized() {
        assert_eq!(parse(" Bücher.TEST. ").ok().as_deref(), Some("xn--bcher-kva.test"));
        for text in ["", "a b", "[192.0.2.1]", "-x.test"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_catch_all_is_refused() {
        let domain = Domain {
            note: NoteId(0),
            name: "acme.test".to_owned(),
            aliases: Vec::new(),
            catch_all: Some("nobody".to_owned()),
            postmaster: None,
        };
        assert!(domain.check().is_err());
        assert!(Domain { catch_all: None, ..domain }.check().is_ok());
    }
}
