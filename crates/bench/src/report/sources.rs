//! The numbers of the workload with their sources.

use super::model::{NumberSource, Report};
use super::table::{Cell, Table, header};

/// The heading of the section.
pub const HEADING: &str = "Sources of the workload";

/// Describes what the workload promises.
pub fn describe(report: &Report) -> String {
    let per_minute = report.workload.promised.transactions_per_minute;
    format!("{} promises {per_minute:.3} transactions a user and minute at speed 1.", report.workload.name)
}

/// Returns all numbers of the workload file.
pub fn table(report: &Report) -> Table {
    let row = |number: &NumberSource| {
        let value = match &number.value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        vec![Cell::Text(number.key.clone()), Cell::Text(value), Cell::Text(number.sources.join(", "))]
    };
    let rows = report.workload.numbers.iter().map(row).collect();
    Table { caption: String::new(), header: header(&["key", "value", "sources"]), rows }
}
