//! Two parts of a run in one process, over loopback, against a stub server.

use std::io::BufWriter;
use std::path::Path;

use base::Timestamp;
use client::Traffic;
use tokio::sync::watch;

use super::message::{FORMAT, Hello};
use super::record::{CountRow, PartIdentity, PartRecord, StoredPart};
use super::*;
use crate::compare::spreads::Spreads;
use crate::driver::observer::{BorderRecord, RunRecord};
use crate::driver::options::RunOptions;
use crate::driver::outcome::{CoreCounts, PartFigures, RunFacts, report};
use crate::driver::play::{LogFile, door_settings, play_run};
use crate::driver::prepare::PreparedRun;
use crate::engine::phases::{Decision, PhaseTimes, Phases, SessionCount};
use crate::engine::run::{LevelOutcome, Outcome, StopRequest};
use crate::engine::share::PartShare;
use crate::record::counters::VerbCounts;
use crate::record::histograms::Phase;
use crate::record::recorder::{Recording, Sample};
use crate::report::model::Machine;
use crate::report::verdict::{IncompletePart, ProcessorShare};
use crate::stub::tests::{POLLS, SPEEDUP, prepared, stage, start, target, with_clock};
use crate::stub::{ResponseTime, StubServer};
use crate::target::by_server::ByServer;
use crate::target::process::Consumption;
use crate::target::system_random::SystemRandom;

const USERS: u64 = 5;

fn hello(part: u64) -> Hello {
    Hello {
        format: FORMAT,
        version: "1".to_owned(),
        token: "a token".to_owned(),
        part,
        parts: 2,
        workload: "w".to_owned(),
        options: "o".to_owned(),
    }
}

fn coordinator(sample: Duration) -> Coordinator {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    Coordinator::new(listener, hello(1), sample).expect("a listener")
}

fn run(part: u64) -> PreparedRun {
    let options = RunOptions { users: Some(vec![USERS]), speedup: SPEEDUP, parts: 2, ..RunOptions::default() };
    let mut run = prepared(POLLS, options);
    run.settings.share = PartShare::new(part, 2).expect("a part");
    run
}

/// Returns what is known of a run. Its processor time is replaced, because the clock is not the one of the processor.
fn facts(mut record: RunRecord) -> RunFacts {
    record.borders.iter_mut().for_each(|border| border.driver = Some(Consumption::default()));
    let unknown = || "unknown".to_owned();
    let machine = Machine {
        cores: 2,
        processor: unknown(),
        memory_bytes: Some(1),
        kernel: unknown(),
        file_system: unknown(),
        load_before: Some(0.0),
    };
    RunFacts {
        started: Timestamp(0),
        command: "doublet-bench run polls".to_owned(),
        record,
        machine,
        cores: CoreCounts { driver: 2, server: 2, is_pinned: false },
        commit: None,
        runs_before: 0,
        memory_bytes_max: Some(7),
        is_out_of_files: false,
        has_swapped: false,
        is_started_server: false,
        server_settings: Vec::new(),
        server_program: None,
        spreads: Spreads::default(),
        parts: PartFigures::default(),
    }
}

/// Plays a part, and writes its record into a directory.
async fn play_part(parts: &mut Parts, part: u64, server: &StubServer, folder: &Path) -> Outcome<LogFile> {
    let run = run(part);
    let traffic = Traffic::default();
    let random = SystemRandom::open().expect("random numbers");
    let settings = door_settings(&run, &target(server), random, &traffic).expect("the native door");
    let (_sender, stop) = watch::channel(StopRequest::None);
    let start = parts.start().await.expect("all parts join");
    let stage = stage(traffic, parts, start, stop);
    let log = BufWriter::new(std::fs::File::create(folder.join(LOG_FILE)).expect("a file"));
    let (outcome, record) =
        play_run(&run, &ByServer::one(settings), log, stage, |_| {}).await.expect("the log can be written");
    let incomplete = match parts {
        Parts::Coordinator(coordinator) => coordinator.incomplete(),
        _ => Vec::new(),
    };
    let identity = PartIdentity { incomplete, ..identity(part, &run.options) };
    let record = PartRecord::new(identity, &run.labels, &outcome, &facts(record));
    StoredPart::write(folder, record).expect("the file can be written");
    outcome
}

fn identity(part: u64, options: &RunOptions) -> PartIdentity {
    PartIdentity {
        part,
        options: options.clone(),
        workload: "w".to_owned(),
        machine_id: "m".to_owned(),
        clock_difference: None,
        incomplete: Vec::new(),
    }
}

/// Writes the record of a part that has recorded nothing, after a change, into a directory.
fn store(directory: &Path, part: u64, change: impl FnOnce(&mut PartRecord)) -> StoredPart {
    std::fs::create_dir_all(directory).expect("a folder");
    std::fs::write(directory.join(LOG_FILE), "").expect("a file");
    let run = run(1);
    let outcome = Outcome {
        levels: vec![LevelOutcome { users: USERS, times: PhaseTimes::default(), connected_max: 0 }],
        end: RunEnd::Complete,
        ended_at: Duration::ZERO,
        recording: Recording::default(),
        log: (),
    };
    let mut record = PartRecord::new(identity(part, &run.options), &run.labels, &outcome, &facts(RunRecord::default()));
    change(&mut record);
    StoredPart::write(directory, record).expect("a file")
}

#[tokio::test(start_paused = true)]
async fn two_parts_play_one_run_and_have_one_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let [own, other] = ["part-1", "other"].map(|name| folder.path().join(name));
    for path in [&own, &other] {
        std::fs::create_dir(path).expect("a folder");
    }
    let server = start(ResponseTime::Constant(Duration::from_millis(5))).await;
    let sample = Duration::from_millis(100);
    let coordinator = coordinator(sample);
    let address = coordinator.address().expect("an address").to_string();
    let first = async {
        let mut parts = Parts::Coordinator(coordinator);
        let outcome = play_part(&mut parts, 1, &server, &own).await;
        let Parts::Coordinator(mut coordinator) = parts else { unreachable!("it stays") };
        let missing = coordinator.receive_records(folder.path(), Duration::from_secs(60)).await;
        assert_eq!((missing, coordinator.incomplete()), (Vec::new(), Vec::new()));
        assert!(coordinator.clock_difference().is_some_and(|difference| difference < Duration::from_millis(5)));
        outcome
    };
    let second = async {
        let joined = JoinedPart::join(&address, hello(2), sample).await.expect("it is admitted");
        let mut parts = Parts::Joined(joined);
        let outcome = play_part(&mut parts, 2, &server, &other).await;
        let Parts::Joined(mut joined) = parts else { unreachable!("it stays") };
        joined.send_record(&other).await.expect("the coordinator receives it");
        outcome
    };
    let both = async { tokio::join!(first, second) };
    let [one, two] = <[_; 2]>::from(with_clock(Duration::from_millis(1), both).await);
    assert_eq!((one.end, two.end), (RunEnd::Complete, RunEnd::Complete));
    assert_eq!(one.levels, two.levels, "both have decided the same");
    assert_eq!(one.levels[0].connected_max, USERS);
    assert_eq!(server.connections(), USERS, "each user is played once");

    let stored = ["part-1", "part-2"].map(|name| StoredPart::read(&folder.path().join(name)).expect("a record"));
    let run = run(1);
    let log = folder.path().join("merged.hlog");
    let merged = merge::merge(stored.into(), &run.labels, &log).expect("parts of one run");
    let sums = [&one.recording, &two.recording].map(|recording| recording.counts.sum(Phase::Measured(1)));
    let sum = merged.outcome.recording.counts.sum(Phase::Measured(1));
    assert!(sums.iter().all(|counts| counts.due > 0));
    assert_eq!((sum.due, sum.calls), (sums[0].due + sums[1].due, sums[0].calls + sums[1].calls));
    let report = report(&run, &merged.outcome, &merged.facts);
    let level = &report.headline.expect("steady")[0];
    assert_eq!(level.response.as_ref().map(|times| times.count), Some(sum.completed));
    assert_eq!((report.run.parts, level.users, level.steps_due), (2, USERS, sum.due));
    // One step that is due at the end of so short an interval and ends after it is more than 1 %.
    assert!(["valid", "overloaded"].contains(&report.state.name.as_str()), "{:?}", report.state);
    assert_eq!(merged.facts.parts.incomplete, []);
    assert_eq!(merged.facts.parts.processor_share, Some(ProcessorShare::Known(0.0)));
    assert_eq!(merged.facts.parts.lateness.iter().map(|part| part.part).collect::<Vec<_>>(), [1, 2]);
    assert!(report.driver.lateness_part.is_some_and(|part| part == 1 || part == 2), "{:?}", report.driver);
    let border = merged.facts.record.borders.iter().map(|border| border.users_connected).max();
    assert_eq!(border, Some(USERS));
}

#[tokio::test(start_paused = true)]
async fn a_part_that_ends_breaks_off_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(ResponseTime::AtOnce).await;
    let sample = Duration::from_millis(100);
    let coordinator = coordinator(sample);
    let address = coordinator.address().expect("an address").to_string();
    let first = async {
        let mut parts = Parts::Coordinator(coordinator);
        let outcome = play_part(&mut parts, 1, &server, folder.path()).await;
        let Parts::Coordinator(mut coordinator) = parts else { unreachable!("it stays") };
        let missing = coordinator.receive_records(folder.path(), Duration::from_secs(1)).await;
        (outcome.end, coordinator.incomplete(), missing)
    };
    let second = async {
        let mut joined = JoinedPart::join(&address, hello(2), sample).await.expect("it is admitted");
        joined.start().await.expect("the start signal");
        // Its connection is closed here.
    };
    let both = async { tokio::join!(first, second).0 };
    let (end, incomplete, missing) = with_clock(Duration::from_millis(1), both).await;
    assert_eq!(end, RunEnd::BrokenOff);
    let of_part_2 = |parts: &[IncompletePart], expected: &str| matches!(parts, [IncompletePart { part: 2, reason }] if reason.contains(expected));
    assert!(of_part_2(&incomplete, "the connection is broken"), "{incomplete:?}");
    assert!(of_part_2(&missing, "its figures have not come: the connection"), "{missing:?}");
    assert!(!folder.path().join("part-2").exists(), "nothing of a part that is not whole is left");
}

/// Joins as part 2, and reports at each border that its three users are connected and have completed an iteration,
/// until the sums of all parts satisfy a condition.
async fn join_and_count(address: &str, mut is_over: impl FnMut(&Border) -> bool) -> JoinedPart {
    let sample = run(2).settings.lengths.sample();
    let mut joined = JoinedPart::join(address, hello(2), sample).await.expect("it is admitted");
    joined.start().await.expect("the start signal");
    let mut at = Duration::ZERO;
    loop {
        at += sample;
        let own = Border { at, connected: 3, iterated: 3, sessions: SessionCount::Unsupported };
        match joined.exchange(own).await {
            Exchanged::Counts(sum) if is_over(&sum) => return joined,
            Exchanged::Counts(_) => {}
            Exchanged::End(end) => panic!("the coordinator goes on, and has not ended: {end:?}"),
        }
    }
}

/// Plays part 1 beside a part that reports an end after the first border. Returns why the run has ended.
async fn end_after(reported: RunEnd) -> RunEnd {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(ResponseTime::AtOnce).await;
    let coordinator = coordinator(run(1).settings.lengths.sample());
    let address = coordinator.address().expect("an address").to_string();
    let first = async {
        let mut parts = Parts::Coordinator(coordinator);
        play_part(&mut parts, 1, &server, folder.path()).await.end
    };
    let second = async {
        let mut joined = join_and_count(&address, |_| true).await;
        joined.end(reported).await;
        joined
    };
    let both = async { tokio::join!(first, second).0 };
    with_clock(Duration::from_millis(1), both).await
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_for_the_reason_that_a_part_reports() {
    for end in [RunEnd::ServerEnded, RunEnd::NotSteady, RunEnd::BrokenOff] {
        assert_eq!(end_after(end).await, end);
    }
    assert_eq!(end_after(RunEnd::Complete).await, RunEnd::BrokenOff, "no part completes a run alone");
}

/// Joins with a first message, and returns why the part is refused.
async fn refusal(address: &str, hello: Hello) -> String {
    let joined = JoinedPart::join(address, hello, Duration::from_secs(1)).await;
    joined.map_or_else(|error| error.to_string(), |_| "it is admitted".to_owned())
}

#[tokio::test]
async fn parts_that_do_not_belong_to_the_run_are_refused() {
    let coordinator = coordinator(Duration::from_secs(1));
    let address = coordinator.address().expect("an address").to_string();
    let mut parts = Parts::Coordinator(coordinator);
    let checks = async {
        let refused = async |hello: Hello, expected: &str| {
            let reason = refusal(&address, hello).await;
            assert!(reason.contains(expected), "{reason}");
        };
        refused(Hello { token: "a tokem".to_owned(), ..hello(2) }, "the token is not that of the run").await;
        refused(Hello { token: String::new(), ..hello(2) }, "the token is not that of the run").await;
        refused(Hello { format: 9, ..hello(2) }, "the format is not that of the coordinator").await;
        refused(Hello { version: "2".to_owned(), ..hello(2) }, "the version is not").await;
        refused(Hello { parts: 3, ..hello(2) }, "the number of parts is not").await;
        refused(Hello { workload: "x".to_owned(), ..hello(2) }, "the workload file is not").await;
        refused(Hello { options: "x".to_owned(), ..hello(2) }, "the options (parameters, seed").await;
        refused(Hello { part: 1, ..hello(2) }, "1 is not a part from 2 to 2").await;
        refused(Hello { version: "x".repeat(5_000), ..hello(2) }, "the connection is broken").await;
        let mut joined = JoinedPart::join(&address, hello(2), Duration::from_secs(1)).await.expect("it is admitted");
        joined.start().await.expect("the start signal");
    };
    let (started, ()) = tokio::join!(parts.start(), checks);
    assert!(started.expect("the other part has joined").is_some());
}

#[test]
fn records_of_different_runs_are_not_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let stored =
        |part: u64, seed: u64, name: &str| store(&folder.path().join(name), part, |record| record.options.seed = seed);
    let labels = run(1).labels;
    let log = folder.path().join("merged.hlog");
    let refused = |parts: Vec<StoredPart>| merge::merge(parts, &labels, &log).expect_err("different").to_string();
    assert!(refused(vec![stored(2, 1, "a")]).contains("part 1, which has observed the server, is missing"));
    assert!(refused(vec![stored(1, 1, "a"), stored(1, 1, "b")]).contains("part 1 is there twice"));
    assert!(refused(vec![stored(1, 1, "a"), stored(2, 2, "b")]).contains("other options"));
    let half = merge::merge(vec![stored(1, 1, "a")], &labels, &log).expect("a part");
    assert_eq!(half.facts.parts.incomplete, [IncompletePart::new(2, "there is no record of it")]);
    let damaged = folder.path().join("a").join(RECORD_FILE);
    std::fs::write(&damaged, "{}").expect("a file");
    assert!(StoredPart::read(&folder.path().join("a")).expect_err("damaged").to_string().contains("part.json"));
}

#[test]
fn parts_without_the_measured_interval_have_ended_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let stored = |part: u64, end: RunEnd, measured: Option<[u64; 2]>| {
        store(&folder.path().join(format!("{part}")), part, |record| {
            record.end = end;
            let seconds = measured.map(|interval| interval.map(Duration::from_secs));
            record.levels[0].times.measured = seconds.map(|[start, end]| start..end);
            record.counts = vec![polls(measured.map(|_| 1), 7)];
        })
    };
    let log = folder.path().join("merged.hlog");
    let merged = |parts: [StoredPart; 2]| {
        let merged = merge::merge(parts.into(), &run(1).labels, &log).map_err(|error| error.to_string())?;
        let due = |phase| merged.outcome.recording.counts.sum(phase).due;
        Ok::<_, String>((merged.outcome.end, [due(Phase::Measured(1)), due(Phase::Other)]))
    };
    let one = |end, measured| stored(1, end, measured);
    let two = |end, measured| stored(2, end, measured);
    let interval = Some([4, 8]);
    let both = merged([one(RunEnd::Complete, interval), two(RunEnd::Complete, interval)]);
    assert_eq!(both, Ok((RunEnd::Complete, [14, 0])));
    let stopped = merged([one(RunEnd::Complete, interval), two(RunEnd::BrokenOff, None)]);
    assert_eq!(stopped, Ok((RunEnd::BrokenOff, [7, 7])));
    let coordinator_stopped = merged([one(RunEnd::BrokenOff, None), two(RunEnd::ServerEnded, interval)]);
    assert_eq!(coordinator_stopped, Ok((RunEnd::BrokenOff, [0, 14])), "the run has no measured interval");
    let different = Err("the parts do not belong together: part 2 has other measured intervals than part 1".to_owned());
    assert_eq!(merged([one(RunEnd::Complete, interval), two(RunEnd::BrokenOff, Some([4, 9]))]), different);
    assert_eq!(merged([one(RunEnd::Complete, interval), two(RunEnd::Complete, None)]), different);
    assert_eq!(merged([one(RunEnd::Complete, None), two(RunEnd::BrokenOff, interval)]), different);
}

#[test]
fn a_part_that_was_not_observed_may_have_used_its_cores() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("merged.hlog");
    let second = Duration::from_secs(1);
    let share = |used_us: [Option<u64>; 2]| {
        let stored = |part: u64, used_us: Option<u64>| {
            store(&folder.path().join(format!("{part}")), part, |record| {
                record.levels[0].times.measured = Some(second..second * 2);
                let used = |factor: u64| {
                    used_us.map(|used_us| Consumption { processor_us: used_us * factor, ..Consumption::default() })
                };
                record.borders = vec![border(second, used(0)), border(second * 2, used(1))];
            })
        };
        let parts = vec![stored(1, used_us[0]), stored(2, used_us[1])];
        let parts = merge::merge(parts, &run(1).labels, &log).expect("parts of one run").facts.parts;
        (parts.processor_share, parts.level_shares)
    };
    let known = (Some(ProcessorShare::Known(0.375)), vec![Some(0.375)]);
    assert_eq!(share([Some(250_000), Some(500_000)]), known, "both are on one machine");
    let unknown = "part 2: the system does not tell it (/proc/PID/stat)".to_owned();
    assert_eq!(share([Some(250_000), None]), (Some(ProcessorShare::Unknown(unknown)), Vec::new()));
}

#[test]
fn the_memory_of_all_parts_is_known_if_that_of_each_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("merged.hlog");
    let memory = |second: Option<u64>| {
        let stored = |part: u64, bytes: Option<u64>| {
            store(&folder.path().join(format!("{part}")), part, |record| record.memory_bytes_max = bytes)
        };
        let parts = vec![stored(1, Some(7)), stored(2, second)];
        merge::merge(parts, &run(1).labels, &log).expect("parts of one run").facts.memory_bytes_max
    };
    assert_eq!([memory(Some(5)), memory(None)], [Some(12), None]);
}

/// Returns a border at which only the driver's consumption is known.
fn border(end: Duration, driver: Option<Consumption>) -> BorderRecord {
    let interval = Duration::ZERO..end;
    BorderRecord {
        sample: Sample { interval, steps_ended: 0, steps_failed: 0, transactions: 0, response_mean_us: None },
        users_connected: 0,
        driver,
        server: None,
        counters: None,
        disk: None,
        swapped: None,
        network_bytes: 0,
    }
}

/// Returns the counts of so many polls.
fn polls(level: Option<u8>, due: u64) -> CountRow {
    let counts = VerbCounts { due, ..VerbCounts::default() };
    CountRow { verb: "poll".to_owned(), class: run(1).labels.classes[0].clone(), level, counts }
}

/// Merges part 1 with a part 2 that is damaged, and checks the report.
fn check_damaged(damage: impl FnOnce(&Path), missing: &[IncompletePart], expected: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = part_directory(folder.path(), 2);
    let own = store(&part_directory(folder.path(), 1), 1, |record| record.counts = vec![polls(None, 2)]);
    store(&directory, 2, |record| record.counts = vec![polls(None, 5)]);
    damage(&directory);
    let run = run(1);
    let log = folder.path().join("merged.hlog");
    let merged = merge::merge_received(own, folder.path(), missing.to_vec(), &run.labels, &log);
    let merged = merged.expect("the figures of part 1 can be used");
    let report = report(&run, &merged.outcome, &merged.facts);
    assert_eq!(report.state.name, "broken off");
    let [reason] = &report.state.reasons[..] else { panic!("{:?}", report.state) };
    assert!(reason.text.starts_with("part 2 is not complete: ") && reason.text.contains(expected), "{}", reason.text);
    assert_eq!(merged.outcome.recording.counts.sum(Phase::Other).due, 2, "{expected}: nothing of part 2 counts");
}

#[test]
fn a_part_whose_figures_cannot_be_used_is_left_out_and_named() {
    let write = |name: &'static str, text: &'static str| {
        move |directory: &Path| std::fs::write(directory.join(name), text).expect("a file")
    };
    check_damaged(write(RECORD_FILE, "{}"), &[], "part.json: missing field");
    check_damaged(write(LOG_FILE, "nothing\n"), &[], "histograms.hlog: line 1 is damaged");
    check_damaged(|directory| std::fs::remove_dir_all(directory).expect("a folder"), &[], "No such file");
    let missing = [IncompletePart::new(2, "its figures have not come: no message came in time")];
    check_damaged(|directory| std::fs::remove_dir_all(directory).expect("a folder"), &missing, "no message came");
    let with = |change: fn(&mut PartRecord)| move |directory: &Path| drop(store(directory, 2, change));
    let unknown = |record: &mut PartRecord| {
        record.counts = vec![polls(None, 5), CountRow { verb: "juggle".to_owned(), ..polls(None, 5) }];
    };
    check_damaged(with(unknown), &[], "part.json: it has an unknown verb");
    let large = |record: &mut PartRecord| record.counts = vec![polls(None, u64::MAX / 1_000); 2_000];
    check_damaged(with(large), &[], "it has counts that are too large");
    check_damaged(with(|record| record.part = 1), &[], "part 2 has sent the record of part 1");
    check_damaged(with(|record| record.options.seed = 9), &[], "other options than part 1");
}

/// The other part knows the decision, but has been stopped meanwhile: its record has no measured interval.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_stopped_during_the_decision_is_in_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let [own, other] = ["part-1", "other"].map(|name| folder.path().join(name));
    std::fs::create_dir(&own).expect("a folder");
    store(&other, 2, |record| record.end = RunEnd::BrokenOff);
    let server = start(ResponseTime::AtOnce).await;
    let lengths = run(1).settings.lengths;
    let coordinator = coordinator(lengths.sample());
    let address = coordinator.address().expect("an address").to_string();
    let first = async {
        let mut parts = Parts::Coordinator(coordinator);
        let outcome = play_part(&mut parts, 1, &server, &own).await;
        let Parts::Coordinator(mut coordinator) = parts else { unreachable!("it stays") };
        (outcome, coordinator.receive_records(folder.path(), Duration::from_secs(60)).await)
    };
    let second = async {
        let mut phases = Phases::new(lengths, Duration::ZERO, USERS, USERS);
        let is_decision = |sum: &Border| matches!(phases.border(sum), Decision::Measure(_));
        let mut joined = join_and_count(&address, is_decision).await;
        joined.end(RunEnd::BrokenOff).await;
        joined.send_record(&other).await.expect("the coordinator receives it");
    };
    let both = async { tokio::join!(first, second).0 };
    let (outcome, missing) = with_clock(Duration::from_millis(1), both).await;
    assert!(outcome.levels[0].times.measured.is_some(), "part 1 has decided");
    let stored = StoredPart::read(&own).expect("a record");
    let log = folder.path().join("merged.hlog");
    let run = run(1);
    let merged = merge::merge_received(stored, folder.path(), missing, &run.labels, &log).expect("parts of one run");
    let report = report(&run, &merged.outcome, &merged.facts);
    let reasons: Vec<&str> = report.state.reasons.iter().map(|reason| reason.text.as_str()).collect();
    let expected = ["part 2 is not complete: it was stopped before the end of the run", "the run was stopped"];
    assert_eq!((report.state.name.as_str(), &reasons[..2]), ("broken off", &expected[..]));
}
