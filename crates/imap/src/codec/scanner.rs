//! The scanner: a cursor over one command that consumes tokens from its front.
//!
//! Every method either consumes the element that it names, or returns an error that states what was expected. Data that
//! can be borrowed from the command's text is not copied, and large literals are moved out of the frame.

use std::borrow::Cow;

use mail::mailbox::utf7;

use super::command::{Bound, MailboxName, MessageSet, RequestedFlags, SequenceRange, SequenceSet, SystemFlags};
use super::decoder::{Frame, SyntaxMode};
use super::error::SyntaxError;
use super::writer;
use crate::limits;

/// Result of parsing.
pub type Parsed<T> = Result<T, SyntaxError>;

/// A cursor over a command.
pub struct Scanner<'f> {
    text: &'f [u8],
    position: usize,
    literals: std::vec::IntoIter<(usize, Vec<u8>)>,
    mode: SyntaxMode,
}

impl<'f> Scanner<'f> {
    /// Creates a scanner at the front of the command.
    pub fn new(frame: &'f mut Frame, mode: SyntaxMode) -> Self {
        let literals = std::mem::take(&mut frame.literals).into_iter();
        Self { text: &frame.text, position: 0, literals, mode }
    }

    /// Returns the session's mode.
    pub fn mode(&self) -> SyntaxMode {
        self.mode
    }

    /// Returns the next byte without consuming it.
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    /// Consumes the byte if it is next. Returns `true` if it was.
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    /// Consumes this byte. Returns an error if another byte is next.
    pub fn expect(&mut self, byte: u8, description: &'static str) -> Parsed<()> {
        if self.take(byte) { Ok(()) } else { Err(SyntaxError::Expected(description)) }
    }

    /// Consumes one space. Returns an error if another byte is next.
    pub fn space(&mut self) -> Parsed<()> {
        self.expect(b' ', "a space")
    }

    /// Consumes any number of spaces. Returns `true` if there was at least one.
    pub fn spaces(&mut self) -> bool {
        !self.bytes_while(|byte| byte == b' ').is_empty()
    }

    /// Consumes the end of the command. Spaces before it are accepted.
    pub fn end(&mut self) -> Parsed<()> {
        while self.take(b' ') {}
        self.take(b'\r');
        self.expect(b'\n', "the end of the command")
    }

    /// Returns `true` if only spaces are left before the end of the line.
    pub fn is_at_end(&self) -> bool {
        let rest = self.text.get(self.position..).unwrap_or_default();
        rest.iter().all(|byte| matches!(byte, b' ' | b'\r' | b'\n'))
    }

    /// Returns the current position for [`Scanner::go_back`].
    pub fn checkpoint(&self) -> usize {
        self.position
    }

    /// Moves back to a checkpoint.
    pub fn go_back(&mut self, checkpoint: usize) {
        self.position = checkpoint;
    }

    /// Consumes the word if it is next, ignoring case. A longer word that begins with it does not count. Returns `true`
    /// if the word was consumed.
    pub fn take_word(&mut self, word: &str) -> bool {
        let start = self.position;
        if self.bytes_while(is_word_byte).eq_ignore_ascii_case(word.as_bytes()) {
            return true;
        }
        self.position = start;
        false
    }

    /// Consumes the longest sequence, possibly empty, of letters, digits, `.`, `-`, `_`, `=`, `\` and `/`: a word of
    /// the grammar.
    pub fn word(&mut self) -> &'f [u8] {
        self.bytes_while(is_word_byte)
    }

    /// Consumes bytes as long as they satisfy the condition.
    pub fn bytes_while(&mut self, satisfies: impl Fn(u8) -> bool) -> &'f [u8] {
        let rest = self.text.get(self.position..).unwrap_or_default();
        let length = rest.iter().position(|byte| !satisfies(*byte)).unwrap_or(rest.len());
        self.position += length;
        rest.get(..length).unwrap_or_default()
    }

    /// Consumes an atom.
    pub fn atom(&mut self, description: &'static str) -> Parsed<&'f str> {
        let bytes = self.bytes_while(writer::is_atom_byte);
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() => Ok(text),
            _ => Err(SyntaxError::Expected(description)),
        }
    }

    /// Consumes a 32-bit number.
    pub fn number(&mut self) -> Parsed<u32> {
        u32::try_from(self.number64()?).map_err(|_| SyntaxError::Expected("a number below 2^32"))
    }

    /// Consumes a 63-bit number.
    pub fn number64(&mut self) -> Parsed<u64> {
        let digits = self.bytes_while(|byte| byte.is_ascii_digit());
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
        match number {
            Some(number) if number <= i64::MAX.unsigned_abs() => Ok(number),
            _ => Err(SyntaxError::Expected("a number")),
        }
    }

    /// Consumes a 32-bit number other than zero.
    pub fn number_not_zero(&mut self) -> Parsed<u32> {
        match self.number()? {
            0 => Err(SyntaxError::Expected("a number greater than zero")),
            number => Ok(number),
        }
    }

    /// Consumes a quoted string or a literal.
    pub fn string(&mut self) -> Parsed<Cow<'f, [u8]>> {
        match self.peek() {
            Some(b'"') => self.quoted(),
            Some(b'{') => self.literal(),
            Some(b'~') if self.text.get(self.position + 1) == Some(&b'{') => {
                self.position += 1;
                self.literal()
            }
            _ => Err(SyntaxError::Expected("a string")),
        }
    }

    /// Consumes an atom (with `]` allowed), a quoted string or a literal.
    pub fn astring(&mut self) -> Parsed<Cow<'f, [u8]>> {
        self.string_or_bytes(|byte| writer::is_atom_byte(byte) || byte == b']' || byte >= 0x80)
    }

    /// Consumes an astring that contains text.
    pub fn astring_text(&mut self) -> Parsed<String> {
        text_of(self.astring()?)
    }

    /// Consumes a string that contains text, or `NIL`.
    pub fn nstring_text(&mut self) -> Parsed<Option<String>> {
        if self.take_word("NIL") {
            return Ok(None);
        }
        text_of(self.string()?).map(Some)
    }

    /// Consumes a LIST pattern: an astring in which wildcards are allowed. Returns `None` for a pattern that cannot be
    /// decoded, because it matches nothing.
    pub fn list_pattern(&mut self) -> Parsed<Option<String>> {
        let bytes = self
            .string_or_bytes(|byte| writer::is_atom_byte(byte) || matches!(byte, b']' | b'%' | b'*') || byte >= 0x80)?;
        Ok(self.decode_name(&bytes).ok())
    }

    /// Consumes a mailbox name.
    pub fn mailbox(&mut self) -> Parsed<MailboxName> {
        let bytes = self.astring()?;
        self.decode_name(&bytes).map(MailboxName::new)
    }

    /// Consumes a literal. A large literal is moved, not copied. `~{` is accepted.
    pub fn literal_owned(&mut self) -> Parsed<Vec<u8>> {
        self.take(b'~');
        if self.peek() != Some(b'{') {
            return Err(SyntaxError::Expected("a literal"));
        }
        self.literal().map(Cow::into_owned)
    }

    /// Consumes a list in parentheses, possibly empty, whose elements are consumed by `element`. Additional spaces are
    /// accepted between the elements and inside the parentheses.
    pub fn list<T>(
        &mut self,
        count_max: usize,
        description: &'static str,
        mut element: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect(b'(', "a list in parentheses")?;
        let mut elements = Vec::new();
        loop {
            let separated = self.spaces();
            if self.take(b')') {
                return Ok(elements);
            }
            if !elements.is_empty() && !separated {
                return Err(SyntaxError::Expected("a space"));
            }
            if elements.len() >= count_max {
                return Err(SyntaxError::Limit(description));
            }
            elements.push(element(self)?);
        }
    }

    /// Consumes a sequence set, or `$`.
    pub fn message_set(&mut self) -> Parsed<MessageSet> {
        if self.take(b'$') {
            return Ok(MessageSet::Saved);
        }
        self.sequence_set().map(MessageSet::Numbers)
    }

    /// Consumes a sequence set.
    pub fn sequence_set(&mut self) -> Parsed<SequenceSet> {
        let mut ranges = Vec::with_capacity(1);
        loop {
            if ranges.len() >= limits::SEQUENCE_RANGES_MAX {
                return Err(SyntaxError::Limit("ranges"));
            }
            let first = self.bound()?;
            let last = if self.take(b':') { self.bound()? } else { first };
            ranges.push(SequenceRange { first, last });
            if !self.take(b',') {
                return Ok(SequenceSet { ranges });
            }
        }
    }

    /// Consumes a message number, or `*`.
    pub fn bound(&mut self) -> Parsed<Bound> {
        if self.take(b'*') {
            return Ok(Bound::Last);
        }
        self.number_not_zero().map(Bound::Number)
    }

    /// Consumes flags in parentheses.
    pub fn flag_list(&mut self) -> Parsed<RequestedFlags> {
        let flags = self.list(limits::FLAGS_MAX, "flags", Self::flag)?;
        Ok(flag_list_of(flags))
    }

    /// Consumes flags that are separated by spaces, without parentheses.
    pub fn bare_flags(&mut self) -> Parsed<RequestedFlags> {
        let mut flags = vec![self.flag()?];
        while !self.is_at_end() {
            self.space()?;
            if flags.len() >= limits::FLAGS_MAX {
                return Err(SyntaxError::Limit("flags"));
            }
            flags.push(self.flag()?);
        }
        Ok(flag_list_of(flags))
    }

    fn flag(&mut self) -> Parsed<FlagName> {
        if self.peek() == Some(b'\\') {
            self.position += 1;
            let name = self.atom("a flag")?;
            let known = SystemFlags::by_name(format!("\\{name}").as_bytes());
            return match known {
                Some(flag) => Ok(FlagName::System(flag)),
                None if name.eq_ignore_ascii_case("Recent") => Ok(FlagName::Recent),
                None => Err(SyntaxError::Expected("a known system flag")),
            };
        }
        let keyword = self.atom("a flag")?;
        if keyword.len() > limits::KEYWORD_BYTES_MAX {
            return Err(SyntaxError::Limit("keyword"));
        }
        Ok(FlagName::Keyword(keyword.to_owned()))
    }

    fn string_or_bytes(&mut self, satisfies: impl Fn(u8) -> bool) -> Parsed<Cow<'f, [u8]>> {
        if matches!(self.peek(), Some(b'"' | b'{')) {
            return self.string();
        }
        match self.bytes_while(satisfies) {
            [] => Err(SyntaxError::Expected("a string")),
            bytes => Ok(Cow::Borrowed(bytes)),
        }
    }

    fn quoted(&mut self) -> Parsed<Cow<'f, [u8]>> {
        self.expect(b'"', "a quoted string")?;
        let plain = self.bytes_while(|byte| !matches!(byte, b'"' | b'\\' | b'\r' | b'\n' | 0));
        if self.take(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_vec();
        while self.take(b'\\') {
            match self.peek() {
                Some(byte @ (b'"' | b'\\')) => text.push(byte),
                _ => return Err(SyntaxError::Expected("a quotation mark or backslash after the backslash")),
            }
            self.position += 1;
            text.extend_from_slice(self.bytes_while(|byte| !matches!(byte, b'"' | b'\\' | b'\r' | b'\n' | 0)));
        }
        self.expect(b'"', "the end of the quoted string")?;
        Ok(Cow::Owned(text))
    }

    fn literal(&mut self) -> Parsed<Cow<'f, [u8]>> {
        self.expect(b'{', "a literal")?;
        let length = self.number64()?;
        self.take(b'+');
        self.expect(b'}', "a literal")?;
        self.take(b'\r');
        self.expect(b'\n', "a literal")?;
        let length = usize::try_from(length).map_err(|_| SyntaxError::LiteralTooBig)?;
        let place = self.position;
        if self.literals.as_slice().first().is_some_and(|(position, _)| *position == place) {
            return Ok(Cow::Owned(self.literals.next().map(|(_, literal)| literal).unwrap_or_default()));
        }
        let end = self.position.checked_add(length).ok_or(SyntaxError::LiteralTooBig)?;
        let bytes = self.text.get(self.position..end).ok_or(SyntaxError::Expected("a literal"))?;
        self.position = end;
        Ok(Cow::Borrowed(bytes))
    }

    fn decode_name(&self, bytes: &[u8]) -> Parsed<String> {
        let name =
            if self.mode.utf8 { std::str::from_utf8(bytes).ok().map(str::to_owned) } else { utf7::decode(bytes) };
        match name {
            Some(name) if name.len() <= limits::MAILBOX_NAME_BYTES_MAX && !name.contains('\0') => Ok(name),
            _ => Err(SyntaxError::MailboxName),
        }
    }
}

/// Converts bytes that must be UTF-8 to a string.
pub fn text_of(bytes: Cow<'_, [u8]>) -> Parsed<String> {
    String::from_utf8(bytes.into_owned()).map_err(|_| SyntaxError::Expected("valid UTF-8 text"))
}

enum FlagName {
    System(SystemFlags),
    Recent,
    Keyword(String),
}

/// Collects flags. `\Recent` is left out, because only the server sets it.
fn flag_list_of(flags: Vec<FlagName>) -> RequestedFlags {
    let mut list = RequestedFlags { system: SystemFlags::NONE, keywords: Vec::new() };
    for flag in flags {
        match flag {
            FlagName::System(flag) => list.system.insert(flag),
            FlagName::Recent => {}
            FlagName::Keyword(keyword) if list.keywords.iter().any(|known| known.eq_ignore_ascii_case(&keyword)) => {}
            FlagName::Keyword(keyword) => list.keywords.push(keyword),
        }
    }
    list
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'=' | b'\\' | b'/')
}
