//! Mail files on disk: the mapping between mailbox names and file names, and directory listings.
//!
//! A mailbox `Work/2026` is the file `Work/2026.mbox`, or the folder `Work/2026` of single files. Characters that a
//! file name cannot hold, or that would have a meaning there, are written as `%` with two hexadecimal digits, and only
//! characters written this way are decoded. In file names from other programs, a Thunderbird folder `Work.sbd` is the
//! mailbox level `Work`.
//!
//! The files and folders created here hold mail, so only their owner may read them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base::limits::FOLDER_NAME_BYTES_MAX;
use base::{Timestamp, ascii_case};
use mail::mailbox::canonical_name;

use super::AdminError;

/// Maximum nesting depth of folders that is searched.
const FOLDER_DEPTH_MAX: usize = 16;

/// Suffixes with a meaning in file names. A mailbox level that ends with one of them is escaped.
const SPECIAL_SUFFIXES: [&str; 5] = [".mbox", ".mbx", ".sbd", ".eml", ".jsonl"];

/// A file with the metadata read when its folder was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Path of the file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// Time of the last modification, if known.
    pub modified: Option<Timestamp>,
}

impl FileEntry {
    /// Reads the metadata of one file. Those of a link are its own.
    pub fn read(path: &Path) -> Self {
        let facts = std::fs::symlink_metadata(path).ok();
        let modified = facts.as_ref().and_then(|facts| facts.modified().ok()).map(timestamp);
        Self { path: path.to_owned(), size: facts.map_or(0, |facts| facts.len()), modified }
    }

    /// Returns the name of the file without its folder.
    #[must_use]
    pub fn name(&self) -> String {
        display_name(&self.path)
    }
}

/// The files found in folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileListing {
    /// The regular files, those of each folder in the order of their names.
    pub files: Vec<FileEntry>,
    /// Paths of links, pipes, sockets and devices. They are not read.
    pub others: Vec<PathBuf>,
}

/// Lists the files of a folder.
pub fn files_of(folder: &Path) -> Result<FileListing, AdminError> {
    let mut found = FileListing::default();
    list_folder(folder, &mut found)?;
    Ok(found)
}

/// Lists the files of a folder and its subfolders.
pub fn files_below(folder: &Path) -> Result<FileListing, AdminError> {
    let mut found = FileListing::default();
    let mut waiting = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        let folders = list_folder(&folder, &mut found)?;
        if depth < FOLDER_DEPTH_MAX {
            waiting.extend(folders.into_iter().rev().map(|folder| (folder, depth + 1)));
        }
    }
    Ok(found)
}

/// Adds the files of a folder to `found`, and returns its subfolders.
fn list_folder(folder: &Path, found: &mut FileListing) -> Result<Vec<PathBuf>, AdminError> {
    let mut files = Vec::new();
    let mut others = Vec::new();
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(AdminError::file(folder))? {
        let entry = entry.map_err(AdminError::file(folder))?;
        let path = entry.path();
        // The kind of a link is not that of its target.
        let kind = entry.file_type().map_err(AdminError::file(&path))?;
        if kind.is_dir() {
            folders.push(path);
        } else if kind.is_file() {
            files.push(FileEntry::read(&path));
        } else {
            others.push(path);
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    others.sort();
    folders.sort();
    found.files.append(&mut files);
    found.others.append(&mut others);
    Ok(folders)
}

/// Returns `true` if a path is a folder. A link to a folder is none.
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir())
}

/// Returns the mailbox name for an mbox file below a folder.
#[must_use]
pub fn mailbox_of_mbox(top: &Path, file: &Path) -> String {
    let mut levels = path_levels(top, file);
    if let Some(last) = levels.last_mut() {
        let bare = [".mbox", ".mbx"].iter().find_map(|ending| without_ending(last, ending)).map(str::to_owned);
        *last = bare.unwrap_or_else(|| last.clone());
    }
    mailbox_of(levels)
}

/// Returns the mailbox name for a folder of single files below another folder.
#[must_use]
pub fn mailbox_of_folder(top: &Path, folder: &Path) -> String {
    mailbox_of(path_levels(top, folder))
}

/// Converts a foreign name into a valid mailbox name.
#[must_use]
pub fn sanitized_mailbox_name(name: &str) -> String {
    let levels: Vec<&str> = name.split('/').filter(|level| !level.is_empty()).collect();
    let mut name = levels.join("/").replace(char::is_control, "_");
    name.truncate(name.floor_char_boundary(FOLDER_NAME_BYTES_MAX));
    let name = name.trim_end_matches('/');
    if name.is_empty() { "INBOX".to_owned() } else { canonical_name(name) }
}

/// Returns the relative path of a mailbox's folder or, with a suffix, of its file.
#[must_use]
pub fn mailbox_path(mailbox: &str, ending: &str) -> PathBuf {
    let mut path: PathBuf = mailbox.split('/').map(escape).collect();
    path.as_mut_os_string().push(ending);
    path
}

fn path_levels(top: &Path, path: &Path) -> Vec<String> {
    let way = path.strip_prefix(top).unwrap_or(path);
    way.components().map(|level| level.as_os_str().to_string_lossy().into_owned()).collect()
}

fn mailbox_of(levels: Vec<String>) -> String {
    let bare = |level: &String| unescape(without_ending(level, ".sbd").unwrap_or(level)).replace('/', "_");
    sanitized_mailbox_name(&levels.iter().map(bare).collect::<Vec<_>>().join("/"))
}

/// Returns a name without its ending. Returns `None` if it has another one, or consists only of it.
#[must_use]
pub fn without_ending<'a>(name: &'a str, ending: &str) -> Option<&'a str> {
    ascii_case::strip_suffix(name, ending).filter(|start| !start.is_empty())
}

/// Encodes one level of a mailbox name as a file name.
fn escape(level: &str) -> String {
    let dot = SPECIAL_SUFFIXES.iter().find_map(|ending| without_ending(level, ending)).map(str::len);
    let mut name = String::with_capacity(level.len());
    for (place, c) in level.char_indices() {
        let means_something = c == '.' && (place == 0 || Some(place) == dot);
        if c == '%' || c.is_ascii_control() || means_something {
            name.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            name.push(c);
        }
    }
    name
}

/// Decodes a name written by [`escape`]. Other percent signs stay as they are.
fn unescape(name: &str) -> String {
    let mut level = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        level.push_str(before);
        let digits =
            after.get(..2).filter(|digits| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F')));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| matches!(byte, b'%' | b'.' | 0..=31 | 127)) {
            Some(byte) => {
                level.push(char::from(byte));
                rest = &after[2..];
            }
            None => {
                level.push('%');
                rest = after;
            }
        }
    }
    level.push_str(rest);
    level
}

/// Returns the last component of a path, for display.
#[must_use]
pub fn display_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Creates a file that only its owner can access. The file must not exist yet.
pub fn create(path: &Path) -> Result<File, AdminError> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(AdminError::file(path))
}

/// Creates a folder and its missing parents, with access for their owner only. An existing folder stays as it is.
pub fn make_folder(path: &Path) -> Result<(), AdminError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(AdminError::file(path))
}

/// Converts a timestamp into a time of the file system.
#[must_use]
pub fn system_time(at: Timestamp) -> SystemTime {
    let distance = std::time::Duration::from_micros(at.0.unsigned_abs());
    let moment = if at.0 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    moment.unwrap_or(UNIX_EPOCH)
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp::default().after(since),
        Err(before) => Timestamp::default().before(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailboxes_are_named_after_files_and_folders() {
        let top = Path::new("/top");
        let check = |path: &str, expected: &str| assert_eq!(mailbox_of_mbox(top, Path::new(path)), expected);
        check("/top/Inbox.mbox", "INBOX");
        check("/top/Inbox", "INBOX");
        check("/top/Inbox.sbd/Sub", "INBOX/Sub");
        check("/top/Work/2026.mbox", "Work/2026");
        check("/top/Work/2026.MBX", "Work/2026");
        check("/top/a.2023", "a.2023");
        check("/top/Sub.v1.2.mbox", "Sub.v1.2");
        check("/top/100%25.mbox", "100%");
        check("/top/100%20%.mbox", "100%20%");
        check("/top/a\u{7}.mbox", "a_");
        check("/top/.mbox", ".mbox");
        assert_eq!(mailbox_of_folder(top, Path::new("/top/a.2024")), "a.2024");
        assert_eq!(
            (sanitized_mailbox_name("a//b/"), sanitized_mailbox_name("/"), sanitized_mailbox_name("iNBOX/x")),
            ("a/b".into(), "INBOX".into(), "INBOX/x".into())
        );
        assert_eq!(sanitized_mailbox_name(&"\u{fc}".repeat(1_000)).len(), FOLDER_NAME_BYTES_MAX);
    }

    #[test]
    fn export_paths_round_trip_and_stay_inside_the_folder() {
        let top = Path::new("/top");
        let check = |mailbox: &str, expected: &str| {
            assert_eq!(mailbox_path(mailbox, ".mbox"), Path::new(&format!("{expected}.mbox")), "{mailbox}");
            assert_eq!(mailbox_of_mbox(top, &top.join(mailbox_path(mailbox, ".mbox"))), mailbox, "{mailbox}");
            assert_eq!(mailbox_of_folder(top, &top.join(mailbox_path(mailbox, ""))), mailbox, "{mailbox}");
        };
        check("INBOX", "INBOX");
        check("Work/2026", "Work/2026");
        check("Work.2026", "Work.2026");
        check("../../etc", "%2E./%2E./etc");
        check("a.mbox/b.eml", "a%2Embox/b%2Eeml");
        check("flags.jsonl", "flags%2Ejsonl");
        check("100%25", "100%2525");
        check("Entw\u{fc}rfe", "Entw\u{fc}rfe");
    }

    #[test]
    fn files_below_lists_files_before_subfolders() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b", "a/z", "a/c/d", "c"] {
            let path = folder.path().join(name);
            make_folder(path.parent().expect("it has one")).expect("writable");
            create(&path).expect("it is new");
        }
        let found = files_below(folder.path()).expect("readable");
        let paths: Vec<_> =
            found.files.iter().map(|found| found.path.strip_prefix(folder.path()).expect("below")).collect();
        assert_eq!(paths, ["b", "c", "a/z", "a/c/d"].map(Path::new));
        assert_eq!(files_of(folder.path()).expect("readable").files.len(), 2);
    }

    #[test]
    fn links_are_listed_apart_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().join("top");
        make_folder(&top).expect("writable");
        create(&folder.path().join("elsewhere")).expect("it is new");
        create(&top.join("file")).expect("it is new");
        for (target, link) in [("elsewhere", "top/b"), ("nowhere", "top/a"), ("", "top/c")] {
            std::os::unix::fs::symlink(folder.path().join(target), folder.path().join(link)).expect("writable");
        }
        let found = files_below(&top).expect("readable");
        assert_eq!(found.files, [FileEntry::read(&top.join("file"))]);
        assert_eq!(found.others, ["a", "b", "c"].map(|name| top.join(name)));
        assert!(is_folder(&top) && !is_folder(&top.join("c")) && !is_folder(&top.join("file")));
    }

    #[test]
    fn file_times_round_trip() {
        for micros in [0, 1_700_000_000_000_001, -5] {
            assert_eq!(timestamp(system_time(Timestamp(micros))), Timestamp(micros));
        }
    }
}
