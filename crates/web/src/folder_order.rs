//! Pages of a folder as conversations, or in an order other than that of arrival, from the table of its mail file.
//!
//! The table (`mail::message_table`) has the messages in memory, follows their changes, and is shared with JMAP. The
//! lists of a folder follow them, too: only the first page of an order costs the folder, and each other one the page. A
//! conversation is the newest message of its thread in the folder.
//!
//! The lock of the table is taken before the snapshot, and released when the page is known ([`read`]), so the table
//! never gets ahead of the snapshot. Messages that another program has marked as deleted are not in the table.

use std::collections::HashSet;
use std::sync::Arc;

use base::{NoteId, ViewId};
use mail::mailbox::{MailFile, MailSnapshot};
use mail::message_table::{
    Arrangement, CollapsedTo, ListDefinition, MessageRow, MessageTable, MessageTables, RowComparator, RowFilter,
    RowOrder, SortProperty,
};
use notes::{FolderEntry, Marks};

use crate::error::Result;

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FolderOrder {
    /// The folder.
    pub(crate) folder: ViewId,
    /// What the rows are sorted by.
    pub(crate) property: SortProperty,
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
    let notes = order.notes(&mut table, &snapshot)?;
    let total = u32::try_from(notes.len()).unwrap_or(u32::MAX);
    let (first, count) = part(total);
    let mut page = FolderPage { total, rows: Vec::with_capacity(count as usize) };
    for position in first..total.min(first.saturating_add(count)) {
        let index = if order.is_ascending { position } else { total - 1 - position };
        let Some(row) = notes.get(index as usize).and_then(|note| table.row(*note)) else { continue };
        page.rows.extend(order.row(&table, &snapshot, row)?);
    }
    drop((notes, table));
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
    /// Returns all rows in ascending order. The list follows the table.
    fn notes(&self, table: &mut MessageTable, snapshot: &MailSnapshot<'_>) -> Result<Arc<Vec<NoteId>>> {
        let key = format!("web {} {} {:?}", self.folder, self.has_threads, self.property);
        if let Some(notes) = table.list_used(&key) {
            return Ok(notes);
        }
        let arrangement = Arrangement {
            order: RowOrder::new(vec![RowComparator::new(self.property, true)]),
            collapsed_to: self.has_threads.then_some(CollapsedTo::Newest),
        };
        let notes = Arc::new(arrangement.arrange(table.members(self.folder).collect(), snapshot)?);
        let definition = ListDefinition { key, filter: Box::new(InFolder(self.folder)), arrangement };
        table.keep_list(definition, Arc::clone(&notes));
        Ok(notes)
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
