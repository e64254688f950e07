//! Checks: the questions of an exchange to the directory.
//!
//! A caller whose checks block moves the [`Check`] to a worker thread and calls [`Check::run`] there. An asynchronous
//! caller matches on it, obtains the outcome by its own means, and calls the `answer` of the [`PendingCheck`] check.

use std::fmt;
use std::sync::Arc;

use super::scram::{ScramOpening, ScramVerification};
use super::{Exchange, ExchangeStep, State, end_successfully, refuse_token};
use crate::context::Context;
use crate::credentials::{Credentials, Login, ScramServer};
use crate::error::LoginError;
use crate::mechanism::Mechanism;
use crate::protocol::LoginOrigin;
use crate::request::{CertificateRequest, PasswordRequest, TokenRequest};

/// A question of an exchange to the directory.
#[derive(Debug)]
pub enum Check {
    /// Checks a password ([`Credentials::check_password`]).
    Password(PendingCheck<PasswordRequest>),
    /// Checks a bearer token ([`Credentials::check_token`]).
    Token(PendingCheck<TokenRequest>),
    /// Checks the identity of a certificate ([`Credentials::check_certificate`]).
    Certificate(PendingCheck<CertificateRequest>),
    /// Begins a SCRAM exchange ([`Credentials::begin_scram`]).
    ScramFirst(PendingCheck<ScramOpening>),
    /// Verifies a SCRAM proof ([`ScramServer::verify`]).
    ScramFinal(PendingCheck<ScramVerification>),
}

impl Check {
    /// Asks the directory and returns the next step. May block.
    #[must_use]
    pub fn run(self, credentials: &dyn Credentials) -> ExchangeStep {
        match self {
            Self::Password(pending) => {
                let outcome = credentials.check_password(pending.origin(), pending.request());
                pending.answer(outcome)
            }
            Self::Token(pending) => {
                let outcome = credentials.check_token(pending.origin(), pending.request());
                pending.answer(outcome)
            }
            Self::Certificate(pending) => {
                let outcome = credentials.check_certificate(pending.origin(), pending.request());
                pending.answer(outcome)
            }
            Self::ScramFirst(pending) => {
                let outcome = credentials.begin_scram(pending.origin(), pending.request().message());
                pending.answer(outcome)
            }
            Self::ScramFinal(pending) => pending.verify(),
        }
    }

    /// Returns `true` if the check is that of a password that was verified recently, so that running it takes no hash.
    /// May block for a lookup.
    #[must_use]
    pub fn is_known(&self, credentials: &dyn Credentials) -> bool {
        matches!(self, Self::Password(pending) if credentials.is_password_known(pending.origin(), pending.request()))
    }

    /// Ends the exchange because the server cannot ask the directory now. Returns [`ExchangeStep::Failed`] with
    /// [`LoginError::Unavailable`], which does not count as a failed attempt.
    #[must_use]
    pub fn withdraw(self) -> ExchangeStep {
        if let Self::ScramFinal(pending) = self {
            pending.request.server.withdraw();
        }
        ExchangeStep::Failed(LoginError::Unavailable)
    }

    /// Returns the mechanism of the exchange.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        match self {
            Self::Password(pending) => pending.mechanism,
            Self::Token(pending) => pending.mechanism,
            Self::Certificate(pending) => pending.mechanism,
            Self::ScramFirst(pending) => pending.mechanism,
            Self::ScramFinal(pending) => pending.mechanism,
        }
    }
}

/// A request, and the exchange that waits for its answer.
pub struct PendingCheck<R> {
    pub(super) request: R,
    pub(super) mechanism: Mechanism,
    pub(super) context: Arc<Context>,
}

impl<R> PendingCheck<R> {
    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> &R {
        &self.request
    }

    /// Returns the origin of the login.
    #[must_use]
    pub fn origin(&self) -> &LoginOrigin {
        &self.context.origin
    }
}

impl<R> fmt::Debug for PendingCheck<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCheck").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

impl PendingCheck<PasswordRequest> {
    /// Continues the exchange with the outcome of the check.
    #[must_use]
    pub fn answer(self, outcome: Result<Login, LoginError>) -> ExchangeStep {
        end_exchange(outcome)
    }
}

impl PendingCheck<CertificateRequest> {
    /// Continues the exchange with the outcome of the check.
    #[must_use]
    pub fn answer(self, outcome: Result<Login, LoginError>) -> ExchangeStep {
        end_exchange(outcome)
    }
}

impl PendingCheck<TokenRequest> {
    /// Continues the exchange with the outcome of the check.
    #[must_use]
    pub fn answer(self, outcome: Result<Login, LoginError>) -> ExchangeStep {
        match outcome {
            Err(error) => refuse_token(error, self.mechanism, self.context),
            outcome => end_exchange(outcome),
        }
    }
}

impl PendingCheck<ScramOpening> {
    /// Continues the exchange with the server's side of SCRAM and its first message.
    #[must_use]
    pub fn answer(self, outcome: Result<(Box<dyn ScramServer>, String), LoginError>) -> ExchangeStep {
        let Self { request, mechanism, context } = self;
        let challenged =
            outcome.and_then(|(server, challenge)| Ok((request.into_challenged(server, &challenge)?, challenge)));
        match challenged {
            Ok((challenged, challenge)) => {
                let exchange = Exchange { mechanism, context, state: State::ScramFinal(challenged) };
                ExchangeStep::Challenge { challenge: challenge.into_bytes(), exchange }
            }
            Err(error) => ExchangeStep::Failed(error),
        }
    }
}

impl PendingCheck<ScramVerification> {
    /// Verifies the proof and continues the exchange. May block.
    #[must_use]
    pub fn verify(self) -> ExchangeStep {
        match self.request.server.verify(&self.request.message) {
            Ok(success) => end_successfully(success, self.mechanism, self.context),
            Err(error) => ExchangeStep::Failed(error),
        }
    }
}

fn end_exchange(outcome: Result<Login, LoginError>) -> ExchangeStep {
    match outcome {
        Ok(login) => ExchangeStep::Done { login, message: Vec::new() },
        Err(error) => ExchangeStep::Failed(error),
    }
}
