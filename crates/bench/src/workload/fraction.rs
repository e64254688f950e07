//! Fractions: rates are exact, so that a promised count can be compared with a measured one.

use std::fmt;

use serde::{Serialize, Serializer};

/// Digits after the decimal point to which a sum or product is rounded if its exact terms exceed 128 bits.
const ROUNDED_DIGITS: u32 = 12;
/// Maximum denominator of the remainder that is rounded, so that the remainder times 10^12 fits into 128 bits.
const REMAINDER_DENOMINATOR_MAX: u128 = 1 << 80;

/// A non-negative fraction in lowest terms.
///
/// Sums and products are exact, unless a term exceeds 128 bits: this takes steps with dozens of different `every`
/// without common divisors. Then they are rounded down to 12 decimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fraction {
    numerator: u128,
    denominator: u128,
}

impl Fraction {
    /// The number 0.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// Creates a fraction. Panics if the denominator is 0.
    pub fn new(numerator: u128, denominator: u128) -> Self {
        assert!(denominator > 0, "a fraction has a denominator");
        let divisor = greatest_common_divisor(numerator, denominator);
        Self { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    /// Returns the sum.
    pub fn plus(self, other: Self) -> Self {
        self.exact_sum(other).unwrap_or_else(|| {
            let rounded = self.rounded().exact_sum(other.rounded());
            rounded.expect("rates are below 10^20, so the sum of two that are rounded fits")
        })
    }

    /// Returns the product.
    pub fn times(self, other: Self) -> Self {
        self.exact_product(other).unwrap_or_else(|| {
            let rounded = self.rounded().exact_product(other.rounded());
            rounded.expect("rates are below 10^7 where a factor is rounded, so the product fits")
        })
    }

    /// Returns the nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    fn exact_sum(self, other: Self) -> Option<Self> {
        let divisor = greatest_common_divisor(self.denominator, other.denominator);
        let left = self.numerator.checked_mul(other.denominator / divisor)?;
        let right = other.numerator.checked_mul(self.denominator / divisor)?;
        let denominator = self.denominator.checked_mul(other.denominator / divisor)?;
        Some(Self::new(left.checked_add(right)?, denominator))
    }

    fn exact_product(self, other: Self) -> Option<Self> {
        let left = Self::new(self.numerator, other.denominator);
        let right = Self::new(other.numerator, self.denominator);
        let numerator = left.numerator.checked_mul(right.numerator)?;
        Some(Self { numerator, denominator: left.denominator.checked_mul(right.denominator)? })
    }

    /// Returns the fraction rounded down to 12 decimal digits.
    fn rounded(self) -> Self {
        let scale = 10u128.pow(ROUNDED_DIGITS);
        let whole = self.numerator / self.denominator;
        let mut rest = self.numerator % self.denominator;
        let mut denominator = self.denominator;
        while denominator > REMAINDER_DENOMINATOR_MAX {
            rest >>= 1;
            denominator >>= 1;
        }
        Self::new(whole * scale + rest * scale / denominator, scale)
    }
}

impl From<u64> for Fraction {
    fn from(number: u64) -> Self {
        Self { numerator: u128::from(number), denominator: 1 }
    }
}

/// Shows at most three digits after the decimal point.
impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.3}", self.to_f64());
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.to_f64())
    }
}

fn greatest_common_divisor(one: u128, other: u128) -> u128 {
    let mut larger = one.max(other);
    let mut smaller = one.min(other);
    while smaller > 0 {
        (larger, smaller) = (smaller, larger % smaller);
    }
    larger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_products_are_in_lowest_terms() {
        let third = Fraction::new(2, 6);
        assert_eq!(third, Fraction::new(1, 3));
        assert_eq!(third.plus(Fraction::new(1, 6)), Fraction::new(1, 2));
        assert_eq!(third.plus(third).plus(third), Fraction::from(1));
        assert_eq!(third.times(Fraction::from(12)), Fraction::from(4));
        assert_eq!(third.times(Fraction::ZERO), Fraction::ZERO);
    }

    #[test]
    fn terms_beyond_128_bits_are_rounded() {
        let sum = (9_001..=9_999).step_by(2).fold(Fraction::ZERO, |sum, every| sum.plus(Fraction::new(1, every)));
        let exact: f64 = (9_001..=9_999).step_by(2).map(|every: u32| 1.0 / f64::from(every)).sum();
        assert!((sum.to_f64() - exact).abs() < 1e-9, "{sum}, {exact}");
        let small = Fraction::new(1, u128::MAX / 2).times(Fraction::new(2, 7));
        assert_eq!(small, Fraction::ZERO);
    }

    #[test]
    fn three_digits_are_shown() {
        let check = |fraction: Fraction, expected: &str| assert_eq!(fraction.to_string(), expected);
        check(Fraction::from(20), "20");
        check(Fraction::new(120, 90), "1.333");
        check(Fraction::new(1, 2), "0.5");
        check(Fraction::ZERO, "0");
        assert_eq!(format!("{:>6}", Fraction::new(1, 4)), "  0.25");
    }
}
