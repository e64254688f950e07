//! Text extraction from attachments.
//!
//! Attachments are untrusted input. Each extractor limits the bytes it unpacks and its depth. No extractor fails: a
//! file that cannot be read has no text. PDF cannot be limited this way; its bytes go to [`IsolatedReader`], a separate
//! process that is limited by the operating system.

mod office;

use crate::html;
use crate::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENT_TEXT_BYTES_MAX};
use crate::text::truncate;

/// The kind of a file that contains text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// Plain text.
    Plain,
    /// HTML.
    Html,
    /// An office document: OOXML or OpenDocument.
    Office,
    /// PDF, which is read in a separate process.
    Pdf,
}

impl FileKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Html, Self::Office, Self::Pdf];

    /// Returns the kind of a file by its media type. If the media type is unspecific, the file extension decides.
    #[must_use]
    pub fn from_media_type(media_type: &str, file_name: &str) -> Option<Self> {
        let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let ending = file_name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
        Self::of_media(&media_type).or_else(|| {
            let says_nothing = matches!(
                media_type.as_str(),
                "" | "application/octet-stream" | "application/x-unknown" | "application/zip"
            );
            if says_nothing { Self::of_ending(&ending) } else { None }
        })
    }

    fn of_media(media_type: &str) -> Option<Self> {
        match media_type {
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            "text/calendar"
            | "text/plain"
            | "text/csv"
            | "text/markdown"
            | "text/tab-separated-values"
            | "text/x-log" => Some(Self::Plain),
            "application/json" | "message/rfc822-headers" => Some(Self::Plain),
            "application/pdf" | "application/x-pdf" => Some(Self::Pdf),
            other => {
                let office = ["application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument."];
                office.iter().any(|begin| other.starts_with(begin)).then_some(Self::Office)
            }
        }
    }

    fn of_ending(ending: &str) -> Option<Self> {
        match ending {
            "htm" | "html" | "xhtml" => Some(Self::Html),
            "docx" | "xlsx" | "pptx" | "odt" | "ods" | "odp" => Some(Self::Office),
            "pdf" => Some(Self::Pdf),
            "csv" | "ics" | "json" | "log" | "md" | "tsv" | "txt" => Some(Self::Plain),
            _ => None,
        }
    }
}

/// Reads files outside of this process, where they can do no harm.
pub trait IsolatedReader: Send + Sync {
    /// Returns the text of a PDF. Returns `None` if it has no text or cannot be read within the limits. The call takes
    /// a bounded time.
    fn pdf_text(&self, bytes: &[u8]) -> Option<String>;
}

/// Returns the text of a file. Returns `None` if it has no text, if it cannot be read, or if it requires
/// `isolated_reader` and that is `None`.
#[must_use]
pub fn text(kind: FileKind, bytes: &[u8], isolated_reader: Option<&dyn IsolatedReader>) -> Option<String> {
    if bytes.len() > ATTACHMENT_BYTES_MAX {
        return None;
    }
    let found = match kind {
        FileKind::Plain => plain(bytes),
        FileKind::Html => html::to_text(&plain(bytes)),
        FileKind::Office => office::text(bytes)?,
        FileKind::Pdf => isolated_reader?.pdf_text(bytes)?,
    };
    Some(truncate(&found, ATTACHMENT_TEXT_BYTES_MAX).to_owned()).filter(|text| !text.trim().is_empty())
}

/// Decodes text of unknown character set: UTF-16 if it has a byte order mark, else UTF-8 if it is valid, else Latin-1.
fn plain(bytes: &[u8]) -> String {
    let wide = |from: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| from([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
        },
    }
}
