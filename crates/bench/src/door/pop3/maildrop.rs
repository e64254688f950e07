//! The session of a user, the list of its messages, reading and deleting.

use super::connection::{Pop3Connection, REFUSED_CODE};
use super::memory::{Listing, ReadMessage, UniqueId};
use super::{DONE, StepContext, StepOutcome, StepResult};
use crate::door::call::{CONNECTION_CODE, CallCount, CallError};
use crate::door::message_head::MessageHead;
use crate::workload::action::{Document, Position};

/// Maximum number of bytes of a message that are kept: its header.
const HEAD_BYTES_MAX: usize = 16 << 10;

impl StepContext<'_> {
    /// Asks for new mail. A session shows only what was there at its login, so one in which the user has asked already
    /// ends, and another one begins.
    pub(super) async fn look_for_mail(&mut self) -> StepResult {
        if self.memory.has_looked && !self.is_closed().await {
            self.end_session().await?;
        }
        self.ensure_session().await?;
        let (connection, count) = self.open()?;
        connection.call(count, "STAT").await?;
        self.memory.has_looked = true;
        Ok(DONE)
    }

    /// Lists the messages by their ids. The first screen comes next.
    pub(super) async fn open_view(&mut self) -> StepResult {
        self.ensure_session().await?;
        self.list_messages().await?;
        self.memory.next = 0;
        Ok(DONE)
    }

    /// Lists the sizes of all messages: POP3 has no list of some of them. The screen is a part of those that are known.
    /// The first one has the newest messages; after the last one the first one follows.
    pub(super) async fn scroll_view(&mut self, rows: u64, at: Position) -> StepResult {
        self.ensure_session().await?;
        let messages = self.listing().await?.len();
        let (connection, count) = self.open()?;
        connection.list(count, "LIST", |_| {}).await?;
        let newer = match at {
            Position::First => 0,
            Position::Next if self.memory.next < messages => self.memory.next,
            Position::Next => 0,
            Position::Random => self.action.document_fraction().index_of(messages).unwrap_or(0),
        };
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let screen = self.listing().await?.newest(newer, rows);
        self.memory.next = newer + screen.len();
        self.memory.rows.set_screen(screen);
        Ok(DONE)
    }

    /// Reads a message with its attachments.
    pub(super) async fn read(&mut self, of: Document) -> StepResult {
        let Some(id) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let Some(number) = self.number_of(&id).await? else { return Ok(StepOutcome::Skipped) };
        let (connection, count) = self.open()?;
        let read = connection.retrieve(count, &format!("RETR {number}"), HEAD_BYTES_MAX).await;
        let Some(head) = unless_missing(read)? else {
            self.memory.forget(&id);
            return Ok(StepOutcome::Skipped);
        };
        self.memory.last = Some(ReadMessage { id, head: MessageHead::read(&head) });
        Ok(DONE)
    }

    /// Marks a message for removal, which the end of the session removes.
    pub(super) async fn delete(&mut self, of: Document) -> StepResult {
        let Some(id) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let Some(number) = self.number_of(&id).await? else { return Ok(StepOutcome::Skipped) };
        let (connection, count) = self.open()?;
        let marked = unless_missing(connection.call(count, &format!("DELE {number}")).await)?;
        self.memory.forget(&id);
        if marked.is_none() {
            return Ok(StepOutcome::Skipped);
        }
        self.memory.has_marked = true;
        Ok(DONE)
    }

    /// Ends the session, if there is one. The server removes what was deleted in it.
    pub(super) async fn end_session(&mut self) -> Result<(), CallError> {
        if self.is_closed().await {
            return self.drop_closed_connection();
        }
        let Some(connection) = self.connection.take() else { return Ok(()) };
        connection.quit(self.count).await
    }

    /// Returns the id of the message of the step.
    pub(super) async fn document(&mut self, of: Document) -> Result<Option<UniqueId>, CallError> {
        let repetition = self.action.repetition();
        if of == Document::Newest && repetition == 0 {
            self.ensure_session().await?;
            let count = usize::try_from(self.action.repetitions()).unwrap_or(usize::MAX);
            let newest = self.listing().await?.newest(0, count);
            self.memory.rows.set_newest(newest);
        }
        let last = self.memory.last.as_ref().map(|last| &last.id);
        Ok(self.memory.rows.pick(of, self.action.document_fraction(), repetition, last))
    }

    /// Returns the number that a message has in the session, or `None` if it is no longer there.
    async fn number_of(&mut self, id: &UniqueId) -> Result<Option<u32>, CallError> {
        self.ensure_session().await?;
        let number = self.listing().await?.number_of(id);
        if number.is_none() {
            self.memory.forget(id);
        }
        Ok(number)
    }

    /// Begins a session if there is none, or if the server has closed the connection. Nothing is known of its messages.
    async fn ensure_session(&mut self) -> Result<(), CallError> {
        if self.is_closed().await {
            self.drop_closed_connection()?;
            self.count.reopened += 1;
        }
        if self.connection.is_some() {
            return Ok(());
        }
        self.memory.begin_session();
        *self.connection = Some(self.settings.log_in(self.action.user(), self.count).await?);
        Ok(())
    }

    /// Returns `true` if the server has closed the connection of the session.
    async fn is_closed(&mut self) -> bool {
        match &mut self.connection {
            Some(connection) => connection.is_closed().await,
            None => false,
        }
    }

    /// Drops a connection that the server has closed. A session without QUIT removes no messages (RFC 1939, section 6),
    /// so it is lost if some were marked in it: the steps that marked them have been counted.
    fn drop_closed_connection(&mut self) -> Result<(), CallError> {
        *self.connection = None;
        if self.memory.has_marked {
            return Err(CallError::lost(CONNECTION_CODE, "the session ended before QUIT: no messages are removed"));
        }
        Ok(())
    }

    /// Returns the connection of the session that has begun.
    fn open(&mut self) -> Result<(&mut Pop3Connection, &mut CallCount), CallError> {
        let closed = || CallError::lost(CONNECTION_CODE, "there is no session");
        Ok((self.connection.as_mut().ok_or_else(closed)?, self.count))
    }

    /// Returns the messages of the session, which are listed if they are not known.
    async fn listing(&mut self) -> Result<&Listing, CallError> {
        if self.memory.listing.is_none() {
            self.list_messages().await?;
        }
        Ok(self.memory.listing.get_or_insert_default())
    }

    async fn list_messages(&mut self) -> Result<(), CallError> {
        let mut listing = Listing::default();
        let (connection, count) = self.open()?;
        connection.list(count, "UIDL", |line| listing.add_line(line)).await?;
        self.memory.listing = Some(listing);
        self.memory.has_looked = true;
        Ok(())
    }
}

/// Returns `None` for a command that the server has refused without a response code: the message does not exist. Other
/// reasons have one (RFC 2449, section 8).
fn unless_missing<T>(ended: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match ended {
        Err(error) if error.code == REFUSED_CODE => Ok(None),
        ended => ended.map(Some),
    }
}
