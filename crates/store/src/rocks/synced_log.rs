//! The record of how far the log is synced: the file `synced-log`.
//!
//! A log whose end is missing looks like a log that was never longer, because the sync markers of its batches stand
//! before the cut. So each sync writes a [`SyncMark`] into this file: the number of the youngest log and a length up to
//! which its content is synced. The next start compares the log with it ([`super::log::examine`]).
//!
//! - The length is measured before the sync that covers it, and written after that sync has succeeded and before the
//!   changes are acknowledged. So it never exceeds the durable content.
//! - The file itself is not synced, because that would cost a second sync per group. The mark is exact after the
//!   process was killed. After a power failure it may be an older mark, which is a lower bound.
//! - There are two slots, each in a sector of its own, which are written in turn. A write that a power failure
//!   interrupts leaves the other slot. The valid slot with the greater counter holds the mark.
//!
//! A file without a valid slot counts as missing: the mark protects less, and its damage loses no data.

use std::fs::{File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

use base::codec::{Decoder, Encoder, InvalidRecord};

use super::checksum::crc32c;

/// Name of the file.
pub(super) const SYNCED_LOG_FILE: &str = "synced-log";

const MAGIC: [u8; 4] = *b"dsyn";
const CHECKSUM_BYTES: usize = 4;
/// Size of a record: magic bytes, counter, log number, length and checksum.
const RECORD_BYTES: usize = MAGIC.len() + 3 * size_of::<u64>() + CHECKSUM_BYTES;
const SLOTS: u64 = 2;
/// Distance between the slots: the smallest unit that disks write.
const SLOT_BYTES: u64 = 512;

/// A place in the log up to which everything is synced. Marks are ordered by their places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SyncMark {
    /// Number of the log.
    pub(super) log: u64,
    /// Number of synced bytes at the start of this log.
    pub(super) length: u64,
}

/// Returns the mark in a folder, or `None` if there is no valid one.
pub(super) fn read_mark(folder: &Path) -> Option<SyncMark> {
    let file = File::open(folder.join(SYNCED_LOG_FILE)).ok()?;
    newest(&file).map(|(_, mark)| mark)
}

/// The open file of the mark.
pub(super) struct SyncedLog {
    file: File,
    /// Counter of the last record.
    counter: u64,
    written: SyncMark,
}

impl SyncedLog {
    /// Opens or creates the file in a folder, and writes a mark that replaces any other.
    pub(super) fn start(folder: &Path, mark: SyncMark) -> Result<Self> {
        let path = folder.join(SYNCED_LOG_FILE);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let counter = newest(&file).map_or(0, |(counter, _)| counter);
        let mut synced = Self { file, counter, written: mark };
        synced.write(mark)?;
        Ok(synced)
    }

    /// Writes a mark, unless the file has this mark or a later one.
    pub(super) fn advance(&mut self, mark: SyncMark) -> Result<()> {
        if mark <= self.written { Ok(()) } else { self.write(mark) }
    }

    /// Returns the time of the last write.
    pub(super) fn modified(&self) -> Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    fn write(&mut self, mark: SyncMark) -> Result<()> {
        let counter = self.counter.saturating_add(1);
        // If the write fails, the next one uses the same slot again, so that the other one stays valid.
        self.file.write_all_at(&encode(counter, mark), counter % SLOTS * SLOT_BYTES)?;
        self.counter = counter;
        self.written = mark;
        Ok(())
    }
}

/// Returns the record with the greatest counter.
fn newest(file: &File) -> Option<(u64, SyncMark)> {
    let slots = (0..SLOTS).filter_map(|slot| {
        let mut record = [0; RECORD_BYTES];
        file.read_exact_at(&mut record, slot * SLOT_BYTES).ok()?;
        decode(&record).ok()
    });
    slots.max_by_key(|(counter, _)| *counter)
}

fn encode(counter: u64, mark: SyncMark) -> Vec<u8> {
    let mut record = Encoder::with_capacity(RECORD_BYTES);
    record.raw(&MAGIC).u64(counter).u64(mark.log).u64(mark.length);
    let mut bytes = record.finish();
    bytes.extend_from_slice(&crc32c(0, &bytes).to_be_bytes());
    assert_eq!(bytes.len(), RECORD_BYTES, "a record has a fixed size");
    bytes
}

fn decode(record: &[u8; RECORD_BYTES]) -> std::result::Result<(u64, SyncMark), InvalidRecord> {
    let mut input = Decoder::new(record);
    let content = input.raw(RECORD_BYTES - CHECKSUM_BYTES)?;
    let is_sound = input.u32()? == crc32c(0, content) && content.starts_with(&MAGIC);
    if !is_sound {
        return Err(InvalidRecord);
    }
    let mut fields = Decoder::new(&content[MAGIC.len()..]);
    let counter = fields.u64()?;
    let mark = SyncMark { log: fields.u64()?, length: fields.u64()? };
    Ok((counter, mark))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const OLD: SyncMark = SyncMark { log: 7, length: 100 };
    const NEW: SyncMark = SyncMark { log: 7, length: 200 };

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[test]
    fn marks_advance_and_do_not_return() {
        let folder = folder();
        assert_eq!(read_mark(folder.path()), None);
        let mut synced = SyncedLog::start(folder.path(), OLD).expect("written");
        for (mark, expected) in [
            (NEW, NEW),
            (OLD, NEW),
            (SyncMark { log: 6, length: 900 }, NEW),
            (SyncMark { log: 8, length: 0 }, SyncMark { log: 8, length: 0 }),
        ] {
            synced.advance(mark).expect("written");
            assert_eq!(read_mark(folder.path()), Some(expected));
        }
        SyncedLog::start(folder.path(), OLD).expect("written");
        assert_eq!(read_mark(folder.path()), Some(OLD), "a start replaces a later mark");
    }

    #[test]
    fn one_garbled_slot_leaves_the_other() {
        // The first write goes to the second slot, and the second write to the first one.
        for (garbled, expected) in [(0, Some(OLD)), (512, Some(NEW))] {
            let folder = folder();
            let mut synced = SyncedLog::start(folder.path(), OLD).expect("written");
            synced.advance(NEW).expect("written");
            let path = folder.path().join(SYNCED_LOG_FILE);
            let sound = fs::read(&path).expect("read");
            assert_eq!(sound.len(), 512 + RECORD_BYTES);
            for place in 0..RECORD_BYTES {
                let mut bytes = sound.clone();
                bytes[garbled + place] ^= 4;
                fs::write(&path, bytes).expect("written");
                assert_eq!(read_mark(folder.path()), expected, "byte {place} of the slot at {garbled}");
            }
        }
    }

    #[test]
    fn garbled_file_counts_as_missing_and_is_repaired() {
        for garbage in [&b""[..], b"7", &[0; 2_000], &[0xFF; 2_000]] {
            let folder = folder();
            fs::write(folder.path().join(SYNCED_LOG_FILE), garbage).expect("written");
            assert_eq!(read_mark(folder.path()), None);
            SyncedLog::start(folder.path(), OLD).expect("written");
            assert_eq!(read_mark(folder.path()), Some(OLD));
        }
    }
}
