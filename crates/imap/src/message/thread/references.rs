//! THREAD=REFERENCES (RFC 5256 §3): threads by message ids, joined by subject.
//!
//! The steps are those of the RFC. Two of them are implemented differently, with the same result, so that time is
//! nearly linear and no function recurses:
//!
//! - The parent of a message is the last id that the message refers to, regardless of the references of other messages.
//!   These links are therefore made first. Then follow the links that references imply for ids whose messages are
//!   missing or have no references. A union-find structure detects links that would form a loop, which is possible
//!   because no link is ever removed.
//! - Dummies are not pruned one by one. Instead, the nearest message above each message is searched, and the result is
//!   remembered for the dummies on the way.

use std::collections::HashMap;

use super::ThreadMessage;
use super::forest::{Forest, Node};

/// Builds threads by references. `ids` is the number of ids that have numbers.
pub(super) fn threads(messages: &[ThreadMessage], ids: usize) -> Forest {
    let links = Links::from_messages(messages, ids);
    let mut threads = Threads::build(messages, &links);
    threads.sort_siblings();
    threads.join_by_subject();
    threads.sort_siblings();
    threads.sort_roots();
    Forest { nodes: threads.nodes, roots: threads.roots }
}

/// The links between ids (steps 1 and 2). A message without an id, or with an id that another message has, gets an
/// additional number.
struct Links {
    /// The number of each message.
    numbers: Vec<usize>,
    /// The index of the message of each number. `None` for an id whose message is missing.
    messages: Vec<Option<usize>>,
    parents: Vec<Option<usize>>,
    sets: UnionFind,
}

impl Links {
    fn from_messages(messages: &[ThreadMessage], ids: usize) -> Self {
        let mut links =
            Self { numbers: Vec::new(), messages: vec![None; ids], parents: Vec::new(), sets: UnionFind::default() };
        for (index, message) in messages.iter().enumerate() {
            let own = message.id.map(|id| id as usize).filter(|id| links.messages[*id].is_none());
            let number = own.unwrap_or(links.messages.len());
            if number == links.messages.len() {
                links.messages.push(None);
            }
            links.messages[number] = Some(index);
            links.numbers.push(number);
        }
        links.parents = vec![None; links.messages.len()];
        links.sets = UnionFind::new(links.messages.len());
        for (index, message) in messages.iter().enumerate() {
            if let Some(parent) = message.references.last() {
                links.link(*parent as usize, links.numbers[index]);
            }
        }
        for (index, message) in messages.iter().enumerate() {
            for pair in message.references.windows(2) {
                let parent = pair[0] as usize;
                let child = pair[1] as usize;
                let is_free = match links.messages[child] {
                    None => true,
                    // In the RFC, a later message without references removes the link.
                    Some(other) => messages[other].references.is_empty() && other <= index,
                };
                if is_free && links.parents[child].is_none() {
                    links.link(parent, child);
                }
            }
        }
        links
    }

    /// Links a child without a parent to a parent, unless the link would form a loop.
    fn link(&mut self, parent: usize, child: usize) {
        if self.sets.join(parent, child) {
            self.parents[child] = Some(parent);
        }
    }
}

/// Sets of connected numbers (union-find).
#[derive(Default)]
struct UnionFind {
    above: Vec<usize>,
}

impl UnionFind {
    fn new(count: usize) -> Self {
        Self { above: (0..count).collect() }
    }

    fn find_root(&mut self, number: usize) -> usize {
        let mut top = number;
        while self.above[top] != top {
            // Path halving: shortens the path for later lookups.
            self.above[top] = self.above[self.above[top]];
            top = self.above[top];
        }
        top
    }

    /// Links the tree of `child` below `parent`. Returns `false` if they are already connected.
    fn join(&mut self, parent: usize, child: usize) -> bool {
        let parent = self.find_root(parent);
        let child = self.find_root(child);
        if parent == child {
            return false;
        }
        self.above[child] = parent;
        true
    }
}

/// The end of the path upwards from a dummy (step 3).
#[derive(Clone, Copy)]
enum NearestAncestor {
    /// The path ends at a message with this node index.
    Message(usize),
    /// The path ends without a message, and this number is the topmost dummy.
    Dummy(usize),
}

/// The threads under construction.
struct Threads<'l> {
    messages: &'l [ThreadMessage],
    /// One node per message, in their order, then one node per dummy.
    nodes: Vec<Node>,
    roots: Vec<usize>,
}

impl<'l> Threads<'l> {
    /// Builds the threads without dummies, except for top-level dummies with several children (step 3).
    fn build(messages: &'l [ThreadMessage], links: &Links) -> Self {
        let nodes = messages.iter().map(|message| Node { uid: Some(message.uid), children: Vec::new() }).collect();
        let mut threads = Self { messages, nodes, roots: Vec::new() };
        let mut known: Vec<Option<NearestAncestor>> = vec![None; links.messages.len()];
        let mut groups: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut tops = Vec::new();
        for (node, number) in links.numbers.iter().enumerate() {
            match nearest_ancestor(*number, links, &mut known) {
                None => threads.roots.push(node),
                Some(NearestAncestor::Message(parent)) => threads.nodes[parent].children.push(node),
                Some(NearestAncestor::Dummy(top)) => {
                    let group = groups.entry(top).or_default();
                    if group.is_empty() {
                        tops.push(top);
                    }
                    group.push(node);
                }
            }
        }
        for children in tops.into_iter().filter_map(|top| groups.remove(&top)) {
            match children[..] {
                [only] => threads.roots.push(only),
                _ => {
                    let place = threads.add_dummy(children);
                    threads.roots.push(place);
                }
            }
        }
        threads
    }

    fn add_dummy(&mut self, children: Vec<usize>) -> usize {
        self.nodes.push(Node { uid: None, children });
        self.nodes.len() - 1
    }

    /// Returns the sort key of a node: the sent date of its message or of its first child, and the position of that
    /// message in the mailbox.
    fn order(&self, node: usize) -> (base::Timestamp, usize) {
        let message = self.first_message(node);
        (message.map_or_else(Default::default, |message| self.messages[message].sent), message.unwrap_or(node))
    }

    /// Returns the index of the message of a node or, for a dummy, of its first child.
    fn first_message(&self, node: usize) -> Option<usize> {
        let is_message = |node: &usize| *node < self.messages.len();
        Some(node).filter(is_message).or_else(|| self.nodes[node].children.first().copied().filter(is_message))
    }

    /// Sorts all siblings except the roots (step 6). Dummies exist only at the top level, so their children are
    /// messages.
    fn sort_siblings(&mut self) {
        for node in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[node].children);
            children.sort_unstable_by_key(|child| self.order(*child));
            self.nodes[node].children = children;
        }
    }

    /// Sorts the threads (step 4).
    fn sort_roots(&mut self) {
        let mut roots = std::mem::take(&mut self.roots);
        roots.sort_unstable_by_key(|root| self.order(*root));
        self.roots = roots;
    }

    fn is_dummy(&self, node: usize) -> bool {
        self.nodes[node].uid.is_none()
    }

    fn is_reply(&self, node: usize) -> bool {
        !self.is_dummy(node) && self.first_message(node).is_some_and(|message| self.messages[message].subject.is_reply)
    }

    fn subject(&self, node: usize) -> &'l str {
        self.first_message(node).map_or("", |message| &self.messages[message].subject.text)
    }

    /// Joins threads with the same subject (step 5).
    fn join_by_subject(&mut self) {
        self.sort_roots();
        let mut table = self.subject_table();
        let mut roots = Vec::new();
        for current in std::mem::take(&mut self.roots) {
            let subject = self.subject(current);
            match table.get(subject).copied() {
                Some(first) if first != current => {
                    if let Some(place) = self.join(first, current) {
                        table.insert(subject, place);
                    }
                }
                _ => roots.push(current),
            }
        }
        // A dummy that replaces a root takes the position of that root.
        let mut replaced: HashMap<usize, usize> = HashMap::new();
        for place in table.into_values().filter(|node| self.is_dummy(*node)) {
            replaced.extend(self.nodes[place].children.iter().map(|child| (*child, place)));
        }
        self.roots = roots.into_iter().map(|root| replaced.get(&root).copied().unwrap_or(root)).collect();
    }

    /// Returns the thread that represents each subject (step 5.B).
    fn subject_table(&self) -> HashMap<&'l str, usize> {
        let mut table: HashMap<&'l str, usize> = HashMap::new();
        for root in self.roots.iter().copied().filter(|root| !self.subject(*root).is_empty()) {
            let stands = table.entry(self.subject(root)).or_insert(root);
            let gives_way =
                !self.is_dummy(*stands) && (self.is_dummy(root) || (self.is_reply(*stands) && !self.is_reply(root)));
            if gives_way {
                *stands = root;
            }
        }
        table
    }

    /// Joins a thread with the one that represents its subject (step 5.C). Returns the new dummy that now represents
    /// the subject, if one was created.
    fn join(&mut self, first: usize, current: usize) -> Option<usize> {
        match (self.is_dummy(first), self.is_dummy(current)) {
            (true, true) => {
                let children = std::mem::take(&mut self.nodes[current].children);
                self.nodes[first].children.extend(children);
                None
            }
            (true, false) => {
                self.nodes[first].children.push(current);
                None
            }
            _ if self.is_reply(current) && !self.is_reply(first) => {
                self.nodes[first].children.push(current);
                None
            }
            _ => Some(self.add_dummy(vec![first, current])),
        }
    }
}

/// Returns the message or topmost dummy above a number, skipping dummies. Returns `None` if the number has no parent.
fn nearest_ancestor(number: usize, links: &Links, known: &mut [Option<NearestAncestor>]) -> Option<NearestAncestor> {
    let start = links.parents[number]?;
    let mut passed = Vec::new();
    let mut place = start;
    let found = loop {
        if let Some(message) = links.messages[place] {
            break NearestAncestor::Message(message);
        }
        if let Some(above) = known[place] {
            break above;
        }
        passed.push(place);
        match links.parents[place] {
            Some(parent) => place = parent,
            None => break NearestAncestor::Dummy(place),
        }
    };
    passed.into_iter().for_each(|place| known[place] = Some(found));
    Some(found)
}
