//! Data folders: copies of them, and their size.

use std::fs;
use std::io;
use std::path::Path;

/// The deepest nesting of folders that is copied.
const DEPTH_MAX: usize = 32;

/// Copies a folder with its files. File systems that can share the blocks of copies do so. Sockets and pipes are left
/// out.
///
/// # Errors
///
/// If the destination exists, or if something cannot be read or written. What was copied until then is deleted.
pub fn copy(source: &Path, destination: &Path) -> io::Result<()> {
    fs::create_dir(destination)?;
    let copied = copy_contents(source, destination, DEPTH_MAX);
    if copied.is_err() {
        // The error of the copy is more important than one of deleting.
        let _ = fs::remove_dir_all(destination);
    }
    copied
}

fn copy_contents(source: &Path, destination: &Path, depth: usize) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other(format!("{}: folders are nested too deeply", source.display())));
    }
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let target = destination.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            fs::create_dir(&target)?;
            copy_contents(&entry.path(), &target, depth - 1)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    // The mode comes last, because a folder may be read-only.
    fs::set_permissions(destination, fs::metadata(source)?.permissions())
}

/// Returns the disk space of the files in a folder. Files that are deleted meanwhile do not count.
pub fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;

    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { disk_bytes(&entry.path()) } else { metadata.blocks() * 512 })
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn copies_have_the_files_and_modes() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("a");
        fs::create_dir_all(source.join("deep")).expect("the folder can be created");
        fs::write(source.join("deep/file"), vec![1; 10_000]).expect("the file can be written");
        fs::set_permissions(source.join("deep/file"), fs::Permissions::from_mode(0o600)).expect("a mode");
        std::os::unix::fs::symlink("deep/file", source.join("link")).expect("a link");
        let _socket = UnixListener::bind(source.join("socket")).expect("a socket");
        let copied = folder.path().join("b");
        copy(&source, &copied).expect("it can be copied");
        assert_eq!(fs::read(copied.join("link")).expect("the link has a target").len(), 10_000);
        let mode = fs::metadata(copied.join("deep/file")).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!copied.join("socket").exists());
        assert!(disk_bytes(&copied) >= 10_000);
        assert!(copy(&source, &copied).is_err(), "it exists");
        assert!(copied.join("deep/file").exists(), "a folder that was there before is not deleted");
        assert_eq!(disk_bytes(&folder.path().join("none")), 0);
    }

    #[test]
    fn a_copy_that_fails_is_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("a");
        let deep = (0..DEPTH_MAX).fold(source.clone(), |path, _| path.join("d"));
        fs::create_dir_all(&deep).expect("the folders can be created");
        fs::write(source.join("file"), "x").expect("the file can be written");
        let copied = folder.path().join("b");
        let error = copy(&source, &copied).expect_err("it is too deep").to_string();
        assert!(error.ends_with("folders are nested too deeply"), "{error}");
        assert!(!copied.exists());
    }
}
