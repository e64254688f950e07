//! From options and a workload file to a plan and the settings of the engine, or to the reason why there is no run.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::options::RunOptions;
use crate::door::Offered;
use crate::door::choice::{DoorOffer, MissingVerb};
use crate::door::native::connections::USERS_PER_CONNECTION_MAX;
use crate::engine::pace::{Pace, Speedup};
use crate::engine::phases::{PhaseLengths, StatedLengths};
use crate::engine::run::{LEVELS_MAX, RunSettings};
use crate::engine::share::PartShare;
use crate::engine::user::{SessionRule, UserRules};
use crate::parts::PARTS_MAX;
use crate::plan::Plan;
use crate::plan::steps::verb_index;
use crate::population::content::Purpose;
use crate::population::databases::DatabaseFiles;
use crate::population::manifest::{DatabaseRecipe, Recipe};
use crate::population::memos::MailFiles;
use crate::record::log::Labels;
use crate::report::model::LeftOut;
use crate::target::by_server::SERVERS_MAX;
use crate::workload::action::{Action, Sender};
use crate::workload::class::{Class, Members, Replica};
use crate::workload::finding::Finding;
use crate::workload::rates::step_transactions;
use crate::workload::units::Share;
use crate::workload::verb::Verb;
use crate::workload::{Door, PartName, Session, Workload, check, limits};

/// Maximum number of users of a process.
pub const USERS_MAX: u64 = 200_000;

/// Why there is no run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The workload file has errors.
    #[error("the workload file is not valid")]
    Findings(Vec<Finding>),
    /// The options contradict each other or the workload.
    #[error("{0}")]
    Options(String),
    /// This version does not play the workload.
    #[error("{0}")]
    NotOffered(String),
    /// The disk is too small.
    #[error("{0}")]
    Disk(String),
    /// The data folder is not what the run wants.
    #[error("{0}")]
    DataFolder(String),
}

/// A run that can begin.
#[derive(Debug, Clone)]
pub struct PreparedRun {
    /// The options.
    pub options: RunOptions,
    /// The text of the workload file.
    pub text: String,
    /// The plan, with the workload.
    pub plan: Arc<Plan>,
    /// What the door performs.
    pub offered: Arc<Offered>,
    /// What is not played.
    pub left_out: Vec<LeftOut>,
    /// The settings of the engine.
    pub settings: RunSettings,
    /// The names of verbs and classes.
    pub labels: Labels,
    /// What the mail files have before the run.
    pub mail_files: MailFiles,
    /// The other databases, and what they have before the run.
    pub databases: Arc<DatabaseFiles>,
}

impl PreparedRun {
    /// Returns the run without the verbs that its target does not have, which are left out by name.
    pub fn without(&self, missing: &[MissingVerb]) -> Self {
        let is_missing = |verb: &Verb| missing.iter().any(|(missing, _)| missing == verb);
        let offered = Verb::all().filter(|verb| self.offered.has(*verb) && !is_missing(verb));
        let by_verb = transactions_by_verb(self.plan.workload());
        let used = missing.iter().filter(|(verb, _)| self.offered.has(*verb) && by_verb.contains_key(verb));
        let mut left_out: Vec<LeftOut> = used.map(|(verb, reason)| left_out_verb(*verb, reason, &by_verb)).collect();
        left_out.extend(self.left_out.iter().cloned());
        Self { offered: Arc::new(Offered::new(offered)), left_out, ..self.clone() }
    }

    /// Returns `true` if the run wants the same in the data folder, before it begins, as another one: mail files that
    /// are filled through the same door, full-text indexes, and other databases.
    pub fn has_population_of(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|run| run.plan.workload());
        self.recipe() == other.recipe()
            && self.databases == other.databases
            && own.door == others.door
            && own.mailbox.full_text == others.mailbox.full_text
    }

    /// Returns from what the databases of the run are made.
    pub fn recipe(&self) -> Recipe {
        let kinds = self.databases.kinds.iter().map(|kind| &kind.database);
        let databases = kinds.map(|kind| DatabaseRecipe {
            name: kind.name.clone(),
            count: kind.count,
            documents: kind.documents,
            bytes: kind.bytes,
        });
        let people = Some(self.people()).filter(|people| *people > self.mail_files.users);
        let servers = self.options.servers;
        Recipe { databases: databases.collect(), people, servers, ..Recipe::of(&self.mail_files) }
    }

    /// Returns the persons of the directory, of whom the first ones are the users.
    pub fn people(&self) -> u64 {
        self.plan.workload().directory.people.unwrap_or(0).max(self.plan.users())
    }
}

/// Prepares a run of a workload file.
///
/// # Errors
///
/// All errors of the file, or the first reason why the run cannot be played.
pub fn prepare(text: &str, options: RunOptions) -> Result<PreparedRun, Refusal> {
    let mut workload = check::check(text, &options.set).map_err(Refusal::Findings)?;
    let levels = levels(&workload, &options)?;
    let speedup =
        Speedup::new(options.speedup).ok_or_else(|| refused("--speedup: not a number from 0.001 to 1,000,000"))?;
    if !(options.size_scale > 0.0 && options.size_scale <= 1.0) {
        return Err(refused("--size-scale: not a number above 0 and at most 1"));
    }
    workload.users = levels.last().copied().unwrap_or(workload.users);
    workload.directory.recipients = options.recipients.or(workload.directory.recipients);
    workload.door = options.door.unwrap_or(workload.door);
    workload.iterations = options.iterations.unwrap_or(workload.iterations);
    workload.measure_us = options.measure_us.unwrap_or(workload.measure_us);
    let documents = options.documents.unwrap_or(workload.mailbox.documents);
    let no_door = || Refusal::NotOffered(format!("the door {} does not exist yet", workload.door.word()));
    let offer = DoorOffer::of(workload.door).ok_or_else(no_door)?;
    check_offered(&workload)?;
    let databases = DatabaseFiles::of_workload(&workload, options.seed, options.database_documents, options.size_scale);
    for (database, kind) in workload.databases.iter_mut().filter(|one| one.count > 0).zip(&databases.kinds) {
        database.documents = kind.database.documents;
    }
    check_connections(&workload, &options)?;
    check_servers(&options, &databases)?;
    if options.journal && workload.door != Door::Native {
        return Err(refused("--journal: only the door native keeps a journal"));
    }
    let left_out = left_out(&workload, &offer);
    let labels = labels(&workload);
    let lengths = lengths(&workload, &options, speedup)?;
    let rules = rules(&workload, &options, speedup)?;
    let users = workload.users;
    let plan = Plan::new(Arc::new(workload), options.seed, users)
        .ok_or_else(|| refused("the run has no user of the range of recipients"))?;
    let levels = if levels.len() == 1 { vec![plan.users()] } else { levels };
    if !(1..=PARTS_MAX).contains(&options.parts) {
        return Err(refused(format!("--part: a run has 1 to {PARTS_MAX} parts")));
    }
    if plan.users().div_ceil(options.parts) > USERS_MAX {
        return Err(refused(format!("a process plays at most {USERS_MAX} users, not {}", plan.users())));
    }
    let mail_files = mail_files(&plan, &options, documents)?;
    let lengths = if options.parts > 1 { lengths.for_parts() } else { lengths };
    let share = PartShare::default();
    let settings = RunSettings { rules, lengths, levels, cool_down: options.cool_down, share, start: None };
    let plan = Arc::new(plan);
    Ok(PreparedRun {
        options,
        text: text.to_owned(),
        plan,
        offered: Arc::new(offer.offered),
        left_out,
        settings,
        labels,
        mail_files,
        databases: Arc::new(databases),
    })
}

fn mail_files(plan: &Plan, options: &RunOptions, documents: u64) -> Result<MailFiles, Refusal> {
    let users = plan.users();
    let masters = options.masters.unwrap_or(users);
    if masters == 0 || masters > users {
        return Err(refused(format!("--masters: a number from 1 to the {users} users")));
    }
    if options.servers > users {
        return Err(refused(format!("--servers: {users} users cannot be divided between {} servers", options.servers)));
    }
    if masters < users && !masters.is_multiple_of(options.servers) {
        return Err(refused("--masters: not a multiple of --servers, because a server copies its own mail files"));
    }
    let own = Share::from_f64(options.own).ok_or_else(|| refused("--own: not a share from 0 to 1"))?;
    let mailbox = &plan.workload().mailbox;
    // Without documents, mail files stay as they are.
    let is_filled = plan.workload().door.fills_archives() && options.documents != Some(0);
    let archive = if is_filled { mailbox.archive } else { 0 };
    Ok(MailFiles {
        seed: options.seed,
        users,
        documents,
        archive,
        profile: plan.workload().profiles[&mailbox.profile].clone(),
        size_scale: options.size_scale,
        unread: mailbox.unread,
        purpose: if plan.workload().door == Door::Native { Purpose::Document } else { Purpose::Message },
        // There is nothing to copy from an empty mail file.
        masters: if documents.saturating_add(archive) == 0 { users } else { masters },
        own,
    })
}

fn refused(reason: impl Into<String>) -> Refusal {
    Refusal::Options(reason.into())
}

fn levels(workload: &Workload, options: &RunOptions) -> Result<Vec<u64>, Refusal> {
    let levels = options.users.clone().unwrap_or_else(|| vec![workload.users]);
    if levels.is_empty() || levels.len() > LEVELS_MAX || levels.contains(&0) {
        return Err(refused(format!("--users: 1 to {LEVELS_MAX} numbers above 0")));
    }
    if !levels.is_sorted_by(|one, other| one < other) {
        return Err(refused("--users: the levels are not in ascending order"));
    }
    if levels.last() > Some(&limits::USERS_MAX) {
        return Err(refused(format!("--users: a run has at most {} users", limits::USERS_MAX)));
    }
    let has_fixed = workload.classes.iter().any(|class| matches!(class.members, Members::Users(users) if users > 0));
    if has_fixed && levels.len() > 1 {
        return Err(refused("--users: a workload with a class of a fixed number of users has one level"));
    }
    Ok(levels)
}

/// Refuses what is known to `check` and not to this version.
fn check_offered(workload: &Workload) -> Result<(), Refusal> {
    for class in workload.classes.iter().filter(|class| class.members != Members::Users(0)) {
        let refused = |reason: &str| Err(Refusal::NotOffered(format!("class {}: {reason}", class.name)));
        let is_native = workload.door == Door::Native;
        if !is_native && class.replica == Replica::Local {
            return refused("only the native door has local replicas");
        }
        if !is_native && class.database.is_some() {
            return refused("only the native door has databases besides mail files");
        }
        let has_senders = matches!(workload.door, Door::Imap | Door::Pop3);
        let is_random = |action: &Action| matches!(action, Action::Send { from: Sender::Random, .. });
        if !has_senders && class.steps.iter().any(|step| is_random(&step.action)) {
            return refused("only the doors imap and pop3 send mail in the name of another user");
        }
        let is_folder = |action: &Action| matches!(action, Action::View { view: Some(name) } if !is_inbox(name));
        if workload.door == Door::Pop3 && class.steps.iter().any(|step| is_folder(&step.action)) {
            return refused("the POP3 door has no other view than the inbox");
        }
    }
    Ok(())
}

/// Returns `true` if a view is the inbox of a mail file.
fn is_inbox(view: &str) -> bool {
    view.eq_ignore_ascii_case("INBOX") || view == "($Inbox)"
}

/// Refuses options of connections that only the native door has.
fn check_connections(workload: &Workload, options: &RunOptions) -> Result<(), Refusal> {
    if !(1..=USERS_PER_CONNECTION_MAX).contains(&options.users_per_connection) {
        return Err(refused(format!("--users-per-connection: not a number from 1 to {USERS_PER_CONNECTION_MAX}")));
    }
    if workload.door != Door::Native && options.users_per_connection > 1 {
        return Err(refused("--users-per-connection: only users of the native door share connections"));
    }
    if workload.door != Door::Native && !options.source_addresses.is_empty() {
        return Err(refused("--source-addresses: only the native door chooses its local addresses"));
    }
    Ok(())
}

/// Refuses what several servers cannot have.
fn check_servers(options: &RunOptions, databases: &DatabaseFiles) -> Result<(), Refusal> {
    if !(1..=SERVERS_MAX).contains(&options.servers) {
        return Err(refused(format!("--servers: not a number from 1 to {SERVERS_MAX}")));
    }
    if options.servers == 1 {
        return Ok(());
    }
    if databases.files().next().is_some() {
        return Err(refused("--servers: the workload has databases besides mail files, which are on one server"));
    }
    if options.parts > 1 {
        return Err(refused("--servers: a run of several parts has one server"));
    }
    if options.users_per_connection > 1 {
        return Err(refused("--servers: users of different servers share no connection (--users-per-connection)"));
    }
    Ok(())
}

fn labels(workload: &Workload) -> Labels {
    Labels {
        verbs: crate::plan::steps::verb_words(),
        classes: workload.classes.iter().map(|class| class.name.clone()).collect(),
    }
}

fn lengths(workload: &Workload, options: &RunOptions, speedup: Speedup) -> Result<PhaseLengths, Refusal> {
    let iteration_us = workload.classes.iter().filter_map(|class| class.rhythm.iteration_us).max().unwrap_or(0);
    let stated = StatedLengths {
        interval: Duration::from_micros(options.interval_us),
        iteration: Duration::from_micros(iteration_us),
        settle: Duration::from_micros(workload.settle_us),
        measure: Duration::from_micros(workload.measure_us),
        sample: options.sample,
        steady_limit: options.steady_limit,
    };
    let short = || refused("the measured interval, divided by the speed-up, is shorter than 1.2 s");
    PhaseLengths::at_speed(&stated, speedup).ok_or_else(short)
}

fn rules(workload: &Workload, options: &RunOptions, speedup: Speedup) -> Result<UserRules, Refusal> {
    if options.time_limit.is_zero() {
        return Err(refused("--timeout: a step needs time"));
    }
    let is_unpaced = workload.classes.iter().any(|class| class.rhythm.iteration_us.is_none());
    Ok(UserRules {
        pace: if is_unpaced { Pace::Unpaced } else { options.pace },
        speedup,
        session: match workload.session {
            Session::Once => SessionRule::Once,
            Session::Iteration => SessionRule::Iteration,
        },
        time_limit: options.time_limit,
        log_in: verb_index(Verb::LogIn),
        log_in_transactions: Verb::LogIn.transactions() as u32,
    })
}

/// Returns the transactions of a user and hour by verb, on average over all users. For an unpaced workload it is an
/// iteration instead of an hour.
pub fn transactions_by_verb(workload: &Workload) -> BTreeMap<Verb, f64> {
    let fixed: u64 = workload.classes.iter().map(fixed_users).sum();
    let all = (workload.users + fixed) as f64;
    let mut by_verb = BTreeMap::new();
    for class in &workload.classes {
        let part = match class.members {
            Members::Share(share) => share.fraction().to_f64() * workload.users as f64 / all,
            Members::Users(users) => users as f64 / all,
        };
        let iterations = class.rhythm.iteration_us.map_or(1.0, |iteration_us| 3.6e9 / iteration_us as f64);
        for (verb, transactions) in class_transactions(workload, class) {
            *by_verb.entry(verb).or_insert(0.0) += part * iterations * transactions;
        }
    }
    by_verb
}

/// Returns the transactions of an iteration of a class, by verb.
fn class_transactions(workload: &Workload, class: &Class) -> Vec<(Verb, f64)> {
    let mut transactions = Vec::new();
    if workload.session == Session::Iteration {
        transactions.push((Verb::LogIn, Verb::LogIn.transactions() as f64));
    }
    for step in &class.steps {
        let actions = step.count as f64 / step.every as f64;
        transactions.push((step.verb, actions * step_transactions(workload, class, step) as f64));
        if let Action::Read { attachments, .. } = step.action
            && class.database.is_none()
        {
            let met = workload.profiles[&workload.mailbox.profile].with_attachment();
            let read = actions * met.to_f64() * attachments.fraction().to_f64();
            transactions.push((Verb::ReadAttachment, read * Verb::ReadAttachment.transactions() as f64));
        }
    }
    transactions
}

fn fixed_users(class: &Class) -> u64 {
    match class.members {
        Members::Users(users) => users,
        Members::Share(_) => 0,
    }
}

/// Returns what the door does not perform, and the activities beside the users.
fn left_out(workload: &Workload, offer: &DoorOffer) -> Vec<LeftOut> {
    let by_verb = transactions_by_verb(workload);
    let used = by_verb.keys().filter(|verb| !offer.offered.has(**verb));
    let verbs = used.map(|verb| left_out_verb(*verb, offer.reason(*verb), &by_verb));
    let parts = workload.parts.iter().map(|part| LeftOut {
        name: part_name(part.name).to_owned(),
        kind: "part".to_owned(),
        reason: "this version has no activities beside the users".to_owned(),
        share: None,
    });
    verbs.chain(parts).collect()
}

fn left_out_verb(verb: Verb, reason: &str, by_verb: &BTreeMap<Verb, f64>) -> LeftOut {
    let all: f64 = by_verb.values().sum();
    let transactions = by_verb.get(&verb).copied().unwrap_or(0.0);
    LeftOut {
        name: verb.word().to_owned(),
        kind: "verb".to_owned(),
        reason: reason.to_owned(),
        share: Some(if all > 0.0 { transactions / all } else { 0.0 }),
    }
}

fn part_name(name: PartName) -> &'static str {
    match name {
        PartName::ClusterReplication => "cluster-replication",
        PartName::ClusterFailover => "cluster-failover",
        PartName::ScheduledPush => "scheduled-push",
    }
}
