//! Login, logout, and information about the caller.

use std::sync::Arc;

use proto::v1;
use sasl::{Exchange, Login, LoginError, LoginProtocol, Mechanism, PasswordRequest, Step};

use super::CallContext;
use crate::backend::SessionSlot;
use crate::error::{Error, Result};
use crate::limits::{LOGIN_BYTES_MAX, SECRET_BYTES_MAX};
use crate::service::CallOutcome;
use crate::session::{Session, SessionOwner};

/// Checks a password and starts a session.
pub(crate) fn login(desk: &CallContext, request: v1::LoginRequest) -> Result<CallOutcome<v1::LoginReply>> {
    if request.login.len() > LOGIN_BYTES_MAX || request.password.len() > SECRET_BYTES_MAX {
        return Err(Error::Login(LoginError::InvalidCredentials));
    }
    let accounts = &desk.ground.accounts;
    let seat = accounts.register_session();
    let origin = desk.caller.peer.numbered(seat.number()).login_origin(LoginProtocol::Native);
    let checked = PasswordRequest::without_sasl(request.login.as_bytes(), request.password.as_bytes())
        .and_then(|request| accounts.check_password(&origin, &request));
    let login = checked.map_err(Error::Login)?;
    Ok(CallOutcome::immediate(begin(desk, login, seat)?))
}

/// Returns information about the caller's session.
pub(crate) fn get(desk: &CallContext, _: v1::GetSessionRequest) -> Result<CallOutcome<v1::Session>> {
    Ok(CallOutcome::immediate(describe(desk, desk.caller.session()?)?))
}

/// Ends the caller's session.
pub(crate) fn logout(desk: &CallContext, _: v1::LogoutRequest) -> Result<CallOutcome<v1::LogoutReply>> {
    desk.sessions.end(desk.caller.session()?);
    Ok(CallOutcome::immediate(v1::LogoutReply {}))
}

/// A SASL exchange in progress.
pub(crate) struct LoginExchange {
    seat: Box<dyn SessionSlot>,
    exchange: Exchange,
}

/// The reply to a message of an exchange, and the exchange unless it has ended.
pub(crate) type ExchangeReply = (v1::AuthenticateReply, Option<LoginExchange>);

impl LoginExchange {
    /// Starts an exchange with the client's first message.
    pub(crate) fn begin(
        desk: &CallContext,
        mechanisms: &[Mechanism],
        message: &v1::AuthenticateRequest,
    ) -> Result<ExchangeReply> {
        let mechanism = Mechanism::parse(&message.mechanism).ok_or(Error::Login(LoginError::MechanismNotOffered))?;
        check_length(&message.response)?;
        let seat = desk.ground.accounts.register_session();
        let peer = desk.caller.peer.numbered(seat.number());
        let context = peer.login_context(LoginProtocol::Native, mechanisms);
        proceed(desk, seat, Exchange::begin(mechanism, Some(&message.response), Arc::new(context)))
    }

    /// Processes the client's next message.
    pub(crate) fn step(self, desk: &CallContext, response: &[u8]) -> Result<ExchangeReply> {
        check_length(response)?;
        proceed(desk, self.seat, self.exchange.step(response))
    }
}

fn proceed(desk: &CallContext, seat: Box<dyn SessionSlot>, step: Step) -> Result<ExchangeReply> {
    match step {
        Step::Challenge { challenge, exchange } => {
            Ok((v1::AuthenticateReply { challenge, login: None }, Some(LoginExchange { seat, exchange })))
        }
        Step::Check(check) => {
            let next = check.run(&*desk.ground.accounts);
            proceed(desk, seat, next)
        }
        Step::Done { login, message } => {
            let login = begin(desk, login, seat)?;
            Ok((v1::AuthenticateReply { challenge: message, login: Some(login) }, None))
        }
        Step::Failed(error) => Err(Error::Login(error)),
    }
}

fn check_length(response: &[u8]) -> Result<()> {
    if response.len() > SECRET_BYTES_MAX { Err(Error::Login(LoginError::TooLong)) } else { Ok(()) }
}

fn begin(desk: &CallContext, login: Login, seat: Box<dyn SessionSlot>) -> Result<v1::LoginReply> {
    let (token, session) = desk.sessions.begin(login.authorization, seat)?;
    Ok(v1::LoginReply { token, session: Some(describe(desk, &session)?) })
}

fn describe(desk: &CallContext, session: &Session) -> Result<v1::Session> {
    let (name, mail_file) = match &session.who {
        SessionOwner::Person(login) => {
            let person = desk.ground.directory.person(login)?.ok_or(Error::NoSession)?;
            (person.name.canonical().to_owned(), person.mail_file.clone())
        }
        SessionOwner::Server(name) => (name.canonical().to_owned(), String::new()),
    };
    let idle = desk.sessions.bounds().idle.as_secs();
    let is_server = session.ends.is_none();
    Ok(v1::Session {
        name,
        mail_file,
        expires_us: session.ends.map_or(0, |at| at.0),
        idle_timeout_s: if is_server { 0 } else { u32::try_from(idle).unwrap_or(u32::MAX) },
        server: is_server,
    })
}
