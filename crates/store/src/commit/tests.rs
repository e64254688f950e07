//! Tests of group commit: which writers share a sync, which outcome each waiter receives, and which batches a crash may
//! lose.
//!
//! The crash tests write numbered batches to the engine in memory, crash it, and check that every acknowledged batch is
//! present and that the present batches are a prefix of those written. `DOUBLET_SOAK=1` runs many more seeds.

use std::sync::mpsc;

use base::Random;
use base::sim::SeededRandom;

use super::*;
use crate::engine::{Table, TableReader};
use crate::memory::MemoryEngine;

fn start(mode: SyncMode) -> (Arc<MemoryEngine>, Committer) {
    let engine = Arc::new(MemoryEngine::new(1));
    let committer = Committer::start(Arc::clone(&engine) as Arc<dyn Engine>, mode).expect("a thread can be started");
    (engine, committer)
}

fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Table::Summary, &number.to_be_bytes(), b"content");
    batch.put(Table::Meta, b"last", &number.to_be_bytes());
    batch
}

/// A waker that reports over a channel.
struct ChannelWaker(mpsc::Sender<()>);

impl Wake for ChannelWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

fn channel_waker() -> (Waker, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    (Waker::from(Arc::new(ChannelWaker(sender))), receiver)
}

fn poll(durable: &mut DurableFuture, waker: &Waker) -> Poll<Result<()>> {
    Pin::new(durable).poll(&mut Context::from_waker(waker))
}

#[test]
fn empty_ticket_is_durable_without_a_sync() {
    let (engine, committer) = start(SyncMode::Group);
    assert!(committer.durable(Ticket::NONE).wait().is_ok());
    assert_eq!(engine.faults().syncs(), 0);
}

#[test]
fn writes_during_a_sync_share_the_next_one() {
    let (engine, committer) = start(SyncMode::Group);
    engine.faults().hold_syncs();
    let first = committer.commit(&batch(1)).expect("written");
    engine.faults().wait_for_held_sync();
    let others: Vec<_> = (2..=20).map(|number| committer.commit(&batch(number)).expect("written")).collect();
    engine.faults().release_syncs();
    assert!(committer.durable(first).wait().is_ok());
    for ticket in others {
        assert!(committer.durable(ticket).wait().is_ok());
    }
    assert_eq!(committer.counts(), (20, 2));
    assert_eq!(committer.waiter_count(), 0);
}

#[test]
fn concurrent_writes_all_become_durable() {
    let (engine, committer) = start(SyncMode::Group);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let committer = &committer;
            scope.spawn(move || {
                for number in 0..200 {
                    let ticket = committer.commit(&batch(thread * 1_000 + number)).expect("written");
                    committer.durable(ticket).wait().expect("durable");
                }
            });
        }
    });
    assert_eq!(engine.sequences(), (1_600, 1_600));
    let (writes, syncs) = committer.counts();
    assert_eq!(writes, 1_600);
    assert!(syncs <= writes, "{syncs} syncs for {writes} writes");
}

#[test]
fn failed_sync_poisons_the_committer() {
    let (engine, committer) = start(SyncMode::Group);
    let early = committer.commit(&batch(1)).expect("written");
    committer.durable(early).wait().expect("durable");
    engine.faults().hold_syncs();
    engine.faults().fail_next_sync();
    let first = committer.commit(&batch(2)).expect("written");
    engine.faults().wait_for_held_sync();
    let second = committer.commit(&batch(3)).expect("written");
    engine.faults().release_syncs();
    for ticket in [first, second] {
        assert!(matches!(committer.durable(ticket).wait(), Err(Error::Poisoned(_))));
    }
    assert!(matches!(committer.commit(&batch(4)), Err(Error::Poisoned(_))));
    assert!(committer.durable(early).wait().is_ok(), "durable data stays durable");
    assert!(engine.get(Table::Meta, b"last").is_ok_and(|value| value.is_some()), "reads still succeed");
    assert!(committer.poison_reason().is_some_and(|reason| reason.contains("simulated")));
}

#[test]
fn panic_in_the_sync_thread_fails_the_waiters() {
    let (engine, committer) = start(SyncMode::Group);
    engine.faults().panic_in_next_sync();
    let ticket = committer.commit(&batch(1)).expect("written");
    assert!(matches!(committer.durable(ticket).wait(), Err(Error::Poisoned(_))));
    assert!(matches!(committer.commit(&batch(2)), Err(Error::Poisoned(_))));
}

#[test]
fn full_disk_refuses_writes_until_space_is_free() {
    let (engine, committer) = start(SyncMode::Group);
    engine.faults().set_capacity(0);
    assert!(matches!(committer.commit(&batch(1)), Err(Error::Full(_))));
    assert_eq!(committer.poison_reason(), None);
    engine.faults().free_disk();
    let ticket = committer.commit(&batch(1)).expect("written");
    assert!(committer.durable(ticket).wait().is_ok());
}

#[test]
fn failed_write_poisons_the_committer() {
    let (engine, committer) = start(SyncMode::Group);
    engine.faults().fail_writes(1_000);
    assert!(matches!(committer.commit(&batch(1)), Err(Error::Failed { .. })));
    engine.faults().fail_writes(0);
    assert!(matches!(committer.commit(&batch(2)), Err(Error::Poisoned(_))));
}

#[test]
fn future_is_woken_when_its_batch_is_durable() {
    let (engine, committer) = start(SyncMode::Group);
    engine.faults().hold_syncs();
    let ticket = committer.commit(&batch(1)).expect("written");
    let mut durable = committer.durable(ticket);
    let (stale, stale_woken) = channel_waker();
    let (waker, woken) = channel_waker();
    assert!(poll(&mut durable, &stale).is_pending());
    assert!(poll(&mut durable, &waker).is_pending());
    assert_eq!(committer.waiter_count(), 1, "a second poll adds no waiter");
    engine.faults().release_syncs();
    woken.recv().expect("the waker is kept until it was used");
    assert!(matches!(poll(&mut durable, &waker), Poll::Ready(Ok(()))));
    assert!(stale_woken.try_recv().is_err(), "only the last waker counts");
}

#[test]
fn dropped_future_removes_its_waker() {
    let (engine, committer) = start(SyncMode::Group);
    engine.faults().hold_syncs();
    let ticket = committer.commit(&batch(1)).expect("written");
    let (waker, woken) = channel_waker();
    for _ in 0..3 {
        let mut durable = committer.durable(ticket);
        assert!(poll(&mut durable, &waker).is_pending());
        assert_eq!(committer.waiter_count(), 1);
    }
    assert_eq!(committer.waiter_count(), 0);
    engine.faults().release_syncs();
    committer.durable(ticket).wait().expect("durable");
    assert!(woken.try_recv().is_err());
}

#[test]
fn sync_wakes_only_waiters_it_covers() {
    let (engine, committer) = start(SyncMode::Group);
    engine.faults().hold_syncs();
    let first = committer.commit(&batch(1)).expect("written");
    engine.faults().wait_for_held_sync();
    let second = committer.commit(&batch(2)).expect("written");
    let mut state = committer.log.lock();
    let (waker, woken) = channel_waker();
    let (later, later_woken) = channel_waker();
    state.leave_waker(second.0, None, &later);
    state.leave_waker(first.0, None, &waker);
    drop(state);
    committer.log.finish(first.0, Ok(()));
    assert!(woken.try_recv().is_ok());
    assert!(later_woken.try_recv().is_err());
    engine.faults().release_syncs();
    assert!(committer.durable(second).wait().is_ok());
    assert!(later_woken.recv().is_ok());
}

#[test]
fn closing_syncs_pending_writes() {
    let (engine, committer) = start(SyncMode::Group);
    engine.faults().hold_syncs();
    let first = committer.commit(&batch(1)).expect("written");
    engine.faults().wait_for_held_sync();
    let second = committer.commit(&batch(2)).expect("written");
    let waiting = [committer.durable(first), committer.durable(second)];
    std::thread::scope(|scope| {
        scope.spawn(|| drop(committer));
        engine.faults().release_syncs();
    });
    assert_eq!(Arc::strong_count(&engine), 1, "waiters do not keep the engine");
    for durable in waiting {
        assert!(durable.wait().is_ok());
    }
    assert_eq!(engine.sequences(), (2, 2));
}

#[test]
fn sync_mode_determines_the_number_of_syncs() {
    for (mode, expected) in [(SyncMode::Each, 5), (SyncMode::Off, 0)] {
        let (engine, committer) = start(mode);
        for number in 1..=5 {
            let ticket = committer.commit(&batch(number)).expect("written");
            assert!(committer.durable(ticket).wait().is_ok());
        }
        assert_eq!(engine.faults().syncs(), expected, "{mode:?}");
        assert_eq!(committer.counts().0, 5);
    }
}

#[test]
fn failed_sync_in_mode_each_fails_the_commit() {
    let (engine, committer) = start(SyncMode::Each);
    engine.faults().fail_next_sync();
    assert!(matches!(committer.commit(&batch(1)), Err(Error::Poisoned(_))));
    assert!(matches!(committer.commit(&batch(2)), Err(Error::Poisoned(_))));
}

fn seeds(short: u64, long: u64) -> std::ops::Range<u64> {
    0..if std::env::var_os("DOUBLET_SOAK").is_some() { long } else { short }
}

/// Panics unless the engine holds exactly batches 1 to n for some n, and n is at least `acknowledged`. Returns n.
fn check_prefix(engine: &MemoryEngine, written: u64, acknowledged: u64, seed: u64) -> u64 {
    let last = engine.get(Table::Meta, b"last").expect("sound");
    let last = last.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes")));
    assert!(last >= acknowledged, "SEED={seed}: {acknowledged} was acknowledged, {last} is there");
    for number in 1..=written {
        let there = engine.get(Table::Summary, &number.to_be_bytes()).expect("sound").is_some();
        assert_eq!(there, number <= last, "SEED={seed}: batch {number} of a prefix of {last}");
    }
    last
}

/// Simulates one run of a server: writes, waits now and then, and crashes. Returns the engine after the crash and the
/// number of the last batch in it.
fn run_until_crash(engine: &Arc<MemoryEngine>, first: u64, seed: u64) -> (MemoryEngine, u64) {
    let random = SeededRandom::new(seed);
    engine.faults().fail_syncs(random.below(50) as u32);
    let mode = if random.below(4) == 0 { SyncMode::Each } else { SyncMode::Group };
    let committer = Committer::start(Arc::clone(engine) as Arc<dyn Engine>, mode).expect("a thread");
    let mut written = first;
    let mut acknowledged = first;
    for _ in 0..random.below(40) {
        let outcome = committer.commit(&batch(written + 1));
        if outcome.is_ok() || engine.get(Table::Summary, &(written + 1).to_be_bytes()).is_ok_and(|v| v.is_some()) {
            written += 1;
        }
        let Ok(ticket) = outcome else { break };
        if random.below(3) == 0 && committer.durable(ticket).wait().is_ok() {
            acknowledged = written;
        }
    }
    let crashed = engine.crash();
    let last = check_prefix(&crashed, written, acknowledged, seed);
    (crashed, last)
}

#[test]
fn crash_keeps_acknowledged_batches_and_a_prefix() {
    for seed in seeds(400, 20_000) {
        let mut engine = Arc::new(MemoryEngine::new(seed));
        let mut last = 0;
        for life in 0..3 {
            let (crashed, there) = run_until_crash(&engine, last, seed.wrapping_mul(31) + life);
            engine = Arc::new(crashed);
            last = there;
        }
    }
}

#[test]
fn crash_keeps_batches_acknowledged_to_each_thread() {
    for seed in seeds(20, 1_000) {
        let engine = Arc::new(MemoryEngine::new(seed));
        let committer = Committer::start(Arc::clone(&engine) as Arc<dyn Engine>, SyncMode::Group).expect("a thread");
        let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let mut crashes = Vec::new();
        std::thread::scope(|scope| {
            for (thread, acknowledged) in acknowledged.iter().enumerate() {
                let committer = &committer;
                scope.spawn(move || write_and_note(committer, thread as u8, acknowledged));
            }
            for _ in 0..5 {
                let before: Vec<u64> = acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
                crashes.push((before, engine.crash()));
            }
        });
        for (acknowledged, crashed) in crashes {
            for (thread, acknowledged) in acknowledged.iter().enumerate() {
                check_thread(&crashed, thread as u8, *acknowledged, seed);
            }
        }
    }
}

fn write_and_note(committer: &Committer, thread: u8, acknowledged: &AtomicU64) {
    for number in 1..=30_u64 {
        let mut batch = Batch::new();
        batch.put(Table::Summary, &[&[thread][..], &number.to_be_bytes()].concat(), b"content");
        let ticket = committer.commit(&batch).expect("written");
        committer.durable(ticket).wait().expect("durable");
        acknowledged.store(number, Ordering::SeqCst);
    }
}

fn check_thread(engine: &MemoryEngine, thread: u8, acknowledged: u64, seed: u64) {
    let is_there = |number: u64| {
        let key = [&[thread][..], &number.to_be_bytes()].concat();
        engine.get(Table::Summary, &key).expect("sound").is_some()
    };
    let count = (1..=30).take_while(|number| is_there(*number)).count() as u64;
    assert!(count >= acknowledged, "SEED={seed}: {acknowledged} acknowledged to thread {thread}, {count} there");
    assert!((count + 1..=30).all(|number| !is_there(number)), "SEED={seed}: a hole after {count} of thread {thread}");
}
