//! The keys by which notes are found: normalized names, addresses and memberships.
//!
//! A [`LookupKey`] consists of a letter for the kind of key, and a text. The index holds one entry for each key of each
//! note.
//!
//! | letter | text | finds |
//! |---|---|---|
//! | `a` | address, domain first: `acme.test@ann` | the person or group with the address |
//! | `n` | name, folded: `cn=ann smith/o=acme`, `ann` | the person, group or server with the name |
//! | `d` | domain, in ASCII | the domain, by name or alias |
//! | `f` | path of a mail file, folded | the owner of the mail file |
//! | `m` | `a` or `n`, and the member as above | the groups that list the member |
//! | `l` | letter of the kind of note, sort text | all notes of a kind, in order |
//! | `p` | identifier of an application password | the person who has it |
//! | `s` | subject of a settings note, folded | the settings note |
//! | `c` | names of two servers, folded, with a line between them | the connection from the first to the second |

use base::Name;
use sasl::ApplicationPasswordId;

use crate::address::{Address, fold};
use crate::limits::KEY_TEXT_BYTES_MAX;

/// A normalized name, address or similar value by which a note is found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupKey(String);

impl LookupKey {
    /// Creates the key of an address.
    #[must_use]
    pub fn address(address: &Address) -> Self {
        Self::new('a', &address.domain_first_key())
    }

    /// Creates the key of an address from a domain in ASCII form and a folded local part.
    pub(crate) fn address_in(domain: &str, local: &str) -> Self {
        Self::new('a', &format!("{domain}@{local}"))
    }

    /// Creates the common prefix of the keys of all addresses in a domain.
    pub(crate) fn addresses_of(domain: &str) -> Self {
        Self::new('a', &format!("{domain}@"))
    }

    /// Creates the key of a name of a person, group or server.
    #[must_use]
    pub fn name(name: &str) -> Self {
        Self::new('n', &fold_name(name))
    }

    /// Creates the key of a login name or a group member: that of an address if the text is one, otherwise that of a
    /// name.
    #[must_use]
    pub fn address_or_name(text: &str) -> Self {
        match Address::parse(text.trim()) {
            Ok(address) => Self::address(&address),
            Err(_) => Self::name(text),
        }
    }

    /// Creates the key of a domain in ASCII form.
    #[must_use]
    pub fn domain(domain: &str) -> Self {
        Self::new('d', domain)
    }

    pub(crate) fn mail_file(path: &str) -> Self {
        Self::new('f', &fold(path))
    }

    /// Creates the key of an application password.
    pub(crate) fn application_password(id: ApplicationPasswordId) -> Self {
        Self::new('p', &id.to_string())
    }

    pub(crate) fn settings(subject: &str) -> Self {
        Self::new('s', &fold(subject))
    }

    /// Creates the key of a connection from one server to another. Its name may be empty.
    pub(crate) fn connection(source: &Name, destination: &Name, name: &str) -> Self {
        let servers = format!("{}|{}", fold_name(source.canonical()), fold_name(destination.canonical()));
        Self::new('c', &if name.is_empty() { servers } else { format!("{servers}|{}", fold(name)) })
    }

    /// Creates the key by which the groups are found that list the given member.
    pub(crate) fn membership(member: &Self) -> Self {
        Self::new('m', &member.0)
    }

    pub(crate) fn of_kind(kind: char, sort: &str) -> Self {
        Self::new('l', &format!("{kind}{}", fold(sort)))
    }

    /// Returns the whole key as a text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the value without the letter.
    #[must_use]
    pub fn value(&self) -> &str {
        self.0.get(1..).unwrap_or_default()
    }

    /// Returns kind and value in readable form, for messages.
    pub(crate) fn describe(&self) -> String {
        let value = self.value();
        match (self.0.chars().next(), value.split_once('@')) {
            (Some('a'), Some((domain, local))) => format!("address {local}@{domain}"),
            (Some('d'), _) => format!("domain {value}"),
            (Some('f'), _) => format!("mail file {value}"),
            (Some('n'), _) => format!("name {}", Name::new(value)),
            _ => value.to_owned(),
        }
    }

    /// Creates a key of at most [`KEY_TEXT_BYTES_MAX`] bytes. Replaces control characters by spaces: they do not occur
    /// in valid lookups, and a zero byte would end the key within the index.
    fn new(letter: char, text: &str) -> Self {
        let mut key = String::with_capacity(1 + text.len());
        key.push(letter);
        key.extend(text.chars().map(|character| if character.is_control() { ' ' } else { character }));
        key.truncate(key.floor_char_boundary(KEY_TEXT_BYTES_MAX));
        Self(key)
    }
}

/// Folds a name for comparison: canonical form, single spaces, lower case.
fn fold_name(name: &str) -> String {
    let blanks_joined = name.split_whitespace().collect::<Vec<_>>().join(" ");
    fold(Name::new(&blanks_joined).canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(LookupKey::address_or_name(text).text(), expected, "{text}");
    }

    #[test]
    fn addresses_and_names_are_normalized() {
        check("Ann@ACME.test", "aacme.test@ann");
        check(" Ann   Smith / Acme ", "ncn=ann smith/o=acme");
        check("CN=Ann Smith/O=Acme", "ncn=ann smith/o=acme");
        check("SALES", "nsales");
        check("no@address@at all", "nno@address@at all");
        check("with\u{0}zero", "nwith zero");
    }

    #[test]
    fn keys_of_different_kinds_never_collide() {
        let keys = [
            LookupKey::name("x"),
            LookupKey::domain("x"),
            LookupKey::mail_file("x"),
            LookupKey::settings("x"),
            LookupKey::of_kind('p', "x"),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{key:?}");
        }
        assert_eq!(LookupKey::membership(&LookupKey::name("X")).text(), "mnx");
        assert_eq!(LookupKey::name("x").value(), "x");
        assert_eq!(LookupKey::address_in("acme.test", "ann"), LookupKey::address_or_name("Ann@acme.test"));
    }

    #[test]
    fn keys_can_be_described() {
        assert_eq!(LookupKey::address_or_name("Ann@Acme.test").describe(), "address ann@acme.test");
        assert_eq!(LookupKey::name("CN=Ann/O=Acme").describe(), "name ann/acme");
        assert_eq!(LookupKey::mail_file("mail/A.nsf").describe(), "mail file mail/a.nsf");
        assert_eq!(LookupKey::domain("acme.test").describe(), "domain acme.test");
    }

    #[test]
    fn keys_are_bounded() {
        let key = LookupKey::name(&"ä".repeat(10_000));
        assert!(key.text().len() <= KEY_TEXT_BYTES_MAX);
    }
}
