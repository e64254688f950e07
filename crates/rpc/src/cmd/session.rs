//! Login, logout, and information about the caller.

use proto::v1;

use super::CallContext;
use crate::backend::{LoginError, SaslExchange, SaslExchangeStep, SessionSlot};
use crate::error::{Error, Result};
use crate::limits::{LOGIN_BYTES_MAX, SECRET_BYTES_MAX};
use crate::service::CallOutcome;
use crate::session::{Session, SessionOwner};

/// Checks a password and starts a session.
pub(crate) fn login(desk: &CallContext, request: v1::LoginRequest) -> Result<CallOutcome<v1::LoginReply>> {
    if request.login.len() > LOGIN_BYTES_MAX || request.password.len() > SECRET_BYTES_MAX {
        return Err(Error::Login(LoginError::InvalidCredentials));
    }
    let credentials = &desk.ground.credentials;
    let seat = credentials.register_session();
    let peer = desk.caller.peer.numbered(seat.number());
    let login = credentials.authenticate(&peer, &request.login, request.password.as_bytes()).map_err(Error::Login)?;
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
    exchange: Box<dyn SaslExchange>,
}

impl LoginExchange {
    /// Starts an exchange.
    pub(crate) fn begin(desk: &CallContext, mechanism: &str) -> Result<Self> {
        if !mechanism.eq_ignore_ascii_case("SCRAM-SHA-256") {
            return Err(Error::Unsupported("this mechanism"));
        }
        let credentials = &desk.ground.credentials;
        let seat = credentials.register_session();
        let exchange = credentials.scram_sha_256(&desk.caller.peer.numbered(seat.number()));
        Ok(Self { seat, exchange: exchange.ok_or(Error::Unsupported("this mechanism"))? })
    }

    /// Processes the client's next message. Returns the reply, and the exchange unless it has ended.
    pub(crate) fn step(mut self, desk: &CallContext, response: &[u8]) -> Result<(v1::AuthenticateReply, Option<Self>)> {
        if response.len() > SECRET_BYTES_MAX {
            return Err(Error::Login(LoginError::Malformed));
        }
        match self.exchange.step(response).map_err(Error::Login)? {
            SaslExchangeStep::Challenge(challenge) => {
                Ok((v1::AuthenticateReply { challenge, login: None }, Some(self)))
            }
            SaslExchangeStep::Done { login, last } => {
                let login = begin(desk, login, self.seat)?;
                Ok((v1::AuthenticateReply { challenge: last, login: Some(login) }, None))
            }
        }
    }
}

fn begin(desk: &CallContext, login: String, seat: Box<dyn SessionSlot>) -> Result<v1::LoginReply> {
    let (token, session) = desk.sessions.begin(login, seat)?;
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
