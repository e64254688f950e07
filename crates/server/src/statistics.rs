//! The data of the administration port: the readiness of the server, and its statistics.
//!
//! The numbers come from the reports of the other crates at the time of the request, and from [`crate::counts`];
//! nothing is counted twice. Attachments are an exception: counting them reads all their headers, so the blob
//! collection counts them and stores the result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use instance::Instance;
use wire::{Connections, Pool, Shutdown};

use crate::admin_http::StatusSource;
use crate::counts::{Count, LOGIN_PROTOCOLS, MAIL_PROTOCOLS, MailCounts, ProtocolCounts};
use crate::listen::{ListenerCounts, ListenerProbe, Protocol};
use crate::logins::Logins;
use crate::metrics::{Exposition, Kind, process};
use crate::sessions::Sessions;
use crate::updater::Updater;

mod figures;

/// Provides the statistics of a running server.
pub struct Statistics {
    /// The services of the data folder.
    pub instance: Arc<Instance>,
    /// The worker pool.
    pub pool: Pool,
    /// All connections.
    pub connections: Arc<Connections>,
    /// The counters of each listener.
    pub traffic: BTreeMap<Protocol, Arc<ListenerCounts>>,
    /// The registry of login sessions.
    pub sessions: Arc<Sessions>,
    /// The counters of incoming and outgoing mail.
    pub mail_counts: Arc<MailCounts>,
    /// The counters of logins.
    pub logins: Arc<Logins>,
    /// The task that keeps views up to date.
    pub updater: Arc<Updater>,
    /// The state of the shutdown.
    pub shutdown: Shutdown,
    /// The probes of all listeners except the administration port.
    pub listeners: Vec<ListenerProbe>,
}

impl StatusSource for Statistics {
    fn ready(&self) -> Result<(), String> {
        if self.shutdown.is_draining() {
            return Err("the server is shutting down".to_owned());
        }
        match self.instance.store_fault() {
            Some(why) => Err(format!("the store refuses changes: {why}")),
            None => Ok(()),
        }
    }

    fn listeners(&self) -> &[ListenerProbe] {
        &self.listeners
    }

    fn metrics(&self) -> String {
        let mut out = Exposition::default();
        self.listeners(&mut out);
        self.workers(&mut out);
        self.mail(&mut out);
        self.name_cache(&mut out);
        self.transport(&mut out);
        self.logins(&mut out);
        self.store(&mut out);
        self.blobs(&mut out);
        self.full_text(&mut out);
        self.views(&mut out);
        process(&mut out);
        out.finish()
    }
}

impl Statistics {
    fn listeners(&self, out: &mut Exposition) {
        out.single(Kind::Gauge, "connections", "Connections now.", self.connections.count() as f64);
        let samples = |pick: fn(&ListenerCounts) -> &AtomicU64| -> Vec<(&'static str, &'static str, f64)> {
            let sample = |(protocol, traffic): (&Protocol, &Arc<ListenerCounts>)| {
                ("listener", protocol.name(), pick(traffic).load(Ordering::Relaxed) as f64)
            };
            self.traffic.iter().map(sample).collect()
        };
        let accepted = samples(|traffic| &traffic.accepted);
        out.family(Kind::Counter, "connections_accepted_total", "Accepted connections.", &accepted);
        let refused = samples(|traffic| &traffic.refused);
        out.family(Kind::Counter, "connections_refused_total", "Connections refused because of a limit.", &refused);
    }

    fn workers(&self, out: &mut Exposition) {
        let report = self.pool.report();
        out.single(Kind::Gauge, "pool_workers", "Worker threads.", report.workers as f64);
        out.single(Kind::Gauge, "pool_busy", "Worker threads that are running a transaction.", report.busy as f64);
        out.single(Kind::Gauge, "pool_depth", "Transactions waiting for a worker thread.", report.depth as f64);
        out.single(
            Kind::Gauge,
            "pool_depth_max",
            "Maximum number of transactions that waited at the same time.",
            report.depth_max as f64,
        );
        out.single(Kind::Counter, "pool_completed_total", "Completed transactions.", report.completed as f64);
        out.single(
            Kind::Counter,
            "pool_panicked_total",
            "Transactions that panicked because of a bug.",
            report.panicked as f64,
        );
        out.single(
            Kind::Counter,
            "pool_waited_seconds_total",
            "Total time that transactions waited for a worker thread.",
            report.waited.as_secs_f64(),
        );
        out.single(
            Kind::Counter,
            "pool_ran_seconds_total",
            "Total time that transactions ran.",
            report.ran.as_secs_f64(),
        );
    }

    fn mail(&self, out: &mut Exposition) {
        let queue = self.instance.router.counts();
        out.single(Kind::Gauge, "queue_messages", "Messages in the queue.", queue.messages as f64);
        out.single(Kind::Gauge, "queue_pending", "Queued messages with pending recipients.", queue.pending as f64);
        out.single(Kind::Gauge, "queue_transfers", "Transfers in progress.", queue.active as f64);
    }

    fn name_cache(&self, out: &mut Exposition) {
        let cache = self.instance.directory.cache_statistics();
        let counters = [
            ("name_cache_lookups_total", "Lookups in the name cache.", cache.lookups),
            ("name_cache_hits_total", "Lookups answered by the name cache.", cache.hits),
            ("name_cache_misses_total", "Lookups answered by the directory.", cache.misses),
            (
                "name_cache_invalidations_total",
                "Misses whose cached entry was older than the directory.",
                cache.invalidations,
            ),
        ];
        for (name, help, value) in counters {
            out.single(Kind::Counter, name, help, value as f64);
        }
        out.single(Kind::Gauge, "name_cache_entries", "Entries in the name cache.", cache.entries as f64);
        out.single(Kind::Gauge, "name_cache_bytes", "Memory used by the name cache.", cache.bytes as f64);
    }

    fn full_text(&self, out: &mut Exposition) {
        let counts = &self.instance.full_text.counts;
        let mut count = |name, help, count: &AtomicU64| {
            out.single(Kind::Counter, name, help, count.load(Ordering::Relaxed) as f64);
        };
        count("full_text_indexed_total", "Indexed documents.", &counts.indexed);
        count("full_text_damaged_total", "Documents that could be indexed only in part.", &counts.damaged);
        count("full_text_updates_total", "Index updates of databases.", &counts.updates);
        count("full_text_failures_total", "Failed index updates of databases.", &counts.failures);
        let pdf = &self.instance.full_text.pdf.counts;
        count("full_text_pdf_read_total", "PDFs whose text was extracted.", &pdf.read);
        count("full_text_pdf_empty_total", "PDFs that have no text or cannot be read.", &pdf.empty);
        count(
            "full_text_pdf_lost_total",
            "PDFs given up because the process that read them failed or took too long.",
            &pdf.lost,
        );
        count("full_text_queries_total", "Answered queries.", &counts.queries);
        let Some(status) = self.instance.full_text.status() else { return };
        out.single(Kind::Gauge, "full_text_documents", "Documents in the index.", status.documents as f64);
        out.single(Kind::Gauge, "full_text_segments", "Segments of the index.", status.segments as f64);
        out.single(Kind::Gauge, "full_text_bytes", "Size of the index.", status.bytes as f64);
    }

    fn store(&self, out: &mut Exposition) {
        let (commits, syncs) = self.instance.store.committer().counts();
        out.single(Kind::Counter, "store_commits_total", "Changes written.", commits as f64);
        out.single(Kind::Counter, "store_syncs_total", "Syncs of the log that made changes durable.", syncs as f64);
        out.single(
            Kind::Gauge,
            "store_waiting",
            "Writers waiting for a sync.",
            self.instance.store.committer().waiting() as f64,
        );
        let poisoned = self.instance.store.committer().poisoned().is_some();
        out.single(
            Kind::Gauge,
            "store_poisoned",
            "1 if a sync failed and the store refuses all further writes, otherwise 0.",
            f64::from(poisoned),
        );
        let refused = self.instance.store_fault().is_some();
        out.single(
            Kind::Gauge,
            "store_refuses",
            "1 if changes are refused because a sync failed or the disk is full, otherwise 0.",
            f64::from(refused),
        );
        out.single(Kind::Gauge, "databases_open", "Open databases.", self.instance.notes.open_count() as f64);
        figures::write(out, &self.instance.store.engine().metrics());
    }

    fn blobs(&self, out: &mut Exposition) {
        let counted = self.instance.blobs_counted.lock();
        let Some(report) = counted.as_ref() else { return };
        let gauges = [
            ("blobs", "Attachments stored separately, as of the last collection.", report.count),
            ("blobs_raw_bytes", "Total size of the attachments' contents.", report.raw_bytes),
            ("blobs_stored_bytes", "Disk space used by the attachments.", report.stored_bytes),
            ("blobs_references", "References from notes to attachments.", report.references),
            (
                "blobs_saved_bytes",
                "Additional space that a separate copy for each reference would need.",
                report.saved_bytes,
            ),
            ("blobs_missing", "Attachments that notes refer to but that are missing.", report.missing_count),
            (
                "blobs_orphaned",
                "Unreferenced attachments waiting for the end of their grace period.",
                report.orphaned_count,
            ),
        ];
        for (name, help, value) in gauges {
            out.single(Kind::Gauge, name, help, value as f64);
        }
    }

    fn views(&self, out: &mut Exposition) {
        let counts = &self.updater.counts;
        let counters = [
            ("update_databases_total", "Databases whose views were checked for updates.", &counts.databases),
            ("update_views_total", "Views updated in the background.", &counts.views),
            ("update_failures_total", "Views that could not be updated in the background.", &counts.failures),
            ("update_dropped_total", "View update requests dropped because the queue was full.", &counts.dropped),
        ];
        for (name, help, count) in counters {
            out.single(Kind::Counter, name, help, count.load(Ordering::Relaxed) as f64);
        }
        out.single(
            Kind::Gauge,
            "update_waiting",
            "Databases waiting for an update of their views.",
            self.updater.waiting() as f64,
        );
    }

    fn logins(&self, out: &mut Exposition) {
        let samples: Vec<_> = LOGIN_PROTOCOLS
            .into_iter()
            .flat_map(|protocol| {
                let (succeeded, failed) = self.logins.counts(protocol);
                [("ok", succeeded), ("failed", failed)]
                    .map(|(outcome, count)| (vec![("protocol", protocol.name()), ("outcome", outcome)], count as f64))
            })
            .collect();
        out.labelled(Kind::Counter, "logins_total", "Successful and failed logins.", &samples);
        let logged_in = self.sessions.logged_in();
        out.single(Kind::Gauge, "sessions_logged_in", "Connections with a logged-in user.", logged_in as f64);
        let directory = self.instance.directory.login_statistics();
        out.single(
            Kind::Counter,
            "logins_throttled_total",
            "Logins deferred after too many failures.",
            directory.throttled as f64,
        );
        out.single(Kind::Counter, "password_hashes_total", "Computed password hashes.", directory.hashes as f64);
    }

    fn transport(&self, out: &mut Exposition) {
        let counts = &self.mail_counts;
        let by_way = |pick: fn(&ProtocolCounts) -> &Count| -> Vec<(&'static str, &'static str, f64)> {
            MAIL_PROTOCOLS
                .into_iter()
                .zip(&counts.by_protocol)
                .map(|(way, of)| ("via", way, pick(of).get() as f64))
                .collect()
        };
        out.family(Kind::Counter, "mail_accepted_total", "Messages accepted.", &by_way(|way| &way.accepted));
        out.family(
            Kind::Counter,
            "mail_accepted_bytes_total",
            "Size of the accepted messages.",
            &by_way(|way| &way.accepted_bytes),
        );
        let refused = by_way(|way| &way.refused);
        out.family(
            Kind::Counter,
            "mail_refused_total",
            "Messages refused after they were received completely.",
            &refused,
        );
        let totals = [
            (
                "mail_delivered_total",
                "Local mailboxes that received a message when it was accepted.",
                &counts.delivered,
            ),
            ("mail_queued_total", "Recipients for whom an accepted message was queued.", &counts.queued),
            ("mail_sent_total", "Remote recipients whose server accepted the message.", &counts.sent),
            ("mail_put_off_total", "Delivery attempts to be retried, counted per recipient.", &counts.deferred),
            ("mail_failed_total", "Remote recipients whose server refused the message.", &counts.failed),
        ];
        for (name, help, count) in totals {
            out.single(Kind::Counter, name, help, count.get() as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Clock;
    use wire::{ConnectionLimits, PoolOptions};

    use super::*;
    use instance::system::SystemClock;
    use sample::Sample;

    fn statistics(sample: Sample) -> (Statistics, tempfile::TempDir) {
        let Sample { instance, folder } = sample;
        let instance = Arc::new(instance);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let options = PoolOptions { name: "worker".to_owned(), workers: 1, queue_max: 16 };
        let sessions = Arc::default();
        let logins = Logins::new(&instance, Arc::clone(&sessions));
        let statistics = Statistics {
            updater: Arc::new(Updater::new(&instance)),
            instance,
            pool: Pool::new(&options, clock).expect("threads can be started"),
            connections: Connections::new(ConnectionLimits { total_max: 1, per_address_max: 1 }),
            traffic: BTreeMap::new(),
            mail_counts: Arc::default(),
            sessions,
            logins,
            shutdown: Shutdown::new(),
            listeners: Vec::new(),
        };
        (statistics, folder)
    }

    #[test]
    fn families_follow_the_rules_of_prometheus() {
        let (statistics, _folder) = statistics(Sample::new());
        *statistics.instance.blobs_counted.lock() = Some(store::blob::BlobReport::default());
        let text = statistics.metrics();
        let mut kinds = BTreeMap::new();
        for line in text.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                assert!(kinds.insert(name, kind).is_none(), "{name} is there twice");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
                assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap_or_default();
                assert!(kinds.contains_key(name), "{line} has no family");
            }
        }
        let expected = [
            "doublet_logins_total",
            "doublet_mail_accepted_total",
            "doublet_mail_refused_total",
            "doublet_mail_delivered_total",
            "doublet_mail_queued_total",
            "doublet_store_poisoned",
            "doublet_blobs_stored_bytes",
            "doublet_name_cache_misses_total",
            "doublet_name_cache_invalidations_total",
            "doublet_name_cache_entries",
            "doublet_store_disk_free_bytes",
            "doublet_store_log_written_bytes_total",
            "doublet_store_writes_stalled_seconds_total",
        ];
        for name in expected {
            assert!(kinds.contains_key(name), "{name} is missing");
        }
    }

    #[test]
    fn every_family_that_the_documentation_names_is_there() {
        let (statistics, _folder) = statistics(Sample::new());
        *statistics.instance.blobs_counted.lock() = Some(store::blob::BlobReport::default());
        let text = statistics.metrics();
        let document = include_str!("../../../docs/operating.md");
        let words = document.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in words.filter(|word| word.starts_with("doublet_")) {
            assert!(text.contains(&format!("# TYPE {name} ")), "docs/operating.md names {name}, which is not told");
        }
    }

    #[test]
    fn a_full_disk_is_not_ready() {
        let (sound, _folder) = statistics(Sample::new());
        assert_eq!(sound.ready(), Ok(()));
        sound.shutdown.drain();
        assert!(sound.ready().is_err());
        // The reserve is read at each comparison, so the sample itself can still be created.
        let sample = Sample::new();
        let Sample { mut instance, folder } = sample;
        let mut config = instance.config.as_ref().clone();
        config.store.disk_reserve = config::units::ByteSize(u64::MAX);
        instance.config = Arc::new(config);
        let (full, _folder) = statistics(Sample { instance, folder });
        let told = full.ready().expect_err("there is never so much room");
        assert!(told.contains("store.disk_reserve"), "{told}");
        assert!(full.metrics().contains("doublet_store_refuses 1\n"));
    }
}
