//! The decoder: bytes in, commands out, at whatever pace the network brings them.
//!
//! A command is a line, or several lines with literals between them. The decoder collects the whole of it (a
//! [`Frame`]) and only then parses. Small literals are kept within the text; each larger one has a buffer of its
//! own that [`Decoder::destination`] lets the connection read into, so that a message is written to memory once.
//!
//! Promises: memory stays within the limits of [`Mode`] and [`crate::limits`] whatever arrives; a literal announced
//! too large is refused before the client sends it, or skipped when it comes unasked; after a refusal the next
//! command is found again; an idle decoder holds no buffer.
//!
//! A line may end in a bare LF. That is for people with a terminal; nothing is forwarded from here.

use super::ast::Command;
use super::error::SyntaxError;
use super::parse;
use super::verb::Verb;
use crate::limits;

/// How the session's state bears on syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Whether the client has logged in; before that literals are short.
    pub authenticated: bool,
    /// Whether mailbox names are plain UTF-8 (IMAP4rev2 or UTF8=ACCEPT enabled).
    pub utf8: bool,
    /// Whether SEARCH must not name a charset (UTF8=ACCEPT enabled, RFC 6855 §3).
    pub charset_refused: bool,
    /// The largest message.
    pub append_bytes_max: usize,
}

impl Default for Mode {
    fn default() -> Self {
        Self { authenticated: false, utf8: false, charset_refused: false, append_bytes_max: limits::APPEND_BYTES_MAX }
    }
}

/// What the decoder made of the bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// More bytes are needed.
    Incomplete,
    /// The client waits for a continuation request before it sends a literal.
    Continue,
    /// A command.
    Command(&'static Verb, Command),
    /// A command that was not understood; the client is told and may go on.
    Refused(Refusal),
    /// The client does what cannot be skipped; the connection must end.
    Fatal(SyntaxError),
}

/// Why and how a command was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The tag, when there was one.
    pub tag: Option<String>,
    /// Why.
    pub error: SyntaxError,
    /// Whether it was to save a search result, which is empty when that ends with NO (RFC 5182 §2.1).
    pub was_to_save: bool,
}

/// One command as it came: its text, and its large literals by their place in the text.
#[derive(Debug, Default)]
pub struct Frame {
    pub(super) text: Vec<u8>,
    pub(super) literals: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug)]
enum State {
    Line,
    Inline { missing: usize },
    Large { missing: usize },
    Skip { missing: usize },
}

/// Collects bytes and gives commands.
#[derive(Debug)]
pub struct Decoder {
    input: Vec<u8>,
    /// How much of `input` has been dealt with.
    consumed: usize,
    /// How much behind `consumed` is known to hold no LF.
    searched: usize,
    state: State,
    frame: Frame,
    line_bytes: usize,
    literal_bytes: usize,
    literal_count: usize,
    /// Set when the command will be refused, but its rest must first be read; with whether it was to save a search result.
    refusal: Option<(SyntaxError, bool)>,
    mode: Mode,
}

/// A literal up to this size stays within the text.
const INLINE_BYTES_MAX: usize = 4 << 10;
/// So much memory is set aside at once for a literal whose size the client only claims.
const RESERVE_BYTES_MAX: usize = 1 << 20;
/// The longest announcement of a literal; so much of the end of an overlong line is kept, so that one is seen.
const ANNOUNCEMENT_BYTES_MAX: usize = 32;
/// So much of a refused command is skipped before the connection is given up.
const SKIP_BYTES_MAX: usize = 1 << 30;

impl Decoder {
    /// Makes a decoder for a new connection.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            input: Vec::new(),
            consumed: 0,
            searched: 0,
            state: State::Line,
            frame: Frame::default(),
            line_bytes: 0,
            literal_bytes: 0,
            literal_count: 0,
            refusal: None,
            mode,
        }
    }

    /// Gives the mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode for commands that begin from here on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Takes bytes from the network.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Gives the buffer that bytes from the network may be appended to, which is the same as feeding them.
    pub fn input(&mut self) -> &mut Vec<u8> {
        &mut self.input
    }

    /// Gives the buffer of the large literal that is being collected and how many bytes it still misses.
    ///
    /// There is none while fed bytes wait to be decoded. Bytes appended to the buffer need not be fed.
    pub fn destination(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let State::Large { missing } = self.state else { return None };
        if self.consumed < self.input.len() {
            return None;
        }
        let (_, literal) = self.frame.literals.last_mut()?;
        let missing = missing.saturating_sub(literal.len());
        Some((literal, missing))
    }

    /// Whether nothing of a command has arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.consumed == self.input.len() && self.frame.text.is_empty() && self.refusal.is_none()
    }

    /// Takes bytes that were fed but belong to no command yet, as before TLS starts, where they must be forgotten.
    pub fn discard_input(&mut self) -> usize {
        let count = self.input.len().saturating_sub(self.consumed);
        self.input = Vec::new();
        self.consumed = 0;
        self.searched = 0;
        count
    }

    /// Gives the next command, or says what is missing. To be called until it says [`Decoded::Incomplete`].
    pub fn decode(&mut self) -> Decoded {
        loop {
            let step = match self.state {
                State::Line => self.take_line_of_command(),
                State::Inline { missing } => self.take_inline(missing),
                State::Large { missing } => self.take_large(missing),
                State::Skip { missing } => self.take_skipped(missing),
            };
            if let Some(decoded) = step {
                self.give_memory_back();
                return decoded;
            }
        }
    }

    /// Gives the next line without its end: what follows a continuation request of AUTHENTICATE or IDLE.
    ///
    /// None means that more bytes are needed.
    pub fn decode_line(&mut self) -> Option<Result<Vec<u8>, SyntaxError>> {
        let Some(end) = self.find_line_end() else {
            let too_long = self.input.len().saturating_sub(self.consumed) > limits::CONTINUATION_BYTES_MAX;
            return too_long.then_some(Err(SyntaxError::LineTooLong));
        };
        let line = without_line_end(self.input.get(self.consumed..end).unwrap_or_default()).to_vec();
        self.consumed = end;
        self.give_memory_back();
        Some(Ok(line))
    }

    fn take_line_of_command(&mut self) -> Option<Decoded> {
        let Some(end) = self.find_line_end() else { return Some(self.wait_for_line_end()) };
        let line_bytes = end.saturating_sub(self.consumed);
        if self.line_bytes.saturating_add(line_bytes) > limits::LINE_BYTES_MAX {
            self.refuse(SyntaxError::LineTooLong);
        }
        self.line_bytes = self.line_bytes.saturating_add(line_bytes);
        let line = self.input.get(self.consumed..end).unwrap_or_default();
        let literal = announced_literal(line);
        if self.refusal.is_none() || self.frame.text.is_empty() {
            let kept =
                if self.refusal.is_none() { line } else { line.get(..limits::TAG_BYTES_MAX + 1).unwrap_or(line) };
            self.frame.text.extend_from_slice(kept);
        }
        self.consumed = end;
        match literal {
            Some(literal) => self.begin_literal(literal),
            None => Some(self.finish()),
        }
    }

    /// The end of the line has not come: refuses when it never may, and drops what need not be kept.
    fn wait_for_line_end(&mut self) -> Decoded {
        let waiting = self.input.len().saturating_sub(self.consumed);
        if self.line_bytes.saturating_add(waiting) > limits::LINE_BYTES_MAX {
            if self.frame.text.is_empty() {
                let start = self.input.get(self.consumed..).unwrap_or_default();
                let kept = start.get(..limits::TAG_BYTES_MAX + 1).unwrap_or(start);
                self.frame.text.extend_from_slice(kept);
            }
            self.refuse(SyntaxError::LineTooLong);
            self.line_bytes = self.line_bytes.saturating_add(waiting);
            self.consumed = self.input.len().saturating_sub(ANNOUNCEMENT_BYTES_MAX).max(self.consumed);
            self.searched = self.input.len().saturating_sub(self.consumed);
            if self.line_bytes > SKIP_BYTES_MAX {
                return Decoded::Fatal(SyntaxError::LineTooLong);
            }
        }
        Decoded::Incomplete
    }

    fn begin_literal(&mut self, literal: AnnouncedLiteral) -> Option<Decoded> {
        self.literal_count += 1;
        self.literal_bytes = self.literal_bytes.saturating_add(literal.length);
        if self.literal_count > limits::LITERALS_MAX {
            self.refuse(SyntaxError::Limit("literals"));
        }
        let (each_max, all_max) = self.literal_limits();
        if literal.length > each_max || self.literal_bytes > all_max {
            self.refuse(SyntaxError::LiteralTooBig);
        }
        if self.refusal.is_some() {
            if literal.synchronising {
                return Some(self.finish());
            }
            if self.literal_bytes > SKIP_BYTES_MAX || !self.mode.authenticated {
                return Some(Decoded::Fatal(SyntaxError::LiteralTooBig));
            }
            self.state = State::Skip { missing: literal.length };
            return None;
        }
        if literal.length <= INLINE_BYTES_MAX {
            self.state = State::Inline { missing: literal.length };
        } else {
            let reserve = Vec::with_capacity(literal.length.min(RESERVE_BYTES_MAX));
            self.frame.literals.push((self.frame.text.len(), reserve));
            self.state = State::Large { missing: literal.length };
        }
        literal.synchronising.then_some(Decoded::Continue)
    }

    /// Gives the most bytes that one literal, and all literals, of the present command may have.
    fn literal_limits(&self) -> (usize, usize) {
        if !self.mode.authenticated {
            return (limits::LITERAL_BYTES_BEFORE_LOGIN_MAX, limits::LITERAL_BYTES_BEFORE_LOGIN_MAX * 2);
        }
        if parse::takes_messages(&self.frame.text) {
            return (self.mode.append_bytes_max, limits::APPEND_TOTAL_BYTES_MAX.max(self.mode.append_bytes_max));
        }
        (limits::STRING_LITERAL_BYTES_MAX, limits::STRING_LITERALS_TOTAL_BYTES_MAX)
    }

    fn take_inline(&mut self, missing: usize) -> Option<Decoded> {
        let available = self.input.get(self.consumed..).unwrap_or_default();
        let taken = available.get(..missing).unwrap_or(available);
        self.frame.text.extend_from_slice(taken);
        let taken = taken.len();
        self.consumed += taken;
        if taken < missing {
            self.state = State::Inline { missing: missing - taken };
            return Some(Decoded::Incomplete);
        }
        self.state = State::Line;
        None
    }

    fn take_large(&mut self, total: usize) -> Option<Decoded> {
        let available = self.input.get(self.consumed..).unwrap_or_default();
        let Some((_, literal)) = self.frame.literals.last_mut() else {
            return Some(Decoded::Fatal(SyntaxError::LiteralTooBig));
        };
        let missing = total.saturating_sub(literal.len());
        let taken = available.get(..missing).unwrap_or(available);
        literal.extend_from_slice(taken);
        self.consumed += taken.len();
        if literal.len() < total {
            return Some(Decoded::Incomplete);
        }
        self.state = State::Line;
        None
    }

    fn take_skipped(&mut self, missing: usize) -> Option<Decoded> {
        let available = self.input.len().saturating_sub(self.consumed);
        let taken = available.min(missing);
        self.consumed += taken;
        if taken < missing {
            self.state = State::Skip { missing: missing - taken };
            return Some(Decoded::Incomplete);
        }
        self.state = State::Line;
        None
    }

    /// The command is complete: parses it, and begins the next.
    fn finish(&mut self) -> Decoded {
        let frame = std::mem::take(&mut self.frame);
        self.state = State::Line;
        self.line_bytes = 0;
        self.literal_bytes = 0;
        self.literal_count = 0;
        match self.refusal.take() {
            Some((error, was_to_save)) => {
                Decoded::Refused(Refusal { tag: parse::tag_of(&frame.text), error, was_to_save })
            }
            None => parse::command(frame, self.mode),
        }
    }

    /// Remembers why the command will be refused; the first reason counts. What was collected is dropped.
    fn refuse(&mut self, error: SyntaxError) {
        if self.refusal.is_none() {
            self.refusal = Some((error, parse::saves_result(&self.frame.text)));
            self.frame.literals = Vec::new();
            self.frame.text.truncate(limits::TAG_BYTES_MAX + 1);
        }
    }

    /// Gives the position behind the next LF.
    fn find_line_end(&mut self) -> Option<usize> {
        let from = self.consumed.saturating_add(self.searched);
        let found = self.input.get(from..).and_then(|rest| memchr::memchr(b'\n', rest));
        match found {
            Some(offset) => {
                self.searched = 0;
                Some(from + offset + 1)
            }
            None => {
                self.searched = self.input.len().saturating_sub(self.consumed);
                None
            }
        }
    }

    fn give_memory_back(&mut self) {
        if self.consumed >= self.input.len() {
            self.input = Vec::new();
            self.consumed = 0;
        } else if self.consumed > INLINE_BYTES_MAX {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct AnnouncedLiteral {
    length: usize,
    synchronising: bool,
}

/// Finds the announcement of a literal at the end of a line: `{12}`, `{12+}`. A length beyond all measure saturates.
fn announced_literal(line: &[u8]) -> Option<AnnouncedLiteral> {
    let inner = without_line_end(line).strip_suffix(b"}")?;
    let (inner, synchronising) = match inner.strip_suffix(b"+") {
        Some(inner) => (inner, false),
        None => (inner, true),
    };
    let brace = inner.iter().rposition(|byte| *byte == b'{')?;
    let digits = inner.get(brace + 1..)?;
    if digits.is_empty() || digits.len() > 20 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |length: usize, digit: &u8| length.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
    Some(AnnouncedLiteral { length: digits.iter().fold(0, add), synchronising })
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
