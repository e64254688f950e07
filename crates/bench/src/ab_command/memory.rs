//! Folders in memory for settings that name one with `{memory}`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bench::target::folder;

/// The placeholder of a setting.
const PLACEHOLDER: &str = "{memory}";
/// The file system in memory that Linux has.
const MEMORY: &str = "/dev/shm";

/// A folder in memory. It is deleted when this is dropped.
#[derive(Debug)]
pub struct MemoryFolder {
    path: PathBuf,
}

impl MemoryFolder {
    /// Creates a folder if one of some words names it: a copy of another one, or an empty one.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn for_words(words: &[String], name: &str, source: Option<&Self>) -> io::Result<Option<Self>> {
        if !words.iter().any(|word| word.contains(PLACEHOLDER)) {
            return Ok(None);
        }
        let path = Path::new(MEMORY).join(format!("doublet-bench-{}-{name}", std::process::id()));
        match source {
            Some(source) => folder::copy(&source.path, &path)?,
            None => fs::create_dir(&path)?,
        }
        Ok(Some(Self { path }))
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        // What cannot be deleted is still there for the person who looks at the machine.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Replaces the placeholder in words.
pub fn replaced(words: &[String], folder: Option<&MemoryFolder>) -> Vec<String> {
    let path = folder.map(|folder| folder.path.display().to_string()).unwrap_or_default();
    words.iter().map(|word| word.replace(PLACEHOLDER, &path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_as_long_as_a_setting_names_them() {
        let words = |word: &str| vec!["--server-set".to_owned(), word.to_owned()];
        assert!(MemoryFolder::for_words(&words("a=b"), "none", None).expect("nothing is created").is_none());
        let named = words("store.log_folder={memory}/log");
        let one = MemoryFolder::for_words(&named, "one", None).expect("there is memory").expect("it is named");
        fs::write(one.path.join("file"), "x").expect("it can be written");
        let other = MemoryFolder::for_words(&named, "other", Some(&one)).expect("there is memory").expect("named");
        assert_eq!(fs::read(other.path.join("file")).expect("it is copied"), b"x");
        let path = other.path.clone();
        assert_eq!(replaced(&named, Some(&other))[1], format!("store.log_folder={}/log", path.display()));
        drop(other);
        assert!(!path.exists());
    }
}
