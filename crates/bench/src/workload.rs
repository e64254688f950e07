//! Workload files: what simulated users do, read and checked (docs/workloads.md).
//!
//! [`check`](check::check) turns the text of a file and the options `--set` into a [`Workload`], or into all errors
//! with their lines. [`shipped`] has the files that this program brings. [`rates`] computes the promised counts of a
//! user. Nothing here depends on a server, on the clock, or on a seed.

pub mod action;
pub mod check;
pub mod class;
mod document;
pub mod finding;
pub mod fraction;
pub mod limits;
mod parameter;
pub mod profile;
pub mod rates;
pub mod shipped;
pub mod source;
mod table;
#[cfg(test)]
mod tests;
pub mod units;
pub mod verb;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use class::Class;
use document::{Number, Scalar};
use profile::SizeProfile;
use source::Source;
use units::Share;

/// A checked workload, with all defaults and parameters applied.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Workload {
    /// The name in reports.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// More about it.
    pub about: String,
    /// The protocols.
    pub door: Door,
    /// Whether users log in once, or in each iteration.
    pub session: Session,
    /// Iterations of each user; 0 until the run ends.
    pub iterations: u64,
    /// Users of a run without `--users`.
    pub users: u64,
    /// From steady state to the measured interval.
    pub settle_us: u64,
    /// The length of the measured interval.
    pub measure_us: u64,
    /// What each mail file has before the run.
    pub mailbox: Mailbox,
    /// The directory, and who is drawn from it.
    pub directory: Directory,
    /// How the native door makes its calls.
    pub native: NativeCalls,
    /// Databases other than mail files.
    pub databases: Vec<Database>,
    /// Size profiles by name, with the one that is built in.
    pub profiles: BTreeMap<String, SizeProfile>,
    /// Conditions on the server.
    pub requires: Vec<Requirement>,
    /// Activities beside the users.
    pub parts: Vec<Part>,
    /// User classes, at least one.
    pub classes: Vec<Class>,
    /// The parameters with their values in this run.
    pub parameters: Vec<UsedParameter>,
    /// Every number of the file with its source.
    pub numbers: Vec<Number>,
    /// The meaning of the tags that the file has of its own.
    pub tags: BTreeMap<String, String>,
}

/// The protocols of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    Native,
    Imap,
    Pop3,
    Jmap,
    Lite,
    Full,
}

/// The doors by their words.
pub const DOORS: &[(&str, Door)] = &[
    ("native", Door::Native),
    ("imap", Door::Imap),
    ("pop3", Door::Pop3),
    ("jmap", Door::Jmap),
    ("lite", Door::Lite),
    ("full", Door::Full),
];

impl Door {
    /// Returns the word of a workload file.
    pub fn word(self) -> &'static str {
        DOORS.iter().find(|(_, door)| *door == self).map_or("native", |(word, _)| word)
    }

    /// Returns `true` if mail files can get messages in the archive through the door.
    pub fn fills_archives(self) -> bool {
        matches!(self, Self::Native | Self::Jmap | Self::Lite)
    }
}

/// When users log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Session {
    /// Before the first iteration.
    Once,
    /// In each iteration.
    Iteration,
}

/// The folder for messages that are kept, in which the archive of a mail file is.
pub const ARCHIVE: &str = "Archive";

/// What the mail file of a user has before the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mailbox {
    /// Messages in the Inbox.
    pub documents: u64,
    /// Messages in the folder [`ARCHIVE`].
    pub archive: u64,
    /// The size profile of the messages.
    pub profile: String,
    /// The share of the messages that are unread.
    pub unread: Share,
    /// Whether the mail file needs a full-text index.
    pub full_text: bool,
}

/// The persons and the ranges from which they are drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Directory {
    /// Persons, or `None` for the users of the run.
    pub people: Option<u64>,
    /// User numbers of recipients, or `None` for all users.
    pub recipients: Option<[u64; 2]>,
    /// Person numbers of lookups, or `None` for all persons.
    pub lookups: Option<[u64; 2]>,
}

/// A kind of database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Database {
    /// The name in the file.
    pub name: String,
    /// The template of the server.
    pub template: String,
    /// Databases of this kind.
    pub count: u64,
    /// Documents of each.
    pub documents: u64,
    /// Text of a document.
    pub bytes: u64,
    /// The view that is opened.
    pub view: String,
    /// Whether it needs a full-text index.
    pub full_text: bool,
}

/// How the native door makes its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NativeCalls {
    /// How a note is read.
    pub read: NoteRead,
    /// Whether reads with the same intended time are one call.
    pub batch: bool,
    /// Rows of a screen of a view.
    pub rows: u64,
    /// Whether both directions are compressed.
    pub compression: bool,
}

/// How a note is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteRead {
    /// With one call.
    Whole,
    /// With one call for its summary, and one for each large item.
    Items,
}

/// A condition on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requirement {
    TransactionLog,
    FullText,
    Authentication,
    Tls,
    ClusterReplication,
    Journaling,
}

/// An activity beside the users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What happens.
    pub name: PartName,
    /// How often it happens.
    pub every_us: Option<u64>,
    /// How late it may be.
    pub maximum_lag_us: Option<u64>,
}

/// What happens beside the users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartName {
    ClusterReplication,
    ClusterFailover,
    ScheduledPush,
}

/// A parameter and its value in this run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UsedParameter {
    /// The name.
    pub name: String,
    /// The value in this run.
    pub value: Scalar,
    /// The value in the file, as it is written.
    pub default: String,
    /// The description.
    pub about: String,
    /// Where the value comes from.
    pub source: Source,
}
