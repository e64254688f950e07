//! The times of unread marks, for databases whose marks replicate.
//!
//! The marks themselves are bits ([`crate::unread`]). If they replicate, each change also has a time, the modseq of its
//! transaction, and the day on which it was made in this replica, in records for blocks of [`TIMES_BLOCK_NOTES`] notes
//! of a user. Equal changes of notes that follow each other are stored once. Each record has one key in an order of
//! changes, at the greatest modseq in it; that order is apart from the changes of notes.
//!
//! A mark without a time is older than all that have one: its time counts as 0. A purge removes the times of changes
//! that were made here before the purge interval. `docs/replication.md` ("Unread marks") has the rules.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, NoteId, Timestamp};
use store::{Batch, Direction, Table, TableReader};

use crate::catalog::DatabaseRecord;
use crate::counters::Counters;
use crate::database::Database;
use crate::error::{Result, damaged};
use crate::instance::{ReplicationHistory, UnreadHistory};
use crate::keys;
use crate::limits::PURGED_UNREAD_BLOCKS_MAX;

/// Number of notes whose times share one record.
pub(crate) const TIMES_BLOCK_NOTES: u32 = 256;

const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// Returns the number of the day since 1970 of a time.
pub(crate) fn day_of(time: Timestamp) -> u32 {
    u32::try_from(time.0.div_euclid(DAY_MICROSECONDS)).unwrap_or(0)
}

/// The last change of an unread mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MarkChange {
    /// The time of the change, in the replica in which it was made.
    pub(crate) time: Timestamp,
    /// The transaction that made it here.
    pub(crate) modseq: Modseq,
    /// The day of that transaction, since 1970.
    pub(crate) day: u32,
}

/// The last changes of the marks of a block of notes, by the place in the block. There is none behind the last change.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct TimesBlock {
    changes: Vec<Option<MarkChange>>,
}

impl TimesBlock {
    /// Returns the number of the block of a note.
    pub(crate) fn number_of(note: NoteId) -> u32 {
        note.0 / TIMES_BLOCK_NOTES
    }

    /// Returns the last change of the mark of a note in this block.
    pub(crate) fn get(&self, note: NoteId) -> Option<MarkChange> {
        self.changes.get((note.0 % TIMES_BLOCK_NOTES) as usize).copied().flatten()
    }

    /// Records a change of the mark of a note in this block.
    pub(crate) fn set(&mut self, note: NoteId, change: MarkChange) {
        let place = (note.0 % TIMES_BLOCK_NOTES) as usize;
        if self.changes.len() <= place {
            self.changes.resize(place + 1, None);
        }
        self.changes[place] = Some(change);
    }

    /// Returns the notes of the block with this number whose marks have changes, and the changes.
    pub(crate) fn list(&self, block: u32) -> impl Iterator<Item = (NoteId, MarkChange)> {
        let first = block.saturating_mul(TIMES_BLOCK_NOTES);
        let numbered = (first..).zip(&self.changes);
        numbered.filter_map(|(note, change)| Some((NoteId(note), (*change)?)))
    }

    /// Returns the modseq of the last change.
    pub(crate) fn last(&self) -> Option<Modseq> {
        self.changes.iter().flatten().map(|change| change.modseq).max()
    }

    /// Removes the changes before a day. Returns the modseq of the last one, or `None` if there are none.
    fn remove_before(&mut self, day: u32) -> Option<Modseq> {
        let old = |change: &Option<MarkChange>| change.is_some_and(|change| change.day < day);
        let last = self.changes.iter().filter(|change| old(change)).flatten().map(|change| change.modseq).max();
        self.changes.iter_mut().filter(|change| old(change)).for_each(|change| *change = None);
        let length = self.changes.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.changes.truncate(length);
        last
    }

    /// Returns the stored form (version 1).
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(1);
        for equal in self.changes.chunk_by(|one, other| one == other) {
            out.varint(equal.len() as u64);
            match equal.first().copied().flatten() {
                None => out.u8(0),
                Some(MarkChange { time, modseq, day }) => out.u8(1).i64(time.0).varint(modseq.0).varint(u64::from(day)),
            };
        }
        out.finish()
    }

    /// Parses the stored form.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let mut changes = Vec::new();
        while !input.is_empty() {
            let count = usize::try_from(input.varint()?).map_err(|_| InvalidRecord)?;
            if count == 0 || count > TIMES_BLOCK_NOTES as usize - changes.len() {
                return Err(InvalidRecord);
            }
            let change = match input.u8()? {
                0 => None,
                1 => {
                    let time = Timestamp(input.i64()?);
                    let modseq = Modseq(input.varint()?);
                    let day = u32::try_from(input.varint()?).map_err(|_| InvalidRecord)?;
                    Some(MarkChange { time, modseq, day })
                }
                _ => return Err(InvalidRecord),
            };
            changes.resize(changes.len() + count, change);
        }
        if changes.last().is_some_and(Option::is_none) {
            return Err(InvalidRecord);
        }
        Ok(Self { changes })
    }

    /// Reads the record of a block.
    pub(crate) fn load(reader: &dyn TableReader, database: DbNumber, user: &str, block: u32) -> Result<Self> {
        let key = keys::unread_times(database, user, block);
        let Some(stored) = reader.get(Table::Meta, &key)? else { return Ok(Self::default()) };
        Self::decode(&stored).map_err(|_| damaged(Table::Meta, &key))
    }
}

/// An unread mark of a note that has not arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingMark {
    pub(crate) is_read: bool,
    pub(crate) time: Timestamp,
    /// The day on which it arrived, since 1970.
    pub(crate) day: u32,
}

impl PendingMark {
    /// Returns the stored form (version 1).
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(1).u8(u8::from(self.is_read)).i64(self.time.0).varint(u64::from(self.day));
        out.finish()
    }

    /// Parses the stored form.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let is_read = input.u8()? != 0;
        let time = Timestamp(input.i64()?);
        let day = u32::try_from(input.varint()?).map_err(|_| InvalidRecord)?;
        Ok(Self { is_read, time, day })
    }
}

/// What is known about the times of a database as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct UnreadState {
    /// The modseq up to which times may have been removed, or were not recorded.
    pub(crate) purged: Modseq,
    /// Number of marks of notes that have not arrived.
    pub(crate) pending: u32,
}

impl UnreadState {
    /// Returns the stored form (version 1).
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(1).varint(self.purged.0).varint(u64::from(self.pending));
        out.finish()
    }

    /// Parses the stored form.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let purged = Modseq(input.varint()?);
        Ok(Self { purged, pending: u32::try_from(input.varint()?).map_err(|_| InvalidRecord)? })
    }

    /// Reads the record. A database without one has removed nothing.
    pub(crate) fn load(reader: &dyn TableReader, database: DbNumber) -> Result<Self> {
        let key = keys::unread_state(database);
        let Some(stored) = reader.get(Table::Meta, &key)? else { return Ok(Self::default()) };
        Self::decode(&stored).map_err(|_| damaged(Table::Meta, &key))
    }
}

/// Adds what a change of the options of a database means for the times: they begin, or are removed.
///
/// Marks that were changed without the option have no times, so those of other replicas may be later although they were
/// received before. Therefore everything is compared in both directions when the times begin.
pub(crate) fn change_options(
    reader: &dyn TableReader,
    (before, after): (&DatabaseRecord, &DatabaseRecord),
    counters: Counters,
    batch: &mut Batch,
) -> Result<()> {
    let number = after.number;
    match (before.options.replicates_unread_marks(), after.options.replicates_unread_marks()) {
        (false, true) => {
            // Other replicas know nothing of the marks that have changed until now.
            let state = UnreadState { purged: counters.modseq, pending: 0 };
            batch.put(Table::Meta, &keys::unread_state(number), &state.encode());
            let mut cursor = reader.scan(Table::Meta, &keys::replication_histories(number), Direction::Forward)?;
            while let Some((key, value)) = cursor.next()? {
                let history = ReplicationHistory::decode(value).unwrap_or_default();
                let history = ReplicationHistory { unread: UnreadHistory::default(), ..history };
                batch.put(Table::Meta, key, &history.encode());
            }
        }
        (true, false) => {
            let ranges = [keys::all_unread_times(number), keys::unread_changes_after(number, Modseq(0))];
            for range in ranges.into_iter().chain([keys::pending_marks(number)]) {
                let end = range.end.expect("prefixes that end with a letter have an end");
                batch.delete_range(Table::Meta, &range.start, &end);
            }
            batch.delete(Table::Meta, &keys::unread_state(number));
        }
        (false, false) | (true, true) => {}
    }
    Ok(())
}

/// Removes the times of changes that were made here before the purge interval, and marks of notes that have not arrived
/// since. The removal is durable on return.
pub(crate) fn purge(database: &Database) -> Result<()> {
    let record = database.record();
    if !record.options.replicates_unread_marks() {
        return Ok(());
    }
    let day = day_of(database.clock.now()).saturating_sub(u32::from(record.options.purge_interval_days));
    loop {
        let old = old_records(&database.store.snapshot()?, database.number, day)?;
        if old.is_empty() {
            return Ok(());
        }
        remove(database, &old, day)?;
    }
}

/// Keys of records from before a day.
#[derive(Default)]
struct OldRecords {
    blocks: Vec<Vec<u8>>,
    pending: Vec<Vec<u8>>,
}

impl OldRecords {
    fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.pending.is_empty()
    }
}

/// Returns up to [`PURGED_UNREAD_BLOCKS_MAX`] records of each kind with changes before a day. Records that cannot be
/// read are left to a fixup.
fn old_records(reader: &dyn TableReader, database: DbNumber, day: u32) -> Result<OldRecords> {
    let mut found = OldRecords::default();
    let mut cursor = reader.scan(Table::Meta, &keys::all_unread_times(database), Direction::Forward)?;
    while found.blocks.len() < PURGED_UNREAD_BLOCKS_MAX
        && let Some((key, value)) = cursor.next()?
    {
        if TimesBlock::decode(value).is_ok_and(|block| block.changes.iter().flatten().any(|change| change.day < day)) {
            found.blocks.push(key.to_vec());
        }
    }
    let mut cursor = reader.scan(Table::Meta, &keys::pending_marks(database), Direction::Forward)?;
    while found.pending.len() < PURGED_UNREAD_BLOCKS_MAX
        && let Some((key, value)) = cursor.next()?
    {
        if PendingMark::decode(value).is_ok_and(|mark| mark.day < day) {
            found.pending.push(key.to_vec());
        }
    }
    Ok(found)
}

/// Removes what is before a day from records. They are read again under the lock.
fn remove(database: &Database, old: &OldRecords, day: u32) -> Result<()> {
    let counters = database.lock();
    database.check_not_dropped()?;
    // The option may have been taken away since.
    if !database.record().options.replicates_unread_marks() {
        return Ok(());
    }
    let store = database.store.as_ref();
    let number = database.number;
    let mut state = UnreadState::load(store, number)?;
    let mut batch = Batch::new();
    for key in &old.blocks {
        let Some((user, number_of_block)) = keys::split_unread_times(key) else { continue };
        let mut block = TimesBlock::load(store, number, user, number_of_block)?;
        let before = block.last();
        let Some(removed) = block.remove_before(day) else { continue };
        state.purged = state.purged.max(removed);
        put_block(&mut batch, number, &BlockName { user, number: number_of_block }, before, &block);
    }
    for key in &old.pending {
        if store.get(Table::Meta, key)?.is_some() {
            batch.delete(Table::Meta, key);
            state.pending = state.pending.saturating_sub(1);
        }
    }
    assert!(state.purged <= counters.modseq, "only changes of the past are removed");
    batch.put(Table::Meta, &keys::unread_state(number), &state.encode());
    let ticket = store.commit(&batch)?;
    drop(counters);
    Ok(store.durable(ticket).wait()?)
}

/// A block of times.
struct BlockName<'b> {
    user: &'b str,
    number: u32,
}

/// Writes a block from which changes were removed, and its place in the order of changes.
fn put_block(batch: &mut Batch, database: DbNumber, name: &BlockName<'_>, before: Option<Modseq>, block: &TimesBlock) {
    let BlockName { user, number } = *name;
    let after = block.last();
    let key = keys::unread_times(database, user, number);
    match after {
        None => batch.delete(Table::Meta, &key),
        Some(_) => batch.put(Table::Meta, &key, &block.encode()),
    }
    if before == after {
        return;
    }
    if let Some(before) = before {
        batch.delete(Table::Meta, &keys::unread_change(database, before, user, number));
    }
    if let Some(after) = after {
        batch.put(Table::Meta, &keys::unread_change(database, after, user, number), &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(time: i64, modseq: u64) -> MarkChange {
        MarkChange { time: Timestamp(time), modseq: Modseq(modseq), day: 20_000 }
    }

    #[test]
    fn blocks_read_back_and_store_equal_changes_once() {
        let mut block = TimesBlock::default();
        assert_eq!(TimesBlock::decode(&block.encode()), Ok(block.clone()));
        (0..TIMES_BLOCK_NOTES).for_each(|note| block.set(NoteId(note + 512), change(77, 3)));
        assert!(block.encode().len() < 20, "one time: {} bytes", block.encode().len());
        block.set(NoteId(600), change(78, 4));
        let bytes = block.encode();
        assert_eq!(TimesBlock::decode(&bytes), Ok(block.clone()));
        assert_eq!((block.get(NoteId(599)), block.get(NoteId(600))), (Some(change(77, 3)), Some(change(78, 4))));
        assert_eq!((block.list(2).count(), block.last()), (256, Some(Modseq(4))));
        assert!(TimesBlock::decode(&[&bytes[..], &[1, 0]].concat()).is_err(), "more notes than a block has");
        assert!((1..bytes.len()).filter(|length| TimesBlock::decode(&bytes[..*length]).is_ok()).count() < 4);
    }

    #[test]
    fn old_changes_are_removed() {
        let mut block = TimesBlock::default();
        block.set(NoteId(3), change(77, 3));
        block.set(NoteId(9), MarkChange { day: 19_000, ..change(70, 8) });
        assert_eq!(block.remove_before(19_000), None);
        assert_eq!(block.remove_before(19_001), Some(Modseq(8)));
        assert_eq!(block.list(0).collect::<Vec<_>>(), [(NoteId(3), change(77, 3))]);
        assert_eq!(block.remove_before(u32::MAX), Some(Modseq(3)));
        assert_eq!(block, TimesBlock::default());
    }

    #[test]
    fn pending_marks_and_the_state_read_back() {
        let mark = PendingMark { is_read: true, time: Timestamp(5), day: 20_000 };
        let state = UnreadState { purged: Modseq(300), pending: 7 };
        assert_eq!(PendingMark::decode(&mark.encode()), Ok(mark));
        assert_eq!(UnreadState::decode(&state.encode()), Ok(state));
        let bytes = mark.encode();
        assert!((0..bytes.len()).all(|length| PendingMark::decode(&bytes[..length]).is_err()));
    }
}
