//! A door: a set of protocols through which a user performs its steps.
//!
//! [`native`] is the native protocol, [`imap`] is IMAP and [`pop3`] is POP3, both with [`smtp`], [`jmap`] is JMAP and
//! [`lite`] the lite web mail, both over [`http`]. [`choice`] chooses the door of a workload. [`line_connection`] has
//! the lines of the older protocols, and [`call`] the errors of calls.
//!
//! A door belongs to one user. It holds the connection and the documents that the user has seen, and it knows how a
//! verb is performed. It does not measure: the engine takes the times.
//!
//! What a server answers is foreign. A door limits the length of each answer, and reports what it cannot read as an
//! error.

pub mod call;
pub mod choice;
pub mod http;
pub mod imap;
pub mod jmap;
pub mod journal;
pub mod line_connection;
pub mod lite;
pub mod mail_sending;
mod message_head;
pub mod native;
pub mod pop3;
mod rows;
pub mod smtp;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::future::Future;

use crate::workload::verb::Verb;
use call::CallCount;

/// The code of a step whose time limit has passed.
pub const TIMEOUT: &str = "timeout";
/// The code of a step that had not ended when the run ended.
pub const UNFINISHED: &str = "unfinished";

/// The verbs that a door performs. A run leaves the others out by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    verbs: BTreeSet<Verb>,
}

impl Offered {
    /// Creates the list of a door.
    pub fn new(verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self { verbs: verbs.into_iter().collect() }
    }

    /// Creates the list of a door that performs all verbs but some, which have a reason.
    pub fn all_but(left_out: &[(Verb, &str)]) -> Self {
        Self::new(Verb::all().filter(|verb| left_out.iter().all(|(other, _)| other != verb)))
    }

    /// Returns `true` if the door performs a verb.
    pub fn has(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }
}

/// What the server answered to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The step was performed.
    Performed {
        /// Requests on the wire; 0 if the protocol has none for the verb.
        calls: u32,
        /// Attachments that were met.
        attachments: u32,
        /// Connections that the server had closed because they were idle, and that were opened again.
        reopened: u32,
    },
    /// There was no document for the step.
    Skipped {
        /// Requests on the wire before the step knew that.
        calls: u32,
        /// Connections that were opened again before.
        reopened: u32,
    },
}

/// Whether a user is still logged in after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// The next step can be performed.
    Kept,
    /// The user must log in again.
    Lost,
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepError {
    /// Under which errors are counted: the code of the server's answer, or a word of the driver.
    pub code: Cow<'static, str>,
    /// The error as a whole, without passwords and contents of messages.
    pub text: String,
    /// Requests on the wire.
    pub calls: u32,
    /// Connections that the server had closed because they were idle, and that were opened again.
    pub reopened: u32,
    /// Whether the user is still logged in.
    pub session: Session,
}

/// The protocols of one user.
///
/// The engine drops a login or step that has not ended when its time limit has passed, asks for its `calls`, and then
/// calls `disconnect`.
pub trait Door: Send + 'static {
    /// A step of the workload, as far as a door needs it.
    type Action: Send + Sync;

    /// Connects if necessary and logs the user in.
    fn log_in(&mut self) -> impl Future<Output = Result<Reply, StepError>> + Send;

    /// Performs a step.
    fn perform(&mut self, action: &Self::Action) -> impl Future<Output = Result<Reply, StepError>> + Send;

    /// Returns the calls of the last login, step or logout, as far as it got.
    fn calls(&self) -> CallCount;

    /// Logs the user out and closes the connection. Errors do not matter any more.
    fn log_out(&mut self) -> impl Future<Output = ()> + Send;

    /// Closes the connection at once.
    fn disconnect(&mut self);
}
