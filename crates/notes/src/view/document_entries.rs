//! The entries of a document in a view. Most documents have one (`docs/views.md`, "The rows of a document").
//!
//! A column that shows each value as an entry of its own multiplies the document. In a calendar view a document appears
//! at its beginning, and at the beginning of each later day that it reaches into, so the rows of some days include
//! everything that happens in them.
//!
//! A [`DocumentEntry`] borrows the cells of its document and records which single value of a column it has, so a
//! thousand entries of a long document take no more memory than the document. Only written cells are copied, and these
//! are cut ([`cells_within`]).

use base::Timestamp;

use crate::view::cell::{Cell, CellValue};
use crate::view::limits::{NOTE_ROWS_BYTES_MAX, ROW_BYTES_MAX};
use crate::view::row::FirstValues;
use crate::view::view_format::ViewDesign;

/// Number of microseconds in a day (UTC).
const DAY: i64 = 86_400_000_000;

/// Number of microseconds in a minute.
const MINUTE: f64 = 60_000_000.0;

/// An entry of a document.
#[derive(Clone, Debug)]
pub(super) struct DocumentEntry<'c> {
    cells: &'c [Cell],
    /// The columns of which the entry has a single value, with that value.
    own: Vec<(usize, SingleValue)>,
}

/// The single value of a column in an entry.
#[derive(Clone, Copy, Debug)]
enum SingleValue {
    /// The document's value at this index.
    Value(usize),
    /// The beginning of a day.
    Day(Timestamp),
}

impl<'c> DocumentEntry<'c> {
    /// Returns the entry that has all values of a document.
    pub(super) fn whole(cells: &'c [Cell]) -> Self {
        Self { cells, own: Vec::new() }
    }

    fn single_value(&self, column: usize) -> Option<SingleValue> {
        self.own.iter().find(|(own, _)| *own == column).map(|(_, own)| *own)
    }

    fn set_own(&mut self, column: usize, value: SingleValue) {
        self.own.retain(|(own, _)| *own != column);
        self.own.push((column, value));
    }

    /// Returns the number of values in a column.
    fn count(&self, column: usize) -> usize {
        if self.single_value(column).is_some() { 1 } else { self.cells[column].len() }
    }

    /// Returns the size of a column's values in bytes.
    fn byte_count(&self, column: usize) -> usize {
        match self.single_value(column) {
            None => self.cells[column].byte_count(),
            Some(_) => self.first(column).byte_count(),
        }
    }

    /// Returns the values of a column, as many as fit into `bytes_max` bytes.
    fn cell(&self, column: usize, bytes_max: usize) -> Cell {
        match self.single_value(column) {
            None => self.cells[column].cut_to(bytes_max),
            Some(SingleValue::Day(day)) => Cell::Times(vec![day]),
            Some(SingleValue::Value(value)) => self.cells[column].single(value, bytes_max),
        }
    }

    /// Returns one entry for each value of a column. In a calendar view, each beginning keeps the end with the same
    /// index.
    fn each_value(self, design: &ViewDesign, column: usize) -> impl Iterator<Item = Self> {
        let end = design.range.filter(|(begin, _)| usize::from(*begin) == column).map(|(_, end)| usize::from(end));
        let count = self.count(column);
        let end = end.filter(|end| self.single_value(*end).is_none() && self.count(*end) == count);
        let is_one = self.single_value(column).is_some();
        (0..count).map(move |value| {
            let mut entry = self.clone();
            if !is_one {
                entry.set_own(column, SingleValue::Value(value));
                end.into_iter().for_each(|end| entry.set_own(end, SingleValue::Value(value)));
            }
            entry
        })
    }

    /// Returns the entries of a calendar document: the entry itself, and one for each later day.
    fn each_day(self, design: &ViewDesign) -> impl Iterator<Item = Self> {
        let (begin, end) = design.range.map_or((0, 0), |(begin, end)| (usize::from(begin), usize::from(end)));
        let span = match (self.first(begin), self.first(end)) {
            (CellValue::Time(from), CellValue::Time(to)) => Some((from.0, to.0)),
            (CellValue::Time(from), CellValue::Number(minutes)) => {
                Some((from.0, from.0.saturating_add((minutes * MINUTE) as i64)))
            }
            _ => None,
        };
        let later = span.map_or(0..0, |(from, to)| from.div_euclid(DAY) + 1..to.saturating_sub(1).div_euclid(DAY) + 1);
        let of_day = {
            let entry = self.clone();
            move |day: i64| {
                let mut entry = entry.clone();
                entry.set_own(begin, SingleValue::Day(Timestamp(day.saturating_mul(DAY))));
                entry
            }
        };
        std::iter::once(self).chain(later.map(of_day))
    }
}

impl FirstValues for DocumentEntry<'_> {
    fn first(&self, column: usize) -> CellValue<'_> {
        match self.single_value(column) {
            None => self.cells[column].one(0),
            Some(SingleValue::Value(value)) => self.cells[column].one(value),
            Some(SingleValue::Day(day)) => CellValue::Time(day),
        }
    }

    fn is_shared(&self, column: usize) -> bool {
        self.single_value(column).is_none()
    }
}

/// The entries of a document in one order of a view.
pub(super) struct DocumentEntries<'c> {
    /// The first entries.
    pub(super) entries: Vec<DocumentEntry<'c>>,
    /// `true` if the document has further entries, which are omitted.
    pub(super) is_cut: bool,
}

/// Returns the first `count_max` entries of a document, or `None` if the document is a single entry with all values.
pub(super) fn entries<'c>(design: &ViewDesign, cells: &'c [Cell], count_max: usize) -> Option<DocumentEntries<'c>> {
    let is_multiplied = |index: usize| {
        let column = &design.columns[index];
        column.multi_value && column.sort.is_some() && cells[index].len() > 1
    };
    let multiplied: Vec<usize> = (0..design.columns.len()).filter(|index| is_multiplied(*index)).collect();
    if multiplied.is_empty() && design.range.is_none() {
        return None;
    }
    let mut found = DocumentEntries { entries: vec![DocumentEntry::whole(cells)], is_cut: false };
    for column in multiplied {
        found.replace_each(count_max, |entry| entry.each_value(design, column));
    }
    if design.range.is_some() {
        found.replace_each(count_max, |entry| entry.each_day(design));
    }
    assert!((1..=count_max).contains(&found.entries.len()), "a document has between 1 and `count_max` entries");
    Some(found)
}

impl<'c> DocumentEntries<'c> {
    /// Replaces each entry by several, and keeps the first `count_max` of all.
    fn replace_each<I: Iterator<Item = DocumentEntry<'c>>>(
        &mut self,
        count_max: usize,
        replace: impl FnMut(DocumentEntry<'c>) -> I,
    ) {
        let entries = std::mem::take(&mut self.entries);
        self.entries = entries.into_iter().flat_map(replace).take(count_max.saturating_add(1)).collect();
        self.is_cut |= self.entries.len() > count_max;
        self.entries.truncate(count_max);
    }
}

/// Returns the maximum size of the cells of one row, for a document with `rows` rows in all orders of a view together.
pub(super) fn row_bytes_max(rows: usize) -> usize {
    ROW_BYTES_MAX.min(NOTE_ROWS_BYTES_MAX / rows.max(1))
}

/// Copies the cells of an entry for a row whose cells may take `bytes_max` bytes.
///
/// If the cells are larger, the longest are cut, all to the same length. Categories are cut only if they alone take
/// more than half of the limit.
pub(super) fn cells_within(design: &ViewDesign, entry: &DocumentEntry<'_>, bytes_max: usize) -> Vec<Cell> {
    let sizes: Vec<usize> = (0..entry.cells.len()).map(|column| entry.byte_count(column)).collect();
    let is_category = |column: usize| design.columns.get(column).is_some_and(|column| column.categorized);
    let of = |categories: bool| {
        let of_kind = move |(column, _): &(usize, &usize)| is_category(*column) == categories;
        sizes.iter().enumerate().filter(of_kind).map(|(_, size)| *size).collect::<Vec<_>>()
    };
    let categories = of(true);
    let others = of(false);
    let total: usize = sizes.iter().sum();
    let category_max = if total <= bytes_max { usize::MAX } else { cut_length(categories.clone(), bytes_max / 2) };
    let taken: usize = categories.iter().map(|size| (*size).min(category_max)).sum();
    let other_max = if total <= bytes_max { usize::MAX } else { cut_length(others, bytes_max - taken) };
    let length = |column: usize| if is_category(column) { category_max } else { other_max };
    (0..entry.cells.len()).map(|column| entry.cell(column, length(column))).collect()
}

/// Returns the length to which the longest of some pieces must be cut, so that their sum is at most `sum_max`.
fn cut_length(mut sizes: Vec<usize>, sum_max: usize) -> usize {
    sizes.sort_unstable();
    let mut left = sum_max;
    for (place, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - place);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use base::{NoteId, Unid};

    use super::*;
    use crate::limits::NOTE_ROWS_PER_VIEW_MAX;
    use crate::view::row::{KeyDocument, RowKeys, SharedComponents};
    use crate::view::sort_key::SortDirection;
    use crate::view::view_format::Column;

    const HOUR: i64 = DAY / 24;

    fn calendar() -> ViewDesign {
        let begin = Column {
            title: "Begin".into(),
            sort: Some(SortDirection::Ascending),
            multi_value: true,
            ..Column::default()
        };
        let end = Column { title: "End".into(), ..Column::default() };
        ViewDesign { columns: vec![begin, end], range: Some((0, 1)), ..ViewDesign::default() }
    }

    fn times(hours: &[i64]) -> Cell {
        Cell::Times(hours.iter().map(|hours| Timestamp(hours * HOUR)).collect())
    }

    /// Returns the cells of each entry.
    fn entry_cells(design: &ViewDesign, cells: &[Cell]) -> Option<Vec<Vec<Cell>>> {
        let cells_of = |entry: &DocumentEntry<'_>| cells_within(design, entry, ROW_BYTES_MAX);
        let found = entries(design, cells, NOTE_ROWS_PER_VIEW_MAX);
        found.map(|found| found.entries.iter().map(cells_of).collect())
    }

    /// Returns the beginning and the end of each entry, in hours.
    fn begins_and_ends(begin: Cell, end: Cell) -> Vec<(i64, i64)> {
        let hours = |cell: &Cell| match cell.one(0) {
            CellValue::Time(time) => time.0 / HOUR,
            other => panic!("{other:?} is no time"),
        };
        let entries = entry_cells(&calendar(), &[begin, end]).expect("a calendar view has entries of its own");
        entries.iter().map(|cells| (hours(&cells[0]), hours(&cells[1]))).collect()
    }

    #[test]
    fn calendar_entry_appears_on_each_day_it_covers() {
        assert_eq!(begins_and_ends(times(&[9]), times(&[10])), [(9, 10)]);
        assert_eq!(
            begins_and_ends(times(&[9]), times(&[24])),
            [(9, 24)],
            "it does not cover the day that begins at its end"
        );
        assert_eq!(begins_and_ends(times(&[20]), times(&[50])), [(20, 50), (24, 50), (48, 50)]);
        assert_eq!(begins_and_ends(times(&[-30]), times(&[1])), [(-30, 1), (-24, 1), (0, 1)]);
        assert_eq!(begins_and_ends(times(&[9]), times(&[8])), [(9, 8)], "it ends before it begins");
    }

    #[test]
    fn begins_and_ends_of_a_series_are_paired() {
        assert_eq!(begins_and_ends(times(&[1, 25, 47]), times(&[2, 26, 49])), [(1, 2), (25, 26), (47, 49), (48, 49)]);
    }

    #[test]
    fn the_end_may_be_a_duration_in_minutes() {
        let entries = entry_cells(&calendar(), &[times(&[23]), Cell::Numbers(vec![120.0])]).expect("entries");
        assert_eq!(entries.iter().map(|cells| cells[0].clone()).collect::<Vec<_>>(), [times(&[23]), times(&[24])]);
        let endless = entry_cells(&calendar(), &[times(&[0]), Cell::Numbers(vec![f64::INFINITY])]).expect("entries");
        assert_eq!(endless.len(), NOTE_ROWS_PER_VIEW_MAX);
        let backwards = entry_cells(&calendar(), &[times(&[0]), Cell::Numbers(vec![-1e300])]).expect("entries");
        assert_eq!(backwards.len(), 1);
    }

    #[test]
    fn excess_entries_are_omitted() {
        let begins = times(&[1, 25, 47]);
        let ends = times(&[2, 26, 49]);
        let cells = [begins, ends];
        let found = |count_max: usize| {
            let found = entries(&calendar(), &cells, count_max).expect("a calendar view has entries of its own");
            (found.entries.len(), found.is_cut)
        };
        assert_eq!([1, 2, 3, 4, 5].map(found), [(1, true), (2, true), (3, true), (4, false), (4, false)]);
    }

    #[test]
    fn keys_of_entries_are_the_same_with_shared_components() {
        let sorted = |sort| Column { sort: Some(sort), ..Column::default() };
        let multiplied = Column { multi_value: true, ..sorted(SortDirection::Ascending) };
        let columns = vec![multiplied, sorted(SortDirection::Descending), sorted(SortDirection::Ascending)];
        let design = ViewDesign { columns, ..ViewDesign::default() };
        let text = |text: &str| Cell::Texts(vec![text.to_owned()]);
        let values = Cell::Texts(vec!["b".into(), "A\0".into(), "é".repeat(300)]);
        let cells = [values, text(&"Zoë ".repeat(200)), text("same")];
        let found = entries(&design, &cells, NOTE_ROWS_PER_VIEW_MAX).expect("a document with three entries").entries;
        assert_eq!(found.len(), 3);
        let mut shared = SharedComponents::default();
        let document = KeyDocument { created: Timestamp(5), unid: Unid([7; 16]), note: NoteId(7) };
        for collation in [
            vec![(0, SortDirection::Ascending), (1, SortDirection::Descending), (2, SortDirection::Ascending)],
            vec![(2, SortDirection::Descending), (1, SortDirection::Ascending), (0, SortDirection::Descending)],
        ] {
            let keys = RowKeys::new(&design, &collation);
            for (number, entry) in (0..).zip(&found) {
                let expected = keys.document_key(entry, document, number);
                assert_eq!(keys.entry_key(entry, document, number, &mut shared), expected, "{number} {collation:?}");
            }
        }
    }

    #[test]
    fn document_without_times_has_one_entry() {
        let cells = vec![Cell::Texts(vec!["soon".into()]), Cell::None];
        assert_eq!(entry_cells(&calendar(), &cells), Some(vec![cells]));
        let plain = ViewDesign { range: None, ..calendar() };
        assert_eq!(entry_cells(&plain, &[times(&[1]), times(&[2])]), None);
        assert_eq!(entry_cells(&plain, &[times(&[1, 3]), times(&[2])]).map(|entries| entries.len()), Some(2));
    }

    #[test]
    fn longest_cells_are_truncated_first_and_categories_last() {
        let text = |length: usize| Cell::Texts(vec!["x".repeat(length)]);
        let category = Column { categorized: true, sort: Some(SortDirection::Ascending), ..Column::default() };
        let columns = vec![category, Column::default(), Column::default(), Column::default()];
        let design = ViewDesign { columns, ..ViewDesign::default() };
        let lengths = |sizes: [usize; 4], bytes_max: usize| {
            let cells = sizes.map(text);
            let cells = cells_within(&design, &DocumentEntry::whole(&cells), bytes_max);
            assert!(cells.iter().map(Cell::byte_count).sum::<usize>() <= bytes_max, "{sizes:?}");
            cells.iter().map(|cell| cell.byte_count() - 2).collect::<Vec<_>>()
        };
        assert_eq!(lengths([10, 20, 30, 32], 100), [10, 20, 30, 32]);
        assert_eq!(lengths([10, 20, 300, 400], 100), [10, 20, 31, 31]);
        assert_eq!(lengths([400, 6, 300, 8], 100), [48, 6, 30, 8]);
        assert_eq!((row_bytes_max(1), row_bytes_max(1_024)), (ROW_BYTES_MAX, 1_024));
    }
}
