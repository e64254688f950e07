//! The messages of a folder, by pages.
//!
//! The order of the folder is that in which its messages arrived; a page of it costs the page and not the folder. Other
//! orders read the whole folder, so they are offered for folders of at most [`SORTED_MESSAGES_MAX`] messages.

use std::ops::ControlFlow;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use base::{Uid, ViewId};
use mail::mailbox::{Folder, MailFile, MailSnapshot, SpecialUse};
use mail::mime::MimeSource as _;
use notes::{FolderEntry, Marks};
use store::Ticket;

use crate::answer;
use crate::error::{Error, Result};
use crate::form::Form;
use crate::layout::Layout;
use crate::limits::{LIST_MESSAGES, SORTED_MESSAGES_MAX};
use crate::mail_folders::{self, FolderChoice};
use crate::message_content;
use crate::shown_text;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "list.html")]
struct ListPage {
    layout: Layout,
    folder: u32,
    /// The name of the folder.
    name: String,
    rows: Vec<MessageRow>,
    folders: Vec<FolderChoice>,
    position: Position,
    order: Order,
    kind: FolderKind,
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
    fn new(page: u32, total: u32) -> Self {
        let pages = total.div_ceil(LIST_MESSAGES).max(1);
        let page = page.clamp(1, pages);
        let before = (page - 1) * LIST_MESSAGES;
        let last = total.min(before + LIST_MESSAGES);
        Self { page, pages, total, first: (before + 1).min(last), last }
    }

    fn text(&self) -> String {
        let [first, last, total] = [self.first, self.last, self.total].map(|count| shown_text::number(count.into()));
        if self.total == 0 { "no messages".to_owned() } else { format!("{first}–{last} of {total}") }
    }
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    key: SortKey,
    /// `true` for the smallest first, which is the oldest for dates.
    is_ascending: bool,
    /// `true` if the folder is small enough for other orders.
    is_offered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SortKey {
    Date,
    Who,
    Subject,
    Size,
}

impl SortKey {
    fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Who => "who",
            Self::Subject => "subject",
            Self::Size => "size",
        }
    }
}

impl Order {
    fn read(query: &Form, total: u32) -> Self {
        let is_offered = total <= SORTED_MESSAGES_MAX;
        let key = match query.text("sort") {
            "who" if is_offered => SortKey::Who,
            "subject" if is_offered => SortKey::Subject,
            "size" if is_offered => SortKey::Size,
            _ => SortKey::Date,
        };
        let is_ascending = match query.text("order") {
            "up" => true,
            "down" => false,
            _ => matches!(key, SortKey::Who | SortKey::Subject),
        };
        Self { key, is_ascending, is_offered }
    }

    /// Returns the query of this order.
    fn query(&self) -> String {
        format!("sort={}&order={}", self.key.name(), if self.is_ascending { "up" } else { "down" })
    }

    /// Returns the query of a column's link. The link of the present order turns it around.
    fn link(&self, key: &str) -> String {
        let is_present = self.key.name() == key;
        let is_ascending = if is_present { !self.is_ascending } else { matches!(key, "who" | "subject") };
        format!("sort={key}&order={}", if is_ascending { "up" } else { "down" })
    }

    /// Returns the value of `aria-sort` of a column.
    fn aria(&self, key: &str) -> &'static str {
        match (self.key.name() == key, self.is_ascending) {
            (false, _) => "none",
            (true, true) => "ascending",
            (true, false) => "descending",
        }
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
    let query = Form::parse_urlencoded(
        ["sort", "order"].map(|name| format!("{name}={}", visit.query.text(name))).join("&").as_bytes(),
    )?;
    let page = visit.query.number("page").unwrap_or(1);
    let mut layout = visit.layout("");
    let list = visit.run("list", move |file| {
        let snapshot = file.snapshot()?;
        let shown = mail_folders::folder(&snapshot, folder)?;
        let status = snapshot.status(shown.id)?;
        let order = Order::read(&query, status.messages);
        let position = Position::new(page, status.messages);
        let kind = FolderKind::of(&shown);
        let name = mail_folders::shown_name(&shown);
        layout.title = format!("{name}, {}", position.text());
        let page = ListPage {
            layout,
            folder,
            name,
            rows: rows(&snapshot, shown.id, (&position, &order), kind)?,
            folders: mail_folders::choices(&snapshot)?,
            position,
            order,
            kind,
            unread: shown_text::number(status.unseen.into()),
            until: status.uid_next.0.saturating_sub(1),
        };
        Ok((page, snapshot.ticket()))
    });
    Ok(answer::page(StatusCode::OK, &list.await?))
}

fn rows(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    (position, order): (&Position, &Order),
    kind: FolderKind,
) -> Result<Vec<MessageRow>> {
    if position.total == 0 {
        return Ok(Vec::new());
    }
    let entries = match order.key {
        SortKey::Date => entries_by_date(snapshot, folder, position, order.is_ascending)?,
        _ => entries_sorted(snapshot, folder, (position, order), kind)?,
    };
    entries.iter().map(|entry| row(snapshot, folder, entry, kind)).collect()
}

/// Returns the entries of a page in the order of the folder.
fn entries_by_date(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    position: &Position,
    is_ascending: bool,
) -> Result<Vec<FolderEntry>> {
    let first = if is_ascending { position.first - 1 } else { position.total - position.last };
    let count = (position.last + 1 - position.first) as usize;
    let Some(start) = snapshot.uid_at(folder, first)? else { return Ok(Vec::new()) };
    let mut entries = Vec::with_capacity(count);
    snapshot.entries(folder, start..=Uid(u32::MAX), &mut |entry| {
        entries.push(entry);
        Ok(if entries.len() < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    if !is_ascending {
        entries.reverse();
    }
    Ok(entries)
}

/// Returns the entries of a page in another order. Reads the whole folder.
fn entries_sorted(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    (position, order): (&Position, &Order),
    kind: FolderKind,
) -> Result<Vec<FolderEntry>> {
    let mut all = Vec::new();
    snapshot.entries(folder, Uid(0)..=Uid(u32::MAX), &mut |entry| {
        all.push(entry);
        Ok(if all.len() < SORTED_MESSAGES_MAX as usize { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    let mut keyed = Vec::with_capacity(all.len());
    for entry in all {
        let key = match order.key {
            SortKey::Size | SortKey::Date => (entry.size, String::new()),
            SortKey::Who => (0, row(snapshot, folder, &entry, kind)?.who.to_lowercase()),
            SortKey::Subject => (0, base_subject(&row(snapshot, folder, &entry, kind)?.subject)),
        };
        keyed.push((key, entry));
    }
    keyed.sort_by(|one, other| (&one.0, one.1.uid).cmp(&(&other.0, other.1.uid)));
    if !order.is_ascending {
        keyed.reverse();
    }
    let entries = keyed.into_iter().map(|(_, entry)| entry);
    Ok(entries.skip(position.first.saturating_sub(1) as usize).take(LIST_MESSAGES as usize).collect())
}

/// Returns a subject without the beginnings that answers add.
fn base_subject(subject: &str) -> String {
    let mut subject = subject.to_lowercase();
    while let Some(rest) = ["re:", "fw:", "fwd:", "aw:"].iter().find_map(|prefix| subject.strip_prefix(prefix)) {
        subject = rest.trim_start().to_owned();
    }
    subject
}

/// Returns the row of a message. A damaged message has one, too.
pub(crate) fn row(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    entry: &FolderEntry,
    kind: FolderKind,
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
        date: entry.received.to_utc().strftime("%Y-%m-%d %H:%M").to_string(),
        size: shown_text::size(entry.size),
        marks: mark_names(entry.marks),
        is_unread: !entry.marks.contains(Marks::SEEN),
        has_attachment: false,
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
        let check = |page, total, expected: &str| assert_eq!(Position::new(page, total).text(), expected);
        check(1, 0, "no messages");
        check(2, 1_234, "51–100 of 1,234");
        check(0, 1_234, "1–50 of 1,234");
        check(u32::MAX, 1_234, "1,201–1,234 of 1,234");
        check(1, 50, "1–50 of 50");
    }

    #[test]
    fn subjects_are_sorted_without_the_beginnings_of_answers() {
        assert_eq!(base_subject("Re: AW: Fwd: Plan"), "plan");
    }
}
