//! Which databases changed: for tasks that keep something up to date over all of them.
//!
//! A [`Follower`] collects the numbers of databases that had a transaction, were made, deleted, or got other options, until somebody takes
//! them. It tells that there is something to look at, not what: whoever follows knows by modseqs what it has seen. Bounded by how many
//! databases there are.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use base::DbNumber;
use event_listener::{Event, EventListener};

/// What changed since it was taken last.
#[derive(Debug, Default)]
pub struct Follower {
    changed: Mutex<HashSet<DbNumber>>,
    told: Event,
}

impl Follower {
    /// Takes the databases that changed, in the order of their numbers.
    #[must_use]
    pub fn take(&self) -> Vec<DbNumber> {
        let taken = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        let mut taken: Vec<DbNumber> = taken.into_iter().collect();
        taken.sort_unstable();
        taken
    }

    /// Gives something to wait for: ready after the next change. Take it before [`Follower::take`].
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.told.listen()
    }
}

/// Those who follow.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    followers: RwLock<Vec<Weak<Follower>>>,
}

impl Followers {
    /// Adds one, which follows until it is dropped.
    pub(crate) fn add(&self) -> Arc<Follower> {
        let follower = Arc::new(Follower::default());
        let mut followers = self.followers.write().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| follower.strong_count() > 0);
        followers.push(Arc::downgrade(&follower));
        follower
    }

    /// Tells all that a database changed.
    pub(crate) fn tell(&self, database: DbNumber) {
        for follower in self.followers.read().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade) {
            let is_new = follower.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(database);
            if is_new {
                follower.told.notify(usize::MAX);
            }
        }
    }
}
