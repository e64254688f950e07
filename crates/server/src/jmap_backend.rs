//! The accounts of JMAP over the directory: the mail file of a person, those that other people have opened to it, and
//! the addresses under which the person sends. Also the uploads of the data folder.
//!
//! The identifier of an account is made from the replica id of its mail file, so it is the same on all servers with a
//! replica, and stays the same if the mail file gets another path. A mail file of another person is an account if its
//! access control list gives at least Reader ([`SharedMailFiles`]). If there are more than [`SHARED_ACCOUNTS_MAX`], the
//! later ones are not listed.

use std::collections::HashSet;
use std::sync::Arc;

use base::{ReplicaId, Timestamp};
use directory::{Directory, Person};
use instance::Instance;
use instance::full_text::FullTextService;
use jmap::backend::{AccountRights, IdentityInfo};
use jmap::push_subscriptions::APPLICATION_PASSWORD_PREFIX;
use jmap::uploads::Uploads;
use jmap::{AccountInfo, Accounts, Caller};
use mail::mailbox::{MailFile, MailStore};
use notes::{Access, Database, DatabaseKind, Identity, level};
use sasl::{ApplicationPasswordId, LoginError};
use search::FullTextIndex;

use crate::limits::SHARED_ACCOUNTS_MAX;
use crate::logins::{Logins, within_scope};
use crate::principal_list::principal_id;
use crate::session_registry::is_factor_proved;
use crate::shared_mail_files::SharedMailFiles;

/// Opens the uploads of JMAP of a data folder. A running server opens them once, because it has their descriptions in
/// memory.
pub fn open_uploads(instance: &Instance) -> notes::Result<Arc<Uploads>> {
    let sources = (Arc::clone(&instance.clock), Arc::clone(&instance.random));
    Uploads::open(&instance.databases, &instance.directory.options().server, sources)
}

/// The accounts of JMAP.
pub struct ServerJmapAccounts {
    /// The directory.
    pub directory: Arc<Directory>,
    /// Opens the mail files of their owners.
    pub logins: Arc<Logins>,
    /// The mail files.
    pub mail: Arc<MailStore>,
    /// Finds the mail files of other people.
    pub shared: SharedMailFiles,
    /// The full-text index.
    pub full_text: Arc<FullTextService>,
}

impl ServerJmapAccounts {
    /// Returns the person who makes a request, and its identity.
    fn person(&self, caller: &Caller) -> mail::Result<Option<(Arc<Person>, Arc<Identity>)>> {
        let failed = |error: directory::Error| unavailable("directory", &error);
        let Some(person) = self.directory.active_person(&caller.login).map_err(failed)? else { return Ok(None) };
        let identity = self.directory.identity(&person).map_err(failed)?;
        Ok(Some((person, within_scope(identity, caller.scope))))
    }

    /// Opens the mail file of a person. Returns `None` for somebody without one on this server.
    fn own(&self, person: &Person, identity: &Arc<Identity>) -> mail::Result<Option<(AccountInfo, MailFile)>> {
        let file = match self.logins.open_for(identity) {
            Ok(file) => file,
            Err(LoginError::Unavailable) => return Err(unavailable("mail file", &"see above")),
            Err(_) => return Ok(None),
        };
        let grant = file.depositor().grant()?;
        let info = AccountInfo {
            id: account_id(file.database()),
            name: name_of(person),
            is_personal: true,
            rights: AccountRights::of(&grant),
            owner: self.principal_id(person)?,
        };
        Ok(Some((info, file)))
    }

    /// Returns the mail files of other people that are open to an identity.
    fn shared(&self, identity: &Arc<Identity>, own: Option<&str>) -> mail::Result<Vec<AccountInfo>> {
        let mut known: HashSet<String> = own.map(str::to_owned).into_iter().collect();
        let mut found = Vec::new();
        for number in self.shared.candidates(identity)? {
            if found.len() >= SHARED_ACCOUNTS_MAX {
                break;
            }
            let Some(database) = self.mail.databases().database_open_number(number)? else { continue };
            let info = self.shared_account(&database, identity)?;
            found.extend(info.filter(|info| known.insert(info.id.clone())));
        }
        Ok(found)
    }

    /// Describes the mail file of another person. Returns `None` if it is not open to an identity.
    fn shared_account(&self, database: &Arc<Database>, identity: &Arc<Identity>) -> mail::Result<Option<AccountInfo>> {
        let access: Access<level::Reader> = match database.authorize(identity) {
            Err(notes::Error::AccessDenied { .. }) => return Ok(None),
            other => other?,
        };
        let grant = access.grant()?;
        let record = database.record();
        let owner = self.directory.mail_file_holder(&record.path).map_err(|error| unavailable("directory", &error))?;
        Ok(Some(AccountInfo {
            id: account_id(database),
            name: owner.as_ref().map_or_else(|| record.title.clone(), |owner| name_of(owner)),
            is_personal: false,
            rights: AccountRights::of(&grant),
            owner: owner.map(|owner| self.principal_id(&owner)).transpose()?.flatten(),
        }))
    }

    /// Returns the second factor that the session of a caller has proved.
    fn proved_factor(&self, caller: &Caller) -> Option<Timestamp> {
        let own = self.logins.sessions().list(Some(&caller.login));
        own.into_iter().find(|session| session.id.name() == caller.credential)?.login.factor
    }

    fn principal_id(&self, person: &Person) -> mail::Result<Option<String>> {
        let found = self.directory.unids(&[person.note]).map_err(|error| unavailable("directory", &error))?;
        Ok(found.first().map(|(_, unid)| principal_id(*unid)))
    }
}

impl Accounts for ServerJmapAccounts {
    fn accounts(&self, caller: &Caller) -> mail::Result<Vec<AccountInfo>> {
        let Some((person, identity)) = self.person(caller)? else { return Ok(Vec::new()) };
        let own = self.own(&person, &identity)?.map(|(info, _)| info);
        let shared = self.shared(&identity, own.as_ref().map(|own| own.id.as_str()))?;
        Ok(own.into_iter().chain(shared).collect())
    }

    fn open(&self, caller: &Caller, account: &str) -> mail::Result<Option<(AccountInfo, MailFile)>> {
        let Some((person, identity)) = self.person(caller)? else { return Ok(None) };
        let own = self.own(&person, &identity)?;
        if let Some(own) = own.filter(|(info, _)| info.id == account) {
            return Ok(Some(own));
        }
        let Some(replica) = replica_id(account) else { return Ok(None) };
        let opened = self.mail.databases().database_open_replica(replica)?;
        let Some(database) = opened.filter(|database| database.record().kind == DatabaseKind::Mail) else {
            return Ok(None);
        };
        let Some(info) = self.shared_account(&database, &identity)? else { return Ok(None) };
        Ok(Some((info, self.mail.open(&database.path(), &identity)?)))
    }

    fn identities(&self, caller: &Caller) -> mail::Result<Vec<IdentityInfo>> {
        let Some((person, _)) = self.person(caller)? else { return Ok(Vec::new()) };
        let name = person.display_name();
        Ok(person.addresses.iter().map(|address| IdentityInfo::of_address(&name, &address.to_string())).collect())
    }

    fn password_stamp(&self, caller: &Caller) -> mail::Result<Option<u64>> {
        let Some((person, _)) = self.person(caller)? else { return Ok(None) };
        let is_valid = match caller.credential.strip_prefix(APPLICATION_PASSWORD_PREFIX) {
            Some(id) => ApplicationPasswordId::parse(id).is_some_and(|id| person.application_password(id).is_some()),
            None => person.second_factor().is_none() || is_factor_proved(&person, self.proved_factor(caller)),
        };
        Ok(is_valid.then(|| person.password_stamp()))
    }

    fn full_text(&self) -> search::Result<Option<Arc<FullTextIndex>>> {
        self.full_text.open_existing()
    }
}

fn account_id(database: &Database) -> String {
    format!("A{:016x}", database.record().replica_id.0)
}

/// Returns the replica id in the identifier of an account.
fn replica_id(account: &str) -> Option<ReplicaId> {
    let digits = account.strip_prefix('A')?;
    let is_form = digits.len() == 16 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_form.then(|| u64::from_str_radix(digits, 16).ok().map(ReplicaId)).flatten()
}

fn name_of(person: &Person) -> String {
    person.address().map_or_else(|| person.display_name(), ToString::to_string)
}

/// Logs why the accounts cannot be read, and returns the error for the caller.
fn unavailable(what: &'static str, error: &dyn std::fmt::Display) -> mail::Error {
    tracing::error!(target: "jmap", %error, "the {what} cannot be read");
    mail::Error::Unavailable(what)
}
