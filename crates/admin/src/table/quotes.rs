//! Tracking of open quotes in a CSV file, and detection of its delimiter.
//!
//! The CSV reader treats the end of the file as the end of an open quote and does not report it. The bytes it reads are
//! therefore tracked here by the same rules: a quote opens only at the beginning of a field, `""` within quotes is a
//! quote, and everything after a closing quote is plain.

/// Possible delimiters, the most likely first.
const DELIMITERS: [u8; 4] = *b",;\t|";

/// Position of the last byte within its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    /// At the beginning of a field.
    Start,
    Plain,
    Quoted,
    /// After a quote within quotes. It closes them unless another quote follows.
    Quote,
}

/// Tracks the quotes of a file from its first byte.
#[derive(Debug, Clone)]
pub(super) struct QuoteTracker {
    delimiter: u8,
    at: QuoteState,
    /// The current line, counted from one.
    line: u64,
    is_after_return: bool,
    /// The line in which the last quote was opened.
    opened: u64,
}

impl QuoteTracker {
    pub(super) fn new(delimiter: u8) -> Self {
        Self { delimiter, at: QuoteState::Start, line: 1, is_after_return: false, opened: 0 }
    }

    pub(super) fn track(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.step(*byte));
    }

    /// Returns the line in which the open quote was opened, or `None` if no quote is open.
    pub(super) fn open_since_line(&self) -> Option<u64> {
        (self.at == QuoteState::Quoted).then_some(self.opened)
    }

    fn step(&mut self, byte: u8) {
        self.at = match (self.at, byte) {
            (QuoteState::Start, b'"') => {
                self.opened = self.line;
                QuoteState::Quoted
            }
            (QuoteState::Quoted, b'"') => QuoteState::Quote,
            (QuoteState::Quoted, _) | (QuoteState::Quote, b'"') => QuoteState::Quoted,
            (_, b'\r' | b'\n') => QuoteState::Start,
            (_, byte) if byte == self.delimiter => QuoteState::Start,
            _ => QuoteState::Plain,
        };
        let ends_line = byte == b'\r' || (byte == b'\n' && !self.is_after_return);
        self.line += u64::from(ends_line);
        self.is_after_return = byte == b'\r';
    }

    /// Counts the delimiters in the first row.
    fn delimiters(mut self, bytes: &[u8]) -> usize {
        let mut count = 0;
        let mut has_begun = false;
        for byte in bytes {
            let is_within = self.at == QuoteState::Quoted;
            self.step(*byte);
            match byte {
                b'\r' | b'\n' if has_begun && !is_within => break,
                b'\r' | b'\n' => {}
                byte => {
                    has_begun = true;
                    count += usize::from(*byte == self.delimiter && !is_within);
                }
            }
        }
        count
    }
}

/// Detects the delimiter from the beginning of a file: the candidate that is most frequent in the first row, outside of
/// quotes, or a comma if there is none.
pub(super) fn delimiter_of(beginning: &[u8]) -> u8 {
    // `max_by_key` returns the last of several equal maxima.
    let likeliest_last = DELIMITERS.into_iter().rev();
    likeliest_last.max_by_key(|delimiter| QuoteTracker::new(*delimiter).delimiters(beginning)).unwrap_or(b',')
}
