//! AUTHENTICATE (RFC 9051 §6.2.2) with the initial response of RFC 4959.

use std::sync::Arc;

use sasl::{Exchange, ExchangeStep, LoginError, encode_line};

use super::login;
use crate::codec::ResponseWriter;
use crate::session::{CommandOutcome, Session};

/// Begins a SASL exchange.
pub fn authenticate(
    session: &mut Session,
    mechanism: &str,
    initial_response: Option<&[u8]>,
    out: &mut ResponseWriter,
) -> CommandOutcome {
    let context = Arc::new(session.login_context());
    proceed(session, Exchange::begin_line(mechanism, initial_response, context), out)
}

/// Returns `true` if the initial response contains a password that was verified recently, so that the login takes no
/// hash. May block.
pub fn is_known(session: &Session, mechanism: &str, initial_response: &[u8]) -> bool {
    let context = Arc::new(session.login_context());
    match Exchange::begin_line(mechanism, Some(initial_response), context) {
        ExchangeStep::Check(check) => check.is_known(&*session.context.accounts),
        _ => false,
    }
}

/// Processes a line from the client: base64, or `*` to cancel the exchange.
pub fn continue_exchange(
    session: &mut Session,
    exchange: Exchange,
    line: &[u8],
    out: &mut ResponseWriter,
) -> CommandOutcome {
    proceed(session, exchange.step_line(line), out)
}

/// Ends the exchange with a line that is too long.
pub fn refuse_line(session: &mut Session, exchange: Exchange, out: &mut ResponseWriter) -> CommandOutcome {
    proceed(session, exchange.fail(LoginError::TooLong), out)
}

fn proceed(session: &mut Session, step: ExchangeStep, out: &mut ResponseWriter) -> CommandOutcome {
    match step {
        ExchangeStep::Challenge { challenge, exchange } => {
            out.continuation(&encode_line(&challenge));
            CommandOutcome::Sasl(exchange)
        }
        ExchangeStep::Check(check) => {
            let next = check.run(&*session.context.accounts);
            proceed(session, next, out)
        }
        ExchangeStep::Done { login, .. } => login::complete_login(session, login),
        ExchangeStep::Failed(error) => login::refuse_login(session, error).into(),
    }
}
