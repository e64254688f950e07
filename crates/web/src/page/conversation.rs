//! A conversation: the messages of a thread in all folders, the oldest first.
//!
//! Each message has the id of its thread (`mail::threads`), and nothing lists the messages of an id. So the newest
//! messages of each folder are looked through, those of the message's own folder, of the inbox and of the folder with
//! sent messages first, at most [`CONVERSATION_SEARCHED`] in all. Only the records that views read are read.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use base::{NoteId, Uid};
use mail::mailbox::{Folder, MailSnapshot, SpecialUse};
use mail::mime::MimeSource as _;
use notes::FolderEntry;

use crate::answer;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::limits::{CONVERSATION_MESSAGES_MAX, CONVERSATION_SEARCHED};
use crate::mail_folders;
use crate::page::list::{FolderKind, MessageRow, row, shown_subject};
use crate::page::message::{find, open};
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "conversation.html")]
struct ConversationPage {
    layout: Layout,
    folder: u32,
    uid: u32,
    /// The subject of the message from which the person comes.
    subject: String,
    messages: Vec<ConversationRow>,
    /// `true` if there may be more messages of the conversation than those that are shown.
    is_cut: bool,
}

struct ConversationRow {
    folder: String,
    row: MessageRow,
    is_this: bool,
}

/// The messages of a conversation, each with its folder.
#[derive(Default)]
struct Found<'f> {
    messages: Vec<(&'f Folder, FolderEntry)>,
    is_cut: bool,
}

/// Shows the conversation of a message.
pub(crate) async fn show(visit: Visit, (folder, uid): (u32, u32)) -> Result<Response> {
    let frame = visit.frame();
    let page = visit.run_with_settings("conversation", move |file, settings| {
        let snapshot = file.snapshot()?;
        let (shown, entry) = find(&snapshot, folder, uid)?;
        let subject = shown_subject(open(&snapshot, &entry)?.header(), 200);
        let layout = frame.layout(format!("Conversation: {subject}"), &settings.zone);
        let folders = folders_in_order(&snapshot, &shown)?;
        let found = find_messages(&snapshot, &folders, &entry)?;
        let rows = found.messages.iter().map(|(of, member)| {
            Ok(ConversationRow {
                folder: mail_folders::shown_name(of),
                row: row(&snapshot, of.id, (member, FolderKind::of(of)), &settings.zone)?,
                is_this: member.note == entry.note,
            })
        });
        let messages = rows.collect::<Result<Vec<_>>>()?;
        let page = ConversationPage { layout, folder, uid, subject, messages, is_cut: found.is_cut };
        Ok((page, snapshot.ticket()))
    });
    Ok(answer::page(StatusCode::OK, &page.await?))
}

/// Returns the folders without those for deleted messages and junk, the ones that matter most first.
fn folders_in_order(snapshot: &MailSnapshot<'_>, own: &Folder) -> Result<Vec<Folder>> {
    let mut folders = snapshot.folders()?;
    folders.retain(|folder| {
        folder.id == own.id || !matches!(folder.special_use, Some(SpecialUse::Trash | SpecialUse::Junk))
    });
    let rank = |folder: &Folder| match folder.special_use {
        _ if folder.id == own.id => 0,
        Some(SpecialUse::Sent) => 2,
        _ if folder.name == "INBOX" => 1,
        _ => 3,
    };
    folders.sort_by_key(rank);
    Ok(folders)
}

/// Returns the messages of the thread of an entry, the oldest first, each once.
fn find_messages<'f>(snapshot: &MailSnapshot<'_>, folders: &'f [Folder], entry: &FolderEntry) -> Result<Found<'f>> {
    let mut thread = None;
    snapshot.threads([entry.note], &mut |_, id| {
        thread = Some(id.to_owned());
        ControlFlow::Break(())
    })?;
    let thread = thread.ok_or(Error::NotFound("the message"))?;
    let mut found = Found::default();
    let mut known = HashSet::new();
    let mut left = CONVERSATION_SEARCHED;
    for folder in folders {
        let entries = newest(snapshot, folder, left)?;
        found.is_cut |= (entries.len() as u32) < snapshot.status(folder.id)?.messages;
        left -= entries.len() as u32;
        let mut by_note: HashMap<NoteId, FolderEntry> = entries.into_iter().map(|entry| (entry.note, entry)).collect();
        let mut notes: Vec<NoteId> = by_note.keys().copied().collect();
        notes.sort_unstable();
        snapshot.threads(notes, &mut |header, id| {
            let member = if id == thread { by_note.remove(&header.note) } else { None };
            if let Some(member) = member
                && known.insert(member.note)
            {
                found.messages.push((folder, member));
            }
            ControlFlow::Continue(())
        })?;
    }
    found.messages.sort_by_key(|(_, member)| (member.received, member.note));
    if found.messages.len() > CONVERSATION_MESSAGES_MAX {
        // The newest ones matter most.
        found.messages.drain(..found.messages.len() - CONVERSATION_MESSAGES_MAX);
        found.is_cut = true;
    }
    Ok(found)
}

/// Returns the newest entries of a folder, at most `limit`.
fn newest(snapshot: &MailSnapshot<'_>, folder: &Folder, limit: u32) -> Result<Vec<FolderEntry>> {
    let count = snapshot.status(folder.id)?.messages;
    let mut entries = Vec::new();
    if limit == 0 {
        return Ok(entries);
    }
    let Some(first) = snapshot.uid_at(folder.id, count.saturating_sub(limit))? else { return Ok(entries) };
    snapshot.entries(folder.id, first..=Uid(u32::MAX), &mut |entry| {
        entries.push(entry);
        Ok(if entries.len() < limit as usize { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(entries)
}
