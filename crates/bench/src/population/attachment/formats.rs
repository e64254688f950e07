//! The formats of attachments, written by hand: tables (CSV), PDF, Office documents, PNG and ZIP.
//!
//! The files are valid, and have exactly the size that is asked for. Compressed streams are stored blocks of random
//! bytes, so they are as incompressible as real ones, and the same on every machine: the output of a compressor could
//! change with its version.

use crate::population::language::Language;
use crate::population::text::TextWriter;
use crate::random::SplitMix64;
use crate::workload::profile::Kind;

/// The largest stored block of deflate.
const STORED_BLOCK_BYTES_MAX: usize = 65_535;
/// Of an Office document, one byte of so many is text.
const OFFICE_TEXT_PART: usize = 5;
/// Of a PDF file, one byte of so many is text.
const PDF_TEXT_PART: usize = 8;
/// The width of images, in pixels.
const IMAGE_WIDTH: usize = 64;

/// Generates a file of a kind and size, or returns `None` if it cannot be so small.
pub(super) fn generate(kind: Kind, numbers: &mut SplitMix64, bytes: usize) -> Option<Vec<u8>> {
    match kind {
        Kind::Text => Some(table(numbers, bytes)),
        Kind::Pdf => pdf(numbers, bytes),
        Kind::Office => office(numbers, bytes),
        Kind::Image => png(numbers, bytes),
        Kind::Archive => archive(numbers, bytes),
        Kind::Random => Some(random(numbers, bytes)),
    }
}

/// Generates random bytes.
fn random(numbers: &mut SplitMix64, bytes: usize) -> Vec<u8> {
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        content.extend(numbers.number().to_le_bytes());
    }
    content.truncate(bytes);
    content
}

/// Generates a table: lines of numbers, dates, names and words. The last cell is made as long as necessary.
pub(super) fn table(numbers: &mut SplitMix64, bytes: usize) -> Vec<u8> {
    let language = Language::draw(numbers);
    let mut writer = TextWriter::new(numbers, language);
    let mut text = String::with_capacity(bytes + 100);
    while text.len() < bytes {
        writer.push_table_line(&mut text);
    }
    let mut content = text.into_bytes();
    let end = content[..bytes].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    content.truncate(end);
    content.resize(bytes, b'-');
    content
}

/// Generates paragraphs of at least `bytes` bytes of ASCII without marks of XML and PDF.
fn ascii_text(numbers: &mut SplitMix64, bytes: usize) -> String {
    let mut writer = TextWriter::new(numbers, Language::English);
    let mut text = String::with_capacity(bytes + 100);
    while text.len() < bytes {
        writer.paragraph(&mut text, bytes);
    }
    text.retain(|c| c.is_ascii() && !"()<>&\\".contains(c));
    text
}

/// Generates a PDF file of one page with text, and an embedded stream of random bytes that fills it.
fn pdf(numbers: &mut SplitMix64, bytes: usize) -> Option<Vec<u8>> {
    let mut text = String::from("BT /F1 10 Tf 40 800 Td 12 TL\n");
    for line in ascii_text(numbers, bytes / PDF_TEXT_PART).lines() {
        text.push_str(&format!("({line}) Tj T*\n"));
    }
    text.push_str("ET\n");
    let empty = pdf_file(&text, &[]).len();
    Some(pdf_file(&text, &random(numbers, bytes.checked_sub(empty)?)))
}

fn pdf_file(text: &str, stream: &[u8]) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n%\xE2\xE3\xCF\xD3\n".to_vec();
    let mut offsets = Vec::new();
    let objects: [(String, Option<&[u8]>); 6] = [
        ("<< /Type /Catalog /Pages 2 0 R >>".to_owned(), None),
        ("<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(), None),
        (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> \
             >> >>"
                .to_owned(),
            None,
        ),
        ("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(), None),
        (format!("<< /Length {:010} >>", text.len()), Some(text.as_bytes())),
        (format!("<< /Type /EmbeddedFile /Length {:010} >>", stream.len()), Some(stream)),
    ];
    for (number, (dictionary, content)) in (1..).zip(&objects) {
        offsets.push(file.len());
        file.extend(format!("{number} 0 obj\n{dictionary}\n").into_bytes());
        if let Some(content) = content {
            file.extend(b"stream\n");
            file.extend(*content);
            file.extend(b"\nendstream\n");
        }
        file.extend(b"endobj\n");
    }
    let start = file.len();
    file.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).into_bytes());
    for offset in offsets {
        file.extend(format!("{offset:010} 00000 n \n").into_bytes());
    }
    let trailer = format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start:010}\n%%EOF\n", objects.len() + 1);
    file.extend(trailer.into_bytes());
    file
}

/// Generates a document of Office Open XML with text and a picture that fills it.
fn office(numbers: &mut SplitMix64, bytes: usize) -> Option<Vec<u8>> {
    const TYPES: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Types xmlns=\"http://schemas.openxmlformats.org/\
        package/2006/content-types\"><Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.\
        relationships+xml\"/><Default Extension=\"bin\" ContentType=\"application/octet-stream\"/><Override PartName=\"\
        /word/document.xml\" ContentType=\"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main\
        +xml\"/></Types>";
    const RELATIONSHIPS: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Relationships xmlns=\"http://schemas.\
        openxmlformats.org/package/2006/relationships\"><Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.\
        org/officeDocument/2006/relationships/officeDocument\" Target=\"word/document.xml\"/></Relationships>";
    let mut document = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<w:document xmlns:w=\"http://schemas.openxmlformats.org/\
         wordprocessingml/2006/main\"><w:body>",
    );
    for line in ascii_text(numbers, bytes / OFFICE_TEXT_PART).lines() {
        document.push_str(&format!("<w:p><w:r><w:t>{line}</w:t></w:r></w:p>"));
    }
    document.push_str("</w:body></w:document>");
    let file = |media: &[u8]| {
        zip(&[
            ("[Content_Types].xml", TYPES.as_bytes()),
            ("_rels/.rels", RELATIONSHIPS.as_bytes()),
            ("word/document.xml", document.as_bytes()),
            ("word/media/image1.bin", media),
        ])
    };
    let rest = bytes.checked_sub(file(&[]).len())?;
    Some(file(&random(numbers, rest)))
}

/// Generates an archive of two incompressible files.
fn archive(numbers: &mut SplitMix64, bytes: usize) -> Option<Vec<u8>> {
    let file = |first: &[u8], second: &[u8]| zip(&[("scan-1.jpg", first), ("scan-2.jpg", second)]);
    let rest = bytes.checked_sub(file(&[], &[]).len())?;
    let first = random(numbers, rest / 2);
    let second = random(numbers, rest - first.len());
    Some(file(&first, &second))
}

/// Returns a ZIP file whose entries are stored.
fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    /// 2026-01-05, 08:00 in the form of MS-DOS.
    const TIME: [u8; 4] = [0x00, 0x40, 0x25, 0x5C];
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in entries {
        let offset = file.len() as u32;
        let length = (content.len() as u32).to_le_bytes();
        let mut header = vec![20, 0, 0, 0, 0, 0];
        header.extend(TIME);
        header.extend(crc32(&[content]).to_le_bytes());
        header.extend([length, length].concat());
        header.extend((name.len() as u16).to_le_bytes());
        header.extend([0, 0]);
        file.extend([b"PK\x03\x04", header.as_slice(), name.as_bytes(), content].concat());
        directory.extend([b"PK\x01\x02\x14\x00", header.as_slice(), &[0; 10]].concat());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let start = file.len() as u32;
    let count = (entries.len() as u16).to_le_bytes();
    file.extend(&directory);
    file.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count[..]].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0, 0]);
    file
}

/// Generates an image (PNG) of random pixels. A comment takes the bytes that do not fill a line.
fn png(numbers: &mut SplitMix64, bytes: usize) -> Option<Vec<u8>> {
    const LINE_BYTES: usize = 1 + 3 * IMAGE_WIDTH;
    let fixed = png_file(0, &[], &[]).len();
    let room = bytes.checked_sub(fixed)?;
    // Each block of the stream has a head of 5 bytes.
    let lines = (room / LINE_BYTES).checked_sub(1 + room * 5 / STORED_BLOCK_BYTES_MAX / LINE_BYTES)?;
    if lines == 0 {
        return None;
    }
    let mut pixels = random(numbers, lines * LINE_BYTES);
    // Lines are not filtered.
    pixels.iter_mut().step_by(LINE_BYTES).for_each(|filter| *filter = 0);
    let image = png_file(lines as u32, &pixels, &[]);
    let comment = vec![b' '; bytes - image.len()];
    Some(png_file(lines as u32, &pixels, &comment))
}

fn png_file(lines: u32, pixels: &[u8], comment: &[u8]) -> Vec<u8> {
    let mut header = (IMAGE_WIDTH as u32).to_be_bytes().to_vec();
    header.extend(lines.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1A\n".to_vec();
    for (name, content) in [
        (b"IHDR", &*header),
        (b"tEXt", &[b"Comment\0", comment].concat()),
        (b"IDAT", &zlib_stored(pixels)),
        (b"IEND", &[]),
    ] {
        file.extend((content.len() as u32).to_be_bytes());
        file.extend([name, content].concat());
        file.extend(crc32(&[name, content]).to_be_bytes());
    }
    file
}

/// Returns a stream of zlib whose blocks are stored.
fn zlib_stored(content: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let blocks = content.chunks(STORED_BLOCK_BYTES_MAX);
    let last = blocks.len().saturating_sub(1);
    for (index, block) in blocks.enumerate() {
        let length = block.len() as u16;
        stream.push(u8::from(index == last));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler32(content).to_be_bytes());
    stream
}

fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = flate2::Crc::new();
    parts.iter().for_each(|part| crc.update(part));
    crc.sum()
}

fn adler32(content: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    /// So many sums of bytes stay below 2³².
    const PIECE: usize = 5_552;
    let mut a = 1_u32;
    let mut b = 0_u32;
    for piece in content.chunks(PIECE) {
        for byte in piece {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    (b << 16) | a
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn file(kind: Kind, bytes: usize) -> Vec<u8> {
        generate(kind, &mut SplitMix64::new(7), bytes).expect("the size is large enough")
    }

    #[test]
    fn small_files_are_refused() {
        for kind in [Kind::Pdf, Kind::Office, Kind::Image, Kind::Archive] {
            assert_eq!(generate(kind, &mut SplitMix64::new(7), 100), None, "{kind:?}");
        }
    }

    #[test]
    fn images_have_their_pixels() {
        for bytes in [1_000, 70_000, 200_007] {
            let file = file(Kind::Image, bytes);
            assert_eq!(file.len(), bytes);
            let at = file.windows(4).position(|name| name == b"IDAT").expect("the pixels");
            let length = u32::from_be_bytes(file[at - 4..at].try_into().expect("four bytes")) as usize;
            let mut pixels = Vec::new();
            let mut decoder = flate2::read::ZlibDecoder::new(&file[at + 4..at + 4 + length]);
            decoder.read_to_end(&mut pixels).expect("a valid stream with its sum");
            let lines = u32::from_be_bytes(file[20..24].try_into().expect("four bytes")) as usize;
            assert_eq!(pixels.len(), lines * (1 + 3 * IMAGE_WIDTH));
        }
    }

    #[test]
    fn archives_have_a_directory_at_their_end() {
        for kind in [Kind::Office, Kind::Archive] {
            let file = file(kind, 20_000);
            let end = &file[file.len() - 22..];
            assert!(end.starts_with(b"PK\x05\x06"));
            let number = |at: usize| u32::from_le_bytes(end[at..at + 4].try_into().expect("four bytes")) as usize;
            let length = number(12);
            let start = number(16);
            assert_eq!(start + length + 22, file.len());
            assert!(file[start..].starts_with(b"PK\x01\x02"));
        }
    }

    #[test]
    fn references_of_pdf_files_lead_to_objects() {
        let file = file(Kind::Pdf, 30_000);
        let text = String::from_utf8_lossy(&file[file.len() - 400..]).into_owned();
        let (_, table) = text.split_once("xref\n0 7\n").expect("the table");
        for (number, line) in (1..=6).zip(table.lines().skip(1)) {
            let offset: usize = line[..10].parse().expect("a number");
            assert!(file[offset..].starts_with(format!("{number} 0 obj\n").as_bytes()), "{number}");
        }
    }
}
