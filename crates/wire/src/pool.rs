//! The pool of worker threads on which all blocking work runs.
//!
//! A fixed number of threads takes jobs from one bounded queue, first come first served. [`Pool::run`] is for tasks:
//! it waits, without blocking, for a place in the queue and then for the outcome; [`Pool::run_awaited`] is the same for work that is not worth
//! doing when its task is gone. [`Pool::spawn`] is for code that does not wait; a full queue is an error there.
//!
//! Invariants:
//! - at most `queue_max` jobs wait; a place is given back when a worker takes the job;
//! - a panic in a job becomes [`PoolError::Panicked`] for its caller, and the worker goes on;
//! - a job that was queued runs, even if the task that waits for it is dropped, unless the pool closes before; only one of
//!   [`Pool::run_awaited`] is thrown away then, if no worker has begun with it. What has begun is always ended.
//!
//! The queue is a mutex and a condition variable. Workers are woken only when one of them sleeps, so that a busy pool
//! makes no system call for a job; spinning was left out on purpose, processor time is what we are measured by.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::Clock;
use tokio::sync::{Semaphore, oneshot};

use crate::limits::{POOL_QUEUE_MAX, POOL_WORKERS_MAX};

/// How large a pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// Name of the threads, as tools show it.
    pub name: String,
    /// Number of worker threads, 1 to [`POOL_WORKERS_MAX`].
    pub workers: usize,
    /// Most jobs that wait, 1 to [`POOL_QUEUE_MAX`].
    pub queue_max: usize,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { name: "worker".to_owned(), workers: 4, queue_max: 4_096 }
    }
}

/// Why a job has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The queue is full (only [`Pool::spawn`]). Try again later.
    #[error("the pool's queue is full")]
    Full,
    /// The pool is closed: the server ends.
    #[error("the pool is closed")]
    Closed,
    /// The job panicked: a fault of ours. The text is for the log, not for the peer.
    #[error("a job panicked: {0}")]
    Panicked(String),
    /// The system gave no thread when the pool was made.
    #[error("cannot start a worker thread: {0}")]
    NoThread(String),
}

/// What a pool has done so far and has to do now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Worker threads.
    pub workers: usize,
    /// Workers that run a job now.
    pub busy: usize,
    /// Jobs that wait now.
    pub depth: usize,
    /// Most jobs that ever waited.
    pub depth_max: usize,
    /// Jobs that ended.
    pub completed: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs that were thrown away because nobody waited for them any more; they are not among those that ended.
    pub skipped: u64,
    /// Time that ended jobs waited in the queue, all together.
    pub waited: Duration,
    /// Longest time that a job waited.
    pub waited_max: Duration,
    /// Time that jobs ran, all together.
    pub ran: Duration,
}

/// A fixed number of worker threads with one queue. Cheap to clone; the last clone that is dropped closes it.
#[derive(Clone)]
pub struct Pool {
    owner: Arc<Owner>,
}

/// Closes the queue when nobody can reach the pool any more. Workers hold `Shared` only.
struct Owner {
    shared: Arc<Shared>,
    /// The threads; they end when the queue is closed. Taken by [`Pool::close`], which waits for them.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes one sleeping worker a job; all of them on close.
    work: Condvar,
    /// Free places in the queue.
    places: Semaphore,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Workers that wait on `work` and were not woken yet.
    sleeping: usize,
    closed: bool,
    report: PoolReport,
}

struct Job {
    queued: Duration,
    run: Box<dyn FnOnce() -> Outcome + Send>,
}

/// Whether a job came to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ended,
    Panicked,
    Skipped,
}

/// What becomes of a queued job whose caller is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Orphan {
    Runs,
    IsSkipped,
}

impl Pool {
    /// Starts the workers. Options out of range are brought into it.
    pub fn new(options: &PoolOptions, clock: Arc<dyn Clock>) -> Result<Self, PoolError> {
        let workers = options.workers.clamp(1, POOL_WORKERS_MAX);
        let state = State { report: PoolReport { workers, ..PoolReport::default() }, ..State::default() };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            places: Semaphore::new(options.queue_max.clamp(1, POOL_QUEUE_MAX)),
            clock,
        });
        let pool = Self { owner: Arc::new(Owner { shared, threads: Mutex::default() }) };
        for index in 0..workers {
            let thread = pool.start_worker(&format!("{}-{index}", options.name))?;
            lock(&pool.owner.threads).push(thread);
        }
        Ok(pool)
    }

    /// Runs a job on a worker and gives its outcome.
    ///
    /// Waits for a place while the queue is full. When the returned future is dropped after the job was queued, the job
    /// runs all the same and its outcome is lost.
    pub async fn run<T, F>(&self, job: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.queue(job, Orphan::Runs).await
    }

    /// Runs a job on a worker and gives its outcome, for as long as somebody waits for it.
    ///
    /// The same as [`Pool::run`], but when the returned future is dropped before a worker has begun with the job, the worker throws the job away when its turn
    /// comes. So nobody can keep the workers busy with what they have given up.
    pub async fn run_awaited<T, F>(&self, job: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.queue(job, Orphan::IsSkipped).await
    }

    async fn queue<T, F>(&self, job: F, orphan: Orphan) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let shared = &self.owner.shared;
        let place = shared.places.acquire().await.map_err(|_| PoolError::Closed)?;
        let (sender, receiver) = oneshot::channel();
        let queued = shared.push(Box::new(move || {
            if orphan == Orphan::IsSkipped && sender.is_closed() {
                return Outcome::Skipped;
            }
            let result = catch_unwind(AssertUnwindSafe(job)).map_err(|panic| PoolError::Panicked(panic_text(&*panic)));
            let outcome = if result.is_ok() { Outcome::Ended } else { Outcome::Panicked };
            let _ = sender.send(result);
            outcome
        }));
        if queued {
            place.forget();
        }
        // A job that is thrown away because the pool closed drops its sender.
        receiver.await.map_err(|_| PoolError::Closed)?
    }

    /// Queues a job whose outcome nobody waits for.
    pub fn spawn<F>(&self, job: F) -> Result<(), PoolError>
    where
        F: FnOnce() + Send + 'static,
    {
        let shared = &self.owner.shared;
        let Ok(place) = shared.places.try_acquire() else {
            return Err(if lock(&shared.state).closed { PoolError::Closed } else { PoolError::Full });
        };
        let queued = shared.push(Box::new(move || match catch_unwind(AssertUnwindSafe(job)) {
            Ok(()) => Outcome::Ended,
            Err(_) => Outcome::Panicked,
        }));
        if !queued {
            return Err(PoolError::Closed);
        }
        place.forget();
        Ok(())
    }

    /// Tells what the pool does and has done.
    #[must_use]
    pub fn report(&self) -> PoolReport {
        let state = lock(&self.owner.shared.state);
        PoolReport { depth: state.jobs.len(), ..state.report }
    }

    /// Takes no more jobs, lets the queued ones run, and waits for the workers to end. Blocks; never call it in a job.
    pub fn close(&self) {
        self.owner.shared.close();
        let threads = std::mem::take(&mut *lock(&self.owner.threads));
        for thread in threads {
            // Workers catch the panics of jobs; there is nothing to learn from a worker's end.
            let _ = thread.join();
        }
    }

    fn start_worker(&self, name: &str) -> Result<JoinHandle<()>, PoolError> {
        let shared = Arc::clone(&self.owner.shared);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || shared.work())
            .map_err(|error| PoolError::NoThread(error.to_string()))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The workers are not joined: the last clone may be dropped by a job.
        self.shared.close();
    }
}

impl Shared {
    /// Queues a job; false when the pool is closed.
    fn push(&self, run: Box<dyn FnOnce() -> Outcome + Send>) -> bool {
        let queued = self.clock.monotonic();
        let mut state = lock(&self.state);
        if state.closed {
            return false;
        }
        state.jobs.push_back(Job { queued, run });
        state.report.depth_max = state.report.depth_max.max(state.jobs.len());
        let wake = state.sleeping > 0;
        if wake {
            state.sleeping -= 1;
        }
        drop(state);
        if wake {
            self.work.notify_one();
        }
        true
    }

    /// Runs jobs until the queue is closed and empty.
    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.closed {
                    return;
                }
                state.sleeping += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.report.busy += 1;
            drop(state);
            self.places.add_permits(1);
            let started = self.clock.monotonic();
            let outcome = (job.run)();
            let ended = self.clock.monotonic();
            state = lock(&self.state);
            state.report.ended(outcome, started.saturating_sub(job.queued), ended.saturating_sub(started));
        }
    }

    fn close(&self) {
        lock(&self.state).closed = true;
        self.places.close();
        self.work.notify_all();
    }
}

impl PoolReport {
    fn ended(&mut self, outcome: Outcome, waited: Duration, ran: Duration) {
        self.busy = self.busy.saturating_sub(1);
        if outcome == Outcome::Skipped {
            self.skipped = self.skipped.saturating_add(1);
            return;
        }
        self.completed = self.completed.saturating_add(1);
        self.panicked = self.panicked.saturating_add(u64::from(outcome == Outcome::Panicked));
        self.waited = self.waited.saturating_add(waited);
        self.waited_max = self.waited_max.max(waited);
        self.ran = self.ran.saturating_add(ran);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.report()).finish()
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no text").to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
