//! Access to the bytes of a message, wherever they are stored.
//!
//! The header and the structure of a stored message are in memory, while the rest may be in several records. Code that
//! renders or searches messages requests only the ranges that it needs from a [`MimeSource`]. [`InMemoryMessage`] is a
//! message that is entirely in memory.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

use crate::mime::{Structure, text};

/// A message whose bytes can be requested.
pub trait MimeSource {
    /// The error of a failed read.
    type Error;

    /// Returns the header of the message with its blank line. It is in memory, so the call is free.
    fn header(&self) -> &[u8];

    /// Returns the structure. It is in memory, so the call is free.
    fn structure(&self) -> &Structure;

    /// Returns a range of the message's bytes, cut off at the end of the message.
    fn range(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, Self::Error>;

    /// Returns the length of the decoded content of the leaf part with an index, if it is known without reading the
    /// part.
    fn content_length(&self, _index: usize) -> Result<Option<u64>, Self::Error> {
        Ok(None)
    }

    /// Returns the beginning of the displayed text on one line (RFC 8970; RFC 8621 §4.1.4).
    fn preview(&self) -> Result<String, Self::Error> {
        text::preview(self)
    }
}

/// A message in memory.
#[derive(Debug, Clone, Copy)]
pub struct InMemoryMessage<'a> {
    raw: &'a [u8],
    structure: &'a Structure,
}

impl<'a> InMemoryMessage<'a> {
    /// Creates a source from a message and its structure.
    #[must_use]
    pub fn new(raw: &'a [u8], structure: &'a Structure) -> Self {
        Self { raw, structure }
    }
}

impl MimeSource for InMemoryMessage<'_> {
    type Error = Infallible;

    fn header(&self) -> &[u8] {
        slice(self.raw, &self.structure.root().header)
    }

    fn structure(&self) -> &Structure {
        self.structure
    }

    fn range(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, Infallible> {
        Ok(Cow::Borrowed(slice(self.raw, &range)))
    }
}

/// Returns a range of bytes, cut off at their end.
#[must_use]
pub fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
    let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
    &bytes[start..end]
}
