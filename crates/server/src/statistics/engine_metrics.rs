//! The metrics of the storage engine as Prometheus families.
//!
//! The engine names a metric with words separated by hyphens, with the unit last; the name of a metric of one table
//! starts with the table's name and a dot. This module converts them to Prometheus names with base units (bytes,
//! seconds) at the end; the format adds `_total` to those of counters. Unknown metrics are reported as gauges, so that
//! new ones are not lost.

use std::collections::BTreeMap;
use std::fmt;

use crate::metrics::MetricWriter;

/// The labels of a metric of one table, and its value.
type TableSample<'a> = (Vec<(&'static str, &'a str)>, u64);

/// Metrics that never decrease: the engine's name, the Prometheus name, and the help text.
const COUNTERS: [(&str, &str, &str); 14] = [
    ("cache-hits-count", "store_cache_hits", "Blocks found in the block cache."),
    ("cache-misses-count", "store_cache_misses", "Blocks read from the disk."),
    (
        "write-cache-lookups-count",
        "store_write_cache_lookups",
        "Lookups in the write cache, which holds recently written records.",
    ),
    ("write-cache-hits-count", "store_write_cache_hits", "Lookups answered by the write cache."),
    ("filter-skips-count", "store_filter_skips", "Lookups that a filter answered without reading a block."),
    ("read-ahead-bytes", "store_read_ahead_bytes", "Bytes that scans read ahead of their positions."),
    ("read-ahead-hits-count", "store_read_ahead_hits", "Blocks that had been read ahead when a scan came to them."),
    ("log-written-bytes", "store_log_written_bytes", "Bytes written to the log."),
    ("log-syncs-count", "store_log_syncs", "Syncs of the log."),
    ("written-bytes", "store_written_bytes", "Bytes of written changes."),
    ("flush-written-bytes", "store_flush_written_bytes", "Bytes written by flushes."),
    ("compaction-written-bytes", "store_compaction_written_bytes", "Bytes written by compactions."),
    ("compaction-read-bytes", "store_compaction_read_bytes", "Bytes read by compactions."),
    ("writes-stalled-microseconds", STALLED_SECONDS, "Total time that writers waited for flushes and compactions."),
];

/// The only metric whose unit is converted.
const STALLED_SECONDS: &str = "store_writes_stalled_seconds";

/// Metrics that rise and fall and whose names need an explanation: the engine's name and the help text.
const GAUGES: [(&str, &str); 8] = [
    ("memtables-bytes", "Memory used by changes that are not yet in a sorted file."),
    ("cache-bytes", "Memory used by the block cache."),
    ("log-bytes", "Size of the log."),
    ("disk-free-bytes", "Free disk space; if the log has its own disk, the smaller of the two values."),
    ("sorted-files-bytes", "Size of the sorted files."),
    ("compaction-pending-bytes", "Bytes waiting for compaction."),
    ("writes-stopped", "1 if the engine accepts no writes, otherwise 0."),
    ("background-errors-count", "Errors of flushes and compactions."),
];

/// Writes all metrics.
pub(super) fn write(out: &mut MetricWriter<'_>, metrics: &[(String, u64)]) -> fmt::Result {
    let mut tables: BTreeMap<String, Vec<TableSample<'_>>> = BTreeMap::new();
    for (name, value) in metrics {
        if let Some((table, rest)) = name.split_once('.') {
            let (family, level) = table_family(rest);
            let labels = std::iter::once(("table", table)).chain(level.map(|level| ("level", level))).collect();
            tables.entry(family).or_default().push((labels, *value));
            continue;
        }
        match COUNTERS.iter().find(|(metric, _, _)| metric == name) {
            Some((_, STALLED_SECONDS, help)) => out.counter(STALLED_SECONDS, help, *value as f64 / 1_000_000.0)?,
            Some((_, family, help)) => out.counter(family, help, *value)?,
            None => {
                let known = GAUGES.iter().find(|(metric, _)| metric == name);
                let help = known.map_or("Metric of the storage engine.", |(_, help)| help);
                out.gauge(&format!("store_{}", prometheus_name(name)), help, *value)?;
            }
        }
    }
    for (family, samples) in tables {
        out.gauges(&family, "Metric of one table of the store.", samples)?;
    }
    Ok(())
}

/// Returns the family of a table's metric, and the level if the name contains one.
fn table_family(metric: &str) -> (String, Option<&str>) {
    let level = metric.strip_prefix("level-").and_then(|rest| rest.split_once('-'));
    match level {
        Some((level, rest)) => (format!("store_table_{}", prometheus_name(rest)), Some(level)),
        None => (format!("store_table_{}", prometheus_name(metric)), None),
    }
}

/// Converts hyphens and dots to underscores and removes the suffix `-count`.
fn prometheus_name(metric: &str) -> String {
    metric.trim_end_matches("-count").replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::written;

    #[test]
    fn figures_get_units_and_labels() {
        let metrics = [
            ("log-written-bytes", 7),
            ("writes-stalled-microseconds", 2_500_000),
            ("disk-free-bytes", 9),
            ("snapshots-count", 3),
            ("summary.level-0-files-count", 4),
            ("body.level-0-files-count", 5),
        ];
        let metrics: Vec<(String, u64)> = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let text = written(move |out| write(out, &metrics));
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "doublet_store_log_written_bytes_total 7",
            "doublet_store_writes_stalled_seconds_total 2.5",
            "doublet_store_disk_free_bytes 9",
            "doublet_store_snapshots 3",
            "doublet_store_table_files{table=\"summary\",level=\"0\"} 4",
            "doublet_store_table_files{table=\"body\",level=\"0\"} 5",
        ];
        assert_eq!(samples, expected);
    }
}
