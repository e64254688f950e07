//! The same SASL dialogues over every protocol of a running server, with the replies to every outcome.
//!
//! A row of [`DIALOGUES`] is played over every protocol, each time over a connection of its own. Its outcome is
//! compared with the reply that [`reply`] requires of the protocol.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{Client, request_channel, v1};
use hmac::{Hmac, KeyInit, Mac};
use sasl::LoginProtocol::{self, Imap, Native, Pop3, Submission};
use sha2::{Digest, Sha256};

use crate::{Dialogue, Server, TestFolder};

const PROTOCOLS: [LoginProtocol; 4] = [Imap, Pop3, Submission, Native];

/// Length of a SCRAM message that is too long for every protocol, and short enough for the lines of all of them.
const LONG_MESSAGE_BYTES: usize = 4_200;

/// The outcome of a dialogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    LoggedIn,
    WrongCredentials,
    Disabled,
    NotAuthorized,
    Malformed,
    NotBase64,
    TooLong,
    ChannelBinding,
    NotOffered,
    Cancelled,
}

/// The client's side of a dialogue after the mechanism.
#[derive(Debug, Clone, Copy)]
enum Messages {
    /// These messages before base64; the first one is the initial response.
    Fixed(&'static [&'static str]),
    /// This line, as it is, after the server's first challenge. The native protocol has no lines.
    Line(&'static str),
    /// The messages of SCRAM.
    Scram(Scram),
    /// A first message that is too long.
    Long,
}

/// The values that a SCRAM client uses.
#[derive(Debug, Clone, Copy)]
struct Scram {
    name: &'static str,
    password: &'static str,
    /// The GS2 header of the first message.
    header: &'static str,
    /// The channel binding of the final message, before base64.
    binding: &'static str,
    /// Characters after the nonce of the final message.
    nonce_suffix: &'static str,
}

const SCRAM: Scram = Scram { name: "ann", password: "sesame street", header: "n,,", binding: "n,,", nonce_suffix: "" };

const DIALOGUES: &[(&str, Messages, Outcome)] = &[
    ("PLAIN", Messages::Fixed(&["\0ann\0sesame street"]), Outcome::LoggedIn),
    ("plain", Messages::Fixed(&["Ann@acme.test\0ann\0sesame street"]), Outcome::LoggedIn),
    ("PLAIN", Messages::Fixed(&["\0ann\0wrong"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0nobody\0sesame street"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0eve\0wrong"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0eve\0sesame street"]), Outcome::Disabled),
    ("PLAIN", Messages::Fixed(&["bob\0ann\0sesame street"]), Outcome::NotAuthorized),
    ("PLAIN", Messages::Fixed(&["bob\0ann\0wrong"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0ann\0sesame\0street"]), Outcome::Malformed),
    ("PLAIN", Messages::Fixed(&["\0\0sesame street"]), Outcome::Malformed),
    ("PLAIN", Messages::Fixed(&["\0ann\0"]), Outcome::Malformed),
    ("PLAIN", Messages::Fixed(&["ann"]), Outcome::Malformed),
    ("PLAIN", Messages::Line("*"), Outcome::Cancelled),
    ("PLAIN", Messages::Line("AGFubg"), Outcome::NotBase64),
    ("LOGIN", Messages::Line("*"), Outcome::Cancelled),
    ("SCRAM-SHA-256", Messages::Scram(SCRAM), Outcome::LoggedIn),
    ("SCRAM-SHA-256", Messages::Scram(Scram { header: "y,,", binding: "y,,", ..SCRAM }), Outcome::LoggedIn),
    (
        "SCRAM-SHA-256",
        Messages::Scram(Scram { header: "n,a=Ann@acme.test,", binding: "n,a=Ann@acme.test,", ..SCRAM }),
        Outcome::LoggedIn,
    ),
    ("SCRAM-SHA-256", Messages::Scram(Scram { password: "wrong", ..SCRAM }), Outcome::WrongCredentials),
    ("SCRAM-SHA-256", Messages::Scram(Scram { name: "nobody", ..SCRAM }), Outcome::WrongCredentials),
    ("SCRAM-SHA-256", Messages::Scram(Scram { name: "eve", ..SCRAM }), Outcome::Disabled),
    (
        "SCRAM-SHA-256",
        Messages::Scram(Scram { header: "n,a=bob,", binding: "n,a=bob,", ..SCRAM }),
        Outcome::NotAuthorized,
    ),
    ("SCRAM-SHA-256", Messages::Scram(Scram { binding: "y,,", ..SCRAM }), Outcome::ChannelBinding),
    ("SCRAM-SHA-256", Messages::Scram(Scram { header: "p=tls-exporter,,", ..SCRAM }), Outcome::ChannelBinding),
    ("SCRAM-SHA-256", Messages::Scram(Scram { nonce_suffix: "x", ..SCRAM }), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Fixed(&["nonsense"]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Long, Outcome::TooLong),
    ("SCRAM-SHA-256", Messages::Line("*"), Outcome::Cancelled),
    ("SCRAM-SHA-256-PLUS", Messages::Fixed(&["p=tls-exporter,,n=ann,r=abc"]), Outcome::NotOffered),
    ("EXTERNAL", Messages::Fixed(&["ann"]), Outcome::NotOffered),
    ("OAUTHBEARER", Messages::Fixed(&["n,,\x01auth=Bearer x\x01\x01"]), Outcome::NotOffered),
    ("CRAM-MD5", Messages::Fixed(&["ann"]), Outcome::NotOffered),
];

/// Returns the beginning of the reply of a protocol.
fn reply(protocol: LoginProtocol, outcome: Outcome) -> &'static str {
    let [imap, pop3, submission, native] = match outcome {
        Outcome::LoggedIn => ["a OK [CAPABILITY ", "+OK 0 messages", "235 2.7.0 ", "session CN=ann/O=acme.test"],
        Outcome::WrongCredentials => {
            ["a NO [AUTHENTICATIONFAILED] wrong", "-ERR [AUTH] wrong", "535 5.7.8 ", "Unauthenticated login wrong"]
        }
        Outcome::Disabled => {
            ["a NO [AUTHORIZATIONFAILED] ", "-ERR [AUTH] the account", "535 5.7.13 ", "Unauthenticated login wrong"]
        }
        Outcome::NotAuthorized => {
            ["a NO [AUTHORIZATIONFAILED] ", "-ERR [AUTH] you may not", "535 5.7.8 ", "Unauthenticated login wrong"]
        }
        Outcome::Malformed => {
            ["a NO [AUTHENTICATIONFAILED] invalid", "-ERR invalid", "501 5.5.2 ", "InvalidArgument malformed invalid"]
        }
        Outcome::NotBase64 => ["a BAD expected base64", "-ERR expected base64", "501 5.5.2 ", "none"],
        Outcome::TooLong => [
            "a BAD the response is too long",
            "-ERR the response is too long",
            "500 5.5.6 ",
            "InvalidArgument malformed the response is too long",
        ],
        Outcome::ChannelBinding => [
            "a NO [AUTHENTICATIONFAILED] the channel binding",
            "-ERR the channel binding",
            "535 5.7.8 ",
            "Unauthenticated login the channel binding",
        ],
        Outcome::NotOffered => {
            ["a NO [CANNOT] ", "-ERR this authentication mechanism", "504 5.5.4 ", "Unimplemented unsupported "]
        }
        Outcome::Cancelled => ["a BAD authentication was cancelled", "-ERR authentication", "501 5.7.0 ", "none"],
    };
    match protocol {
        Imap => imap,
        Pop3 => pop3,
        Submission => submission,
        _ => native,
    }
}

#[test]
fn sasl_dialogues_have_the_expected_reply_in_every_protocol() {
    let mut folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test", "eve@acme.test"]);
    // Throttling is not the subject of this test.
    folder.options.extend(["--set".to_owned(), "directory.login_failures=1000".to_owned()]);
    folder.check(&["user", "set", "eve", "--disable"], "was changed");
    let server = folder.serve();
    for (mechanism, messages, outcome) in DIALOGUES {
        for protocol in PROTOCOLS {
            let is_line = matches!(messages, Messages::Line(_));
            let received = match protocol {
                Native if is_line => continue,
                Native => play_native(&folder, &server, mechanism, *messages),
                protocol => play_lines(&server, protocol, mechanism, *messages),
            };
            let expected = reply(protocol, *outcome);
            assert!(received.starts_with(expected), "{protocol}: {mechanism} {messages:?}: {received}, not {expected}");
        }
    }
    server.stop();
}

#[test]
fn login_mechanism_requests_name_and_password() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    for protocol in [Imap, Pop3, Submission] {
        let check = |name: &'static str, password: &'static str, outcome: Outcome| {
            let mut messages = [name, password].into_iter();
            let next = |_: &[u8]| messages.next().unwrap_or_default().as_bytes().to_vec();
            let received = exchange(&mut greeted(&server, protocol), protocol, "LOGIN", next);
            assert!(received.starts_with(reply(protocol, outcome)), "{protocol}: {received}");
        };
        check("ann", "sesame street", Outcome::LoggedIn);
        check("ann", "wrong", Outcome::WrongCredentials);
        check("", "sesame street", Outcome::Malformed);
        check("ann", "sesame\0street", Outcome::Malformed);
        check("ann", "", Outcome::Malformed);
    }
    server.stop();
}

#[test]
fn malformed_messages_end_the_connection_like_wrong_passwords() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    for protocol in [Imap, Pop3, Submission] {
        let mut dialogue = greeted(&server, protocol);
        for message in ["nonsense", "n,,n=,r=abc", "n,,m=x,n=ann,r=abc"] {
            let received = exchange(&mut dialogue, protocol, "SCRAM-SHA-256", |_| message.into());
            assert!(received.starts_with(reply(protocol, Outcome::Malformed)), "{protocol}: {received}");
        }
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut dialogue.reader, &mut rest).expect("the server ends the connection");
        let goodbye = if protocol == Submission { "421 4.7.0 " } else { "" };
        assert!(String::from_utf8_lossy(&rest).starts_with(goodbye), "{protocol}: {rest:?}");
    }
    server.stop();
}

/// Plays a dialogue over a protocol with lines of base64. Returns the reply.
fn play_lines(server: &Server, protocol: LoginProtocol, mechanism: &str, messages: Messages) -> String {
    let mut dialogue = greeted(server, protocol);
    match messages {
        Messages::Line(line) => {
            begin(&mut dialogue, protocol, mechanism, None);
            challenge(&dialogue.line(), protocol).expect("a challenge");
            dialogue.say(line);
            final_reply(&mut dialogue)
        }
        // The commands of POP3 have shorter lines than the exchange.
        Messages::Long => {
            let mut client = ClientSide::new(messages);
            exchange(&mut dialogue, protocol, mechanism, |challenge| client.answer(challenge))
        }
        messages => {
            let mut client = ClientSide::new(messages);
            let first = STANDARD.encode(client.answer(b""));
            begin(&mut dialogue, protocol, mechanism, Some(&first));
            answer_challenges(&mut dialogue, protocol, |challenge| client.answer(challenge))
        }
    }
}

/// Plays a dialogue without initial response, with an answer to each challenge. Returns the reply.
fn exchange(
    dialogue: &mut Dialogue,
    protocol: LoginProtocol,
    mechanism: &str,
    answer: impl FnMut(&[u8]) -> Vec<u8>,
) -> String {
    begin(dialogue, protocol, mechanism, None);
    answer_challenges(dialogue, protocol, answer)
}

fn answer_challenges(
    dialogue: &mut Dialogue,
    protocol: LoginProtocol,
    mut answer: impl FnMut(&[u8]) -> Vec<u8>,
) -> String {
    loop {
        let line = dialogue.line();
        match challenge(&line, protocol) {
            Some(challenge) => dialogue.say(&STANDARD.encode(answer(&challenge))),
            None if line.starts_with("* ") => {}
            None => return line,
        }
    }
}

fn greeted(server: &Server, protocol: LoginProtocol) -> Dialogue {
    if protocol == Submission {
        return server.greeted("submission");
    }
    let mut dialogue = server.dial(protocol.name());
    dialogue.line();
    dialogue
}

fn begin(dialogue: &mut Dialogue, protocol: LoginProtocol, mechanism: &str, initial_response: Option<&str>) {
    let command = if protocol == Imap { "a AUTHENTICATE" } else { "AUTH" };
    let response = initial_response.map(|response| format!(" {response}")).unwrap_or_default();
    dialogue.say(&format!("{command} {mechanism}{response}"));
}

/// Returns the challenge in a line of the server, or `None` if it is another line.
fn challenge(line: &str, protocol: LoginProtocol) -> Option<Vec<u8>> {
    let prefix = if protocol == Submission { "334" } else { "+" };
    let rest = line.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with(' '))?;
    Some(STANDARD.decode(rest.trim()).expect("base64"))
}

/// Returns the next line that is not an untagged response of IMAP.
fn final_reply(dialogue: &mut Dialogue) -> String {
    loop {
        let line = dialogue.line();
        if !line.starts_with("* ") {
            return line;
        }
    }
}

/// Plays a dialogue over the native protocol. Returns the name in the session, or the code, the reason and the message.
fn play_native(folder: &TestFolder, server: &Server, mechanism: &str, messages: Messages) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = folder.options(server);
    runtime.block_on(async {
        let client = Client::connect(&options).await.expect("the server is there");
        authenticate(&client, mechanism, messages)
            .await
            .unwrap_or_else(|status| format!("{:?} {} {}", status.code(), client::reason(&status), status.message()))
    })
}

async fn authenticate(client: &Client, mechanism: &str, messages: Messages) -> Result<String, client::Status> {
    let mut side = ClientSide::new(messages);
    let (sender, stream) = request_channel(1);
    let first = v1::AuthenticateRequest { mechanism: mechanism.to_owned(), response: side.answer(b"") };
    sender.send(first).await;
    let mut replies = client.sessions().authenticate(stream).await?.into_inner();
    loop {
        let reply = replies.message().await?.expect("a reply");
        if let Some(login) = reply.login {
            return Ok(format!("session {}", login.session.expect("a session").name));
        }
        let response = side.answer(&reply.challenge);
        sender.send(v1::AuthenticateRequest { mechanism: String::new(), response }).await;
    }
}

/// The client's side of a dialogue: it answers challenges.
struct ClientSide {
    messages: Messages,
    /// The number of messages sent.
    sent: usize,
}

impl ClientSide {
    fn new(messages: Messages) -> Self {
        Self { messages, sent: 0 }
    }

    /// Returns the next message. The first one answers an empty challenge.
    fn answer(&mut self, challenge: &[u8]) -> Vec<u8> {
        let number = self.sent;
        self.sent += 1;
        match self.messages {
            Messages::Fixed(messages) => messages[number].as_bytes().to_vec(),
            Messages::Scram(scram) if number == 0 => scram.first().into_bytes(),
            Messages::Scram(scram) if number == 1 => scram.last(challenge).into_bytes(),
            Messages::Scram(_) => Vec::new(),
            Messages::Long => format!("n,,n=ann,r={}", "x".repeat(LONG_MESSAGE_BYTES)).into_bytes(),
            Messages::Line(_) => panic!("the native protocol has no lines"),
        }
    }
}

impl Scram {
    fn first_bare(&self) -> String {
        format!("n={},r=client-nonce", self.name)
    }

    fn first(&self) -> String {
        format!("{}{}", self.header, self.first_bare())
    }

    fn last(&self, challenge: &[u8]) -> String {
        let challenge = std::str::from_utf8(challenge).expect("a text");
        let attribute = |name: &str| {
            let found = challenge.split(',').find_map(|attribute| attribute.strip_prefix(name));
            found.expect("the server sends it")
        };
        let salt = STANDARD.decode(attribute("s=")).expect("base64");
        let iterations = attribute("i=").parse().expect("a number");
        let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(self.password.as_bytes(), &salt, iterations);
        let client_key = hmac(&salted, b"Client Key");
        let nonce = attribute("r=");
        let without_proof = format!("c={},r={nonce}{}", STANDARD.encode(self.binding), self.nonce_suffix);
        let signed = format!("{},{challenge},{without_proof}", self.first_bare());
        let signature = hmac(&Sha256::digest(&client_key), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, mask)| key ^ mask).collect();
        format!("{without_proof},p={}", STANDARD.encode(proof))
    }
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("keys of every length");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}
