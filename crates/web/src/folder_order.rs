//! Pages of a folder as conversations, or in an order other than that of arrival, from the table of its mail file.
//!
//! The table (`mail::message_table`) has the messages in memory, follows their changes, and is shared with JMAP. The
//! conversations of a folder are a list that follows them, too: a page of it costs the page. Another order is computed
//! once, and kept until a message changes. A conversation is the newest message of its thread in the folder.
//!
//! The lock of the table is taken before the snapshot, and released when the page is known ([`read`]), so the table
//! never gets ahead of the snapshot. Messages that another program has marked as deleted are not in the table.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use base::{NoteId, ViewId};
use mail::casemap::fold;
use mail::mailbox::{MailFile, MailSnapshot};
use mail::message_table::{ListDefinition, MessageRow, MessageTable, MessageTables, RowFilter};
use notes::{FolderEntry, Marks};

use crate::error::Result;

/// What a folder is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortKey {
    /// The time of arrival.
    Date,
    /// The first sender.
    From,
    /// The first recipient.
    To,
    /// The subject, without the beginnings that answers add.
    Subject,
    /// The size.
    Size,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FolderOrder {
    /// The folder.
    pub(crate) folder: ViewId,
    /// What the rows are sorted by.
    pub(crate) key: SortKey,
    /// `true` for the smallest first, which is the oldest for dates.
    pub(crate) is_ascending: bool,
    /// `true` if each row is a conversation.
    pub(crate) has_threads: bool,
}

/// A part of a list.
#[derive(Debug, Default)]
pub(crate) struct FolderPage {
    /// Number of rows of the whole list.
    pub(crate) total: u32,
    /// The rows.
    pub(crate) rows: Vec<FolderRow>,
}

/// A row of a list.
#[derive(Debug)]
pub(crate) struct FolderRow {
    /// The message, or the newest one of the conversation.
    pub(crate) entry: FolderEntry,
    /// Number of messages of the conversation in the folder. 1 in a list of messages.
    pub(crate) messages: u32,
    /// `true` if the message, or any of the conversation in the folder, is unread.
    pub(crate) is_unread: bool,
}

/// Reads a part of a list, and the snapshot that it agrees with. `part` gets the number of rows, and returns the
/// position of the first row of the part and its length.
pub(crate) fn read<'f>(
    tables: &MessageTables,
    file: &'f MailFile,
    order: FolderOrder,
    part: impl FnOnce(u32) -> (u32, u32),
) -> Result<(MailSnapshot<'f>, FolderPage)> {
    let table = tables.table(file.database().number(), file.depositor().grant()?.names_digest());
    let mut table = table.lock();
    let snapshot = file.snapshot()?;
    table.update(&snapshot, file)?;
    let sorted = order.sorted(&mut table, &snapshot);
    let total = u32::try_from(sorted.notes.len()).unwrap_or(u32::MAX);
    let (first, count) = part(total);
    let mut page = FolderPage { total, rows: Vec::with_capacity(count as usize) };
    for position in first..total.min(first.saturating_add(count)) {
        let index = if order.is_ascending == sorted.is_ascending { position } else { total - 1 - position };
        let Some(row) = sorted.notes.get(index as usize).and_then(|note| table.row(*note)) else { continue };
        page.rows.extend(order.row(&table, &snapshot, row)?);
    }
    drop((sorted, table));
    Ok((snapshot, page))
}

/// Returns the UIDs of all messages of conversations in a folder. `uids` are messages of them. Messages after `until`
/// are left out, because nobody has seen them.
pub(crate) fn uids_of_conversations(
    tables: &MessageTables,
    file: &MailFile,
    (folder, uids): (ViewId, &[u32]),
    until: u32,
) -> Result<Vec<u32>> {
    let table = tables.table(file.database().number(), file.depositor().grant()?.names_digest());
    let mut table = table.lock();
    let snapshot = file.snapshot()?;
    table.update(&snapshot, file)?;
    let mut notes: Vec<NoteId> = Vec::new();
    let mut threads = HashSet::new();
    let mut found = Vec::new();
    for uid in uids {
        let Some(entry) = snapshot.entry(folder, base::Uid(*uid))? else { continue };
        match table.row(entry.note) {
            Some(row) if threads.insert(Arc::clone(&row.thread)) => {
                notes.extend(in_thread(&table, &row.thread, folder).map(|other| other.note));
            }
            Some(_) => {}
            None => found.push(*uid),
        }
    }
    drop(table);
    for note in notes {
        found.extend(entry_of(&snapshot, folder, note)?.map(|entry| entry.uid.0).filter(|uid| *uid <= until));
    }
    Ok(found)
}

impl FolderOrder {
    /// Returns all rows in this order or in the opposite one.
    fn sorted(&self, table: &mut MessageTable, snapshot: &MailSnapshot<'_>) -> SortedRows {
        let conversations = self.has_threads.then(|| self.conversations(table));
        if let (SortKey::Date, Some(notes)) = (self.key, &conversations) {
            return SortedRows { notes: Arc::clone(notes), is_ascending: false };
        }
        let name = format!("web {} {} {:?}", self.folder, self.has_threads, self.key);
        if let Some(notes) = table.cached_query(&name) {
            return SortedRows { notes, is_ascending: true };
        }
        let rows: Vec<&MessageRow> = match &conversations {
            Some(notes) => notes.iter().filter_map(|note| table.row(*note)).collect(),
            None => table.members(self.folder).collect(),
        };
        let mut keyed: Vec<(Key, NoteId)> = rows.iter().map(|row| (self.key_of(row, snapshot), row.note)).collect();
        keyed.sort_unstable();
        let notes: Arc<Vec<NoteId>> = Arc::new(keyed.into_iter().map(|(_, note)| note).collect());
        table.cache_query(name, Arc::clone(&notes));
        SortedRows { notes, is_ascending: true }
    }

    /// Returns the newest message of each thread in the folder, the newest first. The list follows the table.
    fn conversations(&self, table: &mut MessageTable) -> Arc<Vec<NoteId>> {
        let name = format!("web {} conversations", self.folder);
        if let Some(notes) = table.list_used(&name) {
            return notes;
        }
        let mut rows: Vec<&MessageRow> = table.members(self.folder).collect();
        rows.sort_unstable_by(|one, other| newest_first(one, other));
        let mut threads = HashSet::new();
        let newest = rows.into_iter().filter(|row| threads.insert(&row.thread));
        let notes = Arc::new(newest.map(|row| row.note).collect::<Vec<_>>());
        let definition = ListDefinition {
            key: name,
            filter: Box::new(InFolder(self.folder)),
            is_ascending: false,
            collapses_threads: true,
        };
        table.keep_list(definition, Arc::clone(&notes));
        notes
    }

    fn key_of(&self, row: &MessageRow, snapshot: &MailSnapshot<'_>) -> Key {
        let texts = || {
            row.texts(snapshot, |error| {
                tracing::error!(target: "web", %error, email = %row.email_id, "a message cannot be read");
            })
        };
        match self.key {
            SortKey::Date => Key::Number(row.received.0.cast_unsigned() ^ 1 << 63),
            SortKey::Size => Key::Number(row.size),
            SortKey::From => Key::Text(fold(&texts().from)),
            SortKey::To => Key::Text(fold(&texts().to)),
            SortKey::Subject => Key::Text(texts().subject.clone()),
        }
    }

    /// Returns a row, or `None` if the message has left the folder.
    fn row(&self, table: &MessageTable, snapshot: &MailSnapshot<'_>, row: &MessageRow) -> Result<Option<FolderRow>> {
        let Some(entry) = entry_of(snapshot, self.folder, row.note)? else { return Ok(None) };
        if !self.has_threads {
            let is_unread = !entry.marks.contains(Marks::SEEN);
            return Ok(Some(FolderRow { entry, messages: 1, is_unread }));
        }
        let members: Vec<&MessageRow> = in_thread(table, &row.thread, self.folder).collect();
        let is_unread = members.iter().any(|member| !member.marks.contains(Marks::SEEN));
        let messages = u32::try_from(members.len()).unwrap_or(u32::MAX);
        Ok(Some(FolderRow { entry, messages, is_unread }))
    }
}

/// All rows of a list.
struct SortedRows {
    notes: Arc<Vec<NoteId>>,
    /// `true` if the smallest is the first.
    is_ascending: bool,
}

/// The key by which a row is sorted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Text(String),
}

/// The messages of a folder.
#[derive(Debug)]
struct InFolder(ViewId);

impl RowFilter for InFolder {
    fn matches(&self, row: &MessageRow, _: &MessageTable) -> bool {
        row.places.contains(&self.0)
    }

    fn depends_on_threads(&self) -> bool {
        false
    }
}

fn newest_first(one: &MessageRow, other: &MessageRow) -> Ordering {
    other.received.cmp(&one.received).then(one.note.cmp(&other.note))
}

/// Returns the messages of a thread in a folder.
fn in_thread<'t>(table: &'t MessageTable, thread: &str, folder: ViewId) -> impl Iterator<Item = &'t MessageRow> {
    table.thread(thread).filter(move |row| row.places.contains(&folder))
}

/// Returns the entry of a note in a folder.
fn entry_of(snapshot: &MailSnapshot<'_>, folder: ViewId, note: NoteId) -> Result<Option<FolderEntry>> {
    let Some(header) = snapshot.reading().header(note)? else { return Ok(None) };
    let Some(place) = header.folders.iter().find(|place| place.folder == folder) else { return Ok(None) };
    Ok(snapshot.entry(folder, place.uid)?)
}
