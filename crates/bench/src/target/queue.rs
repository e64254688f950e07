//! The queue of a server, which is empty before the next level of a search begins.

use std::io;
use std::time::Duration;

use tokio::time::{sleep, timeout};

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

/// Waits until the queue of the server with these `/metrics` is empty, at most 300 times `look_interval`.
pub async fn wait_until_empty(address: &str, look_interval: Duration) -> QueueState {
    let mut state = QueueState::Unknown;
    for _ in 0..LOOKS_MAX {
        let answer = timeout(ANSWER_TIME_MAX, Metrics::request(address)).await;
        state = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_or(QueueState::Unknown, queue_state);
        if !matches!(state, QueueState::Messages(_)) {
            break;
        }
        sleep(look_interval).await;
    }
    state
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

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
        assert_eq!(wait_until_empty(&address, Duration::ZERO).await, expected, "{pages:?}");
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
