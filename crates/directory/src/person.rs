//! The person note as a value, and its conversion from and to items.
//!
//! Reading is tolerant, because notes may come from other sources: `FullName` and `ShortName` may also contain
//! addresses, as in Domino, and invalid addresses are skipped. Writing is strict: names, counts and targets are
//! checked.

use base::{Name, NoteId};
use notes::{DatabaseKind, Item};

use crate::address::Address;
use crate::application_password::ApplicationPassword;
use crate::cache::MemorySize;
use crate::error::{Error, Result};
use crate::items;
use crate::key::LookupKey;
use crate::limits::{APPLICATION_PASSWORDS_MAX, NAME_BYTES_MAX, NAMES_PER_NOTE_MAX};
use crate::scram::ScramKeys;
use crate::second_factor::SecondFactor;

/// Form of person notes.
pub(crate) const FORM: &str = "Person";

/// A person.
#[derive(Debug, Clone, PartialEq)]
pub struct Person {
    /// Note ID of the person; zero before it is stored.
    pub note: NoteId,
    /// Hierarchical name: the first value of `FullName`.
    pub name: Name,
    /// Further names.
    pub other_names: Vec<String>,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// Login names. The mail file is named after the first one.
    pub short_names: Vec<String>,
    /// Mail addresses. The first is the sender address.
    pub addresses: Vec<Address>,
    /// Path of the mail database, such as `mail/ann.nsf`.
    pub mail_file: String,
    /// Name of the server that holds the mail database.
    pub mail_server: String,
    /// Mail quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Whether the account is disabled. A disabled person cannot log in and gets no mail.
    pub disabled: bool,
    /// Address to which mail is forwarded instead of being stored in the mail file.
    pub forward: Option<String>,
    pub(crate) password_hash: Option<String>,
    pub(crate) scram: Option<ScramKeys>,
    pub(crate) application_passwords: Vec<ApplicationPassword>,
    /// Application passwords that this version cannot read, which stay as they are.
    pub(crate) unreadable_passwords: Vec<String>,
    pub(crate) second_factor: Option<SecondFactor>,
}

impl Person {
    /// Returns the primary address, from which mail is sent.
    #[must_use]
    pub fn address(&self) -> Option<&Address> {
        self.addresses.first()
    }

    /// Returns all login names, short names first.
    #[must_use]
    pub fn logins(&self) -> Vec<String> {
        let addresses = self.addresses.iter().map(ToString::to_string);
        self.short_names.iter().cloned().chain(addresses).collect()
    }

    /// Returns a number that changes with the password. It stays the same over restarts, because sessions in browsers
    /// keep it.
    #[must_use]
    pub fn password_stamp(&self) -> u64 {
        let mut hasher = blake3::Hasher::new();
        for text in [self.password_hash.clone(), self.scram.as_ref().map(ScramKeys::to_text)] {
            hasher.update(&[u8::from(text.is_some())]);
            hasher.update(text.unwrap_or_default().as_bytes());
        }
        let mut stamp = [0; 8];
        hasher.finalize_xof().fill(&mut stamp);
        u64::from_be_bytes(stamp)
    }

    /// Returns `true` if a password is set.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.password_hash.is_some()
    }

    /// Returns `true` if the person can use SCRAM.
    #[must_use]
    pub fn has_scram(&self) -> bool {
        self.scram.is_some()
    }

    /// Returns the second factor, if the person has one.
    #[must_use]
    pub fn second_factor(&self) -> Option<&SecondFactor> {
        self.second_factor.as_ref()
    }

    /// Returns the display name: first and last name, or else the common name.
    #[must_use]
    pub fn display_name(&self) -> String {
        let full = format!("{} {}", self.first_name, self.last_name);
        match full.trim() {
            "" => self.name.common().to_owned(),
            full => full.to_owned(),
        }
    }

    /// Returns kind and name, for messages.
    #[must_use]
    pub fn label(&self) -> String {
        match self.address() {
            Some(address) => format!("user {address}"),
            None => format!("user {}", self.name),
        }
    }

    pub(crate) fn read(note: NoteId, items: &[Item]) -> Option<Self> {
        let full_names: Vec<&str> = items::texts(items, items::FULL_NAME).collect();
        let mut names = Vec::new();
        let mut addresses = Vec::new();
        let declared = items::texts(items, items::INTERNET_ADDRESS);
        for text in declared.chain(full_names.iter().copied()).chain(items::texts(items, items::SHORT_NAME)) {
            push_address(&mut addresses, text);
        }
        names.extend(full_names.into_iter().filter(|name| !name.contains('@')).map(str::to_owned));
        if names.is_empty() {
            return None;
        }
        let own = |name: &str| items::text(items, name).unwrap_or_default().to_owned();
        let short_names = items::texts(items, items::SHORT_NAME).filter(|name| !name.contains('@'));
        Some(Self {
            note,
            name: Name::new(&names.remove(0)),
            other_names: names,
            first_name: own(items::FIRST_NAME),
            last_name: own(items::LAST_NAME),
            short_names: short_names.map(str::to_owned).collect(),
            addresses,
            mail_file: own(items::MAIL_FILE),
            mail_server: own(items::MAIL_SERVER),
            quota_bytes: items::count(items, items::MAIL_QUOTA),
            disabled: items::text(items, items::DISABLED) == Some("1"),
            forward: items::text(items, items::MAIL_ADDRESS).map(str::to_owned),
            password_hash: items::text(items, items::HTTP_PASSWORD).map(str::to_owned),
            scram: items::text(items, items::SCRAM_SHA_256).and_then(ScramKeys::from_text),
            application_passwords: items::texts(items, items::APPLICATION_PASSWORDS)
                .filter_map(ApplicationPassword::from_text)
                .take(APPLICATION_PASSWORDS_MAX)
                .collect(),
            unreadable_passwords: items::texts(items, items::APPLICATION_PASSWORDS)
                .filter(|text| ApplicationPassword::from_text(text).is_none())
                .take(APPLICATION_PASSWORDS_MAX)
                .map(str::to_owned)
                .collect(),
            second_factor: items::text(items, items::SECOND_FACTOR)
                .map(|text| SecondFactor::from_texts(text, items::texts(items, items::RECOVERY_CODES))),
        })
    }

    pub(crate) fn write(&self, items: &mut Vec<Item>) {
        items::set_text(items, items::FORM, Some(FORM));
        items::set_text(items, items::TYPE, Some(FORM));
        let full_names: Vec<String> =
            std::iter::once(self.name.canonical().to_owned()).chain(self.other_names.iter().cloned()).collect();
        items::set_names(items, items::FULL_NAME, &full_names);
        items::set_text(items, items::FIRST_NAME, non_blank(&self.first_name));
        items::set_text(items, items::LAST_NAME, non_blank(&self.last_name));
        items::set_texts(items, items::SHORT_NAME, &self.short_names);
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        items::set_texts(items, items::INTERNET_ADDRESS, &addresses);
        items::set_text(items, items::MAIL_FILE, non_blank(&self.mail_file));
        items::set_text(items, items::MAIL_SERVER, non_blank(&self.mail_server));
        items::set_count(items, items::MAIL_QUOTA, self.quota_bytes);
        items::set_text(items, items::DISABLED, self.disabled.then_some("1"));
        items::set_text(items, items::MAIL_ADDRESS, self.forward.as_deref());
        items::set_secret(items, items::HTTP_PASSWORD, self.password_hash.clone());
        items::set_secret(items, items::SCRAM_SHA_256, self.scram.as_ref().map(ScramKeys::to_text));
        let readable = self.application_passwords.iter().map(ApplicationPassword::to_text);
        let passwords = readable.chain(self.unreadable_passwords.iter().cloned()).collect();
        items::set_secrets(items, items::APPLICATION_PASSWORDS, passwords);
        items::set_secret(items, items::SECOND_FACTOR, self.second_factor.as_ref().map(SecondFactor::to_text));
        let codes = self.second_factor.as_ref().map(SecondFactor::recovery_texts).unwrap_or_default();
        items::set_secrets(items, items::RECOVERY_CODES, codes);
    }

    /// Checks the person before it is written.
    pub(crate) fn check(&self) -> Result<()> {
        // Short names are checked first: the other names may be derived from them, and the error must name the given
        // one.
        let names = std::iter::once(self.name.canonical()).chain(self.other_names.iter().map(String::as_str));
        self.short_names.iter().map(String::as_str).chain(names).try_for_each(check_name)?;
        for text in [&self.first_name, &self.last_name] {
            check_text(text)?;
        }
        check_count("names of a person", self.other_names.len() + self.short_names.len())?;
        check_count("addresses of a person", self.addresses.len())?;
        notes::catalog::check_path(&self.mail_file)?;
        notes::catalog::check_reserved(&self.mail_file, DatabaseKind::Mail)?;
        match &self.forward {
            Some(text) => Address::parse(text).map(drop).map_err(|reason| Error::address(text, reason)),
            None => Ok(()),
        }
    }

    /// Returns the keys that no other note may have.
    pub(crate) fn unique_keys(&self) -> Vec<LookupKey> {
        let mut keys = self.name_keys();
        keys.extend(self.addresses.iter().map(LookupKey::address));
        if !self.mail_file.is_empty() {
            keys.push(LookupKey::mail_file(&self.mail_file));
        }
        keys
    }

    /// Returns the keys of the names, without those of addresses.
    pub(crate) fn name_keys(&self) -> Vec<LookupKey> {
        let names = std::iter::once(self.name.canonical()).chain(self.other_names.iter().map(String::as_str));
        let mut keys: Vec<LookupKey> =
            names.chain(self.short_names.iter().map(String::as_str)).map(LookupKey::name).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the keys of the application passwords.
    pub(crate) fn application_password_keys(&self) -> impl Iterator<Item = LookupKey> {
        self.application_passwords.iter().map(|password| LookupKey::application_password(password.id))
    }

    /// Returns the text by which lists of people are sorted: the primary address, or the abbreviated name.
    pub(crate) fn sort_text(&self) -> String {
        self.address().map_or_else(|| self.name.abbreviated(), ToString::to_string)
    }
}

impl MemorySize for Person {
    fn bytes(&self) -> usize {
        let texts = [&self.first_name, &self.last_name, &self.mail_file, &self.mail_server];
        let lists = self.other_names.iter().chain(&self.short_names).map(|text| text.len() + size_of::<String>());
        let addresses = self.addresses.iter().map(|a| a.local().len() + a.domain().len() + size_of::<Address>());
        let secrets = self.password_hash.as_ref().map_or(0, String::len) + self.forward.as_ref().map_or(0, String::len);
        let applications = self.application_passwords.len() * (size_of::<ApplicationPassword>() + 64);
        let codes = self.second_factor.as_ref().map_or(0, |factor| factor.recovery_codes() * 32);
        size_of::<Self>()
            + self.name.canonical().len()
            + secrets
            + applications
            + codes
            + texts.iter().map(|text| text.len()).sum::<usize>()
            + lists.sum::<usize>()
            + addresses.sum::<usize>()
    }
}

/// Adds an address. Has no effect if the text is not an address or the address is already listed.
pub(crate) fn push_address(addresses: &mut Vec<Address>, text: &str) {
    let Ok(address) = Address::parse(text.trim()) else { return };
    if !addresses.iter().any(|known| known.key() == address.key()) {
        addresses.push(address);
    }
}

fn non_blank(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Checks a name of a person, group or server.
pub(crate) fn check_name(name: &str) -> Result<()> {
    check_text(name)?;
    if name.trim().is_empty() {
        return Err(Error::name(name, "it is empty"));
    }
    if name.contains('@') {
        return Err(Error::name(name, "it contains an @, which is reserved for addresses"));
    }
    if name.starts_with('*') {
        return Err(Error::name(name, "it begins with a *, which is reserved for wildcards"));
    }
    Ok(())
}

/// Returns a text without the characters that [`check_name`] or the hierarchical notation reserves: each becomes a
/// hyphen.
pub(crate) fn plain_name(text: &str) -> String {
    text.replace(['@', '/', '*', '='], "-")
}

/// Checks a text for display.
pub(crate) fn check_text(text: &str) -> Result<()> {
    if text.len() > NAME_BYTES_MAX {
        return Err(Error::name(text, "it is too long"));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::name(text, "it contains control characters"));
    }
    Ok(())
}

/// Checks the number of values in a list.
pub(crate) fn check_count(quantity: &'static str, count: usize) -> Result<()> {
    if count > NAMES_PER_NOTE_MAX { Err(Error::Limit { quantity, max: NAMES_PER_NOTE_MAX }) } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use notes::ItemValue;

    use super::*;

    pub(crate) fn ann() -> Person {
        Person {
            note: NoteId(7),
            name: Name::new("Ann Smith/Acme"),
            other_names: vec!["Ann Smith".to_owned()],
            first_name: "Ann".to_owned(),
            last_name: "Smith".to_owned(),
            short_names: vec!["ann".to_owned(), "asmith".to_owned()],
            addresses: ["ann@acme.test", "Ann.Smith@acme.test"].map(|text| text.parse().expect("valid")).to_vec(),
            mail_file: "mail/ann.nsf".to_owned(),
            mail_server: "CN=hub/O=Acme".to_owned(),
            quota_bytes: Some(1 << 40),
            disabled: true,
            forward: Some("ann@home.test".to_owned()),
            password_hash: Some("$argon2id$…".to_owned()),
            scram: Some(ScramKeys::derive(b"pencil", b"salt", 4_096)),
            application_passwords: Vec::new(),
            unreadable_passwords: Vec::new(),
            second_factor: None,
        }
    }

    #[test]
    fn a_person_reads_back_from_its_items() {
        let mut items = Vec::new();
        ann().write(&mut items);
        assert_eq!(Person::read(NoteId(7), &items), Some(ann()));
        let sparse = Person { quota_bytes: None, disabled: false, forward: None, scram: None, ..ann() };
        sparse.write(&mut items);
        assert_eq!(Person::read(NoteId(7), &items), Some(sparse));
    }

    #[test]
    fn unknown_items_are_kept() {
        let mut items = vec![Item::text("OfficePhone", "1"), Item::text("firstname", "Anna")];
        ann().write(&mut items);
        assert_eq!(items::text(&items, "OfficePhone"), Some("1"));
        assert_eq!(items.iter().filter(|item| item.is_named(items::FIRST_NAME)).count(), 1);
    }

    #[test]
    fn secrets_stay_out_of_the_summary() {
        let mut items = Vec::new();
        ann().write(&mut items);
        let in_summary =
            |name| items.iter().any(|item| item.is_named(name) && item.flags.contains(notes::ItemFlags::SUMMARY));
        assert!(!in_summary(items::HTTP_PASSWORD) && !in_summary(items::SCRAM_SHA_256));
        assert!(in_summary(items::FULL_NAME));
    }

    #[test]
    fn addresses_in_name_items_are_recognized() {
        let list = |values: &[&str]| ItemValue::TextList(values.iter().map(|&value| value.to_owned()).collect());
        let items = vec![
            Item::summary(items::FULL_NAME, list(&["CN=Ann/O=Acme", "ann@acme.test", "Ann"])),
            Item::summary(items::SHORT_NAME, list(&["ann", "A@acme.test"])),
            Item::text(items::INTERNET_ADDRESS, "ANN@acme.test"),
        ];
        let person = Person::read(NoteId(1), &items).expect("a person");
        let addresses: Vec<String> = person.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["ANN@acme.test", "A@acme.test"]);
        assert_eq!((person.other_names, person.short_names), (vec!["Ann".to_owned()], vec!["ann".to_owned()]));
    }

    #[test]
    fn note_without_a_name_is_not_a_person() {
        assert_eq!(Person::read(NoteId(1), &[Item::text(items::FULL_NAME, " ")]), None);
    }

    #[test]
    fn invalid_names_are_refused() {
        let check = |change: fn(&mut Person)| {
            let mut person = ann();
            change(&mut person);
            person.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(|_| ()), Ok(()));
        assert!(check(|person| person.short_names.push("a@b".to_owned())).is_err());
        assert!(check(|person| person.short_names.push(String::new())).is_err());
        assert!(check(|person| person.name = Name::new("*/Acme")).is_err());
        assert!(check(|person| person.first_name = "a\nb".to_owned()).is_err());
        assert!(check(|person| person.last_name = "x".repeat(300)).is_err());
        assert!(check(|person| person.forward = Some("nowhere".to_owned())).is_err());
        assert!(check(|person| person.mail_file = "../x.nsf".to_owned()).is_err());
        for reserved in ["names.nsf", "mail3.box"] {
            let mut person = ann();
            person.mail_file = reserved.to_owned();
            let refused = person.check().expect_err("the server needs the path").to_string();
            assert!(refused.contains("reserved for the server"), "{refused}");
        }
        assert_eq!(check(|person| person.mail_file = "mail/log.nsf".to_owned()), Ok(()));
        assert!(check(|person| person.other_names = vec!["x".to_owned(); NAMES_PER_NOTE_MAX]).is_err());
    }
}
