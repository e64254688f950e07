//! Text extraction from office documents: OOXML (Word, Excel, PowerPoint) and OpenDocument.
//!
//! Both are ZIP archives of XML. Only the members that hold text are unpacked, one after the other. All together are
//! limited to [`UNPACKED_BYTES_MAX`], regardless of the sizes that the archive states; this bounds time and memory. The
//! XML parser resolves no custom entities, fetches nothing and does not recurse. Of damaged XML, the text before the
//! damage counts.

use std::io::{Cursor, Read};

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};
use zip::ZipArchive;

use crate::limits::{ARCHIVE_MEMBERS_MAX, UNPACKED_BYTES_MAX};

/// Returns the text of an office document. Returns `None` if the bytes are not an archive or have
/// too many members.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    if archive.len() > ARCHIVE_MEMBERS_MAX {
        return None;
    }
    let names = archive.file_names().filter_map(Result::ok);
    let mut members: Vec<String> = names.filter(|name| holds_text(name)).map(Into::into).collect();
    members.sort();
    let mut text = String::new();
    let mut left = UNPACKED_BYTES_MAX;
    for name in members {
        let mut unpacked = Vec::new();
        let Ok(member) = archive.by_name(&name) else { continue };
        // Data unpacked before a damaged part counts as text.
        let _ = member.take(left as u64).read_to_end(&mut unpacked);
        left -= unpacked.len();
        push_text(&String::from_utf8_lossy(&unpacked), &mut text);
        text.push('\n');
        if left == 0 {
            break;
        }
    }
    Some(text)
}

fn holds_text(name: &str) -> bool {
    let parts = |folder: &str, begins: &[&str]| {
        name.strip_prefix(folder)
            .is_some_and(|rest| rest.ends_with(".xml") && begins.iter().any(|begin| rest.starts_with(begin)))
    };
    name == "content.xml"
        || parts("word/", &["document", "header", "footer", "footnotes", "endnotes", "comments"])
        || parts("xl/", &["sharedStrings", "worksheets/sheet", "comments"])
        || parts("ppt/", &["slides/slide", "notesSlides/notesSlide", "comments/"])
}

/// Appends the text of an XML document, up to its first syntax error. Tags within a word, such as formatting, do not
/// split the word.
fn push_text(xml: &str, out: &mut String) {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().allow_dangling_amp = true;
    reader.config_mut().allow_unmatched_ends = true;
    reader.config_mut().check_end_names = false;
    while let Ok(event) = reader.read_event() {
        match event {
            Event::Text(text) => out.push_str(&text),
            Event::CData(text) => out.push_str(&text),
            Event::GeneralRef(reference) => push_reference(&reference, out),
            Event::Start(tag) | Event::Empty(tag) if is_inline(tag.local_name().as_ref()) => {}
            Event::End(tag) if is_inline(tag.local_name().as_ref()) => {}
            Event::Start(_) | Event::Empty(_) | Event::End(_) => out.push(' '),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => return,
        }
    }
}

/// Appends the character of a reference, or the text of an unknown reference.
fn push_reference(reference: &BytesRef<'_>, out: &mut String) {
    match (reference.resolve_char_ref(), resolve_predefined_entity(reference)) {
        (Ok(Some(character)), _) => out.push(character),
        (_, Some(text)) => out.push_str(text),
        _ => out.extend(["&", reference, ";"]),
    }
}

/// Returns `true` if a tag may occur within words.
fn is_inline(name: &str) -> bool {
    matches!(
        name,
        "r" | "t"
            | "rPr"
            | "span"
            | "a"
            | "b"
            | "i"
            | "u"
            | "sz"
            | "szCs"
            | "rFonts"
            | "lang"
            | "proofErr"
            | "color"
            | "bCs"
            | "iCs"
            | "rStyle"
            | "bookmarkStart"
            | "bookmarkEnd"
            | "hyperlink"
            | "solidFill"
            | "srgbClr"
            | "latin"
            | "cs"
            | "soft-page-break"
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::write::SimpleFileOptions;

    use super::*;

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in members {
            let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
            writer.start_file(*name, options).expect("a member begins");
            writer.write_all(content).expect("it is written");
        }
        writer.finish().expect("it is finished").into_inner()
    }

    fn words(members: &[(&str, &[u8])]) -> String {
        text(&archive(members)).expect("an archive").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn text_of_documents_sheets_and_slides_is_extracted() {
        let word = "<w:p><w:r><w:t>Ann</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>ual</w:t></w:r></w:p><w:p><w:t>report &amp; more</w:t></w:p>";
        assert_eq!(
            words(&[("word/document.xml", word.as_bytes()), ("word/styles.xml", b"no")]),
            "Annual report & more"
        );
        let sheet = b"<sst><si><t>one</t></si><si><t>two</t></si></sst>";
        assert_eq!(
            words(&[
                ("xl/sharedStrings.xml", sheet),
                ("xl/worksheets/sheet1.xml", b"<c><v>12</v></c><c><v>34</v></c>")
            ]),
            "one two 12 34"
        );
        let slide = b"<a:p><a:r><a:t>slide</a:t></a:r></a:p>";
        assert_eq!(words(&[("ppt/slides/slide1.xml", slide), ("ppt/slides/_rels/slide1.xml.rels", b"no")]), "slide");
        let open = "<text:p>open<text:span>Document</text:span><text:tab/>x<!-- no --><![CDATA[a<b]]></text:p>";
        assert_eq!(words(&[("content.xml", open.as_bytes()), ("meta.xml", b"no")]), "openDocument xa<b");
    }

    #[test]
    fn damaged_and_oversized_archives_end_early() {
        assert_eq!(text(b"PK\x03\x04"), None);
        let whole = archive(&[("content.xml", "word ".repeat(10_000).as_bytes())]);
        for end in 0..whole.len() {
            let _ = text(&whole[..end]);
        }
        let bomb = archive(&[("content.xml", &vec![b'a'; UNPACKED_BYTES_MAX + 1_000])]);
        assert!(bomb.len() < 100_000);
        assert_eq!(text(&bomb).map(|text| text.len()), Some(UNPACKED_BYTES_MAX + 1));
        assert_eq!(words(&[("content.xml", b"a &lt &; &#x41; &nosuch; <unclosed")]), "a &lt &; A &nosuch;");
    }
}
