//! Reads data around damage.
//!
//! An engine reports that it cannot read a key or a block, but not where the readable keys begin again, and a scan may
//! end there. Therefore a table that can be derived is only read to check it, and is given up at the first damage. Of
//! any other table, the keys before the first and after the last damage are kept, or each note is read by its key.

use store::{Direction, KeyRange, Table, TableReader};

use crate::error::Result;

/// Separates damage from other errors: the inner `Err` describes the damage, the outer one is any other error.
pub(super) fn split_damage<T>(outcome: Result<T>) -> Result<std::result::Result<T, String>> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_damage() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Keys with their values.
pub(super) type KeyValues = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the pairs of a range that can be read from either of its ends, and a description of the damage between them,
/// if any.
pub(super) fn read_from_both_ends(
    reader: &dyn TableReader,
    table: Table,
    range: &KeyRange,
) -> Result<(KeyValues, Option<String>)> {
    let (mut pairs, reason) = until_damage(reader, table, range, Direction::Forward)?;
    let Some(reason) = reason else { return Ok((pairs, None)) };
    let after = pairs.last().map_or_else(|| range.start.clone(), |(key, _)| [&key[..], &[0]].concat());
    let rest = KeyRange { start: after, end: range.end.clone() };
    let (behind, _) = until_damage(reader, table, &rest, Direction::Backward)?;
    pairs.extend(behind.into_iter().rev());
    Ok((pairs, Some(reason)))
}

fn until_damage(
    reader: &dyn TableReader,
    table: Table,
    range: &KeyRange,
    direction: Direction,
) -> Result<(KeyValues, Option<String>)> {
    let mut pairs = Vec::new();
    let mut scan = || -> Result<()> {
        let mut cursor = reader.scan(table, range, direction)?;
        while let Some((key, value)) = cursor.next()? {
            pairs.push((key.to_vec(), value.to_vec()));
        }
        Ok(())
    };
    let reason = split_damage(scan())?.err();
    Ok((pairs, reason))
}
