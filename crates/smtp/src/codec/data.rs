//! Incoming message data: after DATA (dot-stuffed, ended by CRLF.CRLF) and after BDAT (of a stated size).
//!
//! [`DataReader`] copies in bulk. It searches only for CRLF followed by a dot, and never splits lines. A second,
//! branch-free pass over each copied piece detects CR without LF and LF without CR.
//!
//! Guarantees:
//!
//! - Only CRLF.CRLF ends the data. All endings used for smuggling (`\n.\n`, `\n.\r\n`, `\r.\r`, `\r\n.\n`, `\r\n.\r`,
//!   `\r.\r\n`, `\r\n\0.\r\n`) are data.
//! - The result does not depend on how the input is split into pieces (property test).
//! - Data that is too large, or for which no memory is left, is read to its end and discarded.
//! - The memory of the data is taken from the budget of the sender ([`base::memory`]).
//!
//! A dot is removed only at the beginning of a line that follows a true CRLF. Text after a bare LF is kept unchanged;
//! if the message is sent after normalization, the sending side applies dot-stuffing again.

use base::line_ends::has_bare_line_end;
use base::memory::{Exhausted, MemoryPermit, MeteredBuffer};
use memchr::memmem;

use crate::limits::MESSAGE_RESERVE_BYTES_MAX;

/// The received data of a message, after a prefix (the trace field).
#[derive(Debug)]
pub struct ReceivedData {
    buffer: MeteredBuffer,
    /// Length of the prefix that precedes the peer's data.
    start: usize,
    /// Maximum number of bytes that the peer may send.
    limit: usize,
    /// Number of bytes that the peer has sent, including discarded ones.
    received: u64,
    /// The last byte received. Initially it is not a CR.
    previous: u8,
    has_bare: bool,
    /// The reason why the data is discarded because of a lack of memory.
    exhausted: Option<Exhausted>,
}

/// The complete data of a message.
#[derive(Debug)]
pub struct CollectedData {
    /// The prefix and the data.
    pub bytes: Vec<u8>,
    /// Length of the prefix.
    pub prefix_bytes: usize,
    /// The memory that must be held for as long as the bytes are.
    pub memory: MemoryPermit,
}

impl ReceivedData {
    /// Creates the content with a prefix. The peer may send `limit` bytes and announces `expected` bytes. The content
    /// is collected in `buffer`, which is empty. Returns [`Exhausted`] if there is no memory to begin with.
    pub fn new(prefix: &[u8], limit: usize, expected: usize, mut buffer: MeteredBuffer) -> Result<Self, Exhausted> {
        let reserve = expected.min(limit).min(MESSAGE_RESERVE_BYTES_MAX);
        buffer.reserve(prefix.len().saturating_add(reserve))?;
        buffer.append(prefix, prefix.len())?;
        let start = prefix.len();
        Ok(Self { buffer, start, limit, received: 0, previous: 0, has_bare: false, exhausted: None })
    }

    /// Takes memory for `bytes` further bytes, which the peer has announced.
    pub fn announce(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let total = (self.buffer.bytes().len() as u64).saturating_add(bytes);
        self.buffer.hold(usize::try_from(total).unwrap_or(usize::MAX))
    }

    /// Appends a piece.
    pub fn append(&mut self, piece: &[u8]) {
        let Some(&last) = piece.last() else { return };
        self.received = self.received.saturating_add(piece.len() as u64);
        if self.is_oversize() || self.exhausted.is_some() {
            self.discard();
            return;
        }
        self.has_bare |= has_bare_line_end(self.previous, piece);
        self.previous = last;
        let bytes_max = self.start.saturating_add(self.limit);
        if let Err(exhausted) = self.buffer.append(piece, bytes_max) {
            self.exhausted = Some(exhausted);
            self.discard();
        }
    }

    fn discard(&mut self) {
        self.buffer.clear();
        self.start = 0;
    }

    /// Returns `true` if the peer has sent more than the limit.
    #[must_use]
    pub fn is_oversize(&self) -> bool {
        self.received > self.limit as u64
    }

    /// Returns the reason why the data was discarded because of a lack of memory, or `None` if it was not.
    #[must_use]
    pub fn exhausted(&self) -> Option<Exhausted> {
        self.exhausted
    }

    /// Returns the number of bytes that the peer has sent.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns `true` if the data received so far contains a CR without LF or an LF without CR.
    #[must_use]
    pub fn has_bare_line_end(&self) -> bool {
        self.has_bare || (self.previous == b'\r')
    }

    /// Returns the data. A missing line end after the last line is added.
    #[must_use]
    pub fn finish(self) -> CollectedData {
        let (mut bytes, memory) = self.buffer.into_parts();
        if self.received > 0 && !bytes.ends_with(b"\r\n") {
            bytes.reserve_exact(2);
            bytes.extend_from_slice(b"\r\n");
        }
        CollectedData { bytes, prefix_bytes: self.start, memory }
    }
}

/// The state of the search for the end of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Within a line.
    Text,
    /// After a CR.
    Cr,
    /// After a CRLF, or at the beginning.
    LineStart,
    /// After a dot at the beginning of a line. The dot is held back.
    Dot,
    /// After such a dot and a CR. Both are held back.
    DotCr,
}

/// The state of the reader after some input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataProgress {
    /// More input is needed.
    More,
    /// CRLF.CRLF was received.
    End,
}

/// Reads the data that follows DATA.
#[derive(Debug)]
pub struct DataReader {
    state: State,
    content: ReceivedData,
}

impl DataReader {
    /// Creates a reader for the data after the 354 reply.
    #[must_use]
    pub fn new(content: ReceivedData) -> Self {
        Self { state: State::LineStart, content }
    }

    /// Processes input. Returns the number of bytes that belong to the data, including its end.
    pub fn push(&mut self, input: &[u8]) -> (usize, DataProgress) {
        let mut position = 0;
        while let Some(&byte) = input.get(position) {
            if self.state == State::Text {
                position += self.copy_text(input.get(position..).unwrap_or_default());
                continue;
            }
            position += 1;
            if self.take(byte) == DataProgress::End {
                return (position, DataProgress::End);
            }
        }
        (position, DataProgress::More)
    }

    /// Returns the received content.
    #[must_use]
    pub fn into_content(self) -> ReceivedData {
        self.content
    }

    /// Returns a reference to the received content.
    #[must_use]
    pub fn content(&self) -> &ReceivedData {
        &self.content
    }

    /// Copies the input up to the next line that begins with a dot, or all of it. Returns the number of bytes
    /// processed.
    fn copy_text(&mut self, rest: &[u8]) -> usize {
        if let Some(found) = memmem::find(rest, b"\r\n.") {
            self.content.append(rest.get(..found + 2).unwrap_or_default());
            self.state = State::Dot;
            return found + 3;
        }
        self.content.append(rest);
        self.state = match rest {
            [.., b'\r', b'\n'] => State::LineStart,
            [.., b'\r'] => State::Cr,
            _ => State::Text,
        };
        rest.len()
    }

    fn take(&mut self, byte: u8) -> DataProgress {
        match (self.state, byte) {
            (State::LineStart, b'.') => self.state = State::Dot,
            (State::Dot, b'\r') => self.state = State::DotCr,
            (State::DotCr, b'\n') => return DataProgress::End,
            (State::DotCr, _) => {
                self.content.append(b"\r");
                self.state = State::Cr;
                return self.take_after_cr(byte);
            }
            (State::Cr, _) => return self.take_after_cr(byte),
            _ => {
                self.content.append(&[byte]);
                self.state = if byte == b'\r' { State::Cr } else { State::Text };
            }
        }
        DataProgress::More
    }

    fn take_after_cr(&mut self, byte: u8) -> DataProgress {
        self.content.append(&[byte]);
        self.state = match byte {
            b'\n' => State::LineStart,
            b'\r' => State::Cr,
            _ => State::Text,
        };
        DataProgress::More
    }
}

#[cfg(test)]
mod tests {
    use base::line_ends::normalize_line_ends;
    use base::memory::MemoryBudget;
    use proptest::prelude::*;

    use super::*;

    fn content(prefix: &[u8], limit: usize, expected: usize) -> ReceivedData {
        let buffer = MeteredBuffer::new(&MemoryBudget::unlimited());
        ReceivedData::new(prefix, limit, expected, buffer).expect("there is memory")
    }

    /// Reads data split into pieces. Returns the content, whether it has bare line ends, and the remaining input.
    fn read(input: &[u8], cuts: &[usize]) -> Option<(Vec<u8>, bool, Vec<u8>)> {
        let mut reader = DataReader::new(content(b"", 1 << 20, 0));
        let mut position = 0;
        let ends = cuts.iter().map(|cut| cut % (input.len() + 1)).chain([input.len()]);
        for end in ends {
            let (taken, progress) = reader.push(&input[position..end.max(position)]);
            position += taken;
            if progress == DataProgress::End {
                let bare = reader.content().has_bare_line_end();
                let kept = reader.into_content().finish().bytes;
                return Some((kept, bare, input[position..].to_vec()));
            }
        }
        None
    }

    /// Reads data like `read`, but literally as in RFC 5321: splits at CRLF and examines each line.
    fn read_naively(input: &[u8]) -> Option<(Vec<u8>, bool, Vec<u8>)> {
        let mut kept = Vec::new();
        let mut rest = input;
        loop {
            let end = rest.windows(2).position(|pair| pair == b"\r\n")? + 2;
            let (line, after) = rest.split_at(end);
            rest = after;
            if line == b".\r\n" {
                let bare = (0..kept.len()).any(|i| match kept[i] {
                    b'\r' => kept.get(i + 1) != Some(&b'\n'),
                    b'\n' => i == 0 || kept[i - 1] != b'\r',
                    _ => false,
                });
                return Some((kept, bare, rest.to_vec()));
            }
            kept.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        }
    }

    fn check(input: &str, kept: &str, bare: bool, rest: &str) {
        let expected = Some((kept.into(), bare, rest.into()));
        assert_eq!(read(input.as_bytes(), &[]), expected, "{input:?}");
        let every: Vec<usize> = (0..input.len()).collect();
        assert_eq!(read(input.as_bytes(), &every), expected, "{input:?} byte by byte");
    }

    #[test]
    fn data_is_unstuffed_up_to_the_final_dot() {
        check("a\r\nb\r\n.\r\nQUIT\r\n", "a\r\nb\r\n", false, "QUIT\r\n");
        check(".\r\n", "", false, "");
        check("..\r\n...a\r\n.\r\n", ".\r\n..a\r\n", false, "");
        check("\r\n.\r\n.\r\n", "\r\n", false, ".\r\n");
        check("a\r\n\r\n.b\r\n.\r\n", "a\r\n\r\nb\r\n", false, "");
    }

    #[test]
    fn bare_line_ends_do_not_end_the_data() {
        for ending in ["\n.\n", "\n.\r\n", "\r.\r", "\r\n.\n", "\r\n.\r", "\r.\r\n", "\r.\n", "\n.\r"] {
            let input = format!("a{ending}MAIL FROM:<x@y>\r\n.\r\nQUIT");
            let (kept, bare, rest) = read(input.as_bytes(), &[]).expect("there is a true end");
            assert!(bare, "{ending:?}");
            assert_eq!(rest, b"QUIT", "{ending:?}");
            assert!(kept.ends_with(b"MAIL FROM:<x@y>\r\n"), "{ending:?}");
        }
        let nul = "a\r\n\0.\r\nb\r\n.\r\n";
        assert_eq!(read(nul.as_bytes(), &[]), Some((b"a\r\n\0.\r\nb\r\n".to_vec(), false, Vec::new())));
    }

    #[test]
    fn oversize_data_is_read_to_its_end_and_dropped() {
        let mut reader = DataReader::new(content(b"Received: x\r\n", 10, 1 << 40));
        let input = b"0123456789\r\nmore\r\n.\r\nNOOP\r\n";
        assert_eq!(reader.push(input), (input.len() - 6, DataProgress::End));
        assert!(reader.content().is_oversize());
        assert!(reader.into_content().finish().bytes.len() < 8);
    }

    #[test]
    fn data_without_memory_is_read_to_its_end_and_dropped() {
        let budget = MemoryBudget::new(1_000);
        let buffer = MeteredBuffer::new(&budget);
        let mut reader =
            DataReader::new(ReceivedData::new(b"Received: x\r\n", 5_000, 0, buffer).expect("there is memory"));
        for _ in 0..20 {
            assert_eq!(reader.push(&[b'x'; 100]), (100, DataProgress::More));
        }
        assert_eq!(budget.available_bytes(), 1_000, "the memory is returned at once");
        assert_eq!(reader.push(b"\r\n.\r\nNOOP\r\n"), (5, DataProgress::End));
        let content = reader.into_content();
        assert_eq!((content.exhausted(), content.is_oversize()), (Some(Exhausted::Total), false));
        assert!(content.finish().bytes.len() < 8);
    }

    #[test]
    fn announced_data_has_its_memory() {
        let budget = MemoryBudget::new(1_000);
        let mut content = ReceivedData::new(b"x", 5_000, 0, MeteredBuffer::new(&budget)).expect("there is memory");
        content.append(&[b'x'; 99]);
        assert!(content.announce(901).is_err() && content.announce(900).is_ok());
        assert_eq!(budget.available_bytes(), 0);
        (0..9).for_each(|_| content.append(&[b'x'; 100]));
        assert_eq!(content.exhausted(), None);
        let collected = content.finish();
        assert_eq!((collected.prefix_bytes, collected.memory.bytes()), (1, 1_000));
        assert_eq!(collected.bytes.len(), 1_002, "the line end is added");
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            4 => Just(&b"\r\n"[..]), 3 => Just(&b"."[..]), 2 => Just(&b"\r"[..]), 2 => Just(&b"\n"[..]),
            2 => Just(&b"ab"[..]), 1 => Just(&b"\0"[..]), 1 => Just(&b"\r\n.\r\n"[..]), 1 => Just(&b"\xff long text "[..]),
        ];
        prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn split_data_is_unstuffed_like_the_naive_reader(input in text(), mut cuts in prop::collection::vec(0usize..200, 0..8)) {
            cuts.iter_mut().for_each(|cut| *cut %= input.len() + 1);
            cuts.sort_unstable();
            prop_assert_eq!(read(&input, &cuts), read_naively(&input));
        }

        #[test]
        fn bare_line_ends_are_found_across_any_split(input in text(), cut in 0usize..200) {
            let (a, b) = input.split_at(cut % (input.len() + 1));
            let mut content = content(b"", 1 << 20, 0);
            content.append(a);
            content.append(b);
            let clean = normalize_line_ends(&input);
            prop_assert!(!has_bare_line_end(0, &clean));
            prop_assert_eq!(content.has_bare_line_end(), clean != input);
        }
    }
}
