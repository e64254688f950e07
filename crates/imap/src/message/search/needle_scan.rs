//! A search for several texts in texts that come in pieces.
//!
//! The pieces are collected until a comparison is worthwhile. After it, only their end is kept, in which the beginning
//! of a sought text may lie. Each sought text is found once.

use mail::limits::SEARCH_PIECE_BYTES;
use memchr::memmem::Finder;

/// A byte between two texts. It occurs in no UTF-8, so that nothing is found across two texts.
const SEPARATOR: u8 = 0xff;

/// Maximum number of sought texts for which each text is compared at once. Otherwise short texts are compared together.
const COMPARED_AT_ONCE_MAX: usize = 8;

/// The collected texts, and the sought texts that have not been found in them.
#[derive(Debug, Default)]
pub(super) struct NeedleScan {
    /// The numbers of the tests that seek a text.
    pub(super) open: Vec<usize>,
    bytes: Vec<u8>,
    /// Number of bytes that have been compared.
    compared: usize,
}

impl NeedleScan {
    /// Adds a piece of a text.
    pub(super) fn push(&mut self, piece: &str) {
        if !self.open.is_empty() {
            self.bytes.extend_from_slice(piece.as_bytes());
        }
    }

    /// Ends a text.
    pub(super) fn end_text(&mut self) {
        if !self.open.is_empty() {
            self.bytes.push(SEPARATOR);
        }
    }

    /// Returns `true` if the collected texts should be compared.
    pub(super) fn is_due(&self) -> bool {
        let at_once = self.open.len() <= COMPARED_AT_ONCE_MAX && self.bytes.last() == Some(&SEPARATOR);
        let length = self.bytes.len() - self.compared;
        length >= SEARCH_PIECE_BYTES || (at_once && length > 0)
    }

    /// Compares the collected texts with the sought texts, and sets the results of those that are found. Returns the
    /// number of bytes that were compared.
    pub(super) fn compare<'f>(
        &mut self,
        finder_of: impl Fn(usize) -> Option<&'f Finder<'static>>,
        results: &mut [Option<bool>],
    ) -> u64 {
        if self.bytes.len() == self.compared {
            return 0;
        }
        let bytes = &self.bytes;
        let compared = self.compared;
        let mut work = 0;
        let mut kept = 0;
        self.open.retain(|&number| {
            let Some(finder) = finder_of(number).filter(|_| results[number].is_none()) else { return false };
            let before = finder.needle().len().saturating_sub(1);
            let text = &bytes[compared.saturating_sub(before)..];
            work += text.len() as u64;
            if finder.find(text).is_some() {
                results[number] = Some(true);
                return false;
            }
            kept = kept.max(before);
            true
        });
        self.bytes.drain(..self.bytes.len().saturating_sub(kept));
        self.compared = self.bytes.len();
        work
    }
}
