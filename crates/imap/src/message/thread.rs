//! THREAD (RFC 5256): groups messages into threads.
//!
//! A [`Threader`] takes the messages one by one, in mailbox order, and keeps only the data that threading needs:
//! message ids and base subjects as numbers, and the date. Then a [`ThreadBuilder`] builds the [`Forest`], in steps of
//! bounded work: it sorts the messages by date, finds the parent of each, and puts them below their parents by date. So
//! siblings and threads are in order without further sorting.
//!
//! - [`ordered_subject`]: ORDEREDSUBJECT, the simple algorithm that uses only subjects;
//! - [`references`]: REFERENCES, by message ids and then by subject;
//! - [`forest`]: threads in their output form.

mod forest;
mod ordered_subject;
mod references;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use base::Timestamp;
use mail::limits::FIELD_BYTES_MAX;
use mail::mime::base_subject::BaseSubject;
use mail::mime::header;
use mail::mime::message_id::message_ids;

use super::entry::EntryData;
use super::sort::sent;
use super::sorted_runs::SortedRuns;
use crate::codec::command::ThreadAlgorithm;
use crate::limits::REFERENCES_MAX;
use forest::ForestAssembly;
use ordered_subject::SubjectThreads;
use references::ReferenceThreads;

pub use forest::Forest;

/// Collects the data of the messages to thread.
#[derive(Debug)]
pub struct Threader {
    algorithm: ThreadAlgorithm,
    messages: Vec<ThreadMessage>,
    /// The dates of the messages, with their indexes.
    dates: SortedRuns<(Timestamp, usize)>,
    /// The number of each message id.
    ids: HashMap<Box<[u8]>, u32>,
    /// The number of each base subject, from 1.
    subjects: HashMap<Box<str>, usize>,
}

/// The data of a message that threading needs.
#[derive(Debug)]
struct ThreadMessage {
    /// The number by which the client knows the message.
    number: u32,
    /// The number of the base subject. 0 if it is empty.
    subject: usize,
    /// `true` if the subject marks the message as a reply or as forwarded.
    is_reply: bool,
    id: Option<u32>,
    references: Vec<u32>,
}

impl Threader {
    /// Creates a threader without messages.
    #[must_use]
    pub fn new(algorithm: ThreadAlgorithm) -> Self {
        Self {
            algorithm,
            messages: Vec::new(),
            dates: SortedRuns::default(),
            ids: HashMap::new(),
            subjects: HashMap::new(),
        }
    }

    /// Adds a message, which the client knows by `number`. Messages must be added in mailbox order.
    pub fn add(&mut self, number: u32, entry: &impl EntryData, header: &[u8]) {
        let BaseSubject { text, is_reply } = BaseSubject::extract(header::first(header, "Subject"));
        let subject = self.subject_number(text);
        let mut message = ThreadMessage { number, subject, is_reply, id: None, references: Vec::new() };
        if self.algorithm == ThreadAlgorithm::References {
            let id = header::first(header, "Message-ID").and_then(|value| message_ids(value).next());
            message.id = id.map(|id| self.id_number(id));
            message.references = self.references(header);
        }
        self.dates.add((sent(header, entry.received()), self.messages.len()));
        self.messages.push(message);
    }

    /// Ends the addition of messages, and begins to build the threads.
    #[must_use]
    pub fn build(self) -> ThreadBuilder {
        let Self { algorithm, messages, mut dates, ids, subjects } = self;
        dates.end();
        let counts = NumberCounts { ids: ids.len(), subjects: subjects.len() + 1 };
        ThreadBuilder { algorithm, messages, counts, order: Vec::new(), stage: BuildStage::Order(dates) }
    }

    /// Returns the ids that a message refers to, with the parent last.
    fn references(&mut self, header: &[u8]) -> Vec<u32> {
        // The nearest ancestors come last, so that only the end of an overlong field counts.
        let end = |value: &'_ [u8]| value.len().saturating_sub(FIELD_BYTES_MAX);
        let value = header::first(header, "References").map(|value| &value[end(value)..]);
        let all: Vec<&[u8]> = value.into_iter().flat_map(message_ids).collect();
        let recent = &all[all.len().saturating_sub(REFERENCES_MAX)..];
        if !recent.is_empty() {
            return recent.iter().map(|id| self.id_number(id)).collect();
        }
        let parent = header::first(header, "In-Reply-To").and_then(|value| message_ids(value).next());
        parent.map(|id| self.id_number(id)).into_iter().collect()
    }

    fn id_number(&mut self, id: &[u8]) -> u32 {
        if let Some(number) = self.ids.get(id) {
            return *number;
        }
        let number = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        self.ids.insert(id.into(), number);
        number
    }

    fn subject_number(&mut self, text: String) -> usize {
        if text.is_empty() {
            return 0;
        }
        let next = self.subjects.len() + 1;
        *self.subjects.entry(text.into_boxed_str()).or_insert(next)
    }
}

/// Threads that are built in steps.
#[derive(Debug)]
pub struct ThreadBuilder {
    algorithm: ThreadAlgorithm,
    messages: Vec<ThreadMessage>,
    counts: NumberCounts,
    /// The indexes of the messages by date.
    order: Vec<usize>,
    stage: BuildStage,
}

/// How many message ids and base subjects have numbers.
#[derive(Debug, Clone, Copy)]
struct NumberCounts {
    ids: usize,
    subjects: usize,
}

#[derive(Debug)]
enum BuildStage {
    /// Sorts the messages by date.
    Order(SortedRuns<(Timestamp, usize)>),
    /// Finds the parents by subject.
    Subjects(SubjectThreads),
    /// Finds the parents by references.
    References(Box<ReferenceThreads>),
    /// Puts the messages below their parents.
    Assembly(ForestAssembly),
}

impl ThreadBuilder {
    /// Does a step, which concerns one message. Returns the threads after the last step.
    pub fn step(&mut self) -> Option<Forest> {
        match &mut self.stage {
            BuildStage::Order(dates) => match dates.pop_first() {
                Some((_, index)) => self.order.push(index),
                None => self.stage = self.parent_stage(),
            },
            BuildStage::Subjects(threads) => {
                if threads.step(&self.messages, &self.order) {
                    self.stage = BuildStage::Assembly(ForestAssembly::new(&self.messages, threads.take_parents()));
                }
            }
            BuildStage::References(threads) => {
                if threads.step(&self.messages, &self.order) {
                    self.stage = BuildStage::Assembly(ForestAssembly::new(&self.messages, threads.take_parents()));
                }
            }
            BuildStage::Assembly(assembly) => return assembly.step(&self.messages, &self.order),
        }
        None
    }

    /// Does all remaining steps.
    #[must_use]
    pub fn finish(mut self) -> Forest {
        loop {
            if let Some(forest) = self.step() {
                return forest;
            }
        }
    }

    fn parent_stage(&self) -> BuildStage {
        match self.algorithm {
            ThreadAlgorithm::OrderedSubject => BuildStage::Subjects(SubjectThreads::new(&self.messages, self.counts)),
            ThreadAlgorithm::References => {
                BuildStage::References(Box::new(ReferenceThreads::new(&self.messages, self.counts)))
            }
        }
    }
}
