//! The statistics of comparisons: spreads of means, medians of paired ratios, and when a difference is none.
//!
//! All functions are pure. A figure that cannot be computed is `None`, and never 0.

#[cfg(test)]
mod tests;

use crate::record::blocks::BLOCKS;

/// The 97.5 % quantile of Student's distribution with 11 degrees of freedom, one less than there are blocks.
const STUDENT_11: f64 = 2.200_985_160_082_949;
/// The fewest pairs of runs from which an interval is formed.
pub const PAIRS_MIN: usize = 5;
/// The fewest pairs of which the lowest and the highest ratio are left out.
const PAIRS_TRIMMED_MIN: usize = 8;

/// A mean, and how far the true mean may be from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % interval of the mean.
    pub half_width: f64,
}

impl Spread {
    /// Computes the spread of a mean from the means of the blocks of a measured interval. Returns `None` if a block has
    /// no mean: then nothing is known about the spread.
    ///
    /// `mean` is the mean over all steps. It may differ from the mean of the blocks, which have different numbers of
    /// steps.
    pub fn of_blocks(mean: f64, blocks: &[Option<f64>; BLOCKS]) -> Option<Self> {
        let count = BLOCKS as f64;
        let blocks: Vec<f64> = blocks.iter().copied().collect::<Option<_>>()?;
        let center = mean_of(&blocks)?;
        let squares: f64 = blocks.iter().map(|block| (block - center).powi(2)).sum();
        let standard_error = (squares / (count - 1.0) / count).sqrt();
        Some(Self { mean, half_width: STUDENT_11 * standard_error })
    }

    /// Returns the half-width as a share of the mean, or `None` if the mean is 0.
    pub fn share(&self) -> Option<f64> {
        (self.mean != 0.0).then(|| self.half_width / self.mean.abs())
    }
}

/// The difference between two figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Difference {
    /// The difference is within the spread.
    None,
    /// The new figure differs by this percentage of the baseline.
    Percent(f64),
    /// The figures differ, and the baseline is 0.
    FromZero,
}

/// Compares two means. The difference is none if it is smaller than the root of the sum of the squares of both spreads,
/// or if there is none at all.
pub fn difference(baseline: &Spread, new: &Spread) -> Difference {
    let change = new.mean - baseline.mean;
    let within = baseline.half_width.hypot(new.half_width);
    if change == 0.0 || change.abs() < within {
        Difference::None
    } else if baseline.mean == 0.0 {
        Difference::FromZero
    } else {
        Difference::Percent(100.0 * change / baseline.mean)
    }
}

/// The ratio of two settings that were run in turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioInterval {
    /// The median of the ratios.
    pub median: f64,
    /// The lower end of the interval of the median.
    pub low: f64,
    /// The upper end of the interval of the median.
    pub high: f64,
}

impl RatioInterval {
    /// Computes the ratios B / A of the runs of the same number. Returns `None` if the numbers of runs differ or are
    /// below [`PAIRS_MIN`], or if a figure of A is not above 0 or one of B is not a number.
    ///
    /// The interval is from the lowest to the highest ratio of 5 to 7, and from the second to the last but one of 8 and
    /// more.
    pub fn of_pairs(a: &[f64], b: &[f64]) -> Option<Self> {
        if a.len() != b.len() || a.len() < PAIRS_MIN {
            return None;
        }
        let ratio = |(a, b): (&f64, &f64)| (*a > 0.0 && a.is_finite() && b.is_finite()).then(|| b / a);
        let mut ratios: Vec<f64> = a.iter().zip(b).map(ratio).collect::<Option<_>>()?;
        ratios.sort_by(f64::total_cmp);
        let rank = interval_rank(ratios.len());
        Some(Self { median: median_of(&ratios)?, low: ratios[rank - 1], high: ratios[ratios.len() - rank] })
    }

    /// Returns `true` if the interval includes 1: the settings do not differ.
    pub fn is_none(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }
}

/// Returns the rank of the ratio at which the interval begins, and at which it ends, counted from above.
fn interval_rank(pairs: usize) -> usize {
    if pairs < PAIRS_TRIMMED_MIN { 1 } else { 2 }
}

/// Returns the probability that the true median is within the interval of so many pairs.
///
/// The number of ratios below the median has a binomial distribution with the probability ½, and the interval misses
/// the median if this number is below the rank, or as near to the end.
pub fn interval_coverage(pairs: usize) -> f64 {
    let mut combinations = 1.0;
    let mut missed = 0.0;
    for below in 0..interval_rank(pairs) {
        missed += combinations;
        combinations *= (pairs - below) as f64 / (below + 1) as f64;
    }
    1.0 - 2.0 * missed / 2_f64.powf(pairs as f64)
}

/// Returns the mean, or `None` without values.
pub fn mean_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the median of values in any order, or `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of(&sorted)
}

/// Returns the median of values in ascending order, which is the mean of both values in the middle if their number is
/// even, or `None` without values.
fn median_of(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { Some(sorted[middle]) } else { mean_of(sorted.get(middle.checked_sub(1)?..=middle)?) }
}
