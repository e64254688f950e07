//! Merging of two versions that do not know each other.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;

use crate::ancestors::{Ancestors, Cut};
use crate::item_changes::{ItemChanges, by_name};
use crate::revision_id::Revision;

/// An item of a note.
pub trait NamedItem: Clone + PartialEq {
    /// Returns the name. Its case does not matter.
    fn name(&self) -> &str;
}

/// A version of a note.
#[derive(Debug)]
pub struct Version<'v, I> {
    /// The save that made it.
    pub revision: Revision,
    /// The time of that save.
    pub time: Timestamp,
    /// The revisions from which it descends.
    pub ancestors: &'v Ancestors,
    /// The revisions at which its items changed last.
    pub changes: &'v ItemChanges,
    /// The items. A deletion has none.
    pub items: &'v [I],
    /// `true` if the version is a deletion.
    pub is_deletion: bool,
}

impl<I> Clone for Version<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Version<'_, I> {}

impl<I> Version<'_, I> {
    /// Returns `true` if the version is a revision or descends from it, as far as its list of ancestors tells.
    #[must_use]
    pub fn knows(&self, revision: Revision) -> bool {
        self.revision == revision || self.ancestors.contains(revision)
    }
}

/// The result of a merge.
#[derive(Clone, PartialEq, Debug)]
pub struct Merged<I> {
    /// The revision. It is a function of the two revisions.
    pub revision: Revision,
    /// The time that counts as that of the save.
    pub time: Timestamp,
    /// The ancestors, with both versions.
    pub ancestors: Ancestors,
    /// The changes of the items.
    pub changes: ItemChanges,
    /// The items: those of the greater version in their order, then the others.
    pub items: Vec<I>,
}

/// A function that merges the items of a name that both versions changed in different ways, such as a list of editors.
/// It gets the name in lower case and the items of the greater and of the lesser version, and returns `None` for all
/// other names. Its result must not depend on anything but the two versions.
pub type UniteItems<'u, I> = &'u dyn Fn(&str, &[&I], &[&I]) -> Option<Vec<I>>;

/// Merges two versions item by item. Returns `None` if both changed an item in different ways.
///
/// The result is the same, bit by bit, whichever version is named first and wherever the function runs.
#[must_use]
pub fn merge<I: NamedItem>(
    one: &Version<'_, I>,
    other: &Version<'_, I>,
    unite: UniteItems<'_, I>,
) -> Option<Merged<I>> {
    let (lesser, greater) = if one.revision < other.revision { (one, other) } else { (other, one) };
    let revision = Revision::of_merge(lesser.revision, greater.revision);
    let time = Timestamp(lesser.time.max(greater.time).0.saturating_add(1));
    let ancestors = Ancestors::of_merge((lesser.revision, lesser.ancestors), (greater.revision, greater.ancestors));
    let of_lesser = by_name(lesser.items);
    let of_greater = by_name(greater.items);
    let names = names_in_order(lesser, greater);
    let mut items = Vec::with_capacity(lesser.items.len().max(greater.items.len()));
    let mut changes = BTreeMap::new();
    for name in &names {
        let ours: &[&I] = of_greater.get(name).map_or(&[], Vec::as_slice);
        let theirs: &[&I] = of_lesser.get(name).map_or(&[], Vec::as_slice);
        let Some((side, change)) = side_of(name, (ours, greater), (theirs, lesser)) else {
            items.extend(unite(name, ours, theirs)?);
            changes.insert(name.clone(), revision);
            continue;
        };
        let taken = match side {
            Side::Greater => ours,
            Side::Lesser => theirs,
        };
        items.extend(taken.iter().map(|item| (*item).clone()));
        changes.extend(change.map(|change| (name.clone(), change)));
    }
    let changes = ItemChanges::from_map(changes, revision, &ancestors);
    Some(Merged { revision, time, ancestors, changes, items })
}

/// Returns all names: those of the greater version in its order, then the others, and those of removed items.
fn names_in_order<I: NamedItem>(lesser: &Version<'_, I>, greater: &Version<'_, I>) -> Vec<String> {
    let items = greater.items.iter().chain(lesser.items).map(|item| item.name().to_ascii_lowercase());
    let removed = greater.changes.iter().chain(lesser.changes.iter()).map(|(name, _)| name.to_owned());
    let mut seen = BTreeSet::new();
    items.chain(removed).filter(|name| seen.insert(name.clone())).collect()
}

#[derive(Clone, Copy)]
enum Side {
    Greater,
    Lesser,
}

/// Returns the side from which an item is taken, and the revision at which it changed last. Returns `None` if both
/// sides changed it in different ways.
fn side_of<I: NamedItem>(
    name: &str,
    (ours, greater): (&[&I], &Version<'_, I>),
    (theirs, lesser): (&[&I], &Version<'_, I>),
) -> Option<(Side, Option<Revision>)> {
    let our_change = change_of(name, greater);
    let their_change = change_of(name, lesser);
    let is_theirs_newer = their_change > our_change;
    let newer = if is_theirs_newer { (Side::Lesser, their_change) } else { (Side::Greater, our_change) };
    match (is_known(our_change, greater, lesser), is_known(their_change, lesser, greater)) {
        _ if ours == theirs => Some(newer),
        (true, true) => Some(newer),
        (true, false) => Some((Side::Lesser, their_change)),
        (false, true) => Some((Side::Greater, our_change)),
        (false, false) => None,
    }
}

/// Returns the revision at which an item of a version changed last, or `None` if it is before the list of ancestors.
fn change_of<I>(name: &str, version: &Version<'_, I>) -> Option<Revision> {
    let first = || version.ancestors.list().last().map_or(version.revision, |ancestor| ancestor.revision);
    version.changes.get(name).or_else(|| (version.ancestors.cut() == Cut::Nothing).then(first))
}

/// Returns `true` if `other` descends from the revision at which an item of `version` changed last.
///
/// Where lists are cut, a common revision on the main path tells: what precedes it on that path is known to both.
fn is_known<I>(change: Option<Revision>, version: &Version<'_, I>, other: &Version<'_, I>) -> bool {
    if change.is_some_and(|change| other.knows(change)) {
        return true;
    }
    let listed = version.ancestors.list();
    let is_on_main_path = |change| listed.iter().any(|one| one.revision == change && one.is_on_main_path);
    let is_behind_a_common_one = |change: Option<Revision>| {
        let common = listed.iter().filter(|one| one.is_on_main_path && other.knows(one.revision));
        common.map(|one| one.revision).any(|common| change.is_none_or(|change| change <= common))
    };
    match change {
        Some(change) => is_on_main_path(change) && is_behind_a_common_one(Some(change)),
        None => version.ancestors.cut() != Cut::Branches && is_behind_a_common_one(None),
    }
}
