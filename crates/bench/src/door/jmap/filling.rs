//! Filling the mail file of a user with messages, before a run: uploads, and an import for some of them together.

use std::time::Duration;

use base::Timestamp;
use serde_json::{Map, Value, json};

use super::JmapSettings;
use super::account::{Mailbox, find_mailbox, read_mailboxes};
use super::methods::{Method, check_set};
use super::session::JmapSession;
use super::views::INBOX;
use crate::door::StepError;
use crate::door::call::{CallCount, CallError, limited};
use crate::door::native::filling::fill_mail_file as fill_natively;
use crate::population::memos::StoredMemo;
use crate::workload::ARCHIVE;

/// Maximum number of messages of an import.
const IMPORT_MAX: usize = 20;
/// The media type of a message.
const MESSAGE_TYPE: &str = "message/rfc822";

/// Logs in as a user, and adds messages to inbox and archive, in order. Those of a mail file that has messages are
/// added, too. Each call has a time limit.
///
/// # Errors
///
/// The first call that failed.
pub async fn fill_mail_file(
    settings: &JmapSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
    time_limit: Duration,
) -> Result<(), StepError> {
    if let Some(creator) = &settings.creator {
        fill_natively(creator, user, std::iter::empty()).await?;
    }
    let mut count = CallCount::default();
    let session = limited(time_limit, JmapSession::log_in(settings, user, &mut count)).await;
    let session = session.map_err(|error| error.into_step_error(count))?;
    let mut filling = Filling { settings, session, count, time_limit };
    filling.fill(&settings.names.address(user), memos).await.map_err(|error| error.into_step_error(filling.count))
}

/// The filling of a mail file.
struct Filling<'a> {
    settings: &'a JmapSettings,
    session: JmapSession,
    count: CallCount,
    time_limit: Duration,
}

impl Filling<'_> {
    async fn fill(&mut self, to: &str, memos: impl Iterator<Item = StoredMemo> + Send) -> Result<(), CallError> {
        let mailboxes = self.mailboxes().await?;
        let id = |name| find_mailbox(&mailboxes, name).map(|mailbox| mailbox.id.clone());
        let inbox = id(INBOX).ok_or_else(|| CallError::kept("not-found", "there is no mailbox with the role inbox"))?;
        let mut archive = id(ARCHIVE);
        let batch_max = IMPORT_MAX.min(self.session.account().set_objects_max);
        let mut batch = Map::new();
        for memo in memos {
            let message = memo.content.message_with(&memo.header(&self.settings.names, to));
            let upload = self.session.upload(&mut self.count, MESSAGE_TYPE, message);
            let blob = limited(self.time_limit, upload).await?;
            let keywords = if memo.is_unread { json!({}) } else { json!({ "$seen": true }) };
            if memo.is_archived && archive.is_none() {
                let create = self.session.create_mailbox(&mut self.count, ARCHIVE);
                archive = Some(limited(self.time_limit, create).await?);
            }
            let mailbox = archive.as_ref().filter(|_| memo.is_archived).unwrap_or(&inbox);
            let email = json!({
                "blobId": blob,
                "mailboxIds": { mailbox: true },
                "keywords": keywords,
                "receivedAt": Timestamp(memo.posted_us).to_rfc3339(),
            });
            batch.insert(batch.len().to_string(), email);
            if batch.len() == batch_max {
                self.import(std::mem::take(&mut batch)).await?;
            }
        }
        if batch.is_empty() { Ok(()) } else { self.import(batch).await }
    }

    async fn mailboxes(&mut self) -> Result<Vec<Mailbox>, CallError> {
        let get = self.session.method("Mailbox/get", json!({ "ids": null }));
        Ok(read_mailboxes(&self.call(get).await?))
    }

    async fn import(&mut self, emails: Map<String, Value>) -> Result<(), CallError> {
        let import = self.session.method("Email/import", json!({ "emails": &emails }));
        let result = self.call(import).await?;
        check_set(&result, "Email/import", &emails.keys().map(String::as_str).collect::<Vec<_>>())
    }

    async fn call(&mut self, method: Method) -> Result<Value, CallError> {
        limited(self.time_limit, self.session.call_one(&mut self.count, method)).await
    }
}
