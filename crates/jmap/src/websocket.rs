//! Messages over WebSocket (RFC 8887): requests, and the wish to be told about changes of states.
//!
//! A request is the same as over HTTP, with `@type` and, if the client wants, an `id`, which the response repeats. A
//! message that cannot be read gets a `RequestError`, and the connection goes on.

use serde_json::{Map, Value, json};
use store::Ticket;

use crate::backend::{Caller, Services};
use crate::error::RequestProblem;
use crate::execute::{self, Reply};
use crate::limits::Limits;
use crate::request::{self, Request};
use crate::type_selection::TypeSelection;

/// A message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    /// A request, with the identifier that the response repeats.
    Request {
        /// The identifier.
        id: Option<String>,
        /// The request.
        request: Request,
    },
    /// The server is to tell changes of states.
    PushEnable {
        /// The types.
        types: TypeSelection,
        /// The last `pushState` that the client has received.
        push_state: Option<String>,
    },
    /// The server is to tell no changes any more.
    PushDisable,
}

/// The reason why a message cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedMessage {
    /// The identifier of the request, if it could be read.
    pub id: Option<String>,
    /// The problem.
    pub problem: RequestProblem,
}

impl RefusedMessage {
    /// Returns the RequestError object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "@type": "RequestError", "requestId": self.id });
        if let (Value::Object(members), Value::Object(problem)) = (&mut error, self.problem.to_json()) {
            members.extend(problem);
        }
        error
    }
}

impl ClientMessage {
    /// Parses a message.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self, RefusedMessage> {
        let mut members =
            request::parse_object(text, limits).map_err(|problem| RefusedMessage { id: None, problem })?;
        let id = match members.remove("id") {
            Some(Value::String(id)) => Some(id),
            None | Some(Value::Null) => None,
            Some(_) => return Err(not_request(None, "id is not a string")),
        };
        let kind = members.remove("@type");
        match kind.as_ref().and_then(Value::as_str) {
            Some("Request") => match Request::from_members(members, limits) {
                Ok(request) => Ok(Self::Request { id, request }),
                Err(problem) => Err(RefusedMessage { id, problem }),
            },
            Some("WebSocketPushEnable") => Self::parse_push(&members).map_err(|reason| not_request(id, reason)),
            Some("WebSocketPushDisable") => Ok(Self::PushDisable),
            _ => Err(not_request(id, "@type is not Request, WebSocketPushEnable or WebSocketPushDisable")),
        }
    }

    fn parse_push(members: &Map<String, Value>) -> Result<Self, &'static str> {
        let types = members.get("dataTypes").unwrap_or(&Value::Null);
        let types = TypeSelection::from_json(types).ok_or("dataTypes is neither null nor a short list of names")?;
        let push_state = match members.get("pushState") {
            None | Some(Value::Null) => None,
            Some(Value::String(state)) => Some(state.clone()),
            Some(_) => return Err("pushState is not a string"),
        };
        Ok(Self::PushEnable { types, push_state })
    }
}

/// What follows from a message.
#[derive(Clone, Debug)]
pub enum Answer {
    /// An answer is sent.
    Reply(Reply),
    /// Changes of these types are told from now on.
    EnablePush {
        /// The types.
        types: TypeSelection,
        /// The last `pushState` that the client has received.
        push_state: Option<String>,
    },
    /// No changes are told from now on.
    DisablePush,
}

/// Executes a message.
#[must_use]
pub fn answer(services: &Services, caller: &Caller, text: &[u8]) -> Answer {
    let request = match ClientMessage::parse(text, &services.limits) {
        Err(refused) => Err(refused),
        Ok(ClientMessage::PushEnable { types, push_state }) => return Answer::EnablePush { types, push_state },
        Ok(ClientMessage::PushDisable) => return Answer::DisablePush,
        Ok(ClientMessage::Request { id, request }) => {
            let mut reply = Map::new();
            reply.insert("@type".to_owned(), json!("Response"));
            if let Some(id) = &id {
                reply.insert("requestId".to_owned(), json!(id));
            }
            execute::respond(services, caller, request, reply).map_err(|problem| RefusedMessage { id, problem })
        }
    };
    Answer::Reply(request.unwrap_or_else(|refused| refusal(&refused)))
}

/// Returns the answer to a message that is not executed because of a limit.
#[must_use]
pub fn refuse_for_limit(services: &Services, text: &[u8], limit: &'static str) -> Answer {
    let id = match ClientMessage::parse(text, &services.limits) {
        Ok(ClientMessage::Request { id, .. }) | Err(RefusedMessage { id, .. }) => id,
        Ok(_) => None,
    };
    Answer::Reply(refusal(&RefusedMessage { id, problem: RequestProblem::Limit(limit) }))
}

/// Returns the answer to a message that is not executed.
#[must_use]
pub fn refusal(refused: &RefusedMessage) -> Reply {
    Reply { body: refused.to_json().to_string().into_bytes(), ticket: None::<Ticket> }
}

fn not_request(id: Option<String>, reason: &str) -> RefusedMessage {
    RefusedMessage { id, problem: RequestProblem::NotRequest(reason.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &Value) {
        let limits = Limits::default();
        let refused = ClientMessage::parse(text.as_bytes(), &limits).expect_err("it is not valid").to_json();
        assert_eq!(&json!([refused["@type"], refused["requestId"], refused["type"]]), expected, "{text}");
    }

    #[test]
    fn messages_that_cannot_be_read_get_an_error_with_their_identifier() {
        let not_json = json!(["RequestError", null, "urn:ietf:params:jmap:error:notJSON"]);
        check("The quick brown fox", &not_json);
        check("{\"id\":\"a\",\"id\":\"b\"}", &not_json);
        let not_request = |id: Value| json!(["RequestError", id, "urn:ietf:params:jmap:error:notRequest"]);
        check("[]", &not_request(Value::Null));
        check(r#"{"id":"R1"}"#, &not_request(json!("R1")));
        check(r#"{"@type":"Request","id":7,"using":[],"methodCalls":[]}"#, &not_request(Value::Null));
        check(r#"{"@type":"Request","id":"R1","using":[]}"#, &not_request(json!("R1")));
        check(r#"{"@type":"Response","id":"R1"}"#, &not_request(json!("R1")));
        check(r#"{"@type":"WebSocketPushEnable","dataTypes":"Email"}"#, &not_request(Value::Null));
        check(r#"{"@type":"WebSocketPushEnable","dataTypes":[1]}"#, &not_request(Value::Null));
        check(r#"{"@type":"WebSocketPushEnable","pushState":1}"#, &not_request(Value::Null));
    }

    #[test]
    fn push_is_enabled_for_all_types_or_some() {
        let parse = |text: &str| ClientMessage::parse(text.as_bytes(), &Limits::default()).expect("it is valid");
        let all = ClientMessage::PushEnable { types: TypeSelection::parse("*"), push_state: None };
        assert_eq!(parse(r#"{"@type":"WebSocketPushEnable","dataTypes":null}"#), all);
        let some =
            ClientMessage::PushEnable { types: TypeSelection::parse("Email,Thread"), push_state: Some("s".to_owned()) };
        assert_eq!(parse(r#"{"@type":"WebSocketPushEnable","dataTypes":["Email","Thread"],"pushState":"s"}"#), some);
        assert_eq!(parse(r#"{"@type":"WebSocketPushDisable"}"#), ClientMessage::PushDisable);
    }
}
