//! The times at which the marks, keywords and folders of a note changed.
//!
//! These change without a save, and replicas join them one by one: of one mark, the later change counts
//! (`docs/replication.md`). The header has the values. Their times are stored after it, except those that are the time
//! of the note's creation: a delivered message has none. So a set value of which nothing is stored here is as old as
//! the note. One that is not set was never set.

use std::time::Duration;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{Timestamp, ViewId};
use revision::Register;

use crate::limits::{CHANGE_TIMES_MAX, CHANGE_TIMES_STORED_MAX};
use crate::note::{Keyword, Marks, NoteHeader};

/// A mark, a keyword or a folder of a note.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum StateKey {
    /// The mark with this bit number.
    Mark(u8),
    /// A keyword.
    Keyword(Keyword),
    /// A folder.
    Folder(ViewId),
}

/// The number of marks. Their numbers precede those of keywords and folders in the stored form.
const MARKS: u8 = 8;
const KEYWORD: u8 = MARKS;
const FOLDER: u8 = MARKS + 1;

/// The time of a value that was never set.
const NEVER: Timestamp = Timestamp(i64::MIN);

/// The times of the last changes, sorted by key.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ChangeTimes {
    list: Vec<(StateKey, Timestamp)>,
}

impl ChangeTimes {
    /// Creates the table from a list.
    #[must_use]
    pub fn from_list(mut list: Vec<(StateKey, Timestamp)>) -> Self {
        list.sort_unstable_by_key(|(key, _)| *key);
        list.dedup_by_key(|(key, _)| *key);
        list.truncate(CHANGE_TIMES_STORED_MAX);
        Self { list }
    }

    /// Returns the times, sorted by key.
    #[must_use]
    pub fn list(&self) -> &[(StateKey, Timestamp)] {
        &self.list
    }

    /// Returns `true` if no time is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn get(&self, key: StateKey) -> Option<Timestamp> {
        let index = self.list.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(self.list[index].1)
    }

    fn set(&mut self, key: StateKey, time: Timestamp) {
        match self.list.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(index) => self.list[index].1 = time,
            Err(index) => self.list.insert(index, (key, time)),
        }
    }

    /// Appends the stored form: the number, and for each time a byte for the kind, the number of a keyword or folder,
    /// and the difference to the creation of the note in microseconds.
    pub(crate) fn encode(&self, created: Timestamp, out: &mut Encoder) {
        out.varint(self.list.len() as u64);
        for (key, time) in &self.list {
            match key {
                StateKey::Mark(bit) => out.u8(*bit),
                StateKey::Keyword(keyword) => out.u8(KEYWORD).u16(keyword.0),
                StateKey::Folder(folder) => out.u8(FOLDER).u32(folder.0),
            };
            out.varint(time.0.wrapping_sub(created.0).cast_unsigned());
        }
    }

    /// Parses the stored form.
    pub(crate) fn decode(created: Timestamp, input: &mut Decoder<'_>) -> Result<Self, InvalidRecord> {
        let count = input.count()?;
        if count > CHANGE_TIMES_STORED_MAX {
            return Err(InvalidRecord);
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            let key = match input.u8()? {
                KEYWORD => StateKey::Keyword(Keyword(input.u16()?)),
                FOLDER => StateKey::Folder(ViewId(input.u32()?)),
                bit if bit < MARKS => StateKey::Mark(bit),
                _ => return Err(InvalidRecord),
            };
            list.push((key, Timestamp(created.0.wrapping_add(input.varint()?.cast_signed()))));
        }
        if !list.is_sorted_by(|(one, _), (next, _)| one < next) {
            return Err(InvalidRecord);
        }
        Ok(Self { list })
    }
}

impl NoteHeader {
    /// Returns the value of a mark, keyword or folder with the time of its last change.
    #[must_use]
    pub fn register(&self, key: StateKey) -> Register {
        let is_set = match key {
            StateKey::Mark(bit) => self.marks.contains(mark(bit)),
            StateKey::Keyword(keyword) => self.keywords.binary_search(&keyword).is_ok(),
            StateKey::Folder(folder) => self.uid_in(folder).is_some(),
        };
        let implied = if is_set { self.created } else { NEVER };
        Register::new(is_set, self.change_times.get(key).unwrap_or(implied))
    }

    /// Replaces the time of creation by that of another version. Values that are as old as the note keep their time.
    pub(crate) fn set_created(&mut self, created: Timestamp) {
        if created == self.created {
            return;
        }
        let marks = (0..MARKS).filter(|bit| self.marks.contains(mark(*bit))).map(StateKey::Mark);
        let keywords = self.keywords.iter().map(|keyword| StateKey::Keyword(*keyword));
        let folders = self.folders.iter().map(|place| StateKey::Folder(place.folder));
        let set: Vec<StateKey> = marks.chain(keywords).chain(folders).collect();
        for key in set {
            self.change_times.set(key, self.register(key).time);
        }
        self.created = created;
    }

    /// Sets the time of the last change of a mark, keyword or folder.
    pub(crate) fn set_change_time(&mut self, key: StateKey, time: Timestamp) {
        self.change_times.set(key, time);
        self.limit_change_times();
    }

    /// Drops the oldest times of values that are not set until there are at most [`CHANGE_TIMES_MAX`] times.
    fn limit_change_times(&mut self) {
        let excess = self.change_times.list.len().saturating_sub(CHANGE_TIMES_MAX);
        if excess == 0 {
            return;
        }
        let list = std::mem::take(&mut self.change_times.list);
        let is_unset = |key: &StateKey| !self.register(*key).is_set;
        let mut unset: Vec<(Timestamp, StateKey)> =
            list.iter().filter(|(key, _)| is_unset(key)).map(|(key, time)| (*time, *key)).collect();
        unset.sort_unstable();
        unset.truncate(excess);
        let is_kept = |(key, time): &(StateKey, Timestamp)| !unset.contains(&(*time, *key));
        self.change_times.list = list.into_iter().filter(is_kept).collect();
    }

    /// Records the times of the changes of marks, keywords and folders since `before`.
    ///
    /// Times of values that are not set are dropped when they are older than `kept`, like deletion stubs.
    pub(crate) fn record_change_times(&mut self, before: &Self, now: Timestamp, kept: Duration) {
        let marks = (0..MARKS).map(StateKey::Mark);
        let keywords = before.keywords.iter().chain(&self.keywords).map(|keyword| StateKey::Keyword(*keyword));
        let folders = before.folders.iter().chain(&self.folders).map(|place| StateKey::Folder(place.folder));
        let keys: Vec<StateKey> = marks.chain(keywords).chain(folders).collect();
        for key in keys {
            let old = before.register(key);
            let is_set = self.register(key).is_set;
            if old.is_set != is_set {
                self.change_times.set(key, old.changed(is_set, now).time);
            }
        }
        if self.change_times.list.is_empty() {
            return;
        }
        let limit = now.before(kept);
        let list = std::mem::take(&mut self.change_times.list);
        let is_kept = |(key, time): &(StateKey, Timestamp)| *time >= limit || self.register(*key).is_set;
        self.change_times = ChangeTimes { list: list.into_iter().filter(is_kept).collect() };
        self.limit_change_times();
    }
}

fn mark(bit: u8) -> Marks {
    Marks(1u8.checked_shl(u32::from(bit)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use base::Uid;

    use super::*;
    use crate::note::Membership;

    const DAY: Duration = Duration::from_secs(86_400);

    fn change(header: &mut NoteHeader, now: i64, change: impl FnOnce(&mut NoteHeader)) {
        let before = header.clone();
        change(header);
        header.record_change_times(&before, Timestamp(now), DAY);
    }

    #[test]
    fn only_changes_have_a_time_and_it_always_rises() {
        let mut header = NoteHeader { marks: Marks::FLAGGED, created: Timestamp(50), ..NoteHeader::test_document(1) };
        assert_eq!(header.register(StateKey::Mark(0)), Register::new(false, NEVER));
        assert_eq!(header.register(StateKey::Mark(2)), Register::new(true, Timestamp(50)));
        change(&mut header, 100, |header| header.marks = Marks::SEEN.union(Marks::FLAGGED));
        change(&mut header, 60, |header| header.marks = Marks::FLAGGED);
        assert_eq!(header.register(StateKey::Mark(0)), Register::new(false, Timestamp(101)));
        assert_eq!(header.change_times.list().len(), 1, "the other mark is as old as the note");
    }

    #[test]
    fn folders_and_keywords_are_remembered_when_they_are_left_for_as_long_as_stubs() {
        let mut header = NoteHeader::test_document(1);
        let place = |folder| Membership { folder: ViewId(folder), uid: Uid(1) };
        header.folders = vec![place(3)];
        change(&mut header, 10, |header| header.folders = vec![place(4)]);
        change(&mut header, 20, |header| header.keywords = vec![Keyword(7)]);
        change(&mut header, 30, |header| header.keywords.clear());
        let times = |header: &NoteHeader| header.change_times.list().to_vec();
        let folder = |number| StateKey::Folder(ViewId(number));
        let all =
            [(StateKey::Keyword(Keyword(7)), Timestamp(30)), (folder(3), Timestamp(10)), (folder(4), Timestamp(10))];
        assert_eq!(times(&header), all);
        let later = 31 + DAY.as_micros() as i64;
        change(&mut header, later, |header| header.marks = Marks::SEEN);
        assert_eq!(times(&header), [(StateKey::Mark(0), Timestamp(later)), (folder(4), Timestamp(10))]);
    }

    #[test]
    fn the_number_of_times_is_limited_and_the_oldest_of_unset_values_go_first() {
        let mut header = NoteHeader::test_document(1);
        for number in 0..CHANGE_TIMES_MAX as u16 + 10 {
            change(&mut header, 10 + i64::from(number), |header| header.keywords = vec![Keyword(number)]);
        }
        assert_eq!(header.change_times.list().len(), CHANGE_TIMES_MAX);
        assert_eq!(header.register(StateKey::Keyword(Keyword(0))).time, NEVER);
        let last = Keyword(CHANGE_TIMES_MAX as u16 + 9);
        assert!(header.register(StateKey::Keyword(last)).is_set);
        assert_eq!(NoteHeader::decode(header.note, &header.encode()), Ok(header));
    }

    #[test]
    fn a_changed_mark_takes_few_bytes() {
        let mut header = NoteHeader { created: Timestamp(1_700_000_000_000_000), ..NoteHeader::test_document(1) };
        let before = header.encode().len();
        let year = 365 * DAY.as_micros() as i64;
        change(&mut header, 1_700_000_000_000_000 + year, |header| header.marks = Marks::SEEN);
        assert_eq!(header.encode().len(), before + 9);
    }
}
