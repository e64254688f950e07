//! Messages as rendering and matching see them: a folder entry with session data, and an opened message.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use base::Timestamp;
use mail::mailbox::{HeadText, MailSnapshot, Message};
use mail::mime::{MimeSource, Structure};
use notes::{FolderEntry, Marks};
use search::ExcludedNotes;

use crate::codec::command::SystemFlags;
use crate::message;
use crate::session::SelectedMailbox;

/// Data about a message that is available without opening it.
pub struct MessageEntry<'e> {
    /// The folder's entry.
    pub entry: &'e FolderEntry,
    /// The snapshot, which resolves keyword names.
    pub snapshot: &'e MailSnapshot<'e>,
    /// The session's view of the mailbox, which records the recent messages.
    pub selected: &'e SelectedMailbox,
    /// For each searched text, by its number, the messages that are known to lack it.
    pub excluded: &'e [ExcludedNotes],
    /// The error with which reading the size failed.
    pub failure: RefCell<Option<mail::Error>>,
}

/// The marks of notes as IMAP calls them.
pub const SYSTEM_FLAGS: [(Marks, SystemFlags); 5] = [
    (Marks::SEEN, SystemFlags::SEEN),
    (Marks::ANSWERED, SystemFlags::ANSWERED),
    (Marks::FLAGGED, SystemFlags::FLAGGED),
    (Marks::DELETED, SystemFlags::DELETED),
    (Marks::DRAFT, SystemFlags::DRAFT),
];

impl message::EntryData for MessageEntry<'_> {
    fn uid(&self) -> u32 {
        self.entry.uid.0
    }

    fn flags(&self) -> SystemFlags {
        let mut flags = SystemFlags::NONE;
        for (mark, flag) in SYSTEM_FLAGS {
            if self.entry.marks.contains(mark) {
                flags.insert(flag);
            }
        }
        flags
    }

    fn has_keyword(&self, keyword: &str) -> bool {
        !self.entry.keywords.is_empty()
            && self.snapshot.keywords().find(keyword).is_some_and(|known| self.entry.keywords.contains(&known))
    }

    fn is_recent(&self) -> bool {
        self.selected.is_recent(self.entry.uid.0)
    }

    fn is_changed_since(&self, mod_sequence: u64) -> bool {
        self.snapshot.is_at_or_after(self.entry.modseq, mod_sequence)
    }

    fn size(&self) -> u64 {
        self.snapshot.message_size(self.entry).unwrap_or_else(|error| {
            self.failure.borrow_mut().get_or_insert(error);
            self.entry.size
        })
    }

    fn received(&self) -> Timestamp {
        self.entry.received
    }

    fn saved(&self) -> Option<Timestamp> {
        Some(self.entry.saved)
    }

    fn is_known_not_to_contain(&self, number: usize) -> bool {
        let entry = self.entry;
        self.excluded
            .get(number)
            .is_some_and(|excluded| excluded.excludes(entry.note, entry.modseq, self.snapshot.modseq()))
    }
}

/// An opened message.
pub struct OpenedMessage<'v>(pub Message<'v>);

impl MimeSource for OpenedMessage<'_> {
    type Error = mail::Error;

    fn header(&self) -> &[u8] {
        self.0.header()
    }

    fn structure(&self) -> &Structure {
        self.0.structure()
    }

    fn range(&self, range: Range<u64>) -> mail::Result<Cow<'_, [u8]>> {
        self.0.range(range)
    }

    fn preview(&self) -> mail::Result<String> {
        self.0.preview()
    }
}

impl message::MessageSource for OpenedMessage<'_> {
    fn email_id(&self) -> mail::Result<String> {
        self.0.email_id()
    }

    fn thread_id(&self) -> mail::Result<Option<String>> {
        self.0.thread_id().map(Some)
    }

    fn head_text(&self, text: HeadText) -> Option<&[u8]> {
        self.0.head_text(text)
    }

    fn cache_head_text(&self, text: HeadText, bytes: &[u8]) {
        self.0.cache_head_text(text, bytes);
    }
}
