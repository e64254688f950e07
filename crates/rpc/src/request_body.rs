//! The body of a request: splits it into gRPC messages, so that each message is measured before it is decoded.
//!
//! A message is held back until it is complete. Then it is decompressed if necessary, and its fields are counted
//! ([`proto::decode_cost`]). The memory of its bytes and of its decoded form is taken from the budget. Only then is it
//! passed on, always uncompressed. If a call takes one message, the message is passed on when the request has ended,
//! and the code that serves the call keeps its memory ([`RequestMemory`]). If a call takes several messages, the memory
//! of one is kept until the next.
//!
//! Promises: no decompressed message is larger than its call allows, and no message is passed on without being counted;
//! a body that receives nothing for [`READ_TIME_MAX`] ends with an error; a request that is cut off is never mistaken
//! for one that has ended.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};

use base::memory::{MemoryBudget, MemoryPermit, MeteredBuffer};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body::Frame;
use proto::decode_cost::{self, DecodeRefused};
use tokio::time::Sleep;
use tonic::Status;

use crate::error::Error;
use crate::limits::{DECODED_BYTES_MAX, READ_TIME_MAX};
use crate::memory::RequestMemory;

/// Length in bytes of the gRPC message prefix: the compression flag and the length of the message.
const HEAD_BYTES: usize = 5;

/// The limits for the request of a call.
pub struct RequestLimits {
    /// The path of the call, as in [`proto::METHODS`].
    pub path: &'static str,
    /// The budget for its memory.
    pub budget: MemoryBudget,
    /// Maximum size of a decompressed message.
    pub bytes_max: usize,
    /// Maximum number of messages.
    pub messages_max: usize,
    /// The holder of the message's memory if the call takes one message; `None` if it takes several.
    pub memory: Option<RequestMemory>,
}

/// The body of a request.
pub struct RequestBody<B = hyper::body::Incoming> {
    inner: B,
    limits: RequestLimits,
    /// Received bytes that have not been processed yet.
    data: Bytes,
    /// The received bytes of the current message's prefix.
    head: Vec<u8>,
    is_packed: bool,
    /// The announced length of the current message.
    length: usize,
    content: Option<MeteredBuffer>,
    /// The complete message of a call that takes one, until the request has ended.
    ready: Option<Bytes>,
    /// The memory of the previous message if the call takes several.
    previous_memory: Option<MemoryPermit>,
    count: usize,
    /// The timer that runs while nothing is received.
    idle_timer: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl<B> RequestBody<B> {
    /// Creates the body.
    #[must_use]
    pub fn new(inner: B, limits: RequestLimits) -> Self {
        Self {
            inner,
            limits,
            data: Bytes::new(),
            head: Vec::with_capacity(HEAD_BYTES),
            is_packed: false,
            length: 0,
            content: None,
            ready: None,
            previous_memory: None,
            count: 0,
            idle_timer: None,
            is_over: false,
        }
    }

    /// Adds received bytes to the current message. Returns the message with its prefix when it is complete.
    fn advance(&mut self) -> Result<Option<Bytes>, Error> {
        if self.data.is_empty() {
            return Ok(None);
        }
        if self.head.len() < HEAD_BYTES {
            let missing = HEAD_BYTES - self.head.len();
            let piece = self.data.split_to(missing.min(self.data.len()));
            self.head.extend_from_slice(&piece);
            if self.head.len() < HEAD_BYTES {
                return Ok(None);
            }
            self.begin()?;
        }
        let Some(content) = &mut self.content else { return Ok(None) };
        let missing = HEAD_BYTES + self.length - content.bytes().len();
        let piece = self.data.split_to(missing.min(self.data.len()));
        content.append(&piece, HEAD_BYTES + self.length)?;
        if piece.len() < missing {
            return Ok(None);
        }
        self.head.clear();
        self.content.take().map(|content| self.finish(content)).transpose()
    }

    /// Checks the prefix of a message.
    fn begin(&mut self) -> Result<(), Error> {
        let [flag, ref length @ ..] = self.head[..] else { return Ok(()) };
        let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        self.count += 1;
        if self.count > self.limits.messages_max {
            return Err(Error::invalid("too many messages for this call"));
        }
        if flag > 1 {
            return Err(Error::invalid("the compression flag of a message must be 0 or 1"));
        }
        if length > self.limits.bytes_max {
            return Err(too_long_error(self.limits.bytes_max));
        }
        self.is_packed = flag == 1;
        self.length = length;
        let mut content = MeteredBuffer::new(&self.limits.budget);
        content.append(&message_head(length), HEAD_BYTES)?;
        self.content = Some(content);
        Ok(())
    }

    /// Measures a complete message and takes the memory that it needs.
    fn finish(&mut self, content: MeteredBuffer) -> Result<Bytes, Error> {
        let limits = &self.limits;
        let content = if self.is_packed {
            decompress(&content.bytes()[HEAD_BYTES..], &limits.budget, limits.bytes_max)?
        } else {
            content
        };
        let heap = decode_cost::heap_bytes(limits.path, &content.bytes()[HEAD_BYTES..], DECODED_BYTES_MAX);
        let heap = heap.map_err(|unfit| match unfit {
            DecodeRefused::TooLarge => {
                Error::Limit { what: "bytes of a decoded message", max: DECODED_BYTES_MAX as u64 }
            }
            DecodeRefused::Malformed => Error::invalid("the message does not have the type that the call requires"),
        })?;
        let (mut bytes, mut memory) = content.into_parts();
        memory.merge(limits.budget.acquire(heap)?);
        let length = bytes.len() - HEAD_BYTES;
        bytes[..HEAD_BYTES].copy_from_slice(&message_head(length));
        match &limits.memory {
            Some(request_memory) => request_memory.set(memory),
            None => self.previous_memory = Some(memory),
        }
        Ok(bytes.into())
    }
}

fn too_long_error(bytes_max: usize) -> Error {
    Error::Limit { what: "bytes of a message", max: bytes_max as u64 }
}

/// Returns the prefix of an uncompressed message.
fn message_head(length: usize) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}

/// Decompresses a message. The result starts with space for its prefix.
fn decompress(packed: &[u8], budget: &MemoryBudget, bytes_max: usize) -> Result<MeteredBuffer, Error> {
    let mut unpacked = MeteredBuffer::new(budget);
    unpacked.append(&message_head(0), HEAD_BYTES)?;
    let mut decoder = GzDecoder::new(packed);
    let mut piece = [0; 4_096];
    loop {
        let length = decoder
            .read(&mut piece)
            .map_err(|_| Error::invalid("a message marked as compressed is not valid gzip data"))?;
        if length == 0 {
            return Ok(unpacked);
        }
        if unpacked.bytes().len() + length > HEAD_BYTES + bytes_max {
            return Err(too_long_error(bytes_max));
        }
        unpacked.append(&piece[..length], HEAD_BYTES + bytes_max)?;
    }
}

impl<B> RequestBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        loop {
            match self.advance()? {
                Some(message) if self.limits.memory.is_none() => return Poll::Ready(Ok(Some(message))),
                Some(message) => self.ready = Some(message),
                None => {}
            }
            if !self.data.is_empty() {
                continue;
            }
            match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Pending => return self.wait(context),
                Poll::Ready(None) => return Poll::Ready(self.end()),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(cut_off_status())),
                Poll::Ready(Some(Ok(frame))) => {
                    self.idle_timer = None;
                    // Trailers of a request are ignored.
                    self.data = frame.into_data().unwrap_or_default();
                }
            }
        }
    }

    /// Waits for more data. Returns an error after [`READ_TIME_MAX`].
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        let silence = self.idle_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(READ_TIME_MAX)));
        silence.as_mut().poll(context).map(|()| Err(Status::deadline_exceeded("no data received for too long")))
    }

    fn end(&mut self) -> Result<Option<Bytes>, Status> {
        self.is_over = true;
        // This point is also reached if the client resets the stream with NO_ERROR.
        if !self.inner.is_end_stream() {
            return Err(cut_off_status());
        }
        if !self.head.is_empty() {
            return Err(Error::invalid("the request ends in the middle of a message").into());
        }
        Ok(self.ready.take())
    }
}

/// Returns the status of a request that was cut off. It is not `CANCELLED`, because tonic treats that as the regular
/// end of a request.
fn cut_off_status() -> Status {
    Status::aborted("the request was cut off")
}

impl<B> http_body::Body for RequestBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let outcome = std::task::ready!(self.poll(context));
        self.is_over |= outcome.is_err();
        Poll::Ready(outcome.transpose().map(|message| message.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write;
    use std::task::Waker;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http_body::Body as _;
    use tonic::Code;

    use super::*;
    use crate::limits::LOGIN_MESSAGE_BYTES_MAX;

    const LOGIN: &str = "/doublet.v1.Sessions/Login";
    const ATTACH: &str = "/doublet.v1.Notes/AttachFile";
    const CREATE: &str = "/doublet.v1.Notes/CreateNote";
    const BUDGET_BYTES: usize = 256 << 20;

    /// A body that arrives in pieces, and the way it ends.
    struct Pieces {
        pieces: VecDeque<Vec<u8>>,
        end: End,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum End {
        Regular,
        GivenUp,
        Broken,
        Never,
    }

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match (self.pieces.pop_front(), self.end) {
                (Some(piece), _) => Poll::Ready(Some(Ok(Frame::data(piece.into())))),
                (None, End::Regular | End::GivenUp) => Poll::Ready(None),
                (None, End::Broken) => Poll::Ready(Some(Err(Status::unknown("reset")))),
                (None, End::Never) => Poll::Pending,
            }
        }

        fn is_end_stream(&self) -> bool {
            self.pieces.is_empty() && self.end == End::Regular
        }
    }

    struct World {
        budget: MemoryBudget,
        memory: RequestMemory,
        body: RequestBody<Pieces>,
    }

    impl World {
        /// Creates a body that arrives in pieces of `size` bytes. The call takes one message, or several for
        /// [`ATTACH`].
        fn new(path: &'static str, bytes_max: usize, bytes: &[u8], (size, end): (usize, End)) -> Self {
            let budget = MemoryBudget::new(BUDGET_BYTES);
            let memory = RequestMemory::default();
            let is_whole = path != ATTACH;
            let limits = RequestLimits {
                path,
                budget: budget.clone(),
                bytes_max,
                messages_max: if is_whole { 1 } else { 3 },
                memory: is_whole.then(|| memory.clone()),
            };
            let pieces = bytes.chunks(size).map(<[u8]>::to_vec).collect();
            Self { budget, memory, body: RequestBody::new(Pieces { pieces, end }, limits) }
        }

        /// Returns the next message without its prefix, or `None` at the end.
        fn next(&mut self) -> Option<Result<Vec<u8>, Code>> {
            let frame = Pin::new(&mut self.body).poll_frame(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(frame) = frame else { panic!("all has come") };
            frame.map(|frame| match frame {
                Ok(frame) => {
                    let bytes = frame.into_data().unwrap_or_default();
                    assert_eq!(bytes[..HEAD_BYTES], message_head(bytes.len() - HEAD_BYTES));
                    Ok(bytes[HEAD_BYTES..].to_vec())
                }
                Err(status) => Err(status.code()),
            })
        }
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        [&message_head(message.len()), message].concat()
    }

    fn compressed(message: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(message).expect("memory takes it");
        let packed = encoder.finish().expect("memory takes it");
        let mut framed = framed(&packed);
        framed[0] = 1;
        framed
    }

    /// Returns an encoded text field with `length` bytes, as the first field of a message.
    fn text(length: usize) -> Vec<u8> {
        let mut field = vec![0x0a];
        prost::encoding::encode_varint(length as u64, &mut field);
        field.resize(field.len() + length, b'x');
        field
    }

    fn check(path: &'static str, bytes_max: usize, bytes: &[u8], expected: Result<&[u8], Code>) {
        for size in [1_000_000, 7, 1] {
            let size = size.max(bytes.len() / 1_000);
            let mut world = World::new(path, bytes_max, bytes, (size, End::Regular));
            let message = world.next().expect("a message or an error");
            assert_eq!(message.as_deref().map_err(|code| *code), expected, "{path}, {size} bytes a piece");
            assert_eq!(world.next(), None);
            drop((world.body, world.memory));
            assert_eq!(world.budget.available_bytes(), BUDGET_BYTES);
        }
    }

    #[test]
    fn login_message_limit_applies_after_decompression() {
        let small = text(8_189);
        let large = text(8_190);
        assert_eq!((small.len(), large.len()), (LOGIN_MESSAGE_BYTES_MAX, LOGIN_MESSAGE_BYTES_MAX + 1));
        let max = LOGIN_MESSAGE_BYTES_MAX;
        check(LOGIN, max, &framed(&small), Ok(&small));
        check(LOGIN, max, &compressed(&small), Ok(&small));
        check(LOGIN, max, &framed(&large), Err(Code::ResourceExhausted));
        check(LOGIN, max, &compressed(&large), Err(Code::ResourceExhausted));
        check(LOGIN, max, &compressed(&text(8_000_000)), Err(Code::ResourceExhausted));
        check(LOGIN, max, &framed(&[]), Ok(&[]));
        check(LOGIN, max, &compressed(&[]), Ok(&[]));
    }

    #[test]
    fn malformed_and_memory_expanding_messages_are_refused() {
        let empty_items = [0x1a, 0].repeat(4_000_000);
        let max = 8 << 20;
        check(CREATE, max, &framed(&empty_items), Err(Code::ResourceExhausted));
        check(CREATE, max, &compressed(&empty_items), Err(Code::ResourceExhausted));
        check(CREATE, max, &framed(&[0x1a, 9, 1]), Err(Code::InvalidArgument));
        check(CREATE, max, &[2, 0, 0, 0, 0], Err(Code::InvalidArgument));
        check(CREATE, max, &[1, 0, 0, 0, 1, 7], Err(Code::InvalidArgument));
        check(CREATE, max, &[framed(&[]), framed(&[])].concat(), Err(Code::InvalidArgument));
    }

    #[test]
    fn request_holds_memory_until_its_call_has_ended() {
        let message = text(1_000);
        let mut world = World::new(LOGIN, 8_192, &compressed(&message), (9, End::Regular));
        assert_eq!(world.next(), Some(Ok(message.clone())));
        drop(world.body);
        let held = BUDGET_BYTES - world.budget.available_bytes();
        assert!(held >= 2 * message.len(), "the message counts unpacked and decoded, not compressed: {held}");
        drop(world.memory);
        assert_eq!(world.budget.available_bytes(), BUDGET_BYTES);
    }

    #[test]
    fn streams_hold_memory_for_one_message() {
        let message = [vec![0x12, 100], vec![7; 100]].concat();
        let bytes = [framed(&message), compressed(&message), framed(&message), framed(&message)].concat();
        let mut world = World::new(ATTACH, 1_000, &bytes, (50, End::Regular));
        for _ in 0..3 {
            assert_eq!(world.next(), Some(Ok(message.clone())));
            let held = BUDGET_BYTES - world.budget.available_bytes();
            assert!((200..3_000).contains(&held), "{held}");
        }
        assert_eq!(world.next(), Some(Err(Code::InvalidArgument)), "one too many");
        assert_eq!(world.next(), None);
    }

    #[test]
    fn interrupted_request_body_is_an_error() {
        let message = framed(&text(100));
        for (path, end) in [(LOGIN, End::GivenUp), (LOGIN, End::Broken), (ATTACH, End::GivenUp), (ATTACH, End::Broken)]
        {
            let header = framed(&[0x12, 1, 7]);
            let bytes = if path == ATTACH { &header } else { &message };
            let mut world = World::new(path, 8_192, bytes, (64, end));
            if path == ATTACH {
                assert!(matches!(world.next(), Some(Ok(_))));
            }
            assert_eq!(world.next(), Some(Err(Code::Aborted)));
        }
        let mut world = World::new(LOGIN, 8_192, &message[..50], (64, End::Regular));
        assert_eq!(world.next(), Some(Err(Code::InvalidArgument)));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_request_times_out() {
        let mut world = World::new(ATTACH, 8_192, &framed(&[0x12, 1, 7])[..6], (64, End::Never));
        let begun = tokio::time::Instant::now();
        let frame = std::future::poll_fn(|context| Pin::new(&mut world.body).poll_frame(context)).await;
        let code = frame.expect("an end").map(drop).map_err(|status| status.code());
        assert_eq!((code, begun.elapsed()), (Err(Code::DeadlineExceeded), READ_TIME_MAX));
    }
}
