//! The names that LIST and LSUB show, found in slices.
//!
//! A [`ListWalk`] visits the stored names in the order of the response: INBOX, then the order of the tree. Each visit
//! matches a name together with the levels above it that no earlier name has, because a pattern that reads a name reads
//! them on the way. A pattern is matched only with the names that begin with the text before its first wildcard, which
//! are adjacent. So ordinary patterns cost as much as the names that they select.
//!
//! With RECURSIVEMATCH, the names are visited twice: the first time to find out which of those that meet the selection
//! criteria match no pattern.
//!
//! All work is charged to the budget of the command. A command that uses it up ends with an error, and a slice ends
//! after a part of it. Pure.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::hierarchy::{Hierarchy, INBOX, ListEntry, ListedMailbox, next_indexes};
use super::mailbox_pattern::{MailboxPattern, TooMuchWork, WorkBudget};
use crate::codec::command::ListSelection;
use crate::limits::{LIST_SLICE_WORK, LIST_WORK_MAX, LISTED_NAME_WORK};

/// The names that a command shows, of those that match.
#[derive(Debug, Clone, Copy)]
pub enum ListCriteria {
    /// LIST: the names that meet the selection criteria. With RECURSIVEMATCH, also the names above a name that meets
    /// them and is not in the response.
    List(ListSelection),
    /// LSUB: the subscribed names and, if the pattern ends with `%`, the levels above them (RFC 3501 §6.3.9).
    Lsub,
}

/// The names of a LIST or LSUB in progress.
#[derive(Debug)]
pub struct ListWalk {
    hierarchy: Hierarchy,
    patterns: Vec<RangedPattern>,
    criteria: ListCriteria,
    recursion: Option<Recursion>,
    /// The index of INBOX, which is visited first.
    inbox: Option<usize>,
    /// Number of names that have been visited to be shown.
    visited: usize,
    budget: WorkBudget,
    /// The work that was left when the current slice began.
    slice_start: u64,
    prefixes: NamePrefixes,
}

/// A pattern, and the indexes of the names that can match it. INBOX may be outside of them.
#[derive(Debug)]
struct RangedPattern {
    pattern: MailboxPattern,
    range: Range<usize>,
}

/// What RECURSIVEMATCH requires to be known about the names below a name.
#[derive(Debug)]
struct Recursion {
    /// For each index, the next name that meets the selection criteria.
    next_selected: Vec<usize>,
    /// For each name that the first pass has visited, `true` if it meets the criteria but matches no pattern.
    unlisted: Vec<bool>,
    /// For each index, the next such name. Empty until the first pass is complete.
    next_unlisted: Vec<usize>,
}

/// The prefixes of a name that are matched: new levels above it, and the whole name.
#[derive(Debug, Default)]
struct NamePrefixes {
    ends: Vec<usize>,
    matched: Vec<bool>,
}

impl ListWalk {
    /// Creates the walk of a command.
    #[must_use]
    pub fn new(hierarchy: Hierarchy, patterns: Vec<MailboxPattern>, criteria: ListCriteria) -> Self {
        let ranged = |pattern: MailboxPattern| {
            let mut range = hierarchy.range_with_prefix(pattern.prefix());
            if pattern.is_name() {
                // This is the name itself, or the first of those below it.
                range.end = range.end.min(range.start + 1);
            }
            RangedPattern { pattern, range }
        };
        let patterns: Vec<RangedPattern> = patterns.into_iter().map(ranged).collect();
        let recursion = match criteria {
            ListCriteria::List(selection) if selection.recursive_match => Some(Recursion::new(&hierarchy, selection)),
            ListCriteria::List(_) | ListCriteria::Lsub => None,
        };
        Self {
            inbox: hierarchy.index_of(INBOX),
            hierarchy,
            patterns,
            criteria,
            recursion,
            visited: 0,
            budget: WorkBudget::new(LIST_WORK_MAX),
            slice_start: LIST_WORK_MAX,
            prefixes: NamePrefixes::default(),
        }
    }

    /// Begins a slice.
    pub fn begin_slice(&mut self) {
        self.slice_start = self.budget.left();
    }

    /// Returns `true` if the slice has done enough work.
    #[must_use]
    pub fn is_slice_over(&self) -> bool {
        self.slice_start.saturating_sub(self.budget.left()) >= LIST_SLICE_WORK
    }

    /// Visits the next name. Calls `each` for the levels above it that are in the response, and for the name itself if
    /// it is. Returns `false` if there are no more names.
    pub fn visit(&mut self, each: &mut dyn FnMut(&ListEntry<'_>)) -> Result<bool, TooMuchWork> {
        if let Some(recursion) = &mut self.recursion
            && recursion.unlisted.len() < self.hierarchy.len()
        {
            recursion.visit(&self.hierarchy, &self.patterns, &mut self.budget)?;
            return Ok(true);
        }
        if self.visited >= self.hierarchy.len() {
            return Ok(false);
        }
        let index = self.next_index();
        self.visited += 1;
        self.prefixes.match_name(index, &self.hierarchy, &self.patterns, &mut self.budget)?;
        for (end, _) in self.prefixes.ends.iter().zip(&self.prefixes.matched).filter(|(_, matched)| **matched) {
            if let Some(entry) = self.entry(index, *end) {
                each(&entry);
            }
        }
        Ok(true)
    }

    /// Returns the index of the name that is visited next.
    fn next_index(&self) -> usize {
        match self.inbox {
            Some(inbox) if self.visited == 0 => inbox,
            Some(inbox) if self.visited <= inbox => self.visited - 1,
            _ => self.visited,
        }
    }

    /// Returns the line for a prefix of the name with an index, or `None` if the prefix is not in the response.
    fn entry(&self, index: usize, end: usize) -> Option<ListEntry<'_>> {
        let whole_name = self.hierarchy.name(index);
        let name = &whole_name[..end];
        let below = if end == whole_name.len() { index + 1 } else { index };
        let mailbox = self.hierarchy.describe(index, name);
        let has_below = |next: &[usize]| next.get(below).is_some_and(|next| self.hierarchy.is_below(*next, name));
        let recursion = self.recursion.as_ref();
        let is_listed = match self.criteria {
            ListCriteria::List(selection) => {
                is_selected(&mailbox, selection) || recursion.is_some_and(|known| has_below(&known.next_unlisted))
            }
            ListCriteria::Lsub => {
                let with_parents = self.patterns.iter().any(|ranged| ranged.pattern.ends_with_percent());
                mailbox.subscribed || (with_parents && mailbox.has_subscribed_children)
            }
        };
        let child_info = recursion.is_some_and(|known| has_below(&known.next_selected));
        is_listed.then_some(ListEntry { name, mailbox, child_info })
    }
}

impl Recursion {
    fn new(hierarchy: &Hierarchy, selection: ListSelection) -> Self {
        let meets_criteria = |index: usize| is_selected(&hierarchy.describe(index, hierarchy.name(index)), selection);
        let next_selected = next_indexes(hierarchy.len(), meets_criteria);
        Self { next_selected, unlisted: Vec::with_capacity(hierarchy.len()), next_unlisted: Vec::new() }
    }

    /// Visits the next name of the first pass.
    fn visit(
        &mut self,
        hierarchy: &Hierarchy,
        patterns: &[RangedPattern],
        budget: &mut WorkBudget,
    ) -> Result<(), TooMuchWork> {
        let index = self.unlisted.len();
        let name = hierarchy.name(index);
        budget.charge(1)?;
        let mut is_unlisted = self.next_selected.get(index) == Some(&index);
        for ranged in patterns.iter().filter(|ranged| ranged.range.contains(&index) || name == INBOX) {
            if !is_unlisted {
                break;
            }
            is_unlisted = !ranged.pattern.matches(name, budget)?;
        }
        self.unlisted.push(is_unlisted);
        if self.unlisted.len() == hierarchy.len() {
            self.next_unlisted = next_indexes(hierarchy.len(), |index| self.unlisted[index]);
        }
        Ok(())
    }
}

impl NamePrefixes {
    /// Matches a name, and the levels above it that are above no earlier name.
    fn match_name(
        &mut self,
        index: usize,
        hierarchy: &Hierarchy,
        patterns: &[RangedPattern],
        budget: &mut WorkBudget,
    ) -> Result<(), TooMuchWork> {
        let Self { ends, matched } = self;
        let name = hierarchy.name(index);
        ends.clear();
        ends.extend(hierarchy.new_parents(index).chain([name.len()]));
        matched.clear();
        matched.resize(ends.len(), false);
        budget.charge(1 + ends.len())?;
        for ranged in patterns.iter().filter(|ranged| ranged.range.contains(&index)) {
            ranged.pattern.match_prefixes(name, ends, matched, budget)?;
        }
        if let (Some(end), Some(matched)) = (ends.first(), matched.first_mut())
            && name[..*end] == *INBOX
        {
            *matched = patterns.iter().any(|ranged| ranged.pattern.matches_inbox());
        }
        let count = matched.iter().filter(|matched| **matched).count();
        budget.charge(count.saturating_mul(LISTED_NAME_WORK))
    }
}

/// Returns `true` if a name meets all selection criteria itself. Without criteria, names without a mailbox meet them if
/// there is a mailbox below them.
fn is_selected(mailbox: &ListedMailbox, selection: ListSelection) -> bool {
    if !selection.subscribed && !selection.special_use {
        return mailbox.exists() || mailbox.has_children;
    }
    (!selection.subscribed || mailbox.subscribed) && (!selection.special_use || mailbox.special_use.is_some())
}
