//! User classes and their steps.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::action::{self, Action, References};
use super::limits::{CLASSES_MAX, EVERY_MAX, REPETITIONS_MAX, STEPS_MAX, USERS_MAX};
use super::table::Table;
use super::units::{Share, Spread, format_duration, format_integer};
use super::verb::{STEP_VERBS, Verb};

/// Keys of a class.
pub const KEYS: &[&str] = &["name", "share", "users", "database", "replica", "iteration", "jitter", "pause", "step"];
/// Keys that every step has.
pub const STEP_KEYS: &[&str] = &["verb", "count", "every", "phase", "group", "pause"];

/// Difference from 1 that the shares of the classes may add up to, in millionths.
const SHARES_DIFFERENCE_MAX: u32 = 1;
/// Shortest iteration in microseconds.
const ITERATION_US_MIN: u64 = 1_000;

/// Users who perform the same steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Class {
    /// The name.
    pub name: String,
    /// The users of the class.
    pub members: Members,
    /// The kind of database where the steps work, or `None` for the own mail file.
    pub database: Option<String>,
    /// Where the mail file is.
    pub replica: Replica,
    /// When its steps are due.
    pub rhythm: Rhythm,
    /// The steps that are performed at least once, in the order of the file.
    pub steps: Vec<Step>,
}

/// The users of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Members {
    /// A share of the users that are not in classes with a fixed number.
    Share(Share),
    /// A fixed number, in addition to `--users`.
    Users(u64),
}

/// The place of a mail file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Replica {
    /// On the server.
    None,
    /// In the driver: reads and changes make no calls until `replicate`.
    Local,
}

/// The iterations of a class, and the pauses in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rhythm {
    /// From the beginning of one iteration to that of the next, or `None` if the workload is unpaced.
    pub iteration_us: Option<u64>,
    /// The range after its place on the timetable in which an iteration begins.
    pub jitter_us: u64,
    /// The pause before each repetition, unless the step says otherwise.
    pub pause: Spread,
}

/// A step of an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The number of the step in the file, from 0. It is a part of the keys of draws.
    pub number: u64,
    /// What the user does.
    pub verb: Verb,
    /// Repetitions in an iteration, at least 1.
    pub count: u64,
    /// The step is performed in every n-th iteration.
    pub every: u64,
    /// Which of these iterations is the first.
    pub phase: Phase,
    /// The pause before each repetition.
    pub pause: Spread,
    /// The keys of the verb.
    #[serde(flatten)]
    pub action: Action,
}

/// The first iteration of a step with `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The iteration of this number, for every user.
    Fixed(u64),
    /// Drawn for each user, by the number of the step, or of the first step of its group.
    Drawn(u64),
}

/// What classes inherit from the file.
pub struct Defaults<'a> {
    /// The iterations and pauses of the file.
    pub rhythm: Rhythm,
    /// What steps refer to.
    pub references: References<'a>,
}

const REPLICAS: &[(&str, Replica)] = &[("none", Replica::None), ("local", Replica::Local)];

/// Reads the classes of a file.
pub fn read_all(file: &Table<'_>, defaults: &Defaults<'_>) -> Vec<Class> {
    if file.has("step") {
        file.forbid("class", "together with step");
        let members = Members::Share(Share::ALL);
        let steps = read_steps(file, defaults);
        let name = "users".to_owned();
        let class = Class { name, members, database: None, replica: Replica::None, rhythm: defaults.rhythm, steps };
        if !file.reader().has_findings() {
            check_steps(file, &class);
        }
        return vec![class];
    }
    file.require("class");
    let mut tables = file.tables("class", "class", CLASSES_MAX);
    let mut names = BTreeSet::new();
    let mut classes = Vec::new();
    for table in &mut tables {
        table.check_keys(KEYS);
        table.require("name");
        table.require("step");
        let class = read(table, defaults);
        if !names.insert(class.name.clone()) {
            table.refuse("name", "there is another class of this name");
        }
        classes.push(class);
    }
    if !file.reader().has_findings() {
        distribute_rest(file, &tables, &mut classes);
        tables.iter().zip(&classes).for_each(|(table, class)| check_steps(table, class));
    }
    classes
}

/// Assigns what the shares of the classes leave to the class without a share. Reports shares that cannot be
/// distributed.
fn distribute_rest(file: &Table<'_>, tables: &[Table<'_>], classes: &mut [Class]) {
    let of = |class: &Class| match class.members {
        Members::Share(share) => share.millionths(),
        Members::Users(_) => 0,
    };
    let all = Share::ALL.millionths();
    let sum: u32 = classes.iter().map(of).sum();
    let of_classes = format!("the shares of the classes add up to {}", f64::from(sum) / 1e6);
    let takes_rest = |table: &Table<'_>| !table.has("share") && !table.has("users");
    let mut without = tables.iter().zip(classes).filter(|(table, _)| takes_rest(table)).map(|(_, class)| class);
    match (without.next(), without.next()) {
        (Some(_), Some(_)) => file.refuse("class", "more than one class has neither share nor users"),
        _ if sum > all + SHARES_DIFFERENCE_MAX => file.refuse("class", format!("{of_classes}, which is more than 1")),
        (Some(class), None) => {
            class.members = Members::Share(Share::from_millionths(all.saturating_sub(sum)).unwrap_or_default());
        }
        _ if sum + SHARES_DIFFERENCE_MAX < all && !tables.is_empty() => {
            file.refuse("class", format!("{of_classes}, and no class without a share takes the rest"));
        }
        _ => {}
    }
}

fn read(table: &Table<'_>, defaults: &Defaults<'_>) -> Class {
    let share = table.share("share");
    let users = table.integer("users", 0..=USERS_MAX);
    if table.has("users") {
        table.forbid("share", "together with users");
    }
    let members = match (users, share) {
        (Some(users), _) => Members::Users(users),
        (None, Some(share)) => Members::Share(share),
        (None, None) => Members::Share(Share::default()),
    };
    let rhythm = read_rhythm(table, defaults.rhythm);
    let inner = Defaults { rhythm, references: References { ..defaults.references } };
    Class {
        name: table.name("name").unwrap_or_default(),
        members,
        database: table.reference("database", defaults.references.databases),
        replica: table.choice("replica", REPLICAS).unwrap_or(Replica::None),
        rhythm,
        steps: read_steps(table, &inner),
    }
}

/// Reads `iteration`, `jitter` and `pause` of a file or class. Unpaced workloads have none of them.
pub fn read_rhythm(table: &Table<'_>, inherited: Rhythm) -> Rhythm {
    if inherited.iteration_us.is_none() {
        ["iteration", "jitter", "pause"].iter().for_each(|key| table.forbid(key, "with pace = \"unpaced\""));
        return inherited;
    }
    Rhythm {
        iteration_us: table.duration("iteration", ITERATION_US_MIN).or(inherited.iteration_us),
        jitter_us: table.duration("jitter", 0).unwrap_or(inherited.jitter_us),
        pause: table.spread("pause").unwrap_or(inherited.pause),
    }
}

fn read_steps(class: &Table<'_>, defaults: &Defaults<'_>) -> Vec<Step> {
    let mut groups = BTreeMap::new();
    let mut steps = Vec::new();
    for (number, table) in (0..).zip(&mut class.tables("step", "step", STEPS_MAX)) {
        steps.extend(read_step(number, table, defaults, &mut groups));
    }
    steps.retain(|step| step.count > 0);
    steps
}

/// Checks the rules about all steps of a class.
fn check_steps(table: &Table<'_>, class: &Class) {
    if class.steps.is_empty() {
        table.refuse("step", "no step is performed");
    }
    let repetitions: u64 = class.steps.iter().map(|step| step.count).sum();
    if repetitions > REPETITIONS_MAX {
        let count = format_integer(repetitions);
        let max = format_integer(REPETITIONS_MAX);
        table.refuse("step", format!("an iteration has {count} repetitions of steps, more than {max}"));
    }
    let replicate = class.steps.iter().find(|step| step.verb == Verb::Replicate);
    if let (Replica::None, Some(step)) = (class.replica, replicate) {
        table.refuse("step", format!("step {} replicates, but the class has no local replica", step.number + 1));
    }
    check_pauses(table, class);
}

/// Checks that the pauses of an iteration fit into it, if all are as long as they can be.
fn check_pauses(table: &Table<'_>, class: &Class) {
    let Some(iteration_us) = class.rhythm.iteration_us else { return };
    let pauses_us: u64 = class.steps.iter().map(|step| step.count * step.pause.max_us).sum();
    let sum_us = pauses_us + class.rhythm.jitter_us;
    if sum_us > iteration_us {
        let sum = format_duration(sum_us);
        let iteration = format_duration(iteration_us);
        let rule = format!("jitter and the longest pauses add up to {sum}, more than an iteration of {iteration}");
        table.refuse("step", rule);
    }
}

fn read_step(
    number: u64,
    table: &mut Table<'_>,
    defaults: &Defaults<'_>,
    groups: &mut BTreeMap<String, u64>,
) -> Option<Step> {
    table.require("verb");
    let verb = table.choice("verb", STEP_VERBS)?;
    table.path = format!("{} ({})", table.path, verb.word());
    table.check_keys(&[STEP_KEYS, verb.keys()].concat());
    let every = table.integer("every", 1..=EVERY_MAX).unwrap_or(1);
    let key = match table.name("group") {
        Some(group) => *groups.entry(group).or_insert(number),
        None => number,
    };
    let phase = match table.integer("phase", 0..=every - 1) {
        Some(phase) => Phase::Fixed(phase),
        None => Phase::Drawn(key),
    };
    if defaults.rhythm.iteration_us.is_none() {
        table.forbid("pause", "with pace = \"unpaced\"");
    }
    Some(Step {
        number,
        verb,
        count: table.integer("count", 0..=REPETITIONS_MAX).unwrap_or(1),
        every,
        phase,
        pause: table.spread("pause").unwrap_or(defaults.rhythm.pause),
        action: action::read(verb, table, &defaults.references),
    })
}
