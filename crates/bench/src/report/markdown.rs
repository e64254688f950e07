//! The report for people, in Markdown.

use std::fmt::Write as _;

use super::model::{Headline, Report, Times, VerbFigures};
use super::population;
use super::table::Table;
use super::validity::{self, reason_against};
use super::{articles, levels, sources};
use crate::compare::output::{format_figure, line};
use crate::workload::units::format_integer;

/// Formats a report.
pub fn format(report: &Report) -> String {
    let mut text = format!("# {}\n\n", report.title);
    text.push_str(&format_state(report));
    text.push_str(&format_headline(report));
    text.push_str(&format_articles(report));
    text.push_str(&format_verbs(report));
    text.push_str(&format_server(report));
    text.push_str(&format_levels(report));
    text.push_str(&format_driver(report));
    text.push_str(&format_left_out(report));
    text.push_str(&format_errors(report));
    text.push_str(&format_population(report));
    text.push_str(&format_sources(report));
    text.push_str(&format_run(report));
    text
}

fn format_state(report: &Report) -> String {
    let mut text = format!("**State: {}.**\n\n", report.state.name);
    for reason in &report.state.reasons {
        let _ = writeln!(text, "- {}", reason.text);
    }
    for warning in &report.state.warnings {
        let _ = writeln!(text, "- Warning: {}", warning.text);
    }
    if !report.state.reasons.is_empty() || !report.state.warnings.is_empty() {
        text.push('\n');
    }
    text
}

fn format_headline(report: &Report) -> String {
    let Some(levels) = &report.headline else {
        return "There is no headline figure: no measured interval was steady to its end.\n\n".to_owned();
    };
    let mut text = "## Headline\n\n".to_owned();
    for level in levels {
        let figure = judged(report, level.users, format!("{} {:.1}", level.figure, level.notesmark));
        let reason = reason_against(report, level.users).map(|reason| format!(", struck out: {}", line(reason)));
        let _ = writeln!(
            text,
            "- {} users: **{figure}** transactions a minute{}{}",
            level.users,
            promised(level),
            reason.unwrap_or_default()
        );
        if let Some(response) = &level.response {
            let _ = writeln!(text, "  - response: {}", judged(report, level.users, format_response(response)));
        }
        let _ = writeln!(
            text,
            "  - {} steps were due, {} ended, {} failed; {}",
            format_integer(level.steps_due),
            format_integer(level.steps_ended),
            format_integer(level.errors),
            levels::describe_connected(level)
        );
        let _ = writeln!(text, "  - {}", levels::describe_without_call(level));
    }
    text.push('\n');
    text
}

fn format_response(response: &Times) -> String {
    let spread = response.spread.map(|share| format!(" ± {:.1} %", share * 100.0)).unwrap_or_default();
    format!(
        "mean {}{spread}, p50 {}, p95 {}, p99 {}, maximum {}",
        millis(response.mean_us),
        millis(response.p50_us),
        millis(response.p95_us),
        millis(response.p99_us),
        millis(response.max_us)
    )
}

/// Returns a figure of a level, struck out if the figures of the level do not stand.
fn judged(report: &Report, users: u64, figure: String) -> String {
    match reason_against(report, users) {
        Some(_) => format!("~~{figure}~~"),
        None => figure,
    }
}

/// Returns the levels whose figures are struck out, as a list.
fn format_struck_out(report: &Report) -> String {
    let levels = validity::describe(report);
    let lines: Vec<String> = levels.iter().map(|level| format!("- {}\n", line(level))).collect();
    if lines.is_empty() { String::new() } else { format!("{}\n", lines.concat()) }
}

fn promised(level: &Headline) -> String {
    level.notesmark_promised.map(|promised| format!(" ({promised:.1} promised)")).unwrap_or_default()
}

fn format_articles(report: &Report) -> String {
    let tables: Vec<String> = articles::tables(report).iter().map(Table::to_markdown).collect();
    format!("## {}\n\n{}\n\n{}", articles::HEADING, articles::describe(report), tables.concat())
}

/// Formats what HTML shows as curves over the levels, if there are several.
fn format_levels(report: &Report) -> String {
    let Some(table) = levels::table(report) else { return String::new() };
    let footnote = population::footnote(report).map(|footnote| format!("{footnote}\n\n")).unwrap_or_default();
    format!("## Levels\n\n{}{}{footnote}", format_struck_out(report), table.to_markdown())
}

fn format_sources(report: &Report) -> String {
    let mut text = format!("## {}\n\n", sources::HEADING);
    for paragraph in sources::describe(report) {
        let _ = writeln!(text, "{}\n", line(&paragraph));
    }
    text.push_str(&sources::table(report).to_markdown());
    for meaning in sources::meanings(report) {
        let _ = writeln!(text, "- {}", line(&meaning));
    }
    text.push('\n');
    text
}

fn format_verbs(report: &Report) -> String {
    if report.verbs.is_empty() {
        return String::new();
    }
    let mut text =
        "## Response by verb\n\nFrom the intended time of a step to its end, in milliseconds.\n\n".to_owned();
    text.push_str(&format_struck_out(report));
    text.push_str(
        "| users | class | verb | due | failed | skipped | calls | mean | p50 | p95 | p99 | maximum | mean service |\n",
    );
    text.push_str("|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for figures in &report.verbs {
        text.push_str(&format_verb(report, figures));
    }
    text.push('\n');
    text
}

fn format_verb(report: &Report, figures: &VerbFigures) -> String {
    let time = |times: &Option<Times>, value: fn(&Times) -> u64| match times {
        Some(times) => judged(report, figures.users, format!("{:.1}", value(times) as f64 / 1_000.0)),
        None => "–".to_owned(),
    };
    let VerbFigures { users, class, verb, due, failed, skipped, calls, response, service, .. } = figures;
    let values: [fn(&Times) -> u64; 5] =
        [|times| times.mean_us, |times| times.p50_us, |times| times.p95_us, |times| times.p99_us, |times| times.max_us];
    let columns: Vec<String> = values.into_iter().map(|value| time(response, value)).collect();
    let mean_service = time(service, |times| times.mean_us);
    format!(
        "| {users} | {class} | {verb} | {due} | {failed} | {skipped} | {calls} | {} | {mean_service} |\n",
        columns.join(" | ")
    )
}

fn format_server(report: &Report) -> String {
    let mut text = "## Server\n\n".to_owned();
    if report.server.rows.is_empty() {
        text.push_str("Nothing was measured.\n\n");
        return text;
    }
    text.push_str(&format_struck_out(report));
    text.push_str("| users | resource | mean | minimum | maximum | unit |\n|---:|---|---:|---:|---:|---|\n");
    for row in &report.server.rows {
        let [mean, min, max] =
            [row.mean, row.min, row.max].map(|figure| judged(report, row.users, format_figure(figure)));
        let mark = population::mark(report, &row.resource);
        let _ = writeln!(text, "| {} | `{}`{mark} | {mean} | {min} | {max} | {} |", row.users, row.resource, row.unit);
    }
    text.push('\n');
    if let Some(footnote) = population::footnote(report) {
        let _ = writeln!(text, "{footnote}\n");
    }
    for missing in &report.server.missing {
        let _ = writeln!(text, "- no `{}`: {}", missing.resource, missing.reason);
    }
    text.push('\n');
    text
}

fn format_driver(report: &Report) -> String {
    let driver = &report.driver;
    let mut text = "## Driver\n\n".to_owned();
    if let Some(lateness) = &driver.lateness {
        let p50 = millis(lateness.p50_us);
        let p99 = millis(lateness.p99_us);
        let part = driver.lateness_part.map(|part| format!(" of part {part}, the latest")).unwrap_or_default();
        let _ = writeln!(text, "- lateness{part}: p50 {p50}, p99 {p99}, maximum {}", millis(lateness.max_us));
    }
    let _ = writeln!(text, "- processor: {}", driver.describe_processor());
    let _ = writeln!(text, "- memory: {}", driver.describe_memory());
    let _ = writeln!(text, "- open files: {}", driver.describe_open_files());
    let calls = format_integer(driver.calls.driver);
    let of_server = driver.calls.server.map(|calls| format!("; the server counted {}", format_integer(calls)));
    let _ = writeln!(text, "- calls: {calls}{}\n", of_server.unwrap_or_default());
    text
}

fn format_left_out(report: &Report) -> String {
    let mut text = String::new();
    if !report.left_out.is_empty() {
        text.push_str("## Left out\n\n");
        for left_out in &report.left_out {
            let share = left_out.share.map(|share| format!(", {:.1} % of the transactions", share * 100.0));
            let _ = writeln!(text, "- `{}`{}: {}", left_out.name, share.unwrap_or_default(), left_out.reason);
        }
        text.push('\n');
    }
    if !report.requirements.is_empty() {
        text.push_str("## Conditions of the workload\n\n");
        for requirement in &report.requirements {
            let met = match requirement.met {
                Some(true) => "met",
                Some(false) => "not met",
                None => "unknown",
            };
            let _ = writeln!(text, "- {}: {met}", requirement.name);
        }
        text.push('\n');
    }
    text
}

fn format_errors(report: &Report) -> String {
    if report.errors.is_empty() {
        return "There were no errors.\n\n".to_owned();
    }
    let mut text = "## Errors of the whole run\n\n".to_owned();
    for error in &report.errors {
        let first: String = error.first.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(text, "- {} `{}`: {} times, first: {first}", error.verb, error.code, error.count);
    }
    text.push('\n');
    text
}

fn format_population(report: &Report) -> String {
    let mut text = format!("## Population\n\n{}\n\n", population::describe(&report.population, &report.run.door));
    for databases in &report.population.databases {
        let _ = writeln!(
            text,
            "{}. They are topics of discussions, brought over the native protocol.\n",
            databases.describe()
        );
    }
    text
}

fn format_run(report: &Report) -> String {
    let machine = &report.machine;
    let memory = machine.describe_memory();
    let mut text = "## Phases\n\n".to_owned();
    for phases in levels::describe_phases(report) {
        let _ = writeln!(text, "- {phases}");
    }
    text.push_str(&format!("\n## Run\n\n- begun {}, seed {}\n", report.run.started, report.run.seed));
    let _ = writeln!(text, "- command: `{}`", report.run.command);
    let _ = writeln!(text, "- driver: version {}, commit {}", report.run.version, report.run.commit);
    let _ = writeln!(text, "- server: {}", line(&report.run.describe_server()));
    let _ = writeln!(text, "- plan {}", report.run.plan);
    let _ = writeln!(text, "- door {}, {} users a connection", report.run.door, report.run.users_per_connection);
    let _ = writeln!(
        text,
        "- {} cores ({}), {memory}, {}, data on {}",
        machine.cores, machine.processor, machine.kernel, machine.file_system
    );
    text
}

fn millis(time_us: u64) -> String {
    format!("{:.1} ms", time_us as f64 / 1_000.0)
}
