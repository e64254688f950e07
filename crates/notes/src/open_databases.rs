//! The open databases of a server, and which of them are closed.
//!
//! An open database stays in memory as long as anything uses it. One that is not in use stays, too, because it is
//! probably opened again: mail arrives, a client polls. If there are too many, those whose last opening is the longest
//! time ago are closed. They are closed in groups, so that a server with more databases in use than the maximum does
//! not look for others at each opening.

use std::collections::HashMap;
use std::sync::Arc;

use crate::database::Database;

/// Part of the maximum that is closed at once.
const GROUP_DIVISOR: usize = 8;

/// The open databases, by path in lower case.
pub(crate) struct OpenDatabases {
    by_path: HashMap<String, OpenDatabase>,
    /// Number of openings so far.
    openings: u64,
    /// Number of databases above which those that are not in use are closed.
    max: usize,
    /// Number of databases at which the next search for unused ones begins.
    search_at: usize,
}

struct OpenDatabase {
    database: Arc<Database>,
    /// The number of its last opening.
    opened: u64,
}

impl OpenDatabases {
    /// Creates the list of open databases of which at most `max` stay open without use.
    pub(crate) fn new(max: usize) -> Self {
        Self { by_path: HashMap::new(), openings: 0, max, search_at: max }
    }

    /// Returns the open database with a path, and counts this as an opening.
    pub(crate) fn get(&mut self, path: &str) -> Option<Arc<Database>> {
        self.openings += 1;
        let found = self.by_path.get_mut(path)?;
        found.opened = self.openings;
        Some(Arc::clone(&found.database))
    }

    /// Adds a database, and closes others if there are too many.
    pub(crate) fn insert(&mut self, path: String, database: Arc<Database>) {
        self.openings += 1;
        self.by_path.insert(path, OpenDatabase { database, opened: self.openings });
        if self.by_path.len() > self.search_at {
            self.close_least_recent();
        }
    }

    /// Removes a database that was deleted or has another path.
    pub(crate) fn remove(&mut self, path: &str) {
        self.by_path.remove(path);
    }

    /// Returns the number of open databases.
    pub(crate) fn len(&self) -> usize {
        self.by_path.len()
    }

    /// Closes all databases that are not in use, and returns their number.
    pub(crate) fn close_unused(&mut self) -> usize {
        let before = self.by_path.len();
        self.by_path.retain(|_, open| open.is_used());
        self.search_at = self.max;
        before - self.by_path.len()
    }

    /// Calls `each` for each open database.
    pub(crate) fn for_each(&self, each: impl Fn(&Database)) {
        self.by_path.values().for_each(|open| each(&open.database));
    }

    /// Closes the databases that are not in use and whose last opening is the longest time ago, until there are some
    /// fewer than the maximum.
    fn close_least_recent(&mut self) {
        let group = self.max / GROUP_DIVISOR;
        let mut unused: Vec<u64> =
            self.by_path.values().filter(|open| !open.is_used()).map(|open| open.opened).collect();
        unused.sort_unstable();
        let excess = self.by_path.len().saturating_sub(self.max.saturating_sub(group));
        let last = unused.get(excess.min(unused.len()).wrapping_sub(1)).copied();
        if let Some(last) = last {
            self.by_path.retain(|_, open| open.is_used() || open.opened > last);
        }
        self.search_at = self.max.max(self.by_path.len() + group);
    }
}

impl OpenDatabase {
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.database) > 1
    }
}
