//! Several clients against a model: whatever they do in whatever order, each can follow what happens to its mailbox.
//!
//! The model is two mailboxes as plain lists. A client keeps a mirror of the mailbox that it has selected, from nothing but what
//! the server tells it. After every command, what was told must fit the mirror and the model; after a NOOP the mirror must
//! be the mailbox, flags included. One client is plain, one knows CONDSTORE, one QRESYNC; the last leaves now and then
//! and comes back with what it knew.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use wire::Peer;

use crate::connection::Connection;
use crate::world::World;

const NAMES: [&str; 2] = ["INBOX", "Archive"];
const FLAGS: [&str; 4] = ["\\Seen", "\\Deleted", "\\Flagged", "Label"];

type Flags = BTreeSet<String>;

/// A mailbox of the model.
#[derive(Default)]
struct Mailbox {
    messages: BTreeMap<u32, Flags>,
    uid_next: u32,
}

impl Mailbox {
    fn add(&mut self, flags: Flags) -> u32 {
        self.uid_next += 1;
        self.messages.insert(self.uid_next, flags);
        self.uid_next
    }
}

/// What a client knows of a message: its UID from the first FETCH on, its flags, its mod-sequence.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    uid: u32,
    flags: Flags,
    modseq: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Condstore,
    Qresync,
}

struct Client {
    connection: Connection,
    kind: Kind,
    selected: usize,
    mirror: Vec<Known>,
    uid_validity: u32,
    /// Up to here the client knows everything.
    highest_modseq: u64,
    /// The latest of a FETCH. It counts only when nothing can be untold any more: a FETCH may come before the VANISHED of an earlier change.
    heard_modseq: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Append {
        mailbox: usize,
        flags: Vec<usize>,
    },
    /// By number or by UID; `+`, `-` or nothing; silent or not.
    Store {
        by_uid: bool,
        sign: &'static str,
        silent: bool,
        flags: Vec<usize>,
        picks: Vec<usize>,
    },
    Expunge,
    UidExpunge {
        picks: Vec<usize>,
    },
    Transfer {
        verb: &'static str,
        by_uid: bool,
        picks: Vec<usize>,
        target: usize,
    },
    Fetch {
        picks: Vec<usize>,
    },
    Noop,
    Select {
        mailbox: usize,
    },
}

fn picks() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0_usize..12, 1..4)
}

fn flags() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..FLAGS.len(), 0..3)
}

fn step() -> impl Strategy<Value = Step> {
    let sign = prop::sample::select(vec!["+", "-", ""]);
    let verb = prop::sample::select(vec!["COPY", "MOVE"]);
    prop_oneof![
        4 => (0..NAMES.len(), flags()).prop_map(|(mailbox, flags)| Step::Append { mailbox, flags }),
        6 => (any::<bool>(), sign, any::<bool>(), flags(), picks())
            .prop_map(|(by_uid, sign, silent, flags, picks)| Step::Store { by_uid, sign, silent, flags, picks }),
        2 => Just(Step::Expunge),
        1 => picks().prop_map(|picks| Step::UidExpunge { picks }),
        3 => (verb, any::<bool>(), picks(), 0..NAMES.len())
            .prop_map(|(verb, by_uid, picks, target)| Step::Transfer { verb, by_uid, picks, target }),
        2 => picks().prop_map(|picks| Step::Fetch { picks }),
        4 => Just(Step::Noop),
        1 => (0..NAMES.len()).prop_map(|mailbox| Step::Select { mailbox }),
    ]
}

struct Play {
    mailboxes: [Mailbox; 2],
    clients: Vec<Client>,
}

impl Play {
    fn new() -> Self {
        let world = World::new();
        let mut play = Self { mailboxes: Default::default(), clients: Vec::new() };
        for kind in [Kind::Plain, Kind::Condstore, Kind::Qresync] {
            let connection = Connection::new(&world, Peer::local());
            let mirror = Vec::new();
            let mut client =
                Client { connection, kind, selected: 0, mirror, uid_validity: 0, highest_modseq: 0, heard_modseq: 0 };
            client.send("LOGIN alice secret");
            match kind {
                Kind::Plain => {}
                Kind::Condstore => drop(client.send("ENABLE CONDSTORE")),
                Kind::Qresync => drop(client.send("ENABLE QRESYNC")),
            }
            play.clients.push(client);
            let index = play.clients.len() - 1;
            play.select(index, 0);
        }
        play
    }

    fn step(&mut self, index: usize, step: &Step) {
        match step {
            Step::Append { mailbox, flags } => {
                let flags = names(flags);
                let line = format!("APPEND {} ({}) {{1+}}\r\nx", NAMES[*mailbox], join(&flags));
                let said = self.command(index, &line);
                let uid = self.mailboxes[*mailbox].add(flags);
                let code = format!("[APPENDUID {} {uid}]", self.validity(*mailbox, &said));
                assert!(said.last().is_some_and(|line| line.contains(&code)), "{said:?} lacks {code}");
                self.hear(index, &said);
            }
            Step::Store { by_uid, sign, silent, flags, picks } => {
                self.store(index, (*by_uid, *silent), sign, &names(flags), picks)
            }
            Step::Expunge => {
                let said = self.command(index, "EXPUNGE");
                self.selected(index).messages.retain(|_, flags| !flags.contains("\\Deleted"));
                self.hear(index, &said);
                self.check_mirror(index);
            }
            Step::UidExpunge { picks } => {
                let Some((set, uids)) = self.pick(index, picks, true) else { return };
                let said = self.command(index, &format!("UID EXPUNGE {set}"));
                let doomed = |uid: &u32, flags: &Flags| uids.contains(uid) && flags.contains("\\Deleted");
                self.selected(index).messages.retain(|uid, flags| !doomed(uid, flags));
                self.hear(index, &said);
                self.check_mirror(index);
            }
            Step::Transfer { verb, by_uid, picks, target } => self.transfer(index, (verb, *by_uid), picks, *target),
            Step::Fetch { picks } => {
                let Some((set, _)) = self.pick(index, picks, false) else { return };
                let said = self.command(index, &format!("FETCH {set} (UID FLAGS)"));
                assert!(said.iter().all(|line| !line.ends_with(" EXPUNGE") && !line.contains("VANISHED")), "{said:?}");
                self.hear(index, &said);
            }
            Step::Noop => self.noop(index),
            Step::Select { mailbox } => self.select(index, *mailbox),
        }
    }

    fn store(&mut self, index: usize, (by_uid, silent): (bool, bool), sign: &str, flags: &Flags, picks: &[usize]) {
        let Some((set, uids)) = self.pick(index, picks, by_uid) else { return };
        let (uid, dot) = (if by_uid { "UID " } else { "" }, if silent { ".SILENT" } else { "" });
        let said = self.command(index, &format!("{uid}STORE {set} {sign}FLAGS{dot} ({})", join(flags)));
        let change = |old: &mut Flags| match sign {
            "+" => old.extend(flags.iter().cloned()),
            "-" => old.retain(|flag| !flags.contains(flag)),
            _ => old.clone_from(flags),
        };
        let messages = self.selected(index).messages.iter_mut();
        messages.filter(|(uid, _)| uids.contains(uid)).for_each(|(_, flags)| change(flags));
        self.hear(index, &said);
        // A client that asked for silence does itself what it asked for, once it is told that it is done.
        if silent {
            let mirror = &mut self.clients[index].mirror;
            mirror.iter_mut().filter(|known| uids.contains(&known.uid)).for_each(|known| change(&mut known.flags));
        }
    }

    fn transfer(&mut self, index: usize, (verb, by_uid): (&str, bool), picks: &[usize], target: usize) {
        let Some((set, uids)) = self.pick(index, picks, by_uid) else { return };
        let uid = if by_uid { "UID " } else { "" };
        let line = format!("{uid}{verb} {set} {}", NAMES[target]);
        let mailbox = self.selected(index);
        if !by_uid && uids.iter().any(|uid| !mailbox.messages.contains_key(uid)) {
            // By number all or none; what the client was not told is gone is no reason to copy the rest.
            let said = self.clients[index].ask(&line);
            assert!(said.last().is_some_and(|last| last.starts_with("t NO [EXPUNGEISSUED] ")), "{line}: {said:?}");
            return self.hear(index, &said);
        }
        let said = self.command(index, &line);
        let mailbox = self.selected(index);
        let taken: Vec<(u32, Flags)> =
            uids.iter().filter_map(|uid| Some((*uid, mailbox.messages.get(uid)?.clone()))).collect();
        if verb == "MOVE" {
            taken.iter().for_each(|(uid, _)| drop(mailbox.messages.remove(uid)));
        }
        let new: Vec<u32> = taken.iter().map(|(_, flags)| self.mailboxes[target].add(flags.clone())).collect();
        if let (Some(first), Some(last)) = (new.first(), new.last()) {
            let end = if first == last { format!(" {last}]") } else { format!(" {first}:{last}]") };
            assert!(said.iter().any(|line| line.contains("[COPYUID ") && line.contains(&end)), "{said:?} lacks {end}");
        }
        self.hear(index, &said);
    }

    fn noop(&mut self, index: usize) {
        let said = self.command(index, "NOOP");
        self.hear(index, &said);
        self.check_mirror(index);
    }

    /// Selects a mailbox and reads it; with QRESYNC, and when it is the same as before, from what is known.
    fn select(&mut self, index: usize, mailbox: usize) {
        let client = &mut self.clients[index];
        let comes_back = client.kind == Kind::Qresync && client.selected == mailbox && client.uid_validity > 0;
        if comes_back {
            let line =
                format!("SELECT {} (QRESYNC ({} {}))", NAMES[mailbox], client.uid_validity, client.highest_modseq);
            let said = client.send(&line);
            client.come_back(&said);
        } else {
            client.selected = mailbox;
            let said = client.send(&format!("SELECT {}", NAMES[mailbox]));
            client.begin(&said);
            let said = client.send("UID FETCH 1:* (FLAGS)");
            self.hear(index, &said);
        }
        self.check_mirror(index);
    }

    /// Chooses messages of the client's mirror; gives the set to send and the UIDs meant.
    fn pick(&self, index: usize, picks: &[usize], by_uid: bool) -> Option<(String, BTreeSet<u32>)> {
        let mirror = &self.clients[index].mirror;
        let places: BTreeSet<usize> = picks.iter().map(|pick| pick.checked_rem(mirror.len())).collect::<Option<_>>()?;
        let uids: BTreeSet<u32> = places.iter().map(|place| mirror[*place].uid).collect();
        let numbers: Vec<String> = if by_uid {
            uids.iter().map(u32::to_string).collect()
        } else {
            places.iter().map(|place| (place + 1).to_string()).collect()
        };
        Some((numbers.join(","), uids))
    }

    fn command(&mut self, index: usize, line: &str) -> Vec<String> {
        self.clients[index].send(line)
    }

    fn selected(&mut self, index: usize) -> &mut Mailbox {
        &mut self.mailboxes[self.clients[index].selected]
    }

    /// Lets a client hear untagged responses, checks them, and has it ask for messages that are new to it.
    fn hear(&mut self, index: usize, said: &[String]) {
        let client = &mut self.clients[index];
        let mailbox = &self.mailboxes[client.selected];
        said.iter().for_each(|line| client.hear(line, mailbox));
        if let Some(first) = client.mirror.iter().position(|known| known.uid == 0) {
            let said = client.send(&format!("FETCH {}:* (UID FLAGS)", first + 1));
            self.hear(index, &said);
        }
    }

    /// The client was told everything: its mirror must be the mailbox.
    fn check_mirror(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.highest_modseq = client.highest_modseq.max(client.heard_modseq);
        let mirror: Vec<(u32, &Flags)> = client.mirror.iter().map(|known| (known.uid, &known.flags)).collect();
        let mailbox = &self.mailboxes[client.selected];
        let expected: Vec<(u32, &Flags)> = mailbox.messages.iter().map(|(uid, flags)| (*uid, flags)).collect();
        assert_eq!(mirror, expected, "client {index} ({:?})", client.kind);
    }

    fn validity(&self, mailbox: usize, said: &[String]) -> String {
        let known = self.clients.iter().find(|client| client.selected == mailbox).map(|client| client.uid_validity);
        known.filter(|validity| *validity > 0).map_or_else(
            || after(&said.join("\n"), "[APPENDUID ").unwrap_or_default().to_string(),
            |validity| validity.to_string(),
        )
    }
}

impl Client {
    /// Sends a command and takes the answer; it must end with OK.
    fn send(&mut self, line: &str) -> Vec<String> {
        let said = self.ask(line);
        assert!(said.last().is_some_and(|last| last.starts_with("t OK ")), "{line}: {said:?}");
        said
    }

    /// Sends a command and takes the answer, whatever it is.
    fn ask(&mut self, line: &str) -> Vec<String> {
        self.connection.receive(format!("t {line}\r\n").as_bytes());
        self.connection.said.drain(..).collect()
    }

    fn begin(&mut self, said: &[String]) {
        self.mirror.clear();
        for line in said {
            self.uid_validity = after(line, "[UIDVALIDITY ").map_or(self.uid_validity, narrow);
            self.highest_modseq = after(line, "[HIGHESTMODSEQ ").unwrap_or(self.highest_modseq);
            if line.ends_with(" EXISTS") {
                self.mirror.resize(first_number(line), Known::default());
            }
        }
    }

    /// Takes what SELECT with QRESYNC tells: what vanished, what is new or changed.
    fn come_back(&mut self, said: &[String]) {
        let mut exists = 0;
        for line in said {
            self.highest_modseq = after(line, "[HIGHESTMODSEQ ").unwrap_or(self.highest_modseq);
            if line.ends_with(" EXISTS") {
                exists = first_number(line);
            }
            if let Some(set) = line.strip_prefix("* VANISHED (EARLIER) ") {
                let gone = members(set);
                self.mirror.retain(|known| !gone.contains(&known.uid));
            }
            if line.contains(" FETCH (") {
                let told = Known::of(line);
                self.mirror.retain(|known| known.uid != told.uid);
                self.mirror.push(told);
                self.mirror.sort_by_key(|known| known.uid);
                assert!(self.mirror.len() <= exists, "{said:?}");
            }
        }
        assert_eq!(self.mirror.len(), exists, "{said:?}");
    }

    /// Takes an untagged response that may come at any time.
    fn hear(&mut self, line: &str, mailbox: &Mailbox) {
        if line.ends_with(" EXISTS") {
            let count = first_number(line);
            assert!(count >= self.mirror.len(), "messages disappear by EXPUNGE only: {line}");
            self.mirror.resize(count, Known::default());
        } else if line.ends_with(" EXPUNGE") {
            assert_ne!(self.kind, Kind::Qresync, "{line}");
            let gone = self.mirror.remove(first_number(line) - 1);
            assert!(!mailbox.messages.contains_key(&gone.uid), "{} is still there", gone.uid);
        } else if let Some(set) = line.strip_prefix("* VANISHED ") {
            assert_eq!(self.kind, Kind::Qresync, "{line}");
            for uid in members(set) {
                assert!(!mailbox.messages.contains_key(&uid), "{uid} is still there");
                self.mirror.retain(|known| known.uid != uid);
            }
        } else if line.contains(" FETCH (") {
            self.hear_fetch(line);
        } else if let Some(modseq) = after(line, "[HIGHESTMODSEQ ") {
            assert!(modseq >= self.highest_modseq, "the mod-sequence fell: {line}");
        }
    }

    fn hear_fetch(&mut self, line: &str) {
        let number = first_number(line);
        let told = Known::of(line);
        let known = self.mirror.get_mut(number - 1).unwrap_or_else(|| panic!("no such number: {line}"));
        if told.uid > 0 {
            assert!(known.uid == 0 || known.uid == told.uid, "numbers moved: {known:?}, {line}");
            known.uid = told.uid;
        }
        assert!(told.modseq == 0 || told.modseq >= known.modseq, "the mod-sequence fell: {known:?}, {line}");
        known.modseq = known.modseq.max(told.modseq);
        self.heard_modseq = self.heard_modseq.max(told.modseq);
        if line.contains("FLAGS (") {
            known.flags = told.flags;
        }
    }
}

impl Known {
    /// Reads `* n FETCH (UID u FLAGS (...) MODSEQ (m))`.
    fn of(line: &str) -> Self {
        let flags =
            line.split_once("FLAGS (").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(flags, _)| flags);
        let flags = flags.split(' ').filter(|flag| !flag.is_empty() && *flag != "\\Recent");
        Self {
            uid: after(line, "UID ").map_or(0, narrow),
            flags: flags.map(str::to_owned).collect(),
            modseq: after(line, "MODSEQ (").unwrap_or(0),
        }
    }
}

fn names(flags: &[usize]) -> Flags {
    flags.iter().map(|flag| FLAGS[*flag].to_owned()).collect()
}

fn join(flags: &Flags) -> String {
    flags.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn after(line: &str, mark: &str) -> Option<u64> {
    let rest = line.split_once(mark)?.1;
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn first_number(line: &str) -> usize {
    after(line, "* ").and_then(|number| usize::try_from(number).ok()).unwrap_or_else(|| panic!("no number: {line}"))
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("UIDs have 32 bits")
}

fn members(set: &str) -> BTreeSet<u32> {
    let number = |text: &str| text.parse::<u32>().expect("sets hold numbers");
    set.split(',')
        .flat_map(|range| {
            range.split_once(':').map_or_else(|| number(range)..=number(range), |(a, b)| number(a)..=number(b))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn every_client_can_follow_what_happens(steps in prop::collection::vec((0_usize..3, step()), 1..60)) {
        let mut play = Play::new();
        for (index, step) in &steps {
            play.step(*index, step);
        }
        (0..3).for_each(|index| play.noop(index));
    }
}
