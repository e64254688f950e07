//! Randomness as a parameter.
//!
//! `server` hands down the operating system's generator; tests hand down [`crate::sim::SeededRandom`].

/// A source of random bytes, shared between threads.
///
/// An implementation for production must be fit for keys and passwords.
pub trait Random: Send + Sync {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);

    /// Draws a number from the whole range.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Draws a number below `bound`; `bound` must not be zero.
    fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        self.next_u64() % bound
    }
}
