//! Properties that hold for arbitrary bytes: generated messages, mutations of them, and real messages.

use std::path::Path;

use base64::Engine;
use proptest::prelude::*;

use super::skeleton::{ContentEncoding, Segment, split};
use super::{check_arbitrary_bytes, parse};

mod differential;
mod headers;

/// Returns a strategy for pieces of mail and of malformed mail.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let fixed = prop::sample::select(vec![
        "\r\n",
        "\n",
        "\r\n\r\n",
        "\n\n",
        "\r",
        "\0",
        "--b",
        "--b\r\n",
        "--b--",
        "--bb\n",
        "\r\n--b\r\n",
        "\r\n--b--\r\n",
        "\n--c\n",
        "\n--c--\n",
        "Content-Type: multipart/mixed; boundary=b\r\n",
        "Content-Type: multipart/digest; boundary=\"c\"\n",
        "Content-Type: multipart/alternative; boundary=bb\r\n\r\n",
        "Content-Type: message/rfc822\r\n\r\n",
        "Content-Type: text/html; charset=iso-8859-1\r\n",
        "Content-Transfer-Encoding: base64\r\n\r\n",
        "Content-Transfer-Encoding: quoted-printable\r\n\r\n",
        "Content-Disposition: attachment; filename*0*=utf-8''a%20; filename*1=b\r\n",
        "Subject: =?utf-8?q?a=20b?= =?utf-8?b?w6k=?=\r\n",
        "From: A <a@b>, g: c@d;\r\n",
        "Date: Fri, 21 Nov 1997 09:55:06 -0600\r\n",
        " folded",
        "=",
        "==",
        "=3D",
        "=\r\n",
        "=20\r\n",
        " \r\n",
        "aGVsbG8gd29ybGQhISE=",
        "aGVsbG8g\r\n",
        "<p>x</p>&amp;",
        "caf\u{e9}",
        "stray line\n",
        "\x0c",
        "\x01",
        "(",
        ")",
        ";",
        "Content-Location: ",
        "Content-Language: ",
        "Content-ID: ",
        ": ",
        "\u{feff}",
    ]);
    prop_oneof![
        6 => fixed.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => "[a-zA-Z0-9+/]{76}\r\n".prop_map(String::into_bytes),
        1 => "[ -~]{0,90}\r\n".prop_map(String::into_bytes),
    ]
}

/// Returns a strategy for encoded bodies as programs write them.
fn encoded_body() -> impl Strategy<Value = Vec<u8>> {
    let content = prop::collection::vec(any::<u8>(), 0..400);
    (content, 1_usize..100, prop::bool::ANY, prop::bool::ANY).prop_map(|(content, line, crlf, padded)| {
        let mut text = base64::engine::general_purpose::STANDARD.encode(content);
        if !padded {
            text = text.trim_end_matches('=').to_string();
        }
        let lines: Vec<&[u8]> = text.as_bytes().chunks(line).collect();
        let body = lines.join(if crlf { &b"\r\n"[..] } else { b"\n" });
        [b"Content-Transfer-Encoding: base64\r\n\r\n", &body[..]].concat()
    })
}

/// Returns a strategy for quoted-printable text as programs write it, with any line length and any choice of escaped
/// bytes.
fn quoted_printable_body() -> impl Strategy<Value = Vec<u8>> {
    (
        prop::collection::vec(any::<char>().prop_filter("escaped line ends", |c| !"\r\n".contains(*c)), 0..200),
        4_usize..90,
        "[ -~]{0,3}",
        prop::bool::ANY,
    )
        .prop_map(|(content, longest, escaped, crlf)| {
            let ending = if crlf { "\r\n" } else { "\n" };
            let mut body = format!("Content-Transfer-Encoding: quoted-printable{ending}{ending}");
            let mut column = 0;
            for byte in content.into_iter().collect::<String>().bytes() {
                let plain = (b' '..=b'~').contains(&byte) && byte != b'=' && !escaped.as_bytes().contains(&byte);
                let code = if plain { char::from(byte).to_string() } else { format!("={byte:02X}") };
                if column + code.len() >= longest {
                    body.push_str(&format!("={ending}"));
                    column = 0;
                }
                column += code.len();
                body.push_str(&code);
            }
            body.into_bytes()
        })
}

proptest! {
    #[test]
    fn generated_messages_keep_the_invariants(pieces in prop::collection::vec(piece(), 0..40)) {
        check_arbitrary_bytes(&pieces.concat());
    }

    #[test]
    fn encoded_bodies_keep_the_invariants(body in encoded_body(), after in piece()) {
        check_arbitrary_bytes(&[body, after].concat());
    }

    #[test]
    fn quoted_printable_bodies_are_stored_decoded(message in quoted_printable_body()) {
        check_arbitrary_bytes(&message);
        let segments = split(&message, &parse(&message), 1);
        let decoded = segments.iter().all(|segment| match segment {
            Segment::Part(part) => matches!(part.rebuild, ContentEncoding::QuotedPrintable(_)),
            Segment::Inline(_) => true,
        });
        prop_assert!(decoded, "{}", String::from_utf8_lossy(&message));
    }

    #[test]
    fn any_bytes_keep_the_invariants(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_arbitrary_bytes(&bytes);
    }
}

/// Reads the messages of the corpus beside the project. Returns none if the corpus does not exist.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/mime");
    let mut folders = vec![folder];
    let mut messages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                messages.push((path.display().to_string(), bytes));
            }
        }
    }
    if messages.is_empty() {
        eprintln!("skipped: there is no corpus of messages beside the project");
    }
    messages
}

#[test]
fn real_messages_keep_the_invariants() {
    for (name, message) in corpus() {
        eprintln!("{name}");
        check_arbitrary_bytes(&message);
    }
}

#[test]
fn mutations_of_real_messages_keep_the_invariants() {
    for (name, message) in corpus().into_iter().filter(|(_, message)| message.len() < 20_000) {
        eprintln!("{name}");
        for step in 1..6 {
            let cut = message.len() * step / 6;
            check_arbitrary_bytes(&message[..cut]);
            check_arbitrary_bytes(&message[cut..]);
            let mut twisted = message.clone();
            let length = twisted.len().max(1);
            for index in (step * 37 % length..twisted.len()).step_by(length / 7 + 1) {
                twisted[index] = b"\n-=\0\r \x80:"[(index + step) % 8];
            }
            check_arbitrary_bytes(&twisted);
        }
    }
}
