//! Taking damaged blocks out of the sorted files.
//!
//! A block that cannot be read breaks every scan that comes to it, and the engine refuses all writes once a compaction has met it. Deleting its keys does not
//! help: the block stays where it is. So the whole file goes, after what can be read of the range that it covers, in all files together, was written again on
//! top of everything else. That changes nothing that could be read before, so that a crash between the steps does no harm.
//!
//! A file below level 0 is dropped at once. Lost is what lay in the damaged block and what is newer or older and lies between its keys.
//!
//! A file of level 0, which the engine does not drop, is left to [`super::take_out`], when the store is closed. It is young and may cover all keys, while the others hold
//! nearly everything; where it cannot be read, the others cannot be read by scans either, so what they have there is not touched: what was changed last is lost, and
//! what was there before comes back.
//!
//! A file of which only the filter is damaged is replaced too: scans do not need it, and asking for a key does.
//!
//! Left out: the separate values of attachments.

use super::{Rocks, failure};
use crate::batch::Batch;
use crate::engine::{Direction, Engine as _, KeyRange, Mended, Read as _, SortedFile, Table, next_key};
use crate::error::{Error, Result};
use crate::limits::MEND_BATCH_BYTES;

/// Replaces the files of a table that cannot be read whole.
pub(super) fn mend(rocks: &Rocks, table: Table, known: &[Error]) -> Result<Mended> {
    let damage = rocks.damage_of(table, &mut 0, &mut |_| {})?;
    let is_of_table = |error: &&Error| matches!(error, Error::Damaged { table: damaged, .. } if *damaged == table);
    let known: Vec<&Error> = known.iter().filter(is_of_table).chain(&damage).collect();
    if table == Table::Blob || known.is_empty() {
        return Ok(Mended::default());
    }
    // A compaction that comes upon the damage would end all writing.
    let quiet = rocks.db.set_options_cf(rocks.family(table), &[("disable_auto_compactions", "true")]);
    quiet.map_err(|error| failure("put off compactions", &error))?;
    let files = rocks.db.live_files().map_err(|error| failure("list the files", &error))?;
    let of_table = || files.iter().filter(|file| file.column_family_name == table.name());
    // The engine names the file in which it met the damage.
    let is_named = |name: &str| known.iter().any(|error| error.to_string().contains(name));
    let mut mended = Mended::default();
    for file in of_table().filter(|file| file.level == 0 && is_named(&file.name)) {
        let (Some(first), Some(last)) = (&file.start_key, &file.end_key) else { continue };
        rescue(rocks, table, &KeyRange::between(first.clone(), next_key(last)))?;
        let number = file.name.trim_matches(|c: char| !c.is_ascii_digit()).parse();
        let number = number.map_err(|_| Error::Failed { what: "read the name of a file", why: file.name.clone() })?;
        mended.left.push(SortedFile { table, level: 0, number });
    }
    if !mended.left.is_empty() {
        // The others lie behind it: whether they can be read is seen when it is gone.
        return Ok(mended);
    }
    for file in of_table().filter(|file| file.level > 0) {
        let (Some(first), Some(last)) = (&file.start_key, &file.end_key) else { continue };
        let range = KeyRange::between(first.clone(), next_key(last));
        let (pairs, is_whole) = readable_part(rocks, table, &range)?;
        if !is_whole || is_named(&file.name) {
            replace(rocks, table, &range, &pairs)?;
            let dropped = rocks.db.delete_file_in_range_cf(rocks.family(table), first, last);
            dropped.map_err(|error| failure("drop a damaged file", &error))?;
            mended.replaced += 1;
        }
    }
    Ok(mended)
}

/// Writes what can be read of a range again on top, deletions included, and leaves the rest of it as it is.
fn rescue(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<()> {
    let mut start = range.start.clone();
    loop {
        let rest = KeyRange { start, end: range.end.clone() };
        let (reached, is_whole) = copy_until_damage(rocks, table, &rest)?;
        if is_whole {
            break;
        }
        let after = reached.as_deref().map_or_else(|| rest.start.clone(), next_key);
        let behind = start_behind_damage(rocks, table, &KeyRange { start: after, end: range.end.clone() })?;
        match behind {
            Some(behind) if reached.is_some() || behind > rest.start => start = behind,
            _ => break,
        }
    }
    rocks.sync()?;
    rocks.db.flush_cf(rocks.family(table)).map_err(|error| failure("flush what could be read", &error))
}

/// Copies a range, batch by batch, up to the first damage; gives the last key and whether that was the end.
fn copy_until_damage(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<(Option<Vec<u8>>, bool)> {
    let mut cursor = rocks.scan(table, range, Direction::Forward)?;
    let (mut from, mut last) = (range.start.clone(), None);
    let mut pairs = Pairs::new();
    let mut bytes = 0;
    let outcome = loop {
        match cursor.next() {
            Ok(Some((key, value))) => {
                bytes += key.len() + value.len();
                pairs.push((key.to_vec(), value.to_vec()));
                last = Some(key.to_vec());
                if bytes >= MEND_BATCH_BYTES {
                    let until = next_key(key);
                    write_again(rocks, table, &KeyRange::between(from, until.clone()), &pairs)?;
                    (from, bytes) = (until, 0);
                    pairs.clear();
                }
            }
            Ok(None) => break true,
            Err(Error::Damaged { .. }) => break false,
            Err(error) => return Err(error),
        }
    };
    let until = if outcome { range.end.clone() } else { last.as_deref().map(next_key) };
    if let Some(until) = until.filter(|until| *until > from) {
        write_again(rocks, table, &KeyRange::between(from, until), &pairs)?;
    }
    assert!(last.as_ref().is_none_or(|last| range.contains(last)), "no key of others is copied");
    Ok((last, outcome))
}

/// Keys with their values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Gives what can be read of a range, and whether that is all of it.
fn readable_part(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<(Pairs, bool)> {
    let (mut pairs, is_sound) = until_damage(rocks, table, range, Direction::Forward)?;
    let mut is_whole = is_sound;
    while !is_whole {
        let after = pairs.last().map_or_else(|| range.start.clone(), |(key, _)| next_key(key));
        let Some(start) = start_behind_damage(rocks, table, &KeyRange { start: after, end: range.end.clone() })? else {
            break;
        };
        let rest = KeyRange { start, end: range.end.clone() };
        let (more, is_end) = until_damage(rocks, table, &rest, Direction::Forward)?;
        is_whole = is_end || more.is_empty();
        pairs.extend(more);
    }
    Ok((pairs, is_sound))
}

/// Finds the smallest key from which a scan works again, of a range at whose start it does not. A scan from the other end comes near it,
/// but not to the very first key: there it looks at what is before.
fn start_behind_damage(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<Option<Vec<u8>>> {
    let (tail, _) = until_damage(rocks, table, range, Direction::Backward)?;
    let Some((key, _)) = tail.last() else { return Ok(None) };
    let (mut bad, mut good) = (range.start.clone(), key.clone());
    assert!(bad <= good && range.contains(&good), "what was found lies in the range");
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

/// Writes all pairs of a range again on top, so that nothing else is in it.
fn write_again(rocks: &Rocks, table: Table, range: &KeyRange, pairs: &Pairs) -> Result<()> {
    assert!(
        pairs.iter().all(|(key, _)| range.contains(key)),
        "what is deleted with the range is what is written again"
    );
    let mut batch = Batch::new();
    if let Some(end) = &range.end {
        batch.delete_range(table, &range.start, end);
    }
    for (key, value) in pairs {
        batch.put(table, key, value);
    }
    rocks.write(&batch)
}

fn replace(rocks: &Rocks, table: Table, range: &KeyRange, pairs: &Pairs) -> Result<()> {
    write_again(rocks, table, range, pairs)?;
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
