//! File operations of a backup target: copying with a hash, syncing, and renaming into place.
//!
//! Every error names the path, and the next step if there is one.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base::hex;

use super::ManifestEntry;
use crate::error::{Error, Result};
use crate::limits;
use crate::rocks::{RESTORING_FOLDER, make_folder};

/// Number of bytes that are read, hashed and written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A file to be backed up.
pub(super) struct SourceFile {
    pub(super) name: String,
    pub(super) length: u64,
    pub(super) modified_ns: i64,
}

/// Returns the regular files of a folder, sorted by name.
pub(super) fn list_files(folder: &Path) -> Result<Vec<SourceFile>> {
    let mut sources = Vec::new();
    for name in list_names(folder)? {
        let path = folder.join(&name);
        let data = with_path(&path, fs::metadata(&path))?;
        if data.is_file() {
            let modified_ns = data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec());
            sources.push(SourceFile { name, length: data.len(), modified_ns });
        }
    }
    Ok(sources)
}

/// Returns the names in a folder, sorted.
pub(super) fn list_names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in with_path(folder, fs::read_dir(folder))? {
        names.extend(with_path(folder, entry)?.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

/// Copies a file into the folder of objects. Returns its hash, which is also its name there.
pub(super) fn copy_into(source: &Path, objects: &Path) -> Result<[u8; 32]> {
    let fresh = objects.join("copy.tmp");
    let hash = copy(source, &fresh)?;
    let object = objects.join(hex::lower(&hash));
    with_path(&object, fs::rename(&fresh, &object))?;
    Ok(hash)
}

/// Writes bytes into the folder of objects. Returns their hash, which is also their name there.
pub(super) fn write_object(bytes: &[u8], objects: &Path) -> Result<[u8; 32]> {
    let hash = blake3::hash(bytes);
    write_whole(&objects.join(hex::lower(hash.as_bytes())), bytes)?;
    Ok(*hash.as_bytes())
}

/// Reads an object of at most `DATA_FILE_BYTES_MAX` and compares it with its manifest entry.
pub(super) fn read_checked(object: &Path, entry: &ManifestEntry) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = with_path(object, File::open(object))?;
    with_path(object, file.take(limits::DATA_FILE_BYTES_MAX).read_to_end(&mut bytes))?;
    compare_hash(object, *blake3::hash(&bytes).as_bytes(), entry)?;
    Ok(bytes)
}

/// Copies an object to its restore path and compares the copy with its manifest entry.
pub(super) fn copy_checked(object: &Path, target: &Path, entry: &ManifestEntry) -> Result<()> {
    let hash = copy(object, target)?;
    compare_hash(object, hash, entry)
}

/// Reads an object and compares it with its manifest entry.
pub(super) fn check(object: &Path, entry: &ManifestEntry) -> Result<()> {
    let mut hasher = blake3::Hasher::new();
    let mut input = with_path(object, File::open(object))?;
    for_each_piece(object, &mut input, &mut |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    compare_hash(object, *hasher.finalize().as_bytes(), entry)
}

/// Writes a file atomically: after a crash the file is either complete or absent.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let fresh = path.with_extension("tmp");
    let mut file = with_path(&fresh, File::create(&fresh))?;
    with_path(&fresh, file.write_all(bytes).and_then(|()| file.sync_all()))?;
    with_path(path, fs::rename(&fresh, path))?;
    sync_folder(path.parent().unwrap_or(path))
}

/// Reads the bytes of a manifest, at most `MANIFEST_BYTES_MAX`.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let file = with_path(path, File::open(path))?;
    let mut bytes = Vec::new();
    with_path(path, file.take(limits::MANIFEST_BYTES_MAX).read_to_end(&mut bytes))?;
    Ok(bytes)
}

/// Locks a backup target against changes by other processes. The lock lasts until the returned file is dropped.
pub(super) fn lock(folder: &Path) -> Result<File> {
    let path = folder.join("lock");
    let file = with_path(&path, File::options().create(true).truncate(false).write(true).open(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let reason = "another backup into it is running; wait until it has finished".into();
            Err(Error::Unusable { path: folder.to_path_buf(), reason })
        }
        Err(TryLockError::Error(error)) => with_path(&path, Err(error)),
    }
}

/// Creates a folder, or checks that an existing one is empty. Removes the leftovers of an earlier restore.
pub(super) fn ensure_empty_folder(folder: &Path) -> Result<()> {
    make_folder(folder)?;
    // `lost+found` exists in the root of every new file system. The other name is the leftover of an earlier restore.
    if list_names(folder)?.iter().all(|name| name == "lost+found" || name == RESTORING_FOLDER) {
        return remove_folder(&folder.join(RESTORING_FOLDER));
    }
    let reason = "the folder is not empty; restore into a new folder, or move its content away";
    Err(Error::Unusable { path: folder.to_path_buf(), reason: reason.into() })
}

/// Moves the files whose names satisfy `is_wanted` from one folder into another, durably.
pub(super) fn move_files(from: &Path, to: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<()> {
    for name in list_names(from)?.iter().filter(|name| is_wanted(name)) {
        with_path(to, fs::rename(from.join(name), to.join(name)))?;
    }
    sync_folder(to)
}

/// Returns the absolute path with symbolic links resolved, as far as the path exists.
pub(super) fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(above), path.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    path
}

/// Syncs a folder, so that the names in it are durable.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    with_path(folder, File::open(folder).and_then(|handle| handle.sync_all()))
}

/// Removes a file.
pub(super) fn remove(path: &Path) -> Result<()> {
    with_path(path, fs::remove_file(path))
}

/// Removes a folder and its content. Succeeds if the folder does not exist.
pub(super) fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => with_path(folder, outcome),
    }
}

/// Removes the files of a folder that are not in `wanted`. Returns the number of bytes freed.
pub(super) fn remove_others(folder: &Path, wanted: &HashSet<String>) -> Result<u64> {
    let mut freed = 0;
    for name in list_names(folder)? {
        if !wanted.contains(&name) {
            let path = folder.join(name);
            freed += with_path(&path, fs::metadata(&path))?.len();
            remove(&path)?;
        }
    }
    Ok(freed)
}

/// Copies a file, syncs the copy, and returns the hash of the copied bytes.
fn copy(source: &Path, target: &Path) -> Result<[u8; 32]> {
    let mut input = with_path(source, File::open(source))?;
    let mut output = with_path(target, File::create(target))?;
    let mut hasher = blake3::Hasher::new();
    for_each_piece(source, &mut input, &mut |piece| {
        hasher.update(piece);
        with_path(target, output.write_all(piece))
    })?;
    with_path(target, output.sync_all())?;
    Ok(*hasher.finalize().as_bytes())
}

fn for_each_piece(path: &Path, input: &mut File, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => each(&buffer[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return with_path(path, Err(error)),
        }
    }
}

fn compare_hash(object: &Path, hash: [u8; 32], entry: &ManifestEntry) -> Result<()> {
    if hash == entry.hash {
        return Ok(());
    }
    let reason =
        format!("the backup is damaged: `{}` has changed since it was written; use another backup", entry.name);
    Err(Error::Unusable { path: PathBuf::from(object), reason })
}

/// Adds the path to an I/O error.
fn with_path<T>(path: &Path, outcome: io::Result<T>) -> Result<T> {
    outcome.map_err(|error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full(format!("{}: {error}", path.display())),
        _ => Error::Unusable { path: path.to_path_buf(), reason: error.to_string() },
    })
}
