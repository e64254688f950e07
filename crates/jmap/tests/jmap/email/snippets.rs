//! Highlighted sections of texts.

use jmap::email::snippet;
use proptest::prelude::*;

use super::searchable_body_text;

#[track_caller]
fn check(text: &str, terms: &[&str], octets_max: usize, expected: Option<&str>) {
    let terms: Vec<String> = terms.iter().map(|term| (*term).to_owned()).collect();
    assert_eq!(snippet(text, &terms, octets_max).as_deref(), expected, "{text:?} {terms:?}");
}

#[test]
fn terms_are_highlighted_regardless_of_case_and_accents() {
    check("The Foosball", &["foo"], 255, Some("The <mark>Foo</mark>sball"));
    check("Caf\u{e9} M\u{fc}ller", &["CAFE", "muller"], 255, Some("<mark>Caf\u{e9}</mark> <mark>M\u{fc}ller</mark>"));
    check("cafe\u{301} x", &["caf\u{e9}"], 255, Some("<mark>cafe\u{301}</mark> x"));
    check("Stra\u{df}e", &["STRASSE"], 255, Some("<mark>Stra\u{df}e</mark>"));
    check("a  b\r\n\tc", &["b c"], 255, Some("a <mark>b c</mark>"));
    check("abcde", &["bc", "cd"], 255, Some("a<mark>bcd</mark>e"));
    check("foo", &["bar"], 255, None);
    check("foo", &[""], 255, None);
    check("", &["a"], 255, None);
}

#[test]
fn text_is_escaped() {
    check("1 <b> & \"x\" 'y'", &["b"], 255, Some("1 &lt;<mark>b</mark>&gt; &amp; &quot;x&quot; &#39;y&#39;"));
    check("</mark><script>", &["script"], 255, Some("&lt;/mark&gt;&lt;<mark>script</mark>&gt;"));
}

#[test]
fn section_contains_the_first_term() {
    let text = format!("{}needle{}", "before ".repeat(100), " after".repeat(100));
    let found = snippet(&text, &["needle".to_owned()], 100).expect("the term is found");
    assert!(found.starts_with("\u{2026}before ") && found.ends_with('\u{2026}'), "{found}");
    assert!(found.contains("<mark>needle</mark> after") && found.len() <= 100, "{found}");
    let escaped = format!("{}needle", "&".repeat(1_000));
    let found = snippet(&escaped, &["needle".to_owned()], 60).expect("the term is found");
    assert_eq!(found, "\u{2026}<mark>needle</mark>");
}

#[test]
fn body_text_is_that_of_plain_and_html_parts() {
    let raw = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nplain\r\n--b\r\nContent-Type: text/html\r\n\r\n\
        <p>html &amp; <script>no</script>\r\n--b\r\nContent-Type: image/png\r\n\r\nPNG\r\n--b--\r\n";
    let text = searchable_body_text(raw.as_bytes());
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["plain", "html", "&"]);
}

proptest! {
    #[test]
    fn snippet_is_bounded_escaped_and_balanced(
        text in "[a-c <>&\"\u{e9}\u{301}\u{df}\u{1f600}]{0,80}",
        terms in prop::collection::vec("[a-c \u{e9}]{0,4}", 0..4),
        octets_max in 0_usize..120,
    ) {
        if let Some(found) = snippet(&text, &terms, octets_max) {
            prop_assert!(found.len() <= octets_max, "{found}");
            let inside = found.replace("<mark>", "\u{1}").replace("</mark>", "\u{2}");
            prop_assert!(!inside.contains(['<', '>', '"']), "{found}");
            let tags: String = inside.chars().filter(|character| "\u{1}\u{2}".contains(*character)).collect();
            prop_assert!(!tags.is_empty() && tags.replace("\u{1}\u{2}", "").is_empty(), "{found}");
        }
    }

    #[test]
    fn a_term_of_the_text_is_found(before in "[a-z ]{0,30}", term in "[a-z\u{e9}]{1,8}", after in "[a-z ]{0,400}") {
        let text = format!("{before}{term}{after}");
        let found = snippet(&text, std::slice::from_ref(&term), 255);
        prop_assert!(found.is_some_and(|found| found.contains("<mark>")));
    }
}
