//! Recent messages: those that arrived since the last session that could claim them (RFC 3501 §2.3.2).
//!
//! IMAP4rev2 has no `\Recent` and few IMAP4rev1 clients use it, so that it does not justify a write at every SELECT.
//! The state is therefore kept in memory: for each mailbox, the first UID that no session has claimed. After a restart
//! it is unknown whether a session was notified of a message. The message then counts as recent for the first session
//! that selects the mailbox, as the RFC requires.

use std::collections::HashMap;

use base::sync::Mutex;
use base::{DbNumber, ViewId};

use crate::limits::RECENT_MAILBOXES_MAX;

/// The first unclaimed UID of every mailbox that was selected since the program started.
#[derive(Debug, Default)]
pub struct RecentMessages {
    unclaimed: Mutex<HashMap<(DbNumber, ViewId), u32>>,
}

impl RecentMessages {
    /// Claims every UID below `uid_next`. Returns the first UID that was unclaimed before.
    pub fn claim_below(&self, mailbox: (DbNumber, ViewId), uid_next: u32) -> u32 {
        self.with_first_unclaimed(mailbox, uid_next, |first| *first = uid_next.max(*first))
    }

    /// Returns the first unclaimed UID without claiming it.
    pub fn first_unclaimed(&self, mailbox: (DbNumber, ViewId), uid_next: u32) -> u32 {
        self.with_first_unclaimed(mailbox, uid_next, |_| {})
    }

    fn with_first_unclaimed(&self, mailbox: (DbNumber, ViewId), uid_next: u32, change: impl FnOnce(&mut u32)) -> u32 {
        let mut unclaimed = self.unclaimed.lock();
        if unclaimed.len() >= RECENT_MAILBOXES_MAX && !unclaimed.contains_key(&mailbox) {
            // Cleared entries make messages recent again, which is the correct answer if the state is unknown.
            unclaimed.clear();
        }
        let first = unclaimed.entry(mailbox).or_insert(1);
        let before = *first;
        change(first);
        before.min(uid_next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_recent_in_one_session_only() {
        let book = RecentMessages::default();
        let mailbox = (DbNumber(1), ViewId(2));
        assert_eq!(book.first_unclaimed(mailbox, 10), 1, "messages that exist at the first call are not claimed yet");
        assert_eq!(book.claim_below(mailbox, 10), 1);
        assert_eq!(book.first_unclaimed(mailbox, 12), 10);
        assert_eq!(book.claim_below(mailbox, 12), 10);
        assert_eq!(book.claim_below(mailbox, 12), 12);
        assert_eq!(book.claim_below((DbNumber(1), ViewId(3)), 5), 1);
    }
}
