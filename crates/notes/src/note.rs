//! Notes: the header that every note has, and the items.
//!
//! A note is stored as a *header* record (small, rewritten when flags or folders change), a *summary* record (summary
//! items, the directory of body items and the blobs that the note uses) and one or more records per body item.
//! `docs/note-format.md` describes the byte-level forms. Each begins with a version byte.
//!
//! A deleted note leaves a *stub*: a header with [`NoteFlags::STUB`] and nothing else, kept for the purge interval so
//! that replicas and IMAP clients learn of the deletion.

use std::collections::HashSet;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{Modseq, NoteId, Timestamp, Uid, Unid, ViewId};
use revision::{Revision, RevisionId};
use store::blob::BlobId;

use crate::change_times::ChangeTimes;
use crate::item::{self, Item, ItemRef};
use crate::limits::{BLOBS_PER_NOTE_MAX, BODY_ITEMS_MAX, JOINED_VALUES_MAX};

/// The class of a note, with the numbers that Domino uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NoteClass(pub u16);

/// The UNID of the note with the settings of a mail file's owner, the same in all mail files, so that replicas find it.
pub const MAIL_SETTINGS_UNID: Unid = Unid(*b"\0mail\0settings\0\0");

/// Prefix of the UNIDs of replication settings ([`crate::replication_settings`]). No other notes have it.
pub(crate) const REPLICATION_SETTINGS_UNID_PREFIX: [u8; 6] = *b"\0repl\0";

/// The note with the settings in a mail file of structure 2 or older, where they have no UNID of their own: the first
/// one after the ACL.
pub const OLD_MAIL_SETTINGS_NOTE: NoteId = NoteId(2);

impl NoteClass {
    /// A document: data.
    pub const DOCUMENT: Self = Self(0x0001);
    /// The "about this database" document.
    pub const INFO: Self = Self(0x0002);
    /// A form.
    pub const FORM: Self = Self(0x0004);
    /// A view or a folder.
    pub const VIEW: Self = Self(0x0008);
    /// The database's icon and title.
    pub const ICON: Self = Self(0x0010);
    /// The access control list.
    pub const ACL: Self = Self(0x0040);
    /// An agent.
    pub const FILTER: Self = Self(0x0200);
    /// A replication formula.
    pub const REPLICATION_FORMULA: Self = Self(0x0800);
    /// A profile document ([`crate::profile`]). Domino has no class of its own for it.
    pub const PROFILE: Self = Self(0x4000);

    /// Returns `true` for design notes and the ACL, that is, for all notes except documents and profiles.
    #[must_use]
    pub fn is_design(self) -> bool {
        !self.is_document() && self != Self::PROFILE
    }

    /// Returns `true` for documents, that is, for data rather than design, ACL or a profile.
    #[must_use]
    pub fn is_document(self) -> bool {
        self == Self::DOCUMENT
    }
}

/// The body item that a document with a MIME message has.
pub const MESSAGE_ITEM: &str = "$Head";

/// Flags of a note as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoteFlags(pub u16);

bitflags::bitflags! {
    impl NoteFlags: u16 {
        /// A deletion stub.
        const STUB = 0x0001;
        /// The note has Readers items. Reading it requires a check of the summary.
        const HAS_READERS = 0x0002;
        /// The note is the losing version of a save conflict, kept as a response to the winner.
        const CONFLICT = 0x0004;
        /// The document is deleted, but can be restored until its retention ends ([`crate::soft_deletion`]). It is a
        /// stub that keeps its contents.
        const SOFT_DELETED = 0x0008;
        /// The document is public ([`crate::public`]). The bits 0x0010, 0x0040, 0x0080,
        /// 0x0100, 0x1000 and 0x2000 are reserved for the stored form.
        const PUBLIC = 0x0020;
        /// The last save came from another replica. A caller who names only its sequence number may have read another
        /// save with this number.
        const RECEIVED = 0x0200;
        /// The document has no item [`MESSAGE_ITEM`], so mail clients see a message that is composed from its items.
        const COMPOSED = 0x0400;
        /// The replica has a part of the contents only ([`crate::replica::ReplicaNote::truncate`]). The document can
        /// be deleted, but not changed or restored, and is not sent to other replicas.
        const TRUNCATED = 0x0800;
    }
}

/// The marks that a mail user sets on a message (RFC 9051 §2.3.2, system flags), as the database's owner sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Marks(pub u8);

bitflags::bitflags! {
    impl Marks: u8 {
        /// No mark.
        const NONE = 0;
        /// `\Seen`: read by the owner. The unread marks of other users are in [`crate::unread`].
        const SEEN = 0x01;
        /// `\Answered`.
        const ANSWERED = 0x02;
        /// `\Flagged`.
        const FLAGGED = 0x04;
        /// `\Deleted`.
        const DELETED = 0x08;
        /// `\Draft`.
        const DRAFT = 0x10;
    }
}

impl Marks {
    /// The number of marks. The other bits have a meaning of their own in the entries of folders.
    pub const COUNT: u8 = 5;
}

/// Number of a keyword within a database. See [`crate::keyword`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Keyword(pub u16);

/// Membership of a note in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The folder.
    pub folder: ViewId,
    /// The note's UID in the folder.
    pub uid: Uid,
}

/// The version of a note that a caller has read before changing it.
///
/// A sequence number alone does not identify a version: another server may have made a different one with the same
/// number, which has replaced the one that the caller has read. So a number without the identifier is accepted only for
/// versions that were saved on this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpectedVersion {
    /// The sequence number.
    pub sequence: u32,
    /// The identifier of the save, if the caller knows it.
    pub id: Option<RevisionId>,
}

impl ExpectedVersion {
    /// Returns `true` if a note still has this version.
    #[must_use]
    pub fn is_of(self, header: &NoteHeader) -> bool {
        let is_id = |id| id == header.revision_id;
        self.sequence == header.sequence && self.id.map_or(!header.flags.contains(NoteFlags::RECEIVED), is_id)
    }
}

impl From<u32> for ExpectedVersion {
    fn from(sequence: u32) -> Self {
        Self { sequence, id: None }
    }
}

impl From<Revision> for ExpectedVersion {
    fn from(revision: Revision) -> Self {
        Self { sequence: revision.sequence, id: Some(revision.id) }
    }
}

/// The header of a note: metadata that every note has, and whose size does not depend on that of the note.
#[derive(Clone, PartialEq, Debug)]
pub struct NoteHeader {
    /// Note id within the database. Part of the key, not of the record.
    pub note: NoteId,
    /// Universal identifier.
    pub unid: Unid,
    /// The class of the note.
    pub class: NoteClass,
    /// Flags of the note as a whole.
    pub flags: NoteFlags,
    /// Sequence number: the number of times that the note was saved, starting at 1.
    pub sequence: u32,
    /// Time of the last save, in any replica. It is later than that of the save before, also if the clock is behind.
    pub sequence_time: Timestamp,
    /// Identifier of the last save among those with its sequence number.
    pub revision_id: RevisionId,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of the last change in this database, including changes of marks and folders.
    pub modified: Timestamp,
    /// Modseq of the last change in this database.
    pub modseq: Modseq,
    /// Modseq at which the contents came to this database. It is not above `modseq`, and less if only marks, keywords
    /// and folders have changed since. Databases of an older structure do not record it: there it is `modseq`.
    pub saved_modseq: Modseq,
    /// The note to which this one is a response.
    pub parent: Option<Unid>,
    /// Time at which a message was received (RFC 9051: INTERNALDATE). For other notes, the time of creation.
    pub received: Timestamp,
    /// Size in bytes for which the note counts: that of the message, or of all its items.
    pub size: u64,
    /// Number of bytes that the message gains when all its lines end in CRLF, as POP3 sends it. It is 0 for nearly all
    /// messages.
    pub crlf_growth: u64,
    /// The owner's marks.
    pub marks: Marks,
    /// Keywords, in ascending order.
    pub keywords: Vec<Keyword>,
    /// The folders that contain the note: its places.
    pub folders: Vec<Membership>,
    /// The places where the note has [`Marks::DELETED`], ascending, if it has several places. With one place or none,
    /// the mark is in `marks`.
    pub deleted_in: Vec<ViewId>,
    /// The times at which marks, keywords and folders changed.
    pub change_times: ChangeTimes,
}

const HEADER_VERSION: u8 = 1;

/// Bit in the flags of a stored header: the growth follows the size. Decoding removes it from the flags.
const CRLF_GROWTH_BIT: u16 = 0x0010;

/// Bit in the flags of a stored header: the last 8 bytes of the revision follow the sequence time, whose bytes are the
/// first 8. Decoding removes it from the flags.
const REVISION_TAIL_BIT: u16 = 0x0040;

/// Bit in the flags of a stored header: the identifier of the revision follows the sequence time. Decoding removes it
/// from the flags.
const REVISION_ID_BIT: u16 = 0x0080;

/// Bit in the flags of a stored header: the times of changes follow the folders. Decoding removes it from the flags.
const CHANGE_TIMES_BIT: u16 = 0x0100;

/// Bit in the flags of a stored header: the number of modseqs between the contents and the last change is at the end.
/// Decoding removes it from the flags.
const SAVED_MODSEQ_BIT: u16 = 0x1000;

/// Bit in the flags of a stored header: the places with the mark of deletion follow the folders. Decoding removes it
/// from the flags.
const DELETED_PLACES_BIT: u16 = 0x2000;

/// The bits that belong to the stored form of a header.
const STORED_BITS: u16 =
    CRLF_GROWTH_BIT | REVISION_TAIL_BIT | REVISION_ID_BIT | CHANGE_TIMES_BIT | SAVED_MODSEQ_BIT | DELETED_PLACES_BIT;

#[cfg(test)]
impl NoteHeader {
    /// Creates a header for tests: that of a document with this note id, whose UNID repeats the number. All other
    /// fields have defaults.
    pub(crate) fn test_document(number: u32) -> Self {
        Self::new(NoteId(number), Unid([number as u8; 16]), NoteClass::DOCUMENT, Timestamp(0), Modseq(1))
    }
}

impl NoteHeader {
    /// Creates the header of a note that is saved for the first time now, without contents and state.
    pub(crate) fn new(note: NoteId, unid: Unid, class: NoteClass, now: Timestamp, modseq: Modseq) -> Self {
        Self {
            note,
            unid,
            class,
            flags: NoteFlags::default(),
            sequence: 1,
            sequence_time: now,
            revision_id: RevisionId::first(now, unid),
            created: now,
            modified: now,
            modseq,
            saved_modseq: modseq,
            parent: None,
            received: now,
            size: 0,
            crlf_growth: 0,
            marks: Marks::NONE,
            keywords: Vec::new(),
            folders: Vec::new(),
            deleted_in: Vec::new(),
            change_times: ChangeTimes::default(),
        }
    }

    /// Returns `true` for a deletion stub, including one that keeps its contents.
    #[must_use]
    pub fn is_stub(&self) -> bool {
        self.flags.contains(NoteFlags::STUB)
    }

    /// Returns `true` for a document of which this replica has a part of the contents only. A stub has none of them.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.flags.contains(NoteFlags::TRUNCATED) && !self.is_stub()
    }

    /// Returns `true` for a deletion stub whose document can be restored.
    #[must_use]
    pub fn is_soft_deleted(&self) -> bool {
        self.flags.contains(NoteFlags::STUB.union(NoteFlags::SOFT_DELETED))
    }

    /// Returns `true` if the note has contents.
    #[must_use]
    pub fn has_contents(&self) -> bool {
        !self.is_stub() || self.is_soft_deleted()
    }

    /// Returns the revision: the last save.
    #[must_use]
    pub fn revision(&self) -> Revision {
        Revision { sequence: self.sequence, id: self.revision_id }
    }

    /// Counts a save at a time. The tail distinguishes it from other saves at the same time.
    pub(crate) fn advance(&mut self, now: Timestamp, tail: [u8; 8]) {
        self.sequence = self.sequence.saturating_add(1);
        self.sequence_time = now.max(Timestamp(self.sequence_time.0.saturating_add(1)));
        self.revision_id = RevisionId::new(self.sequence_time, tail);
    }

    /// Makes the revision older than that of any save.
    pub(crate) fn set_oldest(&mut self) {
        self.sequence = 1;
        self.sequence_time = Timestamp(0);
        self.revision_id = RevisionId::first(self.sequence_time, self.unid);
    }

    /// Returns the UID of the note in a folder.
    #[must_use]
    pub fn uid_in(&self, folder: ViewId) -> Option<Uid> {
        self.folders.iter().find(|membership| membership.folder == folder).map(|membership| membership.uid)
    }

    /// Returns the stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(112);
        let growth = if self.crlf_growth == 0 { 0 } else { CRLF_GROWTH_BIT };
        let id = if self.revision_id == RevisionId::first(self.sequence_time, self.unid) {
            0
        } else if self.revision_id.is_of_time(self.sequence_time) {
            REVISION_TAIL_BIT
        } else {
            REVISION_ID_BIT
        };
        let times = if self.change_times.is_empty() { 0 } else { CHANGE_TIMES_BIT };
        let unsaved = self.modseq.0.saturating_sub(self.saved_modseq.0);
        let saved = if unsaved == 0 { 0 } else { SAVED_MODSEQ_BIT };
        let deleted = if self.deleted_in.is_empty() { 0 } else { DELETED_PLACES_BIT };
        out.u8(HEADER_VERSION).raw(&self.unid.0).u16(self.class.0);
        out.u16(self.flags.0 | growth | id | times | saved | deleted);
        out.u32(self.sequence).i64(self.sequence_time.0);
        match id {
            REVISION_TAIL_BIT => out.raw(&self.revision_id.tail()),
            REVISION_ID_BIT => out.raw(&self.revision_id.0),
            _ => &mut out,
        };
        out.i64(self.created.0).i64(self.modified.0);
        out.u64(self.modseq.0).i64(self.received.0).varint(self.size);
        if self.crlf_growth > 0 {
            out.varint(self.crlf_growth);
        }
        out.u8(self.marks.0);
        match self.parent {
            Some(parent) => out.u8(1).raw(&parent.0),
            None => out.u8(0),
        };
        out.varint(self.keywords.len() as u64);
        for keyword in &self.keywords {
            out.u16(keyword.0);
        }
        encode_memberships(&mut out, &self.folders);
        if !self.deleted_in.is_empty() {
            out.varint(self.deleted_in.len() as u64);
            for folder in &self.deleted_in {
                out.u32(folder.0);
            }
        }
        if !self.change_times.is_empty() {
            self.change_times.encode(self.created, &mut out);
        }
        if unsaved > 0 {
            out.varint(unsaved);
        }
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(note: NoteId, bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != HEADER_VERSION {
            return Err(InvalidRecord);
        }
        let unid = Unid(input.array()?);
        let class = NoteClass(input.u16()?);
        let flags = input.u16()?;
        let sequence = input.u32()?;
        let sequence_time = Timestamp(input.i64()?);
        let revision_id = match flags & (REVISION_TAIL_BIT | REVISION_ID_BIT) {
            0 => RevisionId::first(sequence_time, unid),
            REVISION_TAIL_BIT => RevisionId::new(sequence_time, input.array()?),
            REVISION_ID_BIT => RevisionId(input.array()?),
            _ => return Err(InvalidRecord),
        };
        let created = Timestamp(input.i64()?);
        let mut header = Self {
            note,
            unid,
            class,
            flags: NoteFlags(flags & !STORED_BITS),
            sequence,
            sequence_time,
            revision_id,
            created,
            modified: Timestamp(input.i64()?),
            modseq: Modseq(input.u64()?),
            saved_modseq: Modseq(0),
            received: Timestamp(input.i64()?),
            size: input.varint()?,
            crlf_growth: if flags & CRLF_GROWTH_BIT == 0 { 0 } else { input.varint()? },
            marks: Marks(input.u8()?),
            parent: if input.u8()? == 0 { None } else { Some(Unid(input.array()?)) },
            keywords: decode_keywords(&mut input)?,
            folders: decode_memberships(&mut input)?,
            deleted_in: match flags & DELETED_PLACES_BIT {
                0 => Vec::new(),
                _ => decode_deleted_places(&mut input)?,
            },
            change_times: match flags & CHANGE_TIMES_BIT {
                0 => ChangeTimes::default(),
                _ => ChangeTimes::decode(created, &mut input)?,
            },
        };
        let unsaved = if flags & SAVED_MODSEQ_BIT == 0 { 0 } else { input.varint()? };
        header.saved_modseq = Modseq(header.modseq.0.checked_sub(unsaved).ok_or(InvalidRecord)?);
        Ok(header)
    }

    /// Sets the modseq of a change. `before` is the stored header, if there is one.
    pub(crate) fn set_modseq(&mut self, modseq: Modseq, before: Option<&Self>) {
        let has_contents_of = |before: &&Self| {
            before.revision() == self.revision()
                && before.is_stub() == self.is_stub()
                && before.is_truncated() == self.is_truncated()
        };
        self.saved_modseq = before.filter(has_contents_of).map_or(modseq, |before| before.saved_modseq);
        self.modseq = modseq;
    }
}

/// Appends a list of folder memberships.
pub(crate) fn encode_memberships(out: &mut Encoder, memberships: &[Membership]) {
    out.varint(memberships.len() as u64);
    for membership in memberships {
        out.u32(membership.folder.0).u32(membership.uid.0);
    }
}

/// Parses a list that [`encode_memberships`] wrote.
pub(crate) fn decode_memberships(input: &mut Decoder<'_>) -> Result<Vec<Membership>, InvalidRecord> {
    let count = input.count()?;
    if count > JOINED_VALUES_MAX {
        return Err(InvalidRecord);
    }
    (0..count).map(|_| Ok(Membership { folder: ViewId(input.u32()?), uid: Uid(input.u32()?) })).collect()
}

fn decode_deleted_places(input: &mut Decoder<'_>) -> Result<Vec<ViewId>, InvalidRecord> {
    let count = input.count()?;
    if count > JOINED_VALUES_MAX {
        return Err(InvalidRecord);
    }
    (0..count).map(|_| Ok(ViewId(input.u32()?))).collect()
}

fn decode_keywords(input: &mut Decoder<'_>) -> Result<Vec<Keyword>, InvalidRecord> {
    let count = input.count()?;
    if count > JOINED_VALUES_MAX {
        return Err(InvalidRecord);
    }
    (0..count).map(|_| Ok(Keyword(input.u16()?))).collect()
}

/// An entry of the directory of body items, in the summary record.
#[derive(Clone, PartialEq, Debug)]
pub struct BodyDirectoryEntry {
    /// Number of the item within the note.
    pub ordinal: u16,
    /// Name of the item.
    pub name: String,
    /// Length of its stored form, in bytes.
    pub length: u64,
}

/// The summary record: summary items, the directory of body items, and the blobs in use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// The summary items.
    pub items: Vec<Item>,
    /// The directory of body items.
    pub body: Vec<BodyDirectoryEntry>,
    /// The blobs that the note refers to, each once.
    pub blobs: Vec<BlobId>,
}

/// The contents that a note gets.
#[derive(Clone, Copy, Default)]
pub(crate) struct NewContents<'c> {
    pub(crate) items: &'c [Item],
    pub(crate) blobs: &'c [BlobId],
    /// Body items that stay as they are stored. They come before the body items in `items`.
    pub(crate) kept: &'c [BodyDirectoryEntry],
}

impl<'c> NewContents<'c> {
    /// Creates contents of which nothing is stored.
    pub(crate) fn new(items: &'c [Item], blobs: &'c [BlobId]) -> Self {
        Self { items, blobs, kept: &[] }
    }
}

const SUMMARY_VERSION: u8 = 1;

impl Summary {
    /// Returns the directory entries of the body items with these ordinals, in the order of the directory.
    pub(crate) fn bodies(&self, ordinals: &[u16]) -> Vec<BodyDirectoryEntry> {
        let ordinals: HashSet<&u16> = ordinals.iter().collect();
        self.body.iter().filter(|body| ordinals.contains(&body.ordinal)).cloned().collect()
    }

    /// Returns the stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(512);
        out.u8(SUMMARY_VERSION);
        item::encode_items(&mut out, self.items.iter());
        out.varint(self.body.len() as u64);
        for body in &self.body {
            out.u16(body.ordinal).text(&body.name).varint(body.length);
        }
        out.varint(self.blobs.len() as u64);
        for blob in &self.blobs {
            out.raw(&blob.0);
        }
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != SUMMARY_VERSION {
            return Err(InvalidRecord);
        }
        let items = item::decode_items(&mut input)?;
        let body = decode_body_items(&mut input)?;
        let count = input.count()?;
        if count > BLOBS_PER_NOTE_MAX {
            return Err(InvalidRecord);
        }
        let blobs = (0..count).map(|_| Ok(BlobId(input.array()?))).collect::<Result<_, _>>()?;
        Ok(Self { items, body, blobs })
    }
}

/// Returns the summary items of a stored summary record, without copying them.
pub fn summary_items(bytes: &[u8]) -> Result<Vec<ItemRef<'_>>, InvalidRecord> {
    split_summary(bytes).map(|(items, _)| items)
}

/// Returns the summary items of a stored summary record without copying them, and the bytes after them
/// ([`body_items`]).
pub(crate) fn split_summary(bytes: &[u8]) -> Result<(Vec<ItemRef<'_>>, &[u8]), InvalidRecord> {
    let mut input = Decoder::new(bytes);
    if input.u8()? != SUMMARY_VERSION {
        return Err(InvalidRecord);
    }
    let items = item::decode_item_refs(&mut input)?;
    Ok((items, input.rest()))
}

/// Parses the directory of body items from the bytes after the summary items.
pub(crate) fn body_items(behind: &[u8]) -> Result<Vec<BodyDirectoryEntry>, InvalidRecord> {
    decode_body_items(&mut Decoder::new(behind))
}

fn decode_body_items(input: &mut Decoder<'_>) -> Result<Vec<BodyDirectoryEntry>, InvalidRecord> {
    let count = input.count()?;
    if count > BODY_ITEMS_MAX {
        return Err(InvalidRecord);
    }
    (0..count).map(|_| decode_body_item(input)).collect()
}

fn decode_body_item(input: &mut Decoder<'_>) -> Result<BodyDirectoryEntry, InvalidRecord> {
    Ok(BodyDirectoryEntry { ordinal: input.u16()?, name: input.text()?.to_owned(), length: input.varint()? })
}

/// A complete note, as read from the database.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// The header.
    pub header: NoteHeader,
    /// All items: those of the summary, then those of the body.
    pub items: Vec<Item>,
    /// The blobs that the items refer to.
    pub blobs: Vec<BlobId>,
}

impl Note {
    /// Returns the first item with this name.
    #[must_use]
    pub fn item(&self, name: &str) -> Option<&Item> {
        item::find_item(&self.items, name)
    }

    /// Returns the first text of the item with this name.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.item(name)?.value.text()
    }
}

/// Parameters of a new note.
#[derive(Clone, Debug)]
pub struct NewNote {
    /// Universal identifier. If absent, a random one is generated.
    pub unid: Option<Unid>,
    /// Class of the note.
    pub class: NoteClass,
    /// Items of the note.
    pub items: Vec<Item>,
    /// The note to which this one is a response.
    pub parent: Option<Unid>,
    /// Time of receipt. If absent, the current time.
    pub received: Option<Timestamp>,
    /// Size in bytes for which the note counts. If absent, the size of its items.
    pub size: Option<u64>,
    /// Number of bytes that the note gains when all its lines end in CRLF.
    pub crlf_growth: u64,
    /// The owner's marks.
    pub marks: Marks,
    /// Keywords by name.
    pub keywords: Vec<String>,
    /// Blobs to which the items refer. Their content must be in the store or be stored by the same transaction.
    pub blobs: Vec<BlobId>,
    /// The folders to which the note is added.
    pub folders: Vec<ViewId>,
    /// `true` if the creator and the time of creation are recorded in the note ([`crate::save`]).
    pub tracks_editors: bool,
}

impl NewNote {
    /// Creates the parameters of a document with these items.
    #[must_use]
    pub fn document(items: Vec<Item>) -> Self {
        Self::of_class(NoteClass::DOCUMENT, items)
    }

    /// Creates the parameters of a note of a class.
    #[must_use]
    pub fn of_class(class: NoteClass, items: Vec<Item>) -> Self {
        Self {
            unid: None,
            class,
            items,
            parent: None,
            received: None,
            size: None,
            crlf_growth: 0,
            marks: Marks::NONE,
            keywords: Vec::new(),
            blobs: Vec::new(),
            folders: Vec::new(),
            tracks_editors: false,
        }
    }
}
