//! The arguments of Mailbox/set.

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::error::MethodResult;

/// The arguments.
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
}
