//! One session as a state machine: bytes in, replies and questions out. No socket, no clock of its own, no waiting.
//!
//! [`Session::step`] takes input until it needs more, or until it needs an answer that only the rest of the server
//! knows ([`Question`]): who a recipient is, whether a password is right, whether the message is taken. The caller
//! answers with [`Session::answer`] and steps on. Replies gather in a buffer of the caller's, so that those to a
//! pipelined group leave together.
//!
//! Invariants:
//! - at most one question is open; while one is, no input is taken;
//! - a transaction has a sender that was permitted, and only recipients that were accepted;
//! - what came in clear before STARTTLS has no effect after it: no name, no login, no transaction, no input;
//! - nothing that a peer sends makes the session hold more than its limits, or panic (fuzzed).

use std::sync::Arc;

use base::{Clock, Random};
use wire::Peer;

use crate::backend::{Exchange, ExchangeStep, LoginError, RecipientReply};
use crate::cmd::{self, Call};
use crate::codec::data::{Content, DataReader, Progress};
use crate::codec::line::{Line, LineEndings, first_line, split_verb};
use crate::codec::reply;
use crate::envelope::{Envelope, Place, Protocol, Recipient, Sender};
use crate::error::{Refusal, Status};
use crate::limits::{AUTH_LINE_BYTES_MAX, COMMAND_LINE_BYTES_MAX, OVERSIZE_BYTES_MAX, REPLIES_BYTES_MAX};
use crate::rules::{Encryption, Pipelining, Role, Rules};
use crate::trace::{Hop, received};

mod transaction;

pub(crate) use transaction::{Chunk, Transaction};

/// What the caller has to do next.
#[derive(Debug)]
pub enum Step {
    /// Send the replies, then bring more input.
    Read,
    /// Send the replies, then step again with the same input.
    Flush,
    /// Find the answer and give it to [`Session::answer`].
    Ask(Question),
    /// Send the replies, throw away all input, shake hands, call [`Session::encrypted`].
    StartTls,
    /// Send the replies and close the connection.
    Close,
}

/// What a session must know from the rest of the server.
pub enum Question {
    /// May this sender send a message of this size (0: not said)?
    Sender { sender: Arc<Sender>, size_bytes: u64 },
    /// Who is this recipient?
    Recipient { sender: Arc<Sender>, address: String },
    /// Who are the members of this list?
    Members { sender: Arc<Sender>, list: String },
    /// Is this password right?
    Login { login: String, password: Vec<u8> },
    /// What does SCRAM-SHA-256 say to this? Without an exchange a new one begins.
    Scram { exchange: Option<Box<dyn Exchange>>, response: Vec<u8> },
    /// Is this message taken? Its first `trace_bytes` are the trace field of ours.
    Message { envelope: Box<Envelope>, message: Vec<u8>, trace_bytes: usize },
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sender { .. } => "Sender",
            Self::Recipient { .. } => "Recipient",
            Self::Members { .. } => "Members",
            Self::Login { .. } => "Login",
            Self::Scram { .. } => "Scram",
            Self::Message { .. } => "Message",
        })
    }
}

/// The answer to a [`Question`]; the variants have the questions' names.
pub enum Answer {
    /// Whether the sender may send.
    Sender(Result<(), Refusal>),
    /// Who the recipient is.
    Recipient(RecipientReply),
    /// The members of the list, if there is one.
    Members(Option<Vec<String>>),
    /// The login in its proper spelling.
    Login(Result<String, LoginError>),
    /// The exchange and its next step; none if the mechanism is not there.
    Scram(Option<(Box<dyn Exchange>, Result<ExchangeStep, LoginError>)>),
    /// The identifier of the message, which is durable now, and the recipients by index for which it was not taken.
    Message(Result<Taken, Refusal>),
}

/// A message that was taken and is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// What the peer is told.
    pub id: String,
    /// Recipients, by index, that were refused after all (LMTP only).
    pub refused: Vec<(usize, Refusal)>,
}

/// How a session goes on after a command.
#[derive(Debug)]
pub(crate) enum Flow {
    /// With the next input.
    Continue,
    /// Not without more input.
    Read,
    /// With the answer to this.
    Ask(Question),
    /// With TLS.
    StartTls,
    /// Not at all.
    Close,
}

/// What the next bytes of the input are.
pub(crate) enum Phase {
    /// A command line.
    Command,
    /// The rest of a line that was too long.
    SkipLine,
    /// A line of an authentication.
    Auth(cmd::auth::Awaited),
    /// The text of a message after DATA.
    Data(DataReader),
    /// A chunk after BDAT.
    Chunk(Chunk),
    /// Nothing: a question is open.
    Asked(Asked),
    /// Nothing: the session is over.
    Closed,
}

/// What the open question was about, as far as the answer does not say.
pub(crate) enum Asked {
    Sender,
    Recipient(Box<Recipient>),
    Verify(String),
    Members,
    Login,
    Scram,
    Message { recipients: usize },
}

/// What a session has used up.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub commands: u64,
    pub errors: u32,
    pub auth_failures: u32,
    pub messages: u64,
}

/// One session. See the module's documentation.
pub struct Session {
    pub(crate) rules: Arc<Rules>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) peer: Peer,
    pub(crate) cipher: Option<&'static str>,
    pub(crate) helo: Option<(String, Protocol)>,
    pub(crate) login: Option<String>,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) phase: Phase,
    pub(crate) counts: Counts,
    /// Drawn once; with the number of the message it makes identifiers.
    serial: u64,
    /// Messages that have got an identifier.
    numbered: u64,
}

impl Session {
    /// Begins a session. A peer whose `tls` is set has implicit TLS.
    #[must_use]
    pub fn new(rules: Arc<Rules>, clock: Arc<dyn Clock>, random: &dyn Random, peer: Peer) -> Self {
        Self {
            rules,
            clock,
            peer,
            cipher: None,
            helo: None,
            login: None,
            transaction: None,
            phase: Phase::Command,
            counts: Counts::default(),
            serial: random.next_u64() >> 16,
            numbered: 0,
        }
    }

    /// Writes the greeting.
    pub fn greet(&self, out: &mut Vec<u8>) {
        let protocol = if self.rules.role == Role::Lmtp { "LMTP" } else { "ESMTP" };
        reply::write_lines(out, 220, &[&format!("{} {protocol} Doublet", self.rules.hostname)]);
    }

    /// Takes input and writes replies; gives how much of the input was used and what to do next.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let (taken, flow) = self.take(rest, out);
            used += taken;
            let step = match flow {
                Flow::Continue if out.len() > REPLIES_BYTES_MAX => Step::Flush,
                Flow::Continue => continue,
                Flow::Read => Step::Read,
                Flow::Ask(question) => Step::Ask(question),
                Flow::StartTls => Step::StartTls,
                Flow::Close => {
                    self.phase = Phase::Closed;
                    Step::Close
                }
            };
            return (used, step);
        }
    }

    /// Takes the answer to the open question and writes the reply.
    pub fn answer(&mut self, answer: Answer, out: &mut Vec<u8>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Command);
        let Phase::Asked(asked) = phase else {
            base::always!(false, "an answer needs an open question");
            self.phase = phase;
            return;
        };
        let flow = match (asked, answer) {
            (Asked::Sender, Answer::Sender(verdict)) => cmd::mail::answered(self, verdict, out),
            (Asked::Recipient(recipient), Answer::Recipient(verdict)) => {
                cmd::rcpt::answered(self, *recipient, verdict, out)
            }
            (Asked::Verify(address), Answer::Recipient(verdict)) => cmd::vrfy::answered(self, &address, verdict, out),
            (Asked::Members, Answer::Members(members)) => cmd::expn::answered(self, members, out),
            (Asked::Login, Answer::Login(verdict)) => cmd::auth::answered(self, verdict, out),
            (Asked::Scram, Answer::Scram(next)) => cmd::auth::scram_answered(self, next, out),
            (Asked::Message { recipients }, Answer::Message(verdict)) => {
                self.message_answered(recipients, verdict, out)
            }
            _ => {
                base::always!(false, "an answer must fit its question");
                self.fail(out, &Refusal::later())
            }
        };
        if matches!(flow, Flow::Close) {
            self.phase = Phase::Closed;
        }
    }

    /// Begins anew after the handshake of STARTTLS.
    pub fn encrypted(&mut self, cipher: Option<&'static str>) {
        self.peer = self.peer.encrypted();
        self.cipher = cipher;
        self.helo = None;
        self.login = None;
        self.transaction = None;
        self.phase = Phase::Command;
    }

    /// Says good-bye to a peer that talked before the greeting.
    pub fn refuse_early_talker(&mut self, out: &mut Vec<u8>) {
        self.end(out, 521, Status(5, 5, 1), "Protocol error: you must wait for the greeting");
    }

    /// Says good-bye to a peer that was silent for too long, or stayed for too long.
    pub fn time_out(&mut self, out: &mut Vec<u8>) {
        self.end(out, 421, Status(4, 4, 2), "Timeout, closing connection");
    }

    /// Says good-bye because the server ends.
    pub fn shut_down(&mut self, out: &mut Vec<u8>) {
        self.end(out, 421, Status(4, 3, 2), "Service shutting down, try again later");
    }

    /// Says good-bye because the account that has logged in is not what it was.
    pub fn dismiss(&mut self, out: &mut Vec<u8>) {
        self.end(out, 421, Status(4, 7, 0), "Account disabled, removed or given another password, closing connection");
    }

    /// Tells whether the session waits for a command and nothing was begun that would be lost.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Command) && self.transaction.is_none()
    }

    fn end(&mut self, out: &mut Vec<u8>, code: u16, status: Status, text: &str) {
        reply::write(out, code, status, text);
        self.transaction = None;
        self.phase = Phase::Closed;
    }

    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Flow) {
        match &mut self.phase {
            Phase::Closed => (0, Flow::Close),
            Phase::Asked(_) => {
                base::always!(false, "no step while a question is open");
                (0, Flow::Close)
            }
            _ if input.is_empty() => (0, Flow::Read),
            Phase::Command => self.take_command(input, out),
            Phase::SkipLine => self.skip_line(input),
            Phase::Auth(_) => self.take_auth(input, out),
            Phase::Data(reader) => {
                let (taken, progress) = reader.push(input);
                let too_much =
                    reader.content().received() > OVERSIZE_BYTES_MAX.saturating_add(self.message_bytes_max());
                match progress {
                    Progress::End => (taken, self.end_data(out)),
                    Progress::More if too_much => (taken, self.cut_off(out)),
                    Progress::More => (taken, Flow::Read),
                }
            }
            Phase::Chunk(_) => cmd::bdat::take_chunk(self, input, out),
        }
    }

    fn take_command(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Flow) {
        let (line, taken) = match first_line(input, AUTH_LINE_BYTES_MAX, self.rules.line_endings) {
            Line::Complete(line, taken) => (line, taken),
            Line::Incomplete => return (0, Flow::Read),
            Line::Faulty(taken) => return (taken, self.refuse_line_end(out)),
            Line::TooLong(taken) => {
                if input.get(..taken).and_then(<[u8]>::last) != Some(&b'\n') {
                    self.phase = Phase::SkipLine;
                }
                return (taken, self.refuse(out, 500, Status(5, 5, 2), "Line too long"));
            }
        };
        self.counts.commands = self.counts.commands.saturating_add(1);
        if self.counts.commands > self.rules.commands_max {
            self.end(out, 421, Status(4, 7, 0), "Too many commands, closing connection");
            return (taken, Flow::Close);
        }
        let rest = input.get(taken..).unwrap_or_default();
        (taken, self.run(line, rest, out))
    }

    fn run(&mut self, line: &[u8], rest: &[u8], out: &mut Vec<u8>) -> Flow {
        let Ok(line) = std::str::from_utf8(line) else {
            return self.refuse(out, 500, Status(5, 5, 2), "Syntax error: not UTF-8");
        };
        if line.contains('\0') {
            return self.refuse(out, 500, Status(5, 5, 2), "Syntax error: NUL");
        }
        let (name, arguments) = split_verb(line);
        let Some(verb) = cmd::find(name, self.rules.role) else {
            return self.refuse(out, 500, Status(5, 5, 1), "Command not recognized");
        };
        if line.len() + 2 > COMMAND_LINE_BYTES_MAX && !verb.long_line {
            return self.refuse(out, 500, Status(5, 5, 2), "Line too long");
        }
        if self.rules.encryption == Encryption::Required && !self.peer.is_private() && !verb.in_clear {
            return self.refuse(out, 530, Status(5, 7, 0), "Must issue a STARTTLS command first");
        }
        if verb.ends_group && !rest.is_empty() && self.rules.pipelining == Pipelining::Strict {
            self.end(out, 554, Status(5, 5, 0), "Protocol error: wait for the answer before you go on");
            return Flow::Close;
        }
        (verb.run)(self, &mut Call { arguments, out })
    }

    fn skip_line(&mut self, input: &[u8]) -> (usize, Flow) {
        match memchr::memchr(b'\n', input) {
            Some(end) => {
                self.phase = Phase::Command;
                (end + 1, Flow::Continue)
            }
            None => (input.len(), Flow::Read),
        }
    }

    fn take_auth(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Flow) {
        match first_line(input, AUTH_LINE_BYTES_MAX, self.rules.line_endings) {
            Line::Incomplete => (0, Flow::Read),
            Line::Complete(line, taken) => {
                let phase = std::mem::replace(&mut self.phase, Phase::Command);
                let Phase::Auth(awaited) = phase else { return (taken, Flow::Close) };
                (taken, cmd::auth::take_line(self, awaited, line, out))
            }
            Line::Faulty(taken) => (taken, self.refuse_line_end(out)),
            Line::TooLong(taken) => {
                let ended = input.get(..taken).and_then(<[u8]>::last) == Some(&b'\n');
                self.phase = if ended { Phase::Command } else { Phase::SkipLine };
                (taken, self.refuse(out, 500, Status(5, 5, 6), "Authentication line too long"))
            }
        }
    }

    /// Counts and writes a refusal that is the client's fault; too many of them end the session.
    pub(crate) fn refuse(&mut self, out: &mut Vec<u8>, code: u16, status: Status, text: &str) -> Flow {
        reply::write(out, code, status, text);
        self.counts.errors = self.counts.errors.saturating_add(1);
        if self.counts.errors >= self.rules.errors_max {
            self.end(out, 421, Status(4, 7, 0), "Too many errors, closing connection");
            return Flow::Close;
        }
        Flow::Continue
    }

    /// The same with a refusal as it stands.
    pub(crate) fn fail(&mut self, out: &mut Vec<u8>, refusal: &Refusal) -> Flow {
        self.refuse(out, refusal.code, refusal.status, &refusal.text)
    }

    fn refuse_line_end(&mut self, out: &mut Vec<u8>) -> Flow {
        if self.rules.line_endings == LineEndings::Reject {
            self.end(out, 521, Status(5, 5, 2), "Bare CR or LF in a command, closing connection");
            return Flow::Close;
        }
        self.phase = Phase::Command;
        self.refuse(out, 500, Status(5, 5, 2), "Bare CR in a command")
    }

    pub(crate) fn cut_off(&mut self, out: &mut Vec<u8>) -> Flow {
        self.end(out, 552, Status(5, 3, 4), "Message far too large, closing connection");
        Flow::Close
    }

    pub(crate) fn message_bytes_max(&self) -> u64 {
        u64::try_from(self.rules.message_bytes_max).unwrap_or(u64::MAX)
    }

    /// Gives who sends; before MAIL the reverse path is empty.
    pub(crate) fn sender(&self) -> Arc<Sender> {
        match &self.transaction {
            Some(transaction) => Arc::clone(&transaction.sender),
            None => Arc::new(Sender { peer: self.peer, login: self.login.clone(), reverse_path: String::new() }),
        }
    }

    /// Gives the identifier of the message that comes now.
    pub(crate) fn next_id(&mut self) -> String {
        self.numbered += 1;
        format!("{:012x}-{}", self.serial, self.numbered)
    }

    /// Gives an empty message with its trace field, ready to take the text.
    pub(crate) fn open_content(&mut self) -> Content {
        let received_at = self.clock.now();
        let id = self.next_id();
        let limit = self.rules.message_bytes_max;
        let Some(transaction) = self.transaction.as_mut() else { return Content::new(b"", limit, 0) };
        let (helo, protocol) = match &self.helo {
            Some((helo, protocol)) => (helo.as_str(), *protocol),
            None => ("", Protocol::Smtp),
        };
        let only = match transaction.recipients.as_slice() {
            [recipient] => Some(recipient.address.as_str()),
            _ => None,
        };
        let trace = received(&Hop {
            helo,
            peer: &self.peer,
            hostname: &self.rules.hostname,
            protocol,
            smtputf8: transaction.parameters.smtputf8,
            authenticated: self.login.is_some(),
            cipher: self.cipher,
            id: &id,
            recipient: only,
            received: received_at,
        });
        transaction.id = id;
        transaction.received = received_at;
        let expected = transaction.parameters.size.and_then(|size| usize::try_from(size).ok()).unwrap_or(16 << 10);
        Content::new(trace.as_bytes(), limit, expected)
    }

    fn end_data(&mut self, out: &mut Vec<u8>) -> Flow {
        let phase = std::mem::replace(&mut self.phase, Phase::Command);
        let Phase::Data(reader) = phase else { return Flow::Close };
        self.submit(reader.into_content(), out)
    }

    /// Checks a message that has come whole and asks whether it is taken.
    pub(crate) fn submit(&mut self, content: Content, out: &mut Vec<u8>) -> Flow {
        let Some(transaction) = self.transaction.take() else { return Flow::Close };
        let recipients = transaction.recipients.len();
        match transaction.complete(self, content) {
            Ok((envelope, message, trace_bytes)) => {
                self.phase = Phase::Asked(Asked::Message { recipients });
                Flow::Ask(Question::Message { envelope, message, trace_bytes })
            }
            Err(refusal) => self.refuse_message(recipients, &refusal, out),
        }
    }

    fn message_answered(&mut self, recipients: usize, verdict: Result<Taken, Refusal>, out: &mut Vec<u8>) -> Flow {
        let taken = match verdict {
            Ok(taken) => taken,
            Err(refusal) => return self.refuse_message(recipients, &refusal, out),
        };
        self.counts.messages = self.counts.messages.saturating_add(1);
        let text = format!("Ok: queued as {}", taken.id);
        if self.rules.role != Role::Lmtp {
            reply::write(out, 250, Status(2, 0, 0), &text);
            return Flow::Continue;
        }
        for index in 0..recipients {
            match taken.refused.iter().find(|(refused, _)| *refused == index) {
                Some((_, refusal)) => reply::write_refusal(out, refusal),
                None => reply::write(out, 250, Status(2, 0, 0), &text),
            }
        }
        Flow::Continue
    }

    /// Refuses a message: once, or for each recipient where LMTP wants that.
    fn refuse_message(&mut self, recipients: usize, refusal: &Refusal, out: &mut Vec<u8>) -> Flow {
        if self.rules.role == Role::Lmtp {
            (1..recipients).for_each(|_| reply::write_refusal(out, refusal));
        }
        self.fail(out, refusal)
    }

    /// Gives whether a recipient in this place may be sent to in this session.
    pub(crate) fn may_send_to(&self, place: Place) -> bool {
        place == Place::Local || (self.login.is_some() && self.rules.role != Role::Lmtp)
    }
}
