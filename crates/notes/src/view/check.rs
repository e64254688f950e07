//! Consistency check of a view's index, for fixup.
//!
//! Whatever the rows are, the categories must count them, and `viewback` must name exactly these rows. Only an
//! evaluation can show that the rows match the documents. An index with any fault is built anew, which includes that
//! evaluation.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use base::NoteId;
use collection::{CollectionReader, CountOnly};
use store::{Direction, KeyRange, Table, TableReader};

use crate::error::Result;
use crate::keys;
use crate::view::category::CategoryTotals;
use crate::view::index::{ViewBackRecord, ViewIndex};
use crate::view::row::{self, StoredRow};
use crate::view::row_change::RowWeights;

/// A summary of a set of document rows, independent of their order: the number of rows, and the sum of their digests.
///
/// It compares two lists of millions of rows without random disk accesses for each row. Damage to rows does not produce
/// an equal sum.
#[derive(Debug, Default, PartialEq, Eq)]
struct RowDigest {
    count: u64,
    sum: u64,
}

impl RowDigest {
    fn add(&mut self, order: usize, note: NoteId, key: &[u8]) {
        let mut digest = DefaultHasher::new();
        (order, note.0, key).hash(&mut digest);
        self.count += 1;
        self.sum = self.sum.wrapping_add(digest.finish());
    }
}

/// Returns a description of the first fault of an index, or `None` if the index is sound or was never written.
pub(crate) fn fault(reader: &dyn TableReader, index: &ViewIndex) -> Result<Option<String>> {
    let mut rows = RowDigest::default();
    for order in 0..index.orders() {
        if let Some(reason) = fault_of_order(reader, index, order, &mut rows)? {
            return Ok(Some(format!("order {order}: {reason}")));
        }
    }
    fault_of_viewback(reader, index, &rows)
}

fn fault_of_order(
    reader: &dyn TableReader,
    index: &ViewIndex,
    order: usize,
    found: &mut RowDigest,
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
        found.add(order, row::note_of(key)?, key);
        index.for_each_count(order, key, &row, &mut |record, spelling, cells| {
            expected.entry(record).or_insert_with(|| CategoryTotals::exact(cells.len())).add(spelling, cells);
            Ok(())
        })?;
    }
    let categories = CollectionReader::open(reader, index.categories(order))?;
    let mut scan = categories.scan(&KeyRange::all(), Direction::Forward)?;
    let mut left = expected.len();
    while let Some((record, value)) = scan.next()? {
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

/// Compares the `viewback` records with the document rows.
fn fault_of_viewback(reader: &dyn TableReader, index: &ViewIndex, rows: &RowDigest) -> Result<Option<String>> {
    let mut named = RowDigest::default();
    let range = keys::view_back_range(index.rows(0).database, index.id());
    let mut cursor = reader.scan(Table::ViewBack, &range, Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        let (Some(note), Ok(back)) = (keys::split_view_back(key), ViewBackRecord::decode(value, index.orders())) else {
            return Ok(Some("the record of a note's rows cannot be read".into()));
        };
        for (order, keys) in back.keys.iter().enumerate() {
            for key in keys {
                named.add(order, note, key);
            }
        }
    }
    Ok(match named.count == rows.count {
        true => (named != *rows).then(|| "some rows belong to no note, and others are missing".into()),
        false => Some(format!("it has {} rows instead of {}", rows.count, named.count)),
    })
}
