//! Entry points for fuzzing. Each accepts any bytes, and must neither panic nor violate its stated property.
//!
//! The integration tests run them briefly over input generated from a seed. A coverage-guided fuzzer can call the same
//! functions.

use std::sync::Arc;

use base::Clock;
use base::line_ends::has_bare_line_end;
use base::memory::{MemoryBudget, MemoryShares, MeteredBuffer};
use base::sim::{SeededRandom, SimClock};
use mail::mime::message_header::find_fault;
use mail::router::DeliveryTarget;
use mail::submission::completion::{CompletionContext, complete_message};
use mail::submission::{Refusal, ResolvedAddress};
use sasl::sim::ExampleScram;
use sasl::{ChannelBinding, ClientFirst, Credentials, Login, LoginError, LoginOrigin, PasswordRequest, ScramServer};
use wire::Peer;

use crate::auth::results::replace;
use crate::client::message_data::dot_stuff;
use crate::client::reply::{ParsedReply, SmtpReply};
use crate::codec::data::{DataProgress, DataReader, ReceivedData};
use crate::codec::{parameters, path};
use crate::listener_rules::{AuthCommandPolicy, ListenerRole, ListenerRules};
use crate::session::{AcceptedMessage, BackendRequest, BackendResponse, ConnectionAction, Session};

/// Parses paths and parameters. Accepted ones contain no control characters.
pub fn arguments(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok((path, rest)) = path::parse(text) {
        assert!(!path.address.contains(char::is_control), "an accepted address has no control characters");
        let _ = parameters::parse_mail(rest);
        let _ = parameters::parse_rcpt(rest);
    }
}

/// Reads the data after DATA. Accepted data without bare line ends can be sent and read back unchanged, except that
/// NULs are sent as spaces.
pub fn data(input: &[u8]) {
    let Some(mut reader) = data_reader(1 << 20) else { return };
    let (used, progress) = reader.push(input);
    assert!(used <= input.len(), "the reader uses at most the whole input");
    if progress == DataProgress::More {
        return;
    }
    let is_faulty = reader.content().has_bare_line_end();
    let kept = reader.into_content().finish().bytes;
    let text = dot_stuff(&kept);
    assert!(!has_bare_line_end(0, &text), "the sent text has no bare line ends");
    let Some(mut again) = data_reader(2 << 20) else { return };
    assert_eq!(again.push(&text), (text.len(), DataProgress::End), "the end mark ends the sent text");
    if !is_faulty {
        let kept: Vec<u8> = kept.into_iter().map(|byte| if byte == 0 { b' ' } else { byte }).collect();
        assert_eq!(again.into_content().finish().bytes, kept, "the sent text is read back unchanged");
    }
}

/// Returns a reader for data of at most `limit` bytes.
fn data_reader(limit: usize) -> Option<DataReader> {
    let buffer = MeteredBuffer::new(&MemoryBudget::unlimited());
    ReceivedData::new(b"", limit, 0, buffer).ok().map(DataReader::new)
}

/// Completes a message as submission does: all programs see the same fields in the result. Replaces the authentication
/// results of a message: no forged ones remain.
pub fn message(input: &[u8]) {
    let with =
        CompletionContext { hostname: "h.example", id: "1", reverse_path: "a@b.example", now: base::Timestamp(0) };
    if let Ok(completed) = complete_message(input.to_vec(), 0, &with) {
        assert_eq!(find_fault(&completed), None, "all programs see the same fields in a completed message");
    }
    let clean = replace([&b"Received: x\r\n"[..], input].concat(), "h.example", None);
    assert_eq!(replace(clean.clone(), "h.example", None), clean, "no forged results remain");
    let _ = replace(clean, "h.example", Some("X: y\r\n"));
}

/// Parses a server's replies.
pub fn reply(input: &[u8]) {
    if let ParsedReply::Complete(reply, used) = SmtpReply::parse(input) {
        assert!(
            used <= input.len() && !reply.lines.is_empty(),
            "a reply has at least one line and ends within the input"
        );
        let _ = (reply.status(), reply.to_string());
    }
}

/// Runs a whole session on input in pieces, whose length the first byte determines. The output consists of complete
/// lines.
pub fn session(input: &[u8]) {
    let Some((&seed, input)) = input.split_first() else { return };
    let roles =
        [ListenerRules::reception("h.example", "b.example"), ListenerRules::submission("h.example", "b.example")];
    let mut rules =
        roles.into_iter().nth(usize::from(seed & 1)).unwrap_or_else(|| ListenerRules::lmtp("h.example", "b.example"));
    rules.authentication = if seed & 2 == 0 { AuthCommandPolicy::Offered } else { rules.authentication };
    rules.role = if seed & 12 == 12 { ListenerRole::Lmtp } else { rules.role };
    rules.message_bytes_max = 256;
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new());
    let memory = MemoryShares::unlimited();
    let mut session = Session::new(Arc::new(rules), clock, &SeededRandom::new(1), Peer::local(), memory);
    let mut out = Vec::new();
    let mut pending = Vec::new();
    for piece in input.chunks(usize::from(seed).max(1)) {
        pending.extend_from_slice(piece);
        loop {
            let (used, action) = session.step(&pending, &mut out);
            pending.drain(..used);
            match action {
                ConnectionAction::CallBackend(request) => session.handle_response(respond(request), &mut out),
                ConnectionAction::StartTls => session.reset_after_tls(None, vec![ChannelBinding::TlsExporter([7; 32])]),
                ConnectionAction::Flush => out.clear(),
                ConnectionAction::Read => break,
                ConnectionAction::Close => {
                    assert!(out.is_empty() || out.ends_with(b"\r\n"), "the output consists of whole lines");
                    return;
                }
            }
        }
    }
    assert!(!has_bare_line_end(0, &out), "the output consists of whole lines");
}

fn respond(request: BackendRequest) -> BackendResponse {
    match request {
        BackendRequest::Sender { .. } => BackendResponse::Sender(Ok(())),
        BackendRequest::Recipient { address, .. } if address.starts_with('u') => {
            BackendResponse::Recipient(Err(Refusal::UnknownRecipient.into()))
        }
        BackendRequest::Recipient { address } => {
            let targets = vec![DeliveryTarget::Remote(address)];
            BackendResponse::Recipient(Ok(ResolvedAddress::local(targets, 0)))
        }
        BackendRequest::Members { .. } => BackendResponse::Members(None),
        BackendRequest::Login(check) => BackendResponse::Login(check.run(&EveryPassword)),
        BackendRequest::Message { submission, trace_bytes, .. } => {
            assert!(trace_bytes <= submission.message.len(), "the trace field is part of the message");
            BackendResponse::Message(Ok(AcceptedMessage { id: "1".to_owned(), refused: Vec::new() }))
        }
    }
}

/// Credentials that accept every name with every password, and SCRAM with the proof of the example.
struct EveryPassword;

impl Credentials for EveryPassword {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        Ok(Login::new(request.authentication_id()))
    }

    fn begin_scram(&self, _: &LoginOrigin, first: &ClientFirst) -> Result<(Box<dyn ScramServer>, String), LoginError> {
        Ok(ExampleScram::begin(first, Login::new("user")))
    }
}
