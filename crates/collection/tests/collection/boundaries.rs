//! The limits of keys, states and ranges, and collections at their smallest.

use collection::limits::{KEY_BYTES_MAX, STATE_BYTES_MAX, SUMS_MAX};
use collection::{CollectionBuilder, CollectionReader, CollectionWriter, CountOnly, Totals, Weight, check};
use store::memory::MemoryEngine;
use store::{Batch, Direction, KeyRange};

use crate::{ID, SMALL, commit};

/// Opens a writer of a collection without sums.
fn writer(engine: &MemoryEngine) -> CollectionWriter<'_> {
    CollectionWriter::open_with_sizes(engine, ID, &CountOnly, SMALL).unwrap()
}

#[test]
fn unwritten_collection_is_empty() {
    let engine = MemoryEngine::new(1);
    let collection = CollectionReader::open(&engine, ID).unwrap();
    assert!(!collection.exists());
    assert_eq!((collection.count().unwrap(), collection.totals().unwrap()), (0, Totals::ZERO));
    assert_eq!((collection.rank(b"any").unwrap(), collection.state()), (0, &b""[..]));
    assert_eq!(collection.page(0, 10).unwrap(), []);
    assert!(collection.scan_at(0, Direction::Backward).unwrap().is_none());
    assert_eq!(collection.count_range(b"", None).unwrap(), 0);
    assert_eq!(check(&engine, ID, &CountOnly).unwrap(), []);
}

#[test]
fn empty_key_sorts_first() {
    let engine = MemoryEngine::new(1);
    let mut changes = writer(&engine);
    for key in [&b"\0"[..], b"", b"\xff\xff", b"\xff"] {
        assert_eq!(changes.put(key, key).unwrap(), None);
    }
    commit(&engine, changes);
    let collection = CollectionReader::open(&engine, ID).unwrap();
    let keys: Vec<_> = collection.page(0, 10).unwrap().into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, [&b""[..], b"\0", b"\xff", b"\xff\xff"]);
    let ranks = [&b""[..], b"\0", b"\x01", b"\xff", b"\xff\x01", b"\xff\xff", b"\xff\xff\xff"];
    assert_eq!(ranks.map(|key| collection.rank(key).unwrap()), [0, 1, 2, 2, 3, 3, 4]);
}

#[test]
fn keys_of_the_maximum_length_are_stored_and_separated() {
    let engine = MemoryEngine::new(1);
    let key = |last: u8| {
        let mut key = vec![b'k'; KEY_BYTES_MAX];
        key[KEY_BYTES_MAX - 1] = last;
        key
    };
    for some in (0..60u8).collect::<Vec<_>>().chunks(7) {
        let mut changes = writer(&engine);
        some.iter().for_each(|last| changes.insert(&key(*last), b"v").unwrap());
        commit(&engine, changes);
    }
    assert_eq!(check(&engine, ID, &CountOnly).unwrap(), []);
    let collection = CollectionReader::open(&engine, ID).unwrap();
    assert_eq!(
        (0..60).map(|last| collection.rank(&key(last)).unwrap()).collect::<Vec<_>>(),
        (0..60).collect::<Vec<_>>()
    );
}

#[test]
#[should_panic(expected = "the key of an entry has at most 4096 bytes")]
fn too_long_key_panics() {
    let engine = MemoryEngine::new(1);
    let _ = writer(&engine).put(&[0; KEY_BYTES_MAX + 1], b"v");
}

#[test]
fn a_state_of_the_maximum_length_is_kept() {
    let engine = MemoryEngine::new(1);
    let state = vec![7; STATE_BYTES_MAX];
    let mut changes = writer(&engine);
    changes.set_state(&state);
    assert_eq!(changes.state(), state);
    commit(&engine, changes);
    let collection = CollectionReader::open(&engine, ID).unwrap();
    assert!(collection.exists() && collection.state() == state && collection.count().unwrap() == 0);
    let mut changes = writer(&engine);
    changes.put(b"key", b"value").unwrap();
    commit(&engine, changes);
    assert_eq!(CollectionReader::open(&engine, ID).unwrap().state(), state, "other changes keep it");
}

#[test]
#[should_panic(expected = "the state of a collection does not exceed its maximum size")]
fn too_long_state_panics() {
    let engine = MemoryEngine::new(1);
    writer(&engine).set_state(&[0; STATE_BYTES_MAX + 1]);
}

#[test]
fn scans_stay_within_their_range_in_both_directions() {
    let engine = MemoryEngine::new(1);
    let mut changes = writer(&engine);
    (0..40u8).for_each(|number| changes.insert(&[number * 2], &[number]).unwrap());
    commit(&engine, changes);
    let collection = CollectionReader::open(&engine, ID).unwrap();
    for low in 0..80u8 {
        for high in low..80 {
            let range = KeyRange { start: vec![low], end: Some(vec![high]) };
            let keys = |direction| {
                let entries = collection.scan(&range, direction).unwrap().take(100).unwrap();
                entries.into_iter().map(|entry| entry.key[0]).collect::<Vec<_>>()
            };
            let mut expected: Vec<u8> = (low..high).filter(|number| number % 2 == 0).collect();
            assert_eq!(keys(Direction::Forward), expected);
            assert_eq!(collection.count_range(&[low], Some(&[high])).unwrap(), expected.len() as u64);
            expected.reverse();
            assert_eq!(keys(Direction::Backward), expected);
        }
    }
}

#[test]
#[should_panic(expected = "a range must not end before it starts")]
fn range_with_end_before_start_panics() {
    let engine = MemoryEngine::new(1);
    let _ = CollectionReader::open(&engine, ID).unwrap().count_range(b"b", Some(b"a"));
}

#[test]
#[should_panic(expected = "keys ascend")]
fn repeated_key_in_a_builder_panics() {
    let mut batch = Batch::new();
    let mut builder = CollectionBuilder::start(ID, 0, SMALL, &mut batch);
    for key in [b"a", b"b", b"b"] {
        builder.put(&mut batch, key, b"", Weight::ZERO).unwrap();
    }
}

#[test]
#[should_panic(expected = "a weight has no more values than the collection has sums")]
fn weight_with_too_many_values_panics() {
    let mut batch = Batch::new();
    let mut builder = CollectionBuilder::start(ID, 2, SMALL, &mut batch);
    let _ = builder.add(&mut batch, b"a", Weight::new(&[0; SUMS_MAX]));
    let _ = builder.add(&mut batch, b"b", Weight::new(&[0, 0, 1]));
}
