//! BODY and BODYSTRUCTURE (RFC 9051 §7.5.2).
//!
//! The parts are visited in the order in which they begin, with a list of the open containers, so that no function
//! recurses. Types and encodings are written in upper case, and parameter names in lower case and sorted, because
//! neither case nor order is significant and clients compare carelessly. Values are written as the sender wrote them.
//! Text without a character set is reported as us-ascii, as the RFCs require.
//!
//! Bytes are read only for an encapsulated message: its header, for its envelope.

use mail::mime::structure::{Content, InternedText, Parameter, Part};
use mail::mime::{MimeSource, PartKind};

use super::envelope::write_envelope;
use crate::codec::ResponseWriter;

/// Amount of detail in a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// BODY: without extension data.
    Basic,
    /// BODYSTRUCTURE.
    Extended,
}

/// Appends the structure of a message.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn write_body_structure<S: MimeSource + ?Sized>(
    source: &S,
    detail: Detail,
    out: &mut ResponseWriter,
) -> Result<(), S::Error> {
    let parts = source.structure().parts();
    let mut open: Vec<&Part> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        while let Some(container) = open.pop_if(|container| container.end <= index) {
            write_part_end(container, detail, out);
        }
        match part.kind {
            PartKind::Leaf => write_leaf(part, detail, out),
            PartKind::Multipart => {
                out.byte(b'(');
                open.push(part);
            }
            PartKind::Message => {
                out.byte(b'(');
                write_common_fields(part, out);
                let header = match parts.get(index + 1) {
                    Some(root) => source.range(root.header.clone())?,
                    None => std::borrow::Cow::Borrowed(&b""[..]),
                };
                out.space();
                write_envelope(&header, out);
                out.space();
                open.push(part);
            }
        }
    }
    while let Some(container) = open.pop() {
        write_part_end(container, detail, out);
    }
    Ok(())
}

fn write_leaf(part: &Part, detail: Detail, out: &mut ResponseWriter) {
    out.byte(b'(');
    write_common_fields(part, out);
    if part.is_text() {
        out.space().number(part.lines);
    }
    if detail == Detail::Extended {
        write_single_part_extension(&part.content, out);
    }
    out.byte(b')');
}

/// Writes the elements that follow the inner parts of a part.
fn write_part_end(part: &Part, detail: Detail, out: &mut ResponseWriter) {
    if part.kind == PartKind::Message {
        out.space().number(part.lines);
        if detail == Detail::Extended {
            write_single_part_extension(&part.content, out);
        }
    } else {
        write_upper_case(&part.content.subtype, out.space());
        if detail == Detail::Extended {
            write_parameters(&part.content.parameters, None, out.space());
            write_common_extension(&part.content, out);
        }
    }
    out.byte(b')');
}

/// Writes the elements with which every part except a multipart begins: type, parameters, id, description, encoding,
/// size.
fn write_common_fields(part: &Part, out: &mut ResponseWriter) {
    let (media_type, subtype) = part.media();
    write_upper_case(media_type, out);
    write_upper_case(subtype, out.space());
    let content = &part.content;
    // If the part is reported with a type other than the declared one, the declared parameters do not apply.
    let is_as_declared = media_type.eq_ignore_ascii_case(&content.media_type);
    let declared = if is_as_declared { &content.parameters[..] } else { &[] };
    let has_charset = declared.iter().any(|parameter| parameter.name.eq_ignore_ascii_case(b"charset"));
    let charset = (part.is_text() && !has_charset).then_some(&b"us-ascii"[..]);
    write_parameters(declared, charset, out.space());
    out.space().nstring(content.id.as_deref()).space().nstring(content.description.as_deref()).space();
    write_upper_case(content.encoding.name(), out);
    out.space().number(part.size());
}

fn write_single_part_extension(content: &Content, out: &mut ResponseWriter) {
    out.space().nstring(content.md5.as_deref());
    write_common_extension(content, out);
}

/// Writes disposition, language and location.
fn write_common_extension(content: &Content, out: &mut ResponseWriter) {
    match &content.disposition {
        Some(disposition) => {
            out.raw(b" (").string(&disposition.kind).space();
            write_parameters(&disposition.parameters, None, out);
            out.byte(b')');
        }
        None => {
            out.space().nil();
        }
    }
    out.space();
    match &content.languages[..] {
        [] => {
            out.nil();
        }
        languages => write_list(languages.iter().map(|language| -> &[u8] { language }), out),
    }
    out.space().nstring(content.location.as_deref());
}

/// Writes parameters, including a character set that the sender did not name.
fn write_parameters(declared: &[Parameter], charset: Option<&[u8]>, out: &mut ResponseWriter) {
    let pair = |parameter: &Parameter| (parameter.name.to_ascii_lowercase(), InternedText::clone(&parameter.value));
    let mut pairs: Vec<_> = declared.iter().map(pair).collect();
    pairs.extend(charset.map(|charset| (b"charset".to_vec(), InternedText::new(charset))));
    if pairs.is_empty() {
        out.nil();
        return;
    }
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    write_list(pairs.iter().flat_map(|(name, value)| [&name[..], value]), out);
}

fn write_list<'a>(texts: impl Iterator<Item = &'a [u8]>, out: &mut ResponseWriter) {
    out.byte(b'(');
    for (index, text) in texts.enumerate() {
        if index > 0 {
            out.space();
        }
        out.string(text);
    }
    out.byte(b')');
}

fn write_upper_case(text: &[u8], out: &mut ResponseWriter) {
    out.string(&text.to_ascii_uppercase());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::message_fixture;

    fn check(raw: &str, detail: Detail, expected: &str) {
        let mut out = ResponseWriter::new();
        let Ok(()) = write_body_structure(&message_fixture::MessageFixture::parse(raw.as_bytes()), detail, &mut out);
        assert_eq!(String::from_utf8_lossy(&out.take()), expected, "{raw}");
    }

    #[test]
    fn single_part_messages_are_described() {
        check(
            "Subject: x\r\n\r\nHello\r\n",
            Detail::Basic,
            "(\"TEXT\" \"PLAIN\" (\"charset\" \"us-ascii\") NIL NIL \"7BIT\" 7 1)",
        );
        check(
            "Content-Type: Text/Html; Format=flowed; charset=UTF-8\nContent-ID: <1@x>\nContent-Description: what\n\
             Content-Transfer-Encoding: Base64\nContent-MD5: abc=\nContent-Disposition: inline\nContent-Language: de,en\n\
             Content-Location: http://x\n\nabc",
            Detail::Extended,
            "(\"TEXT\" \"HTML\" (\"charset\" \"UTF-8\" \"format\" \"flowed\") \"<1@x>\" \"what\" \"BASE64\" 3 0 \
             \"abc=\" (\"inline\" NIL) (\"de\" \"en\") \"http://x\")",
        );
        check(
            "Content-Type: image/png\n\nabc",
            Detail::Extended,
            "(\"IMAGE\" \"PNG\" NIL NIL NIL \"7BIT\" 3 NIL NIL NIL NIL)",
        );
    }

    #[test]
    fn multipart_structure_lists_its_parts() {
        // RFC 9051 §7.5.2: a body type of text and an attachment.
        let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: TEXT/PLAIN; CHARSET=US-ASCII\n\none\ntwo\n\n--b\n\
                   Content-Type: TEXT/PLAIN; CHARSET=US-ASCII; NAME=cc.diff\nContent-ID: <960723163407.20117h@cac>\n\
                   Content-Description: Compiler diff\nContent-Transfer-Encoding: BASE64\n\nYWJj\n--b--\n";
        let parts = "(\"TEXT\" \"PLAIN\" (\"charset\" \"US-ASCII\") NIL NIL \"7BIT\" 8 2+)\
                     (\"TEXT\" \"PLAIN\" (\"charset\" \"US-ASCII\" \"name\" \"cc.diff\") \"<960723163407.20117h@cac>\" \
                     \"Compiler diff\" \"BASE64\" 4 0+)";
        check(raw, Detail::Basic, &format!("({} \"MIXED\")", parts.replace('+', "")));
        let extended = parts.replace('+', " NIL NIL NIL NIL");
        check(raw, Detail::Extended, &format!("({extended} \"MIXED\" (\"boundary\" \"b\") NIL NIL NIL)"));
    }

    #[test]
    fn embedded_message_includes_envelope_and_body() {
        let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\nSubject: in\n\nx\n--b\n\ny\n--b--\n";
        check(
            raw,
            Detail::Basic,
            "((\"MESSAGE\" \"RFC822\" NIL NIL NIL \"7BIT\" 14 (NIL \"in\" NIL NIL NIL NIL NIL NIL NIL NIL) \
             (\"TEXT\" \"PLAIN\" (\"charset\" \"us-ascii\") NIL NIL \"7BIT\" 1 0) 2)\
             (\"TEXT\" \"PLAIN\" (\"charset\" \"us-ascii\") NIL NIL \"7BIT\" 1 0) \"MIXED\")",
        );
    }

    #[test]
    fn unparsable_containers_are_a_single_part() {
        check(
            "Content-Type: multipart/mixed; boundary=b; x=y\n\nno boundary\n",
            Detail::Extended,
            "(\"TEXT\" \"PLAIN\" (\"charset\" \"us-ascii\") NIL NIL \"7BIT\" 12 1 NIL NIL NIL NIL)",
        );
        check(
            "Content-Type: message/rfc822; x=y\nContent-Transfer-Encoding: base64\n\nabc",
            Detail::Basic,
            "(\"APPLICATION\" \"OCTET-STREAM\" NIL NIL NIL \"BASE64\" 3)",
        );
    }

    #[test]
    fn deep_nesting_has_balanced_parentheses() {
        let deep = "Content-Type: message/rfc822\n\n".repeat(500);
        let mut out = ResponseWriter::new();
        let Ok(()) =
            write_body_structure(&message_fixture::MessageFixture::parse(deep.as_bytes()), Detail::Extended, &mut out);
        let text = out.take();
        let count = |byte: u8| text.iter().filter(|found| **found == byte).count();
        assert_eq!(count(b'('), count(b')'));
        assert!(count(b'(') > 150);
    }
}
