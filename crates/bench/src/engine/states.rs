//! The states of users, and how many users are in each.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The state of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserState {
    /// Its time to connect has not come.
    WaitingToConnect,
    /// The login has begun.
    LoggingIn,
    /// Logged in; the next step is not due.
    Pausing,
    /// A step has begun.
    InStep,
    /// Logged out between two iterations, as the workload wants it.
    LoggedOut,
    /// The login of the next iteration has begun.
    LoggingInAgain,
    /// The login has failed, or the session was lost.
    Disconnected,
    /// Logged in after the last step of the plan.
    Done,
}

impl UserState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::WaitingToConnect,
        Self::LoggingIn,
        Self::Pausing,
        Self::InStep,
        Self::LoggedOut,
        Self::LoggingInAgain,
        Self::Disconnected,
        Self::Done,
    ];

    /// Returns `true` if a login has begun.
    pub fn is_logging_in(self) -> bool {
        matches!(self, Self::LoggingIn | Self::LoggingInAgain)
    }

    /// Returns `true` if the user is logged in, or is between two sessions on plan.
    pub fn is_connected(self) -> bool {
        matches!(self, Self::Pausing | Self::InStep | Self::LoggedOut | Self::LoggingInAgain | Self::Done)
    }
}

/// How many users are in each state, shared by all users of a run.
#[derive(Debug, Default)]
pub struct StateCounts {
    by_state: [AtomicU64; UserState::ALL.len()],
    /// Counted apart: the sum of several states would count a user twice that changes from one to the other meanwhile.
    connected: AtomicU64,
    iterated: AtomicU64,
    /// Users that will not begin another step.
    finished: AtomicU64,
    finished_changed: Notify,
}

impl StateCounts {
    /// Adds a user that waits to connect.
    pub fn join(&self) {
        self.count(UserState::WaitingToConnect).fetch_add(1, Ordering::Relaxed);
    }

    /// Moves a user to another state.
    pub fn change(&self, from: UserState, to: UserState) {
        match (from.is_connected(), to.is_connected()) {
            (false, true) => self.connected.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.connected.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        self.count(from).fetch_sub(1, Ordering::Relaxed);
        self.count(to).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a user that has completed its first iteration.
    pub fn complete_iteration(&self) {
        self.iterated.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a user that will not begin another step.
    pub fn finish(&self) {
        self.finished.fetch_add(1, Ordering::Relaxed);
        self.finished_changed.notify_one();
    }

    /// Waits until so many users will not begin another step.
    pub async fn all_finished(&self, users: u64) {
        while self.finished.load(Ordering::Relaxed) < users {
            self.finished_changed.notified().await;
        }
    }

    /// Returns the number of users in a state.
    pub fn in_state(&self, state: UserState) -> u64 {
        self.count(state).load(Ordering::Relaxed)
    }

    /// Returns the number of connected users.
    pub fn connected(&self) -> u64 {
        self.connected.load(Ordering::Relaxed)
    }

    /// Returns the number of users that have completed an iteration.
    pub fn iterated(&self) -> u64 {
        self.iterated.load(Ordering::Relaxed)
    }

    fn count(&self, state: UserState) -> &AtomicU64 {
        &self.by_state[state as usize]
    }
}
