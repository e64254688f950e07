//! The manifest of a backup: the files of the store, their lengths and their hashes.
//!
//! A manifest consists of a magic number, a version, the files of the store, the files beside it, the fingerprint of
//! the key of encrypted attachments, and the BLAKE3 hash of everything before it. A truncated or changed manifest is
//! refused. Names of the store's files are plain names, and names of the files beside it are relative paths without
//! `..`, so that a restore cannot write outside its folder. Version 1 ended after the files of the store.

use std::fmt;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::hex;

use super::BackupProgress;

const MAGIC: &[u8; 8] = b"doubletb";
const VERSION: u8 = 2;
const VERSION_WITHOUT_DATA_FILES: u8 = 1;
const NAME_BYTES_MAX: usize = 255;

/// A file of a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManifestEntry {
    /// Name of the file in the folder of the store, or path of a file beside it.
    pub name: String,
    /// Length of the file in bytes.
    pub length: u64,
    /// Modification time in nanoseconds since 1970. Used to decide whether the file must be copied again.
    pub modified_ns: i64,
    /// BLAKE3 hash of the content.
    pub hash: [u8; 32],
}

impl ManifestEntry {
    /// Returns the name of the object in the target that holds the content.
    #[must_use]
    pub fn object_name(&self) -> String {
        hex::lower(&self.hash)
    }
}

/// The list of files that make up a backup.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    /// The files of the store.
    pub files: Vec<ManifestEntry>,
    /// The files of the data folder beside the store, and the encrypted key files.
    pub data_files: Vec<ManifestEntry>,
    /// The fingerprint of the key of encrypted attachments, or `None` if they are not encrypted.
    pub key_fingerprint: Option<[u8; 32]>,
    /// Set if the manifest does not say whether attachments are encrypted: it is of version 1. Never encoded.
    pub encryption_unknown: bool,
}

impl Manifest {
    /// Returns the encoded manifest.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.raw(MAGIC).u8(VERSION);
        encode_entries(&mut encoder, &self.files);
        encode_entries(&mut encoder, &self.data_files);
        encoder.bytes(self.key_fingerprint.as_ref().map_or(&[], |fingerprint| fingerprint));
        let mut bytes = encoder.finish();
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes
    }

    /// Returns the total size of the files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.length))
    }

    pub(super) fn start(&self) -> BackupProgress {
        BackupProgress { files_total: self.files.len() as u64, bytes_total: self.bytes(), ..BackupProgress::default() }
    }
}

/// Adds a processed file to the progress.
pub(super) fn advance(progress: &mut BackupProgress, entry: &ManifestEntry) {
    progress.files += 1;
    progress.bytes = progress.bytes.saturating_add(entry.length);
}

/// The reason why a manifest cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ManifestError {
    /// The bytes are not a manifest, or a newer program wrote them.
    Unknown,
    /// The manifest is truncated or changed.
    Damaged,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "not a backup manifest in a format that this program supports",
            Self::Damaged => "the manifest is damaged",
        })
    }
}

impl std::error::Error for ManifestError {}

impl From<InvalidRecord> for ManifestError {
    fn from(_: InvalidRecord) -> Self {
        Self::Damaged
    }
}

/// Parses a manifest. Accepts arbitrary bytes and does not panic.
pub fn decode_manifest(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let mut decoder = Decoder::new(bytes);
    if decoder.raw(MAGIC.len()) != Ok(&MAGIC[..]) {
        return Err(ManifestError::Unknown);
    }
    let version = decoder.u8().map_err(|_| ManifestError::Unknown)?;
    if version != VERSION && version != VERSION_WITHOUT_DATA_FILES {
        return Err(ManifestError::Unknown);
    }
    let (content, hash) = bytes.split_last_chunk::<32>().ok_or(ManifestError::Damaged)?;
    if blake3::hash(content).as_bytes() != hash {
        return Err(ManifestError::Damaged);
    }
    let mut manifest = Manifest { files: decode_entries(&mut decoder, is_plain)?, ..Manifest::default() };
    manifest.encryption_unknown = version == VERSION_WITHOUT_DATA_FILES;
    if version == VERSION {
        manifest.data_files = decode_entries(&mut decoder, is_relative_path)?;
        manifest.key_fingerprint = match decoder.bytes()? {
            [] => None,
            bytes => Some(bytes.try_into().map_err(|_| ManifestError::Damaged)?),
        };
    }
    if decoder.rest().len() == hash.len() { Ok(manifest) } else { Err(ManifestError::Damaged) }
}

/// Returns `true` if a name is a relative path that stays within its folder.
pub(super) fn is_relative_path(name: &str) -> bool {
    name.split('/').all(is_plain)
}

fn encode_entries(encoder: &mut Encoder, entries: &[ManifestEntry]) {
    encoder.varint(entries.len() as u64);
    for entry in entries {
        encoder.text(&entry.name).u64(entry.length).i64(entry.modified_ns).raw(&entry.hash);
    }
}

fn decode_entries(
    decoder: &mut Decoder<'_>,
    is_valid_name: fn(&str) -> bool,
) -> Result<Vec<ManifestEntry>, ManifestError> {
    let count = decoder.count()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let name = decoder.text()?.to_owned();
        let entry = ManifestEntry { name, length: decoder.u64()?, modified_ns: decoder.i64()?, hash: decoder.array()? };
        if !is_valid_name(&entry.name) {
            return Err(ManifestError::Damaged);
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn is_plain(name: &str) -> bool {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    fits && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}
