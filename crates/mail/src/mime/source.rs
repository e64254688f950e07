//! How the bytes of a message are reached, wherever they are.
//!
//! A stored message has its header and its structure at hand, while the rest may lie in several records. Whoever
//! renders or searches messages asks a [`Source`] for the ranges that it needs and for nothing else.
//! [`Whole`] is a message that lies in memory.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

use crate::mime::Structure;

/// A message whose bytes can be asked for.
pub trait Source {
    /// Why bytes could not be given.
    type Error;

    /// Gives the header of the message with its blank line. At hand, costs nothing.
    fn header(&self) -> &[u8];

    /// Gives the structure. At hand, costs nothing.
    fn structure(&self) -> &Structure;

    /// Gives a range of the message's bytes. What lies past the end of the message is left out.
    fn range(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, Self::Error>;
}

/// A message in memory.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    raw: &'a [u8],
    structure: &'a Structure,
}

impl<'a> Whole<'a> {
    /// Takes a message and the structure that was made of it.
    #[must_use]
    pub fn new(raw: &'a [u8], structure: &'a Structure) -> Self {
        Self { raw, structure }
    }
}

impl Source for Whole<'_> {
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

/// Cuts a range out of bytes; what lies past their end is left out.
pub(crate) fn slice<'a>(bytes: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
    let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
    &bytes[start..end]
}
