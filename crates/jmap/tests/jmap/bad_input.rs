//! Requests that no client should send: each gets a problem or an error, within the limits.

use base::random::Random;
use base::sim::SeededRandom;
use jmap::RequestProblem;
use jmap::limits::{JSON_DEPTH_MAX, Limits};
use jmap::method::METHODS;
use serde_json::{Value, json};

use crate::world::{World, caller};

fn problem(body: &[u8]) -> RequestProblem {
    let world = World::new();
    match jmap::execute(&world.services, &caller("alice"), body) {
        Err(problem) => problem,
        Ok(reply) => panic!("the reply is {}", String::from_utf8_lossy(&reply.body)),
    }
}

#[test]
fn sizes_and_counts_of_requests_are_limited() {
    let calls = |count: usize| {
        let calls = vec![json!(["Core/echo", {}, "a"]); count];
        json!({ "using": ["urn:ietf:params:jmap:core"], "methodCalls": calls }).to_string()
    };
    assert_eq!(problem(calls(10_000).as_bytes()), RequestProblem::Limit("maxCallsInRequest"));
    let limits = Limits::default();
    let large = vec![b' '; usize::try_from(limits.request_bytes_max).expect("a size") + 1];
    assert_eq!(problem(&large), RequestProblem::Limit("maxSizeRequest"));
    let nested = format!("{}{}", "[".repeat(JSON_DEPTH_MAX * 100), "]".repeat(JSON_DEPTH_MAX * 100));
    let deep = format!(r#"{{"using":[],"methodCalls":[["Core/echo",{{"a":{nested}}},"a"]]}}"#);
    assert_eq!(problem(deep.as_bytes()), RequestProblem::Limit("maxSizeRequest"));
}

#[test]
fn every_cut_of_a_request_is_refused() {
    let body = br#"{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{"a":"\u00e4"},"a"]]}"#;
    for length in 0..body.len() {
        assert!(matches!(problem(&body[..length]), RequestProblem::NotJson(_)), "{length} bytes");
    }
}

#[test]
fn references_that_double_the_reply_end_with_an_error() {
    let world = World::new();
    let mut calls = vec![json!(["Core/echo", { "a": vec![1; 1_000] }, "0"])];
    for number in 1..30 {
        let reference = json!({ "resultOf": (number - 1).to_string(), "name": "Core/echo", "path": "" });
        calls.push(json!(["Core/echo", { "#a": reference, "#b": reference }, number.to_string()]));
    }
    let responses = world.calls("alice", &json!(calls));
    let kinds: Vec<&str> =
        responses.as_array().expect("responses").iter().filter_map(|r| r[1]["type"].as_str()).collect();
    assert!(kinds.contains(&"requestTooLarge"), "{kinds:?}");
}

/// Returns a reference to the argument `a` in the first response.
fn echo_of_first() -> Value {
    json!({ "resultOf": "0", "name": "Core/echo", "path": "/a" })
}

#[test]
fn references_copy_a_limited_number_of_bytes() {
    let world = World::new();
    let text = "a".repeat(8 << 20);
    let copies: serde_json::Map<String, Value> = (0..9).map(|n| (format!("#{n}"), echo_of_first())).collect();
    let responses = world.calls("alice", &json!([["Core/echo", { "a": text }, "0"], ["Core/echo", copies, "1"]]));
    assert_eq!(responses[1][1]["type"], "requestTooLarge", "{}", responses[1]);
    let copies: serde_json::Map<String, Value> = (0..2).map(|n| (format!("#{n}"), echo_of_first())).collect();
    let responses = world.calls("alice", &json!([["Core/echo", { "a": text }, "0"], ["Core/echo", copies, "1"]]));
    assert_eq!(responses[1][1]["1"].as_str().map(str::len), Some(8 << 20));
}

#[test]
fn the_reply_to_a_request_is_limited_with_the_last_response() {
    let world = World::new();
    let mut calls = vec![json!(["Core/echo", { "a": "a".repeat(8 << 20) }, "0"])];
    calls.extend((1..8).map(|number| json!(["Core/echo", { "#a": echo_of_first() }, number.to_string()])));
    calls.push(json!(["Core/echo", { "a": "small" }, "8"]));
    let responses = world.calls("alice", &json!(calls));
    let kinds: Vec<_> = (0..9).map(|number| responses[number][1]["type"].as_str()).collect();
    let mut expected = vec![None; 9];
    expected[7] = Some("requestTooLarge");
    assert_eq!(kinds, expected);
}

#[test]
fn large_objects_of_one_response_are_counted() {
    let world = World::new();
    let text = "a".repeat(22 << 20);
    let uploaded = world.upload(&caller("alice"), "Aalice", text.as_bytes(), "text/plain").expect("she may");
    let blob = &uploaded["blobId"];
    let get = |ids: Value| world.calls("alice", &json!([["Blob/get", { "accountId": "Aalice", "ids": ids }, "0"]]));
    assert_eq!(get(json!([blob, blob]))[0][1]["list"][1]["size"], 22 << 20);
    assert_eq!(get(json!([blob, blob, blob]))[0][1]["type"], "requestTooLarge");
}

#[test]
fn patches_and_ids_of_any_form_are_answered() {
    let world = World::new();
    world.deliver("alice", "INBOX", b"Subject: x\r\n\r\nbody\r\n");
    let list = world.call("alice", "Email/query", json!({ "accountId": "Aalice" }));
    let id = list["ids"][0].as_str().expect("an id");
    for patch in [
        json!({ "": 1 }),
        json!({ "/keywords": 1 }),
        json!({ "keywords/a/b": true }),
        json!({ "keywords/~2": true }),
        json!({ "keywords/$seen": false }),
        json!({ "mailboxIds/../x": true }),
        json!({ "mailboxIds": null }),
        json!({ "mailboxIds/0": true }),
        json!([]),
        json!(null),
    ] {
        let reply = world.call("alice", "Email/set", json!({ "accountId": "Aalice", "update": { id: patch } }));
        let kind = reply["notUpdated"][id]["type"].as_str();
        assert!(kind.is_some_and(|kind| kind.starts_with("invalid")), "{patch}: {reply}");
    }
    for id in ["", "M", "../x", "\0", "#x", "B1", "M\u{202e}"] {
        let reply = world.call("alice", "Email/get", json!({ "accountId": "Aalice", "ids": [id] }));
        assert_eq!(reply["notFound"], json!([id]));
    }
}

#[test]
fn mutated_requests_violate_no_invariant() {
    let random = SeededRandom::new(3);
    let seeds =
        [include_str!("../../../fuzz/seeds/jmap/request.json"), include_str!("../../../fuzz/seeds/jmap/patch.json")];
    let mut parsed = 0;
    for _ in 0..5_000 {
        let mut bytes = seeds[random.below(2) as usize].as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let from = random.below(bytes.len() as u64) as usize;
            let to = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[from] = b"{}[],:\"#/*~01nu\\"[random.below(16) as usize],
                1 => bytes.truncate(from.max(1)),
                _ => bytes[from] = bytes[to],
            }
        }
        parsed += usize::from(jmap::request::Request::parse(&bytes, &Limits::default()).is_ok());
        jmap::fuzz::check_arbitrary_bytes(&bytes);
    }
    assert!(parsed > 100, "{parsed} requests were valid");
}

#[test]
fn too_many_objects_are_refused() {
    let world = World::new();
    let ids: Vec<String> = (0..300).map(|number| format!("M{number}")).collect();
    let responses = world.calls(
        "alice",
        &json!([
            ["Email/get", { "accountId": "Aalice", "ids": ids }, "a"],
            ["Email/set", { "accountId": "Aalice", "destroy": ids }, "b"],
        ]),
    );
    for response in responses.as_array().expect("responses") {
        assert_eq!(response[1]["type"], Value::from("requestTooLarge"));
    }
}

#[test]
fn all_set_methods_refuse_the_same_arguments() {
    let world = World::new();
    let many: Vec<String> = (0..51).map(|number| format!("X{number}")).collect();
    for method in METHODS.iter().map(|method| method.name).filter(|name| name.ends_with("/set")) {
        let has_account = method != "PushSubscription/set";
        let check = |name: &str, value: Value, expected: &str| {
            let mut arguments = if has_account { json!({ "accountId": "Aalice" }) } else { json!({}) };
            arguments[name] = value;
            let responses = world.calls("alice", &json!([[method, arguments, "c"]]));
            assert_eq!(responses[0][1]["type"], expected, "{method} {arguments}: {responses}");
        };
        check("unknown", json!(1), "invalidArguments");
        check("create", json!([]), "invalidArguments");
        check("update", json!("x"), "invalidArguments");
        check("destroy", json!({}), "invalidArguments");
        check("destroy", json!([1]), "invalidArguments");
        check("destroy", json!(many), "requestTooLarge");
        if has_account {
            check("accountId", Value::Null, "invalidArguments");
            check("accountId", json!("Anone"), "accountNotFound");
            check("ifInState", json!(7), "invalidArguments");
            check("ifInState", json!("other"), "stateMismatch");
        }
    }
}
