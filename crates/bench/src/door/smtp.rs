//! SMTP as a client: submission (RFC 6409) over TLS, LMTP (RFC 2033), and SMTP from other servers.
//!
//! A connection greets the server with EHLO or LHLO, logs in if it submits, and transfers messages one after another.
//! The commands of a message are sent at once if the server offers PIPELINING. A recipient that is refused fails the
//! message, also if others are accepted: nothing is then transferred, and the connection is closed.
//!
//! [`delivery`] shares connections between users. Replies are foreign: a line has at most 64 KiB, and a reply at most
//! [`REPLY_LINES_MAX`] lines. Errors have the code of the reply, such as `smtp-550`; they do not end the session of a
//! user, which is another connection.

pub mod delivery;
#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::call::{CallCount, CallError};
use super::line_connection::{LINE_BYTES_MAX, LineConnection, Place};
use crate::door::Session;

/// Maximum number of lines of a reply.
const REPLY_LINES_MAX: usize = 1_000;
/// Maximum number of bytes of a reply that an error repeats.
const REPLY_BYTES_MAX: usize = 500;
/// The name with which the driver greets: the address from which it connects.
const OWN_NAME: &str = "[127.0.0.1]";

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// SMTP and submission.
    Smtp,
    /// LMTP: a reply for each recipient at the end of a message.
    Lmtp,
}

/// Who sends a message, and who receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The address of the sender.
    pub from: String,
    /// The addresses of the recipients.
    pub to: Vec<String>,
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SmtpReply {
    code: u16,
    /// Its lines, without the code.
    lines: Vec<String>,
}

impl SmtpReply {
    fn is_positive(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Returns the error of a command that has this reply.
    fn refusal(&self, command: &str) -> CallError {
        let text: String = self.lines.join(" / ").chars().take(REPLY_BYTES_MAX).collect();
        CallError::kept(format!("smtp-{}", self.code), format!("{command}: {} {text}", self.code))
    }
}

/// What a server offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Extensions {
    pipelining: bool,
    auth_plain: bool,
    auth_login: bool,
}

/// A connection over which messages are sent.
#[derive(Debug)]
pub struct SmtpConnection {
    lines: LineConnection,
    dialect: Dialect,
    offered: Extensions,
}

impl SmtpConnection {
    /// Connects to a submission service.
    ///
    /// # Errors
    ///
    /// If there is no such service, or if it refuses the greeting.
    pub async fn submission(place: &Place, count: &mut CallCount) -> Result<Self, CallError> {
        Self::connect(place, Dialect::Smtp, count).await
    }

    /// Connects to a server, and greets it.
    ///
    /// # Errors
    ///
    /// If there is no server, or if it refuses the greeting.
    pub async fn connect(place: &Place, dialect: Dialect, count: &mut CallCount) -> Result<Self, CallError> {
        let lines = LineConnection::connect(place).await.map_err(of_smtp)?;
        Self::greeted(lines, dialect, count).await
    }

    /// Reads the greeting of a connection, and greets the server.
    pub(crate) async fn greeted(
        lines: LineConnection,
        dialect: Dialect,
        count: &mut CallCount,
    ) -> Result<Self, CallError> {
        let mut connection = Self { lines, dialect, offered: Extensions::default() };
        let greeting = connection.reply().await?;
        if !greeting.is_positive() {
            return Err(greeting.refusal("the greeting"));
        }
        let word = if dialect == Dialect::Lmtp { "LHLO" } else { "EHLO" };
        let hello = connection.call(count, &format!("{word} {OWN_NAME}")).await?;
        if !hello.is_positive() {
            return Err(hello.refusal(word));
        }
        connection.offered = extensions(&hello.lines);
        Ok(connection)
    }

    /// Logs in with `PLAIN` if the server offers it, otherwise with `LOGIN`.
    ///
    /// # Errors
    ///
    /// If the server offers neither, or if it refuses the login.
    pub async fn log_in(&mut self, count: &mut CallCount, [login, password]: [&str; 2]) -> Result<(), CallError> {
        let reply = if self.offered.auth_plain {
            let response = STANDARD.encode(format!("\0{login}\0{password}"));
            self.call(count, &format!("AUTH PLAIN {response}")).await?
        } else if self.offered.auth_login {
            let mut reply = self.call(count, "AUTH LOGIN").await?;
            for word in [login, password] {
                if reply.code != 334 {
                    break;
                }
                self.send(format!("{}\r\n", STANDARD.encode(word)).as_bytes()).await?;
                reply = self.reply().await?;
            }
            reply
        } else {
            return Err(CallError::kept("smtp-no-login", "the server offers neither PLAIN nor LOGIN"));
        };
        // A server may repeat the command, which has the password.
        let refused = || CallError::kept(format!("smtp-{}", reply.code), format!("AUTH: {}", reply.code));
        if reply.is_positive() { Ok(()) } else { Err(refused()) }
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// If the server refuses the message or one of its recipients. The connection must not be used any more.
    pub async fn transfer(
        &mut self,
        count: &mut CallCount,
        envelope: &Envelope,
        message: &[u8],
    ) -> Result<(), CallError> {
        let mut commands = vec![format!("MAIL FROM:<{}>", envelope.from)];
        commands.extend(envelope.to.iter().map(|address| format!("RCPT TO:<{address}>")));
        commands.push("DATA".to_owned());
        count.calls = count.calls.saturating_add(u32::try_from(commands.len()).unwrap_or(u32::MAX));
        if self.offered.pipelining {
            self.send(format!("{}\r\n", commands.join("\r\n")).as_bytes()).await?;
        }
        let mut refused = None;
        for command in &commands {
            if !self.offered.pipelining {
                self.send(format!("{command}\r\n").as_bytes()).await?;
            }
            let reply = self.reply().await?;
            let is_expected = if command == "DATA" { reply.code == 354 } else { reply.is_positive() };
            if !is_expected {
                let name = command.split([' ', ':']).next().unwrap_or_default();
                refused.get_or_insert(reply.refusal(name));
                if !self.offered.pipelining {
                    break;
                }
            }
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        self.send(&stuffed(message)).await?;
        let replies = if self.dialect == Dialect::Lmtp { envelope.to.len() } else { 1 };
        for _ in 0..replies {
            let reply = self.reply().await?;
            if !reply.is_positive() {
                return Err(reply.refusal("the end of the message"));
            }
        }
        Ok(())
    }

    /// Ends the connection.
    pub async fn quit(mut self, count: &mut CallCount) {
        // The message is accepted already.
        let _ = self.call(count, "QUIT").await;
        self.lines.close().await;
    }

    /// Returns `true` if the server has closed the connection, or has said something that was not asked.
    pub async fn is_closed(&mut self) -> bool {
        self.lines.is_closed().await || self.lines.has_bytes()
    }

    async fn call(&mut self, count: &mut CallCount, command: &str) -> Result<SmtpReply, CallError> {
        count.calls += 1;
        self.send(format!("{command}\r\n").as_bytes()).await?;
        self.reply().await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        self.lines.send(bytes).await.map_err(of_smtp)
    }

    async fn reply(&mut self) -> Result<SmtpReply, CallError> {
        let mut reply = SmtpReply { code: 0, lines: Vec::new() };
        while reply.lines.len() < REPLY_LINES_MAX {
            let mut line = Vec::new();
            self.lines.read_line(&mut line, LINE_BYTES_MAX).await.map_err(of_smtp)?;
            let (code, is_last, text) = parse_line(&line).ok_or_else(|| malformed("a reply without a code"))?;
            if reply.code != 0 && reply.code != code {
                return Err(malformed("a reply with several codes"));
            }
            reply.code = code;
            reply.lines.push(text);
            if is_last {
                self.lines.release_buffer();
                return Ok(reply);
            }
        }
        Err(malformed("a reply without an end"))
    }
}

fn malformed(what: &str) -> CallError {
    CallError::kept("smtp-malformed", format!("the server has sent {what}"))
}

/// Returns an error of this connection: the user is still logged in at the other one.
fn of_smtp(error: CallError) -> CallError {
    CallError { code: format!("smtp-{}", error.code).into(), session: Session::Kept, ..error }
}

/// Parses a line of a reply: its code, whether it is the last one, and its text.
fn parse_line(line: &[u8]) -> Option<(u16, bool, String)> {
    let (digits, rest) = line.split_at_checked(3)?;
    let code = std::str::from_utf8(digits).ok()?.parse().ok().filter(|code| (200..600).contains(code))?;
    let is_last = match rest.first() {
        None | Some(b' ') => true,
        Some(b'-') => false,
        Some(_) => return None,
    };
    Some((code, is_last, String::from_utf8_lossy(rest.get(1..).unwrap_or_default()).into_owned()))
}

fn extensions(lines: &[String]) -> Extensions {
    let mut extensions = Extensions::default();
    for line in lines.iter().skip(1) {
        let line = line.to_ascii_uppercase();
        let mut words = line.split([' ', '=']);
        match words.next() {
            Some("PIPELINING") => extensions.pipelining = true,
            Some("AUTH") => {
                for word in words {
                    extensions.auth_plain |= word == "PLAIN";
                    extensions.auth_login |= word == "LOGIN";
                }
            }
            _ => {}
        }
    }
    extensions
}

/// Returns a message as it is transferred: a dot more in front of each line that begins with one, and the end.
fn stuffed(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 16);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            bytes.push(b'.');
        }
        bytes.extend_from_slice(line);
    }
    if !bytes.is_empty() && !bytes.ends_with(b"\r\n") {
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b".\r\n");
    bytes
}
