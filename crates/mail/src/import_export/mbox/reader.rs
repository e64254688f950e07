//! A reader of the messages in an mbox file.
//!
//! A separator is a line that begins with `From ` and has a date, whether an empty line precedes it or not; see
//! [`super::separator`]. The first line of a file is accepted as a separator even without a date, because some programs
//! write no dates. In such a file every line `From ` after an empty line is a separator, dated or not.
//!
//! Memory is bounded by the maximum message size. Of a larger message only the beginning is returned, and the rest is
//! skipped up to the next separator.

use std::io::{self, BufRead};

use base::Timestamp;
use base::limits::MESSAGE_BYTES_MAX;

use super::quote_depth;
use super::separator::{Separator, is_separator, sender_of};
use crate::import_export::file_quirks::{FileQuirks, MessageTrailer};
use crate::import_export::import::{ImportPosition, ImportedMessage};
use crate::import_export::line_endings::{FileLineEnding, from_file, from_marked_file};
use crate::import_export::status;
use crate::limits::IMPORT_CHECK_BYTES;

/// Number of bytes that are kept beyond the largest message, for the empty line after it.
const SLACK_BYTES: usize = 4;

/// A message of an mbox file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MboxMessage {
    /// The offset of the separator of this message.
    pub offset: u64,
    /// The offset of the next message.
    pub next_offset: u64,
    /// The line before the message.
    pub separator: Separator,
    /// The message, unquoted, with the line ends of the file.
    pub raw: Vec<u8>,
    /// The bytes that followed the message.
    pub ending: MessageTrailer,
    /// `true` if the message was larger than [`MESSAGE_BYTES_MAX`]. `raw` then holds its beginning.
    pub truncated: bool,
}

impl MboxMessage {
    /// Returns the position of an import after this message.
    #[must_use]
    pub fn position(&self) -> ImportPosition {
        let tail = &self.raw[self.raw.len().saturating_sub(IMPORT_CHECK_BYTES)..];
        ImportPosition { offset: self.offset, check: ImportPosition::digest(tail) }
    }

    /// Converts the message for import: with the line ends of the wire, the flags of its header, and the unusual
    /// properties of the file.
    #[must_use]
    pub fn into_imported(self, mailbox: &str) -> ImportedMessage {
        let next_position = self.position();
        let (raw, line_ends) = if self.separator.has_wire_line_ends {
            from_marked_file(self.raw, FileLineEnding::Lf)
        } else {
            from_file(self.raw, FileLineEnding::Lf)
        };
        let received = self.separator.received;
        let usual = received.map(|received| Separator::new(&sender_of(&raw), received).line);
        let unusual = usual.is_some_and(|usual| usual != self.separator.line);
        let separator = self.separator.line.filter(|_| unusual);
        ImportedMessage {
            mailbox: mailbox.to_owned(),
            flags: status::flags_of(&raw),
            raw,
            received,
            form: FileQuirks { line_ends, ending: self.ending, separator },
            next_position,
        }
    }

    /// Returns the date of the separator.
    #[must_use]
    pub fn received(&self) -> Option<Timestamp> {
        self.separator.received
    }
}

/// A reader of the messages in an mbox file.
pub struct MboxReader<R> {
    input: R,
    offset: u64,
    /// The last line that was read, with its line end. It is truncated if it is longer than any message.
    line: Vec<u8>,
    /// The separator of the next message, if it was already read, and its offset.
    separator: Option<(u64, Vec<u8>)>,
    started: bool,
}

impl<R: BufRead> MboxReader<R> {
    /// Creates a reader that starts at a message. `offset` is the position of `input` in the file.
    pub fn new(input: R, offset: u64) -> Self {
        Self { input, offset, line: Vec::new(), separator: None, started: false }
    }

    /// Returns the next message, or `None` at the end of the file.
    pub fn next_message(&mut self) -> io::Result<Option<MboxMessage>> {
        let Some((offset, separator)) = self.take_separator()? else { return Ok(None) };
        let separator = Separator::read(&separator);
        let undated = separator.received.is_none();
        let mut raw = Vec::with_capacity(8_192);
        let mut after_blank = false;
        let mut ending = MessageTrailer::FileEnd;
        loop {
            let start = self.offset;
            if !self.read_line()? {
                break;
            }
            let quotes = quote_depth(&self.line);
            if quotes == Some(0) && (is_separator(&self.line) || (undated && after_blank)) {
                self.separator = Some((start, std::mem::take(&mut self.line)));
                ending = MessageTrailer::Separator;
                break;
            }
            after_blank = matches!(self.line.as_slice(), b"\n" | b"\r\n");
            let text = if quotes > Some(0) { &self.line[1..] } else { &self.line[..] };
            let left_bytes = (MESSAGE_BYTES_MAX + SLACK_BYTES).saturating_sub(raw.len()).min(text.len());
            raw.extend_from_slice(&text[..left_bytes]);
        }
        ending = take_blank(&mut raw).unwrap_or(ending);
        if separator.open && raw.ends_with(b"\n") {
            raw.pop();
        }
        let truncated = raw.len() > MESSAGE_BYTES_MAX;
        raw.truncate(MESSAGE_BYTES_MAX);
        let next_offset = self.separator.as_ref().map_or(self.offset, |(start, _)| *start);
        Ok(Some(MboxMessage { offset, next_offset, separator, raw, ending, truncated }))
    }

    fn take_separator(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        if self.started {
            return Ok(self.separator.take());
        }
        self.started = true;
        loop {
            let start = self.offset;
            if !self.read_line()? {
                return Ok(None);
            }
            if self.line.starts_with(b"From ") {
                return Ok(Some((start, std::mem::take(&mut self.line))));
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "not an mbox file: it does not begin with a line \"From sender date\"",
                ));
            }
        }
    }

    /// Reads a line and counts all its bytes. Returns `false` at the end of the file.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let start = self.offset;
        loop {
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', chunk);
            let used = end.map_or(chunk.len(), |end| end + 1);
            let left_bytes = (MESSAGE_BYTES_MAX + SLACK_BYTES).saturating_sub(self.line.len()).min(used);
            self.line.extend_from_slice(&chunk[..left_bytes]);
            self.input.consume(used);
            self.offset += used as u64;
            if end.is_some() {
                break;
            }
        }
        Ok(self.offset > start)
    }
}

/// Removes the empty line before a separator, which belongs to the separator. Returns its kind, or `None` if there is
/// no empty line.
fn take_blank(raw: &mut Vec<u8>) -> Option<MessageTrailer> {
    let line = raw.strip_suffix(b"\n")?;
    let (rest, ending) = line
        .strip_suffix(b"\r")
        .map_or((line.len(), MessageTrailer::Blank), |rest| (rest.len(), MessageTrailer::CrlfBlank));
    if rest > 0 && raw[rest - 1] != b'\n' {
        return None;
    }
    raw.truncate(rest);
    Some(ending)
}
