//! Pseudo-random numbers that are the same in every run (SplitMix64), so that all servers get the same work.
//!
//! Runs of workload files draw from [`Stream`](crate::plan::stream::Stream)s of these numbers instead of one sequence.

/// A sequence of numbers determined by its seed.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    /// Picks one of several values.
    pub fn pick<'a, T>(&mut self, several: &'a [T]) -> &'a T {
        &several[self.below(several.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_sequence() {
        let draw = |seed| {
            let mut numbers = SplitMix64::new(seed);
            (0..8).map(|_| numbers.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
    /// Checks the first outputs for the seed 0. Those of SplitMix64 are E220A8397B1DCDAF, 6E789E6AA1B965F4 and
    /// 06C45D188009454F.
    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut numbers = SplitMix64::new(0);
        assert_eq!([(); 3].map(|()| numbers.below(1 << 32)), [0x7B1D_CDAF, 0xA1B9_65F4, 0x8009_454F]);
    }

    #[test]
    fn numbers_are_below_the_end_and_reach_every_value() {
        let mut numbers = SplitMix64::new(5);
        for end in 1..40 {
            let drawn: std::collections::BTreeSet<usize> = (0..40 * end).map(|_| numbers.below(end)).collect();
            assert_eq!(drawn, (0..end).collect(), "{end}");
        }
        assert_eq!(*numbers.pick(&["only"]), "only");
    }
}
