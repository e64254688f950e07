//! Generated mail for measuring programs.
//!
//! Words are drawn from a vocabulary of 60,000 with the frequencies of a natural language: the n-th word has a
//! probability of about 1/n. A message has about 1 KB and the fields that all messages have. The same seed produces the
//! same mail.

use base::Random;
use base::sim::SeededRandom;
use mail::mailbox::{Flags, NewMessage};

/// Number of words in the vocabulary.
const WORDS: u64 = 60_000;

/// Draws a word whose number lies between `first` and `last`. The n-th word has a probability of about 1/n.
pub fn word(random: &SeededRandom, first: u64, last: u64) -> String {
    let unit = random.below(1 << 24) as f64 / f64::from(1 << 24);
    let number = first as f64 * (last as f64 / first as f64).powf(unit);
    spell(number as u64)
}

/// Spells a number in syllables. Frequent words have few.
fn spell(mut number: u64) -> String {
    let mut word = String::new();
    loop {
        word.push(char::from(b"bcdfghklmnprstvz"[number as usize % 16]));
        word.push(char::from(b"aeiou"[(number / 16) as usize % 5]));
        number /= 80;
        if number == 0 {
            return word;
        }
    }
}

/// Creates a message of 40 to 360 words.
pub fn message(random: &SeededRandom) -> NewMessage {
    let words = |count: u64| (0..count).map(|_| word(random, 1, WORDS)).collect::<Vec<_>>();
    let from = word(random, 1_000, 9_000);
    let to = word(random, 1_000, 9_000);
    let subject = words(3 + random.below(6)).join(" ");
    let body: Vec<String> = words(40 + random.below(320)).chunks(12).map(|line| line.join(" ")).collect();
    let id = random.below(1 << 48);
    let raw = format!(
        "From: {from} <{from}@acme.test>\r\nTo: {to}@acme.test\r\nSubject: {subject}\r\nDate: Fri, 21 Nov 1997 09:55:06 -0600\r\n\
        Message-ID: <{id:x}@acme.test>\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n",
        body.join("\r\n")
    );
    NewMessage { raw: raw.into_bytes(), flags: Flags::none(), received: None }
}
