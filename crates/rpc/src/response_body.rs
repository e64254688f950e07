//! The body of a reply: data that waits for the peer holds memory until the connection has written it, and a peer that
//! does not read is detected. [`ResponseChunk`] says why the pieces are tracked and not the body.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base::memory::MemoryBudget;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use wire::{ReadProgress, ResponseChunk};

use crate::error::Error;

/// The body of a reply.
pub struct ResponseBody {
    inner: tonic::body::Body,
    budget: MemoryBudget,
    reading: Arc<ReadProgress>,
    /// The resources that the call holds until its reply is complete.
    _held: Box<dyn Send>,
    is_over: bool,
}

impl ResponseBody {
    /// Creates the body. `held` is dropped with it.
    #[must_use]
    pub fn new(
        inner: tonic::body::Body,
        budget: MemoryBudget,
        reading: Arc<ReadProgress>,
        held: Box<dyn Send>,
    ) -> Self {
        Self { inner, budget, reading, _held: held, is_over: false }
    }

    /// Takes memory for an outgoing frame. If none is left, the reply ends with trailers that contain the error.
    fn count(&mut self, frame: Frame<Bytes>) -> Frame<ResponseChunk> {
        let bytes = match frame.into_data() {
            Ok(bytes) => bytes,
            Err(other) => return Frame::trailers(other.into_trailers().unwrap_or_default()),
        };
        match self.budget.acquire(bytes.len()) {
            Ok(memory) => Frame::data(ResponseChunk::new(bytes, Arc::clone(&self.reading), memory)),
            Err(error) => {
                self.is_over = true;
                Frame::trailers(trailers(&Error::from(error).into()))
            }
        }
    }
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if let Err(other) = status.add_header(&mut trailers) {
        tracing::error!(target: "rpc", %other, "the status of a call could not be encoded");
    }
    trailers
}

impl http_body::Body for ResponseBody {
    type Data = ResponseChunk;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map(|frame| self.count(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::Waker;
    use std::time::Duration;

    use bytes::Buf as _;
    use http_body::Body as _;
    use hyper_util::rt::TokioIo;
    use tonic::codegen::http::{Request, Response};

    use super::*;

    /// A body that consists of these pieces.
    struct Pieces(VecDeque<Bytes>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    struct World {
        budget: MemoryBudget,
        reading: Arc<ReadProgress>,
    }

    impl World {
        fn new(bytes: usize) -> Self {
            Self { budget: MemoryBudget::new(bytes), reading: Arc::default() }
        }

        fn body(&self, lengths: &[usize], held: Box<dyn Send>) -> ResponseBody {
            let pieces = lengths.iter().map(|length| Bytes::from(vec![0; *length])).collect();
            ResponseBody::new(
                tonic::body::Body::new(Pieces(pieces)),
                self.budget.clone(),
                Arc::clone(&self.reading),
                held,
            )
        }

        /// Returns the number of bytes left in the budget and the number of waiting pieces.
        fn state(&self) -> (usize, usize) {
            (self.budget.available_bytes(), self.reading.waiting_count())
        }
    }

    /// Returns the next frame.
    fn next(body: &mut ResponseBody) -> Option<Frame<ResponseChunk>> {
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(frame) = frame else { panic!("a body in memory is never late") };
        frame.map(|frame| frame.expect("failures are sent in trailers"))
    }

    fn next_piece(body: &mut ResponseBody) -> ResponseChunk {
        next(body).and_then(|frame| frame.into_data().ok()).expect("a piece")
    }

    #[test]
    fn chunk_holds_memory_until_it_is_dropped() {
        let world = World::new(100);
        let held = Arc::new(());
        let mut body = world.body(&[40, 50, 11], Box::new(Arc::clone(&held)));
        assert_eq!(world.state(), (100, 0));
        let mut first = next_piece(&mut body);
        let second = next_piece(&mut body);
        assert_eq!(world.state(), (10, 2), "a request for the next piece does not show that the last was read");
        first.advance(39);
        assert_eq!(world.state(), (10, 2));
        let trailers = next(&mut body).and_then(|frame| frame.into_trailers().ok()).expect("there is no memory");
        assert_eq!(trailers.get("grpc-status").map(|value| value.as_bytes()), Some(&b"8"[..]));
        assert!(trailers.contains_key("grpc-status-details-bin") && next(&mut body).is_none() && body.is_end_stream());
        drop(first);
        assert_eq!((world.state(), Arc::strong_count(&held)), ((50, 1), 2));
        drop(body);
        assert_eq!((world.state(), Arc::strong_count(&held)), ((50, 1), 1), "pieces outlive the body");
        drop(second);
        assert_eq!(world.state(), (100, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn stall_time_is_measured_from_the_last_read() {
        let world = World::new(100);
        let second = Duration::from_secs(1);
        tokio::time::advance(second).await;
        assert_eq!(world.reading.stalled_time(), Duration::ZERO, "nothing waits");
        let mut body = world.body(&[10, 10], Box::new(()));
        let mut first = next_piece(&mut body);
        tokio::time::advance(second).await;
        let other = next_piece(&mut body);
        assert_eq!(world.reading.stalled_time(), second);
        first.advance(1);
        assert_eq!(world.reading.stalled_time(), Duration::ZERO, "bytes were just read");
        tokio::time::advance(second).await;
        drop(first);
        assert_eq!(world.reading.stalled_time(), second, "a dropped piece does not count as read");
        drop(other);
        assert_eq!(world.reading.stalled_time(), Duration::ZERO);
    }

    /// Serves a reply of `length` bytes through hyper to a client with a window of `window` bytes. Returns the client's
    /// receive stream, and the tasks that run both sides.
    async fn serve(world: &World, length: usize, window: u32) -> (h2::RecvStream, tokio::task::JoinSet<()>) {
        let (server, client) = wire::Stream::duplex(1 << 20);
        let body = base::sync::Mutex::new(Some(world.body(&[length], Box::new(()))));
        let answer = hyper::service::service_fn(move |_| {
            let body = body.lock().take().expect("one call");
            std::future::ready(Ok::<_, Infallible>(Response::new(body)))
        });
        let mut tasks = tokio::task::JoinSet::new();
        let builder = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
        tasks.spawn(async move {
            // The connection ends with the test.
            let _ = builder.serve_connection(TokioIo::new(server), answer).await;
        });
        let mut handshake = h2::client::Builder::new();
        let handshake = handshake.initial_window_size(window).handshake::<_, Bytes>(client);
        let (sender, connection) = handshake.await.expect("the server accepts");
        tasks.spawn(async move {
            let _ = connection.await;
        });
        let request = Request::post("https://localhost/").body(()).expect("the request is valid");
        let mut sender = sender.ready().await.expect("the server accepts");
        let (response, _) = sender.send_request(request, true).expect("the request is accepted");
        (response.await.expect("the server answers").into_body(), tasks)
    }

    #[tokio::test]
    async fn reply_behind_a_small_window_holds_memory() {
        let world = World::new(10 << 20);
        let (mut reply, _tasks) = serve(&world, 8 << 20, 1).await;
        let piece = reply.data().await.expect("the reply arrives").expect("the reply arrives");
        assert_eq!((piece.len(), world.state()), (1, (2 << 20, 1)), "all but one byte waits in the connection");
        drop(reply);
        while world.state() != (10 << 20, 0) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn fully_read_reply_holds_no_memory() {
        let world = World::new(10 << 20);
        let (mut reply, _tasks) = serve(&world, 1 << 20, 65_535).await;
        let mut length = 0;
        while let Some(piece) = reply.data().await {
            let piece = piece.expect("the reply arrives");
            length += piece.len();
            reply.flow_control().release_capacity(piece.len()).expect("the data was received");
        }
        assert_eq!(length, 1 << 20);
        while world.state() != (10 << 20, 0) {
            tokio::task::yield_now().await;
        }
    }
}
