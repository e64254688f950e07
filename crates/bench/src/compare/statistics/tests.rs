//! Tests of the statistics: known values, and properties against a naive computation.

use proptest::prelude::*;

use super::{BLOCKS, Difference, RatioInterval, Spread, difference, interval_coverage};

fn spread(mean: f64, half_width: f64) -> Spread {
    Spread { mean, half_width }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
}

/// The example has the block means 1 to 12: their variance is 13, and the half-width is 2.200985 × √(13 / 12).
#[test]
fn spread_of_block_means_is_that_of_the_textbook() {
    let blocks: [Option<f64>; BLOCKS] = std::array::from_fn(|index| Some(index as f64 + 1.0));
    let known = Spread::of_blocks(6.5, &blocks).expect("all blocks have a mean");
    assert!((known.half_width - 2.290_858_0).abs() < 1e-6, "{known:?}");
    assert!((known.share().expect("the mean is not 0") - 0.352_439_7).abs() < 1e-6, "{known:?}");
    assert_eq!(Spread::of_blocks(7.0, &[Some(7.0); BLOCKS]), Some(spread(7.0, 0.0)));
    let mut missing = blocks;
    missing[11] = None;
    assert_eq!(Spread::of_blocks(6.5, &missing), None, "a block without steps");
    assert_eq!(spread(0.0, 1.0).share(), None);
}

#[test]
fn differences_within_both_spreads_are_none() {
    let check = |baseline, new, expected: Difference| assert_eq!(difference(&baseline, &new), expected);
    check(spread(100.0, 3.0), spread(104.9, 4.0), Difference::None);
    check(spread(100.0, 3.0), spread(105.0, 4.0), Difference::Percent(5.0));
    check(spread(100.0, 3.0), spread(95.0, 4.0), Difference::Percent(-5.0));
    check(spread(100.0, 0.0), spread(100.0, 0.0), Difference::None);
    check(spread(0.0, 0.0), spread(2.0, 1.0), Difference::FromZero);
}

#[test]
fn interval_of_ratios_leaves_out_the_ends_from_eight_pairs_on() {
    let a = [10.0; 9];
    let b = [9.0, 30.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 1.0];
    let check = |pairs: usize, median: f64, low: f64, high: f64| {
        let expected = RatioInterval { median, low, high };
        assert_eq!(RatioInterval::of_pairs(&a[..pairs], &b[..pairs]), Some(expected), "{pairs} pairs");
    };
    check(5, 1.2, 0.9, 3.0);
    check(6, 1.25, 0.9, 3.0);
    check(7, 1.3, 0.9, 3.0);
    check(8, 1.35, 1.1, 1.6);
    check(9, 1.3, 0.9, 1.6);
}

#[test]
fn ratios_need_five_pairs_of_positive_figures() {
    let ones = [1.0; 5];
    assert_eq!(RatioInterval::of_pairs(&ones[..4], &ones[..4]), None);
    assert_eq!(RatioInterval::of_pairs(&ones, &ones[..4]), None);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(RatioInterval::of_pairs(&[1.0, 1.0, bad, 1.0, 1.0], &ones), None, "A has {bad}");
    }
    assert_eq!(RatioInterval::of_pairs(&ones, &[1.0, f64::NAN, 1.0, 1.0, 1.0]), None);
    let equal = RatioInterval::of_pairs(&ones, &ones).expect("five pairs");
    assert!(equal.is_none());
    assert!(!RatioInterval { median: 1.2, low: 1.01, high: 1.3 }.is_none());
    assert!(RatioInterval { median: 1.2, low: 0.99, high: 1.3 }.is_none());
}

/// The percentages are those of docs/notesbench.md.
#[test]
fn coverage_of_intervals_is_as_documented() {
    let check = |pairs, percent: f64| {
        let coverage = 100.0 * interval_coverage(pairs);
        assert!((coverage - percent).abs() < 0.05, "{pairs} pairs cover {coverage} %");
    };
    check(5, 93.8);
    check(7, 98.4);
    check(8, 93.0);
    assert!((9..=64).all(|pairs| interval_coverage(pairs) > interval_coverage(8)));
}

/// Returns the half-width as the definition has it: the variance from the differences of all pairs of blocks.
fn naive_half_width(blocks: &[f64]) -> f64 {
    let count = blocks.len() as f64;
    let mut sum = 0.0;
    for one in blocks {
        sum += blocks.iter().map(|other| (one - other).powi(2)).sum::<f64>();
    }
    let variance = sum / (2.0 * count * (count - 1.0));
    2.200_985 * (variance / count).sqrt()
}

/// Returns the number of ratios that are smaller, and the number of those that are larger.
fn beside(ratios: &[f64], value: f64) -> (usize, usize) {
    let smaller = ratios.iter().filter(|ratio| **ratio < value).count();
    (smaller, ratios.iter().filter(|ratio| **ratio > value).count())
}

proptest! {
    #[test]
    fn spreads_agree_with_the_definition(blocks in prop::array::uniform12(0.1_f64..10_000.0)) {
        let spread = Spread::of_blocks(1.0, &blocks.map(Some)).expect("all blocks have a mean");
        prop_assert!((spread.half_width - naive_half_width(&blocks)).abs() <= 1e-6 * spread.half_width.max(1.0));
        let scaled = Spread::of_blocks(1.0, &blocks.map(|block| Some(3.0 * block + 5.0))).expect("as before");
        prop_assert!(near(scaled.half_width, 3.0 * spread.half_width));
    }

    #[test]
    fn intervals_leave_out_as_many_ratios_as_their_rank(
        pairs in prop::collection::vec((0.5_f64..2.0, 0.5_f64..2.0), 5..40),
    ) {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let ratios: Vec<f64> = pairs.iter().map(|(a, b)| b / a).collect();
        let interval = RatioInterval::of_pairs(&a, &b).expect("at least five pairs");
        let outside = if pairs.len() >= 8 { 1 } else { 0 };
        prop_assert!(beside(&ratios, interval.low).0 == outside && beside(&ratios, interval.high).1 == outside);
        let (smaller, larger) = beside(&ratios, interval.median);
        prop_assert!(smaller.max(larger) <= pairs.len() / 2, "{smaller} below the median, {larger} above");
        prop_assert!(interval.low <= interval.median && interval.median <= interval.high);
    }

    #[test]
    fn difference_has_no_direction(
        (one, other) in (1.0_f64..100.0, 1.0_f64..100.0),
        (one_width, other_width) in (0.0_f64..20.0, 0.0_f64..20.0),
    ) {
        let one = spread(one, one_width);
        let other = spread(other, other_width);
        let is_none = |from, to| difference(from, to) == Difference::None;
        prop_assert_eq!(is_none(&one, &other), is_none(&other, &one));
        let within = (one.mean - other.mean).powi(2) < one_width.powi(2) + other_width.powi(2);
        prop_assert_eq!(is_none(&one, &other), within || one.mean == other.mean);
    }
}
