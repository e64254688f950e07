//! The arguments of Mailbox/set.

use serde_json::Map;

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

    /// Returns the creations and the other changes apart, if these concern mailboxes that the call creates.
    pub(super) fn split_at_creations(&self) -> Option<[Self; 2]> {
        let set = &self.set;
        let is_created = |id: &String| id.strip_prefix('#').is_some_and(|id| set.create.contains_key(id));
        if !set.update.keys().chain(&set.destroy).any(is_created) {
            return None;
        }
        let creations = SetCall { update: Map::new(), destroy: Vec::new(), ..set.clone() };
        let others = SetCall { create: Map::new(), if_in_state: None, ..set.clone() };
        Some([creations, others].map(|set| Self { set, removes_emails: self.removes_emails }))
    }
}
