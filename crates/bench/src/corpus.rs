//! Messages of ordinary shape, generated from a seed: headers as clients write them, a text of some kilobytes, and
//! sometimes a second part.
//!
//! The messages serve for appending and as an mbox file for importing. Lines are no longer than those of common mail
//! programs and end in CRLF, or in LF within an mbox file, as usual for such files.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};

use crate::arguments::{Arguments, Result};
use bench::population::text::prose;
use bench::random::SplitMix64;

const PEOPLE: &[&str] =
    &["Alice Ames", "Bob Byrne", "Carol Cole", "David Dunn", "Erin Esch", "Frank Foss", "Grace Gill"];
const DAYS_MAX: usize = 28;

/// Writes an mbox file to standard output.
pub fn run(arguments: &Arguments) -> Result<()> {
    let count: usize = arguments.text("messages")?.parse()?;
    let mut numbers = SplitMix64::new(arguments.get_or("seed", 1)?);
    let user: usize = arguments.get_or("user", 1)?;
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    for index in 0..count {
        let size = 500 + numbers.below(7_000);
        let text = message(&mut numbers, index, user, size).replace("\r\n", "\n").replace("\nFrom ", "\n>From ");
        write!(out, "From sender@bench.test Mon Jan  1 00:00:00 2024\n{text}\n")?;
    }
    Ok(out.flush()?)
}

/// Generates the `index`th message to a user, with about `size` bytes of text.
pub fn message(numbers: &mut SplitMix64, index: usize, user: usize, size: usize) -> String {
    let body = prose(numbers, size);
    let (kind, body) =
        if numbers.below(4) == 0 { alternative(&body, index) } else { ("text/plain; charset=utf-8".to_owned(), body) };
    let person = *numbers.pick(PEOPLE);
    let subject = prose(numbers, 30).replace("\r\n", " ");
    let mut text = String::with_capacity(body.len() + 600);
    let day = 1 + numbers.below(DAYS_MAX);
    let hour = numbers.below(24);
    let minute = numbers.below(60);
    let _ = write!(
        text,
        "Received: from client.bench.test by mx.bench.test; {day} Feb 2024 {hour:02}:{minute:02}:00 +0000\r\n"
    );
    let _ =
        write!(text, "Date: {day} Feb 2024 {hour:02}:{minute:02}:00 +0000\r\nFrom: {person} <sender@bench.test>\r\n");
    let _ = write!(
        text,
        "To: {user}bench@bench.test\r\nSubject: {}\r\nMessage-ID: <{index}.{}@bench.test>\r\n",
        subject.trim(),
        numbers.below(1 << 30)
    );
    let _ = write!(text, "MIME-Version: 1.0\r\nContent-Type: {kind}\r\n\r\n{body}");
    text
}

/// Returns a multipart/alternative with the same text in plain form and in HTML.
fn alternative(body: &str, index: usize) -> (String, String) {
    let boundary = format!("=_part_{index}");
    let html = body.replace("\r\n", "<br>\r\n");
    let parts = format!(
        "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{body}\r\n\
         --{boundary}\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body>{html}</body></html>\r\n--{boundary}--\r\n"
    );
    (format!("multipart/alternative; boundary=\"{boundary}\""), parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_headers_and_lines_of_mail() {
        let mut numbers = SplitMix64::new(1);
        for index in 0..50 {
            let text = message(&mut numbers, index, 3, 2_000);
            let (headers, body) = text.split_once("\r\n\r\n").expect("an empty line ends the headers");
            assert!(headers.contains("\r\nTo: 3bench@bench.test\r\n") && headers.contains("\r\nMessage-ID: <"));
            assert!(body.len() >= 2_000 && text.split("\r\n").all(|line| line.len() < 998 && !line.contains('\n')));
        }
    }
    #[test]
    fn a_seed_determines_the_messages() {
        let messages = |seed| {
            let mut numbers = SplitMix64::new(seed);
            (0..20).map(|index| message(&mut numbers, index, 1, 500)).collect::<Vec<_>>()
        };
        assert_eq!(messages(4), messages(4));
        assert_ne!(messages(4), messages(5));
    }

    #[test]
    fn some_messages_are_multipart_alternative() {
        let mut numbers = SplitMix64::new(9);
        let mut alternatives = 0;
        for index in 0..200 {
            let text = message(&mut numbers, index, 1, 600);
            let Some((_, rest)) = text.split_once("multipart/alternative; boundary=\"") else { continue };
            let (boundary, body) = rest.split_once("\"\r\n\r\n").expect("the end of the headers");
            assert_eq!(boundary, format!("=_part_{index}"));
            let parts: Vec<&str> = body.split(&format!("--{boundary}")).collect();
            let [preamble, plain, html, end] = parts[..] else { panic!("{} parts", parts.len()) };
            let plain = plain.split_once("\r\n\r\n").expect("a header").1.trim_end();
            assert_eq!((preamble, end), ("", "--\r\n"));
            assert!(html.contains(&plain.replace("\r\n", "<br>\r\n")), "{html}");
            alternatives += 1;
        }
        assert!((30..=70).contains(&alternatives), "about a quarter: {alternatives}");
    }
}
