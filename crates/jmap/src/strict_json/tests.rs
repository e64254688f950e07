//! Tests of the JSON parser: texts that two readers would take differently are refused.

use super::*;

#[test]
fn texts_are_parsed_like_by_any_parser() {
    for text in ["null", "[1,-2,3.5,\"a\\u0000b\",true]", "{\"a\":{\"b\":[]},\"\\u0063\":0}", "\"\\ud83d\\ude00\""] {
        assert_eq!(parse(text.as_bytes()), Ok(serde_json::from_str(text).expect("valid JSON")), "{text}");
    }
}

#[test]
fn ambiguous_and_invalid_texts_are_refused() {
    for text in [
        &b"{\"a\":1,\"a\":2}"[..],
        b"{\"a\":1,\"\\u0061\":2}",
        b"[{\"x\":{\"b\":1,\"b\":1}}]",
        b"\"\xff\"",
        b"\"\\ud800\"",
        b"{\"a\":1} x",
        b"[1,]",
        b"",
        b"{\"a\"",
        b"1e999",
    ] {
        assert!(matches!(parse(text), Err(JsonFault::Invalid(_))), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn depth_and_number_of_values_are_limited() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(parse(nested(JSON_DEPTH_MAX + 2).as_bytes()), Err(JsonFault::TooLarge));
    let many = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
    assert!(parse(many(JSON_VALUES_MAX).as_bytes()).is_ok());
    assert_eq!(parse(many(JSON_VALUES_MAX + 1).as_bytes()), Err(JsonFault::TooLarge));
}

#[test]
fn values_are_counted() {
    let value = serde_json::json!({ "a": [1, 2], "b": null });
    assert_eq!(count_values(&value, 5), Some(5));
    assert_eq!(count_values(&value, 4), None);
}
