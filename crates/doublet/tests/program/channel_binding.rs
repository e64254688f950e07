//! Logins with SCRAM-SHA-256-PLUS over TLS: each belongs to the connection on which it takes place.
//!
//! The listeners with implicit TLS and those with STARTTLS are tested in the same way, over every protocol.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sasl::ChannelBindingType::{TlsExporter, TlsServerEndPoint};
use sasl::LoginProtocol::{self, Imap, Pop3, Submission};

use crate::logins::{Outcome, SCRAM, Scram, authentication_command, challenge, reply};
use crate::tls_dialogue::TlsDialogue;
use crate::{Server, TestFolder};

/// A dialogue before the handshake: lines to send, each with a text that the reply contains.
type PlainDialogue = &'static [(&'static str, &'static str)];

/// The listeners, their protocols, and the dialogues before the handshake.
const LISTENERS: [(&str, LoginProtocol, PlainDialogue); 6] = [
    ("imap_tls", Imap, &[]),
    ("imap", Imap, &[("", "* OK"), ("a STARTTLS\r\n", "a OK")]),
    ("pop3_tls", Pop3, &[]),
    ("pop3", Pop3, &[("", "+OK"), ("STLS\r\n", "+OK")]),
    ("submission_tls", Submission, &[]),
    ("submission", Submission, &[("", "220 "), ("EHLO client.test\r\n", "250 "), ("STARTTLS\r\n", "220 ")]),
];

const EXPORTER: &str = "p=tls-exporter,,";
const END_POINT: &str = "p=tls-server-end-point,,";

/// A client that has asked for the capabilities of the server.
struct Client {
    dialogue: TlsDialogue,
    protocol: LoginProtocol,
    /// The greeting, if it was sent over TLS, and the capabilities.
    capabilities: String,
}

impl Client {
    fn connect(server: &Server, listener: &str, protocol: LoginProtocol, start: PlainDialogue) -> Self {
        let mut dialogue = TlsDialogue::connect(&server.listeners[listener], start);
        let (command, last) = match protocol {
            Imap => ("c CAPABILITY", "c OK"),
            Pop3 => ("CAPA", "."),
            _ => ("EHLO client.test", "250 "),
        };
        dialogue.say(command);
        let mut capabilities = String::new();
        while !capabilities.lines().next_back().unwrap_or_default().starts_with(last) {
            capabilities += &format!("{}\n", dialogue.line());
        }
        Self { dialogue, protocol, capabilities }
    }

    /// Logs in with this GS2 header and channel binding data. Returns the reply.
    fn log_in(&mut self, mechanism: &str, header: &'static str, data: &[u8]) -> String {
        let scram = Scram { header, binding: header, ..SCRAM };
        let first = STANDARD.encode(scram.first());
        self.dialogue.say(&authentication_command(self.protocol, mechanism, Some(&first)));
        let mut is_proved = false;
        loop {
            let line = self.dialogue.line();
            match challenge(&line, self.protocol) {
                Some(challenge) if !is_proved => {
                    is_proved = true;
                    self.dialogue.say(&STANDARD.encode(scram.last(&challenge, data)));
                }
                Some(_) => self.dialogue.say(""),
                None if line.starts_with("* ") => {}
                None => return line,
            }
        }
    }

    fn check(&mut self, mechanism: &str, binding: (&'static str, &[u8]), outcome: Outcome) {
        let received = self.log_in(mechanism, binding.0, binding.1);
        let expected = reply(self.protocol, outcome);
        let protocol = self.protocol;
        assert!(received.starts_with(expected), "{protocol}: {mechanism} {}: {received}, not {expected}", binding.0);
    }
}

#[test]
fn login_is_bound_to_its_connection() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    for (listener, protocol, start) in LISTENERS {
        let connect = || Client::connect(&server, listener, protocol, start);
        let mut client = connect();
        let mechanisms = client.capabilities.replace("AUTH=", "");
        assert!(mechanisms.contains(" SCRAM-SHA-256-PLUS SCRAM-SHA-256 PLAIN LOGIN"), "{listener}: {mechanisms}");
        let other = connect().dialogue.channel_binding(TlsExporter);
        client.check("SCRAM-SHA-256-PLUS", (EXPORTER, &other), Outcome::ChannelBinding);
        client.check("SCRAM-SHA-256", ("y,,", b""), Outcome::ChannelBinding);
        let own = client.dialogue.channel_binding(TlsExporter);
        client.check("SCRAM-SHA-256-PLUS", (EXPORTER, &own), Outcome::LoggedIn);
        let mut client = connect();
        let certificate = client.dialogue.channel_binding(TlsServerEndPoint);
        client.check("SCRAM-SHA-256-PLUS", (END_POINT, &certificate), Outcome::LoggedIn);
        connect().check("SCRAM-SHA-256", ("n,,", b""), Outcome::LoggedIn);
    }
    server.stop();
}

#[test]
fn disabled_scram_is_not_offered_with_channel_binding() {
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    folder.options.extend(["--set".to_owned(), "directory.scram=false".to_owned()]);
    let server = folder.serve();
    for (listener, protocol, start) in LISTENERS {
        let capabilities = Client::connect(&server, listener, protocol, start).capabilities;
        assert!(capabilities.contains("PLAIN") && !capabilities.contains("SCRAM"), "{listener}: {capabilities}");
    }
    server.stop();
}
