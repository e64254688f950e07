//! Texts of ordinary words, generated from numbers.

use crate::random::SplitMix64;

/// The words of all texts.
pub const WORDS: &[&str] = &[
    "about", "account", "agenda", "answer", "attached", "before", "budget", "by", "could", "customer", "date",
    "decision", "delivery", "draft", "for", "friday", "from", "have", "in", "invoice", "issue", "meeting", "minutes",
    "next", "office", "on", "order", "plan", "please", "project", "question", "regards", "release", "review", "send",
    "server", "team", "that", "the", "this", "to", "tomorrow", "travel", "until", "update", "version", "week", "will",
    "with", "you",
];

/// The column after which a line ends.
const COLUMN_MAX: usize = 68;

/// Generates lines of words, about `size` bytes in total. Lines end in CRLF, the last one too.
pub fn prose(numbers: &mut SplitMix64, size: usize) -> String {
    let mut text = String::with_capacity(size + 16);
    let mut column = 0;
    while text.len() < size {
        let word = *numbers.pick(WORDS);
        text.push_str(word);
        column += word.len() + 1;
        if column > COLUMN_MAX {
            text.push_str("\r\n");
            column = 0;
        } else {
            text.push(' ');
        }
    }
    text.push_str("\r\n");
    text
}

/// Generates a line of words of about `size` bytes, without its end.
pub fn line(numbers: &mut SplitMix64, size: usize) -> String {
    prose(numbers, size).replace("\r\n", " ").trim().to_owned()
}
