//! Placement of a store's files, and the checks before the engine opens them.
//!
//! The engine is too tolerant. It opens a store whose log is missing or was moved, without the last changes. It creates
//! a new, empty store if the file `CURRENT` is missing, even if other files are present. So these cases are checked
//! first, and refused with the next step in the message:
//!
//! - A store is created only in an empty folder, and only if the log folder has no log. While it is being created, and
//!   after a restore until it has been opened once, it has a file `unopened`. Only then may its log be missing.
//! - `wal-folder` names the folder of the log if that is not the store's own folder. A log in a place other than the
//!   configured one is refused.
//! - `last-log` holds the number of the youngest log that is known to have existed. If neither this log nor a younger
//!   one is in the log folder, the log is lost: its device is not mounted, or the log was deleted. Such a store is
//!   refused unless the operator asks to continue without the log ([`DamagedLog::DropTail`]).
//! - `synced-log` also holds the length up to which that log is synced ([`super::synced_log`]). The examination of the
//!   log compares it. If one of the two files is garbled, the other one suffices. Both are rewritten at each start.
//!
//! Leftovers of a crash during a backup or an ingestion are removed.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::log::{log_files, log_number};
use super::options::DamagedLog;
use super::synced_log::{SYNCED_LOG_FILE, SyncMark, SyncedLog, read_mark};
use crate::error::{Error, Result};

/// Name of the file with the path of the log folder. It exists only if that is not the store's own folder.
const WAL_FOLDER_FILE: &str = "wal-folder";
/// Name of a sorted file that is being made for ingestion.
pub(super) const INGEST_FILE: &str = "ingest.tmp";
/// Name of the folder with a checkpoint that is being copied into a backup.
pub(crate) const CHECKPOINT_FOLDER: &str = "checkpoint.tmp";

/// Name of the file that leads to the list of sorted files. Without it the engine treats the folder as empty.
pub(crate) const CURRENT_FILE: &str = "CURRENT";
/// Name of the file that marks a store as created or restored but not opened since.
const UNOPENED_FILE: &str = "unopened";
/// Name of the file with the number of the youngest log.
const LAST_LOG_FILE: &str = "last-log";
/// Name of the file with the names of missing files without which the store may be opened.
const KNOWN_MISSING_FILE: &str = "known-missing";
/// Name of the subfolder in which a restore gathers its files.
pub(crate) const RESTORING_FOLDER: &str = "restoring";

/// The condition of the store before the engine opens it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StoreState {
    /// There is no store; the engine may create one.
    New,
    /// There is a store. The mark states how far its log was synced, if that is known.
    Existing(Option<SyncMark>),
}

/// Creates the folders of a new store. Refuses a store that lacks a file and a log in the wrong place.
pub(super) fn prepare(folder: &Path, wal_folder: Option<&Path>, damaged_log: DamagedLog) -> Result<StoreState> {
    make_folder(folder)?;
    let logs = wal_folder.unwrap_or(folder);
    if !exists(&folder.join(CURRENT_FILE)) {
        prepare_new(folder, logs)?;
        return Ok(StoreState::New);
    }
    refuse_log_elsewhere(folder, logs)?;
    let is_opened = !exists(&folder.join(UNOPENED_FILE));
    let mark = read_mark(folder).filter(|_| is_opened);
    if is_opened && damaged_log == DamagedLog::Refuse {
        refuse_missing_log(folder, logs, mark)?;
    }
    make_folder(logs)?;
    Ok(StoreState::Existing(mark))
}

fn prepare_new(folder: &Path, logs: &Path) -> Result<()> {
    let is_broken_off = exists(&folder.join(UNOPENED_FILE));
    let may_be_there = |name: &str| {
        let is_engines = ["LOCK", "LOG", "lost+found", "unopened.new"].contains(&name) || name.starts_with("LOG.old");
        let is_half_made = is_broken_off
            && (["IDENTITY", UNOPENED_FILE].contains(&name)
                || name.ends_with(".dbtmp")
                || ["MANIFEST-", "OPTIONS-"].iter().any(|start| name.starts_with(start)));
        is_engines || is_half_made
    };
    let names = names(folder)?;
    if names.iter().any(|name| name == RESTORING_FOLDER) {
        let reason = "a restore into it was interrupted; empty the folder and restore again";
        return Err(refused(folder, reason.into()));
    }
    if let Some(name) = names.iter().find(|name| !may_be_there(name)) {
        let reason = format!(
            "the folder contains `{name}` but no file `CURRENT`: the store is damaged or the folder holds other files; \
             restore a backup into an empty folder"
        );
        return Err(refused(folder, reason));
    }
    make_folder(logs)?;
    if let Some(log) = log_files(logs)?.first() {
        let reason = format!(
            "it contains no store, only a log, {}; check that the device of the store is mounted",
            log.display()
        );
        return Err(refused(folder, reason));
    }
    // Remove the leftovers of an interrupted creation, because the engine would continue with them.
    names
        .iter()
        .filter(|name| may_be_there(name) && name.starts_with("MANIFEST-"))
        .try_for_each(|name| remove_if_there(&folder.join(name)))?;
    mark_unopened(folder)
}

/// Marks the store in a folder as not opened yet, so that its log may be missing.
pub(crate) fn mark_unopened(folder: &Path) -> Result<()> {
    write_small(folder, UNOPENED_FILE, b"")
}

/// Removes the mark, so that from now on the store must be complete.
pub(super) fn mark_opened(folder: &Path) -> Result<()> {
    if !exists(&folder.join(UNOPENED_FILE)) {
        return Ok(());
    }
    remove_if_there(&folder.join(UNOPENED_FILE))?;
    sync_folder(folder).map_err(|error| unusable(folder, &error))
}

fn refuse_log_elsewhere(folder: &Path, logs: &Path) -> Result<()> {
    let wanted = absolute(logs)?;
    let recorded = recorded_wal_folder(folder)?.map_or_else(|| absolute(folder), Ok)?;
    for elsewhere in [recorded, absolute(folder)?] {
        if elsewhere != wanted && has_log(&elsewhere) {
            let from = elsewhere.display();
            let to = wanted.display();
            let reason =
                format!("the log of this store is in {from}, but {to} is configured; move the files *.log there");
            return Err(refused(folder, reason));
        }
    }
    Ok(())
}

fn refuse_missing_log(folder: &Path, logs: &Path, mark: Option<SyncMark>) -> Result<()> {
    let found = if exists(logs) { youngest_log(logs)? } else { None };
    let last_log = recorded_log(folder)?;
    let recorded = match last_log {
        RecordedLog::Number(number) => Some(number),
        RecordedLog::Missing | RecordedLog::Garbled => mark.map(|mark| mark.log),
    };
    if found.is_some_and(|found| recorded.is_none_or(|recorded| found >= recorded)) {
        return Ok(());
    }
    let which = recorded.map_or_else(String::new, |number| format!(" {number:06}.log"));
    // A damaged file can state the number of a log that never existed.
    let source = if matches!(last_log, RecordedLog::Number(_)) { " (the file last-log states its number)" } else { "" };
    let reason = format!(
        "its log{which} is missing from {}{source}, and acknowledged changes with it; mount the device of the log or bring the file back, else restore \
         a backup, or set store.damaged_log = \"drop-tail\" to start without them",
        logs.display()
    );
    Err(refused(folder, reason))
}

/// Keeps `last-log` and `synced-log` up to date.
pub(super) struct LastLog {
    folder: PathBuf,
    logs: PathBuf,
    /// The youngest log that was found; `None` if there is none.
    youngest: Option<YoungestLog>,
    /// The number in `last-log`.
    recorded: Option<u64>,
    synced: SyncedLog,
}

/// A log, and the state of the log folder when this log was the youngest.
struct YoungestLog {
    number: u64,
    file: PathBuf,
    /// Modification time of the log folder.
    changed: SystemTime,
    /// Whether every later change of the folder gives it another modification time.
    is_settled: bool,
}

impl LastLog {
    /// Records the log that the engine has just begun, without any synced bytes.
    pub(super) fn start(folder: &Path, wal_folder: Option<&Path>) -> Result<Self> {
        let logs = wal_folder.unwrap_or(folder);
        let number = youngest_log(logs)?.unwrap_or(0);
        let mark = SyncMark { log: number, length: 0 };
        let synced = SyncedLog::start(folder, mark).map_err(|error| unusable(&folder.join(SYNCED_LOG_FILE), &error))?;
        let mut last =
            Self { folder: folder.to_path_buf(), logs: logs.to_path_buf(), youngest: None, recorded: None, synced };
        last.find_youngest().and_then(|()| last.record_number()).map_err(|error| unusable(logs, &error))?;
        Ok(last)
    }

    /// Returns the present end of the youngest log. After a sync that starts later, it is a valid mark.
    pub(super) fn measure(&mut self) -> std::io::Result<SyncMark> {
        self.find_youngest()?;
        let youngest = self.youngest.as_ref().ok_or_else(|| std::io::Error::from(ErrorKind::NotFound))?;
        Ok(SyncMark { log: youngest.number, length: fs::metadata(&youngest.file)?.len() })
    }

    /// Records the youngest log that was found, and a mark that is synced by now.
    pub(super) fn record(&mut self, mark: Option<SyncMark>) -> std::io::Result<()> {
        let marked = mark.map_or(Ok(()), |mark| self.synced.advance(mark));
        self.record_number()?;
        marked
    }

    fn record_number(&mut self) -> std::io::Result<()> {
        let number = self.youngest.as_ref().map_or(0, |youngest| youngest.number);
        if self.recorded != Some(number) {
            // The name of the log must be durable before its number is recorded.
            sync_folder(&self.logs)?;
            write_small(&self.folder, LAST_LOG_FILE, number.to_string().as_bytes()).map_err(as_io_error)?;
            self.recorded = Some(number);
        }
        Ok(())
    }

    /// Finds the youngest log. If the log folder is unchanged, this costs only a check of its modification time.
    ///
    /// File systems take that time from a clock with ticks of some milliseconds. A log that is created within the tick
    /// of an earlier change does not alter the time, so the folder is listed again until a tick has passed. This is
    /// seen from `synced-log`, which each sync writes.
    fn find_youngest(&mut self) -> std::io::Result<()> {
        let changed = fs::metadata(&self.logs)?.modified()?;
        if self.youngest.as_ref().is_some_and(|known| known.is_settled && known.changed == changed) {
            return Ok(());
        }
        let now_at_least = self.synced.modified()?;
        let file = log_files(&self.logs).map_err(as_io_error)?.pop();
        self.youngest = file.and_then(|file| {
            Some(YoungestLog { number: log_number(&file)?, file, changed, is_settled: now_at_least > changed })
        });
        Ok(())
    }
}

fn as_io_error(error: Error) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

fn youngest_log(logs: &Path) -> Result<Option<u64>> {
    Ok(log_files(logs)?.last().and_then(|file| log_number(file)))
}

/// The content of `last-log`.
enum RecordedLog {
    Number(u64),
    Missing,
    /// The content is not a number. The log may be whole nevertheless.
    Garbled,
}

fn recorded_log(folder: &Path) -> Result<RecordedLog> {
    let file = folder.join(LAST_LOG_FILE);
    match fs::read(&file) {
        Ok(bytes) => {
            let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
            Ok(number.map_or(RecordedLog::Garbled, RecordedLog::Number))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(RecordedLog::Missing),
        Err(error) => Err(unusable(&file, &error)),
    }
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(|error| unusable(folder, &error))?;
    let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    entries.map(name).collect::<std::io::Result<_>>().map_err(|error| unusable(folder, &error))
}

fn exists(path: &Path) -> bool {
    // A path that cannot be checked counts as existing. Treating it as missing would create a new store.
    path.try_exists().unwrap_or(true)
}

fn refused(path: &Path, reason: String) -> Error {
    Error::Unusable { path: path.to_path_buf(), reason }
}

/// Records the folder of the log and removes leftovers. The caller must have the store open and must not have written
/// to it.
pub(super) fn record_wal_folder_and_clean(folder: &Path, wal_folder: Option<&Path>) -> Result<()> {
    let place = wal_folder.map(absolute).transpose()?;
    record_wal_folder(folder, place.as_deref())?;
    remove_if_there(&folder.join(INGEST_FILE))?;
    // The engine makes a checkpoint under a longer temporary name before it renames it.
    for leftover in [CHECKPOINT_FOLDER.to_owned(), format!("{CHECKPOINT_FOLDER}.tmp")] {
        match fs::remove_dir_all(folder.join(leftover)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(folder, &error)),
            _ => {}
        }
    }
    Ok(())
}

/// Removes a file. Succeeds if the file does not exist.
pub(super) fn remove_if_there(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unusable(file, &error)),
        _ => Ok(()),
    }
}

/// Creates a folder that only its owner can access. An existing folder keeps its permissions.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder).map_err(|error| unusable(folder, &error))
}

fn absolute(folder: &Path) -> Result<PathBuf> {
    fs::canonicalize(folder).or_else(|_| std::path::absolute(folder)).map_err(|error| unusable(folder, &error))
}

/// Returns `true` if a folder contains a log that is not empty.
fn has_log(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let is_log = |path: &Path| path.extension() == Some(OsStr::new("log"));
    entries.flatten().any(|entry| is_log(&entry.path()) && entry.metadata().is_ok_and(|data| data.len() > 0))
}

/// Returns the names of the missing files without which the store may be opened.
pub(super) fn known_missing(folder: &Path) -> Result<Vec<String>> {
    let file = folder.join(KNOWN_MISSING_FILE);
    match fs::read(&file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(unusable(&file, &error)),
    }
}

/// Records the names of missing files that a repair has reported and cannot replace. Later starts do not refuse the
/// store because of them.
pub(super) fn record_known_missing(folder: &Path, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return remove_if_there(&folder.join(KNOWN_MISSING_FILE));
    }
    write_small(folder, KNOWN_MISSING_FILE, names.join("\n").as_bytes())
}

fn recorded_wal_folder(folder: &Path) -> Result<Option<PathBuf>> {
    match fs::read(folder.join(WAL_FOLDER_FILE)) {
        Ok(bytes) => Ok(Some(PathBuf::from(OsStr::from_bytes(&bytes)))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(folder, &error)),
    }
}

fn record_wal_folder(folder: &Path, wal_folder: Option<&Path>) -> Result<()> {
    let file = folder.join(WAL_FOLDER_FILE);
    let Some(wal_folder) = wal_folder else {
        return remove_if_there(&file);
    };
    if recorded_wal_folder(folder)?.as_deref() == Some(wal_folder) {
        return Ok(());
    }
    write_small(folder, WAL_FOLDER_FILE, wal_folder.as_os_str().as_bytes())
}

/// Writes a file atomically: after a crash the file is either complete or absent.
fn write_small(folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    let file = folder.join(name);
    let fresh = folder.join(format!("{name}.new"));
    let write = || {
        let mut handle = fs::File::create(&fresh)?;
        handle.write_all(content)?;
        handle.sync_all()?;
        fs::rename(&fresh, &file)?;
        sync_folder(folder)
    };
    write().map_err(|error| unusable(&file, &error))
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::Unusable { path: path.to_path_buf(), reason: error.to_string() }
}
