//! What the administration answers, and how far it is.
//!
//! An [`Answer`] has a sentence for people, data for programs, or both. Data is one record or a list of records; the names of
//! fields say their units (`size_bytes`), and the same names are the columns of the table that people see. Times are texts (RFC
//! 3339, UTC).

use std::fmt::Display;
use std::ops::ControlFlow;

use base::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a task has brought.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Sentences for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub says: Vec<String>,
    /// A record or a list of records.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// What people see in the place of the data, where that is a text by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What could not be done although the rest was; the command fails with it after its results were printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
}

impl Answer {
    /// Answers with a sentence.
    #[must_use]
    pub fn say(text: impl Into<String>) -> Self {
        Self { says: vec![text.into()], ..Self::default() }
    }

    /// Answers with one record.
    #[must_use]
    pub fn record(fields: Vec<(&str, Value)>) -> Self {
        Self { data: record(fields), ..Self::default() }
    }

    /// Answers with a list of records.
    #[must_use]
    pub fn list(records: Vec<Value>) -> Self {
        Self { data: Value::Array(records), ..Self::default() }
    }

    /// Adds a sentence.
    #[must_use]
    pub fn and(mut self, text: impl Into<String>) -> Self {
        self.says.push(text.into());
        self
    }
}

/// Makes a record of fields in their order.
#[must_use]
pub fn record(fields: Vec<(&str, Value)>) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// Gives a count with what is counted: the first text where it is one, else the second.
#[must_use]
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, many: &str) -> String {
    let what = if count == N::from(1) { one } else { many };
    format!("{count} {what}")
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done, as in `importing inbox.mbox`.
    pub what: String,
    /// How much is done.
    pub done: u64,
    /// How much there is to do, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// What is counted.
    pub unit: Unit,
}

/// What progress counts.
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

/// Hears how far a task is, and says whether to go on.
pub type Report<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Gives a moment as a text, or null where there is none.
#[must_use]
pub fn moment(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| Value::String(rfc3339(at)))
}

/// Gives a moment in the form of RFC 3339, in UTC, to the second.
#[must_use]
pub fn rfc3339(at: Timestamp) -> String {
    let (days, seconds) = (at.seconds().div_euclid(86_400), at.seconds().rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Turns days since 1970-01-01 into year, month and day of the Gregorian calendar (Howard Hinnant's algorithm).
fn civil(days: i64) -> (i64, i64, i64) {
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
