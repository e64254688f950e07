//! Engine metrics for the operator.
//!
//! Names are stable: words joined by hyphens, with the unit last. The name of a table's metric begins with the table
//! and a dot. Sums over the tables come first, then counters since the start, then the levels of each table that are
//! not empty.

use rocksdb::statistics::Ticker;
use rocksdb::{ColumnFamily, DB};

use super::RocksEngine;
use crate::engine::{Metrics, Table};

/// Number of levels that are queried. The sizes chosen in `options` never lead to more.
const LEVELS: usize = 7;

/// Properties that are summed over the tables.
const SUMS: [(&str, &str); 5] = [
    ("rocksdb.total-sst-files-size", "sorted-files-bytes"),
    ("rocksdb.total-blob-file-size", "separate-values-bytes"),
    ("rocksdb.live-blob-file-garbage-size", "separate-values-garbage-bytes"),
    ("rocksdb.estimate-num-keys", "keys-count"),
    ("rocksdb.estimate-pending-compaction-bytes", "compaction-pending-bytes"),
];

/// Properties of the whole database.
const WHOLE: [(&str, &str); 6] = [
    ("rocksdb.is-write-stopped", "writes-stopped"),
    ("rocksdb.actual-delayed-write-rate", "writes-delayed-bytes-per-second"),
    ("rocksdb.background-errors", "background-errors-count"),
    ("rocksdb.num-running-compactions", "compactions-running-count"),
    ("rocksdb.num-running-flushes", "flushes-running-count"),
    ("rocksdb.num-snapshots", "snapshots-count"),
];

/// Counters since the start.
const COUNTERS: [(Ticker, &str); 12] = [
    (Ticker::BlockCacheHit, "cache-hits-count"),
    (Ticker::BlockCacheMiss, "cache-misses-count"),
    (Ticker::BloomFilterUseful, "filter-skips-count"),
    (Ticker::PrefetchBytes, "read-ahead-bytes"),
    (Ticker::PrefetchHits, "read-ahead-hits-count"),
    (Ticker::WalFileBytes, "log-written-bytes"),
    (Ticker::WalFileSynced, "log-syncs-count"),
    (Ticker::BytesWritten, "written-bytes"),
    (Ticker::FlushWriteBytes, "flush-written-bytes"),
    (Ticker::CompactWriteBytes, "compaction-written-bytes"),
    (Ticker::CompactReadBytes, "compaction-read-bytes"),
    (Ticker::StallMicros, "writes-stalled-microseconds"),
];

/// Collects all metrics.
pub(super) fn collect(rocks: &RocksEngine) -> Metrics {
    let mut metrics = Metrics::new();
    let mut add = |name: String, value: u64| metrics.push((name, value));
    let (memtable_bytes, cache_bytes) = rocks.tuning.memory();
    add("memtables-bytes".into(), memtable_bytes as u64);
    add("cache-bytes".into(), cache_bytes as u64);
    add("log-bytes".into(), rocks.space.log_bytes());
    add("log-torn-at-start".into(), u64::from(rocks.was_torn));
    add("disk-free-bytes".into(), rocks.space.free_bytes());
    for (name, title) in SUMS {
        let sum = Table::ALL.iter().map(|table| property(&rocks.db, rocks.family(*table), name)).sum();
        add(title.into(), sum);
    }
    for (name, title) in WHOLE {
        add(title.into(), property(&rocks.db, rocks.family(Table::Store), name));
    }
    for (ticker, title) in COUNTERS {
        add(title.into(), rocks.tuning.database.get_ticker_count(ticker));
    }
    for table in Table::ALL {
        levels(rocks, table, &mut add);
    }
    metrics
}

fn levels(rocks: &RocksEngine, table: Table, add: &mut dyn FnMut(String, u64)) {
    let family = rocks.family(table);
    let name = table.name();
    let memtables = property(&rocks.db, family, "rocksdb.cur-size-all-mem-tables");
    add(format!("{name}.memtables-bytes"), memtables);
    for level in 0..LEVELS {
        let files = property(&rocks.db, family, &format!("rocksdb.num-files-at-level{level}"));
        if files > 0 {
            add(format!("{name}.level-{level}-files-count"), files);
        }
    }
    let bytes = property(&rocks.db, family, "rocksdb.total-sst-files-size");
    add(format!("{name}.sorted-files-bytes"), bytes);
}

/// Returns a numeric property of a table, or 0 if the engine does not know it.
pub(super) fn property(db: &DB, family: &ColumnFamily, name: &str) -> u64 {
    let text = db.property_value_cf(family, name).ok().flatten();
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
