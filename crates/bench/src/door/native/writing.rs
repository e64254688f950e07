//! Changing, adding, moving and deleting documents, and sending mail.

use client::v1;
use client::v1::value::Kind;

use super::database_filling::category_name;
use super::documents::{NewDocument, Place};
use super::items::{
    INBOX, MemoHeader, SENT, memo_items, note_key, response_items, summary_item, text_item, topic_items, view_named,
    view_numbered,
};
use super::local_replica::LocalReplica;
use super::memory::Row;
use super::session::CallError;
use super::{DONE, StepContext, StepOutcome, StepResult};
use crate::door::journal::{Change, Journal, OpenChange, Unid};
use crate::plan::steps::PlanAction;
use crate::plan::stream::Draw;
use crate::population::attachment::Attachment;
use crate::population::content::{Answered, Content, Purpose};
use crate::population::databases::CATEGORIES;
use crate::workload::action::{Action, Document, Recipients, Size};
use crate::workload::verb::Verb;

/// When the first appointment begins: 2026-01-05, 08:00 UTC, in microseconds since 1970.
const APPOINTMENTS_BEGIN_US: i64 = 1_767_600_000_000_000;
/// The number of half-hours within which appointments are.
const APPOINTMENT_SLOTS: u64 = 10_000;
const HALF_HOUR_US: i64 = 1_800_000_000;

impl StepContext<'_> {
    pub(super) async fn update(&mut self, of: Document) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let category = self.action.stream(Draw::Content).below(CATEGORIES);
        let request = v1::UpdateNoteRequest {
            database: self.database(),
            note: note_key(row.note_id),
            items: vec![text_item("Categories", &category_name(category))],
            ..v1::UpdateNoteRequest::default()
        };
        let mut stub = self.session.client().notes();
        self.session.call(self.count, stub.update_note(request)).await?;
        Ok(DONE)
    }

    pub(super) async fn delete(&mut self, of: Document) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let request = v1::DeleteNoteRequest {
            database: self.database(),
            note: note_key(row.note_id),
            ..v1::DeleteNoteRequest::default()
        };
        let change = self.begin(Change::Delete { unid: Unid(row.unid) });
        let mut stub = self.session.client().notes();
        self.session.call(self.count, stub.delete_note(request)).await?;
        change.acknowledge(None);
        self.memory.forget(row);
        Ok(DONE)
    }

    /// Moves a document from the open view, or from the inbox, to a folder.
    pub(super) async fn move_document(&mut self, of: Document, to: &str) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let open = self.memory.view.as_ref().and_then(|view| view_numbered(view.view_id));
        let request = v1::MoveNotesRequest {
            database: self.database(),
            notes: note_key(row.note_id).into_iter().collect(),
            into: view_named(to),
            out_of: if self.workplace.is_mail_file() { open.or_else(|| view_named(INBOX)) } else { None },
        };
        let change = self.begin(Change::Move { unid: Unid(row.unid), to });
        let mut stub = self.session.client().views();
        self.session.call(self.count, stub.move_notes(request)).await?;
        change.acknowledge(None);
        self.memory.forget(row);
        Ok(DONE)
    }

    pub(super) async fn add(&mut self) -> StepResult {
        self.add_document(None).await
    }

    pub(super) async fn respond(&mut self, of: Document) -> StepResult {
        let Some(parent) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        self.add_document(Some(parent)).await
    }

    /// Answers a message. If it does not come from a user of the run, the answer goes to a user who is drawn.
    pub(super) async fn reply(&mut self, of: Document, size: &Size, copy: bool) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let answered = self.memory.last.as_ref().filter(|last| last.row == row);
        let from = answered.and_then(|last| last.from.as_deref());
        let to = self.action.recipients_of_answer(&self.settings.names, from);
        let answered = answered.and_then(|last| Answered::with_line(&last.subject));
        let content = self.action.content(Purpose::Message, size, self.settings.size_scale, answered);
        self.send_content(content, &to, copy).await
    }

    pub(super) async fn send(&mut self, recipients: Recipients, size: &Size, copy: bool) -> StepResult {
        let to = self.action.recipients_of(recipients);
        let content = self.action.content(Purpose::Message, size, self.settings.size_scale, None);
        self.send_content(content, &to, copy).await
    }

    pub(super) async fn appointment(&mut self) -> StepResult {
        let document = NewDocument {
            place: Place::MailFile,
            items: self.appointment_items(self.action),
            ..NewDocument::default()
        };
        let change = self.begin(Change::Appointment);
        let row = self.session.create_document(self.count, document).await?;
        change.acknowledge(Some(Unid(row.unid)));
        Ok(DONE)
    }

    /// Returns items and attachment of the document that a step adds.
    pub(super) fn added_items(&self, action: &PlanAction) -> (Vec<v1::Item>, Option<Attachment>) {
        let size = match action.keys() {
            Action::Add { size } | Action::Answer { size, .. } | Action::Send { size, .. } => size,
            _ => return (self.appointment_items(action), None),
        };
        let content = action.content(Purpose::Document, size, self.settings.size_scale, None);
        let items = match (self.workplace.is_mail_file(), action.verb()) {
            (true, _) => {
                let header = MemoHeader { from: self.address(), to: vec![self.address()], ..MemoHeader::default() };
                memo_items(&header, &content)
            }
            (false, Verb::Respond) => response_items(&content),
            (false, _) => topic_items(&content),
        };
        (items, content.attachment)
    }

    fn appointment_items(&self, action: &PlanAction) -> Vec<v1::Item> {
        let mut stream = action.stream(Draw::Content);
        let begin_us = APPOINTMENTS_BEGIN_US + stream.below(APPOINTMENT_SLOTS) as i64 * HALF_HOUR_US;
        let time = |name: &str, time_us| summary_item(name, Kind::TimeUs(time_us));
        vec![
            text_item("Form", "Appointment"),
            text_item("AppointmentType", "0"),
            text_item("Subject", "An appointment of the load generator"),
            text_item("From", &self.address()),
            time("StartDateTime", begin_us),
            time("CalendarDateTime", begin_us),
            time("EndDateTime", begin_us + HALF_HOUR_US),
        ]
    }

    async fn add_document(&mut self, parent: Option<Row>) -> StepResult {
        let folder = if self.workplace.is_mail_file() { Some(self.inbox().await?) } else { None };
        let (items, attachment) = self.added_items(self.action);
        let document = NewDocument { place: Place::Workplace, items, folder, parent, attachment };
        let row = self.session.create_document(self.count, document).await?;
        self.memory.rows.add_own(row);
        Ok(DONE)
    }

    /// Writes to the journal what the user is about to ask for.
    fn begin(&self, change: Change<'_>) -> OpenChange {
        Journal::begin(self.settings.journal.as_ref(), self.action.user(), change)
    }

    async fn inbox(&mut self) -> Result<u32, CallError> {
        let inbox = match self.memory.inbox {
            Some(inbox) => inbox,
            None => self.session.folder_id(self.count, INBOX).await?,
        };
        self.memory.inbox = Some(inbox);
        Ok(inbox)
    }

    async fn send_content(&mut self, content: Content, to: &[u64], copy: bool) -> StepResult {
        let recipients: Vec<String> = to.iter().map(|user| self.settings.names.address(*user)).collect();
        if copy && self.replica.as_ref().is_some_and(LocalReplica::is_full) {
            return Ok(StepOutcome::Skipped);
        }
        let message = content.message(&self.address(), &recipients);
        let change = self.begin(Change::Message { reference: &content.reference, to });
        self.session.deposit(self.count, message, recipients.clone()).await?;
        change.acknowledge(None);
        if copy && self.replica.is_some() {
            return Ok(self.add_locally(Some(SENT.to_owned()), None));
        } else if copy {
            let sent = match self.memory.sent {
                Some(sent) => sent,
                None => self.session.folder_id(self.count, SENT).await?,
            };
            self.memory.sent = Some(sent);
            let header = MemoHeader { from: self.address(), to: recipients, ..MemoHeader::default() };
            let items = memo_items(&header, &content);
            let change = self.begin(Change::Copy { reference: &content.reference });
            let attachment = content.attachment;
            let document = NewDocument { place: Place::MailFile, items, folder: Some(sent), parent: None, attachment };
            let row = self.session.create_document(self.count, document).await?;
            change.acknowledge(Some(Unid(row.unid)));
        }
        Ok(DONE)
    }
}
