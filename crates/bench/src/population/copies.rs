//! Copies of mail files, which the server makes: `db copy` for the documents, folders and marks, and then the driver
//! changes recipient and date of a share of the documents over the native protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::fill::FillError;
use super::memos::MailFiles;
use crate::door::native::NativeSettings;
use crate::door::native::inspection::{change_copy, mail_file_path};
use crate::target::TargetError;
use crate::target::by_server::ByServer;
use crate::target::server::StartedServer;

/// The mail files that are looked at or changed at the same time.
const WORKERS: u64 = 8;
/// Maximum number of copies that one command makes.
const COPIES_PER_COMMAND: usize = 100;

/// Why mail files could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A user could not log in, or a copy could not be changed.
    #[error(transparent)]
    MailFile(#[from] FillError),
    /// The command of the server failed.
    #[error(transparent)]
    Server(#[from] TargetError),
}

/// How far the copying is.
#[derive(Debug, Default)]
pub struct CopyProgress {
    copied: AtomicU64,
    changed: AtomicU64,
}

impl CopyProgress {
    /// Returns the number of mail files that are copied, and of those that are changed.
    pub fn counts(&self) -> [u64; 2] {
        [self.copied.load(Ordering::Relaxed), self.changed.load(Ordering::Relaxed)]
    }
}

/// Returns the paths of the mail files of users, in the order of the users.
///
/// # Errors
///
/// The first user who cannot log in.
pub async fn paths(settings: &ByServer<Arc<NativeSettings>>, users: u64) -> Result<Vec<String>, FillError> {
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS.min(users) {
        let settings = settings.clone();
        tasks.spawn(async move {
            let mut found = Vec::new();
            for user in (1..=users).skip(worker as usize).step_by(WORKERS as usize) {
                let path = mail_file_path(settings.of_user(user), user)
                    .await
                    .map_err(|error| FillError::of_mail_file(user, error))?;
                found.push((user, path));
            }
            Ok::<_, FillError>(found)
        });
    }
    let mut paths = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        paths.extend(ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?);
    }
    paths.sort_unstable();
    Ok(paths.into_iter().map(|(_, path)| path).collect())
}

/// Copies the mail files of the masters to those of the other users, and changes a share of the documents. `paths` are
/// those of the mail files of all users. The copies of a mail file are on the server of its user.
///
/// # Errors
///
/// The first command or call that failed. The mail files are then copied in part.
pub async fn copy(
    servers: &ByServer<StartedServer>,
    settings: &ByServer<Arc<NativeSettings>>,
    files: &MailFiles,
    paths: &[String],
    progress: &Arc<CopyProgress>,
) -> Result<(), CopyError> {
    let path = |user: u64| paths.get(user as usize - 1).cloned().unwrap_or_default();
    for master in 1..=files.masters {
        let copies: Vec<String> = files.copies_of(master).map(path).collect();
        for part in copies.chunks(COPIES_PER_COMMAND) {
            servers.of_user(master).copy_database(&path(master), part).await?;
            progress.copied.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
    }
    Ok(change(settings, files, progress).await?)
}

/// Changes the copies, several at the same time. The tasks are owned by this function, and end with it.
async fn change(
    settings: &ByServer<Arc<NativeSettings>>,
    files: &MailFiles,
    progress: &Arc<CopyProgress>,
) -> Result<(), FillError> {
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS {
        let settings = settings.clone();
        let files = files.clone();
        let progress = Arc::clone(progress);
        tasks.spawn(async move {
            for user in (files.masters + 1..=files.users).skip(worker as usize).step_by(WORKERS as usize) {
                let changes = files.own_changes(user);
                change_copy(settings.of_user(user), user, &changes)
                    .await
                    .map_err(|error| FillError::of_mail_file(user, error))?;
                progress.changed.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
    }
    Ok(())
}
