//! `/jmap/events`: the event source (RFC 8620 §7.3), by which clients learn that something has changed.
//!
//! An idle event source holds no worker. The identifier of an event is the states themselves, so a client that comes
//! back with `Last-Event-ID` is told what it has missed, also by another server process.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::account_limits::RequestPermit;
use http::problem::Problem;
use http::{RequestContext, front::Uncompressed};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use wire::Shutdown;

use super::resource_address::EventsAddress;
use super::state_events::{StateEvent, StateEvents, state_events};
use super::{LoginEnd, RequestLogin, Service, asking_for_login};
use crate::limits::EVENT_PING_MAX;

struct Sending {
    shutdown: Shutdown,
    events: StateEvents,
    login_end: LoginEnd,
    is_one_event: bool,
    ping: Option<Duration>,
    next_ping: Instant,
    is_ended: bool,
    _permit: RequestPermit,
}

pub(super) async fn answer(
    Extension(service): Extension<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    address: EventsAddress,
    headers: HeaderMap,
) -> Response<Body> {
    match begin(&service, &context, address, &headers).await {
        Ok(sending) => {
            let stream = futures_util::stream::unfold(sending, |mut sending| async move {
                let event = sending.next().await?;
                Some((Ok::<_, Infallible>(event), sending))
            });
            let stream: Pin<Box<dyn Stream<Item = Result<Bytes, Infallible>> + Send>> = Box::pin(stream);
            let fields = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
            let mut response = (fields, Body::from_stream(stream)).into_response();
            // Events are small, and a compressor would keep them.
            response.extensions_mut().insert(Uncompressed);
            response
        }
        Err(problem) => asking_for_login(problem, &headers),
    }
}

async fn begin(
    service: &Arc<Service>,
    context: &RequestContext,
    EventsAddress { types, is_one_event, ping }: EventsAddress,
    headers: &HeaderMap,
) -> Result<Sending, Problem> {
    let RequestLogin { caller, found } = service.login(context, headers).await?;
    let permit = service.event_sources.begin(&caller.login).ok_or_else(|| {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "this account has too many event sources; close some of them")
    })?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    Ok(Sending {
        shutdown: service.parts.shutdown.clone(),
        events: state_events(service, &caller, types, last).await?,
        login_end: service.login_end(context, &found).await?,
        is_one_event,
        ping,
        next_ping: Instant::now() + ping.unwrap_or(EVENT_PING_MAX),
        is_ended: false,
        _permit: permit,
    })
}

impl Sending {
    /// Returns the next event, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_ended {
            return None;
        }
        let event = tokio::select! {
            biased;
            () = self.shutdown.draining() => return None,
            () = &mut self.login_end => return None,
            event = self.events.next() => Some(event?),
            () = sleep_until(self.next_ping) => None,
        };
        // The interval begins with the last event of either type (RFC 8620 §7.3).
        self.next_ping = Instant::now() + self.ping.unwrap_or(EVENT_PING_MAX);
        let Some(StateEvent { identifier, change }) = event else { return Some(self.ping_event()) };
        self.is_ended = self.is_one_event;
        let change = Value::Object(change);
        Some(Bytes::from(format!("id: {identifier}\nevent: state\ndata: {change}\n\n")))
    }

    /// Returns the event that shows that the connection lives. If the client wants none, it is a comment, which finds
    /// clients that have gone.
    fn ping_event(&self) -> Bytes {
        match self.ping {
            Some(interval) => {
                let seconds = interval.as_secs();
                Bytes::from(format!("event: ping\ndata: {{\"interval\":{seconds}}}\n\n"))
            }
            None => Bytes::from_static(b":\n\n"),
        }
    }
}

#[cfg(test)]
mod tests;
