//! Notes: the header that every one has, and the items.
//!
//! A note is stored as a *header* record (small, rewritten when flags or folders change), a *summary* record (summary
//! items, the directory of body items and the blobs that the note uses) and one or more records per body item. The
//! byte-level forms stand in `docs/note-format.md`; each begins with a version byte.
//!
//! A deleted note leaves a *stub*: a header with [`NoteFlags::STUB`] and nothing else, kept for the purge interval so
//! that replicas and IMAP clients learn of the deletion.

use base::codec::{Decoder, Encoder, Truncated, bytes_len, varint_len};
use base::{Modseq, NoteId, Timestamp, Uid, Unid, ViewId};
use store::blob::BlobId;

use crate::item::{self, Item, ItemRef};
use crate::limits::{BLOBS_PER_NOTE_MAX, BODY_ITEMS_MAX, FOLDERS_PER_NOTE_MAX, KEYWORDS_PER_NOTE_MAX};

/// What a note is for (`domino.md` §2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct NoteClass(pub u16);

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
    /// A profile document ([`crate::profile`]); the original has no class of its own for it.
    pub const PROFILE: Self = Self(0x4000);

    /// Tells whether this is design, or the ACL: neither a document nor a profile.
    #[must_use]
    pub fn is_design(self) -> bool {
        !self.is_document() && self != Self::PROFILE
    }

    /// Tells whether this is data rather than design, ACL or a profile.
    #[must_use]
    pub fn is_document(self) -> bool {
        self == Self::DOCUMENT
    }
}

/// What is said of a note as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoteFlags(pub u16);

impl NoteFlags {
    /// A deletion stub.
    pub const STUB: Self = Self(0x0001);
    /// Has Readers items: reading it needs a look at the summary.
    pub const HAS_READERS: Self = Self(0x0002);
    /// The note is the loser of a save conflict, kept as a response of the winner.
    pub const CONFLICT: Self = Self(0x0004);
    /// Deleted, but restorable until its retention ends ([`crate::deleted`]); a stub that has kept its contents.
    pub const SOFT_DELETED: Self = Self(0x0008);
    /// The document is public ([`crate::public`]). 0x0010 is taken in the stored form.
    pub const PUBLIC: Self = Self(0x0020);

    /// Tells whether all flags of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Gives the flags of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Gives these flags less those of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The marks that a mail user sets on a message (RFC 9051 §2.3.2, system flags), as the database's owner sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Marks(pub u8);

impl Marks {
    /// No mark.
    pub const NONE: Self = Self(0);
    /// `\Seen`: read by the owner. The unread marks of other users are in [`crate::unread`].
    pub const SEEN: Self = Self(0x01);
    /// `\Answered`.
    pub const ANSWERED: Self = Self(0x02);
    /// `\Flagged`.
    pub const FLAGGED: Self = Self(0x04);
    /// `\Deleted`.
    pub const DELETED: Self = Self(0x08);
    /// `\Draft`.
    pub const DRAFT: Self = Self(0x10);

    /// Tells whether all marks of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Gives the marks of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Gives these marks less those of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The number of a keyword within a database; see [`crate::keyword`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Keyword(pub u16);

/// A note's place in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Membership {
    /// The folder.
    pub folder: ViewId,
    /// The note's UID there.
    pub uid: Uid,
}

/// What every note has, however large it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Header {
    /// Number within the database. Part of the key, not of the record.
    pub note: NoteId,
    /// Universal identifier.
    pub unid: Unid,
    /// What the note is for.
    pub class: NoteClass,
    /// What is said of it as a whole.
    pub flags: NoteFlags,
    /// How often it was saved; starts at 1.
    pub sequence: u32,
    /// When it was last saved, in whichever replica.
    pub sequence_time: Timestamp,
    /// When it was made.
    pub created: Timestamp,
    /// When it last changed in this database, marks and folders included.
    pub modified: Timestamp,
    /// The last change in this database.
    pub modseq: Modseq,
    /// The note that this one responds to.
    pub parent: Option<Unid>,
    /// When a message was received (RFC 9051: INTERNALDATE); the creation time of other notes.
    pub received: Timestamp,
    /// Bytes that the note counts for: those of the message, or of all its items.
    pub size: u64,
    /// Bytes by which the message grows when every line of it gets CRLF, as POP3 sends it; 0 of nearly all.
    pub crlf_growth: u64,
    /// Marks of the owner.
    pub marks: Marks,
    /// Keywords, rising.
    pub keywords: Vec<Keyword>,
    /// Folders that hold it.
    pub folders: Vec<Membership>,
}

const HEADER_VERSION: u8 = 1;

/// In the flags of a stored header: the growth follows the size. No flag of the header that is read.
const GROWTH_BIT: u16 = 0x0010;

#[cfg(test)]
impl Header {
    /// Makes a header for tests: of a document of that number, whose UNID repeats it, with nothing else to say.
    pub(crate) fn of_test_document(number: u32) -> Self {
        Self {
            note: NoteId(number),
            unid: Unid([number as u8; 16]),
            class: NoteClass::DOCUMENT,
            flags: NoteFlags::default(),
            sequence: 1,
            sequence_time: Timestamp(0),
            created: Timestamp(0),
            modified: Timestamp(0),
            modseq: Modseq(1),
            parent: None,
            received: Timestamp(0),
            size: 0,
            crlf_growth: 0,
            marks: Marks::NONE,
            keywords: Vec::new(),
            folders: Vec::new(),
        }
    }
}

impl Header {
    /// Tells whether this is a deletion stub, also one that has kept its contents.
    #[must_use]
    pub fn is_stub(&self) -> bool {
        self.flags.has(NoteFlags::STUB)
    }

    /// Tells whether this is a deletion stub whose note can be restored.
    #[must_use]
    pub fn is_soft_deleted(&self) -> bool {
        self.flags.has(NoteFlags::STUB.with(NoteFlags::SOFT_DELETED))
    }

    /// Tells whether there are contents with it.
    #[must_use]
    pub fn has_contents(&self) -> bool {
        !self.is_stub() || self.is_soft_deleted()
    }

    /// Gives the note's UID in a folder.
    #[must_use]
    pub fn uid_in(&self, folder: ViewId) -> Option<Uid> {
        self.folders.iter().find(|membership| membership.folder == folder).map(|membership| membership.uid)
    }

    /// Gives the stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(112);
        let growth = if self.crlf_growth == 0 { 0 } else { GROWTH_BIT };
        out.u8(HEADER_VERSION).raw(&self.unid.0).u16(self.class.0).u16(self.flags.0 | growth);
        out.u32(self.sequence).i64(self.sequence_time.0).i64(self.created.0).i64(self.modified.0);
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
        out.finish()
    }

    /// Reads the stored form.
    pub fn decode(note: NoteId, bytes: &[u8]) -> Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != HEADER_VERSION {
            return Err(Truncated);
        }
        let unid = Unid(input.array()?);
        let class = NoteClass(input.u16()?);
        let flags = input.u16()?;
        Ok(Self {
            note,
            unid,
            class,
            flags: NoteFlags(flags & !GROWTH_BIT),
            sequence: input.u32()?,
            sequence_time: Timestamp(input.i64()?),
            created: Timestamp(input.i64()?),
            modified: Timestamp(input.i64()?),
            modseq: Modseq(input.u64()?),
            received: Timestamp(input.i64()?),
            size: input.varint()?,
            crlf_growth: if flags & GROWTH_BIT == 0 { 0 } else { input.varint()? },
            marks: Marks(input.u8()?),
            parent: if input.u8()? == 0 { None } else { Some(Unid(input.array()?)) },
            keywords: decode_keywords(&mut input)?,
            folders: decode_memberships(&mut input)?,
        })
    }
}

/// Appends a list of places.
pub(crate) fn encode_memberships(out: &mut Encoder, memberships: &[Membership]) {
    out.varint(memberships.len() as u64);
    for membership in memberships {
        out.u32(membership.folder.0).u32(membership.uid.0);
    }
}

/// Takes what [`encode_memberships`] wrote.
pub(crate) fn decode_memberships(input: &mut Decoder<'_>) -> Result<Vec<Membership>, Truncated> {
    let count = input.count()?;
    if count > FOLDERS_PER_NOTE_MAX {
        return Err(Truncated);
    }
    (0..count).map(|_| Ok(Membership { folder: ViewId(input.u32()?), uid: Uid(input.u32()?) })).collect()
}

fn decode_keywords(input: &mut Decoder<'_>) -> Result<Vec<Keyword>, Truncated> {
    let count = input.count()?;
    if count > KEYWORDS_PER_NOTE_MAX {
        return Err(Truncated);
    }
    (0..count).map(|_| Ok(Keyword(input.u16()?))).collect()
}

/// Where a body item lies, as the summary record tells it.
#[derive(Clone, PartialEq, Debug)]
pub struct BodyItem {
    /// Its number within the note.
    pub ordinal: u16,
    /// Its name.
    pub name: String,
    /// Bytes of its stored form.
    pub length: u64,
}

/// The summary record: summary items, the directory of the body, the blobs in use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// The summary items.
    pub items: Vec<Item>,
    /// The other items.
    pub body: Vec<BodyItem>,
    /// The blobs that the note refers to, each once.
    pub blobs: Vec<BlobId>,
}

const SUMMARY_VERSION: u8 = 1;

impl Summary {
    /// Gives the stored form.
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

    /// Tells how many bytes the record of a note with these items has, if it uses no blobs.
    #[must_use]
    pub fn encoded_len(items: &[Item]) -> usize {
        let (summary, body): (Vec<&Item>, Vec<&Item>) = items.iter().partition(|item| item.is_summary());
        let of_summary: usize = summary.iter().map(|item| item.encoded_len()).sum();
        let entry = |item: &&Item| 2 + bytes_len(item.name.len()) + varint_len(item.encoded_len() as u64);
        let of_body: usize = body.iter().map(entry).sum();
        let counts = varint_len(summary.len() as u64) + varint_len(body.len() as u64) + varint_len(0);
        1 + counts + of_summary + of_body
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != SUMMARY_VERSION {
            return Err(Truncated);
        }
        let items = item::decode_items(&mut input)?;
        let body = decode_body_items(&mut input)?;
        let count = input.count()?;
        if count > BLOBS_PER_NOTE_MAX {
            return Err(Truncated);
        }
        let blobs = (0..count).map(|_| Ok(BlobId(input.array()?))).collect::<Result<_, _>>()?;
        Ok(Self { items, body, blobs })
    }
}

/// Gives the summary items of a stored summary record, without copying them.
pub fn summary_items(bytes: &[u8]) -> Result<Vec<ItemRef<'_>>, Truncated> {
    split_summary(bytes).map(|(items, _)| items)
}

/// Gives the summary items of a stored summary record, without copying them, and what stands behind them ([`body_items`]).
pub(crate) fn split_summary(bytes: &[u8]) -> Result<(Vec<ItemRef<'_>>, &[u8]), Truncated> {
    let mut input = Decoder::new(bytes);
    if input.u8()? != SUMMARY_VERSION {
        return Err(Truncated);
    }
    let items = item::decode_item_refs(&mut input)?;
    Ok((items, input.rest()))
}

/// Gives where the body items lie, from what stands behind the summary items.
pub(crate) fn body_items(behind: &[u8]) -> Result<Vec<BodyItem>, Truncated> {
    decode_body_items(&mut Decoder::new(behind))
}

fn decode_body_items(input: &mut Decoder<'_>) -> Result<Vec<BodyItem>, Truncated> {
    let count = input.count()?;
    if count > BODY_ITEMS_MAX {
        return Err(Truncated);
    }
    (0..count).map(|_| decode_body_item(input)).collect()
}

fn decode_body_item(input: &mut Decoder<'_>) -> Result<BodyItem, Truncated> {
    Ok(BodyItem { ordinal: input.u16()?, name: input.text()?.to_owned(), length: input.varint()? })
}

/// A whole note, as it was read.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// The header.
    pub header: Header,
    /// All items: those of the summary, then those of the body.
    pub items: Vec<Item>,
    /// The blobs that the items refer to.
    pub blobs: Vec<BlobId>,
}

impl Note {
    /// Gives the first item of that name.
    #[must_use]
    pub fn item(&self, name: &str) -> Option<&Item> {
        item::find(&self.items, name)
    }

    /// Gives the first text of the item of that name.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.item(name)?.value.text()
    }
}

/// A note to be made.
#[derive(Clone, Debug)]
pub struct NewNote {
    /// Its universal identifier; drawn when absent.
    pub unid: Option<Unid>,
    /// What it is for.
    pub class: NoteClass,
    /// Its items.
    pub items: Vec<Item>,
    /// The note that it responds to.
    pub parent: Option<Unid>,
    /// When it was received; now when absent.
    pub received: Option<Timestamp>,
    /// Bytes that it counts for; those of its items when absent.
    pub size: Option<u64>,
    /// Bytes by which it grows when every line gets CRLF.
    pub crlf_growth: u64,
    /// Marks of the owner.
    pub marks: Marks,
    /// Keywords by name.
    pub keywords: Vec<String>,
    /// Blobs that its items refer to. Their content must be in the store or be put there by the same transaction.
    pub blobs: Vec<BlobId>,
    /// Folders that shall hold it.
    pub folders: Vec<ViewId>,
    /// Notes down who makes it, and when ([`crate::save`]).
    pub tracks_editors: bool,
}

impl NewNote {
    /// Makes a document of these items.
    #[must_use]
    pub fn document(items: Vec<Item>) -> Self {
        Self::of_class(NoteClass::DOCUMENT, items)
    }

    /// Makes a note of a class.
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
