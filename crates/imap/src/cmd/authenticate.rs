//! AUTHENTICATE (RFC 9051 §6.2.2) with the initial response of RFC 4959.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::login;
use crate::codec::{Writer, decode_base64};
use crate::error::{Error, Result};
use crate::session::sasl::{Sasl, SaslStep};
use crate::session::{CommandOutcome, Session};

/// Begins a SASL exchange.
pub fn authenticate(
    session: &mut Session,
    mechanism: &str,
    initial: Option<Vec<u8>>,
    out: &mut Writer,
) -> Result<CommandOutcome> {
    login::require_privacy(session)?;
    let site = &session.site;
    let sasl = Sasl::begin(mechanism, &site.options, &*site.credentials, &session.peer);
    let sasl = sasl.ok_or(Error::No("[CANNOT] this authentication mechanism is not available"))?;
    match initial {
        Some(message) => Ok(step(session, sasl, &message, out)),
        None => {
            out.continuation(&STANDARD.encode(sasl.prompt()));
            Ok(CommandOutcome::Sasl(sasl))
        }
    }
}

/// Processes a line from the client: base64, or `*` to cancel the exchange.
pub fn continue_exchange(session: &mut Session, sasl: Sasl, line: &[u8], out: &mut Writer) -> Result<CommandOutcome> {
    if line == b"*" {
        return Err(Error::Bad("authentication was cancelled"));
    }
    let message = decode_base64(line).map_err(|_| Error::Bad("expected base64"))?;
    Ok(step(session, sasl, &message, out))
}

fn step(session: &mut Session, sasl: Sasl, message: &[u8], out: &mut Writer) -> CommandOutcome {
    match sasl.step(message, &*session.site.credentials, &session.peer) {
        Ok(SaslStep::Challenge(sasl, challenge)) => {
            out.continuation(&STANDARD.encode(challenge));
            CommandOutcome::Sasl(sasl)
        }
        Ok(SaslStep::Done(login)) => login::logged_in(session, login),
        Err(error) => login::login_failed(session, error),
    }
}
