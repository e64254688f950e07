//! VacationResponse (RFC 8621 §8): the out of office reply of a mail file, in its profile document
//! `OutOfOfficeProfile`.
//!
//! | item | content |
//! |---|---|
//! | `IsEnabled` | `true` |
//! | `FromDate`, `ToDate` | UTCDate |
//! | `Subject`, `TextBody`, `HtmlBody` | texts |
//!
//! The object is kept and reported. This crate sends no replies.

use mail::profile::{text_item, text_of};
use notes::Item;
use serde_json::{Map, Value, json};

use super::singleton::Singleton;
use crate::arguments::{Arguments, parse_utc_date};
use crate::context::Context;
use crate::error::{MethodResult, SetError};
use crate::limits::{VACATION_SUBJECT_BYTES_MAX, VACATION_TEXT_BYTES_MAX};
use crate::profile::OUT_OF_OFFICE;

const TYPE: Singleton = Singleton {
    profile: OUT_OF_OFFICE,
    is_personal: false,
    properties: &["isEnabled", "fromDate", "toDate", "subject", "textBody", "htmlBody"],
    server_set: &[],
    locked: |_| Vec::new(),
    mark: |_| None,
    read,
    write,
};

/// Runs `VacationResponse/get`.
pub(super) fn run_get(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    TYPE.get(context, arguments)
}

/// Runs `VacationResponse/set`.
pub(super) fn run_set(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    TYPE.set(context, arguments)
}

fn item_name(property: &str) -> &'static str {
    match property {
        "isEnabled" => "IsEnabled",
        "fromDate" => "FromDate",
        "toDate" => "ToDate",
        "subject" => "Subject",
        "textBody" => "TextBody",
        _ => "HtmlBody",
    }
}

fn read(items: &[Item], property: &str) -> Value {
    let text = text_of(items, item_name(property));
    if property == "isEnabled" { json!(text == Some("true")) } else { json!(text) }
}

fn write(property: &str, value: &Value) -> Result<Option<Item>, SetError> {
    let name = item_name(property);
    let invalid = |reason: &str| SetError::invalid_properties(&[property], reason);
    match (property, value) {
        // It has no default value that null could stand for (RFC 8621 §8, RFC 8620 §5.3).
        ("isEnabled", Value::Bool(is_enabled)) => Ok(is_enabled.then(|| Item::text(name, "true"))),
        ("isEnabled", _) => Err(invalid("the value is not a boolean")),
        (_, Value::Null) => Ok(None),
        ("fromDate" | "toDate", Value::String(text)) if parse_utc_date(text).is_some() => {
            Ok(Some(Item::text(name, text.as_str())))
        }
        ("fromDate" | "toDate", _) => Err(invalid("the value is not a UTCDate")),
        ("subject", Value::String(text)) if text.len() > VACATION_SUBJECT_BYTES_MAX => {
            Err(invalid("the text is too long"))
        }
        ("subject", Value::String(text)) if text.chars().any(char::is_control) => {
            Err(invalid("the text has control characters"))
        }
        (_, Value::String(text)) if text.len() > VACATION_TEXT_BYTES_MAX => Err(invalid("the text is too long")),
        (_, Value::String(text)) => Ok(Some(text_item(name, text))),
        _ => Err(invalid("the value is not a string")),
    }
}
