//! The entries of a folder that Readers items hide, and those that are held ([`crate::uid_allocation`]).
//!
//! A folder's index contains all its notes, and one of its sums counts those with Readers items. If there are none, as
//! in nearly every folder, or if the server itself reads, nothing is hidden. Otherwise each note with Readers items is
//! examined once, when the folder is opened. The entries of notes that the reader may not know of are left out of all
//! counts, positions and lists. Positions count only visible entries.

use base::{Pacer, Uid};
use collection::CollectionReader;
use store::{Direction, KeyRange, TableReader};

use crate::database::Database;
use crate::error::{Result, damaged};
use crate::folder::{self, FolderEntry, FolderTotals, FolderWeights};
use crate::grant::Grant;
use crate::limits::STEPS_PER_LOOKUP;
use crate::note::Marks;
use crate::records;

/// Index of the sum that counts entries with Readers items.
const RESTRICTED: usize = 3;

/// Entries that a reader may not know of, sorted by UID.
#[derive(Default)]
pub(crate) struct HiddenEntries {
    entries: Vec<FolderEntry>,
    /// The positions of `entries` among all entries of the folder.
    positions: Vec<u64>,
}

impl HiddenEntries {
    /// Finds the entries that are hidden from the holder of a grant.
    pub(crate) fn find(
        reader: &dyn TableReader,
        database: &Database,
        grant: &Grant,
        index: &CollectionReader<'_>,
        pacer: &dyn Pacer,
    ) -> Result<Self> {
        let mut hidden = Self::default();
        if grant.is_server_itself() {
            return Ok(hidden);
        }
        let restricted = u64::try_from(index.totals()?.sums.value(RESTRICTED)).unwrap_or(0);
        for number in 0..restricted {
            pacer.spend(3 * STEPS_PER_LOOKUP)?;
            let Some((position, found)) = index.entry_at_sum(RESTRICTED, number, &FolderWeights)? else { break };
            let entry = folder::uid_of_key(&found.key).and_then(|uid| FolderEntry::decode(uid, &found.value).ok());
            let entry = entry.ok_or_else(|| damaged(store::Table::View, &found.key))?;
            let header = records::load_header(reader, database, entry.note)?;
            // An entry whose note is missing is damage. `fixup` reports it, and there is nothing to hide.
            if let Some(header) = header
                && records::is_hidden(reader, database, grant, &header)?
            {
                hidden.entries.push(entry);
                hidden.positions.push(position);
            }
        }
        Ok(hidden)
    }

    /// Adds all entries from a UID on: those that clients may not see yet, because others may come before them.
    pub(crate) fn add_held(&mut self, index: &CollectionReader<'_>, first: Uid) -> Result<()> {
        let kept = self.entries.partition_point(|entry| entry.uid < first);
        self.entries.truncate(kept);
        self.positions.truncate(kept);
        let range = KeyRange { start: first.to_key().to_vec(), end: None };
        let mut position = index.rank(&first.to_key())?;
        let mut scan = index.scan(&range, Direction::Forward)?;
        while let Some((key, value)) = scan.next()? {
            let entry = folder::uid_of_key(key).and_then(|uid| FolderEntry::decode(uid, value).ok());
            self.entries.push(entry.ok_or_else(|| damaged(store::Table::View, key))?);
            self.positions.push(position);
            position += 1;
        }
        Ok(())
    }

    /// Returns `true` if the entry with this UID is hidden.
    pub(crate) fn contains(&self, uid: Uid) -> bool {
        self.entries.binary_search_by_key(&uid, |entry| entry.uid).is_ok()
    }

    /// Returns the number of hidden entries with smaller UIDs.
    pub(crate) fn count_before(&self, uid: Uid) -> u64 {
        self.entries.partition_point(|entry| entry.uid < uid) as u64
    }

    /// Converts the position of an entry among the visible entries into its position among all entries.
    pub(crate) fn position_among_all(&self, position: u64) -> u64 {
        let mut hidden = 0..self.positions.len();
        // The number of visible entries before a hidden one is its position less the number of hidden entries before
        // it.
        while !hidden.is_empty() {
            let middle = hidden.start + hidden.len() / 2;
            if self.positions[middle] - middle as u64 <= position {
                hidden.start = middle + 1;
            } else {
                hidden.end = middle;
            }
        }
        position.saturating_add(hidden.start as u64)
    }

    /// Subtracts the hidden entries from the counts.
    pub(crate) fn subtract_from(&self, mut totals: FolderTotals) -> FolderTotals {
        for entry in &self.entries {
            totals.count = totals.count.saturating_sub(1);
            totals.unseen = totals.unseen.saturating_sub(u64::from(!entry.marks.contains(Marks::SEEN)));
            totals.deleted = totals.deleted.saturating_sub(u64::from(entry.marks.contains(Marks::DELETED)));
            totals.size = totals.size.saturating_sub(entry.size);
            totals.restricted = totals.restricted.saturating_sub(u64::from(entry.restricted));
        }
        totals
    }

    /// Returns entry number `position` of the visible entries that are counted.
    ///
    /// `is_counted` returns `true` for the marks of counted entries. `nth` returns a counted entry by its number among
    /// all of them, including hidden ones.
    pub(crate) fn nth<T>(
        &self,
        position: u64,
        is_counted: impl Fn(Marks) -> bool,
        nth: impl Fn(u64) -> Result<Option<(Uid, T)>>,
    ) -> Result<Option<T>> {
        let mut guess = position;
        loop {
            let Some((uid, found)) = nth(guess)? else { return Ok(None) };
            let up_to = self.entries.iter().take_while(|entry| entry.uid <= uid);
            let skipped = up_to.filter(|entry| is_counted(entry.marks)).count() as u64;
            // The guess never exceeds the number of the wanted entry, and increases until it reaches it.
            if position.saturating_add(skipped) <= guess {
                return Ok(Some(found));
            }
            guess = position.saturating_add(skipped);
        }
    }
}
