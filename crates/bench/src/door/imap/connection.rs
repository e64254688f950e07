//! A connection to an IMAP server: tagged commands with literals, and what their responses say about the mailbox.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use super::response::{self, Response, Status, StatusResponse, Value};
use crate::door::Session;
use crate::door::call::{CONNECTION_CODE, CallCount, CallError};
use crate::door::line_connection::{LineConnection, Place};

/// Maximum number of responses to a command. It is above the number of messages of any mailbox.
const RESPONSES_MAX: u64 = 20_000_000;
/// The length of a literal that a server with `LITERAL-` takes at once.
const SHORT_LITERAL_BYTES_MAX: usize = 4_096;
/// Maximum number of capabilities, and of bytes of one, that are remembered.
const CAPABILITIES_MAX: usize = 200;
const CAPABILITY_BYTES_MAX: usize = 100;
/// Maximum number of bytes of a code that errors are counted under.
const CODE_BYTES_MAX: usize = 40;

/// A command, without its tag.
#[derive(Debug, Clone)]
pub(super) struct Command {
    /// Its name in errors.
    name: Cow<'static, str>,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Literal(Vec<u8>),
    /// A literal that is sent when the server asks for it, also if the server takes literals at once.
    SynchronizingLiteral(Vec<u8>),
}

impl Command {
    /// Creates a command.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name: name.into(), pieces: vec![Piece::Text(name.to_owned())] }
    }

    /// Creates a command from its whole text. Its name is the first word.
    pub(super) fn from_text(text: &str) -> Self {
        let name = text.split(' ').next().unwrap_or_default().to_owned();
        Self { name: name.into(), pieces: vec![Piece::Text(text.to_owned())] }
    }

    /// Adds a space and words as they are.
    pub(super) fn words(mut self, words: &str) -> Self {
        self.add(" ");
        self.add(words);
        self
    }

    /// Adds a space and a string: quoted if possible, otherwise as a literal.
    pub(super) fn string(self, string: &str) -> Self {
        let is_quotable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if !string.bytes().all(is_quotable) {
            return self.literal(string.as_bytes().to_vec());
        }
        self.words(&format!("\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\"")))
    }

    /// Adds a space and a literal.
    pub(super) fn literal(mut self, bytes: Vec<u8>) -> Self {
        self.add(" ");
        self.pieces.push(Piece::Literal(bytes));
        self
    }

    /// Adds a space and a literal that is sent when the server asks for it.
    pub(super) fn synchronizing_literal(mut self, bytes: Vec<u8>) -> Self {
        self.add(" ");
        self.pieces.push(Piece::SynchronizingLiteral(bytes));
        self
    }

    fn add(&mut self, words: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.push_str(words),
            _ => self.pieces.push(Piece::Text(words.to_owned())),
        }
    }
}

/// What a server offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Capabilities {
    words: Arc<[String]>,
}

impl Capabilities {
    fn of_words<'w>(words: impl Iterator<Item = &'w str>) -> Self {
        let words = words.filter(|word| word.len() <= CAPABILITY_BYTES_MAX).take(CAPABILITIES_MAX);
        Self { words: words.map(str::to_ascii_uppercase).collect() }
    }

    /// Returns `true` if the server offers something.
    pub(super) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }
}

/// The mailbox that is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selected {
    /// Its name.
    pub(super) name: Arc<str>,
    /// The messages in it.
    pub(super) exists: u32,
    /// Its UIDs are those of this number.
    pub(super) uid_validity: u32,
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct ImapConnection {
    lines: LineConnection,
    tags: u32,
    /// What the server offers, or `None` until it is known.
    pub(super) capabilities: Option<Capabilities>,
    /// The mailbox that is selected.
    pub(super) selected: Option<Selected>,
    /// The greeting said that the user is logged in.
    pub(super) is_authenticated: bool,
    bye: Option<StatusResponse>,
}

impl ImapConnection {
    /// Connects, and reads the greeting.
    pub(super) async fn connect(place: &Place) -> Result<Self, CallError> {
        Self::greeted(LineConnection::connect(place).await?).await
    }

    /// Reads the greeting of a connection.
    pub(super) async fn greeted(lines: LineConnection) -> Result<Self, CallError> {
        let mut connection =
            Self { lines, tags: 0, capabilities: None, selected: None, is_authenticated: false, bye: None };
        let greeting = match connection.read().await? {
            Response::Status(greeting) if greeting.tag.is_none() => greeting,
            _ => return Err(CallError::malformed("the server has not sent a greeting")),
        };
        connection.learn_capabilities(&greeting);
        match greeting.status {
            Status::Ok => Ok(connection),
            Status::PreAuth => {
                connection.is_authenticated = true;
                Ok(connection)
            }
            _ => Err(CallError { session: Session::Lost, ..refusal("the greeting", &greeting) }),
        }
    }

    /// Sends a command, and waits for its end.
    ///
    /// # Errors
    ///
    /// If the server refuses the command, if it cannot be understood, or if the connection ends.
    pub(super) async fn call(&mut self, count: &mut CallCount, command: Command) -> Result<StatusResponse, CallError> {
        self.call_with(count, command, |_| {}).await
    }

    /// Sends a command, passes the responses on that are no end of it, and waits for its end.
    pub(super) async fn call_with(
        &mut self,
        count: &mut CallCount,
        command: Command,
        mut each: impl FnMut(Response),
    ) -> Result<StatusResponse, CallError> {
        count.calls += 1;
        let name = command.name.clone();
        let tag = self.next_tag();
        if let Some(refused) = self.send(&tag, command).await? {
            return Err(refusal(&name, &refused));
        }
        self.end_of(&tag, &name, &mut each).await
    }

    /// Sends a command, and waits for its end without parsing what the server sends before it.
    pub(super) async fn call_unparsed(&mut self, command: Command) -> Result<StatusResponse, CallError> {
        let name = command.name.clone();
        let tag = self.next_tag();
        if let Some(refused) = self.send(&tag, command).await? {
            return Err(refusal(&name, &refused));
        }
        for _ in 0..RESPONSES_MAX {
            let response = response::read_status(&mut self.lines).await;
            if let Some(response) = response.map_err(|error| self.reason_of_end(error))?
                && let Some(ended) = self.ended(response, &tag, &name, &mut |_| {})?
            {
                return Ok(ended);
            }
        }
        Err(CallError::malformed("a command has too many responses"))
    }

    /// Begins a command that lasts until [`Self::end`]. Returns its tag.
    pub(super) async fn begin(&mut self, command: Command) -> Result<String, CallError> {
        let name = command.name.clone();
        let tag = self.next_tag();
        if let Some(refused) = self.send(&tag, command).await? {
            return Err(refusal(&name, &refused));
        }
        match self.wait_for_continuation(&tag).await? {
            Some(refused) => Err(refusal(&name, &refused)),
            None => Ok(tag),
        }
    }

    /// Ends a command with a line of its own.
    pub(super) async fn end(&mut self, tag: &str, line: &str) -> Result<StatusResponse, CallError> {
        self.lines.send(format!("{line}\r\n").as_bytes()).await?;
        self.end_of(tag, "the command", &mut |_| {}).await
    }

    /// Waits until the server sends something, and reads it. This may be dropped while it waits.
    pub(super) async fn wait_for_response(&mut self) -> Result<(), CallError> {
        self.lines.wait_for_bytes().await
    }

    /// Reads the responses that have arrived.
    pub(super) async fn read_arrived(&mut self) -> Result<(), CallError> {
        while self.lines.has_bytes() {
            self.read_untagged().await?;
        }
        self.lines.release_buffer();
        Ok(())
    }

    /// Returns `true` if the server has closed the connection.
    pub(super) async fn is_closed(&mut self) -> bool {
        self.bye.is_some() || self.lines.is_closed().await
    }

    /// Closes the connection.
    pub(super) async fn close(self) {
        self.lines.close().await;
    }

    fn next_tag(&mut self) -> String {
        self.tags = self.tags.wrapping_add(1);
        format!("d{}", self.tags)
    }

    /// Sends a command. Returns the response that ends it, if the server does not want one of its literals.
    async fn send(&mut self, tag: &str, command: Command) -> Result<Option<StatusResponse>, CallError> {
        let mut bytes = format!("{tag} ").into_bytes();
        for piece in command.pieces {
            let (content, is_at_once) = match piece {
                Piece::Text(text) => {
                    bytes.extend_from_slice(text.as_bytes());
                    continue;
                }
                Piece::Literal(content) => {
                    let is_at_once = self.takes_at_once(content.len());
                    (content, is_at_once)
                }
                Piece::SynchronizingLiteral(content) => (content, false),
            };
            let mark = if is_at_once { "+" } else { "" };
            bytes.extend_from_slice(format!("{{{}{mark}}}\r\n", content.len()).as_bytes());
            if !is_at_once {
                self.lines.send(&bytes).await?;
                bytes.clear();
                if let Some(refused) = self.wait_for_continuation(tag).await? {
                    return Ok(Some(refused));
                }
            }
            bytes.extend_from_slice(&content);
        }
        bytes.extend_from_slice(b"\r\n");
        self.lines.send(&bytes).await?;
        Ok(None)
    }

    fn takes_at_once(&self, length: usize) -> bool {
        self.capabilities.as_ref().is_some_and(|capabilities| {
            capabilities.has("LITERAL+") || capabilities.has("LITERAL-") && length <= SHORT_LITERAL_BYTES_MAX
        })
    }

    async fn wait_for_continuation(&mut self, tag: &str) -> Result<Option<StatusResponse>, CallError> {
        for _ in 0..RESPONSES_MAX {
            match self.read().await? {
                Response::Continuation => return Ok(None),
                Response::Status(status) if status.tag.is_some() => return self.checked_tag(status, tag).map(Some),
                other => self.notice(other, &mut |_| {}),
            }
        }
        Err(CallError::malformed("a command has too many responses"))
    }

    async fn end_of(
        &mut self,
        tag: &str,
        name: &str,
        each: &mut impl FnMut(Response),
    ) -> Result<StatusResponse, CallError> {
        for _ in 0..RESPONSES_MAX {
            let response = self.read().await.map_err(|error| self.reason_of_end(error))?;
            if let Some(ended) = self.ended(response, tag, name, each)? {
                return Ok(ended);
            }
        }
        Err(CallError::malformed("a command has too many responses"))
    }

    /// Returns the response if it ends a command. Passes others on.
    fn ended(
        &mut self,
        response: Response,
        tag: &str,
        name: &str,
        each: &mut impl FnMut(Response),
    ) -> Result<Option<StatusResponse>, CallError> {
        match response {
            Response::Status(status) if status.tag.is_some() => {
                let status = self.checked_tag(status, tag)?;
                self.lines.release_buffer();
                self.learn_capabilities(&status);
                if status.status == Status::Ok { Ok(Some(status)) } else { Err(refusal(name, &status)) }
            }
            Response::Continuation => {
                Err(CallError::malformed(format!("{name}: the server wants a literal that there is not")))
            }
            other => {
                self.notice(other, each);
                Ok(None)
            }
        }
    }

    fn checked_tag(&self, status: StatusResponse, tag: &str) -> Result<StatusResponse, CallError> {
        if status.tag.as_deref() == Some(tag) {
            return Ok(status);
        }
        Err(CallError::malformed("the server answers a command that was not sent"))
    }

    /// Returns the error of a connection that has ended: the reason that the server has given before, if it has.
    fn reason_of_end(&self, error: CallError) -> CallError {
        match &self.bye {
            Some(bye) if error.code == CONNECTION_CODE => {
                CallError { session: Session::Lost, ..refusal("the connection", bye) }
            }
            _ => error,
        }
    }

    async fn read(&mut self) -> Result<Response, CallError> {
        response::read(&mut self.lines).await
    }

    async fn read_untagged(&mut self) -> Result<(), CallError> {
        match self.read().await? {
            Response::Status(status) if status.tag.is_some() => {
                Err(CallError::malformed("the server ends a command that has not begun"))
            }
            response => {
                self.notice(response, &mut |_| {});
                Ok(())
            }
        }
    }

    /// Takes what a response says about the connection, and passes it on.
    fn notice(&mut self, response: Response, each: &mut impl FnMut(Response)) {
        self.learn(&response);
        each(response);
    }

    fn learn(&mut self, response: &Response) {
        match response {
            Response::Status(status) => {
                self.learn_capabilities(status);
                let uid_validity = status.code_after("UIDVALIDITY").and_then(|number| number.trim().parse().ok());
                if let (Some(uid_validity), Some(selected)) = (uid_validity, &mut self.selected) {
                    selected.uid_validity = uid_validity;
                }
                if status.status == Status::Bye {
                    self.bye = Some(status.clone());
                }
            }
            Response::Numbered { number, name, .. } if name == "EXISTS" => {
                if let Some(selected) = &mut self.selected {
                    selected.exists = *number;
                }
            }
            Response::Numbered { name, .. } if name == "EXPUNGE" => {
                if let Some(selected) = &mut self.selected {
                    selected.exists = selected.exists.saturating_sub(1);
                }
            }
            Response::Data { name, values } if name == "CAPABILITY" => {
                let words = values.iter().filter_map(|value| match value {
                    Value::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                self.capabilities = Some(Capabilities::of_words(words));
            }
            _ => {}
        }
    }

    fn learn_capabilities(&mut self, status: &StatusResponse) {
        if let Some(words) = status.code_after("CAPABILITY") {
            self.capabilities = Some(Capabilities::of_words(words.split(' ').filter(|word| !word.is_empty())));
        }
    }
}

/// Returns the error of a command that the server refuses. Its code is the status, with the word in brackets if there
/// is one: `no-overquota`.
fn refusal(name: &str, refused: &StatusResponse) -> CallError {
    let status = match refused.status {
        Status::Ok | Status::PreAuth => "ok",
        Status::No => "no",
        Status::Bad => "bad",
        Status::Bye => "bye",
    };
    let mut code = status.to_owned();
    let word = refused.code.as_deref().and_then(|code| code.split(' ').next()).unwrap_or_default();
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !word.is_empty() && word.len() <= CODE_BYTES_MAX && is_plain {
        let _ = write!(code, "-{}", word.to_ascii_lowercase());
    }
    let text = format!("{name}: {} {}", status.to_ascii_uppercase(), refused.text);
    if refused.status == Status::Bye { CallError::lost(code, text) } else { CallError::kept(code, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_or_literals() {
        let text = |command: &Command| match &command.pieces[..] {
            [Piece::Text(text)] => text.clone(),
            pieces => panic!("{pieces:?}"),
        };
        assert_eq!(text(&Command::new("SELECT").string("In \"box\\")), "SELECT \"In \\\"box\\\\\"");
        assert_eq!(text(&Command::new("UID FETCH").words("7 (FLAGS)")), "UID FETCH 7 (FLAGS)");
        let literal = Command::new("LOGIN").string("a").string("pass\r\nword");
        assert!(matches!(&literal.pieces[1], Piece::Literal(bytes) if bytes == b"pass\r\nword"), "{literal:?}");
    }

    #[test]
    fn codes_of_refusals_are_words() {
        let refused = |status, code: Option<&str>| {
            let text = "text".to_owned();
            refusal("APPEND", &StatusResponse { tag: None, status, code: code.map(str::to_owned), text })
        };
        assert_eq!(refused(Status::No, Some("OVERQUOTA")).code, "no-overquota");
        assert_eq!(refused(Status::No, Some("BADCHARSET (utf-8)")).code, "no-badcharset");
        assert_eq!(refused(Status::Bad, None).code, "bad");
        assert_eq!(refused(Status::No, Some(&"X".repeat(200))).code, "no");
        assert_eq!(refused(Status::No, Some("a\u{e9}")).code, "no");
        assert_eq!(refused(Status::Bye, None).session, Session::Lost);
        assert_eq!(refused(Status::No, None).text, "APPEND: NO text");
    }
}
