//! The command `check`: the errors of a workload file, or what it promises of each user.
//!
//! With `--json`, both go to standard output as one object of the format [`FORMAT`]. Otherwise errors go to standard
//! error. The exit code is 0 without errors, 1 if there is no such file, and 2 with errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::arguments::Result;
use crate::run_command::INVALID_EXIT_CODE;
use bench::workload::class::{Class, Members};
use bench::workload::finding::Finding;
use bench::workload::fraction::Fraction;
use bench::workload::rates::Rates;
use bench::workload::units::{format_duration, format_integer};
use bench::workload::verb::{TRANSACTIONS_VERSION, Verb};
use bench::workload::{Workload, check, shipped};

/// Version of the JSON object. It is raised when a reader of the old one would misread the new one.
const FORMAT: u32 = 1;

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckOptions {
    /// A shipped workload by its name in lower case, or the path of a file.
    file: String,
    /// Sets a parameter of the workload; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Prints the workload with all defaults, its rates, and its errors as JSON.
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct Output<'a> {
    format: u32,
    transactions_version: u32,
    file: &'a str,
    findings: Vec<Finding>,
    workload: Option<&'a Workload>,
    rates: Vec<ClassRates<'a>>,
}

/// The rates of a class, or of all users.
#[derive(Debug, Serialize)]
struct ClassRates<'a> {
    /// The class, or `None` for all users.
    class: Option<&'a str>,
    iteration: Option<Rates>,
    hour: Option<Rates>,
}

/// Checks a file.
pub fn run(options: &CheckOptions) -> Result<ExitCode> {
    let text = shipped::load(&options.file)?;
    let checked = check::check(&text, &options.set);
    if options.json {
        println!("{}", format_json(&options.file, &checked)?);
    } else {
        match &checked {
            Ok(workload) => print!("{}", format_workload(workload)),
            Err(findings) => eprint!("{}", Finding::format_all(&options.file, findings)),
        }
    }
    Ok(if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(INVALID_EXIT_CODE) })
}

fn format_json(file: &str, checked: &std::result::Result<Workload, Vec<Finding>>) -> Result<String> {
    let workload = checked.as_ref().ok();
    let output = Output {
        format: FORMAT,
        transactions_version: TRANSACTIONS_VERSION,
        file,
        findings: checked.as_ref().err().cloned().unwrap_or_default(),
        workload,
        rates: workload.map(class_rates).unwrap_or_default(),
    };
    Ok(serde_json::to_string_pretty(&output)?)
}

fn class_rates(workload: &Workload) -> Vec<ClassRates<'_>> {
    let of_class = |class| ClassRates {
        class: Some(class_name(class)),
        iteration: Some(Rates::of_iteration(workload, class)),
        hour: Rates::of_hour(workload, class),
    };
    let all = ClassRates { class: None, iteration: None, hour: Rates::of_all(workload) };
    workload.classes.iter().map(of_class).chain([all]).collect()
}

fn class_name(class: &Class) -> &str {
    &class.name
}

/// Formats what a workload promises.
fn format_workload(workload: &Workload) -> String {
    let mut text = format!("{}: {}\n", workload.name, workload.title);
    let door = format!("{:?}", workload.door).to_lowercase();
    let users = format_integer(workload.users);
    let _ = writeln!(text, "door {door}, {users} users, measured for {}", format_duration(workload.measure_us));
    for parameter in &workload.parameters {
        let value = serde_json::to_string(&parameter.value).unwrap_or_default();
        let _ = writeln!(text, "parameter {} = {value}, in the file {}", parameter.name, parameter.default);
    }
    for class in &workload.classes {
        text.push_str(&format_class(workload, class));
    }
    if let Some(all) = Rates::of_all(workload) {
        let _ = writeln!(text, "\nall users: {} transactions a user and minute", per_minute(all.transactions));
    }
    for (name, profile) in &workload.profiles {
        let with_attachment = profile.with_attachment().times(Fraction::from(100));
        let mean_bytes = format_integer(profile.mean_bytes().to_f64().round() as u64);
        let mean = format!("a mean of {mean_bytes} bytes, {with_attachment} % with attachments");
        let _ = writeln!(text, "sizes {name}: {mean}");
    }
    let _ = writeln!(text, "{}", format_sources(workload));
    text
}

fn per_minute(per_hour: Fraction) -> Fraction {
    per_hour.times(Fraction::new(1, 60))
}

fn format_class(workload: &Workload, class: &Class) -> String {
    let members = match class.members {
        Members::Share(share) => format!("{} % of the users", share.fraction().times(Fraction::from(100))),
        Members::Users(users) => format!("{} users besides", format_integer(users)),
    };
    let rhythm = match class.rhythm.iteration_us {
        Some(iteration_us) => format!("iterations of {}", format_duration(iteration_us)),
        None => "without pauses".to_owned(),
    };
    let iteration = Rates::of_iteration(workload, class);
    let hour = Rates::of_hour(workload, class);
    let mut text = format!("\nclass {}: {members}, {rhythm}\n", class.name);
    let per_hour = if hour.is_some() { "hour" } else { "" };
    let _ = writeln!(text, "  {:<18}{:>10}{per_hour:>10}", "per user and", "iteration");
    let order: BTreeSet<Verb> = iteration.by_verb.keys().copied().collect();
    for verb in order {
        let of = |rates: &Rates| rates.by_verb[&verb];
        text.push_str(&format_row(verb.word(), of(&iteration), hour.as_ref().map(of)));
    }
    text.push_str(&format_row("messages sent", iteration.sent, hour.as_ref().map(|hour| hour.sent)));
    text.push_str(&format_row("received", iteration.received, hour.as_ref().map(|hour| hour.received)));
    text.push_str(&format_row("transactions", iteration.transactions, hour.as_ref().map(|hour| hour.transactions)));
    text
}

fn format_row(name: &str, iteration: Fraction, hour: Option<Fraction>) -> String {
    let hour = hour.map(|rate| format!("{rate:>10}")).unwrap_or_default();
    format!("  {name:<18}{iteration:>10}{hour}\n")
}

/// Formats how many numbers come from which source.
fn format_sources(workload: &Workload) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for number in &workload.numbers {
        *counts.entry(number.source.tags.join(" and ")).or_default() += 1;
    }
    let listed: Vec<_> = counts.iter().map(|(source, count)| format!("{source} {count}")).collect();
    format!("numbers by source: {}", listed.join(", "))
}
