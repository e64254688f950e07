//! The content of a message or document: subject, body and attachment, from numbers.
//!
//! All attachments are random bytes, which no compression makes smaller.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::text;
use crate::random::SplitMix64;
use crate::workload::profile::SizeRow;

/// The name of the file that is attached.
pub const FILE_NAME: &str = "attachment.bin";
/// The media type of the file that is attached.
pub const MEDIA_TYPE: &str = "application/octet-stream";

const SUBJECT_BYTES: usize = 30;
/// The bytes in a line of base64.
const BASE64_LINE_BYTES: usize = 57;
/// The boundary between the parts of a message. No text has it, because texts are words.
const BOUNDARY: &str = "=_bench_part";

/// The size of a message or document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentSize {
    /// The size of the body.
    pub body_bytes: usize,
    /// The size of the attachment, or 0 for none.
    pub attachment_bytes: usize,
}

impl ContentSize {
    /// Returns a size of a profile, multiplied by a factor from 0 to 1. What is not empty has at least a byte.
    pub fn scaled(row: &SizeRow, scale: f64) -> Self {
        let scaled = |bytes: u64| {
            let bytes = (bytes as f64 * scale).round().max(if bytes > 0 { 1.0 } else { 0.0 });
            bytes as usize
        };
        Self { body_bytes: scaled(row.body_bytes), attachment_bytes: scaled(row.attachment_bytes) }
    }
}

/// What a message or document says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The subject.
    pub subject: String,
    /// The body, in lines that end in CRLF.
    pub body: String,
    /// The content of the file that is attached, if there is one.
    pub attachment: Option<Vec<u8>>,
}

impl Content {
    /// Generates a content of a size.
    pub fn generate(numbers: &mut SplitMix64, size: ContentSize) -> Self {
        let subject = text::line(numbers, SUBJECT_BYTES);
        let body = text::prose(numbers, size.body_bytes);
        let attachment = (size.attachment_bytes > 0).then(|| {
            let mut bytes = Vec::with_capacity(size.attachment_bytes + 8);
            while bytes.len() < size.attachment_bytes {
                bytes.extend(numbers.number().to_le_bytes());
            }
            bytes.truncate(size.attachment_bytes);
            bytes
        });
        Self { subject, body, attachment }
    }

    /// Returns the content as a message (RFC 5322) without a date and a message id, which the server adds.
    pub fn message(&self, from: &str, to: &[String]) -> Vec<u8> {
        let mut text = format!("From: <{from}>\r\nTo: ");
        for (index, address) in to.iter().enumerate() {
            text.push_str(if index > 0 { ",\r\n <" } else { "<" });
            text.push_str(address);
            text.push('>');
        }
        text.push_str(&format!("\r\nSubject: {}\r\nMIME-Version: 1.0\r\n", self.subject));
        let plain = "Content-Type: text/plain; charset=utf-8\r\n\r\n";
        let Some(attachment) = &self.attachment else {
            text.push_str(plain);
            text.push_str(&self.body);
            return text.into_bytes();
        };
        text.push_str(&format!("Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\r\n\r\n"));
        text.push_str(&format!("--{BOUNDARY}\r\n{plain}{}\r\n--{BOUNDARY}\r\n", self.body));
        text.push_str(&format!("Content-Type: {MEDIA_TYPE}\r\nContent-Transfer-Encoding: base64\r\n"));
        text.push_str(&format!("Content-Disposition: attachment; filename=\"{FILE_NAME}\"\r\n\r\n"));
        text.reserve(attachment.len() / 2 * 3);
        for line in attachment.chunks(BASE64_LINE_BYTES) {
            STANDARD.encode_string(line, &mut text);
            text.push_str("\r\n");
        }
        text.push_str(&format!("--{BOUNDARY}--\r\n"));
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::units::Share;

    fn content(seed: u64, body_bytes: usize, attachment_bytes: usize) -> Content {
        Content::generate(&mut SplitMix64::new(seed), ContentSize { body_bytes, attachment_bytes })
    }

    #[test]
    fn contents_follow_from_the_seed() {
        assert_eq!(content(1, 2_000, 300), content(1, 2_000, 300));
        assert_ne!(content(1, 2_000, 300), content(2, 2_000, 300));
        let sized = content(3, 50_000, 12_345);
        assert!((50_000..50_100).contains(&sized.body.len()), "{}", sized.body.len());
        assert_eq!(sized.attachment.map(|bytes| bytes.len()), Some(12_345));
        assert_eq!(content(3, 10, 0).attachment, None);
    }

    #[test]
    fn messages_have_short_lines_and_the_attachment() {
        let content = content(4, 3_000, 1_000);
        let to: Vec<String> = (1..=40).map(|user| format!("mail{user}@bench.test")).collect();
        let message = String::from_utf8(content.message("mail9@bench.test", &to)).expect("text");
        assert!(message.split("\r\n").all(|line| line.len() < 100 && !line.contains('\n')), "{message}");
        let (_, encoded) = message.split_once("filename=\"attachment.bin\"\r\n\r\n").expect("an attachment");
        let (encoded, _) = encoded.split_once("--=_bench_part--").expect("the end");
        let decoded = STANDARD.decode(encoded.replace("\r\n", "")).expect("base64");
        assert_eq!(Some(decoded), content.attachment);
        assert!(message.starts_with("From: <mail9@bench.test>\r\nTo: <mail1@bench.test>,\r\n <mail2@bench.test>,"));
    }

    #[test]
    fn sizes_are_scaled_but_not_to_nothing() {
        let row = |body_bytes, attachment_bytes| SizeRow { body_bytes, attachment_bytes, share: Share::ALL };
        let scaled = |row: SizeRow, scale| {
            let size = ContentSize::scaled(&row, scale);
            (size.body_bytes, size.attachment_bytes)
        };
        assert_eq!(scaled(row(50_000, 10_000_000), 0.1), (5_000, 1_000_000));
        assert_eq!(scaled(row(50_000, 0), 1.0), (50_000, 0));
        assert_eq!(scaled(row(500, 10), 0.000_1), (1, 1));
    }
}
