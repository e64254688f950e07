//! The pool of worker threads that runs all blocking work.
//!
//! A fixed number of threads runs the jobs. Each job has an owner, an account or the address of a stranger, and the
//! owners take turns (`fair_queue`): however much one of them asks for, the others are served after at most one job of
//! each. [`WorkerPool::run`] is for tasks: it waits asynchronously for the result. [`WorkerPool::run_awaited`] does the
//! same for work that is not needed once its task is gone, and [`WorkerPool::run_or_return`] for work whose input the
//! caller still needs if the queue is full. [`WorkerPool::spawn`] is for code that does not wait.
//!
//! A job should end within [`PoolOptions::job_time_max`], or do its work in several jobs ([`crate::coroutine`]),
//! because a worker cannot be taken from it. The pool logs jobs that run longer and counts them, with the time of all
//! jobs, by verb ([`WorkerPool::verbs`]).
//!
//! Invariants:
//! - At most `queue_max` jobs of one owner wait, and `total_max` jobs of all owners. Further jobs are refused with
//!   [`PoolError::Full`], except those of the server itself.
//! - A panic in a job becomes [`PoolError::Panicked`] for its caller, and the worker continues.
//! - A queued job runs even if the task that waits for it is dropped, unless the pool closes first. Only a job of
//!   [`WorkerPool::run_awaited`] or [`WorkerPool::run_or_return`] is discarded then, if no worker has started it. A
//!   started job always runs to its end.
//!
//! The queue is a mutex and a condition variable. A worker is woken only if one is sleeping, so that a busy pool makes
//! no system call per job. Spinning is deliberately not used, because processor time is what Doublet is measured by.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base::Clock;
use base::sync::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::fair_queue::FairQueue;
use crate::job::{JobClass, JobLabel, JobOwner, JobVerb};
use crate::limits::{self, JOB_TIME_MAX, POOL_QUEUE_MAX, POOL_WORKERS_MAX};

/// Configuration of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// Name of the threads, as shown by tools.
    pub name: String,
    /// Number of worker threads, from 1 to [`POOL_WORKERS_MAX`].
    pub workers: usize,
    /// Maximum number of waiting jobs of one owner, from 1 to [`POOL_QUEUE_MAX`].
    pub queue_max: usize,
    /// Maximum number of waiting jobs of all owners, from 1 to [`POOL_QUEUE_MAX`].
    pub total_max: usize,
    /// Time that a job may keep a worker. Jobs that take longer are logged and counted.
    pub job_time_max: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            name: "worker".to_owned(),
            workers: 4,
            queue_max: 4_096,
            total_max: POOL_QUEUE_MAX,
            job_time_max: JOB_TIME_MAX,
        }
    }
}

/// Reason why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// As many jobs of this owner wait as may, or as many jobs of all owners. The caller may try again later.
    #[error("too many requests are waiting, try again later")]
    Full,
    /// The pool is closed because the server ends.
    #[error("the pool is closed")]
    Closed,
    /// The job panicked, which is a bug in the server. The text is for the log and not for the peer.
    #[error("a job panicked: {0}")]
    Panicked(String),
    /// The operating system refused a thread when the pool was created.
    #[error("cannot start a worker thread: {0}")]
    NoThread(String),
}

/// Reason why a job with an input ([`WorkerPool::run_or_return`]) has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunError<S> {
    /// The job was not queued. Its input is returned.
    NotQueued(PoolError, S),
    /// The job was queued, and its input is lost.
    Failed(PoolError),
}

/// Statistics and current load of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Number of worker threads.
    pub workers: usize,
    /// Number of workers that are running a job now.
    pub busy: usize,
    /// Number of jobs that are waiting now.
    pub depth: usize,
    /// Maximum number of jobs that ever waited at the same time.
    pub depth_max: usize,
    /// Number of completed jobs.
    pub completed: u64,
    /// Number of jobs that panicked.
    pub panicked: u64,
    /// Number of jobs discarded because their callers were gone. They do not count as completed.
    pub skipped: u64,
    /// Total time that completed jobs waited in the queue.
    pub waited: Duration,
    /// Longest time that a job waited.
    pub waited_max: Duration,
    /// Total time that jobs ran.
    pub ran: Duration,
}

/// Statistics of the jobs with one verb and one class of owners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerbStatistics {
    /// Number of completed jobs.
    pub completed: u64,
    /// Number of jobs that ran longer than [`PoolOptions::job_time_max`].
    pub slow: u64,
    /// Total time that the jobs ran.
    pub ran: Duration,
    /// Longest time that a job ran.
    pub ran_max: Duration,
}

/// A fixed number of worker threads with one queue. It is cheap to clone; dropping the last clone closes it.
#[derive(Clone)]
pub struct WorkerPool {
    owner: Arc<Owner>,
}

/// Owner of the queue, which closes it when the last clone of the pool is dropped. Workers hold only `Shared`.
struct Owner {
    shared: Arc<Shared>,
    /// The worker threads, which end when the queue is closed. [`WorkerPool::close`] takes them and waits for their
    /// end.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes one sleeping worker per job, and all workers on close.
    work: Condvar,
    queue_max: usize,
    total_max: usize,
    job_time_max: Duration,
    clock: Arc<dyn Clock>,
}

struct State {
    jobs: FairQueue<Job>,
    /// Number of workers that wait on `work` and have not been woken yet.
    sleeping: usize,
    closed: bool,
    report: PoolStatistics,
    verbs: BTreeMap<(JobVerb, JobClass), VerbStatistics>,
    /// Time from which a slow job is logged again.
    next_warning: Duration,
}

struct Job {
    verb: JobVerb,
    queued: Duration,
    run: JobFunction,
}

type JobFunction = Box<dyn FnOnce() -> JobOutcome + Send>;

/// The way in which a job ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobOutcome {
    Ended,
    Panicked,
    Skipped,
}

/// Treatment of a queued job whose caller is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AbandonedJob {
    Run,
    Discard,
}

impl WorkerPool {
    /// Starts the workers. Options out of range are clamped.
    pub fn new(options: &PoolOptions, clock: Arc<dyn Clock>) -> Result<Self, PoolError> {
        let workers = options.workers.clamp(1, POOL_WORKERS_MAX);
        let state = State {
            jobs: FairQueue::new(workers),
            sleeping: 0,
            closed: false,
            report: PoolStatistics { workers, ..PoolStatistics::default() },
            verbs: BTreeMap::new(),
            next_warning: Duration::ZERO,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            queue_max: options.queue_max.clamp(1, POOL_QUEUE_MAX),
            total_max: options.total_max.clamp(1, POOL_QUEUE_MAX),
            job_time_max: options.job_time_max,
            clock,
        });
        let pool = Self { owner: Arc::new(Owner { shared, threads: Mutex::default() }) };
        for index in 0..workers {
            let thread = pool.start_worker(&format!("{}-{index}", options.name))?;
            lock(&pool.owner.threads).push(thread);
        }
        Ok(pool)
    }

    /// Runs a job on a worker and returns its result.
    ///
    /// If the returned future is dropped after the job was queued, the job still runs and its result is lost.
    pub async fn run<T, F>(&self, label: JobLabel, job: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.queue(label, job, AbandonedJob::Run).await
    }

    /// Runs a job on a worker and returns its result, as long as the caller waits for it.
    ///
    /// This is the same as [`WorkerPool::run`], except that dropping the returned future before a worker has started
    /// the job makes the worker discard the job when its turn comes. A peer can therefore not keep the workers busy
    /// with requests it has abandoned.
    pub async fn run_awaited<T, F>(&self, label: JobLabel, job: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.queue(label, job, AbandonedJob::Discard).await
    }

    async fn queue<T, F>(&self, label: JobLabel, job: F, orphan: AbandonedJob) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.owner.shared.push(label, reporting_job(sender, orphan, job))?;
        // A job that is discarded because the pool closed drops its sender.
        receiver.await.map_err(|_| PoolError::Closed)?
    }

    /// Runs a job with an input on a worker and returns its result, as long as the caller waits for it, like
    /// [`WorkerPool::run_awaited`].
    ///
    /// Returns [`RunError::NotQueued`] with the input if the queue is full or closed.
    pub async fn run_or_return<S, T, F>(&self, label: JobLabel, input: S, job: F) -> Result<T, RunError<S>>
    where
        S: Send + 'static,
        T: Send + 'static,
        F: FnOnce(S) -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let create = move |input: S| reporting_job(sender, AbandonedJob::Discard, move || job(input));
        let pushed = self.owner.shared.push_with(label, input, create);
        pushed.map_err(|(error, input)| RunError::NotQueued(error, input))?;
        match receiver.await {
            Ok(result) => result.map_err(RunError::Failed),
            Err(_) => Err(RunError::Failed(PoolError::Closed)),
        }
    }

    /// Queues a job without waiting for its result.
    pub fn spawn<F>(&self, label: JobLabel, job: F) -> Result<(), PoolError>
    where
        F: FnOnce() + Send + 'static,
    {
        let run = move || match catch_unwind(AssertUnwindSafe(job)) {
            Ok(()) => JobOutcome::Ended,
            Err(_) => JobOutcome::Panicked,
        };
        self.owner.shared.push(label, Box::new(run))
    }

    /// Returns the time that a job may keep a worker. Longer work is divided ([`crate::coroutine`]).
    #[must_use]
    pub fn job_time_max(&self) -> Duration {
        self.owner.shared.job_time_max
    }

    /// Returns the statistics and the current load of the pool.
    #[must_use]
    pub fn report(&self) -> PoolStatistics {
        let state = lock(&self.owner.shared.state);
        PoolStatistics { depth: state.jobs.len(), ..state.report }
    }

    /// Returns the statistics of all jobs by verb and class of owners.
    #[must_use]
    pub fn verbs(&self) -> Vec<(JobVerb, JobClass, VerbStatistics)> {
        let state = lock(&self.owner.shared.state);
        state.verbs.iter().map(|((verb, class), statistics)| (*verb, *class, *statistics)).collect()
    }

    /// Closes the queue for new jobs, lets the queued ones run, and waits for the workers to end. This blocks and must
    /// not be called in a job.
    pub fn close(&self) {
        self.owner.shared.close();
        let threads = std::mem::take(&mut *lock(&self.owner.threads));
        for thread in threads {
            // Workers catch the panics of jobs, so the result of a worker thread carries no information.
            let _ = thread.join();
        }
    }

    fn start_worker(&self, name: &str) -> Result<JoinHandle<()>, PoolError> {
        let shared = Arc::clone(&self.owner.shared);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || shared.run_jobs())
            .map_err(|error| PoolError::NoThread(error.to_string()))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The workers are not joined, because a job may drop the last clone.
        self.shared.close();
    }
}

impl Shared {
    /// Queues a job, and wakes a worker if one is free for it.
    fn push(&self, label: JobLabel, run: JobFunction) -> Result<(), PoolError> {
        self.push_with(label, run, |run| run).map_err(|(error, _)| error)
    }

    /// Queues the job that `create` makes of an input, and wakes a worker if one is free for it. Returns the input if
    /// the job is refused.
    fn push_with<S>(
        &self,
        label: JobLabel,
        input: S,
        create: impl FnOnce(S) -> JobFunction,
    ) -> Result<(), (PoolError, S)> {
        let queued = self.clock.monotonic();
        let mut state = lock(&self.state);
        if let Some(error) = self.refusal(&state, &label.owner) {
            return Err((error, input));
        }
        let run = create(input);
        let may_run = state.jobs.push(&label.owner, Job { verb: label.verb, queued, run });
        state.report.depth_max = state.report.depth_max.max(state.jobs.len());
        let wake = may_run && state.sleeping > 0;
        if wake {
            state.sleeping -= 1;
        }
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Returns the reason why no job of an owner can be queued now, or `None` if one can.
    fn refusal(&self, state: &State, owner: &JobOwner) -> Option<PoolError> {
        if state.closed {
            return Some(PoolError::Closed);
        }
        // Jobs of the server itself are bounded by their callers, and cannot be asked for again.
        let is_bounded = *owner != JobOwner::Server;
        let is_full = state.jobs.len() >= self.total_max || state.jobs.len_of(owner) >= self.queue_max;
        (is_bounded && is_full).then_some(PoolError::Full)
    }

    /// Runs jobs until the queue is closed and empty.
    fn run_jobs(&self) {
        let mut state = lock(&self.state);
        loop {
            let Some((owner, job)) = state.jobs.take() else {
                // While jobs wait that only other workers may take, those workers take them.
                if state.closed {
                    return;
                }
                state.sleeping += 1;
                self.work.wait(&mut state);
                continue;
            };
            state.report.busy += 1;
            drop(state);
            let Job { verb, queued, run } = job;
            let started = self.clock.monotonic();
            let outcome = run();
            let ended = self.clock.monotonic();
            state = lock(&self.state);
            state.jobs.finish(&owner);
            let ran = ended.saturating_sub(started);
            state.report.record_end(outcome, started.saturating_sub(queued), ran);
            let is_slow = ran > self.job_time_max;
            if outcome != JobOutcome::Skipped {
                state.verbs.entry((verb, owner.class())).or_default().record_end(ran, is_slow);
            }
            if is_slow && state.next_warning <= ended {
                state.next_warning = ended.saturating_add(limits::SLOW_JOB_WARNING_INTERVAL);
                drop(state);
                warn_of_slow_job(verb, &owner, ran);
                state = lock(&self.state);
            }
        }
    }

    fn close(&self) {
        lock(&self.state).closed = true;
        self.work.notify_all();
    }
}

impl PoolStatistics {
    fn record_end(&mut self, outcome: JobOutcome, waited: Duration, ran: Duration) {
        self.busy = self.busy.saturating_sub(1);
        if outcome == JobOutcome::Skipped {
            self.skipped = self.skipped.saturating_add(1);
            return;
        }
        self.completed = self.completed.saturating_add(1);
        self.panicked = self.panicked.saturating_add(u64::from(outcome == JobOutcome::Panicked));
        self.waited = self.waited.saturating_add(waited);
        self.waited_max = self.waited_max.max(waited);
        self.ran = self.ran.saturating_add(ran);
    }
}

impl VerbStatistics {
    fn record_end(&mut self, ran: Duration, is_slow: bool) {
        self.completed = self.completed.saturating_add(1);
        self.slow = self.slow.saturating_add(u64::from(is_slow));
        self.ran = self.ran.saturating_add(ran);
        self.ran_max = self.ran_max.max(ran);
    }
}

/// Creates the function of a job that sends its result to its caller.
fn reporting_job<T, F>(sender: oneshot::Sender<Result<T, PoolError>>, orphan: AbandonedJob, job: F) -> JobFunction
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    Box::new(move || {
        if orphan == AbandonedJob::Discard && sender.is_closed() {
            return JobOutcome::Skipped;
        }
        let result = catch_unwind(AssertUnwindSafe(job)).map_err(|panic| PoolError::Panicked(panic_message(&*panic)));
        let outcome = if result.is_ok() { JobOutcome::Ended } else { JobOutcome::Panicked };
        let _ = sender.send(result);
        outcome
    })
}

/// Logs a job that kept a worker for longer than it should.
fn warn_of_slow_job(verb: JobVerb, owner: &JobOwner, ran: Duration) {
    tracing::warn!(target: "pool", protocol = verb.protocol, command = verb.command, %owner, milliseconds = ran.as_millis() as u64, "a job kept a worker for longer than it should");
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkerPool").field(&self.report()).finish()
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no text").to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
