//! Busy worker pools, for the tests of protocols: what happens if no worker is free for a job, or the queue is full.

use std::sync::Arc;
use std::sync::mpsc;

use base::sim::SimClock;

use crate::job::{JobLabel, JobOwner};
use crate::pool::{PoolError, PoolOptions, WorkerPool};

/// A worker of a pool that is busy until this value is dropped.
#[must_use = "the worker is busy until this value is dropped"]
pub struct BusyWorker {
    _release: mpsc::Sender<()>,
}

impl BusyWorker {
    /// Keeps a worker of a pool busy. Returns once it is.
    pub fn occupy(pool: &WorkerPool) -> Result<Self, PoolError> {
        let (release, released) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        pool.spawn(label(), move || {
            let _ = started.send(());
            let _ = released.recv();
        })?;
        has_started.recv().map_err(|_| PoolError::Closed)?;
        Ok(Self { _release: release })
    }
}

/// Creates a pool whose only worker is busy and whose queue, for one job, is full.
pub fn full_pool() -> Result<(WorkerPool, BusyWorker), PoolError> {
    let options = PoolOptions { workers: 1, queue_max: 1, total_max: 1, ..PoolOptions::default() };
    let pool = WorkerPool::new(&options, Arc::new(SimClock::new()))?;
    let worker = BusyWorker::occupy(&pool)?;
    pool.spawn(label(), || ())?;
    Ok((pool, worker))
}

fn label() -> JobLabel {
    JobLabel::new(JobOwner::account("busy"), "test", "JOB")
}
