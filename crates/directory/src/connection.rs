//! Connections: which server replicates with which other one, how often, and which databases.
//!
//! Corresponds to Domino's Connection document. The documents replicate with the directory, so the connections of all
//! servers can be managed on one of them. Each server runs those of which it is the source.

use base::{Name, NoteId};
use notes::Item;

use crate::cache::MemorySize;
use crate::error::{Error, Result};
use crate::items;
use crate::key::LookupKey;
use crate::limits::{CONNECTION_DATABASES_MAX, CONNECTION_MINUTES_MAX};
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
    /// Number of minutes between two replications.
    pub interval_minutes: u32,
    /// Paths of databases on the destination. Empty: all databases of which both servers have replicas.
    pub databases: Vec<String>,
}

impl Connection {
    pub(crate) fn read(note: NoteId, items: &[Item]) -> Option<Self> {
        Some(Self {
            note,
            source: Name::new(items::text(items, items::SOURCE)?),
            destination: Name::new(items::text(items, items::DESTINATION)?),
            interval_minutes: items::text(items, items::REPEAT_INTERVAL)?
                .parse()
                .ok()
                .filter(|minutes| *minutes > 0)?,
            databases: items::texts(items, items::REPLICATION_FILES).map(str::to_owned).collect(),
        })
    }

    pub(crate) fn write(&self, items: &mut Vec<Item>) {
        items::set_text(items, items::FORM, Some(FORM));
        items::set_text(items, items::TYPE, Some(FORM));
        items::set_names(items, items::SOURCE, &[self.source.canonical().to_owned()]);
        items::set_names(items, items::DESTINATION, &[self.destination.canonical().to_owned()]);
        items::set_text(items, items::REPEAT_INTERVAL, Some(&self.interval_minutes.to_string()));
        items::set_texts(items, items::REPLICATION_FILES, &self.databases);
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_name(self.source.canonical())?;
        check_name(self.destination.canonical())?;
        if !(1..=CONNECTION_MINUTES_MAX).contains(&self.interval_minutes) {
            let reason = "the pause between two replications must be from 1 minute to 30 days";
            return Err(Error::name(&self.interval_minutes.to_string(), reason));
        }
        if self.databases.len() > CONNECTION_DATABASES_MAX {
            return Err(Error::Limit { quantity: "databases of a connection", max: CONNECTION_DATABASES_MAX });
        }
        Ok(self.databases.iter().try_for_each(|path| notes::catalog::check_path(path))?)
    }

    /// Returns kind and names, for messages.
    #[must_use]
    pub fn label(&self) -> String {
        format!("connection from {} to {}", self.source.abbreviated(), self.destination.abbreviated())
    }

    pub(crate) fn unique_keys(&self) -> Vec<LookupKey> {
        vec![LookupKey::connection(&self.source, &self.destination)]
    }

    pub(crate) fn sort_text(&self) -> String {
        format!("{} {}", self.source.abbreviated(), self.destination.abbreviated())
    }
}

impl MemorySize for Connection {
    fn bytes(&self) -> usize {
        let databases = self.databases.iter().map(|path| path.len() + size_of::<String>()).sum::<usize>();
        size_of::<Self>() + self.source.canonical().len() + self.destination.canonical().len() + databases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection {
            note: NoteId(4),
            source: Name::new("hub/Acme"),
            destination: Name::new("spoke/Acme"),
            interval_minutes: 15,
            databases: vec!["talk.nsf".to_owned()],
        }
    }

    #[test]
    fn a_connection_reads_back_from_its_items() {
        let mut items = Vec::new();
        connection().write(&mut items);
        assert_eq!(Connection::read(NoteId(4), &items), Some(connection()));
        items::set_text(&mut items, items::REPEAT_INTERVAL, Some("0"));
        assert_eq!(Connection::read(NoteId(4), &items), None);
    }

    #[test]
    fn connections_that_are_not_valid_are_refused() {
        assert!(connection().check().is_ok());
        for minutes in [0, CONNECTION_MINUTES_MAX + 1] {
            assert!(Connection { interval_minutes: minutes, ..connection() }.check().is_err());
        }
        assert!(Connection { databases: vec!["../x".to_owned()], ..connection() }.check().is_err());
        assert!(Connection { source: Name::new(""), ..connection() }.check().is_err());
    }
}
