//! The notes of the directory, of any kind, as values.

use std::sync::Arc;

use base::NoteId;
use notes::{Item, NoteFlags, NoteHeader};

use crate::connection::{self, Connection};
use crate::domain::{self, Domain};
use crate::error::Result;
use crate::group::{self, Group};
use crate::items;
use crate::key::LookupKey;
use crate::person::{self, Person};
use crate::settings::{self, ServerDocument, SettingsDocument};

/// The kind of a directory note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Person,
    Group,
    Domain,
    Server,
    Connection,
    Settings,
}

impl Kind {
    /// Returns the letter of the kind in keys.
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Person => 'p',
            Self::Group => 'g',
            Self::Domain => 'd',
            Self::Server => 's',
            Self::Connection => 'n',
            Self::Settings => 'c',
        }
    }
}

/// A note of the directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    Person(Arc<Person>),
    Group(Arc<Group>),
    Domain(Arc<Domain>),
    Server(Arc<ServerDocument>),
    Connection(Arc<Connection>),
    Settings(Arc<SettingsDocument>),
}

impl Record {
    /// Parses a note. Returns `None` if it is not a directory note, lacks a required item, or is a conflict document:
    /// what it says has lost against the note that counts.
    pub(crate) fn read(header: &NoteHeader, items: &[Item]) -> Option<Self> {
        if !header.class.is_document() || header.flags.contains(NoteFlags::CONFLICT) {
            return None;
        }
        let note = header.note;
        Some(match items::text(items, items::FORM)? {
            person::FORM => Self::Person(Arc::new(Person::read(note, items)?)),
            group::FORM => Self::Group(Arc::new(Group::read(note, items)?)),
            domain::FORM => Self::Domain(Arc::new(Domain::read(note, items)?)),
            connection::FORM => Self::Connection(Arc::new(Connection::read(note, items)?)),
            settings::SERVER_FORM => Self::Server(Arc::new(ServerDocument::read(note, items)?)),
            settings::SETTINGS_FORM => Self::Settings(Arc::new(SettingsDocument::read(note, items)?)),
            _ => return None,
        })
    }

    /// Returns the record of the one of several notes with a key that counts. Of a server, it says what all of its
    /// documents say.
    pub(crate) fn of_holders(
        holders: &[NoteId],
        counting: NoteId,
        mut read: impl FnMut(NoteId) -> Result<Option<Self>>,
    ) -> Result<Option<Self>> {
        let record = read(counting)?;
        let Some(Self::Server(server)) = record.as_ref().filter(|_| holders.len() > 1) else { return Ok(record) };
        let mut united = server.as_ref().clone();
        for holder in holders.iter().filter(|holder| **holder != counting) {
            if let Some(Self::Server(other)) = read(*holder)? {
                united.unite(&other);
            }
        }
        Ok(Some(Self::Server(Arc::new(united))))
    }

    /// Writes the record into the items of a note. Keeps unknown items.
    pub(crate) fn write(&self, items: &mut Vec<Item>) {
        match self {
            Self::Person(person) => person.write(items),
            Self::Group(group) => group.write(items),
            Self::Domain(domain) => domain.write(items),
            Self::Server(server) => server.write(items),
            Self::Connection(connection) => connection.write(items),
            Self::Settings(settings) => settings.write(items),
        }
    }

    /// Checks the record before it is written.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Person(person) => person.check(),
            Self::Group(group) => group.check(),
            Self::Domain(domain) => domain.check(),
            Self::Server(server) => server.check(),
            Self::Connection(connection) => connection.check(),
            Self::Settings(settings) => person::check_text(&settings.subject),
        }
    }

    /// Returns the note ID.
    pub(crate) fn note(&self) -> NoteId {
        match self {
            Self::Person(person) => person.note,
            Self::Group(group) => group.note,
            Self::Domain(domain) => domain.note,
            Self::Server(server) => server.note,
            Self::Connection(connection) => connection.note,
            Self::Settings(settings) => settings.note,
        }
    }

    /// Returns kind and name, for messages.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Person(person) => person.label(),
            Self::Group(group) => group.label(),
            Self::Domain(domain) => domain.label(),
            Self::Server(server) => format!("server {}", server.name),
            Self::Connection(connection) => connection.label(),
            Self::Settings(settings) => format!("settings {}", settings.subject),
        }
    }

    /// Returns the keys that no other note may have.
    pub(crate) fn unique_keys(&self) -> Vec<LookupKey> {
        match self {
            Self::Person(person) => person.unique_keys(),
            Self::Group(group) => group.unique_keys(),
            Self::Domain(domain) => domain.unique_keys(),
            Self::Server(server) => server.unique_keys(),
            Self::Connection(connection) => connection.unique_keys(),
            Self::Settings(settings) => settings.unique_keys(),
        }
    }

    /// Returns all keys by which the note is found, sorted and without duplicates.
    pub(crate) fn keys(&self) -> Vec<LookupKey> {
        let mut keys = self.unique_keys();
        let (kind, sort) = match self {
            Self::Person(person) => {
                keys.extend(person.application_password_keys());
                (Kind::Person, person.sort_text())
            }
            Self::Group(group) => {
                keys.extend(group.member_keys());
                (Kind::Group, group.sort_text())
            }
            Self::Domain(domain) => (Kind::Domain, domain.name.clone()),
            Self::Server(server) => (Kind::Server, server.name.abbreviated()),
            Self::Connection(connection) => (Kind::Connection, connection.sort_text()),
            Self::Settings(settings) => (Kind::Settings, settings.subject.clone()),
        };
        keys.push(LookupKey::of_kind(kind.letter(), &sort));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
