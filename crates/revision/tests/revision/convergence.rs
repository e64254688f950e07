//! Replicas that are changed independently and exchange their notes in any order become equal, and lose no edit.
//!
//! A model of a server is a map of notes. A save writes a number that is never used again, so every edit can be found.
//! The true ancestry of all revisions is recorded beside the model, without a limit.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{Timestamp, Unid};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use revision::{
    ANCESTORS_MAX, Arrival, DeletionRule, EditRule, LoserFate, Revision, RevisionId, Rules, Side,
    conflict_document_unid, receive,
};

use crate::versions::{Item, Note};

const REPLICAS: usize = 3;
const NAMES: [&str; 3] = ["Subject", "Body", "Status"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Save { replica: usize, note: u8, item: usize },
    SaveOften { replica: usize, note: u8, item: usize, count: usize },
    Remove { replica: usize, note: u8, item: usize },
    Delete { replica: usize, note: u8 },
    DeleteConflict { replica: usize, index: usize },
    Pull { from: usize, to: usize, note: Option<u8> },
    SetClock { replica: usize, time: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let replica = || 0..REPLICAS;
    let note = || 0..2u8;
    prop_oneof![
        8 => (replica(), note(), 0..NAMES.len()).prop_map(|(replica, note, item)| Step::Save { replica, note, item }),
        1 => (replica(), note(), 0..NAMES.len(), ANCESTORS_MAX / 4..2 * ANCESTORS_MAX)
            .prop_map(|(replica, note, item, count)| Step::SaveOften { replica, note, item, count }),
        1 => (replica(), note(), 0..NAMES.len()).prop_map(|(replica, note, item)| Step::Remove { replica, note, item }),
        1 => (replica(), note()).prop_map(|(replica, note)| Step::Delete { replica, note }),
        1 => (replica(), 0..8usize).prop_map(|(replica, index)| Step::DeleteConflict { replica, index }),
        6 => (replica(), replica(), prop::option::of(note())).prop_map(|(from, to, note)| Step::Pull { from, to, note }),
        1 => (replica(), 0..100i64).prop_map(|(replica, time)| Step::SetClock { replica, time }),
    ]
}

/// Returns steps that concern one note: short histories with many conflicts and deletions.
fn step_of_one_note() -> impl Strategy<Value = Step> {
    let replica = || 0..REPLICAS;
    prop_oneof![
        3 => replica().prop_map(|replica| Step::Save { replica, note: 0, item: 0 }),
        2 => replica().prop_map(|replica| Step::Delete { replica, note: 0 }),
        4 => (replica(), replica()).prop_map(|(from, to)| Step::Pull { from, to, note: None }),
    ]
}

/// An edit that a user was told is saved.
struct Edit {
    revision: Revision,
    /// The written item and its value, or `None` for a deletion.
    written: Option<(&'static str, Option<u64>)>,
}

/// A rule that is wrong. It replaces the right one, to show that the properties find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WrongRule {
    /// Of two concurrent versions, the one that arrives counts.
    ArrivingCounts,
    /// Of two concurrent versions, the one that was there counts.
    CurrentCounts,
    /// A greater sequence number is a later version.
    NumbersOnly,
    /// Losing versions are dropped.
    LosersDropped,
    /// Each replica keeps losing versions under its own UNID.
    OwnConflictDocuments,
    /// If both sides changed an item, the greater version has the right value.
    GreaterItems,
    /// Each replica that merges makes its own revision.
    OwnMerges,
    /// A deletion counts against every edit, and the edit is dropped.
    DeletionsAlwaysCount,
    /// A deletion is taken for a version without ancestors.
    DeletionsWithoutAncestors,
    /// Of two versions with the same number of saves, the later one counts, by the clock of the replica at which the
    /// second one arrives.
    TieByLocalClock,
    /// Of two versions with the same number of saves, the one whose note has the lower number in its replica counts.
    TieByNoteNumber,
    /// A merge follows the version of the server whose name comes first.
    MergeByNameOrder,
}

/// A version that arrives at a replica which has another one.
#[derive(Clone, Copy)]
struct Meeting<'n> {
    from: usize,
    to: usize,
    unid: Unid,
    current: &'n Note,
    arriving: &'n Note,
}

impl Meeting<'_> {
    /// Returns `true` if both versions are edits that were saved the same number of times.
    fn is_tie(&self) -> bool {
        let is_between_edits = !self.current.is_deletion && !self.arriving.is_deletion;
        is_between_edits && self.current.revision.sequence == self.arriving.revision.sequence
    }
}

struct World {
    wrong: Option<WrongRule>,
    replicas: Vec<BTreeMap<Unid, Note>>,
    /// The numbers of the notes of each replica, in the order in which they were created or arrived.
    numbers: Vec<HashMap<Unid, usize>>,
    clocks: Vec<i64>,
    next: u64,
    edits: Vec<Edit>,
    /// All revisions from which a revision descends.
    true_ancestors: HashMap<Revision, BTreeSet<Revision>>,
    /// The documents in which each losing version is kept.
    kept: HashMap<Revision, BTreeSet<Unid>>,
    /// The revisions that merge two versions, of which the lesser one is the first.
    merges: HashMap<[Revision; 2], BTreeSet<Revision>>,
    /// Values in documents that can be restored.
    restorable: BTreeSet<u64>,
    edit_rule: EditRule,
    deletion_rule: DeletionRule,
}

impl World {
    fn new(edit_rule: EditRule, deletion_rule: DeletionRule) -> Self {
        Self {
            wrong: None,
            replicas: vec![BTreeMap::new(); REPLICAS],
            numbers: vec![HashMap::new(); REPLICAS],
            clocks: vec![0; REPLICAS],
            next: 1,
            edits: Vec::new(),
            true_ancestors: HashMap::new(),
            kept: HashMap::new(),
            merges: HashMap::new(),
            restorable: BTreeSet::new(),
            edit_rule,
            deletion_rule,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn descend(&mut self, child: Revision, parents: &[Revision]) {
        let mut all: BTreeSet<Revision> = parents.iter().copied().collect();
        for parent in parents {
            all.extend(self.true_ancestors.get(parent).into_iter().flatten().copied());
        }
        self.true_ancestors.entry(child).or_default().extend(all);
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Save { replica, note, item } => {
                let value = self.number();
                self.edit(replica, Unid([note; 16]), NAMES[item], Some(value));
            }
            Step::SaveOften { replica, note, item, count } => {
                (0..count).for_each(|_| self.run(Step::Save { replica, note, item }));
            }
            Step::Remove { replica, note, item } => self.edit(replica, Unid([note; 16]), NAMES[item], None),
            Step::Delete { replica, note } => self.delete(replica, Unid([note; 16])),
            Step::DeleteConflict { replica, index } => {
                let mut conflicts = self.replicas[replica].keys().filter(|unid| unid.0.starts_with(b"\0conf\0"));
                if let Some(unid) = conflicts.nth(index).copied() {
                    self.delete(replica, unid);
                }
            }
            Step::Pull { from, to, note } => self.pull(from, to, note.map(|note| Unid([note; 16]))),
            Step::SetClock { replica, time } => self.clocks[replica] = time,
        }
    }

    fn edit(&mut self, replica: usize, unid: Unid, name: &'static str, value: Option<u64>) {
        let tail = self.number().to_be_bytes();
        let now = Timestamp(self.clocks[replica]);
        let new = value.map(|value| Item { name: name.to_owned(), value });
        let made = match self.replicas[replica].get(&unid) {
            None => {
                let revision = Revision { sequence: 1, id: RevisionId::new(now, tail) };
                Note::first(revision, now, new.into_iter().collect())
            }
            Some(old) => {
                let time = now.max(Timestamp(old.time.0 + 1));
                let others = old.items.iter().filter(|item| item.name != name).cloned();
                let items: Vec<Item> = others.chain(new).collect();
                old.child(old.revision.child(RevisionId::new(time, tail)), time, items, false)
            }
        };
        self.acknowledge(replica, unid, made, Some((name, value)));
    }

    fn delete(&mut self, replica: usize, unid: Unid) {
        let tail = self.number().to_be_bytes();
        let Some(old) = self.replicas[replica].get(&unid).filter(|old| !old.is_deletion) else { return };
        let time = Timestamp(self.clocks[replica]).max(Timestamp(old.time.0 + 1));
        let made = old.child(old.revision.child(RevisionId::new(time, tail)), time, Vec::new(), true);
        self.acknowledge(replica, unid, made, None);
    }

    fn acknowledge(&mut self, replica: usize, unid: Unid, made: Note, written: Option<(&'static str, Option<u64>)>) {
        let parents: Vec<Revision> = self.replicas[replica].get(&unid).map(|old| old.revision).into_iter().collect();
        self.descend(made.revision, &parents);
        self.edits.push(Edit { revision: made.revision, written });
        self.put(replica, unid, made);
    }

    /// Sets the version of a note. One that is new gets the next number.
    fn put(&mut self, replica: usize, unid: Unid, note: Note) {
        let next = self.numbers[replica].len();
        self.numbers[replica].entry(unid).or_insert(next);
        self.replicas[replica].insert(unid, note);
    }

    fn pull(&mut self, from: usize, to: usize, only: Option<Unid>) {
        let source = self.replicas[from].clone();
        for (unid, arriving) in source.into_iter().filter(|(unid, _)| only.is_none_or(|only| only == *unid)) {
            self.arrive((from, to), unid, arriving);
        }
    }

    fn arrive(&mut self, (from, to): (usize, usize), unid: Unid, arriving: Note) {
        let Some(current) = self.replicas[to].get(&unid).cloned() else {
            self.put(to, unid, arriving);
            return;
        };
        let edit_rule = self.edit_rule;
        let rules = Rules {
            edits: &|_| edit_rule,
            deletions: self.deletion_rule,
            unite: &|_, _, _| None,
            fits: &|merged| merged.revision.id.tail()[0] % 8 > 0,
        };
        let decided = receive(&current.version(), &arriving.version(), &rules);
        let meeting = Meeting { from, to, unid, current: &current, arriving: &arriving };
        match self.decide_wrongly(meeting, decided) {
            Arrival::Known | Arrival::Same { counts: Side::Current } => {}
            Arrival::Newer | Arrival::Earlier | Arrival::Same { counts: Side::Arriving } => {
                self.put(to, unid, arriving);
            }
            Arrival::Merged(merged) => {
                self.descend(merged.revision, &[current.revision, arriving.revision]);
                let mut both = [current.revision, arriving.revision];
                both.sort_unstable();
                self.merges.entry(both).or_default().insert(merged.revision);
                let revision::Merged { revision, time, ancestors, changes, items } = merged;
                let note = Note { revision, time, ancestors, changes, items, is_deletion: false };
                self.put(to, unid, note);
            }
            Arrival::Conflict { counts, loser: fate } => {
                let (winner, loser) = if counts == Side::Current { (current, arriving) } else { (arriving, current) };
                self.put(to, unid, winner);
                self.keep(to, unid, &loser, fate);
            }
        }
    }

    /// Changes a decision of the right rules into that of a wrong one.
    fn decide_wrongly(&self, meeting: Meeting<'_>, decided: Arrival<Item>) -> Arrival<Item> {
        let Some(wrong) = self.wrong else { return decided };
        let Meeting { from, to, unid, current, arriving } = meeting;
        let is_between_edits = !current.is_deletion && !arriving.is_deletion;
        let deletion = if arriving.is_deletion { Side::Arriving } else { Side::Current };
        let dropped = |counts| Arrival::Conflict { counts, loser: LoserFate::Dropped };
        match (wrong, decided) {
            (WrongRule::ArrivingCounts, Arrival::Conflict { loser, .. }) => {
                Arrival::Conflict { counts: Side::Arriving, loser }
            }
            (WrongRule::CurrentCounts, Arrival::Conflict { loser, .. }) => {
                Arrival::Conflict { counts: Side::Current, loser }
            }
            (WrongRule::NumbersOnly, Arrival::Conflict { .. } | Arrival::Merged(_)) => {
                if arriving.revision > current.revision { Arrival::Newer } else { Arrival::Known }
            }
            (WrongRule::LosersDropped, Arrival::Conflict { counts, .. }) => dropped(counts),
            (WrongRule::GreaterItems, Arrival::Conflict { counts, .. }) if is_between_edits => dropped(counts),
            (WrongRule::OwnMerges, Arrival::Merged(merged)) => {
                let tail = [to as u8; 8];
                let revision = Revision { id: RevisionId::new(merged.time, tail), ..merged.revision };
                Arrival::Merged(revision::Merged { revision, ..merged })
            }
            (WrongRule::DeletionsAlwaysCount, Arrival::Conflict { .. }) if !is_between_edits => dropped(deletion),
            (WrongRule::DeletionsWithoutAncestors, Arrival::Newer) if arriving.is_deletion => Arrival::Known,
            (WrongRule::TieByLocalClock, Arrival::Conflict { loser, .. }) if meeting.is_tie() => {
                let is_later = Timestamp(self.clocks[to]) > current.time;
                Arrival::Conflict { counts: if is_later { Side::Arriving } else { Side::Current }, loser }
            }
            (WrongRule::TieByNoteNumber, Arrival::Conflict { loser, .. }) if meeting.is_tie() => {
                let is_lower = self.numbers[from].get(&unid) < self.numbers[to].get(&unid);
                Arrival::Conflict { counts: if is_lower { Side::Arriving } else { Side::Current }, loser }
            }
            (WrongRule::MergeByNameOrder, Arrival::Merged(merged)) => {
                let first = if from < to { arriving } else { current };
                let is_greater = first.revision == current.revision.max(arriving.revision);
                let tail = merged.revision.id.tail().map(|byte| if is_greater { byte } else { !byte });
                let revision = first.revision.child(RevisionId::new(merged.time, tail));
                Arrival::Merged(revision::Merged { revision, ..merged })
            }
            (_, decided) => decided,
        }
    }

    fn keep(&mut self, replica: usize, note: Unid, loser: &Note, fate: LoserFate) {
        if fate == LoserFate::Dropped {
            return;
        }
        let mut unid = conflict_document_unid(note, loser.revision);
        if self.wrong == Some(WrongRule::OwnConflictDocuments) {
            unid.0[15] = replica as u8;
        }
        self.kept.entry(loser.revision).or_default().insert(unid);
        let first = Note::first(Revision::of_conflict_document(loser.revision, unid), loser.time, loser.items.clone());
        self.descend(first.revision, &[loser.revision]);
        let made = if fate == LoserFate::Restorable {
            self.restorable.extend(loser.items.iter().map(|item| item.value));
            let revision = first.revision.deleted_by_replicas();
            self.descend(revision, &[first.revision]);
            first.child(revision, Timestamp(first.time.0 + 1), Vec::new(), true)
        } else {
            first
        };
        self.arrive((replica, replica), unid, made);
    }

    /// Exchanges everything until nothing changes, and checks that all replicas are equal. All servers connect to all
    /// others, or only to their neighbors in a chain.
    fn settle(&mut self) {
        let is_chain = self.next.is_multiple_of(2);
        for _ in 0..20 {
            let before = self.replicas.clone();
            for from in 0..REPLICAS {
                for to in (0..REPLICAS).filter(|to| !is_chain || to.abs_diff(from) == 1) {
                    self.pull(from, to, None);
                }
            }
            if before == self.replicas {
                break;
            }
        }
        let states = |replica: &BTreeMap<Unid, Note>| {
            replica.iter().map(|(unid, note)| (*unid, format!("{note:?}"))).collect::<BTreeMap<_, _>>()
        };
        let first = states(&self.replicas[0]);
        for replica in &self.replicas[1..] {
            assert_eq!(states(replica), first, "the replicas are equal");
        }
    }

    /// Checks that every edit is in a document, can be restored, or was followed by an edit of the same item or a
    /// deletion whose author saw it.
    fn check_no_edit_is_lost(&self) {
        let visible: BTreeSet<u64> =
            self.replicas[0].values().flat_map(|note| note.items.iter().map(|item| item.value)).collect();
        for edit in &self.edits {
            let Some((name, Some(value))) = edit.written else { continue };
            let is_followed = self.edits.iter().any(|later| {
                let is_same_item = later.written.is_none_or(|(other, _)| other == name);
                is_same_item && self.true_ancestors[&later.revision].contains(&edit.revision)
            });
            assert!(
                visible.contains(&value) || self.restorable.contains(&value) || is_followed,
                "the value {value} of {name}, saved at {}, is lost",
                edit.revision
            );
        }
    }
}

impl World {
    /// Checks that no item has a value that somebody has seen and removed from this note.
    fn check_no_removal_is_undone(&self) {
        let saved_at: HashMap<u64, Revision> =
            self.edits.iter().filter_map(|edit| Some((edit.written?.1?, edit.revision))).collect();
        for note in self.replicas[0].values() {
            let past = self.true_ancestors.get(&note.revision).into_iter().flatten().chain([&note.revision]);
            let past: BTreeSet<Revision> = past.copied().collect();
            for removal in self.edits.iter().filter(|edit| past.contains(&edit.revision)) {
                let Some((name, None)) = removal.written else { continue };
                let seen = &self.true_ancestors[&removal.revision];
                for item in note.items.iter().filter(|item| item.name == name) {
                    assert!(!seen.contains(&saved_at[&item.value]), "{} of {name} is back", item.value);
                }
            }
        }
    }
}

fn check(edit_rule: EditRule, deletion_rule: DeletionRule, steps: &[Step]) {
    check_with(None, (edit_rule, deletion_rule), steps);
}

fn check_with(wrong: Option<WrongRule>, rules: (EditRule, DeletionRule), steps: &[Step]) {
    let mut world = World { wrong, ..World::new(rules.0, rules.1) };
    for step in steps {
        world.run(*step);
    }
    world.settle();
    world.check_no_edit_is_lost();
    world.check_no_removal_is_undone();
    for (both, merged) in &world.merges {
        assert_eq!(merged.len(), 1, "all replicas merge {both:?} alike");
    }
    for (loser, documents) in &world.kept {
        assert_eq!(documents.len(), 1, "the conflict that {loser} lost has one document on all replicas");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replicas_that_keep_both_versions_converge(steps in prop::collection::vec(step(), 1..80)) {
        check(EditRule::KeepBoth, DeletionRule::EditsCount, &steps);
    }

    #[test]
    fn replicas_of_one_note_converge(steps in prop::collection::vec(step_of_one_note(), 1..25)) {
        check(EditRule::KeepBoth, DeletionRule::EditsCount, &steps);
        check(EditRule::Merge, DeletionRule::DeletionsCount, &steps);
    }

    #[test]
    fn replicas_that_merge_converge(steps in prop::collection::vec(step(), 1..80)) {
        check(EditRule::Merge, DeletionRule::EditsCount, &steps);
    }

    #[test]
    fn replicas_on_which_deletions_count_converge(steps in prop::collection::vec(step(), 1..80)) {
        check(EditRule::Merge, DeletionRule::DeletionsCount, &steps);
        check(EditRule::KeepRestorable, DeletionRule::DeletionsCount, &steps);
    }
}

/// Maximum number of histories within which a wrong rule must be found.
const HISTORIES_MAX: u32 = 1_000;

#[test]
fn wrong_rules_are_found() {
    let keep = (EditRule::KeepBoth, DeletionRule::EditsCount);
    let merge = (EditRule::Merge, DeletionRule::EditsCount);
    for (wrong, rules) in [
        (WrongRule::ArrivingCounts, keep),
        (WrongRule::CurrentCounts, keep),
        (WrongRule::NumbersOnly, keep),
        (WrongRule::LosersDropped, keep),
        (WrongRule::OwnConflictDocuments, keep),
        (WrongRule::GreaterItems, merge),
        (WrongRule::OwnMerges, merge),
        (WrongRule::DeletionsAlwaysCount, keep),
        (WrongRule::DeletionsWithoutAncestors, keep),
        (WrongRule::TieByLocalClock, keep),
        (WrongRule::TieByNoteNumber, keep),
        (WrongRule::MergeByNameOrder, merge),
    ] {
        let config = ProptestConfig {
            cases: HISTORIES_MAX,
            failure_persistence: None,
            max_shrink_iters: 0,
            ..ProptestConfig::default()
        };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let histories =
            prop_oneof![prop::collection::vec(step(), 1..80), prop::collection::vec(step_of_one_note(), 1..25),];
        let outcome = runner.run(&histories, |steps| {
            check_with(Some(wrong), rules, &steps);
            Ok(())
        });
        assert!(outcome.is_err(), "{wrong:?} is not found");
    }
}
