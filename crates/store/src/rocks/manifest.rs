//! The engine's list of files: the files that a closed store must have, and the removal of sorted files from it.
//!
//! The engine may not notice at start that a file is missing. It reads up to sixteen files, and notices the others
//! when they are used. So the files are checked before the engine opens them. If the list cannot be parsed, they are
//! not checked, because the engine may understand it.
//!
//! A list without its end is an older one: it names files that were replaced since, and lacks the files that replaced
//! them. The engine deletes files that the list lacks as soon as it opens the store, also for a repair. So the message
//! about a missing file names the backup first, and names such a file if there is one.
//!
//! The engine drops files of level 0 only together with the whole level, and a compaction would have to read them. So
//! the removal of a file is appended to the list, as the engine's own tool does it (`ldb unsafe_remove_sst_file`). What
//! is truncated by a crash is the torn tail of a log and is ignored.
//!
//! The list is the manifest: records as in the write-ahead log ([`super::log`]), each an edit
//! ([`super::version_edit`]). `CURRENT` names it.
//!
//! Not included: the content of the files. The caller has saved the readable part of a file before it removes the file.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use base::codec::Encoder;

use super::engine_error::TABLE_FILE_ENDS;
use super::log::{self, BLOCK_BYTES, FIRST, FULL, HEADER_BYTES, LAST, MIDDLE};
use super::placement::CURRENT_FILE;
use super::version_edit::{DELETED_FILE, TABLE, TableChange, VersionEdit};
use crate::engine::{SortedFile, Table};
use crate::error::{Error, Result};
use crate::limits::MANIFEST_READS_MAX;

/// A file that the store must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StoredFile {
    /// Name of the table to which the file belongs.
    pub(super) table: String,
    pub(super) name: String,
    pub(super) size_bytes: u64,
}

/// Refuses a store that lacks a file, or whose file has another size. `accepted` lists the names of files that may be
/// missing.
pub(super) fn check_files(folder: &Path, accepted: &[String]) -> Result<()> {
    let mut before = None;
    for _ in 0..MANIFEST_READS_MAX {
        let is_accepted = |fault: &FileFault| fault.found_bytes.is_none() && accepted.contains(&fault.file.name);
        let expected = live_files(folder).unwrap_or_default();
        let Some(fault) = faults(folder, &expected).into_iter().find(|fault| !is_accepted(fault)) else { break };
        // A process that has the store open may have removed the file after the manifest was read. Then the manifest
        // does not list it any more, and opening the store fails with a better message.
        if before.as_ref() == Some(&fault) {
            let reason = fault.reason(unlisted_file(folder, &expected).as_deref());
            return Err(unusable(&folder.join(&fault.file.name), reason));
        }
        before = Some(fault);
    }
    Ok(())
}

/// Returns the names of the missing files of a table.
pub(super) fn missing_files(folder: &Path, table: Table) -> Vec<String> {
    let is_missing = |fault: &FileFault| fault.found_bytes.is_none() && fault.file.table == table.name();
    let expected = live_files(folder).unwrap_or_default();
    faults(folder, &expected).into_iter().filter(is_missing).map(|fault| fault.file.name).collect()
}

/// A file that is not as the manifest states.
#[derive(PartialEq, Eq)]
struct FileFault {
    file: StoredFile,
    /// Its size; `None` if it is missing.
    found_bytes: Option<u64>,
}

impl FileFault {
    /// Describes the fault and the next step. `unlisted` is a younger file that the manifest lacks, if there is one.
    fn reason(&self, unlisted: Option<&str>) -> String {
        let table = &self.file.table;
        let repair = "stop the server and run `doublet fixup`, which gives up the records of the file";
        match (self.found_bytes, unlisted) {
            (None, Some(unlisted)) => format!(
                "this file of table {table} is missing, and the list of files (MANIFEST) does not contain {unlisted}, so the list may lack \
                 its end: restore a backup; if there is none, copy the folder first, then {repair} and the files that the list lacks"
            ),
            (None, None) => format!(
                "this file of table {table} is missing; bring it back, or restore a backup; if there is none, {repair}"
            ),
            (Some(found), _) => format!(
                "this file of table {table} has {found} bytes instead of {}; bring the complete file back, or restore a backup; if there is \
                 none, {repair}",
                self.file.size_bytes
            ),
        }
    }
}

/// Returns those of the expected files that are not as the manifest states.
fn faults(folder: &Path, expected: &[StoredFile]) -> Vec<FileFault> {
    let fault = |file: &StoredFile| {
        let found_bytes = match fs::metadata(folder.join(&file.name)) {
            Ok(found) => Some(found.len()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            // The engine reports this error when it opens the file.
            Err(_) => return None,
        };
        (found_bytes != Some(file.size_bytes)).then(|| FileFault { file: file.clone(), found_bytes })
    };
    expected.iter().filter_map(fault).collect()
}

/// Returns the name of the youngest file of a table if it is younger than all files that the manifest lists.
///
/// A process that was killed may have left such a file, too, before it was complete.
fn unlisted_file(folder: &Path, expected: &[StoredFile]) -> Option<String> {
    let youngest = expected.iter().filter_map(|file| file_number(&file.name)).max()?;
    let names = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| file_number(name).is_some_and(|number| number > youngest)).max_by_key(|name| file_number(name))
}

/// Returns the number of a file of a table, which is its name.
fn file_number(name: &str) -> Option<u64> {
    TABLE_FILE_ENDS.iter().find_map(|end| name.strip_suffix(*end))?.parse().ok()
}

/// Returns the files that the store in a folder must have. Returns `None` if its manifest cannot be parsed.
pub(super) fn live_files(folder: &Path) -> Option<Vec<StoredFile>> {
    let manifest = manifest_of(folder).ok()?;
    files_of(&fs::read(manifest).ok()?)
}

fn files_of(manifest: &[u8]) -> Option<Vec<StoredFile>> {
    let mut tables = BTreeMap::from([(0, TableFiles { name: "default".to_owned(), ..TableFiles::default() })]);
    let mut group = Vec::new();
    for bytes in edits(manifest)? {
        let edit = VersionEdit::parse(&bytes).ok()?;
        let remaining = edit.remaining;
        if remaining.is_none() && !group.is_empty() {
            return None;
        }
        group.push(edit);
        if remaining.unwrap_or(0) == 0 {
            group.drain(..).try_for_each(|edit| apply(edit, &mut tables))?;
        }
    }
    // A group that is not complete has no effect.
    Some(tables.values().flat_map(TableFiles::live).collect())
}

/// The files of a table.
#[derive(Default)]
struct TableFiles {
    name: String,
    files: BTreeMap<u64, TableFile>,
    values: BTreeMap<u64, ValueFile>,
}

struct TableFile {
    size_bytes: u64,
    oldest_values: Option<u64>,
}

/// A file with separate values.
struct ValueFile {
    size_bytes: u64,
    count: u64,
    garbage_count: u64,
}

/// Ends of the names of files with separate values.
const VALUE_FILE_END: &str = ".blob";

/// Applies an edit. Returns `None` if it does not fit the files before.
fn apply(edit: VersionEdit, tables: &mut BTreeMap<u64, TableFiles>) -> Option<()> {
    match edit.table_change {
        Some(TableChange::Added(name)) => {
            let table = TableFiles { name, ..TableFiles::default() };
            if tables.insert(edit.table, table).is_some() {
                return None;
            }
        }
        Some(TableChange::Dropped) => return tables.remove(&edit.table).map(drop),
        None => {}
    }
    let table = tables.get_mut(&edit.table)?;
    for added in edit.values_added {
        let file = ValueFile { size_bytes: added.size_bytes, count: added.count, garbage_count: 0 };
        table.values.insert(added.number, file);
    }
    for garbage in edit.garbage {
        let file = table.values.get_mut(&garbage.number)?;
        file.garbage_count = file.garbage_count.saturating_add(garbage.count);
    }
    for number in edit.deleted {
        table.files.remove(&number)?;
    }
    for added in edit.added {
        let file = TableFile { size_bytes: added.size_bytes, oldest_values: added.oldest_values };
        table.files.insert(added.number, file);
    }
    Some(())
}

impl TableFiles {
    /// Returns the files that the engine keeps.
    ///
    /// The manifest does not state when a file with separate values is removed. The engine keeps those from the oldest
    /// one on to which a table file refers, except those that are all garbage (`VersionBuilder::SaveBlobFilesTo`).
    fn live(&self) -> Vec<StoredFile> {
        let of_table = |name: String, size_bytes| StoredFile { table: self.name.clone(), name, size_bytes };
        let files = self.files.iter().map(|(number, file)| of_table(format!("{number:06}.sst"), file.size_bytes));
        let referred: BTreeSet<u64> = self.files.values().filter_map(|file| file.oldest_values).collect();
        let oldest = referred.iter().find(|number| self.values.contains_key(*number));
        let values = oldest
            .into_iter()
            .flat_map(|oldest| self.values.range(*oldest..))
            .filter(|(number, file)| referred.contains(*number) || file.garbage_count < file.count);
        let values = values.map(|(number, file)| of_table(format!("{number:06}{VALUE_FILE_END}"), file.size_bytes));
        files.chain(values).collect()
    }
}

/// Removes sorted files from the store in a folder. No process may have the store open. Durable on return.
pub fn remove_files(folder: &Path, files: &[SortedFile]) -> Result<()> {
    let manifest = manifest_of(folder)?;
    let bytes = fs::read(&manifest).map_err(|error| unusable(&manifest, error.to_string()))?;
    let tables = tables(&bytes).ok_or_else(|| unusable(&manifest, "its records are invalid".into()))?;
    let mut added = Vec::new();
    for file in files {
        let Some(table) = tables.get(file.table.name()) else {
            return Err(unusable(&manifest, format!("it does not contain table {}", file.table.name())));
        };
        let mut edit = Encoder::new();
        edit.varint(DELETED_FILE).varint(u64::from(file.level)).varint(file.number);
        edit.varint(TABLE).varint(*table);
        append_record(&edit.finish(), bytes.len(), &mut added);
    }
    let known = edits(&bytes).map_or(0, |edits| edits.len());
    let after = edits(&[&bytes[..], &added[..]].concat()).map(|edits| edits.len());
    assert_eq!(after, Some(known + files.len()), "the engine can read the added records");
    let write = || {
        let mut handle = fs::OpenOptions::new().append(true).open(&manifest)?;
        handle.write_all(&added)?;
        handle.sync_all()
    };
    write().map_err(|error| unusable(&manifest, error.to_string()))
}

fn manifest_of(folder: &Path) -> Result<PathBuf> {
    let current = folder.join(CURRENT_FILE);
    let name = fs::read_to_string(&current).map_err(|error| unusable(&current, error.to_string()))?;
    let name = name.trim_end();
    if !name.starts_with("MANIFEST-") || name.contains('/') {
        return Err(unusable(&current, "it does not name a manifest".into()));
    }
    Ok(folder.join(name))
}

/// Returns the numbers of the existing tables by name, or `None` if a record is damaged.
fn tables(manifest: &[u8]) -> Option<HashMap<String, u64>> {
    let mut tables = HashMap::new();
    for bytes in edits(manifest)? {
        // An edit that cannot be parsed adds no table, because edits that add a table contain only known fields.
        let Ok(edit) = VersionEdit::parse(&bytes) else { continue };
        match edit.table_change {
            Some(TableChange::Added(name)) => drop(tables.insert(name, edit.table)),
            Some(TableChange::Dropped) => tables.retain(|_, known| *known != edit.table),
            None => {}
        }
    }
    Some(tables)
}

/// Assembles the edits from their records. Returns `None` if a record is damaged.
fn edits(manifest: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut edits = Vec::new();
    let mut edit = Vec::new();
    for block in manifest.chunks(BLOCK_BYTES) {
        let mut rest = block;
        while rest.len() >= HEADER_BYTES {
            let (kind, payload) = log::parse_record(rest)?;
            if matches!(kind, FULL | FIRST) {
                edit.clear();
            }
            edit.extend_from_slice(payload);
            match kind {
                FULL | LAST => edits.push(std::mem::take(&mut edit)),
                FIRST | MIDDLE => {}
                _ => return None,
            }
            rest = &rest[HEADER_BYTES + payload.len()..];
        }
    }
    Some(edits)
}

/// Appends a record to `added`, which will follow the first `length` bytes of a log. Splits the record at block ends.
fn append_record(payload: &[u8], length: usize, added: &mut Vec<u8>) {
    let mut rest = payload;
    let mut is_first = true;
    while is_first || !rest.is_empty() {
        let left = BLOCK_BYTES - (length + added.len()) % BLOCK_BYTES;
        assert!((1..=BLOCK_BYTES).contains(&left), "the block has space left, or a new one begins");
        if left < HEADER_BYTES {
            added.resize(added.len() + left, 0);
            continue;
        }
        let (piece, behind) = rest.split_at(rest.len().min(left - HEADER_BYTES));
        let kind = match (is_first, behind.is_empty()) {
            (true, true) => FULL,
            (true, false) => FIRST,
            (false, false) => MIDDLE,
            (false, true) => LAST,
        };
        added.extend_from_slice(&log::encode_record(kind, piece));
        rest = behind;
        is_first = false;
    }
}

fn unusable(path: &Path, reason: String) -> Error {
    Error::Unusable { path: path.to_path_buf(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_across_block_boundaries_are_reassembled() {
        for before in BLOCK_BYTES - 60..BLOCK_BYTES {
            let mut bytes = log::encode_record(FULL, &vec![7; before - HEADER_BYTES]);
            assert_eq!(bytes.len(), before);
            let mut added = Vec::new();
            append_record(b"some edit of a manifest", bytes.len(), &mut added);
            append_record(b"and another", bytes.len(), &mut added);
            bytes.extend_from_slice(&added);
            let found = edits(&bytes).expect("sound");
            assert_eq!(found[1..], [b"some edit of a manifest".to_vec(), b"and another".to_vec()], "{before}");
            *bytes.last_mut().expect("not empty") ^= 1;
            assert_eq!(edits(&bytes), None);
        }
    }

    #[test]
    fn tables_are_read_from_their_creating_edits() {
        let mut bytes = Vec::new();
        let mut add = |edit: &[u8]| {
            let mut added = Vec::new();
            append_record(edit, bytes.len(), &mut added);
            bytes.extend_from_slice(&added);
        };
        add(&[1, 2, b'b', b'w', 200, 1, 5, 201, 1, 1, b'a']);
        add(&[1, 2, b'b', b'w', 200, 1, 6, 201, 1, 1, b'b', 0x81, 0x40, 1, 9]);
        add(&[200, 1, 6, 202, 1]);
        // An edit that cannot be parsed.
        add(&[103, 1, 2, 3]);
        assert_eq!(tables(&bytes), Some(HashMap::from([("a".to_owned(), 5)])));
    }

    /// Returns the files of a manifest as table, name and size.
    fn listed(edits: &[&[u8]]) -> Option<Vec<(String, String, u64)>> {
        let mut bytes = Vec::new();
        for edit in edits {
            let mut added = Vec::new();
            append_record(edit, bytes.len(), &mut added);
            bytes.extend_from_slice(&added);
        }
        let files = files_of(&bytes)?.into_iter();
        Some(files.map(|file| (file.table, file.name, file.size_bytes)).collect())
    }

    /// Returns an edit that adds a table file of ten bytes, with the oldest file of separate values that it refers to.
    fn table_file(number: u8, oldest: u8) -> Vec<u8> {
        vec![103, 0, number, 10, 0, 0, 1, 1, 4, 1, oldest, 1, 200, 1, 5]
    }

    /// Returns an edit that adds a file with three separate values.
    fn value_file(number: u8) -> Vec<u8> {
        vec![0x90, 3, number, 3, 38, 0, 0, 0, 200, 1, 5]
    }

    fn garbage(number: u8, count: u8) -> Vec<u8> {
        vec![0x91, 3, number, count, 1, 0, 200, 1, 5]
    }

    const TABLE_A: &[u8] = &[200, 1, 5, 201, 1, 1, b'a'];

    #[test]
    fn files_are_followed_through_the_edits() {
        let a = |name: &str, size| ("a".to_owned(), name.to_owned(), size);
        let moved = [6, 0, 20, 103, 1, 20, 10, 0, 0, 1, 1, 1, 200, 1, 5];
        let of_default = [103, 0, 30, 7, 0, 0, 1, 1, 1];
        let found =
            listed(&[TABLE_A, &table_file(20, 0), &moved, &table_file(21, 0), &[6, 0, 21, 200, 1, 5], &of_default]);
        let expected = [("default".to_owned(), "000030.sst".to_owned(), 7), a("000020.sst", 10)];
        assert_eq!(found, Some(expected.to_vec()));
        assert_eq!(listed(&[TABLE_A, &table_file(20, 0), &[200, 1, 5, 202, 1]]), Some(Vec::new()));
        assert_eq!(listed(&[&table_file(20, 0)]), None, "the table is unknown");
        assert_eq!(listed(&[TABLE_A, &[6, 0, 20, 200, 1, 5]]), None, "the file is unknown");
    }

    #[test]
    fn value_files_are_expected_while_they_have_values() {
        let names = |edits: &[&[u8]]| -> Vec<String> {
            let files = listed(edits).expect("sound");
            assert!(files.iter().all(|(_, name, size)| *size == if name.ends_with(".sst") { 10 } else { 100 }));
            files.into_iter().map(|(_, name, _)| name).filter(|name| name.ends_with(".blob")).collect()
        };
        let [one, two, three] = [1, 2, 3].map(value_file);
        let oldest = table_file(20, 2);
        assert_eq!(names(&[TABLE_A, &one, &two, &three, &oldest]), ["000002.blob", "000003.blob"]);
        assert_eq!(names(&[TABLE_A, &one, &two, &three]), [""; 0], "no table file refers to them");
        let emptied = [garbage(3, 1), garbage(3, 2), garbage(2, 3)];
        let mut edits: Vec<&[u8]> = vec![TABLE_A, &one, &two, &three, &oldest];
        edits.extend(emptied.iter().map(Vec::as_slice));
        assert_eq!(names(&edits), ["000002.blob"], "a table file still refers to it");
    }

    #[test]
    fn incomplete_group_of_edits_has_no_effect() {
        let member = |number, remaining| [table_file(number, 0), vec![0xAC, 2, remaining]].concat();
        let count = |edits: &[&[u8]]| listed(edits).map(|files| files.len());
        assert_eq!(count(&[TABLE_A, &member(20, 1), &member(21, 0)]), Some(2));
        assert_eq!(count(&[TABLE_A, &member(20, 1)]), Some(0));
        assert_eq!(count(&[TABLE_A, &member(20, 1), &table_file(21, 0)]), None);
    }
}
