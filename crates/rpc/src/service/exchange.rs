//! Login with a password, login through SASL, where messages of the client and of the server alternate on one stream,
//! and the description of the server.

use std::sync::Arc;

use proto::v1;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{Replies, Service, replies, split_request};
use crate::cmd::CallContext;
use crate::cmd::session::{self, LoginExchange};
use crate::error::{Error, Result};
use crate::limits::{EXCHANGE_STEPS_MAX, LOGIN_MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX};

/// The state of an exchange between two messages of the client.
struct AuthenticateState {
    messages: Streaming<v1::AuthenticateRequest>,
    /// The SASL exchange; `None` before the first and after the last message.
    dialogue: Option<LoginExchange>,
    steps: usize,
    is_over: bool,
}

/// Serves `Login`.
pub(super) async fn login(
    service: &Service,
    request: Request<v1::LoginRequest>,
) -> std::result::Result<Response<v1::LoginReply>, Status> {
    let (caller, message) = split_request(request)?;
    Ok(Response::new(service.check_login(&caller, message, session::login, drop).await?))
}

/// Serves `Authenticate`.
pub(super) fn authenticate(
    service: &Service,
    request: Request<Streaming<v1::AuthenticateRequest>>,
) -> std::result::Result<Response<Replies<v1::AuthenticateReply>>, Status> {
    let (caller, messages) = split_request(request)?;
    let start = AuthenticateState { messages, dialogue: None, steps: 0, is_over: false };
    Ok(Response::new(replies(service.clone(), caller, start, |service, caller, exchange| async move {
        if exchange.is_over {
            return Ok(None);
        }
        step(&service, &caller, exchange).await
    })))
}

async fn step(
    service: &Service,
    caller: &crate::admission::Caller,
    mut exchange: AuthenticateState,
) -> Result<Option<(v1::AuthenticateReply, AuthenticateState)>> {
    let message = exchange.messages.message().await.map_err(|status| exchange_error(&status))?;
    let Some(message) = message else { return Ok(None) };
    exchange.steps += 1;
    if exchange.steps > EXCHANGE_STEPS_MAX {
        return Err(Error::Limit { what: "messages of a login exchange", max: EXCHANGE_STEPS_MAX as u64 });
    }
    let dialogue = exchange.dialogue.take();
    let options = Arc::clone(&service.options);
    let check = move |context: &CallContext, dialogue: Option<LoginExchange>| match dialogue {
        Some(dialogue) => dialogue.step(context, &message.response),
        None => LoginExchange::begin(context, &options.mechanisms, &message),
    };
    let withdraw = |dialogue: Option<LoginExchange>| {
        if let Some(dialogue) = dialogue {
            dialogue.withdraw();
        }
    };
    let (reply, dialogue) = service.check_login(caller, dialogue, check, withdraw).await?;
    exchange.is_over = dialogue.is_none();
    exchange.dialogue = dialogue;
    Ok(Some((reply, exchange)))
}

/// Returns an error that distinguishes a message that was too long from one that did not arrive.
fn exchange_error(status: &Status) -> Error {
    match status.code() {
        Code::ResourceExhausted => Error::Limit { what: "bytes of a message", max: LOGIN_MESSAGE_BYTES_MAX as u64 },
        _ => Error::invalid("the login exchange was cut off"),
    }
}

/// Serves `GetServer`.
pub(super) fn describe(service: &Service) -> v1::Server {
    let options = &service.options;
    v1::Server {
        hostname: options.hostname.clone(),
        version: options.version.clone(),
        mechanisms: options.mechanisms.iter().map(ToString::to_string).collect(),
        message_bytes_max: MESSAGE_BYTES_MAX as u64,
        call_time_max_ms: u32::try_from(options.call_time_max.as_millis()).unwrap_or(u32::MAX),
        now_us: service.services.clock.now().0,
    }
}
