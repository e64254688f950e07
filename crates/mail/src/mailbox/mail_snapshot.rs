//! A snapshot of a mail file: mailboxes, counts, positions, entries, changes, messages.
//!
//! All data of one reply to a client comes from one [`MailSnapshot`], so the reply is consistent.
//! [`MailSnapshot::ticket`] must be durable before the reply is sent.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::{Modseq, NoteId, Uid, UidSet, Unid, ViewId};
use notes::change_log::{ChangeCursor, ChangeEntry, NoteChange};
use notes::item::ItemValueRef;
use notes::thread_index::thread_id_in;
use notes::{DatabaseSnapshot, FolderDesign, FolderEntry, FolderState, Keywords, Note, NoteHeader};
use search::{ExcludedNotes, FullTextIndex, SubstringKey};
use store::Ticket;

use crate::error::{Error, Result};
use crate::mailbox::Message;
use crate::mailbox::flags::Flags;
use crate::mailbox::head_cache::{HeadCache, SizedVersion};
use crate::mailbox::profile_cache::ProfileCache;
use crate::mailbox::quota::Quota;
use crate::mailbox::subscriptions;
use crate::message::MESSAGE_ID_ITEM;
use crate::mime::MimeSource;
use crate::mime::message_id::message_ids;
use crate::threads::computed_thread_id;

/// The special use of a mailbox (RFC 6154).
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
    /// Important messages (RFC 8457).
    Important,
    /// Junk mail.
    Junk,
    /// Sent messages.
    Sent,
    /// Deleted messages.
    Trash,
}

impl SpecialUse {
    const NAMES: [(Self, &'static str); 8] = [
        (Self::All, "\\All"),
        (Self::Archive, "\\Archive"),
        (Self::Drafts, "\\Drafts"),
        (Self::Flagged, "\\Flagged"),
        (Self::Important, "\\Important"),
        (Self::Junk, "\\Junk"),
        (Self::Sent, "\\Sent"),
        (Self::Trash, "\\Trash"),
    ];

    /// Returns the attribute of RFC 6154 or RFC 8457, such as `\Sent`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Parses the attribute of RFC 6154 or RFC 8457.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(special, _)| *special)
    }
}

/// A mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The view ID of the folder.
    pub id: ViewId,
    /// The name in UTF-8, with levels separated by `/`. The name of the inbox is `INBOX`.
    pub name: String,
    /// The special use, if the mailbox has one.
    pub special_use: Option<SpecialUse>,
    /// `true` if the mailbox can hold messages.
    pub selectable: bool,
}

/// The status of a mailbox: counts, UIDs, modseq and identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderStatus {
    /// Number of messages.
    pub messages: u32,
    /// Number of messages without `\Seen`.
    pub unseen: u32,
    /// Number of messages with `\Deleted`.
    pub deleted: u32,
    /// Number of bytes of all messages.
    pub size: u64,
    /// The UID of the next message.
    pub uid_next: Uid,
    /// UIDVALIDITY.
    pub uid_validity: u32,
    /// The modseq of the last change.
    pub highest_modseq: Modseq,
    /// HIGHESTMODSEQ, as clients see it.
    pub highest_client_modseq: u64,
    /// MAILBOXID (RFC 8474).
    pub mailbox_id: String,
}

/// A message that is new or has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedMessage {
    /// The UID.
    pub uid: Uid,
    /// The modseq of the last change.
    pub modseq: Modseq,
}

/// The changes in a mailbox since a modseq.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct MailboxChanges {
    /// UIDs of the messages that were removed.
    pub vanished: UidSet,
    /// New and changed messages, ascending by UID.
    pub changed: Vec<ChangedMessage>,
    /// The modseq up to which the changes are included.
    pub modseq: Modseq,
    /// `false` if the requested modseq is so old that the removals since then are no longer fully known.
    pub complete: bool,
}

/// Some of the changes in a mailbox, in the order of the change log.
#[derive(Clone, Debug, PartialEq)]
pub struct MailboxChangePage {
    /// Messages that were removed, with the modseqs of their removal.
    pub vanished: Vec<ChangedMessage>,
    /// New and changed messages.
    pub changed: Vec<ChangedMessage>,
    /// The place where the next page begins.
    pub next: ChangeCursor,
    /// `true` if the snapshot has no further changes.
    pub is_last: bool,
}

/// A snapshot of a mail file.
pub struct MailSnapshot<'f> {
    pub(crate) reading: DatabaseSnapshot<'f>,
    keywords: Arc<Keywords>,
    heads: &'f HeadCache,
    profiles: &'f ProfileCache,
}

impl<'f> MailSnapshot<'f> {
    pub(crate) fn new(reading: DatabaseSnapshot<'f>, heads: &'f HeadCache, profiles: &'f ProfileCache) -> Self {
        let keywords = reading.database().keywords();
        Self { reading, keywords, heads, profiles }
    }

    /// Returns the snapshot of the database.
    #[must_use]
    pub fn reading(&self) -> &DatabaseSnapshot<'f> {
        &self.reading
    }

    /// Returns the ticket that must be durable before a reply with data of this snapshot is sent.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.reading.ticket()
    }

    /// Returns the modseq of the last change anywhere in the mail file.
    #[must_use]
    pub fn modseq(&self) -> Modseq {
        self.reading.modseq()
    }

    /// Returns the usage and the quota of the mail file.
    #[must_use]
    pub fn quota(&self) -> Quota {
        Quota::of(&self.reading)
    }

    /// Returns a modseq as clients see it.
    #[must_use]
    pub fn client_modseq(&self, modseq: Modseq) -> u64 {
        self.reading.database().modseq_to_client(modseq)
    }

    /// Returns the greatest UID of a mailbox that a client may know, also from another server.
    pub fn last_uid_anywhere(&self, folder: ViewId) -> Result<Uid> {
        Ok(self.open(folder)?.last_uid_anywhere())
    }

    /// Returns the last change that a client knows that knows everything up to a modseq, or `None` if the modseq is not
    /// one of this replica, so that the client may lack any change.
    #[must_use]
    pub fn known_to_client(&self, modseq: u64) -> Option<Modseq> {
        self.reading.database().modseq_from_client(modseq)
    }

    /// Returns `true` if a change is at or after a modseq of a client, or may be.
    #[must_use]
    pub fn is_at_or_after(&self, change: Modseq, modseq: u64) -> bool {
        if let Some(known) = self.known_to_client(modseq) {
            return change >= known;
        }
        // Some clients ask for the next modseq after the last one that they know.
        self.known_to_client(modseq.saturating_sub(1)).is_none_or(|known| change > known)
    }

    /// Returns the modseq of the last change of a mailbox's name or properties, of the user's subscriptions, or of the
    /// ACL. While it is the same, so are [`MailSnapshot::folders`] and [`MailSnapshot::subscriptions`].
    pub fn design_modseq(&self) -> Result<Modseq> {
        Ok(self.reading.counters().design_modseq.max(subscriptions::personal_modseq(&self.reading)?))
    }

    /// Returns the mailboxes, the inbox first and the others by name.
    pub fn folders(&self) -> Result<Vec<Folder>> {
        let mut folders: Vec<Folder> = self.reading.folders()?.iter().map(folder).collect();
        folders.sort_by(|a, b| (a.name != "INBOX", &a.name).cmp(&(b.name != "INBOX", &b.name)));
        Ok(folders)
    }

    /// Returns the mailbox with a name. Case is ignored for `INBOX`.
    pub fn folder(&self, name: &str) -> Result<Option<Folder>> {
        let name = canonical_name(name);
        let designs = self.reading.folders()?;
        Ok(designs.iter().find(|design| design.title == name).map(folder))
    }

    /// Returns the mailbox with a view ID.
    pub fn folder_with_id(&self, id: ViewId) -> Result<Option<Folder>> {
        let designs = self.reading.folders()?;
        Ok(designs.iter().find(|design| design.view == id).map(folder))
    }

    /// Returns the names that the user is subscribed to. Those of the owner include names of mailboxes that do not
    /// exist.
    pub fn subscriptions(&self) -> Result<HashSet<String>> {
        subscriptions::names(&self.reading)
    }

    /// Returns the status of a mailbox.
    pub fn status(&self, folder: ViewId) -> Result<FolderStatus> {
        let reader = self.open(folder)?;
        let state = reader.state();
        let totals = reader.totals()?;
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(FolderStatus {
            messages: count(totals.count),
            unseen: count(totals.unseen),
            deleted: count(totals.deleted),
            size: totals.size,
            uid_next: state.uid_next,
            uid_validity: state.uid_validity,
            highest_modseq: state.highest_modseq,
            highest_client_modseq: self.client_modseq(state.highest_modseq),
            mailbox_id: self.mailbox_id(folder, &state)?,
        })
    }

    /// Returns MAILBOXID. If several servers share the UIDs of the mailbox, it is the same on all of them.
    fn mailbox_id(&self, folder: ViewId, state: &FolderState) -> Result<String> {
        if state.shared.is_some()
            && let Some(header) = self.reading.header(NoteId(folder.0))?
        {
            return Ok(format!("F{}", header.unid));
        }
        Ok(format!("F{:08x}{:08x}", folder.0, state.uid_validity))
    }

    /// Returns the UID at a position, counted from 0.
    pub fn uid_at(&self, folder: ViewId, position: u32) -> Result<Option<Uid>> {
        Ok(self.open(folder)?.uid_at(u64::from(position))?)
    }

    /// Returns the number of messages with smaller UIDs.
    pub fn rank(&self, folder: ViewId, uid: Uid) -> Result<u32> {
        Ok(u32::try_from(self.open(folder)?.rank(uid)?).unwrap_or(u32::MAX))
    }

    /// Returns the UID of the first message without `\Seen`.
    pub fn first_unseen(&self, folder: ViewId) -> Result<Option<Uid>> {
        Ok(self.open(folder)?.unseen_at(0)?.map(|entry| entry.uid))
    }

    /// Returns the entry of a message. Its size is that of the items if the message is composed
    /// ([`MailSnapshot::message_size`]).
    pub fn entry(&self, folder: ViewId, uid: Uid) -> Result<Option<FolderEntry>> {
        Ok(self.open(folder)?.entry(uid)?)
    }

    /// Returns the size of the message of an entry.
    ///
    /// A composed message is composed for it unless the size of this version is cached, which may take some
    /// milliseconds. One that is damaged or hidden has the size of its items.
    pub fn message_size(&self, entry: &FolderEntry) -> Result<u64> {
        if !entry.composed {
            return Ok(entry.size);
        }
        let Some(header) = self.reading.header(entry.note)? else { return Ok(entry.size) };
        let version = SizedVersion::of(&self.reading, &header);
        if let Some(size) = self.heads.size(&version) {
            return Ok(size);
        }
        match self.message_of(entry) {
            Ok(Some(message)) => {
                let size = message.structure().length();
                self.heads.cache_size(version, size);
                Ok(size)
            }
            Ok(None) => Ok(entry.size),
            Err(error) if error.is_damage() => Ok(entry.size),
            Err(error) => Err(error),
        }
    }

    /// Calls `each` for the messages in `range`, ascending by UID, until it breaks. The size of an entry is that of the
    /// items if the message is composed ([`MailSnapshot::message_size`]).
    pub fn entries(
        &self,
        folder: ViewId,
        range: std::ops::RangeInclusive<Uid>,
        each: &mut dyn FnMut(FolderEntry) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut failed = None;
        self.open(folder)?.for_each_entry(*range.start(), &mut |entry| {
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

    /// Returns `true` if a note has a UID in a folder.
    pub fn has_message(&self, folder: ViewId, uid: Uid, note: NoteId) -> Result<bool> {
        Ok(self.entry(folder, uid)?.is_some_and(|entry| entry.note == note))
    }

    /// Returns the changes in a mailbox after `since`. The cost depends on the number of changes in the whole mail file
    /// since then.
    pub fn changes(&self, folder: ViewId, since: Modseq) -> Result<MailboxChanges> {
        let reader = self.open(folder)?;
        let modseq = self.reading.modseq();
        let complete = self.reading.is_complete_since(since);
        let mut changes = MailboxChanges { modseq, complete, ..MailboxChanges::default() };
        if reader.state().highest_modseq <= since {
            return Ok(changes);
        }
        let mut vanished = Vec::new();
        self.reading.changes(since, &mut |entry| {
            changes.changed.extend(changed_in(&entry, folder));
            vanished.extend(vanished_from(&entry, folder));
            Ok(())
        })?;
        changes.vanished = vanished.into_iter().map(|message| message.uid).collect();
        changes.changed.sort_unstable();
        Ok(changes)
    }

    /// Returns the changes in a mailbox among the next `limit` changes of the mail file.
    ///
    /// A caller that continues from [`MailboxChangePage::next`] misses nothing, in a later snapshot too; a message that
    /// changed again is returned again. Whether the removals since a modseq are fully known is the result of
    /// [`MailSnapshot::is_complete_since`].
    pub fn changes_page(&self, folder: ViewId, from: ChangeCursor, limit: usize) -> Result<MailboxChangePage> {
        let modseq = self.reading.modseq();
        if self.open(folder)?.state().highest_modseq <= from.modseq {
            let next = ChangeCursor::after(modseq.max(from.modseq));
            return Ok(MailboxChangePage { vanished: Vec::new(), changed: Vec::new(), next, is_last: true });
        }
        let page = self.reading.changes_page(from, limit)?;
        Ok(MailboxChangePage {
            vanished: page.entries.iter().filter_map(|entry| vanished_from(entry, folder)).collect(),
            changed: page.entries.iter().filter_map(|entry| changed_in(entry, folder)).collect(),
            next: page.next,
            is_last: page.next.modseq >= modseq,
        })
    }

    /// Returns `true` if the removals after a modseq are fully known.
    #[must_use]
    pub fn is_complete_since(&self, since: Modseq) -> bool {
        self.reading.is_complete_since(since)
    }

    /// Opens a message. Returns `None` if the note does not exist, is a deletion stub, or is hidden from the reader.
    pub fn message(&self, note: NoteId) -> Result<Option<Message<'_>>> {
        match self.reading.header(note)?.filter(|header| !header.is_stub()) {
            Some(header) => Message::open(&self.reading, header.note, self.heads).map(Some),
            None => Ok(None),
        }
    }

    /// Opens the message of an entry of this snapshot. The entry proves that the message exists and states whether
    /// Readers items may hide it.
    pub fn message_of(&self, entry: &FolderEntry) -> Result<Option<Message<'_>>> {
        if entry.restricted {
            return self.message(entry.note);
        }
        Message::open(&self.reading, entry.note, self.heads).map(Some)
    }

    /// Calls `each` with the headers and the thread ids of those of the notes that exist and are visible, in the order
    /// of their note ids, until it breaks. No message is read, only the records that views read, too.
    pub fn threads(
        &self,
        notes: impl IntoIterator<Item = NoteId>,
        each: &mut dyn FnMut(&NoteHeader, &str) -> ControlFlow<()>,
    ) -> Result<()> {
        self.reading.for_each_summary(notes, &mut |header, items| {
            let flow = match thread_id_in(items) {
                Some(id) => each(&header, id),
                None => each(&header, &computed_thread_id(header.unid)),
            };
            Ok(flow.is_continue())
        })?;
        Ok(())
    }

    /// Calls `each` with those of the notes that exist, are visible and have a Message-ID, and with that id, without
    /// its angle brackets. Order and cost are those of [`MailSnapshot::threads`].
    pub fn message_ids(
        &self,
        notes: impl IntoIterator<Item = NoteId>,
        each: &mut dyn FnMut(NoteId, &[u8]),
    ) -> Result<()> {
        self.reading.for_each_summary(notes, &mut |header, items| {
            let item = items.iter().find(|item| item.name.eq_ignore_ascii_case(MESSAGE_ID_ITEM));
            if let Some(ItemValueRef::Text(field)) = item.map(|item| &item.value)
                && let Some(id) = message_ids(field.as_bytes()).next()
            {
                each(header.note, id);
            }
            Ok(true)
        })?;
        Ok(())
    }

    /// Returns, for each of several texts, the messages that do not contain it according to the full-text index.
    ///
    /// # Errors
    ///
    /// Returns the errors of the index.
    pub fn messages_without(
        &self,
        index: &FullTextIndex,
        texts: &[Vec<SubstringKey>],
    ) -> search::Result<Vec<ExcludedNotes>> {
        index.excluded_notes(&self.reading, texts)
    }

    /// Returns a profile document by its universal identifier, or `None` if it is absent or hidden.
    pub(crate) fn profile(&self, unid: Unid) -> Result<Option<Arc<Note>>> {
        let note = self.reading.find(unid)?;
        Ok(note.map(|note| self.profiles.get(&self.reading, note)).transpose()?.flatten())
    }

    /// Returns the flags of an entry by name.
    #[must_use]
    pub fn flags(&self, entry: &FolderEntry) -> Flags {
        let names = entry.keywords.iter().filter_map(|keyword| self.keywords.name(*keyword));
        Flags { marks: entry.marks, keywords: names.map(str::to_owned).collect() }
    }

    /// Returns the keywords of the mail file, by number.
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

/// Returns the message of a mailbox that an entry of the change log reports as new or changed.
fn changed_in(entry: &ChangeEntry, folder: ViewId) -> Option<ChangedMessage> {
    let NoteChange::Changed { folders } = &entry.change else { return None };
    let place = folders.iter().find(|place| place.folder == folder)?;
    Some(ChangedMessage { uid: place.uid, modseq: entry.modseq })
}

/// Returns the message that an entry of the change log reports as removed from a mailbox.
fn vanished_from(entry: &ChangeEntry, folder: ViewId) -> Option<ChangedMessage> {
    let place = match &entry.change {
        NoteChange::Changed { .. } => return None,
        NoteChange::Deleted { folders, .. } => folders.iter().find(|place| place.folder == folder)?,
        NoteChange::Left { from, .. } => Some(from).filter(|place| place.folder == folder)?,
    };
    Some(ChangedMessage { uid: place.uid, modseq: entry.modseq })
}

fn folder(design: &FolderDesign) -> Folder {
    Folder {
        id: design.view,
        name: design.title.clone(),
        special_use: design.attribute(crate::mailbox::file::SPECIAL_USE_ITEM).and_then(SpecialUse::from_name),
        selectable: design.attribute(crate::mailbox::file::NO_SELECT_ITEM).is_none(),
    }
}

/// Returns a mailbox name with `INBOX`, alone or as the first level, in capitals.
#[must_use]
pub fn canonical_name(name: &str) -> String {
    let (first, rest) = name.split_at(name.find('/').unwrap_or(name.len()));
    if first.eq_ignore_ascii_case("INBOX") { format!("INBOX{rest}") } else { name.to_owned() }
}
