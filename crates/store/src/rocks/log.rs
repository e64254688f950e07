//! Examination of the write-ahead log before the engine opens it, to distinguish a torn tail from damage.
//!
//! After a power failure the end of the log may be missing or garbled. That is normal: nothing in it was acknowledged,
//! and the engine drops it. But the engine also silently drops everything after a garbled place in the *middle* of the
//! log, whether acknowledged or not, and accepts a log whose end was cut off later. Two records prove that acknowledged
//! changes are lost:
//!
//! - Every batch begins with a *sync marker*: the engine's sequence number up to which the log was synced when the
//!   batch was written. An intact batch after the damage whose sync marker reaches into the damage proves the loss.
//!   This needs no other file than the log, but does not cover the last synced group of batches.
//! - The *sync mark* ([`SyncMark`]) beside the store states up to which byte the youngest log was synced. A log that
//!   ends or is damaged before that byte proves the loss.
//!
//! Such a store is not opened unless the operator asks for it ([`super::DamagedLog::DropTail`]).
//!
//! The format of the log is RocksDB's: blocks of 32 KiB; records of checksum (4), length (2), type (1) and payload,
//! split at block ends into first, middle and last pieces. The payload is a batch: sequence (8), count (4), operations,
//! little-endian.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::checksum::crc32c;
use super::synced_log::SyncMark;
use crate::error::{Error, Result};

pub(super) const BLOCK_BYTES: usize = 32 << 10;
pub(super) const HEADER_BYTES: usize = 7;
pub(super) const FULL: u8 = 1;
pub(super) const FIRST: u8 = 2;
pub(super) const MIDDLE: u8 = 3;
pub(super) const LAST: u8 = 4;
/// Size of the sequence number and count at the start of a batch.
const BATCH_HEADER_BYTES: usize = 12;
/// Tag of the operation that carries data only for the log.
const LOG_DATA: u8 = 3;
/// Magic bytes at the start of a sync marker.
const SYNC_MARKER_MAGIC: [u8; 4] = *b"dvou";
const SYNC_MARKER_BYTES: usize = 12;
/// Size of the part at the start of a batch that contains the sync marker.
const BATCH_START_BYTES: usize = BATCH_HEADER_BYTES + 2 + SYNC_MARKER_BYTES;

/// Returns the sync marker that a batch begins with.
pub(super) fn sync_marker(synced: u64) -> [u8; SYNC_MARKER_BYTES] {
    let mut bytes = [0; SYNC_MARKER_BYTES];
    bytes[..4].copy_from_slice(&SYNC_MARKER_MAGIC);
    bytes[4..].copy_from_slice(&synced.to_be_bytes());
    bytes
}

/// The result of examining the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct LogCondition {
    /// Whether anything follows the intact batches.
    pub(super) is_torn: bool,
    /// The proof that synced changes are lost, if there is one.
    pub(super) loss: Option<LogLoss>,
}

/// A proved loss of synced changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LogLoss {
    /// The log is damaged at a place up to which it was synced.
    Damaged(LogPosition),
    /// The log ends before a place up to which it was synced.
    Short {
        /// The end of the log.
        end: LogPosition,
        /// Number of bytes that were synced.
        synced: u64,
    },
}

/// A position in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LogPosition {
    pub(super) file: PathBuf,
    pub(super) offset: u64,
}

/// Reads and examines the whole log. `mark` states how far it was synced, if that is known.
pub(super) fn examine(folder: &Path, mark: Option<SyncMark>) -> Result<LogCondition> {
    let mut scanner = LogScanner::default();
    let mut loss = None;
    for file in log_files(folder)? {
        let mut input = File::open(&file).map_err(|error| unusable(&file, &error))?;
        let extent = scanner.scan_file(&file, &mut input)?;
        // Without its log, the mark proves nothing: the engine deletes a log once all its changes are in sorted files.
        // That the youngest log exists is checked by its number (`placement`).
        if let Some(mark) = mark.filter(|mark| log_number(&file) == Some(mark.log)) {
            loss = extent.loss(&file, mark.length);
        }
    }
    if loss.is_none() && scanner.is_loss_proved {
        loss = scanner.damage.clone().map(LogLoss::Damaged);
    }
    Ok(LogCondition { is_torn: scanner.damage.is_some(), loss })
}

impl From<LogLoss> for Error {
    fn from(loss: LogLoss) -> Self {
        let advice = "restore a backup, or set store.damaged_log = \"drop-tail\" to start without them";
        let (path, reason) = match loss {
            LogLoss::Damaged(LogPosition { file, offset }) => (
                file,
                format!("this log is damaged at byte {offset}, and acknowledged changes after it are lost; {advice}"),
            ),
            LogLoss::Short { end: LogPosition { file, offset }, synced } => (
                file,
                format!(
                    "this log ends at byte {offset}, but was synced to byte {synced}, so acknowledged changes are missing; \
                     bring the complete file back, else {advice}"
                ),
            ),
        };
        Self::Unusable { path, reason }
    }
}

/// The extent of one log file.
struct LogExtent {
    length: u64,
    damage: Option<FileDamage>,
}

/// The first damage in one log file.
struct FileDamage {
    offset: u64,
    /// End of the intact batches before it.
    intact: u64,
}

impl LogExtent {
    /// Returns the loss if the file is not intact up to `synced`.
    ///
    /// This is no false alarm after a kill or a power failure, because every batch that begins before `synced` was
    /// written and synced completely. The length is measured before the sync that covers it, so all bytes before it are
    /// durable, and so is the length itself. It may lie within a batch: a batch that is longer than the engine's buffer
    /// reaches the file in parts. But the sync writes the buffer first, under the lock that the writer of a batch holds
    /// until the batch is complete. So the sync also covers the rest of that batch, or fails, and then no mark is
    /// written. If the engine begins another log meanwhile, it writes the buffer of this one first, and syncs it before
    /// its changes are in sorted files, because there are several tables. The length does not include the space that
    /// the engine reserves for the file (`FALLOC_FL_KEEP_SIZE`).
    fn loss(&self, file: &Path, synced: u64) -> Option<LogLoss> {
        let position = |offset| LogPosition { file: file.to_path_buf(), offset };
        if self.length < synced {
            return Some(LogLoss::Short { end: position(self.length), synced });
        }
        let damage = self.damage.as_ref().filter(|damage| damage.intact < synced)?;
        Some(LogLoss::Damaged(position(damage.offset)))
    }
}

/// A batch that is being assembled from pieces.
struct PartialBatch {
    /// Offset of its first piece.
    at: u64,
    /// Its first bytes, which contain the sync marker.
    start: Vec<u8>,
}

#[derive(Default)]
struct LogScanner {
    batches: u64,
    /// Sequence number of the last intact change before the damage.
    last: Option<u64>,
    damage: Option<LogPosition>,
    is_loss_proved: bool,
    batch: Option<PartialBatch>,
    /// The first damage in the current file.
    file_damage: Option<FileDamage>,
}

impl LogScanner {
    fn scan_file(&mut self, path: &Path, input: &mut dyn Read) -> Result<LogExtent> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut offset = 0;
        loop {
            let length = read_block(path, input, &mut block)?;
            self.scan_block(path, offset, &block[..length]);
            offset += length as u64;
            if length < BLOCK_BYTES {
                break;
            }
        }
        if self.batch.is_some() {
            self.record_damage(path, offset);
        }
        Ok(LogExtent { length: offset, damage: self.file_damage.take() })
    }

    fn scan_block(&mut self, path: &Path, offset: u64, block: &[u8]) {
        let mut rest = block;
        while rest.len() >= HEADER_BYTES {
            let at = offset + (block.len() - rest.len()) as u64;
            let Some((kind, payload)) = parse_record(rest) else {
                return self.record_damage(path, at);
            };
            self.scan_piece(path, at, kind, payload);
            rest = &rest[HEADER_BYTES + payload.len()..];
        }
        let is_end = block.len() < BLOCK_BYTES;
        if is_end && !rest.is_empty() {
            self.record_damage(path, offset + (block.len() - rest.len()) as u64);
        }
    }

    fn scan_piece(&mut self, path: &Path, at: u64, kind: u8, payload: &[u8]) {
        let start = &payload[..payload.len().min(BATCH_START_BYTES)];
        match (kind, self.batch.take()) {
            (FULL, None) => self.end_batch(path, at, start),
            (FIRST, None) => self.batch = Some(PartialBatch { at, start: start.to_vec() }),
            (MIDDLE | LAST, Some(mut batch)) => {
                let wanted = BATCH_START_BYTES.saturating_sub(batch.start.len()).min(start.len());
                batch.start.extend_from_slice(&start[..wanted]);
                if kind == LAST {
                    self.end_batch(path, batch.at, &batch.start);
                } else {
                    self.batch = Some(batch);
                }
            }
            // A later piece of a batch whose start is damaged.
            (MIDDLE | LAST, None) => self.record_damage(path, at),
            (FULL | FIRST, Some(incomplete)) => {
                self.batch = Some(incomplete);
                self.record_damage(path, at);
                self.scan_piece(path, at, kind, payload);
            }
            // A record of another type, which the store does not write.
            (_, batch) => self.batch = batch,
        }
    }

    fn end_batch(&mut self, path: &Path, at: u64, batch: &[u8]) {
        let Some((sequence, count, synced)) = parse_batch_start(batch) else {
            return self.record_damage(path, at);
        };
        if self.damage.is_some() && self.last.is_some_and(|last| sequence == last.saturating_add(1)) {
            // An earlier recovery has dropped the content after the damage, and the log continues from there.
            self.damage = None;
            self.is_loss_proved = false;
        }
        if self.damage.is_none() {
            self.batches += 1;
            self.last = Some(sequence.saturating_add(count).saturating_sub(1));
            return;
        }
        let lost = self.last.map_or(sequence.saturating_sub(1), |last| last.saturating_add(1));
        self.is_loss_proved |= synced.is_some_and(|synced| synced >= lost);
    }

    fn record_damage(&mut self, path: &Path, offset: u64) {
        let intact = self.batch.take().map_or(offset, |batch| batch.at);
        self.file_damage.get_or_insert(FileDamage { offset, intact });
        self.damage.get_or_insert_with(|| LogPosition { file: path.to_path_buf(), offset });
    }
}

/// Parses the record at the start of a block. Returns `None` if it is damaged.
pub(super) fn parse_record(block: &[u8]) -> Option<(u8, &[u8])> {
    let (header, rest) = block.split_first_chunk::<HEADER_BYTES>()?;
    let [c0, c1, c2, c3, l0, l1, kind] = *header;
    let payload = rest.get(..usize::from(u16::from_le_bytes([l0, l1])))?;
    let is_padding = kind == 0 && payload.is_empty();
    let sound = unmask(u32::from_le_bytes([c0, c1, c2, c3])) == crc32c(crc32c(0, &[kind]), payload);
    (sound && !is_padding).then_some((kind, payload))
}

/// Returns a record in the format that [`parse_record`] parses. It must fit into the rest of its block.
pub(super) fn encode_record(kind: u8, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() <= BLOCK_BYTES - HEADER_BYTES, "a record fits into one block");
    let crc = crc32c(crc32c(0, &[kind]), payload);
    let masked = crc.rotate_right(15).wrapping_add(0xA282_EAD8);
    let mut bytes = masked.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the sequence number of a batch, its number of changes, and the sequence number in its sync marker. Returns
/// `None` if the batch is too short.
fn parse_batch_start(batch: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let (sequence, rest) = batch.split_first_chunk::<8>()?;
    let (count, operations) = rest.split_first_chunk::<4>()?;
    let synced = operations
        .strip_prefix(&[LOG_DATA, SYNC_MARKER_BYTES as u8])
        .and_then(|data| data.strip_prefix(&SYNC_MARKER_MAGIC))
        .and_then(|synced| synced.first_chunk::<8>())
        .map(|synced| u64::from_be_bytes(*synced));
    Some((u64::from_le_bytes(*sequence), u64::from(u32::from_le_bytes(*count)), synced))
}

/// Returns the number of a log file, which is its name.
pub(super) fn log_number(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?;
    name.strip_suffix(".log")?.parse().ok()
}

/// Returns the log files, oldest first.
pub(super) fn log_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unusable(folder, &error))? {
        let path = entry.map_err(|error| unusable(folder, &error))?.path();
        if let Some(number) = log_number(&path) {
            files.push((number, path));
        }
    }
    files.sort_unstable();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn read_block(path: &Path, input: &mut dyn Read, block: &mut [u8]) -> Result<usize> {
    let mut length = 0;
    while length < block.len() {
        match input.read(&mut block[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unusable(path, &error)),
        }
    }
    Ok(length)
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::Unusable { path: path.to_path_buf(), reason: error.to_string() }
}

/// Reverses the masking that RocksDB applies to stored checksums.
fn unmask(masked: u32) -> u32 {
    let rotated = masked.wrapping_sub(0xA282_EAD8);
    rotated.rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(sequence: u64, synced: u64) -> Vec<u8> {
        let mut bytes = sequence.to_le_bytes().to_vec();
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&[LOG_DATA, SYNC_MARKER_BYTES as u8]);
        bytes.extend_from_slice(&sync_marker(synced));
        bytes.extend_from_slice(b"operations");
        bytes
    }

    /// Examines files, each given as a list of records. `Err` means a record with a wrong byte.
    fn check(files: &[&[std::result::Result<Vec<u8>, Vec<u8>>]], batches: u64, is_torn: bool, is_loss_proved: bool) {
        let mut examination = LogScanner::default();
        for records in files {
            let mut bytes = Vec::new();
            for each in *records {
                match each {
                    Ok(record) => bytes.extend_from_slice(record),
                    Err(record) => {
                        bytes.extend_from_slice(record);
                        *bytes.last_mut().expect("a record is not empty") ^= 1;
                        // The rest of the block is unusable, so the search for records continues at the next block.
                        bytes.resize(BLOCK_BYTES, 0);
                    }
                }
            }
            examination.scan_file(Path::new("x"), &mut bytes.as_slice()).expect("no input fails");
        }
        assert_eq!(examination.batches, batches);
        assert_eq!(examination.damage.is_some(), is_torn);
        assert_eq!(examination.is_loss_proved, is_loss_proved);
    }

    fn full(sequence: u64, synced: u64) -> Vec<u8> {
        encode_record(FULL, &batch(sequence, synced))
    }

    #[test]
    fn torn_tail_is_distinguished_from_damage() {
        let cut = |bytes: Vec<u8>| bytes[..bytes.len() - 3].to_vec();
        check(&[&[]], 0, false, false);
        check(&[&[Ok(full(1, 0)), Ok(full(2, 1))]], 2, false, false);
        check(&[&[Ok(full(1, 0)), Ok(cut(full(2, 1)))]], 1, true, false);
        check(&[&[Ok(full(1, 0)), Ok(vec![0; 100])]], 1, true, false);
        check(&[&[Ok(full(1, 0)), Err(full(2, 1))]], 1, true, false);
        // The sync marker after the damage covers only the intact batch.
        check(&[&[Ok(full(1, 0)), Err(full(2, 1)), Ok(full(3, 1))]], 1, true, false);
        // The sync marker after the damage covers the damaged batch.
        check(&[&[Ok(full(1, 0)), Err(full(2, 1)), Ok(full(3, 2))]], 1, true, true);
        check(&[&[Ok(full(1, 0)), Err(full(2, 1))], &[Ok(full(3, 1)), Ok(full(4, 3))]], 1, true, true);
        // There is no intact batch before the damage.
        check(&[&[Err(full(5, 1)), Ok(full(6, 3))]], 0, true, false);
        check(&[&[Err(full(5, 1)), Ok(full(6, 3)), Ok(full(7, 6))]], 0, true, true);
    }

    /// Returns the loss that a sync mark proves in a file.
    fn loss(mut bytes: &[u8], synced: u64) -> Option<LogLoss> {
        let file = Path::new("x");
        let extent = LogScanner::default().scan_file(file, &mut bytes).expect("no input fails");
        extent.loss(file, synced)
    }

    #[test]
    fn loss_before_the_sync_mark_is_detected() {
        let whole = [full(1, 0), full(2, 1), full(3, 2)].concat();
        let each = full(1, 0).len() as u64;
        let position = |offset| LogPosition { file: "x".into(), offset };
        for synced in [0, 1, each, each + 1, 2 * each, 3 * each] {
            assert_eq!(loss(&whole, synced), None);
            for length in 0..=whole.len() {
                let end = length as u64;
                let intact = end / each * each;
                let expected = if end < synced {
                    Some(LogLoss::Short { end: position(end), synced })
                } else {
                    (intact < synced).then(|| LogLoss::Damaged(position(intact)))
                };
                assert_eq!(loss(&whole[..length], synced), expected, "{length} {synced}");
            }
            let mut flipped = whole.clone();
            flipped[each as usize + 20] ^= 1;
            let expected = (each < synced).then(|| LogLoss::Damaged(position(each)));
            assert_eq!(loss(&flipped, synced), expected, "{synced}");
        }
    }

    #[test]
    fn batch_across_the_sync_mark_must_be_complete() {
        let before = full(1, 0);
        let batch = batch(2, 1);
        let pieces = [encode_record(FIRST, &batch[..9]), encode_record(LAST, &batch[9..])].concat();
        let bytes = [before.clone(), pieces].concat();
        let start = before.len() as u64;
        let inside = start + 8;
        assert_eq!(loss(&bytes, inside), None);
        let cut = &bytes[..bytes.len() - 1];
        assert!(matches!(loss(cut, inside), Some(LogLoss::Damaged(_))));
        assert_eq!(loss(cut, start), None, "the batch was not synced");
    }

    #[test]
    fn tail_dropped_earlier_is_not_damage() {
        let dropped = [Ok(full(1, 0)), Err(full(2, 1)), Ok(full(3, 1))];
        check(&[&dropped, &[Ok(full(2, 1)), Ok(full(3, 2))]], 3, false, false);
    }

    #[test]
    fn fragmented_batch_is_reassembled() {
        let whole = batch(2, 1);
        let pieces = [
            Ok(encode_record(FIRST, &whole[..9])),
            Ok(encode_record(MIDDLE, &whole[9..20])),
            Ok(encode_record(LAST, &whole[20..])),
        ];
        let [first, middle, last] = pieces.clone();
        check(&[&[Ok(full(1, 0)), first.clone(), middle.clone(), last.clone(), Ok(full(3, 2))]], 3, false, false);
        check(&[&[Ok(full(1, 0)), first.clone(), middle.clone()]], 1, true, false);
        check(&[&[Ok(full(1, 0)), first, middle, Ok(full(3, 1))]], 1, true, false);
        check(&[&[Ok(full(1, 0)), last, Ok(full(3, 2))]], 1, true, true);
    }
}
