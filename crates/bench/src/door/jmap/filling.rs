//! Filling the mail file of a user with messages, before a run: uploads, and an import for some of them together.

use base::Timestamp;
use serde_json::{Map, Value, json};

use super::JmapSettings;
use super::account::{find_mailbox, read_mailboxes};
use super::methods::check_set;
use super::session::JmapSession;
use super::views::INBOX;
use crate::door::StepError;
use crate::door::call::{CallCount, CallError};
use crate::door::native::filling::fill_mail_file as fill_natively;
use crate::population::memos::StoredMemo;

/// Maximum number of messages of an import.
const IMPORT_MAX: usize = 20;
/// The media type of a message.
const MESSAGE_TYPE: &str = "message/rfc822";

/// Logs in as a user, and adds messages to the inbox, in order. Those of a mail file that has messages are added, too.
///
/// # Errors
///
/// The first call that failed.
pub async fn fill_mail_file(
    settings: &JmapSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
) -> Result<(), StepError> {
    if let Some(creator) = &settings.creator {
        fill_natively(creator, user, std::iter::empty()).await?;
    }
    let mut count = CallCount::default();
    fill(settings, user, memos, &mut count).await.map_err(|error| error.into_step_error(count))
}

async fn fill(
    settings: &JmapSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
    count: &mut CallCount,
) -> Result<(), CallError> {
    let mut session = JmapSession::log_in(settings, user, count).await?;
    let get = session.method("Mailbox/get", json!({ "ids": null }));
    let mailboxes = read_mailboxes(&session.call_one(count, get).await?);
    let inbox = find_mailbox(&mailboxes, INBOX).map(|mailbox| mailbox.id.clone());
    let inbox = inbox.ok_or_else(|| CallError::kept("not-found", "there is no mailbox with the role inbox"))?;
    let to = settings.names.address(user);
    let batch_max = IMPORT_MAX.min(session.account().set_objects_max);
    let mut batch = Map::new();
    for memo in memos {
        let message = memo.content.message_with(&memo.header(&settings.names, &to));
        let blob = session.upload(count, MESSAGE_TYPE, message).await?;
        let keywords = if memo.is_unread { json!({}) } else { json!({ "$seen": true }) };
        let email = json!({
            "blobId": blob,
            "mailboxIds": { &inbox: true },
            "keywords": keywords,
            "receivedAt": Timestamp(memo.posted_us).to_rfc3339(),
        });
        batch.insert(batch.len().to_string(), email);
        if batch.len() == batch_max {
            import(&mut session, count, std::mem::take(&mut batch)).await?;
        }
    }
    if batch.is_empty() { Ok(()) } else { import(&mut session, count, batch).await }
}

async fn import(session: &mut JmapSession, count: &mut CallCount, emails: Map<String, Value>) -> Result<(), CallError> {
    let import = session.method("Email/import", json!({ "emails": &emails }));
    let result = session.call_one(count, import).await?;
    check_set(&result, "Email/import", &emails.keys().map(String::as_str).collect::<Vec<_>>())
}
