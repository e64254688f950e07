//! The leaves of a document: its versions that no other version replaces.
//!
//! A database has one version of a document, and conflict documents for those that have lost a conflict. CouchDB's
//! protocol knows a tree of revisions with several leaves. So the leaves of a document are its version and the
//! conflict documents, as long as nobody has changed them. The protocol must also be told which leaves have ended, or
//! its clients keep them for ever: losing versions whose conflict document was deleted or changed, and versions that a
//! merge has taken in. Each of them is shown as a deletion that follows it, with a revision that every server makes
//! alike.
//!
//! The winner is that of the protocol: the greatest leaf that is no deletion or, without any, the greatest deletion.

use std::collections::HashSet;

use base::{NoteId, Timestamp, Unid};
use notes::losers::CONFLICT_REVISIONS_ITEM;
use notes::{DatabaseSnapshot, NoteHeader};
use revision::{Revision, RevisionId};

use crate::error::Result;

/// A version that no other version replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The revisions of its path, from its own to the first one that is known. Their sequence numbers descend by one.
    pub path: Vec<Revision>,
    /// The note with its contents, or `None` for a deletion.
    pub note: Option<NoteId>,
}

impl Leaf {
    /// Returns the revision.
    pub fn revision(&self) -> Revision {
        self.path[0]
    }

    /// Returns `true` if the leaf is a deletion.
    pub fn is_deletion(&self) -> bool {
        self.note.is_none()
    }
}

/// Returns `true` if clients are shown a note: it is a document, and not truncated. They would take the part for the
/// whole.
pub(crate) fn is_shown(header: &NoteHeader) -> bool {
    header.class.is_document() && !header.is_truncated()
}

/// The leaves of a document.
#[derive(Debug)]
pub struct Leaves {
    /// The UNID of the document.
    pub unid: Unid,
    /// The leaves, the winner first.
    pub list: Vec<Leaf>,
    /// The header of the stored version.
    pub header: NoteHeader,
    /// Revisions that are known and are not in the path of a leaf.
    others: Vec<Revision>,
}

impl Leaves {
    /// Reads the leaves of a document, or `None` if there is no such document for the reader. A conflict document that
    /// is a leaf of another document is none by itself.
    pub fn read(reading: &DatabaseSnapshot<'_>, unid: Unid) -> Result<Option<Self>> {
        let Some(note) = reading.find(unid)? else { return Ok(None) };
        let Some(header) = reading.header(note)?.filter(is_shown) else { return Ok(None) };
        if reading.winner_of(&header)?.is_some() {
            return Ok(None);
        }
        Self::of_note(reading, header).map(Some)
    }

    /// Reads the leaves of the document with a header.
    pub fn of_note(reading: &DatabaseSnapshot<'_>, header: NoteHeader) -> Result<Self> {
        let record = reading.revisions(header.note)?.unwrap_or_default();
        let stored = header.revision();
        let listed = record.ancestors.list();
        let main_path = listed.iter().filter(|ancestor| ancestor.is_on_main_path).map(|ancestor| ancestor.revision);
        let note = (!header.is_stub()).then_some(header.note);
        let mut list = vec![Leaf { path: consecutive(std::iter::once(stored).chain(main_path)), note }];
        let mut others: Vec<Revision> = listed.iter().map(|ancestor| ancestor.revision).collect();
        let taken_in = listed.iter().filter(|ancestor| !ancestor.is_on_main_path).map(|ancestor| ancestor.revision);
        list.extend(taken_in.map(ended));
        for loser in reading.losers(header.unid)? {
            if loser.revision == stored || record.ancestors.contains(loser.revision) {
                // A later version descends from it.
                others.push(loser.revision);
                continue;
            }
            let Some(document) = loser.document else {
                list.push(ended(loser.revision));
                continue;
            };
            let path = losing_path(reading, document, loser.revision)?;
            others.extend(path.iter().copied());
            list.push(Leaf { path: consecutive(path), note: Some(document) });
        }
        others.extend(remove_ancestors(&mut list));
        list.sort_by_key(|leaf| std::cmp::Reverse((!leaf.is_deletion(), leaf.revision())));
        Ok(Self { unid: header.unid, list, header, others })
    }

    /// Returns the leaf that counts.
    pub fn winner(&self) -> &Leaf {
        &self.list[0]
    }

    /// Returns `true` if a revision is a leaf or an ancestor of one.
    pub fn knows(&self, revision: Revision) -> bool {
        self.list.iter().any(|leaf| leaf.path.contains(&revision)) || self.others.contains(&revision)
    }

    /// Returns the leaf with a revision.
    pub fn leaf(&self, revision: Revision) -> Option<&Leaf> {
        self.list.iter().find(|leaf| leaf.revision() == revision)
    }

    /// Returns the leaves that descend from a revision, or are it.
    pub fn descendants(&self, revision: Revision) -> impl Iterator<Item = &Leaf> {
        self.list.iter().filter(move |leaf| leaf.path.contains(&revision))
    }
}

/// Removes the leaves from which other ones descend, and the ends of such versions. Returns their revisions.
///
/// One server may have got a losing version, and another one only the version that a client has made of it. After a
/// replication, there are conflict documents for both.
fn remove_ancestors(list: &mut Vec<Leaf>) -> Vec<Revision> {
    // A leaf that tells an end follows the version that has ended.
    let version_of = |leaf: &Leaf| match leaf.path.as_slice() {
        [end, version] if leaf.note.is_none() && *end == ended(*version).revision() => *version,
        _ => leaf.revision(),
    };
    let versions: Vec<Revision> = list.iter().map(version_of).collect();
    let mut passed = HashSet::new();
    for (leaf, version) in list.iter().zip(&versions) {
        passed.extend(leaf.path.iter().copied().filter(|revision| revision != version));
    }
    let ancestors = versions.into_iter().filter(|version| passed.contains(version)).collect();
    list.retain(|leaf| !passed.contains(&version_of(leaf)));
    ancestors
}

/// Returns the path of the version that a conflict document keeps. The first revision is that of the version.
fn losing_path(reading: &DatabaseSnapshot<'_>, document: NoteId, revision: Revision) -> Result<Vec<Revision>> {
    let mut path = vec![revision];
    let Some(summary) = reading.summary(document)? else { return Ok(path) };
    let Some(body) = summary.body.iter().find(|body| body.name == CONFLICT_REVISIONS_ITEM) else { return Ok(path) };
    if let Some(item) = reading.body_item(document, body.ordinal)? {
        path.extend(item.value.texts().iter().skip(1).filter_map(|text| text.parse::<Revision>().ok()));
    }
    Ok(path)
}

/// Returns the leaf that tells that a version has ended: a deletion that follows it.
fn ended(revision: Revision) -> Leaf {
    let mut id = [0; 16];
    blake3::Hasher::new().update(b"couchdb ended\0").update(&revision.to_bytes()).finalize_xof().fill(&mut id);
    Leaf { path: vec![revision.child(RevisionId(id)), revision], note: None }
}

/// Returns the first revisions of a path, as long as their sequence numbers descend by one: the protocol has no form
/// for a path with gaps.
fn consecutive(path: impl IntoIterator<Item = Revision>) -> Vec<Revision> {
    let mut kept: Vec<Revision> = Vec::new();
    for revision in path {
        if kept.last().is_some_and(|last| last.sequence.checked_sub(1) != Some(revision.sequence)) {
            break;
        }
        kept.push(revision);
    }
    kept
}

/// Returns the time of a save that follows a version: the clock or, if that is not later, just after its parent.
pub fn time_after(parent: Option<Timestamp>, now: Timestamp) -> Timestamp {
    parent.map_or(now, |parent| now.max(Timestamp(parent.0.saturating_add(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(sequence: u32) -> Revision {
        Revision { sequence, id: RevisionId([sequence as u8; 16]) }
    }

    #[test]
    fn paths_end_at_a_gap() {
        let path = consecutive([9, 8, 6, 5].map(revision));
        assert_eq!(path, [9, 8].map(revision));
    }

    #[test]
    fn the_end_of_a_version_follows_it_and_is_the_same_everywhere() {
        let leaf = ended(revision(3));
        assert_eq!((leaf.revision().sequence, leaf.path[1], leaf.is_deletion()), (4, revision(3), true));
        assert_eq!(leaf, ended(revision(3)));
        assert_ne!(leaf.revision(), ended(revision(4)).revision());
    }
}
