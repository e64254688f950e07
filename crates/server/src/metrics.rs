//! Statistics in the Prometheus text format.
//!
//! [`Exposition`] writes families of samples whose names begin with `doublet_`. Nothing is registered and nothing is
//! global: the caller collects the reports of the other crates. [`process`] adds the system's data about this process.

use std::fmt::Write;

/// Collects samples as text.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// The type of a family of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that never decreases until the server ends.
    Counter,
    /// A number that may rise and fall.
    Gauge,
}

/// Labels with their values, and the number.
pub type Sample<'a> = (Vec<(&'a str, &'a str)>, f64);

impl Exposition {
    /// Adds a family with one sample.
    pub fn single(&mut self, kind: Kind, name: &str, help: &str, value: f64) {
        self.family(kind, name, help, &[("", "", value)]);
    }

    /// Adds a family whose samples differ in one label. Each sample consists of the label, its value and the number.
    pub fn family(&mut self, kind: Kind, name: &str, help: &str, samples: &[(&str, &str, f64)]) {
        let labelled: Vec<Sample<'_>> = samples
            .iter()
            .map(|(label, value, number)| {
                let labels = if label.is_empty() { Vec::new() } else { vec![(*label, *value)] };
                (labels, *number)
            })
            .collect();
        self.labelled(kind, name, help, &labelled);
    }

    /// Adds a family whose samples differ in several labels.
    pub fn labelled(&mut self, kind: Kind, name: &str, help: &str, samples: &[Sample<'_>]) {
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.text, "# HELP doublet_{name} {help}\n# TYPE doublet_{name} {word}");
        for (labels, number) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escape(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.text, "doublet_{name}{labels} {number}");
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

/// Adds the system's data about this process. Values that the system does not provide are left out.
pub fn process(exposition: &mut Exposition) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(kibibytes) = status_field(&status, "VmRSS:") {
        exposition.single(Kind::Gauge, "process_resident_memory_bytes", "Resident memory.", kibibytes * 1_024.0);
    }
    if let Some(threads) = status_field(&status, "Threads:") {
        exposition.single(Kind::Gauge, "process_threads", "Number of threads.", threads);
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(seconds) = processor_seconds(&stat) {
        exposition.single(Kind::Counter, "process_cpu_seconds_total", "User and system CPU time.", seconds);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        exposition.single(Kind::Gauge, "process_open_fds", "Number of open file descriptors.", files.count() as f64);
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn status_field(status: &str, name: &str) -> Option<f64> {
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
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_form_that_prometheus_reads() {
        let mut exposition = Exposition::default();
        exposition.single(Kind::Counter, "jobs_total", "Jobs.", 3.0);
        exposition.family(
            Kind::Gauge,
            "connections",
            "Connections.",
            &[("listener", "im\"ap", 2.0), ("listener", "smtp", 0.5)],
        );
        assert_eq!(
            exposition.finish(),
            "# HELP doublet_jobs_total Jobs.\n# TYPE doublet_jobs_total counter\ndoublet_jobs_total 3\n\
             # HELP doublet_connections Connections.\n# TYPE doublet_connections gauge\n\
             doublet_connections{listener=\"im\\\"ap\"} 2\ndoublet_connections{listener=\"smtp\"} 0.5\n"
        );
    }

    #[test]
    fn processor_time_is_read_behind_odd_program_names() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0";
        assert_eq!(processor_seconds(stat), Some(2.0));
        assert_eq!(processor_seconds(""), None);
    }

    #[test]
    fn this_process_is_described() {
        let mut exposition = Exposition::default();
        process(&mut exposition);
        assert!(exposition.finish().contains("doublet_process_resident_memory_bytes "));
    }
}
