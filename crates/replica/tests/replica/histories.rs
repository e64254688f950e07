//! Random histories of two replicas: one whose settings change, and a local replica of a person whose documents are
//! refused at times. Exchanges are cut at any answer, and what a person brings may arrive twice. When the faults end,
//! both must have the same documents, and every edit must be in a document, or deleted by somebody who saw it.
//!
//! Everything runs on one thread from one seed, which a failure names. Wrong rules show that the properties can fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::sim::SeededRandom;
use base::{Name, NoteId, Random, Unid};
use notes::instance::Position;
use notes::replica::ReplicaNote;
use notes::{Access, Identity, Item, ItemValue, NewNote, ReplicaSettings, ReplicationSettings, level};
use replica::{Answer, HeldBackNotes, PullStatistics, Question, answer_in_pages};

use crate::exchange::Server;
use crate::push::{Hub, begin};

/// Number of documents that are edited.
const DOCUMENTS: u64 = 6;

/// Number of things that happen in a history.
const STEPS: usize = 80;

/// Maximum number of rounds until nothing changes any more.
const ROUNDS_MAX: usize = 12;

/// The item whose number a formula selects.
const NUMBER: &str = "Number";

impl Server {
    fn unid(document: u64) -> Unid {
        Unid([document as u8 + 1; 16])
    }

    fn read<T>(&self, read: impl FnOnce(&notes::DatabaseSnapshot<'_>) -> notes::Result<T>) -> T {
        let itself = Arc::new(Identity::local_server(self.name.as_str()));
        let access: Access<level::Reader> = self.database.authorize(&itself).expect("the server may");
        access.read().and_then(|reading| read(&reading)).expect("a sound store")
    }

    /// Returns the note ID of a document that is not deleted.
    fn existing(&self, unid: Unid) -> Option<NoteId> {
        self.read(|reading| {
            let Some(note) = reading.find(unid)? else { return Ok(None) };
            Ok(reading.header(note)?.filter(|header| !header.is_stub()).map(|_| note))
        })
    }

    /// Saves a document with a further item that no other edit has, and with a number. Creates it if it does not exist.
    fn edit(&self, document: u64, value: u64, number: u64) {
        let unid = Self::unid(document);
        let added = [Item::summary(NUMBER, ItemValue::Number(number as f64)), Item::text(format!("V{value}"), "x")];
        let Some(note) = self.existing(unid) else {
            let new = NewNote { unid: Some(unid), ..NewNote::document(added.to_vec()) };
            self.write(|writer| writer.note_create(new));
            return;
        };
        self.write(|writer| {
            let stored = writer.note(note)?.expect("the note exists");
            let kept = stored.items.into_iter().filter(|item| !item.is_named(NUMBER));
            let items: Vec<Item> = kept.chain(added).collect();
            writer.note_update(note, stored.header.revision(), &items, &[])
        });
    }

    /// Deletes a document if it exists. Returns the edits in it.
    fn delete_seen(&self, document: u64) -> Vec<u64> {
        let Some(note) = self.existing(Self::unid(document)) else { return Vec::new() };
        self.write(|writer| {
            let seen = values_of(&writer.note(note)?.expect("the note exists").items);
            writer.note_delete(note).map(|_| seen)
        })
    }

    /// Returns the documents and deletion stubs. A document that was created again has another note than its stub.
    fn documents_and_stubs(&self) -> BTreeMap<Unid, ReplicaNote> {
        self.read(|reading| {
            let mut found = BTreeMap::new();
            for number in 1..reading.counters().next_note.0 {
                let Some(note) = reading.replica_note(NoteId(number))? else { continue };
                if note.class.is_document() {
                    found.insert(note.unid, note);
                }
            }
            Ok(found)
        })
    }

    /// Returns the documents that are not deleted.
    fn documents(&self) -> BTreeMap<Unid, ReplicaNote> {
        let mut found = self.documents_and_stubs();
        found.retain(|_, note| note.items.is_some());
        found
    }

    fn values(&self) -> BTreeSet<u64> {
        self.documents().values().filter_map(|note| note.items.as_deref()).flat_map(values_of).collect()
    }
}

/// Returns the values that edits have added to a document.
fn values_of(items: &[Item]) -> Vec<u64> {
    items.iter().filter_map(|item| item.name.strip_prefix('V')?.parse().ok()).collect()
}

/// Returns `true` if one version descends from the other, or both from a third one.
fn are_related(one: &ReplicaNote, other: &ReplicaNote) -> bool {
    let revisions = |note: &ReplicaNote| -> BTreeSet<_> {
        let ancestors = note.record.ancestors.list().iter().map(|ancestor| ancestor.revision);
        ancestors.chain([note.revision]).collect()
    };
    !revisions(one).is_disjoint(&revisions(other))
}

fn number_of(note: &ReplicaNote) -> f64 {
    let item = note.items.iter().flatten().find(|item| item.is_named(NUMBER));
    item.and_then(|item| item.value.number()).unwrap_or(0.0)
}

/// A rule that is wrong, to show that the properties find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// Documents that are not selected are not updated where they exist already.
    OnlySelectedAreUpdated,
    /// Documents that are not selected arrive.
    NothingIsLeftOut,
    /// The position of a replica counts although other documents are selected now.
    PositionOutlivesSettings,
    /// The server says that it has a document that it refuses.
    RefusedCountAsBrought,
    /// The folder is not locked while it replicates: what is changed after the push counts as brought.
    ChangedWhileReplicating,
}

/// The hub, another replica, and what was done.
struct History {
    seed: u64,
    hub: Server,
    other: Server,
    random: SeededRandom,
    wrong: Option<Wrong>,
    next_value: u64,
    edits: BTreeSet<u64>,
    deleted: BTreeSet<u64>,
    /// The numbers that the formula of the other replica selects: all, up to 4, or from 5 on.
    selected: Selected,
    /// The position that the other replica had after its last complete pull.
    reached: Option<Position>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Selected {
    All,
    Low,
    High,
    Recent,
}

impl Selected {
    fn settings(self) -> ReplicationSettings {
        let formula = match self {
            Self::All | Self::Recent => "",
            Self::Low => "SELECT Number <= 4",
            Self::High => "SELECT Number > 4",
        };
        let cut_off_days = (self == Self::Recent).then_some(1);
        ReplicationSettings { formula: formula.to_owned(), cut_off_days, ..ReplicationSettings::default() }
    }

    fn selects(self, number: f64) -> bool {
        match self {
            Self::All | Self::Recent => true,
            Self::Low => number <= 4.0,
            Self::High => number > 4.0,
        }
    }
}

impl History {
    fn new(seed: u64, wrong: Option<Wrong>) -> Self {
        Self {
            seed,
            hub: Server::new(1),
            other: Server::new(2),
            random: SeededRandom::new(seed ^ 0x0415),
            wrong,
            next_value: 0,
            edits: BTreeSet::new(),
            deleted: BTreeSet::new(),
            selected: Selected::All,
            reached: None,
        }
    }

    /// Edits or deletes a document of one of the replicas, or lets time pass.
    fn change(&mut self) {
        let document = self.random.below(DOCUMENTS);
        let server = if self.random.below(2) == 0 { &self.hub } else { &self.other };
        match self.random.below(12) {
            0 => self.deleted.extend(server.delete_seen(document)),
            // The clocks go alike: a server refuses documents that a person has saved in its future.
            1 => {
                let time = Duration::from_secs(self.random.below(2 * 86_400));
                [&self.hub, &self.other].iter().for_each(|server| server.clock.advance(time));
            }
            _ => {
                self.next_value += 1;
                server.edit(document, self.next_value, self.random.below(10));
                self.edits.insert(self.next_value);
            }
        }
    }

    /// Returns the number of answers after which an exchange is cut.
    fn cut(&self) -> usize {
        if self.random.below(3) == 0 { self.random.below(6) as usize } else { usize::MAX }
    }

    /// Lets the other replica pull from the hub. Returns `None` if that is cut.
    fn pull(&mut self, answers_max: usize) -> Option<PullStatistics> {
        let mut pull = self.other.begin(&self.hub, HeldBackNotes::Left);
        let mut answers = 0;
        while let Some((number, mut question)) = pull.question() {
            if answers == answers_max {
                return None;
            }
            answers += 1;
            if let Question::Changes { after: after @ None, progress: None, .. } = &mut question
                && self.wrong == Some(Wrong::PositionOutlivesSettings)
            {
                *after = self.reached;
            }
            let mut answer = self.hub.try_answer(&self.other, &question).expect("a sound store");
            if let Answer::Changes(page) = &mut answer {
                match self.wrong {
                    Some(Wrong::OnlySelectedAreUpdated) => page.notes.retain(|note| !note.is_unselected),
                    Some(Wrong::NothingIsLeftOut) => page.notes.iter_mut().for_each(|note| note.is_unselected = false),
                    _ => {}
                }
                if page.is_last {
                    self.reached = Some(page.position);
                }
            }
            pull.take(number, answer).expect("a sound store");
        }
        Some(pull.statistics())
    }

    /// Pulls, and checks that the settings decide about documents that the replica lacks and about no others. A replica
    /// that has the deletion stub of a document does not lack it.
    ///
    /// A document may have been created in both replicas, and left out here before. The other version then arrives with
    /// its next change.
    fn pull_selected(&mut self, answers_max: usize) {
        let before = self.other.documents_and_stubs();
        if self.pull(answers_max).is_none() {
            return;
        }
        let seed = self.seed;
        let ours = self.other.documents();
        // The version that loses a conflict is in a document of its own.
        let values = self.other.values();
        for (unid, note) in self.hub.documents() {
            if before.get(&unid).is_some_and(|before| are_related(before, &note)) {
                let is_missing = |value: &u64| !values.contains(value) && !self.deleted.contains(value);
                let missing = note.items.iter().flat_map(|items| values_of(items)).find(is_missing);
                assert_eq!(missing, None, "seed {seed}: {unid} is not up to date");
            }
            let has_come = !before.contains_key(&unid) && ours.contains_key(&unid);
            if has_come && !note.is_conflict {
                let number = number_of(&note);
                assert!(self.selected.selects(number), "seed {seed}: {unid} with {number} is not selected");
            }
        }
    }

    fn select(&mut self, selected: Selected) {
        self.selected = selected;
        let server = Name::new(&self.other.name);
        let settings = ReplicaSettings { server, other: None, settings: selected.settings() };
        self.other.write(|writer| writer.replication_settings_set(&settings));
    }

    /// Lets the hub pull from the other replica.
    fn pull_back(&self, answers_max: usize) {
        let mut pull = self.hub.begin(&self.other, HeldBackNotes::Left);
        for _ in 0..answers_max {
            let Some((number, question)) = pull.question() else { return };
            pull.take(number, self.other.try_answer(&self.hub, &question).expect("a sound store")).expect("sound");
        }
    }

    /// Lets the local replica bring its changes and pull, like `doublet --local DIR replicate`.
    fn replicate(&mut self, refused: Option<Unid>, calls_max: usize) {
        let mut push = begin(&self.other, &self.hub);
        let lies = self.wrong == Some(Wrong::RefusedCountAsBrought);
        let mut target = Hub::new(&self.hub);
        target.calls_left = calls_max;
        target.refused = refused;
        target.lies = lies;
        target.repeats = self.random.below(2) == 0;
        if push.run(&mut target).is_err() {
            return;
        }
        if self.wrong == Some(Wrong::ChangedWhileReplicating) {
            self.change();
        }
        let Some(pulled) = self.pull_as_ann(self.cut()) else { return };
        if pulled.merged == 0 && pulled.conflicts == 0 {
            push.skip_received().expect("a sound store");
        }
    }

    /// Pulls with the rights of Ann, who reads the hub.
    fn pull_as_ann(&self, answers_max: usize) -> Option<PullStatistics> {
        let mut pull = self.other.begin(&self.hub, HeldBackNotes::Left);
        let mut answers = 0;
        while let Some((number, question)) = pull.question() {
            if answers == answers_max {
                return None;
            }
            answers += 1;
            let access: Access<level::Reader> = self.hub.database.authorize(&self.hub.ann()).expect("Ann may");
            let reading = access.read().expect("a snapshot");
            let answer = answer_in_pages(&reading, &question, 3, &ReplicationSettings::default());
            pull.take(number, answer.expect("a sound store")).expect("a sound store");
        }
        Some(pull.statistics())
    }

    /// Repeats an exchange until it changes nothing.
    fn settle(&mut self, exchange: impl Fn(&mut Self)) {
        for _ in 0..ROUNDS_MAX {
            let before = (self.hub.documents(), self.other.documents());
            exchange(self);
            if before == (self.hub.documents(), self.other.documents()) {
                return;
            }
        }
        panic!("seed {}: the replicas do not settle", self.seed);
    }

    /// Checks that both replicas have the same documents. A local replica may keep conflict documents of its own, which
    /// are those of refused edits.
    fn check_equal(&self, keeps_conflicts: bool) {
        let ours = self.other.documents();
        let theirs = self.hub.documents();
        for (unid, note) in &theirs {
            let found = ours.get(unid).map(|note| (note.revision, &note.items));
            assert_eq!(found, Some((note.revision, &note.items)), "seed {}: {unid}", self.seed);
        }
        let is_kept = |note: &ReplicaNote| keeps_conflicts && note.is_conflict;
        let only_here = ours.iter().find(|(unid, note)| !(theirs.contains_key(unid) || is_kept(note)));
        assert!(only_here.is_none(), "seed {}: {only_here:?} is only here", self.seed);
    }

    fn check_edits(&self) {
        let found: BTreeSet<u64> = self.hub.values().union(&self.other.values()).copied().collect();
        let lost: Vec<_> = self.edits.difference(&found).filter(|value| !self.deleted.contains(value)).collect();
        assert!(lost.is_empty(), "seed {}: the edits {lost:?} are lost", self.seed);
    }
}

/// Two servers, of which one selects documents, and changes what it selects.
fn run_settings(seed: u64, wrong: Option<Wrong>) -> usize {
    let mut history = History::new(seed, wrong);
    let mut left_out = 0;
    for _ in 0..STEPS {
        match history.random.below(10) {
            0 => {
                let all = [Selected::All, Selected::Low, Selected::High, Selected::Recent];
                history.select(all[history.random.below(4) as usize]);
            }
            1 | 2 => {
                history.pull_selected(history.cut());
                left_out += usize::from(history.other.documents().len() < history.hub.documents().len());
            }
            3 => history.pull_back(history.cut()),
            _ => history.change(),
        }
    }
    history.select(Selected::All);
    history.settle(|history| {
        history.pull_selected(usize::MAX);
        history.pull_back(usize::MAX);
    });
    history.check_equal(false);
    history.check_edits();
    left_out
}

/// A person's replica, whose documents the server refuses at times. Returns how many were refused.
fn run_local(seed: u64, wrong: Option<Wrong>) -> usize {
    let mut history = History::new(seed, wrong);
    let mut refused = 0;
    // The replica is new, so it only pulls.
    let push = begin(&history.other, &history.hub);
    history.pull_as_ann(usize::MAX).expect("it is not cut");
    push.skip_received().expect("a sound store");
    for _ in 0..STEPS {
        if history.random.below(5) > 0 {
            history.change();
            continue;
        }
        let document = history.random.below(2 * DOCUMENTS);
        let is_refused = document < DOCUMENTS;
        refused += usize::from(is_refused);
        history.replicate(is_refused.then(|| Server::unid(document)), history.cut());
    }
    // The end has no faults, and nothing is changed meanwhile.
    history.wrong = history.wrong.filter(|wrong| *wrong != Wrong::ChangedWhileReplicating);
    history.settle(|history| {
        history.replicate(None, usize::MAX);
        history.pull_as_ann(usize::MAX);
    });
    history.check_equal(true);
    history.check_edits();
    refused
}

/// Returns the number of seeds: more if `DOUBLET_SOAK` is set.
fn seeds() -> u64 {
    if std::env::var_os("DOUBLET_SOAK").is_some() { 5_000 } else { 300 }
}

#[test]
fn replicas_with_settings_get_what_they_select_and_become_equal() {
    let left_out: usize = (0..seeds()).map(|seed| run_settings(seed, None)).sum();
    assert!(left_out > 100, "the settings have left out documents in {left_out} pulls only");
}

#[test]
fn local_replica_brings_its_changes_and_becomes_equal() {
    let refused: usize = (0..seeds()).map(|seed| run_local(seed, None)).sum();
    assert!(refused > 100, "only {refused} documents were refused");
}

#[test]
fn wrong_rules_of_settings_and_of_local_replicas_are_found() {
    type Run = fn(u64, Option<Wrong>) -> usize;
    let all: [(Wrong, Run); 5] = [
        (Wrong::OnlySelectedAreUpdated, run_settings),
        (Wrong::NothingIsLeftOut, run_settings),
        (Wrong::PositionOutlivesSettings, run_settings),
        (Wrong::RefusedCountAsBrought, run_local),
        (Wrong::ChangedWhileReplicating, run_local),
    ];
    for (wrong, run) in all {
        let is_found = |seed: &u64| std::panic::catch_unwind(|| run(*seed, Some(wrong))).is_err();
        let found = (0..1_000).find(is_found);
        println!("{wrong:?}: seed {found:?}");
        assert!(found.is_some(), "{wrong:?} is not found");
    }
}
