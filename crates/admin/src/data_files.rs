//! The files of a backup beside the store: keys, certificates and templates.
//!
//! Custom templates are in every backup. Keys and certificates are in it only if the operator names a passphrase, and
//! are encrypted with it: everything in `keys/` and `tls/` of the data folder, and the key of encrypted attachments,
//! also if the configuration keeps it elsewhere. A store with encrypted attachments is not backed up without its key,
//! unless the operator asks for that.
//!
//! A restore needs the key of encrypted attachments before it copies anything, and compares it with the fingerprint in
//! the backup. It never overwrites a file with other content.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use config::Config;
use instance::data_folder::{DataFolder, read_limited, write_private};
use instance::limits::BLOB_KEY_FILE_BYTES_MAX;
use instance::{Instance, blob_key_path, parse_blob_key};
use store::backup::{DataFile, DataFiles, KEY_FILES, PassphraseCost, decrypt_key_files, encrypt_key_files};
use store::blob::BlobCipher;
use store::limits::DATA_FILE_BYTES_MAX;

use super::AdminError;
use super::request::{BackupRequest, SecretText};

/// Folders of the data folder whose files are encrypted in a backup.
const KEY_FOLDERS: [&str; 2] = ["keys", "tls"];

/// Folder of the data folder whose files are in a backup as they are.
const TEMPLATES: &str = "templates";

/// Name of the key of encrypted attachments in a backup, independent of the configuration.
const BLOB_KEY: &str = "keys/blobs.key";

/// Returns the files that a backup contains beside the store.
pub(super) fn of_backup(instance: &Instance, request: &BackupRequest) -> Result<Vec<DataFile>, AdminError> {
    let mut files = files_of(instance.data.path(), TEMPLATES)?;
    let fingerprint = instance.store.blobs().key_fingerprint();
    match (&request.passphrase, fingerprint) {
        (Some(passphrase), _) => {
            let keys = key_files(instance, fingerprint)?;
            let content = encrypt_key_files(&keys, &passphrase.0, PassphraseCost::default(), instance.random.as_ref());
            files.push(DataFile { name: KEY_FILES.to_owned(), content: content.map_err(to_admin_error)? });
        }
        (None, Some(_)) if !request.without_keys => {
            return Err(AdminError::Refused(format!(
                "the attachments are encrypted, and a backup without their key cannot be read on another machine: name a file with a passphrase with --passphrase-file, so that the backup contains the key; or keep a copy of {} elsewhere and use --without-keys",
                blob_key_path(&instance.config, &instance.data).display()
            )));
        }
        (None, _) => {}
    }
    Ok(files)
}

fn key_files(instance: &Instance, fingerprint: Option<[u8; 32]>) -> Result<Vec<DataFile>, AdminError> {
    let mut files = Vec::new();
    for folder in KEY_FOLDERS {
        files.extend(files_of(instance.data.path(), folder)?);
    }
    let Some(fingerprint) = fingerprint else { return Ok(files) };
    let path = blob_key_path(&instance.config, &instance.data);
    let content = read_limited(&path, BLOB_KEY_FILE_BYTES_MAX).map_err(to_admin_error)?;
    if !is_key(&content, fingerprint) {
        return Err(AdminError::Refused(format!(
            "{} is not the key with which the attachments were encrypted; bring the right key back from a copy before the server is stopped",
            path.display()
        )));
    }
    files.retain(|file| file.name != BLOB_KEY);
    files.push(DataFile { name: BLOB_KEY.to_owned(), content });
    Ok(files)
}

/// Reads the files of one folder of the data folder, in the order of their names. Subfolders are not read.
fn files_of(data: &Path, folder: &str) -> Result<Vec<DataFile>, AdminError> {
    let path = data.join(folder);
    let entries = match std::fs::read_dir(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(AdminError::file(&path))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(AdminError::file(&path))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() {
            let content = read_limited(&path, DATA_FILE_BYTES_MAX).map_err(to_admin_error)?;
            files.push(DataFile { name: format!("{folder}/{name}"), content });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// The options of a restore that concern keys.
#[derive(Debug, Default)]
pub struct KeySources {
    /// The passphrase of the key files.
    pub passphrase: Option<SecretText>,
    /// A copy of the key of encrypted attachments.
    pub key_file: Option<PathBuf>,
    /// Set if the key files of the backup are to be left out.
    pub without_keys: bool,
}

/// The files of a backup beside the store, decrypted.
#[derive(Debug)]
pub struct RestorableFiles {
    /// Number of the backup.
    pub number: u32,
    /// Set if the attachments of the store are encrypted. Their key is among the files.
    pub encrypted: bool,
    /// Set if the backup does not say whether the attachments are encrypted, because an older program made it.
    pub encryption_unknown: bool,
    files: Vec<DataFile>,
}

impl RestorableFiles {
    /// Decrypts the key files of a backup. Fails if the key of encrypted attachments is missing or not the right one.
    pub fn open(found: DataFiles, sources: &KeySources) -> Result<Self, AdminError> {
        let DataFiles { number, mut files, key_fingerprint, encryption_unknown } = found;
        let sealed = files.iter().position(|file| file.name == KEY_FILES).map(|index| files.remove(index));
        if let Some(sealed) = sealed.filter(|_| !sources.without_keys) {
            let passphrase = sources.passphrase.as_ref().ok_or_else(|| passphrase_missing_error(number))?;
            files.extend(decrypt_key_files(&sealed.content, &passphrase.0).map_err(to_admin_error)?);
        }
        if let Some(path) = &sources.key_file {
            let content = read_limited(path, BLOB_KEY_FILE_BYTES_MAX).map_err(to_admin_error)?;
            files.retain(|file| file.name != BLOB_KEY);
            files.push(DataFile { name: BLOB_KEY.to_owned(), content });
        }
        let this = Self { number, encrypted: key_fingerprint.is_some(), encryption_unknown, files };
        key_fingerprint.map_or(Ok(()), |fingerprint| this.check_blob_key(fingerprint))?;
        Ok(this)
    }

    /// Returns the names of the files.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.files.iter().map(|file| file.name.as_str()).collect()
    }

    /// Writes the files into a data folder. Writes nothing if a file would be overwritten with other content.
    pub fn write(&self, config: &Config, data: &DataFolder) -> Result<(), AdminError> {
        let mut missing = Vec::new();
        for file in &self.files {
            let path = destination(config, data, &file.name)?;
            match std::fs::exists(&path).map_err(AdminError::file(&path))? {
                false => missing.push((path, file)),
                true if read_limited(&path, DATA_FILE_BYTES_MAX).map_err(to_admin_error)? == file.content => {}
                true => {
                    return Err(AdminError::Refused(format!(
                        "{} exists and is not the one in the backup; move it away, or restore into a new folder",
                        path.display()
                    )));
                }
            }
        }
        missing.into_iter().try_for_each(|(path, file)| write_private(&path, &file.content).map_err(to_admin_error))
    }

    fn check_blob_key(&self, fingerprint: [u8; 32]) -> Result<(), AdminError> {
        let number = self.number;
        match self.files.iter().find(|file| file.name == BLOB_KEY) {
            Some(key) if is_key(&key.content, fingerprint) => Ok(()),
            Some(_) => Err(AdminError::Refused(format!(
                "this is not the key of the encrypted attachments in backup {number}; name a copy of the right one with --key-file"
            ))),
            None => Err(AdminError::Refused(format!(
                "the attachments in backup {number} are encrypted, and without their key they cannot be read: name a copy of {BLOB_KEY} with --key-file"
            ))),
        }
    }
}

/// Returns the path to which a file of a backup is restored. Refuses names other than a plain name in one of the
/// folders of a backup, so that no file is written elsewhere.
fn destination(config: &Config, data: &DataFolder, name: &str) -> Result<PathBuf, AdminError> {
    let (folder, file) = name.split_once('/').unwrap_or_default();
    let is_plain = !matches!(file, "" | "." | "..") && !file.contains(['/', '\0']);
    match name {
        BLOB_KEY => Ok(blob_key_path(config, data)),
        _ if is_plain && (folder == TEMPLATES || KEY_FOLDERS.contains(&folder)) => Ok(data.path().join(name)),
        _ => Err(AdminError::Refused(format!(
            "the backup contains an unknown file {name:?}; use the program that made it, or another backup"
        ))),
    }
}

fn is_key(content: &[u8], fingerprint: [u8; 32]) -> bool {
    parse_blob_key(content).is_some_and(|key| BlobCipher::new(&key).fingerprint() == fingerprint)
}

fn passphrase_missing_error(number: u32) -> AdminError {
    AdminError::Refused(format!(
        "backup {number} contains keys and certificates, encrypted with a passphrase: name a file with the passphrase with --passphrase-file (- for standard input), or leave them out with --without-keys"
    ))
}

fn to_admin_error(error: impl std::fmt::Display) -> AdminError {
    AdminError::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use config::ConfigSources;

    use super::*;

    #[test]
    fn passphrase_is_not_in_the_debug_form() {
        let passphrase = Some(SecretText("seven brass monkeys".to_owned()));
        let form = format!("{:?}", KeySources { passphrase, ..KeySources::default() });
        assert!(form.contains("passphrase") && !form.contains("brass"), "{form}");
    }

    #[test]
    fn files_are_restored_only_into_their_folders() {
        let config = config::load(&ConfigSources::default()).expect("the defaults are valid");
        let data = DataFolder::new(Path::new("/data"));
        let check = |name: &str, expected: Option<&str>| {
            let path = destination(&config, &data, name).ok();
            assert_eq!(path.as_deref(), expected.map(Path::new), "{name:?}");
        };
        check("templates/plan.toml", Some("/data/templates/plan.toml"));
        check("keys/blobs.key", Some("/data/keys/blobs.key"));
        check("tls/key.pem", Some("/data/tls/key.pem"));
        let outside =
            ["templates/../../x", "keys/..", "tls/.", "keys/", "/etc/passwd", "templates//x", "templates/a/b"];
        for name in outside.into_iter().chain(["store/CURRENT", "control.sock", "key-files", "", "keys", "keys/a\0"]) {
            check(name, None);
        }
    }
}
