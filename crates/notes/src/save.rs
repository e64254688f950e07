//! Saving of documents that several users edit: conflict resolution without loss.
//!
//! [`Writer::note_update`] fails if the note was saved since the caller read it, and leaves the rest to the caller.
//! [`Writer::note_save`] can resolve the conflict: it keeps the losing version as a response of the winner
//! ([`NoteFlags::CONFLICT`]) or merges both versions. The winner is always the stored version, that is the first save,
//! as in Domino.
//!
//! The item `$ConflictAction` of the document selects the action, with Domino's values. Without the item, the loser is
//! kept. `1` merges, and keeps the loser if a merge is impossible. `2` keeps nothing. `3` merges, and keeps nothing if
//! a merge is impossible. "Keeps nothing" means an error here, because the user who saves is still connected and can
//! react.
//!
//! Two versions are merged item by item: an item is taken from the side that changed it, compared with the version from
//! which both began, if the caller has that base version. Without it, the revisions of the stored version tell which of
//! its items changed meanwhile, and the caller names those that it changes. If the version that the caller has read is
//! not in the list of ancestors any more, nothing is merged.

use std::collections::BTreeSet;

use base::NoteId;
use store::blob::BlobId;

use crate::edit_history::{REVISIONS_ITEM, UPDATED_BY_ITEM, is_edit_history, with_edit_history};
use crate::error::{Error, Result};
use crate::item::{self, Item, ItemValue, drop_unused_blobs};
use crate::limits::CONFLICTS_PER_NOTE_MAX;
use crate::note::{BodyDirectoryEntry, ExpectedVersion, NewContents, NewNote, Note, NoteFlags, NoteHeader, Summary};
use crate::public::PUBLIC_ITEM;
use crate::records;
use crate::revision_record::RevisionRecord;
use crate::writer::Writer;

/// Name of the item that selects how conflicts are resolved.
pub const CONFLICT_ACTION_ITEM: &str = "$ConflictAction";

/// Options of [`Writer::note_save`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveOptions<'s> {
    /// The action if the document was saved meanwhile.
    pub on_conflict: OnConflict,
    /// All items of the version that the caller began with.
    pub base: Option<&'s [Item]>,
    /// The names of the items that the caller changes, if all others have their stored values. With them, versions are
    /// merged without `base`.
    pub changed: Option<&'s [String]>,
    /// `true` if the editor and the time are recorded.
    pub tracks_editors: bool,
    /// `true` if the stored size of the note stays: the size of a message, when the change does not touch the message
    /// itself.
    pub preserve_size: bool,
    /// Ordinals of the body items that stay as they are stored, and are not among the new items. With such items, a
    /// conflict is never resolved. See [`SaveOptions::may_keep`].
    pub kept: &'s [u16],
}

impl SaveOptions<'_> {
    /// Returns `true` if body items with this name may stay as they are stored. The others have a meaning for saving.
    #[must_use]
    pub fn may_keep(name: &str) -> bool {
        let examined = [PUBLIC_ITEM, UPDATED_BY_ITEM, REVISIONS_ITEM, CONFLICT_ACTION_ITEM];
        !examined.iter().any(|other| name.eq_ignore_ascii_case(other))
    }
}

/// The action if a document was saved meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// The save fails with [`Error::Conflict`].
    #[default]
    Refuse,
    /// The document's `$ConflictAction` decides: merge, keep as a response, or fail. For notes that are not documents
    /// the save fails.
    Resolve,
}

/// The result of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveOutcome {
    /// The document is saved.
    Plain { sequence: u32 },
    /// The document is saved, merged with the stored version.
    Merged { sequence: u32 },
    /// The stored version stays, and the caller's version is a response of it.
    Conflict { note: NoteId },
}

/// A document's choice of conflict resolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ConflictAction {
    merges: bool,
    keeps: bool,
}

impl ConflictAction {
    fn from_items(items: &[Item]) -> Self {
        match conflict_action(items) {
            1 => Self { merges: true, keeps: true },
            2 => Self { merges: false, keeps: false },
            3 => Self { merges: true, keeps: false },
            _ => Self { merges: false, keeps: true },
        }
    }
}

/// Returns the value of `$ConflictAction`, which is a text in Domino; a number counts as well. Without the item it is
/// 0.
pub(crate) fn conflict_action(items: &[Item]) -> u8 {
    let value = item::find_item(items, CONFLICT_ACTION_ITEM).map(|item| &item.value);
    match value {
        Some(ItemValue::Number(number)) => *number as u8,
        Some(value) => value.text().and_then(|text| text.trim().parse().ok()).unwrap_or(0),
        None => 0,
    }
}

impl Writer<'_, '_> {
    /// Replaces the items of a note of which the caller read the version `expected`.
    pub fn note_save(
        &mut self,
        note: NoteId,
        expected: impl Into<ExpectedVersion>,
        contents: (&[Item], &[BlobId]),
        options: &SaveOptions<'_>,
    ) -> Result<SaveOutcome> {
        let summary = self.editable_summary(note)?;
        let (items, blobs) = contents;
        let tracked = |writer: &Self, items: &[Item]| match options.tracks_editors {
            true => with_edit_history(&summary.items, items, writer.part.grant.name(), writer.part.now),
            false => items.to_vec(),
        };
        let expected = expected.into();
        let found = self.pending_header(note)?.after.clone();
        let NoteHeader { unid, class, .. } = found;
        let checked = expected.check(&found);
        let Err(refused) = checked else {
            let items = tracked(self, items);
            let NoteHeader { size, crlf_growth, .. } = self.pending_header(note)?.after;
            let kept = self.kept_bodies(note, &summary, options.kept)?;
            let contents = NewContents { items: &items, blobs, kept: &kept };
            let sequence = self.replace_items(note, expected, &summary, contents)?;
            if options.preserve_size {
                let header = &mut self.pending_header(note)?.after;
                let stored = std::mem::replace(&mut header.size, size);
                header.crlf_growth = crlf_growth;
                let counters = &mut self.part.counters;
                counters.bytes = (counters.bytes + size).saturating_sub(stored);
            }
            return Ok(SaveOutcome::Plain { sequence });
        };
        let before = self.pending_header(note)?.before.as_ref();
        let is_stored = before.is_some_and(|before| before.revision() == found.revision());
        let may_resolve = options.on_conflict == OnConflict::Resolve && options.kept.is_empty();
        if !may_resolve || !is_stored || !class.is_document() {
            return Err(refused);
        }
        let current = self.note(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))?;
        let action = ConflictAction::from_items(&current.items);
        let merged = if action.merges { self.merged(expected, &current, items, options)? } else { None };
        if let Some(merged) = merged {
            let items = tracked(self, &merged);
            let mut both = current.blobs.clone();
            both.extend(blobs.iter().filter(|blob| !current.blobs.contains(blob)));
            drop_unused_blobs(
                &mut both,
                &[item::blobs_of(&current.items), item::blobs_of(contents.0)].concat(),
                &items,
            );
            let contents = NewContents::new(&items, &both);
            let sequence = self.replace_items(note, found.revision().into(), &summary, contents)?;
            return Ok(SaveOutcome::Merged { sequence });
        }
        if !action.keeps || self.conflicts_of(note)? >= CONFLICTS_PER_NOTE_MAX {
            return Err(refused);
        }
        self.check_protected_items(note, &summary.items, items)?;
        self.drop_unchanged(note);
        let new = NewNote { parent: Some(unid), blobs: blobs.to_vec(), ..NewNote::document(tracked(self, items)) };
        let loser = self.create_unchecked(new)?;
        let header = &mut self.pending_header(loser)?.after;
        header.flags = header.flags.union(NoteFlags::CONFLICT);
        Ok(SaveOutcome::Conflict { note: loser })
    }

    /// Returns the items of the stored version and of the caller's one together, or `None` if both changed an item, or
    /// that is not known.
    fn merged(
        &self,
        expected: ExpectedVersion,
        current: &Note,
        items: &[Item],
        options: &SaveOptions<'_>,
    ) -> Result<Option<Vec<Item>>> {
        match (options.base, options.changed) {
            (Some(base), _) => Ok(merge(base, &current.items, items)),
            (None, Some(changed)) => {
                let is_safe = self.are_unchanged_since(expected, current, items, changed)?;
                Ok(is_safe.then(|| items.to_vec()))
            }
            (None, None) => Ok(None),
        }
    }

    /// Returns `true` if the items with these names are known to be the same in the stored version as in an earlier
    /// one, or already have their new values.
    fn are_unchanged_since(
        &self,
        earlier: ExpectedVersion,
        current: &Note,
        items: &[Item],
        names: &[String],
    ) -> Result<bool> {
        // A document that was deleted and created again has nothing in common with the one before.
        if earlier.id.is_none_or(|id| id.time() < current.header.created) {
            return Ok(false);
        }
        let record = RevisionRecord::load(self.store, self.part.database, &current.header)?;
        let Some(changed) = record.changed_since(earlier) else { return Ok(false) };
        let named = |items: &[Item], name: &str| -> Vec<Item> {
            items.iter().filter(|item| item.is_named(name)).cloned().collect()
        };
        let is_same = |name: &String| named(&current.items, name) == named(items, name);
        Ok(names.iter().all(|name| !changed.contains(name.to_ascii_lowercase().as_str()) || is_same(name)))
    }

    /// Returns the directory entries of stored body items. Fails if one does not exist or may not stay, or if this
    /// transaction has replaced them.
    fn kept_bodies(&self, note: NoteId, summary: &Summary, ordinals: &[u16]) -> Result<Vec<BodyDirectoryEntry>> {
        let kept = summary.bodies(ordinals);
        let is_replaced = !ordinals.is_empty() && self.part.written.contains_key(&note);
        let is_right = kept.len() == ordinals.len() && kept.iter().all(|body| SaveOptions::may_keep(&body.name));
        if is_replaced || !is_right {
            return Err(Error::invalid(format!("note {note}"), "it has no such body items that may stay"));
        }
        Ok(kept)
    }

    /// Returns the number of conflict responses that a note has.
    fn conflicts_of(&mut self, note: NoteId) -> Result<usize> {
        let unid = self.pending_header(note)?.after.unid;
        let is_loser = |header: &crate::note::NoteHeader| {
            header.flags.contains(NoteFlags::CONFLICT) && header.parent == Some(unid) && !header.is_stub()
        };
        let made = self.part.pending.values().filter(|pending| pending.before.is_none() && is_loser(&pending.after));
        let mut count = made.count();
        for child in records::load_children(self.store, self.part.database.number, unid)? {
            let header = records::load_header(self.store, self.part.database, child)?;
            count += usize::from(header.is_some_and(|header| is_loser(&header)));
        }
        Ok(count)
    }
}

/// Merges two changes of one version. Returns `None` if both changed the same item to different values.
fn merge(base: &[Item], theirs: &[Item], ours: &[Item]) -> Option<Vec<Item>> {
    let named = |items: &[Item], name: &str| -> Vec<Item> {
        items.iter().filter(|item| item.is_named(name) && !is_edit_history(item)).cloned().collect()
    };
    let names: Vec<&str> = theirs.iter().chain(ours).chain(base).map(|item| item.name.as_str()).collect();
    let mut done = BTreeSet::new();
    let mut merged = Vec::new();
    for name in names {
        if !done.insert(name.to_ascii_lowercase()) {
            continue;
        }
        let old = named(base, name);
        let their = named(theirs, name);
        let our = named(ours, name);
        merged.extend(match () {
            () if our == their || our == old => their,
            () if their == old => our,
            () => return None,
        });
    }
    merged.extend(theirs.iter().filter(|item| is_edit_history(item)).cloned());
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::test_items as items;

    #[test]
    fn changes_of_different_items_are_merged() {
        let check = |base: &str, theirs: &str, ours: &str, expected: Option<&str>| {
            let merged = merge(&items(base), &items(theirs), &items(ours));
            assert_eq!(merged, expected.map(items), "{base} | {theirs} | {ours}");
        };
        check("a=1 b=1", "a=2 b=1", "a=1 b=3", Some("a=2 b=3"));
        check("a=1 b=1", "a=2 b=1", "A=3 b=1", None);
        check("a=1", "a=2", "a=2", Some("a=2"));
        check("a=1 b=1", "b=1", "a=1 b=2", Some("b=2"));
        check("a=1 b=1", "b=1", "a=2 b=1", None);
        check("a=1", "a=1 b=1", "a=1 c=1", Some("a=1 b=1 c=1"));
        check("a=1", "a=1 b=1", "a=1 b=2", None);
        check("a=1 a=2", "a=1 a=2", "a=1 a=2 a=3", Some("a=1 a=2 a=3"));
        check("a=1 a=2", "a=1", "a=1 a=2 a=3", None);
        check("", "", "", Some(""));
    }

    #[test]
    fn conflict_action_is_read_from_the_document() {
        let check = |text: &str, merges, keeps| {
            assert_eq!(ConflictAction::from_items(&items(text)), ConflictAction { merges, keeps }, "{text}")
        };
        check("", false, true);
        check("$ConflictAction=0", false, true);
        check("$ConflictAction=1", true, true);
        check("$ConflictAction=2", false, false);
        check("$conflictaction=3", true, false);
        check("$ConflictAction=other", false, true);
        let number = [Item::summary(CONFLICT_ACTION_ITEM, ItemValue::Number(1.0))];
        assert_eq!(ConflictAction::from_items(&number), ConflictAction { merges: true, keeps: true });
    }
}
