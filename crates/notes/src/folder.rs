//! Folders: ordered, counted sets of notes with UIDs and marks.
//!
//! A folder is a design note (class VIEW, `$Flags` contains `F`). Its index is a collection ([`collection`],
//! collation [`UID_COLLATION`]) whose key is the UID. An entry repeats the data that lists and IMAP's `FETCH (FLAGS)`
//! need, so that these read one range and nothing else. The index changes in the batch that changes the note, so it is
//! never stale and needs no rebuild after a crash.
//!
//! Invariants (checked by fixup): every entry's note has a membership with that folder and UID, and every membership
//! has its entry; marks, keywords, size and received time of the entry are those of the header; UIDs ascend and are
//! below [`FolderState::end`]; `uid_next` and `uid_validity` never decrease.

use std::sync::Arc;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, NoteId, Timestamp, Uid, Unid, ViewId};
use collection::{CollectionId, EntryWeigher, Weight};

use crate::grant::Grant;
use crate::instance::InstanceId;
use crate::item::{Item, ItemFlags};
use crate::limits::{JOINED_VALUES_MAX, SHARED_UID_MAX};
use crate::note::{Keyword, Marks, Membership, NoteFlags, NoteHeader};
use crate::shared_uids::{SharedUids, UIDS_AHEAD, first_uid_of_run};

/// Collation number of the UID order of a folder. Views number their collations from 0.
pub const UID_COLLATION: u8 = 255;

/// The weigher of folder entries: unseen, deleted, bytes, restricted.
#[derive(Clone, Copy, Debug, Default)]
pub struct FolderWeights;

impl EntryWeigher for FolderWeights {
    fn sums(&self) -> usize {
        4
    }

    fn weigh(&self, key: &[u8], value: &[u8]) -> Option<Weight> {
        Some(FolderEntry::decode(uid_of_key(key)?, value).ok()?.weight())
    }
}

/// The item with the name of the folder.
pub const TITLE_ITEM: &str = "$TITLE";
/// The item with the names that may know of the folder.
pub const READERS_ITEM: &str = "$Readers";
/// The item with the letters that define the kind of the view.
pub const FLAGS_ITEM: &str = "$Flags";

/// The first bytes of the UNIDs that are derived from the titles of folders.
const DERIVED_UNID_PREFIX: [u8; 8] = *b"\0folder\0";

/// Returns the UNID that a folder has in every replica that is created with it. It depends on the title with which the
/// folder is created, and stays when the folder is renamed.
#[must_use]
pub fn derived_unid(title: &str) -> Unid {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"folder\0").update(title.as_bytes());
    let mut unid = [0; 16];
    let (prefix, digest) = unid.split_at_mut(DERIVED_UNID_PREFIX.len());
    prefix.copy_from_slice(&DERIVED_UNID_PREFIX);
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..digest.len()]);
    Unid(unid)
}

/// Returns the title of a folder that a repair recreates without its design note.
#[must_use]
pub fn recovered_title(folder: ViewId) -> String {
    format!("Recovered {folder}")
}

/// Returns the collection of a folder.
#[must_use]
pub fn collection_id(database: DbNumber, folder: ViewId) -> CollectionId {
    CollectionId { database, view: folder, collation: UID_COLLATION }
}

/// A note in a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct FolderEntry {
    /// UID in the folder.
    pub uid: Uid,
    /// The note.
    pub note: NoteId,
    /// The owner's marks in this folder.
    pub marks: Marks,
    /// `true` if the note has Readers items, so that not every reader of the database may see it.
    pub restricted: bool,
    /// `true` if the note has no MIME message, so that mail clients see one that is composed from its items. The size
    /// is then that of the items.
    pub composed: bool,
    /// Modseq of the last change of the note.
    pub modseq: Modseq,
    /// Size of the message in bytes.
    pub size: u64,
    /// Number of bytes that the message gains when all its lines end in CRLF.
    pub crlf_growth: u64,
    /// Time at which the message was received (INTERNALDATE).
    pub received: Timestamp,
    /// Time at which the message was added to the folder (RFC 8514: SAVEDATE).
    pub saved: Timestamp,
    /// Keywords, in ascending order.
    pub keywords: Vec<Keyword>,
}

const RESTRICTED_BIT: u8 = 0x80;

/// Bit in the marks of a stored entry: the growth follows the size.
const CRLF_GROWTH_BIT: u8 = 0x40;

/// Bit in the marks of a stored entry: the note has no MIME message.
const COMPOSED_BIT: u8 = 0x20;

impl FolderEntry {
    /// Creates the entry of a note in one of its places.
    #[must_use]
    pub fn from_header(header: &NoteHeader, place: Membership, saved: Timestamp) -> Self {
        Self {
            uid: place.uid,
            note: header.note,
            marks: header.marks_in(place.folder),
            restricted: header.flags.contains(NoteFlags::HAS_READERS),
            composed: header.flags.contains(NoteFlags::COMPOSED),
            modseq: header.modseq,
            size: header.size,
            crlf_growth: header.crlf_growth,
            received: header.received,
            saved,
            keywords: header.keywords.clone(),
        }
    }

    pub(crate) fn weight(&self) -> Weight {
        let unseen = i64::from(!self.marks.contains(Marks::SEEN));
        let deleted = i64::from(self.marks.contains(Marks::DELETED));
        let size = i64::try_from(self.size).unwrap_or(i64::MAX);
        Weight::new(&[unseen, deleted, size, i64::from(self.restricted)])
    }

    /// Returns the stored form. The UID is the key.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(48);
        let restricted = if self.restricted { RESTRICTED_BIT } else { 0 };
        let growth = if self.crlf_growth == 0 { 0 } else { CRLF_GROWTH_BIT };
        let composed = if self.composed { COMPOSED_BIT } else { 0 };
        out.u32(self.note.0).u8(self.marks.0 | restricted | growth | composed).u64(self.modseq.0);
        out.i64(self.received.0).i64(self.saved.0).varint(self.size);
        if self.crlf_growth > 0 {
            out.varint(self.crlf_growth);
        }
        for keyword in &self.keywords {
            out.u16(keyword.0);
        }
        out.finish()
    }

    /// Parses the stored form of the entry with this UID.
    pub fn decode(uid: Uid, bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let note = NoteId(input.u32()?);
        let marks = input.u8()?;
        let modseq = Modseq(input.u64()?);
        let received = Timestamp(input.i64()?);
        let saved = Timestamp(input.i64()?);
        let size = input.varint()?;
        let crlf_growth = if marks & CRLF_GROWTH_BIT == 0 { 0 } else { input.varint()? };
        if input.rest().len() > JOINED_VALUES_MAX * 2 {
            return Err(InvalidRecord);
        }
        let mut keywords = Vec::with_capacity(input.rest().len() / 2);
        while !input.is_empty() {
            keywords.push(Keyword(input.u16()?));
        }
        let restricted = marks & RESTRICTED_BIT != 0;
        Ok(Self {
            uid,
            note,
            marks: Marks(marks & !(RESTRICTED_BIT | CRLF_GROWTH_BIT | COMPOSED_BIT)),
            restricted,
            composed: marks & COMPOSED_BIT != 0,
            modseq,
            size,
            crlf_growth,
            received,
            saved,
            keywords,
        })
    }
}

/// Parses the key of a folder entry.
#[must_use]
pub fn uid_of_key(key: &[u8]) -> Option<Uid> {
    Some(Uid::from_key(key.try_into().ok()?))
}

/// The state that a folder stores in addition to its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderState {
    /// UIDVALIDITY. It changes when UIDs are no longer valid (RFC 9051 §2.3.1.1).
    pub uid_validity: u32,
    /// UID of the next new note.
    pub uid_next: Uid,
    /// Modseq of the last change in the folder (RFC 7162: HIGHESTMODSEQ), at least 1.
    pub highest_modseq: Modseq,
    /// The state of UIDs that several servers give out, or `None` if they belong to this replica alone.
    pub shared: Option<SharedUids>,
}

impl FolderState {
    /// Returns the first UID above all those in the index.
    #[must_use]
    pub fn end(&self) -> Uid {
        self.shared.map_or(self.uid_next, |shared| shared.end)
    }

    /// Returns the greatest UID that a client may know from another server that shares the UIDs, as far as that can be
    /// told: those servers may have been restarted, but not have given out a million UIDs since they replicated.
    pub(crate) fn last_uid_anywhere(&self, now: Timestamp) -> Uid {
        let last = Uid(self.uid_next.0.saturating_sub(1));
        if self.shared.is_none() {
            return last;
        }
        let tomorrow = Timestamp(now.0.saturating_add(86_400 * 1_000_000));
        let end = self.end().0.max(first_uid_of_run(self.uid_validity, tomorrow));
        Uid(end.saturating_add(UIDS_AHEAD).min(SHARED_UID_MAX))
    }

    /// Returns `true` if entries may be held.
    pub(crate) fn may_hold_entries(&self) -> bool {
        self.uid_next < self.end()
    }

    /// Returns the stored form: version 2 if UIDs are shared, or else version 1.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(29);
        let version = if self.shared.is_some() { 2 } else { 1 };
        out.u8(version).u32(self.uid_validity).u32(self.uid_next.0).u64(self.highest_modseq.0);
        if let Some(SharedUids { end, run }) = self.shared {
            out.u32(end.0).u64(run.0);
        }
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(1..=2).contains(&version) {
            return Err(InvalidRecord);
        }
        let uid_validity = input.u32()?;
        let uid_next = Uid(input.u32()?);
        let highest_modseq = Modseq(input.u64()?);
        let shared = match version {
            1 => None,
            _ => Some(SharedUids { end: Uid(input.u32()?), run: InstanceId(input.u64()?) }),
        };
        if shared.is_some_and(|shared| shared.end < uid_next) {
            return Err(InvalidRecord);
        }
        Ok(Self { uid_validity, uid_next, highest_modseq, shared })
    }
}

/// The counts of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FolderTotals {
    /// Number of notes.
    pub count: u64,
    /// Number of notes that the owner has not read.
    pub unseen: u64,
    /// Number of notes that are marked as deleted.
    pub deleted: u64,
    /// Total size of all messages in bytes.
    pub size: u64,
    /// Number of notes with Readers items.
    pub restricted: u64,
}

/// A folder as its design note describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderDesign {
    /// The folder. Its number is that of its design note.
    pub view: ViewId,
    /// Name of the folder, with levels separated by `/`.
    pub title: String,
    /// The letters of `$Flags`.
    pub flags: String,
    /// Other text items of the design note, for layers above (`$SpecialUse` and the like).
    pub attributes: Vec<(String, String)>,
    /// Names, groups and roles that may know of the folder. An empty list admits everybody.
    pub readers: Vec<String>,
}

impl FolderDesign {
    /// Returns the attribute with this name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns `true` if the folder has this name. The case of ASCII letters is ignored.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.title.eq_ignore_ascii_case(name)
    }
}

/// Returns the names that may know of a folder according to its design note: those in Readers items, and if there are
/// any, also those in Authors items.
pub(crate) fn readers_of(items: &[Item]) -> Vec<String> {
    let names = |flag: ItemFlags| {
        let flagged = items.iter().filter(move |item| item.flags.contains(flag));
        flagged.flat_map(|item| item.value.texts()).filter(|name| !name.trim().is_empty()).cloned()
    };
    let mut readers: Vec<String> = names(ItemFlags::READERS).collect();
    if !readers.is_empty() {
        readers.extend(names(ItemFlags::AUTHORS));
    }
    readers
}

/// Returns the folders of a list that the holder of a grant may know of.
pub(crate) fn visible_to(grant: &Grant, folders: Arc<Vec<FolderDesign>>) -> Arc<Vec<FolderDesign>> {
    if folders.iter().all(|folder| grant.may_use_design(&folder.readers)) {
        return folders;
    }
    Arc::new(folders.iter().filter(|folder| grant.may_use_design(&folder.readers)).cloned().collect())
}

/// Returns `true` if a list, sorted by note id, contains the folder but the holder of the grant may not know of it.
pub(crate) fn is_hidden_from(grant: &Grant, folders: &[FolderDesign], view: ViewId) -> bool {
    let found = folders.binary_search_by_key(&view, |folder| folder.view);
    found.is_ok_and(|index| !grant.may_use_design(&folders[index].readers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> FolderEntry {
        FolderEntry {
            uid: Uid(9),
            note: NoteId(77),
            marks: Marks::SEEN.union(Marks::FLAGGED),
            restricted: true,
            composed: true,
            modseq: Modseq(1234),
            size: 10_240,
            crlf_growth: 300,
            received: Timestamp(-5),
            saved: Timestamp(6),
            keywords: vec![Keyword(1), Keyword(300)],
        }
    }

    #[test]
    fn an_entry_reads_back() {
        let usual = FolderEntry { crlf_growth: 0, composed: false, ..entry() };
        assert_eq!(FolderEntry::decode(Uid(9), &entry().encode()), Ok(entry()));
        assert_eq!(FolderEntry::decode(Uid(9), &usual.encode()), Ok(usual));
        let bytes = entry().encode();
        assert!(FolderEntry::decode(Uid(9), &bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn a_state_reads_back() {
        let own = FolderState { uid_validity: 3, uid_next: Uid(4), highest_modseq: Modseq(5), shared: None };
        let shared = FolderState { shared: Some(SharedUids { end: Uid(7), run: InstanceId(9) }), ..own };
        for state in [own, shared] {
            assert_eq!(FolderState::decode(&state.encode()), Ok(state));
        }
        let wrong = FolderState { shared: Some(SharedUids { end: Uid(3), run: InstanceId(9) }), ..own };
        for bytes in [&wrong.encode()[..], &shared.encode()[..28], &[3; 29]] {
            assert!(FolderState::decode(bytes).is_err());
        }
    }
}
