//! Mailboxes: a user's mail database as IMAP, POP3 and their like see it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mod@file`] | [`Mail`], all mail files of a server; [`MailFile`], one that is open; folders; changes of messages |
//! | [`view`] | [`MailView`]: a snapshot of it: counts, positions, entries, changes, messages |
//! | [`message`] | [`Message`]: one stored message, byte for byte |
//! | [`flags`] | flags and keywords by name |
//! | [`uids`] | sets of UIDs |
//! | [`utf7`] | mailbox names as IMAP4rev1 and Maildir write them |
//!
//! A mailbox is a folder of the mail database, a message a note in exactly one folder. Copying makes a new note that
//! shares the attachments; moving keeps the note and gives it a new UID. UIDs, UIDVALIDITY and modseqs come from `notes`,
//! where the batch that changes a message changes its folder: nothing here can be out of step, and no client
//! ever sees an internal conflict, because writers to one mailbox queue.

pub mod file;
pub mod flags;
mod heads;
pub mod message;
pub mod uids;
pub mod utf7;
pub mod view;

pub use file::{
    CopyOutcome, ExpungeOutcome, Mail, MailFile, MailOptions, NewMessage, Quota, StoreOutcome, restore_first_folders,
};
pub use flags::{FlagChange, Flags};
pub use message::Message;
pub use uids::UidSet;
pub use view::{Changes, Folder, FolderStatus, MailView, SpecialUse};
