//! Free space of the disks that the store writes to.
//!
//! An engine that runs into a full disk in the middle of a flush stops until there is room again, and what it can still do then is little. So
//! the store refuses writes while there is some room left ([`super::Options::reserve_bytes`]), for flushes, compactions and
//! the operator. Asking the system takes about a microsecond, so it is asked once per
//! [`limits::SPACE_CHECK_BYTES`] written, and before every write while the room is short.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::limits;

/// Watches the free space of one or two folders.
pub(super) struct Space {
    folders: Vec<PathBuf>,
    reserve_bytes: u64,
    /// Bytes that may be written before the system is asked again; wraps below zero never, because it is reset.
    unchecked: AtomicU64,
    short: AtomicBool,
}

impl Space {
    /// Starts to watch; the last folder is the log's.
    pub(super) fn new(folders: &[&Path], reserve_bytes: u64) -> Self {
        let folders = folders.iter().map(|folder| folder.to_path_buf()).collect();
        Self { folders, reserve_bytes, unchecked: AtomicU64::new(u64::MAX), short: AtomicBool::new(false) }
    }

    /// Refuses when there is no room to write.
    pub(super) fn take(&self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        let unchecked = self.unchecked.load(Ordering::Relaxed).saturating_add(bytes);
        if unchecked < limits::SPACE_CHECK_BYTES && !self.short.load(Ordering::Relaxed) {
            self.unchecked.fetch_add(bytes, Ordering::Relaxed);
            return Ok(());
        }
        self.unchecked.store(0, Ordering::Relaxed);
        let room = self.room(bytes);
        self.short.store(room.is_err(), Ordering::Relaxed);
        room
    }

    /// Asks the system whether there is room to write so much.
    pub(super) fn room(&self, bytes: u64) -> Result<()> {
        let short = self.folders.iter().find(|folder| free_bytes(folder) < self.reserve_bytes.saturating_add(bytes));
        short.map_or(Ok(()), |folder| Err(self.refusal(folder)))
    }

    /// Gives the free bytes of the tightest folder.
    pub(super) fn free_bytes(&self) -> u64 {
        self.folders.iter().map(|folder| free_bytes(folder)).min().unwrap_or(0)
    }

    /// Gives the bytes of the log files.
    pub(super) fn log_bytes(&self) -> u64 {
        let Some(entries) = self.folders.last().and_then(|folder| std::fs::read_dir(folder).ok()) else {
            return 0;
        };
        let logs = entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "log"));
        logs.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    fn refusal(&self, folder: &Path) -> Error {
        let free = free_bytes(folder) >> 20;
        let reserve = self.reserve_bytes >> 20;
        Error::Full(format!("{free} MiB are free in {}, of which {reserve} MiB are kept in reserve", folder.display()))
    }
}

/// Gives the free bytes of a file system; when it does not tell, there is room.
fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |answer| answer.f_bavail.saturating_mul(answer.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_refused_when_the_reserve_is_touched() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plenty = Space::new(&[folder.path()], 0);
        assert!(plenty.take(10).is_ok() && plenty.room(10).is_ok());
        assert!(matches!(plenty.room(u64::MAX), Err(Error::Full(_))), "no disk is so large");
        assert!(plenty.free_bytes() > 0);
        let none = Space::new(&[folder.path()], u64::MAX);
        for _ in 0..3 {
            assert!(matches!(none.take(1), Err(Error::Full(_))), "it stays refused while the room is short");
        }
    }
}
