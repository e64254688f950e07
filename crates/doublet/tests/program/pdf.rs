//! Tests of PDF reading in a child process, with valid and with malicious files.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use instance::pdf::{PdfReader, READ_PDF_COMMAND};
use search::extract::IsolatedReader;

use crate::TestFolder;

/// Builds a PDF file from numbered objects; the first is the catalog.
fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut out = b"%PDF-1.5\n".to_vec();
    let mut offsets = String::new();
    for (number, object) in (1..).zip(objects) {
        let _ = writeln!(offsets, "{:010} 00000 n ", out.len());
        out.extend(format!("{number} 0 obj\n").into_bytes());
        out.extend(object);
        out.extend(b"\nendobj\n");
    }
    let start = out.len();
    let count = objects.len() + 1;
    out.extend(format!("xref\n0 {count}\n0000000000 65535 f \n{offsets}").into_bytes());
    out.extend(format!("trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n").into_bytes());
    out
}

fn stream(entries: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!("<< {entries} /Length {} >>\nstream\n", bytes.len());
    [head.as_bytes(), bytes, b"\nendstream"].concat()
}

/// Builds a PDF file with one page that has the given contents. `other` becomes object 6, which the page may use.
fn page(contents: Vec<u8>, other: Vec<u8>) -> Vec<u8> {
    let resources = "<< /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >>";
    file(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        format!("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {resources} /Contents 4 0 R >>")
            .into(),
        contents,
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec(),
        other,
    ])
}

fn pdf_with_text(text: &str) -> Vec<u8> {
    let operators = format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET");
    page(stream("", operators.as_bytes()), b"null".to_vec())
}

/// Compresses zero bytes with the fixed Huffman codes of deflate, so that each compressed byte stands for 158. Deflate
/// can reach a factor of about a thousand at best.
fn packed_zeros(bytes: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0b1, 1);
    bits.put(0b01, 2);
    // A literal zero, followed by repeated matches of length 258 at distance 1.
    bits.put_code(0b0011_0000, 8);
    for _ in 0..bytes / 258 {
        bits.put_code(0b1100_0101, 8);
        bits.put_code(0, 5);
    }
    bits.put_code(0, 7);
    [vec![0x78, 0x9c], bits.bytes].concat()
}

/// A bit buffer in the order of deflate: the least significant bit of a byte comes first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn put(&mut self, value: u32, length: usize) {
        for bit in 0..length {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if value >> bit & 1 == 1 {
                *self.bytes.last_mut().expect("there is one") |= 1 << (self.count % 8);
            }
            self.count += 1;
        }
    }

    /// Appends a Huffman code, whose most significant bit comes first.
    fn put_code(&mut self, value: u32, length: usize) {
        self.put(value.reverse_bits() >> (32 - length), length);
    }
}

/// Returns files that crash a PDF parser without resource limits, or exhaust its memory or time.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let deep = |open: &str, close: &str| [open.repeat(500_000), close.repeat(500_000)].concat().into_bytes();
    let drawn = || stream("", b"/X Do");
    let itself =
        stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>", b"/X Do");
    vec![
        ("arrays in arrays", file(&[deep("[", "]")])),
        ("dictionaries in dictionaries", file(&[deep("<</A", ">>")])),
        ("a drawing that draws itself", page(drawn(), itself)),
        ("a page tree that is its own child", {
            let catalog = b"<< /Type /Catalog /Pages 2 0 R >>".to_vec();
            file(&[catalog, b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 /Parent 2 0 R >>".to_vec()])
        }),
        ("a reference to itself", file(&[b"1 0 R".to_vec()])),
        ("two GiB of zeros", page(stream("/Filter /FlateDecode", &packed_zeros(2 << 30)), b"null".to_vec())),
        ("nothing", Vec::new()),
        ("no PDF", b"%PDF-1.7 and then something else".repeat(1_000)),
    ]
}

fn pdf() -> PdfReader {
    PdfReader::new(env!("CARGO_BIN_EXE_doublet").into())
}

fn counts(pdf: &PdfReader) -> (u64, u64, u64) {
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    (count(&pdf.counters.read), count(&pdf.counters.empty), count(&pdf.counters.failed))
}

#[test]
fn the_text_of_a_pdf_is_read() {
    let pdf = pdf();
    let read = |text: &str| pdf.pdf_text(&pdf_with_text(text)).map(|found| found.trim().to_owned());
    assert_eq!(read("Quarterly figures").as_deref(), Some("Quarterly figures"));
    assert_eq!(read("by the same child").as_deref(), Some("by the same child"));
    assert_eq!((read(""), pdf.child_count()), (None, 1));
    assert_eq!(counts(&pdf), (2, 1, 0));
    pdf.end_idle_children();
    assert_eq!(pdf.child_count(), 0);
    let long = pdf.pdf_text(&pdf_with_text(&"word ".repeat(400_000))).expect("the beginning of the text");
    assert!(long.len() <= search::limits::ATTACHMENT_TEXT_BYTES_MAX && long.len() > 1 << 19, "{}", long.len());
}

#[test]
fn hostile_file_loses_only_its_own_text() {
    let pdf = pdf();
    let all = hostile();
    let hostile_count = all.len() as u64;
    for (what, bytes) in all {
        assert_eq!(pdf.pdf_text(&bytes), None, "{what}");
        assert!(
            pdf.pdf_text(&pdf_with_text("still here")).is_some_and(|text| text.contains("still here")),
            "after {what}"
        );
        assert!(pdf.child_count() <= 1, "ended children are removed");
    }
    let (read, empty, lost) = counts(&pdf);
    assert_eq!((read, empty + lost), (hostile_count, hostile_count));
    assert!(lost > 0, "some files end the child");
}

#[test]
fn child_is_in_a_sandbox() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doublet"));
    command.arg(READ_PDF_COMMAND).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let mut requests = child.stdin.take().expect("it is piped");
    let mut replies = child.stdout.take().expect("it is piped");
    // A request is an unused byte, a length and a file. The reply shows that the child has entered its sandbox.
    let pdf = pdf_with_text("Quarterly figures");
    let length = u32::try_from(pdf.len()).expect("a small file").to_be_bytes();
    requests.write_all(&[&[0][..], &length, &pdf].concat()).expect("it reads");
    let mut head = [0; 5];
    replies.read_exact(&mut head).expect("it replies");
    assert_eq!(head[0], 1, "there is text");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("the child waits for a request");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    assert_eq!(field("NoNewPrivs"), Some("1"));
    match field("Seccomp") {
        Some(mode) => assert_eq!(mode, "2", "the mode with a filter"),
        None => println!("skipped: this kernel has no seccomp filters"),
    }
    drop(requests);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn silent_or_malformed_child_is_ended() {
    let folder = TestFolder::new();
    let check = |script: &str, bytes: &[u8], time_max: Duration| {
        let program = folder.path("child");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("the folder is writable");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let pdf = PdfReader::new(program).with_time_max(time_max);
        assert_eq!(pdf.pdf_text(bytes), None, "{script}");
        assert_eq!((counts(&pdf), pdf.child_count()), ((0, 0, 1), 0), "{script}");
    };
    let large = vec![0; 1 << 20];
    // A child from which nothing can come is not waited for; the others end the wait themselves.
    check("exec sleep 600", b"it does not read this", Duration::ZERO);
    check("exec sleep 600", &large, Duration::ZERO);
    check("exec cat", &large, Duration::ZERO);
    check("exit 0", &large, Duration::from_hours(1));
    check("exec yes", b"it says more than it may", Duration::from_hours(1));
    let nowhere = PdfReader::new(folder.path("nowhere"));
    assert_eq!((nowhere.pdf_text(b"x"), counts(&nowhere)), (None, (0, 0, 1)));
}

#[test]
fn text_of_a_mailed_pdf_is_searchable() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let letter = |name: &str, bytes: &[u8]| {
        let lines: Vec<u8> =
            STANDARD.encode(bytes).into_bytes().chunks(76).flat_map(|line| [line, b"\r\n"].concat()).collect();
        let head = format!(
            "From: bob@acme.test\r\nSubject: {name}\r\nMIME-Version: 1.0\r\nContent-Type: application/pdf; name={name}.pdf\r\n\
             Content-Disposition: attachment\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        );
        let path = folder.path(&format!("{name}.eml"));
        fs::write(&path, [head.as_bytes(), &lines].concat()).expect("the folder is writable");
        path.display().to_string()
    };
    let good = letter("good", &pdf_with_text("Zanzibar accounts"));
    let bad = letter("bad", &hostile().remove(2).1);
    folder.check(&["import", "eml", &bad, &good, "--user", "ann"], "");
    folder.check(&["db", "index", "mail/ann.nsf", "--full-text", "immediate"], "2 documents");
    assert_eq!(folder.json(&["db", "search", "mail/ann.nsf", "Zanzibar"])[0]["title"], "good");
    assert_eq!(folder.json(&["db", "search", "mail/ann.nsf", "subject:bad"])[0]["title"], "bad");
    let off = ["db", "index", "mail/ann.nsf", "--rebuild", "--set", "full_text.pdf=false"];
    folder.check(&off, "2 documents");
    folder.check(&["db", "search", "mail/ann.nsf", "Zanzibar"], "0 documents");
}
