//! THREAD=REFERENCES (RFC 5256 §3): threads by message ids, joined by subject.
//!
//! The steps are those of the RFC. Some of them are implemented differently, with the same result, so that time is
//! nearly linear, no function recurses, and the work can be interrupted after each message:
//!
//! - The parent of a message is the last id that the message refers to, regardless of the references of other messages.
//!   These links are therefore made first. Then follow the links that references imply for ids whose messages are
//!   missing or have no references. A union-find structure detects links that would form a loop, which is possible
//!   because no link is ever removed.
//! - Dummies are not pruned one by one. Instead, the nearest message above each message is searched, and the result is
//!   remembered for the dummies on the way.
//! - The messages are visited by date, so that siblings and threads need not be sorted.

use std::collections::HashMap;

use super::{NumberCounts, ThreadMessage};

/// Threads by references, which are built in steps. A node is a message, by its index, or a dummy. The dummies follow
/// the messages, and exist only at the top level.
#[derive(Debug)]
pub(super) struct ReferenceThreads {
    pass: Pass,
    /// Number of messages or threads that the pass has visited.
    next: usize,
    links: Links,
    /// What was found above dummies, by the number of their ids.
    nearest: Vec<Option<NearestAncestor>>,
    /// The nodes of topmost dummies by the number of their ids.
    dummies: HashMap<usize, usize>,
    /// The children of each dummy by date.
    groups: Vec<Vec<usize>>,
    parents: Vec<Option<usize>>,
    /// The threads by date.
    roots: Vec<usize>,
    /// The thread that represents each subject.
    table: Vec<Option<usize>>,
}

/// The passes over the messages or the threads.
#[derive(Debug, Clone, Copy)]
enum Pass {
    /// Numbers the messages.
    Numbers,
    /// Links the messages to their parents (step 1).
    Parents,
    /// Makes the links that references imply (step 1).
    References,
    /// Finds the nearest messages above the messages, and the topmost dummies (steps 2 to 4).
    Ancestors,
    /// Removes dummies with one child (step 3).
    SingleChildren,
    /// Finds the threads that represent the subjects (step 5.B).
    Subjects,
    /// Joins threads with the same subject (step 5.C).
    Join,
}

impl ReferenceThreads {
    pub(super) fn new(messages: &[ThreadMessage], counts: NumberCounts) -> Self {
        Self {
            pass: Pass::Numbers,
            next: 0,
            links: Links::new(counts.ids),
            nearest: Vec::new(),
            dummies: HashMap::new(),
            groups: Vec::new(),
            parents: vec![None; messages.len()],
            roots: Vec::new(),
            table: vec![None; counts.subjects],
        }
    }

    /// Visits the next message or thread. Returns `true` if the parents are known.
    pub(super) fn step(&mut self, messages: &[ThreadMessage], order: &[usize]) -> bool {
        let count = match self.pass {
            Pass::Numbers | Pass::Parents | Pass::References | Pass::Ancestors => messages.len(),
            Pass::SingleChildren | Pass::Subjects | Pass::Join => self.roots.len(),
        };
        let place = self.next;
        if place >= count {
            return self.end_pass();
        }
        self.next += 1;
        match self.pass {
            Pass::Numbers => self.links.add_message(messages, place),
            Pass::Parents => self.links.link_to_parent(messages, place),
            Pass::References => self.links.link_references(messages, place),
            Pass::Ancestors => self.add_message(messages, order[place]),
            Pass::SingleChildren => self.remove_single_parent(messages, place),
            Pass::Subjects => self.enter_subject(messages, self.roots[place]),
            Pass::Join => self.join_by_subject(messages, self.roots[place]),
        }
        false
    }

    /// Returns the parent of each message and of each dummy.
    pub(super) fn take_parents(&mut self) -> Vec<Option<usize>> {
        std::mem::take(&mut self.parents)
    }

    /// Begins the next pass. Returns `true` if there is none.
    fn end_pass(&mut self) -> bool {
        self.pass = match self.pass {
            Pass::Numbers => {
                self.links.begin();
                Pass::Parents
            }
            Pass::Parents => Pass::References,
            Pass::References => {
                self.nearest = vec![None; self.links.messages.len()];
                Pass::Ancestors
            }
            Pass::Ancestors => Pass::SingleChildren,
            Pass::SingleChildren => Pass::Subjects,
            Pass::Subjects => Pass::Join,
            Pass::Join => return true,
        };
        self.next = 0;
        false
    }

    /// Adds a message below the nearest message above it, or below the topmost dummy if there is no message, or as a
    /// thread.
    fn add_message(&mut self, messages: &[ThreadMessage], message: usize) {
        match nearest_ancestor(self.links.numbers[message], &self.links, &mut self.nearest) {
            None => self.roots.push(message),
            Some(NearestAncestor::Message(parent)) => self.parents[message] = Some(parent),
            Some(NearestAncestor::Dummy(top)) => {
                let known = self.dummies.get(&top).copied();
                let dummy = known.unwrap_or_else(|| self.add_topmost_dummy(top));
                self.groups[dummy - messages.len()].push(message);
                self.parents[message] = Some(dummy);
            }
        }
    }

    fn add_topmost_dummy(&mut self, number: usize) -> usize {
        let dummy = self.add_dummy(Vec::new());
        self.dummies.insert(number, dummy);
        self.roots.push(dummy);
        dummy
    }

    fn add_dummy(&mut self, children: Vec<usize>) -> usize {
        self.groups.push(children);
        self.parents.push(None);
        self.parents.len() - 1
    }

    /// Replaces a dummy with one child by this child.
    fn remove_single_parent(&mut self, messages: &[ThreadMessage], place: usize) {
        let Some(dummy) = self.roots[place].checked_sub(messages.len()) else { return };
        if let [only] = self.groups[dummy][..] {
            self.roots[place] = only;
            self.parents[only] = None;
        }
    }

    /// Returns the message of a node or, for a dummy, of its first child.
    fn first_message(&self, messages: &[ThreadMessage], node: usize) -> usize {
        let first_child = |dummy: usize| self.groups[dummy].first().copied().unwrap_or_default();
        node.checked_sub(messages.len()).map_or(node, first_child)
    }

    /// Lets a thread represent its subject, unless another thread does so with more right.
    fn enter_subject(&mut self, messages: &[ThreadMessage], root: usize) {
        let subject = messages[self.first_message(messages, root)].subject;
        if subject == 0 {
            return;
        }
        let gives_way = |stands: usize| {
            !is_dummy(messages, stands)
                && (is_dummy(messages, root) || (is_reply(messages, stands) && !is_reply(messages, root)))
        };
        if self.table[subject].is_none_or(gives_way) {
            self.table[subject] = Some(root);
        }
    }

    /// Joins a thread with the one that represents its subject. If neither can be the parent, a new dummy becomes the
    /// parent of both, and represents the subject.
    fn join_by_subject(&mut self, messages: &[ThreadMessage], current: usize) {
        let subject = messages[self.first_message(messages, current)].subject;
        let Some(first) = self.table[subject].filter(|first| *first != current) else { return };
        if is_dummy(messages, first) && is_dummy(messages, current) {
            for child in std::mem::take(&mut self.groups[current - messages.len()]) {
                self.parents[child] = Some(first);
            }
        } else if is_dummy(messages, first) || (is_reply(messages, current) && !is_reply(messages, first)) {
            self.parents[current] = Some(first);
        } else {
            let place = self.add_dummy(vec![first, current]);
            self.parents[first] = Some(place);
            self.parents[current] = Some(place);
            self.table[subject] = Some(place);
        }
    }
}

fn is_dummy(messages: &[ThreadMessage], node: usize) -> bool {
    node >= messages.len()
}

fn is_reply(messages: &[ThreadMessage], node: usize) -> bool {
    messages.get(node).is_some_and(|message| message.is_reply)
}

/// The links between ids (steps 1 and 2). A message without an id, or with an id that another message has, gets an
/// additional number.
#[derive(Debug)]
struct Links {
    /// The number of each message.
    numbers: Vec<usize>,
    /// The index of the message of each number. `None` for an id whose message is missing.
    messages: Vec<Option<usize>>,
    parents: Vec<Option<usize>>,
    sets: UnionFind,
}

impl Links {
    fn new(ids: usize) -> Self {
        Self { numbers: Vec::new(), messages: vec![None; ids], parents: Vec::new(), sets: UnionFind::default() }
    }

    /// Numbers the next message.
    fn add_message(&mut self, messages: &[ThreadMessage], index: usize) {
        let own = messages[index].id.map(|id| id as usize).filter(|id| self.messages[*id].is_none());
        let number = own.unwrap_or(self.messages.len());
        if number == self.messages.len() {
            self.messages.push(None);
        }
        self.messages[number] = Some(index);
        self.numbers.push(number);
    }

    /// Prepares for links. All messages must have numbers.
    fn begin(&mut self) {
        self.parents = vec![None; self.messages.len()];
        self.sets = UnionFind::new(self.messages.len());
    }

    fn link_to_parent(&mut self, messages: &[ThreadMessage], index: usize) {
        if let Some(parent) = messages[index].references.last() {
            self.link(*parent as usize, self.numbers[index]);
        }
    }

    /// Makes the links that the references of a message imply.
    fn link_references(&mut self, messages: &[ThreadMessage], index: usize) {
        for pair in messages[index].references.windows(2) {
            let parent = pair[0] as usize;
            let child = pair[1] as usize;
            let is_free = match self.messages[child] {
                None => true,
                // In the RFC, a later message without references removes the link.
                Some(other) => messages[other].references.is_empty() && other <= index,
            };
            if is_free && self.parents[child].is_none() {
                self.link(parent, child);
            }
        }
    }

    /// Links a child without a parent to a parent, unless the link would form a loop.
    fn link(&mut self, parent: usize, child: usize) {
        if self.sets.join(parent, child) {
            self.parents[child] = Some(parent);
        }
    }
}

/// Sets of connected numbers (union-find).
#[derive(Debug, Default)]
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
#[derive(Debug, Clone, Copy)]
enum NearestAncestor {
    /// The path ends at a message with this index.
    Message(usize),
    /// The path ends without a message, and this number is the topmost dummy.
    Dummy(usize),
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
