//! The time of day, for the names of folders and for reports. Runs measure with the clock of tokio.

use std::time::{SystemTime, UNIX_EPOCH};

use base::Timestamp;

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "a load generator tells when a run was made")]
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
}
