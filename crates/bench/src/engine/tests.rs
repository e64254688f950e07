//! Tests of the engine, with tokio's paused clock and a door that answers as the test wants.
//!
//! The clock moves only when all tasks wait, so times are exact: a step takes as long as its answer says. Each test
//! states how the server answers ([`Answer`]) and what it changes in [`Scenario`].

mod levels;
mod times;
mod validity;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::pace::{Pace, Speedup};
use super::phases::{PhaseLengths, PhaseName, SessionCount, StatedLengths};
use super::run::{BorderObserver, NewUser, Observation, Outcome, RunError, RunSettings, StopRequest, UserSource, play};
use super::share::PartShare;
use super::states::StateCounts;
use super::steps::{PlannedStep, StepSource};
use super::user::{SessionRule, UserRules};
use crate::door::call::CallCount;
use crate::door::{Door, Reply, Session, StepError};
use crate::record::counters::VerbCounts;
use crate::record::histograms::{ClassIndex, HistogramKey, Kind, Phase, Subject, TimeHistogram, VerbIndex};
use crate::record::log::{HistogramLog, Labels};
use crate::record::recorder::{Recorder, Sample};

const LOG_IN: VerbIndex = VerbIndex(0);
const READ: VerbIndex = VerbIndex(1);
const READ_ATTACHMENT: VerbIndex = VerbIndex(2);
const MEASURED: Phase = Phase::Measured(1);

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// What a user wants of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    LogIn,
    /// The step of this number, from 0.
    Step(u64),
    Attachment,
}

/// A request to the server.
#[derive(Debug, Clone, Copy)]
struct Request {
    /// The user, from 1.
    user: u64,
    wanted: Wanted,
    /// The time since the start signal.
    at: Duration,
}

/// The server's answer to a request.
struct Answer {
    /// The time since the start signal, or `None` if there is no answer.
    at: Option<Duration>,
    result: Result<Reply, StepError>,
}

impl Answer {
    /// Answers after a time.
    fn after(request: &Request, time: Duration) -> Self {
        let reply = Reply::Performed { calls: 1, attachments: 0, reopened: 0 };
        Self { at: Some(request.at + time), result: Ok(reply) }
    }

    /// Does not answer.
    fn never() -> Self {
        Self { at: None, result: Ok(Reply::Skipped { calls: 0, reopened: 0 }) }
    }

    /// Answers with another reply.
    fn with(self, reply: Reply) -> Self {
        Self { result: Ok(reply), ..self }
    }

    /// Answers with an error.
    fn refused(self, session: Session) -> Self {
        let text = "busy: try later".to_owned();
        let error = StepError { code: "busy".into(), text, calls: 1, reopened: 0, session };
        Self { result: Err(error), ..self }
    }
}

type Server = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// A door to the server of a test.
struct TestDoor {
    start: Instant,
    user: u64,
    server: Server,
}

impl TestDoor {
    async fn request(&self, wanted: Wanted) -> Result<Reply, StepError> {
        let answer = (self.server)(&Request { user: self.user, wanted, at: self.start.elapsed() });
        match answer.at {
            Some(at) => sleep_until(self.start + at).await,
            None => std::future::pending().await,
        }
        answer.result
    }
}

impl Door for TestDoor {
    type Action = Wanted;

    async fn log_in(&mut self) -> Result<Reply, StepError> {
        self.request(Wanted::LogIn).await
    }

    async fn perform(&mut self, action: &Wanted) -> Result<Reply, StepError> {
        self.request(*action).await
    }

    /// The calls of a logout, and of a step that is dropped. Those of others are in their answers.
    fn calls(&self) -> CallCount {
        CallCount { calls: 3, reopened: 1 }
    }

    async fn log_out(&mut self) {}

    fn disconnect(&mut self) {}
}

/// Steps at even distances.
struct EvenSteps {
    first: Duration,
    gap: Duration,
    per_iteration: u64,
    next: u64,
    end: u64,
}

impl StepSource for EvenSteps {
    type Action = Wanted;

    fn next_step(&mut self) -> Option<PlannedStep<Wanted>> {
        let number = self.next;
        self.next += 1;
        let gaps = u32::try_from(number).expect("few steps");
        (number < self.end).then(|| PlannedStep {
            intended: self.first + self.gap * gaps,
            iteration: number / self.per_iteration,
            verb: READ,
            transactions: 1,
            action: Wanted::Step(number),
        })
    }

    fn attachment_steps(&mut self, step: &PlannedStep<Wanted>, attachments: u32) -> Vec<PlannedStep<Wanted>> {
        let attachment = PlannedStep { verb: READ_ATTACHMENT, action: Wanted::Attachment, ..step.clone() };
        vec![attachment; attachments as usize]
    }
}

/// A run of a test. Users connect 10 ms after each other and have a step each second; an iteration has ten.
///
/// The first iteration is complete at the first border, at 10 s. The steady state is reached at 70 s, and the measured
/// interval is from 80 s to 200 s.
struct Scenario {
    levels: Vec<u64>,
    /// When the first user connects.
    first: Duration,
    gap: Duration,
    /// The steps of each user.
    steps: u64,
    pace: Pace,
    session: SessionRule,
    speedup: f64,
    measure: Duration,
    settle: Duration,
    steady_limit: Option<Duration>,
    cool_down: Duration,
    /// The server ends at this time.
    server_end: Option<Duration>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            levels: vec![10],
            first: millis(10),
            gap: seconds(1),
            steps: u64::MAX,
            pace: Pace::Timetable,
            session: SessionRule::Once,
            speedup: 1.0,
            measure: seconds(120),
            settle: Duration::ZERO,
            steady_limit: None,
            cool_down: seconds(60),
            server_end: None,
        }
    }
}

/// Returns how much later than the first user a user of a level connects. Its first step is due at the same time.
fn later_by(user: u64) -> Duration {
    millis(10) * u32::try_from(user - 1).expect("few users")
}

struct Users {
    start: Instant,
    server: Server,
    first: Duration,
    gap: Duration,
    steps: u64,
    /// The users of the levels before the last one that has begun.
    levels: Vec<u64>,
}

impl UserSource for Users {
    type Door = TestDoor;
    type Steps = EvenSteps;

    fn user(&mut self, number: u64) -> NewUser<TestDoor, EvenSteps> {
        let before = self.levels.iter().copied().filter(|users| *users < number).max().unwrap_or(0);
        let connects = self.first + later_by(number - before);
        NewUser {
            class: ClassIndex(0),
            connects,
            door: TestDoor { start: self.start, user: number, server: Arc::clone(&self.server) },
            steps: EvenSteps { first: connects, gap: self.gap, per_iteration: 10, next: 0, end: self.steps },
        }
    }
}

/// Observes a server that reports no sessions.
struct NoSessions {
    server_end: Option<Duration>,
}

impl BorderObserver for NoSessions {
    async fn border(&mut self, sample: &Sample, _: &StateCounts, _: PhaseName) -> Observation {
        let is_server_ended = self.server_end.is_some_and(|end| sample.interval.end >= end);
        Observation { sessions: SessionCount::Unsupported, is_server_ended }
    }
}

impl Scenario {
    fn settings(&self) -> RunSettings {
        let speedup = Speedup::new(self.speedup).expect("a speed-up");
        let stated = StatedLengths {
            interval: millis(10),
            iteration: self.gap * 10,
            settle: self.settle,
            measure: self.measure,
            sample: seconds(10),
            steady_limit: self.steady_limit,
        };
        let rules = UserRules {
            pace: self.pace,
            speedup,
            session: self.session,
            time_limit: seconds(60),
            log_in: LOG_IN,
            log_in_transactions: 1,
        };
        let lengths = PhaseLengths::at_speed(&stated, speedup).expect("a measured interval");
        RunSettings {
            rules,
            lengths,
            levels: self.levels.clone(),
            cool_down: self.cool_down,
            share: PartShare::default(),
            start: None,
        }
    }

    /// Plays the scenario. `stop` may request that the run stops.
    async fn try_play(
        self,
        server: impl Fn(&Request) -> Answer + Send + Sync + 'static,
        stop: watch::Receiver<StopRequest>,
    ) -> Result<Played, RunError> {
        let names = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let labels = Labels { verbs: names(&["log_in", "read", "read_attachment"]), classes: names(&["users"]) };
        let recorder = Recorder::new(3, HistogramLog::begin(Vec::new(), labels).expect("memory can be written"));
        let users = Users {
            start: Instant::now(),
            server: Arc::new(server),
            first: self.first,
            gap: self.gap,
            steps: self.steps,
            levels: self.levels.clone(),
        };
        let observer = NoSessions { server_end: self.server_end };
        play(self.settings(), users, recorder, observer, stop).await.map(Played)
    }

    /// Plays the scenario to its end.
    async fn play(self, server: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Played {
        let (_sender, stop) = watch::channel(StopRequest::None);
        self.try_play(server, stop).await.expect("memory can be written and no user panics")
    }
}

/// A run that was played.
struct Played(Outcome<Vec<u8>>);

impl Played {
    fn counts(&self, verb: VerbIndex, phase: Phase) -> VerbCounts {
        let mut sum = VerbCounts::default();
        let counts = self.0.recording.counts.iter();
        counts.filter(|(action, of, _)| action.verb == verb && *of == phase).for_each(|(_, _, counts)| sum.add(counts));
        sum
    }

    /// Returns the times of a verb in the measured interval.
    fn times(&self, verb: VerbIndex, kind: Kind) -> TimeHistogram {
        let is_wanted = |key: &HistogramKey| {
            matches!(key.subject, Subject::Steps(action, of) if action.verb == verb && of == kind)
                && key.phase == MEASURED
        };
        self.0.recording.histograms.sum(is_wanted)
    }

    fn lateness(&self) -> TimeHistogram {
        self.0.recording.histograms.sum(|key| *key == HistogramKey { subject: Subject::Lateness, phase: MEASURED })
    }

    /// Returns the measured interval of the first level.
    fn measured(&self) -> std::ops::Range<Duration> {
        self.0.levels[0].times.measured.clone().expect("the run was steady")
    }

    /// Returns the code and number of all errors.
    fn errors(&self) -> Vec<(String, u64)> {
        self.0.recording.errors.iter().map(|(_, code, errors)| (code.to_owned(), errors.count)).collect()
    }
}

/// Checks a value that was read from a histogram.
fn assert_near(read_us: Option<u64>, expected: Duration) {
    let expected_us = expected.as_micros() as u64;
    let is_near = read_us.is_some_and(|read| read.abs_diff(expected_us) <= expected_us / 1_000);
    assert!(is_near, "{read_us:?} µs, not {expected:?}");
}
