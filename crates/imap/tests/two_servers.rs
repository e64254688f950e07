//! Clients that change between two servers with replicas of one mail file, which share the UIDs of its mailboxes.
//!
//! The servers replicate now and then, completely or in part. Mail arrives on both. A client keeps what it has read
//! under UIDVALIDITY and UID, and brings it along. One client uses QRESYNC and says what it knows, the other one
//! compares the lists. Whenever a client has synchronized, it must know what the server has: the same messages under
//! the same UIDs, with the same flags. It never reads a message twice, so a UID that meant another message would show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::sim::SeededRandom;
use base::{Clock, Random, Unid};
use notes::{Access, Identity, Item, NewNote, ReplicationSettings, level};
use replica::{Pull, Target, answer_in_pages};
use wire::Peer;

use crate::connection::Connection;
use crate::model::{after, first_number, members, narrow};
use crate::world::{self, TestServer};

const MAILBOXES: [&str; 2] = ["INBOX", "Archive"];

/// Number of histories, and of steps in each.
const SEEDS: u64 = 60;
const STEPS: usize = 80;

/// A message as a client keeps it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cached {
    flags: BTreeSet<String>,
    subject: String,
}

struct Client {
    connection: Connection,
    uses_qresync: bool,
    server: usize,
    mailbox: usize,
    uid_validity: u64,
    modseq: u64,
    messages: BTreeMap<u32, Cached>,
    /// Number of messages whose contents it has read.
    loaded: usize,
}

impl Client {
    fn connect(&mut self, world: &TestServer) {
        self.connection = Connection::new(world, Peer::local());
        self.ask("LOGIN alice secret");
        if self.uses_qresync {
            self.ask("ENABLE QRESYNC");
        }
    }

    fn ask(&mut self, line: &str) -> Vec<String> {
        self.connection.receive(format!("t {line}\r\n").as_bytes());
        let response: Vec<String> = self.connection.lines.drain(..).collect();
        assert!(response.last().is_some_and(|last| last.starts_with("t OK ")), "{line}: {response:?}");
        response
    }

    /// Selects the mailbox and brings the cache up to date.
    fn synchronize(&mut self) {
        let name = MAILBOXES[self.mailbox];
        let knows = self.uses_qresync && self.uid_validity > 0;
        let known = format!(" (QRESYNC ({} {}))", self.uid_validity, self.modseq);
        let response = self.ask(&format!("SELECT {name}{}", if knows { &known } else { "" }));
        let number = |mark: &str| response.iter().find_map(|line| after(line, mark));
        let uid_validity = number("[UIDVALIDITY ").expect("the server sends it");
        let is_new = uid_validity != self.uid_validity;
        if is_new {
            self.messages.clear();
        }
        self.uid_validity = uid_validity;
        self.modseq = number("[HIGHESTMODSEQ ").expect("the server sends it");
        let exists = response.iter().find(|line| line.ends_with(" EXISTS")).map_or(0, |line| first_number(line));
        if knows && !is_new {
            self.take_changes(&response);
        } else {
            let response = self.ask("UID FETCH 1:* (UID FLAGS)");
            let listed = listed_flags(&response);
            self.messages.retain(|uid, _| listed.contains_key(uid));
            self.take_changes(&response);
        }
        assert_eq!(self.messages.len(), exists, "it has all messages: {response:?}");
        self.load_contents();
        self.check();
    }

    /// Takes over what a response tells of vanished messages and of flags.
    fn take_changes(&mut self, response: &[String]) {
        for line in response {
            let vanished = line.strip_prefix("* VANISHED ").map(|set| set.trim_start_matches("(EARLIER) "));
            for uid in vanished.map(members).unwrap_or_default() {
                self.messages.remove(&uid);
            }
        }
        for (uid, flags) in listed_flags(response) {
            self.messages.entry(uid).or_default().flags = flags;
        }
    }

    /// Reads the contents of messages that are new to the client.
    fn load_contents(&mut self) {
        let new: Vec<u32> = self.messages.iter().filter(|(_, it)| it.subject.is_empty()).map(|(uid, _)| *uid).collect();
        for uid in new {
            let response = self.ask(&format!("UID FETCH {uid} (ENVELOPE)"));
            let subject = subjects(&response).remove(&uid).expect("the message exists");
            self.messages.entry(uid).or_default().subject = subject;
            self.loaded += 1;
        }
    }

    /// Checks that the client knows what the server has.
    fn check(&mut self) {
        let response = self.ask("UID FETCH 1:* (UID FLAGS)");
        let mut found: BTreeMap<u32, Cached> = BTreeMap::new();
        for (uid, flags) in listed_flags(&response) {
            found.entry(uid).or_default().flags = flags;
        }
        for (uid, subject) in subjects(&self.ask("UID FETCH 1:* (ENVELOPE)")) {
            found.entry(uid).or_default().subject = subject;
        }
        assert_eq!(self.messages, found, "with QRESYNC: {}", self.uses_qresync);
    }

    /// Takes over what the server reports in a session.
    fn notice(&mut self) {
        let response = self.ask("NOOP");
        let mut known: Vec<u32> = self.messages.keys().copied().collect();
        let mut exists = known.len();
        for line in &response {
            if line.ends_with(" EXPUNGE") {
                self.messages.remove(&known.remove(first_number(line) - 1));
                exists -= 1;
            } else if line.ends_with(" EXISTS") {
                exists = first_number(line);
            } else if let Some(set) = line.strip_prefix("* VANISHED ") {
                let gone = members(set);
                known.retain(|uid| !gone.contains(uid));
                exists = exists.min(known.len());
            }
            self.modseq = after(line, "[HIGHESTMODSEQ ").unwrap_or(self.modseq);
        }
        let last = known.last().copied().unwrap_or(0);
        self.take_changes(&response);
        if exists > known.len() {
            let response = self.ask(&format!("FETCH {}:* (UID FLAGS)", known.len() + 1));
            let listed = listed_flags(&response);
            assert!(listed.keys().all(|uid| *uid > last), "new messages have greater UIDs: {response:?}, {last}");
            self.take_changes(&response);
        }
        // Flags of known messages are sent without a UID to a client without QRESYNC.
        for (number, flags) in response.iter().filter_map(|line| Some((first_of(line)?, flags_of(line)?))) {
            if let Some(uid) = known.get(number - 1) {
                self.messages.entry(*uid).or_default().flags = flags;
            }
        }
        self.load_contents();
        self.check();
    }
}

fn first_of(line: &str) -> Option<usize> {
    line.contains(" FETCH (").then(|| first_number(line))
}

fn flags_of(line: &str) -> Option<BTreeSet<String>> {
    let (flags, _) = line.split_once("FLAGS (")?.1.split_once(')')?;
    let flags = flags.split(' ').filter(|flag| !flag.is_empty() && *flag != "\\Recent");
    Some(flags.map(str::to_owned).collect())
}

/// Returns the flags in FETCH responses with UIDs.
fn listed_flags(response: &[String]) -> BTreeMap<u32, BTreeSet<String>> {
    let fetched = response.iter().filter(|line| line.contains(" FETCH ("));
    fetched.filter_map(|line| Some((narrow(after(line, "UID ")?), flags_of(line)?))).collect()
}

/// Returns the subjects in FETCH responses with UIDs.
fn subjects(response: &[String]) -> BTreeMap<u32, String> {
    let behind_date = |envelope: &'_ str| -> Option<usize> {
        if envelope.starts_with("NIL ") { Some(4) } else { Some(envelope.find("\" ")? + 2) }
    };
    let subject = |line: &str| {
        let envelope = line.split_once("ENVELOPE (")?.1;
        Some(envelope[behind_date(envelope)?..].strip_prefix('"')?.split_once('"')?.0.to_owned())
    };
    response.iter().filter_map(|line| Some((narrow(after(line, "UID ")?), subject(line)?))).collect()
}

struct TwoServers {
    worlds: [TestServer; 2],
    clients: Vec<Client>,
    random: SeededRandom,
    delivered: u64,
    /// `true` if there are documents without a message, too.
    has_documents: bool,
}

impl TwoServers {
    fn new(seed: u64) -> Self {
        let worlds = [TestServer::sharing(0), TestServer::sharing(1)];
        let mut run =
            Self { worlds, clients: Vec::new(), random: SeededRandom::new(seed), delivered: 0, has_documents: false };
        run.pull(1, usize::MAX);
        for uses_qresync in [false, true] {
            let connection = Connection::new(&run.worlds[0], Peer::local());
            let mut client = Client {
                connection,
                uses_qresync,
                server: 0,
                mailbox: 0,
                uid_validity: 0,
                modseq: 0,
                messages: BTreeMap::new(),
                loaded: 0,
            };
            client.connect(&run.worlds[0]);
            client.synchronize();
            run.clients.push(client);
        }
        run
    }

    /// Lets a server take over changes of the other one, up to a number of questions.
    fn pull(&mut self, target: usize, questions: usize) {
        let name = |number: usize| format!("CN=server{number}/O=Demo");
        let itself = Arc::new(Identity::local_server(name(target).as_str()));
        let other = Arc::new(Identity::local_server(name(1 - target).as_str()));
        let databases = self.worlds[target].databases();
        let database = databases.database_open(&world::path("alice")).expect("the mail file exists");
        let made = Target::new(databases, &database, &itself, &other);
        let mut pull = Pull::begin(made.expect("a server may")).expect("a sound store");
        let source = self.worlds[1 - target].databases().database_open(&world::path("alice"));
        let source = source.expect("the mail file exists");
        let access = source.authorize::<notes::level::Reader>(&itself).expect("a server may");
        for _ in 0..questions {
            let Some((number, question)) = pull.question() else { return };
            let reading = access.read().expect("a snapshot");
            let answer =
                answer_in_pages(&reading, &question, 4, &ReplicationSettings::default()).expect("a sound store");
            pull.take(number, answer).expect("a sound store");
        }
    }

    /// Saves a document without a message on a server, or creates it. Two servers can save it at the same time.
    fn save_document(&mut self, server: usize) {
        self.delivered += 1;
        let unid = Unid([1 + self.random.below(3) as u8; 16]);
        let merges = Item::text("$ConflictAction", if unid.0[0] == 1 { "1" } else { "" });
        let mut items = vec![Item::text("Subject", self.delivered.to_string()), merges];
        items.push(Item::text(format!("Item{}", self.random.below(3)), self.delivered.to_string()));
        let file = self.worlds[server].open_as_server("alice");
        let folder = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("a sound store");
        let folders = vec![folder.expect("it exists").id];
        let access: Access<level::Depositor> =
            file.database().authorize(&Arc::new(Identity::local_server(""))).expect("the server may");
        let accesses = [&access];
        let mut transaction = file.mail().databases().transaction(&accesses).expect("a sound store");
        let mut writer = transaction.writer(0);
        let stored = match writer.find(unid).expect("a sound store") {
            Some(note) => writer.header(note).expect("a sound store"),
            None => None,
        };
        match stored.filter(|header| !header.is_stub()) {
            Some(header) => drop(writer.note_update(header.note, header.revision(), &items, &[]).expect("it may")),
            None => {
                // One that was deleted stays so.
                let _ = writer.note_create(NewNote { unid: Some(unid), folders, ..NewNote::document(items) });
            }
        }
        transaction.commit().expect("a sound store");
    }

    fn step(&mut self) {
        let server = self.random.below(2) as usize;
        let index = self.random.below(self.clients.len() as u64) as usize;
        let mailbox = MAILBOXES[self.random.below(2) as usize];
        let kinds = if self.has_documents { 24 } else { 20 };
        match self.random.below(kinds) {
            20.. => self.save_document(server),
            0..4 => {
                self.delivered += 1;
                let raw = format!("Subject: {}\r\n\r\n", self.delivered);
                world::deliver(&self.worlds[server].open_as_server("alice"), raw.as_bytes());
            }
            4..7 => self.change(index, "STORE # +FLAGS (\\Flagged)"),
            7 => self.change(index, "STORE # -FLAGS (\\Flagged)"),
            8 => self.change(index, &format!("MOVE # {mailbox}")),
            9 => self.change(index, &format!("COPY # {mailbox}")),
            10 => {
                self.change(index, "STORE # +FLAGS.SILENT (\\Deleted)");
                self.clients[index].ask("EXPUNGE");
                self.clients[index].synchronize();
            }
            11..13 => self.pull(server, 1 + self.random.below(3) as usize),
            13..15 => self.pull(server, usize::MAX),
            15..18 => self.clients[index].notice(),
            18 => self.move_to(index, 1 - self.clients[index].server),
            _ => {
                let client = &mut self.clients[index];
                client.mailbox = 1 - client.mailbox;
                client.uid_validity = 0;
                client.messages.clear();
                client.synchronize();
            }
        }
    }

    /// Lets a client change one of its messages.
    fn change(&mut self, index: usize, line: &str) {
        self.clients[index].notice();
        let uids: Vec<u32> = self.clients[index].messages.keys().copied().collect();
        if uids.is_empty() {
            return;
        }
        let uid = uids[self.random.below(uids.len() as u64) as usize];
        self.clients[index].ask(&format!("UID {}", line.replace('#', &uid.to_string())));
        self.clients[index].synchronize();
    }

    /// Lets a client go on with another server.
    fn move_to(&mut self, index: usize, server: usize) {
        let client = &mut self.clients[index];
        client.server = server;
        client.connect(&self.worlds[server]);
        client.synchronize();
    }

    /// Lets the servers replicate until both are equal.
    fn settle(&mut self) {
        loop {
            let modseqs = |run: &Self| {
                let modseq = |world: &TestServer| world.open_as_server("alice").database().modseq();
                run.worlds.each_ref().map(modseq)
            };
            let before = modseqs(self);
            self.pull(0, usize::MAX);
            self.pull(1, usize::MAX);
            if before == modseqs(self) {
                return;
            }
        }
    }
}

#[test]
fn clients_find_what_they_know_on_the_other_server() {
    for seed in 0..SEEDS {
        play(seed, false);
    }
}

#[test]
fn a_uid_means_one_version_of_a_document_on_both_servers() {
    for seed in 0..SEEDS {
        play(seed, true);
    }
}

fn play(seed: u64, has_documents: bool) {
    let mut run = TwoServers { has_documents, ..TwoServers::new(seed) };
    for _ in 0..STEPS {
        run.step();
    }
    run.settle();
    for index in 0..run.clients.len() {
        run.clients[index].synchronize();
        let before = (run.clients[index].uid_validity, run.clients[index].messages.clone());
        let loaded = run.clients[index].loaded;
        for _ in 0..2 {
            run.move_to(index, 1 - run.clients[index].server);
            let client = &run.clients[index];
            assert_eq!((client.uid_validity, client.messages.clone()), before, "seed {seed}");
            assert_eq!(client.loaded, loaded, "seed {seed}: nothing is loaded again");
        }
    }
}

#[test]
fn modseqs_of_another_server_are_not_understood_as_own_ones() {
    let mut run = TwoServers::new(1);
    // The first server changes much, so its modseqs are far ahead of those of the second one.
    for number in 0..30 {
        world::deliver(&run.worlds[0].open_as_server("alice"), format!("Subject: {number}\r\n\r\n").as_bytes());
    }
    run.settle();
    for index in 0..2 {
        run.clients[index].synchronize();
    }
    run.worlds[1].clock.advance(std::time::Duration::from_secs(60));
    assert!(run.worlds[1].clock.now() > run.worlds[0].clock.now());
    let file = run.worlds[1].open_as_server("alice");
    let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("sound").expect("it exists").id;
    let flagged = mail::mailbox::FlagChange::Add(mail::mailbox::Flags::from_system_flags(notes::Marks::FLAGGED));
    file.store(inbox, &base::UidSet::from(1..=100), &flagged, None).expect("the flags are stored");
    assert!(file.database().modseq() < run.worlds[0].open_as_server("alice").database().modseq());
    run.move_to(1, 1);
    assert!(run.clients[1].messages.values().any(|message| message.flags.contains("\\Flagged")));
    // A conditional change with a modseq of the other server is refused.
    let uid = *run.clients[1].messages.keys().next().expect("it has messages");
    run.move_to(1, 0);
    let modseq = run.clients[1].modseq;
    run.move_to(1, 1);
    let line = format!("UID STORE {uid} (UNCHANGEDSINCE {modseq}) +FLAGS (\\Seen)");
    let response = run.clients[1].ask(&line);
    assert!(response.last().is_some_and(|last| last.contains("[MODIFIED ")), "{response:?}");
    let current = run.clients[1].modseq;
    let line = format!("UID STORE {uid} (UNCHANGEDSINCE {current}) +FLAGS (\\Seen)");
    let response = run.clients[1].ask(&line);
    assert!(response.last().is_some_and(|last| !last.contains("[MODIFIED ")), "{response:?}");
}
