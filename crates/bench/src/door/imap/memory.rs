//! What a user knows of its mail file: the messages of the last screen, those that it has added, the open mailbox.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::door::message_head::MessageHead;
use crate::plan::steps::DocumentFraction;
use crate::workload::action::Document;

/// Maximum number of rows, and of messages of each other kind, that a user remembers.
pub(super) const ROWS_MAX: usize = 1_000;
/// Maximum number of attachments of a message that a user remembers.
pub(super) const PARTS_MAX: usize = 64;

/// A message of a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The mailbox.
    pub(super) mailbox: Arc<str>,
    /// The number under which the UIDs of the mailbox are valid.
    pub(super) uid_validity: u32,
    /// The UID.
    pub(super) uid: u32,
}

/// Messages of one mailbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// The mailbox.
    pub(super) mailbox: Arc<str>,
    /// The number under which the UIDs are valid.
    pub(super) uid_validity: u32,
    /// The UIDs.
    pub(super) uids: Vec<u32>,
}

impl Rows {
    fn get(&self, index: usize) -> Option<Row> {
        let uid = *self.uids.get(index)?;
        Some(Row { mailbox: Arc::clone(&self.mailbox), uid_validity: self.uid_validity, uid })
    }

    fn forget(&mut self, row: &Row) {
        if self.mailbox == row.mailbox {
            self.uids.retain(|uid| *uid != row.uid);
        }
    }
}

/// The message that was read last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadMessage {
    /// The message.
    pub(super) row: Row,
    /// Its sender and its subject.
    pub(super) head: MessageHead,
    /// The sections of its attachments, at most [`PARTS_MAX`]; `None` if they are not known.
    pub(super) parts: Option<Vec<String>>,
}

/// The mailbox that the user sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenView {
    /// The mailbox.
    pub(super) mailbox: Arc<str>,
    /// The number of the message with which the next screen begins, or `None` for the first screen.
    pub(super) next: Option<u32>,
}

/// A mailbox of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownMailbox {
    /// Its name, as the server writes it.
    pub(super) name: Arc<str>,
    /// What separates the levels of the hierarchy.
    pub(super) delimiter: Option<char>,
    /// It is the one with sent messages.
    pub(super) is_sent: bool,
}

/// What a user remembers.
#[derive(Debug, Default)]
pub(super) struct UserMemory {
    /// The mailbox that is open.
    pub(super) view: Option<OpenView>,
    /// The mailboxes, once they have been listed.
    pub(super) mailboxes: Option<Vec<KnownMailbox>>,
    /// The message that was read last.
    pub(super) last: Option<ReadMessage>,
    screen: Rows,
    newest: Rows,
    own: VecDeque<Row>,
}

impl UserMemory {
    /// Replaces the rows that were read last.
    pub(super) fn set_screen(&mut self, mut rows: Rows) {
        rows.uids.truncate(ROWS_MAX);
        self.screen = rows;
    }

    /// Replaces the newest messages.
    pub(super) fn set_newest(&mut self, mut rows: Rows) {
        rows.uids.truncate(ROWS_MAX);
        self.newest = rows;
    }

    /// Adds a message that the user has added. The oldest one is forgotten if there are too many.
    pub(super) fn add_own(&mut self, row: Row) {
        if self.own.len() == ROWS_MAX {
            self.own.pop_front();
        }
        self.own.push_back(row);
    }

    /// Returns the message of a step, or `None` if there is none. `Newest` is that of the repetition.
    pub(super) fn pick(&self, of: Document, fraction: DocumentFraction, repetition: u64) -> Option<Row> {
        match of {
            Document::Screen => self.screen.get(fraction.index_of(self.screen.uids.len())?),
            Document::Own => self.own.get(fraction.index_of(self.own.len())?).cloned(),
            Document::Newest => self.newest.get(usize::try_from(repetition).ok()?),
            Document::Last => self.last.as_ref().map(|last| last.row.clone()),
        }
    }

    /// Forgets a message that is no longer at its place. The newest ones keep their places.
    pub(super) fn forget(&mut self, row: &Row) {
        self.screen.forget(row);
        self.own.retain(|known| known != row);
        self.last.take_if(|last| last.row == *row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(uids: impl IntoIterator<Item = u32>) -> Rows {
        Rows { mailbox: "INBOX".into(), uid_validity: 7, uids: uids.into_iter().collect() }
    }

    fn row(uid: u32) -> Row {
        Row { mailbox: "INBOX".into(), uid_validity: 7, uid }
    }

    #[test]
    fn messages_are_picked_from_what_the_user_knows() {
        let half = DocumentFraction::from_bits(1 << 31);
        let mut memory = UserMemory::default();
        for of in [Document::Screen, Document::Own, Document::Newest, Document::Last] {
            assert_eq!(memory.pick(of, half, 0), None);
        }
        memory.set_screen(rows([1, 2, 3, 4]));
        memory.set_newest(rows([11, 12]));
        memory.add_own(row(21));
        memory.last = Some(ReadMessage { row: row(31), head: MessageHead::default(), parts: None });
        assert_eq!(memory.pick(Document::Screen, half, 0), Some(row(3)));
        assert_eq!(memory.pick(Document::Own, half, 0), Some(row(21)));
        assert_eq!(memory.pick(Document::Last, half, 0), Some(row(31)));
        assert_eq!(memory.pick(Document::Newest, half, 1), Some(row(12)));
        assert_eq!(memory.pick(Document::Newest, half, 2), None);
        memory.forget(&row(3));
        memory.forget(&row(21));
        memory.forget(&row(31));
        assert_eq!(memory.pick(Document::Screen, DocumentFraction::from_bits(u32::MAX), 0), Some(row(4)));
        assert_eq!((memory.pick(Document::Own, half, 0), &memory.last), (None, &None));
    }

    #[test]
    fn at_most_the_maximum_is_kept() {
        let first = DocumentFraction::from_bits(0);
        let mut memory = UserMemory::default();
        memory.set_screen(rows(0..2_000));
        (0..2_000).for_each(|uid| memory.add_own(row(uid)));
        assert_eq!((memory.screen.uids.len(), memory.own.len()), (ROWS_MAX, ROWS_MAX));
        assert_eq!(memory.pick(Document::Own, first, 0), Some(row(1_000)), "the oldest are forgotten");
    }
}
