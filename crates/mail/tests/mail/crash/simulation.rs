//! A simulation of the mail server in one thread: operations, syncs, crashes, full disks and failing syncs, in an order
//! drawn from a seed.
//!
//! Every batch that reaches the engine has a number. The simulation stores the state after each operation under the
//! number of its last batch. It also tracks the last batch that was acknowledged. A crash keeps a prefix of the batches
//! that contains at least the acknowledged ones. The state found afterwards must be exactly the state of the last batch
//! that was kept.

use std::sync::Arc;
use std::time::Duration;

use mail::router::{DeliveryJob, Destination, TransferOutcome};
use notes::{Access, Identity, level};

use super::files::{FileOperation, Model};
use super::generate::OperationGenerator;
use super::invariants::{assert_blobs, assert_changes, assert_databases_consistent};
use super::queue::{Conditions, QueueOperation};
use super::seeds::each_seed;
use super::state::{State, continuity, difference, observe};
use super::world::{SyncTiming, World, local};

/// Names of all users that can have a mail file.
const NAMES: [&str; 5] = ["ann", "bob", "cy", "tiny", "small"];

/// An operation of the simulation.
#[derive(Clone, Debug)]
enum Operation {
    File { path: String, operation: FileOperation },
    Queue(QueueOperation),
    Purge { path: String },
    Collect { budget: usize },
    DeleteFile { path: String },
}

/// An operation with the states before and after it.
struct Step {
    /// The first batch of the operation.
    first: u64,
    /// The last batch of the operation. It is smaller than `first` if the operation wrote nothing.
    last: u64,
    /// The operation.
    operation: Operation,
    given: Conditions,
    before: State,
    /// The state after the operation. `None` if the store failed during the operation.
    after: Option<State>,
}

struct Simulation {
    world: World,
    dice: OperationGenerator,
    syncing: SyncTiming,
    /// The current state of the world, as last observed.
    state: State,
    /// The state after the last crash and the number of its last batch.
    base: (u64, State),
    steps: Vec<Step>,
    /// The last batch that was acknowledged as durable.
    acknowledged: u64,
    /// The jobs in progress.
    jobs: Vec<DeliveryJob>,
    /// The outcomes of a job that could not be written.
    unwritten: Option<(DeliveryJob, Vec<TransferOutcome>)>,
}

#[test]
fn crash_keeps_a_prefix_of_the_operations() {
    each_seed("crash_keeps_a_prefix_of_the_operations", 200, 4_000, |seed| simulate(seed, SyncTiming::Late));
}

#[test]
fn acknowledged_writes_survive_a_crash() {
    each_seed("acknowledged_writes_survive_a_crash", 100, 2_000, |seed| simulate(seed, SyncTiming::Each));
}

#[test]
fn acknowledged_group_writes_survive_a_crash() {
    each_seed("acknowledged_group_writes_survive_a_crash", 100, 2_000, |seed| simulate(seed, SyncTiming::Group));
}

fn simulate(seed: u64, syncing: SyncTiming) {
    let mut simulation = Simulation::start(seed, syncing);
    for _ in 0..40 + simulation.dice.below(40) {
        simulation.step();
    }
    simulation.crash();
    assert_blobs(&simulation.world);
    assert_databases_consistent(&simulation.world);
}

impl Operation {
    fn perform(&self, world: &World, before: &State) -> mail::Result<()> {
        match self {
            Self::File { path, operation } => operation.perform(world, path, &before.files[path]),
            Self::Queue(operation) => operation.perform(world),
            Self::Purge { path } => {
                let database = world.databases().database_open(path)?;
                Ok(notes::purge::purge(&database).map(drop)?)
            }
            Self::Collect { budget } => {
                Ok(world.store().blobs().collect(world.store(), world.now(), *budget).map(drop)?)
            }
            Self::DeleteFile { path } => {
                let database = world.databases().database_open(path)?;
                let itself = Arc::new(Identity::local_server(""));
                let access: Access<level::Manager> = database.authorize(&itself)?;
                Ok(world.databases().database_delete(&access)?)
            }
        }
    }

    /// Checks the state after the operation. Returns a description of the error.
    fn check(&self, before: &State, after: &State, given: Conditions) -> Result<(), String> {
        let mut expected = before.clone();
        match self {
            Self::Queue(operation) => return operation.check(before, after, given),
            Self::File { path, operation } => {
                let model = operation.predict(&before.files[path], given.now);
                let found = after.files.get(path).ok_or("the file is gone")?;
                if model != Model::from_file(found) {
                    return Err(format!("{path} is {:?}\ninstead of {model:?}", Model::from_file(found)));
                }
                expected.files.insert(path.clone(), Arc::clone(found));
            }
            Self::Purge { .. } | Self::Collect { .. } => {}
            Self::DeleteFile { path } => drop(expected.files.remove(path)),
        }
        difference(&expected, after).map_or(Ok(()), Err)
    }

    /// Returns `true` if a state may be found after only some of the operation's transactions.
    fn may_stop_at(&self, before: &State, found: &State) -> bool {
        match self {
            Self::Queue(operation) => operation.may_stop_at(before, found),
            Self::File { path, operation } => {
                let Some(stopped) = found.files.get(path) else { return false };
                let mut expected = before.clone();
                expected.files.insert(path.clone(), Arc::clone(stopped));
                expected == *found && operation.may_stop_at(&before.files[path], stopped)
            }
            Self::Purge { .. } | Self::Collect { .. } | Self::DeleteFile { .. } => false,
        }
    }

    /// Returns `true` if the operation may be refused because of its arguments.
    fn is_refused(&self, before: &State) -> bool {
        match self {
            Self::File { path, operation } => operation.is_refused(&before.files[path]),
            Self::Queue(QueueOperation::Accept { .. }) => false,
            // The message may have been removed in the meantime.
            Self::Queue(QueueOperation::DeliverHere { job }) => !before.queue.contains_key(&job.key),
            Self::Queue(_) | Self::Purge { .. } | Self::Collect { .. } | Self::DeleteFile { .. } => false,
        }
    }

    /// Returns `true` if the operation waits until its writes are durable.
    fn waits(&self, before: &State) -> bool {
        match self {
            Self::File { operation, .. } => operation.waits(),
            Self::Queue(_) => before.files.len() < NAMES.len(),
            Self::Collect { .. } => false,
            Self::Purge { .. } | Self::DeleteFile { .. } => true,
        }
    }
}

fn is_over_quota(error: &mail::Error) -> bool {
    matches!(error, mail::Error::OverQuota { .. })
}

fn is_full(error: &mail::Error) -> bool {
    matches!(error, mail::Error::Notes(notes::Error::Store(store::Error::Full(_))))
}

fn is_poisoned(error: &mail::Error) -> bool {
    matches!(error, mail::Error::Notes(notes::Error::Store(store::Error::Poisoned(_))))
}

impl Simulation {
    fn start(seed: u64, syncing: SyncTiming) -> Self {
        let world = World::new(seed, syncing);
        for name in ["ann", "bob", "tiny"] {
            let mailbox = local(name);
            world
                .mail
                .create(&mailbox.mail_file, name, &mailbox.owner, mailbox.quota_bytes)
                .expect("the mail file is created");
        }
        world.sync_all().expect("nothing fails yet");
        let state = observe(&world, &State::default()).expect("the state can be read");
        let written = world.written();
        let base = (written, state.clone());
        let dice = OperationGenerator::new(seed);
        Self {
            world,
            dice,
            syncing,
            state,
            base,
            steps: Vec::new(),
            acknowledged: written,
            jobs: Vec::new(),
            unwritten: None,
        }
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..=69 => self.operate(false),
            70..=79 => self.settle(),
            80..=86 => self.pass_time(),
            87..=89 => self.operate(true),
            90..=92 => self.fail(),
            93..=94 => assert_databases_consistent(&self.world),
            _ => self.crash(),
        }
    }

    fn pass_time(&mut self) {
        let minutes = *self.dice.pick(&[1, 1, 7, 7, 70, 400, 9_000, 150_000]);
        self.world.clock.advance(Duration::from_secs(60 * self.dice.below(minutes)));
    }

    fn settle(&mut self) {
        self.world.sync_all().expect("the disk is sound");
        self.acknowledged = self.world.written();
    }

    /// Runs one operation, on a full disk if `full` is set.
    fn operate(&mut self, full: bool) {
        // This is decided before the operation is drawn. Drawing clears `unwritten`, and the outcomes would meet a full
        // disk again.
        let full = full && self.unwritten.is_none();
        let operation = self.draw();
        if full {
            let figures = store::Engine::metrics(self.world.memory.as_ref());
            let written = figures.iter().find(|(name, _)| name == "written-bytes").expect("it is counted").1;
            self.world.memory.faults().set_capacity(written + self.dice.below(6_000));
        }
        let mut step = self.begin(operation, full);
        let outcome = self.perform(&step);
        self.world.memory.faults().free_disk();
        let after = observe(&self.world, &step.before).expect("the state can be read");
        step.last = self.world.written();
        match outcome {
            Ok(()) => step.assert_done(&after),
            Err(error) => {
                step.assert_refused(&error, &after);
                if let Operation::Queue(QueueOperation::Finish { job, outcomes }) = &step.operation {
                    self.unwritten = Some((job.clone(), outcomes.clone()));
                }
            }
        }
        continuity(&step.before, &after).unwrap_or_else(|error| panic!("{error}\nafter {:?}", step.operation));
        step.after = Some(after.clone());
        self.state = after;
        if self.syncing == SyncTiming::Each || step.operation.waits(&step.before) {
            self.settle();
        }
        self.steps.push(step);
    }

    /// Makes the store fail during an operation. Afterwards nothing is written, reading must not panic, and a crash
    /// follows.
    fn fail(&mut self) {
        if self.syncing == SyncTiming::Late {
            return;
        }
        let operation = self.draw();
        let mut step = self.begin(operation, false);
        if self.dice.chance(50) {
            self.world.memory.faults().fail_next_sync();
        } else {
            self.world.memory.faults().fail_writes(1_000);
        }
        let outcome = self.perform(&step).and_then(|()| Ok(self.world.sync_all()?));
        step.last = self.world.written();
        let failed = outcome.is_err();
        self.steps.push(step);
        if failed && self.world.store().committer().poison_reason().is_some() {
            self.assert_poisoned();
        }
        self.world.memory.faults().fail_writes(0);
        self.crash();
    }

    fn assert_poisoned(&self) {
        let operation = FileOperation::Create { name: "Never".into(), special: None };
        for (path, file) in self.state.files.iter().take(1) {
            let error = operation.perform(&self.world, path, file).expect_err("nothing is written any more");
            assert!(is_poisoned(&error), "{error:?}");
            assert!(error.to_string().contains("refuses writes"), "the error names the remedy: {error}");
        }
        // Reading may be refused, because visible data may not be durable. It must not panic.
        if let Err(error) = observe(&self.world, &State::default()) {
            assert!(is_poisoned(&error), "{error:?}");
        }
    }

    fn begin(&self, operation: Operation, disk_full: bool) -> Step {
        let given = Conditions { now: self.world.now(), disk_full };
        let first = self.world.written() + 1;
        Step { first, last: first - 1, operation, given, before: self.state.clone(), after: None }
    }

    fn perform(&self, step: &Step) -> mail::Result<()> {
        if !step.operation.waits(&step.before) {
            self.world.block_syncs();
        } else {
            self.world.allow_syncs();
        }
        step.operation.perform(&self.world, &step.before)
    }

    /// Cuts the power, opens the disk as the crash left it, and compares the state.
    fn crash(&mut self) {
        let world = self.world.crashed();
        let kept = world.memory.sequences().0;
        assert!(kept >= self.acknowledged, "batch {} was acknowledged, {kept} are left", self.acknowledged);
        let found = observe(&world, &State::default()).expect("what a crash leaves can be read");
        self.assert_state_of_batch(kept, &found);
        assert_databases_consistent(&world);
        if let Some(old) = self.dice.pick_of(self.states_until(kept)) {
            assert_changes(&world, old, &found);
        }
        if self.dice.chance(30) {
            assert_blobs(&world);
        }
        self.world = world;
        self.steps.clear();
        self.jobs.clear();
        self.unwritten = None;
        self.settle();
        self.base = (self.world.written(), found.clone());
        self.state = found;
    }

    fn states_until(&self, kept: u64) -> impl Iterator<Item = &State> {
        let steps = self.steps.iter().filter(move |step| step.last <= kept);
        steps.filter_map(|step| step.after.as_ref()).chain([&self.base.1])
    }

    /// Asserts that a state is the one that belongs to a batch.
    fn assert_state_of_batch(&self, kept: u64, found: &State) {
        if let Some(step) = self.steps.iter().find(|step| (step.first..=step.last).contains(&kept))
            && (kept < step.last || step.after.is_none())
        {
            let done = || step.operation.check(&step.before, found, step.given);
            let stopped = step.before == *found || step.operation.may_stop_at(&step.before, found);
            assert!(stopped || done().is_ok(), "half of {:?}: {:?}", step.operation, done());
            return continuity(&step.before, found).unwrap_or_else(|error| panic!("{error}"));
        }
        let settled = self.steps.iter().rev().filter(|step| step.last <= kept);
        let expected = settled.filter_map(|step| step.after.as_ref()).next().unwrap_or(&self.base.1);
        if let Some(difference) = difference(expected, found) {
            panic!("after batch {kept} (acknowledged: {}):\n{difference}", self.acknowledged);
        }
    }

    fn draw(&mut self) -> Operation {
        let path = self.dice.path(&self.state);
        match (self.dice.below(100), path) {
            (0..=54, Some(path)) => {
                let file = Arc::clone(&self.state.files[&path]);
                let operation = self.dice.file_operation(&file, self.world.now());
                Operation::File { path, operation }
            }
            (55..=58, Some(path)) => Operation::Purge { path },
            (59..=60, Some(path)) => Operation::DeleteFile { path },
            (61..=64, _) => Operation::Collect { budget: self.dice.below(40) as usize },
            (65..=84, _) => Operation::Queue(self.job().unwrap_or_else(|| self.accept())),
            (85..=88, _) => Operation::Queue(self.operator().unwrap_or_else(|| self.accept())),
            _ => Operation::Queue(self.accept()),
        }
    }

    fn accept(&mut self) -> QueueOperation {
        let (envelope, content) = self.dice.envelope();
        QueueOperation::Accept { envelope, content }
    }

    /// Takes the due jobs and draws an operation that finishes one of the jobs in progress.
    fn job(&mut self) -> Option<QueueOperation> {
        if let Some((job, outcomes)) = self.unwritten.take() {
            return Some(QueueOperation::WritePending { job, outcomes });
        }
        for job in self.world.router.take_due_jobs(3) {
            let twice = self.jobs.iter().any(|other| other.key == job.key && other.destination == job.destination);
            assert!(!twice, "a job is given out once");
            self.jobs.push(job);
        }
        if self.jobs.is_empty() {
            return None;
        }
        let job = self.jobs.swap_remove(self.dice.below(self.jobs.len() as u64) as usize);
        if job.destination == Destination::Local {
            return Some(QueueOperation::DeliverHere { job });
        }
        let outcomes = job.recipients.iter().map(|_| self.dice.outcome()).collect();
        Some(QueueOperation::Finish { job, outcomes })
    }

    fn operator(&mut self) -> Option<QueueOperation> {
        let key = self.dice.pick_of(self.state.queue.keys().copied())?;
        Some(match self.dice.below(4) {
            0 => QueueOperation::Hold { key },
            1 => QueueOperation::Release { key },
            2 => QueueOperation::Retry { key },
            _ => QueueOperation::Remove { key },
        })
    }
}

impl Step {
    fn assert_done(&self, after: &State) {
        assert!(!self.operation.is_refused(&self.before), "must be refused: {:?}", self.operation);
        let check = self.operation.check(&self.before, after, self.given);
        check.unwrap_or_else(|error| panic!("{error}\nafter {:?}", self.operation));
    }

    /// Asserts that the refusal had a reason, and that the state is unchanged or one that a crash could have left.
    fn assert_refused(&self, error: &mail::Error, after: &State) {
        let quota = matches!(&self.operation, Operation::File { operation, .. } if operation.takes_room());
        let excused = self.operation.is_refused(&self.before)
            || (quota && is_over_quota(error))
            || (self.given.disk_full && is_full(error));
        assert!(excused, "{error:?} from {:?}", self.operation);
        if self.operation.may_stop_at(&self.before, after) {
            return;
        }
        if let Some(difference) = difference(&self.before, after) {
            panic!("{error} and yet:\n{difference}\nafter {:?}", self.operation);
        }
    }
}
