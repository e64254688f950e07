//! Removal of sorted files from a closed store.
//!
//! The engine drops files of level 0 only together with the whole level, and a compaction would have to read them. The
//! engine reads its list of files from its manifest, which is a log of edits. So the removal of a file is appended to
//! that log as an edit, as the engine's own tool does it (`ldb unsafe_remove_sst_file`). An edit truncated by a crash
//! is the torn tail of a log and is ignored.
//!
//! The format of the manifest is RocksDB's: records as in the write-ahead log ([`super::log`]), each an edit of tagged
//! fields. Tag 6 with level and number is a removed file, tag 200 with a number selects a table, tag 201 with a name
//! adds that table, and tag 202 drops it. Numbers are varints.
//!
//! Not included: the content of the files. The caller has saved the readable part of a file before it removes the file.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use base::codec::{Decoder, Encoder, InvalidRecord};

use super::log::{self, BLOCK_BYTES, FIRST, FULL, HEADER_BYTES, LAST, MIDDLE};
use super::placement::CURRENT_FILE;
use crate::engine::SortedFile;
use crate::error::{Error, Result};

const COMPARATOR: u64 = 1;
const COMPACT_CURSOR: u64 = 5;
const DELETED_FILE: u64 = 6;
const TABLE: u64 = 200;
const TABLE_ADDED: u64 = 201;
const TABLE_DROPPED: u64 = 202;
/// Tags with a single number: log and file numbers, sequence number, greatest table number, number of remaining edits
/// in a group.
const NUMBERS: [u64; 7] = [2, 3, 4, 9, 10, 203, 300];
/// First of the tags that are followed by a length, so that a reader which does not know them can skip them.
const SKIPPABLE: u64 = 1 << 13;

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
    for edit in edits(manifest)? {
        // An edit that cannot be parsed to its end adds no table, because edits that add a table contain only known
        // fields.
        let Ok((number, change)) = table_change(&edit) else { continue };
        match change {
            Some(TableChange::Added(name)) => drop(tables.insert(name, number)),
            Some(TableChange::Dropped) => tables.retain(|_, known| *known != number),
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

enum TableChange {
    Added(String),
    Dropped,
}

/// Returns the number of the table that an edit concerns, and whether the edit adds or drops the table.
fn table_change(edit: &[u8]) -> std::result::Result<(u64, Option<TableChange>), InvalidRecord> {
    let mut input = Decoder::new(edit);
    let mut table = 0;
    let mut change = None;
    while !input.rest().is_empty() {
        match input.varint()? {
            TABLE => table = input.varint()?,
            TABLE_ADDED => change = Some(TableChange::Added(input.text()?.to_owned())),
            TABLE_DROPPED => change = Some(TableChange::Dropped),
            DELETED_FILE => {
                input.varint()?;
                input.varint()?;
            }
            COMPACT_CURSOR => {
                input.varint()?;
                input.bytes()?;
            }
            tag if NUMBERS.contains(&tag) => drop(input.varint()?),
            tag if tag == COMPARATOR || tag >= SKIPPABLE => drop(input.bytes()?),
            _ => return Err(InvalidRecord),
        }
    }
    Ok((table, change))
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
        // An edit that adds a file. It is not parsed.
        add(&[103, 1, 2, 3]);
        assert_eq!(tables(&bytes), Some(HashMap::from([("a".to_owned(), 5)])));
    }
}
