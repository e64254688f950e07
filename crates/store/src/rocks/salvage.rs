//! Removal of damaged blocks from the sorted files.
//!
//! An unreadable block breaks every scan that reaches it, and the engine refuses all writes once a compaction has read
//! it. Deleting its keys does not help, because the block stays in its file. So the whole file is removed. Before that,
//! the readable content of the file's key range, merged over all files, is rewritten on top of everything else,
//! deletions included. This does not change the readable state, so a crash between the steps does no harm. The content
//! is rewritten in pieces, each of which is correct by itself, so that memory does not grow with the file.
//!
//! Nothing is written for unreadable records: younger records of their keys stay, and older ones reappear. Two kinds of
//! records are lost: those in the damaged block, and those of a younger file that is damaged elsewhere and covers the
//! same keys, because scans do not reach them either. A caller that knows what was in the block and must not see older
//! records again records that beforehand (`docs/operating.md`).
//!
//! A file is removed from the closed store ([`super::remove_files`]), because the engine drops files only together with
//! all others in their range, and files of level 0 not at all. A file of which only the filter is damaged is removed
//! too: scans do not use the filter, but point lookups do.
//!
//! Not included: the separate values of attachments.

use rocksdb::LiveFile;

use super::{RocksEngine, failure};
use crate::batch::Batch;
use crate::engine::{Direction, Engine as _, KeyRange, SortedFile, Table, TableReader as _, next_key};
use crate::error::{Error, Result};
use crate::limits::{SALVAGE_BATCH_BYTES, SALVAGE_PROBES};

/// Rewrites the readable content of the damaged files of a table. Returns these files, which can then be removed.
pub(super) fn salvage(rocks: &RocksEngine, table: Table, known: &[Error]) -> Result<Vec<SortedFile>> {
    if table == Table::Blob {
        return Ok(Vec::new());
    }
    let mut damage = rocks.verify_table(table, &mut 0, &mut |_| {})?;
    damage.extend(
        known.iter().filter(|error| matches!(error, Error::Damaged { table: of, .. } if *of == table)).cloned(),
    );
    if damage.is_empty() {
        return Ok(Vec::new());
    }
    let files = rocks.db.live_files().map_err(|error| failure("list the files", &error))?;
    // The error text of the engine contains the name of the damaged file.
    let is_damaged = |file: &&LiveFile| damage.iter().any(|error| error.to_string().contains(&file.name));
    let damaged = files.iter().filter(|file| file.column_family_name == table.name()).filter(is_damaged);
    let mut taken = Vec::new();
    for file in youngest(damaged.collect()) {
        let (Some(first), Some(last)) = (&file.start_key, &file.end_key) else { continue };
        rewrite_readable(rocks, table, &KeyRange::between(first.clone(), next_key(last)))?;
        taken.push(sorted_file(table, file)?);
    }
    rocks.sync()?;
    rocks.db.flush_cf(rocks.family(table)).map_err(|error| failure("flush the rescued records", &error))?;
    Ok(taken)
}

/// Returns the damaged files above which no other damaged file lies: either one file of level 0, or all damaged files
/// of one deeper level, which do not overlap. Damage in a young file covers a narrow key range, damage in an old file a
/// wide one.
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
    let unnamed = || Error::Failed { what: "parse the name of a sorted file", reason: file.name.clone() };
    let number = file.name.trim_matches(|c: char| !c.is_ascii_digit()).parse().map_err(|_| unnamed())?;
    Ok(SortedFile { table, level: u32::try_from(file.level).map_err(|_| unnamed())?, number })
}

/// Rewrites the readable content of a range on top of the existing content. Leaves the unreadable parts as they are.
fn rewrite_readable(rocks: &RocksEngine, table: Table, range: &KeyRange) -> Result<()> {
    let mut rest = range.clone();
    while let Some(reached) = copy_until_damage(rocks, table, &rest)? {
        let gap = KeyRange { start: reached, end: range.end.clone() };
        let Some(start) = first_readable(rocks, table, &gap)? else { break };
        assert!(start > gap.start, "a key that was unreadable is not read again");
        rest.start = start;
    }
    Ok(())
}

/// Copies a range in batches up to the first damage. Returns the first key that could not be read, or `None` at the end
/// of the range.
fn copy_until_damage(rocks: &RocksEngine, table: Table, range: &KeyRange) -> Result<Option<Vec<u8>>> {
    let mut cursor = rocks.scan(table, range, Direction::Forward)?;
    let mut piece = ReadableRange::starting(table, range.start.clone());
    loop {
        match cursor.next() {
            Ok(Some((key, value))) => {
                piece.pairs.push((key.to_vec(), value.to_vec()));
                piece.bytes += key.len() + value.len();
                if piece.bytes >= SALVAGE_BATCH_BYTES {
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

/// A fully readable part of a range.
struct ReadableRange {
    table: Table,
    start: Vec<u8>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl ReadableRange {
    fn starting(table: Table, start: Vec<u8>) -> Self {
        Self { table, start, pairs: Vec::new(), bytes: 0 }
    }

    /// Writes a batch that replaces the content of the piece up to `end` with its pairs. Returns the next piece.
    fn write(self, rocks: &RocksEngine, end: Vec<u8>) -> Result<Self> {
        let range = KeyRange::between(self.start, end.clone());
        assert!(self.pairs.iter().all(|(key, _)| range.contains(key)), "all pairs lie in the range that is deleted");
        let mut batch = Batch::new();
        batch.delete_range(self.table, &range.start, &end);
        for (key, value) in &self.pairs {
            batch.put(self.table, key, value);
        }
        rocks.write(&batch)?;
        Ok(Self::starting(self.table, end))
    }
}

/// Returns the first key from which a range whose start is unreadable can be read again, or `None` if there is none.
///
/// The engine does not reveal where its blocks begin, so this function probes keys in between. Several damaged blocks
/// may have intact ones between them. An intact stretch that is much smaller than the damage before it may be missed.
fn first_readable(rocks: &RocksEngine, table: Table, gap: &KeyRange) -> Result<Option<Vec<u8>>> {
    let end = gap.end.as_ref().expect("the range of a file has an end");
    let is_readable = |key: &[u8]| is_readable(rocks, table, &KeyRange::between(key, end.clone()));
    // Bisect towards the start: `good` is the last readable key found, and `bad` an unreadable key before it.
    let mut good = end.clone();
    let mut bad = gap.start.clone();
    let mut near = end.clone();
    while let Some(key) = middle(&gap.start, &near) {
        if is_readable(&key)? {
            good = key.clone();
            bad = gap.start.clone();
        } else if bad == gap.start {
            bad.clone_from(&key);
        }
        near = key;
    }
    loop {
        while let Some(key) = middle(&bad, &good) {
            if is_readable(&key)? { good = key } else { bad = key }
        }
        // There may be more readable keys before it.
        let Some((found, before)) = readable_between(&gap.start, &good, &is_readable)? else { break };
        good = found;
        bad = before;
    }
    Ok((good < *end).then_some(good))
}

/// Probes keys that divide a range evenly, beginning at the start. Returns the first readable key and the probe before
/// it.
fn readable_between(
    start: &[u8],
    end: &[u8],
    is_readable: &dyn Fn(&[u8]) -> Result<bool>,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut keys = vec![start.to_vec(), end.to_vec()];
    while keys.len() < SALVAGE_PROBES {
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

/// Returns `true` if a scan of a range begins without damage.
fn is_readable(rocks: &RocksEngine, table: Table, range: &KeyRange) -> Result<bool> {
    match rocks.scan(table, range, Direction::Forward)?.next() {
        Ok(_) => Ok(true),
        Err(Error::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the key halfway between two keys, interpreted as fractions of equal length. Returns `None` if they are
/// adjacent.
fn middle(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let length = low.len().max(high.len());
    let digit = |key: &[u8], place: usize| u16::from(key.get(place).copied().unwrap_or(0));
    let mut sum = vec![0_u16; length];
    let mut carry = 0;
    for place in (0..length).rev() {
        let total = digit(low, place) + digit(high, place) + carry;
        sum[place] = total & 0xFF;
        carry = total >> 8;
    }
    let mut half = Vec::with_capacity(length);
    for digit in sum {
        let total = carry << 8 | digit;
        half.push((total >> 1) as u8);
        carry = total & 1;
    }
    (half.as_slice() > low && half.as_slice() < high && digits_differ(&half, low)).then_some(half)
}

/// Returns `true` if two keys differ in more than trailing zero bytes.
fn digits_differ(one: &[u8], other: &[u8]) -> bool {
    let trimmed = |key: &[u8]| key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    one[..trimmed(one)] != other[..trimmed(other)]
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn middle_lies_strictly_between_its_bounds() {
        let check = |low: &[u8], high: &[u8], expected: Option<&[u8]>| {
            assert_eq!(middle(low, high).as_deref(), expected, "{low:?} {high:?}");
        };
        check(&[0], &[10], Some(&[5]));
        check(&[1, 0], &[1, 1], None);
        check(&[1], &[1, 0], None);
        check(&[1], &[1, 2], Some(&[1, 1]));
        check(&[0, 255], &[2, 1], Some(&[1, 128]));
        check(&[255, 254], &[255, 255, 255], Some(&[255, 254, 255]));
        let mut low = vec![0; 8];
        let mut steps = 0;
        while let Some(next) = middle(&low, &[255; 8]) {
            low = next;
            steps += 1;
        }
        assert!((60..70).contains(&steps), "{steps}");
    }
}
