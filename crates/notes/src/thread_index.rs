//! The index of threads: it leads from the keys of a message to the thread of the messages with the same keys.
//!
//! A message has two summary items: [`THREAD_ID_ITEM`], the id of its thread, which never changes, and
//! [`THREAD_KEYS_ITEM`], its keys. A key stands for a message id under a base subject, and a message has one for each
//! id that it has or refers to. Messages with a common key belong together. The crate `mail` makes both items when a
//! message enters a mail file.
//!
//! For each key of a note, the table `meta` has a record with the id of the thread. Invariants, which fixup checks:
//! a note has these records if it has contents and a valid thread id, and they follow from its summary items alone.
//! They are written and deleted in the batch that writes and deletes the contents, whichever way a note arrives or
//! leaves. `thread_records` reads and writes them.
//!
//! Left out: the list of all messages of a thread.

use crate::item::{self, Item, ItemRef, ItemValueRef};
use crate::limits::{THREAD_ID_BYTES_MAX, THREAD_KEYS_MAX};

/// The item with the id of a message's thread.
pub const THREAD_ID_ITEM: &str = "$ThreadID";

/// The item with the keys of a message, as hexadecimal texts.
pub const THREAD_KEYS_ITEM: &str = "$ThreadKeys";

/// A key of a message: the hash of a message id and a base subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ThreadKey(pub u64);

impl ThreadKey {
    /// Returns the text in the item.
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{:016x}", self.0)
    }

    fn from_text(text: &str) -> Option<Self> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_hex { u64::from_str_radix(text, 16).ok().map(Self) } else { None }
    }
}

/// Returns the thread id among the items of a note, or `None` if it has no valid one.
#[must_use]
pub fn thread_id_of(items: &[Item]) -> Option<&str> {
    let found = item::find_item(items, THREAD_ID_ITEM).filter(|item| item.is_summary())?;
    found.value.text().filter(|id| is_thread_id(id))
}

/// Returns the thread id among the items of a summary record, or `None` if it has no valid one.
#[must_use]
pub fn thread_id_in<'i>(items: &[ItemRef<'i>]) -> Option<&'i str> {
    let found = items.iter().find(|item| item.name.eq_ignore_ascii_case(THREAD_ID_ITEM))?;
    let id = match &found.value {
        ItemValueRef::Text(text) => Some(*text),
        ItemValueRef::TextList(texts) => texts.first().copied(),
        _ => None,
    };
    id.filter(|id| is_thread_id(id))
}

/// Returns `true` if a text can be the id of a thread in all protocols: letters, digits, `-` and `_`.
fn is_thread_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=THREAD_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// Returns the keys and the thread id of a note with these items. The keys rise.
pub(crate) fn entries_of(items: &[Item]) -> Option<(Vec<ThreadKey>, &str)> {
    let id = thread_id_of(items)?;
    let found = item::find_item(items, THREAD_KEYS_ITEM).filter(|item| item.is_summary())?;
    let texts = found.value.texts().iter().take(THREAD_KEYS_MAX);
    let mut keys: Vec<ThreadKey> = texts.filter_map(|text| ThreadKey::from_text(text)).collect();
    keys.sort_unstable();
    keys.dedup();
    Some((keys, id))
}

/// Returns those of the items from which the records of a note follow.
pub(crate) fn indexed_items(items: &[Item]) -> Vec<Item> {
    let is_indexed = |item: &&Item| [THREAD_ID_ITEM, THREAD_KEYS_ITEM].iter().any(|name| item.is_named(name));
    items.iter().filter(is_indexed).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::ItemValue;

    fn items(id: &str, keys: &[&str]) -> Vec<Item> {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        vec![Item::text(THREAD_ID_ITEM, id), Item::summary(THREAD_KEYS_ITEM, ItemValue::TextList(keys))]
    }

    #[test]
    fn keys_are_read_from_their_texts() {
        for key in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef].map(ThreadKey) {
            assert_eq!(ThreadKey::from_text(&key.to_text()), Some(key));
        }
        for text in ["", "0", "+123456789abcdef", "0123456789ABCDEF", "0123456789abcdef0", "0123456789abcde\u{e9}"] {
            assert_eq!(ThreadKey::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn only_valid_ids_and_keys_in_the_summary_are_indexed() {
        let key = "00000000000000ff";
        let found = |items: &[Item]| entries_of(items).map(|(keys, id)| (keys, id.to_owned()));
        let expected = Some((vec![ThreadKey(0xff)], "T1".to_owned()));
        assert_eq!(found(&items("T1", &[key, "other", key])), expected);
        for id in ["", "T 1", "T\u{e9}", "T/1", &"T".repeat(THREAD_ID_BYTES_MAX + 1)] {
            assert_eq!(found(&items(id, &[key])), None, "{id}");
        }
        let in_body: Vec<Item> =
            items("T1", &[key]).into_iter().map(|item| Item::body(item.name, item.value)).collect();
        assert_eq!(found(&in_body), None);
        let many: Vec<String> = (0..1_000).map(|number| ThreadKey(number).to_text()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(found(&items("T1", &many)).map(|(keys, _)| keys.len()), Some(THREAD_KEYS_MAX));
    }
}
