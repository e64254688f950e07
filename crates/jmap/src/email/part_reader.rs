//! The headers and contents of a message's parts. No more of the message is read than is asked for.

use std::borrow::Cow;

use mail::mime::header::{self, HeaderField};
use mail::mime::structure::TransferEncoding;
use mail::mime::{MimeSource, transfer_encoding};

use crate::email::charset;
use crate::email::part_tree::PartTree;

/// A reader of the parts of a message.
pub(crate) struct PartReader<'a, S: ?Sized>(pub(crate) &'a S);

impl<'a, S: MimeSource + ?Sized> PartReader<'a, S> {
    /// Returns the parts.
    pub(crate) fn tree(&self) -> PartTree<'a> {
        PartTree(self.0.structure())
    }

    /// Returns the header of a part.
    pub(crate) fn header(&self, index: usize) -> Result<Cow<'a, [u8]>, S::Error> {
        match index {
            0 => Ok(Cow::Borrowed(self.0.header())),
            _ => self.0.range(self.tree().part(index).header.clone()),
        }
    }

    fn encoded(&self, index: usize) -> Result<Cow<'a, [u8]>, S::Error> {
        self.0.range(self.tree().part(index).body.clone())
    }

    /// Returns the content of a leaf. An unknown transfer encoding is left as it is.
    pub(crate) fn content(&self, index: usize) -> Result<Cow<'a, [u8]>, S::Error> {
        let encoding = &self.tree().part(index).content.encoding;
        let encoded = self.encoded(index)?;
        let decoded = match &encoded {
            Cow::Borrowed(bytes) => transfer_encoding::decode(encoding, bytes, usize::MAX),
            Cow::Owned(bytes) => {
                let decoded = transfer_encoding::decode(encoding, bytes, usize::MAX);
                decoded.map(|decoded| Cow::Owned(decoded.into_owned()))
            }
        };
        Ok(decoded.unwrap_or(encoded))
    }

    /// Returns the length of the content of a leaf.
    pub(crate) fn content_length(&self, index: usize) -> Result<u64, S::Error> {
        let part = self.tree().part(index);
        if let Some(length) = self.0.content_length(index)? {
            return Ok(length);
        }
        Ok(match part.content.encoding {
            TransferEncoding::Base64 => base64_length(&self.encoded(index)?),
            TransferEncoding::QuotedPrintable => self.content(index)?.len() as u64,
            _ => part.size(),
        })
    }

    /// Returns the text of a leaf.
    pub(crate) fn text(&self, index: usize) -> Result<charset::ConvertedText, S::Error> {
        let content = &self.tree().part(index).content;
        let mut converted = charset::to_unicode(content.parameter("charset"), &self.content(index)?);
        converted.is_problem |= matches!(content.encoding, TransferEncoding::Other(_));
        Ok(converted)
    }
}

/// Returns the fields of a header. Lines that are no field are left out.
pub(crate) fn fields_of(header: &[u8]) -> Vec<HeaderField<'_>> {
    header::fields(header).filter(|field| !field.name.is_empty()).collect()
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
