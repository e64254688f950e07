//! Properties of the query language that hold for every text.

use proptest::prelude::*;
use search::Query;
use search::limits::{QUERY_BYTES_MAX, QUERY_DEPTH_MAX, QUERY_PARTS_MAX};

/// Pieces of queries, valid and invalid.
static PIECES: [&str; 24] = [
    "cat",
    "Dog",
    "\"two words\"",
    "AND",
    "OR",
    "NOT",
    "NEAR",
    "NEAR/3",
    "(",
    ")",
    "-",
    "!",
    "|",
    "&",
    "a*",
    "?b",
    "FIELD",
    "Subject",
    "CONTAINS",
    "[Due]>=",
    "2024-01-31",
    "subject:cat",
    "\"",
    "~5",
];

/// Returns the character that an error names, counted from 1, and the reason.
fn position_and_reason(error: &str) -> (usize, &str) {
    let rest = error.strip_prefix("query, character ").expect("the error is about the query");
    let (position, reason) = rest.split_once(": ").expect("the error names a character");
    (position.parse().expect("a number"), reason)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_parses_or_reports_a_position(text in "\\PC{0,80}") {
        if let Err(error) = Query::parse(&text) {
            let message = error.to_string();
            let (position, reason) = position_and_reason(&message);
            prop_assert!((1..=text.chars().count() + 1).contains(&position), "{} {}", text, message);
            prop_assert!(!reason.is_empty());
        }
    }

    #[test]
    fn parentheses_and_blanks_do_not_change_a_query(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40),
    ) {
        let text = pieces.join(" ");
        if let Ok(query) = Query::parse(&text) {
            prop_assert_eq!(Query::parse(&format!("({text})")), Ok(query.clone()), "parentheses change nothing");
            prop_assert_eq!(Query::parse(&format!("  {text}  ")), Ok(query), "blanks change nothing");
        }
    }

    #[test]
    fn words_are_compared_without_case_and_accents(word in "[a-z]{1,8}") {
        let capital = word.to_uppercase();
        prop_assume!(!["AND", "OR", "NOT", "NEAR", "FIELD"].contains(&capital.as_str()));
        prop_assert_eq!(Query::parse(&capital), Query::parse(&word));
        prop_assert_eq!(Query::parse(&format!("{word}é")), Query::parse(&format!("{word}e")));
    }
}

#[test]
fn operator_words_and_signs_are_equivalent() {
    for (words, signs) in [
        ("cat AND dog", "cat & dog"),
        ("cat and dog", "cat dog"),
        ("cat OR dog", "cat | dog"),
        ("cat or dog", "cat, dog"),
        ("cat NOT dog", "cat -dog"),
        ("cat AND NOT dog", "cat !dog"),
        ("FIELD Subject CONTAINS cat", "subject:cat"),
        ("[Subject]=cat", "SUBJECT:cat"),
        ("cat NEAR dog", "cat NEAR/8 dog"),
    ] {
        assert_eq!(Query::parse(words), Query::parse(signs), "{words}");
        assert!(Query::parse(words).is_ok(), "{words}");
    }
}

#[test]
fn query_limits_are_exact() {
    let longest = "a".repeat(QUERY_BYTES_MAX);
    assert!(Query::parse(&longest).is_ok() && Query::parse(&format!("{longest}a")).is_err());
    let nested = |depth: usize| format!("{}cat{}", "(".repeat(depth), ")".repeat(depth));
    let deepest = (1..100).take_while(|depth| Query::parse(&nested(*depth)).is_ok()).last();
    assert_eq!(deepest, Some(QUERY_DEPTH_MAX));
    let most = (1..1_000).take_while(|count| Query::parse(&"cat ".repeat(*count)).is_ok()).last();
    assert_eq!(most, Some(QUERY_PARTS_MAX));
}
