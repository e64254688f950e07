//! Consistency check of a view's index, for fixup.
//!
//! Whatever the rows are, the categories must count them, `viewback` must name exactly these rows with their size, and
//! the size of the index must be that of its rows and categories. Only an evaluation can show that the rows match the
//! documents. An index with any fault is built anew, which includes that evaluation.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use base::NoteId;
use collection::{CollectionReader, CountOnly};
use store::{Direction, KeyRange, Table, TableReader};

use crate::error::Result;
use crate::keys;
use crate::view::category::CategoryTotals;
use crate::view::index::{ViewBackRecord, ViewIndex};
use crate::view::index_record::IndexRecord;
use crate::view::index_size;
use crate::view::row::{self, StoredRow};
use crate::view::row_change::RowWeights;

/// A summary of a set of document rows, independent of their order: the number of rows, the sum of their digests, and
/// the sum of the sizes of each note.
///
/// It compares two lists of millions of rows without random disk accesses for each row. Damage to rows does not produce
/// an equal sum.
#[derive(Debug, Default)]
struct RowDigest {
    count: u64,
    sum: u64,
    /// The sum of the sizes of the rows, each multiplied by a digest of its note. The rows of a note may be added
    /// together or one by one.
    sizes_by_note: u64,
}

impl RowDigest {
    fn add(&mut self, order: usize, note: NoteId, key: &[u8]) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(digest(&(order, note.0, key)));
    }

    fn add_size(&mut self, note: NoteId, bytes: u64) {
        self.sizes_by_note = self.sizes_by_note.wrapping_add(digest(&note.0).wrapping_mul(bytes));
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut digest = DefaultHasher::new();
    value.hash(&mut digest);
    digest.finish()
}

/// The contents of the orders of an index.
#[derive(Debug, Default)]
struct IndexContents {
    rows: RowDigest,
    /// The size of the rows and categories, in bytes.
    bytes: u64,
}

/// Returns a description of the first fault of an index, or `None` if the index is sound or was never written. Indexes
/// of programs with older rules have no sizes.
pub(crate) fn fault(reader: &dyn TableReader, index: &ViewIndex, record: &IndexRecord) -> Result<Option<String>> {
    let mut found = IndexContents::default();
    for order in 0..index.orders() {
        if let Some(reason) = fault_of_order(reader, index, order, &mut found)? {
            return Ok(Some(format!("order {order}: {reason}")));
        }
    }
    let Some(named) = rows_in_viewback(reader, index)? else {
        return Ok(Some("the record of a note's rows cannot be read".into()));
    };
    let IndexContents { rows, bytes } = found;
    if named.count != rows.count {
        return Ok(Some(format!("it has {} rows instead of {}", rows.count, named.count)));
    }
    if named.sum != rows.sum {
        return Ok(Some("some rows belong to no note, and others are missing".into()));
    }
    if !record.has_current_rules() {
        return Ok(None);
    }
    if named.sizes_by_note != rows.sizes_by_note {
        return Ok(Some("the record of a note's rows has a wrong size".into()));
    }
    let stored = index.stored_state(reader)?.bytes;
    Ok((stored != bytes).then(|| format!("its size is {bytes} bytes, but {stored} are stored")))
}

fn fault_of_order(
    reader: &dyn TableReader,
    index: &ViewIndex,
    order: usize,
    found: &mut IndexContents,
) -> Result<Option<String>> {
    if let Some(finding) = collection::check(reader, index.rows(order), &RowWeights)?.first() {
        return Ok(Some(finding.to_string()));
    }
    if let Some(finding) = collection::check(reader, index.categories(order), &CountOnly)?.first() {
        return Ok(Some(format!("categories: {finding}")));
    }
    let mut expected: BTreeMap<Vec<u8>, CategoryTotals> = BTreeMap::new();
    let mut category_rows = 0;
    let rows = CollectionReader::open(reader, index.rows(order))?;
    let mut scan = rows.scan(&KeyRange::all(), Direction::Forward)?;
    while let Some((key, value)) = scan.next()? {
        let Ok(StoredRow::Document(row)) = StoredRow::decode(value) else {
            category_rows += 1;
            continue;
        };
        let note = row::note_of(key)?;
        let size = index_size::row_bytes(key, value.len());
        found.rows.add(order, note, key);
        found.rows.add_size(note, size);
        found.bytes += size;
        index.for_each_count(order, key, &row, &mut |record, spelling, cells| {
            expected.entry(record).or_insert_with(|| CategoryTotals::exact(cells.len())).add(spelling, cells);
            Ok(())
        })?;
    }
    let categories = CollectionReader::open(reader, index.categories(order))?;
    let mut scan = categories.scan(&KeyRange::all(), Direction::Forward)?;
    let mut left = expected.len();
    while let Some((record, value)) = scan.next()? {
        found.bytes += index_size::category_bytes(record);
        let counted = CategoryTotals::decode(value);
        let is_right = expected.get(record).zip(counted.ok()).is_some_and(|(exact, tally)| tally.agrees_with(exact));
        if !is_right {
            return Ok(Some("the totals of a category do not match the documents below it".into()));
        }
        left -= 1;
    }
    let has_rows = category_rows == expected.len().saturating_sub(1);
    Ok((left > 0 || !has_rows).then(|| "a category is missing".into()))
}

/// Returns the rows that the `viewback` records name, or `None` if a record cannot be read.
fn rows_in_viewback(reader: &dyn TableReader, index: &ViewIndex) -> Result<Option<RowDigest>> {
    let mut named = RowDigest::default();
    let range = keys::view_back_range(index.rows(0).database, index.id());
    let mut cursor = reader.scan(Table::ViewBack, &range, Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        let (Some(note), Ok(back)) = (keys::split_view_back(key), ViewBackRecord::decode(value, index.orders())) else {
            return Ok(None);
        };
        named.add_size(note, back.bytes);
        for (order, keys) in back.keys.iter().enumerate() {
            for key in keys {
                named.add(order, note, key);
            }
        }
    }
    Ok(Some(named))
}
