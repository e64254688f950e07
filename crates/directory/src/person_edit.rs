//! Adding, changing and removing people.
//!
//! Missing values are derived: the hierarchical name from first name, last name and domain, the short name from the
//! address, and the mail file from the short name. If a derived name is taken, a variant is used. If a requested name
//! is taken, this is an error. The mail database itself is created by the `mail` crate, at the path in the person note.

use std::sync::Arc;

use base::{Name, NoteId};
use notes::{Access, Database, Identity, NewDatabase, level};

use crate::address::{Address, fold};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::key::LookupKey;
use crate::limits::MAIL_FILE_NUMBERS_MAX;
use crate::password::{self, DerivedSecrets};
use crate::person::{Person, plain_name, push_address};
use crate::record::{Kind, Record};
use crate::transaction::DirectoryTransaction;

/// A person to be added.
#[derive(Debug, Clone, Default)]
pub struct NewUser {
    /// Primary mail address. Its domain must be local.
    pub address: String,
    /// Further addresses.
    pub aliases: Vec<String>,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// Hierarchical name; `None` derives it.
    pub full_name: Option<String>,
    /// Login name; `None` derives it.
    pub short_name: Option<String>,
    /// Password. Without a password, the person cannot log in.
    pub password: Option<Vec<u8>>,
    /// Argon2 hash of the password, if the password itself is unknown. No SCRAM keys are stored in this case.
    pub password_hash: Option<String>,
    /// Mail quota in bytes.
    pub quota_bytes: Option<u64>,
    /// Path of the mail database; `None` derives it.
    pub mail_file: Option<String>,
    /// Address to which mail is forwarded instead of being stored in the mail file.
    pub forward: Option<String>,
}

impl NewUser {
    /// Creates a person with only an address.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), ..Self::default() }
    }
}

/// A change of a person. Fields that are `None` or empty change nothing.
#[derive(Debug, Clone, Default)]
pub struct PersonChange {
    /// New first name.
    pub first_name: Option<String>,
    /// New last name.
    pub last_name: Option<String>,
    /// New primary address, from which mail is sent. It is added if the person does not have it yet.
    pub primary_address: Option<String>,
    /// Addresses to add.
    pub addresses_add: Vec<String>,
    /// Addresses to remove.
    pub addresses_remove: Vec<String>,
    /// Short names to add.
    pub short_names_add: Vec<String>,
    /// Short names to remove.
    pub short_names_remove: Vec<String>,
    /// New password.
    pub password: Option<Vec<u8>>,
    /// New mail quota in bytes; `Some(None)` removes the limit.
    pub quota_bytes: Option<Option<u64>>,
    /// Whether the account is disabled.
    pub disabled: Option<bool>,
    /// Whether the second factor is removed.
    pub remove_second_factor: bool,
    /// New forwarding address; `Some(None)` delivers to the mail file again.
    pub forward: Option<Option<String>>,
}

impl PersonChange {
    /// Returns `true` if nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let texts = [&self.first_name, &self.last_name, &self.primary_address];
        let lists = [&self.addresses_add, &self.addresses_remove, &self.short_names_add, &self.short_names_remove];
        texts.iter().all(|text| text.is_none())
            && lists.iter().all(|list| list.is_empty())
            && self.password.is_none()
            && self.quota_bytes.is_none()
            && self.disabled.is_none()
            && !self.remove_second_factor
            && self.forward.is_none()
    }
}

impl Directory {
    /// Adds a person.
    pub fn user_add(&self, new: &NewUser) -> Result<Arc<Person>> {
        let secrets = self.secrets_of(new)?;
        let mut edit = self.edit()?;
        let person = self.user_save(&mut edit, new, secrets)?;
        self.commit_durable(edit)?;
        Ok(person)
    }

    /// Derives the stored values for the password of a new person. Takes the time of a password hash.
    pub(crate) fn secrets_of(&self, new: &NewUser) -> Result<Option<DerivedSecrets>> {
        match (&new.password, &new.password_hash) {
            (Some(password), _) => self.derive_secrets(password).map(Some),
            (None, Some(hash)) => secrets_from_hash(hash).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Adds a person within an edit.
    pub(crate) fn user_save(
        &self,
        edit: &mut DirectoryTransaction<'_>,
        new: &NewUser,
        secrets: Option<DerivedSecrets>,
    ) -> Result<Arc<Person>> {
        let mut person = self.new_person(edit, new)?;
        set_secrets(&mut person, secrets);
        person.addresses = parse_addresses(edit, std::iter::once(&new.address).chain(&new.aliases))?;
        person.note = edit.save(&Record::Person(Arc::new(person.clone())))?;
        Ok(Arc::new(person))
    }

    /// Returns the person whose mail file has the given path.
    pub fn mail_file_holder(&self, path: &str) -> Result<Option<Arc<Person>>> {
        Ok(match self.find(&LookupKey::mail_file(path))? {
            Some(Record::Person(person)) => Some(person),
            _ => None,
        })
    }

    /// Renames a database and, if it is a mail file, updates the path in the person note. Returns the owner of the mail
    /// file, if there is one.
    ///
    /// Both happen in one transaction, because a login in between would create an empty mail file. Returns
    /// [`Error::AlreadyTaken`] if the path belongs to another person.
    pub fn mail_file_rename(&self, access: &Access<level::Manager>, path: &str) -> Result<Option<Arc<Person>>> {
        let mut holder = None;
        self.databases().database_rename_with(access, path, |catalog| {
            let mut edit = self.edit()?;
            // The path must not be read earlier: until the catalog is locked, another thread may rename the database.
            let old = mail_file_owner(&mut edit, &access.database().path())?;
            require_mail_file_free(&mut edit, path, old.as_deref())?;
            if let Some(person) = old {
                let person = Arc::new(Person { mail_file: path.to_owned(), ..person.as_ref().clone() });
                edit.save(&Record::Person(Arc::clone(&person)))?;
                holder = Some(person);
            }
            edit.add_to_batch(catalog)?;
            self.commit_durable(edit)
        })?;
        Ok(holder)
    }

    /// Creates a database that is not a mail file.
    ///
    /// Returns [`Error::AlreadyTaken`] if the path is a person's mail file, even if that mail file is not created yet.
    /// Otherwise the new database would be treated as the mail file, but it has no inbox and the person has no access
    /// to it.
    pub fn database_create(&self, new: &NewDatabase) -> Result<Arc<Database>> {
        require_mail_file_free(&mut self.edit()?, &new.path, None)?;
        let database = self.databases().database_create(new)?;
        // A person added meanwhile may have been given the path before the database existed.
        if let Err(error) = require_mail_file_free(&mut self.edit()?, &new.path, None) {
            let itself = Arc::new(Identity::local_server(self.options().server.clone()));
            self.databases().database_delete(&database.authorize(&itself)?)?;
            return Err(error);
        }
        Ok(database)
    }

    /// Changes a person. Either all changes are made or none.
    pub fn user_set(&self, login: &str, change: &PersonChange) -> Result<Arc<Person>> {
        let secrets = change.password.as_ref().map(|password| self.derive_secrets(password)).transpose()?;
        let mut edit = self.edit()?;
        let mut person = find_person(&mut edit, login)?;
        if secrets.is_some() {
            set_secrets(&mut person, secrets);
        }
        change_names(&mut person, change);
        change_addresses(&edit, &mut person, change)?;
        person.quota_bytes = change.quota_bytes.unwrap_or(person.quota_bytes);
        person.disabled = change.disabled.unwrap_or(person.disabled);
        if change.remove_second_factor {
            person.second_factor = None;
        }
        if let Some(forward) = &change.forward {
            person.forward.clone_from(forward);
        }
        self.save_person(edit, person)
    }

    /// Sets a person's password.
    pub fn password_set(&self, login: &str, password: &[u8]) -> Result<Arc<Person>> {
        let secrets = self.derive_secrets(password)?;
        let mut edit = self.edit()?;
        let mut person = find_person(&mut edit, login)?;
        set_secrets(&mut person, Some(secrets));
        self.save_person(edit, person)
    }

    /// Checks that a text may be a password, as [`Directory::password_set`] does.
    pub fn password_check(&self, password: &[u8]) -> Result<()> {
        Ok(password::check_new(password, &self.options().passwords)?)
    }

    /// Sets a person's password by its argon2 hash, if the password itself is unknown. Removes the SCRAM keys.
    pub fn password_hash_set(&self, login: &str, hash: &str) -> Result<Arc<Person>> {
        let secrets = secrets_from_hash(hash)?;
        let mut edit = self.edit()?;
        let mut person = find_person(&mut edit, login)?;
        set_secrets(&mut person, Some(secrets));
        self.save_person(edit, person)
    }

    /// Removes a person's password, so that the person cannot log in.
    pub fn password_remove(&self, login: &str) -> Result<Arc<Person>> {
        let mut edit = self.edit()?;
        let mut person = find_person(&mut edit, login)?;
        set_secrets(&mut person, None);
        self.save_person(edit, person)
    }

    /// Removes a person, also from the groups that list the person, and returns the person. The mail database is kept.
    pub fn user_remove(&self, login: &str) -> Result<Arc<Person>> {
        let mut edit = self.edit()?;
        let person = find_person(&mut edit, login)?;
        let record = Record::Person(Arc::new(person.clone()));
        require_unreferenced(&mut edit, &record)?;
        remove_from_groups(&mut edit, &record)?;
        edit.remove(person.note)?;
        self.commit_durable(edit)?;
        Ok(Arc::new(person))
    }

    fn derive_secrets(&self, password: &[u8]) -> Result<DerivedSecrets> {
        Ok(password::derive_secrets(password, &self.options().passwords, self.random())?)
    }

    pub(crate) fn save_person(&self, mut edit: DirectoryTransaction<'_>, person: Person) -> Result<Arc<Person>> {
        let person = Arc::new(person);
        edit.save(&Record::Person(Arc::clone(&person)))?;
        self.commit_durable(edit)?;
        Ok(person)
    }

    /// Creates a person from the given and derived values. The values are checked when the person is saved.
    fn new_person(&self, edit: &DirectoryTransaction<'_>, new: &NewUser) -> Result<Person> {
        let address = parse_address(&new.address)?;
        let short_name = match &new.short_name {
            Some(short_name) => short_name.clone(),
            None => choose_plain_name(edit, &fold(address.local()), &address)?,
        };
        let (name, other_names) = choose_names(edit, new, &address, &short_name)?;
        let mail_file = match &new.mail_file {
            Some(path) => path.clone(),
            None => self.choose_mail_file(edit, &short_name)?,
        };
        Ok(Person {
            note: NoteId(0),
            name,
            other_names,
            first_name: new.first_name.clone(),
            last_name: new.last_name.clone(),
            short_names: vec![short_name],
            addresses: Vec::new(),
            mail_file,
            mail_server: self.options().server.canonical().to_owned(),
            quota_bytes: new.quota_bytes,
            disabled: false,
            forward: new.forward.clone(),
            password_hash: None,
            scram: None,
            application_passwords: Vec::new(),
            unreadable_passwords: Vec::new(),
            second_factor: None,
        })
    }

    /// Returns a mail file path that belongs to no person and to no existing database, so that a new user never gets
    /// the mail of a former one.
    fn choose_mail_file(&self, edit: &DirectoryTransaction<'_>, short_name: &str) -> Result<String> {
        let letter = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
        let stem: String = fold(short_name).chars().map(letter).collect();
        let stem = stem.trim_start_matches('.');
        for number in 1..=MAIL_FILE_NUMBERS_MAX {
            let path = if number == 1 { format!("mail/{stem}.nsf") } else { format!("mail/{stem}-{number}.nsf") };
            if edit.is_free(&LookupKey::mail_file(&path))? && !self.databases().database_exists(&path)? {
                return Ok(path);
            }
        }
        Err(Error::Limit { quantity: "mail files with similar names", max: MAIL_FILE_NUMBERS_MAX as usize })
    }
}

/// Returns the person whose mail file has the given path, within an edit.
fn mail_file_owner(edit: &mut DirectoryTransaction<'_>, path: &str) -> Result<Option<Arc<Person>>> {
    Ok(match edit.find(&LookupKey::mail_file(path))? {
        Some(Record::Person(person)) => Some(person),
        _ => None,
    })
}

/// Returns [`Error::AlreadyTaken`] if a path is the mail file of a person other than `owner`, even if the mail file
/// does not exist yet.
fn require_mail_file_free(edit: &mut DirectoryTransaction<'_>, path: &str, owner: Option<&Person>) -> Result<()> {
    match mail_file_owner(edit, path)? {
        Some(holder) if owner.is_none_or(|owner| owner.note != holder.note) => {
            Err(Error::AlreadyTaken { object: LookupKey::mail_file(path).describe(), holder: holder.label() })
        }
        _ => Ok(()),
    }
}

/// Returns a name derived from a local part: the local part alone, or with the domain appended if it is taken.
pub(crate) fn choose_plain_name(edit: &DirectoryTransaction<'_>, local: &str, address: &Address) -> Result<String> {
    let alone = plain_name(local);
    if edit.is_free(&LookupKey::name(&alone))? {
        return Ok(alone);
    }
    Ok(plain_name(&format!("{local}.{}", address.domain())))
}

/// Returns the hierarchical name, and the common name as a second name if it is free.
fn choose_names(
    edit: &DirectoryTransaction<'_>,
    new: &NewUser,
    address: &Address,
    short: &str,
) -> Result<(Name, Vec<String>)> {
    if let Some(full_name) = &new.full_name {
        return Ok((Name::new(full_name), Vec::new()));
    }
    let called = format!("{} {}", new.first_name.trim(), new.last_name.trim()).replace(['/', '='], "-");
    let called = if called.trim().is_empty() { short } else { called.trim() };
    let name = |common: &str| Name::new(&format!("CN={common}/O={}", address.domain()));
    let mut chosen = name(called);
    if !edit.is_free(&LookupKey::name(chosen.canonical()))? {
        chosen = name(&format!("{called} ({short})"));
    }
    let common = LookupKey::name(called);
    let free = common != LookupKey::name(short) && edit.is_free(&common)?;
    Ok((chosen, if free { vec![called.to_owned()] } else { Vec::new() }))
}

/// Parses the addresses of a person or group. They must be valid and local; duplicates are dropped.
pub(crate) fn parse_addresses<'a>(
    edit: &DirectoryTransaction<'_>,
    texts: impl Iterator<Item = &'a String>,
) -> Result<Vec<Address>> {
    let mut addresses = Vec::new();
    for text in texts {
        let address = parse_address(text)?;
        edit.require_local(&address)?;
        push_address(&mut addresses, &address.to_string());
    }
    Ok(addresses)
}

/// Removes some addresses and adds others.
pub(crate) fn update_addresses(
    edit: &DirectoryTransaction<'_>,
    addresses: &mut Vec<Address>,
    (remove, add): (&[String], &[String]),
) -> Result<()> {
    for text in remove {
        let key = parse_address(text)?.key();
        let before = addresses.len();
        addresses.retain(|address| address.key() != key);
        if addresses.len() == before {
            return Err(Error::not_found(format!("address {text} of this entry")));
        }
    }
    for address in parse_addresses(edit, add.iter())? {
        push_address(addresses, &address.to_string());
    }
    Ok(())
}

/// Returns [`Error::Referenced`] if a person or group is the catch-all or postmaster of a domain.
pub(crate) fn require_unreferenced(edit: &mut DirectoryTransaction<'_>, record: &Record) -> Result<()> {
    let own = record.unique_keys();
    for note in edit.find_beginning(&LookupKey::of_kind(Kind::Domain.letter(), ""))? {
        let Some(Record::Domain(domain)) = edit.record(note)? else { continue };
        for (role, target) in [("catch-all", &domain.catch_all), ("postmaster", &domain.postmaster)] {
            let refers = target.as_ref().is_some_and(|target| own.contains(&LookupKey::address_or_name(target)));
            if refers {
                return Err(Error::Referenced { object: record.label(), role, holder: domain.label() });
            }
        }
    }
    Ok(())
}

/// Removes a person or group from the groups that list it.
pub(crate) fn remove_from_groups(edit: &mut DirectoryTransaction<'_>, record: &Record) -> Result<()> {
    let own = record.unique_keys();
    let mut groups = Vec::new();
    for key in &own {
        groups.extend(edit.notes_with_key(&LookupKey::membership(key))?);
    }
    groups.sort_unstable();
    groups.dedup();
    for note in groups.into_iter().filter(|note| *note != record.note()) {
        let Some(Record::Group(group)) = edit.record(note)? else { continue };
        let mut group = group.as_ref().clone();
        group.members.retain(|member| !own.contains(&LookupKey::address_or_name(member)));
        edit.save(&Record::Group(Arc::new(group)))?;
    }
    Ok(())
}

/// Parses an address. The error quotes the text.
pub(crate) fn parse_address(text: &str) -> Result<Address> {
    Address::parse(text.trim()).map_err(|reason| Error::address(text, reason))
}

pub(crate) fn find_person(edit: &mut DirectoryTransaction<'_>, login: &str) -> Result<Person> {
    match edit.find_named(login)? {
        Some(Record::Person(person)) => Ok(person.as_ref().clone()),
        _ => Err(Error::not_found(format!("user {login}"))),
    }
}

fn secrets_from_hash(hash: &str) -> Result<DerivedSecrets> {
    password::check_hash(hash)?;
    Ok(DerivedSecrets { hash: hash.to_owned(), scram: None })
}

/// Sets the password of a person, and revokes the application passwords: a user who changes it wants others out.
fn set_secrets(person: &mut Person, secrets: Option<DerivedSecrets>) {
    person.application_passwords.clear();
    person.unreadable_passwords.clear();
    let (hash, scram) = secrets.map_or((None, None), |secrets| (Some(secrets.hash), secrets.scram));
    person.password_hash = hash;
    person.scram = scram;
}

fn change_names(person: &mut Person, change: &PersonChange) {
    if let Some(first_name) = &change.first_name {
        person.first_name.clone_from(first_name);
    }
    if let Some(last_name) = &change.last_name {
        person.last_name.clone_from(last_name);
    }
    let removed =
        |name: &String| change.short_names_remove.iter().any(|gone| LookupKey::name(gone) == LookupKey::name(name));
    person.short_names.retain(|name| !removed(name));
    for name in &change.short_names_add {
        if !person.short_names.iter().any(|known| LookupKey::name(known) == LookupKey::name(name)) {
            person.short_names.push(name.clone());
        }
    }
}

fn change_addresses(edit: &DirectoryTransaction<'_>, person: &mut Person, change: &PersonChange) -> Result<()> {
    update_addresses(edit, &mut person.addresses, (&change.addresses_remove, &change.addresses_add))?;
    if let Some(primary) = &change.primary_address {
        let primary = parse_addresses(edit, std::iter::once(primary))?;
        let rest = std::mem::replace(&mut person.addresses, primary);
        rest.iter().for_each(|address| push_address(&mut person.addresses, &address.to_string()));
    }
    Ok(())
}
