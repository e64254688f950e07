//! Concurrent requests of one account: a person whose client sends more than the limits waits for nobody else.

use std::collections::HashMap;
use std::sync::Arc;

use base::sync::Mutex;

/// Counts the concurrent requests of accounts.
#[derive(Debug)]
pub struct AccountLimits {
    per_account_max: usize,
    total_max: usize,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    total: usize,
    by_account: HashMap<String, usize>,
}

impl AccountLimits {
    /// Creates the counter with the maximum number of requests of one account, and of all together.
    #[must_use]
    pub fn new(per_account_max: usize, total_max: usize) -> Arc<Self> {
        Arc::new(Self { per_account_max, total_max, running: Mutex::default() })
    }

    /// Counts a request until the permit is dropped. Returns `None` if there are as many as there may be.
    #[must_use]
    pub fn begin(self: &Arc<Self>, account: &str) -> Option<RequestPermit> {
        let mut running = self.running.lock();
        let own = running.by_account.get(account).copied().unwrap_or(0);
        if running.total >= self.total_max || own >= self.per_account_max {
            return None;
        }
        running.total += 1;
        running.by_account.insert(account.to_owned(), own + 1);
        Some(RequestPermit { limits: Arc::clone(self), account: account.to_owned() })
    }
}

/// A request that is counted until the permit is dropped.
#[derive(Debug)]
pub struct RequestPermit {
    limits: Arc<AccountLimits>,
    account: String,
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let mut running = self.limits.running.lock();
        running.total -= 1;
        if let Some(count) = running.by_account.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                running.by_account.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_limits_of_their_own() {
        let limits = AccountLimits::new(2, 4);
        let first = limits.begin("ann").expect("the first");
        let second = limits.begin("ann").expect("the second");
        assert!(limits.begin("ann").is_none());
        assert!(limits.begin("bob").is_some());
        let others = ["bob", "eve"].map(|account| limits.begin(account));
        assert!(others.iter().all(Option::is_some));
        assert!(limits.begin("dan").is_none(), "there are as many as all may have");
        drop(others);
        drop(first);
        assert!(limits.begin("ann").is_some());
        drop(second);
        let running = limits.running.lock();
        assert_eq!((running.total, running.by_account.len()), (0, 0));
    }
}
