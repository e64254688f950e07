//! Mailboxes, lists, polls, names and searches.

use serde_json::{Value, json};

use super::account::{find_mailbox, read_id, read_mailboxes};
use super::memory::{EmailId, OpenMailbox};
use super::methods::{Method, reference};
use super::{CallError, DONE, StepContext, StepOutcome, StepResult};
use crate::door::rows::ROWS_MAX;
use crate::plan::stream::Draw;
use crate::population::text::search_words;
use crate::workload::action::Position;

/// The mailbox that is opened unless the step names another one.
pub(super) const INBOX: &str = "INBOX";
/// What a list shows.
const LIST_PROPERTIES: [&str; 9] =
    ["id", "threadId", "mailboxIds", "keywords", "from", "subject", "receivedAt", "size", "hasAttachment"];
/// Maximum number of calls of a poll that brings many changes.
const POLL_CALLS_MAX: u32 = 20;
/// The changes that a poll brings with one call.
const POLL_CHANGES: usize = 500;

impl StepContext<'_> {
    pub(super) async fn open_database(&mut self) -> StepResult {
        self.read_mailboxes().await?;
        Ok(DONE)
    }

    pub(super) async fn open_view(&mut self, name: Option<&str>) -> StepResult {
        let id = self.mailbox_id(name.unwrap_or(INBOX)).await?;
        let limit = self.rows_max(self.action.workload().native.rows);
        let query = self.session.method("Email/query", list_query(&id, 0, limit));
        let result = self.session.call_one(self.count, query).await?;
        self.memory.open = Some(OpenMailbox { id, total: total_of(&result), next: 0 });
        Ok(DONE)
    }

    pub(super) fn close_view(&mut self) -> StepOutcome {
        self.memory.open = None;
        DONE
    }

    /// Reads a screen, which begins with the newest message. After the last screen the first one follows.
    pub(super) async fn scroll_view(&mut self, rows: u64, at: Position) -> StepResult {
        let mut open = self.open_mailbox().await?;
        let limit = self.rows_max(rows);
        let position = match at {
            Position::First => 0,
            Position::Next => open.next,
            Position::Random => self.action.document_fraction().index_of(open.total).unwrap_or(0),
        };
        let results = self.list(&open.id, position, limit).await?;
        let ids = ids_of(&results[0]);
        open.total = total_of(&results[0]);
        let end = position + ids.len();
        open.next = if end < open.total && !ids.is_empty() { end } else { 0 };
        self.memory.open = Some(open);
        self.memory.rows.set_screen(ids);
        Ok(DONE)
    }

    /// Reads the newest messages of the open mailbox, or of the inbox.
    pub(super) async fn read_newest(&mut self, count: u64) -> Result<(), CallError> {
        let open = self.open_mailbox().await?;
        let limit = self.rows_max(count);
        let results = self.list(&open.id, 0, limit).await?;
        self.memory.rows.set_newest(ids_of(&results[0]));
        Ok(())
    }

    /// Asks for what has changed since the last poll. The first poll asks for the state alone.
    pub(super) async fn poll(&mut self) -> StepResult {
        for _ in 0..POLL_CALLS_MAX {
            let Some(since) = self.memory.state.clone() else {
                let get = self.session.method("Email/get", json!({ "ids": [], "properties": ["id"] }));
                let result = self.session.call_one(self.count, get).await?;
                self.memory.state = state_of(&result, "state");
                return Ok(DONE);
            };
            let changes = json!({ "sinceState": since, "maxChanges": POLL_CHANGES });
            let changes = self.session.method("Email/changes", changes);
            match self.session.call_one(self.count, changes).await {
                Ok(result) => {
                    self.memory.state = state_of(&result, "newState");
                    if result.get("hasMoreChanges") != Some(&Value::Bool(true)) {
                        break;
                    }
                }
                Err(error) if error.code == "cannotCalculateChanges" => self.memory.state = None,
                Err(error) => return Err(error),
            }
        }
        Ok(DONE)
    }

    /// Opens the event source. An earlier one that the server has not ended goes on.
    pub(super) async fn wait(&mut self) -> StepResult {
        if self.memory.events.as_mut().is_some_and(|events| !events.is_ended()) {
            return Ok(DONE);
        }
        self.memory.events = None;
        self.memory.events = Some(self.session.open_events(self.count).await?);
        Ok(DONE)
    }

    pub(super) async fn list_unread(&mut self) -> StepResult {
        let inbox = self.mailbox_id(INBOX).await?;
        let limit = self.rows_max(ROWS_MAX as u64);
        let mut query = list_query(&inbox, 0, limit);
        query["filter"]["notKeyword"] = json!("$seen");
        let query = self.session.method("Email/query", query);
        self.session.call_one(self.count, query).await?;
        Ok(DONE)
    }

    /// Searches for people, each with a query and a get of one request, or of several if the server limits their calls.
    pub(super) async fn lookup(&mut self, names: u64) -> StepResult {
        let Some(account) = self.session.account().principals.clone() else {
            return Err(CallError::kept("unsupported", "the server has no principals"));
        };
        let people_max = (self.session.account().calls_max / 2).max(1);
        let people = self.action.names(names);
        for part in people.chunks(people_max) {
            let mut calls = Vec::new();
            for person in part {
                let filter = json!({ "email": self.settings.names.address(*person) });
                let query = json!({ "filter": filter, "limit": 10 });
                calls.push(Method::new("Principal/query", &account, query));
                let ids = reference(calls.len() - 1, "Principal/query", "/ids");
                calls.push(Method::new("Principal/get", &account, json!({ "#ids": ids })));
            }
            self.session.call(self.count, &calls).await?;
        }
        Ok(DONE)
    }

    /// Searches for words, all of which must occur, and shows the newest messages that were found.
    pub(super) async fn search(&mut self, words: u64) -> StepResult {
        let mut numbers = self.action.stream(Draw::Words).into_numbers();
        let words = search_words(&mut numbers, words as usize);
        let conditions: Vec<Value> = words.into_iter().map(|word| json!({ "text": word })).collect();
        let limit = self.rows_max(self.action.workload().native.rows);
        let filter = json!({ "operator": "AND", "conditions": conditions });
        let query = json!({ "filter": filter, "sort": newest_first(), "limit": limit });
        self.query_and_get(query).await?;
        Ok(DONE)
    }

    /// Returns the identifier of a mailbox. Mailboxes that are not known are read.
    pub(super) async fn mailbox_id(&mut self, name: &str) -> Result<String, CallError> {
        let not_found = || CallError::kept("not-found", format!("there is no mailbox {name}"));
        self.find_mailbox_id(name).await?.ok_or_else(not_found)
    }

    /// Returns the identifier of a mailbox, or `None` if there is none with this name.
    pub(super) async fn find_mailbox_id(&mut self, name: &str) -> Result<Option<String>, CallError> {
        if self.memory.mailboxes.is_empty() {
            self.read_mailboxes().await?;
        }
        Ok(find_mailbox(&self.memory.mailboxes, name).map(|mailbox| mailbox.id.clone()))
    }

    async fn read_mailboxes(&mut self) -> Result<(), CallError> {
        let get = self.session.method("Mailbox/get", json!({ "ids": null }));
        let result = self.session.call_one(self.count, get).await?;
        self.memory.mailboxes = read_mailboxes(&result);
        Ok(())
    }

    /// Returns the open mailbox. Without one, the inbox is opened.
    async fn open_mailbox(&mut self) -> Result<OpenMailbox, CallError> {
        if self.memory.open.is_none() {
            self.open_view(None).await?;
        }
        self.memory.open.clone().ok_or_else(|| CallError::kept("not-found", "no mailbox is open"))
    }

    async fn list(&mut self, mailbox: &str, position: usize, limit: usize) -> Result<Vec<Value>, CallError> {
        self.query_and_get(list_query(mailbox, position, limit)).await
    }

    /// Queries messages and reads what a list shows of them, with one request.
    async fn query_and_get(&mut self, query: Value) -> Result<Vec<Value>, CallError> {
        let get = json!({ "#ids": reference(0, "Email/query", "/ids"), "properties": LIST_PROPERTIES });
        let calls = [self.session.method("Email/query", query), self.session.method("Email/get", get)];
        self.session.call(self.count, &calls).await
    }

    /// Returns how many rows are asked for.
    fn rows_max(&self, rows: u64) -> usize {
        usize::try_from(rows).unwrap_or(ROWS_MAX).min(ROWS_MAX).min(self.session.account().get_objects_max)
    }
}

/// Returns the arguments of a query for a screen.
fn list_query(mailbox: &str, position: usize, limit: usize) -> Value {
    json!({
        "filter": { "inMailbox": mailbox },
        "sort": newest_first(),
        "position": position,
        "limit": limit,
        "calculateTotal": true,
    })
}

fn newest_first() -> Value {
    json!([{ "property": "receivedAt", "isAscending": false }])
}

fn ids_of(result: &Value) -> Vec<EmailId> {
    let ids = result.get("ids").and_then(Value::as_array);
    ids.into_iter().flatten().filter_map(read_id).take(ROWS_MAX).collect()
}

fn total_of(result: &Value) -> usize {
    let total = result.get("total").and_then(Value::as_u64).unwrap_or(0);
    usize::try_from(total).unwrap_or(usize::MAX)
}

fn state_of(result: &Value, name: &str) -> Option<String> {
    read_id(result.get(name)?)
}
