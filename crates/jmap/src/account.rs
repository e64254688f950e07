//! An account that a call works on, and a view of it: a snapshot with the table of messages that agrees with it.
//!
//! The lock of a table is taken before the snapshot, so a table never gets ahead of the snapshot that is read with it.
//! A change of messages takes the lock of the database first; no code takes that lock while it holds a table's.

use std::sync::Arc;

use base::sync::{Mutex, MutexGuard};
use mail::mailbox::{MailFile, MailSnapshot, Message};
use mail::message_table::{MessageRow, MessageTable};
use notes::Grant;

use crate::account_rights::AccountRights;
use crate::backend::{AccountInfo, Caller, Services};
use crate::error::{MethodError, MethodResult};
use crate::state;

/// An open account.
pub struct Account {
    /// What the directory says about it.
    pub info: AccountInfo,
    /// The mail file, with the rights of the caller.
    pub file: MailFile,
    /// What the access control list grants to the caller.
    pub grant: Arc<Grant>,
    /// `true` if the caller can change nothing.
    pub is_read_only: bool,
    table: Arc<Mutex<MessageTable>>,
}

impl Account {
    /// Opens an account. Returns `accountNotFound` if it does not exist or the caller may not read it.
    pub fn open(services: &Services, caller: &Caller, id: &str) -> MethodResult<Self> {
        let opened = match services.accounts.open(caller, id) {
            Err(mail::Error::Notes(notes::Error::AccessDenied { .. } | notes::Error::NotFound { .. })) => None,
            other => other?,
        };
        let (info, file) = opened.ok_or_else(|| MethodError::new("accountNotFound"))?;
        let grant = match file.snapshot() {
            Err(mail::Error::Notes(notes::Error::AccessDenied { .. })) => {
                return Err(MethodError::new("accountNotFound"));
            }
            Err(error) => return Err(error.into()),
            Ok(_) => file.depositor().grant()?,
        };
        let is_read_only = AccountRights::of(&grant).within(caller.scope).is_read_only;
        let table = services.tables.table(file.database().number(), grant.names_digest());
        Ok(Self { info, file, grant, is_read_only, table })
    }

    /// Takes a snapshot, and brings the table to its state.
    pub fn view(&self) -> MethodResult<AccountView<'_>> {
        let mut table = self.table.lock();
        let snapshot = self.file.snapshot()?;
        table.update(&snapshot, &self.file)?;
        Ok(AccountView { snapshot, table })
    }
}

/// A consistent view of an account. While it exists, other calls on the same account wait.
pub struct AccountView<'a> {
    /// The snapshot of the mail file.
    pub snapshot: MailSnapshot<'a>,
    /// The messages of the same moment.
    pub table: MutexGuard<'a, MessageTable>,
}

impl AccountView<'_> {
    /// Returns the state of Email.
    #[must_use]
    pub fn email_state(&self) -> String {
        state::format(self.table.email_modseq(), &self.snapshot)
    }

    /// Returns the state of Thread.
    #[must_use]
    pub fn thread_state(&self) -> String {
        state::format(self.table.thread_modseq(), &self.snapshot)
    }

    /// Returns the state of Mailbox.
    #[must_use]
    pub fn mailbox_state(&self) -> String {
        state::format(self.table.mailbox_modseq(), &self.snapshot)
    }

    /// Returns the whole message of a row, or `None` if it is hidden or damaged.
    pub fn raw(&self, row: &MessageRow) -> MethodResult<Option<Vec<u8>>> {
        self.read_message(row, |message| message.raw())
    }

    /// Returns what `read` returns for the message of a row, or `None` if it is hidden or damaged.
    pub fn read_message<T>(
        &self,
        row: &MessageRow,
        read: impl FnOnce(&Message<'_>) -> mail::Result<T>,
    ) -> MethodResult<Option<T>> {
        let message = self.snapshot.message(row.note);
        match message.and_then(|message| message.as_ref().map(read).transpose()) {
            Err(error) if error.is_damage() => {
                tracing::error!(%error, email = %row.email_id, "a message cannot be read");
                Ok(None)
            }
            other => Ok(other?),
        }
    }
}
