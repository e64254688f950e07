//! The body of an answer: its memory while it waits for the peer, and the record of the request when it is complete.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::{Method, StatusCode};
use base::memory::MemoryBudget;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use wire::{ReadProgress, ResponseChunk};

use crate::connection::RunningRequest;
use crate::front::Front;
use crate::request_context::RequestContext;

/// The body of an answer.
pub struct ResponseBody {
    inner: Body,
    budget: MemoryBudget,
    reading: Arc<ReadProgress>,
    record: RequestRecord,
    _running: RunningRequest,
}

impl ResponseBody {
    pub(crate) fn new(
        inner: Body,
        budget: MemoryBudget,
        reading: Arc<ReadProgress>,
        (record, running): (RequestRecord, RunningRequest),
    ) -> Self {
        Self { inner, budget, reading, record, _running: running }
    }

    /// Takes memory for an outgoing frame.
    fn count(&mut self, frame: Frame<Bytes>) -> io::Result<Frame<ResponseChunk>> {
        let bytes = match frame.into_data() {
            Ok(bytes) => bytes,
            Err(other) => return Ok(Frame::trailers(other.into_trailers().unwrap_or_default())),
        };
        self.record.bytes += bytes.len() as u64;
        let memory = self.budget.acquire(bytes.len()).map_err(io::Error::other)?;
        Ok(Frame::data(ResponseChunk::new(bytes, Arc::clone(&self.reading), memory)))
    }
}

impl http_body::Body for ResponseBody {
    type Data = ResponseChunk;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let counted = frame.map(|frame| frame.map_err(io::Error::other).and_then(|frame| self.count(frame)));
        if let Some(Err(error)) = &counted {
            tracing::debug!(target: "http", %error, "an answer ends before it is complete");
            self.record.is_complete = false;
        }
        Poll::Ready(counted)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer of a protocol that is not polled after its end, as the compression does. Streams do not permit
/// it.
pub(crate) struct FusedBody {
    /// `None` behind the end.
    inner: Option<Body>,
}

impl FusedBody {
    pub(crate) fn new(inner: Body) -> Self {
        Self { inner: Some(inner) }
    }
}

impl http_body::Body for FusedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(inner).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.inner = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

/// The record of a request. It is counted and logged when it is dropped, which is when the answer is complete or the
/// connection has ended.
pub(crate) struct RequestRecord {
    pub(crate) front: Arc<Front>,
    pub(crate) context: RequestContext,
    pub(crate) method: Method,
    /// The path, without the query, which may contain secrets.
    pub(crate) path: String,
    /// The route, for the statistics.
    pub(crate) route: Option<MatchedPath>,
    pub(crate) status: StatusCode,
    pub(crate) begun: Duration,
    pub(crate) bytes: u64,
    pub(crate) is_complete: bool,
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let duration = self.front.now().saturating_sub(self.begun);
        let route = self.route.as_ref().map(MatchedPath::as_str);
        self.front.statistics().record(route, self.status, duration, self.bytes);
        tracing::debug!(
            target: "http",
            connection = self.context.peer.connection,
            peer = %self.context.peer,
            account = self.context.account(),
            method = %self.method,
            path = self.path,
            status = self.status.as_u16(),
            bytes = self.bytes,
            microseconds = duration.as_micros() as u64,
            complete = self.is_complete,
            "request"
        );
    }
}
