//! The command `plan`: what a run will take, before anything is written.
//!
//! The options are those of `run`. The exit code is 5 if the disk is too small, as that of the run would be.

use std::process::ExitCode;

use bench::driver::data_folder::gigabytes;
use bench::driver::forecast::Forecast;
use bench::driver::outcome::title;
use bench::driver::prepare::{PreparedRun, prepare};
use bench::workload::shipped;
use clap::Args;
use serde::Serialize;

use crate::arguments::Result;
use crate::run_command::options::PlayOptions;
use crate::run_command::print_refusal;

/// Version of the JSON object. It is raised when a reader of the old one would misread the new one.
const FORMAT: u32 = 1;

/// Options of `plan`.
///
/// Prints people, messages, bytes over the wire, bytes on the disk before and after sharing, and the time of population
/// and run. Nothing is written, and no server is started.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    doublet-bench plan n8mail\n  \
    doublet-bench plan n8mail --users 1000 --documents 300 --masters 10 --speedup 60 --json\n\n\
    Exit codes: 0 the disk is large enough, 2 error in the command line or in the workload, 5 refused.")]
pub struct PlanCommand {
    /// A shipped workload by its name in lower case, or the path of a file.
    workload: String,
    /// The users, or those of each level in ascending order; those of the workload if missing.
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',')]
    users: Vec<u64>,
    /// Prints the plan as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    play: PlayOptions,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Output<'a> {
    format: u32,
    title: &'a str,
    #[serde(flatten)]
    forecast: &'a Forecast,
}

/// Prints the plan of a run.
pub fn run(command: &PlanCommand) -> Result<ExitCode> {
    let text = shipped::load(&command.workload)?;
    let prepared = match prepare(&text, command.play.run_options(&command.users)) {
        Ok(prepared) => prepared,
        Err(refusal) => return Ok(print_refusal(&command.workload, &refusal)),
    };
    let forecast = Forecast::of(&prepared, &command.play.data_folder());
    if command.json {
        let output = Output { format: FORMAT, title: &title(&prepared), forecast: &forecast };
        println!("{}", serde_json::to_string_pretty(&output)?);
    } else {
        print!("{}", format(&prepared, &forecast));
    }
    match forecast.check_disk() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(refusal) => Ok(print_refusal(&command.workload, &refusal)),
    }
}

fn format(run: &PreparedRun, forecast: &Forecast) -> String {
    let population = &forecast.population;
    let unknown = || "unknown".to_owned();
    let copies = population.people - population.masters;
    let mut rows =
        vec![("people", population.people.to_string()), ("mail files filled", population.masters.to_string())];
    if copies > 0 {
        rows.push(("mail files copied", format!("{copies}, with {} changed documents", population.changed_messages)));
    }
    rows.extend([
        ("persons of the directory besides", population.persons.to_string()),
        ("documents of a mail file", population.documents.to_string()),
        ("documents of all mail files", population.messages.to_string()),
        ("documents of other databases", population.database_documents.to_string()),
        ("mean size", gigabytes(population.message_bytes)),
        ("bytes over the wire, population", gigabytes(population.wire_bytes)),
        ("bytes on the disk, nothing shared", gigabytes(population.disk_bytes)),
        ("bytes on the disk, contents shared", gigabytes(population.disk_shared_bytes)),
        ("bytes on the disk, run, about", forecast.run_disk_bytes.map_or_else(unknown, gigabytes)),
        ("bytes that the disk must have", gigabytes(forecast.disk_needed_bytes)),
        ("bytes that the disk has", forecast.disk_available_bytes.map_or_else(unknown, gigabytes)),
        ("time of the population, about", duration(population.seconds)),
        ("time of the run, at least", duration(forecast.run_seconds)),
        ("messages sent", forecast.sent_messages.map_or_else(unknown, |messages| messages.to_string())),
        ("bytes over the wire, run, about", forecast.run_wire_bytes.map_or_else(unknown, gigabytes)),
    ]);
    let mut text = format!("{}\n", title(run));
    for (name, value) in rows {
        text.push_str(&format!("  {name:<40}{value}\n"));
    }
    text
}

fn duration(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in [(0.2, "1 s"), (59.0, "59 s"), (61.0, "1 min 1 s"), (36_120.0, "10 h 2 min")] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
