//! Lists, messages, attachments, and searches.

use super::form::{FieldKind, FormMethod};
use super::list::{ListPage, ListRow};
use super::memory::ShownMessage;
use super::page::Page;
use super::session::LoadedPage;
use super::{CallError, DONE, StepContext, StepOutcome, StepResult};
use crate::door::http::location::without_query;
use crate::door::http::malformed;
use crate::door::rows::FILES_MAX;
use crate::plan::stream::Draw;
use crate::population::text::search_words;
use crate::workload::action::{Action, Document, Position};

/// What the address of an attachment has.
const PART: &str = "/part/";
/// The name by which steps call the inbox.
const INBOX: &str = "INBOX";
/// The folder with drafts.
const DRAFTS: &str = "Drafts";

impl StepContext<'_> {
    /// Shows the page of folders.
    pub(super) async fn open_database(&mut self) -> StepResult {
        let folders = self.session.navigation().folders.clone();
        self.session.visit(self.count, &folders).await?;
        Ok(DONE)
    }

    /// Shows the first page of a folder. Folders other than the inbox are found on the page of folders.
    pub(super) async fn open_view(&mut self, name: Option<&str>) -> StepResult {
        let target = match name.filter(|name| !name.eq_ignore_ascii_case(INBOX)) {
            None => self.session.navigation().inbox.clone(),
            Some(name) => self.folder(name).await?,
        };
        self.show_list(&target).await?;
        self.memory.open = Some(target);
        Ok(DONE)
    }

    pub(super) fn close_view(&mut self) -> StepOutcome {
        self.memory.open = None;
        DONE
    }

    /// Shows another page of the list. After the last one the first one follows. A page anywhere is one of those to
    /// which the page leads.
    pub(super) async fn scroll_view(&mut self, at: Position) -> StepResult {
        let first = self.first_page();
        let target = match at {
            Position::First => None,
            Position::Next => self.memory.list.next.clone(),
            Position::Random => {
                let pages = &self.memory.list.pages;
                let page = self.action.document_fraction().index_of(pages.len());
                page.map(|page| pages[page].clone())
            }
        };
        self.show_list(&target.unwrap_or(first)).await?;
        Ok(DONE)
    }

    /// Shows the inbox.
    pub(super) async fn poll(&mut self) -> StepResult {
        let inbox = self.session.navigation().inbox.clone();
        self.show_list(&inbox).await?;
        Ok(DONE)
    }

    /// Shows a message, which marks it as read.
    pub(super) async fn read(&mut self, of: Document) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let message = self.show_message(row).await?;
        let attachments = u32::try_from(message.files.len()).unwrap_or(u32::MAX);
        self.memory.last = Some(message);
        Ok(StepOutcome::Performed { attachments })
    }

    /// Reads the attachment that the step has drawn, or the first one of a message.
    pub(super) async fn read_attachment(&mut self, keys: &Action) -> StepResult {
        let message = match (self.action.attachment(), keys) {
            (None, Action::Document { of }) if *of != Document::Last => {
                let Some(row) = self.document(*of).await? else { return Ok(StepOutcome::Skipped) };
                Some(self.show_message(row).await?)
            }
            _ => self.memory.last.clone(),
        };
        let number = self.action.attachment().unwrap_or(0) as usize;
        let Some(file) = message.and_then(|message| message.files.into_iter().nth(number)) else {
            return Ok(StepOutcome::Skipped);
        };
        self.session.download(self.count, &file).await?;
        Ok(DONE)
    }

    /// Sends the form of the page for searches. Words that were found are shown, and the search goes no further.
    pub(super) async fn search(&mut self, words: u64) -> StepResult {
        let mut numbers = self.action.stream(Draw::Words).into_numbers();
        let words = search_words(&mut numbers, words as usize);
        let search = self.session.navigation().search.clone();
        let LoadedPage { page, target } = self.session.visit(self.count, &search).await?;
        let mut forms = page.forms.iter().filter(|form| form.method == FormMethod::Get);
        let found = forms.find_map(|form| Some((form, form.field_of(FieldKind::Text)?)));
        let (form, field) =
            found.ok_or_else(|| malformed(format!("{}: no form for searches", without_query(&target))))?;
        let mut filled = form.fill();
        filled.set(&field.name, &words.join(" "))?;
        self.session.submit(self.count, filled, &target).await?;
        Ok(DONE)
    }

    /// Returns the message of the step. The newest ones are those on the first page of the open list, and the user's
    /// own ones are its drafts on the first page of their folder.
    pub(super) async fn document(&mut self, of: Document) -> Result<Option<ListRow>, CallError> {
        let repetition = self.action.repetition();
        if of == Document::Newest && repetition == 0 {
            let first = self.first_page();
            let rows = self.show_list(&first).await?;
            self.memory.rows.set_newest(rows);
        }
        if of == Document::Own {
            self.find_drafts().await?;
        }
        let last = self.memory.last.as_ref().map(|last| &last.row);
        Ok(self.memory.rows.pick(of, self.action.document_fraction(), repetition, last))
    }

    /// Shows the page of a message.
    pub(super) async fn show_message(&mut self, row: ListRow) -> Result<ShownMessage, CallError> {
        let LoadedPage { page, target } = self.session.visit(self.count, &row.link).await?;
        let reply = page.link("Reply").and_then(|href| self.session.resolve(&target, href));
        let mut files: Vec<String> = Vec::new();
        // Links in the text of a message have this relation.
        for link in page.links.iter().filter(|link| link.href.contains(PART) && !link.rel.contains("nofollow")) {
            let file = self.session.resolve(&target, &link.href).filter(|file| !file.contains('?'));
            files.extend(file.filter(|file| !files.contains(file) && files.len() < FILES_MAX));
        }
        let form = page.form_with_button("delete").cloned();
        Ok(ShownMessage { row, target, form, reply, files })
    }

    /// Keeps the list of a page, if it has one.
    pub(super) fn take_list(&mut self, loaded: &LoadedPage) -> Vec<ListRow> {
        let list = self.list_of(loaded);
        let rows = list.rows.clone();
        self.memory.show(list);
        rows
    }

    /// Returns the list of a page.
    pub(super) fn list_of(&self, loaded: &LoadedPage) -> ListPage {
        ListPage::read(&loaded.page, &loaded.target, self.session.authority())
    }

    /// Returns where a folder is, by the page of folders.
    pub(super) async fn folder(&mut self, name: &str) -> Result<String, CallError> {
        let folders = self.session.navigation().folders.clone();
        let LoadedPage { page, target } = self.session.visit(self.count, &folders).await?;
        let link = folder_link(&page, name).and_then(|href| self.session.resolve(&target, href));
        link.ok_or_else(|| CallError::kept("not-found", format!("there is no folder {name}")))
    }

    /// Reads the folder with drafts, and finds those that the user has saved, if there are any. The list that was shown
    /// last stays that of the user.
    async fn find_drafts(&mut self) -> Result<(), CallError> {
        if !self.memory.has_drafts() {
            return Ok(());
        }
        let folder = self.folder(DRAFTS).await?;
        let drafts = self.session.visit(self.count, &folder).await?;
        let mut rows = self.list_of(&drafts).rows;
        rows.retain(|row| self.memory.has_draft(row));
        self.memory.rows.set_own(rows);
        Ok(())
    }

    async fn show_list(&mut self, target: &str) -> Result<Vec<ListRow>, CallError> {
        let loaded = self.session.visit(self.count, target).await?;
        Ok(self.take_list(&loaded))
    }

    /// Returns the first page of the open list, or of the inbox.
    fn first_page(&self) -> String {
        self.memory.open.clone().unwrap_or_else(|| self.session.navigation().inbox.clone())
    }
}

/// Returns the link of a folder in the table of folders.
fn folder_link<'p>(page: &'p Page, name: &str) -> Option<&'p str> {
    let mut links = page.links.iter().filter(|link| link.row.is_some());
    links.find(|link| link.text.eq_ignore_ascii_case(name)).map(|link| &*link.href)
}
