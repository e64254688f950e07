//! A message: its header fields, its text, and links to its attachments and its own look.
//!
//! Opening it marks it as read, unless the browser only loads it in advance or a page of another site leads here.
//! Nobody is told that it was opened; if its sender asks for that, the page has a button
//! ([`crate::page::confirmation`]).

use std::ops::ControlFlow;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use base::{Uid, UidSet, ViewId};
use mail::mailbox::{FlagChange, Flags, MailFile, MailSnapshot, Message};
use mail::mime::MimeSource as _;
use notes::{FolderEntry, Marks};
use store::Ticket;

use crate::answer;
use crate::confirmation_request::{self, Doubt, OfferedConfirmation};
use crate::error::{Error, Result};
use crate::layout::{Frame, Layout};
use crate::limits::{FIELD_CHARACTERS_MAX, TEXT_BYTES_MAX, TEXT_SHOWN_BYTES};
use crate::mail_folders::{self, FolderChoice};
use crate::message_content::{self, Attachment};
use crate::page::list::{FolderKind, shown_subject};
use crate::personal_settings::PersonalSettings;
use crate::shown_text;
use crate::shown_time::ShownZone;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    layout: Layout,
    folder: u32,
    folder_name: String,
    uid: u32,
    /// The fields of the header. A field has several values, so that the direction of one does not turn the others.
    fields: Vec<(&'static str, Vec<String>)>,
    pieces: Vec<TextPiece>,
    rest: Rest,
    attachments: Vec<Attachment>,
    has_html: bool,
    is_flagged: bool,
    confirmation: Option<OfferedConfirmation>,
    kind: FolderKind,
    newer: Option<u32>,
    older: Option<u32>,
    folders: Vec<FolderChoice>,
}

/// What follows the text that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Nothing.
    None,
    /// More, which another page shows.
    Page,
    /// More than pages show.
    Download,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextPiece {
    /// Text.
    Plain(String),
    /// An address of a page.
    Link(String),
}

/// Shows a message.
pub(crate) async fn show(visit: Visit, (folder, uid): (u32, u32)) -> Result<Response> {
    let marks_read = !visit.is_indirect();
    let wanted = Wanted { frame: visit.frame(), is_whole: visit.query.has("all") };
    let page = visit.run_with_settings("message", move |file, settings| {
        let snapshot = file.snapshot()?;
        let (shown, entry) = find(&snapshot, folder, uid)?;
        let mut ticket = snapshot.ticket();
        let page = wanted.read(&snapshot, (&shown, &entry), settings)?;
        if marks_read && !entry.marks.contains(Marks::SEEN) {
            ticket = mark_read(file, shown.id, uid)?.unwrap_or(ticket);
        }
        Ok((page, ticket))
    });
    Ok(answer::page(StatusCode::OK, &page.await?))
}

/// Returns a message of a folder.
pub(crate) fn find(snapshot: &MailSnapshot<'_>, folder: u32, uid: u32) -> Result<(mail::mailbox::Folder, FolderEntry)> {
    let folder = mail_folders::folder(snapshot, folder)?;
    let entry = snapshot.entry(folder.id, Uid(uid))?.ok_or(Error::NotFound("the message"))?;
    Ok((folder, entry))
}

/// Opens a message that was found.
pub(crate) fn open<'s>(snapshot: &'s MailSnapshot<'_>, entry: &FolderEntry) -> Result<Message<'s>> {
    snapshot.message_of(entry)?.ok_or(Error::NotFound("the message"))
}

/// Marks a message as read. Returns `None` if the person may not.
fn mark_read(file: &MailFile, folder: ViewId, uid: u32) -> Result<Option<Ticket>> {
    let seen = FlagChange::Add(Flags::from_system_flags(Marks::SEEN));
    match file.store(folder, &UidSet::from(uid..=uid), &seen, None) {
        Ok(outcome) => Ok(Some(outcome.ticket)),
        Err(error) => match Error::from(error) {
            Error::Denied => Ok(None),
            error => Err(error),
        },
    }
}

/// The page that a browser wants.
struct Wanted {
    frame: Frame,
    /// `true` if the rest of a long text is shown, too.
    is_whole: bool,
}

impl Wanted {
    fn read(
        self,
        snapshot: &MailSnapshot<'_>,
        (folder, entry): (&mail::mailbox::Folder, &FolderEntry),
        settings: &PersonalSettings,
    ) -> Result<MessagePage> {
        let Self { frame, is_whole } = self;
        let message = open(snapshot, entry)?;
        let header = message.header();
        let bytes_max = if is_whole { TEXT_BYTES_MAX } else { TEXT_SHOWN_BYTES };
        let text = message_content::text_of(&message, bytes_max)?;
        let rest = match (text.is_cut, is_whole) {
            (false, _) => Rest::None,
            (true, false) => Rest::Page,
            (true, true) => Rest::Download,
        };
        let rank = snapshot.rank(folder.id, entry.uid)?;
        let neighbour = |position: Option<u32>| match position {
            Some(position) => Ok::<_, Error>(snapshot.uid_at(folder.id, position)?.map(|uid| uid.0)),
            None => Ok(None),
        };
        Ok(MessagePage {
            folder: folder.id.0,
            folder_name: mail_folders::shown_name(folder),
            uid: entry.uid.0,
            fields: fields(header, &settings.zone),
            pieces: pieces(&text.text),
            rest,
            attachments: message_content::attachments(message.structure()),
            has_html: message_content::has_html(message.structure()),
            is_flagged: entry.marks.contains(Marks::FLAGGED),
            confirmation: confirmation_request::offered(snapshot, (folder, entry), header),
            kind: FolderKind::of(folder),
            newer: neighbour(rank.checked_add(1))?,
            older: neighbour(rank.checked_sub(1))?,
            folders: mail_folders::choices(snapshot)?,
            layout: frame.layout(shown_subject(header, 300), &settings.zone),
        })
    }
}

/// Returns the fields of a header that a page shows.
fn fields(header: &[u8], zone: &ShownZone) -> Vec<(&'static str, Vec<String>)> {
    let lists = ["From", "Sender", "Reply-To", "To", "Cc", "Bcc"];
    let mut found: Vec<(&'static str, Vec<String>)> =
        lists.map(|name| (name, shown_values(message_content::mailboxes(header, name)))).into();
    let date = match message_content::date(header) {
        Some(time) => zone.minute_and_zone(time),
        None => message_content::field(header, "Date"),
    };
    found.push(("Date", shown_values(std::iter::once(date))));
    found.retain(|(_, values)| !values.is_empty());
    found
}

/// Returns the values of a field of a header as they are shown, at most [`FIELD_CHARACTERS_MAX`] characters.
fn shown_values(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut left = FIELD_CHARACTERS_MAX;
    let mut shown = Vec::new();
    for value in values.filter(|value| !value.is_empty()) {
        if left == 0 {
            shown.push("…".to_owned());
            break;
        }
        let value = shown_text::shortened(&shown_text::on_one_line(&value), left);
        left = left.saturating_sub(value.chars().count());
        shown.push(value);
    }
    shown
}

/// Separates addresses of pages from a text. Only whole words with `http` and `https` become links.
pub(crate) fn pieces(text: &str) -> Vec<TextPiece> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    for word in text.split_inclusive([' ', '\n', '\t', '<', '>', '"', '(', ')']) {
        let end = word.trim_end_matches([' ', '\n', '\t', '<', '>', '"', '(', ')', '.', ',', ';', ':', '!', '?']).len();
        let (address, behind) = word.split_at(end);
        let is_link = ["https://", "http://"].iter().any(|scheme| {
            address.strip_prefix(scheme).is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '['))
        });
        if is_link && address.is_ascii() {
            if !plain.is_empty() {
                pieces.push(TextPiece::Plain(std::mem::take(&mut plain)));
            }
            pieces.push(TextPiece::Link(address.to_owned()));
            plain.push_str(behind);
        } else {
            plain.push_str(word);
        }
    }
    if !plain.is_empty() {
        pieces.push(TextPiece::Plain(plain));
    }
    pieces
}

/// Returns the UIDs of a folder from one on, at most `count_max` of them.
pub(crate) fn uids_from(
    snapshot: &MailSnapshot<'_>,
    folder: ViewId,
    (first, last): (u32, u32),
    count_max: usize,
) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    snapshot.entries(folder, Uid(first)..=Uid(last), &mut |entry| {
        found.push(entry.uid.0);
        Ok(if found.len() < count_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_field_are_bounded_together() {
        let check = |lengths: &[usize], expected: &[usize]| {
            let shown = shown_values(lengths.iter().map(|length| "ü".repeat(*length)));
            assert_eq!(shown.iter().map(|value| value.chars().count()).collect::<Vec<_>>(), expected);
        };
        check(&[], &[]);
        check(&[0, 3, 4], &[3, 4]);
        check(&[FIELD_CHARACTERS_MAX + 1, 1], &[FIELD_CHARACTERS_MAX + 1, 1]);
        check(&[1, FIELD_CHARACTERS_MAX - 1, 5, 5], &[1, FIELD_CHARACTERS_MAX - 1, 1]);
        assert_eq!(shown_values(["a\u{202e}b".to_owned()].into_iter()), ["a\u{fffd}b"]);
    }

    #[test]
    fn addresses_of_pages_become_links() {
        let plain = |text: &str| TextPiece::Plain(text.to_owned());
        let link = |text: &str| TextPiece::Link(text.to_owned());
        let found = pieces("see (https://a.test/x?y=1). javascript:alert(1) http:// <http://b.test>\nend");
        let expected = [
            plain("see ("),
            link("https://a.test/x?y=1"),
            plain("). javascript:alert(1) http:// <"),
            link("http://b.test"),
            plain(">\nend"),
        ];
        assert_eq!(found, expected);
    }
}
