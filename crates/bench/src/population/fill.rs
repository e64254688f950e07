//! The filling of mail files before a run: documents in the inbox of each user, through its door.
//!
//! Messages are numbered over all mail files, and each has a stream of its own. So the contents depend neither on the
//! order in which the mail files are filled nor on the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::content::{Content, ContentSize};
use crate::door::StepError;
use crate::door::choice::DoorSettings;
use crate::door::native::filling::StoredMemo;
use crate::plan::sizes;
use crate::plan::stream::{Draw, Stream};
use crate::workload::profile::SizeProfile;
use crate::workload::units::Share;

/// The mail files that are filled at the same time.
const FILLERS: u64 = 8;

/// What the mail files get.
#[derive(Debug, Clone)]
pub struct MailFiles {
    /// The seed.
    pub seed: u64,
    /// The users, each of whom has a mail file.
    pub users: u64,
    /// The messages of each mail file.
    pub documents: u64,
    /// Their sizes.
    pub profile: SizeProfile,
    /// The factor by which they are made smaller.
    pub size_scale: f64,
    /// The share of the messages that are unread.
    pub unread: Share,
}

impl MailFiles {
    /// Returns the messages of a user in their order, which are generated one by one.
    pub fn memos(&self, user: u64) -> impl Iterator<Item = StoredMemo> + Send + use<> {
        let files = self.clone();
        let first = user.saturating_sub(1) * self.documents;
        (0..self.documents).map(move |index| files.memo(user, first + index))
    }

    fn memo(&self, user: u64, number: u64) -> StoredMemo {
        let mut stream = Stream::new(self.seed, Draw::Message, [number, 0, 0]);
        let sender = 1 + stream.below(self.users);
        let row = *sizes::draw(&self.profile, &mut stream);
        let is_unread = stream.below(Share::ALL.millionths().into()) < self.unread.millionths().into();
        let size = ContentSize::scaled(&row, self.size_scale);
        let content = Content::generate(&mut stream.into_numbers(), size);
        // A message to oneself comes from the next user.
        let sender = if sender == user && self.users > 1 { sender % self.users + 1 } else { sender };
        StoredMemo { sender, content, is_unread }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn files(seed: u64) -> MailFiles {
        let profile = SizeProfile::server_load();
        let unread = Share::from_f64(0.1).expect("a share");
        MailFiles { seed, users: 20, documents: 30, profile, size_scale: 0.001, unread }
    }

    #[test]
    fn mail_files_follow_from_the_seed() {
        let contents = |seed, user| {
            let memos = files(seed).memos(user);
            memos.map(|memo| (memo.sender, memo.content, memo.is_unread)).collect::<Vec<_>>()
        };
        assert_eq!(contents(1, 3), contents(1, 3));
        assert_ne!(contents(1, 3), contents(2, 3));
        assert_ne!(contents(1, 3), contents(1, 4));
        assert_eq!(contents(1, 20).len(), 30);
    }

    #[test]
    fn senders_are_others_and_a_tenth_is_unread() {
        let files = MailFiles { documents: 100, ..files(1) };
        let memos: Vec<(u64, StoredMemo)> =
            (1..=20).flat_map(|user| files.memos(user).map(move |memo| (user, memo))).collect();
        assert!(memos.iter().all(|(user, memo)| memo.sender != *user && (1..=20).contains(&memo.sender)));
        let unread = memos.iter().filter(|(_, memo)| memo.is_unread).count();
        // 200 of 2,000, with a standard deviation of 13.
        assert!((150..=250).contains(&unread), "{unread}");
    }

    #[test]
    fn a_user_alone_writes_to_oneself() {
        let files = MailFiles { users: 1, ..files(1) };
        assert!(files.memos(1).all(|memo| memo.sender == 1));
    }
}
