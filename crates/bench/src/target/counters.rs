//! The counters of a Doublet server that a run needs, by their names at `/metrics` (docs/operating.md, "Monitoring").

use serde::{Deserialize, Serialize};

use super::metrics::Metrics;

/// A counter, or a number that rises and falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum ServerCounter {
    /// Calls of the native protocol that arrived.
    NativeCalls,
    /// The time until their replies began.
    NativeCallSeconds,
    /// Requests over HTTP.
    HttpRequests,
    /// The time until their answers ended.
    HttpRequestSeconds,
    /// Transactions of the worker threads.
    Jobs,
    /// The time that transactions waited for a thread.
    JobsWaitedSeconds,
    /// The time that transactions ran.
    JobsRanSeconds,
    /// Sessions of users.
    Sessions,
    /// Open connections.
    Connections,
    /// Messages in the queue.
    Queue,
    /// Bytes written to the log.
    LogBytes,
    /// Syncs of the log.
    LogSyncs,
    /// Bytes written by flushes.
    FlushBytes,
    /// Bytes written by compactions.
    CompactionBytes,
    /// The time in which writers waited for flushes and compactions.
    StalledSeconds,
    /// Blocks found in the block cache.
    CacheHits,
    /// Blocks read from the disk.
    CacheMisses,
    /// Attachments that are stored separately, as of their last collection.
    Attachments,
    /// The disk space that they use.
    AttachmentBytes,
    /// The space that copies for all references would need in addition.
    AttachmentSavedBytes,
}

/// The number of counters.
const COUNT: usize = NAMES.len();

/// Their names in the order of [`ServerCounter`], and the label that they must have.
const NAMES: [(&str, Option<(&str, &str)>); 20] = [
    ("doublet_native_calls_total", None),
    ("doublet_native_calls_seconds_total", None),
    ("doublet_http_requests_total", None),
    ("doublet_http_requests_seconds_total", None),
    ("doublet_pool_completed_total", Some(("pool", "worker"))),
    ("doublet_pool_waited_seconds_total", Some(("pool", "worker"))),
    ("doublet_pool_ran_seconds_total", Some(("pool", "worker"))),
    ("doublet_sessions_logged_in", None),
    ("doublet_connections", None),
    ("doublet_queue_messages", None),
    ("doublet_store_log_written_bytes_total", None),
    ("doublet_store_log_syncs_total", None),
    ("doublet_store_flush_written_bytes_total", None),
    ("doublet_store_compaction_written_bytes_total", None),
    ("doublet_store_writes_stalled_seconds_total", None),
    ("doublet_store_cache_hits_total", None),
    ("doublet_store_cache_misses_total", None),
    ("doublet_blobs", None),
    ("doublet_blobs_stored_bytes", None),
    ("doublet_blobs_saved_bytes", None),
];

/// The counters at a moment. Those that the server does not have are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounters([Option<f64>; COUNT]);

impl ServerCounters {
    /// Reads the counters from a page.
    pub fn of_metrics(metrics: &Metrics) -> Self {
        Self(NAMES.map(|(name, label)| metrics.sum(name, label)))
    }

    /// Returns a counter.
    pub fn get(&self, counter: ServerCounter) -> Option<f64> {
        self.0[counter as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name_and_label() {
        let metrics = Metrics::of_text(
            "doublet_native_calls_total{call=\"Notes/OpenNote\"} 5\ndoublet_native_calls_total{call=\"Mail/Poll\"} 2\n\
             doublet_pool_completed_total{pool=\"worker\"} 9\ndoublet_pool_completed_total{pool=\"login\"} 1\n\
             doublet_blobs 3\ndoublet_blobs_saved_bytes 4096\n",
        );
        let counters = ServerCounters::of_metrics(&metrics);
        let of = |counter| counters.get(counter);
        assert_eq!(of(ServerCounter::NativeCalls), Some(7.0));
        assert_eq!(of(ServerCounter::Jobs), Some(9.0));
        assert_eq!(of(ServerCounter::Attachments), Some(3.0), "the name is the whole name");
        assert_eq!(of(ServerCounter::AttachmentSavedBytes), Some(4_096.0), "it is the last one");
        assert_eq!(of(ServerCounter::Sessions), None);
    }
}
