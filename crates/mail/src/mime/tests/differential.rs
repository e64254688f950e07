//! Comparison of this crate's parsers with `mail-parser`, over the messages below and over real ones.
//!
//! The parsers of structure, addresses, dates and encoded words are written for this program (`docs/mime.md` states
//! why), so an independent parser checks them. The two may differ only where `differences.txt` says so: each line names
//! a message, an aspect and the reason. A difference that is not listed fails the test, and so does a listed one that
//! has disappeared.

use std::collections::BTreeMap;

use mail_parser::{Address, MessageParser, MessagePart, MimeHeaders as _, PartType};

use super::corpus;
use crate::mime::header::decode_value;
use crate::mime::{address, date, header, parse};

/// The accepted differences: message, aspect and reason, separated by white space.
const LISTED: &str = include_str!("differences.txt");

/// The reasons that `differences.txt` may give.
const REASONS: &[(&str, &str)] = &[
    (
        "boundary-line",
        "a boundary is a whole line; mail-parser also finds it within a line and as the prefix of another one",
    ),
    (
        "outer-boundary",
        "the boundary of an outer multipart ends the inner ones; mail-parser looks for the inner one only",
    ),
    ("empty-part", "a boundary line begins a part, even an empty one; mail-parser drops it"),
    ("no-parts", "a multipart without a line with its boundary is text; mail-parser returns a multipart without parts"),
    ("padded-boundary", "white space at the end of a boundary does not count (RFC 2046 §5.1.1)"),
    ("long-boundary", "a boundary longer than the limit is not searched"),
    ("field-like-boundary", "a boundary with a colon within a header that has no blank line looks like a field"),
    ("header-end", "a header without a blank line ends before a boundary"),
    ("first-field", "of repeated fields the first one counts; for mail-parser it is the last one"),
    ("encoded-message", "a message in base64 or quoted-printable is a file, because no ranges within it exist"),
    ("headerless-message", "an encapsulated message exists even if it has no header"),
    ("no-header", "a message exists even if it has no header"),
    ("no-subtype", "a type without a subtype is text/plain (RFC 2045 §5.2)"),
    ("raw-8bit", "raw bytes that are not UTF-8 are read as Windows-1252; mail-parser replaces them"),
    ("bare-local", "text without an @ is a local part; for mail-parser it is a display name"),
    ("lenient-date", "dates without zone or seconds, with a zone of three digits, or with broken seconds are read"),
];

/// Messages that are compared without a corpus.
const CASES: &[(&str, &str)] = &[
    (
        "case-plain",
        "From: Ann <ann@acme.test>\nTo: bob@acme.test\nSubject: Hello\nDate: Thu, 01 Jan 2026 00:00:00 +0100\n\nx\n",
    ),
    (
        "case-folded",
        "Subject: =?utf-8?q?caf=C3=A9?=\n =?utf-8?b?IGFuZCB0ZWE=?=\nTo: \"Doe, Jane\" <jane@acme.test>,\n\t\"x\" <y@z.test>\n\nx\n",
    ),
    ("case-group", "From: a@b.test\nTo: Team: ann@acme.test, Bob <bob@acme.test>;\nCc: undisclosed: ;\n\nx\n"),
    (
        "case-mixed",
        "Content-Type: multipart/mixed; boundary=b\n\npre\n--b\n\none\n--b\nContent-Type: text/html\n\ntwo\n--b--\nepi\n",
    ),
    (
        "case-nested",
        "Content-Type: multipart/mixed; boundary=a\n\n--a\nContent-Type: multipart/alternative; boundary=b\n\n--b\n\none\n--b\nContent-Type: text/html\n\ntwo\n--b--\n--a\nContent-Type: message/rfc822\n\nSubject: inner\n\nthree\n--a--\n",
    ),
    ("case-digest", "Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: one\n\nx\n--b--\n"),
    ("case-boundary-in-line", "Content-Type: multipart/mixed; boundary=b\n\n--b\n\na --b\nc\n--b--\n"),
    ("case-no-parts", "Content-Type: multipart/mixed; boundary=b\n\ntext\n"),
    (
        "case-encoded-message",
        "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogeAoKeQo=\n",
    ),
    ("case-bare-local", "From: root\n\nx\n"),
    ("case-no-seconds", "Date: Wed, 11 Feb 98 11:51 CST\n\nx\n"),
];

/// The aspects of a message that both parsers see: a name, and the value as text.
type Aspects = BTreeMap<&'static str, String>;

fn ours(raw: &[u8]) -> Aspects {
    let structure = parse(raw);
    let header = &raw[..usize::try_from(structure.root().header.end).expect("a range of the message")];
    let media = |index: usize| {
        let part = &structure.parts()[index];
        let (media, subtype) = part.media();
        let name = format!("{}/{}", String::from_utf8_lossy(media), String::from_utf8_lossy(subtype)).to_lowercase();
        format!("{} {name}", part.depth)
    };
    let parts: Vec<String> = (0..structure.parts().len()).map(media).collect();
    let list = |name: &str| {
        let mailboxes = header::first(header, name).into_iter().flat_map(address::mailboxes);
        format_mailboxes(mailboxes.map(|mailbox| (mailbox.display_name(), Some(mailbox.address()))))
    };
    let subject = header::first(header, "Subject").map(decode_value).unwrap_or_default();
    let date = header::first(header, "Date").and_then(date::HeaderDate::parse);
    Aspects::from([
        ("structure", parts.join(", ")),
        ("from", list("From")),
        ("to", list("To")),
        ("cc", list("Cc")),
        ("subject", one_line(&subject)),
        ("date", date.map_or_else(String::new, |date| date.timestamp.seconds().to_string())),
    ])
}

fn theirs(raw: &[u8]) -> Option<Aspects> {
    let message = MessageParser::new().parse(raw)?;
    let mut parts = Vec::new();
    list_parts(&message.parts, 0, 0, &mut parts);
    let list = |addresses: Option<&Address<'_>>| {
        let mailboxes = addresses.into_iter().flat_map(Address::iter);
        format_mailboxes(
            mailboxes.map(|mailbox| (mailbox.name().map(str::to_owned), mailbox.address().map(str::to_owned))),
        )
    };
    let date = message.date().filter(|date| date.is_valid());
    Some(Aspects::from([
        ("structure", parts.join(", ")),
        ("from", list(message.from())),
        ("to", list(message.to())),
        ("cc", list(message.cc())),
        ("subject", one_line(message.subject().unwrap_or_default())),
        ("date", date.map_or_else(String::new, |date| date.to_timestamp().to_string())),
    ]))
}

fn list_parts(parts: &[MessagePart<'_>], index: usize, depth: usize, found: &mut Vec<String>) {
    let Some(part) = parts.get(index) else { return };
    let default = if matches!(part.body, PartType::Message(_)) { "message/rfc822" } else { "text/plain" };
    let media = part.content_type().map_or_else(
        || default.to_owned(),
        |media| format!("{}/{}", media.c_type, media.c_subtype.as_deref().unwrap_or_default()).to_lowercase(),
    );
    found.push(format!("{depth} {media}"));
    match &part.body {
        PartType::Multipart(children) => {
            children.iter().for_each(|child| list_parts(parts, *child as usize, depth + 1, found));
        }
        PartType::Message(message) => list_parts(&message.parts, 0, depth + 1, found),
        PartType::Text(_) | PartType::Html(_) | PartType::Binary(_) | PartType::InlineBinary(_) => {}
    }
}

/// Returns mailboxes as `name <address>`, separated by commas.
fn format_mailboxes(mailboxes: impl Iterator<Item = (Option<String>, Option<String>)>) -> String {
    let texts = mailboxes.map(|(name, address)| {
        let name = one_line(&name.unwrap_or_default());
        format!("{name} <{}>", one_line(&address.unwrap_or_default()))
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns a text with single spaces. The parsers unfold white space differently.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the aspects in which the parsers differ, each with both values.
fn differences(raw: &[u8]) -> Vec<(&'static str, String)> {
    let Some(theirs) = theirs(raw) else { return vec![("message", "mail-parser finds no message".to_owned())] };
    let ours = ours(raw);
    let aspects = ours.iter().filter(|(aspect, value)| theirs.get(*aspect) != Some(value));
    aspects.map(|(aspect, value)| (*aspect, format!("{value:?}, mail-parser {:?}", theirs[aspect]))).collect()
}

/// Returns the listed differences with their reasons, by message and aspect.
fn listed() -> BTreeMap<(String, String), String> {
    let lines = LISTED.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entries = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [message, aspect, reason] = words.as_slice() else { panic!("{line:?} is not message, aspect and reason") };
        ((message.to_string(), aspect.to_string()), reason.to_string())
    });
    entries.collect()
}

/// Compares messages, and the result with the list. Entries of messages that are not here are ignored.
fn check(messages: &[(String, Vec<u8>)]) {
    let listed = listed();
    let mut faults = Vec::new();
    for (name, raw) in messages {
        let found: BTreeMap<&str, String> = differences(raw).into_iter().collect();
        for (aspect, values) in &found {
            if !listed.contains_key(&(name.clone(), (*aspect).to_owned())) {
                faults.push(format!("{name} {aspect}: {values}"));
            }
        }
        let gone = listed.keys().filter(|(message, aspect)| message == name && !found.contains_key(aspect.as_str()));
        faults.extend(gone.map(|(message, aspect)| format!("{message} {aspect}: listed, but there is no difference")));
    }
    assert!(faults.is_empty(), "{} differences are not as listed:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn cases_parse_like_mail_parser() {
    check(&CASES.iter().map(|(name, raw)| ((*name).to_owned(), raw.as_bytes().to_vec())).collect::<Vec<_>>());
}

#[test]
fn real_messages_parse_like_mail_parser() {
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let messages = corpus().into_iter().filter(|(path, _)| path.ends_with(".eml") || path.ends_with(".msg"));
    check(&messages.map(|(path, raw)| (file_name(&path), raw)).collect::<Vec<_>>());
}

#[test]
fn every_difference_has_a_known_reason() {
    for ((message, aspect), reason) in listed() {
        assert!(REASONS.iter().any(|(known, _)| *known == reason), "{message} {aspect}: unknown reason {reason}");
    }
}
