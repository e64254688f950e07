//! Reading past damage.
//!
//! An engine tells that it cannot read a key or a block; where the readable keys begin again it does not tell, and a scan may end there. So
//! a table that can be derived is read only to see whether it is right, and is given up at the first damage; of one that cannot, what lies
//! before the first and behind the last damage is kept, or each note is asked for by itself.

use store::{Direction, KeyRange, Read, Table};

use crate::error::Result;

/// Takes damage for an answer: `Err` holds what was found out about it.
pub(super) fn sound<T>(outcome: Result<T>) -> Result<std::result::Result<T, String>> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_damage() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Keys with their values.
pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Gives the pairs of a range that can be read from both of its ends, and what is wrong with the rest.
pub(super) fn both_ends(reader: &dyn Read, table: Table, range: &KeyRange) -> Result<(Pairs, Option<String>)> {
    let (mut pairs, why) = until_damage(reader, table, range, Direction::Forward)?;
    let Some(why) = why else { return Ok((pairs, None)) };
    let after = pairs.last().map_or_else(|| range.start.clone(), |(key, _)| [&key[..], &[0]].concat());
    let rest = KeyRange { start: after, end: range.end.clone() };
    let (behind, _) = until_damage(reader, table, &rest, Direction::Backward)?;
    pairs.extend(behind.into_iter().rev());
    Ok((pairs, Some(why)))
}

fn until_damage(
    reader: &dyn Read,
    table: Table,
    range: &KeyRange,
    direction: Direction,
) -> Result<(Pairs, Option<String>)> {
    let mut pairs = Vec::new();
    let mut scan = || -> Result<()> {
        let mut cursor = reader.scan(table, range, direction)?;
        while let Some((key, value)) = cursor.next()? {
            pairs.push((key.to_vec(), value.to_vec()));
        }
        Ok(())
    };
    let why = sound(scan())?.err();
    Ok((pairs, why))
}
