//! Incremental update of the rows that are hidden from one reader.
//!
//! Finding all hidden rows means reading every row with Readers items. When only a few rows of a view change, only
//! these are read. The row counts of all ranges are updated. Hidden rows are searched again among the changed main
//! documents with the responses beneath them, and in categories that became empty for the reader or stopped being so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Unid;
use store::KeyRange;

use super::{CollationRows, HiddenRange, HiddenRows, MayRead, RowCounts};
use crate::error::{Result, damaged};
use crate::view::category::CategoryTotals;
use crate::view::row::DocumentRow;
use crate::view::row_change::{COUNTED_LEVELS, RowChange, RowState};

impl RowState {
    fn counts(&self) -> RowCounts {
        let level = match self {
            Self::Category => usize::MAX,
            Self::Document(row) => usize::from(row.response_level),
            Self::Counted { response_level, .. } => usize::from(*response_level),
        };
        let levels: [i64; COUNTED_LEVELS] = std::array::from_fn(|counted| i64::from(counted == level));
        RowCounts { all: 1, levels }
    }

    fn is_restricted(&self) -> bool {
        match self {
            Self::Category => false,
            Self::Document(row) => row.readers.is_some(),
            Self::Counted { restricted, .. } => *restricted,
        }
    }

    fn document(&self) -> Option<Arc<DocumentRow>> {
        match self {
            Self::Category => None,
            Self::Document(row) => Some(Arc::clone(row)),
            Self::Counted { response_level, .. } => Some(Arc::new(DocumentRow {
                unid: Unid([0; 16]),
                response_level: *response_level,
                readers: None,
                conflict: false,
                cells: Vec::new(),
            })),
        }
    }
}

/// The combined effect of several changes, by row key.
#[derive(Default)]
pub(crate) struct CombinedRowChanges(BTreeMap<Vec<u8>, (Option<RowState>, Option<RowState>)>);

impl CombinedRowChanges {
    /// Adds a change that follows the earlier ones.
    pub(crate) fn add(&mut self, change: &RowChange) {
        match self.0.get_mut(&change.key) {
            Some((_, after)) => {
                assert_eq!(
                    after.is_some(),
                    change.before.is_some(),
                    "a change starts from the state after the previous one"
                );
                after.clone_from(&change.after);
            }
            None => drop(self.0.insert(change.key.clone(), (change.before.clone(), change.after.clone()))),
        }
    }
}

impl HiddenRows {
    /// Updates the hidden rows to the state of `order` that these changes produced.
    pub(crate) fn apply_changes(
        &mut self,
        order: &CollationRows<'_>,
        changes: &CombinedRowChanges,
        may_read: &mut MayRead<'_>,
    ) -> Result<()> {
        let main_documents = self.changed_main_documents(order, changes)?;
        for document in &main_documents {
            for (key, row) in rows_before_changes(order, changes, document)? {
                if self.range_of(&key).is_some() {
                    self.count(order, &key, &row, CategoryTotals::remove)?;
                }
            }
        }
        self.update_row_counts(changes);
        for document in &main_documents {
            self.recompute_hidden(order, document, may_read)?;
        }
        self.follow_categories(order, changes, may_read)?;
        self.merge_within_categories(order)?;
        self.count_preceding();
        Ok(())
    }

    /// Returns the keys of the main documents beneath which a row changed that has or had Readers items, or that was
    /// hidden.
    fn changed_main_documents(
        &self,
        order: &CollationRows<'_>,
        changes: &CombinedRowChanges,
    ) -> Result<BTreeSet<Vec<u8>>> {
        let mut main_documents = BTreeSet::new();
        for (key, (before, after)) in &changes.0 {
            let mut contents = before.iter().chain(after);
            let is_document = contents.clone().any(|content| *content != RowState::Category);
            if is_document && (contents.any(RowState::is_restricted) || self.range_of(key).is_some()) {
                let ends = order.keys().documents_in(key).ok_or_else(|| damaged(store::Table::View, key))?;
                main_documents.insert(key[..ends[0]].to_vec());
            }
        }
        Ok(main_documents)
    }

    /// Updates the row counts of the ranges, and of the rows before them.
    fn update_row_counts(&mut self, changes: &CombinedRowChanges) {
        let mut shifts = vec![RowCounts::default(); self.ranges.len() + 1];
        for (key, (before, after)) in &changes.0 {
            let counts =
                |content: &Option<RowState>| content.as_ref().map_or_else(RowCounts::default, RowState::counts);
            let more = counts(after).minus(&counts(before));
            let place = self.ranges.partition_point(|range| *range.prefix <= key[..]);
            shifts[place].add(&more);
            if let Some(range) = place.checked_sub(1).map(|last| &mut self.ranges[last])
                && key.starts_with(&range.prefix)
            {
                range.within.add(&more);
            }
        }
        let mut shifted = RowCounts::default();
        for (range, shift) in self.ranges.iter_mut().zip(&shifts) {
            shifted.add(shift);
            range.before.add(&shifted);
        }
    }

    /// Finds the hidden rows again among a main document and the responses beneath it. None of these is counted in
    /// categories at this point.
    fn recompute_hidden(
        &mut self,
        order: &CollationRows<'_>,
        main_document: &[u8],
        may_read: &mut MayRead<'_>,
    ) -> Result<()> {
        let first = self.ranges.partition_point(|range| &range.prefix[..] < main_document);
        let beneath = self.ranges[first..].iter().take_while(|range| range.prefix.starts_with(main_document)).count();
        self.ranges.drain(first..first + beneath);
        assert!(
            beneath == 0 || self.range_of(main_document).is_none(),
            "rows in a hidden category have no separate range"
        );
        let is_covered = self.range_of(main_document).is_some();
        let found = order.hidden_documents(&KeyRange::prefix(main_document), may_read)?;
        for (place, document) in found.iter().enumerate() {
            if !is_covered {
                self.ranges.insert(first + place, HiddenRange::read(order.rows, document)?);
            }
            for (key, row) in order.documents(&KeyRange::prefix(document))? {
                self.count(order, &key, &row, CategoryTotals::add)?;
            }
        }
        Ok(())
    }

    /// Updates the hidden state of the categories in which a row changed.
    fn follow_categories(
        &mut self,
        order: &CollationRows<'_>,
        changes: &CombinedRowChanges,
        may_read: &mut MayRead<'_>,
    ) -> Result<()> {
        let mut records = BTreeSet::new();
        for (key, (before, after)) in &changes.0 {
            let paths = order.keys().paths_above(key).ok_or_else(|| damaged(store::Table::View, key))?;
            let is_category = before.iter().chain(after).any(|content| *content == RowState::Category);
            if is_category {
                let record = [&[paths.len() as u8 + 1], &key[..key.len() - 1]].concat();
                let more = i64::from(after.is_some()) - i64::from(before.is_some());
                let behind = self.categories.iter_mut().filter(|category| category.record > record);
                behind.for_each(|category| category.rank = category.rank.saturating_add_signed(more));
                records.insert(record);
            }
            let above = paths.iter().zip(1_u8..).map(|(path, level)| [&[level], *path].concat());
            records.extend(above);
        }
        for record in records {
            let path = record[1..].to_vec();
            if self.set_category(order, record)? {
                self.split_category_range(order, &path, may_read)?;
            }
        }
        Ok(())
    }

    /// Replaces the range of a category, if there is one, by the ranges of the hidden documents in it.
    fn split_category_range(
        &mut self,
        order: &CollationRows<'_>,
        path: &[u8],
        may_read: &mut MayRead<'_>,
    ) -> Result<()> {
        let Ok(place) = self.ranges.binary_search_by(|range| range.prefix[..].cmp(path)) else { return Ok(()) };
        let documents = order.hidden_documents(&KeyRange::prefix(path), may_read)?;
        let ranges: Result<Vec<HiddenRange>> =
            documents.iter().map(|document| HiddenRange::read(order.rows, document)).collect();
        self.ranges.splice(place..=place, ranges?);
        Ok(())
    }
}

/// Returns a main document and the responses beneath it as they were before the changes.
fn rows_before_changes(
    order: &CollationRows<'_>,
    changes: &CombinedRowChanges,
    main_document: &[u8],
) -> Result<BTreeMap<Vec<u8>, Arc<DocumentRow>>> {
    let mut rows: BTreeMap<Vec<u8>, Arc<DocumentRow>> =
        order.documents(&KeyRange::prefix(main_document))?.into_iter().map(|(key, row)| (key, Arc::new(row))).collect();
    for (key, (before, _)) in
        changes.0.range(main_document.to_vec()..).take_while(|(key, _)| key.starts_with(main_document))
    {
        match before.as_ref().and_then(RowState::document) {
            Some(row) => drop(rows.insert(key.clone(), row)),
            None => drop(rows.remove(key)),
        }
    }
    Ok(rows)
}
