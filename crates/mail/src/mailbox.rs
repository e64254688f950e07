//! Mailboxes: a user's mail database as IMAP, POP3 and similar protocols see it.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@file`] | [`MailStore`], all mail files of a server; [`MailFile`], an open mail file; folders; changes to messages |
//! | [`places`] | the mailboxes that contain a message |
//! | [`mail_snapshot`] | [`MailSnapshot`], a snapshot of a mail file: counts, positions, entries, changes, messages |
//! | [`message`] | [`Message`], a stored message, byte for byte |
//! | `composed_message` | the message that stands for a document without one |
//! | `ready_message` | a message that is about to be put into a mailbox |
//! | `settings`, `subscriptions` | the settings note; the mailboxes that a person is subscribed to |
//! | `quota` | the usage of a mail file, and its quota |
//! | `head_cache`, `profile_cache` | the caches of message heads and of profile documents |
//! | [`flags`] | flags and keywords by name |
//! | [`utf7`] | mailbox names as IMAP4rev1 and Maildir write them |
//!
//! A mailbox is a folder of the mail database. A message is a note in one folder or several. A copy creates a new note
//! that shares the attachments. A move keeps the note and gives it a new UID.
//!
//! UIDs, UIDVALIDITY and modseqs come from `notes`, where one batch changes a message and its folder, so the two are
//! always consistent. Writers to one mailbox wait for each other, so no client ever sees an internal conflict.

mod composed_message;
pub mod file;
pub mod flags;
mod head_cache;
pub mod mail_snapshot;
pub mod message;
pub mod places;
mod profile_cache;
mod quota;
pub(crate) mod ready_message;
pub(crate) mod settings;
mod subscriptions;
pub mod utf7;

pub use file::{CopyOutcome, ExpungeOutcome, MailFile, MailOptions, MailStore, StoreOutcome, restore_default_folders};
pub use flags::{FlagChange, Flags};
pub use head_cache::HeadText;
pub use mail_snapshot::{
    ChangedMessage, Folder, FolderStatus, MailSnapshot, MailboxChangePage, MailboxChanges, SpecialUse, canonical_name,
};
pub use message::Message;
pub use places::{PlaceChange, PlacesOutcome};
pub use profile_cache::ProfileCacheStatistics;
pub use quota::Quota;
pub use ready_message::{NewMessage, ReadyMessage};
pub use subscriptions::SubscriptionChange;
