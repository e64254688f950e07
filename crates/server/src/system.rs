//! The real world as the rooms below ask for it: the machine's clock and its randomness.
//!
//! This is the one place of the product that asks the machine for the time; everybody else is handed a
//! [`base::Clock`], so that the simulator can stand in its place.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Clock, Random, Timestamp};

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts to count monotonic time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
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
    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// The operating system's generator; fit for keys and passwords.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, buffer: &mut [u8]) {
        // Without randomness there are no keys, passwords or identifiers: nothing can go on safely.
        getrandom::fill(buffer).expect("the operating system gives random bytes once it is up");
    }
}

/// Lets time pass.
#[expect(
    clippy::disallowed_methods,
    reason = "what is waited for is another program, which tells nobody; and nothing is served yet"
)]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Gives the machine's name.
#[must_use]
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_ascii_lowercase() }
}

/// Gives the number of processors that this program may use.
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
