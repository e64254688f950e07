//! The `Content-` fields of a part (RFC 2045, 2046, 2183, 2231, 3282, 1864, 2557).
//!
//! Values are kept as the sender wrote them, without quoting, comments and folding. Parameters in pieces (RFC 2231 §3)
//! are joined. A parameter that names a character set keeps its form and its `*`.
//!
//! Values that violate the RFCs are read as mail programs read them: white space in an unquoted value belongs to the
//! value, and a missing `;` is recognized by the `=` of the next parameter. A Content-Type without a subtype counts as
//! missing.

use base::hex;

use crate::limits::{FIELD_BYTES_MAX, LANGUAGES_MAX, PARAMETERS_MAX, STRUCTURE_VALUE_BYTES_MAX};
use crate::mime::encoded_word;
use crate::mime::header;
use crate::mime::structure::InternedText;

/// The description of a part's body in its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// `true` if there is a readable Content-Type. Otherwise type and subtype are the default for the place of the
    /// part.
    pub typed: bool,
    /// The media type.
    pub media_type: InternedText,
    /// The media subtype.
    pub subtype: InternedText,
    /// The parameters of the media type.
    pub parameters: Vec<Parameter>,
    /// Content-ID.
    pub id: Option<InternedText>,
    /// Content-Description.
    pub description: Option<InternedText>,
    /// Content-MD5.
    pub md5: Option<InternedText>,
    /// Content-Disposition.
    pub disposition: Option<Disposition>,
    /// Content-Language.
    pub languages: Vec<InternedText>,
    /// Content-Location.
    pub location: Option<InternedText>,
    /// Content-Transfer-Encoding.
    pub encoding: TransferEncoding,
}

/// A parameter of a media type or a disposition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The name as written.
    pub name: InternedText,
    /// The value.
    pub value: InternedText,
}

/// Content-Disposition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disposition {
    /// `inline`, `attachment` or another disposition.
    pub kind: InternedText,
    /// The parameters.
    pub parameters: Vec<Parameter>,
}

/// Content-Transfer-Encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferEncoding {
    /// `7bit`, also the default.
    SevenBit,
    /// `8bit`.
    EightBit,
    /// `binary`.
    Binary,
    /// `base64`.
    Base64,
    /// `quoted-printable`.
    QuotedPrintable,
    /// Any other encoding, as written.
    Other(InternedText),
}

impl TransferEncoding {
    /// Returns the name as IMAP and MIME write it.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        match self {
            Self::SevenBit => b"7bit",
            Self::EightBit => b"8bit",
            Self::Binary => b"binary",
            Self::Base64 => b"base64",
            Self::QuotedPrintable => b"quoted-printable",
            Self::Other(name) => name,
        }
    }

    /// Returns `true` if the encoding leaves bytes unchanged.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        matches!(self, Self::SevenBit | Self::EightBit | Self::Binary)
    }

    fn parse(value: &[u8]) -> Self {
        let mut tokens = Tokens::new(value);
        let name = tokens.token(TokenEnd::AtPunctuation);
        let known = [Self::SevenBit, Self::EightBit, Self::Binary, Self::Base64, Self::QuotedPrintable];
        match known.into_iter().find(|encoding| encoding.name().eq_ignore_ascii_case(name)) {
            Some(encoding) => encoding,
            None if name.is_empty() => Self::SevenBit,
            None => Self::Other(InternedText::new(truncate_value(name))),
        }
    }
}

impl Content {
    /// Parses the folded values of a part's fields. `place` determines the default type of the part.
    #[must_use]
    pub(crate) fn parse(fields: &ContentFieldValues<'_>, place: PartContext) -> Self {
        let value = |field: ContentField| fields.0[field as usize].map(truncate_field);
        let text = |field| value(field).map(|value| InternedText::new(truncate_value(&header::unfold(value))));
        let typed = value(ContentField::Type).and_then(parse_type);
        let (default_type, default_subtype): (&[u8], &[u8]) = match place {
            PartContext::Digest => (b"message", b"rfc822"),
            PartContext::Other => (b"text", b"plain"),
        };
        let encoding =
            value(ContentField::TransferEncoding).map_or(TransferEncoding::SevenBit, TransferEncoding::parse);
        let is_typed = typed.is_some();
        let (media_type, subtype, parameters) =
            typed.unwrap_or_else(|| (InternedText::new(default_type), InternedText::new(default_subtype), Vec::new()));
        Self {
            typed: is_typed,
            media_type,
            subtype,
            parameters,
            id: text(ContentField::Id).filter(|id| !id.is_empty()),
            description: text(ContentField::Description),
            md5: text(ContentField::Md5).filter(|md5| !md5.is_empty()),
            disposition: value(ContentField::Disposition).and_then(parse_disposition),
            languages: value(ContentField::Language).map(parse_languages).unwrap_or_default(),
            location: value(ContentField::Location).and_then(parse_location),
            encoding,
        }
    }

    /// Returns `true` if the media type is a multipart.
    #[must_use]
    pub fn is_multipart(&self) -> bool {
        self.media_type.eq_ignore_ascii_case(b"multipart")
    }

    /// Returns `true` if the media type is an encapsulated message.
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.media_type.eq_ignore_ascii_case(b"message")
            && (self.subtype.eq_ignore_ascii_case(b"rfc822") || self.subtype.eq_ignore_ascii_case(b"global"))
    }

    /// Returns a parameter of the media type as it stands in the message.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&[u8]> {
        find(&self.parameters, name)
    }

    /// Returns the decoded file name of the part, from the disposition or else from the media type.
    #[must_use]
    pub fn file_name(&self) -> Option<String> {
        let disposition = self.disposition.as_ref().map(|disposition| &disposition.parameters[..]).unwrap_or_default();
        decoded_parameter(disposition, "filename", "filename*")
            .or_else(|| decoded_parameter(&self.parameters, "name", "name*"))
            .filter(|name| !name.is_empty())
    }
}

/// The place of a part, which determines its default type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartContext {
    /// Directly within a `multipart/digest`.
    Digest,
    /// Anywhere else.
    Other,
}

/// The fields that are recognized while a header is scanned.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContentField {
    Type,
    TransferEncoding,
    Id,
    Description,
    Md5,
    Disposition,
    Language,
    Location,
}

impl ContentField {
    /// Returns the field with this name.
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        let (prefix, rest) = name.split_at_checked(8)?;
        if !prefix.eq_ignore_ascii_case(b"content-") {
            return None;
        }
        const NAMES: [(&[u8], ContentField); 8] = [
            (b"type", ContentField::Type),
            (b"transfer-encoding", ContentField::TransferEncoding),
            (b"id", ContentField::Id),
            (b"description", ContentField::Description),
            (b"md5", ContentField::Md5),
            (b"disposition", ContentField::Disposition),
            (b"language", ContentField::Language),
            (b"location", ContentField::Location),
        ];
        NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(rest)).map(|(_, field)| *field)
    }
}

/// The folded values of a part's `Content-` fields. The first of each name counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ContentFieldValues<'a>([Option<&'a [u8]>; 8]);

impl<'a> ContentFieldValues<'a> {
    pub(crate) fn add(&mut self, field: ContentField, value: &'a [u8]) {
        self.0[field as usize].get_or_insert(value);
    }

    /// Returns `true` if there is a Content-Type field.
    pub(crate) fn has_type(&self) -> bool {
        self.0[ContentField::Type as usize].is_some()
    }

    /// Returns the boundary of a multipart. Returns `None` if it is missing, empty or too long.
    pub(crate) fn boundary(&self) -> Option<Vec<u8>> {
        let (media_type, _, parameters) =
            self.0[ContentField::Type as usize].and_then(|value| parse_type(truncate_field(value)))?;
        if media_type.eq_ignore_ascii_case(b"multipart") { boundary_of(&parameters) } else { None }
    }
}

/// Returns the boundary among parameters. Returns `None` if it is missing, empty or too long.
pub(crate) fn boundary_of(parameters: &[Parameter]) -> Option<Vec<u8>> {
    let boundary = find(parameters, "boundary")?.trim_ascii_end();
    (1..=crate::limits::BOUNDARY_BYTES_MAX).contains(&boundary.len()).then(|| boundary.to_vec())
}

fn find<'a>(parameters: &'a [Parameter], name: &str) -> Option<&'a [u8]> {
    let parameter = parameters.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(&parameter.value)
}

fn decoded_parameter(parameters: &[Parameter], plain: &str, extended: &str) -> Option<String> {
    match find(parameters, extended) {
        Some(value) => Some(decode_extended(value)),
        None => find(parameters, plain).map(encoded_word::decode),
    }
}

/// Decodes `charset'language'text` with its `%` escapes (RFC 2231 §4).
fn decode_extended(value: &[u8]) -> String {
    let mut pieces = value.splitn(3, |byte| *byte == b'\'');
    let (charset, text) = match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(charset), Some(_), Some(text)) => (Some(charset), text),
        _ => (None, value),
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        match after {
            [high, low, after @ ..]
                if *byte == b'%'
                    && let Some(decoded) = hex::parse_byte(*high, *low) =>
            {
                bytes.push(decoded);
                rest = after;
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    encoded_word::charset_to_unicode(charset, bytes)
}

fn truncate_field(value: &[u8]) -> &[u8] {
    value.get(..FIELD_BYTES_MAX).unwrap_or(value)
}

fn truncate_value(value: &[u8]) -> &[u8] {
    value.get(..STRUCTURE_VALUE_BYTES_MAX).unwrap_or(value)
}

fn parse_type(value: &[u8]) -> Option<(InternedText, InternedText, Vec<Parameter>)> {
    let mut tokens = Tokens::new(value);
    let media_type = tokens.token(TokenEnd::AtPunctuation);
    tokens.skip(b'/')?;
    let subtype = tokens.token(TokenEnd::AtPunctuation);
    if media_type.is_empty() || subtype.is_empty() {
        return None;
    }
    Some((
        InternedText::new(truncate_value(media_type)),
        InternedText::new(truncate_value(subtype)),
        tokens.parameters(),
    ))
}

fn parse_disposition(value: &[u8]) -> Option<Disposition> {
    let mut tokens = Tokens::new(value);
    let kind = match tokens.quoted() {
        Some(kind) => InternedText::new(truncate_value(&kind)),
        None => InternedText::new(truncate_value(tokens.token(TokenEnd::AtPunctuation))),
    };
    let parameters = tokens.parameters();
    (!kind.is_empty() || !parameters.is_empty()).then_some(())?;
    let kind = if kind.is_empty() { InternedText::new(b"attachment") } else { kind };
    Some(Disposition { kind, parameters })
}

/// Parses a location. White space in it comes from folding (RFC 2557 §4.4.2), and comments are not part of it.
fn parse_location(value: &[u8]) -> Option<InternedText> {
    let mut tokens = Tokens::new(value);
    let mut location = tokens.quoted().unwrap_or_default();
    location.retain(|byte| !is_blank(*byte));
    if location.is_empty() {
        tokens.skip_blanks();
        while !tokens.rest.is_empty() {
            let length = tokens.rest.iter().position(|byte| is_blank(*byte)).unwrap_or(tokens.rest.len());
            let (piece, rest) = tokens.rest.split_at(length);
            location.extend_from_slice(piece);
            tokens.rest = rest;
            tokens.skip_blanks();
        }
    }
    (!location.is_empty()).then(|| InternedText::new(truncate_value(&location)))
}

fn parse_languages(value: &[u8]) -> Vec<InternedText> {
    let mut tokens = Tokens::new(value);
    let mut languages = Vec::new();
    while languages.len() < LANGUAGES_MAX {
        let language = tokens.token(TokenEnd::AtPunctuation);
        if !language.is_empty() {
            languages.push(InternedText::new(truncate_value(language)));
        }
        if tokens.skip_to(b',').is_none() {
            break;
        }
    }
    languages
}

/// Returns `true` if the byte is white space between tokens. Other control characters are part of tokens.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The characters that end a token besides white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenEnd {
    /// Any character that has a meaning in these fields.
    AtPunctuation,
    /// Only `;`. Unquoted values contain characters that the syntax forbids.
    AtSemicolon,
}

/// A tokenizer for the value of a field.
struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    fn new(value: &'a [u8]) -> Self {
        Self { rest: value }
    }

    /// Skips white space, line ends and comments.
    fn skip_blanks(&mut self) {
        let mut depth = 0_usize;
        while let Some((byte, rest)) = self.rest.split_first() {
            match byte {
                byte if is_blank(*byte) => {}
                b'(' => depth += 1,
                _ if depth == 0 => return,
                b')' => depth -= 1,
                b'\\' => {
                    self.rest = rest.get(1..).unwrap_or_default();
                    continue;
                }
                _ => {}
            }
            self.rest = rest;
        }
    }

    fn skip(&mut self, wanted: u8) -> Option<()> {
        self.skip_blanks();
        self.rest = self.rest.strip_prefix(&[wanted])?;
        Some(())
    }

    fn skip_to(&mut self, wanted: u8) -> Option<()> {
        let position = memchr::memchr(wanted, self.rest)?;
        self.rest = &self.rest[position + 1..];
        Some(())
    }

    /// Consumes the text up to white space or to a character that `stop` names. The result is empty only at such a
    /// character or at the end of the value.
    fn token(&mut self, stop: TokenEnd) -> &'a [u8] {
        self.skip_blanks();
        let ends = |byte: &u8| match byte {
            byte if is_blank(*byte) => true,
            b';' => true,
            b'(' | b')' | b'<' | b'>' | b'@' | b',' | b':' | b'\\' | b'"' | b'/' | b'[' | b']' | b'?' | b'=' => {
                stop == TokenEnd::AtPunctuation
            }
            _ => false,
        };
        let length = self.rest.iter().position(ends).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        token
    }

    /// Consumes a quoted string, if one begins here. Without a closing quote it extends to the end of the value.
    fn quoted(&mut self) -> Option<Vec<u8>> {
        self.skip_blanks();
        let mut rest = self.rest.strip_prefix(b"\"")?;
        let mut text = Vec::new();
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => break,
                b'\\' => {
                    if let Some((escaped, after)) = rest.split_first() {
                        text.push(*escaped);
                        rest = after;
                    }
                }
                b'\r' | b'\n' => {}
                _ => text.push(*byte),
            }
        }
        self.rest = rest;
        Some(text)
    }

    /// Consumes all parameters up to the end of the value.
    fn parameters(&mut self) -> Vec<Parameter> {
        let mut pieces: Vec<(&[u8], Vec<u8>)> = Vec::new();
        while pieces.len() < PARAMETERS_MAX {
            self.skip_blanks();
            if self.rest.is_empty() {
                break;
            }
            let name = self.token(TokenEnd::AtPunctuation);
            if name.is_empty() || self.skip(b'=').is_none() {
                if name.is_empty() {
                    // This is a `;` between parameters, or a character that is invalid here.
                    self.rest = self.rest.get(1..).unwrap_or_default();
                }
                continue;
            }
            let value = self.value();
            pieces.push((name, value));
        }
        join_parameter_pieces(pieces)
    }

    fn value(&mut self) -> Vec<u8> {
        if let Some(quoted) = self.quoted() {
            return quoted;
        }
        let mut value = self.token(TokenEnd::AtSemicolon).to_vec();
        loop {
            self.skip_blanks();
            if matches!(self.rest, [] | [b';', ..]) || self.at_parameter() {
                return value;
            }
            value.push(b' ');
            value.extend_from_slice(self.token(TokenEnd::AtSemicolon));
        }
    }

    /// Returns `true` if `name=` follows.
    fn at_parameter(&self) -> bool {
        let mut ahead = Self { rest: self.rest };
        !ahead.token(TokenEnd::AtPunctuation).is_empty() && ahead.skip(b'=').is_some()
    }
}

/// A piece of a parameter: `filename*1*=b` is piece 1 of `filename`, and encoded.
struct ParameterPiece<'a> {
    name: &'a [u8],
    number: usize,
    encoded: bool,
    value: Vec<u8>,
}

/// Parses the name of a piece. Returns the name of the parameter, the number of the piece, and `true` if it is encoded.
fn piece_name(name: &[u8]) -> Option<(&[u8], usize, bool)> {
    let (name, encoded) = match name.strip_suffix(b"*") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let star = memchr::memrchr(b'*', name)?;
    let number = std::str::from_utf8(&name[star + 1..]).ok()?.parse().ok()?;
    Some((&name[..star], number, encoded))
}

/// Joins the pieces of parameters (RFC 2231 §3). Parameters in one piece are kept and come first.
fn join_parameter_pieces(named: Vec<(&[u8], Vec<u8>)>) -> Vec<Parameter> {
    let mut parameters = Vec::with_capacity(named.len());
    let mut pieces = Vec::new();
    for (name, value) in named {
        match piece_name(name) {
            None => parameters.push(Parameter {
                name: InternedText::new(truncate_value(name)),
                value: InternedText::new(truncate_value(&value)),
            }),
            Some((name, number, encoded)) => pieces.push(ParameterPiece { name, number, encoded, value }),
        }
    }
    let lower = |name: &[u8]| name.to_ascii_lowercase();
    pieces.sort_by_cached_key(|piece| (lower(piece.name), piece.number));
    parameters.extend(pieces.chunk_by(|a, b| a.name.eq_ignore_ascii_case(b.name)).filter_map(join_pieces));
    parameters
}

/// Joins the sorted pieces of one parameter, as far as their numbers are consecutive from 0.
fn join_pieces(pieces: &[ParameterPiece<'_>]) -> Option<Parameter> {
    let first = pieces.first().filter(|piece| piece.number == 0)?;
    let mut value = Vec::new();
    let mut wanted = 0;
    for piece in pieces {
        if piece.number != wanted {
            // A duplicate number is skipped. A missing number ends the value.
            if piece.number < wanted { continue } else { break }
        }
        if first.encoded && !piece.encoded {
            piece.value.iter().for_each(|byte| push_escaped(&mut value, *byte));
        } else {
            value.extend_from_slice(&piece.value);
        }
        wanted += 1;
    }
    let mut name = first.name.to_vec();
    if first.encoded {
        name.push(b'*');
    }
    Some(Parameter { name: InternedText::new(truncate_value(&name)), value: InternedText::new(truncate_value(&value)) })
}

/// Appends a byte of a plain piece to encoded pieces, escaped if necessary.
fn push_escaped(value: &mut Vec<u8>, byte: u8) {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'#' | b'$' | b'&' | b'+') {
        value.push(byte);
    } else {
        value.push(b'%');
        value.extend_from_slice(hex::upper(&[byte]).as_bytes());
    }
}
