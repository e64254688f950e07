//! The router: takes messages, delivers them here, queues them for elsewhere, and reports what became of them.
//!
//! | module | what it holds |
//! |---|---|
//! | [`envelope`] | sender and recipients, and what the sender wants to be told |
//! | [`schedule`] | when to try again, when to warn, when to give up |
//! | [`entry`] | a queued message's state, and its stored form |
//! | [`accept`] | taking a message: everything that happens to it at first is one batch |
//! | [`agenda`] | which of them is to be tried when, and where to |
//! | [`queue`] | the queue: what is due, what became of it, what an operator may do |
//! | [`report`] | delivery status notifications (RFC 3464) |
//!
//! Invariants. A message that was accepted is, in the same batch, in the mailboxes of its local recipients and in the
//! queue for the others: there is no moment in which a crash loses it or delivers it twice. A change of the queue and the
//! report that it causes are one batch too. A report is never answered by a report. What cannot be reported is kept as
//! *dead* mail until an operator looks at it.
//!
//! The router does no input or output of its own: a transfer agent asks [`Router::due`] for jobs and tells
//! [`Router::finish`] what became of them. `docs/mail-flow.md` draws the whole way.

pub mod accept;
pub mod agenda;
pub mod entry;
pub mod envelope;
pub mod queue;
pub mod report;
pub mod schedule;

pub use accept::{Accepted, Addressing, LocalMailbox, Router, RouterOptions, Target};
pub use agenda::Destination;
pub use entry::{QueueEntry, QueueKey, QueuedRecipient, RecipientState};
pub use envelope::{Envelope, Notify, Recipient, ReturnContent};
pub use queue::{Job, QueueCounts, TransferOutcome};
pub use schedule::Schedule;
