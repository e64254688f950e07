//! Tests of budgets, permits and buffers. Random operations are compared with a model, alone and by several threads.

use super::*;
use crate::Random;
use crate::sim::SeededRandom;

#[test]
fn dropped_permits_return_their_memory() {
    let budget = MemoryBudget::new(100);
    let mut first = budget.acquire(50).expect("within the limit");
    first.merge(budget.acquire(10).expect("within the limit"));
    assert_eq!(budget.acquire(41).err(), Some(Exhausted::Total), "more than is left");
    assert_eq!((budget.available_bytes(), first.bytes()), (40, 60), "a refused request takes nothing");
    let second = budget.acquire(40).expect("exactly this much is left");
    assert!(budget.acquire(0).is_ok() && budget.acquire(1).is_err());
    drop(first);
    assert_eq!(budget.available_bytes(), 60);
    drop(second);
    assert_eq!(budget.available_bytes(), 100);
    assert_eq!(budget.acquire(usize::MAX).err(), Some(Exhausted::Total), "more than can be counted");
    assert!(MemoryBudget::unlimited().acquire(1 << 40).is_ok());
}

#[test]
fn share_takes_from_the_budget_that_contains_it() {
    let budget = MemoryBudget::new(100);
    let ann = budget.share(60);
    let again = ann.clone();
    let bob = budget.share(60);
    let mut first = ann.acquire(30).expect("within the limit");
    first.merge(again.acquire(30).expect("within the limit"));
    assert_eq!(again.acquire(1).err(), Some(Exhausted::Share));
    assert_eq!(bob.acquire(41).err(), Some(Exhausted::Total), "nor more than the budget has");
    let second = bob.acquire(40).expect("other shares continue");
    assert_eq!((budget.available_bytes(), ann.available_bytes()), (0, 0));
    assert_eq!((budget.bytes_max(), ann.bytes_max(), budget.share(200).bytes_max()), (100, 60, 100));
    assert_eq!((budget.held_bytes(), ann.held_bytes(), bob.held_bytes()), (100, 60, 40));
    drop((first, second));
    assert_eq!(budget.available_bytes(), 100);
    assert!(bob.acquire(60).is_ok() && ann.acquire(60).is_ok(), "a refused request takes nothing of the share");
}

#[test]
fn refused_permit_keeps_what_it_has() {
    let budget = MemoryBudget::new(100);
    let share = budget.share(50);
    let mut permit = share.empty_permit();
    permit.grow(40).expect("within the share");
    assert_eq!(permit.grow(11), Err(Exhausted::Share));
    assert_eq!((permit.bytes(), budget.available_bytes()), (40, 60));
    permit.grow(10).expect("within the share");
    drop(permit);
    assert_eq!((share.available_bytes(), budget.available_bytes()), (50, 100));
}

#[test]
fn buffer_takes_memory_as_pieces_arrive() {
    let budget = MemoryBudget::new(1_000);
    let mut gathered = MeteredBuffer::new(&budget);
    assert_eq!(budget.available_bytes(), 1_000, "the announced length takes nothing");
    let taken: Vec<usize> = [100, 50, 60, 300, 90]
        .map(|length| {
            gathered.append(&vec![7; length], 600).expect("within the limit");
            1_000 - budget.available_bytes()
        })
        .into();
    assert_eq!(taken, [100, 200, 400, 600, 600], "at most twice the received bytes, and at most the announced length");
    assert!(gathered.append(&[7; 900], 600).is_err());
    assert_eq!(gathered.bytes().len(), 600, "a refused piece is not appended");
    let (bytes, memory) = gathered.into_parts();
    assert_eq!((bytes.capacity(), memory.bytes()), (600, 600));
    drop(memory);
    assert_eq!(budget.available_bytes(), 1_000);
}

#[test]
fn held_memory_is_used_before_more_is_taken() {
    let budget = MemoryBudget::new(1_000);
    let mut buffer = MeteredBuffer::new(&budget);
    buffer.hold(500).expect("within the limit");
    let _rest = budget.acquire(500).expect("within the limit");
    for _ in 0..10 {
        buffer.append(&[7; 50], 900).expect("the memory is held");
    }
    assert!(buffer.append(&[7], 900).is_err(), "more than was held");
    let (bytes, memory) = buffer.into_parts();
    assert_eq!((bytes.len(), memory.bytes()), (500, 500));
    assert!(bytes.capacity() <= 500, "{}", bytes.capacity());
}

#[test]
fn reserved_memory_is_allocated() {
    let budget = MemoryBudget::new(1_000);
    let mut buffer = MeteredBuffer::new(&budget);
    buffer.reserve(300).expect("within the limit");
    assert!(buffer.reserve(1_001).is_err());
    assert_eq!(budget.available_bytes(), 700);
    let (bytes, memory) = buffer.into_parts();
    assert_eq!((bytes.capacity(), memory.bytes()), (300, 300));
}

#[test]
fn cleared_buffer_returns_its_memory() {
    let budget = MemoryBudget::new(1_000);
    let mut buffer = MeteredBuffer::new(&budget);
    buffer.hold(500).expect("within the limit");
    buffer.append(&[7; 50], 100).expect("the memory is held");
    buffer.clear();
    assert_eq!((buffer.bytes(), budget.available_bytes()), (&[][..], 1_000));
    buffer.append(&[7; 50], 100).expect("within the limit");
    assert_eq!(budget.available_bytes(), 950);
}

#[test]
fn long_content_is_copied_a_few_times_only() {
    const LENGTH: usize = 64 << 20;
    let piece = [7; 16 << 10];
    for held in [0, LENGTH] {
        let mut buffer = MeteredBuffer::new(&MemoryBudget::unlimited());
        buffer.hold(held).expect("there is no limit");
        let mut copied = 0;
        let mut capacity = 0;
        while buffer.bytes.len() < LENGTH {
            buffer.append(&piece, LENGTH).expect("there is no limit");
            if buffer.bytes.capacity() != capacity {
                copied += capacity;
                capacity = buffer.bytes.capacity();
            }
        }
        assert!(copied <= 6 * LENGTH, "{copied} bytes were copied, {held} were held");
        assert!(capacity <= LENGTH && buffer.memory.bytes() >= capacity);
    }
}

const TOTAL_BYTES: usize = 1_000;
const SHARE_BYTES: usize = 400;

/// Performs a random operation on the permits of a share.
fn step(random: &SeededRandom, share: &MemoryBudget, permits: &mut Vec<MemoryPermit>) {
    let below = |bound: usize| random.below(bound.max(1) as u64) as usize;
    let bytes = below(150);
    match below(4) {
        0 | 1 => permits.extend(share.acquire(bytes)),
        2 if !permits.is_empty() => {
            let index = below(permits.len());
            // A refusal is an expected outcome.
            let _ = permits[index].grow(bytes);
        }
        _ if permits.len() > 1 && bytes.is_multiple_of(2) => {
            let other = permits.swap_remove(below(permits.len()));
            permits[0].merge(other);
        }
        _ if !permits.is_empty() => drop(permits.swap_remove(below(permits.len()))),
        _ => {}
    }
}

fn sum(permits: &[MemoryPermit]) -> usize {
    permits.iter().map(MemoryPermit::bytes).sum()
}

#[test]
fn held_bytes_are_always_counted() {
    for seed in 0..200 {
        let random = SeededRandom::new(seed);
        let total = MemoryBudget::new(TOTAL_BYTES);
        let shares: Vec<_> = (0..4).map(|_| total.share(SHARE_BYTES)).collect();
        let mut permits: Vec<Vec<MemoryPermit>> = (0..4).map(|_| Vec::new()).collect();
        for _ in 0..200 {
            let index = random.below(4) as usize;
            step(&random, &shares[index], &mut permits[index]);
            let sums: Vec<usize> = permits.iter().map(|permits| sum(permits)).collect();
            let all: usize = sums.iter().sum();
            assert!(all <= TOTAL_BYTES && sums.iter().all(|sum| *sum <= SHARE_BYTES), "seed {seed}: {sums:?}");
            assert_eq!(total.available_bytes(), TOTAL_BYTES - all, "seed {seed}");
            for (share, sum) in shares.iter().zip(&sums) {
                let available = (SHARE_BYTES - sum).min(TOTAL_BYTES - all);
                assert_eq!(share.available_bytes(), available, "seed {seed}");
            }
        }
        drop(permits);
        assert_eq!(total.available_bytes(), TOTAL_BYTES, "seed {seed}");
    }
}

#[test]
fn threads_never_hold_more_than_the_budget_has() {
    let total = MemoryBudget::new(TOTAL_BYTES);
    let share = total.share(SHARE_BYTES);
    std::thread::scope(|scope| {
        for (seed, budget) in [(0, &share), (1, &total), (2, &share), (3, &total)] {
            scope.spawn(move || {
                let random = SeededRandom::new(seed);
                let mut permits = Vec::new();
                for _ in 0..5_000 {
                    step(&random, budget, &mut permits);
                    assert!(sum(&permits) <= budget.bytes_max(), "seed {seed}");
                }
            });
        }
    });
    assert_eq!((share.available_bytes(), total.available_bytes()), (SHARE_BYTES, TOTAL_BYTES));
}
