//! Taking damaged blocks out of the sorted files.
//!
//! A block that cannot be read breaks every scan that comes to it, and the engine refuses all writes once a compaction has met it. Deleting its keys does not
//! help: the block stays where it is. So the whole file goes, after what can be read of the range that it covers, in all files together, was written again on
//! top of everything else, deletions included. That changes nothing that could be read before, so that a crash between the steps does no harm. It is
//! done in pieces, each of which is true by itself, so that memory does not grow with the file.
//!
//! Where the range cannot be read, nothing is written: what lies on top of the damage stays, and what lies beneath it comes back. Lost is what was in
//! the block, and what a younger file that is damaged elsewhere has in the same place, which scans do not reach either. Who knows what was in it, and does not want older records back, writes that down before (`docs/operating.md`).
//!
//! A file is taken out of the closed store ([`super::take_out`]), for the engine drops files only together with all that lie in their range, and those of level 0
//! not at all. A file of which only the filter is damaged goes too: scans do not need it, and asking for a key does.
//!
//! Left out: the separate values of attachments.

use rocksdb::LiveFile;

use super::{Rocks, failure};
use crate::batch::Batch;
use crate::engine::{Direction, Engine as _, KeyRange, Read as _, SortedFile, Table, next_key};
use crate::error::{Error, Result};
use crate::limits::{MEND_BATCH_BYTES, MEND_PROBES};

/// Writes again what can be read of the damaged files of a table; gives the files, which can be taken out then.
pub(super) fn mend(rocks: &Rocks, table: Table, known: &[Error]) -> Result<Vec<SortedFile>> {
    if table == Table::Blob {
        return Ok(Vec::new());
    }
    let mut damage = rocks.damage_of(table, &mut 0, &mut |_| {})?;
    damage.extend(
        known.iter().filter(|error| matches!(error, Error::Damaged { table: of, .. } if *of == table)).cloned(),
    );
    if damage.is_empty() {
        return Ok(Vec::new());
    }
    let files = rocks.db.live_files().map_err(|error| failure("list the files", &error))?;
    // The engine names the file in which it met the damage.
    let is_damaged = |file: &&LiveFile| damage.iter().any(|error| error.to_string().contains(&file.name));
    let damaged = files.iter().filter(|file| file.column_family_name == table.name()).filter(is_damaged);
    let mut taken = Vec::new();
    for file in youngest(damaged.collect()) {
        let (Some(first), Some(last)) = (&file.start_key, &file.end_key) else { continue };
        rescue(rocks, table, &KeyRange::between(first.clone(), next_key(last)))?;
        taken.push(sorted_file(table, file)?);
    }
    rocks.sync()?;
    rocks.db.flush_cf(rocks.family(table)).map_err(|error| failure("flush what could be read", &error))?;
    Ok(taken)
}

/// Gives the files above which no other damaged file lies: one of level 0, or all of a further level, which do not overlap. Under
/// a young file a damaged place is narrow, under an old one it is wide.
fn youngest(mut files: Vec<&LiveFile>) -> Vec<&LiveFile> {
    files.sort_by_key(|file| (file.level, std::cmp::Reverse(file.name.clone())));
    let Some(level) = files.first().map(|file| file.level) else { return files };
    files.retain(|file| file.level == level);
    if level == 0 {
        files.truncate(1);
    }
    files
}

fn sorted_file(table: Table, file: &LiveFile) -> Result<SortedFile> {
    let unnamed = || Error::Failed { what: "read the name of a file", why: file.name.clone() };
    let number = file.name.trim_matches(|c: char| !c.is_ascii_digit()).parse().map_err(|_| unnamed())?;
    Ok(SortedFile { table, level: u32::try_from(file.level).map_err(|_| unnamed())?, number })
}

/// Writes what can be read of a range again on top, and leaves the rest of it as it is.
fn rescue(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<()> {
    let mut rest = range.clone();
    while let Some(reached) = copy_until_damage(rocks, table, &rest)? {
        let gap = KeyRange { start: reached, end: range.end.clone() };
        let Some(start) = first_readable(rocks, table, &gap)? else { break };
        assert!(start > gap.start, "what was not readable a moment ago is not read again");
        rest.start = start;
    }
    Ok(())
}

/// Copies a range, batch by batch, up to the first damage; gives the first key that could not be read, or nothing at the end.
fn copy_until_damage(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<Option<Vec<u8>>> {
    let mut cursor = rocks.scan(table, range, Direction::Forward)?;
    let mut piece = Piece::starting(table, range.start.clone());
    loop {
        match cursor.next() {
            Ok(Some((key, value))) => {
                piece.pairs.push((key.to_vec(), value.to_vec()));
                piece.bytes += key.len() + value.len();
                if piece.bytes >= MEND_BATCH_BYTES {
                    piece = piece.write(rocks, next_key(key))?;
                }
            }
            Ok(None) => {
                let end = range.end.clone().expect("the range of a file has an end");
                piece.write(rocks, end)?;
                return Ok(None);
            }
            Err(Error::Damaged { .. }) => {
                let Some(reached) = piece.pairs.last().map(|(key, _)| next_key(key)) else {
                    return Ok(Some(piece.start));
                };
                piece.write(rocks, reached.clone())?;
                return Ok(Some(reached));
            }
            Err(error) => return Err(error),
        }
    }
}

/// A part of a range, of which everything is known.
struct Piece {
    table: Table,
    start: Vec<u8>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Piece {
    fn starting(table: Table, start: Vec<u8>) -> Self {
        Self { table, start, pairs: Vec::new(), bytes: 0 }
    }

    /// Writes that up to `end` there are these pairs and no others; gives the next piece.
    fn write(self, rocks: &Rocks, end: Vec<u8>) -> Result<Self> {
        let range = KeyRange::between(self.start, end.clone());
        assert!(
            self.pairs.iter().all(|(key, _)| range.contains(key)),
            "what is deleted with the range is what is written again"
        );
        let mut batch = Batch::new();
        batch.delete_range(self.table, &range.start, &end);
        for (key, value) in &self.pairs {
            batch.put(self.table, key, value);
        }
        rocks.write(&batch)?;
        Ok(Self::starting(self.table, end))
    }
}

/// Finds the first key from which a range can be read again, whose start cannot. The engine does not tell where its blocks begin, so that
/// this looks at keys in between; several damaged blocks leave sound ones between them. A sound stretch that is much smaller than
/// the damage before it may be passed over.
fn first_readable(rocks: &Rocks, table: Table, gap: &KeyRange) -> Result<Option<Vec<u8>>> {
    let end = gap.end.as_ref().expect("the range of a file has an end");
    let is_readable = |key: &[u8]| is_readable(rocks, table, &KeyRange::between(key, end.clone()));
    // Ever nearer to the start: the last that can be read, and what is before it cannot.
    let (mut good, mut bad) = (end.clone(), gap.start.clone());
    let mut near = end.clone();
    while let Some(key) = middle(&gap.start, &near) {
        if is_readable(&key)? {
            (good, bad) = (key.clone(), gap.start.clone());
        } else if bad == gap.start {
            bad.clone_from(&key);
        }
        near = key;
    }
    loop {
        while let Some(key) = middle(&bad, &good) {
            if is_readable(&key)? { good = key } else { bad = key }
        }
        // Before it may be more that can be read.
        let Some((found, before)) = readable_between(&gap.start, &good, &is_readable)? else { break };
        (good, bad) = (found, before);
    }
    Ok((good < *end).then_some(good))
}

/// Looks at keys that divide a range evenly, from the start on; gives the first that can be read, with the one before it.
fn readable_between(
    start: &[u8],
    end: &[u8],
    is_readable: &dyn Fn(&[u8]) -> Result<bool>,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut keys = vec![start.to_vec(), end.to_vec()];
    while keys.len() < MEND_PROBES {
        let between: Vec<Vec<u8>> = keys.windows(2).filter_map(|pair| middle(&pair[0], &pair[1])).collect();
        if between.is_empty() {
            break;
        }
        keys.extend(between);
        keys.sort_unstable();
    }
    for pair in keys[..keys.len() - 1].windows(2) {
        if is_readable(&pair[1])? {
            return Ok(Some((pair[1].clone(), pair[0].clone())));
        }
    }
    Ok(None)
}

/// Tells whether a scan of a range begins without meeting damage.
fn is_readable(rocks: &Rocks, table: Table, range: &KeyRange) -> Result<bool> {
    match rocks.scan(table, range, Direction::Forward)?.next() {
        Ok(_) => Ok(true),
        Err(Error::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
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
