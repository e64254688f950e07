//! The structure of a message: its parts with exact byte ranges, and what their headers say of their contents.
//!
//! A [`Structure`] is a flat list of [`Part`]s in the order in which they begin; a part stands before the parts within
//! it. Invariants, which [`parse`] establishes and [`Structure::decode`] checks:
//!
//! * there is a first part, the root; its header begins at 0 and its body ends at the end of the message;
//! * a part's header ends where its body begins; both lie within the body of its parent, after the parts before it;
//! * a multipart has at least one part within it, a message exactly one (the root of that message), a leaf none;
//! * there are at most `MIME_PARTS_MAX` parts, and none lies deeper than `MIME_DEPTH_MAX`.
//!
//! What is broken becomes a leaf: a multipart without a boundary, or without a line that shows it; an encapsulated
//! message in base64, whose bytes cannot be told apart; whatever passes a limit. [`Part::media`] tells what a leaf is
//! best taken for.
//!
//! Left out: the contents. Ranges are all that is known of them.

mod content;
mod media;
mod scan;
mod stored;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use content::{Content, Disposition, Encoding, Parameter};
pub use media::Text;
pub use scan::{Effort, parse, parse_counting};

/// The parts of a message. Made by [`parse`], stored by [`Structure::encode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    parts: Vec<Part>,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The index of the part that this one lies in; none for the root.
    pub parent: Option<usize>,
    /// How many parts lie around this one.
    pub depth: usize,
    /// The index after the last part that lies within this one.
    pub end: usize,
    /// Whether other parts lie in it.
    pub kind: Kind,
    /// The bytes of the header with its blank line, if it has one.
    pub header: Range<u64>,
    /// The bytes of the body, without the line end that belongs to the boundary after it.
    pub body: Range<u64>,
    /// The number of line ends in the body.
    pub lines: u64,
    /// What the header says of the body.
    pub content: Content,
}

/// Whether other parts lie in a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No parts lie in it.
    Leaf,
    /// Parts lie in it, one after the other.
    Multipart,
    /// A message lies in it.
    Message,
}

impl Structure {
    /// Gives the part that is the message itself.
    #[must_use]
    pub fn root(&self) -> &Part {
        &self.parts[0]
    }

    /// Gives the parts in the order in which they begin.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Gives the length of the message.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.root().body.end
    }

    /// Gives the indexes of the parts directly within a part, in their order.
    pub fn children(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.parts.get(index).map_or(0, |part| part.end);
        let first = Some(index + 1).filter(|first| *first < end);
        std::iter::successors(first, move |child| Some(self.parts[*child].end).filter(|next| *next < end))
    }

    /// Finds a part by the numbers that IMAP and others give them (RFC 9051 §6.4.5.1); no number is the root.
    ///
    /// The parts of a multipart count from 1. A message that is no multipart has one part, 1, which is its body:
    /// here the root of that message. The numbers go on through an encapsulated message.
    #[must_use]
    pub fn find(&self, numbers: &[u32]) -> Option<usize> {
        let mut index = 0;
        // Whether `index` is the root of a message, whose own body is part 1 when it is no multipart.
        let mut is_root = true;
        for number in numbers {
            let part = self.parts.get(index)?;
            let root = if part.kind == Kind::Message && !is_root { self.parts.get(index + 1)? } else { part };
            let root_index = if std::ptr::eq(root, part) { index } else { index + 1 };
            if root.kind == Kind::Multipart {
                index = self.children(root_index).nth(usize::try_from(number.checked_sub(1)?).ok()?)?;
            } else if *number == 1 && (is_root || part.kind == Kind::Message) {
                index = root_index;
            } else {
                return None;
            }
            is_root = false;
        }
        Some(index)
    }
}

impl Part {
    /// Gives the media type and subtype that the body is best taken for, as they are written.
    ///
    /// They differ from what the header says where no parts could be found: an unreadable multipart is shown as
    /// text, and so is a message that lies too deep; an encoded message is a file.
    #[must_use]
    pub fn media(&self) -> (&[u8], &[u8]) {
        let content = &self.content;
        let (media_type, subtype) = (&content.media_type[..], &content.subtype[..]);
        if self.kind != Kind::Leaf {
            (media_type, subtype)
        } else if media_type.eq_ignore_ascii_case(b"multipart") {
            (b"text", b"plain")
        } else if content.is_message() {
            if content.encoding.is_identity() { (b"text", b"plain") } else { (b"application", b"octet-stream") }
        } else {
            (media_type, subtype)
        }
    }

    /// Tells whether this is a leaf that holds text of any kind.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.kind == Kind::Leaf && self.media().0.eq_ignore_ascii_case(b"text")
    }

    /// Tells whether this is a leaf of a media type, given in lower case.
    #[must_use]
    pub fn is_media(&self, media_type: &str, subtype: &str) -> bool {
        let media = self.media();
        self.kind == Kind::Leaf
            && media.0.eq_ignore_ascii_case(media_type.as_bytes())
            && media.1.eq_ignore_ascii_case(subtype.as_bytes())
    }

    /// Tells whether the sender meant this part to be kept apart from the text.
    #[must_use]
    pub fn is_attachment(&self) -> bool {
        self.content
            .disposition
            .as_ref()
            .is_some_and(|disposition| disposition.kind.eq_ignore_ascii_case(b"attachment"))
    }

    /// Gives the size of the body in bytes, as it was sent.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.body.end.saturating_sub(self.body.start)
    }
}
