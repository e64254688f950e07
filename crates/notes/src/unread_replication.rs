//! Unread marks as replicas exchange them: those of all users but the owner, whose marks are those of the notes.
//!
//! A mark is a register: a value and the time of its last change. Of two values the later counts, with equal times the
//! one that is *read*; so joining is commutative, associative and idempotent, like that of the marks of notes. A mark
//! without a recorded time has the time 0. Users have their names and notes their UNIDs, because neither numbers of
//! notes nor blocks mean anything elsewhere.
//!
//! Only databases with [`crate::UnreadReplication::Everywhere`] record times, and only servers with the access that
//! bringing documents of others needs may read the marks of all users. A mark of a note that has not arrived is kept
//! ([`PENDING_UNREAD_MARKS_MAX`]) and counts when the note arrives.

use std::collections::{BTreeMap, BTreeSet};

use base::{Modseq, NoteId, Timestamp, Unid};
use revision::Register;
use store::engine::{next_key, prefix_end};
use store::{Direction, KeyRange, Table, TableReader as _};

use crate::acl::AclLevel;
use crate::database::Database;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result, damaged};
use crate::grant::Grant;
use crate::keys;
use crate::limits::{PENDING_UNREAD_MARKS_MAX, RECEIVED_TIME_MAX, STEPS_PER_LOOKUP, UNREAD_USER_BYTES_MAX};
use crate::records;
use crate::unread::{BLOCK_NOTES, MarkBits};
use crate::unread_times::{MarkChange, PendingMark, TIMES_BLOCK_NOTES, TimesBlock, UnreadState, day_of};
use crate::writer::Writer;

const _: () = assert!(BLOCK_NOTES.is_multiple_of(TIMES_BLOCK_NOTES), "the bits of a record are in one block");

/// The time of a mark without a recorded time.
const NO_TIME: Timestamp = Timestamp(0);

/// Marks of one user with one value and time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadMarks {
    /// The canonical name of the user in lower case.
    pub user: String,
    /// Set if the user has read the notes.
    pub register: Register,
    /// The notes.
    pub unids: Vec<Unid>,
}

/// What a replica has done with marks that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceivedMarks {
    /// Number of marks that have another value or time now.
    pub changed: u64,
    /// Number of marks of notes that have not arrived, and that were not kept, because too many are kept.
    pub dropped: u64,
}

/// A change of a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MarkUpdate {
    /// The user has read the note, or not, now.
    Made(bool),
    /// Another replica has this value.
    Arrived(Register),
}

/// Returns `true` if the holder of a grant may read the marks of all users: it is a server that may bring documents of
/// others.
#[must_use]
pub fn may_exchange_marks(grant: &Grant) -> bool {
    grant.is_server_itself() || (grant.is_server() && grant.level() >= AclLevel::Editor)
}

fn require_exchange(database: &Database, grant: &Grant) -> Result<()> {
    if !may_exchange_marks(grant) {
        return Err(Error::ServerOnly { database: database.path(), who: grant.display_name().to_owned() });
    }
    if !database.record().options.replicates_unread_marks() {
        let reason = "they do not replicate; `doublet db set --unread-replication everywhere` changes that";
        return Err(Error::invalid(format!("the unread marks of {}", database.path()), reason));
    }
    Ok(())
}

/// Collects marks, those of one user with one value and time together.
#[derive(Default)]
struct MarkList {
    marks: Vec<UnreadMarks>,
    count: usize,
}

impl MarkList {
    fn add(&mut self, user: &str, register: Register, unids: Vec<Unid>) {
        self.count += unids.len();
        match self.marks.last_mut() {
            Some(last) if last.user == user && last.register == register => last.unids.extend(unids),
            _ => self.marks.push(UnreadMarks { user: user.to_owned(), register, unids }),
        }
    }
}

impl DatabaseSnapshot<'_> {
    /// Returns `true` if [`DatabaseSnapshot::unread_changes`] since a modseq misses nothing.
    pub fn is_unread_complete_since(&self, since: Modseq) -> Result<bool> {
        Ok(since >= UnreadState::load(&self.snapshot, self.database().number)?.purged)
    }

    /// Returns about `marks_max` marks that changed after `since`, up to the end of a transaction, with the modseq up
    /// to which none are missing, or `None` if there are no more. Begins after the changes of `after`.
    ///
    /// A block of notes is listed where its last change is. So a reader that continues after `after` still needs what
    /// has changed since its position `since`: the block may have been listed earlier before its last change.
    ///
    /// Fails unless the reader may exchange marks ([`may_exchange_marks`]) and they replicate.
    pub fn unread_changes(
        &self,
        since: Modseq,
        after: Modseq,
        marks_max: usize,
    ) -> Result<(Vec<UnreadMarks>, Option<Modseq>)> {
        let database = self.database();
        require_exchange(database, self.grant())?;
        let mut list = MarkList::default();
        let mut last = after;
        let range = keys::unread_changes_after(database.number, after);
        let mut cursor = self.snapshot.scan(Table::Meta, &range, Direction::Forward)?;
        while let Some((key, _)) = cursor.next()? {
            let (modseq, user, number) = keys::split_unread_change(key).ok_or_else(|| damaged(Table::Meta, key))?;
            if list.count >= marks_max && modseq > last {
                return Ok((list.marks, Some(last)));
            }
            last = modseq;
            let block = TimesBlock::load(&self.snapshot, database.number, user, number)?;
            let changed = block.list(number).filter(|(_, change)| change.modseq > since);
            self.list_timed(user, changed, &mut list)?;
        }
        Ok((list.marks, None))
    }

    /// Lists marks of one block with their times.
    fn list_timed(
        &self,
        user: &str,
        changes: impl Iterator<Item = (NoteId, MarkChange)>,
        list: &mut MarkList,
    ) -> Result<()> {
        let mut found: BTreeMap<(Timestamp, bool), Vec<Unid>> = BTreeMap::new();
        let mut bits = None;
        for (note, change) in changes {
            let bits = match &mut bits {
                Some(bits) => bits,
                none => none.insert(self.mark_bits(user, note.0 / BLOCK_NOTES)?),
            };
            let is_read = bits.has(note);
            let unid = self.unid_of_marked(note)?;
            found.entry((change.time, is_read)).or_default().extend(unid);
        }
        for ((time, is_read), unids) in found.into_iter().filter(|(_, unids)| !unids.is_empty()) {
            list.add(user, Register::new(is_read, time), unids);
        }
        Ok(())
    }

    /// Returns about `marks_max` marks of notes that were read and have no recorded time, and the place behind them, or
    /// `None` if there are no more. Begins at a place, which is empty at the beginning.
    ///
    /// Fails unless the reader may exchange marks ([`may_exchange_marks`]) and they replicate.
    pub fn unread_without_times(&self, place: &[u8], marks_max: usize) -> Result<(Vec<UnreadMarks>, Option<Vec<u8>>)> {
        let database = self.database();
        require_exchange(database, self.grant())?;
        let prefix = database.number.to_key();
        let start = match place.is_empty() {
            true => prefix.to_vec(),
            false => next_key(&[&prefix[..], place].concat()),
        };
        let range = KeyRange { start, end: prefix_end(&prefix) };
        let mut list = MarkList::default();
        let mut cursor = self.snapshot.scan(Table::Unread, &range, Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            let (user, number) = keys::split_unread_block(key).ok_or_else(|| damaged(Table::Unread, key))?;
            let read: Vec<NoteId> = MarkBits::decode(value).list(number).collect();
            let mut unids = Vec::new();
            for notes in read.chunk_by(|one, other| TimesBlock::number_of(*one) == TimesBlock::number_of(*other)) {
                let block = TimesBlock::number_of(notes[0]);
                let times = TimesBlock::load(&self.snapshot, database.number, user, block)?;
                for note in notes.iter().filter(|note| times.get(**note).is_none()) {
                    unids.extend(self.unid_of_marked(*note)?);
                }
            }
            if !unids.is_empty() {
                list.add(user, Register::new(true, NO_TIME), unids);
            }
            if list.count >= marks_max {
                let place = key.get(prefix.len()..).map(<[u8]>::to_vec);
                return Ok((list.marks, place));
            }
        }
        Ok((list.marks, None))
    }

    fn mark_bits(&self, user: &str, block: u32) -> Result<MarkBits> {
        let key = keys::unread_block(self.database().number, user, block);
        Ok(MarkBits::decode(&self.snapshot.get(Table::Unread, &key)?.unwrap_or_default()))
    }

    /// Returns the UNID of a note with a mark, also of a stub, because the note may be restored. Returns `None` if it
    /// is hidden from the reader, purged or damaged.
    fn unid_of_marked(&self, note: NoteId) -> Result<Option<Unid>> {
        self.spend(STEPS_PER_LOOKUP)?;
        match self.header(note) {
            Err(error) if error.is_damage() => Ok(None),
            header => Ok(header?.map(|header| header.unid)),
        }
    }
}

impl Writer<'_, '_> {
    /// Joins marks from another replica with those of this one. Fails unless the caller is the server itself, and the
    /// marks of the database replicate.
    ///
    /// Marks of the owner of the database are left out: they are those of the notes.
    pub fn unread_marks_receive(&mut self, marks: &[UnreadMarks]) -> Result<ReceivedMarks> {
        records::require_server_itself(self.part.database, &self.part.grant)?;
        require_exchange(self.part.database, &self.part.grant)?;
        let owner = self.part.database.record().owner.canonical().to_lowercase();
        let mut received = ReceivedMarks::default();
        let mut updates: BTreeMap<&str, Vec<(NoteId, MarkUpdate)>> = BTreeMap::new();
        for UnreadMarks { user, register, unids } in marks {
            check_received(user, *register)?;
            if *user == owner {
                continue;
            }
            for unid in unids {
                match records::find(self.store, self.part.database.number, *unid)? {
                    Some(note) => updates.entry(user).or_default().push((note, MarkUpdate::Arrived(*register))),
                    None => received.dropped += u64::from(!self.keep_pending_mark(*unid, user, *register)?),
                }
            }
        }
        for (user, mut updates) in updates {
            updates.sort_by_key(|(note, _)| *note);
            received.changed += self.change_timed_marks(user, &updates)?;
        }
        Ok(received)
    }

    /// Changes marks of a user, whose name is in lower case, in a database whose marks replicate. The notes ascend.
    /// Returns the number of marks that have another value or time now.
    pub(crate) fn change_timed_marks(&mut self, user: &str, updates: &[(NoteId, MarkUpdate)]) -> Result<u64> {
        assert!(updates.is_sorted_by_key(|(note, _)| *note), "the notes of a block follow each other");
        let mut changed = 0;
        for updates in updates.chunk_by(|(one, _), (other, _)| one.0 / BLOCK_NOTES == other.0 / BLOCK_NOTES) {
            let block = updates[0].0.0 / BLOCK_NOTES;
            let mut bits = self.mark_bits(user, block)?;
            let mut changed_here = 0;
            let is_together =
                |one: &NoteId, other: &NoteId| TimesBlock::number_of(*one) == TimesBlock::number_of(*other);
            for updates in updates.chunk_by(|(one, _), (other, _)| is_together(one, other)) {
                changed_here += self.change_timed_block(user, updates, &mut bits)?;
            }
            if changed_here > 0 {
                self.put_mark_bits(user, block, bits);
            }
            changed += changed_here;
        }
        Ok(changed)
    }

    /// Changes marks of one block of times. Returns the number of changed ones.
    fn change_timed_block(&mut self, user: &str, updates: &[(NoteId, MarkUpdate)], bits: &mut MarkBits) -> Result<u64> {
        let number = TimesBlock::number_of(updates[0].0);
        let key = keys::unread_times(self.part.database.number, user, number);
        let stored = self.unread_record(&key)?;
        let mut block = match &stored {
            Some(stored) => TimesBlock::decode(stored).map_err(|_| damaged(Table::Meta, &key))?,
            None => TimesBlock::default(),
        };
        let before = block.last();
        let mut changed = 0;
        for (note, update) in updates {
            let time = block.get(*note).map_or(NO_TIME, |change| change.time);
            let current = Register::new(bits.has(*note), time);
            let after = match update {
                MarkUpdate::Made(is_read) => current.changed(*is_read, self.part.now),
                MarkUpdate::Arrived(arrived) => current.join(*arrived),
            };
            if after == current {
                continue;
            }
            assert!(after.time >= current.time, "times never go back");
            bits.set(*note, after.is_set);
            let MarkChange { modseq, day, .. } = self.mark_change_now();
            block.set(*note, MarkChange { time: after.time, modseq, day });
            changed += 1;
        }
        if changed > 0 {
            self.put_unread_record(key, Some(block.encode()));
            self.move_in_order(user, number, before);
        }
        Ok(changed)
    }

    fn mark_change_now(&self) -> MarkChange {
        MarkChange { time: self.part.now, modseq: self.part.modseq, day: day_of(self.part.now) }
    }

    /// Moves a block to the end of the order of changes.
    fn move_in_order(&mut self, user: &str, number: u32, before: Option<Modseq>) {
        let database = self.part.database.number;
        if before == Some(self.part.modseq) {
            return;
        }
        if let Some(before) = before {
            assert!(before < self.part.modseq, "modseqs rise");
            self.batch.delete(Table::Meta, &keys::unread_change(database, before, user, number));
        }
        self.batch.put(Table::Meta, &keys::unread_change(database, self.part.modseq, user, number), &[]);
    }

    /// Keeps a mark of a note that has not arrived. Returns `false` if too many are kept.
    fn keep_pending_mark(&mut self, unid: Unid, user: &str, register: Register) -> Result<bool> {
        let number = self.part.database.number;
        let key = keys::pending_mark(number, unid, user);
        let stored = self.unread_record(&key)?;
        let kept = stored.as_deref().and_then(|stored| PendingMark::decode(stored).ok());
        let kept = kept.map(|kept| Register::new(kept.is_read, kept.time));
        let joined = kept.map_or(register, |kept| kept.join(register));
        if kept == Some(joined) {
            return Ok(true);
        }
        if stored.is_none() {
            let mut state = self.pending_state()?;
            if state.pending >= PENDING_UNREAD_MARKS_MAX {
                return Ok(false);
            }
            state.pending += 1;
            self.put_unread_record(keys::unread_state(number).to_vec(), Some(state.encode()));
        }
        let mark = PendingMark { is_read: joined.is_set, time: joined.time, day: day_of(self.part.now) };
        self.put_unread_record(key, Some(mark.encode()));
        Ok(true)
    }

    /// Sets the marks of a note that has arrived to those that came before it.
    pub(crate) fn take_pending_marks(&mut self, unid: Unid, note: NoteId) -> Result<()> {
        if !self.part.database.record().options.replicates_unread_marks() {
            return Ok(());
        }
        let mut state = self.pending_state()?;
        if state.pending == 0 {
            return Ok(());
        }
        let number = self.part.database.number;
        let mut taken = Vec::new();
        let mut cursor = self.store.scan(Table::Meta, &keys::pending_marks_of(number, unid), Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            let user = keys::split_pending_mark(key).ok_or_else(|| damaged(Table::Meta, key))?.to_owned();
            let mark = PendingMark::decode(value).map_err(|_| damaged(Table::Meta, key))?;
            taken.push((key.to_vec(), user, Register::new(mark.is_read, mark.time)));
        }
        drop(cursor);
        if taken.is_empty() {
            return Ok(());
        }
        for (key, user, register) in taken {
            self.put_unread_record(key, None);
            state.pending = state.pending.saturating_sub(1);
            self.change_timed_marks(&user, &[(note, MarkUpdate::Arrived(register))])?;
        }
        self.put_unread_record(keys::unread_state(number).to_vec(), Some(state.encode()));
        Ok(())
    }

    /// Sets the marks of a note to those of the deleted note whose UNID it has. In other replicas it is that note. The
    /// cost is that of a few lookups for each user with marks.
    pub(crate) fn take_marks_of(&mut self, deleted: NoteId, note: NoteId) -> Result<()> {
        if !self.part.database.record().options.replicates_unread_marks() {
            return Ok(());
        }
        let database = self.part.database.number;
        let bits = KeyRange::prefix(&database.to_key());
        let mut users = self.users_among(Table::Unread, &bits, keys::split_unread_block)?;
        let times = keys::all_unread_times(database);
        users.extend(self.users_among(Table::Meta, &times, keys::split_unread_times)?);
        for user in users {
            let is_read = self.mark_bits(&user, deleted.0 / BLOCK_NOTES)?.has(deleted);
            let times = TimesBlock::load(self.store, database, &user, TimesBlock::number_of(deleted))?;
            let time = times.get(deleted).map_or(NO_TIME, |change| change.time);
            self.change_timed_marks(&user, &[(note, MarkUpdate::Arrived(Register::new(is_read, time)))])?;
        }
        Ok(())
    }

    /// Returns the users in the keys of a range, with one lookup for each.
    fn users_among(
        &self,
        table: Table,
        range: &KeyRange,
        split: fn(&[u8]) -> Option<(&str, u32)>,
    ) -> Result<BTreeSet<String>> {
        let mut users = BTreeSet::new();
        let mut rest = range.clone();
        loop {
            let mut cursor = self.store.scan(table, &rest, Direction::Forward)?;
            let Some((key, _)) = cursor.next()? else { return Ok(users) };
            let (user, _) = split(key).ok_or_else(|| damaged(table, key))?;
            // The name is followed by 0 and the block.
            rest.start = [&range.start[..], user.as_bytes(), &[1]].concat();
            users.insert(user.to_owned());
        }
    }

    fn pending_state(&self) -> Result<UnreadState> {
        let key = keys::unread_state(self.part.database.number);
        let Some(stored) = self.unread_record(&key)? else { return Ok(UnreadState::default()) };
        UnreadState::decode(&stored).map_err(|_| damaged(Table::Meta, &key))
    }

    /// Returns a record about unread marks as this transaction leaves it.
    fn unread_record(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.part.unread_records.get(key) {
            Some(written) => Ok(written.clone()),
            None => Ok(self.store.get(Table::Meta, key)?),
        }
    }

    /// Writes or deletes a record about unread marks.
    fn put_unread_record(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        match &value {
            Some(value) => self.batch.put(Table::Meta, &key, value),
            None => self.batch.delete(Table::Meta, &key),
        }
        self.part.unread_records.insert(key, value);
    }
}

/// Checks what another replica states about a mark.
fn check_received(user: &str, register: Register) -> Result<()> {
    let what = || format!("an unread mark of {user:?}");
    if user.is_empty() || user.len() > UNREAD_USER_BYTES_MAX || user.chars().any(char::is_control) {
        return Err(Error::invalid(what(), "the name of the user is not valid"));
    }
    if user.to_lowercase() != user {
        return Err(Error::invalid(what(), "the name of the user is not in lower case"));
    }
    if !(NO_TIME.0..=RECEIVED_TIME_MAX).contains(&register.time.0) {
        return Err(Error::invalid(what(), "its time is not valid"));
    }
    Ok(())
}
