//! Entry point for fuzzing. It accepts any bytes, and must neither panic nor violate its stated property.
//!
//! The unit tests run it briefly over random input. A coverage-guided fuzzer can call the same function.

use std::sync::Arc;

use crate::channel_binding::ChannelBinding;
use crate::context::Context;
use crate::credentials::{Credentials, Login, ScramServer, ScramSuccess};
use crate::error::LoginError;
use crate::exchange::{Exchange, ExchangeStep};
use crate::limits::TLS_EXPORTER_BYTES;
use crate::line::{decode_line, encode_line};
use crate::mechanism::Mechanism;
use crate::protocol::{LoginOrigin, LoginProtocol};
use crate::request::{CertificateRequest, ClientFinal, ClientFirst, PasswordRequest, TokenRequest};

/// Maximum number of challenges of any mechanism.
const CHALLENGES_MAX: usize = 3;

/// Runs an exchange. The first byte selects the mechanism, the second one the properties of the connection; the rest
/// is the client's messages, one on a line. Every request to the directory is well formed, and the exchange ends after
/// a few messages.
pub fn exchange(bytes: &[u8]) {
    let [selector, properties, messages @ ..] = bytes else { return };
    let Some(mechanism) = Mechanism::ALL.into_iter().cycle().nth(usize::from(*selector)) else { return };
    let is_base64 = properties & 1 != 0;
    let mut messages = messages.split(|byte| *byte == b'\n');
    let initial_response = if properties & 2 != 0 { messages.next() } else { None };
    let mut step = Exchange::begin(mechanism, initial_response, Arc::new(context(*properties)));
    let mut challenges = 0_usize;
    loop {
        step = match step {
            ExchangeStep::Check(check) => check.run(&Everybody),
            ExchangeStep::Challenge { challenge, exchange } => {
                challenges += 1;
                assert!(challenges <= CHALLENGES_MAX, "an exchange has few messages");
                assert_eq!(decode_line(encode_line(&challenge).as_bytes()), Ok(challenge), "a challenge is one line");
                let Some(message) = messages.next() else { return };
                if is_base64 { exchange.step_line(message) } else { exchange.step(message) }
            }
            ExchangeStep::Done { login, .. } => {
                assert!(!login.name.is_empty() && !login.authorization.is_empty(), "a login has a name");
                return;
            }
            ExchangeStep::Failed(_) => return,
        };
    }
}

fn context(properties: u8) -> Context {
    let protocol = if properties & 4 != 0 { LoginProtocol::Imap } else { LoginProtocol::Native };
    let mut context = Context::new(LoginOrigin::local(protocol), &Mechanism::ALL);
    context.is_private = true;
    context.certificate = Some(b"certificate".to_vec());
    if properties & 16 != 0 {
        context.channel_bindings.push(ChannelBinding::TlsExporter([8; TLS_EXPORTER_BYTES]));
    }
    if properties & 8 != 0 {
        context.channel_bindings.push(ChannelBinding::TlsServerEndPoint(vec![7; 32]));
    }
    context
}

/// Credentials that accept everybody, and assert the properties of each request.
struct Everybody;

/// The server's side of SCRAM of [`Everybody`].
struct EveryProof(String);

impl Credentials for Everybody {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        assert!(!request.password().is_empty() && !request.password().contains('\0'), "a password is a text");
        login(request.authentication_id(), request.authorization_id())
    }

    fn begin_scram(&self, _: &LoginOrigin, first: &ClientFirst) -> Result<(Box<dyn ScramServer>, String), LoginError> {
        assert!(first.bare.contains(&first.nonce), "the nonce is part of the message");
        let Login { name, .. } = login(&first.authentication_id, first.authorization_id.as_deref())?;
        Ok((Box::new(EveryProof(name)), format!("r={}x,s=c2FsdA==,i=4096", first.nonce)))
    }

    fn check_token(&self, _: &LoginOrigin, request: &TokenRequest) -> Result<Login, LoginError> {
        let token = request.token.reveal();
        assert!(!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()), "a token is a word");
        if token.len().is_multiple_of(2) { Err(LoginError::InvalidCredentials) } else { Ok(Login::new("token")) }
    }

    fn check_certificate(&self, _: &LoginOrigin, request: &CertificateRequest) -> Result<Login, LoginError> {
        login("certificate", request.authorization_id.as_deref())
    }
}

impl ScramServer for EveryProof {
    fn verify(self: Box<Self>, last: &ClientFinal) -> Result<ScramSuccess, LoginError> {
        assert!(last.without_proof.starts_with("c="), "the channel binding comes first");
        let server_final = "v=c2lnbmF0dXJl".to_owned();
        Ok(ScramSuccess { login: Login::new(self.0), server_final, registration: None })
    }
}

/// Returns a login after checking its identities.
fn login(authentication_id: &str, authorization_id: Option<&str>) -> Result<Login, LoginError> {
    assert!(!authentication_id.is_empty() && !authentication_id.contains('\0'), "a name is a text");
    assert_ne!(authorization_id, Some(authentication_id), "only another identity is reported");
    assert!(authorization_id.is_none_or(|id| !id.is_empty() && !id.contains('\0')), "an identity is a text");
    Ok(Login::new(authentication_id))
}
