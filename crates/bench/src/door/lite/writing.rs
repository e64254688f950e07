//! Marking, deleting and moving messages, drafts, sending, and looking up names.

use std::sync::Arc;

use super::form::{FilledForm, Form, FormFile};
use super::list::ListRow;
use super::session::LoadedPage;
use super::{CallError, DONE, StepContext, StepOutcome, StepResult};
use crate::door::http::location::without_query;
use crate::door::http::malformed;
use crate::plan::stream::Draw;
use crate::population::content::{Content, Purpose};
use crate::workload::action::{Document, Recipients, Size};

/// The values of buttons.
const DELETE: &str = "delete";
const MOVE: &str = "move";
const CREATE: &str = "create";
const SEND: &str = "send";
const SAVE: &str = "save";
const LOOK_UP: &str = "look";
/// The fields of the composer for recipients of copies.
const COPIES: [&str; 2] = ["cc", "bcc"];
const FLAGS: [&str; 2] = ["flag", "unflag"];

impl StepContext<'_> {
    /// Sets the flag of a message, or removes it. The list has buttons for both, and the page of a message only one.
    pub(super) async fn update(&mut self, of: Document) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let flag = FLAGS[self.action.stream(Draw::Content).below(2) as usize];
        self.press_in_list(&row, flag, None).await?;
        Ok(DONE)
    }

    pub(super) async fn delete(&mut self, of: Document) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        self.press_for(&row, DELETE, None).await?;
        self.memory.forget(&row);
        Ok(DONE)
    }

    /// Moves a message to a folder, which is created if there is none.
    pub(super) async fn move_message(&mut self, of: Document, to: &str) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let list = Arc::clone(&row.list);
        let (field, folder) = match list.form.choice(to) {
            Some((field, folder)) => (field.to_owned(), folder.to_owned()),
            None => self.create_folder(to, &list.target).await?,
        };
        self.press_for(&row, MOVE, Some((&field, &folder))).await?;
        self.memory.forget(&row);
        Ok(DONE)
    }

    /// Saves a draft, which is in the folder with drafts. The page that follows is its own.
    pub(super) async fn add(&mut self, size: &Size) -> StepResult {
        let content = self.content(size);
        let to = self.settings.names.address(self.action.user());
        let write = self.session.navigation().write.clone();
        let LoadedPage { page, target } = self.session.visit(self.count, &write).await?;
        let form = page.form_with_button(SAVE).ok_or_else(|| no_composer(&target))?;
        let mut filled = form.fill();
        filled.set("to", &to)?;
        self.write(&mut filled, content)?;
        filled.press(SAVE)?;
        let saved = self.session.submit(self.count, filled, &target).await?;
        self.memory.add_draft(saved.target);
        Ok(DONE)
    }

    pub(super) async fn send(&mut self, recipients: Recipients, size: &Size) -> StepResult {
        let to = self.action.recipients_of(recipients);
        let content = self.content(size);
        let write = self.session.navigation().write.clone();
        let LoadedPage { page, target } = self.session.visit(self.count, &write).await?;
        let form = page.form_with_button(SEND).ok_or_else(|| no_composer(&target))?;
        let mut filled = form.fill();
        filled.set("to", &self.addresses(&to))?;
        self.write(&mut filled, content)?;
        self.send_form(filled, &target).await
    }

    /// Answers a message above its quoted text. The answer goes to one user of the run: the one whom the composer
    /// names, or one who is drawn. The other addresses of the composer may be those of strangers.
    pub(super) async fn reply(&mut self, of: Document, size: &Size) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let message = match self.memory.last.clone().filter(|last| last.row == row) {
            Some(message) => message,
            None => self.show_message(row).await?,
        };
        let missing = || malformed(format!("{}: no link Reply", without_query(&message.target)));
        let reply = message.reply.as_ref().ok_or_else(missing)?;
        let LoadedPage { page, target } = self.session.visit(self.count, reply).await?;
        let form = page.form_with_button(SEND).ok_or_else(|| no_composer(&target))?;
        let mut filled = form.fill();
        let to = self.action.recipients_of_answer(&self.settings.names, filled.value("to"));
        filled.set("to", &self.addresses(&to))?;
        for copies in COPIES {
            if filled.value(copies).is_some() {
                filled.set(copies, "")?;
            }
        }
        let subject = filled.value("subject").unwrap_or_default().to_owned();
        let quoted = filled.value("body").unwrap_or_default().to_owned();
        let mut content = self.content(size);
        content.subject = subject;
        content.body.push_str(&quoted);
        self.write(&mut filled, content)?;
        self.send_form(filled, &target).await
    }

    /// Lets the composer look up names.
    pub(super) async fn lookup(&mut self, names: u64) -> StepResult {
        let people = self.action.names(names);
        let write = self.session.navigation().write.clone();
        let LoadedPage { page, target } = self.session.visit(self.count, &write).await?;
        let form = page.form_with_button(LOOK_UP).ok_or_else(|| no_composer(&target))?;
        let mut filled = form.fill();
        let name_of = |person: &u64| {
            let address = self.settings.names.address(*person);
            address.split('@').next().unwrap_or_default().to_owned()
        };
        let names: Vec<String> = people.iter().map(name_of).collect();
        filled.set("to", &names.join(", "))?;
        filled.press(LOOK_UP)?;
        self.session.submit(self.count, filled, &target).await?;
        Ok(DONE)
    }

    /// Sends the composer. The composer comes back if something is wrong.
    async fn send_form(&mut self, mut filled: FilledForm<'_>, target: &str) -> StepResult {
        filled.press(SEND)?;
        let answered = self.session.submit(self.count, filled, target).await?;
        if answered.page.form_with_button(SEND).is_some() {
            return Err(CallError::kept("send-refused", answered.page.problem()));
        }
        self.take_list_if_any(&answered);
        Ok(DONE)
    }

    /// Sends the form of a message with a button: on its own page if that was shown last, or in its list.
    async fn press_for(&mut self, row: &ListRow, button: &str, choice: Option<(&str, &str)>) -> Result<(), CallError> {
        let shown = self.memory.last.as_ref().filter(|last| last.row == *row);
        match shown.and_then(|last| Some((last.form.clone()?, last.target.clone()))) {
            Some((form, target)) => {
                let answered = self.press(form.fill(), button, choice, &target).await?;
                self.take_answer(row, &answered);
                Ok(())
            }
            None => self.press_in_list(row, button, choice).await,
        }
    }

    /// Sends the form of the list of a message with a button.
    async fn press_in_list(
        &mut self,
        row: &ListRow,
        button: &str,
        choice: Option<(&str, &str)>,
    ) -> Result<(), CallError> {
        let list = Arc::clone(&row.list);
        let mut filled = list.form.fill();
        filled.check(&row.field, &row.value);
        let answered = self.press(filled, button, choice, &list.target).await?;
        self.take_answer(row, &answered);
        Ok(())
    }

    /// Keeps the list that answers the form of a message, unless the user has the list of another folder open: that of
    /// a draft answers with the folder of drafts.
    fn take_answer(&mut self, row: &ListRow, answered: &LoadedPage) {
        if self.memory.list.is_of_folder(row) {
            self.take_list_if_any(answered);
        }
    }

    /// Sends a form of the page `target` with a button, and returns the page that answers.
    async fn press(
        &mut self,
        mut filled: FilledForm<'_>,
        button: &str,
        choice: Option<(&str, &str)>,
        target: &str,
    ) -> Result<LoadedPage, CallError> {
        if let Some((field, value)) = choice {
            filled.set(field, value)?;
        }
        filled.press(button)?;
        self.session.submit(self.count, filled, target).await
    }

    /// Creates a folder, and returns the field and the value by which the page `list` chooses it.
    async fn create_folder(&mut self, name: &str, list: &str) -> Result<(String, String), CallError> {
        let folders = self.session.navigation().folders.clone();
        let LoadedPage { page, target } = self.session.visit(self.count, &folders).await?;
        let missing = || malformed(format!("{}: no form for new folders", without_query(&target)));
        let form: &Form = page.form_with_button(CREATE).ok_or_else(missing)?;
        let mut filled = form.fill();
        filled.set("name", name)?;
        filled.press(CREATE)?;
        self.session.submit(self.count, filled, &target).await?;
        let list = self.session.visit(self.count, list).await?;
        let choice = list.page.forms.iter().find_map(|form| form.choice(name));
        let choice = choice.map(|(field, value)| (field.to_owned(), value.to_owned()));
        choice.ok_or_else(|| CallError::kept("not-found", format!("there is no folder {name}")))
    }

    /// Writes subject, text and attachment.
    fn write(&self, filled: &mut FilledForm<'_>, content: Content) -> Result<(), CallError> {
        filled.set("subject", &content.subject)?;
        filled.set("body", &content.body)?;
        match content.attachment {
            Some(file) => filled.attach(FormFile { name: file.name, media_type: file.media_type, content: file.bytes }),
            None => Ok(()),
        }
    }

    fn content(&self, size: &Size) -> Content {
        self.action.content(Purpose::TypedText, size, self.settings.size_scale, None)
    }

    fn addresses(&self, users: &[u64]) -> String {
        let addresses: Vec<String> = users.iter().map(|user| self.settings.names.address(*user)).collect();
        addresses.join(", ")
    }

    /// Keeps the list of a page that answers a form, if it has one.
    fn take_list_if_any(&mut self, answered: &LoadedPage) {
        if answered.page.form_with_button(MOVE).is_some() {
            self.take_list(answered);
        }
    }
}

fn no_composer(target: &str) -> CallError {
    malformed(format!("{}: no composer", without_query(target)))
}
