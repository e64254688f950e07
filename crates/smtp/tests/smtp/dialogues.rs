//! Plays the dialogues in `tests/dialogues` against a session.
//!
//! A dialogue begins with the kind of listener, `rules: reception|submission|lmtp`, followed by words that change the
//! rules or the peer. Each of the following lines is one of:
//!
//! - `C:` The client sends this line and CRLF. Consecutive lines are sent together. `\r \n \0 \\ \xNN` are bytes, and a
//!   backslash at the end of the line omits the CRLF.
//! - `S:` The server sends this line. A `~` at its end matches any text. All lines of the server must be listed.
//! - `T:` The TLS handshake of STARTTLS takes place.
//! - `X:` The server has closed the session.
//! - `M:` The backend has received this envelope and message, shown without its first trace field.

use std::path::Path;
use std::sync::Arc;

use base::memory::MemoryShares;
use base::sim::{SeededRandom, SimClock};
use mail::mime::message_header::top_fields;
use mail::router::ReturnContent;
use mail::submission::Submission;
use sasl::{ChannelBinding, Mechanism};
use smtp::backend::{MessageAcceptor as _, RecipientLookup as _};
use smtp::codec::parameters::BodyType;
use smtp::limits::AUTH_LINE_BYTES_MAX;
use smtp::listener_rules::{AuthCommandPolicy, DisclosurePolicy, ListenerRules, PipeliningPolicy, StartTlsPolicy};
use smtp::session::{AcceptedMessage, BackendRequest, BackendResponse, ConnectionAction, Session};
use wire::Peer;

use crate::backend::MemoryBackend;

/// A session with its backend, driven manually.
pub struct SessionDriver {
    session: Session,
    pub backend: MemoryBackend,
    input: Vec<u8>,
    pub out: Vec<u8>,
    pub closed: bool,
    pub wants_tls: bool,
}

impl SessionDriver {
    pub fn new(rules: ListenerRules, peer: Peer) -> Self {
        Self::with_memory(rules, peer, MemoryShares::unlimited())
    }

    /// Starts a session that shares the memory for messages with others.
    pub fn with_memory(rules: ListenerRules, peer: Peer, memory: Arc<MemoryShares>) -> Self {
        let session = Session::new(Arc::new(rules), Arc::new(SimClock::new()), &SeededRandom::new(1), peer, memory);
        let mut out = Vec::new();
        session.greet(&mut out);
        Self { session, backend: MemoryBackend::default(), input: Vec::new(), out, closed: false, wants_tls: false }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while !self.closed && !self.wants_tls {
            let (used, action) = self.session.step(&self.input, &mut self.out);
            self.input.drain(..used);
            match action {
                ConnectionAction::Read => break,
                ConnectionAction::Flush => {}
                ConnectionAction::Close => self.closed = true,
                ConnectionAction::StartTls => self.wants_tls = true,
                ConnectionAction::CallBackend(request) => {
                    let response = self.respond(request);
                    self.session.handle_response(response, &mut self.out);
                }
            }
        }
    }

    pub fn shake_hands(&mut self) {
        assert!(self.wants_tls, "the server expects a handshake");
        self.wants_tls = false;
        self.input.clear();
        let channel_bindings = vec![ChannelBinding::TlsExporter([b'e'; 32])];
        self.session.reset_after_tls(Some("TLS13_AES_256_GCM_SHA384"), channel_bindings);
    }

    fn respond(&self, request: BackendRequest) -> BackendResponse {
        let backend = &self.backend;
        match request {
            BackendRequest::Sender { login, reverse_path, size_bytes } => {
                let login = login.filter(|_| !reverse_path.is_empty());
                let allowed = backend.check_capacity(size_bytes);
                BackendResponse::Sender(
                    allowed.and_then(|()| login.map_or(Ok(()), |login| backend.check_sender(&login, &reverse_path))),
                )
            }
            BackendRequest::Recipient { address } => BackendResponse::Recipient(backend.resolve(&address)),
            BackendRequest::Members { list } => BackendResponse::Members(backend.expand(&list)),
            BackendRequest::Login(check) => BackendResponse::Login(check.run(backend)),
            BackendRequest::Message { submission, .. } => BackendResponse::Message(
                backend
                    .accept(*submission)
                    .map(|accepted| AcceptedMessage { id: accepted.id, refused: accepted.refused }),
            ),
        }
    }
}

#[test]
fn sessions_follow_the_dialogues() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogues");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder exists").flatten().map(|f| f.path()).collect();
    files.sort();
    assert!(files.len() >= 15, "the folder contains the dialogues");
    let failed: Vec<String> = files
        .iter()
        .filter_map(|file| {
            play(&std::fs::read_to_string(file).expect("UTF-8"))
                .err()
                .map(|reason| format!("{}: {reason}", file.display()))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn long_lines_within_auth_count_as_failed_logins() {
    let long = [vec![b'A'; AUTH_LINE_BYTES_MAX], b"\r\n".to_vec()].concat();
    // The end of the line arrives with the line, or after its refusal.
    for piece_bytes in [long.len(), AUTH_LINE_BYTES_MAX] {
        let mut driver = SessionDriver::new(ListenerRules::submission("mx.example", "b.example"), Peer::local());
        driver.send(b"HELO c.example\r\n");
        driver.out.clear();
        for _ in 0..3 {
            driver.send(b"AUTH PLAIN\r\n");
            for piece in long.chunks(piece_bytes) {
                driver.send(piece);
            }
        }
        let refusals = "334 \r\n500 5.5.6 Authentication line too long\r\n".repeat(3);
        let expected = refusals + "421 4.7.0 Too many failures, closing connection\r\n";
        assert_eq!(String::from_utf8_lossy(&driver.out), expected, "in pieces of {piece_bytes} bytes");
        assert!(driver.closed);
    }
}

/// Plays the dialogues of a file, each of which begins with `rules:`.
fn play(text: &str) -> Result<(), String> {
    let mut driver = None;
    let mut expected: Vec<String> = Vec::new();
    let mut pending = Vec::new();
    for (number, line) in text.lines().enumerate().chain([(text.lines().count(), "rules: end")]) {
        let fail = |reason: String| Err(format!("line {}: {reason}", number + 1));
        let Some((kind, rest)) = line.split_once(':').filter(|_| !line.starts_with('#')) else { continue };
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        if !pending.is_empty() && kind != "C" {
            let driver: &mut SessionDriver = driver.as_mut().expect("a dialogue begins with its rules");
            driver.send(&std::mem::take(&mut pending));
        }
        if !expected.is_empty()
            && kind != "S"
            && let Some(driver) = driver.as_mut()
            && let Err(reason) = compare(&std::mem::take(&mut driver.out), &std::mem::take(&mut expected))
        {
            return fail(reason);
        }
        let silent = |driver: &SessionDriver| {
            if driver.out.is_empty() {
                Ok(())
            } else {
                Err(format!("unexpected: {}", String::from_utf8_lossy(&driver.out)))
            }
        };
        match (kind, driver.as_mut()) {
            ("rules", _) => {
                if let Some(Err(reason)) = driver.as_ref().map(silent) {
                    return fail(reason);
                }
                driver = (rest != "end").then(|| begin(rest));
            }
            ("C", Some(driver)) => {
                if pending.is_empty()
                    && let Err(reason) = silent(driver)
                {
                    return fail(reason);
                }
                pending.extend(bytes(rest));
            }
            ("S", Some(_)) => expected.push(rest.to_owned()),
            ("T", Some(driver)) => driver.shake_hands(),
            ("X", Some(driver)) if driver.closed => {}
            ("M", Some(driver)) => {
                let accepted = driver.backend.take().pop();
                let formatted = show(&accepted.unwrap_or_else(|| panic!("line {}: nothing was accepted", number + 1)));
                if formatted != rest {
                    return fail(format!("accepted {formatted}"));
                }
            }
            _ => return fail(format!("{kind} is not allowed here")),
        }
    }
    Ok(())
}

fn compare(out: &[u8], expected: &[String]) -> Result<(), String> {
    let out = String::from_utf8_lossy(out);
    let lines: Vec<&str> = out.split_terminator("\r\n").collect();
    let fits = |line: &&str, wanted: &String| match wanted.strip_suffix('~') {
        Some(beginning) => line.starts_with(beginning),
        None => *line == wanted,
    };
    if lines.len() == expected.len() && lines.iter().zip(expected).all(|(line, wanted)| fits(line, wanted)) {
        return Ok(());
    }
    Err(format!("expected\n  {}\nbut the server sent\n  {}", expected.join("\n  "), lines.join("\n  ")))
}

fn begin(words: &str) -> SessionDriver {
    let mut words = words.split(' ');
    let host = "mx.example";
    let domain = "b.example";
    let mut rules = match words.next() {
        Some("reception") => ListenerRules::reception(host, domain),
        Some("submission") => ListenerRules::submission(host, domain),
        _ => ListenerRules::lmtp(host, domain),
    };
    rules.message_bytes_max = 100_000;
    rules.recipients_max = 5;
    rules.messages_max = 10;
    let mut peer = Peer::network("192.0.2.7:4000".parse().expect("valid"));
    for word in words {
        match word {
            "local" => peer = Peer::local(),
            "tls" => peer = peer.encrypted(),
            "lenient" => rules.pipelining = PipeliningPolicy::Lenient,
            "needs-tls" => rules.encryption = StartTlsPolicy::Required,
            "auth" => rules.authentication = AuthCommandPolicy::Offered,
            "no-scram" => rules.mechanisms = vec![Mechanism::Plain, Mechanism::Login],
            "disclose" => rules.disclosure = DisclosurePolicy::All,
            "errors=3" => rules.errors_max = 3,
            "commands=2" => rules.commands_max = 2,
            "messages=1" => rules.messages_max = 1,
            "size=100" => rules.message_bytes_max = 100,
            other => panic!("unknown word {other}"),
        }
    }
    SessionDriver::new(rules, peer)
}

fn bytes(line: &str) -> Vec<u8> {
    let (line, ends) = match line.strip_suffix('\\') {
        Some(line) if !line.ends_with('\\') => (line, false),
        _ => (line, true),
    };
    let mut bytes = Vec::new();
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (c, (c == '\\').then(|| rest.next()).flatten()) {
            ('\\', Some('r')) => bytes.push(b'\r'),
            ('\\', Some('n')) => bytes.push(b'\n'),
            ('\\', Some('0')) => bytes.push(0),
            ('\\', Some('x')) => {
                let digits: String = rest.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).expect("two hexadecimal digits"));
            }
            ('\\', _) => bytes.push(b'\\'),
            (c, _) => bytes.extend(c.to_string().as_bytes()),
        }
    }
    if ends {
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Formats an accepted message in one line.
fn show(submission: &Submission) -> String {
    let Submission { origin, envelope, resolved, message } = submission;
    let recipients = envelope.recipients.iter().enumerate().map(|(index, recipient)| {
        let is_local = resolved.get(index).expect("the recipient was resolved").is_local();
        let location = if is_local { "Local" } else { "Remote" };
        let notify = recipient.notify.map(|notify| format!(" notify={notify}")).unwrap_or_default();
        let original = recipient.original.as_ref().map(|original| format!(" orcpt={original}")).unwrap_or_default();
        format!("<{}> {location}{notify}{original}", recipient.address)
    });
    let recipients: Vec<String> = recipients.collect();
    let login = origin.login.as_ref().map(|login| format!(" login={login}")).unwrap_or_default();
    let id = envelope.envelope_id.as_ref().map(|id| format!(" envid={id}")).unwrap_or_default();
    let ret = Some(envelope.return_content).filter(|ret| *ret != ReturnContent::Unspecified);
    let ret = ret.map(|ret| format!(" ret={ret:?}")).unwrap_or_default();
    let body = if envelope.eight_bit { BodyType::EightBitMime } else { BodyType::SevenBit };
    let utf8 = if envelope.smtputf8 { " smtputf8" } else { "" };
    let trace = top_fields(message).next().map_or(0, |(range, _)| range.end);
    let text = message[trace..].escape_ascii().to_string();
    format!(
        "<{}>{login}{id}{ret} {body:?}{utf8} {:?} to {} text {text}",
        envelope.reverse_path,
        origin.protocol,
        recipients.join(", ")
    )
}
