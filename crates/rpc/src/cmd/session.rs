//! Login, logout, and information about the caller.

use std::sync::Arc;

use proto::v1;
use sasl::{Exchange, ExchangeStep, Login, LoginError, LoginProtocol, Mechanism, PasswordRequest};

use super::CallContext;
use crate::backend::SessionSlot;
use crate::error::{Error, Result};
use crate::limits::{LOGIN_BYTES_MAX, SECRET_BYTES_MAX};
use crate::service::CallOutcome;
use crate::session::{Session, SessionOwner};

/// Checks a password and starts a session.
pub(crate) fn login(context: &CallContext, request: v1::LoginRequest) -> Result<v1::LoginReply> {
    if request.login.len() > LOGIN_BYTES_MAX || request.password.len() > SECRET_BYTES_MAX {
        return Err(Error::Login(LoginError::InvalidCredentials));
    }
    let accounts = &context.services.accounts;
    let slot = accounts.register_session();
    let origin = context.caller.peer.numbered(slot.number()).login_origin(LoginProtocol::Native);
    let checked = PasswordRequest::without_sasl(request.login.as_bytes(), request.password.as_bytes())
        .and_then(|request| accounts.check_password(&origin, &request));
    begin(context, checked.map_err(Error::Login)?, slot)
}

/// Returns information about the caller's session.
pub(crate) fn get(context: &CallContext, _: v1::GetSessionRequest) -> Result<CallOutcome<v1::Session>> {
    let groups = context.identity()?.groups.iter().map(|group| group.canonical().to_owned()).collect();
    Ok(CallOutcome::immediate(v1::Session { groups, ..describe(context, context.caller.session()?)? }))
}

/// Ends the caller's session.
pub(crate) fn logout(context: &CallContext, _: v1::LogoutRequest) -> Result<CallOutcome<v1::LogoutReply>> {
    context.sessions.end(context.caller.session()?);
    Ok(CallOutcome::immediate(v1::LogoutReply {}))
}

/// A SASL exchange in progress.
pub(crate) struct LoginExchange {
    slot: Box<dyn SessionSlot>,
    exchange: Exchange,
}

/// The reply to a message of an exchange, and the exchange unless it has ended.
pub(crate) type ExchangeReply = (v1::AuthenticateReply, Option<LoginExchange>);

impl LoginExchange {
    /// Starts an exchange with the client's first message.
    pub(crate) fn begin(
        context: &CallContext,
        mechanisms: &[Mechanism],
        message: &v1::AuthenticateRequest,
    ) -> Result<ExchangeReply> {
        let mechanism = Mechanism::parse(&message.mechanism).ok_or(Error::Login(LoginError::MechanismNotOffered))?;
        check_length(&message.response)?;
        let slot = context.services.accounts.register_session();
        let peer = context.caller.peer.numbered(slot.number());
        // The protocol offers no mechanism with channel binding (docs/native-protocol.md).
        let login = Arc::new(peer.login_context(LoginProtocol::Native, mechanisms, &[]));
        proceed(context, slot, Exchange::begin(mechanism, Some(&message.response), login))
    }

    /// Processes the client's next message.
    pub(crate) fn step(self, context: &CallContext, response: &[u8]) -> Result<ExchangeReply> {
        check_length(response)?;
        proceed(context, self.slot, self.exchange.step(response))
    }

    /// Ends the exchange because it cannot be checked now. It does not count as a failed attempt.
    pub(crate) fn withdraw(self) {
        self.exchange.withdraw();
    }
}

fn proceed(context: &CallContext, slot: Box<dyn SessionSlot>, step: ExchangeStep) -> Result<ExchangeReply> {
    match step {
        ExchangeStep::Challenge { challenge, exchange } => {
            Ok((v1::AuthenticateReply { challenge, login: None }, Some(LoginExchange { slot, exchange })))
        }
        ExchangeStep::Check(check) => {
            let next = check.run(&*context.services.accounts);
            proceed(context, slot, next)
        }
        ExchangeStep::Done { login, message } => {
            let login = begin(context, login, slot)?;
            Ok((v1::AuthenticateReply { challenge: message, login: Some(login) }, None))
        }
        ExchangeStep::Failed(error) => Err(Error::Login(error)),
    }
}

fn check_length(response: &[u8]) -> Result<()> {
    if response.len() > SECRET_BYTES_MAX { Err(Error::Login(LoginError::TooLong)) } else { Ok(()) }
}

fn begin(context: &CallContext, login: Login, slot: Box<dyn SessionSlot>) -> Result<v1::LoginReply> {
    let (token, session) = context.sessions.begin(login, slot)?;
    Ok(v1::LoginReply { token, session: Some(describe(context, &session)?) })
}

fn describe(context: &CallContext, session: &Session) -> Result<v1::Session> {
    let (name, mail_file) = match &session.owner {
        SessionOwner::Person(login) => {
            let person = context.services.directory.person(login)?.ok_or(Error::NoSession)?;
            (person.name.canonical().to_owned(), person.mail_file.clone())
        }
        SessionOwner::Server(name) | SessionOwner::LocalPerson(name) => (name.canonical().to_owned(), String::new()),
    };
    let idle = context.sessions.limits().idle.as_secs();
    let is_of_connection = session.ends.is_none();
    Ok(v1::Session {
        name,
        mail_file,
        expires_us: session.ends.map_or(0, |at| at.0),
        idle_timeout_s: if is_of_connection { 0 } else { u32::try_from(idle).unwrap_or(u32::MAX) },
        server: matches!(session.owner, SessionOwner::Server(_)),
        groups: Vec::new(),
    })
}
