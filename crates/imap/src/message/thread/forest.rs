//! Threads as trees, and their output form.
//!
//! Trees are lists of child indexes. No function recurses, because a thread may be as deep as the number of messages in
//! the mailbox.

use crate::codec::ResponseWriter;

/// Threads, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forest {
    pub(super) nodes: Vec<Node>,
    pub(super) roots: Vec<usize>,
}

/// A message of a thread, or a dummy for a missing message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Node {
    /// The UID. `None` for a dummy.
    pub(super) uid: Option<u32>,
    pub(super) children: Vec<usize>,
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

    /// Appends the threads. `shown` maps a UID to the number by which the client knows the message.
    pub fn write(&self, out: &mut ResponseWriter, mut shown: impl FnMut(u32) -> u32) {
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
                    Step::Node(index) => self.write_chain(index, &mut steps, out, &mut shown),
                }
            }
        }
    }

    /// Writes a message and its chain of only children, up to the first message with several children. Those children
    /// become steps.
    fn write_chain(
        &self,
        start: usize,
        steps: &mut Vec<Step>,
        out: &mut ResponseWriter,
        shown: &mut impl FnMut(u32) -> u32,
    ) {
        let mut index = start;
        loop {
            let node = &self.nodes[index];
            if let Some(uid) = node.uid {
                out.number(u64::from(shown(uid)));
            }
            if !node.children.is_empty() && node.uid.is_some() {
                out.space();
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
