//! Periodic background tasks: each task pauses, runs, and repeats. No two runs of the same task overlap.
//!
//! A task is synchronous code on a thread that may block. It gets a [`ProgressCallback`] closure, which returns *break*
//! when the server drains, so that long tasks end early. A failure is logged and does not end the schedule. The pause
//! starts when the task has ended.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use admin::{AdminError, Progress, ProgressCallback, Unit, report_step};
use http::Sessions;
use instance::Instance;
use jmap::uploads::Uploads;
use wire::Shutdown;

use crate::limits::{SESSION_CLEANING_INTERVAL, UPLOAD_CLEANING_INTERVAL};

/// The function of a task. Returns a text for the log, or `None` if there is nothing to report.
type TaskFn = dyn Fn(&Instance, &mut ProgressCallback<'_>) -> Result<Option<String>, AdminError> + Send + Sync;

/// A task and its pause.
#[derive(Clone)]
pub struct PeriodicTask {
    /// The name of the task in the log.
    pub name: &'static str,
    /// The pause between two runs.
    pub pause: Duration,
    run: Arc<TaskFn>,
}

/// Returns the tasks of a server with these logins in browsers, and these uploads.
#[must_use]
pub fn all(instance: &Instance, sessions: &Arc<Sessions>, uploads: &Arc<Uploads>) -> Vec<PeriodicTask> {
    let keys = &instance.config.tasks;
    vec![
        PeriodicTask { name: "blob collection", pause: keys.blob_collection.0, run: Arc::new(collect_blobs) },
        PeriodicTask { name: "stub purge", pause: keys.stub_purge.0, run: Arc::new(purge_stubs) },
        PeriodicTask { name: "replication log", pause: keys.stub_purge.0, run: Arc::new(shorten_log) },
        PeriodicTask { name: "ended sessions", pause: SESSION_CLEANING_INTERVAL, run: remove_ended(sessions) },
        PeriodicTask { name: "expired uploads", pause: UPLOAD_CLEANING_INTERVAL, run: remove_expired(uploads) },
        PeriodicTask { name: "idle databases", pause: keys.idle_databases.0, run: Arc::new(close_idle) },
    ]
}

/// Runs a task periodically until the server drains.
pub async fn run(task: PeriodicTask, instance: Arc<Instance>, shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = shutdown.draining() => return,
            () = tokio::time::sleep(task.pause) => {}
        }
        let instance = Arc::clone(&instance);
        let stop = shutdown.clone();
        let work = Arc::clone(&task.run);
        let done = tokio::task::spawn_blocking(move || {
            let mut report = |_| if stop.is_draining() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            work(&instance, &mut report)
        });
        match done.await {
            Ok(Ok(Some(text))) => tracing::info!(target: "tasks", task = task.name, "{text}"),
            Ok(Ok(None) | Err(AdminError::Cancelled)) => {}
            Ok(Err(error)) => tracing::error!(target: "tasks", task = task.name, %error, "task failed; will retry"),
            Err(error) => tracing::error!(target: "tasks", task = task.name, %error, "task aborted; will retry"),
        }
    }
}

fn collect_blobs(instance: &Instance, report: &mut ProgressCallback<'_>) -> Result<Option<String>, AdminError> {
    let (count, bytes) = admin::maintenance::collect_unused_blobs(instance, report)?;
    let counted = instance.store.blobs().report(&instance.store.snapshot()?)?;
    *instance.blobs_counted.lock() = Some(counted);
    Ok((count > 0).then(|| format!("removed {count} unreferenced attachments, {bytes} bytes")))
}

fn purge_stubs(instance: &Instance, report: &mut ProgressCallback<'_>) -> Result<Option<String>, AdminError> {
    let databases = instance.databases.database_list()?;
    let total = Some(databases.len() as u64);
    let mut removed = 0;
    let mut failed = None;
    for (done, facts) in (0..).zip(databases) {
        report_step(report, Progress { step: "purging stubs".to_owned(), done, total, unit: Unit::Databases })?;
        match purge_database(instance, &facts.path) {
            Ok(count) => removed += count,
            // The database was deleted or renamed in the meantime, or has a newer format and is left alone.
            Err(notes::Error::NotFound { .. } | notes::Error::NewerOds { .. }) => {}
            // A failure in one database does not stop the purge of the others.
            Err(error) => {
                tracing::error!(target: "tasks", database = facts.path, %error, "cannot purge the deletion stubs of a database");
                failed = Some(error);
            }
        }
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    Ok((removed > 0).then(|| format!("purged {removed} records of deletions")))
}

/// Removes the expired deletions of one database and returns their number.
fn purge_database(instance: &Instance, path: &str) -> notes::Result<usize> {
    let database = instance.databases.database_open(path)?;
    let mut removed = 0;
    loop {
        let count = notes::soft_deletion::purge_deleted(&database)? + notes::purge::purge(&database)?;
        if count == 0 {
            return Ok(removed);
        }
        removed += count;
    }
}

fn shorten_log(instance: &Instance, _report: &mut ProgressCallback<'_>) -> Result<Option<String>, AdminError> {
    let days = u16::try_from(instance.config.replication.log_days).unwrap_or(u16::MAX);
    let removed = crate::replication::remove_old_log_entries(instance, days)?;
    Ok((removed > 0).then(|| format!("removed {removed} old documents from the log")))
}

/// Returns the task that removes logins in browsers that have ended by their age or without a request.
fn remove_ended(sessions: &Arc<Sessions>) -> Arc<TaskFn> {
    let sessions = Arc::clone(sessions);
    Arc::new(move |_, _| {
        let removed = sessions.remove_ended()?;
        Ok((removed > 0).then(|| format!("removed {removed} ended logins in browsers")))
    })
}

/// Returns the task that removes the uploads that have expired.
fn remove_expired(uploads: &Arc<Uploads>) -> Arc<TaskFn> {
    let uploads = Arc::clone(uploads);
    Arc::new(move |_, _| {
        let removed = uploads.remove_expired()?;
        Ok((removed > 0).then(|| format!("removed {removed} expired uploads")))
    })
}

fn close_idle(instance: &Instance, _report: &mut ProgressCallback<'_>) -> Result<Option<String>, AdminError> {
    let closed = instance.databases.close_idle();
    Ok((closed > 0).then(|| format!("closed {closed} idle databases")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::Sample;

    #[test]
    fn tasks_succeed_without_summary_on_a_sound_server() {
        let sample = Sample::new();
        let mut report = |_| ControlFlow::Continue(());
        let sessions = admin::sessions::open(&sample.instance).expect("they open");
        let uploads = crate::jmap_backend::open_uploads(&sample.instance).expect("they open");
        for task in all(&sample.instance, &sessions, &uploads) {
            let summary = (task.run)(&sample.instance, &mut report).expect("nothing is wrong");
            assert!(summary.is_none() || task.name == "idle databases", "{}: {summary:?}", task.name);
            assert!(!task.pause.is_zero());
        }
        assert!(sample.instance.databases.open_count() < 6, "unused databases are closed");
    }

    #[test]
    fn cancelled_task_ends_early() {
        let sample = Sample::new();
        let ended = purge_stubs(&sample.instance, &mut |_| ControlFlow::Break(()));
        assert!(matches!(ended, Err(AdminError::Cancelled)));
    }

    #[tokio::test]
    async fn schedule_ends_on_shutdown() {
        let sample = Sample::new();
        let shutdown = Shutdown::new();
        shutdown.drain();
        let task = PeriodicTask { name: "never", pause: Duration::from_secs(3_600), run: Arc::new(close_idle) };
        run(task, Arc::new(sample.instance), shutdown).await;
    }
}
