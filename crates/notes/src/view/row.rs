//! The rows of a view and their keys (`docs/views.md`, "Rows and their keys").
//!
//! A key begins with the key of its parent, so a subtree is one range of keys directly behind its root. [`RowKeys`]
//! makes the keys of one collation; it uses only the cells of documents.
//!
//! A key has at most [`KEY_BYTES_MAX`] bytes, however long the values are. The minimum for everything that may follow
//! is reserved, and each component gets a share of the bytes that are left (`RowKeys::component_limit`). Rows with the
//! same key up to a component have the same share for it, so the order of the kept parts is correct.
//!
//! Invariants: the key of a category row is smaller than all keys beneath it, and the keys beneath it are those that
//! begin with its path ([`Category::path`]); two rows have different keys, because keys of documents end with the
//! number of the note and of the entry. Before these is what orders equal rows in the same way in all replicas
//! ([`KeyDocument`]).

use std::collections::HashMap;

use base::codec::{Decoder, Encoder, InvalidRecord, varint_len};
use base::{NoteId, Timestamp, Unid};
use collection::limits::KEY_BYTES_MAX;

use crate::error::damaged;
use crate::grant::ReadersId;
use crate::limits::{CATEGORY_LEVELS_MAX, RESPONSE_LEVELS_MAX, VIEW_COLUMNS_MAX};
use crate::note::NoteHeader;
use crate::view::cell::{Cell, CellValue, prefix_of};
use crate::view::limits::{
    CATEGORY_BYTES_MIN, COMPONENT_BYTES_MIN, RESPONSE_SORTED_COLUMNS_MAX, SORTED_COLUMNS_MAX, SPELLING_BYTES_MAX,
};
use crate::view::sort_key::{self, ComponentLimit, SortDirection, TextOrder};
use crate::view::view_format::{Collation, ViewDesign};

/// Version of the stored form.
const VERSION: u8 = 1;

/// The stored form of every category row.
pub(crate) const CATEGORY_ROW: &[u8] = &[VERSION, 2];

/// Number of bytes of a UNID.
const UNID_BYTES: usize = 16;

/// Number of bytes of a stored document up to its readers: version, kind, response level, UNID and flags.
const HEAD_BYTES: usize = 4 + UNID_BYTES;

/// Number of bytes of the UNID in a key. Of the notes that were created at the same time, these bytes are rarely equal.
const KEY_UNID_BYTES: usize = 4;

/// Number of bytes at the end of a document's key ([`KeyEnd`]).
const KEY_END_BYTES: usize = 8 + KEY_UNID_BYTES + 6;

/// Divisor of the remaining bytes: a component gets this part of them besides its reserved minimum.
const COMPONENT_DIVISOR: usize = 4;

/// Minimum size of a key at the deepest level of responses.
const KEY_BYTES_MIN: usize = CATEGORY_LEVELS_MAX * (CATEGORY_BYTES_MIN + 1)
    + SORTED_COLUMNS_MAX * COMPONENT_BYTES_MIN
    + KEY_END_BYTES
    + RESPONSE_LEVELS_MAX * (RESPONSE_SORTED_COLUMNS_MAX * COMPONENT_BYTES_MIN + KEY_END_BYTES);
const _: () = assert!(KEY_BYTES_MIN <= KEY_BYTES_MAX, "the shortest key of any row fits the limit");

/// The byte behind the component of a category level.
pub(crate) mod mark {
    /// The end of the key of the category's own row.
    pub(crate) const ROW: u8 = 0;
    /// The last level; the components of a document follow.
    pub(crate) const LAST: u8 = 1;
    /// A level of the next categorized column follows.
    pub(crate) const NEXT_COLUMN: u8 = 2;
    /// A further level of the same column follows.
    pub(crate) const SUBLEVEL: u8 = 3;
}

/// The stored value of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum StoredRow {
    /// A document.
    Document(DocumentRow),
    /// A category. Its record holds its name and its counts.
    Category,
}

/// A document in a view.
#[derive(Clone, PartialEq, Debug)]
pub struct DocumentRow {
    /// The document's UNID.
    pub unid: Unid,
    /// Number of documents above it: 0 for a main document.
    pub response_level: u8,
    /// The digest of its readers, if it has Readers items and is therefore not visible to everybody.
    pub readers: Option<ReadersId>,
    /// `true` if it is a conflict document.
    pub conflict: bool,
    /// The values of the columns.
    pub cells: Vec<Cell>,
}

impl StoredRow {
    /// Encodes the row.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Category => CATEGORY_ROW.to_vec(),
            Self::Document(row) => row.encode(),
        }
    }

    /// Reads the response level of a stored document row, and `true` if it has Readers items. Returns `None` for a
    /// category.
    pub(crate) fn head(bytes: &[u8]) -> Result<Option<(u8, bool)>, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        match (input.u8()?, input.u8()?) {
            (VERSION, 1) => {
                let level = input.u8()?;
                input.raw(UNID_BYTES)?;
                Ok(Some((level, input.u8()? & 1 != 0)))
            }
            (VERSION, 2) => Ok(None),
            _ => Err(InvalidRecord),
        }
    }

    /// Decodes a stored row.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != VERSION {
            return Err(InvalidRecord);
        }
        match input.u8()? {
            1 => DocumentRow::decode(&mut input).map(Self::Document),
            2 => Ok(Self::Category),
            _ => Err(InvalidRecord),
        }
    }
}

impl DocumentRow {
    /// Encodes the row.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(96);
        out.u8(VERSION).u8(1).u8(self.response_level).raw(&self.unid.0);
        out.u8(u8::from(self.readers.is_some()) | u8::from(self.conflict) << 1);
        if let Some(readers) = &self.readers {
            out.raw(&readers.0);
        }
        out.varint(self.cells.len() as u64);
        self.cells.iter().for_each(|cell| cell.encode(&mut out));
        out.finish()
    }

    /// Returns the number of bytes of [`DocumentRow::encode`].
    pub(crate) fn encoded_len(&self) -> usize {
        let readers = self.readers.as_ref().map_or(0, |readers| readers.0.len());
        let cells: usize = self.cells.iter().map(Cell::encoded_len).sum();
        HEAD_BYTES + readers + varint_len(self.cells.len() as u64) + cells
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, InvalidRecord> {
        let response_level = input.u8()?;
        let unid = Unid(input.array()?);
        let flags = input.u8()?;
        let readers = if flags & 1 == 0 { None } else { Some(ReadersId(input.array()?)) };
        let count = input.count()?;
        if count > VIEW_COLUMNS_MAX {
            return Err(InvalidRecord);
        }
        let cells = (0..count).map(|_| Cell::decode(input)).collect::<Result<_, _>>()?;
        Ok(Self { unid, response_level, readers, conflict: flags & 2 != 0, cells })
    }
}

/// A category that contains a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Category {
    /// The level, 1 for an outermost category.
    pub level: u8,
    /// The prefix of all keys beneath it.
    pub path: Vec<u8>,
    /// The document's spelling of the category; empty without a value.
    pub spelling: String,
}

impl Category {
    /// Returns the key of its row.
    #[must_use]
    pub fn row_key(&self) -> Vec<u8> {
        [&self.path[..], &[mark::ROW]].concat()
    }
}

/// The source of the values in keys: the first value of each column.
pub trait FirstValues {
    /// Returns the first value of a column.
    fn first(&self, column: usize) -> CellValue<'_>;

    /// Returns `true` if all entries of the document have this first value.
    fn is_shared(&self, _column: usize) -> bool {
        false
    }
}

/// A document, as the keys of its rows contain it. Rows with equal sort components are in the order of creation of
/// their documents, and then in that of UNIDs, so that the order is the same in all replicas. The note ID, which
/// differs between replicas, makes keys unique.
#[derive(Clone, Copy, Debug)]
pub struct KeyDocument {
    /// The time of creation.
    pub created: Timestamp,
    /// The universal identifier.
    pub unid: Unid,
    /// The note.
    pub note: NoteId,
}

impl From<&NoteHeader> for KeyDocument {
    fn from(header: &NoteHeader) -> Self {
        Self { created: header.created, unid: header.unid, note: header.note }
    }
}

/// The end of a document's key, which makes it unique.
#[derive(Clone, Copy)]
struct KeyEnd {
    document: KeyDocument,
    /// The number of the entry within the document.
    entry: u16,
}

impl KeyEnd {
    fn write(self, key: &mut Vec<u8>) {
        let KeyDocument { created, unid, note } = self.document;
        key.extend((created.0.cast_unsigned() ^ (1 << 63)).to_be_bytes());
        // The last bytes of a UNID are random, also of one that is derived from something.
        key.extend(&unid.0[UNID_BYTES - KEY_UNID_BYTES..]);
        key.extend(note.to_key());
        key.extend(self.entry.to_be_bytes());
    }
}

/// The components of the texts that all entries of a document share, by column. Computing the component of a text takes
/// more time than all other steps of making a key, and a document may have a thousand entries.
#[derive(Default)]
pub(super) struct SharedComponents {
    by_column: HashMap<usize, Vec<u8>>,
}

impl<const N: usize> FirstValues for [Cell; N] {
    fn first(&self, column: usize) -> CellValue<'_> {
        self[column].one(0)
    }
}

impl FirstValues for [Cell] {
    fn first(&self, column: usize) -> CellValue<'_> {
        self[column].one(0)
    }
}

/// The key layout of one collation.
pub struct RowKeys {
    /// The columns that form categories, in their order.
    categories: Vec<SortedColumn>,
    /// The other sorted columns.
    others: Vec<SortedColumn>,
    /// Number of these columns in the key of a response.
    response_column_count: usize,
    /// Maximum number of response levels.
    response_levels: usize,
}

struct SortedColumn {
    index: usize,
    order: SortDirection,
    texts: TextOrder,
}

impl RowKeys {
    /// Creates the key layout of one of [`ViewDesign::collations`]. It has categories if all categorized columns come
    /// first in the collation.
    #[must_use]
    pub fn new(design: &ViewDesign, collation: &Collation) -> Self {
        let count = design.category_columns().min(CATEGORY_LEVELS_MAX);
        let leads = collation.iter().take(count).all(|(index, _)| design.columns[*index].categorized);
        let sorted = |(index, order): &(usize, SortDirection)| SortedColumn {
            index: *index,
            order: *order,
            texts: TextOrder::of_locale(&design.locale, design.columns[*index].differences),
        };
        let mut categories: Vec<SortedColumn> = collation.iter().map(sorted).collect();
        let mut others = categories.split_off(if leads { count } else { 0 });
        others.truncate(SORTED_COLUMNS_MAX);
        let response_column_count = others.len().min(RESPONSE_SORTED_COLUMNS_MAX);
        let response_levels = if design.shows_response_hierarchy { RESPONSE_LEVELS_MAX } else { 0 };
        Self { categories, others, response_column_count, response_levels }
    }

    /// Returns the columns that determine the position of a document within its category or beneath its parent, by its
    /// response level.
    fn columns(&self, level: usize) -> &[SortedColumn] {
        if level == 0 { &self.others } else { &self.others[..self.response_column_count] }
    }

    /// Returns the minimum size of the components behind the first `columns` columns of a document.
    fn min_bytes_after(&self, level: usize, columns: usize) -> usize {
        let own = (self.columns(level).len() - columns) * COMPONENT_BYTES_MIN + KEY_END_BYTES;
        let response = self.response_column_count * COMPONENT_BYTES_MIN + KEY_END_BYTES;
        own + self.response_levels.saturating_sub(level) * response
    }

    /// Returns the space for a sorted column of a document behind the key so far.
    fn component_limit(&self, key: &[u8], level: usize, column: usize) -> ComponentLimit {
        ComponentLimit::Prefix(component_bytes_max(COMPONENT_BYTES_MIN, key, self.min_bytes_after(level, column)))
    }

    /// Returns the space for a level of categories behind the key so far. Different texts stay different when they are
    /// cut.
    fn category_component_limit(&self, path: &[u8], levels: usize) -> ComponentLimit {
        let least = (CATEGORY_LEVELS_MAX - levels) * (CATEGORY_BYTES_MIN + 1) + self.min_bytes_after(0, 0);
        ComponentLimit::Digest(component_bytes_max(CATEGORY_BYTES_MIN, path, least))
    }

    /// Returns the categories of an entry, from the outermost inwards.
    #[must_use]
    pub fn categories(&self, values: &(impl FirstValues + ?Sized)) -> Vec<Category> {
        let mut found: Vec<Category> = Vec::new();
        self.for_each_level(values, &mut |column, depth, spelling| {
            let mark = if depth == 0 { mark::NEXT_COLUMN } else { mark::SUBLEVEL };
            let mut path = found.last().map_or_else(Vec::new, |above: &Category| [&above.path[..], &[mark]].concat());
            let limit = self.category_component_limit(&path, found.len());
            sort_key::write(spelling, column.order, &column.texts, limit, &mut path);
            found.push(Category { level: found.len() as u8 + 1, path, spelling: category_name(spelling) });
        });
        found
    }

    /// Returns an entry's spellings of its categories, from the outermost inwards.
    #[must_use]
    pub fn spellings(&self, cells: &[Cell]) -> Vec<String> {
        let mut found = Vec::new();
        self.for_each_level(cells, &mut |_, _, spelling| found.push(category_name(spelling)));
        found
    }

    /// Calls `each` with the column of each level of an entry's categories, its depth within the column, and its value.
    fn for_each_level<'c>(
        &self,
        values: &'c (impl FirstValues + ?Sized),
        each: &mut dyn FnMut(&SortedColumn, usize, CellValue<'c>),
    ) {
        let mut count = 0;
        for column in &self.categories {
            let limit = self.levels_max(count);
            for (depth, spelling) in levels(values.first(column.index)).into_iter().take(limit).enumerate() {
                each(column, depth, spelling);
                count += 1;
            }
        }
    }

    /// Returns the maximum number of levels of a categorized column, if the columns before it have `count` levels. Each
    /// column has at least one level. Documents with deeper values belong to the last level of the column.
    fn levels_max(&self, count: usize) -> usize {
        CATEGORY_LEVELS_MAX.saturating_sub(count + self.categories.len()) + 1
    }

    /// Returns the key of an entry of a main document.
    #[must_use]
    pub fn document_key(&self, values: &(impl FirstValues + ?Sized), document: KeyDocument, entry: u16) -> Vec<u8> {
        self.entry_key(values, document, entry, &mut SharedComponents::default())
    }

    /// Does the same as [`RowKeys::document_key`] for one of several entries of a document. All orders of a view can
    /// use the same components.
    pub(super) fn entry_key(
        &self,
        values: &(impl FirstValues + ?Sized),
        document: KeyDocument,
        entry: u16,
        shared: &mut SharedComponents,
    ) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        if let Some(innermost) = self.categories(values).last() {
            key.extend(&innermost.path);
            key.push(mark::LAST);
        }
        self.finish(key, 0, values, KeyEnd { document, entry }, shared)
    }

    /// Returns the key of a response of a level, from 1 on, beneath a document's row.
    #[must_use]
    pub fn response_key(
        &self,
        parent: &[u8],
        level: usize,
        values: &(impl FirstValues + ?Sized),
        document: KeyDocument,
    ) -> Vec<u8> {
        assert!((1..=self.response_levels).contains(&level), "the view has this response level");
        self.finish(parent.to_vec(), level, values, KeyEnd { document, entry: 0 }, &mut SharedComponents::default())
    }

    /// Returns the paths of the categories above a row, from the outermost inwards, or `None` if the key does not
    /// belong to the collation.
    #[must_use]
    pub fn paths_above<'k>(&self, key: &'k [u8]) -> Option<Vec<&'k [u8]>> {
        if !self.has_categories() {
            return Some(Vec::new());
        }
        let (mut ends, last) = self.category_ends(key)?;
        if last == mark::ROW {
            ends.pop();
        }
        Some(ends.into_iter().map(|end| &key[..end]).collect())
    }

    /// Returns the common prefix of the keys of all rows with these values in the leading sorted columns.
    ///
    /// If `partial` is `true`, the last value is the prefix of a text. Returns `None` if there are more values than
    /// columns.
    #[must_use]
    pub fn prefix(&self, values: &[CellValue<'_>], partial: bool) -> Option<Vec<u8>> {
        let columns = self.categories.len() + self.others.len();
        if values.len() > columns {
            return None;
        }
        let (categories, others) = values.split_at(values.len().min(self.categories.len()));
        let is_last = |number: usize| partial && number + 1 == values.len();
        let mut prefix = Vec::new();
        let mut count = 0;
        for (number, (value, column)) in categories.iter().zip(&self.categories).enumerate() {
            let mut levels = levels(*value);
            levels.truncate(self.levels_max(count));
            for (depth, level) in levels.iter().enumerate() {
                if count > 0 {
                    prefix.push(if depth == 0 { mark::NEXT_COLUMN } else { mark::SUBLEVEL });
                }
                let limit = self.category_component_limit(&prefix, count);
                let is_beginning = is_last(number) && depth + 1 == levels.len();
                // An empty prefix matches everything beneath the category above.
                let level =
                    if is_beginning && depth > 0 && *level == CellValue::None { CellValue::Text("") } else { *level };
                write_value(level, column, limit, is_beginning, &mut prefix);
                count += 1;
            }
        }
        for (number, (value, column)) in others.iter().zip(&self.others).enumerate() {
            if number == 0 && count > 0 {
                prefix.push(mark::LAST);
            }
            let limit = self.component_limit(&prefix, 0, number);
            write_value(*value, column, limit, is_last(categories.len() + number), &mut prefix);
        }
        Some(prefix)
    }

    /// Returns `true` if the rows are in categories.
    #[must_use]
    pub fn has_categories(&self) -> bool {
        !self.categories.is_empty()
    }

    /// Returns `true` if a key belongs to a category row.
    #[must_use]
    pub fn is_category_row(&self, key: &[u8]) -> bool {
        self.category_ends(key).is_some_and(|(_, last)| last == mark::ROW)
    }

    /// Returns the ends of the document keys that a document's key contains: the main document, its response and so on,
    /// and the document itself last. Returns `None` if the key does not belong to a document.
    pub(crate) fn documents_in(&self, key: &[u8]) -> Option<Vec<usize>> {
        let mut end = match self.category_ends(key) {
            Some((ends, mark::LAST)) => ends.last()? + 1,
            None if !self.has_categories() => 0,
            _ => return None,
        };
        let mut ends = Vec::new();
        while end < key.len() {
            for column in self.columns(ends.len()) {
                end += sort_key::length(&key[end..], column.order)?;
            }
            end += KEY_END_BYTES;
            ends.push(end);
        }
        (end == key.len()).then_some(ends)
    }

    /// Returns the end of the path of each category in a key, and the mark behind the last path. Returns `None` without
    /// categories.
    fn category_ends(&self, key: &[u8]) -> Option<(Vec<usize>, u8)> {
        let mut columns = self.categories.iter();
        let mut column = columns.next()?;
        let mut ends = Vec::new();
        let mut start = 0;
        loop {
            let end = start + sort_key::length(key.get(start..)?, column.order)?;
            ends.push(end);
            match *key.get(end)? {
                mark::NEXT_COLUMN => column = columns.next()?,
                mark::SUBLEVEL => {}
                last => return Some((ends, last)),
            }
            start = end + 1;
        }
    }

    fn finish(
        &self,
        mut key: Vec<u8>,
        level: usize,
        values: &(impl FirstValues + ?Sized),
        end: KeyEnd,
        shared: &mut SharedComponents,
    ) -> Vec<u8> {
        for (number, column) in self.columns(level).iter().enumerate() {
            let limit = self.component_limit(&key, level, number);
            match values.first(column.index) {
                CellValue::Text(text) if values.is_shared(column.index) => {
                    let component = shared.by_column.entry(column.index).or_insert_with(|| {
                        let mut component = Vec::new();
                        sort_key::write_text(text, &column.texts, &mut component);
                        component
                    });
                    sort_key::write_text_component(component, column.order, limit, &mut key);
                }
                value => sort_key::write(value, column.order, &column.texts, limit, &mut key),
            }
        }
        end.write(&mut key);
        assert!(key.len() <= KEY_BYTES_MAX, "each component leaves the minimum size for those after it");
        key
    }
}

/// Returns the space for a component behind the key so far: its minimum, and a part of the bytes that are left when the
/// minimum for the rest is reserved.
fn component_bytes_max(min: usize, key: &[u8], least_behind: usize) -> usize {
    min + KEY_BYTES_MAX.saturating_sub(key.len() + least_behind) / COMPONENT_DIVISOR
}

/// Writes the component of a value to search for, or the common prefix of all texts that begin with it.
fn write_value(
    value: CellValue<'_>,
    column: &SortedColumn,
    limit: ComponentLimit,
    is_beginning: bool,
    out: &mut Vec<u8>,
) {
    match value {
        CellValue::Text(text) if is_beginning => {
            sort_key::write_prefix(text, column.order, &column.texts, limit, out);
        }
        value => sort_key::write(value, column.order, &column.texts, limit, out),
    }
}

/// Returns the note of a document's row. Its number precedes the number of the entry at the end of the key.
pub(crate) fn note_of(key: &[u8]) -> crate::error::Result<NoteId> {
    let end = key.len().checked_sub(2).ok_or_else(|| damaged(store::Table::View, key))?;
    let bytes = end.checked_sub(4).and_then(|start| key[start..end].try_into().ok());
    bytes.map(NoteId::from_key).ok_or_else(|| damaged(store::Table::View, key))
}

/// Splits the value of a category at its backslashes. A level without text equals no value.
fn levels(value: CellValue<'_>) -> Vec<CellValue<'_>> {
    match value {
        CellValue::Text(text) => text.split('\\').map(level).collect(),
        other => vec![other],
    }
}

fn level(text: &str) -> CellValue<'_> {
    if text.is_empty() { CellValue::None } else { CellValue::Text(text) }
}

/// Returns the name of a category, also for values that are not texts, for clients that cannot format such values.
fn category_name(value: CellValue<'_>) -> String {
    match value {
        CellValue::None => String::new(),
        CellValue::Text(text) => prefix_of(text, SPELLING_BYTES_MAX).to_owned(),
        CellValue::Number(number) => number.to_string(),
        CellValue::Time(time) => time.0.to_string(),
        CellValue::Error => "@ERROR".to_owned(),
    }
}

/// Decodes the row of a document.
pub(crate) fn decode_document_row(key: &[u8], value: &[u8]) -> crate::error::Result<DocumentRow> {
    match StoredRow::decode(value) {
        Ok(StoredRow::Document(row)) => Ok(row),
        _ => Err(damaged(store::Table::View, key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::view_format::Column;

    fn sorted(title: &str, categorized: bool) -> Column {
        Column { title: title.into(), sort: Some(SortDirection::Ascending), categorized, ..Column::default() }
    }

    fn keys() -> RowKeys {
        let columns = vec![sorted("Kind", true), sorted("Name", false)];
        let design = ViewDesign { shows_response_hierarchy: true, columns, ..ViewDesign::default() };
        RowKeys::new(&design, &design.collations()[0])
    }

    fn cells(kind: &str, name: &str) -> [Cell; 2] {
        [Cell::Texts(vec![kind.into()]), Cell::Texts(vec![name.into()])]
    }

    /// Returns a document whose time of creation is the number of its note.
    fn document(number: u32) -> KeyDocument {
        KeyDocument { created: Timestamp(i64::from(number)), unid: Unid([7; 16]), note: NoteId(number) }
    }

    #[test]
    fn equal_rows_are_in_the_order_of_creation_and_then_of_unids() {
        let key = |created: i64, unid: u8, note: u32| {
            let document = KeyDocument { created: Timestamp(created), unid: Unid([unid; 16]), note: NoteId(note) };
            let key = keys().document_key(&cells("A", "a"), document, 0);
            assert_eq!(note_of(&key).expect("a key"), NoteId(note));
            key
        };
        let rows = [key(-5, 9, 9), key(3, 9, 8), key(4, 1, 7), key(4, 2, 6), key(4, 2, 7), key(5, 0, 1)];
        assert!(rows.is_sorted_by(|one, other| one < other), "{rows:?}");
    }

    #[test]
    fn stored_form_reads_back() {
        let document = DocumentRow {
            unid: Unid([7; 16]),
            response_level: 3,
            readers: Some(ReadersId([9; 16])),
            conflict: false,
            cells: vec![Cell::None, Cell::Numbers(vec![1.0])],
        };
        let unrestricted = DocumentRow { readers: None, ..document.clone() };
        assert_eq!(document.encode().len(), document.encoded_len());
        assert_eq!(unrestricted.encode().len(), unrestricted.encoded_len());
        for row in [StoredRow::Category, StoredRow::Document(document), StoredRow::Document(unrestricted)] {
            let bytes = row.encode();
            assert_eq!(StoredRow::decode(&bytes), Ok(row));
            for length in 0..bytes.len() {
                assert!(StoredRow::decode(&bytes[..length]).is_err());
            }
        }
    }

    #[test]
    fn category_precedes_its_documents_and_subcategories() {
        let keys = keys();
        let category = |kind: &str, level: usize| keys.categories(&cells(kind, ""))[level - 1].row_key();
        let rows = [
            category("", 1),
            keys.document_key(&cells("", "z"), document(1), 0),
            category("A", 1),
            keys.document_key(&cells("A", "a"), document(9), 0),
            keys.document_key(&cells("A", "b"), document(2), 0),
            keys.document_key(&cells("A", "b"), document(2), 1),
            keys.document_key(&cells("A", "b"), document(3), 0),
            category("A\\B", 2),
            keys.document_key(&cells("A\\B", "a"), document(1), 0),
            category("A\\C", 2),
            category("A\\C\\D", 3),
            category("AA", 1),
            category("B", 1),
        ];
        assert!(rows.is_sorted_by(|one, other| one < other), "{rows:?}");
        let above: Vec<usize> = rows.iter().map(|key| keys.paths_above(key).expect("a key").len()).collect();
        assert_eq!(above, [0, 1, 0, 1, 1, 1, 1, 1, 2, 1, 2, 0, 0]);
    }

    #[test]
    fn keys_of_descendants_start_with_the_category_path() {
        let keys = keys();
        let outer = &keys.categories(&cells("A", ""))[0];
        let inner = keys.document_key(&cells("a\\b", "x"), document(1), 0);
        let other = keys.document_key(&cells("Ab", "x"), document(1), 0);
        assert!(inner.starts_with(&outer.path) && outer.row_key() < inner);
        assert!(!other.starts_with(&outer.path));
        let levels = keys.categories(&cells("A\\b\\c", ""));
        assert_eq!(levels.iter().map(|category| category.spelling.as_str()).collect::<Vec<_>>(), ["A", "b", "c"]);
        assert_eq!(levels.iter().map(|category| category.level).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn responses_sort_between_their_parent_and_the_next_document() {
        let keys = keys();
        let parent = keys.document_key(&cells("A", "b"), document(2), 0);
        let next = keys.document_key(&cells("A", "b"), document(3), 0);
        let response = keys.response_key(&parent, 1, &cells("Z", "z"), document(1));
        let deeper = keys.response_key(&response, 2, &cells("", "a"), document(8));
        let second = keys.response_key(&parent, 1, &cells("", "zz"), document(4));
        assert!([&parent, &response, &deeper, &second, &next].is_sorted_by(|one, other| one < other));
    }

    #[test]
    fn sorting_by_click_omits_the_categories() {
        let clicked = Column {
            clicks: crate::view::view_format::ClickSorts { ascending: true, descending: false },
            ..sorted("Name", false)
        };
        let design = ViewDesign { columns: vec![sorted("Kind", true), clicked], ..ViewDesign::default() };
        let keys = RowKeys::new(&design, &design.collations()[1]);
        assert!(keys.categories(&cells("A", "b")).is_empty());
        assert!(
            keys.document_key(&cells("Z", "a"), document(1), 0) < keys.document_key(&cells("A", "b"), document(1), 0)
        );
    }

    #[test]
    fn keys_reserve_space_for_later_components() {
        let long = |number: usize| format!("{}{number}", "long ".repeat(100));
        let columns: Vec<Column> = (0..VIEW_COLUMNS_MAX).map(|number| sorted(&long(number), number < 2)).collect();
        let design = ViewDesign { shows_response_hierarchy: true, columns, ..ViewDesign::default() };
        let keys = RowKeys::new(&design, &design.collations()[0]);
        let deep = (0..CATEGORY_LEVELS_MAX).map(long).collect::<Vec<_>>().join("\\");
        let values: Vec<Cell> = (0..VIEW_COLUMNS_MAX)
            .map(|number| Cell::Texts(vec![if number == 0 { deep.clone() } else { long(number) }]))
            .collect();
        let categories = keys.categories(&values[..]);
        assert_eq!(categories.len(), CATEGORY_LEVELS_MAX);
        let mut key = keys.document_key(&values[..], document(1), 0);
        for level in 1..=RESPONSE_LEVELS_MAX {
            key = keys.response_key(&key, level, &values[..], document(level as u32 + 1));
            assert_eq!(keys.documents_in(&key).map(|ends| ends.len()), Some(level + 1));
        }
        let paths: Vec<&[u8]> = categories.iter().map(|category| &category.path[..]).collect();
        assert_eq!(keys.paths_above(&key).expect("a key"), paths);
        let value = |number: usize| values[number].one(0);
        let wanted = keys.prefix(&[value(0), value(1), value(2)], false).expect("columns");
        assert!(keys.document_key(&values[..], document(1), 0).starts_with(&wanted));
    }

    #[test]
    fn long_categories_with_different_ends_are_distinct() {
        let columns = (0..31).map(|number| sorted(&number.to_string(), true)).collect();
        let design = ViewDesign { shows_response_hierarchy: true, columns, ..ViewDesign::default() };
        let keys = RowKeys::new(&design, &design.collations()[0]);
        let values = |last: &str| [vec!["x".repeat(200); 30], vec![format!("{}{last}", "y".repeat(200))]].concat();
        let path = |last: &str| {
            let cells: Vec<Cell> = values(last).into_iter().map(|text| Cell::Texts(vec![text])).collect();
            keys.categories(&cells[..]).last().expect("31").path.clone()
        };
        assert_ne!(path("1"), path("2"));
        assert_eq!(path("a"), path("A"));
    }

    #[test]
    fn empty_category_level_equals_no_value() {
        let path = |kind: &str, level: usize| keys().categories(&cells(kind, ""))[level - 1].path.clone();
        assert_eq!(path("", 1), path("\\x", 1));
        assert_eq!(keys().categories(&[Cell::None, Cell::None])[0].path, path("\\x", 1));
        assert_eq!(keys().spellings(&cells("a\\\\b", "")[..]), ["a", "", "b"]);
        let beneath = keys().prefix(&[CellValue::Text("a\\")], true).expect("a column");
        assert!(path("a\\b", 2).starts_with(&beneath));
    }

    #[test]
    fn category_levels_are_bounded() {
        let deep = "x\\".repeat(2 * CATEGORY_LEVELS_MAX);
        assert_eq!(keys().categories(&cells(&deep, "")).len(), CATEGORY_LEVELS_MAX);
    }
}
