//! Reading of entries: the rows of a view that a client requests for one screen (Domino's READ_ENTRIES).
//!
//! An [`EntriesRequest`] names the starting point, the steps to the first row, the navigator for the following rows,
//! and the details to return for each row. The reply is limited in rows and in bytes, and names the row at which to
//! continue.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use base::{Modseq, NoteId};
use store::engine::next_key;
use store::{Direction, KeyRange};

use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::folder::FolderEntry;
use crate::limits::{
    STEPS_PER_LOOKUP, STEPS_PER_RECORD, VIEW_EXAMINED_ROWS_MAX, VIEW_REPLY_BYTES_MAX, VIEW_REPLY_ROWS_MAX,
};
use crate::view::category::CategoryTotals;
use crate::view::cell::Cell;
use crate::view::hidden_rows::VisibleRowCursor;
use crate::view::navigate::{Navigator, RowExpansion};
use crate::view::reader::{OutermostCategories, Tumbler, ViewReader, ViewRow, ViewRowContents};
use crate::view::view_cache::OpenView;
use crate::view::view_format::Total;

/// The starting point of a request.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum StartPosition {
    /// Before the first row.
    #[default]
    Beginning,
    /// Behind the last row.
    End,
    /// At the row with a key, or at its position if it is absent.
    Key(Vec<u8>),
    /// At the row with a tumbler.
    Tumbler(Tumbler),
    /// At a position among all rows, counted from 0.
    Position(u64),
}

/// A request for entries.
#[derive(Clone, Debug)]
pub struct EntriesRequest {
    /// The starting point.
    pub start: StartPosition,
    /// The navigator and the number of steps from the starting point to the first row. From before the first row or
    /// behind the last one, the first step leads to that row.
    pub skip: (Navigator, u64),
    /// The navigator from row to row.
    pub navigator: Navigator,
    /// Maximum number of rows.
    pub limit: usize,
    /// The expanded and collapsed rows.
    pub expansion: Arc<RowExpansion>,
    /// The details to return.
    pub mask: ReadMask,
}

impl EntriesRequest {
    /// Checks the maximum number of rows. Fails if it exceeds [`VIEW_REPLY_ROWS_MAX`].
    pub(crate) fn check_limit(&self) -> Result<()> {
        if self.limit > VIEW_REPLY_ROWS_MAX {
            return Err(Error::Limit { what: "rows of a reply", max: VIEW_REPLY_ROWS_MAX });
        }
        Ok(())
    }

    /// Returns the number of steps by which the first row or the last one is reached: 1 from before the first row or
    /// behind the last one, unless there are no steps to make.
    pub(crate) fn steps_to_start(&self) -> u64 {
        u64::from(matches!(self.start, StartPosition::Beginning | StartPosition::End) && self.skip.1 > 0)
    }
}

/// The details to return for each row besides its contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadMask {
    /// The tumbler of the row.
    pub tumbler: bool,
    /// The position of the row among all rows.
    pub position: bool,
    /// The numbers of siblings, children and descendants.
    pub counts: bool,
    /// The reader's unread mark.
    pub unread: bool,
}

impl ReadMask {
    /// Returns the number of steps that reading a row with these details counts as.
    pub(crate) fn steps_per_row(self) -> u64 {
        let lookups = u64::from(self.tumbler) + u64::from(self.position) + 4 * u64::from(self.counts);
        STEPS_PER_RECORD + STEPS_PER_LOOKUP * lookups + u64::from(self.unread)
    }
}

/// The contents of a row of the reply.
#[derive(Clone, PartialEq, Debug)]
pub enum EntryContents {
    /// A row of a view.
    Row(ViewRowContents),
    /// An entry of a folder without columns.
    FolderEntry(FolderEntry),
}

/// A row of the reply.
#[derive(Clone, PartialEq, Debug)]
pub struct EntryRow {
    /// The key by which the row can be found again.
    pub key: Vec<u8>,
    /// Number of rows above it in the hierarchy.
    pub depth: usize,
    /// The contents of the row.
    pub content: EntryContents,
    /// The totals of a category, each with the index of its column.
    pub totals: Vec<(usize, f64)>,
    /// The tumbler, if requested.
    pub tumbler: Option<Tumbler>,
    /// The position among all rows, counted from 0, if requested.
    pub position: Option<u64>,
    /// The numbers of siblings, children and descendants, if requested.
    pub counts: Option<HierarchyCounts>,
    /// `true` if the reader has not read the document. `None` for a category, or if not requested.
    pub unread: Option<bool>,
}

/// The numbers of a row's relatives in the hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HierarchyCounts {
    /// Number of rows beneath the same parent, the row itself included.
    pub siblings: u64,
    /// Number of rows directly beneath it.
    pub children: u64,
    /// Number of all rows beneath it.
    pub descendants: u64,
}

/// The reply to an [`EntriesRequest`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EntryPage {
    /// The rows.
    pub rows: Vec<EntryRow>,
    /// Number of steps that were skipped.
    pub skipped: u64,
    /// The key of the row at which to continue, or `None` if no more rows follow.
    pub continue_at: Option<Vec<u8>>,
    /// Number of rows that were read, rows that are not shown included.
    pub rows_read: u64,
}

/// A reader of a view's entries on behalf of the reader of the database.
pub struct EntryReader<'r> {
    reading: &'r DatabaseSnapshot<'r>,
    view: &'r OpenView,
    rows: ViewReader<'r>,
    changed: ChangedNotes,
    /// `true` if the view contains responses; filled at the first use.
    has_responses: OnceCell<bool>,
}

/// The documents that changed since the index followed. Their rows are shown only if the reader may still read the
/// documents.
enum ChangedNotes {
    Some(HashSet<NoteId>),
    /// Too many documents to be known individually.
    Any,
}

impl ChangedNotes {
    fn since(applied: Modseq, reading: &DatabaseSnapshot<'_>) -> Self {
        if applied >= reading.modseq() || reading.grant().is_server_itself() {
            return Self::Some(HashSet::new());
        }
        reading.database().changed_notes(applied).map_or(Self::Any, Self::Some)
    }

    fn may_contain(&self, note: NoteId) -> bool {
        match self {
            Self::Some(notes) => notes.contains(&note),
            Self::Any => true,
        }
    }
}

impl<'r> EntryReader<'r> {
    /// Opens an order of a view.
    pub fn open(reading: &'r DatabaseSnapshot<'r>, view: &'r OpenView, collation: usize) -> Result<Self> {
        let rows = reading.view_rows(view, collation)?;
        let changed = ChangedNotes::since(rows.applied()?, reading);
        Ok(Self { reading, view, rows, changed, has_responses: OnceCell::new() })
    }

    /// Returns the reader of the rows beneath.
    #[must_use]
    pub fn rows(&self) -> &ViewReader<'r> {
        &self.rows
    }

    /// Reads entries. Fails if the request asks for more than [`VIEW_REPLY_ROWS_MAX`] rows.
    pub fn read(&self, request: &EntriesRequest) -> Result<EntryPage> {
        request.check_limit()?;
        let mut looked_at = 0;
        let mut entries = EntryPage::default();
        let (mut current, skipped, mut path) = self.first_row_and_path(request, &mut looked_at)?;
        entries.skipped = skipped;
        let mut bytes = 0;
        // Only columns with totals need the grand total.
        let grand = if self.view.index.summing().is_empty() { CategoryTotals::default() } else { self.rows.total()? };
        let first = self.rows_before(request)?;
        // `true` if no suppressed row lies between the next row and the last row of the reply, or the known starting
        // position.
        let mut is_adjacent = first.is_some();
        while let Some(row) = current {
            if entries.rows.len() >= request.limit
                || bytes >= VIEW_REPLY_BYTES_MAX
                || looked_at >= VIEW_EXAMINED_ROWS_MAX
            {
                entries.continue_at = Some(row.key);
                break;
            }
            looked_at += 1;
            self.reading.spend(request.mask.steps_per_row())?;
            current = match &mut path {
                Some(path) => path.next(&row, &request.expansion)?,
                None => self.step(&row.key, request.navigator, &request.expansion, &mut looked_at)?,
            };
            let is_shown = self.may_show(&row)?;
            if is_shown {
                bytes += size_of(&row);
                let before = match (entries.rows.last(), first) {
                    (Some(last), _) if is_adjacent => PrecedingRows::Row(last),
                    (None, Some(count)) if is_adjacent => PrecedingRows::Documents(count),
                    _ => PrecedingRows::Unknown,
                };
                entries.rows.push(self.entry(row, before, request, &grand)?);
            }
            is_adjacent = is_shown;
        }
        entries.rows_read = looked_at;
        Ok(entries)
    }

    /// Returns the first requested row, the number of steps to it, and the path to the following rows.
    fn first_row_and_path(
        &self,
        request: &EntriesRequest,
        looked_at: &mut u64,
    ) -> Result<(Option<ViewRow>, u64, Option<ForwardPath<'_, 'r>>)> {
        if let EntriesRequest {
            start: StartPosition::Position(position),
            skip: (_, 0),
            navigator: Navigator::Next,
            ..
        } = request
        {
            let Some(mut cursor) = self.rows.scan_at(*position)? else { return Ok((None, 0, None)) };
            let first = cursor.next()?.map(|entry| self.rows.row(entry.key, &entry.value)).transpose()?;
            return Ok((first, 0, Some(ForwardPath::Rows { rows: &self.rows, cursor, skips: false })));
        }
        let (first, skipped) = self.first_requested(request, looked_at)?;
        let path = self.path(request, first.as_ref())?;
        Ok((first, skipped, path))
    }

    /// Returns the number of rows before the first row, or `None` if it is not known without a search or if these rows
    /// are not all main documents.
    fn rows_before(&self, request: &EntriesRequest) -> Result<Option<u64>> {
        Ok(match request.start {
            _ if request.skip.1 > 0 => None,
            StartPosition::Beginning => Some(0),
            StartPosition::Position(position) if self.rows.is_flat()? => Some(position),
            _ => None,
        })
    }

    /// Returns a scan over the following rows, or `None` if each of them needs a step of its own.
    fn path(&self, request: &EntriesRequest, first: Option<&ViewRow>) -> Result<Option<ForwardPath<'_, 'r>>> {
        let Some(first) = first else { return Ok(None) };
        let skips = match request.navigator {
            Navigator::Next => false,
            Navigator::NextExpanded => true,
            _ => return Ok(None),
        };
        let is_outermost = skips && request.expansion.is_fully_collapsed() && self.rows.depth_of(&first.key)? == 0;
        if is_outermost && self.rows.is_category(&first.key) {
            return Ok(Some(ForwardPath::Categories(self.rows.outermost_categories_behind(&first.key)?)));
        }
        // If a collapsed row hides the first row, the next row is the one behind the collapsed row. A step finds it.
        if skips && self.rows.outermost_collapsed(&first.key, &request.expansion)? != first.key {
            return Ok(None);
        }
        let cursor = self.rows.scan(KeyRange { start: next_key(&first.key), end: None }, Direction::Forward)?;
        Ok(Some(ForwardPath::Rows { rows: &self.rows, cursor, skips }))
    }

    /// Returns the first requested row and the number of steps to it. Fails if more than [`VIEW_EXAMINED_ROWS_MAX`]
    /// rows must be read.
    fn first_requested(&self, request: &EntriesRequest, looked_at: &mut u64) -> Result<(Option<ViewRow>, u64)> {
        let (navigator, count) = request.skip;
        let mut skipped = request.steps_to_start();
        let mut count = count - skipped;
        let mut current = match &request.start {
            StartPosition::Beginning => self.rows.first()?,
            StartPosition::End => self.rows.last(&request.expansion)?,
            StartPosition::Key(key) => self.rows.first_from(key)?,
            StartPosition::Tumbler(place) => match self.rows.key_at(place)? {
                Some(key) => self.rows.find(&key)?,
                None => None,
            },
            StartPosition::Position(position) => self.rows.page(*position, 1)?.pop(),
        };
        if navigator == Navigator::Next && count > 0 {
            return self.skip_rows(current, count).map(|(row, more)| (row, skipped + more));
        }
        while let Some(row) = current.take_if(|_| count > 0) {
            *looked_at += 1;
            self.reading.spend(STEPS_PER_LOOKUP)?;
            if *looked_at >= VIEW_EXAMINED_ROWS_MAX {
                return Err(Error::Limit { what: "rows examined in one read", max: VIEW_EXAMINED_ROWS_MAX as usize });
            }
            current = self.step(&row.key, navigator, &request.expansion, looked_at)?;
            count -= 1;
            skipped += u64::from(current.is_some());
        }
        Ok((current, skipped))
    }

    /// Skips rows by their positions.
    fn skip_rows(&self, from: Option<ViewRow>, count: u64) -> Result<(Option<ViewRow>, u64)> {
        let Some(from) = from else { return Ok((None, 0)) };
        let position = self.rows.position(&from.key)?;
        let last = self.rows.count()?.saturating_sub(1);
        let wanted = position.saturating_add(count).min(last);
        let found = if wanted < position.saturating_add(count) { None } else { self.rows.page(wanted, 1)?.pop() };
        Ok((found, wanted - position))
    }

    fn step(
        &self,
        key: &[u8],
        navigator: Navigator,
        expansion: &RowExpansion,
        looked_at: &mut u64,
    ) -> Result<Option<ViewRow>> {
        let by = match navigator {
            Navigator::NextUnread => Navigator::Next,
            Navigator::PreviousUnread => Navigator::Previous,
            Navigator::Current => return Ok(None),
            other => return self.rows.step(key, other, expansion),
        };
        let mut current = self.rows.step(key, by, expansion)?;
        while let Some(row) = current {
            *looked_at += 1;
            self.reading.spend(STEPS_PER_LOOKUP)?;
            if *looked_at >= VIEW_EXAMINED_ROWS_MAX || self.is_unread(&row)? == Some(true) {
                return Ok(Some(row));
            }
            current = self.rows.step(&row.key, by, expansion)?;
        }
        Ok(None)
    }

    fn is_unread(&self, row: &ViewRow) -> Result<Option<bool>> {
        match &row.contents {
            ViewRowContents::Category { .. } => Ok(None),
            ViewRowContents::Document { note, .. } => Ok(Some(!self.reading.is_read(*note)?)),
        }
    }

    fn may_show(&self, row: &ViewRow) -> Result<bool> {
        match &row.contents {
            ViewRowContents::Document { note, .. } if self.changed.may_contain(*note) => {
                Ok(self.reading.header(*note)?.is_some())
            }
            _ => Ok(true),
        }
    }

    fn entry(
        &self,
        row: ViewRow,
        before: PrecedingRows<'_>,
        request: &EntriesRequest,
        grand: &CategoryTotals,
    ) -> Result<EntryRow> {
        let mask = request.mask;
        let depth = self.rows.depth_of(&row.key)?;
        let goes_forward = matches!(request.navigator, Navigator::Next | Navigator::NextExpanded);
        // The first row, and a row behind a known one, need no walk down the tree.
        let before =
            if goes_forward || matches!(before, PrecedingRows::Documents(_)) { before } else { PrecedingRows::Unknown };
        let is_next = request.navigator == Navigator::Next;
        let place = match before {
            _ if !mask.tumbler => None,
            PrecedingRows::Documents(count) => Some(Tumbler(vec![count + 1])),
            PrecedingRows::Row(EntryRow { tumbler: Some(before), .. }) => Some(next_tumbler(before, depth)),
            _ => Some(self.rows.tumbler(&row.key)?),
        };
        let position = match before {
            _ if !mask.position => None,
            PrecedingRows::Documents(count) => Some(count),
            PrecedingRows::Row(EntryRow { position: Some(before), .. }) if is_next => Some(before + 1),
            // All rows between two neighboring siblings are beneath the first.
            PrecedingRows::Row(EntryRow { depth: other, position: Some(before), counts: Some(counts), .. })
                if *other == depth =>
            {
                Some(before + 1 + counts.descendants)
            }
            _ => Some(self.rows.position(&row.key)?),
        };
        Ok(EntryRow {
            depth,
            totals: self.totals(&row, grand)?,
            tumbler: place,
            position,
            counts: if mask.counts { Some(self.counts(&row, depth, position, before)?) } else { None },
            unread: if mask.unread { self.is_unread(&row)? } else { None },
            key: row.key,
            content: EntryContents::Row(row.contents),
        })
    }

    /// Returns the counts around a row. The tree is read only if neither the row before nor the absence of responses
    /// gives the counts.
    fn counts(
        &self,
        row: &ViewRow,
        depth: usize,
        position: Option<u64>,
        before: PrecedingRows<'_>,
    ) -> Result<HierarchyCounts> {
        let siblings = match before {
            PrecedingRows::Row(EntryRow { depth: other, counts: Some(counts), .. }) if *other == depth => {
                counts.siblings
            }
            PrecedingRows::Row(EntryRow { depth: other, counts: Some(counts), .. }) if other + 1 == depth => {
                counts.children
            }
            _ => self.rows.siblings(&row.key)?,
        };
        let is_document = matches!(row.contents, ViewRowContents::Document { .. });
        if is_document && !(self.has_responses()? && self.rows.has_beneath(&row.key)?) {
            return Ok(HierarchyCounts { siblings, children: 0, descendants: 0 });
        }
        let position = position.map_or_else(|| self.rows.position(&row.key), Ok)?;
        let descendants = self.rows.end_position(&row.key)?.saturating_sub(position + 1);
        Ok(HierarchyCounts { siblings, children: self.rows.children(&row.key)?, descendants })
    }

    fn has_responses(&self) -> Result<bool> {
        if let Some(known) = self.has_responses.get() {
            return Ok(*known);
        }
        let found = self.rows.has_responses()?;
        Ok(*self.has_responses.get_or_init(|| found))
    }

    /// Computes the totals that a category shows.
    fn totals(&self, row: &ViewRow, grand: &CategoryTotals) -> Result<Vec<(usize, f64)>> {
        let ViewRowContents::Category { tally, .. } = &row.contents else { return Ok(Vec::new()) };
        let mut totals = Vec::new();
        for (number, column) in self.view.index.summing().iter().enumerate() {
            let sum = tally.totals[number].sum.value();
            let total = match self.view.index.design().columns[*column].total {
                Total::None | Total::Sum => sum,
                Total::Average => sum / tally.documents as f64,
                Total::PercentOfAll => 100.0 * sum / grand.totals[number].sum.value(),
                Total::PercentOfParent => 100.0 * sum / self.sum_above(&row.key, number, grand)?,
                Total::AveragePerChild => sum / self.rows.children(&row.key)? as f64,
            };
            totals.push((*column, total));
        }
        Ok(totals)
    }

    /// Returns the totals of the whole view for the columns that have one: the sum, or the average if the column shows
    /// averages. A percentage is 100.
    pub fn grand_totals(&self) -> Result<Vec<(usize, f64)>> {
        if self.view.index.summing().is_empty() {
            return Ok(Vec::new());
        }
        let grand = self.rows.total()?;
        let columns = &self.view.index.design().columns;
        let total = |(number, column): (usize, &usize)| {
            let sum = grand.totals[number].sum.value();
            let total = match columns[*column].total {
                Total::None | Total::Sum => Some(sum),
                Total::Average => (grand.documents > 0).then(|| sum / grand.documents as f64),
                Total::PercentOfAll | Total::PercentOfParent => Some(100.0),
                Total::AveragePerChild => None,
            };
            total.map(|total| (*column, total))
        };
        Ok(self.view.index.summing().iter().enumerate().filter_map(total).collect())
    }

    fn sum_above(&self, key: &[u8], number: usize, grand: &CategoryTotals) -> Result<f64> {
        let Some(parent) = self.rows.parent_of(key)? else { return Ok(grand.totals[number].sum.value()) };
        match self.rows.find(&parent)?.map(|row| row.contents) {
            Some(ViewRowContents::Category { tally, .. }) => Ok(tally.totals[number].sum.value()),
            _ => Ok(f64::NAN),
        }
    }
}

/// The rows known to precede a row.
#[derive(Clone, Copy)]
enum PrecedingRows<'e> {
    /// This number of main documents and no other rows.
    Documents(u64),
    /// The row that was read immediately before.
    Row(&'e EntryRow),
    Unknown,
}

/// A forward path through the rows.
enum ForwardPath<'w, 'r> {
    Rows {
        rows: &'w ViewReader<'r>,
        cursor: VisibleRowCursor<'w, 'r>,
        /// `true` if the rows beneath collapsed rows are skipped.
        skips: bool,
    },
    /// Over the outermost categories only.
    Categories(OutermostCategories<'w, 'r>),
}

impl ForwardPath<'_, '_> {
    fn next(&mut self, row: &ViewRow, expansion: &RowExpansion) -> Result<Option<ViewRow>> {
        match self {
            Self::Categories(outermost) => outermost.next(),
            Self::Rows { rows, cursor, skips } => {
                if *skips && expansion.is_collapsed(&row.key) {
                    let Some(end) = rows.end_of(&row.key) else { return Ok(None) };
                    cursor.skip_to(&end)?;
                }
                cursor.next()?.map(|entry| rows.row(entry.key, &entry.value)).transpose()
            }
        }
    }
}

/// Returns the tumbler of the row that is shown after another one.
fn next_tumbler(before: &Tumbler, depth: usize) -> Tumbler {
    let mut numbers = before.0.clone();
    if depth >= numbers.len() {
        numbers.push(1);
    } else {
        numbers.truncate(depth + 1);
        numbers[depth] += 1;
    }
    Tumbler(numbers)
}

/// Returns the estimated size of a row in the reply, in bytes.
fn size_of(row: &ViewRow) -> usize {
    let cells = match &row.contents {
        ViewRowContents::Category { .. } => 64,
        ViewRowContents::Document { row, .. } => row.cells.iter().map(Cell::byte_count).sum(),
    };
    row.key.len() + cells
}
