//! The implementation of the calls, one file per topic. All functions here may block and run on a worker.

use std::sync::Arc;

use base::{NoteId, Pacer, ReplicaId, Unpaced};
use directory::Person;
use notes::{Access, AtLeast, Database, DatabaseKind, DatabaseSnapshot, Identity, Level, NoteHeader, Writer, level};
use proto::v1;
use proto::v1::database_key::Key;
use sasl::LoginScope;

use crate::admission::Caller;
use crate::convert::{self, NoteKey};
use crate::error::{Error, Result};
use crate::service::CallOutcome;
use crate::service::Services;
use crate::session::{SessionOwner, Sessions};

pub(crate) mod acl;
pub(crate) mod attachment;
pub(crate) mod certificate;
pub(crate) mod change;
pub(crate) mod database;
pub(crate) mod deleted;
pub(crate) mod deposit;
pub(crate) mod design;
pub(crate) mod edit;
pub(crate) mod folder;
pub(crate) mod full_text;
pub(crate) mod local_replica;
pub(crate) mod names;
pub(crate) mod note;
pub(crate) mod note_change;
pub(crate) mod profile;
pub(crate) mod replication;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod unread;
pub(crate) mod view;

/// The context of a call: the services, the sessions and the caller.
pub(crate) struct CallContext {
    pub services: Arc<Services>,
    pub sessions: Arc<Sessions>,
    pub caller: Caller,
    /// The pacer of a call whose work may be divided into several jobs.
    pacer: Arc<dyn Pacer>,
}

impl CallContext {
    pub(crate) fn new(services: Arc<Services>, sessions: Arc<Sessions>, caller: Caller) -> Self {
        Self { services, sessions, caller, pacer: Arc::new(Unpaced) }
    }

    /// Returns the context of a call whose work may be divided.
    pub(crate) fn paced(self, pacer: Arc<dyn Pacer>) -> Self {
        Self { pacer, ..self }
    }

    /// Returns the pacer of the call.
    pub(crate) fn pacer(&self) -> &Arc<dyn Pacer> {
        &self.pacer
    }

    /// Counts steps of the call. It must have changed nothing yet, because the call may be repeated.
    pub(crate) fn spend(&self, steps: u64) -> Result<()> {
        Ok(self.pacer.spend(steps).map_err(notes::Error::from)?)
    }

    /// Takes a snapshot of a database. Long reads are divided if the call may be.
    pub(crate) fn read<'a, L: AtLeast<level::Reader>>(&self, access: &'a Access<L>) -> Result<DatabaseSnapshot<'a>> {
        Ok(access.read()?.paced(Arc::clone(&self.pacer)))
    }

    /// Returns the calling person as the directory knows them, or `None` if the caller is a server or works on a local
    /// store. Returns [`Error::NoSession`] if the person no
    /// longer exists or may no longer log in.
    pub(crate) fn person(&self) -> Result<Option<Arc<Person>>> {
        let SessionOwner::Person(login) = &self.caller.session()?.owner else { return Ok(None) };
        let person = self.services.directory.active_person(login)?.ok_or(Error::NoSession)?;
        Ok(Some(person))
    }

    /// Returns the caller's identity for ACL checks, with the current group memberships.
    pub(crate) fn identity(&self) -> Result<Arc<Identity>> {
        if let Some(person) = self.person()? {
            let identity = self.services.directory.identity(&person)?;
            return Ok(match self.caller.session()?.scope {
                LoginScope::All => identity,
                LoginScope::Reading => Arc::new(identity.as_ref().clone().reading_only()),
            });
        }
        let session = self.caller.session()?;
        match &session.owner {
            SessionOwner::Server(name) => {
                let presented = &session.certificate.as_ref().ok_or(Error::NoSession)?.issued;
                match self.services.directory.server_exclusion(name, presented)? {
                    Some(exclusion) => Err(Error::ExcludedServer(exclusion.describe(name))),
                    None => Ok(self.services.directory.server_identity(name)?),
                }
            }
            SessionOwner::LocalPerson(_) => self.services.local_person.clone().ok_or(Error::NoSession),
            SessionOwner::Person(_) => Err(Error::NoSession),
        }
    }

    /// Opens the database named in a request. Returns an error if the caller does not have the access level `L`.
    ///
    /// To a caller without any access, the answer is that of a missing database, so that nobody finds out by trying
    /// which databases exist.
    pub(crate) fn access<L: Level>(&self, key: Option<v1::DatabaseKey>) -> Result<Access<L>> {
        let identity = self.identity()?;
        let key = key.and_then(|key| key.key).ok_or_else(|| Error::invalid("no database specified"))?;
        let database = self.database(&key)?;
        match database.authorize(&identity) {
            Err(notes::Error::AccessDenied { .. }) if !has_any_access(&database, &identity) => Err(no_database(&key)),
            outcome => Ok(outcome?),
        }
    }

    /// Opens a database, whatever the rights of the caller.
    fn database(&self, key: &Key) -> Result<Arc<Database>> {
        let opened = match key {
            Key::Path(path) => self.services.databases.database_open(path),
            Key::ReplicaId(id) => {
                let id = ReplicaId::from_text(id).ok_or_else(|| no_database(key))?;
                let opened = self.services.databases.database_open_replica(id);
                return opened?.ok_or_else(|| no_database(key));
            }
        };
        opened.map_err(|error| match error {
            notes::Error::NotFound { .. } => no_database(key),
            error => error.into(),
        })
    }

    /// Opens a database as `access` does, for changes. The directory, the log and mail.box databases are refused,
    /// because only administration may change them.
    pub(crate) fn access_for_change<L: Level>(&self, key: Option<v1::DatabaseKey>) -> Result<Access<L>> {
        let access = self.access(key)?;
        let record = access.database().record();
        match record.kind {
            DatabaseKind::Standard | DatabaseKind::Mail => Ok(access),
            DatabaseKind::Directory
            | DatabaseKind::MailBox
            | DatabaseKind::Log
            | DatabaseKind::Sessions
            | DatabaseKind::Uploads => Err(Error::State(format!(
                "{} is a {} database: it can only be changed with administration commands",
                record.path,
                record.kind.name()
            ))),
        }
    }

    /// Applies changes in one transaction. The reply is sent when the transaction is durable. If `change` fails,
    /// nothing is changed.
    pub(crate) fn write<L: AtLeast<level::Depositor>, R>(
        &self,
        access: &Access<L>,
        change: impl FnOnce(&mut Writer<'_, '_>) -> Result<R>,
    ) -> Result<CallOutcome<R>> {
        let lower = access.downgrade::<level::Depositor>();
        let accesses = [&lower];
        let mut transaction = self.services.databases.transaction(&accesses)?;
        let reply = change(&mut transaction.writer(0))?;
        Ok(CallOutcome::when_durable(reply, transaction.commit()?))
    }
}

/// Returns `true` if an identity has at least the level Depositor in a database, or may read or write public documents.
fn has_any_access(database: &Arc<Database>, identity: &Arc<Identity>) -> bool {
    database.authorize::<level::Depositor>(identity).is_ok() || database.authorize::<level::Public>(identity).is_ok()
}

/// Creates the error for a database that does not exist, or to which the caller has no access. It names the database as
/// the request does.
fn no_database(key: &Key) -> Error {
    Error::NoDatabase(match key {
        Key::Path(path) => format!("database {path}"),
        Key::ReplicaId(id) => format!("the database with the replica id {id:?}"),
    })
}

/// Finds the note named in a request. Returns an error if it does not exist or the caller may not read it.
pub(crate) fn find(reading: &DatabaseSnapshot<'_>, key: Option<v1::NoteKey>) -> Result<NoteId> {
    find_named(reading, convert::note_name(key)?)?.ok_or_else(|| notes::Error::not_found("the note").into())
}

/// Finds a note. Returns `None` if it does not exist or the caller may not read it.
pub(crate) fn find_named(reading: &DatabaseSnapshot<'_>, name: NoteKey) -> Result<Option<NoteId>> {
    Ok(header_of(reading, name)?.filter(|header| !header.is_stub()).map(|header| header.note))
}

/// Returns the header of a note, including deletion stubs. Returns `None` if it does not exist or the caller may not
/// read it.
pub(crate) fn header_of(reading: &DatabaseSnapshot<'_>, name: NoteKey) -> Result<Option<NoteHeader>> {
    let note = match name {
        NoteKey::Number(note) => Some(note),
        NoteKey::Unid(unid) => reading.find(unid)?,
    };
    match note {
        Some(note) => Ok(reading.header(note)?),
        None => Ok(None),
    }
}

/// Returns an error if `count` exceeds `max`.
pub(crate) fn check_count(count: usize, what: &'static str, max: usize) -> Result<()> {
    if count > max { Err(Error::Limit { what, max: max as u64 }) } else { Ok(()) }
}
