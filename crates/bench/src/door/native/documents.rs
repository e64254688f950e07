//! The calls that create documents, attach files, mark documents, and send messages.

use client::v1;
use client::v1::attach_file_request::{Header, Part as FilePart};
use client::v1::deposit_mail_request::{Envelope, Part as MailPart};
use client::v1::value::Kind;

use super::items::{note_key, row_of, view_named};
use super::memory::Row;
use super::replica_notes::content_id;
use super::session::{CallCount, CallError, Session};
use crate::population::attachment::Attachment;

/// The size of a piece of a message or attachment, as the protocol limits it.
const PIECE_BYTES: usize = 256 << 10;
/// The maximum number of notes of a call.
const NOTES_PER_CALL_MAX: usize = 1_000;

/// The database of a new document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// Where the user works.
    #[default]
    Workplace,
    /// The mail file of the user.
    MailFile,
}

/// A document to be created.
#[derive(Debug, Default)]
pub(super) struct NewDocument {
    /// The database.
    pub(super) place: Place,
    /// Its items.
    pub(super) items: Vec<v1::Item>,
    /// The folder that holds it.
    pub(super) folder: Option<u32>,
    /// The document to which it is a response.
    pub(super) parent: Option<Row>,
    /// Its attachment.
    pub(super) attachment: Option<Attachment>,
}

/// A mark of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Read,
    Unread,
}

/// Returns the UNID of a folder that a mail file has from its beginning.
fn derived_unid(title: &str) -> [u8; 16] {
    let digest = content_id(format!("folder\0{title}").as_bytes());
    let mut unid = [0; 16];
    unid[..8].copy_from_slice(b"\0folder\0");
    unid[8..].copy_from_slice(&digest[..8]);
    unid
}

impl Session {
    /// Creates a document, and attaches its file with a second call.
    pub(super) async fn create_document(&self, count: &mut CallCount, new: NewDocument) -> Result<Row, CallError> {
        let database = match new.place {
            Place::Workplace => self.database(),
            Place::MailFile => self.mail_file(),
        };
        let request = v1::CreateNoteRequest {
            database: Some(database.clone()),
            note_class: v1::NoteClass::Document.into(),
            items: new.items,
            parent_unid: new.parent.map(|parent| parent.unid.to_vec()).unwrap_or_default(),
            folder_ids: new.folder.into_iter().collect(),
            ..v1::CreateNoteRequest::default()
        };
        let saved = self.call(count, self.client().notes().create_note(request)).await?;
        let malformed = || CallError::kept("malformed", "the saved note has no identifiers");
        let row = row_of(saved.note_id, &saved.unid).ok_or_else(malformed)?;
        if let Some(attachment) = new.attachment {
            self.attach(count, (database, row), attachment).await?;
        }
        Ok(row)
    }

    async fn attach(
        &self,
        count: &mut CallCount,
        (database, row): (v1::DatabaseKey, Row),
        attachment: Attachment,
    ) -> Result<(), CallError> {
        let header = Header {
            database: Some(database),
            note: note_key(row.note_id),
            file_name: attachment.name,
            media_type: attachment.media_type.to_owned(),
            length_bytes: attachment.bytes.len() as u64,
            ..Header::default()
        };
        let pieces = attachment.bytes.chunks(PIECE_BYTES).map(|piece| FilePart::Content(piece.to_vec()));
        let parts = [FilePart::Header(header)].into_iter().chain(pieces);
        let requests = client::request_stream(parts.map(|part| v1::AttachFileRequest { part: Some(part) }));
        self.call(count, self.client().notes().attach_file(requests)).await?;
        Ok(())
    }

    /// Marks documents as read or unread.
    pub(super) async fn mark(&self, count: &mut CallCount, note_ids: &[u32], mark: Mark) -> Result<(), CallError> {
        for part in note_ids.chunks(NOTES_PER_CALL_MAX) {
            let notes = part.iter().filter_map(|note_id| note_key(*note_id)).collect();
            let unread = mark == Mark::Unread;
            let request = v1::MarkNotesRequest { database: Some(self.database()), notes, unread };
            self.call(count, self.client().notes().mark_notes(request)).await?;
        }
        Ok(())
    }

    /// Opens a view, and calls again while its index is being brought up to date.
    pub(super) async fn open_collection(
        &self,
        count: &mut CallCount,
        view: Option<v1::ViewKey>,
    ) -> Result<v1::Collection, CallError> {
        loop {
            let request = v1::OpenCollectionRequest { database: Some(self.database()), view: view.clone() };
            let collection = self.call(count, self.client().views().open_collection(request)).await?;
            if !collection.incomplete {
                return Ok(collection);
            }
        }
    }

    /// Returns the item with the editors of a document that the user has saved.
    pub(super) fn editor_item(&self) -> v1::Item {
        let editors = v1::TextList { values: vec![self.name().to_owned()] };
        let flags = Some(v1::ItemFlags { summary: true, names: true, ..v1::ItemFlags::default() });
        let value = Some(v1::Value { kind: Some(Kind::TextList(editors)) });
        v1::Item { name: "$UpdatedBy".to_owned(), flags, value }
    }

    /// Returns the UNID of a folder. The server does not state that of a folder without columns, which follows from its
    /// name unless it was renamed (docs/replication.md, "Nothing means something by its note id").
    pub(super) async fn folder_unid(&self, count: &mut CallCount, name: &str) -> Result<Vec<u8>, CallError> {
        let collection = self.open_collection(count, view_named(name)).await?;
        let view = collection.view.unwrap_or_default();
        Ok(if view.unid.is_empty() { derived_unid(&view.name).to_vec() } else { view.unid })
    }

    /// Returns the note id of a folder of the mail file.
    pub(super) async fn folder_id(&self, count: &mut CallCount, name: &str) -> Result<u32, CallError> {
        let request = v1::OpenCollectionRequest { database: Some(self.mail_file()), view: view_named(name) };
        let collection = self.call(count, self.client().views().open_collection(request)).await?;
        Ok(collection.view.unwrap_or_default().view_id)
    }

    /// Sends a message.
    pub(super) async fn deposit(
        &self,
        count: &mut CallCount,
        message: Vec<u8>,
        recipients: Vec<String>,
    ) -> Result<(), CallError> {
        let length_bytes = message.len() as u64;
        let envelope = Envelope { recipients, length_bytes, ..Envelope::default() };
        let pieces = message.chunks(PIECE_BYTES).map(|piece| MailPart::Content(piece.to_vec()));
        let parts = [MailPart::Envelope(envelope)].into_iter().chain(pieces);
        let requests = client::request_stream(parts.map(|part| v1::DepositMailRequest { part: Some(part) }));
        self.call(count, self.client().mail().deposit_mail(requests)).await?;
        Ok(())
    }
}
