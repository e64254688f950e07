//! The server's side of an exchange: a pure state machine.
//!
//! [`Exchange::begin`] and [`Exchange::step`] take a message of the client and return an [`ExchangeStep`]. A step that
//! needs the directory is a [`Check`], which holds the rest of the exchange. Its answer is the next step; after a check
//! there is never another check.
//!
//! | mechanism | messages of the client | checks |
//! |---|---|---|
//! | PLAIN | identities and password | password |
//! | LOGIN | name; password | password |
//! | SCRAM-SHA-256(-PLUS) | client-first; client-final; possibly empty | first and final message |
//! | EXTERNAL | authorization identity | certificate |
//! | OAUTHBEARER, XOAUTH2 | token; after a failure the dummy response | token |
//!
//! Cancelling an exchange means dropping it. A server that ends one for reasons of its own calls [`Exchange::withdraw`]
//! or [`Check::withdraw`]. In base64 line protocols, [`Exchange::step_line`] recognizes the `*` of a client that
//! cancels. A client whose token was refused can no longer cancel: whatever it sends, the exchange fails with the
//! reason of the refusal, so that the attempt counts.

mod check;
mod gs2;
mod oauth;
mod password;
mod scram;

use std::fmt;
use std::sync::Arc;

pub use check::{Check, PendingCheck};
pub use scram::{ScramOpening, ScramVerification};

use crate::context::Context;
use crate::credentials::{Login, ScramSuccess};
use crate::error::LoginError;
use crate::limits::RESPONSE_BYTES_MAX;
use crate::line::{decode_initial_response, decode_line};
use crate::mechanism::Mechanism;
use crate::request::{CertificateRequest, authorization_text};

/// The next action of the caller.
#[derive(Debug)]
pub enum ExchangeStep {
    /// Sends a challenge to the client and passes the response to [`Exchange::step`].
    Challenge {
        /// The challenge before base64. May be empty.
        challenge: Vec<u8>,
        /// The exchange that waits for the response.
        exchange: Exchange,
    },
    /// Asks the directory, with [`Check::run`] or by other means.
    Check(Check),
    /// Tells the client that it is logged in.
    Done {
        /// The login.
        login: Login,
        /// The mechanism's message that goes with the reply. Empty unless the mechanism has one and the protocol can
        /// carry it ([`crate::LoginProtocol::has_success_data`]).
        message: Vec<u8>,
    },
    /// Tells the client that the login failed.
    Failed(LoginError),
}

/// An exchange that waits for a message of the client.
pub struct Exchange {
    mechanism: Mechanism,
    context: Arc<Context>,
    state: State,
}

/// The message that an exchange waits for.
enum State {
    /// The first one.
    First,
    /// LOGIN: the password of this name.
    Password(String),
    /// SCRAM: the client's final message.
    ScramFinal(scram::Challenged),
    /// The empty response to the mechanism's last message, which has been sent.
    Confirmation(ScramSuccess),
    /// OAUTHBEARER and XOAUTH2: the dummy response after a failure, whatever it is.
    Refused(LoginError),
}

impl Exchange {
    /// Begins an exchange, with the initial response if the client sent one. An empty initial response is `Some(b"")`.
    ///
    /// Returns [`ExchangeStep::Failed`] if the connection does not offer the mechanism ([`Context::check`]).
    ///
    /// LOGIN accepts the name as initial response, although the server speaks first, because many clients send it so.
    #[must_use]
    pub fn begin(mechanism: Mechanism, initial_response: Option<&[u8]>, context: Arc<Context>) -> ExchangeStep {
        if let Err(error) = context.check(mechanism) {
            return ExchangeStep::Failed(error);
        }
        let exchange = Self { mechanism, context, state: State::First };
        match initial_response {
            Some(response) => exchange.step(response),
            None => ExchangeStep::Challenge { challenge: first_challenge(mechanism).to_vec(), exchange },
        }
    }

    /// Begins an exchange in a protocol with base64 lines, with the name of the mechanism and the initial response as
    /// they were sent with the command.
    ///
    /// Returns [`ExchangeStep::Failed`] for the reasons of [`Exchange::begin`] and [`decode_initial_response`]. The
    /// connection is checked first, and then the mechanism.
    #[must_use]
    pub fn begin_line(mechanism: &str, initial_response: Option<&[u8]>, context: Arc<Context>) -> ExchangeStep {
        match parse_command(mechanism, initial_response, &context) {
            Ok((mechanism, response)) => Self::begin(mechanism, response.as_deref(), context),
            Err(error) => ExchangeStep::Failed(error),
        }
    }

    /// Processes a line of the client in base64. [Fails](Exchange::fail) for the reasons of [`decode_line`].
    #[must_use]
    pub fn step_line(self, line: &[u8]) -> ExchangeStep {
        match decode_line(line) {
            Ok(response) => self.step(&response),
            Err(error) => self.fail(error),
        }
    }

    /// Processes a response of the client.
    #[must_use]
    pub fn step(self, response: &[u8]) -> ExchangeStep {
        if response.len() > RESPONSE_BYTES_MAX {
            return self.fail(LoginError::TooLong);
        }
        self.advance(response).unwrap_or_else(ExchangeStep::Failed)
    }

    /// Ends the exchange because of a line or response that cannot be decoded. A protocol calls it for a line that it
    /// cannot read.
    ///
    /// Returns [`ExchangeStep::Failed`] with this error, or with the reason of the refusal if the client's token was
    /// refused.
    #[must_use]
    pub fn fail(self, error: LoginError) -> ExchangeStep {
        match self.state {
            State::Refused(reason) => ExchangeStep::Failed(reason),
            _ => ExchangeStep::Failed(error),
        }
    }

    /// Ends the exchange because the server cannot go on with it, for instance at its shutdown. It does not count as a
    /// failed attempt.
    pub fn withdraw(self) {
        if let State::ScramFinal(challenged) = self.state {
            challenged.withdraw();
        }
    }

    /// Returns the mechanism.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    fn advance(self, response: &[u8]) -> Result<ExchangeStep, LoginError> {
        let Self { mechanism, context, state } = self;
        match state {
            State::First => process_first_message(mechanism, context, response),
            State::Password(name) => {
                let request = password::parse_login(&name, response)?;
                Ok(ExchangeStep::Check(Check::Password(PendingCheck { request, mechanism, context })))
            }
            State::ScramFinal(challenged) => {
                let request = challenged.finish(response)?;
                Ok(ExchangeStep::Check(Check::ScramFinal(PendingCheck { request, mechanism, context })))
            }
            State::Confirmation(success) if response.is_empty() => Ok(complete_login(success)),
            State::Confirmation(_) => Err(LoginError::Malformed),
            State::Refused(error) => Err(error),
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

/// Parses the name of a mechanism that the connection offers, and the initial response.
fn parse_command(
    mechanism: &str,
    initial_response: Option<&[u8]>,
    context: &Context,
) -> Result<(Mechanism, Option<Vec<u8>>), LoginError> {
    context.check_privacy()?;
    let mechanism = Mechanism::parse(mechanism).ok_or(LoginError::MechanismNotOffered)?;
    context.check(mechanism)?;
    let response = initial_response.map(decode_initial_response).transpose()?;
    Ok((mechanism, response))
}

/// Returns the challenge for a client that sent no initial response.
fn first_challenge(mechanism: Mechanism) -> &'static [u8] {
    if mechanism.server_speaks_first() { password::NAME_CHALLENGE } else { b"" }
}

/// Processes the client's first message.
fn process_first_message(
    mechanism: Mechanism,
    context: Arc<Context>,
    response: &[u8],
) -> Result<ExchangeStep, LoginError> {
    match mechanism {
        Mechanism::Plain => {
            let request = password::parse_plain(response)?;
            Ok(ExchangeStep::Check(Check::Password(PendingCheck { request, mechanism, context })))
        }
        Mechanism::Login => {
            let state = State::Password(password::parse_login_name(response)?);
            let challenge = password::PASSWORD_CHALLENGE.to_vec();
            Ok(ExchangeStep::Challenge { challenge, exchange: Exchange { mechanism, context, state } })
        }
        Mechanism::ScramSha256 | Mechanism::ScramSha256Plus => {
            let request = ScramOpening::parse(response, mechanism, &context)?;
            Ok(ExchangeStep::Check(Check::ScramFirst(PendingCheck { request, mechanism, context })))
        }
        Mechanism::External => {
            let authorization_id = authorization_text(response)?;
            let certificate = context.certificate.clone().ok_or(LoginError::MechanismNotOffered)?;
            let request = CertificateRequest { certificate, authorization_id };
            Ok(ExchangeStep::Check(Check::Certificate(PendingCheck { request, mechanism, context })))
        }
        Mechanism::OAuthBearer => Ok(check_token(oauth::parse_oauthbearer(response)?, mechanism, context)),
        Mechanism::XOAuth2 => Ok(check_token(oauth::parse_xoauth2(response)?, mechanism, context)),
    }
}

/// Returns the check of a token, or the refusal of a message without one.
fn check_token(request: Option<crate::TokenRequest>, mechanism: Mechanism, context: Arc<Context>) -> ExchangeStep {
    match request {
        Some(request) => ExchangeStep::Check(Check::Token(PendingCheck { request, mechanism, context })),
        None => refuse_token(LoginError::InvalidCredentials, mechanism, context),
    }
}

/// Ends an exchange with a refused token: with an error message and the client's dummy response (RFC 7628 §3.2.3).
///
/// Temporary errors end it at once, because the error message would make the client discard a token that may be valid.
fn refuse_token(error: LoginError, mechanism: Mechanism, context: Arc<Context>) -> ExchangeStep {
    if error.is_temporary() {
        return ExchangeStep::Failed(error);
    }
    let challenge = oauth::error_message(mechanism, &context.oauth).into_bytes();
    ExchangeStep::Challenge { challenge, exchange: Exchange { mechanism, context, state: State::Refused(error) } }
}

/// Ends a successful exchange. The mechanism's message is sent as another challenge if the reply cannot carry it.
fn end_successfully(mut success: ScramSuccess, mechanism: Mechanism, context: Arc<Context>) -> ExchangeStep {
    if success.server_final.is_empty() || context.origin.protocol.has_success_data() {
        return complete_login(success);
    }
    let challenge = std::mem::take(&mut success.server_final).into_bytes();
    ExchangeStep::Challenge {
        challenge,
        exchange: Exchange { mechanism, context, state: State::Confirmation(success) },
    }
}

/// Logs the client in, with the mechanism's message unless it has been sent.
fn complete_login(success: ScramSuccess) -> ExchangeStep {
    let ScramSuccess { login, server_final, registration } = success;
    if let Some(registration) = registration {
        registration.confirm();
    }
    ExchangeStep::Done { login, message: server_final.into_bytes() }
}

#[cfg(test)]
mod tests;
