//! Counters of calls, as they arrive and as they are answered.
//!
//! The pool of workers counts jobs instead: a call may be divided into several, and some calls need none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters of one call.
#[derive(Debug, Default)]
struct Counters {
    received: AtomicU64,
    answered_us: AtomicU64,
}

/// The counters of all calls that exist.
#[derive(Debug)]
pub struct Statistics {
    /// One for each of [`proto::METHODS`].
    calls: Box<[Counters]>,
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
        Self { calls: proto::METHODS.iter().map(|_| Counters::default()).collect() }
    }
}

impl Statistics {
    /// Counts a request. Calls that do not exist are not counted.
    pub(crate) fn record_request(&self, path: Option<&str>) {
        if let Some(counters) = self.counters(path) {
            counters.received.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds the time of a call whose reply begins.
    pub(crate) fn record_reply(&self, path: Option<&str>, time: Duration) {
        if let Some(counters) = self.counters(path) {
            let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            counters.answered_us.fetch_add(time_us, Ordering::Relaxed);
        }
    }

    fn counters(&self, path: Option<&str>) -> Option<&Counters> {
        let index = proto::METHODS.iter().position(|known| Some(*known) == path)?;
        self.calls.get(index)
    }

    /// Returns the counters of the calls that have been received, in the order of the protocol.
    pub fn calls(&self) -> impl Iterator<Item = CallStatistics> {
        let all = proto::METHODS.iter().zip(&self.calls).map(|(path, counters)| CallStatistics {
            call: path.strip_prefix("/doublet.v1.").unwrap_or(path),
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
        let path = Some("/doublet.v1.Notes/OpenNote");
        statistics.record_request(path);
        statistics.record_request(path);
        statistics.record_reply(path, Duration::from_millis(3));
        statistics.record_request(Some("/doublet.v1.Notes/None"));
        statistics.record_request(None);
        let calls: Vec<_> = statistics.calls().collect();
        let counted = CallStatistics { call: "Notes/OpenNote", received: 2, answered: Duration::from_millis(3) };
        assert_eq!(calls, [counted]);
    }
}
