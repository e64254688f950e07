//! The memory that calls may hold together: one budget for the bytes of requests and replies that are on their way.
//!
//! A body on its way in takes its bytes from the budget as they come and gives them back when the call has ended; a body on its way out takes
//! each piece for as long as the peer has not read it. When the budget is empty the call fails; others go on.
//!
//! A [`Body`] on its way out also tells its connection when the peer does not read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tonic::Status;

use crate::error::Error;

/// What is left of the memory for messages. Cheap to clone.
#[derive(Clone)]
pub struct Budget(Arc<Semaphore>);

impl Budget {
    /// Makes a budget of so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Tells how many bytes are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0.available_permits()
    }

    /// Takes so many bytes.
    pub fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Error> {
        let count = u32::try_from(bytes).map_err(|_| Error::Full(FULL))?;
        Arc::clone(&self.0).try_acquire_many_owned(count).map_err(|_| Error::Full(FULL))
    }
}

/// Bytes in front of a message: a flag and its length.
const FRAME_BYTES: usize = 5;

const FULL: &str = "the server has no memory for this call now, try again later";

/// Whether the peer of a connection reads what it is sent.
pub struct Reading {
    /// Bodies whose last piece was not taken yet.
    waiting: AtomicUsize,
    begun: Instant,
    /// Milliseconds after `begun` at which a piece was taken last.
    progress_ms: AtomicUsize,
}

impl Reading {
    /// Begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { waiting: AtomicUsize::new(0), begun: Instant::now(), progress_ms: AtomicUsize::new(0) }
    }

    /// Tells for how long the peer has not read anything of what waits for it.
    #[must_use]
    pub fn stalled(&self) -> std::time::Duration {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return std::time::Duration::ZERO;
        }
        let progress = std::time::Duration::from_millis(self.progress_ms.load(Ordering::Acquire) as u64);
        self.begun.elapsed().saturating_sub(progress)
    }

    fn advance(&self) {
        let now = usize::try_from(self.begun.elapsed().as_millis()).unwrap_or(usize::MAX);
        self.progress_ms.store(now, Ordering::Release);
    }
}

impl Default for Reading {
    fn default() -> Self {
        Self::new()
    }
}

/// A request's body: counts what comes in, and ends when that is more than its call may bring.
pub struct Incoming {
    inner: hyper::body::Incoming,
    budget: Budget,
    /// Given back when the call has been served.
    taken: Option<OwnedSemaphorePermit>,
    /// How much more may come; none where content streams through.
    left: Option<usize>,
    /// How large its message may be.
    bytes_max: usize,
    /// What was taken for the piece before, of content that streams through.
    passing: Option<OwnedSemaphorePermit>,
}

impl Incoming {
    /// Counts the bytes of a message that is taken as a whole, and its frame's.
    #[must_use]
    pub fn whole(inner: hyper::body::Incoming, budget: Budget, bytes_max: usize) -> Self {
        let left = Some(bytes_max.saturating_add(FRAME_BYTES));
        Self { inner, budget, taken: None, left, bytes_max, passing: None }
    }

    /// Counts the bytes of messages that are taken one after the other.
    #[must_use]
    pub fn streamed(inner: hyper::body::Incoming, budget: Budget) -> Self {
        Self { inner, budget, taken: None, left: None, bytes_max: 0, passing: None }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        let permit = self.budget.take(bytes)?;
        match &mut self.left {
            None => self.passing = Some(permit),
            Some(left) => {
                let too_much = || Error::Limit { what: "bytes of a message", max: self.bytes_max as u64 };
                *left = left.checked_sub(bytes).ok_or_else(too_much)?;
                match &mut self.taken {
                    Some(taken) => taken.merge(permit),
                    none => *none = Some(permit),
                }
            }
        }
        Ok(())
    }
}

impl http_body::Body for Incoming {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(context)) else { return Poll::Ready(None) };
        let frame = match frame {
            Ok(frame) => frame,
            Err(_) => return Poll::Ready(Some(Err(Status::cancelled("the request broke off")))),
        };
        if let Some(data) = frame.data_ref()
            && let Err(error) = self.count(data.remaining())
        {
            return Poll::Ready(Some(Err(error.into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

/// A reply's body: holds budget for the piece that the peer has not taken yet.
pub struct Body {
    inner: tonic::body::Body,
    budget: Budget,
    reading: Arc<Reading>,
    /// What the call holds for as long as its reply is on its way.
    _held: Box<dyn Send>,
    piece: Option<OwnedSemaphorePermit>,
}

impl Body {
    /// Makes it; `held` is dropped with it.
    #[must_use]
    pub fn new(inner: tonic::body::Body, budget: Budget, reading: Arc<Reading>, held: Box<dyn Send>) -> Self {
        Self { inner, budget, reading, _held: held, piece: None }
    }

    /// Gives back what was taken for the piece before.
    fn taken(&mut self) {
        if self.piece.take().is_some() {
            self.reading.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        self.reading.advance();
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.taken();
    }
}

impl http_body::Body for Body {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.taken();
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            match self.budget.take(data.remaining()) {
                Ok(permit) => {
                    self.reading.waiting.fetch_add(1, Ordering::AcqRel);
                    self.piece = Some(permit);
                }
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use bytes::Bytes;
    use http_body::Body as _;

    use super::*;

    /// A body of these pieces.
    struct Pieces(VecDeque<Bytes>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    /// Takes the next piece; gives its length, or that it was refused.
    fn next(body: &mut Body) -> Option<Result<usize, tonic::Code>> {
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(frame) = frame else { panic!("a body in memory is never late") };
        frame.map(|frame| frame.map(|frame| frame.data_ref().map_or(0, Bytes::len)).map_err(|status| status.code()))
    }

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100);
        let first = budget.take(60).expect("there is room");
        assert!(matches!(budget.take(41), Err(Error::Full(_))), "more than is left");
        assert_eq!(budget.left(), 40, "what was refused takes nothing");
        let second = budget.take(40).expect("there is just as much");
        assert!(budget.take(0).is_ok() && budget.take(1).is_err());
        drop(first);
        assert_eq!(budget.left(), 60);
        drop(second);
        assert_eq!(budget.left(), 100);
        assert!(matches!(budget.take(usize::MAX), Err(Error::Full(_))), "more than can be counted");
        assert!(Budget::new(usize::MAX).take(1 << 30).is_ok());
    }

    #[test]
    fn a_reply_holds_memory_for_the_piece_that_is_on_its_way() {
        let (budget, reading, held) = (Budget::new(100), Arc::new(Reading::new()), Arc::new(()));
        let waiting = |reading: &Reading| reading.waiting.load(Ordering::Acquire);
        let pieces = [40, 70, 101, 5].map(|length| Bytes::from(vec![0; length]));
        let inner = tonic::body::Body::new(Pieces(pieces.into()));
        let mut body = Body::new(inner, budget.clone(), Arc::clone(&reading), Box::new(Arc::clone(&held)));
        assert_eq!((budget.left(), waiting(&reading)), (100, 0));
        assert_eq!(next(&mut body), Some(Ok(40)));
        assert_eq!((budget.left(), waiting(&reading)), (60, 1));
        assert_eq!(next(&mut body), Some(Ok(70)), "the piece before was read");
        assert_eq!((budget.left(), waiting(&reading)), (30, 1));
        assert_eq!(next(&mut body), Some(Err(tonic::Code::ResourceExhausted)));
        assert_eq!((budget.left(), waiting(&reading)), (100, 0), "what was refused waits for nobody");
        assert_eq!(next(&mut body), Some(Ok(5)));
        let other = budget.take(95).expect("there is room");
        drop(body);
        assert_eq!((budget.left(), waiting(&reading), Arc::strong_count(&held)), (5, 0, 1), "it goes with the reply");
        drop(other);
    }

    #[test]
    fn who_has_nothing_to_read_is_not_late() {
        let reading = Reading::new();
        assert_eq!(reading.stalled(), std::time::Duration::ZERO);
        reading.advance();
        assert_eq!(reading.stalled(), std::time::Duration::ZERO, "nothing waits");
        let budget = Budget::new(10);
        let reading = Arc::new(reading);
        let inner = tonic::body::Body::new(Pieces([Bytes::from_static(b"x")].into()));
        let mut body = Body::new(inner, budget, Arc::clone(&reading), Box::new(()));
        assert_eq!(next(&mut body), Some(Ok(1)));
        reading.progress_ms.store(usize::MAX >> 1, Ordering::Release);
        assert_eq!(reading.stalled(), std::time::Duration::ZERO, "it has just read");
        assert_eq!(next(&mut body), None);
        assert_eq!(reading.waiting.load(Ordering::Acquire), 0);
    }
}
