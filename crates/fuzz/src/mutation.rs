//! Generates inputs from seeds: flips bits, sets, inserts, removes and duplicates bytes, inserts words of the language,
//! and joins seeds.
//!
//! An input is determined by its target and its number alone, so these two reproduce a finding.

use base::Random;
use base::sim::SeededRandom;

/// Maximum size of an input in bytes.
pub const INPUT_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of changes to one seed.
const CHANGES_MAX: u64 = 8;

/// Byte values at which decoders often fail.
const BOUNDARY_BYTES: &[u8] = &[0, 1, b'\t', b'\n', b'\r', b' ', 0x7F, 0x80, 0xC3, 0xFE, 0xFF];

/// Generates the input with this number.
#[must_use]
pub fn input(number: u64, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let random = SeededRandom::new(number.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1));
    let mut bytes = random_choice(&random, seeds).cloned().unwrap_or_default();
    for _ in 0..=random.below(CHANGES_MAX) {
        change(&mut bytes, &random, seeds, words);
        bytes.truncate(INPUT_BYTES_MAX);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, random: &SeededRandom, seeds: &[Vec<u8>], words: &[&str]) {
    let place = random_position(random, bytes.len());
    match random.below(8) {
        0 => flip_bit(bytes, random, place),
        1 => set_byte(bytes, random, place),
        2 => insert(bytes, place, &[random.next_u64() as u8]),
        3 => drop(bytes.drain(random_range(random, bytes.len()))),
        4 => {
            let copy = bytes[random_range(random, bytes.len())].to_vec();
            insert(bytes, place, &copy);
        }
        5 | 6 => {
            let word = random_choice(random, words).map_or(&[][..], |word| word.as_bytes());
            insert(bytes, place, word);
        }
        _ => join(bytes, random, random_choice(random, seeds)),
    }
}

fn flip_bit(bytes: &mut [u8], random: &SeededRandom, place: usize) {
    if let Some(byte) = bytes.get_mut(place) {
        *byte ^= 1 << random.below(8);
    }
}

fn set_byte(bytes: &mut [u8], random: &SeededRandom, place: usize) {
    if let (Some(byte), Some(edge)) = (bytes.get_mut(place), random_choice(random, BOUNDARY_BYTES)) {
        *byte = *edge;
    }
}

fn insert(bytes: &mut Vec<u8>, place: usize, piece: &[u8]) {
    bytes.splice(place..place, piece.iter().copied());
}

/// Replaces the end of the input by the end of another seed.
fn join(bytes: &mut Vec<u8>, random: &SeededRandom, other: Option<&Vec<u8>>) {
    let Some(other) = other else { return };
    bytes.truncate(random_position(random, bytes.len()));
    bytes.extend_from_slice(&other[random_position(random, other.len())..]);
}

/// Returns a random position within, or at the end of, `length` bytes.
fn random_position(random: &SeededRandom, length: usize) -> usize {
    random.below(length as u64 + 1) as usize
}

fn random_range(random: &SeededRandom, length: usize) -> std::ops::Range<usize> {
    let one = random_position(random, length);
    let other = random_position(random, length);
    // Short ranges are more frequent than long ones.
    let start = one.min(other);
    let end = one.max(other);
    if random.below(2) == 0 { start..end } else { start..end.min(start + 16) }
}

fn random_choice<'a, T>(random: &SeededRandom, several: &'a [T]) -> Option<&'a T> {
    if several.is_empty() { None } else { several.get(random.below(several.len() as u64) as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_deterministic_and_differ_by_number() {
        let seeds = [b"a1 NOOP\r\n".to_vec(), b"a2 FETCH 1 (FLAGS)\r\n".to_vec()];
        let inputs: Vec<_> = (0..500).map(|number| input(number, &seeds, &["(", "\r\n"])).collect();
        assert_eq!(inputs[7], input(7, &seeds, &["(", "\r\n"]));
        let mut different = inputs.clone();
        different.sort();
        different.dedup();
        assert!(different.len() > 450, "{} of 500 inputs are different", different.len());
    }

    #[test]
    fn without_seeds_inputs_are_made_of_words() {
        assert!((0..100).any(|number| input(number, &[], &["word"]).starts_with(b"word")));
        assert!((0..100).all(|number| input(number, &[], &[]).len() <= INPUT_BYTES_MAX));
    }
}
