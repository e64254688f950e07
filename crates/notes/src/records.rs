//! Reads of the stored records of a database, without checks of access except those that Readers items require.
//!
//! All readers and writers of a database use these functions, on a snapshot or on the store. A record that does not
//! match its format is an error that names the note.

use std::collections::HashMap;
use std::ops::Range;

use base::{DbNumber, NoteId, Pacer, Unid, ViewId};
use store::{Cursor, Direction, Table, TableReader};

use crate::acl::{ACL_ITEM, ACL_NOTE_ID, Acl};
use crate::counters::Counters;
use crate::database::Database;
use crate::error::{Error, Result, damaged};
use crate::folder::{self, FolderDesign};
use crate::grant::Grant;
use crate::instance::Instances;
use crate::item::{self, ContentPart, ContentPlace, Item, ItemValue};
use crate::keys::{self, SummaryRecord};
use crate::keyword::Keywords;
use crate::limits::{BODY_CHUNK_BYTES, STEPS_PER_LOOKUP};
use crate::note::{NoteClass, NoteFlags, NoteHeader, Summary};

/// Returns `true` if Readers items hide the note with this header from the holder of a grant.
pub(crate) fn is_hidden(
    reader: &dyn TableReader,
    database: &Database,
    grant: &Grant,
    header: &NoteHeader,
) -> Result<bool> {
    if grant.is_server_itself() || !header.flags.contains(NoteFlags::HAS_READERS) {
        return Ok(false);
    }
    let summary = load_summary(reader, database, header.note)?;
    match summary {
        Some(summary) => Ok(!grant.may_read(&summary.items)),
        // The Readers items are lost with the summary, so the stub is hidden from everybody: the existence of the note
        // must not leak.
        None if header.is_stub() => Ok(true),
        None => Err(damaged_note(database, header.note, "summary")),
    }
}

pub(crate) fn require_server_itself(database: &Database, grant: &Grant) -> Result<()> {
    if grant.is_server_itself() {
        return Ok(());
    }
    Err(Error::ServerOnly { database: database.path(), who: grant.display_name().to_owned() })
}

/// Fails unless the reader is a server, this one or another.
pub(crate) fn require_server(database: &Database, grant: &Grant) -> Result<()> {
    if grant.is_server() {
        return Ok(());
    }
    Err(Error::ServerOnly { database: database.path(), who: grant.display_name().to_owned() })
}

pub(crate) fn load_counters(reader: &dyn TableReader, database: DbNumber) -> Result<Counters> {
    let key = keys::counters(database);
    let value = reader.get(Table::Meta, &key)?.ok_or_else(|| damaged(Table::Meta, &key))?;
    Counters::decode(&value).map_err(|_| damaged(Table::Meta, &key))
}

/// Returns the direct responses of a note, without checking access.
pub(crate) fn load_children(reader: &dyn TableReader, database: DbNumber, parent: Unid) -> Result<Vec<NoteId>> {
    let mut cursor = reader.scan(Table::Children, &keys::children_of(database, parent), Direction::Forward)?;
    let mut found = Vec::new();
    while let Some((key, _)) = cursor.next()? {
        let note = key.get(20..24).and_then(|bytes| bytes.try_into().ok());
        found.push(NoteId::from_key(note.ok_or_else(|| damaged(Table::Children, key))?));
    }
    Ok(found)
}

pub(crate) fn load_header(reader: &dyn TableReader, database: &Database, note: NoteId) -> Result<Option<NoteHeader>> {
    let Some(value) = reader.get(Table::Summary, &keys::summary(database.number, note, SummaryRecord::Header))? else {
        return Ok(None);
    };
    NoteHeader::decode(note, &value).map(Some).map_err(|_| damaged_note(database, note, "header"))
}

pub(crate) fn load_summary(reader: &dyn TableReader, database: &Database, note: NoteId) -> Result<Option<Summary>> {
    let Some(value) = load_summary_bytes(reader, database, note)? else { return Ok(None) };
    Summary::decode(&value).map(Some).map_err(|_| damaged_note(database, note, "summary"))
}

/// Returns the header and the summary of a note with one lookup. Both records are adjacent.
pub(crate) fn load_header_and_summary(
    reader: &dyn TableReader,
    database: &Database,
    note: NoteId,
) -> Result<(Option<NoteHeader>, Option<Summary>)> {
    let (header, summary) = load_header_and_summary_bytes(reader, database, note)?;
    let summary = summary.map(|value| Summary::decode(&value)).transpose();
    Ok((header, summary.map_err(|_| damaged_note(database, note, "summary"))?))
}

/// Returns the header of a note and its summary record as stored.
pub(crate) fn load_header_and_summary_bytes(
    reader: &dyn TableReader,
    database: &Database,
    note: NoteId,
) -> Result<(Option<NoteHeader>, Option<Vec<u8>>)> {
    let [header, summary] =
        [SummaryRecord::Header, SummaryRecord::Summary].map(|part| keys::summary(database.number, note, part));
    let found = reader.multi_get(Table::Summary, &[&header, &summary])?;
    let [header, summary] = <[_; 2]>::try_from(found).expect("multi_get returns one value per key");
    let header = header.map(|value| NoteHeader::decode(note, &value)).transpose();
    Ok((header.map_err(|_| damaged_note(database, note, "header"))?, summary))
}

/// Returns a summary record as stored, for callers that read it without copying its texts.
pub(crate) fn load_summary_bytes(
    reader: &dyn TableReader,
    database: &Database,
    note: NoteId,
) -> Result<Option<Vec<u8>>> {
    Ok(reader.get(Table::Summary, &keys::summary(database.number, note, SummaryRecord::Summary))?)
}

pub(crate) fn load_body(
    reader: &dyn TableReader,
    database: &Database,
    note: NoteId,
    ordinal: u16,
) -> Result<Option<Item>> {
    let first = keys::body(database.number, note, ordinal, 0);
    let Some(mut bytes) = reader.get(Table::Body, &first)? else { return Ok(None) };
    if bytes.len() >= BODY_CHUNK_BYTES {
        append_chunks(reader, &keys::body_of_item(database.number, note, ordinal), &mut bytes)?;
    }
    let mut input = base::codec::Decoder::new(&bytes);
    Item::decode(&mut input).map(Some).map_err(|_| damaged_note(database, note, "body"))
}

/// Returns a part of the content of a body item, and the length of the content. Reads the first record of the item and
/// those that hold the part. Fails for items that are neither text nor bytes.
pub(crate) fn load_body_content(
    reader: &dyn TableReader,
    database: &Database,
    note: NoteId,
    ordinal: u16,
    range: Range<u64>,
) -> Result<Option<ContentPart>> {
    let load = |chunk| reader.get(Table::Body, &keys::body(database.number, note, ordinal, chunk));
    let damaged = || damaged_note(database, note, "body");
    let Some(first) = load(0)? else { return Ok(None) };
    let place = ContentPlace::find(&first).map_err(|_| damaged())?;
    let place = place.ok_or_else(|| Error::invalid("the item", "it is neither text nor a piece of a message"))?;
    let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(place.length);
    let end = place.start.saturating_add(within(range.end));
    let mut at = place.start.saturating_add(within(range.start));
    let mut content = Vec::new();
    while at < end {
        let chunk = at / BODY_CHUNK_BYTES;
        let chunk_start = chunk * BODY_CHUNK_BYTES;
        let chunk_end = end.min(chunk_start + BODY_CHUNK_BYTES);
        let stored = match u32::try_from(chunk).map_err(|_| damaged())? {
            0 => None,
            number => Some(load(number)?.ok_or_else(damaged)?),
        };
        let piece = stored.as_ref().unwrap_or(&first).get(at - chunk_start..chunk_end - chunk_start);
        content.extend_from_slice(piece.ok_or_else(damaged)?);
        at = chunk_end;
    }
    Ok(Some(ContentPart { bytes: content, length: place.length as u64, is_mime_part: place.is_mime_part }))
}

fn append_chunks(reader: &dyn TableReader, range: &store::KeyRange, bytes: &mut Vec<u8>) -> Result<()> {
    let mut cursor: Box<dyn Cursor> = reader.scan(Table::Body, range, Direction::Forward)?;
    let mut first = true;
    while let Some((_, value)) = cursor.next()? {
        if !std::mem::take(&mut first) {
            bytes.extend_from_slice(value);
        }
    }
    Ok(())
}

pub(crate) fn find(reader: &dyn TableReader, database: DbNumber, unid: Unid) -> Result<Option<NoteId>> {
    let key = keys::unid(database, unid);
    let Some(value) = reader.get(Table::Unid, &key)? else { return Ok(None) };
    let bytes = value.as_slice().try_into().map_err(|_| damaged(Table::Unid, &key))?;
    Ok(Some(NoteId::from_key(bytes)))
}

/// Returns the keywords. The table is empty if no keyword was ever defined.
pub(crate) fn load_keywords(reader: &dyn TableReader, database: DbNumber) -> Result<Keywords> {
    let key = keys::keywords(database);
    let Some(value) = reader.get(Table::Meta, &key)? else { return Ok(Keywords::default()) };
    Keywords::decode(&value).map_err(|_| damaged(Table::Meta, &key))
}

/// Returns the instances of a replica. A list that cannot be read counts as empty: peers then compare everything.
pub(crate) fn load_instances(reader: &dyn TableReader, database: DbNumber) -> Result<Instances> {
    let stored = reader.get(Table::Meta, &keys::instances(database))?;
    Ok(stored.and_then(|value| Instances::decode(&value).ok()).unwrap_or_default())
}

pub(crate) fn load_acl(reader: &dyn TableReader, database: &Database) -> Result<Acl> {
    let summary = load_summary(reader, database, ACL_NOTE_ID)?;
    let summary = summary.ok_or_else(|| damaged_note(database, ACL_NOTE_ID, "access control list"))?;
    match item::find_item(&summary.items, ACL_ITEM).map(|item| &item.value) {
        Some(ItemValue::MimePart(bytes)) => Acl::decode(bytes).ok(),
        _ => None,
    }
    .ok_or_else(|| damaged_note(database, ACL_NOTE_ID, "access control list"))
}

/// Returns the design notes of a class, in the order of their creation.
pub(crate) fn load_design_notes(
    reader: &dyn TableReader,
    database: &Database,
    class: NoteClass,
) -> Result<Vec<NoteId>> {
    let mut cursor = reader.scan(Table::Meta, &keys::designs(database.number), Direction::Forward)?;
    let mut notes = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        let note = key.get(5..9).and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| damaged(Table::Meta, key))?;
        let stored: [u8; 2] = value.try_into().map_err(|_| damaged(Table::Meta, key))?;
        if NoteClass(u16::from_be_bytes(stored)) == class {
            notes.push(NoteId::from_key(note));
        }
    }
    Ok(notes)
}

pub(crate) fn load_folders(
    reader: &dyn TableReader,
    database: &Database,
    pacer: &dyn Pacer,
) -> Result<Vec<FolderDesign>> {
    let mut folders = Vec::new();
    for note in load_design_notes(reader, database, NoteClass::VIEW)? {
        pacer.spend(STEPS_PER_LOOKUP)?;
        let summary = load_summary(reader, database, note)?;
        let summary = summary.ok_or_else(|| damaged_note(database, note, "summary"))?;
        folders.extend(folder_design(note, &summary.items));
    }
    distinguish_titles(reader, database, &mut folders)?;
    Ok(folders)
}

/// Separates the titles of folders with one title, which were created on servers that had not met: that with the
/// lowest UNID keeps the title, and the others are shown with eight digits of their UNIDs. So all servers show the
/// same titles, and nothing is saved that they would have to agree upon.
fn distinguish_titles(reader: &dyn TableReader, database: &Database, folders: &mut [FolderDesign]) -> Result<()> {
    let mut by_title: HashMap<(String, Option<String>), Vec<usize>> = HashMap::new();
    for (index, folder) in folders.iter().enumerate() {
        let owner = folder.owner().map(|owner| owner.canonical().to_lowercase());
        by_title.entry((folder.title.clone(), owner)).or_default().push(index);
    }
    for ((title, _), indexes) in by_title.into_iter().filter(|(_, indexes)| indexes.len() > 1) {
        let mut unids = Vec::with_capacity(indexes.len());
        for index in indexes {
            let header = load_header(reader, database, NoteId(folders[index].view.0))?;
            unids.push((header.map(|header| header.unid), index));
        }
        unids.sort_unstable();
        for (unid, index) in unids.into_iter().skip(1) {
            let digits = unid.map(|unid| unid.to_string()).unwrap_or_default();
            folders[index].title = format!("{title} ({})", digits.get(..8).unwrap_or_default());
        }
    }
    Ok(())
}

fn folder_design(note: NoteId, items: &[Item]) -> Option<FolderDesign> {
    let flags = item::find_item(items, folder::FLAGS_ITEM)?.value.text()?.to_owned();
    if !flags.contains('F') {
        return None;
    }
    let title = item::find_item(items, folder::TITLE_ITEM)?.value.text()?.to_owned();
    let own = [folder::FLAGS_ITEM, folder::TITLE_ITEM, folder::READERS_ITEM];
    let is_attribute = |item: &&Item| own.iter().all(|name| !item.is_named(name));
    let pair = |item: &Item| Some((item.name.clone(), item.value.text()?.to_owned()));
    let attributes = items.iter().filter(is_attribute).filter_map(pair).collect();
    Some(FolderDesign { view: ViewId(note.0), title, flags, attributes, readers: folder::readers_of(items) })
}

pub(crate) fn damaged_note(database: &Database, note: NoteId, record: &'static str) -> Error {
    Error::Damaged { database: database.path(), note, record }
}
