//! Databases in which the server keeps documents for itself: the sessions of browsers, and uploads.
//!
//! The server creates such a database when it needs it. It does not replicate, and nobody else has access to it.

use std::sync::Arc;

use base::{Name, NoteId};

use crate::access::{Access, level};
use crate::acl::{Acl, Identity};
use crate::catalog::{DatabaseKind, NewDatabase};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::note::Note;
use crate::server_databases::Databases;

/// A database in which the server keeps documents for itself.
#[derive(Clone, Copy, Debug)]
pub struct OwnDatabase {
    /// The path.
    pub path: &'static str,
    /// The kind, which no other database has.
    pub kind: DatabaseKind,
    /// What it contains, such as `Sessions`, for its title.
    pub content: &'static str,
}

impl OwnDatabase {
    /// Opens the database, if there is one. Fails if another database has its path.
    pub fn find(&self, databases: &Databases) -> Result<Option<Arc<Database>>> {
        match databases.database_open(self.path) {
            Err(Error::NotFound { .. }) => Ok(None),
            Ok(database) if database.record().kind != self.kind => {
                let content = self.content.to_lowercase();
                let reason = format!("it has the path of the {content}; give it another one (`doublet db rename`)");
                Err(Error::Invalid { what: format!("database {}", self.path), reason })
            }
            opened => opened.map(Some),
        }
    }

    /// Opens the database, and creates it if there is none.
    pub fn find_or_create(&self, databases: &Databases, server: &Name) -> Result<Arc<Database>> {
        if let Some(database) = self.find(databases)? {
            return Ok(database);
        }
        let title = format!("{} of {}", self.content, server.abbreviated());
        databases.database_create(&NewDatabase::new(self.path, &title, self.kind, Acl::of_server(server)))
    }
}

/// Visits the documents of a database of the server. Returns the number of damaged ones, which are left out: they must
/// not keep the server from starting.
pub fn for_each_own_document(database: &Arc<Database>, server: &Name, visit: &mut dyn FnMut(&Note)) -> Result<u64> {
    let access: Access<level::Reader> = database.authorize(&Arc::new(Identity::local_server(server.clone())))?;
    let reading = access.read()?;
    let mut damaged = 0;
    reading.for_each_note(NoteId(0), &mut |header| {
        if header.class.is_document() && !header.is_stub() {
            match reading.note(header.note) {
                Ok(note) => note.iter().for_each(&mut *visit),
                Err(error) if error.is_damage() => damaged += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    })?;
    Ok(damaged)
}
