//! What the worker pool knows about a job: who it is for, and what it does.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base::networks::peer_network;

/// The account or the peer that a job is run for. The pool divides its workers between the owners of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobOwner {
    /// The server itself, such as the router.
    Server,
    /// A logged-in account, by its canonical name.
    Account(Arc<str>),
    /// A peer that has not logged in, by its address. IPv6 addresses are cut to their first 64 bits, because a single
    /// machine has that many.
    Address(IpAddr),
}

impl JobOwner {
    /// Creates the owner of jobs for an account, by its canonical name.
    #[must_use]
    pub fn account(name: &str) -> Self {
        Self::Account(name.into())
    }

    /// Creates the owner of jobs for a peer that has not logged in.
    #[must_use]
    pub fn stranger(address: IpAddr) -> Self {
        Self::Address(peer_network(address))
    }

    /// Returns the class of the owner.
    #[must_use]
    pub fn class(&self) -> JobClass {
        match self {
            Self::Server => JobClass::Server,
            Self::Account(_) => JobClass::Account,
            Self::Address(_) => JobClass::Stranger,
        }
    }
}

impl fmt::Display for JobOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("the server"),
            Self::Account(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// A class of owners, for statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobClass {
    /// The server itself.
    Server,
    /// Logged-in accounts.
    Account,
    /// Peers that have not logged in.
    Stranger,
}

impl JobClass {
    /// Returns the name of the class in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Account => "account",
            Self::Stranger => "stranger",
        }
    }
}

/// What a job does, for statistics and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobVerb {
    /// The protocol or the task, such as `imap`.
    pub protocol: &'static str,
    /// The command, such as `SEARCH`.
    pub command: &'static str,
}

/// Owner and verb of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobLabel {
    /// The account or the peer that the job is run for.
    pub owner: JobOwner,
    /// What the job does.
    pub verb: JobVerb,
}

impl JobLabel {
    /// Creates a label.
    #[must_use]
    pub fn new(owner: JobOwner, protocol: &'static str, command: &'static str) -> Self {
        Self { owner, verb: JobVerb { protocol, command } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_told_apart_by_network() {
        let owner = |text: &str| JobOwner::stranger(text.parse().expect("an address"));
        assert_eq!(owner("192.0.2.1"), owner("::ffff:192.0.2.1"));
        assert_ne!(owner("192.0.2.1"), owner("192.0.2.2"));
        assert_eq!(owner("2001:db8::1"), owner("2001:db8::ffff:0:0:1"));
        assert_ne!(owner("2001:db8::1"), owner("2001:db8:0:1::1"));
        assert_eq!(owner("2001:db8::1").to_string(), "2001:db8::");
    }
}
