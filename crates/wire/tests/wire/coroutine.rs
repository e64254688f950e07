//! Tests of work in parts: pauses, the turns of other jobs, panics, and work that nobody wants any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use base::sim::SimClock;
use base::{Interrupted, Pacer};
use wire::{Coroutine, JobLabel, JobOwner, PartLimits, PoolError, PoolOptions, Progress, SinglePart, WorkerPool};

const BY_STEPS: PartLimits = PartLimits { time_max: Duration::from_secs(3_600), steps_max: 100 };

fn label(account: &str) -> JobLabel {
    JobLabel::new(JobOwner::account(account), "test", "JOB")
}

/// Starts a coroutine that spends 10 steps at a time until it has spent all, and returns their number.
fn counting(clock: &Arc<SimClock>, limits: PartLimits, steps: u64) -> Coroutine<Result<u64, Interrupted>> {
    let count = move |pacer: Arc<dyn Pacer>| {
        let mut spent = 0;
        while spent < steps {
            pacer.spend(10)?;
            spent += 10;
        }
        Ok(spent)
    };
    Coroutine::start("test", Arc::clone(clock) as _, limits, count).expect("a thread starts")
}

/// Resumes a coroutine until it ends. Returns the number of its parts and its result.
fn finish<T: Send + 'static>(mut coroutine: Coroutine<T>) -> (usize, T) {
    for parts in 1.. {
        match coroutine.resume() {
            Progress::Ended(result) => return (parts, result),
            Progress::Paused(rest) => coroutine = rest,
        }
    }
    unreachable!("the coroutine ends");
}

#[test]
fn work_pauses_after_its_steps() {
    let clock = Arc::new(SimClock::new());
    assert_eq!(finish(counting(&clock, BY_STEPS, 90)), (1, Ok(90)));
    assert_eq!(finish(counting(&clock, BY_STEPS, 1_000)), (11, Ok(1_000)), "a pause in every tenth call");
}

#[test]
fn work_pauses_after_its_time() {
    let clock = Arc::new(SimClock::new());
    let ticking = Arc::clone(&clock);
    let limits = PartLimits { time_max: Duration::from_millis(50), steps_max: u64::MAX };
    let work = move |pacer: Arc<dyn Pacer>| {
        for _ in 0..10 {
            ticking.advance(Duration::from_millis(20));
            pacer.spend(50)?;
        }
        Ok::<_, Interrupted>(())
    };
    let coroutine = Coroutine::start("test", Arc::clone(&clock) as _, limits, work).expect("a thread starts");
    assert_eq!(finish(coroutine), (4, Ok(())), "a pause after every third of ten pieces of 20 ms");
}

#[test]
fn single_part_ends_work_that_is_too_long() {
    let clock = Arc::new(SimClock::new());
    let pacer = SinglePart::new(Arc::clone(&clock) as _, BY_STEPS);
    assert_eq!((pacer.spend(60), pacer.spend(39), pacer.spend(1)), (Ok(()), Ok(()), Err(Interrupted)));
    let pacer = SinglePart::new(Arc::clone(&clock) as _, PartLimits { time_max: Duration::ZERO, steps_max: u64::MAX });
    assert_eq!((pacer.spend(31), pacer.spend(1)), (Ok(()), Err(Interrupted)), "the clock is looked at every 32 steps");
}

#[test]
fn other_jobs_run_between_two_parts() {
    let clock = Arc::new(SimClock::new());
    let options = PoolOptions { workers: 1, ..PoolOptions::default() };
    let pool = WorkerPool::new(&options, Arc::clone(&clock) as _).expect("a thread starts");
    let (sender, receiver) = mpsc::channel();
    let coroutine = counting(&clock, BY_STEPS, 150);
    let of_ann = sender.clone();
    let rest = pool.clone();
    let first = move || {
        let Progress::Paused(coroutine) = coroutine.resume() else { panic!("150 steps do not fit into one part") };
        of_ann.send(("ann", Ok(0))).expect("the test waits");
        let second = move || {
            let Progress::Ended(result) = coroutine.resume() else { panic!("the rest fits into one part") };
            of_ann.send(("ann", result)).expect("the test waits");
        };
        rest.spawn(label("ann"), second).expect("the queue has space");
    };
    let release = wire::sim::BusyWorker::occupy(&pool).expect("the queue has space");
    pool.spawn(label("ann"), first).expect("the queue has space");
    pool.spawn(label("bob"), move || sender.send(("bob", Ok(0))).expect("the test waits"))
        .expect("the queue has space");
    drop(release);
    let order: Vec<_> = receiver.iter().take(3).collect();
    assert_eq!(order, [("ann", Ok(0)), ("bob", Ok(0)), ("ann", Ok(150))]);
    pool.close();
}

#[test]
fn abandoned_work_is_interrupted_at_its_pause() {
    let clock = Arc::new(SimClock::new());
    let ends = Arc::new(AtomicUsize::new(0));
    let work = |ends: &Arc<AtomicUsize>| {
        let ends = Arc::clone(ends);
        move |pacer: Arc<dyn Pacer>| {
            let outcome = (0..1_000).try_for_each(|_| pacer.spend(10));
            assert_eq!(outcome, Err(Interrupted));
            ends.fetch_add(1, Ordering::SeqCst);
        }
    };
    let start = || Coroutine::start("test", Arc::clone(&clock) as _, BY_STEPS, work(&ends)).expect("a thread starts");
    drop(start());
    assert_eq!(ends.load(Ordering::SeqCst), 0, "it never ran");
    let Progress::Paused(paused) = start().resume() else { panic!("10,000 steps do not fit into one part") };
    drop(paused);
    assert_eq!(ends.load(Ordering::SeqCst), 1, "its thread has ended");
}

#[tokio::test]
async fn panic_in_a_part_is_an_error_of_its_job() {
    let clock = Arc::new(SimClock::new());
    let pool = WorkerPool::new(&PoolOptions::default(), Arc::clone(&clock) as _).expect("threads start");
    let work = |pacer: Arc<dyn Pacer>| -> u32 {
        let _ = pacer.spend(100);
        panic!("on purpose");
    };
    let coroutine = Coroutine::start("test", Arc::clone(&clock) as _, BY_STEPS, work).expect("a thread starts");
    let paused = pool.run(label("ann"), move || coroutine.resume()).await;
    let Ok(Progress::Paused(coroutine)) = paused else { panic!("the first part pauses") };
    let failed = pool.run(label("ann"), move || matches!(coroutine.resume(), Progress::Ended(_))).await;
    assert_eq!(failed, Err(PoolError::Panicked("on purpose".to_owned())));
    assert_eq!(pool.run(label("ann"), || 7).await, Ok(7));
}
