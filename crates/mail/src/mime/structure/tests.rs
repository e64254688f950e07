//! Tests of the structures of valid and malformed messages.

use base::limits::{MIME_DEPTH_MAX, MIME_PARTS_MAX};

use super::*;
use crate::limits::COMPARED_LINES_MAX;

/// Returns a line for each part: its depth as dots, its media type, and for a leaf its body in quotes.
fn outline(raw: &str) -> Vec<String> {
    let structure = parse(raw.as_bytes());
    assert_eq!(Structure::decode(&structure.encode()).as_ref(), Ok(&structure));
    let describe = |part: &Part| {
        let (media_type, subtype) = part.media();
        let media = format!("{}/{}", String::from_utf8_lossy(media_type), String::from_utf8_lossy(subtype));
        let body = &raw.as_bytes()[part.body.start as usize..part.body.end as usize];
        let body = match part.kind {
            PartKind::Leaf => format!(" {:?}", String::from_utf8_lossy(body)),
            _ => String::new(),
        };
        format!("{}{media}{body}", ".".repeat(part.depth))
    };
    structure.parts().iter().map(describe).collect()
}

fn check(raw: &str, expected: &[&str]) {
    assert_eq!(outline(raw), expected, "{raw:?}");
    // The message is checked again with CRLF, unless it is about line ends.
    if !raw.contains('\r') && raw.is_ascii() {
        let crlf = raw.replace('\n', "\r\n");
        let expected: Vec<_> = expected.iter().map(|line| line.replace("\\n", "\\r\\n")).collect();
        assert_eq!(outline(&crlf), expected, "{crlf:?}");
    }
}

const MIXED: &str = "Content-Type: multipart/mixed; boundary=b\n";

#[test]
fn valid_messages_are_parsed_into_parts() {
    check("Subject: x\n\nHello\n", &["text/plain \"Hello\\n\""]);
    check(
        &format!("{MIXED}\npre\n--b\n\none\n--b\nContent-Type: text/html\n\ntwo\n\n--b--\nepi"),
        &["multipart/mixed", ".text/plain \"one\"", ".text/html \"two\\n\""],
    );
    check(
        &format!(
            "{MIXED}\n--b\nContent-Type: multipart/alternative; boundary=\"c d\"\n\n--c d\n\n1\n--c d\n\n2\n--c d--\n--b\n\n3\n--b--\n"
        ),
        &["multipart/mixed", ".multipart/alternative", "..text/plain \"1\"", "..text/plain \"2\"", ".text/plain \"3\""],
    );
    check(
        &format!("{MIXED}\n--b\nContent-Type: message/rfc822\n\nSubject: in\n{MIXED2}\n--c\n\nx\n--c--\n--b--"),
        &["multipart/mixed", ".message/rfc822", "..multipart/mixed", "...text/plain \"x\""],
    );
    check("Content-Type: message/rfc822\n\nSubject: in\n\nbody", &["message/rfc822", ".text/plain \"body\""]);
    check(
        "Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: in\n\nbody\n--b--",
        &["multipart/digest", ".message/rfc822", "..text/plain \"body\""],
    );
}

const MIXED2: &str = "Content-Type: multipart/mixed; boundary=c\n";

#[test]
fn missing_boundaries_affect_only_their_multipart() {
    check(
        &format!("{MIXED}\n--b\n\none\n--b\n\ntwo"),
        &["multipart/mixed", ".text/plain \"one\"", ".text/plain \"two\""],
    );
    check(
        &format!("{MIXED}\n--b\n{MIXED2}\n--c\n\none\n--b\n\ntwo\n--b--"),
        &["multipart/mixed", ".multipart/mixed", "..text/plain \"one\"", ".text/plain \"two\""],
    );
    check(&format!("{MIXED}\nno part\n"), &["text/plain \"no part\\n\""]);
    check("Content-Type: multipart/mixed\n\n--b\n\nx\n--b--", &["text/plain \"--b\\n\\nx\\n--b--\""]);
    check("Content-Type: multipart/mixed; boundary=\"\"\n\n--\n\nx\n----", &["text/plain \"--\\n\\nx\\n----\""]);
    check(&format!("{MIXED}\n--b--\n\nx"), &["text/plain \"--b--\\n\\nx\""]);
    check(&format!("{MIXED}\n--b"), &["multipart/mixed", ".text/plain \"\""]);
    check(&format!("{MIXED}\n--b\n\none\n--b--\n--b\n\nafter the end\n"), &["multipart/mixed", ".text/plain \"one\""]);
}

#[test]
fn boundary_may_be_a_prefix_of_another() {
    let outer = "Content-Type: multipart/mixed; boundary=x\n";
    let inner = "Content-Type: multipart/mixed; boundary=xy\n";
    let expected = ["multipart/mixed", ".multipart/mixed", "..text/plain \"1\"", ".text/plain \"2\""];
    check(&format!("{outer}\n--x\n{inner}\n--xy\n\n1\n--xy--\n--x\n\n2\n--x--"), &expected);
    check(&format!("{inner}\n--xy\n{outer}\n--x\n\n1\n--x--\n--xy\n\n2\n--xy--"), &expected);
    check(
        &format!("{MIXED}\n--b\n\n--bc\n--b-\n---b\n --b\n--b--"),
        &["multipart/mixed", ".text/plain \"--bc\\n--b-\\n---b\\n --b\""],
    );
    // An outer and an inner multipart have the same boundary: the inner one takes the line.
    check(
        &format!("{MIXED}\n--b\n{MIXED}\n--b\n\n1\n--b--\n--b\n\n2\n--b--"),
        &["multipart/mixed", ".multipart/mixed", "..text/plain \"1\"", ".text/plain \"2\""],
    );
}

#[test]
fn text_after_a_boundary_is_tolerated() {
    check(&format!("{MIXED}\n--b \t\n\n1\n--b-- \n"), &["multipart/mixed", ".text/plain \"1\""]);
    check(&format!("{MIXED}\n--b junk\n\n1\n--b--junk\n\n--b\n"), &["multipart/mixed", ".text/plain \"1\""]);
    check(&format!("{MIXED}\r\n--b\r\r\n\r\n1\r\r\n--b--"), &["multipart/mixed", ".text/plain \"1\\r\""]);
}

#[test]
fn headers_without_a_blank_line_are_parsed() {
    check("Subject: x\nHello there\nhow are you", &["text/plain \"Hello there\\nhow are you\""]);
    check("Subject: x", &["text/plain \"\""]);
    check("just text", &["text/plain \"just text\""]);
    check("", &["text/plain \"\""]);
    check("\n\nx", &["text/plain \"\\nx\""]);
    check("From a Mon\nSubject: x\nstray\n\nbody", &["text/plain \"body\""]);
    check("From a Mon\nstray\nSubject: x\n\nbody", &["text/plain \"From a Mon\\nstray\\nSubject: x\\n\\nbody\""]);
    check("X: 1\nstray\nContent-Type: text/html\n\nbody", &["text/html \"body\""]);
    check(&format!("{MIXED}--b\nContent-Type: text/html\n\n1\n--b--"), &["multipart/mixed", ".text/html \"1\""]);
    check(
        &format!("{MIXED}\n--b\nContent-Type: text/html\n--b\n\n2\n--b--"),
        &["multipart/mixed", ".text/html \"\"", ".text/plain \"2\""],
    );
    check("A: 1\r\r\nContent-Type: text/html\r\r\n\r\r\nx", &["text/html \"x\""]);
}

const COLON: &str = "Content-Type: multipart/mixed; boundary=\"a:b\"\n";

#[test]
fn boundary_with_a_colon_is_not_a_field() {
    check(&format!("{COLON}--a:b\nContent-Type: text/html\n\n1\n--a:b--"), &["multipart/mixed", ".text/html \"1\""]);
    check(
        &format!("{COLON}\n--a:b\nContent-Type: text/html\n--a:b\n\n2\n--a:b--"),
        &["multipart/mixed", ".text/html \"\"", ".text/plain \"2\""],
    );
    // The line before the boundary is text, although the line after it has the form of a field.
    check(&format!("{COLON}\n--a:b\none\n--a:b--"), &["multipart/mixed", ".text/plain \"one\""]);
    check("--a: b\nContent-Type: text/html\n\nbody", &["text/html \"body\""]);
}

#[test]
fn structure_with_empty_parts_round_trips() {
    // The line end before the boundary is the blank line of the header.
    for raw in [format!("{MIXED}\n--b\n{MIXED2}\n--c\nX: 1\n\n--b--"), format!("{MIXED}\n--b\n\n--b--\n")] {
        for raw in [raw.clone(), raw.replace('\n', "\r\n")] {
            let structure = parse(raw.as_bytes());
            assert_eq!(Structure::decode(&structure.encode()), Ok(structure), "{raw:?}");
        }
    }
}

#[test]
fn encoded_message_part_is_a_leaf() {
    let raw = |encoding: &str| {
        format!("Content-Type: message/rfc822\nContent-Transfer-Encoding: {encoding}\n\nU3ViamVjdDogeAo=")
    };
    check(&raw("base64"), &["application/octet-stream \"U3ViamVjdDogeAo=\""]);
    check(&raw("x-uuencode"), &["application/octet-stream \"U3ViamVjdDogeAo=\""]);
    check(&raw("8bit"), &["message/rfc822", ".text/plain \"U3ViamVjdDogeAo=\""]);
}

#[test]
fn lines_and_ranges_are_exact() {
    let raw = format!("{MIXED}\npre\n--b\nX: 1\n\none\ntwo\n--b\n\nthree\n\n--b--\nepi\n");
    let structure = parse(raw.as_bytes());
    let found: Vec<_> = structure
        .parts()
        .iter()
        .map(|part| (&raw[part.header.start as usize..part.header.end as usize], part.lines, part.size()))
        .collect();
    let header = format!("{MIXED}\n");
    assert_eq!(found, [(&header[..], 12, raw.len() as u64 - header.len() as u64), ("X: 1\n\n", 1, 7), ("\n", 1, 6)]);
    assert_eq!(structure.length(), raw.len() as u64);
}

fn content_of(header: &str) -> Content {
    parse(format!("{header}\n\n").as_bytes()).root().content.clone()
}

#[test]
fn media_types_are_parsed_leniently() {
    let check = |value: &str, expected: &str| {
        let content = content_of(&format!("Content-Type: {value}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut formatted = format!("{}/{}", text(&content.media_type), text(&content.subtype));
        for parameter in &content.parameters {
            formatted.push_str(&format!(" {}={:?}", text(&parameter.name), text(&parameter.value)));
        }
        assert_eq!(formatted, expected, "{value}");
    };
    check("text/plain; charset=us-ascii (Plain text)", "text/plain charset=\"us-ascii\"");
    check("Text/HTML;\n charset=\"utf-8\" ;; format = flowed", "Text/HTML charset=\"utf-8\" format=\"flowed\"");
    check("(c) image / (c) png; name=two words.png; x=1", "image/png name=\"two words.png\" x=\"1\"");
    check("text/plain; charset=utf-8 format=flowed", "text/plain charset=\"utf-8\" format=\"flowed\"");
    check("text/plain; name=\"a\\\"b\\\\c\n d\"", "text/plain name=\"a\\\"b\\\\c d\"");
    check("text/plain; name=\"open", "text/plain name=\"open\"");
    check("multipart/mixed; boundary==_a:b?c", "multipart/mixed boundary=\"=_a:b?c\"");
    check("text", "text/plain");
    check("text/", "text/plain");
    check("/plain; x=y", "text/plain");
    check("", "text/plain");
    check("text/plain; ; = ; x; y=; z=1", "text/plain y=\"\" z=\"1\"");
    check("a/b; x*1=c; x*0=\"a b\"; y=1; X*3=no", "a/b y=\"1\" x=\"a bc\"");
    check("a/b; x*0*=utf-8''%41; x*1=\" /b\"; x*2*=%43", "a/b x*=\"utf-8''%41%20%2Fb%43\"");
    check("a/b; x*0=1; x*0=2; x*1=3; z*=utf-8''%20", "a/b z*=\"utf-8''%20\" x=\"13\"");
    check("a/b; \u{1}=2; \u{0}", "a/b \u{1}=\"2\"");
}

#[test]
fn content_fields_are_parsed() {
    let content = content_of(
        "Content-ID: <1@x>\nContent-Description: two\n words\nContent-MD5: abc=\nContent-Location: (c) http://a/(1)\n b (d)\n\
         Content-Language: de, en-US (c) ,\nContent-Transfer-Encoding: Quoted-Printable\n\
         Content-Disposition: attachment; filename=\"x.txt\"\nContent-ID: <2@x>",
    );
    let text = |text: &Option<InternedText>| text.as_ref().map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(text(&content.id).as_deref(), Some("<1@x>"));
    assert_eq!(text(&content.description).as_deref(), Some("two words"));
    assert_eq!(text(&content.md5).as_deref(), Some("abc="));
    assert_eq!(text(&content.location).as_deref(), Some("http://a/(1)b"));
    assert_eq!(content.languages, [InternedText::new(b"de"), InternedText::new(b"en-US")]);
    assert_eq!(content.encoding, TransferEncoding::QuotedPrintable);
    assert_eq!(content.file_name().as_deref(), Some("x.txt"));
    assert!(!content.typed);
}

#[test]
fn file_names_are_decoded() {
    let check = |header: &str, expected: Option<&str>| {
        assert_eq!(content_of(header).file_name().as_deref(), expected, "{header}");
    };
    check("Content-Disposition: attachment; filename*=iso-8859-1'de'%E4%20b.txt; filename=no", Some("\u{e4} b.txt"));
    check("Content-Disposition: attachment; filename*0*=utf-8''%C3; filename*1*=%A9.txt", Some("\u{e9}.txt"));
    check("Content-Disposition: attachment; filename=\"=?utf-8?q?=C3=A9?=.txt\"", Some("\u{e9}.txt"));
    check("Content-Type: image/png; name=x.png\nContent-Disposition: inline", Some("x.png"));
    check("Content-Disposition: attachment; filename=\"\"", None);
    check("Content-Type: image/png", None);
}

#[test]
fn parts_are_found_by_their_numbers() {
    let raw = format!(
        "{MIXED}\n--b\n\n1\n--b\nContent-Type: message/rfc822\n\nSubject: in\n{MIXED2}\n--c\n\n2.1\n--c\n\n2.2\n--c--\n\
         --b\nContent-Type: message/rfc822\n\nSubject: flat\n\n3.1\n--b--"
    );
    let structure = parse(raw.as_bytes());
    let check = |numbers: &[u32], expected: Option<usize>| assert_eq!(structure.find(numbers), expected, "{numbers:?}");
    check(&[], Some(0));
    check(&[1], Some(1));
    check(&[2], Some(2));
    check(&[2, 1], Some(4));
    check(&[2, 2], Some(5));
    check(&[3], Some(6));
    check(&[3, 1], Some(7));
    for missing in [&[0][..], &[4], &[1, 1], &[2, 3], &[3, 2], &[3, 1, 1], &[u32::MAX]] {
        check(missing, None);
    }
    let flat = parse(b"Subject: x\n\nbody");
    assert_eq!((flat.find(&[1]), flat.find(&[2]), flat.find(&[1, 1])), (Some(0), None, None));
    let forwarded = parse(b"Content-Type: message/rfc822\n\nSubject: x\n\nbody");
    assert_eq!((forwarded.find(&[1]), forwarded.find(&[1, 1])), (Some(0), Some(1)));
}

#[test]
fn nesting_beyond_the_limit_is_not_parsed() {
    let levels = 1_000;
    let nested: String =
        (0..levels).map(|level| format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n")).collect();
    let structure = parse(nested.as_bytes());
    assert_eq!(structure.parts().len(), MIME_DEPTH_MAX);
    assert_eq!(
        structure.parts().last().map(|part| (part.depth, part.kind)),
        Some((MIME_DEPTH_MAX - 1, PartKind::Leaf))
    );
    let messages = "Content-Type: message/rfc822\n\n".repeat(levels);
    let structure = parse(messages.as_bytes());
    assert_eq!(structure.parts().len(), MIME_DEPTH_MAX);
    assert_eq!(Structure::decode(&structure.encode()), Ok(structure));
}

#[test]
fn parts_beyond_the_limit_stay_in_the_last_part() {
    let raw = format!("{MIXED}{}", "\n--b\n\nx".repeat(MIME_PARTS_MAX + 500));
    let structure = parse(raw.as_bytes());
    assert_eq!(structure.parts().len(), MIME_PARTS_MAX);
    assert_eq!(structure.parts().last().map(|part| part.body.end), Some(raw.len() as u64));
    assert_eq!(structure.children(0).count(), MIME_PARTS_MAX - 1);
    assert_eq!(Structure::decode(&structure.encode()), Ok(structure));
}

/// Checks that a message of `count` repetitions takes no more than a fixed number of steps per byte.
fn check_effort(name: &str, begin: &str, repeated: &str, count: usize) {
    let raw = format!("{begin}{}", repeated.repeat(count));
    let (structure, effort) = parse_counting(raw.as_bytes());
    let lines = raw.matches("--").count() as u64;
    let parts = structure.parts().len() as u64;
    let bound = 2 * lines + (parts + 1) * u64::from(COMPARED_LINES_MAX + 1) * MIME_DEPTH_MAX as u64;
    assert!(effort.comparisons <= bound, "{name}: {effort:?} for {} bytes", raw.len());
    assert!(effort.header_lines <= raw.len() as u64, "{name}: {effort:?} for {} bytes", raw.len());
    assert_eq!(Structure::decode(&structure.encode()), Ok(structure), "{name}");
}

#[test]
fn hostile_messages_take_proportional_time() {
    let nested: String =
        (0..200).map(|level| format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n")).collect();
    check_effort("lines that may be boundaries", &nested, "\n--b", 200_000);
    check_effort("boundaries without end", &nested, "\n--b1", 100_000);
    check_effort("the outermost boundary", &nested, "\n--b0\n", 100_000);
    check_effort("parts", MIXED, "\n--b\n\n", 100_000);
    check_effort("parts without headers", MIXED, "\n--b", 100_000);
    check_effort(
        "parts that are multiparts without a boundary line",
        MIXED,
        "\n--b\nContent-Type: multipart/mixed; boundary=z\n\n",
        20_000,
    );
    check_effort("stray lines", MIXED, "x\nA: 1\n", 200_000);
    check_effort("own boundaries that are none", MIXED, "--bb\nA: 1\n", 200_000);
    check_effort("own boundaries with a colon that are none", COLON, "--a:bb\n", 200_000);
    check_effort("parts of one line", COLON, "\nx\n--a:b", 100_000);
    let header = nested.split_inclusive('\n').take(3 * (MIME_DEPTH_MAX - 2)).collect::<String>();
    check_effort("header lines that may be boundaries", &header, "--b:\n", 100_000);
    check_effort("fields in a row", "", "Content-Type: a/b;", 100_000);
    check_effort("header lines", "", "Content-Type: a/b\n", 100_000);
    check_effort("comments", "Content-Type: a/b; ", "(", 1_000_000);
    check_effort("parameters", "Content-Type: a/b; ", "a*0=;", 200_000);
    check_effort("one long line", "\n", "x", 20_000_000);
    check_effort("one long header line", "", "x", 20_000_000);
    check_effort("NULs", "", "\0", 1_000_000);
    check_effort("carriage returns", "", "\r", 1_000_000);
    check_effort("hyphens", MIXED, "\n-", 1_000_000);
    check_effort("blanks after a boundary", MIXED, "\n--b          ", 100_000);
}

#[test]
fn damaged_records_are_refused() {
    let raw =
        format!("{MIXED}\n--b\nContent-Type: message/rfc822\n\nSubject: in\n\nx\n--b\nContent-ID: <1>\n\ny\n--b--");
    let stored = parse(raw.as_bytes()).encode();
    for length in 0..stored.len() {
        assert!(Structure::decode(&stored[..length]).is_err(), "{length} bytes of {}", stored.len());
    }
    for index in 0..stored.len() {
        for flip in [1, 0x80, 0xFF] {
            let mut damaged = stored.clone();
            damaged[index] ^= flip;
            // The bytes are either rejected or are another valid structure.
            if let Ok(structure) = Structure::decode(&damaged) {
                assert_eq!(Structure::decode(&structure.encode()), Ok(structure), "{index}");
            }
        }
    }
}

#[test]
fn a_plain_message_has_a_small_record() {
    let raw = "From: a@b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 7bit\n\nHello\n";
    assert!(parse(raw.as_bytes()).encode().len() <= 20);
}
