//! Regular files, opened for an import without following links and without waiting.
//!
//! A folder of mail usually belongs to its user, and is imported by an administrator or a server that can read more
//! than this user. A link in the folder could lead to a file of another user, and the open of a pipe or a device could
//! block or have an effect. So an import opens only regular files:
//!
//! - A link is not followed. Below a folder, this is true for every component of the path, even if another program
//!   exchanges folders for links at the same time ([`open_below`]).
//! - The open of a pipe without a writer does not block. The kind of the file is checked after the open, so it is that
//!   of the file that is read.
//!
//! The folders above the path that the operator names may be links. Files of the configuration (keys, certificates)
//! may be links, too, and are read with [`read_limited`](crate::data_folder::read_limited).

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Reason why a path is not read.
pub const NOT_REGULAR: &str = "not a regular file; links, pipes and devices are not read";

/// Flags with which files are opened.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Flags with which the folder above a file is opened.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a regular file for reading. Fails with [`NOT_REGULAR`] for a link, pipe, socket, device or folder.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check_regular(rustix::fs::open(path, READ, Mode::empty()))
}

/// Opens a regular file that was found below the folder `named`, for reading. Fails with [`NOT_REGULAR`] if the file
/// or a folder between the two is a link, or if the file is a pipe, socket, device or folder. Any other path, such as
/// `named` itself, is opened as [`open_regular`] does.
///
/// Before Linux 5.6, only the last component of the path is checked.
pub fn open_below(named: &Path, path: &Path) -> io::Result<File> {
    let Some(inside) = path.strip_prefix(named).ok().filter(|inside| !inside.as_os_str().is_empty()) else {
        return open_regular(path);
    };
    let folder = rustix::fs::open(named, FOLDER, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
    match openat2(&folder, inside, READ, Mode::empty(), resolve) {
        // The kernel, or a filter of system calls around this program, does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_regular(path),
        opened => check_regular(opened),
    }
}

fn check_regular(opened: rustix::io::Result<OwnedFd>) -> io::Result<File> {
    let file = match opened {
        // The errors for a link and for a socket.
        Err(Errno::LOOP | Errno::NXIO) => return Err(not_regular()),
        opened => File::from(opened?),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

fn not_regular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, NOT_REGULAR)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    struct Files {
        folder: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::create_dir_all(folder.path().join("top/deep")).expect("writable");
            std::fs::create_dir(folder.path().join("secret")).expect("writable");
            for name in ["top/file", "top/deep/file", "secret/file"] {
                std::fs::write(folder.path().join(name), name).expect("writable");
            }
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn open(&self, name: &str) -> Result<String, String> {
            text(open_regular(&self.path(name)))
        }

        fn open_below(&self, name: &str) -> Result<String, String> {
            text(open_below(&self.path("top"), &self.path(name)))
        }
    }

    fn text(opened: io::Result<File>) -> Result<String, String> {
        opened.and_then(io::read_to_string).map_err(|error| error.to_string())
    }

    #[test]
    fn only_regular_files_are_opened() {
        let files = Files::new();
        symlink(files.path("secret/file"), files.path("top/link")).expect("writable");
        symlink(files.path("nowhere"), files.path("top/broken")).expect("writable");
        mknodat(CWD, files.path("top/pipe"), FileType::Fifo, Mode::RUSR, 0).expect("writable");
        let _socket = UnixListener::bind(files.path("top/socket")).expect("writable");
        for name in ["top/link", "top/broken", "top/pipe", "top/socket", "top/deep"] {
            assert_eq!(files.open(name), Err(NOT_REGULAR.to_owned()), "{name}");
            assert_eq!(files.open_below(name), Err(NOT_REGULAR.to_owned()), "{name}");
        }
        assert_eq!(files.open("top/file").as_deref(), Ok("top/file"));
        assert_eq!(files.open_below("top/file").as_deref(), Ok("top/file"));
        assert_eq!(files.open_below("top/deep/file").as_deref(), Ok("top/deep/file"));
        let missing = open_below(&files.path("top"), &files.path("top/missing")).expect_err("it is missing");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn no_component_below_the_named_folder_may_be_a_link() {
        let files = Files::new();
        symlink("../secret", files.path("top/away")).expect("writable");
        symlink("deep", files.path("top/inside")).expect("writable");
        for name in ["top/away/file", "top/inside/file"] {
            assert_eq!(files.open_below(name), Err(NOT_REGULAR.to_owned()), "{name}");
        }
        assert!(files.open_below("top/../secret/file").is_err());
        // Folders above the named one are chosen by the operator.
        symlink(files.folder.path(), files.path("way")).expect("writable");
        assert_eq!(text(open_below(&files.path("way/top"), &files.path("way/top/file"))).as_deref(), Ok("top/file"));
        assert_eq!(files.open_below("secret/file").as_deref(), Ok("secret/file"));
    }
}
