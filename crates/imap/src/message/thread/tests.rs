//! Tests of the threads that are built from messages.

use super::*;
use crate::codec::ResponseWriter;
use crate::message::message_fixture::EntryFixture;

/// Builds threads from headers. UIDs are positions from 1, and internal dates ascend with the UIDs.
fn threads(algorithm: ThreadAlgorithm, headers: &[String]) -> String {
    let mut threader = Threader::new(algorithm);
    for (index, header) in headers.iter().enumerate() {
        let uid = index as u32 + 1;
        let received = Timestamp::from_seconds(1_000_000_000 + i64::from(uid));
        threader.add(uid, &EntryFixture { uid, received, ..EntryFixture::default() }, header.as_bytes());
    }
    let mut out = ResponseWriter::new();
    threader.build().finish().write(&mut out);
    String::from_utf8_lossy(&out.take()).into_owned()
}

/// Creates the header of a message from its id, the ids that it refers to, and its subject. Each may be empty.
fn message(id: &str, references: &str, subject: &str) -> String {
    let list = |ids: &str| ids.split_whitespace().map(|id| format!("<{id}@x>")).collect::<Vec<_>>().join(" ");
    format!("Message-ID: {}\r\nReferences: {}\r\nSubject: {subject}\r\n\r\n", list(id), list(references))
}

fn check(messages: &[(&str, &str, &str)], expected: &str) {
    let headers: Vec<_> = messages.iter().map(|(id, references, subject)| message(id, references, subject)).collect();
    assert_eq!(threads(ThreadAlgorithm::References, &headers), expected, "{messages:?}");
}

#[test]
fn replies_are_children_of_their_references() {
    check(&[("a", "", "s"), ("b", "a", "Re: s"), ("c", "a b", "Re: s"), ("d", "", "t")], "(1 2 3)(4)");
    check(&[("a", "", "s"), ("b", "a", "Re: s"), ("c", "a", "Re: s"), ("d", "a c", "Re: s")], "(1 (2)(3 4))");
    check(&[("c", "a b", "s"), ("b", "a", "s"), ("a", "", "s")], "(3 2 1)");
    check(&[], "");
}

#[test]
fn missing_parents_group_their_children() {
    check(&[("b", "a", "s"), ("c", "a", "t")], "((1)(2))");
    check(&[("b", "a", "s")], "(1)");
    check(&[("c", "a b", "s"), ("d", "a b", "t"), ("e", "a", "u")], "((1)(2)(3))");
    check(&[("a", "", "s"), ("d", "a b c", "t"), ("e", "a b", "u")], "(1 (2)(3))");
}

#[test]
fn in_reply_to_is_used_without_references() {
    let headers = [
        "Message-ID: <a@x>\r\nSubject: s\r\n".to_owned(),
        "Message-ID: <b@x>\r\nIn-Reply-To: your mail of today <a@x> and <z@x>\r\nSubject: t\r\n".to_owned(),
        "Message-ID: <c@x>\r\nReferences: none\r\nIn-Reply-To: <b@x>\r\nSubject: u\r\n".to_owned(),
    ];
    assert_eq!(threads(ThreadAlgorithm::References, &headers), "(1 2 3)");
}

#[test]
fn reference_loops_are_avoided() {
    check(&[("a", "b", "s"), ("b", "a", "t")], "(2 1)");
    check(&[("a", "a", "s")], "(1)");
    check(&[("a", "b c a", "s"), ("b", "c", "t"), ("c", "b", "u")], "(1)(3 2)");
    check(&[("x", "p q p q", "s"), ("y", "q p", "t")], "((1)(2))");
}

#[test]
fn duplicate_message_id_starts_a_new_thread() {
    check(&[("a", "", "s"), ("a", "", "t"), ("b", "a", "u"), ("", "", "v")], "(1 3)(2)(4)");
}

#[test]
fn threads_with_the_same_subject_are_merged() {
    check(&[("a", "", "s"), ("b", "", "Re: s")], "(1 2)");
    check(&[("b", "", "Re: s"), ("a", "", "S")], "(2 1)");
    check(&[("a", "", "s"), ("b", "", "s")], "((1)(2))");
    check(&[("a", "", "s"), ("b", "", "s"), ("c", "", "Re: s")], "((1)(2)(3))");
    check(&[("a", "", "Re: s"), ("b", "", "Re: s")], "((1)(2))");
    check(&[("a", "", ""), ("b", "", "Re:")], "(1)(2)");
    // A dummy absorbs messages and other dummies.
    check(&[("b", "a", "s"), ("c", "a", "s"), ("d", "", "s")], "((1)(2)(3))");
    check(&[("b", "a", "s"), ("c", "a", "s"), ("e", "d", "s"), ("f", "d", "s")], "((1)(2)(3)(4))");
    check(&[("x", "", "first"), ("a", "", "s"), ("y", "", "last"), ("b", "", "s")], "(1)((2)(4))(3)");
}

#[test]
fn siblings_and_threads_are_sorted_by_sent_date() {
    let dated = |id: &str, references: &str, subject: &str, day: u32| {
        format!("Date: {day} Jan 2001 00:00:00 +0000\r\n{}", message(id, references, subject))
    };
    let headers = [
        dated("a", "", "s", 9),
        dated("b", "a", "s", 8),
        dated("c", "a", "s", 7),
        dated("d", "", "t", 6),
        dated("f", "e", "u", 5),
        dated("g", "e", "u", 4),
    ];
    assert_eq!(threads(ThreadAlgorithm::References, &headers), "((6)(5))(4)(1 (3)(2))");
}

#[test]
fn ordered_subject_yields_flat_threads() {
    let subjects = ["b", "Re: a", "b (fwd)", "a", "c", "[x] B"];
    let headers: Vec<_> = subjects.iter().map(|subject| message("", "", subject)).collect();
    assert_eq!(threads(ThreadAlgorithm::OrderedSubject, &headers), "(1 (3)(6))(2 4)(5)");
}

#[test]
fn very_deep_threads_are_built() {
    let count = 50_000;
    let id = |number: usize| format!("<{number}@x>");
    let header = |number: usize| format!("Message-ID: {}\r\nReferences: {}\r\n\r\n", id(number), id(number + 1));
    // Each message refers to the next one, so that each link puts the complete connected tree below a new parent.
    let headers: Vec<_> = (0..count).map(header).collect();
    let text = threads(ThreadAlgorithm::References, &headers);
    assert!(text.starts_with(&format!("({} {} ", count, count - 1)) && text.ends_with(" 2 1)"));
    let missing: Vec<_> = (0..count).map(|number| message("", &format!("m{} m{}", number, number + 1), "")).collect();
    assert_eq!(threads(ThreadAlgorithm::References, &missing).matches('(').count(), count + 1);
}

#[test]
fn each_message_occurs_once_in_the_threads() {
    let mut random = 1_u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    for _ in 0..2_000 {
        let count = 1 + next(12);
        let headers: Vec<_> = (0..count)
            .map(|_| {
                let references: Vec<_> = (0..next(4)).map(|_| next(12).to_string()).collect();
                let subject = ["", "s", "Re: s", "t"][next(4) as usize];
                message(&next(12).to_string(), &references.join(" "), subject)
            })
            .collect();
        for algorithm in [ThreadAlgorithm::References, ThreadAlgorithm::OrderedSubject] {
            let text = threads(algorithm, &headers);
            let mut listed: Vec<u64> = text.split(['(', ')', ' ']).filter_map(|number| number.parse().ok()).collect();
            listed.sort_unstable();
            assert_eq!(listed, (1..=count).collect::<Vec<_>>(), "{text} of {headers:?}");
            assert_eq!(text.matches('(').count(), text.matches(')').count(), "{text}");
        }
    }
}
