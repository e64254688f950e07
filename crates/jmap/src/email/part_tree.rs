//! The parts of a message as RFC 8621 shows them, with numbers.
//!
//! [`Structure`] continues through encapsulated messages. Here they are leaves, and the parts within them do not
//! exist. A part is identified by its number, from which its id and its blob id are made. The numbers count all parts
//! of the structure, from 1 for the first part within a multipart; a message that is no multipart has the single part
//! 1. The same bytes always yield the same numbers.
//!
//! A multipart that contains no readable parts is a leaf with the type `text/plain`, because only parts of the type
//! `multipart/*` have no id and no content.

use mail::mime::{Part, PartKind, Structure};

/// The parts of a message. Nothing of this depends on their contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartTree<'a>(pub(crate) &'a Structure);

impl<'a> PartTree<'a> {
    /// Returns a part by its index in the structure.
    pub(crate) fn part(self, index: usize) -> &'a Part {
        &self.0.parts()[index]
    }

    /// Returns `true` if a part is a multipart, which has no content of its own.
    pub(crate) fn is_multipart(self, index: usize) -> bool {
        self.part(index).kind == PartKind::Multipart
    }

    /// Returns the indexes of the parts that a multipart consists of. A leaf has none.
    pub(crate) fn sub_parts(self, index: usize) -> Vec<usize> {
        if self.is_multipart(index) { self.0.children(index).collect() } else { Vec::new() }
    }

    /// Returns the indexes of all leaves, in the order of the message.
    pub(crate) fn leaves(self) -> Vec<usize> {
        let mut leaves = Vec::new();
        let mut index = 0;
        while let Some(part) = self.0.parts().get(index) {
            if part.kind == PartKind::Multipart {
                index += 1;
            } else {
                leaves.push(index);
                index = part.end.max(index + 1);
            }
        }
        leaves
    }

    /// Returns the number of a leaf.
    pub(crate) fn number(self, index: usize) -> u32 {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        if self.is_multipart(0) { index } else { index.saturating_add(1) }
    }

    /// Returns the index of the leaf with a number.
    pub(crate) fn leaf_with_number(self, number: u32) -> Option<usize> {
        self.leaves().into_iter().find(|index| self.number(*index) == number)
    }

    /// Returns the media type of a part in lower case: the declared one, or the default for its place.
    pub(crate) fn media_type(self, index: usize) -> String {
        let part = self.part(index);
        let content = &part.content;
        if part.kind == PartKind::Leaf && content.is_multipart() {
            return "text/plain".to_owned();
        }
        let media_type = String::from_utf8_lossy(&content.media_type);
        format!("{media_type}/{}", String::from_utf8_lossy(&content.subtype)).to_lowercase()
    }

    /// Returns the name of the character set of a part, which texts have even if they do not name it.
    pub(crate) fn charset(self, index: usize) -> Option<String> {
        match self.part(index).content.parameter("charset") {
            Some(charset) => Some(String::from_utf8_lossy(charset).into_owned()),
            None => self.media_type(index).starts_with("text/").then(|| "us-ascii".to_owned()),
        }
    }

    /// Returns the disposition of a part in lower case.
    pub(crate) fn disposition(self, index: usize) -> Option<String> {
        let disposition = self.part(index).content.disposition.as_ref()?;
        Some(String::from_utf8_lossy(&disposition.kind).to_lowercase())
    }
}
