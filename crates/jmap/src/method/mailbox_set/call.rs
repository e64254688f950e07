//! The arguments of Mailbox/set.

use std::collections::HashSet;

use mail::mailbox_list::MailboxList;
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;
use crate::method::set_call::SetCall;

/// The arguments.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) set: SetCall,
    pub(super) removes_emails: bool,
}

impl Call {
    /// Reads the arguments.
    pub(super) fn parse(context: &Context<'_>, mut arguments: Arguments) -> MethodResult<Self> {
        let removes_emails = arguments.flag("onDestroyRemoveEmails")?;
        Ok(Self { set: SetCall::parse(context, arguments)?, removes_emails })
    }

    /// Returns two calls that do the same one after the other, or `None` if one transaction does it. Creations come
    /// first if the other changes concern mailboxes that the call creates. They come last if the other changes may give
    /// free a name or a role for them.
    pub(super) fn split(&self, list: &MailboxList) -> Option<[Self; 2]> {
        let set = &self.set;
        if set.create.is_empty() || (set.update.is_empty() && set.destroy.is_empty()) {
            return None;
        }
        let is_created = |id: &str| id.strip_prefix('#').is_some_and(|id| set.create.contains_key(id));
        let refers_to_created = |patch: &Value| patch.get("parentId").and_then(Value::as_str).is_some_and(is_created);
        let is_first = set.update.keys().chain(&set.destroy).any(|id| is_created(id))
            || set.update.values().any(refers_to_created);
        let names: HashSet<&str> = list.all().map(|mailbox| mailbox.name.as_str()).collect();
        let has_taken = |object: &Value| {
            let name = object.get("name").and_then(Value::as_str).unwrap_or_default().nfc().collect::<String>();
            names.contains(name.as_str()) || object.get("role").is_some_and(Value::is_string)
        };
        if !is_first && !set.create.values().any(has_taken) {
            return None;
        }
        let creations = SetCall { update: Map::new(), destroy: Vec::new(), ..set.clone() };
        let others = SetCall { create: Map::new(), ..set.clone() };
        let creations = Self { set: creations, removes_emails: false };
        let others = Self { set: others, removes_emails: self.removes_emails };
        let mut calls = if is_first { [creations, others] } else { [others, creations] };
        calls[1].set.if_in_state = None;
        Some(calls)
    }
}
