//! Reading of entries of a folder without columns: the same requests as for the rows of a view.
//!
//! The entries are in the order of their UIDs, on one level, and their keys are the UIDs. Navigators that need
//! categories, responses or unread marks have no meaning here and are refused.

use base::{Modseq, Uid};

use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::folder::{FolderEntry, FolderTotals};
use crate::folder_reader::FolderReader;
use crate::limits::STEPS_PER_LOOKUP;
use crate::view::navigate::Navigator;
use crate::view::read_entries::{EntriesRequest, EntryContents, EntryPage, EntryRow, HierarchyCounts, StartPosition};
use crate::view::reader::Tumbler;

/// A reader of a folder's entries on behalf of the reader of the database.
pub struct FolderEntryReader<'r> {
    reading: &'r DatabaseSnapshot<'r>,
    folder: FolderReader<'r>,
    totals: FolderTotals,
}

/// The direction in which a navigator leads through a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Stay,
    Forward,
    Backward,
}

impl Direction {
    fn from_navigator(navigator: Navigator) -> Result<Self> {
        use Navigator as N;
        match navigator {
            N::Current => Ok(Self::Stay),
            N::Next | N::NextPeer | N::NextMain | N::NextExpanded => Ok(Self::Forward),
            N::Previous | N::PreviousPeer | N::PreviousMain | N::PreviousExpanded => Ok(Self::Backward),
            _ => {
                Err(Error::invalid("the navigator", "a folder without columns supports only next and previous entries"))
            }
        }
    }

    /// Returns the position after `count` steps, or `None` if there is no step.
    fn step(self, position: u64, count: u64) -> Option<u64> {
        match self {
            Self::Stay => None,
            Self::Forward => position.checked_add(count),
            Self::Backward => position.checked_sub(count),
        }
    }
}

impl<'r> FolderEntryReader<'r> {
    /// Opens a folder.
    pub(crate) fn open(reading: &'r DatabaseSnapshot<'r>, folder: FolderReader<'r>) -> Result<Self> {
        let totals = folder.totals()?;
        Ok(Self { reading, folder, totals })
    }

    /// Returns the modseq that the entries reflect.
    pub(crate) fn modseq(&self) -> Modseq {
        self.reading.modseq()
    }

    /// Returns the counts of the folder.
    pub(crate) fn totals(&self) -> &FolderTotals {
        &self.totals
    }

    /// Returns the key of the entry with a tumbler.
    pub(crate) fn key_at(&self, tumbler: &Tumbler) -> Result<Option<Vec<u8>>> {
        let Some(position) = position_of(tumbler) else { return Ok(None) };
        Ok(self.folder.uid_at(position)?.map(|uid| uid.to_key().to_vec()))
    }

    /// Reads entries. Fails if the request asks for too many, or if its navigators have no meaning in a folder.
    ///
    /// This is not the loop of [`EntryReader::read`](crate::view::read_entries::EntryReader::read): a position leads to
    /// the next one by arithmetic, in both directions, and each entry is shown.
    pub(crate) fn read(&self, request: &EntriesRequest) -> Result<EntryPage> {
        request.check_limit()?;
        let direction = Direction::from_navigator(request.navigator)?;
        let (mut current, skipped) = self.first_requested(request)?;
        let mut entries = EntryPage { skipped, ..EntryPage::default() };
        while let Some(position) = current.filter(|position| *position < self.totals.count) {
            let Some(uid) = self.folder.uid_at(position)? else { break };
            if entries.rows.len() >= request.limit {
                entries.continue_at = Some(uid.to_key().to_vec());
                break;
            }
            entries.rows_read += 1;
            self.reading.spend(STEPS_PER_LOOKUP)?;
            if let Some(entry) = self.folder.entry(uid)? {
                entries.rows.push(self.entry(entry, position, request)?);
            }
            current = direction.step(position, 1);
        }
        Ok(entries)
    }

    /// Returns the position of the first requested entry and the number of steps to it.
    fn first_requested(&self, request: &EntriesRequest) -> Result<(Option<u64>, u64)> {
        let (navigator, count) = request.skip;
        let skipped = request.steps_to_start();
        let count = count - skipped;
        let last = self.totals.count.checked_sub(1);
        let start = match &request.start {
            StartPosition::Beginning => last.map(|_| 0),
            StartPosition::End => last,
            StartPosition::Key(key) => Some(self.folder.rank(uid_of(key)?)?),
            StartPosition::Tumbler(tumbler) => position_of(tumbler),
            StartPosition::Position(position) => Some(*position),
        };
        let start = start.filter(|start| *start < self.totals.count);
        let (Some(start), Some(last)) = (start, last) else { return Ok((None, 0)) };
        if count == 0 {
            return Ok((Some(start), skipped));
        }
        let direction = Direction::from_navigator(navigator)?;
        let found = direction.step(start, count).filter(|position| *position <= last);
        let possible = match direction {
            Direction::Stay => 0,
            Direction::Forward => last - start,
            Direction::Backward => start,
        };
        Ok((found, skipped + count.min(possible)))
    }

    fn entry(&self, entry: FolderEntry, position: u64, request: &EntriesRequest) -> Result<EntryRow> {
        let mask = request.mask;
        let siblings = self.totals.count;
        Ok(EntryRow {
            key: entry.uid.to_key().to_vec(),
            depth: 0,
            totals: Vec::new(),
            tumbler: mask.tumbler.then(|| Tumbler(vec![position + 1])),
            position: mask.position.then_some(position),
            counts: mask.counts.then_some(HierarchyCounts { siblings, children: 0, descendants: 0 }),
            unread: if mask.unread { Some(!self.reading.is_read(entry.note)?) } else { None },
            content: EntryContents::FolderEntry(entry),
        })
    }
}

/// Returns the position that a tumbler denotes, or `None` if it denotes an entry below another one.
fn position_of(tumbler: &Tumbler) -> Option<u64> {
    match tumbler.0[..] {
        [number] => number.checked_sub(1),
        _ => None,
    }
}

fn uid_of(key: &[u8]) -> Result<Uid> {
    let key = key.try_into().map_err(|_| Error::invalid("the key of a folder entry", "it must have 4 bytes"))?;
    Ok(Uid::from_key(key))
}
