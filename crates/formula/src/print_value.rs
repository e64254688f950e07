//! Formatting of values for display on a command line or in a log.

use base::Timestamp;

use crate::number_text::{self, NumberFormat};
use crate::options::FormulaOptions;
use crate::time_text::{self, TimeFormat};
use crate::value::Value;

/// Formats a value as one text with its elements separated by semicolons. An error is formatted as its message.
#[must_use]
pub fn render(value: &Value<'_>, options: &FormulaOptions, now: Timestamp) -> String {
    if let Value::Error(failure) = value {
        return failure.kind.to_string();
    }
    render_elements(value, options, now).join("; ")
}

/// Formats each element of a value.
#[must_use]
pub fn render_elements(value: &Value<'_>, options: &FormulaOptions, now: Timestamp) -> Vec<String> {
    let number = |number: &f64| number_text::format(*number, &NumberFormat::default(), &options.locale);
    let time = |time: &crate::time::Moment| time_text::format(*time, &TimeFormat::parse([]), options, now);
    match value {
        Value::Error(failure) => vec![failure.kind.to_string()],
        Value::Number(_) | Value::Numbers(_) => value.numbers().unwrap_or_default().iter().map(number).collect(),
        Value::Time(_) | Value::Times(_) => value.times().unwrap_or_default().iter().map(time).collect(),
        _ => value.texts().unwrap_or_default().iter().map(|text| text.to_string()).collect(),
    }
}
