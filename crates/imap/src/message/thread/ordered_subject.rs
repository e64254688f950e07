//! THREAD=ORDEREDSUBJECT (RFC 5256 §3): messages with the same base subject form a thread.
//!
//! Messages of a thread are ordered by the date on which they were sent, and the first is the parent of all others.
//! Threads are ordered by their first messages.

use super::ThreadMessage;
use super::forest::{Forest, Node};

/// Builds threads by subject.
pub(super) fn threads(letters: &[ThreadMessage]) -> Forest {
    let mut order: Vec<usize> = (0..letters.len()).collect();
    let by_date = |index: &usize| (letters[*index].sent, *index);
    order.sort_unstable_by(|a, b| {
        let subjects = letters[*a].subject.text.cmp(&letters[*b].subject.text);
        subjects.then_with(|| by_date(a).cmp(&by_date(b)))
    });
    let mut nodes: Vec<Node> =
        letters.iter().map(|letter| Node { uid: Some(letter.uid), children: Vec::new() }).collect();
    let mut roots = Vec::new();
    for thread in order.chunk_by(|a, b| letters[*a].subject.text == letters[*b].subject.text) {
        if let Some((first, others)) = thread.split_first() {
            nodes[*first].children = others.to_vec();
            roots.push(*first);
        }
    }
    roots.sort_unstable_by_key(by_date);
    Forest { nodes, roots }
}
