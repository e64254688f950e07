//! Results and progress of administration commands.
//!
//! An [`Answer`] holds sentences for people, data for programs, or both. Data is one record or a list of records. Field
//! names include their units (`size_bytes`) and are also the columns of the table that people see. Times are texts (RFC
//! 3339, UTC).

use std::fmt::Display;
use std::ops::ControlFlow;

use base::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Result of an administration command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Sentences for people.
    #[serde(default, rename = "says", skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
    /// A record, or a list of records.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Text that people see in place of the data, if the data has a textual form of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Description of the parts that failed although the rest succeeded. The command prints its results and then fails
    /// with this text.
    #[serde(default, rename = "complaint", skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Answer {
    /// Creates an answer with one sentence.
    #[must_use]
    pub fn message(text: impl Into<String>) -> Self {
        Self { messages: vec![text.into()], ..Self::default() }
    }

    /// Creates an answer with one record.
    #[must_use]
    pub fn record(fields: Vec<(&str, Value)>) -> Self {
        Self { data: record(fields), ..Self::default() }
    }

    /// Creates an answer with a list of records.
    #[must_use]
    pub fn list(records: Vec<Value>) -> Self {
        Self { data: Value::Array(records), ..Self::default() }
    }

    /// Adds a sentence.
    #[must_use]
    pub fn with_message(mut self, text: impl Into<String>) -> Self {
        self.messages.push(text.into());
        self
    }
}

/// Creates a record from fields, keeping their order.
#[must_use]
pub fn record(fields: Vec<(&str, Value)>) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// Formats a count together with its noun: `one` if the count is 1, otherwise `many`.
#[must_use]
pub fn format_count<N: Display + PartialEq + From<u8>>(count: N, one: &str, many: &str) -> String {
    let what = if count == N::from(1) { one } else { many };
    format!("{count} {what}")
}

/// Progress of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Description of the current step, such as `importing inbox.mbox`.
    #[serde(rename = "what")]
    pub step: String,
    /// Amount of work done.
    pub done: u64,
    /// Total amount of work, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Unit of `done` and `total`.
    pub unit: Unit,
}

/// Unit in which progress is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Messages.
    Messages,
    /// Notes.
    Notes,
    /// Rows of a table.
    Rows,
    /// Views.
    Views,
    /// Databases.
    Databases,
    /// Tables of the store.
    Tables,
    /// Files.
    Files,
}

/// Callback that receives the progress of a command and decides whether the command continues.
pub type ProgressCallback<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Returns a timestamp as text, or null if there is no timestamp.
#[must_use]
pub fn timestamp_json(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| Value::String(at.to_rfc3339()))
}
