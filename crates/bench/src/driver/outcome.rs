//! The report of a run that has ended.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use base::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::observer::RunRecord;
use super::options::RunOptions;
use super::prepare::{PreparedRun, transactions_by_verb};
use crate::compare::spreads::Spreads;
use crate::engine::pace::Pace;
use crate::engine::run::{LevelOutcome, Outcome, RunEnd};
use crate::population::size::SizePlan;
use crate::record::counters::VerbCounts;
use crate::record::histograms::{HistogramKey, Kind, Phase, Subject};
use crate::record::recorder::Recording;
use crate::report::model::{
    Calls, Databases, Driver, ErrorFigures, FORMAT, Headline, Machine, MissingRow, NumberSource, Phases, Population,
    Promised, Report, Requirement, Run, SampleFigures, Server, ServerProgram, State, StepCounts, Times, VerbFigures,
    Workload, micros,
};
use crate::report::published;
use crate::report::verdict::{
    DriverFigures, IncompletePart, PartLateness, ProcessorShare, RunFigures, judge, latest_part,
};
use crate::target::counters::{ServerCounter, ServerCounters};
use crate::workload::Door;
use crate::workload::rates::Rates;
use crate::workload::units::format_duration;
use crate::workload::verb::TRANSACTIONS_VERSION;
use crate::workload::{self, Requirement as Condition};
pub(crate) use rows::driver_share;
#[cfg(test)]
pub(crate) use rows::row_names;
pub use rows::samples;
use rows::{server_calls, server_rows};

/// The names of the headline figure, if something was left out and if nothing was.
const PARTIAL: &str = "NotesMark (partial)";
const COMPLETE: &str = "NotesMark";

/// What is known of a run besides its outcome.
#[derive(Debug)]
pub struct RunFacts {
    /// When it began.
    pub started: Timestamp,
    /// The command, without secrets.
    pub command: String,
    /// What was observed.
    pub record: RunRecord,
    /// The machine.
    pub machine: Machine,
    /// The cores of driver and server.
    pub cores: CoreCounts,
    /// The commit of the driver, if it is known.
    pub commit: Option<&'static str>,
    /// The largest memory of the driver, if the system tells it.
    pub memory_bytes_max: Option<u64>,
    /// The driver has reached its limit of open files.
    pub is_out_of_files: bool,
    /// The machine has swapped during the run.
    pub has_swapped: bool,
    /// The driver has started the server.
    pub is_started_server: bool,
    /// The settings of that server on the command line, as `KEY=VALUE`.
    pub server_settings: Vec<String>,
    /// The program of the server, if it is known.
    pub server_program: Option<ServerProgram>,
    /// The runs that have changed the mail files before.
    pub runs_before: u64,
    /// The spreads of the mean responses.
    pub spreads: Spreads,
    /// The other parts.
    pub parts: PartFigures,
}

/// What is known of the parts of a run, if there are several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartFigures {
    /// Parts that are not complete.
    pub incomplete: Vec<IncompletePart>,
    /// By how much the clocks of two parts may differ.
    pub clock_difference: Option<Duration>,
    /// The lateness of each part.
    pub lateness: Vec<PartLateness>,
    /// The largest share of the cores of a machine that the parts on it have used, in a measured interval.
    pub processor_share: Option<ProcessorShare>,
    /// The same by level, from level 1. Empty if a share is not known.
    pub level_shares: Vec<Option<f64>>,
}

/// The cores that driver and server may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreCounts {
    /// Those of the driver.
    pub driver: u64,
    /// Those of the server.
    pub server: u64,
    /// They are different ones.
    pub is_pinned: bool,
}

/// Builds the report.
pub fn report<W>(run: &PreparedRun, outcome: &Outcome<W>, facts: &RunFacts) -> Report {
    let cores = facts.cores;
    let borders = &facts.record.borders;
    let measured = || outcome.levels.iter().filter_map(|level| level.times.measured.as_ref());
    let share = |level: &LevelOutcome| driver_share(borders, level.times.measured.as_ref()?, cores.driver);
    let own_share = || ProcessorShare::of_all(outcome.levels.iter().filter_map(share));
    let processor_share = facts.parts.processor_share.clone().unwrap_or_else(own_share);
    let calls = Calls {
        driver: (1..)
            .zip(&outcome.levels)
            .map(|(level, _)| outcome.recording.counts.sum(Phase::Measured(level)).calls)
            .sum(),
        server: call_counter(run.plan.workload().door).and_then(|counter| {
            server_calls(borders, measured(), |border| user_calls(&border.counters?, counter, run.options.servers))
        }),
    };
    let figures = DriverFigures {
        incomplete: facts.parts.incomplete.clone(),
        clock_difference: facts.parts.clock_difference,
        lateness: facts.parts.lateness.clone(),
        processor_share: processor_share.clone(),
        level_shares: level_shares(&outcome.levels, facts),
        is_out_of_files: facts.is_out_of_files,
        calls: calls.driver,
        server_calls: calls.server,
        has_swapped: facts.has_swapped,
        load_before: facts.machine.load_before,
    };
    let verdict = judge(&RunFigures::of_outcome(outcome, figures));
    let is_lateness = |key: &HistogramKey| key.subject == Subject::Lateness && key.phase != Phase::Other;
    let latest = latest_part(&facts.parts.lateness);
    let lateness = match latest {
        Some(part) => Times::of_histogram(&part.times),
        None => Times::of_histogram(&outcome.recording.histograms.sum(is_lateness)),
    };
    Report {
        format: FORMAT,
        state: State::of_verdict(&verdict),
        title: title_of_report(run, facts),
        run: run_section(run, facts),
        workload: workload_section(run),
        phases: outcome.levels.iter().map(phases).collect(),
        headline: headline(run, outcome, &facts.spreads),
        verbs: verbs(run, outcome, &facts.spreads),
        whole_run: whole_run(run, &outcome.recording),
        left_out: run.left_out.clone(),
        requirements: requirements(run.plan.workload(), facts.is_started_server),
        errors: errors(run, &outcome.recording),
        driver: Driver {
            lateness,
            lateness_part: latest.map(|part| part.part),
            processor_share: processor_share.share().map(|share| share.clamp(0.0, 1.0)),
            processor_share_missing: processor_share.missing().map(str::to_owned),
            cores: cores.driver,
            pinned: cores.is_pinned,
            memory_bytes_max: facts.memory_bytes_max,
            open_files_max: facts.record.open_files_max,
            calls,
        },
        server: server_section(run, outcome, facts),
        published: published::rows(&run.plan.workload().name),
        samples: facts.record.borders.iter().map(sample_figures).collect(),
        population: population(run, facts.runs_before),
        machine: facts.machine.clone(),
    }
}

/// Returns the share of its cores that the driver used in each level, or nothing if one of them is not known.
fn level_shares(levels: &[LevelOutcome], facts: &RunFacts) -> Vec<Option<f64>> {
    if facts.parts.processor_share.is_some() {
        return facts.parts.level_shares.clone();
    }
    let share = |level: &LevelOutcome| {
        let interval = level.times.measured.as_ref()?;
        driver_share(&facts.record.borders, interval, facts.cores.driver)
    };
    let shares: Result<Vec<Option<f64>>, _> = levels.iter().map(|level| share(level).transpose()).collect();
    shares.unwrap_or_default()
}

/// Returns the counter of the server that counts what a door calls a call, if it has one.
fn call_counter(door: Door) -> Option<ServerCounter> {
    match door {
        Door::Native => Some(ServerCounter::NativeCalls),
        Door::Jmap | Door::Lite | Door::Full => Some(ServerCounter::HttpRequests),
        Door::Imap | Door::Pop3 => None,
    }
}

/// Returns the calls of users that the servers have counted. Several servers send each other mail by calls of the
/// native protocol, which no user has made.
fn user_calls(counters: &ServerCounters, counter: ServerCounter, servers: u64) -> Option<f64> {
    let calls = counters.get(counter)?;
    match counter {
        ServerCounter::NativeCalls if servers > 1 => Some(calls - counters.get(ServerCounter::MailTransfers)?),
        _ => Some(calls),
    }
}

/// Returns the name of a run for people: the workload, the users, and everything that was changed or scaled down.
pub fn title(run: &PreparedRun) -> String {
    let options = &run.options;
    let workload = run.plan.workload();
    let users: Vec<String> = run.settings.levels.iter().map(u64::to_string).collect();
    let mut parts = vec![format!("{}, {} users", workload.name, users.join(", "))];
    parts.extend(options.set.iter().cloned());
    if options.speedup != 1.0 {
        parts.push(format!("speed-up {}", options.speedup));
    }
    match run.settings.rules.pace {
        Pace::Timetable => {}
        Pace::Closed => parts.push("closed".to_owned()),
        Pace::Unpaced => parts.push("unpaced".to_owned()),
    }
    if options.servers > 1 {
        parts.push(format!("{} servers", options.servers));
    }
    if options.parts > 1 {
        parts.push(format!("{} parts", options.parts));
    }
    if options.users_per_connection > 1 {
        parts.push(format!("{} users a connection", options.users_per_connection));
    }
    if run.mail_files.documents != workload.mailbox.documents {
        parts.push(format!("{} documents instead of {}", run.mail_files.documents, workload.mailbox.documents));
    }
    if let Some(iterations) = options.iterations {
        parts.push(format!("{iterations} iterations"));
    }
    if let Some(measure_us) = options.measure_us {
        parts.push(format!("measured for {}", format_duration(measure_us)));
    }
    for kind in run.databases.kinds.iter().filter(|kind| kind.database.documents != kind.documents_stated) {
        let workload::Database { name, documents, .. } = &kind.database;
        parts.push(format!("{documents} documents in each {name} instead of {}", kind.documents_stated));
    }
    if run.mail_files.masters < run.mail_files.users {
        parts.push(format!("{} mail files filled and copied", run.mail_files.masters));
    }
    if run.mail_files.archive != workload.mailbox.archive {
        parts.push("without archive".to_owned());
    }
    if let Some(door) = options.door {
        parts.push(format!("door {}", door.word()));
    }
    if let Some([first, last]) = options.recipients {
        parts.push(format!("recipients {first} to {last}"));
    }
    if options.size_scale != 1.0 {
        parts.push(format!("sizes × {}", options.size_scale));
    }
    let usual = RunOptions::default();
    if options.interval_us != usual.interval_us {
        parts.push(format!("a connection each {}", format_duration(options.interval_us)));
    }
    if options.time_limit != usual.time_limit {
        parts.push(format!("steps of at most {}", format_duration(micros(options.time_limit))));
    }
    parts.join(", ")
}

/// Returns the title of a report: the name of the run, and what was changed beside its options.
fn title_of_report(run: &PreparedRun, facts: &RunFacts) -> String {
    let mut title = title(run);
    if facts.cores.is_pinned {
        title.push_str(", server and driver on different cores");
    }
    if !facts.server_settings.is_empty() {
        title.push_str(&format!(", server with {}", facts.server_settings.join(" ")));
    }
    title
}

/// Returns the rows about the server, with the rows of the articles that have no counterpart.
fn server_section<W>(run: &PreparedRun, outcome: &Outcome<W>, facts: &RunFacts) -> Server {
    let mut server = server_rows(&facts.record, &outcome.levels, facts.cores);
    let without = published::without_counterpart(&run.plan.workload().name).into_iter();
    server.missing.extend(
        without.map(|(resource, reason)| MissingRow { resource: resource.to_owned(), reason: reason.to_owned() }),
    );
    server
}

fn run_section(run: &PreparedRun, facts: &RunFacts) -> Run {
    Run {
        started: facts.started.to_rfc3339(),
        command: facts.command.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: facts.commit.unwrap_or("unknown").to_owned(),
        seed: run.options.seed,
        plan: plan_digest(run),
        users: run.settings.levels.clone(),
        users_per_connection: run.options.users_per_connection,
        speedup: run.options.speedup,
        closed: run.settings.rules.pace != Pace::Timetable,
        door: run.plan.workload().door.word().to_owned(),
        servers: run.options.servers,
        parts: run.options.parts,
        transactions_version: TRANSACTIONS_VERSION,
        iterations: run.options.iterations,
        recipients: run.options.recipients,
        interval_us: Some(run.options.interval_us),
        time_limit_us: Some(micros(run.options.time_limit)),
        server: facts.server_program.clone(),
    }
}

/// Returns the digest of format, workload file, parameters, seed and users.
fn plan_digest(run: &PreparedRun) -> String {
    let mut plan = json!({
        "format": FORMAT,
        "workload": digest(run.text.as_bytes()),
        "parameters": parameters(run.plan.workload()),
        "recipients": run.options.recipients,
        "seed": run.options.seed,
        "users": run.settings.levels,
    });
    if let Some(iterations) = run.options.iterations {
        plan["iterations"] = json!(iterations);
    }
    digest(plan.to_string().as_bytes())
}

/// Returns the digest of a file or of a plan.
pub fn digest(bytes: &[u8]) -> String {
    base::hex::lower(&Sha256::digest(bytes))
}

fn parameters(workload: &workload::Workload) -> serde_json::Value {
    let value = |parameter: &workload::UsedParameter| (parameter.name.clone(), json!(parameter.value));
    serde_json::Value::Object(workload.parameters.iter().map(value).collect())
}

fn workload_section(run: &PreparedRun) -> Workload {
    let workload = run.plan.workload();
    let number = |number: &serde_json::Value| NumberSource {
        key: number["key"].as_str().unwrap_or_default().to_owned(),
        value: number["value"].clone(),
        sources: serde_json::from_value(number["source"].clone()).unwrap_or_default(),
    };
    let numbers: Vec<serde_json::Value> = workload.numbers.iter().map(|number| json!(number)).collect();
    let promised = Rates::of_all(workload).map(|rates| Promised {
        by_verb: rates.by_verb.iter().map(|(verb, rate)| (verb.word().to_owned(), rate.to_f64())).collect(),
        sent: rates.sent.to_f64(),
        received: rates.received.to_f64(),
        transactions_per_minute: rates.transactions.to_f64() / 60.0,
    });
    Workload {
        name: workload.name.clone(),
        title: workload.title.clone(),
        about: workload.about.trim().to_owned(),
        digest: digest(run.text.as_bytes()),
        parameters: parameters(workload),
        numbers: numbers.iter().map(number).collect(),
        tags: meanings(workload),
        promised: promised.unwrap_or_default(),
    }
}

/// Returns the meaning of the tags of all numbers: those of the reference and those of the file.
fn meanings(workload: &workload::Workload) -> BTreeMap<String, String> {
    let tags = workload.numbers.iter().flat_map(|number| &number.source.tags);
    let meaning = |tag: &String| {
        let own = workload.tags.get(tag).map(String::as_str);
        Some((tag.clone(), own.or_else(|| workload::source::meaning(tag))?.to_owned()))
    };
    tags.filter_map(meaning).collect()
}

fn phases(level: &LevelOutcome) -> Phases {
    let times = &level.times;
    let time = |time: Option<Duration>| time.map(micros);
    Phases {
        users: level.users,
        ramp_up_end_us: time(times.ramp_up_end),
        steady_us: time(times.steady),
        measure_start_us: time(times.measured.as_ref().map(|measured| measured.start)),
        measure_end_us: time(times.measured.as_ref().map(|measured| measured.end)),
        end_us: time(times.end),
    }
}

/// A level with a measured interval.
struct MeasuredLevel<'a> {
    number: u8,
    outcome: &'a LevelOutcome,
    measured: &'a Range<Duration>,
}

/// Returns the headline figures of the levels that were steady to the end of their measured interval.
fn headline<W>(run: &PreparedRun, outcome: &Outcome<W>, spreads: &Spreads) -> Option<Vec<Headline>> {
    let last = outcome.levels.len();
    let complete = (1..).zip(&outcome.levels).filter_map(|(number, level)| {
        let measured = level.times.measured.as_ref()?;
        let is_complete = level.times.end.is_some_and(|end| end >= measured.end);
        let is_lost = outcome.end == RunEnd::SteadyLost && usize::from(number) == last;
        (is_complete && !is_lost).then_some(MeasuredLevel { number, outcome: level, measured })
    });
    let figures: Vec<_> = complete.map(|level| level_headline(run, &outcome.recording, spreads, &level)).collect();
    (!figures.is_empty()).then_some(figures)
}

fn level_headline(run: &PreparedRun, recording: &Recording, spreads: &Spreads, level: &MeasuredLevel<'_>) -> Headline {
    let phase = Phase::Measured(level.number);
    let counts = recording.counts.sum(phase);
    let minutes = (level.measured.end - level.measured.start).as_secs_f64() / 60.0;
    let is_response =
        |key: &HistogramKey| key.phase == phase && matches!(key.subject, Subject::Steps(_, Kind::Response));
    let mut response = Times::of_histogram(&recording.histograms.sum(is_response));
    if let Some(response) = &mut response {
        response.spread = spreads.of_all(level.number, response.mean_us);
    }
    let of = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let is_partial = !run.left_out.is_empty();
    Headline {
        users: level.outcome.users,
        users_connected_max: level.outcome.connected_max,
        figure: if is_partial { PARTIAL } else { COMPLETE }.to_owned(),
        notesmark: counts.transactions as f64 / minutes,
        notesmark_promised: promised(run, level.outcome.users),
        transactions_without_call: of(counts.transactions_without_call, counts.transactions),
        response,
        errors: counts.failed,
        steps_due: counts.due,
        steps_ended: counts.ended,
    }
}

/// Returns the transactions a minute of the steps that are played. Returns `None` without pauses, and if users end
/// after a number of iterations, which may be before the measured interval.
fn promised(run: &PreparedRun, users: u64) -> Option<f64> {
    let by_verb = transactions_by_verb(run.plan.workload());
    let played = by_verb.iter().filter(|(verb, _)| run.offered.has(**verb));
    let per_hour: f64 = played.map(|(_, transactions)| transactions).sum();
    let is_promised = run.settings.rules.pace != Pace::Unpaced && run.plan.workload().iterations == 0;
    is_promised.then_some(per_hour / 60.0 * users as f64 * run.options.speedup)
}

fn verbs<W>(run: &PreparedRun, outcome: &Outcome<W>, spreads: &Spreads) -> Vec<VerbFigures> {
    let histograms = &outcome.recording.histograms;
    let mut verbs = Vec::new();
    for (action, phase, counts) in outcome.recording.counts.iter() {
        let Phase::Measured(number) = phase else { continue };
        let Some(level) = outcome.levels.get(usize::from(number) - 1) else { continue };
        let verb = run.labels.verbs[usize::from(action.verb.0)].clone();
        let class = run.labels.classes[usize::from(action.class.0)].clone();
        let times = |kind| {
            let subject = Subject::Steps(action, kind);
            Times::of_histogram(&histograms.sum(|key| *key == HistogramKey { subject, phase }))
        };
        let mut response = times(Kind::Response);
        if let Some(response) = &mut response {
            response.spread = spreads.of_verb(number, &verb, &class, response.mean_us);
        }
        verbs.push(VerbFigures {
            users: level.users,
            verb,
            class,
            due: counts.due,
            ended: counts.ended,
            failed: counts.failed,
            skipped: counts.skipped,
            not_begun: counts.not_begun,
            transactions: counts.transactions,
            calls: counts.calls,
            response,
            service: times(Kind::Service),
        });
    }
    verbs.sort_by_key(|figures| figures.users);
    verbs
}

/// Returns the steps of all phases, by verb and class.
fn whole_run(run: &PreparedRun, recording: &Recording) -> Vec<StepCounts> {
    let mut by_action = BTreeMap::new();
    for (action, _, counts) in recording.counts.iter() {
        by_action.entry(action).or_insert_with(VerbCounts::default).add(counts);
    }
    let counts = by_action.into_iter().map(|(action, counts)| StepCounts {
        verb: run.labels.verbs[usize::from(action.verb.0)].clone(),
        class: run.labels.classes[usize::from(action.class.0)].clone(),
        due: counts.due,
        failed: counts.failed,
        skipped: counts.skipped,
        not_begun: counts.not_begun,
        calls: counts.calls,
    });
    counts.collect()
}

fn requirements(workload: &workload::Workload, is_started_server: bool) -> Vec<Requirement> {
    let requirement = |condition: &Condition| {
        let met = match condition {
            Condition::Tls => Some(true),
            Condition::TransactionLog | Condition::Authentication if is_started_server => Some(true),
            Condition::FullText if is_started_server => Some(workload.mailbox.full_text),
            Condition::ClusterReplication if is_started_server => Some(false),
            _ => None,
        };
        let name = json!(condition).as_str().unwrap_or_default().to_owned();
        Requirement { name, met }
    };
    workload.requires.iter().map(requirement).collect()
}

fn errors(run: &PreparedRun, recording: &Recording) -> Vec<ErrorFigures> {
    let errors = recording.errors.iter().map(|(verb, code, errors)| ErrorFigures {
        verb: run.labels.verbs[usize::from(verb.0)].clone(),
        code: code.to_owned(),
        count: errors.count,
        first: errors.first.clone(),
    });
    errors.collect()
}

fn sample_figures(border: &super::observer::BorderRecord) -> SampleFigures {
    let sample = &border.sample;
    SampleFigures {
        end_us: micros(sample.interval.end),
        users_connected: border.users_connected,
        steps_ended: sample.steps_ended,
        steps_failed: sample.steps_failed,
        transactions: sample.transactions,
        response_mean_us: sample.response_mean_us.map(|mean_us| mean_us.round() as u64),
    }
}

fn population(run: &PreparedRun, runs_before: u64) -> Population {
    let files = &run.mail_files;
    let is_copied = files.masters < files.users;
    let databases = run.databases.kinds.iter().map(|kind| Databases {
        name: kind.database.name.clone(),
        count: kind.database.count,
        documents: kind.database.documents,
        documents_stated: kind.documents_stated,
    });
    Population {
        seed: files.seed,
        people: files.users,
        documents: files.documents,
        archive: files.archive,
        size_scale: files.size_scale,
        masters: is_copied.then_some(files.masters),
        own: is_copied.then(|| files.own.fraction().to_f64()),
        shared_bytes: Some(SizePlan::of(files, &run.databases).shared_bytes()),
        runs_before,
        databases: databases.collect(),
    }
}
