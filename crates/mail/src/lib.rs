//! Mail: messages as notes, mailboxes, delivery and the router.
//!
//! | module | contents |
//! |---|---|
//! | [`mime`] | the structure of a message, its lossless storage, and its decoded texts |
//! | [`message`] | a message as the items of a note |
//! | [`threads`] | which messages belong together |
//! | [`mailbox`] | mail files, mailboxes and messages, as IMAP and POP3 see them |
//! | [`mailbox_list`], [`message_table`] | mailboxes and messages in memory, which follow the mail file |
//! | [`profile`], [`preferences`], [`identities`] | settings of persons that all clients share |
//! | [`object_id`] | identifiers of messages, threads and mailboxes |
//! | [`submission`] | the path of a message from a protocol to the router: sender, recipients, completion |
//! | [`router`] | delivery, the queue, reports |
//! | [`disposition_notification`] | notifications that a message was displayed (RFC 8098) |
//! | [`import_export`] | import and export: mbox, Maildir, single files |
//! | [`casemap`], [`search_texts`] | text comparison; the texts of a message that IMAP SEARCH examines |
//! | [`full_text`] | the texts of a message for the full-text index |
//! | [`error`] | the errors of this crate, sorted by the party that must act |
//! | [`limits`] | every limit of this crate |

pub mod casemap;
pub mod content_names;
pub mod disposition_notification;
pub mod error;
pub mod full_text;
mod hourly_rate;
pub mod identities;
pub mod import_export;
pub mod limits;
pub mod mailbox;
pub mod mailbox_list;
pub mod message;
pub mod message_table;
pub mod mime;
pub mod object_id;
pub mod preferences;
pub mod profile;
pub mod router;
pub mod search_texts;
pub mod submission;
pub mod threads;

pub use error::{Error, Result};
