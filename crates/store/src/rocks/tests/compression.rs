//! Codecs of tables and attachments: the bytes on disk with each, and data that another codec has written. Read-ahead
//! of scans.

use std::fs;
use std::path::Path;

use base::sim::SeededRandom;
use base::{DbNumber, NoteId, Random as _};

use super::{files, folder, scan_all, small};
use crate::batch::Batch;
use crate::blob::{BlobCodec, BlobId, BlobOptions, BlobOwner};
use crate::engine::{Direction, KeyRange, Table};
use crate::rocks::{Compression, StoreOptions};
use crate::store::Store;

/// Returns text that compresses, a better codec better.
fn text(seed: u64, length: usize) -> Vec<u8> {
    let random = SeededRandom::new(seed);
    let words: [&[u8]; 7] = [b"the ", b"quick ", b"brown ", b"fox ", b"jumps ", b"over ", b"dogs "];
    let mut text = Vec::new();
    while text.len() < length {
        text.extend_from_slice(words[random.below(7) as usize]);
        text.push(b"0123456789abcdef"[random.below(16) as usize]);
    }
    text.truncate(length);
    text
}

fn open(folder: &Path, options: StoreOptions) -> Store {
    Store::open(folder, &options).expect("the store opens")
}

/// Returns the size of the files with tables, or with separate values.
fn bytes(folder: &Path, end: &str) -> u64 {
    files(folder, end).iter().map(|file| fs::metadata(file).expect("it exists").len()).sum()
}

fn rows(seed: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |number: u64| (number.to_be_bytes().to_vec(), text(seed + number, 2_000));
    (0..1_000).map(row).collect()
}

fn write(store: &Store, table: Table, rows: &[(Vec<u8>, Vec<u8>)]) {
    let mut batch = Batch::new();
    rows.iter().for_each(|(key, value)| batch.put(table, key, value));
    store.durable(store.commit(&batch).expect("written")).wait().expect("durable");
    store.engine().compact(table, &KeyRange::all()).expect("compacted");
}

fn read(store: &Store, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    store.clear_write_cache();
    scan_all(store.engine(), table, &KeyRange::all(), Direction::Forward)
}

const CODECS: [Compression; 4] = [Compression::None, Compression::Lz4, Compression::Zstd, Compression::Tiered];

#[test]
fn each_codec_takes_its_space_in_the_tables_that_have_it() {
    for (table, is_index) in [(Table::Body, false), (Table::View, true)] {
        let sizes = CODECS.map(|codec| {
            let folder = folder();
            let store = match is_index {
                true => open(folder.path(), StoreOptions { index_compression: codec, ..small() }),
                false => open(folder.path(), StoreOptions { document_compression: codec, ..small() }),
            };
            write(&store, table, &rows(1));
            assert_eq!(read(&store, table), rows(1));
            bytes(folder.path(), ".sst")
        });
        let [none, lz4, zstd, tiered] = sizes;
        assert!(none > 2_000_000, "{sizes:?}");
        assert!(lz4 < none * 3 / 4 && zstd < lz4 * 9 / 10, "{sizes:?}");
        assert!(tiered.abs_diff(zstd) < zstd / 20, "all data is in the last level: {sizes:?}");
        // The other tables are not concerned.
        let folder = folder();
        let other = StoreOptions { document_compression: Compression::None, ..small() };
        let store = open(folder.path(), other);
        write(&store, Table::View, &rows(1));
        assert!(bytes(folder.path(), ".sst") < none / 2);
    }
}

#[test]
fn data_of_another_codec_is_read_and_rewritten() {
    for (before, after) in [(Compression::None, Compression::Zstd), (Compression::Zstd, Compression::None)] {
        let folder = folder();
        let opened = |codec| open(folder.path(), StoreOptions { document_compression: codec, ..small() });
        let store = opened(before);
        write(&store, Table::Summary, &rows(1));
        drop(store);
        let first = bytes(folder.path(), ".sst");
        let store = opened(after);
        assert_eq!(read(&store, Table::Summary), rows(1), "{before:?} is read");
        assert!(bytes(folder.path(), ".sst").abs_diff(first) < first / 10, "nothing was rewritten");
        store.engine().compact(Table::Summary, &KeyRange::all()).expect("compacted");
        assert_eq!(read(&store, Table::Summary), rows(1));
        drop(store);
        let second = bytes(folder.path(), ".sst");
        let (small, large) = if after == Compression::Zstd { (second, first) } else { (first, second) };
        assert!(small < large / 2, "{first} {second}");
    }
}

fn blob_store(folder: &Path, codec: BlobCodec) -> Store {
    open(folder, StoreOptions { blobs: BlobOptions { codec, ..BlobOptions::default() }, ..small() })
}

fn put(store: &Store, number: u32, content: &[u8]) -> BlobId {
    let writer = store.blobs().writer();
    let mut batch = Batch::new();
    let owner = BlobOwner { database: DbNumber(1), note: NoteId(number) };
    let id = writer.put(&mut batch, owner, content).expect("put");
    store.durable(store.commit(&batch).expect("written")).wait().expect("durable");
    id
}

fn content(store: &Store, id: &BlobId) -> Vec<u8> {
    store.blobs().read(store, id).expect("it is there")
}

#[test]
fn attachments_of_all_codecs_are_read_with_each_of_them() {
    let contents: Vec<Vec<u8>> = (1..40).map(|number| text(number, 100_000)).collect();
    let codecs = [BlobCodec::None, BlobCodec::Lz4, BlobCodec::Zstd];
    let sizes = codecs.map(|codec| {
        let folder = folder();
        let store = blob_store(folder.path(), codec);
        let ids: Vec<BlobId> = (1..).zip(&contents).map(|(number, content)| put(&store, number, content)).collect();
        store.flush().expect("flushed");
        let size = bytes(folder.path(), ".blob");
        drop(store);
        for other in codecs {
            let store = blob_store(folder.path(), other);
            assert!(ids.iter().zip(&contents).all(|(id, expected)| content(&store, id) == *expected));
            // What is there is not stored again.
            assert_eq!(put(&store, 999, &contents[3]), ids[3]);
            let more = text(1_000 + other as u64, 50_000);
            let id = put(&store, 1_000, &more);
            assert_eq!(content(&store, &id), more);
            assert!(store.blobs().verify_all(&store, &mut |_| {}).expect("it can be read").is_empty());
        }
        size
    });
    let [none, lz4, zstd] = sizes;
    assert!(none >= 3_900_000 && lz4 < none * 3 / 4 && zstd < lz4 * 9 / 10, "{sizes:?}");
}

#[test]
fn a_scan_reads_ahead_as_far_as_the_setting_says() {
    let read_ahead = |read_ahead_bytes| {
        let folder = folder();
        // The content cannot be in the cache of blocks.
        let options = StoreOptions { document_compression: Compression::None, read_ahead_bytes, ..small() };
        let store = open(folder.path(), options.clone());
        write(&store, Table::Body, &rows(1));
        drop(store);
        let store = open(folder.path(), options);
        let mut cursor = crate::engine::TableReader::scan(&store, Table::Body, &KeyRange::all(), Direction::Forward)
            .expect("a scan");
        for _ in 0..40 {
            assert!(cursor.next().expect("sound").is_some());
        }
        drop(cursor);
        let metrics = store.engine().metrics();
        metrics.iter().find(|(name, _)| name == "read-ahead-bytes").expect("it is measured").1
    };
    let little = read_ahead(Some(64 << 10));
    let much = read_ahead(Some(1 << 20));
    assert!(much > 2 * little, "{little} {much}");
}
