//! The end of a command: its tagged line, the updates that may precede it, and the action that follows it. A command
//! that is not at its end returns its next step instead.

use std::borrow::Cow;

use sasl::Exchange;

use super::updates::PermittedUpdates;
use super::{ConnectionAction, Session};
use crate::codec::{ResponseStatus, ResponseWriter};
use crate::error::{Error, Result};

/// Result of executing a command.
pub enum CommandOutcome {
    /// The command is complete.
    Reply(TaggedReply),
    /// The command produces its response in slices.
    Job(Box<dyn SlicedCommand>),
    /// Like `Job`, but the first slice is produced in another job of the worker pool.
    NextJob(Box<dyn SlicedCommand>),
    /// The command asks for a line of AUTHENTICATE.
    Sasl(Exchange),
    /// The command waits for DONE.
    Idle,
}

/// A command that produces its response in slices.
pub trait SlicedCommand: Send {
    /// Produces a slice. Returns the reply if it was the last slice.
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>>;

    /// Ends an unfinished response, because an error ends the command. Returns `false` if that is not possible, so that
    /// the connection must end without further output.
    fn end_early(&mut self, _session: &mut Session, _out: &mut ResponseWriter) -> bool {
        true
    }
}

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedReply {
    /// OK, NO or BAD.
    pub status: ResponseStatus,
    /// The response code in brackets.
    pub code: Option<String>,
    /// The human-readable text. Empty for "completed".
    pub text: Cow<'static, str>,
    /// The updates from other sessions that may be sent before the reply.
    pub updates: PermittedUpdates,
    /// The connection's next action after the reply.
    pub action: ConnectionAction,
}

impl TaggedReply {
    /// Creates an OK reply with a text.
    #[must_use]
    pub fn ok(text: &'static str) -> Self {
        Self {
            status: ResponseStatus::Ok,
            code: None,
            text: Cow::Borrowed(text),
            updates: PermittedUpdates::All,
            action: ConnectionAction::Ready,
        }
    }

    /// Creates an OK reply which states that the command is completed.
    #[must_use]
    pub fn completed() -> Self {
        Self::ok("")
    }

    /// Creates the reply for an error.
    #[must_use]
    pub fn error(error: &Error) -> Self {
        let (status, text) = error.reply();
        Self { status, updates: PermittedUpdates::WithoutExpunges, ..Self::ok(text) }
    }

    /// Adds a response code.
    #[must_use]
    pub fn with_code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Sets the updates that may be sent before the reply.
    #[must_use]
    pub fn with_updates(self, updates: PermittedUpdates) -> Self {
        Self { updates, ..self }
    }

    /// Sets the connection's next action after the reply.
    #[must_use]
    pub fn with_action(self, action: ConnectionAction) -> Self {
        Self { action, ..self }
    }

    /// Writes the line after its tag.
    pub fn write(&self, verb: &str, out: &mut ResponseWriter) {
        out.text(self.status.name()).space();
        if let Some(code) = &self.code {
            out.byte(b'[').text(code).text("] ");
        }
        if self.text.is_empty() {
            out.text(verb).text(" completed").crlf();
        } else {
            out.text(&self.text).crlf();
        }
    }
}

impl From<TaggedReply> for CommandOutcome {
    fn from(reply: TaggedReply) -> Self {
        Self::Reply(reply)
    }
}
