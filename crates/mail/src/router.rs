//! The router: accepts messages, delivers them locally, queues them for other servers, and reports the outcome.
//!
//! | module | contents |
//! |---|---|
//! | [`envelope`] | the sender, the recipients, and the reports that the sender requests |
//! | [`schedule`] | the times of retries, of the warning and of giving up |
//! | [`entry`] | the state of a queued message and its stored form |
//! | [`accept`] | acceptance: the first deliveries and queue entries of a message are one batch |
//! | [`record`] | what the mail file of the sender keeps about a message |
//! | [`dispatch`] | the time and the destination of the next attempts |
//! | [`queue`] | the queue: due jobs, their outcomes, the operator's commands |
//! | [`dsn`] | delivery status notifications (RFC 3464) |
//! | [`report_limits`] | the number of reports that one sender receives |
//!
//! One batch puts an accepted message into the mailboxes of its local recipients and into the queue for the others. At
//! no moment can a crash lose the message or deliver it twice. A change of the queue and the report that it causes are
//! one batch too. A report is never answered with a report. A failure that cannot be reported stays as *dead* mail
//! until an operator handles it.
//!
//! The router does no network input or output. A transfer agent takes jobs from [`Router::take_due_jobs`] and passes
//! their outcomes to [`Router::finish`]. `docs/mail-flow.md` shows the whole path of a message.

pub mod accept;
pub mod dispatch;
pub mod dsn;
pub mod entry;
pub mod envelope;
pub mod queue;
pub mod record;
pub mod report_limits;
pub mod schedule;

pub use accept::{
    AcceptOutcome, AddressResolver, ArrivingMessage, DeliveryTarget, LocalMailbox, Router, RouterOptions,
};
pub use dispatch::Destination;
pub use entry::{QueueEntry, QueueKey, QueuedRecipient, RecipientState};
pub use envelope::{Envelope, Notify, Recipient, ReturnContent};
pub use queue::{DeliveryJob, QueueCounts, TransferOutcome};
pub use record::{DRAFT_FIELDS_ITEM, HeldCopy, RecordChange, SentCopy, SubmissionRecord, WithdrawnCopy};
pub use report_limits::ReportRates;
pub use schedule::QueueSchedule;
