//! The arguments of a method: typed access, and the errors `invalidArguments` of a wrong or unknown one.
//!
//! `null` stands for an argument that is absent. A method takes the arguments that it knows and calls
//! [`Arguments::finish`], which refuses the others.

use base::Timestamp;
use mail::object_id::is_object_id;
use serde_json::{Map, Value};

use crate::error::{MethodError, MethodResult};

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    map: Map<String, Value>,
}

impl Arguments {
    /// Creates the arguments of a call, after its references were resolved.
    #[must_use]
    pub fn new(map: Map<String, Value>) -> Self {
        Self { map }
    }

    /// Takes an argument of any type.
    pub fn value(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Takes the argument `accountId`.
    pub fn account_id(&mut self) -> MethodResult<String> {
        self.required_id("accountId")
    }

    /// Takes an Id that must be there.
    pub fn required_id(&mut self, name: &str) -> MethodResult<String> {
        let id = self.text(name)?.filter(|id| is_object_id(id));
        id.ok_or_else(|| MethodError::invalid_arguments(format!("{name} is not an Id")))
    }

    /// Takes a string.
    pub fn text(&mut self, name: &str) -> MethodResult<Option<String>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a string")),
        }
    }

    /// Takes a string that must be there.
    pub fn required_text(&mut self, name: &str) -> MethodResult<String> {
        self.text(name)?.ok_or_else(|| wrong(name, "a string"))
    }

    /// Takes a boolean, which is `false` if it is absent.
    pub fn flag(&mut self, name: &str) -> MethodResult<bool> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(wrong(name, "a boolean")),
        }
    }

    /// Takes an unsigned integer.
    pub fn unsigned(&mut self, name: &str) -> MethodResult<Option<u64>> {
        match self.value(name) {
            None => Ok(None),
            Some(value) => as_unsigned(&value).map(Some).ok_or_else(|| wrong(name, "an unsigned integer")),
        }
    }

    /// Takes an integer.
    pub fn integer(&mut self, name: &str) -> MethodResult<Option<i64>> {
        match self.value(name) {
            None => Ok(None),
            Some(value) => as_integer(&value).map(Some).ok_or_else(|| wrong(name, "an integer")),
        }
    }

    /// Takes a list of strings.
    pub fn texts(&mut self, name: &str) -> MethodResult<Option<Vec<String>>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        as_texts(&value).map(Some).ok_or_else(|| wrong(name, "a list of strings"))
    }

    /// Takes an object.
    pub fn object(&mut self, name: &str) -> MethodResult<Option<Map<String, Value>>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(wrong(name, "an object")),
        }
    }

    /// Takes an object of new objects by creation id, which are Ids (RFC 8620 §5.3).
    pub fn creations(&mut self, name: &str) -> MethodResult<Option<Map<String, Value>>> {
        let creations = self.object(name)?;
        match creations.iter().flat_map(Map::keys).find(|id| !is_object_id(id)) {
            Some(id) => Err(MethodError::invalid_arguments(format!("the creation id {id:?} is not an Id"))),
            None => Ok(creations),
        }
    }

    /// Takes a list of values.
    pub fn list(&mut self, name: &str) -> MethodResult<Option<Vec<Value>>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(wrong(name, "a list")),
        }
    }

    /// Takes the arguments of some names, for code that reads them itself.
    pub fn take_all(&mut self, names: &[&str]) -> Map<String, Value> {
        names.iter().filter_map(|name| Some(((*name).to_owned(), self.map.remove(*name)?))).collect()
    }

    /// Returns the arguments that are left.
    #[must_use]
    pub fn into_map(self) -> Map<String, Value> {
        self.map
    }

    /// Checks that no argument is left.
    pub fn finish(self) -> MethodResult<()> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => Err(MethodError::invalid_arguments(format!("there is no argument {name}"))),
        }
    }
}

/// Returns an unsigned integer of JMAP: at most 2⁵³ - 1, without a fraction.
#[must_use]
pub fn as_unsigned(value: &Value) -> Option<u64> {
    as_integer(value).and_then(|number| u64::try_from(number).ok())
}

/// Returns an integer of JMAP: between -2⁵³ + 1 and 2⁵³ - 1, without a fraction.
#[must_use]
pub fn as_integer(value: &Value) -> Option<i64> {
    let max = (1_i64 << 53) - 1;
    let number = value.as_i64().or_else(|| value.as_f64().and_then(whole_number));
    number.filter(|number| (-max..=max).contains(number))
}

/// Returns a number without a fraction as an integer. JSON does not tell `1` from `1.0`.
fn whole_number(number: f64) -> Option<i64> {
    (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// Returns a list of strings.
#[must_use]
pub fn as_texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Parses a UTCDate (RFC 8620 §1.4). A fraction of zero must be left out.
#[must_use]
pub fn parse_utc_date(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let is_digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
    let is_form = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18].into_iter().all(is_digit)
        && [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')].iter().all(|(at, byte)| bytes[*at] == *byte);
    let fraction = text.get(19..)?.strip_suffix('Z')?;
    let is_fraction = fraction.is_empty()
        || fraction.strip_prefix('.').is_some_and(|digits| {
            let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number && digits.bytes().any(|byte| byte != b'0')
        });
    if !is_form || !is_fraction {
        return None;
    }
    text.parse::<jiff::Timestamp>().ok().map(|time| Timestamp(time.as_microsecond()))
}

fn wrong(name: &str, expected: &str) -> MethodError {
    MethodError::invalid_arguments(format!("{name} is not {expected}"))
}
