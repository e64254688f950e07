//! The messages of push subscriptions: what a client is sent next, encrypted for it.
//!
//! A client that was just verified, or that was served by an earlier process, is told all states once. From then on it
//! is told what has changed since the last message that its push service has taken. Further changes in the meantime
//! are in the same message.

use std::future;

use serde_json::{Map, Value, json};
use store::Ticket;

use crate::backend::{Caller, Scope, Services};
use crate::push::{self, AccountStates, Change, Observation};
use crate::push_subscriptions::{PushOwner, PushSubscription};
use crate::push_target::PushTarget;
use crate::web_push::{SALT_BYTES, TEXT_BYTES_MAX};

/// What the client of a subscription knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientKnowledge {
    /// `true` if it was sent the code.
    pub has_code: bool,
    /// The states that it was sent.
    pub states: AccountStates,
}

/// A message for a push service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushMessage {
    /// The body.
    pub body: Vec<u8>,
    /// `true` if the body is encrypted.
    pub is_encrypted: bool,
    /// The value of the field `Authorization`.
    pub authorization: String,
}

/// What happens next with a subscription.
pub enum Prepared {
    /// It has ended, for this reason, or because its client has destroyed it.
    Ended(Option<String>),
    /// Nothing is sent before this change.
    Nothing(Change),
    /// Messages are sent.
    Send(PreparedMessages),
    /// It cannot be found out now.
    Unavailable,
}

/// The messages that are sent.
pub struct PreparedMessages {
    /// Where they are sent.
    pub target: PushTarget,
    /// The messages, in their order.
    pub messages: Vec<PushMessage>,
    /// What the client knows afterwards.
    pub known: ClientKnowledge,
    /// The next change.
    pub change: Change,
}

/// Prepares what is sent next. It may leave the server when the ticket is durable. `contact` is a URI at which push
/// services reach the operator.
pub fn prepare(services: &Services, id: &str, known: &ClientKnowledge, contact: &str) -> (Prepared, Ticket) {
    let Some(one) = services.push.get(id) else { return (Prepared::Ended(None), Ticket::NONE) };
    let ended = |reason: String| (Prepared::Ended(Some(reason)), Ticket::NONE);
    let caller = caller_of(&one.owner);
    match is_credential_valid(services, &caller, &one.owner) {
        Ok(true) => {}
        Ok(false) => return ended("the credential of the subscription has ended".to_owned()),
        Err(_) => return (Prepared::Unavailable, Ticket::NONE),
    }
    let target = match services.push.policy().target(&one.wanted.url) {
        Ok(target) => target,
        Err(error) => return ended(error.to_string()),
    };
    let writer = MessageWriter { services, one: &one, target: &target, contact };
    if one.is_verified {
        return changes(&writer, &caller, known);
    }
    if known.has_code {
        // The client has to return the code.
        return (Prepared::Nothing(Box::pin(future::pending())), Ticket::NONE);
    }
    let text = json!({
        "@type": "PushVerification",
        "pushSubscriptionId": one.id,
        "verificationCode": one.code,
    });
    let known = ClientKnowledge { has_code: true, ..known.clone() };
    let messages = writer.messages(&[text]);
    (send(&target, messages, known, Box::pin(future::pending())), Ticket::NONE)
}

/// Returns the caller for whom the states of a subscription are read.
#[must_use]
pub fn caller_of(owner: &PushOwner) -> Caller {
    Caller { login: owner.login.clone(), scope: Scope::Reading, credential: owner.credential.clone() }
}

fn is_credential_valid(services: &Services, caller: &Caller, owner: &PushOwner) -> mail::Result<bool> {
    let stamp = services.accounts.password_stamp(caller)?;
    Ok(stamp == Some(owner.stamp) && services.push.is_session_valid(owner))
}

fn changes(writer: &MessageWriter<'_>, caller: &Caller, known: &ClientKnowledge) -> (Prepared, Ticket) {
    let Ok(observed) = push::observe(writer.services, caller) else {
        return (Prepared::Unavailable, Ticket::NONE);
    };
    let Observation { states, change, ticket, .. } = observed.with_known(&known.states);
    let Some(changed) = states.differences(&known.states, &writer.one.wanted.types) else {
        return (Prepared::Nothing(change), Ticket::NONE);
    };
    let known = ClientKnowledge { has_code: true, states };
    (send(writer.target, writer.messages(&parts(changed)), known, change), ticket)
}

fn send(target: &PushTarget, messages: Vec<PushMessage>, known: ClientKnowledge, change: Change) -> Prepared {
    Prepared::Send(PreparedMessages { target: target.clone(), messages, known, change })
}

/// Separates a StateChange object into several ones that fit into one message each.
fn parts(mut change: Map<String, Value>) -> Vec<Value> {
    let empty = json!({ "@type": "StateChange", "changed": {} });
    let Some(Value::Object(accounts)) = change.remove("changed") else { return Vec::new() };
    let mut parts = Vec::new();
    let mut part = Map::new();
    let mut bytes = empty.to_string().len();
    for (account, states) in accounts {
        // The quotes, the colon and the comma.
        let more = account.len() + states.to_string().len() + 4;
        if bytes + more > TEXT_BYTES_MAX && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = empty.to_string().len();
        }
        bytes += more;
        part.insert(account, states);
    }
    parts.push(part);
    parts.into_iter().map(|part| json!({ "@type": "StateChange", "changed": part })).collect()
}

/// Makes messages for one subscription.
struct MessageWriter<'a> {
    services: &'a Services,
    one: &'a PushSubscription,
    target: &'a PushTarget,
    contact: &'a str,
}

impl MessageWriter<'_> {
    /// Returns a message for each object. One that cannot be made is logged and left out.
    fn messages(&self, objects: &[Value]) -> Vec<PushMessage> {
        let made = objects.iter().filter_map(|object| {
            let made = self.message(object.to_string().into_bytes());
            made.inspect_err(|error| tracing::error!(target: "jmap", %error, "a push could not be made")).ok()
        });
        made.collect()
    }

    fn message(&self, text: Vec<u8>) -> Result<PushMessage, crate::web_push::WebPushError> {
        let Services { push, clock, random, .. } = self.services;
        let authorization = match push.key() {
            Some(key) => key.authorization(&self.target.origin(), self.contact, clock.now())?,
            None => String::new(),
        };
        let body = match &self.one.wanted.keys {
            Some(keys) => {
                let mut salt = [0; SALT_BYTES];
                random.fill(&mut salt);
                keys.encrypt(&text, salt)?
            }
            None => text,
        };
        Ok(PushMessage { body, is_encrypted: self.one.wanted.keys.is_some(), authorization })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_changes_are_divided() {
        let account = |number: u32| (format!("A{number:016x}"), json!({ "Email": "1".repeat(200) }));
        let check = |count: u32, expected: usize| {
            let changed: Map<String, Value> = (0..count).map(account).collect();
            let change =
                Map::from_iter([("@type".to_owned(), json!("StateChange")), ("changed".to_owned(), json!(changed))]);
            let parts = parts(change);
            assert_eq!(parts.len(), expected);
            assert!(parts.iter().all(|part| part.to_string().len() <= TEXT_BYTES_MAX));
            let accounts: usize = parts.iter().filter_map(|part| part["changed"].as_object()).map(Map::len).sum();
            assert_eq!(accounts, count as usize);
        };
        check(1, 1);
        check(16, 1);
        check(40, 3);
    }
}
