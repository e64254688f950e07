//! Whole runs against a stub server, with real sockets and TLS: the figures of a run are those of the server, and those
//! of the driver are noticed.
//!
//! Driver and server share a thread and tokio's paused clock, which [`with_clock`] moves by a millisecond after the
//! thread has looked at the sockets many times. So times do not depend on what else the machine does.

use std::collections::BTreeMap;
use std::io::BufWriter;

use client::{Traffic, Trust};
use tokio::sync::watch;
use tokio::time::Instant;

use super::*;
use crate::driver::options::RunOptions;
use crate::driver::play::{LogFile, Stage, door_settings, play_run};
use crate::driver::prepare::{PreparedRun, prepare};
use crate::engine::run::{Outcome, RunEnd, StopRequest};
use crate::parts::Parts;
use crate::plan::steps::verb_index;
use crate::population::people::UserNames;
use crate::record::counters::VerbCounts;
use crate::record::histograms::{Kind, Phase, Subject, TimeHistogram};
use crate::report::verdict::{DriverFigures, ProcessorShare, RunFigures, State, judge};
use crate::target::by_server::ByServer;
use crate::target::disk::DataDisk;
use crate::target::system_random::SystemRandom;
use crate::target::{Protocol, Target, USERS_DEFAULT};
use crate::workload::shipped;
use crate::workload::verb::Verb;

/// A workload of polls, measured for two minutes. With the speed-up 100, each user polls each 100 ms for 1.2 s.
pub(crate) const POLLS: &str = "format = 1\nname = \"Polls\"\ntitle = \"Polls\"\niteration = \"1 min\"\nmeasure = \"2 min\"\n\
                     step = [{ verb = \"poll\", count = 6, pause = \"9 s\" }]\n";
pub(crate) const SPEEDUP: f64 = 100.0;
const MEASURED: Phase = Phase::Measured(1);

/// How often the thread looks at the sockets within a millisecond. A call needs some ten looks.
const LOOKS: usize = 64;

/// Waits for some work, and moves the paused clock by `step` each time after the sockets had time.
pub(crate) async fn with_clock<T>(step: Duration, work: impl Future<Output = T>) -> T {
    // While a blocking task exists, the runtime does not move the clock by itself.
    let (release, released) = std::sync::mpsc::channel::<()>();
    let blocking = tokio::task::spawn_blocking(move || released.recv().is_err());
    tokio::pin!(work);
    let tick = async {
        loop {
            for _ in 0..LOOKS {
                tokio::task::yield_now().await;
            }
            tokio::time::advance(step).await;
        }
    };
    tokio::pin!(tick);
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        () = &mut tick => unreachable!("the clock moves until the work has ended"),
    };
    drop(release);
    assert!(blocking.await.expect("it does not panic"), "nothing was sent");
    result
}

pub(crate) async fn start(response_time: ResponseTime) -> StubServer {
    let options = StubOptions { listen: "127.0.0.1:0".to_owned(), response_time, seed: 1 };
    StubServer::start(&options).await.expect("a port and a certificate")
}

pub(crate) fn target(server: &StubServer) -> Target {
    Target {
        addresses: BTreeMap::from([(Protocol::Native, server.address().to_string())]),
        trust: Trust::pinned(server.certificate().as_bytes()).expect("a certificate"),
        names: UserNames::parse(USERS_DEFAULT).expect("a pattern"),
        password: "any".to_owned(),
        metrics: None,
        processes: Vec::new(),
        queue_folders: Vec::new(),
        data_folder: None,
    }
}

pub(crate) fn prepared(text: &str, options: RunOptions) -> PreparedRun {
    let interval_us = 100_000;
    prepare(text, RunOptions { interval_us, ..options }).expect("it can be played")
}

/// Returns what plays a part without observing a server.
pub(crate) fn stage<'a>(
    traffic: Traffic,
    parts: &'a mut Parts,
    start: Option<Instant>,
    stop: watch::Receiver<StopRequest>,
) -> Stage<'a> {
    Stage {
        servers: &mut [],
        processes: Vec::new(),
        metrics: Vec::new(),
        disk: DataDisk::NoFolder,
        traffic,
        parts,
        workers: 1,
        start,
        stop,
    }
}

async fn play(run: &PreparedRun, server: &StubServer) -> Outcome<LogFile> {
    let random = SystemRandom::open().expect("the system has random numbers");
    let traffic = Traffic::default();
    let settings = ByServer::one(door_settings(run, &target(server), random, &traffic).expect("the native door"));
    let (_sender, stop) = watch::channel(StopRequest::None);
    let mut parts = Parts::Alone;
    let stage = stage(traffic, &mut parts, None, stop);
    let log = BufWriter::new(tempfile::tempfile().expect("a file"));
    let playing = play_run(run, &settings, log, stage, |_| {});
    with_clock(Duration::from_millis(1), playing).await.expect("the log can be written").0
}

fn times(outcome: &Outcome<LogFile>, verb: Verb, kind: Kind) -> TimeHistogram {
    outcome.recording.histograms.sum(|key| {
        matches!(key.subject, Subject::Steps(action, of) if action.verb == verb_index(verb) && of == kind)
            && key.phase == MEASURED
    })
}

fn counts(outcome: &Outcome<LogFile>) -> VerbCounts {
    outcome.recording.counts.sum(MEASURED)
}

fn state(outcome: &Outcome<LogFile>) -> State {
    let driver = DriverFigures { processor_share: ProcessorShare::Known(0.0), ..DriverFigures::default() };
    judge(&RunFigures::of_outcome(outcome, driver)).state
}

#[tokio::test(start_paused = true)]
async fn known_response_times_give_back_known_percentiles() {
    let millis = Duration::from_millis;
    let server = start(ResponseTime::Uniform(millis(20), millis(60))).await;
    let options = RunOptions { users: Some(vec![10]), speedup: SPEEDUP, ..RunOptions::default() };
    let outcome = play(&prepared(POLLS, options), &server).await;
    assert_eq!((outcome.end, counts(&outcome).failed), (RunEnd::Complete, 0));
    let service = times(&outcome, Verb::Poll, Kind::Service);
    assert!(service.count() >= 50, "{}", service.count());
    let percentile = |percentile| service.percentile_us(percentile).expect("times");
    // Of the uniform distribution: 20 ms, 40 ms and 56 ms, less three standard deviations of 50 draws.
    assert!((20_000..25_000).contains(&percentile(0.0)), "{}", percentile(0.0));
    assert!((34_000..47_000).contains(&percentile(50.0)), "{}", percentile(50.0));
    assert!((50_000..63_000).contains(&percentile(90.0)), "{}", percentile(90.0));
    let response = times(&outcome, Verb::Poll, Kind::Response);
    assert!(response.percentile_us(50.0) >= service.percentile_us(50.0), "a response is no shorter than its service");
}

/// For 30 of 40 ms nothing runs, as if the driver's only thread did something else.
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_throttled_is_not_valid() {
    let server = start(ResponseTime::AtOnce).await;
    let options = RunOptions { users: Some(vec![5]), speedup: SPEEDUP, ..RunOptions::default() };
    let run = prepared(POLLS, options);
    let throttle = tokio::spawn(async {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        loop {
            ticks.tick().await;
            tokio::time::advance(Duration::from_millis(30)).await;
        }
    });
    let outcome = play(&run, &server).await;
    throttle.abort();
    assert_eq!(state(&outcome), State::NotValid);
}

#[tokio::test(start_paused = true)]
async fn users_share_connections_and_a_verb_that_is_left_out_makes_the_run_partial() {
    let server = start(ResponseTime::AtOnce).await;
    let text = shipped::load("n8mail").expect("shipped");
    let options = RunOptions {
        users: Some(vec![5]),
        users_per_connection: 2,
        speedup: 3_000.0,
        size_scale: 0.01,
        ..RunOptions::default()
    };
    let run = prepared(&text, options);
    let left_out: Vec<&str> = run.left_out.iter().map(|left_out| left_out.name.as_str()).collect();
    assert!(left_out.contains(&"invite"), "{left_out:?}");
    let outcome = play(&run, &server).await;
    assert_eq!((outcome.end, outcome.recording.errors.iter().count()), (RunEnd::Complete, 0));
    let counts = counts(&outcome);
    assert!(counts.completed > 0 && counts.failed == 0, "{counts:?}");
    assert_eq!(server.connections(), 3, "5 users, 2 a connection");
    assert!(server.calls() >= counts.calls, "{} {}", server.calls(), counts.calls);
}

#[tokio::test]
async fn users_of_a_connection_have_sessions_of_their_own() {
    let server = start(ResponseTime::AtOnce).await;
    let options = client::ConnectOptions::new(&server.address().to_string(), target(&server).trust);
    let first = client::Client::connect(&options).await.expect("it listens");
    let second = first.with_another_session();
    first.login("mail1@bench.test", "any").await.expect("every login is accepted");
    drop(first);
    second.login("mail2@bench.test", "any").await.expect("the connection is still open");
    assert_eq!((server.connections(), server.calls()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn connections_are_opened_from_the_local_addresses() {
    let server = start(ResponseTime::AtOnce).await;
    let source_addresses = ["127.0.1.1", "127.0.1.2"].map(|address| address.parse().expect("an address")).to_vec();
    let options = RunOptions { users: Some(vec![4]), speedup: SPEEDUP, source_addresses, ..RunOptions::default() };
    let outcome = play(&prepared(POLLS, options), &server).await;
    assert_eq!((outcome.end, counts(&outcome).failed), (RunEnd::Complete, 0));
    let peers = ["127.0.1.1", "127.0.1.2"].map(|address| address.parse().expect("an address"));
    assert_eq!(server.peers(), peers.into());
}
