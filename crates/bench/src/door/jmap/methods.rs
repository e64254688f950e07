//! Requests and their responses (RFC 8620 §3); pure.

use serde_json::{Map, Value, json};

use crate::door::call::CallError;
use crate::door::http::{malformed, status_error};

/// What the types of errors of requests begin with.
const ERROR_PREFIX: &str = "urn:ietf:params:jmap:error:";

/// A call of a method.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) arguments: Value,
}

impl Method {
    /// Creates the call of a method of an account.
    pub(super) fn new(name: &'static str, account: &str, arguments: Value) -> Self {
        let mut all = Map::from_iter([("accountId".to_owned(), json!(account))]);
        if let Value::Object(arguments) = arguments {
            all.extend(arguments);
        }
        Self { name, arguments: Value::Object(all) }
    }
}

/// Returns a reference to a part of the result of an earlier call of the same request.
pub(super) fn reference(call: usize, name: &str, path: &str) -> Value {
    json!({ "resultOf": call.to_string(), "name": name, "path": path })
}

/// Writes a request.
pub(super) fn write(using: &[&str], methods: &[Method]) -> Vec<u8> {
    let calls: Vec<Value> = methods
        .iter()
        .enumerate()
        .map(|(number, method)| json!([method.name, method.arguments, number.to_string()]))
        .collect();
    json!({ "using": using, "methodCalls": calls }).to_string().into_bytes()
}

/// Reads the results of a request, one for each of its calls. Responses that a call has implied are left out.
///
/// # Errors
///
/// The first call that failed, or the first object that an implied call has not changed, with the type of its error as
/// the code.
pub(super) fn read(content: &[u8], methods: &[Method]) -> Result<Vec<Value>, CallError> {
    let mut response: Value =
        serde_json::from_slice(content).map_err(|error| malformed(format!("the response: {error}")))?;
    let Some(Value::Array(responses)) = response.get_mut("methodResponses").map(Value::take) else {
        return Err(malformed("the response has no methodResponses"));
    };
    let mut results: Vec<Option<Value>> = vec![None; methods.len()];
    for response in responses {
        let Value::Array(parts) = response else { return Err(malformed("a response is not a list")) };
        let Ok([name, arguments, id]) = <[Value; 3]>::try_from(parts) else {
            return Err(malformed("a response has not three parts"));
        };
        let number = id.as_str().and_then(|id| id.parse::<usize>().ok()).filter(|number| *number < methods.len());
        let Some(number) = number else { return Err(malformed("a response to no call")) };
        if name == "error" {
            return Err(error_of(&arguments, methods[number].name));
        }
        if name == methods[number].name && results[number].is_none() {
            results[number] = Some(arguments);
        } else {
            check_set(&arguments, name.as_str().unwrap_or_default(), &[])?;
        }
    }
    let missing = |number: usize| malformed(format!("there is no response to {}", methods[number].name));
    results.into_iter().enumerate().map(|(number, result)| result.ok_or_else(|| missing(number))).collect()
}

/// Returns the error of a request that was refused as a whole (RFC 8620 §3.6.1, RFC 9457).
pub(super) fn problem(status: u16, content: &[u8]) -> CallError {
    let problem: Value = serde_json::from_slice(content).unwrap_or_default();
    let text = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default();
    let detail = if text("detail").is_empty() { text("title") } else { text("detail") };
    match text("type").strip_prefix(ERROR_PREFIX) {
        Some(code) if status != 401 && is_code(code) => CallError::kept(code.to_owned(), detail),
        _ => status_error(status, detail),
    }
}

/// Checks that a `/set` or `/import` has created, changed or destroyed objects, which are named by their creation ids
/// or their ids, and that it has failed for no object.
///
/// # Errors
///
/// The error of the first object that failed, or that the result does not name an object.
pub(super) fn check_set(result: &Value, name: &str, ids: &[&str]) -> Result<(), CallError> {
    let failed = ["notCreated", "notUpdated", "notDestroyed"].into_iter();
    let first = failed.filter_map(|key| result.get(key)?.as_object()?.values().next()).next();
    if let Some(error) = first {
        return Err(error_of(error, name));
    }
    let is_key = |list: &str, id: &str| result.get(list).and_then(|objects| objects.get(id)).is_some();
    let destroyed = result.get("destroyed").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_done = |id: &str| is_key("created", id) || is_key("updated", id) || destroyed.iter().any(|one| one == id);
    let missing = ids.iter().find(|id| !is_done(id));
    missing.map_or(Ok(()), |id| Err(malformed(format!("{name}: nothing is said about {id}"))))
}

/// Returns the error of a call or of an object.
fn error_of(error: &Value, name: &str) -> CallError {
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let code = Some(text("type")).filter(|code| is_code(code)).unwrap_or("error");
    let mut description = format!("{name}: {}", text("description"));
    if let Some(properties) = error.get("properties") {
        description.push_str(&format!(" {properties}"));
    }
    CallError::kept(code.to_owned(), description)
}

fn is_code(code: &str) -> bool {
    (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods() -> [Method; 2] {
        let ids = reference(0, "Email/query", "/ids");
        [Method::new("Email/query", "A", json!({ "limit": 5 })), Method::new("Email/get", "A", json!({ "#ids": ids }))]
    }

    fn results(responses: &Value) -> Result<Vec<Value>, CallError> {
        read(json!({ "methodResponses": responses }).to_string().as_bytes(), &methods())
    }

    fn check_failed(responses: &Value, code: &str, text: &str) {
        let error = results(responses).expect_err(text);
        assert_eq!(&*error.code, code);
        assert!(error.text.contains(text), "{}", error.text);
    }

    #[test]
    fn requests_have_numbered_calls() {
        let request = String::from_utf8(write(&["core"], &methods())).expect("text");
        let expected = concat!(
            r#"{"using":["core"],"methodCalls":[["Email/query",{"accountId":"A","limit":5},"0"],"#,
            r##"["Email/get",{"accountId":"A","#ids":{"resultOf":"0","name":"Email/query","path":"/ids"}},"1"]]}"##
        );
        assert_eq!(request, expected);
    }

    #[test]
    fn results_are_those_of_the_calls() {
        let responses = json!([["Email/query", { "ids": ["1"] }, "0"], ["Email/set", {}, "0"], ["Email/get", {}, "1"]]);
        assert_eq!(results(&responses).expect("two"), [json!({ "ids": ["1"] }), json!({})]);
    }

    #[test]
    fn objects_that_an_implied_call_has_not_changed_are_errors() {
        let failed = json!({ "notUpdated": { "1": { "type": "overQuota", "description": "full" } } });
        let responses = json!([["Email/query", {}, "0"], ["Email/set", failed, "0"], ["Email/get", {}, "1"]]);
        check_failed(&responses, "overQuota", "Email/set: full");
    }

    #[test]
    fn errors_have_the_types_of_jmap() {
        let first = json!(["Email/query", {}, "0"]);
        let error = json!({ "type": "anchorNotFound", "description": "gone" });
        check_failed(&json!([["error", error, "0"]]), "anchorNotFound", "Email/query: gone");
        check_failed(&json!([first, ["error", { "type": 5 }, "1"]]), "error", "Email/get");
        check_failed(&json!([["error", { "type": "no word at all" }, "1"]]), "error", "Email/get");
        let limit = json!({ "type": "urn:ietf:params:jmap:error:limit", "detail": "too many" }).to_string();
        assert_eq!(problem(400, limit.as_bytes()), CallError::kept("limit", "too many"));
        assert_eq!(problem(503, b"<html>").code, "http-503");
        assert_eq!(problem(401, limit.as_bytes()), CallError::lost("http-401", "too many"));
    }

    #[test]
    fn objects_that_failed_are_errors() {
        let done = json!({ "notUpdated": null, "created": { "a": {} }, "updated": { "1": null }, "destroyed": ["2"] });
        check_set(&done, "Email/set", &["1", "a", "2"]).expect("none failed");
        for (result, id) in [(&done, "3"), (&json!({}), "1"), (&json!({ "updated": null, "destroyed": 1 }), "1")] {
            assert_eq!(check_set(result, "Email/set", &[id]).expect_err("not named").code, "malformed");
        }
        let failed = json!({ "notCreated": { "a": { "type": "invalidProperties", "properties": ["to"] } } });
        let error = check_set(&failed, "Email/set", &["a"]).expect_err("failed");
        assert_eq!((&*error.code, &*error.text), ("invalidProperties", "Email/set:  [\"to\"]"));
    }

    #[test]
    fn hostile_responses_are_malformed() {
        for (responses, text) in [
            (json!([]), "no response to Email/query"),
            (json!("x"), "no methodResponses"),
            (json!([[]]), "not three parts"),
            (json!([{}]), "not a list"),
            (json!([["Email/query", {}, 0]]), "to no call"),
            (json!([["Email/query", {}, "2"]]), "to no call"),
            (json!([["Email/get", {}, "0"], ["Email/get", {}, "1"]]), "no response to Email/query"),
        ] {
            check_failed(&responses, "malformed", text);
        }
        let deep = "[".repeat(100_000);
        assert_eq!(read(deep.as_bytes(), &methods()).expect_err("deep").code, "malformed");
        assert_eq!(read(b"", &methods()).expect_err("nothing").code, "malformed");
    }
}
