//! Preferences, a type of our own (`docs/jmap.md`): the settings of a person that all clients share, in the personal
//! profile document `Preferences` of the mail file.
//!
//! The items have the names of the properties with a capital letter, and texts as values. `null` stands for the
//! choice of the client. No policies exist yet, so `locked` is empty.

use mail::object_id::is_object_id;
use notes::Item;
use serde_json::{Map, Value, json};

use super::singleton::Singleton;
use crate::arguments::{Arguments, as_unsigned};
use crate::context::Context;
use crate::error::{MethodResult, SetError};
use crate::limits::{PAGE_SIZE_MAX, PAGE_SIZE_MIN, UNDO_SECONDS_MAX};
use crate::profile::{PREFERENCES, text_of};

const TYPE: Singleton = Singleton {
    profile: PREFERENCES,
    is_personal: true,
    properties: &[
        "language",
        "timeZone",
        "pageSize",
        "collapseThreads",
        "composeFormat",
        "defaultIdentityId",
        "signaturePlacement",
        "undoSeconds",
        "webMode",
    ],
    server_set: &[("locked", || json!([]))],
    read,
    write,
};

/// Runs `Preferences/get`.
pub(super) fn run_get(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    TYPE.get(context, arguments)
}

/// Runs `Preferences/changes`.
pub(super) fn run_changes(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    TYPE.changes(context, arguments)
}

/// Runs `Preferences/set`.
pub(super) fn run_set(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    TYPE.set(context, arguments)
}

/// The values of a property.
enum Kind {
    /// Texts for which a check returns `true`.
    Text(fn(&str) -> bool),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A number in a range.
    Number(u64, u64),
    /// A boolean.
    Flag,
}

fn kind_of(property: &str) -> Kind {
    match property {
        "language" => Kind::Text(is_language),
        "timeZone" => Kind::Text(is_time_zone),
        "pageSize" => Kind::Number(PAGE_SIZE_MIN, PAGE_SIZE_MAX),
        "collapseThreads" => Kind::Flag,
        "composeFormat" => Kind::Choice(&["plain", "html"]),
        "defaultIdentityId" => Kind::Text(is_object_id),
        "signaturePlacement" => Kind::Choice(&["aboveQuote", "belowQuote", "none"]),
        "undoSeconds" => Kind::Number(0, UNDO_SECONDS_MAX),
        _ => Kind::Choice(&["full", "lite"]),
    }
}

fn item_name(property: &str) -> String {
    property.chars().take(1).flat_map(char::to_uppercase).chain(property.chars().skip(1)).collect()
}

fn read(items: &[Item], property: &str) -> Value {
    let Some(text) = text_of(items, &item_name(property)) else { return Value::Null };
    match kind_of(property) {
        Kind::Text(_) | Kind::Choice(_) => json!(text),
        Kind::Number(..) => json!(text.parse::<u64>().ok()),
        Kind::Flag => json!(text == "true"),
    }
}

fn write(property: &str, value: &Value) -> Result<Option<Item>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let text = match kind_of(property) {
        Kind::Text(is_valid) => value.as_str().filter(|text| is_valid(text)).map(str::to_owned),
        Kind::Choice(texts) => value.as_str().filter(|text| texts.contains(text)).map(str::to_owned),
        Kind::Number(min, max) => {
            as_unsigned(value).filter(|number| (min..=max).contains(number)).map(|number| number.to_string())
        }
        Kind::Flag => value.as_bool().map(|flag| flag.to_string()),
    };
    let text = text.ok_or_else(|| SetError::invalid_properties(&[property], "the preference has no such value"))?;
    Ok(Some(Item::text(item_name(property), text)))
}

/// Returns `true` if a text has the form of a language tag (RFC 5646).
fn is_language(text: &str) -> bool {
    let is_subtag = |tag: &str| (1..=8).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 35 && text.split('-').all(is_subtag)
}

/// Returns `true` if a text has the form of a name in the IANA time zone database.
fn is_time_zone(text: &str) -> bool {
    let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte);
    text.len() <= 64 && text.split('/').all(|part| !part.is_empty() && part.bytes().all(is_byte))
}
