//! A set of changes that is applied atomically.

use crate::engine::Table;

/// A change in a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOperation<'a> {
    /// Sets the value of a key.
    Put { table: Table, key: &'a [u8], value: &'a [u8] },
    /// Removes a key. Has no effect if the key does not exist.
    Delete { table: Table, key: &'a [u8] },
    /// Removes the keys from `start` (inclusive) to `end` (exclusive).
    DeleteRange { table: Table, start: &'a [u8], end: &'a [u8] },
}

/// An ordered set of changes to any tables. A later change of a key overrides an earlier one.
///
/// All bytes lie in one buffer, so that building a batch does not allocate per key.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    kind: Kind,
    table: Table,
    start: usize,
    middle: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Put,
    Delete,
    DeleteRange,
}

impl Batch {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a key.
    pub fn put(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.push(Kind::Put, table, key, value);
    }

    /// Removes a key.
    pub fn delete(&mut self, table: Table, key: &[u8]) {
        self.push(Kind::Delete, table, key, &[]);
    }

    /// Removes the keys from `start` (inclusive) to `end` (exclusive).
    pub fn delete_range(&mut self, table: Table, start: &[u8], end: &[u8]) {
        assert!(start <= end, "a range must not end before it starts");
        self.push(Kind::DeleteRange, table, start, end);
    }

    /// Appends the changes of another batch.
    pub fn append(&mut self, other: &Self) {
        let shift = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.spans.extend(other.spans.iter().map(|span| Span {
            start: span.start + shift,
            middle: span.middle + shift,
            end: span.end + shift,
            ..*span
        }));
    }

    /// Returns the changes in order.
    pub fn operations(&self) -> impl Iterator<Item = BatchOperation<'_>> {
        self.spans.iter().map(|span| {
            let first = &self.bytes[span.start..span.middle];
            let second = &self.bytes[span.middle..span.end];
            let table = span.table;
            match span.kind {
                Kind::Put => BatchOperation::Put { table, key: first, value: second },
                Kind::Delete => BatchOperation::Delete { table, key: first },
                Kind::DeleteRange => BatchOperation::DeleteRange { table, start: first, end: second },
            }
        })
    }

    /// Returns the number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns `true` if the batch has no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the total size of the keys and values in bytes.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    fn push(&mut self, kind: Kind, table: Table, first: &[u8], second: &[u8]) {
        let start = self.bytes.len();
        assert!(self.spans.last().is_none_or(|last| last.end == start), "spans follow each other without a gap");
        self.bytes.extend_from_slice(first);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(second);
        self.spans.push(Span { kind, table, start, middle, end: self.bytes.len() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_in_insertion_order() {
        let mut batch = Batch::new();
        batch.put(Table::Meta, b"k", b"v");
        batch.delete(Table::View, b"gone");
        batch.delete_range(Table::Body, b"a", b"b");
        let operations: Vec<_> = batch.operations().collect();
        assert_eq!(
            operations,
            [
                BatchOperation::Put { table: Table::Meta, key: b"k", value: b"v" },
                BatchOperation::Delete { table: Table::View, key: b"gone" },
                BatchOperation::DeleteRange { table: Table::Body, start: b"a", end: b"b" },
            ]
        );
        assert_eq!((batch.len(), batch.byte_count()), (3, 8));
        let mut longer = Batch::new();
        longer.put(Table::Meta, b"first", b"");
        longer.append(&batch);
        longer.delete(Table::Meta, b"last");
        let appended: Vec<_> = longer.operations().collect();
        assert_eq!(appended[1..4], operations);
        assert_eq!(appended[4], BatchOperation::Delete { table: Table::Meta, key: b"last" });
    }
}
