//! Randomness as a parameter.
//!
//! `server` passes the operating system's generator, and tests pass [`crate::sim::SeededRandom`].

/// A source of random bytes that is shared between threads.
///
/// An implementation for production must be suitable for keys and passwords.
pub trait Random: Send + Sync {
    /// Fills the buffer with random bytes.
    fn fill(&self, buffer: &mut [u8]);

    /// Returns a random number from the whole range.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns a random number below `bound`. Panics if `bound` is 0.
    fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "the bound must be greater than 0");
        self.next_u64() % bound
    }
}
