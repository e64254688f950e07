//! The counts of mailboxes (RFC 8621 §2): messages and threads, and those that are unread.
//!
//! A thread is unread in a mailbox if one of its messages is, in any mailbox. Messages that are only in the trash are
//! ignored for other mailboxes, and messages elsewhere are ignored for the trash. The counts are summed up once, and
//! then follow the changes: those of a thread are subtracted before a change and added after it.

use std::collections::HashMap;
use std::sync::Arc;

use base::ViewId;

use super::{MessageRow, MessageTable};

/// The counts of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `totalEmails`.
    pub emails: i64,
    /// `unreadEmails`.
    pub unread_emails: i64,
    /// `totalThreads`.
    pub threads: i64,
    /// `unreadThreads`.
    pub unread_threads: i64,
}

impl MessageTable {
    /// Returns the counts of all mailboxes that have messages.
    pub fn counts(&mut self) -> Arc<HashMap<ViewId, Counts>> {
        if let Some(counts) = &self.counts {
            return Arc::clone(counts);
        }
        let mut counts = HashMap::new();
        for thread in self.threads.keys() {
            self.count_thread(thread, 1, &mut counts);
        }
        let counts = Arc::new(counts);
        self.counts = Some(Arc::clone(&counts));
        counts
    }

    /// Adds the counts of some threads, or subtracts them with the sign -1.
    pub(super) fn change_counts(&mut self, threads: &[Arc<str>], sign: i64) {
        let Some(mut counts) = self.counts.take() else { return };
        for thread in threads {
            self.count_thread(thread, sign, Arc::make_mut(&mut counts));
        }
        self.counts = Some(counts);
    }

    fn count_thread(&self, thread: &str, sign: i64, counts: &mut HashMap<ViewId, Counts>) {
        let trash = self.mailboxes.with_role("trash").map(|mailbox| mailbox.view);
        let rows = || self.thread(thread);
        let is_in_trash = |row: &MessageRow| trash.is_some_and(|trash| row.places.contains(&trash));
        let is_elsewhere = |row: &MessageRow| row.places.iter().any(|place| Some(*place) != trash);
        let is_unread_elsewhere = rows().any(|row| row.is_unread() && is_elsewhere(row));
        let is_unread_in_trash = rows().any(|row| row.is_unread() && is_in_trash(row));
        let mut places: Vec<ViewId> = Vec::new();
        for row in rows() {
            for place in &row.places {
                let count = counts.entry(*place).or_default();
                count.emails += sign;
                count.unread_emails += sign * i64::from(row.is_unread());
                if !places.contains(place) {
                    places.push(*place);
                }
            }
        }
        for place in places {
            let count = counts.entry(place).or_default();
            count.threads += sign;
            let is_unread = if Some(place) == trash { is_unread_in_trash } else { is_unread_elsewhere };
            count.unread_threads += sign * i64::from(is_unread);
        }
    }
}
