//! Tests of mbox files: separators, quoting, endings, and unchanged messages and files after reading and writing.

use base::Timestamp;
use base::limits::MESSAGE_BYTES_MAX;
use proptest::prelude::*;

use super::separator::is_separator;
use super::{MboxMessage, MboxReader, MboxWriter};
use crate::import_export::file_quirks::{FileQuirks, MessageTrailer};
use crate::import_export::import::ImportedMessage;

const SEPARATOR: &str = "From ann@acme.test Sat Jan  3 01:05:34 2026\n";

fn read(text: &[u8]) -> Vec<MboxMessage> {
    let mut reader = MboxReader::new(text, 0);
    std::iter::from_fn(|| reader.next_message().expect("reading from memory")).collect()
}

fn texts(text: &str) -> Vec<String> {
    read(text.as_bytes()).into_iter().map(|message| String::from_utf8(message.raw).expect("text")).collect()
}

/// Writes messages like an export.
fn written(messages: &[(Vec<u8>, FileQuirks)]) -> Vec<u8> {
    let mut out = MboxWriter::new(Vec::new());
    for (raw, form) in messages {
        out.write(raw, Timestamp::from_seconds(86_400 * 366), form).expect("writing to memory");
    }
    out.finish().expect("writing to memory")
}

fn imported(file: &[u8]) -> Vec<ImportedMessage> {
    read(file).into_iter().map(|message| message.into_imported("INBOX")).collect()
}

/// Reads a file like an import and writes it again.
fn through(file: &[u8]) -> Vec<u8> {
    let mut out = MboxWriter::new(Vec::new());
    for message in imported(file) {
        out.write(&message.raw, message.received.unwrap_or_default(), &message.form).expect("writing to memory");
    }
    out.finish().expect("writing to memory")
}

#[test]
fn separators_have_dates() {
    let check = |line: &str, seconds: Option<i64>| {
        assert_eq!(is_separator(line.as_bytes()), seconds.is_some(), "{line:?}");
        let read = super::Separator::read(line.as_bytes());
        assert_eq!(read.received, seconds.map(Timestamp::from_seconds), "{line:?}");
    };
    let moment = Some(1_767_402_334);
    check("From ann@acme.test Sat Jan  3 01:05:34 2026\n", moment);
    check("From - Sat Jan 03 01:05:34 2026\r\n", moment);
    check("From 1643534543@xxx Sat Jan 03 01:05:34 +0000 2026\n", moment);
    check("From \"ann b\"@acme.test Sat Jan  3 02:05:34 2026 +0100\n", moment);
    check("From ann Sat Jan  3 01:05:34 UTC 2026 remote from far\n", moment);
    check("From ann Sat, 3 Jan 2026 01:05:34 +0000\n", moment);
    check("From Sat Sat Jan  3 01:05:34 2026", moment);
    check("From ann Sat Jan  3 01:05 2026\n", Some(1_767_402_300));
    check("From here on it is text\n", None);
    check("From Sat on we are closed\n", None);
    check("From ann Sat Feb 30 01:05:34 2026\n", None);
    check("From ann\n", None);
    check(&format!("From {} Sat Jan  3 01:05:34 2026\n", "a".repeat(2_000)), None);
}

#[test]
fn only_dated_from_lines_separate_messages() {
    let text = format!("{SEPARATOR}Subject: a\n\nFrom here it is text\n\nFrom there too\n{SEPARATOR}Subject: b\n\n");
    assert_eq!(texts(&text), ["Subject: a\n\nFrom here it is text\n\nFrom there too\n", "Subject: b\n"]);
    assert!(MboxReader::new(&b"Subject: a message\n\n"[..], 0).next_message().is_err());
    assert!(read(b"\n\n").is_empty());
}

#[test]
fn file_without_dates_is_separated_at_empty_lines() {
    let text = "From ann\nSubject: a\n\nFrom\nFrom me\n\nFrom bob\nSubject: b\n\n";
    assert_eq!(texts(text), ["Subject: a\n\nFrom\nFrom me\n", "Subject: b\n"]);
    assert_eq!(imported(text.as_bytes())[0].received, None);
}

#[test]
fn from_quoting_round_trips_at_every_level() {
    let file = format!("{SEPARATOR}A: b\n\n>From a\n>>From b\n>>>From c\n> From d\n>Fromage\n\n");
    assert_eq!(texts(&file), ["A: b\n\nFrom a\n>From b\n>>From c\n> From d\n>Fromage\n"]);
    assert_eq!(String::from_utf8_lossy(&through(file.as_bytes())), file);
}

#[test]
fn oversize_message_does_not_swallow_the_next() {
    let mut file = format!("{SEPARATOR}Subject: large\n\n").into_bytes();
    let line = [b"x".repeat(9_999), b"\n".to_vec()].concat();
    while file.len() <= MESSAGE_BYTES_MAX + 100_000 {
        file.extend_from_slice(&line);
    }
    file.extend_from_slice(format!("\n{SEPARATOR}Subject: after\n\n").as_bytes());
    let found = read(&file);
    assert_eq!(found.iter().map(|message| message.truncated).collect::<Vec<_>>(), [true, false]);
    assert_eq!((found[0].raw.len(), found[1].raw.as_slice()), (MESSAGE_BYTES_MAX, &b"Subject: after\n"[..]));
    assert_eq!(&file[found[0].next_offset as usize..][..5], b"From ");
}

#[test]
fn reading_can_start_at_any_message() {
    let messages: Vec<_> =
        ["a\r\n", "", "no end", "\r\n\r\n"].map(|raw| (raw.as_bytes().to_vec(), FileQuirks::default())).into();
    let file = written(&messages);
    let all = read(&file);
    assert_eq!(all.len(), 4);
    for (number, message) in all.iter().enumerate() {
        let mut reader = MboxReader::new(&file[message.offset as usize..], message.offset);
        let rest: Vec<_> = std::iter::from_fn(|| reader.next_message().expect("reading from memory")).collect();
        assert_eq!(rest, all[number..]);
    }
}

#[test]
fn files_round_trip_unchanged() {
    let check = |file: &str| assert_eq!(String::from_utf8_lossy(&through(file.as_bytes())), file);
    let thunderbird = "From - Sat Jan 03 01:05:34 2026\r\nX-Mozilla-Status: 0001\r\nSubject: a\r\n\r\ntext\r\n\r\n";
    check(thunderbird);
    check(&thunderbird.repeat(2));
    check(&thunderbird.replace("\r\n", "\n").repeat(2));
    check(&format!("{SEPARATOR}Subject: a\n{SEPARATOR}Subject: b\n\ntext"));
    check(&format!("{SEPARATOR}{SEPARATOR}\n{SEPARATOR}\n\n{SEPARATOR}Subject: b\n\ntext\n"));
    check(&format!("{SEPARATOR}Subject: a\r\n\r\nCRLF in a file of LFs\r\n\n{SEPARATOR}b\n"));
    check("From a Sat Jan  3 01:05:34 2026 remote from far\nSubject: a\n\n");
    let mixed = imported(format!("{SEPARATOR}a\r\nb\n\r\n").as_bytes());
    assert_eq!((mixed[0].raw.as_slice(), mixed[0].form.ending), (&b"a\r\nb\n"[..], MessageTrailer::CrlfBlank));
}

#[test]
fn unrepresentable_endings_are_marked_on_the_separator() {
    let check = |raw: &str, line: &str| {
        let file = written(&[(raw.as_bytes().to_vec(), FileQuirks::default())]);
        let file = String::from_utf8_lossy(&file).into_owned();
        assert_eq!(file.lines().next(), Some(format!("From MAILER-DAEMON Sat Jan  2 00:00:00 1971{line}").as_str()));
        assert_eq!(imported(file.as_bytes())[0].raw, raw.as_bytes());
    };
    check("a\r\n", "");
    check("a\r\r\n", "");
    check("a\n", " remote from as-is");
    check("a", " remote from open");
    check("a\nb", " remote from as-is.open");
}

#[test]
fn senders_are_found_in_the_header() {
    let check = |header: &str, expected: &str| assert_eq!(super::sender_of(header.as_bytes()), expected);
    check("Return-Path: <a@b.test>\r\nFrom: C <c@d.test>\r\n\r\n", "a@b.test");
    check("From: C <c@d.test>\r\n\r\n", "c@d.test");
    check("\r\n", "");
}

#[test]
fn out_of_range_dates_still_separate_messages() {
    for seconds in [i64::MIN / 2_000_000, -100_000_000_000, 300_000_000_000, i64::MAX / 2_000_000] {
        let mut out = MboxWriter::new(Vec::new());
        for _ in 0..2 {
            out.write(b"a\r\n", Timestamp::from_seconds(seconds), &FileQuirks::default()).expect("writing to memory");
        }
        assert_eq!(read(&out.finish().expect("writing to memory")).len(), 2, "{seconds}");
    }
}

/// Returns a strategy for pieces that are hard to read and write. Some of them form additional separators in a file.
fn pieces(count: usize) -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "\r\n",
        "\n",
        "\r",
        "\0",
        "a",
        ">",
        "From ",
        ">From b",
        "\r\r\n",
        "A: b\r\n",
        "\nFrom c Sat Jan  3 01:05:34 2026",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..count)
        .prop_map(|pieces| pieces.concat().into_bytes())
}

fn forms() -> impl Strategy<Value = FileQuirks> {
    use crate::import_export::line_endings::FileLineEnding;
    let ends = prop::option::of(prop::sample::select(vec![FileLineEnding::Lf, FileLineEnding::Crlf]));
    let ending = prop::sample::select(vec![
        MessageTrailer::Blank,
        MessageTrailer::CrlfBlank,
        MessageTrailer::Separator,
        MessageTrailer::FileEnd,
    ]);
    let line =
        prop::sample::select(vec!["From x", "From y Sat Jan  3 01:05:34 2026", "From z Sat Jan  3 01:05:34 2026\r"]);
    (ends, ending, prop::option::of(line.prop_map(str::to_owned)))
        .prop_map(|(line_ends, ending, separator)| FileQuirks { line_ends, ending, separator })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn messages_round_trip_through_a_file(messages in prop::collection::vec((pieces(10), forms()), 0..5)) {
        let found: Vec<Vec<u8>> = imported(&written(&messages)).into_iter().map(|message| message.raw).collect();
        let expected: Vec<Vec<u8>> = messages.into_iter().map(|(raw, _)| raw).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn file_round_trips_through_import_and_export(text in pieces(14)) {
        // Lines `From ` that are neither quoted nor whole separators come out quoted or with a line end. Everything
        // else stays the same.
        let bare = |line: &[u8]| line.starts_with(b"From ") && !(is_separator(line) && line.ends_with(b"\n"));
        let mut file = SEPARATOR.as_bytes().to_vec();
        file.extend(text.split_inclusive(|byte| *byte == b'\n').filter(|line| !bare(line)).flatten());
        let again = through(&file);
        prop_assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&file));
    }
}
