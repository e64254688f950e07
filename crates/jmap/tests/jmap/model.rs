//! A model test: clients do what they like, also over IMAP and by delivery, and each client that replays `/changes` and
//! `/queryChanges` onto its old copy has exactly what fresh `/get` and `/query` return.
//!
//! Each client keeps a copy of messages, threads and mailboxes, and some lists. It catches up now and then, with small
//! pages. An answer `cannotCalculateChanges` makes it fetch everything, and is accepted only after the tables of the
//! server were dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::UidSet;
use base::random::Random;
use base::sim::SeededRandom;
use mail::mailbox::{FlagChange, Flags};
use serde_json::{Value, json};

use crate::world::World;

const ACCOUNT: &str = "Aalice";
const STEPS: usize = 120;

#[test]
fn replayed_changes_give_what_the_server_has() {
    for seed in 1..=4 {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut simulation = Simulation {
        world: World::new(),
        random: SeededRandom::new(seed),
        messages: 0,
        has_dropped_tables: false,
        seed,
    };
    let mut clients: Vec<Client> = (0..3).map(|_| Client::new(&simulation)).collect();
    for step in 0..STEPS {
        simulation.act();
        if simulation.random.below(3) == 0 {
            let index = simulation.random.below(3) as usize;
            let max = simulation.random.below(4) + 1;
            clients[index].catch_up(&simulation, max);
            clients[index].check(&simulation, step);
        }
        if simulation.random.below(40) == 0 {
            let services = Arc::get_mut(&mut simulation.world.services).expect("nobody else has them");
            services.tables = Arc::default();
            simulation.has_dropped_tables = true;
        }
    }
    for client in &mut clients {
        client.catch_up(&simulation, 3);
        client.check(&simulation, STEPS);
    }
}

struct Simulation {
    world: World,
    random: SeededRandom,
    messages: u64,
    has_dropped_tables: bool,
    seed: u64,
}

impl Simulation {
    fn call(&self, method: &str, mut arguments: Value) -> Value {
        arguments["accountId"] = json!(ACCOUNT);
        self.world.call("alice", method, arguments)
    }

    /// Makes a call that may fail with `cannotCalculateChanges`.
    fn try_call(&self, method: &str, mut arguments: Value) -> Option<Value> {
        arguments["accountId"] = json!(ACCOUNT);
        let responses = self.world.calls("alice", &json!([[method, arguments, "c"]]));
        if responses[0][0] == method {
            return Some(responses[0][1].clone());
        }
        assert_eq!(responses[0][1]["type"], "cannotCalculateChanges", "seed {}: {responses}", self.seed);
        assert!(self.has_dropped_tables, "seed {}: {method} must be calculable", self.seed);
        None
    }

    fn pick(&self, ids: &Value) -> Option<String> {
        let ids = ids.as_array().filter(|ids| !ids.is_empty())?;
        ids[self.random.below(ids.len() as u64) as usize].as_str().map(str::to_owned)
    }

    fn any_email(&self) -> Option<String> {
        self.pick(&self.call("Email/query", json!({}))["ids"])
    }

    fn any_mailbox(&self) -> Option<String> {
        self.pick(&self.call("Mailbox/query", json!({}))["ids"])
    }

    fn act(&mut self) {
        self.world.clock.advance(std::time::Duration::from_secs(self.random.below(2)));
        match self.random.below(14) {
            0..=2 => self.deliver(),
            3 => self.create(),
            4 | 5 => self.mark(),
            6 | 7 => self.refile(),
            8 => {
                let destroy: Vec<String> = self.any_email().into_iter().collect();
                self.call("Email/set", json!({ "destroy": destroy }));
            }
            9 => self.mailbox_create(),
            10 => {
                let Some(id) = self.any_mailbox() else { return };
                let change = match self.random.below(4) {
                    0 => json!({ "parentId": self.any_mailbox() }),
                    1 => json!({ "sortOrder": self.random.below(5) }),
                    2 => json!({ "isSubscribed": self.random.below(2) == 0 }),
                    _ => json!({ "name": format!("Name {}", self.random.below(50)) }),
                };
                self.call("Mailbox/set", json!({ "update": { id: change } }));
            }
            11 => {
                let Some(id) = self.any_mailbox().filter(|_| self.random.below(3) == 0) else { return };
                self.call("Mailbox/set", json!({ "destroy": [id], "onDestroyRemoveEmails": true }));
            }
            12 => self.mark_deleted(),
            _ => self.expunge(),
        }
    }

    fn deliver(&mut self) {
        self.messages += 1;
        let number = self.messages;
        let parent = self.random.below(number.min(6)) + 1;
        let references =
            if self.random.below(2) == 0 { format!("References: <{parent}@x>\r\n") } else { String::new() };
        let subject = ["same", "Re: same", "=?utf-8?q?same?=", "\u{c4}nother"][(number / 5 % 4) as usize];
        let sender = ["Zo\u{eb} <a@x>", "zoe <b@x>", "ANNA <c@x>", "anna@x", ""][(number % 5) as usize];
        let day = number * 4 % 9 + 1;
        let raw = format!(
            "Subject: {subject}\r\nFrom: {sender}\r\nDate: Sun, {day} Nov 2026 10:00:00 +0000\r\n\
             Message-ID: <{number}@x>\r\n{references}\r\ntext {number}\r\n"
        );
        self.world.deliver("alice", "INBOX", raw.as_bytes());
    }

    fn create(&self) {
        let Some(mailbox) = self.any_mailbox() else { return };
        let email = json!({ "mailboxIds": { mailbox: true }, "keywords": { "$draft": true }, "subject": "new" });
        self.call("Email/set", json!({ "create": { "k": email } }));
    }

    fn mark(&self) {
        let Some(id) = self.any_email() else { return };
        let keyword = ["$seen", "$flagged", "work"][self.random.below(3) as usize];
        let value = if self.random.below(3) == 0 { Value::Null } else { json!(true) };
        let pointer = format!("keywords/{keyword}");
        self.call("Email/set", json!({ "update": { id: { pointer: value } } }));
    }

    fn refile(&self) {
        let (Some(id), Some(mailbox)) = (self.any_email(), self.any_mailbox()) else { return };
        let patch = match self.random.below(3) {
            0 => json!({ "mailboxIds": { mailbox: true } }),
            1 => json!({ format!("mailboxIds/{mailbox}"): true }),
            _ => json!({ format!("mailboxIds/{mailbox}"): null }),
        };
        self.call("Email/set", json!({ "update": { id: patch } }));
    }

    fn mailbox_create(&self) {
        let parent = if self.random.below(2) == 0 { self.any_mailbox() } else { None };
        let name = format!("Box {}", self.random.below(50));
        self.call("Mailbox/set", json!({ "create": { "k": { "name": name, "parentId": parent } } }));
    }

    /// Sets or clears `\Deleted` of some messages of the inbox, as IMAP does.
    fn mark_deleted(&self) {
        let file = self.world.open_as_server("alice");
        let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the store works");
        let inbox = inbox.expect("there is an inbox").id;
        let first = u32::try_from(self.random.below(20)).expect("a small number") + 1;
        let uids = UidSet::from(first..=first + 1);
        let flags: Flags = ["\\Deleted"].into_iter().collect();
        let change = if self.random.below(2) == 0 { FlagChange::Add(flags) } else { FlagChange::Remove(flags) };
        file.store(inbox, &uids, &change, None).expect("the flags are set");
    }

    fn expunge(&self) {
        let file = self.world.open_as_server("alice");
        let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the store works");
        file.expunge(inbox.expect("there is an inbox").id, None).expect("the messages are removed");
    }
}

/// The lists that clients keep: the type, and the arguments of `/query`.
fn lists(inbox: &str) -> Vec<(&'static str, Value)> {
    let emails = email_lists(inbox).into_iter().map(|arguments| ("Email", arguments));
    emails.chain(mailbox_lists(inbox).into_iter().map(|arguments| ("Mailbox", arguments))).collect()
}

fn mailbox_lists(inbox: &str) -> Vec<Value> {
    let by_name = json!([{ "property": "name" }, { "property": "sortOrder", "isAscending": false }]);
    vec![
        json!({ "sort": by_name }),
        json!({ "sort": by_name, "sortAsTree": true, "filter": { "isSubscribed": false } }),
        json!({ "filter": { "name": "name" }, "filterAsTree": true, "sort": [{ "property": "sortOrder" }] }),
        json!({ "filter": { "hasAnyRole": false }, "sort": [{ "property": "parentId" }], "sortAsTree": true }),
        json!({ "filter": { "operator": "NOT", "conditions": [{ "parentId": inbox }, { "parentId": null }] } }),
    ]
}

fn email_lists(inbox: &str) -> Vec<Value> {
    let by_size = json!({ "property": "size", "isAscending": false });
    vec![
        json!({ "filter": { "inMailbox": inbox }, "sort": [{ "property": "receivedAt", "isAscending": false }] }),
        json!({ "filter": { "inMailbox": inbox }, "collapseThreads": true }),
        json!({ "filter": { "notKeyword": "$seen" }, "sort": [{ "property": "receivedAt" }] }),
        json!({ "filter": { "someInThreadHaveKeyword": "$flagged" }, "collapseThreads": true }),
        json!({ "sort": [{ "property": "hasKeyword", "keyword": "$flagged" }, { "property": "receivedAt" }] }),
        json!({ "filter": { "operator": "NOT", "conditions": [{ "inMailbox": inbox }] } }),
        json!({ "filter": { "inMailbox": inbox }, "sort": [{ "property": "subject" }, by_size], "collapseThreads": true }),
        json!({ "filter": { "hasKeyword": "$flagged" }, "sort": [{ "property": "from" }, by_size] }),
        json!({ "sort": [{ "property": "from", "collation": "i;ascii-casemap" }, { "property": "sentAt" }] }),
    ]
}

/// The properties of a message that the copies keep.
const EMAIL: [&str; 4] = ["id", "threadId", "mailboxIds", "keywords"];

#[derive(Default)]
struct Client {
    /// Objects by type and id.
    objects: BTreeMap<&'static str, BTreeMap<String, Value>>,
    states: BTreeMap<&'static str, String>,
    lists: Vec<(&'static str, Value, String, Vec<String>)>,
}

const TYPES: [&str; 3] = ["Email", "Thread", "Mailbox"];

fn get_arguments(name: &str, ids: Value) -> Value {
    match name {
        "Email" => json!({ "ids": ids, "properties": EMAIL }),
        _ => json!({ "ids": ids }),
    }
}

fn by_id(reply: &Value) -> BTreeMap<String, Value> {
    let list = reply["list"].as_array().expect("a list");
    list.iter().map(|object| (object["id"].as_str().expect("an id").to_owned(), object.clone())).collect()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

impl Client {
    fn new(simulation: &Simulation) -> Self {
        let mut client = Self::default();
        for name in TYPES {
            client.fetch(simulation, name);
        }
        let inbox = simulation.call("Mailbox/query", json!({ "filter": { "role": "inbox" } }));
        for (name, arguments) in lists(inbox["ids"][0].as_str().expect("an inbox")) {
            client.lists.push((name, arguments, String::new(), Vec::new()));
        }
        for index in 0..client.lists.len() {
            client.fetch_list(simulation, index);
        }
        client
    }

    fn fetch(&mut self, simulation: &Simulation, name: &'static str) {
        let reply = simulation.call(&format!("{name}/get"), get_arguments(name, Value::Null));
        self.states.insert(name, reply["state"].as_str().expect("a state").to_owned());
        self.objects.insert(name, by_id(&reply));
    }

    fn fetch_list(&mut self, simulation: &Simulation, index: usize) {
        let (name, arguments, state, ids) = &mut self.lists[index];
        let reply = simulation.call(&format!("{name}/query"), arguments.clone());
        *state = reply["queryState"].as_str().expect("a state").to_owned();
        *ids = texts(&reply["ids"]);
    }

    fn catch_up(&mut self, simulation: &Simulation, max: u64) {
        for name in TYPES {
            self.catch_up_type(simulation, name, max);
        }
        for index in 0..self.lists.len() {
            self.catch_up_list(simulation, index);
        }
    }

    fn catch_up_type(&mut self, simulation: &Simulation, name: &'static str, max: u64) {
        loop {
            let arguments = json!({ "sinceState": self.states[name], "maxChanges": max });
            let Some(reply) = simulation.try_call(&format!("{name}/changes"), arguments) else {
                return self.fetch(simulation, name);
            };
            let [created, updated, destroyed] = ["created", "updated", "destroyed"].map(|kind| texts(&reply[kind]));
            let count = created.len() + updated.len() + destroyed.len();
            assert!(count as u64 <= max, "seed {}: too many changes: {reply}", simulation.seed);
            let copy = self.objects.entry(name).or_default();
            for id in &updated {
                assert!(copy.contains_key(id), "seed {}: {name} {id} was never created: {reply}", simulation.seed);
            }
            for id in &created {
                assert!(!copy.contains_key(id), "seed {}: {name} {id} was created twice: {reply}", simulation.seed);
            }
            let wanted: Vec<String> = created.into_iter().chain(updated).collect();
            let fresh = simulation.call(&format!("{name}/get"), get_arguments(name, json!(wanted)));
            for id in destroyed.iter().chain(&wanted) {
                copy.remove(id);
            }
            copy.extend(by_id(&fresh));
            self.states.insert(name, reply["newState"].as_str().expect("a state").to_owned());
            if reply["hasMoreChanges"] == json!(false) {
                return;
            }
        }
    }

    fn catch_up_list(&mut self, simulation: &Simulation, index: usize) {
        let (name, arguments, state, ids) = &mut self.lists[index];
        let mut arguments = arguments.clone();
        arguments["sinceQueryState"] = json!(state);
        let Some(reply) = simulation.try_call(&format!("{name}/queryChanges"), arguments) else {
            return self.fetch_list(simulation, index);
        };
        let removed = texts(&reply["removed"]);
        ids.retain(|id| !removed.contains(id));
        for added in reply["added"].as_array().expect("a list") {
            let place = added["index"].as_u64().expect("an index") as usize;
            ids.insert(place.min(ids.len()), added["id"].as_str().expect("an id").to_owned());
        }
        *state = reply["newQueryState"].as_str().expect("a state").to_owned();
    }

    fn check(&self, simulation: &Simulation, step: usize) {
        for name in TYPES {
            let reply = simulation.call(&format!("{name}/get"), get_arguments(name, Value::Null));
            assert_eq!(self.objects[name], by_id(&reply), "seed {}, step {step}: {name}", simulation.seed);
        }
        for (name, arguments, _, ids) in &self.lists {
            let reply = simulation.call(&format!("{name}/query"), arguments.clone());
            assert_eq!(*ids, texts(&reply["ids"]), "seed {}, step {step}: {arguments}", simulation.seed);
            if *name == "Mailbox" {
                continue;
            }
            let reply = simulation.call("Email/query", computed_anew(arguments));
            assert_eq!(*ids, texts(&reply["ids"]), "seed {}, step {step}: {arguments}", simulation.seed);
        }
        self.check_counts(simulation.seed, step);
    }

    /// Checks the counts of mailboxes against the messages.
    fn check_counts(&self, seed: u64, step: usize) {
        let trash = self.objects["Mailbox"].values().find(|mailbox| mailbox["role"] == "trash");
        let trash = trash.map(|mailbox| mailbox["id"].as_str().expect("an id"));
        let is_in = |email: &Value, id: &str| email["mailboxIds"][id] == json!(true);
        let is_unread = |email: &Value| {
            let keywords = email["keywords"].as_object().expect("keywords");
            !keywords.contains_key("$seen") && !keywords.contains_key("$draft")
        };
        let emails: Vec<&Value> = self.objects["Email"].values().collect();
        for (id, mailbox) in &self.objects["Mailbox"] {
            let inside: Vec<&&Value> = emails.iter().filter(|email| is_in(email, id)).collect();
            let threads: BTreeSet<&str> = inside.iter().filter_map(|email| email["threadId"].as_str()).collect();
            let counts_for = |email: &Value| {
                let places = email["mailboxIds"].as_object().expect("mailboxes");
                if Some(id.as_str()) == trash {
                    return places.contains_key(id);
                }
                places.keys().any(|place| Some(place.as_str()) != trash)
            };
            let is_unread_thread = |thread: &&&str| {
                let of_thread = |email: &&&Value| email["threadId"] == json!(thread);
                emails.iter().filter(of_thread).any(|email| is_unread(email) && counts_for(email))
            };
            let expected = json!([
                inside.len(),
                inside.iter().filter(|email| is_unread(email)).count(),
                threads.len(),
                threads.iter().filter(is_unread_thread).count(),
            ]);
            let names = ["totalEmails", "unreadEmails", "totalThreads", "unreadThreads"];
            let found = json!(names.map(|name| mailbox[name].clone()));
            assert_eq!(found, expected, "seed {seed}, step {step}: {mailbox}");
        }
    }
}

/// Returns the arguments of the same list in a form for which the server has to read the messages.
fn computed_anew(arguments: &Value) -> Value {
    let mut arguments = arguments.clone();
    let mut conditions = vec![json!({ "operator": "NOT", "conditions": [{ "header": ["X-Absent"] }] })];
    conditions.extend(arguments.get("filter").cloned());
    arguments["filter"] = json!({ "operator": "AND", "conditions": conditions });
    arguments
}
