//! Threads as trees, and their output form.
//!
//! Trees are lists of child indexes. No function recurses, because a thread may be as deep as the number of messages in
//! the mailbox.

use super::ThreadMessage;
use crate::codec::ResponseWriter;

/// Threads, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forest {
    nodes: Vec<Node>,
    roots: Vec<usize>,
}

/// A message of a thread, or a dummy for a missing message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Node {
    /// The number by which the client knows the message. `None` for a dummy.
    number: Option<u32>,
    children: Vec<usize>,
}

/// A forest that is assembled in steps.
#[derive(Debug)]
pub(super) struct ForestAssembly {
    /// The parent of each message and of each dummy. The dummies follow the messages, and have no parents.
    parents: Vec<Option<usize>>,
    /// Number of messages that have been put below their parents.
    next: usize,
    forest: Forest,
}

impl ForestAssembly {
    pub(super) fn new(messages: &[ThreadMessage], parents: Vec<Option<usize>>) -> Self {
        let mut nodes: Vec<Node> =
            messages.iter().map(|message| Node { number: Some(message.number), children: Vec::new() }).collect();
        nodes.resize(parents.len(), Node::default());
        Self { parents, next: 0, forest: Forest { nodes, roots: Vec::new() } }
    }

    /// Puts the next message by date below its parent. Returns the forest if there is none.
    pub(super) fn step(&mut self, messages: &[ThreadMessage], order: &[usize]) -> Option<Forest> {
        let Some(message) = order.get(self.next).copied() else { return Some(std::mem::take(&mut self.forest)) };
        self.next += 1;
        let Forest { nodes, roots } = &mut self.forest;
        match self.parents[message] {
            None => roots.push(message),
            Some(parent) => {
                let children = &mut nodes[parent].children;
                // A dummy stands where its first child would stand.
                if parent >= messages.len() && children.is_empty() {
                    roots.push(parent);
                }
                children.push(message);
            }
        }
        None
    }
}

enum Step {
    Open,
    Node(usize),
    Close,
}

impl Forest {
    /// Returns `true` if there are no threads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Appends the threads.
    pub fn write(&self, out: &mut ResponseWriter) {
        let mut steps = Vec::new();
        for root in &self.roots {
            out.byte(b'(');
            steps.extend([Step::Close, Step::Node(*root)]);
            while let Some(step) = steps.pop() {
                match step {
                    Step::Open => {
                        out.byte(b'(');
                    }
                    Step::Close => {
                        out.byte(b')');
                    }
                    Step::Node(index) => self.write_chain(index, &mut steps, out),
                }
            }
        }
    }

    /// Writes a message and its chain of only children, up to the first message with several children. Those children
    /// become steps.
    fn write_chain(&self, start: usize, steps: &mut Vec<Step>, out: &mut ResponseWriter) {
        let mut index = start;
        loop {
            let node = &self.nodes[index];
            if let Some(number) = node.number {
                out.number(u64::from(number));
                if !node.children.is_empty() {
                    out.space();
                }
            }
            match node.children[..] {
                [] => return,
                [child] => index = child,
                _ => break,
            }
        }
        for child in self.nodes[index].children.iter().rev() {
            steps.extend([Step::Close, Step::Node(*child), Step::Open]);
        }
    }
}
