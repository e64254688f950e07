//! One connection's state and what its commands do. Pure: no sockets, no tokio, no clock of its own.
//!
//! * [`roster`] knows which message the client means by a number.
//! * [`hierarchy`] is the tree of mailboxes as LIST shows it.

pub mod hierarchy;
pub mod roster;
