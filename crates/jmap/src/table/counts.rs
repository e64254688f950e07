//! The counts of mailboxes (RFC 8621 §2): messages and threads, and those that are unread.
//!
//! A thread is unread in a mailbox if one of its messages is, in any mailbox. Messages that are only in the trash are
//! ignored for other mailboxes, and messages elsewhere are ignored for the trash.

use std::collections::HashMap;
use std::sync::Arc;

use base::ViewId;

use super::{MessageRow, MessageTable};

/// The counts of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `totalEmails`.
    pub emails: u64,
    /// `unreadEmails`.
    pub unread_emails: u64,
    /// `totalThreads`.
    pub threads: u64,
    /// `unreadThreads`.
    pub unread_threads: u64,
}

impl MessageTable {
    /// Returns the counts of all mailboxes that have messages. They are computed once for each state.
    pub fn counts(&mut self) -> Arc<HashMap<ViewId, Counts>> {
        let state = (self.email_modseq, self.mailboxes.modseq());
        if let Some((emails, mailboxes, counts)) = &self.counts
            && (*emails, *mailboxes) == state
        {
            return Arc::clone(counts);
        }
        let trash = self.mailboxes.with_role("trash").map(|mailbox| mailbox.view);
        let mut counts = HashMap::new();
        for notes in self.threads.values() {
            let rows: Vec<&MessageRow> = notes.iter().filter_map(|note| self.rows.get(note)).collect();
            count_thread(&rows, trash, &mut counts);
        }
        let counts = Arc::new(counts);
        self.counts = Some((state.0, state.1, Arc::clone(&counts)));
        counts
    }
}

fn count_thread(rows: &[&MessageRow], trash: Option<ViewId>, counts: &mut HashMap<ViewId, Counts>) {
    let is_in_trash = |row: &MessageRow| trash.is_some_and(|trash| row.places.contains(&trash));
    let is_elsewhere = |row: &MessageRow| row.places.iter().any(|place| Some(*place) != trash);
    let is_unread_elsewhere = rows.iter().any(|row| row.is_unread() && is_elsewhere(row));
    let is_unread_in_trash = rows.iter().any(|row| row.is_unread() && is_in_trash(row));
    let mut places: Vec<ViewId> = Vec::new();
    for row in rows {
        for place in &row.places {
            let count = counts.entry(*place).or_default();
            count.emails += 1;
            count.unread_emails += u64::from(row.is_unread());
            if !places.contains(place) {
                places.push(*place);
            }
        }
    }
    for place in places {
        let count = counts.entry(place).or_default();
        count.threads += 1;
        let is_unread = if Some(place) == trash { is_unread_in_trash } else { is_unread_elsewhere };
        count.unread_threads += u64::from(is_unread);
    }
}
