//! Quota/queryChanges (RFC 9425 §4.5): always `cannotCalculateChanges`, as Quota/query says.

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    arguments.required_text("sinceQueryState")?;
    arguments.take_all(&["filter", "sort", "maxChanges", "upToId", "calculateTotal"]);
    arguments.finish()?;
    context.account(&account_id)?;
    Err(MethodError::new("cannotCalculateChanges"))
}
