//! Expansion of groups, whose members may be groups themselves, to people and remote addresses.
//!
//! The expansion is a pure algorithm that resolves member names through a [`MemberResolver`]. Groups are expanded level
//! by level, so that every group is first found at its minimum depth, and each group is expanded once. So cycles end,
//! and the work is bounded by the number of reachable groups and members. Duplicates are removed. The order is that of
//! the first occurrence.
//!
//! An unknown member does not make the expansion fail. It is listed in the result, so that the caller can report it.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

use base::limits::{GROUP_DEPTH_MAX, GROUP_EXPANSION_MAX};

/// The meaning of a member's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member<P, G> {
    /// A person in this directory.
    Person(P),
    /// A group in this directory.
    Group(G),
    /// A remote mail address, in the form by which duplicates are detected.
    Remote(String),
    /// An unknown name.
    Unknown,
}

/// Resolves member names.
pub trait MemberResolver {
    /// Identifier of a person.
    type Person: Clone + Eq + Hash;
    /// Identifier of a group.
    type Group: Clone + Eq + Hash;
    /// Error of a failed lookup.
    type Error;

    /// Resolves a member's name.
    fn member(&self, name: &str) -> Result<Member<Self::Person, Self::Group>, Self::Error>;

    /// Returns the names of a group's members.
    fn members(&self, group: &Self::Group) -> Result<Vec<String>, Self::Error>;
}

/// Limits of an expansion.
#[derive(Debug, Clone, Copy)]
pub struct ExpansionLimits {
    /// Maximum number of group levels below the first.
    pub depth_max: usize,
    /// Maximum number of groups, people and addresses together.
    pub results_max: usize,
}

impl Default for ExpansionLimits {
    fn default() -> Self {
        Self { depth_max: GROUP_DEPTH_MAX, results_max: GROUP_EXPANSION_MAX }
    }
}

/// The members of a group after expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandedMembers<P> {
    /// People in this directory.
    pub people: Vec<P>,
    /// Remote addresses.
    pub remote: Vec<String>,
    /// Unknown names.
    pub unknown: Vec<String>,
}

impl<P> Default for ExpandedMembers<P> {
    fn default() -> Self {
        Self { people: Vec::new(), remote: Vec::new(), unknown: Vec::new() }
    }
}

/// The reason why a group cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpandError<E> {
    /// Groups are nested deeper than the limit.
    TooDeep {
        /// Name of the group beyond the limit, as listed in its parent group.
        group: String,
    },
    /// There are more results than the limit.
    TooMany,
    /// A lookup failed.
    Lookup(E),
}

/// Returns all direct and indirect members of a group.
pub fn expand<L: MemberResolver>(
    lookup: &L,
    group: &L::Group,
    bounds: ExpansionLimits,
) -> Result<ExpandedMembers<L::Person>, ExpandError<L::Error>> {
    let mut walk = ExpansionState::new(lookup, bounds);
    walk.groups.insert(group.clone());
    walk.waiting.push_back((group.clone(), 0));
    while let Some((group, depth)) = walk.waiting.pop_front() {
        for name in lookup.members(&group).map_err(ExpandError::Lookup)? {
            walk.visit(name, depth)?;
        }
    }
    Ok(walk.found)
}

/// An expansion in progress.
struct ExpansionState<'l, L: MemberResolver> {
    lookup: &'l L,
    bounds: ExpansionLimits,
    /// Groups found so far. Those that still have to be expanded are in `waiting` with their depth below the first
    /// group.
    groups: HashSet<L::Group>,
    waiting: VecDeque<(L::Group, usize)>,
    people: HashSet<L::Person>,
    /// Remote addresses and unknown names found so far.
    texts: HashSet<String>,
    found: ExpandedMembers<L::Person>,
}

impl<'l, L: MemberResolver> ExpansionState<'l, L> {
    fn new(lookup: &'l L, bounds: ExpansionLimits) -> Self {
        Self {
            lookup,
            bounds,
            groups: HashSet::new(),
            waiting: VecDeque::new(),
            people: HashSet::new(),
            texts: HashSet::new(),
            found: ExpandedMembers::default(),
        }
    }

    /// Adds one member of a group at `depth`.
    fn visit(&mut self, name: String, depth: usize) -> Result<(), ExpandError<L::Error>> {
        match self.lookup.member(&name).map_err(ExpandError::Lookup)? {
            Member::Person(person) => {
                if self.people.insert(person.clone()) {
                    self.found.people.push(person);
                }
            }
            Member::Remote(address) => {
                if self.texts.insert(address.clone()) {
                    self.found.remote.push(address);
                }
            }
            Member::Unknown => {
                if self.texts.insert(name.clone()) {
                    self.found.unknown.push(name);
                }
            }
            Member::Group(group) => {
                if self.groups.insert(group.clone()) {
                    self.descend(group, name, depth + 1)?;
                }
            }
        }
        let results = self.people.len() + self.texts.len() + self.groups.len();
        if results > self.bounds.results_max { Err(ExpandError::TooMany) } else { Ok(()) }
    }

    fn descend(&mut self, group: L::Group, name: String, depth: usize) -> Result<(), ExpandError<L::Error>> {
        if depth > self.bounds.depth_max {
            return Err(ExpandError::TooDeep { group: name });
        }
        self.waiting.push_back((group, depth));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
