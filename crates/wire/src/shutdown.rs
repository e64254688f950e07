//! The signal that the server ends, in two steps.
//!
//! *Draining*: take no new connection; finish the command at hand, say good-bye, close. *Closing*: the time for that
//! is over; drop everything. [`Shutdown`] is cheap to clone; everybody holds one.

use std::fmt;

use tokio::sync::watch;

/// How far the shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// There is no shutdown.
    Running,
    /// Finish what is at hand and begin nothing new.
    Draining,
    /// Leave at once.
    Closing,
}

/// Announces the shutdown and lets tasks wait for it.
#[derive(Clone)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
}

impl Shutdown {
    /// Starts in [`Phase::Running`].
    #[must_use]
    pub fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Running) }
    }

    /// Begins to drain. Later phases stay as they are.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Ends everything.
    pub fn close(&self) {
        self.advance(Phase::Closing);
    }

    /// Gives the current phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Tells whether the server drains or closes.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.phase() >= Phase::Draining
    }

    /// Waits until the server drains (or closes).
    pub async fn draining(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Waits until the server closes.
    pub async fn closing(&self) {
        self.reached(Phase::Closing).await;
    }

    async fn reached(&self, wanted: Phase) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= wanted).await;
    }

    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let rises = *phase < to;
            if rises {
                *phase = to;
            }
            rises
        });
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown").field("phase", &self.phase()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiters_wake_in_their_phase() {
        let shutdown = Shutdown::new();
        let draining = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.draining().await }
        });
        let closing = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.closing().await }
        });
        tokio::task::yield_now().await;
        assert!(!draining.is_finished());
        shutdown.drain();
        draining.await.expect("the waiter does not panic");
        assert!(!closing.is_finished());
        shutdown.close();
        closing.await.expect("the waiter does not panic");
    }

    #[tokio::test]
    async fn phases_never_go_back() {
        let shutdown = Shutdown::new();
        assert!(!shutdown.is_draining());
        shutdown.close();
        shutdown.drain();
        assert_eq!(shutdown.phase(), Phase::Closing);
        shutdown.draining().await;
    }
}
