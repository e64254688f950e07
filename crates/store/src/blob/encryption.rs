//! Encryption of attachments at rest: AES-256-GCM-SIV, one message per chunk.
//!
//! Four values are derived from the operator's key with BLAKE3 key derivation, one context each: the key for content,
//! the key for IDs, the key for nonces, and a fingerprint. The fingerprint is kept in the store, so that a wrong key is
//! detected at start and not at the first read. The nonce of a chunk is derived from its blob and number. Equal content
//! has an equal ID and is written once, and the mode tolerates a repeated nonce (it reveals only equality), so no
//! randomness is needed and writing the same content twice produces the same bytes. Blob and number are authenticated
//! too: a chunk stored in another position does not decrypt.

use aes_gcm_siv::aead::{Aead, KeyInit, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};

use super::id::BlobId;
use crate::batch::Batch;
use crate::engine::{Engine, Table};
use crate::error::{Error, Result};

/// Key of the fingerprint in [`Table::Store`].
const FINGERPRINT_KEY: &[u8] = b"blob-key";

/// Size of the encrypted hash of a content in bytes, with its tag.
pub(super) const SEALED_HASH_BYTES: usize = 48;

/// The number under which the hash of a content is encrypted. No chunk has it.
const HASH_NUMBER: u32 = u32::MAX;

/// A cipher that encrypts and decrypts chunks and computes IDs that reveal nothing about the content.
pub struct BlobCipher {
    content: Aes256GcmSiv,
    names: [u8; 32],
    earlier_names: [u8; 32],
    nonces: [u8; 32],
    fingerprint: [u8; 32],
}

impl BlobCipher {
    /// Derives the keys and the fingerprint from the operator's key.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let derive = |context| blake3::derive_key(context, key);
        Self {
            content: Aes256GcmSiv::new(&derive("doublet store: attachment content, version 1").into()),
            names: derive("doublet store: attachment names, version 2"),
            earlier_names: derive("doublet store: attachment names, version 1"),
            nonces: derive("doublet store: attachment nonces, version 1"),
            fingerprint: derive("doublet store: attachment key fingerprint, version 1"),
        }
    }

    /// Returns the ID of the content with a BLAKE3 hash. It reveals nothing about the content, and who has the key can
    /// compute it from the hash, by which other servers name the content.
    pub(super) fn id_of_hash(&self, hash: &[u8; 32]) -> BlobId {
        BlobId(*blake3::keyed_hash(&self.names, hash).as_bytes())
    }

    /// Returns the ID that earlier versions gave a content: a keyed hash of the content itself.
    pub(super) fn earlier_id_of(&self, content: &[u8]) -> BlobId {
        BlobId(*blake3::keyed_hash(&self.earlier_names, content).as_bytes())
    }

    /// Encrypts the hash of a content, for its head.
    pub(super) fn seal_hash(&self, id: &BlobId, hash: &[u8; 32]) -> Result<[u8; SEALED_HASH_BYTES]> {
        let sealed = self.encrypt(id, HASH_NUMBER, hash)?;
        Ok(sealed.try_into().expect("the mode adds a tag of 16 bytes"))
    }

    /// Decrypts the hash of a content, or returns `None` if it is damaged.
    pub(super) fn open_hash(&self, id: &BlobId, sealed: &[u8; SEALED_HASH_BYTES]) -> Option<[u8; 32]> {
        self.decrypt(id, HASH_NUMBER, sealed)?.try_into().ok()
    }

    /// Returns the fingerprint of the key, by which a store and its backups recognize it.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    pub(super) fn encrypt(&self, id: &BlobId, number: u32, plain: &[u8]) -> Result<Vec<u8>> {
        let place = place(id, number);
        let sealed = self.content.encrypt(&self.nonce(&place), Payload { msg: plain, aad: &place });
        sealed.map_err(|error| Error::Failed { what: "encrypt an attachment", reason: error.to_string() })
    }

    pub(super) fn decrypt(&self, id: &BlobId, number: u32, sealed: &[u8]) -> Option<Vec<u8>> {
        let place = place(id, number);
        self.content.decrypt(&self.nonce(&place), Payload { msg: sealed, aad: &place }).ok()
    }

    fn nonce(&self, place: &[u8; 36]) -> Nonce {
        let hash = blake3::keyed_hash(&self.nonces, place);
        let mut nonce = Nonce::default();
        nonce.copy_from_slice(&hash.as_bytes()[..12]);
        nonce
    }
}

/// Compares the fingerprint of the key with the one in the store. Writes the fingerprint if the store has none.
///
/// Returns [`Error::AttachmentKey`] if the store was written with a key and the configured key is missing or different.
pub(super) fn check_key(engine: &dyn Engine, cipher: Option<&BlobCipher>) -> Result<()> {
    match (engine.get(Table::Store, FINGERPRINT_KEY)?, cipher) {
        (None, None) => Ok(()),
        (None, Some(cipher)) => {
            let mut batch = Batch::new();
            batch.put(Table::Store, FINGERPRINT_KEY, &cipher.fingerprint);
            engine.write(&batch)?;
            engine.sync()
        }
        (Some(_), None) => Err(Error::AttachmentKey(
            "they were written with a key, but none is configured; set blobs.encryption = true",
        )),
        (Some(known), Some(cipher)) if known == cipher.fingerprint => Ok(()),
        (Some(_), Some(_)) => Err(Error::AttachmentKey(
            "the configured key is not the one they were written with; bring the right key back",
        )),
    }
}

fn place(id: &BlobId, number: u32) -> [u8; 36] {
    super::chunk::chunk_key(id, number)
}
