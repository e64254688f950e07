//! What the workload is, and its numbers with their sources.

use super::model::{NumberSource, Report, Workload};
use super::table::{Cell, Table, header};

/// The heading of the section.
pub const HEADING: &str = "Sources of the workload";

/// Describes what the workload is and what it promises, as paragraphs.
pub fn describe(report: &Report) -> Vec<String> {
    let Workload { name, title, about, promised, .. } = &report.workload;
    let per_minute = promised.transactions_per_minute;
    let promise = format!("{name} promises {per_minute:.3} transactions a user and minute at speed 1.");
    let about = about.split("\n\n").filter(|paragraph| !paragraph.is_empty()).map(str::to_owned);
    [format!("{name}: {title}.")].into_iter().chain(about).chain([promise]).collect()
}

/// Returns the tags of the sources with their meaning.
pub fn meanings(report: &Report) -> Vec<String> {
    report.workload.tags.iter().map(|(tag, meaning)| format!("{tag}: {meaning}")).collect()
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
