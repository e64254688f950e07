//! The number of delivery reports that one sender receives within an hour.
//!
//! A reverse path may be forged, and each message may cause reports about many recipients. So this server could be made
//! to send a third party any number of reports. Above the limit, reports of success and of delay are dropped, and
//! failures stay in the queue as dead mail, which the operator sees.
//!
//! A report counts when it is written. So an outcome that cannot be written now, and is tried again and again, does not
//! use up the reports of its sender.
//!
//! Senders are distinguished by their reverse path in lower case. The counts of at most [`REPORT_SENDERS_MAX`] senders
//! are kept, in memory; those that received no report for the longest time are forgotten.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::lru_map::LruMap;
use base::sync::Mutex;

use crate::hourly_rate::HourlyRate;
use crate::limits::REPORT_SENDERS_MAX;
use crate::router::dsn::Action;

/// Maximum number of reports that one sender receives within an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportRates {
    /// All reports.
    pub all: u64,
    /// Reports of success, which also count as reports.
    pub success: u64,
}

impl Default for ReportRates {
    fn default() -> Self {
        Self { all: 100, success: 20 }
    }
}

/// Counts the reports of all senders.
pub(crate) struct ReportLimits {
    rates: ReportRates,
    senders: Mutex<LruMap<String, SenderReports>>,
    suppressed: AtomicU64,
}

/// The recent reports of one sender.
#[derive(Clone, Copy, Default)]
struct SenderReports {
    all: HourlyRate,
    success: HourlyRate,
}

impl SenderReports {
    /// Returns the reports after one more, or `None` if they are too many then.
    fn after(self, action: Action, rates: ReportRates, now: Duration) -> Option<Self> {
        let all = self.all.after(1, rates.all, now)?;
        let success = match action {
            Action::Delivered | Action::Relayed | Action::Expanded => self.success.after(1, rates.success, now)?,
            Action::Delayed | Action::Failed => self.success,
        };
        Some(Self { all, success })
    }
}

impl ReportLimits {
    pub(crate) fn new(rates: ReportRates) -> Self {
        Self { rates, senders: Mutex::new(LruMap::new(REPORT_SENDERS_MAX)), suppressed: AtomicU64::new(0) }
    }

    /// Returns `true` if a sender may receive a report at a monotonic time. Otherwise the report counts as suppressed.
    pub(crate) fn permits(&self, sender: &str, action: Action, now: Duration) -> bool {
        let reports = self.senders.lock().peek(&sender.to_lowercase()).copied().unwrap_or_default();
        let is_permitted = reports.after(action, self.rates, now).is_some();
        if !is_permitted {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
        }
        is_permitted
    }

    /// Counts a report that is written.
    pub(crate) fn record(&self, sender: &str, action: Action, now: Duration) {
        let mut senders = self.senders.lock();
        let reports = senders.entry(&sender.to_lowercase());
        *reports = reports.after(action, self.rates, now).unwrap_or(*reports);
    }

    /// Returns the number of reports that were not sent.
    pub(crate) fn suppressed(&self) -> u64 {
        self.suppressed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(9);

    /// Writes a report if it is permitted.
    fn report(limits: &ReportLimits, sender: &str, action: Action) -> bool {
        let is_permitted = limits.permits(sender, action, NOW);
        if is_permitted {
            limits.record(sender, action, NOW);
        }
        is_permitted
    }

    #[test]
    fn each_sender_has_its_own_count() {
        let limits = ReportLimits::new(ReportRates { all: 2, success: 1 });
        assert!(report(&limits, "ann@acme.test", Action::Failed));
        assert!(report(&limits, "Ann@Acme.test", Action::Delayed));
        assert!(!report(&limits, "ann@acme.test", Action::Failed), "the case of an address does not matter");
        assert!(report(&limits, "bob@acme.test", Action::Failed));
        assert_eq!(limits.suppressed(), 1);
    }

    #[test]
    fn reports_of_success_have_a_lower_limit() {
        let limits = ReportLimits::new(ReportRates { all: 3, success: 1 });
        for (action, is_permitted) in [
            (Action::Relayed, true),
            (Action::Delivered, false),
            (Action::Expanded, false),
            (Action::Failed, true),
            (Action::Delayed, true),
            (Action::Failed, false),
        ] {
            assert_eq!(report(&limits, "ann@acme.test", action), is_permitted, "{action:?}");
        }
        assert_eq!(limits.suppressed(), 3);
    }

    #[test]
    fn reports_that_are_not_written_do_not_count() {
        let limits = ReportLimits::new(ReportRates { all: 1, success: 1 });
        for _ in 0..9 {
            assert!(limits.permits("ann@acme.test", Action::Failed, NOW));
        }
        assert!(report(&limits, "ann@acme.test", Action::Failed));
        assert!(!limits.permits("ann@acme.test", Action::Failed, NOW));
    }
}
