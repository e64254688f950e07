//! Measures the cost of parsing messages and of reassembling them, in microseconds per message.
//!
//! Usage: `cargo run --release -p mail --example mime_cost [FILE...]`. The program generates messages of about 10 KB of
//! the kinds that matter. Files given as arguments are measured in addition.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use base64::Engine;
use mail::mime::skeleton::{ContentId, Skeleton, join, split};
use mail::mime::{InMemoryMessage, Structure, parse, text};

fn main() {
    let mut messages = vec![
        ("plain", plain()),
        ("html, quoted-printable", quoted_printable()),
        ("base64 attachment", attachment()),
        ("alternative and related", nested()),
    ];
    let files: Vec<String> = std::env::args().skip(1).collect();
    for file in &files {
        match std::fs::read(file) {
            Ok(bytes) => messages.push((file, bytes)),
            Err(error) => eprintln!("{file}: {error}"),
        }
    }
    println!(
        "{:<26} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}",
        "microseconds", "bytes", "parse", "split", "join", "encode", "decode", "preview", "struct", "skel"
    );
    for (name, message) in &messages {
        measure(name, message);
    }
}

fn measure(name: &str, message: &[u8]) {
    let structure = parse(message);
    let segments = split(message, &structure, 4_096);
    let Ok(skeleton) = Skeleton::from_segments::<Infallible>(segments.clone(), |_| Ok(ContentId([1; 32])));
    let stored = structure.encode();
    let times = [
        cost(|| drop(black_box(parse(black_box(message))))),
        cost(|| drop(black_box(split(black_box(message), &structure, 4_096)))),
        cost(|| drop(black_box(join(black_box(&segments))))),
        cost(|| drop(black_box((structure.encode(), skeleton.encode())))),
        cost(|| drop(black_box(Structure::decode(black_box(&stored))))),
        cost(|| drop(black_box(text::preview(&InMemoryMessage::new(message, &structure))))),
    ];
    print!("{:<26} {:>8}", name.chars().take(26).collect::<String>(), message.len());
    for time in times {
        print!(" {:>7.2}", time.as_secs_f64() * 1e6);
    }
    println!(" {:>6} {:>6}", stored.len(), skeleton.encode().len());
}

/// Returns the time of one call: the minimum of many short rounds, so that a busy machine has little influence.
#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn cost(mut call: impl FnMut()) -> Duration {
    let mut round = |count: u32| {
        let start = Instant::now();
        (0..count).for_each(|_| call());
        start.elapsed()
    };
    let once = round(10) / 10;
    let count = u32::try_from(1_000_000 / once.as_nanos().max(1)).unwrap_or(u32::MAX).clamp(1, 20_000);
    (0..100).map(|_| round(count) / count).min().unwrap_or_default()
}

const HEADER: &str = "Return-Path: <a@example.com>\r\nReceived: from mx.example.com (mx.example.com [192.0.2.1])\r\n\tby mail.example.org with ESMTPS id 1234567890\r\n\tfor <b@example.org>; Fri, 21 Nov 1997 09:55:06 -0600\r\nDKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=x;\r\n\th=from:to:subject:date; bh=abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG=;\r\n\tb=abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGabcdefghijklmnopqrstuvwxyz\r\nMessage-ID: <1234@example.com>\r\nDate: Fri, 21 Nov 1997 09:55:06 -0600\r\nFrom: Alice Example <a@example.com>\r\nTo: Bob Example <b@example.org>\r\nSubject: A message of some length\r\nMIME-Version: 1.0\r\nX-Mailer: none\r\n";

fn plain() -> Vec<u8> {
    let line = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod.\r\n";
    format!("{HEADER}Content-Type: text/plain; charset=utf-8\r\n\r\n{}", line.repeat(120)).into_bytes()
}

fn quoted_printable() -> Vec<u8> {
    let line = "<td style=3D\"padding:0\"><a href=3D\"https://example.com/x\">caf=C3=A9</a></t=\r\nd><td>some more text in the same line of the table</td></tr>\r\n";
    format!(
        "{HEADER}Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{}",
        line.repeat(65)
    )
    .into_bytes()
}

fn base64_lines(length: usize) -> String {
    let content: Vec<u8> = (0..length).map(|index| (index * 31 % 253) as u8).collect();
    let text = base64::engine::general_purpose::STANDARD.encode(content);
    let lines: Vec<_> = text.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    lines.join("\r\n")
}

fn attachment() -> Vec<u8> {
    let boundary = "----=_Part_1_2_3";
    format!(
        "{HEADER}Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n--{boundary}\r\nContent-Type: text/plain\r\n\r\nHello\r\n--{boundary}\r\n\
         Content-Type: application/pdf; name=\"x.pdf\"\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=\"x.pdf\"\r\n\r\n{}\r\n--{boundary}--\r\n",
        base64_lines(6_500)
    )
    .into_bytes()
}

fn nested() -> Vec<u8> {
    let text = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod.\r\n".repeat(30);
    format!(
        "{HEADER}Content-Type: multipart/related; boundary=\"=_r\"\r\n\r\n--=_r\r\nContent-Type: multipart/alternative; boundary=\"=_a\"\r\n\r\n\
         --=_a\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n--=_a\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{text}\r\n--=_a--\r\n\
         --=_r\r\nContent-Type: image/png\r\nContent-ID: <1@x>\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n--=_r--\r\n",
        base64_lines(4_000)
    )
    .into_bytes()
}
