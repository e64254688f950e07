//! Streams of changes in a database, and polling for new mail.

use std::pin::Pin;

use base::Modseq;
use notes::change_log::{ChangeCursor, ChangeEntry, NoteChange};
use notes::{DatabaseSnapshot, FolderDesign, level};
use proto::v1;

use super::CallContext;
use crate::error::{Error, Result};
use crate::limits::STEP_CHANGES;
use crate::service::CallOutcome;

/// A future that is ready when the database may have changed.
pub(crate) type Changed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A change stream: its request and its position.
pub(crate) struct ChangeStream {
    request: v1::WatchChangesRequest,
    at: ChangeCursor,
}

/// The result of one read of a change stream.
pub(crate) struct ChangeStreamPage {
    /// The changes, and the modseq that they reach.
    pub batch: v1::ChangeBatch,
    /// `true` if more changes can be read at once.
    pub more: bool,
    /// The condition to wait for before the next read if there are no more changes.
    pub changed: Changed,
}

impl ChangeStream {
    /// Starts a stream at the client's modseq.
    pub(crate) fn begin(request: v1::WatchChangesRequest) -> Self {
        Self { at: ChangeCursor::after(Modseq(request.since_modseq)), request }
    }

    /// Returns `true` if the stream ends when there are no more changes.
    pub(crate) fn is_once(&self) -> bool {
        self.request.once
    }

    /// Reads the next changes. Returns them with the stream at its new position.
    pub(crate) fn read_changes(mut self, context: &CallContext) -> Result<CallOutcome<(ChangeStreamPage, Self)>> {
        let access = context.access::<level::Reader>(self.request.database.clone())?;
        // Registered before reading, so that a change after the read is noticed.
        let changed = access.database().listen();
        let reading = access.read()?;
        if self.at.modseq > Modseq(0) {
            check_known(&reading, self.at.modseq)?;
        }
        let page = reading.changes_page(self.at, STEP_CHANGES)?;
        let mut batch = v1::ChangeBatch { changes: Vec::new(), modseq: page.next.modseq.0 };
        for entry in &page.entries {
            batch.changes.extend(change_to_proto(&reading, entry, self.request.documents_only)?);
        }
        self.at = page.next;
        let more = self.at.modseq < reading.modseq();
        let ticket = reading.ticket();
        Ok(CallOutcome::when_durable((ChangeStreamPage { batch, more, changed: Box::pin(changed) }, self), ticket))
    }
}

/// Returns an error if changes since `since` have been purged, or if the database has not reached this modseq. In the
/// second case the database is not the one that the client knew, for example because it was restored from an older
/// backup, and the client would miss its next changes.
pub(crate) fn check_known(reading: &DatabaseSnapshot<'_>, since: Modseq) -> Result<()> {
    if reading.is_complete_since(since) && since <= reading.modseq() {
        return Ok(());
    }
    Err(Error::Purged { modseq: reading.modseq().0 })
}

fn change_to_proto(
    reading: &DatabaseSnapshot<'_>,
    entry: &ChangeEntry,
    documents_only: bool,
) -> Result<Option<v1::Change>> {
    use v1::change::Kind;
    let header = reading.header(entry.note)?;
    if documents_only && header.as_ref().is_some_and(|header| !header.class.is_document()) {
        return Ok(None);
    }
    let (kind, folder_ids) = match &entry.change {
        NoteChange::Changed { folders } => (Kind::Changed, folders.iter().map(|place| place.folder.0).collect()),
        NoteChange::Deleted { folders, .. } => (Kind::Deleted, folders.iter().map(|place| place.folder.0).collect()),
        NoteChange::Left { from, .. } => (Kind::Left, vec![from.folder.0]),
    };
    let mut change = v1::Change {
        modseq: entry.modseq.0,
        note_id: entry.note.0,
        kind: kind.into(),
        folder_ids,
        ..v1::Change::default()
    };
    if let Some(header) = header {
        change.unid = header.unid.0.to_vec();
        change.sequence = header.sequence;
        change.note_class = i32::from(header.class.0);
    }
    Ok(Some(change))
}

/// The name of the folder to which mail is delivered.
const INBOX: &str = "INBOX";

/// Reads the state of the caller's inbox. Also returns the condition to wait for before the next read.
pub(crate) fn poll(
    context: &CallContext,
    request: &v1::PollNewMailRequest,
) -> Result<CallOutcome<(v1::PollNewMailReply, Changed)>> {
    let person = context.person()?.ok_or_else(|| Error::State("a server has no mail file".to_owned()))?;
    if person.mail_file.is_empty() {
        return Err(Error::State("the user has no mail file".to_owned()));
    }
    let key = v1::database_key::Key::Path(person.mail_file.clone());
    let access = context.access::<level::Reader>(Some(v1::DatabaseKey { key: Some(key) }))?;
    let changed = access.database().listen();
    let reading = context.read(&access)?;
    let folders = reading.folders()?;
    let is_inbox = |folder: &&FolderDesign| folder.title.eq_ignore_ascii_case(INBOX);
    let inbox = folders.iter().find(is_inbox).ok_or_else(|| Error::State("the mail file has no inbox".to_owned()))?;
    let reader = reading.folder(inbox.view)?;
    let folder = reader.state();
    let totals = reader.totals()?;
    drop(reader);
    let now = [folder.uid_validity.to_be_bytes(), folder.uid_next.to_key()].concat();
    let new_mail = match request.state.len() {
        0 => totals.unseen > 0,
        _ => request.state != now,
    };
    let reply = v1::PollNewMailReply { state: now, new_mail, unread: totals.unseen, messages: totals.count };
    let ticket = reading.ticket();
    Ok(CallOutcome::when_durable((reply, Box::pin(changed) as Changed), ticket))
}
