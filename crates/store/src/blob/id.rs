//! The names of an attachment and of the note that uses it.

use base::{DbNumber, NoteId};

/// The ID of an attachment: the BLAKE3 hash of its content. With encryption the hash is keyed, so that it reveals
/// nothing about the content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub [u8; 32]);

impl std::fmt::Display for BlobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&base::hex::lower(&self.0))
    }
}

impl std::fmt::Debug for BlobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlobId({self})")
    }
}

/// The note that uses an attachment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlobOwner {
    /// The database of the note.
    pub database: DbNumber,
    /// The note ID. Never zero.
    pub note: NoteId,
}
