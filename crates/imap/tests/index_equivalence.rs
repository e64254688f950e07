//! Compares searches with the full-text index to searches without it. Both must find the same messages, for any content
//! and any search text.
//!
//! Messages consist of texts with unusual case folding, in all encodings and in all places that SEARCH examines.
//! Needles are cut out of these texts, also in the middle of words and across word boundaries, and sometimes with a
//! different case.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use wire::Peer;

use crate::connection::Connection;
use crate::world::{TestServer, deliver};

/// Number of additional messages, so that the index is worth using.
const ADDITIONAL_MESSAGES: usize = 40;

/// Words and separators of which texts consist.
const WORDS: [&str; 44] = [
    "airport",
    "ports",
    "e-mail",
    "e",
    "x2",
    "2024",
    "don't",
    "a_b",
    "http://a.example/p?q=1",
    "Straße",
    "STRASSE",
    "ﬁne",
    "fine",
    "é",
    "e\u{301}",
    "café",
    "CAFE",
    "naïve",
    "Ⅷ",
    "½",
    "x²",
    "ª",
    "İstanbul",
    "ısı",
    "ſo",
    "ǅ",
    "ΣΊΣΥΦΟΣ",
    "ς",
    "東京",
    "行く",
    "が",
    "か\u{3099}",
    "한국",
    "ไทย",
    "हिन्दी",
    "٣٤",
    "a\u{200d}b",
    "\u{301}",
    "\u{1d4d0}",
    "ŉ",
    "ΐ",
    "ﬀ",
    "😀",
    "<b>tag</b>&amp;",
];
const BETWEEN: [&str; 10] = [" ", "", " ", ", ", "\r\n ", "-", "  ", "\u{a0}", "。", "/"];

fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned),
        1 => "[a-z]{60,70}",
        1 => any::<char>().prop_filter("no controls", |character| !character.is_control()).prop_map(String::from),
    ];
    prop::collection::vec((word, prop::sample::select(&BETWEEN[..])), 1..8)
        .prop_map(|pieces| pieces.into_iter().map(|(word, between)| word + between).collect())
}

/// One part of a message: the kind of place of its text, and the text.
#[derive(Clone, Debug)]
struct Part {
    kind: usize,
    text: String,
}

fn messages() -> impl Strategy<Value = Vec<Vec<Part>>> {
    let part = (0..KINDS, text()).prop_map(|(kind, text)| Part { kind, text });
    prop::collection::vec(prop::collection::vec(part, 1..5), 1..6)
}

const KINDS: usize = 11;

/// Returns the bytes of a message.
fn write(parts: &[Part]) -> Vec<u8> {
    let mut header = String::new();
    let mut body = String::new();
    for Part { kind, text } in parts {
        let line = text.replace("\r\n ", "\r\n\t");
        let line = line.trim();
        let encoded = base64(text.as_bytes());
        let mut part = |head: &str, text: &str| body.push_str(&format!("--b\r\n{head}\r\n\r\n{text}\r\n"));
        match kind {
            0 => header.push_str(&format!("Subject: {line}\r\n")),
            1 => header.push_str(&format!("From: =?utf-8?b?{encoded}?= <a@b.example>\r\n")),
            2 => header.push_str(&format!("X-Odd: {line}\r\n")),
            3 => part("Content-Type: text/plain; charset=utf-8", text),
            4 => part("Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64", &encoded),
            5 => part("Content-Type: text/html; charset=utf-8", &format!("<p title=\"x\">{text}</p>")),
            6 => part(&format!("Content-Type: image/png; name*=utf-8''{}", percent(text)), "secret"),
            7 => part("Content-Type: message/rfc822", &format!("Subject: {line}\r\n\r\n{text}")),
            8 => part("Content-Type: text/plain; charset=utf-16le\r\nContent-Transfer-Encoding: base64", &{
                base64(&text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>())
            }),
            9 => header.push_str(&format!("From: {line} <joined({line})words @ ({line}) c. example>\r\n")),
            _ => part("Content-Disposition: attachment; filename=a.txt\r\nContent-Transfer-Encoding: x-odd", text),
        }
    }
    format!("{header}Content-Type: multipart/mixed; boundary=b\r\n\r\n{body}--b--\r\n").into_bytes()
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// A description of a needle: the text and the position to cut it from, and its case.
#[derive(Clone, Debug)]
struct Cut {
    of: prop::sample::Index,
    from: prop::sample::Index,
    length: usize,
    case: usize,
}

fn cuts() -> impl Strategy<Value = Vec<Cut>> {
    let cut = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..12_usize, 0..4_usize)
        .prop_map(|(of, from, length, case)| Cut { of, from, length, case });
    prop::collection::vec(cut, 12)
}

fn needle(cut: &Cut, texts: &[&str]) -> String {
    let text: Vec<char> = cut.of.get(texts).chars().collect();
    let from = cut.from.index(text.len());
    let found: String = text[from..].iter().take(cut.length).collect();
    match cut.case {
        0 => found.to_uppercase(),
        1 => found.to_lowercase(),
        _ => found,
    }
}

/// A client with the inbox selected.
struct Client(Connection);

impl Client {
    fn new(mut connection: Connection) -> Self {
        connection.receive(b"a LOGIN alice secret\r\nb SELECT INBOX\r\n");
        connection.lines.clear();
        Self(connection)
    }

    fn send(&mut self, line: &[u8]) -> Vec<String> {
        self.0.receive(line);
        self.0.lines.drain(..).filter(|line| !line.contains("EXISTS") && !line.contains("RECENT")).collect()
    }

    fn search(&mut self, key: &str, needle: &str) -> Vec<String> {
        let command = format!("c UID SEARCH CHARSET UTF-8 {key} {{{}+}}\r\n{needle}\r\n", needle.len());
        let response = self.send(command.as_bytes());
        assert!(response.iter().any(|line| line.starts_with("c OK")), "{response:?}");
        response
    }
}

/// Compares the results of two clients, one with the index and one without.
fn compare(world: &TestServer, needles: &[String]) {
    let mut with = Client::new(Connection::at(&world.context, Peer::local()));
    let mut without = Client::new(Connection::at(&world.context_without_index, Peer::local()));
    for needle in needles {
        for key in
            ["TEXT", "BODY", "SUBJECT", "HEADER X-Odd", "NOT TEXT", "OR FLAGGED BODY", "OR SUBJECT x BODY", "FROM"]
        {
            assert_eq!(with.search(key, needle), without.search(key, needle), "{key} {needle:?}");
        }
    }
}

fn world_with_others() -> TestServer {
    let world = TestServer::new();
    let file = world.open_as_server("alice");
    for number in 0..ADDITIONAL_MESSAGES {
        deliver(&file, format!("Subject: other {number}\r\n\r\nairport number {number}\r\n").as_bytes());
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn index_does_not_change_search_results(indexed in messages(), later in messages(), cuts in cuts()) {
        let world = world_with_others();
        let file = world.open_as_server("alice");
        indexed.iter().for_each(|parts| deliver(&file, &write(parts)));
        world.index("alice");
        let mut texts: Vec<&str> = indexed.iter().chain(&later).flatten().map(|part| part.text.as_str()).collect();
        texts.push("joinedwords");
        let needles: Vec<String> = cuts.iter().map(|cut| needle(cut, &texts)).collect();
        compare(&world, &needles);
        // At this point the index is out of date.
        later.iter().for_each(|parts| deliver(&file, &write(parts)));
        let mut client = Client::new(Connection::at(&world.context, Peer::local()));
        client.send(format!("d UID STORE {}:{} +FLAGS (\\Deleted)\r\ne EXPUNGE\r\nf STORE 1:3,42:* +FLAGS (\\Flagged)\r\n", 3, 5).as_bytes());
        compare(&world, &needles[..4]);
        world.index("alice");
        compare(&world, &needles[4..8]);
        prop_assert!(world.index_uses.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn addresses_are_indexed_without_comments() {
    let world = world_with_others();
    deliver(&world.open_as_server("alice"), b"From: Ann <ann(the)archer@ (x) example. org>\r\n\r\nx\r\n");
    world.index("alice");
    let mut client = Client::new(Connection::at(&world.context, Peer::local()));
    for (key, needle, found) in [
        ("FROM", "annarcher@example.org", true),
        ("FROM", "narch", true),
        ("FROM", "ann(the)", true),
        ("FROM", "annthe", false),
        ("CC", "ann", false),
    ] {
        let expected = if found { format!("* SEARCH {}", ADDITIONAL_MESSAGES + 1) } else { "* SEARCH".to_owned() };
        assert_eq!(client.search(key, needle)[0], expected, "{key} {needle}");
    }
    assert_eq!(world.index_uses.load(Ordering::Relaxed), 5);
}

#[test]
fn messages_ruled_out_by_the_index_are_not_read() {
    let world = world_with_others();
    let file = world.open_as_server("alice");
    deliver(&file, b"Subject: plan\r\n\r\nan aeroplane\r\n");
    let ruled_out = |world: &TestServer| {
        let snapshot = file.snapshot().expect("a snapshot");
        let sought = |part, folded: &str| search::SubstringKey { part, folded: folded.to_owned() };
        let texts = [
            vec![sought(search::NotePart::Body, "EROPL")],
            vec![sought(search::NotePart::Header, "PLAN")],
            Vec::new(),
            vec![sought(search::NotePart::Body, "PORT NUM")],
            vec![sought(search::NotePart::Body, "PORT NUMBER 3")],
            vec![sought(search::NotePart::Body, " - ")],
        ];
        let excluded = snapshot.messages_without(&world.search(), &texts).expect("the index is sound");
        excluded.iter().map(search::ExcludedNotes::len).collect::<Vec<_>>()
    };
    assert_eq!(ruled_out(&world), [0_usize; 0], "before indexing, no message is ruled out");
    world.index("alice");
    assert_eq!(ruled_out(&world), [ADDITIONAL_MESSAGES, ADDITIONAL_MESSAGES, 0, 1, ADDITIONAL_MESSAGES + 1 - 11, 0]);
    let mut client = Client::new(Connection::at(&world.context, Peer::local()));
    assert_eq!(client.search("BODY", "eropl")[0], format!("* SEARCH {}", ADDITIONAL_MESSAGES + 1));
    assert_eq!(world.index_uses.swap(0, Ordering::Relaxed), 1);
    client.search("UID 1:5 BODY", "eropl");
    client.send(b"d UID SEARCH LARGER 1 SENTSINCE 1-Jan-2000\r\n");
    assert_eq!(world.index_uses.load(Ordering::Relaxed), 0, "few messages are read, and entries contain their sizes");
}
