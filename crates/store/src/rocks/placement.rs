//! Where the files of a store lie, and the order that must be made before the engine opens them.
//!
//! The log may lie in a folder of its own. The engine would not notice that it was moved: it would open the store
//! without the last changes. So the store's folder has a file `wal-folder` that names the log's place, and a store whose log is found in
//! another place than the one configured is refused with the next step in the message.
//!
//! What a crash during a backup or an ingestion left behind is removed.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Names the place of the log, when that is not the store's own folder.
const WAL_FOLDER_FILE: &str = "wal-folder";
/// A sorted file that is being made for ingestion.
pub(super) const INGEST_FILE: &str = "ingest.tmp";
/// A checkpoint that is being copied into a backup.
pub(crate) const CHECKPOINT_FOLDER: &str = "checkpoint.tmp";

/// Makes the folders, and refuses a log in the wrong place.
pub(super) fn prepare(folder: &Path, wal_folder: Option<&Path>) -> Result<()> {
    make_folder(folder)?;
    if let Some(wal_folder) = wal_folder {
        make_folder(wal_folder)?;
    }
    let wanted = absolute(wal_folder.unwrap_or(folder))?;
    let recorded = recorded_wal_folder(folder)?.map_or_else(|| absolute(folder), Ok)?;
    for elsewhere in [recorded, absolute(folder)?] {
        if elsewhere != wanted && has_log(&elsewhere) {
            let (from, to) = (elsewhere.display(), wanted.display());
            let why =
                format!("the log of this store lies in {from}, but {to} is configured; move the files *.log there");
            return Err(Error::Unusable { path: folder.to_path_buf(), why });
        }
    }
    Ok(())
}

/// Writes down where the log lies, and removes leftovers. To be called by the one who has the store open, before it is written to.
pub(super) fn settle(folder: &Path, wal_folder: Option<&Path>) -> Result<()> {
    let place = wal_folder.map(absolute).transpose()?;
    record_wal_folder(folder, place.as_deref())?;
    remove_if_there(&folder.join(INGEST_FILE))?;
    // The engine makes a checkpoint under a longer name before it gives it the one that was asked for.
    for leftover in [CHECKPOINT_FOLDER.to_owned(), format!("{CHECKPOINT_FOLDER}.tmp")] {
        match fs::remove_dir_all(folder.join(leftover)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(folder, &error)),
            _ => {}
        }
    }
    Ok(())
}

/// Removes a file that may be there.
pub(super) fn remove_if_there(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unusable(file, &error)),
        _ => Ok(()),
    }
}

/// Makes a folder that nobody else may look into; one that exists keeps its permissions.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder).map_err(|error| unusable(folder, &error))
}

fn absolute(folder: &Path) -> Result<PathBuf> {
    fs::canonicalize(folder).or_else(|_| std::path::absolute(folder)).map_err(|error| unusable(folder, &error))
}

/// Tells whether a folder holds a log with anything in it.
fn has_log(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let is_log = |path: &Path| path.extension() == Some(OsStr::new("log"));
    entries.flatten().any(|entry| is_log(&entry.path()) && entry.metadata().is_ok_and(|data| data.len() > 0))
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
    let fresh = folder.join("wal-folder.new");
    let write = || {
        let mut handle = fs::File::create(&fresh)?;
        handle.write_all(wal_folder.as_os_str().as_bytes())?;
        handle.sync_all()?;
        fs::rename(&fresh, &file)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(|error| unusable(&file, &error))
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::Unusable { path: path.to_path_buf(), why: error.to_string() }
}
