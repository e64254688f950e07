//! The verbs: one table, one file per verb.
//!
//! The table states in which session state a verb is permitted; its file contains its implementation. CAPA describes
//! the verbs of the table.

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, State};

pub(crate) mod auth;
mod capa;
mod dele;
mod list;
mod noop;
mod quit;
mod retr;
mod rset;
mod stat;
mod stls;
mod top;
mod uidl;
mod user;
mod utf8;

/// The function that executes a command.
pub(crate) type CommandFn = fn(&mut Session, &Command) -> ConnectionAction;

/// The session states in which a verb is permitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PermittedState {
    Before,
    After,
    Always,
}

const VERBS: [(&str, PermittedState, CommandFn); 16] = [
    ("CAPA", PermittedState::Always, capa::run),
    ("STLS", PermittedState::Before, stls::run),
    ("USER", PermittedState::Before, user::user),
    ("PASS", PermittedState::Before, user::pass),
    ("AUTH", PermittedState::Before, auth::run),
    ("UTF8", PermittedState::Before, utf8::run),
    ("STAT", PermittedState::After, stat::run),
    ("LIST", PermittedState::After, list::run),
    ("UIDL", PermittedState::After, uidl::run),
    ("RETR", PermittedState::After, retr::run),
    ("TOP", PermittedState::After, top::run),
    ("DELE", PermittedState::After, dele::run),
    ("RSET", PermittedState::After, rset::run),
    ("NOOP", PermittedState::After, noop::run),
    ("QUIT", PermittedState::Always, quit::run),
    ("APOP", PermittedState::Before, user::apop),
];

/// Returns the name of a verb, or an empty string if the verb is unknown. The name is not a text of the client.
pub(crate) fn known_name(verb: &str) -> &'static str {
    VERBS.iter().map(|(name, _, _)| *name).find(|name| *name == verb).unwrap_or_default()
}

/// Returns the function of a verb in this state. Returns an error text if the verb is unknown or not permitted.
pub(crate) fn find(verb: &str, state: &State) -> Result<CommandFn, &'static str> {
    let Some((_, when, run)) = VERBS.iter().find(|(name, _, _)| *name == verb) else {
        return Err("unknown command");
    };
    match (when, state) {
        (PermittedState::Always, _)
        | (PermittedState::Before, State::Authorization(_))
        | (PermittedState::After, State::Transaction(_)) => Ok(*run),
        (PermittedState::Before, State::Transaction(_)) => Err("you are logged in already"),
        (PermittedState::After, State::Authorization(_)) => Err("log in first"),
    }
}
