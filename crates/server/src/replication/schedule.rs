//! The Replica task: uses the connections of this server when they are due.
//!
//! A connection is due at the start of the server, and again when its interval has passed since its last use. After a
//! failure it is tried again after a minute, then after twice that time, up to an hour or its interval if that is
//! longer. One connection is used after the other.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use admin::connections;
use admin::{AdminError, Answer};
use base::Timestamp;
use directory::Connection;
use serde_json::{Value, json};
use wire::Shutdown;

use super::Replication;

/// Pause between two looks at the connections.
const LOOK_PAUSE: Duration = Duration::from_secs(30);

/// Time after which a connection that failed once is tried again.
const RETRY_TIME_MIN: Duration = Duration::from_secs(60);

/// Time after which a connection that failed often is tried again.
const RETRY_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Maximum number of doublings of the time until the next try.
const DOUBLINGS_MAX: u32 = 6;

/// The last use of a connection.
#[derive(Clone)]
pub(super) struct ConnectionRun {
    /// The time of day when it ended.
    ended: Timestamp,
    /// The measured time when it ended.
    ended_at: Duration,
    /// Number of failures since the last success.
    failures: u32,
    /// Number of notes received, or the error.
    outcome: Result<u64, String>,
}

impl ConnectionRun {
    /// Returns the measured time at which the connection is due again.
    fn next_at(&self, interval: Duration) -> Duration {
        let pause = match self.failures {
            0 => interval,
            count => (RETRY_TIME_MIN * (1 << (count - 1).min(DOUBLINGS_MAX))).min(RETRY_TIME_MAX.max(interval)),
        };
        self.ended_at.saturating_add(pause)
    }
}

/// Runs the task until the server drains.
pub async fn run(replication: Arc<Replication>, shutdown: Shutdown) {
    loop {
        let task = Arc::clone(&replication);
        let stop = shutdown.clone();
        let done = tokio::task::spawn_blocking(move || task.use_due_connections(&stop)).await;
        match done {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(target: "replica", %error, "cannot read the connections; will retry"),
            Err(error) => tracing::error!(target: "replica", %error, "the Replica task was aborted; will retry"),
        }
        tokio::select! {
            () = shutdown.draining() => return,
            () = replication.changed.notified() => {}
            () = tokio::time::sleep(LOOK_PAUSE) => {}
        }
    }
}

impl Replication {
    /// Uses the connections of this server that are due.
    fn use_due_connections(&self, stop: &Shutdown) -> Result<(), AdminError> {
        let own = &self.instance.directory.options().server;
        for connection in connections::all(&self.instance)?.iter().filter(|connection| connection.source == *own) {
            if stop.is_draining() {
                return Ok(());
            }
            if self.is_due(connection) {
                self.use_and_record(connection, stop);
            }
        }
        Ok(())
    }

    fn is_due(&self, connection: &Connection) -> bool {
        let interval = Duration::from_secs(u64::from(connection.interval_minutes) * 60);
        let runs = self.runs.lock();
        let last = runs.get(&connection.destination);
        last.is_none_or(|last| last.next_at(interval) <= self.instance.clock.monotonic())
    }

    fn use_and_record(&self, connection: &Connection, stop: &Shutdown) {
        let mut report = |_| if stop.is_draining() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let outcome = self.use_connection(connection, &mut report);
        let server = connection.destination.abbreviated();
        match &outcome {
            Ok(received) => tracing::info!(target: "replica", server, received, "replicated"),
            Err(AdminError::Cancelled) => return,
            Err(error) => tracing::warn!(target: "replica", server, %error, "replication failed; will retry"),
        }
        let mut runs = self.runs.lock();
        let failures = runs.get(&connection.destination).map_or(0, |last| last.failures);
        let run = ConnectionRun {
            ended: self.instance.clock.now(),
            ended_at: self.instance.clock.monotonic(),
            failures: if outcome.is_ok() { 0 } else { failures.saturating_add(1) },
            outcome: outcome.map_err(|error| error.to_string()),
        };
        runs.insert(connection.destination.clone(), run);
    }

    /// Adds the last uses of this server's connections to a list of connections.
    pub(crate) fn add_runs(&self, answer: &mut Answer) {
        let own = self.instance.directory.options().server.abbreviated();
        let runs = self.runs.lock();
        let by_label = |label: &str| runs.iter().find(|(name, _)| name.abbreviated() == label).map(|(_, run)| run);
        for row in answer.data.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            let is_own = row.get("server").and_then(Value::as_str) == Some(&own);
            let run = row.get("from").and_then(Value::as_str).filter(|_| is_own).and_then(by_label);
            let result = run.map(|run| match &run.outcome {
                Ok(received) => format!("received {received}"),
                Err(error) => error.clone(),
            });
            row.insert("used_at".to_owned(), json!(run.map(|run| run.ended.to_rfc3339())));
            row.insert("result".to_owned(), json!(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_retried_sooner_than_the_interval_and_ever_later() {
        let next = |failures: u32, minutes: u64| {
            let ended_at = Duration::from_secs(1_000);
            let run = ConnectionRun { ended: Timestamp(0), ended_at, failures, outcome: Ok(0) };
            (run.next_at(Duration::from_secs(minutes * 60)) - ended_at).as_secs() / 60
        };
        assert_eq!([0, 1, 2, 3, 9].map(|failures| next(failures, 15)), [15, 1, 2, 4, 60]);
        assert_eq!([0, 9].map(|failures| next(failures, 600)), [600, 64]);
    }
}
