//! The messages of SCRAM (RFC 5802 §7) and the rules of channel binding (RFC 5802 §6).
//!
//! ```text
//! client-first ──► ScramOpening::parse ──► ScramOpening ── into_challenged(server-first) ──► Challenged
//! client-final ──► Challenged::finish ──► ScramVerification
//! ```
//!
//! Checked here: the grammar, the channel binding flag, `c=` and `r=` of the final message. The mandatory extensions
//! that `m=` announces are unknown, so `m=` is refused wherever it occurs; other extensions are ignored. Salt,
//! iterations, nonces and the proof are left to [`ScramServer`].
//!
//! A server may end a failed exchange without the error message `e=` (RFC 5802 §5.1), which this one does.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::gs2::{self, BindingFlag};
use crate::channel_binding::{ChannelBinding, ChannelBindingType};
use crate::context::Context;
use crate::credentials::ScramServer;
use crate::error::LoginError;
use crate::limits::SCRAM_MESSAGE_BYTES_MAX;
use crate::mechanism::Mechanism;
use crate::request::{ClientFinal, ClientFirst, text};

/// A SCRAM exchange that begins: the client's first message. Its `Debug` form does not show the channel binding.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramOpening {
    message: ClientFirst,
    channel_binding: Option<ChannelBindingType>,
    /// The value that `c=` of the client's final message must have.
    binding: String,
}

/// A SCRAM exchange that waits for the client's final message.
pub(super) struct Challenged {
    server: Box<dyn ScramServer>,
    binding: String,
    nonce: String,
}

/// A SCRAM exchange whose proof is to be verified.
pub struct ScramVerification {
    pub(super) server: Box<dyn ScramServer>,
    pub(super) message: ClientFinal,
}

impl ScramOpening {
    /// Parses the client's first message and checks its channel binding.
    pub(super) fn parse(message: &[u8], mechanism: Mechanism, context: &Context) -> Result<Self, LoginError> {
        let header = gs2::parse(message_text(message)?)?;
        let bound = check_flag(header.flag, mechanism, context)?;
        let mut input = header.text.as_bytes().to_vec();
        input.extend_from_slice(bound.map(ChannelBinding::data).unwrap_or_default());
        let channel_binding = bound.map(ChannelBinding::binding_type);
        let message = parse_first(header.rest, header.authorization_id)?;
        Ok(Self { message, channel_binding, binding: STANDARD.encode(input) })
    }

    /// Returns the client's first message.
    #[must_use]
    pub fn message(&self) -> &ClientFirst {
        &self.message
    }

    /// Returns the type of the channel binding, or `None` if the client uses none.
    #[must_use]
    pub fn channel_binding(&self) -> Option<ChannelBindingType> {
        self.channel_binding
    }

    /// Continues with the server's first message. Returns [`LoginError::Unavailable`] if its nonce does not extend the
    /// client's, which only a broken server could cause.
    pub(super) fn into_challenged(
        self,
        server: Box<dyn ScramServer>,
        server_first: &str,
    ) -> Result<Challenged, LoginError> {
        let nonce = server_first.strip_prefix("r=").and_then(|rest| rest.split(',').next()).unwrap_or_default();
        let is_extended = nonce.len() > self.message.nonce.len() && nonce.starts_with(&self.message.nonce);
        if !base::always!(is_extended, "the server's nonce extends the client's") {
            return Err(LoginError::Unavailable);
        }
        Ok(Challenged { server, binding: self.binding, nonce: nonce.to_owned() })
    }
}

impl fmt::Debug for ScramOpening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramOpening")
            .field("message", &self.message)
            .field("channel_binding", &self.channel_binding)
            .finish_non_exhaustive()
    }
}

impl Challenged {
    /// Parses the client's final message. Checks its channel binding and its nonce.
    pub(super) fn finish(self, message: &[u8]) -> Result<ScramVerification, LoginError> {
        let text = message_text(message)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(LoginError::Malformed)?;
        let proof = STANDARD.decode(proof).ok().and_then(|proof| proof.try_into().ok());
        let proof = proof.ok_or(LoginError::Malformed)?;
        let mut attributes = without_proof.split(',');
        let binding = value_of("c=", attributes.next())?;
        let nonce = value_of("r=", attributes.next())?;
        attributes.try_for_each(check_extension)?;
        if binding != self.binding {
            return Err(LoginError::ChannelBinding);
        }
        if nonce != self.nonce {
            return Err(LoginError::Malformed);
        }
        let message = ClientFinal { without_proof: without_proof.to_owned(), proof };
        Ok(ScramVerification { server: self.server, message })
    }

    /// Ends the exchange because the server cannot go on with it.
    pub(super) fn withdraw(self) {
        self.server.withdraw();
    }
}

/// Checks the channel binding flag, and returns the binding that the client must repeat, or `None` if it uses none.
///
/// -PLUS requires a binding, and the mechanism without -PLUS excludes it. `y` is refused if -PLUS was offered: the
/// client has seen another list of mechanisms, from which an attacker removed -PLUS (RFC 5802 §6).
fn check_flag<'a>(
    flag: BindingFlag<'_>,
    mechanism: Mechanism,
    context: &'a Context,
) -> Result<Option<&'a ChannelBinding>, LoginError> {
    match (flag, mechanism.has_channel_binding()) {
        (BindingFlag::Required(name), true) => {
            let mut bindings = context.channel_bindings.iter();
            let found = bindings.find(|binding| binding.binding_type().name() == name);
            found.map(Some).ok_or(LoginError::ChannelBinding)
        }
        (BindingFlag::Required(_), false) => Err(LoginError::ChannelBinding),
        (BindingFlag::Unsupported | BindingFlag::NotOffered, true) => Err(LoginError::ChannelBinding),
        (BindingFlag::NotOffered, false) if context.offers(Mechanism::ScramSha256Plus) => {
            Err(LoginError::ChannelBinding)
        }
        (BindingFlag::Unsupported | BindingFlag::NotOffered, false) => Ok(None),
    }
}

/// Parses the first message after its GS2 header: `n=name,r=nonce[,extensions]`.
fn parse_first(bare: &str, authorization_id: Option<String>) -> Result<ClientFirst, LoginError> {
    let mut attributes = bare.split(',');
    let authentication_id = gs2::saslname(value_of("n=", attributes.next())?)?;
    let nonce = value_of("r=", attributes.next())?.to_owned();
    attributes.try_for_each(check_extension)?;
    if !is_printable(&nonce) {
        return Err(LoginError::Malformed);
    }
    let authorization_id = authorization_id.filter(|id| *id != authentication_id);
    Ok(ClientFirst { authentication_id, authorization_id, nonce, bare: bare.to_owned() })
}

fn message_text(message: &[u8]) -> Result<&str, LoginError> {
    if message.len() > SCRAM_MESSAGE_BYTES_MAX { Err(LoginError::TooLong) } else { text(message) }
}

/// Returns the value of an attribute that must be present and not empty.
fn value_of<'a>(prefix: &str, attribute: Option<&'a str>) -> Result<&'a str, LoginError> {
    let value = attribute.and_then(|attribute| attribute.strip_prefix(prefix));
    value.filter(|value| !value.is_empty()).ok_or(LoginError::Malformed)
}

/// Checks an extension: a letter other than `m`, an equals sign and a value.
fn check_extension(attribute: &str) -> Result<(), LoginError> {
    let (name, value) = attribute.split_once('=').ok_or(LoginError::Malformed)?;
    let is_letter = name.len() == 1 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_letter && name != "m" && !value.is_empty() { Ok(()) } else { Err(LoginError::Malformed) }
}

fn is_printable(nonce: &str) -> bool {
    nonce.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

#[cfg(test)]
mod tests;
