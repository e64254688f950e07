//! BINARY and BINARY.SIZE (RFC 3516, RFC 9051 §6.4.5): parts without their transfer encoding.
//!
//! Decoding is lenient: it returns all data that a client could recover from the part with effort. Only an unknown
//! encoding is refused. A part that contains other parts, and the whole message, have no encoding of their own and are
//! returned unchanged. A part that does not exist is empty.

use std::borrow::Cow;

use mail::mime::structure::TransferEncoding;
use mail::mime::{MimeSource, PartKind, transfer_encoding};

use super::section::Octets;
use crate::codec::command::{PartPath, Partial};

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
