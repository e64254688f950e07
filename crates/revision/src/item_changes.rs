//! The revisions at which the items of a version changed last.

use std::collections::BTreeMap;

use base::codec::{Decoder, Encoder, InvalidRecord};

use crate::ancestors::{Ancestors, Cut};
use crate::limits::ANCESTORS_MAX;
use crate::merge::{NamedItem, Version};
use crate::revision_id::Revision;

/// For each item that changed within the list of ancestors of a version, the revision at which it changed last.
///
/// Names are compared without regard to ASCII case, and all items of one name are one unit. Names of removed items are
/// kept like those of changed ones. An item that is not named changed before all revisions in the list or, if the list
/// contains all ancestors, at the first of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ItemChanges {
    by_name: BTreeMap<String, Revision>,
}

impl ItemChanges {
    /// Returns the changes of a version that a save makes from `parent`.
    #[must_use]
    pub fn of_child<I: NamedItem>(
        parent: &Version<'_, I>,
        items: &[I],
        revision: Revision,
        ancestors: &Ancestors,
    ) -> Self {
        let old = by_name(parent.items);
        let new = by_name(items);
        let changed = old.keys().chain(new.keys()).filter(|name| old.get(*name) != new.get(*name));
        parent.changes.with_changed(changed, revision, ancestors)
    }

    /// Returns the changes of a version in which a save has changed the items with these names, in lower case.
    #[must_use]
    pub fn with_changed<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
        revision: Revision,
        ancestors: &Ancestors,
    ) -> Self {
        let mut changes = self.clone();
        changes.by_name.extend(names.into_iter().map(|name| (name.clone(), revision)));
        changes.within(revision, ancestors)
    }

    /// Returns the changes of a version that restores the contents of `kept` after a deletion with these changes.
    ///
    /// An item that was changed after `kept` may have been changed before, too. When that was is not known any more, so
    /// it counts as changed at `kept`.
    #[must_use]
    pub fn restored(&self, kept: Revision, revision: Revision, ancestors: &Ancestors) -> Self {
        let change = |(name, change): (&String, &Revision)| {
            let change = if ancestors.contains(*change) { *change } else { kept };
            (name.clone(), change)
        };
        Self { by_name: self.by_name.iter().map(change).collect() }.within(revision, ancestors)
    }

    /// Creates the table of a version from the changes of its items. Those before the list of ancestors are dropped.
    pub(crate) fn from_map(by_name: BTreeMap<String, Revision>, revision: Revision, ancestors: &Ancestors) -> Self {
        Self { by_name }.within(revision, ancestors)
    }

    fn within(mut self, revision: Revision, ancestors: &Ancestors) -> Self {
        // Without a name, an item counts as changed at the least of all ancestors, so that one needs no entry.
        let first = ancestors.list().last().map_or(revision, |ancestor| ancestor.revision);
        let is_first = |change: Revision| ancestors.cut() == Cut::Nothing && change == first;
        let is_listed = |change: Revision| change == revision || ancestors.contains(change);
        self.by_name.retain(|_, change| is_listed(*change) && !is_first(*change));
        self
    }

    /// Returns the revision at which an item changed last, or `None` if it is before the list of ancestors. The name is
    /// in lower case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Revision> {
        self.by_name.get(name).copied()
    }

    /// Returns the names, in lower case, and the revisions.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Revision)> {
        self.by_name.iter().map(|(name, revision)| (name.as_str(), *revision))
    }

    /// Appends the stored form: the number, and for each item its name and the place of the revision in the list of
    /// ancestors, where 0 is the version itself.
    pub fn encode(&self, out: &mut Encoder, ancestors: &Ancestors) {
        out.varint(self.by_name.len() as u64);
        for (name, revision) in &self.by_name {
            let place = ancestors.position(*revision).map_or(0, |index| index + 1);
            out.text(name).u8(place as u8);
        }
    }

    /// Parses the stored form of the changes of a revision.
    pub fn decode(input: &mut Decoder<'_>, revision: Revision, ancestors: &Ancestors) -> Result<Self, InvalidRecord> {
        let count = input.count()?;
        let mut by_name = BTreeMap::new();
        for _ in 0..count {
            let name = input.text()?.to_owned();
            let change = match usize::from(input.u8()?) {
                0 => revision,
                place => ancestors.list().get(place - 1).ok_or(InvalidRecord)?.revision,
            };
            by_name.insert(name, change);
        }
        Ok(Self { by_name })
    }
}

const _: () = assert!(ANCESTORS_MAX < u8::MAX as usize, "a place in the list fits in a byte");

/// Returns the items by their names in lower case. Items of one name keep their order.
pub(crate) fn by_name<I: NamedItem>(items: &[I]) -> BTreeMap<String, Vec<&I>> {
    let mut found: BTreeMap<String, Vec<&I>> = BTreeMap::new();
    for item in items {
        found.entry(item.name().to_ascii_lowercase()).or_default().push(item);
    }
    found
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;
    use crate::revision_id::RevisionId;

    #[derive(Clone, PartialEq, Debug)]
    struct Pair(&'static str, u8);

    impl NamedItem for Pair {
        fn name(&self) -> &str {
            self.0
        }
    }

    fn revision(sequence: u32) -> Revision {
        Revision { sequence, id: RevisionId::new(Timestamp(0), [7; 8]) }
    }

    #[test]
    fn changes_follow_the_saves_and_read_back() {
        let mut ancestors = Ancestors::default();
        let mut changes = ItemChanges::default();
        let mut items = vec![Pair("A", 1), Pair("B", 1)];
        for (sequence, next) in (2..).zip([
            vec![Pair("A", 2), Pair("B", 1)],
            vec![Pair("a", 2), Pair("C", 1), Pair("C", 2)],
            vec![Pair("a", 2), Pair("C", 2), Pair("C", 1)],
        ]) {
            let parent = Version {
                revision: revision(sequence - 1),
                time: Timestamp(0),
                ancestors: &ancestors,
                changes: &changes,
                items: &items,
                is_deletion: false,
            };
            let own = Ancestors::of_child(parent.revision, &ancestors);
            changes = ItemChanges::of_child(&parent, &next, revision(sequence), &own);
            (ancestors, items) = (own, next);
        }
        let found: Vec<(&str, u32)> = changes.iter().map(|(name, change)| (name, change.sequence)).collect();
        assert_eq!(found, [("a", 3), ("b", 3), ("c", 4)], "the spelling of a name counts as a change");
        let mut out = Encoder::new();
        changes.encode(&mut out, &ancestors);
        let bytes = out.finish();
        let decoded = ItemChanges::decode(&mut Decoder::new(&bytes), revision(4), &ancestors);
        assert_eq!(decoded, Ok(changes));
        let other = Ancestors::default();
        assert_eq!(ItemChanges::decode(&mut Decoder::new(&bytes), revision(4), &other), Err(InvalidRecord));
    }
}
