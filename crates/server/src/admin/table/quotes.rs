//! Where quotes are open in a CSV file, and what separates its fields.
//!
//! The reader of rows takes the end of a file for the end of a quote, and does not tell. So the bytes that it reads are followed here by the same rules:
//! a quote opens at the beginning of a field and nowhere else, `""` within quotes is a quote, and what comes behind a closing quote is plain.

/// What may separate fields, the likeliest first.
const DELIMITERS: [u8; 4] = *b",;\t|";

/// Where in a field the last byte was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// A field begins.
    Start,
    Plain,
    Quoted,
    /// Behind a quote within quotes, which closes them unless another one comes.
    Quote,
}

/// Follows the quotes of a file from its first byte.
#[derive(Debug, Clone)]
pub(super) struct Quotes {
    delimiter: u8,
    at: At,
    /// The line, counted from one.
    line: u64,
    is_after_return: bool,
    /// The line in which quotes were opened last.
    opened: u64,
}

impl Quotes {
    pub(super) fn new(delimiter: u8) -> Self {
        Self { delimiter, at: At::Start, line: 1, is_after_return: false, opened: 0 }
    }

    pub(super) fn follow(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.step(*byte));
    }

    /// Gives the line in which a quote was opened that is open still.
    pub(super) fn open(&self) -> Option<u64> {
        (self.at == At::Quoted).then_some(self.opened)
    }

    fn step(&mut self, byte: u8) {
        self.at = match (self.at, byte) {
            (At::Start, b'"') => {
                self.opened = self.line;
                At::Quoted
            }
            (At::Quoted, b'"') => At::Quote,
            (At::Quoted, _) | (At::Quote, b'"') => At::Quoted,
            (_, b'\r' | b'\n') => At::Start,
            (_, byte) if byte == self.delimiter => At::Start,
            _ => At::Plain,
        };
        let ends_line = byte == b'\r' || (byte == b'\n' && !self.is_after_return);
        self.line += u64::from(ends_line);
        self.is_after_return = byte == b'\r';
    }

    /// Counts the delimiters of the first row.
    fn delimiters(mut self, bytes: &[u8]) -> usize {
        let (mut count, mut has_begun) = (0, false);
        for byte in bytes {
            let is_within = self.at == At::Quoted;
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

/// Guesses what separates fields from the beginning of a file: what its first row has most of, outside of quotes; a comma where it has none.
pub(super) fn delimiter_of(beginning: &[u8]) -> u8 {
    // Of several that are as many, the last counts.
    let likeliest_last = DELIMITERS.into_iter().rev();
    likeliest_last.max_by_key(|delimiter| Quotes::new(*delimiter).delimiters(beginning)).unwrap_or(b',')
}
