//! Exact sums: a number that was added can be removed again, in any order, and leaves no rounding error behind.
//!
//! Floating-point addition rounds, so a total that follows additions and removals for years drifts away from the true
//! sum. An [`ExactSum`] is a list of numbers that do not overlap, smallest first. Their exact sum is the exact sum of
//! all added numbers less all removed numbers (J. R. Shewchuk, *Adaptive precision floating-point arithmetic*, 1997).
//! It is rounded once, when it is read: [`ExactSum::value`] is the number nearest to the exact sum.
//!
//! Numbers that are infinite, NaN or larger than [`SUMMAND_MAX`] cannot be summed this way. They are counted, and the
//! sum is NaN while there are any.

use base::codec::{Decoder, Encoder, InvalidRecord};

/// The largest magnitude that is summed: 10¹² such numbers do not overflow.
pub const SUMMAND_MAX: f64 = 1e290;

/// Maximum number of parts of a sum. More parts without overlap do not fit into the range of exponents.
const PARTS_MAX: usize = 64;

/// An exact sum.
#[derive(Clone, Default, Debug)]
pub struct ExactSum {
    /// The parts: without overlap, in rising magnitude, none of them zero.
    parts: Vec<f64>,
    /// Number of added numbers that cannot be summed.
    unsummable_count: u64,
}

impl ExactSum {
    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        if is_summable(number) {
            self.grow(number);
        } else {
            self.unsummable_count += 1;
        }
    }

    /// Removes a number that was added before.
    pub fn remove(&mut self, number: f64) {
        if is_summable(number) {
            self.grow(-number);
        } else {
            assert!(self.unsummable_count > 0, "only numbers that were added are removed");
            self.unsummable_count -= 1;
        }
    }

    /// Removes the sum of numbers that were all added before.
    pub fn remove_all(&mut self, numbers: &Self) {
        numbers.parts.iter().for_each(|part| self.grow(-part));
        self.unsummable_count = self.unsummable_count.saturating_sub(numbers.unsummable_count);
    }

    /// Returns the number nearest to the exact sum, ties to even. Returns NaN while there are numbers that cannot be
    /// summed.
    #[must_use]
    pub fn value(&self) -> f64 {
        if self.unsummable_count > 0 {
            return f64::NAN;
        }
        let mut parts = self.parts.iter().rev().copied();
        let mut high = parts.next().unwrap_or(0.0);
        while let Some(part) = parts.next() {
            let (sum, rest) = two_sum(high, part);
            high = sum;
            if rest != 0.0 {
                return round_half_even(high, rest, parts.next());
            }
        }
        high
    }

    /// Returns `true` if the sum is zero and contains only numbers that can be summed.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.parts.is_empty() && self.unsummable_count == 0
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        out.varint(self.unsummable_count).varint(self.parts.len() as u64);
        for part in &self.parts {
            out.u64(part.to_bits());
        }
    }

    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, InvalidRecord> {
        let odd = input.varint()?;
        let count = usize::try_from(input.varint()?).ok().filter(|count| *count <= PARTS_MAX).ok_or(InvalidRecord)?;
        let parts: Vec<f64> = (0..count).map(|_| input.u64().map(f64::from_bits)).collect::<Result<_, _>>()?;
        let is_sound = parts.iter().all(|part| part.is_finite() && *part != 0.0)
            && parts.windows(2).all(|pair| pair[0].abs() < pair[1].abs());
        is_sound.then_some(Self { parts, unsummable_count: odd }).ok_or(InvalidRecord)
    }

    fn grow(&mut self, number: f64) {
        let mut carry = number;
        let mut kept = 0;
        for index in 0..self.parts.len() {
            let (sum, rest) = two_sum(carry, self.parts[index]);
            if rest != 0.0 {
                self.parts[kept] = rest;
                kept += 1;
            }
            carry = sum;
        }
        self.parts.truncate(kept);
        if carry != 0.0 {
            self.parts.push(carry);
        }
        assert!(self.parts.len() <= PARTS_MAX, "the number of non-overlapping parts is bounded");
    }
}

impl PartialEq for ExactSum {
    /// Compares the exact values, independent of their representation.
    fn eq(&self, other: &Self) -> bool {
        let mut difference = self.clone();
        difference.remove_all(other);
        difference.parts.is_empty() && self.unsummable_count == other.unsummable_count
    }
}

fn is_summable(number: f64) -> bool {
    number.abs() <= SUMMAND_MAX
}

/// Adds two numbers. Returns the rounded sum and the rounding error.
fn two_sum(one: f64, other: f64) -> (f64, f64) {
    let (large, small) = if one.abs() < other.abs() { (other, one) } else { (one, other) };
    let sum = large + small;
    (sum, small - (sum - large))
}

/// Corrects a sum whose remainder is exactly half a unit in the last place: the sign of the next smaller part decides
/// the direction.
fn round_half_even(high: f64, rest: f64, next: Option<f64>) -> f64 {
    if next.is_none_or(|next| (rest < 0.0) != (next < 0.0)) {
        return high;
    }
    let doubled = rest * 2.0;
    let other = high + doubled;
    if other - high == doubled { other } else { high }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(numbers: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        numbers.iter().for_each(|number| sum.add(*number));
        sum
    }

    fn check(numbers: &[f64], expected: f64) {
        assert_eq!(sum_of(numbers).value().to_bits(), expected.to_bits(), "{numbers:?}");
    }

    #[test]
    fn sums_are_rounded_once() {
        check(&[], 0.0);
        check(&[0.1; 10], 1.0);
        check(&[1e16, 1.0, 1e-16], 10_000_000_000_000_002.0);
        check(&[1e16 - 2.0, 1.0 - f64::EPSILON, -(1e16 - 2.0), -(1.0 - f64::EPSILON)], 0.0);
        check(&[1e280, 1.0, -1e280], 1.0);
        check(&[2_f64.powi(53), -0.5, -(2_f64.powi(-54))], 2_f64.powi(53) - 1.0);
        check(&[f64::MIN_POSITIVE / 4.0; 2], f64::MIN_POSITIVE / 2.0);
    }

    #[test]
    fn added_numbers_can_be_removed_in_any_order() {
        let numbers: Vec<f64> = (1..500)
            .map(|number| f64::from(number).powf(7.3) / 3.0 * if number % 3 == 0 { -1.0 } else { 1e-9 })
            .collect();
        let mut sum = sum_of(&numbers);
        let mut backwards = ExactSum::default();
        numbers.iter().rev().for_each(|number| backwards.add(*number));
        assert_eq!(sum.value().to_bits(), backwards.value().to_bits());
        assert!(sum == backwards);
        numbers.iter().step_by(2).chain(numbers.iter().skip(1).step_by(2)).for_each(|number| sum.remove(*number));
        assert!(sum.is_zero(), "{sum:?}");
    }

    #[test]
    fn infinite_values_and_nan_make_the_sum_undefined() {
        let mut sum = sum_of(&[1.5, f64::INFINITY, f64::NAN, 1e300]);
        assert!(sum.value().is_nan());
        [f64::NAN, 1e300, f64::INFINITY].iter().for_each(|number| sum.remove(*number));
        assert_eq!(sum.value(), 1.5);
    }

    #[test]
    fn stored_form_reads_back_and_damage_is_detected() {
        let sum = sum_of(&[1e100, 1.0, 1e-100, f64::NAN]);
        let mut out = Encoder::with_capacity(64);
        sum.encode(&mut out);
        let bytes = out.finish();
        assert!(ExactSum::decode(&mut Decoder::new(&bytes)).is_ok_and(|decoded| decoded == sum));
        for length in 0..bytes.len() {
            assert!(ExactSum::decode(&mut Decoder::new(&bytes[..length])).is_err());
        }
        let mut swapped = bytes.clone();
        swapped[2..10].copy_from_slice(&bytes[18..26]);
        assert!(ExactSum::decode(&mut Decoder::new(&swapped)).is_err(), "the parts must ascend");
    }
}
