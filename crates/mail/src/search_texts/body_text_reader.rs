//! The texts of a message's body in pieces, so that a search can be interrupted.
//!
//! A [`BodyTextReader`] keeps its place between two pieces and no reference to the message, so that the next piece may
//! come from a later snapshot. Parts are read, decoded and folded piece by piece. What a piece costs is bounded,
//! however large the message is: at most [`SEARCH_READ_BYTES`] are read for it, or [`HEADER_BYTES_MAX`] of the header
//! of a message within the message, and at most [`SEARCH_PIECE_BYTES`] are decoded.

use std::ops::Range;

use search::html::HtmlReader;

use super::field_text;
use crate::casemap::{PieceFolder, fold};
use crate::limits::{HEADER_BYTES_MAX, SEARCH_PART_BYTES_MAX, SEARCH_PIECE_BYTES, SEARCH_READ_BYTES};
use crate::mime::encoded_word::CharsetReader;
use crate::mime::structure::Part;
use crate::mime::transfer_encoding::TransferDecoder;
use crate::mime::{MimeSource, PartKind, header};

/// A piece of the texts of a body, folded for comparison.
#[derive(Debug, Default)]
pub struct BodyPiece {
    /// The text: a header field, the name of a file, or a piece of the text of a part.
    pub text: String,
    /// The text that an HTML part displays.
    pub displayed: String,
    /// `true` if the text is the source of an HTML part.
    pub is_html: bool,
    /// `true` if the texts end with this piece. The next piece then belongs to other texts.
    pub is_last: bool,
}

/// A reader of the texts of a message's body.
#[derive(Debug, Default)]
pub struct BodyTextReader {
    /// The index of the current part.
    part: usize,
    place: PartPlace,
}

/// The place within a part.
#[derive(Debug, Default)]
enum PartPlace {
    /// Nothing of the part has been read.
    #[default]
    Start,
    /// The header of a message within the message. The fields before `position` have been read.
    Header { header: Vec<u8>, position: usize },
    /// The header or the name of the file has been read.
    Body,
    /// The text of the part is being read.
    Text(Box<TextPartReader>),
}

impl BodyTextReader {
    /// Reads the next piece. Returns `false` if there are no further texts.
    ///
    /// # Errors
    ///
    /// Returns the errors of the source.
    pub fn read<S: MimeSource + ?Sized>(&mut self, source: &S, piece: &mut BodyPiece) -> Result<bool, S::Error> {
        piece.text.clear();
        piece.displayed.clear();
        piece.is_html = false;
        piece.is_last = true;
        let parts = source.structure().parts();
        while let Some(part) = parts.get(self.part) {
            match &mut self.place {
                PartPlace::Start if self.part > 0 && parts[part.parent.unwrap_or(0)].kind == PartKind::Message => {
                    let end = part.header.end.min(part.header.start.saturating_add(HEADER_BYTES_MAX as u64));
                    let header = source.range(part.header.start..end)?.into_owned();
                    self.place = PartPlace::Header { header, position: 0 };
                }
                PartPlace::Start => {
                    self.place = PartPlace::Body;
                    if let Some(name) = part.content.file_name().filter(|_| self.part > 0) {
                        piece.text = fold(&name);
                        return Ok(true);
                    }
                }
                PartPlace::Header { header, position } => {
                    let field = header::fields(&header[*position..]).next();
                    let Some(field) = field else {
                        self.place = PartPlace::Body;
                        continue;
                    };
                    piece.text = fold(&field_text(&field));
                    *position += field.raw.len();
                    return Ok(true);
                }
                PartPlace::Body => match TextPartReader::new(part) {
                    Some(reader) => self.place = PartPlace::Text(Box::new(reader)),
                    None => self.go_to_next_part(),
                },
                PartPlace::Text(reader) => {
                    reader.read(source, piece)?;
                    if piece.is_last {
                        self.go_to_next_part();
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn go_to_next_part(&mut self) {
        self.part += 1;
        self.place = PartPlace::Start;
    }
}

/// A reader of the text of a part. At most [`SEARCH_PART_BYTES_MAX`] bytes are decoded.
#[derive(Debug)]
struct TextPartReader {
    /// The range of the message that has not been read.
    rest: Range<u64>,
    /// The bytes that were read last. Those before `position` have been decoded.
    encoded: Vec<u8>,
    position: usize,
    /// Number of bytes that were decoded.
    decoded_bytes: usize,
    decoder: TransferDecoder,
    charset: CharsetReader,
    folder: PieceFolder,
    /// The readers of the displayed text, if the part is HTML.
    displayed: Option<(HtmlReader, PieceFolder)>,
}

impl TextPartReader {
    /// Creates a reader. Returns `None` if the part is not text, or its transfer encoding is unknown.
    fn new(part: &Part) -> Option<Self> {
        if !part.is_text() {
            return None;
        }
        Some(Self {
            rest: part.body.clone(),
            encoded: Vec::new(),
            position: 0,
            decoded_bytes: 0,
            decoder: TransferDecoder::new(&part.content.encoding)?,
            charset: CharsetReader::new(part.content.parameter("charset")),
            folder: PieceFolder::default(),
            displayed: part.is_media("text", "html").then(Default::default),
        })
    }

    fn read<S: MimeSource + ?Sized>(&mut self, source: &S, piece: &mut BodyPiece) -> Result<(), S::Error> {
        if self.position >= self.encoded.len() && !self.rest.is_empty() {
            let end = self.rest.end.min(self.rest.start.saturating_add(SEARCH_READ_BYTES));
            self.encoded = source.range(self.rest.start..end)?.into_owned();
            self.position = 0;
            self.rest.start = end;
        }
        let end = self.encoded.len().min(self.position.saturating_add(SEARCH_PIECE_BYTES));
        let mut decoded = Vec::new();
        self.decoder.push(&self.encoded[self.position..end], &mut decoded);
        self.position = end;
        let is_complete = end == self.encoded.len() && self.rest.is_empty();
        if is_complete {
            self.decoder.finish(&mut decoded);
        }
        self.decoded_bytes += decoded.len();
        piece.is_last = is_complete || self.decoded_bytes >= SEARCH_PART_BYTES_MAX;
        let text = if is_complete { self.charset.finish(decoded) } else { self.charset.push(decoded) };
        self.fold(&text, piece);
        Ok(())
    }

    /// Adds the folded form of a piece of text.
    fn fold(&mut self, text: &str, piece: &mut BodyPiece) {
        self.folder.push(text, &mut piece.text);
        if piece.is_last {
            self.folder.finish(&mut piece.text);
        }
        let Some((html, folder)) = &mut self.displayed else { return };
        piece.is_html = true;
        let mut displayed = String::new();
        html.push(text, &mut displayed);
        if piece.is_last {
            html.finish(&mut displayed);
        }
        folder.push(&displayed, &mut piece.displayed);
        if piece.is_last {
            folder.finish(&mut piece.displayed);
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;

    use super::*;
    use crate::mime::transfer_encoding::STANDARD;
    use crate::mime::{InMemoryMessage, parse, text};

    /// Reads the texts of a message. Returns them with the number of pieces.
    fn texts_of(raw: &[u8]) -> (Vec<String>, usize) {
        let structure = parse(raw);
        let message = InMemoryMessage::new(raw, &structure);
        let mut reader = BodyTextReader::default();
        let mut piece = BodyPiece::default();
        let mut texts = vec![String::new()];
        let mut displayed = String::new();
        let mut count = 0;
        loop {
            let Ok(is_found) = reader.read(&message, &mut piece);
            if !is_found {
                texts.pop();
                return (texts, count);
            }
            count += 1;
            assert!(piece.text.len() <= 3 * SEARCH_PIECE_BYTES, "a piece is bounded");
            if let Some(last) = texts.last_mut() {
                last.push_str(&piece.text);
            }
            displayed.push_str(&piece.displayed);
            if piece.is_last {
                texts.extend(Some(std::mem::take(&mut displayed)).filter(|text| !text.is_empty()));
                texts.push(String::new());
            }
        }
    }

    #[test]
    fn texts_are_those_of_the_parts() {
        let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\npl\u{e4}in\n--b\nContent-Type: text/html; name=a.html\n\n\
            <p>Tis<b>ch</b>\n--b\nContent-Type: message/rfc822\n\nSubject: =?utf-8?q?=C3=A9?=\nX: y\n\ninside\n--b\n\
            Content-Type: image/png; name=b.png\n\nPNG\n--b\nContent-Transfer-Encoding: x-unknown\n\nno\n--b--\n";
        let expected =
            ["PLA\u{308}IN", "A.HTML", "<P>TIS<B>CH</B>", " TISCH", "SUBJECT: E\u{301}", "X: Y", "INSIDE", "B.PNG"];
        assert_eq!(texts_of(raw.as_bytes()), (expected.map(str::to_owned).to_vec(), 7));
        assert_eq!(texts_of(b""), (vec![String::new()], 1));
    }

    #[test]
    fn large_parts_come_in_pieces_and_are_the_same() {
        let line = "Gr\u{fc}n & <b>wei\u{df}</b> \u{4e2d}\u{6587} \u{1f600}\u{301}\u{316}, =3D aGVsbG8=\r\n";
        let text = line.repeat(40_000);
        let lines: Vec<String> = text.as_bytes().chunks(57).map(|line| STANDARD.encode(line)).collect();
        let bodies = [("8bit", text.clone()), ("quoted-printable", text), ("base64", lines.join("\r\n"))];
        for (media, is_html) in [("text/plain", false), ("text/html", true)] {
            for (encoding, body) in &bodies {
                let raw = format!(
                    "Content-Type: {media}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n{body}"
                );
                let structure = parse(raw.as_bytes());
                let message = InMemoryMessage::new(raw.as_bytes(), &structure);
                let Ok(whole) = text::of_part(&message, 0, usize::MAX);
                let whole = whole.unwrap_or_default();
                let displayed = is_html.then(|| fold(&text::of_html(&whole)));
                let expected: Vec<String> = std::iter::once(fold(&whole)).chain(displayed).collect();
                let (found, count) = texts_of(raw.as_bytes());
                assert!(found == expected, "{media} {encoding}");
                assert_eq!(count, body.len().div_ceil(SEARCH_PIECE_BYTES), "{media} {encoding}");
            }
        }
    }

    #[test]
    fn characters_of_latin_text_are_kept_at_the_ends_of_pieces() {
        let mut raw = b"Content-Type: text/plain\n\n".to_vec();
        raw.extend(std::iter::repeat_n(0xe9, 2 * SEARCH_PIECE_BYTES + 1));
        let (texts, count) = texts_of(&raw);
        assert!(texts == ["E\u{301}".repeat(2 * SEARCH_PIECE_BYTES + 1)]);
        assert_eq!(count, 3);
    }
}
