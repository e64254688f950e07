//! A parsed message as RFC 8621 shows it: the parts that a client sees, with numbers.
//!
//! [`Structure`] continues through encapsulated messages. Here they are leaves, and the parts within them do not
//! exist. A part is identified by its number, from which its id and its blob id are made. The numbers count all parts
//! of the structure, from 1 for the first part within a multipart; a message that is no multipart has the single part
//! 1. The same bytes always yield the same numbers.
//!
//! A multipart that contains no readable parts is a leaf with the type `text/plain`, because only parts of the type
//! `multipart/*` have no id and no content.

use std::borrow::Cow;

use mail::mime::header::{self, HeaderField};
use mail::mime::structure::TransferEncoding;
use mail::mime::{Part, PartKind, Structure, parse, slice, transfer_encoding};

use crate::email::charset;

/// A message and its structure.
pub(crate) struct ParsedEmail<'a> {
    raw: &'a [u8],
    structure: Structure,
}

impl<'a> ParsedEmail<'a> {
    /// Parses a message.
    pub(crate) fn new(raw: &'a [u8]) -> Self {
        Self { raw, structure: parse(raw) }
    }

    pub(crate) fn raw(&self) -> &'a [u8] {
        self.raw
    }

    pub(crate) fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Returns a part by its index in the structure.
    pub(crate) fn part(&self, index: usize) -> &Part {
        &self.structure.parts()[index]
    }

    /// Returns `true` if a part is a multipart, which has no content of its own.
    pub(crate) fn is_multipart(&self, index: usize) -> bool {
        self.part(index).kind == PartKind::Multipart
    }

    /// Returns the indexes of the parts that a multipart consists of. A leaf has none.
    pub(crate) fn sub_parts(&self, index: usize) -> Vec<usize> {
        if self.is_multipart(index) { self.structure.children(index).collect() } else { Vec::new() }
    }

    /// Returns the indexes of all leaves, in the order of the message.
    pub(crate) fn leaves(&self) -> Vec<usize> {
        let mut leaves = Vec::new();
        let mut index = 0;
        while let Some(part) = self.structure.parts().get(index) {
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
    pub(crate) fn number(&self, index: usize) -> u32 {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        if self.is_multipart(0) { index } else { index.saturating_add(1) }
    }

    /// Returns the index of the leaf with a number.
    pub(crate) fn leaf_with_number(&self, number: u32) -> Option<usize> {
        self.leaves().into_iter().find(|index| self.number(*index) == number)
    }

    /// Returns the header fields of a part. Lines that are no field are left out.
    pub(crate) fn fields(&self, index: usize) -> Vec<HeaderField<'a>> {
        let header = slice(self.raw, &self.part(index).header);
        header::fields(header).filter(|field| !field.name.is_empty()).collect()
    }

    /// Returns the media type of a part in lower case: the declared one, or the default for its place.
    pub(crate) fn media_type(&self, index: usize) -> String {
        let part = self.part(index);
        let content = &part.content;
        if part.kind == PartKind::Leaf && content.is_multipart() {
            return "text/plain".to_owned();
        }
        let media_type = String::from_utf8_lossy(&content.media_type);
        format!("{media_type}/{}", String::from_utf8_lossy(&content.subtype)).to_lowercase()
    }

    /// Returns the name of the character set of a part, which texts have even if they do not name it.
    pub(crate) fn charset(&self, index: usize) -> Option<String> {
        let part = self.part(index);
        match part.content.parameter("charset") {
            Some(charset) => Some(String::from_utf8_lossy(charset).into_owned()),
            None => self.media_type(index).starts_with("text/").then(|| "us-ascii".to_owned()),
        }
    }

    /// Returns the disposition of a part in lower case.
    pub(crate) fn disposition(&self, index: usize) -> Option<String> {
        let disposition = self.part(index).content.disposition.as_ref()?;
        Some(String::from_utf8_lossy(&disposition.kind).to_lowercase())
    }

    fn encoded(&self, index: usize) -> &'a [u8] {
        slice(self.raw, &self.part(index).body)
    }

    /// Returns the content of a leaf. An unknown transfer encoding is left as it is.
    pub(crate) fn content(&self, index: usize) -> Cow<'a, [u8]> {
        let encoded = self.encoded(index);
        let encoding = &self.part(index).content.encoding;
        transfer_encoding::decode(encoding, encoded, usize::MAX).unwrap_or(Cow::Borrowed(encoded))
    }

    /// Returns the length of the content of a leaf.
    pub(crate) fn content_length(&self, index: usize) -> u64 {
        match self.part(index).content.encoding {
            TransferEncoding::Base64 => base64_length(self.encoded(index)),
            TransferEncoding::QuotedPrintable => self.content(index).len() as u64,
            _ => self.part(index).size(),
        }
    }

    /// Returns the text of a leaf.
    pub(crate) fn text(&self, index: usize) -> charset::ConvertedText {
        let content = &self.part(index).content;
        let mut converted = charset::to_unicode(content.parameter("charset"), &self.content(index));
        converted.is_problem |= matches!(content.encoding, TransferEncoding::Other(_));
        converted
    }
}

/// Returns the length of the bytes that a text in base64 stands for, without decoding it.
fn base64_length(encoded: &[u8]) -> u64 {
    let mut length = 0;
    let mut characters = 0_u64;
    for byte in encoded {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => characters += 1,
            b'=' => length += std::mem::take(&mut characters) * 6 / 8,
            _ => {}
        }
    }
    length + characters * 6 / 8
}

#[cfg(test)]
mod tests {
    use mail::mime::transfer_encoding::base64_lenient;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn length_of_base64_is_that_of_its_content(encoded in "[A-Za-z0-9+/=\r\n *]{0,200}") {
            let content = base64_lenient(encoded.as_bytes(), usize::MAX);
            prop_assert_eq!(base64_length(encoded.as_bytes()), content.len() as u64);
        }
    }
}
