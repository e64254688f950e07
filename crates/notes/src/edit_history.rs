//! The history of editors: who changed a document, and when.
//!
//! It is in two items that the server writes, if the caller of a save asks for it. Mail is not tracked: a message must
//! stay unchanged, and cheap to save. In merges, the histories of both versions are put together, so they never
//! conflict.

use std::collections::BTreeSet;

use base::{Name, Timestamp};

use crate::item::{self, Item, ItemFlags, ItemValue};
use crate::limits::{REVISIONS_MAX, UPDATED_BY_MAX};

/// Name of the item that lists the editors of the document, the first one first.
pub const UPDATED_BY_ITEM: &str = "$UpdatedBy";

/// Name of the item that lists the times at which the document was changed.
pub const REVISIONS_ITEM: &str = "$Revisions";

/// Merges the lists of editors and of save times of two versions, of which the first is the greater one. Returns
/// `None` for other items.
pub(crate) fn merged_edit_history(name: &str, greater: &[&Item], lesser: &[&Item]) -> Option<Vec<Item>> {
    let both = || greater.iter().chain(lesser).copied();
    if name.eq_ignore_ascii_case(UPDATED_BY_ITEM) {
        let mut names: Vec<String> = Vec::new();
        for text in both().flat_map(|item| item.value.texts()) {
            if !names.contains(text) {
                names.push(text.clone());
            }
        }
        return Some(vec![updated_by(names)]);
    }
    if name.eq_ignore_ascii_case(REVISIONS_ITEM) {
        let times: BTreeSet<Timestamp> = both().flat_map(times_of).collect();
        return Some(vec![revisions(times.into_iter().collect())]);
    }
    None
}

/// Returns the item that lists the editors: the first one, who is the author of the document, and the last ones.
fn updated_by(mut names: Vec<String>) -> Item {
    if names.len() > UPDATED_BY_MAX {
        names.drain(1..=names.len() - UPDATED_BY_MAX);
    }
    let flags = ItemFlags::SUMMARY.union(ItemFlags::NAMES);
    Item { name: UPDATED_BY_ITEM.to_owned(), flags, value: ItemValue::TextList(names) }
}

/// Returns the item that lists the times of the last saves.
fn revisions(mut times: Vec<Timestamp>) -> Item {
    times.drain(..times.len().saturating_sub(REVISIONS_MAX));
    Item::summary(REVISIONS_ITEM, ItemValue::TimeList(times))
}

fn times_of(item: &Item) -> Vec<Timestamp> {
    match &item.value {
        ItemValue::TimeList(times) => times.clone(),
        ItemValue::Time(time) => vec![*time],
        _ => Vec::new(),
    }
}

/// Returns `true` if the server writes the item, not the user.
pub(crate) fn is_edit_history(item: &Item) -> bool {
    item.is_named(UPDATED_BY_ITEM) || item.is_named(REVISIONS_ITEM)
}

/// Returns items with an editor appended to the list of editors that they have, unless that is the last one.
///
/// The result depends on nothing else: a version that somebody brings from another replica has the same items wherever
/// it arrives.
#[must_use]
pub fn with_editor(mut items: Vec<Item>, by: &Name) -> Vec<Item> {
    let mut names = item::find_item(&items, UPDATED_BY_ITEM).map_or(Vec::new(), |item| item.value.texts().to_vec());
    if names.last().is_none_or(|last| Name::new(last) != *by) {
        names.push(by.canonical().to_owned());
    }
    items.retain(|item| !item.is_named(UPDATED_BY_ITEM));
    items.push(updated_by(names));
    items
}

/// Returns the new items with the editor and the time appended to the history in the old items.
pub(crate) fn with_edit_history(old: &[Item], new: &[Item], by: Option<&Name>, at: Timestamp) -> Vec<Item> {
    let mut items: Vec<Item> = new.iter().filter(|item| !is_edit_history(item)).cloned().collect();
    let before = item::find_item(old, UPDATED_BY_ITEM).map_or(&[][..], |item| item.value.texts());
    let mut names = before.to_vec();
    if let Some(by) = by.filter(|by| names.last().is_none_or(|last| Name::new(last) != **by)) {
        names.push(by.canonical().to_owned());
    }
    items.push(updated_by(names));
    let mut times = item::find_item(old, REVISIONS_ITEM).map_or_else(Vec::new, times_of);
    times.push(at);
    items.push(revisions(times));
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::test_items as items;

    #[test]
    fn edit_history_is_bounded_and_cannot_be_forged() {
        let names = ["Ann/Acme", "Ann/Acme", "Bob/Acme", "Ann/Acme"].map(Name::new);
        let forged = items("$UpdatedBy=Eve a=1");
        let mut kept = Vec::new();
        for (number, name) in (0..).zip(&names) {
            kept = with_edit_history(&kept, &forged, Some(name), Timestamp(number));
        }
        let editors = item::find_item(&kept, UPDATED_BY_ITEM).expect("the item exists").value.texts().to_vec();
        assert_eq!(editors, ["CN=Ann/O=Acme", "CN=Bob/O=Acme", "CN=Ann/O=Acme"]);
        for number in 0..200 {
            let name = Name::new(&format!("P{number}/Acme"));
            kept = with_edit_history(&kept, &[], Some(&name), Timestamp(number));
        }
        let editors = item::find_item(&kept, UPDATED_BY_ITEM).expect("the item exists").value.texts().to_vec();
        assert_eq!((editors.len(), editors[0].as_str(), editors[63].as_str()), (64, "CN=Ann/O=Acme", "CN=P199/O=Acme"));
        let Some(ItemValue::TimeList(times)) = item::find_item(&kept, REVISIONS_ITEM).map(|item| &item.value) else {
            panic!()
        };
        assert_eq!((times.len(), times[31]), (REVISIONS_MAX, Timestamp(199)));
    }

    #[test]
    fn histories_are_merged_alike_with_the_greater_version_first() {
        let names = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Item::summary(UPDATED_BY_ITEM, ItemValue::TextList(names))
        };
        let times = |times: &[i64]| {
            let times = times.iter().map(|time| Timestamp(*time)).collect();
            Item::summary(REVISIONS_ITEM, ItemValue::TimeList(times))
        };
        let merged = merged_edit_history("$updatedby", &[&names(&["Ann", "Bob"])], &[&names(&["Ann", "Carl"])]);
        let found = merged.expect("the server writes this item");
        assert_eq!(found[0].value.texts(), ["Ann", "Bob", "Carl"]);
        let merged = merged_edit_history("$revisions", &[&times(&[1, 5])], &[&times(&[1, 3])]);
        assert_eq!(merged.expect("the server writes this item")[0].value, times(&[1, 3, 5]).value);
        assert_eq!(merged_edit_history("subject", &[], &[]), None);
    }
}
