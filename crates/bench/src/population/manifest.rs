//! What a kept data folder holds: `manifest.json` beside the data of the server.
//!
//! A manifest says from which seed and with which options the mail files were made, which databases the driver has
//! made, and digests of ten mail files, which are computed through the native protocol ([`MailFileDigest`]). A run
//! changes mail files, so the digests are computed again at its end. A folder on which a run has not ended, or whose
//! digests differ, holds something else and is refused.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::content::Purpose;
use super::memos::MailFiles;

/// The version of this format, and of the contents that follow from a seed.
pub const FORMAT: u32 = 3;
/// The name of the file.
pub const FILE_NAME: &str = "manifest.json";
/// The mail files that have digests.
pub const DIGESTS: u64 = 10;
/// Maximum size of a manifest.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Whether a folder can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FolderState {
    /// The mail files are being filled.
    Filling,
    /// The mail files are filled, and no run has changed them since the digests were computed.
    Filled,
    /// A run is changing the mail files.
    Running,
}

/// From what the mail files were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The seed.
    pub seed: u64,
    /// The users, each of whom has a mail file.
    pub users: u64,
    /// The persons of the directory, if there are others than the users.
    pub people: Option<u64>,
    /// The documents of an inbox.
    pub documents: u64,
    /// The documents of an archive.
    #[serde(default)]
    pub archive: u64,
    /// The factor by which they were made smaller.
    pub size_scale: f64,
    /// The digest of the size profile and of the kinds of attachments.
    pub profile: String,
    /// The documents that are unread, in millionths.
    pub unread: u32,
    /// Whether the mail files have documents or messages.
    pub purpose: Purpose,
    /// Mail files that were filled. The others are copies.
    pub masters: u64,
    /// The documents of copies that were changed, in millionths.
    pub own: u32,
    /// The kinds of databases that are no mail files.
    pub databases: Vec<DatabaseRecipe>,
    /// The servers between which the users are divided.
    pub servers: u64,
}

/// From what the databases of a kind were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseRecipe {
    /// The name of the kind.
    pub name: String,
    /// The databases.
    pub count: u64,
    /// The documents of each.
    pub documents: u64,
    /// The size of the text of a document, before it is made smaller.
    pub bytes: u64,
}

impl Recipe {
    /// Returns the recipe of mail files on one server, without other databases.
    pub fn of(files: &MailFiles) -> Self {
        let profile = serde_json::to_vec(&files.profile).expect("a profile has only numbers and words");
        Self {
            seed: files.seed,
            users: files.users,
            people: None,
            documents: files.documents,
            archive: files.archive,
            size_scale: files.size_scale,
            profile: base::hex::lower(&Sha256::digest(profile)),
            unread: files.unread.millionths(),
            purpose: files.purpose,
            masters: files.masters,
            own: if files.masters < files.users { files.own.millionths() } else { 0 },
            databases: Vec::new(),
            servers: 1,
        }
    }

    /// Returns the first difference from another recipe, for people.
    fn difference(&self, other: &Self) -> Option<String> {
        let [one, two] = [self, other].map(|recipe| serde_json::to_value(recipe).expect("it has numbers and texts"));
        let members = one.as_object().into_iter().flatten();
        let mut different = members.filter(|(name, value)| two.get(name) != Some(value));
        let (name, value) = different.next()?;
        let words = |value: Option<&serde_json::Value>| match value {
            None | Some(serde_json::Value::Null) => "not stated".to_owned(),
            Some(value) => value.to_string(),
        };
        let [found, wanted] = [words(Some(value)), words(two.get(name))];
        Some(format!("its {} is {found}, and that of the run is {wanted}", name.replace('_', " ")))
    }
}

/// The digest of a mail file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailFileDigest {
    /// The user.
    pub user: u64,
    /// The path of the mail file.
    pub database: String,
    /// The documents of the inbox.
    pub documents: u64,
    /// SHA-256 of the documents of the inbox: identifiers and marks of all, and items of some.
    pub digest: String,
}

/// What a data folder holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of the program that has made the folder.
    pub version: String,
    /// Whether the folder can be used.
    pub state: FolderState,
    /// From what the mail files were made.
    pub recipe: Recipe,
    /// The runs that have changed the mail files.
    pub runs: u64,
    /// Files and folders in this folder that the driver has made, and that it may delete.
    pub files: Vec<String>,
    /// The databases that the driver has made.
    pub databases: Vec<String>,
    /// The digests of some mail files.
    pub digests: Vec<MailFileDigest>,
}

/// Why a data folder is not used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The manifest cannot be read or written.
    #[error("{FILE_NAME}: {0}")]
    File(#[from] std::io::Error),
    /// It is not a manifest of this version.
    #[error("{FILE_NAME}: {0}")]
    Format(String),
    /// The folder holds something else than the run wants.
    #[error("the data folder is not what the run wants: {0}")]
    Different(String),
}

impl Manifest {
    /// Creates the manifest of a folder whose mail files are not filled yet.
    pub fn new(recipe: Recipe, files: Vec<String>) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: FolderState::Filling,
            recipe,
            runs: 0,
            files,
            databases: Vec::new(),
            digests: Vec::new(),
        }
    }

    /// Reads the manifest of a folder.
    ///
    /// # Errors
    ///
    /// If there is none, or if it is not one of this version.
    pub fn read(folder: &Path) -> Result<Self, ManifestError> {
        let mut text = String::new();
        let file = File::open(folder.join(FILE_NAME))?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(ManifestError::Format(format!("longer than {FILE_BYTES_MAX} bytes")));
        }
        let manifest: Self = serde_json::from_str(&text).map_err(|error| ManifestError::Format(error.to_string()))?;
        if manifest.format != FORMAT {
            return Err(ManifestError::Format(format!("the format {} is not {FORMAT}", manifest.format)));
        }
        Ok(manifest)
    }

    /// Writes the manifest into a folder. A reader finds the old one or the new one.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write(&self, folder: &Path) -> Result<(), ManifestError> {
        let text = serde_json::to_string_pretty(self).map_err(|error| ManifestError::Format(error.to_string()))?;
        let new = folder.join(format!("{FILE_NAME}.new"));
        fs::write(&new, text + "\n")?;
        Ok(fs::rename(&new, folder.join(FILE_NAME))?)
    }

    /// Refuses a folder that cannot be used for a run with a recipe.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn check(&self, wanted: &Recipe) -> Result<(), ManifestError> {
        let state = match self.state {
            FolderState::Filled => None,
            FolderState::Filling => Some("it was not filled to the end".to_owned()),
            FolderState::Running => Some("a run on it has not ended, and has changed it".to_owned()),
        };
        let difference = state.or_else(|| self.recipe.difference(wanted));
        difference.map_or(Ok(()), |difference| Err(ManifestError::Different(difference)))
    }

    /// Refuses a folder whose mail files differ from those of the manifest.
    ///
    /// # Errors
    ///
    /// The first mail file that differs.
    pub fn check_digests(&self, found: &[MailFileDigest]) -> Result<(), ManifestError> {
        let different = self.digests.iter().find(|digest| !found.contains(digest));
        match different {
            Some(digest) => {
                Err(ManifestError::Different(format!("the mail file {} is not as it was left", digest.database)))
            }
            None if self.digests.is_empty() => Err(ManifestError::Format("it has no digests".to_owned())),
            None => Ok(()),
        }
    }
}

/// Returns the users whose mail files have digests: at most [`DIGESTS`], at equal distances from the first to the last.
pub fn users_with_digests(users: u64) -> Vec<u64> {
    let count = users.min(DIGESTS);
    let distance = |index: u64| (u128::from(index) * u128::from(users - 1) / u128::from(count.max(2) - 1)) as u64;
    (0..count).map(|index| 1 + distance(index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::profile::SizeProfile;
    use crate::workload::units::Share;

    fn recipe() -> Recipe {
        Recipe::of(&MailFiles {
            seed: 1,
            users: 20,
            documents: 50,
            archive: 0,
            profile: SizeProfile::server_load(),
            size_scale: 0.1,
            unread: Share::from_f64(0.1).expect("a share"),
            purpose: Purpose::Document,
            masters: 20,
            own: Share::ALL,
        })
    }

    fn filled() -> Manifest {
        let digest =
            MailFileDigest { user: 1, database: "mail/mail1.nsf".to_owned(), documents: 50, digest: "00".to_owned() };
        Manifest {
            state: FolderState::Filled,
            digests: vec![digest],
            ..Manifest::new(recipe(), vec!["data".to_owned()])
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(Manifest::read(folder.path()), Err(ManifestError::File(_))));
        filled().write(folder.path()).expect("the file can be written");
        assert_eq!(Manifest::read(folder.path()).expect("a manifest"), filled());
        for text in ["", "{}", "{\"format\": 1}", "[1]"] {
            fs::write(folder.path().join(FILE_NAME), text).expect("the file can be written");
            assert!(matches!(Manifest::read(folder.path()), Err(ManifestError::Format(_))), "{text}");
        }
        Manifest { format: 1, ..filled() }.write(folder.path()).expect("the file can be written");
        let error = Manifest::read(folder.path()).expect_err("another format").to_string();
        assert_eq!(error, "manifest.json: the format 1 is not 3");
    }

    #[test]
    fn other_populations_are_refused_with_the_difference() {
        filled().check(&recipe()).expect("the same recipe");
        let check = |manifest: Manifest, wanted: Recipe, expected: &str| {
            let error = manifest.check(&wanted).expect_err(expected).to_string();
            assert_eq!(error, format!("the data folder is not what the run wants: {expected}"));
        };
        check(filled(), Recipe { people: Some(30), ..recipe() }, "its people is not stated, and that of the run is 30");
        check(filled(), Recipe { seed: 2, ..recipe() }, "its seed is 1, and that of the run is 2");
        check(filled(), Recipe { size_scale: 1.0, ..recipe() }, "its size scale is 0.1, and that of the run is 1.0");
        check(filled(), Recipe { servers: 2, ..recipe() }, "its servers is 1, and that of the run is 2");
        let running = Manifest { state: FolderState::Running, ..filled() };
        check(running, recipe(), "a run on it has not ended, and has changed it");
        check(Manifest { state: FolderState::Filling, ..filled() }, recipe(), "it was not filled to the end");
    }

    #[test]
    fn changed_mail_files_are_refused() {
        let manifest = filled();
        manifest.check_digests(&manifest.digests).expect("the same");
        let changed = MailFileDigest { digest: "01".to_owned(), ..manifest.digests[0].clone() };
        let error = manifest.check_digests(&[changed]).expect_err("a change").to_string();
        assert!(error.ends_with("the mail file mail/mail1.nsf is not as it was left"), "{error}");
        Manifest { digests: Vec::new(), ..filled() }.check_digests(&[]).expect_err("nothing is proved");
    }

    #[test]
    fn digests_are_of_ten_mail_files_at_equal_distances() {
        assert_eq!(users_with_digests(1), [1]);
        assert_eq!(users_with_digests(3), [1, 2, 3]);
        assert_eq!(users_with_digests(91), [1, 11, 21, 31, 41, 51, 61, 71, 81, 91]);
        assert_eq!(users_with_digests(4_000).len(), 10);
    }
}
