//! The notes of servers and of settings.
//!
//! A *settings* note (Domino: a configuration document) has a subject and any items. Other crates use it for values
//! that belong in the directory and not in the configuration file because the program creates them, such as signing
//! keys and secrets. Values are kept out of the summary, so that no view shows them.

use std::collections::BTreeSet;

use base::{Name, NoteId, Timestamp};
use notes::Item;

use crate::cache::MemorySize;
use crate::error::{Error, Result};
use crate::items;
use crate::key::LookupKey;
use crate::limits::SERVER_ACCESS_NAMES_MAX;
use crate::person::{check_name, check_text};

/// Form of server notes.
pub(crate) const SERVER_FORM: &str = "Server";

/// Form of settings notes.
pub(crate) const SETTINGS_FORM: &str = "ServerConfig";

/// A certificate of a server, as far as the directory records it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IssuedCertificate {
    /// Distinguished name of the authority that has signed it. Empty if it is unknown.
    pub issuer: String,
    /// End of its validity.
    pub until: Timestamp,
}

/// A server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerDocument {
    /// Note ID of the server; zero before it is stored.
    pub note: NoteId,
    /// Hierarchical name of the server.
    pub name: Name,
    /// Host and port of the native protocol, or `None` if they are unknown.
    pub address: Option<String>,
    /// Its last certificate of the domain's certifier, or `None` if it is unknown.
    pub certificate: Option<IssuedCertificate>,
    /// Domino's "Access server", for other servers: names, wildcards (`*/Acme`) and groups. Only these may call it.
    /// Empty: all servers of the domain.
    pub admitted: Vec<String>,
    /// Domino's "Not access server": servers that may not call it, even if `admitted` names them.
    pub excluded: Vec<String>,
}

impl ServerDocument {
    /// Creates the document of a server of which nothing else is known.
    #[must_use]
    pub fn new(name: Name) -> Self {
        let note = NoteId(0);
        Self { note, name, address: None, certificate: None, admitted: Vec::new(), excluded: Vec::new() }
    }

    /// Adds what another document of the same server says. Two servers may each have made one before they replicated.
    /// So only those get in whom both admit and none excludes. Of two certificates of one authority, the later one
    /// counts.
    pub(crate) fn unite(&mut self, other: &Self) {
        self.address = self.address.take().or_else(|| other.address.clone());
        let is_later = |certificate: &&IssuedCertificate| {
            let own = self.certificate.as_ref();
            own.is_none_or(|own| certificate.issuer == own.issuer && certificate.until > own.until)
        };
        if let Some(later) = other.certificate.as_ref().filter(is_later) {
            self.certificate = Some(later.clone());
        }
        let keys = |names: &[String]| names.iter().map(|name| LookupKey::name(name)).collect::<BTreeSet<_>>();
        let known = keys(&self.excluded);
        self.excluded.extend(other.excluded.iter().filter(|name| !known.contains(&LookupKey::name(name))).cloned());
        if self.admitted.is_empty() {
            self.admitted.clone_from(&other.admitted);
        } else if !other.admitted.is_empty() {
            let admitted = keys(&other.admitted);
            self.admitted.retain(|name| admitted.contains(&LookupKey::name(name)));
            if self.admitted.is_empty() {
                // An empty list would admit all servers.
                self.admitted.push(self.name.canonical().to_owned());
            }
        }
    }

    pub(crate) fn read(note: NoteId, items: &[Item]) -> Option<Self> {
        let list = |name| items::texts(items, name).map(str::to_owned).collect();
        Some(Self {
            note,
            name: Name::new(items::text(items, items::SERVER_NAME)?),
            address: items::text(items, items::NET_ADDRESSES).map(str::to_owned),
            certificate: items::time(items, items::CERTIFICATE_EXPIRES).map(|until| {
                let issuer = items::text(items, items::CERTIFICATE_ISSUER).unwrap_or_default();
                IssuedCertificate { issuer: issuer.to_owned(), until }
            }),
            admitted: list(items::ALLOW_ACCESS),
            excluded: list(items::DENY_ACCESS),
        })
    }

    pub(crate) fn write(&self, items: &mut Vec<Item>) {
        items::set_text(items, items::FORM, Some(SERVER_FORM));
        items::set_text(items, items::TYPE, Some(SERVER_FORM));
        items::set_names(items, items::SERVER_NAME, &[self.name.canonical().to_owned()]);
        items::set_text(items, items::NET_ADDRESSES, self.address.as_deref());
        let certificate = self.certificate.as_ref();
        items::set_time(items, items::CERTIFICATE_EXPIRES, certificate.map(|certificate| certificate.until));
        let issuer = certificate.map(|certificate| certificate.issuer.as_str()).filter(|issuer| !issuer.is_empty());
        items::set_text(items, items::CERTIFICATE_ISSUER, issuer);
        items::set_names(items, items::ALLOW_ACCESS, &self.admitted);
        items::set_names(items, items::DENY_ACCESS, &self.excluded);
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.admitted.len().max(self.excluded.len()) > SERVER_ACCESS_NAMES_MAX {
            return Err(Error::Limit {
                quantity: "names in a list of a server document",
                max: SERVER_ACCESS_NAMES_MAX,
            });
        }
        check_name(self.name.canonical())?;
        self.admitted.iter().chain(&self.excluded).try_for_each(|name| check_text(name))
    }

    pub(crate) fn unique_keys(&self) -> Vec<LookupKey> {
        vec![LookupKey::name(self.name.canonical())]
    }
}

impl MemorySize for ServerDocument {
    fn bytes(&self) -> usize {
        let names = self.admitted.iter().chain(&self.excluded).map(|name| name.len() + size_of::<String>());
        let issuer = self.certificate.as_ref().map_or(0, |certificate| certificate.issuer.len());
        size_of::<Self>() + self.name.canonical().len() + issuer + names.sum::<usize>()
    }
}

/// A set of named values.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingsDocument {
    /// Note ID of the settings; zero before they are stored.
    pub note: NoteId,
    /// Subject of the settings, such as `Domain acme.test`.
    pub subject: String,
    /// Names and values, in the order in which they were set.
    pub values: Vec<(String, String)>,
}

/// Prefix of the item names of values, which keeps them apart from other items.
const VALUE_PREFIX: &str = "Value.";

impl SettingsDocument {
    /// Returns a value, or `None` if it is not set. Ignores the case of the name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) {
        self.values.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.values.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    pub(crate) fn read(note: NoteId, items: &[Item]) -> Option<Self> {
        let subject = items::text(items, items::SUBJECT)?.to_owned();
        let value = |item: &Item| {
            let name = item.name.strip_prefix(VALUE_PREFIX)?;
            Some((name.to_owned(), item.value.text()?.to_owned()))
        };
        Some(Self { note, subject, values: items.iter().filter_map(value).collect() })
    }

    pub(crate) fn write(&self, items: &mut Vec<Item>) {
        items.retain(|item| !item.name.starts_with(VALUE_PREFIX));
        items::set_text(items, items::FORM, Some(SETTINGS_FORM));
        items::set_text(items, items::TYPE, Some(SETTINGS_FORM));
        items::set_text(items, items::SUBJECT, Some(&self.subject));
        for (name, value) in &self.values {
            items::set_secret(items, &format!("{VALUE_PREFIX}{name}"), Some(value.clone()));
        }
    }

    pub(crate) fn unique_keys(&self) -> Vec<LookupKey> {
        vec![LookupKey::settings(&self.subject)]
    }
}

impl MemorySize for SettingsDocument {
    fn bytes(&self) -> usize {
        let values = self.values.iter().map(|(name, value)| name.len() + value.len() + 2 * size_of::<String>());
        size_of::<Self>() + self.subject.len() + values.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_back_from_their_items() {
        let mut settings =
            SettingsDocument { note: NoteId(1), subject: "Domain acme.test".to_owned(), values: Vec::new() };
        settings.set("DkimKey", Some("old"));
        settings.set("dkimkey", Some("new"));
        settings.set("Gone", Some("x"));
        let mut items = vec![Item::text("Comment", "kept")];
        settings.write(&mut items);
        settings.set("Gone", None);
        settings.write(&mut items);
        assert_eq!(SettingsDocument::read(NoteId(1), &items), Some(settings.clone()));
        assert_eq!((settings.value("DKIMKEY"), settings.value("Gone")), (Some("new"), None));
        assert_eq!(items::text(&items, "Comment"), Some("kept"));
    }

    #[test]
    fn a_server_reads_back_from_its_items() {
        for address in [None, Some("hub.acme.test:1352".to_owned())] {
            let certificate = address.as_ref().map(|_| IssuedCertificate {
                issuer: "CN=Certifier, O=Acme".to_owned(),
                until: Timestamp::from_seconds(1_767_225_600),
            });
            let admitted = vec!["*/Acme".to_owned(), "Partners".to_owned()];
            let excluded = vec!["CN=old/O=Acme".to_owned()];
            let name = Name::new("hub/Acme");
            let server = ServerDocument { note: NoteId(1), name, address, certificate, admitted, excluded };
            let mut items = Vec::new();
            server.write(&mut items);
            assert_eq!(ServerDocument::read(NoteId(1), &items), Some(server));
        }
    }
}
