//! THREAD=ORDEREDSUBJECT (RFC 5256 §3): messages with the same base subject form a thread.
//!
//! Of the messages of a thread, the first by the date on which they were sent is the parent of all others. Threads are
//! ordered by their first messages.

use super::{NumberCounts, ThreadMessage};

/// Threads by subject, which are built in steps.
#[derive(Debug)]
pub(super) struct SubjectThreads {
    /// Number of messages that have been visited.
    next: usize,
    /// The first message of each subject.
    first: Vec<Option<usize>>,
    parents: Vec<Option<usize>>,
}

impl SubjectThreads {
    pub(super) fn new(messages: &[ThreadMessage], counts: NumberCounts) -> Self {
        Self { next: 0, first: vec![None; counts.subjects], parents: vec![None; messages.len()] }
    }

    /// Finds the parent of the next message by date. Returns `true` if there is none.
    pub(super) fn step(&mut self, messages: &[ThreadMessage], order: &[usize]) -> bool {
        let Some(message) = order.get(self.next).copied() else { return true };
        self.next += 1;
        let first = &mut self.first[messages[message].subject];
        self.parents[message] = *first;
        first.get_or_insert(message);
        false
    }

    /// Returns the parent of each message.
    pub(super) fn take_parents(&mut self) -> Vec<Option<usize>> {
        std::mem::take(&mut self.parents)
    }
}
