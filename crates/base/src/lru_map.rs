//! A map of bounded size that drops its least recently used entry.
//!
//! It holds state about peers and accounts that may be forgotten, such as counts of failures. So the memory that it
//! takes does not depend on how many of them there are.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// A map of bounded size. See the documentation of the module.
#[derive(Debug)]
pub struct LruMap<K, V> {
    /// The values, each with the time of its last use.
    entries: HashMap<K, (u64, V)>,
    /// Keys by the time of their last use. The times are distinct.
    order: BTreeMap<u64, K>,
    uses: u64,
    entries_max: usize,
}

impl<K: Hash + Eq + Clone, V: Default> LruMap<K, V> {
    /// Creates an empty map that holds at most `entries_max` entries, and at least one.
    #[must_use]
    pub fn new(entries_max: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), uses: 0, entries_max: entries_max.max(1) }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the value of a key, without marking it as used.
    #[must_use]
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// Returns the value of a key and marks it as used. Creates the value if it does not exist.
    pub fn entry(&mut self, key: &K) -> &mut V {
        self.uses += 1;
        let used = self.uses;
        if let Some((before, _)) = self.entries.get(key) {
            self.order.remove(before);
        } else if self.entries.len() >= self.entries_max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.order.insert(used, key.clone());
        let (last, value) = self.entries.entry(key.clone()).or_default();
        *last = used;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_entry_is_dropped() {
        let mut map = LruMap::<&str, u32>::new(2);
        assert!(map.is_empty());
        *map.entry(&"a") = 1;
        *map.entry(&"b") = 2;
        assert_eq!(*map.entry(&"a"), 1);
        *map.entry(&"c") = 3;
        assert_eq!((map.peek(&"a"), map.peek(&"b"), map.peek(&"c")), (Some(&1), None, Some(&3)));
        assert_eq!(map.len(), 2);
    }
}
