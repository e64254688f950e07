//! A signal that one connection must end because of the account that is logged in over it.
//!
//! The code that notices a change of an account calls [`SessionTermination::terminate`]. The protocol that serves the
//! connection sees the signal between two commands or while it waits for its client, says good-bye in its own way, and
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
    word: Arc<Signal>,
}

#[derive(Default)]
struct Signal {
    given: AtomicBool,
    notify: Notify,
}

impl SessionTermination {
    /// Sends the signal. It cannot be withdrawn.
    pub fn terminate(&self) {
        self.word.given.store(true, Ordering::Release);
        self.word.notify.notify_waiters();
    }

    /// Returns `true` if the signal was sent.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.word.given.load(Ordering::Acquire)
    }

    /// Waits until the signal is sent.
    pub async fn given(&self) {
        let mut heard = pin!(self.word.notify.notified());
        // The waiter is registered before the check, so that a signal sent in between is not missed.
        heard.as_mut().enable();
        if !self.is_terminated() {
            heard.await;
        }
    }
}

impl fmt::Debug for SessionTermination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTermination").field("is_given", &self.is_terminated()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_word_is_heard_before_and_after() {
        let dismissal = SessionTermination::default();
        let waiter = tokio::spawn({
            let dismissal = dismissal.clone();
            async move { dismissal.given().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished() && !dismissal.is_terminated());
        dismissal.terminate();
        waiter.await.expect("the waiter does not panic");
        dismissal.given().await;
        assert!(dismissal.is_terminated() && !SessionTermination::default().is_terminated());
    }
}
