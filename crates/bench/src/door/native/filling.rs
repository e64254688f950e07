//! Filling the mail file of a user with documents, before a run.

use super::NativeSettings;
use super::documents::{Mark, NewDocument};
use super::items::{INBOX, MemoHeader, memo_items};
use super::session::{CallCount, CallError, Session};
use crate::door::StepError;
use crate::population::content::Content;

/// A message that a mail file has before the run.
#[derive(Debug)]
pub struct StoredMemo {
    /// The number of the user who has sent it.
    pub sender: u64,
    /// What it says.
    pub content: Content,
    /// The user has not read it.
    pub is_unread: bool,
}

/// Logs in as a user, and adds messages to the inbox, in order. Those of a mail file that has documents are added, too.
///
/// # Errors
///
/// The first call that failed.
pub async fn fill_mail_file(
    settings: &NativeSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
) -> Result<(), StepError> {
    fill(settings, user, memos).await.map_err(|error: CallError| error.into_step_error(0))
}

async fn fill(
    settings: &NativeSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
) -> Result<(), CallError> {
    let mut count = CallCount::default();
    let session = Session::log_in(settings, user).await?;
    let inbox = session.folder_id(&mut count, INBOX).await?;
    let to = settings.names.address(user);
    let mut unread = Vec::new();
    for memo in memos {
        let header = MemoHeader { from: settings.names.address(memo.sender), to: vec![to.clone()] };
        let items = memo_items(&header, &memo.content);
        let attachment = memo.content.attachment;
        let document = NewDocument { items, folder: Some(inbox), parent: None, attachment };
        let row = session.create_document(&mut count, document).await?;
        if memo.is_unread {
            unread.push(row.note_id);
        }
    }
    session.mark(&mut count, &unread, Mark::Unread).await?;
    session.log_out().await;
    Ok(())
}
