//! What a category counts and sums up, kept in a record of its own (`docs/views.md`, "Categories").
//!
//! The record changes with each document beneath: [`Tally::add`] and [`Tally::remove`] undo each other exactly, so that what is left after years equals
//! what counting everything anew would give.

use std::collections::BTreeMap;

use base::codec::{Decoder, Encoder, Truncated};

use crate::limits::{CATEGORY_SPELLINGS_MAX, VIEW_COLUMNS_MAX};
use crate::view::cell::Cell;
use crate::view::exact_sum::ExactSum;

/// The version of the stored form.
const VERSION: u8 = 1;

/// What lies beneath a category, or in the whole view.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// Rows of documents.
    pub documents: u64,
    /// What they call the category, and how many do.
    spellings: BTreeMap<String, u64>,
    /// For each column that sums up: its total.
    pub totals: Vec<ColumnTotal>,
}

/// What a column sums up to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ColumnTotal {
    /// How many numbers there are.
    pub values: u64,
    /// Their sum.
    pub sum: ExactSum,
}

impl Tally {
    /// Starts with nothing, for a view in which so many columns sum up.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { totals: vec![ColumnTotal::default(); columns], ..Self::default() }
    }

    /// Gives the name: the smallest of the spellings.
    #[must_use]
    pub fn name(&self) -> &str {
        self.spellings.keys().next().map_or("", String::as_str)
    }

    /// Tells whether no document is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.documents == 0
    }

    /// Counts a document whose summing columns have these cells, and which calls the category so; a response calls it nothing.
    pub fn add(&mut self, spelling: Option<&str>, cells: &[&Cell]) {
        assert_eq!(cells.len(), self.totals.len(), "each column that sums up has a cell");
        self.documents += 1;
        if let Some(spelling) = spelling
            && (self.spellings.len() < CATEGORY_SPELLINGS_MAX || self.spellings.contains_key(spelling))
        {
            *self.spellings.entry(spelling.to_owned()).or_default() += 1;
        }
        for (total, cell) in self.totals.iter_mut().zip(cells) {
            for number in numbers(cell) {
                total.values += 1;
                total.sum.add(*number);
            }
        }
    }

    /// Takes a document away that was added with the same cells and spelling.
    pub fn remove(&mut self, spelling: Option<&str>, cells: &[&Cell]) {
        assert_eq!(cells.len(), self.totals.len(), "each column that sums up has a cell");
        assert!(self.documents > 0, "only what was counted is taken away");
        self.documents -= 1;
        self.forget(spelling);
        for (total, cell) in self.totals.iter_mut().zip(cells) {
            for number in numbers(cell) {
                assert!(total.values > 0, "only what was summed up is taken away");
                total.values -= 1;
                total.sum.remove(*number);
            }
        }
    }

    /// Gives what is left without a part of what was counted.
    #[must_use]
    pub fn without(mut self, part: &Self) -> Self {
        assert!(part.documents <= self.documents, "a part is not more than the whole");
        self.documents -= part.documents;
        for (spelling, count) in &part.spellings {
            // Of spellings that there was no room for, nothing was counted.
            if let Some(all) = self.spellings.get_mut(spelling) {
                *all = all.saturating_sub(*count);
            }
        }
        self.spellings.retain(|_, count| *count > 0);
        for (total, part) in self.totals.iter_mut().zip(&part.totals) {
            total.values = total.values.saturating_sub(part.values);
            total.sum.remove_all(&part.sum);
        }
        self
    }

    fn forget(&mut self, spelling: Option<&str>) {
        let Some((spelling, count)) = spelling.and_then(|spelling| Some((spelling, self.spellings.get_mut(spelling)?)))
        else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.spellings.remove(spelling);
        }
    }

    /// Gives the stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(32);
        out.u8(VERSION).varint(self.documents).varint(self.spellings.len() as u64);
        for (spelling, count) in &self.spellings {
            out.text(spelling).varint(*count);
        }
        out.varint(self.totals.len() as u64);
        for total in &self.totals {
            out.varint(total.values);
            total.sum.encode(&mut out);
        }
        out.finish()
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != VERSION {
            return Err(Truncated);
        }
        let documents = input.varint()?;
        let mut spellings = BTreeMap::new();
        for _ in 0..bounded(input.count()?, CATEGORY_SPELLINGS_MAX)? {
            spellings.insert(input.text()?.to_owned(), input.varint()?);
        }
        let count = bounded(input.count()?, VIEW_COLUMNS_MAX)?;
        let totals = (0..count).map(|_| ColumnTotal::decode(&mut input)).collect::<Result<_, _>>()?;
        Ok(Self { documents, spellings, totals })
    }
}

impl ColumnTotal {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Truncated> {
        Ok(Self { values: input.varint()?, sum: ExactSum::decode(input)? })
    }
}

fn bounded(count: usize, max: usize) -> Result<usize, Truncated> {
    if count > max { Err(Truncated) } else { Ok(count) }
}

fn numbers(cell: &Cell) -> &[f64] {
    match cell {
        Cell::Numbers(numbers) => numbers,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_and_removing_undo_each_other() {
        let (price, text) = (Cell::Numbers(vec![0.1, 0.2]), Cell::Texts(vec!["0.3".into()]));
        let mut tally = Tally::new(2);
        tally.add(Some("sales"), &[&price, &text]);
        tally.add(Some("Sales"), &[&Cell::Numbers(vec![1e9]), &Cell::None]);
        assert_eq!((tally.documents, tally.name(), tally.totals[0].values), (2, "Sales", 3));
        tally.remove(Some("Sales"), &[&Cell::Numbers(vec![1e9]), &Cell::None]);
        assert_eq!((tally.name(), tally.totals[0].sum.value()), ("sales", 0.1 + 0.2));
        assert_eq!(tally.totals[1].values, 0, "texts are not summed up");
        tally.remove(Some("sales"), &[&price, &text]);
        assert!(tally.is_empty() && tally == Tally::new(2));
    }

    #[test]
    fn the_stored_form_comes_back() {
        let mut tally = Tally::new(1);
        tally.add(Some("a"), &[&Cell::Numbers(vec![1.0, f64::NAN])]);
        tally.add(Some("b"), &[&Cell::None]);
        let bytes = tally.encode();
        assert_eq!(Tally::decode(&bytes), Ok(tally));
        for length in 0..bytes.len() {
            assert!(Tally::decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn spellings_are_bounded() {
        let mut tally = Tally::new(0);
        for number in 0..2 * CATEGORY_SPELLINGS_MAX {
            tally.add(Some(&number.to_string()), &[]);
        }
        assert!(tally.spellings.len() == CATEGORY_SPELLINGS_MAX);
        (0..2 * CATEGORY_SPELLINGS_MAX).for_each(|number| tally.remove(Some(&number.to_string()), &[]));
        assert!(tally == Tally::new(0));
    }
}
