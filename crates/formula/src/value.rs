//! Values: lists of texts, numbers or times, and errors.
//!
//! A value of one element is stored inline, so that the common case does not allocate. [`Value::from_texts`] and the
//! similar constructors create a list variant only for at least two elements; no elements become the empty text, and
//! one element is stored inline.

use std::sync::Arc;

use crate::error::{ErrorValue, ErrorValueKind};
use crate::limits::BYTE_COST_UNIT;
use crate::source::Span;
use crate::text::Text;
use crate::time::Moment;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'d> {
    /// One text.
    Text(Text<'d>),
    /// One number.
    Number(f64),
    /// One time.
    Time(Moment),
    /// Several texts.
    Texts(Arc<Vec<Text<'d>>>),
    /// Several numbers.
    Numbers(Arc<Vec<f64>>),
    /// Several times.
    Times(Arc<Vec<Moment>>),
    /// The error of a failed computation.
    Error(Arc<ErrorValue>),
}

impl<'d> Value<'d> {
    /// The empty text, which is also the empty list.
    pub const EMPTY: Value<'static> = Value::Text(Text::EMPTY);
    /// The value of true, 1.
    pub const TRUE: Value<'static> = Value::Number(1.0);
    /// The value of false, 0.
    pub const FALSE: Value<'static> = Value::Number(0.0);

    /// Returns 1 for `true` and 0 for `false`.
    #[must_use]
    pub fn from_bool(truth: bool) -> Self {
        if truth { Self::TRUE } else { Self::FALSE }
    }

    /// Creates a number from a count.
    #[must_use]
    pub fn from_count(count: usize) -> Self {
        Self::Number(count as f64)
    }

    /// Creates a value from texts.
    #[must_use]
    pub fn from_texts(mut texts: Vec<Text<'d>>) -> Self {
        match texts.len() {
            0 => Self::EMPTY,
            1 => Self::Text(texts.swap_remove(0)),
            _ => Self::Texts(Arc::new(texts)),
        }
    }

    /// Creates a value from numbers.
    #[must_use]
    pub fn from_numbers(numbers: Vec<f64>) -> Self {
        match numbers[..] {
            [] => Self::EMPTY,
            [number] => Self::Number(number),
            _ => Self::Numbers(Arc::new(numbers)),
        }
    }

    /// Creates a value from times.
    #[must_use]
    pub fn from_times(times: Vec<Moment>) -> Self {
        match times[..] {
            [] => Self::EMPTY,
            [time] => Self::Time(time),
            _ => Self::Times(Arc::new(times)),
        }
    }

    /// Returns the empty text for a list without elements, which a host may have constructed. Other values are returned
    /// unchanged.
    #[must_use]
    pub fn normalized(self) -> Self {
        if self.count() == 0 { Self::EMPTY } else { self }
    }

    /// Creates an error value.
    #[must_use]
    pub fn failure(kind: ErrorValueKind, span: Span) -> Self {
        Self::Error(Arc::new(ErrorValue { kind, span }))
    }

    /// Returns the number of elements. The empty text counts as one.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Numbers(numbers) => numbers.len(),
            Self::Times(times) => times.len(),
            _ => 1,
        }
    }

    /// Returns `true` if this is the empty text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    /// Returns the texts. Fails if this value has another type.
    pub fn texts(&self) -> Result<&[Text<'d>], ErrorValueKind> {
        match self {
            Self::Text(text) => Ok(std::slice::from_ref(text)),
            Self::Texts(texts) => Ok(texts),
            _ => Err(ErrorValueKind::TextExpected),
        }
    }

    /// Returns the numbers. Fails if this value has another type.
    pub fn numbers(&self) -> Result<&[f64], ErrorValueKind> {
        match self {
            Self::Number(number) => Ok(std::slice::from_ref(number)),
            Self::Numbers(numbers) => Ok(numbers),
            _ => Err(ErrorValueKind::NumberExpected),
        }
    }

    /// Returns the times. Fails if this value has another type.
    pub fn times(&self) -> Result<&[Moment], ErrorValueKind> {
        match self {
            Self::Time(time) => Ok(std::slice::from_ref(time)),
            Self::Times(times) => Ok(times),
            _ => Err(ErrorValueKind::TimeExpected),
        }
    }

    /// Returns the first text.
    pub fn text(&self) -> Result<&Text<'d>, ErrorValueKind> {
        self.texts()?.first().ok_or(ErrorValueKind::TextExpected)
    }

    /// Returns the first number.
    pub fn number(&self) -> Result<f64, ErrorValueKind> {
        self.numbers()?.first().copied().ok_or(ErrorValueKind::NumberExpected)
    }

    /// Returns the first number, rounded towards zero.
    pub fn integer(&self) -> Result<i64, ErrorValueKind> {
        // Rust's conversion from floats saturates, and converts NaN to 0.
        self.number().map(|number| number as i64)
    }

    /// Returns the first time.
    pub fn time(&self) -> Result<Moment, ErrorValueKind> {
        self.times()?.first().copied().ok_or(ErrorValueKind::TimeExpected)
    }

    /// Returns `true` if the value counts as true: at least one number is not 0. Fails if this value is not numeric.
    pub fn is_true(&self) -> Result<bool, ErrorValueKind> {
        Ok(self.numbers()?.iter().any(|number| *number != 0.0))
    }

    /// Returns the element at an index, which starts at 0, as a value.
    #[must_use]
    pub fn element(&self, index: usize) -> Option<Self> {
        match self {
            Self::Texts(texts) => texts.get(index).cloned().map(Self::Text),
            Self::Numbers(numbers) => numbers.get(index).copied().map(Self::Number),
            Self::Times(times) => times.get(index).copied().map(Self::Time),
            single => (index == 0).then(|| single.clone()),
        }
    }

    /// Returns the elements of a range of indexes.
    ///
    /// # Panics
    ///
    /// Panics if the value is a list and the range exceeds it.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::Texts(texts) => Self::from_texts(texts[range].to_vec()),
            Self::Numbers(numbers) => Self::from_numbers(numbers[range].to_vec()),
            Self::Times(times) => Self::from_times(times[range].to_vec()),
            single => single.clone(),
        }
    }

    /// Returns the elements at several indexes, in the order of the indexes.
    ///
    /// # Panics
    ///
    /// Panics if the value is a list and an index exceeds it.
    #[must_use]
    pub fn select(&self, indexes: &[usize]) -> Self {
        match self {
            Self::Texts(texts) => Self::from_texts(indexes.iter().map(|index| texts[*index].clone()).collect()),
            Self::Numbers(numbers) => Self::from_numbers(indexes.iter().map(|index| numbers[*index]).collect()),
            Self::Times(times) => Self::from_times(indexes.iter().map(|index| times[*index]).collect()),
            single => single.clone(),
        }
    }

    /// Appends the elements of another value. Fails if the types differ.
    pub fn append(self, other: &Self) -> Result<Self, ErrorValueKind> {
        match self {
            Self::Text(_) | Self::Texts(_) => Ok(Self::Texts(append(self.into_list_of_texts(), other.texts()?))),
            Self::Number(number) => Ok(Self::Numbers(append(Arc::new(vec![number]), other.numbers()?))),
            Self::Numbers(numbers) => Ok(Self::Numbers(append(numbers, other.numbers()?))),
            Self::Time(time) => Ok(Self::Times(append(Arc::new(vec![time]), other.times()?))),
            Self::Times(times) => Ok(Self::Times(append(times, other.times()?))),
            Self::Error(_) => Ok(self),
        }
    }

    /// Returns `true` if this is a list with other references to it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        match self {
            Self::Texts(texts) => Arc::strong_count(texts) > 1,
            Self::Numbers(numbers) => Arc::strong_count(numbers) > 1,
            Self::Times(times) => Arc::strong_count(times) > 1,
            _ => false,
        }
    }

    fn into_list_of_texts(self) -> Arc<Vec<Text<'d>>> {
        match self {
            Self::Texts(texts) => texts,
            Self::Text(text) => Arc::new(vec![text]),
            _ => Arc::default(),
        }
    }

    /// Returns the value without borrowed data.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Text(text) => Value::Text(text.into_owned()),
            Self::Texts(texts) => Value::Texts(Arc::new(texts.iter().map(|text| text.clone().into_owned()).collect())),
            Self::Number(number) => Value::Number(number),
            Self::Numbers(numbers) => Value::Numbers(numbers),
            Self::Time(time) => Value::Time(time),
            Self::Times(times) => Value::Times(times),
            Self::Error(failure) => Value::Error(failure),
        }
    }

    /// Returns a value that borrows a single text from this one.
    #[must_use]
    pub fn as_borrowed(&'d self) -> Value<'d> {
        match self {
            Self::Text(text) => Value::Text(Text::Borrowed(text)),
            other => other.clone(),
        }
    }

    /// Returns an estimate of the value's size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Text(Text::Shared(text)) => text.len(),
            Self::Texts(texts) => texts.iter().map(|text| text.len()).sum::<usize>() + 24 * texts.len(),
            other => 24 * other.count(),
        }
    }

    /// Returns the number of steps charged for examining the value.
    ///
    /// An element of a list costs a step, and [`BYTE_COST_UNIT`] bytes of text cost `byte_cost` steps. A number or time
    /// of a list counts as that many bytes.
    #[must_use]
    pub fn cost_steps(&self, byte_cost: u8) -> usize {
        let byte_cost = usize::from(byte_cost);
        let bytes_cost = |bytes: usize| bytes.saturating_mul(byte_cost) / BYTE_COST_UNIT;
        match self {
            Self::Text(text) => bytes_cost(text.len()),
            Self::Texts(texts) => {
                let bytes: usize = texts.iter().map(|text| text.len()).sum();
                bytes_cost(bytes).saturating_add(texts.len())
            }
            Self::Numbers(numbers) => numbers.len().saturating_mul(byte_cost.max(1)),
            Self::Times(times) => times.len().saturating_mul(byte_cost.max(1)),
            _ => 0,
        }
    }

    /// Returns the error, if this value is one.
    #[must_use]
    pub fn error(&self) -> Option<&ErrorValue> {
        match self {
            Self::Error(failure) => Some(failure),
            _ => None,
        }
    }
}

fn append<T: Clone>(mut list: Arc<Vec<T>>, more: &[T]) -> Arc<Vec<T>> {
    Arc::make_mut(&mut list).extend_from_slice(more);
    list
}

impl<'d> From<&'d str> for Value<'d> {
    fn from(text: &'d str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Moment> for Value<'_> {
    fn from(time: Moment) -> Self {
        Self::Time(time)
    }
}
