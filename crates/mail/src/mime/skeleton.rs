//! The skeleton of a message: the message without its large parts, from which it is restored byte for byte.
//!
//! [`split`] divides a message into segments: bytes that stay in place, and bodies of leaf parts that are large enough
//! to be stored separately. These bodies are decoded where this can be reversed exactly, unless the operator wants them
//! as they were sent. The same attachment then has the same content, independent of its message and its line wrapping.
//! The [`Skeleton`] holds the small bytes and, for each part, the identifier of its content and the way to encode it.
//!
//! Storage is lossless by construction. [`split`] stores a body decoded only if encoding it again yields exactly the
//! same bytes; otherwise it stores the body unchanged. Reading a range requests only the contents that it overlaps. Of
//! base64 and raw contents it requests only the overlapping range.
//!
//! Storage of contents is left out. The caller stores them when it creates a skeleton and reads them when it restores
//! the message.

mod base64;
mod quoted_printable;
mod stored;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use base::limits::MESSAGE_BYTES_MAX;

use crate::mime::DamagedRecord;
use crate::mime::message_source::slice;
use crate::mime::structure::{PartKind, Structure, TransferEncoding};

pub use base64::{Base64Layout, Base64Padding};
pub use quoted_printable::QuotedPrintableStyle;

/// The identifier of a part's content: the hash under which the store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub [u8; 32]);

/// A segment of a split message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Bytes that stay with the message.
    Inline(&'a [u8]),
    /// A part that is stored separately.
    Part(SplitPart<'a>),
}

/// A part that is stored separately from its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPart<'a> {
    /// The stored content.
    pub content: Cow<'a, [u8]>,
    /// Number of bytes of the message that the part replaces.
    pub length: u64,
    /// The method that restores those bytes from the content.
    pub rebuild: ContentEncoding,
}

/// The method that restores the bytes of a message from a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentEncoding {
    /// The bytes are the content.
    Raw,
    /// The bytes are the content in base64.
    Base64(Base64Layout),
    /// The bytes are the content in quoted-printable.
    QuotedPrintable(QuotedPrintableStyle),
}

/// The line end between lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnding {
    /// CR LF.
    CrLf,
    /// LF alone.
    Lf,
}

impl LineEnding {
    /// Returns the bytes of the line end.
    #[must_use]
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::CrLf => b"\r\n",
            Self::Lf => b"\n",
        }
    }
}

/// Which parts of messages are stored separately, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSeparation {
    /// Minimum size of the body of a part that is stored separately.
    pub bytes_min: usize,
    /// `true` if bodies are decoded where this can be reversed exactly, `false` if they are stored as they were sent.
    pub decodes: bool,
}

impl From<usize> for PartSeparation {
    /// Returns the separation of parts from a minimum size on, which are decoded.
    fn from(bytes_min: usize) -> Self {
        Self { bytes_min, decodes: true }
    }
}

/// Splits a message into consecutive segments. Bodies of leaf parts that are large enough become parts.
#[must_use]
pub fn split<'a>(raw: &'a [u8], structure: &Structure, separation: impl Into<PartSeparation>) -> Vec<Segment<'a>> {
    let PartSeparation { bytes_min, decodes } = separation.into();
    let mut segments = Vec::new();
    let mut inline_start = 0;
    for part in structure.parts() {
        if part.kind != PartKind::Leaf || part.size() < bytes_min.max(1) as u64 {
            continue;
        }
        let body = slice(raw, &part.body);
        let encoding = if decodes { &part.content.encoding } else { &TransferEncoding::Binary };
        let (within, split) = split_body(body, encoding);
        let start = part.body.start + within.start as u64;
        if start > inline_start {
            segments.push(Segment::Inline(slice(raw, &(inline_start..start))));
        }
        segments.push(Segment::Part(split));
        inline_start = part.body.start + within.end as u64;
    }
    if inline_start < raw.len() as u64 {
        segments.push(Segment::Inline(slice(raw, &(inline_start..raw.len() as u64))));
    }
    segments
}

/// Joins segments to the message that they were split from.
#[must_use]
pub fn join(segments: &[Segment<'_>]) -> Vec<u8> {
    let mut raw = Vec::new();
    for segment in segments {
        match segment {
            Segment::Inline(bytes) => raw.extend_from_slice(bytes),
            Segment::Part(part) => {
                part.rebuild.write(&part.content, 0, part.length, 0..part.length, &mut raw);
            }
        }
    }
    raw
}

/// Determines the content to store for a body, its range in the body, and how to restore it.
fn split_body<'a>(body: &'a [u8], encoding: &TransferEncoding) -> (Range<usize>, SplitPart<'a>) {
    match encoding {
        TransferEncoding::Base64 => {
            if let Some(region) = base64::decode_reversibly(body) {
                let content = Cow::Owned(region.content);
                let length = region.range.len() as u64;
                return (region.range, SplitPart { content, length, rebuild: ContentEncoding::Base64(region.layout) });
            }
        }
        TransferEncoding::QuotedPrintable => {
            if let Some((content, style)) = quoted_printable::decode_reversibly(body) {
                let content = Cow::Owned(content);
                let length = body.len() as u64;
                return (
                    0..body.len(),
                    SplitPart { content, length, rebuild: ContentEncoding::QuotedPrintable(style) },
                );
            }
        }
        _ => {}
    }
    let part = SplitPart { content: Cow::Borrowed(body), length: body.len() as u64, rebuild: ContentEncoding::Raw };
    (0..body.len(), part)
}

impl ContentEncoding {
    /// Returns the range of the content that is needed for a range of the message's bytes.
    fn content_range(&self, range: &Range<u64>, content_length: u64) -> Range<u64> {
        match self {
            Self::Raw => range.clone(),
            Self::Base64(layout) => layout.content_range(range, content_length),
            Self::QuotedPrintable(_) => 0..content_length,
        }
    }

    /// Appends a range of the message's bytes, restored from the range of the content that begins at `content_start`.
    fn write(&self, content: &[u8], content_start: u64, length: u64, range: Range<u64>, raw: &mut Vec<u8>) {
        match self {
            Self::Raw => raw.extend_from_slice(content),
            Self::Base64(layout) => layout.encode(content, content_start, range, raw),
            Self::QuotedPrintable(style) => {
                let limit = usize::try_from(length).unwrap_or(usize::MAX);
                raw.extend_from_slice(slice(&style.encode(content, limit), &range));
            }
        }
    }
}

/// The stored record of a split message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skeleton<'a> {
    pieces: Vec<SkeletonPiece<'a>>,
    length: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SkeletonPiece<'a> {
    /// Offset of the piece in the message.
    start: u64,
    bytes: PieceBytes<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PieceBytes<'a> {
    Inline(&'a [u8]),
    Part(StoredPart),
}

/// A part of a stored message whose content is stored separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPart {
    /// The identifier of the content.
    pub content: ContentId,
    /// Length of the content.
    pub content_length: u64,
    /// Number of bytes of the message that the part replaces.
    pub length: u64,
    /// The method that restores those bytes from the content.
    pub rebuild: ContentEncoding,
}

impl<'a> Skeleton<'a> {
    /// Creates a skeleton. `put` stores a content and returns its identifier.
    ///
    /// # Errors
    ///
    /// Returns the errors of `put`.
    pub fn from_segments<E>(
        segments: Vec<Segment<'a>>,
        mut put: impl FnMut(Cow<'a, [u8]>) -> Result<ContentId, E>,
    ) -> Result<Self, E> {
        let mut pieces = Vec::with_capacity(segments.len());
        let mut length = 0_u64;
        for segment in segments {
            let bytes = match segment {
                Segment::Inline(bytes) => PieceBytes::Inline(bytes),
                Segment::Part(SplitPart { content, length, rebuild }) => {
                    let content_length = content.len() as u64;
                    PieceBytes::Part(StoredPart { content: put(content)?, content_length, length, rebuild })
                }
            };
            let start = length;
            length += bytes.length();
            pieces.push(SkeletonPiece { start, bytes });
        }
        Ok(Self { pieces, length })
    }

    /// Creates a skeleton of texts with a part between each two of them. A length beyond the range of numbers becomes
    /// the greatest number.
    #[must_use]
    pub fn from_stored_parts(texts: &[&'a [u8]], parts: Vec<StoredPart>) -> Self {
        let mut pieces = Vec::with_capacity(texts.len() + parts.len());
        let mut length = 0_u64;
        let mut parts = parts.into_iter().map(PieceBytes::Part);
        for text in texts {
            for bytes in std::iter::once(PieceBytes::Inline(text)).chain(parts.next()) {
                let start = length;
                length = length.saturating_add(bytes.length());
                pieces.push(SkeletonPiece { start, bytes });
            }
        }
        Self { pieces, length }
    }

    /// Returns the length of the message.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the separately stored parts in their order. The same content may occur several times.
    pub fn parts(&self) -> impl Iterator<Item = &StoredPart> {
        self.pieces.iter().filter_map(|piece| match &piece.bytes {
            PieceBytes::Part(part) => Some(part),
            PieceBytes::Inline(_) => None,
        })
    }

    /// Returns the part that has the decoded content of a body in base64, if that is stored so. `body` is its range;
    /// what is in it beside the part is white space.
    #[must_use]
    pub fn decoded_body(&self, body: &Range<u64>) -> Option<&StoredPart> {
        let mut found = None;
        let first = self.pieces.partition_point(|piece| piece.end() <= body.start);
        for piece in self.pieces[first..].iter().take_while(|piece| piece.start < body.end) {
            let within = body.start.saturating_sub(piece.start)..body.end - piece.start;
            match &piece.bytes {
                PieceBytes::Inline(bytes) if slice(bytes, &within).iter().all(u8::is_ascii_whitespace) => {}
                PieceBytes::Part(part) if found.is_none() && piece.start >= body.start && piece.end() <= body.end => {
                    found = Some(part).filter(|part| matches!(part.rebuild, ContentEncoding::Base64(_)));
                    found?;
                }
                _ => return None,
            }
        }
        found
    }

    /// Returns the whole message.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Skeleton::range`].
    pub fn join<E: From<DamagedRecord>>(
        &self,
        read: impl FnMut(&ContentId, Range<u64>) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        self.range(0..self.length, read)
    }

    /// Returns a range of the message's bytes, cut off at the end of the message. `read` returns a range of a content.
    ///
    /// # Errors
    ///
    /// Returns the errors of `read`, and [`DamagedRecord`] if the length of a content has changed.
    pub fn range<E: From<DamagedRecord>>(
        &self,
        range: Range<u64>,
        mut read: impl FnMut(&ContentId, Range<u64>) -> Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, E> {
        let range = range.start.min(self.length)..range.end.min(self.length);
        let expected = range.end.saturating_sub(range.start).min(MESSAGE_BYTES_MAX as u64);
        let mut raw = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
        let first = self.pieces.partition_point(|piece| piece.end() <= range.start);
        for piece in self.pieces[first..].iter().take_while(|piece| piece.start < range.end) {
            let start = range.start.saturating_sub(piece.start);
            let within = start..piece.bytes.length().min(range.end - piece.start);
            match &piece.bytes {
                PieceBytes::Inline(bytes) => raw.extend_from_slice(slice(bytes, &within)),
                PieceBytes::Part(part) => part.append(within, &mut read, &mut raw)?,
            }
        }
        Ok(raw)
    }
}

impl SkeletonPiece<'_> {
    /// Returns the offset in the message at which the piece ends.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.length())
    }
}

impl PieceBytes<'_> {
    fn length(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Part(part) => part.length,
        }
    }
}

impl StoredPart {
    /// Returns `true` if the whole content is needed for each range of the part.
    #[must_use]
    pub fn is_encoded_whole(&self) -> bool {
        matches!(self.rebuild, ContentEncoding::QuotedPrintable(_))
    }

    fn append<E: From<DamagedRecord>>(
        &self,
        range: Range<u64>,
        read: &mut impl FnMut(&ContentId, Range<u64>) -> Result<Vec<u8>, E>,
        raw: &mut Vec<u8>,
    ) -> Result<(), E> {
        let needed = self.rebuild.content_range(&range, self.content_length);
        let content = read(&self.content, needed.clone())?;
        let before = raw.len() as u64;
        let wanted = range.end - range.start;
        if content.len() as u64 == needed.end - needed.start {
            self.rebuild.write(&content, needed.start, self.length, range, raw);
        }
        if raw.len() as u64 - before == wanted {
            Ok(())
        } else {
            Err(DamagedRecord("content of a message part").into())
        }
    }
}

impl<'a> Skeleton<'a> {
    /// Replaces the identifiers of the contents.
    pub fn rename(&mut self, name: &dyn Fn(ContentId) -> ContentId) {
        for piece in &mut self.pieces {
            if let PieceBytes::Part(part) = &mut piece.bytes {
                part.content = name(part.content);
            }
        }
    }

    /// Returns the bytes that are stored with the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        stored::encode(self)
    }

    /// Decodes stored bytes.
    ///
    /// # Errors
    ///
    /// Returns [`DamagedRecord`] if the bytes are not a skeleton.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DamagedRecord> {
        stored::decode(bytes)
    }
}
