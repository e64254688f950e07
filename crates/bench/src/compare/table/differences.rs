//! What differs between two runs besides their figures.
//!
//! A member that older reports do not have differs only if both reports have it.

use std::collections::BTreeSet;

use crate::report::model::{Databases, Machine, Report};
use crate::report::stored::{ServerSettings, StoredReport};
use crate::workload::units::format_duration;

/// Returns what differs between the runs, in words with both values, the baseline first.
pub(super) fn differences(baseline: &StoredReport, new: &StoredReport) -> Vec<String> {
    let mut found = of_reports(&baseline.report, &new.report);
    found.extend(of_settings(baseline, new));
    found
}

fn of_reports(baseline: &Report, new: &Report) -> Vec<String> {
    let mut found = Vec::new();
    if baseline.run.plan != new.run.plan {
        found.push(format!("plans ({})", plan_differences(baseline, new).join(", ")));
    }
    let both = |name: &str, one: String, other: String| (one != other).then(|| format!("{name} ({one}, {other})"));
    let pace = |report: &Report| if report.run.closed { "closed" } else { "timetable" }.to_owned();
    let cores = |report: &Report| if report.driver.pinned { "apart" } else { "shared" }.to_owned();
    let connection = |report: &Report| report.run.users_per_connection.to_string();
    let speedup = |report: &Report| report.run.speedup.to_string();
    found.extend(both("measured interval", measured(baseline), measured(new)));
    let durations = [
        ("interval", baseline.run.interval_us, new.run.interval_us),
        ("time limit of steps", baseline.run.time_limit_us, new.run.time_limit_us),
    ];
    found.extend(durations.into_iter().filter_map(|(name, one, other)| {
        let [one, other] = [one?, other?].map(format_duration);
        both(name, one, other)
    }));
    found.extend(both("doors", baseline.run.door.clone(), new.run.door.clone()));
    found.extend(both("speed-up", speedup(baseline), speedup(new)));
    found.extend(both("pace", pace(baseline), pace(new)));
    found.extend(both("cores of server and driver", cores(baseline), cores(new)));
    found.extend(both("users per connection", connection(baseline), connection(new)));
    found.extend(both("servers", baseline.run.servers.to_string(), new.run.servers.to_string()));
    found.extend(both("population", population(baseline), population(new)));
    found.extend(both("left out", left_out(baseline), left_out(new)));
    if baseline.run.server.is_some() && new.run.server.is_some() {
        found.extend(both("programs of the server", baseline.run.describe_server(), new.run.describe_server()));
    }
    let machines = machine(&baseline.machine).into_iter().zip(machine(&new.machine));
    found.extend(machines.filter_map(|((name, one), (_, other))| both(name, one, other)));
    found
}

fn plan_differences(baseline: &Report, new: &Report) -> Vec<&'static str> {
    let parts = [
        ("workload", baseline.workload.digest != new.workload.digest),
        ("parameters", baseline.workload.parameters != new.workload.parameters),
        ("seed", baseline.run.seed != new.run.seed),
        ("users", baseline.run.users != new.run.users),
        ("iterations", baseline.run.iterations != new.run.iterations),
        ("recipients", baseline.run.recipients != new.run.recipients),
    ];
    let names: Vec<&str> = parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    // Older reports do not have these two.
    if names.is_empty() { vec!["iterations or recipients"] } else { names }
}

/// Returns the length of the measured intervals, which is that of the workload or of `--measure`.
fn measured(report: &Report) -> String {
    let mut lengths =
        report.phases.iter().filter_map(|phases| Some((phases.measure_start_us?, phases.measure_end_us?)));
    lengths.next().map_or_else(|| "none".to_owned(), |(start, end)| format_duration(end.saturating_sub(start)))
}

/// Returns the settings of both servers that differ, if both reports have them.
fn of_settings(baseline: &StoredReport, new: &StoredReport) -> Vec<String> {
    let Some((one, other)) = baseline.settings.as_ref().zip(new.settings.as_ref()) else { return Vec::new() };
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let value = |settings: &ServerSettings, key: &str| settings.get(key).cloned().unwrap_or_else(|| "none".to_owned());
    let differs = |key: &&String| one.get(*key) != other.get(*key);
    let keys = keys.into_iter().filter(differs);
    keys.map(|key| format!("{key} of the server ({}, {})", value(one, key), value(other, key))).collect()
}

fn population(report: &Report) -> String {
    let population = &report.population;
    let masters = population.masters.map(|masters| format!(" from {masters} masters")).unwrap_or_default();
    let databases: Vec<String> = population.databases.iter().map(Databases::describe).collect();
    let databases = if databases.is_empty() { String::new() } else { format!(", {}", databases.join(", ")) };
    let archive = match population.archive {
        0 => String::new(),
        archive => format!(" and {archive} in archives"),
    };
    format!("{} documents{archive}{masters} × {}{databases}", population.documents, population.size_scale)
}

fn left_out(report: &Report) -> String {
    let names: Vec<&str> = report.left_out.iter().map(|left_out| left_out.name.as_str()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(" ") }
}

fn machine(machine: &Machine) -> [(&'static str, String); 5] {
    [
        ("machine: cores", machine.cores.to_string()),
        ("machine: processor", machine.processor.clone()),
        (
            "machine: memory in bytes",
            machine.memory_bytes.map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string()),
        ),
        ("machine: kernel", machine.kernel.clone()),
        ("machine: file system", machine.file_system.clone()),
    ]
}
