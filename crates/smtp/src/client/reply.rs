//! The parser of server replies: bytes to code and lines. It is pure and incremental, and it is fuzzed.
//!
//! Lines may end in a bare LF, which some servers send; nothing can be smuggled in a reply. All lines of a reply must
//! have the same code. A line without text may lack the space after the code.

use std::fmt;

use memchr::memchr;

use crate::error::EnhancedStatus;
use crate::limits::{REPLY_LINE_BYTES_MAX, REPLY_LINES_MAX, REPLY_TEXT_BYTES_MAX};

/// A reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SmtpReply {
    /// The code, 200 to 599.
    pub code: u16,
    /// The lines without their codes.
    pub lines: Vec<String>,
}

/// The result of parsing the beginning of the input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParsedReply {
    /// The reply is incomplete.
    Incomplete,
    /// A reply, and the number of bytes it occupies.
    Complete(SmtpReply, usize),
    /// The input is not a reply.
    Invalid,
}

impl SmtpReply {
    /// Parses the reply at the beginning of the input.
    #[must_use]
    pub fn parse(input: &[u8]) -> ParsedReply {
        let mut lines = Vec::new();
        let mut code = None;
        let mut position = 0;
        loop {
            let rest = input.get(position..).unwrap_or_default();
            let Some(end) = memchr(b'\n', rest).filter(|end| *end < REPLY_LINE_BYTES_MAX) else {
                let too_long = rest.len() >= REPLY_LINE_BYTES_MAX;
                return if too_long { ParsedReply::Invalid } else { ParsedReply::Incomplete };
            };
            let Some((line_code, is_last, text)) = parse_line(rest.get(..end).unwrap_or_default()) else {
                return ParsedReply::Invalid;
            };
            if *code.get_or_insert(line_code) != line_code || lines.len() >= REPLY_LINES_MAX {
                return ParsedReply::Invalid;
            }
            lines.push(text);
            position += end + 1;
            if is_last {
                return ParsedReply::Complete(Self { code: line_code, lines }, position);
            }
        }
    }

    /// Returns `true` if the server executed the command.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.code < 300
    }

    /// Returns `true` if the failure is permanent.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.code >= 500
    }

    /// Returns the enhanced status code, if the reply has one whose class matches the reply code.
    #[must_use]
    pub fn status(&self) -> Option<EnhancedStatus> {
        let word = self.lines.first()?.split(' ').next()?;
        let mut parts = word.split('.');
        let mut number = || parts.next().filter(|part| part.len() <= 3)?.parse::<u16>().ok();
        let class = number()?;
        let subject = number()?;
        let detail = number()?;
        let fits = class == self.code / 100 && parts.next().is_none();
        fits.then_some(EnhancedStatus(u8::try_from(class).ok()?, subject, detail))
    }
}

impl fmt::Display for SmtpReply {
    /// Formats the reply in one shortened line, for reports and logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.lines.join(" ");
        write!(f, "{} {}", self.code, &text[..text.floor_char_boundary(REPLY_TEXT_BYTES_MAX)])
    }
}

fn parse_line(line: &[u8]) -> Option<(u16, bool, String)> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (digits, rest) = line.split_at_checked(3)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = std::str::from_utf8(digits).ok()?.parse().ok().filter(|code| (200..600).contains(code))?;
    let (is_last, text) = match rest.split_first() {
        None => (true, rest),
        Some((b' ', text)) => (true, text),
        Some((b'-', text)) => (false, text),
        Some(_) => return None,
    };
    let text: String = String::from_utf8_lossy(text).chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    Some((code, is_last, text.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: ParsedReply) {
        assert_eq!(SmtpReply::parse(input.as_bytes()), expected, "{input:?}");
        for cut in 0..input.len() {
            if matches!(expected, ParsedReply::Complete(_, used) if cut < used) {
                assert_eq!(
                    SmtpReply::parse(&input.as_bytes()[..cut]),
                    ParsedReply::Incomplete,
                    "{input:?} up to {cut}"
                );
            }
        }
    }

    fn reply(code: u16, lines: &[&str]) -> SmtpReply {
        SmtpReply { code, lines: lines.iter().map(|line| (*line).to_owned()).collect() }
    }

    #[test]
    fn replies_of_one_or_several_lines_are_parsed() {
        check("250 ok\r\n", ParsedReply::Complete(reply(250, &["ok"]), 8));
        check("250\r\n", ParsedReply::Complete(reply(250, &[""]), 5));
        check("250-a\r\n250-b\n250 c\r\n354 x\r\n", ParsedReply::Complete(reply(250, &["a", "b", "c"]), 20));
        check("220 a\tb\r\n", ParsedReply::Complete(reply(220, &["a?b"]), 9));
    }

    #[test]
    fn invalid_replies_are_rejected() {
        for input in ["abc\r\n", "25\r\n", "250:x\r\n", "250-a\r\n251 b\r\n", "150 x\r\n", "600 x\r\n", "\r\n"] {
            check(input, ParsedReply::Invalid);
        }
        check(&"2".repeat(REPLY_LINE_BYTES_MAX), ParsedReply::Invalid);
        check(&"250-x\r\n".repeat(REPLY_LINES_MAX + 1), ParsedReply::Invalid);
    }

    #[test]
    fn enhanced_status_codes_must_match_the_reply_code() {
        let check =
            |line: &str, expected: Option<EnhancedStatus>| assert_eq!(reply(550, &[line]).status(), expected, "{line}");
        check("5.1.1 unknown", Some(EnhancedStatus(5, 1, 1)));
        check("5.1.1", Some(EnhancedStatus(5, 1, 1)));
        check("2.1.1 odd", None);
        check("5.1 short", None);
        check("5.1.1.1 long", None);
        check("unknown", None);
        assert_eq!(reply(250, &["a", "ü".repeat(2_000).as_str()]).to_string().len(), 4 + 2 + 1_022);
    }
}
