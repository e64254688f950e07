//! Tests of the messages that a key matches, and of the data that it examines.

use super::*;
use crate::codec::command::{Bound, SequenceRange, SequenceSet, SystemFlags};
use crate::message::message_fixture::{EntryFixture, MessageFixture};

const RAW: &str = "From: =?utf-8?q?J=C3=B6rg?= <joerg@example.org>\r\nTo: a@b, \"Doe, John\" <c@d>\r\nCc: e@f\r\n\
    Date: Fri, 21 Nov 1997 23:30:00 -0600\r\nSubject: =?iso-8859-1?q?Gr=FC=DFe?= from\r\n afar\r\nX-Empty:\r\n\
    Content-Type: multipart/mixed; boundary=b\r\n\r\npreamble\r\n--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\
    Content-Transfer-Encoding: quoted-printable\r\n\r\nein sch=F6ner T=\r\nag\r\n--b\r\nContent-Type: text/html\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nPGI+VGlzPC9iPmNo\r\n--b\r\nContent-Type: image/png; name=\"kr\u{fc}mel.png\"\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nc2VjcmV0\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ninside\r\n--b--\r\n";

fn boxed(key: SearchKey) -> Box<SearchKey> {
    Box::new(key)
}

fn matches(key: &SearchKey) -> bool {
    let message = MessageFixture::parse(RAW.as_bytes());
    let plan = SearchPlan::new(key, Timestamp::default());
    let Ok(found) = plan.matches(&message.entry, &message);
    if let Some(decided) = plan.decide(&message.entry) {
        assert_eq!(decided, found, "{key:?}");
    }
    assert_eq!(match_in_steps(&plan, &message).0, found, "{key:?}");
    // A key that occurs twice must not change the result.
    let twice = SearchPlan::new(&SearchKey::Or(boxed(key.clone()), boxed(key.clone())), Timestamp::default());
    assert_eq!(twice.matches(&message.entry, &message), Ok(found), "{key:?}");
    found
}

/// Matches a message and interrupts the match after each step. Returns the number of interruptions, too.
fn match_in_steps(plan: &SearchPlan, message: &MessageFixture<'_>) -> (bool, usize) {
    let mut progress = plan.begin_match(&message.entry);
    let is_over = || false;
    let mut interruptions = 0;
    loop {
        let mut budget = SearchBudget::new(1, &is_over);
        let Ok(found) = plan.continue_match((&message.entry, message), &mut progress, &mut budget);
        if let Some(matches) = found {
            return (matches, interruptions);
        }
        interruptions += 1;
    }
}

fn check_texts(key: fn(String) -> SearchKey, found: &[&str], missing: &[&str]) {
    for text in found {
        assert!(matches(&key((*text).into())), "{text:?} is found");
    }
    for text in missing {
        assert!(!matches(&key((*text).into())), "{text:?} is not found");
    }
}

#[test]
fn texts_are_found_decoded_and_in_any_case() {
    check_texts(
        SearchKey::Subject,
        &["gr\u{fc}\u{df}e FROM afar", "GR\u{dc}SSE", "", "gru"],
        &["=?iso", "from afar x"],
    );
    check_texts(|text| SearchKey::Address(AddressField::From, text), &["j\u{f6}rg", "EXAMPLE.org", ""], &["a@b"]);
    check_texts(|text| SearchKey::Address(AddressField::To, text), &["doe, john", "a@b", "c@d"], &["e@f"]);
    check_texts(|text| SearchKey::Address(AddressField::Bcc, text), &[], &["", "a"]);
    let body = ["SCH\u{d6}NER tag", "<b>tis", "tisch", "kr\u{fc}mel", "inner", "inside", ""];
    check_texts(SearchKey::Body, &body, &["secret", "preamble", "sch=F6", "joerg", "boundary"]);
    check_texts(
        SearchKey::Text,
        &[&body[..], &["subject: gr\u{fc}\u{df}e", "joerg@"]].concat(),
        &["secret", "nowhere"],
    );
}

#[test]
fn addresses_match_as_written_and_as_in_envelope() {
    const RAW: &str = "From: \"Doe, (J.)\" <john(his account)doe (c)@ (c) example.org>\r\n\
        To: Friends(of mine): \"a\\b\" @ c . test (Ann), =?utf-8?q?J=C3=B6rg?=\r\n <j@x>;\r\n\r\n";
    let message = MessageFixture::parse(RAW.as_bytes());
    let check = |key: SearchKey, expected: bool| {
        let Ok(found) = SearchPlan::new(&key, Timestamp::default()).matches(&message.entry, &message);
        assert_eq!(found, expected, "{key:?}");
    };
    let from = |text: &str| SearchKey::Address(AddressField::From, text.into());
    let to = |text: &str| SearchKey::Address(AddressField::To, text.into());
    check(from("johndoe@example.org"), true);
    check(from("Doe, (J.) <JOHNDOE@EXAMPLE.ORG>"), true);
    check(from("john(his account)doe (c)@"), true);
    check(from("\"Doe, (J.)\""), true);
    check(from("his account@"), false);
    check(to("ab@c.test"), true);
    check(to("ann <ab@c.test>, j\u{f6}rg <j@x>"), true);
    check(to("friends: "), true);
    check(to("johndoe"), false);
    // HEADER and TEXT search the text of the header.
    check(SearchKey::Header { name: "From".into(), value: "johndoe@example.org".into() }, false);
    check(SearchKey::Text("johndoe@example.org".into()), false);
}

#[test]
fn header_key_examines_all_fields_of_a_name() {
    let header = |name: &str, value: &str| SearchKey::Header { name: name.into(), value: value.into() };
    assert!(matches(&header("x-empty", "")));
    assert!(matches(&header("TO", "john")));
    assert!(!matches(&header("X-None", "")));
    assert!(!matches(&header("X-Empty", "a")));
}

#[test]
fn sent_dates_use_the_senders_day() {
    let date = |day| Date::new(1997, 11, day).expect("a day of November");
    assert!(matches(&SearchKey::SentOn(date(21))));
    assert!(!matches(&SearchKey::SentOn(date(22))));
    assert!(matches(&SearchKey::SentBefore(date(22))) && !matches(&SearchKey::SentBefore(date(21))));
    assert!(matches(&SearchKey::SentSince(date(21))) && !matches(&SearchKey::SentSince(date(22))));
    let undated = MessageFixture::parse(b"Date: never\r\n\r\n");
    let plan = SearchPlan::new(&SearchKey::SentSince(date(1)), Timestamp::default());
    assert_eq!(plan.matches(&undated.entry, &undated), Ok(false));
}

fn entry() -> EntryFixture {
    EntryFixture {
        uid: 7,
        flags: SystemFlags::SEEN,
        keywords: vec!["$Work"],
        recent: true,
        mod_sequence: 50,
        size: 1_000,
        received: Timestamp::from_seconds(86_400 * 100 - 1),
        saved: Some(Timestamp::from_seconds(86_400 * 100)),
        excluded: Vec::new(),
    }
}

#[test]
fn entry_data_decides_keys_without_the_message() {
    let now = Timestamp::from_seconds(86_400 * 100 + 59);
    let check = |key: SearchKey, expected: bool| {
        let plan = SearchPlan::new(&key, now);
        assert_eq!(plan.decide(&entry()), Some(expected), "{key:?}");
        assert!(plan.needs() <= RequiredData::Entry, "{key:?}");
    };
    // 1970-04-10 is day 99.
    let day = |day| Date::new(1970, 4, day).expect("a day of April");
    check(SearchKey::All, true);
    check(SearchKey::System(SystemFlags::SEEN), true);
    check(SearchKey::Not(boxed(SearchKey::System(SystemFlags::DRAFT))), true);
    check(SearchKey::Keyword("$WORK".into()), true);
    check(SearchKey::Keyword("other".into()), false);
    check(SearchKey::Recent, true);
    check(SearchKey::On(day(10)), true);
    check(SearchKey::Before(day(10)), false);
    check(SearchKey::Before(day(11)), true);
    check(SearchKey::Since(day(10)), true);
    check(SearchKey::Since(day(11)), false);
    check(SearchKey::SavedOn(day(11)), true);
    check(SearchKey::SavedBefore(day(11)), false);
    check(SearchKey::SavedSince(day(11)), true);
    check(SearchKey::SaveDateSupported, true);
    check(SearchKey::Older(60), true);
    check(SearchKey::Younger(60), true);
    check(SearchKey::Older(61), false);
    check(SearchKey::Younger(59), false);
    check(SearchKey::Larger(999), true);
    check(SearchKey::Larger(1_000), false);
    check(SearchKey::Smaller(1_001), true);
    check(SearchKey::ModSeq(50), true);
    check(SearchKey::ModSeq(51), false);
    check(SearchKey::Uid(uids(&[(9, 9), (5, 7)])), true);
    check(SearchKey::Uid(uids(&[(8, 9), (1, 6)])), false);
    check(SearchKey::Sequence(uids(&[(1, 9)])), false);
}

fn uids(ranges: &[(u32, u32)]) -> MessageSet {
    let range = |&(first, last): &(u32, u32)| SequenceRange { first: Bound::Number(first), last: Bound::Number(last) };
    MessageSet::Numbers(SequenceSet { ranges: ranges.iter().map(range).collect() })
}

#[test]
fn message_is_opened_only_if_the_entry_is_undecided() {
    let seen = || SearchKey::System(SystemFlags::SEEN);
    let unseen = || SearchKey::Not(boxed(seen()));
    let body = || SearchKey::Body("x".into());
    let check = |key: SearchKey, expected: Option<bool>| {
        assert_eq!(SearchPlan::new(&key, Timestamp::default()).decide(&entry()), expected)
    };
    check(SearchKey::And(vec![body(), unseen()]), Some(false));
    check(SearchKey::And(vec![body(), seen()]), None);
    check(SearchKey::Or(boxed(body()), boxed(seen())), Some(true));
    check(SearchKey::Or(boxed(body()), boxed(unseen())), None);
    check(SearchKey::Not(boxed(SearchKey::And(vec![unseen(), body()]))), Some(true));
}

#[test]
fn body_is_read_only_if_the_header_is_undecided() {
    let message = MessageFixture::parse(RAW.as_bytes());
    let check = |key: SearchKey, expected: bool, reads: bool| {
        message.reads.set(0);
        let plan = SearchPlan::new(&key, Timestamp::default());
        assert_eq!(plan.matches(&message.entry, &message), Ok(expected), "{key:?}");
        assert_eq!(message.reads.get() > 0, reads, "{key:?}");
    };
    let body = || SearchKey::Body("inside".into());
    check(SearchKey::And(vec![body(), SearchKey::Subject("nowhere".into())]), false, false);
    check(SearchKey::Or(boxed(body()), boxed(SearchKey::Subject("afar".into()))), true, false);
    check(SearchKey::And(vec![body(), SearchKey::Subject("afar".into())]), true, true);
    check(SearchKey::Text("afar".into()), true, false);
    check(SearchKey::EmailId("M1".into()), true, false);
    check(SearchKey::ThreadId("T1".into()), false, false);
    check(SearchKey::Body(String::new()), true, false);
}

#[test]
fn texts_ruled_out_by_the_index_are_not_read() {
    let body = || SearchKey::Body("Inside".into());
    let subject = || SearchKey::Subject(" afar".into());
    let keys = SearchKey::And(vec![SearchKey::Text("x".into()), SearchKey::Not(boxed(body())), subject(), subject()]);
    let sought = SearchPlan::new(&keys, Timestamp::default()).sought_texts();
    let substrings = |substrings: &Vec<SubstringKey>| {
        substrings.iter().map(|sought| (sought.part, sought.folded.clone())).collect::<Vec<_>>()
    };
    let of_header = |text: &str| (NotePart::Header, text.to_owned());
    let of_body = |text: &str| (NotePart::Body, text.to_owned());
    let expected = [vec![of_header(" AFAR")], vec![of_header(" AFAR")], vec![of_body("X")], vec![of_body("INSIDE")]];
    assert_eq!(sought.iter().map(substrings).collect::<Vec<_>>(), expected);
    let check = |key: SearchKey, excluded: &[usize], decided: Option<bool>, matches: bool, reads: bool| {
        let mut message = MessageFixture::parse(RAW.as_bytes());
        message.entry.excluded = excluded.to_vec();
        let plan = SearchPlan::new(&key, Timestamp::default());
        assert_eq!(plan.decide(&message.entry), decided, "{key:?}");
        assert_eq!(plan.matches(&message.entry, &message), Ok(matches), "{key:?}");
        assert_eq!(message.reads.get() > 0, reads, "{key:?}");
    };
    let other = SearchKey::Header { name: "Date".into(), value: "x".into() };
    assert_eq!(SearchPlan::new(&other, Timestamp::default()).sought_texts(), [Vec::new()]);
    check(SearchKey::Text("inside".into()), &[], None, true, true);
    check(SearchKey::Text("inside".into()), &[0], None, false, false);
    check(SearchKey::Text("subject: ".into()), &[0], None, true, false);
    check(body(), &[], None, true, true);
    check(body(), &[0], Some(false), false, false);
    check(SearchKey::Not(boxed(body())), &[0], Some(true), true, false);
    check(SearchKey::Or(boxed(body()), boxed(subject())), &[1], None, true, false);
    check(SearchKey::Or(boxed(body()), boxed(subject())), &[0, 1], Some(false), false, false);
    check(SearchKey::Subject(String::new()), &[0], None, true, false);
    check(SearchKey::Body(String::new()), &[0], Some(true), true, false);
}

#[test]
fn each_part_is_read_once_for_many_keys() {
    let message = MessageFixture::parse(RAW.as_bytes());
    let keys = (0..20).map(|number| SearchKey::Not(boxed(SearchKey::Body(format!("nowhere{number}"))))).collect();
    let plan = SearchPlan::new(&SearchKey::And(keys), Timestamp::default());
    assert_eq!(plan.matches(&message.entry, &message), Ok(true));
    assert!(message.reads.get() <= message_parts(&message), "{} reads", message.reads.get());
}

#[test]
fn large_parts_are_searched_in_steps() {
    const PIECE: usize = mail::limits::SEARCH_PIECE_BYTES;
    const PIECES: usize = 5;
    // Each text lies across the ends of two pieces, and the last one across all of them.
    let mut body = vec![b'.'; PIECE * PIECES];
    for index in 1..PIECES {
        let needle = format!("needle{index}");
        body[PIECE * index - 3..][..needle.len()].copy_from_slice(needle.as_bytes());
    }
    let body = String::from_utf8(body).expect("ASCII");
    let key = |text: &str| SearchKey::Body(text.to_owned());
    let all: Vec<SearchKey> = (1..PIECES).map(|index| key(&format!("NEEDLE{index}"))).collect();
    let check = |raw: &str, key: SearchKey, expected: (bool, usize)| {
        let message = MessageFixture::parse(raw.as_bytes());
        let plan = SearchPlan::new(&key, Timestamp::default());
        assert_eq!(plan.matches(&message.entry, &message), Ok(expected.0));
        assert_eq!(match_in_steps(&plan, &message), expected);
    };
    for media in ["text/plain", "text/html"] {
        let raw = format!("Content-Type: {media}\r\n\r\n{body}");
        // A text that begins in a piece is found with the piece in which it ends.
        check(&raw, key("needle1"), (true, 1));
        check(&raw, key("needle4"), (true, PIECES - 1));
        check(&raw, key("needle5"), (false, PIECES + 1));
        check(&raw, key(&body[1..]), (true, PIECES - 1));
        check(&raw, SearchKey::And(all.clone()), (true, PIECES - 1));
        check(&raw, SearchKey::Not(boxed(SearchKey::Or(boxed(key("none")), boxed(key("needle2"))))), (false, 2));
        // TEXT examines the header first.
        let both = vec![key("needle2"), SearchKey::Not(boxed(SearchKey::Text("needle1".into())))];
        check(&raw, SearchKey::And(both), (false, 2));
    }
}

#[test]
fn long_headers_are_searched_in_steps() {
    let field = format!("X-Field: {}\r\n", "x".repeat(990));
    let fields = field.repeat(200);
    let raw = format!("{fields}Subject: y\r\n{fields}\r\n");
    let message = MessageFixture::parse(raw.as_bytes());
    let check = |key: SearchKey, expected: bool, interruptions_min: usize| {
        let plan = SearchPlan::new(&key, Timestamp::default());
        let (found, interruptions) = match_in_steps(&plan, &message);
        assert_eq!(found, expected, "{key:?}");
        assert!(interruptions >= interruptions_min, "{key:?}: {interruptions}");
    };
    let pieces = raw.len() / (2 * mail::limits::SEARCH_PIECE_BYTES);
    check(SearchKey::Subject("y".into()), true, pieces - 1);
    check(SearchKey::Subject("x".into()), false, 2 * pieces);
    check(SearchKey::Text("subject: y".into()), true, pieces - 1);
    // Nothing is found across two fields.
    check(SearchKey::Text("xX-Field".into()), false, 2 * pieces);
    let many = (0..100).map(|number| SearchKey::Not(boxed(SearchKey::Text(format!("none {number}")))));
    check(SearchKey::And(many.chain([SearchKey::Subject("Y".into())]).collect()), true, 2 * pieces);
}

fn message_parts(message: &MessageFixture<'_>) -> usize {
    mail::mime::MimeSource::structure(message).parts().len()
}

#[test]
fn plan_limits_the_uids_that_can_match() {
    let check = |key: SearchKey, expected: Option<&str>| {
        let plan = SearchPlan::new(&key, Timestamp::default());
        assert_eq!(plan.uids().map(ToString::to_string).as_deref(), expected);
    };
    let set = || SearchKey::Uid(uids(&[(9, 9), (5, 7)]));
    check(set(), Some("5:7,9"));
    check(SearchKey::And(vec![SearchKey::Body("x".into()), set(), SearchKey::Recent]), Some("5:7,9"));
    check(SearchKey::Not(boxed(set())), None);
    check(SearchKey::Or(boxed(set()), boxed(SearchKey::Recent)), None);
}
