//! A connection: the handshake, requests, and the reading of replies.
//!
//! A task moves the bytes of the connection. It belongs to the connection and ends with it.

use std::future::poll_fn;
use std::io::Read as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use flate2::read::GzDecoder;
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::malformed;
use super::origin::Origin;
use crate::door::call::{CONNECT_CODE, CONNECTION_CODE, CallError};

/// Bytes of a reply over HTTP/2 that the server may send before they are read; of a stream, and of the connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// The time without bytes after which a connection over HTTP/2 is examined, and the time for the answer.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(60);
const KEEP_ALIVE_TIME_MAX: Duration = Duration::from_secs(20);

/// The body of a request, or nothing.
#[derive(Debug)]
pub(super) struct RequestBody(Option<Bytes>);

impl RequestBody {
    /// Creates the body of a request.
    pub(super) fn new(content: Option<Bytes>) -> Self {
        Self(content.filter(|bytes| !bytes.is_empty()))
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

enum Sender {
    One(http1::SendRequest<RequestBody>),
    Two(http2::SendRequest<RequestBody>),
}

/// A request that was not answered.
#[derive(Debug)]
pub(super) struct SendError {
    /// `true` if no byte of it was sent.
    pub(super) is_unsent: bool,
    /// The reason.
    pub(super) reason: String,
}

impl SendError {
    /// Returns the error of the call.
    pub(super) fn into_call_error(self) -> CallError {
        CallError::lost(CONNECTION_CODE, self.reason)
    }
}

/// A connection to a server.
pub(super) struct Connection {
    sender: Sender,
    /// The task that moves the bytes. It ends when this is dropped.
    _driver: JoinSet<()>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("has_streams", &self.has_streams()).finish()
    }
}

impl Connection {
    /// Connects, and begins the version of HTTP that the server has chosen.
    pub(super) async fn open(origin: &Origin) -> Result<Self, CallError> {
        let failed = |reason: String| CallError::lost(CONNECT_CODE, format!("{}: {reason}", origin.address));
        let socket = TcpStream::connect(&origin.address).await.map_err(|error| failed(error.to_string()))?;
        socket.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let connector = TlsConnector::from(std::sync::Arc::clone(&origin.tls));
        let stream = connector.connect(origin.server_name.clone(), origin.traffic.counted(socket)).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        let has_streams = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = TokioIo::new(stream);
        let mut driver = JoinSet::new();
        let sender = if has_streams {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).initial_stream_window_size(STREAM_WINDOW_BYTES);
            builder.initial_connection_window_size(CONNECTION_WINDOW_BYTES);
            builder.keep_alive_interval(KEEP_ALIVE_INTERVAL).keep_alive_timeout(KEEP_ALIVE_TIME_MAX);
            let (sender, connection) = builder.handshake(stream).await.map_err(|error| failed(error.to_string()))?;
            // The requests report how the connection ends.
            driver.spawn(async move { drop(connection.await) });
            Sender::Two(sender)
        } else {
            let handshake = http1::Builder::new().handshake(stream).await;
            let (sender, connection) = handshake.map_err(|error| failed(error.to_string()))?;
            driver.spawn(async move { drop(connection.await) });
            Sender::One(sender)
        };
        Ok(Self { sender, _driver: driver })
    }

    /// Returns `true` if several requests share the connection: it is HTTP/2.
    pub(super) fn has_streams(&self) -> bool {
        matches!(self.sender, Sender::Two(_))
    }

    /// Returns `true` if the connection is closed.
    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::One(sender) => sender.is_closed(),
            Sender::Two(sender) => sender.is_closed(),
        }
    }

    /// Sends a request and waits for the head of its reply.
    pub(super) async fn send(&mut self, request: Request<RequestBody>) -> Result<Response<Incoming>, SendError> {
        let failed = |error: &hyper::Error, is_unsent| SendError { is_unsent, reason: reason(error) };
        match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await.map_err(|error| failed(&error, true))?;
                let sent = sender.try_send_request(request).await;
                sent.map_err(|mut error| failed_request(error.take_message().is_some(), error.error()))
            }
            Sender::Two(sender) => {
                sender.ready().await.map_err(|error| failed(&error, true))?;
                let sent = sender.try_send_request(request).await;
                sent.map_err(|mut error| failed_request(error.take_message().is_some(), error.error()))
            }
        }
    }
}

fn failed_request(is_unsent: bool, error: &hyper::Error) -> SendError {
    SendError { is_unsent, reason: reason(error) }
}

/// Returns an error with its causes.
fn reason(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The encoding of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentCoding {
    Identity,
    Gzip,
}

/// Reads a reply to its end.
pub(super) async fn read_body(
    mut body: Incoming,
    coding: ContentCoding,
    bytes_max: usize,
) -> Result<Vec<u8>, CallError> {
    let mut bytes = Vec::new();
    while let Some(piece) = next_piece(&mut body).await? {
        if bytes.len() + piece.len() > bytes_max {
            return Err(too_long(bytes_max as u64));
        }
        bytes.extend_from_slice(&piece);
    }
    if coding == ContentCoding::Identity {
        return Ok(bytes);
    }
    let mut decoded = Vec::new();
    let mut reader = GzDecoder::new(&*bytes).take(bytes_max as u64 + 1);
    reader.read_to_end(&mut decoded).map_err(|error| malformed(format!("gzip: {error}")))?;
    if decoded.len() > bytes_max { Err(too_long(bytes_max as u64)) } else { Ok(decoded) }
}

/// Reads a reply to its end and drops it. Returns its length.
pub(super) async fn drain_body(mut body: Incoming, bytes_max: u64) -> Result<u64, CallError> {
    let mut length = 0;
    while let Some(piece) = next_piece(&mut body).await? {
        length += piece.len() as u64;
        if length > bytes_max {
            return Err(too_long(bytes_max));
        }
    }
    Ok(length)
}

fn too_long(bytes_max: u64) -> CallError {
    malformed(format!("the reply is longer than {bytes_max} bytes"))
}

async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, CallError> {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
            Some(Err(error)) => return Err(CallError::lost(CONNECTION_CODE, reason(&error))),
        }
    }
}

/// A reply without end, which is read and dropped until this is dropped.
#[derive(Debug)]
pub(in crate::door) struct OpenStream {
    /// The task that reads it. It ends with the stream, or when this is dropped.
    reader: JoinSet<()>,
}

impl OpenStream {
    /// Begins to read a reply. `connection` is that of the reply if nothing else uses it.
    pub(super) fn new(mut body: Incoming, connection: Option<Connection>) -> Self {
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            while let Ok(Some(_)) = next_piece(&mut body).await {}
            drop(connection);
        });
        Self { reader }
    }

    /// Returns `true` if the server has ended the stream.
    pub(in crate::door) fn is_ended(&mut self) -> bool {
        self.reader.try_join_next().is_some() || self.reader.is_empty()
    }
}
