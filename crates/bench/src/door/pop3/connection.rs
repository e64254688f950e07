//! A connection to a POP3 server (RFC 1939, RFC 2449, RFC 5034): commands, and replies of one or of several lines.
//!
//! Replies are foreign: a line of a reply has at most 64 KiB, a line of a message [`MESSAGE_LINE_BYTES_MAX`], and all
//! lines of a reply together have at most 64 MiB. Errors have the response code of the reply, such as `err-in-use`, or
//! `err`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::door::Session;
use crate::door::call::{CallCount, CallError};
use crate::door::line_connection::{LINE_BYTES_MAX, LITERAL_BYTES_MAX, LineConnection, Place};

/// The bytes at the end of a line: CR and LF.
const LINE_END_BYTES: u64 = 2;
/// Maximum length of a line of a message, its end included.
const MESSAGE_LINE_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a response code that errors are counted under.
const CODE_BYTES_MAX: usize = 40;
/// Maximum number of bytes of a reply that an error repeats.
const REMARK_BYTES_MAX: usize = 500;
/// Maximum length of a command with a response of SASL in it (RFC 5034, section 4).
const AUTH_BYTES_MAX: usize = 255;
/// The code of a refusal without a response code.
pub(super) const REFUSED_CODE: &str = "err";

/// A reply of one line, or the first line of one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pop3Reply {
    /// `+OK`, with the text that follows.
    Ok(String),
    /// `-ERR`, with the text that follows.
    Err(String),
    /// The server wants the next response of a login.
    Continuation,
}

impl Pop3Reply {
    fn parse(line: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(&line[..line.len().min(REMARK_BYTES_MAX)]).into_owned();
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        match word.to_ascii_uppercase().as_str() {
            "+OK" => Some(Self::Ok(rest.to_owned())),
            "-ERR" => Some(Self::Err(rest.to_owned())),
            "+" => Some(Self::Continuation),
            _ => None,
        }
    }

    /// Returns the text of a positive reply.
    fn accepted(self, command: &str) -> Result<String, CallError> {
        match self {
            Self::Ok(text) => Ok(text),
            Self::Err(text) => Err(refusal(command, &text)),
            Self::Continuation => Err(CallError::malformed(format!("{command}: the server wants another response"))),
        }
    }
}

/// Returns the error of a command that the server refuses.
fn refusal(command: &str, text: &str) -> CallError {
    let code = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(code, _)| code);
    let is_plain = |code: &&str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-/".contains(&byte);
        !code.is_empty() && code.len() <= CODE_BYTES_MAX && code.bytes().all(is_known)
    };
    let code = match code.filter(is_plain) {
        Some(code) => format!("{REFUSED_CODE}-{}", code.to_ascii_lowercase().replace('/', "-")),
        None => REFUSED_CODE.to_owned(),
    };
    CallError::kept(code, format!("{command}: -ERR {text}"))
}

/// How a server lets users log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginMethod {
    /// `AUTH PLAIN`.
    Plain,
    /// `USER` and `PASS`.
    UserAndPass,
    /// Neither.
    None,
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Pop3Connection {
    lines: LineConnection,
}

impl Pop3Connection {
    /// Connects and logs in. Every error is that of a user who is not logged in.
    pub(super) async fn log_in(place: &Place, login: [&str; 2], count: &mut CallCount) -> Result<Self, CallError> {
        let lines = LineConnection::connect(place).await?;
        let mut connection = Self { lines };
        connection.begin(login, count).await.map_err(CallError::into_lost)?;
        Ok(connection)
    }

    async fn begin(&mut self, login: [&str; 2], count: &mut CallCount) -> Result<(), CallError> {
        self.reply().await?.accepted("the greeting")?;
        let method = self.login_method(count).await?;
        // A server may repeat the command, which has the password.
        let without_text = |error: CallError| CallError { text: format!("the login: {}", error.code), ..error };
        self.authenticate(method, login, count).await.map_err(without_text)
    }

    /// Asks for the capabilities. A server without CAPA has USER and PASS.
    async fn login_method(&mut self, count: &mut CallCount) -> Result<LoginMethod, CallError> {
        let mut has_plain = false;
        let mut has_user = false;
        let capability = |line: &[u8]| {
            let line = String::from_utf8_lossy(line).to_ascii_uppercase();
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("USER") => has_user = true,
                Some("SASL") => has_plain |= words.any(|word| word == "PLAIN"),
                _ => {}
            }
        };
        match self.call_for_lines(count, "CAPA", LINE_BYTES_MAX, capability).await {
            Ok(()) if has_plain => Ok(LoginMethod::Plain),
            Ok(()) if has_user => Ok(LoginMethod::UserAndPass),
            Ok(()) => Ok(LoginMethod::None),
            Err(error) if error.session == Session::Kept => Ok(LoginMethod::UserAndPass),
            Err(error) => Err(error),
        }
    }

    async fn authenticate(
        &mut self,
        method: LoginMethod,
        [login, password]: [&str; 2],
        count: &mut CallCount,
    ) -> Result<(), CallError> {
        match method {
            LoginMethod::Plain => {
                let response = STANDARD.encode(format!("\0{login}\0{password}"));
                let whole = format!("AUTH PLAIN {response}");
                let is_short = whole.len() + 2 <= AUTH_BYTES_MAX;
                count.calls += 1;
                self.send(if is_short { &whole } else { "AUTH PLAIN" }).await?;
                let mut reply = self.reply().await?;
                if reply == Pop3Reply::Continuation {
                    self.send(&response).await?;
                    reply = self.reply().await?;
                }
                reply.accepted("AUTH")?;
            }
            LoginMethod::UserAndPass => {
                self.call(count, &format!("USER {login}")).await?;
                self.call(count, &format!("PASS {password}")).await?;
            }
            LoginMethod::None => {
                return Err(CallError::lost("no-login", "the server offers neither PLAIN nor USER"));
            }
        }
        Ok(())
    }

    /// Sends a command, and returns the text of its reply.
    ///
    /// # Errors
    ///
    /// If the server refuses the command, if its reply cannot be understood, or if the connection ends.
    pub(super) async fn call(&mut self, count: &mut CallCount, command: &str) -> Result<String, CallError> {
        count.calls += 1;
        self.send(command).await?;
        let reply = self.reply().await?;
        self.lines.release_buffer();
        reply.accepted(name_of(command))
    }

    /// Sends a command whose reply is a list, and passes its lines on.
    pub(super) async fn list(
        &mut self,
        count: &mut CallCount,
        command: &str,
        each: impl FnMut(&[u8]),
    ) -> Result<(), CallError> {
        self.call_for_lines(count, command, LINE_BYTES_MAX, each).await
    }

    /// Sends a command whose reply is a message. Returns its beginning.
    pub(super) async fn retrieve(
        &mut self,
        count: &mut CallCount,
        command: &str,
        kept_max: usize,
    ) -> Result<Vec<u8>, CallError> {
        let mut head: Vec<u8> = Vec::new();
        let each = |line: &[u8]| {
            let left = kept_max.saturating_sub(head.len());
            head.extend(line.iter().chain(b"\r\n").take(left));
        };
        self.call_for_lines(count, command, MESSAGE_LINE_BYTES_MAX, each).await?;
        Ok(head)
    }

    /// Ends the session, in which marked messages are removed, and closes the connection.
    pub(super) async fn quit(mut self, count: &mut CallCount) -> Result<(), CallError> {
        let ended = self.call(count, "QUIT").await;
        self.lines.close().await;
        ended.map(|_| ())
    }

    /// Returns `true` if the server has closed the connection, or has said something that was not asked.
    pub(super) async fn is_closed(&mut self) -> bool {
        self.lines.is_closed().await || self.lines.has_bytes()
    }

    /// Sends a command, and passes the lines of its reply on, without the dots that were put in front of others.
    async fn call_for_lines(
        &mut self,
        count: &mut CallCount,
        command: &str,
        line_bytes_max: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), CallError> {
        self.call(count, command).await?;
        let mut line = Vec::new();
        let mut length = 0;
        loop {
            line.clear();
            self.lines.read_line(&mut line, line_bytes_max).await?;
            if line == b"." {
                self.lines.release_buffer();
                return Ok(());
            }
            length += line.len() as u64 + LINE_END_BYTES;
            if length > LITERAL_BYTES_MAX {
                let name = name_of(command);
                return Err(CallError::malformed(format!("{name}: the reply has more than {LITERAL_BYTES_MAX} bytes")));
            }
            each(line.strip_prefix(b".").unwrap_or(&line));
        }
    }

    async fn send(&mut self, command: &str) -> Result<(), CallError> {
        self.lines.send(format!("{command}\r\n").as_bytes()).await
    }

    async fn reply(&mut self) -> Result<Pop3Reply, CallError> {
        let mut line = Vec::new();
        self.lines.read_line(&mut line, LINE_BYTES_MAX).await?;
        let malformed = || CallError::malformed("the server has sent a reply without +OK and -ERR");
        Pop3Reply::parse(&line).ok_or_else(malformed)
    }
}

/// Returns the name of a command, without its arguments.
fn name_of(command: &str) -> &str {
    command.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read() {
        let check = |line: &str, expected| assert_eq!(Pop3Reply::parse(line.as_bytes()), expected, "{line:?}");
        check("+OK", Some(Pop3Reply::Ok(String::new())));
        check("+ok 2 320", Some(Pop3Reply::Ok("2 320".to_owned())));
        check("-ERR no such message", Some(Pop3Reply::Err("no such message".to_owned())));
        check("+ ", Some(Pop3Reply::Continuation));
        check("+", Some(Pop3Reply::Continuation));
        for strange in ["", "OK", "+OKAY", "* OK", "220 mx"] {
            check(strange, None);
        }
    }

    #[test]
    fn refusals_have_the_response_code() {
        let check = |text: &str, expected: &str| assert_eq!(refusal("PASS", text).code, expected);
        check("[IN-USE] another session", "err-in-use");
        check("[SYS/TEMP] later", "err-sys-temp");
        check("no such message", "err");
        check("[] none", "err");
        check("[a b] none", "err");
        check(&format!("[{}]", "x".repeat(200)), "err");
        assert_eq!(refusal("PASS", "[AUTH] no").text, "PASS: -ERR [AUTH] no");
    }
}
