//! The mbox format: a sequence of messages, each after a line `From sender date`.
//!
//! | module | contents |
//! |---|---|
//! | [`separator`] | the line before a message |
//! | [`reader`] | reading of messages from a file |
//! | [`writer`] | writing of messages to a file |
//!
//! Lines of a message that look like a separator are quoted with `>`, as in mboxrd including lines that are already
//! quoted. They are unquoted on reading.
//!
//! The `Content-Length` of System V mailboxes and files whose lines end with CR alone are not supported.

pub mod reader;
pub mod separator;
pub mod writer;

#[cfg(test)]
mod tests;

pub use reader::{MboxMessage, MboxReader};
pub use separator::{Separator, sender_of};
pub use writer::MboxWriter;

/// Returns the number of `>` before `From ` at the start of a line. Returns `None` for any other line.
fn quote_depth(line: &[u8]) -> Option<usize> {
    if !matches!(line.first(), Some(b'>' | b'F')) {
        return None;
    }
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    line[quotes..].starts_with(b"From ").then_some(quotes)
}
