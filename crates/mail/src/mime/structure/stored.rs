//! The stored form of a structure. `docs/message-storage.md` describes it byte by byte.
//!
//! Positions are stored as distances and frequent words as numbers, so that a plain message takes about 20 bytes.
//! Decoding checks every invariant of [`Structure`]. Bytes that violate one are reported as damage, whatever their
//! origin.

use std::ops::Range;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::limits::{MIME_DEPTH_MAX, MIME_PARTS_MAX};

use super::{Content, Disposition, InternedText, Parameter, Part, PartKind, Structure, TransferEncoding};
use crate::limits::{LANGUAGES_MAX, PARAMETERS_MAX};
use crate::mime::DamagedRecord;

/// The version of the form that is written.
const VERSION: u8 = 1;

const TYPED: u8 = 1 << 2;
const ID: u8 = 1 << 3;
const DESCRIPTION: u8 = 1 << 4;
const MD5: u8 = 1 << 5;
const DISPOSITION: u8 = 1 << 6;
const LOCATION: u8 = 1 << 7;

impl Structure {
    /// Returns the bytes that are stored with the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::with_capacity(8 + 24 * self.parts.len());
        encoder.u8(VERSION).varint(self.parts.len() as u64);
        let mut positions = Positions::default();
        for part in &self.parts {
            positions.enter(part.depth);
            encoder.u8(flags(part)).varint(part.depth as u64);
            encoder.varint(part.header.start - positions.next());
            encoder.varint(part.header.end - part.header.start);
            encoder.varint(part.body.end - part.body.start);
            encoder.varint(part.lines);
            encode_content(&mut encoder, &part.content);
            positions.push(&part.body);
        }
        encoder.finish()
    }

    /// Decodes stored bytes.
    ///
    /// # Errors
    ///
    /// Returns [`DamagedRecord`] if the bytes are not a structure, or are one that no message can have.
    pub fn decode(bytes: &[u8]) -> Result<Self, DamagedRecord> {
        let mut decoder = Decoder::new(bytes);
        let parts = decode_parts(&mut decoder).map_err(|InvalidRecord| DamagedRecord("structure of a message"))?;
        let structure = Self { parts };
        if !decoder.is_empty() || !structure.invariants_hold() {
            return Err(DamagedRecord("structure of a message"));
        }
        Ok(structure)
    }

    /// Checks the invariants that the stored form does not guarantee by itself.
    fn invariants_hold(&self) -> bool {
        let root_first = self.parts.first().is_some_and(|root| root.header.start == 0 && root.end == self.parts.len());
        let kinds_fit = self.parts.iter().enumerate().all(|(index, part)| match part.kind {
            PartKind::Leaf => part.end == index + 1,
            PartKind::Multipart => part.end > index + 1,
            PartKind::Message => part.end > index + 1 && self.parts[index + 1].end == part.end,
        });
        let parents_hold = self.parts.iter().all(|part| {
            part.parent.is_none_or(|parent| {
                let around = &self.parts[parent].body;
                around.start <= part.header.start && part.body.end <= around.end
            })
        });
        root_first && kinds_fit && parents_hold
    }
}

/// The earliest start of the next part, for each level of the enclosing parts.
#[derive(Default)]
struct Positions {
    /// For each open part: the start of its body, or the end of its last child.
    levels: Vec<u64>,
    ends: Vec<u64>,
}

impl Positions {
    /// Ends the parts that do not enclose a part of this depth.
    fn enter(&mut self, depth: usize) {
        while self.levels.len() > depth {
            self.levels.pop();
            if let (Some(end), Some(level)) = (self.ends.pop(), self.levels.last_mut()) {
                *level = end;
            }
        }
    }

    fn next(&self) -> u64 {
        self.levels.last().copied().unwrap_or(0)
    }

    fn push(&mut self, body: &Range<u64>) {
        self.levels.push(body.start);
        self.ends.push(body.end);
    }
}

fn flags(part: &Part) -> u8 {
    let content = &part.content;
    let kind = match part.kind {
        PartKind::Leaf => 0,
        PartKind::Multipart => 1,
        PartKind::Message => 2,
    };
    let flag = |present: bool, bit: u8| if present { bit } else { 0 };
    kind | flag(content.typed, TYPED)
        | flag(content.id.is_some(), ID)
        | flag(content.description.is_some(), DESCRIPTION)
        | flag(content.md5.is_some(), MD5)
        | flag(content.disposition.is_some(), DISPOSITION)
        | flag(content.location.is_some(), LOCATION)
}

fn encode_content(encoder: &mut Encoder, content: &Content) {
    match &content.encoding {
        TransferEncoding::SevenBit => encoder.u8(0),
        TransferEncoding::EightBit => encoder.u8(1),
        TransferEncoding::Binary => encoder.u8(2),
        TransferEncoding::Base64 => encoder.u8(3),
        TransferEncoding::QuotedPrintable => encoder.u8(4),
        TransferEncoding::Other(_) => encoder.u8(5),
    };
    if let TransferEncoding::Other(name) = &content.encoding {
        encode_text(encoder, name);
    }
    encode_text(encoder, &content.media_type);
    encode_text(encoder, &content.subtype);
    encode_parameters(encoder, &content.parameters);
    encoder.varint(content.languages.len() as u64);
    content.languages.iter().for_each(|language| encode_text(encoder, language));
    for text in [&content.id, &content.description, &content.md5, &content.location].into_iter().flatten() {
        encode_text(encoder, text);
    }
    if let Some(disposition) = &content.disposition {
        encode_text(encoder, &disposition.kind);
        encode_parameters(encoder, &disposition.parameters);
    }
}

fn encode_parameters(encoder: &mut Encoder, parameters: &[Parameter]) {
    encoder.varint(parameters.len() as u64);
    for parameter in parameters {
        encode_text(encoder, &parameter.name);
        encode_text(encoder, &parameter.value);
    }
}

/// Writes a frequent word as an odd number, and any other text as twice its length followed by its bytes.
fn encode_text(encoder: &mut Encoder, text: &InternedText) {
    match text.number() {
        Some(number) => encoder.varint(u64::from(number) * 2 + 1),
        None => encoder.varint(text.len() as u64 * 2).raw(text),
    };
}

type Read<T> = Result<T, InvalidRecord>;

fn decode_parts(decoder: &mut Decoder<'_>) -> Read<Vec<Part>> {
    if decoder.u8()? != VERSION {
        return Err(InvalidRecord);
    }
    let count = decoder.count()?;
    if count > MIME_PARTS_MAX {
        return Err(InvalidRecord);
    }
    let mut parts: Vec<Part> = Vec::with_capacity(count);
    let mut around: Vec<usize> = Vec::new();
    let mut positions = Positions::default();
    for index in 0..count {
        let (kind, present) = decode_flags(decoder.u8()?)?;
        let depth = usize::try_from(decoder.varint()?).map_err(|_| InvalidRecord)?;
        if depth > around.len() || depth >= MIME_DEPTH_MAX || (depth == 0) != (index == 0) {
            return Err(InvalidRecord);
        }
        around.drain(depth..).for_each(|ended| parts[ended].end = index);
        positions.enter(depth);
        let header_start = sum(positions.next(), decoder.varint()?)?;
        let body_start = sum(header_start, decoder.varint()?)?;
        let body_end = sum(body_start, decoder.varint()?)?;
        let lines = decoder.varint()?;
        let header = header_start..body_start;
        let body = body_start..body_end;
        let content = decode_content(decoder, present)?;
        positions.push(&body);
        parts.push(Part { parent: around.last().copied(), depth, end: count, kind, header, body, lines, content });
        around.push(index);
    }
    Ok(parts)
}

fn sum(a: u64, b: u64) -> Read<u64> {
    a.checked_add(b).ok_or(InvalidRecord)
}

fn decode_flags(flags: u8) -> Read<(PartKind, u8)> {
    let kind = match flags & 3 {
        0 => PartKind::Leaf,
        1 => PartKind::Multipart,
        2 => PartKind::Message,
        _ => return Err(InvalidRecord),
    };
    Ok((kind, flags))
}

fn decode_content(decoder: &mut Decoder<'_>, present: u8) -> Read<Content> {
    let encoding = match decoder.u8()? {
        0 => TransferEncoding::SevenBit,
        1 => TransferEncoding::EightBit,
        2 => TransferEncoding::Binary,
        3 => TransferEncoding::Base64,
        4 => TransferEncoding::QuotedPrintable,
        5 => TransferEncoding::Other(decode_text(decoder)?),
        _ => return Err(InvalidRecord),
    };
    let media_type = decode_text(decoder)?;
    let subtype = decode_text(decoder)?;
    let parameters = decode_parameters(decoder)?;
    let languages = (0..read_limited(decoder, LANGUAGES_MAX)?).map(|_| decode_text(decoder)).collect::<Read<_>>()?;
    let mut text = |bit| if present & bit == 0 { Ok(None) } else { decode_text(decoder).map(Some) };
    let id = text(ID)?;
    let description = text(DESCRIPTION)?;
    let md5 = text(MD5)?;
    let location = text(LOCATION)?;
    let disposition = if present & DISPOSITION == 0 {
        None
    } else {
        Some(Disposition { kind: decode_text(decoder)?, parameters: decode_parameters(decoder)? })
    };
    let typed = present & TYPED != 0;
    Ok(Content {
        typed,
        media_type,
        subtype,
        parameters,
        id,
        description,
        md5,
        disposition,
        languages,
        location,
        encoding,
    })
}

fn decode_parameters(decoder: &mut Decoder<'_>) -> Read<Vec<Parameter>> {
    (0..read_limited(decoder, PARAMETERS_MAX)?)
        .map(|_| Ok(Parameter { name: decode_text(decoder)?, value: decode_text(decoder)? }))
        .collect()
}

fn read_limited(decoder: &mut Decoder<'_>, max: usize) -> Read<usize> {
    decoder.count().and_then(|count| if count > max { Err(InvalidRecord) } else { Ok(count) })
}

fn decode_text(decoder: &mut Decoder<'_>) -> Read<InternedText> {
    let number = decoder.varint()?;
    if number % 2 == 1 {
        return InternedText::from_number(number / 2).ok_or(InvalidRecord);
    }
    let length = usize::try_from(number / 2).map_err(|_| InvalidRecord)?;
    decoder.raw(length).map(InternedText::new)
}
