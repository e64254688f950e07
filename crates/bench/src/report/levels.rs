//! Figures over the levels of a run, as curves and as a table, and the phases of each level.
//!
//! As in the articles: what the server needs, by users. A run with one level has no curves.

use super::curves::Curve;
use super::model::{Headline, Phases, Report};
use super::population;
use super::table::{Cell, Table, judged, none};
use crate::compare::output::format_figure;

/// The rows of the server that have curves, over the levels and over the time, with what they show.
pub const ROWS: &[(&str, &str)] = &[
    (PROCESSOR, "processor_percent_busy"),
    ("Memory of the server, resident set, MB", "process_resident_memory_in_mb"),
    ("Disk of the data folder, operations a second", "total_disk_operations_per_second"),
    ("Disk of the data folder, MB a second", "total_disk_mb_transferred_per_second"),
    ("Written by the server to the disk, MB a second", "process_disk_mb_written_per_second"),
    ("Network, MB a second", "network_mb_per_second"),
];
const PROCESSOR: &str = "Processor of the server, percent of all cores";
const PINNED_PROCESSOR: &str = "Processor of the server, percent of its own cores";

/// A figure at several levels.
struct Series {
    title: String,
    /// The users of each level, and the figure.
    points: Vec<(u64, f64)>,
}

/// Returns what a row shows in a report, whose server may have had cores of its own.
pub fn title<'a>(report: &Report, title: &'a str) -> &'a str {
    if title == PROCESSOR && report.driver.pinned { PINNED_PROCESSOR } else { title }
}

/// Describes the phases of each level, in seconds since the start signal.
pub fn describe_phases(report: &Report) -> Vec<String> {
    let time = |time_us: Option<u64>| {
        time_us.map_or_else(|| "not reached".to_owned(), |time_us| format!("{:.1} s", time_us as f64 / 1e6))
    };
    let describe = |phases: &Phases| {
        let Phases { users, ramp_up_end_us, steady_us, measure_start_us, measure_end_us, end_us } = phases;
        format!(
            "{users} users: end of ramp-up {}, steady state {}, measured interval {} to {}, end {}",
            time(*ramp_up_end_us),
            time(*steady_us),
            time(*measure_start_us),
            time(*measure_end_us),
            time(*end_us)
        )
    };
    report.phases.iter().map(describe).collect()
}

/// Describes how many users of a level were connected.
pub fn describe_connected(level: &Headline) -> String {
    format!("at most {} users were connected", level.users_connected_max)
}

/// Describes the transactions of a level that are in no response time.
pub fn describe_without_call(level: &Headline) -> String {
    format!("{:.1} % of the transactions made no call of their own", level.transactions_without_call * 100.0)
}

/// Returns the curves over the levels. They have the figures of all levels, also of those that do not stand.
pub fn curves(report: &Report) -> Vec<Curve> {
    let curve = |Series { title, points }: Series| {
        let points = points.into_iter().map(|(users, figure)| (users as f64, figure));
        Curve { title, horizontal: "users", points: points.collect() }
    };
    series(report).into_iter().map(curve).collect()
}

/// Returns the figures of all levels, or `None` if there is only one.
pub fn table(report: &Report) -> Option<Table> {
    let series = series(report);
    if series.is_empty() {
        return None;
    }
    let figure = |series: &Series, users: u64| {
        let point = series.points.iter().find(|(of_level, _)| *of_level == users);
        point.map_or_else(|| Cell::Number(none()), |(_, figure)| judged(report, users, format_figure(*figure)))
    };
    let row = |users: u64| {
        let figures = series.iter().map(|series| figure(series, users));
        [Cell::Number(users.to_string())].into_iter().chain(figures).collect()
    };
    let titles = series.iter().map(|series| series.title.clone());
    Some(Table {
        caption: String::new(),
        header: ["users".to_owned()].into_iter().chain(titles).collect(),
        rows: report.phases.iter().map(|phases| row(phases.users)).collect(),
    })
}

/// Returns the figures that at least two levels have.
fn series(report: &Report) -> Vec<Series> {
    let headline = || report.headline.iter().flatten();
    let notesmark = headline().map(|level| (level.users, level.notesmark));
    let response =
        headline().filter_map(|level| Some((level.users, level.response.as_ref()?.mean_us as f64 / 1_000.0)));
    let mut series = vec![
        Series { title: "NotesMark, transactions a minute".to_owned(), points: notesmark.collect() },
        Series { title: "Mean response, milliseconds".to_owned(), points: response.collect() },
    ];
    series.extend(ROWS.iter().map(|(name, resource)| {
        let rows = report.server.rows.iter().filter(|row| row.resource == *resource);
        let title = format!("{}{}", title(report, name), population::mark(report, resource));
        Series { title, points: rows.map(|row| (row.users, row.mean)).collect() }
    }));
    series.retain(|series| series.points.len() > 1);
    series
}
