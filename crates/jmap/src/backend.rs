//! What this crate needs from the rest of the server: accounts and their mail files, uploads, clock and random numbers.
//!
//! The `server` crate implements [`Accounts`] over `directory` and `mail`; the tests implement it in memory. All
//! methods may block and are called on worker threads. Who may open what is decided by the access control list of the
//! mail file: an account that the caller may not read is not in the list and cannot be opened.

use std::sync::Arc;

use base::random::Random;
use base::time::Clock;
pub use mail::identities::IdentityInfo;
use mail::mailbox::MailFile;
use mail::message_table::MessageTables;
use search::FullTextIndex;

pub use crate::account_rights::AccountRights;
use crate::limits::Limits;
use crate::outbox::{Outbox, RunningRequests};
use crate::principal::Principals;
use crate::push_subscriptions::PushSubscriptions;
use crate::uploads::Uploads;

/// The party that makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The login, as the directory names it.
    pub login: String,
    /// The rights of the login, which an application password may restrict.
    pub scope: Scope,
    /// The name of the session by which the party is logged in, or
    /// [`crate::push_subscriptions::APPLICATION_PASSWORD_PREFIX`] and the identifier of an application password, or an
    /// empty text for the password of the account.
    pub credential: String,
}

/// The rights of a login.
pub use sasl::LoginScope as Scope;

/// An account that a caller may open: a mail file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountInfo {
    /// The identifier: an Id (RFC 8620 §1.2), which never changes.
    pub id: String,
    /// The name that people read, such as an address.
    pub name: String,
    /// `true` if the account is the caller's own.
    pub is_personal: bool,
    /// The rights of the caller.
    pub rights: AccountRights,
    /// The identifier of the principal that the account belongs to.
    pub owner: Option<String>,
}

impl AccountRights {
    /// Returns the rights that are left to a login with a scope.
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        match scope {
            Scope::All => self,
            Scope::Reading => Self { is_read_only: true, may_create_mailboxes: false },
        }
    }
}

/// Access to the accounts of callers.
pub trait Accounts: Send + Sync {
    /// Returns the accounts that the caller may read, its own first, and a bounded number of others.
    fn accounts(&self, caller: &Caller) -> mail::Result<Vec<AccountInfo>>;

    /// Opens the mail file of an account with the rights of the caller. Returns `None` if the account does not exist or
    /// the caller may not read it.
    fn open(&self, caller: &Caller, account: &str) -> mail::Result<Option<(AccountInfo, MailFile)>>;

    /// Returns the names and addresses under which the caller may send, the preferred one first.
    fn identities(&self, caller: &Caller) -> mail::Result<Vec<IdentityInfo>>;

    /// Returns the state of the password of a caller, which is another one after each change. Returns `None` for
    /// somebody who may no longer log in, and if the application password of the caller was revoked.
    fn password_stamp(&self, caller: &Caller) -> mail::Result<Option<u64>>;

    /// Returns the full-text index, if the server has one. It makes searches faster, and no search depends on it.
    fn full_text(&self) -> search::Result<Option<Arc<FullTextIndex>>> {
        Ok(None)
    }
}

/// What all requests share.
pub struct Services {
    /// The accounts.
    pub accounts: Arc<dyn Accounts>,
    /// The people and groups.
    pub principals: Arc<dyn Principals>,
    /// The uploads.
    pub uploads: Arc<Uploads>,
    /// Accepts and withdraws messages.
    pub outbox: Arc<dyn Outbox>,
    /// The requests to send that are carried out now.
    pub running_requests: RunningRequests,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Random numbers, for identifiers of messages.
    pub random: Arc<dyn Random>,
    /// The limits that the Session object states.
    pub limits: Limits,
    /// The domain of the identifiers of new messages.
    pub message_id_domain: String,
    /// The push subscriptions.
    pub push: Arc<PushSubscriptions>,
    /// The messages of mail files in memory.
    pub tables: Arc<MessageTables>,
}
