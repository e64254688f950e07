//! People and groups by the UNIDs of their notes, which are the same in all replicas of the directory and never change.

use std::sync::Arc;

use base::{NoteId, Unid};

use crate::directory::Directory;
use crate::error::Result;
use crate::group::Group;
use crate::person::Person;
use crate::record::Record;

/// A person or a group.
#[derive(Debug, Clone, PartialEq)]
pub enum DirectoryEntry {
    /// A person.
    Person(Arc<Person>),
    /// A group.
    Group(Arc<Group>),
}

impl Directory {
    /// Returns the UNIDs of notes, in the same order. Those of notes that do not exist are left out.
    pub fn unids(&self, notes: &[NoteId]) -> Result<Vec<(NoteId, Unid)>> {
        let reading = self.read()?;
        let mut found = Vec::with_capacity(notes.len());
        for note in notes {
            found.extend(reading.header(*note)?.map(|header| (*note, header.unid)));
        }
        Ok(found)
    }

    /// Returns the person or group whose note has a UNID.
    pub fn entry(&self, unid: Unid) -> Result<Option<DirectoryEntry>> {
        let reading = self.read()?;
        let Some(note) = reading.find(unid)?.map(|note| reading.note(note)).transpose()?.flatten() else {
            return Ok(None);
        };
        Ok(match Record::read(&note.header, &note.items) {
            Some(Record::Person(person)) => Some(DirectoryEntry::Person(person)),
            Some(Record::Group(group)) => Some(DirectoryEntry::Group(group)),
            _ => None,
        })
    }
}
