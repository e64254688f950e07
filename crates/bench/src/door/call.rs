//! Calls that failed, and the calls of a step, as the doors count them.

use std::borrow::Cow;

use super::{Session, StepError};

/// The code of a connection that cannot be opened.
pub const CONNECT_CODE: &str = "connect";
/// The code of a connection that broke during a call.
pub const CONNECTION_CODE: &str = "connection";
/// The code of an answer that cannot be read.
pub const MALFORMED_CODE: &str = "malformed";

/// A call or connection that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The code under which it is counted.
    pub code: Cow<'static, str>,
    /// The error as a whole, without passwords and contents of messages.
    pub text: String,
    /// Whether the user is still logged in.
    pub session: Session,
}

impl CallError {
    /// Creates an error after which the user is still logged in.
    pub fn kept(code: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { code: code.into(), text: text.into(), session: Session::Kept }
    }

    /// Creates an error after which the user must log in again.
    pub fn lost(code: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self { code: code.into(), text: text.into(), session: Session::Lost }
    }

    /// Creates the error of an answer that cannot be read. Nothing that follows on the connection can be understood.
    pub fn malformed(text: impl Into<String>) -> Self {
        Self::lost(MALFORMED_CODE, text)
    }

    /// Returns the same error, after which the user must log in again.
    pub fn into_lost(self) -> Self {
        Self { session: Session::Lost, ..self }
    }

    /// Returns the error of a step that has made so many calls.
    pub fn into_step_error(self, calls: u32) -> StepError {
        StepError { code: self.code, text: self.text, calls, session: self.session }
    }
}

/// The calls of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Requests on the wire.
    pub calls: u32,
    /// Connections that were opened again.
    pub reopened: u32,
}
