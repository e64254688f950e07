//! The counts and totals of a category, kept in a record of its own (`docs/views.md`, "Categories").
//!
//! The record changes with each document beneath the category. [`CategoryTotals::add`] and [`CategoryTotals::remove`]
//! undo each other exactly, so the record always equals a fresh count of everything, even after years.
//!
//! The spellings of the category's name are counted exactly for the smallest ones only; all greater spellings share one
//! count. The name of the category is the smallest spelling, so it does not depend on earlier changes. When few of the
//! counted spellings are left, they are collected again from the rows ([`CategoryTotals::needs_spellings`]).
//!
//! Invariant: every spelling in the shared count is greater than all spellings counted individually.

use std::collections::BTreeMap;

use base::codec::{Decoder, Encoder, InvalidRecord};

use crate::limits::{CATEGORY_SPELLINGS_MAX, VIEW_COLUMNS_MAX};
use crate::view::cell::Cell;
use crate::view::exact_sum::ExactSum;

/// Version of the stored form. Version 1 did not count the other spellings.
const VERSION: u8 = 2;

/// Minimum number of spellings to keep while others are in the shared count.
const SPELLINGS_MIN: usize = CATEGORY_SPELLINGS_MAX / 4;

/// The counts and totals of the documents beneath a category, or in the whole view.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CategoryTotals {
    /// Number of document rows.
    pub documents: u64,
    /// The smallest spellings of the name, each with its count.
    spellings: BTreeMap<String, u64>,
    /// Number of documents with a greater spelling.
    others: u64,
    /// `true` if all spellings are counted individually, however many there are.
    is_exact: bool,
    /// The total of each column that has one.
    pub totals: Vec<ColumnTotal>,
}

/// The total of a column.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ColumnTotal {
    /// Number of summed values.
    pub values: u64,
    /// Their sum.
    pub sum: ExactSum,
}

impl CategoryTotals {
    /// Creates an empty tally for a view with `columns` columns that have totals.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { totals: vec![ColumnTotal::default(); columns], ..Self::default() }
    }

    /// Creates an empty tally for a full count, which counts all spellings individually.
    #[must_use]
    pub fn exact(columns: usize) -> Self {
        Self { is_exact: true, ..Self::new(columns) }
    }

    /// Returns the name: the smallest of the spellings.
    #[must_use]
    pub fn name(&self) -> &str {
        self.spellings.keys().next().map_or("", String::as_str)
    }

    /// Returns `true` if no document is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.documents == 0
    }

    /// Adds a document row with its spelling of the category and its cells in the columns with totals. A response has
    /// no spelling.
    pub fn add(&mut self, spelling: Option<&str>, cells: &[&Cell]) {
        assert_eq!(cells.len(), self.totals.len(), "each column with totals has a cell");
        self.documents += 1;
        spelling.into_iter().for_each(|spelling| self.count_spelling(spelling, 1));
        for (total, cell) in self.totals.iter_mut().zip(cells) {
            for number in numbers(cell) {
                total.values += 1;
                total.sum.add(*number);
            }
        }
    }

    /// Removes a document that was added with the same cells and spelling.
    pub fn remove(&mut self, spelling: Option<&str>, cells: &[&Cell]) {
        assert_eq!(cells.len(), self.totals.len(), "each column with totals has a cell");
        assert!(self.documents > 0, "only counted documents are removed");
        self.documents -= 1;
        spelling.into_iter().for_each(|spelling| self.uncount_spelling(spelling));
        for (total, cell) in self.totals.iter_mut().zip(cells) {
            for number in numbers(cell) {
                assert!(total.values > 0, "only summed values are removed");
                total.values -= 1;
                total.sum.remove(*number);
            }
        }
    }

    /// Returns the tally without a part of the counted documents.
    #[must_use]
    pub fn without(mut self, part: &Self) -> Self {
        assert!(part.documents <= self.documents, "a part has at most as many documents as the whole");
        self.documents -= part.documents;
        for (spelling, count) in &part.spellings {
            let all = self.spellings.get_mut(spelling).unwrap_or(&mut self.others);
            *all = all.saturating_sub(*count);
        }
        self.others = self.others.saturating_sub(part.others);
        self.spellings.retain(|_, count| *count > 0);
        for (total, part) in self.totals.iter_mut().zip(&part.totals) {
            total.values = total.values.saturating_sub(part.values);
            total.sum.remove_all(&part.sum);
        }
        self
    }

    /// Returns `true` if so few spellings are left beside the shared count that they must be collected again.
    #[must_use]
    pub fn needs_spellings(&self) -> bool {
        self.others > 0 && self.spellings.len() < SPELLINGS_MIN
    }

    /// Returns `true` if no spelling is known although documents have one.
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        self.others > 0 && self.spellings.is_empty()
    }

    /// Takes the spellings from another count of the same documents.
    pub fn set_spellings(&mut self, counted: &Self) {
        self.spellings = BTreeMap::new();
        self.others = 0;
        counted.spellings.iter().for_each(|(spelling, count)| self.count_spelling(spelling, *count));
        self.others += counted.others;
    }

    /// Sets the name of a category without known spellings to one of the spellings in the shared count.
    pub fn set_name(&mut self, spelling: String) {
        assert!(self.is_nameless(), "the category has no name yet");
        self.others -= 1;
        self.spellings.insert(spelling, 1);
    }

    /// Returns `true` if this tally equals a full count ([`CategoryTotals::exact`]).
    #[must_use]
    pub fn agrees_with(&self, exact: &Self) -> bool {
        let mut expected = exact.spellings.iter();
        let is_beginning = self.spellings.iter().all(|spelling| expected.next() == Some(spelling));
        let others = expected.map(|(_, count)| *count).sum::<u64>() + exact.others;
        is_beginning && self.others == others && self.documents == exact.documents && self.totals == exact.totals
    }

    fn count_spelling(&mut self, spelling: &str, count: u64) {
        if let Some(known) = self.spellings.get_mut(spelling) {
            *known += count;
            return;
        }
        if self.others > 0 && self.spellings.last_key_value().is_none_or(|(last, _)| &last[..] < spelling) {
            self.others += count;
            return;
        }
        self.spellings.insert(spelling.to_owned(), count);
        if self.spellings.len() > CATEGORY_SPELLINGS_MAX
            && !self.is_exact
            && let Some((_, greatest)) = self.spellings.pop_last()
        {
            self.others += greatest;
        }
    }

    fn uncount_spelling(&mut self, spelling: &str) {
        let Some(count) = self.spellings.get_mut(spelling) else {
            assert!(self.others > 0, "only counted documents are removed");
            self.others -= 1;
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.spellings.remove(spelling);
        }
    }

    /// Encodes the tally.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(32);
        out.u8(VERSION).varint(self.documents).varint(self.spellings.len() as u64);
        for (spelling, count) in &self.spellings {
            out.text(spelling).varint(*count);
        }
        out.varint(self.others).varint(self.totals.len() as u64);
        for total in &self.totals {
            out.varint(total.values);
            total.sum.encode(&mut out);
        }
        out.finish()
    }

    /// Decodes a stored tally.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(1..=VERSION).contains(&version) {
            return Err(InvalidRecord);
        }
        let documents = input.varint()?;
        let mut spellings = BTreeMap::new();
        for _ in 0..bounded(input.count()?, CATEGORY_SPELLINGS_MAX)? {
            spellings.insert(input.text()?.to_owned(), input.varint()?);
        }
        let others = if version == 1 { 0 } else { input.varint()? };
        let count = bounded(input.count()?, VIEW_COLUMNS_MAX)?;
        let totals = (0..count).map(|_| ColumnTotal::decode(&mut input)).collect::<Result<_, _>>()?;
        Ok(Self { documents, spellings, others, is_exact: false, totals })
    }
}

impl ColumnTotal {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, InvalidRecord> {
        Ok(Self { values: input.varint()?, sum: ExactSum::decode(input)? })
    }
}

fn bounded(count: usize, max: usize) -> Result<usize, InvalidRecord> {
    if count > max { Err(InvalidRecord) } else { Ok(count) }
}

fn numbers(cell: &Cell) -> &[f64] {
    match cell {
        Cell::Numbers(numbers) => numbers,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use base::Random;
    use base::sim::SeededRandom;

    use super::*;

    #[test]
    fn removal_undoes_addition() {
        let price = Cell::Numbers(vec![0.1, 0.2]);
        let text = Cell::Texts(vec!["0.3".into()]);
        let mut tally = CategoryTotals::new(2);
        tally.add(Some("sales"), &[&price, &text]);
        tally.add(Some("Sales"), &[&Cell::Numbers(vec![1e9]), &Cell::None]);
        assert_eq!((tally.documents, tally.name(), tally.totals[0].values), (2, "Sales", 3));
        tally.remove(Some("Sales"), &[&Cell::Numbers(vec![1e9]), &Cell::None]);
        assert_eq!((tally.name(), tally.totals[0].sum.value()), ("sales", 0.1 + 0.2));
        assert_eq!(tally.totals[1].values, 0, "texts are not summed up");
        tally.remove(Some("sales"), &[&price, &text]);
        assert!(tally.is_empty() && tally == CategoryTotals::new(2));
    }

    #[test]
    fn stored_form_reads_back() {
        let mut tally = CategoryTotals::new(1);
        tally.add(Some("a"), &[&Cell::Numbers(vec![1.0, f64::NAN])]);
        tally.add(Some("b"), &[&Cell::None]);
        let bytes = tally.encode();
        assert_eq!(CategoryTotals::decode(&bytes), Ok(tally));
        for length in 0..bytes.len() {
            assert!(CategoryTotals::decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn spellings_are_bounded() {
        let mut tally = CategoryTotals::new(0);
        for number in 0..2 * CATEGORY_SPELLINGS_MAX {
            tally.add(Some(&number.to_string()), &[]);
        }
        assert!(tally.spellings.len() == CATEGORY_SPELLINGS_MAX);
        (0..2 * CATEGORY_SPELLINGS_MAX).for_each(|number| tally.remove(Some(&number.to_string()), &[]));
        assert!(tally == CategoryTotals::new(0));
    }

    #[test]
    fn totals_depend_only_on_the_present_documents() {
        for seed in 0..50 {
            let random = SeededRandom::new(seed);
            let mut tally = CategoryTotals::new(0);
            let mut present = Vec::new();
            for step in 0..2_000 {
                // The number of documents grows and shrinks in phases.
                if random.below(10) < if step / 400 % 2 == 0 { 7 } else { 3 } {
                    present.push(format!("{:03}", random.below(300)));
                    tally.add(present.last().map(String::as_str), &[]);
                } else if !present.is_empty() {
                    let gone = present.swap_remove(random.below(present.len() as u64) as usize);
                    tally.remove(Some(&gone), &[]);
                }
                let count = || {
                    let mut exact = CategoryTotals::exact(0);
                    present.iter().for_each(|spelling| exact.add(Some(spelling), &[]));
                    exact
                };
                if tally.needs_spellings() {
                    tally.set_spellings(&count());
                }
                if step % 50 == 0 {
                    assert!(tally.agrees_with(&count()), "seed {seed}, step {step}");
                    assert_eq!(tally.name(), count().name(), "seed {seed}, step {step}");
                    assert_eq!(CategoryTotals::decode(&tally.encode()), Ok(tally.clone()));
                }
            }
        }
    }

    #[test]
    fn hidden_documents_are_subtracted_from_the_totals() {
        let mut all = CategoryTotals::new(0);
        let mut hidden = CategoryTotals::exact(0);
        for number in 0..200 {
            let spelling = format!("{number:03}");
            all.add(Some(&spelling), &[]);
            if number < 100 {
                hidden.add(Some(&spelling), &[]);
            }
        }
        let mut seen = all.without(&hidden);
        assert!(seen.is_nameless() && seen.name().is_empty() && seen.documents == 100);
        seen.set_name("100".into());
        assert_eq!((seen.name(), seen.others), ("100", 99));
    }
}
