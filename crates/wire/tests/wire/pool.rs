//! Tests of the pool: results, limits, panics and closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use base::sim::SimClock;
use wire::{PoolError, PoolOptions, WorkerPool};

fn pool(workers: usize, queue_max: usize) -> WorkerPool {
    pool_with_clock(workers, queue_max, &Arc::new(SimClock::new()))
}

fn pool_with_clock(workers: usize, queue_max: usize, clock: &Arc<SimClock>) -> WorkerPool {
    let options = PoolOptions { name: "test".to_owned(), workers, queue_max };
    WorkerPool::new(&options, Arc::clone(clock) as _).expect("threads can be started")
}

/// Occupies a worker until the returned sender is dropped. Returns once the job is running.
fn hold_worker(pool: &WorkerPool) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    pool.spawn(move || {
        started.send(()).expect("the test waits");
        let _ = released.recv();
    })
    .expect("the queue has space");
    has_started.recv().expect("the job starts");
    release
}

#[tokio::test]
async fn results_are_returned_to_their_callers() {
    let pool = pool(3, 8);
    let mut callers = Vec::new();
    for number in 0..200u64 {
        let pool = pool.clone();
        callers.push(tokio::spawn(async move { pool.run(move || number * 2).await }));
    }
    for (number, caller) in callers.into_iter().enumerate() {
        assert_eq!(caller.await.expect("no panic"), Ok(number as u64 * 2));
    }
    pool.close();
    let report = pool.report();
    assert_eq!((report.workers, report.completed, report.depth, report.busy), (3, 200, 0, 0));
    assert!(report.depth_max <= 8, "{report:?}");
}

#[tokio::test]
async fn panic_is_an_error_and_the_worker_continues() {
    let pool = pool(1, 4);
    let failed: Result<(), _> = pool.run(|| panic!("on purpose")).await;
    assert_eq!(failed, Err(PoolError::Panicked("on purpose".to_owned())));
    pool.spawn(|| panic!("again")).expect("the queue has space");
    assert_eq!(pool.run(|| 7).await, Ok(7));
    pool.close();
    assert_eq!(pool.report().panicked, 2);
}

#[tokio::test]
async fn a_full_queue_refuses_spawn_and_delays_run() {
    let pool = pool(1, 2);
    let release = hold_worker(&pool);
    pool.spawn(|| ()).expect("the queue has space");
    pool.spawn(|| ()).expect("the queue has space");
    assert_eq!(pool.spawn(|| ()), Err(PoolError::Full));
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.run(|| 1).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    assert_eq!(pool.report().depth, 2);
    drop(release);
    assert_eq!(waiting.await.expect("no panic"), Ok(1));
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
            tokio::spawn(async move { pool_of.run_awaited(count).await })
        } else {
            tokio::spawn(async move { pool_of.run(count).await })
        };
        while pool.report().depth < depth {
            tokio::task::yield_now().await;
        }
        caller.abort();
        assert!(caller.await.expect_err("it was aborted").is_cancelled());
    }
    drop(release);
    assert_eq!(pool.run_awaited(|| 7).await, Ok(7));
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
        pool.spawn(move || {
            ran.fetch_add(1, Ordering::SeqCst);
        })
        .expect("the queue has space");
    }
    drop(release);
    pool.close();
    assert_eq!(ran.load(Ordering::SeqCst), 5);
    assert_eq!(pool.spawn(|| ()), Err(PoolError::Closed));
    assert_eq!(pool.run(|| 1).await, Err(PoolError::Closed));
}

#[tokio::test]
async fn a_job_outlives_the_task_that_waits_for_it() {
    let pool = pool(1, 4);
    let release = hold_worker(&pool);
    let (sender, receiver) = mpsc::channel();
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.run(move || sender.send("done")).await }
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
    pool.spawn(move || {
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
    pool.spawn(|| ()).expect("the queue has space");
    clock.advance(Duration::from_secs(2));
    pool.spawn(|| ()).expect("the queue has space");
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
    pool.spawn(|| ()).expect("one job may wait");
    assert_eq!(pool.spawn(|| ()), Err(PoolError::Full));
    drop(release);
    assert_eq!(pool.run(|| "done").await, Ok("done"));
}

#[tokio::test]
async fn panic_without_text_is_an_error() {
    let pool = pool(1, 1);
    let failed: Result<(), _> = pool.run(|| std::panic::panic_any(7)).await;
    assert_eq!(failed, Err(PoolError::Panicked("no text".to_owned())));
    let failed: Result<(), _> = pool.run(|| panic!("{} of {}", 1, 2)).await;
    assert_eq!(failed.expect_err("it panics").to_string(), "a job panicked: 1 of 2");
}

#[tokio::test]
async fn caller_waiting_for_queue_space_gets_closed() {
    let pool = pool(1, 1);
    let release = hold_worker(&pool);
    pool.spawn(|| ()).expect("the queue has space for one job");
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.run(|| 1).await }
    });
    tokio::task::yield_now().await;
    let closing = std::thread::spawn({
        let pool = pool.clone();
        move || pool.close()
    });
    assert_eq!(waiting.await.expect("no panic"), Err(PoolError::Closed));
    drop(release);
    closing.join().expect("no panic");
    assert_eq!(pool.report().completed, 2, "the queued job has run");
}
