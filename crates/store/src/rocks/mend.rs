//! Taking damaged blocks out of the sorted files.
//!
//! A block that cannot be read breaks every scan that comes to it, and the engine refuses all writes once a compaction has met it. Deleting its keys does not
//! help: the block stays where it is. So the whole file goes: what can be read of the range that it covers, in all files together, is written again as
//! one batch on top of everything else, and then the files that lie in that range are dropped. The batch changes nothing that could be read before, so that a crash
//! between the steps does no harm.
//!
//! Lost is what lay in the damaged block and what is newer and lies between its keys. Left out: files of level 0, which the engine does not drop one by
//! one, and the separate values of attachments.

use super::{Rocks, failure};
use crate::batch::Batch;
use crate::engine::{Direction, Engine as _, KeyRange, Read as _, Table};
use crate::error::{Error, Result};

/// Replaces the files of a table that cannot be read whole; gives how many.
pub(super) fn mend(rocks: &Rocks, table: Table) -> Result<u64> {
    if table == Table::Blob {
        return Ok(0);
    }
    let files = rocks.db.live_files().map_err(|error| failure("list the files", &error))?;
    let mut replaced = 0;
    for file in files.iter().filter(|file| file.column_family_name == table.name() && file.level > 0) {
        let (Some(first), Some(last)) = (&file.start_key, &file.end_key) else { continue };
        let range = KeyRange::between(first.clone(), [last, &[0][..]].concat());
        if let Some(pairs) = readable_part(rocks, table, &range)? {
            replace(rocks, table, &range, &pairs)?;
            let dropped = rocks.db.delete_file_in_range_cf(rocks.family(table), first, last);
            dropped.map_err(|error| failure("drop a damaged file", &error))?;
            replaced += 1;
        }
    }
    Ok(replaced)
}

/// Keys with their values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Gives what can be read of a range; nothing when all of it can.
fn readable_part(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<Option<Pairs>> {
    let (mut pairs, mut is_whole) = until_damage(rocks, table, range, Direction::Forward)?;
    if is_whole {
        return Ok(None);
    }
    while !is_whole {
        let after = pairs.last().map_or_else(|| range.start.clone(), |(key, _)| [&key[..], &[0]].concat());
        let Some(start) = start_behind_damage(rocks, table, &KeyRange { start: after, end: range.end.clone() })? else {
            break;
        };
        let rest = KeyRange { start, end: range.end.clone() };
        let (more, is_end) = until_damage(rocks, table, &rest, Direction::Forward)?;
        is_whole = is_end || more.is_empty();
        pairs.extend(more);
    }
    Ok(Some(pairs))
}

/// Finds the smallest key from which a scan works again, of a range at whose start it does not. A scan from the other end comes near it,
/// but not to the very first key: there it looks at what is before.
fn start_behind_damage(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<Option<Vec<u8>>> {
    let (tail, _) = until_damage(rocks, table, range, Direction::Backward)?;
    let Some((key, _)) = tail.last() else { return Ok(None) };
    let (mut bad, mut good) = (range.start.clone(), key.clone());
    while let Some(middle) = middle(&bad, &good) {
        let mut cursor =
            rocks.scan(table, &KeyRange { start: middle.clone(), end: range.end.clone() }, Direction::Forward)?;
        match cursor.next() {
            Ok(_) => good = middle,
            Err(Error::Damaged { .. }) => bad = middle,
            Err(error) => return Err(error),
        }
    }
    Ok(Some(good))
}

/// Gives a key halfway between two, taken as fractions of equal length; nothing when they are neighbours.
fn middle(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let length = low.len().max(high.len());
    let digit = |key: &[u8], place: usize| u16::from(key.get(place).copied().unwrap_or(0));
    let mut sum = vec![0_u16; length];
    let mut carry = 0;
    for place in (0..length).rev() {
        let total = digit(low, place) + digit(high, place) + carry;
        (sum[place], carry) = (total & 0xFF, total >> 8);
    }
    let mut half = Vec::with_capacity(length);
    for digit in sum {
        let total = carry << 8 | digit;
        half.push((total >> 1) as u8);
        carry = total & 1;
    }
    (half.as_slice() > low && half.as_slice() < high && digits_differ(&half, low)).then_some(half)
}

/// Tells whether two keys differ in more than zeros at the end.
fn digits_differ(one: &[u8], other: &[u8]) -> bool {
    let trimmed = |key: &[u8]| key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    one[..trimmed(one)] != other[..trimmed(other)]
}

fn until_damage(rocks: &Rocks, table: Table, range: &KeyRange, direction: Direction) -> Result<(Pairs, bool)> {
    let mut pairs = Vec::new();
    let mut cursor = rocks.scan(table, range, direction)?;
    loop {
        match cursor.next() {
            Ok(Some((key, value))) => pairs.push((key.to_vec(), value.to_vec())),
            Ok(None) => return Ok((pairs, true)),
            Err(Error::Damaged { .. }) => return Ok((pairs, false)),
            Err(error) => return Err(error),
        }
    }
}

fn replace(rocks: &Rocks, table: Table, range: &KeyRange, pairs: &Pairs) -> Result<()> {
    let mut batch = Batch::new();
    if let Some(end) = &range.end {
        batch.delete_range(table, &range.start, end);
    }
    for (key, value) in pairs {
        batch.put(table, key, value);
    }
    rocks.write(&batch)?;
    rocks.sync()?;
    rocks.db.flush_cf(rocks.family(table)).map_err(|error| failure("flush what could be read", &error))
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn the_middle_lies_between_until_there_is_none() {
        let check = |low: &[u8], high: &[u8], expected: Option<&[u8]>| {
            assert_eq!(middle(low, high).as_deref(), expected, "{low:?} {high:?}");
        };
        check(&[0], &[10], Some(&[5]));
        check(&[1, 0], &[1, 1], None);
        check(&[1], &[1, 0], None);
        check(&[1], &[1, 2], Some(&[1, 1]));
        check(&[0, 255], &[2, 1], Some(&[1, 128]));
        check(&[255, 254], &[255, 255, 255], Some(&[255, 254, 255]));
        let (mut low, mut steps) = (vec![0; 8], 0);
        while let Some(next) = middle(&low, &[255; 8]) {
            (low, steps) = (next, steps + 1);
        }
        assert!((60..70).contains(&steps), "{steps}");
    }
}
