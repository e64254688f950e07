//! Mail: messages as notes, mailboxes, delivery and the router.
//!
//! | module | contents |
//! |---|---|
//! | [`mime`] | the structure of a message, its lossless storage, and its decoded texts |
//! | [`message`] | a message as the items of a note |
//! | [`threads`] | which messages belong together |
//! | [`mailbox`] | mail files, mailboxes and messages, as IMAP and POP3 see them |
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
pub mod import_export;
pub mod limits;
pub mod mailbox;
pub mod message;
pub mod mime;
pub mod router;
pub mod search_texts;
pub mod submission;
pub mod threads;

pub use error::{Error, Result};
