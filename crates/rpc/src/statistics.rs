//! Counters of calls, as they arrive and as they are answered.
//!
//! The pool of workers counts jobs instead: a call may be divided into several, and some calls need none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters of one call.
#[derive(Debug)]
pub(crate) struct CallCounters {
    /// The path of the call, as in [`proto::METHODS`].
    pub(crate) path: &'static str,
    received: AtomicU64,
    answered_us: AtomicU64,
}

impl CallCounters {
    /// Counts a request.
    pub(crate) fn record_request(&self) {
        self.received.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the time of a call whose reply begins.
    pub(crate) fn record_reply(&self, time: Duration) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.answered_us.fetch_add(time_us, Ordering::Relaxed);
    }
}

/// The counters of all calls that exist.
#[derive(Debug)]
pub struct Statistics {
    /// One for each of [`proto::METHODS`].
    calls: Box<[CallCounters]>,
}

/// What has been counted of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallStatistics {
    /// The service and the call, such as `Notes/OpenNote`.
    pub call: &'static str,
    /// Number of requests, those that were refused included.
    pub received: u64,
    /// The time from the header of the requests to the header of their replies, which is sent when the first message
    /// of the reply is there.
    pub answered: Duration,
}

impl Default for Statistics {
    fn default() -> Self {
        let counters =
            |path: &&'static str| CallCounters { path, received: AtomicU64::new(0), answered_us: AtomicU64::new(0) };
        Self { calls: proto::METHODS.iter().map(counters).collect() }
    }
}

impl Statistics {
    /// Returns the counters of the call with a path, or `None` if there is no such call.
    pub(crate) fn call(&self, path: &str) -> Option<&CallCounters> {
        self.calls.iter().find(|call| call.path == path)
    }

    /// Returns the counters of the calls that have been received, in the order of the protocol.
    pub fn calls(&self) -> impl Iterator<Item = CallStatistics> {
        let all = self.calls.iter().map(|counters| CallStatistics {
            call: counters.path.strip_prefix("/doublet.v1.").unwrap_or(counters.path),
            received: counters.received.load(Ordering::Relaxed),
            answered: Duration::from_micros(counters.answered_us.load(Ordering::Relaxed)),
        });
        all.filter(|call| call.received > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_name() {
        let statistics = Statistics::default();
        let call = statistics.call("/doublet.v1.Notes/OpenNote").expect("it exists");
        call.record_request();
        call.record_request();
        call.record_reply(Duration::from_millis(3));
        assert!(statistics.call("/doublet.v1.Notes/None").is_none());
        assert!(statistics.call("").is_none());
        let calls: Vec<_> = statistics.calls().collect();
        let counted = CallStatistics { call: "Notes/OpenNote", received: 2, answered: Duration::from_millis(3) };
        assert_eq!(calls, [counted]);
    }
}
