//! A change of the directory: one transaction over notes and index.
//!
//! A [`DirectoryTransaction`] begins by taking the lock of the database and bringing the index up to date, so that its
//! lookups reflect the current state. It sees its own changes of the index, but not of notes: an operation reads what
//! it needs first and saves each note once. During an edit, the operation must not use lookups of the [`Directory`],
//! which may need the same lock. An edit that is dropped without [`DirectoryTransaction::commit`] changes nothing.
//!
//! Invariant for everything that is saved here: no two notes share a unique key.

use base::NoteId;
use notes::{NewNote, Transaction};
use store::{Batch, Ticket};

use crate::address::Address;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::index::{self, IndexWriter};
use crate::key::LookupKey;
use crate::record::Record;

/// A change of the directory in progress.
pub(crate) struct DirectoryTransaction<'d> {
    transaction: Transaction<'d>,
    index: IndexWriter<'d>,
    /// Whether there is anything to commit.
    changed: bool,
}

impl<'d> DirectoryTransaction<'d> {
    /// Begins a change and brings the index up to date.
    pub(crate) fn begin(directory: &'d Directory) -> Result<Self> {
        loop {
            let mut edit = Self::open(directory)?;
            let reading = directory.read()?;
            if edit.index.indexed_modseq() >= reading.modseq() {
                return Ok(edit);
            }
            if edit.needs_rebuild(reading.counters().purged_modseq) {
                index::remove(&mut edit.transaction, directory.view())?;
                drop(edit.index);
                edit.transaction.commit()?;
                continue;
            }
            let mut writer = edit.transaction.writer(0);
            let complete = edit.index.catch_up(writer.batch()?, &reading)?;
            edit.changed = true;
            if complete {
                return Ok(edit);
            }
            edit.commit_partial_index()?;
        }
    }

    fn open(directory: &'d Directory) -> Result<Self> {
        let mut transaction = directory.transaction()?;
        let number = transaction.writer(0).database().number();
        let index = IndexWriter::open(directory.store(), number, directory.view())?;
        Ok(Self { transaction, index, changed: false })
    }

    /// Returns `true` if deletions that the index has not seen are purged, so that it would keep entries of deleted
    /// notes.
    fn needs_rebuild(&self, purged: base::Modseq) -> bool {
        let upto = self.index.indexed_modseq();
        upto.0 > 0 && upto < purged
    }

    /// Returns the record of the note with a key or, if there are several, of the one with the lowest UNID
    /// ([`Record::of_holders`]).
    pub(crate) fn find(&mut self, key: &LookupKey) -> Result<Option<Record>> {
        let holders = self.index.holders(key)?;
        let mut writer = self.transaction.writer(0);
        match index::lowest(&holders, |note| Ok(writer.header(note)?.map(|header| header.unid)))? {
            Some(note) => Record::of_holders(&holders, note, |note| self.record(note)),
            None => Ok(None),
        }
    }

    /// Returns the record with a name or an address. If the domain of an address is an alias, the address is also
    /// looked up in the main domain.
    pub(crate) fn find_named(&mut self, text: &str) -> Result<Option<Record>> {
        let Ok(address) = Address::parse(text.trim()) else { return self.find(&LookupKey::name(text)) };
        if let Some(found) = self.find(&LookupKey::address(&address))? {
            return Ok(Some(found));
        }
        match self.find(&LookupKey::domain(address.domain()))? {
            Some(Record::Domain(domain)) => self.find(&LookupKey::address(&address.in_domain(&domain.name))),
            _ => Ok(None),
        }
    }

    /// Returns the notes with a key that begins with the given key, in key order.
    pub(crate) fn find_beginning(&mut self, key: &LookupKey) -> Result<Vec<NoteId>> {
        self.index.notes_with_key_prefix(key)
    }

    /// Returns the notes with a key.
    pub(crate) fn notes_with_key(&self, key: &LookupKey) -> Result<Vec<NoteId>> {
        self.index.holders(key)
    }

    /// Returns `true` if no note has a key.
    pub(crate) fn is_free(&self, key: &LookupKey) -> Result<bool> {
        Ok(self.index.holders(key)?.is_empty())
    }

    /// Returns the record of a note as it was before this change.
    pub(crate) fn record(&mut self, note: NoteId) -> Result<Option<Record>> {
        let Some(found) = self.transaction.writer(0).note(note)? else { return Ok(None) };
        Ok(Record::read(&found.header, &found.items))
    }

    /// Returns an error unless the domain of an address is local.
    pub(crate) fn require_local(&self, address: &Address) -> Result<()> {
        let local = !self.is_free(&LookupKey::domain(address.domain()))?;
        if local { Ok(()) } else { Err(Error::DomainUnknown { domain: address.domain().to_owned() }) }
    }

    /// Creates the note of a record, or updates it if the record has a note ID. Returns the note ID.
    ///
    /// Returns [`Error::AlreadyTaken`] if another note has one of the record's unique keys. A server or group that has
    /// the key already, because two servers have made documents of one name, can be changed nevertheless: otherwise
    /// nobody could be excluded any more.
    pub(crate) fn save(&mut self, record: &Record) -> Result<NoteId> {
        record.check()?;
        self.require_unique(record)?;
        self.changed = true;
        let mut writer = self.transaction.writer(0);
        let note = if record.note() == NoteId(0) {
            let mut items = Vec::new();
            record.write(&mut items);
            writer.note_create(NewNote::document(items))?
        } else {
            let note = record.note();
            let stored = writer.note(note)?.ok_or_else(|| Error::not_found(record.label()))?;
            let mut items = stored.items;
            record.write(&mut items);
            writer.note_update(note, stored.header.revision(), &items, &[])?;
            note
        };
        self.index.put(writer.batch()?, note, &record.keys())?;
        Ok(note)
    }

    /// Deletes a note.
    pub(crate) fn remove(&mut self, note: NoteId) -> Result<()> {
        self.changed = true;
        let mut writer = self.transaction.writer(0);
        writer.note_delete(note)?;
        self.index.put(writer.batch()?, note, &[])
    }

    /// Adds a change of data outside this database to the batch of this edit.
    pub(crate) fn add_to_batch(&mut self, fill: &dyn Fn(&mut Batch)) -> Result<()> {
        self.changed = true;
        fill(self.transaction.writer(0).batch()?);
        Ok(())
    }

    /// Commits the change. It is visible on return and durable when the ticket is. If nothing was changed, the ticket
    /// is durable at once.
    pub(crate) fn commit(mut self) -> Result<Ticket> {
        let modseq = self.transaction.writer(0).modseq();
        if self.changed {
            self.index.set_indexed_modseq(modseq);
        }
        self.commit_partial_index()
    }

    /// Commits without recording that the index is up to date with this change.
    fn commit_partial_index(mut self) -> Result<Ticket> {
        if self.changed {
            self.index.finish(self.transaction.writer(0).batch()?)?;
        }
        Ok(self.transaction.commit()?)
    }

    fn require_unique(&mut self, record: &Record) -> Result<()> {
        let may_share = matches!(record, Record::Server(_) | Record::Group(_));
        for key in record.unique_keys() {
            let holders = self.index.holders(&key)?;
            if may_share && holders.contains(&record.note()) {
                continue;
            }
            let holder = holders.into_iter().find(|note| *note != record.note());
            if let Some(holder) = holder {
                let holder = self.record(holder)?.map_or_else(|| format!("note {holder}"), |record| record.label());
                return Err(Error::AlreadyTaken { object: key.describe(), holder });
            }
        }
        Ok(())
    }
}
