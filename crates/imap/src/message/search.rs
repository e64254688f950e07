//! SEARCH (RFC 9051 §6.4.4): decides which messages match.
//!
//! A [`SearchPlan`] is created once from the client's keys. [`SearchPlan::decide`] answers from the folder's entry
//! alone if the entry is sufficient. Only otherwise the message is opened and [`SearchPlan::matches`] is called. It
//! examines the header before the body, and the body only as far as necessary. Keys are ordered by their cost, and a
//! key that cannot change the result is not evaluated. An index can state in advance which texts a message lacks
//! ([`EntryData::is_known_not_to_contain`]).
//!
//! Days are days in UTC, because dates are shown in UTC. Texts are compared with [`mail::casemap`]. The BODY of a
//! message consists of the decoded text of its parts, the headers of the messages within it, and the names of its
//! files; HTML parts are searched both as source and as visible text. TEXT additionally covers the header.

#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

use base::time::days_since_epoch;
use base::{Timestamp, UidSet};
use mail::casemap::Needle;
use mail::mime::{date, header};
use mail::search_texts::{INDEXED_FIELDS, find_in_addresses, find_in_field};

use search::{NotePart, SubstringKey};

use super::entry::{EntryData, MessageSource};
use crate::codec::command::{AddressField, Date, MessageSet, SearchKey, SystemFlags};
use text::SearchTexts;

const DAY_SECONDS: i64 = 86_400;

/// The keys of a search in executable form.
#[derive(Debug, Clone)]
pub struct SearchPlan {
    root: Node,
    /// Number of keys that examine bodies.
    body_keys: usize,
}

/// The data that a plan may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredData {
    /// No data: the plan matches all messages or none.
    Nothing,
    /// The folder's entry.
    Entry,
    /// The message's ids or its header.
    Header,
    /// The body.
    Body,
}

#[derive(Debug, Clone)]
enum Node {
    Constant(bool),
    Entry(EntryTest),
    Content(ContentTest),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

#[derive(Debug, Clone)]
enum EntryTest {
    System(SystemFlags),
    Keyword(String),
    Recent,
    Received(Days),
    Saved(Days),
    ReceivedUntil(Timestamp),
    ReceivedFrom(Timestamp),
    Larger(u64),
    Smaller(u64),
    Uid(UidSet),
    ModSequence(u64),
}

#[derive(Debug, Clone)]
enum ContentTest {
    EmailId(String),
    ThreadId(String),
    Sent(Days),
    Addresses { field: AddressField, sought: SoughtText },
    Field { name: String, sought: SoughtText },
    Body(SoughtText),
    Text(SoughtText),
}

/// A sought text and its number within the plan.
#[derive(Debug, Clone)]
struct SoughtText {
    needle: Needle,
    number: usize,
}

/// A set of days: before a day, on it, or not before it.
#[derive(Debug, Clone, Copy)]
enum Days {
    Before(i64),
    On(i64),
    Since(i64),
}

impl Days {
    fn contains_day(self, day: i64) -> bool {
        match self {
            Self::Before(bound) => day < bound,
            Self::On(bound) => day == bound,
            Self::Since(bound) => day >= bound,
        }
    }

    fn contains_time(self, moment: Timestamp) -> bool {
        self.contains_day(moment.seconds().div_euclid(DAY_SECONDS))
    }
}

impl SearchPlan {
    /// Creates a plan from keys. OLDER and YOUNGER count from `now`.
    ///
    /// Sequence numbers and `$` must have been replaced by UIDs. A key that still contains them matches no message.
    #[must_use]
    pub fn new(key: &SearchKey, now: Timestamp) -> Self {
        let mut root = Node::from_key(key, now);
        root.number(&mut 0);
        let body_keys = root.body_keys();
        Self { root, body_keys }
    }

    /// Returns the data that the plan may need.
    #[must_use]
    pub fn needs(&self) -> RequiredData {
        self.root.needs()
    }

    /// Returns the UIDs that can match, or `None` if the keys do not restrict the UIDs.
    #[must_use]
    pub fn uids(&self) -> Option<&UidSet> {
        let of = |node: &'_ Node| matches!(node, Node::Entry(EntryTest::Uid(_)));
        let node = match &self.root {
            Node::And(nodes) => nodes.iter().find(|node| of(node))?,
            node => node,
        };
        match node {
            Node::Entry(EntryTest::Uid(uids)) => Some(uids),
            _ => None,
        }
    }

    /// Returns the sought texts, by number, that an index can look up, each with the part to look in. A TEXT key
    /// contributes its text in the body. Fields other than [`INDEXED_FIELDS`] contribute an empty list.
    #[must_use]
    pub fn sought_texts(&self) -> Vec<Vec<SubstringKey>> {
        let mut all = Vec::new();
        self.root.sought_texts(&mut all);
        all
    }

    /// Returns `Some(true)` or `Some(false)` if the entry decides the match, or `None` if the message must be opened.
    pub fn decide(&self, entry: &impl EntryData) -> Option<bool> {
        self.root.decide(entry)
    }

    /// Returns `true` if a message matches.
    ///
    /// # Errors
    ///
    /// Returns the errors of the message.
    pub fn matches<M: MessageSource>(&self, entry: &impl EntryData, message: &M) -> Result<bool, M::Error> {
        self.root.matches(entry, &mut SearchTexts::new(message, self.body_keys > 1))
    }
}

impl Node {
    fn from_key(key: &SearchKey, now: Timestamp) -> Self {
        match key {
            SearchKey::All | SearchKey::SaveDateSupported => Self::Constant(true),
            SearchKey::And(keys) => Self::all_of(keys.iter().map(|key| Self::from_key(key, now)).collect()),
            SearchKey::Or(a, b) => Self::any_of(vec![Self::from_key(a, now), Self::from_key(b, now)]),
            SearchKey::Not(key) => Self::Not(Box::new(Self::from_key(key, now))),
            SearchKey::EmailId(id) => Self::Content(ContentTest::EmailId(id.clone())),
            SearchKey::ThreadId(id) => Self::Content(ContentTest::ThreadId(id.clone())),
            SearchKey::SentBefore(date) => Self::sent(Days::Before(day(date))),
            SearchKey::SentOn(date) => Self::sent(Days::On(day(date))),
            SearchKey::SentSince(date) => Self::sent(Days::Since(day(date))),
            SearchKey::Address(field, text) => {
                Self::Content(ContentTest::Addresses { field: *field, sought: SoughtText::new(text) })
            }
            SearchKey::Subject(text) => Self::field("Subject", text),
            SearchKey::Header { name, value } => Self::field(name, value),
            SearchKey::Body(text) if text.is_empty() => Self::Constant(true),
            SearchKey::Text(text) if text.is_empty() => Self::Constant(true),
            SearchKey::Body(text) => Self::Content(ContentTest::Body(SoughtText::new(text))),
            SearchKey::Text(text) => Self::Content(ContentTest::Text(SoughtText::new(text))),
            _ => EntryTest::from_key(key, now).map_or(Self::Constant(false), Self::Entry),
        }
    }

    fn sent(days: Days) -> Self {
        Self::Content(ContentTest::Sent(days))
    }

    fn field(name: &str, text: &str) -> Self {
        Self::Content(ContentTest::Field { name: name.to_owned(), sought: SoughtText::new(text) })
    }

    /// Combines keys that must all match, in ascending order of cost.
    fn all_of(mut nodes: Vec<Self>) -> Self {
        nodes.sort_by_key(Self::needs);
        Self::And(nodes)
    }

    /// Combines keys of which one must match, in ascending order of cost.
    fn any_of(mut nodes: Vec<Self>) -> Self {
        nodes.sort_by_key(Self::needs);
        Self::Or(nodes)
    }

    fn needs(&self) -> RequiredData {
        match self {
            Self::Constant(_) => RequiredData::Nothing,
            Self::Entry(_) => RequiredData::Entry,
            Self::Content(ContentTest::Body(_) | ContentTest::Text(_)) => RequiredData::Body,
            Self::Content(_) => RequiredData::Header,
            Self::Not(node) => node.needs(),
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().map(Self::needs).max().unwrap_or(RequiredData::Nothing),
        }
    }

    fn body_keys(&self) -> usize {
        match self {
            Self::Content(ContentTest::Body(_) | ContentTest::Text(_)) => 1,
            Self::Constant(_) | Self::Entry(_) | Self::Content(_) => 0,
            Self::Not(node) => node.body_keys(),
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().map(Self::body_keys).sum(),
        }
    }

    /// Assigns numbers to the sought texts.
    fn number(&mut self, next: &mut usize) {
        match self {
            Self::Content(
                ContentTest::Addresses { sought, .. }
                | ContentTest::Field { sought, .. }
                | ContentTest::Body(sought)
                | ContentTest::Text(sought),
            ) => {
                sought.number = *next;
                *next += 1;
            }
            Self::Constant(_) | Self::Entry(_) | Self::Content(_) => {}
            Self::Not(node) => node.number(next),
            Self::And(nodes) | Self::Or(nodes) => nodes.iter_mut().for_each(|node| node.number(next)),
        }
    }

    /// Lists the sought texts in the order of their numbers.
    fn sought_texts(&self, out: &mut Vec<Vec<SubstringKey>>) {
        match self {
            Self::Content(ContentTest::Addresses { sought, .. }) => out.push(vec![sought.header_substring()]),
            Self::Content(ContentTest::Field { name, sought }) => {
                let is_indexed = INDEXED_FIELDS.iter().any(|field| field.eq_ignore_ascii_case(name));
                out.push(if is_indexed { vec![sought.header_substring()] } else { Vec::new() });
            }
            Self::Content(ContentTest::Body(sought) | ContentTest::Text(sought)) => {
                out.push(vec![sought.body_substring()])
            }
            Self::Constant(_) | Self::Entry(_) | Self::Content(_) => {}
            Self::Not(node) => node.sought_texts(out),
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().for_each(|node| node.sought_texts(out)),
        }
    }

    fn decide(&self, entry: &impl EntryData) -> Option<bool> {
        match self {
            Self::Constant(matches) => Some(*matches),
            Self::Entry(test) => Some(test.matches(entry)),
            Self::Content(test) => test.is_ruled_out(entry).then_some(false),
            Self::Not(node) => node.decide(entry).map(|matches| !matches),
            Self::And(nodes) => combine_decisions(nodes, entry, false),
            Self::Or(nodes) => combine_decisions(nodes, entry, true),
        }
    }

    fn matches<M: MessageSource>(
        &self,
        entry: &impl EntryData,
        texts: &mut SearchTexts<'_, M>,
    ) -> Result<bool, M::Error> {
        match self {
            Self::Constant(matches) => Ok(*matches),
            Self::Entry(test) => Ok(test.matches(entry)),
            Self::Content(test) => test.matches(entry, texts),
            Self::Not(node) => node.matches(entry, texts).map(|matches| !matches),
            Self::And(nodes) => {
                for node in nodes {
                    if !node.matches(entry, texts)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(nodes) => {
                for node in nodes {
                    if node.matches(entry, texts)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

/// Combines the results that the entry decides for several keys. A single key with the result `decisive` decides the
/// whole.
fn combine_decisions(nodes: &[Node], entry: &impl EntryData, decisive: bool) -> Option<bool> {
    let mut all_settled = true;
    for node in nodes {
        match node.decide(entry) {
            Some(matches) if matches == decisive => return Some(decisive),
            Some(_) => {}
            None => all_settled = false,
        }
    }
    all_settled.then_some(!decisive)
}

impl EntryTest {
    fn from_key(key: &SearchKey, now: Timestamp) -> Option<Self> {
        let ago = |seconds: u32| now.before(Duration::from_secs(u64::from(seconds)));
        Some(match key {
            SearchKey::System(flag) => Self::System(*flag),
            SearchKey::Keyword(keyword) => Self::Keyword(keyword.clone()),
            SearchKey::Recent => Self::Recent,
            SearchKey::Before(date) => Self::Received(Days::Before(day(date))),
            SearchKey::On(date) => Self::Received(Days::On(day(date))),
            SearchKey::Since(date) => Self::Received(Days::Since(day(date))),
            SearchKey::SavedBefore(date) => Self::Saved(Days::Before(day(date))),
            SearchKey::SavedOn(date) => Self::Saved(Days::On(day(date))),
            SearchKey::SavedSince(date) => Self::Saved(Days::Since(day(date))),
            SearchKey::Older(seconds) => Self::ReceivedUntil(ago(*seconds)),
            SearchKey::Younger(seconds) => Self::ReceivedFrom(ago(*seconds)),
            SearchKey::Larger(size) => Self::Larger(*size),
            SearchKey::Smaller(size) => Self::Smaller(*size),
            SearchKey::Uid(MessageSet::Numbers(set)) => Self::Uid(set.resolve(u32::MAX)),
            SearchKey::ModSeq(mod_sequence) => Self::ModSequence(*mod_sequence),
            _ => return None,
        })
    }

    fn matches(&self, entry: &impl EntryData) -> bool {
        match self {
            Self::System(flag) => entry.flags().contains(*flag),
            Self::Keyword(keyword) => entry.has_keyword(keyword),
            Self::Recent => entry.is_recent(),
            Self::Received(days) => days.contains_time(entry.received()),
            Self::Saved(days) => entry.saved().is_some_and(|saved| days.contains_time(saved)),
            Self::ReceivedUntil(moment) => entry.received() <= *moment,
            Self::ReceivedFrom(moment) => entry.received() >= *moment,
            Self::Larger(size) => entry.size() > *size,
            Self::Smaller(size) => entry.size() < *size,
            Self::Uid(uids) => uids.contains(entry.uid()),
            Self::ModSequence(mod_sequence) => entry.mod_sequence() >= *mod_sequence,
        }
    }
}

impl ContentTest {
    fn matches<M: MessageSource>(
        &self,
        entry: &impl EntryData,
        texts: &mut SearchTexts<'_, M>,
    ) -> Result<bool, M::Error> {
        let message = texts.message;
        Ok(match self {
            _ if self.is_ruled_out(entry) => false,
            Self::EmailId(id) => message.email_id()? == *id,
            Self::ThreadId(id) => message.thread_id()?.is_some_and(|own| own == *id),
            Self::Sent(days) => header::first(message.header(), "Date")
                .and_then(date::HeaderDate::parse)
                .is_some_and(|date| days.contains_day(date.local_day())),
            Self::Addresses { field, sought: SoughtText { needle, .. } } => {
                let name = address_field(*field);
                find_in_addresses(message.header(), name, &mut |text| needle.is_in_folded_field(text))
            }
            Self::Field { name, sought: SoughtText { needle, .. } } => {
                find_in_field(message.header(), name, &mut |text| needle.is_in_folded_field(text))
            }
            Self::Body(SoughtText { needle, .. }) => texts.body_contains(needle)?,
            Self::Text(SoughtText { needle, number }) => {
                texts.header_contains(needle)
                    || (!entry.is_known_not_to_contain(*number) && texts.body_contains(needle)?)
            }
        })
    }

    /// Returns `true` if the message is known not to contain the text, without opening it.
    fn is_ruled_out(&self, entry: &impl EntryData) -> bool {
        match self {
            Self::Addresses { sought, .. } | Self::Field { sought, .. } | Self::Body(sought) => {
                !sought.needle.is_empty() && entry.is_known_not_to_contain(sought.number)
            }
            Self::Text(_) | Self::EmailId(_) | Self::ThreadId(_) | Self::Sent(_) => false,
        }
    }
}

impl SoughtText {
    fn new(text: &str) -> Self {
        Self { needle: Needle::new(text), number: 0 }
    }

    fn body_substring(&self) -> SubstringKey {
        let [folded, _] = self.needle.folded();
        SubstringKey { part: NotePart::Body, folded: folded.to_owned() }
    }

    fn header_substring(&self) -> SubstringKey {
        let [_, folded] = self.needle.folded();
        SubstringKey { part: NotePart::Header, folded: folded.to_owned() }
    }
}

fn day(date: &Date) -> i64 {
    days_since_epoch(*date)
}

fn address_field(field: AddressField) -> &'static str {
    match field {
        AddressField::Bcc => "Bcc",
        AddressField::Cc => "Cc",
        AddressField::From => "From",
        AddressField::To => "To",
    }
}
