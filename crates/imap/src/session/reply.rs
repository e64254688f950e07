//! How a command ends: its tagged line, what may be told before it, what happens after it; or that it is not at its
//! end yet.

use std::borrow::Cow;

use super::sasl::Sasl;
use super::updates::Updates;
use super::{Effect, Session};
use crate::codec::{Status, Writer};
use crate::error::{Error, Result};

/// What a command leads to.
pub enum Next {
    /// It is done.
    Reply(Reply),
    /// It makes its answer in slices.
    Job(Box<dyn Job>),
    /// It asks for a line of AUTHENTICATE.
    Sasl(Sasl),
    /// It waits for DONE.
    Idle,
}

/// A command that makes its answer in slices.
pub trait Job: Send {
    /// Makes a slice; gives the reply when it was the last.
    fn step(&mut self, session: &mut Session, out: &mut Writer) -> Result<Option<Reply>>;
}

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// OK, NO or BAD.
    pub status: Status,
    /// The response code in brackets, if any.
    pub code: Option<String>,
    /// What people read; empty for "completed".
    pub text: Cow<'static, str>,
    /// What of other sessions' doing may be told before.
    pub updates: Updates,
    /// What the connection does then.
    pub effect: Effect,
}

impl Reply {
    /// Ends with OK.
    #[must_use]
    pub fn ok(text: &'static str) -> Self {
        Self { status: Status::Ok, code: None, text: Cow::Borrowed(text), updates: Updates::All, effect: Effect::Ready }
    }

    /// Ends with OK and that the command is completed.
    #[must_use]
    pub fn completed() -> Self {
        Self::ok("")
    }

    /// Ends with what the client is told of an error.
    #[must_use]
    pub fn error(error: &Error) -> Self {
        let (status, text) = error.told();
        Self { status, updates: Updates::KeepNumbers, ..Self::ok(text) }
    }

    /// Adds a response code.
    #[must_use]
    pub fn with_code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Says what may be told before.
    #[must_use]
    pub fn telling(self, updates: Updates) -> Self {
        Self { updates, ..self }
    }

    /// Says what the connection does then.
    #[must_use]
    pub fn then(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// Writes the line behind its tag.
    pub fn write(&self, verb: &str, out: &mut Writer) {
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

impl From<Reply> for Next {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}
