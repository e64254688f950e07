//! Free space of the disks that the store writes to.
//!
//! If the disk becomes full in the middle of a flush, the engine stops until space is available again, and can do
//! little meanwhile. So the store refuses writes while some space is left ([`super::StoreOptions::reserve_bytes`]) for
//! flushes, compactions and the operator. A query of the free space takes about a microsecond. It is made once per
//! [`limits::SPACE_CHECK_BYTES`] written, and before every write while space is short.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::limits;

/// A monitor of the free space of one or two folders.
pub(super) struct DiskSpaceMonitor {
    folders: Vec<PathBuf>,
    reserve_bytes: u64,
    /// Number of bytes written since the last query of the free space. Starts at `u64::MAX`, so that the first write
    /// makes a query. It cannot overflow, because it is reset at [`limits::SPACE_CHECK_BYTES`].
    unchecked: AtomicU64,
    short: AtomicBool,
}

impl DiskSpaceMonitor {
    /// Creates a monitor. The last folder is that of the log.
    pub(super) fn new(folders: &[&Path], reserve_bytes: u64) -> Self {
        let folders = folders.iter().map(|folder| folder.to_path_buf()).collect();
        Self { folders, reserve_bytes, unchecked: AtomicU64::new(u64::MAX), short: AtomicBool::new(false) }
    }

    /// Returns [`Error::Full`] if a write of this size would touch the reserve.
    pub(super) fn check_write(&self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        let unchecked = self.unchecked.load(Ordering::Relaxed).saturating_add(bytes);
        if unchecked < limits::SPACE_CHECK_BYTES && !self.short.load(Ordering::Relaxed) {
            self.unchecked.fetch_add(bytes, Ordering::Relaxed);
            return Ok(());
        }
        self.unchecked.store(0, Ordering::Relaxed);
        let checked = self.check_space(bytes);
        self.short.store(checked.is_err(), Ordering::Relaxed);
        checked
    }

    /// Queries whether the given number of bytes can be written without touching the reserve.
    pub(super) fn check_space(&self, bytes: u64) -> Result<()> {
        let short = self.folders.iter().find(|folder| free_bytes(folder) < self.reserve_bytes.saturating_add(bytes));
        short.map_or(Ok(()), |folder| Err(self.refusal(folder)))
    }

    /// Returns the free space of the folder with the least, in bytes.
    pub(super) fn free_bytes(&self) -> u64 {
        self.folders.iter().map(|folder| free_bytes(folder)).min().unwrap_or(0)
    }

    /// Returns the total size of the log files in bytes.
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
        Error::Full(format!("{free} MiB are free in {}, {reserve} MiB are kept in reserve", folder.display()))
    }
}

/// Returns the free space of a file system in bytes, or `u64::MAX` if the query fails.
fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |answer| answer.f_bavail.saturating_mul(answer.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_refused_when_the_reserve_is_touched() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plenty = DiskSpaceMonitor::new(&[folder.path()], 0);
        assert!(plenty.check_write(10).is_ok() && plenty.check_space(10).is_ok());
        assert!(matches!(plenty.check_space(u64::MAX), Err(Error::Full(_))), "no disk is so large");
        assert!(plenty.free_bytes() > 0);
        let none = DiskSpaceMonitor::new(&[folder.path()], u64::MAX);
        for _ in 0..3 {
            assert!(matches!(none.check_write(1), Err(Error::Full(_))), "writes stay refused while space is short");
        }
    }
}
