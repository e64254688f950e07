//! Concurrent requests of one account: a person whose client sends more than the limits waits for nobody else.

use std::collections::HashMap;
use std::sync::Arc;

use base::sync::Mutex;

/// Counts the concurrent requests of accounts.
#[derive(Debug)]
pub struct AccountLimits {
    per_account_max: usize,
    running: Mutex<HashMap<String, usize>>,
}

impl AccountLimits {
    /// Creates the counter with the maximum number of requests of one account.
    #[must_use]
    pub fn new(per_account_max: usize) -> Arc<Self> {
        Arc::new(Self { per_account_max, running: Mutex::default() })
    }

    /// Returns the maximum number of requests of one account.
    #[must_use]
    pub fn per_account_max(&self) -> usize {
        self.per_account_max
    }

    /// Counts a request until the permit is dropped. Returns `None` if the account has as many as it may.
    #[must_use]
    pub fn begin(self: &Arc<Self>, account: &str) -> Option<RequestPermit> {
        let mut running = self.running.lock();
        let count = running.entry(account.to_owned()).or_default();
        if *count >= self.per_account_max {
            return None;
        }
        *count += 1;
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
        if let Some(count) = running.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_limits_of_their_own() {
        let limits = AccountLimits::new(2);
        let first = limits.begin("ann").expect("the first");
        let second = limits.begin("ann").expect("the second");
        assert!(limits.begin("ann").is_none());
        assert!(limits.begin("bob").is_some());
        drop(first);
        assert!(limits.begin("ann").is_some());
        drop(second);
        assert!(limits.running.lock().is_empty());
    }
}
