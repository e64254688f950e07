//! Filling the mail file of a user with documents, before a run.
//!
//! Doublet creates a mail file when its first message arrives. So a user without one sends a message to oneself, and
//! deletes it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{NOT_FOUND, NativeSettings};
use client::v1;

use super::documents::{Mark, NewDocument};
use super::items::{INBOX, MemoHeader, memo_items, note_key, view_numbered};
use super::session::{CallCount, CallError, Session};
use crate::door::StepError;
use crate::population::memos::StoredMemo;
use crate::population::message::MessageHeader;
use crate::workload::ARCHIVE;

/// The code of a mail file without a full-text index.
const NO_INDEX: &str = "no-index";
/// The longest time until a mail file has an index.
const INDEX_TIME_MAX: Duration = Duration::from_secs(120);
/// The longest time until the first message of a mail file has arrived.
const MESSAGE_TIME_MAX: Duration = Duration::from_secs(60);
/// The time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Logs in as a user, and adds messages to inbox and archive, in order. Those of a mail file that has documents are
/// added, too. Each call has the time limit of the connection.
///
/// # Errors
///
/// The first call that failed.
pub async fn fill_mail_file(
    settings: &NativeSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
) -> Result<(), StepError> {
    fill(settings, user, memos).await.map_err(StepError::from)
}

/// Waits until the mail file of a user has a full-text index, which the server creates some time after its first
/// message.
///
/// # Errors
///
/// The first call that failed, or if there is no index in time.
pub async fn wait_for_index(settings: &NativeSettings, user: u64) -> Result<(), StepError> {
    let waited = async {
        let session = Session::log_in_without_steps(settings, user).await?;
        let deadline = Instant::now() + INDEX_TIME_MAX;
        loop {
            let query = "index".to_owned();
            let database = Some(session.mail_file());
            let request = v1::SearchFullTextRequest { database, query, ..v1::SearchFullTextRequest::default() };
            let mut count = CallCount::default();
            let found = session.call(&mut count, session.client().search().search_full_text(request)).await;
            match found {
                Err(error) if error.code == NO_INDEX && Instant::now() < deadline => sleep(LOOK_INTERVAL).await,
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        session.log_out(&mut CallCount::default()).await;
        Ok::<(), CallError>(())
    };
    waited.await.map_err(StepError::from)
}

async fn fill(
    settings: &NativeSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
) -> Result<(), CallError> {
    let mut count = CallCount::default();
    let session = Session::log_in_without_steps(settings, user).await?;
    let inbox = match session.folder_id(&mut count, INBOX).await {
        Err(error) if error.code == NOT_FOUND => create_mail_file(settings, &session, user).await?,
        found => found?,
    };
    let to = settings.names.address(user);
    let mut archive = None;
    let mut unread = Vec::new();
    for memo in memos {
        let MessageHeader { date_us, message_id, references, .. } = memo.header(&settings.names, &to);
        let from = settings.names.address(memo.sender);
        let header = MemoHeader { from, to: vec![to.clone()], posted_us: date_us, message_id, references };
        let items = memo_items(&header, &memo.content);
        let attachment = memo.content.attachment;
        let folder = match archive {
            _ if !memo.is_archived => inbox,
            Some(archive) => archive,
            None => *archive.insert(session.folder_id(&mut count, ARCHIVE).await?),
        };
        let document = NewDocument { items, folder: Some(folder), attachment, ..NewDocument::default() };
        let row = session.create_document(&mut count, document).await?;
        if memo.is_unread {
            unread.push(row.note_id);
        }
    }
    session.mark(&mut count, &unread, Mark::Unread).await?;
    session.log_out(&mut CallCount::default()).await;
    Ok(())
}

/// Creates the mail file of a user. Returns the note id of its inbox.
async fn create_mail_file(settings: &NativeSettings, session: &Session, user: u64) -> Result<u32, CallError> {
    let mut count = CallCount::default();
    let address = settings.names.address(user);
    let message = format!("From: <{address}>\r\nTo: <{address}>\r\nSubject: First\r\n\r\nFirst\r\n").into_bytes();
    session.deposit(&mut count, message, vec![address]).await?;
    let inbox = session.folder_id(&mut count, INBOX).await?;
    let database = Some(session.database());
    let request = v1::ReadEntriesRequest {
        database: database.clone(),
        view: view_numbered(inbox),
        navigator: v1::Navigator::Next.into(),
        ..v1::ReadEntriesRequest::default()
    };
    // The folder may be there before the message.
    let deadline = Instant::now() + MESSAGE_TIME_MAX;
    let entries = loop {
        let reply = session.call(&mut count, session.client().views().read_entries(request.clone())).await?;
        if !reply.entries.is_empty() {
            break reply.entries;
        }
        if Instant::now() >= deadline {
            return Err(CallError::kept("no-message", "the first message of the mail file has not arrived"));
        }
        sleep(LOOK_INTERVAL).await;
    };
    for entry in entries {
        let note = note_key(entry.note_id);
        let request = v1::DeleteNoteRequest { database: database.clone(), note, ..v1::DeleteNoteRequest::default() };
        session.call(&mut count, session.client().notes().delete_note(request)).await?;
    }
    Ok(inbox)
}
