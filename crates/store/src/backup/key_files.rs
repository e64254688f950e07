//! The key files of a backup: files with keys and certificates, encrypted with a passphrase.
//!
//! An encrypted file consists of a header (magic number, version, the cost of Argon2id, salt, nonce) and a list of
//! files, encrypted with AES-256-GCM-SIV. The key is the Argon2id hash (RFC 9106) of the passphrase. The header is
//! authenticated too, so nothing can be changed without the passphrase. Salt and nonce are random and new for every
//! backup. The format is described in `docs/store-format.md`.
//!
//! The cost in a header is compared with the limits before it is paid, because a backup may come from anybody.

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use argon2::{Algorithm, Argon2, Params, Version};
use base::Random;
use base::codec::{Decoder, Encoder, InvalidRecord};

use super::DataFile;
use crate::limits::{PASSPHRASE_CHARACTERS_MIN, PASSPHRASE_MEMORY_KIB_MAX, PASSPHRASE_PASSES_MAX};

const MAGIC: &[u8; 8] = b"doubletk";
const VERSION: u8 = 1;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// Length of magic number, version, three numbers of the cost, salt and nonce.
const HEADER_BYTES: usize = 8 + 1 + 12 + SALT_BYTES + NONCE_BYTES;

/// The cost of turning a passphrase into a key with Argon2id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassphraseCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Number of passes over the memory.
    pub passes: u32,
    /// Number of lanes.
    pub lanes: u32,
}

impl Default for PassphraseCost {
    /// Returns the second recommended option of RFC 9106: 64 MiB, three passes, four lanes.
    fn default() -> Self {
        Self { memory_kib: 64 << 10, passes: 3, lanes: 4 }
    }
}

/// The reason why key files cannot be encrypted or decrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyFilesError {
    /// The passphrase is shorter than [`PASSPHRASE_CHARACTERS_MIN`].
    #[error("the passphrase is too short: at least {PASSPHRASE_CHARACTERS_MIN} characters are required")]
    PassphraseTooShort,
    /// The passphrase is not the one with which the files were encrypted.
    #[error("the passphrase does not match this backup")]
    WrongPassphrase,
    /// The bytes are not encrypted key files, or a newer program wrote them.
    #[error("the keys of the backup are not in a format that this program supports")]
    Unknown,
    /// The cost of Argon2id is invalid or exceeds the limits.
    #[error("the keys of the backup require more memory or time than the limits allow")]
    Cost,
}

impl From<InvalidRecord> for KeyFilesError {
    fn from(_: InvalidRecord) -> Self {
        Self::Unknown
    }
}

/// Encrypts files with a passphrase.
pub fn encrypt_key_files(
    files: &[DataFile],
    passphrase: &str,
    cost: PassphraseCost,
    random: &dyn Random,
) -> Result<Vec<u8>, KeyFilesError> {
    if passphrase.chars().count() < PASSPHRASE_CHARACTERS_MIN {
        return Err(KeyFilesError::PassphraseTooShort);
    }
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt);
    let mut nonce = Nonce::default();
    random.fill(&mut nonce);
    let mut header = Encoder::new();
    header.raw(MAGIC).u8(VERSION).u32(cost.memory_kib).u32(cost.passes).u32(cost.lanes).raw(&salt).raw(&nonce);
    let header = header.finish();
    assert_eq!(header.len(), HEADER_BYTES, "the header has a fixed length");
    let plain = encode(files);
    let cipher = cipher(passphrase, &salt, cost)?;
    let sealed = cipher.encrypt(&nonce, Payload { msg: &plain, aad: &header }).map_err(|_| KeyFilesError::Unknown)?;
    Ok([header, sealed].concat())
}

/// Decrypts key files. Accepts arbitrary bytes and does not panic.
pub fn decrypt_key_files(bytes: &[u8], passphrase: &str) -> Result<Vec<DataFile>, KeyFilesError> {
    let (header, sealed) = bytes.split_at_checked(HEADER_BYTES).ok_or(KeyFilesError::Unknown)?;
    let mut decoder = Decoder::new(header);
    if decoder.raw(MAGIC.len())? != MAGIC || decoder.u8()? != VERSION {
        return Err(KeyFilesError::Unknown);
    }
    let cost = PassphraseCost { memory_kib: decoder.u32()?, passes: decoder.u32()?, lanes: decoder.u32()? };
    let salt = decoder.array::<SALT_BYTES>()?;
    let mut nonce = Nonce::default();
    nonce.copy_from_slice(&decoder.array::<NONCE_BYTES>()?);
    let cipher = cipher(passphrase, &salt, cost)?;
    let plain = cipher.decrypt(&nonce, Payload { msg: sealed, aad: header });
    decode(&plain.map_err(|_| KeyFilesError::WrongPassphrase)?)
}

fn cipher(passphrase: &str, salt: &[u8], cost: PassphraseCost) -> Result<Aes256GcmSiv, KeyFilesError> {
    if cost.memory_kib > PASSPHRASE_MEMORY_KIB_MAX || cost.passes > PASSPHRASE_PASSES_MAX {
        return Err(KeyFilesError::Cost);
    }
    let mut key = [0; 32];
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(key.len()));
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.map_err(|_| KeyFilesError::Cost)?);
    hasher.hash_password_into(passphrase.as_bytes(), salt, &mut key).map_err(|_| KeyFilesError::Cost)?;
    Ok(Aes256GcmSiv::new(&key.into()))
}

fn encode(files: &[DataFile]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.varint(files.len() as u64);
    for file in files {
        encoder.text(&file.name).bytes(&file.content);
    }
    encoder.finish()
}

fn decode(plain: &[u8]) -> Result<Vec<DataFile>, KeyFilesError> {
    let mut decoder = Decoder::new(plain);
    let count = decoder.count()?;
    let mut files = Vec::new();
    for _ in 0..count {
        let name = decoder.text()?.to_owned();
        if !super::manifest::is_relative_path(&name) {
            return Err(KeyFilesError::Unknown);
        }
        files.push(DataFile { name, content: decoder.bytes()?.to_vec() });
    }
    if decoder.is_empty() { Ok(files) } else { Err(KeyFilesError::Unknown) }
}

#[cfg(test)]
mod tests {
    use base::sim::SeededRandom;
    use proptest::prelude::*;

    use super::*;

    const CHEAP: PassphraseCost = PassphraseCost { memory_kib: 8, passes: 1, lanes: 1 };
    const PASSPHRASE: &str = "correct horse battery";

    fn files() -> Vec<DataFile> {
        let file = |name: &str, content: &[u8]| DataFile { name: name.into(), content: content.to_vec() };
        vec![file("keys/blobs.key", b"00ff"), file("tls/key.pem", b""), file("x", &[7; 3_000])]
    }

    fn encrypted(seed: u64) -> Vec<u8> {
        encrypt_key_files(&files(), PASSPHRASE, CHEAP, &SeededRandom::new(seed)).expect("a good passphrase")
    }

    #[test]
    fn only_the_passphrase_decrypts_key_files() {
        let bytes = encrypted(1);
        assert_eq!(decrypt_key_files(&bytes, PASSPHRASE), Ok(files()));
        assert_eq!(decrypt_key_files(&bytes, "correct horse batterx"), Err(KeyFilesError::WrongPassphrase));
        assert_ne!(bytes, encrypted(2), "salt and nonce are new each time");
        assert!(!bytes.windows(8).any(|window| window == b"keys/blo"));
        let short = encrypt_key_files(&files(), "sesame", CHEAP, &SeededRandom::new(1));
        assert_eq!(short, Err(KeyFilesError::PassphraseTooShort));
    }

    #[test]
    fn excessive_cost_in_the_header_is_refused() {
        let mut bytes = encrypted(1);
        bytes[9..13].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(decrypt_key_files(&bytes, PASSPHRASE), Err(KeyFilesError::Cost));
        bytes = encrypted(1);
        bytes[13..17].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(decrypt_key_files(&bytes, PASSPHRASE), Err(KeyFilesError::Cost));
    }

    #[test]
    fn names_outside_the_data_folder_are_refused() {
        for name in ["../x", "/etc/passwd", "keys/../../x", "keys//x", ""] {
            let file = DataFile { name: name.into(), content: Vec::new() };
            let bytes = encrypt_key_files(&[file], PASSPHRASE, CHEAP, &SeededRandom::new(1)).expect("encrypted");
            assert_eq!(decrypt_key_files(&bytes, PASSPHRASE), Err(KeyFilesError::Unknown), "{name}");
        }
    }

    proptest! {
        #[test]
        fn changed_or_truncated_files_are_refused(offset: prop::sample::Index, bit in 0_u8..8) {
            let mut bytes = encrypted(1);
            let offset = offset.index(bytes.len());
            // A higher cost within the limits is refused too, but only after minutes.
            prop_assume!(!(9..21).contains(&offset));
            bytes[offset] ^= 1 << bit;
            prop_assert!(decrypt_key_files(&bytes, PASSPHRASE).is_err());
            prop_assert!(decrypt_key_files(&bytes[..offset], PASSPHRASE).is_err());
        }

        #[test]
        fn decoder_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = decrypt_key_files(&bytes, PASSPHRASE);
        }
    }
}
