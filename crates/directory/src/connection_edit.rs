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

    /// Adds a connection, or replaces the one with the same name between the same servers. The note ID is ignored.
    pub fn connection_set(&self, connection: &Connection) -> Result<()> {
        let mut edit = self.edit()?;
        let mut connection = connection.clone();
        let key = LookupKey::connection(&connection.source, &connection.destination, &connection.name);
        connection.note = edit.find(&key)?.map_or(NoteId(0), |record| record.note());
        edit.save(&Record::Connection(Arc::new(connection)))?;
        self.commit_durable(edit)
    }

    /// Removes the connection with a name between two servers. Returns [`Error::NotFound`] if there is none.
    pub fn connection_remove(&self, source: &Name, destination: &Name, name: &str) -> Result<()> {
        let mut edit = self.edit()?;
        let found = edit.find(&LookupKey::connection(source, destination, name))?;
        let found = found.ok_or_else(|| {
            let named = if name.is_empty() { "without a name" } else { name };
            let servers = format!("from {} to {}", source.abbreviated(), destination.abbreviated());
            Error::not_found(format!("connection {named} {servers}"))
        })?;
        edit.remove(found.note())?;
        self.commit_durable(edit)
    }
}
