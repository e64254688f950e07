//! What a user knows of its maildrop: the messages that the server has listed, the screen, the message read last.
//!
//! A message has a number in a session, and a unique id in all sessions (UIDL). Users remember ids.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::door::message_head::MessageHead;
use crate::door::rows::{KnownRows, ROWS_MAX};

/// Maximum length of a unique id (RFC 1939, section 7).
const ID_BYTES_MAX: usize = 70;

/// The unique id of a message.
pub(super) type UniqueId = Arc<str>;

/// The newest messages of a maildrop as the server has listed them, at most [`ROWS_MAX`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Numbers and ids, the oldest first.
    messages: VecDeque<(u32, UniqueId)>,
}

impl Listing {
    /// Adds a line of the reply to UIDL. One that is not valid is left out.
    pub(super) fn add_line(&mut self, line: &[u8]) {
        let Some((number, id)) = parse_line(line) else { return };
        if self.messages.len() == ROWS_MAX {
            self.messages.pop_front();
        }
        self.messages.push_back((number, id));
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of a message in this session.
    pub(super) fn number_of(&self, id: &str) -> Option<u32> {
        self.messages.iter().find(|(_, known)| **known == *id).map(|(number, _)| *number)
    }

    /// Returns the ids of so many messages, from the newest to older ones, behind the first `skipped`.
    pub(super) fn newest(&self, skipped: usize, count: usize) -> Vec<UniqueId> {
        self.messages.iter().rev().skip(skipped).take(count).map(|(_, id)| Arc::clone(id)).collect()
    }

    /// Removes a message.
    pub(super) fn remove(&mut self, id: &str) {
        self.messages.retain(|(_, known)| **known != *id);
    }
}

fn parse_line(line: &[u8]) -> Option<(u32, UniqueId)> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number > 0)?;
    let id = words.next().filter(|id| id.len() <= ID_BYTES_MAX)?;
    Some((number, id.into()))
}

/// The message that was read last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadMessage {
    /// The message.
    pub(super) id: UniqueId,
    /// Its sender and its subject.
    pub(super) head: MessageHead,
}

/// What a user remembers.
#[derive(Debug, Default)]
pub(super) struct UserMemory {
    /// The user has asked what there is in this session.
    pub(super) has_looked: bool,
    /// Messages are marked for removal in this session.
    pub(super) has_marked: bool,
    /// The messages that this session has; `None` until they are listed.
    pub(super) listing: Option<Listing>,
    /// Where the next screen begins: so many messages are newer.
    pub(super) next: usize,
    /// The messages.
    pub(super) rows: KnownRows<UniqueId>,
    /// The message that was read last.
    pub(super) last: Option<ReadMessage>,
}

impl UserMemory {
    /// Forgets what was known of the session before. Screens and ids are those of all sessions.
    pub(super) fn begin_session(&mut self) {
        self.has_looked = false;
        self.has_marked = false;
        self.listing = None;
    }

    /// Forgets a message that is no longer there.
    pub(super) fn forget(&mut self, id: &UniqueId) {
        self.rows.forget(id);
        self.last.take_if(|last| last.id == *id);
        if let Some(listing) = &mut self.listing {
            listing.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_limited() {
        let mut listing = Listing::default();
        for line in ["1 a", "2 b ", "x y", "3", "0 c", "4  d e", ""] {
            listing.add_line(line.as_bytes());
        }
        listing.add_line(&[b"5 ".to_vec(), vec![b'x'; 71]].concat());
        assert_eq!(listing.newest(0, 9), [Arc::from("d"), Arc::from("b"), Arc::from("a")]);
        assert_eq!(listing.newest(1, 1), [Arc::from("b")]);
        assert_eq!((listing.number_of("d"), listing.number_of("x")), (Some(4), None));
        listing.remove("d");
        assert_eq!((listing.number_of("d"), listing.len()), (None, 2));
        (1..=2_000).for_each(|number| listing.add_line(format!("{number} id{number}").as_bytes()));
        assert_eq!(
            (listing.len(), listing.number_of("id1000"), listing.number_of("id1001")),
            (1_000, None, Some(1_001))
        );
    }
}
