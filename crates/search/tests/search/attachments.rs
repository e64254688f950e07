//! Tests of the text of attachments: the kinds that are read, character sets, limits, and changes.

use std::io::{Cursor, Write};
use std::sync::Arc;

use base::NoteId;
use notes::{Database, Item, ItemValue, NewNote};
use search::extract::{FileKind, IsolatedReader, text};
use search::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENT_TEXT_BYTES_MAX, ATTACHMENTS_MAX, PDFS_MAX};
use search::{FullTextIndex, FullTextOptions};

use crate::fixture::{Fixture, header};

/// A file: its name, its media type and its content.
type File<'f> = (&'f str, &'f str, &'f [u8]);

fn items(writer: &mut notes::Writer<'_, '_>, files: &[File<'_>]) -> notes::Result<(Vec<Item>, Vec<store::BlobId>)> {
    let mut items = vec![Item::text("Subject", "letter")];
    let mut blobs = Vec::new();
    for (name, media_type, content) in files {
        let blob = writer.blob_put(content)?;
        let value = ItemValue::Object {
            file_name: (*name).to_owned(),
            media_type: (*media_type).to_owned(),
            length: content.len() as u64,
            blob,
        };
        items.push(Item::body("$FILE", value));
        blobs.push(blob);
    }
    Ok((items, blobs))
}

/// Creates a document with attachments.
fn attach(world: &Fixture, database: &Arc<Database>, files: &[File<'_>]) -> NoteId {
    world.write(database, |writer| {
        let (items, blobs) = items(writer, files)?;
        writer.note_create(NewNote { blobs, ..NewNote::document(items) })
    })
}

/// Packs one member into an archive.
fn archive(name: &str, content: &str) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(name, zip::write::SimpleFileOptions::default()).expect("a member begins");
    writer.write_all(content.as_bytes()).expect("it is written");
    writer.finish().expect("it is finished").into_inner()
}

/// A reader for which the text of a PDF is its content without the first four bytes.
struct PlainPdf;

impl IsolatedReader for PlainPdf {
    fn pdf_text(&self, bytes: &[u8]) -> Option<String> {
        bytes.strip_prefix(b"%PDF").map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

/// Creates a server whose index reads PDFs.
fn world_with_pdf() -> (Fixture, tempfile::TempDir) {
    let mut world = Fixture::new();
    let folder = tempfile::tempdir().expect("a folder for the index");
    let options = FullTextOptions {
        isolated_reader: Some(Arc::new(PlainPdf)),
        thread_bytes: 16 << 20,
        ..FullTextOptions::default()
    };
    world.search = FullTextIndex::open(Arc::clone(&world.databases), folder.path(), options).expect("the index opens");
    (world, folder)
}

#[test]
fn attachments_are_found_by_their_text_and_their_name() {
    let (world, _folder) = world_with_pdf();
    let database = world.database("docs.nsf", &[]);
    let word = archive("word/document.xml", "<w:p><w:t>invoice</w:t></w:p>");
    let plain = attach(&world, &database, &[("notes.txt", "text/plain", b"alpha beta")]).0;
    let page = attach(&world, &database, &[("page.html", "text/html", b"<p class=hidden>gam<b>ma</b></p>")]).0;
    let office = attach(&world, &database, &[("bill.docx", "application/octet-stream", &word)]).0;
    let pdf = attach(&world, &database, &[("plan.pdf", "application/pdf", b"%PDFdelta")]).0;
    let image = attach(&world, &database, &[("photo.png", "image/png", b"epsilon")]).0;
    assert_eq!(world.index(&database), 5);
    for (query, expected) in [
        ("beta", vec![plain]),
        ("gamma", vec![page]),
        ("hidden", vec![]),
        ("invoice", vec![office]),
        ("delta", vec![pdf]),
        ("epsilon", vec![]),
        ("attachment:photo", vec![image]),
        ("bill", vec![office]),
        ("letter", vec![plain, page, office, pdf, image]),
        ("\"letter alpha\"", vec![]),
    ] {
        assert_eq!(world.hits(&database, query), expected, "{query}");
    }
}

#[test]
fn pdf_without_a_reader_is_found_by_name_only() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let note = attach(&world, &database, &[("plan.pdf", "application/pdf", b"%PDFdelta")]).0;
    world.index(&database);
    assert_eq!((world.hits(&database, "delta"), world.hits(&database, "plan")), (vec![], vec![note]));
}

#[test]
fn unreadable_file_does_not_hide_others() {
    let (world, _folder) = world_with_pdf();
    let database = world.database("docs.nsf", &[]);
    let files: [File<'_>; 4] = [
        ("broken.docx", "", b"PK\x03\x04 nothing"),
        ("broken.pdf", "application/pdf", b"nothing"),
        ("empty.txt", "text/plain", b""),
        ("last.txt", "text/plain", b"readable"),
    ];
    let note = attach(&world, &database, &files).0;
    world.index(&database);
    assert_eq!(world.hits(&database, "readable"), [note]);
    assert_eq!(world.hits(&database, "nothing"), [0_u32; 0]);
}

#[test]
fn a_removed_attachment_is_no_longer_found() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let note = attach(&world, &database, &[("a.txt", "text/plain", b"alpha"), ("b.txt", "text/plain", b"beta")]);
    world.index(&database);
    assert_eq!(world.hits(&database, "alpha beta"), [note.0]);
    let sequence = header(&database, note).sequence;
    world.write(&database, |writer| {
        let (items, blobs) = items(writer, &[("b.txt", "text/plain", b"gamma")])?;
        writer.note_update(note, sequence, &items, &blobs)
    });
    assert_eq!(world.index(&database), 1);
    assert_eq!(world.hits(&database, "gamma"), [note.0]);
    for query in ["alpha", "beta"] {
        assert_eq!(world.hits(&database, query), [0_u32; 0], "{query}");
    }
}

#[test]
fn only_a_limited_number_of_files_is_read() {
    let (world, _folder) = world_with_pdf();
    let database = world.database("docs.nsf", &[]);
    let contents: Vec<(String, String)> =
        (0..ATTACHMENTS_MAX + 1).map(|number| (format!("f{number}"), format!("%PDFtext{number}"))).collect();
    let files = |media_type: &'static str, count: usize| -> Vec<File<'_>> {
        contents[..count].iter().map(|(name, text)| (name.as_str(), media_type, text.as_bytes())).collect()
    };
    let plain = attach(&world, &database, &files("text/plain", ATTACHMENTS_MAX + 1)).0;
    let pdf = attach(&world, &database, &files("application/pdf", PDFS_MAX + 1)).0;
    world.index(&database);
    let last = |count: usize| format!("*text{}", count - 1);
    assert_eq!(world.hits(&database, &last(ATTACHMENTS_MAX)), [plain]);
    assert_eq!(world.hits(&database, &last(ATTACHMENTS_MAX + 1)), [0_u32; 0]);
    assert_eq!(world.hits(&database, &last(PDFS_MAX)), [plain, pdf]);
    assert_eq!(world.hits(&database, &last(PDFS_MAX + 1)), [plain]);
    assert_eq!(world.hits(&database, &format!("attachment:f{ATTACHMENTS_MAX}")), [plain], "all names are found");
}

#[test]
fn file_kind_follows_the_media_type_or_extension() {
    let check = |media_type: &str, name: &str, expected: Option<FileKind>| {
        assert_eq!(FileKind::from_media_type(media_type, name), expected, "{media_type} {name}");
    };
    check("text/plain; charset=utf-8", "a.pdf", Some(FileKind::Plain));
    check("TEXT/HTML", "", Some(FileKind::Html));
    check("application/vnd.oasis.opendocument.text", "x", Some(FileKind::Office));
    check("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "x", Some(FileKind::Office));
    check("", "report.PDF", Some(FileKind::Pdf));
    check("application/octet-stream", "table.csv", Some(FileKind::Plain));
    check("application/zip", "text.docx", Some(FileKind::Office));
    check("application/zip", "files.zip", None);
    check("image/png", "page.html", None);
    check("application/octet-stream", "no ending", None);
    check("", "archive.txt.gz", None);
}

#[test]
fn plain_text_encodings_are_detected() {
    let wide = |order: fn(u16) -> [u8; 2]| -> Vec<u8> { "\u{FEFF}größer".encode_utf16().flat_map(order).collect() };
    for bytes in [wide(u16::to_le_bytes), wide(u16::to_be_bytes), "größer".into(), b"gr\xf6\xdfer".to_vec()] {
        assert_eq!(text(FileKind::Plain, &bytes, None).as_deref(), Some("größer"), "{bytes:?}");
    }
    assert_eq!(text(FileKind::Plain, b" \r\n\t", None), None, "blanks are no text");
    assert_eq!(text(FileKind::Plain, b"\xff\xfea", None), None, "half a character");
}

#[test]
fn large_files_are_skipped_and_long_texts_are_cut() {
    let largest = vec![b'a'; ATTACHMENT_BYTES_MAX + 1];
    assert_eq!(text(FileKind::Plain, &largest, None), None);
    let cut = text(FileKind::Plain, &largest[1..], None).expect("the largest file that is read");
    assert_eq!(cut.len(), ATTACHMENT_TEXT_BYTES_MAX);
    let odd = format!("a{}", "é".repeat(ATTACHMENT_TEXT_BYTES_MAX));
    let cut = text(FileKind::Plain, odd.as_bytes(), None).expect("it is text");
    assert_eq!(cut.len(), ATTACHMENT_TEXT_BYTES_MAX - 1, "no character is divided");
}
