//! Files that are made to break the reader: each is refused with few findings, and soon.

use super::super::limits::{FILE_BYTES_MAX, FINDINGS_MAX, NESTING_MAX};
use super::{HEAD, STEP, findings, with_keys, with_tables};

#[test]
fn a_file_beyond_its_limit_is_not_parsed() {
    let text = format!("{HEAD}{STEP}# {}", "x".repeat(1 << 20));
    assert_eq!(findings(&text, &[]), ["the file is longer than 256 KiB"]);
    let longest = format!("{HEAD}{STEP}#");
    let longest = format!("{longest}{}", "x".repeat(FILE_BYTES_MAX - longest.len()));
    assert_eq!((longest.len(), findings(&longest, &[])), (FILE_BYTES_MAX, Vec::new()));
}

#[test]
fn nesting_has_a_limit() {
    let list = |depth: usize| with_keys(&format!("about = {}{}", "[".repeat(depth), "]".repeat(depth)));
    let deepest = NESTING_MAX - 1;
    assert_eq!(
        findings(&list(deepest), &[]),
        [format!("line 5: about: {}{} is not a text", "[".repeat(7), "]".repeat(7))]
    );
    let expected = ["line 5: tables and lists are nested more than 8 deep"];
    assert_eq!(findings(&list(deepest + 1), &[]), expected);
    assert_eq!(findings(&with_tables(&format!("[a{}]", ".a".repeat(20))), &[]), [expected[0].replace('5', "6")]);
    for depth in [100, 10_000, 100_000] {
        let found = findings(&list(depth), &[]);
        assert!(!found.is_empty() && found.len() <= FINDINGS_MAX, "{depth}: {}", found.len());
        let found = findings(&with_keys(&format!("a{} = 1", ".a".repeat(depth))), &[]);
        assert!(!found.is_empty() && found.len() <= FINDINGS_MAX, "{depth}: {}", found.len());
        let found = findings(&with_keys(&format!("a = {}", "{a=".repeat(depth))), &[]);
        assert!(!found.is_empty() && found.len() <= FINDINGS_MAX, "{depth}: {}", found.len());
    }
}

#[test]
fn many_errors_are_counted() {
    let keys: String = (0..20_000).map(|number| format!("k{number}=1\n")).collect();
    let found = findings(&with_keys(&keys), &[]);
    assert_eq!(found.len(), FINDINGS_MAX + 1);
    assert_eq!(found.last().map(String::as_str), Some("19900 more errors"));
    let steps = "{},".repeat(60_000);
    let found = findings(&format!("{HEAD}step = [{steps}]"), &[]);
    assert_eq!(found, ["line 5: step: the list has more than 1,000 members"]);
}

#[test]
fn long_words_are_cut() {
    let word = "readread".repeat(8_000);
    let found = findings(&format!("{HEAD}step = [{{ verb = \"{word}\" }}]"), &[]);
    assert_eq!(found.len(), 1);
    assert!(found[0].len() < 200, "{}", found[0].len());
    let found = findings(&with_keys(&format!("{word} = 1")), &[]);
    assert_eq!(found, [format!("line 5: there is no key {}…", &word[..60])]);
    let found = findings(&with_keys("door = \"\\u001b[2J\\n\""), &[]);
    assert_eq!(found, ["line 5: door: \\u{1b}[2J\\n: not one of native, imap, pop3, jmap, lite, full"]);
}

#[test]
fn errors_of_the_grammar_have_their_line() {
    let check = |text: &str, expected: &[&str]| {
        let found = findings(text, &[]);
        assert!(!found.is_empty(), "{text}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    };
    check(&with_keys("users = 1\nusers = 2"), &["line 6: not valid TOML: duplicate key"]);
    check(&with_tables("[mailbox]\n[mailbox]"), &["line 7: not valid TOML: duplicate key"]);
    check(&with_keys("users = = 1"), &["line 5: not valid TOML: "]);
    check(&with_keys("users = 1 }"), &["line 5: not valid TOML: "]);
    check(&with_keys("about = \"\"\"never closed"), &["line 7: not valid TOML: "]);
    check("\u{0}\u{1}\u{2}", &["line 1: not valid TOML: "]);
}
