//! A note as replicas exchange it, and the limits of what one may bring.

use base::limits::SUMMARY_BYTES_MAX;
use base::{Timestamp, Unid};
use revision::{NamedItem, Register, Revision, Version};
use store::blob::BlobId;

use crate::acl::ACL_UNID;
use crate::error::{Error, Result};
use crate::item::{self, Item, ItemValue};
use crate::limits::{
    BLOBS_PER_NOTE_MAX, CLIENT_ID_BYTES_MAX, RECEIVED_SEQUENCE_MAX, RECEIVED_SIZE_MAX, RECEIVED_TIME_MAX,
    REVISION_RECORD_BYTES_MAX, TRUNCATED_BODY_BYTES,
};
use crate::local_document::ID_ITEM;
use crate::note::{NoteClass, Summary};
use crate::revision_record::RevisionRecord;

impl NamedItem for Item {
    fn name(&self) -> &str {
        &self.name
    }
}

/// A mark, keyword or folder, by a name that means the same in all replicas.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StateName {
    /// The mark with this bit number.
    Mark(u8),
    /// A keyword.
    Keyword(String),
    /// The folder with this UNID.
    Folder(Unid),
    /// UIDVALIDITY of a folder, as the number of the register.
    UidValidity,
}

/// A note as replicas exchange it.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplicaNote {
    /// Universal identifier.
    pub unid: Unid,
    /// The class.
    pub class: NoteClass,
    /// `true` if the note is the losing version of a conflict.
    pub is_conflict: bool,
    /// The last save.
    pub revision: Revision,
    /// The time of the last save.
    pub sequence_time: Timestamp,
    /// The revisions from which the note descends.
    pub record: RevisionRecord,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of receipt.
    pub received: Timestamp,
    /// Size in bytes for which the note counts, or `None` for the size of its items.
    pub size: Option<u64>,
    /// Number of bytes that the message gains when all its lines end in CRLF.
    pub crlf_growth: u64,
    /// The note to which this one is a response.
    pub parent: Option<Unid>,
    /// The items, or `None` for a deletion.
    pub items: Option<Vec<Item>>,
    /// The blobs to which the items refer.
    pub blobs: Vec<BlobId>,
    /// Marks, keywords and folders that are set, or that changed since the creation.
    pub state: Vec<(StateName, Register)>,
    /// The name that a CouchDB client has given a deleted document, from which the UNID is derived. A document has it
    /// among its items.
    pub client_id: Option<String>,
    /// `true` if this is a part of the contents only.
    pub is_truncated: bool,
}

impl ReplicaNote {
    /// Removes attachments, and what is outside the summary behind the first [`TRUNCATED_BODY_BYTES`]. A document that
    /// has less stays as it is.
    pub fn truncate(&mut self) {
        let Some(items) = self.items.as_mut().filter(|_| self.class.is_document()) else { return };
        let has_contents = !self.blobs.is_empty();
        let mut left = TRUNCATED_BODY_BYTES;
        let mut is_cut = has_contents;
        items.retain_mut(|item| {
            // The parts of a message refer to its contents.
            let is_removed = matches!(item.value, ItemValue::Object { .. })
                || (has_contents && matches!(item.value, ItemValue::MimePart(_)));
            if is_removed || item.is_summary() {
                is_cut |= is_removed;
                return !is_removed;
            }
            let bytes = item.encoded_len();
            if bytes <= left {
                left -= bytes;
                return true;
            }
            is_cut = true;
            match &mut item.value {
                ItemValue::Text(text) | ItemValue::RichText(text) if left > 0 => {
                    text.truncate(text.floor_char_boundary(left));
                    left = 0;
                    true
                }
                _ => false,
            }
        });
        if is_cut {
            self.blobs.clear();
            self.is_truncated = true;
        }
    }

    pub(crate) fn version(&self) -> Version<'_, Item> {
        Version {
            revision: self.revision,
            time: self.sequence_time,
            ancestors: &self.record.ancestors,
            changes: &self.record.changes,
            items: self.items.as_deref().unwrap_or_default(),
            is_deletion: self.items.is_none(),
        }
    }
}

/// A note in a list of changes: what another replica needs to know whether it lacks anything of it.
#[derive(Clone, PartialEq, Debug)]
pub struct ListedNote {
    /// Universal identifier.
    pub unid: Unid,
    /// The class.
    pub class: NoteClass,
    /// The last save.
    pub revision: Revision,
    /// The time of the last save. The id of a revision that a CouchDB client has made contains none.
    pub saved: Timestamp,
    /// Size in bytes for which the note counts.
    pub size: u64,
    /// Marks, keywords and folders that are set, or that changed since the creation.
    pub state: Vec<(StateName, Register)>,
    /// `true` if the reader has received the note with these contents before: they have not changed since the position
    /// from which the reader continues, and were visible. A reader who does not have it has deleted it.
    pub is_old: bool,
    /// `true` if the reader has asked for other documents only, should it lack this one.
    pub is_unselected: bool,
    /// `true` if the sender has a part of the contents only, and cannot send the note.
    pub is_truncated: bool,
}

/// Checks what no replica of this program sends, and what could not be stored.
pub(crate) fn check_received(note: &ReplicaNote) -> Result<()> {
    let refuse = |reason: &'static str| Err(Error::invalid(format!("note {}", note.unid), reason));
    if (note.class == NoteClass::ACL) != (note.unid == ACL_UNID) {
        return refuse("its class does not match its UNID");
    }
    if note.class == NoteClass::ACL && note.items.is_none() {
        return refuse("an access control list cannot be deleted");
    }
    if note.revision.sequence == 0 {
        return refuse("it was never saved");
    }
    if note.revision.sequence > RECEIVED_SEQUENCE_MAX {
        return refuse("it was saved too often");
    }
    if [note.sequence_time, note.created, note.received].iter().any(|time| time.0 > RECEIVED_TIME_MAX) {
        return refuse("its times are not possible");
    }
    if note.is_truncated && (!note.class.is_document() || note.items.is_none()) {
        return refuse("only documents can be truncated");
    }
    if note.parent == Some(note.unid) {
        return refuse("it is a response to itself");
    }
    if note.size.unwrap_or(0).max(note.crlf_growth) > RECEIVED_SIZE_MAX {
        return refuse("its size is not possible");
    }
    check_storable(note)
}

/// Returns the name that a CouchDB client has given a deleted document.
pub(crate) fn client_id_in(summary: &Summary) -> Option<String> {
    let id = item::find_item(&summary.items, ID_ITEM)?.value.text()?;
    (id.len() <= CLIENT_ID_BYTES_MAX).then(|| id.to_owned())
}

/// Checks the limits of what a note consists of.
pub(crate) fn check_storable(note: &ReplicaNote) -> Result<()> {
    if note.record.encode(note.revision).len() > REVISION_RECORD_BYTES_MAX {
        return Err(Error::invalid(format!("note {}", note.unid), "the history of its items is too long"));
    }
    if note.blobs.len() > BLOBS_PER_NOTE_MAX {
        return Err(Error::Limit { what: "blobs of a note", max: BLOBS_PER_NOTE_MAX });
    }
    let items = note.items.as_deref().unwrap_or_default();
    item::check_items(items)?;
    let bytes = item::summary_len(items) + note.blobs.len() * size_of::<BlobId>() + 10;
    if bytes > SUMMARY_BYTES_MAX {
        return Err(Error::Limit { what: "bytes of the summary items of a note", max: SUMMARY_BYTES_MAX });
    }
    Ok(())
}
