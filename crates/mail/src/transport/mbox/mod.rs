//! The mbox format: messages one after the other, each after a line `From sender date`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`separator`] | the line before a message |
//! | [`reader`] | messages out of a file |
//! | [`writer`] | messages into a file |
//!
//! Lines of a message that look like a separator are quoted with `>` (mboxrd: also those that are quoted already), and
//! unquoted when they are read.
//!
//! Left out: the `Content-Length` of System V's mailboxes, and files whose lines end with CR alone.

pub mod reader;
pub mod separator;
pub mod writer;

#[cfg(test)]
mod tests;

pub use reader::{MboxMessage, MboxReader};
pub use separator::{Separator, sender_of};
pub use writer::MboxWriter;

/// Counts the `>` before `From ` at the start of a line; nothing when the line is no such line.
fn quotes_of(line: &[u8]) -> Option<usize> {
    if !matches!(line.first(), Some(b'>' | b'F')) {
        return None;
    }
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    line[quotes..].starts_with(b"From ").then_some(quotes)
}
