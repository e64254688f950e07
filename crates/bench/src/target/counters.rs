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
    /// Transfers of messages to other servers.
    MailTransfers,
}

/// The number of counters.
const COUNT: usize = NAMES.len();

/// Their names in the order of [`ServerCounter`], and the labels that they must have.
const NAMES: [(&str, &[(&str, &str)]); 21] = [
    ("doublet_native_calls_total", &[]),
    ("doublet_native_calls_seconds_total", &[]),
    ("doublet_http_requests_total", &[]),
    ("doublet_http_requests_seconds_total", &[]),
    ("doublet_pool_completed_total", &[("pool", "worker")]),
    ("doublet_pool_waited_seconds_total", &[("pool", "worker")]),
    ("doublet_pool_ran_seconds_total", &[("pool", "worker")]),
    ("doublet_sessions_logged_in", &[]),
    ("doublet_connections", &[]),
    ("doublet_queue_messages", &[]),
    ("doublet_store_log_written_bytes_total", &[]),
    ("doublet_store_log_syncs_total", &[]),
    ("doublet_store_flush_written_bytes_total", &[]),
    ("doublet_store_compaction_written_bytes_total", &[]),
    ("doublet_store_writes_stalled_seconds_total", &[]),
    ("doublet_store_cache_hits_total", &[]),
    ("doublet_store_cache_misses_total", &[]),
    ("doublet_blobs", &[]),
    ("doublet_blobs_stored_bytes", &[]),
    ("doublet_blobs_saved_bytes", &[]),
    ("doublet_pool_jobs_total", &[("protocol", "router"), ("command", "read")]),
];

/// The counters at a moment. Those that the server does not have are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCounters([Option<f64>; COUNT]);

impl ServerCounters {
    /// Reads the counters from a page.
    pub fn of_metrics(metrics: &Metrics) -> Self {
        let mut counters = NAMES.map(|(name, labels)| metrics.sum(name, labels));
        // A job is on the page when it has run for the first time.
        counters[ServerCounter::MailTransfers as usize].get_or_insert(0.0);
        Self(counters)
    }

    /// Requests the counters of servers, and returns their sums, or `None` if one of them does not answer or there is
    /// no server.
    pub async fn of_servers(addresses: &[String]) -> Option<Self> {
        let mut sums: Option<Self> = None;
        for address in addresses {
            let own = Self::of_metrics(&Metrics::request(address).await.ok()?);
            sums = Some(sums.map_or(own, |sums| sums.plus(&own)));
        }
        sums
    }

    /// Returns the sums of the counters of two servers. What one of them does not count is not known of both.
    fn plus(&self, other: &Self) -> Self {
        let mut sums = self.0;
        for (sum, other) in sums.iter_mut().zip(other.0) {
            *sum = sum.zip(other).map(|(one, other)| one + other);
        }
        Self(sums)
    }

    /// Returns a counter.
    pub fn get(&self, counter: ServerCounter) -> Option<f64> {
        self.0[counter as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::tests::serve;
    use super::*;

    #[test]
    fn counters_are_found_by_name_and_label() {
        let metrics = Metrics::of_text(
            "doublet_native_calls_total{call=\"Notes/OpenNote\"} 5\ndoublet_native_calls_total{call=\"Mail/Poll\"} 2\n\
             doublet_pool_completed_total{pool=\"worker\"} 9\ndoublet_pool_completed_total{pool=\"login\"} 1\n\
             doublet_blobs 3\ndoublet_blobs_saved_bytes 4096\n\
             doublet_pool_jobs_total{pool=\"worker\",protocol=\"router\",command=\"read\",class=\"server\"} 6\n",
        );
        let counters = ServerCounters::of_metrics(&metrics);
        let of = |counter| counters.get(counter);
        assert_eq!(of(ServerCounter::NativeCalls), Some(7.0));
        assert_eq!(of(ServerCounter::Jobs), Some(9.0));
        assert_eq!(of(ServerCounter::Attachments), Some(3.0), "the name is the whole name");
        assert_eq!(of(ServerCounter::AttachmentSavedBytes), Some(4_096.0));
        assert_eq!(of(ServerCounter::MailTransfers), Some(6.0), "it is the last one");
        assert_eq!(of(ServerCounter::Sessions), None);
    }

    #[tokio::test]
    async fn counters_of_servers_are_added() {
        let one = serve(vec!["doublet_native_calls_total 5\ndoublet_blobs 3".to_owned()]).await;
        let two = serve(vec!["doublet_native_calls_total 7".to_owned()]).await;
        let sums = ServerCounters::of_servers(&[one.clone(), two]).await.expect("both answer");
        assert_eq!(sums.get(ServerCounter::NativeCalls), Some(12.0));
        assert_eq!(sums.get(ServerCounter::Attachments), None, "the second server has not counted them yet");
        assert_eq!(sums.get(ServerCounter::MailTransfers), Some(0.0));
        let alone = ServerCounters::of_servers(std::slice::from_ref(&one)).await.expect("it answers");
        assert_eq!(alone.get(ServerCounter::Attachments), Some(3.0));
        let silent = "127.0.0.1:1".to_owned();
        assert_eq!(ServerCounters::of_servers(&[one, silent]).await, None);
        assert_eq!(ServerCounters::of_servers(&[]).await, None);
    }
}
