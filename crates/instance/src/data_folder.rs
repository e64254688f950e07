//! The data folder: the paths in it, and the lock that gives one program at a time access to it.
//!
//! | name | content |
//! |---|---|
//! | `lock` | a lock file with the process ID of the program that has the folder open; the system releases the lock when the process ends for any reason |
//! | `store/` | all databases |
//! | `full-text/` | the full-text index; rebuilt from the databases if it is missing |
//! | `tls/certificate.pem`, `tls/key.pem` | the certificate and its key, unless the configuration names others |
//! | `tls/server.pem` | the certificate of the domain's certifier for this server, its key, and the certifier; if it exists, `tls/certificate.pem` is a copy for clients, and `tls/key.pem` is not read |
//! | `tls/server.pem.old` | the file before it; used again if the present certificate is not valid yet |
//! | `keys/blobs.key` | the key of encrypted attachments, unless the configuration names another one |
//! | `control.sock` | the socket at which a running server accepts administration commands |
//! | `listeners.json` | the addresses at which a running server listens |
//! | `demo-passwords.txt` | the passwords of the demo's users |
//!
//! A file with secret content gets mode 0600 before its content is written. The folder itself has mode 0700; a folder
//! that is open to other users is closed or refused before it is used ([`DataError::OpenToOthers`]).

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::limits::{LOCK_BYTES_MAX, LOCK_PAUSE, LOCK_WAIT_MAX};

/// Mode of the data folder, and of all folders created for the current user only.
const PRIVATE_FOLDER: u32 = 0o700;

/// The bits of a mode that give access to the group and to others.
const OTHERS: u32 = 0o077;

/// The bit of a mode that marks a folder which users share, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Names in a data folder that may be there before its store: those that a restore or the operator creates, that of the
/// lock, and that of the folder at the root of a file system.
const NAMES_BEFORE_STORE: [&str; 5] = ["keys", "tls", "templates", "lock", "lost+found"];

/// The paths of a data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFolder {
    path: PathBuf,
}

/// The address of a listener of a running server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerAddress {
    /// The name of the listener, as in the section `listen` of the configuration.
    pub protocol: &'static str,
    /// The address, or the path of the socket.
    pub address: String,
}

/// Proof that this program has exclusive use of the data folder; dropping it releases the folder.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

/// The error returned if the data folder cannot be used. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Another program has the folder open.
    #[error("the data folder {folder} is in use by another doublet{}", .holder.map_or_else(String::new, |holder| format!(", process {holder}")))]
    InUse {
        /// The data folder.
        folder: PathBuf,
        /// The ID of the other program's process, if known.
        holder: Option<u32>,
    },
    /// Other users have access to the folder, and this cannot be changed here.
    #[error(
        "other users have access to the data folder {folder} (mode {mode:04o}), and it belongs to another user or has \
         files of other programs; run `chmod 0700 {folder}` as its owner, or choose a new folder with --data"
    )]
    OpenToOthers {
        /// The data folder.
        folder: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// An operation of the file system failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl DataError {
    fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

impl DataFolder {
    /// Creates the value without accessing the file system.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Creates the folder if it does not exist. Closes an existing folder to other users, or fails with
    /// [`DataError::OpenToOthers`].
    pub fn create(&self) -> Result<(), DataError> {
        create_private_folder(&self.path)?;
        let mode = self.mode()?;
        if mode & OTHERS == 0 {
            return Ok(());
        }
        let close = || std::fs::set_permissions(&self.path, Permissions::from_mode(PRIVATE_FOLDER));
        let is_closed = mode & STICKY == 0 && self.is_own() && close().is_ok();
        // Some file systems accept a mode and do not store it.
        if !is_closed || self.mode()? & OTHERS != 0 {
            return Err(DataError::OpenToOthers { folder: self.path.clone(), mode });
        }
        let folder = self.path.display();
        tracing::warn!(%folder, "the data folder was open to other users (mode {mode:04o}); its mode is 0700 now");
        Ok(())
    }

    fn mode(&self) -> Result<u32, DataError> {
        let facts = std::fs::metadata(&self.path).map_err(DataError::io_error("read the mode of", &self.path))?;
        Ok(facts.permissions().mode() & 0o7777)
    }

    /// Returns `true` if the folder has a store or nothing that is foreign to a data folder. If it has foreign files,
    /// other programs may need their access to it.
    fn is_own(&self) -> bool {
        let has_known_names = |entries: std::fs::ReadDir| {
            let mut names = entries.map(|entry| entry.map(|entry| entry.file_name()));
            names.all(|name| name.is_ok_and(|name| NAMES_BEFORE_STORE.iter().any(|known| name == *known)))
        };
        self.store_folder().is_dir() || std::fs::read_dir(&self.path).is_ok_and(has_known_names)
    }

    /// Locks the folder for this program. Fails at once with [`DataError::InUse`] if another program holds the lock.
    pub fn lock(&self) -> Result<DataLock, DataError> {
        self.create()?;
        let path = self.path.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(DataError::io_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => {
                let name = || {
                    file.set_len(0)?;
                    writeln!(&file, "{}", std::process::id())
                };
                name().map_err(DataError::io_error("write", &path))?;
                Ok(DataLock { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let holder = read_limited(&path, LOCK_BYTES_MAX).ok().and_then(|text| String::from_utf8(text).ok());
                Err(DataError::InUse {
                    folder: self.path.clone(),
                    holder: holder.and_then(|text| text.trim().parse().ok()),
                })
            }
            Err(TryLockError::Error(error)) => Err(DataError::io_error("lock", &path)(error)),
        }
    }

    /// Locks the folder for this program. If another program holds the lock, waits for up to [`LOCK_WAIT_MAX`]: the
    /// system releases the lock of a killed program only when its process is gone, which may be after its successor has
    /// started.
    pub fn lock_wait(&self, pause: &mut dyn FnMut(Duration)) -> Result<DataLock, DataError> {
        retry_while_held(|| self.lock(), |error| matches!(error, DataError::InUse { .. }), pause)
    }

    /// Returns the path of the folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of the store.
    #[must_use]
    pub fn store_folder(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Returns the folder of the full-text index.
    #[must_use]
    pub fn full_text_folder(&self) -> PathBuf {
        self.path.join("full-text")
    }

    /// Returns the folder of the templates that the operator has added.
    #[must_use]
    pub fn templates_folder(&self) -> PathBuf {
        self.path.join("templates")
    }

    /// Returns the folder for sorting data that does not fit into memory.
    #[must_use]
    pub fn sort_folder(&self) -> PathBuf {
        self.path.join("sorting")
    }

    /// Returns the path of the socket for administration commands.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.path.join("control.sock")
    }

    /// Returns the path of the file with the addresses at which a running server listens.
    #[must_use]
    pub fn listeners_file(&self) -> PathBuf {
        self.path.join("listeners.json")
    }

    /// Returns the paths of the server's self-signed certificate and its key.
    #[must_use]
    pub fn self_signed_files(&self) -> (PathBuf, PathBuf) {
        (self.path.join("tls/certificate.pem"), self.path.join("tls/key.pem"))
    }

    /// Returns the path of the certificate that the certifier of the domain has issued for this server, with its key.
    #[must_use]
    pub fn issued_file(&self) -> PathBuf {
        self.path.join("tls/server.pem")
    }

    /// Returns the path of the file that the last installation of a certificate has replaced.
    #[must_use]
    pub fn replaced_issued_file(&self) -> PathBuf {
        self.path.join("tls/server.pem.old")
    }

    /// Returns the path of the certificate of the authority that signs the certificates of the domain's servers.
    #[must_use]
    pub fn certifier_file(&self) -> PathBuf {
        self.path.join("tls/certifier.pem")
    }

    /// Returns the path of the key of encrypted attachments.
    #[must_use]
    pub fn blob_key_file(&self) -> PathBuf {
        self.path.join("keys/blobs.key")
    }

    /// Returns the path of the file with the passwords of the demo's users.
    #[must_use]
    pub fn demo_passwords_file(&self) -> PathBuf {
        self.path.join("demo-passwords.txt")
    }

    /// Resolves a path of the configuration. Relative paths are relative to the data folder.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.path.join(path)
    }
}

/// Repeats `attempt` for up to [`LOCK_WAIT_MAX`] as long as `is_held` is `true` for its error.
pub(crate) fn retry_while_held<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_held: impl Fn(&E) -> bool,
    pause: &mut dyn FnMut(Duration),
) -> Result<T, E> {
    let mut waited = Duration::ZERO;
    loop {
        match attempt() {
            Err(error) if is_held(&error) && waited < LOCK_WAIT_MAX => pause(LOCK_PAUSE),
            outcome => return outcome,
        }
        waited += LOCK_PAUSE;
    }
}

/// Creates a folder and its missing parents, accessible only to the current user.
pub fn create_private_folder(path: &Path) -> Result<(), DataError> {
    DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_FOLDER)
        .create(path)
        .map_err(DataError::io_error("create the folder", path))
}

/// Writes a file that only the current user can access. The file is replaced as a whole or not at all.
///
/// The file survives a power failure after the call: the folder with its name is synced, and if that folder is new, the
/// folder around it as well. Otherwise encrypted attachments could be on disk without their key.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), DataError> {
    let folder = parent_folder(path);
    let is_new = !folder.exists();
    create_private_folder(folder)?;
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let write = || -> io::Result<()> {
        // A file left by an interrupted attempt may have another mode.
        let _ = std::fs::remove_file(&fresh);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        File::open(folder)?.sync_all()?;
        if is_new { File::open(parent_folder(folder))?.sync_all() } else { Ok(()) }
    };
    write().map_err(DataError::io_error("write", path))
}

/// Removes a file if it exists. This survives a power failure after the call.
pub(crate) fn remove_file(path: &Path) -> Result<(), DataError> {
    let remove = || match std::fs::remove_file(path) {
        Ok(()) => File::open(parent_folder(path))?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    remove().map_err(DataError::io_error("remove", path))
}

/// Returns the folder that contains the name of a file or folder.
fn parent_folder(path: &Path) -> &Path {
    let parent = path.parent().unwrap_or(path);
    if parent.as_os_str().is_empty() { Path::new(".") } else { parent }
}

/// Reads a file of at most `size_bytes_max` bytes. A longer file is an error.
pub fn read_limited(path: &Path, size_bytes_max: u64) -> Result<Vec<u8>, DataError> {
    let content = File::open(path).and_then(|file| read_content(file, size_bytes_max));
    content.map_err(DataError::io_error("read", path))
}

/// Reads the content of an open file of at most `size_bytes_max` bytes. A longer file is an error.
pub fn read_content(file: File, size_bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(size_bytes_max.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > size_bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {size_bytes_max} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777
    }

    #[test]
    fn data_folder_is_locked_by_one_process() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = DataFolder::new(&outer.path().join("deep/data"));
        let lock = folder.lock().expect("the lock is free");
        let error = folder.lock().expect_err("it is held");
        assert!(matches!(error, DataError::InUse { holder: Some(holder), .. } if holder == std::process::id()));
        drop(lock);
        folder.lock().expect("it is free again");
        assert_eq!(mode(folder.path()), 0o700);
    }

    #[test]
    fn folder_that_is_open_to_others_is_closed_or_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        let check = |name: &str, content: &[&str], before: u32, expected: u32| {
            let path = outer.path().join(name);
            content.iter().for_each(|below| std::fs::create_dir_all(path.join(below)).expect("writable"));
            std::fs::create_dir_all(&path).expect("writable");
            std::fs::set_permissions(&path, Permissions::from_mode(before)).expect("it is there");
            let locked = DataFolder::new(&path).lock();
            assert_eq!(mode(&path), expected, "{name}");
            locked.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(check("empty", &[], 0o755, 0o700), Ok(()));
        assert_eq!(check("restored", &["keys", "lost+found"], 0o750, 0o700), Ok(()));
        assert_eq!(check("used", &["store", "other"], 0o2775, 0o700), Ok(()));
        assert_eq!(check("private", &["other"], 0o700, 0o700), Ok(()));
        for (name, content, before) in [("home", "documents", 0o755), ("tmp", "store", 0o1777)] {
            let refused = check(name, &[content], before, before & 0o777).expect_err("it has other files");
            assert!(refused.contains(&format!("(mode {before:04o})")), "{refused}");
            assert!(refused.contains("run `chmod 0700 ") && refused.contains("--data"), "{refused}");
            assert!(!outer.path().join(name).join("lock").exists(), "{name}");
        }
    }

    #[test]
    fn lock_wait_succeeds_once_the_lock_is_released() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = DataFolder::new(outer.path());
        let mut held = Some(folder.lock().expect("the lock is free"));
        let mut pauses = 0;
        let lock = folder.lock_wait(&mut |_| {
            pauses += 1;
            held.take_if(|_| pauses == 3);
        });
        let _lock = lock.expect("it was released");
        assert_eq!(pauses, 3);
    }

    #[test]
    fn lock_wait_times_out_and_names_the_holder() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = DataFolder::new(outer.path());
        let _held = folder.lock().expect("the lock is free");
        let mut waited = Duration::ZERO;
        let error = folder.lock_wait(&mut |pause| waited += pause).expect_err("it is held");
        assert_eq!(waited, LOCK_WAIT_MAX);
        assert!(error.to_string().ends_with(&format!("another doublet, process {}", std::process::id())), "{error}");
        std::fs::write(outer.path().join("lock"), b"nobody knows").expect("the folder is writable");
        let error = folder.lock().expect_err("it is held");
        assert!(error.to_string().ends_with("another doublet"), "{error}");
    }

    #[test]
    fn folder_to_sync_is_the_one_with_the_name() {
        let check =
            |path: &str, expected: &str| assert_eq!(parent_folder(Path::new(path)), Path::new(expected), "{path}");
        check("/data/keys/blobs.key", "/data/keys");
        check("keys/blobs.key", "keys");
        check("blobs.key", ".");
        check("/", "/");
    }

    #[test]
    fn private_files_are_readable_by_their_owner_only() {
        let outer = tempfile::tempdir().expect("a folder");
        let path = outer.path().join("keys/secret");
        write_private(&path, b"one").expect("it can be written");
        write_private(&path, b"two").expect("it can be replaced");
        assert_eq!(read_limited(&path, 3).expect("it is short"), b"two");
        assert_eq!(mode(&path), 0o600);
        assert!(read_limited(&path, 2).expect_err("it is too long").to_string().contains("longer than 2 bytes"));
        assert_eq!(std::fs::read_dir(outer.path().join("keys")).expect("a folder").count(), 1);
    }
}
