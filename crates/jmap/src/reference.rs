//! Back-references (RFC 8620 §3.7): arguments that are taken from earlier responses of the same request.
//!
//! An argument `#ids` with `{resultOf, name, path}` becomes the argument `ids`. The path is a JSON pointer in which `*`
//! maps over an array. Pure. The numbers of values and bytes that all references of a request copy are limited, because
//! a request could double its size with each call otherwise.

use serde_json::{Map, Value};

use crate::error::MethodError;
use crate::json_size::json_bytes;
use crate::limits::{JSON_DEPTH_MAX, REFERENCED_BYTES_MAX, REFERENCED_VALUES_MAX};
use crate::patch::unescape_token;
use crate::strict_json::count_values;

/// A response that later calls can refer to.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The name of the response: that of the method, or `error`.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
    /// The identifier of the call.
    pub call_id: String,
}

/// Resolves the references of requests.
#[derive(Debug)]
pub struct Resolver {
    values_left: usize,
    bytes_left: usize,
}

impl Default for Resolver {
    fn default() -> Self {
        Self { values_left: REFERENCED_VALUES_MAX, bytes_left: REFERENCED_BYTES_MAX }
    }
}

impl Resolver {
    /// Replaces the references among the arguments of a call.
    pub fn resolve(
        &mut self,
        arguments: Map<String, Value>,
        responses: &[Response],
    ) -> Result<Map<String, Value>, MethodError> {
        if !arguments.keys().any(|name| name.starts_with('#')) {
            return Ok(arguments);
        }
        let mut resolved = Map::new();
        for (name, value) in &arguments {
            let Some(plain) = name.strip_prefix('#') else {
                resolved.insert(name.clone(), value.clone());
                continue;
            };
            if arguments.contains_key(plain) {
                return Err(MethodError::invalid_arguments(format!("{plain} is given twice, once as a reference")));
            }
            resolved.insert(plain.to_owned(), self.lookup(value, responses)?);
        }
        Ok(resolved)
    }

    fn lookup(&mut self, reference: &Value, responses: &[Response]) -> Result<Value, MethodError> {
        let member = |name: &str| reference.get(name).and_then(Value::as_str);
        let (Some(result_of), Some(name), Some(path)) = (member("resultOf"), member("name"), member("path")) else {
            return Err(invalid("a reference needs resultOf, name and path"));
        };
        let response = responses.iter().find(|response| response.call_id == result_of);
        let response = response.filter(|response| response.name == name);
        let response = response.ok_or_else(|| invalid(format!("there is no response {name} of {result_of}")))?;
        let found = self.evaluate(&response.arguments, path)?;
        found.ok_or_else(|| invalid(format!("the path {path:?} leads to nothing")))
    }

    /// Evaluates a path. Returns `None` if it leads to nothing.
    fn evaluate(&mut self, root: &Value, path: &str) -> Result<Option<Value>, MethodError> {
        if path.is_empty() {
            return self.follow(root, &[]);
        }
        let Some(rest) = path.strip_prefix('/') else { return Err(invalid("a path begins with a slash")) };
        let tokens: Vec<&str> = rest.split('/').collect();
        if tokens.len() > JSON_DEPTH_MAX {
            return Err(invalid("the path has too many levels"));
        }
        self.follow(root, &tokens)
    }

    fn follow(&mut self, value: &Value, tokens: &[&str]) -> Result<Option<Value>, MethodError> {
        let Some((token, rest)) = tokens.split_first() else {
            self.charge(value)?;
            return Ok(Some(value.clone()));
        };
        match value {
            Value::Object(members) => match unescape_token(token).and_then(|name| members.get(&name)) {
                Some(member) => self.follow(member, rest),
                None => Ok(None),
            },
            Value::Array(items) if *token == "*" => self.map(items, rest),
            Value::Array(items) => match array_index(token).and_then(|index| items.get(index)) {
                Some(item) => self.follow(item, rest),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Applies the rest of a path to each item. Arrays among the results are joined.
    fn map(&mut self, items: &[Value], rest: &[&str]) -> Result<Option<Value>, MethodError> {
        let mut joined = Vec::new();
        for item in items {
            match self.follow(item, rest)? {
                Some(Value::Array(more)) => joined.extend(more),
                Some(other) => joined.push(other),
                None => return Ok(None),
            }
        }
        Ok(Some(Value::Array(joined)))
    }

    /// Counts a value before it is copied.
    fn charge(&mut self, value: &Value) -> Result<(), MethodError> {
        let too_much = || MethodError::described("requestTooLarge", "references copy too much");
        self.values_left -= count_values(value, self.values_left).ok_or_else(too_much)?;
        self.bytes_left = self.bytes_left.checked_sub(json_bytes(value)).ok_or_else(too_much)?;
        Ok(())
    }
}

/// Parses an index of an array: digits without a leading zero.
fn array_index(token: &str) -> Option<usize> {
    let is_canonical = token == "0" || !token.starts_with('0');
    token.parse().ok().filter(|_| is_canonical && token.bytes().all(|byte| byte.is_ascii_digit()))
}

fn invalid(description: impl Into<String>) -> MethodError {
    MethodError::described("invalidResultReference", description)
}
