//! A connection without a socket: the session, and the work of the connection's task around it. A session without a
//! connection, for tests of what happens between two slices.

use std::collections::VecDeque;
use std::sync::Arc;

use imap::codec::{CommandDecoder, DecodeResult, ResponseWriter};
use imap::session::{ConnectionAction, Session, SessionContext};
use sasl::ChannelBinding;
use wire::Peer;

use crate::world::TestServer;

/// The client side of a connection. It is fed with bytes and collects the server's output line by line.
pub struct Connection {
    session: Session,
    decoder: CommandDecoder,
    out: ResponseWriter,
    action: ConnectionAction,
    /// Number of times that an unfinished command was resumed.
    pub resumed: usize,
    /// Lines from the server that have not been consumed yet.
    pub lines: VecDeque<String>,
}

impl Connection {
    /// Connects to a world.
    pub fn new(world: &TestServer, peer: Peer) -> Self {
        Self::at(&world.context, peer)
    }

    /// Connects to one of the sites of a world.
    pub fn at(context: &Arc<SessionContext>, peer: Peer) -> Self {
        let session = Session::new(Arc::clone(context), peer);
        let decoder = session.decoder();
        Self {
            session,
            decoder,
            out: ResponseWriter::new(),
            action: ConnectionAction::Ready,
            resumed: 0,
            lines: VecDeque::new(),
        }
    }

    /// Returns an error if there are lines that have not been consumed.
    pub fn check_all_consumed(&self) -> Result<(), String> {
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        if lines.is_empty() { Ok(()) } else { Err(format!("not expected:\n  {}", lines.join("\n  "))) }
    }

    /// Processes bytes from the client.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
        loop {
            self.session.configure(&mut self.decoder);
            if matches!(self.action, ConnectionAction::Line | ConnectionAction::Idle) {
                let Some(line) = self.decoder.decode_line() else { break };
                let line = line.expect("lines of dialogues are short");
                let action = self.session.answer(&line, &mut self.out);
                self.settle(action);
                continue;
            }
            let action = match self.decoder.decode() {
                DecodeResult::Incomplete => break,
                DecodeResult::Continue => {
                    self.out.continuation("go on");
                    ConnectionAction::Ready
                }
                DecodeResult::Command(verb, command) => self.session.execute(verb, command, &mut self.out),
                DecodeResult::Refused(refusal) => self.session.refuse(&refusal, &mut self.out),
                DecodeResult::Fatal(error) => {
                    self.out.untagged_line(&format!("BYE {error}"));
                    ConnectionAction::Close
                }
            };
            self.settle(action);
        }
        self.collect();
    }

    /// Performs an action as the connection's task would.
    fn settle(&mut self, mut action: ConnectionAction) {
        while action == ConnectionAction::Unfinished {
            self.collect();
            self.resumed += 1;
            action = self.session.resume(&mut self.out);
        }
        if action == ConnectionAction::StartTls {
            self.session.set_encrypted(vec![ChannelBinding::TlsExporter([b'e'; 32])]);
        }
        self.action = action;
    }

    /// Reports the changes of other clients to a client that is idle or that watches mailboxes.
    pub fn wake(&mut self) {
        let between = self.action == ConnectionAction::Ready && self.session.listen_between_commands().is_some();
        if self.action == ConnectionAction::Idle || (between && self.session.has_unreported_changes()) {
            let action = self.session.resume(&mut self.out);
            self.settle(action);
            self.collect();
        }
    }

    fn collect(&mut self) {
        if let Some(durable) = self.session.take_durability_wait() {
            durable.wait().expect("the store works");
        }
        if let Some(fault) = self.session.take_server_fault() {
            panic!("a fault of ours: {fault}");
        }
        let bytes = self.out.take();
        let text = String::from_utf8_lossy(&bytes);
        self.lines.extend(text.split_terminator("\r\n").map(str::to_owned));
    }
}

/// A session of alice in INBOX. The test decides when the next slice of a command is executed.
pub struct SteppedSession {
    session: Session,
    out: ResponseWriter,
}

impl SteppedSession {
    /// Logs in and selects INBOX.
    pub fn in_inbox(world: &TestServer) -> Self {
        let session = Session::new(Arc::clone(&world.context), Peer::local());
        let mut stepped = Self { session, out: ResponseWriter::new() };
        for line in ["LOGIN alice secret", "SELECT INBOX"] {
            let action = stepped.begin(line);
            assert_eq!(stepped.complete(action), ConnectionAction::Ready);
        }
        stepped.output();
        stepped
    }

    /// Executes the first slice of a command.
    pub fn begin(&mut self, line: &str) -> ConnectionAction {
        let mut decoder = self.session.decoder();
        decoder.feed(format!("c {line}\r\n").as_bytes());
        match decoder.decode() {
            DecodeResult::Command(verb, command) => self.session.execute(verb, command, &mut self.out),
            _ => panic!("{line} is a command"),
        }
    }

    /// Executes the further slices of a command.
    pub fn complete(&mut self, mut action: ConnectionAction) -> ConnectionAction {
        while action == ConnectionAction::Unfinished {
            action = self.session.resume(&mut self.out);
        }
        action
    }

    /// Takes the output.
    pub fn output(&mut self) -> String {
        String::from_utf8(self.out.take()).expect("ASCII")
    }

    /// Takes the text of a fault of the server.
    pub fn fault(&mut self) -> Option<String> {
        self.session.take_server_fault()
    }
}
