//! Properties that must hold for any message.

use base::Timestamp;
use mail::mime::MimeSource;

use super::message_fixture::MessageFixture;
use super::{AttributeOutcome, MessageSorter, Octets, SearchPlan, Threader, attribute, section};
use crate::codec::ResponseWriter;
use crate::codec::command::{
    Date, FetchAttribute, PartPath, Partial, SearchKey, SectionSpec, SectionText, SortCriterion, SortKey,
    ThreadAlgorithm,
};

/// Renders bytes as a message in every supported form and panics if a property is violated. This is the entry point of
/// the fuzzers.
pub fn fuzz(data: &[u8]) {
    let message = MessageFixture::parse(data);
    for attribute in attributes() {
        let mut out = ResponseWriter::new();
        let Ok(outcome) = attribute::write_attribute(&attribute, &message, &mut out);
        assert!(outcome != AttributeOutcome::NotHandled, "{attribute:?} can be derived from the message");
        let is_binary = matches!(attribute, FetchAttribute::Binary { .. });
        assert!(is_binary || !out.as_bytes().contains(&0), "{attribute:?} gives NUL");
        assert!(is_balanced(out.as_bytes()), "{attribute:?} gives {}", String::from_utf8_lossy(out.as_bytes()));
    }
    check_sections(&message, data);
    check_search(&message, data);
    check_order(&message);
}

fn attributes() -> Vec<FetchAttribute> {
    let path = |numbers: &[u32]| PartPath(numbers.to_vec());
    let partial = Some(Partial { start: 3, length: 10 });
    let mut attributes = vec![
        FetchAttribute::Body,
        FetchAttribute::BodyStructure,
        FetchAttribute::Envelope,
        FetchAttribute::Preview { lazy: false },
        FetchAttribute::Rfc822,
        FetchAttribute::EmailId,
        FetchAttribute::ThreadId,
    ];
    for part in [&[][..], &[1], &[2], &[1, 1], &[2, 1, 3]] {
        attributes.push(FetchAttribute::Binary { part: path(part), partial, peek: true });
        attributes.push(FetchAttribute::BinarySize(path(part)));
        for text in [SectionText::Whole, SectionText::Header, SectionText::HeaderFieldsNot(vec!["To".into()])] {
            attributes.push(FetchAttribute::BodySection {
                section: SectionSpec { part: path(part), text },
                partial,
                peek: true,
            });
        }
    }
    attributes
}

/// Checks that sections have the expected bytes, whether they are read at once or in pieces.
fn check_sections(message: &MessageFixture<'_>, data: &[u8]) {
    let whole = SectionSpec { part: PartPath::default(), text: SectionText::Whole };
    let Ok(octets) = Octets::of_section(message, &whole);
    let mut pieces = Vec::new();
    for start in (0..octets.length()).step_by(7) {
        let Ok(piece) = octets.read(message, start..start + 7);
        pieces.extend_from_slice(&piece);
    }
    assert_eq!(pieces, data, "the pieces join to the whole message");
    let name = |text| SectionSpec { part: PartPath::default(), text };
    let read = |section: &SectionSpec| {
        let Ok(octets) = Octets::of_section(message, section);
        let Ok(bytes) = octets.read(message, 0..octets.length());
        bytes.into_owned()
    };
    let joined = [read(&name(SectionText::Header)), read(&name(SectionText::Text))].concat();
    assert_eq!(joined, data, "header and text join to the whole message");
    section::write_section_name(&whole, None, &mut ResponseWriter::new());
}

/// Checks that a match decided from the entry agrees with the match decided from the message.
fn check_search(message: &MessageFixture<'_>, data: &[u8]) {
    let word: String = String::from_utf8_lossy(data.get(..5).unwrap_or(data)).into_owned();
    let date = Date::constant(1997, 11, 21);
    let keys = vec![
        SearchKey::Body(word.clone()),
        SearchKey::Text(word.clone()),
        SearchKey::Subject(word.clone()),
        SearchKey::Header { name: word, value: String::new() },
        SearchKey::SentSince(date),
        SearchKey::Not(Box::new(SearchKey::Larger(100))),
    ];
    for key in keys.iter().cloned().chain([SearchKey::And(keys.clone())]) {
        let plan = SearchPlan::new(&key, Timestamp::default());
        let Ok(matches) = plan.matches(&message.entry, message);
        assert!(plan.decide(&message.entry).is_none_or(|decided| decided == matches), "{key:?}");
    }
}

fn check_order(message: &MessageFixture<'_>) {
    let keys = [SortKey::Date, SortKey::Subject, SortKey::From, SortKey::DisplayFrom, SortKey::To, SortKey::DisplayTo];
    let sorter = MessageSorter::new(&keys.map(|key| SortCriterion { key, reverse: false }));
    assert_eq!(sorter.sort(vec![sorter.record(&message.entry, message.header())]), [1], "a single message is sorted");
    for algorithm in [ThreadAlgorithm::References, ThreadAlgorithm::OrderedSubject] {
        let mut threader = Threader::new(algorithm);
        (0..3).for_each(|number| threader.add(number, &message.entry, message.header()));
        let mut out = ResponseWriter::new();
        threader.build().finish().write(&mut out);
        assert!(is_balanced(out.as_bytes()), "the parentheses of threads are balanced");
    }
}

/// Returns `true` if all parentheses, strings and literals are closed.
fn is_balanced(mut text: &[u8]) -> bool {
    let mut depth = 0_i64;
    while let Some((byte, rest)) = text.split_first() {
        text = rest;
        match byte {
            b'(' => depth += 1,
            b')' if depth == 0 => return false,
            b')' => depth -= 1,
            b'"' => match after_quoted(rest) {
                Some(after) => text = after,
                None => return false,
            },
            b'{' => match after_literal(rest) {
                Some(after) => text = after,
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0
}

fn after_quoted(mut text: &[u8]) -> Option<&[u8]> {
    loop {
        match text {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', _, rest @ ..] => text = rest,
            [b'\r' | b'\n' | 0, ..] | [] => return None,
            [_, rest @ ..] => text = rest,
        }
    }
}

fn after_literal(text: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'}', text)?;
    let length: usize = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    text[end + 1..].strip_prefix(b"\r\n")?.get(length..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates pieces of which well-formed and malformed mail consists.
    fn piece() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "\r\n",
            "\n",
            "\r\n\r\n",
            "\0",
            "--b\r\n",
            "--b--\r\n",
            "\"",
            "\\",
            "(",
            ")",
            "{3}\r\n",
            "<",
            ">",
            "@",
            ",",
            ";",
            ":",
            "Content-Type: multipart/mixed; boundary=b\r\n",
            "Content-Type: message/rfc822\r\n\r\n",
            "Content-Type: text/html\n",
            "Content-Disposition: attachment; filename=\"a\\\"b\"\r\n",
            "Content-Transfer-Encoding: base64\r\n",
            "aGVsbG8=",
            "Content-Transfer-Encoding: x-unknown\r\n",
            "Subject: Re: [a] ",
            "From: ",
            "To: A <a@b>, ",
            "Date: Fri, 21 Nov 1997 09:55:06 ",
            "Message-ID: <1@x>\r\n",
            "References: <2@x> <1@x>\r\n",
            "In-Reply-To: <3@x>\r\n",
            "=?utf-8?q?=C3=A9?=",
            "caf\u{e9}",
            " ",
            "\t",
            "text",
            "Content-Language: de, en\r\n",
            "Content-ID: <x>\r\n",
        ])
    }

    proptest! {
        #[test]
        fn any_message_keeps_the_properties(pieces in prop::collection::vec(piece(), 0..60)) {
            fuzz(pieces.concat().as_bytes());
        }

        #[test]
        fn any_bytes_keep_the_properties(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz(&bytes);
        }
    }

    #[test]
    fn balance_check_detects_unclosed_text() {
        for (text, expected) in
            [("(a \"b)\\\"\" {1}\r\n))", true), ("(", false), (")(", false), ("\"a", false), ("{2}\r\na", false)]
        {
            assert_eq!(is_balanced(text.as_bytes()), expected, "{text}");
        }
    }
}
