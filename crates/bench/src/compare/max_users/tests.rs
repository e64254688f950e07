//! Tests of the search. Levels are judged by reports in the tests of the commands.

use proptest::prelude::*;

use super::*;

/// Searches for a number, and returns the numbers that were tried.
fn tried(from: u64, to: u64, largest: u64) -> (Vec<u64>, Search) {
    let mut search = Search::new(from, to).expect("a range");
    let mut tried = Vec::new();
    while let Some(users) = search.next() {
        assert!(tried.len() < 64, "{tried:?}");
        tried.push(users);
        search.record(users, users <= largest);
    }
    (tried, search)
}

#[test]
fn numbers_are_doubled_and_then_the_distance_is_halved() {
    let (numbers, search) = tried(100, 100_000, 730);
    assert_eq!(numbers, [100, 200, 400, 800, 600, 700, 750, 725, 737]);
    assert_eq!((search.found(), search.missed()), (Some(725), Some(737)));
}

#[test]
fn the_largest_number_is_tried_and_not_exceeded() {
    let (numbers, search) = tried(100, 300, 1_000);
    assert_eq!(numbers, [100, 200, 300]);
    assert_eq!((search.found(), search.missed()), (Some(300), None));
    assert_eq!(tried(5, 5, 5).0, [5]);
}

#[test]
fn a_first_number_that_misses_is_halved() {
    let (numbers, search) = tried(100, 1_000, 3);
    assert_eq!(numbers, [100, 50, 25, 12, 6, 3, 4]);
    assert_eq!(search.found(), Some(3));
    let (numbers, search) = tried(8, 1_000, 0);
    assert_eq!(numbers, [8, 4, 2, 1]);
    assert_eq!((search.found(), search.missed()), (None, Some(1)));
}

#[test]
fn a_search_needs_a_range() {
    assert_eq!(Search::new(0, 5), None);
    assert_eq!(Search::new(6, 5), None);
}

proptest! {
    #[test]
    fn the_result_is_known_to_two_percent(from in 1_u64..2_000, more in 0_u64..200_000, largest in 0_u64..250_000) {
        let to = from + more;
        let (numbers, search) = tried(from, to, largest);
        prop_assert!(numbers.iter().all(|users| (1..=to).contains(users)));
        let found = search.found().unwrap_or(0);
        prop_assert!(found <= largest);
        match search.missed() {
            None => prop_assert_eq!(found, to),
            Some(missed) => {
                prop_assert!(missed > largest);
                prop_assert!(missed - found <= 1 || (missed - found) as f64 <= 0.02 * found as f64);
            }
        }
    }
}
