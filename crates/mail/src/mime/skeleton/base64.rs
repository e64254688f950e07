//! Base64 that can be encoded again to exactly the same characters.
//!
//! Nearly every program writes lines of one length with one kind of line end, and either pads the end or does not. This
//! is described by a [`Base64Layout`] of a few bytes. [`decode_reversibly`] determines the layout, decodes the text,
//! encodes it again and compares. It rejects any text that it does not reproduce exactly. Blank lines before the region
//! that it finds, and the text after its last line, are not part of the region. They stay in the skeleton unchanged.
//!
//! All lines have the same length, so a range of the encoded text requires only the matching range of the content.

use std::ops::Range;

use ::base64::Engine;

use super::LineEnding;
use crate::mime::transfer_encoding::{STANDARD, STANDARD_NO_PAD, base64_value};

/// Number of characters that are decoded, encoded again and compared at a time. It is a multiple of 4.
const CHUNK_CHARACTERS: usize = 48 << 10;

/// The layout of encoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base64Layout {
    /// Number of characters on each line except the last, or 0 for a single line of any length.
    pub line_characters: u32,
    /// The line end.
    pub ending: LineEnding,
    /// The padding with `=` at the end.
    pub padding: Base64Padding,
}

/// The padding of encoded text with `=` at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base64Padding {
    /// The text is padded, or needs no padding.
    Present,
    /// The text needs padding and has none.
    Absent,
}

/// A decoded region of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64Region {
    /// The range of the region in the body.
    pub range: Range<usize>,
    /// The layout of the region.
    pub layout: Base64Layout,
    /// The decoded content.
    pub content: Vec<u8>,
}

/// Returns the region of a body that can be encoded again. Returns `None` if the region does not cover nearly the whole
/// body.
#[must_use]
pub fn decode_reversibly(body: &[u8]) -> Option<Base64Region> {
    let lead = body.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let text = &body[lead..];
    let lines = Lines::measure(text)?;
    let end = lead + lines.text_length();
    // The text after the region stays unchanged. If it is more than a fifth of the body, separate storage is not
    // worthwhile.
    if body.len() - end > body.len() / 5 {
        return None;
    }
    let content = lines.decode(text)?;
    Some(Base64Region { range: lead..end, layout: lines.layout, content })
}

/// The lines of a text.
struct Lines {
    layout: Base64Layout,
    /// Number of lines of full length.
    full: usize,
    line_length: usize,
    /// Number of characters of the last, shorter line, or 0 if there is none.
    last: usize,
    /// Number of padding characters at the end.
    padding: usize,
}

impl Lines {
    fn measure(text: &[u8]) -> Option<Self> {
        let first_length = memchr::memchr(b'\n', text).unwrap_or(text.len());
        let (line_length, ending) = match text[..first_length].strip_suffix(b"\r") {
            Some(line) if first_length < text.len() => (line.len(), LineEnding::CrLf),
            _ => (first_length, LineEnding::Lf),
        };
        let line_characters = u32::try_from(line_length).ok().filter(|length| *length > 0)?;
        let stride = line_length + ending.bytes().len();
        let mut full = 0;
        while text.get(full * stride + line_length..(full + 1) * stride) == Some(ending.bytes()) {
            full += 1;
        }
        let last_line = &text[(full * stride).min(text.len())..];
        let last = last_line.iter().take_while(|byte| base64_value(**byte).is_some() || **byte == b'=').count();
        let last = if last <= line_length { last } else { 0 };
        let layout = Base64Layout { line_characters, ending, padding: Base64Padding::Present };
        let mut lines = Self { layout, full, line_length, last, padding: 0 };
        lines.find_padding(text)?;
        if lines.full + usize::from(lines.last > 0) == 1 {
            lines.layout.line_characters = 0;
        }
        Some(lines)
    }

    fn find_padding(&mut self, text: &[u8]) -> Option<()> {
        let characters = self.characters();
        self.padding =
            (0..characters.min(2)).take_while(|back| self.character(text, characters - 1 - back) == b'=').count();
        let data = characters - self.padding;
        self.layout.padding = match (data % 4, self.padding) {
            (0, 0) | (2, 2) | (3, 1) => Base64Padding::Present,
            (2 | 3, 0) => Base64Padding::Absent,
            _ => return None,
        };
        Some(())
    }

    fn characters(&self) -> usize {
        self.full * self.line_length + self.last
    }

    fn stride(&self) -> usize {
        self.line_length + self.layout.ending.bytes().len()
    }

    /// Returns a character by its number, not counting line ends.
    fn character(&self, text: &[u8], number: usize) -> u8 {
        text[number / self.line_length * self.stride() + number % self.line_length]
    }

    /// Returns the length of the region, from its first character to its last.
    fn text_length(&self) -> usize {
        let length = self.full * self.stride() + self.last;
        if self.last > 0 { length } else { length.saturating_sub(self.layout.ending.bytes().len()) }
    }

    fn line<'a>(&self, text: &'a [u8], number: usize) -> &'a [u8] {
        let start = number * self.stride();
        let length = if number < self.full { self.line_length } else { self.last };
        &text[start..start + length]
    }

    fn decode(&self, text: &[u8]) -> Option<Vec<u8>> {
        let data = self.characters() - self.padding;
        let mut content = Vec::with_capacity(data / 4 * 3 + 3);
        let mut chunk = Vec::with_capacity(data.min(CHUNK_CHARACTERS));
        let mut again = String::with_capacity(data.min(CHUNK_CHARACTERS));
        let mut left = data;
        for number in 0..self.full + 1 {
            let line = self.line(text, number);
            let mut rest = &line[..line.len().min(left)];
            left -= rest.len();
            while !rest.is_empty() {
                let (taken, after) = rest.split_at(rest.len().min(CHUNK_CHARACTERS - chunk.len()));
                chunk.extend_from_slice(taken);
                rest = after;
                if chunk.len() == CHUNK_CHARACTERS {
                    decode_chunk(&mut chunk, &mut again, &mut content)?;
                }
            }
        }
        decode_chunk(&mut chunk, &mut again, &mut content)?;
        Some(content)
    }
}

/// Decodes characters and checks that encoding the result yields the same characters.
fn decode_chunk(chunk: &mut Vec<u8>, again: &mut String, content: &mut Vec<u8>) -> Option<()> {
    let start = content.len();
    STANDARD_NO_PAD.decode_vec(&chunk[..], content).ok()?;
    again.clear();
    STANDARD_NO_PAD.encode_string(&content[start..], again);
    (again.as_bytes() == chunk.as_slice()).then(|| chunk.clear())
}

impl Base64Layout {
    /// Returns the length of the encoded text for a content of the given length. Returns `None` on overflow.
    #[must_use]
    pub fn encoded_length(&self, content_length: u64) -> Option<u64> {
        let triples = content_length / 3;
        let rest = content_length % 3;
        let end = match (rest, self.padding) {
            (0, _) => 0,
            (_, Base64Padding::Present) => 4,
            (_, Base64Padding::Absent) => rest + 1,
        };
        let characters = triples.checked_mul(4)?.checked_add(end)?;
        let breaks = match u64::from(self.line_characters) {
            0 => 0,
            line => characters.saturating_sub(1) / line,
        };
        characters.checked_add(breaks.checked_mul(self.ending.bytes().len() as u64)?)
    }

    /// Returns the range of the content that is needed to encode a range of the text. Its start is a multiple of 3.
    #[must_use]
    pub fn content_range(&self, range: &Range<u64>, content_length: u64) -> Range<u64> {
        let start = self.characters_before(range.start) / 4;
        let end = self.characters_before(range.end).div_ceil(4);
        let end = end.saturating_mul(3).min(content_length);
        start.saturating_mul(3).min(end)..end
    }

    /// Appends a range of the encoded text. `content` is the range that [`Base64Layout::content_range`] returned.
    pub fn encode(&self, content: &[u8], content_start: u64, range: Range<u64>, text: &mut Vec<u8>) {
        let encoder = if self.padding == Base64Padding::Present { &STANDARD } else { &STANDARD_NO_PAD };
        let characters = encoder.encode(content).into_bytes();
        let first = content_start / 3 * 4;
        let mut position = range.start;
        while position < range.end {
            let number = self.characters_before(position);
            let (run, breaks): (u64, &[u8]) = match self.line_characters {
                0 => (range.end - position, b""),
                line => self.at(position, u64::from(line)),
            };
            let start = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX).min(characters.len());
            let run =
                usize::try_from(run.min(range.end - position)).unwrap_or(usize::MAX).min(characters.len() - start);
            text.extend_from_slice(&characters[start..start + run]);
            let left = usize::try_from(range.end - position).unwrap_or(usize::MAX).saturating_sub(run);
            let breaks = &breaks[..breaks.len().min(left)];
            text.extend_from_slice(breaks);
            position += (run + breaks.len()).max(1) as u64;
        }
    }

    /// Returns the number of characters from a position of the text to the end of its line, and the remaining bytes of
    /// the line end.
    fn at(&self, position: u64, line: u64) -> (u64, &'static [u8]) {
        let ending = self.ending.bytes();
        let column = position % (line + ending.len() as u64);
        let within_ending = usize::try_from(column.saturating_sub(line)).unwrap_or(0);
        (line.saturating_sub(column), &ending[within_ending..])
    }

    /// Returns the number of characters before a position of the text, not counting line ends.
    fn characters_before(&self, position: u64) -> u64 {
        match u64::from(self.line_characters) {
            0 => position,
            line => {
                let stride = line + self.ending.bytes().len() as u64;
                position / stride * line + (position % stride).min(line)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(content: &[u8], line: usize, ending: &str) -> String {
        let text = STANDARD.encode(content);
        let lines: Vec<_> =
            text.as_bytes().chunks(line).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        lines.join(ending)
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 7 % 251) as u8).collect()
    }

    fn check(body: &str, lead: &str, tail: &str) {
        let body_with = format!("{lead}{body}{tail}");
        let region =
            decode_reversibly(body_with.as_bytes()).unwrap_or_else(|| panic!("{body:?} cannot be encoded again"));
        assert_eq!(region.range, lead.len()..lead.len() + body.len(), "{body:?}");
        assert_eq!(region.layout.encoded_length(region.content.len() as u64), Some(body.len() as u64), "{body:?}");
        for (start, end) in [(0, body.len()), (1, body.len()), (75, 79), (body.len() / 2, body.len()), (3, 3)] {
            let end = end.min(body.len());
            let range = start.min(end) as u64..end as u64;
            let needed = region.layout.content_range(&range, region.content.len() as u64);
            let slice = &region.content[needed.start as usize..needed.end as usize];
            let mut text = Vec::new();
            region.layout.encode(slice, needed.start, range.clone(), &mut text);
            assert_eq!(text, body.as_bytes()[range.start as usize..range.end as usize], "{range:?} of {body:?}");
        }
    }

    #[test]
    fn usual_layouts_are_recognized() {
        for length in [1, 2, 3, 56, 57, 58, 59, 171, 5_000, 40_000] {
            for line in [1, 3, 4, 60, 64, 75, 76, 1_000_000] {
                for ending in ["\r\n", "\n"] {
                    check(&wrapped(&content(length), line, ending), "", "");
                }
            }
        }
    }

    #[test]
    fn surrounding_text_is_excluded() {
        let text = wrapped(&content(1_000), 76, "\r\n");
        check(&text, "\r\n\r\n", "\r\n");
        check(&text, "", "\r\n\r\n\r\n");
        check(&text, "", "\r\n_____________\r\nlist mailing list\r\n");
        check(&wrapped(&content(57 * 4), 76, "\r\n"), "", "\r\n-- \r\n");
    }

    #[test]
    fn padding_may_be_absent() {
        for length in [1_000, 1_001, 1_002] {
            let text = wrapped(&content(length), 76, "\n");
            check(text.trim_end_matches('='), "", "\n");
        }
    }

    #[test]
    fn irreversible_encodings_are_refused() {
        for body in
            ["", "\r\n", "a", "a=", "aa=", "aaa==", "ab==", "a b c d", "aGVs\r\nbG8gd29y\r\nbGQ=", "aA==aA==", "!!!!"]
        {
            // The last bits of `ab==` are not zero.
            assert_eq!(decode_reversibly(body.as_bytes()), None, "{body:?}");
        }
        let text = wrapped(&content(4_000), 76, "\r\n");
        assert_eq!(decode_reversibly(text.replacen("\r\n", "\n", 20).as_bytes()), None);
        assert_eq!(decode_reversibly(text.replacen('A', "*", 1).as_bytes()), None);
    }
}
