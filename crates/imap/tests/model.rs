//! Tests several clients against a model: whatever they do in whatever order, each client can follow the changes of its
//! mailbox.
//!
//! The model is three mailboxes as plain lists. The third is deleted, recreated and renamed while it is in use. Another
//! protocol puts messages into further mailboxes: they share all flags but `\Deleted`, and leave each one by itself. A
//! client keeps a mirror of its selected mailbox, built only from the server's output. After every command, the output
//! must fit the mirror and the model. After a NOOP the mirror must equal the mailbox, including flags. One client is
//! plain, one uses CONDSTORE, and one uses QRESYNC. The last one leaves now and then and comes back with the state that
//! it knew.

use std::collections::{BTreeMap, BTreeSet};

use base::Uid;
use mail::mailbox::PlaceChange;
use proptest::prelude::*;
use wire::Peer;

use crate::connection::Connection;
use crate::world::{self, TestServer};

const NAMES: [&str; 3] = ["INBOX", "Archive", "Plan"];
/// Index of the mailbox that is deleted, recreated and renamed during the test. Its alternative name follows.
const VOLATILE_MAILBOX: usize = 2;
const OTHER_NAME: &str = "Project";
const FLAGS: [&str; 4] = ["\\Seen", "\\Deleted", "\\Flagged", "Label"];

type Flags = BTreeSet<String>;

/// A mailbox of the model.
struct Mailbox {
    name: &'static str,
    messages: BTreeMap<u32, Flags>,
    uid_next: u32,
    /// Its UIDVALIDITY, once the server has reported it.
    validity: Option<u32>,
    /// The largest UIDVALIDITY of a deleted mailbox with this name.
    past_validity: u32,
}

impl Mailbox {
    fn new(name: &'static str) -> Self {
        Self { name, messages: BTreeMap::new(), uid_next: 0, validity: None, past_validity: 0 }
    }

    /// Checks a UIDVALIDITY that the server reported: it is unchanged or, in a recreated mailbox, larger than before.
    fn check_uid_validity(&mut self, validity: u32) {
        assert!(validity > self.past_validity, "{validity} is not larger than the earlier {}", self.past_validity);
        assert_eq!(*self.validity.get_or_insert(validity), validity);
    }

    /// Records that the mailbox was deleted and recreated.
    fn recreate(&mut self) {
        *self = Self { past_validity: self.validity.unwrap_or(self.past_validity), ..Self::new(self.name) };
    }

    fn add(&mut self, flags: Flags) -> u32 {
        self.uid_next += 1;
        self.messages.insert(self.uid_next, flags);
        self.uid_next
    }
}

/// A client's knowledge of a message: its UID (from the first FETCH on), its flags, and its mod-sequence.
#[derive(Clone, Debug, Default, PartialEq)]
struct MirroredMessage {
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

impl Kind {
    fn attributes(self) -> &'static str {
        if self == Self::Plain { "UID FLAGS" } else { "UID FLAGS MODSEQ" }
    }
}

struct Client {
    connection: Connection,
    kind: Kind,
    selected: usize,
    mirror: Vec<MirroredMessage>,
    uid_validity: u32,
    /// Mod-sequence up to which the client knows all changes.
    highest_modseq: u64,
}

#[derive(Clone, Debug)]
enum Step {
    /// Appends one message or several.
    Append {
        mailbox: usize,
        flags: Vec<Vec<usize>>,
    },
    /// The router delivers a message to the inbox.
    Deliver,
    /// Another protocol puts a message into a further mailbox, and may take it out of its first one.
    Place {
        mailbox: usize,
        pick: usize,
        target: usize,
        leaves: bool,
    },
    /// Deletes and recreates the third mailbox. Clients that have it selected learn of this with the given command.
    DeleteAndCreate {
        noticing_command: &'static str,
    },
    Rename,
    Replace {
        by_uid: bool,
        pick: usize,
        target: usize,
        flags: Vec<usize>,
    },
    /// Changes flags by sequence number or by UID, with `+`, `-` or no sign, silently or not. If `unchanged` is set,
    /// only messages that have not changed since the mod-sequence known for the first of them.
    Store {
        by_uid: bool,
        unchanged: bool,
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
    let noticing_command = prop::sample::select(vec![
        "NOOP",
        "FETCH 1:* FLAGS",
        "UID STORE 1:* +FLAGS (\\Seen)",
        "SEARCH ALL",
        "EXPUNGE",
        "APPEND INBOX {1+}\r\nx",
        "UID MOVE 1:* Archive",
    ]);
    prop_oneof![
        4 => (0..NAMES.len(), prop::collection::vec(flags(), 1..4))
            .prop_map(|(mailbox, flags)| Step::Append { mailbox, flags }),
        2 => Just(Step::Deliver),
        4 => (0..NAMES.len(), 0_usize..12, 0..NAMES.len(), any::<bool>())
            .prop_map(|(mailbox, pick, target, leaves)| Step::Place { mailbox, pick, target, leaves }),
        1 => noticing_command.prop_map(|noticing_command| Step::DeleteAndCreate { noticing_command }),
        1 => Just(Step::Rename),
        2 => (any::<bool>(), 0_usize..12, 0..NAMES.len(), flags())
            .prop_map(|(by_uid, pick, target, flags)| Step::Replace { by_uid, pick, target, flags }),
        6 => (any::<bool>(), any::<bool>(), sign, any::<bool>(), flags(), picks())
            .prop_map(|(by_uid, unchanged, sign, silent, flags, picks)| {
                Step::Store { by_uid, unchanged, sign, silent, flags, picks }
            }),
        2 => Just(Step::Expunge),
        1 => picks().prop_map(|picks| Step::UidExpunge { picks }),
        3 => (verb, any::<bool>(), picks(), 0..NAMES.len())
            .prop_map(|(verb, by_uid, picks, target)| Step::Transfer { verb, by_uid, picks, target }),
        2 => picks().prop_map(|picks| Step::Fetch { picks }),
        4 => Just(Step::Noop),
        1 => (0..NAMES.len()).prop_map(|mailbox| Step::Select { mailbox }),
    ]
}

struct ModelRun {
    world: TestServer,
    mailboxes: [Mailbox; 3],
    /// The messages that have been in several mailboxes: their mailboxes, with their UIDs there.
    shared: Vec<BTreeMap<usize, u32>>,
    clients: Vec<Client>,
    /// A connection that reads the actual mod-sequences of messages.
    observer: Connection,
}

impl ModelRun {
    fn new() -> Self {
        let world = TestServer::new();
        let mut observer = Connection::new(&world, Peer::local());
        observer.receive(format!("o LOGIN alice secret\r\no CREATE {}\r\n", NAMES[VOLATILE_MAILBOX]).as_bytes());
        let mailboxes = NAMES.map(Mailbox::new);
        let mut run = Self { world, mailboxes, shared: Vec::new(), clients: Vec::new(), observer };
        for kind in [Kind::Plain, Kind::Condstore, Kind::Qresync] {
            let connection = Connection::new(&run.world, Peer::local());
            let mirror = Vec::new();
            let mut client = Client { connection, kind, selected: 0, mirror, uid_validity: 0, highest_modseq: 0 };
            client.log_in();
            run.clients.push(client);
            let index = run.clients.len() - 1;
            run.select(index, 0);
        }
        run
    }

    fn step(&mut self, index: usize, step: &Step) {
        for places in &mut self.shared {
            places.retain(|mailbox, uid| self.mailboxes[*mailbox].messages.contains_key(uid));
        }
        match step {
            Step::Append { mailbox, flags } => {
                let flags: Vec<Flags> = flags.iter().map(|flags| names(flags)).collect();
                let messages: String = flags.iter().map(|flags| format!(" ({}) {{1+}}\r\nx", join(flags))).collect();
                let line = format!("APPEND {}{messages}", self.mailboxes[*mailbox].name);
                let response = self.command(index, &line);
                let new: Vec<u32> = flags.into_iter().map(|flags| self.mailboxes[*mailbox].add(flags)).collect();
                self.check_new(*mailbox, &response, &new);
                self.process_response(index, &response);
            }
            Step::Deliver => {
                world::deliver(&self.world.open_as_server("alice"), b"x");
                self.mailboxes[0].add(Flags::new());
            }
            Step::Place { mailbox, pick, target, leaves } => self.place(*mailbox, *pick, *target, *leaves),
            Step::DeleteAndCreate { noticing_command } => self.delete_and_create(index, noticing_command),
            Step::Rename => {
                let old = self.mailboxes[VOLATILE_MAILBOX].name;
                let new = if old == OTHER_NAME { NAMES[VOLATILE_MAILBOX] } else { OTHER_NAME };
                let response = self.command(index, &format!("RENAME {old} {new}"));
                self.mailboxes[VOLATILE_MAILBOX].name = new;
                self.process_response(index, &response);
            }
            Step::Replace { by_uid, pick, target, flags } => {
                self.replace(index, (*by_uid, *pick), *target, names(flags))
            }
            Step::Store { by_uid, unchanged, sign, silent, flags, picks } => {
                self.store(index, (*by_uid, *unchanged, *silent), sign, &names(flags), picks)
            }
            Step::Expunge => {
                let response = self.command(index, "EXPUNGE");
                self.selected(index).messages.retain(|_, flags| !flags.contains("\\Deleted"));
                self.process_response(index, &response);
                self.check_mirror(index);
            }
            Step::UidExpunge { picks } => {
                let Some((set, uids)) = self.pick(index, picks, true) else { return };
                let response = self.command(index, &format!("UID EXPUNGE {set}"));
                let doomed = |uid: &u32, flags: &Flags| uids.contains(uid) && flags.contains("\\Deleted");
                self.selected(index).messages.retain(|uid, flags| !doomed(uid, flags));
                self.process_response(index, &response);
                self.check_mirror(index);
            }
            Step::Transfer { verb, by_uid, picks, target } => self.transfer(index, (verb, *by_uid), picks, *target),
            Step::Fetch { picks } => {
                let Some((set, _)) = self.pick(index, picks, false) else { return };
                let response = self.command(index, &format!("FETCH {set} (UID FLAGS)"));
                assert!(
                    response.iter().all(|line| !line.ends_with(" EXPUNGE") && !line.contains("VANISHED")),
                    "{response:?}"
                );
                self.process_response(index, &response);
            }
            Step::Noop => self.noop(index),
            Step::Select { mailbox } => self.select(index, *mailbox),
        }
    }

    fn store(
        &mut self,
        index: usize,
        (by_uid, unchanged, silent): (bool, bool, bool),
        sign: &str,
        flags: &Flags,
        picks: &[usize],
    ) {
        let Some((set, mut uids)) = self.pick(index, picks, by_uid) else { return };
        let uid = if by_uid { "UID " } else { "" };
        let dot = if silent { ".SILENT" } else { "" };
        let line = |condition: &str| format!("{uid}STORE {set}{condition} {sign}FLAGS{dot} ({})", join(flags));
        let first =
            self.clients[index].mirror.iter().find(|known| uids.contains(&known.uid)).map_or(0, |known| known.modseq);
        let response = if unchanged && first > 0 && self.clients[index].kind != Kind::Plain {
            let numbers = self.clients[index].numbers();
            let changed = self.changed_since(self.clients[index].selected, first);
            let response = self.command(index, &line(&format!(" (UNCHANGEDSINCE {first})")));
            let failed: BTreeSet<u32> = uids.intersection(&changed).copied().collect();
            let modified = response
                .last()
                .and_then(|last| last.split_once("[MODIFIED "))
                .and_then(|(_, rest)| rest.split_once(']'));
            let modified = modified.map_or_else(BTreeSet::new, |(set, _)| members(set));
            let expected = failed.iter().map(|uid| if by_uid { *uid } else { numbers[uid] }).collect();
            assert_eq!(modified, expected, "{response:?}");
            uids.retain(|uid| !failed.contains(uid));
            response
        } else {
            self.command(index, &line(""))
        };
        let change = |old: &mut Flags| match sign {
            "+" => old.extend(flags.iter().cloned()),
            "-" => old.retain(|flag| !flags.contains(flag)),
            _ => old.clone_from(flags),
        };
        let messages = self.selected(index).messages.iter_mut();
        messages.filter(|(uid, _)| uids.contains(uid)).for_each(|(_, flags)| change(flags));
        self.share_flags(self.clients[index].selected, &uids);
        self.process_response(index, &response);
        // A client that stores silently applies the change itself, once the command has succeeded.
        if silent {
            let mirror = &mut self.clients[index].mirror;
            mirror.iter_mut().filter(|known| uids.contains(&known.uid)).for_each(|known| change(&mut known.flags));
        }
    }

    /// Copies the flags of messages in a mailbox, except `\Deleted`, to their places in other mailboxes.
    fn share_flags(&mut self, mailbox: usize, uids: &BTreeSet<u32>) {
        for places in &self.shared {
            let Some(uid) = places.get(&mailbox).filter(|uid| uids.contains(uid)) else { continue };
            let Some(flags) = self.mailboxes[mailbox].messages.get(uid).cloned() else { continue };
            for (other, uid) in places.iter().filter(|(other, _)| **other != mailbox) {
                if let Some(known) = self.mailboxes[*other].messages.get_mut(uid) {
                    known.retain(|flag| flag == "\\Deleted");
                    known.extend(flags.iter().filter(|flag| *flag != "\\Deleted").cloned());
                }
            }
        }
    }

    /// Returns the places of a message, which are then recorded.
    fn places_of(&mut self, mailbox: usize, uid: u32) -> &mut BTreeMap<usize, u32> {
        let found = self.shared.iter().position(|places| places.get(&mailbox) == Some(&uid));
        let index = found.unwrap_or_else(|| {
            self.shared.push(BTreeMap::from([(mailbox, uid)]));
            self.shared.len() - 1
        });
        &mut self.shared[index]
    }

    /// Puts a message into a further mailbox, as JMAP does.
    fn place(&mut self, mailbox: usize, pick: usize, target: usize, leaves: bool) {
        let messages = &self.mailboxes[mailbox].messages;
        let Some(index) = pick.checked_rem(messages.len()).filter(|_| mailbox != target) else { return };
        let Some((uid, flags)) = messages.iter().nth(index).map(|(uid, flags)| (*uid, flags.clone())) else { return };
        let file = self.world.open_as_server("alice");
        let snapshot = file.snapshot().expect("a snapshot");
        let [source, added] = [mailbox, target].map(|index| {
            let folder = snapshot.folder(self.mailboxes[index].name).expect("a lookup");
            folder.expect("the mailbox exists").id
        });
        let note = snapshot.entry(source, Uid(uid)).expect("a lookup").expect("the message exists").note;
        drop(snapshot);
        let remove = if leaves { vec![source] } else { Vec::new() };
        let outcome = file.set_places(&[PlaceChange { note, add: vec![added], remove }]).expect("the store works");
        file.durable(outcome.ticket).wait().expect("the store works");
        if !self.places_of(mailbox, uid).contains_key(&target) {
            let flags = flags.into_iter().filter(|flag| flag != "\\Deleted").collect();
            let new = self.mailboxes[target].add(flags);
            self.places_of(mailbox, uid).insert(target, new);
        }
        if leaves {
            self.places_of(mailbox, uid).remove(&mailbox);
            self.mailboxes[mailbox].messages.remove(&uid);
        }
    }

    /// Moves a message of the model, and returns its new UID. If it is in the target already, that place ends.
    fn move_message(&mut self, mailbox: usize, uid: u32, target: usize) -> u32 {
        let flags = self.mailboxes[mailbox].messages.remove(&uid).unwrap_or_default();
        let mut places = std::mem::take(self.places_of(mailbox, uid));
        places.remove(&mailbox);
        if let Some(old) = places.remove(&target) {
            self.mailboxes[target].messages.remove(&old);
        }
        let new = self.mailboxes[target].add(flags);
        places.insert(target, new);
        self.shared.push(places);
        new
    }

    /// Replaces a message, which may have vanished, by a new one.
    fn replace(&mut self, index: usize, (by_uid, pick): (bool, usize), target: usize, flags: Flags) {
        let Some((set, uids)) = self.pick(index, &[pick], by_uid) else { return };
        let uid = if by_uid { "UID " } else { "" };
        let line = format!("{uid}REPLACE {set} {} ({}) {{1+}}\r\nx", self.mailboxes[target].name, join(&flags));
        let old = uids.first().copied().filter(|uid| self.selected(index).messages.contains_key(uid));
        let Some(old) = old else {
            let response = self.clients[index].ask(&line);
            assert!(
                response.last().is_some_and(|last| last.starts_with("t NO [NONEXISTENT] ")),
                "{line}: {response:?}"
            );
            return self.process_response(index, &response);
        };
        let response = self.command(index, &line);
        self.selected(index).messages.remove(&old);
        let new = self.mailboxes[target].add(flags);
        self.check_new(target, &response, &[new]);
        self.process_response(index, &response);
    }

    /// Deletes and recreates the third mailbox. Other clients that have it selected receive BYE and reconnect.
    fn delete_and_create(&mut self, index: usize, noticing_command: &str) {
        let name = self.mailboxes[VOLATILE_MAILBOX].name;
        let response = self.command(index, &format!("DELETE {name}"));
        self.process_response(index, &response);
        let response = self.command(index, &format!("CREATE {name}"));
        self.mailboxes[VOLATILE_MAILBOX].recreate();
        if self.clients[index].selected == VOLATILE_MAILBOX {
            self.clients[index].mirror.clear();
            self.clients[index].uid_validity = 0;
            self.select(index, VOLATILE_MAILBOX);
        } else {
            self.process_response(index, &response);
        }
        for other in (0..self.clients.len()).filter(|other| *other != index) {
            if self.clients[other].selected != VOLATILE_MAILBOX {
                continue;
            }
            let response = self.clients[other].ask(noticing_command);
            assert!(response.last().is_some_and(|last| last.starts_with("* BYE ")), "{noticing_command}: {response:?}");
            if noticing_command.starts_with("APPEND") {
                // APPEND was complete before the selected mailbox was accessed.
                self.mailboxes[0].add(Flags::new());
            }
            self.reconnect_after_recreation(other);
        }
    }

    /// Reconnects a client that believes to know the mailbox.
    fn reconnect_after_recreation(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.connection = Connection::new(&self.world, Peer::local());
        client.log_in();
        let name = self.mailboxes[VOLATILE_MAILBOX].name;
        if client.kind == Kind::Qresync && client.uid_validity > 0 {
            let line = format!("SELECT {name} (QRESYNC ({} {}))", client.uid_validity, client.highest_modseq);
            let response = client.send(&line);
            assert!(!response.iter().any(|line| line.contains("VANISHED") || line.contains("FETCH")), "{response:?}");
        }
        client.uid_validity = 0;
        self.select(index, VOLATILE_MAILBOX);
    }

    /// Returns the messages of a mailbox that have changed since a mod-sequence.
    fn changed_since(&mut self, mailbox: usize, modseq: u64) -> BTreeSet<u32> {
        let name = self.mailboxes[mailbox].name;
        self.observer.lines.clear();
        self.observer.receive(format!("o EXAMINE {name}\r\no UID FETCH 1:* (MODSEQ)\r\n").as_bytes());
        let response = self.observer.lines.drain(..).filter(|line| line.contains(" FETCH (UID"));
        let changed = response.filter(|line| after(line, "MODSEQ (").is_some_and(|own| own > modseq));
        changed.map(|line| after(&line, "UID ").map_or(0, narrow)).collect()
    }

    /// Checks that new messages have the expected UIDs and that their mailbox has the expected UIDVALIDITY.
    fn check_new(&mut self, mailbox: usize, response: &[String], uids: &[u32]) {
        let line = response.iter().find(|line| line.contains("[APPENDUID ")).unwrap_or_else(|| panic!("{response:?}"));
        let (_, code) = line.split_once("[APPENDUID ").unwrap_or_default();
        let (validity, set) = code.split_once(']').unwrap_or_default().0.split_once(' ').unwrap_or_default();
        assert_eq!(members(set), uids.iter().copied().collect(), "{line}");
        self.mailboxes[mailbox].check_uid_validity(validity.parse().expect("UIDVALIDITY is a number"));
    }

    fn transfer(&mut self, index: usize, (verb, by_uid): (&str, bool), picks: &[usize], target: usize) {
        let Some((set, uids)) = self.pick(index, picks, by_uid) else { return };
        let uid = if by_uid { "UID " } else { "" };
        let line = format!("{uid}{verb} {set} {}", self.mailboxes[target].name);
        let mailbox = self.selected(index);
        if !by_uid && uids.iter().any(|uid| !mailbox.messages.contains_key(uid)) {
            // By sequence number, the command applies to all messages or to none. This also holds if a message has
            // vanished without a report to the client.
            let response = self.clients[index].ask(&line);
            assert!(
                response.last().is_some_and(|last| last.starts_with("t NO [EXPUNGEISSUED] ")),
                "{line}: {response:?}"
            );
            return self.process_response(index, &response);
        }
        let response = self.command(index, &line);
        let mailbox = self.selected(index);
        let taken: Vec<(u32, Flags)> =
            uids.iter().filter_map(|uid| Some((*uid, mailbox.messages.get(uid)?.clone()))).collect();
        let source = self.clients[index].selected;
        let mut new = Vec::new();
        for (uid, flags) in taken {
            new.push(match verb {
                "MOVE" => self.move_message(source, uid, target),
                _ => self.mailboxes[target].add(flags),
            });
        }
        if let (Some(first), Some(last)) = (new.first(), new.last()) {
            let end = if first == last { format!(" {last}]") } else { format!(" {first}:{last}]") };
            assert!(
                response.iter().any(|line| line.contains("[COPYUID ") && line.contains(&end)),
                "{response:?} lacks {end}"
            );
        }
        self.process_response(index, &response);
    }

    fn noop(&mut self, index: usize) {
        let response = self.command(index, "NOOP");
        self.process_response(index, &response);
        self.check_mirror(index);
    }

    /// Selects a mailbox and reads it. With QRESYNC and the same mailbox as before, starts from the state that the
    /// client knows.
    fn select(&mut self, index: usize, mailbox: usize) {
        let name = self.mailboxes[mailbox].name;
        let client = &mut self.clients[index];
        let comes_back = client.kind == Kind::Qresync && client.selected == mailbox && client.uid_validity > 0;
        if comes_back {
            let line = format!("SELECT {name} (QRESYNC ({} {}))", client.uid_validity, client.highest_modseq);
            let response = client.send(&line);
            client.resynchronize(&response);
        } else {
            client.selected = mailbox;
            let response = client.send(&format!("SELECT {name}"));
            client.begin(&response);
            self.mailboxes[mailbox].check_uid_validity(client.uid_validity);
            let response = client.send(&format!("UID FETCH 1:* ({})", client.kind.attributes()));
            self.process_response(index, &response);
        }
        self.check_mirror(index);
    }

    /// Chooses messages of the client's mirror. Returns the set to send and the UIDs that it denotes, or `None` if the
    /// mirror is empty.
    fn pick(&self, index: usize, picks: &[usize], by_uid: bool) -> Option<(String, BTreeSet<u32>)> {
        let mirror = &self.clients[index].mirror;
        let positions: BTreeSet<usize> =
            picks.iter().map(|pick| pick.checked_rem(mirror.len())).collect::<Option<_>>()?;
        let uids: BTreeSet<u32> = positions.iter().map(|position| mirror[*position].uid).collect();
        let numbers: Vec<String> = if by_uid {
            uids.iter().map(u32::to_string).collect()
        } else {
            positions.iter().map(|position| (position + 1).to_string()).collect()
        };
        Some((numbers.join(","), uids))
    }

    fn command(&mut self, index: usize, line: &str) -> Vec<String> {
        self.clients[index].send(line)
    }

    fn selected(&mut self, index: usize) -> &mut Mailbox {
        &mut self.mailboxes[self.clients[index].selected]
    }

    /// Passes untagged responses to a client, which checks them and fetches the messages that are new to it.
    fn process_response(&mut self, index: usize, response: &[String]) {
        let client = &mut self.clients[index];
        let mailbox = &self.mailboxes[client.selected];
        response.iter().for_each(|line| client.process_line(line, mailbox));
        if let Some(first) = client.mirror.iter().position(|known| known.uid == 0) {
            let response = client.send(&format!("FETCH {}:* ({})", first + 1, client.kind.attributes()));
            self.process_response(index, &response);
        }
    }

    /// Checks that the mirror equals the mailbox, after all changes have been reported to the client.
    fn check_mirror(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let mirror: Vec<(u32, &Flags)> = client.mirror.iter().map(|known| (known.uid, &known.flags)).collect();
        let mailbox = &self.mailboxes[client.selected];
        let expected: Vec<(u32, &Flags)> = mailbox.messages.iter().map(|(uid, flags)| (*uid, flags)).collect();
        assert_eq!(mirror, expected, "client {index} ({:?})", client.kind);
    }
}

impl Client {
    fn log_in(&mut self) {
        self.send("LOGIN alice secret");
        match self.kind {
            Kind::Plain => {}
            Kind::Condstore => drop(self.send("ENABLE CONDSTORE")),
            Kind::Qresync => drop(self.send("ENABLE QRESYNC")),
        }
    }

    /// Returns the sequence number of each UID that the client knows.
    fn numbers(&self) -> BTreeMap<u32, u32> {
        (1..).zip(&self.mirror).map(|(number, known)| (known.uid, number)).collect()
    }

    /// Sends a command and returns the response, which must end with OK.
    fn send(&mut self, line: &str) -> Vec<String> {
        let response = self.ask(line);
        assert!(response.last().is_some_and(|last| last.starts_with("t OK ")), "{line}: {response:?}");
        response
    }

    /// Sends a command and returns the response, whatever its status.
    fn ask(&mut self, line: &str) -> Vec<String> {
        self.connection.receive(format!("t {line}\r\n").as_bytes());
        self.connection.lines.drain(..).collect()
    }

    fn begin(&mut self, response: &[String]) {
        self.mirror.clear();
        for line in response {
            self.uid_validity = after(line, "[UIDVALIDITY ").map_or(self.uid_validity, narrow);
            self.highest_modseq = after(line, "[HIGHESTMODSEQ ").unwrap_or(self.highest_modseq);
            if line.ends_with(" EXISTS") {
                self.mirror.resize(first_number(line), MirroredMessage::default());
            }
        }
    }

    /// Processes the response to SELECT with QRESYNC: the vanished messages, and those that are new or changed.
    fn resynchronize(&mut self, response: &[String]) {
        let mut exists = 0;
        for line in response {
            self.highest_modseq = after(line, "[HIGHESTMODSEQ ").unwrap_or(self.highest_modseq);
            if line.ends_with(" EXISTS") {
                exists = first_number(line);
            }
            if let Some(set) = line.strip_prefix("* VANISHED (EARLIER) ") {
                let gone = members(set);
                self.mirror.retain(|known| !gone.contains(&known.uid));
            }
            if line.contains(" FETCH (") {
                let reported = MirroredMessage::parse(line);
                self.mirror.retain(|known| known.uid != reported.uid);
                self.mirror.push(reported);
                self.mirror.sort_by_key(|known| known.uid);
                assert!(self.mirror.len() <= exists, "{response:?}");
            }
        }
        assert_eq!(self.mirror.len(), exists, "{response:?}");
    }

    /// Processes an untagged response that may be sent at any time.
    fn process_line(&mut self, line: &str, mailbox: &Mailbox) {
        if line.ends_with(" EXISTS") {
            let count = first_number(line);
            assert!(count >= self.mirror.len(), "messages disappear by EXPUNGE only: {line}");
            self.mirror.resize(count, MirroredMessage::default());
        } else if line.ends_with(" EXPUNGE") {
            assert_ne!(self.kind, Kind::Qresync, "{line}");
            let gone = self.mirror.remove(first_number(line) - 1);
            assert!(!mailbox.messages.contains_key(&gone.uid), "{} still exists", gone.uid);
        } else if let Some(set) = line.strip_prefix("* VANISHED ") {
            assert_eq!(self.kind, Kind::Qresync, "{line}");
            for uid in members(set) {
                assert!(!mailbox.messages.contains_key(&uid), "{uid} still exists");
                self.mirror.retain(|known| known.uid != uid);
            }
        } else if line.contains(" FETCH (") {
            self.process_fetch(line);
        } else if let Some(modseq) = after(line, "[HIGHESTMODSEQ ") {
            // While expunges are held back, the value may be lower than a mod-sequence that FETCH reported.
            self.highest_modseq = modseq;
        }
    }

    fn process_fetch(&mut self, line: &str) {
        let number = first_number(line);
        let reported = MirroredMessage::parse(line);
        let known = self.mirror.get_mut(number - 1).unwrap_or_else(|| panic!("no such number: {line}"));
        if reported.uid > 0 {
            assert!(known.uid == 0 || known.uid == reported.uid, "the sequence numbers differ: {known:?}, {line}");
            known.uid = reported.uid;
        }
        assert!(
            reported.modseq == 0 || reported.modseq >= known.modseq,
            "the mod-sequence decreased: {known:?}, {line}"
        );
        known.modseq = known.modseq.max(reported.modseq);
        self.highest_modseq = self.highest_modseq.max(reported.modseq);
        if line.contains("FLAGS (") {
            known.flags = reported.flags;
        }
    }
}

impl MirroredMessage {
    /// Parses `* n FETCH (UID u FLAGS (...) MODSEQ (m))`.
    fn parse(line: &str) -> Self {
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

pub fn after(line: &str, mark: &str) -> Option<u64> {
    let rest = line.split_once(mark)?.1;
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

pub fn first_number(line: &str) -> usize {
    after(line, "* ").and_then(|number| usize::try_from(number).ok()).unwrap_or_else(|| panic!("no number: {line}"))
}

pub fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("UIDs have 32 bits")
}

pub fn members(set: &str) -> BTreeSet<u32> {
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
    fn clients_can_follow_concurrent_changes(steps in prop::collection::vec((0_usize..3, step()), 1..60)) {
        let mut run = ModelRun::new();
        for (index, step) in &steps {
            run.step(*index, step);
        }
        (0..3).for_each(|index| run.noop(index));
    }
}
