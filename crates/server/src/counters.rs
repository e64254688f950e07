//! Counters of the program itself for its statistics: incoming and outgoing mail, and logins.
//!
//! All other numbers of `/metrics` come from the reports of the other crates. A counter never decreases until the
//! server ends.

use std::sync::atomic::{AtomicU64, Ordering};

use admin::AdminError;
use mail::submission::{Origin, ReceivedProtocol};
use replica::PullStatistics;
use sasl::LoginProtocol;

/// A counter that never decreases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `more` to the counter.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Returns the current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The names of the protocols by which mail arrives, as the statistics show them.
pub const MAIL_PROTOCOLS: [&str; 3] = ["smtp", "submission", "lmtp"];

/// Counters of incoming mail and its delivery.
#[derive(Debug, Default)]
pub struct MailCounters {
    /// Counters for each protocol, in the order of [`MAIL_PROTOCOLS`].
    pub by_protocol: [ProtocolCounters; 3],
    /// Local mailboxes to which a message was delivered when it was accepted.
    pub delivered: Counter,
    /// Recipients for whom an accepted message was queued.
    pub queued: Counter,
    /// Remote recipients for whom another server accepted the message.
    pub sent: Counter,
    /// Delivery attempts that will be repeated, counted per recipient.
    pub deferred: Counter,
    /// Recipients for whom delivery failed permanently.
    pub failed: Counter,
}

/// Counters of mail that arrived by one protocol.
#[derive(Debug, Default)]
pub struct ProtocolCounters {
    /// Messages that were accepted.
    pub accepted: Counter,
    /// Total size in bytes of the accepted messages.
    pub accepted_bytes: Counter,
    /// Messages that were refused after they had been received completely.
    pub refused: Counter,
}

impl MailCounters {
    /// Returns the counters of the protocol by which a message arrived.
    #[must_use]
    pub fn for_origin(&self, origin: &Origin) -> &ProtocolCounters {
        let [smtp, submission, lmtp] = &self.by_protocol;
        match (origin.protocol, &origin.login) {
            (ReceivedProtocol::Lmtp, _) => lmtp,
            (_, Some(_)) => submission,
            (_, None) => smtp,
        }
    }
}

/// Counters of the replications of this server since its start. A replication takes over the changes of one database.
#[derive(Debug, Default)]
pub struct ReplicationCounters {
    /// Replications that brought everything.
    pub successful: Counter,
    /// Replications that failed, and attempts to reach another server.
    pub failed: Counter,
    /// Notes that were received.
    pub received: Counter,
    /// Notes of which two versions had to be brought together.
    pub conflicts: Counter,
    /// Bytes of lists, notes and attachments that were received.
    pub received_bytes: Counter,
    /// Number of connections of this server whose last use failed.
    pub failing_connections: AtomicU64,
}

impl ReplicationCounters {
    /// Counts a replication of a database. One that was cut off counts neither as successful nor as failed.
    pub fn add(&self, statistics: &PullStatistics, bytes: u64, error: Option<&AdminError>) {
        self.received.add(statistics.received);
        self.conflicts.add(statistics.conflicts);
        self.received_bytes.add(bytes);
        match error {
            None => self.successful.add(1),
            Some(AdminError::Cancelled) => {}
            Some(_) => self.failed.add(1),
        }
    }
}

/// The protocols whose logins the statistics show.
pub const LOGIN_PROTOCOLS: [LoginProtocol; 6] = [
    LoginProtocol::Imap,
    LoginProtocol::Pop3,
    LoginProtocol::Submission,
    LoginProtocol::Native,
    LoginProtocol::Http,
    LoginProtocol::Jmap,
];

/// Counters of logins for each protocol.
#[derive(Debug, Default)]
pub struct LoginCounters {
    /// Counters of successful and of failed logins, in the order of [`LoginProtocol::ALL`].
    by_protocol: [(Counter, Counter); LoginProtocol::ALL.len()],
}

impl LoginCounters {
    /// Counts a login as succeeded or failed.
    pub fn add<T, E>(&self, protocol: LoginProtocol, outcome: &Result<T, E>) {
        let (succeeded, failed) = self.at(protocol);
        if outcome.is_ok() { succeeded.add(1) } else { failed.add(1) }
    }

    /// Returns the number of successful and of failed logins.
    #[must_use]
    pub fn get(&self, protocol: LoginProtocol) -> (u64, u64) {
        let (succeeded, failed) = self.at(protocol);
        (succeeded.get(), failed.get())
    }

    fn at(&self, protocol: LoginProtocol) -> &(Counter, Counter) {
        &self.by_protocol[protocol as usize]
    }
}
