//! The fixture of this crate's tests: accounts in memory, and dialogues as text. Also the property tests of whole
//! exchanges.

use std::sync::Arc;

use proptest::prelude::*;

use crate::limits::TLS_EXPORTER_BYTES;
use crate::sim::ExampleScram;
use crate::{
    CertificateRequest, ChannelBinding, ChannelBindingType, Check, ClientFirst, Context, Credentials, Exchange,
    ExchangeStep, Login, LoginError, LoginOrigin, LoginProtocol, Mechanism, PasswordRequest, ScramServer, TokenRequest,
};

/// The accounts of the tests.
pub(crate) struct Accounts;

impl Credentials for Accounts {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        match (request.authentication_id(), request.password()) {
            ("tim", "tanstaaftanstaaf") | ("Kurt", "xipj3plmq") | ("ann", "secret") => {
                act(request.authentication_id(), request.authorization_id())
            }
            ("dora", "secret") => Err(LoginError::AccountDisabled),
            ("hasty", _) => Err(LoginError::Throttled),
            ("offline", _) => Err(LoginError::Unavailable),
            _ => Err(LoginError::InvalidCredentials),
        }
    }

    fn begin_scram(&self, _: &LoginOrigin, first: &ClientFirst) -> Result<(Box<dyn ScramServer>, String), LoginError> {
        let login = act(&first.authentication_id, first.authorization_id.as_deref())?;
        let (server, challenge) = ExampleScram::begin(first, login);
        match first.authentication_id.as_str() {
            "hasty" => Err(LoginError::Throttled),
            "broken" => Ok((server, "r=other,s=c2FsdA==,i=4096".to_owned())),
            "repeating" => Ok((server, format!("r={},s=c2FsdA==,i=4096", first.nonce))),
            _ => Ok((server, challenge)),
        }
    }

    fn check_token(&self, _: &LoginOrigin, request: &TokenRequest) -> Result<Login, LoginError> {
        match request.token.reveal() {
            "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==" => Ok(Login::new("user@example.com")),
            "disabled" => Err(LoginError::AccountDisabled),
            "offline" => Err(LoginError::Unavailable),
            _ => Err(LoginError::InvalidCredentials),
        }
    }

    fn check_certificate(&self, _: &LoginOrigin, request: &CertificateRequest) -> Result<Login, LoginError> {
        assert_eq!(request.certificate, b"certificate");
        act("ann", request.authorization_id.as_deref())
    }
}

/// Returns the login of a name, which may act as `boss` but as nobody else.
fn act(name: &str, authorization_id: Option<&str>) -> Result<Login, LoginError> {
    match authorization_id {
        None => Ok(Login::new(name)),
        Some("boss") => Ok(Login { authorization: "boss".to_owned(), ..Login::new(name) }),
        Some(_) => Err(LoginError::NotAuthorized),
    }
}

/// Returns the context of an encrypted connection without channel binding and certificate.
pub(crate) fn context(protocol: LoginProtocol) -> Context {
    let mut context = Context::new(LoginOrigin::local(protocol), &Mechanism::ALL);
    context.is_private = true;
    context
}

/// Returns the context of an encrypted connection with both channel bindings.
pub(crate) fn bound_context(protocol: LoginProtocol) -> Context {
    let mut context = context(protocol);
    let exporter = ChannelBinding::TlsExporter([b'e'; TLS_EXPORTER_BYTES]);
    context.channel_bindings = vec![exporter, ChannelBinding::TlsServerEndPoint(b"certificate hash".to_vec())];
    context
}

/// Plays a dialogue and returns all steps as text. Checks are answered by [`Accounts`]. The first message is the
/// initial response; `-` stands for none.
pub(crate) fn play(mechanism: Mechanism, context: Context, messages: &[&str]) -> Vec<String> {
    let mut messages = messages.iter().copied();
    let initial_response = messages.next().filter(|message| *message != "-").map(str::as_bytes);
    let mut step = Exchange::begin(mechanism, initial_response, Arc::new(context));
    let mut steps = vec![show(&step)];
    loop {
        step = match step {
            ExchangeStep::Check(check) => check.run(&Accounts),
            ExchangeStep::Challenge { exchange, .. } => match messages.next() {
                Some(message) => exchange.step(message.as_bytes()),
                None => return steps,
            },
            ExchangeStep::Done { .. } | ExchangeStep::Failed(_) => {
                assert_eq!(messages.next(), None, "the exchange ended early: {steps:?}");
                return steps;
            }
        };
        steps.push(show(&step));
    }
}

fn show(step: &ExchangeStep) -> String {
    match step {
        ExchangeStep::Challenge { challenge, .. } => format!("challenge {}", challenge.escape_ascii()),
        ExchangeStep::Check(check) => show_check(check),
        ExchangeStep::Done { login, message } => {
            format!("done {}/{} {}", login.name, login.authorization, message.escape_ascii())
        }
        ExchangeStep::Failed(error) => format!("failed {error:?}"),
    }
}

fn show_check(check: &Check) -> String {
    match check {
        Check::Password(pending) => {
            let request = pending.request();
            let authorization = request.authorization_id().unwrap_or("-");
            format!("password {} {authorization} {}", request.authentication_id(), request.password())
        }
        Check::Token(pending) => {
            let request = pending.request();
            let host = request.host.as_deref().unwrap_or("-");
            let port = request.port.unwrap_or_default();
            let authorization = request.authorization_id.as_deref().unwrap_or("-");
            format!("token {} {authorization} {host} {port}", request.token.reveal())
        }
        Check::Certificate(pending) => {
            format!("certificate {}", pending.request().authorization_id.as_deref().unwrap_or("-"))
        }
        Check::ScramFirst(pending) => {
            let message = pending.request().message();
            let authorization = message.authorization_id.as_deref().unwrap_or("-");
            let binding = pending.request().channel_binding().map_or("-", ChannelBindingType::name);
            format!("first {} {authorization} {binding}", message.authentication_id)
        }
        Check::ScramFinal(_) => "final".to_owned(),
    }
}

/// Pieces of messages, from which the property tests make nearly valid input.
const PIECES: &[&str] = &[
    "\n",
    "\0",
    "\x01",
    "\x01\x01",
    ",",
    "=",
    "*",
    "n,,",
    "y,,",
    "p=tls-exporter,,",
    "p=tls-server-end-point,,",
    "n,a=boss,",
    "n=ann",
    ",r=abc",
    "r=abcx",
    "m=1",
    ",x=1",
    "c=biws",
    ",p=",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "user=ann",
    "auth=Bearer t",
    "host=h",
    "port=25",
    "ann",
    "secret",
    "AGFubgBzZWNyZXQ=",
    "bixhPSw=",
    "é",
    "=2C",
    "=3D",
];

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = proptest::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec());
    let piece = prop_oneof![4 => piece, 1 => proptest::collection::vec(any::<u8>(), 0..4)];
    proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn exchanges_never_panic(selector: u8, properties: u8, messages in pieces()) {
        let input = [vec![selector, properties], messages].concat();
        crate::fuzz::exchange(&input);
    }

    #[test]
    fn plain_messages_are_split(name in "[^\0]{1,20}", other in "[^\0]{0,20}", password in "[^\0]{1,20}") {
        let message = format!("{other}\0{name}\0{password}");
        let context = Arc::new(context(LoginProtocol::Imap));
        let step = Exchange::begin(Mechanism::Plain, Some(message.as_bytes()), context);
        let authorization = if other.is_empty() || other == name { "-" } else { &other };
        prop_assert_eq!(show(&step), format!("password {name} {authorization} {password}"));
    }
}
