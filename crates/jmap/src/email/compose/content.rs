//! The bytes of a composed message: transfer encodings and boundaries.
//!
//! A text is written as it is if it is ASCII in lines that are short enough, and otherwise in the shorter one of
//! quoted-printable and base64. Its lines end with CRLF. A blob is written so that exactly its bytes are read back:
//! text as it is if no byte would change, everything else in base64. An encapsulated message must not be encoded (RFC
//! 2046 §5.2.1), so only its line ends are corrected, and it is in 8bit if necessary; it is in base64 only if it cannot
//! be sent otherwise.
//!
//! No boundary occurs in what is written without encoding.

use std::borrow::Cow;

use mail_builder::encoders::base64::base64_encode_mime;
use memchr::memmem;

use super::part::{ContentDraft, PartDraft};
use crate::email::limits::LINE_BYTES_MAX;

/// Length of a line of quoted-printable, without the `=` at its end.
const QUOTED_PRINTABLE_LENGTH: usize = 75;

/// A writer of one message.
pub(super) struct MessageWriter {
    /// The beginning of all boundaries. It does not occur in the contents.
    boundary: String,
    boundaries: usize,
    message: Vec<u8>,
}

/// A content with its transfer encoding.
struct EncodedContent<'a> {
    encoding: &'static str,
    /// The bytes in this encoding. Those in [`BASE64`] are encoded when they are written.
    bytes: Cow<'a, [u8]>,
}

/// The encoding in which most blobs are written.
const BASE64: &str = "base64";

impl MessageWriter {
    /// Begins the message of a draft.
    pub(super) fn new(root: &PartDraft, unique: &str) -> Self {
        let unique: String = unique.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        let mut boundary = format!("=_{unique}");
        while contains(root, boundary.as_bytes()) {
            boundary.push('_');
        }
        Self { boundary, boundaries: 0, message: Vec::with_capacity(length_max(root)) }
    }

    /// Writes the message after the fields of its header. A content is dropped when it is written, so no second copy of
    /// all contents is in memory.
    pub(super) fn write(mut self, fields: &str, root: PartDraft) -> Vec<u8> {
        self.push(fields);
        self.part(root);
        self.message
    }

    /// Writes the `Content-` fields and the content of a part. The depth is that of the draft, which is bounded.
    fn part(&mut self, part: PartDraft) {
        let PartDraft { content_type, media_type, content_fields, content, is_8bit, .. } = part;
        self.push(&content_type);
        match content {
            ContentDraft::Parts(parts) => self.multipart(&content_fields, is_8bit, parts),
            ContentDraft::Text(text) => self.leaf(&content_fields, &encode_text(&text)),
            ContentDraft::Blob(bytes) => self.leaf(&content_fields, &encode_blob(&media_type, &bytes)),
        }
    }

    fn leaf(&mut self, content_fields: &[String], content: &EncodedContent<'_>) {
        self.push("\r\n");
        content_fields.iter().for_each(|field| self.push(field));
        self.push(&format!("Content-Transfer-Encoding: {}\r\n\r\n", content.encoding));
        match content.encoding {
            // Writing to memory does not fail.
            BASE64 => _ = base64_encode_mime(&content.bytes, &mut self.message, false),
            _ => self.message.extend_from_slice(&content.bytes),
        }
    }

    fn multipart(&mut self, content_fields: &[String], is_8bit: bool, parts: Vec<PartDraft>) {
        self.boundaries += 1;
        let boundary = format!("{}_{}", self.boundary, self.boundaries);
        self.push(&format!(";\r\n boundary=\"{boundary}\"\r\n"));
        content_fields.iter().for_each(|field| self.push(field));
        if is_8bit {
            self.push("Content-Transfer-Encoding: 8bit\r\n");
        }
        for inner in parts {
            self.push(&format!("\r\n--{boundary}\r\n"));
            inner.fields.iter().flat_map(|(_, lines)| lines).for_each(|line| self.push(line));
            self.part(inner);
        }
        self.push(&format!("\r\n--{boundary}--\r\n"));
    }

    fn push(&mut self, text: &str) {
        self.message.extend_from_slice(text.as_bytes());
    }
}

/// Returns about the number of bytes of a part in base64. A message that grows while it is written would be copied.
fn length_max(part: &PartDraft) -> usize {
    const FIELDS_BYTES: usize = 1_000;
    let content = match &part.content {
        ContentDraft::Parts(parts) => parts.iter().map(length_max).sum(),
        ContentDraft::Text(text) => text.len(),
        ContentDraft::Blob(bytes) => bytes.len() / 57 * 78 + 80,
    };
    FIELDS_BYTES + content
}

/// Returns `true` if a text occurs in the contents that may be written without encoding.
fn contains(part: &PartDraft, text: &[u8]) -> bool {
    match &part.content {
        ContentDraft::Parts(parts) => parts.iter().any(|part| contains(part, text)),
        ContentDraft::Text(content) => memmem::find(content.as_bytes(), text).is_some(),
        ContentDraft::Blob(content) => memmem::find(content, text).is_some(),
    }
}

/// Returns `true` if a blob is an encapsulated message that is written in 8bit.
pub(super) fn is_8bit_message(media_type: &str, bytes: &[u8]) -> bool {
    is_message(media_type) && !bytes.is_ascii() && can_be_sent(&with_crlf(bytes))
}

fn is_message(media_type: &str) -> bool {
    matches!(media_type, "message/rfc822" | "message/global")
}

fn encode_text(text: &str) -> EncodedContent<'_> {
    let text = with_crlf(text.as_bytes());
    if can_be_sent(&text) && text.is_ascii() {
        return EncodedContent { encoding: "7bit", bytes: text };
    }
    let escaped = text.iter().filter(|byte| needs_escape(**byte)).count();
    if text.len() + 2 * escaped <= text.len() / 3 * 4 {
        EncodedContent { encoding: "quoted-printable", bytes: Cow::Owned(quoted_printable(&text)) }
    } else {
        EncodedContent { encoding: BASE64, bytes: text }
    }
}

fn encode_blob<'a>(media_type: &str, bytes: &'a [u8]) -> EncodedContent<'a> {
    if is_message(media_type) {
        return encode_message(bytes);
    }
    let is_unchanged = media_type.starts_with("text/") && bytes.is_ascii() && can_be_sent(bytes);
    if is_unchanged {
        EncodedContent { encoding: "7bit", bytes: Cow::Borrowed(bytes) }
    } else {
        EncodedContent { encoding: BASE64, bytes: Cow::Borrowed(bytes) }
    }
}

fn encode_message(message: &[u8]) -> EncodedContent<'_> {
    let bytes = with_crlf(message);
    match (can_be_sent(&bytes), bytes.is_ascii()) {
        (true, true) => EncodedContent { encoding: "7bit", bytes },
        (true, false) => EncodedContent { encoding: "8bit", bytes },
        (false, _) => EncodedContent { encoding: BASE64, bytes: Cow::Borrowed(message) },
    }
}

/// Returns a text in which all lines end with CRLF.
fn with_crlf(text: &[u8]) -> Cow<'_, [u8]> {
    if ends_lines_with_crlf(text) {
        return Cow::Borrowed(text);
    }
    let mut lines = Vec::with_capacity(text.len() + text.len() / 32);
    let mut previous = 0;
    for byte in text.iter().copied() {
        match (previous, byte) {
            (b'\r', b'\n') => {}
            (_, b'\r' | b'\n') => lines.extend_from_slice(b"\r\n"),
            (_, byte) => lines.push(byte),
        }
        previous = byte;
    }
    Cow::Owned(lines)
}

/// Returns `true` if every CR and LF is a part of a CRLF.
fn ends_lines_with_crlf(text: &[u8]) -> bool {
    memchr::memchr2_iter(b'\r', b'\n', text).all(|position| match text[position] {
        b'\r' => text.get(position + 1) == Some(&b'\n'),
        _ => position > 0 && text[position - 1] == b'\r',
    })
}

/// Returns `true` if a content has no NUL, no other control characters than tabs and form feeds, and only lines that
/// are not too long and end with CRLF.
fn can_be_sent(content: &[u8]) -> bool {
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 11 | 14..=31 | 127);
    let is_short = |line: &[u8]| line.len() <= LINE_BYTES_MAX + 1;
    ends_lines_with_crlf(content)
        && !content.iter().any(is_control)
        && content.split(|byte| *byte == b'\n').all(is_short)
}

fn needs_escape(byte: u8) -> bool {
    !matches!(byte, b'\t' | b'\r' | b'\n' | b' '..=b'~') || byte == b'='
}

/// Returns a text, whose lines end with CRLF, in quoted-printable.
fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(text.len() * 2);
    let mut lines = text.split(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        let line = if is_last { line } else { line.strip_suffix(b"\r").unwrap_or(line) };
        let mut column = 0;
        for (position, byte) in line.iter().copied().enumerate() {
            let is_end = position + 1 == line.len();
            let is_escaped = needs_escape(byte) || byte == b'\r' || (is_end && matches!(byte, b' ' | b'\t'));
            let length = if is_escaped { 3 } else { 1 };
            if column + length > QUOTED_PRINTABLE_LENGTH {
                encoded.extend_from_slice(b"=\r\n");
                column = 0;
            }
            match is_escaped {
                true => encoded.extend_from_slice(format!("={byte:02X}").as_bytes()),
                false => encoded.push(byte),
            }
            column += length;
        }
        if !is_last {
            encoded.extend_from_slice(b"\r\n");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn part(media_type: &str, content: ContentDraft) -> PartDraft {
        PartDraft {
            content_type: format!("Content-Type: {media_type}"),
            media_type: media_type.to_owned(),
            content_fields: Vec::new(),
            fields: Vec::new(),
            content,
            is_8bit: false,
        }
    }

    #[test]
    fn a_message_does_not_grow_while_it_is_written_and_drops_what_is_written() {
        let contents: Vec<Bytes> = [0, 1, 57, 100_000].map(|length| Bytes::from(vec![0xff; length])).into();
        let blobs = contents.iter().map(|bytes| part("image/png", ContentDraft::Blob(bytes.clone())));
        let root = part("multipart/mixed", ContentDraft::Parts(blobs.collect()));
        let writer = MessageWriter::new(&root, "unique");
        let before = writer.message.capacity();
        let message = writer.write("Subject: x\r\n", root);
        assert!(message.len() > 130_000);
        assert_eq!(message.capacity(), before);
        assert!(contents[1..].iter().all(Bytes::is_unique), "the drafts are gone");
    }
}
