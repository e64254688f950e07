//! Orders of messages by what never changes: times, size, sender, recipient and subject.
//!
//! Messages with equal values are ordered by note, so that an order is total and pages never overlap.

use std::cmp::{Ordering, Reverse};

use base::NoteId;

use super::MessageRow;
use super::sort_texts::read_sort_texts;
use crate::casemap::Collation;
use crate::error::Result;
use crate::mailbox::MailSnapshot;

/// A property of messages that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortProperty {
    /// The time of receipt.
    Received,
    /// The value of Date, or the time of receipt if that is missing or invalid.
    Sent,
    /// The size.
    Size,
    /// The display name of the first sender, or the address if there is none.
    From,
    /// The display name of the first recipient, or the address if there is none.
    To,
    /// The base subject (RFC 5256 §2.1).
    Subject,
}

/// A value by which messages are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortValue {
    /// A time, a size, or a truth value.
    Number(i64),
    /// A text in the form in which it is compared.
    Text(String),
}

/// A value and its direction. Keys of the same comparator are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortKey {
    /// The smallest value comes first.
    Ascending(SortValue),
    /// The greatest value comes first.
    Descending(Reverse<SortValue>),
}

impl SortKey {
    /// Returns the key of a value.
    #[must_use]
    pub fn new(value: SortValue, is_ascending: bool) -> Self {
        if is_ascending { Self::Ascending(value) } else { Self::Descending(Reverse(value)) }
    }
}

/// An order by one property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowComparator {
    /// The property.
    pub property: SortProperty,
    /// `true` if the smallest value comes first.
    pub is_ascending: bool,
    /// The comparison of names. Subjects are always compared by `i;unicode-casemap`.
    pub collation: Collation,
}

impl RowComparator {
    /// Creates an order by a property, in which texts are compared by `i;unicode-casemap`.
    #[must_use]
    pub fn new(property: SortProperty, is_ascending: bool) -> Self {
        Self { property, is_ascending, collation: Collation::Unicode }
    }

    /// Returns the key of a message. Its texts have been read ([`read_sort_texts`]) if the property is one of them.
    #[must_use]
    pub fn key(&self, row: &MessageRow) -> SortKey {
        let value = match self.property {
            SortProperty::Received => SortValue::Number(row.received.0),
            SortProperty::Sent => SortValue::Number(row.sort_texts().sent.unwrap_or(row.received).0),
            SortProperty::Size => SortValue::Number(i64::try_from(row.size).unwrap_or(i64::MAX)),
            SortProperty::From => SortValue::Text(self.collation.fold(&row.sort_texts().from)),
            SortProperty::To => SortValue::Text(self.collation.fold(&row.sort_texts().to)),
            SortProperty::Subject => SortValue::Text(row.sort_texts().subject.clone()),
        };
        SortKey::new(value, self.is_ascending)
    }

    fn compare(&self, a: &MessageRow, b: &MessageRow) -> Ordering {
        let order = match self.property {
            SortProperty::Received => a.received.cmp(&b.received),
            SortProperty::Size => a.size.cmp(&b.size),
            SortProperty::Subject => a.sort_texts().subject.cmp(&b.sort_texts().subject),
            SortProperty::Sent | SortProperty::From | SortProperty::To => return self.key(a).cmp(&self.key(b)),
        };
        if self.is_ascending { order } else { order.reverse() }
    }

    /// Returns `true` if the property is read from the message.
    #[must_use]
    pub fn needs_texts(&self) -> bool {
        !matches!(self.property, SortProperty::Received | SortProperty::Size)
    }
}

/// An order of messages. Without comparators, all are ordered by note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowOrder(Vec<RowComparator>);

impl RowOrder {
    /// Creates an order. The first comparator in which two messages differ decides.
    #[must_use]
    pub fn new(comparators: Vec<RowComparator>) -> Self {
        Self(comparators)
    }

    /// Returns the order of the time of receipt, the newest message first.
    #[must_use]
    pub fn newest_first() -> Self {
        Self(vec![RowComparator::new(SortProperty::Received, false)])
    }

    /// Compares two messages whose texts have been read.
    #[must_use]
    pub fn compare(&self, a: &MessageRow, b: &MessageRow) -> Ordering {
        let orders = self.0.iter().map(|comparator| comparator.compare(a, b));
        orders.fold(Ordering::Equal, Ordering::then).then(a.note.cmp(&b.note))
    }

    /// Returns `true` if the texts of messages must have been read.
    pub(super) fn needs_texts(&self) -> bool {
        self.0.iter().any(RowComparator::needs_texts)
    }

    /// Sorts messages, and reads their texts before if needed.
    pub fn sort(&self, rows: &mut [&MessageRow], snapshot: &MailSnapshot<'_>) -> Result<()> {
        if self.needs_texts() {
            read_sort_texts(rows.iter().copied(), snapshot)?;
            let key = |row: &&MessageRow| -> (Vec<SortKey>, NoteId) {
                (self.0.iter().map(|comparator| comparator.key(row)).collect(), row.note)
            };
            rows.sort_by_cached_key(key);
        } else {
            rows.sort_unstable_by(|a, b| self.compare(a, b));
        }
        Ok(())
    }
}
