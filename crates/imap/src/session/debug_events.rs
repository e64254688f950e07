//! Debug events about a session for the log: its commands with their durations, and its changes of state.
//!
//! They have the target `imap` and are written only if `log.filter` enables them (`imap=debug`). An event names the
//! connection, the tag, the verb and the server's reply. It never contains anything else of what the client sent: no
//! arguments and so no passwords, names, texts or messages.

use std::time::Duration;

use super::{ConnectionAction, Session, TaggedReply};
use crate::codec::{RefusedCommand, SyntaxError};
use crate::error::Error;

/// The states of a connection (RFC 9051 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    NotAuthenticated,
    Authenticated,
    Selected,
    Logout,
}

impl SessionState {
    fn from_session(session: &Session) -> Self {
        match (&session.account, &session.selected) {
            (None, _) => Self::NotAuthenticated,
            (Some(_), None) => Self::Authenticated,
            (Some(_), Some(_)) => Self::Selected,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::NotAuthenticated => "not authenticated",
            Self::Authenticated => "authenticated",
            Self::Selected => "selected",
            Self::Logout => "logout",
        }
    }
}

/// The beginning of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandStart {
    /// The time of the clock that never steps backwards.
    at: Duration,
    state: SessionState,
}

impl CommandStart {
    /// Returns the beginning of a command that the session starts now.
    pub(super) fn now(session: &Session) -> Self {
        Self { at: session.context.clock.monotonic(), state: SessionState::from_session(session) }
    }
}

impl Session {
    /// Reports the end of a command, and the change of state that it caused.
    pub(super) fn log_completed(&mut self, reply: &TaggedReply, action: ConnectionAction) {
        let Some(start) = self.command_start.take() else { return };
        let duration = self.context.clock.monotonic().saturating_sub(start.at);
        tracing::debug!(
            target: "imap",
            connection = self.peer.connection,
            peer = %self.peer,
            tag = self.tag,
            verb = self.verb,
            status = reply.status.name(),
            reply = &*reply.text,
            duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            "command completed"
        );
        let state =
            if action == ConnectionAction::Close { SessionState::Logout } else { SessionState::from_session(self) };
        if state != start.state {
            tracing::debug!(
                target: "imap",
                connection = self.peer.connection,
                peer = %self.peer,
                from = start.state.name(),
                to = state.name(),
                login = self.login(),
                "state changed"
            );
        }
    }

    /// Reports that the session ends early with BYE.
    pub(super) fn log_ended(&self, error: &Error) {
        tracing::debug!(
            target: "imap",
            connection = self.peer.connection,
            peer = %self.peer,
            login = self.login(),
            reply = error.reply().1,
            "session ended"
        );
    }

    /// Reports a command that the decoder refused.
    ///
    /// The tag is left out if no known verb follows it. The line may then be anything, such as the first line of a
    /// literal that was refused and is sent nevertheless.
    pub(super) fn log_refused(&self, refusal: &RefusedCommand) {
        let is_command = !matches!(refusal.error, SyntaxError::UnknownCommand | SyntaxError::LineTooLong);
        tracing::debug!(
            target: "imap",
            connection = self.peer.connection,
            peer = %self.peer,
            tag = refusal.tag.as_deref().filter(|_| is_command),
            status = refusal.error.status().name(),
            reply = %refusal.error,
            "command refused"
        );
    }
}
