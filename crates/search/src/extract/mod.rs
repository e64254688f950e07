//! The text of attachments.
//!
//! What comes here was written by strangers. Each reader bounds what it unpacks and how deep it goes; none of them fails: what cannot be read has no
//! text. Of what no reader here could bound, PDF, the bytes go [`Elsewhere`]: to another process, which the system bounds.

mod office;

use crate::html;
use crate::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENT_TEXT_BYTES_MAX};
use crate::text::cut;

/// What kind of file an attachment is, as far as there is text in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text without a form.
    Plain,
    /// HTML.
    Html,
    /// An office document: OOXML or OpenDocument.
    Office,
    /// PDF, which is read elsewhere.
    Pdf,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Html, Self::Office, Self::Pdf];

    /// Tells the kind by the media type, or by the ending of the name where the type says nothing.
    #[must_use]
    pub fn of(media_type: &str, file_name: &str) -> Option<Self> {
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

/// Reads files elsewhere, where they cannot do harm.
pub trait Elsewhere: Send + Sync {
    /// Gives the text of a PDF; nothing when there is none or it cannot be read within bounds. Takes a bounded time.
    fn pdf(&self, bytes: &[u8]) -> Option<String>;
}

/// Gives the text of a file of a kind; nothing when there is none, or it cannot be read, or only elsewhere and there is no such place.
#[must_use]
pub fn text(kind: Kind, bytes: &[u8], elsewhere: Option<&dyn Elsewhere>) -> Option<String> {
    if bytes.len() > ATTACHMENT_BYTES_MAX {
        return None;
    }
    let found = match kind {
        Kind::Plain => plain(bytes),
        Kind::Html => html::to_text(&plain(bytes)),
        Kind::Office => office::text(bytes)?,
        Kind::Pdf => elsewhere?.pdf(bytes)?,
    };
    Some(cut(&found, ATTACHMENT_TEXT_BYTES_MAX).to_owned()).filter(|text| !text.trim().is_empty())
}

/// Reads text whose character set nobody told: UTF-16 by its mark, else UTF-8, else Latin 1.
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
