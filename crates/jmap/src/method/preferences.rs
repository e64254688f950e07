//! Preferences, a type of our own (`docs/jmap.md`): the settings of a person that all clients share, in the personal
//! profile document `Preferences` of the mail file.
//!
//! [`mail::preferences`] has the names and the values. `null` stands for the choice of the client. Those that the
//! operator has set for all people are in `locked`, and cannot be changed.

use mail::preferences::{self, PREFERENCES, PREFERENCES_PROFILE, PreferenceKind};
use notes::Item;
use serde_json::{Map, Value, json};

use super::singleton::Singleton;
use crate::arguments::{Arguments, as_unsigned};
use crate::context::Context;
use crate::error::{MethodResult, SetError};

const TYPE: Singleton = Singleton {
    profile: PREFERENCES_PROFILE,
    is_personal: true,
    properties: &PREFERENCES,
    server_set: &[("locked", |account| account.file.mail().options().locked_preferences.names().collect())],
    locked: |account| account.file.mail().options().locked_preferences.items(),
    mark: |account| account.file.mail().options().locked_preferences.digest(),
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

fn read(items: &[Item], property: &str) -> Value {
    let Some(text) = preferences::value(items, property) else { return Value::Null };
    match PreferenceKind::of(property) {
        PreferenceKind::Text(_) | PreferenceKind::Choice(_) => json!(text),
        PreferenceKind::Number(..) => json!(text.parse::<u64>().ok()),
        PreferenceKind::Flag => json!(text == "true"),
    }
}

fn write(property: &str, value: &Value) -> Result<Option<Item>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let text = match PreferenceKind::of(property) {
        PreferenceKind::Text(_) | PreferenceKind::Choice(_) => value.as_str().map(str::to_owned),
        PreferenceKind::Number(..) => as_unsigned(value).map(|number| number.to_string()),
        PreferenceKind::Flag => value.as_bool().map(|flag| flag.to_string()),
    };
    let item = text.and_then(|text| preferences::item(property, &text));
    let invalid = || SetError::invalid_properties(&[property], "the preference has no such value");
    item.ok_or_else(invalid).map(Some)
}
