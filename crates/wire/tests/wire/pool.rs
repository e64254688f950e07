//! Tests of the pool: results, limits, panics and closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use base::sim::SimClock;
use wire::sim::full_pool;
use wire::{JobLabel, JobOwner, PoolError, PoolOptions, RunError, WorkerPool};

fn job() -> JobLabel {
    job_of("ann")
}

fn job_of(account: &str) -> JobLabel {
    JobLabel::new(JobOwner::account(account), "test", "JOB")
}

fn pool(workers: usize, queue_max: usize) -> WorkerPool {
    pool_with_clock(workers, queue_max, &Arc::new(SimClock::new()))
}

fn pool_with_clock(workers: usize, queue_max: usize, clock: &Arc<SimClock>) -> WorkerPool {
    let options = PoolOptions { name: "test".to_owned(), workers, queue_max, ..PoolOptions::default() };
    WorkerPool::new(&options, Arc::clone(clock) as _).expect("threads can be started")
}

/// Occupies a worker until the returned sender is dropped. Returns once the job is running.
fn hold_worker(pool: &WorkerPool) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    pool.spawn(job(), move || {
        started.send(()).expect("the test waits");
        let _ = released.recv();
    })
    .expect("the queue has space");
    has_started.recv().expect("the job starts");
    release
}

#[tokio::test]
async fn results_are_returned_to_their_callers() {
    let pool = pool(3, 200);
    let mut callers = Vec::new();
    for number in 0..200u64 {
        let pool = pool.clone();
        callers.push(tokio::spawn(async move { pool.run(job(), move || number * 2).await }));
    }
    for (number, caller) in callers.into_iter().enumerate() {
        assert_eq!(caller.await.expect("no panic"), Ok(number as u64 * 2));
    }
    pool.close();
    let report = pool.report();
    assert_eq!((report.workers, report.completed, report.depth, report.busy), (3, 200, 0, 0));
}

#[tokio::test]
async fn panic_is_an_error_and_the_worker_continues() {
    let pool = pool(1, 4);
    let failed: Result<(), _> = pool.run(job(), || panic!("on purpose")).await;
    assert_eq!(failed, Err(PoolError::Panicked("on purpose".to_owned())));
    pool.spawn(job(), || panic!("again")).expect("the queue has space");
    assert_eq!(pool.run(job(), || 7).await, Ok(7));
    pool.close();
    assert_eq!(pool.report().panicked, 2);
}

#[tokio::test]
async fn full_queue_refuses_jobs_of_its_owner_only() {
    let pool = pool(1, 2);
    let release = hold_worker(&pool);
    pool.spawn(job(), || ()).expect("the queue has space");
    pool.spawn(job(), || ()).expect("the queue has space");
    assert_eq!(pool.spawn(job(), || ()), Err(PoolError::Full));
    assert_eq!(pool.run(job(), || 1).await, Err(PoolError::Full));
    pool.spawn(job_of("bob"), || ()).expect("the queue of the other account is empty");
    let server = JobLabel::new(JobOwner::Server, "test", "JOB");
    (0..5).for_each(|_| pool.spawn(server.clone(), || ()).expect("jobs of the server are not refused"));
    assert_eq!(pool.report().depth, 8);
    drop(release);
    pool.close();
    assert_eq!(pool.report().completed, 9);
}

#[test]
fn full_queue_refuses_all_owners_but_the_server() {
    let options = PoolOptions { workers: 1, queue_max: 2, total_max: 3, ..PoolOptions::default() };
    let pool = WorkerPool::new(&options, Arc::new(SimClock::new())).expect("threads can be started");
    let release = hold_worker(&pool);
    for account in ["ann", "ann", "bob"] {
        pool.spawn(job_of(account), || ()).expect("the queue has space");
    }
    for account in ["bob", "carol"] {
        assert_eq!(pool.spawn(job_of(account), || ()), Err(PoolError::Full), "{account}");
    }
    pool.spawn(JobLabel::new(JobOwner::Server, "test", "JOB"), || ()).expect("jobs of the server are not refused");
    drop(release);
    pool.close();
    assert_eq!(pool.report().completed, 5);
}

#[tokio::test]
async fn refused_job_returns_its_input() {
    let (pool, busy) = full_pool().expect("a thread starts");
    let refused = pool.run_or_return(job(), "input".to_owned(), |input| input.len()).await;
    assert_eq!(refused, Err(RunError::NotQueued(PoolError::Full, "input".to_owned())));
    drop(busy);
    while pool.report().depth > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.run_or_return(job(), "input".to_owned(), |input| input.len()).await, Ok(5));
    let failed: Result<(), _> = pool.run_or_return(job(), 7, |_| panic!("on purpose")).await;
    assert_eq!(failed, Err(RunError::Failed(PoolError::Panicked("on purpose".to_owned()))));
    pool.close();
    assert_eq!(pool.run_or_return(job(), 7, |input| input).await, Err(RunError::NotQueued(PoolError::Closed, 7)));
}

#[test]
fn job_of_a_newcomer_runs_before_the_backlog_of_another_account() {
    let pool = pool(1, 1_000);
    let release = hold_worker(&pool);
    let (sender, receiver) = mpsc::channel();
    let queue = |account: &'static str| {
        let sender = sender.clone();
        pool.spawn(job_of(account), move || sender.send(account).expect("the test waits"))
            .expect("the queue has space");
    };
    (0..500).for_each(|_| queue("ann"));
    queue("bob");
    queue("carol");
    drop(release);
    let order: Vec<&str> = receiver.iter().take(4).collect();
    assert_eq!(order, ["ann", "bob", "carol", "ann"]);
}

#[test]
fn account_leaves_a_worker_to_others() {
    let pool = pool(2, 1_000);
    let release = hold_worker(&pool);
    pool.spawn(job(), || ()).expect("the queue has space");
    let (sender, receiver) = mpsc::channel();
    pool.spawn(job_of("bob"), move || sender.send("bob").expect("the test waits")).expect("the queue has space");
    assert_eq!(receiver.recv(), Ok("bob"));
    assert_eq!(pool.report().depth, 1);
    drop(release);
    pool.close();
}

#[test]
fn slow_jobs_are_counted_by_verb_and_class() {
    let clock = Arc::new(SimClock::new());
    let pool = pool_with_clock(1, 8, &clock);
    let run = |owner: JobOwner, command: &'static str, milliseconds: u64| {
        let clock = Arc::clone(&clock);
        let label = JobLabel::new(owner, "test", command);
        pool.spawn(label, move || clock.advance(Duration::from_millis(milliseconds))).expect("the queue has space");
    };
    run(JobOwner::account("ann"), "SEARCH", 50);
    run(JobOwner::account("bob"), "SEARCH", 51);
    run(JobOwner::stranger([192, 0, 2, 1].into()), "SEARCH", 1);
    run(JobOwner::Server, "deliver", 200);
    pool.close();
    let verbs = pool.verbs();
    let found: Vec<_> = verbs
        .iter()
        .map(|(verb, class, of)| (verb.command, class.name(), of.completed, of.slow, of.ran.as_millis()))
        .collect();
    let expected =
        [("SEARCH", "account", 2, 1, 101), ("SEARCH", "stranger", 1, 0, 1), ("deliver", "server", 1, 1, 200)];
    assert_eq!(found, expected);
}

#[test]
fn time_of_a_job_depends_on_the_pool() {
    let clock = Arc::new(SimClock::new());
    let options = PoolOptions { workers: 1, job_time_max: Duration::from_secs(1), ..PoolOptions::default() };
    let pool = WorkerPool::new(&options, Arc::clone(&clock) as _).expect("threads can be started");
    for milliseconds in [1_000, 1_001] {
        let clock = Arc::clone(&clock);
        pool.spawn(job(), move || clock.advance(Duration::from_millis(milliseconds))).expect("the queue has space");
    }
    pool.close();
    let slow: Vec<u64> = pool.verbs().iter().map(|(_, _, of)| of.slow).collect();
    assert_eq!(slow, [1]);
}

#[tokio::test]
async fn abandoned_awaited_jobs_are_skipped() {
    let pool = pool(1, 8);
    let ran = Arc::new(AtomicUsize::new(0));
    let release = hold_worker(&pool);
    for depth in 1..=6 {
        let pool_of = pool.clone();
        let ran = Arc::clone(&ran);
        let count = move || ran.fetch_add(1, Ordering::Relaxed);
        let caller = if depth <= 5 {
            tokio::spawn(async move { pool_of.run_awaited(job(), count).await })
        } else {
            tokio::spawn(async move { pool_of.run(job(), count).await })
        };
        while pool.report().depth < depth {
            tokio::task::yield_now().await;
        }
        caller.abort();
        assert!(caller.await.expect_err("it was aborted").is_cancelled());
    }
    drop(release);
    assert_eq!(pool.run_awaited(job(), || 7).await, Ok(7));
    pool.close();
    let report = pool.report();
    assert_eq!((ran.load(Ordering::Relaxed), report.skipped, report.completed), (1, 5, 3), "{report:?}");
}

#[tokio::test]
async fn closing_runs_queued_jobs_and_refuses_new_ones() {
    let pool = pool(1, 8);
    let ran = Arc::new(AtomicUsize::new(0));
    let release = hold_worker(&pool);
    for _ in 0..5 {
        let ran = Arc::clone(&ran);
        pool.spawn(job(), move || {
            ran.fetch_add(1, Ordering::SeqCst);
        })
        .expect("the queue has space");
    }
    drop(release);
    pool.close();
    assert_eq!(ran.load(Ordering::SeqCst), 5);
    assert_eq!(pool.spawn(job(), || ()), Err(PoolError::Closed));
    assert_eq!(pool.run(job(), || 1).await, Err(PoolError::Closed));
}

#[tokio::test]
async fn a_job_outlives_the_task_that_waits_for_it() {
    let pool = pool(1, 4);
    let release = hold_worker(&pool);
    let (sender, receiver) = mpsc::channel();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.run(job(), move || sender.send("done")).await }
    });
    tokio::task::yield_now().await;
    waiting.abort();
    drop(release);
    assert_eq!(receiver.recv(), Ok("done"));
}

#[test]
fn last_handle_may_be_dropped_by_a_job() {
    let pool = pool(2, 4);
    let (sender, receiver) = mpsc::channel();
    let held = pool.clone();
    let release = hold_worker(&pool);
    pool.spawn(job(), move || {
        drop(held);
        sender.send(()).expect("the test waits");
    })
    .expect("the queue has space");
    drop(pool);
    drop(release);
    assert_eq!(receiver.recv(), Ok(()));
}

#[test]
fn waiting_and_running_times_are_counted_separately() {
    let clock = Arc::new(SimClock::new());
    let pool = pool_with_clock(1, 8, &clock);
    let release = hold_worker(&pool);
    pool.spawn(job(), || ()).expect("the queue has space");
    clock.advance(Duration::from_secs(2));
    pool.spawn(job(), || ()).expect("the queue has space");
    clock.advance(Duration::from_secs(3));
    let report = pool.report();
    assert_eq!((report.busy, report.depth, report.completed), (1, 2, 0));
    drop(release);
    pool.close();
    let report = pool.report();
    assert_eq!((report.busy, report.depth, report.depth_max, report.completed), (0, 0, 2, 3));
    assert_eq!((report.ran, report.waited), (Duration::from_secs(5), Duration::from_secs(5 + 3)));
    assert_eq!(report.waited_max, Duration::from_secs(5));
}

#[tokio::test]
async fn options_out_of_range_are_clamped() {
    let pool = pool(0, 0);
    assert_eq!(pool.report().workers, 1);
    let release = hold_worker(&pool);
    pool.spawn(job(), || ()).expect("one job may wait");
    assert_eq!(pool.spawn(job(), || ()), Err(PoolError::Full));
    drop(release);
    assert_eq!(pool.run(job_of("bob"), || "done").await, Ok("done"));
}

#[tokio::test]
async fn panic_without_text_is_an_error() {
    let pool = pool(1, 1);
    let failed: Result<(), _> = pool.run(job(), || std::panic::panic_any(7)).await;
    assert_eq!(failed, Err(PoolError::Panicked("no text".to_owned())));
    let failed: Result<(), _> = pool.run(job(), || panic!("{} of {}", 1, 2)).await;
    assert_eq!(failed.expect_err("it panics").to_string(), "a job panicked: 1 of 2");
}
