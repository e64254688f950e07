//! Databases, views, polls, names and searches.

use std::time::Duration;

use client::v1;
use tokio::time::sleep;

use super::items::{INBOX, row_of, view_named, view_numbered};
use super::memory::{OpenView, Row};
use super::session::CallError;
use super::{DONE, NOT_FOUND, StepContext, StepOutcome, StepResult};
use crate::door::rows::ROWS_MAX;
use crate::plan::stream::Draw;
use crate::population::text::search_words;
use crate::workload::action::Position;

/// The items that a list of messages shows.
const LIST_ITEMS: [&str; 3] = ["From", "Subject", "PostedDate"];
/// The number of movements that leads to the last row.
const TO_THE_END: u32 = u32::MAX;
/// The code of a design that another user has changed since it was read.
const CONFLICT: &str = "conflict";
/// Maximum number of attempts to change a view that others change at the same time.
const CHANGES_MAX: u32 = 10;
/// Maximum number of attempts to open a view whose index does not exist yet, and the time between two.
const OPENINGS_MAX: u32 = 600;
const OPENING_INTERVAL: Duration = Duration::from_millis(50);

impl StepContext<'_> {
    pub(super) async fn open_database(&mut self) -> StepResult {
        let request = v1::OpenDatabaseRequest { database: self.database() };
        let mut stub = self.session.client().databases();
        self.session.call(self.count, stub.open_database(request)).await?;
        Ok(DONE)
    }

    /// Opens a view: the inbox, or that of the database, unless another one is named.
    pub(super) async fn open_view(&mut self, name: Option<&str>) -> StepResult {
        let name = name.unwrap_or(self.workplace.view());
        let collection = self.session.open_collection(self.count, view_named(name)).await?;
        let view = collection.view.unwrap_or_default();
        if name == INBOX {
            self.memory.inbox = Some(view.view_id);
        }
        self.memory.view = Some(OpenView {
            view_id: view.view_id,
            entries: collection.entries,
            is_oldest_first: view.folder && view.columns.is_empty(),
            next: None,
        });
        Ok(DONE)
    }

    /// Changes the selection of a view to an equivalent one, so that its index is built from all documents, and opens
    /// it until the index is complete. If another user has changed the view meanwhile, it is read again.
    pub(super) async fn rebuild_view(&mut self, name: Option<&str>) -> StepResult {
        let view = view_named(name.unwrap_or(self.workplace.view()));
        let mut attempts = 1;
        while let Err(error) = self.change_selection(view.clone()).await {
            if error.code != CONFLICT || attempts == CHANGES_MAX {
                return Err(error);
            }
            attempts += 1;
        }
        let mut attempts = 1;
        while let Err(error) = self.session.open_collection(self.count, view.clone()).await {
            // Between a change and the new index there is none.
            if error.code != NOT_FOUND || attempts == OPENINGS_MAX {
                return Err(error);
            }
            attempts += 1;
            sleep(OPENING_INTERVAL).await;
        }
        Ok(DONE)
    }

    async fn change_selection(&mut self, view: Option<v1::ViewKey>) -> Result<(), CallError> {
        let request = v1::GetViewDesignRequest { database: self.database(), view: view.clone() };
        let mut stub = self.session.client().views();
        let read = self.session.call(self.count, stub.get_view_design(request)).await?;
        let mut design = read.design.unwrap_or_default();
        design.selection = equivalent_selection(&design.selection);
        let request = v1::UpdateViewRequest {
            database: self.database(),
            view,
            design: Some(design),
            expected_sequence: read.sequence,
            expected_revision_id: read.revision_id,
        };
        let mut stub = self.session.client().views();
        self.session.call(self.count, stub.update_view(request)).await?;
        Ok(())
    }

    pub(super) fn close_view(&mut self) -> StepOutcome {
        self.memory.view = None;
        DONE
    }

    /// Reads a screen. The first one of a folder of mail has the newest messages; after the last one the first one
    /// follows.
    pub(super) async fn scroll_view(&mut self, rows: u64, at: Position) -> StepResult {
        if self.memory.view.is_none() {
            self.open_view(None).await?;
        }
        let Some(mut view) = self.memory.view.clone() else { return Ok(StepOutcome::Skipped) };
        let count = u32::try_from(rows).unwrap_or(u32::MAX).min(ROWS_MAX as u32);
        let mut request = self.entries_request(view.view_id, count);
        match (at, view.next.take()) {
            (Position::Random, _) => {
                let row = self.action.document_fraction().index_of(usize::try_from(view.entries).unwrap_or(usize::MAX));
                request.start_row = row.map_or(0, |row| row as u64 + 1);
            }
            (Position::Next, Some(next)) => {
                request.start_key = next;
                request.set_navigator(forward(&view));
            }
            (Position::Next | Position::First, _) => begin_at_first(&mut request, &view),
        }
        let reply = self.read_entries(request).await?;
        view.next = reply.more.then_some(reply.next);
        self.memory.rows.set_screen(rows_of(&reply.entries));
        self.memory.view = Some(view);
        Ok(DONE)
    }

    /// Reads the newest documents of the open view, or of the one that is opened by default.
    pub(super) async fn read_newest(&mut self, count: u64) -> Result<(), CallError> {
        if self.memory.view.is_none() {
            self.open_view(None).await?;
        }
        let Some(view) = self.memory.view.clone() else { return Ok(()) };
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(ROWS_MAX as u32);
        let mut request = self.entries_request(view.view_id, count);
        begin_at_first(&mut request, &view);
        let reply = self.read_entries(request).await?;
        self.memory.rows.set_newest(rows_of(&reply.entries));
        Ok(())
    }

    pub(super) async fn poll(&mut self) -> StepResult {
        let request = v1::PollNewMailRequest { state: self.memory.poll_state.clone(), wait_ms: 0 };
        let mut stub = self.session.client().changes();
        let reply = self.session.call(self.count, stub.poll_new_mail(request)).await?;
        self.memory.poll_state = reply.state;
        Ok(DONE)
    }

    pub(super) async fn list_unread(&mut self) -> StepResult {
        let request = v1::ListUnreadRequest { database: self.database(), limit: 0, after: 0 };
        let mut stub = self.session.client().notes();
        self.session.call(self.count, stub.list_unread(request)).await?;
        Ok(DONE)
    }

    pub(super) async fn lookup(&mut self, names: u64) -> StepResult {
        let names = self.action.names(names).into_iter().map(|person| self.settings.names.address(person));
        let request = v1::LookupNamesRequest { names: names.collect() };
        let mut stub = self.session.client().directory();
        self.session.call(self.count, stub.lookup_names(request)).await?;
        Ok(DONE)
    }

    pub(super) async fn search(&mut self, words: u64) -> StepResult {
        let mut numbers = self.action.stream(Draw::Words).into_numbers();
        let words = search_words(&mut numbers, words as usize);
        let request = v1::SearchFullTextRequest {
            database: self.database(),
            query: words.join(" AND "),
            ..v1::SearchFullTextRequest::default()
        };
        let mut stub = self.session.client().search();
        self.session.call(self.count, stub.search_full_text(request)).await?;
        Ok(DONE)
    }

    fn entries_request(&self, view_id: u32, count: u32) -> v1::ReadEntriesRequest {
        let mask = v1::ReadMask { unid: true, unread: true, position: true, values: true, ..v1::ReadMask::default() };
        v1::ReadEntriesRequest {
            database: self.database(),
            view: view_numbered(view_id),
            navigator: v1::Navigator::Next.into(),
            count,
            mask: Some(v1::ReadMask { marks: true, ..mask }),
            items: LIST_ITEMS.iter().map(|name| (*name).to_owned()).collect(),
            ..v1::ReadEntriesRequest::default()
        }
    }

    async fn read_entries(&mut self, request: v1::ReadEntriesRequest) -> Result<v1::ReadEntriesReply, CallError> {
        let mut stub = self.session.client().views();
        self.session.call(self.count, stub.read_entries(request)).await
    }
}

/// Returns a formula that selects the same documents and is another text: with a space at its end, or without it.
fn equivalent_selection(formula: &str) -> String {
    match formula.strip_suffix(' ') {
        Some(formula) => formula.to_owned(),
        None => format!("{formula} "),
    }
}

/// Returns the movement to the next row, as the user sees the view.
fn forward(view: &OpenView) -> v1::Navigator {
    if view.is_oldest_first { v1::Navigator::Prev } else { v1::Navigator::Next }
}

fn begin_at_first(request: &mut v1::ReadEntriesRequest, view: &OpenView) {
    request.set_navigator(forward(view));
    if view.is_oldest_first {
        request.set_skip_navigator(v1::Navigator::Next);
        request.skip_count = TO_THE_END;
    }
}

fn rows_of(entries: &[v1::Entry]) -> Vec<Row> {
    entries.iter().filter_map(|entry| row_of(entry.note_id, &entry.unid)).take(ROWS_MAX).collect()
}
