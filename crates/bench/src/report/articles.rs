//! The tables of the articles that have the workload of a run, with the rows of the run beside them.

use super::model::Report;
use super::population;
use super::published::{PublishedRow, REMARK, own_name, reason_without_counterpart};
use super::table::{Cell, Table, header, judged_with_reason, none};
use crate::compare::output::format_figure;

/// The heading of the section.
pub const HEADING: &str = "Tables of the articles";

/// Describes the published values, or says that there are none.
pub fn describe(report: &Report) -> String {
    if report.published.is_empty() {
        return "No article has a table of this workload.".to_owned();
    }
    let footnote = population::footnote(report).map(|footnote| format!(" {footnote}")).unwrap_or_default();
    format!("Published values are of {REMARK}: they show what a table has, not who is faster.{footnote}")
}

/// Returns the tables in the order of the articles.
pub fn tables(report: &Report) -> Vec<Table> {
    let is_same = |one: &PublishedRow, other: &PublishedRow| one.source == other.source && one.table == other.table;
    report.published.chunk_by(is_same).map(|rows| table_of_rows(report, rows)).collect()
}

/// A column of a published table.
type Column<'a> = (&'a str, &'a str, u64);

fn column(row: &PublishedRow) -> Column<'_> {
    (&row.workload, &row.release, row.users)
}

fn table_of_rows(report: &Report, rows: &[PublishedRow]) -> Table {
    let mut columns: Vec<Column<'_>> = Vec::new();
    let mut resources: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let resource = (row.resource.as_str(), row.unit.as_str());
        if !columns.contains(&column(row)) {
            columns.push(column(row));
        }
        if !resources.contains(&resource) {
            resources.push(resource);
        }
    }
    let users: Vec<u64> = report.phases.iter().map(|phases| phases.users).collect();
    let mut names = header(&["resource", "unit"]);
    names.extend(columns.iter().map(|(workload, release, users)| format!("{workload}, {release}, {users} users")));
    names.extend(users.iter().map(|users| format!("this run, {users} users")));
    let line = |(resource, unit): &(&str, &str)| {
        let mut line = vec![Cell::Text((*resource).to_owned()), Cell::Text((*unit).to_owned())];
        for wanted in &columns {
            let value =
                rows.iter().find(|row| row.resource == *resource && row.unit == *unit && column(row) == *wanted);
            line.push(Cell::Number(value.map_or_else(none, |row| row.value.to_string())));
        }
        line.extend(users.iter().map(|users| own_value(report, resource, *users)));
        line
    };
    let lines: Vec<Vec<Cell>> = resources.iter().map(line).collect();
    let first = &rows[0];
    let caption = format!("[{}] {} ({}; {REMARK})", first.source, first.table, first.platform);
    Table { caption, header: names, rows: lines }
}

/// Returns the value of this run for a row of an article, in the unit of the article, or why there is none.
fn own_value(report: &Report, resource: &str, users: u64) -> Cell {
    if let Some(reason) = reason_without_counterpart(resource) {
        return Cell::Number(format!("none: {reason}"));
    }
    let level = report.headline.iter().flatten().find(|level| level.users == users);
    let (own, factor) = own_name(resource);
    let value = match own {
        "total_number_of_users" => Some(users.to_string()),
        "notesmark" => level.map(|level| format!("{:.1}", level.notesmark)),
        "response_time_msec" => level
            .and_then(|level| level.response.as_ref())
            .map(|response| format!("{:.1}", response.mean_us as f64 / 1_000.0)),
        own => {
            let row = report.server.rows.iter().find(|row| row.users == users && row.resource == own);
            let is_of_own_cores = own == "processor_percent_busy" && report.driver.pinned;
            let remark = if is_of_own_cores { " (of the server's own cores)" } else { "" };
            let mark = population::mark(report, own);
            row.map(|row| format!("{}{remark}{mark}", format_figure(row.mean * factor)))
        }
    };
    match value {
        Some(value) => judged_with_reason(report, users, value),
        None => Cell::Number(missing(report, own)),
    }
}

/// Returns why a row is missing.
fn missing(report: &Report, resource: &str) -> String {
    let missing = report.server.missing.iter().find(|missing| missing.resource == resource);
    missing.map_or_else(none, |missing| format!("none: {}", missing.reason))
}
