//! BODY[...]: the bytes of a message that a section denotes (RFC 9051 §6.4.5.1).
//!
//! A section is a range of the message, or a selection of header fields. [`Octets`] describes it without reading it, so
//! that a large section can be sent in pieces. A section that does not exist has no octets.
//!
//! Octets are sent unchanged except for NUL, which becomes `?`: `BODY[...]` is a string, and a string cannot contain
//! NUL (RFC 9051 §4.3.1). Sizes and offsets stay the same. BINARY returns the octets themselves.

use std::borrow::Cow;
use std::ops::Range;

use mail::mime::{MimeSource, PartKind, header, slice};

use crate::codec::ResponseWriter;
use crate::codec::command::{PartPath, Partial, SectionSpec, SectionText};

/// The octets of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Octets {
    /// A range of the message.
    Range(Range<u64>),
    /// Bytes that are not a range of the message.
    Bytes(Vec<u8>),
}

impl Octets {
    /// No octets.
    pub const NONE: Self = Self::Range(0..0);

    /// Returns the octets of a section.
    ///
    /// # Errors
    ///
    /// Returns the errors of the source, which is read only for fields in the header of an encapsulated message.
    pub fn of_section<S: MimeSource + ?Sized>(source: &S, section: &SectionSpec) -> Result<Self, S::Error> {
        let parts = source.structure().parts();
        let Some(index) = source.structure().find(&section.part.0) else { return Ok(Self::NONE) };
        let part = &parts[index];
        // HEADER and TEXT of a part are those of the message that it encapsulates.
        let message = match (section.part.0.is_empty(), part.kind) {
            (true, _) => Some(part),
            (false, PartKind::Message) => parts.get(index + 1),
            (false, _) => None,
        };
        let range = match &section.text {
            SectionText::Whole if section.part.0.is_empty() => Some(0..source.structure().length()),
            SectionText::Whole => Some(part.body.clone()),
            SectionText::Mime => Some(part.header.clone()),
            SectionText::Header => message.map(|message| message.header.clone()),
            SectionText::Text => message.map(|message| message.body.clone()),
            SectionText::HeaderFields(_) | SectionText::HeaderFieldsNot(_) => {
                let Some(message) = message else { return Ok(Self::NONE) };
                let header = match section.part.0.is_empty() {
                    true => Cow::Borrowed(source.header()),
                    false => source.range(message.header.clone())?,
                };
                return Ok(Self::Bytes(selected_fields(&header, &section.text)));
            }
        };
        Ok(range.map_or(Self::NONE, Self::Range))
    }

    /// Returns the number of octets.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Range(range) => range.end.saturating_sub(range.start),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Cuts the octets to the requested range.
    #[must_use]
    pub fn cut_to_partial(self, partial: Option<Partial>) -> Self {
        let Some(Partial { start, length }) = partial else { return self };
        let start = start.min(self.length());
        let end = start.saturating_add(length).min(self.length());
        match self {
            Self::Range(range) => Self::Range(range.start + start..range.start + end),
            Self::Bytes(bytes) => Self::Bytes(slice(&bytes, &(start..end)).to_vec()),
        }
    }

    /// Reads a range of the octets.
    ///
    /// # Errors
    ///
    /// Returns the errors of the source.
    pub fn read<'s, S: MimeSource + ?Sized>(
        &'s self,
        source: &'s S,
        range: Range<u64>,
    ) -> Result<Cow<'s, [u8]>, S::Error> {
        match self {
            Self::Range(all) => {
                let start = all.start.saturating_add(range.start).min(all.end);
                source.range(start..all.start.saturating_add(range.end).clamp(start, all.end.max(start)))
            }
            Self::Bytes(bytes) => Ok(Cow::Borrowed(slice(bytes, &range))),
        }
    }

    /// Appends all octets as a literal, with NUL replaced.
    ///
    /// # Errors
    ///
    /// Returns the errors of the source.
    pub fn write<S: MimeSource + ?Sized>(&self, source: &S, out: &mut ResponseWriter) -> Result<(), S::Error> {
        let bytes = self.read(source, 0..self.length())?;
        out.literal(&bytes);
        Ok(())
    }
}

/// Returns the wanted fields of a header unchanged, followed by an empty line.
fn selected_fields(header: &[u8], wanted: &SectionText) -> Vec<u8> {
    let (names, selects_named) = match wanted {
        SectionText::HeaderFields(names) => (&names[..], true),
        SectionText::HeaderFieldsNot(names) => (&names[..], false),
        _ => (&[][..], true),
    };
    // A header has any number of fields, so a field is not compared with each name.
    let mut sorted: Vec<Vec<u8>> = names.iter().map(|name| name.to_ascii_lowercase().into_bytes()).collect();
    sorted.sort_unstable();
    let mut selected = Vec::new();
    for field in header::fields(header) {
        let is_named = sorted.binary_search(&field.name.to_ascii_lowercase()).is_ok();
        if is_named == selects_named {
            selected.extend_from_slice(field.raw);
        }
    }
    if !selected.is_empty() && !selected.ends_with(b"\n") {
        selected.extend_from_slice(b"\r\n");
    }
    selected.extend_from_slice(b"\r\n");
    selected
}

/// Appends the name of a section in a response: `BODY[1.HEADER]<0>`.
pub fn write_section_name(section: &SectionSpec, partial: Option<Partial>, out: &mut ResponseWriter) {
    out.raw(b"BODY[");
    write_part_path(&section.part, out);
    let (word, names): (&[u8], &[String]) = match &section.text {
        SectionText::Whole => (b"", &[]),
        SectionText::Header => (b"HEADER", &[]),
        SectionText::HeaderFields(names) => (b"HEADER.FIELDS", names),
        SectionText::HeaderFieldsNot(names) => (b"HEADER.FIELDS.NOT", names),
        SectionText::Text => (b"TEXT", &[]),
        SectionText::Mime => (b"MIME", &[]),
    };
    if !section.part.0.is_empty() && !word.is_empty() {
        out.byte(b'.');
    }
    out.raw(word);
    for (index, name) in names.iter().enumerate() {
        out.raw(if index == 0 { b" (" } else { b" " }).astring(name.as_bytes());
    }
    if !names.is_empty() {
        out.byte(b')');
    }
    out.byte(b']');
    write_origin(partial, out);
}

/// Appends the numbers of a part.
pub(super) fn write_part_path(path: &PartPath, out: &mut ResponseWriter) {
    for (index, number) in path.0.iter().enumerate() {
        if index > 0 {
            out.byte(b'.');
        }
        out.number(u64::from(*number));
    }
}

/// Appends the offset of the first octet of a partial.
pub(super) fn write_origin(partial: Option<Partial>, out: &mut ResponseWriter) {
    if let Some(Partial { start, .. }) = partial {
        out.byte(b'<').number(start).byte(b'>');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::message_fixture;

    const RAW: &str = "Subject: outer\r\nX-A: 1\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\npre\r\n--b\r\nX-P: 1\r\n\r\none\r\n--b\r\n\
        Content-Type: message/rfc822\r\n\r\nSubject: inner\r\nx-a: 2\r\n 3\r\n\r\nbody\r\n--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n\
        --c\r\n\r\nthree.one\r\n--c--\r\n--b--\r\n";

    fn section(part: &[u32], text: SectionText) -> SectionSpec {
        SectionSpec { part: PartPath(part.to_vec()), text }
    }

    fn octets(raw: &str, section: &SectionSpec, partial: Option<Partial>) -> String {
        let message = message_fixture::MessageFixture::parse(raw.as_bytes());
        let Ok(octets) = Octets::of_section(&message, section);
        let mut out = ResponseWriter::new();
        let Ok(()) = octets.cut_to_partial(partial).write(&message, &mut out);
        let text = String::from_utf8_lossy(&out.take()).into_owned();
        text.split_once("\r\n").map(|(_, text)| text.to_owned()).unwrap_or_default()
    }

    fn check(part: &[u32], text: SectionText, expected: &str) {
        assert_eq!(octets(RAW, &section(part, text), None), expected);
    }

    #[test]
    fn sections_select_the_named_bytes() {
        check(&[], SectionText::Whole, RAW);
        check(&[], SectionText::Header, RAW.split_once("pre").map_or("", |(header, _)| header));
        check(&[1], SectionText::Whole, "one");
        check(&[1], SectionText::Mime, "X-P: 1\r\n\r\n");
        check(&[2], SectionText::Whole, "Subject: inner\r\nx-a: 2\r\n 3\r\n\r\nbody");
        check(&[2], SectionText::Header, "Subject: inner\r\nx-a: 2\r\n 3\r\n\r\n");
        check(&[2], SectionText::Text, "body");
        check(&[2, 1], SectionText::Whole, "body");
        check(&[2], SectionText::Mime, "Content-Type: message/rfc822\r\n\r\n");
        check(&[3, 1], SectionText::Whole, "three.one");
        check(&[3], SectionText::Whole, "--c\r\n\r\nthree.one\r\n--c--");
    }

    #[test]
    fn nonexistent_sections_are_empty() {
        check(&[4], SectionText::Whole, "");
        check(&[1], SectionText::Header, "");
        check(&[1, 1], SectionText::Whole, "");
        check(&[3], SectionText::Text, "");
        check(&[1], SectionText::HeaderFields(vec!["X-P".into()]), "");
    }

    #[test]
    fn fields_are_selected_by_name() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        check(&[], SectionText::HeaderFields(names(&["x-a", "SUBJECT"])), "Subject: outer\r\nX-A: 1\r\n\r\n");
        check(&[], SectionText::HeaderFieldsNot(names(&["content-type"])), "Subject: outer\r\nX-A: 1\r\n\r\n");
        check(&[2], SectionText::HeaderFields(names(&["X-A"])), "x-a: 2\r\n 3\r\n\r\n");
        check(&[], SectionText::HeaderFields(names(&["none"])), "\r\n");
        let stray = section(&[], SectionText::HeaderFieldsNot(names(&["A"])));
        assert_eq!(octets("From x\nA: 1\nB: 2", &stray, None), "From x\nB: 2\r\n\r\n");
    }

    #[test]
    fn non_multipart_message_has_one_part() {
        let raw = "Subject: x\r\n\r\nbody";
        assert_eq!(octets(raw, &section(&[1], SectionText::Whole), None), "body");
        assert_eq!(octets(raw, &section(&[1], SectionText::Mime), None), "Subject: x\r\n\r\n");
        assert_eq!(octets(raw, &section(&[2], SectionText::Whole), None), "");
        let forwarded = "Content-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nbody";
        assert_eq!(octets(forwarded, &section(&[1], SectionText::Header), None), "Subject: in\r\n\r\n");
        assert_eq!(octets(forwarded, &section(&[], SectionText::Text), None), "Subject: in\r\n\r\nbody");
        assert_eq!(octets(forwarded, &section(&[1, 1], SectionText::Whole), None), "body");
    }

    #[test]
    fn partial_selects_a_range_of_the_section() {
        let check = |start, length, expected: &str| {
            for text in [SectionText::Text, SectionText::HeaderFields(vec!["Subject".into()])] {
                let raw = "Subject: outer\r\n\r\nSubject: outer\r\n\r\n";
                assert_eq!(octets(raw, &section(&[], text), Some(Partial { start, length })), expected);
            }
        };
        check(0, 7, "Subject");
        check(9, 5, "outer");
        check(14, 1_000, "\r\n\r\n");
        check(1_000, 1, "");
        check(u64::MAX, u64::MAX, "");
    }

    #[test]
    fn section_names_repeat_the_request() {
        let check = |section: SectionSpec, partial, expected: &str| {
            let mut out = ResponseWriter::new();
            write_section_name(&section, partial, &mut out);
            assert_eq!(String::from_utf8_lossy(&out.take()), expected);
        };
        check(section(&[], SectionText::Whole), None, "BODY[]");
        check(section(&[1, 2], SectionText::Mime), Some(Partial { start: 5, length: 9 }), "BODY[1.2.MIME]<5>");
        check(
            section(&[], SectionText::HeaderFields(vec!["To".into(), "a b".into()])),
            None,
            "BODY[HEADER.FIELDS (To \"a b\")]",
        );
        check(section(&[3], SectionText::HeaderFieldsNot(vec!["To".into()])), None, "BODY[3.HEADER.FIELDS.NOT (To)]");
    }
}
