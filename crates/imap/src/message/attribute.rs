//! FETCH attributes that concern a message's contents, with name and value.
//!
//! FLAGS, UID and MODSEQ are not handled here, because the session decides when and in what form they are sent.

use mail::mailbox::HeadText;

use super::binary::{DecodedPart, decode_binary};
use super::entry::{EntryData, MessageSource};
use super::envelope::write_envelope;
use super::section::{Octets, write_origin, write_part_path, write_section_name};
use super::structure::{Detail, write_body_structure};
use crate::codec::ResponseWriter;
use crate::codec::command::{FetchAttribute, PartPath, SectionSpec, SectionText};

/// Result of writing an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeOutcome {
    /// The attribute was written.
    Written,
    /// Nothing was written, because the attribute is not handled by the function that was called.
    NotHandled,
    /// Nothing was written, because the transfer encoding of the part is unknown (`NO [UNKNOWN-CTE]`).
    UnknownEncoding,
}

/// Appends an attribute that the folder's entry holds.
pub fn write_entry_attribute(
    attribute: &FetchAttribute,
    entry: &impl EntryData,
    out: &mut ResponseWriter,
) -> AttributeOutcome {
    match attribute {
        FetchAttribute::InternalDate => out.raw(b"INTERNALDATE ").date_time(entry.received().seconds()),
        FetchAttribute::Rfc822Size => out.raw(b"RFC822.SIZE ").number(entry.size()),
        FetchAttribute::SaveDate => match entry.saved() {
            Some(saved) => out.raw(b"SAVEDATE ").date_time(saved.seconds()),
            None => out.raw(b"SAVEDATE NIL"),
        },
        _ => return AttributeOutcome::NotHandled,
    };
    AttributeOutcome::Written
}

/// Appends an attribute that needs the message.
///
/// # Errors
///
/// Returns the errors of the message. Output that was written before the error stays in the writer.
pub fn write_attribute<M: MessageSource>(
    attribute: &FetchAttribute,
    message: &M,
    out: &mut ResponseWriter,
) -> Result<AttributeOutcome, M::Error> {
    match attribute {
        FetchAttribute::Binary { part, partial, .. } => {
            let DecodedPart::Octets(octets) = decode_binary(message, part, *partial)? else {
                return Ok(AttributeOutcome::UnknownEncoding);
            };
            write_octets_name(attribute, out);
            out.space().literal8(&octets.read(message, 0..octets.length())?);
        }
        FetchAttribute::BinarySize(part) => {
            let DecodedPart::Octets(octets) = decode_binary(message, part, None)? else {
                return Ok(AttributeOutcome::UnknownEncoding);
            };
            write_octets_name(attribute, out);
            out.space().number(octets.length());
        }
        FetchAttribute::Body => write_body_structure(message, Detail::Basic, out.raw(b"BODY "))?,
        FetchAttribute::BodyStructure => {
            out.raw(b"BODYSTRUCTURE ");
            let write = |out: &mut ResponseWriter| write_body_structure(message, Detail::Extended, out);
            write_head_text(message, HeadText::BodyStructure, write, out)?;
        }
        FetchAttribute::EmailId => {
            out.raw(b"EMAILID (").text(&message.email_id()?).byte(b')');
        }
        FetchAttribute::Envelope => {
            out.raw(b"ENVELOPE ");
            let write = |out: &mut ResponseWriter| {
                write_envelope(message.header(), out);
                Ok(())
            };
            write_head_text(message, HeadText::Envelope, write, out)?;
        }
        FetchAttribute::Preview { .. } => {
            let preview = message.preview()?;
            out.raw(b"PREVIEW ").string(preview.as_bytes());
        }
        FetchAttribute::ThreadId => match message.thread_id()? {
            Some(id) => {
                out.raw(b"THREADID (").text(&id).byte(b')');
            }
            None => {
                out.raw(b"THREADID NIL");
            }
        },
        _ => match octets(attribute, message)? {
            Some(octets) => {
                write_octets_name(attribute, out);
                octets.write(message, out.space())?;
            }
            None => return Ok(AttributeOutcome::NotHandled),
        },
    }
    Ok(AttributeOutcome::Written)
}

/// Appends a text of the message's head as it was kept, or writes and keeps it.
///
/// Only ASCII is kept. The writer forms it alike for every client, whatever its encoding.
fn write_head_text<M: MessageSource>(
    message: &M,
    text: HeadText,
    write: impl FnOnce(&mut ResponseWriter) -> Result<(), M::Error>,
    out: &mut ResponseWriter,
) -> Result<(), M::Error> {
    if let Some(kept) = message.head_text(text) {
        out.raw(kept);
        return Ok(());
    }
    let start = out.len();
    write(out)?;
    let written = &out.as_bytes()[start..];
    if written.is_ascii() {
        message.cache_head_text(text, written);
    }
    Ok(())
}

/// Returns the octets of `BODY[...]` and of the `RFC822` attributes that consist of octets, or `None` for any other
/// attribute.
///
/// Together with [`write_octets_name`], this lets callers send large octets in pieces.
///
/// # Errors
///
/// Returns the errors of the message.
pub fn octets<M: MessageSource>(attribute: &FetchAttribute, message: &M) -> Result<Option<Octets>, M::Error> {
    let whole = |text| SectionSpec { part: PartPath::default(), text };
    let section = match attribute {
        FetchAttribute::BodySection { section, partial, .. } => {
            return Ok(Some(Octets::of_section(message, section)?.cut_to_partial(*partial)));
        }
        FetchAttribute::Rfc822 => whole(SectionText::Whole),
        FetchAttribute::Rfc822Header => whole(SectionText::Header),
        FetchAttribute::Rfc822Text => whole(SectionText::Text),
        _ => return Ok(None),
    };
    Octets::of_section(message, &section).map(Some)
}

/// Appends the name under which a response returns an attribute that consists of octets, or the size of a part.
pub fn write_octets_name(attribute: &FetchAttribute, out: &mut ResponseWriter) {
    match attribute {
        FetchAttribute::Binary { part, partial, .. } => {
            out.raw(b"BINARY[");
            write_part_path(part, out);
            out.byte(b']');
            write_origin(*partial, out);
        }
        FetchAttribute::BinarySize(part) => {
            out.raw(b"BINARY.SIZE[");
            write_part_path(part, out);
            out.byte(b']');
        }
        FetchAttribute::BodySection { section, partial, .. } => write_section_name(section, *partial, out),
        FetchAttribute::Rfc822 => {
            out.raw(b"RFC822");
        }
        FetchAttribute::Rfc822Header => {
            out.raw(b"RFC822.HEADER");
        }
        FetchAttribute::Rfc822Text => {
            out.raw(b"RFC822.TEXT");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::TextEncoding;
    use crate::codec::command::Partial;
    use crate::message::message_fixture;

    const RAW: &str = "Subject: x\r\nContent-Transfer-Encoding: base64\r\n\r\naGkA\r\n";

    fn written(attribute: &FetchAttribute) -> String {
        written_of(RAW, attribute)
    }

    fn written_of(raw: &str, attribute: &FetchAttribute) -> String {
        let message = message_fixture::MessageFixture::parse(raw.as_bytes());
        let mut out = ResponseWriter::new();
        let outcome = match write_entry_attribute(attribute, &message.entry, &mut out) {
            AttributeOutcome::NotHandled => {
                let Ok(outcome) = write_attribute(attribute, &message, &mut out);
                outcome
            }
            outcome => outcome,
        };
        assert_eq!(outcome == AttributeOutcome::Written, !out.is_empty());
        String::from_utf8_lossy(&out.take()).into_owned()
    }

    #[test]
    fn nul_is_sent_only_in_a_literal8() {
        const BINARY: &str = "Subject: a\0b\r\nContent-Transfer-Encoding: binary\r\n\r\nc\0\0d";
        let check = |attribute: FetchAttribute, expected: &str| {
            assert_eq!(written_of(BINARY, &attribute), expected);
        };
        let section = |text| SectionSpec { part: PartPath::default(), text };
        let body = |text, partial| FetchAttribute::BodySection { section: section(text), partial, peek: true };
        check(body(SectionText::Text, None), "BODY[TEXT] {4}\r\nc??d");
        check(body(SectionText::Text, Some(Partial { start: 2, length: 2 })), "BODY[TEXT]<2> {2}\r\n?d");
        let first = SectionSpec { part: PartPath(vec![1]), text: SectionText::Whole };
        let first = |partial| FetchAttribute::BodySection { section: first.clone(), partial, peek: true };
        check(first(None), "BODY[1] {4}\r\nc??d");
        check(first(Some(Partial { start: 1, length: 2 })), "BODY[1]<1> {2}\r\n??");
        check(
            body(SectionText::HeaderFields(vec!["Subject".into()]), None),
            "BODY[HEADER.FIELDS (Subject)] {16}\r\nSubject: a?b\r\n\r\n",
        );
        check(FetchAttribute::Rfc822Text, "RFC822.TEXT {4}\r\nc??d");
        let text = BINARY.replace('\0', "?");
        check(FetchAttribute::Rfc822, &format!("RFC822 {{{}}}\r\n{text}", BINARY.len()));
        check(
            FetchAttribute::Binary { part: PartPath(vec![1]), partial: None, peek: true },
            "BINARY[1] ~{4}\r\nc\0\0d",
        );
        let whole = FetchAttribute::Binary { part: PartPath::default(), partial: None, peek: true };
        check(whole, &format!("BINARY[] ~{{{}}}\r\n{BINARY}", BINARY.len()));
        check(FetchAttribute::Rfc822Size, &format!("RFC822.SIZE {}", BINARY.len()));
    }

    #[test]
    fn encoding_independent_envelopes_and_structures_are_cached() {
        let long = "x".repeat(2_000);
        for (raw, is_kept) in [
            (RAW.to_owned(), true),
            (format!("Subject: {long}\r\n\r\n"), true),
            ("Subject: gr\u{fc}n\r\nContent-Type: text/plain; name=gr\u{fc}n\r\n\r\n".to_owned(), false),
        ] {
            for encoding in [TextEncoding::Ascii, TextEncoding::Utf8] {
                let message = message_fixture::MessageFixture::parse(raw.as_bytes());
                for attribute in [FetchAttribute::Envelope, FetchAttribute::BodyStructure] {
                    let write = |encoding| {
                        let mut out = ResponseWriter::new();
                        out.set_encoding(encoding);
                        let Ok(_) = write_attribute(&attribute, &message, &mut out);
                        String::from_utf8_lossy(&out.take()).into_owned()
                    };
                    let first = write(encoding);
                    assert_eq!(write(encoding), first, "{raw}");
                    let other = if encoding == TextEncoding::Ascii { TextEncoding::Utf8 } else { TextEncoding::Ascii };
                    assert_eq!(write(other) == first, is_kept, "{raw}");
                }
                assert_eq!(message.head_text(HeadText::Envelope).is_some(), is_kept);
            }
        }
    }

    #[test]
    fn attributes_are_written_with_name_and_value() {
        let peek = true;
        let check = |attribute: FetchAttribute, expected: &str| assert_eq!(written(&attribute), expected);
        check(FetchAttribute::InternalDate, "INTERNALDATE \" 1-Jan-1970 00:00:00 +0000\"");
        check(FetchAttribute::SaveDate, "SAVEDATE NIL");
        check(FetchAttribute::Rfc822Size, "RFC822.SIZE 55");
        check(FetchAttribute::EmailId, "EMAILID (M1)");
        check(FetchAttribute::ThreadId, "THREADID NIL");
        check(FetchAttribute::Preview { lazy: false }, "PREVIEW \"hi\"");
        check(FetchAttribute::Rfc822Text, "RFC822.TEXT {6}\r\naGkA\r\n");
        check(
            FetchAttribute::Rfc822Header,
            "RFC822.HEADER {49}\r\nSubject: x\r\nContent-Transfer-Encoding: base64\r\n\r\n",
        );
        check(FetchAttribute::Binary { part: PartPath(vec![1]), partial: None, peek }, "BINARY[1] ~{3}\r\nhi\0");
        let partial = Some(Partial { start: 1, length: 1 });
        check(FetchAttribute::Binary { part: PartPath(vec![1]), partial, peek }, "BINARY[1]<1> {1}\r\ni");
        check(FetchAttribute::BinarySize(PartPath(vec![1])), "BINARY.SIZE[1] 3");
        let section = SectionSpec { part: PartPath(vec![1]), text: SectionText::Whole };
        check(FetchAttribute::BodySection { section, partial, peek }, "BODY[1]<1> {1}\r\nG");
        check(FetchAttribute::Envelope, "ENVELOPE (NIL \"x\" NIL NIL NIL NIL NIL NIL NIL NIL)");
        check(FetchAttribute::Body, "BODY (\"TEXT\" \"PLAIN\" (\"charset\" \"us-ascii\") NIL NIL \"BASE64\" 6 1)");
        assert!(written(&FetchAttribute::BodyStructure).ends_with("6 1 NIL NIL NIL NIL)"));
        check(FetchAttribute::Uid, "");
    }
}
