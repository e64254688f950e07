//! Loading of configurations that exist only in a test.

use std::path::PathBuf;

use config::{Config, ConfigError, ConfigSources, load};

/// A configuration file in a temporary folder, which is removed with this value.
pub struct ConfigFile {
    pub path: PathBuf,
    folder: tempfile::TempDir,
}

impl ConfigFile {
    pub fn new(content: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("doublet.toml");
        std::fs::write(&path, content).expect("the folder is writable");
        Self { path, folder }
    }

    /// Returns the sources with this file alone.
    pub fn sources(&self) -> ConfigSources {
        ConfigSources { file: Some(self.path.clone()), ..ConfigSources::default() }
    }

    /// Returns the path of a file beside this one that does not exist.
    pub fn missing_path(&self) -> PathBuf {
        self.folder.path().join("missing.toml")
    }
}

/// Loads a file with the given text.
pub fn load_text(text: &str) -> Result<Config, ConfigError> {
    load(&ConfigFile::new(text).sources())
}

/// Loads a configuration from assignments of the command line.
pub fn load_assignments(assignments: &[&str]) -> Result<Config, ConfigError> {
    load(&ConfigSources { overrides: owned(assignments), ..ConfigSources::default() })
}

pub fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Checks the problems of an invalid configuration, each in the form that people read.
#[track_caller]
pub fn check_problems(loaded: Result<Config, ConfigError>, expected: &[&str]) {
    let error = loaded.expect_err("the configuration is not valid");
    let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, expected);
}

/// Checks the effective value of a key in the form of the file.
#[track_caller]
pub fn check_value(config: &Config, name: &str, expected: &str) {
    let value = config.effective().into_iter().find(|effective| effective.name == name).map(|found| found.value);
    assert_eq!(value.as_deref(), Some(expected), "{name}");
}
