//! Tests of the trees of valid queries and the errors of invalid ones.

use super::*;

fn show(node: &QueryNode) -> String {
    let many =
        |name: &str, nodes: &[QueryNode]| format!("({name} {})", nodes.iter().map(show).collect::<Vec<_>>().join(" "));
    let at = |scope: &Scope| match scope {
        Scope::Any => String::new(),
        Scope::Body => "body:".to_owned(),
        Scope::Item(name) => format!("{name}:"),
    };
    match node {
        QueryNode::All => "*".to_owned(),
        QueryNode::Phrase { scope, words } => format!("{}{}", at(scope), words.join("_")),
        QueryNode::Near { scope, words, distance } => format!("{}near{distance}[{}]", at(scope), words.join(" ")),
        QueryNode::Pattern { scope, pattern } => format!("{}~{pattern}", at(scope)),
        QueryNode::Item { name, range } => format!("{name}{}", show_range(*range)),
        QueryNode::Property { property, range } => format!("{property:?}{}", show_range(*range)),
        QueryNode::And(nodes) => many("and", nodes),
        QueryNode::Or(nodes) => many("or", nodes),
        QueryNode::Not(node) => format!("(not {})", show(node)),
    }
}

fn show_range(range: Range) -> String {
    match range {
        Range::Numbers { from, to } => format!("#{}..{}", show_end(from), show_end(to)),
        Range::Times { from, before } => {
            let show = |time: Option<Timestamp>| time.map_or(String::new(), |time| time.seconds().to_string());
            format!("@{}..{}", show(from), show(before))
        }
    }
}

fn show_end(end: Option<(f64, bool)>) -> String {
    end.map_or(String::new(), |(number, belongs)| format!("{number}{}", if belongs { "" } else { "!" }))
}

fn check(text: &str, expected: &str) {
    match Query::parse(text) {
        Ok(query) => assert_eq!(show(&query.root), expected, "{text}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}

#[test]
fn words_and_phrases() {
    check("Hello", "hello");
    check("cat dog", "(and cat dog)");
    check("\"cat dog\" bird", "(and cat_dog bird)");
    check("john.doe@example.com", "john_doe_example_com");
    check("AT&T", "at_t");
    check("東京", "東_京");
    check("http://example.com/x", "http_example_com_x");
    check("10:30 a - b ... c", "(and 10_30 a b c)");
    check("(a -) b !, c-", "(or (and a b) c)");
    check("hello!", "hello");
    check("*", "*");
}

#[test]
fn operators() {
    check("cat AND dog OR bird", "(or (and cat dog) bird)");
    check("cat & (dog | bird)", "(and cat (or dog bird))");
    check("cat and not dog", "(and cat (not dog))");
    check("cat -dog !bird", "(and cat (not dog) (not bird))");
    check("a, b", "(or a b)");
    check("android notes organ", "(and android notes organ)");
    check("near field", "(and near field)");
    check("a NEAR b", "near8[a b]");
    check("a NEAR/3 b NEAR c", "near8[a b c]");
    check("\"a b\"~5", "near5[a b]");
    check("NOT (a b)", "(not (and a b))");
}

#[test]
fn wildcards() {
    check("Mül* t?st", "(and ~mul* ~t?st)");
    check("*ing", "~*ing");
    check("subject:rep*", "subject:~rep*");
    check("a-b*", "query, character 1: wildcards can only be used in single words");
}

#[test]
fn fields() {
    check("FIELD Subject CONTAINS report", "subject:report");
    check("FIELD Subject contains (a | b) c", "(and (or subject:a subject:b) c)");
    check("[Subject]=\"annual report\"", "subject:annual_report");
    check("subject:x body:y to:z", "(and subject:x body:y sendto:z)");
    check("subject:(a -b)", "(and subject:a (not subject:b))");
    check("attachment:report", "$file:report");
    check("x subject: ", "(and x subject)");
    check("(x subject:)", "(and x subject)");
    check("subject:|a", "(or subject a)");
    check("size:, a", "(or size a)");
    check("FIELD Amount > 5", "amount#5!..");
    check("[Amount]=5", "(or amount#5..5 amount:5)");
    check("[Due]>=1970-01-02", "due@86400..");
    check("date>=1970-01-02 date<1970-01-03", "(and Received@86400.. Received@..172800)");
    check("date:1970-01-01 size>1000", "(and Received@0..86400 Size#1000!..)");
    check("modified<=1970-01-01T00:01", "Modified@..120");
}

#[test]
fn invalid_queries_report_position_and_reason() {
    check("", "query, character 1: no search term");
    check("...", "query, character 4: no search term");
    check("(a", "query, character 1: the parenthesis is not closed");
    check("a)", "query, character 2: unmatched closing parenthesis");
    check("\u{e9}\u{e9} \"a", "query, character 4: the quotation mark is not closed");
    check("\"!\"", "query, character 1: no word between the quotation marks");
    check("a AND", "query, character 6: AND needs a search term on each side");
    check("AND a", "query, character 4: AND needs a search term on each side");
    check("a OR", "query, character 5: OR needs a search term on each side");
    check("OR a", "query, character 1: OR needs a search term on each side");
    check("NOT", "query, character 1: NOT must be followed by a search term");
    check("FIELD", "query, character 6: FIELD must be followed by the name of a field");
    check("FIELD a b", "query, character 9: the name of a field must be followed by CONTAINS, =, <, <=, > or >=");
    check("date>x", "query, character 6: \"x\" is not a date such as 2024-01-31");
    check("[a]>x", "query, character 5: \"x\" is neither a number nor a date such as 2024-01-31");
    check("\"a b\"~999", "query, character 7: expected a number up to 100");
    check("a NEAR (b c)", "query, character 1: NEAR needs a word or phrase of the same field on each side");
    check(&"(".repeat(100), "query, character 34: more than 32 nested levels");
    check(&"a ".repeat(300), "query, character 514: more than 256 words and operators");
    check(&"a".repeat(10_000), "query, character 1: longer than 8192 bytes");
}
