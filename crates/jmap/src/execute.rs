//! One API request: its method calls in order, each with its own error, and the reply.
//!
//! A call of a method whose capability the request does not use is `unknownMethod`, like that of a method that does not
//! exist. A call that fails does not keep the later ones from being made. A call that only reads fails if the reply to
//! the request would become too large with its response; large objects are counted while the response is made.
//!
//! The reply carries the last ticket of everything that was read and written: it may leave the server when that is
//! durable.

use serde_json::{Map, Value, json};
use store::Ticket;

use crate::arguments::Arguments;
use crate::backend::{Caller, Services};
use crate::context::{Context, reply_too_large};
use crate::error::{MethodError, RequestProblem};
use crate::json_size::json_bytes;
use crate::limits::REPLY_BYTES_MAX;
use crate::method;
use crate::reference::{Resolver, Response};
use crate::request::{MethodCall, Request};
use crate::session;

/// The reply to a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The body: JSON.
    pub body: Vec<u8>,
    /// The ticket that must be durable before the reply leaves the server.
    pub ticket: Option<Ticket>,
}

/// Executes a request.
pub fn execute(services: &Services, caller: &Caller, body: &[u8]) -> Result<Reply, RequestProblem> {
    let request = Request::parse(body, &services.limits)?;
    respond(services, caller, request, Map::new())
}

/// Executes a parsed request, and adds the members of its response to those that `reply` has.
pub(crate) fn respond(
    services: &Services,
    caller: &Caller,
    request: Request,
    mut reply: Map<String, Value>,
) -> Result<Reply, RequestProblem> {
    if let Some(unknown) = request.using.iter().find(|name| !session::has_capability(services, name)) {
        return Err(RequestProblem::UnknownCapability(unknown.clone()));
    }
    let tells_created_ids = request.created_ids.is_some();
    let mut context = Context::new(services, caller, &request.using, request.created_ids.unwrap_or_default());
    let mut replies = Replies::default();
    for call in request.calls {
        replies.run(&mut context, &request.using, call);
    }
    reply.insert("methodResponses".to_owned(), replies.into_json());
    if tells_created_ids {
        reply.insert("createdIds".to_owned(), json!(context.created_ids));
    }
    let state = session::session_state(services, caller).map_err(|_| RequestProblem::Unavailable)?;
    reply.insert("sessionState".to_owned(), json!(state));
    let body = serde_json::to_vec(&reply).map_err(|_| RequestProblem::Unavailable)?;
    let ticket = context.ticket();
    Ok(Reply { body, ticket: (ticket > Ticket::NONE).then_some(ticket) })
}

/// The responses so far.
#[derive(Default)]
struct Replies {
    responses: Vec<Response>,
    resolver: Resolver,
    bytes: usize,
}

impl Replies {
    fn run(&mut self, context: &mut Context<'_>, using: &[String], call: MethodCall) {
        let bytes_left = REPLY_BYTES_MAX.saturating_sub(self.bytes);
        let result = match method::find(&call.name, using) {
            None => Err(MethodError::new("unknownMethod")),
            Some(_) if bytes_left == 0 => Err(reply_too_large()),
            Some(method) => {
                context.limit_reply(bytes_left);
                let resolved = self.resolver.resolve(call.arguments, &self.responses);
                resolved.and_then(|arguments| (method.run)(context, Arguments::new(arguments)))
            }
        };
        let result = result.map(Value::Object).and_then(|arguments| {
            let bytes = json_bytes(&arguments);
            let is_too_large = method::is_reading(&call.name) && bytes > bytes_left;
            if is_too_large { Err(reply_too_large()) } else { Ok((arguments, bytes)) }
        });
        match result {
            Ok((arguments, bytes)) => self.push_counted(call.name, (arguments, bytes), &call.id),
            Err(error) => self.push("error".to_owned(), error.to_json(), &call.id),
        }
        for (name, arguments) in context.take_implicit() {
            self.push(name.to_owned(), Value::Object(arguments), &call.id);
        }
    }

    fn push(&mut self, name: String, arguments: Value, call_id: &str) {
        let bytes = json_bytes(&arguments);
        self.push_counted(name, (arguments, bytes), call_id);
    }

    /// Adds a response whose number of bytes is known.
    fn push_counted(&mut self, name: String, (arguments, bytes): (Value, usize), call_id: &str) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.responses.push(Response { name, arguments, call_id: call_id.to_owned() });
    }

    fn into_json(self) -> Value {
        let response = |response: Response| json!([response.name, response.arguments, response.call_id]);
        Value::Array(self.responses.into_iter().map(response).collect())
    }
}
