//! The directory of a server: opening it, and lookups.
//!
//! A [`Directory`] is shared by all sessions. Lookups go through the name lookup cache and read one snapshot each;
//! changes take the lock of `names.nsf`. All methods are blocking code for the worker threads. A change is durable on
//! return.
//!
//! Opening creates missing parts: the database, the index, the note of this server, and the secret from which salts for
//! unknown accounts are derived.

use std::sync::Arc;

use base::{Clock, Name, Random, ViewId};
use base64ct::{Base64, Encoding};
use notes::{
    Access, Acl, AclEntry, AclKind, AclLevel, Database, DatabaseKind, DatabaseSnapshot, Databases, Identity,
    NewDatabase, Transaction, level,
};
use store::Store;

use crate::address::{Address, domain_to_ascii};
use crate::cache::{CacheStatistics, Generation, MemorySize, NameCache};
use crate::domain::Domain;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::identity::ServerExclusion;
use crate::index::{self, IndexReader};
use crate::key::LookupKey;
use crate::limits::{CATCH_UP_TRIES_MAX, LOGIN_BYTES_MAX, NAME_CACHE_BYTES_DEFAULT, PAGE_ENTRIES_MAX};
use crate::login::LoginState;
use crate::person::Person;
use crate::record::{Kind, Record};
use crate::settings::{ServerDocument, SettingsDocument};
use crate::transaction::DirectoryTransaction;
use crate::{expansion, password, password_cache, throttle};

/// Path of the directory database.
pub const DATABASE_PATH: &str = "names.nsf";

/// Subject of the settings note that holds the secret for the salts of unknown accounts.
const SECURITY_SUBJECT: &str = "Security";
const SCRAM_SECRET: &str = "ScramSecret";

/// Options of a directory.
#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    /// Name of this server, such as `hub/Acme`.
    pub server: Name,
    /// Cost of password hashing and rules for new passwords.
    pub passwords: password::PasswordHashOptions,
    /// Limits that slow down password guessing.
    pub throttle: throttle::ThrottleOptions,
    /// Retention of verified passwords.
    pub verified: password_cache::PasswordCacheOptions,
    /// Maximum size of the name lookup cache in bytes.
    pub cache_bytes: u64,
    /// Limits of group expansion.
    pub expansion: expansion::ExpansionLimits,
}

impl DirectoryOptions {
    /// Creates the default options for a server with the given name.
    #[must_use]
    pub fn new(server: impl Into<Name>) -> Self {
        Self {
            server: server.into(),
            passwords: password::PasswordHashOptions::default(),
            throttle: throttle::ThrottleOptions::default(),
            verified: password_cache::PasswordCacheOptions::default(),
            cache_bytes: NAME_CACHE_BYTES_DEFAULT,
            expansion: expansion::ExpansionLimits::default(),
        }
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListPage<T> {
    /// Number of entries in the whole list.
    pub total: u64,
    /// Entries of this page.
    pub entries: Vec<T>,
}

/// A cached lookup result.
#[derive(Debug, Clone)]
pub(crate) enum CachedLookup {
    NotFound,
    Record(Record),
    Identity(Arc<Identity>),
    DenyList(Name),
    Exclusion(ServerExclusion),
    DomainNames(Arc<[String]>),
}

impl MemorySize for CachedLookup {
    fn bytes(&self) -> usize {
        let heap = match self {
            Self::NotFound => 0,
            Self::Record(Record::Person(person)) => person.bytes(),
            Self::Record(Record::Group(group)) => group.bytes(),
            Self::Record(Record::Domain(domain)) => domain.bytes(),
            Self::Record(Record::Settings(settings)) => settings.bytes(),
            Self::Record(Record::Server(server)) => server.bytes(),
            Self::Record(Record::Connection(connection)) => connection.bytes(),
            Self::DenyList(name) | Self::Exclusion(ServerExclusion::DenyList(name)) => name.canonical().len(),
            Self::Exclusion(_) => 0,
            Self::DomainNames(names) => names.iter().map(|name| name.len() + size_of::<String>()).sum(),
            Self::Identity(identity) => {
                let names = identity.aliases.iter().chain(&identity.groups).chain(Some(&identity.name));
                size_of::<Identity>() + names.map(|name| name.canonical().len() + size_of::<Name>()).sum::<usize>()
            }
        };
        size_of::<Self>() + heap
    }
}

/// The directory of a server.
pub struct Directory {
    pub(crate) databases: Arc<Databases>,
    reader: Access<level::Manager>,
    writer: Access<level::Depositor>,
    view: ViewId,
    options: DirectoryOptions,
    cache: NameCache<CachedLookup>,
    credentials: LoginState,
}

impl Directory {
    /// Opens the directory of a server. Creates it if it does not exist.
    pub fn open(databases: &Arc<Databases>, options: DirectoryOptions, clock: &Arc<dyn Clock>) -> Result<Self> {
        let database = open_database(databases, &options.server)?;
        let identity = Arc::new(Identity::local_server(options.server.clone()));
        let reader: Access<level::Manager> = database.authorize(&identity)?;
        let writer = reader.downgrade();
        let view = open_view(databases, &reader, &writer)?;
        let credentials = LoginState::new(&options, clock, databases.random())?;
        let cache = NameCache::new(options.cache_bytes);
        let mut directory =
            Self { databases: Arc::clone(databases), reader, writer, view, options, cache, credentials };
        directory.ensure_server()?;
        let secret = directory.ensure_scram_secret()?;
        directory.credentials.set_scram_secret(secret);
        Ok(directory)
    }

    /// Returns the generation of the directory, a number that every change increases. A result is current as long as
    /// the generation equals the one that was read before the lookup.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.database().modseq().0
    }

    /// Returns the person with the given login name, name or address.
    pub fn person(&self, login_or_address: &str) -> Result<Option<Arc<Person>>> {
        if login_or_address.len() > LOGIN_BYTES_MAX {
            return Ok(None);
        }
        let found = match Address::parse(login_or_address.trim()) {
            Ok(address) => self.find_by_address(&address)?,
            Err(_) => self.find(&LookupKey::name(login_or_address))?,
        };
        Ok(match found {
            Some(Record::Person(person)) => Some(person),
            _ => None,
        })
    }

    /// Returns the group with the given name or address.
    pub fn group(&self, name_or_address: &str) -> Result<Option<Arc<Group>>> {
        let found = match Address::parse(name_or_address.trim()) {
            Ok(address) => self.find_by_address(&address)?,
            Err(_) => self.find(&LookupKey::name(name_or_address))?,
        };
        Ok(match found {
            Some(Record::Group(group)) => Some(group),
            _ => None,
        })
    }

    /// Returns the local domain with the given name or alias.
    pub fn domain(&self, name: &str) -> Result<Option<Arc<Domain>>> {
        let Ok(name) = domain_to_ascii(name) else { return Ok(None) };
        Ok(match self.find(&LookupKey::domain(&name))? {
            Some(Record::Domain(domain)) => Some(domain),
            _ => None,
        })
    }

    /// Returns `true` if mail for a domain is delivered on this server.
    pub fn domain_is_local(&self, name: &str) -> Result<bool> {
        Ok(self.domain(name)?.is_some())
    }

    /// Returns a page of the people, in the order of their addresses.
    pub fn users(&self, position: u64, limit: usize) -> Result<ListPage<Arc<Person>>> {
        self.page(Kind::Person, position, limit, |record| match record {
            Record::Person(person) => Some(person),
            _ => None,
        })
    }

    /// Returns a page of the groups, in the order of their addresses or names.
    pub fn groups(&self, position: u64, limit: usize) -> Result<ListPage<Arc<Group>>> {
        self.page(Kind::Group, position, limit, |record| match record {
            Record::Group(group) => Some(group),
            _ => None,
        })
    }

    /// Returns a page of the local domains, in the order of their names.
    pub fn domains(&self, position: u64, limit: usize) -> Result<ListPage<Arc<Domain>>> {
        self.page(Kind::Domain, position, limit, |record| match record {
            Record::Domain(domain) => Some(domain),
            _ => None,
        })
    }

    /// Returns a page of the servers, in the order of their names.
    pub fn servers(&self, position: u64, limit: usize) -> Result<ListPage<Arc<ServerDocument>>> {
        self.page(Kind::Server, position, limit, |record| match record {
            Record::Server(server) => Some(server),
            _ => None,
        })
    }

    /// Returns the settings of a subject.
    pub fn settings(&self, subject: &str) -> Result<Option<Arc<SettingsDocument>>> {
        Ok(match self.find(&LookupKey::settings(subject))? {
            Some(Record::Settings(settings)) => Some(settings),
            _ => None,
        })
    }

    /// Sets a value in the settings of a subject, or removes it if `value` is `None`.
    pub fn settings_set(&self, subject: &str, name: &str, value: Option<&str>) -> Result<()> {
        crate::person::check_name(name)?;
        let mut edit = self.edit()?;
        let mut settings = match edit.find(&LookupKey::settings(subject))? {
            Some(Record::Settings(settings)) => settings.as_ref().clone(),
            _ => SettingsDocument { note: base::NoteId(0), subject: subject.to_owned(), values: Vec::new() },
        };
        settings.set(name, value);
        edit.save(&Record::Settings(Arc::new(settings)))?;
        self.commit_durable(edit)
    }

    /// Returns the statistics of the name lookup cache.
    pub fn cache_statistics(&self) -> CacheStatistics {
        self.cache.statistics()
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &DirectoryOptions {
        &self.options
    }

    /// Returns the directory database.
    #[must_use]
    pub fn database(&self) -> &Arc<Database> {
        self.reader.database()
    }

    /// Rebuilds the index from the notes, for repair.
    pub fn index_rebuild(&self) -> Result<()> {
        let mut transaction = self.transaction()?;
        index::remove(&mut transaction, self.view)?;
        transaction.commit()?;
        self.catch_up()
    }

    pub(crate) fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    pub(crate) fn store(&self) -> &Store {
        self.databases.store()
    }

    pub(crate) fn view(&self) -> ViewId {
        self.view
    }

    pub(crate) fn credentials(&self) -> &LoginState {
        &self.credentials
    }

    pub(crate) fn read(&self) -> Result<DatabaseSnapshot<'_>> {
        Ok(self.reader.read()?)
    }

    pub(crate) fn transaction(&self) -> Result<Transaction<'_>> {
        Ok(self.databases.transaction(&[&self.writer])?)
    }

    pub(crate) fn edit(&self) -> Result<DirectoryTransaction<'_>> {
        DirectoryTransaction::begin(self)
    }

    /// Commits a change and waits until it is durable.
    pub(crate) fn commit_durable(&self, edit: DirectoryTransaction<'_>) -> Result<()> {
        let ticket = edit.commit()?;
        Ok(self.store().durable(ticket).wait()?)
    }

    /// Returns the record of the first note with a key, through the cache.
    pub(crate) fn find(&self, key: &LookupKey) -> Result<Option<Record>> {
        let load = || {
            let found = self.with_current_index(|lookup| lookup.first(key))?;
            Ok::<_, Error>(found.map_or(CachedLookup::NotFound, CachedLookup::Record))
        };
        Ok(match self.cached_or_load(key.text(), load)? {
            CachedLookup::Record(record) => Some(record),
            _ => None,
        })
    }

    /// Returns the cached value of a text. Loads and caches it on a miss.
    pub(crate) fn cached_or_load(
        &self,
        text: &str,
        load: impl FnOnce() -> Result<CachedLookup>,
    ) -> Result<CachedLookup> {
        self.cache.get(text, || self.generation(), load)
    }

    /// Returns the cached values of several keys, all from one state of the directory. Loads nothing.
    pub(crate) fn cached_values<const N: usize>(&self, keys: [&LookupKey; N]) -> [Option<CachedLookup>; N] {
        let generation = Generation::before_snapshot(self.generation());
        keys.map(|key| self.cache.find(key.text(), generation))
    }

    /// Returns the record with an address. If the address has none and its domain is an alias, looks up the address in
    /// the main domain.
    pub(crate) fn find_by_address(&self, address: &Address) -> Result<Option<Record>> {
        if let Some(found) = self.find(&LookupKey::address(address))? {
            return Ok(Some(found));
        }
        match self.domain(address.domain())? {
            Some(domain) if domain.name != address.domain() => {
                self.find(&LookupKey::address(&address.in_domain(&domain.name)))
            }
            _ => Ok(None),
        }
    }

    /// Calls `read` with a snapshot whose index is up to date.
    ///
    /// If other writers keep changing the database, the index is brought up to date at most `CATCH_UP_TRIES_MAX` times;
    /// after that it may lack the latest changes.
    pub(crate) fn with_current_index<T>(&self, read: impl Fn(&IndexReader<'_>) -> Result<T>) -> Result<T> {
        for _ in 0..CATCH_UP_TRIES_MAX {
            let reading = self.read()?;
            let lookup = IndexReader::open(&reading, self.view)?;
            if lookup.is_current() {
                return read(&lookup);
            }
            self.catch_up()?;
        }
        // Other writers keep changing the database. The index lacks only changes made during this loop.
        let reading = self.read()?;
        read(&IndexReader::open(&reading, self.view)?)
    }

    fn catch_up(&self) -> Result<()> {
        self.edit()?.commit().map(drop)
    }

    pub(crate) fn page<T>(
        &self,
        kind: Kind,
        position: u64,
        limit: usize,
        pick: impl Fn(Record) -> Option<T>,
    ) -> Result<ListPage<T>> {
        let list = LookupKey::of_kind(kind.letter(), "");
        self.with_current_index(|lookup| {
            let total = lookup.count_prefix(&list)?;
            let mut entries = Vec::new();
            for note in lookup.page_prefix(&list, position, limit.min(PAGE_ENTRIES_MAX))? {
                entries.extend(lookup.record(note)?.and_then(&pick));
            }
            Ok(ListPage { total, entries })
        })
    }

    fn ensure_server(&self) -> Result<()> {
        let key = LookupKey::name(self.options.server.canonical());
        if self.options.server.is_empty() || self.find(&key)?.is_some() {
            return Ok(());
        }
        let mut edit = self.edit()?;
        let server = ServerDocument::new(self.options.server.clone());
        edit.save(&Record::Server(Arc::new(server)))?;
        self.commit_durable(edit)
    }

    fn ensure_scram_secret(&self) -> Result<[u8; 32]> {
        let settings = self.settings(SECURITY_SUBJECT)?;
        let stored = settings.as_ref().and_then(|settings| settings.value(SCRAM_SECRET));
        let decoded = stored.and_then(|text| Base64::decode_vec(text).ok()).and_then(|bytes| bytes.try_into().ok());
        if let Some(secret) = decoded {
            return Ok(secret);
        }
        let mut secret = [0; 32];
        self.random().fill(&mut secret);
        self.settings_set(SECURITY_SUBJECT, SCRAM_SECRET, Some(&Base64::encode_string(&secret)))?;
        Ok(secret)
    }

    pub(crate) fn random(&self) -> &dyn Random {
        self.databases.random()
    }
}

fn open_database(databases: &Databases, server: &Name) -> Result<Arc<Database>> {
    match databases.database_open(DATABASE_PATH) {
        Err(notes::Error::NotFound { .. }) => {}
        opened => {
            let database = opened?;
            check_is_directory(&database)?;
            return Ok(database);
        }
    }
    let mut acl = Acl::open_to_all(AclLevel::NoAccess);
    if !server.is_empty() {
        acl.entries.push(AclEntry { kind: AclKind::Server, ..AclEntry::new(server.canonical(), AclLevel::Manager) });
    }
    let acl = acl.with_domain_servers();
    let new = NewDatabase::new(DATABASE_PATH, "Directory", DatabaseKind::Directory, acl);
    Ok(databases.database_create(&new)?)
}

/// Checks that the database at the path of the directory is one. The managers of another one would decide who may log
/// in.
fn check_is_directory(database: &Database) -> Result<()> {
    let kind = database.record().kind;
    if kind == DatabaseKind::Directory {
        return Ok(());
    }
    let reason = format!(
        "it is a {} database, but its path belongs to the directory; restore a backup in which it is the directory",
        kind.name()
    );
    Err(notes::Error::invalid(format!("database {}", database.path()), reason).into())
}

fn open_view(
    databases: &Databases,
    reader: &Access<level::Manager>,
    writer: &Access<level::Depositor>,
) -> Result<ViewId> {
    if let Some(view) = index::find_view(&reader.read()?)? {
        return Ok(view);
    }
    let accesses = [writer];
    let mut transaction = databases.transaction(&accesses)?;
    let note = transaction.writer(0).note_create(index::design_note())?;
    let ticket = transaction.commit()?;
    databases.store().durable(ticket).wait()?;
    Ok(ViewId(note.0))
}
