//! The word that one connection has to end, because of who has logged in over it.
//!
//! Whoever knows that an account is not what it was says [`Dismissal::dismiss`]; the protocol that serves the connection hears of it
//! between two commands or while it waits for its client, says good-bye in its own way, and closes. A protocol never begins
//! a command after it has been told. Who gave the word cuts off what does not end in time.
//!
//! Left out: why. The peer is told the same whatever happened to the account.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Announces to one connection that it ends. Cheap to clone; one that nobody else holds is never given.
#[derive(Clone, Default)]
pub struct Dismissal {
    word: Arc<Word>,
}

#[derive(Default)]
struct Word {
    given: AtomicBool,
    heard: Notify,
}

impl Dismissal {
    /// Gives the word. It is never taken back.
    pub fn dismiss(&self) {
        self.word.given.store(true, Ordering::Release);
        self.word.heard.notify_waiters();
    }

    /// Tells whether the word was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.word.given.load(Ordering::Acquire)
    }

    /// Waits until the word is given.
    pub async fn given(&self) {
        let mut heard = pin!(self.word.heard.notified());
        // Listening begins before the look, so that a word between the two is not missed.
        heard.as_mut().enable();
        if !self.is_given() {
            heard.await;
        }
    }
}

impl fmt::Debug for Dismissal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dismissal").field("is_given", &self.is_given()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_word_is_heard_before_and_after() {
        let dismissal = Dismissal::default();
        let waiter = tokio::spawn({
            let dismissal = dismissal.clone();
            async move { dismissal.given().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished() && !dismissal.is_given());
        dismissal.dismiss();
        waiter.await.expect("the waiter does not panic");
        dismissal.given().await;
        assert!(dismissal.is_given() && !Dismissal::default().is_given());
    }
}
