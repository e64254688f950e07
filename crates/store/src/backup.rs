//! Backup and restore of a running store.
//!
//! A backup target is a folder that holds any number of backups. Each backup is a manifest (`backups/000001`) that
//! lists the files of the store with their lengths and BLAKE3 hashes. The files themselves are stored once in
//! `objects`, named by hash. The engine's sorted files never change once written, so the next backup copies only new
//! files: a file whose name, length and modification time match the last manifest is not even read again.
//!
//! A backup exists from the moment its manifest has its final name. Every object that it names is synced before that.
//! An interrupted backup leaves only objects that no manifest names, and the next [`prune`] removes them. [`verify`]
//! reads every byte of a backup. [`restore`] verifies every byte while it copies. It writes only into an empty folder,
//! which contains no valid store until everything is copied. A target cannot lie within the store.
//!
//! A backup also holds files of the data folder beside the store, which the caller passes. Files with keys are
//! encrypted with a passphrase first ([`encrypt_key_files`]). The manifest names the fingerprint of the key of
//! encrypted attachments, so that a wrong key is recognized without restoring the store.
//!
//! Not included: encryption of the store's files (attachments are encrypted if the store's are) and scheduling.

mod files;
mod key_files;
mod manifest;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

pub use key_files::{KeyFilesError, PassphraseCost, decrypt_key_files, encrypt_key_files};
pub use manifest::{Manifest, ManifestEntry, decode_manifest};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::{DATA_FILE_BYTES_MAX, DATA_FILES_MAX};
use crate::rocks::{CURRENT_FILE, RESTORING_FOLDER, make_folder, mark_unopened};
use crate::store::Store;

/// Name of the folder that holds the file contents.
const OBJECTS: &str = "objects";
/// Name of the folder that holds the manifests.
const BACKUPS: &str = "backups";

/// Name of the encrypted key files among the files beside the store.
pub const KEY_FILES: &str = "key-files";

/// Progress of a backup, a verification or a restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackupProgress {
    /// Number of files processed so far.
    pub files: u64,
    /// Total number of files.
    pub files_total: u64,
    /// Number of bytes processed so far.
    pub bytes: u64,
    /// Total number of bytes.
    pub bytes_total: u64,
}

/// A completed backup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backup {
    /// Number that identifies the backup when it is restored.
    pub number: u32,
    /// Number of files of the store.
    pub files: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Number of bytes that had to be copied.
    pub copied_bytes: u64,
    /// Set if attachments of the store are encrypted.
    pub encrypted: bool,
    /// Set if the backup contains key files, encrypted with a passphrase.
    pub has_keys: bool,
}

impl Backup {
    fn new(number: u32, manifest: &Manifest, copied_bytes: u64) -> Self {
        Self {
            number,
            files: manifest.files.len() as u64,
            bytes: manifest.bytes(),
            copied_bytes,
            encrypted: manifest.key_fingerprint.is_some(),
            has_keys: manifest.data_files.iter().any(|entry| entry.name == KEY_FILES),
        }
    }
}

/// A file of the data folder beside the store.
#[derive(Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Path relative to the data folder, or [`KEY_FILES`].
    pub name: String,
    /// Content of the file.
    pub content: Vec<u8>,
}

impl std::fmt::Debug for DataFile {
    /// Formats the file without its content, which may be a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DataFile({}, {} bytes)", self.name, self.content.len())
    }
}

/// The parts of a backup beside the files of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataFiles {
    /// Number of the backup.
    pub number: u32,
    /// The files.
    pub files: Vec<DataFile>,
    /// The fingerprint of the key of encrypted attachments, or `None` if they are not encrypted.
    pub key_fingerprint: Option<[u8; 32]>,
    /// Set if the backup does not say whether attachments are encrypted, because an older program made it.
    pub encryption_unknown: bool,
}

/// Copies a running store and files beside it into a target. Creates the target if it does not exist.
///
/// The backup contains everything that was durable at the time of the call.
pub fn backup(
    store: &Store,
    target: &Path,
    data_files: &[DataFile],
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<Backup> {
    if store.engine().folder().is_some_and(|folder| lies_within(target, folder)) {
        let reason =
            "a backup cannot be inside the store that it backs up; name a folder elsewhere, preferably on another disk";
        return Err(Error::Unusable { path: target.to_path_buf(), reason: reason.into() });
    }
    let target = Target::create(target)?;
    let _lock = files::lock(&target.folder)?;
    let _turn = store.lock_checkpoint();
    let engine = store.engine();
    let parent = engine.folder().unwrap_or(&target.folder);
    let checkpoint = Checkpoint::create(engine, &parent.join(crate::rocks::CHECKPOINT_FOLDER))?;
    let sources = files::list_files(&checkpoint.folder)?;
    let numbers = target.numbers()?;
    let last = numbers.last().map(|number| target.manifest(*number)).transpose()?;
    let known: HashMap<&str, &ManifestEntry> =
        last.iter().flat_map(|manifest| &manifest.files).map(|entry| (entry.name.as_str(), entry)).collect();
    let mut state = BackupProgress {
        files_total: sources.len() as u64,
        bytes_total: sources.iter().map(|source| source.length).sum(),
        ..BackupProgress::default()
    };
    let mut copied_bytes = 0;
    let mut entries = Vec::with_capacity(sources.len());
    for source in sources {
        let unchanged = known.get(source.name.as_str()).filter(|entry| {
            entry.length == source.length && entry.modified_ns == source.modified_ns && target.has_object(entry)
        });
        let hash = match unchanged {
            Some(entry) => entry.hash,
            None => {
                copied_bytes += source.length;
                files::copy_into(&checkpoint.folder.join(&source.name), &target.folder.join(OBJECTS))?
            }
        };
        state.files += 1;
        state.bytes += source.length;
        progress(state);
        entries.push(ManifestEntry { name: source.name, length: source.length, modified_ns: source.modified_ns, hash });
    }
    let number = numbers.last().map_or(1, |last| last + 1);
    let data_files = target.write_data_files(data_files)?;
    let key_fingerprint = store.blobs().key_fingerprint();
    let manifest = Manifest { files: entries, data_files, key_fingerprint, encryption_unknown: false };
    target.write_manifest(number, &manifest)?;
    Ok(Backup::new(number, &manifest, copied_bytes))
}

/// Returns the backups of a target, oldest first.
pub fn list(target: &Path) -> Result<Vec<Backup>> {
    let target = Target::open(target)?;
    let describe = |number| Ok(Backup::new(number, &target.manifest(number)?, 0));
    target.numbers()?.into_iter().map(describe).collect()
}

/// Reads a backup and compares every file with its hash. If `number` is `None`, verifies the last backup.
pub fn verify(target: &Path, number: Option<u32>, progress: &mut dyn FnMut(BackupProgress)) -> Result<Backup> {
    let target = Target::open(target)?;
    let (number, manifest) = target.open_manifest(number)?;
    let mut state = manifest.start();
    for entry in &manifest.files {
        files::check(&target.object_path(entry), entry)?;
        manifest::advance(&mut state, entry);
        progress(state);
    }
    manifest.data_files.iter().try_for_each(|entry| files::check(&target.object_path(entry), entry))?;
    Ok(Backup::new(number, &manifest, 0))
}

/// Reads the parts of a backup beside the files of the store, and compares them with their hashes. If `number` is
/// `None`, reads those of the last backup.
pub fn data_files(target: &Path, number: Option<u32>) -> Result<DataFiles> {
    let target = Target::open(target)?;
    let (number, manifest) = target.open_manifest(number)?;
    let read = |entry: &ManifestEntry| {
        let content = files::read_checked(&target.object_path(entry), entry)?;
        Ok(DataFile { name: entry.name.clone(), content })
    };
    let files = manifest.data_files.iter().map(read).collect::<Result<_>>()?;
    let Manifest { key_fingerprint, encryption_unknown, .. } = manifest;
    Ok(DataFiles { number, files, key_fingerprint, encryption_unknown })
}

/// The destination of a restore.
#[derive(Clone, Copy, Debug)]
pub struct RestoreDestination<'a> {
    /// The folder of the store. It must be empty or not exist.
    pub folder: &'a Path,
    /// The folder of the write-ahead log, if the store will be opened with a separate one. It must not contain a log.
    pub wal_folder: Option<&'a Path>,
}

/// Checks that a restore would find its destination empty. Creates nothing.
pub fn check_destination(destination: RestoreDestination<'_>) -> Result<()> {
    let folders = destination.wal_folder.into_iter().chain([destination.folder]);
    folders.filter(|folder| folder.exists()).try_for_each(files::ensure_empty_folder)
}

/// Copies a backup into an empty folder and compares every byte with its hash. If `number` is `None`, restores the last
/// backup.
///
/// The files are gathered in a temporary subfolder and moved into place once all of them are present and intact.
/// `CURRENT`, without which the engine recognizes no store, is moved last. An interrupted restore therefore leaves
/// nothing that could be mistaken for a store.
pub fn restore(
    target: &Path,
    number: Option<u32>,
    destination: RestoreDestination<'_>,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<Backup> {
    let target = Target::open(target)?;
    let (number, manifest) = target.open_manifest(number)?;
    let place = RestoreInProgress::start(destination)?;
    let mut state = manifest.start();
    for entry in &manifest.files {
        files::copy_checked(&target.object_path(entry), &place.path_of(&entry.name), entry)?;
        manifest::advance(&mut state, entry);
        progress(state);
    }
    place.finish()?;
    Ok(Backup::new(number, &manifest, state.bytes))
}

/// Removes all but the last `keep` backups and every object that no remaining backup needs. Returns the number of bytes
/// freed.
pub fn prune(target: &Path, keep: usize) -> Result<u64> {
    let target = Target::open(target)?;
    let _lock = files::lock(&target.folder)?;
    let numbers = target.numbers()?;
    let (old, kept) = numbers.split_at(numbers.len().saturating_sub(keep.max(1)));
    let mut needed = HashSet::new();
    for number in kept {
        let manifest = target.manifest(*number)?;
        needed.extend(manifest.files.iter().chain(&manifest.data_files).map(ManifestEntry::object_name));
    }
    old.iter().try_for_each(|number| files::remove(&target.manifest_path(*number)))?;
    files::sync_folder(&target.folder.join(BACKUPS))?;
    files::remove_others(&target.folder.join(OBJECTS), &needed)
}

/// Returns `true` if `path` is `folder` or lies within it. The path need not exist. Symbolic links are followed.
#[must_use]
pub fn lies_within(path: &Path, folder: &Path) -> bool {
    files::resolve(path).starts_with(files::resolve(folder))
}

/// A folder that holds backups.
struct Target {
    folder: PathBuf,
}

impl Target {
    fn create(folder: &Path) -> Result<Self> {
        make_folder(&folder.join(OBJECTS))?;
        make_folder(&folder.join(BACKUPS))?;
        files::sync_folder(folder)?;
        Ok(Self { folder: folder.to_path_buf() })
    }

    fn open(folder: &Path) -> Result<Self> {
        if folder.join(BACKUPS).is_dir() && folder.join(OBJECTS).is_dir() {
            return Ok(Self { folder: folder.to_path_buf() });
        }
        let reason =
            "not a backup: it has no folders `backups` and `objects`; name the folder that `doublet backup` wrote to";
        Err(Error::Unusable { path: folder.to_path_buf(), reason: reason.into() })
    }

    /// Returns the numbers of the backups in ascending order.
    fn numbers(&self) -> Result<Vec<u32>> {
        let names = files::list_names(&self.folder.join(BACKUPS))?;
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn open_manifest(&self, number: Option<u32>) -> Result<(u32, Manifest)> {
        let numbers = self.numbers()?;
        let chosen = number.or(numbers.last().copied()).filter(|number| numbers.contains(number));
        let Some(chosen) = chosen else {
            let there: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let reason = match (number, there.is_empty()) {
                (_, true) => "it contains no finished backup; run `doublet backup` again".to_owned(),
                (None, false) => unreachable!("the last number is among the numbers"),
                (Some(number), false) => format!("it does not contain backup {number}, only {}", there.join(", ")),
            };
            return Err(Error::Unusable { path: self.folder.clone(), reason });
        };
        Ok((chosen, self.manifest(chosen)?))
    }

    fn manifest_path(&self, number: u32) -> PathBuf {
        self.folder.join(BACKUPS).join(format!("{number:06}"))
    }

    fn manifest(&self, number: u32) -> Result<Manifest> {
        let path = self.manifest_path(number);
        let bytes = files::read(&path)?;
        decode_manifest(&bytes)
            .map_err(|error| Error::Unusable { path, reason: format!("{error}; use another backup") })
    }

    fn write_data_files(&self, data_files: &[DataFile]) -> Result<Vec<ManifestEntry>> {
        let is_too_large = |file: &DataFile| file.content.len() as u64 > DATA_FILE_BYTES_MAX;
        if data_files.len() > DATA_FILES_MAX || data_files.iter().any(is_too_large) {
            let reason = format!(
                "a backup holds at most {DATA_FILES_MAX} files beside the store, of at most {DATA_FILE_BYTES_MAX} bytes; remove files from `keys`, `tls` and `templates`"
            );
            return Err(Error::Unusable { path: self.folder.clone(), reason });
        }
        let write = |file: &DataFile| {
            let hash = files::write_object(&file.content, &self.folder.join(OBJECTS))?;
            Ok(ManifestEntry { name: file.name.clone(), length: file.content.len() as u64, modified_ns: 0, hash })
        };
        data_files.iter().map(write).collect()
    }

    fn write_manifest(&self, number: u32, manifest: &Manifest) -> Result<()> {
        files::sync_folder(&self.folder.join(OBJECTS))?;
        files::write_whole(&self.manifest_path(number), &manifest.encode())
    }

    fn object_path(&self, entry: &ManifestEntry) -> PathBuf {
        self.folder.join(OBJECTS).join(entry.object_name())
    }

    fn has_object(&self, entry: &ManifestEntry) -> bool {
        std::fs::metadata(self.object_path(entry)).is_ok_and(|data| data.len() == entry.length)
    }
}

/// A restore in progress. Its gathered files are removed when it is dropped.
struct RestoreInProgress<'d> {
    folder: &'d Path,
    wal_folder: Option<&'d Path>,
    /// Whether the folder of the store existed before the restore.
    existed: bool,
}

impl<'d> RestoreInProgress<'d> {
    fn start(destination: RestoreDestination<'d>) -> Result<Self> {
        let RestoreDestination { folder, wal_folder } = destination;
        let was_there = folder.exists();
        for folder in wal_folder.into_iter().chain([folder]) {
            files::ensure_empty_folder(folder)?;
        }
        let place = Self { folder, wal_folder, existed: was_there };
        for folder in place.folders() {
            make_folder(&folder.join(RESTORING_FOLDER))?;
        }
        Ok(place)
    }

    /// Returns the destination folders, with the folder of the store last.
    fn folders(&self) -> impl Iterator<Item = &'d Path> {
        self.wal_folder.into_iter().chain([self.folder])
    }

    /// Returns the temporary path to which a file is copied.
    fn path_of(&self, name: &str) -> PathBuf {
        let folder = if name.ends_with(".log") { self.wal_folder.unwrap_or(self.folder) } else { self.folder };
        folder.join(RESTORING_FOLDER).join(name)
    }

    fn finish(self) -> Result<()> {
        for folder in self.folders() {
            files::sync_folder(&folder.join(RESTORING_FOLDER))?;
        }
        mark_unopened(self.folder)?;
        for folder in self.folders() {
            files::move_files(&folder.join(RESTORING_FOLDER), folder, &|name| name != CURRENT_FILE)?;
        }
        files::move_files(&self.folder.join(RESTORING_FOLDER), self.folder, &|_| true)
    }
}

impl Drop for RestoreInProgress<'_> {
    fn drop(&mut self) {
        for folder in self.folders() {
            // Leftovers are reported by the next restore and when the store is opened.
            let _ = files::remove_folder(&folder.join(RESTORING_FOLDER));
        }
        if !self.existed {
            // An empty folder must not be mistaken for a new, empty store. A folder that is not empty stays.
            let _ = std::fs::remove_dir(self.folder);
        }
    }
}

/// A checkpoint of the engine, removed when dropped.
struct Checkpoint {
    folder: PathBuf,
}

impl Checkpoint {
    fn create(engine: &dyn Engine, folder: &Path) -> Result<Self> {
        files::remove_folder(folder)?;
        engine.sync()?;
        let checkpoint = Self { folder: folder.to_path_buf() };
        engine.checkpoint(folder)?;
        Ok(checkpoint)
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        // Leftovers are removed when the store is next opened, or by the next backup.
        let _ = files::remove_folder(&self.folder);
    }
}

#[cfg(test)]
mod tests;
