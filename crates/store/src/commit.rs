//! Group commit: one sync for all who wrote since the last one.
//!
//! A writer applies its batch under its database's lock and gets a [`Ticket`]; it lets go of the lock and waits, or
//! lets its client wait, until the ticket is durable. A thread of the [`Committer`] syncs whenever there is a ticket
//! that was not covered yet: while one sync runs, the next group gathers.
//!
//! Invariants: a ticket is numbered after its batch has reached the engine, so a sync that starts later covers it and all
//! smaller ones; `durable` never passes a ticket that no sync covered; after a failed sync nothing becomes durable and nothing is
//! written any more (*poisoned*), until the store is opened anew, because what the disk holds is then unknown.
//!
//! A [`Durable`] that is dropped leaves nothing behind; one that outlives the store does not keep the engine open, and is told the
//! outcome: the committer syncs once more when it is dropped. If the sync thread panics, the store is poisoned: nobody waits for ever.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};

use crate::batch::Batch;
use crate::engine::Engine;
use crate::error::{Error, Result};

/// The place of a write in the order of all writes of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// The ticket of one who wrote nothing: durable from the start.
    pub const NONE: Self = Self(0);
}

/// How writes become durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncMode {
    /// Concurrent writers share a sync. What a server wants.
    #[default]
    Group,
    /// Every writer syncs by itself. For comparison, and for tests without threads.
    Each,
    /// Writes count as durable at once; a power failure loses the last ones. For comparison, and for bulk loads.
    Off,
}

/// Orders writes and makes them durable. One per store.
pub struct Committer {
    engine: Arc<dyn Engine>,
    mode: SyncMode,
    log: Arc<Log>,
    /// Ends when `closing` is set, after a last sync; joined on drop. `None` unless the mode is [`SyncMode::Group`].
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the committer of an engine.
    pub fn start(engine: Arc<dyn Engine>, mode: SyncMode) -> Result<Self> {
        let log = Arc::new(Log::default());
        let thread = if mode == SyncMode::Group { Some(spawn(&engine, &log)?) } else { None };
        Ok(Self { engine, mode, log, thread })
    }

    /// Applies a batch and tells its place in the order. Durable once [`Committer::durable`] of the ticket is ready.
    pub fn commit(&self, batch: &Batch) -> Result<Ticket> {
        self.refuse_when_poisoned()?;
        if let Err(error) = self.engine.write(batch) {
            // A write that failed may have reached the log in part: like a failed sync, unless there was merely no room.
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

    /// Gives what to wait for: a future, or [`Durable::wait`] for a thread.
    pub fn durable(&self, ticket: Ticket) -> Durable {
        Durable { log: Arc::clone(&self.log), ticket: ticket.0, place: None }
    }

    /// Gives the ticket of the last write.
    #[must_use]
    pub fn last(&self) -> Ticket {
        Ticket(self.log.lock().written)
    }

    /// Tells how many writes and how many syncs there were.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let state = self.log.lock();
        (state.written, state.syncs)
    }

    /// Tells how many wait for a sync.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.log.lock().wakers.len()
    }

    /// Tells why the store refuses writes, if it does.
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        self.log.lock().poisoned.clone()
    }

    fn refuse_when_poisoned(&self) -> Result<()> {
        self.poisoned().map_or(Ok(()), |why| Err(Error::Poisoned(why)))
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.log.lock().closing = true;
        self.log.work.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was turned into poison by its `Alarm`; those who wait were told.
            let _ = thread.join();
        }
    }
}

/// Ready when a write is durable, or cannot become so. A future; threads call [`Durable::wait`].
#[must_use = "a write is durable only once this was waited for"]
pub struct Durable {
    log: Arc<Log>,
    ticket: u64,
    /// The waker that this future has left in the log; taken out when it is dropped.
    place: Option<Place>,
}

impl Durable {
    /// Blocks until the write is durable.
    pub fn wait(mut self) -> Result<()> {
        if let Some(outcome) = self.log.outcome_at_once(self.ticket) {
            return outcome;
        }
        let waker = Waker::from(Arc::new(Parked(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(outcome) = self.log.outcome_at_once(self.ticket) {
            return Poll::Ready(outcome);
        }
        let (log, ticket, place) = (Arc::clone(&self.log), self.ticket, self.place);
        let mut state = log.lock();
        if let Some(outcome) = state.outcome(ticket) {
            return Poll::Ready(outcome);
        }
        self.place = Some(state.leave_waker(ticket, place, context.waker()));
        Poll::Pending
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.log.lock().wakers.remove(&place);
        }
    }
}

/// Wakes a thread that waits in [`Durable::wait`].
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A waiter's place: its ticket first, so that those whom a sync covers come first; then a number of its own.
type Place = (u64, u64);

/// What is known of the log, shared between writers, waiters and the sync thread. Does not hold the engine.
#[derive(Default)]
struct Log {
    state: Mutex<State>,
    /// Told when there is something to sync, and at the end.
    work: Condvar,
    /// A copy of `State::durable`, never ahead of it, for those who need not wait at all.
    durable: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The last ticket given out. Its batch is in the engine.
    written: u64,
    /// The last ticket that is durable.
    durable: u64,
    /// How many syncs there were.
    syncs: u64,
    /// Why nothing is written any more.
    poisoned: Option<String>,
    /// The sync thread shall end.
    closing: bool,
    /// The sync thread waits for work, so that a writer must wake it.
    idle: bool,
    /// Whom to wake, in the order of their tickets.
    wakers: BTreeMap<Place, Waker>,
    /// Tells apart waiters of one ticket.
    waiters: u64,
}

impl State {
    fn outcome(&self, ticket: u64) -> Option<Result<()>> {
        assert!(ticket <= self.written, "a ticket is given out only after its write");
        if ticket <= self.durable {
            Some(Ok(()))
        } else {
            self.poisoned.as_ref().map(|why| Err(Error::Poisoned(why.clone())))
        }
    }

    fn leave_waker(&mut self, ticket: u64, place: Option<Place>, waker: &Waker) -> Place {
        assert!(place.is_none_or(|(known, _)| known == ticket), "a waiter waits for one ticket");
        assert!(ticket > self.durable && self.poisoned.is_none(), "who leaves a waker has somebody to wake it");
        let place = place.unwrap_or_else(|| {
            self.waiters += 1;
            (ticket, self.waiters)
        });
        let known = self.wakers.entry(place).or_insert_with(|| waker.clone());
        known.clone_from(waker);
        place
    }

    /// Takes out those who need not wait any longer.
    fn take_ready(&mut self) -> BTreeMap<Place, Waker> {
        if self.poisoned.is_some() {
            return std::mem::take(&mut self.wakers);
        }
        let later = self.wakers.split_off(&(self.durable.saturating_add(1), 0));
        let ready = std::mem::replace(&mut self.wakers, later);
        assert!(ready.keys().all(|(ticket, _)| *ticket <= self.durable), "who is woken need not wait");
        ready
    }
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the next ticket to a batch that has just reached the engine.
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

    /// Notes the outcome of a sync that covered the tickets up to `covered`, and wakes whom it concerns.
    fn finish(&self, covered: u64, outcome: Result<()>) {
        if let Err(error) = outcome {
            return self.poison(&error);
        }
        let mut state = self.lock();
        assert!(covered <= state.written, "a sync cannot cover what was not written");
        state.syncs += 1;
        // After a failed sync a later one may succeed without having written what the first one lost.
        if state.poisoned.is_none() {
            state.durable = state.durable.max(covered);
            assert!(self.durable.load(Ordering::Acquire) <= state.durable, "what is durable stays so");
            self.durable.store(state.durable, Ordering::Release);
        }
        let ready = state.take_ready();
        drop(state);
        ready.into_values().for_each(Waker::wake);
    }

    /// Ends all writing, and wakes all who wait.
    fn poison(&self, error: &Error) {
        let mut state = self.lock();
        state.poisoned.get_or_insert_with(|| error.to_string());
        let ready = state.take_ready();
        drop(state);
        ready.into_values().for_each(Waker::wake);
    }

    /// Tells the outcome without the lock, where that is possible.
    fn outcome_at_once(&self, ticket: u64) -> Option<Result<()>> {
        (ticket <= self.durable.load(Ordering::Acquire)).then_some(Ok(()))
    }

    /// Waits for something to sync; `None` is the end.
    fn next_target(&self) -> Option<u64> {
        let mut state = self.lock();
        while state.written == state.durable && !state.closing && state.poisoned.is_none() {
            state.idle = true;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        assert!(state.durable <= state.written, "nothing is durable that was not written");
        let ended = state.poisoned.is_some() || state.written == state.durable;
        (!ended).then_some(state.written)
    }
}

fn spawn(engine: &Arc<dyn Engine>, log: &Arc<Log>) -> Result<JoinHandle<()>> {
    let (engine, log) = (Arc::clone(engine), Arc::clone(log));
    let body = move || {
        let _alarm = Alarm(&log);
        while let Some(target) = log.next_target() {
            log.finish(target, engine.sync());
        }
    };
    std::thread::Builder::new()
        .name("log-sync".into())
        .spawn(body)
        .map_err(|error| Error::Failed { what: "start the log thread", why: error.to_string() })
}

/// Poisons the store when the sync thread panics, so that nobody waits for a thread that is gone.
struct Alarm<'log>(&'log Log);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(&Error::Failed { what: "sync the log", why: "the log thread panicked".into() });
        }
    }
}

#[cfg(test)]
mod tests;
