//! The methods: one file each, and the table of their names and capabilities.
//!
//! A method takes its arguments, refuses those that it does not know, opens the account with the rights of the caller,
//! and returns the arguments of its response.

mod blob_copy;
mod blob_get;
mod blob_lookup;
mod blob_upload;
mod core_echo;
mod email_changes;
mod email_copy;
mod email_get;
mod email_import;
mod email_parse;
mod email_query;
mod email_query_changes;
mod email_set;
mod identity_changes;
mod identity_get;
mod identity_set;
mod mailbox_changes;
mod mailbox_get;
mod mailbox_query;
mod mailbox_query_changes;
mod mailbox_set;
mod quota_changes;
mod quota_get;
mod quota_query;
mod quota_query_changes;
mod search_snippet_get;
mod thread_changes;
mod thread_get;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::error::{MethodError, MethodResult};
use crate::execute::Context;
use crate::session::{BLOB, CORE, MAIL, QUOTA, SUBMISSION};

/// A method.
pub struct Method {
    /// The name, such as `Email/get`.
    pub name: &'static str,
    /// The capability that a request must use.
    pub capability: &'static str,
    /// Runs the method.
    pub run: fn(&mut Context<'_>, Arguments) -> MethodResult<Map<String, Value>>,
}

/// All methods.
pub const METHODS: &[Method] = &[
    Method { name: "Core/echo", capability: CORE, run: core_echo::run },
    Method { name: "Blob/copy", capability: CORE, run: blob_copy::run },
    Method { name: "Blob/get", capability: BLOB, run: blob_get::run },
    Method { name: "Blob/lookup", capability: BLOB, run: blob_lookup::run },
    Method { name: "Blob/upload", capability: BLOB, run: blob_upload::run },
    Method { name: "Email/changes", capability: MAIL, run: email_changes::run },
    Method { name: "Email/copy", capability: MAIL, run: email_copy::run },
    Method { name: "Email/get", capability: MAIL, run: email_get::run },
    Method { name: "Email/import", capability: MAIL, run: email_import::run },
    Method { name: "Email/parse", capability: MAIL, run: email_parse::run },
    Method { name: "Email/query", capability: MAIL, run: email_query::run },
    Method { name: "Email/queryChanges", capability: MAIL, run: email_query_changes::run },
    Method { name: "Email/set", capability: MAIL, run: email_set::run },
    Method { name: "Identity/changes", capability: SUBMISSION, run: identity_changes::run },
    Method { name: "Identity/get", capability: SUBMISSION, run: identity_get::run },
    Method { name: "Identity/set", capability: SUBMISSION, run: identity_set::run },
    Method { name: "Mailbox/changes", capability: MAIL, run: mailbox_changes::run },
    Method { name: "Mailbox/get", capability: MAIL, run: mailbox_get::run },
    Method { name: "Mailbox/query", capability: MAIL, run: mailbox_query::run },
    Method { name: "Mailbox/queryChanges", capability: MAIL, run: mailbox_query_changes::run },
    Method { name: "Mailbox/set", capability: MAIL, run: mailbox_set::run },
    Method { name: "Quota/changes", capability: QUOTA, run: quota_changes::run },
    Method { name: "Quota/get", capability: QUOTA, run: quota_get::run },
    Method { name: "Quota/query", capability: QUOTA, run: quota_query::run },
    Method { name: "Quota/queryChanges", capability: QUOTA, run: quota_query_changes::run },
    Method { name: "SearchSnippet/get", capability: MAIL, run: search_snippet_get::run },
    Method { name: "Thread/changes", capability: MAIL, run: thread_changes::run },
    Method { name: "Thread/get", capability: MAIL, run: thread_get::run },
];

/// Returns the method with a name, if the request uses its capability.
#[must_use]
pub fn find(name: &str, using: &[String]) -> Option<&'static Method> {
    let method = METHODS.iter().find(|method| method.name == name)?;
    using.iter().any(|used| used == method.capability).then_some(method)
}

/// The arguments `accountId`, `ids` and `properties` of a `/get`.
#[derive(Clone, Debug)]
struct GetCall {
    account_id: String,
    ids: Option<Vec<String>>,
    properties: Option<Vec<String>>,
}

impl GetCall {
    fn parse(context: &Context<'_>, arguments: &mut Arguments) -> MethodResult<Self> {
        let account_id = arguments.account_id()?;
        let ids = arguments.texts("ids")?;
        let properties = arguments.texts("properties")?;
        if let Some(ids) = &ids {
            context.check_get_count(ids.len())?;
        }
        Ok(Self { account_id, ids, properties })
    }

    /// Checks that all properties are among those of the type.
    fn check_properties(&self, known: &[&str]) -> MethodResult<()> {
        let unknown = self.properties.iter().flatten().find(|name| !known.contains(&name.as_str()));
        match unknown {
            Some(name) => Err(MethodError::invalid_arguments(format!("there is no property {name}"))),
            None => Ok(()),
        }
    }

    /// Returns the ids that the client named, each once, or else all of them.
    fn wanted(&self, context: &Context<'_>, all: impl FnOnce() -> Vec<String>) -> MethodResult<Vec<String>> {
        let Some(ids) = &self.ids else {
            let all = all();
            context.check_get_count(all.len())?;
            return Ok(all);
        };
        let mut seen = HashSet::new();
        Ok(ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect())
    }

    /// Answers with the objects that `find` returns, reduced to the wanted properties.
    fn answer(
        &self,
        context: &Context<'_>,
        state: &str,
        wanted: Vec<String>,
        mut find: impl FnMut(&str) -> MethodResult<Option<Value>>,
    ) -> MethodResult<Map<String, Value>> {
        let mut list = Vec::new();
        let mut not_found = Vec::new();
        for id in wanted {
            let found = match context.resolve_id(&id) {
                Some(resolved) => find(&resolved)?,
                None => None,
            };
            match found {
                Some(object) => list.push(self.reduce(object)),
                None => not_found.push(id),
            }
        }
        let mut reply = Map::new();
        reply.insert("accountId".to_owned(), json!(self.account_id));
        reply.insert("state".to_owned(), json!(state));
        reply.insert("list".to_owned(), Value::Array(list));
        reply.insert("notFound".to_owned(), json!(not_found));
        Ok(reply)
    }

    /// Returns an object with the wanted properties and its id.
    fn reduce(&self, object: Value) -> Value {
        let (Value::Object(mut members), Some(properties)) = (object.clone(), &self.properties) else { return object };
        members.retain(|name, _| name == "id" || properties.contains(name));
        Value::Object(members)
    }
}

impl Context<'_> {
    /// Checks that a `/get` may have so many objects.
    fn check_get_count(&self, count: usize) -> MethodResult<()> {
        if count as u64 > self.services.limits.get_objects_max {
            return Err(MethodError::described("requestTooLarge", "there are more ids than maxObjectsInGet"));
        }
        Ok(())
    }

    /// Checks that a `/set` may have so many objects.
    fn check_set_count(&self, count: usize) -> MethodResult<()> {
        if count as u64 > self.services.limits.set_objects_max {
            return Err(MethodError::described("requestTooLarge", "there are more objects than maxObjectsInSet"));
        }
        Ok(())
    }
}
