//! Reading messages and attachments.

use serde_json::{Value, json};

use super::account::{BlobFile, read_id};
use super::memory::{EmailId, ReadEmail};
use super::methods::check_set;
use super::{CallError, DONE, StepContext, StepOutcome, StepResult};
use crate::door::rows::FILES_MAX;
use crate::workload::action::{Action, Document};

/// What a message is shown with.
const PROPERTIES: [&str; 17] = [
    "id",
    "blobId",
    "threadId",
    "mailboxIds",
    "keywords",
    "from",
    "to",
    "cc",
    "replyTo",
    "subject",
    "sentAt",
    "receivedAt",
    "messageId",
    "references",
    "bodyValues",
    "textBody",
    "attachments",
];
/// Maximum length of a text that the user remembers of a message.
const TEXT_BYTES_MAX: usize = 1_000;

impl StepContext<'_> {
    /// Reads a message, and marks it as read with the same request.
    pub(super) async fn read(&mut self, of: Document) -> StepResult {
        let Some(id) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let email = self.read_email(&id).await?;
        let attachments = u32::try_from(email.files.len()).unwrap_or(u32::MAX);
        self.memory.last = Some(email);
        Ok(StepOutcome::Performed { attachments })
    }

    /// Reads the attachment that the step has drawn, or the first one of a message.
    pub(super) async fn read_attachment(&mut self, keys: &Action) -> StepResult {
        let email = match (self.action.attachment(), keys) {
            (None, Action::Document { of }) if *of != Document::Last => {
                let Some(id) = self.document(*of).await? else { return Ok(StepOutcome::Skipped) };
                Some(self.read_email(&id).await?)
            }
            _ => self.memory.last.clone(),
        };
        let number = self.action.attachment().unwrap_or(0) as usize;
        let Some(file) = email.and_then(|email| email.files.into_iter().nth(number)) else {
            return Ok(StepOutcome::Skipped);
        };
        self.session.download(self.count, &file).await?;
        Ok(DONE)
    }

    /// Returns the message of the step.
    pub(super) async fn document(&mut self, of: Document) -> Result<Option<EmailId>, CallError> {
        let repetition = self.action.repetition();
        if of == Document::Newest && repetition == 0 {
            self.read_newest(self.action.repetitions()).await?;
        }
        let last = self.memory.last.as_ref().map(|last| &last.id);
        Ok(self.memory.rows.pick(of, self.action.document_fraction(), repetition, last))
    }

    async fn read_email(&mut self, id: &str) -> Result<ReadEmail, CallError> {
        let get = json!({ "ids": [id], "properties": PROPERTIES, "fetchTextBodyValues": true });
        let mark = json!({ "update": { id: { "keywords/$seen": true } } });
        let calls = [self.session.method("Email/get", get), self.session.method("Email/set", mark)];
        let results = self.session.call(self.count, &calls).await?;
        let email = results[0].get("list").and_then(|list| read_email(list.get(0)?));
        let email = email.ok_or_else(|| CallError::kept("notFound", "Email/get: the message does not exist"))?;
        check_set(&results[1], "Email/set", &[id])?;
        Ok(email)
    }
}

/// Reads an Email.
fn read_email(email: &Value) -> Option<ReadEmail> {
    let short = |value: &Value| value.as_str().filter(|text| text.len() <= TEXT_BYTES_MAX).map(str::to_owned);
    let first = |name: &str| email.get(name)?.get(0);
    let files = email.get("attachments").and_then(Value::as_array);
    let read_file = |file: &Value| {
        let name = file.get("name").and_then(short).filter(|name| !name.is_empty());
        Some(BlobFile { blob_id: read_id(file.get("blobId")?)?, name: name.unwrap_or_else(|| "file".to_owned()) })
    };
    Some(ReadEmail {
        id: read_id(email.get("id")?)?,
        from: first("from").and_then(|from| short(from.get("email")?)),
        subject: email.get("subject").and_then(short).unwrap_or_default(),
        message_id: first("messageId").and_then(short),
        files: files.into_iter().flatten().filter_map(read_file).take(FILES_MAX).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_email_is_read_with_its_sender_and_files() {
        let email = read_email(&json!({
            "id": "E1", "from": [{ "name": "A", "email": "a@x.test" }], "subject": "plan", "messageId": ["m@x"],
            "attachments": [{ "blobId": "B1", "name": "a.bin" }, { "blobId": 5 }, { "blobId": "B2", "name": null }],
        }));
        let email = email.expect("an email");
        assert_eq!((email.from.as_deref(), &*email.subject), (Some("a@x.test"), "plan"));
        let files: Vec<_> = email.files.iter().map(|file| (&*file.blob_id, &*file.name)).collect();
        assert_eq!((files, email.message_id.as_deref()), (vec![("B1", "a.bin"), ("B2", "file")], Some("m@x")));
    }

    #[test]
    fn hostile_emails_are_read_as_far_as_possible() {
        assert_eq!(read_email(&json!({ "subject": "x" })), None);
        let many: Vec<Value> = (0..500).map(|_| json!({ "blobId": "B", "name": "x".repeat(5_000) })).collect();
        let email = json!({ "id": "E", "from": "a", "subject": "x".repeat(5_000), "attachments": many });
        let email = read_email(&email).expect("an email");
        assert_eq!((email.from, &*email.subject, email.files.len()), (None, "", FILES_MAX));
        assert_eq!(email.files[0].name, "file");
    }
}
