//! The filling of mail files before a run: documents in the inbox of each user, through its door.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::memos::MailFiles;
use crate::door::StepError;
use crate::door::choice::DoorSettings;

/// The mail files that are filled at the same time.
const FILLERS: u64 = 8;

/// How far the filling is.
#[derive(Debug, Default)]
pub struct FillProgress {
    filled: AtomicU64,
}

impl FillProgress {
    /// Returns the number of mail files that are filled.
    pub fn filled(&self) -> u64 {
        self.filled.load(Ordering::Relaxed)
    }
}

/// A mail file that could not be filled.
#[derive(Debug, thiserror::Error)]
#[error("the mail file of user {user} cannot be filled: {}: {}", .error.code, .error.text)]
pub struct FillError {
    /// The user.
    pub user: u64,
    /// The first call that failed.
    pub error: StepError,
}

/// Fills all mail files, several at the same time. The tasks are owned by this function, and end with it.
///
/// # Errors
///
/// The first error. The mail files are then filled in part.
pub async fn fill(settings: &DoorSettings, files: &MailFiles, progress: &Arc<FillProgress>) -> Result<(), FillError> {
    let mut tasks = JoinSet::new();
    for filler in 0..FILLERS.min(files.users) {
        let settings = settings.clone();
        let files = files.clone();
        let progress = Arc::clone(progress);
        tasks.spawn(async move {
            for user in (1..=files.users).skip(filler as usize).step_by(FILLERS as usize) {
                let memos = files.memos(user);
                settings.fill_mail_file(user, memos).await.map_err(|error| FillError { user, error })?;
                progress.filled.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
    }
    Ok(())
}
