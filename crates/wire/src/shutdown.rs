//! The signal that the server ends, in two phases.
//!
//! *Draining*: accept no new connections, finish the current command, send the closing reply, close. *Closing*: the
//! time for that is over; drop everything. [`Shutdown`] is cheap to clone, and every task holds a clone.

use std::fmt;

use tokio::sync::watch;

/// Phase of the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownPhase {
    /// The server runs normally.
    Running,
    /// Current work is finished, and no new work is started.
    Draining,
    /// Tasks end immediately.
    Closing,
}

/// Announces the shutdown and lets tasks wait for it.
#[derive(Clone)]
pub struct Shutdown {
    phase: watch::Sender<ShutdownPhase>,
}

impl Shutdown {
    /// Creates a signal in [`ShutdownPhase::Running`].
    #[must_use]
    pub fn new() -> Self {
        Self { phase: watch::Sender::new(ShutdownPhase::Running) }
    }

    /// Starts draining. A later phase stays as it is.
    pub fn drain(&self) {
        self.advance(ShutdownPhase::Draining);
    }

    /// Enters [`ShutdownPhase::Closing`].
    pub fn close(&self) {
        self.advance(ShutdownPhase::Closing);
    }

    /// Returns the current phase.
    #[must_use]
    pub fn phase(&self) -> ShutdownPhase {
        *self.phase.borrow()
    }

    /// Returns `true` if the server is draining or closing.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.phase() >= ShutdownPhase::Draining
    }

    /// Waits until the server drains or closes.
    pub async fn draining(&self) {
        self.wait_for_phase(ShutdownPhase::Draining).await;
    }

    /// Waits until the server closes.
    pub async fn closing(&self) {
        self.wait_for_phase(ShutdownPhase::Closing).await;
    }

    async fn wait_for_phase(&self, wanted: ShutdownPhase) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= wanted).await;
    }

    fn advance(&self, to: ShutdownPhase) {
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
        assert_eq!(shutdown.phase(), ShutdownPhase::Closing);
        shutdown.draining().await;
    }
}
