//! The filling of mail files and other databases before a run: documents in the inbox of each user, through its door,
//! and topics of discussions over the native protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::databases::DatabaseFiles;
use super::memos::MailFiles;
use crate::door::StepError;
use crate::door::choice::DoorSettings;
use crate::door::native::NativeSettings;
use crate::door::native::database_filling::{create_databases, fill_database};
use crate::door::native::filling::wait_for_index;
use crate::target::by_server::ByServer;

/// The mail files or databases that are filled at the same time.
const FILLERS: u64 = 8;

/// How far the filling is.
#[derive(Debug, Default)]
pub struct FillProgress {
    filled: AtomicU64,
}

impl FillProgress {
    /// Returns the number of mail files or databases that are filled.
    pub fn filled(&self) -> u64 {
        self.filled.load(Ordering::Relaxed)
    }
}

/// A mail file or database that could not be filled.
#[derive(Debug, thiserror::Error)]
#[error("{subject} cannot be filled: {}: {}", .error.code, .error.text)]
pub struct FillError {
    /// Which it is.
    pub subject: String,
    /// The first call that failed.
    pub error: StepError,
}

impl FillError {
    /// Creates the error of the mail file of a user.
    pub fn of_mail_file(user: u64, error: StepError) -> Self {
        Self { subject: format!("the mail file of user {user}"), error }
    }
}

/// Fills the mail files that are no copies, several at the same time. Each call has a time limit. The tasks are owned
/// by this function, and end with it.
///
/// # Errors
///
/// The first error. The mail files are then filled in part.
pub async fn fill(
    settings: &ByServer<DoorSettings>,
    files: &MailFiles,
    time_limit: Duration,
    progress: &Arc<FillProgress>,
) -> Result<(), FillError> {
    let mut tasks = JoinSet::new();
    for filler in 0..FILLERS.min(files.masters) {
        let settings = settings.clone();
        let files = files.clone();
        let progress = Arc::clone(progress);
        tasks.spawn(async move {
            for user in (1..=files.masters).skip(filler as usize).step_by(FILLERS as usize) {
                let memos = files.memos(user);
                let failed = |error| FillError::of_mail_file(user, error);
                settings.of_user(user).fill_mail_file(user, memos, time_limit).await.map_err(failed)?;
                progress.filled.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    join(tasks).await
}

/// Creates the databases that do not exist, and fills all, several at the same time. The tasks are owned by this
/// function, and end with it.
///
/// # Errors
///
/// The first error. The databases are then filled in part.
pub async fn fill_databases(
    settings: &Arc<NativeSettings>,
    files: &Arc<DatabaseFiles>,
    users: u64,
    progress: &Arc<FillProgress>,
) -> Result<(), FillError> {
    let failed = |error| FillError { subject: "a database".to_owned(), error };
    create_databases(settings, 1, files.files()).await.map_err(failed)?;
    let mut tasks = JoinSet::new();
    let fillers = FILLERS.min(files.files().count() as u64);
    for filler in 0..fillers {
        let settings = Arc::clone(settings);
        let files = Arc::clone(files);
        let progress = Arc::clone(progress);
        tasks.spawn(async move {
            for file in files.files().skip(filler as usize).step_by(fillers as usize) {
                let topics = files.topics(file);
                let failed = |error| FillError { subject: file.path(), error };
                fill_database(&settings, 1 + filler % users, file, topics).await.map_err(failed)?;
                progress.filled.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    join(tasks).await
}

/// Waits until all mail files have a full-text index.
///
/// # Errors
///
/// The first error.
pub async fn wait_for_indexes(
    settings: &ByServer<Arc<NativeSettings>>,
    users: u64,
    progress: &Arc<FillProgress>,
) -> Result<(), FillError> {
    let mut tasks = JoinSet::new();
    let fillers = FILLERS.min(users);
    for filler in 0..fillers {
        let settings = settings.clone();
        let progress = Arc::clone(progress);
        tasks.spawn(async move {
            for user in (1..=users).skip(filler as usize).step_by(fillers as usize) {
                let failed = |error| FillError { subject: format!("the full-text index of user {user}"), error };
                wait_for_index(settings.of_user(user), user).await.map_err(failed)?;
                progress.filled.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    join(tasks).await
}

/// Waits for all tasks, or for the first one that fails.
async fn join(mut tasks: JoinSet<Result<(), FillError>>) -> Result<(), FillError> {
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
    }
    Ok(())
}
