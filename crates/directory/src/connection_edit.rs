//! Listing, adding, changing and removing connections.

use std::sync::Arc;

use base::{Name, NoteId};

use crate::connection::Connection;
use crate::directory::{Directory, ListPage};
use crate::error::{Error, Result};
use crate::key::LookupKey;
use crate::record::{Kind, Record};

impl Directory {
    /// Returns a page of the connections, in the order of their sources and destinations.
    pub fn connections(&self, position: u64, limit: usize) -> Result<ListPage<Arc<Connection>>> {
        self.page(Kind::Connection, position, limit, |record| match record {
            Record::Connection(connection) => Some(connection),
            _ => None,
        })
    }

    /// Adds a connection, or replaces the one between the same servers. The note ID is ignored.
    pub fn connection_set(&self, connection: &Connection) -> Result<()> {
        let mut edit = self.edit()?;
        let mut connection = connection.clone();
        connection.note = match edit.find(&LookupKey::connection(&connection.source, &connection.destination))? {
            Some(record) => record.note(),
            None => NoteId(0),
        };
        edit.save(&Record::Connection(Arc::new(connection)))?;
        self.commit_durable(edit)
    }

    /// Removes the connection between two servers. Returns [`Error::NotFound`] if there is none.
    pub fn connection_remove(&self, source: &Name, destination: &Name) -> Result<()> {
        let mut edit = self.edit()?;
        let found = edit.find(&LookupKey::connection(source, destination))?;
        let found = found.ok_or_else(|| {
            Error::not_found(format!("connection from {} to {}", source.abbreviated(), destination.abbreviated()))
        })?;
        edit.remove(found.note())?;
        self.commit_durable(edit)
    }
}
