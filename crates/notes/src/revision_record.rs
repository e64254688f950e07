//! The record of the revisions from which a note descends, and of the saves that changed its items last.
//!
//! It is stored with the body items, because marks rewrite the header all day, and scans read the summaries of all
//! documents. A note that was saved once has no record, and neither has one whose record follows from its header: a
//! message that was delivered and deleted. `docs/replication.md` explains revisions, `docs/note-format.md` the form.

use std::collections::{BTreeMap, BTreeSet};

use base::codec::{Decoder, Encoder, InvalidRecord};
use revision::{Ancestors, Cut, ItemChanges, Revision};
use store::{Batch, Table, TableReader};

use crate::database::Database;
use crate::edit_history::is_edit_history;
use crate::error::Result;
use crate::item::Item;
use crate::keys;
use crate::note::{BodyDirectoryEntry, ExpectedVersion, NewContents, NoteHeader, Summary};
use crate::records;

const RECORD_VERSION: u8 = 1;

/// The revisions from which a note descends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RevisionRecord {
    /// The ancestors of the note's revision.
    pub ancestors: Ancestors,
    /// The revisions at which its items changed last.
    pub changes: ItemChanges,
}

impl RevisionRecord {
    /// Returns the record of a note that has none stored.
    ///
    /// The parent of a deletion that is the second save is the creation, which follows from the header. Of another note
    /// of structure 2 with several saves, neither the ancestors are known nor which items changed last.
    #[must_use]
    pub fn derived(header: &NoteHeader) -> Self {
        let first = Revision::first(header.created, header.unid);
        let ancestors = match header.sequence {
            0 | 1 => Ancestors::default(),
            2 if header.is_stub() => Ancestors::of_child(first, &Ancestors::default()),
            _ => Ancestors::from_list(Vec::new(), Cut::MainPath).unwrap_or_default(),
        };
        Self { ancestors, changes: ItemChanges::default() }
    }

    /// Reads the record of a note, or derives it.
    pub(crate) fn load(reader: &dyn TableReader, database: &Database, header: &NoteHeader) -> Result<Self> {
        if header.sequence <= 1 {
            return Ok(Self::default());
        }
        let stored = reader.get(Table::Body, &keys::revisions(database.number, header.note))?;
        let Some(bytes) = stored else { return Ok(Self::derived(header)) };
        let decoded = Self::decode(&bytes, header.revision());
        decoded.map_err(|_| records::damaged_note(database, header.note, "revisions"))
    }

    /// Writes the record of a note, unless it follows from the header.
    pub(crate) fn write(&self, database: &Database, header: &NoteHeader, batch: &mut Batch) {
        // Only a deletion that is the second save has a record that follows from the header, and then there was none
        // before.
        if *self != Self::derived(header) {
            let key = keys::revisions(database.number, header.note);
            batch.put(Table::Body, &key, &self.encode(header.revision()));
        }
    }

    /// Returns the stored form for a note with this revision.
    #[must_use]
    pub fn encode(&self, revision: Revision) -> Vec<u8> {
        let mut out = Encoder::with_capacity(64);
        out.u8(RECORD_VERSION);
        self.ancestors.encode(&mut out, revision);
        self.changes.encode(&mut out, &self.ancestors);
        out.finish()
    }

    /// Parses the stored form for a note with this revision.
    pub fn decode(bytes: &[u8], revision: Revision) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != RECORD_VERSION {
            return Err(InvalidRecord);
        }
        let ancestors = Ancestors::decode(&mut input, revision)?;
        let changes = ItemChanges::decode(&mut input, revision, &ancestors)?;
        Ok(Self { ancestors, changes })
    }

    /// Returns the record of a version `revision` that restores the contents of `kept` after `deletion`, of which this
    /// is the record.
    pub(crate) fn after_restoration(&self, deletion: Revision, kept: Revision, revision: Revision) -> Self {
        let ancestors = Ancestors::of_restored(deletion, &self.ancestors, kept);
        let changes = self.changes.restored(kept, revision, &ancestors);
        Self { ancestors, changes }
    }

    /// Returns the names, in lower case, of the items that were changed after an earlier version, or `None` if that is
    /// not known: the version is not in the list, versions of several servers were merged, or a client has brought a
    /// version whose changes nobody has recorded.
    ///
    /// A sequence number without an identifier may be that of a version that this one has replaced.
    pub(crate) fn changed_since(&self, version: ExpectedVersion) -> Option<BTreeSet<&str>> {
        let version = Revision { sequence: version.sequence, id: version.id? };
        let list = self.ancestors.list();
        let is_one_line = list.iter().all(|ancestor| ancestor.is_on_main_path)
            && list.is_sorted_by(|one, next| one.revision.sequence > next.revision.sequence);
        if !is_one_line || self.ancestors.cut() == Cut::Branches || !self.ancestors.contains(version) {
            return None;
        }
        let later = self.changes.iter().filter(|(_, change)| change.sequence > version.sequence);
        Some(later.map(|(name, _)| name).collect())
    }

    /// Returns the record after a save that makes `revision` from `parent` and changes the named items.
    #[must_use]
    pub fn after_save(&self, parent: Revision, revision: Revision, changed: &BTreeSet<String>) -> Self {
        let ancestors = Ancestors::of_child(parent, &self.ancestors);
        let changes = self.changes.with_changed(changed, revision, &ancestors);
        Self { ancestors, changes }
    }
}

/// The items of one name.
#[derive(Default)]
struct NamedItems<'c> {
    summary: Vec<&'c Item>,
    body: Vec<BodyItem<'c>>,
}

enum BodyItem<'c> {
    Stored(&'c BodyDirectoryEntry),
    New(&'c Item),
}

/// Returns the names, in lower case, of the items that differ between a stored note and its new contents.
///
/// The lists of editors and save times are left out, because they never conflict. A stored body item is read only if a
/// new one has its name and length.
pub(crate) fn changed_names(
    (reader, database): (&dyn TableReader, &Database),
    header: &NoteHeader,
    old: &Summary,
    new: NewContents<'_>,
) -> Result<BTreeSet<String>> {
    let before = by_name(old.items.iter(), &old.body, [].iter());
    let (summary, body): (Vec<&Item>, Vec<&Item>) = new.items.iter().partition(|item| item.is_summary());
    let after = by_name(summary.into_iter(), new.kept, body.into_iter());
    let nothing = NamedItems::default();
    let mut changed = BTreeSet::new();
    for name in before.keys().chain(after.keys()) {
        let old = before.get(name).unwrap_or(&nothing);
        let new = after.get(name).unwrap_or(&nothing);
        let mut is_same = old.summary == new.summary && old.body.len() == new.body.len();
        for pair in old.body.iter().zip(&new.body) {
            is_same = is_same
                && match pair {
                    (BodyItem::Stored(old), BodyItem::Stored(new)) => old.ordinal == new.ordinal,
                    (BodyItem::Stored(old), BodyItem::New(new)) if old.length == new.encoded_len() as u64 => {
                        let stored = records::load_body(reader, database, header.note, old.ordinal)?;
                        stored.as_ref() == Some(*new)
                    }
                    _ => false,
                };
        }
        if !is_same {
            changed.insert(name.clone());
        }
    }
    Ok(changed)
}

fn by_name<'c>(
    summary: impl Iterator<Item = &'c Item>,
    stored: &'c [BodyDirectoryEntry],
    new: impl Iterator<Item = &'c Item>,
) -> BTreeMap<String, NamedItems<'c>> {
    let mut found: BTreeMap<String, NamedItems<'c>> = BTreeMap::new();
    for item in summary.filter(|item| !is_edit_history(item)) {
        found.entry(item.name.to_ascii_lowercase()).or_default().summary.push(item);
    }
    for body in stored {
        found.entry(body.name.to_ascii_lowercase()).or_default().body.push(BodyItem::Stored(body));
    }
    for item in new {
        found.entry(item.name.to_ascii_lowercase()).or_default().body.push(BodyItem::New(item));
    }
    found
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use revision::{Ancestor, RevisionId};

    use super::*;

    fn revision(sequence: u32) -> Revision {
        Revision { sequence, id: RevisionId::new(Timestamp(i64::from(sequence)), [0; 8]) }
    }

    /// Returns the record of version 5, whose item `x` was changed at version 4.
    fn record(cut: Cut, is_on_main_path: impl Fn(u32) -> bool, sequences: &[u32]) -> RevisionRecord {
        let ancestor =
            |sequence: &u32| Ancestor { revision: revision(*sequence), is_on_main_path: is_on_main_path(*sequence) };
        let list = sequences.iter().map(ancestor).collect();
        let ancestors = Ancestors::from_list(list, cut).expect("it is sorted");
        let changed = "x".to_owned();
        let changes = ItemChanges::default().with_changed([&changed], revision(4), &ancestors);
        RevisionRecord { ancestors, changes }
    }

    #[test]
    fn changes_are_known_only_along_one_complete_line() {
        let since = |record: &RevisionRecord, sequence| {
            let changed = record.changed_since(revision(sequence).into());
            changed.map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
        };
        let whole = record(Cut::MainPath, |_| true, &[4, 3, 2]);
        assert_eq!(since(&whole, 2).as_deref(), Some("x"));
        assert_eq!(since(&whole, 4).as_deref(), Some(""));
        assert_eq!(since(&whole, 1), None, "it is not in the list");
        assert_eq!(whole.changed_since(ExpectedVersion::from(3)), None, "it may be the number of a replaced version");
        // What a client has brought, or what was cut behind a merge, has no complete list of changes.
        assert_eq!(since(&record(Cut::Branches, |_| true, &[4, 3, 2]), 3), None);
        assert_eq!(since(&record(Cut::MainPath, |sequence| sequence != 3, &[4, 3, 2]), 2), None);
    }
}
