//! Email/get (RFC 8621 §4.2): messages by id, with the properties that the client names.
//!
//! A message is read only if one of its properties needs that. A message that is damaged or hidden is not found.

use serde_json::{Map, Value};

use super::get_call::GetCall;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::email::{BodyOptions, EmailProperty};
use crate::error::{MethodError, MethodResult};
use crate::stored_email::object_of;

/// The arguments about bodies, which [`BodyOptions`] reads.
pub(super) const BODY_ARGUMENTS: [&str; 5] =
    ["bodyProperties", "fetchTextBodyValues", "fetchHTMLBodyValues", "fetchAllBodyValues", "maxBodyValueBytes"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    let options = BodyOptions::from_arguments(&arguments.take_all(&BODY_ARGUMENTS));
    let options = options.map_err(MethodError::invalid_arguments)?;
    arguments.finish()?;
    let properties = parse_properties(call.properties.as_deref(), EmailProperty::defaults)?;
    let account = context.account(&call.account_id)?;
    let view = context.view(&account)?;
    let all = || view.table.rows().map(|row| row.email_id.to_string()).collect();
    let wanted = call.wanted(context, all)?;
    let find = |id: &str| match view.table.email(id) {
        Some(row) => object_of(&view, row, &properties, &options),
        None => Ok(None),
    };
    // The object has the wanted properties already, under the names that the client used.
    let call = GetCall { properties: None, ..call };
    call.answer(context, &view.email_state(), wanted, find)
}

/// Parses the names of properties. The id is always among them.
pub(super) fn parse_properties(
    names: Option<&[String]>,
    defaults: impl FnOnce() -> Vec<EmailProperty>,
) -> MethodResult<Vec<EmailProperty>> {
    let Some(names) = names else { return Ok(defaults()) };
    let mut properties = Vec::with_capacity(names.len() + 1);
    for name in std::iter::once("id").chain(names.iter().map(String::as_str).filter(|name| *name != "id")) {
        let property = EmailProperty::parse(name);
        properties.push(property.ok_or_else(|| MethodError::invalid_arguments(format!("no property {name}")))?);
    }
    Ok(properties)
}
