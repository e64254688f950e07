//! Tests of contents without an announced hash: they are stored like others, and leave nothing when they are abandoned.

use std::time::Duration;

use base::sim::SeededRandom;
use base::{DbNumber, NoteId, Random};

use super::*;
use crate::batch::Batch;
use crate::blob::unfinished::CHUNK_BYTES;
use crate::blob::{BlobOptions, BlobOwner};
use crate::engine::{Direction, Engine, KeyRange, Table, TableReader as _};
use crate::memory::MemoryEngine;
use crate::rocks::StoreOptions;

const NOW: Timestamp = Timestamp(1_000_000);
const OWNER: BlobOwner = BlobOwner { database: DbNumber(1), note: NoteId(7) };

fn store(encryption_key: Option<[u8; 32]>) -> Arc<Store> {
    store_over(&Arc::new(MemoryEngine::new(1)), encryption_key)
}

fn store_over(engine: &Arc<MemoryEngine>, encryption_key: Option<[u8; 32]>) -> Arc<Store> {
    let blobs = BlobOptions { encryption_key, grace: Duration::from_secs(60), ..BlobOptions::default() };
    let options = StoreOptions { blobs, ..StoreOptions::default() };
    let engine = Arc::clone(engine) as Arc<dyn Engine>;
    Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"))
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SeededRandom::new(5).fill(&mut bytes);
    bytes
}

/// Begins a content, and adds bytes in pieces that do not end with its chunks.
fn send(store: &Arc<Store>, token: u8, content: &[u8]) -> UnannouncedContent {
    let mut arriving = UnannouncedContent::begin(store, &[token; 32], NOW);
    content.chunks(100_000).for_each(|piece| arriving.add(piece).expect("a sound store"));
    assert_eq!(arriving.length(), content.len() as u64);
    arriving
}

fn finish(mut arriving: UnannouncedContent) -> ArrivedContent {
    loop {
        if let Some(arrived) = arriving.complete_step().expect("a sound store") {
            return arrived;
        }
    }
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

fn collect(store: &Store, seconds: i64) -> u64 {
    let now = Timestamp(NOW.0 + seconds * 1_000_000);
    store.blobs().collect(store, now, 100).expect("a sound store").removed
}

fn add_user(store: &Store, id: &BlobId) {
    let mut batch = Batch::new();
    let writer = store.blobs().writer();
    writer.add_user(&mut batch, OWNER, id).expect("the content exists");
    store.commit(&batch).expect("written");
}

#[test]
fn contents_are_stored_like_those_that_are_put_whole() {
    for key in [None, Some([3; 32])] {
        for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 20 * CHUNK_BYTES + 17] {
            let content = noise(length);
            let store = store(key);
            let arrived = finish(send(&store, 1, &content));
            assert!(arrived.is_new());
            assert_eq!(arrived.id(), store.blobs().compute_id(&content), "{length} bytes");
            add_user(&store, &arrived.id());
            let id = arrived.id();
            drop(arrived);
            assert_eq!(collect(&store, 61), 0, "it has a user");
            assert_eq!(store.blobs().read(store.as_ref(), &id).expect("it exists"), content);
            store.blobs().verify(store.as_ref(), &id).expect("it is sound");
            assert_eq!(chunks(&store), length.div_ceil(CHUNK_BYTES));
        }
    }
}

#[test]
fn the_same_content_is_stored_once() {
    let store = store(None);
    let content = noise(3 * CHUNK_BYTES);
    let first = send(&store, 1, &content);
    let second = send(&store, 2, &content);
    assert_eq!(chunks(&store), 6, "they are stored apart until they are complete");
    let first = finish(first);
    add_user(&store, &first.id());
    let second = finish(second);
    assert_eq!((first.id(), first.is_new()), (second.id(), true));
    assert!(!second.is_new());
    assert_eq!(chunks(&store), 3);
}

#[test]
fn abandoned_contents_leave_nothing() {
    let store = store(None);
    let content = noise(20 * CHUNK_BYTES);
    send(&store, 1, &content).abandon().expect("a sound store");
    assert_eq!(chunks(&store), 0);
    let mut completing = send(&store, 2, &content);
    assert!(completing.complete_step().expect("a sound store").is_none(), "there are 20 chunks");
    assert_eq!(chunks(&store), 28, "some of them are in both places");
    assert!(completing.add(b"more").is_err());
    completing.abandon().expect("a sound store");
    assert_eq!(chunks(&store), 0);
}

#[test]
fn contents_that_fail_on_a_full_disk_are_removed_when_there_is_space() {
    let engine = Arc::new(MemoryEngine::new(1));
    let store = store_over(&engine, None);
    let content = noise(20 * CHUNK_BYTES);
    let mut arriving = send(&store, 1, &content);
    let mut completing = send(&store, 2, &noise(20 * CHUNK_BYTES + 1));
    assert!(completing.complete_step().expect("a sound store").is_none(), "there are 21 chunks");
    engine.faults().set_capacity(0);
    assert!(matches!(arriving.add(&content), Err(Error::Full(_))));
    assert!(matches!(completing.complete_step(), Err(Error::Full(_))));
    assert!(matches!(arriving.abandon(), Err(Error::Full(_))));
    assert!(matches!(completing.abandon(), Err(Error::Full(_))));
    assert_eq!(chunks(&store), 20 + 21 + 8);
    engine.faults().free_disk();
    assert!(arriving.add(&content).is_err(), "it cannot continue after a failure");
    assert!(completing.complete_step().is_err(), "it cannot continue after a failure");
    arriving.abandon().expect("a sound store");
    completing.abandon().expect("a sound store");
    assert_eq!(chunks(&store), 0);
    arriving.abandon().expect("nothing is left to do");
}

#[test]
fn contents_that_a_crash_has_cut_off_are_collected_after_the_grace_period() {
    let store = store(None);
    let arriving = send(&store, 1, &noise(2 * CHUNK_BYTES));
    assert_eq!((collect(&store, 61), chunks(&store)), (0, 2), "it is arriving");
    drop(arriving);
    assert_eq!((collect(&store, 59), chunks(&store)), (0, 2));
    assert_eq!((collect(&store, 61), chunks(&store)), (1, 0));
}

#[test]
fn unused_contents_are_removed_at_once_and_no_others() {
    let store = store(None);
    let used = finish(send(&store, 1, &noise(CHUNK_BYTES)));
    let unused = finish(send(&store, 2, &noise(2 * CHUNK_BYTES)));
    let arriving = finish(send(&store, 3, &noise(CHUNK_BYTES + 1)));
    add_user(&store, &used.id());
    let ids = [used.id(), unused.id(), arriving.id(), unused.id()];
    drop((used, unused));
    let removed = store.blobs().remove_unused(&store, &ids).expect("a sound store");
    assert_eq!((removed.removed, chunks(&store)), (1, 3));
    assert!(store.blobs().length(store.as_ref(), &ids[1]).expect("a sound store").is_none());
    store.blobs().set_references_missing(&store).expect("written");
    drop(arriving);
    let removed = store.blobs().remove_unused(&store, &ids).expect("a sound store");
    assert_eq!((removed.removed, chunks(&store)), (0, 3), "references may be missing");
}
