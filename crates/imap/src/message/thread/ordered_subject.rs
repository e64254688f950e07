//! THREAD=ORDEREDSUBJECT (RFC 5256 §3): messages with the same base subject form a thread.
//!
//! Messages of a thread are ordered by the date on which they were sent, and the first is the parent of all others.
//! Threads are ordered by their first messages.

use super::ThreadMessage;
use super::forest::{Forest, Node};

/// Builds threads by subject.
pub(super) fn threads(messages: &[ThreadMessage]) -> Forest {
    let mut order: Vec<usize> = (0..messages.len()).collect();
    let by_date = |index: &usize| (messages[*index].sent, *index);
    order.sort_unstable_by(|a, b| {
        let subjects = messages[*a].subject.text.cmp(&messages[*b].subject.text);
        subjects.then_with(|| by_date(a).cmp(&by_date(b)))
    });
    let mut nodes: Vec<Node> =
        messages.iter().map(|message| Node { uid: Some(message.uid), children: Vec::new() }).collect();
    let mut roots = Vec::new();
    for thread in order.chunk_by(|a, b| messages[*a].subject.text == messages[*b].subject.text) {
        if let Some((first, others)) = thread.split_first() {
            nodes[*first].children = others.to_vec();
            roots.push(*first);
        }
    }
    roots.sort_unstable_by_key(by_date);
    Forest { nodes, roots }
}
