//! Text extraction from office documents: OOXML (Word, Excel, PowerPoint) and OpenDocument.
//!
//! Both are ZIP archives of XML. Only the members that hold text are unpacked, one after the other. All together are
//! limited to [`UNPACKED_BYTES_MAX`], regardless of the sizes that the archive states; this bounds time and memory. A
//! scanner reads the XML. It knows only tags and references: it resolves no custom entities, fetches nothing and does
//! not recurse.

use std::io::{Cursor, Read};

use mail_parser::decoders::html::add_html_token;
use zip::ZipArchive;

use crate::limits::{ARCHIVE_MEMBERS_MAX, UNPACKED_BYTES_MAX};

/// Maximum length of a character reference, in bytes.
const REFERENCE_BYTES_MAX: usize = 12;

/// Returns the text of an office document. Returns `None` if the bytes are not an office document or.
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

/// Appends the text of an XML document. Tags within a word, such as formatting, do not split the word.
fn push_text(xml: &str, out: &mut String) {
    let mut rest = xml;
    while let Some(place) = memchr::memchr2(b'<', b'&', rest.as_bytes()) {
        let (before, from) = rest.split_at(place);
        out.push_str(before);
        let length = if from.starts_with('<') { tag(from, out) } else { reference(from, out) };
        rest = &from[length..];
    }
    out.push_str(rest);
}

/// Skips a tag, a comment or a declaration, and appends the text of a CDATA section. Returns the length of the skipped
/// part.
fn tag(xml: &str, out: &mut String) -> usize {
    let until =
        |end: &str| memchr::memmem::find(xml.as_bytes(), end.as_bytes()).map_or(xml.len(), |place| place + end.len());
    if xml.starts_with("<!--") {
        return until("-->");
    }
    if let Some(data) = xml.strip_prefix("<![CDATA[") {
        let length = memchr::memmem::find(data.as_bytes(), b"]]>").unwrap_or(data.len());
        out.push_str(&data[..length]);
        return (xml.len() - data.len() + length + 3).min(xml.len());
    }
    let name = xml[1..].trim_start_matches('/');
    let length = name.find(|end: char| end.is_whitespace() || matches!(end, '>' | '/')).unwrap_or(name.len());
    if !is_inline(&name[..length]) {
        out.push(' ');
    }
    until(">")
}

/// Returns `true` if a tag may occur within words.
fn is_inline(name: &str) -> bool {
    let local = name.rsplit(':').next().unwrap_or(name);
    matches!(
        local,
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

fn reference(xml: &str, out: &mut String) -> usize {
    let window = xml.as_bytes().get(..REFERENCE_BYTES_MAX).unwrap_or(xml.as_bytes());
    match memchr::memchr(b';', window) {
        Some(end) if end > 1 && window[1..end].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#') => {
            add_html_token(out, &window[..=end], false);
            end + 1
        }
        _ => {
            out.push('&');
            1
        }
    }
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
    fn documents_sheets_and_slides() {
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
    fn what_is_broken_or_too_large_ends_early() {
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
