//! Streams of numbers by key (docs/notesbench.md, "Seeds").
//!
//! Each draw has a stream of its own, so it depends neither on the number of earlier draws nor on the server. The
//! computation is a part of the format of reports, and never changes: two runs of one plan draw the same.

use crate::random::SplitMix64;

/// What is drawn. The numbers are those of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// Where in an iteration the first one of a user begins.
    Start = 1,
    /// Which iterations have a step with `every`.
    Phase = 2,
    /// The beginning of an iteration.
    Jitter = 3,
    /// The pause before a step.
    Pause = 4,
    /// Which of the rows that a user has is the document of a step.
    Document = 5,
    /// Whether an attachment that is met is read.
    Attachment = 6,
    /// The recipients of a message.
    Recipients = 7,
    /// The names to look up.
    Names = 8,
    /// The words to search.
    Words = 9,
    /// The row of the size profile.
    Size = 10,
    /// Subject, body and attachments.
    Content = 11,
    /// A person of the population.
    Person = 20,
    /// A message of the population.
    Message = 21,
    /// A file of the attachment pool.
    PoolFile = 22,
    /// A document of a database that is no mail file.
    DatabaseDocument = 23,
    /// The second half of the identifier of a document that is added to a local replica.
    Identifier = 24,
}

/// A stream of numbers that its key determines.
#[derive(Debug, Clone)]
pub struct Stream {
    numbers: SplitMix64,
}

impl Stream {
    /// Starts the stream of a draw in the run of a seed. `key` says whose draw it is: user, iteration, step.
    pub fn new(seed: u64, draw: Draw, key: [u64; 3]) -> Self {
        Self { numbers: SplitMix64::new(state(seed, draw as u64, key)) }
    }

    /// Returns the rest of the numbers.
    pub fn into_numbers(self) -> SplitMix64 {
        self.numbers
    }

    /// Returns a number below `end`, which must not be 0: the upper half of the product with 128 bits.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        let product = u128::from(self.numbers.number()) * u128::from(end);
        (product >> 64) as u64
    }
}

/// Returns the state of SplitMix64 at the start of a stream.
fn state(seed: u64, stream: u64, key: [u64; 3]) -> u64 {
    let first = |state| SplitMix64::new(state).number();
    let [a, b, c] = key;
    [stream, a, b, c].into_iter().fold(first(seed), |state, part| first(state ^ part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_that_of_the_page() {
        assert_eq!(state(1, 4, [1, 0, 0]), 0xCCC8_B3C9_076C_8EEC);
        let page = include_str!("../../../../docs/notesbench.md");
        assert!(page.contains("state(1, 4, 1, 0, 0) is 0xCCC8B3C9076C8EEC"));
    }

    /// Checks the first number of each stream of the page, for two keys. They must never change.
    #[test]
    fn first_numbers_are_stored() {
        let first = |seed, stream, key| SplitMix64::new(state(seed, stream, key)).number();
        for (stream, one, other) in FIRST_NUMBERS {
            assert_eq!(first(1, *stream, [1, 0, 0]), *one, "{stream}");
            assert_eq!(first(7, *stream, [4_000, 3, (5 << 16) + 2]), *other, "{stream}");
        }
    }

    const FIRST_NUMBERS: &[(u64, u64, u64)] = &[
        (1, 0x052A_C720_174B_0A4F, 0xF302_A0BD_5D8D_FFEC),
        (2, 0x7662_0FF1_3708_56F1, 0xCDD2_60D1_F259_133B),
        (3, 0xDA27_1FA4_0CCA_57E7, 0x0030_63EC_1521_23BC),
        (4, 0x8B41_1075_C8F5_D127, 0xA156_3A9A_17A5_2ACA),
        (5, 0x6DC5_02BE_6F28_081D, 0x0D38_2F3F_C373_EB80),
        (6, 0xEDE3_03A5_F8CC_F657, 0xF087_B9F7_311A_F414),
        (7, 0x0580_9A03_8AF5_C135, 0x11A7_03DA_A46E_6546),
        (8, 0x7BC8_EA4F_8593_02EA, 0x751A_F41C_67D9_C850),
        (9, 0x2EFE_8EF4_F941_5638, 0x8995_9ADF_0B05_EDB3),
        (10, 0x3E33_D2A1_0B11_300B, 0x377D_1DAD_3D11_109C),
        (11, 0x549F_8FBE_53A4_7A82, 0xDEA3_FAA2_FF06_7B05),
        (20, 0x6CF7_528F_E15E_9C22, 0x4D6F_9C61_7AA5_B046),
        (21, 0xDD52_A22C_7B63_F2F7, 0x5054_D288_B69B_1C85),
        (22, 0x2AEA_DC9F_45CF_9ABA, 0x485C_E1A2_4AD5_C90A),
    ];

    #[test]
    fn draws_have_the_numbers_of_the_page() {
        let of_user = [Draw::Start, Draw::Phase, Draw::Jitter, Draw::Pause, Draw::Document, Draw::Attachment];
        let of_step = [Draw::Recipients, Draw::Names, Draw::Words, Draw::Size, Draw::Content, Draw::Message];
        let draws = of_user.into_iter().chain(of_step).chain([Draw::Person, Draw::PoolFile]);
        for (draw, expected) in draws.zip([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 21, 20, 22]) {
            let mut stream = Stream::new(1, draw, [1, 0, 0]);
            let stored = FIRST_NUMBERS.iter().find(|(number, _, _)| *number == expected).expect("a stored number");
            assert_eq!(stream.below(u64::MAX), ((u128::from(stored.1) * u128::from(u64::MAX)) >> 64) as u64);
        }
    }

    #[test]
    fn numbers_reach_every_value_below_the_end() {
        for end in 1..40 {
            let mut stream = Stream::new(5, Draw::Size, [end, 0, 0]);
            let drawn: std::collections::BTreeSet<u64> = (0..40 * end).map(|_| stream.below(end)).collect();
            assert_eq!(drawn, (0..end).collect());
        }
    }
}
