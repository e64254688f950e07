//! Responses of an IMAP server: read as lines with literals, and parsed.
//!
//! The grammar is that of RFC 3501 and RFC 9051 as far as the verbs need it. Contents of literals are not kept, except
//! for their beginning, which has the header of a message. Limits: [`TEXT_BYTES_MAX`] for the lines of a response,
//! [`HEAD_BYTES_MAX`] for what is kept of a literal, [`LITERALS_MAX`] literals, [`NESTING_MAX`] lists within each
//! other. The numbers of `SEARCH` are only counted, so that a mailbox of any size can be searched: such a line may have
//! [`SEARCH_BYTES_MAX`] bytes, and so may every line that [`read_status`] does not parse.

#[cfg(test)]
mod tests;

use crate::door::call::CallError;
use crate::door::line_connection::{LINE_BYTES_MAX, LineConnection};

/// Maximum length of the lines of a response, without its literals.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a line with the numbers that a search has found.
const SEARCH_BYTES_MAX: usize = 8 << 20;
/// Maximum number of bytes of a literal that are kept.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Maximum number of literals of a response.
const LITERALS_MAX: usize = 200;
/// Maximum number of lists that contain each other.
const NESTING_MAX: usize = 32;
/// Maximum number of bytes of a text for people that are kept.
const REMARK_BYTES_MAX: usize = 500;
/// Maximum number of the numbers of a search that are kept.
const FOUND_MAX: usize = 1_000;

/// The result of a command, or the state of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    No,
    Bad,
    PreAuth,
    Bye,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Response {
    /// The server wants the rest of a command.
    Continuation,
    /// The end of a command, or a message without a tag.
    Status(StatusResponse),
    /// A message of the mailbox, or their number.
    Numbered {
        /// The number before the name.
        number: u32,
        /// The name, in capital letters.
        name: String,
        /// What follows it.
        values: Vec<Value>,
    },
    /// What a search has found.
    Search {
        /// The first numbers, at most [`FOUND_MAX`].
        found: Vec<u32>,
        /// How many there are.
        count: u64,
    },
    /// Anything else.
    Data {
        /// The name, in capital letters.
        name: String,
        /// What follows it.
        values: Vec<Value>,
    },
}

/// The end of a command, or a message without a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatusResponse {
    /// The tag, or `None` for `*`.
    pub(super) tag: Option<String>,
    /// The status.
    pub(super) status: Status,
    /// The words between the brackets.
    pub(super) code: Option<String>,
    /// The text for people.
    pub(super) text: String,
}

impl StatusResponse {
    /// Returns what follows a word in the brackets.
    pub(super) fn code_after(&self, word: &str) -> Option<&str> {
        let (first, rest) = self.code.as_deref()?.split_once(' ')?;
        first.eq_ignore_ascii_case(word).then_some(rest)
    }
}

/// A value of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// `NIL`.
    Nil,
    /// An atom or a quoted string.
    Text(String),
    /// A literal.
    Literal {
        /// Its length.
        length: u64,
        /// Its first bytes.
        head: Vec<u8>,
    },
    /// A list in parentheses.
    List(Vec<Value>),
}

impl Value {
    /// Returns a text, or the beginning of a literal.
    pub(super) fn text(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(text.into()),
            Self::Literal { head, .. } => Some(String::from_utf8_lossy(head)),
            Self::Nil | Self::List(_) => None,
        }
    }

    /// Returns the values of a list.
    pub(super) fn list(&self) -> Option<&[Value]> {
        match self {
            Self::List(values) => Some(values),
            _ => None,
        }
    }
}

/// Returns the value after a name in a list of names and values.
pub(super) fn value_of<'v>(values: &'v [Value], name: &str) -> Option<&'v Value> {
    let is_name = |value: &Value| matches!(value, Value::Text(text) if text.eq_ignore_ascii_case(name));
    values.chunks_exact(2).find(|pair| is_name(&pair[0])).map(|pair| &pair[1])
}

/// The bytes of a response. The end of the line before a literal is left out.
#[derive(Debug, Default)]
struct ResponseText {
    text: Vec<u8>,
    /// Where the announcements of literals end in the text, and the literals.
    literals: Vec<(usize, Value)>,
}

/// Reads a response.
pub(super) async fn read(connection: &mut LineConnection) -> Result<Response, CallError> {
    let bytes_max = |line: &[u8]| if is_search(line) { SEARCH_BYTES_MAX } else { LINE_BYTES_MAX };
    parse_text(read_text(connection, bytes_max, HEAD_BYTES_MAX).await?)
}

/// Reads a response, and parses it if it is a status or a continuation. Returns `None` for all others, whose lines may
/// have [`SEARCH_BYTES_MAX`] bytes.
pub(super) async fn read_status(connection: &mut LineConnection) -> Result<Option<Response>, CallError> {
    let response = read_text(connection, |_| SEARCH_BYTES_MAX, 0).await?;
    if is_status(&response.text) { parse_text(response).map(Some) } else { Ok(None) }
}

/// Reads the lines and literals of a response. At most `head_bytes_max` bytes of each literal are kept.
async fn read_text(
    connection: &mut LineConnection,
    bytes_max_of: impl Fn(&[u8]) -> usize,
    head_bytes_max: usize,
) -> Result<ResponseText, CallError> {
    let mut response = ResponseText::default();
    connection.read_line_of(&mut response.text, bytes_max_of).await?;
    while let Some(length) = announced(&response.text) {
        if response.literals.len() == LITERALS_MAX || response.text.len() > TEXT_BYTES_MAX {
            return Err(CallError::malformed("the server has sent a response without an end"));
        }
        let mut head = Vec::new();
        connection.read_content(length, &mut head, head_bytes_max).await?;
        response.literals.push((response.text.len(), Value::Literal { length, head }));
        let line_begin = response.text.len();
        connection.read_line(&mut response.text, LINE_BYTES_MAX).await?;
        // A line without a further literal must not announce the one before it again.
        if response.text.len() == line_begin {
            break;
        }
    }
    Ok(response)
}

fn parse_text(response: ResponseText) -> Result<Response, CallError> {
    parse(response).map_err(|reason| CallError::malformed(format!("a response of the server has {reason}")))
}

fn is_search(line: &[u8]) -> bool {
    let Some((begin, rest)) = line.split_at_checked(8) else { return false };
    begin.eq_ignore_ascii_case(b"* SEARCH") && rest.first().is_none_or(|next| b" \r".contains(next))
}

/// Returns the length of the literal that is announced at the end of a response.
fn announced(text: &[u8]) -> Option<u64> {
    let inner = text.strip_suffix(b"}")?;
    let (_, digits) = inner.split_at(inner.iter().rposition(|byte| *byte == b'{')? + 1);
    if is_status(text) || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = std::str::from_utf8(digits).ok()?.parse().unwrap_or(u64::MAX);
    Some(length)
}

/// Returns `true` if the text of a response is for people: it has no literals.
fn is_status(text: &[u8]) -> bool {
    let mut words = text.splitn(3, |byte| *byte == b' ');
    match words.next() {
        Some(b"*") => words.next().is_some_and(|word| status_of(word).is_some()),
        _ => true,
    }
}

fn status_of(word: &[u8]) -> Option<Status> {
    let statuses: [(&[u8], Status); 5] = [
        (b"OK", Status::Ok),
        (b"NO", Status::No),
        (b"BAD", Status::Bad),
        (b"PREAUTH", Status::PreAuth),
        (b"BYE", Status::Bye),
    ];
    statuses.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, status)| status)
}

fn parse(response: ResponseText) -> Result<Response, &'static str> {
    let mut parser =
        Parser { text: &response.text, at: 0, literals: response.literals.into_iter().peekable(), depth: 0 };
    let tag = parser.word()?;
    if tag == b"+" {
        return Ok(Response::Continuation);
    }
    let word = parser.word()?;
    if let Some(status) = status_of(word) {
        let tag = (tag != b"*").then(|| lossy(tag));
        return Ok(Response::Status(parser.status(tag, status)));
    }
    if tag != b"*" {
        return Err("a tag without a status");
    }
    if word.eq_ignore_ascii_case(b"SEARCH") {
        return Ok(parser.search());
    }
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u32>().ok());
    match number {
        Some(number) => {
            let name = lossy(parser.word()?).to_ascii_uppercase();
            Ok(Response::Numbered { number, name, values: parser.values()? })
        }
        None => Ok(Response::Data { name: lossy(word).to_ascii_uppercase(), values: parser.values()? }),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    literals: std::iter::Peekable<std::vec::IntoIter<(usize, Value)>>,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t [u8] {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().iter().take_while(|byte| **byte == b' ').count();
    }

    /// Returns the bytes up to the next space.
    fn word(&mut self) -> Result<&'t [u8], &'static str> {
        self.skip_spaces();
        let word = self.rest().split(|byte| *byte == b' ').next().unwrap_or_default();
        self.at += word.len();
        if word.is_empty() { Err("too few words") } else { Ok(word) }
    }

    fn status(&mut self, tag: Option<String>, status: Status) -> StatusResponse {
        self.skip_spaces();
        let mut rest = self.rest();
        let mut code = None;
        if let Some(inner) = rest.strip_prefix(b"[")
            && let Some(end) = inner.iter().position(|byte| *byte == b']')
        {
            code = Some(lossy(&inner[..end]));
            rest = &inner[end + 1..];
        }
        let text = lossy(&rest[..rest.len().min(REMARK_BYTES_MAX)]).trim().to_owned();
        StatusResponse { tag, status, code, text }
    }

    fn search(&mut self) -> Response {
        let numbers = self.rest().split(|byte| *byte == b' ');
        let mut numbers = numbers.filter_map(|word| std::str::from_utf8(word).ok()?.parse::<u32>().ok());
        let found: Vec<u32> = numbers.by_ref().take(FOUND_MAX).collect();
        let count = found.len() as u64 + numbers.count() as u64;
        Response::Search { found, count }
    }

    /// Parses the values up to the end of the response.
    fn values(&mut self) -> Result<Vec<Value>, &'static str> {
        let mut values = Vec::new();
        self.skip_spaces();
        while !self.rest().is_empty() {
            values.push(self.value()?);
            self.skip_spaces();
        }
        Ok(values)
    }

    fn value(&mut self) -> Result<Value, &'static str> {
        match self.rest().first() {
            None => Err("too few values"),
            Some(b')') => Err("a parenthesis that closes nothing"),
            Some(b'(') => self.list(),
            Some(b'"') => self.quoted(),
            Some(b'{' | b'~') if self.is_literal() => {
                let (end, literal) = self.literals.next().ok_or("a literal that is missing")?;
                self.at = end;
                Ok(literal)
            }
            Some(_) => Ok(self.atom()),
        }
    }

    /// Returns `true` if the next literal is announced here.
    fn is_literal(&mut self) -> bool {
        let Some((end, _)) = self.literals.peek() else { return false };
        let Some(announcement) = self.text.get(self.at..*end) else { return false };
        let announcement = announcement.strip_prefix(b"~").unwrap_or(announcement);
        let digits = announcement.strip_prefix(b"{").and_then(|inner| inner.strip_suffix(b"}"));
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
    }

    fn list(&mut self) -> Result<Value, &'static str> {
        if self.depth == NESTING_MAX {
            return Err("too many lists within each other");
        }
        self.depth += 1;
        self.at += 1;
        let mut values = Vec::new();
        loop {
            self.skip_spaces();
            match self.rest().first() {
                Some(b')') => break,
                _ => values.push(self.value()?),
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(Value::List(values))
    }

    fn quoted(&mut self) -> Result<Value, &'static str> {
        let mut text = Vec::new();
        let mut bytes = self.rest()[1..].iter();
        let mut length = 2;
        loop {
            match bytes.next() {
                None => return Err("a quoted string without an end"),
                Some(b'"') => break,
                Some(b'\\') => {
                    text.push(*bytes.next().ok_or("a quoted string without an end")?);
                    length += 2;
                }
                Some(byte) => {
                    text.push(*byte);
                    length += 1;
                }
            }
        }
        self.at += length;
        Ok(Value::Text(lossy(&text)))
    }

    /// Parses an atom. What it has in brackets belongs to it, such as `BODY[HEADER.FIELDS (FROM)]`.
    fn atom(&mut self) -> Value {
        let mut is_within = false;
        let mut is_part = |byte: u8| {
            is_within = byte == b'[' || is_within && byte != b']';
            is_within || !matches!(byte, b' ' | b'(' | b')' | b'"')
        };
        let length = self.rest().iter().take_while(|byte| is_part(**byte)).count();
        let atom = &self.rest()[..length];
        self.at += length;
        if atom.eq_ignore_ascii_case(b"NIL") { Value::Nil } else { Value::Text(lossy(atom)) }
    }
}
