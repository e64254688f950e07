//! Calls whose work may take longer than a job should. Their work is divided into several jobs.
//!
//! The work is tried as one job first, in which nearly all calls end. If it takes too long, it begins anew in a
//! coroutine, whose parts are queued one after the other until it ends. The calls of others are served in between. A
//! call still sees one state of its database, because the coroutine keeps its snapshot.
//!
//! A verb that is divided counts its steps with the pacer of its [`CallContext`]. It must not do so after it has
//! changed anything, because the work that was tried is repeated.

use std::collections::HashMap;
use std::sync::Arc;

use base::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use wire::{Coroutine, JobOwner, PartLimits, Progress, SinglePart};

use super::{CallOutcome, Service, split_request};
use crate::admission::Caller;
use crate::cmd::CallContext;
use crate::error::{Error, Result};
use crate::limits::{ACCOUNT_COROUTINES_MAX, COROUTINES_MAX, PART_STEPS_MAX};

/// The name of the threads of coroutines, as shown by tools.
const THREAD_NAME: &str = "call";

/// A verb whose work may be divided.
pub(crate) type DividedVerb<Q, R> = fn(&CallContext, &Q) -> Result<CallOutcome<R>>;

/// The outcome of work that was tried as one job.
enum Attempt<Q, R> {
    Ended(Result<CallOutcome<R>>),
    /// The work takes longer. Its input is returned.
    Interrupted(Q),
}

impl Service {
    /// Serves a call with one message and one reply, whose work may be divided.
    pub(crate) async fn divided_unary<Q, R>(
        &self,
        request: tonic::Request<Q>,
        verb: DividedVerb<Q, R>,
    ) -> std::result::Result<tonic::Response<R>, Status>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let (caller, message) = split_request(request)?;
        Ok(tonic::Response::new(self.run_divided(&caller, message, verb).await?))
    }

    /// Runs blocking work for a caller on workers, in several jobs if it takes long, and waits until its result is
    /// durable. The work ends early if its caller has gone.
    pub(crate) async fn run_divided<Q, R>(&self, caller: &Caller, input: Q, work: DividedVerb<Q, R>) -> Result<R>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let outcome = match self.try_in_one_job(caller, input, work).await? {
            Attempt::Ended(outcome) => outcome,
            Attempt::Interrupted(input) => self.run_in_parts(caller, input, work).await?,
        };
        self.when_durable(outcome?).await
    }

    async fn try_in_one_job<Q, R>(&self, caller: &Caller, input: Q, work: DividedVerb<Q, R>) -> Result<Attempt<Q, R>>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let context = self.context(caller);
        let limits = self.part_limits();
        let attempt = move || {
            let clock = Arc::clone(&context.services.clock);
            let context = context.paced(Arc::new(SinglePart::new(clock, limits)));
            match work(&context, &input) {
                Err(error) if error.is_interrupted() => Attempt::Interrupted(input),
                outcome => Attempt::Ended(outcome),
            }
        };
        self.run_job(caller, attempt).await
    }

    async fn run_in_parts<Q, R>(
        &self,
        caller: &Caller,
        input: Q,
        work: DividedVerb<Q, R>,
    ) -> Result<Result<CallOutcome<R>>>
    where
        Q: Send + 'static,
        R: Send + 'static,
    {
        let _slot = self.coroutines.acquire(&caller.job_label().owner).await?;
        let context = self.context(caller);
        let limits = self.part_limits();
        let start = move || {
            let clock = Arc::clone(&context.services.clock);
            let function = move |pacer| work(&context.paced(pacer), &input);
            Coroutine::start(THREAD_NAME, clock, limits, function).map(Coroutine::resume)
        };
        let started = self.run_job(caller, start).await?;
        let mut progress = started.map_err(|error| {
            tracing::error!(target: "rpc", %error, call = caller.path, "a call cannot be divided");
            Error::Unavailable
        })?;
        loop {
            match progress {
                Progress::Ended(outcome) => return Ok(outcome),
                Progress::Paused(coroutine) => {
                    progress = self.run_job(caller, move || coroutine.resume()).await?;
                }
            }
        }
    }

    /// Returns the limits of a part: half of the time of a job, because the end of a part is noticed late.
    fn part_limits(&self) -> PartLimits {
        PartLimits { time_max: self.services.pool.job_time_max() / 2, steps_max: PART_STEPS_MAX }
    }
}

/// Bounds the number of coroutines, of one account and of all. Calls wait for each other.
pub(crate) struct CoroutineSlots {
    all: Arc<Semaphore>,
    /// The slots of each owner that has or awaits coroutines.
    owners: Mutex<HashMap<JobOwner, Arc<Semaphore>>>,
}

/// The right to have a coroutine, until it is dropped.
pub(crate) struct CoroutineSlot {
    _own: OwnedSemaphorePermit,
    _any: OwnedSemaphorePermit,
}

impl CoroutineSlots {
    /// Creates the slots, all of them free.
    pub(crate) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(COROUTINES_MAX)), owners: Mutex::default() }
    }

    /// Waits for a slot.
    async fn acquire(&self, owner: &JobOwner) -> Result<CoroutineSlot> {
        let own = self.slots_of(owner).acquire_owned().await.map_err(|_| Error::Unavailable)?;
        let any = Arc::clone(&self.all).acquire_owned().await.map_err(|_| Error::Unavailable)?;
        Ok(CoroutineSlot { _own: own, _any: any })
    }

    fn slots_of(&self, owner: &JobOwner) -> Arc<Semaphore> {
        let mut owners = self.owners.lock();
        // Permits, and calls that wait for one, hold the semaphore.
        owners.retain(|_, slots| Arc::strong_count(slots) > 1);
        let slots = owners.entry(owner.clone()).or_insert_with(|| Arc::new(Semaphore::new(ACCOUNT_COROUTINES_MAX)));
        Arc::clone(slots)
    }
}
