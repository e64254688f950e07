//! A run that several processes play: the coordinator, which is a driver as well, and the parts that join it.
//!
//! [`message`] is what they tell each other; [`coordinator`] accepts the parts, sends the start signal, and adds up
//! what all parts count at a border; [`joined`] is the other side. All parts decide the phases from the same sums with
//! the same function, so they decide the same. [`record`] is what a part has measured, in its directory or sent to the
//! coordinator, and [`merge`](mod@merge) forms one outcome of the records of all parts.
//!
//! The connection between parts is not encrypted. A part proves with a token that it belongs to the run.

pub mod coordinator;
pub mod joined;
pub mod merge;
pub mod message;
pub mod record;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::phases::Border;
use crate::engine::run::RunEnd;
use crate::engine::share::Exchanged;
pub use crate::engine::share::SILENCE_MAX;
pub use coordinator::Coordinator;
pub use joined::JoinedPart;
use message::MessageError;

/// Maximum number of parts of a run.
pub const PARTS_MAX: u64 = 64;
/// The files of a part in its directory.
pub const RECORD_FILE: &str = "part.json";
/// The histograms of a part.
pub const LOG_FILE: &str = "histograms.hlog";

/// Why a part that was stopped alone is not complete.
const STOPPED: &str = "it was stopped before the end of the run";

/// Why parts do not play together.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The coordinator cannot listen, or cannot be reached.
    #[error("{address}: {source}")]
    Address {
        /// The address.
        address: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The coordinator refuses the part.
    #[error("the coordinator refuses this part: {0}")]
    Refused(String),
    /// A message cannot be sent or received.
    #[error("part {part}: {source}")]
    Message {
        /// The other part.
        part: u64,
        /// The error.
        source: MessageError,
    },
    /// A file of a part cannot be read or written, or has other contents than it should have.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The records do not belong together.
    #[error("the parts do not belong together: {0}")]
    Different(String),
}

/// Returns the directory of a part below that of the run.
pub fn part_directory(folder: &Path, part: u64) -> PathBuf {
    folder.join(format!("part-{part}"))
}

impl PartsError {
    fn of_file(file: &Path, reason: impl ToString) -> Self {
        Self::File { file: file.to_owned(), reason: reason.to_string() }
    }
}

/// The other parts of a run, as one part sees them.
#[derive(Debug, Default)]
pub enum Parts {
    /// There are none.
    #[default]
    Alone,
    /// This part is the coordinator.
    Coordinator(Coordinator),
    /// This part has joined a coordinator.
    Joined(JoinedPart),
}

impl Parts {
    /// Waits for all parts. Returns the start signal, or `None` if there are no other parts: the run begins at once.
    ///
    /// # Errors
    ///
    /// If a part cannot be reached or ends.
    pub async fn start(&mut self) -> Result<Option<Instant>, PartsError> {
        match self {
            Self::Alone => Ok(None),
            Self::Coordinator(coordinator) => coordinator.start().await.map(Some),
            Self::Joined(joined) => joined.start().await.map(Some),
        }
    }

    /// Exchanges the counts of a border. The coordinator waits `patience` for those of other parts.
    pub async fn exchange(&mut self, own: Border, patience: Duration) -> Exchanged {
        match self {
            Self::Alone => Exchanged::Counts(own),
            Self::Coordinator(coordinator) => coordinator.exchange(own, patience).await,
            Self::Joined(joined) => joined.exchange(own).await,
        }
    }

    /// Sends the other parts the reason why the run ends. Errors do not matter any more: the silence is noticed.
    pub async fn end(&mut self, end: RunEnd) {
        match self {
            Self::Alone => {}
            Self::Coordinator(coordinator) => coordinator.end(end).await,
            Self::Joined(joined) => joined.end(end).await,
        }
    }
}
