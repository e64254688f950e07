//! What differs between two runs besides their figures.

use crate::report::model::{Databases, Machine, Report};

/// Returns what differs between the runs, in words with both values, the baseline first.
pub(super) fn differences(baseline: &Report, new: &Report) -> Vec<String> {
    let mut found = Vec::new();
    if baseline.run.plan != new.run.plan {
        found.push(format!("plans ({})", plan_differences(baseline, new).join(", ")));
    }
    let both = |name: &str, one: String, other: String| (one != other).then(|| format!("{name} ({one}, {other})"));
    let pace = |report: &Report| if report.run.closed { "closed" } else { "timetable" }.to_owned();
    let cores = |report: &Report| if report.driver.pinned { "apart" } else { "shared" }.to_owned();
    let connection = |report: &Report| report.run.users_per_connection.to_string();
    let speedup = |report: &Report| report.run.speedup.to_string();
    found.extend(both("doors", baseline.run.door.clone(), new.run.door.clone()));
    found.extend(both("speed-up", speedup(baseline), speedup(new)));
    found.extend(both("pace", pace(baseline), pace(new)));
    found.extend(both("cores of server and driver", cores(baseline), cores(new)));
    found.extend(both("users per connection", connection(baseline), connection(new)));
    found.extend(both("servers", baseline.run.servers.to_string(), new.run.servers.to_string()));
    found.extend(both("population", population(baseline), population(new)));
    found.extend(both("left out", left_out(baseline), left_out(new)));
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
    ];
    let names: Vec<&str> = parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    if names.is_empty() { vec!["recipients"] } else { names }
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
