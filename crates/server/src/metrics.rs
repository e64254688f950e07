//! Statistics in the OpenMetrics text format, which Prometheus reads, with the crate `prometheus-client`.
//!
//! Nothing is counted here and nothing is global. [`registry`] takes a [`Collector`], which asks the other crates for
//! their numbers during a scrape and writes them with a [`MetricWriter`]. The registry adds the prefix `doublet_` to
//! all names, and the format adds `_total` to the names of counters. [`write_process`] writes the system's data about
//! this process.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The media type of the text that [`encode`] returns.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Creates a registry whose only source is a collector.
#[must_use]
pub fn registry(collector: impl Collector) -> Registry {
    let mut registry = Registry::with_prefix("doublet");
    registry.register_collector(Box::new(collector));
    registry
}

/// Returns the metrics of a registry as text. Asks its collectors for the numbers, which may take some time.
pub fn encode(registry: &Registry) -> Result<String, fmt::Error> {
    let mut encoded = String::new();
    text::encode(&mut encoded, registry)?;
    Ok(encoded)
}

/// Writes metric families during a scrape.
#[derive(Debug)]
pub struct MetricWriter<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl<'a> MetricWriter<'a> {
    /// Creates a writer from the argument of [`Collector::encode`].
    #[must_use]
    pub fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self { encoder }
    }

    /// Writes a counter, a number that never decreases until the server ends. `_total` is added to its name.
    pub fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// Writes counters that differ in their labels.
    pub fn counters<L: EncodeLabelSet, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// Writes a gauge, a number that may rise and fall.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes gauges that differ in their labels.
    pub fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

/// Writes the system's data about this process. Values that the system does not provide are left out.
pub fn write_process(out: &mut MetricWriter<'_>) -> fmt::Result {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(kibibytes) = status_field(&status, "VmRSS:") {
        out.gauge("process_resident_memory_bytes", "Resident memory.", kibibytes * 1_024)?;
    }
    if let Some(threads) = status_field(&status, "Threads:") {
        out.gauge("process_threads", "Number of threads.", threads)?;
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(seconds) = processor_seconds(&stat) {
        out.counter("process_cpu_seconds", "User and system CPU time.", seconds)?;
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        out.gauge("process_open_fds", "Number of open file descriptors.", files.count())?;
    }
    Ok(())
}

fn status_field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the sum of fields 14 and 15 of `/proc/PID/stat`, which count hundredths of a second on Linux, in seconds.
fn processor_seconds(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut ticks = after_name.split_whitespace().skip(11).take(2);
    let user: f64 = ticks.next()?.parse().ok()?;
    let system: f64 = ticks.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Writes metrics with a function.
    struct FunctionCollector<F>(F);

    impl<F> fmt::Debug for FunctionCollector<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("FunctionCollector")
        }
    }

    impl<F: Fn(&mut MetricWriter<'_>) -> fmt::Result + Send + Sync + 'static> Collector for FunctionCollector<F> {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            (self.0)(&mut MetricWriter::new(encoder))
        }
    }

    /// Creates a registry of the metrics that a function writes.
    pub fn registry_of(write: impl Fn(&mut MetricWriter<'_>) -> fmt::Result + Send + Sync + 'static) -> Registry {
        registry(FunctionCollector(write))
    }

    /// Returns the text of the metrics that a function writes.
    pub fn written(write: impl Fn(&mut MetricWriter<'_>) -> fmt::Result + Send + Sync + 'static) -> String {
        encode(&registry_of(write)).expect("writing to a string cannot fail")
    }

    #[test]
    fn samples_have_the_form_that_prometheus_reads() {
        let text = written(|out| {
            out.counter("jobs", "Jobs.", 3_u64)?;
            out.counter("ran_seconds", "Time.", 2.5)?;
            out.counters("logins", "Logins.", [([("by", "imap"), ("outcome", "ok")], u64::MAX)])?;
            out.gauge("threads", "Threads.", 4_usize)?;
            out.gauges("connections", "Connections.", [([("listener", "im\"ap")], 2), ([("listener", "smtp")], 0)])
        });
        assert_eq!(
            text,
            "# HELP doublet_jobs Jobs.\n# TYPE doublet_jobs counter\ndoublet_jobs_total 3\n\
             # HELP doublet_ran_seconds Time.\n# TYPE doublet_ran_seconds counter\ndoublet_ran_seconds_total 2.5\n\
             # HELP doublet_logins Logins.\n# TYPE doublet_logins counter\n\
             doublet_logins_total{by=\"imap\",outcome=\"ok\"} 18446744073709551615\n\
             # HELP doublet_threads Threads.\n# TYPE doublet_threads gauge\ndoublet_threads 4\n\
             # HELP doublet_connections Connections.\n# TYPE doublet_connections gauge\n\
             doublet_connections{listener=\"im\\\"ap\"} 2\ndoublet_connections{listener=\"smtp\"} 0\n\
             # EOF\n"
        );
    }

    #[test]
    fn processor_time_is_read_after_unusual_program_names() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0";
        assert_eq!(processor_seconds(stat), Some(2.0));
        assert_eq!(processor_seconds(""), None);
    }

    #[test]
    fn process_metrics_are_written() {
        let text = written(write_process);
        assert!(text.contains("doublet_process_resident_memory_bytes "), "{text}");
        assert!(text.contains("doublet_process_cpu_seconds_total "), "{text}");
    }
}
