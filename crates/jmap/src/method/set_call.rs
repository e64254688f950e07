//! The arguments and the parts of the reply that the `/set` methods have in common (RFC 8620 §5.3).
//!
//! A method takes its further arguments first. [`SetCall::parse`] takes the others and refuses unknown ones.

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// The arguments `accountId`, `ifInState`, `create`, `update` and `destroy` of a `/set`.
#[derive(Clone, Debug)]
pub(super) struct SetCall {
    pub(super) account_id: String,
    pub(super) if_in_state: Option<String>,
    pub(super) create: Map<String, Value>,
    pub(super) update: Map<String, Value>,
    pub(super) destroy: Vec<String>,
}

impl SetCall {
    /// Reads the arguments, checks that no others are left, and limits the number of objects.
    pub(super) fn parse(context: &Context<'_>, mut arguments: Arguments) -> MethodResult<Self> {
        let account_id = arguments.account_id()?;
        let if_in_state = arguments.text("ifInState")?;
        let SetObjects { create, update, destroy } = SetObjects::parse(context, arguments)?;
        Ok(Self { account_id, if_in_state, create, update, destroy })
    }

    /// Returns `stateMismatch` if the client expects another state than the current one.
    pub(super) fn check_state(&self, current: &str) -> MethodResult<()> {
        match &self.if_in_state {
            Some(expected) if expected != current => Err(MethodError::new("stateMismatch")),
            _ => Ok(()),
        }
    }

    /// Returns a reply with the account and both states, without outcomes.
    pub(super) fn reply(&self, old_state: &str, new_state: &str) -> Map<String, Value> {
        Map::from_iter([
            ("accountId".to_owned(), json!(self.account_id)),
            ("oldState".to_owned(), json!(old_state)),
            ("newState".to_owned(), json!(new_state)),
        ])
    }
}

/// The arguments `create`, `update` and `destroy`, which are all that a type without accounts has.
#[derive(Clone, Debug)]
pub(super) struct SetObjects {
    pub(super) create: Map<String, Value>,
    pub(super) update: Map<String, Value>,
    pub(super) destroy: Vec<String>,
}

impl SetObjects {
    /// Reads the arguments, checks that no others are left, and limits the number of objects.
    pub(super) fn parse(context: &Context<'_>, mut arguments: Arguments) -> MethodResult<Self> {
        let objects = Self {
            create: arguments.creations("create")?.unwrap_or_default(),
            update: arguments.object("update")?.unwrap_or_default(),
            destroy: arguments.texts("destroy")?.unwrap_or_default(),
        };
        arguments.finish()?;
        context.check_set_count(objects.create.len() + objects.update.len() + objects.destroy.len())?;
        Ok(objects)
    }
}
