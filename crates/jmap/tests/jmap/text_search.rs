//! Searches for texts: the same answer with a full-text index and without one, also if the index is late.

use base::random::Random;
use base::sim::SeededRandom;
use serde_json::{Value, json};

use crate::world::World;

const WORDS: [&str; 8] = ["apple", "Appeal", "pear", "Birne", "stra\u{df}e", "x-ray", "42", "caf\u{e9}"];

fn messages(count: u64) -> Vec<String> {
    let random = SeededRandom::new(11);
    let text = || {
        let words: Vec<&str> = (0..random.below(3)).map(|_| WORDS[random.below(8) as usize]).collect();
        words.join(" ")
    };
    let message = |number: u64| {
        let from = text();
        let subject = text();
        let body = text();
        format!(
            "From: \"{from}\" <a{number}@demo.test>\r\nSubject: {subject}\r\nX-Tag: {}\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n{body}\r\n",
            text()
        )
    };
    (0..count).map(message).collect()
}

fn filters() -> Vec<Value> {
    let mut filters = Vec::new();
    for word in WORDS.into_iter().chain(["app", "ppl", "strasse", "birne apple", "\"pear 42\"", "demo.test"]) {
        for name in ["text", "body", "subject", "from"] {
            filters.push(json!({ name: word }));
        }
        filters.push(json!({ "operator": "NOT", "conditions": [{ "body": word }, { "subject": "pear" }] }));
        filters.push(json!({ "operator": "OR", "conditions": [{ "body": word }, { "header": ["X-Tag", word] }] }));
    }
    filters
}

#[test]
fn an_index_does_not_change_the_result() {
    let plain = World::new();
    let indexed = World::with_index();
    for (number, raw) in messages(60).iter().enumerate() {
        plain.deliver("alice", "INBOX", raw.as_bytes());
        indexed.deliver("alice", "INBOX", raw.as_bytes());
        if number == 40 {
            indexed.update_index("alice");
        }
    }
    let mut found = 0;
    for filter in filters() {
        let query = |world: &World| {
            world.call("alice", "Email/query", json!({ "accountId": "Aalice", "filter": filter }))["ids"].clone()
        };
        let expected = query(&plain);
        assert_eq!(query(&indexed), expected, "{filter}");
        found += expected.as_array().map_or(0, Vec::len);
    }
    assert!(found > 100, "the filters find {found} messages");
}

#[test]
fn words_of_html_that_is_not_displayed_are_not_found() {
    let html = "Subject: page\r\nMIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n<html><head><title>heading</title>\
                <style>.styled{}</style></head><body class=\"attribute\"><!-- remark --><script>code()</script>\
                <p>vis<b>ible</b></p></body></html>\r\n";
    for world in [World::new(), World::with_index()] {
        world.deliver("alice", "INBOX", html.as_bytes());
        world.update_index("alice");
        let total = |filter: Value| {
            let query = json!({ "accountId": "Aalice", "filter": filter, "calculateTotal": true });
            world.call("alice", "Email/query", query)["total"].clone()
        };
        for name in ["text", "body"] {
            assert_eq!(total(json!({ name: "visible" })), 1);
            for hidden in ["heading", "styled", "attribute", "remark", "code", "body", "<p>"] {
                assert_eq!(total(json!({ name: hidden })), 0, "{name} {hidden}");
            }
        }
    }
}
