//! Free space of the disks that the store writes to.
//!
//! If the disk becomes full in the middle of a flush, the engine refuses writes for some seconds after there is space
//! again; if it becomes full in the middle of a write to the log, until a restart. So the store refuses writes while
//! some space is left ([`super::StoreOptions::reserve_bytes`]) for flushes, compactions and the operator. The free
//! space is queried before every write, because other programs may fill the disk at any moment. A query takes a third
//! of a microsecond.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A monitor of the free space of one or two folders.
pub(super) struct DiskSpaceMonitor {
    folder: PathBuf,
    logs: PathBuf,
    reserve_bytes: u64,
}

impl DiskSpaceMonitor {
    /// Creates a monitor of the folder of the store and that of its log, which may be the same.
    pub(super) fn new(folder: &Path, logs: &Path, reserve_bytes: u64) -> Self {
        Self { folder: folder.to_path_buf(), logs: logs.to_path_buf(), reserve_bytes }
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        let logs = (self.logs != self.folder).then_some(self.logs.as_path());
        std::iter::once(self.folder.as_path()).chain(logs)
    }

    /// Queries whether the given number of bytes can be written without touching the reserve.
    pub(super) fn check_space(&self, bytes: u64) -> Result<()> {
        let short = self.folders().find(|folder| free_bytes(folder) < self.reserve_bytes.saturating_add(bytes));
        short.map_or(Ok(()), |folder| Err(self.refusal(folder)))
    }

    /// Queries whether the given number of bytes can be written into sorted files. They may use the reserve.
    pub(super) fn check_flush(&self, bytes: u64) -> Result<()> {
        let free = free_bytes(&self.folder);
        if free >= bytes {
            return Ok(());
        }
        let folder = self.folder.display();
        Err(Error::Full(format!("{} MiB are free in {folder}, and {} MiB may be needed", free >> 20, bytes >> 20)))
    }

    /// Returns the free space of the folder with the least, in bytes.
    pub(super) fn free_bytes(&self) -> u64 {
        self.folders().map(free_bytes).min().unwrap_or(0)
    }

    /// Returns the total size of the log files in bytes.
    pub(super) fn log_bytes(&self) -> u64 {
        let Ok(entries) = std::fs::read_dir(&self.logs) else { return 0 };
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
        let logs = tempfile::tempdir().expect("a temporary folder");
        for logs in [folder.path(), logs.path()] {
            let plenty = DiskSpaceMonitor::new(folder.path(), logs, 0);
            assert!(plenty.check_space(10).is_ok() && plenty.check_flush(10).is_ok());
            assert!(matches!(plenty.check_space(u64::MAX), Err(Error::Full(_))), "no disk is so large");
            assert!(matches!(plenty.check_flush(u64::MAX), Err(Error::Full(_))), "no disk is so large");
            assert!(plenty.free_bytes() > 0);
            let none = DiskSpaceMonitor::new(folder.path(), logs, u64::MAX);
            assert!(matches!(none.check_space(1), Err(Error::Full(_))));
            assert!(none.check_flush(1).is_ok(), "a flush may use the reserve");
        }
    }
}
