//! The replies of a stub server: one for each call, encoded when it starts.

use std::collections::HashMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use client::v1;
use client::v1::value::Kind;
use prost::Message;

/// The prefix of the paths of all calls.
const PACKAGE: &str = "/doublet.v1.";
/// The call that is refused as unknown.
const AUTHENTICATE: &str = "Sessions/Authenticate";
/// The rows of the inbox.
const ROWS: u32 = 50;
/// The view id of the inbox.
const INBOX: u32 = 2;
/// The bytes of the text of a note.
const BODY_BYTES: usize = 4_000;
/// The bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The replies by path. Calls without an own one have an empty message.
#[derive(Debug)]
pub(super) struct Replies {
    by_path: HashMap<String, Bytes>,
    empty: Bytes,
}

impl Replies {
    /// Encodes the replies.
    pub(super) fn new() -> Self {
        let replies = [
            ("Sessions/Login", frame(&login_reply())),
            ("Databases/OpenDatabase", frame(&v1::Database::default())),
            ("Views/OpenCollection", frame(&collection())),
            ("Views/ReadEntries", frame(&entries())),
            ("Notes/OpenNote", frame(&note())),
            ("Notes/OpenNotes", frame(&v1::OpenNotesReply { notes: vec![note()], ..v1::OpenNotesReply::default() })),
            ("Notes/CreateNote", frame(&saved_note())),
            ("Notes/UpdateNote", frame(&saved_note())),
            ("Notes/AttachFile", frame(&saved_note())),
            ("Notes/ReadItem", frame(&chunk())),
            ("Notes/ReadAttachment", frame(&chunk())),
        ];
        let by_path = replies.into_iter().map(|(call, reply)| (format!("{PACKAGE}{call}"), reply));
        Self { by_path: by_path.collect(), empty: Bytes::from_static(&[0; PREFIX_BYTES]) }
    }

    /// Returns the reply to a call, or `None` if the call is refused as unknown.
    pub(super) fn of(&self, path: &str) -> Option<Bytes> {
        let call = path.strip_prefix(PACKAGE).filter(|call| *call != AUTHENTICATE)?;
        debug_assert!(call.contains('/'), "a call has a service");
        Some(self.by_path.get(path).unwrap_or(&self.empty).clone())
    }
}

/// Encodes a message with its prefix.
fn frame(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).unwrap_or(u32::MAX));
    message.encode(&mut bytes).expect("the buffer grows");
    bytes.freeze()
}

fn login_reply() -> v1::LoginReply {
    let session = v1::Session { mail_file: "mail/stub.nsf".to_owned(), ..v1::Session::default() };
    v1::LoginReply { token: "stub".to_owned(), session: Some(session) }
}

fn unid(note_id: u32) -> Vec<u8> {
    [note_id.to_be_bytes(); 4].concat()
}

fn collection() -> v1::Collection {
    let view = v1::View { view_id: INBOX, name: "INBOX".to_owned(), folder: true, ..v1::View::default() };
    v1::Collection { view: Some(view), documents: ROWS.into(), entries: ROWS.into(), ..v1::Collection::default() }
}

fn entries() -> v1::ReadEntriesReply {
    let text = |text: &str| v1::Value { kind: Some(Kind::Text(text.to_owned())) };
    let entry = |row: u32| v1::Entry {
        note_id: 100 + row,
        unid: unid(100 + row),
        values: vec![text("mail1@bench.test"), text("A subject"), text("2026-01-05")],
        row: row.into(),
        ..v1::Entry::default()
    };
    v1::ReadEntriesReply { entries: (1..=ROWS).map(entry).collect(), ..v1::ReadEntriesReply::default() }
}

fn note() -> v1::Note {
    let header = v1::NoteHeader { note_id: 101, unid: unid(101), ..v1::NoteHeader::default() };
    let item =
        |name: &str, kind| v1::Item { name: name.to_owned(), flags: None, value: Some(v1::Value { kind: Some(kind) }) };
    let text = |text: &str| Kind::Text(text.to_owned());
    let body = Kind::RichText("a text ".repeat(BODY_BYTES / 7));
    let items = vec![item("From", text("mail1@bench.test")), item("Subject", text("A subject")), item("Body", body)];
    v1::Note { header: Some(header), items }
}

fn saved_note() -> v1::SavedNote {
    v1::SavedNote { note_id: 200, unid: unid(200), ..v1::SavedNote::default() }
}

fn chunk() -> v1::Chunk {
    v1::Chunk { content: vec![b'x'; BODY_BYTES], total_bytes: BODY_BYTES as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_but_one_has_a_reply() {
        let replies = Replies::new();
        let login = replies.of("/doublet.v1.Sessions/Login").expect("a reply");
        let decoded = v1::LoginReply::decode(&login[PREFIX_BYTES..]).expect("a message");
        assert_eq!(decoded, login_reply());
        assert_eq!(replies.of("/doublet.v1.Mail/DepositMail").as_deref(), Some(&[0; PREFIX_BYTES][..]));
        assert_eq!(replies.of("/doublet.v1.Sessions/Authenticate"), None);
        assert_eq!(replies.of("/other.Service/Call"), None);
    }
}
