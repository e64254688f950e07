//! The types about whose changes a client wants to be told.

use serde_json::Value;

use crate::arguments::as_texts;
use crate::limits::{TYPE_NAME_BYTES_MAX, TYPES_MAX};

/// The types about which a client wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeSelection {
    /// The names; `None` for all.
    names: Option<Vec<String>>,
}

impl TypeSelection {
    /// Reads `*`, or names with commas between them.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let names = (text != "*").then(|| text.split(',').map(|name| name.trim().to_owned()).collect());
        Self { names }
    }

    /// Reads a list of names, or `null` for all types. Returns `None` if the value is something else, or too long.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        if value.is_null() {
            return Some(Self { names: None });
        }
        let names = as_texts(value)?;
        let is_short = names.len() <= TYPES_MAX && names.iter().all(|name| name.len() <= TYPE_NAME_BYTES_MAX);
        is_short.then_some(Self { names: Some(names) })
    }

    /// Returns the names; `None` for all types.
    #[must_use]
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    /// Returns `true` if the client wants to know about a type.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
    }
}
