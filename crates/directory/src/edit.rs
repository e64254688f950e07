//! A change of the directory: one transaction over notes and index.
//!
//! An [`Edit`] begins with the lock of the database taken and the index brought up to date, so that what it finds is what
//! there is. It sees its own changes of the index, but not of notes: an operation reads what it needs first and saves
//! each note once. Meanwhile it must not look things up through the [`Directory`], which may want the lock too. Dropped without [`Edit::commit`], it has changed nothing.
//!
//! Invariant, for whatever is saved here: no two notes share a unique key.

use base::NoteId;
use notes::{NewNote, Transaction};
use store::{Batch, Ticket};

use crate::address::Address;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::index::{self, Indexer};
use crate::key::Key;
use crate::record::Record;

/// A change of the directory under way.
pub(crate) struct Edit<'d> {
    transaction: Transaction<'d>,
    index: Indexer<'d>,
    /// There is something to commit.
    changed: bool,
}

impl<'d> Edit<'d> {
    /// Begins a change, with an index that is up to date.
    pub(crate) fn begin(directory: &'d Directory) -> Result<Self> {
        loop {
            let mut edit = Self::open(directory)?;
            let reading = directory.read()?;
            if edit.index.true_up_to() >= reading.modseq() {
                return Ok(edit);
            }
            if edit.is_beyond_repair(reading.counters().purged_modseq) {
                index::remove(&mut edit.transaction, directory.view())?;
                drop(edit.index);
                edit.transaction.commit()?;
                continue;
            }
            let mut writer = edit.transaction.on(0);
            let complete = edit.index.catch_up(writer.batch()?, &reading)?;
            edit.changed = true;
            if complete {
                return Ok(edit);
            }
            edit.commit_part()?;
        }
    }

    fn open(directory: &'d Directory) -> Result<Self> {
        let mut transaction = directory.transaction()?;
        let number = transaction.on(0).database().number();
        let index = Indexer::open(directory.store(), number, directory.view())?;
        Ok(Self { transaction, index, changed: false })
    }

    /// Tells whether deletions that the index has not seen were purged, so that it would keep what is gone.
    fn is_beyond_repair(&self, purged: base::Modseq) -> bool {
        let upto = self.index.true_up_to();
        upto.0 > 0 && upto < purged
    }

    /// Gives the first of the notes that have a key.
    pub(crate) fn find(&mut self, key: &Key) -> Result<Option<Record>> {
        let Some(&note) = self.index.holders(key)?.first() else { return Ok(None) };
        self.record(note)
    }

    /// Finds what has a name or an address, the latter also in the name of the domain that its own is an alias of.
    pub(crate) fn find_named(&mut self, text: &str) -> Result<Option<Record>> {
        let Ok(address) = Address::parse(text.trim()) else { return self.find(&Key::name(text)) };
        if let Some(found) = self.find(&Key::address(&address))? {
            return Ok(Some(found));
        }
        match self.find(&Key::domain(address.domain()))? {
            Some(Record::Domain(domain)) => self.find(&Key::address(&address.in_domain(&domain.name))),
            _ => Ok(None),
        }
    }

    /// Gives the notes whose keys begin with a key, in the order of the keys.
    pub(crate) fn find_beginning(&mut self, key: &Key) -> Result<Vec<NoteId>> {
        self.index.holders_beginning(key)
    }

    /// Gives the notes that have a key.
    pub(crate) fn holders(&self, key: &Key) -> Result<Vec<NoteId>> {
        self.index.holders(key)
    }

    /// Tells whether no note has a key.
    pub(crate) fn is_free(&self, key: &Key) -> Result<bool> {
        Ok(self.index.holders(key)?.is_empty())
    }

    /// Gives a note as it was before this change.
    pub(crate) fn record(&mut self, note: NoteId) -> Result<Option<Record>> {
        let Some(found) = self.transaction.on(0).note(note)? else { return Ok(None) };
        Ok(Record::read(note, found.header.class, &found.items))
    }

    /// Fails unless the domain of an address is local.
    pub(crate) fn require_local(&self, address: &Address) -> Result<()> {
        let local = !self.is_free(&Key::domain(address.domain()))?;
        if local { Ok(()) } else { Err(Error::DomainUnknown { domain: address.domain().to_owned() }) }
    }

    /// Makes the note of a record, or replaces it where the record has a number. Gives the number.
    pub(crate) fn save(&mut self, record: &Record) -> Result<NoteId> {
        record.check()?;
        self.require_unique(record)?;
        self.changed = true;
        let mut writer = self.transaction.on(0);
        let note = if record.note() == NoteId(0) {
            let mut items = Vec::new();
            record.write(&mut items);
            writer.note_create(NewNote::document(items))?
        } else {
            let note = record.note();
            let stored = writer.note(note)?.ok_or_else(|| Error::not_found(record.label()))?;
            let mut items = stored.items;
            record.write(&mut items);
            writer.note_update(note, stored.header.sequence, &items, &[])?;
            note
        };
        self.index.put(writer.batch()?, note, &record.keys())?;
        Ok(note)
    }

    /// Deletes a note.
    pub(crate) fn remove(&mut self, note: NoteId) -> Result<()> {
        self.changed = true;
        let mut writer = self.transaction.on(0);
        writer.note_delete(note)?;
        self.index.put(writer.batch()?, note, &[])
    }

    /// Lets the batch of this change carry a change of something else, which is not of this database.
    pub(crate) fn also(&mut self, fill: &dyn Fn(&mut Batch)) -> Result<()> {
        self.changed = true;
        fill(self.transaction.on(0).batch()?);
        Ok(())
    }

    /// Makes the change visible; it is durable when the ticket is. Nothing to wait for when nothing was changed.
    pub(crate) fn commit(mut self) -> Result<Ticket> {
        let modseq = self.transaction.on(0).modseq();
        if self.changed {
            self.index.set_true_up_to(modseq);
        }
        self.commit_part()
    }

    /// Commits without saying that the index is true up to this change.
    fn commit_part(mut self) -> Result<Ticket> {
        if self.changed {
            self.index.finish(self.transaction.on(0).batch()?)?;
        }
        Ok(self.transaction.commit()?)
    }

    fn require_unique(&mut self, record: &Record) -> Result<()> {
        for key in record.unique_keys() {
            let holder = self.index.holders(&key)?.into_iter().find(|note| *note != record.note());
            if let Some(holder) = holder {
                let holder = self.record(holder)?.map_or_else(|| format!("note {holder}"), |record| record.label());
                return Err(Error::Taken { what: key.describe(), holder });
            }
        }
        Ok(())
    }
}
