//! Codec of POP3: lines to commands, messages to dot-stuffed bytes. Pure.
//!
//! A line ends with LF, with or without a CR before it. A line with a NUL or of excessive length is refused. The verb
//! extends to the first blank, and its case is ignored. The rest of the line contains the arguments, except that the
//! password of PASS is the complete rest of the line with its blanks.
//!
//! Messages are sent in pieces, with CRLF at the end of every line. A bare LF in a stored message becomes CRLF, because
//! a client that accepts LF as a line end could otherwise detect the end of the message too early. Messages that
//! arrived through SMTP contain no bare LF and are sent byte for byte.

use base::line_ends::without_line_end;

use crate::limits::{AUTH_LINE_BYTES_MAX, COMMAND_LINE_BYTES_MAX};

/// A command as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The verb in upper case.
    pub verb: String,
    /// The rest of the line.
    pub rest: String,
}

/// Reason why a line is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line exceeds the maximum length.
    #[error("the line is too long")]
    TooLong,
    /// The line contains bytes that are not allowed.
    #[error("the line contains invalid characters")]
    NotText,
}

/// The kind of line that the session expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// A command.
    Command,
    /// The next message of a SASL exchange.
    Exchange,
}

/// Removes the first line from a buffer. Returns `None` if the line is incomplete.
pub fn take_line(buffer: &mut Vec<u8>, awaited: LineKind) -> Result<Option<String>, LineError> {
    let length_max = match awaited {
        LineKind::Command => COMMAND_LINE_BYTES_MAX,
        LineKind::Exchange => AUTH_LINE_BYTES_MAX,
    };
    let Some(end) = memchr::memchr(b'\n', buffer) else {
        return if buffer.len() > length_max { Err(LineError::TooLong) } else { Ok(None) };
    };
    if end >= length_max {
        return Err(LineError::TooLong);
    }
    let mut line: Vec<u8> = buffer.drain(..=end).collect();
    line.truncate(without_line_end(&line).len());
    match String::from_utf8(line) {
        Ok(text) if !text.contains(['\0', '\r']) => Ok(Some(text)),
        _ => Err(LineError::NotText),
    }
}

impl Command {
    /// Splits a line into verb and rest.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        Self { verb: verb.to_ascii_uppercase(), rest: rest.to_owned() }
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.rest.split(' ').filter(|word| !word.is_empty())
    }

    /// Returns the arguments as numbers, or `None` if they are not exactly `N` numbers.
    #[must_use]
    pub fn numbers<const N: usize>(&self) -> Option<[u32; N]> {
        let mut numbers = [0; N];
        let mut words = self.arguments();
        for number in &mut numbers {
            let word = words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?;
            *number = word.parse().ok()?;
        }
        words.next().is_none().then_some(numbers)
    }
}

/// Writes a message that comes in pieces as a multi-line response.
#[derive(Debug)]
pub struct MessageWriter {
    at_line_start: bool,
    /// `true` if the last piece ended with a CR that may belong to a line end.
    held_cr: bool,
    /// The lines to send. `None` for the complete message.
    top: Option<TopLines>,
}

/// The lines of a message that TOP still sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TopLines {
    /// The rest of the header, the blank line, and this number of lines.
    Header(u32),
    /// This number of lines.
    Body(u32),
}

impl MessageWriter {
    /// Creates a writer of a complete message.
    #[must_use]
    pub fn whole() -> Self {
        Self { at_line_start: true, held_cr: false, top: None }
    }

    /// Creates a writer of the header and the first lines of the body.
    #[must_use]
    pub fn top(lines: u32) -> Self {
        Self { top: Some(TopLines::Header(lines)), ..Self::whole() }
    }

    /// Returns `true` if not the complete message is sent.
    #[must_use]
    pub fn is_top(&self) -> bool {
        self.top.is_some()
    }

    /// Returns `true` if all lines have been written, so that no further piece is needed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.top == Some(TopLines::Body(0))
    }

    /// Appends the next piece of the message to the output.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        if let Some(first) = rest.first().filter(|_| self.held_cr) {
            self.held_cr = false;
            if *first != b'\n' {
                out.push(b'\r');
                self.at_line_start = false;
            }
        }
        while !rest.is_empty() && !self.is_complete() {
            if self.at_line_start && rest.first() == Some(&b'.') {
                out.push(b'.');
            }
            let Some(end) = memchr::memchr(b'\n', rest) else {
                let text = rest.strip_suffix(b"\r").unwrap_or(rest);
                out.extend_from_slice(text);
                self.held_cr = text.len() < rest.len();
                self.at_line_start &= text.is_empty();
                return;
            };
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            let text = line.strip_suffix(b"\r").unwrap_or(line);
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
            self.end_line(text);
            rest = after.get(1..).unwrap_or_default();
        }
    }

    /// Appends the end of the response.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.held_cr) {
            out.push(b'\r');
            self.at_line_start = false;
        }
        out.extend_from_slice(if self.at_line_start { b".\r\n" } else { b"\r\n.\r\n" });
    }

    /// Counts a line of which `text` is the last part, without its line end.
    fn end_line(&mut self, text: &[u8]) {
        let is_blank = self.at_line_start && text.is_empty();
        self.at_line_start = true;
        self.top = match self.top {
            Some(TopLines::Header(lines)) if is_blank => Some(TopLines::Body(lines)),
            Some(TopLines::Body(left)) => Some(TopLines::Body(left.saturating_sub(1))),
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(mut writer: MessageWriter, raw: &[u8], piece: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in raw.chunks(piece) {
            writer.push(piece, &mut out);
        }
        writer.finish(&mut out);
        out
    }

    fn check(raw: &str, expected: &str) {
        for piece in [1, 2, 3, 1 << 20] {
            let out = sent(MessageWriter::whole(), raw.as_bytes(), piece);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{raw:?}");
        }
    }

    #[test]
    fn messages_are_dot_stuffed_and_terminated() {
        check("A: b\r\n\r\nbody\r\n", "A: b\r\n\r\nbody\r\n.\r\n");
        check("A: b\r\n\r\n.\r\n..x\r\n", "A: b\r\n\r\n..\r\n...x\r\n.\r\n");
        check("no end", "no end\r\n.\r\n");
        check("", ".\r\n");
        check("bare\n.\nfeeds\rhere\n", "bare\r\n..\r\nfeeds\rhere\r\n.\r\n");
        check(".", "..\r\n.\r\n");
        check("\r\r\n.\r\n\r.", "\r\r\n..\r\n\r.\r\n.\r\n");
        check("end\r", "end\r\r\n.\r\n");
    }

    #[test]
    fn top_ends_after_the_requested_lines() {
        let raw = "A: b\r\nC: d\r\n\r\none\r\ntwo\r\nthree\r\n";
        let check = |raw: &str, lines: u32, expected: &str| {
            for piece in 1..=raw.len() {
                let out = sent(MessageWriter::top(lines), raw.as_bytes(), piece);
                assert_eq!(String::from_utf8_lossy(&out), expected, "{lines} lines in pieces of {piece}");
            }
        };
        check(raw, 0, "A: b\r\nC: d\r\n\r\n.\r\n");
        check(raw, 2, "A: b\r\nC: d\r\n\r\none\r\ntwo\r\n.\r\n");
        check(raw, 99, &format!("{raw}.\r\n"));
        check("A: b\r\n", 5, "A: b\r\n.\r\n");
        check("A: b\n\nbody", 0, "A: b\r\n\r\n.\r\n");
        check("A: b\r\n\r\r\nno\r\n\r\nbody\r\n", 0, "A: b\r\n\r\r\nno\r\n\r\n.\r\n");
    }

    #[test]
    fn take_line_splits_off_and_checks_lines() {
        let take = |text: &str| {
            let mut buffer = text.as_bytes().to_vec();
            (take_line(&mut buffer, LineKind::Command), buffer.len())
        };
        assert_eq!(take("STAT\r\nLIST\r\n"), (Ok(Some("STAT".to_owned())), 6));
        assert_eq!(take("STAT\n"), (Ok(Some("STAT".to_owned())), 0));
        assert_eq!(take("STA"), (Ok(None), 3));
        assert_eq!(take("ST\0AT\r\n").0, Err(LineError::NotText));
        assert_eq!(take("ST\rAT\r\n").0, Err(LineError::NotText));
        assert_eq!(take(&"x".repeat(COMMAND_LINE_BYTES_MAX + 1)).0, Err(LineError::TooLong));
        assert_eq!(take(&format!("{}\r\n", "x".repeat(COMMAND_LINE_BYTES_MAX))).0, Err(LineError::TooLong));
    }

    #[test]
    fn numeric_arguments_are_parsed_or_rejected() {
        let numbers = |line| Command::parse(line).numbers::<2>();
        assert_eq!(numbers("TOP 1 10"), Some([1, 10]));
        assert_eq!(numbers("top  1  10 "), Some([1, 10]));
        for line in ["TOP 1", "TOP 1 2 3", "TOP 1 -2", "TOP 1 +2", "TOP 1 99999999999", "TOP 1 x", "TOP"] {
            assert_eq!(numbers(line), None, "{line}");
        }
        assert_eq!(Command::parse("pass with  blanks ").rest, "with  blanks ");
    }

    proptest! {
        /// Checks that a client that undoes the dot-stuffing as RFC 1939 requires obtains the message with CRLF at the
        /// end of every line.
        #[test]
        fn undoing_the_stuffing_restores_the_message(raw in prop::collection::vec(prop::sample::select(b".\r\nab".to_vec()), 0..200), piece in 1usize..50) {
            let out = sent(MessageWriter::whole(), &raw, piece);
            prop_assert!(out == b".\r\n" || out.ends_with(b"\r\n.\r\n"));
            let body = &out[..out.len() - 3];
            let octets = mail::message::crlf_growth(&raw) + raw.len() as u64;
            prop_assert!(!body.windows(5).any(|window| window == b"\r\n.\r\n") && !body.starts_with(b".\r\n"));
            let mut undone = Vec::new();
            for line in body.split_inclusive(|byte| *byte == b'\n') {
                undone.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
            }
            let text = String::from_utf8(raw).expect("ASCII");
            let mut lines: Vec<&str> = text.split('\n').collect();
            let last = lines.pop().unwrap_or_default();
            let mut expected: String = lines.iter().map(|line| format!("{}\r\n", line.strip_suffix('\r').unwrap_or(line))).collect();
            if !last.is_empty() {
                expected.push_str(&format!("{last}\r\n"));
            }
            prop_assert_eq!(octets, undone.len() as u64);
            prop_assert_eq!(String::from_utf8(undone).expect("ASCII"), expected);
        }

        #[test]
        fn arbitrary_input_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let mut buffer = bytes;
            while let Ok(Some(line)) = take_line(&mut buffer, LineKind::Command) {
                let command = Command::parse(&line);
                let _ = (command.numbers::<1>(), command.arguments().count());
            }
        }
    }
}
