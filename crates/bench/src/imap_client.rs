//! A minimal IMAP client for the load generator: sends commands and reads up to the tagged response.
//!
//! Untagged lines are kept as bytes until the next command, and literals are read by their announced length. Nothing
//! else is parsed, so that the load generator costs little on the machine that it shares with the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::arguments::Result;
use crate::measurements::{Measurements, Stopwatch};

/// Maximum time to wait for a response. A server that takes longer has failed.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(120);

/// A connection to a server.
#[derive(Debug)]
pub struct ImapClient {
    reader: BufReader<TcpStream>,
    tag: usize,
    /// Bytes received before the last tagged response.
    pub untagged: Vec<u8>,
}

impl ImapClient {
    /// Connects and reads the greeting.
    pub fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(RESPONSE_TIME_MAX))?;
        let mut client = Self { reader: BufReader::with_capacity(16 * 1024, stream), tag: 0, untagged: Vec::new() };
        client.line()?;
        if client.untagged.starts_with(b"* OK") { Ok(client) } else { Err(client.unexpected_response("greeting")) }
    }

    /// Logs in the user with this number.
    pub fn login(&mut self, user: usize, password: &str) -> Result<()> {
        self.command(&format!("LOGIN {user}bench@bench.test {password}"))
    }

    /// Sends a command and waits for its tagged OK.
    pub fn command(&mut self, command: &str) -> Result<()> {
        self.tag += 1;
        let tag = format!("a{} ", self.tag);
        self.send(format!("{tag}{command}\r\n").as_bytes())?;
        self.answer(&tag, command)
    }

    /// Sends a command and waits for its tagged response, whatever it is.
    pub fn command_with_any_reply(&mut self, command: &str) -> Result<()> {
        self.tag += 1;
        let tag = format!("a{} ", self.tag);
        self.send(format!("{tag}{command}\r\n").as_bytes())?;
        self.untagged.clear();
        loop {
            let start = self.line()?;
            if self.untagged[start..].starts_with(tag.as_bytes()) {
                return Ok(());
            }
        }
    }

    /// Appends a message to a mailbox. The literal is sent after the server's continuation request.
    pub fn append(&mut self, mailbox: &str, flags: &str, message: &[u8]) -> Result<()> {
        self.tag += 1;
        let tag = format!("a{} ", self.tag);
        self.send(format!("{tag}APPEND {mailbox} ({flags}) {{{}}}\r\n", message.len()).as_bytes())?;
        self.continuation()?;
        self.send(message)?;
        self.send(b"\r\n")?;
        self.answer(&tag, "APPEND")
    }

    /// Starts IDLE. The connection is not used afterwards.
    pub fn idle(&mut self) -> Result<()> {
        self.send(b"idle IDLE\r\n")?;
        self.continuation()
    }

    /// Runs some work and records its time, and its failure if it fails.
    pub fn timed(
        &mut self,
        figures: &mut Measurements,
        name: &'static str,
        work: impl FnOnce(&mut Self) -> Result<()>,
    ) {
        let watch = Stopwatch::start();
        let done = work(self);
        figures.add(name, watch.elapsed());
        if let Err(error) = done {
            figures.failures.push(format!("{name}: {error}"));
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.reader.get_mut().write_all(bytes)?)
    }

    fn continuation(&mut self) -> Result<()> {
        self.untagged.clear();
        loop {
            let start = self.line()?;
            let line = &self.untagged[start..];
            if line.starts_with(b"+") {
                return Ok(());
            }
            if !line.starts_with(b"*") {
                return Err(self.unexpected_response("continuation"));
            }
        }
    }

    fn answer(&mut self, tag: &str, command: &str) -> Result<()> {
        self.untagged.clear();
        loop {
            let start = self.line()?;
            if let Some(rest) = self.untagged[start..].strip_prefix(tag.as_bytes()) {
                let good = rest.starts_with(b"OK");
                return if good { Ok(()) } else { Err(self.unexpected_response(command)) };
            }
        }
    }

    /// Appends a line with its literals to the bytes read before. Returns the offset at which it begins.
    fn line(&mut self) -> Result<usize> {
        let start = self.untagged.len();
        loop {
            if self.reader.read_until(b'\n', &mut self.untagged)? == 0 {
                return Err("the server closed the connection".into());
            }
            let Some(length) = literal(&self.untagged) else { return Ok(start) };
            if self.reader.by_ref().take(length).read_to_end(&mut self.untagged)? as u64 != length {
                return Err("the server closed the connection in the middle of a literal".into());
            }
        }
    }

    fn unexpected_response(&self, command: &str) -> Box<dyn std::error::Error + Send + Sync> {
        let tail = &self.untagged[self.untagged.len().saturating_sub(200)..];
        format!("unexpected reply to {command:?}: {:?}", String::from_utf8_lossy(tail)).into()
    }
}

/// Returns the length of the literal announced at the end of a line.
fn literal(line: &[u8]) -> Option<u64> {
    let inner = line.strip_suffix(b"}\r\n")?;
    let digits = &inner[inner.iter().rposition(|byte| *byte == b'{')? + 1..];
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn literals_are_announced_at_the_end_of_a_line() {
        assert_eq!(literal(b"* 1 FETCH (BODY[] {12}\r\n"), Some(12));
        assert_eq!(literal(b"* OK {12} done\r\n"), None);
        assert_eq!(literal(b"* LIST () {x}\r\n"), None);
    }

    #[test]
    fn reply_ends_with_its_tag_outside_literals() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("the client comes");
            peer.write_all(b"* OK hello\r\n* 1 FETCH (BODY[] {9}\r\na1 OK no\r\n)\r\na1 OK done\r\na2 NO never\r\n")
                .expect("it reads");
            let _ = peer.read(&mut [0; 100]);
            peer
        });
        let mut client = ImapClient::connect(&address).expect("greeted");
        client.command("FETCH 1 (BODY[])").expect("answered");
        assert!(client.untagged.ends_with(b")\r\na1 OK done\r\n"));
        assert!(client.command("NOOP").is_err_and(|error| error.to_string().contains("never")));
        drop(server.join());
    }
    /// Connects to a server that sends `reply` after its first read, and closes the connection. It closes it at once if
    /// the greeting is empty.
    fn client_of(greeting: &'static str, reply: &'static str) -> Result<ImapClient> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("the client comes");
            peer.write_all(greeting.as_bytes()).expect("it reads");
            if !greeting.is_empty() && peer.read(&mut [0; 1_000]).is_ok_and(|length| length > 0) {
                peer.write_all(reply.as_bytes()).expect("it reads");
            }
        });
        let client = ImapClient::connect(&address);
        if client.is_err() {
            server.join().expect("no panic");
        }
        client
    }

    #[test]
    fn server_without_greeting_is_refused() {
        let error = |greeting| client_of(greeting, "").expect_err("no greeting").to_string();
        assert!(error("* BYE too many connections\r\n").contains("unexpected reply to \"greeting\": \"* BYE too many"));
        assert_eq!(error(""), "the server closed the connection");
    }

    #[test]
    fn incomplete_reply_is_an_error() {
        let check = |reply, expected: &str| {
            let mut client = client_of("* OK ready\r\n", reply).expect("a greeting");
            let error = client.command("FETCH 1 (BODY[])").expect_err("the reply is incomplete").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("", "the server closed the connection");
        check("* 1 FETCH (FLAGS ())\r\n", "the server closed the connection");
        check("* 1 FETCH (BODY[] {10}\r\n12345", "the server closed the connection in the middle of a literal");
        check("a1 BAD what\r\n", "unexpected reply to \"FETCH 1 (BODY[])\": \"a1 BAD what");
    }

    #[test]
    fn a_message_is_not_sent_if_the_server_refuses_it() {
        let mut client = client_of("* OK ready\r\n", "* 3 EXISTS\r\na1 NO [TOOBIG] too large\r\n").expect("a greeting");
        let error = client.append("INBOX", "\\Seen", b"text").expect_err("the server refuses it").to_string();
        assert!(error.starts_with("unexpected reply to \"continuation\": ") && error.contains("[TOOBIG]"), "{error}");
    }

    #[test]
    fn times_of_failed_commands_are_measured() {
        let mut client = client_of("* OK ready\r\n", "a1 NO later\r\n").expect("a greeting");
        let mut figures = Measurements::default();
        client.timed(&mut figures, "NOOP", |client| client.command("NOOP"));
        assert_eq!((figures.count(), figures.failures.len()), (1, 1));
        assert!(figures.failures[0].starts_with("NOOP: unexpected reply"), "{:?}", figures.failures);
    }
}
