//! The observer of a run: what server and driver consume at each border, and the progress for people.

use std::fmt::Write as _;
use std::time::Duration;

use client::Traffic;
use serde::{Deserialize, Serialize};

use crate::engine::phases::{Border, PhaseName, SessionCount};
use crate::engine::run::{BorderObserver, Observation, RunEnd};
use crate::engine::share::Exchanged;
use crate::engine::states::StateCounts;
use crate::parts::Parts;
use crate::record::recorder::Sample;
use crate::target::counters::{ServerCounter, ServerCounters};
use crate::target::disk::{DataDisk, DiskCounters};
use crate::target::process::{Consumption, Processes, SwappedPages};
use crate::target::server::StartedServer;
use crate::workload::{Door, Session, Workload};

/// The time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// What was observed at a border.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BorderRecord {
    /// The sample that ended.
    pub sample: Sample,
    /// The connected users.
    pub users_connected: u64,
    /// What the driver has consumed since it started.
    pub driver: Option<Consumption>,
    /// What the servers have consumed since they started.
    pub server: Option<Consumption>,
    /// What the servers have counted since they started, or `None` if one of them has not answered.
    pub counters: Option<ServerCounters>,
    /// What the disk of the data folder has done since the machine started.
    pub disk: Option<DiskCounters>,
    /// What the machine has swapped since it started.
    pub swapped: Option<SwappedPages>,
    /// Bytes on the sockets of the driver since it started, in both directions.
    pub network_bytes: u64,
}

/// Everything that was observed. Its size follows from the number of samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunRecord {
    /// The borders in order.
    pub borders: Vec<BorderRecord>,
    /// The largest number of open files of the driver, if the system tells it.
    pub open_files_max: Option<u64>,
    /// The disk of the data folder.
    pub disk: DataDisk,
}

/// What the observer needs of its run.
pub struct RunObserver<'a> {
    /// The servers, if the driver has started them.
    pub servers: &'a mut [StartedServer],
    /// The processes of the servers.
    pub processes: Vec<u32>,
    /// The host and port of `/metrics` of each server that has it.
    pub metrics: Vec<String>,
    /// The bytes of the users' connections.
    pub traffic: Traffic,
    /// Whether the sessions of the server take part in the steady state.
    pub sessions: SessionRule,
    /// The other parts of the run.
    pub parts: &'a mut Parts,
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

/// Whether the sessions of the server take part in the steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRule {
    /// Each user keeps a session, and the server must count as many.
    Counted,
    /// Users have no session while they pause, so the server counts fewer.
    Ignored,
}

impl SessionRule {
    /// Returns the rule of a workload. Over POP3 and HTTP, connections end while users pause. Users who log in in each
    /// iteration are logged out between two of them.
    pub fn of_workload(workload: &Workload) -> Self {
        let has_sessions = match workload.door {
            Door::Native | Door::Imap => true,
            Door::Pop3 | Door::Jmap | Door::Lite | Door::Full => false,
        };
        if has_sessions && workload.session == Session::Once { Self::Counted } else { Self::Ignored }
    }
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

    fn is_server_ended(&mut self) -> bool {
        if !self.servers.is_empty() {
            return self.servers.iter_mut().any(StartedServer::is_ended);
        }
        let was_there = self.record.borders.last().is_some_and(|last| last.server.is_some());
        was_there && self.machine.has_ended(&self.processes)
    }

    /// Returns the servers' count of sessions, from what they have answered at a border.
    fn session_count(&self, counters: Option<ServerCounters>) -> SessionCount {
        if self.metrics.is_empty() || self.sessions == SessionRule::Ignored {
            return SessionCount::Unsupported;
        }
        let Some(counters) = counters else { return SessionCount::Unanswered };
        counters
            .get(ServerCounter::Sessions)
            .map_or(SessionCount::Unsupported, |sessions| SessionCount::Known(sessions as u64))
    }

    /// Returns what the processes of the servers have consumed: never less than at the border before.
    fn observe_server(&self) -> Option<Consumption> {
        if self.processes.is_empty() {
            return None;
        }
        let now = self.machine.family_consumption(&self.processes)?;
        let earlier = self.record.borders.last().and_then(|border| border.server);
        Some(earlier.map_or(now, |earlier| now.not_below(&earlier)))
    }

    fn observe_driver(&mut self) -> Option<Consumption> {
        let driver = std::process::id();
        self.record.open_files_max = self.record.open_files_max.max(self.machine.open_files(driver));
        self.machine.consumption(&[driver])
    }
}

impl BorderObserver for RunObserver<'_> {
    async fn border(&mut self, sample: &Sample, states: &StateCounts, phase: PhaseName) -> Observation {
        self.report_progress(sample, states, phase);
        let server = self.observe_server();
        let is_server_ended = self.is_server_ended();
        let driver = self.observe_driver();
        self.record.borders.push(BorderRecord {
            sample: sample.clone(),
            users_connected: states.connected(),
            driver,
            server,
            counters: None,
            disk: self.record.disk.counters(&self.machine),
            swapped: self.machine.swapped_pages(),
            network_bytes: self.traffic.sent() + self.traffic.received(),
        });
        // The record is complete without the answers of the servers, which may come too late.
        let counters = ServerCounters::of_servers(&self.metrics).await;
        if let Some(last) = self.record.borders.last_mut() {
            last.counters = counters;
        }
        Observation { sessions: self.session_count(counters), is_server_ended }
    }

    async fn exchange(&mut self, own: Border, patience: Duration) -> Exchanged {
        self.parts.exchange(own, patience).await
    }

    async fn ended(&mut self, end: RunEnd) {
        self.parts.end(end).await;
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
    use crate::workload::check::check;

    #[test]
    fn sessions_are_counted_where_users_keep_them() {
        let rule = |door: &str, session: &str| {
            let text = format!(
                "format = 1\nname = \"A\"\ntitle = \"A\"\ndoor = \"{door}\"\nsession = \"{session}\"\n\
                 iteration = \"1 min\"\nstep = [{{ verb = \"poll\" }}]"
            );
            SessionRule::of_workload(&check(&text, &[]).expect("a workload"))
        };
        let counted = [("native", "once"), ("imap", "once")];
        assert!(counted.iter().all(|(door, session)| rule(door, session) == SessionRule::Counted));
        let ignored =
            [("native", "iteration"), ("imap", "iteration"), ("pop3", "once"), ("jmap", "once"), ("lite", "once")];
        assert!(ignored.iter().all(|(door, session)| rule(door, session) == SessionRule::Ignored));
    }

    #[test]
    fn progress_names_phase_users_steps_and_errors() {
        let counted = Counted { steps: 1_234, failed: 5, reported: Duration::ZERO };
        let line = progress_line(Duration::from_secs(75), PhaseName::Measured, [99, 100], counted);
        assert_eq!(line, "  1:15 measured interval: 99 of 100 users connected, 1234 steps, 5 errors");
    }
}
