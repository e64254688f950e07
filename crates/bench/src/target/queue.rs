//! The queue of a server, which is empty before the next level of a search begins.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Target;
use super::metrics::Metrics;

/// Maximum number of looks at the queue.
const LOOKS_MAX: u32 = 300;
/// The longest time until the server answers.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// The number of messages in the queue, in `/metrics`.
const METRIC: &str = "doublet_queue_messages";

/// What is known of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// It is empty.
    Empty,
    /// The server does not tell.
    Unknown,
    /// It has not become empty in time, and has so many messages.
    Messages(u64),
}

/// Waits until the queue of a server is empty, at most 300 times `look_interval`. Its `/metrics` say how many messages
/// there are, or the files in its folders of waiting messages.
pub async fn wait_until_empty(server: &Target, look_interval: Duration) -> QueueState {
    let mut state = QueueState::Unknown;
    for _ in 0..LOOKS_MAX {
        state = match &server.metrics {
            Some(address) => {
                let answer = timeout(ANSWER_TIME_MAX, Metrics::request(address)).await;
                let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                answer.map_or(QueueState::Unknown, queue_state)
            }
            None => files_state(&server.queue_folders),
        };
        if !matches!(state, QueueState::Messages(_)) {
            break;
        }
        sleep(look_interval).await;
    }
    state
}

/// Counts the files in folders and in those within, as Postfix has them (`queue_directory`).
fn files_state(folders: &[PathBuf]) -> QueueState {
    let mut count = 0;
    let mut left = folders.to_vec();
    while let Some(folder) = left.pop() {
        // A folder that has gone, or that does not exist yet, has no messages.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            } else {
                count += 1;
            }
        }
    }
    match count {
        _ if folders.is_empty() => QueueState::Unknown,
        0 => QueueState::Empty,
        count => QueueState::Messages(count),
    }
}

fn queue_state(metrics: Metrics) -> QueueState {
    match metrics.sum(METRIC, &[]) {
        None => QueueState::Unknown,
        Some(count) if count < 1.0 => QueueState::Empty,
        Some(count) => QueueState::Messages(count as u64),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use client::Trust;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::population::people::UserNames;

    /// Serves pages one after the other, the last one for ever. Returns the address.
    pub(in crate::target) async fn serve(pages: Vec<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        tokio::spawn(async move {
            for number in 0.. {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                let page = &pages[number.min(pages.len() - 1)];
                let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{page}\n").as_bytes()).await;
            }
        });
        address
    }

    async fn check(pages: &[&str], expected: QueueState) {
        let address = serve(pages.iter().map(|page| (*page).to_owned()).collect()).await;
        let server = Target { metrics: Some(address), ..target() };
        assert_eq!(wait_until_empty(&server, Duration::ZERO).await, expected, "{pages:?}");
    }

    fn target() -> Target {
        Target {
            addresses: BTreeMap::new(),
            trust: Trust::pinned(include_bytes!("test_certificate.pem")).expect("a certificate"),
            names: UserNames::parse("m{}@a.test").expect("a pattern"),
            password: String::new(),
            metrics: None,
            queue_folders: Vec::new(),
            processes: Vec::new(),
            data_folder: None,
        }
    }

    #[tokio::test]
    async fn waiting_files_are_counted_in_all_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(wait_until_empty(&target(), Duration::ZERO).await, QueueState::Unknown);
        let names = ["active", "deferred", "none"];
        let server = Target { queue_folders: names.map(|name| folder.path().join(name)).to_vec(), ..target() };
        fs::create_dir_all(folder.path().join("deferred/A")).expect("a folder");
        fs::create_dir(folder.path().join("active")).expect("a folder");
        assert_eq!(wait_until_empty(&server, Duration::ZERO).await, QueueState::Empty);
        for name in ["active/1", "deferred/A/2"] {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        assert_eq!(wait_until_empty(&server, Duration::ZERO).await, QueueState::Messages(2));
    }

    #[tokio::test]
    async fn a_queue_is_looked_at_until_it_is_empty() {
        check(&["doublet_queue_messages 0"], QueueState::Empty).await;
        check(&["doublet_queue_messages 7", "doublet_queue_messages 2", "doublet_queue_messages 0"], QueueState::Empty)
            .await;
        check(&["doublet_queue_messages 7", "doublet_queue_messages 3"], QueueState::Messages(3)).await;
        check(&["other 1"], QueueState::Unknown).await;
    }
}
