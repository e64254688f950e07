//! Tests of contents that arrive in pieces: they are stored like others, continue after a cut, and do not stay when
//! they are wrong or never completed.

use std::sync::Arc;
use std::time::Duration;

use base::sim::SeededRandom;
use base::{DbNumber, NoteId, Random};

use super::*;
use crate::batch::Batch;
use crate::blob::unfinished::CHUNK_BYTES;
use crate::blob::{BlobOptions, BlobOwner};
use crate::engine::{Direction, Engine, KeyRange, Table, TableReader as _};
use crate::limits;
use crate::memory::MemoryEngine;
use crate::rocks::StoreOptions;

const NOW: Timestamp = Timestamp(1_000_000);
const OWNER: BlobOwner = BlobOwner { database: DbNumber(1), note: NoteId(7) };

fn store_over(engine: &Arc<MemoryEngine>, encryption_key: Option<[u8; 32]>) -> Store {
    let blobs = BlobOptions { encryption_key, grace: Duration::ZERO, ..BlobOptions::default() };
    let options = StoreOptions { blobs, ..StoreOptions::default() };
    Store::with_engine(Arc::clone(engine) as Arc<dyn Engine>, &options).expect("a store in memory opens")
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SeededRandom::new(5).fill(&mut bytes);
    bytes
}

fn begin<'s>(store: &'s Store, content: &[u8], sender: &[u8]) -> ArrivingContent<'s> {
    let announced = AnnouncedContent { hash: *blake3::hash(content).as_bytes(), sender };
    ArrivingContent::begin(store, announced, NOW).expect("a sound store")
}

/// Adds what is missing of a content, in pieces that do not end with its chunks.
fn send(arriving: &mut ArrivingContent<'_>, content: &[u8]) {
    let offset = usize::try_from(arriving.offset()).expect("it is small");
    content[offset..].chunks(100_000).for_each(|piece| arriving.add(piece).expect("a sound store"));
}

/// Returns the number of chunks in the store, of whatever content.
fn chunks(store: &Store) -> usize {
    let mut cursor = store.scan(Table::Blob, &KeyRange::all(), Direction::Forward).expect("a sound store");
    let mut count = 0;
    while cursor.next().expect("a sound store").is_some() {
        count += 1;
    }
    count
}

fn collect(store: &Store) -> u64 {
    let later = Timestamp(NOW.0 + 1);
    store.blobs().collect(store, later, 100).expect("a sound store").removed
}

#[test]
fn arrived_contents_are_stored_like_others() {
    for key in [None, Some([3; 32])] {
        for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 10 * CHUNK_BYTES + 17] {
            let content = [noise(length / 2), vec![b'x'; length - length / 2]].concat();
            let store = store_over(&Arc::new(MemoryEngine::new(1)), key);
            let mut arriving = begin(&store, &content, b"hub");
            send(&mut arriving, &content);
            let arrived = arriving.finish().expect("a sound store").expect("it is the announced one");
            let other = store_over(&Arc::new(MemoryEngine::new(1)), key);
            let mut batch = Batch::new();
            let id = other.blobs().writer().put(&mut batch, OWNER, &content).expect("put");
            other.commit(&batch).expect("written");
            assert_eq!((arrived.id(), chunks(&store)), (id, chunks(&other)), "{length} bytes");
            let mut batch = Batch::new();
            store.blobs().writer().add_user(&mut batch, OWNER, &id).expect("the content exists");
            store.commit(&batch).expect("written");
            drop(arrived);
            assert_eq!(collect(&store), 0, "it has a user");
            assert_eq!(store.blobs().read(&store, &id).expect("it exists"), content);
            store.blobs().verify(&store, &id).expect("it is sound");
            let reports = [&store, &other].map(|store| store.blobs().report(store).expect("a sound store"));
            assert_eq!(reports[0], reports[1]);
        }
    }
}

#[test]
fn an_arrival_that_was_cut_off_continues() {
    let engine = Arc::new(MemoryEngine::new(1));
    let content = noise(5 * CHUNK_BYTES + 100);
    let store = store_over(&engine, Some([3; 32]));
    let mut arriving = begin(&store, &content, b"hub");
    arriving.add(&content[..3 * CHUNK_BYTES + 50]).expect("a sound store");
    drop(arriving);
    let from_another = begin(&store, &content, b"spoke");
    assert_eq!(from_another.offset(), 0, "what another server has sent proves nothing");
    drop(from_another);
    drop(store);
    let store = store_over(&engine, Some([3; 32]));
    let mut arriving = begin(&store, &content, b"hub");
    assert_eq!(arriving.offset(), 3 * CHUNK_BYTES as u64);
    send(&mut arriving, &content);
    let arrived = arriving.finish().expect("a sound store").expect("it is the announced one");
    assert_eq!(store.blobs().read(&store, &arrived.id()).expect("it exists"), content);
    assert_eq!(chunks(&store), 6, "the chunks were moved");
}

#[test]
fn an_arrival_continues_after_a_crash_while_it_was_finished() {
    let content = noise(20 * CHUNK_BYTES + 100);
    let engine = Arc::new(MemoryEngine::new(1));
    let store = store_over(&engine, None);
    let mut arriving = begin(&store, &content, b"hub");
    send(&mut arriving, &content);
    // The last batch, which has the head, is not written.
    let completed = arriving.chunks.complete(&store).expect("a sound store");
    let mut moving = ChunkMove::new(arriving.whole, completed);
    let to = moving.whole_id();
    for _ in 0..2 {
        let arrived = moving.step(&store, &arriving.chunks).expect("a sound store");
        assert!(arrived.is_none(), "there are 21 chunks");
    }
    drop((moving, arriving.chunks));
    assert_eq!(chunks(&store), 21 + 16, "some of them were moved");
    assert_eq!(store.blobs().length(&store, &to).expect("a sound store"), None, "it is not there yet");
    let mut arriving = begin(&store, &content, b"hub");
    assert_eq!(arriving.offset(), 20 * CHUNK_BYTES as u64, "the short chunk at the end is sent again");
    send(&mut arriving, &content);
    let arrived = arriving.finish().expect("a sound store").expect("it is the announced one");
    assert_eq!(store.blobs().read(&store, &arrived.id()).expect("it exists"), content);
    assert_eq!(chunks(&store), 21);
}

#[test]
fn another_content_than_the_announced_one_is_removed() {
    let store = store_over(&Arc::new(MemoryEngine::new(1)), None);
    let content = noise(2 * CHUNK_BYTES);
    let mut arriving = begin(&store, &content, b"hub");
    let mut wrong = content.clone();
    wrong[CHUNK_BYTES + 5] ^= 1;
    send(&mut arriving, &wrong);
    assert!(arriving.finish().expect("a sound store").is_none());
    assert_eq!(chunks(&store), 0);
    let mut arriving = begin(&store, &content, b"hub");
    assert_eq!(arriving.offset(), 0);
    arriving.add(&wrong[..CHUNK_BYTES + 9]).expect("a sound store");
    arriving.restart().expect("a sound store");
    assert_eq!((arriving.offset(), chunks(&store)), (0, 0));
    send(&mut arriving, &content);
    assert!(arriving.finish().expect("a sound store").is_some(), "the sender began again");
}

#[test]
fn unfinished_and_unused_contents_are_collected() {
    let store = store_over(&Arc::new(MemoryEngine::new(1)), None);
    let content = noise(3 * CHUNK_BYTES);
    let mut arriving = begin(&store, &content, b"hub");
    arriving.add(&content[..2 * CHUNK_BYTES]).expect("a sound store");
    assert_eq!((collect(&store), chunks(&store)), (0, 2), "it is arriving");
    drop(arriving);
    assert_eq!((collect(&store), chunks(&store)), (1, 0));
    let mut arriving = begin(&store, &content, b"hub");
    send(&mut arriving, &content);
    let arrived = arriving.finish().expect("a sound store").expect("it is the announced one");
    assert_eq!((collect(&store), chunks(&store)), (0, 3), "a note that uses it is about to be stored");
    drop(arrived);
    assert_eq!((collect(&store), chunks(&store)), (1, 0));
}

#[test]
fn an_existing_content_stays_as_it_is() {
    let store = store_over(&Arc::new(MemoryEngine::new(1)), None);
    let content = noise(2 * CHUNK_BYTES);
    let mut batch = Batch::new();
    let id = store.blobs().writer().put(&mut batch, OWNER, &content).expect("put");
    store.commit(&batch).expect("written");
    let mut arriving = begin(&store, &content, b"hub");
    send(&mut arriving, &content);
    let arrived = arriving.finish().expect("a sound store").expect("it is the announced one");
    assert_eq!((arrived.id(), chunks(&store)), (id, 2));
}

#[test]
fn contents_have_a_maximum_length() {
    let store = store_over(&Arc::new(MemoryEngine::new(1)), None);
    let mut arriving = begin(&store, b"", b"hub");
    arriving.chunks.count = u32::try_from(limits::BLOB_BYTES_MAX / CHUNK_BYTES as u64).expect("it fits");
    arriving.add(b"x").expect_err("it is too long");
}
