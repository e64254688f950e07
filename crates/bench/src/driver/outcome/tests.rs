//! Tests of whole runs without a server: the engine plays a workload with a door that answers at once, on tokio's
//! paused clock, and the report has the format of its schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::sync::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::*;
use crate::door::call::CallCount;
use crate::door::{Door, Reply, StepError};
use crate::driver::observer::{Counted, RunObserver, SessionRule};
use crate::driver::options::RunOptions;
use crate::driver::prepare::prepare;
use crate::driver::users::PlanUsers;
use crate::engine::run::{StopRequest, play};
use crate::engine::steps::StepSource as _;
use crate::parts::Parts;
use crate::plan::steps::{PlanAction, PlanSteps};
use crate::record::log::HistogramLog;
use crate::record::recorder::Recorder;
use crate::report::markdown;
use crate::report::samples::SampleValue;
use crate::target::metrics::Metrics;
use crate::target::process::Processes;
use crate::workload::rates::step_transactions;
use crate::workload::shipped;
use crate::workload::verb::Verb;

/// The speed-up of the runs.
const SPEEDUP: f64 = 60.0;

/// The steps that the door has performed, by user and verb.
type Performed = Arc<Mutex<BTreeMap<(u64, Verb), u64>>>;

/// A door that answers at once.
struct CountingDoor {
    user: u64,
    performed: Performed,
}

impl CountingDoor {
    fn count(&self, verb: Verb) -> Result<Reply, StepError> {
        *self.performed.lock().entry((self.user, verb)).or_insert(0) += 1;
        Ok(Reply::Performed { calls: 1, attachments: u32::from(verb == Verb::Read), reopened: 0 })
    }
}

impl Door for CountingDoor {
    type Action = PlanAction;

    async fn log_in(&mut self) -> Result<Reply, StepError> {
        self.count(Verb::LogIn)
    }

    async fn perform(&mut self, action: &PlanAction) -> Result<Reply, StepError> {
        assert_eq!(action.user(), self.user);
        self.count(action.verb())
    }

    fn calls(&self) -> CallCount {
        CallCount { calls: 1, reopened: 0 }
    }

    async fn log_out(&mut self) {}

    fn disconnect(&mut self) {}
}

/// Prepares a short run of N8Mail, which is measured for two hours: a whole cycle of 8 iterations.
fn prepared() -> PreparedRun {
    let text = shipped::load("n8mail").expect("shipped").replace("measure = \"1 h\"", "measure = \"2 h\"");
    let options = RunOptions { users: Some(vec![3]), speedup: SPEEDUP, documents: Some(20), ..RunOptions::default() };
    prepare(&text, options).expect("it can be played")
}

struct Played {
    run: PreparedRun,
    report: Report,
    samples: Vec<SampleValue>,
    performed: BTreeMap<(u64, Verb), u64>,
}

async fn played() -> Played {
    played_beside(Processes::default()).await
}

/// Plays the run, with the processes of a machine.
async fn played_beside(machine: Processes) -> Played {
    let run = prepared();
    let performed = Performed::default();
    let by_door = Arc::clone(&performed);
    let door = move |user| CountingDoor { user, performed: Arc::clone(&by_door) };
    let users = PlanUsers::new(&run.plan, &run.offered, run.options.interval_us, &run.settings.levels, door);
    let log = HistogramLog::begin(Vec::new(), run.labels.clone()).expect("memory can be written");
    let mut record = RunRecord::default();
    let observer = RunObserver {
        servers: &mut [],
        processes: Vec::new(),
        metrics: Vec::new(),
        traffic: client::Traffic::default(),
        sessions: SessionRule::Counted,
        parts: &mut Parts::Alone,
        users: 3,
        record: &mut record,
        progress: |_| {},
        machine,
        counted: Counted::default(),
    };
    let (_sender, stop) = watch::channel(StopRequest::None);
    let outcome = play(run.settings.clone(), users, Recorder::new(2, log), observer, stop).await;
    let outcome = outcome.expect("memory can be written and no user panics");
    let measured: Vec<_> = outcome.levels.iter().map(|level| level.times.measured.clone()).collect();
    let spreads = Spreads::read(&outcome.log[..], &measured).expect("the log that was written");
    let facts = facts(record, spreads);
    let report = report(&run, &outcome, &facts);
    let samples = samples(&facts.record.borders, 2);
    let performed = performed.lock().clone();
    Played { run, report, samples, performed }
}

/// Returns what is known of a run on a machine of which nothing is known.
fn facts(record: RunRecord, spreads: Spreads) -> RunFacts {
    let machine = Machine {
        cores: 2,
        processor: "unknown".to_owned(),
        memory_bytes: None,
        kernel: "unknown".to_owned(),
        file_system: "unknown".to_owned(),
        load_before: None,
    };
    RunFacts {
        started: Timestamp(0),
        command: "doublet-bench run n8mail".to_owned(),
        record,
        machine,
        cores: CoreCounts { driver: 2, server: 2, is_pinned: false },
        commit: None,
        memory_bytes_max: None,
        is_out_of_files: false,
        has_swapped: false,
        is_started_server: true,
        server_settings: Vec::new(),
        server_program: None,
        runs_before: 0,
        parts: PartFigures::default(),
        spreads,
    }
}

/// Returns how many steps of each verb the plan has within the measured interval.
fn planned(played: &Played) -> BTreeMap<String, u64> {
    let phases = &played.report.phases[0];
    let measured = phases.measure_start_us.expect("steady")..phases.measure_end_us.expect("steady");
    let mut counts = BTreeMap::new();
    for user in 1..=3 {
        let steps = PlanSteps::new(&played.run.plan, &played.run.offered, user, (user - 1) * 1_000_000);
        let mut steps = steps.expect("a user");
        while let Some(step) = steps.next_step() {
            let due_us = played.run.settings.rules.speedup.divide(step.intended).as_micros() as u64;
            if due_us >= measured.end {
                break;
            }
            if measured.contains(&due_us) {
                *counts.entry(step.action.verb().word().to_owned()).or_insert(0) += 1;
            }
        }
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn the_steps_of_the_plan_are_played() {
    let played = played().await;
    let attachments = Verb::ReadAttachment.word();
    let due = played.report.verbs.iter().map(|figures| (figures.verb.clone(), figures.due));
    let due: BTreeMap<String, u64> = due.filter(|(verb, _)| verb != attachments).collect();
    assert_eq!(due, planned(&played));
    assert!(!due.contains_key("invite") && !due.contains_key("accept"), "they are left out");
    for user in 1..=3 {
        let performed = |verb| played.performed.get(&(user, verb)).copied().unwrap_or(0);
        assert_eq!(performed(Verb::LogIn), 1);
        // Each read meets an attachment, of which a quarter is read.
        let share = performed(Verb::ReadAttachment) as f64 / performed(Verb::Read) as f64;
        assert!((0.1..0.4).contains(&share), "{share}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_figures_are_those_that_the_workload_promises() {
    let report = played().await.report;
    assert_eq!((report.state.name.as_str(), &*report.state.reasons), ("valid", &[][..]));
    let headline = &report.headline.as_ref().expect("steady")[0];
    assert_eq!((headline.figure.as_str(), headline.errors), ("NotesMark (partial)", 0));
    // In whole cycles, except for the iterations at both ends of the interval, and with more attachments.
    let promised = headline.notesmark_promised.expect("a timetable");
    assert!((headline.notesmark / promised - 1.0).abs() < 0.1, "{} of {promised}", headline.notesmark);
    for figures in &report.verbs {
        let per_user_and_hour = figures.due as f64 / 3.0 / 2.0;
        let Some(promised) = report.workload.promised.by_verb.get(&figures.verb) else { panic!("{figures:?}") };
        let is_near = (per_user_and_hour - promised).abs() <= promised / 4.0 + 0.2;
        assert!(is_near || figures.verb == "read_attachment", "{promised} promised: {figures:?}");
    }
    assert_eq!(report.title, "N8Mail, 3 users, speed-up 60, 20 documents instead of 3000");
    let markdown = markdown::format(&report);
    assert!(markdown.contains("**State: valid.**") && markdown.contains("| 3 | mail | close_view |"), "{markdown}");
    assert!(markdown.contains("- `accept`, 3.5 % of the transactions: the server has no calendar mail yet"));
}

/// Checks the arithmetic: steps of a verb, times the transactions of one, a minute. Two hours at a speed-up of 60 are
/// two minutes.
#[tokio::test(start_paused = true)]
async fn notesmark_is_the_transactions_of_all_verbs_a_minute() {
    let Played { run, report, .. } = played().await;
    let workload = run.plan.workload();
    for figures in &report.verbs {
        let class = workload.classes.iter().find(|class| class.name == figures.class).expect("its class");
        let step = class.steps.iter().find(|step| json!(step.verb) == figures.verb);
        let of_one = step.map_or(Verb::ReadAttachment.transactions(), |step| step_transactions(workload, class, step));
        assert_eq!(figures.transactions, figures.ended * of_one, "{figures:?}");
    }
    let all: u64 = report.verbs.iter().map(|figures| figures.transactions).sum();
    assert_eq!(report.headline.as_ref().expect("steady")[0].notesmark, all as f64 / 2.0);
}

/// A user of Idle has one iteration, which is over before the measured interval.
#[test]
fn a_number_of_iterations_promises_no_transactions() {
    let promised = |workload: &str, iterations: Option<u64>| {
        let text = shipped::load(workload).expect("shipped");
        let options = RunOptions { users: Some(vec![3]), iterations, ..RunOptions::default() };
        promised(&prepare(&text, options).expect("it can be played"), 3)
    };
    assert_eq!((promised("idle", None), promised("n8mail", Some(2))), (None, None));
    assert_eq!(promised("n8mail", Some(0)), promised("n8mail", None));
    assert!(promised("n8mail", None).is_some_and(|promised| promised > 3.0));
}

#[test]
fn a_report_says_what_the_workload_is_and_what_its_tags_mean() {
    let text = shipped::load("n8mail").expect("shipped");
    let own = "about = \"\"\"\nOf a survey.\n\"\"\"\ntags = { survey = \"A survey of 2026\" }\nsource = \"survey\"";
    let text = text.replacen("source = \"help-n8\"", own, 1);
    let run = prepare(&text, RunOptions { users: Some(vec![3]), ..RunOptions::default() }).expect("it can be played");
    let workload = workload_section(&run);
    assert_eq!(workload.about, "Of a survey.");
    let meaning = |tag: &str| workload.tags.get(tag).map(String::as_str);
    assert_eq!(meaning("survey"), Some("A survey of 2026"));
    assert_eq!(meaning("seed4"), Some("article: Domino 8 and Notes 8 (2007)"));
    let used = workload.numbers.iter().flat_map(|number| &number.sources);
    assert!(used.clone().all(|tag| workload.tags.contains_key(tag)), "{:?}", workload.tags);
    assert!(workload.tags.keys().all(|tag| used.clone().any(|of_number| of_number == tag)));
}

#[test]
fn a_title_names_what_was_changed() {
    let text = shipped::load("n8mail").expect("shipped");
    let options = RunOptions {
        set: vec!["calendar=24".to_owned()],
        users: Some(vec![3]),
        interval_us: 10_000,
        time_limit: Duration::from_secs(5),
        ..RunOptions::default()
    };
    let run = prepare(&text, options).expect("it can be played");
    let title = "N8Mail, 3 users, calendar=24, a connection each 10 ms, steps of at most 5 s";
    assert_eq!(super::title(&run), title);
    let mut facts = facts(RunRecord::default(), Spreads::default());
    assert_eq!(title_of_report(&run, &facts), title);
    facts.cores.is_pinned = true;
    facts.server_settings = vec!["store.sync=off".to_owned(), "store.cache=1MiB".to_owned()];
    let changed = "server and driver on different cores, server with store.sync=off store.cache=1MiB";
    assert_eq!(title_of_report(&run, &facts), format!("{title}, {changed}"));
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_not_observed_has_no_share_of_its_cores() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = played_beside(Processes::at(folder.path())).await.report;
    let reason = "the system does not tell it (/proc/PID/stat)";
    assert_eq!((report.driver.processor_share, report.driver.processor_share_missing.as_deref()), (None, Some(reason)));
    let [remark] = &report.state.reasons[..] else { panic!("{:?}", report.state) };
    assert_eq!((report.state.name.as_str(), remark.rule.as_str()), ("not valid", "processor-unknown"));
    let text = markdown::format(&report);
    let lines = [
        &*format!("- processor: not known: {reason}\n"),
        "- memory: not known\n",
        "(unknown), memory not known, unknown",
    ];
    assert!(lines.iter().all(|line| text.contains(line)), "{text}");
    assert_eq!(report.driver.open_files_max, None);
    assert_eq!(schema_violations(&serde_json::to_value(&report).expect("JSON")), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_samples_have_the_rows_of_driver_and_users() {
    let played = played().await;
    let values = |resource: &str| -> Vec<(u64, f64)> {
        let of_row = played.samples.iter().filter(|sample| sample.resource == resource);
        of_row.map(|sample| (sample.end_us, sample.value)).collect()
    };
    let reported = played.report.samples.iter().map(|sample| (sample.end_us, sample.transactions as f64));
    assert_eq!(values("transactions"), reported.collect::<Vec<_>>());
    assert_eq!(values("users_connected").last().map(|(_, users)| *users), Some(3.0));
    let memory = values("driver_resident_memory_in_mb");
    assert!(memory.len() == played.report.samples.len() && memory.iter().all(|(_, value)| *value > 1.0), "{memory:?}");
    assert_eq!(values("driver_processor_percent_of_one_core").len(), memory.len() - 1);
    assert!(values("processor_percent_busy").is_empty(), "there is no server");
    assert!(played.samples.is_sorted_by_key(|sample| sample.end_us));
}

#[tokio::test(start_paused = true)]
async fn the_report_has_the_format_of_its_schema() {
    let report = played().await.report;
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(schema_violations(&json), [""; 0]);
    let read: Report = serde_json::from_value(json).expect("it can be read again");
    assert_eq!(read, report);
    let mut damaged = serde_json::to_value(&report).expect("a report is JSON");
    damaged["run"]["users"] = serde_json::json!([0, "many"]);
    damaged["state"]["name"] = serde_json::json!("fine");
    damaged.as_object_mut().expect("an object").remove("driver");
    let violations = schema_violations(&damaged);
    assert_eq!(violations.len(), 4, "the check finds violations: {violations:#?}");
}

#[test]
fn calls_between_servers_are_not_those_of_users() {
    let page = "doublet_native_calls_total 100\ndoublet_http_requests_total 70\n\
                doublet_pool_jobs_total{protocol=\"router\",command=\"read\"} 9\n";
    let counters = ServerCounters::of_metrics(&Metrics::of_text(page));
    let calls = |counter, servers| user_calls(&counters, counter, servers);
    assert_eq!([1, 2].map(|servers| calls(ServerCounter::NativeCalls, servers)), [Some(100.0), Some(91.0)]);
    assert_eq!(calls(ServerCounter::HttpRequests, 2), Some(70.0));
    assert_eq!(calls(ServerCounter::Jobs, 2), None);
}

#[test]
fn the_title_names_the_servers() {
    let options = RunOptions { users: Some(vec![4]), servers: 2, ..RunOptions::default() };
    let run = prepare(&shipped::load("n8mail").expect("shipped"), options).expect("it can be played");
    assert_eq!(title(&run), "N8Mail, 4 users, 2 servers");
}

/// Returns where a report differs from its schema.
fn schema_violations(report: &Value) -> Vec<String> {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../../docs/notesbench-report.schema.json")).expect("JSON");
    let mut violations = Vec::new();
    validate(&schema, &schema, report, "report", &mut violations);
    violations
}

/// Checks a value against the part of JSON Schema that the schema of reports uses.
fn validate(root: &Value, schema: &Value, value: &Value, place: &str, violations: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/")) {
        validate(root, &root["$defs"][name], value, place, violations);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let fits = |choice| {
            let mut violations = Vec::new();
            validate(root, choice, value, place, &mut violations);
            violations.is_empty()
        };
        if !choices.iter().any(fits) {
            violations.push(format!("{place}: fits none"));
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    };
    let is_bad_enum = schema["enum"].as_array().is_some_and(|choices| !choices.contains(value));
    let is_bad_const = !schema["const"].is_null() && schema["const"] != *value;
    let is_below = schema["minimum"].as_f64().is_some_and(|min| value.as_f64().is_some_and(|value| value < min));
    if (!types.is_empty() && !types.iter().any(|name| has_type(value, name))) || is_bad_enum || is_bad_const || is_below
    {
        violations.push(format!("{place}: {value}"));
        return;
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            violations.push(format!("{place}.{name} is missing"));
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        validate(root, &schema["properties"][name], member, &format!("{place}.{name}"), violations);
    }
    for member in value.as_array().into_iter().flatten() {
        validate(root, &schema["items"], member, &format!("{place}[]"), violations);
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => false,
    }
}
