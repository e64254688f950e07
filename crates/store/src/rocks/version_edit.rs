//! The edits of the engine's manifest.
//!
//! The manifest is a log of edits, each a sequence of tagged fields (`db/version_edit.cc` of RocksDB). Numbers are
//! varints. The fields that concern files are:
//!
//! | tag | fields |
//! |---|---|
//! | 6 | removed table file: level, number |
//! | 103 | added table file: level, number, size, smallest and greatest key, smallest and greatest sequence number, then fields of a tag and bytes, ended by tag 1 |
//! | 200 | number of the table that the edit concerns; 0 if it is missing |
//! | 201 | this table is added under a name |
//! | 202 | this table is dropped |
//! | 300 | number of edits of the same group that follow; a group takes effect as a whole |
//! | 400 | added file of separate values: number, count and bytes of the values, method and value of a checksum, then fields of a tag and bytes, ended by tag 0 |
//! | 401 | garbage in such a file: number, count and bytes of the values, then fields in the same way |
//!
//! Fields that a reader of this version may skip have bytes with a length. An edit with any other unknown field is an
//! error, so that no file is expected that the engine does not expect.

use base::codec::{Decoder, InvalidRecord};

type Result<T> = std::result::Result<T, InvalidRecord>;

const COMPARATOR: u64 = 1;
const COMPACT_CURSOR: u64 = 5;
pub(super) const DELETED_FILE: u64 = 6;
const ADDED_FILE: u64 = 103;
pub(super) const TABLE: u64 = 200;
const TABLE_ADDED: u64 = 201;
const TABLE_DROPPED: u64 = 202;
const GROUP: u64 = 300;
const VALUES_ADDED: u64 = 400;
const VALUES_GARBAGE: u64 = 401;
/// Tags with a single number: log and file numbers, sequence number, greatest table number.
const NUMBERS: [u64; 6] = [2, 3, 4, 9, 10, 203];
/// Bit of the tags whose fields have a length, so that a reader that does not know them can skip them.
const SKIPPABLE: u64 = 1 << 13;
/// Tags with this bit whose fields have no length. Only older versions of the engine have written them.
const UNSKIPPABLE: std::ops::RangeInclusive<u64> = 8_194..=8_197;

/// Tag that ends the further fields of a table file.
const FILE_END: u64 = 1;
/// Tag with the number of the oldest file of separate values that a table file refers to.
const OLDEST_VALUES: u64 = 4;
/// Tag that ends the further fields of a file of separate values.
const VALUES_END: u64 = 0;
/// Bit of the further fields that a reader must know.
const MUST_BE_KNOWN: u64 = 1 << 6;

/// Size of the header and the footer of a file of separate values.
const VALUES_FRAME_BYTES: u64 = 30 + 32;

/// A change of the files of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct VersionEdit {
    /// Number of the table.
    pub(super) table: u64,
    pub(super) table_change: Option<TableChange>,
    /// Numbers of removed table files. The removals precede the additions.
    pub(super) deleted: Vec<u64>,
    pub(super) added: Vec<AddedFile>,
    pub(super) values_added: Vec<AddedValues>,
    pub(super) garbage: Vec<Garbage>,
    /// Number of edits of the same group that follow; `None` if the edit is in no group.
    pub(super) remaining: Option<u64>,
}

/// The creation or removal of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TableChange {
    Added(String),
    Dropped,
}

/// A table file that becomes part of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AddedFile {
    pub(super) number: u64,
    pub(super) size_bytes: u64,
    /// Number of the oldest file of separate values that it refers to.
    pub(super) oldest_values: Option<u64>,
}

/// A file of separate values that becomes part of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AddedValues {
    pub(super) number: u64,
    pub(super) count: u64,
    pub(super) size_bytes: u64,
}

/// A number of separate values that no table file refers to any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Garbage {
    /// Number of the file with the values.
    pub(super) number: u64,
    pub(super) count: u64,
}

impl VersionEdit {
    /// Parses an edit.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let mut input = Decoder::new(bytes);
        let mut edit = Self::default();
        while !input.is_empty() {
            let tag = input.varint()?;
            edit.parse_field(tag, &mut input)?;
        }
        Ok(edit)
    }

    fn parse_field(&mut self, tag: u64, input: &mut Decoder<'_>) -> Result<()> {
        match tag {
            TABLE => self.table = input.varint()?,
            TABLE_ADDED => self.table_change = Some(TableChange::Added(input.text()?.to_owned())),
            TABLE_DROPPED => self.table_change = Some(TableChange::Dropped),
            GROUP => self.remaining = Some(input.varint()?),
            DELETED_FILE => {
                input.varint()?;
                self.deleted.push(input.varint()?);
            }
            ADDED_FILE => self.added.push(AddedFile::parse(input)?),
            VALUES_ADDED => self.values_added.push(AddedValues::parse(input)?),
            VALUES_GARBAGE => self.garbage.push(Garbage::parse(input)?),
            COMPACT_CURSOR => {
                input.varint()?;
                input.bytes()?;
            }
            tag if NUMBERS.contains(&tag) => drop(input.varint()?),
            tag if UNSKIPPABLE.contains(&tag) => return Err(InvalidRecord),
            tag if tag == COMPARATOR || tag & SKIPPABLE != 0 => drop(input.bytes()?),
            _ => return Err(InvalidRecord),
        }
        Ok(())
    }
}

impl AddedFile {
    fn parse(input: &mut Decoder<'_>) -> Result<Self> {
        input.varint()?;
        let number = input.varint()?;
        let size_bytes = input.varint()?;
        for _key in 0..2 {
            input.bytes()?;
        }
        for _sequence in 0..2 {
            input.varint()?;
        }
        let mut oldest_values = None;
        parse_further_fields(input, FILE_END, &mut |tag, content| {
            if tag == OLDEST_VALUES {
                oldest_values = Some(Decoder::new(content).varint()?);
            }
            Ok(())
        })?;
        Ok(Self { number, size_bytes, oldest_values })
    }
}

impl AddedValues {
    fn parse(input: &mut Decoder<'_>) -> Result<Self> {
        let number = input.varint()?;
        let count = input.varint()?;
        let size_bytes = input.varint()?.saturating_add(VALUES_FRAME_BYTES);
        for _checksum in 0..2 {
            input.bytes()?;
        }
        parse_further_fields(input, VALUES_END, &mut |_, _| Ok(()))?;
        Ok(Self { number, count, size_bytes })
    }
}

impl Garbage {
    fn parse(input: &mut Decoder<'_>) -> Result<Self> {
        let number = input.varint()?;
        let count = input.varint()?;
        input.varint()?;
        parse_further_fields(input, VALUES_END, &mut |_, _| Ok(()))?;
        Ok(Self { number, count })
    }
}

/// Parses fields of a tag and bytes up to the tag `end`.
fn parse_further_fields(
    input: &mut Decoder<'_>,
    end: u64,
    take: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    loop {
        let tag = input.varint()?;
        if tag == end {
            return Ok(());
        }
        if tag & MUST_BE_KNOWN != 0 {
            return Err(InvalidRecord);
        }
        take(tag, input.bytes()?)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<VersionEdit>) {
        assert_eq!(VersionEdit::parse(bytes), expected, "{bytes:?}");
    }

    #[test]
    fn files_of_an_edit_are_parsed() {
        // A removed file of level 1, and an added one with an oldest file of separate values and a field to be skipped.
        let table_files =
            [6, 1, 9, 103, 2, 10, 0x80, 0x20, 1, b'a', 2, b'b', b'c', 7, 8, 4, 1, 5, 13, 1, 3, 1, 200, 1, 2];
        let edit = VersionEdit {
            table: 2,
            deleted: vec![9],
            added: vec![AddedFile { number: 10, size_bytes: 4_096, oldest_values: Some(5) }],
            ..VersionEdit::default()
        };
        check(&table_files, Ok(edit));
        let values = [0x90, 3, 5, 3, 100, 0, 0, 0, 0x91, 3, 5, 1, 30, 2, 1, 7, 0, 0xAC, 2, 4];
        let edit = VersionEdit {
            values_added: vec![AddedValues { number: 5, count: 3, size_bytes: 162 }],
            garbage: vec![Garbage { number: 5, count: 1 }],
            remaining: Some(4),
            ..VersionEdit::default()
        };
        check(&values, Ok(edit));
    }

    #[test]
    fn unknown_fields_are_skipped_if_they_may_be() {
        let skippable = [2, 7, 0x81, 0x40, 1, 9, 5, 3, 1, b'k'];
        check(&skippable, Ok(VersionEdit::default()));
        for unknown in [
            &[7, 1][..],
            &[0x82, 0x40, 1, 9],
            &[103, 1, 2, 3],
            &[103, 0, 1, 1, 0, 0, 0, 0, 65, 1, 1, 1],
            &[0x90, 3, 5, 3, 100, 0, 0, 64, 0, 0],
        ] {
            check(unknown, Err(InvalidRecord));
        }
    }
}
