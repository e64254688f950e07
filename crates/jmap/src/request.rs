//! The form of a request (RFC 8620 §3.3): capabilities, method calls, and identifiers of created objects.
//!
//! Pure and fuzzed. A request that is not I-JSON is `notJSON`; JSON of another form is `notRequest`. Properties that
//! the RFC does not name are ignored, as extensions may add some.

use std::collections::BTreeMap;

use mail::object_id::is_object_id;
use serde_json::{Map, Value};

use crate::error::RequestProblem;
use crate::limits::{CALL_ID_BYTES_MAX, CREATED_IDS_MAX, Limits};
use crate::strict_json::{self, JsonFault};

/// A parsed request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The capabilities that the request uses.
    pub using: Vec<String>,
    /// The method calls, in order.
    pub calls: Vec<MethodCall>,
    /// The identifiers of created objects, by creation id, if the client sent them.
    pub created_ids: Option<BTreeMap<String, String>>,
}

/// A method call: an Invocation (RFC 8620 §3.2).
#[derive(Clone, Debug, PartialEq)]
pub struct MethodCall {
    /// The name of the method.
    pub name: String,
    /// The arguments, with unresolved back-references.
    pub arguments: Map<String, Value>,
    /// The identifier that the client chose for the call.
    pub id: String,
}

impl Request {
    /// Parses a request.
    pub fn parse(body: &[u8], limits: &Limits) -> Result<Self, RequestProblem> {
        Self::from_members(parse_object(body, limits)?, limits)
    }

    /// Reads the members of a request. Others are ignored.
    pub fn from_members(mut members: Map<String, Value>, limits: &Limits) -> Result<Self, RequestProblem> {
        let Some(Value::Array(using)) = members.remove("using") else {
            return Err(not_request("using is not an array"));
        };
        let Some(Value::Array(calls)) = members.remove("methodCalls") else {
            return Err(not_request("methodCalls is not an array"));
        };
        let created_ids = match members.remove("createdIds") {
            None => None,
            Some(ids) => Some(parse_created_ids(ids)?),
        };
        let using = using.into_iter().map(text).collect::<Option<Vec<_>>>();
        let using = using.ok_or_else(|| not_request("a capability is not a string"))?;
        if calls.len() as u64 > limits.calls_max {
            return Err(RequestProblem::Limit("maxCallsInRequest"));
        }
        let calls = calls.into_iter().map(MethodCall::parse).collect::<Result<_, _>>()?;
        Ok(Self { using, calls, created_ids })
    }
}

impl MethodCall {
    fn parse(value: Value) -> Result<Self, RequestProblem> {
        let invalid = || not_request("a method call is not an array of a name, arguments and an identifier");
        let Value::Array(members) = value else { return Err(invalid()) };
        let members: [Value; 3] = members.try_into().map_err(|_| invalid())?;
        match members {
            [Value::String(name), Value::Object(arguments), Value::String(id)] if id.len() <= CALL_ID_BYTES_MAX => {
                Ok(Self { name, arguments, id })
            }
            _ => Err(invalid()),
        }
    }
}

/// Parses the object that a client sends.
pub fn parse_object(body: &[u8], limits: &Limits) -> Result<Map<String, Value>, RequestProblem> {
    if body.len() as u64 > limits.request_bytes_max {
        return Err(RequestProblem::Limit("maxSizeRequest"));
    }
    let value = strict_json::parse(body).map_err(|fault| match fault {
        JsonFault::Invalid(reason) => RequestProblem::NotJson(reason),
        JsonFault::TooLarge => RequestProblem::Limit("maxSizeRequest"),
    })?;
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(not_request("it is not an object")),
    }
}

fn parse_created_ids(value: Value) -> Result<BTreeMap<String, String>, RequestProblem> {
    let Value::Object(members) = value else { return Err(not_request("createdIds is not an object")) };
    if members.len() > CREATED_IDS_MAX {
        return Err(not_request("createdIds has too many entries"));
    }
    let mut ids = BTreeMap::new();
    for (name, value) in members {
        let id = text(value).filter(|id| is_object_id(id) && is_object_id(&name));
        ids.insert(name, id.ok_or_else(|| not_request("an entry of createdIds is not an Id"))?);
    }
    Ok(ids)
}

fn text(value: Value) -> Option<String> {
    if let Value::String(text) = value { Some(text) } else { None }
}

fn not_request(reason: &str) -> RequestProblem {
    RequestProblem::NotRequest(reason.to_owned())
}
