//! The decoder: turns bytes into commands, in whatever portions the network delivers them.
//!
//! A command is a line, or several lines with literals between them. The decoder collects the complete command (a
//! [`Frame`]) before it parses. Small literals are kept within the text. Each larger literal has a buffer of its own
//! that [`CommandDecoder::literal_buffer`] exposes, so that the connection reads into it directly and a message is
//! written to memory once.
//!
//! The decoder promises the following:
//!
//! - Memory stays within the limits of [`SyntaxMode`] and [`crate::limits`], whatever arrives.
//! - Memory beyond a few KiB is taken from a budget ([`base::memory`]): for a literal when it is announced, for a long
//!   line as it arrives. It is held while the command is received, and until the next call of
//!   [`CommandDecoder::decode`] after its last part, that is, while the command is executed.
//! - A literal that is announced as too large, or for which no memory is left, is refused before the client sends it,
//!   or skipped if the client sends it without waiting.
//! - After a refusal the decoder finds the start of the next command.
//! - An idle decoder holds no buffer.
//!
//! A line may end with a bare LF. This is for people who use a terminal, and it is harmless because no input is
//! forwarded from here.

use base::line_ends::without_line_end;
use base::memory::{MemoryBudget, MemoryPermit};
use wire::TransferProgress;

use super::command::Command;
use super::error::SyntaxError;
use super::parse;
use super::verb::Verb;
use crate::limits;

/// Session state that affects the syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxMode {
    /// `true` if the client has logged in. Before login, only short literals are accepted.
    pub authenticated: bool,
    /// `true` if mailbox names are plain UTF-8 (IMAP4rev2 or UTF8=ACCEPT enabled).
    pub utf8: bool,
    /// `true` if SEARCH must not name a charset (UTF8=ACCEPT enabled, RFC 6855 §3).
    pub charset_refused: bool,
    /// Maximum size of a message.
    pub append_bytes_max: usize,
}

impl Default for SyntaxMode {
    fn default() -> Self {
        Self { authenticated: false, utf8: false, charset_refused: false, append_bytes_max: limits::APPEND_BYTES_MAX }
    }
}

/// Result of decoding.
#[derive(Debug, Clone, PartialEq)]
pub enum DecodeResult {
    /// More bytes are needed.
    Incomplete,
    /// The client waits for a continuation request before it sends a literal.
    Continue,
    /// A command.
    Command(&'static Verb, Command),
    /// A command that was refused. The client receives the error and may continue.
    Refused(RefusedCommand),
    /// The client sends data that cannot be skipped, so the connection must end.
    Fatal(SyntaxError),
}

/// A refused command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedCommand {
    /// The tag, or `None` if the command had none.
    pub tag: Option<String>,
    /// The reason for the refusal.
    pub error: SyntaxError,
    /// `true` if the command was to save a search result. The saved result becomes empty if such a command ends with NO
    /// (RFC 5182 §2.1).
    pub requested_save: bool,
}

/// One command as received: its text, and its large literals with their positions in the text.
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

/// Collects bytes and returns commands.
#[derive(Debug)]
pub struct CommandDecoder {
    input: Vec<u8>,
    /// Number of bytes of `input` that have been processed.
    consumed: usize,
    /// Number of bytes after `consumed` that are known to contain no LF.
    searched: usize,
    state: State,
    frame: Frame,
    line_bytes: usize,
    /// Number of bytes that the literals of the command announce.
    literal_bytes: usize,
    literal_count: usize,
    /// Number of bytes that the last literal of the command announces.
    literal_length: usize,
    /// Number of literals that have been announced.
    literals_begun: u64,
    /// Number of commands, and of other lines, that are complete.
    commands_ended: u64,
    /// The budget for the memory of commands.
    memory: MemoryBudget,
    /// The memory of the command that is being received.
    held: Option<MemoryPermit>,
    /// The memory of the last complete command.
    _executing: Option<MemoryPermit>,
    /// The error with which the command will be refused once its rest has been read. The flag is `true` if the command
    /// was to save a search result.
    refusal: Option<(SyntaxError, bool)>,
    mode: SyntaxMode,
}

/// Maximum size of a literal that is kept within the text.
const INLINE_BYTES_MAX: usize = 4 << 10;
/// Number of bytes of a command that are not counted, so that ordinary commands do not touch the budget.
const UNCOUNTED_BYTES_MAX: usize = 4 << 10;
/// Maximum memory allocated in advance for a literal, because its size is only the client's claim.
const RESERVE_BYTES_MAX: usize = 1 << 20;
/// Maximum length of the announcement of a literal. This many bytes at the end of an overlong line are kept, so that an
/// announcement there is recognized.
const ANNOUNCEMENT_BYTES_MAX: usize = 32;
/// Maximum number of bytes of a refused command that are skipped before the connection ends.
const SKIP_BYTES_MAX: usize = 1 << 30;

impl CommandDecoder {
    /// Creates a decoder for a new connection. Commands take their memory from `memory`.
    #[must_use]
    pub fn new(mode: SyntaxMode, memory: MemoryBudget) -> Self {
        Self {
            input: Vec::new(),
            consumed: 0,
            searched: 0,
            state: State::Line,
            frame: Frame::default(),
            line_bytes: 0,
            literal_bytes: 0,
            literal_count: 0,
            literal_length: 0,
            literals_begun: 0,
            commands_ended: 0,
            memory,
            held: None,
            _executing: None,
            refusal: None,
            mode,
        }
    }

    /// Returns the mode.
    #[must_use]
    pub fn mode(&self) -> SyntaxMode {
        self.mode
    }

    /// Changes the mode for commands that begin after this call.
    pub fn set_mode(&mut self, mode: SyntaxMode) {
        self.mode = mode;
    }

    /// Changes the budget for the memory of commands that begin after this call.
    pub fn set_memory(&mut self, memory: MemoryBudget) {
        self.memory = memory;
    }

    /// Appends bytes from the network.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Returns the input buffer. Appending bytes from the network to it is equivalent to feeding them.
    pub fn input(&mut self) -> &mut Vec<u8> {
        &mut self.input
    }

    /// Returns the buffer of the large literal that is being received, and the number of bytes that it still lacks.
    ///
    /// Returns `None` if no large literal is being received or while fed bytes wait to be decoded. Bytes appended to
    /// the buffer need not be fed.
    pub fn literal_buffer(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let State::Large { missing } = self.state else { return None };
        if self.consumed < self.input.len() {
            return None;
        }
        let (_, literal) = self.frame.literals.last_mut()?;
        let missing = missing.saturating_sub(literal.len());
        reserve(literal, 1, missing);
        Some((literal, missing))
    }

    /// Returns `true` if no part of a command has arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.consumed == self.input.len() && self.frame.text.is_empty() && self.refusal.is_none()
    }

    /// Returns the progress of the literal that is being received.
    #[must_use]
    pub fn literal_progress(&self) -> Option<TransferProgress> {
        if matches!(self.state, State::Line) {
            return None;
        }
        let received_bytes = self.literal_length.saturating_sub(self.literal_missing()) as u64;
        Some(TransferProgress { number: self.literals_begun, received_bytes })
    }

    /// Returns the progress of the command of which a part has arrived.
    #[must_use]
    pub fn command_progress(&self) -> Option<TransferProgress> {
        if self.is_empty() {
            return None;
        }
        let waiting = self.input.len().saturating_sub(self.consumed);
        let literal_bytes = self.literal_bytes.saturating_sub(self.literal_missing());
        let received_bytes = self.line_bytes.saturating_add(literal_bytes).saturating_add(waiting) as u64;
        Some(TransferProgress { number: self.commands_ended, received_bytes })
    }

    /// Returns the number of bytes that the current literal lacks.
    fn literal_missing(&self) -> usize {
        match self.state {
            State::Line => 0,
            State::Inline { missing } | State::Skip { missing } => missing,
            State::Large { missing } => {
                missing.saturating_sub(self.frame.literals.last().map_or(0, |(_, literal)| literal.len()))
            }
        }
    }

    /// Discards bytes that were fed but belong to no command yet, and returns their number. They must be discarded
    /// before TLS starts.
    pub fn discard_input(&mut self) -> usize {
        let count = self.input.len().saturating_sub(self.consumed);
        self.input = Vec::new();
        self.consumed = 0;
        self.searched = 0;
        count
    }

    /// Returns the next command, or the reason why there is none yet. The caller must repeat the call until it returns
    /// [`DecodeResult::Incomplete`].
    pub fn decode(&mut self) -> DecodeResult {
        self._executing = None;
        loop {
            let step = match self.state {
                State::Line => self.take_line_of_command(),
                State::Inline { missing } => self.take_inline(missing),
                State::Large { missing } => self.take_large(missing),
                State::Skip { missing } => self.take_skipped(missing),
            };
            if let Some(decoded) = step {
                self.release_memory();
                return decoded;
            }
        }
    }

    /// Returns the next line without its line end: the client's answer to a continuation request of AUTHENTICATE or
    /// IDLE.
    ///
    /// Returns `None` if more bytes are needed. Returns an error for a line that is too long, whether its end has
    /// arrived or not.
    pub fn decode_line(&mut self) -> Option<Result<Vec<u8>, SyntaxError>> {
        let end = self.find_line_end();
        let available = self.input.get(self.consumed..end.unwrap_or(self.input.len())).unwrap_or_default();
        let line = without_line_end(available);
        if line.len() > limits::CONTINUATION_BYTES_MAX {
            return Some(Err(SyntaxError::LineTooLong));
        }
        let end = end?;
        let line = line.to_vec();
        self.consumed = end;
        self.commands_ended = self.commands_ended.saturating_add(1);
        self.release_memory();
        Some(Ok(line))
    }

    fn take_line_of_command(&mut self) -> Option<DecodeResult> {
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

    /// Handles a line whose end has not arrived: refuses the command if the line is already too long or no memory is
    /// left for it, and drops bytes that need not be kept.
    fn wait_for_line_end(&mut self) -> DecodeResult {
        let waiting = self.input.len().saturating_sub(self.consumed);
        let line_bytes = self.line_bytes.saturating_add(waiting);
        let error = if line_bytes > limits::LINE_BYTES_MAX {
            Some(SyntaxError::LineTooLong)
        } else if self.refusal.is_none() && !self.hold_memory(line_bytes) {
            // The rest of the line is dropped as it arrives, like that of a line that is too long.
            self.line_bytes = limits::LINE_BYTES_MAX;
            Some(SyntaxError::NoMemory)
        } else {
            None
        };
        if let Some(error) = error {
            if self.frame.text.is_empty() {
                let start = self.input.get(self.consumed..).unwrap_or_default();
                let kept = start.get(..limits::TAG_BYTES_MAX + 1).unwrap_or(start);
                self.frame.text.extend_from_slice(kept);
            }
            self.refuse(error);
            self.line_bytes = self.line_bytes.saturating_add(waiting);
            self.consumed = self.input.len().saturating_sub(ANNOUNCEMENT_BYTES_MAX).max(self.consumed);
            self.searched = self.input.len().saturating_sub(self.consumed);
            if self.line_bytes > SKIP_BYTES_MAX {
                return DecodeResult::Fatal(SyntaxError::LineTooLong);
            }
        }
        DecodeResult::Incomplete
    }

    fn begin_literal(&mut self, literal: AnnouncedLiteral) -> Option<DecodeResult> {
        self.literal_count += 1;
        self.literal_bytes = self.literal_bytes.saturating_add(literal.length);
        self.literal_length = literal.length;
        self.literals_begun = self.literals_begun.saturating_add(1);
        if self.literal_count > limits::LITERALS_MAX {
            self.refuse(SyntaxError::Limit("literals"));
        }
        let (each_max, all_max) = self.literal_limits();
        if literal.length > each_max || self.literal_bytes > all_max {
            self.refuse(SyntaxError::LiteralTooBig);
        }
        if self.refusal.is_none() && !self.hold_memory(self.line_bytes) {
            self.refuse(SyntaxError::NoMemory);
        }
        if self.refusal.is_some() {
            if literal.synchronizing {
                return Some(self.finish());
            }
            if self.literal_bytes > SKIP_BYTES_MAX || !self.mode.authenticated {
                let is_temporary = matches!(self.refusal, Some((SyntaxError::NoMemory, _)));
                let error = if is_temporary { SyntaxError::NoMemory } else { SyntaxError::LiteralTooBig };
                return Some(DecodeResult::Fatal(error));
            }
            self.state = State::Skip { missing: literal.length };
            return None;
        }
        if literal.length <= INLINE_BYTES_MAX {
            self.state = State::Inline { missing: literal.length };
        } else {
            let buffer = Vec::with_capacity(literal.length.min(RESERVE_BYTES_MAX));
            self.frame.literals.push((self.frame.text.len(), buffer));
            self.state = State::Large { missing: literal.length };
        }
        literal.synchronizing.then_some(DecodeResult::Continue)
    }

    /// Returns the maximum size of one literal, and of all literals together, in the current command.
    fn literal_limits(&self) -> (usize, usize) {
        if !self.mode.authenticated {
            return (limits::LITERAL_BYTES_BEFORE_LOGIN_MAX, limits::LITERAL_BYTES_BEFORE_LOGIN_MAX * 2);
        }
        if parse::carries_messages(&self.frame.text) {
            return (self.mode.append_bytes_max, limits::APPEND_TOTAL_BYTES_MAX.max(self.mode.append_bytes_max));
        }
        (limits::STRING_LITERAL_BYTES_MAX, limits::STRING_LITERALS_TOTAL_BYTES_MAX)
    }

    fn take_inline(&mut self, missing: usize) -> Option<DecodeResult> {
        let available = self.input.get(self.consumed..).unwrap_or_default();
        let taken = available.get(..missing).unwrap_or(available);
        self.frame.text.extend_from_slice(taken);
        let taken = taken.len();
        self.consumed += taken;
        if taken < missing {
            self.state = State::Inline { missing: missing - taken };
            return Some(DecodeResult::Incomplete);
        }
        self.state = State::Line;
        None
    }

    fn take_large(&mut self, total: usize) -> Option<DecodeResult> {
        let available = self.input.get(self.consumed..).unwrap_or_default();
        let Some((_, literal)) = self.frame.literals.last_mut() else {
            return Some(DecodeResult::Fatal(SyntaxError::LiteralTooBig));
        };
        let missing = total.saturating_sub(literal.len());
        let taken = available.get(..missing).unwrap_or(available);
        reserve(literal, taken.len(), missing);
        literal.extend_from_slice(taken);
        self.consumed += taken.len();
        if literal.len() < total {
            return Some(DecodeResult::Incomplete);
        }
        self.state = State::Line;
        None
    }

    fn take_skipped(&mut self, missing: usize) -> Option<DecodeResult> {
        let available = self.input.len().saturating_sub(self.consumed);
        let taken = available.min(missing);
        self.consumed += taken;
        if taken < missing {
            self.state = State::Skip { missing: missing - taken };
            return Some(DecodeResult::Incomplete);
        }
        self.state = State::Line;
        None
    }

    /// Parses the complete command and prepares for the next one.
    fn finish(&mut self) -> DecodeResult {
        let frame = std::mem::take(&mut self.frame);
        self.state = State::Line;
        self.line_bytes = 0;
        self.literal_bytes = 0;
        self.literal_count = 0;
        self._executing = self.held.take();
        self.commands_ended = self.commands_ended.saturating_add(1);
        match self.refusal.take() {
            Some((error, was_to_save)) => DecodeResult::Refused(RefusedCommand {
                tag: parse::tag_of(&frame.text),
                error,
                requested_save: was_to_save,
            }),
            None => parse::command(frame, self.mode),
        }
    }

    /// Records that the command will be refused, and drops the collected data. Only the first error counts.
    fn refuse(&mut self, error: SyntaxError) {
        if self.refusal.is_none() {
            self.refusal = Some((error, parse::requests_save(&self.frame.text)));
            self.frame.literals = Vec::new();
            self.frame.text.truncate(limits::TAG_BYTES_MAX + 1);
            self.held = None;
        }
    }

    /// Takes memory for `line_bytes` bytes of lines and for the literals that the command has announced. Returns
    /// `false` if there is none left.
    fn hold_memory(&mut self, line_bytes: usize) -> bool {
        let counted = line_bytes.saturating_add(self.literal_bytes).saturating_sub(UNCOUNTED_BYTES_MAX);
        if counted == 0 {
            return true;
        }
        let held = self.held.get_or_insert_with(|| self.memory.empty_permit());
        held.grow(counted.saturating_sub(held.bytes())).is_ok()
    }

    /// Returns the position after the next LF.
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

    fn release_memory(&mut self) {
        if self.consumed >= self.input.len() {
            self.input = Vec::new();
            self.consumed = 0;
        } else if self.consumed > INLINE_BYTES_MAX {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
    }
}

/// Acquires capacity for `needed` further bytes of a literal that lacks `missing` bytes. The capacity at most doubles,
/// and never exceeds the length of the literal.
fn reserve(literal: &mut Vec<u8>, needed: usize, missing: usize) {
    if literal.capacity() - literal.len() < needed {
        let ahead = literal.len().max(RESERVE_BYTES_MAX).min(missing);
        literal.reserve_exact(ahead.max(needed));
    }
}

#[derive(Debug, Clone, Copy)]
struct AnnouncedLiteral {
    length: usize,
    synchronizing: bool,
}

/// Returns the literal that the end of a line announces: `{12}`, `{12+}`. A length beyond the range of `usize`
/// saturates.
fn announced_literal(line: &[u8]) -> Option<AnnouncedLiteral> {
    let inner = without_line_end(line).strip_suffix(b"}")?;
    let (inner, synchronizing) = match inner.strip_suffix(b"+") {
        Some(inner) => (inner, false),
        None => (inner, true),
    };
    let brace = inner.iter().rposition(|byte| *byte == b'{')?;
    let digits = inner.get(brace + 1..)?;
    if digits.is_empty() || digits.len() > 20 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |length: usize, digit: &u8| length.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
    Some(AnnouncedLiteral { length: digits.iter().fold(0, add), synchronizing })
}
