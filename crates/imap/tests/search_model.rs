//! SEARCH, SORT and FETCH of sections against a naive model: a list of messages of which every property is known.
//!
//! Some messages are expunged before the searches, so that numbers and UIDs differ.

use base::UidSet;
use proptest::prelude::*;
use wire::Peer;

use crate::connection::Connection;
use crate::world::TestServer;

/// Words of subjects, senders and bodies. None is a part of another one or of a name of a header field.
const WORDS: [&str; 5] = ["alpha", "gamma", "kappa", "omega", "sigma"];
const FLAGS: [&str; 5] = ["\\Answered", "\\Flagged", "\\Deleted", "\\Seen", "\\Draft"];

/// A message of which the test knows everything.
#[derive(Debug, Clone)]
struct Message {
    subject: usize,
    from: usize,
    body: Vec<usize>,
    /// The flags of [`FLAGS`], and the keyword `Work`.
    flags: [bool; 6],
    /// The day of January 2019 in the `Date` field.
    sent: u32,
    /// The day of January 2020 at which it arrived.
    arrived: u32,
    expunged: bool,
}

impl Message {
    fn body(&self) -> String {
        self.body.iter().map(|word| format!("{}\r\n", WORDS[*word])).collect()
    }

    fn header(&self) -> String {
        let from = WORDS[self.from];
        let subject = WORDS[self.subject];
        let date = format!("{} Jan 2019 12:00:00 +0000", self.sent);
        format!("From: {from} <{from}@demo.test>\r\nSubject: Re: {subject}\r\nDate: {date}\r\n\r\n")
    }

    fn raw(&self) -> String {
        self.header() + &self.body()
    }

    fn append(&self) -> String {
        let names = FLAGS.iter().copied().chain(["Work"]).zip(self.flags);
        let flags: Vec<&str> = names.filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
        let date = format!("{:02}-Jan-2020 10:00:00 +0000", self.arrived);
        let raw = self.raw();
        format!("APPEND INBOX ({}) \"{date}\" {{{}+}}\r\n{raw}", flags.join(" "), raw.len())
    }
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let word = || 0..WORDS.len();
    let flags = prop::array::uniform6(any::<bool>());
    let body = prop::collection::vec(word(), 0..4);
    let message = (word(), word(), body, flags, 1u32..6, 1u32..6, prop::bool::weighted(0.3)).prop_map(
        |(subject, from, body, flags, sent, arrived, expunged)| Message {
            subject,
            from,
            body,
            flags,
            sent,
            arrived,
            expunged,
        },
    );
    prop::collection::vec(message, 1..14)
}

/// A search key.
#[derive(Debug, Clone)]
enum Key {
    All,
    Flag(usize),
    Subject(usize),
    From(usize),
    Body(usize),
    Text(usize),
    Larger(usize),
    Smaller(usize),
    /// `BEFORE`, `ON` or `SINCE`, of the time of arrival or of the `Date` field.
    Day(&'static str, bool, u32),
    Numbers(u32, u32),
    Uids(u32, u32),
    FromNumber(u32),
    Not(Box<Key>),
    Or(Box<Key>, Box<Key>),
    And(Box<Key>, Box<Key>),
}

fn key() -> impl Strategy<Value = Key> {
    let word = || 0..WORDS.len();
    let day = (prop::sample::select(vec!["BEFORE", "ON", "SINCE"]), any::<bool>(), 1u32..6);
    let leaf = prop_oneof![
        1 => Just(Key::All),
        4 => (0..6usize).prop_map(Key::Flag),
        1 => word().prop_map(Key::Subject),
        1 => word().prop_map(Key::From),
        1 => word().prop_map(Key::Body),
        1 => word().prop_map(Key::Text),
        1 => (90..110usize).prop_map(Key::Larger),
        1 => (90..110usize).prop_map(Key::Smaller),
        3 => day.prop_map(|(test, is_sent, day)| Key::Day(test, is_sent, day)),
        1 => (1..16u32, 1..16u32).prop_map(|(one, other)| Key::Numbers(one, other)),
        1 => (1..16u32, 1..16u32).prop_map(|(one, other)| Key::Uids(one, other)),
        1 => (1..16u32).prop_map(Key::FromNumber),
    ];
    leaf.prop_recursive(3, 10, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|one| Key::Not(Box::new(one))),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| Key::Or(Box::new(one), Box::new(other))),
            (inner.clone(), inner).prop_map(|(one, other)| Key::And(Box::new(one), Box::new(other))),
        ]
    })
}

/// A message with its number, and the highest number.
struct Numbered<'m> {
    message: &'m Message,
    number: u32,
    uid: u32,
    last: u32,
}

impl Key {
    fn spell(&self) -> String {
        match self {
            Self::All => "ALL".to_owned(),
            Self::Flag(flag @ 0..5) => FLAGS[*flag].trim_start_matches('\\').to_uppercase(),
            Self::Flag(_) => "KEYWORD work".to_owned(),
            Self::Subject(word) => format!("SUBJECT {}", &WORDS[*word][1..]),
            Self::From(word) => format!("FROM {}@demo", WORDS[*word].to_uppercase()),
            Self::Body(word) => format!("BODY {}", WORDS[*word].to_uppercase()),
            Self::Text(word) => format!("TEXT {}", &WORDS[*word][..4]),
            Self::Larger(size) => format!("LARGER {size}"),
            Self::Smaller(size) => format!("SMALLER {size}"),
            Self::Day(test, true, day) => format!("SENT{test} {day}-Jan-2019"),
            Self::Day(test, false, day) => format!("{test} {day}-Jan-2020"),
            Self::Numbers(one, other) => format!("{one}:{other}"),
            Self::Uids(one, other) => format!("UID {one}:{other}"),
            Self::FromNumber(first) => format!("{first}:*"),
            Self::Not(key) => format!("NOT {}", key.spell()),
            Self::Or(one, other) => format!("OR {} {}", one.spell(), other.spell()),
            Self::And(one, other) => format!("({} {})", one.spell(), other.spell()),
        }
    }

    fn is_met(&self, of: &Numbered<'_>) -> bool {
        let Numbered { message, number, uid, last } = of;
        let between = |value: u32, one: u32, other: u32| (one.min(other)..=one.max(other)).contains(&value);
        match self {
            Self::All => true,
            Self::Flag(flag) => message.flags[*flag],
            Self::Subject(word) => message.subject == *word,
            Self::From(word) => message.from == *word,
            Self::Body(word) => message.body.contains(word),
            Self::Text(word) => message.raw().contains(WORDS[*word]),
            Self::Larger(size) => message.raw().len() > *size,
            Self::Smaller(size) => message.raw().len() < *size,
            Self::Day(test, is_sent, day) => {
                let found = if *is_sent { message.sent } else { message.arrived };
                match *test {
                    "BEFORE" => found < *day,
                    "ON" => found == *day,
                    _ => found >= *day,
                }
            }
            Self::Numbers(one, other) => between(*number, *one, *other),
            Self::Uids(one, other) => between(*uid, *one, *other),
            Self::FromNumber(first) => between(*number, *first, *last),
            Self::Not(key) => !key.is_met(of),
            Self::Or(one, other) => one.is_met(of) || other.is_met(of),
            Self::And(one, other) => one.is_met(of) && other.is_met(of),
        }
    }
}

/// A client that has selected a mailbox.
struct Client {
    connection: Connection,
    _world: TestServer,
}

impl Client {
    /// Stores the messages, selects the mailbox, and expunges the messages that are to be expunged.
    fn new(messages: &[Message]) -> Self {
        let world = TestServer::new();
        let mut client = Self { connection: Connection::new(&world, Peer::local()), _world: world };
        client.ask("LOGIN alice secret");
        messages.iter().for_each(|message| drop(client.ask(&message.append())));
        client.ask("SELECT INBOX");
        for (uid, _) in (1..).zip(messages).filter(|(_, message)| message.expunged) {
            client.ask(&format!("UID STORE {uid} +FLAGS.SILENT (\\Deleted)"));
            client.ask(&format!("UID EXPUNGE {uid}"));
        }
        client
    }

    /// Sends a command, and returns the lines before its tagged response, which must be OK.
    fn ask(&mut self, command: &str) -> Vec<String> {
        self.connection.receive(format!("a {command}\r\n").as_bytes());
        let mut lines: Vec<String> = self.connection.lines.drain(..).collect();
        let last = lines.pop().unwrap_or_default();
        assert!(last.starts_with("a OK "), "{command}: {lines:?} {last}");
        lines
    }

    /// Sends a command that has one untagged response.
    fn ask_one(&mut self, command: &str) -> String {
        let lines = self.ask(command);
        let [line] = &lines[..] else { panic!("{command}: {lines:?}") };
        line.clone()
    }
}

/// Returns the messages that remain, with their numbers.
fn numbered(messages: &[Message]) -> Vec<Numbered<'_>> {
    let remaining: Vec<_> = (1..).zip(messages).filter(|(_, message)| !message.expunged).collect();
    let last = remaining.len() as u32;
    let all = (1..).zip(remaining);
    all.map(|(number, (uid, message))| Numbered { message, number, uid, last }).collect()
}

fn spaced(numbers: &[u32]) -> String {
    numbers.iter().map(|number| format!(" {number}")).collect()
}

/// Compares messages by a criterion of SORT.
fn compare(criterion: &str, one: &Message, other: &Message) -> std::cmp::Ordering {
    match criterion {
        "ARRIVAL" => one.arrived.cmp(&other.arrived),
        "DATE" => one.sent.cmp(&other.sent),
        "FROM" => one.from.cmp(&other.from),
        "SIZE" => one.raw().len().cmp(&other.raw().len()),
        _ => one.subject.cmp(&other.subject),
    }
}

/// Returns the literal in a response.
fn literal(lines: &[String]) -> String {
    let text = lines.join("\r\n");
    let (_, rest) = text.split_once('{').expect("a literal");
    let (length, rest) = rest.split_once("}\r\n").expect("a length");
    rest[..length.parse().expect("a number")].to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn searches_find_the_messages_that_meet_the_keys(
        messages in messages(),
        keys in prop::collection::vec(key(), 1..8),
    ) {
        prop_assume!(messages.iter().any(|message| !message.expunged));
        let mut client = Client::new(&messages);
        for key in &keys {
            let met: Vec<Numbered<'_>> =
                numbered(&messages).into_iter().filter(|numbered| key.is_met(numbered)).collect();
            let numbers: Vec<u32> = met.iter().map(|numbered| numbered.number).collect();
            let uids: Vec<u32> = met.iter().map(|numbered| numbered.uid).collect();
            let key = key.spell();
            let found = client.ask_one(&format!("SEARCH {key}"));
            prop_assert_eq!(found, format!("* SEARCH{}", spaced(&numbers)), "{}", key);
            let found = client.ask_one(&format!("UID SEARCH {key}"));
            prop_assert_eq!(found, format!("* SEARCH{}", spaced(&uids)), "{}", key);
            let set: UidSet = uids.iter().copied().collect();
            let details = match (uids.first(), uids.last()) {
                (Some(first), Some(last)) => format!(" MIN {first} MAX {last} ALL {set}"),
                _ => String::new(),
            };
            let expected = format!("* ESEARCH (TAG \"a\") UID{details} COUNT {}", uids.len());
            let found = client.ask_one(&format!("UID SEARCH RETURN (COUNT ALL MAX MIN) {key}"));
            prop_assert_eq!(found, expected, "{}", key);
        }
    }

    #[test]
    fn sorted_messages_are_in_the_order_of_all_criteria(
        messages in messages(),
        criteria in prop::collection::vec(
            (any::<bool>(), prop::sample::select(vec!["ARRIVAL", "DATE", "FROM", "SIZE", "SUBJECT"])), 1..4),
    ) {
        prop_assume!(messages.iter().any(|message| !message.expunged));
        let mut client = Client::new(&messages);
        let mut sorted = numbered(&messages);
        sorted.sort_by(|one, other| {
            let orders = criteria.iter().map(|(is_reverse, criterion)| {
                let order = compare(criterion, one.message, other.message);
                if *is_reverse { order.reverse() } else { order }
            });
            orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
        let spell = |(is_reverse, criterion): &(bool, &str)| {
            format!("{}{criterion}", if *is_reverse { "REVERSE " } else { "" })
        };
        let criteria = criteria.iter().map(spell).collect::<Vec<_>>().join(" ");
        let numbers: Vec<u32> = sorted.iter().map(|numbered| numbered.number).collect();
        let uids: Vec<u32> = sorted.iter().map(|numbered| numbered.uid).collect();
        let found = client.ask_one(&format!("SORT ({criteria}) UTF-8 ALL"));
        prop_assert_eq!(found, format!("* SORT{}", spaced(&numbers)), "{}", criteria);
        let found = client.ask_one(&format!("UID SORT ({criteria}) US-ASCII NOT UID 1"));
        let uids: Vec<u32> = uids.into_iter().filter(|uid| *uid != 1).collect();
        prop_assert_eq!(found, format!("* SORT{}", spaced(&uids)), "{}", criteria);
    }

    #[test]
    fn fetched_sections_match_the_message(messages in messages(), start in 0usize..150, length in 1usize..150) {
        let mut client = Client::new(&messages);
        for Numbered { message, number, .. } in numbered(&messages) {
            let raw = message.raw();
            let mut fetch = |attribute: &str| literal(&client.ask(&format!("FETCH {number} BODY.PEEK[{attribute}")));
            prop_assert_eq!(fetch("HEADER]"), message.header());
            prop_assert_eq!(fetch("]"), raw.clone());
            let from = start.min(raw.len());
            let to = (start + length).min(raw.len());
            if from < to {
                prop_assert_eq!(fetch(&format!("]<{start}.{length}>")), raw[from..to].to_owned());
            }
            let subject = format!("Subject: Re: {}\r\n\r\n", WORDS[message.subject]);
            prop_assert_eq!(fetch("HEADER.FIELDS (subject)]"), subject);
        }
    }
}
