//! The documents that a user knows: the rows that it has read, the newest ones, those that it has added.

use std::collections::VecDeque;

use crate::plan::steps::DocumentFraction;
use crate::workload::action::Document;

/// Maximum number of rows of each kind that a user remembers.
pub(super) const ROWS_MAX: usize = 1_000;
/// Maximum number of attachments of a document that a user remembers.
pub(super) const FILES_MAX: usize = 64;

/// The documents that a user knows, each as its door needs it.
#[derive(Debug)]
pub(super) struct KnownRows<R> {
    screen: Vec<R>,
    newest: Vec<R>,
    own: VecDeque<R>,
}

impl<R> Default for KnownRows<R> {
    fn default() -> Self {
        Self { screen: Vec::new(), newest: Vec::new(), own: VecDeque::new() }
    }
}

impl<R: Clone + PartialEq> KnownRows<R> {
    /// Replaces the rows that were read last.
    pub(super) fn set_screen(&mut self, rows: Vec<R>) {
        self.screen = rows;
        self.screen.truncate(ROWS_MAX);
    }

    /// Replaces the newest documents.
    pub(super) fn set_newest(&mut self, rows: Vec<R>) {
        self.newest = rows;
        self.newest.truncate(ROWS_MAX);
    }

    /// Replaces the documents that the user has added, where they are found again.
    pub(super) fn set_own(&mut self, rows: Vec<R>) {
        self.own = rows.into();
        self.own.truncate(ROWS_MAX);
    }

    /// Adds a document that the user has added. The oldest one is forgotten if there are too many.
    pub(super) fn add_own(&mut self, row: R) {
        if self.own.len() == ROWS_MAX {
            self.own.pop_front();
        }
        self.own.push_back(row);
    }

    /// Returns the document of a step, or `None` if there is none. `Newest` is that of the repetition, and the document
    /// that was read last is known to the caller.
    pub(super) fn pick(
        &self,
        of: Document,
        fraction: DocumentFraction,
        repetition: u64,
        last: Option<&R>,
    ) -> Option<R> {
        let row = match of {
            Document::Screen => self.screen.get(fraction.index_of(self.screen.len())?),
            Document::Own => self.own.get(fraction.index_of(self.own.len())?),
            Document::Newest => self.newest.get(usize::try_from(repetition).ok()?),
            Document::Last => last,
        };
        row.cloned()
    }

    /// Forgets a document that is no longer at its place. The newest ones keep their order until they are read again.
    pub(super) fn forget(&mut self, row: &R) {
        self.screen.retain(|known| known != row);
        self.own.retain(|known| known != row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half() -> DocumentFraction {
        DocumentFraction::from_bits(1 << 31)
    }

    #[test]
    fn documents_are_picked_and_forgotten() {
        let mut rows = KnownRows::default();
        assert_eq!(rows.pick(Document::Screen, half(), 0, None), None::<u32>);
        rows.set_screen(vec![1, 2, 3, 4]);
        rows.set_newest(vec![11, 12]);
        rows.add_own(21);
        let picked = |rows: &KnownRows<u32>, of, repetition| rows.pick(of, half(), repetition, Some(&31));
        assert_eq!(picked(&rows, Document::Screen, 0), Some(3));
        assert_eq!([0, 1, 2].map(|repetition| picked(&rows, Document::Newest, repetition)), [Some(11), Some(12), None]);
        assert_eq!((picked(&rows, Document::Own, 0), picked(&rows, Document::Last, 0)), (Some(21), Some(31)));
        rows.forget(&3);
        rows.forget(&21);
        assert_eq!(picked(&rows, Document::Screen, 0), Some(2));
        assert_eq!(picked(&rows, Document::Own, 0), None);
    }

    #[test]
    fn at_most_the_maximum_of_rows_is_kept() {
        let mut rows = KnownRows::default();
        rows.set_screen((0..2_000).collect());
        rows.set_newest((0..2_000).collect());
        (0..2_000).for_each(|row| rows.add_own(row));
        assert_eq!((rows.screen.len(), rows.newest.len(), rows.own.len()), (ROWS_MAX, ROWS_MAX, ROWS_MAX));
        assert_eq!(rows.pick(Document::Own, DocumentFraction::from_bits(0), 0, None), Some(1_000));
        rows.set_own((5_000..9_000).collect());
        assert_eq!(rows.pick(Document::Own, DocumentFraction::from_bits(u32::MAX), 0, None), Some(5_999));
    }
}
