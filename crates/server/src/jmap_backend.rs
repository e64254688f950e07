//! The accounts of JMAP over the directory: the mail file of a person, and the addresses under which the person sends.
//!
//! The identifier of an account is made from the replica id of its mail file, so it is the same on all servers with a
//! replica, and stays the same if the mail file gets another path.
//!
//! Not included: mail files of other people. Their owners' access control lists may permit it, but nothing lists them.

use std::sync::Arc;

use directory::{Directory, Person};
use instance::full_text::FullTextService;
use jmap::backend::IdentityInfo;
use jmap::push_subscriptions::APPLICATION_PASSWORD_PREFIX;
use jmap::{AccountInfo, Accounts, Caller};
use mail::mailbox::MailFile;
use sasl::{ApplicationPasswordId, LoginError};
use search::FullTextIndex;

use crate::logins::Logins;

/// The accounts of JMAP.
pub struct ServerJmapAccounts {
    /// The directory.
    pub directory: Arc<Directory>,
    /// Opens mail files.
    pub logins: Arc<Logins>,
    /// The full-text index.
    pub full_text: Arc<FullTextService>,
}

impl ServerJmapAccounts {
    fn person(&self, caller: &Caller) -> mail::Result<Option<Arc<Person>>> {
        self.directory.active_person(&caller.login).map_err(|error| unavailable("directory", &error))
    }

    /// Opens the mail file of a person. Returns `None` for somebody without one on this server.
    fn own(&self, caller: &Caller) -> mail::Result<Option<(AccountInfo, MailFile)>> {
        let Some(person) = self.person(caller)? else { return Ok(None) };
        let identity = self.directory.identity(&person).map_err(|error| unavailable("directory", &error))?;
        let file = match self.logins.open_for(&identity) {
            Ok(file) => file,
            Err(LoginError::Unavailable) => return Err(unavailable("mail file", &"see above")),
            Err(_) => return Ok(None),
        };
        let name = person.address().map_or_else(|| person.display_name(), ToString::to_string);
        let id = format!("A{:016x}", file.database().record().replica_id.0);
        Ok(Some((AccountInfo { id, name, is_personal: true }, file)))
    }
}

impl Accounts for ServerJmapAccounts {
    fn accounts(&self, caller: &Caller) -> mail::Result<Vec<AccountInfo>> {
        Ok(self.own(caller)?.into_iter().map(|(info, _)| info).collect())
    }

    fn open(&self, caller: &Caller, account: &str) -> mail::Result<Option<(AccountInfo, MailFile)>> {
        Ok(self.own(caller)?.filter(|(info, _)| info.id == account))
    }

    fn identities(&self, caller: &Caller, account: &str) -> mail::Result<Vec<IdentityInfo>> {
        let Some(person) = self.person(caller)? else { return Ok(Vec::new()) };
        if self.open(caller, account)?.is_none() {
            return Ok(Vec::new());
        }
        let identity = |address: String| IdentityInfo {
            id: format!("I{}", &blake3::hash(address.to_lowercase().as_bytes()).to_hex()[..16]),
            name: person.display_name(),
            email: address,
        };
        Ok(person.addresses.iter().map(|address| identity(address.to_string())).collect())
    }

    fn password_stamp(&self, caller: &Caller) -> mail::Result<Option<u64>> {
        let Some(person) = self.person(caller)? else { return Ok(None) };
        let application = caller.credential.strip_prefix(APPLICATION_PASSWORD_PREFIX);
        let is_revoked = application.is_some_and(|id| {
            ApplicationPasswordId::parse(id).is_none_or(|id| person.application_password(id).is_none())
        });
        Ok((!is_revoked).then(|| person.password_stamp()))
    }

    fn full_text(&self) -> search::Result<Option<Arc<FullTextIndex>>> {
        self.full_text.open_existing()
    }
}

/// Logs why the accounts cannot be read, and returns the error for the caller.
fn unavailable(what: &'static str, error: &dyn std::fmt::Display) -> mail::Error {
    tracing::error!(target: "jmap", %error, "the {what} cannot be read");
    mail::Error::Unavailable(what)
}
