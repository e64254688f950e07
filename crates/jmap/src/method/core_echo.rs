//! Core/echo (RFC 8620 §4): returns its arguments.

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;

/// Runs the method.
pub(super) fn run(_: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    Ok(arguments.into_map())
}
