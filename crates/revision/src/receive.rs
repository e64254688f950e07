//! What happens to a version that arrives from another replica.

use std::cmp::Ordering;

use crate::ancestors::Ancestors;
use crate::merge::{Merged, NamedItem, UniteItems, Version, merge};
use crate::revision_id::Revision;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeletionRule {
    /// The edit counts, as in CouchDB, unless it is less than an edit from which the deletion descends: then it loses
    /// to that edit, and the deletion follows that edit.
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
    /// It replaces the current version, from which it descends.
    Newer,
    /// Both have the same contents. The greater revision counts, and descends from what either did.
    Same {
        /// The version that counts.
        counts: Side,
        /// Its ancestors from now on.
        ancestors: Ancestors,
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

/// Returns what happens to a version that arrives. `edit_rule` returns the rule that a version asks for; that of the
/// greater version counts.
///
/// The version that counts is the maximum of an order of all versions, so replicas agree in whatever order versions
/// arrive.
#[must_use]
pub fn receive<I: NamedItem>(
    current: &Version<'_, I>,
    arriving: &Version<'_, I>,
    edit_rule: &dyn Fn(&Version<'_, I>) -> EditRule,
    deletion_rule: DeletionRule,
    unite: UniteItems<'_, I>,
) -> Arrival<I> {
    if current.knows(arriving.revision) {
        return Arrival::Known;
    }
    if arriving.knows(current.revision) {
        return Arrival::Newer;
    }
    if current.is_deletion == arriving.is_deletion && current.items == arriving.items {
        return if current.revision > arriving.revision {
            Arrival::Same { counts: Side::Current, ancestors: current.ancestors.united(arriving.ancestors) }
        } else {
            Arrival::Same { counts: Side::Arriving, ancestors: arriving.ancestors.united(current.ancestors) }
        };
    }
    let is_current = order(current, arriving, deletion_rule) == Ordering::Greater;
    let (counts, winner) = if is_current { (Side::Current, current) } else { (Side::Arriving, arriving) };
    if current.is_deletion != arriving.is_deletion {
        // A deletion that does not count leaves nothing to keep.
        let is_kept = winner.is_deletion && edit_rule(winner) != EditRule::GreaterCounts;
        let loser = match deletion_rule {
            _ if !is_kept => LoserFate::Dropped,
            DeletionRule::EditsCount => LoserFate::ConflictDocument,
            DeletionRule::DeletionsCount => LoserFate::Restorable,
        };
        return Arrival::Conflict { counts, loser };
    }
    let loser = match edit_rule(winner) {
        EditRule::Merge => match merge(current, arriving, unite) {
            Some(merged) => return Arrival::Merged(merged),
            None => LoserFate::ConflictDocument,
        },
        EditRule::KeepBoth => LoserFate::ConflictDocument,
        EditRule::KeepRestorable => LoserFate::Restorable,
        EditRule::GreaterCounts => LoserFate::Dropped,
    };
    Arrival::Conflict { counts, loser }
}

/// Returns the greatest revision from which a deletion descends and that another version does not know.
///
/// A deletion cannot be compared by its own revision, because edits count more. If it counted less than every edit,
/// there would be circles: an edit loses to another one, which somebody deletes, and the deletion would lose to the
/// first.
fn lineage<I>(deletion: &Version<'_, I>, other: &Version<'_, I>) -> Option<Revision> {
    let own = deletion.ancestors.list().iter().map(|ancestor| ancestor.revision);
    own.filter(|ancestor| !other.knows(*ancestor)).max()
}

/// Returns the order of two versions: the greater one counts.
fn order<I>(one: &Version<'_, I>, other: &Version<'_, I>, rule: DeletionRule) -> Ordering {
    let by_revision = one.revision.cmp(&other.revision);
    match rule {
        DeletionRule::EditsCount => match (one.is_deletion, other.is_deletion) {
            (true, false) => lineage(one, other).cmp(&Some(other.revision)),
            (false, true) => Some(one.revision).cmp(&lineage(other, one)),
            _ => by_revision,
        },
        DeletionRule::DeletionsCount => {
            let by_sequence = one.revision.sequence.cmp(&other.revision.sequence);
            by_sequence.then(one.is_deletion.cmp(&other.is_deletion)).then(by_revision)
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;
    use crate::item_changes::ItemChanges;
    use crate::revision_id::RevisionId;

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
        receive(&version(0, current), &version(1, arriving), &|_| rules.0, rules.1, &|_, _, _| None)
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
        assert!(matches!(outcome(one, other, rules), Arrival::Same { counts: Side::Arriving, .. }));
        assert!(matches!(outcome(other, one, rules), Arrival::Same { counts: Side::Current, .. }));
        let deletions = ((revision(2, 1), None), (revision(2, 2), None));
        assert!(matches!(outcome(deletions.0, deletions.1, rules), Arrival::Same { counts: Side::Arriving, .. }));
    }
}
