//! What the `/get` methods have in common (RFC 8620 §5.1): ids, properties, and the reply.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// The arguments `accountId`, `ids` and `properties` of a `/get`.
#[derive(Clone, Debug)]
pub(super) struct GetCall {
    pub(super) account_id: String,
    pub(super) ids: Option<Vec<String>>,
    pub(super) properties: Option<Vec<String>>,
}

impl GetCall {
    /// Reads the arguments, and limits the number of ids.
    pub(super) fn parse(context: &Context<'_>, arguments: &mut Arguments) -> MethodResult<Self> {
        let account_id = arguments.account_id()?;
        let ids = arguments.texts("ids")?;
        let properties = arguments.texts("properties")?;
        if let Some(ids) = &ids {
            context.check_get_count(ids.len())?;
        }
        Ok(Self { account_id, ids, properties })
    }

    /// Checks that all properties are among those of the type.
    pub(super) fn check_properties(&self, known: &[&str]) -> MethodResult<()> {
        let unknown = self.properties.iter().flatten().find(|name| !known.contains(&name.as_str()));
        match unknown {
            Some(name) => Err(MethodError::invalid_arguments(format!("there is no property {name}"))),
            None => Ok(()),
        }
    }

    /// Returns the ids that the client named, each once, or else all of them.
    pub(super) fn wanted(&self, context: &Context<'_>, all: impl FnOnce() -> Vec<String>) -> MethodResult<Vec<String>> {
        let Some(ids) = &self.ids else {
            let all = all();
            context.check_get_count(all.len())?;
            return Ok(all);
        };
        let mut seen = HashSet::new();
        Ok(ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect())
    }

    /// Answers with the objects that `find` returns, reduced to the wanted properties.
    pub(super) fn answer(
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
                Some(object) => {
                    let object = self.reduce(object);
                    context.count_reply(&object)?;
                    list.push(object);
                }
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
        let Some(properties) = &self.properties else { return object };
        let Value::Object(mut members) = object else { return object };
        members.retain(|name, _| name == "id" || properties.contains(name));
        Value::Object(members)
    }
}
