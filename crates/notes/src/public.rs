//! Reading what is public: the documents that say so, for those who may read nothing else.
//!
//! A document is public when its item [`PUBLIC_ITEM`] is `1`. Somebody without Reader access, whose entry lets them read public documents, gets an
//! [`Access`] of the level [`level::Public`] and through it a [`PublicReading`]. That is no [`Reading`] and cannot become one: it knows documents by
//! id, UNID and parent, and lists them, and each of its methods looks whether the document is public and whether Readers items let it be seen. Folders,
//! views, counters, the order of changes and the access control list tell of documents that are not public, so they are not there.
//!
//! Whether a document is public stands in its header ([`NoteFlags::PUBLIC`]), written whenever its items are.

use base::{NoteId, Unid};
use store::Ticket;
use store::blob::BlobId;

use crate::access::{Access, AtLeast, Grant, level};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::item::{self, Item};
use crate::note::{Header, Note, NoteFlags, Summary};
use crate::reading::Reading;

/// The item that makes a document public, when it is `1`.
pub const PUBLIC_ITEM: &str = "$PublicAccess";

/// Tells whether the items make a document public.
#[must_use]
pub fn is_public(items: &[Item]) -> bool {
    item::find(items, PUBLIC_ITEM).and_then(|item| item.value.text()) == Some("1")
}

/// The public documents of a database at one moment, as one identity may see them.
pub struct PublicReading<'d> {
    reading: Reading<'d>,
}

impl<L: AtLeast<level::Public>> Access<L> {
    /// Freezes the present state of the database for reading what is public in it.
    pub fn read_public(&self) -> Result<PublicReading<'_>> {
        Ok(PublicReading { reading: Reading::begin(self.database(), self.grant()?)? })
    }
}

impl<'d> PublicReading<'d> {
    /// Gives the database.
    #[must_use]
    pub fn database(&self) -> &'d Database {
        self.reading.database()
    }

    /// Gives what the ACL grants to the reader.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        self.reading.grant()
    }

    /// Gives what must be durable before anything that was read leaves the server.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.reading.ticket()
    }

    /// Gives the header of a public document.
    pub fn header(&self, note: NoteId) -> Result<Option<Header>> {
        Ok(self.reading.header(note)?.filter(|header| header.flags.has(NoteFlags::PUBLIC) && !header.is_stub()))
    }

    /// Gives the summary record of a public document.
    pub fn summary(&self, note: NoteId) -> Result<Option<Summary>> {
        if self.is_seen(note)? { self.reading.summary(note) } else { Ok(None) }
    }

    /// Gives a whole public document.
    pub fn note(&self, note: NoteId) -> Result<Option<Note>> {
        if self.is_seen(note)? { self.reading.note(note) } else { Ok(None) }
    }

    /// Gives one body item of a public document by its number.
    pub fn body_item(&self, note: NoteId, ordinal: u16) -> Result<Option<Item>> {
        if self.is_seen(note)? { self.reading.body_item(note, ordinal) } else { Ok(None) }
    }

    /// Finds a public document by its universal identifier.
    pub fn find(&self, unid: Unid) -> Result<Option<NoteId>> {
        self.reading.find(unid)?.map_or(Ok(None), |note| Ok(self.is_seen(note)?.then_some(note)))
    }

    /// Gives the public documents among the direct responses of a note, whether that is public or not.
    pub fn children(&self, parent: Unid) -> Result<Vec<NoteId>> {
        let mut found = Vec::new();
        for note in self.reading.children(parent)? {
            if self.is_seen(note)? {
                found.push(note);
            }
        }
        Ok(found)
    }

    /// Calls `each` for every public document after `after`, in the order of note ids, until it says to stop.
    pub fn each_note(&self, after: NoteId, each: &mut dyn FnMut(Header) -> Result<bool>) -> Result<()> {
        self.reading.each_note(after, &mut |header| {
            let is_seen = header.flags.has(NoteFlags::PUBLIC) && !header.is_stub();
            if is_seen { each(header) } else { Ok(true) }
        })
    }

    /// Gives the content of a blob that a public document uses.
    pub fn blob(&self, note: NoteId, id: &BlobId) -> Result<Vec<u8>> {
        self.blob_range(note, id, 0..u64::MAX)
    }

    /// Gives a part of the content of a blob that a public document uses.
    pub fn blob_range(&self, note: NoteId, id: &BlobId, range: std::ops::Range<u64>) -> Result<Vec<u8>> {
        if !self.is_seen(note)? {
            return Err(Error::not_found(format!("attachment {id} of note {note}")));
        }
        self.reading.blob_range(note, id, range)
    }

    fn is_seen(&self, note: NoteId) -> Result<bool> {
        Ok(self.header(note)?.is_some())
    }
}
