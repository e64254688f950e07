//! Group commit: one sync for all batches written since the previous sync.
//!
//! A writer applies its batch under its database's lock and gets a [`Ticket`]. It releases the lock and waits, or lets
//! its client wait, until the ticket is durable. A thread of the [`Committer`] syncs whenever there is a ticket that is
//! not covered yet. While one sync runs, the next group gathers.
//!
//! Invariants:
//! - A ticket is numbered after its batch has reached the engine, so a sync that starts later covers it and all smaller
//!   ones.
//! - `durable` never passes a ticket that no sync covered.
//! - After a failed sync nothing becomes durable and nothing more is written until the store is reopened, because the
//!   state of the disk is then unknown. The store is *poisoned*.
//!
//! Dropping a [`DurableFuture`] removes its waker. A [`DurableFuture`] that outlives the store does not keep the engine
//! open and still receives its outcome, because the committer syncs once more when it is dropped. If the sync thread
//! panics, the store is poisoned, so that no waiter blocks forever.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};

use base::sync::{Condvar, Mutex, MutexGuard};

use crate::batch::Batch;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// The position of a write in the order of all writes of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// The ticket of a caller that wrote nothing. Durable from the start.
    pub const NONE: Self = Self(0);
}

/// The policy by which writes become durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncMode {
    /// Concurrent writers share a sync. The normal mode of a server.
    #[default]
    Group,
    /// Every write is synced separately. For comparison, and for tests without threads.
    Each,
    /// Writes count as durable at once. A power failure loses the last ones. For comparison, and for bulk loads.
    Off,
}

/// Orders the writes of a store and makes them durable. There is one per store.
pub struct Committer {
    engine: Arc<dyn Engine>,
    mode: SyncMode,
    log: Arc<CommitState>,
    /// The sync thread. It ends after a last sync when `closing` is set, and is joined on drop. `None` unless the mode
    /// is [`SyncMode::Group`].
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the committer of an engine.
    pub fn start(engine: Arc<dyn Engine>, mode: SyncMode) -> Result<Self> {
        let log = Arc::new(CommitState::default());
        let thread = if mode == SyncMode::Group { Some(spawn(&engine, &log)?) } else { None };
        Ok(Self { engine, mode, log, thread })
    }

    /// Applies a batch and returns its ticket. The batch is durable once [`Committer::durable`] of the ticket is ready.
    ///
    /// Returns [`Error::Poisoned`] if the store is poisoned. A write error other than [`Error::Full`] poisons the
    /// store.
    pub fn commit(&self, batch: &Batch) -> Result<Ticket> {
        self.refuse_when_poisoned()?;
        if let Err(error) = self.engine.write(batch) {
            // A failed write may have reached the log in part, which is as bad as a failed sync. A write refused for
            // lack of space changes nothing.
            if !matches!(error, Error::Full(_)) {
                self.log.poison(&error);
            }
            return Err(error);
        }
        let ticket = self.log.number(self.mode);
        if self.mode == SyncMode::Each {
            self.log.finish(ticket, self.engine.sync());
            self.refuse_when_poisoned()?;
        }
        Ok(Ticket(ticket))
    }

    /// Returns a future that is ready when the ticket is durable. A thread calls [`DurableFuture::wait`] on it.
    pub fn durable(&self, ticket: Ticket) -> DurableFuture {
        DurableFuture { log: Arc::clone(&self.log), ticket: ticket.0, waiter: None }
    }

    /// Returns the ticket of the last write.
    #[must_use]
    pub fn last(&self) -> Ticket {
        Ticket(self.log.lock().written)
    }

    /// Returns the number of writes and the number of syncs.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let state = self.log.lock();
        (state.written, state.syncs)
    }

    /// Returns the number of waiters for a sync.
    #[must_use]
    pub fn waiter_count(&self) -> usize {
        self.log.lock().wakers.len()
    }

    /// Returns the reason why the store refuses writes, or `None` if it does not.
    #[must_use]
    pub fn poison_reason(&self) -> Option<String> {
        self.log.lock().poisoned.clone()
    }

    fn refuse_when_poisoned(&self) -> Result<()> {
        self.poison_reason().map_or(Ok(()), |reason| Err(Error::Poisoned(reason)))
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.log.lock().closing = true;
        self.log.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, its guard has poisoned the store and woken the waiters.
            let _ = thread.join();
        }
    }
}

/// A future that is ready when a write is durable, or can no longer become durable. Threads call
/// [`DurableFuture::wait`].
#[must_use = "a write is durable only after this was awaited"]
pub struct DurableFuture {
    log: Arc<CommitState>,
    ticket: u64,
    /// Key of the waker that this future has left in the log. The waker is removed on drop.
    waiter: Option<WaiterKey>,
}

impl DurableFuture {
    /// Blocks until the write is durable.
    pub fn wait(mut self) -> Result<()> {
        if let Some(outcome) = self.log.outcome_if_durable(self.ticket) {
            return outcome;
        }
        let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Future for DurableFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(outcome) = self.log.outcome_if_durable(self.ticket) {
            return Poll::Ready(outcome);
        }
        let log = Arc::clone(&self.log);
        let ticket = self.ticket;
        let place = self.waiter;
        let mut state = log.lock();
        if let Some(outcome) = state.outcome(ticket) {
            return Poll::Ready(outcome);
        }
        self.waiter = Some(state.leave_waker(ticket, place, context.waker()));
        Poll::Pending
    }
}

impl Drop for DurableFuture {
    fn drop(&mut self) {
        if let Some(place) = self.waiter {
            self.log.lock().wakers.remove(&place);
        }
    }
}

/// A waker that unparks a thread blocked in [`DurableFuture::wait`].
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The key of a waiter: its ticket, then a number of its own. The ticket comes first, so that the waiters covered by a
/// sync sort first.
type WaiterKey = (u64, u64);

/// The state of the log, shared between writers, waiters and the sync thread. Does not hold the engine.
#[derive(Default)]
struct CommitState {
    state: Mutex<State>,
    /// Notified when there is a ticket to sync, and when the committer closes.
    work: Condvar,
    /// A copy of `State::durable`, never ahead of it, so that waiters of a durable ticket need no lock.
    durable: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The last ticket issued. Its batch is in the engine.
    written: u64,
    /// The last durable ticket.
    durable: u64,
    /// Number of completed syncs.
    syncs: u64,
    /// The reason why nothing more is written, if the store is poisoned.
    poisoned: Option<String>,
    /// Whether the sync thread must stop.
    closing: bool,
    /// Whether the sync thread waits for work, so that a writer must wake it.
    idle: bool,
    /// The wakers of the waiters, in the order of their tickets.
    wakers: BTreeMap<WaiterKey, Waker>,
    /// Number of waiters so far. Distinguishes the waiters of one ticket.
    waiters: u64,
}

impl State {
    fn outcome(&self, ticket: u64) -> Option<Result<()>> {
        assert!(ticket <= self.written, "a ticket is issued only after its write");
        if ticket <= self.durable {
            Some(Ok(()))
        } else {
            self.poisoned.as_ref().map(|reason| Err(Error::Poisoned(reason.clone())))
        }
    }

    fn leave_waker(&mut self, ticket: u64, place: Option<WaiterKey>, waker: &Waker) -> WaiterKey {
        assert!(place.is_none_or(|(known, _)| known == ticket), "a waiter waits for one ticket");
        assert!(ticket > self.durable && self.poisoned.is_none(), "a later sync or failure wakes the waiter");
        let place = place.unwrap_or_else(|| {
            self.waiters += 1;
            (ticket, self.waiters)
        });
        let known = self.wakers.entry(place).or_insert_with(|| waker.clone());
        known.clone_from(waker);
        place
    }

    /// Removes and returns the wakers whose wait is over.
    fn take_ready(&mut self) -> BTreeMap<WaiterKey, Waker> {
        if self.poisoned.is_some() {
            return std::mem::take(&mut self.wakers);
        }
        let later = self.wakers.split_off(&(self.durable.saturating_add(1), 0));
        let ready = std::mem::replace(&mut self.wakers, later);
        assert!(
            ready.keys().all(|(ticket, _)| *ticket <= self.durable),
            "only waiters with a durable ticket are woken"
        );
        ready
    }
}

impl CommitState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Issues the next ticket for a batch that has just reached the engine.
    fn number(&self, mode: SyncMode) -> u64 {
        let mut state = self.lock();
        state.written += 1;
        let ticket = state.written;
        assert!(state.durable < ticket, "nothing is durable before it is written");
        if mode == SyncMode::Off {
            state.durable = ticket;
            self.durable.store(ticket, Ordering::Release);
        }
        let wake = std::mem::take(&mut state.idle);
        drop(state);
        if wake {
            self.work.notify_one();
        }
        ticket
    }

    /// Records the outcome of a sync that covered the tickets up to `covered`, and wakes the waiters that are ready.
    fn finish(&self, covered: u64, outcome: Result<()>) {
        if let Err(error) = outcome {
            return self.poison(&error);
        }
        let mut state = self.lock();
        assert!(covered <= state.written, "a sync cannot cover what was not written");
        state.syncs += 1;
        // After a failed sync, a later one may succeed without having written the data that the first one lost.
        if state.poisoned.is_none() {
            state.durable = state.durable.max(covered);
            assert!(self.durable.load(Ordering::Acquire) <= state.durable, "the durable ticket never decreases");
            self.durable.store(state.durable, Ordering::Release);
        }
        let ready = state.take_ready();
        drop(state);
        ready.into_values().for_each(Waker::wake);
    }

    /// Refuses all further writes and wakes all waiters.
    fn poison(&self, error: &Error) {
        let mut state = self.lock();
        state.poisoned.get_or_insert_with(|| error.to_string());
        let ready = state.take_ready();
        drop(state);
        ready.into_values().for_each(Waker::wake);
    }

    /// Returns the outcome without taking the lock if the ticket is already durable, otherwise `None`.
    fn outcome_if_durable(&self, ticket: u64) -> Option<Result<()>> {
        (ticket <= self.durable.load(Ordering::Acquire)).then_some(Ok(()))
    }

    /// Waits until there is a ticket to sync and returns the last one. Returns `None` if the sync thread must stop.
    fn next_target(&self) -> Option<u64> {
        let mut state = self.lock();
        while state.written == state.durable && !state.closing && state.poisoned.is_none() {
            state.idle = true;
            self.work.wait(&mut state);
        }
        state.idle = false;
        assert!(state.durable <= state.written, "nothing is durable before it is written");
        let ended = state.poisoned.is_some() || state.written == state.durable;
        (!ended).then_some(state.written)
    }
}

fn spawn(engine: &Arc<dyn Engine>, log: &Arc<CommitState>) -> Result<JoinHandle<()>> {
    let engine = Arc::clone(engine);
    let log = Arc::clone(log);
    let body = move || {
        let _alarm = PanicGuard(&log);
        while let Some(target) = log.next_target() {
            log.finish(target, engine.sync());
        }
    };
    std::thread::Builder::new()
        .name("log-sync".into())
        .spawn(body)
        .map_err(|error| Error::Failed { what: "start the log thread", reason: error.to_string() })
}

/// A guard that poisons the store if the sync thread panics, so that no waiter waits for a dead thread.
struct PanicGuard<'log>(&'log CommitState);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(&Error::Failed { what: "sync the log", reason: "the log thread panicked".into() });
        }
    }
}

#[cfg(test)]
mod tests;
