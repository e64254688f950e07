//! Conversion of the engine's errors.
//!
//! The engine reports a class and a text. The text names the file that is concerned, and is the only source for it. The
//! errors made from it state which object is concerned and what the operator can do.

use std::path::Path;

use rocksdb::ErrorKind;

use super::manifest;
use crate::error::Error;

/// Ends of the names of files that hold the content of tables.
pub(super) const TABLE_FILE_ENDS: [&str; 2] = [".sst", ".blob"];

/// Converts an engine error that does not concern a key.
pub(super) fn failure(what: &'static str, error: &rocksdb::Error) -> Error {
    failure_of_text(what, error.to_string())
}

fn failure_of_text(what: &'static str, reason: String) -> Error {
    if is_no_space(&reason) { Error::Full(reason) } else { Error::Failed { what, reason } }
}

/// Converts an error that prevents the store in a folder from being opened. `logs` is the folder of its log.
pub(super) fn opening_failure(folder: &Path, logs: &Path, kind: &ErrorKind, text: &str) -> Error {
    if text.contains("lock hold by current process") || text.contains("LOCK: Resource temporarily unavailable") {
        return Error::Locked { path: folder.to_path_buf() };
    }
    if *kind != ErrorKind::Corruption && !is_missing(text) {
        return failure_of_text("open the store", text.to_owned());
    }
    if let Some(error) = log_loss(logs, text) {
        return error;
    }
    let Some(name) = numbered_file(text, &TABLE_FILE_ENDS) else {
        let reason = unnamed_damage(text, manifest::live_files(folder).is_some());
        return Error::Unusable { path: folder.to_path_buf(), reason };
    };
    let files = manifest::live_files(folder).unwrap_or_default();
    let table = files.iter().find(|file| file.name == name).map(|file| format!(" of table {}", file.table));
    let reason = format!(
        "this file{} is missing or damaged; restore a backup into a new folder ({})",
        table.unwrap_or_default(),
        without_manifest(text)
    );
    Error::Unusable { path: folder.join(name), reason }
}

/// Converts the engine's report of a log that is missing or too short. Returns `None` if the text is another one.
///
/// The engine compares the logs with the manifest, which lists all logs before the youngest one that are still needed
/// (`WalSet::CheckWals`). It refuses such a store whatever [`super::DamagedLog`] says: the younger logs would continue
/// after a gap.
fn log_loss(logs: &Path, text: &str) -> Option<Error> {
    let loss = "mount the device of the log or bring the complete file back, else restore a backup";
    let (number, reason) = if let Some((_, behind)) = text.split_once("Missing WAL with log number: ") {
        (leading_number(behind)?, format!("this log is missing, and acknowledged changes with it; {loss}"))
    } else {
        let (_, behind) = text.split_once("Size mismatch: WAL (log number: ")?;
        let reason = format!("this log is shorter than it was synced, so acknowledged changes are missing; {loss}");
        (leading_number(behind)?, reason)
    };
    Some(Error::Unusable { path: logs.join(format!("{number:06}.log")), reason: format!("{reason} ({text})") })
}

/// Parses the number at the start of a text.
fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Describes damage for which the engine names no file of a table. It then names the manifest, which it was reading.
fn unnamed_damage(text: &str, is_manifest_intact: bool) -> String {
    let cause = without_manifest(text);
    let (what, reason) = if is_manifest_intact && cause.len() < text.len() {
        ("a file of a table is damaged, and the storage engine does not state which", cause)
    } else {
        ("a file of the store is missing or damaged", text)
    };
    format!("{what}; restore a backup into a new folder ({reason})")
}

/// Removes the sentence about the manifest that the engine appends to the text of any damage that it finds while it
/// reads the manifest, also of damage in another file.
fn without_manifest(text: &str) -> &str {
    match text.rsplit_once(" The file ") {
        Some((cause, sentence)) if sentence.contains("MANIFEST-") && sentence.ends_with(" may be corrupted.") => {
            cause.trim_end()
        }
        _ => text,
    }
}

/// Returns the name of the first file in a text whose name is a number with one of the given ends.
fn numbered_file<'text>(text: &'text str, ends: &[&str]) -> Option<&'text str> {
    let position = |end: &&str| {
        text.match_indices(*end).find_map(|(at, found)| {
            let digits = text[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
            let behind = at + found.len();
            let is_end_of_name = !text[behind..].starts_with(|c: char| c.is_ascii_alphanumeric());
            (digits > 0 && is_end_of_name).then_some((at - digits, behind))
        })
    };
    let (start, behind) = ends.iter().filter_map(position).min()?;
    Some(&text[start..behind])
}

/// Returns `true` if a read error means that the bytes are lost. A read refused by the disk may be temporary, so it
/// counts as damage only during a repair (`is_quiet`). A file that cannot be opened for lack of file descriptors is not
/// damaged.
pub(super) fn is_damage(kind: &ErrorKind, text: &str, is_quiet: bool) -> bool {
    match kind {
        ErrorKind::Corruption => true,
        ErrorKind::IOError => is_missing(text) || is_quiet && !is_no_space(text) && !is_out_of_descriptors(text),
        _ => false,
    }
}

/// Returns the description of lost bytes from the engine's text, which remains in it.
pub(super) fn damage_reason(text: String) -> String {
    match numbered_file(&text, &TABLE_FILE_ENDS) {
        Some(name) if is_missing(&text) => format!("the file {name} is missing ({text})"),
        _ => text,
    }
}

/// Returns `true` if an error means that a file does not exist.
fn is_missing(text: &str) -> bool {
    text.contains("No such file or directory")
}

/// Returns `true` if the process or the system has no free file descriptors.
fn is_out_of_descriptors(text: &str) -> bool {
    text.contains("Too many open files")
}

pub(super) fn is_no_space(text: &str) -> bool {
    text.contains("No space left on device") || text.contains("NoSpace") || text.contains("Disk quota exceeded")
}

/// Returns `true` if the disk was full during a write to the log.
///
/// The engine has then lost its buffer of the log, or cannot begin a new log, and does not resume by itself. After a
/// full disk anywhere else it does.
pub(super) fn is_log_full(text: &str) -> bool {
    is_no_space(text) && numbered_file(text, &[".log"]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the path and the reason of an error for a store in a folder that does not exist.
    fn check(text: &str, path: &str, expected: &str) {
        let error = opening_failure(Path::new("/store"), Path::new("/logs"), &ErrorKind::Corruption, text);
        let Error::Unusable { path: found, reason } = error else { panic!("{text}: {error}") };
        assert_eq!((found.as_path(), reason.as_str()), (Path::new(path), expected));
    }

    #[test]
    fn damage_is_reported_for_the_file_that_has_it() {
        let manifest = "  The file /store/MANIFEST-000005 may be corrupted.";
        for cause in [
            "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /store/000012.sst offset 9 size 8",
            "Corruption: Bad table magic number: expected 9863518390377041911, found 0 in /store/000012.sst",
            "Corruption: file is too short (0 bytes) to be an sstable: /store/000012.sst",
        ] {
            let expected = format!("this file is missing or damaged; restore a backup into a new folder ({cause})");
            check(&format!("{cause}{manifest}"), "/store/000012.sst", &expected);
            check(cause, "/store/000012.sst", &expected);
        }
    }

    #[test]
    fn damage_of_the_manifest_is_reported_as_such() {
        let text = "Corruption: checksum mismatch  The file /store/MANIFEST-000005 may be corrupted.";
        let expected =
            format!("a file of the store is missing or damaged; restore a backup into a new folder ({text})");
        check(text, "/store", &expected);
    }

    #[test]
    fn damage_without_a_name_is_reported_for_an_unknown_table() {
        let cause = "Corruption: properties unsorted";
        let text = format!("{cause}  The file /store/MANIFEST-000005 may be corrupted.");
        let expected = format!(
            "a file of a table is damaged, and the storage engine does not state which; restore a backup into a new folder ({cause})"
        );
        assert_eq!(unnamed_damage(&text, true), expected);
        for (text, is_manifest_intact) in [(text.as_str(), false), (cause, true)] {
            let expected =
                format!("a file of the store is missing or damaged; restore a backup into a new folder ({text})");
            assert_eq!(unnamed_damage(text, is_manifest_intact), expected);
        }
    }

    #[test]
    fn lost_logs_are_named() {
        let advice = "mount the device of the log or bring the complete file back, else restore a backup";
        let text = "Corruption: Missing WAL with log number: 457.";
        let expected = format!("this log is missing, and acknowledged changes with it; {advice} ({text})");
        check(text, "/logs/000457.log", &expected);
        let text =
            "Corruption: Size mismatch: WAL (log number: 12) in MANIFEST is 9 bytes , but actually is 8 bytes on disk.";
        let expected =
            format!("this log is shorter than it was synced, so acknowledged changes are missing; {advice} ({text})");
        check(text, "/logs/000012.log", &expected);
        let text = "Corruption: Missing WAL with log number: ";
        let expected =
            format!("a file of the store is missing or damaged; restore a backup into a new folder ({text})");
        check(text, "/store", &expected);
    }

    #[test]
    fn other_failures_to_open_are_distinguished() {
        let error = |kind, text| opening_failure(Path::new("/store"), Path::new("/logs"), &kind, text);
        let locked = "IO error: While lock file: /store/LOCK: Resource temporarily unavailable";
        assert!(matches!(error(ErrorKind::IOError, locked), Error::Locked { .. }));
        let missing = "IO error: No such file or directory: While open a file for random read: /store/000012.sst: No such file or directory";
        let missing = error(ErrorKind::IOError, missing).to_string();
        assert!(missing.starts_with("/store/000012.sst: this file is missing or damaged"), "{missing}");
        let full = "IO error: No space left on device: While appending to file: /store/MANIFEST-000009";
        assert!(matches!(error(ErrorKind::IOError, full), Error::Full(_)));
        let other = "IO error: While pread: /store/000012.sst: Input/output error";
        assert!(matches!(error(ErrorKind::IOError, other), Error::Failed { what: "open the store", .. }));
    }

    #[test]
    fn file_names_are_found_in_texts() {
        for (text, expected) in [
            ("in /a.sst/000012.sst offset 1", Some("000012.sst")),
            ("While open: /a/7.blob: no", Some("7.blob")),
            ("/a/7.blob and /a/8.sst", Some("7.blob")),
            ("/a/000012.sstx, /a/x.sst, .sst", None),
            ("/a/MANIFEST-000012", None),
        ] {
            assert_eq!(numbered_file(text, &TABLE_FILE_ENDS), expected, "{text}");
        }
    }

    #[test]
    fn lost_bytes_are_distinguished_from_unreadable_ones() {
        let check = |kind, text, expected: [bool; 2]| {
            assert_eq!([false, true].map(|is_quiet| is_damage(&kind, text, is_quiet)), expected, "{text}");
        };
        check(ErrorKind::Corruption, "Corruption: block checksum mismatch", [true, true]);
        let missing = "IO error: No such file or directory: While open a file for random read: 12.sst: No such file";
        check(ErrorKind::IOError, missing, [true, true]);
        let unreadable = "IO error: While pread offset 0 len 8192: 000012.sst: Input/output error";
        check(ErrorKind::IOError, unreadable, [false, true]);
        check(ErrorKind::IOError, "IO error: No space left on device", [false, false]);
        let unopened = "IO error: While open a file for random read: 000012.sst: Too many open files";
        check(ErrorKind::IOError, unopened, [false, false]);
        check(ErrorKind::IOError, "IO error: 000012.sst: Too many open files in system", [false, false]);
        check(ErrorKind::Busy, "Resource busy: ", [false, false]);
    }

    #[test]
    fn full_disk_is_distinguished_from_other_failures() {
        for (text, is_full, is_final) in [
            ("IO error: No space left on device: While appending to file: /a.log/000012.sst: x", true, false),
            ("IO error: No space left on device: While appending to file: /a/000012.log: x", true, true),
            ("IO error: No space left on device: While open a file for appending: /a/000012.log: x", true, true),
            ("IO error: Disk quota exceeded: x", true, false),
            ("IO error: Input/output error: /a/000012.log", false, false),
        ] {
            assert_eq!((is_no_space(text), is_log_full(text)), (is_full, is_final), "{text}");
        }
    }
}
