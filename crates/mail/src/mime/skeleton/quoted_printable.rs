//! Quoted-printable that can be encoded again to exactly the same characters.
//!
//! Programs differ in the bytes that they escape without need and in where they break lines. [`decode_reversibly`]
//! derives both from the text: the bytes that are always escaped; whether white space at the end of a line, a dot or a
//! `From ` at its beginning is escaped; the case of the digits; and the longest line. Line breaks follow one of two
//! usual rules, or else are stored as a list with one byte per line. Then the text is encoded again and compared. Any
//! text that is not reproduced exactly is rejected.
//!
//! Reading a range of the text requires encoding all of it, so long texts are rejected too.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::hex;
use base::line_ends::line_end;

use super::LineEnding;
use crate::limits::QUOTED_PRINTABLE_BYTES_MAX;

/// The style in which a text is encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedPrintableStyle {
    ending: LineEnding,
    /// `true` if hexadecimal digits are in lower case.
    lower_case: bool,
    /// The bytes that are escaped in any position.
    escaped: ByteSet,
    contexts: PositionalEscapes,
    breaks: LineBreaks,
}

/// Positions in which bytes are escaped that are literal elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PositionalEscapes {
    /// A space or a tab before a line end.
    trailing_blank: bool,
    /// A dot at the beginning of a line.
    leading_dot: bool,
    /// The F of `From ` at the beginning of a line.
    leading_from: bool,
}

/// The rule for line breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LineBreaks {
    /// Lines are broken as late as the length allows. A line that ends without a break may be as long as a broken line
    /// with its `=`.
    Late(u8),
    /// Lines are broken as late as the length allows, with space for the `=` even if the line is not broken.
    Early(u8),
    /// One entry for each line: its length with the `=`, or 0 if it is not broken.
    Listed(Vec<u8>),
}

/// Determines the style of a body and decodes it. Returns `None` if encoding it again would not yield the same bytes.
#[must_use]
pub fn decode_reversibly(body: &[u8]) -> Option<(Vec<u8>, QuotedPrintableStyle)> {
    if body.len() > QUOTED_PRINTABLE_BYTES_MAX {
        return None;
    }
    let mut reading = StyleDetector::new(ending_of(body));
    reading.read(body)?;
    let content = std::mem::take(&mut reading.content);
    let longest = reading.lines.iter().copied().max().unwrap_or(0);
    let mut style = reading.style(LineBreaks::Late(longest))?;
    for breaks in [LineBreaks::Late(longest), LineBreaks::Early(longest), LineBreaks::Listed(reading.lines)] {
        style.breaks = breaks;
        if style.encodes_to(&content, body) {
            return Some((content, style));
        }
    }
    None
}

fn ending_of(body: &[u8]) -> LineEnding {
    match memchr::memchr(b'\n', body) {
        Some(position) if !body[..position].ends_with(b"\r") => LineEnding::Lf,
        _ => LineEnding::CrLf,
    }
}

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    /// The bytes that must be escaped: all except spaces, tabs and printable ASCII other than `=`.
    const NEEDED: Self = Self([0xFFFF_FFFF & !(1 << 9) | 1 << 61, 1 << 63, u64::MAX, u64::MAX]);

    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0
    }

    fn bytes(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |byte| self.contains(*byte))
    }

    fn combine(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|index| combine(self.0[index], other.0[index])))
    }
}

/// The content of a text and the properties of its encoding, gathered during decoding.
struct StyleDetector {
    ending: LineEnding,
    content: Vec<u8>,
    /// One entry for each line, as in [`LineBreaks::Listed`].
    lines: Vec<u8>,
    escaped: ByteSet,
    contexts: PositionalEscapes,
    lower_case: bool,
    upper_case: bool,
}

impl StyleDetector {
    fn new(ending: LineEnding) -> Self {
        Self {
            ending,
            content: Vec::new(),
            lines: Vec::new(),
            escaped: ByteSet::default(),
            contexts: PositionalEscapes::default(),
            lower_case: false,
            upper_case: false,
        }
    }

    fn read(&mut self, body: &[u8]) -> Option<()> {
        self.content.reserve(body.len());
        let mut rest = body;
        while !rest.is_empty() {
            let (line, after) = rest.split_at(line_end(rest, 0));
            rest = after;
            let (text, has_end) = match line.strip_suffix(self.ending.bytes()) {
                Some(text) => (text, true),
                None if line.ends_with(b"\n") => return None,
                None => (line, false),
            };
            match text.strip_suffix(b"=") {
                Some(broken) => {
                    self.lines.push(u8::try_from(text.len()).ok().filter(|_| has_end)?);
                    self.read_line(broken, LineKind::Broken)?;
                }
                None => {
                    self.lines.push(0);
                    self.read_line(text, LineKind::Ended)?;
                    if has_end {
                        self.content.extend_from_slice(self.ending.bytes());
                    }
                }
            }
        }
        Some(())
    }

    fn read_line(&mut self, line: &[u8], kind: LineKind) -> Option<()> {
        let mut rest = line;
        let mut at_start = true;
        while let Some(position) = memchr::memchr(b'=', rest) {
            self.content.extend_from_slice(&rest[..position]);
            let (byte, after) = match &rest[position + 1..] {
                [high, low, after @ ..] => (self.digits(*high, *low)?, after),
                _ => return None,
            };
            match byte {
                b' ' | b'\t' if after.is_empty() && kind == LineKind::Ended => self.contexts.trailing_blank = true,
                b'.' if at_start && position == 0 => self.contexts.leading_dot = true,
                b'F' if at_start && position == 0 && after.starts_with(b"rom ") => self.contexts.leading_from = true,
                _ => self.escaped.insert(byte),
            }
            self.content.push(byte);
            at_start = false;
            rest = after;
        }
        self.content.extend_from_slice(rest);
        Some(())
    }

    fn digits(&mut self, high: u8, low: u8) -> Option<u8> {
        self.lower_case |= high.is_ascii_lowercase() || low.is_ascii_lowercase();
        self.upper_case |= high.is_ascii_uppercase() || low.is_ascii_uppercase();
        hex::parse_byte(high, low)
    }

    /// Returns the style that matches the gathered properties. A byte that is escaped somewhere is assumed to be
    /// escaped everywhere. Returns `None` if the case of the digits varies.
    fn style(&self, breaks: LineBreaks) -> Option<QuotedPrintableStyle> {
        if self.lower_case && self.upper_case {
            return None;
        }
        let escaped = ByteSet::NEEDED.combine(self.escaped, |needed, escaped| needed | escaped);
        Some(QuotedPrintableStyle {
            ending: self.ending,
            lower_case: self.lower_case,
            escaped,
            contexts: self.contexts,
            breaks,
        })
    }
}

/// The kind of end of a line of encoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// The line ends with the `=` of a break.
    Broken,
    /// The line ends with a line end of the content, or with the end of the text.
    Ended,
}

impl QuotedPrintableStyle {
    /// Encodes a text. Stops when the result is longer than `size_bytes_max`.
    #[must_use]
    pub fn encode(&self, content: &[u8], size_bytes_max: usize) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(content.len() + content.len() / 16);
        Writer::new(self, |bytes| {
            encoded.extend_from_slice(bytes);
            encoded.len() <= size_bytes_max
        })
        .write(content);
        encoded
    }

    /// Returns `true` if the encoded text equals `expected`.
    fn encodes_to(&self, content: &[u8], expected: &[u8]) -> bool {
        let mut rest = expected;
        let complete = Writer::new(self, |bytes| match rest.strip_prefix(bytes) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        })
        .write(content);
        complete.is_some() && rest.is_empty()
    }

    /// Appends the stored form.
    pub(crate) fn encode_style(&self, encoder: &mut Encoder) {
        let (kind, longest) = match &self.breaks {
            LineBreaks::Late(longest) => (0, *longest),
            LineBreaks::Early(longest) => (1, *longest),
            LineBreaks::Listed(_) => (2, 0),
        };
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        encoder.u8(kind
            | bit(self.ending == LineEnding::Lf, 1 << 2)
            | bit(self.lower_case, 1 << 3)
            | bit(self.contexts.trailing_blank, 1 << 4)
            | bit(self.contexts.leading_dot, 1 << 5)
            | bit(self.contexts.leading_from, 1 << 6));
        encoder.u8(longest);
        let unusual: Vec<u8> = self.escaped.combine(ByteSet::NEEDED, |a, b| a ^ b).bytes().collect();
        encoder.bytes(&unusual);
        if let LineBreaks::Listed(lines) = &self.breaks {
            encoder.bytes(lines);
        }
    }

    /// Reads the stored form.
    pub(crate) fn decode_style(decoder: &mut Decoder<'_>) -> Result<Self, InvalidRecord> {
        let flags = decoder.u8()?;
        let longest = decoder.u8()?;
        let mut unusual = ByteSet::default();
        decoder.bytes()?.iter().for_each(|byte| unusual.insert(*byte));
        let breaks = match flags & 3 {
            0 => LineBreaks::Late(longest),
            1 => LineBreaks::Early(longest),
            2 => LineBreaks::Listed(decoder.bytes()?.to_vec()),
            _ => return Err(InvalidRecord),
        };
        let contexts = PositionalEscapes {
            trailing_blank: flags & 1 << 4 != 0,
            leading_dot: flags & 1 << 5 != 0,
            leading_from: flags & 1 << 6 != 0,
        };
        let ending = if flags & 1 << 2 != 0 { LineEnding::Lf } else { LineEnding::CrLf };
        let escaped = unusual.combine(ByteSet::NEEDED, |a, b| a ^ b);
        Ok(Self { ending, lower_case: flags & 1 << 3 != 0, escaped, contexts, breaks })
    }
}

/// An encoder that passes pieces to a sink until the sink refuses one.
struct Writer<'a, Sink> {
    style: &'a QuotedPrintableStyle,
    /// The bytes that may have to be escaped.
    special: [bool; 256],
    /// `true` if only the bytes that must always be escaped are special.
    usual: bool,
    sink: Sink,
    column: usize,
    line_number: usize,
}

impl<'a, Sink: FnMut(&[u8]) -> bool> Writer<'a, Sink> {
    fn new(style: &'a QuotedPrintableStyle, sink: Sink) -> Self {
        let contexts = style.contexts;
        let special = std::array::from_fn(|byte| match byte as u8 {
            b'.' if contexts.leading_dot => true,
            b'F' if contexts.leading_from => true,
            byte => style.escaped.contains(byte),
        });
        let usual = style.escaped == ByteSet::NEEDED && !contexts.leading_dot && !contexts.leading_from;
        Self { style, special, usual, sink, column: 0, line_number: 0 }
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        (self.sink)(bytes).then_some(())
    }

    fn write(&mut self, content: &[u8]) -> Option<()> {
        let ending = self.style.ending.bytes();
        let mut rest = content;
        while !rest.is_empty() {
            let end = match self.style.ending {
                LineEnding::Lf => memchr::memchr(b'\n', rest),
                LineEnding::CrLf => memchr::memmem::find(rest, b"\r\n"),
            };
            let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
            self.write_line(line)?;
            if !after.is_empty() {
                self.put(ending)?;
            }
            self.column = 0;
            self.line_number += 1;
            rest = after.get(ending.len()..).unwrap_or_default();
        }
        Some(())
    }

    /// Writes one line of the content, broken into as many lines as necessary.
    fn write_line(&mut self, line: &[u8]) -> Option<()> {
        let blank_at_end = self.style.contexts.trailing_blank && matches!(line, [.., b' ' | b'\t']);
        let plain_end = line.len() - usize::from(blank_at_end);
        let mut index = 0;
        while index < line.len() {
            let run_end = index + self.plain_length(&line[index..plain_end]);
            if run_end > index {
                self.write_literal_bytes(&line[index..run_end], run_end == line.len())?;
                index = run_end;
            } else {
                self.write_special_byte(&line[index..])?;
                index += 1;
            }
        }
        // Some programs break a line after its last byte.
        if matches!(self.style.breaks, LineBreaks::Listed(_)) && self.breaks_before(0, false) {
            self.write_line_break()?;
        }
        Some(())
    }

    /// Returns the number of bytes at the start of `text` that are certainly literal.
    fn plain_length(&self, text: &[u8]) -> usize {
        const CHUNK: usize = 16;
        let needs_escape = |byte: u8| byte.wrapping_sub(b' ') > b'~' - b' ' || byte == b'=';
        let mut length = 0;
        if self.usual {
            // There is no branch per byte, so that the compiler can process many bytes at a time.
            let is_plain = |chunk: &&[u8]| !chunk.iter().fold(false, |any, byte| any | needs_escape(*byte));
            length = text.chunks_exact(CHUNK).take_while(is_plain).count() * CHUNK;
        }
        let rest = &text[length..];
        length + rest.iter().position(|byte| self.special[usize::from(*byte)]).unwrap_or(rest.len())
    }

    /// Writes literal bytes.
    fn write_literal_bytes(&mut self, mut run: &[u8], ends_line: bool) -> Option<()> {
        while !run.is_empty() {
            if self.breaks_before(1, ends_line && run.len() == 1) {
                self.write_line_break()?;
            }
            let room = match &self.style.breaks {
                LineBreaks::Late(0) | LineBreaks::Early(0) => run.len(),
                LineBreaks::Late(longest) if ends_line && self.column + run.len() <= usize::from(*longest) => run.len(),
                LineBreaks::Late(longest) | LineBreaks::Early(longest) => {
                    usize::from(*longest).saturating_sub(self.column + 1)
                }
                LineBreaks::Listed(lines) => match lines.get(self.line_number) {
                    Some(0) | None => run.len(),
                    Some(length) => usize::from(*length).saturating_sub(self.column + 1),
                },
            };
            let (now, later) = run.split_at(room.clamp(1, run.len()));
            self.put(now)?;
            self.column += now.len();
            run = later;
        }
        Some(())
    }

    /// Writes the first byte of the rest of a line, escaped if necessary.
    fn write_special_byte(&mut self, rest: &[u8]) -> Option<()> {
        const UPPER: &[u8; 16] = b"0123456789ABCDEF";
        const LOWER: &[u8; 16] = b"0123456789abcdef";
        let (byte, after) = rest.split_first()?;
        let mut escape = self.escapes(*byte, after);
        if self.breaks_before(if escape { 3 } else { 1 }, after.is_empty()) {
            self.write_line_break()?;
            escape = self.escapes(*byte, after);
        }
        if !escape {
            self.column += 1;
            return self.put(&[*byte]);
        }
        let digits = if self.style.lower_case { LOWER } else { UPPER };
        self.column += 3;
        self.put(&[b'=', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]])
    }

    fn escapes(&self, byte: u8, after: &[u8]) -> bool {
        match byte {
            byte if self.style.escaped.contains(byte) => true,
            b' ' | b'\t' => after.is_empty(),
            b'.' => self.column == 0,
            b'F' => self.column == 0 && after.starts_with(b"rom "),
            _ => false,
        }
    }

    /// Returns `true` if the line is broken before an element of that many characters.
    fn breaks_before(&self, characters: usize, is_last: bool) -> bool {
        let column = self.column;
        match &self.style.breaks {
            LineBreaks::Late(0) | LineBreaks::Early(0) => false,
            LineBreaks::Late(longest) => {
                column > 0 && column + characters >= usize::from(*longest) + usize::from(is_last)
            }
            LineBreaks::Early(longest) => column > 0 && column + characters >= usize::from(*longest),
            LineBreaks::Listed(lines) => {
                lines.get(self.line_number).is_some_and(|length| usize::from(*length) == column + 1)
            }
        }
    }

    fn write_line_break(&mut self) -> Option<()> {
        self.column = 0;
        self.line_number += 1;
        self.put(b"=")?;
        self.put(self.style.ending.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a text and checks the content and the rule for line breaks.
    fn check(body: &str, content: &str, breaks: &LineBreaks) {
        let (found, style) =
            decode_reversibly(body.as_bytes()).unwrap_or_else(|| panic!("{body:?} cannot be encoded again"));
        assert_eq!(String::from_utf8_lossy(&found), content);
        assert_eq!(style.breaks, *breaks, "{body:?}");
        assert_eq!(style.encode(&found, usize::MAX), body.as_bytes());
        let mut encoder = Encoder::new();
        style.encode_style(&mut encoder);
        let stored = encoder.finish();
        assert_eq!(QuotedPrintableStyle::decode_style(&mut Decoder::new(&stored)), Ok(style));
    }

    #[test]
    fn text_without_soft_breaks_round_trips() {
        check("caf=C3=A9 =3D 1\r\nx\r\n", "caf\u{e9} = 1\r\nx\r\n", &LineBreaks::Late(0));
        check("caf=c3=a9\n\n\nx", "caf\u{e9}\n\n\nx", &LineBreaks::Late(0));
        check("a=20\r\nb c=20", "a \r\nb c ", &LineBreaks::Late(0));
        check("=2E\r\n=46rom me. From you\r\n", ".\r\nFrom me. From you\r\n", &LineBreaks::Late(0));
        check("=21=22", "!\"", &LineBreaks::Late(0));
        check("", "", &LineBreaks::Late(0));
    }

    #[test]
    fn regular_breaks_are_stored_as_a_rule() {
        let full = "x".repeat(76);
        let almost_full = "x".repeat(75);
        check(
            &format!("{almost_full}=\r\nyy\r\n{full}\r\n"),
            &format!("{almost_full}yy\r\n{full}\r\n"),
            &LineBreaks::Late(76),
        );
        check(&format!("{almost_full}=\r\nx\r\n"), &format!("{full}\r\n"), &LineBreaks::Early(76));
        let escaped = format!("{}=\r\n=C3=A9", "x".repeat(73));
        check(&escaped, &format!("{}\u{e9}", "x".repeat(73)), &LineBreaks::Late(74));
    }

    #[test]
    fn irregular_breaks_are_listed() {
        check("one =\r\ntwo three =\r\nfour\r\n", "one two three four\r\n", &LineBreaks::Listed(vec![5, 11, 0]));
        check("one=\r\n\r\ntwo\r\n", "one\r\ntwo\r\n", &LineBreaks::Listed(vec![4, 0, 0]));
        check("one=\r\n", "one", &LineBreaks::Listed(vec![4]));
    }

    #[test]
    fn irreversible_encodings_are_refused() {
        for body in ["a=", "=4", "=ZZ", "=aA", "a=c3=A9=C3", "a=\r\nb\n", "a= \r\nb", "=65e", "a=0D=0Ab\r\n"] {
            assert_eq!(decode_reversibly(body.as_bytes()), None, "{body:?}");
        }
        assert_eq!(decode_reversibly(format!("{}=\r\nx", "y".repeat(300)).as_bytes()), None);
    }
}
