//! A snapshot of a mail file: mailboxes, counts, positions, entries, changes, messages.
//!
//! Everything that a client is told in one reply comes from one [`MailView`], so it is consistent; before the reply
//! leaves, [`MailView::ticket`] must be durable.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::{Modseq, NoteId, Uid, ViewId};
use notes::change::Change;
use notes::{Entry, FolderDesign, Keywords, Reading};
use search::{Lacking, Search, Sought};
use store::Ticket;

use crate::error::{Error, Result};
use crate::mailbox::Message;
use crate::mailbox::file::PROFILE_NOTE;
use crate::mailbox::flags::Flags;
use crate::mailbox::heads::Heads;

/// What a mailbox is for (RFC 6154).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SpecialUse {
    /// All messages.
    All,
    /// Archived messages.
    Archive,
    /// Drafts.
    Drafts,
    /// Flagged messages.
    Flagged,
    /// Unwanted mail.
    Junk,
    /// Sent messages.
    Sent,
    /// Deleted messages.
    Trash,
}

impl SpecialUse {
    const NAMES: [(Self, &'static str); 7] = [
        (Self::All, "\\All"),
        (Self::Archive, "\\Archive"),
        (Self::Drafts, "\\Drafts"),
        (Self::Flagged, "\\Flagged"),
        (Self::Junk, "\\Junk"),
        (Self::Sent, "\\Sent"),
        (Self::Trash, "\\Trash"),
    ];

    /// Gives the attribute of RFC 6154, such as `\Sent`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Reads the attribute.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(special, _)| *special)
    }
}

/// A mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its number.
    pub id: ViewId,
    /// Its name in UTF-8, levels separated by `/`; the inbox is `INBOX`.
    pub name: String,
    /// What it is for.
    pub special_use: Option<SpecialUse>,
    /// The user wants to see it.
    pub subscribed: bool,
    /// Messages can be in it.
    pub selectable: bool,
}

/// The counts and numbers of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderStatus {
    /// How many messages.
    pub messages: u32,
    /// How many without `\Seen`.
    pub unseen: u32,
    /// How many with `\Deleted`.
    pub deleted: u32,
    /// Bytes of all messages.
    pub size: u64,
    /// The UID that the next message will get.
    pub uid_next: Uid,
    /// UIDVALIDITY.
    pub uid_validity: u32,
    /// HIGHESTMODSEQ.
    pub highest_modseq: Modseq,
    /// MAILBOXID (RFC 8474).
    pub mailbox_id: String,
}

/// What happened in a mailbox since a modseq.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Changes {
    /// UIDs that are gone, rising.
    pub vanished: Vec<Uid>,
    /// Messages that are new or were changed, by rising UID.
    pub changed: Vec<Entry>,
    /// The modseq up to which this tells everything.
    pub modseq: Modseq,
    /// False when the modseq asked for is so old that gone messages are no longer known.
    pub complete: bool,
}

/// A snapshot of a mail file.
pub struct MailView<'f> {
    pub(crate) reading: Reading<'f>,
    keywords: Arc<Keywords>,
    heads: &'f Heads,
}

impl<'f> MailView<'f> {
    pub(crate) fn new(reading: Reading<'f>, heads: &'f Heads) -> Self {
        let keywords = reading.database().keywords();
        Self { reading, keywords, heads }
    }

    /// Gives what must be durable before a reply that was made from this leaves.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.reading.ticket()
    }

    /// Gives the modseq of the last change anywhere in the mail file.
    #[must_use]
    pub fn modseq(&self) -> Modseq {
        self.reading.modseq()
    }

    /// Lists the mailboxes, the inbox first and the others by name.
    pub fn folders(&self) -> Result<Vec<Folder>> {
        let subscriptions = self.subscriptions()?;
        let designs = self.reading.folders()?;
        let mut folders: Vec<Folder> = designs.iter().map(|design| folder(design, &subscriptions)).collect();
        folders.sort_by(|a, b| (a.name != "INBOX", &a.name).cmp(&(b.name != "INBOX", &b.name)));
        Ok(folders)
    }

    /// Finds a mailbox by name; `INBOX` in any case.
    pub fn folder(&self, name: &str) -> Result<Option<Folder>> {
        let name = canonical_name(name);
        let designs = self.reading.folders()?;
        let Some(design) = designs.iter().find(|design| design.title == name) else { return Ok(None) };
        Ok(Some(folder(design, &self.subscriptions()?)))
    }

    /// Gives the names that the user is subscribed to, whether they exist or not.
    pub fn subscriptions(&self) -> Result<Vec<String>> {
        let summary = self.reading.summary(PROFILE_NOTE)?;
        let items = summary.as_ref().map_or(&[][..], |summary| &summary.items);
        Ok(notes::item::find(items, crate::mailbox::file::SUBSCRIPTIONS_ITEM)
            .map_or_else(Vec::new, |item| item.value.texts().to_vec()))
    }

    /// Gives counts and numbers of a mailbox.
    pub fn status(&self, folder: ViewId) -> Result<FolderStatus> {
        let reader = self.open(folder)?;
        let (state, totals) = (reader.state(), reader.totals()?);
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(FolderStatus {
            messages: count(totals.count),
            unseen: count(totals.unseen),
            deleted: count(totals.deleted),
            size: totals.size,
            uid_next: state.uid_next,
            uid_validity: state.uid_validity,
            highest_modseq: state.highest_modseq,
            mailbox_id: format!("F{:08x}{:08x}", folder.0, state.uid_validity),
        })
    }

    /// Gives the UID at a position, counted from 0.
    pub fn uid_at(&self, folder: ViewId, position: u32) -> Result<Option<Uid>> {
        Ok(self.open(folder)?.uid_at(u64::from(position))?)
    }

    /// Counts the messages with smaller UIDs.
    pub fn rank(&self, folder: ViewId, uid: Uid) -> Result<u32> {
        Ok(u32::try_from(self.open(folder)?.rank(uid)?).unwrap_or(u32::MAX))
    }

    /// Gives the first message that the owner has not read.
    pub fn first_unseen(&self, folder: ViewId) -> Result<Option<Uid>> {
        Ok(self.open(folder)?.unseen_at(0)?.map(|entry| entry.uid))
    }

    /// Gives the entry of a message.
    pub fn entry(&self, folder: ViewId, uid: Uid) -> Result<Option<Entry>> {
        Ok(self.open(folder)?.entry(uid)?)
    }

    /// Calls `each` for the messages from `first` to `last`, by rising UID, until it breaks.
    pub fn entries(
        &self,
        folder: ViewId,
        range: std::ops::RangeInclusive<Uid>,
        each: &mut dyn FnMut(Entry) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut failed = None;
        self.open(folder)?.each_entry(*range.start(), &mut |entry| {
            if entry.uid > *range.end() {
                return Ok(false);
            }
            match each(entry) {
                Ok(flow) => Ok(flow.is_continue()),
                Err(error) => {
                    failed = Some(error);
                    Ok(false)
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Tells what happened in a mailbox after `since`. Costs as much as happened in the mail file since.
    pub fn changes(&self, folder: ViewId, since: Modseq) -> Result<Changes> {
        let reader = self.open(folder)?;
        let modseq = self.reading.modseq();
        let complete = self.reading.is_complete_since(since);
        let mut changes = Changes { modseq, complete, ..Changes::default() };
        if reader.state().highest_modseq <= since {
            return Ok(changes);
        }
        let mut changed = Vec::new();
        self.reading.changes(since, &mut |entry| {
            let of_folder = |places: &[notes::Membership]| {
                places.iter().find(|place| place.folder == folder).map(|place| place.uid)
            };
            match &entry.change {
                Change::Changed { folders } => changed.extend(of_folder(folders)),
                Change::Deleted { folders, .. } => changes.vanished.extend(of_folder(folders)),
                Change::Left { from, .. } if from.folder == folder => changes.vanished.push(from.uid),
                Change::Left { .. } => {}
            }
            Ok(())
        })?;
        changes.vanished.sort_unstable();
        changes.vanished.dedup();
        changed.sort_unstable();
        for uid in changed {
            changes.changed.extend(reader.entry(uid)?);
        }
        Ok(changes)
    }

    /// Opens a message.
    pub fn message(&self, note: NoteId) -> Result<Option<Message<'_>>> {
        match self.reading.header(note)?.filter(|header| !header.is_stub()) {
            Some(header) => Message::open(&self.reading, header.note, self.heads).map(Some),
            None => Ok(None),
        }
    }

    /// Opens the message of an entry of this view, which says that it exists and whether Readers items may hide it.
    pub fn message_of(&self, entry: &Entry) -> Result<Option<Message<'_>>> {
        if entry.restricted {
            return self.message(entry.note);
        }
        Message::open(&self.reading, entry.note, self.heads).map(Some)
    }

    /// Asks the full-text index, for each of some texts, which messages do not hold it.
    ///
    /// # Errors
    ///
    /// Those of the index.
    pub fn lacking(&self, index: &Search, texts: &[Vec<Sought>]) -> search::Result<Vec<Lacking>> {
        index.lacking(&self.reading, texts)
    }

    /// Gives the flags of an entry by name.
    #[must_use]
    pub fn flags(&self, entry: &Entry) -> Flags {
        let names = entry.keywords.iter().filter_map(|keyword| self.keywords.name(*keyword));
        Flags { marks: entry.marks, keywords: names.map(str::to_owned).collect() }
    }

    /// Gives the keywords of the mail file, by number.
    #[must_use]
    pub fn keywords(&self) -> &Keywords {
        &self.keywords
    }

    fn open(&self, folder: ViewId) -> Result<notes::FolderReader<'_>> {
        self.reading.folder(folder).map_err(|error| match error {
            notes::Error::NotFound { .. } => Error::NoMailbox(format!("number {folder}")),
            other => other.into(),
        })
    }
}

fn folder(design: &FolderDesign, subscriptions: &[String]) -> Folder {
    Folder {
        id: design.view,
        name: design.title.clone(),
        special_use: design.attribute(crate::mailbox::file::SPECIAL_USE_ITEM).and_then(SpecialUse::from_name),
        subscribed: subscriptions.contains(&design.title),
        selectable: design.attribute(crate::mailbox::file::NO_SELECT_ITEM).is_none(),
    }
}

/// Gives a mailbox name with `INBOX`, alone or as the first level, in capitals.
#[must_use]
pub fn canonical_name(name: &str) -> String {
    let (first, rest) = name.split_once('/').map_or((name, None), |(first, rest)| (first, Some(rest)));
    match rest {
        _ if !first.eq_ignore_ascii_case("INBOX") => name.to_owned(),
        None => "INBOX".to_owned(),
        Some(rest) => format!("INBOX/{rest}"),
    }
}
