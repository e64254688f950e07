//! The stored form of a skeleton. `docs/message-storage.md` describes it byte by byte.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::limits::MIME_PARTS_MAX;

use super::{
    Base64Layout, Base64Padding, ContentEncoding, ContentId, LineEnding, PieceBytes, QuotedPrintableStyle, Skeleton,
    SkeletonPiece, StoredPart,
};
use crate::mime::DamagedRecord;

/// The version of the form that is written.
const VERSION: u8 = 1;

/// Maximum number of pieces of a message: each part and the bytes before and after it.
const PIECES_MAX: usize = 2 * MIME_PARTS_MAX + 1;

const INLINE: u8 = 0;
const RAW: u8 = 1;
const BASE64: u8 = 2;
const QUOTED_PRINTABLE: u8 = 3;

/// Flags of a base64 layout.
const LF: u8 = 1;
const UNPADDED: u8 = 2;

pub(super) fn encode(skeleton: &Skeleton<'_>) -> Vec<u8> {
    let inline = |piece: &SkeletonPiece<'_>| match piece.bytes {
        PieceBytes::Inline(bytes) => bytes.len() + 6,
        PieceBytes::Part(_) => 64,
    };
    let mut encoder = Encoder::with_capacity(8 + skeleton.pieces.iter().map(inline).sum::<usize>());
    encoder.u8(VERSION).varint(skeleton.pieces.len() as u64);
    for piece in &skeleton.pieces {
        match &piece.bytes {
            PieceBytes::Inline(bytes) => {
                encoder.u8(INLINE).bytes(bytes);
            }
            PieceBytes::Part(part) => encode_part(&mut encoder, part),
        }
    }
    encoder.finish()
}

fn encode_part(encoder: &mut Encoder, part: &StoredPart) {
    let tag = match &part.rebuild {
        ContentEncoding::Raw => RAW,
        ContentEncoding::Base64(_) => BASE64,
        ContentEncoding::QuotedPrintable(_) => QUOTED_PRINTABLE,
    };
    encoder.u8(tag).raw(&part.content.0).varint(part.content_length);
    match &part.rebuild {
        ContentEncoding::Raw => {}
        ContentEncoding::Base64(layout) => {
            let ending = if layout.ending == LineEnding::Lf { LF } else { 0 };
            let padding = if layout.padding == Base64Padding::Absent { UNPADDED } else { 0 };
            encoder.u8(ending | padding).varint(u64::from(layout.line_characters));
        }
        ContentEncoding::QuotedPrintable(style) => {
            encoder.varint(part.length);
            style.encode_style(encoder);
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Skeleton<'_>, DamagedRecord> {
    let mut decoder = Decoder::new(bytes);
    let skeleton = decode_pieces(&mut decoder).map_err(|InvalidRecord| DamagedRecord("skeleton of a message"))?;
    if decoder.is_empty() { Ok(skeleton) } else { Err(DamagedRecord("skeleton of a message")) }
}

fn decode_pieces<'a>(decoder: &mut Decoder<'a>) -> Result<Skeleton<'a>, InvalidRecord> {
    if decoder.u8()? != VERSION {
        return Err(InvalidRecord);
    }
    let count = decoder.count()?;
    if count > PIECES_MAX {
        return Err(InvalidRecord);
    }
    let mut pieces = Vec::with_capacity(count);
    let mut length = 0_u64;
    for _ in 0..count {
        let bytes = match decoder.u8()? {
            INLINE => PieceBytes::Inline(decoder.bytes()?),
            tag => PieceBytes::Part(decode_part(decoder, tag)?),
        };
        let start = length;
        length = length.checked_add(bytes.length()).ok_or(InvalidRecord)?;
        pieces.push(SkeletonPiece { start, bytes });
    }
    Ok(Skeleton { pieces, length })
}

fn decode_part(decoder: &mut Decoder<'_>, tag: u8) -> Result<StoredPart, InvalidRecord> {
    let content = ContentId(decoder.array()?);
    let content_length = decoder.varint()?;
    let (length, rebuild) = match tag {
        RAW => (content_length, ContentEncoding::Raw),
        BASE64 => {
            let layout = decode_layout(decoder)?;
            (layout.encoded_length(content_length).ok_or(InvalidRecord)?, ContentEncoding::Base64(layout))
        }
        QUOTED_PRINTABLE => {
            (decoder.varint()?, ContentEncoding::QuotedPrintable(QuotedPrintableStyle::decode_style(decoder)?))
        }
        _ => return Err(InvalidRecord),
    };
    Ok(StoredPart { content, content_length, length, rebuild })
}

fn decode_layout(decoder: &mut Decoder<'_>) -> Result<Base64Layout, InvalidRecord> {
    let flags = decoder.u8()?;
    if flags & !(LF | UNPADDED) != 0 {
        return Err(InvalidRecord);
    }
    let line_characters = u32::try_from(decoder.varint()?).map_err(|_| InvalidRecord)?;
    let ending = if flags & LF != 0 { LineEnding::Lf } else { LineEnding::CrLf };
    let padding = if flags & UNPADDED != 0 { Base64Padding::Absent } else { Base64Padding::Present };
    Ok(Base64Layout { line_characters, ending, padding })
}
