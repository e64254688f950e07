//! The report for people, as one file of HTML without scripts and references.
//!
//! State and headline come first, then the tables of the articles in their order, the response by verb, time lines,
//! curves over the levels, what was left out, and all numbers of the workload with their sources. Everything comes
//! from the model and the samples.

mod page;
mod tables;

use super::curves::Curve;
use super::model::{Databases, Headline, Report, Times};
use super::population;
use super::samples::SampleValue;
use super::table::{Cell, Table, header, judged, judged_with_reason, none};
use super::validity;
use super::{articles, levels, sources};
use crate::workload::units::format_integer;
use page::Page;

const MICROS_PER_MINUTE: f64 = 60e6;

/// Formats a report.
pub fn format(report: &Report, samples: &[SampleValue]) -> String {
    let mut page = Page::new(&report.title);
    state(&mut page, report);
    headline(&mut page, report);
    articles(&mut page, report);
    tables::server(&mut page, report);
    verbs(&mut page, report);
    time_lines(&mut page, report, samples);
    level_curves(&mut page, report);
    left_out(&mut page, report);
    driver(&mut page, report);
    errors(&mut page, report);
    sources(&mut page, report);
    run(&mut page, report);
    page.finish()
}

fn state(page: &mut Page, report: &Report) {
    page.strong(&format!("State: {}.", report.state.name));
    let reasons = report.state.reasons.iter().map(|reason| reason.text.clone());
    page.list(reasons.chain(report.state.warnings.iter().map(|warning| format!("Warning: {}", warning.text))));
}

fn headline(page: &mut Page, report: &Report) {
    page.heading("Headline");
    let Some(levels) = &report.headline else {
        page.paragraph("There is no headline figure: no measured interval was steady to its end.");
        return;
    };
    let header = header(&[
        "users",
        "NotesMark",
        "promised",
        "mean response",
        "p50",
        "p95",
        "p99",
        "maximum",
        "due",
        "ended",
        "failed",
    ]);
    let rows: Vec<Vec<Cell>> = levels.iter().map(|level| headline_row(report, level)).collect();
    let caption = "Transactions a minute, and responses in milliseconds".to_owned();
    page.table(&Table { caption, header, rows });
    page.list(levels.iter().map(|level| {
        let [connected, without_call] = [levels::describe_connected(level), levels::describe_without_call(level)];
        format!("{} users: {connected}; {without_call}", level.users)
    }));
    if let Some(level) = levels.iter().find(|level| level.figure != "NotesMark") {
        page.paragraph(&format!("The figure is a {}: see \"Left out\".", level.figure));
    }
}

fn headline_row(report: &Report, level: &Headline) -> Vec<Cell> {
    let mut row = vec![
        Cell::Number(level.users.to_string()),
        judged_with_reason(report, level.users, format!("{:.1}", level.notesmark)),
        Cell::Number(level.notesmark_promised.map_or_else(none, |promised| format!("{promised:.1}"))),
    ];
    let mean = level.response.as_ref().map_or_else(none, |response| {
        let spread = response.spread.map(|share| format!(" ± {:.1} %", share * 100.0)).unwrap_or_default();
        format!("{}{spread}", millis(response.mean_us))
    });
    row.push(judged(report, level.users, mean));
    row.extend(percentiles(report, level.users, level.response.as_ref()));
    row.extend([level.steps_due, level.steps_ended, level.errors].map(|count| Cell::Number(format_integer(count))));
    row
}

fn percentiles(report: &Report, users: u64, times: Option<&Times>) -> [Cell; 4] {
    let values: [fn(&Times) -> u64; 4] =
        [|times| times.p50_us, |times| times.p95_us, |times| times.p99_us, |times| times.max_us];
    values.map(|value| judged(report, users, times.map_or_else(none, |times| millis(value(times)))))
}

fn articles(page: &mut Page, report: &Report) {
    page.heading(articles::HEADING);
    page.paragraph(&articles::describe(report));
    articles::tables(report).iter().for_each(|table| page.table(table));
}

fn verbs(page: &mut Page, report: &Report) {
    page.heading("Response by verb");
    page.paragraph("From the intended time of a step to its end, in milliseconds.");
    page.list(validity::describe(report));
    let header = header(&[
        "class",
        "verb",
        "users",
        "due",
        "failed",
        "skipped",
        "calls",
        "mean",
        "p50",
        "p95",
        "p99",
        "maximum",
        "mean service",
    ]);
    let row = |figures: &super::model::VerbFigures| {
        let users = figures.users;
        let mean = |times: Option<&Times>| {
            let mean = times.map_or_else(none, |times| millis(times.mean_us));
            judged(report, users, mean)
        };
        let mut row = vec![Cell::Text(figures.class.clone()), Cell::Text(figures.verb.clone())];
        let counts = [figures.users, figures.due, figures.failed, figures.skipped, figures.calls];
        row.extend(counts.map(|count| Cell::Number(format_integer(count))));
        row.push(mean(figures.response.as_ref()));
        row.extend(percentiles(report, users, figures.response.as_ref()));
        row.push(mean(figures.service.as_ref()));
        row
    };
    page.table(&Table { caption: String::new(), header, rows: report.verbs.iter().map(row).collect() });
}

/// The time line of the driver, beside those of the server.
const DRIVER_LINE: (&str, &str) =
    ("Processor of the driver, percent of one core", "driver_processor_percent_of_one_core");

fn time_lines(page: &mut Page, report: &Report, samples: &[SampleValue]) {
    page.heading("Time lines");
    page.list(validity::describe(report).into_iter().chain(population::footnote(report)));
    let minutes = |end_us: u64| end_us as f64 / MICROS_PER_MINUTE;
    let curve = |title: &str, points: Vec<(f64, f64)>| Curve {
        title: title.to_owned(),
        horizontal: "minutes since the start signal",
        points,
    };
    let response = report
        .samples
        .iter()
        .filter_map(|sample| Some((minutes(sample.end_us), sample.response_mean_us? as f64 / 1_000.0)));
    page.curve(&curve("Mean response, milliseconds", response.collect()));
    let users = report.samples.iter().map(|sample| (minutes(sample.end_us), sample.users_connected as f64));
    page.curve(&curve("Connected users", users.collect()));
    for (title, resource) in levels::ROWS.iter().chain([&DRIVER_LINE]) {
        let title = format!("{}{}", levels::title(report, title), population::mark(report, resource));
        let values = samples.iter().filter(|sample| sample.resource == *resource);
        page.curve(&curve(&title, values.map(|sample| (minutes(sample.end_us), sample.value)).collect()));
    }
}

/// Appends the curves over the levels, if there are several.
fn level_curves(page: &mut Page, report: &Report) {
    let curves = levels::curves(report);
    if curves.is_empty() {
        return;
    }
    page.heading("Levels");
    page.list(validity::describe(report).into_iter().chain(population::footnote(report)));
    curves.iter().for_each(|curve| page.curve(curve));
}

fn left_out(page: &mut Page, report: &Report) {
    page.heading("Left out and scaled down");
    page.list(report.left_out.iter().map(|left_out| {
        let share = left_out.share.map(|share| format!(", {:.1} % of the transactions", share * 100.0));
        format!("{}{}: {}", left_out.name, share.unwrap_or_default(), left_out.reason)
    }));
    page.paragraph(&population::describe(&report.population, &report.run.door));
    page.list(report.population.databases.iter().map(Databases::describe));
    page.list(report.requirements.iter().map(|requirement| {
        let met = match requirement.met {
            Some(true) => "met",
            Some(false) => "not met",
            None => "unknown",
        };
        format!("Condition of the workload, {}: {met}", requirement.name)
    }));
    page.list(report.server.missing.iter().map(|row| format!("Row {}: {}", row.resource, row.reason)));
}

fn driver(page: &mut Page, report: &Report) {
    let driver = &report.driver;
    page.heading("Driver");
    let lateness = driver.lateness.as_ref().map(|lateness| {
        let [p50, p99, max] = [lateness.p50_us, lateness.p99_us, lateness.max_us].map(millis);
        let part = driver.lateness_part.map(|part| format!(" of part {part}, the latest")).unwrap_or_default();
        format!("Lateness{part} in milliseconds: p50 {p50}, p99 {p99}, maximum {max}")
    });
    let of_server = driver.calls.server.map(|calls| format!("; the server counted {}", format_integer(calls)));
    let others = [
        format!("Processor: {}", driver.describe_processor()),
        format!("Memory: {}", driver.describe_memory()),
        format!("Open files: {}", driver.describe_open_files()),
        format!("Calls: {}{}", format_integer(driver.calls.driver), of_server.unwrap_or_default()),
    ];
    page.list(lateness.into_iter().chain(others));
}

fn errors(page: &mut Page, report: &Report) {
    page.heading("Errors of the whole run");
    if report.errors.is_empty() {
        page.paragraph("There were none.");
    }
    page.list(report.errors.iter().map(|error| {
        let first: String = error.first.chars().take(200).collect();
        format!("{} {}: {} times, first: {first}", error.verb, error.code, error.count)
    }));
}

fn sources(page: &mut Page, report: &Report) {
    page.heading(sources::HEADING);
    sources::describe(report).iter().for_each(|paragraph| page.paragraph(paragraph));
    page.table(&sources::table(report));
    page.list(sources::meanings(report));
}

fn run(page: &mut Page, report: &Report) {
    let machine = &report.machine;
    page.heading("Phases");
    page.list(levels::describe_phases(report));
    page.heading("Run");
    page.list([
        format!("Begun {}, seed {}", report.run.started, report.run.seed),
        format!("Command: {}", report.run.command),
        format!("Version {}, commit {}", report.run.version, report.run.commit),
        format!("Server: {}", report.run.describe_server()),
        format!("Plan {}", report.run.plan),
        format!("Door {}, {} users a connection", report.run.door, report.run.users_per_connection),
        format!(
            "{} cores ({}), {}, {}, data on {}",
            machine.cores,
            machine.processor,
            machine.describe_memory(),
            machine.kernel,
            machine.file_system
        ),
    ]);
}

fn millis(time_us: u64) -> String {
    format!("{:.1}", time_us as f64 / 1_000.0)
}
