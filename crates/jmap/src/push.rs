//! Push (RFC 8620 §7): the StateChange object, and what notifies of changes.
//!
//! The connection that a client listens on waits for the listeners of all accounts, and compares the states then. It
//! tells a state when the ticket of the view is durable.

use event_listener::EventListener;
use serde_json::{Map, Value, json};
use store::Ticket;

use crate::account::Account;
use crate::backend::{Caller, Services};

/// The types whose states are told.
pub const TYPES: [&str; 4] = ["Email", "EmailDelivery", "Mailbox", "Thread"];

/// Returns the StateChange object of all accounts of a caller, and the ticket that must be durable before it is told.
/// `types` are the wanted types; none stands for all of them.
pub fn state_change(services: &Services, caller: &Caller, types: &[String]) -> mail::Result<(Value, Ticket)> {
    let mut changed = Map::new();
    let mut ticket = Ticket::NONE;
    for info in services.accounts.accounts(caller)? {
        let Ok(account) = Account::open(services, caller, &info.id) else { continue };
        let Ok(view) = account.view() else { continue };
        ticket = ticket.max(view.snapshot.ticket());
        let mut states = Map::new();
        for name in TYPES {
            if types.is_empty() || types.iter().any(|wanted| wanted == name) {
                states.insert(name.to_owned(), json!(state_of(&view, name)));
            }
        }
        changed.insert(info.id, Value::Object(states));
    }
    Ok((json!({ "@type": "StateChange", "changed": changed }), ticket))
}

fn state_of(view: &crate::account::AccountView<'_>, name: &str) -> String {
    match name {
        "Mailbox" => view.mailbox_state(),
        "Thread" | "EmailDelivery" => view.thread_state(),
        _ => view.email_state(),
    }
}

/// Returns listeners that are notified of the next change of each account. They must be taken before the states are.
pub fn listen(services: &Services, caller: &Caller) -> mail::Result<Vec<EventListener>> {
    let mut listeners = Vec::new();
    for info in services.accounts.accounts(caller)? {
        if let Ok(account) = Account::open(services, caller, &info.id) {
            listeners.push(account.file.listen());
        }
    }
    Ok(listeners)
}
