//! Comparing the index of a view with itself: for fixup.
//!
//! Whatever the rows are, categories must count them, and `viewback` must name them and nothing else. Whether the rows are those of the documents only an
//! evaluation tells; an index in which something is wrong is built anew, which is one.

use std::collections::BTreeMap;

use store::{Direction, KeyRange, Read, Table};

use crate::collection::{self, CollectionId, CountOnly, Reader};
use crate::error::Result;
use crate::keys;
use crate::view::category::Tally;
use crate::view::index::{Back, Index, RowWeigh};
use crate::view::row::Row;

/// Says what is wrong with an index; nothing of one that is sound or was never written.
pub(crate) fn fault(reader: &dyn Read, index: &Index) -> Result<Option<String>> {
    let mut rows = 0;
    for order in 0..index.orders() {
        if let Some(why) = fault_of_order(reader, index, order)? {
            return Ok(Some(format!("order {order}: {why}")));
        }
        rows += documents(reader, index.rows(order))?;
    }
    fault_of_back(reader, index, rows)
}

fn fault_of_order(reader: &dyn Read, index: &Index, order: usize) -> Result<Option<String>> {
    if let Some(finding) = collection::check(reader, index.rows(order), &RowWeigh)?.first() {
        return Ok(Some(finding.to_string()));
    }
    if let Some(finding) = collection::check(reader, index.categories(order), &CountOnly)?.first() {
        return Ok(Some(format!("categories: {finding}")));
    }
    let mut expected: BTreeMap<Vec<u8>, Tally> = BTreeMap::new();
    let mut category_rows = 0;
    let rows = Reader::open(reader, index.rows(order))?;
    let mut scan = rows.scan(&KeyRange::all(), Direction::Forward)?;
    while let Some((key, value)) = scan.next()? {
        let Ok(Row::Document(row)) = Row::decode(value) else {
            category_rows += 1;
            continue;
        };
        index.each_count(order, key, &row, &mut |record, spelling, cells| {
            expected.entry(record).or_insert_with(|| Tally::exact(cells.len())).add(spelling, cells);
            Ok(())
        })?;
    }
    let categories = Reader::open(reader, index.categories(order))?;
    let mut scan = categories.scan(&KeyRange::all(), Direction::Forward)?;
    let mut left = expected.len();
    while let Some((record, value)) = scan.next()? {
        let counted = Tally::decode(value);
        let is_right = expected.get(record).zip(counted.ok()).is_some_and(|(exact, tally)| tally.agrees_with(exact));
        if !is_right {
            return Ok(Some("a category counts what is not beneath it".into()));
        }
        left -= 1;
    }
    let has_rows = category_rows == expected.len().saturating_sub(1);
    Ok((left > 0 || !has_rows).then(|| "a category is missing".into()))
}

fn documents(reader: &dyn Read, rows: CollectionId) -> Result<u64> {
    let rows = Reader::open(reader, rows)?;
    let mut scan = rows.scan(&KeyRange::all(), Direction::Forward)?;
    let mut count = 0;
    while let Some((_, value)) = scan.next()? {
        count += u64::from(matches!(Row::head(value), Ok(Some(_))));
    }
    Ok(count)
}

/// Compares what is said of the notes with `rows` rows of documents.
fn fault_of_back(reader: &dyn Read, index: &Index, rows: u64) -> Result<Option<String>> {
    let mut named = 0;
    let range = keys::view_back(index.rows(0).database, index.id());
    let mut cursor = reader.scan(Table::ViewBack, &range, Direction::Forward)?;
    while let Some((_, value)) = cursor.next()? {
        let Ok(back) = Back::decode(value, index.orders()) else {
            return Ok(Some("what is said of a note's rows cannot be read".into()));
        };
        for (order, keys) in back.keys.iter().enumerate() {
            for key in keys {
                if reader.get(Table::View, &index.rows(order).entry_key(key))?.is_none() {
                    return Ok(Some("a row is missing".into()));
                }
                named += 1;
            }
        }
    }
    Ok((named != rows).then(|| format!("{rows} rows are there, and {named} belong to notes")))
}
