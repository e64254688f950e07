//! SEARCH (RFC 9051 §6.4.4): decides which messages match.
//!
//! A [`SearchPlan`] is created once from the client's keys. [`SearchPlan::decide`] answers from the folder's entry
//! alone if the entry is sufficient. Only otherwise the message is opened and matched. The match examines the header
//! before the body, and the body only as far as necessary. A key that cannot change the result is not evaluated. An
//! index can state in advance which texts a message lacks ([`EntryData::is_known_not_to_contain`]).
//!
//! All texts are sought at once, in pieces of the message. So no part is read twice, no decoded text is kept, and a
//! large message does not occupy a worker: a [`MessageMatch`] keeps the place at which [`SearchPlan::continue_match`]
//! stopped.
//!
//! Days are days in UTC, because dates are shown in UTC. Texts are compared with [`mail::casemap`]. The BODY of a
//! message consists of the decoded text of its parts, the headers of the messages within it, and the names of its
//! files; HTML parts are searched both as source and as visible text. TEXT additionally covers the header.

mod message_match;
mod needle_scan;
#[cfg(test)]
mod tests;

use std::time::Duration;

use base::time::days_since_epoch;
use base::{Timestamp, UidSet};
use mail::casemap::Needle;
use mail::search_texts::INDEXED_FIELDS;
use memchr::memmem::Finder;
use search::{NotePart, SubstringKey};

use super::entry::{EntryData, MessageSource};
use crate::codec::command::{AddressField, Date, MessageSet, SearchKey, SystemFlags};

pub use message_match::{MessageMatch, SearchBudget};

const DAY_SECONDS: i64 = 86_400;

/// The keys of a search in executable form.
#[derive(Debug, Clone)]
pub struct SearchPlan {
    root: Node,
    /// The tests that need the message, by their number.
    tests: Vec<ContentTest>,
    /// The header fields that tests examine.
    fields: Vec<FieldGroup>,
}

/// A header field that tests examine, in one of two forms.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldGroup {
    name: String,
    form: FieldForm,
}

/// The form in which tests examine a header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldForm {
    /// The text of the field.
    Value,
    /// The text of the field, and the addresses as ENVELOPE shows them.
    Addresses,
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
    /// The test with this number in [`SearchPlan::tests`].
    Content(usize),
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
    /// The text is sought in the field with this index in [`SearchPlan::fields`].
    Field {
        field: usize,
        sought: SoughtText,
    },
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
        let mut plan = Self { root: Node::Constant(false), tests: Vec::new(), fields: Vec::new() };
        plan.root = plan.node(key, now);
        plan.root.number(&mut plan.tests, &mut 0);
        plan
    }

    /// Returns the data that the plan may need.
    #[must_use]
    pub fn needs(&self) -> RequiredData {
        self.root.needs(&self.tests)
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
        let mut sought: Vec<(usize, Vec<SubstringKey>)> =
            self.tests.iter().filter_map(|test| self.sought(test)).collect();
        sought.sort_unstable_by_key(|(number, _)| *number);
        sought.into_iter().map(|(_, keys)| keys).collect()
    }

    /// Returns the number of the text that a test seeks, and what an index can look up.
    fn sought(&self, test: &ContentTest) -> Option<(usize, Vec<SubstringKey>)> {
        match test {
            ContentTest::Field { field, sought } => {
                let name = &self.fields[*field].name;
                let is_indexed = INDEXED_FIELDS.iter().any(|indexed| indexed.eq_ignore_ascii_case(name));
                Some((sought.number, if is_indexed { vec![sought.header_substring()] } else { Vec::new() }))
            }
            ContentTest::Body(sought) | ContentTest::Text(sought) => {
                Some((sought.number, vec![sought.body_substring()]))
            }
            ContentTest::EmailId(_) | ContentTest::ThreadId(_) | ContentTest::Sent(_) => None,
        }
    }

    /// Returns `Some(true)` or `Some(false)` if the entry decides the match, or `None` if the message must be opened.
    pub fn decide(&self, entry: &impl EntryData) -> Option<bool> {
        self.root.evaluate(entry, &|number| self.tests[number].is_ruled_out(entry).then_some(false))
    }

    /// Begins the match of a message.
    #[must_use]
    pub fn begin_match(&self, entry: &impl EntryData) -> MessageMatch {
        let results = self.tests.iter().map(|test| test.is_ruled_out(entry).then_some(false));
        MessageMatch::new(results.collect())
    }

    /// Continues the match of a message. Returns `Some(true)` if the message matches, `Some(false)` if it does not, and
    /// `None` if the budget is used up before this is known. At least one step is made if the budget is not used up.
    ///
    /// # Errors
    ///
    /// Returns the errors of the message.
    pub fn continue_match<E: EntryData, M: MessageSource>(
        &self,
        (entry, message): (&E, &M),
        progress: &mut MessageMatch,
        budget: &mut SearchBudget<'_>,
    ) -> Result<Option<bool>, M::Error> {
        let mut open = Vec::new();
        loop {
            open.clear();
            if let Some(matches) = self.root.collect_open(entry, progress.results(), &mut open) {
                return Ok(Some(matches));
            }
            if budget.is_used_up() {
                return Ok(None);
            }
            progress.step((self, &open[..]), (entry, message), budget)?;
        }
    }

    /// Returns `true` if a message matches.
    ///
    /// # Errors
    ///
    /// Returns the errors of the message.
    pub fn matches<E: EntryData, M: MessageSource>(&self, entry: &E, message: &M) -> Result<bool, M::Error> {
        let mut progress = self.begin_match(entry);
        let is_over = || false;
        loop {
            let mut budget = SearchBudget::new(u64::MAX, &is_over);
            if let Some(matches) = self.continue_match((entry, message), &mut progress, &mut budget)? {
                return Ok(matches);
            }
        }
    }

    /// Returns the finder of the text that a test seeks in the body.
    fn body_finder(&self, number: usize) -> Option<&Finder<'static>> {
        self.tests[number].needle().map(Needle::finder)
    }

    /// Returns the finder of the text that a test seeks in header fields.
    fn field_finder(&self, number: usize) -> Option<&Finder<'static>> {
        self.tests[number].needle().map(Needle::field_finder)
    }

    fn node(&mut self, key: &SearchKey, now: Timestamp) -> Node {
        let test = match key {
            SearchKey::All | SearchKey::SaveDateSupported => return Node::Constant(true),
            SearchKey::And(keys) => {
                let nodes = keys.iter().map(|key| self.node(key, now)).collect();
                return Node::And(self.in_order_of_cost(nodes));
            }
            SearchKey::Or(a, b) => {
                let nodes = vec![self.node(a, now), self.node(b, now)];
                return Node::Or(self.in_order_of_cost(nodes));
            }
            SearchKey::Not(key) => return Node::Not(Box::new(self.node(key, now))),
            SearchKey::EmailId(id) => ContentTest::EmailId(id.clone()),
            SearchKey::ThreadId(id) => ContentTest::ThreadId(id.clone()),
            SearchKey::SentBefore(date) => ContentTest::Sent(Days::Before(day(date))),
            SearchKey::SentOn(date) => ContentTest::Sent(Days::On(day(date))),
            SearchKey::SentSince(date) => ContentTest::Sent(Days::Since(day(date))),
            SearchKey::Address(field, text) => self.field_test(address_field(*field), FieldForm::Addresses, text),
            SearchKey::Subject(text) => self.field_test("Subject", FieldForm::Value, text),
            SearchKey::Header { name, value } => self.field_test(name, FieldForm::Value, value),
            SearchKey::Body(text) | SearchKey::Text(text) if text.is_empty() => return Node::Constant(true),
            SearchKey::Body(text) => ContentTest::Body(SoughtText::new(text)),
            SearchKey::Text(text) => ContentTest::Text(SoughtText::new(text)),
            _ => return EntryTest::from_key(key, now).map_or(Node::Constant(false), Node::Entry),
        };
        self.tests.push(test);
        Node::Content(self.tests.len() - 1)
    }

    fn field_test(&mut self, name: &str, form: FieldForm, text: &str) -> ContentTest {
        let is_same = |group: &FieldGroup| group.form == form && group.name.eq_ignore_ascii_case(name);
        let field = self.fields.iter().position(is_same).unwrap_or(self.fields.len());
        if field == self.fields.len() {
            self.fields.push(FieldGroup { name: name.to_owned(), form });
        }
        ContentTest::Field { field, sought: SoughtText::new(text) }
    }

    /// Sorts keys that are combined in ascending order of cost.
    fn in_order_of_cost(&self, mut nodes: Vec<Node>) -> Vec<Node> {
        nodes.sort_by_key(|node| node.needs(&self.tests));
        nodes
    }
}

impl Node {
    fn needs(&self, tests: &[ContentTest]) -> RequiredData {
        match self {
            Self::Constant(_) => RequiredData::Nothing,
            Self::Entry(_) => RequiredData::Entry,
            Self::Content(number) => match tests[*number] {
                ContentTest::Body(_) | ContentTest::Text(_) => RequiredData::Body,
                _ => RequiredData::Header,
            },
            Self::Not(node) => node.needs(tests),
            Self::And(nodes) | Self::Or(nodes) => {
                nodes.iter().map(|node| node.needs(tests)).max().unwrap_or(RequiredData::Nothing)
            }
        }
    }

    /// Assigns numbers to the sought texts.
    fn number(&self, tests: &mut [ContentTest], next: &mut usize) {
        match self {
            Self::Content(number) => {
                if let Some(sought) = tests[*number].sought_mut() {
                    sought.number = *next;
                    *next += 1;
                }
            }
            Self::Constant(_) | Self::Entry(_) => {}
            Self::Not(node) => node.number(tests, next),
            Self::And(nodes) | Self::Or(nodes) => nodes.iter().for_each(|node| node.number(tests, next)),
        }
    }

    /// Returns the result, if it is known, from the entry and the known results of the tests.
    fn evaluate(&self, entry: &impl EntryData, result: &dyn Fn(usize) -> Option<bool>) -> Option<bool> {
        match self {
            Self::Constant(matches) => Some(*matches),
            Self::Entry(test) => Some(test.matches(entry)),
            Self::Content(number) => result(*number),
            Self::Not(node) => node.evaluate(entry, result).map(|matches| !matches),
            Self::And(nodes) => combine_results(nodes, false, |node| node.evaluate(entry, result)),
            Self::Or(nodes) => combine_results(nodes, true, |node| node.evaluate(entry, result)),
        }
    }

    /// Returns the result, if it is known. Otherwise lists the tests without a result that can change it.
    fn collect_open(&self, entry: &impl EntryData, results: &[Option<bool>], open: &mut Vec<usize>) -> Option<bool> {
        let start = open.len();
        let result = match self {
            Self::Constant(matches) => Some(*matches),
            Self::Entry(test) => Some(test.matches(entry)),
            Self::Content(number) => {
                open.push(*number);
                results[*number]
            }
            Self::Not(node) => node.collect_open(entry, results, open).map(|matches| !matches),
            Self::And(nodes) => combine_results(nodes, false, |node| node.collect_open(entry, results, open)),
            Self::Or(nodes) => combine_results(nodes, true, |node| node.collect_open(entry, results, open)),
        };
        if result.is_some() {
            open.truncate(start);
        }
        result
    }
}

/// Combines the known results of several keys. A single key with the result `decisive` decides the whole.
fn combine_results(nodes: &[Node], decisive: bool, mut result_of: impl FnMut(&Node) -> Option<bool>) -> Option<bool> {
    let mut all_settled = true;
    for node in nodes {
        match result_of(node) {
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
            Self::ModSequence(mod_sequence) => entry.is_changed_since(*mod_sequence),
        }
    }
}

impl ContentTest {
    /// Returns `true` if the message is known not to contain the text, without opening it.
    fn is_ruled_out(&self, entry: &impl EntryData) -> bool {
        match self {
            Self::Field { sought, .. } | Self::Body(sought) => {
                !sought.needle.is_empty() && entry.is_known_not_to_contain(sought.number)
            }
            Self::Text(_) | Self::EmailId(_) | Self::ThreadId(_) | Self::Sent(_) => false,
        }
    }

    fn needle(&self) -> Option<&Needle> {
        match self {
            Self::Field { sought, .. } | Self::Body(sought) | Self::Text(sought) => Some(&sought.needle),
            Self::EmailId(_) | Self::ThreadId(_) | Self::Sent(_) => None,
        }
    }

    fn sought_mut(&mut self) -> Option<&mut SoughtText> {
        match self {
            Self::Field { sought, .. } | Self::Body(sought) | Self::Text(sought) => Some(sought),
            Self::EmailId(_) | Self::ThreadId(_) | Self::Sent(_) => None,
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
