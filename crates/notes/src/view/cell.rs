//! The value of a column in one row of a view.
//!
//! A cell is a list, like every value of the formula language: empty, texts, numbers or times, or the error of the
//! column's formula. It is stored in the row in the form that `docs/views.md` describes.

use base::Timestamp;
use base::codec::{Decoder, Encoder, InvalidRecord, bytes_len, varint_len};
use formula::Zone;

use crate::formula_document;
use crate::item::{ItemValueRef, decode_list, encode_list};
use crate::limits::CELL_VALUES_MAX;
use crate::view::limits::CELL_BYTES_MAX;

/// Number of bytes by which a text counts more than its length.
const TEXT_HEAD_BYTES: usize = 2;

/// The value of a column.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Cell {
    /// The item is absent, or the list is empty.
    #[default]
    None,
    /// One or more texts.
    Texts(Vec<String>),
    /// One or more numbers.
    Numbers(Vec<f64>),
    /// One or more times.
    Times(Vec<Timestamp>),
    /// The error of the formula.
    Error(String),
}

/// One value of a cell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CellValue<'c> {
    /// No value.
    None,
    /// A text.
    Text(&'c str),
    /// A number.
    Number(f64),
    /// A time.
    Time(Timestamp),
    /// The formula failed.
    Error,
}

impl Cell {
    /// Creates the cell for an item: its first values, up to [`CELL_VALUES_MAX`] and [`CELL_BYTES_MAX`].
    #[must_use]
    pub fn of_item(value: &ItemValueRef<'_>) -> Self {
        let cell = match value {
            ItemValueRef::Text(text) | ItemValueRef::RichText(text) | ItemValueRef::Json(text) => {
                texts_within(std::iter::once(*text), CELL_BYTES_MAX)
            }
            ItemValueRef::TextList(texts) => texts_within(texts.iter().copied(), CELL_BYTES_MAX),
            ItemValueRef::Number(number) => Self::Numbers(vec![*number]),
            ItemValueRef::NumberList(numbers) => Self::Numbers(first_of(numbers, CELL_VALUES_MAX)),
            ItemValueRef::Time(time) => Self::Times(vec![*time]),
            ItemValueRef::TimeList(times) => Self::Times(first_of(times, CELL_VALUES_MAX)),
            ItemValueRef::Object { file_name, .. } => texts_within(std::iter::once(*file_name), CELL_BYTES_MAX),
            ItemValueRef::MimePart(_) | ItemValueRef::NoteReferences(_) => Self::None,
        };
        let shows_nothing =
            cell.is_empty() || matches!(&cell, Self::Texts(texts) if texts.len() == 1 && texts[0].is_empty());
        if shows_nothing { Self::None } else { cell }
    }

    /// Creates the cell that shows the reason for a missing value.
    #[must_use]
    pub fn of_failure(failure: &str) -> Self {
        Self::Error(prefix_of(failure, CELL_BYTES_MAX).to_owned())
    }

    /// Creates the cell that shows the result of a formula.
    #[must_use]
    pub fn of_formula_value(value: &formula::Value<'_>, zone: &Zone) -> Self {
        // The values that a cell does not show are not converted, however many there are.
        let is_longer = value.count() > CELL_VALUES_MAX;
        let value = if is_longer { value.slice(0..CELL_VALUES_MAX) } else { value.clone() };
        if let Ok(texts) = value.texts() {
            return Self::of_item(&ItemValueRef::TextList(texts.iter().map(|text| text.as_str()).collect()));
        }
        match formula_document::to_item_value(&value, zone) {
            Ok(value) => Self::of_item(&value.as_borrowed()),
            Err(failure) => Self::of_failure(&failure),
        }
    }

    /// Returns the number of values.
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

    /// Returns `true` if there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value at an index.
    #[must_use]
    pub fn one(&self, index: usize) -> CellValue<'_> {
        let found = match self {
            Self::None => None,
            Self::Texts(texts) => texts.get(index).map(|text| CellValue::Text(text)),
            Self::Numbers(numbers) => numbers.get(index).copied().map(CellValue::Number),
            Self::Times(times) => times.get(index).copied().map(CellValue::Time),
            Self::Error(_) => Some(CellValue::Error),
        };
        found.unwrap_or(CellValue::None)
    }

    /// Returns a cell with only the value at an index. A text is cut to `bytes_max` bytes.
    #[must_use]
    pub fn single(&self, index: usize, bytes_max: usize) -> Self {
        match (self.one(index), self) {
            (CellValue::None, _) => Self::None,
            (CellValue::Text(text), _) => texts_within(std::iter::once(text), bytes_max),
            (CellValue::Number(number), _) => Self::Numbers(vec![number]),
            (CellValue::Time(time), _) => Self::Times(vec![time]),
            (CellValue::Error, cell) => cell.cut_to(bytes_max),
        }
    }

    /// Returns the first values that fit into `bytes_max` bytes.
    ///
    /// At least one number or time is kept. The last text is cut at a character boundary.
    #[must_use]
    pub fn cut_to(&self, bytes_max: usize) -> Self {
        if self.byte_count() <= bytes_max {
            return self.clone();
        }
        let count_max = (bytes_max / size_of::<u64>()).max(1);
        match self {
            Self::None => Self::None,
            Self::Texts(texts) => texts_within(texts.iter().map(String::as_str), bytes_max),
            Self::Numbers(numbers) => Self::Numbers(first_of(numbers, count_max)),
            Self::Times(times) => Self::Times(first_of(times, count_max)),
            Self::Error(failure) => Self::Error(prefix_of(failure, bytes_max).to_owned()),
        }
    }

    /// Returns the size of the values in bytes, approximately as stored.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.iter().map(|text| text.len() + TEXT_HEAD_BYTES).sum(),
            Self::Error(failure) => failure.len(),
            other => other.len() * size_of::<u64>(),
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

    /// Returns the number of bytes that [`Cell::encode`] appends.
    pub(crate) fn encoded_len(&self) -> usize {
        let list = |bytes: usize| varint_len(self.len() as u64) + bytes;
        let value = match self {
            Self::None => 0,
            Self::Texts(texts) => list(texts.iter().map(|text| bytes_len(text.len())).sum()),
            Self::Numbers(numbers) => list(numbers.len() * size_of::<u64>()),
            Self::Times(times) => list(times.len() * size_of::<i64>()),
            Self::Error(text) => bytes_len(text.len()),
        };
        1 + value
    }

    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, InvalidRecord> {
        match input.u8()? {
            0 => Ok(Self::None),
            1 => bounded(decode_list(input, |input| input.text().map(str::to_owned))?).map(Self::Texts),
            2 => bounded(decode_list(input, |input| input.u64().map(f64::from_bits))?).map(Self::Numbers),
            3 => bounded(decode_list(input, |input| input.i64().map(Timestamp))?).map(Self::Times),
            4 => Ok(Self::Error(input.text()?.to_owned())),
            _ => Err(InvalidRecord),
        }
    }
}

impl CellValue<'_> {
    /// Returns the size of the value, as [`Cell::byte_count`] computes it.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + TEXT_HEAD_BYTES,
            Self::Number(_) | Self::Time(_) => size_of::<u64>(),
            Self::None | Self::Error => 0,
        }
    }
}

/// Returns the first texts that fit into `bytes_max` bytes, the last of them cut at a character boundary, or
/// [`Cell::None`] if no text fits.
fn texts_within<'t>(texts: impl Iterator<Item = &'t str>, bytes_max: usize) -> Cell {
    let texts = texts.take(CELL_VALUES_MAX);
    let mut left = bytes_max;
    let mut found = Vec::with_capacity(texts.size_hint().0);
    for text in texts {
        let Some(left_bytes) = left.checked_sub(TEXT_HEAD_BYTES) else { break };
        let part = prefix_of(text, left_bytes);
        if part.is_empty() && !text.is_empty() {
            break;
        }
        found.push(part.to_owned());
        if part.len() < text.len() {
            break;
        }
        left = left_bytes - part.len();
    }
    if found.is_empty() { Cell::None } else { Cell::Texts(found) }
}

/// Returns the longest prefix of a text that fits into `bytes_max` bytes and ends at a character boundary.
pub(super) fn prefix_of(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

fn first_of<T: Copy>(values: &[T], count_max: usize) -> Vec<T> {
    values[..values.len().min(count_max)].to_vec()
}

/// Refuses lists that no cell can hold.
fn bounded<T>(values: Vec<T>) -> Result<Vec<T>, InvalidRecord> {
    if values.is_empty() || values.len() > CELL_VALUES_MAX { Err(InvalidRecord) } else { Ok(values) }
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
            Cell::Texts(vec![text("x").repeat(200)]),
            Cell::Texts(vec![text("x"); 130]),
        ]
    }

    #[test]
    fn stored_form_reads_back() {
        for cell in cells() {
            let mut out = Encoder::new();
            cell.encode(&mut out);
            let bytes = out.finish();
            assert_eq!(bytes.len(), cell.encoded_len());
            assert_eq!(Cell::decode(&mut Decoder::new(&bytes)), Ok(cell));
            for length in 0..bytes.len() {
                assert!(Cell::decode(&mut Decoder::new(&bytes[..length])).is_err());
            }
        }
        assert!(Cell::decode(&mut Decoder::new(&[1, 0])).is_err(), "an empty list is written as nothing");
        assert!(Cell::decode(&mut Decoder::new(&[9])).is_err());
    }

    #[test]
    fn list_values_are_read_one_by_one() {
        let cell = Cell::Texts(vec!["one".into(), "two".into()]);
        assert_eq!((cell.len(), cell.one(1), cell.one(2)), (2, CellValue::Text("two"), CellValue::None));
        assert_eq!(cell.single(1, CELL_BYTES_MAX), Cell::Texts(vec!["two".into()]));
        assert_eq!((cell.single(2, CELL_BYTES_MAX), Cell::None.single(0, CELL_BYTES_MAX)), (Cell::None, Cell::None));
    }

    #[test]
    fn item_values_become_bounded_lists() {
        assert_eq!(Cell::of_item(&ItemValueRef::TextList(Vec::new())), Cell::None);
        assert_eq!(Cell::of_item(&ItemValueRef::Text("")), Cell::None);
        assert_eq!(Cell::of_item(&ItemValueRef::Number(2.0)), Cell::Numbers(vec![2.0]));
        let many = ItemValueRef::NumberList(vec![0.0; CELL_VALUES_MAX + 1]);
        assert_eq!(Cell::of_item(&many).len(), CELL_VALUES_MAX);
    }

    #[test]
    fn texts_are_truncated_at_character_boundaries() {
        let long = "é".repeat(CELL_BYTES_MAX);
        for item in [ItemValueRef::Text(&long), ItemValueRef::TextList(vec!["one", &long, "two"])] {
            let cell = Cell::of_item(&item);
            assert!((CELL_BYTES_MAX - 1..=CELL_BYTES_MAX).contains(&cell.byte_count()), "{}", cell.byte_count());
            assert_eq!(Cell::of_item(&item), cell);
        }
        let cell = Cell::Texts(vec!["ab".into(), "éé".into(), "x".into()]);
        let cut = |bytes_max| match cell.cut_to(bytes_max) {
            Cell::Texts(texts) => texts.join("|"),
            other => format!("{other:?}"),
        };
        let expected = [(13, "ab|éé|x"), (12, "ab|éé"), (9, "ab|é"), (7, "ab"), (3, "a"), (2, "None")];
        assert_eq!(expected.map(|(bytes_max, _)| cut(bytes_max)), expected.map(|(_, text)| text));
        assert_eq!(Cell::Numbers(vec![1.0, 2.0, 3.0]).cut_to(17), Cell::Numbers(vec![1.0, 2.0]));
        assert_eq!(Cell::Error("é".into()).cut_to(1), Cell::Error(String::new()));
    }
}
