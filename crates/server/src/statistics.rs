//! The data of the administration port: the readiness of the server, and its statistics.
//!
//! The numbers come from the reports of the other crates at the time of the request, and from [`crate::counters`];
//! nothing is counted twice. Attachments are an exception: counting them reads all their headers, so the blob
//! collection counts them and stores the result.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::memory::MemoryShares;
use http::statistics::RouteCounters;
use instance::Instance;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use wire::{Connections, Shutdown, VerbStatistics, WorkerPool};

use crate::admin_http::StatusSource;
use crate::counters::{Counter, LOGIN_PROTOCOLS, MAIL_PROTOCOLS, MailCounters, ProtocolCounters, ReplicationCounters};
use crate::listeners::{ListenerCounters, ListenerProbe, ListenerProtocol};
use crate::logins::Logins;
use crate::metrics::{MetricWriter, write_process};
use crate::session_registry::SessionRegistry;
use crate::view_updater::ViewUpdater;

mod engine_metrics;

/// Provides the statistics of a running server.
pub struct ServerStatistics {
    /// The services of the data folder.
    pub instance: Arc<Instance>,
    /// The worker pool.
    pub pool: WorkerPool,
    /// The pool that checks logins.
    pub login_pool: WorkerPool,
    /// All connections.
    pub connections: Arc<Connections>,
    /// The memory for messages and calls in transit.
    pub memory: Arc<MemoryShares>,
    /// The counters of each listener.
    pub traffic: BTreeMap<ListenerProtocol, Arc<ListenerCounters>>,
    /// The registry of login sessions.
    pub sessions: Arc<SessionRegistry>,
    /// The counters of incoming and outgoing mail.
    pub mail_counters: Arc<MailCounters>,
    /// The counters of logins.
    pub logins: Arc<Logins>,
    /// The task that keeps views up to date.
    pub updater: Arc<ViewUpdater>,
    /// The counters of replications.
    pub replication_counters: Arc<ReplicationCounters>,
    /// The counters of calls of the native protocol.
    pub native: Arc<rpc::statistics::Statistics>,
    /// The counters of requests over HTTP, by the service that they are for.
    pub http: Vec<(&'static str, Arc<http::statistics::Statistics>)>,
    /// The state of the shutdown.
    pub shutdown: Shutdown,
    /// The probes of all listeners except the administration port.
    pub listeners: Vec<ListenerProbe>,
}

impl StatusSource for ServerStatistics {
    fn ready(&self) -> Result<(), String> {
        if self.shutdown.is_draining() {
            return Err("the server is shutting down".to_owned());
        }
        match self.instance.store_fault() {
            Some(reason) => Err(format!("the store refuses changes: {reason}")),
            None => Ok(()),
        }
    }

    fn listeners(&self) -> &[ListenerProbe] {
        &self.listeners
    }
}

impl Collector for ServerStatistics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut MetricWriter::new(encoder);
        self.write_listeners(out)?;
        self.write_memory_plan(out)?;
        self.write_workers(out)?;
        self.write_mail(out)?;
        self.write_name_cache(out)?;
        self.write_profile_cache(out)?;
        self.write_transport(out)?;
        self.write_logins(out)?;
        self.write_native(out)?;
        self.write_http(out)?;
        self.write_store(out)?;
        self.write_blobs(out)?;
        self.write_full_text(out)?;
        self.write_views(out)?;
        self.write_replication(out)?;
        write_process(out)
    }
}

impl fmt::Debug for ServerStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStatistics").finish_non_exhaustive()
    }
}

impl ServerStatistics {
    fn write_listeners(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        out.gauge("connections", "Connections now.", self.connections.count())?;
        let memory = self.memory.total().held_bytes();
        out.gauge("message_memory_bytes", "Memory of messages and calls in transit.", memory)?;
        let samples = |pick: fn(&ListenerCounters) -> &AtomicU64| {
            let labels = |protocol: &ListenerProtocol| [("listener", protocol.name())];
            self.traffic.iter().map(move |(protocol, of)| (labels(protocol), pick(of).load(Ordering::Relaxed)))
        };
        out.counters("connections_accepted", "Accepted connections.", samples(|of| &of.accepted))?;
        let refused = samples(|of| &of.refused);
        out.counters("connections_refused", "Connections refused because of a limit.", refused)
    }

    fn write_memory_plan(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let plan = &self.instance.memory_plan;
        out.gauge("memory_ceiling_bytes", "Maximum memory of all parts together.", plan.ceiling.0)?;
        let parts = plan.parts().map(|(part, bytes)| ([("part", part)], bytes));
        out.gauges("memory_plan_bytes", "Maximum memory of a part.", parts)
    }

    fn write_workers(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let reports = self.pools().map(|(name, pool)| ([("pool", name)], pool.report()));
        let workers = samples(&reports, |pool| pool.workers as u64);
        out.gauges("pool_workers", "Worker threads.", workers)?;
        let busy = samples(&reports, |pool| pool.busy as u64);
        out.gauges("pool_busy", "Worker threads that are running a transaction.", busy)?;
        let depth = samples(&reports, |pool| pool.depth as u64);
        out.gauges("pool_depth", "Transactions waiting for a worker thread.", depth)?;
        let depth_max = samples(&reports, |pool| pool.depth_max as u64);
        out.gauges("pool_depth_max", "Maximum number of transactions that waited at the same time.", depth_max)?;
        let completed = samples(&reports, |pool| pool.completed);
        out.counters("pool_completed", "Completed transactions.", completed)?;
        let panicked = samples(&reports, |pool| pool.panicked);
        out.counters("pool_panicked", "Transactions that panicked because of a bug.", panicked)?;
        let waited = samples(&reports, |pool| pool.waited.as_secs_f64());
        out.counters("pool_waited_seconds", "Total time that transactions waited for a worker thread.", waited)?;
        let ran = samples(&reports, |pool| pool.ran.as_secs_f64());
        out.counters("pool_ran_seconds", "Total time that transactions ran.", ran)?;
        self.write_verbs(out)
    }

    fn write_verbs(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let verbs: Vec<_> = self.pools().into_iter().flat_map(|(name, pool)| verbs_of(name, pool)).collect();
        let completed = samples(&verbs, |verb| verb.completed);
        out.counters("pool_jobs", "Completed transactions by command and class of owners.", completed)?;
        let ran = samples(&verbs, |verb| verb.ran.as_secs_f64());
        out.counters("pool_jobs_seconds", "Time that these transactions ran.", ran)?;
        let slow = samples(&verbs, |verb| verb.slow);
        out.counters("pool_jobs_slow", "Transactions that kept a worker for longer than they should.", slow)?;
        let ran_max = samples(&verbs, |verb| verb.ran_max.as_micros() as u64);
        out.gauges("pool_jobs_microseconds_max", "Longest time that such a transaction ran.", ran_max)
    }

    /// Returns the pools with their names in metrics.
    fn pools(&self) -> [(&'static str, &WorkerPool); 2] {
        [("worker", &self.pool), ("login", &self.login_pool)]
    }

    fn write_mail(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let queue = self.instance.router.counts();
        out.gauge("queue_messages", "Messages in the queue.", queue.messages)?;
        out.gauge("queue_pending", "Queued messages with pending recipients.", queue.pending)?;
        out.gauge("queue_transfers", "Transfers in progress.", queue.active)?;
        let suppressed = self.instance.router.suppressed_reports();
        out.counter("reports_suppressed", "Delivery reports not sent because of the limit of their sender.", suppressed)
    }

    fn write_name_cache(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let cache = self.instance.directory.cache_statistics();
        let counters = [
            ("name_cache_lookups", "Lookups in the name cache.", cache.lookups),
            ("name_cache_hits", "Lookups answered by the name cache.", cache.hits),
            ("name_cache_misses", "Lookups answered by the directory.", cache.misses),
            (
                "name_cache_invalidations",
                "Misses whose cached entry was older than the directory.",
                cache.invalidations,
            ),
        ];
        for (name, help, value) in counters {
            out.counter(name, help, value)?;
        }
        out.gauge("name_cache_entries", "Entries in the name cache.", cache.entries)?;
        out.gauge("name_cache_bytes", "Memory used by the name cache.", cache.bytes)
    }

    fn write_profile_cache(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let cache = self.instance.mail.profile_cache_statistics();
        out.counter("profile_cache_hits", "Profile documents that were found in memory.", cache.hits)?;
        out.counter("profile_cache_misses", "Profile documents that were read.", cache.misses)?;
        out.gauge("profile_cache_entries", "Profile documents in memory.", cache.entries)
    }

    fn write_full_text(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let counters = &self.instance.full_text.counters;
        let mut count = |name, help, count: &AtomicU64| out.counter(name, help, count.load(Ordering::Relaxed));
        count("full_text_indexed", "Indexed documents.", &counters.indexed)?;
        count("full_text_damaged", "Documents that could be indexed only in part.", &counters.damaged)?;
        count("full_text_updates", "Index updates of databases.", &counters.updates)?;
        count("full_text_failures", "Failed index updates of databases.", &counters.failures)?;
        let pdf = &self.instance.full_text.pdf.counters;
        count("full_text_pdf_read", "PDFs whose text was extracted.", &pdf.read)?;
        count("full_text_pdf_empty", "PDFs that have no text or cannot be read.", &pdf.empty)?;
        count(
            "full_text_pdf_failed",
            "PDFs given up because the process that read them failed or took too long.",
            &pdf.failed,
        )?;
        count("full_text_queries", "Answered queries.", &counters.queries)?;
        let Some(status) = self.instance.full_text.status() else { return Ok(()) };
        out.gauge("full_text_documents", "Documents in the index.", status.documents)?;
        out.gauge("full_text_segments", "Segments of the index.", status.segments)?;
        out.gauge("full_text_bytes", "Size of the index.", status.bytes)
    }

    fn write_store(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let (commits, syncs) = self.instance.store.committer().counts();
        out.counter("store_commits", "Changes written.", commits)?;
        out.counter("store_syncs", "Syncs of the log that made changes durable.", syncs)?;
        out.gauge("store_waiting", "Writers waiting for a sync.", self.instance.store.committer().waiter_count())?;
        let poisoned = self.instance.store.committer().poison_reason().is_some();
        out.gauge(
            "store_poisoned",
            "1 if a sync failed and the store refuses all further writes, otherwise 0.",
            u32::from(poisoned),
        )?;
        let refused = self.instance.store_fault().is_some();
        out.gauge(
            "store_read_only",
            "1 if changes are refused because a sync failed or the disk is full, otherwise 0.",
            u32::from(refused),
        )?;
        out.gauge("databases_open", "Open databases.", self.instance.databases.open_count())?;
        engine_metrics::write(out, &self.instance.store.engine().metrics())
    }

    fn write_blobs(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let counted = self.instance.blobs_counted.lock();
        let Some(report) = counted.as_ref() else { return Ok(()) };
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
            out.gauge(name, help, value)?;
        }
        Ok(())
    }

    fn write_views(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let counters = &self.updater.counters;
        let counters = [
            ("update_databases", "Databases whose views were checked for updates.", &counters.databases),
            ("update_views", "Views updated in the background.", &counters.views),
            ("update_failures", "Views that could not be updated in the background.", &counters.failures),
            ("update_dropped", "View update requests dropped because the queue was full.", &counters.dropped),
        ];
        for (name, help, count) in counters {
            out.counter(name, help, count.load(Ordering::Relaxed))?;
        }
        out.gauge("update_waiting", "Databases waiting for an update of their views.", self.updater.waiting_count())
    }

    fn write_replication(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let replication = &self.replication_counters;
        let counters = [
            ("replica_successful", "Replications of a database that brought everything.", &replication.successful),
            ("replica_failed", "Replications of a database that failed.", &replication.failed),
            ("replica_received", "Notes received from other servers.", &replication.received),
            ("replica_conflicts", "Notes of which two versions were brought together.", &replication.conflicts),
            ("replica_received_bytes", "Bytes received from other servers.", &replication.received_bytes),
        ];
        for (name, help, count) in counters {
            out.counter(name, help, count.get())?;
        }
        let failing = replication.failing_connections.load(Ordering::Relaxed);
        out.gauge("replica_connections_failing", "Connections whose last use failed.", failing)
    }

    fn write_logins(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let samples = LOGIN_PROTOCOLS.into_iter().flat_map(|protocol| {
            let (succeeded, failed) = self.logins.counts(protocol);
            [("ok", succeeded), ("failed", failed)]
                .map(|(outcome, count)| ([("protocol", protocol.name()), ("outcome", outcome)], count))
        });
        out.counters("logins", "Successful and failed logins.", samples)?;
        let logged_in_count = self.sessions.logged_in_count();
        out.gauge("sessions_logged_in", "Connections with a logged-in user.", logged_in_count)?;
        let directory = self.instance.directory.login_statistics();
        out.counter("logins_throttled", "Logins deferred after too many failures.", directory.throttled)?;
        out.counter("password_hashes", "Computed password hashes.", directory.hashes)
    }

    fn write_native(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let calls: Vec<_> = self.native.calls().map(|of| ([("call", of.call)], of)).collect();
        let received = samples(&calls, |of| of.received);
        out.counters("native_calls", "Calls of the native protocol that arrived.", received)?;
        let seconds = samples(&calls, |of| of.answered.as_secs_f64());
        out.counters("native_calls_seconds", "Time from the header of calls to the header of their replies.", seconds)
    }

    fn write_http(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let reports: Vec<(&str, Vec<(String, RouteCounters)>)> =
            self.http.iter().map(|(service, of)| (*service, of.routes())).collect();
        let mut routes: Vec<([(&str, &str); 2], RouteCounters)> = Vec::new();
        for (service, of_service) in &reports {
            routes
                .extend(of_service.iter().map(|(route, of)| ([("service", *service), ("route", route.as_str())], *of)));
        }
        let requests = routes.iter().flat_map(|([service, route], of)| {
            [("answered", of.answered), ("refused", of.refused), ("failed", of.failed)]
                .map(|(outcome, count)| ([*service, *route, ("outcome", outcome)], count))
        });
        out.counters("http_requests", "Requests over HTTP.", requests)?;
        let seconds = routes.iter().map(|(labels, of)| (*labels, of.duration.as_secs_f64()));
        out.counters(
            "http_requests_seconds",
            "Time from the header of requests to the end of their answers.",
            seconds,
        )?;
        let bytes = routes.iter().map(|(labels, of)| (*labels, of.bytes));
        out.counters("http_answers_bytes", "Size of the bodies of answers.", bytes)
    }

    fn write_transport(&self, out: &mut MetricWriter<'_>) -> fmt::Result {
        let counters = &self.mail_counters;
        let by_protocol = |pick: fn(&ProtocolCounters) -> &Counter| {
            let samples = MAIL_PROTOCOLS.into_iter().zip(&counters.by_protocol);
            samples.map(move |(protocol, of)| ([("via", protocol)], pick(of).get()))
        };
        out.counters("mail_accepted", "Messages accepted.", by_protocol(|of| &of.accepted))?;
        let bytes = by_protocol(|of| &of.accepted_bytes);
        out.counters("mail_accepted_bytes", "Size of the accepted messages.", bytes)?;
        let refused = by_protocol(|of| &of.refused);
        out.counters("mail_refused", "Messages refused after they were received completely.", refused)?;
        let totals = [
            ("mail_delivered", "Local mailboxes that received a message when it was accepted.", &counters.delivered),
            ("mail_queued", "Recipients for whom an accepted message was queued.", &counters.queued),
            ("mail_sent", "Remote recipients whose server accepted the message.", &counters.sent),
            ("mail_deferred", "Delivery attempts to be retried, counted per recipient.", &counters.deferred),
            ("mail_failed", "Remote recipients whose server refused the message.", &counters.failed),
        ];
        for (name, help, count) in totals {
            out.counter(name, help, count.get())?;
        }
        Ok(())
    }
}

/// The labels of jobs: pool, protocol, command, and class of owners.
type JobLabels = [(&'static str, &'static str); 4];

/// Returns the statistics of the jobs of a pool with their labels.
fn verbs_of(name: &'static str, pool: &WorkerPool) -> Vec<(JobLabels, VerbStatistics)> {
    let verbs = pool.verbs().into_iter();
    let labelled = verbs.map(|(verb, class, statistics)| {
        let labels = [("pool", name), ("protocol", verb.protocol), ("command", verb.command), ("class", class.name())];
        (labels, statistics)
    });
    labelled.collect()
}

/// Returns a value of each of several statistics with their labels.
fn samples<L: Copy, S, V>(statistics: &[(L, S)], value: fn(&S) -> V) -> impl Iterator<Item = (L, V)> {
    statistics.iter().map(move |(labels, statistics)| (*labels, value(statistics)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::Clock;
    use wire::{ConnectionLimits, PoolOptions};

    use super::*;
    use crate::metrics::{encode, registry};
    use instance::system::SystemClock;
    use sample::Sample;

    /// Returns the statistics of a data folder as Prometheus reads them.
    fn scrape(statistics: ServerStatistics) -> String {
        encode(&registry(statistics)).expect("writing to a string cannot fail")
    }

    /// Returns the names of the samples in all families, including those that have no samples now.
    fn sample_names(text: &str) -> BTreeSet<String> {
        let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        families.map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() }).collect()
    }

    fn statistics(sample: Sample) -> (ServerStatistics, tempfile::TempDir) {
        let Sample { instance, folder } = sample;
        let instance = Arc::new(instance);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let options = PoolOptions { workers: 1, ..PoolOptions::default() };
        let sessions = Arc::default();
        let uses = admin::sessions::open(&instance).expect("they open");
        let logins = Logins::new(&instance, Arc::clone(&sessions), uses);
        let statistics = ServerStatistics {
            updater: Arc::new(ViewUpdater::new(&instance)),
            instance,
            pool: WorkerPool::new(&options, Arc::clone(&clock)).expect("threads can be started"),
            login_pool: WorkerPool::new(&options, clock).expect("threads can be started"),
            connections: Connections::new(ConnectionLimits { total_max: 1, per_address_max: 1 }),
            memory: MemoryShares::unlimited(),
            traffic: BTreeMap::new(),
            mail_counters: Arc::default(),
            replication_counters: Arc::default(),
            sessions,
            logins,
            native: Arc::default(),
            http: vec![("web", Arc::default())],
            shutdown: Shutdown::new(),
            listeners: Vec::new(),
        };
        (statistics, folder)
    }

    #[test]
    fn families_follow_the_rules_of_prometheus() {
        let (statistics, _folder) = statistics(Sample::new());
        *statistics.instance.blobs_counted.lock() = Some(store::blob::BlobReport::default());
        let text = scrape(statistics);
        let mut kinds = BTreeMap::new();
        for line in text.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                assert!(kinds.insert(name, kind).is_none(), "{name} is there twice");
                assert!(!name.ends_with("_total"), "{name} has the suffix of its samples");
                assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{name}");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap_or_default();
                let family = name.strip_suffix("_total").unwrap_or(name);
                let kind = if family == name { "gauge" } else { "counter" };
                assert_eq!(kinds.get(family), Some(&kind), "{line} has no family");
            }
        }
        assert!(text.ends_with("\n# EOF\n"));
        let expected = [
            "doublet_logins_total",
            "doublet_mail_accepted_total",
            "doublet_mail_refused_total",
            "doublet_mail_delivered_total",
            "doublet_mail_queued_total",
            "doublet_memory_ceiling_bytes",
            "doublet_memory_plan_bytes",
            "doublet_store_poisoned",
            "doublet_blobs_stored_bytes",
            "doublet_name_cache_misses_total",
            "doublet_name_cache_invalidations_total",
            "doublet_name_cache_entries",
            "doublet_store_disk_free_bytes",
            "doublet_store_log_written_bytes_total",
            "doublet_store_writes_stalled_seconds_total",
        ];
        let names = sample_names(&text);
        for name in expected {
            assert!(names.contains(name), "{name} is missing");
        }
    }

    #[test]
    fn documented_metrics_exist() {
        let (statistics, _folder) = statistics(Sample::new());
        *statistics.instance.blobs_counted.lock() = Some(store::blob::BlobReport::default());
        let text = scrape(statistics);
        let names = sample_names(&text);
        let document = include_str!("../../../docs/operating.md");
        let words = document.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in words.filter(|word| word.starts_with("doublet_")) {
            assert!(names.contains(name), "docs/operating.md names {name}, which does not exist");
        }
    }

    #[test]
    fn full_disk_makes_the_server_unready() {
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
        let reason = full.ready().expect_err("the reserve exceeds every disk");
        assert!(reason.contains("store.disk_reserve"), "{reason}");
        assert!(scrape(full).contains("doublet_store_read_only 1\n"));
    }
}
