//! Mailbox/queryChanges (RFC 8621 §2.4): always `cannotCalculateChanges`, as Mailbox/query says. The list is short.

use serde_json::{Map, Value};

use super::mailbox_query::parse_sort;
use crate::arguments::Arguments;
use crate::changes::parse_max_changes;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    arguments.take_all(&["filter"]);
    parse_sort(&arguments.list("sort")?.unwrap_or_default())?;
    arguments.flag("sortAsTree")?;
    arguments.flag("filterAsTree")?;
    arguments.required_text("sinceQueryState")?;
    parse_max_changes(&mut arguments)?;
    arguments.text("upToId")?;
    arguments.flag("calculateTotal")?;
    arguments.finish()?;
    context.account(&account_id)?;
    Err(MethodError::new("cannotCalculateChanges"))
}
