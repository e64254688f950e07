//! Connections: which server replicates with which other one, when, in which direction, and which databases.
//!
//! Corresponds to Domino's Connection document. The documents replicate with the directory, so the connections of all
//! servers can be managed on one of them. Each server runs those of which it is the source.

use base::{Name, NoteId};
use notes::{Item, ReplicationPriority};

use crate::cache::MemorySize;
use crate::connection_schedule::{ConnectionSchedule, Days, TimeRange};
use crate::error::{Error, Result};
use crate::items;
use crate::key::LookupKey;
use crate::limits::{CONNECTION_DATABASES_MAX, CONNECTION_MINUTES_MAX, CONNECTION_NAME_BYTES_MAX};
use crate::person::check_name;

/// Form of connection notes.
pub(crate) const FORM: &str = "Connection";

/// A connection of one server to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// Note ID of the connection; zero before it is stored.
    pub note: NoteId,
    /// The server that connects.
    pub source: Name,
    /// The server to which it connects.
    pub destination: Name,
    /// Name that distinguishes the connection from others between the same servers. May be empty.
    pub name: String,
    /// When the connection is used.
    pub schedule: ConnectionSchedule,
    /// The directions.
    pub replication_type: ReplicationType,
    /// Number of minutes after which a replication is cancelled. It goes on at its place the next time.
    pub time_limit_minutes: Option<u32>,
    /// Maximum number of bytes that are received per second, on average.
    pub bytes_per_second_max: Option<u64>,
    /// The priorities of the databases that are replicated if `databases` is empty. Empty: all.
    pub priorities: Vec<ReplicationPriority>,
    /// Paths of databases on the destination. Empty: all databases of which both servers have replicas.
    pub databases: Vec<String>,
}

/// The directions of a replication, as the server sees it that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplicationType {
    /// It takes over the changes of the other server. Connections that do not say anything else have this type.
    #[default]
    Pull,
    /// The other server takes over its changes.
    Push,
    /// It pulls, then it pushes.
    PullPush,
    /// Both servers pull at the same time.
    PullPull,
}

impl ReplicationType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Pull, Self::Push, Self::PullPush, Self::PullPull];

    /// Returns the name of the type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::PullPush => "pull-push",
            Self::PullPull => "pull-pull",
        }
    }
}

impl Connection {
    pub(crate) fn read(note: NoteId, items: &[Item]) -> Option<Self> {
        Some(Self {
            note,
            source: Name::new(items::text(items, items::SOURCE)?),
            destination: Name::new(items::text(items, items::DESTINATION)?),
            name: items::text(items, items::CONNECTION_NAME).unwrap_or_default().to_owned(),
            schedule: read_schedule(items)?,
            replication_type: match items::text(items, items::REPLICATION_TYPE) {
                Some(text) => ReplicationType::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text))?,
                None => ReplicationType::Pull,
            },
            time_limit_minutes: match items::text(items, items::REPLICATION_TIME_LIMIT) {
                Some(text) => Some(text.parse().ok().filter(|minutes| *minutes > 0)?),
                None => None,
            },
            bytes_per_second_max: match items::text(items, items::REPLICATION_BANDWIDTH) {
                Some(text) => Some(text.parse().ok().filter(|limit| *limit > 0)?),
                None => None,
            },
            priorities: items::texts(items, items::REPLICATION_PRIORITY)
                .map(ReplicationPriority::from_name)
                .collect::<Option<_>>()?,
            databases: items::texts(items, items::REPLICATION_FILES).map(str::to_owned).collect(),
        })
    }

    pub(crate) fn write(&self, items: &mut Vec<Item>) {
        items::set_text(items, items::FORM, Some(FORM));
        items::set_text(items, items::TYPE, Some(FORM));
        items::set_names(items, items::SOURCE, &[self.source.canonical().to_owned()]);
        items::set_names(items, items::DESTINATION, &[self.destination.canonical().to_owned()]);
        items::set_text(items, items::CONNECTION_NAME, (!self.name.is_empty()).then_some(self.name.as_str()));
        let schedule = &self.schedule;
        items::set_text(items, items::REPEAT_INTERVAL, Some(&schedule.interval_minutes.to_string()));
        let days = if schedule.days == Days::ALL { Vec::new() } else { schedule.days.names() };
        items::set_texts(items, items::DAYS, &days.into_iter().map(str::to_owned).collect::<Vec<_>>());
        let times: Vec<String> = schedule.times.iter().map(TimeRange::to_string).collect();
        items::set_texts(items, items::CONNECT_TIMES, &times);
        items::set_text(items, items::REPLICATION_TYPE, Some(self.replication_type.name()));
        let time_limit = self.time_limit_minutes.map(|minutes| minutes.to_string());
        items::set_text(items, items::REPLICATION_TIME_LIMIT, time_limit.as_deref());
        let bandwidth = self.bytes_per_second_max.map(|limit| limit.to_string());
        items::set_text(items, items::REPLICATION_BANDWIDTH, bandwidth.as_deref());
        let priorities: Vec<String> = self.priorities.iter().map(|priority| priority.name().to_owned()).collect();
        items::set_texts(items, items::REPLICATION_PRIORITY, &priorities);
        items::set_texts(items, items::REPLICATION_FILES, &self.databases);
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_name(self.source.canonical())?;
        check_name(self.destination.canonical())?;
        if self.name.len() > CONNECTION_NAME_BYTES_MAX || self.name.contains(|c: char| c.is_control() || c == '|') {
            return Err(Error::name(&self.name, "the name of a connection has up to 64 bytes, and no bar"));
        }
        self.schedule.check()?;
        if let Some(minutes) = self.time_limit_minutes.filter(|limit| !(1..=CONNECTION_MINUTES_MAX).contains(limit)) {
            return Err(Error::name(&minutes.to_string(), "the time limit must be from 1 minute to 30 days"));
        }
        if self.databases.len() > CONNECTION_DATABASES_MAX {
            return Err(Error::Limit { quantity: "databases of a connection", max: CONNECTION_DATABASES_MAX });
        }
        Ok(self.databases.iter().try_for_each(|path| notes::catalog::check_path(path))?)
    }

    /// Returns kind and names, for messages.
    #[must_use]
    pub fn label(&self) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!("{} ", self.name) };
        format!("connection {name}from {} to {}", self.source.abbreviated(), self.destination.abbreviated())
    }

    pub(crate) fn unique_keys(&self) -> Vec<LookupKey> {
        vec![LookupKey::connection(&self.source, &self.destination, &self.name)]
    }

    pub(crate) fn sort_text(&self) -> String {
        format!("{} {} {}", self.source.abbreviated(), self.destination.abbreviated(), self.name)
    }
}

impl MemorySize for Connection {
    fn bytes(&self) -> usize {
        let databases = self.databases.iter().map(|path| path.len() + size_of::<String>()).sum::<usize>();
        let times = self.schedule.times.len() * size_of::<TimeRange>();
        size_of::<Self>() + self.source.canonical().len() + self.destination.canonical().len() + databases + times
    }
}

/// Reads the schedule. Returns `None` if it is not valid.
fn read_schedule(items: &[Item]) -> Option<ConnectionSchedule> {
    let interval = items::text(items, items::REPEAT_INTERVAL)?;
    let days: Vec<&str> = items::texts(items, items::DAYS).collect();
    let times = items::texts(items, items::CONNECT_TIMES).map(TimeRange::parse);
    Some(ConnectionSchedule {
        interval_minutes: interval.parse().ok().filter(|minutes| *minutes > 0)?,
        days: if days.is_empty() { Days::ALL } else { Days::parse(&days.join(","))? },
        times: times.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection {
            note: NoteId(4),
            source: Name::new("hub/Acme"),
            destination: Name::new("spoke/Acme"),
            name: "by day".to_owned(),
            schedule: ConnectionSchedule {
                days: Days::parse("Mon-Fri").expect("valid"),
                times: TimeRange::parse_list("08:00-22:00,23:30").expect("valid"),
                ..ConnectionSchedule::every_minutes(15)
            },
            replication_type: ReplicationType::PullPush,
            time_limit_minutes: Some(30),
            bytes_per_second_max: Some(1_000_000),
            priorities: vec![ReplicationPriority::High, ReplicationPriority::Low],
            databases: vec!["talk.nsf".to_owned()],
        }
    }

    #[test]
    fn a_connection_reads_back_from_its_items() {
        let mut items = Vec::new();
        connection().write(&mut items);
        assert_eq!(Connection::read(NoteId(4), &items), Some(connection()));
        let optional = [items::DAYS, items::CONNECT_TIMES, items::REPLICATION_TYPE, items::REPLICATION_TIME_LIMIT];
        for name in optional.into_iter().chain([items::REPLICATION_PRIORITY, items::REPLICATION_BANDWIDTH]) {
            let mut changed = items.clone();
            items::set_text(&mut changed, name, Some("x"));
            assert_eq!(Connection::read(NoteId(4), &changed), None, "{name}");
            items::set(&mut items, name, None);
        }
        // A connection without these items is used at all times, and pulls.
        let plain = Connection {
            schedule: ConnectionSchedule::every_minutes(15),
            replication_type: ReplicationType::Pull,
            time_limit_minutes: None,
            bytes_per_second_max: None,
            priorities: Vec::new(),
            ..connection()
        };
        assert_eq!(Connection::read(NoteId(4), &items), Some(plain));
        items::set_text(&mut items, items::REPEAT_INTERVAL, Some("0"));
        assert_eq!(Connection::read(NoteId(4), &items), None);
    }

    #[test]
    fn connections_that_are_not_valid_are_refused() {
        assert!(connection().check().is_ok());
        for minutes in [0, CONNECTION_MINUTES_MAX + 1] {
            assert!(Connection { time_limit_minutes: Some(minutes), ..connection() }.check().is_err());
            let schedule = ConnectionSchedule::every_minutes(minutes);
            assert!(Connection { schedule, ..connection() }.check().is_err());
        }
        assert!(Connection { databases: vec!["../x".to_owned()], ..connection() }.check().is_err());
        assert!(Connection { source: Name::new(""), ..connection() }.check().is_err());
        for name in ["x".repeat(CONNECTION_NAME_BYTES_MAX + 1), "a|b".to_owned(), "a\nb".to_owned()] {
            assert!(Connection { name, ..connection() }.check().is_err());
        }
    }
}
