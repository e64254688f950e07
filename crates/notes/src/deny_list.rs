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

/// Returns how many of two versions are deny lists. If both are, a [`DenyListMerge`] merges them. If only one is, they
/// are not merged at all, because that could give access to those whom it excludes.
pub(crate) fn count_deny_lists(kind: DatabaseKind, versions: [&ReplicaNote; 2]) -> usize {
    let is_deny_list = |note: &&ReplicaNote| note.items.as_deref().is_some_and(is_deny_list);
    if kind == DatabaseKind::Directory { versions.iter().copied().filter(is_deny_list).count() } else { 0 }
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
