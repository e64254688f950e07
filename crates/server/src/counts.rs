//! What the program itself counts for its statistics: mail that came in and went out, and logins.
//!
//! Everything else that `/metrics` tells comes from the rooms' own reports. A count only rises until the server ends.

use std::sync::atomic::{AtomicU64, Ordering};

use smtp::envelope::{Envelope, Protocol};

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Counts so many more.
    pub fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Gives the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The ways by which mail comes in, as they stand in the statistics.
pub const WAYS: [&str; 3] = ["smtp", "submission", "lmtp"];

/// What became of mail.
#[derive(Debug, Default)]
pub struct MailCounts {
    /// By way, in the order of [`WAYS`].
    pub by_way: [WayCounts; 3],
    /// Mailboxes here that got a message as it was accepted.
    pub delivered: Count,
    /// Recipients for whom an accepted message went into the queue.
    pub queued: Count,
    /// Recipients elsewhere for whom another server took the message.
    pub sent: Count,
    /// Attempts that are to be repeated, by recipient.
    pub put_off: Count,
    /// Recipients whom the message could not reach.
    pub failed: Count,
}

/// What became of mail that came in one way.
#[derive(Debug, Default)]
pub struct WayCounts {
    /// Messages that were accepted.
    pub accepted: Count,
    /// Bytes of these.
    pub accepted_bytes: Count,
    /// Messages that were refused after they had come whole.
    pub refused: Count,
}

impl MailCounts {
    /// Gives the counts of the way by which a message came.
    #[must_use]
    pub fn of(&self, envelope: &Envelope) -> &WayCounts {
        let [smtp, submission, lmtp] = &self.by_way;
        match (envelope.protocol, &envelope.sender.login) {
            (Protocol::Lmtp, _) => lmtp,
            (_, Some(_)) => submission,
            (_, None) => smtp,
        }
    }
}

/// The rooms that let people log in, as they stand in the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// IMAP.
    Imap,
    /// POP3.
    Pop3,
    /// Submission.
    Submission,
    /// The native protocol.
    Native,
}

impl Door {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Imap, Self::Pop3, Self::Submission, Self::Native];

    /// Gives the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Imap => "imap",
            Self::Pop3 => "pop3",
            Self::Submission => "submission",
            Self::Native => "native",
        }
    }
}

/// Logins by door.
#[derive(Debug, Default)]
pub struct LoginCounts {
    doors: [(Count, Count); 4],
}

impl LoginCounts {
    /// Counts a login that succeeded, or one that failed.
    pub fn add<T, E>(&self, door: Door, outcome: &Result<T, E>) {
        let (succeeded, failed) = self.at(door);
        if outcome.is_ok() { succeeded.add(1) } else { failed.add(1) }
    }

    /// Gives how many logins succeeded and how many failed.
    #[must_use]
    pub fn get(&self, door: Door) -> (u64, u64) {
        let (succeeded, failed) = self.at(door);
        (succeeded.get(), failed.get())
    }

    fn at(&self, door: Door) -> &(Count, Count) {
        let [imap, pop3, submission, native] = &self.doors;
        match door {
            Door::Imap => imap,
            Door::Pop3 => pop3,
            Door::Submission => submission,
            Door::Native => native,
        }
    }
}
