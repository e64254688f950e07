//! THREAD (RFC 5256): groups messages into threads.
//!
//! A [`Threader`] takes the messages one by one, in mailbox order, and keeps only the data that threading needs:
//! message ids as numbers, the base subject, and the date. [`Threader::finish`] builds the [`Forest`].
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
use mail::mime::header;

use super::entry::EntryData;
use super::sort::sent;
use super::subject::BaseSubject;
use crate::codec::command::ThreadAlgorithm;
use crate::limits::{MESSAGE_ID_BYTES_MAX, REFERENCES_MAX};

pub use forest::Forest;

/// Builds threads from messages.
#[derive(Debug)]
pub struct Threader {
    algorithm: ThreadAlgorithm,
    messages: Vec<ThreadMessage>,
    /// The number of each message id.
    ids: HashMap<Box<[u8]>, u32>,
}

/// The data of a message that threading needs.
#[derive(Debug)]
struct ThreadMessage {
    uid: u32,
    sent: Timestamp,
    subject: BaseSubject,
    id: Option<u32>,
    references: Vec<u32>,
}

impl Threader {
    /// Creates a threader without messages.
    #[must_use]
    pub fn new(algorithm: ThreadAlgorithm) -> Self {
        Self { algorithm, messages: Vec::new(), ids: HashMap::new() }
    }

    /// Adds a message. Messages must be added in mailbox order.
    pub fn add(&mut self, entry: &impl EntryData, header: &[u8]) {
        let mut message = ThreadMessage {
            uid: entry.uid(),
            sent: sent(header, entry.received()),
            subject: BaseSubject::extract(header::first(header, "Subject")),
            id: None,
            references: Vec::new(),
        };
        if self.algorithm == ThreadAlgorithm::References {
            let id = header::first(header, "Message-ID").and_then(|value| message_ids(value).next());
            message.id = id.map(|id| self.number(id));
            message.references = self.references(header);
        }
        self.messages.push(message);
    }

    /// Builds the threads.
    #[must_use]
    pub fn finish(self) -> Forest {
        match self.algorithm {
            ThreadAlgorithm::OrderedSubject => ordered_subject::threads(&self.messages),
            ThreadAlgorithm::References => references::threads(&self.messages, self.ids.len()),
        }
    }

    /// Returns the ids that a message refers to, with the parent last.
    fn references(&mut self, header: &[u8]) -> Vec<u32> {
        // The nearest ancestors come last, so that only the end of an overlong field counts.
        let end = |value: &'_ [u8]| value.len().saturating_sub(FIELD_BYTES_MAX);
        let value = header::first(header, "References").map(|value| &value[end(value)..]);
        let all: Vec<&[u8]> = value.into_iter().flat_map(message_ids).collect();
        let recent = &all[all.len().saturating_sub(REFERENCES_MAX)..];
        if !recent.is_empty() {
            return recent.iter().map(|id| self.number(id)).collect();
        }
        let parent = header::first(header, "In-Reply-To").and_then(|value| message_ids(value).next());
        parent.map(|id| self.number(id)).into_iter().collect()
    }

    fn number(&mut self, id: &[u8]) -> u32 {
        if let Some(number) = self.ids.get(id) {
            return *number;
        }
        let number = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        self.ids.insert(id.into(), number);
        number
    }
}

/// Returns the message ids of a field: text in angle brackets that contains an `@`.
fn message_ids(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b'>').filter_map(|piece| {
        let start = memchr::memrchr(b'<', piece)?;
        let id = piece[start + 1..].trim_ascii();
        (id.contains(&b'@') && id.len() <= MESSAGE_ID_BYTES_MAX).then_some(id)
    })
}
