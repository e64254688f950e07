//! Tests of attachments: content is read back unchanged, stored once, and kept as long as it has a user.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::sim::SeededRandom;
use base::{DbNumber, NoteId, Random, Timestamp};
use proptest::prelude::*;

use super::chunk::chunk_key;
use super::head::{HeadError, RefKey, decode_key, encode_head, head_key, user_key};
use super::*;
use crate::batch::Batch;
use crate::engine::{Direction, KeyRange};
use crate::memory::MemoryEngine;
use crate::rocks::StoreOptions;
use crate::store::Store;

const GRACE: Duration = Duration::from_secs(60);
const CHUNK: usize = limits::BLOB_CHUNK_BYTES as usize;

/// A store over the engine in memory, and the current time of its test.
struct World {
    engine: Arc<MemoryEngine>,
    store: Store,
    now: Timestamp,
}

fn world_over(engine: Arc<MemoryEngine>, key: Option<[u8; 32]>) -> Result<World> {
    let blobs = BlobOptions { encryption_key: key, grace: GRACE, ..BlobOptions::default() };
    let options = StoreOptions { blobs, ..StoreOptions::default() };
    let store = Store::with_engine(Arc::clone(&engine) as Arc<dyn Engine>, &options)?;
    Ok(World { engine, store, now: Timestamp::from_seconds(1_000_000) })
}

fn world() -> World {
    world_over(Arc::new(MemoryEngine::new(1)), None).expect("a new store")
}

fn owner(number: u32) -> BlobOwner {
    BlobOwner { database: DbNumber(1 + number % 3), note: NoteId(number) }
}

/// Returns text that compresses.
fn text(seed: u64, length: usize) -> Vec<u8> {
    let random = SeededRandom::new(seed);
    (0..length).map(|_| b"etaoin shrdlu"[random.below(13) as usize]).collect()
}

/// Returns bytes that do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SeededRandom::new(seed).fill(&mut bytes);
    bytes
}

impl World {
    fn put(&self, owner: BlobOwner, content: &[u8]) -> BlobId {
        let writer = self.store.blobs().writer();
        let mut batch = Batch::new();
        let id = writer.put(&mut batch, owner, content).expect("put");
        self.store.commit(&batch).expect("written");
        id
    }

    fn put_prepared(&self, owner: BlobOwner, prepared: &PreparedBlob<'_>) -> BlobId {
        let writer = self.store.blobs().writer();
        let mut batch = Batch::new();
        let id = writer.put_prepared(&mut batch, owner, prepared).expect("put");
        assert!(writer.is_permitted(&id));
        self.store.commit(&batch).expect("written");
        id
    }

    fn release(&self, owner: BlobOwner, id: &BlobId) {
        let writer = self.store.blobs().writer();
        let mut batch = Batch::new();
        writer.release(&mut batch, owner, id, self.now);
        self.store.commit(&batch).expect("written");
    }

    fn collect(&self) -> CollectionReport {
        self.store.blobs().collect(&self.store, self.now, 1_000).expect("collected")
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    fn read(&self, id: &BlobId) -> Result<Vec<u8>> {
        self.store.blobs().read(&self.store, id)
    }

    fn keys(&self, table: Table) -> Vec<Vec<u8>> {
        let mut cursor = self.store.scan(table, &KeyRange::all(), Direction::Forward).expect("a scan");
        let mut keys = Vec::new();
        while let Some((key, _)) = cursor.next().expect("sound") {
            keys.push(key.to_vec());
        }
        keys
    }
}

#[test]
fn prepared_content_is_stored_like_other_content() {
    for key in [None, Some([7; 32])] {
        let world = world_over(Arc::new(MemoryEngine::new(1)), key).expect("a new store");
        let blobs = world.store.blobs();
        for content in [text(1, 10), noise(2, CHUNK), text(3, 3 * CHUNK + 5), Vec::new()] {
            let prepare = || {
                let mut calls = 0;
                let mut count = || {
                    calls += 1;
                    Ok(())
                };
                let prepared = blobs.prepare::<Error>(&content, &mut count).expect("prepared");
                (prepared, calls)
            };
            let (first, calls) = prepare();
            assert_eq!(calls, 2 * content.len().div_ceil(CHUNK), "each chunk is hashed and compressed");
            assert_eq!(blobs.length(&world.store, &first.id()).expect("sound"), None, "nothing is stored yet");
            let id = world.put_prepared(owner(1), &first);
            assert_eq!((id, world.read(&id).expect("sound")), (blobs.compute_id(&content), content.clone()));
            blobs.verify(&world.store, &id).expect("it is sound");
            let (second, calls) = prepare();
            assert_eq!(calls, content.len().div_ceil(CHUNK), "existing content is only hashed");
            world.put_prepared(owner(2), &second);
            for user in [1, 2] {
                assert!(blobs.has_user(&world.store, &id, owner(user)).expect("sound"), "owner {user}");
            }
        }
    }
}

#[test]
fn content_that_was_removed_since_it_was_prepared_is_stored_again() {
    let mut world = world();
    let content = text(5, 2 * CHUNK);
    let id = world.put(owner(1), &content);
    let prepared = world.store.blobs().prepare::<Error>(&content, &mut || Ok(())).expect("prepared");
    world.release(owner(1), &id);
    world.pass(GRACE * 2);
    assert_eq!(world.collect().removed, 1);
    assert_eq!(world.put_prepared(owner(2), &prepared), id);
    assert_eq!(world.read(&id).expect("sound"), content);
}

#[test]
fn batch_adds_an_identified_content_once() {
    let world = world();
    let content = text(7, 2 * CHUNK + 5);
    let blobs = world.store.blobs();
    let identified = blobs.identify(content.clone()).expect("hashed");
    assert_eq!(identified.id(), blobs.compute_id(&content));
    let writer = blobs.writer();
    let mut batch = Batch::new();
    writer.put_prepared(&mut batch, owner(1), &identified).expect("put");
    let length = batch.len();
    let prepared = {
        let copy = content.clone();
        blobs.prepare::<Error>(&copy, &mut || Ok(())).expect("prepared").into_owned()
    };
    for (number, blob) in [(2, &prepared), (3, &identified)] {
        writer.put_prepared(&mut batch, owner(number), blob).expect("put");
    }
    assert_eq!(batch.len(), length + 2, "only the references are new");
    world.store.commit(&batch).expect("written");
    drop(writer);
    assert_eq!(world.read(&prepared.id()).expect("sound"), content);
}

#[test]
fn interrupted_preparation_leaves_nothing() {
    let world = world();
    let content = text(6, 3 * CHUNK);
    for calls_max in 0..6 {
        let mut calls = 0;
        let mut interrupt = || {
            calls += 1;
            if calls <= calls_max { Ok(()) } else { Err(Error::ReferencesMissing) }
        };
        let outcome = world.store.blobs().prepare::<Error>(&content, &mut interrupt).map(|prepared| prepared.id());
        assert!(matches!(outcome, Err(Error::ReferencesMissing)), "{outcome:?}");
    }
    assert!(world.keys(Table::Blob).is_empty() && world.keys(Table::BlobRef).is_empty());
}

#[test]
fn stored_content_is_read_back() {
    for key in [None, Some([7; 32])] {
        let world = world_over(Arc::new(MemoryEngine::new(1)), key).expect("a new store");
        for (number, length) in [0, 1, 10, 4_096, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5].into_iter().enumerate() {
            for content in [text(number as u64, length), noise(number as u64, length)] {
                let id = world.put(owner(1), &content);
                assert_eq!(world.read(&id).expect("the content exists"), content);
                let found = world.store.blobs().length(&world.store, &id).expect("sound");
                assert_eq!(found, Some(length as u64));
                world.store.blobs().verify(&world.store, &id).expect("sound");
            }
        }
    }
}

#[test]
fn range_read_touches_only_its_chunks() {
    let world = world();
    let content = noise(1, 4 * CHUNK + 100);
    let id = world.put(owner(1), &content);
    let length = content.len() as u64;
    let chunk = CHUNK as u64;
    for (start, end) in [
        (0, 0),
        (0, 1),
        (0, length),
        (chunk - 1, chunk + 1),
        (chunk, 2 * chunk),
        (3 * chunk + 7, length),
        (length - 1, length + 100),
        (length, length + 1),
        (length + 50, u64::MAX),
        (10, 5),
    ] {
        let found = world.store.blobs().read_range(&world.store, &id, start..end).expect("sound");
        let from = start.min(length) as usize;
        let to = end.min(length) as usize;
        assert_eq!(found, content[from..to.max(from)], "{start}..{end}");
    }
    world.engine.damage(Table::Blob, &chunk_key(&id, 0));
    assert!(world.store.blobs().read_range(&world.store, &id, 2 * chunk..3 * chunk).is_ok());
    assert!(world.store.blobs().read_range(&world.store, &id, 0..1).is_err());
}

#[test]
fn batch_refers_once_to_content_that_it_adds() {
    let world = world();
    let writer = world.store.blobs().writer();
    let mut batch = Batch::new();
    let id = writer.put(&mut batch, owner(1), b"content").expect("added");
    let length = batch.len();
    writer.add_user(&mut batch, owner(1), &id).expect("the batch adds it");
    assert_eq!(batch.len(), length, "the same note");
    writer.add_user(&mut batch, owner(2), &id).expect("the batch adds it");
    assert_eq!(batch.len(), length + 1, "another note");
    world.store.commit(&batch).expect("written");
    drop(writer);
    let report = world.store.blobs().report(&world.store).expect("sound");
    assert_eq!((report.count, report.references), (1, 2));
}

#[test]
fn references_are_permitted_to_content_that_the_batch_brings_or_shows() {
    let world = world();
    let stored = world.put(owner(1), b"stored");
    let shown = world.put(owner(1), b"shown");
    let writer = world.store.blobs().writer();
    let new = writer.put(&mut Batch::new(), owner(2), b"new").expect("added");
    assert!(writer.is_permitted(&new) && !writer.is_permitted(&stored) && !writer.is_permitted(&shown));
    writer.permit(&[shown]);
    writer.put(&mut Batch::new(), owner(2), b"stored").expect("it exists");
    assert!(writer.is_permitted(&stored) && writer.is_permitted(&shown));
    drop(writer);
    assert!(!world.store.blobs().writer().is_permitted(&shown), "each batch starts anew");
}

#[test]
fn equal_content_is_stored_once() {
    let world = world();
    let content = text(1, 50_000);
    let ids: BTreeSet<_> = (1..=20).map(|number| world.put(owner(number), &content)).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(world.keys(Table::Blob).len(), 1);
    let report = world.store.blobs().report(&world.store).expect("sound");
    assert_eq!((report.count, report.references, report.raw_bytes), (1, 20, 50_000));
    assert!(report.stored_bytes < 40_000, "{}", report.stored_bytes);
    assert_eq!(report.saved_bytes, 20 * 50_000 - report.stored_bytes);
    assert_eq!((report.missing_count, report.orphaned_count), (0, 0));
}

#[test]
fn one_batch_adds_equal_content_once() {
    let world = world();
    let writer = world.store.blobs().writer();
    let mut batch = Batch::new();
    for number in 1..=20 {
        writer.put(&mut batch, owner(number), &text(1, 50_000)).expect("put");
    }
    assert!(batch.byte_count() < 50_000, "{}", batch.byte_count());
    assert_eq!(batch.len(), 22, "one chunk, one head, twenty users");
}

#[test]
fn content_of_a_dropped_batch_is_written_again() {
    let world = world();
    let content = text(1, 5_000);
    let writer = world.store.blobs().writer();
    writer.put(&mut Batch::new(), owner(1), &content).expect("put");
    drop(writer);
    let id = world.put(owner(2), &content);
    assert_eq!(world.read(&id).expect("the content exists"), content);
}

#[test]
fn compression_is_used_only_where_it_pays() {
    let world = world();
    let stored = |content: &[u8]| {
        let id = world.put(owner(1), content);
        let found = world.store.get(Table::Blob, &chunk_key(&id, 0)).expect("sound");
        found.expect("a chunk").len()
    };
    assert!(stored(&text(1, 10_000)) < 6_000);
    assert_eq!(stored(&noise(1, 10_000)), 10_010, "header and content");
    let mostly_noise = [noise(2, 9_800), vec![0; 200]].concat();
    assert_eq!(stored(&mostly_noise), 10_010, "a saving of 2 % is not worth it");
}

#[test]
fn unused_content_is_removed_after_the_grace_period() {
    let mut world = world();
    let content = text(1, 2 * CHUNK);
    let id = world.put(owner(1), &content);
    world.put(owner(2), &content);
    world.release(owner(1), &id);
    world.pass(GRACE * 2);
    assert_eq!(world.collect(), CollectionReport { examined: 1, ..CollectionReport::default() }, "a user remains");
    world.release(owner(2), &id);
    world.pass(GRACE / 2);
    assert_eq!(world.collect(), CollectionReport::default(), "the grace period is not over");
    assert_eq!(world.read(&id).expect("the content exists"), content);
    world.pass(GRACE);
    let collected = world.collect();
    assert_eq!((collected.examined, collected.removed, collected.more), (1, 1, false));
    assert!(collected.removed_bytes > 0);
    assert!(matches!(world.read(&id), Err(Error::Damaged { table: Table::BlobRef, .. })));
    for table in [Table::Blob, Table::BlobRef, Table::BlobFree] {
        assert!(world.keys(table).is_empty(), "{}", table.name());
    }
    assert_eq!(world.put(owner(3), &content), id, "it can be stored again");
    assert_eq!(world.read(&id).expect("the content exists"), content);
}

#[test]
fn content_that_is_used_again_is_kept() {
    let mut world = world();
    let content = text(1, 5_000);
    let id = world.put(owner(1), &content);
    world.release(owner(1), &id);
    world.pass(GRACE * 2);
    world.put(owner(2), &content);
    assert_eq!(world.collect().removed, 0);
    assert_eq!(world.read(&id).expect("the content exists"), content);
    assert!(world.keys(Table::BlobFree).is_empty());
}

#[test]
fn unused_content_with_a_damaged_head_is_removed() {
    let mut world = world();
    let id = world.put(owner(1), &text(1, CHUNK + 1));
    world.release(owner(1), &id);
    let mut batch = Batch::new();
    batch.put(Table::BlobRef, &head_key(&id), b"no head");
    world.store.commit(&batch).expect("written");
    world.pass(GRACE * 2);
    assert_eq!(world.collect().removed, 1);
    assert!(world.keys(Table::Blob).is_empty() && world.keys(Table::BlobRef).is_empty());
}

#[test]
fn collection_respects_its_budget() {
    let mut world = world();
    for number in 1..=100 {
        let id = world.put(owner(number), &noise(number.into(), 100));
        world.release(owner(number), &id);
    }
    world.pass(GRACE * 2);
    let step = |budget| world.store.blobs().collect(&world.store, world.now, budget).expect("collected");
    let first = step(40);
    assert_eq!((first.examined, first.removed, first.more), (40, 40, true));
    let second = step(60);
    assert_eq!((second.removed, second.more), (60, false));
    assert_eq!(step(10), CollectionReport::default());
    assert!(step(0).examined == 0);
}

#[test]
fn release_in_the_adding_batch_keeps_the_content() {
    let mut world = world();
    let content = text(1, 5_000);
    let id = world.put(owner(1), &content);
    let writer = world.store.blobs().writer();
    let mut batch = Batch::new();
    writer.put(&mut batch, owner(1), &content).expect("put");
    writer.release(&mut batch, owner(1), &id, world.now);
    world.store.commit(&batch).expect("written");
    drop(writer);
    world.pass(GRACE * 2);
    assert_eq!(world.collect().removed, 0);
    assert_eq!(world.read(&id).expect("the content exists"), content);
}

#[test]
fn adding_a_user_requires_existing_content() {
    let mut world = world();
    let content = text(1, 5_000);
    let id = world.put(owner(1), &content);
    let writer = world.store.blobs().writer();
    let mut batch = Batch::new();
    writer.add_user(&mut batch, owner(2), &id).expect("it exists");
    assert!(matches!(writer.add_user(&mut batch, owner(2), &BlobId([9; 32])), Err(Error::Damaged { .. })));
    world.store.commit(&batch).expect("written");
    drop(writer);
    world.release(owner(1), &id);
    world.pass(GRACE * 2);
    assert_eq!(world.collect().removed, 0);
}

#[test]
fn encryption_hides_content_and_its_hash() {
    let world = world_over(Arc::new(MemoryEngine::new(1)), Some([7; 32])).expect("a new store");
    let content = b"a very secret and very repetitive content ".repeat(200);
    let id = world.put(owner(1), &content);
    assert_ne!(id.0, *blake3::hash(&content).as_bytes());
    let stored = world.store.get(Table::Blob, &chunk_key(&id, 0)).expect("sound").expect("a chunk");
    assert!(stored.len() < content.len() / 2, "compressed before it is encrypted");
    assert!(stored.windows(6).all(|window| window != b"secret"));
    let other = world_over(Arc::new(MemoryEngine::new(1)), Some([8; 32])).expect("a new store");
    assert_ne!(other.put(owner(1), &content), id);
}

#[test]
fn wrong_key_is_refused_on_open() {
    let engine = Arc::new(MemoryEngine::new(1));
    drop(world_over(Arc::clone(&engine), None).expect("no key is set yet"));
    drop(world_over(Arc::clone(&engine), Some([7; 32])).expect("a key is added"));
    for wrong in [None, Some([8; 32])] {
        assert!(matches!(world_over(Arc::clone(&engine), wrong), Err(Error::AttachmentKey(_))));
    }
    assert!(world_over(engine, Some([7; 32])).is_ok());
}

#[test]
fn chunk_decodes_only_at_its_position_with_its_key() {
    let cipher = BlobCipher::new(&[7; 32]);
    let other = BlobCipher::new(&[8; 32]);
    let id = BlobId([1; 32]);
    let content = text(1, 1_000);
    let stored = Codec::new(Some(1)).encode(&id, 3, Some(&cipher), &content).expect("encoded");
    let decode = |id: &BlobId, number, length, cipher| decode_chunk(id, number, length, cipher, &stored);
    assert_eq!(decode(&id, 3, 1_000, Some(&cipher)), Ok(content));
    assert_eq!(decode(&id, 3, 1_000, None), Err(ChunkError::NoKey));
    assert_eq!(decode(&id, 3, 1_000, Some(&other)), Err(ChunkError::WrongKey));
    assert_eq!(decode(&id, 4, 1_000, Some(&cipher)), Err(ChunkError::Checksum));
    assert_eq!(decode(&BlobId([2; 32]), 3, 1_000, Some(&cipher)), Err(ChunkError::Checksum));
    assert_eq!(decode(&id, 3, 1_001, Some(&cipher)), Err(ChunkError::Length));
    assert!(decode(&id, 3, 10, Some(&cipher)).is_err(), "no more than expected is unpacked");
    assert_eq!(decode_chunk(&id, 3, 0, None, b""), Err(ChunkError::Short));
    assert_eq!(decode_chunk(&id, 3, 0, None, &[9; 20]), Err(ChunkError::Unknown));
}

/// Returns the bytes of a hexadecimal text, ignoring white space.
fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// Checks bytes that zstd-safe 7.4, aes-gcm-siv 0.11 and blake3 1.8 have stored. Other versions must read them.
#[test]
fn chunks_of_older_versions_can_be_read() {
    let cipher = BlobCipher::new(&[7; 32]);
    let content = text(1, 200);
    let id = cipher.earlier_id_of(&content);
    let compressed = from_hex(COMPRESSED_CHUNK);
    let encrypted = from_hex(ENCRYPTED_CHUNK);
    assert_eq!(decode_chunk(&id, 3, 200, None, &compressed).as_ref(), Ok(&content));
    assert_eq!(decode_chunk(&id, 3, 200, Some(&cipher), &encrypted).as_ref(), Ok(&content));
    let written = Codec::new(Some(1)).encode(&id, 3, Some(&cipher), b"short").expect("encoded");
    assert_eq!(written, from_hex(ENCRYPTED_SHORT_CHUNK), "equal content is written once, in every version");
}

const COMPRESSED_CHUNK: &str = "01017d4f21c6c464759a28b52ffd20c86d0300824c1a0be06d79774fdf0d050601160529f70825f9767367e7855b7dac\
    31b6c001f15bf8a3a95820011639846a871070e6abd241d58579e0a184c938569a1741b533cac54592b4e0da5419d1bc\
    0354b0a6a8d22f0162c6e115121846e7ae37ac39fe73ab83c7262c9ba0ec6d00";

const ENCRYPTED_CHUNK: &str = "0103eb9297e79d463e94445150416cdf6df85dd7e745459c3ae51b789f12cfd6ff0beded378a1571032be1385381f8b6\
    12d7087f7aff043c2e4b2d08e6e3c8c0e15748ea4417dc35ec12ce89a4471fb8c2bea36a1b1517d184088ae5a62f2bce\
    cd58ec4c920c6c998cc8f8a48a23035ec6fcb7d5f4d835877952b6b3ad90f602df9952f8f9b82ed20dd52f28174d8f4a";

const ENCRYPTED_SHORT_CHUNK: &str = "010206b4933a3ea890e4dd399050f56662d2e2cac90d34f13926b647a9a65f";

#[test]
fn changed_byte_is_reported_as_damage_of_the_blob() {
    let world = world();
    let id = world.put(owner(1), &text(1, CHUNK + 5));
    let sound = world.store.get(Table::Blob, &chunk_key(&id, 1)).expect("sound").expect("a chunk");
    for offset in 0..sound.len() {
        let mut broken = sound.clone();
        broken[offset] ^= 1;
        let mut batch = Batch::new();
        batch.put(Table::Blob, &chunk_key(&id, 1), &broken);
        world.store.commit(&batch).expect("written");
        let error = world.read(&id).expect_err("damaged");
        assert!(matches!(error, Error::Damaged { table: Table::Blob, .. }));
        assert!(error.to_string().contains(&id.to_string()), "{error}");
    }
    let damage = world.store.blobs().verify_all(&world.store, &mut |_| {}).expect("a list");
    assert_eq!(damage.len(), 1);
}

#[test]
fn replaced_content_is_detected_by_its_hash() {
    let world = world();
    let id = world.put(owner(1), &text(1, 100));
    let other = Codec::new(Some(1)).encode(&id, 0, None, &text(2, 100)).expect("encoded");
    let mut batch = Batch::new();
    batch.put(Table::Blob, &chunk_key(&id, 0), &other);
    world.store.commit(&batch).expect("written");
    assert!(world.read(&id).is_ok(), "the checksum fits");
    assert!(matches!(world.store.blobs().verify(&world.store, &id), Err(Error::Damaged { .. })));
}

#[test]
fn malformed_heads_and_keys_are_refused() {
    let head = BlobHead { length: 5, stored_length: 7, chunk_length: 2, sealed_hash: None };
    let record = encode_head(&head);
    assert_eq!(decode_head(&record), Ok(head));
    assert_eq!((head.chunks(), head.chunk_of(4), head.chunk_length(1), head.chunk_length(2)), (3, 2, 2, 1));
    let changed = |offset: usize, value| {
        let mut record = record.clone();
        record[offset] = value;
        decode_head(&record)
    };
    assert_eq!(changed(0, 2), Err(HeadError::Length), "version 2 has a hash");
    assert_eq!(changed(0, 3), Err(HeadError::Version(3)));
    let named = BlobHead { sealed_hash: Some([7; 48]), ..head };
    assert_eq!(decode_head(&encode_head(&named)), Ok(named));
    assert_eq!(changed(1, 1), Err(HeadError::Limit));
    assert_eq!(changed(20, 0), Err(HeadError::Limit));
    assert_eq!(decode_head(&record[..20]), Err(HeadError::Length));
    assert_eq!(decode_head(&[&record[..], &[0]].concat()), Err(HeadError::Length));
    let id = BlobId([3; 32]);
    assert_eq!(decode_key(&head_key(&id)), Some(RefKey::Head(id)));
    assert_eq!(decode_key(&user_key(&id, owner(4))), Some(RefKey::User(id, owner(4))));
    assert_eq!(decode_key(&head_key(&id)[..39]), None);
    assert_eq!(decode_key(&[&id.0[..], &[0, 0, 0, 1, 0, 0, 0, 0]].concat()), None);
}

#[test]
fn the_reference_table_is_rebuilt_from_the_notes() {
    let mut world = world();
    let kept = world.put(owner(1), &text(1, 5_000));
    let lost = world.put(owner(2), &text(2, 5_000));
    let unlisted = world.put(owner(3), &text(3, 5_000));
    let mut batch = Batch::new();
    batch.delete(Table::BlobRef, &user_key(&kept, owner(1)));
    world.store.commit(&batch).expect("written");
    let gone = BlobId([5; 32]);
    let uses = [(owner(1), kept), (owner(9), kept), (owner(2), lost), (owner(4), gone)];
    let rebuilt = world.store.blobs().rebuild(&world.store, &mut uses.iter().map(|each| Ok(*each)), world.now);
    let expected = RebuildReport { added: 3, removed: 1, orphaned: 1, missing: vec![(owner(4), gone)] };
    assert_eq!(rebuilt.expect("rebuilt"), expected);
    let report = world.store.blobs().report(&world.store).expect("sound");
    assert_eq!((report.count, report.references), (3, 4));
    assert_eq!((report.missing, report.orphaned_count), (vec![gone], 1));
    world.pass(GRACE * 2);
    assert_eq!(world.collect().removed, 1);
    assert!(world.read(&unlisted).is_err() && world.read(&kept).is_ok());
    let again = world.store.blobs().rebuild(&world.store, &mut uses.iter().map(|each| Ok(*each)), world.now);
    assert_eq!(again.expect("rebuilt"), RebuildReport { missing: vec![(owner(4), gone)], ..RebuildReport::default() });
}

#[test]
fn a_deleted_database_releases_its_attachments() {
    let mut world = world();
    let ids: Vec<_> = (1..=30).map(|number| world.put(owner(number), &noise(number.into(), 50))).collect();
    let release = |budget| {
        let blobs = world.store.blobs();
        blobs.release_database(&world.store, DbNumber(1), world.now, budget).expect("released")
    };
    assert!(release(4) && !release(100));
    world.pass(GRACE * 2);
    assert_eq!(world.collect().removed, 10);
    let there = ids.iter().filter(|id| world.read(id).is_ok()).count();
    assert_eq!(there, 20);
}

#[test]
fn nothing_is_removed_while_references_may_be_missing() {
    let mut world = world();
    let id = world.put(owner(1), b"in use");
    world.store.blobs().set_references_missing(&world.store).expect("noted");
    // Simulate the removal of damage: the reference of user 1 is lost, and another user has released the blob.
    let mut batch = Batch::new();
    batch.delete(Table::BlobRef, &user_key(&id, owner(1)));
    batch.put(Table::BlobFree, &collect::free_key(world.now, &id), &[]);
    world.store.commit(&batch).expect("written");
    world.now = world.now.after(2 * GRACE);
    let collect = |world: &World| world.store.blobs().collect(&world.store, world.now, 100);
    assert!(matches!(collect(&world), Err(Error::ReferencesMissing)));
    let again = world_over(Arc::new(world.engine.crash_losing_all()), None).expect("opened");
    assert!(
        matches!(collect(&World { now: world.now, ..again }), Err(Error::ReferencesMissing)),
        "also after a restart"
    );
    let mut uses = [Ok((owner(1), id))].into_iter();
    assert_eq!(world.store.blobs().rebuild(&world.store, &mut uses, world.now).expect("rebuilt").added, 1);
    assert_eq!(collect(&world).expect("it runs").removed, 0);
    assert_eq!(world.store.blobs().read(&world.store, &id).expect("sound"), b"in use");
}

#[test]
fn the_collector_waits_for_a_writer_that_has_found_content() {
    let mut world = world();
    let content = text(1, 5_000);
    let id = world.put(owner(1), &content);
    world.release(owner(1), &id);
    world.pass(GRACE * 2);
    let writer = world.store.blobs().writer();
    let mut batch = Batch::new();
    writer.put(&mut batch, owner(2), &content).expect("put");
    assert_eq!(batch.len(), 1, "the content is there, only a user is added");
    std::thread::scope(|scope| {
        let collector = scope.spawn(|| world.collect());
        // Give the collector many opportunities to run too early.
        (0..20_000).for_each(|_| std::thread::yield_now());
        assert!(!collector.is_finished());
        world.store.commit(&batch).expect("written");
        drop(writer);
        assert_eq!(collector.join().expect("collected").removed, 0);
    });
    assert_eq!(world.read(&id).expect("the content exists"), content);
}

#[test]
fn writers_and_the_collector_do_not_lose_content() {
    let world = world_over(Arc::new(MemoryEngine::new(1)), None).expect("a new store");
    let store = &world.store;
    let later = world.now.after(GRACE * 3);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                store.blobs().collect(store, later, 100).expect("collected");
            }
        });
        let writers: Vec<_> = (0..4_u32).map(|thread| scope.spawn(move || use_and_release(store, thread))).collect();
        writers.into_iter().for_each(|writer| writer.join().expect("no content is lost"));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Uses and releases the same few contents as the other threads, and checks that they exist while in use.
fn use_and_release(store: &Store, thread: u32) {
    let now = Timestamp::from_seconds(1_000_000);
    for round in 0..300_u32 {
        let content = text(u64::from(round % 3), 500);
        let owner = owner(1 + thread);
        let writer = store.blobs().writer();
        let mut batch = Batch::new();
        let id = writer.put(&mut batch, owner, &content).expect("put");
        store.commit(&batch).expect("written");
        drop(writer);
        assert_eq!(store.blobs().read(store, &id).expect("the content exists"), content);
        let writer = store.blobs().writer();
        let mut batch = Batch::new();
        writer.release(&mut batch, owner, &id, now);
        store.commit(&batch).expect("written");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put { owner: u32, content: u8 },
    Copy { owner: u32, content: u8 },
    Release { owner: u32, content: u8 },
    Pass,
    Collect { budget: usize },
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let owner = 1_u32..6;
    let content = 0_u8..4;
    prop_oneof![
        4 => (owner.clone(), content.clone()).prop_map(|(owner, content)| Step::Put { owner, content }),
        2 => (owner.clone(), content.clone()).prop_map(|(owner, content)| Step::Copy { owner, content }),
        4 => (owner, content).prop_map(|(owner, content)| Step::Release { owner, content }),
        2 => Just(Step::Pass),
        2 => (0_usize..8).prop_map(|budget| Step::Collect { budget }),
        1 => Just(Step::Crash),
    ]
}

/// Model: the users of each content. Each step is synced, so that a crash loses nothing.
type Users = BTreeMap<u8, BTreeSet<u32>>;

fn content_of(number: u8) -> Vec<u8> {
    text(number.into(), 200 + 300 * usize::from(number))
}

fn play(world: &mut World, users: &mut Users, step: &Step) {
    match step {
        Step::Put { owner: number, content } => {
            world.put(owner(*number), &content_of(*content));
            users.entry(*content).or_default().insert(*number);
        }
        Step::Copy { owner: number, content } => {
            let id = world.store.blobs().compute_id(&content_of(*content));
            let writer = world.store.blobs().writer();
            let mut batch = Batch::new();
            let copied = writer.add_user(&mut batch, owner(*number), &id).is_ok();
            world.store.commit(&batch).expect("written");
            let used = users.get(content).is_some_and(|users| !users.is_empty());
            assert!(copied || !used, "used content exists");
            if copied {
                users.entry(*content).or_default().insert(*number);
            }
        }
        Step::Release { owner: number, content } => {
            let id = world.store.blobs().compute_id(&content_of(*content));
            world.release(owner(*number), &id);
            users.entry(*content).or_default().remove(number);
        }
        Step::Pass => world.pass(GRACE / 2),
        Step::Collect { budget } => {
            world.store.blobs().collect(&world.store, world.now, *budget).expect("collected");
        }
        Step::Crash => {
            world.store.engine().sync().expect("synced");
            let now = world.now;
            *world = world_over(Arc::new(world.engine.crash()), None).expect("opened again");
            world.now = now;
        }
    }
}

fn check_users(world: &World, users: &Users) {
    for (content, users) in users.iter().filter(|(_, users)| !users.is_empty()) {
        let content = content_of(*content);
        let id = world.store.blobs().compute_id(&content);
        assert_eq!(world.read(&id).expect("used content is there"), content);
        let range = KeyRange::prefix(&id.0);
        let mut cursor = world.store.scan(Table::BlobRef, &range, Direction::Forward).expect("a scan");
        let mut found = BTreeSet::new();
        while let Some((key, _)) = cursor.next().expect("sound") {
            if let Some(RefKey::User(_, owner)) = decode_key(key) {
                found.insert(owner.note.0);
            }
        }
        assert_eq!(&found, users);
    }
    let report = world.store.blobs().report(&world.store).expect("sound");
    assert_eq!(report.references, users.values().map(|users| users.len() as u64).sum::<u64>());
    assert_eq!(report.missing_count, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn used_content_is_kept_and_unused_content_removed(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = world();
        let mut users = Users::new();
        for step in &steps {
            play(&mut world, &mut users, step);
            check_users(&world, &users);
        }
        world.pass(GRACE * 2);
        world.collect();
        let report = world.store.blobs().report(&world.store).expect("sound");
        prop_assert_eq!(report.orphaned_count, 0);
        prop_assert_eq!(report.count, users.values().filter(|users| !users.is_empty()).count() as u64);
        prop_assert_eq!(world.keys(Table::Blob).len() as u64, report.count);
        prop_assert!(world.keys(Table::BlobFree).is_empty());
    }

    #[test]
    fn decoders_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), number: u32, length: u32) {
        let id = BlobId([1; 32]);
        let cipher = BlobCipher::new(&[7; 32]);
        let _ = decode_chunk(&id, number, length, Some(&cipher), &bytes);
        if let Ok(head) = decode_head(&bytes) {
            prop_assert!(head.chunk_length(number) <= head.chunk_length);
            let _ = (head.chunks(), head.chunk_of(head.length));
        }
        let _ = decode_key(&bytes);
    }

    #[test]
    fn arbitrary_compressed_bytes_fail_or_have_their_length(bytes in prop::collection::vec(any::<u8>(), 0..200), length in 0_u32..100_000) {
        let id = BlobId([1; 32]);
        let mut stored = [&[0; 10], &bytes[..]].concat();
        chunk::seal(&id, 0, 1, &mut stored);
        let outcome = decode_chunk(&id, 0, length, None, &stored);
        prop_assert!(outcome.is_err() || outcome.is_ok_and(|raw| raw.len() == length as usize));
    }
}
