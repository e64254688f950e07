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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub says: Vec<String>,
    /// A record, or a list of records.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// Text that people see in place of the data, if the data has a textual form of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Description of the parts that failed although the rest succeeded. The command prints its results and then fails
    /// with this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
}

impl Answer {
    /// Creates an answer with one sentence.
    #[must_use]
    pub fn message(text: impl Into<String>) -> Self {
        Self { says: vec![text.into()], ..Self::default() }
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
        self.says.push(text.into());
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
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, many: &str) -> String {
    let what = if count == N::from(1) { one } else { many };
    format!("{count} {what}")
}

/// Progress of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Description of the current step, such as `importing inbox.mbox`.
    pub what: String,
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
    at.map_or(Value::Null, |at| Value::String(rfc3339(at)))
}

/// Formats a timestamp according to RFC 3339, in UTC, with a precision of one second.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let days = at.seconds().div_euclid(86_400);
    let seconds = at.seconds().rem_euclid(86_400);
    let (year, month, day) = civil_from_days(days);
    let hour = seconds / 3_600;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Converts days since 1970-01-01 into year, month and day of the Gregorian calendar (Howard Hinnant's algorithm).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        let check = |seconds, expected: &str| assert_eq!(rfc3339(Timestamp::from_seconds(seconds)), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(951_827_696, "2000-02-29T12:34:56Z");
        check(1_767_225_599, "2025-12-31T23:59:59Z");
        check(-1, "1969-12-31T23:59:59Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
    }
}
