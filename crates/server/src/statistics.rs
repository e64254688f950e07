//! What the administration port tells: whether the server is ready, and its numbers.
//!
//! The numbers come from the rooms' own reports at the moment they are asked for; nothing is counted twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::{Connections, Pool, Shutdown};

use crate::core::Core;
use crate::http::Facts;
use crate::listen::{Protocol, Traffic};
use crate::metrics::{Exposition, Kind, process};

/// Tells the numbers of a running server.
pub struct Statistics {
    /// The rooms.
    pub core: Arc<Core>,
    /// The workers.
    pub pool: Pool,
    /// All connections.
    pub connections: Arc<Connections>,
    /// What happened at each listener.
    pub traffic: BTreeMap<Protocol, Arc<Traffic>>,
    /// Whether the server ends.
    pub shutdown: Shutdown,
}

impl Facts for Statistics {
    fn ready(&self) -> Result<(), String> {
        if self.shutdown.is_draining() {
            return Err("the server is ending".to_owned());
        }
        match self.core.store.committer().poisoned() {
            Some(why) => Err(format!("the store refuses writes: {why}")),
            None => Ok(()),
        }
    }

    fn metrics(&self) -> String {
        let mut out = Exposition::default();
        self.listeners(&mut out);
        self.workers(&mut out);
        self.mail(&mut out);
        self.store(&mut out);
        process(&mut out);
        out.finish()
    }
}

impl Statistics {
    fn listeners(&self, out: &mut Exposition) {
        out.single(Kind::Gauge, "connections", "Connections now.", self.connections.count() as f64);
        let samples = |pick: fn(&Traffic) -> &AtomicU64| -> Vec<(&'static str, &'static str, f64)> {
            let sample = |(protocol, traffic): (&Protocol, &Arc<Traffic>)| {
                ("listener", protocol.name(), pick(traffic).load(Ordering::Relaxed) as f64)
            };
            self.traffic.iter().map(sample).collect()
        };
        let accepted = samples(|traffic| &traffic.accepted);
        out.family(Kind::Counter, "connections_accepted_total", "Connections that were served.", &accepted);
        let refused = samples(|traffic| &traffic.refused);
        out.family(Kind::Counter, "connections_refused_total", "Connections beyond a limit.", &refused);
    }

    fn workers(&self, out: &mut Exposition) {
        let report = self.pool.report();
        out.single(Kind::Gauge, "pool_workers", "Worker threads.", report.workers as f64);
        out.single(Kind::Gauge, "pool_busy", "Workers that run a transaction now.", report.busy as f64);
        out.single(Kind::Gauge, "pool_depth", "Transactions that wait for a worker.", report.depth as f64);
        out.single(Kind::Gauge, "pool_depth_max", "Most transactions that ever waited.", report.depth_max as f64);
        out.single(Kind::Counter, "pool_completed_total", "Transactions that ended.", report.completed as f64);
        out.single(
            Kind::Counter,
            "pool_panicked_total",
            "Transactions that broke off through a fault.",
            report.panicked as f64,
        );
        out.single(
            Kind::Counter,
            "pool_waited_seconds_total",
            "Time that transactions waited.",
            report.waited.as_secs_f64(),
        );
        out.single(Kind::Counter, "pool_ran_seconds_total", "Time that transactions ran.", report.ran.as_secs_f64());
    }

    fn mail(&self, out: &mut Exposition) {
        let queue = self.core.router.counts();
        out.single(Kind::Gauge, "queue_messages", "Messages in the queue.", queue.messages as f64);
        out.single(Kind::Gauge, "queue_pending", "Queued messages with recipients to be tried.", queue.pending as f64);
        out.single(Kind::Gauge, "queue_transfers", "Transfers under way.", queue.active as f64);
        let cache = self.core.directory.cache_statistics();
        out.single(Kind::Counter, "name_cache_lookups_total", "Names looked up.", cache.lookups as f64);
        out.single(Kind::Counter, "name_cache_hits_total", "Names that the cache knew.", cache.hits as f64);
        out.single(Kind::Gauge, "name_cache_bytes", "Memory of the name cache.", cache.bytes as f64);
    }

    fn store(&self, out: &mut Exposition) {
        let (commits, syncs) = self.core.store.committer().counts();
        out.single(Kind::Counter, "store_commits_total", "Changes written.", commits as f64);
        out.single(Kind::Counter, "store_syncs_total", "Syncs of the log.", syncs as f64);
        out.single(
            Kind::Gauge,
            "store_waiting",
            "Writers that wait for a sync.",
            self.core.store.committer().waiting() as f64,
        );
        out.single(Kind::Gauge, "databases_open", "Open databases.", self.core.notes.open_count() as f64);
        let figures = self.core.store.engine().figures();
        let samples: Vec<(&str, &str, f64)> =
            figures.iter().map(|(name, value)| ("figure", name.as_str(), *value as f64)).collect();
        out.family(Kind::Gauge, "store_engine", "Figures of the storage engine.", &samples);
    }
}
