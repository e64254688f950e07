//! The places of messages: the mailboxes that contain them.
//!
//! A message is one note, in one mailbox or several, with a UID in each ([`notes::NoteHeader::folders`]). `\Deleted`
//! belongs to the place; all other flags belong to the message. The message counts once towards the quota. Removing it
//! from a mailbox removes the place; the last place goes with the message.
//!
//! IMAP makes no second places, because COPY makes an independent copy. [`MailFile::set_places`] makes them for
//! protocols in which a message has a set of mailboxes (RFC 8621 §4: `mailboxIds`).

use base::{Modseq, NoteId, ViewId};
use notes::{FolderEntry, Marks, Membership, Writer};
use store::Ticket;

use crate::error::{Error, Result};
use crate::limits::APPEND_MESSAGES_MAX;
use crate::mailbox::file::{MailFile, NO_SELECT_ITEM};
use crate::mailbox::mail_snapshot::MailSnapshot;

/// A change of the places of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceChange {
    /// The message.
    pub note: NoteId,
    /// Mailboxes to which it is added. It keeps its UID in those that contain it already.
    pub add: Vec<ViewId>,
    /// Mailboxes from which it is removed, also if they are among those to which it is added.
    pub remove: Vec<ViewId>,
}

/// The outcome of changes of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacesOutcome {
    /// The modseq of the change.
    pub modseq: Modseq,
    /// The ticket of the change, to wait for its durability.
    pub ticket: Ticket,
}

impl MailFile {
    /// Changes the places of messages: all of these changes, or none. Messages get UIDs in their new mailboxes, in the
    /// order of the changes, and are not marked as deleted there.
    ///
    /// Fails if a message or a mailbox does not exist, or if a message would be in no mailbox: that would delete it.
    pub fn set_places(&self, changes: &[PlaceChange]) -> Result<PlacesOutcome> {
        if changes.len() > APPEND_MESSAGES_MAX {
            return Err(notes::Error::Limit { what: "messages in one call", max: APPEND_MESSAGES_MAX }.into());
        }
        let (modseq, ticket) = self.write(|writer| {
            let designs = writer.folders()?;
            let selectable = designs.iter().filter(|design| design.attribute(NO_SELECT_ITEM).is_none());
            let targets: Vec<ViewId> = selectable.map(|design| design.view).collect();
            changes.iter().try_for_each(|change| change_places(writer, change, &targets))?;
            Ok(writer.modseq())
        })?;
        Ok(PlacesOutcome { modseq, ticket })
    }
}

impl MailSnapshot<'_> {
    /// Returns the places of a message in mailboxes that the reader may know of, or `None` if there is no such message.
    pub fn places(&self, note: NoteId) -> Result<Option<Vec<Membership>>> {
        let Some(header) = self.reading.header(note)?.filter(|header| !header.is_stub()) else { return Ok(None) };
        if !header.class.is_document() {
            return Ok(None);
        }
        let designs = self.reading.folders()?;
        let is_known = |place: &Membership| designs.iter().any(|design| design.view == place.folder);
        Ok(Some(header.folders.into_iter().filter(is_known).collect()))
    }
}

fn change_places(writer: &mut Writer<'_, '_>, change: &PlaceChange, targets: &[ViewId]) -> Result<()> {
    let PlaceChange { note, add, remove } = change;
    for folder in add.iter().filter(|folder| !remove.contains(folder)) {
        if !targets.contains(folder) {
            return Err(Error::NoMailbox(format!("number {folder}")));
        }
        writer.folder_add(*note, *folder)?;
    }
    for folder in remove {
        writer.folder_remove(*note, *folder)?;
    }
    let missing = || notes::Error::not_found(format!("note {note}"));
    let header = writer.header(*note)?.ok_or_else(missing)?;
    if header.folders.is_empty() {
        return Err(notes::Error::invalid(format!("note {note}"), "a message must stay in a mailbox").into());
    }
    Ok(())
}

/// Moves a message to another mailbox with its flags there, and returns its new UID. If the mailbox contains the
/// message already, that place ends, as if another client had removed it.
pub(crate) fn move_place(
    writer: &mut Writer<'_, '_>,
    entry: &FolderEntry,
    (from, to): (ViewId, ViewId),
) -> Result<base::Uid> {
    writer.folder_remove(entry.note, from)?;
    writer.folder_remove(entry.note, to)?;
    let uid = writer.folder_add(entry.note, to)?;
    let header = writer.header(entry.note)?;
    let is_deleted = |marks: Marks| marks.contains(Marks::DELETED);
    if let Some(header) = header.filter(|header| is_deleted(header.marks_in(to)) != is_deleted(entry.marks)) {
        let table = writer.database().keywords();
        let names: Vec<String> =
            header.keywords.iter().filter_map(|keyword| table.name(*keyword)).map(str::to_owned).collect();
        writer.marks_set_in((entry.note, to), entry.marks, &names)?;
    }
    Ok(uid)
}
