//! Work in parts: a function that keeps its place while a worker runs other jobs.
//!
//! A worker cannot be taken from a job, so a job that may take long does its work in several jobs. A [`Coroutine`] runs
//! a function on a thread of its own. A job lets it run with [`Coroutine::resume`], until the function has used the
//! share of a worker that [`PartLimits`] allow, and is queued again until the function has returned. The worker waits
//! meanwhile, so coroutines add no load to the machine. Between two parts the function keeps its variables, such as a
//! snapshot of a database and scans in progress. It therefore reads a single state, however often it pauses, and needs
//! no second form that continues at a given place.
//!
//! A thread costs some 30 µs and a stack. So work is tried as a single job first ([`SinglePart`]), and a caller bounds
//! the number of its coroutines.
//!
//! Invariants:
//! - The function runs only during a call of [`Coroutine::resume`].
//! - Its thread has ended when the [`Coroutine`] is dropped. At a pause, the function then gets [`Interrupted`].
//! - A panic of the function becomes a panic of the job that resumed it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base::sync::{Condvar, Mutex};
use base::{Clock, Interrupted, Pacer};

use crate::pool::PoolError;

/// Number of steps between two looks at the clock.
const STEPS_PER_CLOCK_CHECK: u64 = 32;

/// The share of a worker that one part of divided work may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartLimits {
    /// Maximum time.
    pub time_max: Duration,
    /// Maximum number of steps, so that a part also ends if the clock stands still.
    pub steps_max: u64,
}

/// A pacer for work that must fit into one part. It ends the work at the end of the part.
pub struct SinglePart(PartMeter);

impl SinglePart {
    /// Creates the pacer of a part that begins now.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, limits: PartLimits) -> Self {
        let meter = PartMeter { clock, limits, used: Mutex::default() };
        meter.restart();
        Self(meter)
    }
}

impl Pacer for SinglePart {
    fn spend(&self, steps: u64) -> Result<(), Interrupted> {
        if self.0.count(steps) { Err(Interrupted) } else { Ok(()) }
    }
}

/// Work in progress, and its result when it has ended.
pub enum Progress<T> {
    /// The function has paused.
    Paused(Coroutine<T>),
    /// The function has returned.
    Ended(T),
}

/// A function that runs in parts.
pub struct Coroutine<T> {
    exchange: Arc<Exchange<T>>,
    /// The thread of the function. It ends when the function returns, and is joined when this value is dropped.
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Coroutine<T> {
    /// Creates a coroutine, and starts its thread. The function runs when the coroutine is resumed. It receives the
    /// pacer that pauses it.
    pub fn start<F>(name: &str, clock: Arc<dyn Clock>, limits: PartLimits, function: F) -> Result<Self, PoolError>
    where
        F: FnOnce(Arc<dyn Pacer>) -> T + Send + 'static,
    {
        let meter = PartMeter { clock, limits, used: Mutex::default() };
        let exchange = Arc::new(Exchange { state: Mutex::new(State::Paused), changed: Condvar::new(), meter });
        let of_thread = Arc::clone(&exchange);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || of_thread.run(function));
        let thread = thread.map_err(|error| PoolError::NoThread(error.to_string()))?;
        Ok(Self { exchange, thread: Some(thread) })
    }

    /// Runs the function until it pauses or returns. This blocks, and is for jobs.
    #[must_use]
    pub fn resume(self) -> Progress<T> {
        self.exchange.meter.restart();
        let mut state = self.exchange.state.lock();
        *state = State::Running;
        self.exchange.changed.notify_all();
        while matches!(*state, State::Running) {
            self.exchange.changed.wait(&mut state);
        }
        if matches!(*state, State::Paused) {
            drop(state);
            return Progress::Paused(self);
        }
        let ended = std::mem::replace(&mut *state, State::Abandoned);
        drop(state);
        match ended {
            State::Returned(result) => Progress::Ended(result),
            State::Panicked(panic) => resume_unwind(panic),
            State::Paused | State::Running | State::Abandoned => unreachable!("nobody else resumes the function"),
        }
    }
}

impl<T> Drop for Coroutine<T> {
    fn drop(&mut self) {
        let mut state = self.exchange.state.lock();
        *state = State::Abandoned;
        self.exchange.changed.notify_all();
        drop(state);
        // The function has returned, or is at a pause and gets an error. In both cases its thread ends at once.
        if let Some(thread) = self.thread.take() {
            // Panics of the function were caught, so the result of the thread carries no information.
            let _ = thread.join();
        }
    }
}

/// The state that the thread of a function shares with the jobs that resume it.
struct Exchange<T> {
    state: Mutex<State<T>>,
    /// Notified after each change of `state`.
    changed: Condvar,
    meter: PartMeter,
}

enum State<T> {
    /// The function waits until it is resumed.
    Paused,
    /// The function runs, and a job waits for it.
    Running,
    Returned(T),
    Panicked(Box<dyn std::any::Any + Send>),
    /// Nobody wants the result.
    Abandoned,
}

impl<T: Send + 'static> Exchange<T> {
    /// Runs the function on its own thread.
    fn run<F>(self: Arc<Self>, function: F)
    where
        F: FnOnce(Arc<dyn Pacer>) -> T,
    {
        if self.wait_until_resumed().is_err() {
            return;
        }
        let pacer: Arc<dyn Pacer> = Arc::clone(&self) as _;
        let outcome = match catch_unwind(AssertUnwindSafe(|| function(pacer))) {
            Ok(result) => State::Returned(result),
            Err(panic) => State::Panicked(panic),
        };
        let mut state = self.state.lock();
        if matches!(*state, State::Running) {
            *state = outcome;
            self.changed.notify_all();
        }
    }

    fn wait_until_resumed(&self) -> Result<(), Interrupted> {
        let mut state = self.state.lock();
        while matches!(*state, State::Paused) {
            self.changed.wait(&mut state);
        }
        if matches!(*state, State::Abandoned) { Err(Interrupted) } else { Ok(()) }
    }
}

impl<T: Send + 'static> Pacer for Exchange<T> {
    fn spend(&self, steps: u64) -> Result<(), Interrupted> {
        if !self.meter.count(steps) {
            return Ok(());
        }
        let mut state = self.state.lock();
        if matches!(*state, State::Running) {
            *state = State::Paused;
            self.changed.notify_all();
        }
        drop(state);
        self.wait_until_resumed()
    }
}

/// Measures the steps and the time of a part.
struct PartMeter {
    clock: Arc<dyn Clock>,
    limits: PartLimits,
    used: Mutex<PartUse>,
}

/// What the current part has used.
#[derive(Default)]
struct PartUse {
    /// Time at which the part began.
    began: Duration,
    steps: u64,
    /// Number of steps from which the clock is looked at again.
    next_check: u64,
}

impl PartMeter {
    /// Begins a new part.
    fn restart(&self) {
        let began = self.clock.monotonic();
        *self.used.lock() = PartUse { began, steps: 0, next_check: STEPS_PER_CLOCK_CHECK };
    }

    /// Counts steps. Returns `true` if the part is over.
    fn count(&self, steps: u64) -> bool {
        let mut used = self.used.lock();
        used.steps = used.steps.saturating_add(steps);
        if used.steps >= self.limits.steps_max {
            return true;
        }
        if used.steps < used.next_check {
            return false;
        }
        used.next_check = used.steps.saturating_add(STEPS_PER_CLOCK_CHECK);
        self.clock.monotonic().saturating_sub(used.began) >= self.limits.time_max
    }
}
