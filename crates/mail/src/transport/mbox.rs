//! The mbox format: messages one after the other, each after a line `From sender date`.
//!
//! Lines of a message that look like such a line are quoted with `>` (mboxrd: also those that are quoted already), and
//! unquoted when they are read. A separator counts only after an empty line or at the start of the file, which is where
//! every writer puts it; text in old files that says "From here on" stays within its message.

use std::io::{self, BufRead, Write};

use base::Timestamp;
use base::limits::MESSAGE_BYTES_MAX;

use crate::mime::date::Date;

/// One message of an mbox file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MboxMessage {
    /// Where the message after this one begins.
    pub next_offset: u64,
    /// The message, unquoted, with the line ends of the file.
    pub raw: Vec<u8>,
    /// The date of the separator.
    pub received: Option<Timestamp>,
    /// The message was larger than [`MESSAGE_BYTES_MAX`]; `raw` holds its beginning.
    pub truncated: bool,
}

/// Reads the messages of an mbox file.
pub struct MboxReader<R> {
    input: R,
    offset: u64,
    /// The separator of the next message, read already.
    separator: Option<Vec<u8>>,
    started: bool,
}

impl<R: BufRead> MboxReader<R> {
    /// Starts at a message; `offset` says where in the file that is.
    pub fn new(input: R, offset: u64) -> Self {
        Self { input, offset, separator: None, started: false }
    }

    /// Gives the next message; nothing at the end.
    pub fn next_message(&mut self) -> io::Result<Option<MboxMessage>> {
        let Some(separator) = self.take_separator()? else { return Ok(None) };
        let mut message = MboxMessage {
            next_offset: 0,
            raw: Vec::with_capacity(8_192),
            received: separator_date(&separator),
            truncated: false,
        };
        let mut after_blank = false;
        loop {
            let start = message.raw.len();
            let length = self.read_line(&mut message.raw)?;
            let line = &message.raw[start..];
            if length > 0 && after_blank && line.starts_with(b"From ") {
                self.separator = Some(line.to_vec());
                message.raw.truncate(start);
                message.next_offset = self.offset - length;
                break;
            }
            if length == 0 {
                message.next_offset = self.offset;
                break;
            }
            after_blank = matches!(line, b"\n" | b"\r\n");
            unquote(&mut message.raw, start);
            if message.raw.len() > MESSAGE_BYTES_MAX {
                message.truncated = true;
                message.raw.truncate(MESSAGE_BYTES_MAX);
            }
        }
        drop_last_blank(&mut message.raw);
        Ok(Some(message))
    }

    fn take_separator(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(separator) = self.separator.take() {
            return Ok(Some(separator));
        }
        if self.started {
            return Ok(None);
        }
        self.started = true;
        let mut line = Vec::new();
        while self.read_line(&mut line)? > 0 {
            if line.starts_with(b"From ") {
                return Ok(Some(line));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "this is no mbox file: it does not begin with a line \"From sender date\"",
                ));
            }
            line.clear();
        }
        Ok(None)
    }

    /// Appends one line and counts its bytes, those that are dropped because the message is too large included.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<u64> {
        let mut length = 0;
        loop {
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', chunk);
            let used = end.map_or(chunk.len(), |end| end + 1);
            let room = (MESSAGE_BYTES_MAX + 1).saturating_sub(line.len()).min(used);
            line.extend_from_slice(&chunk[..room]);
            self.input.consume(used);
            length += used as u64;
            if end.is_some() {
                break;
            }
        }
        self.offset += length;
        Ok(length)
    }
}

fn unquote(raw: &mut Vec<u8>, start: usize) {
    let line = &raw[start..];
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    if quotes > 0 && line[quotes..].starts_with(b"From ") {
        raw.remove(start);
    }
}

/// The empty line before a separator belongs to the separator.
fn drop_last_blank(raw: &mut Vec<u8>) {
    if matches!(raw.as_slice(), b"\n" | b"\r\n") {
        raw.clear();
    }
    for blank in [&b"\r\n\r\n"[..], b"\n\n"] {
        if raw.ends_with(blank) {
            raw.truncate(raw.len() - blank.len() / 2);
            return;
        }
    }
}

/// Reads the date of a separator: `From ann@acme.test Sat Jan  3 01:05:34 1996`, with or without a zone.
fn separator_date(line: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(line).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let start = words.iter().position(|word| word.len() == 3 && WEEKDAYS.contains(word))?;
    let [_, month, day, time, rest @ ..] = &words[start..] else { return None };
    let year = rest.iter().find(|word| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit()))?;
    let zone = rest.iter().find(|word| word.starts_with(['+', '-'])).unwrap_or(&"+0000");
    Date::parse(format!("{day} {month} {year} {time} {zone}").as_bytes()).map(|date| date.timestamp)
}

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Writes one message, which has the line ends of a file.
pub fn write_message(out: &mut dyn Write, raw: &[u8], sender: &str, received: Timestamp) -> io::Result<()> {
    let sender = if sender.is_empty() { "MAILER-DAEMON" } else { sender };
    let sender: String = sender.chars().map(|c| if c.is_whitespace() || c.is_control() { '-' } else { c }).collect();
    writeln!(out, "From {sender} {}", asctime(received))?;
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', raw) {
        write_line(out, &raw[start..=end])?;
        start = end + 1;
    }
    write_line(out, &raw[start..])?;
    out.write_all(if start < raw.len() { b"\n\n" } else { b"\n" })
}

fn write_line(out: &mut dyn Write, line: &[u8]) -> io::Result<()> {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    if line[quotes..].starts_with(b"From ") {
        out.write_all(b">")?;
    }
    out.write_all(line)
}

/// `Thu, 1 Jan 1970 00:00:00 +0000` as `Thu Jan  1 00:00:00 1970`.
fn asctime(time: Timestamp) -> String {
    let text = crate::router::report::rfc5322(time);
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    match words.as_slice() {
        [weekday, day, month, year, clock, ..] => format!("{weekday} {month} {day:>2} {clock} {year}"),
        _ => "Thu Jan  1 00:00:00 1970".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<MboxMessage> {
        let mut reader = MboxReader::new(text, 0);
        let mut found = Vec::new();
        while let Some(message) = reader.next_message().expect("reading from memory") {
            found.push(message);
        }
        found
    }

    #[test]
    fn what_is_written_reads_back() {
        let messages: [&[u8]; 4] = [
            b"Subject: a\n\nFrom here on\n>From there\n\nFrom after a blank\n",
            b"Subject: no end\n\ntext",
            b"Subject: blanks\n\n\n\n",
            b"",
        ];
        let mut file = Vec::new();
        for message in messages {
            write_message(&mut file, message, "ann@acme.test", Timestamp::from_seconds(86_400 * 366)).unwrap();
        }
        let found = read(&file);
        assert_eq!(found.len(), messages.len());
        for (message, expected) in found.iter().zip(messages) {
            let expected = if expected.ends_with(b"text") { b"Subject: no end\n\ntext\n" } else { expected };
            assert_eq!(message.raw, expected);
            assert_eq!(message.received, Some(Timestamp::from_seconds(86_400 * 366)));
        }
        let second =
            MboxReader::new(&file[found[0].next_offset as usize..], found[0].next_offset).next_message().unwrap();
        assert_eq!(second.expect("it can be resumed there"), found[1]);
    }

    #[test]
    fn what_is_no_mbox_is_refused() {
        assert!(MboxReader::new(&b"Subject: a message\n\n"[..], 0).next_message().is_err());
        assert!(read(b"\n\n").is_empty());
    }
}
