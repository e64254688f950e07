//! Merging of the deny lists of a directory.
//!
//! A deny list is a group that excludes its members from logging in. If two servers change the members before they
//! replicate, the members of both stay excluded: they are united, even if one server has removed some. So of two people
//! who are excluded at the same time on two servers, none may log in.

use std::cell::Cell;
use std::collections::BTreeSet;

use crate::catalog::DatabaseKind;
use crate::item::{self, Item, ItemValue};
use crate::replica_note::ReplicaNote;

/// The form of group notes.
const GROUP_FORM: &str = "Group";

/// The `GroupType` of deny lists.
const DENY_LIST: &str = "3";

/// Name of the item that lists the members of a group.
const MEMBERS_ITEM: &str = "Members";

/// The merge of two versions of a deny list.
#[derive(Debug, Default)]
pub(crate) struct DenyListMerge {
    /// `true` if the merge has left out a change of the lesser version.
    loses_change: Cell<bool>,
}

impl DenyListMerge {
    /// Returns the merge of two versions, or `None` if they are not merged in this way.
    pub(crate) fn between(kind: DatabaseKind, one: &ReplicaNote, other: &ReplicaNote) -> Option<Self> {
        let is_deny_list = |note: &ReplicaNote| note.items.as_deref().is_some_and(is_deny_list);
        let is_merged = kind == DatabaseKind::Directory && is_deny_list(one) && is_deny_list(other);
        is_merged.then(Self::default)
    }

    /// Returns `true` if only one of two versions is a deny list. Then they are not merged at all, because that could
    /// give access to those whom it excludes.
    pub(crate) fn is_of_one(kind: DatabaseKind, one: &ReplicaNote, other: &ReplicaNote) -> bool {
        let is_deny_list = |note: &ReplicaNote| note.items.as_deref().is_some_and(is_deny_list);
        kind == DatabaseKind::Directory && is_deny_list(one) != is_deny_list(other)
    }

    /// Merges the items of a name that both versions changed in different ways: members are united, and all other items
    /// are those of the greater version. So such a merge is always possible.
    pub(crate) fn unite(&self, name: &str, greater: &[&Item], lesser: &[&Item]) -> Vec<Item> {
        if name.eq_ignore_ascii_case(MEMBERS_ITEM) {
            return united_members(greater, lesser).into_iter().collect();
        }
        self.loses_change.set(true);
        greater.iter().map(|item| (*item).clone()).collect()
    }

    /// Returns `true` if the merge has left out a change of the lesser version, which is then kept as a conflict
    /// document.
    pub(crate) fn loses_change(&self) -> bool {
        self.loses_change.get()
    }
}

fn is_deny_list(items: &[Item]) -> bool {
    let text = |name| item::find_item(items, name).and_then(|item| item.value.text());
    text("Form") == Some(GROUP_FORM) && text("GroupType") == Some(DENY_LIST)
}

/// Returns an item with the members of both versions, those of the greater one first, or `None` if there are none.
fn united_members(greater: &[&Item], lesser: &[&Item]) -> Option<Item> {
    let first = greater.iter().chain(lesser).next()?;
    let mut known = BTreeSet::new();
    let all = greater.iter().chain(lesser).flat_map(|item| item.value.texts());
    let members = all.filter(|member| known.insert(member.to_ascii_lowercase())).cloned().collect();
    Some(Item { value: ItemValue::TextList(members), ..(*first).clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_united_and_other_items_are_those_of_the_greater_version() {
        let list = |texts: &[&str]| {
            Item::summary(MEMBERS_ITEM, ItemValue::TextList(texts.iter().map(|text| (*text).to_owned()).collect()))
        };
        let merge = DenyListMerge::default();
        let united = merge.unite("members", &[&list(&["Ann/Acme", "bob"])], &[&list(&["BOB", "Carl/Acme"])]);
        assert_eq!(united, [list(&["Ann/Acme", "bob", "Carl/Acme"])]);
        assert_eq!(merge.unite("members", &[], &[&Item::text(MEMBERS_ITEM, "Ann")]), [list(&["Ann"])]);
        assert!(!merge.loses_change());
        let of = |text| Item::text("ListDescription", text);
        assert_eq!(merge.unite("listdescription", &[&of("new")], &[&of("other")]), [of("new")]);
        assert!(merge.loses_change());
    }
}
