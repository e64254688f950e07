//! The structure of a message: its parts with exact byte ranges, and the descriptions of their contents in their
//! headers.
//!
//! A [`Structure`] is a flat list of [`Part`]s in the order in which they begin. A part comes before the parts that it
//! contains. [`parse`] establishes these invariants, and [`Structure::decode`] checks them:
//!
//! - There is a first part, the root. Its header begins at 0, and its body ends at the end of the message.
//! - A part's header ends where its body begins. Both lie within the body of the part's parent, after the preceding
//!   parts.
//! - A multipart contains at least one part, a message exactly one (the root of that message), a leaf none.
//! - There are at most `MIME_PARTS_MAX` parts, and none is nested deeper than `MIME_DEPTH_MAX`.
//!
//! A malformed part becomes a leaf: a multipart without a boundary or without a line that matches it, an encapsulated
//! message in base64, whose bytes cannot be divided, and any part that exceeds a limit. [`Part::media`] returns the
//! media type by which a leaf is best treated.
//!
//! The contents are left out. A structure knows only their ranges.

mod content;
mod interned_text;
mod scan;
mod stored;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use content::{Content, Disposition, Parameter, TransferEncoding};
pub use interned_text::InternedText;
pub use scan::{ScanEffort, header_end, header_end_within, parse, parse_counting};

/// The parts of a message. It is created by [`parse`] and stored by [`Structure::encode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    parts: Vec<Part>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The index of the parent, or `None` for the root.
    pub parent: Option<usize>,
    /// Number of parts that enclose this one.
    pub depth: usize,
    /// The index after the last part within this one.
    pub end: usize,
    /// The kind of the part.
    pub kind: PartKind,
    /// The bytes of the header with its blank line, if it has one.
    pub header: Range<u64>,
    /// The bytes of the body, without the line end that belongs to the boundary after it.
    pub body: Range<u64>,
    /// Number of line ends in the body.
    pub lines: u64,
    /// The description of the body in the header.
    pub content: Content,
}

/// The kind of a part: whether it contains other parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// A part without other parts.
    Leaf,
    /// A part that contains a sequence of parts.
    Multipart,
    /// A part that contains a message.
    Message,
}

impl Structure {
    /// Returns the part that is the message itself.
    #[must_use]
    pub fn root(&self) -> &Part {
        &self.parts[0]
    }

    /// Returns the parts in the order in which they begin.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the length of the message.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.root().body.end
    }

    /// Returns the indexes of the direct children of a part, in their order.
    pub fn children(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.parts.get(index).map_or(0, |part| part.end);
        let first = Some(index + 1).filter(|first| *first < end);
        std::iter::successors(first, move |child| Some(self.parts[*child].end).filter(|next| *next < end))
    }

    /// Returns the index of a part by its IMAP part numbers (RFC 9051 §6.4.5.1). An empty slice stands for the root.
    ///
    /// The parts of a multipart count from 1. A message that is not a multipart has one part, 1, which is its body; the
    /// result is the root of that message. The numbers continue through an encapsulated message.
    #[must_use]
    pub fn find(&self, numbers: &[u32]) -> Option<usize> {
        let mut index = 0;
        // `true` if `index` is the root of a message, whose body is part 1 if it is not a multipart.
        let mut is_root = true;
        for number in numbers {
            let part = self.parts.get(index)?;
            let root = if part.kind == PartKind::Message && !is_root { self.parts.get(index + 1)? } else { part };
            let root_index = if std::ptr::eq(root, part) { index } else { index + 1 };
            if root.kind == PartKind::Multipart {
                index = self.children(root_index).nth(usize::try_from(number.checked_sub(1)?).ok()?)?;
            } else if *number == 1 && (is_root || part.kind == PartKind::Message) {
                index = root_index;
            } else {
                return None;
            }
            is_root = false;
        }
        Some(index)
    }
}

/// A body that [`Structure::with_bodies`] puts into a leaf that had none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsertedBody {
    /// The end of the header of the leaf.
    pub position: u64,
    /// The length of the body.
    pub length: u64,
    /// Number of line ends in the body.
    pub lines: u64,
}

impl Structure {
    /// Returns the structure of the message that results when leaves without a body get one. The bodies are in the
    /// order of the message, and their positions are those before the change. Sums beyond the range of numbers become
    /// the greatest number.
    #[must_use]
    pub fn with_bodies(mut self, bodies: &[InsertedBody]) -> Self {
        let sums = |before: usize| {
            let sum = |value: fn(&InsertedBody) -> u64| bodies[..before].iter().map(value).fold(0, u64::saturating_add);
            (sum(|body| body.length), sum(|body| body.lines))
        };
        for part in &mut self.parts {
            let header = part.header.clone();
            let start = part.body.start;
            let end = part.body.end;
            let (before_header, _) = sums(bodies.partition_point(|body| body.position < header.start));
            let (before_start, lines_before) = sums(bodies.partition_point(|body| body.position < start));
            let (before_end, lines) = sums(bodies.partition_point(|body| body.position <= end));
            part.header = header.start.saturating_add(before_header)..header.end.saturating_add(before_start);
            part.body = start.saturating_add(before_start)..end.saturating_add(before_end);
            part.lines = part.lines.saturating_add(lines.saturating_sub(lines_before));
        }
        self
    }
}

impl Part {
    /// Returns the media type and subtype by which the body is best treated, as they are written.
    ///
    /// They differ from the header if no inner parts could be found. An unreadable multipart is shown as text, and so
    /// is a message that is nested too deep. An encoded message is a file.
    #[must_use]
    pub fn media(&self) -> (&[u8], &[u8]) {
        let content = &self.content;
        let media_type = &content.media_type[..];
        let subtype = &content.subtype[..];
        if self.kind != PartKind::Leaf {
            (media_type, subtype)
        } else if media_type.eq_ignore_ascii_case(b"multipart") {
            (b"text", b"plain")
        } else if content.is_message() {
            if content.encoding.is_identity() { (b"text", b"plain") } else { (b"application", b"octet-stream") }
        } else {
            (media_type, subtype)
        }
    }

    /// Returns `true` if this is a leaf with text of any kind.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.kind == PartKind::Leaf && self.media().0.eq_ignore_ascii_case(b"text")
    }

    /// Returns `true` if this is a leaf of a media type. The media type is given in lower case.
    #[must_use]
    pub fn is_media(&self, media_type: &str, subtype: &str) -> bool {
        let media = self.media();
        self.kind == PartKind::Leaf
            && media.0.eq_ignore_ascii_case(media_type.as_bytes())
            && media.1.eq_ignore_ascii_case(subtype.as_bytes())
    }

    /// Returns `true` if the sender marked this part as an attachment.
    #[must_use]
    pub fn is_attachment(&self) -> bool {
        self.content
            .disposition
            .as_ref()
            .is_some_and(|disposition| disposition.kind.eq_ignore_ascii_case(b"attachment"))
    }

    /// Returns the size of the body in bytes, as it was sent.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.body.end.saturating_sub(self.body.start)
    }
}
