//! Read access to a view: rows and their positions (`docs/views.md`, "Reading").
//!
//! A [`ViewReader`] sees the index as of one snapshot. A row is identified by its key. Its position is a [`Tumbler`],
//! `3.2.7`: the third row of the outermost level, the second beneath it, the seventh beneath that. The conversion in
//! each direction walks down one tree of counts, independent of the size of the view. Only siblings among responses
//! deeper than [`COUNTED_LEVELS`] are counted one by one.
//!
//! Among siblings, the documents of a category come first and its sub-categories after them.

use std::fmt;
use std::str::FromStr;

use std::sync::Arc;

use base::{Modseq, NoteId, Pacer, Unpaced};
use collection::{CollectionReader, EntryCursor};
use store::{Direction, KeyRange, TableReader};

use crate::error::{Error, Result, damaged};
use crate::limits::{POSITION_LEVELS_MAX, STEPS_PER_LOOKUP, STEPS_PER_RECORD};
use crate::view::category::CategoryTotals;
use crate::view::hidden_rows::{CollationRows, HiddenRows, VisibleRowCursor, VisibleRows};
use crate::view::index::ViewIndex;
use crate::view::row::{DocumentRow, RowKeys, StoredRow, mark, note_of};
use crate::view::row_change::COUNTED_LEVELS;

/// A position in a view: the number of a row among its siblings, for the row and each row above it, from the outermost
/// inwards; counted from 1.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Tumbler(pub Vec<u64>);

impl fmt::Display for Tumbler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

impl FromStr for Tumbler {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::invalid(format!("position {text:?}"), "write numbers from 1, separated by dots, such as 3.2.7");
        let numbers: Vec<u64> =
            text.split('.').map(str::parse).collect::<std::result::Result<_, _>>().map_err(|_| wrong())?;
        if numbers.len() > POSITION_LEVELS_MAX || numbers.contains(&0) {
            return Err(wrong());
        }
        Ok(Self(numbers))
    }
}

/// A row of a view.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewRow {
    /// The key by which the row can be found again.
    pub key: Vec<u8>,
    /// The contents of the row.
    pub contents: ViewRowContents,
}

/// The contents of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum ViewRowContents {
    /// A category: its level, and the counts and totals beneath it.
    Category { level: u8, tally: CategoryTotals },
    /// A document.
    Document { note: NoteId, row: DocumentRow },
}

/// One order of a view in a snapshot.
pub struct ViewReader<'r> {
    index: &'r ViewIndex,
    collation: usize,
    rows: VisibleRows<'r>,
    categories: CollectionReader<'r>,
    /// The pacer of long reads.
    pacer: &'r dyn Pacer,
}

impl<'r> ViewReader<'r> {
    /// Opens an order of a view.
    pub fn open(reader: &'r dyn TableReader, index: &'r ViewIndex, collation: usize) -> Result<Self> {
        let rows = CollectionReader::open(reader, index.rows(collation))?;
        let categories = CollectionReader::open(reader, index.categories(collation))?;
        Ok(Self { index, collation, rows: VisibleRows { rows, hidden: Arc::default() }, categories, pacer: &Unpaced })
    }

    /// Lets a pacer divide long reads.
    #[must_use]
    pub(crate) fn paced(mut self, pacer: &'r dyn Pacer) -> Self {
        self.pacer = pacer;
        self
    }

    /// Returns the order for the search of hidden rows.
    pub(crate) fn order(&self) -> CollationRows<'_> {
        let index = self.index;
        let collation = self.collation;
        CollationRows { index, collation, rows: &self.rows.rows, categories: &self.categories, pacer: self.pacer }
    }

    /// Excludes the rows that are hidden from a reader. `hidden` must have been found in the same state of the view.
    #[must_use]
    pub(crate) fn with_hidden_rows(mut self, hidden: Arc<HiddenRows>) -> Self {
        self.rows.hidden = hidden;
        self
    }

    /// Returns the modseq up to which documents are in the index.
    pub fn applied(&self) -> Result<Modseq> {
        Ok(self.index.state(self.rows.rows.state())?.applied)
    }

    /// Returns the number of documents whose formulas a limit has stopped, or that have more entries than are shown.
    /// Hidden documents are included. They may have no row.
    pub fn limited_documents(&self) -> Result<u64> {
        Ok(self.index.state(self.rows.rows.state())?.limited_documents)
    }

    /// Returns the size of the index with all its orders in bytes, hidden documents included.
    pub fn index_bytes(&self) -> Result<u64> {
        Ok(self.index.state(self.rows.rows.state())?.bytes)
    }

    /// Returns `true` if only a part of a transaction is in the index. Such a state has no modseq of its own.
    pub(crate) fn is_within_transaction(&self) -> Result<bool> {
        Ok(self.index.state(self.rows.rows.state())?.within.is_some())
    }

    /// Returns `true` if any row has Readers items.
    pub(crate) fn has_restricted(&self) -> Result<bool> {
        Ok(self.rows.rows.totals()?.sums.value(crate::view::row_change::RESTRICTED_SUM) > 0)
    }

    /// Returns the index that holds the rows.
    #[must_use]
    pub fn index(&self) -> &'r ViewIndex {
        self.index
    }

    /// Returns the number of the order.
    #[must_use]
    pub fn collation(&self) -> usize {
        self.collation
    }

    /// Returns the number of rows when everything is expanded.
    pub fn count(&self) -> Result<u64> {
        self.rows.count()
    }

    /// Returns the counts and totals of the whole view.
    pub fn total(&self) -> Result<CategoryTotals> {
        Ok(self.tally(0, &[])?.unwrap_or_else(|| CategoryTotals::new(self.index.summing().len())))
    }

    /// Returns up to `limit` rows from a flat position on, counted from 0.
    pub fn page(&self, position: u64, limit: usize) -> Result<Vec<ViewRow>> {
        let Some(mut cursor) = self.rows.scan_at(position)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        while found.len() < limit {
            let Some(entry) = cursor.next()? else { break };
            found.push(self.row(entry.key, &entry.value)?);
        }
        Ok(found)
    }

    /// Creates a cursor over the rows whose keys are in a range.
    pub(crate) fn scan(&self, range: KeyRange, direction: Direction) -> Result<VisibleRowCursor<'_, 'r>> {
        self.rows.scan(range, direction)
    }

    /// Creates a forward cursor that begins at a position. Returns `None` behind the last row.
    pub(crate) fn scan_at(&self, position: u64) -> Result<Option<VisibleRowCursor<'_, 'r>>> {
        self.rows.scan_at(position)
    }

    /// Returns `true` if all rows are main documents, so that the flat position of a row is also its number among
    /// siblings.
    pub(crate) fn is_flat(&self) -> Result<bool> {
        Ok(self.rows.level_total(0)? == self.rows.count()?)
    }

    /// Creates a cursor over the outermost categories behind one of them.
    pub(crate) fn outermost_categories_behind(&self, key: &[u8]) -> Result<OutermostCategories<'_, 'r>> {
        let own = [&[1], &key[..key.len() - 1]].concat();
        let range = KeyRange { start: store::engine::next_key(&own), end: Some(vec![2]) };
        Ok(OutermostCategories { reader: self, scan: Some(self.categories.scan(&range, Direction::Forward)?) })
    }

    /// Returns the flat position of a row, or the position it would have, counted from 0.
    pub fn position(&self, key: &[u8]) -> Result<u64> {
        self.rows.rank(key)
    }

    /// Returns the row with a key.
    pub fn find(&self, key: &[u8]) -> Result<Option<ViewRow>> {
        let Some(value) = self.rows.find(key)? else { return Ok(None) };
        self.row(key.to_vec(), &value).map(Some)
    }

    /// Returns the tumbler of a row.
    pub fn tumbler(&self, key: &[u8]) -> Result<Tumbler> {
        let keys = self.index.keys(self.collation);
        let mut paths = keys.paths_above(key).ok_or_else(|| not_a_row(key))?;
        let row_of_category =
            key.last() == Some(&mark::ROW) && self.tally(paths.len() as u8 + 1, &key[..key.len() - 1])?.is_some();
        if row_of_category {
            paths.push(&key[..key.len() - 1]);
        }
        let mut numbers = Vec::with_capacity(paths.len() + 1);
        let mut above: &[u8] = &[];
        for (level, path) in paths.iter().enumerate() {
            self.pacer.spend(3 * STEPS_PER_LOOKUP)?;
            numbers.push(self.direct_documents(above)? + self.rank_of_category(level as u8 + 1, above, path)? + 1);
            above = path;
        }
        if row_of_category {
            return Ok(Tumbler(numbers));
        }
        let mut start = self.first_key_of_documents(above);
        for (level, end) in keys.documents_in(key).ok_or_else(|| not_a_row(key))?.into_iter().enumerate() {
            self.pacer.spend(2 * STEPS_PER_LOOKUP)?;
            numbers.push(self.siblings_before(level, &start, &key[..end])? + 1);
            start = key[..end].to_vec();
        }
        Ok(Tumbler(numbers))
    }

    /// Returns the key of the row with a tumbler, or `None` if there is no such row.
    pub fn key_at(&self, tumbler: &Tumbler) -> Result<Option<Vec<u8>>> {
        let mut numbers = tumbler.0.iter().map(|number| number - 1);
        let mut path = Vec::new();
        for level in 1.. {
            let Some(number) = numbers.next() else { break };
            self.pacer.spend(4 * STEPS_PER_LOOKUP)?;
            let documents = self.direct_documents(&path)?;
            if number < documents {
                return self.document_at(&path, number, numbers);
            }
            let Some(below) = self.category_at(level, &path, number - documents)? else { return Ok(None) };
            path = below;
        }
        Ok((!path.is_empty()).then(|| [&path[..], &[mark::ROW]].concat()))
    }

    /// Returns the number of rows beneath the parent of a row, the row itself included.
    pub fn siblings(&self, key: &[u8]) -> Result<u64> {
        match self.parent_of(key)? {
            Some(parent) => self.children(&parent),
            None => self.children_of_category(0, &[]),
        }
    }

    /// Returns the flat position behind a row and all rows beneath it.
    pub(crate) fn end_position(&self, key: &[u8]) -> Result<u64> {
        self.end_of(key).map_or_else(|| self.count(), |end| self.position(&end))
    }

    /// Returns `true` if there are rows beneath a row, without counting them.
    pub(crate) fn has_beneath(&self, key: &[u8]) -> Result<bool> {
        let range = KeyRange { start: store::engine::next_key(key), end: self.end_of(key) };
        Ok(self.scan(range, Direction::Forward)?.next()?.is_some())
    }

    /// Returns `true` if the view contains responses beneath documents.
    pub(crate) fn has_responses(&self) -> Result<bool> {
        Ok(self.rows.level_total(0)? != self.total()?.documents)
    }

    /// Returns the number of rows directly beneath a row.
    pub fn children(&self, key: &[u8]) -> Result<u64> {
        if self.is_category(key) {
            let path = &key[..key.len() - 1];
            let level = self.keys().paths_above(key).ok_or_else(|| not_a_row(key))?.len() as u8 + 1;
            return self.children_of_category(level, path);
        }
        let level = self.keys().documents_in(key).ok_or_else(|| not_a_row(key))?.len();
        let end = self.end_of(key).ok_or_else(|| not_a_row(key))?;
        self.siblings_before(level, key, &end)
    }

    fn children_of_category(&self, level: u8, path: &[u8]) -> Result<u64> {
        let first = first_category(level + 1, path);
        let behind = store::engine::prefix_end(&[&[level + 1], path].concat()).ok_or_else(|| not_a_row(path))?;
        Ok(self.direct_documents(path)? + self.category_rank(&behind)? - self.category_rank(&first)?)
    }

    pub(crate) fn keys(&self) -> &'r RowKeys {
        self.index.keys(self.collation)
    }

    /// Returns the number of main documents before a key.
    pub(crate) fn main_documents_before(&self, key: &[u8]) -> Result<u64> {
        self.rows.level_before(0, key)
    }

    /// Returns the document with a number among the main documents.
    pub(crate) fn main_document_at(&self, number: u64) -> Result<Option<ViewRow>> {
        self.rows.level_at(0, number)?.map(|entry| self.row(entry.key, &entry.value)).transpose()
    }

    /// Returns the end of the key range that contains a row and all rows beneath it.
    #[must_use]
    pub fn end_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        let is_category = key.last() == Some(&mark::ROW) && self.index.keys(self.collation).is_category_row(key);
        store::engine::prefix_end(if is_category { &key[..key.len() - 1] } else { key })
    }

    fn document_at(&self, path: &[u8], number: u64, numbers: impl Iterator<Item = u64>) -> Result<Option<Vec<u8>>> {
        let start = self.first_key_of_documents(path);
        let end = self.end_of_documents(path);
        let Some(mut key) = self.sibling_at(0, &start, end.as_deref(), number)? else { return Ok(None) };
        for (level, number) in (1..).zip(numbers) {
            self.pacer.spend(2 * STEPS_PER_LOOKUP)?;
            let end = store::engine::prefix_end(&key);
            let Some(below) = self.sibling_at(level, &key, end.as_deref(), number)? else { return Ok(None) };
            key = below;
        }
        Ok(Some(key))
    }

    /// Returns the document with a number among those of a response level in a range.
    fn sibling_at(&self, level: usize, start: &[u8], end: Option<&[u8]>, number: u64) -> Result<Option<Vec<u8>>> {
        if level >= COUNTED_LEVELS {
            return self.deep_sibling_at(level, start, end, number);
        }
        let before = self.rows.level_before(level, start)?;
        let found = self.rows.level_at(level, before + number)?;
        Ok(found.map(|entry| entry.key).filter(|key| end.is_none_or(|end| &key[..] < end)))
    }

    fn deep_sibling_at(&self, level: usize, start: &[u8], end: Option<&[u8]>, number: u64) -> Result<Option<Vec<u8>>> {
        let mut seen = 0;
        let mut found = None;
        self.for_each_document_of_level(level, start, end, &mut |key| {
            found = (seen == number).then(|| key.to_vec());
            seen += 1;
            found.is_none()
        })?;
        Ok(found)
    }

    /// Returns the number of documents of a response level between the start of their siblings and one of them.
    fn siblings_before(&self, level: usize, start: &[u8], key: &[u8]) -> Result<u64> {
        if level < COUNTED_LEVELS {
            return Ok(self.rows.level_before(level, key)? - self.rows.level_before(level, start)?);
        }
        let mut count = 0;
        self.for_each_document_of_level(level, start, Some(key), &mut |_| {
            count += 1;
            true
        })?;
        Ok(count)
    }

    /// Calls `each` for the documents of a level in a range, until `each` returns `false`.
    fn for_each_document_of_level(
        &self,
        level: usize,
        start: &[u8],
        end: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let range = KeyRange { start: start.to_vec(), end: end.map(<[u8]>::to_vec) };
        let mut cursor = self.rows.scan(range, Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            self.pacer.spend(STEPS_PER_RECORD)?;
            let head = StoredRow::head(&entry.value).map_err(|_| damaged(store::Table::View, &entry.key))?;
            if head.is_some_and(|(found, _)| usize::from(found) == level) && !each(&entry.key) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the number of main documents directly in a category. The empty path is the view.
    fn direct_documents(&self, path: &[u8]) -> Result<u64> {
        let start = self.rows.level_before(0, &self.first_key_of_documents(path))?;
        let end = match self.end_of_documents(path) {
            Some(end) => self.rows.level_before(0, &end)?,
            None => self.rows.level_total(0)?,
        };
        Ok(end - start)
    }

    fn first_key_of_documents(&self, path: &[u8]) -> Vec<u8> {
        if path.is_empty() { Vec::new() } else { [path, &[mark::LAST]].concat() }
    }

    /// Returns the first key behind the documents of a category. In a view with categories, every document is in a
    /// category.
    fn end_of_documents(&self, path: &[u8]) -> Option<Vec<u8>> {
        let has_categories = self.index.keys(self.collation).has_categories();
        match (path.is_empty(), has_categories) {
            (true, true) => Some(Vec::new()),
            (true, false) => None,
            (false, _) => Some([path, &[mark::NEXT_COLUMN]].concat()),
        }
    }

    fn rank_of_category(&self, level: u8, above: &[u8], path: &[u8]) -> Result<u64> {
        let key = [&[level], path].concat();
        Ok(self.category_rank(&key)? - self.category_rank(&first_category(level, above))?)
    }

    /// Returns the number of visible category records before a record.
    fn category_rank(&self, record: &[u8]) -> Result<u64> {
        Ok(self.categories.rank(record)? - self.rows.hidden.categories_before(record))
    }

    fn category_at(&self, level: u8, above: &[u8], number: u64) -> Result<Option<Vec<u8>>> {
        let first = self.category_rank(&first_category(level, above))?;
        let entry =
            self.categories.entry_at(self.rows.hidden.category_number_among_all(first.saturating_add(number)))?;
        let is_below = |key: &Vec<u8>| key.first() == Some(&level) && key[1..].starts_with(above);
        Ok(entry.map(|entry| entry.key).filter(is_below).map(|key| key[1..].to_vec()))
    }

    fn tally(&self, level: u8, path: &[u8]) -> Result<Option<CategoryTotals>> {
        let record = [&[level], path].concat();
        let stored = self.categories.find(&record)?.map(|value| decode_tally(&record, &value)).transpose()?;
        stored.map(|tally| self.visible_part(&record, tally)).transpose()
    }

    /// Subtracts the hidden documents from a category record. If no known spelling is left, the first visible row
    /// beneath gives the name.
    fn visible_part(&self, record: &[u8], tally: CategoryTotals) -> Result<CategoryTotals> {
        let mut tally = match self.rows.hidden.tally(record) {
            Some(hidden) => tally.without(hidden),
            None => tally,
        };
        if tally.is_nameless()
            && let Some(name) = self.first_spelling(record)?
        {
            tally.set_name(name);
        }
        Ok(tally)
    }

    /// Returns the spelling of a category in the first main document beneath it.
    fn first_spelling(&self, record: &[u8]) -> Result<Option<String>> {
        let Some((level, path)) = record.split_first() else { return Ok(None) };
        let mut cursor = self.scan(KeyRange::prefix(path), Direction::Forward)?;
        while let Some(entry) = cursor.next()? {
            self.pacer.spend(STEPS_PER_RECORD)?;
            let Ok(StoredRow::Document(row)) = StoredRow::decode(&entry.value) else { continue };
            if row.response_level == 0 {
                let mut names = self.keys().spellings(&row.cells[..]);
                let level = usize::from(*level).wrapping_sub(1);
                return Ok((level < names.len()).then(|| names.swap_remove(level)));
            }
        }
        Ok(None)
    }

    /// Decodes a stored row.
    pub(crate) fn row(&self, key: Vec<u8>, value: &[u8]) -> Result<ViewRow> {
        let shown = match StoredRow::decode(value).map_err(|_| damaged(store::Table::View, &key))? {
            StoredRow::Document(row) => ViewRowContents::Document { note: note_of(&key)?, row },
            StoredRow::Category => {
                let above = self.index.keys(self.collation).paths_above(&key).ok_or_else(|| not_a_row(&key))?;
                let level = above.len() as u8 + 1;
                let tally =
                    self.tally(level, &key[..key.len() - 1])?.ok_or_else(|| damaged(store::Table::View, &key))?;
                ViewRowContents::Category { level, tally }
            }
        };
        Ok(ViewRow { key, contents: shown })
    }
}

/// A cursor over the outermost categories.
pub(crate) struct OutermostCategories<'w, 'r> {
    reader: &'w ViewReader<'r>,
    scan: Option<EntryCursor<'r>>,
}

impl OutermostCategories<'_, '_> {
    pub(crate) fn next(&mut self) -> Result<Option<ViewRow>> {
        let Some(scan) = &mut self.scan else { return Ok(None) };
        while let Some((record, value)) = scan.next()? {
            self.reader.pacer.spend(STEPS_PER_RECORD)?;
            let (Some(1), path) = (record.first(), &record[1..]) else { break };
            if !self.reader.rows.hidden.hides_category(record) {
                let tally = self.reader.visible_part(record, decode_tally(record, value)?)?;
                let key = [path, &[mark::ROW]].concat();
                return Ok(Some(ViewRow { key, contents: ViewRowContents::Category { level: 1, tally } }));
            }
        }
        Ok(None)
    }
}

fn first_category(level: u8, above: &[u8]) -> Vec<u8> {
    let mut key = vec![level];
    if !above.is_empty() {
        key.extend(above);
        key.push(mark::NEXT_COLUMN);
    }
    key
}

fn decode_tally(key: &[u8], value: &[u8]) -> Result<CategoryTotals> {
    CategoryTotals::decode(value).map_err(|_| damaged(store::Table::View, key))
}

fn not_a_row(key: &[u8]) -> Error {
    damaged(store::Table::View, key)
}
