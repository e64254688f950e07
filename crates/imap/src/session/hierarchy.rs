//! The tree of mailboxes as LIST and LSUB show it: names, implied parents, attributes.
//!
//! The mail file stores folders by their full names. A client also sees intermediate levels, such as `a` if only `a/b`
//! exists, and subscriptions to names without a mailbox. [`Hierarchy`] holds only the stored names. It derives the
//! levels above them while they are listed ([`super::list_walk`]), so its size does not depend on the depth of names.
//! Pure.
//!
//! The separator is `/`. The names are in the order of the tree: a name is followed by the names below it. The names
//! that begin with a certain text are adjacent.

use std::cmp::Ordering;
use std::ops::Range;

use base::ViewId;

use crate::codec::command::{ListReturns, ListSelection, SpecialUseAttribute};

/// The separator between levels.
pub const SEPARATOR: char = '/';

/// The name of the mailbox that LIST shows first.
pub const INBOX: &str = "INBOX";

/// Number of bytes that are compared at once.
const COMPARED_BYTES: usize = 64;

/// A stored name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HierarchyEntry {
    /// The name.
    pub name: String,
    /// The folder, or `None` if there is no mailbox with this name.
    pub folder: Option<ViewId>,
    /// `true` if the client has subscribed to the name.
    pub subscribed: bool,
    /// The special use of the mailbox.
    pub special_use: Option<SpecialUseAttribute>,
}

/// The properties of a name in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListedMailbox {
    /// The folder, or `None` if the name is an intermediate level or only subscribed to.
    pub folder: Option<ViewId>,
    /// `true` if the client has subscribed to the name.
    pub subscribed: bool,
    /// The special use of the mailbox.
    pub special_use: Option<SpecialUseAttribute>,
    /// `true` if there is an existing mailbox below the name.
    pub has_children: bool,
    /// `true` if there is a subscribed name below the name.
    pub has_subscribed_children: bool,
}

impl ListedMailbox {
    /// Returns `true` if the mailbox exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.folder.is_some()
    }
}

/// A line of the response to LIST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEntry<'h> {
    /// The name.
    pub name: &'h str,
    /// The properties of the name.
    pub mailbox: ListedMailbox,
    /// `true` if a name below this one meets the selection criteria (RECURSIVEMATCH), so that CHILDINFO is sent.
    pub child_info: bool,
}

/// The form of LIST responses that a client asked for.
#[derive(Debug, Clone, Copy)]
pub struct ListForm<'c> {
    /// The selection options.
    pub selection: ListSelection,
    /// The return options.
    pub returns: &'c ListReturns,
    /// `true` if the client knows `\NonExistent` and that it implies `\Noselect` (RFC 5258 §3, RFC 9051 §7.3.1). RFC
    /// 3501 has only `\Noselect`.
    pub knows_nonexistent: bool,
}

/// The names that a client can see.
#[derive(Debug)]
pub struct Hierarchy {
    /// The stored names, in the order of the tree.
    entries: Vec<HierarchyEntry>,
    next_existing: Vec<usize>,
    next_subscribed: Vec<usize>,
}

impl Hierarchy {
    /// Creates the tree from stored names. Of several entries with the same name, the last one counts.
    #[must_use]
    pub fn new(mut entries: Vec<HierarchyEntry>) -> Self {
        entries.sort_by(|one, other| tree_order(&one.name, &other.name));
        entries.dedup_by(|later, kept| {
            let is_same = later.name == kept.name;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        let next_existing = next_indexes(entries.len(), |index| entries[index].folder.is_some());
        let next_subscribed = next_indexes(entries.len(), |index| entries[index].subscribed);
        Self { entries, next_existing, next_subscribed }
    }

    /// Returns the number of stored names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns a stored name by its index, or an empty text if there is no such index.
    #[must_use]
    pub fn name(&self, index: usize) -> &str {
        self.entries.get(index).map_or("", |entry| &entry.name)
    }

    /// Returns the properties of a name, or `None` if it is neither stored nor above a stored name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ListedMailbox> {
        let index = self.index_of_first_from(name);
        if self.has_name(index, name) || self.is_below(index, name) { Some(self.describe(index, name)) } else { None }
    }

    /// Returns the index of a stored name.
    #[must_use]
    pub fn index_of(&self, name: &str) -> Option<usize> {
        Some(self.index_of_first_from(name)).filter(|index| self.has_name(*index, name))
    }

    /// Returns the indexes of the stored names that begin with a text.
    #[must_use]
    pub fn range_with_prefix(&self, prefix: &str) -> Range<usize> {
        let start = self.index_of_first_from(prefix);
        let count = self.entries[start..].partition_point(|entry| entry.name.starts_with(prefix));
        start..start + count
    }

    /// Returns the properties of the stored name with this index or, if it is below `name`, those of that level above
    /// it. No stored name before the index may be below `name`.
    #[must_use]
    pub fn describe(&self, index: usize, name: &str) -> ListedMailbox {
        let itself = self.entries.get(index).filter(|entry| entry.name == name);
        let below = if itself.is_some() { index + 1 } else { index };
        let has_below = |next: &[usize]| next.get(below).is_some_and(|next| self.is_below(*next, name));
        ListedMailbox {
            folder: itself.and_then(|entry| entry.folder),
            subscribed: itself.is_some_and(|entry| entry.subscribed),
            special_use: itself.and_then(|entry| entry.special_use),
            has_children: has_below(&self.next_existing),
            has_subscribed_children: has_below(&self.next_subscribed),
        }
    }

    /// Returns `true` if the stored name with an index is below a name.
    #[must_use]
    pub fn is_below(&self, index: usize, name: &str) -> bool {
        self.name(index).strip_prefix(name).is_some_and(|rest| rest.starts_with(SEPARATOR))
    }

    /// Returns the lengths of the levels above a stored name that are neither stored nor above an earlier name.
    pub fn new_parents(&self, index: usize) -> impl Iterator<Item = usize> {
        let name = self.name(index).as_bytes();
        let before = index.checked_sub(1).map_or(&[][..], |before| self.name(before).as_bytes());
        let shared = common_prefix_length(before, name);
        // In the order of the tree, the stored name of a level comes directly before the first name below it.
        let stored = (shared == before.len()).then_some(shared);
        let bytes = name.iter().enumerate().skip(shared);
        let ends = bytes.filter(|(_, byte)| char::from(**byte) == SEPARATOR).map(|(end, _)| end);
        ends.filter(move |end| Some(*end) != stored)
    }

    fn has_name(&self, index: usize, name: &str) -> bool {
        self.entries.get(index).is_some_and(|entry| entry.name == name)
    }

    /// Returns the index of the first stored name that is not before a name.
    fn index_of_first_from(&self, name: &str) -> usize {
        self.entries.partition_point(|entry| tree_order(&entry.name, name) == Ordering::Less)
    }
}

/// Returns for each index below `count`, and for `count` itself, the next index from it on that `counts`, or `count` if
/// there is none.
pub fn next_indexes(count: usize, counts: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut next = vec![count; count + 1];
    for index in (0..count).rev() {
        next[index] = if counts(index) { index } else { next[index + 1] };
    }
    next
}

/// Compares names in the order of the tree: the separator comes before all other characters.
fn tree_order(one: &str, other: &str) -> Ordering {
    let shared = common_prefix_length(one.as_bytes(), other.as_bytes());
    let rank = |name: &str| name.as_bytes().get(shared).map(|byte| (char::from(*byte) != SEPARATOR, *byte));
    rank(one).cmp(&rank(other))
}

fn common_prefix_length(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.chunks_exact(COMPARED_BYTES).zip(other.chunks_exact(COMPARED_BYTES));
    let same = blocks.take_while(|(one, other)| one == other).count() * COMPARED_BYTES;
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}

impl ListEntry<'_> {
    /// Returns the attributes to send in parentheses.
    pub fn attributes(&self, form: ListForm<'_>) -> impl Iterator<Item = &'static str> {
        let mailbox = self.mailbox;
        let missing = (!mailbox.exists()).then_some("\\NonExistent");
        let noselect = (!mailbox.exists() && !form.knows_nonexistent).then_some("\\Noselect");
        let tells_subscribed = form.returns.subscribed || form.selection.subscribed;
        let subscribed = (mailbox.subscribed && tells_subscribed).then_some("\\Subscribed");
        let children = match (mailbox.has_children, mailbox.exists()) {
            (true, _) => Some("\\HasChildren"),
            (false, true) => Some("\\HasNoChildren"),
            (false, false) => None,
        };
        let special_use = mailbox.special_use.map(SpecialUseAttribute::name);
        [missing, noselect, subscribed, children, special_use].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hierarchy(names: &[&str]) -> Hierarchy {
        let entry = |name: &&str| HierarchyEntry {
            name: (*name).to_owned(),
            folder: Some(ViewId(1)),
            subscribed: false,
            special_use: None,
        };
        Hierarchy::new(names.iter().map(entry).collect())
    }

    #[test]
    fn names_below_a_name_follow_it() {
        let tree = hierarchy(&["Work-old", "Work/b", "Work", "Work/a/c", "Work/a b"]);
        let names: Vec<&str> = (0..tree.len()).map(|index| tree.name(index)).collect();
        assert_eq!(names, ["Work", "Work/a/c", "Work/a b", "Work/b", "Work-old"]);
        assert_eq!(tree.range_with_prefix("Work/a"), 1..3);
        assert_eq!(tree.range_with_prefix("Work/"), 1..4);
        assert_eq!(tree.range_with_prefix("X"), 5..5);
        assert_eq!(tree.index_of("Work/a b"), Some(2));
        assert_eq!(tree.index_of("Work/a"), None);
    }

    #[test]
    fn last_entry_with_a_name_counts() {
        let entry = |subscribed| HierarchyEntry { name: "a".into(), folder: None, subscribed, special_use: None };
        let tree = Hierarchy::new(vec![entry(false), entry(false), entry(true)]);
        assert_eq!(tree.len(), 1);
        assert!(tree.get("a").is_some_and(|mailbox| mailbox.subscribed));
    }

    #[test]
    fn a_level_is_described_without_being_stored() {
        let tree = hierarchy(&["a/b/c", "a-b", "ab/c"]);
        let level = ListedMailbox { has_children: true, ..ListedMailbox::default() };
        for name in ["a", "a/b", "ab"] {
            assert_eq!(tree.get(name), Some(level), "{name}");
        }
        for name in ["", "a/", "b", "a/c", "abc"] {
            assert_eq!(tree.get(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn each_level_is_derived_once(names in prop::collection::btree_set("[ab-]{1,2}(/[ab-]{1,2}){0,3}", 0..12)) {
            let tree = hierarchy(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let levels = |name: &str| {
                let ends: Vec<usize> = name.match_indices('/').map(|(end, _)| end).collect();
                ends.into_iter().map(|end| name[..end].to_owned()).collect::<Vec<String>>()
            };
            let mut expected: Vec<String> = names.iter().flat_map(|name| levels(name)).collect();
            expected.retain(|level| !names.contains(level));
            expected.sort();
            expected.dedup();
            let derived = |index: usize| {
                let name = tree.name(index);
                tree.new_parents(index).map(move |end| name[..end].to_owned())
            };
            let mut found: Vec<String> = (0..tree.len()).flat_map(derived).collect();
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
