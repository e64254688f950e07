//! What happens to a version that arrives from another replica.

use std::cmp::Ordering;

use crate::merge::{Merged, NamedItem, UniteItems, Version, merge};
use crate::revision_id::{Revision, RevisionId};

/// What happens to two edits that do not know each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EditRule {
    /// The greater revision counts, and the other is kept as a conflict document.
    KeepBoth,
    /// They are merged. If both changed an item in different ways, it is as for [`EditRule::KeepBoth`].
    Merge,
    /// The greater revision counts, and the other is kept as a document that can be restored.
    KeepRestorable,
    /// The greater revision counts, and the other is dropped: design notes, profile documents, the ACL.
    GreaterCounts,
}

/// What happens to a deletion and an edit that do not know each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeletionRule {
    /// The edit counts, as in CouchDB, unless it is less than the edit that the deletion has deleted: then it loses to
    /// that edit, and the deletion follows that edit.
    EditsCount,
    /// The deletion counts unless the document was saved more often than the deleter knew, as in Domino. The edit is
    /// kept as a document that can be restored.
    DeletionsCount,
}

/// One of the two versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The version that this replica has.
    Current,
    /// The version that has arrived.
    Arriving,
}

/// What becomes of a version that does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoserFate {
    /// It becomes a conflict document ([`crate::conflict_document_unid`]).
    ConflictDocument,
    /// It becomes a conflict document that is deleted and can be restored.
    Restorable,
    /// Nothing of it is kept.
    Dropped,
}

/// What happens to a version that arrives.
#[derive(Clone, PartialEq, Debug)]
pub enum Arrival<I> {
    /// Nothing: the current version is the same or descends from it.
    Known,
    /// It replaces the current version, which is the same save, and came to a server later.
    ///
    /// A save that a CouchDB client has made has no time. Each server that gets it from a client notes the time of its
    /// arrival and the person who has brought it. The earliest arrival counts, as a whole.
    Earlier,
    /// It replaces the current version, from which it descends.
    Newer,
    /// Both have the same contents. The greater one counts, and nothing of the other needs to be kept. Where the rule
    /// is [`EditRule::Merge`], the greater one also has all changes that a merge would have.
    Same {
        /// The version that counts.
        counts: Side,
    },
    /// Both are replaced by their merge.
    Merged(Merged<I>),
    /// They are in conflict.
    Conflict {
        /// The version that counts.
        counts: Side,
        /// What becomes of the other.
        loser: LoserFate,
    },
}

/// The rules of a database. All replicas must have the same.
pub struct Rules<'r, I> {
    /// Returns the rule that a version asks for. That of the greater version counts.
    pub edits: &'r dyn Fn(&Version<'_, I>) -> EditRule,
    /// What happens to a deletion and an edit.
    pub deletions: DeletionRule,
    /// Merges items that both versions changed in different ways.
    pub unite: UniteItems<'r, I>,
    /// Returns `true` if a merged version can be stored. If it cannot, the merge counts as impossible.
    pub fits: &'r dyn Fn(&Merged<I>) -> bool,
}

/// Returns what happens to a version that arrives.
///
/// The version that counts is the maximum of an order of all versions in which descendants are greater than their
/// ancestors, so replicas agree in whatever order versions arrive. No version changes: its ancestors and changes are
/// the same on all replicas, like its contents. Versions of CouchDB clients are so in the end ([`Arrival::Earlier`]).
#[must_use]
pub fn receive<I: NamedItem>(current: &Version<'_, I>, arriving: &Version<'_, I>, rules: &Rules<'_, I>) -> Arrival<I> {
    if current.revision == arriving.revision && current.revision.counts_rather_at(arriving.time, current.time) {
        return Arrival::Earlier;
    }
    if current.knows(arriving.revision) {
        return Arrival::Known;
    }
    if arriving.knows(current.revision) {
        return Arrival::Newer;
    }
    let is_current = order(current, arriving, rules.deletions) == Ordering::Greater;
    let (counts, winner) = if is_current { (Side::Current, current) } else { (Side::Arriving, arriving) };
    if current.is_deletion == arriving.is_deletion && current.items == arriving.items {
        return merge_of_same(current, arriving, winner, rules).map_or(Arrival::Same { counts }, Arrival::Merged);
    }
    if current.is_deletion != arriving.is_deletion {
        // A deletion that does not count leaves nothing to keep.
        let is_kept = winner.is_deletion && (rules.edits)(winner) != EditRule::GreaterCounts;
        let loser = match rules.deletions {
            _ if !is_kept => LoserFate::Dropped,
            DeletionRule::EditsCount => LoserFate::ConflictDocument,
            DeletionRule::DeletionsCount => LoserFate::Restorable,
        };
        return Arrival::Conflict { counts, loser };
    }
    let loser = match (rules.edits)(winner) {
        EditRule::Merge => match merge(current, arriving, rules.unite).filter(|merged| (rules.fits)(merged)) {
            Some(merged) => return Arrival::Merged(merged),
            None => LoserFate::ConflictDocument,
        },
        EditRule::KeepBoth => LoserFate::ConflictDocument,
        EditRule::KeepRestorable => LoserFate::Restorable,
        EditRule::GreaterCounts => LoserFate::Dropped,
    };
    Arrival::Conflict { counts, loser }
}

/// Returns the merge of two versions with the same contents if the rule asks for merges, and the version that counts
/// does not know of a change that the merge has, such as the removal of an item. A third version that descends from
/// what was there before that change would otherwise bring it back.
fn merge_of_same<I: NamedItem>(
    current: &Version<'_, I>,
    arriving: &Version<'_, I>,
    winner: &Version<'_, I>,
    rules: &Rules<'_, I>,
) -> Option<Merged<I>> {
    if winner.is_deletion || (rules.edits)(winner) != EditRule::Merge {
        return None;
    }
    merge(current, arriving, rules.unite).filter(|merged| merged.changes != *winner.changes && (rules.fits)(merged))
}

/// Returns the order of two versions: the greater one counts. It is total, and a version is greater than those from
/// which it descends.
fn order<I>(one: &Version<'_, I>, other: &Version<'_, I>, rule: DeletionRule) -> Ordering {
    match rule {
        DeletionRule::EditsCount => {
            let rank = |version: &Version<'_, I>| (deleted(version), version.is_deletion, version.revision);
            rank(one).cmp(&rank(other))
        }
        DeletionRule::DeletionsCount => {
            let rank = |version: &Version<'_, I>| (version.revision.sequence, version.is_deletion, version.revision);
            rank(one).cmp(&rank(other))
        }
    }
}

/// Returns the edit that a version is or, for a deletion, the edit that it has deleted.
///
/// A deletion cannot be compared by its own revision, because edits count more. If it counted less than every edit,
/// there would be circles: an edit loses to another one, which somebody deletes, and the deletion would lose to the
/// first. So it takes the place of the edit that it has deleted. If that is unknown, it counts as the greatest with its
/// sequence number.
fn deleted<I>(version: &Version<'_, I>) -> Revision {
    if !version.is_deletion {
        return version.revision;
    }
    let sequence = version.revision.sequence.saturating_sub(1);
    version.ancestors.parent().unwrap_or(Revision { sequence, id: RevisionId([u8::MAX; 16]) })
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;
    use crate::ancestors::Ancestors;
    use crate::item_changes::ItemChanges;

    #[derive(Clone, PartialEq, Debug)]
    struct Text(&'static str);

    impl NamedItem for Text {
        fn name(&self) -> &str {
            "Text"
        }
    }

    fn revision(sequence: u32, tail: u8) -> Revision {
        Revision { sequence, id: RevisionId::new(Timestamp(0), [tail; 8]) }
    }

    /// Returns what a replica with `current` does when `arriving` arrives, each a revision and a text, or a deletion
    /// without one. Both descend from the same revision.
    fn outcome(
        current: (Revision, Option<&'static str>),
        arriving: (Revision, Option<&'static str>),
        rules: (EditRule, DeletionRule),
    ) -> Arrival<Text> {
        let (no_ancestors, no_changes) = (Ancestors::default(), ItemChanges::default());
        let first = Version {
            revision: revision(1, 0),
            time: Timestamp(0),
            ancestors: &no_ancestors,
            changes: &no_changes,
            items: &[],
            is_deletion: false,
        };
        let ancestors = Ancestors::of_child(first.revision, first.ancestors);
        let items = |text: Option<&'static str>| text.map(Text).into_iter().collect::<Vec<_>>();
        let both = [items(current.1), items(arriving.1)];
        let changes_of = |revision, items: &[Text]| ItemChanges::of_child(&first, items, revision, &ancestors);
        let changes = [changes_of(current.0, &both[0]), changes_of(arriving.0, &both[1])];
        let version = |index: usize, (revision, text): (Revision, Option<&'static str>)| Version {
            revision,
            time: Timestamp(0),
            ancestors: &ancestors,
            changes: &changes[index],
            items: &both[index][..],
            is_deletion: text.is_none(),
        };
        let rules = Rules { edits: &|_| rules.0, deletions: rules.1, unite: &|_, _, _| None, fits: &|_| true };
        receive(&version(0, current), &version(1, arriving), &rules)
    }

    #[test]
    fn deletions_and_edits_follow_the_rule_of_the_database() {
        let check = |deleted: u32, edited: u32, rule, counts, loser| {
            let deletion = (revision(deleted, 0), None);
            let edit = (revision(edited, 1), Some("x"));
            let decided = outcome(edit, deletion, (EditRule::KeepBoth, rule));
            assert_eq!(decided, Arrival::Conflict { counts, loser }, "{deleted} {edited}");
            let other = if counts == Side::Current { Side::Arriving } else { Side::Current };
            let decided = outcome(deletion, edit, (EditRule::KeepBoth, rule));
            assert_eq!(decided, Arrival::Conflict { counts: other, loser }, "{deleted} {edited}");
        };
        for (deleted, edited) in [(2, 2), (3, 2), (2, 3)] {
            check(deleted, edited, DeletionRule::EditsCount, Side::Current, LoserFate::Dropped);
        }
        check(2, 2, DeletionRule::DeletionsCount, Side::Arriving, LoserFate::Restorable);
        check(3, 2, DeletionRule::DeletionsCount, Side::Arriving, LoserFate::Restorable);
        check(2, 3, DeletionRule::DeletionsCount, Side::Current, LoserFate::Dropped);
    }

    #[test]
    fn greater_revision_counts_and_the_rule_decides_about_the_other() {
        let check = |rule, loser| {
            let lesser = (revision(2, 1), Some("x"));
            let greater = (revision(2, 2), Some("y"));
            let rules = (rule, DeletionRule::EditsCount);
            let expected = |counts| Arrival::Conflict { counts, loser };
            assert_eq!(outcome(lesser, greater, rules), expected(Side::Arriving));
            assert_eq!(outcome(greater, lesser, rules), expected(Side::Current));
        };
        check(EditRule::KeepBoth, LoserFate::ConflictDocument);
        check(EditRule::Merge, LoserFate::ConflictDocument);
        check(EditRule::KeepRestorable, LoserFate::Restorable);
        check(EditRule::GreaterCounts, LoserFate::Dropped);
    }

    #[test]
    fn equal_contents_are_no_conflict() {
        let one = (revision(2, 1), Some("x"));
        let other = (revision(2, 2), Some("x"));
        let rules = (EditRule::KeepBoth, DeletionRule::EditsCount);
        assert!(matches!(outcome(one, other, rules), Arrival::Same { counts: Side::Arriving }));
        assert!(matches!(outcome(other, one, rules), Arrival::Same { counts: Side::Current }));
        let deletions = ((revision(2, 1), None), (revision(2, 2), None));
        assert!(matches!(outcome(deletions.0, deletions.1, rules), Arrival::Same { counts: Side::Arriving }));
    }
}
