//! The observer of a run: what server and driver consume at each border, and the progress for people.

use std::fmt::Write as _;
use std::time::Duration;

use crate::engine::phases::{PhaseName, SessionCount};
use crate::engine::run::{BorderObserver, Observation};
use crate::engine::states::StateCounts;
use crate::record::recorder::Sample;
use crate::target::metrics::Metrics;
use crate::target::process::{Consumption, Processes};
use crate::target::server::StartedServer;

/// The time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// What was observed at a border.
#[derive(Debug, Clone, PartialEq)]
pub struct BorderRecord {
    /// The sample that ended.
    pub sample: Sample,
    /// The connected users.
    pub users_connected: u64,
    /// What the driver has consumed since it started.
    pub driver: Option<Consumption>,
    /// What the server has consumed since it started.
    pub server: Option<Consumption>,
    /// The calls that the server has counted since it started.
    pub server_calls: Option<f64>,
}

/// Everything that was observed. Its size follows from the number of samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunRecord {
    /// The borders in order.
    pub borders: Vec<BorderRecord>,
    /// The largest number of open files of the driver.
    pub open_files_max: u64,
}

/// What the observer needs of its run.
pub struct RunObserver<'a> {
    /// The server, if the driver has started it.
    pub server: Option<&'a mut StartedServer>,
    /// The processes of the server.
    pub processes: Vec<u32>,
    /// The host and port of `/metrics`.
    pub metrics: Option<String>,
    /// The protocols under which the server counts the calls of the run.
    pub protocols: &'static [&'static str],
    /// The users of the last level.
    pub users: u64,
    /// Where the observations go.
    pub record: &'a mut RunRecord,
    /// Where the lines of progress go.
    pub progress: fn(&str),
    /// The processes of this machine.
    pub machine: Processes,
    /// What is reported next.
    pub counted: Counted,
}

/// What has been counted since the start signal, and when it was reported last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    steps: u64,
    failed: u64,
    reported: Duration,
}

impl RunObserver<'_> {
    fn report_progress(&mut self, sample: &Sample, states: &StateCounts, phase: PhaseName) {
        self.counted.steps += sample.steps_ended;
        self.counted.failed += sample.steps_failed;
        let now = sample.interval.end;
        if now - self.counted.reported >= PROGRESS_INTERVAL {
            self.counted.reported = now;
            let line = progress_line(now, phase, [states.connected(), self.users], self.counted);
            (self.progress)(&line);
        }
    }

    fn is_server_ended(&mut self, consumption: Option<Consumption>) -> bool {
        if let Some(server) = &mut self.server {
            return server.is_ended();
        }
        let was_there = self.record.borders.last().is_some_and(|last| last.server.is_some());
        was_there && consumption.is_none()
    }

    fn observe_driver(&mut self) -> Option<Consumption> {
        let driver = std::process::id();
        let open_files = self.machine.open_files(driver).unwrap_or(0);
        self.record.open_files_max = self.record.open_files_max.max(open_files);
        self.machine.consumption(&[driver])
    }
}

impl BorderObserver for RunObserver<'_> {
    async fn border(&mut self, sample: &Sample, states: &StateCounts, phase: PhaseName) -> Observation {
        self.report_progress(sample, states, phase);
        let server = if self.processes.is_empty() { None } else { self.machine.consumption(&self.processes) };
        let is_server_ended = self.is_server_ended(server);
        let driver = self.observe_driver();
        self.record.borders.push(BorderRecord {
            sample: sample.clone(),
            users_connected: states.connected(),
            driver,
            server,
            server_calls: None,
        });
        // The record is complete without the answer of the server, which may come too late.
        if let Some(address) = &self.metrics
            && let Ok(metrics) = Metrics::request(address).await
            && let Some(last) = self.record.borders.last_mut()
        {
            let of = |protocol: &&str| metrics.sum("doublet_pool_jobs_total", Some(("protocol", protocol)));
            last.server_calls = self.protocols.iter().filter_map(of).reduce(|sum, calls| sum + calls);
        }
        Observation { sessions: SessionCount::Unsupported, is_server_ended }
    }
}

fn progress_line(now: Duration, phase: PhaseName, [connected, users]: [u64; 2], counted: Counted) -> String {
    let seconds = now.as_secs();
    let mut line = format!("{:>3}:{:02} {}", seconds / 60, seconds % 60, phase.text());
    let Counted { steps, failed, .. } = counted;
    let _ = write!(line, ": {connected} of {users} users connected, {steps} steps, {failed} errors");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_phase_users_steps_and_errors() {
        let counted = Counted { steps: 1_234, failed: 5, reported: Duration::ZERO };
        let line = progress_line(Duration::from_secs(75), PhaseName::Measured, [99, 100], counted);
        assert_eq!(line, "  1:15 measured interval: 99 of 100 users connected, 1234 steps, 5 errors");
    }
}
