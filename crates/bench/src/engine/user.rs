//! A user: a state machine that performs the steps of its plan one after the other, through a door of its own.
//!
//! A step that is due while the previous one has not ended waits in the user, and keeps its intended time. So a server
//! that stands still shows up in the response of all steps that were due meanwhile. The steps that wait are not stored:
//! the plan computes them when their turn comes, and the memory of a user does not grow with the delay.
//!
//! A user that has lost its session logs in again when the next step is due, but at the earliest a second later. The
//! steps that were due meanwhile follow. A step during which the session was lost has failed and is not repeated.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::pace::{Pace, Speedup};
use super::states::{StateCounts, UserState};
use super::steps::{PlannedStep, StepSource};
use crate::door::call::{CallCount, CallError};
use crate::door::{self, Door, Reply, Session, StepError};
use crate::record::histograms::{Action, ClassIndex, VerbIndex};
use crate::record::recorder::{Shard, StepRecord, StepResult};

/// The shortest time between the loss of a session, or a failed login, and the next login.
const DISCONNECTED_MIN: Duration = Duration::from_secs(1);

/// When users log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRule {
    /// Once.
    Once,
    /// In each iteration. They log out at its end.
    Iteration,
}

/// How all users of a run play their steps.
#[derive(Debug, Clone, Copy)]
pub struct UserRules {
    /// When steps are due.
    pub pace: Pace,
    /// By how much the times of the plan are divided.
    pub speedup: Speedup,
    /// When users log in.
    pub session: SessionRule,
    /// The longest time from the real start of a step to its end.
    pub time_limit: Duration,
    /// The verb under which logins are counted.
    pub log_in: VerbIndex,
    /// The transactions of a login. They count only in workloads that log in in each iteration.
    pub log_in_transactions: u32,
}

/// What the run wants of its users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Control {
    /// Steps that are due at or after this time do not begin.
    pub stop_at: Option<Duration>,
    /// The run is over: steps that have not ended fail, and users log out.
    pub is_over: bool,
}

/// What the users of a run share.
#[derive(Debug)]
pub struct UserContext {
    /// The start signal, from which all times count.
    pub start: Instant,
    /// How users play their steps.
    pub rules: UserRules,
    /// How many users are in each state.
    pub states: StateCounts,
}

impl UserContext {
    /// Returns the time since the start signal.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

/// What a user has of its run.
pub struct RunHandles {
    /// What all users share.
    pub context: Arc<UserContext>,
    /// What the run wants.
    pub control: watch::Receiver<Control>,
    /// Where the user records.
    pub shard: Arc<Shard>,
}

/// What tells one user from another.
#[derive(Debug, Clone, Copy)]
pub struct UserIdentity {
    /// The user class.
    pub class: ClassIndex,
    /// When the level began with which the user joins, from the start signal.
    pub level_begin: Duration,
    /// When the user connects, at speed 1, from the beginning of the level.
    pub connects: Duration,
}

/// A user of a run.
pub struct User<D, S: StepSource> {
    run: RunHandles,
    identity: UserIdentity,
    door: D,
    steps: S,
    state: UserState,
    /// The next step and its due time.
    next: Option<(PlannedStep<S::Action>, Duration)>,
    /// Steps that read attachments of the last message, and when it had been read. They come before the next step of
    /// the plan.
    attachments: VecDeque<(PlannedStep<S::Action>, Duration)>,
    /// The intended time of the last step of the plan, or when the user connects.
    last_intended: Duration,
    /// The iteration of the last step of the plan.
    last_iteration: Option<u64>,
    has_iterated: bool,
    /// When the last step or login ended.
    free_since: Duration,
}

impl<D, S> User<D, S>
where
    D: Door<Action = S::Action>,
    S: StepSource,
{
    /// Creates a user that waits to connect.
    pub fn new(run: RunHandles, identity: UserIdentity, door: D, steps: S) -> Self {
        run.context.states.join();
        Self {
            run,
            identity,
            door,
            steps,
            state: UserState::WaitingToConnect,
            next: None,
            attachments: VecDeque::new(),
            last_intended: identity.connects,
            last_iteration: None,
            has_iterated: false,
            free_since: Duration::ZERO,
        }
    }

    /// Performs the steps of the plan until the run stops, waits until it is over, and logs out.
    pub async fn play(mut self) {
        self.take_next_step(self.connect_due());
        while self.turn().await {}
        self.run.context.states.finish();
        // An error means that the run was dropped, and is over as well.
        let _ = self.run.control.wait_for(|control| control.is_over).await;
        self.record_not_begun();
        if self.state.is_connected() {
            let _ = timeout(self.run.context.rules.time_limit, self.door.log_out()).await;
        }
    }

    /// Waits for the next step or login and performs it. Returns `false` if the run stops before it.
    async fn turn(&mut self) -> bool {
        let next_due = self.next.as_ref().map(|(_, due)| *due);
        match (self.state, next_due) {
            (UserState::WaitingToConnect, _) => {
                let due = self.connect_due();
                self.pause_until(due, due).await && self.log_in(due).await
            }
            (UserState::Disconnected, _) => {
                // A step that was due before the run stops may still need a login afterwards.
                let earliest = self.free_since + DISCONNECTED_MIN;
                let due = next_due.map_or(earliest, |due| due.max(earliest));
                self.pause_until(due, next_due.unwrap_or(due)).await && self.log_in(due).await
            }
            (UserState::LoggedOut, Some(due)) => self.pause_until(due, due).await && self.log_in(due).await,
            (_, Some(due)) => self.pause_until(due, due).await && self.perform_next().await,
            (_, None) => {
                if self.state == UserState::Pausing {
                    self.change_state(UserState::Done);
                    // A plan without any step is complete when the user has logged in.
                    self.complete_iteration();
                }
                self.pause_until(Duration::MAX, Duration::MAX).await
            }
        }
    }

    /// Waits until `wake`. Returns `false` if the run stops before `due`.
    async fn pause_until(&mut self, wake: Duration, due: Duration) -> bool {
        // A time that the clock cannot represent is never reached.
        let wake = self.run.context.start.checked_add(wake);
        loop {
            let control = *self.run.control.borrow_and_update();
            if control.is_over || control.stop_at.is_some_and(|stop_at| due >= stop_at) {
                return false;
            }
            let woken = async {
                match wake {
                    Some(wake) => sleep_until(wake).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = self.run.control.changed() => if changed.is_err() { return false },
                () = woken => return true,
            }
        }
    }

    async fn log_in(&mut self, due: Duration) -> bool {
        let rules = self.run.context.rules;
        let is_on_plan = self.state == UserState::LoggedOut;
        let state = if is_on_plan { UserState::LoggingInAgain } else { UserState::LoggingIn };
        let started = self.begin(due, state);
        let result = limited(self.door.log_in(), rules.time_limit, &mut self.run.control).await;
        let result = result.unwrap_or_else(|dropped| Err(dropped.into_error(self.door.calls())));
        let ended = self.end(&result);
        let transactions = if rules.session == SessionRule::Iteration { rules.log_in_transactions } else { 0 };
        self.record(rules.log_in, [due, started, ended], step_result(result, transactions));
        if rules.pace != Pace::Timetable
            && let Some((_, due)) = &mut self.next
        {
            *due = ended.max(*due);
        }
        true
    }

    async fn perform_next(&mut self) -> bool {
        let Some((step, due)) = self.next.take() else { return false };
        let started = self.begin(due, UserState::InStep);
        let limit = self.run.context.rules.time_limit;
        let result = limited(self.door.perform(&step.action), limit, &mut self.run.control).await;
        let result = result.unwrap_or_else(|dropped| Err(dropped.into_error(self.door.calls())));
        let ended = self.end(&result);
        if let Ok(Reply::Performed { attachments, .. }) = result
            && attachments > 0
        {
            let steps = self.steps.attachment_steps(&step, attachments);
            self.attachments.extend(steps.into_iter().map(|step| (step, ended)));
        }
        self.record(step.verb, [due, started, ended], step_result(result, step.transactions));
        let is_iteration_complete = self.take_next_step(ended);
        if is_iteration_complete && self.run.context.rules.session == SessionRule::Iteration {
            self.log_out_between_iterations().await;
        }
        true
    }

    async fn log_out_between_iterations(&mut self) {
        if self.state == UserState::Pausing {
            let is_ended = timeout(self.run.context.rules.time_limit, self.door.log_out()).await.is_ok();
            if !is_ended {
                self.door.disconnect();
            }
            self.free_since = self.run.context.now();
            let log_in = self.action(self.run.context.rules.log_in);
            self.run.shard.record_logout(log_in, self.free_since, self.door.calls().calls);
            self.change_state(UserState::LoggedOut);
        }
    }

    /// Takes the next step from the plan and determines when it is due. `ended` is the end of the previous step.
    /// Returns `true` if an iteration is complete.
    fn take_next_step(&mut self, ended: Duration) -> bool {
        if let Some(stop_at) = self.run.control.borrow().stop_at {
            self.attachments.retain(|(_, due)| *due < stop_at);
        }
        if let Some(attachment) = self.attachments.pop_front() {
            self.next = Some(attachment);
            return false;
        }
        let Some(step) = self.steps.next_step() else {
            if self.last_iteration.is_some() {
                self.complete_iteration();
            }
            return true;
        };
        let rules = &self.run.context.rules;
        let due = match rules.pace {
            Pace::Timetable => self.timetable_due(&step),
            Pace::Closed => ended + rules.speedup.divide(step.intended.saturating_sub(self.last_intended)),
            Pace::Unpaced => ended,
        };
        let is_iteration_complete = self.last_iteration.is_some_and(|last| last != step.iteration);
        self.last_intended = step.intended;
        self.last_iteration = Some(step.iteration);
        self.next = Some((step, due));
        if is_iteration_complete {
            self.complete_iteration();
        }
        is_iteration_complete
    }

    fn complete_iteration(&mut self) {
        if !self.has_iterated {
            self.has_iterated = true;
            self.run.context.states.complete_iteration();
        }
    }

    /// Enters the state of a login or step, and records how late it begins if the user was idle. Returns the time.
    fn begin(&mut self, due: Duration, state: UserState) -> Duration {
        let started = self.run.context.now();
        if self.free_since < due {
            self.run.shard.record_lateness(due, started.saturating_sub(due));
        }
        self.change_state(state);
        started
    }

    /// Enters the state that follows from the result of a login or step. Returns the time.
    fn end(&mut self, result: &Result<Reply, StepError>) -> Duration {
        self.free_since = self.run.context.now();
        let is_logging_in = self.state.is_logging_in();
        match result {
            Err(error) if is_logging_in || error.session == Session::Lost => {
                self.door.disconnect();
                self.change_state(UserState::Disconnected);
            }
            _ => self.change_state(UserState::Pausing),
        }
        self.free_since
    }

    /// Records a step. With closed timing the intended time is that of the real start.
    fn record(&self, verb: VerbIndex, [due, started, ended]: [Duration; 3], result: StepResult) {
        let intended = if self.run.context.rules.pace == Pace::Timetable { due } else { started };
        let action = self.action(verb);
        self.run.shard.record(&StepRecord { action, intended, started, ended, result });
    }

    /// Records the steps that were due and have not begun, at the end of the run.
    fn record_not_begun(&mut self) {
        let now = self.run.context.now();
        let stop_at = self.run.control.borrow().stop_at.unwrap_or(now);
        let waiting: Vec<_> = self.next.take().into_iter().chain(self.attachments.drain(..)).collect();
        for (step, due) in waiting.iter().filter(|(_, due)| *due < stop_at) {
            self.run.shard.record_not_begun(self.action(step.verb), *due, now);
        }
        while self.run.context.rules.pace == Pace::Timetable
            && let Some(step) = self.steps.next_step()
        {
            let due = self.timetable_due(&step);
            if due >= stop_at {
                return;
            }
            self.run.shard.record_not_begun(self.action(step.verb), due, now);
        }
    }

    fn timetable_due(&self, step: &PlannedStep<S::Action>) -> Duration {
        self.identity.level_begin + self.run.context.rules.speedup.divide(step.intended)
    }

    fn connect_due(&self) -> Duration {
        self.identity.level_begin + self.run.context.rules.speedup.divide(self.identity.connects)
    }

    fn action(&self, verb: VerbIndex) -> Action {
        Action { verb, class: self.identity.class }
    }

    fn change_state(&mut self, state: UserState) {
        self.run.context.states.change(self.state, state);
        self.state = state;
    }
}

/// Why a login or step was dropped.
enum Dropped {
    /// Its time limit has passed.
    TimeLimit(Duration),
    /// The run was over.
    RunEnd,
}

impl Dropped {
    /// Returns the error of a login or step that has made these calls.
    fn into_error(self, count: CallCount) -> StepError {
        let error = match self {
            Self::TimeLimit(limit) => CallError::lost(door::TIMEOUT, format!("no answer within {limit:?}")),
            Self::RunEnd => CallError::lost(door::UNFINISHED, "no answer when the run ended"),
        };
        error.into_step_error(count)
    }
}

/// Waits for a login or step until its time limit has passed or the run is over. Then it is dropped.
async fn limited(
    step: impl Future<Output = Result<Reply, StepError>>,
    limit: Duration,
    control: &mut watch::Receiver<Control>,
) -> Result<Result<Reply, StepError>, Dropped> {
    let is_over = async {
        let _ = control.wait_for(|control| control.is_over).await;
    };
    tokio::select! {
        biased;
        result = timeout(limit, step) => result.map_err(|_| Dropped::TimeLimit(limit)),
        () = is_over => Err(Dropped::RunEnd),
    }
}

fn step_result(result: Result<Reply, StepError>, transactions: u32) -> StepResult {
    match result {
        Ok(Reply::Performed { calls, reopened, .. }) => StepResult::Completed { calls, transactions, reopened },
        Ok(Reply::Skipped { calls, reopened }) => StepResult::Skipped { calls, reopened },
        Err(StepError { code, text, calls, reopened, .. }) => StepResult::Failed { calls, reopened, code, text },
    }
}
