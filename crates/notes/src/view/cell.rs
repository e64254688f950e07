//! The value of a column in one row of a view.
//!
//! A cell is a list, as every value of the formula language is: nothing, texts, numbers or times, or the error that the column's formula
//! came to. It lies in the row in the form that `docs/views.md` gives.

use base::Timestamp;
use base::codec::{Decoder, Encoder, Truncated};
use formula::Zone;

use crate::evaluate;
use crate::item::{ValueRef, decode_list, encode_list};
use crate::limits::CELL_VALUES_MAX;

/// The value of a column.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Cell {
    /// The item is not there, or the list is empty.
    #[default]
    None,
    /// One text or more.
    Texts(Vec<String>),
    /// One number or more.
    Numbers(Vec<f64>),
    /// One moment or more.
    Times(Vec<Timestamp>),
    /// What the formula came to.
    Error(String),
}

/// One value of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum One<'c> {
    /// There is no value.
    None,
    /// A text.
    Text(&'c str),
    /// A number.
    Number(f64),
    /// A moment.
    Time(Timestamp),
    /// What the formula came to.
    Error,
}

impl Cell {
    /// Makes the cell that shows an item.
    #[must_use]
    pub fn of_item(value: &ValueRef<'_>) -> Self {
        let cell = match value {
            ValueRef::Text(text) | ValueRef::RichText(text) => Self::Texts(vec![(*text).to_owned()]),
            ValueRef::TextList(texts) => Self::Texts(texts.iter().map(|text| (*text).to_owned()).collect()),
            ValueRef::Number(number) => Self::Numbers(vec![*number]),
            ValueRef::NumberList(numbers) => Self::Numbers(numbers.clone()),
            ValueRef::Time(time) => Self::Times(vec![*time]),
            ValueRef::TimeList(times) => Self::Times(times.clone()),
            ValueRef::Object { file_name, .. } => Self::Texts(vec![(*file_name).to_owned()]),
            ValueRef::MimePart(_) | ValueRef::NoteReferences(_) => Self::None,
        };
        cell.cut()
    }

    /// Makes the cell that shows what a formula computed.
    #[must_use]
    pub fn of_operand(value: &formula::Value<'_>, zone: &Zone) -> Self {
        match evaluate::as_item_value(value, zone) {
            Ok(value) => Self::of_item(&value.lend()),
            Err(failure) => Self::Error(failure),
        }
    }

    /// Tells how many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Texts(texts) => texts.len(),
            Self::Numbers(numbers) => numbers.len(),
            Self::Times(times) => times.len(),
            Self::Error(_) => 1,
        }
    }

    /// Tells whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the value at an index.
    #[must_use]
    pub fn one(&self, index: usize) -> One<'_> {
        let found = match self {
            Self::None => None,
            Self::Texts(texts) => texts.get(index).map(|text| One::Text(text)),
            Self::Numbers(numbers) => numbers.get(index).copied().map(One::Number),
            Self::Times(times) => times.get(index).copied().map(One::Time),
            Self::Error(_) => Some(One::Error),
        };
        found.unwrap_or(One::None)
    }

    /// Gives a cell with the value at an index alone.
    #[must_use]
    pub fn only(&self, index: usize) -> Self {
        match (self.one(index), self) {
            (One::None, _) => Self::None,
            (One::Text(text), _) => Self::Texts(vec![text.to_owned()]),
            (One::Number(number), _) => Self::Numbers(vec![number]),
            (One::Time(time), _) => Self::Times(vec![time]),
            (One::Error, cell) => cell.clone(),
        }
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::None => {
                out.u8(0);
            }
            Self::Texts(texts) => encode_list(out.u8(1), texts, |out, text| out.text(text)),
            Self::Numbers(numbers) => encode_list(out.u8(2), numbers, |out, number| out.u64(number.to_bits())),
            Self::Times(times) => encode_list(out.u8(3), times, |out, time| out.i64(time.0)),
            Self::Error(text) => {
                out.u8(4).text(text);
            }
        }
    }

    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, Truncated> {
        match input.u8()? {
            0 => Ok(Self::None),
            1 => bounded(decode_list(input, |input| input.text().map(str::to_owned))?).map(Self::Texts),
            2 => bounded(decode_list(input, |input| input.u64().map(f64::from_bits))?).map(Self::Numbers),
            3 => bounded(decode_list(input, |input| input.i64().map(Timestamp))?).map(Self::Times),
            4 => Ok(Self::Error(input.text()?.to_owned())),
            _ => Err(Truncated),
        }
    }

    /// Leaves out what is more than a row holds, and says *nothing* of an empty list or text.
    fn cut(mut self) -> Self {
        match &mut self {
            Self::Texts(texts) => texts.truncate(CELL_VALUES_MAX),
            Self::Numbers(numbers) => numbers.truncate(CELL_VALUES_MAX),
            Self::Times(times) => times.truncate(CELL_VALUES_MAX),
            Self::None | Self::Error(_) => {}
        }
        let shows_nothing =
            self.is_empty() || matches!(&self, Self::Texts(texts) if texts.len() == 1 && texts[0].is_empty());
        if shows_nothing { Self::None } else { self }
    }
}

/// Refuses lists that no cell holds.
fn bounded<T>(values: Vec<T>) -> Result<Vec<T>, Truncated> {
    if values.is_empty() || values.len() > CELL_VALUES_MAX { Err(Truncated) } else { Ok(values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> Vec<Cell> {
        let text = |text: &str| text.to_owned();
        vec![
            Cell::None,
            Cell::Texts(vec![text("one"), text("")]),
            Cell::Numbers(vec![1.5, -0.0, f64::INFINITY]),
            Cell::Times(vec![Timestamp(-1), Timestamp(i64::MAX)]),
            Cell::Error(text("Incorrect data type")),
        ]
    }

    #[test]
    fn the_stored_form_comes_back() {
        for cell in cells() {
            let mut out = Encoder::new();
            cell.encode(&mut out);
            let bytes = out.finish();
            assert_eq!(Cell::decode(&mut Decoder::new(&bytes)), Ok(cell));
            for length in 0..bytes.len() {
                assert!(Cell::decode(&mut Decoder::new(&bytes[..length])).is_err());
            }
        }
        assert!(Cell::decode(&mut Decoder::new(&[1, 0])).is_err(), "an empty list is written as nothing");
        assert!(Cell::decode(&mut Decoder::new(&[9])).is_err());
    }

    #[test]
    fn a_list_is_taken_apart() {
        let cell = Cell::Texts(vec!["one".into(), "two".into()]);
        assert_eq!((cell.len(), cell.one(1), cell.one(2)), (2, One::Text("two"), One::None));
        assert_eq!(cell.only(1), Cell::Texts(vec!["two".into()]));
        assert_eq!((cell.only(2), Cell::None.only(0)), (Cell::None, Cell::None));
    }

    #[test]
    fn items_are_shown_as_lists_of_bounded_length() {
        assert_eq!(Cell::of_item(&ValueRef::TextList(Vec::new())), Cell::None);
        assert_eq!(Cell::of_item(&ValueRef::Text("")), Cell::None);
        assert_eq!(Cell::of_item(&ValueRef::Number(2.0)), Cell::Numbers(vec![2.0]));
        let many = ValueRef::NumberList(vec![0.0; CELL_VALUES_MAX + 1]);
        assert_eq!(Cell::of_item(&many).len(), CELL_VALUES_MAX);
    }
}
