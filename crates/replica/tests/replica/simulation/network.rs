//! The network of the simulation: which servers pull from each other, what happens to their messages, and the faults.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::sim::SeededRandom;
use base::{Clock, Random};
use notes::{DeletionRule, Identity, ReplicationSettings, UidRank};
use replica::{Answer, Pull, PullStatistics, Question, Target, answer_in_pages};

use super::mail_clients::MailClients;
use super::server::{DOCUMENTS, Server};
use super::wrong_exchange::WrongExchange;

pub(super) const SERVERS: usize = 3;

/// Which servers pull from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Topology {
    All,
    /// Each has one or two neighbors.
    Chain,
    /// Changes go around in one direction.
    Ring,
}

impl Topology {
    pub(super) fn connects(self, target: usize, source: usize) -> bool {
        match self {
            Self::All => target != source,
            Self::Chain => target.abs_diff(source) == 1,
            Self::Ring => (source + 1) % SERVERS == target,
        }
    }
}

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

/// Whether documents are deleted, and which deletions count against edits that they do not know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletions {
    None,
    /// Edits count.
    GiveWay,
    /// Deletions count, and deleted documents can be restored. One server has this rule from the beginning, and the
    /// others get it by replication.
    Count,
    /// Which of them count changes again and again, and deleted documents can be restored.
    Changing,
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
    pub(super) deletions: Deletions,
    pub(super) topology: Topology,
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
}

impl Network {
    pub(super) fn new(seed: u64, deletions: Deletions) -> Self {
        Self::with_wrong(None, seed, deletions)
    }

    pub(super) fn with_wrong(wrong: Option<WrongExchange>, seed: u64, deletions: Deletions) -> Self {
        let rank = |number: usize| UidRank::new(if wrong == Some(WrongExchange::SameRanks) { 0 } else { number as u8 });
        let keeps_deleted = matches!(deletions, Deletions::Count | Deletions::Changing);
        let topology = [Topology::All, Topology::Chain, Topology::Ring][(seed % 3) as usize];
        let changes_per_page = [1_000, 1, 3, 10][(seed % 4) as usize];
        let network = Self {
            topology,
            wrong,
            changes_per_page,
            servers: (0..SERVERS).map(|number| Server::new(number, keeps_deleted, rank(number))).collect(),
            messages: Vec::new(),
            cut: BTreeSet::new(),
            pulls: vec![0; SERVERS],
            random: SeededRandom::new(seed ^ 0x5EED),
            next_value: 0,
            deletions,
            trace: String::new(),
            statistics: Vec::new(),
            clients: MailClients::new(seed),
            settings: SeededRandom::new(seed ^ 0x5E77),
            readers: SeededRandom::new(seed ^ 0x4EAD),
        };
        if deletions == Deletions::Count {
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
        if self.readers.below(5) == 0 {
            let server = self.readers.below(SERVERS as u64) as usize;
            self.servers[server].mark(&self.readers);
        }
        let number = self.clients.random.below(SERVERS as u64) as usize;
        let server = &mut self.servers[number];
        server.latest = server.latest.max(server.clock.now());
        self.clients.look_at(server);
    }

    /// Changes the title or options of a database now and then.
    pub(super) fn change_settings(&mut self) {
        if self.settings.below(20) > 0 {
            return;
        }
        let server = &self.servers[self.settings.below(SERVERS as u64) as usize];
        let number = self.settings.below(1_000);
        let rule = [DeletionRule::EditsCount, DeletionRule::DeletionsCount][(number % 2) as usize];
        match self.settings.below(3) {
            0 => server.set_options(|title, _| *title = format!("Title {number}")),
            1 => server.set_options(|_, options| options.purge_interval_days = 100 + number as u16),
            _ if self.deletions == Deletions::Changing => {
                server.set_options(|_, options| options.deletions = Some(rule));
            }
            _ => {}
        }
    }

    pub(super) fn step_anything(&mut self) {
        let server = self.pick(SERVERS);
        let document = self.random.below(DOCUMENTS);
        match self.random.below(100) {
            0..20 => {
                self.next_value += 1;
                self.note(&format!("edit {server} {document} {}", self.next_value));
                self.servers[server].edit(document, self.next_value);
            }
            20..23 if self.deletions != Deletions::None => {
                self.note(&format!("delete {server} {document}"));
                self.servers[server].delete(document);
            }
            23..30 => self.servers[server].change_state(document, &self.random),
            30..33 => {
                self.next_value += 1;
                let title = format!("Folder {}", self.next_value);
                self.servers[server].change_folders(&title, &self.random);
            }
            33..45 => {
                let source = (server + 1 + self.pick(SERVERS - 1)) % SERVERS;
                if self.topology.connects(server, source) {
                    self.begin_pull(server, source);
                }
            }
            45..48 => self.fail(server),
            48..52 => {
                let link = (server, (server + 1 + self.pick(SERVERS - 1)) % SERVERS);
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

    pub(super) fn fail(&mut self, number: usize) {
        let server = &mut self.servers[number];
        match self.random.below(4) {
            0 => server.backup = Some((Arc::new(server.memory.crash_losing_all()), server.acknowledged.clone())),
            1 => {
                if let Some((backup, acknowledged)) = server.backup.take() {
                    // Edits that are in no backup and reached no other server are lost with the disk.
                    server.acknowledged = acknowledged;
                    // A restored server has the right time, and gives out UIDs behind those that are lost.
                    if self.wrong != Some(WrongExchange::ClockOfBackup) {
                        let behind = server.latest.0.saturating_sub(server.clock.now().0).max(0);
                        let behind = Duration::from_micros(behind.unsigned_abs());
                        server.clock.advance(behind + Duration::from_secs(3_600));
                        server.has_right_time = true;
                    }
                    server.start(backup);
                    self.clients.forget_server(number);
                }
            }
            _ => {
                let memory = Arc::new(server.memory.crash_losing_all());
                server.start(memory);
            }
        }
        self.note(&format!("fail {number}"));
    }

    pub(super) fn begin_pull(&mut self, target: usize, source: usize) {
        if self.servers[target].pull.is_some() && self.random.below(4) > 0 {
            return;
        }
        let server = &mut self.servers[target];
        let itself = Arc::new(Identity::local_server(Server::name(target).as_str()));
        let other = Arc::new(Identity { server: true, ..Identity::person(Server::name(source).as_str()) });
        let made = Target::new(&server.databases, &server.database, &itself, &other);
        let made = made.expect("the list names the other servers").with_unread_marks(true);
        let begun = Pull::begin(made);
        server.pull = Some((source, begun.expect("a sound store")));
        self.pulls[target] += 1;
        self.ask(target);
    }

    /// Sends the question of a server's pull.
    pub(super) fn ask(&mut self, target: usize) {
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
    pub(super) fn deliver(&mut self) {
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

    pub(super) fn arrive(&mut self, message: Message) {
        let Message { source, target, pull, number, content } = message;
        match content {
            Content::Question(mut question) => {
                let access = self.servers[source].itself();
                let reading = access.read().expect("a snapshot");
                if let Some(wrong) = self.wrong {
                    let current = reading.position(reading.modseq()).expect("a sound store");
                    wrong.distort_question(&mut question, current);
                }
                // No answer leaves a server before the data in it is durable.
                let answer =
                    answer_in_pages(&reading, &question, self.changes_per_page, &ReplicationSettings::default())
                        .expect("a sound store");
                let content = Content::Answer(answer);
                drop(reading);
                self.messages.push(Message { source, target, pull, number, content });
            }
            Content::Answer(mut answer) => {
                if self.pulls[target] != pull {
                    return;
                }
                if let Some(wrong) = self.wrong {
                    if wrong == WrongExchange::MarksByNoteId {
                        self.name_by_note_ids(&mut answer, source, target);
                    }
                    wrong.distort_answer(&mut answer, self.servers[target].clock.now(), &self.random);
                }
                if let Some((_, running)) = &mut self.servers[target].pull {
                    running.take(number, answer).expect("a sound store");
                    self.ask(target);
                }
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
        let topology = self.topology;
        self.messages.clear();
        self.cut.clear();
        self.servers.iter_mut().for_each(|server| server.pull = None);
        for round in 0.. {
            let before: Vec<_> = self.servers.iter().map(Server::progress).collect();
            for target in 0..SERVERS {
                for source in (0..SERVERS).filter(|source| topology.connects(target, *source)) {
                    self.servers[target].pull = None;
                    self.begin_pull(target, source);
                    while let Some(message) = self.messages.pop() {
                        self.arrive(message);
                    }
                }
            }
            self.servers.iter().for_each(|server| self.clients.look_at(server));
            if before == self.servers.iter().map(Server::progress).collect::<Vec<_>>() {
                break;
            }
            assert!(round < 30, "the replicas do not settle");
        }
    }
}
