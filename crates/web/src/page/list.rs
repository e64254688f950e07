//! The messages or the conversations of a folder, by pages.
//!
//! The order of the folder is that in which its messages arrived; a page of it costs the page and not the folder.
//! Conversations and other orders come from the table of the mail file ([`crate::folder_order`]). Orders that read the
//! headers of all messages are offered for folders of at most [`SORTED_MESSAGES_MAX`] messages.

use std::ops::ControlFlow;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use base::{Uid, ViewId};
use mail::mailbox::{Folder, FolderStatus, MailFile, MailSnapshot, SpecialUse};
use mail::message_table::{MessageTables, SortProperty};
use mail::mime::MimeSource as _;
use notes::{FolderEntry, Marks};
use store::Ticket;

use crate::answer;
use crate::error::{Error, Result};
use crate::folder_order::{self, FolderOrder, FolderPage, FolderRow};
use crate::layout::{Frame, Layout};
use crate::limits::SORTED_MESSAGES_MAX;
use crate::mail_folders::{self, FolderChoice};
use crate::message_content;
use crate::page::order_query::{Column, OrderQuery};
use crate::personal_settings::PersonalSettings;
use crate::shown_text;
use crate::shown_time::ShownZone;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "list.html")]
struct ListPage {
    layout: Layout,
    folder: u32,
    /// The name of the folder.
    name: String,
    /// The rows of the page, and the number of all.
    range: String,
    rows: Vec<MessageRow>,
    folders: Vec<FolderChoice>,
    position: Position,
    order: Order,
    kind: FolderKind,
    /// Number of messages.
    messages: String,
    unread: String,
    /// The UID up to which "all messages" means.
    until: u32,
}

/// A message of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageRow {
    pub(crate) uid: u32,
    pub(crate) link: String,
    pub(crate) who: String,
    pub(crate) subject: String,
    pub(crate) date: String,
    pub(crate) size: String,
    pub(crate) marks: &'static [&'static str],
    pub(crate) is_unread: bool,
    pub(crate) has_attachment: bool,
    /// Number of messages of the conversation in the folder. 1 in a list of messages.
    pub(crate) messages: u32,
}

/// The kind of a folder, as far as its page differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderKind {
    /// Any folder.
    Plain,
    /// Messages to others.
    Outgoing,
    /// Messages that are not sent yet.
    Drafts,
    /// Deleted messages.
    Trash,
}

impl FolderKind {
    pub(crate) fn of(folder: &Folder) -> Self {
        match folder.special_use {
            Some(SpecialUse::Drafts) => Self::Drafts,
            Some(SpecialUse::Sent) => Self::Outgoing,
            Some(SpecialUse::Trash) => Self::Trash,
            _ => Self::Plain,
        }
    }
}

/// The position of a page in its list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    page: u32,
    pages: u32,
    total: u32,
    first: u32,
    last: u32,
}

impl Position {
    /// Returns the position of a page. A page that does not exist any more is the last one.
    fn new(page: u32, total: u32, page_size: u32) -> Self {
        let pages = total.div_ceil(page_size).max(1);
        let page = page.clamp(1, pages);
        let before = (page - 1) * page_size;
        let last = total.min(before + page_size);
        Self { page, pages, total, first: (before + 1).min(last), last }
    }

    fn text(&self, has_threads: bool) -> String {
        let [first, last, total] = [self.first, self.last, self.total].map(|count| shown_text::number(count.into()));
        match (self.total, has_threads) {
            (0, _) => "no messages".to_owned(),
            (_, false) => format!("{first}–{last} of {total}"),
            (1, true) => "1 conversation".to_owned(),
            (_, true) => format!("{first}–{last} of {total} conversations"),
        }
    }

    /// Returns the index of the first row, and the number of rows.
    fn part(&self) -> (u32, u32) {
        if self.total == 0 { (0, 0) } else { (self.first - 1, self.last + 1 - self.first) }
    }
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    column: Column,
    /// `true` for the smallest first, which is the oldest for dates.
    is_ascending: bool,
    /// `true` if the folder is small enough for other orders.
    is_offered: bool,
    /// `true` if each row is a conversation.
    has_threads: bool,
    /// `true` if the person wants conversations in lists.
    prefers_threads: bool,
}

impl Order {
    fn new(query: OrderQuery, total: u32, settings: &PersonalSettings) -> Self {
        let is_offered = total <= SORTED_MESSAGES_MAX;
        let column = query.sort.filter(|_| is_offered).unwrap_or(Column::Date);
        let is_ascending = query.is_ascending.unwrap_or_else(|| column.is_ascending());
        let prefers_threads = settings.has_threads();
        let has_threads = query.has_threads.unwrap_or(prefers_threads);
        Self { column, is_ascending, is_offered, has_threads, prefers_threads }
    }

    /// Returns the query of an order with the rows of this one.
    fn query_of(&self, column: Column, is_ascending: bool) -> OrderQuery {
        let has_threads = Some(self.has_threads).filter(|has_threads| *has_threads != self.prefers_threads);
        OrderQuery { sort: Some(column), is_ascending: Some(is_ascending), has_threads }
    }

    /// Returns the query of this order.
    fn query(&self) -> OrderQuery {
        self.query_of(self.column, self.is_ascending)
    }

    /// Returns the fields of this order in a form, which has all of them.
    fn fields(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        OrderQuery { has_threads: Some(self.has_threads), ..self.query() }.fields()
    }

    /// Returns the query of a column's link. The link of the present order turns it around.
    fn link(&self, column: Column) -> OrderQuery {
        let is_present = self.column == column;
        self.query_of(column, if is_present { !self.is_ascending } else { column.is_ascending() })
    }

    /// Returns the query of the link that switches between conversations and messages.
    fn switch(&self) -> OrderQuery {
        Self { has_threads: !self.has_threads, ..*self }.query()
    }

    /// Returns the value of `aria-sort` of a column.
    fn aria(&self, column: Column) -> &'static str {
        match (self.column == column, self.is_ascending) {
            (false, _) => "none",
            (true, true) => "ascending",
            (true, false) => "descending",
        }
    }

    /// Returns `true` if the list is that of the folder itself.
    fn is_of_folder(&self) -> bool {
        self.column == Column::Date && !self.has_threads
    }

    fn in_folder(&self, folder: ViewId, kind: FolderKind) -> FolderOrder {
        let property = match (self.column, kind) {
            (Column::Date, _) => SortProperty::Received,
            (Column::Who, FolderKind::Outgoing | FolderKind::Drafts) => SortProperty::To,
            (Column::Who, _) => SortProperty::From,
            (Column::Subject, _) => SortProperty::Subject,
            (Column::Size, _) => SortProperty::Size,
        };
        FolderOrder { folder, property, is_ascending: self.is_ascending, has_threads: self.has_threads }
    }
}

/// Sends the browser to the inbox.
pub(crate) async fn inbox(visit: Visit) -> Result<Response> {
    Ok(answer::redirect(&visit.run("inbox", inbox_address).await?))
}

/// Returns the address of the inbox.
pub(crate) fn inbox_address(file: &MailFile) -> Result<(String, Ticket)> {
    let snapshot = file.snapshot()?;
    let inbox = snapshot.folder("INBOX")?.ok_or(Error::NotFound("the inbox"))?;
    Ok((format!("/lite/folder/{}", inbox.id.0), snapshot.ticket()))
}

/// Shows a page of a list.
pub(crate) async fn show(visit: Visit, folder: u32) -> Result<Response> {
    let frame = visit.frame();
    let query = OrderQuery::read(&visit.query);
    let page = visit.query.number("page").unwrap_or(1);
    let tables = std::sync::Arc::clone(&visit.service.services.tables);
    let list = visit.run_with_settings("list", move |file, settings| {
        let total = {
            let snapshot = file.snapshot()?;
            snapshot.status(mail_folders::folder(&snapshot, folder)?.id)?.messages
        };
        let wanted = Wanted { folder, page, order: Order::new(query, total, settings), settings };
        let (snapshot, page) = wanted.read(&tables, file, frame)?;
        Ok((page, snapshot.ticket()))
    });
    Ok(answer::page(StatusCode::OK, &list.await?))
}

/// The page that a browser wants.
struct Wanted<'s> {
    folder: u32,
    page: u32,
    order: Order,
    settings: &'s PersonalSettings,
}

impl Wanted<'_> {
    /// Reads the page, and the snapshot that it shows.
    fn read<'f>(
        &self,
        tables: &MessageTables,
        file: &'f MailFile,
        frame: Frame,
    ) -> Result<(MailSnapshot<'f>, ListPage)> {
        let snapshot = file.snapshot()?;
        let shown = mail_folders::folder(&snapshot, self.folder)?;
        let kind = FolderKind::of(&shown);
        let position = |total: u32| Position::new(self.page, total, self.settings.page_size());
        let (snapshot, found) = if self.order.is_of_folder() {
            let total = snapshot.status(shown.id)?.messages;
            let rows = rows_by_date(&snapshot, shown.id, &position(total), self.order.is_ascending)?;
            (snapshot, FolderPage { total, rows })
        } else {
            drop(snapshot);
            let order = self.order.in_folder(shown.id, kind);
            folder_order::read(tables, file, order, |total| position(total).part())?
        };
        let status = snapshot.status(shown.id)?;
        let rows = found.rows.iter().map(|row| self.row(&snapshot, (shown.id, kind), row));
        let page = ListPage {
            rows: rows.collect::<Result<Vec<_>>>()?,
            folders: mail_folders::choices(&snapshot)?,
            ..self.empty_page(frame, &shown, &status, position(found.total))
        };
        Ok((snapshot, page))
    }

    fn empty_page(&self, frame: Frame, shown: &Folder, status: &FolderStatus, position: Position) -> ListPage {
        let name = mail_folders::shown_name(shown);
        let range = position.text(self.order.has_threads);
        ListPage {
            layout: frame.layout(format!("{name}, {range}"), &self.settings.zone),
            folder: self.folder,
            name,
            range,
            rows: Vec::new(),
            folders: Vec::new(),
            position,
            order: self.order,
            kind: FolderKind::of(shown),
            messages: shown_text::number(status.messages.into()),
            unread: shown_text::number(status.unseen.into()),
            until: status.uid_next.0.saturating_sub(1),
        }
    }

    fn row(
        &self,
        snapshot: &MailSnapshot<'_>,
        (folder, kind): (ViewId, FolderKind),
        row: &FolderRow,
    ) -> Result<MessageRow> {
        let shown = self::row(snapshot, folder, (&row.entry, kind), &self.settings.zone)?;
        let marks = match (row.is_unread, shown.is_unread) {
            // An older message of the conversation is unread.
            (true, false) => mark_names(row.entry.marks.difference(Marks::SEEN)),
            _ => shown.marks,
        };
        Ok(MessageRow { messages: row.messages, is_unread: row.is_unread, marks, ..shown })
    }
}

/// Returns the rows of a page in the order of the folder.
fn rows_by_date(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    position: &Position,
    is_ascending: bool,
) -> Result<Vec<FolderRow>> {
    let (first, count) = position.part();
    let start = if is_ascending { first } else { position.total - position.last };
    let mut rows = Vec::with_capacity(count as usize);
    let Some(start) = snapshot.uid_at(folder, start)?.filter(|_| count > 0) else { return Ok(rows) };
    snapshot.entries(folder, start..=Uid(u32::MAX), &mut |entry| {
        let is_unread = !entry.marks.contains(Marks::SEEN);
        rows.push(FolderRow { entry, messages: 1, is_unread });
        Ok(if rows.len() < count as usize { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    if !is_ascending {
        rows.reverse();
    }
    Ok(rows)
}

/// Returns the row of a message. A damaged message has one, too.
pub(crate) fn row(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    (entry, kind): (&FolderEntry, FolderKind),
    zone: &ShownZone,
) -> Result<MessageRow> {
    let message = match snapshot.message_of(entry) {
        Ok(message) => message,
        Err(error) if error.is_damage() => None,
        Err(error) => return Err(error.into()),
    };
    let link = match kind {
        FolderKind::Drafts => format!("/lite/compose?draft={}", entry.uid),
        _ => format!("/lite/folder/{folder}/{}", entry.uid),
    };
    let mut row = MessageRow {
        uid: entry.uid.0,
        link,
        who: String::new(),
        subject: "(this message cannot be read)".to_owned(),
        date: zone.minute(entry.received),
        size: shown_text::size(entry.size),
        marks: mark_names(entry.marks),
        is_unread: !entry.marks.contains(Marks::SEEN),
        has_attachment: false,
        messages: 1,
    };
    let Some(message) = message else { return Ok(row) };
    let header = message.header();
    let who = if matches!(kind, FolderKind::Outgoing | FolderKind::Drafts) { "To" } else { "From" };
    row.who = message_content::short_name(header, who);
    row.subject = shown_subject(header, 120);
    row.has_attachment = message.structure().parts().iter().any(mail::mime::Part::is_attachment);
    Ok(row)
}

/// Returns the subject of a message as it is shown.
pub(crate) fn shown_subject(header: &[u8], characters_max: usize) -> String {
    let subject = shown_text::on_one_line(&message_content::field(header, "Subject"));
    match subject.trim() {
        "" => "(no subject)".to_owned(),
        subject => shown_text::shortened(subject, characters_max),
    }
}

fn mark_names(marks: Marks) -> &'static [&'static str] {
    match (marks.contains(Marks::SEEN), marks.contains(Marks::FLAGGED), marks.contains(Marks::ANSWERED)) {
        (true, false, false) => &[],
        (false, false, false) => &["New"],
        (true, true, false) => &["Flagged"],
        (true, false, true) => &["Answered"],
        (false, true, false) => &["New", "Flagged"],
        (false, false, true) => &["New", "Answered"],
        (true, true, true) => &["Flagged", "Answered"],
        (false, true, true) => &["New", "Flagged", "Answered"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_stay_within_the_list() {
        let check = |page, total, expected: &str| assert_eq!(Position::new(page, total, 50).text(false), expected);
        check(1, 0, "no messages");
        check(2, 1_234, "51–100 of 1,234");
        check(0, 1_234, "1–50 of 1,234");
        check(u32::MAX, 1_234, "1,201–1,234 of 1,234");
        check(1, 50, "1–50 of 50");
        assert_eq!(Position::new(5, 120, 200).text(true), "1–120 of 120 conversations");
        assert_eq!(Position::new(1, 1, 200).text(true), "1 conversation");
        assert_eq!((Position::new(1, 0, 50).part(), Position::new(3, 120, 50).part()), ((0, 0), (100, 20)));
    }
}
