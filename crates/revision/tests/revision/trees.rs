//! Revisions that arrive in any order, in any groups and repeatedly, lead to the same result: that of a naive model.
//!
//! The model keeps all revisions with their parents and contents, without a limit, as a tree or, with merges, a graph.
//! From these it says which version counts (the greatest of the leaves), which others must be kept, and at which
//! revision each item changed last.

use std::collections::{BTreeMap, BTreeSet};

use base::sim::SeededRandom;
use base::{Random, Timestamp, Unid};
use proptest::prelude::*;
use revision::{
    ANCESTORS_MAX, Arrival, DeletionRule, EditRule, LoserFate, Merged, Revision, RevisionId, Rules, Side,
    conflict_document_unid, merge, receive,
};

use crate::versions::{Item, Note};

const NAMES: [&str; 5] = ["Subject", "Body", "Status", "Owner", "Due"];
const UNID: Unid = Unid([1; 16]);

/// A revision of the tree.
#[derive(Debug)]
struct Member {
    note: Note,
    /// One for a save, two for a merge, none for the first.
    parents: Vec<usize>,
    /// The members from which it descends.
    ancestors: BTreeSet<usize>,
    /// The members at which items changed last. The others changed at the first member.
    changes: BTreeMap<&'static str, usize>,
}

/// How a tree grows. Members are numbered modulo the size of the tree.
#[derive(Clone, Copy, Debug)]
enum Growth {
    Save { parent: usize, item: usize, value: u64, time: i64 },
    Remove { parent: usize, item: usize },
    Delete { parent: usize, time: i64 },
    Merge { one: usize, other: usize },
    SaveOften { parent: usize, item: usize, count: usize },
}

#[derive(Debug)]
struct Tree {
    members: Vec<Member>,
}

impl Tree {
    fn grown(steps: &[Growth]) -> Self {
        let first = Revision { sequence: 1, id: RevisionId::new(Timestamp(0), [0; 8]) };
        let note = Note::first(first, Timestamp(0), vec![Item { name: NAMES[0].to_owned(), value: 0 }]);
        let root = Member { note, parents: Vec::new(), ancestors: BTreeSet::new(), changes: BTreeMap::new() };
        let mut tree = Self { members: vec![root] };
        steps.iter().for_each(|step| tree.grow(*step));
        tree
    }

    fn grow(&mut self, step: Growth) {
        let size = self.members.len();
        match step {
            Growth::Save { parent, item, value, time } => self.save(parent % size, NAMES[item], Some(value), time),
            Growth::Remove { parent, item } => self.save(parent % size, NAMES[item], None, 0),
            Growth::Delete { parent, time } => self.delete(parent % size, time),
            Growth::Merge { one, other } => self.merge(one % size, other % size),
            Growth::SaveOften { parent, item, count } => {
                let mut parent = parent % size;
                for value in 0..count {
                    self.save(parent, NAMES[item], Some(value as u64), 0);
                    parent = self.members.len() - 1;
                }
            }
        }
    }

    /// Returns the next revision after a member. Its tail is that of no other, and follows no order.
    fn next_revision(&self, parent: usize, time: i64) -> (Revision, Timestamp) {
        let parent = &self.members[parent].note;
        let time = Timestamp(time).max(Timestamp(parent.time.0 + 1));
        let tail = (self.members.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        (parent.revision.child(RevisionId::new(time, tail)), time)
    }

    fn save(&mut self, parent: usize, name: &'static str, value: Option<u64>, time: i64) {
        let (revision, time) = self.next_revision(parent, time);
        let old = &self.members[parent].note;
        let others = old.items.iter().filter(|item| item.name != name).cloned();
        let items = others.chain(value.map(|value| Item { name: name.to_owned(), value })).collect();
        let note = old.child(revision, time, items, false);
        self.add_child(parent, note);
    }

    fn delete(&mut self, parent: usize, time: i64) {
        if self.members[parent].note.is_deletion {
            return;
        }
        let (revision, time) = self.next_revision(parent, time);
        let note = self.members[parent].note.child(revision, time, Vec::new(), true);
        self.add_child(parent, note);
    }

    fn add_child(&mut self, parent: usize, note: Note) {
        let number = self.members.len();
        let before = &self.members[parent];
        let has_changed = |name: &&&str| value_of(&before.note, name) != value_of(&note, name);
        let mut changes = before.changes.clone();
        changes.extend(NAMES.iter().filter(has_changed).map(|name| (*name, number)));
        let ancestors = before.ancestors.iter().copied().chain([parent]).collect();
        self.members.push(Member { note, parents: vec![parent], ancestors, changes });
    }

    /// Adds the merge of two edits that do not know each other, as a replica makes it, if it is possible.
    fn merge(&mut self, one: usize, other: usize) {
        let are_edits = !self.members[one].note.is_deletion && !self.members[other].note.is_deletion;
        if !are_edits || !self.are_concurrent(one, other) {
            return;
        }
        let Some(merged) = self.merged(one, other) else { return };
        if self.members.iter().any(|member| member.note.revision == merged.revision) {
            return;
        }
        let decided = NAMES.map(|name| (name, self.newer(name, one, other).unwrap_or(0)));
        let changes = decided.into_iter().filter(|(_, change)| *change > 0).collect();
        let both = [&self.members[one], &self.members[other]];
        let ancestors = both.iter().flat_map(|member| member.ancestors.iter().copied()).chain([one, other]).collect();
        self.members.push(Member { note: note_of(merged), parents: vec![one, other], ancestors, changes });
    }

    fn merged(&self, one: usize, other: usize) -> Option<Merged<Item>> {
        let both = [one, other].map(|number| self.members[number].note.version());
        merge(&both[0], &both[1], &|_, _, _| None)
    }

    fn are_concurrent(&self, one: usize, other: usize) -> bool {
        one != other && !self.knows(one, other) && !self.knows(other, one)
    }

    /// Returns `true` if a member is a revision or descends from it.
    fn knows(&self, member: usize, revision: usize) -> bool {
        member == revision || self.members[member].ancestors.contains(&revision)
    }

    fn change(&self, member: usize, name: &str) -> usize {
        self.members[member].changes.get(name).copied().unwrap_or(0)
    }

    /// Returns the change of an item that counts in the merge of two members: the one that the other side has not seen.
    /// Returns `None` if neither has seen that of the other, and the values differ.
    fn newer(&self, name: &str, one: usize, other: usize) -> Option<usize> {
        let changes = [self.change(one, name), self.change(other, name)];
        if self.knows(other, changes[0]) {
            return Some(changes[1]);
        }
        if self.knows(one, changes[1]) {
            return Some(changes[0]);
        }
        let is_same = value_of(&self.members[one].note, name) == value_of(&self.members[other].note, name);
        is_same.then(|| changes.into_iter().max_by_key(|change| self.members[*change].note.revision)).flatten()
    }

    /// Returns the items of the merge of two members, or `None` if it is impossible.
    fn naive_merge(&self, one: usize, other: usize) -> Option<BTreeMap<&'static str, u64>> {
        let value = |name: &'static str| -> Option<Option<u64>> {
            let change = self.newer(name, one, other)?;
            let side = if self.change(one, name) == change { one } else { other };
            Some(value_of(&self.members[side].note, name))
        };
        let values: Option<Vec<_>> = NAMES.into_iter().map(|name| Some((name, value(name)?))).collect();
        Some(values?.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }

    fn leaves(&self) -> Vec<usize> {
        let inner: BTreeSet<usize> = self.members.iter().flat_map(|member| member.parents.iter().copied()).collect();
        (0..self.members.len()).filter(|number| !inner.contains(number)).collect()
    }

    /// Returns the place of a member in the order of all versions. Of edits, that with the greatest sequence number
    /// counts, and with equal numbers that with the greatest identifier. A deletion has the place of the edit that it
    /// deletes, or comes before the edits with its sequence number.
    fn place(&self, member: usize, rule: DeletionRule) -> (Revision, bool, Revision) {
        let note = &self.members[member].note;
        match rule {
            DeletionRule::EditsCount if note.is_deletion => {
                (self.members[self.members[member].parents[0]].note.revision, true, note.revision)
            }
            DeletionRule::EditsCount => (note.revision, false, note.revision),
            DeletionRule::DeletionsCount => {
                let number = Revision { sequence: note.revision.sequence, id: RevisionId([0; 16]) };
                (number, note.is_deletion, note.revision)
            }
        }
    }

    fn winner(&self, rule: DeletionRule) -> usize {
        self.leaves().into_iter().max_by_key(|leaf| self.place(*leaf, rule)).expect("there is a leaf")
    }

    /// Returns the members that may be kept besides the winner: those that lose to a version that does not know them.
    fn losers(&self, rule: DeletionRule) -> BTreeSet<usize> {
        let loses = |member: &usize| {
            let is_greater = |other: usize| self.place(other, rule) > self.place(*member, rule);
            (0..self.members.len()).any(|other| self.are_concurrent(*member, other) && is_greater(other))
        };
        (0..self.members.len()).filter(|member| !self.members[*member].note.is_deletion).filter(loses).collect()
    }
}

fn value_of(note: &Note, name: &str) -> Option<u64> {
    note.items.iter().find(|item| item.name == name).map(|item| item.value)
}

fn values(items: &[Item]) -> BTreeMap<&str, u64> {
    items.iter().map(|item| (item.name.as_str(), item.value)).collect()
}

fn note_of(merged: Merged<Item>) -> Note {
    let Merged { revision, time, ancestors, changes, items } = merged;
    Note { revision, time, ancestors, changes, items, is_deletion: false }
}

/// The rules of a database.
#[derive(Clone, Copy, Debug)]
struct RuleSet {
    edits: EditRule,
    deletions: DeletionRule,
}

/// What a replica has: the note, and the versions that have lost.
#[derive(Clone, PartialEq, Debug, Default)]
struct Replica {
    note: Option<Note>,
    /// The conflict documents, by their UNIDs, and whether they are deleted and can be restored.
    kept: BTreeMap<Unid, (Vec<Item>, bool)>,
}

impl Replica {
    fn receive(&mut self, arriving: &Note, rules: RuleSet) {
        let Some(current) = &self.note else {
            self.note = Some(arriving.clone());
            return;
        };
        let functions =
            Rules { edits: &|_| rules.edits, deletions: rules.deletions, unite: &|_, _, _| None, fits: &|_| true };
        match receive(&current.version(), &arriving.version(), &functions) {
            Arrival::Known | Arrival::Same { counts: Side::Current } => {}
            Arrival::Newer | Arrival::Earlier | Arrival::Same { counts: Side::Arriving } => {
                self.note = Some(arriving.clone());
            }
            Arrival::Merged(merged) => self.note = Some(note_of(merged)),
            Arrival::Conflict { counts, loser: fate } => {
                let loser = if counts == Side::Current { arriving.clone() } else { current.clone() };
                if counts == Side::Arriving {
                    self.note = Some(arriving.clone());
                }
                if fate != LoserFate::Dropped {
                    let unid = conflict_document_unid(UNID, loser.revision);
                    self.keep(unid, &loser.items, fate == LoserFate::Restorable);
                }
            }
        }
    }

    /// Keeps a version that has lost. The deletion of a conflict document replaces it.
    fn keep(&mut self, unid: Unid, items: &[Item], is_deleted: bool) {
        self.kept.entry(unid).or_insert_with(|| (items.to_vec(), false)).1 |= is_deleted;
    }

    fn join(&mut self, other: &Self, rules: RuleSet) {
        if let Some(note) = &other.note {
            self.receive(note, rules);
        }
        other.kept.iter().for_each(|(unid, (items, is_deleted))| self.keep(*unid, items, *is_deleted));
    }

    fn joined(&self, other: &Self, rules: RuleSet) -> Self {
        let mut joined = self.clone();
        joined.join(other, rules);
        joined
    }

    fn items(&self) -> &[Item] {
        &self.note.as_ref().expect("something has arrived").items
    }

    fn revision(&self) -> Revision {
        self.note.as_ref().expect("something has arrived").revision
    }
}

/// Returns numbers in a random order, some of them repeatedly.
fn shuffled(numbers: &[usize], random: &SeededRandom) -> Vec<usize> {
    let repeated = numbers.iter().copied().filter(|_| random.below(3) == 0);
    let mut left: Vec<usize> = numbers.iter().copied().chain(repeated.collect::<Vec<_>>()).collect();
    (0..left.len()).map(|_| left.swap_remove(random.below(left.len() as u64) as usize)).collect()
}

/// Returns what replicas have that receive members in random groups, and are then joined in random pairs.
fn received(tree: &Tree, numbers: &[usize], rules: RuleSet, random: &SeededRandom) -> Replica {
    let mut groups = vec![Replica::default(); 1 + random.below(4) as usize];
    let count = groups.len() as u64;
    for number in shuffled(numbers, random) {
        groups[random.below(count) as usize].receive(&tree.members[number].note, rules);
    }
    while groups.len() > 1 {
        let one = groups.swap_remove(random.below(groups.len() as u64) as usize);
        let other = random.below(groups.len() as u64) as usize;
        groups[other].join(&one, rules);
    }
    groups.swap_remove(0)
}

fn growth() -> impl Strategy<Value = Growth> {
    let member = || 0..64usize;
    let item = || 0..NAMES.len();
    prop_oneof![
        8 => (member(), item(), 0..3u64, 0..6i64)
            .prop_map(|(parent, item, value, time)| Growth::Save { parent, item, value, time }),
        1 => (member(), item()).prop_map(|(parent, item)| Growth::Remove { parent, item }),
        2 => (member(), 0..6i64).prop_map(|(parent, time)| Growth::Delete { parent, time }),
        3 => (member(), member()).prop_map(|(one, other)| Growth::Merge { one, other }),
    ]
}

fn edits_only(growth: &Growth) -> bool {
    !matches!(growth, Growth::Delete { .. })
}

fn rule_set() -> impl Strategy<Value = RuleSet> {
    let edits = [EditRule::KeepBoth, EditRule::KeepRestorable, EditRule::GreaterCounts];
    let deletions = [DeletionRule::EditsCount, DeletionRule::DeletionsCount];
    (prop::sample::select(edits.to_vec()), prop::sample::select(deletions.to_vec()))
        .prop_map(|(edits, deletions)| RuleSet { edits, deletions })
}

/// Checks what a replica has kept of the versions that have lost: all contents of leaves, and nothing of versions that
/// have not lost.
fn check_kept(tree: &Tree, replica: &Replica, rules: RuleSet) {
    let losers = tree.losers(rules.deletions);
    let unid_of = |loser: &usize| conflict_document_unid(UNID, tree.members[*loser].note.revision);
    let permitted: BTreeMap<Unid, usize> = losers.iter().map(|loser| (unid_of(loser), *loser)).collect();
    for (unid, (items, _)) in &replica.kept {
        let loser = permitted.get(unid).expect("only versions that have lost are kept");
        assert_eq!(items, &tree.members[*loser].note.items);
    }
    if rules.edits == EditRule::GreaterCounts {
        assert!(replica.kept.is_empty());
        return;
    }
    for leaf in tree.leaves().into_iter().filter(|leaf| losers.contains(leaf)) {
        let lost = &tree.members[leaf].note.items;
        let is_kept = replica.items() == lost || replica.kept.values().any(|(items, _)| items == lost);
        // Somebody may have saved the same and changed it later.
        let has_same = |other: &usize| tree.are_concurrent(leaf, *other) && tree.members[*other].note.items == *lost;
        assert!(
            is_kept || (0..tree.members.len()).any(|other| has_same(&other)),
            "the contents of {} are lost",
            tree.members[leaf].note.revision
        );
    }
}

/// Checks that the leaves of a tree, of which each two can be merged, lead to the latest change of each item.
fn check_merge_of_leaves(tree: &Tree, random: &SeededRandom) {
    let leaves = tree.leaves();
    let latest = |name: &&'static str| -> Option<(&'static str, u64)> {
        let newest = leaves.iter().copied().reduce(|one, other| {
            if tree.newer(name, one, other) == Some(tree.change(one, name)) { one } else { other }
        })?;
        Some((*name, value_of(&tree.members[newest].note, name)?))
    };
    let expected: BTreeMap<&str, u64> = NAMES.iter().filter_map(latest).collect();
    let rules = RuleSet { edits: EditRule::Merge, deletions: DeletionRule::EditsCount };
    for _ in 0..3 {
        let replica = received(tree, &leaves, rules, random);
        assert_eq!(values(replica.items()), expected);
        assert!(replica.kept.is_empty());
    }
}

#[test]
fn a_removed_item_stays_removed_if_others_have_the_same_contents_without_the_removal() {
    let save = |parent, item| Growth::Save { parent, item, value: 0, time: 0 };
    let body = 1;
    let steps = [
        // Two saves that change nothing, so that their revision may be greater than that of the removal.
        save(0, 0),
        save(1, 0),
        save(0, body),
        save(3, 2),
        Growth::Remove { parent: 3, item: body },
    ];
    let tree = Tree::grown(&steps);
    (0..200).for_each(|seed| check_merge_of_leaves(&tree, &SeededRandom::new(seed)));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_order_and_grouping_leads_to_the_winner_of_the_tree(
        steps in prop::collection::vec(growth(), 1..24), rules in rule_set(), seed: u64,
    ) {
        let tree = Tree::grown(&steps);
        let all: Vec<usize> = (0..tree.members.len()).collect();
        let winner = &tree.members[tree.winner(rules.deletions)].note;
        let random = SeededRandom::new(seed);
        let orders = [received(&tree, &all, rules, &random), received(&tree, &tree.leaves(), rules, &random)];
        for replica in &orders {
            // Of versions with the same contents, nothing tells which one was received: the greatest counts.
            prop_assert_eq!(replica.note.as_ref(), Some(winner));
            check_kept(&tree, replica, rules);
        }
        if steps.iter().all(edits_only) {
            let greatest = tree.leaves().into_iter().map(|leaf| tree.members[leaf].note.revision).max();
            prop_assert_eq!(Some(orders[0].revision()), greatest);
        }
    }

    #[test]
    fn long_histories_lead_to_the_winner_of_the_tree(
        steps in prop::collection::vec(growth(), 1..12),
        long in prop::collection::vec((0..64usize, 0..NAMES.len(), ANCESTORS_MAX / 2..2 * ANCESTORS_MAX), 1..3),
        rules in rule_set(), seed: u64,
    ) {
        let often = long.into_iter().map(|(parent, item, count)| Growth::SaveOften { parent, item, count });
        let steps: Vec<Growth> = steps.iter().copied().chain(often).chain(steps.iter().copied()).collect();
        let tree = Tree::grown(&steps);
        let all: Vec<usize> = (0..tree.members.len()).collect();
        let winner = &tree.members[tree.winner(rules.deletions)].note;
        let random = SeededRandom::new(seed);
        for numbers in [all, tree.leaves()] {
            let replica = received(&tree, &numbers, rules, &random);
            prop_assert_eq!(replica.note.as_ref(), Some(winner));
        }
    }

    #[test]
    fn joining_replicas_is_commutative_and_idempotent_and_agrees_in_any_grouping(
        steps in prop::collection::vec(growth(), 1..24), rules in rule_set(), merges: bool, seed: u64,
    ) {
        let rules = if merges { RuleSet { edits: EditRule::Merge, ..rules } } else { rules };
        let tree = Tree::grown(&steps);
        let all: Vec<usize> = (0..tree.members.len()).collect();
        let random = SeededRandom::new(seed);
        let some = || {
            let mut numbers = all.clone();
            numbers.retain(|_| random.below(3) == 0);
            numbers.push(0);
            received(&tree, &numbers, rules, &random)
        };
        let [a, b, c] = [some(), some(), some()];
        prop_assert_eq!(a.joined(&b, rules), b.joined(&a, rules));
        prop_assert_eq!(&a.joined(&a, rules), &a);
        prop_assert_eq!(a.joined(&b, rules).joined(&b, rules), a.joined(&b, rules));
        let groups = [a.joined(&b, rules).joined(&c, rules), a.joined(&b.joined(&c, rules), rules)];
        if merges {
            // Merges of merges are other revisions. They agree when they have met.
            let met = groups[0].joined(&groups[1], rules);
            prop_assert_eq!(&met.joined(&groups[0], rules), &met);
            prop_assert_eq!(&met.joined(&groups[1], rules), &met);
        } else {
            prop_assert_eq!(&groups[0].note, &groups[1].note);
        }
    }

    #[test]
    fn merge_of_two_versions_is_that_of_the_tree(steps in prop::collection::vec(growth(), 2..24)) {
        let tree = Tree::grown(&steps);
        for one in 0..tree.members.len() {
            let is_edit = |member: usize| !tree.members[member].note.is_deletion;
            for other in (0..one).filter(|other| tree.are_concurrent(one, *other) && is_edit(*other) && is_edit(one)) {
                let merged = tree.merged(one, other);
                prop_assert_eq!(&merged, &tree.merged(other, one));
                let expected = tree.naive_merge(one, other);
                prop_assert_eq!(merged.as_ref().map(|merged| values(&merged.items)), expected);
                let Some(merged) = merged else { continue };
                let both = tree.members[one].ancestors.union(&tree.members[other].ancestors).chain([&one, &other]);
                let all: BTreeSet<Revision> = both.map(|number| tree.members[*number].note.revision).collect();
                let listed = merged.ancestors.list().iter().map(|ancestor| ancestor.revision).collect();
                prop_assert_eq!(all, listed);
            }
        }
    }

    #[test]
    fn merge_after_long_histories_is_that_of_the_tree_or_impossible(
        steps in prop::collection::vec(growth().prop_filter("edits", edits_only), 1..8),
        long in prop::collection::vec((0..64usize, 0..NAMES.len(), ANCESTORS_MAX / 4..2 * ANCESTORS_MAX), 2..4),
    ) {
        let often = long.into_iter().map(|(parent, item, count)| Growth::SaveOften { parent, item, count });
        let steps: Vec<Growth> = steps.iter().copied().chain(often).chain(steps.iter().copied()).collect();
        let tree = Tree::grown(&steps);
        let leaves = tree.leaves();
        for one in &leaves {
            for other in leaves.iter().filter(|other| *other < one) {
                let merged = tree.merged(*one, *other);
                prop_assert_eq!(&merged, &tree.merged(*other, *one));
                if let Some(merged) = merged {
                    prop_assert_eq!(Some(values(&merged.items)), tree.naive_merge(*one, *other));
                }
            }
        }
    }

    #[test]
    fn leaves_that_can_be_merged_lead_to_the_same_items_in_any_order(
        steps in prop::collection::vec(growth().prop_filter("edits", edits_only), 2..16), seed: u64,
    ) {
        let tree = Tree::grown(&steps);
        let pairs = tree.leaves().into_iter().flat_map(|one| tree.leaves().into_iter().map(move |other| (one, other)));
        let mut concurrent = pairs.filter(|(one, other)| one != other);
        prop_assume!(concurrent.all(|(one, other)| tree.naive_merge(one, other).is_some()));
        check_merge_of_leaves(&tree, &SeededRandom::new(seed));
    }
}
