//! The data folder of the servers that the driver has started: its manifest, its disk, and its end.
//!
//! The driver deletes only what the manifest names. What else is in the folder stays, and the folder with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::door::native::NativeSettings;
use crate::door::native::inspection::mail_file_digest;
use crate::population::fill::FillError;
use crate::population::manifest::{
    FILE_NAME, FolderState, MailFileDigest, Manifest, ManifestError, Recipe, users_with_digests,
};
use crate::target::by_server::ByServer;
use crate::target::domain::files;

/// Why a data folder cannot be used or kept.
#[derive(Debug, thiserror::Error)]
pub enum DataFolderError {
    /// The manifest cannot be used or written.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A mail file cannot be read.
    #[error(transparent)]
    MailFile(#[from] FillError),
}

/// A data folder and its manifest.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    manifest: Manifest,
    /// The mail files and databases are filled, whatever a run has changed since.
    is_filled: bool,
}

impl DataFolder {
    /// Writes the manifest of a new folder, whose mail files are to be filled.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn create(path: &Path, recipe: Recipe) -> Result<Self, DataFolderError> {
        let files = files(recipe.servers);
        let manifest = Manifest::new(recipe, files);
        manifest.write(path)?;
        Ok(Self { path: path.to_owned(), manifest, is_filled: false })
    }

    /// Opens a kept folder.
    ///
    /// # Errors
    ///
    /// If it has no manifest, or if the manifest is that of other mail files.
    pub fn open(path: &Path, wanted: &Recipe) -> Result<Self, DataFolderError> {
        let manifest = Manifest::read(path)?;
        manifest.check(wanted)?;
        Ok(Self { path: path.to_owned(), manifest, is_filled: true })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the runs that have changed the mail files before.
    pub fn runs(&self) -> u64 {
        self.manifest.runs
    }

    /// Compares the mail files with the digests of the manifest.
    ///
    /// # Errors
    ///
    /// If one differs or cannot be read.
    pub async fn verify(&self, settings: &ByServer<Arc<NativeSettings>>) -> Result<(), DataFolderError> {
        let mut found = Vec::new();
        for digest in &self.manifest.digests {
            found.push(digest_of(settings, digest.user).await?);
        }
        Ok(self.manifest.check_digests(&found)?)
    }

    /// Returns `true` if the mail files and databases have been filled to the end.
    pub fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// Records which databases the driver has made. All of them are filled.
    ///
    /// # Errors
    ///
    /// If the manifest cannot be written.
    pub fn set_databases(&mut self, databases: Vec<String>) -> Result<(), DataFolderError> {
        self.manifest.databases = databases;
        self.is_filled = true;
        Ok(self.manifest.write(&self.path)?)
    }

    /// Records that a run is about to change the mail files.
    ///
    /// # Errors
    ///
    /// If the manifest cannot be written.
    pub fn begin_run(&mut self) -> Result<(), DataFolderError> {
        self.manifest.state = FolderState::Running;
        self.manifest.runs += 1;
        Ok(self.manifest.write(&self.path)?)
    }

    /// Records what the mail files are now. The server must have delivered everything.
    ///
    /// # Errors
    ///
    /// If a mail file cannot be read, or the manifest cannot be written.
    pub async fn finish(&mut self, settings: &ByServer<Arc<NativeSettings>>) -> Result<(), DataFolderError> {
        let mut digests = Vec::new();
        for user in users_with_digests(self.manifest.recipe.users) {
            digests.push(digest_of(settings, user).await?);
        }
        self.manifest.digests = digests;
        self.manifest.state = FolderState::Filled;
        Ok(self.manifest.write(&self.path)?)
    }

    /// Deletes what the manifest names, and the folder if nothing else is in it. Returns whether the folder is deleted.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn delete(self) -> io::Result<bool> {
        for name in self.manifest.files.iter().map(String::as_str).chain([FILE_NAME]) {
            let path = self.path.join(name);
            let deleted = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            deleted.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
        }
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            deleted => deleted.map(|()| true),
        }
    }
}

async fn digest_of(settings: &ByServer<Arc<NativeSettings>>, user: u64) -> Result<MailFileDigest, FillError> {
    mail_file_digest(settings.of_user(user), user).await.map_err(|error| FillError::of_mail_file(user, error))
}

/// Returns the bytes that a user can still write to the disk of a folder, or `None` if the system does not say.
pub fn available_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// Formats bytes for people.
pub fn gigabytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{:.2} TB", bytes as f64 / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::content::Purpose;
    use crate::population::memos::MailFiles;
    use crate::workload::profile::SizeProfile;
    use crate::workload::units::Share;

    fn files() -> MailFiles {
        let profile = SizeProfile::server_load();
        let share = Share::ALL;
        MailFiles {
            seed: 1,
            users: 10,
            documents: 3,
            archive: 0,
            profile,
            size_scale: 1.0,
            unread: share,
            purpose: Purpose::Document,
            masters: 10,
            own: share,
        }
    }

    #[test]
    fn only_what_the_manifest_names_is_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run");
        let make = || {
            fs::create_dir_all(path.join("data/mail")).expect("a folder");
            fs::write(path.join("server.log"), "").expect("a file");
            DataFolder::create(&path, Recipe::of(&files())).expect("the manifest")
        };
        assert!(make().delete().expect("it can be deleted"));
        assert!(!path.exists());
        let with_other = make();
        fs::write(path.join("notes.txt"), "mine").expect("a file");
        assert!(!with_other.delete().expect("the rest can be deleted"));
        let left: Vec<_> =
            fs::read_dir(&path).expect("the folder").map(|entry| entry.expect("it").file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }

    #[test]
    fn a_folder_that_is_not_filled_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        DataFolder::create(folder.path(), Recipe::of(&files())).expect("the manifest");
        let error = DataFolder::open(folder.path(), &Recipe::of(&files())).expect_err("it is not filled").to_string();
        assert_eq!(error, "the data folder is not what the run wants: it was not filled to the end");
    }
}
