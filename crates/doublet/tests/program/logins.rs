//! The same logins over every protocol of a running server, with the replies to every outcome.
//!
//! A row of [`DIALOGUES`] is played over every protocol, with an initial response and without one, each time over a
//! connection of its own. Its outcome is compared with the reply that [`reply`] requires of the protocol. Logins
//! without SASL are compared in the same way ([`PASSWORD_LOGINS`]).

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
pub(crate) enum Outcome {
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

/// A dialogue: the name of the mechanism, the client's side, and the outcome.
type Row = (&'static str, Messages, Outcome);

/// The client's side of a dialogue after the mechanism.
#[derive(Debug, Clone, Copy)]
enum Messages {
    /// These messages before base64.
    Fixed(&'static [&'static str]),
    /// The messages of SCRAM.
    Scram(Scram),
    /// These messages before base64, and then one that is too long.
    Long(&'static [&'static str]),
    /// This initial response, as it is. The native protocol has no lines.
    InitialLine(&'static str),
    /// The initial response before base64, if there is one, and after the challenge this line, as it is.
    Line(Option<&'static str>, &'static str),
    /// The initial response before base64, if there is one, and after the challenge a line that is too long.
    LongLine(Option<&'static str>),
}

impl Messages {
    /// Returns `true` for the messages that only protocols with lines of base64 can carry.
    fn are_lines(self) -> bool {
        matches!(self, Self::InitialLine(_) | Self::Line(..) | Self::LongLine(_))
    }
}

/// The values that a SCRAM client uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scram {
    pub(crate) name: &'static str,
    pub(crate) password: &'static str,
    /// The GS2 header of the first message.
    pub(crate) header: &'static str,
    /// The GS2 header in the channel binding of the final message.
    pub(crate) binding: &'static str,
    /// Characters after the nonce of the final message.
    pub(crate) nonce_suffix: &'static str,
}

pub(crate) const SCRAM: Scram =
    Scram { name: "ann", password: "sesame street", header: "n,,", binding: "n,,", nonce_suffix: "" };

/// The first message of [`SCRAM`].
const CLIENT_FIRST: &str = "n,,n=ann,r=client-nonce";

const DIALOGUES: &[Row] = &[
    ("PLAIN", Messages::Fixed(&["\0ann\0sesame street"]), Outcome::LoggedIn),
    ("plain", Messages::Fixed(&["Ann@acme.test\0ann\0sesame street"]), Outcome::LoggedIn),
    ("PLAIN", Messages::Fixed(&["CN=ann/O=acme.test\0ann\0sesame street"]), Outcome::LoggedIn),
    ("PLAIN", Messages::Line(None, "AGFubgBzZXNhbWUgc3RyZWV0"), Outcome::LoggedIn),
    ("PLAIN", Messages::Fixed(&["\0ann\0wrong"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0ann\0Sesame street"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0nobody\0sesame street"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0eve\0wrong"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0eve\0sesame street"]), Outcome::Disabled),
    ("PLAIN", Messages::Fixed(&["bob\0ann\0sesame street"]), Outcome::NotAuthorized),
    ("PLAIN", Messages::Fixed(&["nobody\0ann\0sesame street"]), Outcome::NotAuthorized),
    ("PLAIN", Messages::Fixed(&["bob\0ann\0wrong"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["bob\0nobody\0sesame street"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["bob\0eve\0sesame street"]), Outcome::Disabled),
    ("PLAIN", Messages::Fixed(&["\0ann\0sesame\0street"]), Outcome::Malformed),
    ("PLAIN", Messages::Fixed(&["\0ann\0sesame street\0"]), Outcome::Malformed),
    ("PLAIN", Messages::Fixed(&["\0\0sesame street"]), Outcome::Malformed),
    ("PLAIN", Messages::Fixed(&["\0ann\0"]), Outcome::Malformed),
    ("PLAIN", Messages::Fixed(&["ann"]), Outcome::Malformed),
    ("PLAIN", Messages::Fixed(&[""]), Outcome::Malformed),
    // The password is the byte FF.
    ("PLAIN", Messages::Line(None, "AGFubgD/"), Outcome::Malformed),
    ("PLAIN", Messages::Line(None, "*"), Outcome::Cancelled),
    ("PLAIN", Messages::InitialLine("AGFubg"), Outcome::NotBase64),
    ("PLAIN", Messages::Line(None, "AGFubg"), Outcome::NotBase64),
    ("PLAIN", Messages::Line(None, "AGFubgD_"), Outcome::NotBase64),
    ("PLAIN", Messages::Line(None, "AGFubgBzZXNhbWUgc3RyZWV0 "), Outcome::NotBase64),
    ("PLAIN", Messages::LongLine(None), Outcome::TooLong),
    ("LOGIN", Messages::Fixed(&["ann", "sesame street"]), Outcome::LoggedIn),
    ("login", Messages::Fixed(&["ANN@acme.test", "sesame street"]), Outcome::LoggedIn),
    ("LOGIN", Messages::Fixed(&["ann", "wrong"]), Outcome::WrongCredentials),
    ("LOGIN", Messages::Fixed(&["nobody", "sesame street"]), Outcome::WrongCredentials),
    ("LOGIN", Messages::Fixed(&["eve", "wrong"]), Outcome::WrongCredentials),
    ("LOGIN", Messages::Fixed(&["eve", "sesame street"]), Outcome::Disabled),
    ("LOGIN", Messages::Fixed(&[""]), Outcome::Malformed),
    ("LOGIN", Messages::Fixed(&["an\0n"]), Outcome::Malformed),
    ("LOGIN", Messages::Fixed(&["ann", ""]), Outcome::Malformed),
    ("LOGIN", Messages::Fixed(&["ann", "sesame\0street"]), Outcome::Malformed),
    ("LOGIN", Messages::Line(None, "*"), Outcome::Cancelled),
    ("LOGIN", Messages::Line(Some("ann"), "*"), Outcome::Cancelled),
    ("LOGIN", Messages::InitialLine("YW5uYQ"), Outcome::NotBase64),
    ("LOGIN", Messages::Line(Some("ann"), "c2VzYW1lIHN0cmVldA"), Outcome::NotBase64),
    ("LOGIN", Messages::LongLine(Some("ann")), Outcome::TooLong),
    ("SCRAM-SHA-256", Messages::Scram(SCRAM), Outcome::LoggedIn),
    ("SCRAM-SHA-256", Messages::Scram(Scram { header: "y,,", binding: "y,,", ..SCRAM }), Outcome::LoggedIn),
    (
        "SCRAM-SHA-256",
        Messages::Scram(Scram { header: "n,a=Ann@acme.test,", binding: "n,a=Ann@acme.test,", ..SCRAM }),
        Outcome::LoggedIn,
    ),
    ("SCRAM-SHA-256", Messages::Scram(Scram { password: "wrong", ..SCRAM }), Outcome::WrongCredentials),
    ("SCRAM-SHA-256", Messages::Scram(Scram { name: "nobody", ..SCRAM }), Outcome::WrongCredentials),
    ("SCRAM-SHA-256", Messages::Scram(Scram { name: "eve", password: "wrong", ..SCRAM }), Outcome::WrongCredentials),
    ("SCRAM-SHA-256", Messages::Scram(Scram { name: "eve", ..SCRAM }), Outcome::Disabled),
    (
        "SCRAM-SHA-256",
        Messages::Scram(Scram { header: "n,a=bob,", binding: "n,a=bob,", ..SCRAM }),
        Outcome::NotAuthorized,
    ),
    (
        "SCRAM-SHA-256",
        Messages::Scram(Scram { password: "wrong", header: "n,a=bob,", binding: "n,a=bob,", ..SCRAM }),
        Outcome::WrongCredentials,
    ),
    ("SCRAM-SHA-256", Messages::Scram(Scram { binding: "y,,", ..SCRAM }), Outcome::ChannelBinding),
    ("SCRAM-SHA-256", Messages::Scram(Scram { header: "p=tls-exporter,,", ..SCRAM }), Outcome::ChannelBinding),
    // The nonce has characters after it, or ends before the server's part.
    ("SCRAM-SHA-256", Messages::Scram(Scram { nonce_suffix: "x", ..SCRAM }), Outcome::Malformed),
    (
        "SCRAM-SHA-256",
        Messages::Fixed(&[CLIENT_FIRST, "c=biws,r=client-nonce,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]),
        Outcome::Malformed,
    ),
    ("SCRAM-SHA-256", Messages::Fixed(&[CLIENT_FIRST, "c=biws,r=client-nonce,p=AAAA"]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Fixed(&[CLIENT_FIRST, "c=biws,r=client-nonce"]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Fixed(&[CLIENT_FIRST, ""]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Fixed(&["n,,n=,r=client-nonce"]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Fixed(&["n,,n=a=nn,r=client-nonce"]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Fixed(&["n,a=,n=ann,r=client-nonce"]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Fixed(&["nonsense"]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Fixed(&[""]), Outcome::Malformed),
    ("SCRAM-SHA-256", Messages::Long(&[]), Outcome::TooLong),
    ("SCRAM-SHA-256", Messages::Long(&[CLIENT_FIRST]), Outcome::TooLong),
    ("SCRAM-SHA-256", Messages::LongLine(Some(CLIENT_FIRST)), Outcome::TooLong),
    ("SCRAM-SHA-256", Messages::Line(None, "*"), Outcome::Cancelled),
    ("SCRAM-SHA-256", Messages::Line(Some(CLIENT_FIRST), "*"), Outcome::Cancelled),
    ("SCRAM-SHA-256", Messages::Line(Some(CLIENT_FIRST), "AGFubg"), Outcome::NotBase64),
    ("SCRAM-SHA-256-PLUS", Messages::Fixed(&["p=tls-exporter,,n=ann,r=abc"]), Outcome::NotOffered),
    ("EXTERNAL", Messages::Fixed(&["ann"]), Outcome::NotOffered),
    ("OAUTHBEARER", Messages::Fixed(&["n,,\x01auth=Bearer x\x01\x01"]), Outcome::NotOffered),
    ("CRAM-MD5", Messages::Fixed(&["ann"]), Outcome::NotOffered),
];

/// A password that SASLprep changes: to [`PREPARED`].
const UNPREPARED: &str = "pa\u{308}sswort with\u{a0}blank";
const PREPARED: &str = "p\u{e4}sswort with blank";

/// Dialogues with the password [`UNPREPARED`]. The server prepares a password that it receives; the client of SCRAM
/// prepares its own (RFC 5802 §2.2).
const PREPARED_DIALOGUES: &[Row] = &[
    ("PLAIN", Messages::Fixed(&["\0ann\0pa\u{308}sswort with\u{a0}blank"]), Outcome::LoggedIn),
    ("PLAIN", Messages::Fixed(&["\0ann\0p\u{e4}sswort with blank"]), Outcome::LoggedIn),
    ("PLAIN", Messages::Fixed(&["\0ann\0p\u{e4}ss\u{ad}wort with blank"]), Outcome::LoggedIn),
    ("PLAIN", Messages::Fixed(&["\0ann\0passwort with blank"]), Outcome::WrongCredentials),
    ("PLAIN", Messages::Fixed(&["\0ann\0P\u{c4}SSWORT with blank"]), Outcome::WrongCredentials),
    ("LOGIN", Messages::Fixed(&["ann", UNPREPARED]), Outcome::LoggedIn),
    ("LOGIN", Messages::Fixed(&["ann", PREPARED]), Outcome::LoggedIn),
    ("LOGIN", Messages::Fixed(&["ann", "passwort with blank"]), Outcome::WrongCredentials),
    ("SCRAM-SHA-256", Messages::Scram(Scram { password: PREPARED, ..SCRAM }), Outcome::LoggedIn),
    ("SCRAM-SHA-256", Messages::Scram(Scram { password: UNPREPARED, ..SCRAM }), Outcome::WrongCredentials),
];

/// Dialogues over one connection: two failed attempts, which a connection may have, other failures, and a login.
const RETRIES: &[Row] = &[
    ("PLAIN", Messages::Line(None, "*"), Outcome::Cancelled),
    ("PLAIN", Messages::Fixed(&["\0ann\0wrong"]), Outcome::WrongCredentials),
    ("SCRAM-SHA-256", Messages::Line(Some(CLIENT_FIRST), "*"), Outcome::Cancelled),
    ("CRAM-MD5", Messages::Fixed(&["ann"]), Outcome::NotOffered),
    ("LOGIN", Messages::Line(Some("ann"), "c2VzYW1lIHN0cmVldA"), Outcome::NotBase64),
    ("SCRAM-SHA-256", Messages::Scram(Scram { password: "wrong", ..SCRAM }), Outcome::WrongCredentials),
    ("SCRAM-SHA-256", Messages::Scram(SCRAM), Outcome::LoggedIn),
];

/// Logins without SASL: name, password, outcome.
const PASSWORD_LOGINS: &[(&str, &str, Outcome)] = &[
    ("ann", "sesame street", Outcome::LoggedIn),
    ("ANN@acme.test", "sesame street", Outcome::LoggedIn),
    ("ann", "wrong", Outcome::WrongCredentials),
    ("ann", "sesame street ", Outcome::WrongCredentials),
    ("ann", "", Outcome::WrongCredentials),
    ("nobody", "sesame street", Outcome::WrongCredentials),
    ("eve", "wrong", Outcome::WrongCredentials),
    ("eve", "sesame street", Outcome::Disabled),
];

/// Returns the beginning of the reply of a protocol.
pub(crate) fn reply(protocol: LoginProtocol, outcome: Outcome) -> &'static str {
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

/// Creates a data folder with ann, bob and eve, whose account is disabled.
fn folder_with_people() -> TestFolder {
    let mut folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test", "eve@acme.test"]);
    // Throttling is not the subject of these tests.
    folder.options.extend(["--set".to_owned(), "directory.login_failures=1000".to_owned()]);
    folder.check(&["user", "set", "eve", "--disable"], "was changed");
    folder
}

#[test]
fn sasl_dialogues_have_the_expected_reply_in_every_protocol() {
    let folder = folder_with_people();
    let server = folder.serve();
    check_dialogues(&folder, &server, DIALOGUES);
    server.stop();
}

#[test]
fn equivalent_spellings_of_a_password_log_in_over_every_protocol() {
    let folder = folder_with_people();
    folder.check_input(&["user", "set", "ann", "--password-stdin"], &format!("{UNPREPARED}\n"), "was changed");
    let server = folder.serve();
    check_dialogues(&folder, &server, PREPARED_DIALOGUES);
    for protocol in [Imap, Pop3, Native] {
        for password in [UNPREPARED, PREPARED] {
            let received = log_in(&folder, &server, protocol, "ann", password);
            assert!(received.starts_with(reply(protocol, Outcome::LoggedIn)), "{protocol}: {password}: {received}");
        }
    }
    server.stop();
}

#[test]
fn logins_without_sasl_have_the_replies_of_sasl() {
    let folder = folder_with_people();
    let server = folder.serve();
    for (name, password, outcome) in PASSWORD_LOGINS {
        for protocol in [Imap, Pop3, Native] {
            let received = log_in(&folder, &server, protocol, name, password);
            let expected = reply(protocol, *outcome);
            assert!(received.starts_with(expected), "{protocol}: {name} {password:?}: {received}, not {expected}");
        }
    }
    server.stop();
}

/// Where the syntax of a protocol allows an empty name or NUL, the reply is that to a wrong password.
#[test]
fn empty_names_and_nul_without_sasl_are_refused() {
    let folder = folder_with_people();
    let server = folder.serve();
    let check = |protocol: LoginProtocol, line: &str, expected: &str| {
        let mut dialogue = greeted(&server, protocol);
        dialogue.say(line);
        let received = final_reply(&mut dialogue);
        assert!(received.starts_with(expected), "{protocol}: {line:?}: {received}, not {expected}");
    };
    check(Imap, "a LOGIN \"\" \"sesame street\"", reply(Imap, Outcome::WrongCredentials));
    check(Imap, "a LOGIN ann {13+}\r\nsesame\0street", reply(Imap, Outcome::WrongCredentials));
    check(Imap, "a LOGIN ann \"sesame\0street\"", "a BAD expected the end of the quoted string");
    check(Imap, "a LOGIN ann", "a BAD expected a space");
    check(Pop3, "USER", "-ERR the user name is missing");
    check(Pop3, "USER an\0n", "-ERR the line contains invalid characters");
    check(Pop3, "PASS sesame street", "-ERR send USER first");
    for (name, password) in [("", "sesame street"), ("an\0n", "sesame street"), ("ann", "sesame\0street")] {
        let received = log_in(&folder, &server, Native, name, password);
        assert!(received.starts_with(reply(Native, Outcome::WrongCredentials)), "{name:?} {password:?}: {received}");
    }
    server.stop();
}

#[test]
fn client_can_log_in_after_failed_attempts_on_the_same_connection() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    for protocol in [Imap, Pop3, Submission] {
        let mut dialogue = greeted(&server, protocol);
        for row in RETRIES {
            check_reply(protocol, row, &play_lines(&mut dialogue, protocol, row.0, row.1));
        }
    }
    over_native(&folder, &server, |client| async move {
        for row in RETRIES.iter().filter(|row| !row.1.are_lines()) {
            check_reply(Native, row, &show(authenticate(&client, row.0, row.1).await));
        }
    });
    server.stop();
}

#[test]
fn line_that_is_too_long_ends_the_connection_except_in_submission() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    let too_long: Row = ("PLAIN", Messages::LongLine(None), Outcome::TooLong);
    let login: Row = ("PLAIN", Messages::Fixed(&["\0ann\0sesame street"]), Outcome::LoggedIn);
    for protocol in [Imap, Pop3, Submission] {
        let mut dialogue = greeted(&server, protocol);
        check_reply(protocol, &too_long, &play_lines(&mut dialogue, protocol, too_long.0, too_long.1));
        match protocol {
            Submission => check_reply(protocol, &login, &play_lines(&mut dialogue, protocol, login.0, login.1)),
            Imap => assert_eq!(rest_of(&mut dialogue), "* BYE the line is too long\r\n"),
            _ => assert_eq!(rest_of(&mut dialogue), "", "{protocol}"),
        }
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
        let rest = rest_of(&mut dialogue);
        let goodbye = if protocol == Submission { "421 4.7.0 " } else { "" };
        assert!(rest.starts_with(goodbye), "{protocol}: {rest:?}");
    }
    server.stop();
}

/// Plays dialogues over every protocol and checks the replies.
fn check_dialogues(folder: &TestFolder, server: &Server, dialogues: &[Row]) {
    for row in dialogues {
        for protocol in PROTOCOLS {
            for received in play(folder, server, protocol, row.0, row.1) {
                check_reply(protocol, row, &received);
            }
        }
    }
}

/// Checks that a reply is that to the outcome of a dialogue. The native protocol does not offer LOGIN.
fn check_reply(protocol: LoginProtocol, row: &Row, received: &str) {
    let (mechanism, messages, outcome) = row;
    let is_missing = protocol == Native && mechanism.eq_ignore_ascii_case("LOGIN");
    let expected = reply(protocol, if is_missing { Outcome::NotOffered } else { *outcome });
    assert!(received.starts_with(expected), "{protocol}: {mechanism} {messages:?}: {received}, not {expected}");
}

/// Plays a dialogue over a protocol in every way in which the protocol carries it, each time over a connection of its
/// own. Returns the replies.
fn play(
    folder: &TestFolder,
    server: &Server,
    protocol: LoginProtocol,
    mechanism: &str,
    messages: Messages,
) -> Vec<String> {
    if protocol == Native && messages.are_lines() {
        return Vec::new();
    }
    if protocol == Native {
        return vec![play_native(folder, server, mechanism, messages)];
    }
    let mut replies = vec![play_lines(&mut greeted(server, protocol), protocol, mechanism, messages)];
    if matches!(messages, Messages::Fixed(_) | Messages::Scram(_)) {
        let mut client = ClientSide::new(messages);
        let mut dialogue = greeted(server, protocol);
        replies.push(exchange(&mut dialogue, protocol, mechanism, |challenge| client.answer(challenge)));
    }
    replies
}

/// Plays a dialogue over a protocol with lines of base64, with an initial response if its length permits. Returns the
/// reply.
fn play_lines(dialogue: &mut Dialogue, protocol: LoginProtocol, mechanism: &str, messages: Messages) -> String {
    match messages {
        Messages::InitialLine(response) => {
            begin(dialogue, protocol, mechanism, Some(response));
            final_reply(dialogue)
        }
        Messages::Line(first, line) => answer_once(dialogue, protocol, mechanism, first, line),
        Messages::LongLine(first) => answer_once(dialogue, protocol, mechanism, first, &long_line(protocol)),
        // The commands of POP3 have shorter lines than the exchange.
        Messages::Long(_) => {
            let mut client = ClientSide::new(messages);
            exchange(dialogue, protocol, mechanism, |challenge| client.answer(challenge))
        }
        Messages::Fixed(_) | Messages::Scram(_) => {
            let mut client = ClientSide::new(messages);
            let first = initial_response(&client.answer(b""));
            begin(dialogue, protocol, mechanism, Some(&first));
            answer_challenges(dialogue, protocol, |challenge| client.answer(challenge))
        }
    }
}

/// Answers the first challenge with a line. Returns the reply.
fn answer_once(
    dialogue: &mut Dialogue,
    protocol: LoginProtocol,
    mechanism: &str,
    first: Option<&str>,
    line: &str,
) -> String {
    let first = first.map(|message| initial_response(message.as_bytes()));
    begin(dialogue, protocol, mechanism, first.as_deref());
    challenge(&dialogue.line(), protocol).expect("a challenge");
    dialogue.say(line);
    final_reply(dialogue)
}

/// Returns a line of an exchange that is one byte too long. IMAP does not count the line end.
fn long_line(protocol: LoginProtocol) -> String {
    "A".repeat(if protocol == Imap { (16 << 10) + 1 } else { 12_288 - 1 })
}

/// Returns a message as an initial response: base64, and `=` if it is empty.
fn initial_response(message: &[u8]) -> String {
    if message.is_empty() { "=".to_owned() } else { STANDARD.encode(message) }
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
    dialogue.say(&authentication_command(protocol, mechanism, initial_response));
}

/// Returns the command that begins an exchange.
pub(crate) fn authentication_command(
    protocol: LoginProtocol,
    mechanism: &str,
    initial_response: Option<&str>,
) -> String {
    let command = if protocol == Imap { "a AUTHENTICATE" } else { "AUTH" };
    let response = initial_response.map(|response| format!(" {response}")).unwrap_or_default();
    format!("{command} {mechanism}{response}")
}

/// Returns the challenge in a line of the server, or `None` if it is another line.
pub(crate) fn challenge(line: &str, protocol: LoginProtocol) -> Option<Vec<u8>> {
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

/// Reads until the server closes the connection.
fn rest_of(dialogue: &mut Dialogue) -> String {
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut dialogue.reader, &mut rest).expect("the server ends the connection");
    rest
}

/// Logs in with a password without SASL over a connection of its own. Returns the reply.
fn log_in(folder: &TestFolder, server: &Server, protocol: LoginProtocol, name: &str, password: &str) -> String {
    if protocol == Native {
        return over_native(folder, server, |client| async move {
            let request = v1::LoginRequest { login: name.to_owned(), password: password.to_owned() };
            show(client.sessions().login(request).await.map(|reply| session_name(reply.into_inner())))
        });
    }
    let mut dialogue = greeted(server, protocol);
    if protocol == Imap {
        dialogue.say(&format!("a LOGIN \"{name}\" \"{password}\""));
    } else {
        dialogue.ask(&format!("USER {name}"), "+OK");
        dialogue.say(&format!("PASS {password}"));
    }
    final_reply(&mut dialogue)
}

/// Plays a dialogue over the native protocol. Returns the reply.
fn play_native(folder: &TestFolder, server: &Server, mechanism: &str, messages: Messages) -> String {
    over_native(folder, server, |client| async move { show(authenticate(&client, mechanism, messages).await) })
}

/// Runs calls over a connection of the native protocol.
fn over_native<T, F: Future<Output = T>>(folder: &TestFolder, server: &Server, calls: impl FnOnce(Client) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = folder.options(server);
    runtime.block_on(async {
        let client = Client::connect(&options).await.expect("the server is there");
        calls(client).await
    })
}

/// Formats the outcome of a call: the name in the session, or the code, the reason and the message.
fn show(outcome: Result<String, client::Status>) -> String {
    outcome.unwrap_or_else(|status| format!("{:?} {} {}", status.code(), client::reason(&status), status.message()))
}

fn session_name(login: v1::LoginReply) -> String {
    format!("session {}", login.session.expect("a session").name)
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
            return Ok(session_name(login));
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
            Messages::Scram(scram) if number == 1 => scram.last(challenge, b"").into_bytes(),
            Messages::Scram(_) => Vec::new(),
            Messages::Long(messages) => match messages.get(number) {
                Some(message) => message.as_bytes().to_vec(),
                None => format!("n,,n=ann,r={}", "x".repeat(LONG_MESSAGE_BYTES)).into_bytes(),
            },
            Messages::InitialLine(_) | Messages::Line(..) | Messages::LongLine(_) => panic!("these are lines"),
        }
    }
}

impl Scram {
    fn first_bare(&self) -> String {
        format!("n={},r=client-nonce", self.name)
    }

    pub(crate) fn first(&self) -> String {
        format!("{}{}", self.header, self.first_bare())
    }

    /// Returns the final message, with the data of the channel binding.
    pub(crate) fn last(&self, challenge: &[u8], binding_data: &[u8]) -> String {
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
        let binding = STANDARD.encode([self.binding.as_bytes(), binding_data].concat());
        let without_proof = format!("c={binding},r={nonce}{}", self.nonce_suffix);
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
