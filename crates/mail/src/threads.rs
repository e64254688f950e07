//! Threads: which messages belong together, decided when a message enters a mail file.
//!
//! Two messages are in one thread if they have or refer to a common message id (Message-ID, In-Reply-To, References)
//! and have the same base subject (RFC 5256 §2.1). A message gets the id of its thread once, and keeps it. So the order
//! of arrival decides only if the messages that connect two others arrive after both:
//!
//! - A message joins the thread of the messages that have its own id or refer to it, else that of the nearest message
//!   to which it refers and that is known, or to which another known message refers.
//! - If these are several threads, the message joins the first, and the threads stay apart.
//! - A message that is connected to no other begins a thread. Its id is the hash of the base subject and the first id
//!   of References, else of In-Reply-To, else its own: so a thread that begins on two servers at once has one id.
//!
//! [`notes::thread_index`] finds the threads, whose cost does not depend on the size of the mail file. Of the ids of a
//! message, at most [`THREAD_MESSAGE_IDS_MAX`] count: its own, the nearest references, and the first one.
//!
//! Left out: messages that an earlier version has stored. They keep the id that they got, and no later message joins
//! them. A document without a thread id is a thread of its own ([`computed_thread_id`]).

use base::Unid;
use notes::thread_index::{THREAD_ID_ITEM, THREAD_KEYS_ITEM, ThreadKey};
use notes::{DatabaseKind, Item, ItemValue, Writer};

use crate::error::Result;
use crate::limits::{FIELD_BYTES_MAX, IN_REPLY_TO_MAX, THREAD_MESSAGE_IDS_MAX};
use crate::mime::base_subject::BaseSubject;
use crate::mime::header;
use crate::mime::message_id::message_ids;

/// The keys of a message in the index of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageThreadKeys {
    /// The keys, beginning with that of the message itself, then by distance.
    keys: Vec<ThreadKey>,
    /// The hash of the header, from which the thread id of a message without any id is made.
    header: [u8; 32],
}

impl MessageThreadKeys {
    /// Reads the keys of a message from its header.
    pub(crate) fn of_header(header: &[u8]) -> Self {
        let subject = BaseSubject::extract(header::first(header, "Subject")).text;
        let mut keys: Vec<ThreadKey> = Vec::new();
        for id in connected_ids(header) {
            let key = thread_key(id, &subject);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Self { keys, header: *blake3::hash(header).as_bytes() }
    }

    /// Returns the items with the thread of a message that is about to be created. There are none in databases that are
    /// not mail files.
    pub(crate) fn items(&self, writer: &mut Writer<'_, '_>) -> Result<Vec<Item>> {
        if writer.database().record().kind != DatabaseKind::Mail {
            return Ok(Vec::new());
        }
        let Some(first) = self.keys.last() else {
            return Ok(vec![Item::text(THREAD_ID_ITEM, self.unconnected_id(writer))]);
        };
        let known = writer.thread_find(&self.keys)?;
        let id = known.unwrap_or_else(|| format!("T{}", first.to_text()));
        let keys = self.keys.iter().map(|key| key.to_text()).collect();
        Ok(vec![Item::text(THREAD_ID_ITEM, id), Item::summary(THREAD_KEYS_ITEM, ItemValue::TextList(keys))])
    }

    /// Returns the thread id of a message that no other can refer to.
    fn unconnected_id(&self, writer: &Writer<'_, '_>) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.header).update(&writer.now().0.to_be_bytes()).update(&writer.next_note().to_key());
        format!("T{}", &hasher.finalize().to_hex()[..16])
    }
}

/// Returns the thread id of a document that has none: that of a thread with only this document.
#[must_use]
pub fn computed_thread_id(unid: Unid) -> String {
    format!("D{unid}")
}

/// Returns the message ids that a message has or refers to: its own, then the references by distance.
fn connected_ids(header: &[u8]) -> Vec<&[u8]> {
    let own = header::first(header, "Message-ID").and_then(|value| message_ids(value).next());
    let parents = header::first(header, "In-Reply-To").into_iter().flat_map(message_ids).take(IN_REPLY_TO_MAX);
    let references = header::first(header, "References").unwrap_or_default();
    // Of an overlong field, both ends count.
    let end = &references[references.len().saturating_sub(FIELD_BYTES_MAX)..];
    let mut nearest: Vec<&[u8]> = message_ids(end).collect();
    nearest.reverse();
    let first = message_ids(&references[..references.len().min(FIELD_BYTES_MAX)]).next();
    let mut ids: Vec<&[u8]> = own.into_iter().chain(parents).chain(nearest).collect();
    ids.truncate(THREAD_MESSAGE_IDS_MAX - 1);
    ids.retain(|id| Some(*id) != first);
    ids.extend(first);
    ids
}

fn thread_key(id: &[u8], subject: &str) -> ThreadKey {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(id.len() as u64).to_be_bytes()).update(id).update(subject.as_bytes());
    let hash = hasher.finalize();
    let bytes = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    ThreadKey(u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: &[&str]) {
        let found: Vec<_> =
            connected_ids(header.as_bytes()).into_iter().map(|id| String::from_utf8_lossy(id).into_owned()).collect();
        assert_eq!(found, expected, "{header}");
    }

    #[test]
    fn ids_are_ordered_by_distance() {
        check(
            "Message-ID: <c@x>\r\nIn-Reply-To: <b@x>\r\nReferences: <r@x> <a@x>\r\n <b@x>\r\n\r\n",
            &["c@x", "b@x", "b@x", "a@x", "r@x"],
        );
        check("In-Reply-To: your <1@x> and <2@x>, <3@x>, <4@x>, <5@x>\r\n\r\n", &["1@x", "2@x", "3@x", "4@x"]);
        check("Message-ID: <a@x>\r\nReferences: <a@x>\r\n\r\n", &["a@x"]);
        check("Message-ID: <>\r\nIn-Reply-To: none\r\nReferences: < > <b>\r\n\r\n", &[]);
        check("Subject: x\r\n\r\n", &[]);
    }

    #[test]
    fn many_references_leave_the_nearest_and_the_first() {
        let all: String = (0..10_000).map(|number| format!(" <{number}@x>\r\n")).collect();
        let header = format!("Message-ID: <own@x>\r\nReferences:{all}\r\n");
        let ids = connected_ids(header.as_bytes());
        assert_eq!(ids.len(), THREAD_MESSAGE_IDS_MAX);
        assert_eq!((ids[0], ids[1], ids[2]), (&b"own@x"[..], &b"9999@x"[..], &b"9998@x"[..]));
        assert_eq!(ids.last(), Some(&&b"0@x"[..]));
    }

    #[test]
    fn keys_differ_by_id_and_base_subject() {
        let keys = |subject: &str, id: &str| {
            MessageThreadKeys::of_header(format!("Subject: {subject}\r\nMessage-ID: <{id}>\r\n\r\n").as_bytes()).keys
        };
        assert_eq!(keys("hello", "a@x"), keys("Re: Hello (fwd)", "a@x"));
        assert_ne!(keys("hello", "a@x"), keys("hallo", "a@x"));
        assert_ne!(keys("hello", "a@x"), keys("hello", "A@x"));
        assert_ne!(keys("x", "a@x"), keys("", "a@xX"), "the parts are separated");
    }
}
