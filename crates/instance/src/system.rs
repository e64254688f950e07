//! The operating system's clock and random number generator.
//!
//! This is the only place in the product that gets the time from the system. All other code receives a [`base::Clock`],
//! which the simulator can replace.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Clock, Random, Timestamp};

/// The system clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts at zero.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this clock is the program's source of time")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this clock is the program's source of time")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// The operating system's random number generator; suitable for keys and passwords.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, buffer: &mut [u8]) {
        // Without randomness there are no secure keys, passwords or identifiers, so the program cannot continue safely.
        getrandom::fill(buffer).expect("the operating system provides random bytes once it has started");
    }
}

/// Blocks the thread for the given duration.
#[expect(
    clippy::disallowed_methods,
    reason = "the wait is for another program, which sends no notification, and the server serves no connections yet"
)]
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Returns the host name of the machine in lower case, or `localhost` if it has none.
#[must_use]
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_ascii_lowercase() }
}

/// Returns the number of processors that this program may use.
#[must_use]
pub fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_randomness_are_real() {
        let clock = SystemClock::new();
        assert!(clock.now() > Timestamp::from_seconds(1_700_000_000));
        assert!(clock.monotonic() <= clock.monotonic());
        assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
        assert!(!host_name().is_empty() && processors() > 0);
    }
}
