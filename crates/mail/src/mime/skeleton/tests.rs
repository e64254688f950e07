//! Tests that a message is restored byte for byte.

use std::cell::RefCell;
use std::ops::Range;

use ::base64::Engine;

use super::*;
use crate::mime::{parse, transfer_encoding};

/// Contents by their identifiers, and the ranges of them that were read.
#[derive(Default)]
struct Contents {
    kept: Vec<Vec<u8>>,
    reads: RefCell<Vec<(usize, Range<u64>)>>,
}

impl Contents {
    fn put(&mut self, content: &[u8]) -> ContentId {
        self.kept.push(content.to_vec());
        let mut id = [0; 32];
        id[0] = (self.kept.len() - 1) as u8;
        ContentId(id)
    }

    fn read(&self, id: &ContentId, range: Range<u64>) -> Result<Vec<u8>, DamagedRecord> {
        let index = usize::from(id.0[0]);
        self.reads.borrow_mut().push((index, range.clone()));
        Ok(slice(&self.kept[index], &range).to_vec())
    }
}

fn message(encoding: &str, body: &str) -> String {
    format!(
        "Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nsmall\r\n--b\r\n\
         Content-Type: application/pdf\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n{body}\r\n--b--\r\n"
    )
}

fn base64_body(length: usize) -> String {
    let content: Vec<u8> = (0..length).map(|index| (index * 31 % 253) as u8).collect();
    let text = ::base64::engine::general_purpose::STANDARD.encode(content);
    let lines: Vec<_> = text.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    lines.join("\r\n")
}

/// Splits a message, stores and restores its skeleton, joins it, and returns how its parts are restored. As they were
/// sent, all parts are raw.
fn check(raw: &str, size_bytes_min: usize) -> Vec<ContentEncoding> {
    let as_sent = check_separation(raw, PartSeparation { bytes_min: size_bytes_min, decodes: false });
    assert!(as_sent.iter().all(|rebuild| *rebuild == ContentEncoding::Raw), "{as_sent:?}");
    let found = check_separation(raw, size_bytes_min.into());
    assert_eq!(found.len(), as_sent.len(), "the same parts are stored separately");
    found
}

fn check_separation(raw: &str, separation: PartSeparation) -> Vec<ContentEncoding> {
    let structure = parse(raw.as_bytes());
    let segments = split(raw.as_bytes(), &structure, separation);
    assert_eq!(join(&segments), raw.as_bytes());
    let mut contents = Contents::default();
    let stored = Skeleton::from_segments::<DamagedRecord>(segments, |content| Ok(contents.put(&content)))
        .map(|skeleton| skeleton.encode());
    let stored = stored.expect("keeping in memory never fails");
    let skeleton = Skeleton::decode(&stored).expect("a skeleton that was just encoded reads back");
    assert_eq!(skeleton.length(), raw.len() as u64);
    assert_eq!(skeleton.join(|id, range| contents.read(id, range)).as_deref(), Ok(raw.as_bytes()));
    let bodies = structure.parts().iter().filter(|part| part.kind == PartKind::Leaf);
    for (body, encoding) in bodies.map(|part| (&part.body, &part.content.encoding)) {
        let Some(stored) = skeleton.decoded_body(body) else { continue };
        let decoded = transfer_encoding::decode(encoding, slice(raw.as_bytes(), body), usize::MAX);
        let content = contents.read(&stored.content, 0..stored.content_length);
        assert_eq!(content.as_deref().ok(), decoded.as_deref());
    }
    skeleton.parts().map(|part| part.rebuild.clone()).collect()
}

#[test]
fn decoded_bodies_are_found_by_their_range() {
    let is_found = |encoding: &str, body: &str| {
        let raw = message(encoding, body);
        check(&raw, 4_096);
        let structure = parse(raw.as_bytes());
        let segments = split(raw.as_bytes(), &structure, 4_096);
        let mut contents = Contents::default();
        let skeleton =
            Skeleton::from_segments::<DamagedRecord>(segments, |content| Ok(contents.put(&content))).expect("memory");
        let body = &structure.parts()[2].body;
        assert!(skeleton.decoded_body(&(body.start - 8..body.end)).is_none());
        assert!(skeleton.decoded_body(&(body.start + 4..body.end)).is_none());
        skeleton.decoded_body(body).is_some()
    };
    let base64 = base64_body(10_000);
    assert!(is_found("base64", &base64));
    assert!(is_found("base64", &format!("\r\n{base64}\r\n\r\n")));
    assert!(!is_found("base64", &base64.replacen("\r\n", "\r\n ", 3)));
    assert!(!is_found("base64", &format!("{base64}\r\n\r\nAAAA")));
    assert!(!is_found("base64", &base64_body(1_000)));
    assert!(!is_found("quoted-printable", &"caf=C3=A9\r\n".repeat(1_000)));
    assert!(!is_found("7bit", &"words ".repeat(1_000)));
}

#[test]
fn large_parts_are_stored_decoded() {
    let layout = Base64Layout { line_characters: 76, ending: LineEnding::CrLf, padding: Base64Padding::Present };
    assert_eq!(check(&message("base64", &base64_body(10_000)), 4_096), [ContentEncoding::Base64(layout)]);
    let text = "caf=C3=A9 and some more words to make it long\r\n".repeat(200);
    assert!(matches!(check(&message("quoted-printable", &text), 4_096)[..], [ContentEncoding::QuotedPrintable(_)]));
    assert_eq!(check(&message("7bit", &"words ".repeat(1_000)), 4_096), [ContentEncoding::Raw]);
}

#[test]
fn irreversible_parts_are_stored_raw() {
    assert_eq!(
        check(&message("base64", &base64_body(10_000).replacen("\r\n", "\r\n ", 3)), 4_096),
        [ContentEncoding::Raw]
    );
    assert_eq!(check(&message("quoted-printable", &"=ZZ ".repeat(2_000)), 4_096), [ContentEncoding::Raw]);
    assert_eq!(check(&message("x-unknown", &base64_body(10_000)), 4_096), [ContentEncoding::Raw]);
}

#[test]
fn small_parts_stay_inline() {
    assert_eq!(check(&message("base64", &base64_body(1_000)), 4_096), []);
    assert_eq!(check(&message("7bit", &"x".repeat(4_095)), 4_096), []);
    assert_eq!(check(&message("7bit", &"x".repeat(4_096)), 4_096), [ContentEncoding::Raw]);
    assert_eq!(check(&message("7bit", ""), 0).len(), 1);
    assert_eq!(check("", 0), []);
}

#[test]
fn attachment_content_is_independent_of_line_wrapping() {
    let content_of = |body: &str| {
        let raw = message("base64", body);
        split(raw.as_bytes(), &parse(raw.as_bytes()), 4_096).iter().find_map(|segment| match segment {
            Segment::Part(part) => Some(part.content.to_vec()),
            Segment::Inline(_) => None,
        })
    };
    let wrapped = base64_body(10_000);
    let expected = content_of(&wrapped);
    assert!(expected.is_some());
    for other in [wrapped.replace("\r\n", "\n"), wrapped.replace("\r\n", ""), format!("\r\n{wrapped}\r\n\r\n")] {
        assert_eq!(content_of(&other), expected);
    }
}

#[test]
fn range_reads_only_the_touched_content() {
    let raw = message("base64", &base64_body(100_000));
    let structure = parse(raw.as_bytes());
    let segments = split(raw.as_bytes(), &structure, 4_096);
    let mut contents = Contents::default();
    let skeleton =
        Skeleton::from_segments::<DamagedRecord>(segments, |content| Ok(contents.put(&content))).expect("memory");
    let body = structure.parts()[2].body.clone();
    let check = |range: Range<u64>, bytes_read_max: u64| {
        contents.reads.borrow_mut().clear();
        let found = skeleton.range(range.clone(), |id, range| contents.read(id, range));
        assert_eq!(found.as_deref(), Ok(slice(raw.as_bytes(), &range)), "{range:?}");
        let read: u64 = contents.reads.borrow().iter().map(|(_, range)| range.end - range.start).sum();
        assert!(read <= bytes_read_max, "{range:?} read {read}");
    };
    check(0..body.start, 0);
    check(body.end..raw.len() as u64, 0);
    check(body.start..body.start + 1, 3);
    check(body.start + 50_000..body.start + 51_000, 1_000);
    check(body.end - 1..body.end + 5, 3);
    check(0..u64::MAX, 100_000);
    check(7..7, 0);
    check(u64::MAX..u64::MAX, 0);
}

#[test]
fn content_of_wrong_length_is_damage() {
    for raw in [
        message("base64", &base64_body(5_000)),
        message("7bit", &"x".repeat(5_000)),
        message("quoted-printable", &"a=3Db\r\n".repeat(900)),
    ] {
        let structure = parse(raw.as_bytes());
        let segments = split(raw.as_bytes(), &structure, 4_096);
        let skeleton = Skeleton::from_segments::<DamagedRecord>(segments, |_| Ok(ContentId([0; 32]))).expect("memory");
        let joined = skeleton.join(|_, range| Ok::<_, DamagedRecord>(vec![b'x'; range.end as usize - 1]));
        assert_eq!(joined, Err(DamagedRecord("content of a message part")));
    }
}

#[test]
fn damaged_records_are_refused() {
    let raw = message("base64", &base64_body(5_000));
    let structure = parse(raw.as_bytes());
    let segments = split(raw.as_bytes(), &structure, 4_096);
    let stored = Skeleton::from_segments::<DamagedRecord>(segments, |_| Ok(ContentId([7; 32])))
        .map(|skeleton| skeleton.encode());
    let stored = stored.expect("memory");
    for length in 0..stored.len() {
        assert!(Skeleton::decode(&stored[..length]).is_err(), "{length}");
    }
    for index in 0..stored.len() {
        let mut damaged = stored.clone();
        damaged[index] ^= 0x81;
        if let Ok(skeleton) = Skeleton::decode(&damaged) {
            let _ = skeleton.range(0..1_000_000, |_, range| {
                let length = range.end.saturating_sub(range.start);
                if length > 1_000_000 { Err(DamagedRecord("content")) } else { Ok(vec![0; length as usize]) }
            });
        }
    }
}
