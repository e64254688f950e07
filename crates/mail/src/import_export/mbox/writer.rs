//! A writer of messages to an mbox file.
//!
//! [`super::reader`] reads the same messages back from the file, byte for byte, whatever their content. A message that
//! came from an mbox file is written as it stood there. The unusual end of a message at the end of its file is kept
//! only for the last message. So each message is held back until it is known whether another one follows.

use std::borrow::Cow;
use std::io::{self, Write};

use base::Timestamp;

use super::quote_depth;
use super::separator::{Separator, sender_of};
use crate::import_export::file_quirks::{FileQuirks, MessageTrailer};
use crate::import_export::line_endings::{FileLineEnding, to_file};
use crate::limits::SEPARATOR_BYTES_MAX;

/// Maximum length of a separator that is written unchanged. A note must fit after it.
const ORIGINAL_BYTES_MAX: usize = SEPARATOR_BYTES_MAX / 2;

/// A writer of the messages of an mbox file.
pub struct MboxWriter<W> {
    out: W,
    /// Number of bytes written so far.
    offset: u64,
    /// The last message, which is not written yet.
    waiting: Option<PendingMessage>,
}

struct PendingMessage {
    separator: Separator,
    bytes: Vec<u8>,
    ending: MessageTrailer,
}

impl<W: Write> MboxWriter<W> {
    /// Creates a writer of an empty file.
    pub fn new(out: W) -> Self {
        Self { out, offset: 0, waiting: None }
    }

    /// Adds a message with the line ends of the wire. Returns the offset of its separator in the file.
    pub fn write(&mut self, raw: &[u8], received: Timestamp, form: &FileQuirks) -> io::Result<u64> {
        self.flush(false)?;
        let file = to_file(raw, form.line_ends.unwrap_or(FileLineEnding::Lf));
        let original = form.separator.as_ref().filter(|line| line.len() <= ORIGINAL_BYTES_MAX);
        let original = original.map(|line| Separator::read(line.as_bytes()));
        let mut separator = original
            .filter(|separator| separator.received.is_some())
            .unwrap_or_else(|| Separator::new(&sender_of(raw), received));
        separator.has_wire_line_ends = file.needs_wire_mark;
        self.waiting = Some(PendingMessage { separator, bytes: file.bytes.into_owned(), ending: form.ending });
        Ok(self.offset)
    }

    /// Writes the message that was held back.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush(true)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn flush(&mut self, last: bool) -> io::Result<()> {
        let Some(PendingMessage { mut separator, bytes, ending }) = self.waiting.take() else { return Ok(()) };
        let ends_blank =
            matches!(bytes.as_slice(), b"\n" | b"\r\n") || bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n");
        let is_open = !bytes.is_empty() && !bytes.ends_with(b"\n");
        let after: &[u8] = match ending {
            MessageTrailer::FileEnd if last && !ends_blank => b"",
            MessageTrailer::Separator if !ends_blank && !is_open => b"",
            MessageTrailer::CrlfBlank => b"\r\n",
            _ => b"\n",
        };
        separator.open = is_open && !after.is_empty();
        self.put(separator.to_line().as_bytes())?;
        self.put(&quote_lines(&bytes))?;
        if separator.open {
            self.put(b"\n")?;
        }
        self.put(after)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// Adds a `>` to each line that could be mistaken for a separator or for a quoted one.
fn quote_lines(raw: &[u8]) -> Cow<'_, [u8]> {
    let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', raw).map(|end| end + 1));
    let places: Vec<usize> = starts.filter(|start| quote_depth(&raw[*start..]).is_some()).collect();
    if places.is_empty() {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len() + places.len());
    let mut done = 0;
    for place in places {
        out.extend_from_slice(&raw[done..place]);
        out.push(b'>');
        done = place;
    }
    out.extend_from_slice(&raw[done..]);
    Cow::Owned(out)
}
