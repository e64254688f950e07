//! Mail: messages as notes, mailboxes, delivery and the router.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mime`] | the structure of a message, how it is kept losslessly, and its texts decoded |
//! | [`message`] | a message as the items of a note |
//! | [`mailbox`] | mail files, mailboxes and messages, as IMAP and POP3 see them |
//! | [`router`] | taking messages, delivering them, the queue |
//! | [`transport`] | import and export: mbox, Maildir, single files |
//! | [`casemap`], [`searched`] | texts made comparable; those of a message in which IMAP looks |
//! | [`full_text`] | what of a message the full-text index gets |
//! | [`error`] | what can go wrong here, sorted by who must act |
//! | [`limits`] | every maximum of this room |

pub mod casemap;
pub mod error;
pub mod full_text;
pub mod limits;
pub mod mailbox;
pub mod message;
pub mod mime;
pub mod router;
pub mod searched;
pub mod transport;

pub use error::{Error, Result};
