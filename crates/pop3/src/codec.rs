//! Codec of POP3: lines to commands, messages to dot-stuffed bytes. Pure.
//!
//! A line ends with LF, with or without a CR before it. A line with a NUL or of excessive length is refused. The verb
//! extends to the first blank, and its case is ignored. The rest of the line contains the arguments, except that the
//! password of PASS is the complete rest of the line with its blanks.
//!
//! Messages are sent with CRLF at the end of every line. A bare LF in a stored message becomes CRLF, because a client
//! that accepts LF as a line end could otherwise detect the end of the message too early. Messages that arrived through
//! SMTP contain no bare LF and are sent byte for byte.

use base::line_ends::without_line_end;
use base::memory::MemoryPermit;

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

/// Writes a message as a multi-line response, piece by piece.
#[derive(Debug)]
pub struct MessageResponse {
    raw: Vec<u8>,
    offset: usize,
    end: usize,
    at_line_start: bool,
    finished: bool,
    /// The memory of the message.
    _memory: Option<MemoryPermit>,
}

impl MessageResponse {
    /// Creates the response with the complete message.
    #[must_use]
    pub fn whole(raw: Vec<u8>) -> Self {
        let end = raw.len();
        Self { raw, offset: 0, end, at_line_start: true, finished: false, _memory: None }
    }

    /// Returns the same response, which holds the memory of the message.
    #[must_use]
    pub fn holding(self, memory: MemoryPermit) -> Self {
        Self { _memory: Some(memory), ..self }
    }

    /// Returns the number of octets that the client has after it has undone the dot-stuffing. Every line, including the
    /// last one, ends with CRLF.
    #[must_use]
    pub fn octets(&self) -> u64 {
        let raw = self.raw.get(..self.end).unwrap_or_default();
        mail::message::crlf_growth(raw).saturating_add(raw.len() as u64)
    }

    /// Creates the response with the header and the first lines of the body.
    #[must_use]
    pub fn top(raw: Vec<u8>, lines: u32) -> Self {
        let end = end_of_top(&raw, lines);
        Self { end, ..Self::whole(raw) }
    }

    /// Appends further lines. Returns `false` at the end of the response.
    pub fn fill(&mut self, out: &mut Vec<u8>, size_bytes: usize) -> bool {
        let stop = out.len().saturating_add(size_bytes);
        while out.len() < stop && !self.finished {
            self.line(out);
        }
        !self.finished
    }

    fn line(&mut self, out: &mut Vec<u8>) {
        let rest = self.raw.get(self.offset..self.end).unwrap_or_default();
        if rest.is_empty() {
            out.extend_from_slice(if self.at_line_start { b".\r\n" } else { b"\r\n.\r\n" });
            self.finished = true;
            return;
        }
        if self.at_line_start && rest.first() == Some(&b'.') {
            out.push(b'.');
        }
        let Some(end) = memchr::memchr(b'\n', rest) else {
            out.extend_from_slice(rest);
            self.offset = self.end;
            self.at_line_start = false;
            return;
        };
        let (line, _) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        out.extend_from_slice(b"\r\n");
        self.offset = self.offset.saturating_add(end).saturating_add(1);
        self.at_line_start = true;
    }
}

/// Returns the position after the header, the empty line and the given number of body lines.
fn end_of_top(raw: &[u8], lines: u32) -> usize {
    let mut left: Option<u32> = None;
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', raw) {
        let line = raw.get(start..end).unwrap_or_default();
        start = end.saturating_add(1);
        left = match left {
            None if line.is_empty() || line == b"\r" => Some(lines),
            None => None,
            Some(left) => Some(left.saturating_sub(1)),
        };
        if left == Some(0) {
            return start;
        }
    }
    raw.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(mut outgoing: MessageResponse, piece: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while outgoing.fill(&mut out, piece) {}
        out
    }

    fn check(raw: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&sent(MessageResponse::whole(raw.into()), 1)), expected, "{raw:?}");
        assert_eq!(String::from_utf8_lossy(&sent(MessageResponse::whole(raw.into()), 1 << 20)), expected, "{raw:?}");
    }

    #[test]
    fn messages_are_dot_stuffed_and_terminated() {
        check("A: b\r\n\r\nbody\r\n", "A: b\r\n\r\nbody\r\n.\r\n");
        check("A: b\r\n\r\n.\r\n..x\r\n", "A: b\r\n\r\n..\r\n...x\r\n.\r\n");
        check("no end", "no end\r\n.\r\n");
        check("", ".\r\n");
        check("bare\n.\nfeeds\rhere\n", "bare\r\n..\r\nfeeds\rhere\r\n.\r\n");
        check(".", "..\r\n.\r\n");
    }

    #[test]
    fn top_ends_after_the_requested_lines() {
        let raw = "A: b\r\nC: d\r\n\r\none\r\ntwo\r\nthree\r\n";
        let top = |lines| String::from_utf8(sent(MessageResponse::top(raw.into(), lines), 5)).expect("text");
        assert_eq!(top(0), "A: b\r\nC: d\r\n\r\n.\r\n");
        assert_eq!(top(2), "A: b\r\nC: d\r\n\r\none\r\ntwo\r\n.\r\n");
        assert_eq!(top(99), format!("{raw}.\r\n"));
        assert_eq!(sent(MessageResponse::top("A: b\r\n".into(), 5), 5), b"A: b\r\n.\r\n");
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
            let out = sent(MessageResponse::whole(raw.clone()), piece);
            prop_assert!(out == b".\r\n" || out.ends_with(b"\r\n.\r\n"));
            let body = &out[..out.len() - 3];
            let octets = MessageResponse::whole(raw.clone()).octets();
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
