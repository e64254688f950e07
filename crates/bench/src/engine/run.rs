//! A run: the tasks of all users, the borders of samples, the phases of each level, and the cool-down.
//!
//! The run owns the tasks. They end after the cool-down. They are aborted only if the run is dropped, or if a second
//! request to stop comes. Between two borders the run sleeps.

use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::phases::{Border, Decision, PhaseLengths, PhaseName, PhaseTimes, Phases, SessionCount};
use super::share::{Exchanged, PartShare, SILENCE_MAX};
use super::states::StateCounts;
use super::steps::StepSource;
use super::user::{Control, RunHandles, User, UserContext, UserIdentity, UserRules};
use crate::door::Door;
use crate::record::histograms::ClassIndex;
use crate::record::recorder::{Recorder, Recording, Sample};

/// Maximum number of levels of a run.
pub const LEVELS_MAX: usize = 64;

/// What a run needs to create a user.
pub struct NewUser<D, S> {
    /// The user class.
    pub class: ClassIndex,
    /// When the user connects, at speed 1, from the moment at which the first user of its level connects.
    pub connects: Duration,
    /// The door, not connected.
    pub door: D,
    /// The steps, whose intended times count from the same moment as `connects`.
    pub steps: S,
}

/// Creates the users of a run.
pub trait UserSource {
    /// The doors of the users.
    type Door: Door<Action = <Self::Steps as StepSource>::Action>;
    /// The steps of the users.
    type Steps: StepSource;

    /// Creates a user. Users are numbered from 1, and are created in order when their level begins.
    fn user(&mut self, number: u64) -> NewUser<Self::Door, Self::Steps>;
}

/// What is known of the server at a border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// Its sessions.
    pub sessions: SessionCount,
    /// The server has ended.
    pub is_server_ended: bool,
}

/// Observes the server at each border, and receives the samples.
pub trait BorderObserver {
    /// Takes the sample that ends at a border, how many users are in each state, and the phase in which the sample
    /// was. A call that lasts longer than half a sample is dropped.
    fn border(&mut self, sample: &Sample, states: &StateCounts, phase: PhaseName) -> impl Future<Output = Observation>;

    /// Exchanges the counts of a border with the other parts of the run, for whose counts it waits so long. Without
    /// other parts it returns those of this one.
    fn exchange(&mut self, own: Border, _patience: Duration) -> impl Future<Output = Exchanged> {
        std::future::ready(Exchanged::Counts(own))
    }

    /// Sends the end of the run to the other parts.
    fn ended(&mut self, _end: RunEnd) -> impl Future<Output = ()> {
        std::future::ready(())
    }
}

/// Requests to end a run before its time. A second one is `AtOnce`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// There is none.
    None,
    /// Steps that have begun may end.
    CoolDown,
    /// All tasks are aborted.
    AtOnce,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// How users play their steps.
    pub rules: UserRules,
    /// The lengths of the phases.
    pub lengths: PhaseLengths,
    /// The users of each level, in ascending order.
    pub levels: Vec<u64>,
    /// The longest time for steps that were due before the end of the last measured interval.
    pub cool_down: Duration,
    /// Which users of each level this process plays.
    pub share: PartShare,
    /// The start signal, if it is not the beginning of [`play`].
    pub start: Option<Instant>,
}

/// Why a run ended, from the best reason to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// All measured intervals are complete.
    Complete,
    /// There was no steady state within the limit.
    NotSteady,
    /// Users were disconnected at too many borders of a measured interval.
    SteadyLost,
    /// The server ended.
    ServerEnded,
    /// A stop was requested.
    BrokenOff,
}

/// A level of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelOutcome {
    /// The users, with those of the levels before.
    pub users: u64,
    /// The phases that were reached.
    pub times: PhaseTimes,
    /// The largest number of connected users at a border.
    pub connected_max: u64,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Outcome<W> {
    /// The levels that have begun, in order.
    pub levels: Vec<LevelOutcome>,
    /// Why the run ended.
    pub end: RunEnd,
    /// When the last user had logged out.
    pub ended_at: Duration,
    /// Everything that was recorded.
    pub recording: Recording,
    /// The file of the histograms.
    pub log: W,
}

/// Why a run has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The log of the histograms cannot be written.
    #[error("the histograms cannot be written: {0}")]
    Log(#[from] io::Error),
    /// The task of a user panicked, which is an error of this program.
    #[error("a user of the driver failed: {0}")]
    User(JoinError),
}

/// Runs all users from the start signal, which is now, until they have logged out.
///
/// Samples are closed in the task that awaits this function. It is the one of `block_on`, so that the threads of the
/// users do not wait for the log.
///
/// # Errors
///
/// If the log cannot be written, or the task of a user panicked. All tasks are aborted then.
///
/// # Panics
///
/// If there are no levels or more than [`LEVELS_MAX`].
pub async fn play<U: UserSource, O: BorderObserver, W: Write>(
    settings: RunSettings,
    users: U,
    recorder: Recorder<W>,
    mut observer: O,
    mut stop: watch::Receiver<StopRequest>,
) -> Result<Outcome<W>, RunError> {
    let mut run = Run::new(settings, users, recorder);
    let end = run.work(&mut observer, &mut stop).await?;
    observer.ended(end).await;
    run.cool_down(&mut observer, &mut stop).await?;
    run.finish(end).await
}

/// A run that has begun.
struct Run<U, W> {
    settings: RunSettings,
    users: U,
    recorder: Recorder<W>,
    context: Arc<UserContext>,
    control: watch::Sender<Control>,
    /// One task for each user. They end when `control` says that the run is over, and are aborted with this field.
    tasks: JoinSet<()>,
    /// The phases of the levels that have begun.
    levels: Vec<Phases>,
    /// The users that have joined, of all parts, and those of this one.
    joined: u64,
    own: u64,
    next_border: Duration,
}

impl<U: UserSource, W: Write> Run<U, W> {
    fn new(settings: RunSettings, users: U, recorder: Recorder<W>) -> Self {
        assert!((1..=LEVELS_MAX).contains(&settings.levels.len()), "a run has a level, and not too many");
        let start = settings.start.unwrap_or_else(Instant::now);
        let context = UserContext { start, rules: settings.rules, states: StateCounts::default() };
        let mut run = Self {
            next_border: settings.lengths.sample(),
            settings,
            users,
            recorder,
            context: Arc::new(context),
            control: watch::Sender::new(Control::default()),
            tasks: JoinSet::new(),
            levels: Vec::new(),
            joined: 0,
            own: 0,
        };
        run.begin_level(Duration::ZERO);
        run
    }

    /// Starts the tasks of the users that join with the next level.
    fn begin_level(&mut self, level_begin: Duration) {
        let target = self.settings.levels[self.levels.len()].max(self.joined);
        let joining = target - self.joined;
        self.levels.push(Phases::new(self.settings.lengths, level_begin, target, joining));
        for number in self.settings.share.users(self.joined + 1..=target) {
            self.own += 1;
            let NewUser { class, connects, door, steps } = self.users.user(number);
            let identity = UserIdentity { class, level_begin, connects };
            let handles = RunHandles {
                context: Arc::clone(&self.context),
                control: self.control.subscribe(),
                shard: self.recorder.shard(number),
            };
            self.tasks.spawn(User::new(handles, identity, door, steps).play());
        }
        self.joined = target;
    }

    /// Closes samples until the last level ends or the run is stopped.
    async fn work(
        &mut self,
        observer: &mut impl BorderObserver,
        stop: &mut watch::Receiver<StopRequest>,
    ) -> Result<RunEnd, RunError> {
        loop {
            tokio::select! {
                biased;
                () = stop_requested(stop, StopRequest::CoolDown) => return Ok(RunEnd::BrokenOff),
                () = sleep_until(self.context.start + self.next_border) => {}
            }
            let at = self.next_border;
            let observation = self.close_sample(observer).await?;
            if observation.is_server_ended {
                return Ok(RunEnd::ServerEnded);
            }
            let is_last = self.levels.len() == self.settings.levels.len();
            let own = self.counts(at, observation.sessions);
            let exchanged = tokio::select! {
                biased;
                () = stop_requested(stop, StopRequest::CoolDown) => return Ok(RunEnd::BrokenOff),
                exchanged = observer.exchange(own, self.patience()) => exchanged,
            };
            let border = match exchanged {
                Exchanged::Counts(border) => border,
                Exchanged::End(end) => return Ok(end),
            };
            match self.decide(&border) {
                Decision::Continue => {}
                // The other parts may have taken so long that steps of the interval have begun. A driver that is alone
                // and late is found by its lateness.
                Decision::Measure(interval) if self.has_other_parts() && interval.start <= self.context.now() => {
                    return Ok(RunEnd::BrokenOff);
                }
                Decision::Measure(interval) => {
                    self.recorder.measure(&interval);
                    if is_last {
                        self.control.send_modify(|control| control.stop_at = Some(interval.end));
                    }
                }
                Decision::Complete if is_last => return Ok(RunEnd::Complete),
                Decision::Complete => self.begin_level(at),
                Decision::Lost => return Ok(RunEnd::SteadyLost),
                Decision::NotSteady => return Ok(RunEnd::NotSteady),
            }
        }
    }

    fn has_other_parts(&self) -> bool {
        self.settings.share.parts() > 1
    }

    /// Closes the sample that ends at the next border, and observes the server.
    async fn close_sample(&mut self, observer: &mut impl BorderObserver) -> Result<Observation, RunError> {
        if let Some(Err(error)) = self.tasks.try_join_next() {
            return Err(RunError::User(error));
        }
        let sample = self.recorder.border(self.next_border)?;
        self.next_border += self.settings.lengths.sample();
        let phase = self.levels.last().map_or(PhaseName::RampUp, |level| level.phase_at(sample.interval.start));
        let observing = observer.border(&sample, &self.context.states, phase);
        let unanswered = Observation { sessions: SessionCount::Unanswered, is_server_ended: false };
        Ok(timeout(self.settings.lengths.sample() / 2, observing).await.unwrap_or(unanswered))
    }

    /// Returns what this part counts at a border.
    fn counts(&self, at: Duration, sessions: SessionCount) -> Border {
        let states = &self.context.states;
        Border { at, connected: states.connected(), iterated: states.iterated(), sessions }
    }

    /// Returns how long the counts of other parts may take. Before the steady state a part that is late only delays it.
    fn patience(&self) -> Duration {
        let is_measured = self.levels.last().is_some_and(|level| level.times().measured.is_some());
        if is_measured { SILENCE_MAX } else { self.settings.lengths.sample() / 2 }
    }

    fn decide(&mut self, border: &Border) -> Decision {
        self.levels.last_mut().map_or(Decision::Continue, |phases| phases.border(border))
    }

    /// Lets no step begin that is due from now on, and waits until those that were due have ended.
    async fn cool_down(
        &mut self,
        observer: &mut impl BorderObserver,
        stop: &mut watch::Receiver<StopRequest>,
    ) -> Result<(), RunError> {
        let now = self.context.now();
        if let Some(level) = self.levels.last_mut() {
            level.end(now);
        }
        self.control.send_modify(|control| {
            control.stop_at = Some(control.stop_at.map_or(now, |stop_at| stop_at.min(now)));
        });
        let context = Arc::clone(&self.context);
        let deadline = context.start + now + self.settings.cool_down;
        loop {
            tokio::select! {
                biased;
                () = context.states.all_finished(self.own) => return Ok(()),
                () = stop_requested(stop, StopRequest::AtOnce) => {
                    self.tasks.abort_all();
                    return Ok(());
                }
                () = sleep_until(deadline) => return Ok(()),
                () = sleep_until(context.start + self.next_border) => {}
            }
            self.close_sample(observer).await?;
        }
    }

    /// Waits until all users have logged out, and closes the last sample.
    async fn finish(mut self, end: RunEnd) -> Result<Outcome<W>, RunError> {
        self.control.send_modify(|control| control.is_over = true);
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Err(error) if !error.is_cancelled() => return Err(RunError::User(error)),
                _ => {}
            }
        }
        let ended_at = self.context.now();
        self.recorder.border(ended_at)?;
        let (recording, log) = self.recorder.finish()?;
        let level = |(phases, users): (&Phases, &u64)| LevelOutcome {
            users: *users,
            times: phases.times().clone(),
            connected_max: phases.connected_max(),
        };
        let levels = self.levels.iter().zip(&self.settings.levels).map(level).collect();
        Ok(Outcome { levels, end, ended_at, recording, log })
    }
}

/// Waits for a request to stop. If nobody can request it any more, it never comes.
async fn stop_requested(stop: &mut watch::Receiver<StopRequest>, request: StopRequest) {
    if stop.wait_for(|current| *current >= request).await.is_err() {
        std::future::pending::<()>().await;
    }
}
