//! I-JSON (RFC 7493): JSON in UTF-8 whose objects have no name twice.
//!
//! Two readers of an object with a name twice may take different values, also if one of the names is escaped. Such a
//! text is refused, like one that is too deep or has too many values. Names are compared after escapes are resolved.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::limits::{JSON_DEPTH_MAX, JSON_VALUES_MAX};

/// The reason why a text was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonFault {
    /// The text is not I-JSON.
    Invalid(String),
    /// The text has too many values or is too deep.
    TooLarge,
}

/// Parses a text.
pub fn parse(text: &[u8]) -> Result<Value, JsonFault> {
    let budget = Budget { values: Cell::new(JSON_VALUES_MAX), is_exceeded: Cell::new(false) };
    let mut input = serde_json::Deserializer::from_slice(text);
    let parsed = StrictValue { budget: &budget, depth: 0 }.deserialize(&mut input);
    let parsed = parsed.and_then(|value| input.end().map(|()| value));
    parsed.map_err(
        |error| if budget.is_exceeded.get() { JsonFault::TooLarge } else { JsonFault::Invalid(error.to_string()) },
    )
}

/// Returns the number of values in a value, itself included, or `None` if there are more than `values_max`.
#[must_use]
pub fn count_values(value: &Value, values_max: usize) -> Option<usize> {
    let mut left = values_max;
    let mut open = vec![value];
    while let Some(next) = open.pop() {
        left = left.checked_sub(1)?;
        match next {
            Value::Array(items) if items.len() <= left => open.extend(items),
            Value::Object(members) if members.len() <= left => open.extend(members.values()),
            Value::Array(_) | Value::Object(_) => return None,
            _ => {}
        }
    }
    Some(values_max - left)
}

struct Budget {
    values: Cell<usize>,
    is_exceeded: Cell<bool>,
}

impl Budget {
    fn take<E: serde::de::Error>(&self, depth: usize) -> Result<(), E> {
        match self.values.get().checked_sub(1).filter(|_| depth <= JSON_DEPTH_MAX) {
            Some(left) => {
                self.values.set(left);
                Ok(())
            }
            None => {
                self.is_exceeded.set(true);
                Err(E::custom("the text has too many values or is too deep"))
            }
        }
    }
}

#[derive(Clone, Copy)]
struct StrictValue<'b> {
    budget: &'b Budget,
    depth: usize,
}

impl StrictValue<'_> {
    fn inner(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for StrictValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        self.budget.take(self.depth)?;
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is too large"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = input.next_element_seed(self.inner())? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = input.next_key::<String>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format!("an object has the name {name:?} twice")));
            }
            let value = input.next_value_seed(self.inner())?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests;
