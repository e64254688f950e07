//! Read access to public documents only, for identities that may read nothing else.
//!
//! A document is public if its item [`PUBLIC_ITEM`] is `1`. An identity without Reader access whose ACL entry permits
//! reading public documents gets an [`Access`] of the level [`level::Public`], and through it a [`PublicSnapshot`].
//! That is not a [`DatabaseSnapshot`] and cannot become one. It finds documents by id, UNID and parent, and lists them,
//! and each of its methods checks that the document is public and that Readers items do not hide it. Folders, views,
//! counters, the change log and the access control list would reveal documents that are not public, so they are not
//! available.
//!
//! The header of a document stores whether it is public ([`NoteFlags::PUBLIC`]). The flag is written whenever the items
//! are.

use base::{NoteId, Unid};
use store::Ticket;
use store::blob::BlobId;

use crate::access::{Access, AtLeast, level};
use crate::database::Database;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::grant::Grant;
use crate::item::{self, Item};
use crate::note::{Note, NoteFlags, NoteHeader, Summary};

/// The item that makes a document public if it is `1`.
pub const PUBLIC_ITEM: &str = "$PublicAccess";

/// Returns `true` if the items make a document public.
#[must_use]
pub fn is_public(items: &[Item]) -> bool {
    item::find_item(items, PUBLIC_ITEM).and_then(|item| item.value.text()) == Some("1")
}

/// The public documents of a database in a snapshot, as far as one identity may see them.
pub struct PublicSnapshot<'d> {
    reading: DatabaseSnapshot<'d>,
}

impl<L: AtLeast<level::Public>> Access<L> {
    /// Takes a snapshot of the database for reading its public documents.
    pub fn read_public(&self) -> Result<PublicSnapshot<'_>> {
        Ok(PublicSnapshot { reading: DatabaseSnapshot::begin(self.database(), self.grant()?)? })
    }
}

impl<'d> PublicSnapshot<'d> {
    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &'d Database {
        self.reading.database()
    }

    /// Returns the rights that the ACL grants to the reader.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        self.reading.grant()
    }

    /// Returns the ticket that must be durable before data of this snapshot leaves the server.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.reading.ticket()
    }

    /// Returns the header of a public document.
    pub fn header(&self, note: NoteId) -> Result<Option<NoteHeader>> {
        Ok(self.reading.header(note)?.filter(|header| header.flags.contains(NoteFlags::PUBLIC) && !header.is_stub()))
    }

    /// Returns the summary record of a public document.
    pub fn summary(&self, note: NoteId) -> Result<Option<Summary>> {
        if self.is_visible(note)? { self.reading.summary(note) } else { Ok(None) }
    }

    /// Returns a complete public document.
    pub fn note(&self, note: NoteId) -> Result<Option<Note>> {
        if self.is_visible(note)? { self.reading.note(note) } else { Ok(None) }
    }

    /// Returns a body item of a public document by its number.
    pub fn body_item(&self, note: NoteId, ordinal: u16) -> Result<Option<Item>> {
        if self.is_visible(note)? { self.reading.body_item(note, ordinal) } else { Ok(None) }
    }

    /// Returns the public document with this universal identifier.
    pub fn find(&self, unid: Unid) -> Result<Option<NoteId>> {
        self.reading.find(unid)?.map_or(Ok(None), |note| Ok(self.is_visible(note)?.then_some(note)))
    }

    /// Returns the public documents among the direct responses of a note. The note itself need not be public.
    pub fn children(&self, parent: Unid) -> Result<Vec<NoteId>> {
        let mut found = Vec::new();
        for note in self.reading.children(parent)? {
            if self.is_visible(note)? {
                found.push(note);
            }
        }
        Ok(found)
    }

    /// Calls `each` for every public document after `after`, in the order of note ids, until it returns `false`.
    pub fn for_each_note(&self, after: NoteId, each: &mut dyn FnMut(NoteHeader) -> Result<bool>) -> Result<()> {
        self.reading.for_each_note(after, &mut |header| {
            let is_seen = header.flags.contains(NoteFlags::PUBLIC) && !header.is_stub();
            if is_seen { each(header) } else { Ok(true) }
        })
    }

    /// Returns the content of a blob that a public document uses.
    pub fn blob(&self, note: NoteId, id: &BlobId) -> Result<Vec<u8>> {
        self.blob_range(note, id, 0..u64::MAX)
    }

    /// Returns a part of the content of a blob that a public document uses.
    pub fn blob_range(&self, note: NoteId, id: &BlobId, range: std::ops::Range<u64>) -> Result<Vec<u8>> {
        if !self.is_visible(note)? {
            return Err(Error::not_found(format!("attachment {id} of note {note}")));
        }
        self.reading.blob_range(note, id, range)
    }

    fn is_visible(&self, note: NoteId) -> Result<bool> {
        Ok(self.header(note)?.is_some())
    }
}
