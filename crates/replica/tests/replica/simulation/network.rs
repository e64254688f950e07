//! The network of the simulation: which servers pull from each other, what happens to their messages, and the faults.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::sim::SeededRandom;
use base::{Clock, Random, Unid};
use notes::replica::ReplicaNote;
use notes::{Access, DeletionRule, Error, Identity, ReplicationSettings, UidRank, level};
use replica::{Answer, HeldBackNotes, Pull, PullStatistics, Question, Target, answer_in_pages};
use revision::{Ancestors, Revision};

use super::mail_clients::MailClients;
use super::plan::{Deletions, Plan, Purges};
use super::server::{DOCUMENTS, Deleted, Server, Setup, unid_of};
use super::wrong_exchange::WrongExchange;

/// Number of times that months pass in a history, at most.
const PASSES_MAX: u64 = 2;

/// Number of days by which the time that passes exceeds the purge interval: more than clocks differ.
const DAYS_BEYOND: u64 = 5;

/// A message between two servers. The pull that it belongs to is that of the target's start and time.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) pull: u64,
    pub(super) number: u64,
    pub(super) content: Content,
}

#[derive(Clone)]
pub(super) enum Content {
    Question(Question),
    Answer(Answer),
}

/// A deletion of a document.
pub(super) struct SeenDeletion {
    unid: Unid,
    deletion: Revision,
    /// The edits in the document that the user has deleted.
    values: BTreeSet<u64>,
    /// `true` if the document was restored on any server, or no server knows the deletion any more.
    is_undone: bool,
}

pub(super) struct Network {
    pub(super) servers: Vec<Server>,
    pub(super) messages: Vec<Message>,
    /// The links that are down: from a server to another one.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// The number of each server's current pull.
    pub(super) pulls: Vec<u64>,
    pub(super) random: SeededRandom,
    pub(super) next_value: u64,
    pub(super) plan: Plan,
    pub(super) wrong: Option<WrongExchange>,
    /// About this many changes are in a page of a list.
    pub(super) changes_per_page: usize,
    pub(super) trace: String,
    pub(super) statistics: Vec<PullStatistics>,
    pub(super) clients: MailClients,
    /// Decides when the title and options of a database change.
    pub(super) settings: SeededRandom,
    /// Decides what users read.
    pub(super) readers: SeededRandom,
    /// Decides when access control lists and views change.
    pub(super) designs: SeededRandom,
    /// Decides when a disk is destroyed, and when months pass.
    pub(super) disasters: SeededRandom,
    pub(super) deletions: Vec<SeenDeletion>,
    /// The documents that somebody has restored. A restored version may count against a deletion that does not know it.
    pub(super) restored: BTreeSet<Unid>,
    /// The server that the others do not reach.
    pub(super) away: Option<usize>,
    /// Number of times that months have passed.
    pub(super) passes: u64,
    /// The notes whose stubs some server has purged.
    pub(super) purged: BTreeSet<Unid>,
    /// The edits that could be restored until their time was over.
    pub(super) expired: BTreeSet<u64>,
}

impl Network {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        Self::with_wrong(None, seed, plan)
    }

    pub(super) fn with_wrong(wrong: Option<WrongExchange>, seed: u64, plan: Plan) -> Self {
        let rank = |number: usize| UidRank::new(if wrong == Some(WrongExchange::SameRanks) { 0 } else { number as u8 });
        let setup = |number| Setup {
            rank: rank(number),
            keeps_deleted: plan.keeps_deleted(),
            loses_unsynced: plan.loses_unsynced,
        };
        let network = Self {
            plan,
            wrong,
            changes_per_page: [1_000, 1, 3, 10][(seed % 4) as usize],
            servers: (0..plan.servers).map(|number| Server::new(number, setup(number))).collect(),
            messages: Vec::new(),
            cut: BTreeSet::new(),
            pulls: vec![0; plan.servers],
            random: SeededRandom::new(seed ^ 0x5EED),
            next_value: 0,
            trace: String::new(),
            statistics: Vec::new(),
            clients: MailClients::new(seed),
            settings: SeededRandom::new(seed ^ 0x5E77),
            readers: SeededRandom::new(seed ^ 0x4EAD),
            designs: SeededRandom::new(seed ^ 0xDE51),
            disasters: SeededRandom::new(seed ^ 0xD15A),
            deletions: Vec::new(),
            restored: BTreeSet::new(),
            away: None,
            passes: 0,
            purged: BTreeSet::new(),
            expired: BTreeSet::new(),
        };
        if plan.deletions == Deletions::Count {
            network.servers[0].set_options(|_, options| options.deletions = Some(DeletionRule::DeletionsCount));
        }
        network
    }

    pub(super) fn pick(&self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    pub(super) fn note(&mut self, text: &str) {
        self.trace.push_str(text);
        self.trace.push('\n');
    }

    /// Lets one thing happen.
    pub(super) fn step(&mut self) {
        self.step_anything();
        self.change_settings();
        self.change_designs();
        self.have_disaster();
        let count = self.servers.len() as u64;
        if self.readers.below(5) == 0 {
            let server = &self.servers[self.readers.below(count) as usize];
            if server.has_users() {
                server.mark(self.passes, &self.readers);
            }
        }
        let number = self.clients.random.below(count) as usize;
        self.look_at(number);
        self.check_deletions(number);
    }

    /// Lets clients look at a server. They see nothing before it is durable.
    fn look_at(&mut self, number: usize) {
        let server = &mut self.servers[number];
        server.make_durable();
        server.latest = server.latest.max(server.clock.now());
        self.clients.look_at(server);
    }

    /// Changes the title or options of a database now and then.
    fn change_settings(&mut self) {
        if self.settings.below(20) > 0 {
            return;
        }
        let server = &self.servers[self.settings.below(self.servers.len() as u64) as usize];
        let number = self.settings.below(1_000);
        let rule = [DeletionRule::EditsCount, DeletionRule::DeletionsCount][(number % 2) as usize];
        let change = self.settings.below(3);
        if !server.has_users() {
            return;
        }
        match change {
            0 => server.set_options(|title, _| *title = format!("Title {number}")),
            1 => server.set_options(|_, options| options.purge_interval_days = 100 + number as u16),
            _ if self.plan.deletions == Deletions::Changing => {
                server.set_options(|_, options| options.deletions = Some(rule));
            }
            _ => {}
        }
    }

    /// Changes an access control list or the views of a server now and then.
    fn change_designs(&mut self) {
        if !self.plan.changes_designs || self.designs.below(12) > 0 {
            return;
        }
        let number = self.designs.below(self.servers.len() as u64) as usize;
        if !self.servers[number].has_users() {
            return;
        }
        if self.designs.below(2) == 0 {
            self.note(&format!("access control list {number}"));
            let limited = self.plan.limits_servers.then_some(self.plan.servers);
            self.servers[number].change_acl(limited, &self.designs);
        } else {
            self.next_value += 1;
            self.note(&format!("views {number}"));
            self.servers[number].change_views(&format!("View {}", self.next_value), &self.designs);
        }
    }

    fn step_anything(&mut self) {
        let count = self.servers.len();
        let server = self.pick(count);
        let document = self.random.below(DOCUMENTS);
        match self.random.below(100) {
            number @ 0..33 => {
                if self.servers[server].has_users() {
                    self.work(number, server, document);
                }
            }
            33..45 => {
                let source = (server + 1 + self.pick(count - 1)) % count;
                if self.plan.topology.connects(count, server, source) {
                    self.begin_pull(server, source);
                }
            }
            45..48 => self.fail(server),
            48..52 => {
                let link = (server, (server + 1 + self.pick(count - 1)) % count);
                if !self.cut.remove(&link) {
                    self.cut.insert(link);
                }
            }
            52..56 => self.servers[server].clock.advance(Duration::from_secs(self.random.below(7_200))),
            56..58 => {
                let by = Duration::from_secs(self.random.below(7_200));
                if !self.servers[server].has_right_time {
                    self.servers[server].clock.step_back(by);
                }
            }
            _ => self.deliver(),
        }
    }

    /// Lets a user of a server work.
    fn work(&mut self, number: u64, server: usize, document: u64) {
        match number {
            0..20 => {
                self.next_value += 1;
                self.note(&format!("edit {server} {document} {}", self.next_value));
                let unid = self.unid_of(server, document);
                self.servers[server].edit(unid, self.next_value);
            }
            20..23 if self.plan.deletions != Deletions::None => self.delete(server, document),
            23..30 => {
                let unid = self.unid_of(server, document);
                self.servers[server].change_state(unid, &self.random);
            }
            30..33 => {
                self.next_value += 1;
                let title = format!("Folder {}", self.next_value);
                // If a deleted folder exists again, a replica compares everything. Then the time of a document decides
                // whether its deletion was purged, and the conflict document of an old version is old.
                let deletes = self.plan.purges != Purges::WhileAway;
                self.servers[server].change_folders(&title, deletes, &self.random);
            }
            _ => self.deliver(),
        }
    }

    /// Returns the UNID of a document that a server has or, if it has none, with which a user creates it.
    fn unid_of(&self, server: usize, document: u64) -> Unid {
        let mut unids = (0..=self.passes).map(|generation| unid_of(document, generation));
        unids.find(|unid| self.servers[server].find(*unid).is_some()).unwrap_or(unid_of(document, self.passes))
    }

    fn delete(&mut self, server: usize, document: u64) {
        self.note(&format!("delete {server} {document}"));
        let unid = self.unid_of(server, document);
        match self.servers[server].delete(unid) {
            Deleted::Document { unid, deletion, values } => {
                self.servers[server].known_deletions.insert(self.deletions.len());
                let is_undone = self.restored.contains(&unid);
                self.deletions.push(SeenDeletion { unid, deletion, values, is_undone });
            }
            Deleted::Restored(unid) => {
                let of_note = self.deletions.iter_mut().filter(|deletion| deletion.unid == unid);
                of_note.for_each(|deletion| deletion.is_undone = true);
                self.restored.insert(unid);
            }
            Deleted::Nothing => {}
        }
    }

    /// Checks that no document is back on a server that has learned of its deletion: one that has only edits that the
    /// user had seen who has deleted it.
    fn check_deletions(&mut self, number: usize) {
        self.learn_deletions(number);
        let server = &self.servers[number];
        for index in &server.known_deletions {
            let SeenDeletion { unid, deletion, values, is_undone } = &self.deletions[*index];
            if *is_undone {
                continue;
            }
            let found = server.values_in(*unid);
            let is_back = found.as_ref().is_some_and(|found| found.is_subset(values));
            let seed = self.clients.seed;
            assert!(!is_back, "seed {seed}: {unid} is back on server {number} after {deletion} with {found:?}");
        }
    }

    fn learn_deletions(&mut self, number: usize) {
        let server = &mut self.servers[number];
        let deletions = self.deletions.iter().enumerate().filter(|(_, deletion)| !deletion.is_undone);
        let learned = deletions.filter(|(_, deletion)| server.knows(deletion.unid, deletion.deletion));
        let learned: Vec<usize> = learned.map(|(index, _)| index).collect();
        server.known_deletions.extend(learned);
    }

    /// Forgets the deletions that are lost with the state of a server that was set back.
    fn forget_deletions(&mut self) {
        (0..self.servers.len()).for_each(|number| self.learn_deletions(number));
        for (index, deletion) in self.deletions.iter_mut().enumerate() {
            deletion.is_undone |= !self.servers.iter().any(|server| server.known_deletions.contains(&index));
        }
    }

    /// Checks that all servers have learned of all deletions, and that no deleted document is back. One that was away
    /// may have documents whose deletions others have purged.
    pub(super) fn check_all_deletions(&mut self) {
        for number in 0..self.servers.len() {
            self.check_deletions(number);
            let may_lack = self.plan.purges == Purges::WhileAway && number == self.plan.servers - 1;
            for (index, deletion) in self.deletions.iter().enumerate() {
                let is_excused = deletion.is_undone || (may_lack && self.purged.contains(&deletion.unid));
                let server = &self.servers[number];
                let found = server.values_in(deletion.unid).filter(|_| !is_excused);
                let is_back = found.is_some_and(|found| found.is_subset(&deletion.values));
                let seed = self.clients.seed;
                assert!(
                    !is_back,
                    "seed {seed}: {} with {:?} is on server {number} again, after deletion {index}",
                    deletion.unid, deletion.values
                );
            }
        }
    }

    fn fail(&mut self, number: usize) {
        let server = &mut self.servers[number];
        match self.random.below(4) {
            // There is nothing in a new replica yet of which an operator would make a backup.
            0 if !server.has_users() => {}
            0 => {
                server.make_durable();
                server.backup = Some((Arc::new(server.memory.crash_losing_all()), server.acknowledged.clone()));
            }
            1 => {
                if let Some((backup, acknowledged)) = server.backup.take() {
                    // Edits that are in no backup and reached no other server are lost with the disk.
                    server.acknowledged = acknowledged;
                    // A restored server has the right time, and gives out UIDs behind those that are lost.
                    if self.wrong != Some(WrongExchange::ClockOfBackup) {
                        server.set_right_time();
                    }
                    server.start(backup);
                    self.clients.forget_server(number);
                    self.forget_deletions();
                }
            }
            _ if self.plan.loses_unsynced => {
                let memory = Arc::new(server.memory.crash());
                server.start(memory);
                self.forget_deletions();
            }
            _ => {
                let memory = Arc::new(server.memory.crash_losing_all());
                server.start(memory);
            }
        }
        self.note(&format!("fail {number}"));
    }

    /// Destroys the disk of a server, or lets months pass, now and then.
    fn have_disaster(&mut self) {
        let can_pass = self.plan.purges != Purges::None && self.passes < PASSES_MAX;
        match self.disasters.below(120) {
            0 | 1 if self.plan.destroys_disks => {
                let number = self.disasters.below(self.servers.len() as u64) as usize;
                let others = (0..self.servers.len()).filter(|other| *other != number);
                let source = self.plan.sources(number).next();
                if let Some(source) = source.filter(|_| others.clone().all(|other| self.servers[other].has_users())) {
                    self.destroy(number, source);
                }
            }
            2..5 if can_pass => self.let_months_pass(),
            _ => {}
        }
    }

    /// Destroys the disk of a server. There is no backup. Edits that reached no other server are lost.
    fn destroy(&mut self, number: usize, source: usize) {
        self.note(&format!("destroy {number}"));
        // A crash of the others would otherwise lose the last access control list.
        self.servers.iter().for_each(Server::make_durable);
        self.servers[number].set_right_time();
        self.servers[number].start_empty(source);
        self.clients.forget_server(number);
        self.forget_deletions();
    }

    /// Lets more time pass than stubs of deletions are kept, after servers have replicated. Some of them purge.
    fn let_months_pass(&mut self) {
        self.note("months pass");
        self.replicate_all();
        if self.plan.purges == Purges::WhileAway {
            let away = self.servers.len() - 1;
            // The server that goes away takes over edits from others that do not pull from it any more.
            (0..5).for_each(|_| self.step_anything());
            self.messages.clear();
            let sources: Vec<usize> = self.plan.sources(away).collect();
            sources.into_iter().for_each(|source| self.pull_completely(away, source));
            self.away = Some(away);
            (0..20).for_each(|_| self.step_anything());
            let document = self.disasters.below(DOCUMENTS);
            if self.servers[0].has_users() {
                self.delete(0, document);
            }
            self.replicate_all();
        }
        let days = self.servers.iter().map(|server| server.database.record().options.purge_interval_days).max();
        let time = Duration::from_secs(86_400 * (u64::from(days.expect("there are servers")) + DAYS_BEYOND));
        for number in 0..self.servers.len() {
            self.learn_deletions(number);
            let server = &mut self.servers[number];
            server.make_durable();
            server.clock.advance(time);
            // A backup is not older than the purge interval.
            server.backup = None;
            // If only some purged the deletion, they would take an edit of the server that was away, against which the
            // deletion counts for the others.
            let purges = if self.away.is_some() { self.away != Some(number) } else { self.disasters.below(4) > 0 };
            if purges {
                let (purged, expired) = server.purge();
                if self.wrong.is_some_and(WrongExchange::forgets_purged_deletions) {
                    server.forget_purged_deletions();
                }
                self.purged.extend(purged);
                self.expired.extend(expired);
                server.make_durable();
            }
        }
        self.away = None;
        self.passes += 1;
    }

    fn begin_pull(&mut self, target: usize, source: usize) {
        if self.away.is_some_and(|away| [target, source].contains(&away)) {
            return;
        }
        if self.servers[target].pull.is_some() && self.random.below(4) > 0 {
            return;
        }
        let offering = Arc::clone(&self.servers[source].database);
        let server = &mut self.servers[target];
        let itself = Arc::new(Identity::local_server(Server::name(target).as_str()));
        let made = Target::new(&server.databases, &server.database, &itself, &server_identity(source));
        // The list of a new replica names only the server that fills it.
        let Ok(made) = made.inspect_err(|_| assert!(!server.has_users(), "the list names the other servers")) else {
            return;
        };
        let takes_held_back = self.wrong == Some(WrongExchange::HeldBackAreTaken);
        let held_back = if takes_held_back { HeldBackNotes::Taken } else { HeldBackNotes::Left };
        // Only a server that may change all documents is told who has read what.
        let offer: notes::Result<Access<level::Editor>> = offering.authorize(&server_identity(target));
        let begun = Pull::begin(made.with_unread_marks(offer.is_ok()).with_held_back(held_back));
        server.pull = Some((source, begun.expect("a sound store")));
        self.pulls[target] += 1;
        self.ask(target);
    }

    /// Sends the question of a server's pull.
    fn ask(&mut self, target: usize) {
        let Some((source, pull)) = &self.servers[target].pull else { return };
        match pull.question() {
            Some((number, question)) => {
                let content = Content::Question(question);
                self.messages.push(Message { source: *source, target, pull: self.pulls[target], number, content });
            }
            None => {
                assert_eq!(pull.statistics().skipped, 0, "all notes can be received");
                self.statistics.push(pull.statistics());
                self.servers[target].pull = None;
            }
        }
    }

    /// Lets one of the messages arrive, in any order. It may be lost or arrive twice.
    fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let index = self.pick(self.messages.len());
        let message = match self.random.below(10) {
            0 => {
                self.messages.swap_remove(index);
                return;
            }
            1 => self.messages[index].clone(),
            _ => self.messages.swap_remove(index),
        };
        let is_question = matches!(message.content, Content::Question(_));
        let link = if is_question { (message.target, message.source) } else { (message.source, message.target) };
        if self.cut.contains(&link) {
            return;
        }
        self.arrive(message);
    }

    fn arrive(&mut self, message: Message) {
        let Message { source, target, pull, number, content } = message;
        match content {
            Content::Question(mut question) => {
                // No answer leaves a server before the data in it is durable.
                self.servers[source].make_durable();
                let database = &self.servers[source].database;
                // A new replica does not let other servers in yet.
                let Ok(access): notes::Result<Access<level::Reader>> = database.authorize(&server_identity(target))
                else {
                    return;
                };
                let reading = access.read().expect("a snapshot");
                if let Some(wrong) = self.wrong {
                    let current = reading.position(reading.modseq()).expect("a sound store");
                    wrong.distort_question(&mut question, current);
                }
                let settings = ReplicationSettings::default();
                let answer = answer_in_pages(&reading, &question, self.changes_per_page, &settings);
                // The list may have changed since, so that the target is not told who has read what.
                if matches!(answer, Err(Error::ServerOnly { .. })) {
                    return;
                }
                let content = Content::Answer(answer.expect("a sound store"));
                drop(reading);
                self.messages.push(Message { source, target, pull, number, content });
            }
            Content::Answer(mut answer) => {
                if self.pulls[target] != pull {
                    return;
                }
                if let Some(wrong) = self.wrong {
                    match wrong {
                        WrongExchange::MarksByNoteId => self.name_by_note_ids(&mut answer, source, target),
                        WrongExchange::EditsReplaceDeletions => self.replace_deletions(&mut answer, target),
                        _ => wrong.distort_answer(&mut answer, self.servers[target].clock.now(), &self.random),
                    }
                }
                if let Some((_, running)) = &mut self.servers[target].pull {
                    running.take(number, answer).expect("a sound store");
                    self.ask(target);
                }
            }
        }
    }

    /// Lets documents that are deleted in the target look as if they were saved after the deletion.
    fn replace_deletions(&self, answer: &mut Answer, target: usize) {
        let stubs = self.servers[target].notes().into_iter().filter(|note| note.items.is_none());
        for stub in stubs.filter(|stub| stub.class.is_document()) {
            match answer {
                Answer::Changes(page) => {
                    let listed = page.notes.iter_mut().filter(|note| note.unid == stub.unid && note.size > 0);
                    listed.for_each(|note| note.revision = stub.revision.child(note.revision.id));
                }
                Answer::Notes(sent) => {
                    let same = |note: &&mut ReplicaNote| note.unid == stub.unid && note.items.is_some();
                    for note in sent.notes.iter_mut().filter(same) {
                        note.revision = stub.revision.child(note.revision.id);
                        note.record.ancestors = Ancestors::of_child(stub.revision, &stub.record.ancestors);
                    }
                }
                Answer::UnreadMarks(_) => {}
            }
        }
    }

    /// Replaces the UNIDs of marks by those of the notes that have the same numbers in the target.
    pub(super) fn name_by_note_ids(&self, answer: &mut Answer, source: usize, target: usize) {
        let Answer::UnreadMarks(page) = answer else { return };
        let source = self.servers[source].itself();
        let target = self.servers[target].itself();
        let source = source.read().expect("a snapshot");
        let target = target.read().expect("a snapshot");
        for unid in page.marks.iter_mut().flat_map(|marks| &mut marks.unids) {
            let note = source.find(*unid).expect("a sound store");
            let same = note.and_then(|note| target.header(note).expect("a sound store"));
            *unid = same.map_or(*unid, |header| header.unid);
        }
    }

    /// Ends all faults, and lets all servers pull from all others until nothing changes.
    pub(super) fn settle(&mut self) {
        if self.plan.limits_servers {
            self.servers.iter().filter(|server| server.has_users()).for_each(Server::permit_servers);
        }
        self.replicate_all();
    }

    /// Lets a server pull from another one without faults.
    fn pull_completely(&mut self, target: usize, source: usize) {
        self.servers[target].pull = None;
        self.begin_pull(target, source);
        while let Some(message) = self.messages.pop() {
            self.arrive(message);
        }
    }

    /// Lets all servers pull from all others, except for one that is away, until nothing changes.
    fn replicate_all(&mut self) {
        self.messages.clear();
        self.cut.clear();
        self.servers.iter_mut().for_each(|server| server.pull = None);
        for round in 0.. {
            let before: Vec<_> = self.servers.iter().map(Server::progress).collect();
            for target in 0..self.servers.len() {
                for source in self.plan.sources(target) {
                    self.pull_completely(target, source);
                }
            }
            (0..self.servers.len()).for_each(|number| self.look_at(number));
            if before == self.servers.iter().map(Server::progress).collect::<Vec<_>>() {
                break;
            }
            assert!(round < 30, "the replicas do not settle");
        }
    }
}

/// Returns the identity under which a server reads and writes on another one.
fn server_identity(number: usize) -> Arc<Identity> {
    Arc::new(Identity { server: true, ..Identity::person(Server::name(number).as_str()) })
}
