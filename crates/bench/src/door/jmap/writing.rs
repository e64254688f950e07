//! Changing, adding, moving and deleting messages, and sending mail.

use serde_json::{Value, json};

use super::account::{Mailbox, read_id};
use super::memory::ReadEmail;
use super::methods::check_set;
use super::views::INBOX;
use super::{CallError, DONE, StepContext, StepOutcome, StepResult};
use crate::door::http::malformed;
use crate::plan::stream::Draw;
use crate::population::content::{Answered, BodyForm, Content, Purpose};
use crate::workload::action::{Document, Recipients, Size};

/// The number of keywords of messages that are changed. Servers limit the keywords of a mailbox.
const KEYWORDS: u64 = 16;
const DRAFTS: &str = "Drafts";
const SENT: &str = "Sent";
/// The media type of a message.
const MESSAGE_TYPE: &str = "message/rfc822";

impl StepContext<'_> {
    /// Sets a keyword of a message.
    pub(super) async fn update(&mut self, of: Document) -> StepResult {
        let Some(id) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let number = self.action.stream(Draw::Content).below(KEYWORDS);
        let patch = json!({ format!("keywords/category{number:02}"): true });
        self.set_email(&id, json!({ "update": { &id: patch } })).await?;
        Ok(DONE)
    }

    pub(super) async fn delete(&mut self, of: Document) -> StepResult {
        let Some(id) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        self.set_email(&id, json!({ "destroy": [&id] })).await?;
        self.forget(&id);
        Ok(DONE)
    }

    /// Moves a message to a mailbox, which is created if there is none.
    pub(super) async fn move_message(&mut self, of: Document, to: &str) -> StepResult {
        let Some(id) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let mailbox = match self.find_mailbox_id(to).await? {
            Some(mailbox) => mailbox,
            None => self.create_mailbox(to).await?,
        };
        let patch = json!({ "mailboxIds": { mailbox: true } });
        self.set_email(&id, json!({ "update": { &id: patch } })).await?;
        self.forget(&id);
        Ok(DONE)
    }

    /// Sends a message to the server and imports it into the inbox.
    pub(super) async fn add(&mut self, size: &Size) -> StepResult {
        let inbox = self.mailbox_id(INBOX).await?;
        let address = self.address();
        let content = self.action.content(Purpose::Message, size, self.settings.size_scale, None);
        let message = content.message(&address, std::slice::from_ref(&address));
        let blob = self.session.upload(self.count, MESSAGE_TYPE, message).await?;
        let email = json!({ "blobId": blob, "mailboxIds": { inbox: true }, "keywords": { "$seen": true } });
        let import = self.session.method("Email/import", json!({ "emails": { "new": email } }));
        let result = self.session.call_one(self.count, import).await?;
        check_set(&result, "Email/import", &["new"])?;
        let id = result.get("created").and_then(|created| read_id(created.get("new")?.get("id")?));
        self.memory.rows.add_own(id.ok_or_else(|| malformed("Email/import: no identifier"))?);
        Ok(DONE)
    }

    /// Answers a message, and marks it as answered. If it does not come from a user of the run, the answer goes to a
    /// user who is drawn.
    pub(super) async fn reply(&mut self, of: Document, size: &Size, copy: bool) -> StepResult {
        let Some(id) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let answered = self.memory.last.clone().filter(|last| last.id == id);
        let from = answered.as_ref().and_then(|last| last.from.as_deref());
        let to = self.action.recipients_of_answer(&self.settings.names, from);
        let quoted = answered.as_ref().map(|last| Answered::without_text(&last.subject));
        let content = self.action.content(Purpose::Message, size, self.settings.size_scale, quoted);
        self.send_content(content, &to, answered.as_ref(), copy).await
    }

    pub(super) async fn send(&mut self, recipients: Recipients, size: &Size, copy: bool) -> StepResult {
        let to = self.action.recipients_of(recipients);
        let content = self.action.content(Purpose::Message, size, self.settings.size_scale, None);
        self.send_content(content, &to, None, copy).await
    }

    /// Creates a draft and sends it with one request, after an upload of its attachment. When it was sent, the draft
    /// moves to the sent messages, or is destroyed if there is no copy.
    async fn send_content(
        &mut self,
        content: Content,
        to: &[u64],
        answered: Option<&ReadEmail>,
        copy: bool,
    ) -> StepResult {
        if !self.session.account().has_submission {
            return Err(CallError::kept("unsupported", "the server sends no messages over JMAP"));
        }
        let identity = self.identity().await?;
        let drafts = self.mailbox_id(DRAFTS).await?;
        let sent = self.mailbox_id(SENT).await?;
        let mut draft = draft_of(&content, answered);
        draft["mailboxIds"] = json!({ &drafts: true });
        draft["from"] = json!([{ "name": content.author, "email": self.address() }]);
        let names = &self.settings.names;
        draft["to"] = to.iter().map(|user| json!({ "email": names.address(*user) })).collect();
        if let Some(file) = content.attachment {
            let blob = self.session.upload(self.count, file.media_type, file.bytes).await?;
            let part =
                json!({ "blobId": blob, "type": file.media_type, "name": file.name, "disposition": "attachment" });
            draft["attachments"] = json!([part]);
        }
        let mut set = json!({ "create": { "draft": draft } });
        if let Some(answered) = answered {
            set["update"] = json!({ &answered.id: { "keywords/$answered": true } });
        }
        let mut submission = json!({ "create": { "sent": { "emailId": "#draft", "identityId": identity } } });
        if copy {
            let mut patch = json!({ "keywords/$draft": null });
            patch[format!("mailboxIds/{drafts}")] = Value::Null;
            patch[format!("mailboxIds/{sent}")] = json!(true);
            submission["onSuccessUpdateEmail"] = json!({ "#sent": patch });
        } else {
            submission["onSuccessDestroyEmail"] = json!(["#sent"]);
        }
        let calls = [self.session.method("Email/set", set), self.session.method("EmailSubmission/set", submission)];
        let results = self.session.call(self.count, &calls).await?;
        let changed: Vec<&str> = answered.map(|answered| &*answered.id).into_iter().chain(["draft"]).collect();
        check_set(&results[0], "Email/set", &changed)?;
        check_set(&results[1], "EmailSubmission/set", &["sent"])?;
        Ok(DONE)
    }

    /// Returns the identity of the user's address, or else the first one.
    async fn identity(&mut self) -> Result<String, CallError> {
        if let Some(identity) = &self.memory.identity {
            return Ok(identity.clone());
        }
        let get = self.session.method("Identity/get", json!({ "ids": null }));
        let result = self.session.call_one(self.count, get).await?;
        let list = result.get("list").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let address = self.address();
        let own = list.iter().find(|identity| identity.get("email").and_then(Value::as_str) == Some(&address));
        let identity = own.or(list.first()).and_then(|identity| read_id(identity.get("id")?));
        let identity = identity.ok_or_else(|| CallError::kept("not-found", "the user has no identity"))?;
        self.memory.identity = Some(identity.clone());
        Ok(identity)
    }

    async fn create_mailbox(&mut self, name: &str) -> Result<String, CallError> {
        let id = self.session.create_mailbox(self.count, name).await?;
        self.memory.mailboxes.push(Mailbox { id: id.clone(), name: name.to_owned(), role: None });
        Ok(id)
    }

    async fn set_email(&mut self, id: &str, arguments: Value) -> Result<(), CallError> {
        let set = self.session.method("Email/set", arguments);
        let result = self.session.call_one(self.count, set).await?;
        check_set(&result, "Email/set", &[id])
    }

    /// Forgets a message that is no longer at its place.
    fn forget(&mut self, id: &str) {
        let id = id.to_owned();
        self.memory.rows.forget(&id);
        self.memory.last.take_if(|last| last.id == id);
    }
}

/// Returns a draft with its body, without sender, recipients, mailbox and attachment.
fn draft_of(content: &Content, answered: Option<&ReadEmail>) -> Value {
    let mut draft = json!({ "keywords": { "$draft": true, "$seen": true }, "subject": content.subject });
    let forms = [("text", "plain", &content.body, BodyForm::Html), ("html", "html", &content.html, BodyForm::Plain)];
    for (part, subtype, text, other) in forms {
        if content.form != other {
            draft["bodyValues"][part] = json!({ "value": text.replace("\r\n", "\n") });
            draft[format!("{part}Body")] = json!([{ "partId": part, "type": format!("text/{subtype}") }]);
        }
    }
    if let Some(message_id) = answered.and_then(|answered| answered.message_id.as_ref()) {
        draft["inReplyTo"] = json!([message_id]);
        draft["references"] = json!([message_id]);
    }
    draft
}
