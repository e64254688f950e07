//! The simulated environment: a clock that tests advance, randomness from a seed, and a recorder of the log's events.
//!
//! A failing test prints its seed. A run with that seed repeats the failure exactly, provided that the test is
//! single-threaded.

mod event_recorder;

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

pub use event_recorder::{EventRecorder, FieldForm, Recording, assert_absent};

use crate::random::Random;
use crate::sync::Mutex;
use crate::time::{Clock, Timestamp};

/// A clock that stands still until [`SimClock::advance`] is called.
#[derive(Debug)]
pub struct SimClock {
    now_us: AtomicI64,
    /// The time by which the time of day is behind.
    behind_us: AtomicI64,
    /// The time by which each measurement moves the clock.
    tick_us: AtomicI64,
}

impl SimClock {
    /// Creates a clock that starts at 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn new() -> Self {
        let start = Timestamp::from_seconds(1_767_225_600).0;
        Self { now_us: AtomicI64::new(start), behind_us: AtomicI64::new(0), tick_us: AtomicI64::new(0) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.now_us.fetch_add(microseconds(by), Ordering::SeqCst);
    }

    /// Sets the time of day back, as when a wrong clock is corrected. Measured time goes on.
    pub fn step_back(&self, by: Duration) {
        self.behind_us.fetch_add(microseconds(by), Ordering::SeqCst);
    }

    /// Sets the time by which each call of [`Clock::monotonic`] moves the clock forward. So work that measures its time
    /// takes a known time, however fast it is.
    pub fn set_tick(&self, tick: Duration) {
        self.tick_us.store(microseconds(tick), Ordering::SeqCst);
    }
}

fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_us.load(Ordering::SeqCst) - self.behind_us.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        let tick = self.tick_us.load(Ordering::SeqCst);
        let before = self.now_us.fetch_add(tick, Ordering::SeqCst);
        Duration::from_micros(u64::try_from(before + tick).unwrap_or(0))
    }
}

/// A generator of random bytes from a seed (SplitMix64). It must not be used for keys or passwords.
#[derive(Debug)]
pub struct SeededRandom {
    state: Mutex<u64>,
}

impl SeededRandom {
    /// Creates a generator. The same seed produces the same sequence.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: Mutex::new(seed) }
    }

    fn step(&self) -> u64 {
        let mut state = self.state.lock();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.step().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let draw = |seed| {
            let mut bytes = [0; 21];
            SeededRandom::new(seed).fill(&mut bytes);
            bytes
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn clock_moves_only_on_advance() {
        let clock = SimClock::new();
        let start = clock.now();
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_secs(3));
        assert_eq!(clock.now().since(start), Duration::from_secs(3));
        let measured = clock.monotonic();
        assert_eq!(clock.monotonic(), measured);
        clock.set_tick(Duration::from_millis(2));
        assert_eq!(clock.monotonic() - measured, Duration::from_millis(2));
        assert_eq!(clock.now().since(start), Duration::from_millis(3_002));
    }
}
