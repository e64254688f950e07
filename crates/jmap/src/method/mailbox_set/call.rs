//! The arguments of Mailbox/set.

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::error::MethodResult;

/// The arguments.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) account_id: String,
    pub(super) if_in_state: Option<String>,
    pub(super) create: Map<String, Value>,
    pub(super) update: Map<String, Value>,
    pub(super) destroy: Vec<String>,
    pub(super) removes_emails: bool,
}

impl Call {
    /// Reads the arguments.
    pub(super) fn parse(mut arguments: Arguments) -> MethodResult<Self> {
        let call = Self {
            account_id: arguments.account_id()?,
            if_in_state: arguments.text("ifInState")?,
            create: arguments.object("create")?.unwrap_or_default(),
            update: arguments.object("update")?.unwrap_or_default(),
            destroy: arguments.texts("destroy")?.unwrap_or_default(),
            removes_emails: arguments.flag("onDestroyRemoveEmails")?,
        };
        arguments.finish()?;
        Ok(call)
    }

    /// Returns the creations and the other changes apart, if these concern mailboxes that the call creates.
    pub(super) fn split_at_creations(&self) -> Option<[Self; 2]> {
        let is_created = |id: &String| id.strip_prefix('#').is_some_and(|id| self.create.contains_key(id));
        if !self.update.keys().chain(&self.destroy).any(is_created) {
            return None;
        }
        let others = Self { create: Map::new(), if_in_state: None, ..self.clone() };
        Some([Self { update: Map::new(), destroy: Vec::new(), ..self.clone() }, others])
    }
}
