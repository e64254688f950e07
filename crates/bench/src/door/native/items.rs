//! Keys, items and notes of the native protocol.

use client::v1::value::Kind;
use client::v1::{self, note_key, view_key};

use super::memory::{FileOfDocument, ReadDocument, Row};
use super::skeleton::parts_of_note;
use crate::door::rows::FILES_MAX;
pub(super) use crate::plan::databases::INBOX;
use crate::population::content::{BodyForm, Content};

/// The name of the folder with sent messages.
pub(super) const SENT: &str = "Sent";

/// The header fields of a memo.
#[derive(Debug, Default)]
pub(super) struct MemoHeader {
    /// The address of the sender.
    pub(super) from: String,
    /// The addresses of the recipients.
    pub(super) to: Vec<String>,
    /// When it was sent, in microseconds since 1970, if that is known.
    pub(super) posted_us: Option<i64>,
    /// Its message id, if it has one.
    pub(super) message_id: Option<String>,
    /// The message ids of those that it answers, the first one of the thread first.
    pub(super) references: Vec<String>,
}

/// Returns the key of a note.
pub(super) fn note_key(note_id: u32) -> Option<v1::NoteKey> {
    Some(v1::NoteKey { key: Some(note_key::Key::NoteId(note_id)) })
}

/// Returns the key of a view by its name.
pub(super) fn view_named(name: &str) -> Option<v1::ViewKey> {
    Some(v1::ViewKey { key: Some(view_key::Key::Name(name.to_owned())) })
}

/// Returns the key of a view by its number.
pub(super) fn view_numbered(view_id: u32) -> Option<v1::ViewKey> {
    Some(v1::ViewKey { key: Some(view_key::Key::ViewId(view_id)) })
}

/// Returns an item of the summary.
pub(super) fn summary_item(name: &str, kind: Kind) -> v1::Item {
    let flags = Some(v1::ItemFlags { summary: true, ..v1::ItemFlags::default() });
    v1::Item { name: name.to_owned(), flags, value: Some(v1::Value { kind: Some(kind) }) }
}

/// Returns a text of the summary.
pub(super) fn text_item(name: &str, text: &str) -> v1::Item {
    summary_item(name, Kind::Text(text.to_owned()))
}

/// Returns the items of a memo, without its attachment.
pub(super) fn memo_items(header: &MemoHeader, content: &Content) -> Vec<v1::Item> {
    let to = v1::TextList { values: header.to.clone() };
    let body = match content.form {
        BodyForm::Plain => Kind::Text(content.body.clone()),
        BodyForm::Html | BodyForm::Alternative => Kind::RichText(content.html.clone()),
    };
    let body = v1::Value { kind: Some(body) };
    let mut items = vec![
        text_item("Form", "Memo"),
        text_item("From", &format!("{} <{}>", content.author, header.from)),
        summary_item("SendTo", Kind::TextList(to)),
        text_item("Subject", &content.subject),
        v1::Item { name: "Body".to_owned(), flags: None, value: Some(body) },
    ];
    items.extend(header.posted_us.map(|posted_us| summary_item("PostedDate", Kind::TimeUs(posted_us))));
    items.extend(header.message_id.as_deref().map(|id| text_item("$MessageID", id)));
    if let Some(answered) = header.references.last() {
        items.push(text_item("In_Reply_To", answered));
        items.push(text_item("References", &header.references.join(" ")));
    }
    items
}

/// Returns the items of a topic of a discussion, without its attachment.
pub(super) fn topic_items(content: &Content) -> Vec<v1::Item> {
    let text = if content.html.is_empty() { &content.body } else { &content.html };
    let body = v1::Value { kind: Some(Kind::RichText(text.clone())) };
    vec![
        text_item("Form", "Topic"),
        text_item("Subject", &content.subject),
        v1::Item { name: "Body".to_owned(), flags: None, value: Some(body) },
    ]
}

/// Returns the items of a response in a discussion, without its attachment.
pub(super) fn response_items(content: &Content) -> Vec<v1::Item> {
    let mut items = topic_items(content);
    items[0] = text_item("Form", "Response");
    items
}

/// Returns the row of a saved note, or `None` if the server has left out the identifier.
pub(super) fn row_of(note_id: u32, unid: &[u8]) -> Option<Row> {
    Some(Row { note_id, unid: unid.try_into().ok()? }).filter(|row| row.note_id > 0)
}

/// Returns what the user remembers of a note, or `None` if it has no header.
pub(super) fn read_document(note: v1::Note) -> Option<ReadDocument> {
    let header = note.header?;
    let row = row_of(header.note_id, &header.unid)?;
    let mut document = ReadDocument::without_contents(row);
    let parts = parts_of_note(&note.items);
    for item in note.items {
        let kind = item.value.and_then(|value| value.kind);
        match (item.name.to_ascii_lowercase().as_str(), kind) {
            ("from", Some(Kind::Text(from))) => document.from = Some(from),
            ("from", Some(Kind::TextList(from))) => document.from = from.values.into_iter().next(),
            ("subject", Some(Kind::Text(subject))) => document.subject = subject,
            (_, Some(Kind::Attachment(file))) if document.files.len() < FILES_MAX => {
                document.files.push(FileOfDocument::Named(file.file_name));
            }
            _ => {}
        }
    }
    document.set_parts(parts);
    Some(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_with_its_sender_and_files() {
        let header = v1::NoteHeader { note_id: 7, unid: vec![1; 16], ..v1::NoteHeader::default() };
        let file =
            |name: &str| Kind::Attachment(v1::Attachment { file_name: name.to_owned(), ..v1::Attachment::default() });
        let items = vec![
            text_item("From", "mail1@bench.test"),
            text_item("Subject", "plan"),
            summary_item("$FILE", file("a.bin")),
            summary_item("$FILE", file("b.bin")),
        ];
        let read = read_document(v1::Note { header: Some(header.clone()), items }).expect("a note");
        assert_eq!((read.row.note_id, read.from.as_deref(), &*read.subject), (7, Some("mail1@bench.test"), "plan"));
        assert_eq!(read.files, ["a.bin", "b.bin"].map(|name| FileOfDocument::Named(name.to_owned())));
        let short = v1::NoteHeader { unid: vec![1; 3], ..header };
        assert_eq!(read_document(v1::Note { header: Some(short), items: Vec::new() }), None);
    }
}
