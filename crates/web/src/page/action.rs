//! The forms of a list and of a message: mark, move, delete, undo, and removal from the trash.
//!
//! Messages are selected one by one, or all messages of the folder up to the last one that the page knew. A large
//! selection is changed in several transactions, each of them whole; nothing waits for all of them. Deleting moves to
//! the trash. What leaves the trash is gone, so a page asks first. A form that moves and is repeated is answered as the
//! first one ([`crate::completed_forms`]).

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use base::{Uid, UidSet, ViewId};
use mail::mailbox::{FlagChange, Flags, MailFile, SpecialUse};
use notes::Marks;
use store::Ticket;

use crate::answer;
use crate::completed_forms::{FormState, RunningForm};
use crate::error::{Error, Result};
use crate::folder_order;
use crate::form::Form;
use crate::layout::Layout;
use crate::limits::{MARKED_PER_TRANSACTION, MOVED_PER_TRANSACTION, SELECTED_CONVERSATIONS_MAX};
use crate::mail_folders;
use crate::notice::{MovedMessages, Notice, can_undo, parse_uids, uid_text};
use crate::page::list::FolderKind;
use crate::page::message::uids_from;
use crate::page::order_query::OrderQuery;
use crate::shown_text;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "confirm.html")]
pub(crate) struct ConfirmPage {
    pub(crate) layout: Layout,
    pub(crate) question: String,
    /// The address to which the form is sent.
    pub(crate) address: String,
    /// The fields of the form.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) button: &'static str,
    /// The page to which "Cancel" leads.
    pub(crate) back: String,
}

/// Executes a form.
pub(crate) async fn submit(visit: Visit, folder: u32, body: Body) -> Result<Response> {
    let form = visit.form(body).await?;
    let mut uids = selected(&form)?;
    if OrderQuery::read(&form).has_threads == Some(true) && form.has("uid") && !form.has("all") {
        uids = with_conversations(&visit, folder, uids, form.number("until").unwrap_or(0)).await?;
    }
    let back = back(&form, folder);
    if uids.is_empty() {
        let notice = Notice::text("Nothing was selected. Select messages first.");
        return Ok(answer::redirect(&notice.address(&back, &visit.secret)));
    }
    let add = |marks| FlagChange::Add(Flags::from_system_flags(marks));
    let remove = |marks| FlagChange::Remove(Flags::from_system_flags(marks));
    let notice = match form.text("do") {
        "read" => mark(&visit, folder, &uids, (add(Marks::SEEN), "marked as read")).await?,
        "unread" => mark(&visit, folder, &uids, (remove(Marks::SEEN), "marked as unread")).await?,
        "flag" => mark(&visit, folder, &uids, (add(Marks::FLAGGED), "flagged")).await?,
        "unflag" => mark(&visit, folder, &uids, (remove(Marks::FLAGGED), "no longer flagged")).await?,
        "move" => {
            let target = form.number("to").ok_or_else(|| Error::Invalid("no folder was chosen".to_owned()))?;
            let moving = Moving { folder, uids, target: Target::Folder(target) };
            move_once(&visit, &form, moving).await?
        }
        "delete" => {
            if is_trash(&visit, folder).await? {
                return confirmation(&visit, folder, &uids).await;
            }
            move_once(&visit, &form, Moving { folder, uids, target: Target::Trash }).await?
        }
        "destroy" => destroy(&visit, folder, &uids).await?,
        _ => return Err(Error::Invalid("the form has no button that is known".to_owned())),
    };
    let back = match &notice {
        // Somebody who takes a step back wants to see the messages where they were.
        Notice::Moved(moved) if form.has("undo") => format!("/lite/folder/{}", moved.target),
        // A page of a message that is no longer there would not be found.
        Notice::Moved(_) => list_address(&form, folder),
        Notice::Text(_) | Notice::Held(_) => back,
    };
    Ok(answer::redirect(&notice.address(&back, &visit.secret)))
}

/// Returns the selected messages.
fn selected(form: &Form) -> Result<UidSet> {
    let wrong = || Error::Invalid("the selection is damaged".to_owned());
    if form.has("all") {
        let until = form.number("until").ok_or_else(wrong)?;
        return Ok(UidSet::from(1..=until));
    }
    if form.has("uids") {
        return parse_uids(form.text("uids")).ok_or_else(wrong);
    }
    let uids = form.all("uid").map(|uid| uid.parse::<u32>().map_err(|_| wrong()));
    Ok(uids.collect::<Result<Vec<_>>>()?.into_iter().collect())
}

/// Adds the other messages of the selected conversations, which are in the folder and not newer than the page.
async fn with_conversations(visit: &Visit, folder: u32, mut uids: UidSet, until: u32) -> Result<UidSet> {
    let selected: Vec<u32> = uids.ranges().flatten().take(SELECTED_CONVERSATIONS_MAX).collect();
    let tables = std::sync::Arc::clone(&visit.service.services.tables);
    let others = visit.run("conversations", move |file| {
        let view = mail_folders::folder(&file.snapshot()?, folder)?.id;
        let found = folder_order::uids_of_conversations(&tables, file, (view, &selected), until)?;
        Ok((found, file.snapshot()?.ticket()))
    });
    others.await?.into_iter().for_each(|uid| uids.insert(uid));
    Ok(uids)
}

/// Returns the address of the page from which the form came.
fn back(form: &Form, folder: u32) -> String {
    match form.number("message") {
        Some(message) => format!("/lite/folder/{folder}/{message}"),
        None => list_address(form, folder),
    }
}

fn list_address(form: &Form, folder: u32) -> String {
    let page = form.number("page").filter(|page| *page > 1).map(|page| format!("page={page}"));
    let order = OrderQuery::read(form).to_string();
    let query = page.into_iter().chain(Some(order).filter(|order| !order.is_empty())).collect::<Vec<_>>().join("&");
    if query.is_empty() { format!("/lite/folder/{folder}") } else { format!("/lite/folder/{folder}?{query}") }
}

fn counted(count: u64) -> String {
    if count == 1 { "1 message is".to_owned() } else { format!("{} messages are", shown_text::number(count)) }
}

/// Changes the flags of messages.
async fn mark(visit: &Visit, folder: u32, uids: &UidSet, (change, what): (FlagChange, &str)) -> Result<Notice> {
    let mut count = 0;
    let mut next = uids.first();
    while let Some(first) = next {
        let set = uids.clone();
        let change = change.clone();
        let marked = visit.run("mark", move |file| {
            let snapshot = file.snapshot()?;
            let view = mail_folders::folder(&snapshot, folder)?.id;
            let last = set.last().unwrap_or(first);
            let found = uids_from(&snapshot, view, (first, last), MARKED_PER_TRANSACTION)?;
            let next =
                found.last().filter(|_| found.len() == MARKED_PER_TRANSACTION).and_then(|uid| uid.checked_add(1));
            let part: UidSet = found.into_iter().filter(|uid| set.contains(*uid)).collect();
            let outcome = file.store(view, &part, &change, None)?;
            Ok(((part.len(), next), outcome.ticket))
        });
        let (marked, following) = marked.await?;
        count += marked;
        next = following;
    }
    Ok(Notice::text(format!("{} {what}.", counted(count))))
}

/// The folder to which messages are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The one with this number.
    Folder(u32),
    /// The trash.
    Trash,
}

/// Messages to move.
struct Moving {
    folder: u32,
    uids: UidSet,
    target: Target,
}

/// Moves messages. A repetition of the form finds none of them in the folder any more. It is answered as the first one,
/// with the same undo, because a browser shows only the second answer after a double click.
async fn move_once(visit: &Visit, form: &Form, moving: Moving) -> Result<Notice> {
    // The token, which is another one in each page, is part of it.
    let content = form.digest();
    let key = format!("{} {content}", moving.folder);
    let running = loop {
        match visit.service.moved_forms.begin(visit.caller.login(), &key, content) {
            FormState::New(running) => break running,
            FormState::Running(lock) => drop(lock.lock().await),
            FormState::Completed(moved) if are_there(visit, &moved).await? => return Ok(Notice::Moved(moved)),
            FormState::Completed(moved) => {
                return Ok(Notice::Moved(MovedMessages { count: 0, uids: UidSet::new(), ..moved }));
            }
            FormState::Changed => return Err(Error::Invalid("the selection is damaged".to_owned())),
        }
    };
    move_all(visit, moving, running).await
}

/// Returns `true` if the first one of messages that were moved is still in the folder to which they were moved.
async fn are_there(visit: &Visit, moved: &MovedMessages) -> Result<bool> {
    let target = ViewId(moved.target);
    let first = Uid(moved.uids.first().unwrap_or(0));
    let found = visit.run("folder", move |file| {
        let snapshot = file.snapshot()?;
        let is_there = snapshot.folder_with_id(target)?.is_some() && snapshot.entry(target, first)?.is_some();
        Ok((is_there, snapshot.ticket()))
    });
    found.await
}

async fn move_all(visit: &Visit, moving: Moving, form: RunningForm<MovedMessages>) -> Result<Notice> {
    let Moving { folder, uids, target } = moving;
    let (target, target_name) = visit
        .run("folder", move |file| {
            let found = match target {
                Target::Folder(id) => {
                    let found = mail_folders::folder(&file.snapshot()?, id)?;
                    (found.id, mail_folders::shown_name(&found))
                }
                Target::Trash => mail_folders::special_or_create(file, SpecialUse::Trash, "Trash")?,
            };
            Ok((found, file.snapshot()?.ticket()))
        })
        .await?;
    if target.0 == folder {
        return Ok(Notice::text(format!("The messages are in {target_name} already.")));
    }
    let moved = MovedMessages { count: 0, source: folder, target: target.0, uids: UidSet::new(), target_name };
    let mut part = MovedPart { moved, form: Some(form) };
    while part.form.is_some() {
        let set = uids.clone();
        part = visit.run("move", move |file| part.extend(file, &set)).await?;
    }
    Ok(Notice::Moved(part.moved))
}

/// The part of the messages of a form that was moved so far.
struct MovedPart {
    moved: MovedMessages,
    /// The form, until all are moved.
    form: Option<RunningForm<MovedMessages>>,
}

impl MovedPart {
    /// Moves more messages. The job that moves the last ones also completes the form, because a browser that repeats it
    /// no longer waits for the first answer.
    fn extend(mut self, file: &MailFile, uids: &UidSet) -> Result<(Self, Ticket)> {
        let source = ViewId(self.moved.source);
        mail_folders::folder(&file.snapshot()?, source.0)?;
        let outcome = file.move_up_to(source, uids, ViewId(self.moved.target), MOVED_PER_TRANSACTION)?;
        outcome.pairs.iter().for_each(|(_, Uid(uid))| self.moved.uids.insert(*uid));
        self.moved.count = self.moved.uids.len();
        if outcome.pairs.len() < MOVED_PER_TRANSACTION
            && let Some(form) = self.form.take()
            && can_undo(&self.moved.uids)
        {
            form.complete(self.moved.clone());
        }
        Ok((self, outcome.ticket))
    }
}

async fn is_trash(visit: &Visit, folder: u32) -> Result<bool> {
    let kind = visit.run("folder", move |file| {
        let snapshot = file.snapshot()?;
        Ok((FolderKind::of(&mail_folders::folder(&snapshot, folder)?), snapshot.ticket()))
    });
    Ok(kind.await? == FolderKind::Trash)
}

/// Asks before messages leave the trash.
async fn confirmation(visit: &Visit, folder: u32, uids: &UidSet) -> Result<Response> {
    let layout = Layout { notice: None, ..visit.layout("Delete for ever?").await? };
    let page = ConfirmPage {
        layout,
        question: "The selected messages leave the trash and cannot be restored.".to_owned(),
        address: format!("/lite/folder/{folder}"),
        fields: vec![("do", "destroy".to_owned()), ("uids", uid_text(uids))],
        button: "Delete for ever",
        back: format!("/lite/folder/{folder}"),
    };
    Ok(answer::page(StatusCode::OK, &page))
}

/// Deletes messages of the trash.
async fn destroy(visit: &Visit, folder: u32, uids: &UidSet) -> Result<Notice> {
    if !is_trash(visit, folder).await? {
        return Err(Error::Invalid("only messages in the trash can be deleted for ever".to_owned()));
    }
    let mut count = 0;
    loop {
        let set = uids.clone();
        let deleted = visit.run("delete", move |file| {
            let snapshot = file.snapshot()?;
            let bounds = (set.first().unwrap_or(1), set.last().unwrap_or(0));
            let found = uids_from(&snapshot, ViewId(folder), bounds, MOVED_PER_TRANSACTION)?;
            let part: UidSet = found.into_iter().filter(|uid| set.contains(*uid)).collect();
            let ticket = file.delete(ViewId(folder), &part)?;
            Ok((part.len(), ticket))
        });
        let deleted = deleted.await?;
        count += deleted;
        if deleted == 0 {
            return Ok(Notice::text(format!("{} deleted for ever.", counted(count))));
        }
    }
}
