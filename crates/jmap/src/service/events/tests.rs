//! Tests of the times of events, with the clock of the runtime.

use futures_util::stream;
use http::account_limits::AccountLimits;
use serde_json::Map;

use super::*;

const PING: Duration = Duration::from_secs(5);

/// Returns an event source whose states change once, after 3 seconds.
fn sending(ping: Option<Duration>) -> Sending {
    let event = stream::once(async {
        let _ = tokio::time::timeout(Duration::from_secs(3), std::future::pending::<()>()).await;
        StateEvent { identifier: "x".to_owned(), change: Map::new() }
    });
    Sending {
        shutdown: Shutdown::new(),
        events: Box::pin(event.chain(stream::pending())),
        login_end: Box::pin(std::future::pending()),
        is_one_event: false,
        ping,
        next_ping: Instant::now() + ping.unwrap_or(EVENT_PING_MAX),
        is_ended: false,
        _permit: AccountLimits::new(1, 1).begin("alice").expect("the first one"),
    }
}

/// Returns the next event, with the number of seconds since the beginning.
async fn next(sending: &mut Sending, begun: Instant) -> (String, u64) {
    let event = sending.next().await.expect("the source has not ended");
    (String::from_utf8(event.to_vec()).expect("an event is a text"), begun.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_due_after_the_interval_without_an_event() {
    let begun = Instant::now();
    let mut source = sending(Some(PING));
    assert_eq!(next(&mut source, begun).await, ("id: x\nevent: state\ndata: {}\n\n".to_owned(), 3));
    let ping = "event: ping\ndata: {\"interval\":5}\n\n".to_owned();
    assert_eq!(next(&mut source, begun).await, (ping.clone(), 8));
    assert_eq!(next(&mut source, begun).await, (ping, 13));
}

#[tokio::test(start_paused = true)]
async fn a_comment_is_due_five_minutes_after_an_event() {
    let begun = Instant::now();
    let mut source = sending(None);
    assert_eq!(next(&mut source, begun).await.1, 3);
    assert_eq!(next(&mut source, begun).await, (":\n\n".to_owned(), 303));
}
