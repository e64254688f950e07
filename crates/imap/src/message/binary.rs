//! BINARY and BINARY.SIZE (RFC 3516, RFC 9051 §6.4.5): parts without their transfer encoding.
//!
//! Decoding is lenient: it returns all data that a client could recover from the part with effort. Only an unknown
//! encoding is refused. A part that contains other parts, and the whole message, have no encoding of their own and are
//! returned unchanged. A part that does not exist is empty. A [`BinaryReader`] returns the octets of a large part in
//! pieces.

use std::borrow::Cow;
use std::ops::Range;

use mail::mime::structure::TransferEncoding;
use mail::mime::transfer_encoding::TransferDecoder;
use mail::mime::{MimeSource, PartKind, Structure, transfer_encoding};

use super::section::Octets;
use crate::codec::command::{PartPath, Partial};
use crate::limits::PIECE_BYTES;

/// A part without its transfer encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodedPart {
    /// The octets of the part.
    Octets(Octets),
    /// The encoding of the part is unknown: `NO [UNKNOWN-CTE]`.
    UnknownEncoding,
}

/// Decodes a part and cuts it to the requested range.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn decode_binary<S: MimeSource + ?Sized>(
    source: &S,
    path: &PartPath,
    partial: Option<Partial>,
) -> Result<DecodedPart, S::Error> {
    if path.0.is_empty() {
        return Ok(DecodedPart::Octets(Octets::Range(0..source.structure().length()).cut_to_partial(partial)));
    }
    let structure = source.structure();
    let Some(part) = structure.find(&path.0).and_then(|index| structure.parts().get(index)) else {
        return Ok(DecodedPart::Octets(Octets::NONE));
    };
    if part.kind != PartKind::Leaf || part.content.encoding.is_identity() {
        return Ok(DecodedPart::Octets(Octets::Range(part.body.clone()).cut_to_partial(partial)));
    }
    if let TransferEncoding::Other(_) = part.content.encoding {
        return Ok(DecodedPart::UnknownEncoding);
    }
    let end = partial.map_or(usize::MAX, |partial| {
        usize::try_from(partial.start.saturating_add(partial.length)).unwrap_or(usize::MAX)
    });
    let body = source.range(part.body.clone())?;
    match transfer_encoding::decode(&part.content.encoding, &body, end) {
        Some(decoded) => Ok(DecodedPart::Octets(Octets::Bytes(Cow::into_owned(decoded)).cut_to_partial(partial))),
        None => Ok(DecodedPart::UnknownEncoding),
    }
}

/// A reader of a part without its transfer encoding, in pieces. It keeps no reference to the message, so that the next
/// piece may come from a later snapshot.
#[derive(Debug, Clone)]
pub struct BinaryReader {
    /// The range of the message that has not been read.
    rest: Range<u64>,
    /// `None` if the octets are returned unchanged.
    decoder: Option<TransferDecoder>,
    /// Number of decoded octets before the requested range.
    skipped: u64,
    /// Maximum number of octets that are still to be returned.
    wanted: u64,
}

impl BinaryReader {
    /// Creates a reader of the requested range of a part. Returns `None` if its encoding is unknown.
    #[must_use]
    pub fn new(structure: &Structure, path: &PartPath, partial: Option<Partial>) -> Option<Self> {
        let part = structure.find(&path.0).and_then(|index| structure.parts().get(index));
        let (range, decoder) = match part {
            _ if path.0.is_empty() => (0..structure.length(), None),
            None => (0..0, None),
            Some(part) if part.kind != PartKind::Leaf || part.content.encoding.is_identity() => {
                (part.body.clone(), None)
            }
            Some(part) => (part.body.clone(), Some(TransferDecoder::new(&part.content.encoding)?)),
        };
        let Partial { start, length } = partial.unwrap_or(Partial { start: 0, length: u64::MAX });
        if decoder.is_some() {
            return Some(Self { rest: range, decoder, skipped: start, wanted: length });
        }
        let start = range.start.saturating_add(start).min(range.end);
        let rest = start..start.saturating_add(length).min(range.end);
        Some(Self { wanted: rest.end - rest.start, rest, decoder, skipped: 0 })
    }

    /// Returns the number of bytes of the message that have not been read.
    #[must_use]
    pub fn unread_bytes(&self) -> u64 {
        self.rest.end.saturating_sub(self.rest.start)
    }

    /// Returns the number of octets that are still to be returned, if it is known without decoding them.
    #[must_use]
    pub fn known_length(&self) -> Option<u64> {
        self.decoder.is_none().then_some(self.wanted)
    }

    /// Returns `true` if all octets have been returned.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.rest.is_empty() || self.wanted == 0
    }

    /// Reads the next piece of the message and returns its octets. A piece may have no octets.
    ///
    /// # Errors
    ///
    /// Returns the errors of the source.
    pub fn read<S: MimeSource + ?Sized>(&mut self, source: &S) -> Result<Vec<u8>, S::Error> {
        if self.is_done() {
            return Ok(Vec::new());
        }
        let end = self.rest.end.min(self.rest.start.saturating_add(PIECE_BYTES));
        let read = source.range(self.rest.start..end)?;
        self.rest.start = end;
        let mut octets = match &mut self.decoder {
            None => read.into_owned(),
            Some(decoder) => {
                let mut decoded = Vec::with_capacity(read.len());
                decoder.push(&read, &mut decoded);
                if self.rest.is_empty() {
                    decoder.finish(&mut decoded);
                }
                decoded
            }
        };
        let skipped = usize::try_from(self.skipped).unwrap_or(usize::MAX).min(octets.len());
        octets.drain(..skipped);
        self.skipped -= skipped as u64;
        octets.truncate(usize::try_from(self.wanted).unwrap_or(usize::MAX));
        self.wanted -= octets.len() as u64;
        Ok(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::message_fixture;

    const RAW: &str = "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Transfer-Encoding: base64\n\naGVs\nbG8=\n--b\n\
        Content-Transfer-Encoding: quoted-printable\n\na=3Db=\nc\n--b\n\nplain\n--b\nContent-Transfer-Encoding: x-uuencode\n\n#x\n--b--\n";

    fn check(path: &[u32], partial: Option<(u64, u64)>, expected: Option<&str>) {
        let message = message_fixture::MessageFixture::parse(RAW.as_bytes());
        let partial = partial.map(|(start, length)| Partial { start, length });
        let Ok(decoded) = decode_binary(&message, &PartPath(path.to_vec()), partial);
        let found = match decoded {
            DecodedPart::UnknownEncoding => None,
            DecodedPart::Octets(octets) => {
                let Ok(bytes) = octets.read(&message, 0..octets.length());
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
        };
        assert_eq!(found.as_deref(), expected);
        let reader = BinaryReader::new(message.structure(), &PartPath(path.to_vec()), partial);
        let pieces = reader.map(|mut reader| {
            let mut octets = Vec::new();
            while !reader.is_done() {
                let Ok(piece) = reader.read(&message);
                octets.extend_from_slice(&piece);
            }
            String::from_utf8_lossy(&octets).into_owned()
        });
        assert_eq!(pieces.as_deref(), expected);
    }

    #[test]
    fn parts_are_decoded() {
        check(&[1], None, Some("hello"));
        check(&[2], None, Some("a=bc"));
        check(&[3], None, Some("plain"));
        check(&[], None, Some(RAW));
        check(&[5], None, Some(""));
    }

    #[test]
    fn a_partial_counts_decoded_octets() {
        check(&[1], Some((1, 3)), Some("ell"));
        check(&[2], Some((3, 100)), Some("c"));
        check(&[3], Some((9, 1)), Some(""));
        check(&[], Some((0, 7)), Some("Content"));
    }

    #[test]
    fn unknown_encoding_is_reported() {
        check(&[4], None, None);
    }
}
