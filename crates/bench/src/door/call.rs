//! Calls that failed, the calls of a step as the doors count them, and what becomes of a step.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::timeout;

use super::{Reply, Session, StepError, TIMEOUT};

/// The code of a connection that cannot be opened.
pub const CONNECT_CODE: &str = "connect";
/// The code of a connection that broke during a call.
pub const CONNECTION_CODE: &str = "connection";
/// The code of an answer that cannot be read.
pub const MALFORMED_CODE: &str = "malformed";

/// A call or connection that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
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

    /// Creates the error of a step of a user who is not logged in.
    pub fn not_logged_in() -> Self {
        Self::lost("session", "the user is not logged in")
    }

    /// Returns the same error, after which the user must log in again.
    pub fn into_lost(self) -> Self {
        Self { session: Session::Lost, ..self }
    }

    /// Returns the error of a step that has made these calls.
    pub fn into_step_error(self, count: CallCount) -> StepError {
        let CallCount { calls, reopened } = count;
        StepError { code: self.code, text: self.text, calls, reopened, session: self.session }
    }
}

/// Waits for a call that belongs to no step until its time limit has passed.
pub(super) async fn limited<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let no_answer = || Err(CallError::lost(TIMEOUT, format!("no answer within {limit:?}")));
    timeout(limit, call).await.unwrap_or_else(|_| no_answer())
}

/// The error of a call that belongs to no step.
impl From<CallError> for StepError {
    fn from(error: CallError) -> Self {
        error.into_step_error(CallCount::default())
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

impl CallCount {
    /// Returns the reply to a login that has made these calls.
    pub fn login_reply(self, login: Result<(), CallError>) -> Result<Reply, StepError> {
        Self { reopened: 0, ..self }.reply(login.map(|()| DONE))
    }

    /// Returns the reply to a step that has made these calls.
    pub fn reply(self, step: StepResult) -> Result<Reply, StepError> {
        match step {
            Ok(StepOutcome::Performed { attachments }) => {
                Ok(Reply::Performed { calls: self.calls, attachments, reopened: self.reopened })
            }
            Ok(StepOutcome::Skipped) => Ok(Reply::Skipped { calls: self.calls, reopened: self.reopened }),
            Err(error) => Err(error.into_step_error(self)),
        }
    }
}

/// What became of a step that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepOutcome {
    /// The step was performed.
    Performed {
        /// Attachments that were met.
        attachments: u32,
    },
    /// There was no document for the step.
    Skipped,
}

/// A step was performed, and met no attachments.
pub const DONE: StepOutcome = StepOutcome::Performed { attachments: 0 };

/// What became of a step.
pub type StepResult = Result<StepOutcome, CallError>;
