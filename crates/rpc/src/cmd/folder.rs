//! Folders: creating, renaming and deleting them, moving notes, and reading folders without columns as collections.

use base::{NoteId, Uid, ViewId};
use notes::{DatabaseSnapshot, FolderDesign, FolderEntry, FolderReader, Marks, level};
use prost::Message;
use proto::v1;

use super::note::{ENVELOPE_BYTES, find_all, reply_too_large};
use super::{CallContext, check_count};
use crate::convert;
use crate::error::{Error, Result};
use crate::limits::{
    ENTRIES_PER_REPLY_DEFAULT, ENTRIES_PER_REPLY_MAX, FOLDER_ITEMS_MAX, MESSAGE_BYTES_MAX, STEP_BYTES,
};
use crate::service::CallOutcome;

/// Creates a folder.
pub(crate) fn create(desk: &CallContext, request: v1::CreateFolderRequest) -> Result<CallOutcome<v1::View>> {
    let name = request.name;
    design(desk, request.database, |writer| {
        let (folder, flags) = match request.personal {
            true => (writer.folder_create_personal(&name, &[])?, "FV"),
            false => (writer.folder_create(&name, &[])?, "F"),
        };
        Ok(v1::View {
            view_id: folder.0,
            name: name.clone(),
            folder: true,
            flags: flags.to_owned(),
            ..v1::View::default()
        })
    })
}

/// Renames a folder.
pub(crate) fn rename(desk: &CallContext, request: v1::RenameFolderRequest) -> Result<CallOutcome<v1::View>> {
    let folder = open_and_find(desk, request.database.clone(), request.folder)?;
    design(desk, request.database, |writer| {
        writer.folder_rename(folder.view, &request.name)?;
        Ok(describe(&FolderDesign { title: request.name.clone(), ..folder.clone() }))
    })
}

/// Deletes a folder, which must be empty.
pub(crate) fn delete(
    desk: &CallContext,
    request: v1::DeleteFolderRequest,
) -> Result<CallOutcome<v1::DeleteFolderReply>> {
    let folder = open_and_find(desk, request.database.clone(), request.folder)?;
    design(desk, request.database, |writer| {
        match writer.folder_delete(folder.view) {
            Err(notes::Error::Invalid { .. }) => Err(Error::State("the folder is not empty".to_owned())),
            outcome => Ok(outcome?),
        }
        .map(|()| v1::DeleteFolderReply {})
    })
}

/// Adds notes to one folder and removes them from another.
pub(crate) fn move_notes(desk: &CallContext, request: v1::MoveNotesRequest) -> Result<CallOutcome<v1::MoveNotesReply>> {
    let access = desk.access_for_change::<level::Reader>(request.database)?;
    let (notes, into, out_of) = {
        let reader = access.downgrade::<level::Reader>();
        let reading = reader.read()?;
        let named = |key: Option<v1::ViewKey>| key.map(|key| find(&reading, Some(key))).transpose();
        (find_all(&reading, request.notes)?, named(request.into)?, named(request.out_of)?)
    };
    desk.write(&access, |writer| {
        for note in &notes {
            if let Some(folder) = &into {
                writer.folder_add(*note, folder.view)?;
            }
            if let Some(folder) = &out_of {
                writer.folder_remove(*note, folder.view)?;
            }
        }
        let moved = u32::try_from(notes.len()).unwrap_or(u32::MAX);
        Ok(v1::MoveNotesReply { moved, modseq: writer.modseq().0 })
    })
}

fn design<R>(
    desk: &CallContext,
    database: Option<v1::DatabaseKey>,
    change: impl FnOnce(&mut notes::Writer<'_, '_>) -> Result<R>,
) -> Result<CallOutcome<R>> {
    let access = desk.access_for_change::<level::Reader>(database)?;
    desk.write(&access, change)
}

fn open_and_find(
    desk: &CallContext,
    database: Option<v1::DatabaseKey>,
    key: Option<v1::ViewKey>,
) -> Result<FolderDesign> {
    let access = desk.access::<level::Reader>(database)?;
    find(&access.read()?, key)
}

/// Finds a folder by number or name. Returns an error if there is none.
pub(crate) fn find(reading: &DatabaseSnapshot<'_>, key: Option<v1::ViewKey>) -> Result<FolderDesign> {
    find_optional(reading, key.as_ref())?.ok_or_else(|| {
        let what = match key.and_then(|key| key.key) {
            Some(v1::view_key::Key::Name(name)) => format!("the view or folder {name:?}"),
            _ => "the view or folder".to_owned(),
        };
        notes::Error::not_found(what).into()
    })
}

/// Finds a folder by number or name. Returns `None` if there is none.
pub(crate) fn find_optional(reading: &DatabaseSnapshot<'_>, key: Option<&v1::ViewKey>) -> Result<Option<FolderDesign>> {
    let Some(key) = key.and_then(|key| key.key.as_ref()) else { return Err(Error::invalid("no view specified")) };
    let folders = reading.folders()?;
    let found = folders.iter().find(|folder| match key {
        v1::view_key::Key::ViewId(number) => folder.view == ViewId(*number),
        v1::view_key::Key::Name(name) => folder.title.eq_ignore_ascii_case(name),
    });
    Ok(found.cloned())
}

/// Describes a folder for the client.
pub(crate) fn describe(folder: &FolderDesign) -> v1::View {
    v1::View {
        view_id: folder.view.0,
        name: folder.title.clone(),
        folder: true,
        flags: folder.flags.clone(),
        ..v1::View::default()
    }
}

/// Returns the size of a folder as a collection.
pub(crate) fn open(reading: &DatabaseSnapshot<'_>, folder: &FolderDesign) -> Result<v1::Collection> {
    let totals = reading.folder(folder.view)?.totals()?;
    Ok(v1::Collection {
        view: Some(describe(folder)),
        documents: totals.count,
        entries: totals.count,
        modseq: reading.modseq().0,
        late: false,
        unread: totals.unseen,
        build: None,
        totals: Vec::new(),
    })
}

/// Reads entries of a folder in ascending order of UIDs, or in descending order if the navigator goes backwards.
pub(crate) fn read(
    reading: &DatabaseSnapshot<'_>,
    folder: &FolderDesign,
    request: &v1::ReadEntriesRequest,
) -> Result<v1::ReadEntriesReply> {
    check_count(request.items.len(), "items of a call", FOLDER_ITEMS_MAX)?;
    let reader = reading.folder(folder.view)?;
    let count = reader.totals()?.count;
    let way = Direction::of(request)?;
    let limit = match usize::try_from(request.count).unwrap_or(usize::MAX) {
        0 => ENTRIES_PER_REPLY_DEFAULT,
        limit => limit.min(ENTRIES_PER_REPLY_MAX),
    };
    let mut reply = v1::ReadEntriesReply { modseq: reading.modseq().0, ..v1::ReadEntriesReply::default() };
    let start = start(&reader, request, count)?;
    let (mut at, skipped) = skip(start, request, count)?;
    reply.skipped = skipped;
    let mut bytes = 0;
    while let Some(position) = at.filter(|position| *position < count) {
        if reply.entries.len() >= limit || bytes > STEP_BYTES {
            reply.more = true;
            reply.next = reader.uid_at(position)?.map(|uid| uid.to_key().to_vec()).unwrap_or_default();
            break;
        }
        let Some(uid) = reader.uid_at(position)? else { break };
        if let Some(entry) = reader.entry(uid)? {
            let entry = shown(reading, &entry, position, request)?;
            if entry.encoded_len() > MESSAGE_BYTES_MAX - STEP_BYTES - ENVELOPE_BYTES {
                return Err(reply_too_large());
            }
            bytes += entry.encoded_len();
            reply.entries.push(entry);
        }
        at = match way {
            Direction::Stay => None,
            Direction::Forward => position.checked_add(1),
            Direction::Backward => position.checked_sub(1),
        };
    }
    Ok(reply)
}

#[derive(Clone, Copy)]
enum Direction {
    Stay,
    Forward,
    Backward,
}

impl Direction {
    fn of(request: &v1::ReadEntriesRequest) -> Result<Self> {
        use v1::Navigator as N;
        match request.navigator() {
            N::Current => Ok(Self::Stay),
            N::Next | N::NextPeer | N::NextMain | N::NextExpanded => Ok(Self::Forward),
            N::Prev | N::PrevPeer | N::PrevMain | N::PrevExpanded => Ok(Self::Backward),
            _ => Err(Error::invalid("a folder without columns does not support this navigator")),
        }
    }
}

/// Returns the position at which reading starts, counted from 0.
fn start(reader: &FolderReader<'_>, request: &v1::ReadEntriesRequest, count: u64) -> Result<u64> {
    if !request.start_key.is_empty() {
        let key = request.start_key.as_slice().try_into();
        let key = key.map_err(|_| Error::invalid("the key of a folder entry must have 4 bytes"))?;
        return Ok(reader.rank(Uid::from_key(key))?);
    }
    let first = request.start.as_ref().and_then(|start| start.levels.first().copied()).map(u64::from);
    let row = if request.start_row > 0 { request.start_row } else { first.unwrap_or(1) };
    let _ = count;
    Ok(row.saturating_sub(1))
}

fn skip(start: u64, request: &v1::ReadEntriesRequest, count: u64) -> Result<(Option<u64>, u32)> {
    use v1::Navigator as N;
    let wanted = u64::from(request.skip_count);
    if wanted == 0 {
        return Ok((Some(start), 0));
    }
    let is_beginning = request.start.is_none() && request.start_key.is_empty() && request.start_row == 0;
    let end = match request.skip_navigator() {
        N::Next | N::NextPeer | N::NextMain | N::NextExpanded if request.skip_count == u32::MAX => count.checked_sub(1),
        N::Next | N::NextPeer | N::NextMain | N::NextExpanded => start.checked_add(wanted - u64::from(is_beginning)),
        N::Prev | N::PrevPeer | N::PrevMain | N::PrevExpanded => start.checked_sub(wanted),
        N::Current => Some(start),
        _ => return Err(Error::invalid("a folder without columns does not support this navigator")),
    };
    let moved = end.map_or(0, |end| end.abs_diff(start));
    Ok((end, u32::try_from(moved).unwrap_or(u32::MAX)))
}

fn shown(
    reading: &DatabaseSnapshot<'_>,
    entry: &FolderEntry,
    position: u64,
    request: &v1::ReadEntriesRequest,
) -> Result<v1::Entry> {
    let mask = request.mask.unwrap_or_default();
    let number = position.saturating_add(1);
    let levels = vec![u32::try_from(number).unwrap_or(u32::MAX)];
    let mut told = v1::Entry { note_id: entry.note.0, key: entry.uid.to_key().to_vec(), ..v1::Entry::default() };
    told.position = mask.position.then_some(v1::Tumbler { levels });
    told.row = if mask.row { number } else { 0 };
    told.unread = mask.unread && !reading.is_read(entry.note)?;
    told.marks = mask.marks.then(|| marks(reading, entry));
    if mask.unid {
        told.unid = unid(reading, entry.note)?;
    }
    if mask.values && !request.items.is_empty() {
        let summary = reading.summary(entry.note)?.unwrap_or_default();
        let value = |name: &String| {
            let item = summary.items.iter().find(|item| item.is_named(name));
            item.map_or_else(v1::Value::default, |item| convert::value_out(&item.value))
        };
        told.values = request.items.iter().map(value).collect();
    }
    Ok(told)
}

fn unid(reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<Vec<u8>> {
    Ok(reading.header(note)?.map(|header| header.unid.0.to_vec()).unwrap_or_default())
}

fn marks(reading: &DatabaseSnapshot<'_>, entry: &FolderEntry) -> v1::MailMarks {
    let has = |mark| entry.marks.has(mark);
    let keywords = reading.database().keywords();
    v1::MailMarks {
        uid: entry.uid.0,
        seen: has(Marks::SEEN),
        answered: has(Marks::ANSWERED),
        flagged: has(Marks::FLAGGED),
        deleted: has(Marks::DELETED),
        draft: has(Marks::DRAFT),
        keywords: entry.keywords.iter().filter_map(|keyword| keywords.name(*keyword)).map(str::to_owned).collect(),
        size_bytes: entry.size,
        received_us: entry.received.0,
    }
}
