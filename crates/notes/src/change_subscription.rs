//! Notification of changed databases, for tasks that keep data about all of them up to date.
//!
//! A [`ChangeSubscriber`] collects the numbers of databases that had a transaction, were created or deleted, or got
//! other options, until they are taken. It does not describe the changes: the task that follows knows by modseq what it
//! has already processed. The size is bounded by the number of databases.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use base::DbNumber;
use base::sync::{Mutex, RwLock};
use event_listener::{Event, EventListener};

/// The databases that changed since they were last taken.
#[derive(Debug, Default)]
pub struct ChangeSubscriber {
    changed: Mutex<HashSet<DbNumber>>,
    notified: Event,
}

impl ChangeSubscriber {
    /// Returns the databases that changed, in the order of their numbers, and clears the set.
    #[must_use]
    pub fn take(&self) -> Vec<DbNumber> {
        let taken = std::mem::take(&mut *self.changed.lock());
        let mut taken: Vec<DbNumber> = taken.into_iter().collect();
        taken.sort_unstable();
        taken
    }

    /// Returns a listener that is notified of the next change. Create it before calling [`ChangeSubscriber::take`], so
    /// that no change is missed.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.notified.listen()
    }
}

/// All followers.
#[derive(Debug, Default)]
pub(crate) struct ChangeSubscribers {
    followers: RwLock<Vec<Weak<ChangeSubscriber>>>,
}

impl ChangeSubscribers {
    /// Adds a follower, which is active until it is dropped.
    pub(crate) fn add(&self) -> Arc<ChangeSubscriber> {
        let follower = Arc::new(ChangeSubscriber::default());
        let mut followers = self.followers.write();
        followers.retain(|follower| follower.strong_count() > 0);
        followers.push(Arc::downgrade(&follower));
        follower
    }

    /// Notifies all followers that a database changed.
    pub(crate) fn notify(&self, database: DbNumber) {
        for follower in self.followers.read().iter().filter_map(Weak::upgrade) {
            let is_new = follower.changed.lock().insert(database);
            if is_new {
                follower.notified.notify(usize::MAX);
            }
        }
    }
}
