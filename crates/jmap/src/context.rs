//! What the method calls of a request share: the caller, created objects, and the ticket of the reply.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::{Map, Value};
use store::Ticket;

use crate::account::{Account, AccountView};
use crate::backend::{Caller, Services};
use crate::error::{MethodError, MethodResult};
use crate::json_size::json_bytes;
use crate::limits::REPLY_BYTES_MAX;
use crate::push_subscriptions::PushOwner;

/// What the calls of a request share.
pub struct Context<'r> {
    /// The services of the server.
    pub services: &'r Services,
    /// The party that makes the request.
    pub caller: &'r Caller,
    /// The capabilities that the request uses.
    using: &'r [String],
    /// The identifiers of the objects that were created, by creation id.
    pub created_ids: BTreeMap<String, String>,
    ticket: Ticket,
    /// The number of bytes that the response of the current call may still have.
    reply_bytes_left: Cell<usize>,
    /// Responses of methods that the current call has made besides its own.
    implicit: Vec<(&'static str, Map<String, Value>)>,
}

impl<'r> Context<'r> {
    /// Creates the context of a request.
    #[must_use]
    pub fn new(
        services: &'r Services,
        caller: &'r Caller,
        using: &'r [String],
        created_ids: BTreeMap<String, String>,
    ) -> Self {
        let reply_bytes_left = Cell::new(REPLY_BYTES_MAX);
        Self { services, caller, using, created_ids, ticket: Ticket::NONE, reply_bytes_left, implicit: Vec::new() }
    }

    /// Returns `true` if the request uses a capability.
    #[must_use]
    pub fn uses(&self, capability: &str) -> bool {
        self.using.iter().any(|used| used == capability)
    }

    /// Returns the ticket that must be durable before the reply leaves the server.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the responses that [`Context::respond_also`] has added since the last call.
    pub fn take_implicit(&mut self) -> Vec<(&'static str, Map<String, Value>)> {
        std::mem::take(&mut self.implicit)
    }

    /// Opens an account.
    pub fn account(&self, id: &str) -> MethodResult<Account> {
        Account::open(self.services, self.caller, id)
    }

    /// Opens an account for changes. Returns `accountReadOnly` if the caller can change nothing in it.
    pub fn writable_account(&self, id: &str) -> MethodResult<Account> {
        let account = self.account(id)?;
        if account.is_read_only { Err(MethodError::new("accountReadOnly")) } else { Ok(account) }
    }

    /// Returns the credential of the request, to which push subscriptions belong.
    pub fn push_owner(&self) -> MethodResult<PushOwner> {
        let stamp = self.services.accounts.password_stamp(self.caller)?;
        let stamp = stamp.ok_or_else(|| MethodError::described("forbidden", "the login is no longer valid"))?;
        Ok(PushOwner { login: self.caller.login.clone(), credential: self.caller.credential.clone(), stamp })
    }

    /// Takes a view of an account. The reply waits until what it shows is durable.
    pub fn view<'a>(&mut self, account: &'a Account) -> MethodResult<AccountView<'a>> {
        let view = account.view()?;
        self.wait_for(view.snapshot.ticket());
        Ok(view)
    }

    /// Lets the reply wait for a ticket.
    pub fn wait_for(&mut self, ticket: Ticket) {
        self.ticket = self.ticket.max(ticket);
    }

    /// Returns the identifier of an object: itself, or the one that was created with `#` and a creation id.
    #[must_use]
    pub fn resolve_id(&self, id: &str) -> Option<String> {
        match id.strip_prefix('#') {
            Some(creation_id) => self.created_ids.get(creation_id).cloned(),
            None => Some(id.to_owned()),
        }
    }

    /// Adds the response of a method that the current call has made besides its own.
    pub fn respond_also(&mut self, name: &'static str, arguments: Map<String, Value>) {
        self.implicit.push((name, arguments));
    }

    /// Sets the number of bytes that the response of the next call may have.
    pub fn limit_reply(&self, bytes: usize) {
        self.reply_bytes_left.set(bytes);
    }

    /// Counts an object that becomes a part of the response. Returns `requestTooLarge` if the reply to the request
    /// would become too large.
    pub fn count_reply(&self, object: &Value) -> MethodResult<()> {
        let left = self.reply_bytes_left.get().checked_sub(json_bytes(object)).ok_or_else(reply_too_large)?;
        self.reply_bytes_left.set(left);
        Ok(())
    }

    /// Checks that a `/get` may have so many objects.
    pub fn check_get_count(&self, count: usize) -> MethodResult<()> {
        if count as u64 > self.services.limits.get_objects_max {
            return Err(MethodError::described("requestTooLarge", "there are more ids than maxObjectsInGet"));
        }
        Ok(())
    }

    /// Checks that a `/set` may have so many objects.
    pub fn check_set_count(&self, count: usize) -> MethodResult<()> {
        if count as u64 > self.services.limits.set_objects_max {
            return Err(MethodError::described("requestTooLarge", "there are more objects than maxObjectsInSet"));
        }
        Ok(())
    }
}

/// Returns the error of a call whose response would make the reply to the request too large.
#[must_use]
pub fn reply_too_large() -> MethodError {
    MethodError::described("requestTooLarge", "the reply is too large; ask for less at once")
}
