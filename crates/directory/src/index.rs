//! The index of the directory: persistent, from keys ([`crate::key`]) to notes, in O(log n).
//!
//! The index is the collection of one view of `names.nsf`, the hidden view `($Lookup)`. Its design note has a fixed
//! UNID, by which it is found. The key of an entry is the text of a [`LookupKey`], a zero byte and the note ID; its
//! value is empty. So several notes may have the same key, for example after two additions on different servers. The
//! note with the lowest UNID takes precedence, which is the same on all servers, and a warning names them. Documents of
//! one server count together. In addition, the table `viewback` holds the keys of each note, so that its entries can be
//! removed even if the note has changed or is gone.
//!
//! The state of the collection is the modseq up to which the index is up to date. Changes by this crate update notes
//! and index in one batch. Changes from other sources leave the index behind. The next lookup detects this, because the
//! modseq of its snapshot is greater, and updates the index from the changes in modseq order
//! ([`IndexWriter::catch_up`]).
//!
//! The byte formats are described in `docs/directory.md`.

use std::collections::HashMap;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, NoteId, Unid, ViewId};
use collection::{CollectionId, CollectionReader, CollectionWriter, CountOnly};
use notes::change_log::NoteChange;
use notes::{DatabaseSnapshot, Item, NewNote, NoteClass, Transaction};
use store::engine::prefix_end;
use store::{Batch, Direction, KeyRange, Store, Table, TableReader};

use crate::error::{Error, Result};
use crate::key::LookupKey;
use crate::limits::{CATCH_UP_NOTES_MAX, HOLDERS_COMPARED_MAX};
use crate::record::Record;

/// Title of the view.
const TITLE: &str = "($Lookup)";

/// Version of the records of the index. An index with another version is rebuilt.
const VERSION: u8 = 2;

/// Returns the UNID of the view's design note, which is the same in all directories.
fn design_unid() -> Unid {
    Unid(*b"Doublet($Lookup)")
}

/// Returns the view's design note for a new directory.
pub(crate) fn design_note() -> NewNote {
    let items = vec![Item::text(notes::folder::TITLE_ITEM, TITLE), Item::text(notes::folder::FLAGS_ITEM, "Y")];
    NewNote { unid: Some(design_unid()), ..NewNote::of_class(NoteClass::VIEW, items) }
}

/// Returns the view of the index, or `None` if its design note does not exist.
pub(crate) fn find_view(reading: &DatabaseSnapshot<'_>) -> Result<Option<ViewId>> {
    Ok(reading.find(design_unid())?.map(|note| ViewId(note.0)))
}

/// The index in a snapshot.
pub(crate) struct IndexReader<'r> {
    reading: &'r DatabaseSnapshot<'r>,
    entries: CollectionReader<'r>,
}

impl<'r> IndexReader<'r> {
    pub(crate) fn open(reading: &'r DatabaseSnapshot<'r>, view: ViewId) -> Result<Self> {
        let id = CollectionId::new(reading.database().number(), view);
        Ok(Self { reading, entries: CollectionReader::open(reading.snapshot()?, id)? })
    }

    /// Returns `true` if the index contains all changes in the snapshot.
    pub(crate) fn is_current(&self) -> bool {
        decode_indexed_modseq(self.entries.state()) >= self.reading.modseq()
    }

    /// Returns the notes with a key, at most `limit` of them.
    pub(crate) fn holders(&self, key: &LookupKey, limit: usize) -> Result<Vec<NoteId>> {
        let mut scan = self.entries.scan(&KeyRange::prefix(&entry_prefix(key)), Direction::Forward)?;
        let mut found = Vec::new();
        while found.len() < limit {
            let Some((entry, _)) = scan.next()? else { break };
            found.push(note_of(entry)?);
        }
        Ok(found)
    }

    /// Returns the number of entries with a key that begins with the given key, such as the key of a list.
    pub(crate) fn count_prefix(&self, key: &LookupKey) -> Result<u64> {
        let range = KeyRange::prefix(key.text().as_bytes());
        Ok(self.entries.count_range(&range.start, range.end.as_deref())?)
    }

    /// Returns a page of the notes with a key that begins with the given key, in key order.
    pub(crate) fn page_prefix(&self, key: &LookupKey, position: u64, limit: usize) -> Result<Vec<NoteId>> {
        let count = self.count_prefix(key)?;
        let left = usize::try_from(count.saturating_sub(position)).unwrap_or(usize::MAX);
        let first = self.entries.rank(key.text().as_bytes())?.saturating_add(position);
        let page = self.entries.page(first, limit.min(left))?;
        page.iter().map(|entry| note_of(&entry.key)).collect()
    }

    /// Returns the record of a note, or `None` if the note does not exist or is not a directory record.
    pub(crate) fn record(&self, note: NoteId) -> Result<Option<Record>> {
        let Some(found) = self.reading.note(note)? else { return Ok(None) };
        Ok(Record::read(&found.header, &found.items))
    }

    /// Returns the record of the note with a key or, if there are several, of the one with the lowest UNID
    /// ([`Record::of_holders`]).
    pub(crate) fn first(&self, key: &LookupKey) -> Result<Option<Record>> {
        let holders = self.holders(key, HOLDERS_COMPARED_MAX)?;
        let unid_of = |note| Ok(self.reading.header(note)?.map(|header| header.unid));
        match lowest(&holders, unid_of)? {
            Some(note) => Record::of_holders(&holders, note, |note| self.record(note)),
            None => Ok(None),
        }
    }
}

/// The index within a transaction.
pub(crate) struct IndexWriter<'t> {
    store: &'t Store,
    id: CollectionId,
    entries: CollectionWriter<'t>,
    /// The keys that this transaction has set, by note.
    pending_keys: HashMap<NoteId, Vec<String>>,
}

impl<'t> IndexWriter<'t> {
    pub(crate) fn open(store: &'t Store, database: DbNumber, view: ViewId) -> Result<Self> {
        let id = CollectionId::new(database, view);
        Ok(Self { store, id, entries: CollectionWriter::open(store, id, &CountOnly)?, pending_keys: HashMap::new() })
    }

    /// Returns the modseq up to which the index is up to date.
    pub(crate) fn indexed_modseq(&self) -> Modseq {
        decode_indexed_modseq(self.entries.state())
    }

    /// Returns the notes with a key. Includes the changes of this transaction.
    pub(crate) fn holders(&self, key: &LookupKey) -> Result<Vec<NoteId>> {
        self.holders_of_prefix(&entry_prefix(key))
    }

    /// Returns the notes with a key that begins with the given key, in key order.
    pub(crate) fn notes_with_key_prefix(&self, key: &LookupKey) -> Result<Vec<NoteId>> {
        self.holders_of_prefix(key.text().as_bytes())
    }

    /// Sets the keys of a note. An empty list removes the note from the index.
    pub(crate) fn put(&mut self, batch: &mut Batch, note: NoteId, keys: &[LookupKey]) -> Result<()> {
        let back = self.back_key(note);
        let old = match self.pending_keys.remove(&note) {
            Some(given) => given,
            None => self.stored_keys(note, &back)?,
        };
        for key in old.iter().filter(|key| keys.binary_search_by(|new| new.text().cmp(key)).is_err()) {
            self.entries.remove(&entry_key(key, note))?;
        }
        for key in keys {
            self.entries.put(&entry_key(key.text(), note), &[])?;
        }
        if keys.is_empty() {
            batch.delete(Table::ViewBack, &back);
        } else {
            batch.put(Table::ViewBack, &back, &encode_keys(keys));
        }
        self.pending_keys.insert(note, keys.iter().map(|key| key.text().to_owned()).collect());
        Ok(())
    }

    /// Adds the changes that other writers made, as seen by `reading`. Returns `true` if all of them were added.
    pub(crate) fn catch_up(&mut self, batch: &mut Batch, reading: &DatabaseSnapshot<'_>) -> Result<bool> {
        let mut changed: Vec<(Modseq, NoteId)> = Vec::new();
        reading.changes(self.indexed_modseq(), &mut |entry| {
            if !matches!(entry.change, NoteChange::Left { .. }) {
                changed.push((entry.modseq, entry.note));
            }
            Ok(())
        })?;
        let end = whole_transactions(&changed, CATCH_UP_NOTES_MAX);
        for (_, note) in &changed[..end] {
            let record = match reading.note(*note)? {
                Some(found) => Record::read(&found.header, &found.items),
                None => None,
            };
            let keys = record.as_ref().map(Record::keys).unwrap_or_default();
            self.put(batch, *note, &keys)?;
            self.report_shared_keys(reading, *note, record.as_ref())?;
        }
        let complete = end == changed.len();
        let upto = if complete { reading.modseq() } else { changed[..end].last().map_or(Modseq(0), |last| last.0) };
        self.set_indexed_modseq(upto);
        Ok(complete)
    }

    /// Logs a warning if another note has a key that only one should have: both were added on different servers.
    fn report_shared_keys(&self, reading: &DatabaseSnapshot<'_>, note: NoteId, record: Option<&Record>) -> Result<()> {
        for key in record.map(Record::unique_keys).unwrap_or_default() {
            let holders = self.holders(&key)?;
            if holders.len() < 2 {
                continue;
            }
            let unid_of = |note| Ok(reading.header(note)?.map(|header| header.unid));
            let counts = lowest(&holders, unid_of)?.map(unid_of).transpose()?.flatten();
            let others = holders.iter().filter_map(|holder| unid_of(*holder).ok().flatten());
            let others: Vec<String> =
                others.filter(|unid| Some(*unid) != counts).map(|unid| unid.to_string()).collect();
            let advice = match record {
                Some(Record::Server(_)) => "they count together, and `doublet server set` makes one of them",
                _ => "rename or delete all but one",
            };
            tracing::warn!(
                target: "directory",
                %note,
                key = %key.describe(),
                counts = counts.map(|unid| unid.to_string()),
                others = others.join(" "),
                "several notes of the directory have the same key; {advice}"
            );
        }
        Ok(())
    }

    /// Records the modseq up to which the index is up to date.
    pub(crate) fn set_indexed_modseq(&mut self, modseq: Modseq) {
        let mut state = Encoder::with_capacity(9);
        state.u8(VERSION).u64(modseq.0);
        self.entries.set_state(&state.finish());
    }

    /// Writes the changes to the batch.
    pub(crate) fn finish(self, batch: &mut Batch) -> Result<()> {
        Ok(self.entries.finish(batch)?)
    }

    fn holders_of_prefix(&self, prefix: &[u8]) -> Result<Vec<NoteId>> {
        let mut found = Vec::new();
        self.entries.visit(prefix, prefix_end(prefix).as_deref(), |entry, _| {
            found.push(note_of(entry));
            Ok(())
        })?;
        found.into_iter().collect()
    }

    fn stored_keys(&self, note: NoteId, back: &[u8]) -> Result<Vec<String>> {
        let stored = self.store.get(Table::ViewBack, back)?;
        let keys = stored.as_deref().map_or_else(|| Ok(Vec::new()), decode_keys);
        keys.map_err(|_| Error::Damaged { note, damage: "its index keys cannot be read".to_owned() })
    }

    fn back_key(&self, note: NoteId) -> Vec<u8> {
        [&back_prefix(self.id)[..], &note.to_key()].concat()
    }
}

/// Removes the index, so that it is rebuilt from the notes.
pub(crate) fn remove(transaction: &mut Transaction<'_>, view: ViewId) -> Result<()> {
    let id = CollectionId::new(transaction.writer(0).database().number(), view);
    let mut writer = transaction.writer(0);
    let batch = writer.batch()?;
    id.remove_all(batch);
    let prefix = back_prefix(id);
    let end = prefix_end(&prefix).expect("view numbers stay far below the maximum");
    batch.delete_range(Table::ViewBack, &prefix, &end);
    Ok(())
}

/// Returns the number of changes to process at once: about `limit`, and only complete transactions.
fn whole_transactions(changed: &[(Modseq, NoteId)], limit: usize) -> usize {
    let Some((last, _)) = limit.checked_sub(1).and_then(|index| changed.get(index)) else { return changed.len() };
    changed.partition_point(|(modseq, _)| modseq <= last)
}

/// Returns the note that counts of those with a key: the one with the lowest UNID, so that all servers choose the same.
pub(crate) fn lowest(
    holders: &[NoteId],
    mut unid_of: impl FnMut(NoteId) -> Result<Option<Unid>>,
) -> Result<Option<NoteId>> {
    if let [] | [_] = holders {
        return Ok(holders.first().copied());
    }
    let mut found: Option<(Unid, NoteId)> = None;
    for note in holders {
        if let Some(unid) = unid_of(*note)? {
            found = Some(found.map_or((unid, *note), |before| before.min((unid, *note))));
        }
    }
    Ok(found.map(|(_, note)| note))
}

fn decode_indexed_modseq(state: &[u8]) -> Modseq {
    let mut input = Decoder::new(state);
    match (input.u8(), input.u64()) {
        (Ok(VERSION), Ok(modseq)) => Modseq(modseq),
        _ => Modseq(0),
    }
}

fn back_prefix(id: CollectionId) -> [u8; 8] {
    let mut prefix = [0; 8];
    prefix[..4].copy_from_slice(&id.database.to_key());
    prefix[4..].copy_from_slice(&id.view.to_key());
    prefix
}

/// Returns the common prefix of the entries of all notes with a key.
fn entry_prefix(key: &LookupKey) -> Vec<u8> {
    [key.text().as_bytes(), &[0]].concat()
}

fn entry_key(key: &str, note: NoteId) -> Vec<u8> {
    [key.as_bytes(), &[0], &note.to_key()].concat()
}

fn note_of(entry: &[u8]) -> Result<NoteId> {
    let note = entry.last_chunk::<4>().copied().map(NoteId::from_key);
    note.ok_or_else(|| Error::Damaged { note: NoteId(0), damage: "an index entry has no note ID".to_owned() })
}

fn encode_keys(keys: &[LookupKey]) -> Vec<u8> {
    let mut out = Encoder::new();
    out.u8(VERSION).varint(keys.len() as u64);
    for key in keys {
        out.text(key.text());
    }
    out.finish()
}

fn decode_keys(bytes: &[u8]) -> std::result::Result<Vec<String>, InvalidRecord> {
    let mut input = Decoder::new(bytes);
    if input.u8()? != VERSION {
        return Err(InvalidRecord);
    }
    let count = input.count()?;
    (0..count).map(|_| Ok(input.text()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_note_read_back() {
        let keys = [LookupKey::name("ann"), LookupKey::domain("acme.test")];
        let texts: Vec<String> = keys.iter().map(|key| key.text().to_owned()).collect();
        assert_eq!(decode_keys(&encode_keys(&keys)), Ok(texts));
        assert_eq!(decode_keys(&[9, 0]), Err(InvalidRecord));
        assert_eq!(decode_keys(&[1, 200, 1]), Err(InvalidRecord));
    }

    #[test]
    fn transactions_are_never_split() {
        let changed: Vec<(Modseq, NoteId)> =
            [1, 1, 2, 2, 2, 3].iter().zip(0..).map(|(&modseq, note)| (Modseq(modseq), NoteId(note))).collect();
        let check = |limit, expected| assert_eq!(whole_transactions(&changed, limit), expected, "limit {limit}");
        check(1, 2);
        check(2, 2);
        check(3, 5);
        check(6, 6);
        check(100, 6);
        assert_eq!(whole_transactions(&[], 10), 0);
    }

    #[test]
    fn index_of_another_version_is_out_of_date() {
        assert_eq!(decode_indexed_modseq(&[]), Modseq(0));
        assert_eq!(decode_indexed_modseq(&[VERSION, 0, 0, 0, 0, 0, 0, 0, 7]), Modseq(7));
        assert_eq!(decode_indexed_modseq(&[VERSION + 1, 0, 0, 0, 0, 0, 0, 0, 7]), Modseq(0));
    }

    #[test]
    fn entries_end_with_their_note() {
        let key = LookupKey::name("ann");
        let entry = entry_key(key.text(), NoteId(0x0100));
        assert!(entry.starts_with(&entry_prefix(&key)));
        assert_eq!(note_of(&entry).ok(), Some(NoteId(0x0100)));
        assert!(note_of(&[1]).is_err());
    }
}
