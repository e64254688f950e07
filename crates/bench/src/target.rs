//! The server under test: its addresses, its users and its processes.
//!
//! [`server`] starts a server on a folder of its own and ends it, and [`domain`] several servers of one domain,
//! between which [`by_server`] divides the users; [`file`](mod@file) reads the file that describes a server that runs
//! already. Either way there is a [`Target`]. [`process`] reads what processes consume, [`disk`] what the disk of the
//! data folder does, [`metrics`] and [`counters`] what the server counts; [`queue`] waits until its queue is empty.
//! [`cores`] keeps server and driver apart, and [`folder`] copies data folders.

pub mod by_server;
pub mod cores;
pub mod counters;
pub mod disk;
pub mod domain;
pub mod file;
pub mod folder;
pub mod metrics;
pub mod process;
pub mod queue;
pub mod server;
pub mod system_random;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use client::Trust;

use crate::population::people::UserNames;
use crate::workload;

/// The pattern of the addresses of users, as in Server.Load.
pub const USERS_DEFAULT: &str = "mail{}@bench.test";

/// A protocol under which a server has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// The native protocol.
    Native,
    /// IMAP with TLS from the beginning.
    Imap,
    /// SMTP from other servers (port 25).
    Smtp,
    /// LMTP: the path of a local socket, or a host and port.
    Lmtp,
    /// Submission with TLS from the beginning.
    Submission,
    /// POP3 with TLS from the beginning.
    Pop3,
    /// JMAP over HTTPS.
    Jmap,
    /// The lite web mail over HTTPS.
    Lite,
}

impl Protocol {
    /// Returns the word for it in the file of `--target`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Imap => "imap",
            Self::Smtp => "smtp",
            Self::Lmtp => "lmtp",
            Self::Submission => "submission",
            Self::Pop3 => "pop3",
            Self::Jmap => "jmap",
            Self::Lite => "lite",
        }
    }
}

/// A server that runs.
#[derive(Clone)]
pub struct Target {
    /// The host and port of each protocol that the server has.
    pub addresses: BTreeMap<Protocol, String>,
    /// The certificates that are trusted.
    pub trust: Trust,
    /// The addresses of the users.
    pub names: UserNames,
    /// The password of all users.
    pub password: String,
    /// The host and port of `/metrics`.
    pub metrics: Option<String>,
    /// Folders whose files are messages that wait, of a server without `/metrics`.
    pub queue_folders: Vec<PathBuf>,
    /// The processes of the server.
    pub processes: Vec<u32>,
    /// The data folder, if it is on this machine and known.
    pub data_folder: Option<PathBuf>,
}

/// Shows no password.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("addresses", &self.addresses).field("processes", &self.processes).finish()
    }
}

impl Target {
    /// Returns the address of a protocol.
    ///
    /// # Errors
    ///
    /// If the server has none.
    pub fn address(&self, protocol: Protocol) -> Result<&str, TargetError> {
        self.addresses.get(&protocol).map(String::as_str).ok_or(TargetError::NoAddress(protocol.word()))
    }
}

/// Why there is no target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A file cannot be read or written.
    #[error("{file}: {source}")]
    File {
        /// The file.
        file: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file has other contents than it should have.
    #[error("{file}: {reason}")]
    Contents {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The program of the server cannot be run, or fails.
    #[error("{command}: {reason}")]
    Program {
        /// The command.
        command: String,
        /// What it has written, or the error of the operating system.
        reason: String,
    },
    /// The server is on another machine.
    #[error("{0} is not on this machine; with --yes-load-it it is loaded nevertheless")]
    Remote(String),
    /// The server has no address for a protocol of the workload.
    #[error("the target has no address for {0}: in the file of --target, {0} is missing")]
    NoAddress(&'static str),
    /// An address is not a host and a port.
    #[error("{0} is not a host and a port")]
    NotAnAddress(String),
    /// This version does not have the door of the workload.
    #[error("the door {0:?} does not exist yet")]
    NoDoor(workload::Door),
    /// The certificate cannot be used.
    #[error(transparent)]
    Trust(#[from] client::Error),
}

impl TargetError {
    /// Creates the error of a file.
    pub fn of_file(file: impl fmt::Display, source: std::io::Error) -> Self {
        Self::File { file: file.to_string(), source }
    }
}

/// Returns `true` if all addresses of a host are those of this machine alone. A name that is not found is not.
///
/// The port follows the host.
pub fn is_loopback(address: &str) -> bool {
    let Ok(found) = address.to_socket_addrs() else { return false };
    let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    !addresses.is_empty() && addresses.iter().all(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_of_this_machine() {
        for address in ["127.0.0.1:1352", "127.3.0.1:1", "[::1]:1352", "[::ffff:127.0.0.1]:1352"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["192.0.2.1:1352", "0.0.0.0:1352", "[2001:db8::1]:1352", "127.0.0.1", "no port", ""] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
