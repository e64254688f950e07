//! The versions of a document that lost a conflict with another one.
//!
//! Each of them is kept as a conflict document, with its own contents and the item [`CONFLICT_REVISIONS_ITEM`], which
//! names its revision. A record in the table `meta` leads from the document to the versions that it has beaten, also
//! after a conflict document was changed or deleted. CouchDB's protocol needs this: it knows the losing versions as
//! leaves of the document, and must be told when one has ended.
//!
//! The records are not replicated. They follow from the conflict documents, which are.

use base::limits::ITEMS_PER_NOTE_MAX;
use base::{DbNumber, NoteId, Unid};
use revision::{Revision, conflict_document_unid, is_conflict_document_unid};
use store::Batch;

use crate::database_snapshot::DatabaseSnapshot;
use crate::error::Result;
use crate::item::{Item, ItemValue, find_item};
use crate::loser_records::{self, load_losers};
use crate::note::NoteHeader;
use crate::records;
use crate::replica::ReplicaNote;

/// Name of the item of a conflict document that names the revision which it keeps, and then those from which it
/// descends on its main path, the greatest first.
pub const CONFLICT_REVISIONS_ITEM: &str = "$ConflictRevisions";

/// A version of a document that lost a conflict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loser {
    /// Its revision.
    pub revision: Revision,
    /// The conflict document that still has its contents, or `None` if that was changed or deleted, or is hidden.
    pub document: Option<NoteId>,
}

/// Adds the item that names the revisions of a losing version to its items. A version that has no room for another item
/// gets none.
pub(crate) fn with_conflict_revisions(loser: &ReplicaNote) -> Option<Vec<Item>> {
    let mut items = loser.items.clone()?;
    items.retain(|item| !item.is_named(CONFLICT_REVISIONS_ITEM));
    if items.len() < ITEMS_PER_NOTE_MAX {
        let ancestors = loser.record.ancestors.list().iter().filter(|ancestor| ancestor.is_on_main_path);
        let path = std::iter::once(loser.revision).chain(ancestors.map(|ancestor| ancestor.revision));
        let texts = path.map(|revision| revision.to_string()).collect();
        items.push(Item::body(CONFLICT_REVISIONS_ITEM, ItemValue::TextList(texts)));
    }
    Some(items)
}

/// Returns the revision that a conflict document keeps, from its items. Other documents may have the item, too, so the
/// revision must be the one from which the UNID is derived.
fn kept_revision(unid: Unid, parent: Unid, items: &[Item]) -> Option<Revision> {
    let texts = find_item(items, CONFLICT_REVISIONS_ITEM)?.value.texts();
    let revision = texts.first()?.parse().ok()?;
    (conflict_document_unid(parent, revision) == unid).then_some(revision)
}

/// Records the version that a new conflict document keeps.
pub(crate) fn record_loser(batch: &mut Batch, database: DbNumber, document: &ReplicaNote, items: &[Item]) {
    let Some(parent) = document.parent.filter(|_| is_conflict_document_unid(document.unid)) else { return };
    if let Some(revision) = kept_revision(document.unid, parent, items) {
        loser_records::put_loser(batch, database, (parent, revision));
    }
}

/// Returns `true` if a conflict document has not been changed since replicas made it.
pub(crate) fn is_as_made(header: &NoteHeader) -> bool {
    !header.is_stub() && header.revision().sequence == 1
}

impl DatabaseSnapshot<'_> {
    /// Returns the versions of a document that have lost conflicts with it, the greatest first, at most
    /// [`crate::limits::LOSERS_READ_MAX`]. What is known of those that were purged ends with their deletion stubs. A
    /// document that is hidden has none.
    pub fn losers(&self, unid: Unid) -> Result<Vec<Loser>> {
        if self.find(unid)?.is_none() {
            return Ok(Vec::new());
        }
        let revisions = load_losers(&self.snapshot, self.database().number(), unid)?;
        let loser = |revision| {
            let found = self.find(conflict_document_unid(unid, revision))?;
            let header = found.map(|note| self.header(note)).transpose()?.flatten();
            Ok(Loser { revision, document: header.filter(is_as_made).map(|header| header.note) })
        };
        revisions.into_iter().map(loser).collect()
    }

    /// Returns the document with which the version that a conflict document keeps was in conflict. Returns `None` for
    /// other documents, and if the conflict document was changed since.
    pub fn winner_of(&self, document: &NoteHeader) -> Result<Option<Unid>> {
        let Some(parent) = document.parent.filter(|_| is_conflict_document_unid(document.unid)) else {
            return Ok(None);
        };
        if !document.is_stub() && !is_as_made(document) {
            return Ok(None);
        }
        let losers = load_losers(&self.snapshot, self.database().number(), parent)?;
        let is_kept = losers.iter().any(|revision| conflict_document_unid(parent, *revision) == document.unid);
        Ok(is_kept.then_some(parent))
    }

    /// Returns the items that a stub keeps, or the summary items of another note. Empty if the note is absent or
    /// hidden.
    pub fn kept_items(&self, note: NoteId) -> Result<Vec<Item>> {
        if self.header(note)?.is_none() {
            return Ok(Vec::new());
        }
        let summary = records::load_summary(&self.snapshot, self.database(), note)?;
        Ok(summary.map(|summary| summary.items).unwrap_or_default())
    }
}
