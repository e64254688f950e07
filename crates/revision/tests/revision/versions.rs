//! Versions of notes in the models of replicas.

use base::Timestamp;
use revision::{Ancestors, ItemChanges, NamedItem, Revision, Version};

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) value: u64,
}

impl NamedItem for Item {
    fn name(&self) -> &str {
        &self.name
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Note {
    pub(crate) revision: Revision,
    pub(crate) time: Timestamp,
    pub(crate) ancestors: Ancestors,
    pub(crate) changes: ItemChanges,
    pub(crate) items: Vec<Item>,
    pub(crate) is_deletion: bool,
}

impl Note {
    pub(crate) fn version(&self) -> Version<'_, Item> {
        Version {
            revision: self.revision,
            time: self.time,
            ancestors: &self.ancestors,
            changes: &self.changes,
            items: &self.items,
            is_deletion: self.is_deletion,
        }
    }

    pub(crate) fn first(revision: Revision, time: Timestamp, items: Vec<Item>) -> Self {
        let ancestors = Ancestors::default();
        let changes = ItemChanges::default();
        Self { revision, time, ancestors, changes, items, is_deletion: false }
    }

    pub(crate) fn child(&self, revision: Revision, time: Timestamp, items: Vec<Item>, is_deletion: bool) -> Self {
        let ancestors = Ancestors::of_child(self.revision, &self.ancestors);
        let changes = ItemChanges::of_child(&self.version(), &items, revision, &ancestors);
        Self { revision, time, ancestors, changes, items, is_deletion }
    }
}
