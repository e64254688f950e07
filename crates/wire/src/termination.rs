//! A signal that one connection must end because of the account that is logged in over it.
//!
//! The code that notices a change of an account calls [`SessionTermination::terminate`]. The protocol that serves the
//! connection sees the signal between two commands or while it waits for its client, sends its closing reply, and
//! closes. A protocol never starts a command after it has seen the signal. The sender of the signal drops connections
//! that do not end in time.
//!
//! The signal does not carry a reason: the peer gets the same message whatever happened to the account.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Signal that tells one connection to end. It is cheap to clone. A signal without other clones is never sent.
#[derive(Clone, Default)]
pub struct SessionTermination {
    signal: Arc<Signal>,
}

#[derive(Default)]
struct Signal {
    is_sent: AtomicBool,
    notify: Notify,
}

impl SessionTermination {
    /// Sends the signal. It cannot be withdrawn.
    pub fn terminate(&self) {
        self.signal.is_sent.store(true, Ordering::Release);
        self.signal.notify.notify_waiters();
    }

    /// Returns `true` if the signal was sent.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.signal.is_sent.load(Ordering::Acquire)
    }

    /// Waits until the signal is sent.
    pub async fn terminated(&self) {
        let mut notified = pin!(self.signal.notify.notified());
        // The waiter is registered before the check, so that a signal sent in between is not missed.
        notified.as_mut().enable();
        if !self.is_terminated() {
            notified.await;
        }
    }
}

impl fmt::Debug for SessionTermination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTermination").field("is_terminated", &self.is_terminated()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn termination_is_seen_by_earlier_and_later_waiters() {
        let termination = SessionTermination::default();
        let waiter = tokio::spawn({
            let termination = termination.clone();
            async move { termination.terminated().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished() && !termination.is_terminated());
        termination.terminate();
        waiter.await.expect("the waiter does not panic");
        termination.terminated().await;
        assert!(termination.is_terminated() && !SessionTermination::default().is_terminated());
    }
}
