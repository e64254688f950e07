//! The queue of the worker pool, which divides the workers between the owners of jobs.
//!
//! Each owner has a queue of its own, first come first served. The owners with waiting jobs take turns. An owner that
//! is running as many jobs as it may is passed over until one of them ends:
//!
//! - while others wait, an owner may run jobs on half of the workers (rounded up);
//! - otherwise it may use all workers but one, so that a newcomer finds a worker that is free. A pool of one worker has
//!   none to spare.
//!
//! Therefore a job waits for at most one job of each other owner before its own owner has a turn, however many jobs the
//! others have queued.
//!
//! Invariants:
//! - `turns` has every owner with waiting jobs exactly once, and no other.
//! - `owners` has exactly the owners with waiting or running jobs.
//! - A worker stays idle only if no job waits, or if a single owner waits that uses all other workers.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use crate::job::JobOwner;

/// Jobs of type `T` that wait for one of a number of workers.
pub(crate) struct FairQueue<T> {
    workers: usize,
    owners: HashMap<JobOwner, OwnerJobs<T>>,
    /// The owners with waiting jobs, the next one to take from first.
    turns: VecDeque<JobOwner>,
    waiting: usize,
}

/// The jobs of one owner.
struct OwnerJobs<T> {
    waiting: VecDeque<T>,
    /// Number of jobs that workers are running.
    running: usize,
}

impl<T> FairQueue<T> {
    /// Creates an empty queue for a number of workers.
    pub fn new(workers: usize) -> Self {
        Self { workers, owners: HashMap::new(), turns: VecDeque::new(), waiting: 0 }
    }

    /// Returns the number of waiting jobs.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Returns the number of waiting jobs of an owner.
    pub fn len_of(&self, owner: &JobOwner) -> usize {
        self.owners.get(owner).map_or(0, |jobs| jobs.waiting.len())
    }

    /// Adds a job. Returns `true` if a free worker should look for a job now.
    ///
    /// It may find none, because the share of this owner can be smaller while others wait. But when a worker takes the
    /// last job of the others, the share is larger again, and no push will wake a worker then.
    pub fn push(&mut self, owner: &JobOwner, job: T) -> bool {
        let jobs =
            self.owners.entry(owner.clone()).or_insert_with(|| OwnerJobs { waiting: VecDeque::new(), running: 0 });
        if jobs.waiting.is_empty() {
            self.turns.push_back(owner.clone());
        }
        jobs.waiting.push_back(job);
        let running = jobs.running;
        self.waiting += 1;
        running < self.running_max_alone()
    }

    /// Takes the next job for a worker and counts it as running. Returns `None` if no job waits or no owner of a
    /// waiting job may use another worker.
    pub fn take(&mut self) -> Option<(JobOwner, T)> {
        let running_max = self.running_max();
        let may_run = |owner: &JobOwner| self.owners.get(owner).is_some_and(|jobs| jobs.running < running_max);
        let turn = self.turns.iter().position(may_run)?;
        let owner = self.turns.remove(turn)?;
        let jobs = self.owners.get_mut(&owner)?;
        let job = jobs.waiting.pop_front()?;
        jobs.running += 1;
        self.waiting -= 1;
        if !jobs.waiting.is_empty() {
            self.turns.push_back(owner.clone());
        }
        Some((owner, job))
    }

    /// Counts a job as ended.
    pub fn finish(&mut self, owner: &JobOwner) {
        let Entry::Occupied(mut known) = self.owners.entry(owner.clone()) else { return };
        let jobs = known.get_mut();
        jobs.running = jobs.running.saturating_sub(1);
        if jobs.running == 0 && jobs.waiting.is_empty() {
            known.remove();
        }
    }

    /// Returns the number of jobs that an owner may run at the same time now.
    fn running_max(&self) -> usize {
        let others_wait = self.turns.len() > 1;
        if others_wait { self.workers.div_ceil(2) } else { self.running_max_alone() }
    }

    /// Returns the number of jobs that an owner may run at the same time while no other owner waits.
    fn running_max_alone(&self) -> usize {
        self.workers.saturating_sub(1).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    fn owner(number: u8) -> JobOwner {
        JobOwner::stranger(IpAddr::from([192, 0, 2, number]))
    }

    fn push_all(queue: &mut FairQueue<u32>, jobs: std::ops::Range<u32>) {
        for job in jobs {
            queue.push(&owner(1), job);
        }
    }

    fn take_all(queue: &mut FairQueue<u32>) -> Vec<(JobOwner, u32)> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn single_owner_leaves_one_worker_free() {
        for (workers, expected) in [(1, 1), (2, 1), (3, 2), (4, 3), (8, 7)] {
            let mut queue = FairQueue::new(workers);
            push_all(&mut queue, 0..20);
            assert_eq!(take_all(&mut queue).len(), expected, "{workers} workers");
        }
    }

    #[test]
    fn newcomer_is_served_before_the_backlog_of_another() {
        let mut queue = FairQueue::new(4);
        push_all(&mut queue, 0..1_000);
        assert_eq!(take_all(&mut queue).len(), 3);
        assert!(queue.push(&owner(2), 2_000), "a worker is free");
        assert_eq!(queue.take(), Some((owner(2), 2_000)));
        assert_eq!(queue.take(), None, "the others wait until a job ends");
        queue.push(&owner(2), 2_001);
        queue.push(&owner(2), 2_002);
        queue.finish(&owner(1));
        assert_eq!(queue.take(), Some((owner(2), 2_001)), "owner 1 has half of the workers");
        queue.finish(&owner(1));
        assert_eq!(queue.take(), Some((owner(1), 3)), "owner 2 has half of the workers now");
    }

    #[test]
    fn push_wakes_a_worker_that_only_the_turn_of_another_leaves_free() {
        let mut queue = FairQueue::new(4);
        push_all(&mut queue, 0..2);
        assert_eq!(take_all(&mut queue).len(), 2, "owner 1 runs on half of the workers");
        assert!(queue.push(&owner(2), 10));
        assert!(queue.push(&owner(1), 2), "when the worker for owner 2 has taken its job, owner 1 may run a third one");
        assert_eq!(queue.take(), Some((owner(2), 10)));
        assert_eq!(queue.take(), Some((owner(1), 2)));
    }

    #[test]
    fn owners_take_turns_and_keep_the_order_of_their_jobs() {
        let mut queue = FairQueue::new(1);
        for job in 0..3 {
            queue.push(&owner(1), job);
        }
        queue.push(&owner(2), 10);
        queue.push(&owner(3), 20);
        let mut order = Vec::new();
        while let Some((owner, job)) = queue.take() {
            order.push(job);
            queue.finish(&owner);
        }
        assert_eq!(order, [0, 10, 20, 1, 2]);
        assert!(queue.owners.is_empty() && queue.turns.is_empty() && queue.len() == 0);
    }

    proptest! {
        /// Random histories of pushes, takes and ends against a list of all jobs.
        #[test]
        fn random_histories_keep_the_invariants(
            workers in 1usize..6,
            steps in proptest::collection::vec((0u8..3, 0u8..4), 1..200),
        ) {
            let mut queue = FairQueue::new(workers);
            let mut waiting: Vec<(JobOwner, u32)> = Vec::new();
            let mut running: Vec<JobOwner> = Vec::new();
            for (number, (step, chosen)) in (0u32..).zip(steps) {
                match step {
                    0 => {
                        queue.push(&owner(chosen), number);
                        waiting.push((owner(chosen), number));
                    }
                    1 if running.len() < workers => match queue.take() {
                        Some((taken, job)) => {
                            let first = waiting.iter().position(|(other, _)| *other == taken).expect("it was pushed");
                            prop_assert_eq!(waiting.remove(first), (taken.clone(), job), "the oldest job of the owner");
                            running.push(taken);
                        }
                        None => {
                            let others: Vec<&JobOwner> = waiting.iter().map(|(owner, _)| owner).collect();
                            let single = others.iter().all(|other| *other == others[0]);
                            prop_assert!(single, "a free worker, and several owners wait");
                            let used = running.iter().filter(|other| others.first() == Some(other)).count();
                            prop_assert!(others.is_empty() || used + 1 >= workers, "a free worker and a waiting job");
                        }
                    },
                    _ if !running.is_empty() => {
                        let ended = running.remove(usize::from(chosen) % running.len());
                        queue.finish(&ended);
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.len(), waiting.len());
                for number in 0..4 {
                    let count = waiting.iter().filter(|(other, _)| *other == owner(number)).count();
                    prop_assert_eq!(queue.len_of(&owner(number)), count);
                    let turns = queue.turns.iter().filter(|other| **other == owner(number)).count();
                    prop_assert_eq!(turns, usize::from(count > 0));
                }
            }
        }
    }
}
