//! The numbers of threads of a server, which follow from the configuration and the number of processors.

use config::keys::ServerKeys;

use crate::limits::LOGIN_THREADS_MAX;

/// The numbers of threads of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Threads that run the transactions of all protocols (`server.pool_tasks`).
    pub workers: usize,
    /// Threads that check logins.
    pub logins: usize,
    /// Threads that serve sockets (`server.network_threads`).
    pub network: usize,
}

impl ThreadCounts {
    /// Returns the numbers for a machine.
    #[must_use]
    pub fn new(keys: &ServerKeys, processors: u64) -> Self {
        let workers = keys.pool_tasks.unwrap_or_else(|| processors.saturating_mul(2).max(4));
        let network = keys.network_threads.unwrap_or_else(|| processors.div_ceil(2));
        Self { workers, logins: login_threads(workers), network }
    }
}

/// Returns the number of threads that check logins. It is smaller than the number of workers, so that logins leave
/// processors for those who have logged in.
fn login_threads(workers: usize) -> usize {
    (workers / 2).clamp(1, LOGIN_THREADS_MAX)
}

#[cfg(test)]
mod tests {
    use config::setting::AutoCount;
    use config::{ConfigSources, load};

    use super::*;

    #[test]
    fn threads_follow_the_processors_unless_they_are_set() {
        let mut keys = load(&ConfigSources::default()).expect("the defaults are valid").server;
        let counts = |workers, logins, network| ThreadCounts { workers, logins, network };
        assert_eq!(ThreadCounts::new(&keys, 1), counts(4, 2, 1));
        assert_eq!(ThreadCounts::new(&keys, 16), counts(32, 4, 8));
        keys.pool_tasks = AutoCount::Set(3);
        keys.network_threads = AutoCount::Set(5);
        assert_eq!(ThreadCounts::new(&keys, 16), counts(3, 1, 5));
    }

    #[test]
    fn logins_have_fewer_threads_than_other_work() {
        for (workers, expected) in [(1, 1), (2, 1), (4, 2), (8, 4), (64, 4)] {
            assert_eq!(login_threads(workers), expected, "{workers} workers");
        }
    }
}
