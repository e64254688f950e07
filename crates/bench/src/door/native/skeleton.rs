//! The skeletons of messages: the item `$MIME`, which names the contents of the parts that are stored apart from the
//! note, those of 4 KiB and more (docs/message-storage.md, "Skeleton").

use base::codec::{Decoder, InvalidRecord};
use client::v1;
use client::v1::value::Kind;

/// The item with the skeleton of a message.
pub(super) const SKELETON_ITEM: &str = "$MIME";
/// The version of skeletons.
const VERSION: u8 = 1;
/// Maximum number of separate parts of a message that are read. It is that of the contents of a call.
pub(super) const PARTS_MAX: usize = 1_000;
/// The kinds of pieces.
const INLINE: u8 = 0;
const RAW: u8 = 1;
const BASE64: u8 = 2;
const QUOTED_PRINTABLE: u8 = 3;
/// The bits of a style with the kind of line breaks, and the kind whose line breaks are listed.
const BREAKS: u8 = 3;
const LISTED: u8 = 2;

/// The identifier of a content.
pub(super) type ContentId = [u8; 32];

/// A part of a message that is stored apart from its note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeparatePart {
    /// The identifier of its content.
    pub(super) content: ContentId,
    /// The header of the part says that it is an attachment.
    pub(super) is_attachment: bool,
}

/// Returns the separate parts of a message in their order. A skeleton that cannot be read has none.
pub(super) fn separate_parts(skeleton: &[u8]) -> Vec<SeparatePart> {
    read_skeleton(skeleton).unwrap_or_default()
}

/// Returns the separate parts of a note, which has none unless it is a message.
pub(super) fn parts_of_note(items: &[v1::Item]) -> Vec<SeparatePart> {
    let skeleton = items.iter().find_map(|item| match &item.value.as_ref()?.kind {
        Some(Kind::MimePart(skeleton)) if item.name.eq_ignore_ascii_case(SKELETON_ITEM) => Some(skeleton),
        _ => None,
    });
    skeleton.map(|skeleton| separate_parts(skeleton)).unwrap_or_default()
}

fn read_skeleton(skeleton: &[u8]) -> Result<Vec<SeparatePart>, InvalidRecord> {
    let mut input = Decoder::new(skeleton);
    if input.u8()? != VERSION {
        return Err(InvalidRecord);
    }
    let mut parts = Vec::new();
    let mut before: &[u8] = &[];
    for _ in 0..input.count()? {
        let kind = input.u8()?;
        if kind == INLINE {
            before = input.bytes()?;
            continue;
        }
        let content = input.array()?;
        input.varint()?;
        skip_encoding(&mut input, kind)?;
        if parts.len() < PARTS_MAX {
            parts.push(SeparatePart { content, is_attachment: is_attachment(before) });
        }
    }
    Ok(parts)
}

/// Skips how a part is encoded.
fn skip_encoding(input: &mut Decoder<'_>, kind: u8) -> Result<(), InvalidRecord> {
    match kind {
        RAW => {}
        BASE64 => {
            input.u8()?;
            input.varint()?;
        }
        QUOTED_PRINTABLE => {
            input.varint()?;
            let style = input.u8()?;
            input.u8()?;
            input.bytes()?;
            if style & BREAKS == LISTED {
                input.bytes()?;
            }
        }
        _ => return Err(InvalidRecord),
    }
    Ok(())
}

/// Returns `true` if the part that follows this text is an attachment. Its header begins after the last boundary.
fn is_attachment(before: &[u8]) -> bool {
    let text = String::from_utf8_lossy(before).to_ascii_lowercase();
    let header = text.rsplit("\n--").next().unwrap_or_default();
    let mut fields = header.lines();
    fields
        .any(|line| line.strip_prefix("content-disposition:").is_some_and(|rest| rest.trim().starts_with("attachment")))
}

#[cfg(test)]
mod tests {
    use base::codec::Encoder;

    use super::*;

    fn part(content: u8, is_attachment: bool) -> SeparatePart {
        SeparatePart { content: [content; 32], is_attachment }
    }

    /// Returns a skeleton with a raw text, a base64 attachment, and a quoted-printable text with listed line breaks.
    fn skeleton() -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(VERSION).varint(6);
        out.u8(INLINE)
            .bytes(b"Subject: x\r\nContent-Disposition: inline\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n");
        out.u8(RAW).raw(&[1; 32]).varint(5_000);
        out.u8(INLINE).bytes(b"\r\n--b\r\nContent-Type: x/y\r\nContent-Disposition: ATTACHMENT; filename=a\r\n\r\n");
        out.u8(BASE64).raw(&[2; 32]).varint(9_000).u8(0).varint(76);
        out.u8(INLINE).bytes(b"\r\n--b\r\nContent-Type: text/html\r\n\r\n");
        out.u8(QUOTED_PRINTABLE).raw(&[3; 32]).varint(5_000).varint(6_000).u8(LISTED).u8(0).bytes(b"=").bytes(&[76, 0]);
        out.finish()
    }

    #[test]
    fn parts_are_found_in_skeletons() {
        assert_eq!(separate_parts(&skeleton()), [part(1, false), part(2, true), part(3, false)]);
        let value = Some(v1::Value { kind: Some(Kind::MimePart(skeleton())) });
        let item = v1::Item { name: "$Mime".to_owned(), flags: None, value };
        assert_eq!(parts_of_note(&[v1::Item { name: "$Head".to_owned(), ..item.clone() }]), []);
        assert_eq!(parts_of_note(&[item]).len(), 3);
    }

    #[test]
    fn damaged_skeletons_have_no_parts() {
        let whole = skeleton();
        for length in 0..whole.len() {
            assert_eq!(separate_parts(&whole[..length]), [], "{length}");
        }
        let mut other = whole;
        other[0] = 2;
        assert_eq!(separate_parts(&other), []);
    }
}
