//! Expansion of groups: from members that may be groups themselves to people and foreign addresses.
//!
//! Pure: what a member's name stands for is asked of a [`Lookup`]. Groups are taken apart level by level, so that every
//! group is met first at its least depth; a group that was met is not taken apart again. So cycles end, and
//! the work is bounded by the groups and members that can be reached. Duplicates are removed; the order is that of the first
//! mention.
//!
//! A member that nobody knows does not spoil the group: it is listed, for the caller to report.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

use base::limits::{GROUP_DEPTH_MAX, GROUP_EXPANSION_MAX};

/// What a member's name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member<P, G> {
    /// A person of this directory.
    Person(P),
    /// A group of this directory.
    Group(G),
    /// A mail address elsewhere, in the form by which duplicates are found.
    Remote(String),
    /// Nobody knows.
    Unknown,
}

/// Tells what names stand for.
pub trait Lookup {
    /// Identifies a person.
    type Person: Clone + Eq + Hash;
    /// Identifies a group.
    type Group: Clone + Eq + Hash;
    /// What a look-up may fail with.
    type Error;

    /// Tells what a member's name stands for.
    fn member(&self, name: &str) -> Result<Member<Self::Person, Self::Group>, Self::Error>;

    /// Gives the names of a group's members.
    fn members(&self, group: &Self::Group) -> Result<Vec<String>, Self::Error>;
}

/// What may be passed by an expansion.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most levels of groups below the first.
    pub depth_max: usize,
    /// Most groups, people and addresses together.
    pub results_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { depth_max: GROUP_DEPTH_MAX, results_max: GROUP_EXPANSION_MAX }
    }
}

/// Who belongs to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expansion<P> {
    /// The people of this directory.
    pub people: Vec<P>,
    /// The addresses elsewhere.
    pub remote: Vec<String>,
    /// The names that nobody knows.
    pub unknown: Vec<String>,
}

impl<P> Default for Expansion<P> {
    fn default() -> Self {
        Self { people: Vec::new(), remote: Vec::new(), unknown: Vec::new() }
    }
}

/// Says why a group cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpandError<E> {
    /// Groups are nested deeper than the bounds allow.
    TooDeep {
        /// The name, in its group, of the group that lies too deep.
        group: String,
    },
    /// There are more results than the bounds allow.
    TooMany,
    /// A look-up failed.
    Lookup(E),
}

/// Finds everybody who belongs to a group, directly or through other groups.
pub fn expand<L: Lookup>(
    lookup: &L,
    group: &L::Group,
    bounds: Bounds,
) -> Result<Expansion<L::Person>, ExpandError<L::Error>> {
    let mut walk = Walk::new(lookup, bounds);
    walk.groups.insert(group.clone());
    walk.waiting.push_back((group.clone(), 0));
    while let Some((group, depth)) = walk.waiting.pop_front() {
        for name in lookup.members(&group).map_err(ExpandError::Lookup)? {
            walk.visit(name, depth)?;
        }
    }
    Ok(walk.found)
}

/// An expansion under way.
struct Walk<'l, L: Lookup> {
    lookup: &'l L,
    bounds: Bounds,
    /// Groups that were met, and their depth below the first while they wait to be taken apart.
    groups: HashSet<L::Group>,
    waiting: VecDeque<(L::Group, usize)>,
    people: HashSet<L::Person>,
    /// Remote addresses and unknown names.
    texts: HashSet<String>,
    found: Expansion<L::Person>,
}

impl<'l, L: Lookup> Walk<'l, L> {
    fn new(lookup: &'l L, bounds: Bounds) -> Self {
        Self {
            lookup,
            bounds,
            groups: HashSet::new(),
            waiting: VecDeque::new(),
            people: HashSet::new(),
            texts: HashSet::new(),
            found: Expansion::default(),
        }
    }

    /// Takes one member of a group that lies at `depth`.
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
