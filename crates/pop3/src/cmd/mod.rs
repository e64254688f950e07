//! The verbs: one table, one file per verb.
//!
//! The table states in which session state a verb is permitted; its file contains its implementation. CAPA describes
//! the verbs of the table.

use crate::codec::Command;
use crate::session::{Session, State, Step};

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
pub(crate) type Run = fn(&mut Session, &Command) -> Step;

/// The session states in which a verb is permitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    After,
    Always,
}

const VERBS: [(&str, When, Run); 16] = [
    ("CAPA", When::Always, capa::run),
    ("STLS", When::Before, stls::run),
    ("USER", When::Before, user::user),
    ("PASS", When::Before, user::pass),
    ("AUTH", When::Before, auth::run),
    ("UTF8", When::Before, utf8::run),
    ("STAT", When::After, stat::run),
    ("LIST", When::After, list::run),
    ("UIDL", When::After, uidl::run),
    ("RETR", When::After, retr::run),
    ("TOP", When::After, top::run),
    ("DELE", When::After, dele::run),
    ("RSET", When::After, rset::run),
    ("NOOP", When::After, noop::run),
    ("QUIT", When::Always, quit::run),
    ("APOP", When::Before, user::apop),
];

/// Returns the function of a verb in this state. Returns an error text if the verb is unknown or not permitted.
pub(crate) fn find(verb: &str, state: &State) -> Result<Run, &'static str> {
    let Some((_, when, run)) = VERBS.iter().find(|(name, _, _)| *name == verb) else {
        return Err("unknown command");
    };
    match (when, state) {
        (When::Always, _) | (When::Before, State::Authorization(_)) | (When::After, State::Transaction(_)) => Ok(*run),
        (When::Before, State::Transaction(_)) => Err("you are logged in already"),
        (When::After, State::Authorization(_)) => Err("log in first"),
    }
}
